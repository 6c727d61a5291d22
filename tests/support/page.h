/* SPDX-License-Identifier: MIT */
/*
 * page.h - the examples of hartebeest-exchange(7), from its source
 *
 * Owns the form of an example.  Knows nothing of what its bytes mean.
 */
#ifndef TESTS_PAGE_H
#define TESTS_PAGE_H

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/macro.h"
#include "tests/support/unit.h"

#define PAGE_SIZE_MAX 131072
#define PAGE_HEX 512

static inline char *page_read(const char *path)
{
	char *page = calloc(1, PAGE_SIZE_MAX);
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	assert_in_range(fread(page, 1, PAGE_SIZE_MAX - 1, file), 1, PAGE_SIZE_MAX - 2);
	fclose(file);
	return page;
}

/* The form that roff needs: with a backslash before each hyphen. */
static inline void page_roff(const char *text, char roff[BEEST_KEY_MAX])
{
	for (; *text; *roff++ = *text++)
		if (*text == '-')
			*roff++ = '\\';
	*roff = '\0';
}

/* The bytes below the key, from lines like "0010  0a 0b 0c", as hex without spaces. */
static inline void page_hex(const char *page, const char *key, char hex[PAGE_HEX])
{
	char line[BEEST_KEY_MAX], wanted[BEEST_KEY_MAX + 4];
	const char *at;
	size_t used = 0;

	page_roff(key, line);
	snprintf(wanted, sizeof(wanted), "\n%s\n", line);
	at = strstr(page, wanted);
	if (!at)
		fail_msg("no example with the key %s", key);
	for (at += strlen(wanted); *at != '.'; at = strchr(at, '\n') + 1) {
		const char *byte;

		assert_int_equal(strtoul(at, NULL, 16), used / 2);
		for (byte = at + 5; *byte != '\n'; byte++)
			if (*byte != ' ' && used < PAGE_HEX - 1)
				hex[used++] = *byte;
	}
	hex[used] = '\0';
}

#endif
