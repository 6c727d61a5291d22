/* SPDX-License-Identifier: MIT */
/*
 * api.c - two ends find each other through a real Memcached server
 *
 * The device is a fake that enforces the kernel's rules and records the attributes it was
 * given; everything else is as in production.  Ends that wait for each other run in threads;
 * the test's own thread judges the results.
 *
 * promise: hartebeest_qp(3), hartebeest_msg(3), hartebeest_mr(3)
 */
#include "config.h"

#include <arpa/inet.h>
#include <endian.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hartebeest-mesh.h"
#include "hartebeest-post.h"
#include "hartebeest.h"
#include "lib/base/clock.h"
#include "lib/core/context.h"
#include "lib/kv/kv.h"
#include "lib/rendezvous/record.h"
#include "lib/verbs/qp.h"
#include "tests/support/clock-step.h"
#include "tests/support/fake-clock.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/rank.h"
#include "tests/support/raw-kv.h"
#include "tests/support/scratch.h"
#include "tests/support/stack.h"
#include "tests/support/unit.h"
#include "tests/support/wire.h"

#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define PATIENCE (RANK_PATIENCE_S * BEEST_SECOND)
#define PATIENCE_TEXT "60 s (HARTEBEEST_TIMEOUT)"

/* For calls that return before the limit: one that waits for it outlasts the test. */
#define ENDLESS "exchange.timeout=1h"
#define MESSAGE_MAX (1024 * 1024 - 2048)

static struct cache *cache;
static char servers[300];
static char job[32];			/* a new one for each test */
static const char *further;		/* one more option; NULL: none */

/* -------------------------------------------------------------- one end --- */

struct side {
	struct hartebeest_context *hb;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	int rank;
	char own[32], peer[32];		/* keys of the queue pairs */
	int refills;

	pthread_t thread;
	int (*work)(struct side *side);
	int ret;
	char error[1024];
};

static struct side a, b;

static int open_context(struct hartebeest_context **hb, int rank)
{
	char device[32];
	const struct rank_settings settings = {
		.servers = servers, .job = job, .rank = rank, .size = 2, .device = device,
		.more = { further },
	};

	snprintf(device, sizeof(device), "fake%d", rank);
	return rank_open(hb, &settings);
}

static int refill(void *data, struct ibv_qp *qp)
{
	struct side *side = data;

	side->refills++;
	return hartebeest_post_recv(qp, NULL, 0, 0, 1);
}

static int make(struct side *side, int rank, int type)
{
	memset(side, 0, sizeof(*side));
	side->rank = rank;
	snprintf(side->own, sizeof(side->own), "%c/qp", 'a' + rank);
	snprintf(side->peer, sizeof(side->peer), "%c/qp", 'a' + !rank);
	return open_context(&side->hb, rank) ||
	       hartebeest_pd_create(side->hb, "pd", NULL) ||
	       cq_make(side->hb, "cq", 0, 0, NULL) ||
	       mr_make(side->hb, "mr", "pd", 4096, RW, &side->mr) ||
	       qp_make(side->hb, "qp", "pd", type, "cq", "cq", &side->qp) ||
	       hartebeest_qp_refill_set(side->hb, "qp", refill, side);
}

static void both(int type)
{
	assert_int_equal(make(&a, 0, type), 0);
	assert_int_equal(make(&b, 1, type), 0);
}

static void leave(struct side *side)
{
	hartebeest_close(side->hb);
	memset(side, 0, sizeof(*side));
}

static char warnings[1024];

static void keep_warning(void *data, int level, const char *line)
{
	size_t used = strlen(warnings);

	(void)data;
	(void)level;
	snprintf(warnings + used, sizeof(warnings) - used, "%s\n", line);
}

/* The steps of either end.  The errors belong to the thread that ran the step. */
static int publish(struct side *side)
{
	return hartebeest_qp_publish(side->hb, "qp", side->own, 0);
}

static int fetch(struct side *side)
{
	return hartebeest_qp_fetch(side->hb, side->peer, NULL, 0);
}

static int connect_qp(struct side *side)
{
	return hartebeest_qp_connect(side->hb, "qp", side->peer, 0);
}

static int confirm(struct side *side)
{
	return hartebeest_qp_confirm(side->hb, "qp", side->peer, 0);
}

static int reconnect(struct side *side)
{
	return hartebeest_qp_reconnect(side->hb, "qp", side->peer, 0);
}

static int introduce(struct side *side)
{
	int ret;

	ret = publish(side);
	if (ret == 0)
		ret = fetch(side);
	if (ret == 0)
		ret = connect_qp(side);
	return ret;
}

static int introduce_and_confirm(struct side *side)
{
	int ret = introduce(side);

	return ret < 0 ? ret : confirm(side);
}

static void *run(void *data)
{
	struct side *side = data;

	side->ret = side->work(side);
	snprintf(side->error, sizeof(side->error), "%s", hartebeest_error());
	return NULL;
}

static void start(struct side *side, int (*work)(struct side *side))
{
	side->work = work;
	assert_int_equal(pthread_create(&side->thread, NULL, run, side), 0);
}

static void finishes(struct side *side)
{
	pthread_join(side->thread, NULL);
	if (side->ret)
		print_error("rank %d: %d, %s\n", side->rank, side->ret, side->error);
	assert_int_equal(side->ret, 0);
}

static void together(int (*work)(struct side *side))
{
	start(&a, work);
	start(&b, work);
	finishes(&a);
	finishes(&b);
}

/* ------------------------------------------------------------- the outcome --- */

static const struct fake_modify *step_to(const struct ibv_qp *qp, enum ibv_qp_state to)
{
	size_t i = fake_verbs.modified_count;
	const struct fake_modify *modify;

	while (i-- > 0) {
		modify = &fake_verbs.modified[i % FAKE_HISTORY];
		if (modify->qp_num == qp->qp_num && modify->attr.qp_state == to &&
		    modify->ret == 0)
			return modify;
	}
	fail_msg("QP %u never went to state %d", qp->qp_num, to);
	return NULL;
}

static const struct beest_local *end_of(const struct side *side)
{
	struct beest_node *node;

	node = beest_table_find(&side->hb->objects, &beest_qp_kind, "qp");
	assert_non_null(node);
	return &BEEST_CONTAINER(node, struct beest_qp, node)->local;
}

/* The attributes of @from's RTR and RTS describe @to. */
static void points_to(const struct side *from, const struct side *to)
{
	const struct ibv_qp_attr *rtr = &step_to(from->qp, IBV_QPS_RTR)->attr;
	const struct ibv_qp_attr *rts = &step_to(from->qp, IBV_QPS_RTS)->attr;
	const struct ibv_qp_attr *peer_rts = &step_to(to->qp, IBV_QPS_RTS)->attr;

	assert_int_equal(from->qp->state, IBV_QPS_RTS);
	assert_int_equal(rtr->dest_qp_num, to->qp->qp_num);
	assert_int_equal(rtr->rq_psn, peer_rts->sq_psn);
	assert_int_equal(rts->sq_psn, end_of(from)->endpoint.psn);
	assert_int_equal(rtr->path_mtu, IBV_MTU_1024);
	assert_int_equal(rtr->ah_attr.port_num, 1);
	assert_int_equal(rtr->ah_attr.is_global, 1);
	assert_int_equal(rtr->ah_attr.grh.sgid_index, 3);
	assert_int_equal(rtr->ah_attr.grh.hop_limit, 64);
	assert_memory_equal(rtr->ah_attr.grh.dgid.raw, end_of(to)->endpoint.gid.raw, 16);
	assert_int_equal(rtr->ah_attr.grh.dgid.raw[15], to->rank + 1);
	if (from->qp->qp_type == IBV_QPT_RC) {
		assert_int_equal(rtr->max_dest_rd_atomic, from->rank ? 4 : 16);
		assert_int_equal(rts->max_rd_atomic, from->rank ? 16 : 4);
		assert_int_equal(rts->timeout, 14);
	}
}

static void are_connected(void)
{
	points_to(&a, &b);
	points_to(&b, &a);
}

/* ------------------------------------------------------------ the fixture --- */

static int group_setup(void **state)
{
	(void)state;
	surroundings_clear();
	cache_need();
	cache = cache_start(NULL);
	snprintf(servers, sizeof(servers), "%s", cache_hostport(cache)->text);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	cache_end(cache);
	return 0;
}

/* fake0 is 10.0.0.1 with MTU 1024, fake1 10.0.0.2 with MTU 4096 and fewer reads. */
static int setup(void **state)
{
	struct fake_device *second;
	static int number;

	(void)state;
	fake_verbs_reset();
	second = fake_verbs_add("fake1");
	second->ports[0].active_mtu = IBV_MTU_4096;
	second->ports[0].gids[2].gid = second->ports[0].gids[3].gid = "::ffff:10.0.0.2";
	second->attr.max_qp_rd_atom = 4;
	snprintf(job, sizeof(job), "job%d", number++);
	further = NULL;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	leave(&a);
	leave(&b);
	if (fake_verbs.open)
		print_error("%d objects are still open\n", fake_verbs.open);
	return fake_verbs.open;
}

/* The same tests with a secret for the job. */
static char secret_file[SCRATCH_SIZE];

static int sealed_group_setup(void **state)
{
	group_setup(state);
	scratch_text(secret_file, "hartebeest-api", "0123456789abcdef\n");
	setenv("HARTEBEEST_SECRET_FILE", secret_file, 1);
	return 0;
}

static int sealed_group_teardown(void **state)
{
	unsetenv("HARTEBEEST_SECRET_FILE");
	unlink(secret_file);
	return group_teardown(state);
}

/* A connection to the server without the library's records. */
static struct beest_kv *raw(void)
{
	struct beest_kv *exchange = NULL;

	assert_int_equal(beest_kv_open(&exchange, cache_hostport(cache), 1), 0);
	return exchange;
}

static int64_t soon(void)
{
	return beest_clock_deadline(PATIENCE);
}

static void raw_put(const char *kind, const char *name, const void *bytes, size_t size)
{
	struct beest_kv *exchange = raw();
	char key[128];

	snprintf(key, sizeof(key), "hb1/%s/%s/%s", job, kind, name);
	assert_int_equal(raw_kv_put(exchange, key, bytes, size, 60, soon()), 0);
	beest_kv_close(exchange);
}

/* The value of a key, which the caller frees; NULL: none. */
static uint8_t *raw_get(const char *kind, const char *name, size_t *size)
{
	struct beest_kv *exchange = raw();
	struct beest_kv_value value;
	const char *keys[1];
	char key[128];

	snprintf(key, sizeof(key), "hb1/%s/%s/%s", job, kind, name);
	keys[0] = key;
	assert_int_equal(raw_kv_get(exchange, keys, 1, &value, soon()), 0);
	beest_kv_close(exchange);
	*size = value.size;
	return value.bytes;
}

static bool is_published(const char *kind, const char *name)
{
	size_t size;
	uint8_t *bytes = raw_get(kind, name, &size);
	bool published = bytes && !(wire_flags(bytes) & BEEST_RECORD_CLOSED);

	free(bytes);
	return published;
}

/* Does the record of a queue pair say that it is connected? */
static bool is_connected(const char *name)
{
	size_t size;
	uint8_t *bytes = raw_get("qp", name, &size);
	bool connected = bytes && wire_flags(bytes) & BEEST_RECORD_ECHO;

	free(bytes);
	return connected;
}

/* The state in the presence of a rank. */
static int rank_state(int rank)
{
	struct beest_rank_body body;
	struct beest_record record;
	char name[16], key[128];
	size_t size;
	uint8_t *bytes;

	snprintf(name, sizeof(name), "%d", rank);
	snprintf(key, sizeof(key), "hb1/%s/rank/%d", job, rank);
	bytes = raw_get("rank", name, &size);
	assert_non_null(bytes);
	assert_int_equal(beest_record_decode(NULL, bytes, size, BEEST_KIND_RANK, key, &record), 0);
	assert_int_equal(beest_record_rank_decode(&record, &body), 0);
	free(bytes);
	return body.state;
}

/* ----------------------------------------------------------- the full flow --- */

static void reliable_connection(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	together(introduce_and_confirm);
	are_connected();
	assert_int_equal(a.refills, 1);
	assert_int_equal(b.refills, 1);
	together(confirm);			/* repeating it is harmless */
	are_connected();
}

/*
 * A program that made all objects by verbs calls adopts them: its queue pair is connected by
 * name and reconnected, and the program destroys it.
 */
struct own {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char memory[64];
};

static void make_own(struct own *own, struct side *side, int rank)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	const char *options[] = { NULL, NULL, NULL, NULL, NULL };
	char texts[4][320];

	memset(side, 0, sizeof(*side));
	side->rank = rank;
	snprintf(side->own, sizeof(side->own), "%c/qp", 'a' + rank);
	snprintf(side->peer, sizeof(side->peer), "%c/qp", 'a' + !rank);
	own->verbs = ibv_open_device(list[rank]);
	ibv_free_device_list(list);
	own->pd = ibv_alloc_pd(own->verbs);
	own->cq = ibv_create_cq(own->verbs, 16, NULL, NULL, 0);
	own->mr = (ibv_reg_mr)(own->pd, own->memory, sizeof(own->memory), RW);
	attr.send_cq = attr.recv_cq = own->cq;
	side->qp = ibv_create_qp(own->pd, &attr);

	snprintf(texts[0], sizeof(texts[0]), "exchange.servers=%s", servers);
	snprintf(texts[1], sizeof(texts[1]), "job.id=%s", job);
	snprintf(texts[2], sizeof(texts[2]), "job.rank=%d", rank);
	snprintf(texts[3], sizeof(texts[3]), "job.nparticipants=2");
	for (rank = 0; rank < 4; rank++)
		options[rank] = texts[rank];
	assert_int_equal(hartebeest_open_verbs(&side->hb, options, own->verbs, 0), 0);
	assert_int_equal(hartebeest_mr_adopt(side->hb, "mr", own->mr, RW), 0);
	assert_int_equal(hartebeest_qp_adopt(side->hb, "qp", side->qp), 0);
	assert_int_equal(hartebeest_qp_refill_set(side->hb, "qp", refill, side), 0);
	assert_int_equal(hartebeest_mr_publish(side->hb, "mr", side->own, 0), 0);
}

static void leave_own(struct own *own, struct side *side)
{
	assert_int_equal(hartebeest_close(side->hb), 0);
	assert_int_equal(ibv_destroy_qp(side->qp), 0);
	assert_int_equal(ibv_dereg_mr(own->mr), 0);
	assert_int_equal(ibv_destroy_cq(own->cq), 0);
	assert_int_equal(ibv_dealloc_pd(own->pd), 0);
	assert_int_equal(ibv_close_device(own->verbs), 0);
	memset(side, 0, sizeof(*side));
}

static void adopted_connection(void **state)
{
	struct hartebeest_remote_mr mr;
	struct own mine, theirs;

	(void)state;
	make_own(&mine, &a, 0);
	make_own(&theirs, &b, 1);
	together(introduce_and_confirm);
	are_connected();
	assert_int_equal(hartebeest_mr_fetch(a.hb, b.own, &mr, 0), 0);
	assert_int_equal(mr.address, (uintptr_t)theirs.memory);
	assert_int_equal(mr.rkey, theirs.mr->rkey);
	assert_int_equal(mr.access, RW);

	together(reconnect);
	are_connected();
	assert_true(a.refills >= 2);
	assert_int_equal(hartebeest_qp_destroy(b.hb, "qp"), 0);	/* forgotten, record deleted */
	assert_false(is_published("qp", b.own));
	assert_int_equal(b.qp->state, IBV_QPS_RTS);
	leave_own(&mine, &a);
	leave_own(&theirs, &b);
}

static void unreliable_connection(void **state)
{
	(void)state;
	both(IBV_QPT_UC);
	together(introduce_and_confirm);
	are_connected();
}

static void over_infiniband(void **state)
{
	struct fake_device *devices = fake_verbs.devices;
	const struct ibv_qp_attr *rtr;

	(void)state;
	fake_verbs_infiniband();
	fake_verbs_add("fake1");
	devices[1].ports[0].lid = 0x1234;
	devices[1].ports[0].gids[0].gid = "fe80::1234";
	devices[1].ports[0].active_mtu = IBV_MTU_2048;
	both(IBV_QPT_RC);
	together(introduce_and_confirm);
	rtr = &step_to(a.qp, IBV_QPS_RTR)->attr;
	assert_int_equal(rtr->ah_attr.is_global, 0);
	assert_int_equal(rtr->ah_attr.dlid, 0x1234);
	assert_int_equal(rtr->path_mtu, IBV_MTU_2048);
	rtr = &step_to(b.qp, IBV_QPS_RTR)->attr;
	assert_int_equal(rtr->ah_attr.dlid, 7);
	assert_int_equal(rtr->path_mtu, IBV_MTU_2048);
}

static void what_is_told_of_the_peer(void **state)
{
	struct hartebeest_remote_qp remote;
	char host[64], text[256], expected[256];

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&b), 0);
	memset(&remote, 0xff, sizeof(remote));
	assert_int_equal(hartebeest_qp_fetch(a.hb, "b/qp", &remote, 0), 0);
	assert_int_equal(remote.qp_type, IBV_QPT_RC);
	assert_int_equal(remote.qp_num, b.qp->qp_num);
	assert_int_equal(remote.psn, end_of(&b)->endpoint.psn);
	assert_int_equal(remote.qkey, 0x11111111);
	assert_int_equal(remote.lid, 0);
	assert_int_equal(remote.pkey, 0xffff);
	assert_memory_equal(remote.gid.raw, end_of(&b)->endpoint.gid.raw, 16);
	assert_int_equal(remote.rank, 1);
	gethostname(host, sizeof(host));
	snprintf(expected, sizeof(expected), "rank 1 on %s, pid %d, fake1:1", host, (int)getpid());
	assert_true(hartebeest_peer_text(a.hb, "b/qp", text, sizeof(text), 0) >= 0);
	assert_string_equal(text, expected);
	assert_int_equal(hartebeest_peer_text(a.hb, "c/qp", text, sizeof(text),
					      HARTEBEEST_ONCE), -ENOENT);
}

/* The peer is a process, which lives until @hold is closed and deletes none of its records. */
static pid_t connected_to_a_child(int *hold)
{
	int ends[2];
	pid_t child;
	char none;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		close(ends[1]);
		_exit(make(&b, 1, IBV_QPT_RC) || introduce_and_confirm(&b) ||
		      TEMP_FAILURE_RETRY(read(ends[0], &none, 1)));
	}
	close(ends[0]);
	*hold = ends[1];
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	start(&a, introduce_and_confirm);
	finishes(&a);
	return child;
}

static const char *completion_text(enum ibv_wc_status status)
{
	const struct ibv_wc wc = { .status = status, .qp_num = a.qp->qp_num };
	static char text[1024];
	char who[256];

	assert_true(hartebeest_peer_text(a.hb, "b/qp", who, sizeof(who), 0) >= 0);
	assert_true(hartebeest_completion_text(a.hb, &wc, text, sizeof(text)) >= 0);
	return text;
}

static int wait_at_barrier(struct side *side)
{
	return hartebeest_barrier(side->hb, "all", 0);
}

/*
 * True: @call ends in vain, with an error that has @error, and one warning @warned.  A busy server
 * may not answer within the quarter of a second that each of these questions has.
 */
static bool warns(int (*call)(struct side *side), const char *error, const char *warned)
{
	const char *found;
	int ret, tries = 0;

	do {
		warnings[0] = '\0';
		ret = IN_VAIN(call(&a));
		found = strstr(warnings, warned);
	} while (ret == -ETIMEDOUT && !(found && strstr(hartebeest_error(), error)) &&
		 tries++ < 20);
	return ret == -ETIMEDOUT && found && !strstr(found + 1, warned) &&
	       strstr(hartebeest_error(), error);
}

/* A peer that has ended before it connected: the log names its process soon, the error at last. */
static void a_peer_that_is_dead(void **state)
{
	char dead[128], error[256], warned[256], host[64];
	int status = -1;
	pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(make(&b, 1, IBV_QPT_RC) || publish(&b));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	hartebeest_log_set(a.hb, HARTEBEEST_LOG_WARN, keep_warning, NULL);
	assert_int_equal(introduce(&a), 0);

	gethostname(host, sizeof(host));
	snprintf(dead, sizeof(dead), "rank 1 on %s, pid %d, fake1:1, whose process is dead", host,
		 (int)child);
	snprintf(error, sizeof(error), "was published, but its process has not connected to this "
		 "queue pair; it is of %s", dead);
	snprintf(warned, sizeof(warned), "still waiting for queue pair 'b/qp' (key hb1/%s/qp/b/qp) "
		 "of %s\n", job, dead);
	assert_true(warns(confirm, error, warned));
	snprintf(warned, sizeof(warned), "still waiting at barrier 'all' for %s\n", dead);
	assert_true(warns(wait_at_barrier, dead, warned));
}

/* The text of a completion says that the peer is dead, where the library can know it. */
static void completions_tell_of_a_dead_peer(void **state)
{
	char host[64], alive[128], expected[512], text[256];
	pid_t child;
	int i, hold, status = -1;

	(void)state;
	child = connected_to_a_child(&hold);
	gethostname(host, sizeof(host));
	snprintf(alive, sizeof(alive), "connected to 'b/qp' (QP %" PRIu32 " of the peer (rank 1))",
		 step_to(a.qp, IBV_QPS_RTR)->attr.dest_qp_num);
	assert_non_null(strstr(completion_text(IBV_WC_RETRY_EXC_ERR), alive));
	assert_null(strstr(completion_text(IBV_WC_RETRY_EXC_ERR), "; the peer is"));

	close(hold);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	snprintf(expected, sizeof(expected), "rank 1 on %s, pid %d, fake1:1, whose process is dead",
		 host, (int)child);
	assert_true(hartebeest_peer_text(a.hb, "b/qp", text, sizeof(text), 0) >= 0);
	assert_string_equal(text, expected);
	snprintf(expected, sizeof(expected), "%s; the peer is rank 1, whose process is dead",
		 alive);
	assert_non_null(strstr(completion_text(IBV_WC_RETRY_EXC_ERR), expected));
	assert_non_null(strstr(completion_text(IBV_WC_RESP_TIMEOUT_ERR), expected));
	assert_null(strstr(completion_text(IBV_WC_REM_ACCESS_ERR), "; the peer is"));

	/* Another process takes over the peer's rank. */
	assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);
	assert_int_equal(publish(&b), 0);
	snprintf(expected, sizeof(expected), "%s; the peer is rank 1, which is another process now",
		 alive);
	/* A process takes over a dead one's presence in one of its calls, not at once. */
	for (i = 0; i < 200 && !strstr(completion_text(IBV_WC_RETRY_EXC_ERR), expected); i++) {
		pause_ms(50);
		assert_int_equal(hartebeest_msg_push(b.hb, "call", "", 0, 0), 0);
	}
	assert_non_null(strstr(completion_text(IBV_WC_RETRY_EXC_ERR), expected));
}

static void completions_tell_of_a_peer_that_has_left(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	together(introduce_and_confirm);
	leave(&b);
	assert_non_null(strstr(completion_text(IBV_WC_RETRY_EXC_ERR),
			       "; the peer is rank 1, which has left"));
}

/* Publishing takes a queue pair to INIT, but never back from a later state. */
static void publish_takes_to_init(void **state)
{
	uint32_t psn;

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(a.qp->state, IBV_QPS_INIT);
	psn = end_of(&a)->endpoint.psn;
	assert_int_equal(publish(&a), 0);
	assert_int_equal(end_of(&a)->endpoint.psn, psn);
	assert_int_equal(a.refills, 1);
	assert_int_equal(introduce(&b), 0);
	assert_int_equal(fetch(&a), 0);
	assert_int_equal(connect_qp(&a), 0);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(a.qp->state, IBV_QPS_RTS);
	together(confirm);
	are_connected();
}

/* Connecting twice is refused, and the connection is unaffected. */
static void connected_already(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	together(introduce_and_confirm);
	assert_int_equal(connect_qp(&a), -EISCONN);
	assert_error_is("queue pair 'qp' is not in INIT but connected to b/qp: "
			"hartebeest_qp_reset() or _reconnect()");
	assert_int_equal(hartebeest_qp_init(a.hb, "qp"), -EISCONN);
	together(confirm);
	are_connected();
}

#define PAIRS 8

static int introduce_number(struct side *side)
{
	char name[16], own[16], peer[16];
	int i, ret = 0;

	for (i = 0; i < PAIRS && ret == 0; i++) {
		snprintf(name, sizeof(name), "qp%d", i);
		snprintf(own, sizeof(own), "%d/%d", side->rank, i);
		ret = qp_make(side->hb, name, "pd", IBV_QPT_RC, "cq", "cq", NULL) ||
		      hartebeest_qp_publish(side->hb, name, own, 0);
	}
	for (i = 0; i < PAIRS && ret == 0; i++) {
		snprintf(name, sizeof(name), "qp%d", i);
		snprintf(peer, sizeof(peer), "%d/%d", !side->rank, i);
		ret = hartebeest_qp_fetch(side->hb, peer, NULL, 0) ||
		      hartebeest_qp_connect(side->hb, name, peer, 0) ||
		      hartebeest_qp_confirm(side->hb, name, peer, 0);
	}
	return ret;
}

static void many_queue_pairs(void **state)
{
	struct ibv_qp *mine = NULL, *its = NULL;
	char name[16];
	int i;

	(void)state;
	both(IBV_QPT_RC);
	together(introduce_number);
	for (i = 0; i < PAIRS; i++) {
		snprintf(name, sizeof(name), "qp%d", i);
		assert_int_equal(hartebeest_qp_get(a.hb, name, &mine), 0);
		assert_int_equal(hartebeest_qp_get(b.hb, name, &its), 0);
		assert_int_equal(step_to(mine, IBV_QPS_RTR)->attr.dest_qp_num, its->qp_num);
		assert_int_equal(step_to(its, IBV_QPS_RTR)->attr.dest_qp_num, mine->qp_num);
	}
}

/* Threads share one context; each has a queue pair of its own. */
struct worker {
	struct side *side;
	int number, ret;
	pthread_t thread;
	char error[512];
};

static void *work_alone(void *data)
{
	struct worker *worker = data;
	struct hartebeest_context *hb = worker->side->hb;
	char name[16], own[16], peer[16];

	snprintf(name, sizeof(name), "w%d", worker->number);
	snprintf(own, sizeof(own), "%d/%d", worker->side->rank, worker->number);
	snprintf(peer, sizeof(peer), "%d/%d", !worker->side->rank, worker->number);
	worker->ret = qp_make(hb, name, "pd", IBV_QPT_RC, "cq", "cq", NULL) ||
		      hartebeest_qp_publish(hb, name, own, 0) ||
		      hartebeest_qp_fetch(hb, worker->side->peer, NULL, 0) ||	/* shared */
		      hartebeest_qp_fetch(hb, peer, NULL, 0) ||
		      hartebeest_qp_connect(hb, name, peer, 0) ||
		      hartebeest_qp_confirm(hb, name, peer, 0);
	snprintf(worker->error, sizeof(worker->error), "%s", hartebeest_error());
	return NULL;
}

static void threads_share_a_context(void **state)
{
	struct worker workers[2 * PAIRS];
	int i;

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(publish(&b), 0);
	for (i = 0; i < 2 * PAIRS; i++) {
		workers[i].side = i % 2 ? &a : &b;
		workers[i].number = i / 2;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work_alone,
						&workers[i]), 0);
	}
	for (i = 0; i < 2 * PAIRS; i++)
		pthread_join(workers[i].thread, NULL);
	for (i = 0; i < 2 * PAIRS; i++) {
		if (workers[i].ret)
			print_error("%s\n", workers[i].error);
		assert_int_equal(workers[i].ret, 0);
	}
}

/* ------------------------------------------------------------- datagrams --- */

static void datagrams(void **state)
{
	struct hartebeest_ud_address address, again;

	(void)state;
	both(IBV_QPT_UD);
	assert_int_equal(hartebeest_qp_ud_address(a.hb, "qp", "b/qp", &address), -ENOTCONN);
	assert_error_is("queue pair 'qp' has no address of 'b/qp': hartebeest_qp_connect() makes "
			"one");
	together(introduce);
	assert_int_equal(a.qp->state, IBV_QPS_RTS);
	assert_int_equal(b.qp->state, IBV_QPS_RTS);
	assert_int_equal(hartebeest_qp_ud_address(a.hb, "qp", "b/qp", &address), 0);
	assert_non_null(address.ah);
	assert_int_equal(address.qp_num, b.qp->qp_num);
	assert_int_equal(address.qkey, 0x11111111);
	assert_int_equal(hartebeest_post_send_ud(a.qp, a.mr->addr, 8, a.mr->lkey, address.ah,
						 address.qp_num, address.qkey, 1, 0), 0);

	assert_int_equal(confirm(&a), -EOPNOTSUPP);
	assert_error_is("UD queue pair 'qp' has no single peer to confirm: use "
			"hartebeest_barrier()");
	assert_int_equal(reconnect(&a), -EOPNOTSUPP);
	assert_int_equal(a.qp->state, IBV_QPS_RTS);
	assert_int_equal(hartebeest_qp_ud_address(a.hb, "qp", "b/qp", &again), 0);
	assert_ptr_equal(again.ah, address.ah);
}

static void datagrams_to_many(void **state)
{
	struct hartebeest_ud_address first, second, third;
	struct ibv_qp *other = NULL;

	(void)state;
	both(IBV_QPT_UD);
	assert_int_equal(qp_make(b.hb, "other", "pd", IBV_QPT_UD, "cq", "cq", &other),
			 0);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(hartebeest_qp_publish(b.hb, "other", "b/other", 0), 0);
	assert_int_equal(fetch(&a), 0);
	assert_int_equal(hartebeest_qp_fetch(a.hb, "b/other", NULL, 0), 0);
	assert_int_equal(connect_qp(&a), 0);
	assert_int_equal(hartebeest_qp_connect(a.hb, "qp", "b/other", 0), 0);
	assert_int_equal(hartebeest_qp_ud_address(a.hb, "qp", "b/qp", &first), 0);
	assert_int_equal(hartebeest_qp_ud_address(a.hb, "qp", "b/other", &second), 0);
	assert_int_equal(first.qp_num, b.qp->qp_num);
	assert_int_equal(second.qp_num, other->qp_num);
	assert_ptr_not_equal(first.ah, second.ah);
	assert_int_equal(fake_verbs.ahs, 2);

	/* The peer made a new queue pair under its old key. */
	assert_int_equal(hartebeest_qp_destroy(b.hb, "qp"), 0);
	assert_int_equal(qp_make(b.hb, "qp", "pd", IBV_QPT_UD, "cq", "cq", &b.qp), 0);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(fetch(&a), 0);
	assert_int_equal(connect_qp(&a), 0);
	assert_int_equal(hartebeest_qp_ud_address(a.hb, "qp", "b/qp", &third), 0);
	assert_int_equal(third.qp_num, b.qp->qp_num);
	assert_int_not_equal(third.qp_num, first.qp_num);
	assert_int_equal(fake_verbs.ahs, 2);

	assert_int_equal(hartebeest_qp_reset(a.hb, "qp"), 0);
	assert_int_equal(fake_verbs.ahs, 0);
	assert_int_equal(hartebeest_qp_ud_address(a.hb, "qp", "b/qp", &third), -ENOTCONN);
}

/* Nobody listed its clients, which send as soon as they have found it. */
static void a_server_of_datagrams(void **state)
{
	struct hartebeest_ud_address address;

	(void)state;
	both(IBV_QPT_UD);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(a.qp->state, IBV_QPS_RTS);
	assert_int_equal(a.refills, 1);
	assert_int_equal(connect_qp(&b), 0);		/* fetches by itself */
	assert_int_equal(b.qp->state, IBV_QPS_RTS);
	assert_int_equal(hartebeest_qp_ud_address(b.hb, "qp", "a/qp", &address), 0);
	assert_int_equal(address.qp_num, a.qp->qp_num);
	assert_int_equal(publish(&a), 0);		/* again, from RTS */
	assert_int_equal(a.refills, 1);
}

static void an_address_that_cannot_be_made(void **state)
{
	struct hartebeest_ud_address address;

	(void)state;
	both(IBV_QPT_UD);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(fetch(&a), 0);
	assert_int_equal(hartebeest_qp_init(a.hb, "qp"), 0);
	fake_verbs_fail("ibv_create_ah", 1, ETIMEDOUT);
	assert_int_equal(hartebeest_qp_connect(a.hb, "qp", "b/qp", HARTEBEEST_ONCE), -EAGAIN);
	assert_error_has("cannot make an address handle on fake0:1 from GID index 3 "
			 "(::ffff:10.0.0.1) to ::ffff:10.0.0.2, LID 0: Connection timed out; the "
			 "peer's address 10.0.0.2 does not answer to ARP");
	assert_int_equal(hartebeest_qp_ud_address(a.hb, "qp", "b/qp", &address), -ENOTCONN);
	assert_int_equal(connect_qp(&a), 0);
	assert_int_equal(hartebeest_qp_ud_address(a.hb, "qp", "b/qp", &address), 0);
}

/* --------------------------------------------------------- disagreements --- */

static void transports_differ(void **state)
{
	char sentence[512], host[64];

	(void)state;
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	assert_int_equal(make(&b, 1, IBV_QPT_UC), 0);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(fetch(&a), 0);
	assert_int_equal(connect_qp(&a), -EPROTOTYPE);
	gethostname(host, sizeof(host));
	snprintf(sentence, sizeof(sentence), "queue pair 'qp' and 'b/qp': peer (rank 1 on %s, "
		 "pid %d, fake1:1): the transport differs: RC here (fake0:1) but UC at the peer "
		 "(rank 1): give both queue pairs the same type", host, (int)getpid());
	assert_error_is(sentence);
	assert_int_equal(a.qp->state, IBV_QPS_INIT);
	assert_int_equal(confirm(&a), -ENOTCONN);
	assert_error_is("queue pair 'qp' is not connected to 'b/qp': hartebeest_qp_connect() "
			"first");

	/* The peer publishes another queue pair of the right kind: everything still works. */
	assert_int_equal(hartebeest_qp_destroy(b.hb, "qp"), 0);
	assert_int_equal(qp_make(b.hb, "qp", "pd", IBV_QPT_RC, "cq", "cq", &b.qp), 0);
	assert_int_equal(publish(&b), 0);
	together(introduce_and_confirm);
	are_connected();
}

/* An end that gives up tells the other one, which need not wait for it. */
static void a_refusal_is_fetched(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(fetch(&a), 0);
	fake_verbs_fail("ibv_modify_qp", 1, ENOMEM);
	assert_int_equal(connect_qp(&a), -ENOMEM);
	assert_int_equal(fetch(&b), 0);			/* it may try again */
	assert_int_equal(hartebeest_qp_destroy(a.hb, "qp"), 0);
	assert_int_equal(fetch(&b), -ECONNABORTED);
	assert_error_has("peer (rank 0 on ");
	assert_error_has(", fake0:1): it could not connect to this queue pair, and gave up: INIT "
			 "-> RTR of QP ");

	/* The record does not speak of another queue pair under the same key. */
	assert_int_equal(hartebeest_qp_destroy(b.hb, "qp"), 0);
	assert_int_equal(qp_make(b.hb, "qp", "pd", IBV_QPT_RC, "cq", "cq", &b.qp), 0);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(UNTIL_ANSWERED(hartebeest_qp_fetch(b.hb, "a/qp", NULL, HARTEBEEST_ONCE)),
			 -EAGAIN);
	assert_error_has("was published, but its queue pair was destroyed, or its process has "
			 "left; it had refused another queue pair: INIT -> RTR of QP ");
	assert_int_equal(qp_make(a.hb, "qp", "pd", IBV_QPT_RC, "cq", "cq", &a.qp), 0);
	together(introduce_and_confirm);
	are_connected();
}

static void nothing_was_fetched(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(hartebeest_peer_regions(a.hb, "b/qp", NULL, 0), -ENOENT);
	assert_error_has("hartebeest_qp_fetch() was not called");
	assert_error_has("'b/qp'");
	assert_int_equal(UNTIL_ANSWERED(hartebeest_qp_connect(a.hb, "qp", "c/qp",
							      HARTEBEEST_ONCE)), -EAGAIN);
	assert_error_has("no queue pair 'c/qp' (key ");
	assert_int_equal(a.qp->state, IBV_QPS_INIT);
	assert_int_equal(connect_qp(&a), 0);
	assert_int_equal(confirm(&b), -ENOTCONN);
}

/* The device refuses a step: the state is the last one reached, and a reset helps. */
static void the_device_refuses(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(introduce(&b), 0);
	assert_int_equal(fetch(&a), 0);
	fake_verbs_fail("ibv_modify_qp", 1, EPERM);
	assert_int_equal(connect_qp(&a), -EPERM);
	assert_error_has("queue pair 'qp' and 'b/qp': peer (rank 1 on ");
	assert_error_has(", fake1:1): INIT -> RTR of QP ");
	assert_error_has("to QP ");
	assert_error_has(" at ::ffff:10.0.0.2, LID 0, path MTU 1024, reads out 4, in 16,");
	assert_int_equal(a.qp->state, IBV_QPS_INIT);
	fake_verbs_fail("ibv_modify_qp", 2, EINVAL);
	assert_int_equal(connect_qp(&a), -EINVAL);
	assert_error_has(", fake1:1): RTR -> RTS of QP ");
	assert_int_equal(a.qp->state, IBV_QPS_RTR);
	assert_int_equal(connect_qp(&a), -EISCONN);
	assert_int_equal(hartebeest_qp_reset(a.hb, "qp"), 0);
	assert_int_equal(connect_qp(&a), 0);
	together(confirm);
	are_connected();
}

/* What both adapters can do, and only that, is set before RTR. */
static void options_of_adapters(void **state)
{
	static const struct {
		uint32_t vendors[2], options[2], refuses[2];
		int errors[2];
		const char *setting;
		uint32_t agreed;
	} rows[] = {
		{ { 0x15b3, 0x15b3 }, { 0x13, 0x31 }, { 0 }, { 0 }, NULL, 0x11 },
		{ { 0x15b3, 0x15b3 }, { 0x13, 0x31 }, { 0 }, { 0 }, "qp_attr.ece=off", 0 },
		{ { 0x15b3, 0x14e4 }, { 0x13, 0x31 }, { 0 }, { 0 }, NULL, 0 },
		{ { 0x15b3, 0 }, { 0x13, 0 }, { 0 }, { 0 }, NULL, 0 },
		{ { 0, 0 }, { 0, 0 }, { 0 }, { 0 }, NULL, 0 },
		/* One of them does with fewer in the end, so the other does, too. */
		{ { 0x15b3, 0x15b3 }, { 0x13, 0x33 }, { 0, 0x10 }, { 0 }, NULL, 0x3 },
		{ { 0x15b3, 0x15b3 }, { 0x13, 0x33 }, { 0x1, 0x10 }, { 0 }, NULL, 0x2 },
		{ { 0x15b3, 0x15b3 }, { 0x13, 0x33 }, { 0 }, { ECONNREFUSED, 0 }, NULL, 0 },
		{ { 0x15b3, 0x15b3 }, { 0x13, 0x33 }, { 0 }, { 0, EINVAL }, NULL, 0 },
	};
	struct fake_device *device;
	size_t i;
	int end;

	for (i = 0; i < BEEST_COUNT(rows); i++) {
		setup(state);
		for (end = 0; end < 2; end++) {
			device = &fake_verbs.devices[end];
			device->ece_vendor = rows[i].vendors[end];
			device->ece_options = rows[i].options[end];
			device->ece_refuses = rows[i].refuses[end];
			device->ece_error = rows[i].errors[end];
		}
		further = rows[i].setting;
		both(IBV_QPT_RC);
		together(introduce_and_confirm);
		are_connected();
		assert_int_equal(fake_verbs_ece(a.qp), rows[i].agreed);
		assert_int_equal(fake_verbs_ece(b.qp), rows[i].agreed);
		/* The second time after a reset, from what the devices have. */
		together(reconnect);
		assert_int_equal(fake_verbs_ece(a.qp), rows[i].agreed);
		assert_int_equal(fake_verbs_ece(b.qp), rows[i].agreed);
		if (i + 1 < BEEST_COUNT(rows))
			assert_int_equal(teardown(state), 0);
	}
}

static int connect_by_steps(struct side *side)
{
	return connect_qp(side);
}

static int connect_by_pairs(struct side *side)
{
	struct hartebeest_pair pair;

	hartebeest_pair_init(&pair);
	pair.qp = "qp", pair.key = side->own, pair.peer_key = side->peer;

	return hartebeest_pairs_connect(side->hb, &pair, 1, 0);
}

static int connect_once(struct side *side)
{
	return hartebeest_qp_connect(side->hb, "qp", side->peer, HARTEBEEST_ONCE);
}

/*
 * A neighbour that does not answer yet, a route that is not there yet: RTR is tried again, and the
 * log says so once.  The peer hears of no refusal.
 */
static void failures_that_pass(void **state)
{
	static const int errors[] = { ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, ENETDOWN };
	int (*const calls[])(struct side *side) = { connect_by_steps, connect_by_pairs };
	const char *said;
	size_t i;

	(void)state;
	for (i = 0; i < 2 * BEEST_COUNT(errors); i++) {
		both(IBV_QPT_RC);
		hartebeest_log_set(a.hb, HARTEBEEST_LOG_WARN, keep_warning, NULL);
		warnings[0] = '\0';
		assert_int_equal(publish(&a), 0);
		assert_int_equal(introduce(&b), 0);
		assert_int_equal(fetch(&a), 0);
		fake_verbs_fail("ibv_modify_qp", 1, errors[i / 2]);
		assert_int_equal(connect_once(&a), -EAGAIN);
		assert_error_has(": INIT -> RTR of QP ");
		assert_error_has(strerror(errors[i / 2]));
		fake_verbs_fail("ibv_modify_qp", 1, errors[i / 2]);
		assert_int_equal(calls[i % 2](&a), 0);
		said = strstr(warnings, "; trying again for up to ");
		assert_non_null(said);
		assert_null(strstr(said + 1, "; trying again"));
		assert_int_equal(fake_verbs.fired, 2);
		assert_int_equal(confirm(&b), 0);
		are_connected();
		leave(&a);
		leave(&b);
		fake_verbs.fired = 0;
	}
}

/* Until the deadline.  Then the sentence names the neighbour, and the peer hears the reason. */
static void failures_that_do_not_pass(void **state)
{
	int (*const calls[])(struct side *side) = { connect_by_steps, connect_by_pairs };
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(calls); i++) {
		both(IBV_QPT_RC);
		assert_int_equal(publish(&a), 0);
		assert_int_equal(introduce(&b), 0);
		assert_int_equal(fetch(&a), 0);
		fake_verbs_fail("ibv_modify_qp", 0, EHOSTUNREACH);
		assert_int_equal(IN_VAIN(calls[i](&a)), -EHOSTUNREACH);
		assert_error_has("tried for 60 s (HARTEBEEST_TIMEOUT): INIT -> RTR of QP ");
		assert_error_has("No route to host; there is no route to the peer's address "
				 "10.0.0.2 (");
		memset(fake_verbs.failures, 0, sizeof(fake_verbs.failures));
		leave(&a);
		assert_int_equal(confirm(&b), -ECONNABORTED);
		assert_error_has("it could not connect to this queue pair, and gave up: tried "
				 "for ");
		leave(&b);
	}
}

/* ------------------------------------------------------------ confirmation --- */

/* The peer connects and then only serves one-sided reads: it calls the library no more. */
static void a_passive_peer_is_confirmed(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(introduce(&b), 0);
	assert_int_equal(fetch(&a), 0);
	assert_int_equal(connect_qp(&a), 0);
	assert_int_equal(confirm(&b), 0);
	are_connected();
}

/* The server was away during connect: hartebeest_qp_follow() stores the record. */
static void following_stores_the_record(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(introduce(&b), 0);
	assert_int_equal(fetch(&a), 0);
	cache_stop(cache);
	assert_int_equal(connect_qp(&a), 0);
	cache_resume(cache);
	assert_int_equal(hartebeest_qp_follow(a.hb, "qp", a.peer, NULL, HARTEBEEST_ONCE), 0);
	assert_int_equal(confirm(&b), 0);
	are_connected();
}

static void a_peer_that_never_comes(void **state)
{
	char sentence[320];
	int64_t start_time = beest_clock_now();

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(IN_VAIN(fetch(&a)), -ETIMEDOUT);
	assert_error_has("after " PATIENCE_TEXT ": no queue pair 'b/qp' (key hb1/");
	assert_int_equal(publish(&b), 0);
	assert_int_equal(introduce(&a), 0);
	assert_int_equal(IN_VAIN(confirm(&a)), -ETIMEDOUT);
	snprintf(sentence, sizeof(sentence), "queue pair 'qp' is connected, but 'b/qp' did not "
		 "confirm it (it stays connected: confirm again, or reconnect): after "
		 PATIENCE_TEXT ": queue pair 'b/qp' (key hb1/%s/qp/b/qp) was published, but its "
			       "process has not connected to this queue pair", job);
	assert_error_has(sentence);
	assert_true(beest_clock_now() - start_time >= 2 * PATIENCE);

	/* The peer comes late: nothing is lost. */
	assert_int_equal(fetch(&b), 0);
	assert_int_equal(connect_qp(&b), 0);
	together(confirm);
	are_connected();
}

/* A process that publishes and dies without deleting its record. */
static void publish_and_die(int type)
{
	struct side side;
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(make(&side, 1, type) || publish(&side));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/*
 * The record of a former run is there first.  The only difference from the peer's is that its
 * author never confirms.
 */
static void a_record_of_a_former_run(void **state)
{
	uint32_t stale;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		publish_and_die(IBV_QPT_RC);
		assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
		assert_int_equal(introduce(&a), 0);
		stale = step_to(a.qp, IBV_QPS_RTR)->attr.rq_psn;
		start(&a, confirm);
		pause_ms(20 * i);
		assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);
		start(&b, introduce_and_confirm);
		finishes(&b);
		finishes(&a);
		are_connected();
		assert_int_not_equal(step_to(a.qp, IBV_QPS_RTR)->attr.rq_psn, stale);
		assert_int_equal(a.refills, 2);
		assert_int_equal(b.refills, 1);
		leave(&a);
		leave(&b);
	}
}

static void a_former_run_of_another_transport(void **state)
{
	(void)state;
	publish_and_die(IBV_QPT_UC);
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	assert_int_equal(introduce(&a), -EPROTOTYPE);
	assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);
	assert_int_equal(publish(&b), 0);
	together(introduce_and_confirm);
	are_connected();
}

/* At first each end sees only the other's former run. */
static void former_runs_of_both(void **state)
{
	struct side former;

	(void)state;
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);
	together(introduce_and_confirm);
	former = a;			/* lives on, but nobody uses it any more */
	memset(&a, 0, sizeof(a));
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	assert_int_equal(introduce(&a), 0);
	fake_verbs_set_state(b.qp, IBV_QPS_ERR);
	start(&a, confirm);
	start(&b, reconnect);
	finishes(&a);
	finishes(&b);
	are_connected();
	hartebeest_close(former.hb);
	together(confirm);		/* the former context deleted its own records only */
}

/*
 * With sequence numbers fixed by an option, a process that starts again gets the numbers of
 * its former run.  Only the incarnation differs.
 */
#define FIXED "qp_attr.sq_psn=3185"

static void former_run_with_the_same_numbers(void **state)
{
	(void)state;
	further = FIXED;
	publish_and_die(IBV_QPT_RC);
	assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);	/* gets the child's numbers */
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	assert_int_equal(introduce(&a), 0);
	assert_int_equal(step_to(a.qp, IBV_QPS_RTR)->attr.dest_qp_num, b.qp->qp_num);
	start(&a, confirm);
	start(&b, introduce_and_confirm);
	finishes(&a);
	finishes(&b);
	are_connected();
	assert_int_equal(a.refills, 2);		/* connected again, to the living process */
}

/* The peer confirmed a queue pair of the same number in the former run. */
static void confirmed_to_the_former_run(void **state)
{
	pid_t child;
	int status = -1;

	(void)state;
	further = FIXED;
	assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);
	child = fork();
	if (child == 0)
		_exit(make(&a, 0, IBV_QPT_RC) || introduce_and_confirm(&a));
	start(&b, introduce_and_confirm);
	finishes(&b);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);

	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	assert_int_equal(step_to(b.qp, IBV_QPS_RTR)->attr.dest_qp_num, a.qp->qp_num);
	assert_int_equal(introduce(&a), 0);
	assert_int_equal(IN_VAIN(confirm(&a)), -ETIMEDOUT);
	together(confirm);			/* the peer finds the new record */
	are_connected();
}

static int exit_status(pid_t child)
{
	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void push_and_die(int rank)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(open_context(&a.hb, rank) ||
		      hartebeest_msg_push(a.hb, rank ? "b" : "a", "former", 7, 0));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* All ranks of a run are killed, and another run begins under the same job id. */
static void a_message_of_a_former_run(void **state)
{
	char text[8] = "";

	(void)state;
	push_and_die(0);
	push_and_die(1);
	assert_int_equal(open_context(&b.hb, 1), 0);
	assert_int_equal(IN_VAIN(hartebeest_msg_wait(b.hb, "a", text, 8, NULL, 0)), -ETIMEDOUT);
	assert_error_has(" was published by rank 0 on ");
	assert_error_has(", whose process is dead");
	assert_int_equal(open_context(&a.hb, 0), 0);
	assert_int_equal(hartebeest_msg_push(a.hb, "else", "", 0, 0), 0);
	assert_int_equal(IN_VAIN(hartebeest_msg_wait(b.hb, "a", text, 8, NULL, 0)), -ETIMEDOUT);
	assert_error_has(" was published by a process that is gone; its successor is rank 0 on ");
	assert_int_equal(hartebeest_msg_push(a.hb, "a", "latter", 7, 0), 0);
	assert_int_equal(hartebeest_msg_wait(b.hb, "a", text, 8, NULL, 0), 0);
	assert_string_equal(text, "latter");
}

/* Rank 1 lives in a process of its own until @hold ends. */
static pid_t push_and_live(int *hold)
{
	int holds[2], tells[2];
	char byte;
	pid_t child;

	assert_int_equal(pipe(holds), 0);
	assert_int_equal(pipe(tells), 0);
	child = fork();
	if (child == 0) {
		close(holds[1]);
		if (open_context(&b.hb, 1) == 0 &&
		    hartebeest_msg_push(b.hb, "b", "living", 7, 0) == 0 &&
		    write(tells[1], "", 1) == 1)
			_exit(TEMP_FAILURE_RETRY(read(holds[0], &byte, 1)) != 0);
		_exit(2);
	}
	close(holds[0]);
	close(tells[1]);
	assert_int_equal(TEMP_FAILURE_RETRY(read(tells[0], &byte, 1)), 1);
	close(tells[0]);
	*hold = holds[1];
	return child;
}

/* No step of the clock changes whose messages count, or who has a rank. */
static void set_clock_while_rank_lives(time_t seconds)
{
	char text[8] = "";
	pid_t child;
	int hold;

	push_and_die(0);
	child = push_and_live(&hold);
	clock_step = seconds;
	assert_int_equal(open_context(&a.hb, 0), 0);
	assert_int_equal(IN_VAIN(hartebeest_msg_wait(a.hb, "b", text, 8, NULL, 0)), 0);
	assert_string_equal(text, "living");
	assert_int_equal(open_context(&b.hb, 1), 0);
	assert_int_equal(IN_VAIN(hartebeest_msg_wait(b.hb, "b", text, 8, NULL, 0)), -EADDRINUSE);
	assert_error_has("rank 1 runs twice: as pid ");
	assert_error_has("; end one of them, give each a rank of its own (HARTEBEEST_NID) if both "
			 "belong to this run, or each run a HARTEBEEST_JOB of its own");
	leave(&b);

	close(hold);
	assert_int_equal(exit_status(child), 0);
	assert_int_equal(open_context(&b.hb, 1), 0);
	assert_int_equal(hartebeest_msg_push(b.hb, "b", "second", 7, 0), 0);
	assert_int_equal(hartebeest_msg_wait(a.hb, "b", text, 8, NULL, 0), 0);
	assert_string_equal(text, "second");
	clock_step = 0;
}

static void a_clock_that_is_set_forward(void **state)
{
	(void)state;
	set_clock_while_rank_lives(3600);
}

static void a_clock_that_is_set_back(void **state)
{
	(void)state;
	set_clock_while_rank_lives(-3600);
}

/* ------------------------------------------------------------- reconnect --- */

static void both_reconnect(void **state)
{
	uint32_t psn_a, psn_b;
	int i;

	(void)state;
	both(IBV_QPT_RC);
	together(introduce_and_confirm);
	for (i = 0; i < 10; i++) {
		psn_a = end_of(&a)->endpoint.psn;
		psn_b = end_of(&b)->endpoint.psn;
		fake_verbs_set_state(i % 2 ? a.qp : b.qp, IBV_QPS_ERR);
		together(reconnect);
		are_connected();
		assert_int_not_equal(end_of(&a)->endpoint.psn, psn_a);
		assert_int_not_equal(end_of(&b)->endpoint.psn, psn_b);
		assert_true(a.refills >= i + 2 && b.refills >= i + 2);
	}
}

/* The latest has it: a step of the one before does not take it back. */
static void two_queue_pairs_under_one_name(void **state)
{
	struct hartebeest_remote_qp remote;

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(qp_make(a.hb, "later", "pd", IBV_QPT_RC, "cq", "cq", NULL), 0);
	assert_int_equal(hartebeest_qp_publish(a.hb, "later", a.own, 0), 0);
	assert_int_equal(hartebeest_qp_reconnect(a.hb, "qp", a.own, 0), -ENOTCONN);
	assert_error_has("queue pair 'qp' is not published");
	assert_int_equal(fetch(&a), 0);
	assert_int_equal(connect_qp(&a), 0);
	assert_int_equal(confirm(&a), -ENOTCONN);
	assert_error_is("queue pair 'qp' is not published, so no peer can confirm it");
	assert_int_equal(hartebeest_qp_fetch(b.hb, b.peer, &remote, 0), 0);
	assert_int_not_equal(remote.qp_num, a.qp->qp_num);
	assert_int_equal(hartebeest_qp_destroy(a.hb, "later"), 0);
	assert_int_equal(hartebeest_qp_publish(a.hb, "qp", a.own, 0), 0);
	assert_int_equal(hartebeest_qp_fetch(b.hb, b.peer, &remote, 0), 0);
	assert_int_equal(remote.qp_num, a.qp->qp_num);
}

static void reconnect_before_anything(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(reconnect(&a), -ENOTCONN);
	assert_error_has("queue pair 'qp' is not published");
	assert_int_equal(publish(&a), 0);
	assert_int_equal(IN_VAIN(reconnect(&a)), -ETIMEDOUT);	/* the peer is not there */
	assert_error_has("no queue pair 'b/qp'");
	assert_int_equal(introduce(&b), 0);
	together(reconnect);
	are_connected();
}

static void both_with_fixed_psn(void)
{
	char path[SCRATCH_SIZE];

	scratch_text(path, "hartebeest-psn",
		     "{ \"qp_attr\": { \"rq_psn\": 3185, \"sq_psn\": 3185 } }");
	setenv("HARTEBEEST_CONF_PATH", path, 1);
	both(IBV_QPT_RC);
	unlink(path);
	unsetenv("HARTEBEEST_CONF_PATH");
}

/*
 * With fixed sequence numbers in the settings, each life of a queue pair has the same number:
 * the peer's confirmation of the former life must not count for this one.
 */
static void a_fixed_sequence_number_confirms_nothing(void **state)
{
	(void)state;
	both_with_fixed_psn();
	together(introduce_and_confirm);
	are_connected();
	assert_int_equal(IN_VAIN(reconnect(&a)), -ETIMEDOUT);	/* b still has the old life */
	together(reconnect);
	are_connected();
}

/* The device reuses the old queue pair's number; the peer knows nothing of the new one. */
static void a_number_used_again_confirms_nothing(void **state)
{
	(void)state;
	both_with_fixed_psn();
	together(introduce_and_confirm);
	fake_verbs.next_qp_num = b.qp->qp_num;
	assert_int_equal(hartebeest_qp_destroy(b.hb, "qp"), 0);
	assert_int_equal(qp_make(b.hb, "qp", "pd", IBV_QPT_RC, "cq", "cq", &b.qp), 0);
	fake_verbs.next_qp_num = 0;
	assert_int_equal(introduce(&b), 0);
	assert_int_equal(IN_VAIN(confirm(&b)), -ETIMEDOUT);
	assert_int_equal(hartebeest_qp_follow(a.hb, "qp", "b/qp", NULL, 0), 1);
	together(confirm);
	are_connected();
}

/* Both are connected, and neither has asked for the other's confirmation. */
static void connect_both(void)
{
	assert_int_equal(publish(&b), 0);
	assert_int_equal(introduce(&a), 0);
	assert_int_equal(fetch(&b), 0);
	assert_int_equal(connect_qp(&b), 0);
}

/* The peer is connected, which is enough: it need not ask for a confirmation itself. */
static void a_peer_need_not_confirm(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	connect_both();
	assert_int_equal(hartebeest_msg_push(b.hb, "any", NULL, 0, 0), 0);
	assert_true(is_connected("b/qp"));
	assert_int_equal(confirm(&a), 0);
}

/* The new queue pair was published under the old one's key and owns the record now. */
static void the_old_one_leaves_the_new_one_alone(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	together(introduce_and_confirm);
	assert_int_equal(qp_make(a.hb, "new", "pd", IBV_QPT_RC, "cq", "cq", NULL), 0);
	assert_int_equal(hartebeest_qp_publish(a.hb, "new", a.own, 0), 0);
	assert_int_equal(fetch(&a), 0);
	assert_int_equal(hartebeest_qp_connect(a.hb, "new", a.peer, 0), 0);
	assert_int_equal(hartebeest_qp_destroy(a.hb, "qp"), 0);
	assert_int_equal(hartebeest_qp_follow(b.hb, "qp", b.peer, NULL, 0), 1);
	assert_int_equal(hartebeest_msg_push(b.hb, "any", NULL, 0, 0), 0);
	assert_int_equal(hartebeest_qp_confirm(a.hb, "new", a.peer, 0), 0);
	assert_true(is_connected(a.own));
	assert_int_equal(confirm(&b), 0);
}

/* Its confirmation belonged to the former life, and publishing has replaced that record. */
static void a_reset_peer_is_not_confirmed(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	connect_both();
	assert_int_equal(hartebeest_msg_push(a.hb, "any", NULL, 0, 0), 0);
	assert_true(is_connected("a/qp"));
	assert_int_equal(hartebeest_qp_reset(a.hb, "qp"), 0);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(IN_VAIN(confirm(&b)), -ETIMEDOUT);
	assert_int_equal(connect_qp(&a), 0);
	together(confirm);
	are_connected();
}

/* Connected first and published later; then published again, under another key. */
static void a_key_that_comes_late(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(hartebeest_qp_init(a.hb, "qp"), 0);
	assert_int_equal(fetch(&a), 0);
	assert_int_equal(connect_qp(&a), 0);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(hartebeest_msg_push(a.hb, "any", NULL, 0, 0), 0);
	assert_true(is_connected("a/qp"));
	assert_int_equal(hartebeest_qp_publish(a.hb, "qp", "a/other", 0), 0);
	strcpy(b.peer, "a/other");
	assert_int_equal(fetch(&b), 0);
	assert_int_equal(connect_qp(&b), 0);
	assert_int_equal(hartebeest_msg_push(a.hb, "any", NULL, 0, 0), 0);
	assert_int_equal(confirm(&b), 0);
}

#define RING 4

/* Each rank connects to both neighbours, then confirms the next one first. */
static void *join_ring(void *data)
{
	struct side *side = data;
	char next[32], previous[32], own[2][32];
	int before = (side->rank + RING - 1) % RING, after = (side->rank + 1) % RING;

	snprintf(own[0], sizeof(own[0]), "%d-%d", side->rank, after);
	snprintf(own[1], sizeof(own[1]), "%d-%d", side->rank, before);
	snprintf(next, sizeof(next), "%d-%d", after, side->rank);
	snprintf(previous, sizeof(previous), "%d-%d", before, side->rank);
	side->ret = qp_make(side->hb, "more", "pd", IBV_QPT_RC, "cq", "cq", NULL) ||
		    hartebeest_qp_publish(side->hb, "qp", own[0], 0) ||
		    hartebeest_qp_publish(side->hb, "more", own[1], 0) ||
		    hartebeest_qp_fetch(side->hb, next, NULL, 0) ||
		    hartebeest_qp_fetch(side->hb, previous, NULL, 0) ||
		    hartebeest_qp_connect(side->hb, "qp", next, 0) ||
		    hartebeest_qp_connect(side->hb, "more", previous, 0) ||
		    hartebeest_qp_confirm(side->hb, "qp", next, 0) ||
		    hartebeest_qp_confirm(side->hb, "more", previous, 0);
	snprintf(side->error, sizeof(side->error), "%s", hartebeest_error());
	return NULL;
}

static void confirmations_in_a_ring(void **state)
{
	struct side sides[RING];
	int i;

	(void)state;
	further = "job.nparticipants=4";
	for (i = 0; i < RING; i++) {
		assert_int_equal(make(&sides[i], i % 2, IBV_QPT_RC), 0);
		sides[i].rank = i;
	}
	for (i = 0; i < RING; i++)
		pthread_create(&sides[i].thread, NULL, join_ring, &sides[i]);
	for (i = 0; i < RING; i++)
		finishes(&sides[i]);
	for (i = 0; i < RING; i++)
		leave(&sides[i]);
}

/* INIT draws a sequence number, and the peer learns that one. */
static void reset_and_init(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	together(introduce_and_confirm);
	assert_int_equal(hartebeest_qp_reset(a.hb, "qp"), 0);
	assert_int_equal(hartebeest_qp_init(a.hb, "qp"), 0);
	assert_int_equal(connect_qp(&a), 0);
	assert_int_equal(hartebeest_qp_reset(b.hb, "qp"), 0);
	assert_int_equal(fetch(&b), 0);
	assert_int_equal(connect_qp(&b), 0);
	together(confirm);
	are_connected();
}

/* The end that restarted repeats the steps of its first start. */
static void one_side_restarts(void **state)
{
	int late;

	(void)state;
	both(IBV_QPT_RC);
	together(introduce_and_confirm);
	for (late = 0; late < 2; late++) {
		leave(&b);
		fake_verbs_set_state(a.qp, IBV_QPS_ERR);
		assert_false(is_published("qp", "b/qp"));
		if (late) {
			start(&a, reconnect);
			pause_ms(50);
		}
		assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);
		start(&b, introduce_and_confirm);
		if (!late) {
			pause_ms(50);
			start(&a, reconnect);
		}
		finishes(&b);
		finishes(&a);
		are_connected();
	}
}

/* The peer restarts several times while this end waits for its confirmation. */
static void restarts_during_the_confirmation(void **state)
{
	int i;

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(introduce(&a), 0);
	start(&a, confirm);
	for (i = 0; i < 3; i++) {
		leave(&b);
		assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);
		assert_int_equal(publish(&b), 0);
		pause_ms(10 * i);
	}
	start(&b, introduce_and_confirm);
	finishes(&b);
	finishes(&a);
	are_connected();
}

/* INIT draws a new sequence number, so connect must publish the record again. */
static void reset_and_connect(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	together(introduce);
	assert_int_equal(hartebeest_qp_reset(a.hb, "qp"), 0);
	assert_int_equal(connect_qp(&a), 0);
	together(confirm);
	are_connected();
	assert_int_equal(a.refills, 2);
}

/* The refill fails while a confirmation connects to the peer's new record. */
static int fail_second_refill(void *data, struct ibv_qp *qp)
{
	struct side *side = data;

	(void)qp;
	return ++side->refills == 2 ? -ENOBUFS : 0;
}

static void refill_fails_in_a_confirmation(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	hartebeest_qp_refill_set(a.hb, "qp", fail_second_refill, &a);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(introduce(&a), 0);
	leave(&b);
	assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(confirm(&a), -ENOBUFS);
	assert_error_is("queue pair 'qp' is not connected to 'b/qp': the refill "
			"function of queue pair 'qp' failed: No buffer space available");
	assert_int_equal(a.qp->state, IBV_QPS_RESET);
	start(&b, introduce_and_confirm);
	start(&a, reconnect);
	finishes(&a);
	finishes(&b);
	are_connected();
}

/* --------------------------------------------------------- memory regions --- */

/* hartebeest_qp_follow() takes one look and never waits. */
static void following_a_peer(void **state)
{
	struct hartebeest_remote_qp remote;

	(void)state;
	further = ENDLESS;
	both(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_follow(a.hb, "qp", "b/qp", NULL,
					      HARTEBEEST_ONCE), -ENOTCONN);
	together(introduce_and_confirm);
	assert_int_equal(hartebeest_qp_follow(a.hb, "qp", "b/qp", &remote, HARTEBEEST_ONCE), 0);
	leave(&b);
	assert_int_equal(hartebeest_qp_follow(a.hb, "qp", "b/qp", &remote, 0), -ESHUTDOWN);
	assert_error_has("its peer 'b/qp' has left");
	assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);
	assert_int_equal(introduce(&b), 0);
	assert_int_equal(hartebeest_qp_follow(a.hb, "qp", "b/qp", &remote, 0), 1);
	assert_int_equal(remote.qp_num, b.qp->qp_num);
	assert_int_equal(hartebeest_qp_follow(a.hb, "qp", "b/qp", NULL, HARTEBEEST_ONCE), 0);
	are_connected();
	together(confirm);
	cache_stop(cache);
	assert_int_equal(hartebeest_qp_follow(a.hb, "qp", "b/qp", NULL, HARTEBEEST_ONCE), 0);
	cache_resume(cache);
}

static void memory_regions(void **state)
{
	struct hartebeest_remote_mr remote;
	struct ibv_mr *other = NULL;
	static char memory[100];

	(void)state;
	both(IBV_QPT_RC);
	memset(&remote, 0xa5, sizeof(remote));
	assert_int_equal(IN_VAIN(hartebeest_mr_fetch(a.hb, "b/mr", &remote, 0)), -ETIMEDOUT);
	assert_error_has("no region 'b/mr'");
	assert_int_equal(remote.rkey, 0xa5a5a5a5);		/* untouched */

	assert_int_equal(hartebeest_mr_publish(b.hb, "mr", "b/mr", 0), 0);
	assert_int_equal(hartebeest_mr_fetch(a.hb, "b/mr", &remote, 0), 0);
	assert_int_equal(remote.address, (uintptr_t)b.mr->addr);
	assert_int_equal(remote.length, 4096);
	assert_int_equal(remote.rkey, b.mr->rkey);
	assert_int_equal(remote.access, RW);

	/* A fetch returns the present region, not the former one. */
	assert_int_equal(mr_make_of(b.hb, "other", "pd", memory, 100, 0, &other), 0);
	assert_int_equal(hartebeest_mr_publish(b.hb, "other", "b/mr", 0), 0);
	assert_int_equal(hartebeest_mr_fetch(a.hb, "b/mr", &remote, 0), 0);
	assert_int_equal(remote.address, (uintptr_t)memory);
	assert_int_equal(remote.length, 100);
	assert_int_equal(remote.rkey, other->rkey);
	assert_int_equal(remote.access, 0);
	assert_int_equal(hartebeest_mr_publish(b.hb, "none", "b/mr", 0), -ENOENT);
}

/* Queue pairs, regions and messages under one key are separate records. */
static void kinds_do_not_share_keys(void **state)
{
	struct hartebeest_remote_mr remote;

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_publish(b.hb, "qp", "k", 0), 0);
	assert_false(is_published("mr", "k"));
	assert_int_equal(hartebeest_mr_publish(b.hb, "mr", "k", 0), 0);
	assert_int_equal(hartebeest_msg_push(b.hb, "k", "m", 1, 0), 0);
	assert_int_equal(hartebeest_mr_fetch(a.hb, "k", &remote, 0), 0);
	assert_int_equal(hartebeest_qp_fetch(a.hb, "k", NULL, 0), 0);
	assert_int_equal(hartebeest_msg_wait(a.hb, "k", NULL, 0, NULL, 0), 0);
}

static void close_takes_back(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(hartebeest_mr_publish(a.hb, "mr", "a/mr", 0), 0);
	assert_int_equal(hartebeest_msg_push(a.hb, "letter", "x", 1, 0), 0);
	assert_int_equal(hartebeest_qp_publish(a.hb, "qp", "shared", 0), 0);
	assert_int_equal(hartebeest_qp_publish(b.hb, "qp", "shared", 0), 0);
	assert_true(is_published("qp", "a/qp"));
	assert_int_equal(rank_state(0), BEEST_RANK_ALIVE);
	leave(&a);
	assert_false(is_published("qp", "a/qp"));
	assert_false(is_published("mr", "a/mr"));
	assert_int_equal(rank_state(0), BEEST_RANK_LEFT);
	assert_true(is_published("msg", "letter"));
	assert_true(is_published("qp", "shared"));	/* replaced by the other context */
}

static void destroy_takes_back(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(hartebeest_qp_publish(a.hb, "qp", "second", 0), 0);
	assert_int_equal(hartebeest_mr_publish(a.hb, "mr", "a/mr", 0), 0);
	assert_int_equal(hartebeest_mr_publish(a.hb, "mr", "shared", 0), 0);
	assert_int_equal(hartebeest_mr_publish(b.hb, "mr", "shared", 0), 0);
	assert_int_equal(mr_make(a.hb, "next", "pd", 4096, RW, NULL), 0);
	assert_int_equal(hartebeest_mr_publish(a.hb, "mr", "handed over", 0), -EINVAL);
	assert_int_equal(hartebeest_mr_publish(a.hb, "mr", "handed-over", 0), 0);
	assert_int_equal(hartebeest_mr_publish(a.hb, "next", "handed-over", 0), 0);

	assert_int_equal(hartebeest_mr_destroy(a.hb, "mr"), 0);
	assert_false(is_published("mr", "a/mr"));
	assert_true(is_published("mr", "shared"));		/* the other context's by now */
	assert_true(is_published("mr", "handed-over"));		/* the other region's by now */
	assert_true(is_published("qp", "a/qp"));

	fake_verbs_fail("ibv_destroy_qp", 1, EBUSY);
	assert_int_equal(hartebeest_qp_destroy(a.hb, "qp"), -EBUSY);
	assert_true(is_published("qp", "a/qp"));		/* the queue pair still exists */
	assert_int_equal(hartebeest_qp_destroy(a.hb, "qp"), 0);
	assert_false(is_published("qp", "a/qp"));
	assert_false(is_published("qp", "second"));
	assert_int_equal(rank_state(0), BEEST_RANK_ALIVE);
	assert_int_equal(hartebeest_mr_destroy(a.hb, "next"), 0);
	assert_false(is_published("mr", "handed-over"));
}

/* When the server restarts, records of destroyed objects are not stored again; others are. */
static void destroyed_objects_stay_deleted(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(hartebeest_mr_publish(a.hb, "mr", "a/mr", 0), 0);
	assert_int_equal(hartebeest_mr_destroy(a.hb, "mr"), 0);
	cache_restart(cache);
	assert_int_equal(IN_VAIN(hartebeest_msg_wait(a.hb, "never", NULL, 0, NULL, 0)), -ETIMEDOUT);
	assert_true(is_published("qp", "a/qp"));
	assert_false(is_published("mr", "a/mr"));
}

static void destroy_with_a_silent_server(void **state)
{
	(void)state;
	further = ENDLESS;
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	assert_int_equal(hartebeest_mr_publish(a.hb, "mr", "a/mr", 0), 0);
	cache_stop(cache);
	assert_int_equal(hartebeest_mr_destroy(a.hb, "mr"), 0);
	cache_resume(cache);
}

static void close_in_a_forked_child(void **state)
{
	pid_t child;
	int status = -1;

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&a), 0);
	child = fork();
	if (child == 0) {
		hartebeest_close(a.hb);
		_exit(fake_verbs_calls("ibv_destroy_qp"));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(is_published("qp", "a/qp"));
	together(introduce_and_confirm);
	are_connected();
}

/* ------------------------------------------------------- bad records --- */

static void garbage(void **state)
{
	int64_t start_time;

	(void)state;
	both(IBV_QPT_RC);
	raw_put("qp", "b/qp", "garbage", 7);
	start_time = beest_clock_now();
	assert_int_equal(IN_VAIN(fetch(&a)), -EBADMSG);
	assert_true(beest_clock_now() - start_time >= PATIENCE);	/* until the limit */
	assert_error_has("queue pair 'b/qp' (key hb1/");
	assert_error_has("7 bytes are too few for a record");
	raw_put("qp", "b/qp", "", 0);
	start(&a, fetch);
	pause_ms(30);
	assert_int_equal(publish(&b), 0);		/* replaces it in time */
	finishes(&a);
}

static void a_changed_byte(void **state)
{
	uint8_t *bytes;
	size_t size;

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&b), 0);
	bytes = raw_get("qp", "b/qp", &size);
	bytes[size - 10] ^= 1;
	raw_put("qp", "b/qp", bytes, size);
	assert_int_equal(IN_VAIN(fetch(&a)), -EBADMSG);
	assert_error_has("a damaged record, or one of another key: its checksum is wrong");

	bytes[size - 10] ^= 1;
	bytes[3] = 2;
	raw_put("qp", "b/qp", bytes, size);
	assert_int_equal(IN_VAIN(fetch(&a)), -EPROTONOSUPPORT);
	assert_error_has("record of version 2; this library understands version 1 only");

	bytes[3] = 1;
	raw_put("qp", "c/qp", bytes, size);
	assert_int_equal(IN_VAIN(hartebeest_qp_fetch(a.hb, "c/qp", NULL, 0)), -EBADMSG);
	assert_error_has("a damaged record, or one of another key");
	raw_put("qp", "b/qp", bytes, size);
	assert_int_equal(fetch(&a), 0);
	free(bytes);
}

/* Stores a record as another process might. */
static void put_record(struct beest_record *record, const char *name, const uint8_t *body,
		       int size)
{
	uint8_t bytes[1024];
	char key[128];

	assert_true(size > 0);
	snprintf(key, sizeof(key), "hb1/%s/%s/%s", job, beest_record_row(record->kind)->word, name);
	record->body = body;
	record->size = (size_t)size;
	size = beest_record_encode(NULL, record, key, bytes, sizeof(bytes));
	assert_true(size > 0);
	raw_put(beest_record_row(record->kind)->word, name, bytes, (size_t)size);
}

/* Stores a well-formed record with numbers that no queue pair can have. */
static void put_endpoint(const struct beest_endpoint *endpoint)
{
	struct beest_record record = { .kind = BEEST_KIND_QP, .rank = 1 };
	struct beest_qp_body qp = { .endpoint = *endpoint };
	uint8_t body[BEEST_QP_BODY_MAX];

	put_record(&record, "b/qp", body, beest_record_qp_encode(&qp, NULL, &record.flags, body));
}

/* In a container the successor may have the host name and process id of its predecessor. */
static void a_successor_with_the_same_pid(void **state)
{
	struct beest_record record = {
		.kind = BEEST_KIND_RANK, .rank = 1, .incarnation = { { 1 } },
	};
	struct beest_rank_body rank = { .size = 2, .pid = (uint32_t)getpid() };
	uint8_t body[BEEST_BODY_MAX];
	struct hartebeest_remote_mr mr;

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(hartebeest_mr_publish(b.hb, "mr", "b/mr", 0), 0);
	gethostname(rank.host, sizeof(rank.host));
	put_record(&record, "1", body, beest_record_rank_encode(&rank, body));
	assert_int_equal(IN_VAIN(hartebeest_mr_fetch(a.hb, "b/mr", &mr, 0)), -ETIMEDOUT);
	assert_error_has(" was published by a process that is gone; its successor is rank 1 on ");
}

static void absurd_numbers(void **state)
{
	static const struct beest_endpoint sound = {
		.qp_type = IBV_QPT_RC, .link_layer = IBV_LINK_LAYER_ETHERNET,
		.roce = BEEST_ROCE_V2, .mtu = IBV_MTU_1024, .pkey = 0xffff, .qp_num = 5,
		.gid = { { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2 } },
	};
	struct beest_endpoint endpoint;
	int i;

	(void)state;
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	put_endpoint(&sound);
	assert_int_equal(introduce(&a), 0);
	for (i = 0; i < 8; i++) {
		endpoint = sound;
		switch (i) {
		case 0:	endpoint.qp_num = 0; break;
		case 1:	endpoint.qp_num = 0x1000000; break;
		case 2:	endpoint.psn = 0x1000000; break;
		case 3:	endpoint.mtu = 0; break;
		case 4:	endpoint.mtu = 6; break;
		case 5:	endpoint.link_layer = 0; break;
		case 6:	endpoint.link_layer = 3; break;
		case 7:	endpoint.roce = 3; break;
		}
		put_endpoint(&endpoint);
		assert_int_equal(IN_VAIN(fetch(&a)), -EBADMSG);
		assert_error_has("queue pair 'b/qp' (key hb1/");
		assert_error_has("the record has the ");
		assert_error_has(", which is not within ");
	}
	put_endpoint(&endpoint);
	assert_int_equal(IN_VAIN(confirm(&a)), -EBADMSG);
	assert_int_equal(hartebeest_qp_connect(a.hb, "qp", "b/qp", 0), -EISCONN);
}

/* ---------------------------------------------------------------- messages --- */

static void messages(void **state)
{
	char buffer[16] = "untouched";
	size_t length = 99;

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(IN_VAIN(hartebeest_msg_wait(a.hb, "m", buffer, 16, &length, 0)),
			 -ETIMEDOUT);
	assert_error_has("no message 'm'");
	assert_int_equal(length, 99);
	assert_int_equal(hartebeest_msg_push(b.hb, "m", "hello", 6, 0), 0);
	assert_int_equal(hartebeest_msg_wait(a.hb, "m", buffer, 16, &length, 0), 0);
	assert_int_equal(length, 6);
	assert_string_equal(buffer, "hello");
	/* Waiting leaves the message in place. */
	assert_int_equal(hartebeest_msg_wait(a.hb, "m", buffer, 6, NULL, 0), 0);
	assert_int_equal(hartebeest_msg_wait(b.hb, "m", buffer, 16, &length, 0), 0);

	/* A second push replaces it. */
	assert_int_equal(hartebeest_msg_push(a.hb, "m", "\0x", 2, 0), 0);
	assert_int_equal(hartebeest_msg_wait(b.hb, "m", buffer, 16, &length, 0), 0);
	assert_int_equal(length, 2);
	assert_int_equal(buffer[1], 'x');

	assert_int_equal(hartebeest_msg_delete(b.hb, "m", 0), 0);
	assert_int_equal(hartebeest_msg_delete(b.hb, "m", 0), -ENOENT);
	assert_error_has("no message 'm'");
}

/* Waits for four messages, of which two are here and the third is too long for its buffer. */
static void many_messages(void **state)
{
	static const char *const keys[] = { "m0", "m1", "m2", "m3" };
	struct hartebeest_message messages[4];
	char buffers[4][8];
	int i;

	(void)state;
	both(IBV_QPT_RC);
	for (i = 0; i < 4; i++) {
		hartebeest_message_init(&messages[i]);
		messages[i].peer_key = keys[i];
		messages[i].buffer = buffers[i];
		messages[i].room = sizeof(buffers[i]);
	}
	assert_int_equal(hartebeest_msg_push(b.hb, "m0", "zero", 5, 0), 0);
	assert_int_equal(hartebeest_msg_push(b.hb, "m2", "far too long", 13, 0), 0);
	assert_int_equal(UNTIL_ANSWERED(hartebeest_msgs_wait(a.hb, messages, 4, 0,
							     HARTEBEEST_ONCE)), -EAGAIN);
	assert_int_equal(hartebeest_msgs_wait(a.hb, messages, 4, 2, 0), 2);
	assert_string_equal(buffers[0], "zero");
	assert_int_equal(messages[0].length, 5);
	assert_int_equal(messages[0].result, 0);
	assert_int_equal(messages[1].arrived, 0);
	assert_int_equal(messages[1].result, -EAGAIN);
	assert_int_equal(messages[2].arrived, 1);
	assert_int_equal(messages[2].length, 13);
	assert_int_equal(messages[2].result, -EMSGSIZE);

	assert_int_equal(IN_VAIN(hartebeest_msgs_wait(a.hb, messages, 4, 0, 0)), -ETIMEDOUT);
	assert_error_has("no message 'm1'");
	assert_error_has("no message 'm3'");
	assert_int_equal(hartebeest_msg_push(b.hb, "m1", "one", 4, 0), 0);
	assert_int_equal(hartebeest_msg_push(b.hb, "m3", "three", 6, 0), 0);
	assert_int_equal(hartebeest_msg_push(b.hb, "m0", "again", 6, 0), 0);
	assert_int_equal(hartebeest_msgs_wait(a.hb, messages, 4, 0, 0), 4);
	assert_string_equal(buffers[1], "one");
	assert_string_equal(buffers[3], "three");
	/* It was here already, so it is not fetched again. */
	assert_string_equal(buffers[0], "zero");

	assert_int_equal(hartebeest_msgs_wait(a.hb, messages, 4, 5, 0), -EINVAL);
	assert_error_is("need is 5, but only 4 messages are asked for");
	messages[2].size = 8;
	assert_int_equal(hartebeest_msgs_wait(a.hb, messages, 4, 0, 0), -EINVAL);
	assert_error_has("message 2 has the size 8: hartebeest_message_init() was not called");
	messages[1].buffer = NULL;
	messages[1].arrived = 0;
	assert_int_equal(hartebeest_msgs_wait(a.hb, messages, 4, 0, 0), -EINVAL);
	assert_error_is("message 1: buffer is NULL, but room is 8");
	messages[1].peer_key = NULL;
	assert_int_equal(hartebeest_msgs_wait(a.hb, messages, 4, 0, 0), -EINVAL);
	assert_error_is("message 1: peer_key is NULL");
}

static void messages_without_content(void **state)
{
	char buffer[4] = "abc";
	size_t length = 99;

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(hartebeest_msg_push(b.hb, "empty", NULL, 0, 0), 0);
	assert_int_equal(hartebeest_msg_wait(a.hb, "empty", NULL, 0, NULL, 0), 0);
	assert_int_equal(hartebeest_msg_wait(a.hb, "empty", buffer, 4, &length, 0), 0);
	assert_int_equal(length, 0);
	assert_string_equal(buffer, "abc");
	assert_int_equal(hartebeest_msg_push(b.hb, "full", "1234567", 8, 0), 0);
	assert_int_equal(hartebeest_msg_wait(a.hb, "full", NULL, 0, &length, 0), 0);
	assert_int_equal(length, 8);
}

static void messages_too_large(void **state)
{
	char *large = calloc(1, MESSAGE_MAX + 1), *back = calloc(1, MESSAGE_MAX);
	size_t length = 0;

	(void)state;
	both(IBV_QPT_RC);
	large[0] = 'A';
	large[MESSAGE_MAX - 1] = 'Z';
	assert_int_equal(hartebeest_msg_push(b.hb, "m", large, MESSAGE_MAX, 0), 0);
	assert_int_equal(hartebeest_msg_push(b.hb, "m", large, MESSAGE_MAX + 1, 0), -EMSGSIZE);
	assert_error_is("message 'm' has 1046529 bytes; at most 1046528 fit into a Memcached "
			"value");
	assert_int_equal(hartebeest_msg_push(b.hb, "m", large, SIZE_MAX, 0), -EMSGSIZE);
	assert_int_equal(hartebeest_msg_wait(a.hb, "m", back, MESSAGE_MAX - 1, &length, 0),
			 -EMSGSIZE);
	assert_error_is("message 'm' has 1046528 bytes, the buffer 1046527");
	assert_int_equal(length, MESSAGE_MAX);
	assert_int_equal(back[0], 0);
	assert_int_equal(hartebeest_msg_wait(a.hb, "m", back, 1, NULL, 0), -EMSGSIZE);
	assert_int_equal(hartebeest_msg_wait(a.hb, "m", back, MESSAGE_MAX, &length, 0), 0);
	assert_memory_equal(back, large, MESSAGE_MAX);		/* the former message */
	free(large);
	free(back);
}

static void keys_that_cannot_be(void **state)
{
	char longest[256];

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(hartebeest_msg_push(a.hb, "", NULL, 0, 0), -EINVAL);
	assert_int_equal(hartebeest_msg_push(a.hb, "a b", NULL, 0, 0), -EINVAL);
	assert_error_has("byte 2 is a blank");
	assert_int_equal(hartebeest_msg_wait(a.hb, "a\r\nflush_all", NULL, 0, NULL, 0), -EINVAL);
	assert_int_equal(hartebeest_msg_delete(a.hb, "\xc3\xa9", 0), -EINVAL);
	assert_int_equal(hartebeest_qp_publish(a.hb, "qp", "a b", 0), -EINVAL);
	assert_int_equal(hartebeest_qp_fetch(a.hb, "a b", NULL, 0), -EINVAL);
	assert_int_equal(hartebeest_mr_publish(a.hb, "mr", "", 0), -EINVAL);
	assert_int_equal(hartebeest_barrier(a.hb, "a b", 0), -EINVAL);
	unit_repeat(longest, 'k', 250);
	assert_int_equal(hartebeest_msg_push(a.hb, longest, NULL, 0, 0), -ENAMETOOLONG);
	assert_int_equal(hartebeest_qp_publish(a.hb, "qp", longest, 0), -ENAMETOOLONG);
	assert_int_equal(hartebeest_barrier(a.hb, longest, 0), -ENAMETOOLONG);
	unit_repeat(longest, 'k', 200);
	assert_int_equal(hartebeest_msg_push(a.hb, longest, NULL, 0, 0), 0);
	assert_int_equal(hartebeest_qp_publish(a.hb, "qp", longest, 0), 0);
	snprintf(a.own, sizeof(a.own), "a/qp");
	together(introduce_and_confirm);
}

static void jobs_do_not_meet(void **state)
{
	(void)state;
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	assert_int_equal(hartebeest_msg_push(a.hb, "m", NULL, 0, 0), 0);
	strcat(job, "x");
	assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);
	assert_int_equal(hartebeest_msg_delete(b.hb, "m", 0), -ENOENT);
	assert_int_equal(hartebeest_msg_delete(a.hb, "m", 0), 0);
}

/* Two jobs use the same server, names and ranks at once: each end finds its own peer. */
static void two_jobs_side_by_side(void **state)
{
	struct side c, d;

	(void)state;
	both(IBV_QPT_RC);
	strcat(job, "x");
	assert_int_equal(make(&c, 0, IBV_QPT_RC), 0);
	assert_int_equal(make(&d, 1, IBV_QPT_RC), 0);
	start(&a, introduce_and_confirm);
	start(&c, introduce_and_confirm);
	start(&d, introduce_and_confirm);
	start(&b, introduce_and_confirm);
	finishes(&a);
	finishes(&b);
	finishes(&c);
	finishes(&d);
	are_connected();
	points_to(&c, &d);
	points_to(&d, &c);
	assert_int_not_equal(step_to(a.qp, IBV_QPS_RTR)->attr.dest_qp_num, d.qp->qp_num);
	leave(&c);
	leave(&d);
}

static void origins_are_readable(void **state)
{
	const char *options[] = { NULL };
	const char *warning = NULL;

	(void)state;
	setenv("SLURM_PROCID", "3", 1);
	setenv("SLURM_STEP_NUM_TASKS", "8", 1);
	setenv("SLURM_JOB_ID", "4711", 1);
	setenv("SLURM_STEP_ID", "0", 1);
	assert_int_equal(hartebeest_open(&a.hb, options), 0);
	assert_string_equal(hartebeest_origin(a.hb, &warning),
			    "rank 3 of 8 (from SLURM_PROCID, SLURM_STEP_NUM_TASKS), "
			    "job 4711.0 (from SLURM_JOB_ID.SLURM_STEP_ID)");
	assert_string_equal(warning, "");
	leave(&a);
	setenv("PMI_RANK", "1", 1);
	setenv("PMI_SIZE", "2", 1);
	assert_int_equal(hartebeest_open(&a.hb, options), 0);
	assert_string_equal(hartebeest_origin(a.hb, NULL), "rank 1 of 2 (from PMI_RANK, PMI_SIZE), "
			    "job 4711 (from SLURM_JOB_ID)");
	hartebeest_origin(a.hb, &warning);
	assert_string_equal(warning, "PMI says rank 1 of 2 (PMI_RANK, PMI_SIZE), but Slurm says "
			    "rank 3 of 8 (SLURM_PROCID, SLURM_STEP_NUM_TASKS); PMI is used; "
			    "job id 4711 (SLURM_JOB_ID) is that of all runs within an allocation, "
			    "which meet each other: give each run a HARTEBEEST_JOB");
	assert_null(hartebeest_origin(NULL, NULL));
	assert_error_has("hb is NULL");
	surroundings_clear();
}

/* ------------------------------------------------------------------ barrier --- */

#define RANKS 4

struct party {
	struct hartebeest_context *hb;
	int rank, passes, delay_ms, ret;
	bool close;
	int *arrived;			/* shared: arrivals of all ranks */
	int early;			/* passes that opened before all had arrived */
	pthread_t thread;
	char error[1024];
};

static int open_party(struct party *party)
{
	const struct rank_settings settings = {
		.servers = servers, .job = job, .rank = party->rank, .size = RANKS,
	};

	return rank_open(&party->hb, &settings);
}

static void *attend(void *data)
{
	struct party *party = data;
	int i;

	pause_ms(party->delay_ms);
	for (i = 1; i <= party->passes && party->ret == 0; i++) {
		__atomic_add_fetch(party->arrived, 1, __ATOMIC_SEQ_CST);
		party->ret = hartebeest_barrier(party->hb, "go", 0);
		if (__atomic_load_n(party->arrived, __ATOMIC_SEQ_CST) < i * RANKS)
			party->early++;
	}
	fake_clock_part();
	snprintf(party->error, sizeof(party->error), "%s", hartebeest_error());
	if (party->close) {
		hartebeest_close(party->hb);
		party->hb = NULL;
	}
	return NULL;
}

static void open_parties(struct party *parties, int count)
{
	int i;

	memset(parties, 0, (size_t)count * sizeof(*parties));
	for (i = 0; i < count; i++) {
		parties[i].rank = i;
		parties[i].passes = 1;
		assert_int_equal(open_party(&parties[i]), 0);
	}
}

/* With fewer than RANKS ranks all wait in vain. */
static void attend_all(struct party *parties, int count)
{
	int i, arrived = 0;

	if (count < RANKS)
		fake_clock_together(count);
	for (i = 0; i < count; i++) {
		parties[i].arrived = &arrived;
		parties[i].ret = parties[i].early = 0;
		assert_int_equal(pthread_create(&parties[i].thread, NULL, attend, &parties[i]), 0);
	}
	for (i = 0; i < count; i++)
		pthread_join(parties[i].thread, NULL);
}

static void all_passed(const struct party *parties)
{
	int i;

	for (i = 0; i < RANKS; i++) {
		if (parties[i].ret)
			print_error("rank %d: %s\n", i, parties[i].error);
		assert_int_equal(parties[i].ret, 0);
		assert_int_equal(parties[i].early, 0);
	}
}

static void close_parties(struct party *parties, int count)
{
	while (count--)
		hartebeest_close(parties[count].hb);
}

static void barrier_again_and_again(void **state)
{
	struct party parties[RANKS];
	int i;

	(void)state;
	open_parties(parties, RANKS);
	for (i = 0; i < RANKS; i++)
		parties[i].passes = 20;
	attend_all(parties, RANKS);
	all_passed(parties);
	assert_int_equal(fake_verbs_calls("ibv_get_device_list"), 0);
	close_parties(parties, RANKS);
}

/* Each run finds the former run's records of the same pass of the same barrier. */
static void barrier_with_leftovers(void **state)
{
	struct party parties[RANKS];
	int run_number, i;

	(void)state;
	for (run_number = 0; run_number < 4; run_number++) {
		open_parties(parties, RANKS);
		for (i = 0; i < RANKS; i++) {
			parties[i].passes = 3;
			parties[i].delay_ms = i == run_number ? 60 : 0;
		}
		attend_all(parties, RANKS);
		all_passed(parties);
		close_parties(parties, RANKS);
	}
}

static void barrier_and_close(void **state)
{
	struct party parties[RANKS];
	int round, i;

	(void)state;
	for (round = 0; round < 10; round++) {
		open_parties(parties, RANKS);
		for (i = 0; i < RANKS; i++)
			parties[i].close = true;
		attend_all(parties, RANKS);
		all_passed(parties);
	}
}

/*
 * All but the last rank name it: "rank 3 (SEEN); key ...; server ... answers" and @more.  A busy
 * machine may not answer the questions for a sentence in time, so the ranks ask for it again.
 */
static void all_name_the_last(struct party *parties, const char *seen, const char *more)
{
	char sentence[1024];
	int i, right = 0, tries = 0;

	while (right < RANKS - 1 && tries++ < 20) {
		attend_all(parties, RANKS - 1);
		snprintf(sentence, sizeof(sentence), "barrier 'go', pass 1: after " PATIENCE_TEXT
			 ": 1 of 4 ranks has not arrived: rank 3 (%s); key hb1/%s/fence/go/lead; "
			 "server %s answers%s", seen, job, servers, more);
		for (i = right = 0; i < RANKS - 1; i++) {
			assert_int_equal(parties[i].ret, -ETIMEDOUT);
			right += strcmp(parties[i].error, sentence) == 0;
		}
	}
	for (i = 0; i < RANKS - 1; i++)
		assert_string_equal(parties[i].error, sentence);
}

static void barrier_names_who_is_missing(void **state)
{
	struct party parties[RANKS];
	char text[256], host[64];

	(void)state;
	gethostname(host, sizeof(host));
	open_parties(parties, RANKS);
	snprintf(text, sizeof(text), "; HARTEBEEST_JOB (here %s) and the servers must be the same "
		 "on all ranks", job);
	all_name_the_last(parties, "never seen", text);
	attend_all(parties, RANKS);		/* the last rank came late: try again */
	all_passed(parties);
	attend_all(parties, RANKS);
	all_passed(parties);
	close_parties(parties, RANKS);

	open_parties(parties, RANKS);	/* now with the records of the former run */
	attend_all(parties, RANKS);
	all_passed(parties);
	close_parties(parties, RANKS);
	open_parties(parties, RANKS);
	snprintf(text, sizeof(text), "last seen as rank 3 on %s, pid %d, which has left", host,
		 (int)getpid());
	all_name_the_last(parties, text, "");
	close_parties(parties, RANKS);
}

/* A leader that only polls names the missing ranks once a second, too. */
static void polls_say_who_is_missing(void **state)
{
	struct party parties[RANKS];
	struct beest_leader_body lead = { 0 };
	struct beest_record record;
	char key[128];
	size_t size;
	uint8_t *bytes;
	int i;

	(void)state;
	open_parties(parties, 1);
	for (i = 0; i < 4; i++) {
		assert_int_equal(UNTIL_ANSWERED(hartebeest_barrier(parties[0].hb, "go",
								   HARTEBEEST_ONCE)), -EAGAIN);
		fake_clock_skip(BEEST_SECOND);
	}
	snprintf(key, sizeof(key), "hb1/%s/fence/go/lead", job);
	bytes = raw_get("fence", "go/lead", &size);
	assert_int_equal(beest_record_decode(NULL, bytes, size, BEEST_KIND_LEADER, key, &record),
			 0);
	assert_int_equal(beest_record_leader_decode(&record, &lead), 0);
	assert_int_equal(lead.range_count, 1);
	assert_int_equal(lead.missing[0].first, 1);
	assert_int_equal(lead.missing[0].last, RANKS - 1);
	free(bytes);
	close_parties(parties, 1);
}

/* Opens a context without the test's rank and job. */
static void open_lone(const char *first, const char *second)
{
	const struct rank_settings settings = { .servers = servers, .more = { first, second } };

	assert_int_equal(rank_open(&a.hb, &settings), 0);
}

/* A rank fails while others are in a barrier, about to enter one, or waiting for a message. */
static void a_rank_that_fails(void **state)
{
	struct party parties[RANKS];
	struct party *last = &parties[RANKS - 1];
	int i, status, arrived = 0, waiting = fake_clock_waiting();
	pid_t child;

	(void)state;
	open_parties(parties, RANKS);
	for (i = 0; i < RANKS - 2; i++) {
		parties[i].arrived = &arrived;
		assert_int_equal(pthread_create(&parties[i].thread, NULL, attend, &parties[i]), 0);
	}
	assert_int_equal(hartebeest_msg_push(parties[RANKS - 2].hb, "x", NULL, 0, 0), 0);
	while (fake_clock_waiting() < waiting + RANKS - 2)
		pause_ms(1);
	assert_int_equal(hartebeest_fail(last->hb, "the disk is full"), 0);
	for (i = 0; i < RANKS - 2; i++) {
		pthread_join(parties[i].thread, NULL);
		if (parties[i].ret != -ECONNABORTED)
			print_error("rank %d: %s\n", i, parties[i].error);
		assert_int_equal(parties[i].ret, -ECONNABORTED);
		assert_non_null(strstr(parties[i].error, "rank 3 on "));
		assert_non_null(strstr(parties[i].error, " has failed: the disk is full"));
	}
	assert_int_equal(hartebeest_msg_wait(parties[RANKS - 2].hb, "never", NULL, 0, NULL, 0),
			 -ECONNABORTED);
	assert_error_has("rank 3 on ");
	assert_error_has(" has failed: the disk is full");
	assert_int_equal(IN_VAIN(hartebeest_msg_wait(last->hb, "never", NULL, 0, NULL, 0)),
			 -ETIMEDOUT);
	assert_int_equal(hartebeest_fail(last->hb, NULL), -EINVAL);

	child = fork();
	if (child == 0)
		_exit(hartebeest_fail(parties[0].hb, "not mine to say") != -EPERM ||
		      hartebeest_msg_push(parties[0].hb, "nor this", NULL, 0, 0) != -EPERM);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close_parties(parties, RANKS);
}

static int rank_wait(int rank)
{
	const struct rank_settings settings = {
		.servers = servers, .job = "fails-first", .size = 3, .rank = rank,
	};

	return rank_open(&a.hb, &settings) < 0 ? 1 :
	       hartebeest_msg_wait(a.hb, "never", NULL, 0, NULL, 0);
}

/* Rank 2 fails and ends.  Rank 0 began before that, rank 1 after it; neither has looked before. */
static void a_rank_that_fails_first(void **state)
{
	const struct rank_settings settings = {
		.servers = servers, .job = "fails-first", .size = 3, .rank = 2,
	};
	pid_t early, failing, late;
	int ends[2];
	char byte;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	early = fork();
	if (early == 0) {
		close(ends[1]);
		_exit(TEMP_FAILURE_RETRY(read(ends[0], &byte, 1)) != 0 ||
		      rank_wait(0) != -ECONNABORTED ||
		      !strstr(hartebeest_error(), " has failed: the disk is full"));
	}
	close(ends[0]);
	pause_ms(50);				/* a process begins by a clock of 10 ms */
	failing = fork();
	if (failing == 0)
		_exit(rank_open(&a.hb, &settings) < 0 ||
		      hartebeest_fail(a.hb, "the disk is full") < 0);
	assert_int_equal(exit_status(failing), 0);
	late = fork();
	if (late == 0)
		_exit(IN_VAIN(rank_wait(1)) != -ETIMEDOUT ||
		      !strstr(hartebeest_error(), " had failed: the disk is full"));
	assert_int_equal(exit_status(late), 0);
	close(ends[1]);
	assert_int_equal(exit_status(early), 0);
}

static void barrier_without_ranks(void **state)
{
	(void)state;
	open_lone("job.rank=0", NULL);
	assert_int_equal(hartebeest_rank(a.hb), 0);
	assert_int_equal(hartebeest_barrier(a.hb, "go", 0), -ENODATA);
	assert_error_has("number of ranks is not known");
	leave(&a);
	open_lone("job.participants=0,1", NULL);
	assert_int_equal(hartebeest_barrier(a.hb, "go", 0), -ENODATA);
	assert_error_has("rank of this process is not known");
	leave(&a);
	open_lone(NULL, NULL);
	assert_int_equal(hartebeest_barrier(a.hb, "go", 0), -ENODATA);
	assert_int_equal(hartebeest_msg_push(a.hb, "no-ranks", NULL, 0, 0), 0);
	assert_int_equal(hartebeest_msg_wait(a.hb, "no-ranks", NULL, 0, NULL, 0), 0);
	assert_int_equal(hartebeest_msg_delete(a.hb, "no-ranks", 0), 0);
}

static void barrier_of_one(void **state)
{
	int i;

	(void)state;
	open_lone("job.rank=7", "job.participants=7");
	for (i = 0; i < 3; i++)
		assert_int_equal(hartebeest_barrier(a.hb, "alone", 0), 0);
	assert_int_equal(hartebeest_barrier(a.hb, "another", 0), 0);
}

/* -------------------------------------------------------- server trouble --- */

static void wrong_server(void **state)
{
	struct beest_hostport closed;
	char right[300];
	int64_t start_time = beest_clock_now();

	(void)state;
	strcpy(right, servers);
	closed_hostport(&closed);
	snprintf(servers, sizeof(servers), "%s", closed.text);
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	strcpy(servers, right);
	assert_int_equal(IN_VAIN(hartebeest_msg_push(a.hb, "m", NULL, 0, 0)), -ECONNREFUSED);
	assert_error_has(closed.text);
	assert_error_has("tried for " PATIENCE_TEXT);
	assert_true(beest_clock_now() - start_time >= PATIENCE);
	assert_int_equal(IN_VAIN(publish(&a)), -ECONNREFUSED);
	assert_error_has(closed.text);
	assert_int_equal(a.qp->state, IBV_QPS_INIT);	/* INIT needs no server */
}

static void a_server_that_is_silent(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	together(introduce_and_confirm);
	cache_stop(cache);
	assert_int_equal(IN_SILENCE(hartebeest_msg_push(a.hb, "m", NULL, 0, 0)), -EHOSTDOWN);
	assert_error_has(servers);
	cache_resume(cache);
	assert_int_equal(hartebeest_msg_push(a.hb, "m", NULL, 0, 0), 0);
	together(reconnect);
	are_connected();
}

/* Records that the server lost are stored again without a call by the program. */
static void a_server_that_restarts(void **state)
{
	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&a), 0);
	assert_int_equal(publish(&b), 0);
	assert_int_equal(fetch(&b), 0);
	assert_int_equal(connect_qp(&b), 0);
	start(&b, confirm);
	cache_restart(cache);
	start(&a, introduce_and_confirm);
	finishes(&a);
	finishes(&b);
	are_connected();
}

/* ------------------------------------------------------------------ stack --- */

/* As hartebeest(7) says. */
#define STACK_MAX (32 * 1024)

static int make_alone(struct side *side)
{
	return make(side, 0, IBV_QPT_RC);
}

/* Each kind of call that needs no peer, and waits in vain, with all that is logged. */
static int call_alone(struct side *side)
{
	struct hartebeest_context *hb = side->hb;
	char text[64];
	int failed = 0;

	hartebeest_log_set(hb, HARTEBEEST_LOG_DEBUG, NULL, NULL);
	failed += hartebeest_msg_push(hb, "k", "v", 1, 0) != 0;
	failed += hartebeest_msg_wait(hb, "k", text, sizeof(text), NULL, 0) != 0;
	failed += hartebeest_msg_wait(hb, "bad key", NULL, 0, NULL, 0) != -EINVAL;
	failed += IN_VAIN(hartebeest_msg_wait(hb, "none", NULL, 0, NULL, 0)) != -ETIMEDOUT;
	failed += IN_VAIN(hartebeest_barrier(hb, "none", 0)) != -ETIMEDOUT;
	failed += IN_VAIN(hartebeest_qp_fetch(hb, "none", NULL, 0)) != -ETIMEDOUT;
	failed += hartebeest_msg_delete(hb, "k", 0) != 0;
	return failed;
}

static int mesh_alone(struct side *side)
{
	struct hartebeest_mesh *mesh;

	return hartebeest_mesh_connect(side->hb, "mesh", NULL, &mesh, 0);
}

static int close_alone(struct side *side)
{
	hartebeest_close(side->hb);
	side->hb = NULL;
	return 0;
}

/* Programs with user-level threads have small stacks. */
static void no_call_needs_much_stack(void **state)
{
	static const struct {
		const char *what;
		int (*work)(struct side *side);
		bool both;
	} rows[] = {
		{ "objects", make_alone, false },
		{ "messages, waits in vain", call_alone, false },
		{ "connecting", introduce_and_confirm, true },
		{ "connecting again", reconnect, true },
		{ "a mesh", mesh_alone, true },
		{ "closing", close_alone, false },
	};
	size_t i, needed;

	(void)state;
	if (!stack_counts())
		skip();
	further = "log.file=/dev/null";
	assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		a.work = rows[i].work;
		if (rows[i].both)
			start(&b, rows[i].work);
		needed = stack_of(run, &a);
		if (a.ret || needed > STACK_MAX)
			print_error("%s: %d, %s; %zu bytes of stack\n", rows[i].what, a.ret,
				    a.error, needed);
		assert_int_equal(a.ret, 0);
		if (rows[i].both)
			finishes(&b);
		assert_in_range(needed, 1, STACK_MAX);
	}
	further = NULL;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

/* ------------------------------------------------------------------- sealed records --- */

/*
 * An attacker who can write to the server restores a record of the peer's former run: it
 * opens, but is not taken for a confirmation, since its echo names a dead incarnation.
 */
static void a_record_that_is_brought_back(void **state)
{
	uint8_t *bytes;
	size_t size;

	(void)state;
	both(IBV_QPT_RC);
	together(introduce_and_confirm);
	bytes = raw_get("qp", "b/qp", &size);
	assert_non_null(bytes);
	leave(&a);
	leave(&b);

	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	assert_int_equal(make(&b, 1, IBV_QPT_RC), 0);
	assert_int_equal(publish(&b), 0);
	raw_put("qp", "b/qp", bytes, size);
	assert_int_equal(introduce(&a), 0);
	assert_int_equal(IN_VAIN(confirm(&a)), -ETIMEDOUT);
	assert_error_has("was published, but its process has not connected to this queue pair");
	free(bytes);

	start(&a, confirm);
	start(&b, introduce_and_confirm);
	finishes(&a);
	finishes(&b);
	are_connected();
}

/* A genuine record stored under another key, and a record without a seal. */
static void a_record_that_is_forged(void **state)
{
	struct beest_endpoint endpoint = { .qp_type = IBV_QPT_RC, .link_layer = 2, .roce = 2,
					   .mtu = 3, .pkey = 0xffff, .qp_num = 77 };
	uint8_t *bytes;
	size_t size;

	(void)state;
	both(IBV_QPT_RC);
	assert_int_equal(publish(&a), 0);
	bytes = raw_get("qp", "a/qp", &size);
	raw_put("qp", "b/qp", bytes, size);
	free(bytes);
	assert_int_equal(IN_VAIN(fetch(&a)), -EBADMSG);
	assert_error_has("a sealed record that is forged, damaged, or of another key");
	put_endpoint(&endpoint);
	assert_int_equal(IN_VAIN(fetch(&a)), -EKEYREJECTED);
	assert_error_has("a record that is not sealed: its author has no secret");
	together(introduce_and_confirm);
	are_connected();
}

/* No sealed value of a bring-up shows any of the numbers that it carries. */
static void a_sealed_record_shows_no_numbers(void **state)
{
	const struct beest_endpoint *endpoint;
	uint32_t rkey, psn;
	uint8_t *bytes;
	size_t size;

	(void)state;
	both(IBV_QPT_RC);
	together(introduce_and_confirm);
	assert_int_equal(hartebeest_mr_publish(a.hb, "mr", "a/mr", 0), 0);
	endpoint = &end_of(&a)->endpoint;
	rkey = htobe32(a.mr->rkey);
	psn = htobe32(endpoint->psn);
	bytes = raw_get("mr", "a/mr", &size);
	assert_int_equal(size, 24 + BEEST_RECORD_EMPTY_MAX);
	assert_null(memmem(bytes, size, &rkey, sizeof(rkey)));
	free(bytes);
	bytes = raw_get("qp", "a/qp", &size);
	assert_null(memmem(bytes, size, &psn, sizeof(psn)));
	assert_null(memmem(bytes, size, endpoint->gid.raw, sizeof(endpoint->gid.raw)));
	assert_null(memmem(bytes, size, &endpoint->incarnation, sizeof(endpoint->incarnation)));
	free(bytes);
}

/* Does a rank of that job warn of the secret when it stores something? */
static bool secret_is_warned_of(const char *job_id)
{
	const struct rank_settings settings = { .servers = servers, .job = job_id };

	warnings[0] = '\0';
	assert_int_equal(rank_open(&a.hb, &settings), 0);
	assert_int_equal(hartebeest_log_set(a.hb, HARTEBEEST_LOG_WARN, keep_warning, NULL), 0);
	assert_int_equal(hartebeest_msg_push(a.hb, "m", "", 0, 0), 0);
	leave(&a);
	return strstr(warnings, "a secret without a job id: records of an earlier run with this "
		      "secret cannot be told from this run's; set HARTEBEEST_JOB") != NULL;
}

static void a_secret_wants_a_job_id(void **state)
{
	(void)state;
	assert_true(secret_is_warned_of(NULL));
	assert_false(secret_is_warned_of(job));
	assert_string_equal(warnings, "");
	unsetenv("HARTEBEEST_SECRET_FILE");
	assert_false(secret_is_warned_of(NULL));
	setenv("HARTEBEEST_SECRET_FILE", secret_file, 1);
}

static void a_secret_that_cannot_be_used(void **state)
{
	(void)state;
	assert_int_equal(chmod(secret_file, 0644), 0);
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	assert_int_equal(publish(&a), -EPERM);
	assert_error_has("environment HARTEBEEST_SECRET_FILE (exchange.secret_file): "
			 "'");
	assert_error_has(secret_file);
	assert_error_has("': users other than its owner may read or write it (mode 644); run chmod "
			 "600");
	assert_int_equal(chmod(secret_file, 0600), 0);
	assert_int_equal(publish(&a), 0);
	leave(&a);

	further = "exchange.secret_file=/no/such/file";
	assert_int_equal(make(&a, 0, IBV_QPT_RC), 0);
	assert_int_equal(publish(&a), -ENOENT);
	assert_error_has("argument exchange.secret_file: '/no/such/file': No such file or "
			 "directory; all nodes of a job must share the folder of its secret: give "
			 "hartebeest serve one by --secret-dir, or --no-secret");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reliable_connection),
		TEST(adopted_connection),
		TEST(unreliable_connection),
		TEST(over_infiniband),
		TEST(what_is_told_of_the_peer),
		TEST(a_peer_that_is_dead),
		TEST(completions_tell_of_a_dead_peer),
		TEST(completions_tell_of_a_peer_that_has_left),
		TEST(publish_takes_to_init),
		TEST(connected_already),
		TEST(many_queue_pairs),
		TEST(threads_share_a_context),
		TEST(datagrams),
		TEST(datagrams_to_many),
		TEST(a_server_of_datagrams),
		TEST(an_address_that_cannot_be_made),
		TEST(transports_differ),
		TEST(a_refusal_is_fetched),
		TEST(nothing_was_fetched),
		TEST(the_device_refuses),
		TEST(options_of_adapters),
		TEST(failures_that_pass),
		TEST(failures_that_do_not_pass),
		TEST(a_passive_peer_is_confirmed),
		TEST(following_stores_the_record),
		TEST(a_peer_that_never_comes),
		TEST(a_record_of_a_former_run),
		TEST(a_former_run_of_another_transport),
		TEST(former_runs_of_both),
		TEST(former_run_with_the_same_numbers),
		TEST(confirmed_to_the_former_run),
		TEST(a_message_of_a_former_run),
		TEST(a_clock_that_is_set_forward),
		TEST(a_clock_that_is_set_back),
		TEST(both_reconnect),
		TEST(two_queue_pairs_under_one_name),
		TEST(reconnect_before_anything),
		TEST(a_fixed_sequence_number_confirms_nothing),
		TEST(a_number_used_again_confirms_nothing),
		TEST(a_peer_need_not_confirm),
		TEST(the_old_one_leaves_the_new_one_alone),
		TEST(a_reset_peer_is_not_confirmed),
		TEST(a_key_that_comes_late),
		TEST(confirmations_in_a_ring),
		TEST(reset_and_init),
		TEST(one_side_restarts),
		TEST(restarts_during_the_confirmation),
		TEST(reset_and_connect),
		TEST(refill_fails_in_a_confirmation),
		TEST(following_a_peer),
		TEST(memory_regions),
		TEST(kinds_do_not_share_keys),
		TEST(close_takes_back),
		TEST(destroy_takes_back),
		TEST(destroyed_objects_stay_deleted),
		TEST(destroy_with_a_silent_server),
		TEST(close_in_a_forked_child),
		TEST(garbage),
		TEST(a_changed_byte),
		TEST(a_successor_with_the_same_pid),
		TEST(absurd_numbers),
		TEST(messages),
		TEST(many_messages),
		TEST(messages_without_content),
		TEST(messages_too_large),
		TEST(keys_that_cannot_be),
		TEST(jobs_do_not_meet),
		TEST(two_jobs_side_by_side),
		TEST(origins_are_readable),
		TEST(barrier_again_and_again),
		TEST(barrier_with_leftovers),
		TEST(barrier_and_close),
		TEST(barrier_names_who_is_missing),
		TEST(polls_say_who_is_missing),
		TEST(a_rank_that_fails),
		TEST(a_rank_that_fails_first),
		TEST(barrier_without_ranks),
		TEST(barrier_of_one),
		TEST(wrong_server),
		TEST(a_server_that_is_silent),
		TEST(a_server_that_restarts),
		TEST(no_call_needs_much_stack),
	};
	const struct CMUnitTest sealed[] = {
		TEST(a_record_that_is_brought_back),
		TEST(a_record_that_is_forged),
		TEST(a_sealed_record_shows_no_numbers),
		TEST(a_secret_wants_a_job_id),
		TEST(a_secret_that_cannot_be_used),
		TEST(reliable_connection),
		TEST(many_queue_pairs),
		TEST(threads_share_a_context),
		TEST(datagrams),
		TEST(a_record_of_a_former_run),
		TEST(former_runs_of_both),
		TEST(following_a_peer),
		TEST(memory_regions),
		TEST(messages),
		TEST(many_messages),
		TEST(messages_without_content),
		TEST(messages_too_large),
		TEST(barrier_with_leftovers),
		TEST(a_server_that_restarts),
	};
	int failed = cmocka_run_group_tests_name("plain", tests, group_setup, group_teardown);

#ifdef HAVE_CRYPTO
	failed += cmocka_run_group_tests_name("sealed", sealed, sealed_group_setup,
					      sealed_group_teardown);
#else
	(void)sealed;
	(void)sealed_group_setup;
	(void)sealed_group_teardown;
#endif
	return failed;
}
