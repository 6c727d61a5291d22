/* SPDX-License-Identifier: MIT */
/* bringup.c - see bringup.h */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/core/context.h"
#include "lib/verbs/qp.h"
#include "tests/support/bringup.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"
#include "tests/support/pause.h"
#include "tests/support/rank.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

struct bringup *bringup_new(const char *server, const char *job, int size)
{
	struct bringup *bringup = mmap(NULL, sizeof(*bringup), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (bringup == MAP_FAILED)
		abort();
	snprintf(bringup->server, sizeof(bringup->server), "%s", server);
	snprintf(bringup->job, sizeof(bringup->job), "%s", job);
	bringup->size = size;
	bringup->hold_rank = -1;
	return bringup;
}

void bringup_free(struct bringup *bringup)
{
	munmap(bringup, sizeof(*bringup));
}

/* -------------------------------------------------------- names of things --- */

struct name {
	char text[32];
};

static struct name qp_name(int peer)
{
	struct name name;

	snprintf(name.text, sizeof(name.text), "to%d", peer);
	return name;
}

static struct name qp_key(int from, int to)
{
	struct name name;

	snprintf(name.text, sizeof(name.text), "%d-%d", from, to);
	return name;
}

static struct name numbered(const char *what, int rank)
{
	struct name name;

	snprintf(name.text, sizeof(name.text), "%s%d", what, rank);
	return name;
}

/* ------------------------------------------------------------------- steps --- */

typedef int each_fn(struct bringup_member *member, int peer);

static int each_peer(struct bringup_member *member, each_fn *fn)
{
	int peer, ret = 0;

	for (peer = 0; peer < member->bringup->size && ret == 0; peer++)
		if (peer != member->rank)
			ret = fn(member, peer);
	return ret;
}

static int open_context(struct bringup_member *member)
{
	const struct bringup *bringup = member->bringup;
	const struct rank_settings settings = {
		.servers = bringup->server, .job = bringup->job, .rank = member->rank,
		.size = bringup->size,
	};

	return rank_open(&member->hb, &settings);
}

static struct bringup_rank *own(struct bringup_member *member)
{
	return &member->bringup->rank[member->rank];
}

static int push(struct bringup_member *member)
{
	char text[48];

	snprintf(text, sizeof(text), "%s from %d", member->bringup->job, member->rank);
	return hartebeest_msg_push(member->hb, numbered("hello", member->rank).text, text,
				   strlen(text) + 1, 0);
}

static int create_qp(struct bringup_member *member, int peer)
{
	return qp_make(member->hb, qp_name(peer).text, "pd", IBV_QPT_RC, "cq", "cq",
				    NULL);
}

/* The length of its region tells a rank from the process that had its number before. */
static int create(struct bringup_member *member)
{
	uint64_t length = 1 + (uint64_t)member->rank + 16 * (uint64_t)(getpid() % 4096);
	int ret;

	own(member)->length = length;
	ret = hartebeest_pd_create(member->hb, "pd", NULL);
	if (ret == 0)
		ret = cq_make(member->hb, "cq", 0, 0, NULL);
	if (ret == 0)
		ret = mr_make(member->hb, "mr", "pd", length, ACCESS, NULL);
	return ret < 0 ? ret : each_peer(member, create_qp);
}

static int init_qp(struct bringup_member *member, int peer)
{
	return hartebeest_qp_init(member->hb, qp_name(peer).text);
}

static int mr_publish(struct bringup_member *member)
{
	return hartebeest_mr_publish(member->hb, "mr", numbered("mr", member->rank).text, 0);
}

static int publish_qp(struct bringup_member *member, int peer)
{
	return hartebeest_qp_publish(member->hb, qp_name(peer).text,
				     qp_key(member->rank, peer).text, 0);
}

static int fetch_qp(struct bringup_member *member, int peer)
{
	return hartebeest_qp_fetch(member->hb, qp_key(peer, member->rank).text, NULL, 0);
}

static int connect_qp(struct bringup_member *member, int peer)
{
	return hartebeest_qp_connect(member->hb, qp_name(peer).text,
				     qp_key(peer, member->rank).text, 0);
}

static int confirm_qp(struct bringup_member *member, int peer)
{
	return hartebeest_qp_confirm(member->hb, qp_name(peer).text,
				     qp_key(peer, member->rank).text, 0);
}

/* Comes after the confirmation: until then, a region may be that of a former run. */
static int fetch_mr(struct bringup_member *member, int peer)
{
	struct hartebeest_remote_mr remote;
	int ret;

	ret = hartebeest_mr_fetch(member->hb, numbered("mr", peer).text, &remote, 0);
	if (ret == 0)
		own(member)->end[peer].length = remote.length;
	return ret;
}

static int take_message(struct bringup_member *member, int peer)
{
	char *message = own(member)->end[peer].message;

	return hartebeest_msg_wait(member->hb, numbered("hello", peer).text, message,
				   sizeof(own(member)->end[peer].message), NULL, 0);
}

static int barrier(struct bringup_member *member)
{
	return hartebeest_barrier(member->hb, "all", 0);
}

static const struct {
	const char *name;
	int (*take)(struct bringup_member *member);
	each_fn *each;			/* instead, for each peer */
} steps[BRINGUP_STEPS] = {
	{ "open", .take = open_context },
	{ "msg_push", .take = push },
	{ "create", .take = create },
	{ "init", .each = init_qp },
	{ "mr_publish", .take = mr_publish },
	{ "qp_publish", .each = publish_qp },
	{ "qp_fetch", .each = fetch_qp },
	{ "connect", .each = connect_qp },
	{ "confirm", .each = confirm_qp },
	{ "mr_fetch", .each = fetch_mr },
	{ "msg_wait", .each = take_message },
	{ "barrier", .take = barrier },
};

const char *bringup_step_name(int step)
{
	return steps[step].name;
}

int bringup_step(const char *name)
{
	int i;

	for (i = 0; i < BRINGUP_STEPS; i++)
		if (!strcmp(steps[i].name, name))
			return i;
	abort();
}

/* ------------------------------------------------------------------- taking --- */

static void hold(struct bringup *bringup)
{
	if (bringup->deadly)
		kill(getpid(), SIGKILL);
	__atomic_store_n(&bringup->held, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&bringup->go, __ATOMIC_ACQUIRE))
		pause_ms(1);
}

static struct bringup *dying;

static void die_at_call(const char *function)
{
	(void)function;
	if (dying && !--dying->deadly_call)
		kill(getpid(), SIGKILL);
}

static void note_result(struct bringup_member *member, int ret)
{
	struct bringup_rank *rank = own(member);

	rank->ret = ret;
	if (ret < 0)
		__atomic_add_fetch(&member->bringup->failed, 1, __ATOMIC_RELEASE);
	snprintf(rank->error, sizeof(rank->error), "%s", ret < 0 ? hartebeest_error() : "");
}

int bringup_take(struct bringup_member *member)
{
	struct bringup *bringup = member->bringup;
	int step, ret = 0, last = member->last ? member->last : BRINGUP_STEPS - 1;
	bool holds = bringup->hold_rank == member->rank || bringup->hold_rank == BRINGUP_RANKS;

	own(member)->pid = getpid();
	beest_process_mark(own(member)->process);
	if (holds && bringup->deadly_call) {
		dying = bringup;
		fake_verbs.hook = die_at_call;
	}
	for (step = member->first; step <= last && ret == 0; step++) {
		if (holds && bringup->hold_step == step)
			hold(bringup);
		own(member)->at = step;
		ret = steps[step].each ? each_peer(member, steps[step].each) :
					 steps[step].take(member);
		__atomic_add_fetch(&bringup->passed, 1, __ATOMIC_RELEASE);
	}
	if (ret == 0 && holds && bringup->hold_step == step)
		hold(bringup);
	if (dying)
		dying = NULL;
	note_result(member, ret);
	return ret;
}

static struct beest_qp *find_qp(struct bringup_member *member, int peer)
{
	struct beest_node *node;

	node = beest_table_find(&member->hb->objects, &beest_qp_kind, qp_name(peer).text);
	if (!node)
		abort();
	return BEEST_CONTAINER(node, struct beest_qp, node);
}

static int rejoin(struct bringup_member *member, int peer)
{
	const uint8_t *now = member->bringup->rank[peer].process;
	int ret = 0;

	if (memcmp(find_qp(member, peer)->remote.incarnation.bytes, now, BEEST_PROCESS_SIZE) != 0)
		ret = hartebeest_qp_reconnect(member->hb, qp_name(peer).text,
					      qp_key(peer, member->rank).text, 0);
	return ret;
}

int bringup_rejoin(struct bringup_member *member)
{
	int ret = each_peer(member, rejoin);

	note_result(member, ret);
	return ret;
}

/* --------------------------------------------------------------------- results --- */

static const struct ibv_qp_attr *told(const struct ibv_qp *qp, enum ibv_qp_state to)
{
	size_t i = fake_verbs.modified_count, oldest = i > FAKE_HISTORY ? i - FAKE_HISTORY : 0;
	const struct fake_modify *modify;

	while (i-- > oldest) {
		modify = &fake_verbs.modified[i % FAKE_HISTORY];
		if (modify->qp_num == qp->qp_num && modify->attr.qp_state == to && !modify->ret)
			return &modify->attr;
	}
	return NULL;
}

static int note_end(struct bringup_member *member, int peer)
{
	struct bringup_end *end = &own(member)->end[peer];
	const struct ibv_qp *qp = find_qp(member, peer)->qp;
	const struct ibv_qp_attr *rtr = told(qp, IBV_QPS_RTR), *rts = told(qp, IBV_QPS_RTS);

	if (!rtr || !rts || qp->state != IBV_QPS_RTS)
		return 0;		/* zeros show that it is not connected */
	end->qp_num = qp->qp_num;
	end->sq_psn = rts->sq_psn;
	end->dest_qp_num = rtr->dest_qp_num;
	end->rq_psn = rtr->rq_psn;
	return 0;
}

void bringup_note(struct bringup_member *member)
{
	each_peer(member, note_end);
}

static char wrong[2048];

static const char *wrong_end(const struct bringup *bringup, int from, int to)
{
	const struct bringup_end *a = &bringup->rank[from].end[to];
	const struct bringup_end *b = &bringup->rank[to].end[from];
	char message[48];

	snprintf(message, sizeof(message), "%s from %d", bringup->job, to);
	if (a->qp_num && a->dest_qp_num == b->qp_num && a->rq_psn == b->sq_psn &&
	    a->length == bringup->rank[to].length && !strcmp(a->message, message))
		return NULL;

	snprintf(wrong, sizeof(wrong), "rank %d to %d: QP %u PSN %u is connected to QP %u PSN %u, "
		 "which is QP %u PSN %u; region of %llu bytes, which has %llu; message '%s'",
		 from, to, a->qp_num, a->sq_psn, a->dest_qp_num, a->rq_psn, b->qp_num, b->sq_psn,
		 (unsigned long long)a->length, (unsigned long long)bringup->rank[to].length,
		 a->message);
	return wrong;
}

/* Lists all failures, since the first rank that is named is often the victim of another. */
static void tell_failures(const struct bringup *bringup)
{
	size_t used = 0;
	int rank;

	for (rank = 0; rank < bringup->size && used < sizeof(wrong); rank++)
		if (bringup->rank[rank].ret)
			used += (size_t)snprintf(wrong + used, sizeof(wrong) - used,
						 "rank %d at %s: %d, %s\n", rank,
						 steps[bringup->rank[rank].at].name,
						 bringup->rank[rank].ret,
						 bringup->rank[rank].error);
}

static const char *wrong_rank(const struct bringup *bringup, int rank)
{
	const struct bringup_rank *it = &bringup->rank[rank];
	const char *found = NULL;
	int peer;

	if (it->ret)
		return wrong;
	for (peer = 0; peer < bringup->size && !found; peer++)
		if (peer != rank)
			found = wrong_end(bringup, rank, peer);
	return found;
}

const char *bringup_wrong(const struct bringup *bringup)
{
	const char *found = NULL;
	int rank;

	tell_failures(bringup);
	for (rank = 0; rank < bringup->size && !found; rank++)
		found = wrong_rank(bringup, rank);
	return found;
}

/* ----------------------------------------------------------------- threads --- */

static void *run(void *data)
{
	bringup_take(data);
	return NULL;
}

void bringup_start(struct bringup_crowd *crowd, struct bringup *bringup)
{
	int rank;

	memset(crowd, 0, sizeof(*crowd));
	for (rank = 0; rank < bringup->size; rank++) {
		crowd->member[rank].bringup = bringup;
		crowd->member[rank].rank = rank;
		if (pthread_create(&crowd->thread[rank], NULL, run, &crowd->member[rank]))
			abort();
	}
}

void bringup_join(struct bringup_crowd *crowd)
{
	const struct bringup *bringup = crowd->member[0].bringup;
	int rank;

	for (rank = 0; rank < bringup->size; rank++)
		pthread_join(crowd->thread[rank], NULL);
}

void bringup_note_all(struct bringup_crowd *crowd)
{
	const struct bringup *bringup = crowd->member[0].bringup;
	int rank;

	for (rank = 0; rank < bringup->size; rank++)
		if (bringup->rank[rank].at > bringup_step("create"))
			bringup_note(&crowd->member[rank]);
}

void bringup_leave(struct bringup_crowd *crowd)
{
	int rank;

	for (rank = 0; rank < BRINGUP_RANKS; rank++)
		hartebeest_close(crowd->member[rank].hb);
}

static void await(struct bringup *bringup, const int *counter, int wanted)
{
	while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < wanted &&
	       !__atomic_load_n(&bringup->failed, __ATOMIC_ACQUIRE))
		pause_ms(1);
}

void bringup_await_held(struct bringup *bringup)
{
	await(bringup, &bringup->held, 1);
}

void bringup_await_passed(struct bringup *bringup, int passed)
{
	await(bringup, &bringup->passed, passed);
}

void bringup_let_go(struct bringup *bringup)
{
	__atomic_store_n(&bringup->go, 1, __ATOMIC_RELEASE);
}
