/* SPDX-License-Identifier: MIT */
/*
 * pathcache.h - remembers paths to peers, so that each is queried once
 *
 * Owns the paths that rdmacm found, by local address and peer's address: a query for every queue
 * pair would overload the subnet administrator of a large fabric.  Knows nothing of how a queue
 * pair uses a path.
 */
#ifndef BEEST_PATHCACHE_H
#define BEEST_PATHCACHE_H

#include <pthread.h>

#include "lib/base/endpoint.h"
#include "lib/path/rdmacm.h"

struct beest_pathcache_row;

struct beest_pathcache {
	pthread_mutex_t lock;		/* covers known; not held during a query */
	struct beest_pathcache_row *known;
};

void beest_pathcache_start(struct beest_pathcache *cache);
void beest_pathcache_stop(struct beest_pathcache *cache);

/*
 * Finds the path between two ends by their IP addresses.  @label: of the local port, for
 * sentences.  @scope, @tos and @limit: see struct beest_rdmacm_query.  A path that was found for
 * another LID or GID of this peer is not used.  -EADDRNOTAVAIL: an end has no IP address;
 * -EPROTO: the address families differ; -ENOMEM; or an error of beest_rdmacm_resolve().
 */
int beest_pathcache_find(struct beest_pathcache *cache, const struct beest_endpoint *local,
			 const char *label, const struct beest_endpoint *remote,
			 unsigned int scope, uint8_t tos, const struct beest_limit *limit,
			 struct hartebeest_path *path);

/* Drops the stored path to @ip, which failed, so that the next find queries.  NULL: all paths. */
void beest_pathcache_forget(struct beest_pathcache *cache, const struct beest_ipaddr *ip);

#endif
