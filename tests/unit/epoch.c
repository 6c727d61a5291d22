/* SPDX-License-Identifier: MIT */
/* epoch.c - when the epoch's bytes mean that a server lost its contents */
#include "config.h"

#include "lib/rendezvous/epoch.h"
#include "tests/support/unit.h"

static uint8_t bytes[BEEST_EPOCH_SIZE + 1];
static struct beest_epoch epoch;

static enum beest_epoch_verdict judge(uint8_t which, uint64_t number, uint64_t begun)
{
	struct beest_kv_value value = { .bytes = bytes, .size = BEEST_EPOCH_SIZE };

	memset(bytes, which, sizeof(bytes));
	return beest_epoch_judge(&epoch, &value, number, begun);
}

static int setup(void **state)
{
	(void)state;
	memset(&epoch, 0, sizeof(epoch));
	return 0;
}

static void learned_and_changed(void **state)
{
	(void)state;
	assert_int_equal(judge(1, 1, 1), BEEST_EPOCH_FIRST);
	assert_int_equal(judge(1, 2, 2), BEEST_EPOCH_SAME);
	assert_int_equal(judge(2, 3, 3), BEEST_EPOCH_CHANGED);
	assert_int_equal(judge(2, 4, 4), BEEST_EPOCH_SAME);
	assert_int_equal(judge(3, 5, 5), BEEST_EPOCH_CHANGED);
}

/* Two that come back are of servers that answer in turn. */
static void two_servers_in_turn(void **state)
{
	(void)state;
	assert_int_equal(judge(1, 1, 1), BEEST_EPOCH_FIRST);
	assert_int_equal(judge(2, 2, 3), BEEST_EPOCH_CHANGED);
	assert_int_equal(judge(1, 3, 4), BEEST_EPOCH_OUTDATED);
	assert_int_equal(judge(1, 4, 4), BEEST_EPOCH_CHANGED);
	assert_int_equal(judge(2, 5, 5), BEEST_EPOCH_AGAIN);
	assert_int_equal(judge(1, 6, 6), BEEST_EPOCH_SAME);
	assert_int_equal(judge(2, 7, 7), BEEST_EPOCH_AGAIN);
}

/* One that comes back may have been evicted, and added by a process that had not looked since. */
static void one_that_was_evicted(void **state)
{
	(void)state;
	assert_int_equal(judge(1, 1, 1), BEEST_EPOCH_FIRST);
	assert_int_equal(judge(2, 2, 2), BEEST_EPOCH_CHANGED);
	assert_int_equal(judge(1, 3, 3), BEEST_EPOCH_CHANGED);
	assert_int_equal(judge(1, 4, 4), BEEST_EPOCH_SAME);
	assert_int_equal(judge(3, 5, 5), BEEST_EPOCH_CHANGED);
	assert_int_equal(judge(1, 6, 6), BEEST_EPOCH_CHANGED);
}

/* An older answer may be read after a newer one. */
static void requests_that_began_earlier(void **state)
{
	(void)state;
	assert_int_equal(judge(1, 1, 1), BEEST_EPOCH_FIRST);
	assert_int_equal(judge(2, 7, 9), BEEST_EPOCH_CHANGED);
	assert_int_equal(judge(1, 6, 9), BEEST_EPOCH_OUTDATED);
	assert_int_equal(judge(1, 9, 9), BEEST_EPOCH_OUTDATED);
	assert_int_equal(judge(2, 8, 9), BEEST_EPOCH_SAME);
	assert_memory_equal(epoch.bytes, "\2\2\2\2\2\2\2\2\2\2\2\2\2\2\2\2", BEEST_EPOCH_SIZE);
	assert_int_equal(judge(3, 10, 12), BEEST_EPOCH_CHANGED);
}

/* The first answer counts, however late its request began. */
static void the_first_answer(void **state)
{
	(void)state;
	assert_int_equal(judge(1, 5, 20), BEEST_EPOCH_FIRST);
	assert_int_equal(judge(2, 20, 20), BEEST_EPOCH_OUTDATED);
	assert_int_equal(judge(2, 21, 21), BEEST_EPOCH_CHANGED);
}

/*
 * A request that asked for no epoch is judged by its number: a loss was shown since, or not.  The
 * first epoch is no loss.
 */
static void requests_without_an_epoch(void **state)
{
	struct beest_kv_value none = { 0 };

	(void)state;
	assert_int_equal(beest_epoch_judge(&epoch, &none, 1, 1), BEEST_EPOCH_SAME);
	assert_int_equal(judge(1, 2, 4), BEEST_EPOCH_FIRST);
	assert_int_equal(beest_epoch_judge(&epoch, &none, 3, 4), BEEST_EPOCH_SAME);
	assert_int_equal(judge(2, 5, 7), BEEST_EPOCH_CHANGED);
	assert_int_equal(beest_epoch_judge(&epoch, &none, 7, 7), BEEST_EPOCH_OUTDATED);
	assert_int_equal(beest_epoch_judge(&epoch, &none, 8, 8), BEEST_EPOCH_SAME);
}

/* An answer that arrives late, or brings another epoch, does not set it back. */
static void the_last_that_brought_it(void **state)
{
	(void)state;
	judge(1, 3, 3);
	assert_int_equal(epoch.brought, 3);
	judge(1, 5, 6);
	judge(1, 4, 6);
	assert_int_equal(epoch.brought, 5);
	judge(2, 7, 8);
	assert_int_equal(epoch.brought, 7);
	judge(1, 8, 8);
	assert_int_equal(epoch.brought, 7);
}

static void malformed_epochs(void **state)
{
	static const size_t sizes[] = { 0, 1, BEEST_EPOCH_SIZE - 1, BEEST_EPOCH_SIZE + 1 };
	struct beest_kv_value value = { .bytes = bytes };
	struct beest_epoch before;
	size_t i;

	(void)state;
	judge(1, 1, 1);
	before = epoch;
	for (i = 0; i < BEEST_COUNT(sizes); i++) {
		value.bytes = bytes;
		value.size = sizes[i];
		assert_int_equal(beest_epoch_judge(&epoch, &value, 2, 2), BEEST_EPOCH_ALIEN);
	}
	assert_memory_equal(&before, &epoch, sizeof(epoch));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(learned_and_changed, setup),
		cmocka_unit_test_setup(two_servers_in_turn, setup),
		cmocka_unit_test_setup(one_that_was_evicted, setup),
		cmocka_unit_test_setup(requests_that_began_earlier, setup),
		cmocka_unit_test_setup(the_first_answer, setup),
		cmocka_unit_test_setup(requests_without_an_epoch, setup),
		cmocka_unit_test_setup(the_last_that_brought_it, setup),
		cmocka_unit_test_setup(malformed_epochs, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
