/* SPDX-License-Identifier: MIT */
/*
 * wishes.h - what was seen against what is wished for
 *
 * Owns the judgement of one look and the sentence about what did not come.  Pure:
 * values in, verdict out.  Knows nothing of servers and clocks.
 */
#ifndef BEEST_WISHES_H
#define BEEST_WISHES_H

#include <stdbool.h>

#include "lib/rendezvous/board.h"

typedef char beest_key[BEEST_KEY_MAX + 1];

/* Forgets what a former wait left in them. */
void beest_wishes_start(struct beest_wish *wishes, size_t count);

static inline bool beest_wish_pending(const struct beest_wish *wish)
{
	return !wish->bytes;
}

/*
 * The answer for one pending wish, absent or not.  0: granted, the bytes of @value
 * are the wish's now, or still pending; negative: what its accept() returned.
 */
int beest_wish_judge(struct beest_wish *wish, const char *key, struct beest_kv_value *value,
		     const struct beest_log *log);

/*
 * When time is up: the errno of the first refused record, else -ETIMEDOUT.  @after
 * ("after 30 s") and @server ("server h:1 answers") go into the sentence.
 */
int beest_wishes_expired(const struct beest_wish *wishes, beest_key *keys,
			 size_t count, const char *after, const char *server);

#endif
