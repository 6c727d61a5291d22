/* SPDX-License-Identifier: MIT */
/*
 * json.c - read, check, parse, walk
 *
 * Tokens are checked here, since that is where the versions of json-c differ; how
 * they may follow each other, and what a string means, is json-c's.
 */
#include "config.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "lib/base/error.h"
#include "lib/settings/json.h"

struct cursor {
	const char *at, *end;
	unsigned int line;
};

struct beest_json {
	char *path;
	char *text;
	size_t length;
	struct json_object *root;

	/* beest_json_next() */
	struct cursor cursor;
	int depth;
	char section[64];
};

/* ------------------------------------------------------------- tokens --- */

enum token_type {
	TOKEN_END,
	TOKEN_BAD,
	TOKEN_MARK,	/* one of {}[]:, */
	TOKEN_STRING,
	TOKEN_PLAIN,	/* a number or a word */
};

struct token {
	enum token_type type;
	const char *start;
	size_t length;
	unsigned int line;
	enum beest_json_type value;	/* if it begins a value */
	char wrong[96];			/* if BAD */
};

#define DIGITS "0123456789"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"

static bool is_mark(const struct token *token, char mark)
{
	return token->type == TOKEN_MARK && *token->start == mark;
}

static void bad(struct token *token, const char *format, ...) BEEST_PRINTF(2, 3);

static void bad(struct token *token, const char *format, ...)
{
	va_list arguments;

	token->type = TOKEN_BAD;
	va_start(arguments, format);
	vsnprintf(token->wrong, sizeof(token->wrong), format, arguments);
	va_end(arguments);
}

static void skip_blanks(struct cursor *cursor)
{
	for (; cursor->at < cursor->end && *cursor->at; cursor->at++) {
		if (!strchr(" \t\r\n", *cursor->at))
			return;
		if (*cursor->at == '\n')
			cursor->line++;
	}
}

/* Length of the escape that begins at @text, 0: none of JSON's. */
static size_t escape_length(const char *text)
{
	if (text[1] && strchr("\"\\/bfnrt", text[1]))
		return 2;
	if (text[1] == 'u' && strspn(text + 2, DIGITS "abcdefABCDEF") >= 4)
		return 6;
	return 0;
}

/* json-c 0.11 ends a key at an escaped NUL; no C string could hold one anyway. */
static bool is_nul_escape(const char *text)
{
	return !strncmp(text, "\\u0000", 6);
}

static void scan_string(struct token *token)
{
	const char *at = token->start + 1;

	token->type = TOKEN_STRING;
	token->value = BEEST_JSON_STRING;
	while (*at != '"') {
		size_t length = *at == '\\' ? escape_length(at) : 1;

		if ((unsigned char)*at < ' ') {
			bad(token, strchr("\r\n", *at) ? "a string has no end" :
			    "a control character in a string");
			return;
		}
		if (!length || is_nul_escape(at)) {
			bad(token, "\"%.2s\" in a string is no JSON escape",
			    length ? "\\0" : at);
			return;
		}
		at += length;
	}
	token->length = at + 1 - token->start;
}

/* Length of the number that @text begins with; *integer: has no fraction. */
static size_t number_length(const char *text, bool *integer)
{
	const char *at = text + (*text == '-');
	size_t digits = *at == '0' ? 1 : strspn(at, DIGITS);

	if (!digits)
		return 0;
	at += digits;
	*integer = true;
	if (*at == '.' && (digits = strspn(at + 1, DIGITS))) {
		at += 1 + digits;
		*integer = false;
	}
	if (*at == 'e' || *at == 'E') {
		size_t sign = at[1] == '-' || at[1] == '+';

		digits = strspn(at + 1 + sign, DIGITS);
		*integer = false;
		at += digits ? 1 + sign + digits : 0;
	}
	return at - text;
}

static void scan_plain(struct token *token)
{
	static const struct {
		const char *text;
		enum beest_json_type type;
	} words[] = {
		{ "true", BEEST_JSON_TRUE },
		{ "false", BEEST_JSON_FALSE },
		{ "null", BEEST_JSON_NULL },
	};
	bool integer;
	size_t i;

	token->type = TOKEN_PLAIN;
	for (i = 0; i < BEEST_COUNT(words); i++) {
		if (strlen(words[i].text) != token->length ||
		    strncmp(words[i].text, token->start, token->length))
			continue;
		token->value = words[i].type;
		return;
	}

	if (number_length(token->start, &integer) == token->length)
		token->value = integer ? BEEST_JSON_INTEGER : BEEST_JSON_FRACTION;
	else
		bad(token, "%.*s is no JSON value (text stands in double quotes)",
		    (int)(token->length > 30 ? 30 : token->length), token->start);
}

static void scan_mark(struct token *token)
{
	token->type = TOKEN_MARK;
	token->length = 1;
	token->value = *token->start == '{' ? BEEST_JSON_OBJECT : BEEST_JSON_ARRAY;
}

static void scan_other(struct token *token)
{
	unsigned char byte = *token->start;

	if (byte == '/' || byte == '#')
		bad(token, "JSON has no comments");
	else if (byte == '\'')
		bad(token, "text stands in double quotes, not in single ones");
	else if (byte > ' ' && byte < 0x7f)
		bad(token, "unexpected '%c'", byte);
	else
		bad(token, "unexpected byte 0x%02x", byte);
}

static void next_token(struct cursor *cursor, struct token *token)
{
	skip_blanks(cursor);
	token->start = cursor->at;
	token->line = cursor->line;
	token->length = strspn(cursor->at, DIGITS LETTERS "+-.");

	if (cursor->at == cursor->end)
		token->type = TOKEN_END;
	else if (token->length)
		scan_plain(token);
	else if (*cursor->at == '"')
		scan_string(token);
	else if (*cursor->at && strchr("{}[]:,", *cursor->at))
		scan_mark(token);
	else
		scan_other(token);

	if (token->type != TOKEN_BAD)
		cursor->at += token->length;
}

/* +1, -1 or 0: how deep one is after this token. */
static int deeper(const struct token *token)
{
	return is_mark(token, '{') + is_mark(token, '[') -
	       is_mark(token, '}') - is_mark(token, ']');
}

/* ------------------------------------------------------------ reading --- */

static int fail_with_errno(const char *path)
{
	int err = errno;

	return beest_fail(err, "%s: %s", path, strerror(err));
}

/* Only a regular file, so that neither a FIFO nor a terminal can hold us up. */
static int check_regular(int fd, const char *path)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return fail_with_errno(path);
	if (S_ISDIR(status.st_mode))
		return beest_fail(EISDIR, "%s: a directory, not a file", path);
	if (!S_ISREG(status.st_mode))
		return beest_fail(EINVAL, "%s: not a regular file", path);
	return 0;
}

/* One byte more than allowed is asked for, to see that there is one. */
static int read_all(struct beest_json *json, int fd)
{
	json->text = malloc(BEEST_JSON_MAX + 2);
	if (!json->text)
		return beest_fail(ENOMEM, "%s: out of memory", json->path);

	while (json->length <= BEEST_JSON_MAX) {
		ssize_t got = read(fd, json->text + json->length,
				   BEEST_JSON_MAX + 1 - json->length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail_with_errno(json->path);
		if (!got)
			break;
		json->length += got;
	}

	if (json->length > BEEST_JSON_MAX)
		return beest_fail(EFBIG, "%s: larger than 1 MiB", json->path);
	json->text[json->length] = '\0';
	return 0;
}

static int read_file(struct beest_json *json)
{
	int fd = open(json->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int ret;

	if (fd < 0)
		return fail_with_errno(json->path);

	ret = check_regular(fd, json->path);
	if (!ret)
		ret = read_all(json, fd);
	close(fd);
	return ret;
}

/* ----------------------------------------------------------- checking --- */

static void rewind_cursor(struct beest_json *json)
{
	json->cursor.at = json->text;
	json->cursor.end = json->text + json->length;
	json->cursor.line = 1;
	json->depth = 0;
	json->section[0] = '\0';
}

static int fail_at(const struct beest_json *json, unsigned int line, const char *wrong)
{
	return beest_fail(EBADMSG, "%s:%u: %s", json->path, line, wrong);
}

/* The most common slip, for which json-c has but "unexpected character". */
static bool is_comma_too_many(const struct token *token, const struct token *before)
{
	return is_mark(before, ',') && (is_mark(token, '}') || is_mark(token, ']'));
}

static int check_tokens(struct beest_json *json)
{
	struct token token, before = { .type = TOKEN_END };

	rewind_cursor(json);
	next_token(&json->cursor, &token);
	if (token.type == TOKEN_END)
		return beest_fail(EBADMSG, "%s: the file is empty; {} is the least", json->path);
	if (token.type != TOKEN_BAD && !is_mark(&token, '{'))
		return fail_at(json, token.line, "the file must be one object, { ... }");

	for (; token.type != TOKEN_END; next_token(&json->cursor, &token)) {
		if (json->depth < 0 && token.length)
			return fail_at(json, token.line, "text after the end of the object");
		if (token.type == TOKEN_BAD)
			return fail_at(json, token.line, token.wrong);
		if (is_comma_too_many(&token, &before))
			return fail_at(json, before.line, "a comma too many, before the end");
		before = token;
		json->depth += deeper(&token);
		if (!json->depth)
			json->depth = -1;
	}
	return 0;
}

static unsigned int line_of(const char *text, int offset)
{
	unsigned int line = 1;

	while (offset-- > 0)
		line += *text++ == '\n';
	return line;
}

/* The NUL is parsed too: it is what makes json-c see the end. */
static int parse(struct beest_json *json)
{
	struct json_tokener *tokener = json_tokener_new();
	enum json_tokener_error error;
	unsigned int line;

	if (!tokener)
		return beest_fail(ENOMEM, "%s: out of memory", json->path);

	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	json->root = json_tokener_parse_ex(tokener, json->text, (int)json->length + 1);
	error = json_tokener_get_error(tokener);
	line = line_of(json->text, tokener->char_offset);
	json_tokener_free(tokener);

	if (error != json_tokener_success)
		return fail_at(json, line, json_tokener_error_desc(error));
	if (!json->root)
		return beest_fail(ENOMEM, "%s: out of memory", json->path);
	return 0;
}

/* json-c keeps the last of equal keys; @seen maps "section\nkey" to its line. */
static int check_key(const struct beest_json *json, struct json_object *seen,
		     const struct beest_json_entry *entry)
{
	const char *dot = entry->is_section ? "" : ".";
	char name[sizeof(entry->section) + sizeof(entry->key)];
	struct json_object *line;
	int ret = 0;

	snprintf(name, sizeof(name), "%s%s%s", entry->section, *dot ? "\n" : "", entry->key);
	if (json_object_object_get_ex(seen, name, &line))
		ret = beest_fail(EBADMSG, "%s:%u: %s%s%s is given twice, first in line %d",
				 json->path, entry->line, entry->section, dot, entry->key,
				 (int)json_object_get_int64(line));
	else
		json_object_object_add(seen, name, json_object_new_int64(entry->line));
	return ret;
}

static int check_keys(struct beest_json *json)
{
	struct json_object *seen = json_object_new_object();
	struct beest_json_entry entry;
	int ret = 0;

	if (!seen)
		return beest_fail(ENOMEM, "%s: out of memory", json->path);

	rewind_cursor(json);
	while (!ret && beest_json_next(json, &entry))
		ret = check_key(json, seen, &entry);
	rewind_cursor(json);
	json_object_put(seen);
	return ret;
}

/* ------------------------------------------------------------ walking --- */

/* With "..." at the end when it had to be cut. */
static void copy_cut(char *to, size_t size, const char *from, size_t length)
{
	if (length < size)
		snprintf(to, size, "%.*s", (int)length, from);
	else
		snprintf(to, size, "%.*s...", (int)size - 4, from);
}

static bool is_key(const struct beest_json *json, const struct token *token)
{
	struct cursor ahead = json->cursor;
	struct token next;

	if (token->type != TOKEN_STRING)
		return false;
	next_token(&ahead, &next);
	return is_mark(&next, ':');
}

static const char *decoded(const struct beest_json *json,
			   const struct beest_json_entry *entry)
{
	struct json_object *section, *value;

	if (!json_object_object_get_ex(json->root, entry->section, &section) ||
	    !json_object_is_type(section, json_type_object) ||
	    !json_object_object_get_ex(section, entry->key, &value) ||
	    !json_object_is_type(value, json_type_string))
		return "";
	return json_object_get_string(value);
}

/* The value is looked at only: its marks count for the depth at the next call. */
static void fill_value(struct beest_json *json, struct beest_json_entry *entry)
{
	struct cursor ahead;
	struct token token;

	next_token(&json->cursor, &token);
	ahead = json->cursor;
	next_token(&ahead, &token);

	entry->type = token.value;
	copy_cut(entry->written, sizeof(entry->written), token.start, token.length);
	entry->string = token.value == BEEST_JSON_STRING ? decoded(json, entry) : NULL;
}

static void fill_entry(struct beest_json *json, const struct token *key,
		       struct beest_json_entry *entry)
{
	if (json->depth == 1)		/* else that of the last call */
		copy_cut(json->section, sizeof(json->section), key->start + 1, key->length - 2);

	memcpy(entry->section, json->section, sizeof(entry->section));
	entry->key[0] = '\0';
	entry->is_section = json->depth == 1;
	if (!entry->is_section)
		copy_cut(entry->key, sizeof(entry->key), key->start + 1, key->length - 2);
	entry->line = key->line;
	fill_value(json, entry);
}

bool beest_json_next(struct beest_json *json, struct beest_json_entry *entry)
{
	struct token token;

	for (;;) {
		next_token(&json->cursor, &token);
		if (token.type == TOKEN_END)
			return false;
		json->depth += deeper(&token);
		if (json->depth <= 2 && is_key(json, &token)) {
			fill_entry(json, &token, entry);
			return true;
		}
	}
}

const char *beest_json_found(const struct beest_json_entry *entry, char *text, size_t size)
{
	static const char *const names[] = {
		[BEEST_JSON_OBJECT] = "an object",
		[BEEST_JSON_ARRAY] = "an array",
		[BEEST_JSON_STRING] = "the text ",
		[BEEST_JSON_INTEGER] = "the number ",
		[BEEST_JSON_FRACTION] = "the number ",
		[BEEST_JSON_TRUE] = "",
		[BEEST_JSON_FALSE] = "",
		[BEEST_JSON_NULL] = "",
	};
	bool compound = entry->type == BEEST_JSON_OBJECT || entry->type == BEEST_JSON_ARRAY;

	snprintf(text, size, "%s%s", names[entry->type], compound ? "" : entry->written);
	return text;
}

/* --------------------------------------------------- open and close --- */

static int open_json(struct beest_json *json, const char *path)
{
	int ret;

	json->path = strdup(path);
	if (!json->path)
		return beest_fail(ENOMEM, "%s: out of memory", path);

	ret = read_file(json);
	if (!ret)
		ret = check_tokens(json);
	if (!ret)
		ret = parse(json);
	if (!ret)
		ret = check_keys(json);
	return ret;
}

int beest_json_open(struct beest_json **json, const char *path)
{
	struct beest_json *opened = calloc(1, sizeof(*opened));
	int ret;

	if (!opened)
		return beest_fail(ENOMEM, "%s: out of memory", path);

	ret = open_json(opened, path);
	if (ret < 0) {
		beest_json_close(opened);
		return ret;
	}

	*json = opened;
	return 0;
}

void beest_json_close(struct beest_json *json)
{
	if (!json)
		return;
	if (json->root)
		json_object_put(json->root);
	free(json->text);
	free(json->path);
	free(json);
}
