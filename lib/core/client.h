/* SPDX-License-Identifier: MIT */
/*
 * client.h - the requests of this context for services
 *
 * Owns how a request gets into the list of its service, and that it stays there until its
 * client leaves, whatever its server loses.  Knows nothing of who listens.
 */
#ifndef BEEST_CLIENT_H
#define BEEST_CLIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "include/hartebeest.h"
#include "lib/base/limit.h"
#include "lib/base/text.h"

struct beest_directory;
struct beest_registry;

struct beest_client {
	pthread_mutex_t lock;		/* of all below; not held while talking to a server */
	struct beest_pending *pending;
	struct beest_pending *moving;	/* being looked after; NULL: none */
	uint32_t drawn;			/* the last number of a request; atomic */
};

void beest_client_start(struct beest_client *client);

/* Call before the registry closes, so that no list names its requests any longer. */
void beest_client_settle(struct beest_client *client);

void beest_client_end(struct beest_client *client);

/* @name has passed beest_directory_check(), and @data has at most BEEST_REQUEST_DATA bytes. */
int beest_client_ask(struct beest_client *client, struct beest_registry *registry,
		     const char *name, const void *data, size_t length,
		     struct hartebeest_client *request, const struct beest_limit *limit);

/*
 * Withdraws a request of this context.  -ENOENT: it is none of these, without a sentence; -EAGAIN,
 * or the error of a server: call again, or it goes with a later look.
 */
int beest_client_leave(struct beest_client *client, const struct beest_directory *directory,
		       const struct hartebeest_client *request);

/*
 * Appends requests again that their server has lost.  Called after each look in vain; costs
 * nothing if there is nothing to do.
 */
void beest_client_keep(struct beest_client *client);

/*
 * If a request of this context has the peer's @key: asks once who listens to its service, and adds
 * why no queue pair of that key was published.
 */
void beest_client_explain(struct beest_client *client, const char *key, struct beest_text *text);

#endif
