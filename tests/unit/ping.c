/* SPDX-License-Identifier: MIT */
/*
 * ping.c - the pure parts of hartebeest ping, and its arguments
 */
#include "config.h"

#include "tests/support/unit.h"

#include <stdlib.h>

#include "tests/support/fake-command.h"
#include "tests/support/fake-verbs.h"
#include "tools/curve.h"
#include "tools/histogram.h"
#include "tools/plan.h"
#include "tools/steps.h"

/* ----------------------------------------------------------- percentiles --- */

static struct histogram histogram;

static int setup(void **state)
{
	(void)state;
	memset(&histogram, 0, sizeof(histogram));
	return 0;
}

static void small_numbers_are_exact(void **state)
{
	int i;

	(void)state;
	for (i = 100; i >= 1; i--)
		histogram_add(&histogram, i);
	assert_int_equal(histogram.count, 100);
	assert_int_equal(histogram.min, 1);
	assert_int_equal(histogram.max, 100);
	assert_int_equal(histogram_percentile(&histogram, 5000), 50);
	assert_int_equal(histogram_percentile(&histogram, 9000), 90);
	assert_int_equal(histogram_percentile(&histogram, 9900), 99);
	assert_int_equal(histogram_percentile(&histogram, 9990), 100);
	assert_int_equal(histogram_percentile(&histogram, 10000), 100);
	assert_int_equal(histogram_percentile(&histogram, 0), 1);
}

static void large_numbers_are_near(void **state)
{
	int64_t value, found;

	(void)state;
	for (value = 1; value > 0 && value < INT64_MAX / 3; value = value * 3 / 2 + 1) {
		memset(&histogram, 0, sizeof(histogram));
		histogram_add(&histogram, 0);
		histogram_add(&histogram, value);
		histogram_add(&histogram, INT64_MAX);
		found = histogram_percentile(&histogram, 5000);
		assert_in_range(found, value - value / 100, value + value / 100);
	}
}

/* A single number is its own percentile, whatever the width of its bucket. */
static void one_number(void **state)
{
	(void)state;
	assert_int_equal(histogram_percentile(&histogram, 5000), 0);
	histogram_add(&histogram, 1234567891);
	assert_int_equal(histogram_percentile(&histogram, 0), 1234567891);
	assert_int_equal(histogram_percentile(&histogram, 5000), 1234567891);
	assert_int_equal(histogram_percentile(&histogram, 9990), 1234567891);
}

/* Of 1000 numbers, one outlier does not yet show at 99.9 %; two do. */
static void the_worst(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 999; i++)
		histogram_add(&histogram, 10);
	histogram_add(&histogram, 99);
	assert_int_equal(histogram_percentile(&histogram, 9990), 10);
	histogram_add(&histogram, 99);
	assert_int_equal(histogram_percentile(&histogram, 9990), 99);
}

/* ----------------------------------------------------------------- plans --- */

static struct plan open_plan(void)
{
	struct plan plan;

	plan_start(&plan);
	return plan;
}

static void defaults(void **state)
{
	struct plan plan = open_plan();
	char why[PLAN_TEXT], name[PLAN_NAME];

	(void)state;
	assert_true(plan_finish(&plan, why, sizeof(why)));
	assert_string_equal(plan_name(&plan, name), "RC write");
	assert_int_equal(plan.first, 8);
	assert_int_equal(plan.last, 8);
	assert_int_equal(plan.count, 1000);
	assert_int_equal(plan.duration, 0);
	assert_false(plan_is_echo(&plan));

	plan = open_plan();
	plan.type = IBV_QPT_UD;
	plan.duration = BEEST_SECOND;
	assert_true(plan_finish(&plan, why, sizeof(why)));
	assert_string_equal(plan_name(&plan, name), "UD send");
	assert_true(plan.count == INT64_MAX);
	assert_true(plan_is_echo(&plan));

	plan = open_plan();
	plan.last = 4096;
	assert_true(plan_finish(&plan, why, sizeof(why)));
	assert_int_equal(plan.duration, BEEST_SECOND);
	assert_int_equal(plan.count, 1000);
}

/* Either end may ask for a value, and both arrive at the same plan. */
static void two_plans(void **state)
{
	struct plan one = open_plan(), other = open_plan(), merged, again;
	char why[PLAN_TEXT];

	(void)state;
	one.type = IBV_QPT_UC;
	one.first = 64;
	other.first = 64;
	other.count = 7;
	assert_true(plan_merge(&merged, &one, &other, why, sizeof(why)));
	assert_true(plan_merge(&again, &other, &one, why, sizeof(why)));
	assert_memory_equal(&merged, &again, sizeof(merged));
	assert_int_equal(merged.type, IBV_QPT_UC);
	assert_int_equal(merged.first, 64);
	assert_int_equal(merged.count, 7);
	assert_int_equal(merged.op, PLAN_OPEN);

	other.type = IBV_QPT_RC;
	assert_false(plan_merge(&merged, &one, &other, why, sizeof(why)));
	assert_string_equal(why, "the two ends differ in --type: give it at one of them only, or "
			    "the same at both");
	assert_false(plan_merge(&merged, &other, &one, why, sizeof(why)));
}

static void a_plan_as_message(void **state)
{
	static const char *const wrong[] = {
		"", "told 0", "offer 1", "offer 1 2 0", "offer 2 2 0 8 8 1 1 0 1",
		"offer 1 5 0 8 8 1 1 0 1", "offer 1 1 0 8 8 1 1 0 1", "offer 1 2 5 8 8 1 1 0 1",
		"offer 1 2 0 -2 8 1 1 0 1", "offer 1 2 0 8 1073741825 1 1 0 1",
		"offer 1 2 0 8 99999999999999999999 1 1 0 1", "offer 1 2 0 8 8 1 1 0 3",
		"offer 1 2 0 8 0 1 1 0 1", "offer 1 2 0 8 8 0 1 0 1", "offer 1 2 0 8 8 1 0 0 1",
		"offer 1 2 0 8 8 1 86400000000001 0 1", "offer 1 2 0 8 8 1 1 86400000000001 1",
		"offer 1 2 0 8 8 1 1 9223372036854775807 1",
	};
	static const char right[] = "offer 1 2 0 8 8 9223372036854775807 86400000000000 "
				    "86400000000000 1";
	struct plan plan = open_plan(), read;
	char text[PLAN_TEXT];
	size_t i;

	(void)state;
	plan.op = PLAN_COMPARE_SWAP;
	plan.count = INT64_MAX;
	plan_write(&plan, text);
	assert_true(plan_read(&read, text));
	assert_memory_equal(&plan, &read, sizeof(plan));
	assert_true(plan_read(&read, right));
	for (i = 0; i < BEEST_COUNT(wrong); i++)
		if (plan_read(&read, wrong[i]))
			fail_msg("'%s' was read as a plan", wrong[i]);
}

static void times_in_words(void **state)
{
	static const struct {
		int64_t ns;
		const char *text;
	} times[] = {
		{ 0, "0 ns" }, { 999, "999 ns" }, { 1000, "1.00 us" }, { 9994, "9.99 us" },
		{ 9996, "10.0 us" }, { 99960, "100 us" }, { 999499, "999 us" },
		{ 999500, "1.00 ms" }, { 1500000000, "1.50 s" }, { 3600 * BEEST_SECOND, "3600 s" },
	};
	char text[STEPS_TIME];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(times); i++)
		assert_string_equal(steps_time(times[i].ns, text), times[i].text);
}

/* ------------------------------------------------------------- arguments --- */

static struct talk talk;

#define RUN(...) TALK(&talk, "hartebeest", "ping", __VA_ARGS__)
#define REFUSES(text) fake_command_refuses(&talk, text)

static int setup_command(void **state)
{
	(void)state;
	fake_command_reset(&talk);
	return 0;
}

static void wrong_arguments(void **state)
{
	(void)state;
	assert_int_equal(RUN("--type", "xrc"), STATUS_USAGE);
	REFUSES("--type");
	assert_int_equal(RUN("-O", "raed"), STATUS_USAGE);
	REFUSES("read");
	assert_int_equal(RUN("-t", "ud", "--op", "write"), STATUS_USAGE);
	REFUSES("hartebeest ping: there is no UD write: --op write needs --type rc or uc");
	assert_int_equal(RUN("-t", "uc", "-O", "fetch-add"), STATUS_USAGE);
	REFUSES("there is no UC fetch-add: --op fetch-add needs --type rc");
	assert_int_equal(RUN("-O", "compare-swap", "-s", "16"), STATUS_USAGE);
	REFUSES("an atomic operation has 8 bytes: --op compare-swap takes no --size");
	assert_int_equal(RUN("-s", "64", "-a", "32"), STATUS_USAGE);
	REFUSES("--size is larger than --sweep");
	assert_int_equal(RUN("-s", "-1"), STATUS_USAGE);
	assert_int_equal(RUN("-s", "1073741825"), STATUS_USAGE);
	assert_int_equal(RUN("-s", "8k"), STATUS_USAGE);
	assert_int_equal(RUN("-c", "0"), STATUS_USAGE);
	assert_int_equal(RUN("-w", "5"), STATUS_USAGE);
	REFUSES("5");
	assert_int_equal(RUN("-i", "1 s"), STATUS_USAGE);
	assert_int_equal(RUN("-w", "0"), STATUS_USAGE);
	assert_int_equal(RUN("one", "two"), STATUS_USAGE);
	REFUSES("hartebeest ping: 'two' is one argument too many: [NAME]");
}

/* Stops at the step that fails, and says what to do. */
static void stops_where_it_fails(void **state)
{
	(void)state;
	assert_int_equal(RUN("-o", "device.name=nothing"), STATUS_FAILED);
	assert_non_null(strstr(talk.out, "  FAIL  device "));
	assert_non_null(strstr(talk.out, "        -> 'hartebeest info'"));
	assert_null(strstr(talk.out, "servers"));

	assert_int_equal(RUN("-o", "exchange.servers=127.0.0.1:1", "-o", "exchange.timeout=50ms"),
			 STATUS_FAILED);
	assert_non_null(strstr(talk.out, "  OK    device "));
	assert_non_null(strstr(talk.out, "  FAIL  servers "));
	assert_non_null(strstr(talk.out, "127.0.0.1:1"));
	assert_non_null(strstr(talk.out, "        -> a memcached must run"));
	assert_null(strstr(talk.out, "peer"));

	assert_int_equal(RUN("-o", "exchange.servers=127.0.0.1:1", "-o", "exchange.timeout=50ms",
			     "--json"), STATUS_FAILED);
	assert_non_null(strstr(talk.out, "\"step\": \"servers\""));
}

static void names_that_cannot_be(void **state)
{
	(void)state;
	assert_int_equal(RUN("-o", "exchange.servers=127.0.0.1:1", "a/b"), STATUS_FAILED);
	assert_non_null(strstr(talk.out, "'ping.a/b'"));
	assert_int_equal(RUN("-o", "exchange.servers=127.0.0.1:1", "-l", "two words"),
			 STATUS_FAILED);
	assert_non_null(strstr(talk.out, "'ping.two words'"));
}

/* --------------------------------------------------------------- picture --- */

static const char *curve_text(const struct curve *curve)
{
	static char *text;
	size_t size;
	FILE *to;

	free(text);
	to = open_memstream(&text, &size);
	assert_non_null(to);
	curve_svg(curve, to);
	fclose(to);
	return text;
}

/* Steps of size are equal, rates from 0 on; what was not measured leaves no line. */
static void bandwidth_as_a_picture(void **state)
{
	struct curve curve = {
		.title = "RC write", .count = 3,
		.points = { { 512, 1000000, 0 }, { 1024, 2000000, 0 }, { 2048, 4000000, 0 } },
	};
	const char *text = curve_text(&curve);

	(void)state;
	assert_memory_equal(text, "<svg ", 5);
	assert_string_equal(text + strlen(text) - 7, "</svg>\n");
	assert_non_null(strstr(text, "\"M90 290.0L410 210.0L730 50.0\" style=\"stroke:#39568c\">"
			       "<title>one way</title>"));
	assert_null(strstr(text, "<title>both ways together</title>"));
	assert_non_null(strstr(text, ">4 MB/s</text>"));
	assert_non_null(strstr(text, ">512</text>"));
	assert_non_null(strstr(text, ">1Ki</text>"));

	curve.points[1].both = 8000000000;
	curve.count = 2;
	text = curve_text(&curve);
	assert_non_null(strstr(text, "<title>both ways together</title>"));
	assert_non_null(strstr(text, ">8 GB/s</text>"));
	curve.count = 1;
	assert_non_null(strstr(curve_text(&curve), "\"M90 50.0\""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, setup)
		TEST(small_numbers_are_exact),
		TEST(large_numbers_are_near),
		TEST(one_number),
		TEST(the_worst),
		cmocka_unit_test(defaults),
		cmocka_unit_test(two_plans),
		cmocka_unit_test(a_plan_as_message),
		cmocka_unit_test(times_in_words),
		cmocka_unit_test(bandwidth_as_a_picture),
		cmocka_unit_test_setup(wrong_arguments, setup_command),
		cmocka_unit_test_setup(stops_where_it_fails, setup_command),
		cmocka_unit_test_setup(names_that_cannot_be, setup_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
