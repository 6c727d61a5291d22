/* SPDX-License-Identifier: MIT */
/* pathcache.c - see pathcache.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/lock.h"
#include "lib/path/pathcache.h"

/* The key of a path.  Compared as bytes, padding included: clear it before filling it. */
struct path_key {
	struct beest_ipaddr from, to;	/* IP addresses */
	struct beest_ipaddr gid;	/* of the peer */
	uint16_t lid;
	uint8_t tos;
};

struct beest_pathcache_row {
	struct beest_pathcache_row *next;
	struct path_key key;
	struct hartebeest_path path;
};

void beest_pathcache_start(struct beest_pathcache *cache)
{
	pthread_mutex_init(&cache->lock, NULL);
	cache->known = NULL;
}

void beest_pathcache_stop(struct beest_pathcache *cache)
{
	beest_pathcache_forget(cache, NULL);
	pthread_mutex_destroy(&cache->lock);
}

static int fail_no_address(const char *whose, const struct beest_endpoint *end)
{
	return beest_fail(EADDRNOTAVAIL, "%s has no IP address, which rdma_cm needs%s", whose,
			  end->link_layer == IBV_LINK_LAYER_ETHERNET ? "" :
			  ": set up IPoIB (the kernel module ib_ipoib) with an address");
}

static int check_addresses(const struct beest_endpoint *local, const char *label,
			   const struct beest_endpoint *remote)
{
	const char *peer = BEEST_PEER_TEXT(remote);
	char own[96];

	snprintf(own, sizeof(own), "the local port %s", label);
	if (beest_ipaddr_is_zero(&local->ip))
		return fail_no_address(own, local);
	if (beest_ipaddr_is_zero(&remote->ip))
		return fail_no_address(peer, remote);
	if (beest_ipaddr_is_ipv4(&local->ip) != beest_ipaddr_is_ipv4(&remote->ip))
		return beest_fail(EPROTO, "the address families differ: %s here (%s), %s at %s: "
				  "set device.family or device.addr", BEEST_IP_TEXT(&local->ip),
				  label, BEEST_IP_TEXT(&remote->ip), peer);
	return 0;
}

static bool path_recall(struct beest_pathcache *cache, const struct path_key *key,
			struct hartebeest_path *path)
{
	const struct beest_pathcache_row *row;
	BEEST_HOLD(&cache->lock);

	for (row = cache->known; row; row = row->next)
		if (memcmp(&row->key, key, sizeof(*key)) == 0)
			break;
	if (row)
		*path = row->path;
	return row != NULL;
}

/* Two threads may have asked for the same path: path_recall() then finds the later answer. */
static int path_keep(struct beest_pathcache *cache, const struct path_key *key,
		     const struct hartebeest_path *path)
{
	struct beest_pathcache_row *row = calloc(1, sizeof(*row));
	BEEST_HOLD(&cache->lock);

	if (!row)
		return beest_fail(ENOMEM, "no memory for a path");
	row->key = *key;
	row->path = *path;
	row->next = cache->known;
	cache->known = row;
	return 0;
}

int beest_pathcache_find(struct beest_pathcache *cache, const struct beest_endpoint *local,
			 const char *label, const struct beest_endpoint *remote,
			 unsigned int scope, uint8_t tos, const struct beest_limit *limit,
			 struct hartebeest_path *path)
{
	struct beest_rdmacm_query query = {
		.from = &local->ip,
		.to = &remote->ip,
		.scope = scope,
		.tos = tos,
		.limit = limit,
	};
	struct path_key key;
	int ret;

	ret = check_addresses(local, label, remote);
	if (ret < 0)
		return ret;

	memset(&key, 0, sizeof(key));
	key.from = local->ip;
	key.to = remote->ip;
	key.gid = remote->gid;
	key.lid = remote->lid;
	key.tos = tos;
	if (path_recall(cache, &key, path))
		return 0;

	ret = beest_rdmacm_resolve(&query, path);
	return ret < 0 ? ret : path_keep(cache, &key, path);
}

void beest_pathcache_forget(struct beest_pathcache *cache, const struct beest_ipaddr *ip)
{
	struct beest_pathcache_row *row, **at = &cache->known;
	BEEST_HOLD(&cache->lock);

	while ((row = *at)) {
		if (ip && memcmp(&row->key.to, ip, sizeof(*ip)) != 0) {
			at = &row->next;
			continue;
		}
		*at = row->next;
		free(row);
	}
}
