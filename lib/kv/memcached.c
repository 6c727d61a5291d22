/* SPDX-License-Identifier: MIT */
/*
 * memcached.c - libmemcached with care
 *
 * What it does by itself: hang for ever when two signals come during a get (1.1.0
 * to 1.1.4), read a late answer as the next one's, try a failed server no more for
 * seconds, and say NOT FOUND for many a failure.  Hence the rules of memcached.h.
 */
#include "config.h"

#include <libmemcached/memcached.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/kv/memcached.h"
#include "lib/kv/request.h"

/* No read or write of an attempt takes longer than this, whatever the deadline. */
#define ATTEMPT_MS 1000

/* An idle connection that was answered within this time most likely still lives. */
#define LAZY_TIME (100 * BEEST_MS)

struct beest_memcached {
	memcached_st *memc;
	const struct beest_memcached_address *address;
	pid_t pid;
	bool buffering;
	bool sound;
	bool answered;		/* the server has spoken as Memcached does */
	bool opened;		/* an answer with the witness has come */
	int64_t heard;		/* when the last answer came */
	struct beest_memcached *next;	/* among the forgotten */

	/* The request under way. */
	struct beest_kv_request *request;
	int64_t deadline;
	size_t *lengths;	/* of its keys */
	size_t asked;		/* keys whose answer is due */
	size_t expected;	/* the first of them that may be answered next */
};

#define CLOSED "the connection was closed (a server with too many connections, or one " \
	"that demands a SASL login, does that too)"
#define NO_MEMORY "this process is out of memory"
#define NO_NUMBER "a counter has a value that is no number"

/* What a code of libmemcached means. */
static const struct meaning {
	int code;
	int err;
	const char *phrase;
} codes[] = {
	{ MEMCACHED_CONNECTION_FAILURE, ECONNRESET, CLOSED },
	{ MEMCACHED_WRITE_FAILURE, ECONNRESET, "the connection was lost while sending" },
	{ MEMCACHED_READ_FAILURE, ECONNRESET, "the connection was lost while reading" },
	{ MEMCACHED_ERRNO, ECONNRESET, "the connection was lost" },
	{ MEMCACHED_SOME_ERRORS, ECONNRESET, "the connection was lost" },
	{ MEMCACHED_FAILURE, ECONNRESET, "the request failed" },
	{ MEMCACHED_TIMEOUT, EHOSTDOWN, "no answer" },
	{ MEMCACHED_IN_PROGRESS, EHOSTDOWN, "no answer" },
	{ MEMCACHED_SERVER_TEMPORARILY_DISABLED, EHOSTDOWN, "no connection" },
	{ MEMCACHED_SERVER_MARKED_DEAD, EHOSTDOWN, "no connection" },
	{ MEMCACHED_HOST_LOOKUP_FAILURE, EHOSTUNREACH, "the address cannot be used" },
	{ MEMCACHED_FAIL_UNIX_SOCKET, EHOSTUNREACH, "the socket path is too long" },
	{ MEMCACHED_ERROR, EUSERS, "it answers ERROR: too many connections "
		"(memcached -c), or not a Memcached server" },
	{ MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE, ENOBUFS,
		"it is out of memory (memcached -m)" },
	{ MEMCACHED_NOTSTORED, ENOBUFS, "it did not store the value" },
	{ MEMCACHED_SERVER_ERROR, ENOBUFS, "it reports an internal error" },
	{ MEMCACHED_E2BIG, EMSGSIZE, "the value is larger than it takes (memcached -I)" },
	{ MEMCACHED_AUTH_PROBLEM, EACCES, "no way to log in that both ends know: is the "
		"PLAIN module of Cyrus SASL installed here?" },
	{ MEMCACHED_AUTH_FAILURE, EACCES, "the login was refused: wrong user or password" },
	{ MEMCACHED_AUTH_CONTINUE, EACCES, "the login was not completed" },
	{ MEMCACHED_BAD_KEY_PROVIDED, EINVAL, "it refuses the key" },
	{ MEMCACHED_KEY_TOO_BIG, EINVAL, "it refuses the key" },
	{ MEMCACHED_INVALID_ARGUMENTS, EINVAL, "the address cannot be used" },
	{ MEMCACHED_MEMORY_ALLOCATION_FAILURE, ENOMEM, NO_MEMORY },
};

/* Where libmemcached kept errno, it is the better witness. */
static const struct meaning errnos[] = {
	{ ECONNREFUSED, ECONNREFUSED, "connection refused: no memcached listens there" },
	{ ENOENT, ECONNREFUSED, "no such socket" },
	{ EHOSTUNREACH, EHOSTUNREACH, "no route to the host" },
	{ ENETUNREACH, ENETUNREACH, "the network is unreachable" },
	{ EADDRNOTAVAIL, ENETUNREACH, "no local address leads there" },
	{ EAFNOSUPPORT, ENETUNREACH, "this host has no such address family" },
	{ ETIMEDOUT, EHOSTDOWN, "no answer" },
	{ ECONNRESET, ECONNRESET, CLOSED },
	{ EPIPE, ECONNRESET, CLOSED },
	{ EACCES, EACCES, "no permission to connect" },
	{ EPERM, EACCES, "no permission to connect" },
	{ EINVAL, EHOSTUNREACH, "no route to the host (blackhole)" },
	{ EMFILE, EMFILE, "this process has too many open files" },
	{ ENFILE, ENFILE, "this host has too many open files" },
};

/* --------------------------------------------------------------- failures --- */

static const struct meaning *meaning_find(const struct meaning *rows, size_t count, int code)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (rows[i].code == code)
			return &rows[i];

	return NULL;
}

int beest_memcached_refused(const struct beest_memcached_address *address, int error)
{
	const struct meaning *row = meaning_find(errnos, BEEST_COUNT(errnos), error);

	return beest_fail(row ? row->err : ECONNRESET, "server %s: %s", address->label,
			  row ? row->phrase : strerror(error));
}

static int session_fail(struct beest_memcached *session, int err, const char *phrase)
{
	const struct beest_login *login = session->address->login;

	session->sound = false;
	if (err == EACCES && login)
		return beest_fail(EACCES, "server %s, user '%s': %s", session->address->label,
				  login->user, phrase);

	return beest_fail(err, "server %s: %s", session->address->label, phrase);
}

static int code_fail(struct beest_memcached *session, memcached_return_t rc)
{
	const struct beest_memcached_address *address = session->address;
	bool refused = rc == MEMCACHED_CLIENT_ERROR;
	const struct meaning *row;

	if (refused && strstr(memcached_last_error_message(session->memc), "unauthenticated"))
		return session_fail(session, EACCES, "login missing: the server demands one "
				    "(options exchange.user and exchange.password_file)");
	if (refused && strstr(memcached_last_error_message(session->memc), "non-numeric"))
		return session_fail(session, EBADMSG, NO_NUMBER);
	if (rc == MEMCACHED_HOST_LOOKUP_FAILURE && address->port && strchr(address->host, ':'))
		return session_fail(session, EAFNOSUPPORT, "the libmemcached of this host cannot use "
				    "an IPv6 address: give the IPv4 address or install libmemcached "
				    "1.1");
	/* libmemcached 1.1 takes the answer "unknown command" for this; 1.0 goes on */
	if (rc == MEMCACHED_UNKNOWN_READ_FAILURE && !session->answered && address->login)
		return session_fail(session, EACCES, "it knows no login (memcached without -S): leave "
				    "exchange.user out");

	row = meaning_find(errnos, BEEST_COUNT(errnos), memcached_last_error_errno(session->memc));
	if (!row)
		row = meaning_find(codes, BEEST_COUNT(codes), rc);
	if (!row)
		return session_fail(session, EPROTO, "an answer that is not Memcached's");

	return session_fail(session, row->err, row->phrase);
}

/*
 * @rc as a result, where @benign with no failure behind it means @benign_err.
 * libmemcached says NOT FOUND for failures too, and keeps the truth elsewhere.
 */
static int code_judge(struct beest_memcached *session, memcached_return_t rc,
		      memcached_return_t benign, int benign_err)
{
	memcached_return_t last = memcached_last_error(session->memc);

	if (rc == MEMCACHED_SUCCESS || (rc == benign && last == MEMCACHED_SUCCESS)) {
		session->answered = true;
		return rc == MEMCACHED_SUCCESS ? 0 : -benign_err;
	}

	return code_fail(session, rc == benign || rc == MEMCACHED_NOTFOUND ? last : rc);
}

/* --------------------------------------------------------------- sessions --- */

static void signals_block(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
}

/*
 * libmemcached 1.0.16 to 1.0.18 log in with what happens to lie on the stack behind the
 * name of the mechanism: zeros end it.
 */
static __attribute__((noinline)) void stack_clear(void)
{
	char stack[64 * 1024];

	memset(stack, 0, sizeof(stack));
	__asm__ volatile("" : : "r"(stack) : "memory");	/* or it would be left out */
}

/* A timeout of libmemcached holds for one read or write, not for the whole call. */
static void timeout_set(struct beest_memcached *session)
{
	int64_t left = beest_clock_left(session->deadline) / BEEST_MS;
	uint64_t ms = left < 1 ? 1 : (uint64_t)BEEST_MIN(left, ATTEMPT_MS);

	if (session->address->login)
		stack_clear();
	memcached_behavior_set(session->memc, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, ms);
	memcached_behavior_set(session->memc, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, ms);
}

int beest_memcached_login_check(const struct beest_login *login)
{
#ifdef BEEST_HAVE_SASL
	(void)login;
	return 0;
#else
	return beest_fail(ENOSYS, "no login as user '%s': the libmemcached of this host was built "
			  "without SASL", login->user);
#endif
}

#ifndef BEEST_HAVE_SASL		/* never called: beest_memcached_login_check() refuses */
#define memcached_set_sasl_auth_data(memc, user, password) MEMCACHED_NOT_SUPPORTED
#define memcached_destroy_sasl_auth_data(memc) ((void)(memc))
#endif

static bool handle_configure(memcached_st *memc, const struct beest_memcached_address *address,
			     bool buffering)
{
	const struct {
		memcached_behavior_t behavior;
		bool wanted;
	} rows[] = {
		{ MEMCACHED_BEHAVIOR_NO_BLOCK, true },
		{ MEMCACHED_BEHAVIOR_TCP_NODELAY, true },
		/* in the binary protocol a key is no command: refused there, and not missed */
		{ MEMCACHED_BEHAVIOR_VERIFY_KEY, !address->login },
		/* once: to switch it sends "quit" and connects again */
		{ MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, buffering },
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++)
		if (rows[i].wanted &&
		    memcached_behavior_set(memc, rows[i].behavior, 1) != MEMCACHED_SUCCESS)
			return false;
	/* this switches to the binary protocol */
	if (address->login &&
	    memcached_set_sasl_auth_data(memc, address->login->user, address->login->password) !=
	    MEMCACHED_SUCCESS)
		return false;
	if (address->port)
		return memcached_server_add(memc, address->host, address->port) ==
		       MEMCACHED_SUCCESS;

	return memcached_server_add_unix_socket(memc, address->host) == MEMCACHED_SUCCESS;
}

struct beest_memcached *beest_memcached_new(const struct beest_memcached_address *address,
					    bool buffering)
{
	struct beest_memcached *session = calloc(1, sizeof(*session));
	sigset_t before;
	bool good;

	if (!session)
		return NULL;

	session->address = address;
	session->pid = getpid();
	session->buffering = buffering;
	session->sound = true;
	signals_block(&before);
	session->memc = memcached_create(NULL);
	good = session->memc && handle_configure(session->memc, address, buffering);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!good) {
		beest_memcached_free(session);
		return NULL;
	}

	return session;
}

/* The memory stays reachable for the sake of leak checkers. */
static void session_forget(struct beest_memcached *session)
{
	static struct beest_memcached *forgotten;

	session->next = __atomic_load_n(&forgotten, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&forgotten, &session->next, session, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

void beest_memcached_free(struct beest_memcached *session)
{
	sigset_t before;

	if (!beest_memcached_own(session)) {
		session_forget(session);
		return;
	}
	signals_block(&before);
	if (session->memc && session->address->login)
		memcached_destroy_sasl_auth_data(session->memc);
	/* it says "quit" and waits until the server hangs up, which one that is silent never does */
	if (session->memc)
		memcached_behavior_set(session->memc, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, 1);
	memcached_free(session->memc);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	free(session->lengths);
	free(session);
}

const struct beest_memcached_address *beest_memcached_address(const struct beest_memcached *session)
{
	return session->address;
}

bool beest_memcached_buffers(const struct beest_memcached *session)
{
	return session->buffering;
}

bool beest_memcached_sound(const struct beest_memcached *session)
{
	return session->sound;
}

bool beest_memcached_own(const struct beest_memcached *session)
{
	return session->pid == getpid();
}

/* ----------------------------------------------------------------- writes --- */

static memcached_return_t write_issue(struct beest_memcached *session,
				      const struct beest_kv_write *write, uint64_t *number)
{
	const char *value = write->size ? write->value : "";
	time_t ttl = (time_t)BEEST_MIN(write->ttl, BEEST_TTL_MAX / BEEST_SECOND);
	size_t length = strlen(write->key);
	memcached_st *memc = session->memc;

	timeout_set(session);
	switch (write->verb) {
	case BEEST_KV_SET:
		return memcached_set(memc, write->key, length, value, write->size, ttl, 0);
	case BEEST_KV_ADD:
		return memcached_add(memc, write->key, length, value, write->size, ttl, 0);
	case BEEST_KV_DELETE:
		return memcached_delete(memc, write->key, length, 0);
	case BEEST_KV_INCR:
		return memcached_increment(memc, write->key, length, 1, number);
	}

	return MEMCACHED_INVALID_ARGUMENTS;
}

/* Its answer comes before the next write goes.  0, -ENOENT, -EEXIST, or a failure. */
static int write_answered(struct beest_memcached *session, const struct beest_kv_write *write,
			  uint64_t *number)
{
	static const struct {
		memcached_return_t benign;
		int err;
	} rows[] = {
		[BEEST_KV_SET] = { MEMCACHED_SUCCESS, 0 },
		[BEEST_KV_ADD] = { MEMCACHED_NOTSTORED, EEXIST },
		[BEEST_KV_DELETE] = { MEMCACHED_NOTFOUND, ENOENT },
		[BEEST_KV_INCR] = { MEMCACHED_NOTFOUND, ENOENT },
	};
	memcached_return_t rc = write_issue(session, write, number);

	if (write->verb == BEEST_KV_ADD && rc == MEMCACHED_DATA_EXISTS)
		rc = MEMCACHED_NOTSTORED;
	/* libmemcached does not know the code that the binary protocol has for it */
	if (write->verb == BEEST_KV_INCR && rc == MEMCACHED_UNKNOWN_READ_FAILURE &&
	    session->address->login && session->answered)
		return session_fail(session, EBADMSG, NO_NUMBER);

	return code_judge(session, rc, rows[write->verb].benign, rows[write->verb].err);
}

/*
 * In the binary protocol, which a login means, quiet writes would shift the answers behind
 * them.  In the other one, any doubt means that of the writes before it some may be lost
 * while later ones would be carried out: libmemcached connects again without a word.
 */
static int write_quiet(struct beest_memcached *session, const struct beest_kv_write *write)
{
	memcached_return_t rc;
	uint64_t unused;
	int ret;

	if (session->address->login) {
		ret = write_answered(session, write, &unused);
		return ret == -ENOENT || ret == -EEXIST ? 0 : ret;
	}

	memcached_behavior_set(session->memc, MEMCACHED_BEHAVIOR_NOREPLY, 1);
	rc = write_issue(session, write, &unused);
	memcached_behavior_set(session->memc, MEMCACHED_BEHAVIOR_NOREPLY, 0);
	if (rc == MEMCACHED_SUCCESS || rc == MEMCACHED_BUFFERED)
		return 0;
	ret = code_fail(session, rc);

	return ret == -EPROTO ? -ECONNRESET : ret;
}

static int writes_carry_out(struct beest_memcached *session)
{
	struct beest_kv_request *request = session->request;
	struct beest_kv_write *write;
	size_t i;
	int ret = 0;

	for (i = 0; i < request->write_count && ret == 0; i++) {
		write = &request->writes[i];
		if (!beest_request_is_answered(request, write)) {
			ret = write_quiet(session, write);
			continue;
		}
		write->ret = write_answered(session, write, &write->number);
		if (write->ret < 0)
			write->number = 0;
		ret = session->sound ? 0 : write->ret;
	}

	return ret;
}

/* ------------------------------------------------------------------ reads --- */

/* Asks for the first @count keys; over a new connection the opening goes before them. */
static int keys_ask(struct beest_memcached *session, size_t count)
{
	struct beest_kv_request *request = session->request;
	memcached_return_t rc;
	int ret = 0;

	if (!session->opened && request->opening)
		ret = write_quiet(session, request->opening);
	if (ret < 0)
		return ret;

	timeout_set(session);
	rc = memcached_mget(session->memc, request->keys, session->lengths, count);
	ret = code_judge(session, rc, MEMCACHED_SUCCESS, 0);
	session->asked = ret == 0 ? count : 0;
	session->expected = 0;

	return ret;
}

/*
 * The place for an answer, NULL: nobody asked for it.  Answers come in the order of the
 * keys, absent ones left out.
 */
static struct beest_kv_value *value_place(struct beest_memcached *session,
					  const memcached_result_st *result)
{
	const struct beest_kv_request *request = session->request;
	const char *key = memcached_result_key_value(result);
	size_t length = memcached_result_key_length(result), step, i;

	for (step = 0; step < session->asked; step++) {
		i = (session->expected + step) % session->asked;
		if (session->lengths[i] == length && !memcmp(request->keys[i], key, length)) {
			session->expected = i + 1;
			return &request->values[i];
		}
	}

	return NULL;
}

/* 1: one more, 0: that was all.  An empty value has a byte of its own: NULL means absent. */
static int value_fetch(struct beest_memcached *session, memcached_result_st *buffer)
{
	const memcached_result_st *result;
	struct beest_kv_value *value;
	memcached_return_t rc;
	size_t size;

	timeout_set(session);
	buffer->count = 1;	/* at 0, every failure would be called NOT FOUND */
	result = memcached_fetch_result(session->memc, buffer, &rc);
	if (!result || rc != MEMCACHED_SUCCESS)
		return code_judge(session, rc == MEMCACHED_END ? MEMCACHED_NOTFOUND : rc,
				  MEMCACHED_NOTFOUND, 0);

	value = value_place(session, result);
	if (!value || value->bytes)
		return session_fail(session, EPROTO, "an answer for a key that was not asked for");
	size = memcached_result_length(result);
	value->bytes = malloc(size ? size : 1);
	if (!value->bytes)
		return session_fail(session, ENOMEM, NO_MEMORY);
	if (size)
		memcpy(value->bytes, memcached_result_value(result), size);
	value->size = size;

	return 1;
}

/* The witness shows that it is a Memcached that answers, and that it took what came before. */
static int keys_collect(struct beest_memcached *session)
{
	const struct beest_kv_request *request = session->request;
	memcached_result_st buffer;
	int ret;

	memcached_result_create(session->memc, &buffer);
	do
		ret = value_fetch(session, &buffer);
	while (ret > 0);
	memcached_result_free(&buffer);
	session->asked = 0;
	if (ret < 0)
		return ret;
	if (!request->values[0].bytes) {
		session->sound = false;
		return beest_fail(ENODATA, "server %s: '%s' is missing from its answer",
				  session->address->label, request->keys[0]);
	}
	session->opened = true;
	session->heard = beest_clock_now();

	return 0;
}

/* --------------------------------------------------------------- requests --- */

static int lengths_measure(struct beest_memcached *session)
{
	const struct beest_kv_request *request = session->request;
	size_t *lengths = realloc(session->lengths, (request->key_count + 1) * sizeof(*lengths));
	size_t i;

	if (!lengths)
		return session_fail(session, ENOMEM, NO_MEMORY);
	session->lengths = lengths;
	for (i = 0; i < request->key_count; i++)
		lengths[i] = strlen(request->keys[i]);

	return 0;
}

/*
 * libmemcached may abort over what some service that is no Memcached answers to a command
 * other than get.  So before the first such command the witness has to come.
 */
static int increment_prepare(struct beest_memcached *session)
{
	struct beest_kv_request *request = session->request;
	int ret;

	if (session->opened || !request->opening || !beest_request_has_increment(request))
		return 0;

	ret = keys_ask(session, 1);
	if (ret == 0)
		ret = keys_collect(session);
	beest_kv_values_free(request->values, 1);

	return ret;
}

static int request_send(struct beest_memcached *session)
{
	const struct beest_kv_request *request = session->request;
	bool lazy = request->flags & BEEST_KV_LAZY && session->opened &&
		    beest_clock_now() - session->heard <= LAZY_TIME;
	int ret;

	ret = lengths_measure(session);
	if (ret == 0 && request->flags & BEEST_KV_ANSWERED)
		return session->opened || !request->key_count ? 0 :
		       keys_ask(session, request->key_count);
	if (ret == 0)
		ret = increment_prepare(session);
	if (ret == 0)
		ret = writes_carry_out(session);
	if (ret < 0)
		return ret;
	if (!lazy)
		return keys_ask(session, request->key_count);
	timeout_set(session);

	return code_judge(session, memcached_flush_buffers(session->memc), MEMCACHED_SUCCESS, 0);
}

int beest_memcached_send(struct beest_memcached *session, struct beest_kv_request *request,
			 int64_t deadline)
{
	sigset_t before;
	int ret;

	session->request = request;
	session->deadline = deadline;
	session->asked = 0;
	request->fresh = !session->opened;
	signals_block(&before);
	ret = request_send(session);
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	return ret;
}

static int request_receive(struct beest_memcached *session)
{
	struct beest_kv_request *request = session->request;
	int ret = 0;

	if (session->asked) {
		ret = keys_collect(session);
		request->answered = ret == 0;
	}
	if (ret < 0 || !(request->flags & BEEST_KV_ANSWERED))
		return ret;

	ret = writes_carry_out(session);
	if (ret == 0) {
		session->opened = true;
		session->heard = beest_clock_now();
	}

	return ret;
}

int beest_memcached_receive(struct beest_memcached *session)
{
	sigset_t before;
	int ret;

	signals_block(&before);
	ret = request_receive(session);
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	return ret;
}
