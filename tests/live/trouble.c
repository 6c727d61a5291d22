/* SPDX-License-Identifier: MIT */
/*
 * trouble.c - faults of the wire, port, address or device under a living connection
 *
 * Bad weather, such as delays and losses, must change no byte, and a queue pair can reconnect in
 * it.  A broken connection gives a sentence with the reason, and can be reconnected once the
 * reason is gone.  Runs only in the tests' own virtual machine, where rank 0 has rxe0 above v0,
 * and rank 1 has rxe1 above v1.
 *
 * promise: hartebeest_qp(3), hartebeest_post(3)
 */
#include "config.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/gids.h"
#include "tests/support/live.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/unit.h"

static void need_machine(void)
{
	if (geteuid() == 0 && access("/sys/class/net/v1", F_OK) == 0 && ranks_port(1))
		return;
	fprintf(stderr, "no v0 and v1 with two ports, as in the tests' virtual machine\n");
	exit(77);
}

static void run(const char *command)
{
	if (system(command) != 0) {
		fprintf(stderr, "failed: %s\n", command);
		_exit(1);
	}
}

/* The program that removes rxe0 ends once nobody has the device open. */
static void await_removal(void)
{
	run("while kill -0 $(cat $TMPDIR/removal 2>/dev/null) 2>/dev/null; do sleep 0.1; done");
}

/* After a test that failed in the middle, the next ones have all ports and devices again. */
static int repair(void **state)
{
	(void)state;
	await_removal();
	run("for v in v0 v1; do tc qdisc del dev $v root 2>/dev/null; done; ip link set v0 up && "
	    "ip address replace 10.9.0.1/24 dev v0");
	run("[ -e /sys/class/infiniband/rxe0 ] || rdma link add rxe0 type rxe netdev v0; "
	    "chmod a+rw /dev/infiniband/*");
	gids_settle();
	return 0;
}

static void together(struct live *live, const char *where)
{
	EXPECT(hartebeest_barrier(live->hb, where, 0) == 0);
}

/* ---------------------------------------------------------------- bad weather --- */

#define ROUNDS 8
#define PIECE 8000			/* several packets */
#define WRITTEN (LIVE_BUFFER / 4)
#define READ (LIVE_BUFFER / 2)

/* Each round writes other bytes and reads them back: a lost write would leave the old ones. */
static void write_and_read(struct live *live)
{
	char *bytes = live->mr->addr;
	struct ibv_wc wc;
	int round;

	for (round = 1; round <= ROUNDS; round++) {
		live_fill(bytes, 2 * round + live->rank, PIECE);
		memset(bytes + READ, 0, PIECE);
		EXPECT(hartebeest_post_write(live->qp, bytes, PIECE, live->mr->lkey,
					     live->there.address + WRITTEN, live->there.rkey, 1,
					     IBV_SEND_SIGNALED) == 0);
		live_complete(live, 1, &wc);
		EXPECT(hartebeest_post_read(live->qp, bytes + READ, PIECE, live->mr->lkey,
					    live->there.address + WRITTEN, live->there.rkey, 2,
					    IBV_SEND_SIGNALED) == 0);
		live_complete(live, 2, &wc);
		EXPECT(live_is(bytes + READ, 2 * round + live->rank, PIECE));
	}
	together(live, "done");
	EXPECT(live_is(bytes + WRITTEN, 2 * ROUNDS + !live->rank, PIECE));
}

static int weathered_rank(int rank, void *data)
{
	/* For Soft-RoCE, 7 retries are infinite, so a slow machine changes no result. */
	static const char *const patient[] = {
		"qp_attr.retry_cnt=7", "qp_attr.timeout=12", NULL,
	};
	struct live live;

	(void)data;
	live_open(&live, rank, IBV_QPT_RC, patient);
	live_connect(&live);
	write_and_read(&live);
	EXPECT(hartebeest_qp_reconnect(live.hb, "qp", live.peer, 0) == 0);
	write_and_read(&live);
	live_close(&live);
	return 0;
}

static void bad_weather(void **state)
{
	static const char *const weathers[] = {	/* usually only the first, which has everything */
		"delay 2ms reorder 25% 50% loss 2% duplicate 5%",
		"delay 10ms 5ms", "loss 3%", "duplicate 10%", "delay 3ms reorder 25% 50%",
		"delay 1ms loss 1% duplicate 5%",
	};
	char command[160];
	size_t i;
	int failed;

	(void)state;
	for (i = 0; i < (unit_whole() ? BEEST_COUNT(weathers) : 1); i++) {
		snprintf(command, sizeof(command), "tc qdisc add dev v0 root netem %s && "
			 "tc qdisc add dev v1 root netem %s", weathers[i], weathers[i]);
		run(command);
		failed = live_pair(weathered_rank, NULL);
		run("tc qdisc del dev v0 root; tc qdisc del dev v1 root");
		if (failed)
			fail_msg("with '%s': %d ranks failed", weathers[i], failed);
	}
}

/* ------------------------------------------------------------- a broken connection --- */

struct trouble {
	const char *begin, *end;	/* commands of rank 0 */
	const char *told;		/* by the text of its completion */
	int err;			/* of reconnecting before the end */
	const char *says;
};

static const struct trouble troubles[] = {
	{ "ip link set v0 down", "ip link set v0 up", "whether the link is up", -ENETDOWN,
	  "port rxe0:1 is down, for " },
	{ "ip address del 10.9.0.1/24 dev v0", "ip address add 10.9.0.1/24 dev v0",
	  "the address of this end is gone from the GID table", -ENODATA,
	  "was its address removed?" },
	{ "tc qdisc add dev v0 root netem loss 100%", "tc qdisc del dev v0 root",
	  "the path is broken", -ETIMEDOUT, "this end began again, so the peer of 'qp' must "
	  "reconnect (hartebeest_qp_reconnect()) or follow" },
};

#define IN_VAIN (5 * INT64_C(1000000000))	/* ns; short, since reconnecting must fail */

/* Rank 0 writes until a write fails. */
static void write_in_vain(struct live *live, const char *told)
{
	char text[768];
	struct ibv_wc wc;

	do {
		EXPECT(hartebeest_post_write(live->qp, live->mr->addr, PIECE, live->mr->lkey,
					     live->there.address + WRITTEN, live->there.rkey, 43,
					     IBV_SEND_SIGNALED) == 0);
		live_await(live->cq, &wc);
	} while (wc.status == IBV_WC_SUCCESS);
	EXPECT(hartebeest_completion_text(live->hb, &wc, text, sizeof(text)) >= 0);
	EXPECT(strstr(text, told) != NULL);
}

static int troubled_rank(int rank, void *data)
{
	const struct trouble *trouble = data;
	struct live live;
	int ret;

	live_begin(&live, rank);
	live_connect(&live);
	live_talk(&live);
	together(&live, "talked");
	if (rank == 0) {
		run(trouble->begin);
		gids_settle();
		write_in_vain(&live, trouble->told);
		ret = UNTIL_ANSWERED(hartebeest_qp_reconnect(live.hb, "qp", live.peer,
							     hartebeest_clock() + IN_VAIN));
		EXPECT(ret == trouble->err);
		EXPECT(strstr(hartebeest_error(), trouble->says) != NULL);
		run(trouble->end);
		gids_settle();
		EXPECT(hartebeest_msg_push(live.hb, "repaired", "", 0, 0) == 0);
	} else {
		EXPECT(hartebeest_msg_wait(live.hb, "repaired", NULL, 0, NULL, 0) == 0);
	}
	EXPECT(hartebeest_qp_reconnect(live.hb, "qp", live.peer, 0) == 0);
	live_talk(&live);
	live_close(&live);
	return 0;
}

/* Other IPv4 addresses, such as other tests leave, would replace one that is removed. */
static void leave_one_address(void)
{
	run("for a in $(ip -o -4 address show dev v0 | sed -n 's/.* inet \\([^ ]*\\).*/\\1/p'); do "
	    "[ $a = 10.9.0.1/24 ] || ip address del $a dev v0; done");
	gids_settle();
}

static void broken_connections(void **state)
{
	size_t i;

	(void)state;
	leave_one_address();
	for (i = 0; i < BEEST_COUNT(troubles); i++)
		assert_int_equal(live_pair(troubled_rank, (void *)&troubles[i]), 0);
}

/* ---------------------------------------------------------------- a device that goes --- */

/*
 * Linux 6.1 removes a Soft-RoCE device when its last user has closed it; until then, all users can
 * go on.  So the library must not keep the device open.
 */
static int bereft_rank(int rank, void *data)
{
	struct live live;

	(void)data;
	live_begin(&live, rank);
	live_connect(&live);
	together(&live, "connected");
	if (rank == 0) {
		run("rdma link del rxe0 & echo $! >$TMPDIR/removal");
		pause_ms(200);		/* the removal should begin; a late one does no harm */
	}
	together(&live, "removing");
	live_talk(&live);
	EXPECT(hartebeest_qp_reconnect(live.hb, "qp", live.peer, 0) == 0);
	live_talk(&live);
	live_close(&live);
	return 0;
}

static int talking_rank(int rank, void *data)
{
	struct live live;

	(void)data;
	live_begin(&live, rank);
	live_connect(&live);
	live_talk(&live);
	live_close(&live);
	return 0;
}

static void a_device_that_goes(void **state)
{
	(void)state;
	assert_int_equal(live_pair(bereft_rank, NULL), 0);
	await_removal();
	assert_string_equal(ranks_port(0), "rxe1:1");
	repair(NULL);
	assert_int_equal(live_pair(talking_rank, NULL), 0);
}

/* ------------------------------------------------------------------- little memory --- */

/* Runs as nobody, with little more locked memory than a connection needs. */
static int ordinary_rank(int rank, void *data)
{
	const struct rlimit limit = { 4 * LIVE_BUFFER, 4 * LIVE_BUFFER };
	struct live live;
	struct ibv_mr *mr;

	(void)data;
	EXPECT(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	EXPECT(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
	live_begin(&live, rank);
	live_connect(&live);
	live_talk(&live);
	EXPECT(mr_make(live.hb, "large", "pd", 1 << 20, LIVE_ACCESS, &mr) == -ENOMEM);
	EXPECT(strstr(hartebeest_error(), "'large'") && strstr(hartebeest_error(), "ulimit -l"));
	EXPECT(mr_make(live.hb, "small", "pd", 4096, LIVE_ACCESS, &mr) == 0);
	together(&live, "refused");
	EXPECT(hartebeest_qp_reconnect(live.hb, "qp", live.peer, 0) == 0);
	live_talk(&live);
	live_close(&live);
	return 0;
}

static void little_memory(void **state)
{
	(void)state;
	assert_int_equal(live_pair(ordinary_rank, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(broken_connections, repair),
		cmocka_unit_test_teardown(little_memory, repair),
		cmocka_unit_test_teardown(a_device_that_goes, repair),
		cmocka_unit_test_teardown(bad_weather, repair),
	};

	need_machine();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
