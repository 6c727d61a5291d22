/* SPDX-License-Identifier: MIT */
/*
 * log.c - one line to the callback, to a file or to stderr
 *
 * Takes no lock: a line is one write(2), which the kernel does not interleave.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/text.h"

/* Room for the longest sentence and the words before it. */
#define LINE_SIZE (BEEST_ERROR_SIZE + 256)

const struct beest_word beest_log_words[] = {
	{ "none", BEEST_LOG_NONE },
	{ "error", BEEST_LOG_ERROR },
	{ "warn", BEEST_LOG_WARN },
	{ "info", BEEST_LOG_INFO },
	{ "debug", BEEST_LOG_DEBUG },
	{ NULL, 0 },
};

/* These distinguish the lines of a cluster's processes. */
struct names {
	char host[HOST_NAME_MAX + 1];
	char pid[16], rank[16];
};

static void names_fill(struct names *names, int rank)
{
	memset(names, 0, sizeof(*names));
	if (gethostname(names->host, sizeof(names->host) - 1) < 0 || !names->host[0])
		strcpy(names->host, "-");
	sprintf(names->pid, "%d", (int)getpid());
	if (rank < 0)
		strcpy(names->rank, "-");
	else
		sprintf(names->rank, "%d", rank);
}

/* The time is UTC on all hosts, so that their lines can be sorted together. */
static void line_begin(struct beest_text *line, int rank, int level)
{
	struct names names;
	struct timespec now;
	struct tm utc;

	names_fill(&names, rank);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	beest_text_add(line, "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ %s hartebeest[%s] rank %s %s: ",
		       utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
		       utc.tm_sec, now.tv_nsec / 1000, names.host, names.pid, names.rank,
		       beest_parse_word_text(beest_log_words, level));
}

void beest_log(const struct beest_log *log, int level, const char *format, ...)
{
	char buffer[LINE_SIZE + 1], raw[LINE_SIZE], *text;	/* + 1 for the newline */
	int saved = errno;
	struct beest_text line;
	va_list args;

	if (level > log->level)
		return;

	beest_text_start(&line, buffer, LINE_SIZE);
	if (!log->write)
		line_begin(&line, log->rank, level);
	text = buffer + line.used;
	errno = saved;			/* for %m */
	va_start(args, format);
	if (vsnprintf(raw, sizeof(raw), format, args) < 0)
		raw[0] = '\0';
	va_end(args);

	/* Names of peers are read from the network: they must not add escapes or lines. */
	beest_text_clean(text, LINE_SIZE - line.used, raw, strlen(raw));

	if (log->write) {
		log->write(log->data, level, text);
	} else {
		strcat(text, "\n");
		while (write(log->file ? log->file : STDERR_FILENO, buffer, strlen(buffer)) < 0 &&
		       errno == EINTR)
			;
	}
	errno = saved;
}

/*
 * Keeps the hashes in order of last use, and drops the last one when the table is full.  Two
 * threads may both be the first.  Uses loads and stores, since gcc 12 for s390x drops the write
 * of an atomic exchange in this loop.
 */
int beest_log_once(const struct beest_log *log, int level, const char *choice)
{
	uint64_t hash = beest_hash_text(choice), next = hash, each;
	size_t i;

	if (!log->said || level > log->level)
		return level;
	for (i = 0; i < BEEST_LOG_SAID; i++) {
		each = __atomic_load_n(&log->said[i], __ATOMIC_RELAXED);
		__atomic_store_n(&log->said[i], next, __ATOMIC_RELAXED);
		if (each == hash)
			return BEEST_LOG_DEBUG;
		next = each;
	}
	return level;
}

/* -------------------------------------------------------------- files --- */

static int path_expand(const char *path, int rank, char expanded[PATH_MAX])
{
	struct beest_text text;
	struct names names;
	const char *at, *value;

	names_fill(&names, rank);
	beest_text_start(&text, expanded, PATH_MAX);
	for (at = path; *at; at++) {
		if (*at != '%') {
			beest_text_add(&text, "%c", *at);
			continue;
		}
		at++;
		value = *at == 'h' ? names.host : *at == 'p' ? names.pid :
			*at == 'r' ? names.rank : *at == '%' ? "%" : NULL;
		if (!value)
			return beest_fail(EINVAL, "%s: h, p, r or another %% must follow a %%",
					  BEEST_QUOTE(path));
		beest_text_add(&text, "%s", value);
	}
	return text.full ? beest_fail(ENAMETOOLONG, "%s is too long", BEEST_QUOTE(path)) : 0;
}

int beest_log_open(struct beest_log *log, const char *path)
{
	char expanded[PATH_MAX];
	int fd, ret = path_expand(path, log->rank, expanded);

	if (ret < 0)
		return ret;
	fd = open(expanded, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
	if (fd < 0)
		return beest_fail_errno(-errno, "%s", BEEST_QUOTE(expanded));
	log->file = fd;
	return 0;
}

void beest_log_close(struct beest_log *log)
{
	if (log->file)
		close(log->file);
	log->file = 0;
}
