/* SPDX-License-Identifier: MIT */
/* name.c - see name.h */
#include "config.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/lock.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/kv/name.h"

/* The longest wait for an answer within one attempt: hartebeest_cancel() is looked at between. */
#define NAME_TIME (250 * BEEST_MS)

/* The pause after a name that cannot be resolved, which doubles each time up to the second one. */
#define NAME_PAUSE (50 * BEEST_MS)
#define NAME_PAUSE_MAX BEEST_SECOND

/* So many new connections in a row fail before an address that has answered is left. */
#define NAME_PATIENCE 2

struct known_address {
	struct beest_memcached_address address;
	struct known_address *next;
};

struct beest_name {
	struct beest_hostport server;
	const struct beest_memcached_address *current, *proven;	/* atomic; NULL: none yet */

	pthread_mutex_t lock;		/* covers everything below */
	pthread_cond_t answered;
	int users;			/* the owner, and the thread that asks */
	pid_t asking;			/* the process whose thread asks; 0: none */
	int64_t again_at, pause;	/* the name is not asked for before that; a number: never */
	int error, cause;		/* of the last answer: EAI_..., and its errno */
	unsigned int failures;		/* in a row */
	struct known_address *known;	/* all there ever were: connections point to them */
	const struct beest_memcached_address *list[BEEST_NAME_ADDRESSES];
	size_t count;			/* of list: those that the name has now */
};

static void name_release(struct beest_name *name)
{
	struct known_address *known;

	while ((known = name->known)) {
		name->known = known->next;
		free(known);
	}
	pthread_cond_destroy(&name->answered);
	pthread_mutex_destroy(&name->lock);
	free(name);
}

/* -------------------------------------------------------------- addresses --- */

/* The label of a name includes its address: "server node1:11211 (10.0.0.1): ...". */
static const struct beest_memcached_address *address_know(struct beest_name *name, const char *host,
							  const void *where, socklen_t size)
{
	const char *text = name->server.text;
	struct known_address *known = name->known;
	struct beest_memcached_address *address;

	while (known && strcmp(known->address.host, host) != 0)
		known = known->next;
	if (known)
		return &known->address;

	known = calloc(1, sizeof(*known));
	if (!known)
		return NULL;
	address = &known->address;
	address->port = name->server.port;
	memcpy(&address->where, where, size);
	address->where_size = size;
	beest_text_copy(address->host, sizeof(address->host), host);
	if (strstr(text, host))
		beest_text_copy(address->label, sizeof(address->label), text);
	else
		snprintf(address->label, sizeof(address->label), "%s (%s)", text, host);
	known->next = name->known;
	name->known = known;

	return address;
}

static size_t address_position(const struct beest_name *name,
			   const struct beest_memcached_address *address)
{
	size_t i = 0;

	while (i < name->count && name->list[i] != address)
		i++;

	return i;
}

static void current_set(struct beest_name *name, const struct beest_memcached_address *address)
{
	__atomic_store_n(&name->current, address, __ATOMIC_RELEASE);
}

/* An answer without addresses leaves those that are known. */
static void addresses_take(struct beest_name *name, const struct addrinfo *at)
{
	const struct beest_memcached_address *address;
	char host[sizeof(address->host)];
	size_t count = 0;

	for (; at && count < BEEST_NAME_ADDRESSES; at = at->ai_next) {
		if (getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof(host), NULL, 0,
				NI_NUMERICHOST))
			continue;
		address = address_know(name, host, at->ai_addr, at->ai_addrlen);
		if (address)
			name->list[count++] = address;
	}
	name->count = count ? count : name->count;
	if (count && address_position(name, name->current) == name->count)
		current_set(name, name->list[0]);
}

/* -------------------------------------------------------------- resolution --- */

static int name_look_up(const struct beest_name *name, int flags, struct addrinfo **found)
{
	struct addrinfo hints = {
		.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM,
		.ai_flags = flags | AI_NUMERICSERV,
	};
	char port[8];

	*found = NULL;
	snprintf(port, sizeof(port), "%u", name->server.port);

	return getaddrinfo(name->server.host, port, &hints, found);
}

/* The thread.  The name may have lost its owner meanwhile. */
static void *name_ask(void *data)
{
	struct beest_name *name = data;
	struct addrinfo *found;
	int error, cause, users;

	errno = 0;
	error = name_look_up(name, 0, &found);
	cause = errno;

	pthread_mutex_lock(&name->lock);
	if (!error)
		addresses_take(name, found);
	if (!error && !name->count)
		error = EAI_NONAME;
	if (error != EAI_SYSTEM && cause != EMFILE && cause != ENFILE)
		cause = 0;
	name->error = error;
	name->cause = cause;
	name->pause = error ? BEEST_MIN(2 * name->pause, NAME_PAUSE_MAX) : NAME_PAUSE;
	name->again_at = beest_clock_deadline(error ? name->pause : NAME_PAUSE_MAX);
	name->asking = 0;
	users = --name->users;
	pthread_cond_broadcast(&name->answered);
	pthread_mutex_unlock(&name->lock);
	if (found)
		freeaddrinfo(found);
	if (!users)
		name_release(name);

	return NULL;
}

/* Signals are the program's: its handlers must not run in a thread that it does not know of. */
static bool thread_start(struct beest_name *name)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attributes, name_ask, name);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);

	return err == 0;
}

/* Holds the lock, except while it resolves the name itself for want of a thread. */
static void name_begin(struct beest_name *name)
{
	if (name->asking == getpid() || beest_clock_left(name->again_at))
		return;

	name->asking = getpid();
	name->users++;
	if (thread_start(name))
		return;
	pthread_mutex_unlock(&name->lock);
	name_ask(name);
	pthread_mutex_lock(&name->lock);
}

static int name_fail(const struct beest_name *name)
{
	const char *text = name->server.text;
	const char *origin = name->server.origin ? name->server.origin : "";

	if (!name->error)
		return beest_fail(EADDRNOTAVAIL, "server %s%s: the name is not resolved yet: the "
				  "name service (DNS) does not answer", text, origin);
	if (name->cause == EMFILE || name->cause == ENFILE)
		return beest_fail(name->cause, "server %s: the name cannot be resolved: %s has too "
				  "many open files", text,
				  name->cause == EMFILE ? "this process" : "this host");

	return beest_fail(EADDRNOTAVAIL, "server %s%s: the name cannot be resolved: %s", text,
			  origin, name->cause ? strerror(name->cause) : gai_strerror(name->error));
}

int beest_name_address(struct beest_name *name, int64_t deadline,
		       const struct beest_memcached_address **address)
{
	int64_t end = BEEST_MIN(deadline, beest_clock_deadline(NAME_TIME));
	struct timespec until = { end / BEEST_SECOND, end % BEEST_SECOND };
	int ret = 0;

	*address = __atomic_load_n(&name->current, __ATOMIC_ACQUIRE);
	if (*address)
		return 0;

	pthread_mutex_lock(&name->lock);
	if (!name->current)
		name_begin(name);
	while (!name->current && name->asking == getpid() && ret == 0)
		ret = pthread_cond_timedwait(&name->answered, &name->lock, &until);
	*address = name->current;
	ret = *address ? 0 : name_fail(name);
	pthread_mutex_unlock(&name->lock);

	return ret;
}

/* ------------------------------------------------------------------- use --- */

void beest_name_answered(struct beest_name *name, const struct beest_memcached_address *address)
{
	if (__atomic_load_n(&name->proven, __ATOMIC_RELAXED) == address &&
	    !__atomic_load_n(&name->failures, __ATOMIC_RELAXED))
		return;

	pthread_mutex_lock(&name->lock);
	__atomic_store_n(&name->proven, address, __ATOMIC_RELAXED);
	__atomic_store_n(&name->failures, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&name->lock);
}

/* A server that refuses or is full is still there. */
static bool server_is_missing(int ret)
{
	return ret == -ECONNREFUSED || ret == -EHOSTUNREACH || ret == -ENETUNREACH ||
	       ret == -ECONNRESET || ret == -EHOSTDOWN;
}

/*
 * Not all addresses of a name may lead to the server ("localhost" is ::1 and 127.0.0.1), so the
 * next one is in turn, unless another thread has moved on already.
 */
void beest_name_failed(struct beest_name *name, const struct beest_memcached_address *address,
		       int ret)
{
	size_t at;
	BEEST_HOLD(&name->lock);

	if (server_is_missing(ret))
		__atomic_store_n(&name->failures, name->failures + 1, __ATOMIC_RELAXED);
	if (address == name->current && (address != name->proven ||
					 name->failures >= NAME_PATIENCE)) {
		at = address_position(name, address);
		current_set(name, name->list[(at + 1) % name->count]);
		name_begin(name);
	}
}

bool beest_name_is_proven(const struct beest_name *name)
{
	return __atomic_load_n(&name->proven, __ATOMIC_RELAXED) != NULL;
}

size_t beest_name_addresses(struct beest_name *name, const struct beest_memcached_address
			    *addresses[BEEST_NAME_ADDRESSES])
{
	BEEST_HOLD(&name->lock);

	memcpy(addresses, name->list, sizeof(name->list));

	return name->count;
}

const char *beest_name_text(const struct beest_name *name)
{
	return name->server.text;
}

const char *beest_name_label(const struct beest_name *name)
{
	const struct beest_memcached_address *address;

	address = __atomic_load_n(&name->current, __ATOMIC_ACQUIRE);

	return address ? address->label : name->server.text;
}

/* ------------------------------------------------------------------ names --- */

/* A path or a numeric address needs no thread.  False: no memory. */
static bool numeric_take(struct beest_name *name)
{
	struct sockaddr_un path = { .sun_family = AF_UNIX };
	struct addrinfo *found = NULL;

	if (!name->server.port) {
		beest_text_copy(path.sun_path, sizeof(path.sun_path), name->server.host);
		name->list[0] = address_know(name, name->server.host, &path, sizeof(path));
		name->count = name->list[0] != NULL;
		current_set(name, name->list[0]);
	} else if (name_look_up(name, AI_NUMERICHOST, &found) == 0) {
		addresses_take(name, found);
		freeaddrinfo(found);
	} else {
		return true;
	}
	name->again_at = INT64_MAX;

	return name->current != NULL;
}

struct beest_name *beest_name_new(const struct beest_hostport *server)
{
	struct beest_name *name = calloc(1, sizeof(*name));
	pthread_condattr_t monotonic;

	if (!name)
		return NULL;

	name->server = *server;
	name->users = 1;
	name->pause = NAME_PAUSE;
	pthread_mutex_init(&name->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&name->answered, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (!numeric_take(name)) {
		name_release(name);
		return NULL;
	}
	pthread_mutex_lock(&name->lock);
	name_begin(name);
	pthread_mutex_unlock(&name->lock);

	return name;
}

/* The thread that asks cannot be stopped: it frees the name. */
void beest_name_free(struct beest_name *name)
{
	int users;

	if (!name)
		return;
	pthread_mutex_lock(&name->lock);
	users = --name->users;
	pthread_mutex_unlock(&name->lock);
	if (!users)
		name_release(name);
}
