/* SPDX-License-Identifier: MIT */
/*
 * parse.c - one scanner for numbers, and the grammars built on it
 *
 * Owns all checks of text that becomes a value.  Independent of the locale, on which <ctype.h>
 * depends.
 */
#include "config.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/parse.h"
#include "lib/base/text.h"

/* --- numbers --- */

/*
 * Moves *@at behind the digits; false when there is none.  @base: 16 after 0x, else 10.  An
 * overflow gives UINT64_MAX, which is outside every range in this file.
 */
static bool read_digits(const char **at, int base, uint64_t *value)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;		/* a blank or a sign, which strtoull(3) would skip */
	*value = strtoull(*at, &end, base);
	*at = end;
	return true;
}

static bool looks_octal(const char *text)
{
	return text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

static bool read_decimal(const char **at, uint64_t *value)
{
	return !looks_octal(*at) && read_digits(at, 10, value);
}

int beest_parse_int(const char *text, int64_t min, int64_t max, int64_t *value)
{
	bool negative = text[0] == '-', hex = !strncmp(text + negative, "0x", 2), fits;
	const char *at = text + negative;
	uint64_t magnitude;
	int64_t number;

	if (!(hex ? read_digits(&at, 16, &magnitude) : read_decimal(&at, &magnitude)) || *at)
		return beest_fail(EINVAL, "%s is not a number from %" PRId64 " to %" PRId64 "%s",
				  BEEST_QUOTE(text), min, max, looks_octal(text + negative) ?
				  "; drop the leading zero, which some read as octal" : "");

	/* The magnitude of INT64_MIN is one more than INT64_MAX. */
	fits = magnitude <= (uint64_t)INT64_MAX + negative;
	number = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;

	/* Refuses even "-0" where no number may be negative. */
	if (!fits || (negative && min >= 0) || number < min || number > max)
		return beest_fail(ERANGE, "%s is out of range: %" PRId64 " to %" PRId64,
				  BEEST_QUOTE(text), min, max);
	*value = number;
	return 0;
}

/* --- durations --- */

static const struct unit {
	const char *name;
	int64_t ns;
} units[] = {
	{ "us", BEEST_US },
	{ "ms", BEEST_MS },
	{ "s", BEEST_SECOND },
	{ "min", 60 * BEEST_SECOND },
	{ "h", 3600 * BEEST_SECOND },
	{ "d", BEEST_DAY },
};

int beest_parse_duration(const char *text, int64_t *ns)
{
	const char *at = text;
	uint64_t number;
	int64_t unit = strcmp(text, "0") ? 0 : 1;
	size_t i;

	if (!read_decimal(&at, &number))
		return beest_fail(EINVAL, "%s is not a duration such as 30s or 67ms",
				  BEEST_QUOTE(text));
	for (i = 0; i < BEEST_COUNT(units); i++)
		if (!strcmp(at, units[i].name))
			unit = units[i].ns;
	if (!unit)
		return beest_fail(EINVAL, "%s is not a duration: after the number, us, ms, s, min, "
				  "h or d is expected", BEEST_QUOTE(text));
	if (number > (uint64_t)(INT64_MAX / unit))
		return beest_fail(ERANGE, "%s is too long for a duration: the limit is 292 years",
				  BEEST_QUOTE(text));
	*ns = number * unit;
	return 0;
}

const char *beest_parse_duration_text(int64_t ns, char text[32])
{
	size_t i = BEEST_COUNT(units) - 1;

	while (i && ns % units[i].ns)
		i--;
	snprintf(text, 32, "%" PRId64 "%s", ns / units[i].ns, ns ? units[i].name : "");
	return text;
}

/* --- words --- */

/* Not strcasecmp(3), which depends on the locale. */
static bool is_word(const char *text, const char *word)
{
	while (*text && (*text == *word || (*text >= 'A' && *text <= 'Z' &&
					    *text - 'A' + 'a' == *word))) {
		text++;
		word++;
	}
	return !*text && !*word;
}

int beest_parse_word(const char *text, const struct beest_word *words, int64_t *value)
{
	struct beest_text known = BEEST_TEXT(128);

	for (; words->text; words++) {
		if (is_word(text, words->text)) {
			*value = words->value;
			return 0;
		}
		beest_text_add(&known, "%s%s", known.used ? ", " : "", words->text);
	}
	return beest_fail(EINVAL, "%s is not one of %s", BEEST_QUOTE(text), known.buffer);
}

const char *beest_parse_word_text(const struct beest_word *words, int64_t value)
{
	while (words->text && words->value != value)
		words++;
	return words->text;
}

/* --- id lists --- */

struct range {
	uint64_t first, last;
};

/* Reads "5" or "5-9" and a comma after it, if any; *@more: whether there was one. */
static int next_range(const char **at, const char *text, struct range *range, bool *more)
{
	bool good = read_decimal(at, &range->first);

	range->last = range->first;
	if (good && **at == '-') {
		(*at)++;
		good = read_decimal(at, &range->last);
	}
	if (!good || (**at && **at != ','))
		return beest_fail(EINVAL, "%s is not a list of ids such as 0,1 or 0-63: see "
				  "byte %zu", BEEST_QUOTE(text), (size_t)(*at - text) + 1);
	*more = **at == ',';
	*at += *more;

	if (range->first > INT_MAX || range->last > INT_MAX)
		return beest_fail(ERANGE, "an id in %s is above %d", BEEST_QUOTE(text), INT_MAX);
	if (range->first > range->last)
		return beest_fail(EINVAL, "%" PRIu64 "-%" PRIu64 " in %s runs backwards",
				  range->first, range->last, BEEST_QUOTE(text));
	return 0;
}

static int add_range(struct beest_ids *ids, const struct range *range, const char *text)
{
	uint64_t more = range->last - range->first + 1, id;
	int *grown;

	if (more > BEEST_IDS_MAX - ids->count)
		return beest_fail(ERANGE, "%s holds more than %d ids", BEEST_QUOTE(text),
				  BEEST_IDS_MAX);
	grown = realloc(ids->id, (ids->count + more) * sizeof(int));
	if (!grown)
		return beest_fail(ENOMEM, "no memory for %zu ids", ids->count + (size_t)more);

	ids->id = grown;
	for (id = range->first; id <= range->last; id++)
		ids->id[ids->count++] = (int)id;
	return 0;
}

static int compare_ids(const void *a, const void *b)
{
	int left = *(const int *)a;
	int right = *(const int *)b;

	return (left > right) - (left < right);
}

int beest_parse_ids(const char *text, struct beest_ids *ids)
{
	struct beest_ids filled = { NULL, 0 };
	const char *at = text;
	struct range range;
	bool more = true;
	size_t i;
	int ret = 0;

	while (ret == 0 && more) {
		ret = next_range(&at, text, &range, &more);
		if (ret == 0)
			ret = add_range(&filled, &range, text);
	}
	if (filled.count)
		qsort(filled.id, filled.count, sizeof(int), compare_ids);
	for (i = 1; ret == 0 && i < filled.count; i++)
		if (filled.id[i] == filled.id[i - 1])
			ret = beest_fail(EINVAL, "id %d appears twice in %s", filled.id[i],
					 BEEST_QUOTE(text));
	if (ret < 0)
		beest_parse_ids_free(&filled);
	else
		*ids = filled;
	return ret;
}

void beest_parse_ids_free(struct beest_ids *ids)
{
	free(ids->id);
	ids->id = NULL;
	ids->count = 0;
}

int beest_parse_ids_position(const struct beest_ids *ids, int id)
{
	const int *found;

	/* The ids of most jobs are in a row from 0 on. */
	if (id >= 0 && (size_t)id < ids->count && ids->id[id] == id)
		return id;
	/* bsearch(3) does not accept NULL */
	found = ids->count ? bsearch(&id, ids->id, ids->count, sizeof(int),
						compare_ids) : NULL;

	return found ? (int)(found - ids->id) : -1;
}

/* --- server lists --- */

#define HOST_SIZE sizeof(((struct beest_hostport *)0)->host)
#define PATH_MAX_BYTES (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)
#define FORMS "host, host:port, [IPv6]:port or the absolute path of a socket"
#define NOT_IPV6 "is not an IPv6 address in brackets, as in [::1]:11211"

/* ASCII only: how getaddrinfo(3) reads other bytes depends on the locale. */
static bool is_host(const char *host)
{
	return *host && !host[strspn(host, "0123456789abcdefghijklmnopqrstuvwxyz"
				     "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-_")];
}

static int fail_server(const char *server, const char *wrong)
{
	return beest_fail(EINVAL, "server %s %s", BEEST_QUOTE(server), wrong);
}

/*
 * An address and perhaps a zone, "fe80::1%ib0".  Rewritten by inet_ntop(3), since ::1 and 0:0::1
 * are the same server.
 */
static bool canonical_ipv6(char *address, char *host)
{
	char plain[INET6_ADDRSTRLEN];
	char *zone = strchr(address, '%');
	struct in6_addr binary;

	if (zone)
		*zone++ = '\0';
	if ((zone && !is_host(zone)) || inet_pton(AF_INET6, address, &binary) != 1)
		return false;
	inet_ntop(AF_INET6, &binary, plain, sizeof(plain));
	return snprintf(host, HOST_SIZE, "%s%s%s", plain, zone ? "%" : "", zone ? zone : "") <
	       (int)HOST_SIZE;
}

/* Lowers the case: host names ignore it, but refuse_repetition() compares bytes. */
static bool canonical_name(const char *name, char *host)
{
	size_t i, length = strlen(name);

	for (i = 0; i <= length; i++)
		host[i] = name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 'a' - 'A' : name[i];
	return is_host(name);
}

static int parse_port(const char *text, const char *server, uint16_t *port)
{
	int64_t number;
	int ret = beest_parse_int(text, 1, UINT16_MAX, &number);

	if (ret < 0)
		return beest_fail_prefix(ret, "the port of server %s", BEEST_QUOTE(server));
	*port = (uint16_t)number;
	return 0;
}

/* @server: "name" or "[IPv6]", perhaps with ":" and a port. */
static int parse_host(const char *server, struct beest_hostport *endpoint)
{
	bool v6 = server[0] == '[';
	size_t length = strcspn(server + v6, v6 ? "]" : ":");
	const char *rest = server + v6 + length;
	char host[HOST_SIZE];
	int ret = 0;

	if (!v6 && *rest && strchr(rest + 1, ':'))
		return fail_server(server, "has more than one colon: give no weight after the "
				   "port, and put an IPv6 address in brackets, as in [::1]:11211");
	if (v6 && (length >= HOST_SIZE || *rest++ != ']'))
		return fail_server(server, NOT_IPV6);
	if (length >= HOST_SIZE)
		return beest_fail(EINVAL, "server %s has a name of %zu bytes: the limit is %zu",
				  BEEST_QUOTE(server), length, HOST_SIZE - 1);

	snprintf(host, sizeof(host), "%.*s", (int)length, server + v6);
	if (v6 && (!canonical_ipv6(host, endpoint->host) || (*rest && *rest != ':')))
		return fail_server(server, NOT_IPV6);
	if (!v6 && !canonical_name(host, endpoint->host))
		return fail_server(server, "is not " FORMS);
	if (!v6 && *host && !host[strspn(host, "0123456789")])
		return fail_server(server, "has no host but a number: a port follows its host "
				   "and a colon, as in host:11211");

	endpoint->port = BEEST_HOSTPORT_PORT;
	if (*rest)
		ret = parse_port(rest + 1, server, &endpoint->port);
	snprintf(endpoint->text, sizeof(endpoint->text), v6 ? "[%s]:%u" : "%s:%u",
		 endpoint->host, endpoint->port);
	return ret;
}

/* Refuses blanks even in socket paths, since most blanks are typed after a comma. */
static int parse_server(const char *server, struct beest_hostport *endpoint)
{
	if (strchr(server, ' ') || beest_text_control(server))
		return fail_server(server, "has a blank or control character");
	if (server[0] != '/') {
		if (strstr(server, "://"))
			return fail_server(server, "is a URL, not " FORMS);
		if (strchr(server, ';'))
			return fail_server(server, "has a semicolon: commas separate servers");
		return parse_host(server, endpoint);
	}

	if (strlen(server) > PATH_MAX_BYTES)
		return beest_fail(EINVAL, "socket path %s has %zu bytes: the limit is %zu",
				  BEEST_QUOTE(server), strlen(server), PATH_MAX_BYTES);
	strcpy(endpoint->host, server);
	strcpy(endpoint->text, server);
	return 0;
}

/* Compares the server at index @last with all before it. */
static int refuse_repetition(const struct beest_hostport *list, size_t last)
{
	size_t i;

	for (i = 0; i < last; i++)
		if (!strcmp(list[i].text, list[last].text))
			return fail_server(list[last].text, "appears twice");
	return 0;
}

/* "USER:PASSWORD@HOST".  A password may contain any byte, so only what follows it is repeated. */
static int fail_login(const char *text)
{
	return beest_fail(EINVAL, "server %s has a login before it: " BEEST_NO_LOGIN,
			  BEEST_QUOTE(strrchr(text, '@') + 1));
}

static int refuse_login(const char *text)
{
	const char *at, *part;

	for (at = strchr(text, '@'); at; at = strchr(at + 1, '@')) {
		for (part = at; part > text && part[-1] != ','; part--)
			;
		if (*part != '/')	/* a path may contain it */
			return fail_login(text);
	}
	return 0;
}

int beest_parse_hostports(const char *text, struct beest_hostport **list, size_t *count)
{
	struct beest_hostport *filled;
	char *copy, *rest, *server;
	size_t i, parts = 1;
	int ret = refuse_login(text);

	if (ret < 0)
		return ret;
	for (i = 0; text[i]; i++)
		parts += text[i] == ',';
	if (parts > BEEST_HOSTPORTS_MAX)
		return beest_fail(ERANGE, "%zu servers are listed: the limit is %d", parts,
				  BEEST_HOSTPORTS_MAX);

	filled = calloc(parts, sizeof(*filled));
	copy = rest = strdup(text);
	if (!copy || !filled)
		ret = beest_fail(ENOMEM, "no memory for %zu servers", parts);
	for (i = 0; ret == 0 && (server = strsep(&rest, ",")); i++) {
		if (!*server)
			ret = beest_fail(EINVAL, "server list %s has an empty part at byte %td",
					 BEEST_QUOTE(text), server - copy + 1);
		if (ret == 0)
			ret = parse_server(server, &filled[i]);
		if (ret == 0)
			ret = refuse_repetition(filled, i);
		/* What failed may be part of a password. */
		if (ret < 0 && strchr(text + (server - copy) + strlen(server), '@'))
			ret = fail_login(text);
	}
	free(copy);
	if (ret < 0) {
		free(filled);
		return ret;
	}
	*list = filled;
	*count = parts;
	return 0;
}
