/* SPDX-License-Identifier: MIT */
/* table.c - names, look-up, and the order of destruction */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/table.h"
#include "tests/support/meanwhile.h"
#include "tests/support/unit.h"

struct thing {
	struct beest_node node;
	int refuse;		/* its release returns this */
};

/* The names in the order in which destructors ran, as far as they fit: "c b a ". */
static char destroyed[256];

static size_t disposed;

static int release_thing(struct beest_node *node)
{
	if (strlen(destroyed) + strlen(node->name) + 2 <= sizeof(destroyed))
		strcat(strcat(destroyed, node->name), " ");
	return BEEST_CONTAINER(node, struct thing, node)->refuse;
}

static void dispose_thing(struct beest_node *node)
{
	(void)node;
	disposed++;
}

static const struct beest_kind qp_kind = {
	"queue pair", sizeof(struct thing), release_thing, "a friend needs it", dispose_thing,
};
static const struct beest_kind mr_kind = {
	.noun = "memory region", .size = sizeof(struct thing), .release = release_thing,
};
static const struct beest_kind plain_kind = {
	.noun = "note", .size = sizeof(struct beest_node),
};

static struct beest_table table;

static int add(const struct beest_kind *kind, const char *name, struct beest_node **node)
{
	struct thing *thing = malloc(sizeof(*thing));
	int ret;

	memset(thing, 0xa5, sizeof(*thing));	/* nothing may rely on zeros */
	thing->refuse = 0;
	thing->node.kind = kind;
	thing->node.handle = thing;
	thing->node.adopted = false;
	ret = beest_table_add(&table, name, &thing->node);
	if (ret == 0 && node)
		*node = &thing->node;
	return ret;
}

static struct beest_node *added(const struct beest_kind *kind, const char *name)
{
	struct beest_node *node = NULL;

	assert_int_equal(add(kind, name, &node), 0);
	return node;
}

static int count(void)
{
	const struct beest_node *node;
	int found = 0;

	for (node = table.newest; node; node = node->older)
		found++;
	return found;
}

static int destroy(const struct beest_node *node)
{
	return beest_table_destroy(&table, node->kind, node->name);
}

static void refuse(struct beest_node *node, int ret)
{
	BEEST_CONTAINER(node, struct thing, node)->refuse = ret;
}

static int start(void **state)
{
	(void)state;
	destroyed[0] = '\0';
	disposed = 0;
	return 0;
}

static int stop(void **state)
{
	(void)state;
	beest_table_clear(&table, NULL, NULL);
	return table.names || table.holders || table.newest;
}

/* --- names --- */

static void test_good_names(void **state)
{
	char name[256];

	(void)state;
	assert_int_equal(beest_table_name_available(&table, &qp_kind, "a"), 0);
	assert_int_equal(beest_table_name_available(&table, &qp_kind,
						    "ring 0 %s/Z\xc3\xbcrich"), 0);
	assert_int_equal(beest_table_name_available(&table, &qp_kind,
						    unit_repeat(name, 'x', 255)), 0);
}

static void test_bad_names(void **state)
{
	char name[300];

	(void)state;
	assert_int_equal(beest_table_name_available(&table, &qp_kind, NULL), -EINVAL);
	assert_error_is("the queue pair name is empty");
	assert_int_equal(beest_table_name_available(&table, &qp_kind, ""), -EINVAL);
	assert_error_is("the queue pair name is empty");
	assert_int_equal(beest_table_name_available(&table, &qp_kind, "ab\n"), -EINVAL);
	assert_error_is("the queue pair name 'ab\\x0a' has the control character 0x0a at byte 3");
	assert_int_equal(beest_table_name_available(&table, &qp_kind, "\x7f"), -EINVAL);
	assert_error_has("0x7f at byte 1");
	assert_int_equal(beest_table_name_available(&table, &qp_kind,
						    unit_repeat(name, 'x', 256)), -EINVAL);
	assert_error_has("the queue pair name 'xxx");
	assert_error_has("has 256 bytes: the limit is 255");
}

/* --- look-up --- */

static void test_find(void **state)
{
	struct beest_node *qp = added(&qp_kind, "left");
	struct beest_node *mr = added(&mr_kind, "left");

	(void)state;
	assert_ptr_equal(beest_table_find(&table, &qp_kind, "left"), qp);
	assert_ptr_equal(beest_table_find(&table, &mr_kind, "left"), mr);
	assert_int_equal(count(), 2);
}

static void test_the_table_owns_the_name(void **state)
{
	char name[] = "qp0";
	struct beest_node *node = added(&qp_kind, name);

	(void)state;
	name[2] = '9';
	assert_string_equal(node->name, "qp0");
	assert_ptr_equal(beest_table_find(&table, &qp_kind, "qp0"), node);
}

static void test_find_names_the_nearest(void **state)
{
	(void)state;
	added(&qp_kind, "qp0");
	added(&mr_kind, "qp11");
	assert_null(beest_table_find(&table, &qp_kind, "qp1"));
	assert_error_is("no queue pair is called 'qp1', the nearest is qp0");
}

static void test_find_with_nothing_near(void **state)
{
	(void)state;
	added(&qp_kind, "qp0");
	assert_null(beest_table_find(&table, &qp_kind, "to\nrank 7"));
	assert_error_is("no queue pair is called 'to\\x0arank 7'");
}

static void test_find_among_none(void **state)
{
	(void)state;
	assert_null(beest_table_find(&table, &qp_kind, "qp1"));
	assert_error_is("no queue pair is called 'qp1'; there is no queue pair at all");
	added(&mr_kind, "qp1");
	assert_null(beest_table_find(&table, &qp_kind, "qp1"));
	assert_error_is("no queue pair is called 'qp1'; there is no queue pair at all");
}

static void test_taken_names(void **state)
{
	(void)state;
	assert_int_equal(beest_table_name_available(&table, &qp_kind, "qp0"), 0);
	added(&qp_kind, "qp0");
	assert_int_equal(beest_table_name_available(&table, &qp_kind, "qp0"), -EEXIST);
	assert_error_is("queue pair 'qp0' exists already");
	assert_int_equal(beest_table_name_available(&table, &mr_kind, "qp0"), 0);
	assert_int_equal(beest_table_name_available(&table, &qp_kind, "qp1"), 0);
}

static void test_a_refused_node_is_destroyed(void **state)
{
	static const char *const names[] = { "qp0", "", "\t" };
	static const struct beest_kind kind = {
		.noun = "note", .size = sizeof(struct beest_node), .dispose = dispose_thing,
	};
	size_t i;

	(void)state;
	assert_int_equal(beest_table_add(&table, "qp0", beest_table_new(&kind)), 0);
	for (i = 0; i < 3; i++) {
		assert_int_equal(beest_table_add(&table, names[i], beest_table_new(&kind)),
				 i ? -EINVAL : -EEXIST);
		assert_int_equal(disposed, i + 1);
	}
	assert_int_equal(count(), 1);
}

#define MANY 3000

static const char *numbered(int i)
{
	static char name[32];

	sprintf(name, "peer %d", i);
	return name;
}

static void test_grows(void **state)
{
	static struct beest_node *node[MANY];
	int i;

	(void)state;
	for (i = 0; i < MANY; i++)
		node[i] = added(i % 2 ? &qp_kind : &mr_kind, numbered(i));
	for (i = 0; i < MANY; i++)
		assert_ptr_equal(beest_table_find(&table, i % 2 ? &qp_kind : &mr_kind,
						  numbered(i)), node[i]);
	for (i = 0; i < MANY; i++) {
		assert_int_equal(destroy(node[i]), 0);
		assert_int_equal(beest_table_name_available(&table, &qp_kind, numbered(i)), 0);
	}
	assert_int_equal(count(), 0);
	assert_null(table.newest);
}

/* --- destruction --- */

static void test_destroy(void **state)
{
	struct beest_node *b;

	(void)state;
	added(&qp_kind, "a");
	b = added(&qp_kind, "b");
	added(&qp_kind, "c");
	assert_int_equal(destroy(b), 0);
	assert_string_equal(destroyed, "b ");
	assert_null(beest_table_find(&table, &qp_kind, "b"));
	assert_non_null(beest_table_find(&table, &qp_kind, "a"));
	assert_non_null(beest_table_find(&table, &qp_kind, "c"));
	added(&qp_kind, "b");
	assert_int_equal(count(), 3);
}

static void test_clear_is_newest_first(void **state)
{
	(void)state;
	added(&mr_kind, "pd");
	added(&qp_kind, "cq");
	added(&mr_kind, "mr");
	added(&qp_kind, "qp");
	beest_table_clear(&table, NULL, NULL);
	assert_string_equal(destroyed, "qp mr cq pd ");
}

/* It stays where it was: first, in the middle, last. */
static void test_a_failed_destroy_keeps_place(void **state)
{
	static const char *const names[] = { "a", "b", "c" };
	struct beest_node *node[3];
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++)
		node[i] = added(&qp_kind, names[i]);
	for (i = 0; i < 3; i++) {
		refuse(node[i], -EBUSY);
		assert_int_equal(destroy(node[i]), -EBUSY);
		refuse(node[i], 0);
		assert_ptr_equal(beest_table_find(&table, &qp_kind, names[i]), node[i]);
	}
	assert_error_is("cannot destroy queue pair 'c': Device or resource busy; a friend needs "
			"it");
	assert_int_equal(disposed, 0);
	assert_int_equal(count(), 3);

	refuse(node[1], -EIO);
	assert_int_equal(destroy(node[1]), -EIO);
	assert_error_is("cannot destroy queue pair 'b': Input/output error");
	refuse(node[1], 0);

	destroyed[0] = '\0';
	beest_table_clear(&table, NULL, NULL);
	assert_string_equal(destroyed, "c b a ");
	assert_int_equal(disposed, 3);
}

/* Only the node's memory is freed: the object is the program's. */
static void test_adopted(void **state)
{
	struct beest_node *node = added(&qp_kind, "a");

	(void)state;
	node->adopted = true;
	refuse(node, -EBUSY);
	assert_int_equal(destroy(node), 0);
	assert_string_equal(destroyed, "");
	assert_int_equal(disposed, 1);
}

static void test_obtain(void **state)
{
	struct beest_node *first = NULL, *again = NULL;

	(void)state;
	assert_int_equal(beest_table_obtain(&table, &plain_kind, "a", &first), 0);
	assert_int_equal(beest_table_obtain(&table, &plain_kind, "a", &again), 0);
	assert_ptr_equal(first, again);
	assert_int_equal(beest_table_obtain(&table, &plain_kind, "", &again), -EINVAL);
	assert_int_equal(count(), 1);
	beest_table_clear(&table, NULL, NULL);
}

static void test_clear_drops_what_refuses(void **state)
{
	struct beest_node *b;

	(void)state;
	added(&qp_kind, "a");
	b = added(&qp_kind, "b");
	added(&qp_kind, "c");
	refuse(b, -EBUSY);
	beest_table_clear(&table, NULL, NULL);
	assert_string_equal(destroyed, "c b a ");
	assert_int_equal(count(), 0);
	free(BEEST_CONTAINER(b, struct thing, node));
}

static void note_refusal(void *data, struct beest_node *node, int ret)
{
	char *refused = data;

	sprintf(refused + strlen(refused), "%s %d ", node->name, ret);
	free(BEEST_CONTAINER(node, struct thing, node));
}

static void test_clear_hands_over_what_refuses(void **state)
{
	char refused[64] = "";

	(void)state;
	refuse(added(&qp_kind, "a"), -EBUSY);
	added(&qp_kind, "b");
	refuse(added(&mr_kind, "a"), -EIO);
	beest_table_clear(&table, note_refusal, refused);
	assert_string_equal(destroyed, "a b a ");
	snprintf(destroyed, sizeof(destroyed), "a %d a %d ", -EIO, -EBUSY);
	assert_string_equal(refused, destroyed);
}

/* Look-up by handle works while the table grows and nodes are removed. */
static void test_handles(void **state)
{
	static char things[200];
	struct beest_node *node[200] = { NULL };
	char name[8];
	size_t i;

	(void)state;
	assert_null(beest_table_holder(&table, things));
	assert_null(beest_table_user(&table, things));
	for (i = 0; i < 200; i++) {
		struct thing *thing = beest_table_new(&qp_kind);

		node[i] = &thing->node;
		node[i]->handle = &things[i];
		node[i]->needs[i % 4] = &things[i / 2];
		snprintf(name, sizeof(name), "%zu", i);
		assert_int_equal(beest_table_add(&table, name, node[i]), 0);
	}
	assert_null(beest_table_holder(&table, NULL));
	assert_null(beest_table_user(&table, NULL));
	assert_ptr_equal(beest_table_user(&table, &things[7]), node[15]);
	for (i = 0; i < 200; i += 3)
		assert_int_equal(destroy(node[i]), 0);
	for (i = 0; i < 200; i++)
		assert_ptr_equal(beest_table_holder(&table, &things[i]), i % 3 ? node[i] : NULL);
	assert_ptr_equal(beest_table_user(&table, &things[7]), node[14]);
	assert_null(beest_table_user(&table, &things[150]));
}

static const char *unrelated;		/* what the other thread destroys */

static void destroy_unrelated(void)
{
	assert_int_equal(beest_table_destroy(&table, &qp_kind, unrelated), 0);
}

/* Whatever another thread destroys meanwhile: the trees are the lock's. */
static void test_a_look_while_another_goes(void **state)
{
	static const char *const names[] = { "b", "a", "c", "d" };
	struct beest_node *node[4], *found;
	size_t looks, goes, i;
	bool more;
	int n;

	(void)state;
	for (looks = 0; looks < 4; looks++)
		for (goes = 0; goes < 8; goes++)
			for (n = 1, more = goes % 4 != looks; more; n++) {
				for (i = 0; i < 4; i++)
					node[i] = added(&qp_kind, names[i]);
				unrelated = names[goes % 4];
				meanwhile_begin(n, destroy_unrelated, &table.lock);
				found = goes < 4 ?
					beest_table_look(&table, &qp_kind, names[looks]) :
					beest_table_holder(&table, node[looks]);
				more = meanwhile_end();
				assert_ptr_equal(found, node[looks]);
				beest_table_clear(&table, NULL, NULL);
			}
}

static void test_a_cleared_table_can_be_used(void **state)
{
	(void)state;
	beest_table_clear(&table, NULL, NULL);
	added(&qp_kind, "a");
	beest_table_clear(&table, NULL, NULL);
	beest_table_clear(&table, NULL, NULL);
	assert_string_equal(destroyed, "a ");
	added(&qp_kind, "a");
	assert_non_null(beest_table_find(&table, &qp_kind, "a"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_good_names),
		TEST(test_bad_names),
		TEST(test_find),
		TEST(test_the_table_owns_the_name),
		TEST(test_find_names_the_nearest),
		TEST(test_find_with_nothing_near),
		TEST(test_find_among_none),
		TEST(test_taken_names),
		TEST(test_a_refused_node_is_destroyed),
		TEST(test_grows),
		TEST(test_destroy),
		TEST(test_clear_is_newest_first),
		TEST(test_a_failed_destroy_keeps_place),
		TEST(test_adopted),
		TEST(test_obtain),
		TEST(test_clear_drops_what_refuses),
		TEST(test_clear_hands_over_what_refuses),
		TEST(test_handles),
		TEST(test_a_look_while_another_goes),
		TEST(test_a_cleared_table_can_be_used),
	};

	if (beest_table_start(&table) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
