/* SPDX-License-Identifier: MIT */
/* shelf.c - records are found by key, whatever came and went */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/rendezvous/shelf.h"
#include "tests/support/unit.h"

#define NAMES 500

static struct beest_shelf shelf;

static const char *name_of(uint32_t number)
{
	static char name[32];

	snprintf(name, sizeof(name), "hb1/job/qp/%u", number);
	return name;
}

static void put(uint32_t number)
{
	struct beest_own *own = beest_shelf_add(&shelf, name_of(number));

	assert_non_null(own);
	own->owner = number;
	own->bytes = malloc(1);
}

static void is_there(uint32_t number)
{
	const struct beest_own *own = beest_shelf_find(&shelf, name_of(number));

	assert_non_null(own);
	assert_string_equal(own->key, name_of(number));
	assert_int_equal(own->owner, number);
}

static int tear_down(void **state)
{
	(void)state;
	beest_shelf_clear(&shelf);
	return 0;
}

static void an_empty_one(void **state)
{
	(void)state;
	assert_null(beest_shelf_find(&shelf, "x"));
	put(1);
	free(beest_shelf_take(&shelf, beest_shelf_find(&shelf, name_of(1))));
	assert_null(beest_shelf_find(&shelf, name_of(1)));
	assert_int_equal(shelf.count, 0);
}

static void a_new_one_has_nothing_but_its_key(void **state)
{
	struct beest_own *own;

	(void)state;
	put(1);
	free(beest_shelf_take(&shelf, beest_shelf_find(&shelf, name_of(1))));
	own = beest_shelf_add(&shelf, "x");
	assert_string_equal(own->key, "x");
	assert_int_equal(own->owner, 0);
	assert_null(own->bytes);
	assert_int_equal(own->put, 0);
}

/* Against a list of who should be there, and the list itself walked. */
static void many_come_and_go(void **state)
{
	static bool there[NAMES];
	uint32_t random = 1, number;
	size_t count = 0, i;
	int step;

	(void)state;
	for (step = 0; step < 20000; step++) {
		number = unit_next(&random) % NAMES;
		if (there[number])
			free(beest_shelf_take(&shelf, beest_shelf_find(&shelf, name_of(number))));
		else
			put(number);
		count += there[number] ? -1 : 1;
		there[number] = !there[number];
		assert_int_equal(shelf.count, count);
	}
	for (number = 0; number < NAMES; number++) {
		if (there[number])
			is_there(number);
		else
			assert_null(beest_shelf_find(&shelf, name_of(number)));
	}
	for (i = 0; i < shelf.count; i++)
		assert_true(there[shelf.list[i].owner]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(an_empty_one, tear_down),
		cmocka_unit_test_teardown(a_new_one_has_nothing_but_its_key, tear_down),
		cmocka_unit_test_teardown(many_come_and_go, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
