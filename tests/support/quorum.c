/* SPDX-License-Identifier: MIT */
/* quorum.c - see quorum.h */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hartebeest-c.h"
#include "hartebeest.h"
#include "lib/base/macro.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/quorum.h"
#include "tests/support/rank.h"
#include "tests/support/ranks.h"
#include "tests/support/unit.h"

#define PD "quorum-pd"
#define SIZE 4096
#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* The settings that the original's programs come with. */
static const char settings[] =
	"{ \"cq_attr\": { \"cq_depth\": 128 },"
	"  \"qp_init_attr\": { \"rc:cap.max_send_wr\": 128, \"rc:cap.max_send_sge\": 16,"
	"    \"rc:cap.max_recv_sge\": 16, \"rc:cap.max_inline_data\": 256 },"
	"  \"qp_attr\": { \"rc:path_mtu\": 5 } }";

/* Each node writes to the others by two queue pairs, and is written to by two. */
static const char *const writers[] = { "writer", "checker" };
static const char *const readers[] = { "reader", "receiver" };

/* "writer-qp(0->1)".  The queue pair and region of a pair of nodes are named after both ends. */
#define KEY(role, what, from, to) pair_key((char[64]){ 0 }, role, what, from, to)

static const char *pair_key(char text[64], const char *role, const char *what, int from, int to)
{
	snprintf(text, 64, "%s-%s(%d->%d)", role, what, from, to);
	return text;
}

#define MESSAGE(what, node) node_key((char[64]){ 0 }, what, node)

static const char *node_key(char text[64], const char *what, int node)
{
	snprintf(text, 64, "%s-%d", what, node);
	return text;
}

#define FOR_OTHERS(other, node) \
	for (other = 0; other < QUORUM_NODES; other++) \
		if (other != (node))

/* ----------------------------------------------------------------- a node --- */

/* A queue for sends and one for receives, which have the same name, so that the second fails. */
static void make_qp(const char *role, int from, int to)
{
	const char *cq = KEY(role, "cq", from, to), *qp = KEY(role, "qp", from, to);

	hartebeest_create_basiccq(cq);
	hartebeest_create_basiccq(cq);
	hartebeest_create_local_qp(PD, qp, IBV_QPT_RC, cq, cq);
	EXPECT(hartebeest_memc_push_local_qp(qp, PD, qp));
}

static void make_mr(const char *key)
{
	EXPECT(hartebeest_create_local_mr(PD, key, SIZE, RW));
	EXPECT(hartebeest_memc_push_local_mr(key, PD, key));
}

static void make_all(int node)
{
	int i, other;

	EXPECT(hartebeest_create_local_pd(PD));
	make_mr(MESSAGE("table", node));
	for (i = 0; i < 2; i++)
		FOR_OTHERS(other, node) {
			make_qp(writers[i], node, other);
			make_mr(KEY(readers[i], "mr", other, node));
			make_qp(readers[i], other, node);
		}
}

static void connect_qp(const char *local, const char *remote)
{
	hartebeest_memc_fetch_remote_qp(remote);
	hartebeest_init_local_qp(PD, local);
	hartebeest_connect_local_qp(PD, local, remote);
}

static void connect_all(int node)
{
	int i, other;

	for (i = 0; i < 2; i++)
		FOR_OTHERS(other, node) {
			hartebeest_memc_fetch_remote_mr(KEY(readers[i], "mr", node, other));
			connect_qp(KEY(writers[i], "qp", node, other),
				   KEY(readers[i], "qp", node, other));
			connect_qp(KEY(readers[i], "qp", other, node),
				   KEY(writers[i], "qp", other, node));
		}
	hartebeest_memc_fetch_remote_mr(MESSAGE("table", node));	/* its own */
	FOR_OTHERS(other, node)
		hartebeest_memc_fetch_remote_mr(MESSAGE("table", other));
}

static void meet(const char *what, int node)
{
	int other;

	EXPECT(hartebeest_memc_push_general(MESSAGE(what, node)));
	FOR_OTHERS(other, node)
		EXPECT(hartebeest_memc_wait_general(MESSAGE(what, other)));
}

static void delete_key(const char *key)
{
	EXPECT(hartebeest_memc_del_general(key));
	EXPECT(!hartebeest_memc_del_general(key));
}

static void delete_all(int node)
{
	int i, other;

	for (i = 0; i < 2; i++)
		FOR_OTHERS(other, node) {
			delete_key(KEY(writers[i], "qp", node, other));
			delete_key(KEY(readers[i], "qp", other, node));
			delete_key(KEY(readers[i], "mr", other, node));
		}
	delete_key(MESSAGE("table", node));
}

static bool is_there(const char *mr, const char *qp)
{
	struct hartebeest_context *hb = hartebeest_default_context();
	struct hartebeest_remote_mr region;

	return UNTIL_ANSWERED(hartebeest_mr_fetch(hb, mr, &region, HARTEBEEST_ONCE)) != -EAGAIN ||
	       UNTIL_ANSWERED(hartebeest_qp_fetch(hb, qp, NULL, HARTEBEEST_ONCE)) != -EAGAIN;
}

/* Records of all nodes are gone, and all queue pairs connected. */
static void check_all(int node)
{
	int i, from, to;

	for (i = 0; i < 2; i++)
		for (from = 0; from < QUORUM_NODES; from++)
			FOR_OTHERS(to, from) {
				EXPECT(!is_there(KEY(readers[i], "mr", from, to),
						 KEY(readers[i], "qp", from, to)));
				EXPECT(!is_there(MESSAGE("table", from),
						 KEY(writers[i], "qp", from, to)));
			}
	for (i = 0; i < 2; i++)
		FOR_OTHERS(to, node) {
			EXPECT(hartebeest_get_local_qp(PD, KEY(writers[i], "qp", node, to))
			       ->state == IBV_QPS_RTS);
			EXPECT(hartebeest_get_local_qp(PD, KEY(readers[i], "qp", to, node))
			       ->state == IBV_QPS_RTS);
		}
}

/* ----------------------------------------------------- what outlives main() --- */

/* A region that another node writes to, and the queue pair and region to write there. */
static struct link {
	struct ibv_mr *local, *remote;
	struct ibv_qp *qp;
	unsigned long seen, written;	/* atomic */
} links[2 * (QUORUM_NODES - 1)];

static bool device_moves_bytes;

/*
 * The threads below pause in each turn: valgrind runs one thread at a time, and one that never
 * pauses keeps all others from running.
 */
#define TURN_MS 1

/* Reads the queue of completions itself, as some programs do, since a peer may end before. */
static bool write_there(struct link *link)
{
	char *source = (char *)link->local->addr + SIZE / 2;
	struct ibv_wc wc;
	int ret = 0;

	*source = 1;
	if (!hartebeest_rdma_post_single_fast(link->qp, source, link->remote->addr, 1,
					      IBV_WR_RDMA_WRITE, link->local->lkey,
					      link->remote->rkey, 1))
		return false;
	while (ret == 0)
		ret = ibv_poll_cq(link->qp->send_cq, 1, &wc);
	return ret == 1 && wc.status == IBV_WC_SUCCESS;
}

static void *write_for_ever(void *data)
{
	size_t i;

	for (i = 0; write_there(&links[i]); i = (i + 1) % BEEST_COUNT(links)) {
		__atomic_add_fetch(&links[i].written, 1, __ATOMIC_RELEASE);
		pause_ms(TURN_MS);
	}
	return data;
}

static void *watch_for_ever(void *data)
{
	struct link *link = data;
	volatile char *byte = link->local->addr;

	for (;;) {
		if (*byte == device_moves_bytes)
			__atomic_add_fetch(&link->seen, 1, __ATOMIC_RELEASE);
		*byte = 0;
		pause_ms(TURN_MS);
	}
	return NULL;
}

static void start_thread(void *(*function)(void *), void *data)
{
	pthread_t thread;

	EXPECT(pthread_create(&thread, NULL, function, data) == 0);
	EXPECT(pthread_detach(thread) == 0);
}

static void start_threads(int node)
{
	struct link *link = links, *end = links + BEEST_COUNT(links);
	int i, other;

	for (i = 0; i < 2; i++)
		FOR_OTHERS(other, node) {
			link->local = hartebeest_get_local_mr(PD, KEY(readers[i], "mr", other,
								      node));
			link->remote = hartebeest_get_remote_mr(KEY(readers[i], "mr", node,
								    other));
			link->qp = hartebeest_get_local_qp(PD, KEY(writers[i], "qp", node,
								   other));
			EXPECT(link->local && link->remote && link->qp);
			start_thread(watch_for_ever, link++);
		}
	start_thread(write_for_ever, NULL);
	for (link = links; link < end; link++)
		while (!__atomic_load_n(&link->seen, __ATOMIC_ACQUIRE) ||
		       !__atomic_load_n(&link->written, __ATOMIC_ACQUIRE))
			pause_ms(1);
}

/* ------------------------------------------------------------- three nodes --- */

#define PATH(folder, node) path_of((char[256]){ 0 }, folder, node)

static const char *path_of(char text[256], const char *folder, int node)
{
	snprintf(text, 256, "%s/%d", folder, node);
	return text;
}

char *quorum_printed(const char *folder, int node)
{
	char *text = calloc(1, 65536);
	int fd = open(PATH(folder, node), O_RDONLY);

	if (fd >= 0 && text && read(fd, text, 65535) < 0)
		text[0] = '\0';
	if (fd >= 0)
		close(fd);
	return text;
}

static int be_node(int node, void *data)
{
	const struct quorum *quorum = data;
	int fd = open(PATH(quorum->folder, node), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);

	EXPECT(fd >= 0 && dup2(fd, 1) == 1 && dup2(fd, 2) == 2);
	setenv("HARTEBEEST_PARTICIPANTS", "0,1,2", 1);
	setenv("HARTEBEEST_TIMEOUT", RANK_PATIENCE, 1);
	setenv("HARTEBEEST_CONF_PATH", PATH(quorum->folder, QUORUM_NODES), 1);
	if (quorum->begin)
		quorum->begin(node, quorum->folder);
	hartebeest_init();
	EXPECT(atoi(hartebeest_get_sysvar("HARTEBEEST_NID")) == node);
	make_all(node);
	if (quorum->connect)
		quorum->connect(node, quorum->folder);
	connect_all(node);
	meet("connected", node);
	delete_all(node);
	meet("deleted", node);
	check_all(node);
	device_moves_bytes = quorum->device_moves_bytes;
	start_threads(node);
	meet("started", node);
	delete_key(MESSAGE("connected", node));
	delete_key(MESSAGE("deleted", node));
	return 0;			/* the threads do not end */
}

void quorum_run(const struct quorum *quorum)
{
	struct cache *cache = cache_start(NULL);
	struct ranks ranks = {
		.count = QUORUM_NODES, .server = cache_hostport(cache)->text, .job = "quorum",
	};
	FILE *file = fopen(PATH(quorum->folder, QUORUM_NODES), "w");
	char *text, *line;
	int node, failed;

	assert_non_null(file);
	assert_true(fputs(settings, file) >= 0);
	assert_int_equal(fclose(file), 0);
	failed = ranks_run(&ranks, be_node, (void *)quorum);
	for (node = 0; node < QUORUM_NODES && failed; node++) {
		text = quorum_printed(quorum->folder, node);
		print_error("node %d said: %s\n", node, text);
		free(text);
	}
	assert_int_equal(failed, 0);
	for (node = 0; node < QUORUM_NODES; node++) {
		text = quorum_printed(quorum->folder, node);
		for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
			/* Both are what a busy machine does. */
			if (!strstr(line, "warn: still waiting") &&
			    !strstr(line, "; trying again for up to "))
				fail_msg("node %d said: %s", node, line);
		free(text);
	}
	cache_end(cache);
}

void quorum_forget(const char *folder)
{
	int node;

	for (node = 0; node <= QUORUM_NODES; node++)
		unlink(PATH(folder, node));
}
