/* SPDX-License-Identifier: MIT */
/* waiting.c - see waiting.h */
#include "config.h"

#include "lib/base/clock.h"
#include "lib/rendezvous/waiting.h"

int64_t beest_waiting_until(const struct waiting *w)
{
	int64_t until = beest_limit_look(w->limit);
	size_t i;

	for (i = 0; i < w->count && w->limit->once; i++)
		if (!w->wants[i].idle && (i == 0 || w->wants[i].server != w->wants[i - 1].server))
			until = BEEST_MAX(until, beest_look_until(w->registry, w->wants[i].server,
								  w->limit));

	return until;
}

