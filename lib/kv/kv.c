/* SPDX-License-Identifier: MIT */
/*
 * kv.c - the servers, their idle connections, and requests to all of them at once
 *
 * request.c checks a request, and memcached.c carries it out on one server.  Idle
 * connections are kept in slots that are emptied and filled by single atomic steps, since
 * another thread could hold a lock across fork(2).
 */
#include "config.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/kv/choice.h"
#include "lib/kv/kv.h"
#include "lib/kv/login.h"
#include "lib/kv/memcached.h"
#include "lib/kv/probe.h"
#include "lib/kv/request.h"

#define IDLE 32
#define ADDRESSES 8

/* How long the program's signal handlers count as known: four system calls read them. */
#define SIGNALS_TIME BEEST_MS

struct server {
	char *text;		/* as configured */
	struct beest_memcached_address addresses[ADDRESSES];
	size_t address_count;
	size_t current;		/* the address in use */
	bool proven;		/* the server has answered there once: the address stays */
	struct beest_memcached *idle[IDLE];
};

struct beest_kv {
	struct server *servers;
	struct beest_choice *choices;	/* the same servers */
	size_t count;
	struct beest_login login;
};

/* -------------------------------------------------------------- addresses --- */

/* The label of a name includes its address: "server node1:11211 (10.0.0.1): ...". */
static void address_add(struct beest_kv *kv, struct server *server, const char *host,
			uint16_t port)
{
	struct beest_memcached_address *address = &server->addresses[server->address_count++];

	address->login = kv->login.user ? &kv->login : NULL;
	address->port = port;
	beest_text_copy(address->host, sizeof(address->host), host);
	if (strstr(server->text, host))
		beest_text_copy(address->label, sizeof(address->label), server->text);
	else
		snprintf(address->label, sizeof(address->label), "%s (%s)", server->text, host);
}

static int name_resolve(struct beest_kv *kv, struct server *server,
			const struct beest_hostport *name)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *info = NULL, *at;
	char host[256];
	int err;

	err = getaddrinfo(name->host, NULL, &hints, &info);
	if (err)
		return beest_fail(EADDRNOTAVAIL, "server %s: the name cannot be resolved: %s",
				  server->text, gai_strerror(err));

	for (at = info; at && server->address_count < ADDRESSES; at = at->ai_next)
		if (!getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof(host), NULL, 0,
				 NI_NUMERICHOST))
			address_add(kv, server, host, name->port);
	freeaddrinfo(info);
	if (!server->address_count)
		return beest_fail(EADDRNOTAVAIL, "server %s: the name has no address",
				  server->text);

	return 0;
}

static int server_open(struct beest_kv *kv, const struct beest_hostport *where)
{
	struct server *server = &kv->servers[kv->count];

	server->text = strdup(where->text);
	if (!server->text)
		return beest_fail(ENOMEM, "no memory for server %s", where->text);
	beest_choice_set(&kv->choices[kv->count++], server->text);
	if (where->port)
		return name_resolve(kv, server, where);
	address_add(kv, server, where->host, 0);

	return 0;
}

/* --------------------------------------------------------------- sessions --- */

/*
 * A handled signal would make libmemcached, or the plain socket of probe.c, wait too long or
 * give up early.  A signal that ends the process stays unblocked: a server that drips its
 * answer can hold libmemcached up beyond any limit.
 */
static void signals_read(struct beest_kv_signals *signals)
{
	static const int endings[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	struct sigaction action;
	size_t i;

	sigfillset(&signals->blocked);
	for (i = 0; i < BEEST_COUNT(endings); i++)
		if (sigaction(endings[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL)
			sigdelset(&signals->blocked, endings[i]);
}

static void signals_block(struct beest_kv_signals *signals, sigset_t *before)
{
	struct beest_kv_signals own = { .read_at = 0 };
	int64_t now = beest_clock_now();

	signals = signals ? signals : &own;
	if (!signals->read_at || now - signals->read_at >= SIGNALS_TIME) {
		signals_read(signals);
		signals->read_at = now;
	}
	pthread_sigmask(SIG_BLOCK, &signals->blocked, before);
}

/* Takes the session out of @slot.  NULL: there is none that this process may use. */
static struct beest_memcached *slot_empty(struct beest_memcached **slot)
{
	struct beest_memcached *session = NULL;

	if (__atomic_load_n(slot, __ATOMIC_RELAXED))
		session = __atomic_exchange_n(slot, NULL, __ATOMIC_ACQUIRE);
	if (!session || session->pid == getpid())
		return session;
	beest_memcached_free(session);

	return NULL;
}

static void slots_drop(struct server *server)
{
	struct beest_memcached *session;
	size_t i;

	for (i = 0; i < IDLE; i++) {
		session = slot_empty(&server->idle[i]);
		if (session)
			beest_memcached_free(session);
	}
}

static const struct beest_memcached_address *server_address(const struct server *server)
{
	return &server->addresses[__atomic_load_n(&server->current, __ATOMIC_RELAXED)];
}

/* A session for the exclusive use of one caller. */
static int session_take(struct server *server, struct beest_memcached **session)
{
	size_t i;

	for (i = 0; i < IDLE && !*session; i++)
		*session = slot_empty(&server->idle[i]);
	if (!*session)
		*session = beest_memcached_new(server_address(server));
	if (!*session)
		return beest_fail(ENOMEM, "server %s: no memory for a connection", server->text);

	return 0;
}

static void session_keep(struct server *server, struct beest_memcached *session)
{
	struct beest_memcached *empty;
	size_t i;

	for (i = 0; i < IDLE; i++) {
		empty = NULL;
		if (__atomic_compare_exchange_n(&server->idle[i], &empty, session, false,
						__ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return;
	}
	beest_memcached_free(session);
}

/*
 * Keeps a sound session for the next caller.  Returns @ret, its last result, as the caller
 * should see it.  Not all addresses of a name may lead to the server ("localhost" is ::1 and
 * 127.0.0.1), so after a failure the next one is in turn, unless another thread has moved on
 * already.  Once the server has answered, its address stays, and an answer that is not
 * Memcached's can only be a torn one.
 */
static int session_give(struct server *server, struct beest_memcached *session, int ret)
{
	size_t used = (size_t)(session->address - server->addresses);

	if (session->sound) {
		__atomic_store_n(&server->proven, true, __ATOMIC_RELAXED);
		session_keep(server, session);
		return ret;
	}

	beest_memcached_free(session);
	slots_drop(server);	/* they are dead, too, if the server went away */
	if (__atomic_load_n(&server->proven, __ATOMIC_RELAXED))
		return ret == -EPROTO ? -ECONNRESET : ret;
	__atomic_compare_exchange_n(&server->current, &used,
				    (used + 1) % server->address_count, false,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);

	/* another address of the same name may be of a family that libmemcached can use */
	return ret == -EAFNOSUPPORT && server->address_count > 1 ? -EHOSTUNREACH : ret;
}

/* --------------------------------------------------------------- requests --- */

static int request_end(struct beest_kv *kv, struct beest_kv_request *request, int ret)
{
	if (request->session)
		ret = session_give(&kv->servers[request->server], request->session, ret);
	request->session = NULL;
	if (ret < 0)
		beest_request_spoil(request, ret);

	return ret;
}

static int request_begin(struct beest_kv *kv, struct beest_kv_request *request, int64_t deadline)
{
	int ret;

	ret = beest_request_prepare(request);
	if (ret == 0)
		ret = session_take(&kv->servers[request->server], &request->session);
	if (ret == 0)
		ret = beest_memcached_send(request->session, request, deadline);

	return ret < 0 ? request_end(kv, request, ret) : 0;
}

/* Returns the last failure, since its sentence is the thread's. */
int beest_kv_run(struct beest_kv *kv, struct beest_kv_request *requests, size_t count,
		 int64_t deadline, struct beest_kv_signals *signals)
{
	int ret, result = 0;
	sigset_t before;
	size_t i;

	signals_block(signals, &before);
	for (i = 0; i < count; i++) {
		ret = request_begin(kv, &requests[i], deadline);
		result = ret < 0 ? ret : result;
	}
	for (i = 0; i < count; i++) {
		if (!requests[i].session)
			continue;
		ret = request_end(kv, &requests[i], beest_memcached_receive(requests[i].session));
		result = ret < 0 ? ret : result;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	return result;
}

int beest_kv_probe(struct beest_kv *kv, size_t server, struct beest_kv_stats *stats)
{
	sigset_t before;
	int ret;

	signals_block(NULL, &before);
	ret = beest_probe(server_address(&kv->servers[server]), stats);
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	return ret;
}

/* ---------------------------------------------------------------- handles --- */

int beest_kv_open(struct beest_kv **kvp, const struct beest_hostport *servers, size_t count,
		  struct beest_login *login)
{
	struct beest_kv *kv;
	int ret = 0;

#ifndef BEEST_HAVE_SASL
	if (login)
		return beest_fail(ENOSYS, "no login as user '%s': the libmemcached of this host "
				  "was built without SASL", login->user);
#endif
	kv = calloc(1, sizeof(*kv));
	if (kv) {
		kv->servers = calloc(count, sizeof(*kv->servers));
		kv->choices = calloc(count, sizeof(*kv->choices));
	}
	if (!kv || !kv->servers || !kv->choices)
		ret = beest_fail(ENOMEM, "no memory for %zu servers", count);
	if (ret == 0 && login) {
		kv->login = *login;
		memset(login, 0, sizeof(*login));
	}
	while (ret == 0 && kv->count < count)
		ret = server_open(kv, &servers[kv->count]);
	if (ret < 0)
		beest_kv_close(kv);
	else
		*kvp = kv;

	return ret;
}

void beest_kv_close(struct beest_kv *kv)
{
	sigset_t before;

	if (!kv)
		return;

	signals_block(NULL, &before);
	while (kv->count > 0) {
		slots_drop(&kv->servers[--kv->count]);
		free(kv->servers[kv->count].text);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	free(kv->servers);
	free(kv->choices);
	beest_login_free(&kv->login);
	free(kv);
}

uint64_t beest_kv_digest(const struct beest_kv *kv)
{
	return beest_choice_digest(kv->choices, kv->count);
}

size_t beest_kv_server_of(const struct beest_kv *kv, const char *key)
{
	return beest_choice_of(kv->choices, kv->count, key);
}

const char *beest_kv_text(const struct beest_kv *kv, size_t server)
{
	return kv->choices[server].text;
}
