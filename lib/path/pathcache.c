/* SPDX-License-Identifier: MIT */
/* pathcache.c - see pathcache.h */
#include "config.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/path/pathcache.h"

struct beest_pathcache_row {
	struct beest_pathcache_row *next;
	struct beest_ipaddr from, to;	/* IP addresses */
	uint8_t tos;
	struct beest_ipaddr gid;		/* of the peer, when the path was found */
	uint16_t lid;
	struct beest_pathrec path;
};

void beest_pathcache_start(struct beest_pathcache *cache, int64_t timeout)
{
	pthread_mutex_init(&cache->lock, NULL);
	cache->known = NULL;
	cache->timeout = timeout;
}

static void row_drop(struct beest_pathcache_row **at)
{
	struct beest_pathcache_row *known = *at;

	*at = known->next;
	free(known);
}

void beest_pathcache_stop(struct beest_pathcache *cache)
{
	while (cache->known)
		row_drop(&cache->known);
	pthread_mutex_destroy(&cache->lock);
}

static bool is_same_address(const struct beest_ipaddr *a, const struct beest_ipaddr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static struct beest_pathcache_row **row_look(struct beest_pathcache *cache,
					     const struct beest_pathcache_end *local,
					     const struct beest_pathcache_end *peer,
					     uint8_t tos)
{
	struct beest_pathcache_row **at;

	for (at = &cache->known; *at; at = &(*at)->next)
		if (is_same_address(&(*at)->from, local->ip) &&
		    is_same_address(&(*at)->to, peer->ip) && (*at)->tos == tos)
			break;
	return at;
}

static bool row_recall(struct beest_pathcache *cache, const struct beest_pathcache_end *local,
		       const struct beest_pathcache_end *peer, uint8_t tos,
		       struct beest_pathrec *path)
{
	struct beest_pathcache_row *known;
	bool found;

	pthread_mutex_lock(&cache->lock);
	known = *row_look(cache, local, peer, tos);
	found = known && is_same_address(&known->gid, peer->gid) && known->lid == peer->lid;
	if (found)
		*path = known->path;
	pthread_mutex_unlock(&cache->lock);
	return found;
}

/* Two threads may have asked for the same path: the later answer is kept. */
static int row_remember(struct beest_pathcache *cache, const struct beest_pathcache_end *local,
			const struct beest_pathcache_end *peer, uint8_t tos,
			const struct beest_pathrec *path)
{
	struct beest_pathcache_row *known = calloc(1, sizeof(*known)), **at;

	if (!known)
		return beest_fail(ENOMEM, "no memory for a path");

	known->from = *local->ip;
	known->to = *peer->ip;
	known->gid = *peer->gid;
	known->lid = peer->lid;
	known->tos = tos;
	known->path = *path;

	pthread_mutex_lock(&cache->lock);
	at = row_look(cache, local, peer, tos);
	if (*at)
		row_drop(at);
	known->next = cache->known;
	cache->known = known;
	pthread_mutex_unlock(&cache->lock);
	return 0;
}

static int fail_no_address(const char *whose, const struct beest_pathcache_end *end)
{
	return beest_fail(EADDRNOTAVAIL, "%s%s has no IP address, which rdma_cm needs%s",
			  whose, end->label, end->ethernet ? "" :
			  ": set up IPoIB (the kernel module ib_ipoib) with an address");
}

static int check_addresses(const struct beest_pathcache_end *local,
			   const struct beest_pathcache_end *peer)
{
	const struct beest_ipaddr *from = local->ip, *to = peer->ip;
	char mine[INET6_ADDRSTRLEN], theirs[INET6_ADDRSTRLEN];

	if (beest_ipaddr_is_zero(from))
		return fail_no_address("the local port ", local);
	if (beest_ipaddr_is_zero(to))
		return fail_no_address("", peer);
	if (beest_ipaddr_is_ipv4(from) != beest_ipaddr_is_ipv4(to))
		return beest_fail(EPROTO, "the address families differ: %s here (%s), %s at %s: "
				  "set device.family or device.addr",
				  beest_ipaddr_ip_text(from, mine, sizeof(mine)), local->label,
				  beest_ipaddr_ip_text(to, theirs, sizeof(theirs)), peer->label);
	return 0;
}

int beest_pathcache_find(struct beest_pathcache *cache, const struct beest_pathcache_end *local,
			 const struct beest_pathcache_end *peer, unsigned int scope, uint8_t tos,
			 struct beest_pathrec *path)
{
	struct beest_rdmacm_query question = {
		.from = local->ip,
		.to = peer->ip,
		.scope = scope,
		.tos = tos,
		.deadline = beest_clock_deadline(cache->timeout),
	};
	int ret;

	ret = check_addresses(local, peer);
	if (ret < 0)
		return ret;
	if (row_recall(cache, local, peer, tos, path))
		return 0;

	ret = beest_rdmacm_resolve(&question, path);
	return ret < 0 ? ret : row_remember(cache, local, peer, tos, path);
}

void beest_pathcache_forget(struct beest_pathcache *cache, const struct beest_ipaddr *ip)
{
	struct beest_pathcache_row **at = &cache->known;

	pthread_mutex_lock(&cache->lock);
	while (*at)
		if (is_same_address(&(*at)->to, ip))
			row_drop(at);
		else
			at = &(*at)->next;
	pthread_mutex_unlock(&cache->lock);
}
