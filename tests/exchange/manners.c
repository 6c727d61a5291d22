/* SPDX-License-Identifier: MIT */
/*
 * manners.c - no service at the configured port ends the process or holds it up
 *
 * Each of a table of bad manners is shown at every point of two dialogues: that of a program
 * that pushes messages and uses a service, and one with every kind of request of lib/kv/.  Up
 * to that point the fake server is a good Memcached, so that it also turns hostile late.  Each
 * case is a process with a server of its own: a case that dies is counted and named.
 *
 * promise: hartebeest-exchange(7)
 */
#include "config.h"

#include <errno.h>
#include <libmemcached/memcached.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hartebeest.h"
#include "lib/kv/kv.h"
#include "tests/support/crowd.h"
#include "tests/support/loopback.h"
#include "tests/support/memcached.h"
#include "tests/support/rank.h"
#include "tests/support/silence.h"
#include "tests/support/unit.h"

/* ---------------------------------------------------------------- the manners --- */

enum {
	STAY = 0,		/* keeps the connection and repeats itself */
	CLOSE = 1,		/* then closes the connection */
	GOOD_AFTER = 2,		/* then the good answer follows */
	GOOD_BEFORE = 4,	/* the good answer comes first */
	CUT = 8,		/* only @cut bytes of the good answer */
	DRIP = 16,		/* byte by byte, with pauses */
	MEMCACHED = 32,		/* a Memcached could say it, so it shows no foreign service */
};

struct manner {
	const char *name;
	int how;
	const char *bytes;	/* "@" in it is replaced by the first key of the request */
	size_t size;
	size_t cut;
};

#define ROW(name, how, bytes) { name, how, bytes, sizeof(bytes) - 1, 0 }
#define CUT_AT(byte) { "closes after byte " #byte, CUT | CLOSE | MEMCACHED, NULL, 0, byte }, \
	{ "falls silent after byte " #byte, CUT | MEMCACHED, NULL, 0, byte }
#define X16 "xxxxxxxxxxxxxxxx"
#define X256 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16

static const struct manner manners[] = {
	/* other services */
	ROW("FTP", STAY, "220 ProFTPD Server ready.\r\n"),
	ROW("SMTP", STAY, "220 mail.example.org ESMTP Postfix\r\n"),
	ROW("SMTP, closing", CLOSE, "421 4.7.0 too many errors\r\n"),
	ROW("POP3", STAY, "+OK POP3 ready\r\n"),
	ROW("IMAP", STAY, "* OK [CAPABILITY IMAP4rev1] ready\r\n"),
	ROW("SSH", STAY, "SSH-2.0-OpenSSH_9.2\r\n"),
	ROW("HTTP", CLOSE, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
	ROW("Redis", STAY, "-ERR unknown command\r\n"),
	ROW("Redis value", STAY, "$5\r\nhello\r\n"),
	ROW("MySQL", STAY, "J\0\0\0\x0a" "5.7.44\0\x08\0\0\0"),
	ROW("TLS alert", CLOSE, "\x15\x03\x01\0\x02\x02\x28"),
	ROW("telnet", STAY, "\xff\xfd\x18\xff\xfd\x20login: "),
	ROW("time of day", CLOSE, "61366 26-11-22 07:14:02 00 0 0 123.4 UTC(NIST) *\r\n"),
	/* words of Memcached in the wrong place */
	ROW("OK", STAY, "OK\r\n"),
	ROW("END", STAY | MEMCACHED, "END\r\n"),
	ROW("STORED", STAY | MEMCACHED, "STORED\r\n"),
	ROW("NOT_STORED", STAY | MEMCACHED, "NOT_STORED\r\n"),
	ROW("DELETED", STAY | MEMCACHED, "DELETED\r\n"),
	ROW("NOT_FOUND", STAY | MEMCACHED, "NOT_FOUND\r\n"),
	ROW("EXISTS", STAY, "EXISTS\r\n"),
	ROW("TOUCHED", STAY, "TOUCHED\r\n"),
	ROW("VERSION", STAY | MEMCACHED, "VERSION 1.6.18\r\n"),
	ROW("STAT", STAY, "STAT pid 1\r\n"),
	ROW("STAT without end", STAY, "STAT"),
	ROW("ITEM", STAY, "ITEM a [1 b; 0 s]\r\n"),
	ROW("a digit", STAY, "7"),
	ROW("a number", STAY, "12345\r\n"),
	ROW("a number beyond 64 bits", STAY, "99999999999999999999999\r\n"),
	ROW("a negative number", STAY, "-1\r\n"),
	ROW("ERROR", STAY | MEMCACHED, "ERROR\r\n"),
	ROW("CLIENT_ERROR", STAY | MEMCACHED, "CLIENT_ERROR bad command line format\r\n"),
	ROW("SERVER_ERROR", STAY | MEMCACHED, "SERVER_ERROR out of memory storing object\r\n"),
	ROW("SERVER_ERROR alone", STAY | MEMCACHED, "SERVER_ERROR\r\n"),
	ROW("meta words", STAY, "HD\r\nEN\r\nVA 1 c1\r\nx\r\nMN\r\n"),
	ROW("OK before each answer", GOOD_AFTER | MEMCACHED, "OK\r\n"),
	ROW("END before each answer", GOOD_AFTER | MEMCACHED, "END\r\n"),
	ROW("a number before each answer", GOOD_AFTER | MEMCACHED, "1\r\n"),
	ROW("END twice", GOOD_BEFORE | MEMCACHED, "END\r\n"),
	ROW("STORED behind each answer", GOOD_BEFORE | MEMCACHED, "STORED\r\n"),
	ROW("VALUE behind the end", GOOD_BEFORE | MEMCACHED, "VALUE @ 0 1\r\nx\r\n"),
	ROW("ERROR behind each answer", GOOD_BEFORE | MEMCACHED, "ERROR\r\n"),
	/* impossible values */
	ROW("VALUE of another key", STAY, "VALUE other 0 1\r\nx\r\nEND\r\n"),
	ROW("VALUE twice", STAY | MEMCACHED, "VALUE @ 0 1\r\nx\r\nVALUE @ 0 1\r\ny\r\nEND\r\n"),
	ROW("VALUE alone", STAY, "VALUE\r\n"),
	ROW("VALUE without a key", STAY, "VALUE  0 1\r\nx\r\nEND\r\n"),
	ROW("VALUE without numbers", STAY, "VALUE @\r\nx\r\nEND\r\n"),
	ROW("VALUE with words for numbers", STAY, "VALUE @ zero one\r\nx\r\nEND\r\n"),
	ROW("VALUE without END", STAY, "VALUE @ 0 1\r\nx\r\n"),
	ROW("a value shorter than said", STAY, "VALUE @ 0 5\r\nx\r\nEND\r\n"),
	ROW("a value longer than said", STAY, "VALUE @ 0 1\r\nxxxxx\r\nEND\r\n"),
	ROW("0 bytes", STAY, "VALUE @ 0 0\r\n\r\nEND\r\n"),
	ROW("-1 bytes", STAY, "VALUE @ 0 -1\r\nx\r\nEND\r\n"),
	ROW("2 MiB", STAY, "VALUE @ 0 2097152\r\nx\r\nEND\r\n"),
	ROW("4 GiB", STAY, "VALUE @ 0 4294967296\r\nx\r\nEND\r\n"),
	ROW("4 GiB less 2", STAY, "VALUE @ 0 4294967294\r\nx\r\nEND\r\n"),
	ROW("2^63 bytes", STAY, "VALUE @ 0 9223372036854775808\r\nx\r\nEND\r\n"),
	ROW("2^64 - 1 bytes", STAY, "VALUE @ 0 18446744073709551615\r\nx\r\nEND\r\n"),
	ROW("2^64 - 2 bytes", STAY, "VALUE @ 0 18446744073709551614\r\nx\r\nEND\r\n"),
	ROW("2^64 bytes", STAY, "VALUE @ 0 18446744073709551616\r\nx\r\nEND\r\n"),
	ROW("flags beyond 32 bits", STAY | MEMCACHED, "VALUE @ 99999999999 1\r\nx\r\nEND\r\n"),
	ROW("a key of 256 bytes", STAY, "VALUE " X256 " 0 1\r\nx\r\nEND\r\n"),
	ROW("a key of 320 bytes", STAY, "VALUE " X256 X16 X16 X16 X16 " 0 1\r\nx\r\nEND\r\n"),
	ROW("a key of 320 bytes and a bad length", STAY,
	    "VALUE " X256 X16 X16 X16 X16 " 0 y\r\nx\r\nEND\r\n"),
	ROW("a key of 512 bytes", STAY, "VALUE " X256 X256 " 0 1\r\nx\r\nEND\r\n"),
	ROW("a line of 1024 bytes", STAY, X256 X256 X256 X256 "\r\n"),
	ROW("a line without end", STAY, X256 X256 X256),
	/* bytes */
	ROW("zeros", STAY, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
	ROW("garbage", STAY, "\x80\xff\x7f\x01\x1b[2J\x9b" "1;31m\xc3\x28\r\n"),
	ROW("a binary answer", STAY,
	    "\x81\x00\0\0\0\0\0\x00\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
	ROW("a binary answer of 4 GiB", STAY,
	    "\x81\x00\0\0\0\0\0\x00\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0"),
	ROW("line ends only", STAY, "\r\n\r\n\r\n"),
	ROW("line feeds only", STAY, "\n\n\n"),
	ROW("half a line", STAY, "VAL"),
	ROW("half a line, closing", CLOSE, "VALUE @ 0 "),
	ROW("nothing", STAY | MEMCACHED, ""),
	ROW("closes at once", CLOSE | MEMCACHED, ""),
	CUT_AT(1), CUT_AT(2), CUT_AT(5), CUT_AT(6), CUT_AT(7), CUT_AT(20), CUT_AT(24), CUT_AT(25),
	CUT_AT(26), CUT_AT(27), CUT_AT(28), CUT_AT(30), CUT_AT(40), CUT_AT(44), CUT_AT(45),
	CUT_AT(46), CUT_AT(47), CUT_AT(48), CUT_AT(50), CUT_AT(100),
	{ "drips its answers", DRIP | GOOD_AFTER | MEMCACHED, "", 0, 0 },
	ROW("drips END", DRIP | MEMCACHED, "END\r\n"),
	ROW("drips a greeting", DRIP, "220 hello\r\n"),
};

/* The result of a case, which the test's process reads. */
struct result {
	int ret, answers, step;
	char error[BEEST_ERROR_SIZE];
	/*
	 * libmemcached asserts that a set, add or incr is not answered by another good word.  In
	 * answers to these and to delete it copies a key of any length into a buffer of 250 bytes.
	 * So a Memcached that turns hostile can end the process, as SECURITY.md says; no other
	 * service can.
	 */
	bool excused, overflows;
};

/* ------------------------------------------------------------ a fake Memcached --- */

#define ITEMS 64
#define CONNECTIONS 32
#define DRIP_MS 2

struct item {
	char key[256];
	char bytes[4096];
	size_t size;
};

struct connection {
	char in[64 * 1024];
	size_t used;
	char out[64 * 1024];		/* bytes still to drip */
	size_t left;
	bool hung_up;			/* closed once all is sent */
	bool proven;			/* a requested value has been sent */
	bool written;			/* the answer is to a write */
};

struct server {
	struct beest_hostport where;
	int fd;
	struct item items[ITEMS];
	struct connection connections[CONNECTIONS];
	struct result *result;
	struct pollfd polls[CONNECTIONS + 1];	/* of the connections, and the listening socket */

	const struct manner *manner;	/* NULL: it is always good */
	int point;			/* the first bad answer; 0: a greeting */
	bool once;			/* and the only bad one */
	int answers;			/* so far */
};

static void connection_end(struct server *server, int i)
{
	close(server->polls[i].fd);
	server->polls[i].fd = -1;
}

static void say(struct server *server, int i, const char *bytes, size_t size)
{
	struct connection *at = &server->connections[i];

	if (at->left || (server->manner && server->manner->how & DRIP &&
			 server->answers >= server->point)) {
		if (at->left + size <= sizeof(at->out)) {
			memcpy(at->out + at->left, bytes, size);
			at->left += size;
		}
		return;
	}
	if (size && send(server->polls[i].fd, bytes, size, MSG_NOSIGNAL) < 0)
		at->hung_up = true;
}

static void say_manner(struct server *server, int i, const char *key)
{
	const struct manner *manner = server->manner;
	char text[4096], *at = text;
	size_t j;

	for (j = 0; j < manner->size; j++)
		if (manner->bytes[j] == '@')
			at += sprintf(at, "%s", key ? key : "nothing");
		else
			*at++ = manner->bytes[j];
	say(server, i, text, (size_t)(at - text));
}

static void prove(struct server *server, int i, const char *said)
{
	server->connections[i].proven |= said && !strncmp(said, "VALUE ", 6) &&
					  strncmp(said, "VALUE other", 11);
}

/* Bytes beyond an answer become the answer to the next command, which may be a write. */
static void excuse(struct server *server, int i)
{
	const struct connection *at = &server->connections[i];

	server->result->excused |= (at->written || server->manner->how & GOOD_BEFORE) && at->proven;
	server->result->overflows |= at->written && strstr(server->manner->name, "a key of ");
}

/* One answer, good or by the manner. */
static void answer(struct server *server, int i, const char *key, const char *bytes, size_t size)
{
	const struct manner *manner = server->manner;
	int number = ++server->answers;

	__atomic_store_n(&server->result->answers, number, __ATOMIC_RELEASE);
	if (!manner || number < server->point || (server->once && number > server->point)) {
		say(server, i, bytes, size);
		prove(server, i, bytes);
		return;
	}
	prove(server, i, manner->how & (GOOD_BEFORE | GOOD_AFTER) ? bytes : manner->bytes);
	excuse(server, i);
	if (manner->how & GOOD_BEFORE)
		say(server, i, bytes, size);
	if (manner->how & CUT)
		say(server, i, bytes, size < manner->cut ? size : manner->cut);
	else
		say_manner(server, i, key);
	if (manner->how & GOOD_AFTER)
		say(server, i, bytes, size);
	if (manner->how & CLOSE)
		server->connections[i].hung_up = true;
}

static struct item *item_of(struct server *server, const char *key, bool make)
{
	struct item *item;

	for (item = server->items; item < server->items + ITEMS && item->key[0]; item++)
		if (!strcmp(item->key, key))
			return item;
	if (!make || item == server->items + ITEMS)
		return NULL;
	snprintf(item->key, sizeof(item->key), "%s", key);
	item->size = SIZE_MAX;
	return item;
}

#define ABSENT(item) (!(item) || (item)->size == SIZE_MAX)

static void serve_get(struct server *server, int i, char *keys)
{
	static char text[ITEMS * 4096];
	char *key, *rest = NULL, first[256];
	size_t size = 0;
	struct item *item;

	snprintf(first, sizeof(first), "%.*s", (int)strcspn(keys, " "), keys);
	for (key = strtok_r(keys, " ", &rest); key; key = strtok_r(NULL, " ", &rest)) {
		item = item_of(server, key, false);
		if (ABSENT(item))
			continue;
		size += (size_t)sprintf(text + size, "VALUE %s 0 %zu\r\n", key, item->size);
		memcpy(text + size, item->bytes, item->size);
		size += item->size;
		size += (size_t)sprintf(text + size, "\r\n");
	}
	size += (size_t)sprintf(text + size, "END\r\n");
	answer(server, i, first, text, size);
}

static void serve_word(struct server *server, int i, const char *key, const char *word,
		       bool quiet)
{
	if (!quiet)
		answer(server, i, key, word, strlen(word));
}

/* A set, add or append.  Returns the number of bytes taken of @data. */
static size_t serve_store(struct server *server, int i, const char *verb, const char *key,
			  const char *data, size_t size, bool quiet)
{
	struct item *item = item_of(server, key, true);
	bool there = !ABSENT(item), appends = !strcmp(verb, "append");
	bool stores = !strcmp(verb, "add") ? !there : there || verb[0] == 's';
	size_t before = appends && there ? item->size : 0;

	if (item && before + size <= sizeof(item->bytes) && stores) {
		memcpy(item->bytes + before, data, size);
		item->size = before + size;
	}
	server->connections[i].written = true;
	serve_word(server, i, key, stores ? "STORED\r\n" : "NOT_STORED\r\n", quiet);
	server->connections[i].written = false;
	return size + 2;
}

static void serve_delete(struct server *server, int i, const char *key, bool quiet)
{
	struct item *item = item_of(server, key, false);
	bool there = !ABSENT(item);

	if (there)
		item->size = SIZE_MAX;
	server->connections[i].written = true;
	serve_word(server, i, key, there ? "DELETED\r\n" : "NOT_FOUND\r\n", quiet);
	server->connections[i].written = false;
}

static void serve_increment(struct server *server, int i, const char *key, unsigned long by)
{
	struct item *item = item_of(server, key, false);
	char text[32] = "NOT_FOUND\r\n";

	if (!ABSENT(item)) {
		item->bytes[item->size] = '\0';
		item->size = (size_t)sprintf(item->bytes, "%lu",
					     strtoul(item->bytes, NULL, 10) + by);
		snprintf(text, sizeof(text), "%.20s\r\n", item->bytes);
	}
	server->connections[i].written = true;
	serve_word(server, i, key, text, false);
	server->connections[i].written = false;
}

/* Serves one command and removes it from the buffer; false: it is incomplete. */
static bool serve_one(struct server *server, int i)
{
	struct connection *at = &server->connections[i];
	char line[32 * 1024], verb[16] = "", key[256] = "", *end;
	unsigned long number = 0, ttl = 0;
	size_t size = 0, length, taken;
	bool quiet;

	end = memmem(at->in, at->used, "\r\n", 2);
	if (at->used && (uint8_t)at->in[0] == 0x80) {
		at->used = 0;
		answer(server, i, NULL, "", 0);
		return false;
	}
	if (!end || end - at->in >= (ptrdiff_t)sizeof(line))
		return false;
	length = (size_t)(end - at->in);
	memcpy(line, at->in, length);
	line[length] = '\0';
	taken = length + 2;
	quiet = strstr(line, "noreply");
	sscanf(line, "%15s %255s %lu %lu %zu", verb, key, &number, &ttl, &size);

	if (!strcmp(verb, "set") || !strcmp(verb, "add") || !strcmp(verb, "append")) {
		if (at->used < taken + size + 2)
			return false;
		taken += serve_store(server, i, verb, key, end + 2, size, quiet);
	} else if (!strcmp(verb, "get") || !strcmp(verb, "gets")) {
		serve_get(server, i, line + strlen(verb) + 1);
	} else if (!strcmp(verb, "delete")) {
		serve_delete(server, i, key, quiet);
	} else if (!strcmp(verb, "incr")) {
		serve_increment(server, i, key, number);
	} else if (!strcmp(verb, "stats")) {
		serve_word(server, i, NULL, "STAT limit_maxbytes 67108864\r\nEND\r\n", false);
	} else if (!strcmp(verb, "version")) {
		serve_word(server, i, NULL, "VERSION 1.6.18\r\n", false);
	} else if (!strcmp(verb, "quit")) {
		at->hung_up = true;
	} else {
		serve_word(server, i, NULL, "ERROR\r\n", false);
	}
	at->used -= taken;
	memmove(at->in, at->in + taken, at->used);
	return at->used > 0;
}

static void serve_drip(struct server *server, int i)
{
	struct connection *at = &server->connections[i];

	if (!at->left)
		return;
	if (send(server->polls[i].fd, at->out, 1, MSG_NOSIGNAL) < 0)
		at->hung_up = true;
	at->left--;
	memmove(at->out, at->out + 1, at->left);
}

static void serve_input(struct server *server, int i)
{
	struct connection *at = &server->connections[i];
	ssize_t got = recv(server->polls[i].fd, at->in + at->used, sizeof(at->in) - at->used,
			   MSG_DONTWAIT);

	if (got == 0 || (got < 0 && errno != EAGAIN) || at->used == sizeof(at->in)) {
		connection_end(server, i);
		return;
	}
	at->used += got > 0 ? (size_t)got : 0;
	while (!at->hung_up && serve_one(server, i))
		;
}

static void serve_accept(struct server *server)
{
	int i, fd = accept(server->fd, NULL, NULL);

	for (i = 0; i < CONNECTIONS && server->polls[i].fd >= 0; i++)
		;
	if (fd < 0 || i == CONNECTIONS) {
		close(fd);
		return;
	}
	server->polls[i] = (struct pollfd){ .fd = fd, .events = POLLIN };
	server->connections[i].used = server->connections[i].left = 0;
	server->connections[i].hung_up = server->connections[i].proven = false;
	if (server->manner && server->point == 0 && !(server->manner->how & CUT)) {
		say_manner(server, i, NULL);
		server->connections[i].hung_up = server->manner->how & CLOSE;
	}
}

/* Has the server something to do before the next byte comes? */
static bool is_busy(const struct server *server)
{
	int i;

	for (i = 0; i < CONNECTIONS; i++)
		if (server->polls[i].fd >= 0 &&
		    (server->connections[i].left || server->connections[i].hung_up))
			return true;
	return false;
}

static void *serve(void *data)
{
	struct server *server = data;
	int i;

	server->polls[CONNECTIONS] = (struct pollfd){ .fd = server->fd, .events = POLLIN };
	for (i = 0; i < CONNECTIONS; i++)
		server->polls[i].fd = -1;
	for (;;) {
		poll(server->polls, CONNECTIONS + 1, is_busy(server) ? DRIP_MS : -1);
		for (i = 0; i < CONNECTIONS; i++) {
			if (server->polls[i].fd < 0)
				continue;
			serve_drip(server, i);
			if (server->connections[i].hung_up && !server->connections[i].left)
				connection_end(server, i);
			else if (server->polls[i].revents)
				serve_input(server, i);
		}
		if (server->polls[CONNECTIONS].revents)
			serve_accept(server);
	}
	return NULL;
}

/* Listens before it returns; ends with the process.  Only the client takes signals. */
static void server_start(struct server *server)
{
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	sigdelset(&all, SIGALRM);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	server->fd = bind_free(&server->where);
	if (listen(server->fd, 64) < 0 || pthread_create(&thread, NULL, serve, server))
		abort();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* --------------------------------------------------------------- the dialogues --- */

#define STORIES 2

/* A good server gets a limit that it meets however busy the machine is. */
#define LIMIT_MS 40
#define GOOD_LIMIT_MS 30000
#define DRIP_LIMIT_MS 400

static int limit_ms;			/* for each step of this process */

static int program(const char *where, struct result *result)
{
	char timeout[24];
	const struct rank_settings settings = { .servers = where, .timeout = timeout };
	struct hartebeest_context *hb = NULL;
	struct hartebeest_client mine, theirs;
	int ret;

#define STEP(call) do { \
		if (ret == 0) \
			result->step++; \
		ret = ret < 0 ? ret : (call); \
	} while (0)
	snprintf(timeout, sizeof(timeout), "%dms", limit_ms);
	ret = rank_open(&hb, &settings);
	STEP(hartebeest_msg_push(hb, "a", "hello", 5, 0));
	STEP(hartebeest_msg_wait(hb, "a", NULL, 0, NULL, 0));
	STEP(hartebeest_msg_push(hb, "a", "again", 5, 0));
	STEP(hartebeest_service_listen(hb, "s", 0));
	STEP(hartebeest_service_request(hb, "s", "x", 1, &mine, 0));
	STEP(hartebeest_service_accept(hb, "s", &theirs, 0));
	STEP(limit_ms == GOOD_LIMIT_MS ?
	     UNTIL_ANSWERED(hartebeest_service_leave(hb, "s", &theirs)) :
	     hartebeest_service_leave(hb, "s", &theirs));
	STEP(hartebeest_msg_delete(hb, "a", 0));
	snprintf(result->error, sizeof(result->error), "%s", ret < 0 ? hartebeest_error() : "");
	hartebeest_close(hb);
	return ret;
}

/* Flags of a request: its write is answered; it is lazy. */
enum { ANSWERED = 1, LAZY = 2 };

static int request(struct beest_kv *kv, unsigned int flags, enum beest_kv_verb verb,
		   const char *key)
{
	static struct beest_kv_write opening = {
		.verb = BEEST_KV_ADD, .key = "epoch", .value = "E", .size = 1,
	};
	struct beest_kv_write write = {
		.verb = verb, .key = key, .value = "7", .size = 1,
		.answered = flags & ANSWERED || verb == BEEST_KV_INCR,
	};
	const char *const keys[] = { "epoch", key };
	struct beest_kv_value values[2];
	struct beest_kv_request wanted = {
		.lazy = flags & LAZY, .writes = &write, .write_count = 1, .opening = &opening,
		.keys = keys, .key_count = 2, .values = values,
	};
	int ret = beest_kv_run(kv, &wanted, 1, beest_clock_deadline(limit_ms * BEEST_MS), NULL);

	if (ret == 0)
		beest_kv_values_free(values, 2);
	return ret == 0 && write.ret != -EEXIST && write.ret != -ENOENT ? write.ret : ret;
}

static int requests(const struct beest_hostport *where, struct result *result)
{
	struct beest_kv_stats stats;
	struct beest_kv *kv = NULL;
	int ret;

	ret = beest_kv_open(&kv, where, 1);
	STEP(request(kv, 0, BEEST_KV_SET, "a"));
	STEP(request(kv, ANSWERED, BEEST_KV_SET, "b"));
	STEP(request(kv, ANSWERED, BEEST_KV_ADD, "b"));
	STEP(request(kv, ANSWERED, BEEST_KV_INCR, "b"));
	STEP(request(kv, ANSWERED, BEEST_KV_DELETE, "b"));
	STEP(request(kv, ANSWERED, BEEST_KV_APPEND, "a"));
	STEP(request(kv, 0, BEEST_KV_INCR, "a"));
	STEP(request(kv, LAZY, BEEST_KV_SET, "c"));
	STEP(request(kv, 0, BEEST_KV_SET, "c"));
	if (ret < 0 && ret != -EPROTO)
		ret = beest_kv_probe(kv, 0, beest_clock_deadline(250 * BEEST_MS),
				     &stats) < 0 ? ret : ret;
	snprintf(result->error, sizeof(result->error), "%s", ret < 0 ? beest_error_text() : "");
	beest_kv_close(kv);
	return ret;
}

/* ---------------------------------------------------------------------- a case --- */

#define CROWD CROWD_MAX	/* cases at a time, most of which are waiting */
#define HELD_UP_S 300
#define READS_ON_S 3

struct trial {
	const struct manner *manner;
	int story, point;
	bool once;
	int limit_ms;
	pid_t pid;
	struct result *result;		/* shared with the process */
};

/*
 * libmemcached before 1.1.3 reads on for minutes, within one call, after a NOT_FOUND that answers
 * nothing, as SECURITY.md says.  That is no failure, so such a case has only READS_ON_S.  The
 * version has three digits for each part: 0x01000016 is 1.0.16.
 */
static bool reads_on(const struct trial *trial)
{
	return LIBMEMCACHED_VERSION_HEX < 0x01001003 && trial->manner && trial->point == 0 &&
	       !strcmp(trial->manner->name, "NOT_FOUND");
}

static void trial_run(const struct trial *trial)
{
	static struct server server;
	const struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	server.result = trial->result;
	server.manner = trial->manner;
	server.point = trial->point;
	server.once = trial->once;
	server_start(&server);
	limit_ms = trial->limit_ms;
	alarm(reads_on(trial) ? READS_ON_S : HELD_UP_S);
	trial->result->ret = trial->story ? requests(&server.where, trial->result) :
					    program(server.where.text, trial->result);
	_exit(0);
}

static void trial_begin(struct trial *trial)
{
	memset(trial->result, 0, sizeof(*trial->result));
	trial->pid = fork();
	assert_true(trial->pid >= 0);
	if (trial->pid == 0)
		trial_run(trial);
}

static int tried, misbehaved, excused, held_up;

/* Some failures concern the service or the message, so their sentences name no server. */
static bool names_nothing(const struct result *result)
{
	return !strstr(result->error, "127.0.0.1") && result->ret != -ENOENT &&
	       result->ret != -ETIMEDOUT && result->ret != -ESTALE;
}

/* What went wrong, or NULL. */
static const char *trial_wrong(const struct trial *trial, int status)
{
	const struct result *result = trial->result;
	static char text[2048];

	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM && reads_on(trial)) {
		held_up++;
		return NULL;
	}
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		return "is held up";
	if (WIFSIGNALED(status) && (result->overflows ||
				    (WTERMSIG(status) == SIGABRT && result->excused))) {
		excused++;
		return NULL;
	}
	if (WIFSIGNALED(status)) {
		snprintf(text, sizeof(text), "dies of signal %d", WTERMSIG(status));
		return text;
	}
	if (result->ret < 0 && names_nothing(result)) {
		snprintf(text, sizeof(text), "does not name the server: '%s'", result->error);
		return text;
	}
	if (!trial->manner && result->ret < 0) {
		snprintf(text, sizeof(text), "fails: '%s'", result->error);
		return text;
	}
	return NULL;
}

static const char *only;	/* the only manner tried, with each case printed; NULL: all */
static int stride;

static int trial_judge(const struct trial *trial, int status)
{
	const char *wrong = trial_wrong(trial, status);

	if (wrong)
		print_error("\"%s\" %s answer %d in story %d, step %d: the process %s\n",
			    trial->manner ? trial->manner->name : "good",
			    trial->once ? "as" : "from", trial->point, trial->story,
			    trial->result->step, wrong);
	if (only)
		print_message("%s answer %d in story %d, step %d: %d %s\n",
			      trial->once ? "as" : "from", trial->point, trial->story,
			      trial->result->step, trial->result->ret, trial->result->error);
	return wrong != NULL;
}

/* ----------------------------------------------------------------- all of them --- */

static struct trial trials[CROWD];

static void trial_ended(int place, int status)
{
	misbehaved += trial_judge(&trials[place], status);
}

static struct crowd crowd = { .size = CROWD, .ended = trial_ended };

static void trial_add(const struct manner *manner, int story, int point, bool once)
{
	int place = crowd_place(&crowd);
	struct trial *trial = &trials[place];

	trial->manner = manner;
	trial->story = story;
	trial->point = point;
	trial->once = once;
	trial->limit_ms = manner ? LIMIT_MS : GOOD_LIMIT_MS;
	tried++;
	trial_begin(trial);
	crowd.pid[place] = trial->pid;
}

/* The number of answers that a good server gives in a story. */
static int story_length(int story)
{
	int before = misbehaved;

	trial_add(NULL, story, 0, false);
	crowd_reap(&crowd, 0);
	assert_int_equal(misbehaved, before);
	return trials[0].result->answers;
}

static void every_manner_at_every_point(void **state)
{
	int story, point, points;
	size_t i;

	(void)state;
	for (story = 0; story < STORIES; story++) {
		points = story_length(story);
		for (i = 0; i < BEEST_COUNT(manners); i++)
			for (point = (int)i % stride; point <= points; point += stride) {
				if (only && strcmp(only, manners[i].name))
					continue;
				trial_add(&manners[i], story, point, false);
				if (point)
					trial_add(&manners[i], story, point, true);
			}
		crowd_reap(&crowd, 0);
	}
	print_message("%zu manners, %d cases, %d misbehaved, %d of a Memcached that turned hostile "
		      "ended the process, %d of an old libmemcached held it up\n",
		      BEEST_COUNT(manners), tried, misbehaved, excused, held_up);
	assert_int_equal(misbehaved, 0);
}

/*
 * Nothing shuts libmemcached's socket in the middle of a value, but a signal can end the process.
 * On a busy machine the drip may pause for so long that libmemcached gives up.
 */
static void a_drip_within_a_value_can_be_ended(void **state)
{
	static const struct manner drip = ROW("drips a value", DRIP, "VALUE @ 0 9999\r\n" X256 X256
					      X256 X256 X256 X256 X256 X256 X256 X256);
	struct trial trial = {
		.manner = &drip, .story = 1, .point = 1, .limit_ms = DRIP_LIMIT_MS,
		.result = trials[0].result,
	};
	int status = 0;

	(void)state;
	trial_begin(&trial);
	while (!__atomic_load_n(&trial.result->answers, __ATOMIC_ACQUIRE))
		pause_ms(1);
	pause_ms(4 * DRIP_LIMIT_MS);		/* beyond the limit of its request */
	if (waitpid(trial.pid, &status, WNOHANG) == trial.pid) {
		assert_null(trial_wrong(&trial, status));
		return;
	}
	kill(trial.pid, SIGTERM);
	assert_int_equal(waitpid(trial.pid, &status, 0), trial.pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
}

static int setup(void **state)
{
	struct result *results = crowd_share(&crowd, sizeof(*results));
	int i;

	(void)state;
	for (i = 0; i < CROWD; i++)
		trials[i].result = &results[i];
	return !results;
}

/* manners ["name of a manner"] */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_manner_at_every_point),
		cmocka_unit_test(a_drip_within_a_value_can_be_ended),
	};

	stride = unit_stride(5);
	silence_begin();
	surroundings_clear();
	only = argc > 1 ? argv[1] : NULL;
	if (!loopback_is_up()) {
		fprintf(stderr, LOOPBACK_IS_DOWN "\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, NULL);
}
