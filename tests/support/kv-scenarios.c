/* SPDX-License-Identifier: MIT */
/* kv-scenarios.c - see kv-scenarios.h */
#include "config.h"

#include <stdio.h>

#include "lib/base/clock.h"
#include "tests/support/kv-scenarios.h"
#include "tests/support/unit.h"

#define TTL 600

#define SET(k, v) { .verb = BEEST_KV_SET, .key = (k), .value = (v), .size = strlen(v), .ttl = TTL }
#define ADD(k, v) { .verb = BEEST_KV_ADD, .key = (k), .value = (v), .size = strlen(v), .ttl = TTL }
#define DELETE(k) { .verb = BEEST_KV_DELETE, .key = (k) }
#define APPEND(k, v) { .verb = BEEST_KV_APPEND, .key = (k), .value = (v), .size = strlen(v) }
#define CAS(k, v) { .verb = BEEST_KV_CAS, .key = (k), .value = (v), .size = strlen(v), \
	.ttl = TTL, .answered = true }
#define INCR(k) { .verb = BEEST_KV_INCR, .key = (k), .answered = true }

/* ANSWERED: all writes are answered.  LAZY: the request is lazy. */
enum { ANSWERED = 1, LAZY = 2 };

static struct beest_kv_write opening = {
	.verb = BEEST_KV_ADD, .key = "epoch", .value = "E", .size = 1, .ttl = TTL,
};

/* All requests use the same variables. */
static struct beest_kv_request request;
static struct beest_kv_value values[8];
static struct beest_kv_write *const none;
static bool wants_uniques;

/* @keys ends with NULL. */
static int ask(const struct kv_stage *stage, unsigned int flags, struct beest_kv_write *writes,
	       size_t write_count, const char *const *keys)
{
	size_t count = 0, i;
	int ret;

	while (keys && keys[count])
		count++;
	for (i = 0; i < write_count; i++)
		writes[i].answered |= (flags & ANSWERED) != 0;
	beest_kv_values_free(values, BEEST_COUNT(values));
	request = (struct beest_kv_request){
		.lazy = flags & LAZY, .writes = writes, .write_count = write_count,
		.opening = &opening, .keys = keys, .key_count = count, .values = values,
		.uniques = wants_uniques,
	};
	ret = beest_kv_run(stage->kv, &request, 1, beest_clock_deadline(60 * BEEST_SECOND), NULL);
	assert_int_equal(request.ret, ret);
	return ret;
}

#define ASK(flags, writes, ...) ask(stage, flags, writes, BEEST_COUNT(writes), \
				    (const char *const []){ __VA_ARGS__, NULL })
#define READ(...) ask(stage, 0, none, 0, (const char *const []){ __VA_ARGS__, NULL })

static void value_is(size_t i, const char *text)
{
	if (!text) {
		assert_null(values[i].bytes);
		return;
	}
	assert_non_null(values[i].bytes);
	assert_int_equal(values[i].size, strlen(text));
	assert_memory_equal(values[i].bytes, text, strlen(text));
}

static void first_request(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = { SET("a", "1"), SET("b", "22"), DELETE("c") };

	assert_int_equal(ASK(0, writes, "epoch", "b", "nobody", "a"), 0);
	assert_true(request.fresh);
	assert_true(request.answered);
	value_is(0, "E");
	value_is(1, "22");
	value_is(2, NULL);
	value_is(3, "1");
}

/* Only a new connection sends the opening. */
static void later_requests(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = { DELETE("epoch"), SET("a", "2") };

	assert_int_equal(READ("epoch"), 0);
	assert_true(request.fresh);
	assert_int_equal(ASK(0, writes, "a", "epoch"), 0);
	assert_false(request.fresh);
	value_is(0, "2");
	value_is(1, NULL);
	assert_int_equal(ASK(ANSWERED, writes, "epoch"), 0);
	assert_false(request.fresh);
	assert_true(request.answered);
	value_is(0, NULL);				/* the answers are enough */
	assert_int_equal(writes[0].ret, -ENOENT);
	assert_int_equal(ASK(0, writes, "a", "epoch"), 0);
	value_is(0, "2");
}

/* The canary comes before any answered write, and the opening before the canary. */
static void first_answers(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = { DELETE("epoch"), SET("a", "2"), SET("b", "3") };

	writes[0].answered = writes[2].answered = true;
	assert_int_equal(ASK(0, writes, "epoch"), 0);
	assert_true(request.fresh);
	assert_true(request.answered);
	value_is(0, "E");
	assert_int_equal(writes[0].ret, 0);
	assert_int_equal(ASK(0, writes, "a", "b"), 0);
	assert_false(request.fresh);
	assert_int_equal(writes[0].ret, -ENOENT);
	value_is(0, "2");
	value_is(1, "3");
}

static void writes_keep_their_order(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = {
		SET("a", "1"), ADD("a", "2"), SET("b", "1"), DELETE("b"), ADD("b", "3"),
		ADD("c", "4"), DELETE("c"),
	};

	assert_int_equal(ASK(0, writes, "epoch", "a", "b", "c"), 0);
	value_is(1, "1");
	value_is(2, "3");
	value_is(3, NULL);
}

static void answers_of_writes(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = {
		ADD("a", "7"), ADD("a", "8"), INCR("a"), INCR("a"), DELETE("a"), DELETE("a"),
		INCR("a"), SET("b", ""),
	};
	const int rets[] = { 0, -EEXIST, 0, 0, 0, -ENOENT, -ENOENT, 0 };
	const uint64_t numbers[] = { 0, 0, 8, 9, 0, 0, 0, 0 };
	size_t i;

	assert_int_equal(ASK(ANSWERED, writes, "epoch"), 0);
	for (i = 0; i < BEEST_COUNT(writes); i++) {
		assert_int_equal(writes[i].ret, rets[i]);
		assert_int_equal(writes[i].number, numbers[i]);
	}
	assert_int_equal(READ("epoch", "a", "b"), 0);
	value_is(1, NULL);
	value_is(2, "");
}

/* A key that is absent stays so. */
static void appending(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = {
		APPEND("a", "lost"), ADD("a", ""), APPEND("a", "1"), ADD("a", ""),
		APPEND("a", "22"), APPEND("b", "x"),
	};

	assert_int_equal(ASK(0, writes, "epoch", "a", "b"), 0);
	value_is(1, "122");
	value_is(2, NULL);
	assert_int_equal(ASK(ANSWERED, writes, "epoch"), 0);
	assert_int_equal(writes[0].ret, 0);
	assert_int_equal(writes[5].ret, -ENOENT);
	assert_int_equal(READ("epoch", "a"), 0);
	value_is(1, "122lost122");
}

/* The value is set only if nobody has written it since it was read. */
static void comparing(const struct kv_stage *stage)
{
	struct beest_kv_write first[] = { SET("a", "1") }, cas[] = { CAS("a", "2") };
	struct beest_kv_write append[] = { APPEND("a", "x") }, delete[] = { DELETE("a") };
	uint64_t unique;

	assert_int_equal(ASK(0, first, "epoch", "a"), 0);
	assert_int_equal(values[1].unique, 0);
	wants_uniques = true;
	assert_int_equal(READ("epoch", "a", "b"), 0);
	wants_uniques = false;
	value_is(1, "1");
	value_is(2, NULL);
	unique = cas[0].unique = values[1].unique;
	assert_int_not_equal(unique, 0);
	assert_int_equal(ASK(0, cas, "epoch", "a"), 0);
	assert_int_equal(cas[0].ret, 0);
	value_is(1, "2");
	assert_int_equal(values[1].unique, 0);
	assert_int_equal(ASK(0, cas, "epoch", "a"), 0);
	assert_int_equal(cas[0].ret, -EEXIST);
	value_is(1, "2");

	wants_uniques = true;
	assert_int_equal(ASK(0, append, "epoch", "a"), 0);
	wants_uniques = false;
	cas[0].unique = values[1].unique;
	assert_int_equal(ASK(0, append, "epoch"), 0);
	assert_int_equal(ASK(0, cas, "epoch", "a"), 0);
	assert_int_equal(cas[0].ret, -EEXIST);
	value_is(1, "2xx");
	assert_int_equal(ASK(0, delete, "epoch"), 0);
	assert_int_equal(ASK(0, cas, "epoch", "a"), 0);
	assert_int_equal(cas[0].ret, -ENOENT);
	value_is(1, NULL);
	assert_int_equal(READ("epoch"), 0);
	assert_false(request.fresh);
}

/* What an unanswered cas says is not read, and not taken for the answer to what follows it. */
static void comparing_unanswered(const struct kv_stage *stage)
{
	struct beest_kv_write first[] = { SET("a", "1"), SET("b", "1") };
	struct beest_kv_write fits[] = { CAS("a", "2"), SET("c", "3") };
	struct beest_kv_write again[] = { CAS("a", "4"), CAS("none", "5"), SET("c", "6") };
	struct beest_kv_write behind[] = { CAS("a", "7"), INCR("b"), CAS("a", "8"), ADD("b", "9") };
	uint64_t unique;
	size_t i;

	assert_int_equal(ASK(0, first, "epoch"), 0);
	wants_uniques = true;
	assert_int_equal(READ("epoch", "a"), 0);
	unique = values[1].unique;
	fits[0].unique = again[0].unique = again[1].unique = unique;
	behind[0].unique = behind[2].unique = unique;
	fits[0].answered = again[0].answered = again[1].answered = false;
	behind[0].answered = behind[2].answered = false;
	assert_int_equal(ASK(0, fits, "epoch", "a", "c", "b"), 0);
	value_is(1, "2");
	value_is(2, "3");
	value_is(3, "1");
	assert_int_not_equal(values[1].unique, unique);
	unique = values[1].unique;
	assert_int_equal(ASK(0, again, "epoch", "a", "none", "c"), 0);
	assert_false(request.fresh);
	value_is(0, "E");
	value_is(1, "2");
	value_is(2, NULL);
	value_is(3, "6");
	assert_true(values[1].unique == unique);
	for (i = 0; i < 3; i++) {
		behind[3].answered = true;
		assert_int_equal(ASK(0, behind, "epoch", "a", "b"), 0);
		assert_false(request.fresh);
		assert_int_equal(behind[0].ret, 0);	/* unknown */
		assert_int_equal(behind[1].ret, 0);
		assert_int_equal(behind[1].number, 2 + i);
		assert_int_equal(behind[3].ret, -EEXIST);
		value_is(1, "2");
		assert_int_equal(values[2].bytes[0], '2' + i);
	}
	behind[2].unique = unique;
	assert_int_equal(ASK(0, behind, "epoch", "a"), 0);
	value_is(1, "8");
	wants_uniques = false;
}

/* Between quiet writes, over a new and over a used connection. */
static void counting(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = { INCR("n"), ADD("n", "0"), INCR("n"), SET("a", "1") };
	int round;

	for (round = 1; round <= 3; round++) {
		assert_int_equal(ASK(0, writes, "epoch", "n", "a"), 0);
		assert_int_equal(request.fresh, round == 1);
		assert_int_equal(writes[0].ret, round == 1 ? -ENOENT : 0);
		assert_int_equal(writes[2].ret, 0);
		assert_int_equal(writes[2].number, round * 2 - 1);
		assert_int_equal(values[1].bytes[0], '0' + round * 2 - 1);
		value_is(2, "1");
	}
}

static void counting_what_is_no_number(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = { SET("n", "x"), INCR("n") };

	assert_int_equal(ASK(0, writes, "epoch", "n"), -EBADMSG);
	assert_false(beest_kv_transient(-EBADMSG));
	assert_int_equal(writes[1].ret, -EBADMSG);
	value_is(0, NULL);
	assert_int_equal(READ("epoch"), 0);
	assert_true(request.fresh);
}

/* An unanswered incr has no answer at all, which could be taken for that of the next one. */
static void counting_unanswered(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = {
		INCR("n"), ADD("n", "0"), INCR("n"), SET("m", "x"), INCR("m"),
	};
	int round;

	writes[0].answered = writes[2].answered = writes[4].answered = false;
	for (round = 1; round <= 3; round++) {
		assert_int_equal(ASK(0, writes, "epoch", "n", "m"), 0);
		assert_int_equal(values[1].bytes[0], '0' + round * 2 - 1);
		assert_int_equal(writes[2].number, 0);
		value_is(2, "x");
	}
}

static void no_canary(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = { SET("a", "1") };

	assert_int_equal(ASK(0, writes, "nobody", "a"), -ENODATA);
	assert_true(beest_kv_transient(-ENODATA));
	assert_error_has("nobody");
	value_is(0, NULL);
	value_is(1, NULL);
	assert_false(request.answered);
	assert_int_equal(READ("epoch", "a"), 0);
	assert_true(request.fresh);
	value_is(1, "1");
	assert_int_equal(READ("epoch", "a"), 0);
	assert_false(request.fresh);
	/* A write before the failure has its result; over a new connection, there is none. */
	assert_int_equal(ASK(ANSWERED, writes, "nobody", "a"), -ENODATA);
	assert_true(writes[0].done);
	assert_int_equal(writes[0].ret, 0);
	assert_int_equal(ASK(ANSWERED, writes, "nobody"), -ENODATA);
	assert_true(request.fresh);
	assert_false(writes[0].done);
	assert_int_equal(writes[0].ret, -ENODATA);
	assert_int_equal(READ("epoch"), 0);
	assert_true(request.fresh);
}

static void the_same_key_twice(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = { SET("a", "1") };

	assert_int_equal(ASK(0, writes, "epoch", "a", "b", "a"), 0);
	value_is(1, "1");
	value_is(2, NULL);
	value_is(3, "1");
}

/* If the last answer came long ago, a lazy request is read like any other. */
static void lazy_writes(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = { SET("a", "1") };
	struct beest_kv_write more[] = { SET("b", "2"), SET("c", "3") };

	assert_int_equal(ASK(LAZY, writes, "epoch", "a"), 0);
	assert_true(request.fresh);
	assert_true(request.answered);
	value_is(1, "1");
	assert_int_equal(ASK(LAZY, more, "epoch", "b"), 0);
	assert_false(request.fresh);
	value_is(0, request.answered ? "E" : NULL);
	assert_int_equal(READ("epoch", "b", "c"), 0);
	assert_false(request.fresh);
	value_is(1, "2");
	value_is(2, "3");
	stage->pause(1);
	assert_int_equal(ASK(LAZY, more, "epoch", "b"), 0);
	assert_true(request.answered);
	value_is(1, "2");
}

/* A request without an answer was not carried out in part. */
static void restart_is_all_or_nothing(const struct kv_stage *stage)
{
	enum { MANY = 256 };
	static struct beest_kv_write writes[MANY];
	static char keys[MANY][16];
	const char *const asked[] = { "epoch", keys[0], keys[MANY - 1], keys[MANY / 2], NULL };
	int i, tries;

	for (i = 0; i < MANY; i++) {
		snprintf(keys[i], sizeof(keys[i]), "key%d", i);
		writes[i] = (struct beest_kv_write)SET(keys[i], keys[i]);
	}
	assert_int_equal(READ("epoch"), 0);
	stage->restart();
	assert_int_equal(ask(stage, 0, writes, MANY, asked), -ECONNRESET);
	value_is(0, NULL);
	for (tries = 0; tries < 3 && ask(stage, 0, writes, MANY, asked) < 0; tries++)
		;
	assert_true(request.fresh);
	for (i = 1; i <= 3; i++)
		value_is((size_t)i, asked[i]);
}

static void restart_before_answers(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = { SET("a", "1"), SET("b", "1") };

	assert_int_equal(ASK(ANSWERED, writes, "epoch"), 0);
	stage->restart();
	assert_int_equal(ASK(ANSWERED, writes, "epoch"), -ECONNRESET);
	assert_int_equal(writes[0].ret, -ECONNRESET);
	assert_int_equal(ASK(ANSWERED, writes, "epoch"), 0);
	assert_true(request.fresh);
	assert_int_equal(writes[0].ret, 0);
}

/* A server that has no processor for a second counts as silent: these writes may be repeated. */
static int ask_again(const struct kv_stage *stage, struct beest_kv_write *writes, size_t count,
		     const char *const *keys)
{
	int ret, tries = 0;

	do
		ret = ask(stage, 0, writes, count, keys);
	while (ret == -EHOSTDOWN && ++tries < 60);
	return ret;
}

static void many_writes(const struct kv_stage *stage)
{
	enum { MANY = 1000 };
	static struct beest_kv_write writes[MANY];
	static char keys[MANY][240];
	static char value[200];
	const char *const asked[] = { "epoch", keys[0], keys[MANY - 1], keys[MANY / 3], NULL };
	size_t i;

	unit_repeat(value, 'v', sizeof(value) - 1);
	for (i = 0; i < MANY; i++) {
		unit_repeat(keys[i], 'k', sizeof(keys[i]) - 1);
		keys[i][sprintf(keys[i], "%zu/", i)] = 'k';
		writes[i] = (struct beest_kv_write)SET(keys[i], value);
	}
	assert_int_equal(ask_again(stage, writes, MANY, asked), 0);
	for (i = 1; i <= 3; i++)
		value_is(i, value);
	for (i = 0; i < MANY; i++)
		writes[i] = (struct beest_kv_write)DELETE(keys[i]);
	assert_int_equal(ask_again(stage, writes, MANY, asked), 0);
	for (i = 1; i <= 3; i++)
		value_is(i, NULL);
}

static void several_requests(const struct kv_stage *stage)
{
	struct beest_kv_write quiet[] = { SET("a", "1") }, answered[] = { ADD("b", "2") };
	const char *const epoch[] = { "epoch", "a" }, *const bad[] = { "no canary" };
	struct beest_kv_value got[3][2];
	struct beest_kv_request requests[] = {
		{ .writes = quiet, .write_count = 1, .opening = &opening, .keys = epoch,
		  .key_count = 2, .values = got[0] },
		{ .keys = bad, .key_count = 1, .values = got[1] },
		{ .writes = answered, .write_count = 1 },
	};

	answered[0].answered = true;
	assert_int_equal(beest_kv_run(stage->kv, requests, 3,
				      beest_clock_deadline(60 * BEEST_SECOND), NULL), -EINVAL);
	assert_int_equal(requests[0].ret, 0);
	assert_int_equal(requests[1].ret, -EINVAL);
	assert_int_equal(requests[2].ret, 0);
	assert_memory_equal(got[0][1].bytes, "1", 1);
	assert_null(got[1][0].bytes);
	beest_kv_values_free(got[0], 2);
	assert_int_equal(READ("epoch", "b"), 0);
	value_is(1, "2");
	assert_int_equal(beest_kv_run(stage->kv, NULL, 0, 0, NULL), 0);
}

static void refused_before_they_are_sent(const struct kv_stage *stage)
{
	static char large[BEEST_VALUE_MAX + 2];
	struct beest_kv_write bad[] = { SET("a", "1"), SET("b c", "1") };
	struct beest_kv_write big[] = { SET("a", "1"), SET("b", unit_repeat(large, 'x',
								BEEST_VALUE_MAX + 1)) };
	struct beest_kv_write good[] = { SET("a", "1") };

	assert_int_equal(ASK(0, bad, "epoch"), -EINVAL);
	assert_int_equal(ASK(ANSWERED, big, "epoch"), -EMSGSIZE);
	assert_int_equal(ASK(0, good, "epoch", "b\r\nc"), -EINVAL);
	assert_int_equal(ask(stage, 0, good, 1, NULL), -EINVAL);
	assert_int_equal(READ("epoch", "a"), 0);
	value_is(1, NULL);
}

static void lives_end(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = { SET("a", "1"), SET("b", "1"), SET("c", "1") };

	writes[0].ttl = 1;
	writes[1].ttl = 0;
	writes[2].ttl = 40 * 86400;
	assert_int_equal(ASK(0, writes, "epoch"), 0);
	stage->pause(3);
	assert_int_equal(READ("epoch", "a", "b", "c"), 0);
	value_is(1, NULL);
	value_is(2, "1");
	value_is(3, "1");
}

static void probing(const struct kv_stage *stage)
{
	struct beest_kv_write writes[] = { SET("a", "1") };
	struct beest_kv_stats stats;

	assert_int_equal(ASK(0, writes, "epoch"), 0);
	assert_int_equal(beest_kv_probe(stage->kv, 0, beest_clock_deadline(60 * BEEST_SECOND),
					&stats), 0);
	assert_int_equal(stats.evictions, 0);
	assert_true(stats.time > 0);
	assert_false(stats.out_of_memory_is_an_error);
}

static void release(const struct kv_stage *stage)
{
	(void)stage;
	beest_kv_values_free(values, BEEST_COUNT(values));
}

const struct kv_scenario kv_scenarios[] = {
	{ "first request", first_request },
	{ "later requests", later_requests },
	{ "first answers", first_answers },
	{ "writes keep their order", writes_keep_their_order },
	{ "answers of writes", answers_of_writes },
	{ "appending", appending },
	{ "comparing", comparing },
	{ "comparing unanswered", comparing_unanswered },
	{ "counting", counting },
	{ "counting what is no number", counting_what_is_no_number },
	{ "counting unanswered", counting_unanswered },
	{ "no canary", no_canary },
	{ "the same key twice", the_same_key_twice },
	{ "lazy writes", lazy_writes },
	{ "restart is all or nothing", restart_is_all_or_nothing },
	{ "restart before answers", restart_before_answers },
	{ "many writes", many_writes },
	{ "several requests", several_requests },
	{ "refused before they are sent", refused_before_they_are_sent },
	{ "lives end", lives_end },
	{ "probing", probing },
	{ "nothing more", release },
	{ NULL, NULL },
};
