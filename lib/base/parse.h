/* SPDX-License-Identifier: MIT */
/*
 * parse.h - text to value, strictly
 *
 * Owns the grammar of numbers, durations, words, id lists and server lists.  Knows nothing of
 * where the text is from: the caller adds that to the sentence with beest_fail_prefix().
 * Refuses plus signs, blanks, unknown suffixes and overflow.  Sets outputs only on success.
 */
#ifndef BEEST_PARSE_H
#define BEEST_PARSE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Decimal, or hexadecimal after 0x, perhaps after a minus sign.  A leading zero ("010") is
 * refused, since some read it as octal.  -EINVAL: not a number; -ERANGE: outside @min to @max.
 * The sentence gives the text and the range.
 */
int beest_parse_int(const char *text, int64_t min, int64_t max, int64_t *value);

/*
 * "30s", "67ms", "500us", "2min", "1h", "1d" or "0" to nanoseconds.  Any other number without a
 * unit is refused.
 */
int beest_parse_duration(const char *text, int64_t *ns);

/* The reverse, in the largest unit that is exact: "90s", "2d", "0". */
#define BEEST_DURATION_TEXT(ns) beest_parse_duration_text((ns), (char[32]){ 0 })
const char *beest_parse_duration_text(int64_t ns, char text[32]);

/* A table of lower-case words for numbers; the last text is NULL. */
struct beest_word {
	const char *text;
	int64_t value;
};

/* Finds @text among @words, ignoring case; -EINVAL: the sentence lists the words. */
int beest_parse_word(const char *text, const struct beest_word *words, int64_t *value);

/* The word for @value; NULL: there is none. */
const char *beest_parse_word_text(const struct beest_word *words, int64_t value);

/* Ascending and free of repetitions. */
struct beest_ids {
	int *id;
	size_t count;
};

#define BEEST_IDS_MAX 1000000

/* "0,1", "0-63", "0-3,8,10-11".  A repeated id is an error. */
int beest_parse_ids(const char *text, struct beest_ids *ids);
void beest_parse_ids_free(struct beest_ids *ids);

/* The position of @id in the list; -1: it is not there. */
int beest_parse_ids_position(const struct beest_ids *ids, int id);

/* A server; host is the name for getaddrinfo(3) or the path for connect(2). */
struct beest_hostport {
	char text[300];		/* canonical: "host:port", "[v6]:port", "/path" */
	char host[256];		/* name, IPv4, IPv6 without brackets; socket path */
	uint16_t port;		/* in host byte order; 0: a unix socket */
	const char *origin;	/* " (HARTEBEEST_EXC_IP_PORT)", for sentences; NULL: not known */
};

#define BEEST_HOSTPORT_PORT 11211
#define BEEST_HOSTPORTS_MAX 1024

/* For sentences about a server with a login. */
#define BEEST_NO_LOGIN "the library does not log in: a secret (exchange.secret_file) protects " \
	"records, and a private address or stunnel the server (hartebeest(7), Security)"

/*
 * "host:port,host,10.0.0.1:11211,[::1]:11211,/run/memcached.sock".  The port is optional.  Names
 * become lower case, and IPv6 addresses take the form of inet_ntop(3), so that repeated servers
 * are found, which are an error.  An IPv6 address without brackets is refused, since its last
 * group reads as a port.  So is a login, whose sentence repeats no password.  The caller releases
 * *list with free(3).
 */
int beest_parse_hostports(const char *text, struct beest_hostport **list, size_t *count);

#endif
