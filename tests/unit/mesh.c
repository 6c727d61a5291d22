/* SPDX-License-Identifier: MIT */
/*
 * mesh.c - all ranks are connected to each other, whatever happens to them meanwhile
 *
 * Ranks are coroutines with their own contexts, over the fake device and the fake servers.
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hartebeest-mesh.h"
#include "lib/base/clock.h"
#include "lib/core/context.h"
#include "lib/core/mesh.h"
#include "lib/verbs/objects.h"
#include "tests/support/crew.h"
#include "tests/support/party.h"
#include "tests/support/registry.h"

#define RANKS PARTY_RANKS

static const char *const two_regions[] = { "mr0", "mr2" };

static struct member {
	struct hartebeest_mesh_attr attr;
	struct hartebeest_mesh *mesh;
	const char *name;
	int64_t delay;			/* before it starts */
	int64_t patience;		/* of its bring-ups; 0: the common one */
	bool repairs;			/* instead of connecting */
	int barriers;
	int64_t ended_at;
	int ret;
	char error[1024];
} members[RANKS];

static int64_t patience;		/* of each bring-up; 0: that of the option */
static const char *setting;		/* of each context; NULL: none */
static int stride;			/* of unit_stride() */

static int setup(void **state)
{
	(void)state;
	crew_need();
	party_start();
	patience = 0;
	memset(members, 0, sizeof(members));
	return 0;
}

static void member_open(int slot, int rank, int size)
{
	struct member *member = &members[slot];

	memset(member, 0, sizeof(*member));
	party_open(slot, rank, size, setting);
	hartebeest_mesh_attr_init(&member->attr);
	member->attr.pd = "pd";
	member->attr.regions = two_regions;
	member->attr.region_count = 2;
	member->name = "m";
}

static void run(void *data)
{
	struct member *member = data;
	struct party_member *context = &party[member - members];
	int64_t deadline, span = member->patience ? member->patience : patience;
	int i, ret;

	crew_pass(member->delay);
	deadline = span ? crew_now() + span : 0;
	member->ret = member->repairs ? hartebeest_mesh_repair(member->mesh, deadline) :
		      hartebeest_mesh_connect(context->hb, member->name, &member->attr,
					      &member->mesh, deadline);
	for (i = 0; i < member->barriers && member->ret >= 0; i++) {
		ret = hartebeest_mesh_barrier(member->mesh, 0);
		member->ret = ret < 0 ? ret : member->ret;
	}
	snprintf(member->error, sizeof(member->error), "%s",
		 member->ret < 0 ? hartebeest_error() : "");
	member->ended_at = crew_now();
}

static void start(int size)
{
	int i;

	for (i = 0; i < size; i++)
		crew_start(run, &members[i]);
}

static void go(int size)
{
	start(size);
	registry_run();
}

static void came(int slot)
{
	if (members[slot].ret < 0)
		print_error("rank %d: %s\n", party[slot].rank, members[slot].error);
	assert_true(members[slot].ret >= 0);
}

static void all_came(int size)
{
	int i;

	for (i = 0; i < size; i++)
		came(i);
}

static void failed(int slot, int ret, const char *why)
{
	const struct member *member = &members[slot];

	if (member->ret != ret || !strstr(member->error, why))
		print_error("rank %d: %d, %s\n", party[slot].rank, member->ret, member->error);
	assert_int_equal(member->ret, ret);
	assert_non_null(strstr(member->error, why));
}

/* Both queue pairs are in RTS, and each knows the number and first PSN of the other. */
static void assert_link(int a, int b, int index)
{
	struct ibv_qp *here = hartebeest_mesh_qp(members[a].mesh, party[b].rank, index);
	struct ibv_qp *there = hartebeest_mesh_qp(members[b].mesh, party[a].rank, index);
	const struct fake_modify *rts;
	size_t i;

	assert_non_null(here);
	assert_non_null(there);
	assert_int_equal(here->state, IBV_QPS_RTS);
	rts = fake_verbs_last_modify(there);
	assert_non_null(rts);
	for (i = fake_verbs.modified_count; i-- > 0;) {
		const struct fake_modify *rtr = &fake_verbs.modified[i % FAKE_HISTORY];

		if (rtr->qp_num != here->qp_num || rtr->attr.qp_state != IBV_QPS_RTR)
			continue;
		assert_int_equal(rtr->attr.dest_qp_num, there->qp_num);
		assert_int_equal(rtr->attr.rq_psn, rts->attr.sq_psn);
		return;
	}
	fail();
}

static void assert_regions(int a, int b)
{
	const int count = (int)members[b].attr.region_count;
	struct hartebeest_remote_mr region;
	struct ibv_mr *mr;
	int i;

	for (i = 0; i < count; i++) {
		assert_int_equal(hartebeest_mr_get(party[b].hb, members[b].attr.regions[i], &mr),
				 0);
		assert_int_equal(hartebeest_mesh_region(members[a].mesh, party[b].rank, i, &region),
				 0);
		assert_int_equal(region.address, (uintptr_t)mr->addr);
		assert_int_equal(region.length, mr->length);
		assert_int_equal(region.rkey, mr->rkey);
	}
	assert_int_equal(hartebeest_mesh_region(members[a].mesh, party[b].rank, count, &region),
			 -ENOENT);
}

static void assert_mesh(int size, int per_peer)
{
	int a, b, index;

	for (a = 0; a < size; a++) {
		came(a);
		for (b = 0; b < size; b++) {
			for (index = 0; a != b && index < per_peer; index++)
				assert_link(a, b, index);
			assert_regions(a, b);
		}
		assert_null(hartebeest_mesh_qp(members[a].mesh, party[a].rank, 0));
		assert_null(hartebeest_mesh_qp(members[a].mesh, party[!a].rank, per_peer));
		assert_null(hartebeest_mesh_qp(members[a].mesh, 1000, 0));
	}
}

static void make(int size)
{
	int i;

	for (i = 0; i < size; i++)
		member_open(i, i, size);
}

static void drop(void)
{
	int i;

	for (i = 0; i < RANKS; i++)
		party_kill(&party[i]);
}

/* For the next of several cases in one test. */
static void again(void)
{
	drop();
	fake_kv_reset();
	fake_verbs_reset();
}

/* -------------------------------------------------------------------------- shapes --- */
/* promise: hartebeest_mesh(3) */

/* Leaves gaps between the numbers, as if other processes made queue pairs, too. */
static void numbers_scatter(const char *function)
{
	static uint32_t turn;

	if (strcmp(function, "ibv_create_qp") == 0)
		fake_verbs.next_qp_num = 1000 + (++turn * 7919) % 100000;
}

/* Each rank's peers are the ranks before and after it; the last rank has no peers. */
static int32_t neighbours[RANKS][2];

static void ring(int size)
{
	int i, a, b;

	for (i = 0; i < size; i++) {
		a = (i + size - 1) % size;
		b = (i + 1) % size;
		neighbours[i][0] = a < b ? a : b;
		neighbours[i][1] = a < b ? b : a;
		members[i].attr.peers = neighbours[i];
		members[i].attr.peer_count = 2;
		members[i].attr.qps_per_peer = 2;
	}
	members[size].attr.peers = neighbours[0];
	members[size].attr.qps_per_peer = 2;
}

static void assert_ring(int size)
{
	int a, b;

	for (a = 0; a <= size; a++) {
		came(a);
		for (b = 0; b <= size; b++) {
			if (a < size && (b == neighbours[a][0] || b == neighbours[a][1])) {
				assert_link(a, b, 0);
				assert_link(a, b, 1);
			} else {
				assert_null(hartebeest_mesh_qp(members[a].mesh, b, 0));
			}
			assert_regions(a, b);
		}
	}
}

static void sizes(void **state)
{
	static const struct {
		int size;
		bool scattered;
		uint32_t per_peer, threads;
		bool ring;			/* and one rank more, which has no peers */
	} rows[] = {
		{ 2, false, 1, 0, false }, { 3, false, 0, 0, false }, { 16, false, 0, 0, false },
		{ 32, false, 0, 0, false }, { 33, false, 0, 0, false }, { 8, true, 0, 0, false },
		{ 33, true, 0, 0, false }, { 5, false, 3, 2, false }, { 5, true, 3, 0, false },
		{ 33, true, 1, 2, false }, { 5, false, 2, 0, true }, { 65, false, 2, 0, true },
	};
	size_t row;
	int i;

	(void)state;
	for (row = 0; row < BEEST_COUNT(rows); row++) {
		const int size = rows[row].size;

		again();
		fake_verbs.hook = rows[row].scattered ? numbers_scatter : NULL;
		make(size + rows[row].ring);
		for (i = 0; i < size; i++) {
			members[i].attr.qps_per_peer = rows[row].per_peer;
			members[i].attr.threads = rows[row].threads;
		}
		if (rows[row].ring)
			ring(size);
		go(size + rows[row].ring);
		if (rows[row].ring)
			assert_ring(size);
		else
			assert_mesh(size, BEEST_MAX((int)rows[row].per_peer, 1));
	}
}

/* Its requests count for a completion queue of the program, as long as it is open. */
static void a_queue_of_the_program(void **state)
{
	struct beest_cq *cq;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		member_open(i, i, 2);
		members[i].attr.cq = "cq";
		members[i].attr.cap.max_send_wr = 128;
		members[i].attr.cap.max_recv_wr = 64;
		members[i].attr.qps_per_peer = 3;
	}
	go(2);
	assert_mesh(2, 3);
	assert_int_equal(beest_context_find_cq(party[0].hb, "cq", &cq), 0);
	assert_int_equal(cq->requests, 3 * (128 + 64));
	assert_int_equal(hartebeest_mesh_close(members[0].mesh), 0);
	assert_int_equal(cq->requests, 0);
}

static void alone(void **state)
{
	struct hartebeest_mesh_stats stats;

	(void)state;
	make(1);
	members[0].barriers = 2;
	go(1);
	came(0);
	assert_int_equal(hartebeest_mesh_stats_get(members[0].mesh, &stats), 0);
	assert_int_equal(stats.total, stats.create.time + stats.publish.time + stats.wait.time +
			 stats.fetch.time + stats.rtr.time + stats.rts.time + stats.confirm.time);
	assert_int_equal(stats.publish.requests, 1);
	assert_int_equal(stats.wait.requests, 1);		/* proposed */
	assert_int_equal(stats.fetch.requests, 0);
	assert_int_equal(stats.confirm.requests, 1);	/* committed */
	assert_int_equal(hartebeest_mesh_repair(members[0].mesh, HARTEBEEST_ONCE), -EINVAL);
	assert_error_is("hartebeest_mesh_repair(): deadline is HARTEBEEST_ONCE, but ranks cannot "
			"meet in one look");
}

/* A queue pair of a mesh has no name, only a mesh and a rank. */
static void completions_name_the_rank(void **state)
{
	struct ibv_wc wc = { .status = IBV_WC_RETRY_EXC_ERR };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	char text[768], wanted[128];
	struct ibv_qp *qp;

	(void)state;
	make(3);
	go(3);
	assert_mesh(3, 1);
	qp = hartebeest_mesh_qp(members[0].mesh, 2, 0);
	wc.qp_num = qp->qp_num;
	assert_true(hartebeest_completion_text(party[0].hb, &wc, text, sizeof(text)) >= 0);
	snprintf(wanted, sizeof(wanted), "of mesh 'm' on fake0:1, connected to 'rank 2' (QP %u of "
		 "the peer (rank 2))", hartebeest_mesh_qp(members[2].mesh, 0, 0)->qp_num);
	assert_non_null(strstr(text, wanted));
	assert_null(strstr(text, "; the peer is"));
	party_kill(&party[2]);
	member_open(3, 2, 3);
	assert_int_equal(hartebeest_msg_push(party[3].hb, "here", "", 0, 0), 0);
	assert_true(hartebeest_mesh_barrier(members[0].mesh,
					    crew_now() + 5 * BEEST_SECOND) < 0);
	fake_kv_count_again();
	assert_true(hartebeest_completion_text(party[0].hb, &wc, text, sizeof(text)) >= 0);
	assert_int_equal(fake_kv.requests, 0);
	assert_non_null(strstr(text, "; the peer is rank 2, which is another process now"));

	fake_verbs_set_state(qp, IBV_QPS_ERR);
	assert_true(hartebeest_post_text(party[0].hb, qp, &wr, -EIO, text, sizeof(text)) >= 0);
	snprintf(wanted, sizeof(wanted), "mesh 'm' (to rank 2, QP %u, RC) did not accept a write ",
		 qp->qp_num);
	assert_non_null(strstr(text, wanted));
	assert_non_null(strstr(text, ": hartebeest_mesh_repair() brings it back when that rank was "
			       "started again"));
	wc.qp_num = 1;
	assert_true(hartebeest_completion_text(party[0].hb, &wc, text, sizeof(text)) >= 0);
	assert_non_null(strstr(text, "of a queue pair unknown to this context"));
}

static struct {
	const char *key;		/* the end of its prefix; "": that of a chunk */
	int left;			/* so often it is lost just before it is read ... */
	bool by_leader;			/* ... by the first rank only */
	size_t rows_read;
} loss;

static bool is_lost(const struct beest_kv *kv, const char *key)
{
	const char *last = strstr(key, "/mesh/m/");

	if (!loss.key || !last || !loss.left || (loss.by_leader && kv != party_kv(&party[0])))
		return false;
	last += strlen("/mesh/m/");

	return loss.key[0] ? strncmp(last, loss.key, strlen(loss.key)) == 0 : strlen(last) == 16;
}

static void loss_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	for (i = 0; i < request->key_count; i++) {
		loss.rows_read += strstr(request->keys[i], "/row.") != NULL;
		if (is_lost(kv, request->keys[i]))
			loss.left -= fake_kv_evict(fake_kv_server("a:1"), request->keys[i]);
	}
}

/*
 * In a mesh of more than 32 ranks, each reads one row of numbers.  Whatever the server has lost is
 * stored again.
 */
static void rows_of_numbers(void **state)
{
	static const struct {
		int size;
		const char *lost;
		int times;
		size_t least, most;	/* reads of rows */
	} rows[] = {
		{ 18, NULL, 0, 0, 0 }, { 32, NULL, 0, 0, 0 }, { 34, NULL, 0, 33, 33 * 3 },
		{ 34, "row.", 34, 34, SIZE_MAX }, { 34, "", 5, 33, SIZE_MAX },
		{ 34, "lead", 5, 33, SIZE_MAX }, { 34, "3", 5, 33, SIZE_MAX },
		{ 18, "lead", 5, 0, 0 }, { 18, "3", 5, 0, 0 },
	};
	size_t row;

	(void)state;
	for (row = 0; row < BEEST_COUNT(rows); row++) {
		again();
		fake_verbs.hook = numbers_scatter;
		make(rows[row].size);
		members[rows[row].size - 1].delay = 5 * BEEST_MS;
		fake_kv.hook = loss_hook;
		loss.key = rows[row].lost;
		loss.left = rows[row].times;
		loss.by_leader = loss.key && loss.key[0] == '3';
		loss.rows_read = 0;
		go(rows[row].size);
		fake_kv.hook = NULL;
		assert_mesh(rows[row].size, 1);
		assert_int_equal(loss.left, 0);
		assert_in_range(loss.rows_read, rows[row].least, rows[row].most);
	}
}

static struct hartebeest_mesh_stats stats_of(int slot)
{
	struct hartebeest_mesh_stats stats;

	assert_int_equal(hartebeest_mesh_stats_get(members[slot].mesh, &stats), 0);
	return stats;
}

/* The ranks' statistics add up to what the servers counted, each request in its phase. */
static void requests_by_phase(void **state)
{
	static const struct {
		int size;
		bool scattered;
		uint64_t fetch;		/* by each rank but the leader */
	} rows[] = { { 1, false, 0 }, { 2, false, 0 }, { 8, true, 0 }, { 20, false, 0 },
		     { 20, true, 0 }, { 40, false, 0 }, { 40, true, 1 } };
	struct hartebeest_mesh_stats stats;
	uint64_t sum, before;
	size_t row;
	int i;

	(void)state;
	for (row = 0; row < BEEST_COUNT(rows); row++) {
		again();
		fake_verbs.hook = rows[row].scattered ? numbers_scatter : NULL;
		make(rows[row].size);
		before = fake_kv.requests;
		go(rows[row].size);
		for (i = 0, sum = 0; i < rows[row].size; i++) {
			came(i);
			stats = stats_of(i);
			assert_int_equal(stats.create.requests, 0);
			assert_int_equal(stats.publish.requests, 1);
			assert_in_range(stats.publish.bytes, 98, UINT64_MAX);
			assert_in_range(stats.fetch.requests, i ? rows[row].fetch : 0,
					i ? 4 * rows[row].fetch : 0);
			assert_int_equal(stats.rtr.requests + stats.rts.requests, 0);
			sum += stats.publish.requests + stats.wait.requests +
			       stats.fetch.requests + stats.confirm.requests;
		}
		assert_int_equal(sum, fake_kv.requests - before);
	}
}

/* INIT takes no time at either rank, RTR 3 ms, and RTS 1 ms.  Both connect at the same time. */
static void steps_last(const char *function)
{
	static const int64_t ms[] = { 0, 0, 3, 3, 1, 1 };
	static size_t turn;

	if (strcmp(function, "ibv_modify_qp") == 0 && turn < BEEST_COUNT(ms))
		crew_pass(ms[turn++] * BEEST_MS);
}

static void times_by_phase(void **state)
{
	struct hartebeest_mesh_stats stats;
	int i;

	(void)state;
	fake_verbs.hook = steps_last;
	make(2);
	go(2);
	for (i = 0; i < 2; i++) {
		came(i);
		stats = stats_of(i);
		assert_int_equal(stats.rtr.time, 3 * BEEST_MS);
		assert_int_equal(stats.rts.time, BEEST_MS);
		assert_int_equal(stats.total, 4 * BEEST_MS + stats.publish.time + stats.wait.time +
				 stats.confirm.time);
	}
}

/* Only ranks 1, 3 and 5 of six take part. */
static void a_part_of_the_ranks(void **state)
{
	static const int32_t ids[] = { 1, 3, 5 };
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		member_open(i, ids[i], 6);
		members[i].attr.ranks = ids;
		members[i].attr.rank_count = 3;
		members[i].barriers = 3;
	}
	go(3);
	assert_mesh(3, 1);
}

/* All have the address of all others, or, where these choose, only that of rank 3. */
static void datagrams(void **state)
{
	static const int32_t chosen[1] = { 3 };
	struct hartebeest_ud_address address;
	bool choose, has;
	int a, b, i;

	(void)state;
	for (i = 0; i < 2; i++) {
		choose = i;
		again();
		make(6);
		for (a = 0; a < 6; a++) {
			members[a].attr.type = IBV_QPT_UD;
			members[a].attr.peers = choose ? chosen : NULL;
			members[a].attr.peer_count = choose && a != 3;
		}
		go(6);
		all_came(6);
		for (a = 0; a < 6; a++)
			for (b = 0; b < 7; b++) {
				has = a != b && b < 6 && (!choose || b == 3);
				assert_int_equal(hartebeest_mesh_ud_address(members[a].mesh, b,
									    &address),
						 has ? 0 : -ENOENT);
				if (!has)
					continue;
				assert_int_equal(address.qp_num,
						 members[b].mesh->qps.slots[0]->qp_num);
				assert_non_null(address.ah);
			}
	}
}

static int refilled[RANKS];

static int refill(void *data, int rank, struct ibv_qp *qp)
{
	(void)data;
	assert_int_equal(qp->state, IBV_QPS_INIT);
	refilled[rank]++;
	return 0;
}

static void receives_are_posted_first(void **state)
{
	int i;

	(void)state;
	memset(refilled, 0, sizeof(refilled));
	make(4);
	for (i = 0; i < 4; i++)
		members[i].attr.refill = refill;
	go(4);
	assert_mesh(4, 1);
	for (i = 0; i < 4; i++)
		assert_int_equal(refilled[i], 3);
}

/* ------------------------------------------------------------------- what goes wrong --- */
/* promise: hartebeest_mesh(3) */

/* The sentence names a misspelt variable, as for any failure that a setting may have caused. */
static void a_misspelt_variable(void **state)
{
	(void)state;
	setenv("HARTEBEEST_DEVCE", "x", 1);
	make(2);
	unsetenv("HARTEBEEST_DEVCE");
	go(1);
	failed(0, -ETIMEDOUT, "; unknown environment variable HARTEBEEST_DEVCE");
}

static char told[256];
static int told_often;

static void tell(void *data, const char *text)
{
	(void)data;
	snprintf(told, sizeof(told), "%s", text);
	told_often++;
}

/* Tested with few ranks, and with more than read each other's records. */
static void missing_ranks_are_reported(void **state)
{
	static const int counts[] = { 4, 66 };
	char expected[256];
	size_t k;

	(void)state;
	for (k = 0; k < 2; k++) {
		again();
		told_often = 0;
		make(counts[k]);
		members[0].attr.progress = tell;
		members[2].delay = 3500 * BEEST_MS;
		members[3].delay = 2500 * BEEST_MS;
		go(counts[k]);
		all_came(counts[k]);
		snprintf(expected, sizeof(expected), "%d of %d have arrived; missing: 2",
			 counts[k] - 1, counts[k]);
		assert_string_equal(told, expected);
		assert_int_equal(told_often, 3);
	}
}

/* ------------------------------------------------------------ what all ranks hear --- */
/* promise: hartebeest_mesh(3) */

/* So long ranks take to believe what they hear, and to look for it. */
#define HEARD (BEEST_FENCE_PATIENCE + BEEST_SECOND)

static int odd_rank;
static int32_t odd_ids[RANKS + 1];
static const char *odd_call;		/* of verbs, which fails; NULL: none */

/* Names a rank that nobody has started, ... */
static void knows_one_more(struct hartebeest_mesh_attr *attr, int size)
{
	int i;

	for (i = 0; i <= size; i++)
		odd_ids[i] = i;
	attr->ranks = odd_ids;
	attr->rank_count = (uint32_t)size + 1;
}

/* ... or in the place of another one. */
static void knows_another(struct hartebeest_mesh_attr *attr, int size)
{
	int i;

	for (i = 0; i < size; i++)
		odd_ids[i] = i + (i >= (odd_rank == 1 ? 2 : 1));
	attr->ranks = odd_ids;
	attr->rank_count = (uint32_t)size;
}

static int refill_never(void *data, int rank, struct ibv_qp *qp)
{
	(void)data;
	(void)rank;
	(void)qp;
	return -EXDEV;
}

static void odd_call_fails(const char *function)
{
	if (odd_call && strcmp(function, odd_call) == 0 && crew_data() == &members[odd_rank])
		fake_verbs_fail(odd_call, 1, ENOMEM);
}

static const char *const wrong_regions[] = { "mr0", "mr7" };

#define USUAL .pd = "pd", .regions = two_regions, .region_count = 2

static const struct odd {
	struct hartebeest_mesh_attr attr;	/* what it asks for, without the size, ... */
	void (*spoil)(struct hartebeest_mesh_attr *attr, int size);	/* ... and without this */
	const char *call;		/* that fails; NULL: none */
	int ret;
	const char *why;		/* in the sentence of all */
} odds[] = {
	{ { USUAL, .qps_per_peer = 2 }, NULL, NULL, -EPROTO,
	  " ask for different meshes: name, ranks, type, qps_per_" },
	{ { .pd = "pd", .regions = two_regions }, NULL, NULL, -EPROTO,
	  " and region_count must be the same, and all or none n" },
	{ { USUAL, .type = IBV_QPT_UD }, NULL, NULL, -EPROTO, " ask for different meshes: " },
	{ { USUAL, .peers = odd_ids }, NULL, NULL, -EPROTO, " ask for different meshes: " },
	{ { USUAL }, knows_one_more, NULL, -EPROTO, " is one of " },
	{ { USUAL }, knows_another, NULL, -EPROTO, " name different ranks" },
	{ { .pd = "pd", .regions = wrong_regions, .region_count = 2 }, NULL, NULL, -ENOENT,
	  "'mr7'" },
	{ { USUAL, .refill = refill_never }, NULL, NULL, -EXDEV,
	  "the refill function of mesh 'm' failed for rank " },
	{ { USUAL }, NULL, "ibv_create_qp", -ENOMEM, "cannot create a RC queue pair" },
	{ { USUAL }, NULL, "ibv_create_cq", -ENOMEM, "cannot create a completion queue" },
};

/* When the odd rank, and each other one after the other, starts. */
static const struct start {
	int64_t odd, step;
} starts[] = {
	{ 0, 0 }, { 0, 10 * BEEST_MS }, { 0, 300 * BEEST_MS }, { 5 * BEEST_SECOND, 0 },
	{ -5 * BEEST_SECOND, 0 }, { -30 * BEEST_SECOND, 0 },
};

static void odd_trial(const struct odd *odd, const struct start *when, int size)
{
	int i;

	again();
	make(size);
	for (i = 0; i < size; i++)
		members[i].delay = i * when->step + (i == odd_rank ? BEEST_MAX(when->odd, 0) :
						     BEEST_MAX(-when->odd, 0));
	members[odd_rank].attr = odd->attr;
	members[odd_rank].attr.size = sizeof(odd->attr);
	if (odd->spoil)
		odd->spoil(&members[odd_rank].attr, size);
	odd_call = odd->call;
	fake_verbs.hook = odd_call_fails;
	patience = 100 * BEEST_SECOND;
	go(size);
	fake_verbs.hook = NULL;
	odd_call = NULL;
}

/*
 * Whatever is wrong with one rank, all hear of it: also those who begin when it has gone, and who
 * is second to notice it no later than who is first.
 */
static void assert_all_hear(const struct odd *odd, int size, int64_t began)
{
	int64_t by = began + members[odd_rank ? 0 : 1].delay, end;
	char who[16];
	bool ok;
	int i;

	/* The leader may not be the one that the failed rank was to meet. */
	if (odd->ret != -EPROTO && members[odd_rank].delay < members[0].delay)
		by += BEEST_FENCE_PATIENCE;
	snprintf(who, sizeof(who), "rank %d ", odd_rank);
	for (i = 0; i < size; i++) {
		end = BEEST_MAX(by, began + BEEST_MAX(members[odd_rank].delay, members[i].delay));
		ok = members[i].ret == odd->ret && strstr(members[i].error, odd->why) &&
		     (i == odd_rank || strstr(members[i].error, who)) &&
		     members[i].ended_at < end + HEARD;
		if (!ok)
			print_error("%d of %d, rank %d: %d after %" PRId64 " ms: %s\n", odd_rank,
				    size, i, members[i].ret, (members[i].ended_at - end) / BEEST_MS,
				    members[i].error);
		assert_true(ok);
	}
}

static void one_is_odd(void **state)
{
	static const int sizes[] = { 4, 40 };
	size_t i, k, when;
	int64_t began;
	int turn = 0;

	(void)state;
	for (i = 0; i < BEEST_COUNT(odds); i++)
		for (when = 0; when < BEEST_COUNT(starts); when++)
			for (k = 0; k < BEEST_COUNT(sizes); k++)
				for (odd_rank = 0; odd_rank < sizes[k];
				     odd_rank += odd_rank ? sizes[k] - 2 : 1) {
					if (k && turn++ % stride)
						continue;
					began = crew_now();
					odd_trial(&odds[i], &starts[when], sizes[k]);
					assert_all_hear(&odds[i], sizes[k], began);
				}
	patience = 0;
}

/* A rank does not name the one before it as a peer.  That one finds out, and reports it to all. */
static void a_wish_of_one_side(void **state)
{
	static const struct {
		int rank, peer;
		const char *why;
	} rows[] = {
		{ 1, 2, "rank 0 cannot connect: rank 0 has rank 1 among its peers, but rank 1 does "
		  "not have rank 0 among its own" },
		{ 3, 4, "rank 2 cannot connect: rank 2 has rank 3 among its peers, but rank 3 does "
		  "not have rank 2 among its own" },
	};
	size_t row;
	int i;

	(void)state;
	for (row = 0; row < BEEST_COUNT(rows); row++) {
		again();
		make(6);
		ring(5);
		neighbours[rows[row].rank][0] = rows[row].peer;
		members[rows[row].rank].attr.peer_count = 1;
		go(6);
		for (i = 0; i < 6; i++)
			failed(i, -EPROTO, rows[row].why);
	}
}

/* --------------------------------------------------------------------- chosen peers --- */
/* promise: hartebeest_mesh(3) */

/* The neighbours of a rank in a grid of @x by @y by @z ranks whose ends meet, ascending. */
static uint32_t grid_peers(int rank, const int size[3], bool corners, int32_t peers[26])
{
	const int at[3] = { rank % size[0], rank / size[0] % size[1], rank / size[0] / size[1] };
	bool near[RANKS] = { false };
	uint32_t count = 0;
	int step, axes, axis, part, other, place[3];

	for (step = 0; step < 27; step++) {
		for (axis = axes = 0, part = step; axis < 3; axis++, part /= 3) {
			axes += part % 3 != 1;
			place[axis] = (at[axis] + part % 3 - 1 + size[axis]) % size[axis];
		}
		if (axes == 1 || (axes > 1 && corners))
			near[place[0] + size[0] * (place[1] + size[1] * place[2])] = true;
	}
	for (other = 0; other < size[0] * size[1] * size[2]; other++)
		if (near[other])
			peers[count++] = other;
	return count;
}

/* Bytes of the chunks that a rank needs, by the view of rank 0, which has them all. */
static size_t bytes_of_chunks(const struct member *member)
{
	const struct beest_view *view = members[0].mesh->view;
	const size_t each = view->chunk_ranks;
	bool needed[RANKS] = { false };
	size_t k, size, sum = 0;
	uint32_t i;

	needed[(size_t)(member - members) / each] = true;
	for (i = 0; i < member->attr.peer_count; i++)
		needed[(size_t)member->attr.peers[i] / each] = true;
	for (k = 0; k * each < view->count; k++)
		if (needed[k]) {
			free(beest_view_encode(view, k, &size));
			sum += size;
		}
	return sum;
}

/* What a rank reads and stores is in proportion to its peers, however many ranks there are. */
static void bytes_of_chosen_peers(void **state)
{
	static const int sizes[][3] = { { 4, 4, 4 }, { 8, 8, 4 }, { 16, 8, 8 } };
	static int32_t peers[RANKS][26];
	struct hartebeest_remote_mr region;
	size_t row, chunks;
	uint64_t bytes;
	int i, count;

	(void)state;
	for (row = 0; row < 2 * BEEST_COUNT(sizes); row++) {
		const int *size = sizes[row / 2];

		again();
		count = size[0] * size[1] * size[2];
		make(count);
		for (i = 0; i < count; i++) {
			members[i].attr.peers = peers[i];
			members[i].attr.peer_count = grid_peers(i, size, row % 2, peers[i]);
			assert_int_equal(members[i].attr.peer_count, row % 2 ? 26 : 6);
		}
		go(count);
		for (i = 0; i < count; i++) {
			came(i);
			bytes = __atomic_load_n(&party[i].hb->registry->bytes, __ATOMIC_RELAXED);
			chunks = bytes_of_chunks(&members[i]);
			if (i && bytes > 2 * chunks)
				print_error("%d ranks, %d peers, rank %d: %d bytes, chunks of %d\n",
					    count, (int)members[i].attr.peer_count, i, (int)bytes,
					    (int)chunks);
			assert_true(!i || bytes <= 2 * chunks);
		}
		assert_int_equal(hartebeest_mesh_region(members[1].mesh, count / 2 + 2, 1, &region),
				 0);
	}
}

static int gather_nothing(void *data, const void *mine, void *all, size_t length)
{
	(void)data;
	(void)mine;
	(void)all;
	(void)length;
	return -1;
}

static void bad_input(void **state)
{
	static const int32_t disorder[] = { 1, 0 }, others[] = { 1, 2 };
	static const char *const unknown[] = { "mr7" }, *const nameless[] = { NULL };
	static const struct {
		struct hartebeest_mesh_attr attr;	/* without its size */
		int ret;
		const char *why;
	} rows[] = {
		{ { .pd = "pd", .regions = unknown, .region_count = 1 }, -ENOENT, "'mr7'" },
		{ { .regions = two_regions, .region_count = 1 }, -EINVAL,
		  "pd does not name the protection domain of region 'mr0'" },
		{ { .pd = "pd", .cq = "cq7" }, -ENOENT, "'cq7'" },
		{ { .regions = nameless, .region_count = 1 }, -EINVAL,
		  "the name of region 0 is NULL" },
		{ { .region_count = 1 }, -EINVAL, "regions is NULL" },
		{ { .regions = unknown, .region_count = 65 }, -EINVAL,
		  "region_count is above 64" },
		{ { .ranks = disorder, .rank_count = 2 }, -EINVAL, "in ascending order" },
		{ { .ranks = others, .rank_count = 2 }, -EINVAL,
		  "do not include rank 0, this process" },
		{ { .ranks = others }, -EINVAL, "rank_count is 0" },
		{ { .rank_count = 2 }, -EINVAL, "ranks is NULL" },
		{ { .rank_count = 2, .gather = gather_nothing, .own_rank = 2 }, -EINVAL,
		  "ranks do not include rank 2, this process" },
		{ { .rank_count = 2, .gather = gather_nothing, .own_rank = -1 }, -EINVAL,
		  "ranks do not include rank -1, this process" },
		{ { .gather = gather_nothing }, -EINVAL, "gather needs rank_count" },
		{ { .peer_count = 1 }, -EINVAL, "peers is NULL" },
		{ { .peers = others, .peer_count = 1 }, -EINVAL,
		  "peers name rank 1, which is not in the mesh" },
		{ { .peers = disorder + 1, .peer_count = 1 }, -EINVAL,
		  "peers name rank 0, which is this process" },
		{ { .cap.max_send_wr = 1 << 30 }, -ERANGE, "" },
	};
	struct member *member = &members[0];
	size_t row;

	(void)state;
	make(1);
	assert_int_equal(hartebeest_mesh_connect(NULL, "m", NULL, &member->mesh, 0), -EINVAL);
	assert_int_equal(hartebeest_mesh_connect(party[0].hb, NULL, NULL, &member->mesh, 0),
			 -EINVAL);
	assert_int_equal(hartebeest_mesh_connect(party[0].hb, "m", NULL, &member->mesh, -2),
			 -EINVAL);
	assert_int_equal(hartebeest_mesh_connect(party[0].hb, "a b", NULL, &member->mesh, 0),
			 -EINVAL);
	assert_error_has("the name 'a b' cannot be part of a key: byte 2 is a blank");
	for (row = 0; row < BEEST_COUNT(rows); row++) {
		member->attr = rows[row].attr;
		member->attr.size = sizeof(member->attr);
		run(member);
		failed(0, rows[row].ret, rows[row].why);
	}
	member->attr.size = 8;
	run(member);
	failed(0, -EINVAL, "mesh_attr has the size 8: hartebeest_mesh_attr_init() was not called");
}

/* Before the first is made, which may take minutes for so many. */
static void more_queue_pairs_than_there_are(void **state)
{
	int i;

	(void)state;
	make(3);
	for (i = 0; i < 3; i++)
		members[i].attr.qps_per_peer = 513;
	go(3);
	for (i = 0; i < 3; i++)
		failed(i, -ERANGE, "needs 1026 queue pairs, but fake0:1 allows all processes "
		       "together 1024: name the ranks that it needs (attr->peers), or take "
		       "IBV_QPT_UD");
	assert_int_equal(fake_verbs_calls("ibv_create_qp"), 0);
	assert_int_equal(fake_verbs_calls("ibv_create_qp_ex"), 0);

	for (i = 0; i < 3; i++)
		members[i].attr.type = IBV_QPT_UD;
	go(3);
	all_came(3);
}

/* ------------------------------------------------------------------------- repairs --- */
/* promise: hartebeest_mesh(3) */

static struct {
	int size;
	int slots[RANKS];		/* by rank */
	int used;			/* slots so far */
	int first, newcomers;		/* ranks that are replaced */
	const struct hartebeest_mesh_attr *attr;	/* without the size; NULL: the usual one */
} repair;

static struct member *repair_member(int rank)
{
	return &members[repair.slots[rank]];
}

static bool is_newcomer(int rank)
{
	return rank >= repair.first && rank < repair.first + repair.newcomers;
}

static void repair_open(int rank)
{
	int slot = repair.used++;

	repair.slots[rank] = slot;
	member_open(slot, rank, repair.size);
	if (repair.attr)
		members[slot].attr = *repair.attr;
	members[slot].attr.size = sizeof(*repair.attr);
}

/* Kills @count ranks from @first on; new processes take their places. */
static void repair_replace(int first, int count)
{
	int i;

	for (i = 0; i < repair.size; i++)
		repair_member(i)->repairs = true;
	for (i = first; i < first + count; i++) {
		party_kill(&party[repair.slots[i]]);
		repair_open(i);
	}
	repair.first = first;
	repair.newcomers = count;
}

/* Newcomers connect; all other ranks repair the mesh. */
static void repair_go(void)
{
	int i;

	for (i = 0; i < repair.size; i++)
		crew_start(run, repair_member(i));
	registry_run();
	fake_kv.hook = NULL;
}

static void repair_check(int rank, int replaced)
{
	int i;

	came(repair.slots[rank]);
	assert_int_equal(repair_member(rank)->ret, replaced);
	for (i = 0; i < repair.size; i++)
		if (i != rank) {
			assert_link(repair.slots[rank], repair.slots[i], 0);
			assert_regions(repair.slots[rank], repair.slots[i]);
		}
}

/* All are connected; ranks that were there before report how many were replaced. */
static void assert_repaired(int replaced)
{
	int i;

	for (i = 0; i < repair.size; i++)
		repair_check(i, is_newcomer(i) ? 0 : replaced);
}

static void repair_run(int first, int count)
{
	int i;

	repair_replace(first, count);
	for (i = 0; i < repair.size; i++)
		repair_member(i)->barriers = 2;
	repair_go();
	assert_repaired(count);
}

static void repair_start(int size, bool scattered)
{
	int i;

	again();
	fake_verbs.hook = scattered ? numbers_scatter : NULL;
	repair.size = size;
	repair.used = 0;
	for (i = 0; i < size; i++)
		repair_open(i);
	go(size);
	all_came(size);
}

static uint16_t lid_used(int a, int b)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(hartebeest_mesh_qp(members[a].mesh, b, 0), &attr, IBV_QP_AV,
				      &init), 0);
	return attr.ah_attr.dlid;
}

static int times_in_rtr(int a, int b)
{
	uint32_t number = hartebeest_mesh_qp(members[a].mesh, b, 0)->qp_num;
	const struct fake_modify *each;
	int times = 0;
	size_t i;

	for (i = 0; i < fake_verbs.modified_count; i++) {
		each = &fake_verbs.modified[i];
		times += each->qp_num == number && each->mask & IBV_QP_STATE &&
			 each->attr.qp_state == IBV_QPS_RTR;
	}
	return times;
}

/*
 * To the others, a rank whose port has another LID is as one that was replaced.  Both ends of a
 * connection begin again, or neither does.
 */
static void a_port_that_changes(void **state)
{
	static const char *const devices[] = {
		"device.name=fake0", "device.name=fake1", "device.name=fake2",
	};
	int rank, times, queries;

	(void)state;
	fake_verbs_infiniband();
	for (rank = 0; rank < 3; rank++) {
		if (rank)
			fake_verbs_add(devices[rank] + strlen("device.name="))->ports[0].lid =
				(uint16_t)(7 + rank);
		setting = devices[rank];
		member_open(rank, rank, 3);
	}
	setting = NULL;
	go(3);
	assert_mesh(3, 1);
	for (times = 0; times < 3; times++) {
		fake_verbs.devices[1].ports[0].lid = times ? 18 : 8;
		queries = fake_verbs_calls("ibv_query_port");
		for (rank = 0; rank < 3; rank++)
			members[rank].repairs = true;
		go(3);
		assert_mesh(3, 1);
		assert_int_equal(fake_verbs_calls("ibv_query_port"), queries + 3);
		for (rank = 0; rank < 3; rank++)
			assert_int_equal(members[rank].ret, times == 1);
		assert_int_equal(lid_used(0, 1), times ? 18 : 8);
		assert_int_equal(lid_used(2, 1), times ? 18 : 8);
		assert_int_equal(lid_used(1, 0), 7);
		assert_int_equal(lid_used(0, 2), 9);
		assert_int_equal(times_in_rtr(0, 1), times ? 2 : 1);
		assert_int_equal(times_in_rtr(1, 0), times ? 2 : 1);
		assert_int_equal(times_in_rtr(0, 2), 1);
	}
}

static size_t leases_count(int rank)
{
	return beest_lease_count(party[repair.slots[rank]].hb->registry->leases, false);
}

/* Whatever ranks have said before is kept no longer than the run, by them and by the server. */
static void nothing_grows(void **state)
{
	static const struct {
		int size, times;
		bool scattered;
	} rows[] = { { 4, 100, false }, { 40, 10, false }, { 40, 10, true } };
	const struct fake_kv_server *server = fake_kv_server("a:1");
	size_t row, leases = 0, items = 0, bytes = 0;
	int n, k;

	(void)state;
	for (row = 0; row < BEEST_COUNT(rows); row++) {
		repair_start(rows[row].size, rows[row].scattered);
		for (n = 0; n < rows[row].times; n++) {
			repair_replace(n % 4, n < 5 && n % 2);
			for (k = 0; k < repair.size; k++)
				repair_member(k)->barriers = 3;
			repair_go();
			assert_repaired(repair.newcomers);
			if (n == 5) {
				leases = leases_count(3);
				items = server->items;
				bytes = server->bytes;
			}
		}
		assert_in_range(leases_count(3), 1, leases + 2);
		assert_in_range(server->items, 1, items + 2);
		assert_in_range(server->bytes, 1, bytes + bytes / 10);
	}
}

/* Holds up rank 1 before each of its requests. */
static void rank_1_is_slow(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)request;
	if (kv == party_kv(&party[1]))
		crew_pass(40 * BEEST_MS);
}

/*
 * After a repair, both ranks make the mesh anew.  Rank 0 still finds what rank 1 said in the
 * repair, and does not take it for what rank 1 is about to say, which has other queue pairs.
 */
static void made_anew_after_a_repair(void **state)
{
	uint32_t repaired;
	int i;

	(void)state;
	repair_start(2, false);
	repair_replace(0, 0);
	repair_go();
	assert_repaired(0);
	repaired = members[1].mesh->body.endpoint.generation;
	for (i = 0; i < 2; i++) {
		assert_int_equal(hartebeest_mesh_close(members[i].mesh), 0);
		members[i].repairs = false;
	}
	members[0].delay = 10 * BEEST_MS;
	fake_kv.hook = rank_1_is_slow;
	repair_go();
	assert_repaired(0);
	assert_true(members[1].mesh->body.endpoint.generation > repaired);
}

static int lags;			/* requests that may be held up, so far */
static int steps;			/* that the queue pair of rank 1 has taken */

static void steps_count(const char *function)
{
	steps += strcmp(function, "ibv_modify_qp") == 0 && crew_data() == &members[1];
}

/* Holds up rank 0 when rank 1 has connected, until that has given up. */
static int64_t rank_0_hold(const struct beest_kv *kv)
{
	return kv == party_kv(&party[0]) && steps == 3 && !lags++ ? 310 * BEEST_MS : 0;
}

static void connects_twice(void *data)
{
	struct member *member = data;

	run(member);
	failed(1, -ETIMEDOUT, "1 of 2 ranks has not arrived: rank 0 (");
	member->patience = 3600 * BEEST_SECOND;
	member->delay = BEEST_SECOND;
	run(member);
}

static void waits_and_repairs(void *data)
{
	struct member *member = data;

	run(member);
	assert_int_equal(member->ret, 0);
	assert_int_equal(hartebeest_mesh_barrier(member->mesh, 0), -ESTALE);
	assert_non_null(strstr(hartebeest_error(), "rank 1 is in a later call for all ranks: "
			       "call hartebeest_mesh_repair()"));
	member->repairs = true;
	run(member);
}

/*
 * Rank 1 has connected, fails by its deadline, and connects again.  Rank 0 has passed, and learns
 * of that at its next barrier, where rank 1 does not come.
 */
static void one_fails_and_connects_again(void **state)
{
	(void)state;
	make(2);
	members[1].patience = 300 * BEEST_MS;
	members[0].patience = 10 * BEEST_SECOND;
	lags = steps = 0;
	fake_verbs.hook = steps_count;
	fake_kv.hold = rank_0_hold;
	crew_start(waits_and_repairs, &members[0]);
	crew_start(connects_twice, &members[1]);
	registry_run();
	fake_kv.hold = NULL;
	assert_int_equal(members[0].ret, 1);
	assert_int_equal(members[1].ret, 0);
	assert_link(0, 1, 0);
	assert_link(1, 0, 0);
}

static int refused_so_far;

static int refuses_once(void *data, int rank, struct ibv_qp *qp)
{
	(void)data;
	(void)rank;
	(void)qp;
	return refused_so_far++ ? 0 : -EIO;
}

static void fails_and_connects(void *data)
{
	struct member *member = data;

	run(member);
	/* A rank that has not read the failure yet takes part in the others' next call. */
	if (member->ret == 0 && member != &members[0] && !member->attr.refill)
		return;
	assert_int_equal(member->ret, -EIO);
	if (member->attr.refill)
		member->delay = 5 * BEEST_SECOND;
	run(member);
}

/* Each calls again at once, but the one that has failed: its refusal ends one call, not two. */
static void a_refusal_ends_one_call(void **state)
{
	static const int sizes[] = { 2, 4, 40 };
	size_t k;
	int i;

	(void)state;
	for (k = 0; k < BEEST_COUNT(sizes); k++) {
		again();
		make(sizes[k]);
		refused_so_far = 0;
		members[1].attr.refill = refuses_once;
		for (i = 0; i < sizes[k]; i++)
			crew_start(fails_and_connects, &members[i]);
		registry_run();
		all_came(sizes[k]);
	}
}

static uint32_t number_again;

static void numbers_again(const char *function)
{
	if (strcmp(function, "ibv_create_qp") == 0)
		fake_verbs.next_qp_num = number_again;
}

/*
 * The device gives the queue pair of rank 1 the number that it had before, and an option fixes the
 * sequence number.  Rank 0 connects to it again nevertheless.
 */
static void made_anew_with_the_same_numbers(void **state)
{
	size_t before, i, resets = 0;
	struct ibv_qp *qp;

	(void)state;
	setting = "qp_attr.sq_psn=77";
	repair_start(2, false);
	setting = NULL;
	repair_replace(0, 0);
	repair.first = 1;
	repair.newcomers = 1;
	number_again = hartebeest_mesh_qp(members[1].mesh, 0, 0)->qp_num;
	assert_int_equal(hartebeest_mesh_close(members[1].mesh), 0);
	members[1].repairs = false;
	fake_verbs.hook = numbers_again;
	before = fake_verbs.modified_count;
	repair_go();
	fake_verbs.hook = NULL;
	fake_verbs.next_qp_num = 0;
	assert_repaired(1);
	assert_int_equal(hartebeest_mesh_qp(members[1].mesh, 0, 0)->qp_num, number_again);
	qp = hartebeest_mesh_qp(members[0].mesh, 1, 0);
	for (i = before; i < fake_verbs.modified_count; i++)
		resets += fake_verbs.modified[i % FAKE_HISTORY].qp_num == qp->qp_num &&
			  fake_verbs.modified[i % FAKE_HISTORY].attr.qp_state == IBV_QPS_RESET;
	assert_int_equal(resets, 1);
}

/* The newcomer cannot know that it is not of the run before, but says so in the end. */
static void a_refill_that_fails(void **state)
{
	(void)state;
	repair_start(2, false);
	repair_replace(1, 1);
	members[0].mesh->qps.attr.refill = refill_never;
	repair_go();
	failed(0, -EXDEV, "rank 0 cannot connect: queue pair 'm' and 'rank 1': the refill "
	       "function of mesh 'm' failed for rank 1: ");
	assert_true(repair_member(1)->ended_at - members[0].ended_at > 5 * BEEST_SECOND);
	failed(repair.slots[1], -ETIMEDOUT, "; rank 0 has failed before, perhaps in an earlier "
	       "run: rank 0 cannot connect: ");
}

static int64_t modify_fails_after;

static void modify_fails(const char *function)
{
	if (strcmp(function, "ibv_modify_qp") == 0 && crew_now() > modify_fails_after)
		fake_verbs_fail("ibv_modify_qp", 1, EINVAL);
}

static void nobody_can_be_connected(void **state)
{
	const int64_t began = crew_now();
	int i;

	(void)state;
	make(2);
	modify_fails_after = began + 50 * BEEST_MS;
	members[1].delay = modify_fails_after - 10 * BEEST_US - began;
	patience = 100 * BEEST_SECOND;
	fake_verbs.hook = modify_fails;
	go(2);
	fake_verbs.hook = NULL;
	for (i = 0; i < 2; i++) {
		assert_int_equal(members[i].ret, -EINVAL);
		assert_in_range(members[i].ended_at - began, 0, HEARD);
	}
}

/* Each queue pair has the options of the adapter, also where ranks name their peers. */
static void options_of_adapters(void **state)
{
	int a, b;

	(void)state;
	fake_verbs.devices[0].ece_vendor = 0x15b3;
	fake_verbs.devices[0].ece_options = 0x13;
	make(4);
	ring(4);
	go(4);
	for (a = 0; a < 4; a++) {
		came(a);
		for (b = 0; b < 4; b++)
			if (hartebeest_mesh_qp(members[a].mesh, b, 0))
				assert_int_equal(fake_verbs_ece(hartebeest_mesh_qp(members[a].mesh,
										   b, 0)), 0x13);
	}
}

/* Until a time, each second step that rank 1 takes beyond INIT fails; with INT64_MAX, each. */
static struct {
	int64_t until;
	int steps;
} unreachable;

static void neighbour_answers_late(const char *function)
{
	if (strcmp(function, "ibv_modify_qp") != 0 || crew_data() != &members[1])
		return;
	if (++unreachable.steps > 3 && crew_now() < unreachable.until &&
	    (unreachable.steps % 2 || unreachable.until == INT64_MAX))
		fake_verbs_fail("ibv_modify_qp", 1, EHOSTUNREACH);
}

static void unreachable_run(int64_t until)
{
	make(4);
	unreachable.until = until;
	unreachable.steps = 0;
	fake_verbs.hook = neighbour_answers_late;
	go(4);
	fake_verbs.hook = NULL;
}

/* A rank whose neighbours do not answer yet connects later; the others wait for it. */
static void a_neighbour_that_answers_late(void **state)
{
	const int64_t began = crew_now();
	int i;

	(void)state;
	unreachable_run(began + 3 * BEEST_SECOND);
	assert_true(unreachable.steps > 20);
	assert_mesh(4, 1);
	for (i = 0; i < 4; i++)
		assert_in_range(members[i].ended_at - began, 2 * BEEST_SECOND, 6 * BEEST_SECOND);
}

/* All ranks hear which neighbour never answered. */
static void a_neighbour_that_never_answers(void **state)
{
	int i;

	(void)state;
	unreachable_run(INT64_MAX);
	for (i = 0; i < 4; i++) {
		failed(i, members[i].ret, "rank 1 cannot connect: tried for ");
		failed(i, members[i].ret, "there is no route to the peer's address ");
	}
	failed(1, -EHOSTUNREACH, "");
}

static pthread_t caller;
static int foreign_calls;		/* calls of refill by other threads; atomic */

/* Gives other threads the time to come here, too. */
static int refill_slowly(void *data, int rank, struct ibv_qp *qp)
{
	(void)data;
	(void)qp;
	if (!pthread_equal(pthread_self(), caller))
		__atomic_add_fetch(&foreign_calls, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&refilled[rank], 1, __ATOMIC_RELAXED);
	usleep(3000);
	return 0;
}

/* Four of six are replaced.  Whatever threads connect, only the caller's posts receives. */
static void repaired_by_several_threads(void **state)
{
	static const struct hartebeest_mesh_attr attr = {
		USUAL, .threads = 3, .refill = refill_slowly,
	};

	(void)state;
	caller = pthread_self();
	foreign_calls = 0;
	repair.attr = &attr;
	repair_start(6, false);
	memset(refilled, 0, sizeof(refilled));
	repair_run(2, 4);
	assert_int_equal(refilled[0], 4);	/* of newcomers */
	assert_int_equal(refilled[2], 5);	/* of all others */
	assert_int_equal(foreign_calls, 0);
	assert_int_equal(stats_of(repair.slots[0]).create.time, 0);
	drop();
	repair.attr = NULL;
}

static void break_device(void *data)
{
	(void)data;
	crew_pass(50 * BEEST_MS);
	fake_verbs_fail("ibv_modify_qp", 0, EIO);
}

/* An earlier failure is not repeated by a later repair, which waits for a rank in vain. */
static void a_repair_after_a_failure(void **state)
{
	int i;

	(void)state;
	repair_start(4, false);
	repair_replace(2, 1);
	for (i = 0; i < 4; i++)
		repair_member(i)->delay = i == 2 ? 0 : 100 * BEEST_MS;
	crew_start(break_device, NULL);
	patience = BEEST_SECOND;
	repair_go();
	assert_int_equal(repair_member(0)->ret, -EIO);
	memset(fake_verbs.failures, 0, sizeof(fake_verbs.failures));
	party_kill(&party[repair.slots[2]]);
	fake_kv_restart(fake_kv_server("a:1"));
	for (i = 0; i < 4; i++)
		if (i != 2)
			crew_start(run, repair_member(i));
	registry_run();
	patience = 0;
	for (i = 0; i < 4; i++)
		if (i != 2)
			failed(repair.slots[i], -ETIMEDOUT, "rank 2 ");
}

static void run_again(void *data)
{
	struct member *member = data;

	run(member);
	member->patience = 0;
	if (member->ret < 0)
		run(member);
}

static int lag_at;			/* the request of rank 1 that is held up */

/* For longer than others believe what they hear. */
static int64_t long_hold(const struct beest_kv *kv)
{
	return kv == party_kv(&party[1]) && lags++ == lag_at ? 3 * BEEST_SECOND : 0;
}

/* No rank was started again, but one repairs twice, while another is held up. */
static void repaired_again_while_one_is_held_up(void **state)
{
	static const int all[] = { 20, 40 };
	size_t k;
	int i;

	(void)state;
	for (k = 0; k < BEEST_COUNT(all); k++)
		for (lag_at = 0; lag_at < 6; lag_at++) {
			repair_start(all[k], false);
			repair_replace(0, 0);
			lags = 0;
			fake_kv.hold = long_hold;
			repair_member(5)->patience = BEEST_SECOND;
			for (i = 0; i < all[k]; i++)
				crew_start(i == 5 ? run_again : run, repair_member(i));
			registry_run();
			fake_kv.hold = NULL;
			for (i = 0; i < all[k]; i++)
				if (i != 5)
					came(repair.slots[i]);
			assert_null(strstr(repair_member(5)->error, "was started again"));
		}
}

/* They make contributions so large that an entry has little room. */
static void repaired_with_many_regions(void **state)
{
	static const char *regions[64];
	static const struct hartebeest_mesh_attr attr = {
		.pd = "pd", .regions = regions, .region_count = BEEST_COUNT(regions),
	};
	static const int all[] = { 5, 20 };
	size_t k;

	(void)state;
	for (k = 0; k < BEEST_COUNT(regions); k++)
		regions[k] = k % 2 ? "mr2" : "mr0";
	repair.attr = &attr;
	for (k = 0; k < BEEST_COUNT(all); k++) {
		repair_start(all[k], false);
		repair_run(2, 1);
		repair_run(1, 3);
	}
	repair.attr = NULL;
}

/* Rank 0 gives up at any time, and repairs again with others, which may be one repair ahead. */
static void one_gives_up(void **state)
{
	static const int all[] = { 4, 20 };
	bool early, done[RANKS];
	int64_t span;
	size_t k;
	int i;

	(void)state;
	for (k = 0; k < BEEST_COUNT(all); k++)
		for (span = 10 * BEEST_US, early = true; early; span += span / 4) {
			repair_start(all[k], false);
			repair_replace(2, 1);
			patience = BEEST_SECOND;
			members[0].patience = span;
			repair_go();
			patience = members[0].patience = 0;
			for (i = 0; i < all[k]; i++)
				done[i] = repair_member(i)->ret >= 0;
			early = !done[0];
			repair_replace(3, 1);
			repair_member(2)->repairs = done[2];
			repair_go();
			for (i = 0; i < all[k]; i++)
				repair_check(i, i == 3 || (i == 2 && !done[2]) ? 0 :
					     1 + !(done[i] && done[2]));
		}
}

/* ------------------------------------------------------------ what others leave behind --- */
/* promise: hartebeest_mesh(3) */

static struct {
	char bytes[8192];
	size_t size;
	int at, looks;
} leftover;

/* What a dead process has sent arrives at one look of any rank. */
static void leftover_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	(void)kv;
	for (i = 0; i < request->key_count; i++)
		if (strstr(request->keys[i], "/mesh/m/") && leftover.looks++ == leftover.at)
			fake_kv_put(fake_kv_server("a:1"), "hb1/job/fence/mesh/m/2",
				    leftover.bytes, leftover.size, 60);
}

/* The record of the process that had rank 2, whole, cut or damaged, comes late. */
static void late_writes_of_the_dead(void **state)
{
	static const struct {
		int size;
		size_t cut, spoilt;
	} rows[] = { { 4, 0, 0 }, { 4, 1, 0 }, { 4, 100, 0 }, { 4, 0, 50 }, { 40, 0, 0 } };
	const void *bytes;
	size_t row;

	(void)state;
	for (row = 0; row < BEEST_COUNT(rows); row++)
		for (leftover.at = leftover.looks = 0; leftover.looks >= leftover.at;
		     leftover.at += 1 + leftover.at * stride / 8) {
			repair_start(rows[row].size, false);
			bytes = fake_kv_get(fake_kv_server("a:1"), "hb1/job/fence/mesh/m/2",
					    &leftover.size);
			assert_non_null(bytes);
			assert_in_range(leftover.size, 101, sizeof(leftover.bytes));
			memcpy(leftover.bytes, bytes, leftover.size);
			leftover.size -= rows[row].cut;
			leftover.bytes[rows[row].spoilt] ^= rows[row].spoilt != 0;
			repair_replace(2, 1);
			leftover.looks = 0;
			fake_kv.hook = leftover_hook;
			repair_go();
			assert_repaired(1);
		}
}

/* --------------------------------------------------------- by the program's exchange --- */
/* promise: hartebeest_mesh(3) */

static struct {
	int size, arrived, left;
	uint8_t bytes[RANKS][4096];
	int fails;			/* the n-th call; 0: none */
	int calls[RANKS];
	int run;			/* the number of halls before, which hall_past recorded */
} hall;

#define HALL_CALLS 5			/* of a bring-up and one barrier */
#define HALL_RANKS 4

static uint8_t hall_past[2][HALL_CALLS][HALL_RANKS][1024];

/* What a wrong gather() stores at a position. */
static struct {
	enum { RIGHT, SWAPPED, DOUBLED, CUT, MISSING, PREVIOUS, FORMER, ALL_FORMER } kind;
	int call;			/* the n-th */
	int seen_by;			/* the rank that gets it; -1: all */
} wrong;

static void hall_record(int own, const void *mine, size_t length)
{
	if (hall.calls[own] > HALL_CALLS || own >= HALL_RANKS)
		return;
	assert_in_range(length, 1, sizeof(hall_past[0][0][0]));
	memcpy(hall_past[hall.run][hall.calls[own] - 1][own], mine, length);
}

static void hall_spoil(int own, uint8_t *all, size_t length)
{
	const int at = hall.calls[own] - 1;
	const int position = hall.size / 2;
	uint8_t *place = all + (size_t)position * length;
	int i;

	if (!wrong.kind || wrong.call != at + 1 || (wrong.seen_by >= 0 && wrong.seen_by != own))
		return;
	if (wrong.kind == DOUBLED || wrong.kind == SWAPPED)
		memcpy(place, place - length, length);
	if (wrong.kind == SWAPPED)
		memcpy(place - length, hall.bytes[position], length);
	if (wrong.kind == CUT || wrong.kind == MISSING)
		memset(place + (wrong.kind == CUT ? length / 2 : 0), 0,
		       wrong.kind == CUT ? length - length / 2 : length);
	if (wrong.kind == PREVIOUS)
		memcpy(place, at ? hall_past[1][at - 1][position] :
		       hall_past[0][HALL_CALLS - 1][position], length);
	if (wrong.kind == FORMER)
		memcpy(place, hall_past[0][at][position], length);
	for (i = 0; i < hall.size && wrong.kind == ALL_FORMER; i++)
		memcpy(all + (size_t)i * length, hall_past[0][at][i], length);
}

/* A rank whose peers do not come would wait here for ever. */
static bool hall_waits(int64_t since)
{
	crew_pass(BEEST_MS);
	return crew_now() - since < 100 * BEEST_SECOND;
}

static int all_gather(void *data, const void *mine, void *all, size_t length)
{
	int own = (int)((struct member *)data - members), i;
	int64_t since = crew_now();

	if (hall.fails && --hall.fails == 0)
		return -EIO;
	while (hall.left)
		if (!hall_waits(since))
			return -ETIMEDOUT;
	hall.calls[own]++;
	hall_record(own, mine, length);
	memcpy(hall.bytes[own], mine, length);
	hall.arrived++;
	while (hall.arrived < hall.size)
		if (!hall_waits(since))
			return -ETIMEDOUT;
	for (i = 0; i < hall.size; i++)
		memcpy((uint8_t *)all + (size_t)i * length, hall.bytes[i], length);
	hall_spoil(own, all, length);
	if (++hall.left == hall.size)
		hall.left = hall.arrived = 0;
	return 0;
}

static void gather_make(int size)
{
	int i;

	memset(&hall, 0, sizeof(hall));
	memset(&wrong, 0, sizeof(wrong));
	hall.size = size;
	make(size);
	for (i = 0; i < size; i++) {
		members[i].attr.gather = all_gather;
		members[i].attr.gather_data = &members[i];
		members[i].attr.rank_count = (uint32_t)size;
		members[i].attr.own_rank = i;
	}
}

static void neighbours_gathered(void **state)
{
	(void)state;
	gather_make(6);
	ring(5);
	go(6);
	assert_ring(5);
}

/* Ranks are ids here, too, whatever numbers the program's own exchange uses. */
static void gathered_with_gaps(void **state)
{
	static const int32_t ids[] = { 5, 9 };
	int i;

	(void)state;
	gather_make(2);
	for (i = 0; i < 2; i++) {
		members[i].attr.ranks = ids;
		members[i].attr.own_rank = ids[i];
	}
	go(2);
	for (i = 0; i < 2; i++) {
		came(i);
		assert_non_null(hartebeest_mesh_qp(members[i].mesh, ids[!i], 0));
		assert_null(hartebeest_mesh_qp(members[i].mesh, ids[i], 0));
		assert_non_null(strstr(hartebeest_error(), ids[i] == 5 ?
				       "has no queue pair 0 to rank 5" :
				       "has no queue pair 0 to rank 9"));
	}
	assert_null(hartebeest_mesh_cq(NULL));
	assert_string_equal(hartebeest_error(), "hartebeest_mesh_cq(): mesh is NULL");
}

static void gathered(void **state)
{
	int i;

	(void)state;
	gather_make(6);
	for (i = 0; i < 6; i++)
		members[i].barriers = 2;
	fake_kv_count_again();
	go(6);
	assert_mesh(6, 1);
	assert_int_equal(fake_kv.requests, 0);
	drop();
	fake_verbs_reset();
	fake_verbs.hook = numbers_scatter;
	gather_make(4);
	go(4);
	assert_mesh(4, 1);
}

/* A rank that cannot make a mesh at all says so, too, so nobody waits for it. */
static void one_is_refused_and_nobody_hangs(void **state)
{
	static const int32_t foreign[] = { 7 };
	int i;

	(void)state;
	gather_make(3);
	members[1].attr.peers = foreign;
	members[1].attr.peer_count = 1;
	go(3);
	assert_int_equal(members[1].ret, -EINVAL);
	assert_string_equal(members[1].error, "mesh 'm': struct hartebeest_mesh_attr: peers name "
			    "rank 7, which is not in the mesh");
	for (i = 0; i < 3; i += 2) {
		assert_int_equal(members[i].ret, -ECONNABORTED);
		assert_string_equal(members[i].error,
				    "mesh 'm': rank 1 has failed: Invalid argument");
	}
}

/* Each rank fails with -EPROTO and a sentence, after as many calls as all others. */
static void assert_all_disagree(const char *rank_0, const char *others)
{
	int i;

	for (i = 0; i < hall.size; i++) {
		failed(i, -EPROTO, i ? others : rank_0);
		assert_int_equal(hall.calls[i], hall.calls[0]);
	}
}

/* What the program says of its ranks is not what its gather() does. */
static void ranks_of_another_order(void **state)
{
	static const struct {
		int own[4];
		uint32_t last_count;	/* what the last rank takes for the number of ranks */
		const char *last_name;
		const char *why_0, *why;	/* what rank 0 says, and the others */
	} rows[] = {
		{ { 0, 0, 0, 0 }, 4, "m", "mesh 'm': the contribution at position 1 is that of "
		  "rank 0, not of rank 1: own_rank, or the order in which gather stores what ranks "
		  "contribute, is not that of the ranks", "at position 1 is that of rank 0" },
		{ { 3, 2, 1, 0 }, 4, "m", "at position 0 is that of rank 3, not of rank 0",
		  "at position 0 is that of rank 3, not of rank 0" },
		{ { 0, 2, 1, 3 }, 4, "m", "at position 1 is that of rank 2, not of rank 1",
		  "at position 1 is that of rank 2, not of rank 1" },
		{ { 0, 1, 2, 2 }, 4, "m", "at position 3 is that of rank 2, not of rank 3",
		  "at position 3 is that of rank 2, not of rank 3" },
		{ { 0, 1, 2, 3 }, 5, "m", "the contribution at position 3, that of rank 3, is to a "
		  "mesh of 5 ranks, but this one has 4", " ranks, but this one has " },
		{ { 0, 1, 2, 3 }, 4, "n", "rank 0 and rank 3 ask for different meshes: name, ",
		  " ask for different meshes: name, " },
	};
	size_t row;
	int i;

	(void)state;
	for (row = 0; row < BEEST_COUNT(rows); row++) {
		gather_make(4);
		for (i = 0; i < 4; i++)
			members[i].attr.own_rank = rows[row].own[i];
		members[3].attr.rank_count = rows[row].last_count;
		members[3].name = rows[row].last_name;
		go(4);
		assert_all_disagree(rows[row].why_0, rows[row].why);
		drop();
	}
}

#define OF_RANK_2 "the contribution at position 2 is that of rank 2 to call "
#define TOLD(n) "rank 1 did not receive at position " #n " what rank " #n " contributed: "

/*
 * Makes a mesh, and then another one whose gather() is wrong in that call, which may be that of a
 * barrier.
 */
static void gather_again(int size, int kind, int call, int seen_by)
{
	int i, run;

	for (run = 0; run < 2; run++) {
		drop();
		gather_make(size);
		hall.run = run;
		wrong.kind = run ? kind : RIGHT;
		wrong.call = call;
		wrong.seen_by = seen_by;
		for (i = 0; i < size; i++)
			members[i].barriers = !run || call == HALL_CALLS;
		go(size);
		if (!run)
			assert_mesh(size, 1);
		fake_verbs.hook = NULL;
		fake_verbs.next_qp_num = 0;
	}
}

/*
 * All disagree, even if one alone sees it: it reports that in the next call.  After the last call
 * of a bring-up, and in a barrier, it is too late for that.
 */
static void assert_noticed(const char *seen, const char *others)
{
	int i;

	for (i = 0; i < hall.size; i++) {
		const bool sees = wrong.seen_by < 0 || wrong.seen_by == i;
		const char *why = sees ? seen : others;
		const int ret = sees || wrong.call < 4 ? -EPROTO : 0;

		/* In the first call, only its author knows that it is not of this call. */
		if (wrong.seen_by != 1 && (wrong.seen_by >= 0 || wrong.kind == FORMER))
			why = " rank ";
		if (members[i].ret != ret || (ret && !strstr(members[i].error, why)))
			print_error("kind %d, call %d, seen by %d, rank %d: %d, %s\n", wrong.kind,
				    wrong.call, wrong.seen_by, i, members[i].ret,
				    members[i].error);
		assert_int_equal(members[i].ret, ret);
		assert_true(!ret || strstr(members[i].error, why));
		assert_int_equal(hall.calls[i], hall.calls[0]);
	}
}

/* At each call, all ranks, or one alone, get something else than what ranks contribute. */
static void wrong_contributions(void **state)
{
	static const struct {
		int kind;
		const char *calls;
		const char *seen, *others;	/* what rank 1 says if it sees it, and others */
	} rows[] = {
		{ SWAPPED, "12345", "the contribution at position 1 is that of rank 2, not of "
		  "rank 1: own_rank, or the order", TOLD(1) },
		{ DOUBLED, "12345", "the contribution at position 2 is that of rank 1, not of "
		  "rank 2: own_rank, or the order", TOLD(2) },
		{ CUT, "12345", "the contribution at position 2, that of rank 2, is incomplete or "
		  "damaged: gather must store all ", TOLD(2) },
		{ MISSING, "12345", "the contribution at position 2, that of rank 2, is "
		  "incomplete or damaged: gather must store all ", TOLD(2) },
		{ PREVIOUS, "1", OF_RANK_2 "5 of gather for a mesh, not to call 1 for this mesh",
		  TOLD(2) },
		{ PREVIOUS, "2", OF_RANK_2 "1 of gather for a mesh, not to call 2 for this mesh: "
		  "gather must store what ranks contribute to this call", TOLD(2) },
		{ PREVIOUS, "34", "the contribution at position 2, that of rank 2, is incomplete",
		  TOLD(2) },
		{ PREVIOUS, "5", OF_RANK_2 "4 of gather for a mesh, not to call 5 for this mesh",
		  TOLD(2) },
		{ FORMER, "1", " received different contributions to one call of gather",
		  " received different contributions to one call of gather" },
		{ FORMER, "2", OF_RANK_2 "2 of gather", TOLD(2) },
		{ FORMER, "3", OF_RANK_2 "3 of gather", TOLD(2) },
		{ FORMER, "4", OF_RANK_2 "4 of gather", TOLD(2) },
		{ FORMER, "5", OF_RANK_2 "5 of gather", TOLD(2) },
		{ ALL_FORMER, "1", " to call 1 of gather for a mesh, not to call 1 for this mesh",
		  TOLD(1) },
		{ ALL_FORMER, "2345", "the contribution at position 0 is that of rank 0 to call ",
		  TOLD(0) },
	};
	const char *call;
	size_t row;
	int i;

	(void)state;
	for (row = 0; row < BEEST_COUNT(rows); row++)
		for (call = rows[row].calls; *call; call++) {
			for (i = -1; i < 4; i++) {
				gather_again(4, rows[row].kind, *call - '0', i);
				assert_noticed(rows[row].seen, rows[row].others);
			}
			for (i = -1; i < 2; i++) {
				gather_again(2, rows[row].kind, *call - '0', i);
				assert_noticed(" rank ", " rank ");
			}
		}
}

/* The former contribution named a list, so rank 1 would make longer contributions than others. */
static void a_former_list(void **state)
{
	(void)state;
	fake_verbs.hook = numbers_scatter;
	gather_again(4, FORMER, 1, 1);
	assert_noticed(" received different contributions", " received different contributions");
	assert_int_equal(hall.calls[0], 2);
}

static void pass_barrier(void *data)
{
	struct member *member = data;

	member->ret = hartebeest_mesh_barrier(member->mesh, 0);
	snprintf(member->error, sizeof(member->error), "%s", hartebeest_error());
}

/* A rank whose barrier has failed is one call behind, so that the next barrier of all fails. */
static void a_barrier_that_one_has_failed(void **state)
{
	int i;

	(void)state;
	gather_again(HALL_RANKS, CUT, HALL_CALLS, 1);
	assert_int_equal(members[1].ret, -EPROTO);
	for (i = 0; i < hall.size; i++) {
		members[i].ret = 0;
		crew_start(pass_barrier, &members[i]);
	}
	registry_run();
	assert_all_disagree("mesh 'm', barrier 2: the contribution at position 1 is that of "
			    "rank 1 to call 5 of gather for a mesh, not to call 6",
			    " of gather for a mesh, not to call ");
}

/* Each verbs call fails once: either the mesh is made, or nothing of it is left. */
static void each_call_fails(void **state)
{
	int by, n, i;

	(void)state;
	patience = 100 * BEEST_MS;
	for (by = 0; by < 2; by++) {
		for (n = 1; ; n++) {
			again();
			(by ? gather_make : make)(3);
			fake_verbs_fail("*", n, EIO);
			go(3);
			if (!fake_verbs.fired)
				break;
			for (i = 0; i < 3; i++)
				if (members[i].ret == 0)
					hartebeest_mesh_close(members[i].mesh);
				else
					assert_true(members[i].error[0]);
			assert_int_equal(fake_verbs.qps, 0);
			assert_int_equal(fake_verbs.cqs, 3);
		}
		assert_in_range(n, 10, 300);
	}
}

#define SCENE(test) cmocka_unit_test_setup_teardown(test, setup, party_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE(sizes),
		SCENE(alone),
		SCENE(a_queue_of_the_program),
		SCENE(completions_name_the_rank),
		SCENE(rows_of_numbers),
		SCENE(requests_by_phase),
		SCENE(times_by_phase),
		SCENE(a_part_of_the_ranks),
		SCENE(bytes_of_chosen_peers),
		SCENE(datagrams),
		SCENE(receives_are_posted_first),
		SCENE(a_misspelt_variable),
		SCENE(missing_ranks_are_reported),
		SCENE(one_is_odd),
		SCENE(a_wish_of_one_side),
		SCENE(bad_input),
		SCENE(more_queue_pairs_than_there_are),
		SCENE(each_call_fails),
		SCENE(a_repair_after_a_failure),
		SCENE(repaired_again_while_one_is_held_up),
		SCENE(a_port_that_changes),
		SCENE(nothing_grows),
		SCENE(made_anew_after_a_repair),
		SCENE(made_anew_with_the_same_numbers),
		SCENE(a_refill_that_fails),
		SCENE(one_fails_and_connects_again),
		SCENE(a_refusal_ends_one_call),
		SCENE(nobody_can_be_connected),
		SCENE(options_of_adapters),
		SCENE(a_neighbour_that_answers_late),
		SCENE(a_neighbour_that_never_answers),
		SCENE(repaired_by_several_threads),
		SCENE(repaired_with_many_regions),
		SCENE(one_gives_up),
		SCENE(late_writes_of_the_dead),
		SCENE(gathered),
		SCENE(gathered_with_gaps),
		SCENE(neighbours_gathered),
		SCENE(one_is_refused_and_nobody_hangs),
		SCENE(ranks_of_another_order),
		SCENE(wrong_contributions),
		SCENE(a_former_list),
		SCENE(a_barrier_that_one_has_failed),
	};

	stride = unit_stride(7);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
