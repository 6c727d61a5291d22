/* SPDX-License-Identifier: MIT */
/*
 * kv.c - the servers, their idle connections, and requests to all of them at once
 *
 * request.c checks a request, and memcached.c carries it out on one server.  Idle
 * connections are kept in slots that are emptied and filled by single atomic steps, since
 * another thread could hold a lock across fork(2).
 */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/kv/choice.h"
#include "lib/kv/kv.h"
#include "lib/kv/memcached.h"
#include "lib/kv/name.h"

#define IDLE 32

/* Connections of a comparison besides those to each address: a proxy may lead each elsewhere. */
#define COMPARE_MORE 2

/* How long the program's signal handlers count as known: four system calls read them. */
#define SIGNALS_TIME BEEST_MS

struct server {
	struct beest_name *name;
	struct beest_memcached *idle[IDLE];
};

struct beest_kv {
	struct server *servers;
	struct beest_choice *choices;	/* the same servers */
	size_t count;
};

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

/* A session for the exclusive use of one caller. */
static int session_take(struct server *server, int64_t deadline, struct beest_memcached **session)
{
	const struct beest_memcached_address *address;
	size_t i;
	int ret;

	for (i = 0; i < IDLE && !*session; i++)
		*session = slot_empty(&server->idle[i]);
	if (*session)
		return 0;
	ret = beest_name_address(server->name, deadline, &address);
	if (ret < 0)
		return ret;
	*session = beest_memcached_new(address);

	return *session ? 0 : beest_fail(ENOMEM, "server %s: no memory for a connection",
					 beest_name_text(server->name));
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
 * should see it.  The failure of an old connection shows nothing about the address, nor does an
 * empty server.  Once a Memcached has answered, an answer that is not Memcached's can only be a
 * torn one, or be from another address of the name.
 */
static int session_give(struct server *server, struct beest_memcached *session, int ret)
{
	const struct beest_memcached_address *others[BEEST_NAME_ADDRESSES];

	if (session->sound) {
		beest_name_answered(server->name, session->address);
		session_keep(server, session);
		return ret;
	}

	if (!session->heard && ret != -ENODATA)
		beest_name_failed(server->name, session->address, ret);
	beest_memcached_free(session);
	slots_drop(server);	/* they are dead, too, if the server went away */
	if (beest_name_is_proven(server->name))
		return ret == -EPROTO ? -ECONNRESET : ret;

	/* another address of the same name may be of a family that libmemcached can use */
	return ret == -EAFNOSUPPORT && beest_name_addresses(server->name, others) > 1 ?
	       -EHOSTUNREACH : ret;
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
	const int64_t began = beest_clock_now();
	int ret;

	ret = beest_request_prepare(request);
	if (ret == 0)
		ret = session_take(&kv->servers[request->server], deadline, &request->session);
	if (ret == 0)
		ret = beest_memcached_send(request->session, request, deadline);
	request->took = beest_clock_now() - began;

	return ret < 0 ? request_end(kv, request, ret) : 0;
}

/* Waiting for the answers of one server shows nothing about the next. */
static int request_finish(struct beest_kv *kv, struct beest_kv_request *request)
{
	const int64_t began = beest_clock_now();
	int ret = request_end(kv, request, beest_memcached_receive(request->session));

	request->took += beest_clock_now() - began;

	return ret;
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
		ret = request_finish(kv, &requests[i]);
		result = ret < 0 ? ret : result;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	return result;
}

int beest_kv_probe(struct beest_kv *kv, size_t server, int64_t deadline,
		   struct beest_kv_stats *stats)
{
	const struct beest_memcached_address *address;
	sigset_t before;
	int ret;

	ret = beest_name_address(kv->servers[server].name, 0, &address);
	if (ret < 0)
		return ret;
	signals_block(NULL, &before);
	ret = beest_probe(address, deadline, stats);
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	return ret;
}

/* Asks for one key over a connection of its own; true: another value is there. */
static bool address_differs(const struct beest_memcached_address *address, const char *key,
			    const struct beest_kv_value *known, int64_t deadline)
{
	struct beest_kv_value value = { 0 };
	struct beest_kv_request request = {
		.keys = &key, .key_count = 1, .values = &value, .patience = BEEST_KV_COMPARE,
	};
	struct beest_memcached *session = beest_memcached_new(address);
	bool differs = false;

	if (!session || beest_request_prepare(&request) < 0)
		return false;
	if (beest_memcached_send(session, &request, deadline) == 0 &&
	    beest_memcached_receive(session) == 0)
		differs = value.size != known->size ||
			  memcmp(value.bytes, known->bytes, value.size) != 0;
	beest_kv_values_free(&value, 1);
	beest_memcached_free(session);

	return differs;
}

/* Is @known still what the connections in use bring?  They are older than those that differ. */
static bool value_is_current(struct beest_kv *kv, size_t server, const char *key,
			     const struct beest_kv_value *known, int64_t deadline)
{
	struct beest_kv_value value = { 0 };
	struct beest_kv_request request = {
		.server = server, .keys = &key, .key_count = 1, .values = &value,
		.patience = BEEST_KV_COMPARE,
	};
	bool same;

	same = beest_kv_run(kv, &request, 1, deadline, NULL) == 0 &&
	       !request.fresh && value.size == known->size &&
	       memcmp(value.bytes, known->bytes, value.size) == 0;
	beest_kv_values_free(&value, 1);

	return same;
}

int beest_kv_compare(struct beest_kv *kv, size_t server, const char *key,
		     const struct beest_kv_value *known, int64_t deadline)
{
	const struct beest_memcached_address *addresses[BEEST_NAME_ADDRESSES], *other = NULL;
	const char *label = beest_kv_label(kv, server);
	size_t count = beest_name_addresses(kv->servers[server].name, addresses), i;
	sigset_t before;

	signals_block(NULL, &before);
	for (i = 0; count && i < count + COMPARE_MORE && !other && beest_clock_left(deadline); i++)
		if (address_differs(addresses[i % count], key, known, deadline))
			other = addresses[i % count];
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!other || !value_is_current(kv, server, key, known, deadline))
		return 0;

	if (strcmp(other->label, label) != 0)
		return beest_fail(EPROTO, "server %s: another one answers at %s: " BEEST_KV_SEVERAL,
				  label, other->host);

	return beest_fail(EPROTO, "server %s: " BEEST_KV_SEVERAL, label);
}

/* ---------------------------------------------------------------- handles --- */

static int server_open(struct beest_kv *kv, const struct beest_hostport *where)
{
	struct beest_name *name = beest_name_new(where);

	if (!name)
		return beest_fail(ENOMEM, "no memory for server %s", where->text);
	kv->servers[kv->count].name = name;
	beest_choice_set(&kv->choices[kv->count], beest_name_text(name));

	return 0;
}

int beest_kv_open(struct beest_kv **kvp, const struct beest_hostport *servers, size_t count)
{
	struct beest_kv *kv = calloc(1, sizeof(*kv));
	int ret = 0;

	if (kv) {
		kv->servers = calloc(count, sizeof(*kv->servers));
		kv->choices = calloc(count, sizeof(*kv->choices));
	}
	if (!kv || !kv->servers || !kv->choices)
		ret = beest_fail(ENOMEM, "no memory for %zu servers", count);
	for (; ret == 0 && kv->count < count; kv->count++)
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
		beest_name_free(kv->servers[kv->count].name);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	free(kv->servers);
	free(kv->choices);
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

const char *beest_kv_label(const struct beest_kv *kv, size_t server)
{
	return beest_name_label(kv->servers[server].name);
}
