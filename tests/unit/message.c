/* SPDX-License-Identifier: MIT */
/*
 * message.c - how long a message lives, and for whom; counters, and a value of each rank
 *
 * promise: hartebeest_msg(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <stdio.h>

#include "hartebeest.h"
#include "lib/core/context.h"
#include "lib/rendezvous/message.h"
#include "tests/support/crew.h"
#include "tests/support/party.h"
#include "tests/support/registry.h"

static struct hartebeest_context *author, *reader, *other;
static struct hartebeest_msg_attr once, brief;
static char text[64];
static size_t length;

static int setup(void **state)
{
	(void)state;
	crew_need();
	party_start();
	author = party_open(0, 0, 3, NULL)->hb;
	reader = party_open(1, 1, 3, NULL)->hb;
	other = party_open(2, 2, 3, NULL)->hb;
	hartebeest_msg_attr_init(&once);
	once.flags = HARTEBEEST_MSG_ONCE;
	hartebeest_msg_attr_init(&brief);
	brief.ttl = 5 * BEEST_SECOND;
	length = 0;
	return 0;
}

static void setup_again(void)
{
	party_teardown(NULL);
	setup(NULL);
}

static size_t kept(const struct hartebeest_context *hb)
{
	return beest_lease_count(hb->registry->leases, false);
}

static bool is_stored(const char *key)
{
	return fake_kv_get(registry_server, registry_key(BEEST_KIND_MESSAGE, key), NULL) != NULL;
}

/* A message that was taken leaves its tombstone. */
static bool is_to_be_had(const char *key)
{
	struct beest_record record;
	struct beest_message_body body;
	uint8_t bytes[256];
	const void *value;
	size_t size;

	key = registry_key(BEEST_KIND_MESSAGE, key);
	value = fake_kv_get(registry_server, key, &size);
	if (!value)
		return false;
	assert_in_range(size, 1, sizeof(bytes));
	memcpy(bytes, value, size);
	assert_int_equal(beest_record_decode(NULL, bytes, size, BEEST_KIND_MESSAGE, key, &record),
			 0);
	assert_int_equal(beest_record_message_decode(&record, &body), 0);
	return !body.taken;
}

static int hear(struct hartebeest_context *hb, const char *key, int64_t deadline)
{
	return hartebeest_msg_wait(hb, key, text, sizeof(text), &length, deadline);
}

static void push_text(const char *key, const struct hartebeest_msg_attr *attr)
{
	assert_int_equal(hartebeest_msg_push_attr(author, key, "text", 5, attr, 0), 0);
}

/* Waits in vain for so long, as a program does that waits for something else. */
static struct {
	struct hartebeest_context *hb;
	int64_t time;
} idle;

static void idle_away(void *data)
{
	(void)data;
	assert_int_equal(hear(idle.hb, "nothing", crew_now() + idle.time), -ETIMEDOUT);
}

static void pass_time(struct hartebeest_context *hb, int64_t time)
{
	idle.hb = hb;
	idle.time = time;
	crew_start(idle_away, NULL);
	registry_run();
}

static void restart(void)
{
	fake_kv_restart(registry_server);
	pass_time(author, BEEST_SECOND);
}

/* ------------------------------------------------------------------------ for one reader --- */

/* For longer than a minute. */
static void thousands_leave_nothing(void **state)
{
	size_t items, by_author, by_reader;
	char key[24];
	int i;

	(void)state;
	push_text("first", &once);
	assert_int_equal(hear(reader, "first", 0), 0);
	pass_time(author, 61 * BEEST_SECOND);
	items = fake_kv_server(registry_server->text)->items;
	by_author = kept(author);
	by_reader = kept(reader);
	for (i = 0; i < 4000; i++) {
		snprintf(key, sizeof(key), "message-%d", i);
		assert_int_equal(hartebeest_msg_push_attr(author, key, &i, sizeof(i), &once, 0), 0);
		assert_int_equal(kept(author), by_author);
		assert_int_equal(hear(reader, key, 0), 0);
		assert_int_equal(length, sizeof(i));
		assert_memory_equal(text, &i, sizeof(i));
	}
	pass_time(author, 61 * BEEST_SECOND);
	assert_int_equal(fake_kv_server(registry_server->text)->items, items);
	assert_int_equal(kept(author), by_author);
	assert_int_equal(kept(reader), by_reader);
}

static int got;

static void compete(void *data)
{
	int ret = hear(data, "task", crew_now() + 5 * BEEST_SECOND);

	if (ret == 0)
		got++;
	else
		assert_int_equal(ret, -ETIMEDOUT);
}

static void push_later(void *data)
{
	(void)data;
	crew_pass(BEEST_SECOND);
	push_text("task", &once);
}

static void one_of_two_readers_gets_it(void **state)
{
	(void)state;
	got = 0;
	crew_start(compete, reader);
	crew_start(compete, other);
	crew_start(push_later, NULL);
	registry_run();
	assert_int_equal(got, 1);
	assert_false(is_to_be_had("task"));
}

/* Another reader takes it between the look of this one and its attempt. */
static void take_first(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)kv;
	if (request->write_count && request->writes[0].verb == BEEST_KV_CAS)
		assert_int_equal(hear(other, "task", HARTEBEEST_ONCE), 0);
}

static void another_reader_is_faster(void **state)
{
	int i;

	(void)state;
	push_text("task", &once);
	assert_int_equal(hear(reader, "nothing", HARTEBEEST_ONCE), -EAGAIN);
	fake_kv.hook = take_first;
	for (i = 0; i < 2; i++) {
		assert_int_equal(hear(reader, "task", HARTEBEEST_ONCE), -EAGAIN);
		assert_error_has("message 'task' (key hb1/job/msg/task) was published, but a "
				 "reader has taken it");
	}
}

/* Several at once, beside one that stays. */
static void among_many(void **state)
{
	struct hartebeest_message messages[3];
	static const char *const keys[] = { "a", "b", "c" };
	char buffers[3][8];
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		push_text(keys[i], i == 1 ? &brief : &once);
		messages[i] = (struct hartebeest_message){
			.size = sizeof(messages[i]), .peer_key = keys[i], .buffer = buffers[i],
			.room = sizeof(buffers[i]),
		};
	}
	assert_int_equal(hartebeest_msgs_wait(reader, messages, 3, 0, HARTEBEEST_ONCE), 3);
	for (i = 0; i < 3; i++) {
		assert_int_equal(messages[i].arrived, 1);
		assert_string_equal(buffers[i], "text");
		assert_int_equal(is_to_be_had(keys[i]), i == 1);
	}
}

static void a_look_without_a_buffer_leaves_it(void **state)
{
	(void)state;
	push_text("m", &once);
	assert_int_equal(hartebeest_msg_wait(reader, "m", NULL, 0, &length, 0), 0);
	assert_int_equal(length, 5);
	assert_int_equal(hartebeest_msg_wait(reader, "m", text, 4, &length, 0), -EMSGSIZE);
	assert_int_equal(hear(other, "m", HARTEBEEST_ONCE), 0);
	assert_string_equal(text, "text");
	assert_int_equal(hear(reader, "m", HARTEBEEST_ONCE), -EAGAIN);
}

/*
 * Each command of a push or a take fails in turn, while others push or take at each moment.  What
 * counts is how often a reader gets each text.
 */

static const struct fault {
	int error;
	enum fake_kv_manner manner;
} faults[] = {
	{ ECONNRESET, FAKE_KV_LOST },	/* the library asks again at once, ... */
	{ EHOSTDOWN, FAKE_KV_LOST },	/* ... and in the next look */
	{ ECONNRESET, FAKE_KV_REFUSED },
	{ EHOSTDOWN, FAKE_KV_REFUSED },
	{ ECONNRESET, FAKE_KV_LATE },
	{ EHOSTDOWN, FAKE_KV_LATE },
};

/* Texts that readers have got. */
static struct {
	int text, former;
} had;

static int have(struct hartebeest_context *hb)
{
	int ret = hear(hb, "m", beest_clock_deadline(BEEST_SECOND));

	had.text += ret == 0 && !strcmp(text, "text");
	had.former += ret == 0 && !strcmp(text, "former");
	return ret;
}

static void act_nothing(void)
{
}

static void act_take(void)
{
	have(other);
}

/* The author has no answer until shortly before its deadline. */
static void act_take_early(void)
{
	have(other);
	registry_stage.now += 8 * BEEST_SECOND;
}

static void act_delete(void)
{
	hartebeest_msg_delete(other, "m", 0);
}

static void push_former(const struct hartebeest_msg_attr *attr)
{
	assert_int_equal(hartebeest_msg_push_attr(other, "m", "former", 7, attr, 0), 0);
}

static void former_once(void)
{
	push_former(&once);
}

static void former_taken(void)
{
	push_former(&once);
	assert_int_equal(have(reader), 0);
	had.former = 0;
}

static void former_plain(void)
{
	push_former(&brief);
}

static void act_restart(void)
{
	fake_kv_restart(registry_server);
}

static void act_evict(void)
{
	fake_kv_evict(registry_server, registry_key(BEEST_KIND_MESSAGE, "m"));
}

/* Before which request of that context what happens. */
static struct {
	const void *kv;
	int at;
	void (*act)(void);
} meanwhile;

static void act_meanwhile(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)request;
	if (kv == meanwhile.kv && meanwhile.at && --meanwhile.at == 0)
		meanwhile.act();
}

/* The @nth command fails, and before request number @at of @hb something happens. */
static void meddle(struct hartebeest_context *hb, const struct fault *fault, int nth, int at,
		   void (*act)(void))
{
	struct hartebeest_context *const all[] = { author, reader, other };
	size_t i;

	/* all have a connection, and have met */
	for (i = 0; i < BEEST_COUNT(all); i++)
		assert_int_equal(hear(all[i], "nothing", HARTEBEEST_ONCE), -EAGAIN);
	fake_kv_count_again();
	fake_kv_fail(FAKE_KV_COMMAND, nth, fault->error, fault->manner);
	meanwhile.kv = hb->registry->kv;
	meanwhile.at = at;
	meanwhile.act = act;
	fake_kv.hook = act_meanwhile;
}

/* What was late comes, and all readers look for what is left. */
static void clear_up(void)
{
	int i;

	fake_kv.hook = NULL;
	memset(fake_kv.failures, 0, sizeof(fake_kv.failures));
	fake_kv_apply_late();
	for (i = 0; i < 3; i++) {
		have(reader);
		have(other);
	}
}

#define REQUESTS_MAX 6

/* Leaves out some of all combinations, each time others. */
static bool is_left_out(void)
{
	static int turn;

	return turn++ % unit_stride(5);
}

/* @former: leaves what is there before. */
static void push_amid(void (*former)(void), void (*act)(void))
{
	int nth, at, fired;
	size_t i;

	for (i = 0; i < BEEST_COUNT(faults); i++)
		for (nth = 1, fired = 1; fired; nth++)
			for (at = 1; at <= REQUESTS_MAX; at++) {
				if (is_left_out())
					continue;
				setup_again();
				memset(&had, 0, sizeof(had));
				former();
				meddle(author, &faults[i], nth, at, act);
				push_text("m", &once);
				fired = fake_kv.fired;
				clear_up();
				assert_in_range(had.text, act != act_delete, 1);
				if (former != former_plain)
					assert_in_range(had.former, 0, 1);
			}
}

static void the_push_loses_an_answer(void **state)
{
	void (*const acts[])(void) = {
		act_nothing, act_take, act_take_early, act_delete, act_restart,
		former_once,
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(acts); i++) {
		push_amid(act_nothing, acts[i]);
		push_amid(former_taken, acts[i]);
		push_amid(former_once, acts[i]);
		push_amid(former_plain, acts[i]);
	}
}

static void the_take_loses_an_answer(void **state)
{
	void (*const acts[])(void) = { act_nothing, act_take };
	int nth, at, fired, ret;
	size_t i, k;

	(void)state;
	for (k = 0; k < BEEST_COUNT(acts); k++)
		for (i = 0; i < BEEST_COUNT(faults); i++)
			for (nth = 1, fired = 1; fired; nth++)
				for (at = 1; at <= REQUESTS_MAX; at++) {
					if (is_left_out())
						continue;
					setup_again();
					memset(&had, 0, sizeof(had));
					push_text("m", &once);
					meddle(reader, &faults[i], nth, at, acts[k]);
					ret = hear(reader, "m",
						   beest_clock_deadline(BEEST_SECOND));
					fired = fake_kv.fired;
					assert_true(ret == 0 || ret == -ETIMEDOUT);
					clear_up();
					assert_int_equal(had.text + (ret == 0), 1);
				}
}

/* Nothing shows any more whether this reader took it. */
static void no_tombstone_shows_who_has_it(void **state)
{
	void (*const acts[])(void) = { act_evict, act_restart, former_once, former_plain };
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(acts); i++) {
		setup_again();
		push_text("m", &once);
		/* the message is read, and taken, and taken once more */
		meddle(reader, &faults[0], 2, 3, acts[i]);
		assert_int_equal(hear(reader, "m", 0), -ESTALE);
		assert_error_is("message 'm' (key hb1/job/msg/m) is gone: its server failed as it "
				"was taken, by this reader or by another");
		assert_int_equal(fake_kv.fired, 1);
	}
}

/* Whoever deletes it knows that no reader has it. */
static void it_is_withdrawn(void **state)
{
	(void)state;
	push_text("m", &once);
	assert_int_equal(hartebeest_msg_delete(author, "m", 0), 0);
	assert_int_equal(hear(reader, "m", HARTEBEEST_ONCE), -EAGAIN);
	assert_int_equal(hartebeest_msg_delete(author, "m", 0), -ENOENT);
	assert_error_is("no message 'm' (key hb1/job/msg/m)");
	push_text("m", &once);
	assert_int_equal(hear(reader, "m", HARTEBEEST_ONCE), 0);
	assert_int_equal(hartebeest_msg_delete(author, "m", 0), -ENOENT);

	/* a reader takes it first */
	memset(&had, 0, sizeof(had));
	push_text("m", &once);
	meddle(author, &faults[0], 0, 2, act_take);
	memset(fake_kv.failures, 0, sizeof(fake_kv.failures));
	assert_int_equal(hartebeest_msg_delete(author, "m", 0), -ENOENT);
	assert_int_equal(had.text, 1);
}

/* Nobody knows whether it had been read. */
static void it_does_not_come_back(void **state)
{
	(void)state;
	push_text("m", &once);
	restart();
	assert_false(is_stored("m"));
}

/* ------------------------------------------------------------------------- for a while --- */

static void it_expires(void **state)
{
	size_t before;

	(void)state;
	push_text("first", &once);
	before = kept(author);
	push_text("m", &brief);
	pass_time(author, 4 * BEEST_SECOND);
	assert_true(is_stored("m"));
	pass_time(author, 4 * BEEST_SECOND);
	assert_false(is_stored("m"));
	assert_int_equal(kept(author), before);
	restart();
	assert_false(is_stored("m"));
}

/* A message of the same key that lives for a day replaces it. */
static void a_longer_life(void **state)
{
	(void)state;
	push_text("m", &brief);
	assert_int_equal(hartebeest_msg_push(author, "m", "text", 5, 0), 0);
	pass_time(author, 9 * BEEST_SECOND);
	restart();
	assert_true(is_stored("m"));
}

/* -------------------------------------------------------------------------- until deleted --- */

/* The author finds it absent, although the server has lost nothing. */
static void what_a_reader_deleted_stays_away(void **state)
{
	size_t before;

	(void)state;
	push_text("first", &once);
	before = kept(author);
	assert_int_equal(hartebeest_msg_push(author, "read", "text", 5, 0), 0);
	assert_int_equal(hartebeest_msg_push(author, "unread", "text", 5, 0), 0);
	assert_int_equal(hear(reader, "read", 0), 0);
	assert_int_equal(hartebeest_msg_delete(reader, "read", 0), 0);
	pass_time(author, 3 * BEEST_SECOND);
	assert_int_equal(kept(author), before + 1);
	restart();
	assert_false(is_stored("read"));
	assert_true(is_stored("unread"));
}

/* Four are looked for each second: an author that waits holds no day's messages. */
static void thousands_are_forgotten(void **state)
{
	size_t before;
	char key[24];
	int i;

	(void)state;
	push_text("first", &once);
	before = kept(author);
	for (i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "message-%d", i);
		assert_int_equal(hartebeest_msg_push(author, key, "text", 5, 0), 0);
		assert_int_equal(hartebeest_msg_delete(reader, key, 0), 0);
	}
	assert_int_equal(kept(author), before + 200);
	pass_time(author, 60 * BEEST_SECOND);
	assert_int_equal(kept(author), before);
}

/* ------------------------------------------------------------------------------ counters --- */

#define ADDITIONS 100

static bool drawn[3 * ADDITIONS + 1];

static void draw(void *data)
{
	uint64_t value;
	int i;

	for (i = 0; i < ADDITIONS; i++) {
		assert_int_equal(hartebeest_counter_add(data, "nodes", 1, &value, 0), 0);
		assert_in_range(value, 1, 3 * ADDITIONS);
		assert_false(drawn[value]);
		drawn[value] = true;
	}
}

static void numbers_are_drawn_once(void **state)
{
	uint64_t value;

	(void)state;
	crew_start(draw, author);
	crew_start(draw, reader);
	crew_start(draw, other);
	registry_run();
	fake_kv_count_again();
	assert_int_equal(hartebeest_counter_add(other, "nodes", 7, &value, 0), 0);
	assert_int_equal(value, 3 * ADDITIONS + 7);
	assert_int_equal(fake_kv.round_trips, 1);
	assert_int_equal(hartebeest_counter_add(other, "others", UINT32_MAX, &value, 0), 0);
	assert_int_equal(value, UINT32_MAX);

	/* It was added, but the answer was lost: that number is left out. */
	fake_kv_fail(FAKE_KV_COMMAND, 2, ECONNRESET, FAKE_KV_LOST);
	assert_int_equal(hartebeest_counter_add(other, "nodes", 1, &value, 0), 0);
	assert_int_equal(fake_kv.fired, 1);
	assert_int_equal(value, 3 * ADDITIONS + 9);
}

static void counters_that_fail(void **state)
{
	uint64_t value = 4711;

	(void)state;
	assert_int_equal(hartebeest_counter_add(author, "n", 0, &value, 0), -EINVAL);
	assert_error_has("counter 'n': nothing is added");
	assert_int_equal(hartebeest_counter_add(author, "a b", 1, &value, 0), -EINVAL);
	assert_int_equal(hartebeest_counter_add(author, "n", 1, NULL, 0), -EINVAL);
	fake_kv_put(registry_server, "hb1/job/counter/n", "many", 4, 0);
	assert_int_equal(hartebeest_counter_add(author, "n", 1, &value, 0), -EBADMSG);
	assert_error_has("to be added to: key hb1/job/counter/n");
	registry_server->error = ECONNREFUSED;
	assert_int_equal(hartebeest_counter_add(author, "m", 1, &value, HARTEBEEST_ONCE),
			 -EAGAIN);
	assert_error_has("server a:1");
	assert_int_equal(value, 4711);
}

/* -------------------------------------------------------------------------------- gather --- */

#define PASSES 5

static struct gatherer {
	struct hartebeest_context **hb;
	int rank;
	int64_t deadline;
	int ret;
} gatherers[] = { { &author, 0, 0, 0 }, { &reader, 1, 0, 0 }, { &other, 2, 0, 0 } };

/* With HARTEBEEST_ONCE, calls again and again. */
static int gather(struct gatherer *g, const void *value, size_t size, void *all)
{
	int ret, tries = 0;

	do {
		crew_pass((g->rank + 1) * BEEST_MS);
		ret = hartebeest_gather(*g->hb, "sum", value, size, all, g->deadline);
	} while (g->deadline == HARTEBEEST_ONCE && ret == -EAGAIN && tries++ < 1000);

	return ret;
}

static void gather_some(void *data)
{
	struct gatherer *g = data;
	uint32_t all[3], value;
	int pass;

	for (pass = 0; pass < PASSES; pass++) {
		value = (uint32_t)(100 * pass + g->rank);
		memset(all, 0xff, sizeof(all));
		assert_int_equal(gather(g, &value, sizeof(value), all), 0);
		assert_int_equal(all[0], 100 * pass);
		assert_int_equal(all[1], 100 * pass + 1);
		assert_int_equal(all[2], 100 * pass + 2);
	}
}

/* Other values than gather_some(). */
static void gather_others(void *data)
{
	struct gatherer *g = data;
	uint32_t all[3], value = 7;

	assert_int_equal(gather(g, &value, sizeof(value), all), 0);
}

static void gather_all(void (*what)(void *data), int64_t deadline)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(gatherers); i++) {
		gatherers[i].deadline = deadline;
		crew_start(what, &gatherers[i]);
	}
	registry_run();
}

static void each_gets_the_values_of_all(void **state)
{
	(void)state;
	gather_all(gather_some, 0);
	setup_again();
	gather_all(gather_some, HARTEBEEST_ONCE);
}

/* What an earlier run left under the same keys does not count. */
static void values_of_an_earlier_run(void **state)
{
	size_t i;

	(void)state;
	gather_all(gather_others, 0);
	for (i = 0; i < BEEST_COUNT(gatherers); i++)
		party_kill(&party[i]);
	author = party_open(3, 0, 3, NULL)->hb;
	reader = party_open(4, 1, 3, NULL)->hb;
	other = party_open(5, 2, 3, NULL)->hb;
	gather_all(gather_some, 0);
}

static const char *const namesakes[] = {
	"fence/sum/lead", "fence/sum/0", "fence/sum/1", "sum/lead", "sum/1",
};

static void push_namesakes(void *data)
{
	size_t i;

	(void)data;
	for (i = 0; i < 40 * BEEST_COUNT(namesakes); i++) {
		assert_int_equal(hartebeest_msg_push(author, namesakes[i % BEEST_COUNT(namesakes)],
						     "mine", 4, 0), 0);
		crew_pass(100 * BEEST_US);
	}
}

/* Neither is taken for the other, whichever is stored last. */
static void messages_named_like_values(void **state)
{
	size_t i;

	(void)state;
	crew_start(push_namesakes, NULL);
	gather_all(gather_some, 0);
	for (i = 0; i < BEEST_COUNT(namesakes); i++) {
		assert_int_equal(hear(reader, namesakes[i], HARTEBEEST_ONCE), 0);
		assert_memory_equal(text, "mine", 4);
	}
}

/* A call that failed is repeated, and belongs to the same pass. */
static void whatever_fails_once(void **state)
{
	int n, fired = 1;

	(void)state;
	for (n = 1; fired; n += 3) {
		setup_again();
		fake_kv_fail(FAKE_KV_REQUEST, n, ECONNREFUSED, FAKE_KV_REFUSED);
		gather_all(gather_some, HARTEBEEST_ONCE);
		fired = fake_kv.fired;
	}
	assert_true(n > 60);
}

static void gather_wrongly(void *data)
{
	struct gatherer *g = data;
	char value[8] = "", all[24];

	g->ret = gather(g, value, g->rank == 1 ? 4 : 8, all);
	/* The two that differ may find it out by themselves, in this order or the other. */
	assert_error_has("gather 'sum', pass 1: rank ");
	assert_error_has("rank 1 gives 4");
	assert_error_has("rank 0 gives 8");
}

static void sizes_that_differ(void **state)
{
	char byte = 0;
	size_t i;

	(void)state;
	gather_all(gather_wrongly, 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(gatherers[i].ret, -EPROTO);
	gather_all(gather_some, 0);
	assert_int_equal(hartebeest_gather(author, "sum", &byte, 0, &byte, 0), -EINVAL);
	assert_error_has("size is 0");
	assert_int_equal(hartebeest_gather(author, "sum", &byte, 1, &byte, crew_now() + 5),
			 -ETIMEDOUT);
	assert_error_has("gather 'sum', pass 6: ");
	assert_int_equal(hartebeest_gather(author, "large", &byte, 1046529, &byte, crew_now() + 5),
			 -EMSGSIZE);
	assert_error_is("gather 'large', pass 1: a value of 1046529 bytes; at most 1046528 are "
			"possible");
}

/* ----------------------------------------------------------------------------- arguments --- */

static void refused(size_t size, int64_t ttl, uint64_t flags, int ret, const char *why)
{
	struct longer {
		struct hartebeest_msg_attr attr;
		uint64_t later;
	} longer = { { size, ttl, flags }, size > sizeof(longer.attr) };

	assert_int_equal(hartebeest_msg_push_attr(author, "m", "x", 1, &longer.attr, 0), ret);
	assert_error_has(why);
}

static void attributes_that_are_refused(void **state)
{
	const size_t size = sizeof(struct hartebeest_msg_attr);

	(void)state;
	refused(0, 0, 0, -EINVAL, "msg_attr has the size 0");
	refused(size, -1, 0, -EINVAL, "attr.ttl is -1 ns, but a message lives for a ");
	refused(size, 60, 0, -EINVAL, "attr.ttl is 60 ns, but a message lives for a millisecond "
				      "to 30 days: 60 s is 60000000000");
	refused(size, BEEST_MS - 1, 0, -EINVAL, "attr.ttl is 999999 ns");
	refused(size, BEEST_TTL_MAX + 1, 0, -EINVAL, "attr.ttl is 2592000000000001 ns");
	refused(size, 0, 6, -E2BIG, "unknown flags 0x6 of a message");
	refused(size + 8, 0, 0, -E2BIG, "msg_attr");
	assert_int_equal(hartebeest_msg_push_attr(author, "m", "x", 1, NULL, 0), -EINVAL);
	assert_error_has("attr is NULL");
	assert_false(is_stored("m"));
	brief.ttl = BEEST_TTL_MAX;
	push_text("m", &brief);
	assert_true(is_stored("m"));
	brief.ttl = BEEST_MS;
	push_text("n", &brief);
	assert_true(is_stored("n"));
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, party_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(thousands_leave_nothing),
		TEST(one_of_two_readers_gets_it),
		TEST(another_reader_is_faster),
		TEST(among_many),
		TEST(a_look_without_a_buffer_leaves_it),
		TEST(the_push_loses_an_answer),
		TEST(the_take_loses_an_answer),
		TEST(no_tombstone_shows_who_has_it),
		TEST(it_is_withdrawn),
		TEST(it_does_not_come_back),
		TEST(it_expires),
		TEST(a_longer_life),
		TEST(what_a_reader_deleted_stays_away),
		TEST(thousands_are_forgotten),
		TEST(numbers_are_drawn_once),
		TEST(counters_that_fail),
		TEST(each_gets_the_values_of_all),
		TEST(values_of_an_earlier_run),
		TEST(messages_named_like_values),
		TEST(whatever_fails_once),
		TEST(sizes_that_differ),
		TEST(attributes_that_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
