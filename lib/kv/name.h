/* SPDX-License-Identifier: MIT */
/*
 * name.h - the addresses of one server
 *
 * Owns the resolution of its name and the choice of the address in use.  The name service may
 * take any time, so a thread that ends with the answer asks it: no caller waits longer than it
 * wants, and all callers wait for the same answer.  Knows nothing of connections, and learns from
 * its caller how they fared.
 *
 * The address that has answered is used until two new connections in a row fail there.  Then the
 * others are tried in turn, and the name is resolved again, once a second, as long as they fail:
 * the server may have moved.  A name that cannot be resolved is asked for again, too.
 */
#ifndef BEEST_NAME_H
#define BEEST_NAME_H

#include <stddef.h>

#include "lib/base/parse.h"
#include "lib/kv/memcached.h"

#define BEEST_NAME_ADDRESSES 8		/* of a name that are used, at most */

struct beest_name;

/* Begins to resolve the name.  Its addresses live as long as it does.  NULL: no memory. */
struct beest_name *beest_name_new(const struct beest_hostport *server);
void beest_name_free(struct beest_name *name);	/* accepts NULL */

/* As configured. */
const char *beest_name_text(const struct beest_name *name);

/*
 * The address in use.  -EADDRNOTAVAIL: the name was not resolved by the @deadline, or within a
 * quarter of a second; -EMFILE, -ENFILE: no descriptor is left to do it.
 */
int beest_name_address(struct beest_name *name, int64_t deadline,
		       const struct beest_memcached_address **address);

/* For sentences: the configured text and, if it is a name, the address in use. */
const char *beest_name_label(const struct beest_name *name);

/* All addresses that are known now.  Returns their number. */
size_t beest_name_addresses(struct beest_name *name, const struct beest_memcached_address
			    *addresses[BEEST_NAME_ADDRESSES]);

void beest_name_answered(struct beest_name *name, const struct beest_memcached_address *address);

/* A new connection to @address failed with the negative errno @ret. */
void beest_name_failed(struct beest_name *name, const struct beest_memcached_address *address,
		       int ret);

/* Has any address answered yet? */
bool beest_name_is_proven(const struct beest_name *name);

#endif
