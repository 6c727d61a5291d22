/* SPDX-License-Identifier: MIT */
/*
 * original.c - bring-ups as programs of the original write them, with its functions
 *
 * The clock runs from hartebeest_init() until the last process has deleted its keys: device,
 * connection to the server, objects, exchange.
 *
 * 	init first	five queue pairs for each peer, published in INIT, one peer after the other
 * 	push first	four queue pairs for each peer, published in RESET, one kind after the
 * 			other, then two more; each has one completion queue, which is made twice
 *
 * Each is done by the library and by plain libmemcached with the same verbs calls: one key after
 * the other, and no check of anything.  Built for the stub, where only the exchange takes time,
 * and, as original-live, for a device.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/plain.h"
#include "hartebeest-c.h"
#include "hartebeest.h"
#ifdef BENCH_LIVE
#include "tests/support/ranks.h"
#define NEED ranks_need_device
#define REGION (1024 * 1024)
#else
#define NEED NULL
#define REGION 4096		/* the stub pins nothing: to clear more would be a disadvantage */
#endif

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RANKS 8
#define KINDS 6
#define PD "pd"

/* ---------------------------------------------------------------- patterns --- */

/* A kind of queue pair, of which each process makes one for each peer. */
struct kind {
	const char *name, *other;	/* is connected to the peer's of kind @other */
	bool serves;			/* named after the peer first */
	bool has_region;		/* and publishes it */
	enum { NOTHING, ITS_REGION, TABLE_OF_PEER, OWN_TABLE } fetches;
	bool stays;			/* its key is not deleted */
};

struct stage {
	struct kind kinds[5];
	int count;
	bool has_table;			/* a region for all peers */
	const char *message;		/* pushed when all are connected, and waited for */
};

struct pattern {
	struct stage stages[2];
	int count;
	bool init_first;		/* before publishing, not before connecting */
	bool by_peers;			/* all kinds for one peer, then the next peer */
	const char *receive_queue;	/* kind of its name */
	bool stays;			/* the table's key is not deleted */
};

static const struct pattern init_first = {
	.stages = { {
		.kinds = {
			{ "copy", "apply", .fetches = ITS_REGION },
			{ "check", "answer", .fetches = ITS_REGION },
			{ "apply", "copy", .serves = true, .has_region = true },
			{ "answer", "check", .serves = true, .has_region = true },
			{ "beat", "beat", .fetches = OWN_TABLE, .stays = true },
		},
		.count = 5, .has_table = true, .message = "ready",
	} },
	.count = 1, .init_first = true, .by_peers = true, .receive_queue = "rcq", .stays = true,
};

static const struct pattern push_first = {
	.stages = { {
		.kinds = {
			{ "copy", "apply", .fetches = ITS_REGION },
			{ "check", "answer", .fetches = ITS_REGION },
			{ "apply", "copy", .serves = true, .has_region = true },
			{ "answer", "check", .serves = true, .has_region = true },
		},
		.count = 4, .message = "connected",
	}, {
		.kinds = {
			{ "beat", "heart", .fetches = TABLE_OF_PEER },
			{ "heart", "beat", .serves = true },
		},
		.count = 2, .has_table = true, .message = "beating",
	} },
	.count = 2, .receive_queue = "scq",
};

/* ---------------------------------------------------------------- both ways --- */

/* The functions of the original that these programs call. */
struct way {
	bool (*pd)(const char *pd);
	bool (*mr)(const char *pd, const char *mr, size_t size, int access);
	bool (*cq)(const char *cq);
	bool (*qp)(const char *pd, const char *qp, enum ibv_qp_type type, const char *send_cq,
		   const char *recv_cq);
	bool (*init)(const char *pd, const char *qp);
	bool (*connect)(const char *pd, const char *qp, const char *key);
	bool (*push_mr)(const char *key, const char *pd, const char *mr);
	bool (*push_qp)(const char *key, const char *pd, const char *qp);
	bool (*fetch_mr)(const char *key);
	bool (*fetch_qp)(const char *key);
	bool (*push)(const char *key);
	bool (*wait)(const char *key);
	bool (*del)(const char *key);
	struct ibv_qp *(*get_qp)(const char *pd, const char *qp);
};

/* One bring-up by one process. */
struct node {
	const struct way *way;
	const struct pattern *pattern;
	const struct stage *stage;
	const struct bench_pass *pass;
	int rank, size;
};

struct name {
	char text[64];
};

static struct name name_of(const char *what, const char *kind, int from, int to)
{
	struct name name;

	snprintf(name.text, sizeof(name.text), "%s-%s(%d->%d)", what, kind, from, to);
	return name;
}

static struct name own_name(const struct node *node, const char *what, const struct kind *kind,
			    int peer)
{
	return kind->serves ? name_of(what, kind->name, peer, node->rank)
			    : name_of(what, kind->name, node->rank, peer);
}

/* A kind that is connected to itself is named after its owner at both ends. */
static struct name peer_name(const struct node *node, const char *what, const struct kind *kind,
			     int peer)
{
	bool owner_first = kind->serves || strcmp(kind->name, kind->other) == 0;

	return owner_first ? name_of(what, kind->other, peer, node->rank)
			   : name_of(what, kind->other, node->rank, peer);
}

static struct name word_of(const char *word, int rank)
{
	struct name name;

	snprintf(name.text, sizeof(name.text), "%s-%d", word, rank);
	return name;
}

/* Fails only where it matters: these programs test few results. */
static bool make(const struct node *node, const struct kind *kind, int peer)
{
	struct name qp = own_name(node, "qp", kind, peer), mr = own_name(node, "mr", kind, peer);
	struct name send = own_name(node, "scq", kind, peer);
	struct name receive = own_name(node, node->pattern->receive_queue, kind, peer);
	const struct way *way = node->way;

	way->cq(send.text);
	way->cq(receive.text);
	return way->qp(PD, qp.text, IBV_QPT_RC, send.text, receive.text) &&
	       (!node->pattern->init_first || way->init(PD, qp.text)) &&
	       way->push_qp(qp.text, PD, qp.text) &&
	       (!kind->has_region || (way->mr(PD, mr.text, REGION, ACCESS) &&
				      way->push_mr(mr.text, PD, mr.text)));
}

static bool fetch_region(const struct node *node, const struct kind *kind, int peer)
{
	switch (kind->fetches) {
	case ITS_REGION:
		return node->way->fetch_mr(peer_name(node, "mr", kind, peer).text);
	case TABLE_OF_PEER:
		return node->way->fetch_mr(word_of("table", peer).text);
	case OWN_TABLE:
		return node->way->fetch_mr(word_of("table", node->rank).text);
	case NOTHING:
		break;
	}
	return true;
}

static bool fetch_and_connect(const struct node *node, const struct kind *kind, int peer)
{
	struct name qp = own_name(node, "qp", kind, peer);
	struct name other = peer_name(node, "qp", kind, peer);

	return fetch_region(node, kind, peer) && node->way->fetch_qp(other.text) &&
	       (node->pattern->init_first || node->way->init(PD, qp.text)) &&
	       node->way->connect(PD, qp.text, other.text);
}

static bool clean(const struct node *node, const struct kind *kind, int peer)
{
	if (!kind->stays)
		node->way->del(own_name(node, "qp", kind, peer).text);
	if (kind->has_region)
		node->way->del(own_name(node, "mr", kind, peer).text);
	return true;
}

/* Calls @step for each kind and peer, in the order of the pattern. */
static bool each(const struct node *node,
		 bool (*step)(const struct node *node, const struct kind *kind, int peer))
{
	int i, peers = node->size - 1, kinds = node->stage->count, kind, peer;
	bool done = true;

	for (i = 0; i < peers * kinds && done; i++) {
		kind = node->pattern->by_peers ? i % kinds : i / peers;
		peer = node->pattern->by_peers ? i / kinds : i % peers;
		done = step(node, &node->stage->kinds[kind], peer + (peer >= node->rank));
	}
	return done;
}

static bool meet(const struct node *node)
{
	bool done = node->way->push(word_of(node->stage->message, node->rank).text);
	int peer;

	for (peer = 0; peer < node->size && done; peer++)
		if (peer != node->rank)
			done = node->way->wait(word_of(node->stage->message, peer).text);
	return done;
}

/* Messages stay: these programs sleep for seconds before they delete any. */
static bool take_stage(const struct node *node)
{
	struct name table = word_of("table", node->rank);
	const struct way *way = node->way;

	if (node->stage->has_table && !(way->mr(PD, table.text, REGION, ACCESS) &&
					way->push_mr(table.text, PD, table.text)))
		return false;
	if (!each(node, make) || !each(node, fetch_and_connect) || !meet(node) ||
	    !each(node, clean))
		return false;
	if (node->stage->has_table && !node->pattern->stays)
		way->del(table.text);
	return true;
}

static struct node node_of(const struct bench_rank *rank, const struct pattern *pattern)
{
	return (struct node){
		.way = rank->device, .pattern = pattern, .stage = pattern->stages,
		.pass = rank->pass, .rank = rank->rank, .size = rank->pass->size,
	};
}

static int bring_up(struct bench_rank *rank, const struct pattern *pattern)
{
	struct node node = node_of(rank, pattern);
	bool done = node.way->pd(PD);

	for (; node.stage < pattern->stages + pattern->count && done; node.stage++)
		done = take_stage(&node);
	if (!done && !rank->error[0])
		return bench_fail(rank, -EIO, "the bring-up failed: %s", hartebeest_error());
	return done ? 0 : -EIO;
}

/* ------------------------------------------------------------- the library --- */

static struct way library = {
	.pd = hartebeest_create_local_pd,
	.mr = hartebeest_create_local_mr,
	.cq = hartebeest_create_basiccq,
	.qp = hartebeest_create_local_qp,
	.init = hartebeest_init_local_qp,
	.connect = hartebeest_connect_local_qp,
	.push_mr = hartebeest_memc_push_local_mr,
	.push_qp = hartebeest_memc_push_local_qp,
	.fetch_mr = hartebeest_memc_fetch_remote_mr,
	.fetch_qp = hartebeest_memc_fetch_remote_qp,
	.push = hartebeest_memc_push_general,
	.wait = hartebeest_memc_wait_general,
	.del = hartebeest_memc_del_general,
	.get_qp = hartebeest_get_local_qp,
};

static int library_open(struct bench_rank *rank)
{
	char id[12], participants[16], limit[16];

	snprintf(id, sizeof(id), "%d", rank->rank);
	snprintf(participants, sizeof(participants), "0-%d", rank->pass->size - 1);
	snprintf(limit, sizeof(limit), "%ds", rank->pass->limit);
	setenv("HARTEBEEST_NID", id, 1);
	setenv("HARTEBEEST_PARTICIPANTS", participants, 1);
	setenv("HARTEBEEST_EXC_IP_PORT", rank->pass->server, 1);
	setenv("HARTEBEEST_JOB", rank->pass->job, 1);
	setenv("HARTEBEEST_TIMEOUT", limit, 1);
	setenv("HARTEBEEST_LOG", "none", 1);
	rank->device = &library;
	return 0;
}

static int library_init_first(struct bench_rank *rank)
{
	hartebeest_init();
	return bring_up(rank, &init_first);
}

static int library_push_first(struct bench_rank *rank)
{
	hartebeest_init();
	return bring_up(rank, &push_first);
}

/* ----------------------------------------------------------- original's way --- */

/* What an object is called, and what it is. */
struct object {
	struct name name;
	union {
		struct ibv_cq *cq;
		struct ibv_mr *mr;
		struct ibv_qp *qp;
	} is;
	struct bare_end end;		/* of a queue pair, or what was fetched of a peer's */
};

struct region {
	uint64_t address, length;
	uint32_t rkey;
};

static struct plain {
	struct bench_rank *rank;
	struct bare_port port;
	struct ibv_pd *pd;
	struct object objects[RANKS * KINDS * 8];
	size_t count;
} plain;

static struct object *plain_find(const char *name)
{
	size_t i;

	for (i = 0; i < plain.count; i++)
		if (strcmp(plain.objects[i].name.text, name) == 0)
			return &plain.objects[i];
	return NULL;
}

/* NULL: there is one of that name. */
static struct object *plain_new(const char *name)
{
	struct object *object = &plain.objects[plain.count];

	if (plain_find(name) || plain.count == COUNT(plain.objects))
		return NULL;
	plain.count++;
	snprintf(object->name.text, sizeof(object->name.text), "%s", name);
	return object;
}

static bool plain_pd(const char *pd)
{
	(void)pd;
	plain.pd = ibv_alloc_pd(plain.port.verbs);
	return plain.pd;
}

static bool plain_mr(const char *pd, const char *name, size_t size, int access)
{
	struct object *object = plain_new(name);

	(void)pd;
	if (object)
		object->is.mr = (ibv_reg_mr)(plain.pd, aligned_alloc(64, size), size, access);
	return object && object->is.mr;
}

/* The original makes the queue before it finds that there is one of that name. */
static bool plain_cq(const char *name)
{
	struct ibv_cq *cq = ibv_create_cq(plain.port.verbs, 128, NULL, NULL, 0);
	struct object *object = plain_new(name);

	if (object)
		object->is.cq = cq;
	return object && cq;
}

static bool plain_qp(const char *pd, const char *name, enum ibv_qp_type type, const char *send_cq,
		     const char *recv_cq)
{
	struct object *send = plain_find(send_cq), *receive = plain_find(recv_cq);
	struct ibv_qp_init_attr init;
	struct object *object;

	(void)pd;
	object = send && receive ? plain_new(name) : NULL;
	if (!object)
		return false;
	init = bare_init_attr(send->is.cq);
	init.recv_cq = receive->is.cq;
	init.qp_type = type;
	init.cap.max_send_sge = init.cap.max_recv_sge = 16;
	object->is.qp = ibv_create_qp(plain.pd, &init);
	return object->is.qp && bare_init(&plain.port, object->is.qp, &object->end) == 0;
}

/* Done when it was created, since the sequence number is drawn there. */
static bool plain_init(const char *pd, const char *name)
{
	(void)pd, (void)name;
	return true;
}

/* One server has the keys of all passes. */
static struct name plain_key_of(const char *key)
{
	struct name name;

	snprintf(name.text, sizeof(name.text), "%.20s-%.40s", plain.rank->pass->job, key);
	return name;
}

static bool plain_push(const char *key, const void *value, size_t size)
{
	return plain_set(plain.rank, plain_key_of(key).text, value, size) == 0;
}

static bool plain_push_mr(const char *key, const char *pd, const char *name)
{
	struct ibv_mr *mr = plain_find(name)->is.mr;
	struct region region = { (uintptr_t)mr->addr, mr->length, mr->rkey };

	(void)pd;
	return plain_push(key, &region, sizeof(region));
}

static bool plain_push_qp(const char *key, const char *pd, const char *name)
{
	struct bare_end *end = &plain_find(name)->end;

	(void)pd;
	return plain_push(key, end, sizeof(*end));
}

static bool plain_push_word(const char *key)
{
	return plain_push(key, "  ", 2);
}

static bool plain_wait_word(const char *key)
{
	char value[2];

	return plain_wait(plain.rank, plain_key_of(key).text, value, sizeof(value)) == 0;
}

static bool plain_fetch_mr(const char *key)
{
	struct region region;

	return plain_wait(plain.rank, plain_key_of(key).text, &region, sizeof(region)) == 0;
}

/* A key may be fetched again, and be that of an own object. */
static bool plain_fetch_qp(const char *key)
{
	struct name name = plain_key_of(key);
	struct object *object = plain_find(name.text);

	if (!object)
		object = plain_new(name.text);
	return object &&
	       plain_wait(plain.rank, name.text, &object->end, sizeof(object->end)) == 0;
}

static bool plain_connect(const char *pd, const char *name, const char *key)
{
	struct object *own = plain_find(name), *peer = plain_find(plain_key_of(key).text);

	(void)pd;
	return bare_connect(&plain.port, own->is.qp, &own->end, &peer->end) == 0;
}

static bool plain_del(const char *key)
{
	return plain_delete(plain.rank, plain_key_of(key).text) == 0;
}

static struct ibv_qp *plain_get_qp(const char *pd, const char *name)
{
	struct object *object = plain_find(name);

	(void)pd;
	return object ? object->is.qp : NULL;
}

static struct way by_hand = {
	.pd = plain_pd,
	.mr = plain_mr,
	.cq = plain_cq,
	.qp = plain_qp,
	.init = plain_init,
	.connect = plain_connect,
	.push_mr = plain_push_mr,
	.push_qp = plain_push_qp,
	.fetch_mr = plain_fetch_mr,
	.fetch_qp = plain_fetch_qp,
	.push = plain_push_word,
	.wait = plain_wait_word,
	.del = plain_del,
	.get_qp = plain_get_qp,
};

static int plain_start(struct bench_rank *rank)
{
	rank->device = &by_hand;
	return 0;
}

/* Device and server are opened within the clock, as by the library. */
static int plain_work(struct bench_rank *rank, const struct pattern *pattern)
{
	int ret = plain_open(rank);

	memset(&plain, 0, sizeof(plain));
	plain.rank = rank;
	if (ret == 0 && bare_open(&plain.port, NULL) < 0)
		ret = bench_fail(rank, -ENODEV, "no device");
	return ret < 0 ? ret : bring_up(rank, pattern);
}

static int plain_init_first(struct bench_rank *rank)
{
	return plain_work(rank, &init_first);
}

static int plain_push_first(struct bench_rank *rank)
{
	return plain_work(rank, &push_first);
}

/* --------------------------------------------------------------------- proof --- */

/* What the device knows of both ends; shared by the processes. */
struct hall {
	struct joint {
		uint32_t qp_num, dest_qp_num, rq_psn, sq_psn;
		enum ibv_qp_state state;
	} joints[RANKS][RANKS][KINDS];	/* of the first rank, to the second */
};

static const struct pattern *pattern_of(const struct bench_side *side)
{
	return side->work == library_init_first || side->work == plain_init_first ? &init_first
										   : &push_first;
}

static struct joint *joint_of(const struct bench_pass *pass, int own, int peer, int kind)
{
	return &((struct hall *)pass->data)->joints[own][peer][kind];
}

static bool note(const struct node *node, const struct kind *kind, int peer)
{
	struct ibv_qp *qp = node->way->get_qp(PD, own_name(node, "qp", kind, peer).text);
	int first = node->stage == node->pattern->stages ? 0 : node->pattern->stages[0].count;
	struct joint *joint = joint_of(node->pass, node->rank, peer,
				       first + (int)(kind - node->stage->kinds));
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!qp || ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_SQ_PSN, &init) != 0)
		return false;
	*joint = (struct joint){ qp->qp_num, attr.dest_qp_num, attr.rq_psn, attr.sq_psn,
				 attr.qp_state };
	return true;
}

static int prove(struct bench_rank *rank)
{
	struct node node = node_of(rank, pattern_of(rank->pass->side));
	int i;

	for (i = 0; i < node.pattern->count; i++) {
		node.stage = &node.pattern->stages[i];
		if (!each(&node, note))
			return bench_fail(rank, -ENOENT, "a queue pair is not there");
	}
	return 0;
}

/* The kind at the other end, counted like @kind from the first one of the first stage. */
static int other_kind(const struct pattern *pattern, int kind)
{
	const struct stage *stage = pattern->stages;
	int first = 0, other = 0;

	if (kind >= stage->count)
		first = (stage++)->count;
	while (strcmp(stage->kinds[other].name, stage->kinds[kind - first].other) != 0)
		other++;
	return first + other;
}

static bool is_joined(const struct joint *own, const struct joint *peer)
{
	return own->state == IBV_QPS_RTS && own->dest_qp_num == peer->qp_num &&
	       own->rq_psn == peer->sq_psn;
}

static const char *wrong(struct bench_pass *pass)
{
	const struct pattern *pattern = pattern_of(pass->side);
	int kinds = pattern->stages[0].count + pattern->stages[1].count;
	static char text[96];
	int i, own, peer, kind;

	for (i = 0; i < pass->size * pass->size * kinds; i++) {
		own = i / kinds / pass->size;
		peer = i / kinds % pass->size;
		kind = i % kinds;
		if (own == peer || is_joined(joint_of(pass, own, peer, kind),
					     joint_of(pass, peer, own, other_kind(pattern, kind))))
			continue;
		snprintf(text, sizeof(text), "queue pair %d of rank %d is not connected to rank %d "
			 "as it is", kind, own, peer);
		return text;
	}
	return NULL;
}

/* --------------------------------------------------------------------- table --- */

#define INIT_FIRST "init first"
#define INIT_PLAIN "plain init first"
#define PUSH_FIRST "push first"
#define PUSH_PLAIN "plain push first"

/* The objects end with the process. */
static void leave(struct bench_rank *rank)
{
	(void)rank;
}

static const struct bench_side sides[] = {
	{ .name = INIT_FIRST, .open = library_open, .work = library_init_first, .close = leave },
	{ .name = INIT_PLAIN, .open = plain_start, .work = plain_init_first, .close = leave },
	{ .name = PUSH_FIRST, .open = library_open, .work = library_push_first, .close = leave },
	{ .name = PUSH_PLAIN, .open = plain_start, .work = plain_push_first, .close = leave },
	{ .name = NULL }
};

static const struct bench_goal goals[] = {
	{ BENCH_GUARD, INIT_FIRST, BENCH_TIME, INIT_PLAIN, 2, RANKS, 0, 2.1 },
	{ BENCH_GUARD, PUSH_FIRST, BENCH_TIME, PUSH_PLAIN, 2, RANKS, 0, 1.8 },
	{ BENCH_AIM, INIT_FIRST, BENCH_TIME, INIT_PLAIN, 2, RANKS, 0, 1.0 },
	{ BENCH_AIM, PUSH_FIRST, BENCH_TIME, PUSH_PLAIN, 2, RANKS, 0, 1.0 },
	{ .side = NULL }
};

static const int sizes[] = { 2, 3, 5, 0 };

int main(int argc, char **argv)
{
	static const struct bench bench = {
		.name = "original",
		.title = "bring-ups of N processes by the original's functions",
		.sizes = sizes,
		.sides = sides,
		.goals = goals,
		.units = bench_peers,
		.keys_text = "keys a peer",
		.processes = true,
		.warm_up = true,
		.shared = sizeof(struct hall),
		.prove = prove,
		.wrong = wrong,
		.need = NEED,
	};

	return bench_main(argc, argv, &bench);
}
