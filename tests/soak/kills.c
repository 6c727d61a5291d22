/* SPDX-License-Identifier: MIT */
/*
 * kills.c - all ranks find each other again, whoever is killed and whenever
 *
 * 	kills SECONDS [SEED]
 *
 * Eight processes connect each to each, time after time.  Meanwhile ranks and the server are
 * killed and started again at moments drawn from a seed, which is printed.  In the end both
 * ends of each pair must have each other's sequence numbers, the server must have no more items
 * than eight ranks can leave, and no rank may keep a verbs object.
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/rank.h"
#include "tests/support/surroundings.h"

#define RANKS 8
#define PATIENCE (60 * BEEST_SECOND)

/* Records of queue pairs, of ranks and their starts, lists of servers, news, and the epoch. */
#define ITEMS_MAX (RANKS * (RANKS - 1) + 2 * RANKS + 8)

/* The board on which each process reports its state. */
static struct board {
	struct {
		bool here;		/* its pairs are connected */
		uint32_t in[RANKS], out[RANKS];	/* first sequence numbers, by peer */
		char error[512];
	} ranks[RANKS];
	bool release;
} *board;

static struct cache *cache;
static pid_t pids[RANKS];

/* ------------------------------------------------------------------------- a rank --- */

struct end {
	char qp[16], key[16], peer_key[16];
	struct ibv_qp *verbs;
};

static struct end ends[RANKS];
static struct hartebeest_pair pairs[RANKS];

static void rank_fails(int rank)
{
	snprintf(board->ranks[rank].error, sizeof(board->ranks[rank].error), "%s",
		 hartebeest_error());
	_exit(1);
}

static void rank_make(struct hartebeest_context *hb, int rank)
{
	struct hartebeest_pair *pair = pairs;
	struct end *end;
	int peer;

	if (hartebeest_pd_create(hb, "pd", NULL) < 0 ||
	    cq_make(hb, "cq", 0, 0, NULL) < 0)
		rank_fails(rank);
	for (peer = 0; peer < RANKS; peer++) {
		if (peer == rank)
			continue;
		end = &ends[peer];
		snprintf(end->qp, sizeof(end->qp), "qp-%d", peer);
		snprintf(end->key, sizeof(end->key), "%d/%d", rank, peer);
		snprintf(end->peer_key, sizeof(end->peer_key), "%d/%d", peer, rank);
		if (qp_make(hb, end->qp, "pd", IBV_QPT_RC, "cq", "cq", &end->verbs) < 0)
			rank_fails(rank);
		hartebeest_pair_init(pair);
		pair->qp = end->qp;
		pair->key = end->key;
		pair++->peer_key = end->peer_key;
	}
}

static void rank_tells(int rank)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int peer;

	for (peer = 0; peer < RANKS; peer++) {
		if (peer == rank ||
		    ibv_query_qp(ends[peer].verbs, &attr, IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &init))
			continue;
		board->ranks[rank].in[peer] = attr.rq_psn;
		board->ranks[rank].out[peer] = attr.sq_psn;
	}
	__atomic_store_n(&board->ranks[rank].here, true, __ATOMIC_SEQ_CST);
}

/* Connects to all peers, then again to any process that replaces one. */
static void rank_run(int rank)
{
	const struct rank_settings settings = {
		.servers = cache_hostport(cache)->text, .size = RANKS, .rank = rank,
		.job = "kills",
	};
	struct hartebeest_context *hb;
	int peer;

	if (rank_open(&hb, &settings) < 0)
		rank_fails(rank);
	rank_make(hb, rank);
	if (hartebeest_pairs_connect(hb, pairs, RANKS - 1, 0) < 0)
		rank_fails(rank);
	while (!__atomic_load_n(&board->release, __ATOMIC_SEQ_CST)) {
		rank_tells(rank);
		for (peer = 0; peer < RANKS; peer++)
			if (peer != rank)
				hartebeest_qp_follow(hb, ends[peer].qp, ends[peer].peer_key, NULL,
						     HARTEBEEST_ONCE);
		pause_ms(5);
	}
	hartebeest_close(hb);
	_exit(fake_verbs.open != 0);
}

/* ------------------------------------------------------------ kills and restarts --- */

static void start(int rank)
{
	memset(&board->ranks[rank], 0, sizeof(board->ranks[rank]));
	pids[rank] = fork();
	if (pids[rank] != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rank_run(rank);
}

static void kill_rank(int rank)
{
	kill(pids[rank], SIGKILL);
	waitpid(pids[rank], NULL, 0);
	start(rank);
}

static void kill_server(void)
{
	cache_kill(cache);
	pause_ms((int)(lrand48() % 20));
	cache_restart(cache);
}

static void befall(void)
{
	long events;

	for (events = lrand48() % 4; events; events--) {
		pause_ms((int)(lrand48() % 60));
		if (lrand48() % 3)
			kill_rank((int)(lrand48() % RANKS));
		else
			kill_server();
	}
}

/* ---------------------------------------------------------------------- the end --- */

/* The first thing that is wrong; NULL: nothing. */
static const char *wrong(void)
{
	static char text[640];
	int a, b;

	for (a = 0; a < RANKS; a++) {
		snprintf(text, sizeof(text), "rank %d is not connected: %s", a,
			 board->ranks[a].error);
		if (!__atomic_load_n(&board->ranks[a].here, __ATOMIC_SEQ_CST))
			return text;
		for (b = 0; b < RANKS; b++) {
			snprintf(text, sizeof(text), "rank %d expects %u of rank %d, which "
				 "sends %u", a, board->ranks[a].in[b], b, board->ranks[b].out[a]);
			if (a != b && board->ranks[a].in[b] != board->ranks[b].out[a])
				return text;
		}
	}

	return NULL;
}

static const char *end(void)
{
	int64_t deadline = beest_clock_deadline(PATIENCE);
	const char *trouble;
	int rank, status;

	while ((trouble = wrong()) && beest_clock_left(deadline))
		pause_ms(5);
	__atomic_store_n(&board->release, true, __ATOMIC_SEQ_CST);
	for (rank = 0; rank < RANKS; rank++) {
		if (trouble)
			kill(pids[rank], SIGKILL);
		if (waitpid(pids[rank], &status, 0) < 0 || (!trouble && status))
			trouble = "a rank has not ended well";
	}
	if (!trouble && cache_stat(cache, "curr_items") > ITEMS_MAX)
		trouble = "the server has too many items";

	return trouble;
}

int main(int argc, char **argv)
{
	int64_t until = beest_clock_deadline(atol(argc > 1 ? argv[1] : "10") * BEEST_SECOND);
	long seed = argc > 2 ? atol(argv[2]) : (long)getpid(), run;
	const char *trouble = NULL;
	int rank;

	surroundings_clear();
	cache_need();
	fake_verbs_reset();
	printf("seed %ld\n", seed);
	fflush(stdout);
	srand48(seed);
	cache = cache_start(NULL);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	for (run = 0; !trouble && beest_clock_left(until); run++) {
		board->release = false;
		for (rank = 0; rank < RANKS; rank++)
			start(rank);
		befall();
		trouble = end();
	}
	cache_end(cache);
	printf("%ld bring-ups of %d ranks%s%s\n", run, RANKS, trouble ? "; the last: " : "",
	       trouble ? trouble : "");
	return trouble != NULL;
}
