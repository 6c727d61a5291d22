/* SPDX-License-Identifier: MIT */
/* router.c - see router.h */
#include "config.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "lib/router.h"

struct beest_known {
	struct beest_known *next;
	struct beest_gid from, to;	/* IP addresses */
	uint8_t tos;
	struct beest_gid gid;		/* of the peer, when the path was found */
	uint16_t lid;
	struct beest_route route;
};

void beest_router_start(struct beest_router *router, int64_t timeout)
{
	pthread_mutex_init(&router->lock, NULL);
	router->known = NULL;
	router->timeout = timeout;
}

static void drop(struct beest_known **at)
{
	struct beest_known *known = *at;

	*at = known->next;
	free(known);
}

void beest_router_stop(struct beest_router *router)
{
	while (router->known)
		drop(&router->known);
	pthread_mutex_destroy(&router->lock);
}

static bool same(const struct beest_gid *gid, const uint8_t raw[16])
{
	return memcmp(gid->raw, raw, sizeof(gid->raw)) == 0;
}

static struct beest_known **look(struct beest_router *router, const struct beest_qp_payload *own,
				 const struct beest_qp_payload *peer, uint8_t tos)
{
	struct beest_known **at;

	for (at = &router->known; *at; at = &(*at)->next)
		if (same(&(*at)->from, own->address) && same(&(*at)->to, peer->address) &&
		    (*at)->tos == tos)
			break;
	return at;
}

static bool recall(struct beest_router *router, const struct beest_qp_payload *own,
		   const struct beest_qp_payload *peer, uint8_t tos, struct beest_route *route)
{
	struct beest_known *known;
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
static int remember(struct beest_router *router, const struct beest_qp_payload *own,
		    const struct beest_qp_payload *peer, uint8_t tos,
		    const struct beest_route *route)
{
	struct beest_known *known = calloc(1, sizeof(*known)), **at;

	if (!known)
		return beest_fail(ENOMEM, "no memory for a path");

	memcpy(known->from.raw, own->address, sizeof(known->from.raw));
	memcpy(known->to.raw, peer->address, sizeof(known->to.raw));
	memcpy(known->gid.raw, peer->gid, sizeof(known->gid.raw));
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

static int no_address(const char *whose, const struct beest_qp_payload *card)
{
	bool infiniband = card->link_layer != IBV_LINK_LAYER_ETHERNET;

	return beest_fail(EADDRNOTAVAIL, "%s port %s has no IP address, by which rdma_cm would "
			  "know it%s", whose, card->device, infiniband ? ": InfiniBand needs "
			  "IPoIB (the kernel module ib_ipoib) with an address" : "");
}

static int check_addresses(const struct beest_qp_payload *own,
			   const struct beest_qp_payload *peer)
{
	const struct beest_gid *from = (const struct beest_gid *)own->address;
	const struct beest_gid *to = (const struct beest_gid *)peer->address;
	char mine[INET6_ADDRSTRLEN], theirs[INET6_ADDRSTRLEN];

	if (beest_gid_is_zero(from))
		return no_address("the own", own);
	if (beest_gid_is_zero(to))
		return no_address("the peer's", peer);
	if (beest_gid_is_ipv4(from) != beest_gid_is_ipv4(to))
		return beest_fail(EPROTO, "the address family differs: %s here (%s) but %s at the "
				  "peer (%s): set device.family or device.addr",
				  beest_gid_ip_text(from, mine, sizeof(mine)), own->device,
				  beest_gid_ip_text(to, theirs, sizeof(theirs)), peer->device);
	return 0;
}

int beest_router_find(struct beest_router *router, const struct beest_qp_payload *own,
		      const struct beest_qp_payload *peer, unsigned int scope, uint8_t tos,
		      struct beest_route *route)
{
	struct beest_question question = {
		.from = (const struct beest_gid *)own->address,
		.to = (const struct beest_gid *)peer->address,
		.scope = scope,
		.tos = tos,
		.deadline = beest_deadline(router->timeout),
	};
	int ret;

	ret = check_addresses(own, peer);
	if (ret < 0)
		return ret;
	if (recall(router, own, peer, tos, route))
		return 0;

	ret = beest_resolve(&question, route);
	return ret < 0 ? ret : remember(router, own, peer, tos, route);
}

void beest_router_forget(struct beest_router *router, const struct beest_qp_payload *peer)
{
	struct beest_known **at = &router->known;

	pthread_mutex_lock(&router->lock);
	while (*at)
		if (same(&(*at)->to, peer->address))
			drop(at);
		else
			at = &(*at)->next;
	pthread_mutex_unlock(&router->lock);
}
