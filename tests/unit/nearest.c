/* SPDX-License-Identifier: MIT */
/* nearest.c - the word that was probably meant */
#include "config.h"

#include "lib/base/nearest.h"
#include "tests/support/unit.h"

static const char *const keys[] = {
	"cq_depth", "max_send_wr", "max_recv_wr", "path_mtu", "timeout", "retry_cnt", "qp0",
};

static const char *nearest_key(const char *word)
{
	struct beest_nearest nearest = BEEST_NEAREST(word);
	size_t i;

	for (i = 0; i < BEEST_COUNT(keys); i++)
		beest_nearest_offer(&nearest, keys[i], keys[i]);
	return nearest.best;
}

/* The distance of two words.  Starts at 99, so that no word is too far away. */
static size_t distance(const char *a, const char *b)
{
	struct beest_nearest nearest = { a, NULL, 99 };

	beest_nearest_offer(&nearest, b, b);
	return nearest.distance;
}

static void test_each_slip_costs_one(void **state)
{
	(void)state;
	assert_int_equal(distance("timeout", "timeout"), 0);
	assert_int_equal(distance("timeouts", "timeout"), 1);
	assert_int_equal(distance("timeot", "timeout"), 1);
	assert_int_equal(distance("timeour", "timeout"), 1);
	assert_int_equal(distance("tiemout", "timeout"), 1);
	assert_int_equal(distance("itmeout", "timeout"), 1);
	assert_int_equal(distance("timeotu", "timeout"), 1);
	assert_int_equal(distance("TimeOTu", "timeout"), 1);
}

static void test_distances(void **state)
{
	(void)state;
	assert_int_equal(distance("", ""), 0);
	assert_int_equal(distance("", "abc"), 3);
	assert_int_equal(distance("abc", ""), 3);
	assert_int_equal(distance("kitten", "sitting"), 3);
	assert_int_equal(distance("abcd", "wxyz"), 4);
	assert_int_equal(distance("aabb", "bbaa"), 3);
	assert_int_equal(distance("ca", "abc"), 3);
}

static void test_finds_the_nearest(void **state)
{
	(void)state;
	assert_string_equal(nearest_key("cqdepth"), "cq_depth");
	assert_string_equal(nearest_key("max_recv_rw"), "max_recv_wr");
	assert_string_equal(nearest_key("tiemuot"), "timeout");
	assert_string_equal(nearest_key("qp1"), "qp0");
}

static void test_first_of_equals_wins(void **state)
{
	struct beest_nearest nearest = BEEST_NEAREST("qp9");

	(void)state;
	assert_string_equal(BEEST_NEAREST_TEXT(&nearest), "");
	beest_nearest_offer(&nearest, "qp1", "one");
	beest_nearest_offer(&nearest, "qp2", "two");
	assert_string_equal(nearest.best, "one");
	beest_nearest_offer(&nearest, "qp9", "nine");
	assert_string_equal(BEEST_NEAREST_TEXT(&nearest), ", the nearest is nine");
}

/* At most a third of the word may differ. */
static void test_far_words_are_no_help(void **state)
{
	(void)state;
	assert_null(nearest_key("gid_index"));
	assert_null(nearest_key(""));
	assert_null(nearest_key("qx1"));
	assert_non_null(nearest_key("xxmeout"));
	assert_null(nearest_key("xxxeout"));
}

/* In a short word, one more byte may be missing at the end; or whole words may be. */
static void test_a_beginning_is_near(void **state)
{
	(void)state;
	assert_string_equal(nearest_key("qp"), "qp0");
	assert_null(nearest_key("q"));
	assert_null(nearest_key("p0"));
	assert_null(nearest_key("time"));
	assert_string_equal(nearest_key("timeo"), "timeout");
	assert_string_equal(nearest_key("max"), "max_send_wr");
	assert_string_equal(nearest_key("max_recv"), "max_recv_wr");
	assert_string_equal(nearest_key("path"), "path_mtu");
	assert_null(nearest_key("pat"));
	assert_null(nearest_key("mtu"));
}

static void test_overlong_words(void **state)
{
	char word[300], other[300];

	(void)state;
	unit_repeat(word, 'x', 255);
	unit_repeat(other, 'x', 255);
	assert_int_equal(distance(word, other), 0);
	unit_repeat(other, 'y', 255);
	assert_int_equal(distance(word, other), 99);
	unit_repeat(other, 'x', 256);
	assert_int_equal(distance(word, other), 99);
	assert_int_equal(distance(other, word), 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_slip_costs_one),
		cmocka_unit_test(test_distances),
		cmocka_unit_test(test_finds_the_nearest),
		cmocka_unit_test(test_first_of_equals_wins),
		cmocka_unit_test(test_far_words_are_no_help),
		cmocka_unit_test(test_a_beginning_is_near),
		cmocka_unit_test(test_overlong_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
