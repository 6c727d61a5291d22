/* SPDX-License-Identifier: MIT */
/*
 * json.c - read, scan, parse, walk
 *
 * json-c parses.  A scan before it refuses what some versions of json-c accept, and notes the
 * line of each key, since json-c reports neither lines nor repeated keys.  It also notes each
 * number as the file has it, since json-c clamps those beyond 64 bits.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/text.h"
#include "lib/settings/json.h"

#define FILE_MAX (1024 * 1024)
#define OPEN_HOW (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

struct beest_json {
	const char *path;		/* the caller's, for sentences of beest_json_open() */
	char *text;
	size_t length;
	struct json_object *root;
	/* "section" or "section.key": [ its line, its value as text if that is not a string ] */
	struct json_object *notes;
};

/* ------------------------------------------------------------ reading --- */

static int fail_file(int err, const char *path, const char *wrong)
{
	return beest_fail(err, "%s: %s", BEEST_QUOTE(path), wrong);
}

/*
 * Refuses all but regular files: a FIFO or a terminal would make the program wait.  Asks for one
 * byte more than the limit, to detect a longer file.
 */
static int read_text(struct beest_json *json)
{
	int ret = 0, fd = open(json->path, OPEN_HOW);
	struct stat status;
	ssize_t got;

	if (fd < 0)
		return fail_file(errno, json->path, strerror(errno));

	if (fstat(fd, &status) < 0)
		ret = fail_file(errno, json->path, strerror(errno));
	else if (S_ISDIR(status.st_mode))
		ret = fail_file(EISDIR, json->path, "a directory, not a file");
	else if (!S_ISREG(status.st_mode))
		ret = fail_file(EINVAL, json->path, "not a regular file");
	got = ret < 0 ? 0 : beest_file_read(fd, json->text, FILE_MAX + 1);
	if (got < 0)
		ret = fail_file((int)-got, json->path, strerror((int)-got));
	else if (got > FILE_MAX)
		ret = fail_file(EFBIG, json->path, "larger than 1 MiB");
	else
		json->length = (size_t)got;
	close(fd);
	return ret;
}

/* ----------------------------------------------------------- scanning --- */

#define BLANKS " \t\r\n"
#define DIGITS "0123456789"
#define PLAIN DIGITS "+-." \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"

struct scan {
	struct beest_json *json;
	const char *at;
	unsigned int line;
	int depth;
	char before;			/* first byte of the previous token; 0: none */
	char *section;			/* the last key of depth 1; NULL: none yet */
	struct json_object *note;	/* of the last key; NULL: none yet */
};

/* "section.key", or "key" without a section, for free(3).  NULL: out of memory. */
static char *full_name(const char *section, const char *key, size_t length)
{
	char *name;

	if (asprintf(&name, "%s%s%.*s", section ? section : "", section ? "." : "", (int)length,
		     key) >= 0)
		return name;
	beest_fail(ENOMEM, "out of memory");
	return NULL;
}

static int note_key(struct scan *scan, const char *key, size_t length)
{
	struct json_object *notes = scan->json->notes, *first;
	char *name = full_name(scan->depth > 1 ? scan->section : NULL, key, length);
	int ret = 0;

	if (!name)
		return -ENOMEM;
	if (json_object_object_get_ex(notes, name, &first)) {
		ret = beest_fail(EBADMSG, "%s is given twice, first in line %d", name,
				 json_object_get_int(json_object_array_get_idx(first, 0)));
	} else {
		scan->note = json_object_new_array();
		if (scan->note)
			json_object_array_add(scan->note, json_object_new_int((int)scan->line));
		json_object_object_add(notes, name, scan->note);
	}

	if (scan->depth == 1) {
		free(scan->section);
		scan->section = name;
	} else {
		free(name);
	}
	return ret;
}

/*
 * Passes one character of a string.  json-c accepts control characters and invalid UTF-8, and
 * cuts a key at an escaped NUL.
 */
static int scan_character(struct scan *scan)
{
	unsigned char byte = *scan->at;
	size_t step = beest_text_step(scan->at);

	if (byte < ' ')
		return beest_fail(EBADMSG, "%s", strchr("\r\n", byte) ? "a string has no end" :
				  "a string has a control character");
	if (byte >= 0x80 && !step)
		return beest_fail(EBADMSG, "a string has byte 0x%02x, which is not UTF-8 or begins "
				  "a control character", byte);
	if (!strncmp(scan->at, "\\u0000", 6))
		return beest_fail(EBADMSG, "a string has a NUL, \\u0000");
	if (byte == '\\' && (scan->at[1] == '"' || scan->at[1] == '\\'))
		scan->at += 2;
	else
		scan->at += step ? step : 1;
	return 0;
}

static int scan_string(struct scan *scan)
{
	const char *start = ++scan->at;
	bool escaped = false;
	int ret = 0;

	while (*scan->at != '"' && ret == 0) {
		escaped |= *scan->at == '\\';
		ret = scan_character(scan);
	}
	if (ret < 0)
		return ret;
	scan->at++;

	if (scan->depth > 2 || scan->at[strspn(scan->at, BLANKS)] != ':')
		return 0;
	if (scan->depth == 2 && !scan->section)
		return 0;		/* its object has no key: json-c will refuse it */
	if (escaped)
		return beest_fail(EBADMSG, "a key must be written without escapes");
	return note_key(scan, start, scan->at - 1 - start);
}

/*
 * Refuses 01, 1-2, 1., TRUE, NaN and text without quotes.  Leaves fractions and
 * exponents to json-c, since no setting has any.
 */
static int scan_plain(struct scan *scan)
{
	static const char *const words[] = { "true", "false", "null" };
	size_t i, length = strspn(scan->at, PLAIN);
	const char *digits = scan->at + (*scan->at == '-');
	size_t count = strspn(digits, DIGITS);
	bool good = count && (*digits != '0' || count == 1) &&
		    (digits + count == scan->at + length || strchr(".eE", digits[count])) &&
		    strchr(DIGITS, scan->at[length - 1]);

	for (i = 0; i < BEEST_COUNT(words); i++)
		good |= strlen(words[i]) == length && !strncmp(words[i], scan->at, length);
	if (!good)
		return beest_fail(EBADMSG, "%.*s is not a JSON value; text needs double quotes",
				  length > 30 ? 30 : (int)length, scan->at);
	if (scan->before == ':' && scan->depth <= 2 && scan->note)
		json_object_array_add(scan->note,
				      json_object_new_string_len(scan->at, (int)length));
	scan->at += length;
	return 0;
}

#define TYPOGRAPHIC "typographic quotes: text needs straight ones, \""

/* Characters that word processors and web pages put in place of those of JSON. */
static const struct {
	const char *bytes, *wrong;
} lookalikes[] = {
	{ "\xe2\x80\x98", TYPOGRAPHIC },
	{ "\xe2\x80\x99", TYPOGRAPHIC },
	{ "\xe2\x80\x9a", TYPOGRAPHIC },
	{ "\xe2\x80\x9c", TYPOGRAPHIC },
	{ "\xe2\x80\x9d", TYPOGRAPHIC },
	{ "\xe2\x80\x9e", TYPOGRAPHIC },
	{ "\xc2\xab", TYPOGRAPHIC },
	{ "\xc2\xbb", TYPOGRAPHIC },
	{ "\xc2\xa0", "a no-break space: replace it by a plain one" },
};

/* Reports what is wrong with a character that JSON has no use for. */
static int fail_character(const struct scan *scan)
{
	unsigned char byte = *scan->at;
	size_t i;

	for (i = 0; i < BEEST_COUNT(lookalikes); i++)
		if (!strncmp(scan->at, lookalikes[i].bytes, strlen(lookalikes[i].bytes)))
			return beest_fail(EBADMSG, "%s", lookalikes[i].wrong);

	return beest_fail(EBADMSG, byte > ' ' && byte < 0x7f ? "unexpected '%c'" :
			  "unexpected byte 0x%02x", byte);
}

static int scan_next(struct scan *scan)
{
	unsigned char byte = *scan->at;

	if (!scan->before && byte != '{')
		return beest_fail(EBADMSG, "the file must be one object, { ... }");
	if (scan->before && scan->depth <= 0)
		return beest_fail(EBADMSG, "text after the end of the object");
	if (byte == '"')
		return scan_string(scan);
	if (byte && strchr(PLAIN, byte))
		return scan_plain(scan);
	if (byte == '/' || byte == '#')
		return beest_fail(EBADMSG, "JSON has no comments");
	if (byte == '\'')
		return beest_fail(EBADMSG, "text needs double quotes, not single ones");
	if (!byte || !strchr("{}[]:,", byte))
		return fail_character(scan);

	/* A trailing comma is the commonest mistake, and json-c's message does not name it. */
	scan->at++;
	if (scan->before == ',' && (byte == '}' || byte == ']'))
		return beest_fail(EBADMSG, "a comma before '%c'", byte);
	scan->depth += (byte == '{' || byte == '[') - (byte == '}' || byte == ']');
	return 0;
}

static void skip_blanks(struct scan *scan)
{
	for (; *scan->at && strchr(BLANKS, *scan->at); scan->at++)
		scan->line += *scan->at == '\n';
}

static int scan_text(struct beest_json *json)
{
	struct scan scan = { .json = json, .at = json->text, .line = 1 };
	const char *end = json->text + json->length;
	char first;
	int ret = 0;

	skip_blanks(&scan);
	if (!strncmp(scan.at, "\xef\xbb\xbf", 3))
		ret = beest_fail(EBADMSG, "the file begins with a byte order mark");
	else if (!strncmp(scan.at, "\xff\xfe", 2) || !strncmp(scan.at, "\xfe\xff", 2))
		ret = beest_fail(EBADMSG, "the file is UTF-16: save it as UTF-8");
	else if (scan.at == end)
		return beest_fail(EBADMSG, "%s: the file is empty; write at least {}", json->path);
	while (!ret && scan.at < end) {
		first = *scan.at;
		ret = scan_next(&scan);
		scan.before = first;
		if (!ret)
			skip_blanks(&scan);
	}
	free(scan.section);
	return ret < 0 ? beest_fail_prefix(ret, "%s:%u", json->path, scan.line) : 0;
}

/* ------------------------------------------------------------ parsing --- */

/*
 * The length counts the NUL, by which json-c recognizes the end.  Strict mode is off: the scan
 * already refuses what it would refuse, except numbers beyond 64 bits, and for these json-c 0.17
 * and later would not name the setting.
 */
static int parse_text(struct beest_json *json)
{
	struct json_tokener *tokener = json_tokener_new();
	enum json_tokener_error error;
	unsigned int line = 1;
	int i;

	if (!tokener)
		return fail_file(ENOMEM, json->path, "out of memory");

	json->root = json_tokener_parse_ex(tokener, json->text, (int)json->length + 1);
	error = json_tokener_get_error(tokener);
	for (i = 0; i < tokener->char_offset; i++)
		line += json->text[i] == '\n';
	json_tokener_free(tokener);

	if (error != json_tokener_success)
		return beest_fail(EBADMSG, "%s:%u: %s", json->path, line,
				  json_tokener_error_desc(error));
	if (!json->root)
		return fail_file(ENOMEM, json->path, "out of memory");
	return 0;
}

/* ------------------------------------------------------------ walking --- */

static struct beest_json_entry entry_of(const struct beest_json *json, const char *section,
					const char *key, struct json_object *value)
{
	struct beest_json_entry entry = { section, key, json_object_get_type(value), NULL, 0 };
	char *name = key ? full_name(section, key, strlen(key)) : strdup(section);
	struct json_object *note = NULL;

	if (name)
		json_object_object_get_ex(json->notes, name, &note);
	BEEST_INVARIANT(!name || note);		/* the scan and json-c find the same keys */
	free(name);
	if (note)
		entry.line = (unsigned int)json_object_get_int(json_object_array_get_idx(note, 0));
	if (note && entry.type != json_type_string)
		value = json_object_array_get_idx(note, 1);
	entry.text = value ? json_object_get_string(value) : "";
	return entry;
}

void beest_json_walk(const struct beest_json *json,
		     void (*visit)(void *data, const struct beest_json_entry *entry),
		     void *data)
{
	struct beest_json_entry entry;

	json_object_object_foreach(json->root, section, values) {
		entry = entry_of(json, section, NULL, values);
		visit(data, &entry);
		if (entry.type != json_type_object)
			continue;
		json_object_object_foreach(values, key, value) {
			entry = entry_of(json, section, key, value);
			visit(data, &entry);
		}
	}
}

const char *beest_json_found(const struct beest_json_entry *entry, char text[128])
{
	static const char *const nouns[] = {
		[json_type_null] = "",
		[json_type_boolean] = "",
		[json_type_double] = "the number ",
		[json_type_int] = "the number ",
		[json_type_object] = "an object",
		[json_type_array] = "an array",
		[json_type_string] = "the text ",
	};
	bool is_compound = entry->type == json_type_object || entry->type == json_type_array;

	snprintf(text, 128, "%s%s", nouns[entry->type], is_compound ? "" :
		 entry->type == json_type_string ? BEEST_QUOTE(entry->text) : entry->text);
	return text;
}

/* --------------------------------------------------- open and close --- */

int beest_json_open(struct beest_json **json, const char *path)
{
	struct beest_json *opened = calloc(1, sizeof(*opened));
	int ret;

	if (!opened)
		return fail_file(ENOMEM, path, "out of memory");

	opened->path = path;
	opened->text = calloc(1, FILE_MAX + 2);
	opened->notes = json_object_new_object();
	if (opened->text && opened->notes)
		ret = read_text(opened);
	else
		ret = fail_file(ENOMEM, path, "out of memory");
	if (!ret)
		ret = scan_text(opened);
	if (!ret)
		ret = parse_text(opened);
	if (ret < 0)
		beest_json_close(opened);
	else
		*json = opened;
	return ret;
}

void beest_json_close(struct beest_json *json)
{
	json_object_put(json->root);
	json_object_put(json->notes);
	free(json->text);
	free(json);
}
