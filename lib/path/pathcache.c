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
	struct beest_pathrec route;
};

void beest_pathcache_start(struct beest_pathcache *router, int64_t timeout)
{
	pthread_mutex_init(&router->lock, NULL);
	router->known = NULL;
	router->timeout = timeout;
}

static void drop(struct beest_pathcache_row **at)
{
	struct beest_pathcache_row *known = *at;

	*at = known->next;
	free(known);
}

void beest_pathcache_stop(struct beest_pathcache *router)
{
	while (router->known)
		drop(&router->known);
	pthread_mutex_destroy(&router->lock);
}

static bool same(const struct beest_ipaddr *a, const struct beest_ipaddr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static struct beest_pathcache_row **look(struct beest_pathcache *router, const struct beest_pathcache_end *own,
					 const struct beest_pathcache_end *peer, uint8_t tos)
{
	struct beest_pathcache_row **at;

	for (at = &router->known; *at; at = &(*at)->next)
		if (same(&(*at)->from, own->ip) && same(&(*at)->to, peer->ip) &&
		    (*at)->tos == tos)
			break;
	return at;
}

static bool recall(struct beest_pathcache *router, const struct beest_pathcache_end *own,
		   const struct beest_pathcache_end *peer, uint8_t tos, struct beest_pathrec *route)
{
	struct beest_pathcache_row *known;
	bool found;

	pthread_mutex_lock(&router->lock);
	known = *look(router, own, peer, tos);
	found = known && same(&known->gid, peer->gid) && known->lid == peer->lid;
	if (found)
		*route = known->route;
	pthread_mutex_unlock(&router->lock);
	return found;
}

/* Two threads may have asked for the same: the later answer stays. */
static int remember(struct beest_pathcache *router, const struct beest_pathcache_end *own,
		    const struct beest_pathcache_end *peer, uint8_t tos,
		    const struct beest_pathrec *route)
{
	struct beest_pathcache_row *known = calloc(1, sizeof(*known)), **at;

	if (!known)
		return beest_fail(ENOMEM, "no memory for a path");

	known->from = *own->ip;
	known->to = *peer->ip;
	known->gid = *peer->gid;
	known->lid = peer->lid;
	known->tos = tos;
	known->route = *route;

	pthread_mutex_lock(&router->lock);
	at = look(router, own, peer, tos);
	if (*at)
		drop(at);
	known->next = router->known;
	router->known = known;
	pthread_mutex_unlock(&router->lock);
	return 0;
}

static int no_address(const char *what, const struct beest_pathcache_end *end)
{
	bool infiniband = !end->ethernet;

	return beest_fail(EADDRNOTAVAIL, "%s%s has no IP address, by which rdma_cm would know "
			  "it%s", what, end->label, infiniband ? ": InfiniBand needs "
			  "IPoIB (the kernel module ib_ipoib) with an address" : "");
}

static int check_addresses(const struct beest_pathcache_end *own,
			   const struct beest_pathcache_end *peer)
{
	const struct beest_ipaddr *from = own->ip, *to = peer->ip;
	char mine[INET6_ADDRSTRLEN], theirs[INET6_ADDRSTRLEN];

	if (beest_ipaddr_is_zero(from))
		return no_address("the own port ", own);
	if (beest_ipaddr_is_zero(to))
		return no_address("", peer);
	if (beest_ipaddr_is_ipv4(from) != beest_ipaddr_is_ipv4(to))
		return beest_fail(EPROTO, "the address family differs: %s here (%s) but %s at %s: "
				  "set device.family or device.addr",
				  beest_ipaddr_ip_text(from, mine, sizeof(mine)), own->label,
				  beest_ipaddr_ip_text(to, theirs, sizeof(theirs)), peer->label);
	return 0;
}

int beest_pathcache_find(struct beest_pathcache *router, const struct beest_pathcache_end *own,
			 const struct beest_pathcache_end *peer, unsigned int scope, uint8_t tos,
			 struct beest_pathrec *route)
{
	struct beest_rdmacm_query question = {
		.from = own->ip,
		.to = peer->ip,
		.scope = scope,
		.tos = tos,
		.deadline = beest_clock_deadline(router->timeout),
	};
	int ret;

	ret = check_addresses(own, peer);
	if (ret < 0)
		return ret;
	if (recall(router, own, peer, tos, route))
		return 0;

	ret = beest_rdmacm_resolve(&question, route);
	return ret < 0 ? ret : remember(router, own, peer, tos, route);
}

void beest_pathcache_forget(struct beest_pathcache *router, const struct beest_ipaddr *ip)
{
	struct beest_pathcache_row **at = &router->known;

	pthread_mutex_lock(&router->lock);
	while (*at)
		if (same(&(*at)->to, ip))
			drop(at);
		else
			at = &(*at)->next;
	pthread_mutex_unlock(&router->lock);
}
