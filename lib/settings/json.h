/* SPDX-License-Identifier: MIT */
/*
 * json.h - one settings file: an object of sections, each an object of values
 *
 * Owns the reading and the grammar, which is RFC 8259 and the same with every
 * json-c: versions differ in what they let pass (comments, 01, TRUE, NaN, 'a',
 * trailing text, repeated keys), so all of that is refused here.  Knows nothing of
 * options.
 */
#ifndef BEEST_JSON_H
#define BEEST_JSON_H

#include <stdbool.h>
#include <stddef.h>

#define BEEST_JSON_MAX (1024 * 1024)

enum beest_json_type {
	BEEST_JSON_OBJECT,
	BEEST_JSON_ARRAY,
	BEEST_JSON_STRING,
	BEEST_JSON_INTEGER,
	BEEST_JSON_FRACTION,	/* any other number: 1.5, 1e3 */
	BEEST_JSON_TRUE,
	BEEST_JSON_FALSE,
	BEEST_JSON_NULL,
};

struct beest_json;

/* A section, then each value in it. */
struct beest_json_entry {
	bool is_section;		/* then without a key */
	char section[64];		/* as written, cut to fit */
	char key[64];
	enum beest_json_type type;
	char written[64];		/* the value as written, "..." where cut */
	const char *string;		/* decoded, if STRING; lives as long as the file */
	unsigned int line;
};

/*
 * -EBADMSG: not JSON, no object, or a key given twice; -EFBIG: over 1 MiB;
 * -EISDIR, -EINVAL: no regular file; errno of open(2) and read(2); -ENOMEM.  The
 * sentence begins with the path, and the line where there is one.
 */
int beest_json_open(struct beest_json **json, const char *path);
void beest_json_close(struct beest_json *json);

/* In the order of the file; false after the last. */
bool beest_json_next(struct beest_json *json, struct beest_json_entry *entry);

/* "the number 1.5", "an array", ... for sentences. */
const char *beest_json_found(const struct beest_json_entry *entry, char *text, size_t size);

#endif
