/* SPDX-License-Identifier: MIT */
/*
 * guestbook.h - do all ranks name the same servers?
 *
 * Ranks with different lists look for the same key on different servers and wait for
 * each other in vain.  So every rank puts its rank record under one key on each server
 * of its list, whoever signed there before: what it finds before is a leftover or not,
 * what it finds after it has signed was written by somebody who is alive.  Lists that
 * have no server in common can not be told.
 *
 * Owns that key and what was seen there.  Knows nothing of waiting.
 */
#ifndef BEEST_GUESTBOOK_H
#define BEEST_GUESTBOOK_H

#include <stdint.h>

#include "lib/kv/kv.h"
#include "lib/base/log.h"
#include "lib/rendezvous/record.h"

/* The last part of the key; no rank is called so. */
#define BEEST_GUESTBOOK_NAME "servers"

struct beest_guestbook;

/* @key: of BEEST_GUESTBOOK_NAME.  -ENOMEM. */
int beest_guestbook_open(struct beest_guestbook **guestbook, struct beest_kv *exchange,
			 const char *key, const struct beest_log *log);
void beest_guestbook_close(struct beest_guestbook *guestbook);

/*
 * Signs with @bytes, the encoded rank record of @author, where that is not done, and
 * looks who has signed since where it is.  -EPROTO: somebody with another list, who is
 * then told in turn.  A server that fails is passed over: another call tries again.
 */
int beest_guestbook_visit(struct beest_guestbook *guestbook,
			  const struct beest_author *author, const void *bytes, size_t size,
			  int64_t ttl, int64_t deadline);

/* "rank 1 ... had another list", "" when nobody had; for the sentence of a timeout. */
void beest_guestbook_suspicion(struct beest_guestbook *guestbook, char *text, size_t size);

/* Takes one's own signature away where it is the last. */
void beest_guestbook_leave(struct beest_guestbook *guestbook,
			   const struct beest_author *author, int64_t deadline);

#endif
