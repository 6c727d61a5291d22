/* SPDX-License-Identifier: MIT */
/*
 * json.h - a settings file: an object of sections, each an object of values
 *
 * Owns reading the file, and accepts the same grammar, RFC 8259, with every version of json-c.
 * Knows nothing of options.
 */
#ifndef BEEST_JSON_H
#define BEEST_JSON_H

#include <json-c/json_object.h>

struct beest_json;

/* A section, or a value in it.  Its strings are valid until beest_json_close(). */
struct beest_json_entry {
	const char *section;
	const char *key;	/* NULL: the section itself */
	enum json_type type;
	const char *text;	/* the value as the file has it, or a decoded string */
	unsigned int line;
};

/*
 * -EBADMSG: not JSON, not an object, or a key given twice; -EFBIG: over 1 MiB;
 * -EISDIR, -EINVAL: not a regular file; errno of open(2) and read(2); -ENOMEM.  The sentence
 * of -EBADMSG begins with the path and, unless the file is empty, the line; that of others with
 * the quoted path.
 */
int beest_json_open(struct beest_json **json, const char *path);
void beest_json_close(struct beest_json *json);

/* Visits each section, followed by its values, in the order of the file. */
void beest_json_walk(const struct beest_json *json,
		     void (*visit)(void *data, const struct beest_json_entry *entry),
		     void *data);

/* "the number 1.5", "an array", ...; the macro's buffer lives until the end of the block. */
#define BEEST_JSON_FOUND(entry) beest_json_found((entry), (char[128]){ 0 })
const char *beest_json_found(const struct beest_json_entry *entry, char text[128]);

#endif
