/* SPDX-License-Identifier: MIT */
/* store.c - see store.h */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/kv/sentence.h"
#include "tools/session.h"
#include "tools/store.h"

#define LINE_SIZE 2048
#define PART (100 * BEEST_MS)		/* the longest poll(2) of a wait */
#define VALUE_MAX (64 * 1024 * 1024)

struct store {
	int fd;
	char text[300];
	int64_t patience, deadline;
	uint64_t bytes;			/* received */
	size_t start, end;		/* the unread part of buffer */
	char buffer[64 * 1024];
};

static int BEEST_PRINTF(3, 4) store_fail(const struct store *store, int err, const char *format,
					 ...)
{
	char reason[320];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	return beest_fail(err, "%s: %s", store->text, reason);
}

/* -------------------------------------------------------------- socket --- */

/* Waits in parts, since a signal just before poll(2) does not interrupt it. */
static int await(const struct store *store, short events)
{
	struct pollfd polled = { .fd = store->fd, .events = events };
	int64_t left;
	int ready;

	do {
		if (session_signal())
			return store_fail(store, ECANCELED, "interrupted");
		left = beest_clock_left(store->deadline);
		ready = poll(&polled, 1, (int)(BEEST_MIN(left, PART) / BEEST_MS));
	} while ((ready == 0 && left) || (ready < 0 && errno == EINTR));
	if (ready > 0)
		return 0;
	if (events == POLLIN && !store->bytes)
		return store_fail(store, EHOSTDOWN, BEEST_KV_SILENT);
	return store_fail(store, ETIMEDOUT, store->bytes ? BEEST_KV_LATE : BEEST_KV_UNANSWERED);
}

static int finish_connect(const struct store *store)
{
	int error = 0, ret = await(store, POLLOUT);
	socklen_t size = sizeof(error);

	if (ret < 0)
		return ret;
	getsockopt(store->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	return error ? store_fail(store, error, "%s", strerror(error)) : 0;
}

static int connect_to(struct store *store, int family, const void *address, socklen_t size)
{
	store->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (store->fd < 0)
		return store_fail(store, errno, "%s", strerror(errno));
	if (connect(store->fd, address, size) == 0)
		return 0;
	return errno == EINPROGRESS ? finish_connect(store)
				    : store_fail(store, errno, "%s", strerror(errno));
}

static int connect_unix(struct store *store, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path, sizeof(address.sun_path), "%.107s", path);
	return connect_to(store, AF_UNIX, &address, sizeof(address));
}

static int connect_host(struct store *store, const struct beest_hostport *server)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list, *each;
	char port[8];
	int ret;

	snprintf(port, sizeof(port), "%d", server->port);
	ret = getaddrinfo(server->host, port, &hints, &list);
	if (ret)
		return store_fail(store, EADDRNOTAVAIL, "%s", gai_strerror(ret));

	ret = -EADDRNOTAVAIL;
	for (each = list; each && ret < 0; each = each->ai_next) {
		if (store->fd >= 0)
			close(store->fd);
		ret = connect_to(store, each->ai_family, each->ai_addr, each->ai_addrlen);
	}
	freeaddrinfo(list);
	return ret;
}

size_t store_addresses(const struct beest_hostport *server, struct beest_hostport *list,
		       size_t room)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found, *each;
	size_t count = 0;

	if (!server->port) {
		list[0] = *server;
		return 1;
	}
	if (getaddrinfo(server->host, NULL, &hints, &found))
		return 0;
	for (each = found; each && count < room; each = each->ai_next) {
		list[count] = *server;
		if (getnameinfo(each->ai_addr, each->ai_addrlen, list[count].host,
				sizeof(list[count].host), NULL, 0, NI_NUMERICHOST))
			continue;
		if (strcmp(list[count].host, server->host) != 0)
			snprintf(list[count].text, sizeof(list[count].text), "%.200s (%.64s)",
				 server->text, list[count].host);
		count++;
	}
	freeaddrinfo(found);
	return count;
}

int store_open(struct store **store, const struct beest_hostport *server, int64_t patience)
{
	struct store *opened = calloc(1, sizeof(*opened));
	int ret;

	if (!opened)
		return -ENOMEM;
	opened->fd = -1;
	opened->patience = patience;
	opened->deadline = beest_clock_deadline(patience);
	snprintf(opened->text, sizeof(opened->text), "%s", server->text);
	ret = server->port ? connect_host(opened, server) : connect_unix(opened, server->host);
	if (ret < 0)
		store_close(opened);
	else
		*store = opened;
	return ret;
}

void store_close(struct store *store)
{
	if (store && store->fd >= 0)
		close(store->fd);
	free(store);
}

/* ------------------------------------------------------------ protocol --- */

static int BEEST_PRINTF(2, 3) send_command(struct store *store, const char *format, ...)
{
	char line[LINE_SIZE];
	va_list args;
	size_t length, sent = 0;
	ssize_t ret;
	int ready;

	va_start(args, format);
	length = (size_t)vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	store->deadline = beest_clock_deadline(store->patience);
	while (sent < length) {
		ready = await(store, POLLOUT);
		if (ready < 0)
			return ready;
		ret = send(store->fd, line + sent, length - sent, MSG_NOSIGNAL);
		if (ret < 0 && errno != EINTR && errno != EAGAIN)
			return store_fail(store, errno, "%s", strerror(errno));
		sent += ret > 0 ? (size_t)ret : 0;
	}
	return 0;
}

static int receive(struct store *store)
{
	ssize_t got;
	int ready;

	if (store->start) {
		memmove(store->buffer, store->buffer + store->start, store->end - store->start);
		store->end -= store->start;
		store->start = 0;
	}
	ready = await(store, POLLIN);
	if (ready < 0)
		return ready;
	got = recv(store->fd, store->buffer + store->end, sizeof(store->buffer) - store->end, 0);
	if (got == 0)
		return store_fail(store, ECONNRESET, "it closed the connection");
	if (got < 0)
		return errno == EINTR || errno == EAGAIN
		       ? 0 : store_fail(store, errno, "%s", strerror(errno));
	store->end += (size_t)got;
	store->bytes += (uint64_t)got;
	return 0;
}

/* Reads a line without its end.  Memcached sends no line of LINE_SIZE bytes or more. */
static int read_line(struct store *store, char line[LINE_SIZE])
{
	size_t length;
	char *end;
	int ret;

	while (!(end = memchr(store->buffer + store->start, '\n', store->end - store->start))) {
		if (store->end - store->start >= LINE_SIZE)
			return store_fail(store, EPROTO, "no Memcached server answers there");
		ret = receive(store);
		if (ret < 0)
			return ret;
	}
	length = (size_t)(end - (store->buffer + store->start));
	if (length >= LINE_SIZE)
		return store_fail(store, EPROTO, "no Memcached server answers there");
	memcpy(line, store->buffer + store->start, length);
	line[length - (length && line[length - 1] == '\r')] = '\0';
	store->start += length + 1;
	return 0;
}

static int read_bytes(struct store *store, uint8_t *bytes, size_t size)
{
	size_t part;
	int ret;

	while (size) {
		part = BEEST_MIN(size, store->end - store->start);
		memcpy(bytes, store->buffer + store->start, part);
		store->start += part;
		bytes += part;
		size -= part;
		ret = size ? receive(store) : 0;
		if (ret < 0)
			return ret;
	}
	return 0;
}

static bool begins(const char *line, const char *with)
{
	return !strncmp(line, with, strlen(with));
}

/* Fails with what a line means that is not an answer to the command. */
static int unexpected(const struct store *store, const char *line)
{
	if (begins(line, "CLIENT_ERROR unauth") || begins(line, "ERROR authenticat"))
		return store_fail(store, EACCES, "the server demands a login");
	if (begins(line, "ERROR Too many open connections"))
		return store_fail(store, EUSERS, "all its connections are in use");
	if (strstr(line, "not allowed"))
		return store_fail(store, EPERM, "the server refuses: %.200s (memcached -X)", line);
	if (begins(line, "ERROR") || begins(line, "CLIENT_ERROR") || begins(line, "SERVER_ERROR"))
		return store_fail(store, EOPNOTSUPP, "the server refuses: %.200s", line);
	return store_fail(store, EPROTO, "no Memcached server answers there: %s",
			  BEEST_QUOTE(line));
}

int store_version(struct store *store, char *version, size_t size)
{
	char line[LINE_SIZE];
	int ret = send_command(store, "version\r\n");

	if (ret == 0)
		ret = read_line(store, line);
	if (ret < 0)
		return ret;
	if (!begins(line, "VERSION "))
		return unexpected(store, line);
	snprintf(version, size, "%s", line + strlen("VERSION "));
	return 0;
}

int store_stats(struct store *store, const char *what,
		void (*each)(void *data, const char *name, const char *value), void *data)
{
	char line[LINE_SIZE], *value;
	int ret = send_command(store, "stats%s%s\r\n", *what ? " " : "", what);

	while (ret == 0 && (ret = read_line(store, line)) == 0) {
		if (!strcmp(line, "END"))
			return 0;
		value = begins(line, "STAT ") ? strchr(line + 5, ' ') : NULL;
		if (!value)
			return unexpected(store, line);
		*value++ = '\0';
		each(data, line + 5, value);
	}
	return ret;
}

int store_get(struct store *store, const char *key, uint8_t **value, size_t *size)
{
	char line[LINE_SIZE], *at;
	int ret = send_command(store, "get %s\r\n", key);

	*value = NULL;
	*size = 0;
	if (ret == 0)
		ret = read_line(store, line);
	if (ret < 0 || !strcmp(line, "END"))
		return ret;

	at = begins(line, "VALUE ") ? strrchr(line, ' ') : NULL;
	*size = at ? strtoul(at, NULL, 10) : 0;
	if (!at || *size > VALUE_MAX)
		return unexpected(store, line);
	*value = malloc(*size + 1);
	ret = *value ? read_bytes(store, *value, *size) : -ENOMEM;
	if (ret == 0)
		ret = read_line(store, line);		/* the end of the value's line */
	if (ret == 0)
		ret = read_line(store, line);		/* END */
	if (ret < 0) {
		free(*value);
		*value = NULL;
	}
	return ret;
}

int store_add(struct store *store, const char *key, const char *text, int seconds)
{
	char line[LINE_SIZE];
	int ret = send_command(store, "add %s 0 %d %zu\r\n%s\r\n", key, seconds, strlen(text),
			       text);

	if (ret == 0)
		ret = read_line(store, line);
	if (ret < 0 || !strcmp(line, "STORED"))
		return ret;
	return strcmp(line, "NOT_STORED") ? unexpected(store, line) : -EEXIST;
}

int store_delete(struct store *store, const char *key)
{
	char line[LINE_SIZE];
	int ret = send_command(store, "delete %s\r\n", key);

	if (ret == 0)
		ret = read_line(store, line);
	if (ret < 0 || !strcmp(line, "DELETED"))
		return ret;
	return strcmp(line, "NOT_FOUND") ? unexpected(store, line) : -ENOENT;
}

/* ------------------------------------------------------------- listing --- */

struct listing {
	struct store *store;
	const char *prefix;
	struct store_listing *result;
	void (*each)(void *data, const char *key, int64_t left);
	void *data;
	int64_t now;			/* of the server's clock */
	int classes[256], class_count;	/* slab classes, for cachedump */
};

/* Decodes %2F and the like, in place. */
static void unescape(char *key)
{
	char *to = key;

	for (; *key; key++) {
		if (*key == '%' && isxdigit((unsigned char)key[1]) &&
		    isxdigit((unsigned char)key[2])) {
			*to++ = (char)strtol((const char[]){ key[1], key[2], '\0' }, NULL, 16);
			key += 2;
		} else {
			*to++ = *key;
		}
	}
	*to = '\0';
}

/* Skips binary keys of other users: they may contain any byte, and so commands. */
static void list_one(struct listing *listing, char *key, int64_t expires)
{
	listing->result->keys++;
	if (!begins(key, listing->prefix) || beest_text_not_key(key) ||
	    strlen(key) > BEEST_KEY_MAX)
		return;
	if (expires > 0 && expires <= listing->now)
		return;
	listing->each(listing->data, key, expires > 0 ? expires - listing->now : -1);
}

/* "key=hb1%2Fjob%2Frank%2F0 exp=1764000000 la=..." */
static void take_metadump(struct listing *listing, char *line)
{
	char *key = line + strlen("key="), *space = strchr(key, ' ');
	const char *expires = space ? strstr(space, " exp=") : NULL;

	if (space)
		*space = '\0';
	unescape(key);
	list_one(listing, key, expires ? strtoll(expires + 5, NULL, 10) : -1);
}

static int list_by_metadump(struct listing *listing, const char *command)
{
	int64_t end = beest_clock_deadline(2 * BEEST_SECOND);
	char line[LINE_SIZE];
	int ret;

	listing->result->command = command;
	ret = send_command(listing->store, "%s\r\n", command);
	while (ret == 0 && (ret = read_line(listing->store, line)) == 0) {
		if (begins(line, "key="))
			take_metadump(listing, line);
		else if (!strcmp(line, "OK"))
			continue;		/* the first line since 1.6.43 */
		else if (!strcmp(line, "END"))
			return 0;
		else if (begins(line, "BUSY") && beest_clock_left(end)) {
			poll(NULL, 0, 50);	/* another client is listing */
			ret = send_command(listing->store, "%s\r\n", command);
		} else if (begins(line, "BUSY"))
			return store_fail(listing->store, EBUSY, "another client is listing keys");
		else if (begins(line, "BADCLASS"))
			return -EOPNOTSUPP;
		else
			break;
	}
	if (ret < 0)
		return ret;
	listing->result->without_crawler = begins(line, "CLIENT_ERROR lru crawler disabled");
	return unexpected(listing->store, line);
}

/* "items:5:number", and not "items:5:number_hot". */
static void note_class(void *data, const char *name, const char *value)
{
	struct listing *listing = data;
	const char *last = strrchr(name, ':');
	int class;

	(void)value;
	if (sscanf(name, "items:%d:", &class) == 1 && !strcmp(last, ":number") &&
	    listing->class_count < (int)BEEST_COUNT(listing->classes))
		listing->classes[listing->class_count++] = class;
}

/* "ITEM hb1/job/rank/0 [120 b; 1764000000 s]" */
static void take_cachedump(struct listing *listing, char *line)
{
	char *key = line + strlen("ITEM "), *space = strchr(key, ' ');
	const char *expires = space ? strstr(space + 1, "; ") : NULL;

	if (space)
		*space = '\0';
	list_one(listing, key, expires ? strtoll(expires + 2, NULL, 10) : -1);
}

/* Servers before 1.4.31 have nothing better: it lists at most 2 MB of each slab class. */
static int list_by_cachedump(struct listing *listing)
{
	char line[LINE_SIZE];
	int i, ret;

	listing->result->command = "stats cachedump";
	listing->result->cut = true;
	ret = store_stats(listing->store, "items", note_class, listing);
	for (i = 0; ret == 0 && i < listing->class_count; i++) {
		ret = send_command(listing->store, "stats cachedump %d 0\r\n", listing->classes[i]);
		while (ret == 0 && (ret = read_line(listing->store, line)) == 0) {
			if (begins(line, "ITEM "))
				take_cachedump(listing, line);
			else if (!strcmp(line, "END"))
				break;
			else
				ret = unexpected(listing->store, line);
		}
	}
	return ret;
}

static void note_stat(void *data, const char *name, const char *value)
{
	struct listing *listing = data;

	if (!strcmp(name, "time"))
		listing->now = strtoll(value, NULL, 10);
	if (!strcmp(name, "evictions"))
		listing->result->evictions = strtoull(value, NULL, 10);
}

int store_list(struct store *store, const char *prefix, struct store_listing *listing,
	       void (*each)(void *data, const char *key, int64_t left), void *data)
{
	struct listing all = { .store = store, .prefix = prefix, .result = listing,
			       .each = each, .data = data };
	int64_t began = beest_clock_now();
	uint64_t bytes = store->bytes;
	int ret;

	memset(listing, 0, sizeof(*listing));
	ret = store_stats(store, "", note_stat, &all);
	if (ret == 0)
		ret = list_by_metadump(&all, "lru_crawler metadump hash");
	if (ret == -EOPNOTSUPP)
		ret = list_by_metadump(&all, "lru_crawler metadump all");
	if (ret == -EOPNOTSUPP)
		ret = list_by_cachedump(&all);
	listing->time = beest_clock_now() - began;
	listing->bytes = store->bytes - bytes;
	return ret;
}
