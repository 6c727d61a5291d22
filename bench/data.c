/* SPDX-License-Identifier: MIT */
/*
 * data.c - the data path: writes of two processes over one queue pair, on a real device
 *
 * Small writes go to and fro: each process waits until it sees the other's write in its
 * memory.  Large writes go one way, as many at a time as the queue has room for.  The last
 * bytes written are compared at the other end.  The first two sides connect in the same way
 * and differ in two functions only.
 *
 * 	helpers		hartebeest_post_write() and hartebeest_poll_until()
 * 	bare loop	ibv_post_send(3) and ibv_poll_cq(3)
 * 	perftest	ib_write_lat(1) and ib_write_bw(1), by the averages they print
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bare.h"
#include "bench/bench.h"
#include "hartebeest-post.h"
#include "tests/support/ranks.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define SMALL 64		/* writes up to this many bytes go to and fro, inline */
#define LARGEST (1 << 20)
#define TURNS 200
#define LARGE_WRITES 300
#define WINDOW 128		/* of bare_init_attr(), and the default of ib_write_bw */

/* Shared by the two processes. */
struct hall {
	int arrived;		/* atomic */
	struct {
		struct bare_end end;
		uint64_t address;
		uint32_t rkey;
	} ends[2];
};

struct node {
	struct bare_port port;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	uint64_t remote;		/* the other's inbox */
	uint32_t rkey;
	uint8_t inbox[LARGEST], outbox[LARGEST];
};

/* The functions in which the two sides differ: 0, a count of completions, or a negative errno. */
struct way {
	int (*write)(const struct node *node, uint32_t length, unsigned int flags);
	int (*complete)(const struct bench_rank *rank, struct ibv_wc *wc);
};

static bool goes_to_and_fro(const struct bench_pass *pass)
{
	return pass->size <= SMALL;
}

/* ------------------------------------------------------------------------ connecting --- */

static const char *port_of(int rank)
{
	return ranks_port(rank) ? ranks_port(rank) : ranks_port(0);
}

static int other_come(struct bench_rank *rank, int times)
{
	struct hall *hall = rank->pass->data;

	__atomic_add_fetch(&hall->arrived, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&hall->arrived, __ATOMIC_ACQUIRE) < 2 * times)
		if (bench_over(rank))
			return bench_fail(rank, -ETIMEDOUT, "the other process did not come");
	return 0;
}

static int node_make(struct bench_rank *rank, struct node *node)
{
	struct hall *hall = rank->pass->data;
	int ret = bare_open(&node->port, port_of(rank->rank));

	if (ret < 0)
		return bench_fail(rank, ret, "cannot open %s", port_of(rank->rank));
	node->pd = ibv_alloc_pd(node->port.verbs);
	node->cq = ibv_create_cq(node->port.verbs, 2 * WINDOW, NULL, NULL, 0);
	if (!node->pd || !node->cq)
		return bench_fail(rank, -errno, "objects: %s", strerror(errno));
	node->mr = (ibv_reg_mr)(node->pd, node->inbox, 2 * LARGEST, ACCESS);
	node->qp = node->mr ? bare_create(&node->port, node->pd, node->cq,
					  &hall->ends[rank->rank].end) : NULL;
	if (!node->qp)
		return bench_fail(rank, -errno, "queue pair: %s", strerror(errno));
	hall->ends[rank->rank].address = (uintptr_t)node->inbox;
	hall->ends[rank->rank].rkey = node->mr->rkey;
	return 0;
}

static int node_open(struct bench_rank *rank)
{
	struct node *node = calloc(1, sizeof(*node));
	struct hall *hall = rank->pass->data;
	int ret;

	if (!node)
		abort();
	rank->device = node;
	ret = node_make(rank, node);
	if (ret == 0)
		ret = other_come(rank, 1);
	if (ret < 0)
		return ret;
	node->remote = hall->ends[!rank->rank].address;
	node->rkey = hall->ends[!rank->rank].rkey;
	ret = bare_connect(&node->port, node->qp, &hall->ends[rank->rank].end,
			   &hall->ends[!rank->rank].end);
	return ret < 0 ? bench_fail(rank, ret, "transition: %s", strerror(-ret)) :
	       other_come(rank, 2);
}

/* The objects end with the process. */
static void leave(struct bench_rank *rank)
{
	(void)rank;
}

/* --------------------------------------------------------------------- the two loops --- */

static int await_completion(struct bench_rank *rank, const struct way *way)
{
	struct ibv_wc wc;
	int ret = way->complete(rank, &wc);

	if (ret < 0)
		return bench_fail(rank, ret, "no completion came");
	return wc.status == IBV_WC_SUCCESS ? 0 :
	       bench_fail(rank, -EBADMSG, "completion: %s", ibv_wc_status_str(wc.status));
}

/* A turn writes its number into the last byte. */
static uint8_t turn_mark(int turn)
{
	return (uint8_t)(1 + turn % 255);
}

static int await_mark(struct bench_rank *rank, uint8_t mark)
{
	struct node *node = rank->device;
	const volatile uint8_t *last = &node->inbox[rank->pass->size - 1];
	unsigned int spins = 0;

	while (*last != mark)
		if (++spins % 65536 == 0 && bench_over(rank))
			return bench_fail(rank, -ETIMEDOUT, "a write did not come");
	return 0;
}

static int one_turn(struct bench_rank *rank, const struct way *way, uint8_t mark)
{
	struct node *node = rank->device;
	int ret = rank->rank ? await_mark(rank, mark) : 0;

	node->outbox[rank->pass->size - 1] = mark;
	if (ret == 0)
		ret = way->write(node, (uint32_t)rank->pass->size,
				 IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	if (ret == 0)
		ret = await_completion(rank, way);
	return ret < 0 || rank->rank ? ret : await_mark(rank, mark);
}

static int large_writes(struct bench_rank *rank, const struct way *way)
{
	struct node *node = rank->device;
	int i, ret = 0;

	memset(node->outbox, turn_mark(rank->pass->size), (size_t)rank->pass->size);
	for (i = 0; i < LARGE_WRITES + WINDOW && ret == 0; i++) {
		if (i >= WINDOW)
			ret = await_completion(rank, way);
		if (i < LARGE_WRITES && ret == 0)
			ret = way->write(node, (uint32_t)rank->pass->size, IBV_SEND_SIGNALED);
	}
	return ret;
}

static int run(struct bench_rank *rank, const struct way *way)
{
	int turn, ret = 0;

	if (!goes_to_and_fro(rank->pass))
		return rank->rank ? 0 : large_writes(rank, way);
	for (turn = 0; turn < TURNS && ret == 0; turn++)
		ret = one_turn(rank, way, turn_mark(turn));
	return ret;
}

/* The last turn was seen to arrive; large writes are compared byte by byte. */
static int prove(struct bench_rank *rank)
{
	struct node *node = rank->device;
	int i, size = rank->pass->size;

	for (i = 0; rank->rank && !goes_to_and_fro(rank->pass) && i < size; i++)
		if (node->inbox[i] != turn_mark(size))
			return bench_fail(rank, -EBADMSG, "byte %d is not what was written", i);
	return 0;
}

/* ------------------------------------------------------------------------- the sides --- */

static int helpers_write(const struct node *node, uint32_t length, unsigned int flags)
{
	return hartebeest_post_write(node->qp, node->outbox, length, node->mr->lkey, node->remote,
				     node->rkey, 0, flags);
}

static int helpers_complete(const struct bench_rank *rank, struct ibv_wc *wc)
{
	return hartebeest_poll_until(((struct node *)rank->device)->cq, 1, wc,
				     rank->pass->deadline);
}

static int helpers_work(struct bench_rank *rank)
{
	static const struct way way = { helpers_write, helpers_complete };

	return run(rank, &way);
}

static int bare_write(const struct node *node, uint32_t length, unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)node->outbox, length, node->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = flags }, *bad;

	wr.wr.rdma.remote_addr = node->remote;
	wr.wr.rdma.rkey = node->rkey;
	return -ibv_post_send(node->qp, &wr, &bad);
}

static int bare_complete(const struct bench_rank *rank, struct ibv_wc *wc)
{
	struct ibv_cq *cq = ((struct node *)rank->device)->cq;
	int got;

	do
		got = ibv_poll_cq(cq, 1, wc);
	while (got == 0);
	return got < 0 ? -EIO : got;
}

static int bare_work(struct bench_rank *rank)
{
	static const struct way way = { bare_write, bare_complete };

	return run(rank, &way);
}

static const char *perftest_missing(void)
{
	return system("command -v ib_write_lat >/dev/null 2>&1") == 0 ? NULL :
	       "perftest: not installed";
}

/* "-d rxe0 -i 1 -x 2" */
static int port_options(int rank, char *text, size_t size)
{
	const char *name = port_of(rank);
	struct bare_port port;
	int ret = bare_open(&port, name);

	if (ret < 0)
		return ret;
	snprintf(text, size, "-d %.*s -i %d -x %d", (int)strcspn(name, ":"), name, port.number,
		 port.gid_index);
	ibv_close_device(port.verbs);
	return 0;
}

/* Total ms.  Among other columns ib_write_lat prints us for one way, ib_write_bw MiB/s. */
static double line_ms(const struct bench_pass *pass, int count, const char *line)
{
	double column[4];
	int size, iterations;

	if (sscanf(line, "%d %d %lf %lf %lf %lf", &size, &iterations, &column[0], &column[1],
		   &column[2], &column[3]) < 5 || size != pass->size || iterations != count)
		return -1;
	return goes_to_and_fro(pass) ? 2 * column[3] * count / 1e3 :
	       (double)size * count / (column[1] * (1 << 20)) * 1e3;
}

static int perftest_programs(struct bench_pass *pass)
{
	const char *program = goes_to_and_fro(pass) ? "ib_write_lat" : "ib_write_bw";
	int count = goes_to_and_fro(pass) ? TURNS : LARGE_WRITES;
	char server[96], client[96], command[1024], line[256];
	double ms;
	FILE *output;

	if (port_options(0, server, sizeof(server)) < 0 ||
	    port_options(1, client, sizeof(client)) < 0)
		return -ENODEV;
	snprintf(command, sizeof(command),
		 "exec 2>&1; timeout %d %s %s -F -n %d -s %d -p 7474 >/dev/null & server=$!\n"
		 "for i in 1 2 3 4 5 6 7 8 9; do\n"
		 "  sleep 0.2; timeout %d %s %s -F -n %d -s %d -p 7474 127.0.0.1; ret=$?\n"
		 "  [ $ret != 0 ] || break\n"
		 "done; kill $server 2>/dev/null; wait; exit $ret", pass->limit, program, server,
		 count, pass->size, pass->limit, program, client, count, pass->size);
	output = popen(command, "r");
	if (!output)
		return -errno;
	while (fgets(line, sizeof(line), output)) {
		ms = line_ms(pass, count, line);
		if (ms > 0)
			pass->figures[BENCH_TIME] = ms;
		else
			snprintf(pass->error, sizeof(pass->error), "%s", line);
	}
	return pclose(output) == 0 && pass->figures[BENCH_TIME] > 0 ? 0 : -EIO;
}

/* --------------------------------------------------------------------- table --- */

#define HELPERS "helpers"
#define BARE "bare loop"
#define PERFTEST "perftest"

static const struct bench_side sides[] = {
	{ .name = HELPERS, .open = node_open, .work = helpers_work, .close = leave,
	  .largest = LARGEST },
	{ .name = BARE, .open = node_open, .work = bare_work, .close = leave,
	  .largest = LARGEST },
	{ .name = PERFTEST, .programs = perftest_programs, .missing = perftest_missing,
	  .largest = LARGEST },
	{ .name = NULL }
};

/* bench/post counts the instructions.  The margins are for noise, and for what it cannot count. */
static const struct bench_goal goals[] = {
	{ BENCH_GUARD, HELPERS, BENCH_TIME, BARE, LARGEST, LARGEST, 0, 1.0 },
	{ BENCH_GUARD, HELPERS, BENCH_TIME, PERFTEST, LARGEST, LARGEST, 0, 1.0 },
	{ BENCH_AIM, HELPERS, BENCH_TIME, BARE, 1, LARGEST, 0, 1.05 },
	{ BENCH_AIM, HELPERS, BENCH_TIME, PERFTEST, 1, LARGEST, 0, 1.1 },
	{ .side = NULL }
};

static const int sizes[] = { 8, 65536, 0 };

int main(int argc, char **argv)
{
	static const struct bench bench = {
		.name = "data",
		.title = "200 small writes to and fro, 300 large ones one way, of two processes",
		.column = "bytes",
		.sizes = sizes,
		.sides = sides,
		.goals = goals,
		.ranks = 2,
		.processes = true,
		.warm_up = true,
		.shared = sizeof(struct hall),
		.prove = prove,
		.need = ranks_need_device,
	};

	return bench_main(argc, argv, &bench);
}
