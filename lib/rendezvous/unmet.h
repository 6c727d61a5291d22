/* SPDX-License-Identifier: MIT */
/*
 * unmet.h - the sentences about a wait in which something did not arrive
 *
 * Owns also the questions whose answers only make these better.  Changes nothing that the wait
 * depends on.
 */
#ifndef BEEST_UNMET_H
#define BEEST_UNMET_H

#include "lib/rendezvous/waiting.h"

/* As beest_wait_say(), with the error of the record alone. */
int beest_unmet_say(struct beest_registry *registry, const struct beest_wait *wait,
		    const struct beest_wait_get *get, char *text, size_t size);

/* Returns @ret, and adds to the current sentence what the wait was for. */
int beest_unmet_add(const struct waiting *w, int ret);

/*
 * Names absent records first, then those that are not accepted, which often wait for the absent
 * ones, then malformed ones.  The first one gives the error.  @limit: the wait's, or how long it
 * has lasted so far.
 */
int beest_unmet_fail(struct waiting *w, const struct beest_limit *limit);

/* Logs who of those that are waited for has ended.  False: none, as far as is known. */
bool beest_unmet_log(const struct waiting *w);

#endif
