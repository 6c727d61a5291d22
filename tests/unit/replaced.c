/* SPDX-License-Identifier: MIT */
/*
 * replaced.c - which thread checks the peers of the original's interface, and when
 *
 * The log's callback runs during a check, and does what another thread could do meanwhile, or takes
 * time.
 *
 * promise: hartebeest_compat(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <stdlib.h>
#include <time.h>

#include "hartebeest-c.h"
#include "hartebeest.h"
#include "lib/api/replaced.h"
#include "lib/base/clock.h"
#include "lib/base/macro.h"

static int64_t now = BEEST_SECOND;	/* only the test changes it */

int __wrap_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
	(void)id;
	time->tv_sec = now / BEEST_SECOND;
	time->tv_nsec = now % BEEST_SECOND;
	return 0;
}

static int checks;

static int64_t span;			/* of each check */

static void take_time(void *data, int level, const char *text)
{
	(void)data;
	(void)level;
	(void)text;
	checks++;
	now += span;
}

static bool checks_after(int64_t pause)
{
	int before = checks;

	now += pause;
	beest_replaced_check();
	return checks > before;
}

/*
 * A new connection needs no check.  Checks of many queue pairs with a slow server take long, and
 * must not take most of the time of a bring-up.
 */
static void checks_leave_time(void **state)
{
	static const struct {
		int64_t span, pause;
	} rows[] = {
		{ 0, 100 * BEEST_MS },
		{ 5 * BEEST_MS, 100 * BEEST_MS },
		{ 50 * BEEST_MS, 800 * BEEST_MS },
		{ 200 * BEEST_MS, BEEST_SECOND },
	};
	static struct ibv_qp qp = { .state = IBV_QPS_RTS };
	struct hartebeest_context *hb;
	size_t i;

	(void)state;
	surroundings_clear();
	hb = hartebeest_default_context();
	assert_non_null(hb);
	assert_int_equal(hartebeest_log_set(hb, HARTEBEEST_LOG_ERROR, take_time, NULL), 0);
	beest_replaced_add("slow", "peer", &qp);
	assert_false(checks_after(100 * BEEST_MS));
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		span = rows[i].span;
		beest_replaced_add("slow", "peer", &qp);
		beest_replaced_suspect();
		beest_replaced_check();
		beest_replaced_add("slow", "peer", &qp);
		assert_false(checks_after(rows[i].pause));
		assert_true(checks_after(1));
	}
	assert_int_equal(hartebeest_log_set(hb, HARTEBEEST_LOG_NONE, NULL, NULL), 0);
}

/* A transfer of another thread fails, and that thread also checks. */
static void suspect_within(void *data, int level, const char *text)
{
	(void)data;
	(void)level;
	(void)text;
	checks++;
	beest_replaced_suspect();
	beest_replaced_check();
}

/* A suspicion that arises during a check is left to the next check. */
static void a_suspicion_is_not_lost(void **state)
{
	static struct ibv_qp qp = { .state = IBV_QPS_RTS };
	struct hartebeest_context *hb;

	(void)state;
	checks = 0;
	hb = hartebeest_default_context();
	assert_int_equal(hartebeest_log_set(hb, HARTEBEEST_LOG_ERROR, suspect_within, NULL), 0);
	beest_replaced_add("gone", "peer", &qp);
	beest_replaced_suspect();
	beest_replaced_check();
	assert_int_equal(checks, 1);
	assert_true(beest_replaced_is_suspected());
	assert_int_equal(hartebeest_log_set(hb, HARTEBEEST_LOG_NONE, NULL, NULL), 0);
	beest_replaced_check();
	assert_false(beest_replaced_is_suspected());
}

/* A program may destroy what these functions made, and make it again. */
static void a_name_is_used_again(void **state)
{
	static struct ibv_cq former_cq, cq;
	static struct ibv_qp former = { .send_cq = &former_cq, .recv_cq = &former_cq };
	static struct ibv_qp qp = { .send_cq = &cq, .recv_cq = &cq };
	int64_t since;

	(void)state;
	beest_replaced_add("again", "peer", &former);
	beest_replaced_add("again", "peer", &qp);
	since = hartebeest_clock();
	beest_replaced_suspect();
	beest_replaced_check();
	assert_int_equal(beest_replaced_polled(&cq, since), -ECONNRESET);
	assert_int_equal(beest_replaced_polled(&former_cq, since), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checks_leave_time),
		cmocka_unit_test(a_suspicion_is_not_lost),
		cmocka_unit_test(a_name_is_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
