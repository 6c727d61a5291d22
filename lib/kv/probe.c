/* SPDX-License-Identifier: MIT */
/*
 * probe.c - see probe.h
 *
 * The first connection asks for "version" and "stats" in the text protocol.  A server that
 * closes it may be full or may demand a login, and need not report which.  So a
 * second connection first waits for a message, then asks in the binary protocol.  If that is
 * closed, too, a third one begins a TLS handshake.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/kv/memcached.h"
#include "lib/kv/probe.h"
#include "lib/kv/sentence.h"

#define LISTEN_TIME (40 * BEEST_MS)
#define QUOTED 64		/* bytes of a foreign answer, at most */

#define US_MOST (INT64_C(3600) * 1000000)	/* what every kernel takes */

#define SMALL_QUESTION "version\r\n"
#define QUESTION SMALL_QUESTION "stats\r\nstats settings\r\n"
#define ANSWERS 2		/* of the three end in END: both stats */
#define UNCOUNTED 16		/* connections, see rejected_number() */

/* In the binary protocol. */
#define BINARY_SIZE 24		/* of a header, which is all there is */
#define BINARY_ANSWER 0x81
#define STATUS_AT 6
#define STATUS_AUTH 0x20

struct probe {
	const struct beest_memcached_address *address;
	struct beest_kv_stats *stats;	/* NULL: nothing that has a long answer is asked */
	int64_t deadline;
	int fd;
	size_t used;
	char answer[16 * 1024];	/* ends with NUL */
};

static int probe_fail(const struct probe *probe, int err, const char *phrase)
{
	return beest_fail(err, "server %s: %s", probe->address->label, phrase);
}

/*
 * The next connect, send (SO_SNDTIMEO) or recv (SO_RCVTIMEO) fails at @deadline: with EAGAIN,
 * but connect over TCP with EINPROGRESS.
 */
static void socket_limit(const struct probe *probe, int option, int64_t deadline)
{
	const int64_t us = BEEST_MIN(beest_clock_left(deadline) / BEEST_US, US_MOST) + 1;
	struct timeval left = { .tv_sec = us / 1000000, .tv_usec = us % 1000000 };

	setsockopt(probe->fd, SOL_SOCKET, option, &left, sizeof(left));
}

static int socket_connect(struct probe *probe)
{
	const struct beest_memcached_address *address = probe->address;

	probe->used = 0;
	probe->answer[0] = '\0';
	probe->fd = socket(address->where.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (probe->fd < 0)
		return beest_memcached_refused(address, errno);

	socket_limit(probe, SO_SNDTIMEO, probe->deadline);
	if (connect(probe->fd, (const struct sockaddr *)&address->where,
		    address->where_size) == 0)
		return 0;
	if (errno == EINPROGRESS)
		return probe_fail(probe, EHOSTDOWN, BEEST_KV_UNANSWERED);
	if (errno == EAGAIN)	/* the backlog of a socket file is full */
		return probe_fail(probe, EHOSTDOWN, "silent: it does not accept connections");

	return beest_memcached_refused(address, errno);
}

/* 1: more arrived, 0: the connection is closed, -EAGAIN: silence until @deadline, or no space. */
static int answer_read(struct probe *probe, int64_t deadline)
{
	size_t space = sizeof(probe->answer) - 1 - probe->used;
	ssize_t got;

	if (!space || !beest_clock_left(deadline))
		return -EAGAIN;
	socket_limit(probe, SO_RCVTIMEO, deadline);
	got = recv(probe->fd, probe->answer + probe->used, space, 0);
	if (got <= 0)
		return got < 0 && errno == EAGAIN ? -EAGAIN : 0;
	probe->used += (size_t)got;
	probe->answer[probe->used] = '\0';

	return 1;
}

/*
 * Sends a question and reads until @is_done.  False: the server closed the connection without an
 * answer.
 */
static bool ask(struct probe *probe, const void *question, size_t size,
		bool (*is_done)(const struct probe *probe))
{
	int more;

	send(probe->fd, question, size, MSG_NOSIGNAL);	/* a failure shows below */
	do
		more = answer_read(probe, probe->deadline);
	while (more == 1 && !is_done(probe));

	return probe->used || more != 0;
}

/* With the beginning of the answer, without the end of its line. */
static int quoted_fail(const struct probe *probe, int err, const char *phrase)
{
	size_t length = probe->used;
	char quoted[QUOTED * 4 + 16];

	while (length && strchr("\r\n", probe->answer[length - 1]) && probe->answer[length - 1])
		length--;
	beest_text_clean(quoted, sizeof(quoted), probe->answer, BEEST_MIN(length, QUOTED));

	return beest_fail(err, "server %s: %s '%s'%s", probe->address->label, phrase, quoted,
			  length > QUOTED ? "..." : "");
}

static int answer_judge(const struct probe *probe)
{
	static const struct {
		const char *begin;
		int err;
		const char *phrase;	/* NULL: that of the server */
	} rows[] = {
		{ "ERROR Too many", EUSERS, "it has too many connections (memcached -c)" },
		{ "CLIENT_ERROR unauth", EACCES, BEEST_KV_LOGIN },
		{ "SERVER_ERROR", ENOBUFS, NULL },
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++)
		if (!strncmp(probe->answer, rows[i].begin, strlen(rows[i].begin)))
			return rows[i].phrase ? probe_fail(probe, rows[i].err, rows[i].phrase) :
			       quoted_fail(probe, rows[i].err, "it reports an error:");

	return quoted_fail(probe, EPROTO, "not a Memcached: it says");
}

static uint64_t stat_number(const struct probe *probe, const char *name)
{
	const char *line = strstr(probe->answer, name);

	return line ? strtoull(line + strlen(name), NULL, 10) : 0;
}

/*
 * memcached 1.5.22, that of EL8, counts each connection as rejected: then both numbers differ only
 * by the listening sockets and by connections that are on their way.
 */
static uint64_t rejected_number(const struct probe *probe)
{
	uint64_t total = stat_number(probe, "STAT total_connections ");
	uint64_t rejected = stat_number(probe, "STAT rejected_connections ");
	uint64_t apart = total > rejected ? total - rejected : rejected - total;

	return apart > UNCOUNTED ? rejected : 0;
}

static bool answer_is_complete(const struct probe *probe)
{
	const char *at = probe->answer;
	int ends;

	if (!probe->stats)
		return strchr(at, '\n') != NULL;
	for (ends = 0; (at = strstr(at, "\r\nEND\r\n")); ends++)
		at += 2;

	return ends >= ANSWERS;
}

/* An answer shorter than "VERSION " is judged by the bytes that have arrived. */
static bool answer_is_foreign(const struct probe *probe)
{
	static const char good[] = "VERSION ";
	size_t known = probe->used < sizeof(good) - 1 ? probe->used : sizeof(good) - 1;

	return memcmp(probe->answer, good, known) != 0;
}

static bool text_is_done(const struct probe *probe)
{
	return answer_is_foreign(probe) || answer_is_complete(probe);
}

/* 1: the server closed the connection without an answer. */
static int ask_text(struct probe *probe)
{
	const char *question = probe->stats ? QUESTION : SMALL_QUESTION;

	if (!ask(probe, question, strlen(question), text_is_done))
		return 1;
	if (answer_is_foreign(probe))
		return answer_judge(probe);
	if (!answer_is_complete(probe))
		return probe_fail(probe, EHOSTDOWN, BEEST_KV_SILENT);
	if (!probe->stats)
		return 0;
	probe->stats->limit_bytes = stat_number(probe, "STAT limit_maxbytes ");
	probe->stats->item_bytes = stat_number(probe, "STAT item_size_max ");
	probe->stats->evictions = stat_number(probe, "STAT evictions ");
	probe->stats->time = stat_number(probe, "STAT time ");
	probe->stats->connections_max = stat_number(probe, "STAT max_connections ");
	probe->stats->turned_away = rejected_number(probe) +
				    stat_number(probe, "STAT listen_disabled_num ");
	probe->stats->out_of_memory_is_an_error = strstr(probe->answer, "STAT evictions off");

	return 0;
}

static bool binary_is_done(const struct probe *probe)
{
	return probe->used >= BINARY_SIZE || (uint8_t)probe->answer[0] != BINARY_ANSWER;
}

/* As above, but first waits for what a server sends unasked. */
static int ask_binary(struct probe *probe)
{
	static const uint8_t noop[BINARY_SIZE] = { 0x80, 0x0a };
	const int64_t listen = beest_clock_deadline(LISTEN_TIME);
	const uint8_t *answer = (const uint8_t *)probe->answer;

	if (answer_read(probe, BEEST_MIN(listen, probe->deadline)) == -EAGAIN)
		ask(probe, noop, sizeof(noop), binary_is_done);
	if (!probe->used)
		return 1;
	if (probe->used < BINARY_SIZE || answer[0] != BINARY_ANSWER)
		return answer_judge(probe);
	if (answer[STATUS_AT] == 0 && answer[STATUS_AT + 1] == STATUS_AUTH)
		return probe_fail(probe, EACCES, BEEST_KV_LOGIN);

	return probe_fail(probe, EPROTO,
			  "it speaks the binary protocol only (memcached -B binary)");
}

static bool tls_is_done(const struct probe *probe)
{
	return probe->used > 1;
}

/* Anything that speaks TLS answers with a handshake or an alert. */
static int ask_tls(struct probe *probe)
{
	static const uint8_t hello[] = {
		0x16, 3, 1, 0, 47,		/* a record: handshake, 47 bytes */
		1, 0, 0, 43, 3, 3,		/* ClientHello, 43 bytes, TLS 1.2 */
		[45] = 4, 0xc0, 0x2f, 0, 0x2f,	/* after random bytes and no session: ciphers */
		1, 0,				/* no compression */
	};
	const uint8_t *answer = (const uint8_t *)probe->answer;

	ask(probe, hello, sizeof(hello), tls_is_done);
	if (probe->used > 1 && (answer[0] == 0x15 || answer[0] == 0x16) && answer[1] == 3)
		return probe_fail(probe, EPROTO, "it speaks TLS (memcached -Z), which libmemcached "
				  "does not: use a tunnel, as by stunnel");

	return probe_fail(probe, ECONNRESET, BEEST_KV_CLOSES);
}

int beest_probe(const struct beest_memcached_address *address, int64_t deadline,
		struct beest_kv_stats *stats)
{
	static int (*const asks[])(struct probe *probe) = { ask_text, ask_binary, ask_tls };
	struct probe *probe = calloc(1, sizeof(*probe));	/* too large for small stacks */
	int ret = 1;
	size_t i;

	if (!probe)
		return beest_fail(ENOMEM, "server %s: no memory for a question", address->label);
	probe->address = address;
	probe->stats = stats;
	probe->deadline = deadline;
	if (stats)
		memset(stats, 0, sizeof(*stats));
	for (i = 0; i < BEEST_COUNT(asks) && ret > 0; i++) {
		ret = socket_connect(probe);
		if (ret == 0)
			ret = asks[i](probe);
		if (probe->fd >= 0)
			close(probe->fd);
	}
	free(probe);

	return ret;
}
