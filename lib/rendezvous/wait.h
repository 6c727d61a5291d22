/* SPDX-License-Identifier: MIT */
/*
 * wait.h - look until all wanted records are there
 *
 * Owns all waiting: what each look asks for, the pauses between looks, the deadline, and what was
 * seen of each record.  What else it learns meanwhile is that of watch.h, and the sentence about
 * what did not arrive that of unmet.h.  Knows nothing of verbs.
 */
#ifndef BEEST_WAIT_H
#define BEEST_WAIT_H

#include "lib/rendezvous/wanted.h"

/*
 * -ETIMEDOUT: the sentence names what did not arrive and what is known of it; -ECANCELED;
 * -EADDRINUSE: another process has this rank; -EPROTO: others have another list of servers or
 * number of ranks; -ESHUTDOWN, -ECONNABORTED: an author that is waited for has left or failed; else
 * the last error of see(), each(), the decoder (-EBADMSG, -EPROTONOSUPPORT) or the server.  If the
 * limit is one look, -EAGAIN takes the place of all that a deadline would go on waiting for: the
 * sentence gives the cause.
 */
int beest_wait_run(struct beest_registry *registry, struct beest_wait *wait);

/*
 * Writes what is known of a missing record: "no queue pair 'b' (key ...) was published".
 * Returns the error of this record alone; -EAGAIN if the limit is one look.
 */
int beest_wait_say(struct beest_registry *registry, const struct beest_wait *wait,
		   const struct beest_wait_get *get, char *text, size_t size);

#endif
