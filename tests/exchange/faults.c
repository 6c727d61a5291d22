/* SPDX-License-Identifier: MIT */
/*
 * faults.c - a bring-up succeeds despite faults of servers and ranks
 *
 * Tables of faults meet tables of steps, with real Memcached servers and the fake device.
 * Ranks that only suffer are threads; ranks that are killed are processes.  Only the main
 * thread handles servers, since a server dies with the thread that started it.
 *
 * promise: hartebeest_msg(3), hartebeest(7)
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/kv/kv.h"
#include "tests/support/bringup.h"
#include "tests/support/fake-clock.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/rank.h"
#include "tests/support/raw-kv.h"
#include "tests/support/relay.h"
#include "tests/support/unit.h"

#define SERVERS_MAX 3

static struct cache *caches[SERVERS_MAX];
static int cache_count;
static char servers[1200];
static char job[32];			/* a new one for each bring-up */
static int stride;			/* of unit_stride() */

static void servers_start(int count)
{
	int i;

	servers[0] = '\0';
	for (i = 0; i < count; i++) {
		caches[i] = cache_start(NULL);
		if (i)
			strcat(servers, ",");
		strcat(servers, cache_hostport(caches[i])->text);
	}
	cache_count = count;
}

static int teardown(void **state)
{
	(void)state;
	while (cache_count)
		cache_end(caches[--cache_count]);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	fake_verbs_reset();
	servers_start(1);
	return 0;
}

static struct bringup *new_bringup(int size)
{
	static int number;

	snprintf(job, sizeof(job), "job%d", number++);
	return bringup_new(servers, job, size);
}

static void came_through(struct bringup *bringup, const char *where)
{
	const char *wrong = bringup_wrong(bringup);

	if (wrong)
		fail_msg("%s: %s", where, wrong);
	bringup_free(bringup);
}

/* ------------------------------------------------ faults of servers, by step --- */

struct fault {
	const char *name;
	void (*begin)(struct cache *cache);
	int ms;				/* how long the fault lasts */
	void (*end)(struct cache *cache);
};

/* If a killed server is back at once, only broken connections reveal it. */
static const struct fault faults[] = {
	{ "stopped for 300 ms", cache_stop, 300, cache_resume },
	{ "killed, empty again", cache_kill, 0, cache_restart },
	{ "away for 50 ms", cache_kill, 50, cache_restart },
};

static void suffer(const struct fault *fault, struct cache *cache, struct bringup *bringup)
{
	fault->begin(cache);
	bringup_let_go(bringup);
	pause_ms(fault->ms);
	fault->end(cache);
}

/* Rank 0 takes @step during the fault; rank 1 is at about that step or waits for rank 0. */
static void fault_at(const struct fault *fault, struct cache *cache, int step, int ahead_ms)
{
	struct bringup *bringup = new_bringup(2);
	struct bringup_crowd crowd;
	char where[128];

	snprintf(where, sizeof(where), "server %s at %s, the other %d ms ahead", fault->name,
		 bringup_step_name(step), ahead_ms);
	bringup->hold_rank = 0;
	bringup->hold_step = step;
	bringup_start(&crowd, bringup);
	bringup_await_held(bringup);
	pause_ms(ahead_ms);
	suffer(fault, cache, bringup);
	bringup_join(&crowd);
	bringup_note_all(&crowd);
	bringup_leave(&crowd);
	came_through(bringup, where);
}

static void a_server_fails_at_every_step(void **state)
{
	size_t i;
	int step;

	(void)state;
	for (i = 0; i < BEEST_COUNT(faults); i++)
		for (step = (int)i % stride; step < BRINGUP_STEPS; step += stride)
			fault_at(&faults[i], caches[0], step, step % 2 ? 20 : 0);
}

/*
 * Holds rank 0 before the barrier until the fault is over.  A rank that has passed the barrier no
 * longer waits, so it would not store its records again on a server that lost them.
 */
static void hold_before_the_end(struct bringup *bringup)
{
	bringup->hold_rank = 0;
	bringup->hold_step = bringup_step("barrier");
}

static void restart_and_let_go(struct bringup *bringup)
{
	cache_kill(caches[0]);
	cache_restart(caches[0]);
	bringup_let_go(bringup);
}

/* The server is killed while requests of the steps are under way. */
static void a_server_fails_within_the_steps(void **state)
{
	struct bringup_crowd crowd;
	struct bringup *bringup;
	char where[64];
	int passed;

	(void)state;
	for (passed = 0; passed < 2 * BRINGUP_STEPS - 2; passed += stride) {
		bringup = new_bringup(2);
		hold_before_the_end(bringup);
		bringup_start(&crowd, bringup);
		bringup_await_passed(bringup, passed);
		restart_and_let_go(bringup);
		bringup_join(&crowd);
		bringup_note_all(&crowd);
		snprintf(where, sizeof(where), "server killed after %d steps", passed);
		came_through(bringup, where);
		bringup_leave(&crowd);
	}
}

/* ------------------------------------------------------------ several servers --- */

static void one_of_several_servers_restarts(void **state)
{
	int count, step;

	(void)state;
	for (count = 2; count <= SERVERS_MAX; count++) {
		teardown(NULL);
		servers_start(count);
		for (step = count % stride; step < BRINGUP_STEPS; step += stride)
			fault_at(&faults[1], caches[step % count], step, 0);
	}
}

/* The name of the server that has this message. */
static const char *home_of(const char *name)
{
	struct beest_hostport list[SERVERS_MAX];
	struct beest_kv *exchange = NULL;
	static char text[300];
	char key[128];
	int i;

	for (i = 0; i < cache_count; i++)
		list[i] = *cache_hostport(caches[i]);
	snprintf(key, sizeof(key), "hb1/%s/msg/%s", job, name);
	assert_int_equal(beest_kv_open(&exchange, list, (size_t)cache_count), 0);
	snprintf(text, sizeof(text), "%s", raw_kv_server(exchange, key));
	beest_kv_close(exchange);
	return text;
}

/* The server stays dead: a call that needs a key there names it and ends in time. */
static void a_server_that_stays_dead_is_named(void **state)
{
	struct bringup_member member;
	char name[32];
	int count, i;

	(void)state;
	for (count = 1; count <= SERVERS_MAX; count++) {
		teardown(NULL);
		servers_start(count);
		memset(&member, 0, sizeof(member));
		member.bringup = new_bringup(2);
		member.last = bringup_step("msg_push");
		assert_int_equal(bringup_take(&member), 0);
		cache_kill(caches[count - 1]);
		i = 0;
		do
			snprintf(name, sizeof(name), "m%d", i++);
		while (strcmp(home_of(name), cache_hostport(caches[count - 1])->text));
		/* nothing to store yet: the look only reads */
		assert_int_equal(IN_VAIN(hartebeest_msg_wait(member.hb, name, NULL, 0, NULL, 0)),
				 -ECONNREFUSED);
		assert_error_has("no memcached listens there");
		assert_int_equal(IN_VAIN(hartebeest_msg_push(member.hb, name, "x", 1, 0)),
				 -ECONNREFUSED);
		assert_error_has(home_of(name));
		assert_int_equal(IN_VAIN(hartebeest_msg_wait(member.hb, name, NULL, 0, NULL, 0)),
				 -ECONNREFUSED);
		assert_error_has(home_of(name));
		hartebeest_close(member.hb);
		bringup_free(member.bringup);
	}
}

/* The push of the message fails; other calls of the same context are not affected. */
static void a_message_too_large_for_the_server(void **state)
{
	static const char *const small[] = { "-I", "512k", NULL };
	static char large[700 * 1024];
	struct hartebeest_context *hb;
	struct rank_settings settings = { .job = "large", .size = 1 };
	char text[8];

	(void)state;
	teardown(NULL);
	caches[cache_count++] = cache_start(small);
	settings.servers = cache_hostport(caches[0])->text;
	assert_int_equal(rank_open(&hb, &settings), 0);
	assert_int_equal(hartebeest_msg_push(hb, "m", large, sizeof(large), 0), -EMSGSIZE);
	assert_error_has(settings.servers);
	assert_error_has("the value is larger than it takes (memcached -I); to be stored: key "
			 "hb1/large/msg/m");
	assert_int_equal(UNTIL_ANSWERED(hartebeest_msg_push(hb, "m", large, sizeof(large),
							    HARTEBEEST_ONCE)), -EMSGSIZE);
	assert_int_equal(UNTIL_ANSWERED(hartebeest_msg_wait(hb, "m", NULL, 0, NULL,
							    HARTEBEEST_ONCE)), -EAGAIN);
	assert_int_equal(hartebeest_msg_push(hb, "other", "x", 2, 0), 0);
	assert_int_equal(hartebeest_barrier(hb, "all", 0), 0);
	assert_int_equal(hartebeest_msg_push(hb, "m", "short", 6, 0), 0);
	assert_int_equal(hartebeest_msg_wait(hb, "m", text, sizeof(text), NULL, 0), 0);
	assert_string_equal(text, "short");
	hartebeest_close(hb);
}

/* ----------------------------------------------------- messages for one reader --- */

enum { AUTHOR, TAKER, OTHER, THREE };

/* What a thread does with the only message. */
struct handling {
	struct hartebeest_context *hb;
	int ret;
	char text[8];
};

static void *push_it(void *data)
{
	struct handling *handling = data;
	struct hartebeest_msg_attr once;

	hartebeest_msg_attr_init(&once);
	once.flags = HARTEBEEST_MSG_ONCE;
	handling->ret = hartebeest_msg_push_attr(handling->hb, "m", "text", 5, &once, 0);
	return NULL;
}

static void *take_it(void *data)
{
	struct handling *handling = data;

	handling->ret = hartebeest_msg_wait(handling->hb, "m", handling->text,
					    sizeof(handling->text), NULL, 0);
	return NULL;
}

static int look_for_it(struct hartebeest_context *hb)
{
	char text[8];

	return UNTIL_ANSWERED(hartebeest_msg_wait(hb, "m", text, sizeof(text), NULL,
						  HARTEBEEST_ONCE));
}

static void three_open(struct handling *all, const struct relay *relay)
{
	static int number;
	struct rank_settings settings = {
		.servers = relay->endpoint.text, .job = job, .size = THREE,
	};

	snprintf(job, sizeof(job), "lost%d", number++);
	memset(all, 0, THREE * sizeof(*all));
	for (; settings.rank < THREE; settings.rank++) {
		assert_int_equal(rank_open(&all[settings.rank].hb, &settings), 0);
		assert_int_equal(look_for_it(all[settings.rank].hb), -EAGAIN);
	}
}

/* The answer to the command @verb is lost.  Returns how long a tombstone had to stay. */
static int64_t answer_lost(struct relay *relay, const char *verb)
{
	struct handling all[THREE];
	bool pushes = strcmp(verb, "add") == 0;
	char words[64];
	pthread_t thread;
	int64_t begin;
	int i;

	three_open(all, relay);
	if (!pushes)
		push_it(&all[AUTHOR]);
	snprintf(words, sizeof(words), "%s hb1/%s/msg/m ", verb, job);
	relay_expect(relay, words);
	begin = beest_clock_now();
	pthread_create(&thread, NULL, pushes ? push_it : take_it, &all[pushes ? AUTHOR : TAKER]);
	relay_await_loss(relay);
	if (pushes)
		take_it(&all[TAKER]);
	else
		assert_int_equal(look_for_it(all[OTHER].hb), -EAGAIN);
	relay_lose(relay);
	pthread_join(thread, NULL);
	begin = beest_clock_now() - begin;
	assert_int_equal(all[AUTHOR].ret, 0);
	assert_int_equal(all[TAKER].ret, 0);
	assert_string_equal(all[TAKER].text, "text");
	for (i = 0; i < THREE; i++) {
		if (begin < 30 * BEEST_SECOND)
			assert_int_equal(look_for_it(all[i].hb), -EAGAIN);
		hartebeest_close(all[i].hb);
	}
	return begin;
}

/* If the machine stood still for as long as tombstones live, that proves nothing. */
static void a_message_for_one_reader_has_one(void **state)
{
	static const char *const verbs[] = { "add", "cas" };
	struct cache *const behind[] = { caches[0], NULL };
	struct relay relay;
	size_t i;

	(void)state;
	relay_start(&relay, behind);
	for (i = 0; i < BEEST_COUNT(verbs); i++)
		while (answer_lost(&relay, verbs[i]) >= 30 * BEEST_SECOND)
			;
	relay_end(&relay);
}

/* --------------------------------------------------------------- many ranks --- */

/* Each rank connects to every other.  The server restarts after about @quarter / 4 of the steps. */
static void restart_in_a_crowd(int quarter)
{
	struct bringup *bringup = new_bringup(BRINGUP_RANKS);
	struct bringup_crowd crowd;

	hold_before_the_end(bringup);
	bringup_start(&crowd, bringup);
	bringup_await_passed(bringup, quarter * BRINGUP_RANKS * (BRINGUP_STEPS - 1) / 4);
	restart_and_let_go(bringup);
	bringup_join(&crowd);
	bringup_note_all(&crowd);
	bringup_leave(&crowd);
	came_through(bringup, "16 ranks");
}

static void sixteen_ranks_survive_a_restart(void **state)
{
	int quarter;

	(void)state;
	for (quarter = 1; quarter < 4; quarter++)
		restart_in_a_crowd(quarter);
}

static void sixteen_ranks_survive_restarts_in_a_row(void **state)
{
	struct bringup *bringup = new_bringup(BRINGUP_RANKS);
	struct bringup_crowd crowd;
	int i, all = BRINGUP_RANKS * (BRINGUP_STEPS - 1);

	(void)state;
	hold_before_the_end(bringup);
	bringup_start(&crowd, bringup);
	for (i = 1; i <= 6; i++) {
		bringup_await_passed(bringup, i * all / 8);
		cache_kill(caches[0]);
		cache_restart(caches[0]);
	}
	bringup_let_go(bringup);
	bringup_join(&crowd);
	bringup_note_all(&crowd);
	bringup_leave(&crowd);
	came_through(bringup, "16 ranks, 6 restarts");
}

/* ------------------------------------------------------ ranks that are killed --- */

#define NEVER (BRINGUP_STEPS + 1)

/*
 * A rank as a process: brings itself up, connects again to a rank that was killed meanwhile, and
 * meets the others.  The parent sets go when it will kill nobody any more.
 */
static int be_rank(struct bringup_member *member)
{
	struct bringup *bringup = member->bringup;
	int ret;

	member->last = bringup_step("msg_wait");
	ret = bringup_take(member);
	if (ret < 0)
		return ret;
	__atomic_add_fetch(&bringup->arrived, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&bringup->go, __ATOMIC_ACQUIRE))
		pause_ms(1);
	ret = bringup_rejoin(member);
	if (ret < 0)
		return ret;
	member->first = bringup_step("mr_fetch");
	member->last = bringup_step("barrier");
	ret = bringup_take(member);
	if (ret == 0)
		bringup_note(member);
	return ret;
}

static pid_t fork_rank(struct bringup *bringup, int rank)
{
	struct bringup_member member = { .bringup = bringup, .rank = rank };
	pid_t pid;

	memset(bringup->rank[rank].process, 0, sizeof(bringup->rank[rank].process));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		be_rank(&member);
		hartebeest_close(member.hb);
		_exit(0);
	}
	__atomic_store_n(&bringup->rank[rank].pid, pid, __ATOMIC_RELEASE);
	return pid;
}

static int status_of(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* Waits until @pid has died, or until both ranks have come as far as they can alone. */
static bool has_died(struct bringup *bringup, pid_t pid)
{
	while (__atomic_load_n(&bringup->arrived, __ATOMIC_ACQUIRE) < 2) {
		if (waitpid(pid, NULL, WNOHANG) == pid)
			return true;
		pause_ms(1);
	}
	return false;
}

/* Rank 1 is dead: starts it again, and both must finish. */
static void start_again(struct bringup *bringup, pid_t other, const char *where)
{
	pid_t pid;

	bringup->hold_rank = -1;
	pid = fork_rank(bringup, 1);
	bringup_let_go(bringup);
	assert_int_equal(status_of(pid), 0);
	assert_int_equal(status_of(other), 0);
	came_through(bringup, where);
}

static void a_rank_is_killed_at_every_step(void **state)
{
	struct bringup *bringup;
	char where[64];
	pid_t pids[2];
	int step;

	(void)state;
	for (step = 0; step <= bringup_step("barrier"); step++) {
		bringup = new_bringup(2);
		bringup->hold_rank = 1;
		bringup->hold_step = step;
		bringup->deadly = true;
		pids[0] = fork_rank(bringup, 0);
		pids[1] = fork_rank(bringup, 1);
		assert_int_equal(status_of(pids[1]), SIGKILL);
		snprintf(where, sizeof(where), "rank killed before %s", bringup_step_name(step));
		start_again(bringup, pids[0], where);
	}
}

static void a_rank_is_killed_in_every_verbs_call(void **state)
{
	struct bringup *bringup;
	bool died = true;
	char where[64];
	pid_t pids[2];
	int call;

	(void)state;
	for (call = 1; died; call++) {
		bringup = new_bringup(2);
		bringup->hold_rank = 1;
		bringup->hold_step = NEVER;
		bringup->deadly_call = call;
		pids[0] = fork_rank(bringup, 0);
		pids[1] = fork_rank(bringup, 1);
		died = has_died(bringup, pids[1]);
		snprintf(where, sizeof(where), "rank killed in verbs call %d", call);
		if (died) {
			start_again(bringup, pids[0], where);
			continue;
		}
		bringup_let_go(bringup);
		assert_int_equal(status_of(pids[1]), 0);
		assert_int_equal(status_of(pids[0]), 0);
		came_through(bringup, where);
	}
	assert_true(call > 15);		/* the bring-up made that many calls */
}

/* The kill may hit requests to the server, too. */
static void a_rank_is_killed_at_any_moment(void **state)
{
	struct bringup *bringup;
	char where[64];
	pid_t pids[2];
	int i;

	(void)state;
	for (i = 0; i < 24; i++) {
		bringup = new_bringup(2);
		pids[0] = fork_rank(bringup, 0);
		pids[1] = fork_rank(bringup, 1);
		pause_us(300 * i);
		kill(pids[1], SIGKILL);
		assert_int_equal(status_of(pids[1]), SIGKILL);
		snprintf(where, sizeof(where), "rank killed after %d us", 300 * i);
		start_again(bringup, pids[0], where);
	}
}

/* ------------------------------------------------------------- former runs --- */

static void run_to_the_end(struct bringup *bringup, const char *where)
{
	pid_t pids[2];

	bringup_let_go(bringup);
	pids[0] = fork_rank(bringup, 0);
	pids[1] = fork_rank(bringup, 1);
	assert_int_equal(status_of(pids[0]), 0);
	assert_int_equal(status_of(pids[1]), 0);
	came_through(bringup, where);
}

/* All ranks of a run are killed at a step, or at the end, and leave their records. */
static void leave_leftovers(int step)
{
	struct bringup *bringup = new_bringup(2);
	pid_t pids[2];

	bringup->hold_rank = BRINGUP_RANKS;
	bringup->hold_step = step;
	bringup->deadly = true;
	bringup_let_go(bringup);
	pids[0] = fork_rank(bringup, 0);
	pids[1] = fork_rank(bringup, 1);
	assert_int_equal(status_of(pids[0]), SIGKILL);
	assert_int_equal(status_of(pids[1]), SIGKILL);
	bringup_free(bringup);
}

static void a_run_over_the_leftovers_of_a_killed_one(void **state)
{
	char where[64];
	int step;

	(void)state;
	for (step = 0; step <= BRINGUP_STEPS; step++) {
		leave_leftovers(step);
		snprintf(where, sizeof(where), "leftovers of a run killed at step %d", step);
		run_to_the_end(bringup_new(servers, job, 2), where);
	}
}

/* ------------------------------------------------------ jobs beside each other --- */

/* Both jobs use the same names, and the server restarts, too. */
static void two_jobs_side_by_side(void **state)
{
	struct bringup *bringup[2];
	struct bringup_crowd crowd[2];
	int i, round;

	(void)state;
	for (round = 0; round < 6; round++) {
		for (i = 0; i < 2; i++) {
			bringup[i] = new_bringup(3);
			hold_before_the_end(bringup[i]);
			bringup_start(&crowd[i], bringup[i]);
		}
		if (round % 2) {
			bringup_await_passed(bringup[0], 3 * 2 * round);
			restart_and_let_go(bringup[0]);
		}
		for (i = 0; i < 2; i++)
			bringup_let_go(bringup[i]);
		for (i = 0; i < 2; i++)
			bringup_join(&crowd[i]);
		for (i = 0; i < 2; i++) {
			bringup_note_all(&crowd[i]);
			came_through(bringup[i], "two jobs");
			bringup_leave(&crowd[i]);
		}
	}
}

/* -------------------------------------------------------------- late, absent --- */

static void late_ranks_are_waited_for(void **state)
{
	static const int late_ms[] = { 1000, 2500 };
	struct bringup *bringup[2];
	pid_t pids[2][2];
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		bringup[i] = new_bringup(2);
		bringup_let_go(bringup[i]);
		pids[i][0] = fork_rank(bringup[i], 0);
	}
	for (i = 0; i < 2; i++) {
		pause_ms(late_ms[i] - (i ? late_ms[i - 1] : 0));
		assert_int_equal(bringup[i]->arrived, 0);
		pids[i][1] = fork_rank(bringup[i], 1);
	}
	for (i = 0; i < 2; i++) {
		assert_int_equal(status_of(pids[i][0]), 0);
		assert_int_equal(status_of(pids[i][1]), 0);
		came_through(bringup[i], "a late rank");
	}
}

/* A lone rank comes to a step that needs rank 1: the parts of the sentence. */
static const struct {
	const char *step, *rank, *key;
} absences[] = {
	{ "qp_fetch", "", "qp/1-0" },
	{ "mr_fetch", "", "mr/mr1" },
	{ "msg_wait", "", "msg/hello1" },
	{ "barrier", "rank 1", "fence/all/lead" },
};

static void a_rank_that_never_comes_is_named(void **state)
{
	struct bringup_member member;
	char key[64];
	int64_t begin;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(absences); i++) {
		memset(&member, 0, sizeof(member));
		member.bringup = new_bringup(2);
		member.last = bringup_step("qp_publish");
		assert_int_equal(bringup_take(&member), 0);
		member.first = member.last = bringup_step(absences[i].step);
		begin = beest_clock_now();
		assert_int_equal(IN_VAIN(bringup_take(&member)), -ETIMEDOUT);
		assert_true(beest_clock_now() - begin >= RANK_PATIENCE_S * BEEST_SECOND);
		snprintf(key, sizeof(key), "hb1/%s/%s", job, absences[i].key);
		assert_error_has(key);
		assert_error_has(absences[i].rank);
		hartebeest_close(member.hb);
		bringup_free(member.bringup);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_server_fails_at_every_step),
		TEST(a_server_fails_within_the_steps),
		TEST(one_of_several_servers_restarts),
		TEST(a_server_that_stays_dead_is_named),
		TEST(a_message_too_large_for_the_server),
		TEST(a_message_for_one_reader_has_one),
		TEST(sixteen_ranks_survive_a_restart),
		TEST(sixteen_ranks_survive_restarts_in_a_row),
		TEST(a_rank_is_killed_at_every_step),
		TEST(a_rank_is_killed_in_every_verbs_call),
		TEST(a_rank_is_killed_at_any_moment),
		TEST(a_run_over_the_leftovers_of_a_killed_one),
		TEST(two_jobs_side_by_side),
		TEST(late_ranks_are_waited_for),
		TEST(a_rank_that_never_comes_is_named),
	};

	stride = unit_stride(3);
	surroundings_clear();
	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
