/* SPDX-License-Identifier: MIT */
/*
 * ping.c - hartebeest ping between ends that cannot connect, over fake devices and a real server
 *
 * Each end is a process of its own, with a machine and settings of its own.  Whatever fails, each
 * end says so once, and its exit status is not 0.
 *
 * promise: hartebeest(1)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <hartebeest.h>
#include <json-c/json.h>

#include "tests/support/fake-world.h"
#include "tests/support/memcached.h"
#include "tests/support/talk.h"
#include "tools/command.h"

#define ENDS 3

#define PORT(address) \
	"device mlx5_0\n" \
	" gid 0 " address " v1 eth0\n" \
	" gid 1 " address " v2 eth0\n"
#define ADAPTER(address, options) \
	"device mlx5_0\nlimit ece_vendor 0x15b3\nlimit ece_options " options "\n" \
	" gid 0 " address " v2 eth0\n"
#define PORTS { PORT("::ffff:10.0.0.1"), PORT("::ffff:10.0.0.2"), PORT("::ffff:10.0.0.3") }

static const struct trouble {
	const char *report;
	int count;			/* of ends */
	bool ranks;			/* of a launcher */
	bool silent;			/* they connect, but no data arrive */
	const char *machines[ENDS], *options[ENDS];
	const char *says[ENDS];		/* one of these ends, NULL: the other end's */
	const char *told;		/* what an end says that heard of it */
} troubles[] = {
	{
		.report = "two ranks differ in the RoCE version",
		.count = 2, .ranks = true, .machines = PORTS,
		.options = { "device.roce=v1", "device.roce=v2" },
		.says = { "the RoCE version differs", "the RoCE version differs" },
		.told = "the other end: ",
	},
	{
		.report = "two ends without ranks differ in the RoCE version",
		.count = 2, .machines = PORTS,
		.options = { "device.roce=v1", "device.roce=v2" },
		.says = { "the RoCE version differs", "the RoCE version differs" },
		.told = "the other end: ",
	},
	{
		.report = "a rank has no memory for its queue pair",
		.count = 2, .ranks = true,
		.machines = { PORT("::ffff:10.0.0.1"), PORT("::ffff:10.0.0.2")
			      "fail ibv_create_qp 0 ENOMEM\n" },
		.says = { NULL, "cannot create a RC queue pair (" },
		.told = "the other end: mlx5_0:1: cannot create a RC queue pair (",
	},
	{
		.report = "an end without rank has no memory for its queue pair",
		.count = 2,
		.machines = { PORT("::ffff:10.0.0.1"), PORT("::ffff:10.0.0.2")
			      "fail ibv_create_qp 0 ENOMEM\n" },
		.says = { NULL, "cannot create a RC queue pair (" },
		.told = "the other end: mlx5_0:1: cannot create a RC queue pair (",
	},
	{
		/* The others have no deadline, since they wait for their turn. */
		.report = "the first of three ranks has no memory for its queue pairs",
		.count = 3, .ranks = true,
		.machines = { PORT("::ffff:10.0.0.1") "fail ibv_create_qp 0 ENOMEM\n",
			      PORT("::ffff:10.0.0.2"), PORT("::ffff:10.0.0.3") },
		.says = { "cannot create a RC queue pair (" },
		.told = "the other end: mlx5_0:1: cannot create a RC queue pair (",
	},
	{
		.report = "the rdma cgroup of a rank has no room",
		.count = 2, .ranks = true,
		.machines = { PORT("::ffff:10.0.0.1") "fail ibv_create_cq 0 EAGAIN\n",
			      PORT("::ffff:10.0.0.2") },
		.says = { "raise hca_object and hca_handle in rdma.max" },
		.told = "the other end: mlx5_0:1: cannot create a completion queue of ",
	},
	{
		.report = "two ends whose adapters have options of ECE",
		.count = 2, .silent = true,	/* as over all fake devices */
		.machines = { ADAPTER("::ffff:10.0.0.1", "0x13"),
			      ADAPTER("::ffff:10.0.0.2", "0x31") },
		.says = { "RTS, ECE options 0x11 of both (the peer has 0x31 of vendor 0x15b3)",
			  "RTS, ECE options 0x11 of both (the peer has 0x13 of vendor 0x15b3)" },
		.told = "-",
	},
};

static struct cache *cache;
static struct talk talks[BEEST_COUNT(troubles)][2][ENDS];	/* as text, as JSON */

/* The surroundings of an end.  @rank: -1, or that of a launcher's @count. */
static void end_prepare(int job, int rank, int count)
{
	char number[16];

	surroundings_clear();
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	snprintf(number, sizeof(number), "ping%d", job);
	setenv("HARTEBEEST_JOB", number, 1);
	if (rank >= 0) {
		snprintf(number, sizeof(number), "%d", rank);
		setenv("HARTEBEEST_NID", number, 1);
		snprintf(number, sizeof(number), "0-%d", count - 1);
		setenv("HARTEBEEST_PARTICIPANTS", number, 1);
	}
}

static void begin(size_t i, bool json, int end)
{
	const struct trouble *trouble = &troubles[i];
	const char *option = trouble->options[end] ? trouble->options[end] : "device.roce=auto";
	const char *const words[] = { "hartebeest", "ping", "-o", option, json ? "--json" : NULL };
	struct talk *talk = &talks[i][json][end];
	static int jobs;

	jobs += end == 0;
	end_prepare(jobs, trouble->ranks ? end : -1, trouble->count);
	fake_world(trouble->machines[end]);
	memcpy(talk->words, words, sizeof(words));
	talk->program = command_main;
	talk_begin(talk);
}

static void begin_ends(size_t i, bool json)
{
	int end;

	for (end = 0; end < troubles[i].count; end++)
		begin(i, json, end);
}

/* All at the same time, since an end may have to wait until its deadline. */
static int begin_all(void **state)
{
	size_t i;

	(void)state;
	cache = cache_start(NULL);
	for (i = 0; i < BEEST_COUNT(troubles); i++) {
		begin_ends(i, false);
		begin_ends(i, true);
	}
	return 0;
}

static int end_all(void **state)
{
	(void)state;
	cache_end(cache);
	return 0;
}

static int count_of(const char *text, const char *what)
{
	int count = 0;

	while ((text = strstr(text, what))) {
		count++;
		text += strlen(what);
	}
	return count;
}

static void end_fails(const struct trouble *trouble, bool json, int end, struct talk *talk)
{
	/* The first rank fails once with each of the others. */
	int failures = trouble->ranks && end == 0 ? trouble->count - 1 : 1;
	const char *says = trouble->says[end];
	char who[100] = "  rank ", host[64] = "";

	/* All ranks of a launcher write to one place. */
	gethostname(host, sizeof(host) - 1);
	if (trouble->ranks)
		snprintf(who, sizeof(who), "  rank %d on %s: ", end, host);
	if ((talk->status == STATUS_FAILED ||
	     (trouble->silent && talk->status == STATUS_TIMEOUT)) &&
	    count_of(talk->out, who) == (trouble->ranks ? failures : 0) &&
	    count_of(talk->out, json ? "\"level\": \"failure\"" : "  FAIL  ") == failures &&
	    ((says && strstr(talk->out, says)) || strstr(talk->out, trouble->told)))
		return;
	fail_msg("end %d ended with %d:\n%s%s", end, talk->status, talk->out, talk->err);
}

/*
 * On a busy machine, a server may take longer to answer, and the other end to begin, than an end
 * waits for them.  If no server answers, an end fails with the error of the connection.
 */
static bool waited_in_vain(const struct trouble *trouble, const struct talk *talk)
{
	bool met = trouble->silent && strstr(talk->out, "first ping");

	return (talk->status == STATUS_TIMEOUT && !met) || strstr(talk->out, "tried for ") ||
	       strstr(talk->out, "the deadline had passed");
}

/* Waits for all ends.  An end that has crashed will crash again. */
static bool all_have_met(size_t i, bool json)
{
	const struct talk *talk;
	bool met = true, crashed = false;
	int end;

	for (end = 0; end < troubles[i].count; end++) {
		talk = &talks[i][json][end];
		talk_end(&talks[i][json][end]);
		met &= !waited_in_vain(&troubles[i], talk);
		crashed |= talk->status != STATUS_FAILED && talk->status != STATUS_TIMEOUT;
	}
	return met || crashed;
}

static void test_trouble(void **state)
{
	const struct trouble *trouble = *state;
	size_t i = (size_t)(trouble - troubles);
	int json, end, tries = 0;

	for (json = 0; json < 2; json++) {
		while (!all_have_met(i, json) && tries++ < 100)
			begin_ends(i, json);
		for (end = 0; end < trouble->count; end++)
			end_fails(trouble, json, end, &talks[i][json][end]);
	}
}

/* What rank 0 has stored for another; "" if one look does not find it. */
static void read_stored(struct hartebeest_context *hb, int rank, char *text, size_t size)
{
	char key[16];

	memset(text, 0, size);
	snprintf(key, sizeof(key), "ping-0-%d", rank);
	hartebeest_msg_wait(hb, key, text, size - 1, NULL, HARTEBEEST_ONCE);
}

/*
 * The others may have passed the barrier at which a rank gives up, and wait for their turn.  On a
 * busy machine it may not come so far, or not store the reason in time.  How long the rank waited
 * there is not compared: the steps before the barrier have used a part of its 100 ms.
 */
static void test_barrier(void **state)
{
	static struct talk talk = {
		.program = command_main,
		.words = { "hartebeest", "ping", "-o", "exchange.timeout=100ms" },
	};
	static const char start[] = "told 1 barrier 'ping', pass 1: after ";
	struct hartebeest_context *hb;
	char text[2][1000] = { "", "" };
	int i, tries = 0;

	(void)state;
	fake_world(troubles[0].machines[0]);
	end_prepare(0, 1, 3);
	assert_int_equal(hartebeest_open(&hb, NULL), 0);
	while ((strncmp(text[0], "told ", 5) || strncmp(text[1], "told ", 5)) && tries++ < 100) {
		end_prepare(0, 0, 3);
		talk_begin(&talk);
		talk_end(&talk);
		assert_int_equal(talk.status, STATUS_TIMEOUT);
		for (i = 0; i < 2; i++)
			read_stored(hb, 1 + i, text[i], sizeof(text[i]));
	}
	for (i = 0; i < 2; i++) {
		text[i][sizeof(start) - 1] = '\0';
		assert_string_equal(text[i], start);
	}
	hartebeest_close(hb);
}

int main(void)
{
	struct CMUnitTest tests[BEEST_COUNT(troubles) + 1];
	size_t i;

	cache_need();
	for (i = 0; i < BEEST_COUNT(troubles); i++)
		tests[i] = (struct CMUnitTest){
			.name = troubles[i].report, .test_func = test_trouble,
			.initial_state = (void *)(uintptr_t)&troubles[i],
		};
	tests[i] = (struct CMUnitTest)cmocka_unit_test(test_barrier);
	return cmocka_run_group_tests(tests, begin_all, end_all);
}
