/* SPDX-License-Identifier: MIT */
/*
 * router.h - paths to peers, each asked for once
 *
 * Owns the paths that lib/resolve found, by local and peer's address: the subnet
 * administrator of a big fabric does not stand a query for every queue pair.  Knows
 * nothing of what a queue pair does with one.
 */
#ifndef BEEST_ROUTER_H
#define BEEST_ROUTER_H

#include <pthread.h>

#include "lib/record.h"
#include "lib/resolve.h"

struct beest_known;

struct beest_router {
	pthread_mutex_t lock;		/* covers known; not held while asking */
	struct beest_known *known;
	int64_t timeout;		/* of one question, ns */
};

void beest_router_start(struct beest_router *router, int64_t timeout);
void beest_router_stop(struct beest_router *router);

/*
 * The path between two ends by the IP addresses in their cards.  @scope and @tos as in
 * lib/resolve.  A path that was found for another LID or GID of this peer counts no
 * more.  -EADDRNOTAVAIL: one of the ends has no IP address; -EPROTO: their families
 * differ; else as beest_resolve().
 */
int beest_router_find(struct beest_router *router, const struct beest_qp_payload *own,
		      const struct beest_qp_payload *peer, unsigned int scope, uint8_t tos,
		      struct beest_route *route);

/* Asks anew next time: what is known of the way to this peer led nowhere. */
void beest_router_forget(struct beest_router *router, const struct beest_qp_payload *peer);

#endif
