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
#include "lib/base/macro.h"
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

static void addresses_add(struct beest_pool *server, const struct addrinfo *info)
{
	char host[256];

	for (; info && server->address_count < BEEST_POOL_ADDRESSES; info = info->ai_next)
		if (!getnameinfo(info->ai_addr, info->ai_addrlen, host, sizeof(host),
				 NULL, 0, NI_NUMERICHOST))
			address_add(server, host);
}

static int resolve_name(struct beest_pool *server, const char *host)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *info = NULL;
	int err;

	hints.ai_flags = AI_NUMERICHOST;
	err = getaddrinfo(host, NULL, &hints, &info);
	if (err) {
		hints.ai_flags = 0;
		err = getaddrinfo(host, NULL, &hints, &info);
	}
	if (err)
		return beest_fail(EADDRNOTAVAIL, "server %s: the name cannot be resolved: %s",
				  server->text, gai_strerror(err));

	addresses_add(server, info);
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
		return resolve_name(server, endpoint->host);

	address_add(server, endpoint->host);

	return 0;
}

static void session_drop(struct beest_memcached *session)
{
	if (beest_memcached_own(session))
		beest_memcached_free(session);
	else
		beest_memcached_forget(session);
}

static struct beest_memcached *slot_empty(struct beest_memcached **slot)
{
	if (!__atomic_load_n(slot, __ATOMIC_RELAXED))
		return NULL;

	return __atomic_exchange_n(slot, NULL, __ATOMIC_ACQUIRE);
}

static bool slot_fill(struct beest_memcached **slot, struct beest_memcached *session)
{
	struct beest_memcached *empty = NULL;

	return __atomic_compare_exchange_n(slot, &empty, session, false,
					   __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static void idle_drop(struct beest_pool *server)
{
	struct beest_memcached *session;
	size_t kind, i;

	for (kind = 0; kind < BEEST_COUNT(server->idle); kind++)
		for (i = 0; i < BEEST_POOL_IDLE; i++) {
			session = slot_empty(&server->idle[kind][i]);
			if (session)
				session_drop(session);
		}
}

void beest_pool_close(struct beest_pool *server)
{
	idle_drop(server);
	free(server->text);
}

static struct beest_memcached *session_idle(struct beest_memcached **idle)
{
	struct beest_memcached *session;
	size_t i;

	for (i = 0; i < BEEST_POOL_IDLE; i++) {
		session = slot_empty(&idle[i]);
		if (!session)
			continue;
		if (beest_memcached_own(session))
			return session;
		beest_memcached_forget(session);
	}

	return NULL;
}

int beest_pool_take(struct beest_pool *server, bool buffering,
		    struct beest_memcached **session)
{
	size_t current = __atomic_load_n(&server->current, __ATOMIC_RELAXED);

	*session = session_idle(server->idle[buffering]);
	if (!*session)
		*session = beest_memcached_new(&server->addresses[current], buffering);
	if (!*session)
		return beest_fail(ENOMEM, "server %s: no memory for a connection", server->text);

	return 0;
}

static void session_keep(struct beest_pool *server, struct beest_memcached *session)
{
	struct beest_memcached **idle = server->idle[beest_memcached_buffers(session)];
	size_t i;

	__atomic_store_n(&server->proven, true, __ATOMIC_RELAXED);
	for (i = 0; i < BEEST_POOL_IDLE; i++)
		if (slot_fill(&idle[i], session))
			return;
	beest_memcached_free(session);
}

/*
 * A name may have several addresses of which not all lead to the server ("localhost"
 * is ::1 and 127.0.0.1): the next one is tried, unless another thread did so already.
 */
static void address_advance(struct beest_pool *server, size_t used)
{
	__atomic_compare_exchange_n(&server->current, &used,
				    (used + 1) % server->address_count, false,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Once a server has answered, its address stays and an alien answer is but a torn one. */
int beest_pool_give(struct beest_pool *server, struct beest_memcached *session, int ret)
{
	size_t used = (size_t)(beest_memcached_address(session) - server->addresses);

	if (beest_memcached_sound(session)) {
		session_keep(server, session);
		return ret;
	}

	beest_memcached_free(session);
	idle_drop(server);	/* a server that went away took them along */
	if (__atomic_load_n(&server->proven, __ATOMIC_RELAXED))
		return ret == -EPROTO ? -ECONNRESET : ret;
	address_advance(server, used);

	/* another address of the same name may be of a family that libmemcached can use */
	return ret == -EAFNOSUPPORT && server->address_count > 1 ? -EHOSTUNREACH : ret;
}

const struct beest_memcached_address *beest_pool_address(const struct beest_pool *server)
{
	return &server->addresses[__atomic_load_n(&server->current, __ATOMIC_RELAXED)];
}
