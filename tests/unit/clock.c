/* SPDX-License-Identifier: MIT */
/* clock.c - deadlines and back-off */
#include "config.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "tests/support/pause.h"
#include "tests/support/unit.h"

static void test_now_advances(void **state)
{
	int64_t before = beest_clock_now();

	(void)state;
	pause_ms(2);
	assert_true(beest_clock_now() - before >= 2 * BEEST_MS);
}

static void test_deadline(void **state)
{
	int64_t before = beest_clock_now();
	int64_t deadline = beest_clock_deadline(BEEST_SECOND);

	(void)state;
	assert_true(deadline >= before + BEEST_SECOND);
	assert_true(deadline <= beest_clock_now() + BEEST_SECOND);
}

static void test_deadline_saturates(void **state)
{
	(void)state;
	assert_true(beest_clock_deadline(INT64_MAX) == INT64_MAX);
	assert_true(beest_clock_deadline(INT64_MAX - 1) == INT64_MAX);
	assert_true(beest_clock_deadline(INT64_MIN) < 0);
}

static void test_left(void **state)
{
	int64_t left = beest_clock_left(beest_clock_deadline(BEEST_SECOND));

	(void)state;
	assert_true(left > 0 && left <= BEEST_SECOND);
	assert_true(beest_clock_left(beest_clock_now()) == 0);
	assert_true(beest_clock_left(0) == 0);
	assert_true(beest_clock_left(INT64_MIN) == 0);
	assert_true(beest_clock_left(INT64_MAX) > 0);
}

static void test_pause(void **state)
{
	(void)state;
	assert_true(beest_clock_backoff_pause(-1, 2) == 50 * BEEST_US);
	assert_true(beest_clock_backoff_pause(0, 2) == 50 * BEEST_US);
	assert_true(beest_clock_backoff_pause(800 * BEEST_US, 2) == 50 * BEEST_US);
	assert_true(beest_clock_backoff_pause(1600 * BEEST_US, 2) == 100 * BEEST_US);
	assert_true(beest_clock_backoff_pause(80 * BEEST_MS, 2) == 5 * BEEST_MS);
	assert_true(beest_clock_backoff_pause(INT64_MAX, 2) == 5 * BEEST_MS);
}

static void test_bounds_grow_with_ranks(void **state)
{
	static const struct {
		int ranks;
		int64_t least, most;
	} rows[] = {
		{ 1, 50 * BEEST_US, 5 * BEEST_MS },
		{ 2, 50 * BEEST_US, 5 * BEEST_MS },
		{ 50, 1000 * BEEST_US, 5 * BEEST_MS },
		{ 1000, 20 * BEEST_MS, 100 * BEEST_MS },
		{ INT32_MAX, INT32_MAX * (20 * BEEST_US), INT32_MAX * (100 * BEEST_US) },
	};
	struct beest_backoff backoff;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_true(beest_clock_backoff_pause(0, rows[i].ranks) == rows[i].least);
		assert_true(beest_clock_backoff_pause(INT64_MAX, rows[i].ranks) == rows[i].most);
	}
	beest_clock_backoff_start(&backoff, -1);
	assert_int_equal(backoff.ranks, 1);
}

#define CAP (5 * BEEST_MS)

/* A back-off that has waited so long that its pause has reached the cap. */
static struct beest_backoff tired_backoff(uint32_t seed)
{
	struct beest_backoff backoff = {
		.start = beest_clock_now() - 100 * CAP, .ranks = 2, .keys = SIZE_MAX, .seed = seed,
	};

	return backoff;
}

static int64_t slept(struct beest_backoff *backoff, int64_t deadline)
{
	int64_t before = beest_clock_now();

	beest_clock_backoff_sleep(backoff, deadline);
	return beest_clock_now() - before;
}

/* By the linker's --wrap: notes the span that was asked for, since real sleeps end late. */
int __wrap_clock_nanosleep(clockid_t id, int flags, const struct timespec *until,
			   struct timespec *left);
int __real_clock_nanosleep(clockid_t id, int flags, const struct timespec *until,
			   struct timespec *left);

static int64_t asked;			/* counted from the call */

int __wrap_clock_nanosleep(clockid_t id, int flags, const struct timespec *until,
			   struct timespec *left)
{
	asked = until->tv_sec < 0 ? -1 :
		until->tv_sec * BEEST_SECOND + until->tv_nsec - beest_clock_now();
	return __real_clock_nanosleep(id, flags, until, left);
}

static void test_jitter_is_a_quarter(void **state)
{
	struct beest_backoff backoff = tired_backoff(1);
	int i;

	(void)state;
	for (i = 0; i < 20; i++) {
		assert_true(slept(&backoff, INT64_MAX) >= CAP * 3 / 4);
		assert_true(asked <= CAP * 5 / 4);
	}
}

/* A look waits until the answer is expected, within the bounds of a pause. */
static void test_sleeps_as_long_as_expected(void **state)
{
	struct beest_backoff backoff;

	(void)state;
	beest_clock_backoff_start(&backoff, 2);
	backoff.expected = CAP / 2;
	assert_true(slept(&backoff, INT64_MAX) >= CAP / 2 * 3 / 4);
	assert_true(asked <= CAP / 2 * 5 / 4);
	backoff.expected = BEEST_SECOND;
	slept(&backoff, INT64_MAX);
	assert_true(asked <= CAP * 5 / 4);
}

static void test_seeds_differ(void **state)
{
	struct beest_backoff one, other;
	uint32_t before;

	(void)state;
	beest_clock_backoff_start(&one, 2);
	beest_clock_backoff_start(&other, 2);
	assert_int_not_equal(one.seed, 0);
	assert_int_not_equal(one.seed, other.seed);

	before = one.seed;
	beest_clock_backoff_sleep(&one, 0);
	assert_int_not_equal(one.seed, before);
}

static void test_sleep_ends_at_the_deadline(void **state)
{
	struct beest_backoff backoff = tired_backoff(1);

	(void)state;
	slept(&backoff, beest_clock_deadline(BEEST_MS));
	assert_true(asked <= BEEST_MS);
	slept(&backoff, beest_clock_now() - 1);
	assert_true(asked < 0);
	slept(&backoff, 0);
	slept(&backoff, INT64_MIN);
}

static volatile sig_atomic_t alarms;

static void count_alarm(int signal)
{
	(void)signal;
	alarms++;
}

static void test_signals_do_not_shorten(void **state)
{
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = count_alarm };
	struct beest_backoff backoff = tired_backoff(1);
	int64_t time;

	(void)state;
	sigaction(SIGALRM, &action, NULL);	/* without SA_RESTART */
	setitimer(ITIMER_REAL, &often, NULL);
	time = slept(&backoff, INT64_MAX);
	setitimer(ITIMER_REAL, &never, NULL);

	assert_true(alarms > 0);
	assert_true(time >= CAP * 3 / 4);
}

/* ---------------------------------------------------- a clock set by the test --- */

static int64_t set_now, sleeps;

static int64_t source_now(void)
{
	return set_now;
}

static void source_sleep_until(int64_t instant)
{
	set_now = instant > set_now ? instant : set_now;
	sleeps++;
}

static const struct beest_clock_source source = { source_now, source_sleep_until };

static int set_clock(void **state)
{
	(void)state;
	set_now = 1000 * BEEST_SECOND;
	sleeps = 0;
	beest_clock_source = &source;
	return 0;
}

static int free_clock(void **state)
{
	(void)state;
	beest_clock_source = NULL;
	return 0;
}

static void test_clock_is_settable(void **state)
{
	(void)state;
	assert_true(beest_clock_now() == 1000 * BEEST_SECOND);
	assert_true(beest_clock_deadline(5) == 1000 * BEEST_SECOND + 5);
	assert_true(beest_clock_left(1001 * BEEST_SECOND) == BEEST_SECOND);
}

/* How long one sleep takes, @elapsed after the start and @since after the last progress. */
static int64_t sleep_of(size_t keys, int64_t elapsed, int64_t since, bool steady)
{
	struct beest_backoff backoff;
	int64_t before;

	beest_clock_backoff_start(&backoff, 2);
	backoff.keys = keys;
	backoff.steady = steady;
	set_now += elapsed - since;
	beest_clock_backoff_progress(&backoff);
	set_now += since;
	before = set_now;
	beest_clock_backoff_sleep(&backoff, INT64_MAX);
	return set_now - before;
}

static int64_t pause_of(size_t keys, int64_t elapsed, int64_t since)
{
	return sleep_of(keys, elapsed, since, false);
}

static void test_steady_pauses_do_not_grow(void **state)
{
	const int64_t late = 16 * BEEST_MS;
	int64_t pause = sleep_of(1, late, late, true);

	(void)state;
	assert_true(pause >= 37 * BEEST_US && pause <= 63 * BEEST_US);
}

static void test_few_keys_are_asked_for_eagerly(void **state)
{
	const int64_t late = 16 * BEEST_MS;

	(void)state;
	assert_true(pause_of(1, 0, 0) == 0);
	assert_true(pause_of(32, 199 * BEEST_US, 199 * BEEST_US) == 0);
	assert_true(pause_of(32, late, 199 * BEEST_US) == 0);
	assert_int_equal(sleeps, 0);
	assert_true(pause_of(33, 0, 0) >= 37 * BEEST_US);
	assert_true(pause_of(32, 200 * BEEST_US, 200 * BEEST_US) >= 37 * BEEST_US);
	/* elapsed counts from the start, whatever progress there was */
	assert_true(pause_of(32, late, 200 * BEEST_US) >= late / 16 * 3 / 4);
	assert_int_equal(sleeps, 3);
}

static void test_nobody_is_eager_unasked(void **state)
{
	struct beest_backoff backoff;

	(void)state;
	beest_clock_backoff_start(&backoff, 2);
	beest_clock_backoff_sleep(&backoff, INT64_MAX);
	assert_int_equal(sleeps, 1);
}

/* Programs compute a deadline shortly before the call: spans round up, long ones to seconds. */
static void test_spans_are_rounded(void **state)
{
	static const struct {
		int64_t ns;
		const char *text;
	} spans[] = {
		{ 0, "0 s" }, { 7 * BEEST_MS - 1, "7 ms" }, { 99 * BEEST_MS, "99 ms" },
		{ 100 * BEEST_MS - 900, "100 ms" }, { 250 * BEEST_MS - 900, "250 ms" },
		{ BEEST_SECOND - 1, "1 s" }, { BEEST_SECOND - 900 * BEEST_US, "1 s" },
		{ 1250 * BEEST_MS - 1, "1250 ms" }, { 3 * BEEST_SECOND - 1, "3 s" },
		{ 10 * BEEST_SECOND - 1, "10 s" }, { 30 * BEEST_SECOND - BEEST_MS, "30 s" },
		{ 119 * BEEST_SECOND, "119 s" }, { 120 * BEEST_SECOND - BEEST_MS, "2 min" },
		{ 121 * BEEST_SECOND, "121 s" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(spans); i++)
		assert_string_equal(BEEST_SPAN(spans[i].ns), spans[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_now_advances),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_deadline_saturates),
		cmocka_unit_test(test_left),
		cmocka_unit_test(test_spans_are_rounded),
		cmocka_unit_test(test_pause),
		cmocka_unit_test(test_bounds_grow_with_ranks),
		cmocka_unit_test(test_jitter_is_a_quarter),
		cmocka_unit_test(test_sleeps_as_long_as_expected),
		cmocka_unit_test(test_seeds_differ),
		cmocka_unit_test(test_sleep_ends_at_the_deadline),
		cmocka_unit_test(test_signals_do_not_shorten),
		cmocka_unit_test_setup_teardown(test_clock_is_settable, set_clock, free_clock),
		cmocka_unit_test_setup_teardown(test_seeds_differ, set_clock, free_clock),
		cmocka_unit_test_setup_teardown(test_steady_pauses_do_not_grow, set_clock,
						free_clock),
		cmocka_unit_test_setup_teardown(test_few_keys_are_asked_for_eagerly, set_clock,
						free_clock),
		cmocka_unit_test_setup_teardown(test_nobody_is_eager_unasked, set_clock,
						free_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
