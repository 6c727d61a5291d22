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

/*
 * Deleted once over each new connection, before the first get: a get tells a dead
 * server from an absent key badly, a delete well.  Long enough to make a server
 * that waits for the 24 bytes of a binary header answer at once.
 */
#define GREETING_KEY "hb1/-/greeting/nobody-puts-this"

struct beest_memcached {
	memcached_st *memc;
	const struct beest_memcached_address *address;
	pid_t pid;
	bool buffering;
	bool sound;
	bool opened;		/* an answer with the witness has come */
	bool asked;		/* keys were asked for, whose answer is due */
	bool batch;		/* used by beest_memcached_send() */
	int64_t heard;		/* when the last answer came */
	bool greeted;
	bool answered;		/* the server has spoken as Memcached does */
	struct beest_memcached *next;	/* among the forgotten */
};

/* For a question beside the deadline. */
#define PROBE_MS 200

#define CLOSED "the connection was closed (a server with too many connections, or one " \
	"that demands a SASL login, does that too)"

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
	{ MEMCACHED_MEMORY_ALLOCATION_FAILURE, ENOMEM, "this process is out of memory" },
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

static const struct meaning no_memcached = {
	0, EPROTO, "an answer that is not Memcached's",
};
static const struct meaning no_login = {
	0, EACCES, "login missing: the server demands one (options exchange.user and "
		"exchange.password_file)",
};

static const struct meaning no_sasl = {
	0, EACCES, "it knows no login (memcached without -S): leave exchange.user out",
};

static const struct meaning no_ipv6 = {
	0, EAFNOSUPPORT, "the libmemcached of this host cannot use an IPv6 address: give the "
		"IPv4 address or install libmemcached 1.1",
};

static const struct meaning no_number = {
	0, EBADMSG, "a counter has a value that is no number",
};

static const struct meaning *lookup(const struct meaning *rows, size_t count, int code)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (rows[i].code == code)
			return &rows[i];

	return NULL;
}

static const struct meaning *meaning_of(const memcached_st *memc, memcached_return_t rc)
{
	const struct meaning *row;

	row = lookup(errnos, BEEST_COUNT(errnos), memcached_last_error_errno(memc));
	if (!row)
		row = lookup(codes, BEEST_COUNT(codes), rc);
	if (rc == MEMCACHED_CLIENT_ERROR &&
	    strstr(memcached_last_error_message(memc), "unauthenticated"))
		row = &no_login;
	if (rc == MEMCACHED_CLIENT_ERROR &&
	    strstr(memcached_last_error_message(memc), "non-numeric"))
		row = &no_number;

	return row ? row : &no_memcached;
}

static bool demands_login(const struct beest_memcached_address *address);

static bool is_ipv6(const struct beest_memcached_address *address)
{
	return address->port && strchr(address->host, ':');
}

/*
 * A server that demands a login closes the connection of whoever speaks its text
 * protocol; so does one that is stopped just then, hence the question.
 */
static const struct meaning *reason(struct beest_memcached *session, memcached_return_t rc)
{
	const struct meaning *row = meaning_of(session->memc, rc);

	if (rc == MEMCACHED_HOST_LOOKUP_FAILURE && is_ipv6(session->address))
		row = &no_ipv6;
	if (row->err == ECONNRESET && !session->batch && !session->answered && !session->address->login &&
	    demands_login(session->address))
		row = &no_login;
	/* libmemcached 1.1 takes the answer "unknown command" for this; 1.0 goes on */
	if (rc == MEMCACHED_UNKNOWN_READ_FAILURE && !session->answered &&
	    session->address->login)
		row = &no_sasl;

	return row;
}

int beest_memcached_refused(const struct beest_memcached_address *address, int error)
{
	const struct meaning *row = lookup(errnos, BEEST_COUNT(errnos), error);

	if (row)
		return beest_fail(row->err, "server %s: %s", address->label, row->phrase);

	return beest_fail(ECONNRESET, "server %s: %s", address->label, strerror(error));
}

static int failed_with(struct beest_memcached *session, const struct meaning *row)
{
	const struct beest_login *login = session->address->login;

	session->sound = false;
	if (row->err == EACCES && login)
		return beest_fail(EACCES, "server %s, user '%s': %s", session->address->label,
				  login->user, row->phrase);

	return beest_fail(row->err, "server %s: %s", session->address->label, row->phrase);
}

static int failed(struct beest_memcached *session, memcached_return_t rc)
{
	return failed_with(session, reason(session, rc));
}

/*
 * @rc as a result, where @benign with no failure behind it means @benign_err.
 * libmemcached says NOT FOUND for failures too, and keeps the truth elsewhere.
 */
static int judge(struct beest_memcached *session, memcached_return_t rc,
		 memcached_return_t benign, int benign_err)
{
	memcached_return_t last = memcached_last_error(session->memc);

	session->answered |= rc == MEMCACHED_SUCCESS ||
			     (rc == benign && last == MEMCACHED_SUCCESS);
	if (rc == MEMCACHED_SUCCESS)
		return 0;
	if (rc == benign && last == MEMCACHED_SUCCESS)
		return -benign_err;

	return failed(session, rc == benign || rc == MEMCACHED_NOTFOUND ? last : rc);
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
static void set_timeout(struct beest_memcached *session, int64_t deadline)
{
	int64_t ms = beest_clock_left(deadline) / BEEST_MS;

	if (session->address->login)
		stack_clear();
	if (ms > BEEST_ATTEMPT_MS)
		ms = BEEST_ATTEMPT_MS;
	if (ms < 1)
		ms = 1;
	memcached_behavior_set(session->memc, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, (uint64_t)ms);
	memcached_behavior_set(session->memc, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, (uint64_t)ms);
}

static void block_signals(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
}

static void restore_signals(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void begin(struct beest_memcached *session, int64_t deadline, sigset_t *before)
{
	block_signals(before);
	set_timeout(session, deadline);
}

#ifdef BEEST_HAVE_SASL
int beest_memcached_login_check(const struct beest_login *login)
{
	(void)login;
	return 0;
}

/* Switches to the binary protocol. */
static bool set_login(memcached_st *memc, const struct beest_login *login)
{
	return memcached_set_sasl_auth_data(memc, login->user, login->password) ==
	       MEMCACHED_SUCCESS;
}

static void drop_login(memcached_st *memc)
{
	memcached_destroy_sasl_auth_data(memc);
}
#else
int beest_memcached_login_check(const struct beest_login *login)
{
	return beest_fail(ENOSYS, "no login as user '%s': the libmemcached of this host was built "
			  "without SASL", login->user);
}

static bool set_login(memcached_st *memc, const struct beest_login *login)
{
	(void)memc, (void)login;
	return false;
}

static void drop_login(memcached_st *memc)
{
	(void)memc;
}
#endif

static bool set_behaviors(memcached_st *memc, const memcached_behavior_t *wanted, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (memcached_behavior_set(memc, wanted[i], 1) != MEMCACHED_SUCCESS)
			return false;

	return true;
}

/* In the binary protocol a key is no command: VERIFY_KEY is refused there, and not missed. */
static bool configure(memcached_st *memc, const struct beest_memcached_address *address,
		      bool buffering)
{
	static const memcached_behavior_t wanted[] = {
		MEMCACHED_BEHAVIOR_NO_BLOCK,
		MEMCACHED_BEHAVIOR_TCP_NODELAY,
		MEMCACHED_BEHAVIOR_VERIFY_KEY,
	};

	if (!set_behaviors(memc, wanted, BEEST_COUNT(wanted) - !!address->login))
		return false;
	/* once: to switch it sends "quit" and connects again */
	if (buffering &&
	    memcached_behavior_set(memc, MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, 1) !=
	    MEMCACHED_SUCCESS)
		return false;
	if (address->login && !set_login(memc, address->login))
		return false;

	if (address->port)
		return memcached_server_add(memc, address->host, address->port) ==
		       MEMCACHED_SUCCESS;

	return memcached_server_add_unix_socket(memc, address->host) == MEMCACHED_SUCCESS;
}

static memcached_st *handle_new(const struct beest_memcached_address *address, bool buffering)
{
	memcached_st *memc = memcached_create(NULL);

	if (memc && !configure(memc, address, buffering)) {
		memcached_free(memc);
		memc = NULL;
	}

	return memc;
}

/*
 * Asks in the binary protocol, which alone has an answer for that.  Of a server that has
 * closed a connection a moment ago, so not for long.
 */
static bool demands_login(const struct beest_memcached_address *address)
{
	memcached_st *memc;
	memcached_return_t rc = MEMCACHED_SUCCESS;
	sigset_t before;

	block_signals(&before);
	memc = handle_new(address, false);
	if (memc) {
		memcached_behavior_set(memc, MEMCACHED_BEHAVIOR_VERIFY_KEY, 0);
		memcached_behavior_set(memc, MEMCACHED_BEHAVIOR_BINARY_PROTOCOL, 1);
		memcached_behavior_set(memc, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, PROBE_MS);
		memcached_behavior_set(memc, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, PROBE_MS);
		rc = memcached_delete(memc, GREETING_KEY, strlen(GREETING_KEY), 0);
		memcached_free(memc);
	}
	restore_signals(&before);

	return rc == MEMCACHED_AUTH_FAILURE || rc == MEMCACHED_AUTH_PROBLEM;
}

struct beest_memcached *beest_memcached_new(const struct beest_memcached_address *address,
					    bool buffering)
{
	struct beest_memcached *session = calloc(1, sizeof(*session));
	sigset_t before;

	if (!session)
		return NULL;

	session->address = address;
	session->pid = getpid();
	session->buffering = buffering;
	session->sound = true;
	block_signals(&before);
	session->memc = handle_new(address, buffering);
	restore_signals(&before);
	if (!session->memc) {
		free(session);
		return NULL;
	}

	return session;
}

void beest_memcached_free(struct beest_memcached *session)
{
	sigset_t before;

	block_signals(&before);
	if (session->address->login)
		drop_login(session->memc);
	memcached_free(session->memc);
	restore_signals(&before);
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

void beest_memcached_forget(struct beest_memcached *session)
{
	static struct beest_memcached *forgotten;

	session->next = __atomic_load_n(&forgotten, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&forgotten, &session->next, session, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

typedef memcached_return_t store_fn(memcached_st *, const char *, size_t, const char *,
				    size_t, time_t, uint32_t);

static memcached_return_t store(struct beest_memcached *session, store_fn *fn,
				const char *key, const void *value, size_t size,
				int64_t ttl, int64_t deadline)
{
	memcached_return_t rc;
	sigset_t before;

	begin(session, deadline, &before);
	rc = fn(session->memc, key, strlen(key), size ? value : "", size, (time_t)ttl, 0);
	restore_signals(&before);

	return rc;
}

int beest_memcached_put(struct beest_memcached *session, const char *key,
			const void *value, size_t size, int64_t ttl, int64_t deadline)
{
	return judge(session, store(session, memcached_set, key, value, size, ttl, deadline),
		     MEMCACHED_SUCCESS, 0);
}

int beest_memcached_add(struct beest_memcached *session, const char *key,
			const void *value, size_t size, int64_t ttl, int64_t deadline)
{
	memcached_return_t rc;

	rc = store(session, memcached_add, key, value, size, ttl, deadline);
	if (rc == MEMCACHED_DATA_EXISTS)
		rc = MEMCACHED_NOTSTORED;

	return judge(session, rc, MEMCACHED_NOTSTORED, EEXIST);
}

int beest_memcached_delete(struct beest_memcached *session, const char *key, int64_t deadline)
{
	memcached_return_t rc;
	sigset_t before;

	begin(session, deadline, &before);
	rc = memcached_delete(session->memc, key, strlen(key), 0);
	restore_signals(&before);

	return judge(session, rc, MEMCACHED_NOTFOUND, ENOENT);
}

static int greet(struct beest_memcached *session, int64_t deadline)
{
	int ret;

	if (session->greeted)
		return 0;

	ret = beest_memcached_delete(session, GREETING_KEY, deadline);
	if (ret < 0 && ret != -ENOENT)
		return ret;
	session->greeted = true;

	return 0;
}

int beest_memcached_ask(struct beest_memcached *session, const char *const *keys,
			const size_t *lengths, size_t count, int64_t deadline)
{
	memcached_return_t rc;
	sigset_t before;
	int ret;

	ret = greet(session, deadline);
	if (ret < 0)
		return ret;

	begin(session, deadline, &before);
	rc = memcached_mget(session->memc, keys, lengths, count);
	restore_signals(&before);

	return judge(session, rc, MEMCACHED_SUCCESS, 0);
}

/* What is being collected.  Answers come in the order asked, absent keys left out. */
struct collection {
	const char *const *keys;
	const size_t *lengths;
	const size_t *where;	/* NULL: each at the place of its key */
	size_t count;
	size_t next;		/* the first key that may be answered next */
	struct beest_kv_value *values;
};

static bool is_key(const struct collection *c, size_t i, const memcached_result_st *result)
{
	return c->lengths[i] == memcached_result_key_length(result) &&
	       !memcmp(c->keys[i], memcached_result_key_value(result), c->lengths[i]);
}

/* NULL for an answer that nobody asked for. */
static struct beest_kv_value *value_of(struct collection *c, const memcached_result_st *result)
{
	size_t step, i;

	for (step = 0; step < c->count; step++) {
		i = (c->next + step) % c->count;
		if (!is_key(c, i, result))
			continue;
		c->next = i + 1;
		return &c->values[c->where ? c->where[i] : i];
	}

	return NULL;
}

/* An empty value has a byte of its own: NULL means absent. */
static int copy_result(struct collection *c, const memcached_result_st *result)
{
	struct beest_kv_value *value = value_of(c, result);
	size_t size = memcached_result_length(result);

	if (!value || value->bytes)
		return beest_fail(EPROTO, "an answer for a key that was not asked for");

	value->bytes = malloc(size ? size : 1);
	if (!value->bytes)
		return beest_fail(ENOMEM, "no memory for a value of %zu bytes", size);
	if (size)
		memcpy(value->bytes, memcached_result_value(result), size);
	value->size = size;

	return 0;
}

/* 1: one more, 0: that was all. */
static int collect_one(struct beest_memcached *session, memcached_result_st *buffer,
		       struct collection *c, int64_t deadline)
{
	memcached_result_st *result;
	memcached_return_t rc;
	int ret;

	set_timeout(session, deadline);
	buffer->count = 1;	/* at 0, every failure would be called NOT FOUND */
	result = memcached_fetch_result(session->memc, buffer, &rc);
	if (result && rc == MEMCACHED_SUCCESS) {
		ret = copy_result(c, result);
		if (ret == 0)
			return 1;
		session->sound = false;
		return beest_fail_prefix(ret, "server %s", session->address->label);
	}
	if (rc == MEMCACHED_END)
		rc = MEMCACHED_NOTFOUND;

	return judge(session, rc, MEMCACHED_NOTFOUND, 0);
}

/* With signals blocked. */
static int collect_all(struct beest_memcached *session, struct collection *c, int64_t deadline)
{
	memcached_result_st buffer;
	int ret;

	memcached_result_create(session->memc, &buffer);
	do
		ret = collect_one(session, &buffer, c, deadline);
	while (ret > 0);
	memcached_result_free(&buffer);

	return ret;
}

int beest_memcached_collect(struct beest_memcached *session, const char *const *keys,
			    const size_t *lengths, const size_t *where, size_t count,
			    struct beest_kv_value *values, int64_t deadline)
{
	struct collection c = { keys, lengths, where, count, 0, values };
	sigset_t before;
	int ret;

	block_signals(&before);
	ret = collect_all(session, &c, deadline);
	restore_signals(&before);

	return ret;
}

/* ----------------------------------------------------- requests of kv_run --- */

/* An idle connection that was answered within this time most likely still lives. */
#define LAZY_TIME (100 * BEEST_MS)

static memcached_return_t write_issue(struct beest_memcached *session,
				      struct beest_kv_write *write)
{
	const char *value = write->size ? write->value : "";
	time_t ttl = (time_t)beest_request_ttl(write->ttl);
	size_t length = strlen(write->key);

	switch (write->verb) {
	case BEEST_KV_SET:
		return memcached_set(session->memc, write->key, length, value, write->size, ttl, 0);
	case BEEST_KV_ADD:
		return memcached_add(session->memc, write->key, length, value, write->size, ttl, 0);
	case BEEST_KV_DELETE:
		return memcached_delete(session->memc, write->key, length, 0);
	case BEEST_KV_INCR:
		return memcached_increment(session->memc, write->key, length, 1, &write->number);
	}

	return MEMCACHED_INVALID_ARGUMENTS;
}

/* Its answer comes before the next write goes.  0, -ENOENT, -EEXIST, or a failure. */
static int write_answered(struct beest_memcached *session, struct beest_kv_write *write,
			  int64_t deadline)
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
	memcached_return_t rc;

	set_timeout(session, deadline);
	rc = write_issue(session, write);
	if (write->verb == BEEST_KV_ADD && rc == MEMCACHED_DATA_EXISTS)
		rc = MEMCACHED_NOTSTORED;
	/* libmemcached does not know the code that the binary protocol has for it */
	if (write->verb == BEEST_KV_INCR && rc == MEMCACHED_UNKNOWN_READ_FAILURE &&
	    session->address->login && session->answered)
		return failed_with(session, &no_number);

	return judge(session, rc, rows[write->verb].benign, rows[write->verb].err);
}

/*
 * Any doubt about a quiet write means that of those before it some may be lost while later
 * ones would be carried out: libmemcached connects again without a word.
 */
static int write_quiet(struct beest_memcached *session, const struct beest_kv_write *write,
		       int64_t deadline)
{
	struct beest_kv_write copy = *write;
	memcached_return_t rc;
	int ret;

	set_timeout(session, deadline);
	memcached_behavior_set(session->memc, MEMCACHED_BEHAVIOR_NOREPLY, 1);
	rc = write_issue(session, &copy);
	memcached_behavior_set(session->memc, MEMCACHED_BEHAVIOR_NOREPLY, 0);
	if (rc == MEMCACHED_SUCCESS || rc == MEMCACHED_BUFFERED)
		return 0;

	ret = failed(session, rc);

	return ret == -EPROTO ? -ECONNRESET : ret;
}

/* In the binary protocol, which a login means, quiet writes shift the answers behind them. */
static int write_unasked(struct beest_memcached *session, const struct beest_kv_write *write,
			 int64_t deadline)
{
	struct beest_kv_write copy = *write;
	int ret;

	if (!session->address->login)
		return write_quiet(session, write, deadline);

	ret = write_answered(session, &copy, deadline);

	return ret == -ENOENT || ret == -EEXIST ? 0 : ret;
}

bool beest_memcached_is_answered(const struct beest_kv_request *request,
				 const struct beest_kv_write *write)
{
	return request->flags & BEEST_KV_ANSWERED || write->verb == BEEST_KV_INCR;
}

static int writes_carry_out(struct beest_memcached *session, struct beest_kv_request *request,
			    int64_t deadline)
{
	struct beest_kv_write *write;
	size_t i;
	int ret = 0;

	for (i = 0; i < request->write_count && ret == 0; i++) {
		write = &request->writes[i];
		if (!beest_memcached_is_answered(request, write)) {
			ret = write_unasked(session, write, deadline);
			continue;
		}
		write->ret = write_answered(session, write, deadline);
		if (write->ret < 0)
			write->number = 0;
		ret = session->sound ? 0 : write->ret;
	}

	return ret;
}

static int keys_ask(struct beest_memcached *session, const struct beest_kv_request *request,
		    const size_t *lengths, size_t count, int64_t deadline)
{
	int ret;

	set_timeout(session, deadline);
	ret = judge(session, memcached_mget(session->memc, request->keys, lengths, count),
		    MEMCACHED_SUCCESS, 0);
	session->asked = ret == 0;

	return ret;
}

/* The witness shows that it is a Memcached that answers, and that it took what came before. */
static int keys_collect(struct beest_memcached *session, struct beest_kv_request *request,
			const size_t *lengths, size_t count, int64_t deadline)
{
	struct collection c = {
		request->keys, lengths, NULL, count, 0, request->values,
	};
	int ret;

	session->asked = false;
	ret = collect_all(session, &c, deadline);
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

static int opening_send(struct beest_memcached *session, const struct beest_kv_request *request,
			int64_t deadline)
{
	return request->opening ? write_unasked(session, request->opening, deadline) : 0;
}

static bool has_increment(const struct beest_kv_request *request)
{
	size_t i;

	for (i = 0; i < request->write_count; i++)
		if (request->writes[i].verb == BEEST_KV_INCR)
			return true;

	return false;
}

/*
 * libmemcached may abort over what some service that is no Memcached answers to a command
 * other than get.  So before the first such command the witness has to come.
 */
static int increment_prepare(struct beest_memcached *session, struct beest_kv_request *request,
			     const size_t *lengths, int64_t deadline)
{
	int ret;

	if (session->opened || !request->opening || !has_increment(request))
		return 0;

	ret = opening_send(session, request, deadline);
	if (ret == 0)
		ret = keys_ask(session, request, lengths, 1, deadline);
	if (ret == 0)
		ret = keys_collect(session, request, lengths, 1, deadline);
	beest_kv_values_free(request->values, 1);

	return ret;
}

static int lazy_send(struct beest_memcached *session, int64_t deadline)
{
	set_timeout(session, deadline);

	return judge(session, memcached_flush_buffers(session->memc), MEMCACHED_SUCCESS, 0);
}

static bool is_lazy(const struct beest_memcached *session,
		    const struct beest_kv_request *request)
{
	return request->flags & BEEST_KV_LAZY && session->opened &&
	       beest_clock_now() - session->heard <= LAZY_TIME;
}

static int request_send(struct beest_memcached *session, struct beest_kv_request *request,
			const size_t *lengths, int64_t deadline)
{
	bool lazy = is_lazy(session, request);
	int ret;

	ret = increment_prepare(session, request, lengths, deadline);
	if (ret == 0)
		ret = writes_carry_out(session, request, deadline);
	if (ret == 0 && !session->opened)
		ret = opening_send(session, request, deadline);
	if (ret < 0)
		return ret;
	if (lazy)
		return lazy_send(session, deadline);

	return keys_ask(session, request, lengths, request->key_count, deadline);
}

/* Of a request whose writes are answered: only what must come before them. */
static int preface_send(struct beest_memcached *session, struct beest_kv_request *request,
			const size_t *lengths, int64_t deadline)
{
	int ret;

	if (session->opened || !request->key_count)
		return 0;

	ret = opening_send(session, request, deadline);
	if (ret == 0)
		ret = keys_ask(session, request, lengths, request->key_count, deadline);

	return ret;
}

int beest_memcached_send(struct beest_memcached *session, struct beest_kv_request *request,
			 const size_t *lengths, int64_t deadline)
{
	sigset_t before;
	int ret;

	session->batch = true;
	session->asked = false;
	request->fresh = !session->opened;
	block_signals(&before);
	if (request->flags & BEEST_KV_ANSWERED)
		ret = preface_send(session, request, lengths, deadline);
	else
		ret = request_send(session, request, lengths, deadline);
	restore_signals(&before);

	return ret;
}

static int request_receive(struct beest_memcached *session, struct beest_kv_request *request,
			   const size_t *lengths, int64_t deadline)
{
	int ret = 0;

	if (session->asked) {
		ret = keys_collect(session, request, lengths, request->key_count, deadline);
		request->answered = ret == 0;
	}
	if (ret < 0 || !(request->flags & BEEST_KV_ANSWERED))
		return ret;

	ret = writes_carry_out(session, request, deadline);
	if (ret == 0) {
		session->opened = true;
		session->heard = beest_clock_now();
	}

	return ret;
}

int beest_memcached_receive(struct beest_memcached *session, struct beest_kv_request *request,
			    const size_t *lengths, int64_t deadline)
{
	sigset_t before;
	int ret;

	block_signals(&before);
	ret = request_receive(session, request, lengths, deadline);
	restore_signals(&before);

	return ret;
}
