/* SPDX-License-Identifier: MIT */
/*
 * watch.h - what a wait learns besides the records that it wants
 *
 * Owns when presence, news, failures and lists of servers are read, whether another process has
 * this rank, what follows when an author has left, and the comparison of servers.  Knows nothing
 * of sentences about missing records.
 */
#ifndef BEEST_WATCH_H
#define BEEST_WATCH_H

#include "lib/rendezvous/waiting.h"

/* How many wants the two below may add. */
size_t beest_watch_most(const struct beest_registry *registry);

void beest_watch_start(struct waiting *w);

/* Adds the wants by which a look learns whether this rank is alone, if it does not know. */
void beest_watch_identify(struct waiting *w);

/* If it is time, sets @w->watching, and adds the wants of a watching look. */
void beest_watch_want(struct waiting *w);
void beest_watch_next(struct waiting *w);

/* Judges what the look has read: 0, or the error that ends the wait. */
int beest_watch_meet(struct waiting *w);
int beest_watch_judge(struct waiting *w);

/* All that is wanted has been read.  Returns 1. */
int beest_watch_met(struct waiting *w);

/* -EPROTO: the first missing record may be on another server of the same name. */
int beest_watch_compare(const struct waiting *w);

/* The same when it is time, which begins again when something has arrived. */
void beest_watch_compare_start(struct waiting *w);
int beest_watch_compare_due(struct waiting *w);

#endif
