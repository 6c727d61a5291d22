/* SPDX-License-Identifier: MIT */
/*
 * memcached.c - libmemcached with care
 *
 * Left alone, libmemcached hangs for ever when two signals arrive during a get (1.1.0
 * to 1.1.4), takes a late answer for the next request's, does not try a failed server
 * again for seconds, and reports many failures as NOT FOUND.  Hence the rules of
 * memcached.h.
 */
#include "config.h"

#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/kv/memcached.h"
#include "lib/kv/request.h"
#include "lib/kv/sentence.h"

/* An idle connection that brought an answer within this time most likely still works. */
#define LAZY_TIME (100 * BEEST_MS)

#define NO_PERMISSION "no permission to connect: "
#define NO_MEMORY "this process is out of memory"
#define NO_NUMBER "the value of a counter is not a number"
#define TOO_LONG "an answer with an impossibly long value"

/*
 * libmemcached copies the key of an answer without checking its length.  So the result is
 * followed by room for a whole line, which has less than 512 bytes.
 */
struct beest_memcached_answer {
	memcached_result_st result;
	char line[512];
};

/* The meanings of libmemcached's codes. */
static const struct meaning {
	int code;
	int err;
	const char *phrase;
} codes[] = {
	{ MEMCACHED_CONNECTION_FAILURE, ECONNRESET, BEEST_KV_CLOSED },
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
	{ MEMCACHED_SERVER_ERROR, ENOBUFS, "it reports an error" },
	{ MEMCACHED_E2BIG, EMSGSIZE, BEEST_KV_TOO_LARGE },
	{ MEMCACHED_BAD_KEY_PROVIDED, EINVAL, "it refuses the key" },
	{ MEMCACHED_KEY_TOO_BIG, EINVAL, "it refuses the key" },
	{ MEMCACHED_INVALID_ARGUMENTS, EINVAL, "the address cannot be used" },
	{ MEMCACHED_MEMORY_ALLOCATION_FAILURE, ENOMEM, NO_MEMORY },
};

/* libmemcached's saved errno, when set, is more precise. */
static const struct meaning errnos[] = {
	{ ECONNREFUSED, ECONNREFUSED, BEEST_KV_REFUSED },
	{ ENOENT, ECONNREFUSED, "no such socket" },
	{ EHOSTUNREACH, EHOSTUNREACH, "no route to the host, or a firewall there rejects "
		"connections" },
	{ ENETUNREACH, ENETUNREACH, "the network is unreachable" },
	{ EADDRNOTAVAIL, ENETUNREACH, BEEST_KV_NO_PORT },
	{ EAFNOSUPPORT, ENETUNREACH, "this host has no such address family" },
	{ ETIMEDOUT, EHOSTDOWN, "no answer" },
	{ ECONNRESET, ECONNRESET, BEEST_KV_CLOSED },
	{ EPIPE, ECONNRESET, BEEST_KV_CLOSED },
	{ EACCES, EACCES, NO_PERMISSION "a rule of this host forbids it (a prohibit route, a "
		"firewall, SELinux)" },
	{ EPERM, EACCES, NO_PERMISSION "a rule of this host forbids it (a firewall, SELinux)" },
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

/* connect(2) refuses any file that is not a socket as it refuses a socket without a server. */
static const char *row_phrase(const struct meaning *row,
			      const struct beest_memcached_address *address)
{
	struct stat status;

	if (row->err == EACCES && !address->port && (row->code == EACCES || row->code == EPERM))
		return NO_PERMISSION "the mode of the socket file, or of a folder above it, does "
			"not admit this user (memcached -a)";
	if (row->code == EINVAL && !strncmp(address->host, "fe80:", 5) &&
	    !strchr(address->host, '%'))
		return BEEST_KV_NO_SCOPE;
	if (row->code != ECONNREFUSED || address->port || stat(address->host, &status) < 0 ||
	    S_ISSOCK(status.st_mode))
		return row->phrase;

	return S_ISDIR(status.st_mode) ? "a directory, not a socket" : "a file, not a socket";
}

int beest_memcached_refused(const struct beest_memcached_address *address, int error)
{
	const struct meaning *row = meaning_find(errnos, BEEST_COUNT(errnos), error);

	return beest_fail(row ? row->err : ECONNRESET, "server %s: %s", address->label,
			  row ? row_phrase(row, address) : strerror(error));
}

static int session_fail(struct beest_memcached *session, int err, const char *phrase)
{
	session->sound = false;

	return beest_fail(err, "server %s: %s", session->address->label, phrase);
}

/* The server's text behind SERVER_ERROR, such as a proxy's that cannot reach its own servers. */
static bool server_said(const char *message, char *phrase, size_t size)
{
	static const char before[] = "SERVER ERROR, ", after[] = ",  host: ";
	const char *begin = strstr(message, before), *end = strstr(message, after);

	if (!begin || !end || begin + strlen(before) >= end)
		return false;
	begin += strlen(before);
	snprintf(phrase, size, "it reports an error: '%.*s'", (int)(end - begin), begin);

	return true;
}

static int code_fail(struct beest_memcached *session, memcached_return_t rc)
{
	const struct beest_memcached_address *address = session->address;
	const char *message = "";
	const struct meaning *row;
	char phrase[256];

	/* memcached_last_error_message() of libmemcached 1.0.16 omits this text */
	if (rc == MEMCACHED_CLIENT_ERROR || rc == MEMCACHED_SERVER_ERROR)
		message = memcached_server_error(
			memcached_server_instance_by_position(session->handle, 0));
	if (strstr(message, "unauthenticated"))
		return session_fail(session, EACCES, BEEST_KV_LOGIN);
	if (strstr(message, "non-numeric"))
		return session_fail(session, EBADMSG, NO_NUMBER);
	if (rc == MEMCACHED_SERVER_ERROR && server_said(message, phrase, sizeof(phrase)))
		return session_fail(session, ENOBUFS, phrase);
	if (rc == MEMCACHED_HOST_LOOKUP_FAILURE && address->port && strchr(address->host, ':'))
		return session_fail(session, EAFNOSUPPORT, "the libmemcached of this host cannot "
				    "use an IPv6 address: give the IPv4 address or install "
				    "libmemcached 1.1");
	if (session->memory.claimed)
		return session_fail(session, EPROTO, TOO_LONG);

	row = meaning_find(errnos, BEEST_COUNT(errnos),
			   memcached_last_error_errno(session->handle));
	/* with several keys, the second finds no connection, and the first one's failure is lost */
	session->request->unexplained = !row && (rc == MEMCACHED_SERVER_TEMPORARILY_DISABLED ||
						 rc == MEMCACHED_SERVER_MARKED_DEAD);
	if (!row)
		row = meaning_find(codes, BEEST_COUNT(codes), rc);
	if (!row)
		return session_fail(session, EPROTO, "an answer that is not Memcached's: does "
				    "another service listen there?");
	if (row->err == EHOSTDOWN && session->request->heard)
		return session_fail(session, EHOSTDOWN, BEEST_KV_LATE);
	/* keys are sent over a connection that is established */
	if (row->err == EHOSTDOWN && session->request->fresh && !session->request->unexplained)
		return session_fail(session, EHOSTDOWN, session->asked || !address->port ?
				    BEEST_KV_SILENT : BEEST_KV_UNANSWERED);

	return session_fail(session, row->err, row_phrase(row, address));
}

/*
 * Turns @rc into a result.  @benign means -@benign_err unless there is a failure behind it:
 * libmemcached also reports failures as NOT FOUND, and keeps the real code as its last error.
 */
static int code_judge(struct beest_memcached *session, memcached_return_t rc,
		      memcached_return_t benign, int benign_err)
{
	memcached_return_t last = memcached_last_error(session->handle);

	if (rc == MEMCACHED_SUCCESS)
		return 0;
	if (rc == benign && last == MEMCACHED_SUCCESS)
		return -benign_err;

	return code_fail(session, rc == benign || rc == MEMCACHED_NOTFOUND ? last : rc);
}

/* --------------------------------------------------------------- sessions --- */

/*
 * Gives the result a buffer.  Without one, a claimed length of 2^64 - 2 plus the line end would
 * wrap to 0, and libmemcached would write without having allocated anything.
 */
static bool answer_prepare(memcached_result_st *answer)
{
	return memcached_success(memcached_result_set_value(answer, "", 1));
}

/* The answer has its memory before any request: one that failed for want of it could be done. */
static bool handle_create(struct beest_memcached *session)
{
	session->answer = calloc(1, sizeof(*session->answer));
	session->memory.kept = session->answer;
	session->handle = session->answer ? memcached_create(NULL) : NULL;

	return session->handle &&
		beest_memory_set(session->handle, &session->memory) &&
		memcached_result_create(session->handle, &session->answer->result) &&
		answer_prepare(&session->answer->result) &&
		answer_prepare(&session->handle->result);
}

/* Keys need no MEMCACHED_BEHAVIOR_VERIFY_KEY: request.c has checked each byte. */
static bool handle_configure(const struct beest_memcached *session)
{
	static const memcached_behavior_t behaviors[] = {
		MEMCACHED_BEHAVIOR_NO_BLOCK, MEMCACHED_BEHAVIOR_TCP_NODELAY,
		MEMCACHED_BEHAVIOR_BUFFER_REQUESTS,
	};
	const struct beest_memcached_address *address = session->address;
	memcached_return_t rc = MEMCACHED_SUCCESS;
	size_t i;

	for (i = 0; i < BEEST_COUNT(behaviors) && rc == MEMCACHED_SUCCESS; i++)
		rc = memcached_behavior_set(session->handle, behaviors[i], 1);
	if (rc == MEMCACHED_SUCCESS && address->port)
		rc = memcached_server_add(session->handle, address->host, address->port);
	else if (rc == MEMCACHED_SUCCESS)
		rc = memcached_server_add_unix_socket(session->handle, address->host);

	return rc == MEMCACHED_SUCCESS;
}

struct beest_memcached *beest_memcached_new(const struct beest_memcached_address *address)
{
	struct beest_memcached *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;

	session->address = address;
	session->pid = getpid();
	session->sound = true;
	if (handle_create(session) && handle_configure(session))
		return session;
	beest_memcached_free(session);

	return NULL;
}

/*
 * libmemcached before 1.1.3 lets its count of due answers wrap below 0 when a server sends more
 * than it was asked for.  It would then read four thousand million answers before it sends "quit".
 */
static bool answers_miscounted(const struct beest_memcached *session)
{
	return session->handle && memcached_server_count(session->handle) &&
		memcached_server_response_count(
			memcached_server_instance_by_position(session->handle, 0)) > INT32_MAX;
}

/* A session that cannot be freed stays reachable, so that leak checkers do not report it. */
void beest_memcached_free(struct beest_memcached *session)
{
	static struct beest_memcached *forgotten;

	if (session->pid != getpid() || answers_miscounted(session)) {
		session->next = __atomic_exchange_n(&forgotten, session, __ATOMIC_RELAXED);
		return;
	}
	/* libmemcached sends "quit" and waits for the server to hang up; a silent one never does */
	if (session->handle)
		memcached_behavior_set(session->handle, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, 1);
	if (session->answer)
		memcached_result_free(&session->answer->result);
	memcached_free(session->handle);
	free(session->answer);
	free(session->lengths);
	free(session);
}

/* libmemcached applies its timeout to each read or write, and closes the connection then. */
static void timeout_set(struct beest_memcached *session)
{
	const int64_t patience = session->request->patience;
	int64_t left = beest_clock_left(session->deadline);
	uint64_t ms;

	left = BEEST_MIN(left, patience ? patience : INT64_MAX) / BEEST_MS;
	ms = (uint64_t)BEEST_MAX(BEEST_MIN(left, INT32_MAX), 1);

	memcached_behavior_set(session->handle, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, ms);
	memcached_behavior_set(session->handle, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, ms);
}

/* ----------------------------------------------------------------- writes --- */

/* The next answer; NULL: none.  Restores the fields that an overlong key may have overwritten. */
static memcached_result_st *answer_fetch(struct beest_memcached *session, memcached_return_t *rc)
{
	memcached_result_st *answer = &session->answer->result, *result;

	timeout_set(session);
	answer->count = 1;	/* at 0, libmemcached would report every failure as NOT FOUND */
	result = memcached_fetch_result(session->handle, answer, rc);
	answer->options.is_allocated = false;
	answer->options.is_initialized = true;

	return *rc == MEMCACHED_SUCCESS ? result : NULL;
}

static memcached_return_t write_issue(struct beest_memcached *session,
				      struct beest_kv_write *write)
{
	const char *key = write->key, *value = write->size ? write->value : "";
	time_t ttl = (time_t)BEEST_MIN(write->ttl, BEEST_TTL_MAX / BEEST_SECOND);
	memcached_st *handle = session->handle;
	size_t length = strlen(key);

	timeout_set(session);
	switch (write->verb) {
	case BEEST_KV_SET:
		return memcached_set(handle, key, length, value, write->size, ttl, 0);
	case BEEST_KV_ADD:
		return memcached_add(handle, key, length, value, write->size, ttl, 0);
	case BEEST_KV_DELETE:
		return memcached_delete(handle, key, length, 0);
	case BEEST_KV_INCR:
		return memcached_increment(handle, key, length, BEEST_MAX(write->delta, 1),
					   &write->number);
	case BEEST_KV_APPEND:
		return memcached_append(handle, key, length, value, write->size, 0, 0);
	case BEEST_KV_CAS:
		return memcached_cas(handle, key, length, value, write->size, ttl, 0,
				     write->unique);
	}

	return MEMCACHED_INVALID_ARGUMENTS;
}

/*
 * libmemcached only buffers a set or a delete, and drops its answer with the next command.
 * Fetching a result sends the buffer and reads just that answer.
 */
static memcached_return_t buffered_await(struct beest_memcached *session, enum beest_kv_verb verb)
{
	memcached_return_t rc;

	answer_fetch(session, &rc);
	if (rc == (verb == BEEST_KV_SET ? MEMCACHED_STORED : MEMCACHED_DELETED))
		return MEMCACHED_SUCCESS;
	if (rc == MEMCACHED_SUCCESS)		/* a value that was not asked for */
		return MEMCACHED_PROTOCOL_ERROR;

	return rc == MEMCACHED_END ? MEMCACHED_NOTFOUND : rc;
}

/* Sends a write and awaits its answer: 0, -ENOENT, -EEXIST, -EMSGSIZE, or a failure. */
static int write_answered(struct beest_memcached *session, struct beest_kv_write *write)
{
	static const struct {
		memcached_return_t benign;
		int err;
	} rows[] = {
		[BEEST_KV_SET] = { MEMCACHED_SUCCESS, 0 },
		[BEEST_KV_ADD] = { MEMCACHED_NOTSTORED, EEXIST },
		[BEEST_KV_DELETE] = { MEMCACHED_NOTFOUND, ENOENT },
		[BEEST_KV_INCR] = { MEMCACHED_NOTFOUND, ENOENT },
		[BEEST_KV_APPEND] = { MEMCACHED_NOTSTORED, ENOENT },
		[BEEST_KV_CAS] = { MEMCACHED_NOTFOUND, ENOENT },
	};
	memcached_return_t rc = write_issue(session, write);

	if (rc == MEMCACHED_BUFFERED)
		rc = buffered_await(session, write->verb);
	if (write->verb == BEEST_KV_ADD && rc == MEMCACHED_DATA_EXISTS)
		rc = MEMCACHED_NOTSTORED;
	if (write->verb == BEEST_KV_CAS && rc == MEMCACHED_DATA_EXISTS)
		return code_judge(session, rc, MEMCACHED_DATA_EXISTS, EEXIST);
	if (rc != MEMCACHED_SUCCESS)
		write->number = 0;
	if (rc == MEMCACHED_E2BIG)
		return beest_fail(EMSGSIZE, "server %s: %s", session->address->label,
				  BEEST_KV_TOO_LARGE);

	return code_judge(session, rc, rows[write->verb].benign, rows[write->verb].err);
}

/*
 * Any doubtful code is a failure: libmemcached reconnects silently, so earlier writes may be lost
 * while later ones would be carried out.
 */
static int write_quiet(struct beest_memcached *session, struct beest_kv_write *write)
{
	memcached_return_t rc;
	int ret;

	rc = memcached_behavior_set(session->handle, MEMCACHED_BEHAVIOR_NOREPLY, 1);
	if (rc == MEMCACHED_SUCCESS)
		rc = write_issue(session, write);
	if (memcached_behavior_set(session->handle, MEMCACHED_BEHAVIOR_NOREPLY, 0) !=
	    MEMCACHED_SUCCESS)
		rc = MEMCACHED_FAILURE;
	if (write->verb == BEEST_KV_INCR)
		write->number = 0;	/* libmemcached has set it to an impossible value */
	if (rc == MEMCACHED_SUCCESS || rc == MEMCACHED_BUFFERED)
		return 0;
	ret = code_fail(session, rc);

	return ret == -EPROTO ? -ECONNRESET : ret;
}

static int writes_carry_out(struct beest_memcached *session)
{
	struct beest_kv_request *request = session->request;
	struct beest_kv_write *write;
	int ret = 0;
	size_t i;

	for (i = 0; i < request->write_count && ret == 0; i++) {
		write = &request->writes[i];
		if (write->answered) {
			write->ret = write_answered(session, write);
			write->done = session->sound;
			request->heard = write->done ? beest_clock_now() : request->heard;
			ret = session->sound ? 0 : write->ret;
		} else {
			ret = write_quiet(session, write);
		}
	}

	return ret;
}

/* ------------------------------------------------------------------ reads --- */

/* Asks for the first @count keys; over a new connection the opening goes before them. */
static int keys_ask(struct beest_memcached *session, size_t count)
{
	struct beest_kv_request *request = session->request;
	size_t *lengths = realloc(session->lengths, count * sizeof(*lengths)), i;
	memcached_return_t rc;
	int ret = 0;

	if (!lengths)
		return session_fail(session, ENOMEM, NO_MEMORY);
	session->lengths = lengths;
	for (i = 0; i < count; i++)
		lengths[i] = strlen(request->keys[i]);
	if (!session->heard && request->opening)
		ret = write_quiet(session, request->opening);
	if (ret < 0)
		return ret;

	timeout_set(session);
	memcached_behavior_set(session->handle, MEMCACHED_BEHAVIOR_SUPPORT_CAS, request->uniques);
	rc = memcached_mget(session->handle, request->keys, lengths, count);
	ret = code_judge(session, rc, MEMCACHED_SUCCESS, 0);
	session->asked = ret == 0 ? count : 0;
	session->expected = 0;

	return ret;
}

/*
 * The place for an answer; NULL: its key was not asked for.  Answers arrive in the order of
 * the keys, without those that are absent.
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

/*
 * Takes a long value over in libmemcached's own memory, since copying the view of a thousand
 * ranks would take as long as reading it.  An empty value has a byte, too: NULL means no memory,
 * and to the caller that the key is absent.
 */
static void *value_take(memcached_result_st *answer)
{
	size_t size = memcached_result_length(answer);
	void *bytes;

	if (size <= BEEST_MEMORY_BLOCK) {
		bytes = malloc(size + 1);
		return bytes && size ? memcpy(bytes, memcached_result_value(answer), size) : bytes;
	}
	bytes = memcached_result_take_value(answer);
	if (answer_prepare(answer))
		return bytes;
	free(bytes);

	return NULL;
}

/* 1: fetched one, 0: there are no more. */
static int value_fetch(struct beest_memcached *session)
{
	memcached_result_st *result;
	struct beest_kv_value *value;
	memcached_return_t rc;

	result = answer_fetch(session, &rc);
	if (!result)
		return code_judge(session, rc == MEMCACHED_END ? MEMCACHED_NOTFOUND : rc,
				  MEMCACHED_NOTFOUND, 0);

	value = value_place(session, result);
	if (!value || value->bytes)
		return session_fail(session, EPROTO, "an answer for a key that was not asked for");
	if (memcached_result_length(result) > BEEST_MEMORY_MAX)
		return session_fail(session, EPROTO, TOO_LONG);
	value->size = memcached_result_length(result);
	value->unique = session->request->uniques ? memcached_result_cas(result) : 0;
	value->bytes = value_take(result);
	if (!value->bytes)
		return session_fail(session, ENOMEM, NO_MEMORY);

	return 1;
}

/* The canary proves that a Memcached answers, and that it carried out the writes before. */
static int keys_collect(struct beest_memcached *session)
{
	const struct beest_kv_request *request = session->request;
	int ret;

	do
		ret = value_fetch(session);
	while (ret > 0);
	session->asked = 0;
	if (ret < 0)
		return ret;
	if (!request->values[0].bytes) {
		session->sound = false;
		return beest_fail(ENODATA, "server %s: '%s' is missing from its answer",
				  session->address->label, request->keys[0]);
	}
	session->heard = beest_clock_now();
	session->request->heard = session->heard;

	return 0;
}

/* --------------------------------------------------------------- requests --- */

/* Sends the writes, then asks for the proof that they were carried out. */
static int request_go(struct beest_memcached *session)
{
	struct beest_kv_request *request = session->request;
	bool lazy = request->lazy && beest_clock_now() - session->heard <= LAZY_TIME;
	int ret = writes_carry_out(session);

	if (ret < 0)
		return ret;
	if (beest_request_ends_answered(request)) {
		session->heard = beest_clock_now();
		request->answered = true;
		return 0;
	}
	if (!lazy) {
		beest_kv_values_free(request->values, 1);
		return keys_ask(session, request->key_count);
	}
	timeout_set(session);

	return code_judge(session, memcached_flush_buffers(session->handle),
			  MEMCACHED_SUCCESS, 0);
}

/*
 * libmemcached may abort on a foreign service's answer to any command but get.  So a new
 * connection has to bring the canary before its first answered write.
 */
int beest_memcached_send(struct beest_memcached *session, struct beest_kv_request *request,
			 int64_t deadline)
{
	session->request = request;
	session->deadline = deadline;
	session->asked = 0;
	request->fresh = !session->heard;
	if (!beest_request_has_answers(request))
		return request_go(session);

	return request->fresh && request->key_count ? keys_ask(session, 1) : 0;
}

int beest_memcached_receive(struct beest_memcached *session)
{
	struct beest_kv_request *request = session->request;
	int ret = 0;

	if (beest_request_has_answers(request)) {
		if (session->asked)
			ret = keys_collect(session);
		if (ret == 0)
			ret = request_go(session);
	}
	if (ret == 0 && session->asked) {
		ret = keys_collect(session);
		request->answered = ret == 0;
	}

	return ret;
}
