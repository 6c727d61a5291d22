/* SPDX-License-Identifier: MIT */
/*
 * unit.h - what every unit test includes
 *
 * Owns the includes that cmocka.h needs before itself, and assertions about the sentence of a
 * failure.  Knows nothing of what is tested.
 */
#ifndef BEEST_UNIT_H
#define BEEST_UNIT_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/limit.h"
#include "lib/base/macro.h"
#include "tests/support/surroundings.h"

/* Users read the sentence, so a test that can give all of it should. */
#define assert_error_is(text) assert_string_equal(beest_error_text(), text)
#define assert_error_has(text) unit_error_has(text, __FILE__, __LINE__)

static inline void unit_error_has(const char *text, const char *file, int line)
{
	if (strstr(beest_error_text(), text))
		return;
	print_error("the sentence \"%s\"\ndoes not contain \"%s\"\n", beest_error_text(), text);
	_fail(file, line);
}

/* A limit of @timeout from now, valid to the end of the block. */
#define UNIT_LIMIT(timeout) unit_limit((timeout), &(struct beest_limit){ 0 })

static inline const struct beest_limit *unit_limit(int64_t timeout, struct beest_limit *limit)
{
	beest_limit_start(limit, NULL, 0, timeout);
	return limit;
}

/* Fills @buffer with @length times @byte and a NUL; returns it. */
static inline char *unit_repeat(char *buffer, char byte, size_t length)
{
	memset(buffer, byte, length);
	buffer[length] = '\0';
	return buffer;
}

/*
 * The step of a long loop: BEEST_TEST_STRIDE, which is 1 where scripts/check --all runs all steps,
 * or @usual, with which the program takes a few seconds.  Call it before the test clears its
 * environment.
 */
static inline int unit_stride(int usual)
{
	const char *text = getenv("BEEST_TEST_STRIDE");

	return text && atoi(text) > 0 ? atoi(text) : usual;
}

/* Does the test leave out nothing, neither steps nor what costs much and repeats other tests? */
static inline bool unit_whole(void)
{
	return unit_stride(2) == 1;
}

/* Numbers that are the same in every run, for tests that try many inputs. */
static inline uint32_t unit_next(uint32_t *state)
{
	*state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
	return *state >> 8;
}

#endif
