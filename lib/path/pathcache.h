/* SPDX-License-Identifier: MIT */
/*
 * pathcache.h - paths to peers, each asked for once
 *
 * Owns the paths that rdmacm found, by local address and peer's address: a query for
 * every queue pair would be too much for the subnet administrator of a big fabric.
 * Knows nothing of what a queue pair does with a path.
 */
#ifndef BEEST_PATHCACHE_H
#define BEEST_PATHCACHE_H

#include <pthread.h>

#include "lib/base/endpoint.h"
#include "lib/path/rdmacm.h"

struct beest_pathcache_row;

struct beest_pathcache {
	pthread_mutex_t lock;		/* covers known; not held while asking */
	struct beest_pathcache_row *known;
};

void beest_pathcache_start(struct beest_pathcache *cache);
void beest_pathcache_stop(struct beest_pathcache *cache);

/*
 * The path between two ends by their IP addresses.  @label: of the local port.  @scope, @tos
 * and @limit as in struct beest_rdmacm_query.  A path found for another LID or GID of this
 * peer is not used.  -EADDRNOTAVAIL: one of the ends has no IP address; -EPROTO: their families
 * differ; else as beest_rdmacm_resolve().
 */
int beest_pathcache_find(struct beest_pathcache *cache, const struct beest_endpoint *local,
			 const char *label, const struct beest_endpoint *remote,
			 unsigned int scope, uint8_t tos, const struct beest_limit *limit,
			 struct hartebeest_path *path);

/* The next find asks again: the stored path to this peer did not work.  NULL: all paths. */
void beest_pathcache_forget(struct beest_pathcache *cache, const struct beest_ipaddr *ip);

#endif
