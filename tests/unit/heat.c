/* SPDX-License-Identifier: MIT */
/*
 * heat.c - the judgement of hartebeest mesh and its pictures, from invented numbers
 */
#include "config.h"

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/fake-command.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/scratch.h"
#include "tools/heat.h"
#include "tools/verdict.h"

#define US 1000

static struct matrix matrix;
static struct heat heat;
static char *shown;
static int group[512];

static void set(int from, int to, int64_t ns)
{
	matrix.times[from * matrix.count + to] = ns;
}

/* @racks of equal size: 1 us inside, 3 us between them, and a little noise. */
static void make(int count, int racks)
{
	uint32_t noise = 1;
	int from, to, size = count / racks;

	matrix_free(&matrix);
	assert_true(matrix_make(&matrix, count));
	for (from = 0; from < count; from++) {
		matrix.rows[from].rank = from;
		matrix.rows[from].here = true;
		matrix.rows[from].phases[MATRIX_WAIT] = 5 * BEEST_MS;
		snprintf(matrix.rows[from].host, sizeof(matrix.rows[from].host), "cn%02d", from);
		for (to = 0; to < count; to++)
			if (to != from)
				set(from, to, (from / size == to / size ? 1 : 3) * US +
					      unit_next(&noise) % 100);
	}
}

static int setup(void **state)
{
	(void)state;
	memset(&heat, 0, sizeof(heat));
	make(8, 2);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	matrix_free(&matrix);
	free(shown);
	shown = NULL;
	return 0;
}

enum form { TABLE, MAP, SVG };

static const char *show(enum form form, bool color, int columns)
{
	size_t size;
	FILE *to;

	free(shown);
	to = open_memstream(&shown, &size);
	heat_start(&heat, &matrix, false);
	if (form == TABLE)
		heat_table(&heat, to, color);
	else if (form == MAP)
		heat_map(&heat, to, color, columns);
	else
		heat_svg(&heat, NULL, to);
	fclose(to);
	return shown;
}

static void has(const char *text)
{
	if (!strstr(shown, text))
		fail_msg("no '%s' in\n%s", text, shown);
}

/* ----------------------------------------------------------- judgement --- */

static void two_racks(void **state)
{
	int i;

	(void)state;
	assert_int_equal(matrix_groups(&matrix, group), 2);
	for (i = 0; i < 8; i++)
		assert_int_equal(group[i], i / 4);
	assert_in_range(matrix_between(&matrix, group, true), 1 * US, 1 * US + 100);
	assert_in_range(matrix_between(&matrix, group, false), 3 * US, 3 * US + 100);
}

/* Of 0: nothing is known; a failure is no time. */
static void what_is_measured_again(void **state)
{
	(void)state;
	assert_true(matrix_is_outlier(2001, 1000));
	assert_false(matrix_is_outlier(2000, 1000));
	assert_false(matrix_is_outlier(2000, MATRIX_NONE));
	assert_false(matrix_is_outlier(MATRIX_FAILED, 1000));
}

/* One slow pair does not make a rack, nor does one slow rank. */
static void no_racks(void **state)
{
	struct matrix_pair pairs[3];
	int i;

	(void)state;
	make(8, 1);
	assert_int_equal(matrix_groups(&matrix, group), 1);
	assert_int_equal(matrix_slow(&matrix, group, pairs, 3), 0);
	set(5, 6, 9 * US);
	assert_int_equal(matrix_groups(&matrix, group), 1);
	assert_int_equal(matrix_slow(&matrix, group, pairs, 3), 1);
	for (i = 0; i < 7; i++) {
		set(i, 7, 4 * US + i);
		set(7, i, 4 * US + i);
	}
	assert_int_equal(matrix_groups(&matrix, group), 1);
}

/* Pairs are compared with similar pairs: a pair between racks is not slow for being far. */
static void slow_pairs(void **state)
{
	struct matrix_pair pairs[2];

	(void)state;
	set(0, 1, 2500);
	set(1, 0, 2900);
	set(0, 4, 20 * US);
	assert_int_equal(matrix_groups(&matrix, group), 2);
	assert_int_equal(matrix_slow(&matrix, group, pairs, 2), 3);
	assert_int_equal(pairs[0].from, 0);
	assert_int_equal(pairs[0].to, 4);
	assert_int_equal(pairs[1].from, 1);
	assert_int_equal(pairs[1].to, 0);
	assert_int_equal(pairs[1].now, 2900);
}

static void nothing_was_measured(void **state)
{
	struct matrix_pair pairs[2];

	(void)state;
	matrix_free(&matrix);
	assert_true(matrix_make(&matrix, 3));
	assert_int_equal(matrix_groups(&matrix, group), 1);
	assert_int_equal(matrix_slow(&matrix, group, pairs, 2), 0);
	assert_int_equal(matrix_share(&matrix, matrix.times, 5000), MATRIX_NONE);
	show(TABLE, false, 0);
	has("?");
	show(SVG, false, 0);
	has("</svg>");
}

static void ranks_that_came_late(void **state)
{
	(void)state;
	matrix.rows[3].phases[MATRIX_WAIT] = 1 * BEEST_MS;
	matrix.rows[5].phases[MATRIX_CREATE] = 2 * BEEST_MS;
	assert_int_equal(matrix_late(&matrix, 5), 0);
	assert_int_equal(matrix_late(&matrix, 0), 2 * BEEST_MS);
	assert_int_equal(matrix_late(&matrix, 3), 6 * BEEST_MS);
}

/* ---------------------------------------------------------------- JSON --- */

static struct json_object *as_object(void)
{
	struct json_object *all = json_object_new_object(), *rows = json_object_new_array();
	int i;

	json_object_object_add(all, "rows", rows);
	for (i = 0; i < matrix.count; i++)
		json_object_array_add(rows, matrix_row_object(&matrix, i));
	return all;
}

static void there_and_back(void **state)
{
	struct json_object *all;
	struct matrix read = { 0 };
	struct matrix_pair pairs[2];

	(void)state;
	matrix_fail(&matrix, 5, 6, "retry exceeded <&>");
	all = as_object();
	assert_true(matrix_read(&read, all));
	assert_memory_equal(read.times, matrix.times, 64 * sizeof(*matrix.times));
	assert_string_equal(read.why[5 * 8 + 6], "retry exceeded <&>");
	assert_string_equal(read.rows[7].host, "cn07");
	assert_int_equal(read.rows[7].phases[MATRIX_WAIT], 5 * BEEST_MS);
	assert_int_equal(matrix_changes(&matrix, &read, pairs, 2), 0);
	matrix_free(&read);
	json_object_put(all);
}

static void changes_since(void **state)
{
	struct json_object *all = as_object();
	struct matrix old = { 0 };
	struct matrix_pair pairs[3];

	(void)state;
	assert_true(matrix_read(&old, all));
	json_object_put(all);
	set(0, 1, 10 * US);
	set(4, 1, 1 * US);
	matrix_fail(&matrix, 2, 3, "gone");
	assert_int_equal(matrix_changes(&matrix, &old, pairs, 3), 3);
	assert_int_equal(pairs[0].now, MATRIX_FAILED);
	assert_int_equal(pairs[1].now, 10 * US);
	assert_int_equal(pairs[2].now, 1 * US);
	assert_int_equal(matrix_changes(&old, &matrix, pairs, 3), 3);
	assert_int_equal(pairs[0].usual, 1 * US);
	assert_int_equal(pairs[1].usual, MATRIX_FAILED);
	matrix_free(&old);
}

static void objects_that_are_none(void **state)
{
	static const char *const wrong[] = {
		"{}", "[]", "{\"rows\": 1}", "{\"rows\": []}", "{\"rows\": [1]}",
		"{\"rows\": [{}]}",
		"{\"rows\": [{\"rank\": 0, \"host\": \"a\", \"phases_ns\": {}, \"times_ns\": [1, "
		"2], \"bytes_per_s\": [null]}]}",
		"{\"rows\": [{\"rank\": \"0\", \"host\": 1, \"phases_ns\": {}, \"times_ns\": "
		"[null], \"bytes_per_s\": [null]}]}",
	};
	struct json_object *object;
	struct matrix read = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(wrong); i++) {
		object = json_tokener_parse(wrong[i]);
		assert_non_null(object);
		if (matrix_read(&read, object))
			fail_msg("'%s' was read", wrong[i]);
		assert_null(read.rows);
		json_object_put(object);
	}
	object = json_tokener_parse("{\"rows\": [{\"rank\": 0, \"host\": \"a\\u001b[2J\\u0085\", "
				    "\"phases_ns\": {}, \"times_ns\": [-5], \"bytes_per_s\": "
				    "[1.5], \"failures\": [{\"to\": 7, \"why\": \"x\"}, {\"to\": "
				    "-1, \"why\": \"x\"}, 3]}]}");
	assert_true(matrix_read(&read, object));
	assert_int_equal(read.times[0], MATRIX_NONE);
	assert_string_equal(read.rows[0].host, "a?[2J?" "?");
	json_object_put(object);
	matrix_free(&read);
}

/* -------------------------------------------------------------- pictures --- */

static void a_table(void **state)
{
	(void)state;
	matrix_fail(&matrix, 5, 6, "retry exceeded");
	show(TABLE, false, 0);
	has("             0       1       2");
	has("     0       .");
	has("       X");
	has("  cn05\n");
	has(" us .:-=+*#%@ ");
	assert_null(strchr(shown, '\033'));
	show(TABLE, true, 0);
	has("\033[48;5;54m\033[38;5;15m    1.0");
	has("\033[1;31m       X\033[0m");
}

/* If nothing was measured, there is no scale, and the legend has no numbers. */
static void a_table_of_failures(void **state)
{
	int from, to;

	(void)state;
	make(3, 1);
	for (from = 0; from < 3; from++)
		for (to = 0; to < 3; to++)
			if (from != to)
				matrix_fail(&matrix, from, to, "gone");
	show(TABLE, false, 0);
	has("\n  X failed, ? unknown\n");
	assert_null(strstr(shown, " us"));
	show(MAP, false, 40);
	has("\n  X failed, ? unknown\n");
	show(SVG, false, 0);
	has(">cross: failed; no pair works</text>");
	assert_null(strstr(shown, " us"));
}

/* Looks only at the part before the legend. */
static bool shows_failure(void)
{
	return strchr(shown, 'X') < strstr(shown, " us ");
}

/* A cell shows the worst of its pairs, and a failure always shows. */
static void a_map(void **state)
{
	int lines = 0;
	char *at;

	(void)state;
	make(96, 4);
	matrix_fail(&matrix, 10, 90, "gone");
	show(MAP, false, 200);
	has("\n    10 ");
	assert_true(shows_failure());
	assert_null(strstr(shown, "each cell"));
	show(MAP, false, 40);
	has("  each cell is the worst of 3 x 3 pairs\n");
	assert_true(shows_failure());
	for (at = strtok(shown, "\n"); at; at = strtok(NULL, "\n"), lines++)
		if (lines < 32)
			assert_in_range(strlen(at), 39, 40);
	assert_int_equal(lines, 34);
}

/* Noise of ten percent shows no heat. */
static void noise(void **state)
{
	(void)state;
	make(20, 1);
	show(MAP, false, 80);
	*strstr(shown, " us ") = '\0';
	assert_null(strpbrk(shown, "-=+*#%@"));
	assert_int_equal(heat_level(&heat, 1100, 9), 1);
	assert_int_equal(heat_level(&heat, 1, 9), 0);
	assert_int_equal(heat_level(&heat, INT64_MAX, 9), 8);
}

static void rates_are_the_other_way_round(void **state)
{
	(void)state;
	matrix.rates[1] = 1000;
	matrix.rates[2] = 100;
	heat_start(&heat, &matrix, true);
	assert_int_equal(heat_level(&heat, 1000, 9), 0);
	assert_int_equal(heat_level(&heat, 100, 9), 8);
}

static void a_picture(void **state)
{
	(void)state;
	matrix_fail(&matrix, 5, 6, "retry <exceeded> & \xff\n");
	set(0, 1, 9 * US);
	snprintf(matrix.rows[0].host, sizeof(matrix.rows[0].host), "<b>&");
	show(SVG, false, 0);
	has("<title>5 to 6: retry &lt;exceeded&gt; &amp; ?" "?</title>");
	has("<title>0 to 1: 9.00 us, usual 1.0");
	has("&lt;b&gt;&amp; 0</text>");
	has(">best 1.0");
	has(" us worst, cross: failed, ring: unusually slow</text>");
	has("</svg>\n");
	matrix.rows[3].phases[MATRIX_WAIT] = 0;
	matrix.rows[5].phases[MATRIX_WAIT] = 1670 * BEEST_MS;
	show(SVG, false, 0);
	has(">up to 1670 ms</text>");
	make(128, 4);
	show(SVG, false, 0);
	assert_in_range(strlen(shown), 1000, 200000);
}

/* ---------------------------------------------------------------- words --- */

static struct talk talk;
static struct matrix old;

static int say_all(int argc, char **argv)
{
	struct survey survey = { .matrix = matrix, .size = 8 };
	struct out out;
	struct verdict verdict = { .out = &out, .survey = &survey, .matrix = &matrix,
				   .old = old, .old_path = old.rows ? "old.json" : NULL };

	(void)argc, (void)argv;
	out_start(&out, "mesh", false);
	return out_end(&out, verdict_show(&verdict));
}

static void words_of_what_fails(void **state)
{
	int from, to;

	(void)state;
	talk.program = say_all;
	make(3, 1);
	assert_int_equal(TALK(&talk, "mesh"), STATUS_GOOD);
	assert_memory_equal(talk.out, "OK    6 of 6 pairs work: least 1.0", 34);
	talk_says(&talk, "  OK    pairs       6 of 6 work: least 1.0");
	matrix.rows[2].error = strdup("it did not report");
	matrix.rows[2].here = false;
	set(2, 0, MATRIX_NONE), set(2, 1, MATRIX_NONE);
	assert_int_equal(TALK(&talk, "mesh"), STATUS_FAILED);
	assert_memory_equal(talk.out, "FAIL  4 of 6 pairs work: ", 25);
	talk_says(&talk, "; see rank 2, pairs\n");
	talk_says(&talk, "  FAIL  rank 2      cn02: it did not report\n");
	talk_says(&talk, "  FAIL  pairs       4 of 6 work: least 1.0");
	for (from = 0; from < 3; from++)
		for (to = 0; to < 3; to++)
			if (from != to)
				matrix_fail(&matrix, from, to, "no completion");
	assert_int_equal(TALK(&talk, "mesh"), STATUS_FAILED);
	talk_says(&talk, "  FAIL  0 -> 1      cn00 to cn01: no completion\n");
	talk_says(&talk, "  FAIL  pairs       0 of 6 work\n");
}

/* One slower pair is found, however many others became faster. */
static void a_pair_that_became_slower(void **state)
{
	struct json_object *all = as_object();
	int to;

	(void)state;
	talk.program = say_all;
	assert_true(matrix_read(&old, all));
	json_object_put(all);
	for (to = 0; to < 8; to++)
		if (to != 3)
			set(3, to, US / 20), set(to, 3, US / 20);
	assert_int_equal(TALK(&talk, "mesh"), STATUS_GOOD);
	talk_says(&talk, "  --    more        14 pairs changed in all\n");
	set(4, 1, 20 * US);
	assert_int_equal(TALK(&talk, "mesh"), STATUS_FAILED);
	talk_says(&talk, "  FAIL  4 -> 1 ");
	matrix_free(&old);
}

/* ------------------------------------------------------------- arguments --- */

#define RUN(...) TALK(&talk, "hartebeest", "mesh", __VA_ARGS__)

static void wrong_arguments(void **state)
{
	(void)state;
	fake_command_reset(&talk);
	assert_int_equal(RUN("-o", "device.name=fake0"), STATUS_USAGE);
	talk_complains(&talk, "hartebeest mesh: a mesh needs two ranks or more: start it");
	assert_int_equal(RUN("--local", "1"), STATUS_USAGE);
	assert_int_equal(RUN("--local", "65"), STATUS_USAGE);
	assert_int_equal(RUN("--local", "two"), STATUS_USAGE);
	assert_int_equal(RUN("--size", "-8"), STATUS_USAGE);
	assert_int_equal(RUN("--count", "0"), STATUS_USAGE);
	assert_int_equal(RUN("--svg"), STATUS_USAGE);
	assert_int_equal(RUN("all"), STATUS_USAGE);
	assert_int_equal(RUN("--diff", "/nowhere/old.json"), STATUS_FAILED);
	talk_complains(&talk, "/nowhere/old.json: No such file or directory");
	assert_int_equal(RUN("--diff", "/dev/null"), STATUS_FAILED);
	talk_complains(&talk, "/dev/null is not what 'hartebeest mesh --json' writes");
}

/* The file's server is asked, which cannot be reached; no private server is started. */
static void a_server_of_a_settings_file(void **state)
{
	char path[SCRATCH_SIZE];

	(void)state;
	fake_command_reset(&talk);
	scratch_text(path, "hartebeest-heat",
		     "{\"exchange\": {\"servers\": \"127.0.0.1:1\", \"timeout\": \"50ms\"}}");
	setenv("HARTEBEEST_CONF_PATH", path, 1);
	assert_int_not_equal(RUN("--local", "2"), STATUS_GOOD);
	talk_says(&talk, "127.0.0.1:1");
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(two_racks),
		TEST(what_is_measured_again),
		TEST(no_racks),
		TEST(slow_pairs),
		TEST(nothing_was_measured),
		TEST(ranks_that_came_late),
		TEST(there_and_back),
		TEST(changes_since),
		TEST(objects_that_are_none),
		TEST(a_table),
		TEST(a_table_of_failures),
		TEST(a_map),
		TEST(noise),
		TEST(rates_are_the_other_way_round),
		TEST(a_picture),
		TEST(words_of_what_fails),
		TEST(a_pair_that_became_slower),
		cmocka_unit_test(wrong_arguments),
		cmocka_unit_test(a_server_of_a_settings_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
