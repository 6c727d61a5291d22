/* SPDX-License-Identifier: MIT */
/*
 * live.h - one end of a pair on a real device, as most live tests begin
 *
 * Owns the usual objects of a rank: PD, CQ, a buffer, and a queue pair that is connected to that
 * of the other rank.  For use within ranks_run().
 */
#ifndef LIVE_H
#define LIVE_H

#include "hartebeest-post.h"
#include "hartebeest.h"
#include "tests/support/ranks.h"

#define LIVE_BUFFER 65536
#define LIVE_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct live {
	int rank;
	char me[64], peer[64];		/* keys of this end and of the other */
	struct hartebeest_context *hb;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct hartebeest_remote_mr there;
};

/* Makes "pd", "cq", "mr" and "qp", in INIT.  @options as for hartebeest_open(). */
void live_open(struct live *live, int rank, int type, const char *const *options);

/*
 * Makes an RC queue pair that notices a dead peer within a second, and whose receives are posted
 * again at each INIT.
 */
void live_begin(struct live *live, int rank);

/* Sends a message each way, which needs receives and matching numbers at both ends. */
void live_talk(struct live *live);

/* Publishes, fetches and connects; RC and UC also confirm. */
void live_connect(struct live *live);
void live_close(struct live *live);

/*
 * The next completion.  Sleeps between looks, so that the other rank has the processor, and has no
 * limit: a rank that waits for one that failed is killed.
 */
void live_await(struct ibv_cq *cq, struct ibv_wc *wc);

/* The same; it must be a success with this wr_id. */
void live_complete(struct live *live, uint64_t wr_id, struct ibv_wc *wc);

/* The state of the queue pair according to the device. */
enum ibv_qp_state live_state(const struct live *live);

/* The byte that rank @rank has at @index. */
unsigned char live_byte(int rank, size_t index);
void live_fill(void *bytes, int rank, size_t size);
bool live_is(const void *bytes, int rank, size_t size);

/* Starts a memcached and two ranks; 0 if both succeeded. */
int live_pair(int (*function)(int rank, void *data), void *data);

#endif
