/* SPDX-License-Identifier: MIT */
/* waiting.c - see waiting.h */
#include "config.h"

#include "lib/base/clock.h"
#include "lib/rendezvous/waiting.h"

const struct beest_wait_get *beest_waiting_missing(const struct waiting *w)
{
	size_t i = 0;

	while (i < w->wait->count && w->wait->gets[i].got)
		i++;

	return i < w->wait->count ? &w->wait->gets[i] : NULL;
}

const char *beest_waiting_unstored(const struct waiting *w)
{
	size_t i = 0;

	while (i < w->wait->own_count && beest_waiting_is_stored(w, i))
		i++;

	return i < w->wait->own_count ? w->wait->own_keys[i] : NULL;
}

int64_t beest_waiting_until(const struct waiting *w)
{
	int64_t until = beest_limit_look(w->wait->limit);
	size_t i;

	for (i = 0; i < w->count && w->wait->limit->once; i++)
		if (!w->wants[i].idle && (i == 0 || w->wants[i].server != w->wants[i - 1].server))
			until = BEEST_MAX(until, beest_look_until(w->registry, w->wants[i].server,
								  w->wait->limit));

	return until;
}
