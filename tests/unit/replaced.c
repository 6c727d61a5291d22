/* SPDX-License-Identifier: MIT */
/*
 * replaced.c - which thread checks the peers of the original's interface, and when
 *
 * The log's callback runs during a check, and does what another thread could do meanwhile.
 */
#include "config.h"

#include "tests/support/unit.h"

#include <stdlib.h>

#include "hartebeest-c.h"
#include "hartebeest.h"
#include "lib/api/replaced.h"

static int checks;

/* A transfer of another thread fails, and that thread also checks. */
static void doubt_within(void *data, int level, const char *text)
{
	(void)data;
	(void)level;
	(void)text;
	checks++;
	beest_replaced_doubt();
	beest_replaced_check();
}

/* A doubt that arises during a check is left to the next check. */
static void a_doubt_is_not_lost(void **state)
{
	static struct ibv_qp qp = { .state = IBV_QPS_RTS };
	struct hartebeest_context *hb;

	(void)state;
	clearenv();
	hb = hartebeest_default_context();
	assert_non_null(hb);
	assert_int_equal(hartebeest_log_set(hb, HARTEBEEST_LOG_ERROR, doubt_within, NULL), 0);
	beest_replaced_add("gone", "peer", &qp);
	beest_replaced_doubt();
	beest_replaced_check();
	assert_int_equal(checks, 1);
	assert_true(beest_replaced_is_doubted());
	assert_int_equal(hartebeest_log_set(hb, HARTEBEEST_LOG_NONE, NULL, NULL), 0);
	beest_replaced_check();
	assert_false(beest_replaced_is_doubted());
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
	beest_replaced_doubt();
	beest_replaced_check();
	assert_int_equal(beest_replaced_polled(&cq, since), -ECONNRESET);
	assert_int_equal(beest_replaced_polled(&former_cq, since), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_doubt_is_not_lost),
		cmocka_unit_test(a_name_is_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
