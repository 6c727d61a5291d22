/* SPDX-License-Identifier: MIT */
/*
 * pool.c - addresses and idle sessions of one server
 *
 * Idle sessions lie in slots that are emptied and filled by single atomic steps:
 * no lock that another thread could hold across fork(2).
 */
#include "config.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/error.h"
#include "lib/kv/pool.h"

/* A name's label tells where it led: "server node1:11211 (10.0.0.1): ...". */
static void address_add(struct beest_pool *server, const char *host)
{
	struct beest_memcached_address *address = &server->addresses[server->address_count++];

	address->port = server->port;
	snprintf(address->host, sizeof(address->host), "%s", host);
	if (strstr(server->text, host))
		snprintf(address->label, sizeof(address->label), "%s", server->text);
	else
		snprintf(address->label, sizeof(address->label), "%s (%s)", server->text, host);
}

static int name_resolve(struct beest_pool *server, const char *name)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *info = NULL, *at;
	char host[256];
	int err;

	err = getaddrinfo(name, NULL, &hints, &info);
	if (err)
		return beest_fail(EADDRNOTAVAIL, "server %s: the name cannot be resolved: %s",
				  server->text, gai_strerror(err));

	for (at = info; at && server->address_count < BEEST_POOL_ADDRESSES; at = at->ai_next)
		if (!getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof(host), NULL, 0,
				 NI_NUMERICHOST))
			address_add(server, host);
	freeaddrinfo(info);
	if (!server->address_count)
		return beest_fail(EADDRNOTAVAIL, "server %s: the name has no address",
				  server->text);

	return 0;
}

int beest_pool_open(struct beest_pool *server, const struct beest_hostport *endpoint)
{
	server->text = strdup(endpoint->text);
	if (!server->text)
		return beest_fail(ENOMEM, "no memory for server %s", endpoint->text);
	server->port = endpoint->port;

	if (endpoint->port)
		return name_resolve(server, endpoint->host);

	address_add(server, endpoint->host);

	return 0;
}

/* What lay there, NULL: nothing that this process may use. */
static struct beest_memcached *slot_empty(struct beest_memcached **slot)
{
	struct beest_memcached *session = NULL;

	if (__atomic_load_n(slot, __ATOMIC_RELAXED))
		session = __atomic_exchange_n(slot, NULL, __ATOMIC_ACQUIRE);
	if (!session || beest_memcached_own(session))
		return session;
	beest_memcached_free(session);

	return NULL;
}

static bool slot_fill(struct beest_memcached **slot, struct beest_memcached *session)
{
	struct beest_memcached *empty = NULL;

	return __atomic_compare_exchange_n(slot, &empty, session, false,
					   __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static void slots_drop(struct beest_pool *server)
{
	struct beest_memcached *session;
	size_t i;

	for (i = 0; i < 2 * BEEST_POOL_IDLE; i++) {
		session = slot_empty(&server->idle[i % 2][i / 2]);
		if (session)
			beest_memcached_free(session);
	}
}

void beest_pool_close(struct beest_pool *server)
{
	slots_drop(server);
	free(server->text);
}

int beest_pool_take(struct beest_pool *server, bool buffering,
		    struct beest_memcached **session)
{
	size_t i;

	*session = NULL;
	for (i = 0; i < BEEST_POOL_IDLE && !*session; i++)
		*session = slot_empty(&server->idle[buffering][i]);
	if (!*session)
		*session = beest_memcached_new(beest_pool_address(server), buffering);
	if (!*session)
		return beest_fail(ENOMEM, "server %s: no memory for a connection", server->text);

	return 0;
}

static void session_keep(struct beest_pool *server, struct beest_memcached *session)
{
	struct beest_memcached **idle = server->idle[beest_memcached_buffers(session)];
	size_t i;

	for (i = 0; i < BEEST_POOL_IDLE; i++)
		if (slot_fill(&idle[i], session))
			return;
	beest_memcached_free(session);
}

/*
 * A name may have several addresses of which not all lead to the server ("localhost"
 * is ::1 and 127.0.0.1): the next one is tried, unless another thread did so already.
 * Once the server has answered, its address stays and an alien answer is but a torn one.
 */
int beest_pool_give(struct beest_pool *server, struct beest_memcached *session, int ret)
{
	size_t used = (size_t)(beest_memcached_address(session) - server->addresses);

	if (beest_memcached_sound(session)) {
		__atomic_store_n(&server->proven, true, __ATOMIC_RELAXED);
		session_keep(server, session);
		return ret;
	}

	beest_memcached_free(session);
	slots_drop(server);	/* a server that went away took them along */
	if (__atomic_load_n(&server->proven, __ATOMIC_RELAXED))
		return ret == -EPROTO ? -ECONNRESET : ret;
	__atomic_compare_exchange_n(&server->current, &used,
				    (used + 1) % server->address_count, false,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);

	/* another address of the same name may be of a family that libmemcached can use */
	return ret == -EAFNOSUPPORT && server->address_count > 1 ? -EHOSTUNREACH : ret;
}

const struct beest_memcached_address *beest_pool_address(const struct beest_pool *server)
{
	return &server->addresses[__atomic_load_n(&server->current, __ATOMIC_RELAXED)];
}
