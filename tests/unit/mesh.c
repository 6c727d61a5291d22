/* SPDX-License-Identifier: MIT */
/*
 * mesh.c - all ranks are connected to each other, whatever happens to them meanwhile
 *
 * Ranks are coroutines with their own contexts, over the fake device and the fake servers.
 */
#include "config.h"

#include "tests/support/unit.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hartebeest-mesh.h"
#include "lib/base/clock.h"
#include "lib/core/context.h"
#include "lib/core/mesh.h"
#include "lib/rendezvous/entry.h"
#include "lib/verbs/cq.h"
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
	int64_t dies;			/* silently, at the first look from this instant on */
	bool repairs;			/* instead of connecting */
	bool finds_out;			/* at a barrier, that it must repair */
	bool stays;			/* afterwards, to look after its records */
	int barriers;
	bool ended;
	int64_t ended_at;
	int ret;
	char error[1024];
} members[RANKS];

static int rank_dies(void *data)
{
	const struct member *member = data;

	return member->dies && crew_now() >= member->dies ? beest_fail(EINTR, "killed") : 0;
}

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

static int teardown(void **state)
{
	(void)state;
	crew_clear();
	party_end();
	if (fake_verbs.open)
		print_error("%d objects are still open\n", fake_verbs.open);
	return fake_verbs.open;
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

/* A record that a server lost is stored again only when its rank looks. */
static void look_after(const struct party_member *context)
{
	int i;

	for (i = 0; i < 40; i++) {
		crew_pass(200 * BEEST_MS);
		registry_look(context->hb->registry, BEEST_LOOK_CHECK);
	}
}

static void run(void *data)
{
	struct member *member = data;
	struct party_member *context = &party[member - members];
	int64_t deadline, span = member->patience ? member->patience : patience;
	int i, ret;

	crew_pass(member->delay);
	member->ended = false;
	if (beest_context_need_registry(context->hb, BEEST_KIND_ANY, NULL) == 0 && member->dies) {
		context->hb->registry->interrupt = rank_dies;
		context->hb->registry->explain = NULL;
		context->hb->registry->data = member;
	}
	if (member->finds_out)
		assert_int_equal(hartebeest_mesh_barrier(member->mesh, 0), -ESTALE);
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
	if (member->ret == -EINTR)
		party_kill(context);
	member->ended = true;
	member->ended_at = crew_now();
	if (member->stays)
		look_after(context);
}

static void start(int size)
{
	int i;

	for (i = 0; i < size; i++)
		crew_start(run, &members[i]);
}

static void came(int slot)
{
	if (members[slot].ret < 0)
		print_error("rank %d: %s\n", party[slot].rank, members[slot].error);
	assert_true(members[slot].ret >= 0);
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
	struct hartebeest_remote_mr region;
	struct ibv_mr *mr;
	int i;

	for (i = 0; i < 2; i++) {
		assert_int_equal(hartebeest_mr_get(party[b].hb, two_regions[i], &mr), 0);
		assert_int_equal(hartebeest_mesh_region(members[a].mesh, party[b].rank, i, &region),
				 0);
		assert_int_equal(region.address, (uintptr_t)mr->addr);
		assert_int_equal(region.length, mr->length);
		assert_int_equal(region.rkey, mr->rkey);
	}
	assert_int_equal(hartebeest_mesh_region(members[a].mesh, party[b].rank, 2, &region),
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

/* ------------------------------------------------------------------- one after the other --- */

#define ROUNDS 3

static struct {
	int size, begun[ROUNDS];
	int hold_at, requests;		/* of the last rank */
	int64_t hold_for;
} scripts;

/* One process after the other takes this rank; each connects the same mesh once. */
static void script_run(void *data)
{
	const int slot = (int)((struct member *)data - members);
	int round;

	for (round = 0; round < ROUNDS; round++) {
		member_open(slot, slot, scripts.size);
		scripts.begun[round]++;
		run(&members[slot]);
		if (members[slot].ret < 0 || scripts.begun[round] != scripts.size)
			print_error("request %d held up: round %d, ", scripts.hold_at, round);
		came(slot);
		assert_int_equal(scripts.begun[round], scripts.size);
		party_close(&party[slot]);
	}
}

static void script_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)request;
	if (kv == party_kv(&party[scripts.size - 1]) && scripts.requests++ == scripts.hold_at)
		crew_pass(scripts.hold_for);
}

static void scripts_held_up(int size, int64_t duration)
{
	int i, at;

	for (at = 0; at <= scripts.requests; at += stride) {
		fake_kv_reset();
		fake_verbs_reset();
		memset(&scripts, 0, sizeof(scripts));
		scripts.size = size;
		scripts.hold_at = at;
		scripts.hold_for = duration;
		fake_kv.hook = script_hook;
		for (i = 0; i < size; i++)
			crew_start(script_run, &members[i]);
		registry_run();
	}
	fake_kv.hook = NULL;
	assert_in_range(at, 3 * ROUNDS, 200);
}

/* A rank that has not seen that all know when the next processes come still passes. */
static void meshes_of_scripts(void **state)
{
	(void)state;
	scripts_held_up(3, 60 * BEEST_MS);
	scripts_held_up(3, 5 * BEEST_SECOND);
	scripts_held_up(40, 100 * BEEST_MS);
	scripts_held_up(40, 5 * BEEST_SECOND);
}

/* -------------------------------------------------------------------------- shapes --- */

static void sizes(void **state)
{
	static const int all[] = { 2, 3, 16, 32, 33 };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		fake_verbs_reset();
		make(all[i]);
		start(all[i]);
		registry_run();
		assert_mesh(all[i], 1);
		drop();
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
	start(2);
	registry_run();
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
	start(1);
	registry_run();
	came(0);
	assert_int_equal(hartebeest_mesh_stats_get(members[0].mesh, &stats), 0);
	assert_int_equal(stats.total, stats.create.time + stats.publish.time + stats.wait.time +
			 stats.fetch.time + stats.rtr.time + stats.rts.time + stats.confirm.time);
	assert_int_equal(stats.publish.requests, 1);
	assert_int_equal(stats.wait.requests + stats.fetch.requests, 0);
	assert_int_equal(stats.confirm.requests, 1);
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
	start(3);
	registry_run();
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

/* Leaves gaps between the numbers, as if other processes made queue pairs, too. */
static void numbers_scatter(const char *function)
{
	static uint32_t turn;

	if (strcmp(function, "ibv_create_qp") == 0)
		fake_verbs.next_qp_num = 1000 + (++turn * 7919) % 100000;
}

static void numbers_out_of_row(void **state)
{
	(void)state;
	fake_verbs.hook = numbers_scatter;
	make(8);
	start(8);
	registry_run();
	assert_mesh(8, 1);
}

static bool rows_are_lost;
static size_t lists_read;

static void lists_count(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	(void)kv;
	for (i = 0; i < request->key_count; i++) {
		lists_read += !!strstr(request->keys[i], "/list.");
		if (rows_are_lost && strstr(request->keys[i], "/row."))
			fake_kv_evict(fake_kv_server("a:1"), request->keys[i]);
	}
}

/*
 * If the last rank comes behind all others, more than 32 newcomers get a row each, and read lists
 * only if a row was lost.  In a smaller mesh all learn of it at the same time: nobody makes rows.
 */
static void rows_of_numbers(void **state)
{
	static const struct {
		int size;
		bool lost;
		size_t least, most;
	} rows[] = {
		{ 18, false, 18 * 17, 18 * 17 * 2 }, { 34, false, 34, 34 * 2 },
		{ 34, true, 33 * 33, SIZE_MAX },
	};
	size_t row;

	(void)state;
	for (row = 0; row < BEEST_COUNT(rows); row++) {
		fake_kv_reset();
		fake_verbs_reset();
		fake_verbs.hook = numbers_scatter;
		make(rows[row].size);
		members[rows[row].size - 1].delay = 5 * BEEST_MS;
		fake_kv.hook = lists_count;
		rows_are_lost = rows[row].lost;
		lists_read = 0;
		start(rows[row].size);
		registry_run();
		fake_kv.hook = NULL;
		assert_mesh(rows[row].size, 1);
		assert_in_range(lists_read, rows[row].least, rows[row].most);
		drop();
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
		uint64_t fetch;		/* by each rank; one of many also reads all */
	} rows[] = { { 1, false, 0 }, { 2, false, 0 }, { 8, true, 1 }, { 20, false, 0 },
		     { 20, true, 1 } };
	struct hartebeest_mesh_stats stats;
	uint64_t sum, before;
	size_t row;
	int i;

	(void)state;
	for (row = 0; row < BEEST_COUNT(rows); row++) {
		fake_kv_reset();
		fake_verbs_reset();
		fake_verbs.hook = rows[row].scattered ? numbers_scatter : NULL;
		make(rows[row].size);
		before = fake_kv.requests;
		start(rows[row].size);
		registry_run();
		for (i = 0, sum = 0; i < rows[row].size; i++) {
			came(i);
			stats = stats_of(i);
			assert_int_equal(stats.create.requests, 0);
			assert_int_equal(stats.publish.requests, 1);
			assert_in_range(stats.publish.bytes, 98, UINT64_MAX);
			assert_in_range(stats.fetch.requests, rows[row].fetch,
					rows[row].fetch + 1);
			assert_int_equal(stats.rtr.requests + stats.rts.requests, 0);
			sum += stats.publish.requests + stats.wait.requests +
			       stats.fetch.requests + stats.confirm.requests;
		}
		assert_int_equal(sum, fake_kv.requests - before);
		drop();
	}
}

/* INIT takes no time at either rank, RTR 3 ms, and RTS 1 ms. */
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
	start(2);
	registry_run();
	for (i = 0; i < 2; i++) {
		came(i);
		stats = stats_of(i);
		assert_int_equal(stats.rtr.time, 3 * BEEST_MS);
		assert_int_equal(stats.rts.time, BEEST_MS);
		assert_int_equal(stats.total, 4 * BEEST_MS + stats.publish.time + stats.wait.time +
				 stats.confirm.time);
	}
}

static void several_to_each_peer(void **state)
{
	int i;

	(void)state;
	make(5);
	for (i = 0; i < 5; i++) {
		members[i].attr.qps_per_peer = 3;
		members[i].attr.threads = 2;
	}
	start(5);
	registry_run();
	assert_mesh(5, 3);
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
	start(3);
	registry_run();
	assert_mesh(3, 1);
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

static void neighbours_only(void **state)
{
	static const int counts[] = { 5, 65 };
	size_t k;

	(void)state;
	for (k = 0; k < 2; k++) {
		fake_kv_reset();
		fake_verbs_reset();
		make(counts[k] + 1);
		ring(counts[k]);
		start(counts[k] + 1);
		registry_run();
		assert_ring(counts[k]);
		drop();
	}
}

static int32_t datagram_peers[1] = { 3 };

static void datagrams_to_some(void **state)
{
	struct hartebeest_ud_address address;
	int i;

	(void)state;
	make(4);
	for (i = 0; i < 4; i++) {
		members[i].attr.type = IBV_QPT_UD;
		members[i].attr.peers = datagram_peers;
		members[i].attr.peer_count = i != 3;
	}
	start(4);
	registry_run();
	for (i = 0; i < 4; i++)
		came(i);
	assert_int_equal(hartebeest_mesh_ud_address(members[0].mesh, 3, &address), 0);
	assert_int_equal(address.qp_num, members[3].mesh->fabric.qps[0]->qp_num);
	assert_int_equal(hartebeest_mesh_ud_address(members[0].mesh, 1, &address), -ENOENT);
}

static void datagrams(void **state)
{
	struct hartebeest_ud_address address;
	int a, b;

	(void)state;
	make(6);
	for (a = 0; a < 6; a++)
		members[a].attr.type = IBV_QPT_UD;
	start(6);
	registry_run();
	for (a = 0; a < 6; a++) {
		came(a);
		for (b = 0; b < 6; b++) {
			if (a == b)
				continue;
			assert_int_equal(hartebeest_mesh_ud_address(members[a].mesh, b, &address),
					 0);
			assert_int_equal(address.qp_num,
					 hartebeest_mesh_qp(members[b].mesh, a, 0)->qp_num);
			assert_non_null(address.ah);
		}
		assert_int_equal(hartebeest_mesh_ud_address(members[a].mesh, 9, &address), -ENOENT);
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
	start(4);
	registry_run();
	assert_mesh(4, 1);
	for (i = 0; i < 4; i++)
		assert_int_equal(refilled[i], 3);
}

/* A context makes a mesh, makes it again under the same name, and makes a second one. */
static void several_meshes(void **state)
{
	int i;

	(void)state;
	make(4);
	start(4);
	registry_run();
	assert_mesh(4, 1);
	for (i = 0; i < 4; i++) {
		assert_int_equal(hartebeest_mesh_close(members[i].mesh), 0);
		crew_start(run, &members[i]);
	}
	registry_run();
	assert_mesh(4, 1);
	for (i = 0; i < 4; i++) {
		members[i].name = "n";
		crew_start(run, &members[i]);
	}
	registry_run();
	assert_mesh(4, 1);
}

static int lag_at, lags;

/* Rank 0 is held up at one of its requests, for longer than the others need for a mesh. */
static void lag_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)request;
	if (party[0].hb && kv == party_kv(&party[0]) && lags++ == lag_at)
		crew_pass(30 * BEEST_MS);
}

static void run_twice(void *data)
{
	struct member *member = data;

	run(member);
	if (member->ret < 0)
		return;
	hartebeest_mesh_close(member->mesh);
	run(member);
}

/* Ranks that are done make the next mesh of that name while rank 0 is still in the first. */
static void one_is_late_to_see(void **state)
{
	static const int counts[] = { 2, 3, 20 };
	size_t k;
	int i;

	(void)state;
	for (k = 0; k < 3; k++)
		for (lag_at = 0, lags = 1; lags > lag_at; lag_at++) {
			fake_kv_reset();
			fake_verbs_reset();
			lags = 0;
			make(counts[k]);
			fake_kv.hook = lag_hook;
			for (i = 0; i < counts[k]; i++)
				crew_start(run_twice, &members[i]);
			registry_run();
			fake_kv.hook = NULL;
			assert_mesh(counts[k], 1);
			drop();
		}
}

static struct {
	int said;			/* how often rank 0 has said that it knows of all */
	int requests, restart_at;	/* of others, while it is held up */
	int64_t held_until, away_until;
	uint32_t noise;
} loss;

/* Rank 0 has said that it knows of all, and is held up before it sees that the others do. */
static int64_t lost_hold(const struct beest_kv *kv)
{
	if (kv != party_kv(&party[0]))
		return unit_next(&loss.noise) % (200 * BEEST_US);
	if (loss.said != 1)
		return 0;
	loss.said++;
	loss.held_until = crew_now() + 30 * BEEST_MS;
	return 30 * BEEST_MS;
}

/* Meanwhile the server restarts; it can be reached again 10 ms later. */
static void lost_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	struct fake_kv_server *server = fake_kv_server("a:1");
	size_t i;

	for (i = 0; i < request->write_count && kv == party_kv(&party[0]); i++)
		loss.said += strstr(request->writes[i].key, "/m/0/0") &&
			     request->writes[i].verb == BEEST_KV_APPEND;
	if (crew_now() < loss.held_until && ++loss.requests == loss.restart_at) {
		fake_kv_restart(server);
		server->error = EHOSTDOWN;
		loss.away_until = crew_now() + 10 * BEEST_MS;
	}
	if (crew_now() >= loss.away_until)
		server->error = 0;
}

static void lost_run(void *data)
{
	struct member *member = data;

	run_twice(member);
	look_after(&party[member - members]);
}

/*
 * The list in which all say that they know of all is lost.  By the entries of the ranks that
 * already came to the next mesh, rank 0 does not count as present there.
 */
static void a_list_is_lost(void **state)
{
	static const int counts[] = { 3, 20, 34 };
	size_t k;
	int i, at;

	(void)state;
	for (k = 0; k < BEEST_COUNT(counts); k++)
		for (at = 1; at == 1 || loss.requests >= at; at += (at < 40 ? 1 : 30) * stride) {
			fake_kv_reset();
			fake_verbs_reset();
			memset(&loss, 0, sizeof(loss));
			loss.restart_at = at;
			make(counts[k]);
			fake_kv.hold = lost_hold;
			fake_kv.hook = lost_hook;
			for (i = 0; i < counts[k]; i++)
				crew_start(lost_run, &members[i]);
			registry_run();
			assert_mesh(counts[k], 1);
			drop();
		}
	fake_kv.hold = NULL;
	fake_kv.hook = NULL;
}

/* ------------------------------------------------------------------- what goes wrong --- */

static void a_rank_that_is_missing(void **state)
{
	int i;

	(void)state;
	make(4);
	start(3);
	registry_run();
	for (i = 0; i < 3; i++) {
		assert_int_equal(members[i].ret, -ETIMEDOUT);
		assert_non_null(strstr(members[i].error, "mesh 'm': after 10 s: 1 of 4 ranks has "
				       "not arrived: rank 3 (never seen); key hb1/job/barrier/-/"
				       "mesh/m/0; server a:1 answers; HARTEBEEST_JOB (here job) "
				       "and the servers must be the same on all ranks"));
	}
	start(4);
	registry_run();
	assert_mesh(4, 1);
}

/* The sentence names a misspelt variable, as for any failure that a setting may have caused. */
static void a_misspelt_variable(void **state)
{
	(void)state;
	setenv("HARTEBEEST_DEVCE", "x", 1);
	make(2);
	unsetenv("HARTEBEEST_DEVCE");
	start(1);
	registry_run();
	assert_int_equal(members[0].ret, -ETIMEDOUT);
	assert_non_null(strstr(members[0].error,
			       "; unknown environment variable HARTEBEEST_DEVCE"));
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
	int i;

	(void)state;
	for (k = 0; k < 2; k++) {
		fake_kv_reset();
		fake_verbs_reset();
		told_often = 0;
		make(counts[k]);
		members[0].attr.progress = tell;
		members[2].delay = 3500 * BEEST_MS;
		members[3].delay = 2500 * BEEST_MS;
		start(counts[k]);
		registry_run();
		for (i = 0; i < counts[k]; i++)
			came(i);
		snprintf(expected, sizeof(expected), "%d of %d have arrived; missing: 2",
			 counts[k] - 1, counts[k]);
		assert_string_equal(told, expected);
		assert_int_equal(told_often, 3);
		drop();
	}
}

static void different_wishes(void **state)
{
	(void)state;
	make(3);
	members[2].attr.qps_per_peer = 2;
	start(3);
	registry_run();
	assert_int_equal(members[0].ret, -EPROTO);
	assert_non_null(strstr(members[0].error, "rank 0 and rank 2 ask for different meshes"));
	assert_int_equal(members[2].ret, -EPROTO);
}

/* A mark with fewer regions is shorter: the rank with more hears the same, and no later. */
static void different_regions(void **state)
{
	int i;

	(void)state;
	make(3);
	members[0].attr.regions = NULL;
	members[0].attr.region_count = 0;
	start(3);
	registry_run();
	for (i = 0; i < 3; i++)
		assert_int_equal(members[i].ret, -EPROTO);
	assert_non_null(strstr(members[0].error, "rank 0 and rank 1 ask for different meshes"));
	assert_non_null(strstr(members[1].error, "rank 1 and rank 0 ask for different meshes: "));
	assert_non_null(strstr(members[1].error, "region_count must be the same"));
}

/* Rank 0 asks for a rank that nobody has started.  It hears what the others have heard, too. */
static void different_sizes(void **state)
{
	static const int32_t all_ranks[] = { 0, 1, 2, 3 };
	int i;

	(void)state;
	make(3);
	members[0].attr.rank_count = 4;
	members[0].attr.ranks = all_ranks;
	for (i = 1; i < 3; i++) {
		members[i].attr.rank_count = 3;
		members[i].attr.ranks = all_ranks;
	}
	start(3);
	registry_run();
	assert_int_equal(members[0].ret, -ETIMEDOUT);
	assert_non_null(strstr(members[0].error, "rank 3 (never seen)"));
	assert_non_null(strstr(members[0].error, "; rank 0 and rank 1 ask for different meshes: "));
	for (i = 1; i < 3; i++)
		assert_int_equal(members[i].ret, -EPROTO);
	assert_non_null(strstr(members[1].error, "rank 1 and rank 0 ask for different meshes: "));
}

/* Rank 1 does not name rank 0 as a peer: rank 0, which finds out, must report it. */
static void a_wish_of_one_side(void **state)
{
	int i;

	(void)state;
	make(6);
	ring(5);
	neighbours[1][0] = 2;
	members[1].attr.peer_count = 1;
	for (i = 0; i < 6; i++)
		members[i].stays = true;
	start(6);
	registry_run();
	assert_int_equal(members[0].ret, -EPROTO);
	assert_non_null(strstr(members[0].error, "rank 0 has rank 1 among its peers, but rank 1 "
			       "does not have rank 0 among its own"));
	assert_int_equal(members[1].ret, -ETIMEDOUT);
}

static void refused(struct member *member, const char *why)
{
	run(member);
	assert_int_equal(member->ret, -EINVAL);
	assert_non_null(strstr(member->error, why));
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
	const char *const unknown[] = { "mr7" }, *const nameless[] = { NULL };
	struct member *member = &members[0];

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
	member->attr.regions = unknown;
	member->attr.region_count = 1;
	run(member);
	assert_int_equal(member->ret, -ENOENT);
	assert_non_null(strstr(member->error, "'mr7'"));
	member->attr.regions = two_regions;
	member->attr.pd = NULL;
	refused(member, "pd does not name the protection domain of region 'mr0'");
	member->attr.pd = "pd";
	member->attr.cq = "cq7";
	run(member);
	assert_int_equal(member->ret, -ENOENT);
	assert_non_null(strstr(member->error, "'cq7'"));
	member->attr.cq = NULL;
	member->attr.regions = nameless;
	refused(member, "the name of region 0 is NULL");
	member->attr.regions = NULL;
	refused(member, "regions is NULL");
	member->attr.regions = unknown;
	member->attr.region_count = 65;
	run(member);
	assert_int_equal(member->ret, -EINVAL);
	assert_non_null(strstr(member->error, "region_count is above 64"));
	member->attr.region_count = 0;
	member->attr.ranks = disorder;
	member->attr.rank_count = 2;
	run(member);
	assert_int_equal(member->ret, -EINVAL);
	member->attr.ranks = others;
	run(member);
	assert_int_equal(member->ret, -EINVAL);
	assert_non_null(strstr(member->error, "do not include rank 0, this process"));
	member->attr.rank_count = 0;
	refused(member, "rank_count is 0");
	member->attr.rank_count = 2;
	member->attr.ranks = NULL;
	refused(member, "ranks is NULL");
	member->attr.gather = gather_nothing;
	member->attr.own_rank = 2;
	refused(member, "ranks do not include rank 2, this process");
	member->attr.own_rank = -1;
	refused(member, "ranks do not include rank -1, this process");
	member->attr.rank_count = 0;
	refused(member, "gather needs rank_count");
	member->attr.gather = NULL;
	member->attr.rank_count = 0;
	member->attr.peer_count = 1;
	run(member);
	assert_int_equal(member->ret, -EINVAL);
	member->attr.peers = others;
	run(member);
	assert_int_equal(member->ret, -EINVAL);
	assert_non_null(strstr(member->error, "peers name rank 1, which is not in the mesh"));
	member->attr.peers = disorder + 1;
	run(member);
	assert_int_equal(member->ret, -EINVAL);
	assert_non_null(strstr(member->error, "peers name rank 0, which is this process"));
	member->attr.peers = NULL;
	member->attr.peer_count = 0;
	member->attr.cap.max_send_wr = 1 << 30;
	run(member);
	assert_int_equal(member->ret, -ERANGE);
	member->attr.size = 8;
	refused(member, "mesh_attr has the size 8: hartebeest_mesh_attr_init() was not called");
}

/* Each verbs call fails once: either the mesh is made, or nothing of it is left. */
static void each_call_fails(void **state)
{
	int n, i;

	(void)state;
	patience = 100 * BEEST_MS;
	for (n = 1; ; n++) {
		fake_verbs_reset();
		make(3);
		fake_verbs_fail("*", n, EIO);
		start(3);
		registry_run();
		if (!fake_verbs.fired)
			break;
		for (i = 0; i < 3; i++)
			if (members[i].ret == 0)
				hartebeest_mesh_close(members[i].mesh);
			else
				assert_true(members[i].error[0]);
		assert_int_equal(fake_verbs.qps, 0);
		assert_int_equal(fake_verbs.cqs, 3);
		drop();
	}
	assert_in_range(n, 10, 300);
}

/* --------------------------------------------------------------- ranks that come and go --- */

#define VICTIM 2
#define SECOND_VICTIM 3

static int dies_at, requests;

static void death_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)request;
	if (party[VICTIM].hb && kv == party_kv(&party[VICTIM]) && requests++ == dies_at)
		members[VICTIM].dies = crew_now();
}

static void (*killer)(struct beest_kv *, const struct beest_kv_request *) = death_hook;
static int64_t (*holder)(const struct beest_kv *);

/* A list of up to 32 ranks is in one part; of 40, one rank of each part names it. */
static const struct death {
	int size;
	int64_t comes;			/* after the others: then it completes a part */
	int64_t heir;			/* starts this much later; 0: there is none */
	bool scattered;			/* queue pair numbers have gaps */
} deaths[] = {
	{ 16, 0, 20 * BEEST_MS, false }, { 16, 0, 500 * BEEST_MS, false },
	{ 16, 9 * BEEST_MS, 0, false },
	{ 40, 0, 20 * BEEST_MS, false }, { 40, 0, 500 * BEEST_MS, false }, { 40, 0, 0, false },
	{ 40, 9 * BEEST_MS, 40 * BEEST_MS, false }, { 40, 9 * BEEST_MS, 500 * BEEST_MS, false },
	{ 40, 9 * BEEST_MS, 0, false },
}, *death;

static bool in_a_ring;			/* each rank's peers are its two neighbours */

static void heir_run(void *data)
{
	(void)data;
	crew_pass(death->heir);
	members[VICTIM].dies = crew_now();	/* unless it has died or finished */
	while (!members[VICTIM].ended)
		crew_pass(BEEST_MS);
	if (party[VICTIM].hb)
		party_kill(&party[VICTIM]);
	member_open(death->size, VICTIM, death->size);
	if (in_a_ring) {
		members[death->size].attr.peers = neighbours[VICTIM];
		members[death->size].attr.peer_count = 2;
		members[death->size].attr.qps_per_peer = 2;
	}
	run(&members[death->size]);
}

/* Kills the victim at request number dies_at.  True: it made that request. */
static bool kill_one(void)
{
	fake_kv_reset();
	fake_verbs_reset();
	fake_verbs.hook = death->scattered ? numbers_scatter : NULL;
	requests = 0;
	make(death->size);
	if (in_a_ring)
		ring(death->size);
	members[VICTIM].dies = members[SECOND_VICTIM].dies = INT64_MAX;
	members[VICTIM].delay = death->comes;
	fake_kv.hook = killer;
	fake_kv.hold = holder;
	start(death->size);
	if (death->heir)
		crew_start(heir_run, NULL);
	registry_run();
	fake_kv.hook = NULL;
	fake_kv.hold = NULL;

	return requests > dies_at && members[VICTIM].ret < 0;
}

/* The others finished without the heir, since the victim died so late, or are connected to it. */
static void assert_survivors(void)
{
	bool met = members[death->size].ret == 0;
	int i;

	for (i = 0; i < death->size; i++) {
		if (i == VICTIM)
			continue;
		came(i);
		if (met && (!in_a_ring || i == VICTIM - 1 || i == VICTIM + 1))
			assert_link(i, death->size, 0);
	}
}

/* All others are connected, or none is and each names the missing rank. */
static void assert_bereaved(void)
{
	int i;

	for (i = 0; i < death->size; i++) {
		if (i == VICTIM)
			continue;
		assert_int_equal(members[i].ret, members[0].ret);
		if (members[i].ret == 0)
			continue;
		assert_int_equal(members[i].ret, -ETIMEDOUT);
		assert_non_null(strstr(members[i].error, "1 of "));
		assert_non_null(strstr(members[i].error, ": rank 2 ("));
	}
}

/* The victim is killed after each of its requests in turn, with and without an heir. */
static void killed_at_any_time(void **state)
{
	bool died;

	(void)state;
	for (death = deaths; death < deaths + sizeof(deaths) / sizeof(*deaths); death++) {
		for (dies_at = 0, died = true; died; dies_at += stride) {
			died = kill_one();
			if (death->heir)
				assert_survivors();
			else
				assert_bereaved();
			drop();
		}
		assert_in_range(dies_at - stride, 2, 58 + stride);
	}
}

static int64_t slow;			/* duration of each later request */

static int64_t late_hold(const struct beest_kv *kv)
{
	if (!party[1].hb || kv != party_kv(&party[1]) || lags++ < lag_at)
		return 0;
	return lags == lag_at + 1 ? 100 * BEEST_MS : slow;
}

/* Ends a trial in which all have met: with the heir, or without it. */
static void survivors_count(int counts[2])
{
	assert_survivors();
	counts[members[death->size].ret == 0]++;
	drop();
}

static void killed_while_late(bool scattered)
{
	const struct death three = { 3, 0, 50 * BEEST_MS, scattered };
	int counts[2] = { 0, 0 };
	bool died;

	death = &three;
	holder = late_hold;
	for (lag_at = 0; lag_at < 8; lag_at++)
		for (dies_at = 0, died = true; died; dies_at++) {
			lags = 0;
			died = kill_one();
			survivors_count(counts);
		}
	holder = NULL;
	death = NULL;
	assert_true(counts[0] > 0 && counts[1] > 0);
}

/*
 * Ranks 0 and 2 know of all, and then rank 2 dies.  Rank 1 was held up and knows only the heir, or
 * passes with the dead rank while rank 0 knows the heir.  Both pass in the same roll.
 */
static void killed_while_one_is_late(void **state)
{
	(void)state;
	slow = 0;
	killed_while_late(false);
}

/* The same, but rank 1 stays slow. */
static void killed_while_one_is_slow(void **state)
{
	(void)state;
	slow = 2 * BEEST_MS;
	killed_while_late(true);
}

static int asked;

static void two_deaths_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	if (party[SECOND_VICTIM].hb && kv == party_kv(&party[SECOND_VICTIM]) && asked++ == 0)
		members[SECOND_VICTIM].dies = crew_now();
	death_hook(kv, request);
}

/*
 * Rank 3 died after it had come, rank 2 was started again, and rank 1 was held up, so that it
 * knows the heir.  Rank 0, which may know the heir's predecessor, waits only for rank 3.
 */
static void assert_one_is_missing(void)
{
	int i;

	for (i = 0; i <= 4; i++) {
		if (i == VICTIM || i == SECOND_VICTIM)
			continue;
		assert_int_equal(members[i].ret, -ETIMEDOUT);
		assert_non_null(strstr(members[i].error, "1 of 4 ranks has not arrived"));
		assert_non_null(strstr(members[i].error, ": rank 3 ("));
	}
}

static void killed_while_one_is_missing(void **state)
{
	static const struct death four = { 4, 0, 50 * BEEST_MS, true };
	bool died;

	(void)state;
	slow = 0;
	death = &four;
	killer = two_deaths_hook;
	holder = late_hold;
	for (lag_at = 2; lag_at < 5; lag_at++)
		for (dies_at = 0, died = true; died; dies_at += stride) {
			lags = asked = 0;
			died = kill_one();
			if (members[0].ret)
				assert_one_is_missing();
			drop();
		}
	killer = death_hook;
	holder = NULL;
	death = NULL;
}

/* Rank 1 is held up once. */
static int64_t long_hold(const struct beest_kv *kv)
{
	return party[1].hb && kv == party_kv(&party[1]) && lags++ == lag_at ? 3 * BEEST_SECOND : 0;
}

/* Rank 1 says that it knows of all, and is held up before it sees that all others do. */
static void one_held_up(bool rings)
{
	static const struct death many[] = {
		{ 20, 0, BEEST_MS, false }, { 40, 0, BEEST_MS, false },
	};
	int counts[2] = { 0, 0 };

	in_a_ring = rings;
	holder = long_hold;
	for (death = many; death < many + BEEST_COUNT(many); death++)
		for (lag_at = 0; lag_at < 6; lag_at++)
			for (dies_at = 0; dies_at < 8; dies_at += BEEST_MIN(stride, 7)) {
				lags = 0;
				kill_one();
				survivors_count(counts);
			}
	holder = NULL;
	death = NULL;
	in_a_ring = false;
	assert_true(counts[0] > 0 && counts[1] > 0);
}

static void killed_while_one_is_held_up(void **state)
{
	(void)state;
	one_held_up(false);
}

/* Ranks that are not its peers name it, too. */
static void a_stranger_killed_while_one_is_held_up(void **state)
{
	(void)state;
	one_held_up(true);
}

static void no_list_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	members[0].barriers = members[1].barriers = 1;
	for (i = 0; i < request->key_count && party[death->size].hb; i++)
		if (strstr(request->keys[i], "/list.2"))
			fake_kv_evict(fake_kv_server("a:1"), request->keys[i]);
	death_hook(kv, request);
}

/*
 * Rank 1 knows of all, but cannot connect to the heir of rank 2, whose list is lost.  As soon as
 * rank 0 has passed, rank 1 does, too.
 */
static void all_know_behind_an_heir(void **state)
{
	static const struct death three = { 3, 0, 50 * BEEST_MS, true };
	int alone = 0;
	bool died;

	(void)state;
	death = &three;
	holder = late_hold;
	killer = no_list_hook;
	slow = 2 * BEEST_MS;
	for (lag_at = 0; lag_at < 8; lag_at++)
		for (dies_at = 0, died = true; died; dies_at += stride) {
			lags = 0;
			died = kill_one();
			if (members[0].mesh && !members[1].mesh)
				print_error("%d, %d: %s\n", lag_at, dies_at, members[1].error);
			alone += members[0].mesh && !members[1].mesh;
			drop();
		}
	holder = NULL;
	killer = death_hook;
	death = NULL;
	assert_int_equal(alone, 0);
}

static bool list_is_lost;

static void lost_list_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	for (i = 0; i < request->key_count && party[death->size].hb && !list_is_lost; i++)
		if (strstr(request->keys[i], "/list.2"))
			list_is_lost = fake_kv_evict(fake_kv_server("a:1"), request->keys[i]);
	death_hook(kv, request);
}

/* A rank that knows of all, but does not yet find the heir's list, has to ask again. */
static void a_list_of_an_heir_is_late(void **state)
{
	static const struct death four = { 4, 0, 20 * BEEST_MS, true };
	bool died;
	int lost = 0;

	(void)state;
	death = &four;
	killer = lost_list_hook;
	for (dies_at = 0, died = true; died; dies_at++) {
		list_is_lost = false;
		died = kill_one();
		assert_survivors();
		lost += list_is_lost;
		drop();
	}
	killer = death_hook;
	assert_in_range(lost, 2, dies_at);
}

static int restart_at;

static void restart_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)kv;
	(void)request;
	if (restart_at && --restart_at == 0)
		fake_kv_restart(fake_kv_server("a:1"));
}

/* The server loses everything, lists included, at each request in turn. */
static void restarted_server(void **state)
{
	static const int counts[] = { 4, 20 };
	int i, n;
	size_t k;

	(void)state;
	for (k = 0; k < 2; k++) {
		for (n = 1; ; n += stride) {
			fake_kv_reset();
			fake_verbs_reset();
			fake_verbs.hook = numbers_scatter;
			restart_at = n;
			fake_kv.hook = restart_hook;
			make(counts[k]);
			for (i = 0; i < counts[k]; i++)
				members[i].stays = true;
			start(counts[k]);
			registry_run();
			if (restart_at)
				break;
			assert_mesh(counts[k], 1);
			drop();
		}
		assert_in_range(n, 5 * counts[k], 20000);
		drop();
	}
	fake_kv.hook = NULL;
}

/* ------------------------------------------------------------------------- repairs --- */

static struct {
	int size;
	int slots[RANKS];		/* by rank */
	int used;			/* slots so far */
	int first, newcomers;		/* ranks that are replaced */
	const struct shape *shape;	/* NULL: the usual one */
	size_t lists_read;		/* by ranks that were there before */
	size_t rows_stored;
} repair;

/* A mesh of another shape, and the check of a connection between two of its ranks. */
struct shape {
	void (*make)(struct hartebeest_mesh_attr *attr, int rank);
	void (*assert_met)(int a, int b);
};

static struct member *repair_member(int rank)
{
	return &members[repair.slots[rank]];
}

static bool is_newcomer(int rank)
{
	return rank >= repair.first && rank < repair.first + repair.newcomers;
}

static bool is_of_newcomer(const struct beest_kv *kv)
{
	int i;

	for (i = repair.first; i < repair.first + repair.newcomers; i++)
		if (party[repair.slots[i]].hb && party_kv(&party[repair.slots[i]]) == kv)
			return true;
	return false;
}

static void lists_rows_count(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	for (i = 0; i < request->key_count && !is_of_newcomer(kv); i++)
		repair.lists_read += !!strstr(request->keys[i], "/list.");
	for (i = 0; i < request->write_count; i++)
		repair.rows_stored += !!strstr(request->writes[i].key, "/row.");
}

static void repair_open(int rank)
{
	int slot = repair.used++;

	repair.slots[rank] = slot;
	member_open(slot, rank, repair.size);
	if (repair.shape)
		repair.shape->make(&members[slot].attr, rank);
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
	repair.lists_read = repair.rows_stored = 0;
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

static void assert_met(int a, int b)
{
	if (repair.shape) {
		repair.shape->assert_met(a, b);
		return;
	}
	assert_link(a, b, 0);
	assert_regions(a, b);
}

static void repair_check(int rank, int replaced)
{
	int i;

	came(repair.slots[rank]);
	assert_int_equal(repair_member(rank)->ret, replaced);
	for (i = 0; i < repair.size; i++)
		if (i != rank)
			assert_met(repair.slots[rank], repair.slots[i]);
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
	fake_kv.hook = lists_rows_count;
	repair_go();
	assert_repaired(count);
}

static void repair_start(int size, bool scattered)
{
	int i;

	fake_kv_reset();
	fake_verbs_reset();
	fake_verbs.hook = scattered ? numbers_scatter : NULL;
	repair.size = size;
	repair.used = 0;
	for (i = 0; i < size; i++)
		repair_open(i);
	start(size);
	registry_run();
	for (i = 0; i < size; i++)
		came(i);
}

static size_t list_size(const char *last)
{
	char key[64];
	size_t size = 0;

	snprintf(key, sizeof(key), "hb1/job/barrier/-/mesh/m/%s", last);

	return fake_kv_get(fake_kv_server("a:1"), key, &size) ? size : 0;
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
	start(3);
	registry_run();
	assert_mesh(3, 1);
	for (times = 0; times < 3; times++) {
		fake_verbs.devices[1].ports[0].lid = times ? 18 : 8;
		queries = fake_verbs_calls("ibv_query_port");
		for (rank = 0; rank < 3; rank++)
			members[rank].repairs = true;
		start(3);
		registry_run();
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

/* Nobody is replaced, but each repair appends: the lists are shortened before they are long. */
static void repaired_many_times(void **state)
{
	static const struct {
		int size, times;
		const char *last;
		size_t most;		/* bytes, which a look reads */
	} rows[] = {
		{ 4, 100, "0", 32 * 1024 }, { 40, 40, "0", 32 * 1024 }, { 40, 40, "1", 32 * 1024 },
		{ 40, 80, "head", 8 * 1024 },
	};
	size_t i, size, most, times_shorter;
	int n;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		repair_start(rows[i].size, false);
		repair_replace(0, 0);
		for (n = 0, most = times_shorter = 0; n < rows[i].times; n++) {
			size = list_size(rows[i].last);
			repair_go();
			assert_repaired(0);
			most = BEEST_MAX(most, list_size(rows[i].last));
			times_shorter += list_size(rows[i].last) < size;
		}
		assert_in_range(most, 1, rows[i].most);
		assert_true(times_shorter > 0);
		drop();
	}
}

static size_t record_count(int rank)
{
	return beest_lease_count(party[repair.slots[rank]].hb->registry->leases, false);
}

/* What a rank has said in a run before is kept no longer than the run. */
static void runs_that_are_over(void **state)
{
	static const int all[] = { 4, 40 };
	size_t i, before[40];
	int n, k;

	(void)state;
	for (i = 0; i < BEEST_COUNT(all); i++) {
		repair_start(all[i], false);
		repair_replace(0, 0);
		for (n = 0; n < 5; n++) {
			for (k = 0; k < all[i]; k++)
				repair_member(k)->barriers = 3;
			repair_go();
			assert_repaired(0);
			for (k = 0; k < all[i] && n == 0; k++)
				before[k] = record_count(k);
		}
		for (k = 0; k < all[i]; k++)
			assert_in_range(record_count(k), before[k] - 2, before[k] + 2);
		drop();
	}
}

/*
 * Ranks 0 to 31 have a list, and the others, of whom two are replaced, another.  Those who were not
 * know what the first list says as soon as all have come again, without reading it; and once more.
 */
static void a_repair_reads_what_has_changed(void **state)
{
	struct hartebeest_mesh_stats stats;
	int i, first;

	(void)state;
	repair_start(40, false);
	for (first = 32; first < 36; first += 2) {
		repair_replace(first, 2);
		repair_go();
		assert_repaired(2);
		for (i = 36; i < 40; i++) {
			stats = stats_of(i);
			assert_in_range(stats.publish.bytes + stats.wait.bytes, 1,
					list_size("0") - 1);
		}
	}
	drop();
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
	/* Others may expect that rank 1 repairs once more. */
	assert_true(members[1].mesh->body.endpoint.generation > repaired + 1);
	drop();
}

/*
 * A rank that makes the mesh anew is a newcomer to those who repair it, though its process stayed.
 * The last rank has the greatest generation: the others must not take its next one for a repair.
 */
static void made_anew_while_others_repair(void **state)
{
	static const int all[] = { 2, 4, 4, 40 };
	size_t i, n;

	(void)state;
	for (i = 0; i < BEEST_COUNT(all); i++) {
		repair_start(all[i], i == 1);
		for (n = 0; n < 3; n++) {
			repair_replace(0, 0);
			repair.first = all[i] - 1 - (int)n % all[i];
			repair.newcomers = 1;
			assert_int_equal(hartebeest_mesh_close(repair_member(repair.first)->mesh),
					 0);
			repair_member(repair.first)->repairs = false;
			repair_member(repair.first)->delay = (int64_t)n * 10 * BEEST_MS;
			repair_go();
			assert_repaired(1);
		}
		drop();
	}
}

/* Holds up rank 1 before it learns that rank 0 knows the roll. */
static int64_t rank_1_hold(const struct beest_kv *kv)
{
	static int looks;

	return kv == party_kv(&party[1]) && ++looks == 2 ? BEEST_SECOND : 0;
}

static void connects_twice(void *data)
{
	struct member *member = data;

	run(member);
	assert_int_equal(member->ret, -ETIMEDOUT);
	member->patience = 3600 * BEEST_SECOND;
	run(member);
}

static void waits_and_repairs(void *data)
{
	struct member *member = data;

	run(member);
	assert_int_equal(member->ret, 0);
	assert_int_equal(hartebeest_mesh_barrier(member->mesh, 0), -ESTALE);
	assert_non_null(strstr(hartebeest_error(), "rank 0 has come to a later call for all ranks: "
			       "call hartebeest_mesh_repair()"));
	member->repairs = true;
	run(member);
}

/*
 * Rank 0 says that it is connected, fails by its deadline, and connects again.  Rank 1 has passed,
 * and learns of that at its next barrier, where rank 0 does not come.
 */
static void one_fails_and_connects_again(void **state)
{
	(void)state;
	make(2);
	members[0].patience = 300 * BEEST_MS;
	members[1].patience = 10 * BEEST_SECOND;
	fake_kv.hold = rank_1_hold;
	crew_start(connects_twice, &members[0]);
	crew_start(waits_and_repairs, &members[1]);
	registry_run();
	fake_kv.hold = NULL;
	assert_int_equal(members[0].ret, 0);
	assert_int_equal(members[1].ret, 1);
	assert_link(0, 1, 0);
	assert_link(1, 0, 0);
	drop();
}

/* The same of a rank of each part, when all had passed: those who wait at a barrier must repair. */
static void made_anew_while_others_wait(void **state)
{
	static const struct {
		int size, rank;
	} rows[] = { { 2, 1 }, { 40, 3 }, { 40, 39 } };
	size_t i;
	int k;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		repair_start(rows[i].size, false);
		repair_replace(0, 0);
		repair.first = rows[i].rank;
		repair.newcomers = 1;
		for (k = 0; k < rows[i].size; k++)
			repair_member(k)->finds_out = !is_newcomer(k);
		assert_int_equal(hartebeest_mesh_close(repair_member(rows[i].rank)->mesh), 0);
		repair_member(rows[i].rank)->repairs = false;
		repair_go();
		assert_repaired(1);
		drop();
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
	drop();
}

static int refills_left;		/* until one succeeds */

static int refill_fails(void *data, int rank, struct ibv_qp *qp)
{
	(void)data;
	(void)qp;
	refilled[rank]++;

	return refills_left-- > 0 ? -EXDEV : 0;
}

/* What has failed once is tried again; what always fails ends the call long before its limit. */
static void a_refill_that_fails(void **state)
{
	static const int failures[] = { 1, 1000 };
	int64_t began;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(failures); i++) {
		memset(refilled, 0, sizeof(refilled));
		refills_left = failures[i];
		repair_start(2, false);
		repair_replace(1, 1);
		members[0].mesh->fabric.refill = refill_fails;
		repair_member(1)->patience = 20 * BEEST_SECOND;
		began = crew_now();
		repair_go();
		if (i == 0) {
			assert_repaired(1);
			assert_int_equal(refilled[1], 2);
		} else {
			assert_int_equal(members[0].ret, -EXDEV);
			assert_non_null(strstr(members[0].error, "the refill function of mesh "
					       "'m' failed for rank 1"));
			assert_true(members[0].ended_at - began < 5 * BEEST_SECOND);
		}
		drop();
	}
}

static int64_t modify_fails_after;

static void modify_fails(const char *function)
{
	if (strcmp(function, "ibv_modify_qp") == 0 && crew_now() > modify_fails_after)
		fake_verbs_fail("ibv_modify_qp", 1, EINVAL);
}

/* Rank 0 has waited for so long that it looks for what is late, when rank 1 comes. */
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
	start(2);
	registry_run();
	fake_verbs.hook = NULL;
	for (i = 0; i < 2; i++) {
		assert_int_equal(members[i].ret, -EINVAL);
		assert_in_range(members[i].ended_at - began, 2 * BEEST_SECOND, 5 * BEEST_SECOND);
	}
	drop();
}

static void repaired(void **state)
{
	static const int all[] = { 4, 40 };
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(all); i++) {
		repair_start(all[i], false);
		repair_run(2, 1);
		assert_int_equal(stats_of(0).create.time, 0);
		assert_in_range(stats_of(0).publish.time, 1, stats_of(0).total);
		repair_run(1, 1);
		repair_run(2, 1);
		drop();
	}
}

static pthread_t caller;
static int strangers;			/* calls of refill by other threads; atomic */

/* Gives other threads the time to come here, too. */
static int refill_slowly(void *data, int rank, struct ibv_qp *qp)
{
	(void)data;
	(void)qp;
	if (!pthread_equal(pthread_self(), caller))
		__atomic_add_fetch(&strangers, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&refilled[rank], 1, __ATOMIC_RELAXED);
	usleep(3000);
	return 0;
}

static void by_threads_make(struct hartebeest_mesh_attr *attr, int rank)
{
	(void)rank;
	attr->threads = 3;
	attr->refill = refill_slowly;
}

static void by_threads_assert_met(int a, int b)
{
	assert_link(a, b, 0);
}

/* Four of six are replaced.  Whatever threads connect, only the caller's posts receives. */
static void repaired_by_several_threads(void **state)
{
	static const struct shape shape = { by_threads_make, by_threads_assert_met };

	(void)state;
	caller = pthread_self();
	strangers = 0;
	repair.shape = &shape;
	repair_start(6, false);
	memset(refilled, 0, sizeof(refilled));
	repair_run(2, 4);
	assert_int_equal(refilled[0], 4);	/* of newcomers */
	assert_int_equal(refilled[2], 5);	/* of all others */
	assert_int_equal(strangers, 0);
	drop();
	repair.shape = NULL;
}

static void meet(void *data)
{
	struct member *member = data;

	member->ret = hartebeest_mesh_barrier(member->mesh, 0);
}

/*
 * Rank 1 was started again, but nobody repairs: the others wait for it in a barrier, where they
 * learn what to do, or have left.  So they are not just missing, if they live.
 */
static void nobody_repairs(int size, bool leave)
{
	const char *error;
	int i;

	repair_start(size, false);
	repair_replace(1, 1);
	repair_member(1)->patience = 5 * BEEST_SECOND;
	crew_start(run, repair_member(1));
	for (i = 0; i < size; i++)
		if (i != 1 && leave)
			party_close(&party[repair.slots[i]]);
		else if (i != 1)
			crew_start(meet, repair_member(i));
	registry_run();
	error = repair_member(1)->error;
	assert_int_equal(repair_member(1)->ret, -ETIMEDOUT);
	assert_non_null(strstr(error, "not arrived: rank 0 (last seen as rank 0"));
	assert_int_equal(!leave, strstr(error, ", which has finished without this process)") &&
			 strstr(error, ": the ranks that have finished have to call "
				"hartebeest_mesh_repair()"));
	assert_int_equal(leave, strstr(error, ", which has left)") != NULL);
	for (i = 0; i < size; i++)
		assert_true(i == 1 || leave || repair_member(i)->ret == -ESTALE);
}

static void a_newcomer_whom_nobody_repairs_for(void **state)
{
	static const int sizes[] = { 3, 40 };
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(sizes); i++) {
		nobody_repairs(sizes[i], false);
		drop();
		nobody_repairs(sizes[i], true);
		drop();
	}
}

/* Ranks that find a newcomer at a barrier do not refuse it, since they repair the mesh next. */
static void repaired_after_a_barrier(void **state)
{
	static const int all[] = { 2, 4, 40 };
	size_t k;
	int i;

	(void)state;
	for (k = 0; k < BEEST_COUNT(all); k++) {
		repair_start(all[k], false);
		repair_replace(1, 1);
		for (i = 0; i < all[k]; i++)
			repair_member(i)->finds_out = i != 1;
		repair_go();
		assert_repaired(1);
		drop();
	}
}

/* Each reads the lists of newcomers, and those only. */
static void lists_of_newcomers(void **state)
{
	(void)state;
	repair_start(20, true);
	repair_run(5, 3);
	assert_in_range(repair.lists_read, 17 * 3, 2 * 17 * 3);
	repair_run(0, 12);
	assert_in_range(repair.lists_read, 8 * 12, 2 * 8 * 12);
	assert_int_equal(repair.rows_stored, 0);
	drop();
}

/* The others wait so long that they ask for the dead rank. */
static void a_newcomer_is_late(void **state)
{
	(void)state;
	repair_start(20, true);
	repair_replace(5, 1);
	repair_member(5)->delay = 3 * BEEST_SECOND;
	fake_kv.hook = lists_rows_count;
	repair_go();
	assert_repaired(1);
	drop();
}

static void nobody_was_replaced(void **state)
{
	(void)state;
	repair_start(4, false);
	repair_run(0, 0);
	drop();
	repair_start(20, true);
	repair_run(0, 0);
	assert_int_equal(repair.lists_read, 0);
	repair_run(0, 0);
	drop();
}

/* After a failed repair, the mesh has no barriers, but can be repaired again. */
static void repaired_at_the_second_try(void **state)
{
	static const int all[] = { 4, 40 };
	size_t k;
	int i;

	(void)state;
	for (k = 0; k < BEEST_COUNT(all); k++) {
		repair_start(all[k], false);
		repair_replace(2, 1);
		patience = 2 * BEEST_SECOND;
		repair_member(2)->delay = 5 * BEEST_SECOND;
		repair_go();
		patience = 0;
		for (i = 0; i < all[k]; i++)
			assert_true(repair_member(i)->ret < 0);
		assert_int_equal(hartebeest_mesh_barrier(members[0].mesh, 0), -ESTALE);
		assert_non_null(strstr(hartebeest_error(), "mesh 'm'"));
		repair_run(2, 1);
		drop();
	}
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
	for (i = 0; i < 4; i++) {
		if (i == 2)
			continue;
		assert_int_equal(repair_member(i)->ret, -ETIMEDOUT);
		assert_non_null(strstr(repair_member(i)->error, "rank 2 "));
	}
	drop();
}

static void run_again(void *data)
{
	struct member *member = data;

	run(member);
	member->patience = 0;
	if (member->ret < 0)
		run(member);
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
			drop();
		}
}

static uint64_t first_roll;

static void run_and_repair(void *data)
{
	struct member *member = data;

	run(member);
	first_roll = member->mesh ? member->mesh->digest : 0;
	member->repairs = true;
	if (member->ret >= 0)
		run(member);
}

static void lose_second_list(void *data)
{
	char key[80];

	(void)data;
	crew_pass(BEEST_SECOND);
	snprintf(key, sizeof(key), "hb1/job/barrier/%016llx/mesh/m/0/0",
		 (unsigned long long)first_roll);
	fake_kv_evict(fake_kv_server("a:1"), key);
	snprintf(strrchr(key, '/'), 6, "/head");
	fake_kv_evict(fake_kv_server("a:1"), key);
}

static int first_lags, first_lag_at;

/* Rank 0 says late that it knows the roll, so that rank 1 is held up while it waits for that. */
static int64_t two_holds(const struct beest_kv *kv)
{
	if (party[0].hb && kv == party_kv(&party[0]) && first_lags++ == first_lag_at)
		return 30 * BEEST_MS;
	return long_hold(kv);
}

/*
 * Rank 1 is held up in the bring-up, and the list is lost that would tell it that all know the
 * roll.  The others have passed and repair already: it must not take another roll with them.
 */
static void repaired_while_one_is_held_up_in_the_bring_up(void **state)
{
	static const int all[] = { 3, 40 };
	size_t k;
	int i;

	(void)state;
	for (k = 0; k < BEEST_COUNT(all); k++)
		for (lag_at = 2; lag_at < 3 * 8; lag_at += stride) {
			make(all[k]);
			lags = first_lags = 0;
			first_lag_at = lag_at % 3 + 1;
			fake_kv.hold = two_holds;
			for (i = 0; i < all[k]; i++)
				crew_start(run_and_repair, &members[i]);
			crew_start(lose_second_list, NULL);
			registry_run();
			fake_kv.hold = NULL;
			for (i = 0; i < all[k]; i++)
				came(i);
			drop();
			fake_kv_reset();
			fake_verbs_reset();
		}
}

static void second_death_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)request;
	if (party[SECOND_VICTIM].hb && kv == party_kv(&party[SECOND_VICTIM]) &&
	    requests++ == dies_at)
		members[SECOND_VICTIM].dies = crew_now();
}

static void second_heir_run(void *data)
{
	(void)data;
	while (!members[SECOND_VICTIM].ended)
		crew_pass(BEEST_MS);
	if (members[SECOND_VICTIM].ret >= 0)
		return;
	crew_pass(20 * BEEST_MS);
	repair_open(SECOND_VICTIM);
	run(repair_member(SECOND_VICTIM));
}

/*
 * While rank 2 is replaced, rank 3 dies at its request number dies_at.  True: the mesh was repaired
 * before that.
 */
static bool kill_a_second(int size)
{
	repair_start(size, size > 4);
	repair_replace(2, 1);
	requests = 0;
	members[SECOND_VICTIM].dies = INT64_MAX;
	members[SECOND_VICTIM].ended = false;
	fake_kv.hook = second_death_hook;
	crew_start(second_heir_run, NULL);
	repair_go();

	return repair.slots[SECOND_VICTIM] == SECOND_VICTIM;
}

static void two_die_one_after_the_other(void **state)
{
	static const int all[] = { 4, 40 };
	bool through;
	size_t k;
	int i;

	(void)state;
	for (k = 0; k < BEEST_COUNT(all); k++) {
		for (dies_at = 0, through = false; !through; dies_at += stride) {
			through = kill_a_second(all[k]);
			repair.newcomers = 2 - through;
			for (i = 0; i < all[k]; i++)
				if (i != SECOND_VICTIM)
					came(repair.slots[i]);
			if (through || repair_member(SECOND_VICTIM)->ret == 0)
				assert_repaired(repair.newcomers);
			else
				repair_run(SECOND_VICTIM, 1);
			drop();
		}
		assert_in_range(dies_at - stride, 2, 58 + stride);
	}
}

/* At each request of a repair, the server loses everything, or the request or answer is lost. */
static void each_request_of_a_repair(void **state)
{
	static const struct {
		int size, step;
	} all[] = { { 4, 1 }, { 20, 9 } };
	int n, i, manner;
	size_t k;

	(void)state;
	for (k = 0; k < BEEST_COUNT(all); k++)
		for (manner = -1; manner <= FAKE_KV_LOST; manner++)
			for (n = 1; ; n += all[k].step * stride) {
				repair_start(all[k].size, true);
				repair_replace(2, 1);
				for (i = 0; i < all[k].size; i++)
					repair_member(i)->stays = manner < 0;
				restart_at = manner < 0 ? n : 0;
				if (manner < 0)
					fake_kv.hook = restart_hook;
				else
					fake_kv_fail(FAKE_KV_REQUEST, n, ECONNRESET, manner);
				repair_go();
				assert_repaired(1);
				drop();
				if (restart_at || (manner >= 0 && !fake_kv.fired))
					break;
			}
}

static void make_datagrams(struct hartebeest_mesh_attr *attr, int rank)
{
	(void)rank;
	attr->type = IBV_QPT_UD;
}

static void assert_address(int a, int b)
{
	struct hartebeest_ud_address address;

	assert_int_equal(hartebeest_mesh_ud_address(members[a].mesh, party[b].rank, &address), 0);
	assert_int_equal(address.qp_num, members[b].mesh->fabric.qps[0]->qp_num);
	assert_regions(a, b);
}

static void make_ring(struct hartebeest_mesh_attr *attr, int rank)
{
	int before = (rank + repair.size - 1) % repair.size, behind = (rank + 1) % repair.size;

	neighbours[rank][0] = BEEST_MIN(before, behind);
	neighbours[rank][1] = BEEST_MAX(before, behind);
	attr->peers = neighbours[rank];
	attr->peer_count = 2;
}

static void assert_neighbours(int a, int b)
{
	int apart = abs(party[a].rank - party[b].rank);

	if (apart == 1 || apart == repair.size - 1)
		assert_link(a, b, 0);
	assert_regions(a, b);
}

static const char *many_regions[64];

/* Makes marks so large that an entry has little room. */
static void make_many_regions(struct hartebeest_mesh_attr *attr, int rank)
{
	int i;

	(void)rank;
	for (i = 0; i < 64; i++)
		many_regions[i] = i % 2 ? "mr2" : "mr0";
	attr->regions = many_regions;
	attr->region_count = 64;
}

static void assert_last_region(int a, int b)
{
	struct hartebeest_remote_mr region;
	struct ibv_mr *mr;

	assert_int_equal(hartebeest_mr_get(party[b].hb, "mr2", &mr), 0);
	assert_int_equal(hartebeest_mesh_region(members[a].mesh, party[b].rank, 63, &region), 0);
	assert_int_equal(region.rkey, mr->rkey);
	assert_link(a, b, 0);
}

static void repaired_in_any_shape(void **state)
{
	static const struct shape shapes[] = {
		{ make_datagrams, assert_address }, { make_ring, assert_neighbours },
		{ make_many_regions, assert_last_region },
	};
	static const int all[] = { 5, 20 };
	size_t i, k;

	(void)state;
	for (i = 0; i < BEEST_COUNT(shapes); i++)
		for (k = 0; k < BEEST_COUNT(all); k++) {
			repair.shape = &shapes[i];
			repair_start(all[k], i == 1);
			repair_run(2, 1);
			repair_run(1, 3);
			drop();
		}
	repair.shape = NULL;
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
			drop();
		}
}

/* Entries that no rank has appended; each can be seen in one look of any rank. */
static const struct forgery {
	uint8_t word;			/* enum beest_barrier_word, or one that means nothing */
	int32_t rank;			/* of its author */
	uint32_t part;
	bool knows;			/* it names the roll passed last */
	uint8_t flags;
	int cut;			/* bytes from its end */
} forgeries[] = {
	{ BEEST_BARRIER_COMES, 2, 0, false, 0, 0 }, { BEEST_BARRIER_COMES, 2, 0, true, 0, 0 },
	{ BEEST_BARRIER_COMES, 2, 0, false, 0, 1 }, { BEEST_BARRIER_COMES, 2, 0, false, 0, 1000 },
	{ BEEST_BARRIER_COMES, 2, 0, false, BEEST_RECORD_CLOSED, 0 },
	{ BEEST_BARRIER_COMES, 4711, 0, false, 0, 0 }, { BEEST_BARRIER_COMES, -1, 0, false, 0, 0 },
	{ BEEST_BARRIER_PASSED, 2, 0, true, 0, 0 }, { BEEST_BARRIER_PASSED, 2, 0, false, 0, 1000 },
	{ BEEST_BARRIER_FULL, 2, 0, true, 0, 0 }, { BEEST_BARRIER_FULL, 2, 1, false, 0, 0 },
	{ BEEST_BARRIER_FULL, 2, UINT32_MAX, true, 0, 0 },
	{ BEEST_BARRIER_REFUSES, 2, 0, true, 0, 0 }, { BEEST_BARRIER_REFUSES, 2, 0, true, 0, 3 },
	{ 0, 2, 0, true, 0, 0 }, { 47, 2, 0, true, 0, 0 },
};

static struct {
	const struct forgery *forgery;
	int at, looks;
	uint8_t mark[BEEST_MARK_HEAD + BEEST_BODY_MAX];
	size_t mark_size;
	uint64_t former;
} forger;

static void forge(const char *key)
{
	const struct forgery *forgery = forger.forgery;
	const struct beest_barrier_body entry = {
		.word = forgery->word, .part = forgery->part,
		.roll = forgery->knows ? forger.former : 0,
	};
	const bool names = forgery->word == BEEST_BARRIER_REFUSES;
	uint8_t body[2 * BEEST_BODY_MAX], bytes[BEEST_ENTRY_MAX], *list;
	struct beest_record record = {
		.kind = BEEST_KIND_BARRIER, .flags = forgery->flags, .rank = forgery->rank,
		.body = body,
	};
	size_t size = 0;
	const void *old;
	int ret;

	memcpy(&record.incarnation, forger.mark, BEEST_INCARNATION_SIZE);
	record.size = (size_t)beest_record_barrier_encode(&entry, body);
	ret = names ? 0 : BEEST_MARK_HEAD;
	memcpy(body + record.size, forger.mark + ret, forger.mark_size - (size_t)ret);
	record.size += forger.mark_size - (size_t)ret;
	record.size -= BEEST_MIN((size_t)forgery->cut, record.size);
	ret = beest_entry_encode(NULL, &record, key, bytes);
	assert_true(ret > 0);
	old = fake_kv_get(fake_kv_server("a:1"), key, &size);
	list = malloc(size + (size_t)ret);
	assert_non_null(list);
	if (old)
		memcpy(list, old, size);
	memcpy(list + size, bytes, (size_t)ret);
	fake_kv_put(fake_kv_server("a:1"), key, list, size + (size_t)ret, 60);
	free(list);
}

static void forge_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	(void)kv;
	for (i = 0; i < request->key_count; i++)
		if ((strstr(request->keys[i], "/m/0") || strstr(request->keys[i], "/m/head")) &&
		    forger.looks++ == forger.at)
			forge(request->keys[i]);
}

/* The mark of another life of rank 2, which nobody has seen. */
static void forger_learn(void)
{
	const struct hartebeest_mesh *mesh = members[0].mesh;

	forger.former = mesh->digest;
	forger.mark_size = BEEST_MARK_HEAD + mesh->blob_size;
	memcpy(forger.mark, mesh->marks + 2 * forger.mark_size, forger.mark_size);
	memset(forger.mark, 0x47, BEEST_INCARNATION_SIZE);
}

static void forged_entries(void **state)
{
	static const int all[] = { 4, 40 };
	size_t k, row;

	(void)state;
	for (k = 0; k < BEEST_COUNT(all); k++)
		for (row = k; row < BEEST_COUNT(forgeries); row += (size_t)stride) {
			forger.forgery = &forgeries[row];
			for (forger.at = 0; forger.at < 3 * all[k]; forger.at += all[k] / 2) {
				repair_start(all[k], false);
				forger_learn();
				repair_replace(2, 1);
				forger.looks = 0;
				fake_kv.hook = forge_hook;
				repair_go();
				assert_repaired(1);
				drop();
			}
		}
}

/* --------------------------------------------------------- by the program's exchange --- */

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
	start(6);
	registry_run();
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
	start(2);
	registry_run();
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
	start(6);
	registry_run();
	assert_mesh(6, 1);
	assert_int_equal(fake_kv.requests, 0);
	drop();
	fake_verbs_reset();
	fake_verbs.hook = numbers_scatter;
	gather_make(4);
	start(4);
	registry_run();
	assert_mesh(4, 1);
}

/* A rank that cannot make a mesh at all says so, too, so nobody waits for it. */
static void one_is_refused_and_nobody_hangs(void **state)
{
	static const int32_t stranger[] = { 7 };
	int i;

	(void)state;
	gather_make(3);
	members[1].attr.peers = stranger;
	members[1].attr.peer_count = 1;
	start(3);
	registry_run();
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
		if (members[i].ret != -EPROTO || !strstr(members[i].error, i ? others : rank_0) ||
		    hall.calls[i] != hall.calls[0])
			print_error("rank %d: %d, %s\n", i, members[i].ret, members[i].error);
		assert_int_equal(members[i].ret, -EPROTO);
		assert_non_null(strstr(members[i].error, i ? others : rank_0));
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
		start(4);
		registry_run();
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
		start(size);
		registry_run();
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

static void one_fails_and_nobody_hangs(void **state)
{
	int n, i;

	(void)state;
	for (n = 1; ; n++) {
		fake_verbs_reset();
		gather_make(3);
		fake_verbs_fail("*", n, EIO);
		start(3);
		registry_run();
		if (!fake_verbs.fired)
			break;
		for (i = 0; i < 3; i++)
			if (members[i].ret < 0)
				assert_true(members[i].error[0]);
		drop();
	}
	assert_in_range(n, 10, 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(meshes_of_scripts, setup, teardown),
		cmocka_unit_test_setup_teardown(sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(alone, setup, teardown),
		cmocka_unit_test_setup_teardown(a_queue_of_the_program, setup, teardown),
		cmocka_unit_test_setup_teardown(completions_name_the_rank, setup, teardown),
		cmocka_unit_test_setup_teardown(numbers_out_of_row, setup, teardown),
		cmocka_unit_test_setup_teardown(rows_of_numbers, setup, teardown),
		cmocka_unit_test_setup_teardown(requests_by_phase, setup, teardown),
		cmocka_unit_test_setup_teardown(times_by_phase, setup, teardown),
		cmocka_unit_test_setup_teardown(several_to_each_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(a_part_of_the_ranks, setup, teardown),
		cmocka_unit_test_setup_teardown(neighbours_only, setup, teardown),
		cmocka_unit_test_setup_teardown(datagrams_to_some, setup, teardown),
		cmocka_unit_test_setup_teardown(datagrams, setup, teardown),
		cmocka_unit_test_setup_teardown(receives_are_posted_first, setup, teardown),
		cmocka_unit_test_setup_teardown(several_meshes, setup, teardown),
		cmocka_unit_test_setup_teardown(one_is_late_to_see, setup, teardown),
		cmocka_unit_test_setup_teardown(a_list_is_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(a_rank_that_is_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(a_misspelt_variable, setup, teardown),
		cmocka_unit_test_setup_teardown(missing_ranks_are_reported, setup, teardown),
		cmocka_unit_test_setup_teardown(different_wishes, setup, teardown),
		cmocka_unit_test_setup_teardown(different_regions, setup, teardown),
		cmocka_unit_test_setup_teardown(different_sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_wish_of_one_side, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_input, setup, teardown),
		cmocka_unit_test_setup_teardown(each_call_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_at_any_time, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_while_one_is_late, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_while_one_is_slow, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_while_one_is_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_while_one_is_held_up, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stranger_killed_while_one_is_held_up, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_repair_after_a_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(repaired_again_while_one_is_held_up, setup,
						teardown),
		cmocka_unit_test_setup_teardown(repaired_while_one_is_held_up_in_the_bring_up,
						setup, teardown),
		cmocka_unit_test_setup_teardown(all_know_behind_an_heir, setup, teardown),
		cmocka_unit_test_setup_teardown(a_list_of_an_heir_is_late, setup, teardown),
		cmocka_unit_test_setup_teardown(restarted_server, setup, teardown),
		cmocka_unit_test_setup_teardown(a_port_that_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(repaired_many_times, setup, teardown),
		cmocka_unit_test_setup_teardown(runs_that_are_over, setup, teardown),
		cmocka_unit_test_setup_teardown(made_anew_after_a_repair, setup, teardown),
		cmocka_unit_test_setup_teardown(made_anew_while_others_repair, setup, teardown),
		cmocka_unit_test_setup_teardown(made_anew_with_the_same_numbers, setup, teardown),
		cmocka_unit_test_setup_teardown(a_refill_that_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(one_fails_and_connects_again, setup, teardown),
		cmocka_unit_test_setup_teardown(made_anew_while_others_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_can_be_connected, setup, teardown),
		cmocka_unit_test_setup_teardown(a_repair_reads_what_has_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(repaired, setup, teardown),
		cmocka_unit_test_setup_teardown(repaired_by_several_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(a_newcomer_whom_nobody_repairs_for, setup,
						teardown),
		cmocka_unit_test_setup_teardown(repaired_after_a_barrier, setup, teardown),
		cmocka_unit_test_setup_teardown(lists_of_newcomers, setup, teardown),
		cmocka_unit_test_setup_teardown(a_newcomer_is_late, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_was_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(repaired_at_the_second_try, setup, teardown),
		cmocka_unit_test_setup_teardown(two_die_one_after_the_other, setup, teardown),
		cmocka_unit_test_setup_teardown(each_request_of_a_repair, setup, teardown),
		cmocka_unit_test_setup_teardown(repaired_in_any_shape, setup, teardown),
		cmocka_unit_test_setup_teardown(one_gives_up, setup, teardown),
		cmocka_unit_test_setup_teardown(forged_entries, setup, teardown),
		cmocka_unit_test_setup_teardown(gathered, setup, teardown),
		cmocka_unit_test_setup_teardown(gathered_with_gaps, setup, teardown),
		cmocka_unit_test_setup_teardown(neighbours_gathered, setup, teardown),
		cmocka_unit_test_setup_teardown(one_is_refused_and_nobody_hangs, setup, teardown),
		cmocka_unit_test_setup_teardown(ranks_of_another_order, setup, teardown),
		cmocka_unit_test_setup_teardown(wrong_contributions, setup, teardown),
		cmocka_unit_test_setup_teardown(a_former_list, setup, teardown),
		cmocka_unit_test_setup_teardown(a_barrier_that_one_has_failed, setup, teardown),
		cmocka_unit_test_setup_teardown(one_fails_and_nobody_hangs, setup, teardown),
	};

	stride = unit_stride(7);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
