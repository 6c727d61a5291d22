/* SPDX-License-Identifier: MIT */
/* error.c - the sentence beside the return value */
#include "config.h"

#include <pthread.h>
#include <stdio.h>

#include "lib/base/text.h"
#include "tests/support/unit.h"

/* Must be the first test below: the sentence outlives a test. */
static void test_empty_at_first(void **state)
{
	(void)state;
	assert_error_is("");
}

static void test_fail(void **state)
{
	(void)state;
	assert_int_equal(beest_fail(EINVAL, "rank %d of %d", 7, 4), -EINVAL);
	assert_error_is("rank 7 of 4");
}

static void test_fail_in_prefixes(void **state)
{
	(void)state;
	beest_fail(ERANGE, "'9' is out of range");
	assert_int_equal(beest_fail_prefix(-ERANGE, "%s: %s", "hartebeest.json", "cq_depth"),
			 -ERANGE);
	assert_error_is("hartebeest.json: cq_depth: '9' is out of range");
}

static void test_arguments_may_quote_the_sentence(void **state)
{
	(void)state;
	beest_fail(EIO, "old");
	beest_fail(EIO, "new, not <%s>", beest_error_text());
	assert_error_is("new, not <old>");

	beest_fail_prefix(-EIO, "after <%s>", beest_error_text());
	assert_error_is("after <new, not <old>>: new, not <old>");
}

static void test_errno_is_kept(void **state)
{
	(void)state;
	errno = EDOM;
	beest_fail(EIO, "x");
	assert_int_equal(errno, EDOM);
	beest_fail_prefix(-EIO, "y");
	assert_int_equal(errno, EDOM);
}

static void test_long_sentences_are_cut(void **state)
{
	char text[2 * BEEST_ERROR_SIZE];

	(void)state;
	unit_repeat(text, 'x', sizeof(text) - 1);
	assert_int_equal(beest_fail(EIO, "%s", text), -EIO);
	assert_int_equal(strlen(beest_error_text()), BEEST_ERROR_SIZE - 1);

	beest_fail_prefix(-EIO, "where");
	assert_int_equal(strlen(beest_error_text()), BEEST_ERROR_SIZE - 1);
	assert_error_has("where: xxx");

	assert_int_equal(beest_fail_prefix(-EIO, "%s", text), -EIO);
	assert_int_equal(strlen(beest_error_text()), BEEST_ERROR_SIZE - 1);
}

static void *fail_elsewhere(void *saw_empty)
{
	*(int *)saw_empty = beest_error_text()[0] == '\0';
	beest_fail(EIO, "theirs");
	return NULL;
}

static void test_each_thread_has_its_own(void **state)
{
	pthread_t thread;
	int saw_empty = 0;

	(void)state;
	beest_fail(EIO, "mine");
	assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &saw_empty), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(saw_empty);
	assert_error_is("mine");
}

static void test_foreign_conventions(void **state)
{
	(void)state;
	assert_int_equal(beest_error_verbs(0), 0);
	assert_int_equal(beest_error_verbs(ENOMEM), -ENOMEM);
	assert_int_equal(beest_error_verbs(-1), -1);

	errno = EACCES;
	assert_int_equal(beest_error_errno(), -EACCES);
	errno = 0;
	assert_int_equal(beest_error_errno(), -EIO);

	assert_int_equal(beest_fail_errno(-EACCES, "cannot open %s", "x"), -EACCES);
	assert_error_is("cannot open x: Permission denied");
}

static void test_quote(void **state)
{
	(void)state;
	assert_string_equal(BEEST_QUOTE(""), "''");
	assert_string_equal(BEEST_QUOTE("a b%s"), "'a b%s'");
	assert_string_equal(BEEST_QUOTE("a\r\n\x1b[2J\x7f"), "'a\\x0d\\x0a\\x1b[2J\\x7f'");
	assert_string_equal(BEEST_QUOTE("Z\xc3\xbcrich"), "'Z\xc3\xbcrich'");
}

/* The raw bytes must not reach a terminal or a log. */
static const struct {
	const char *raw, *clean;
} harmful[] = {
	{ "\n\r\t\x1b[2J\x7f", "\\x0a\\x0d\\x09\\x1b[2J\\x7f" },
	{ "\x9b" "31m", "\\x9b31m" },				/* C1 as one byte */
	{ "\xc2\x80\xc2\x9f\xc2\xa0", "\\xc2\\x80\\xc2\\x9f\xc2\xa0" },	/* C1 as UTF-8 */
	{ "\xc3", "\\xc3" },					/* truncated */
	{ "\xc3(", "\\xc3(" },
	{ "\xe2\x82", "\\xe2\\x82" },
	{ "\x80\xbf\xfe\xff", "\\x80\\xbf\\xfe\\xff" },
	{ "\xc0\xaf\xc1\x81", "\\xc0\\xaf\\xc1\\x81" },		/* '/' and 'A' in two bytes */
	{ "\xe0\x80\xaf", "\\xe0\\x80\\xaf" },
	{ "\xf0\x80\x80\xaf", "\\xf0\\x80\\x80\\xaf" },
	{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },			/* half of a surrogate pair */
	{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },		/* beyond the last code point */
	{ "\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80" },
	/* line separator, direction override */
		{ "\xe2\x80\xa8\xe2\x80\xae", "\\xe2\\x80\\xa8\\xe2\\x80\\xae" },
	{ "\xe2\x82\xac \xf0\x9f\x90\x84 \xc3\xa9", "\xe2\x82\xac \xf0\x9f\x90\x84 \xc3\xa9" },
};

/* All text from outside goes through one function. */
static void test_harmful_bytes(void **state)
{
	char quoted[BEEST_QUOTE_SIZE], sentence[BEEST_ERROR_SIZE];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(harmful); i++) {
		snprintf(quoted, sizeof(quoted), "'%s'", harmful[i].clean);
		assert_string_equal(BEEST_QUOTE(harmful[i].raw), quoted);
		snprintf(sentence, sizeof(sentence), "file %s is absent", harmful[i].clean);
		beest_fail(ENOENT, "file %s is absent", harmful[i].raw);
		assert_error_is(sentence);
		snprintf(sentence, sizeof(sentence), "%s: file %s is absent", harmful[i].clean,
			 harmful[i].clean);
		beest_fail_prefix(-ENOENT, "%s", harmful[i].raw);
		assert_error_is(sentence);
	}
}

/* A character is not cut in two. */
static void test_clean_cuts_between_characters(void **state)
{
	char text[16];

	(void)state;
	beest_text_clean(text, 8, "abcd\n", 5);
	assert_string_equal(text, "abcd...");
	beest_text_clean(text, 9, "abcd\n", 5);
	assert_string_equal(text, "abcd\\x0a");
	beest_text_clean(text, 8, "abc\xe2\x82\xac" "d", 7);
	assert_string_equal(text, "abc\xe2\x82\xac" "d");
	beest_text_clean(text, 8, "abc\xe2\x82\xac" "de", 8);
	assert_string_equal(text, "abc...");
	beest_text_clean(text, 4, "abcd", 4);
	assert_string_equal(text, "...");
	beest_text_clean(text, 8, "a\0b", 3);
	assert_string_equal(text, "a\\x00b");
}

/* Every length around the limit; an escaped control character takes four bytes. */
static void test_quote_cuts(void **state)
{
	char text[BEEST_QUOTE_SIZE * 2];
	char quoted[BEEST_QUOTE_SIZE];
	size_t length;

	(void)state;
	for (length = 0; length < sizeof(text); length++) {
		beest_error_quote(quoted, unit_repeat(text, '\n', length));
		beest_error_quote(quoted, unit_repeat(text, 'x', length));
		assert_int_equal(quoted[strlen(quoted) - 1], '\'');
		if (length <= 100)
			assert_int_equal(strlen(quoted), length + 2);
	}
	assert_string_equal(quoted + strlen(quoted) - 5, "x...'");
}

/* Nobody reads half an address for a whole one. */
static void test_shorten_cuts_between_words(void **state)
{
	static const struct {
		size_t size;
		const char *text;
	} rows[] = {
		{ 24, "ddress 10.0.0.1 is gone" }, { 23, "ddress 10.0.0.1 is ..." },
		{ 22, "ddress 10.0.0.1 ..." }, { 12, "ddress ..." }, { 11, "ddress ..." },
		{ 8, "ddre..." }, { 4, "..." },
	};
	char text[24];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		beest_text_shorten(text, rows[i].size, rows[0].text);
		assert_string_equal(text, rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty_at_first),
		cmocka_unit_test(test_fail),
		cmocka_unit_test(test_fail_in_prefixes),
		cmocka_unit_test(test_arguments_may_quote_the_sentence),
		cmocka_unit_test(test_errno_is_kept),
		cmocka_unit_test(test_long_sentences_are_cut),
		cmocka_unit_test(test_each_thread_has_its_own),
		cmocka_unit_test(test_foreign_conventions),
		cmocka_unit_test(test_quote),
		cmocka_unit_test(test_quote_cuts),
		cmocka_unit_test(test_harmful_bytes),
		cmocka_unit_test(test_clean_cuts_between_characters),
		cmocka_unit_test(test_shorten_cuts_between_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
