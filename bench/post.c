/* SPDX-License-Identifier: MIT */
/*
 * post.c - what posting and polling cost in instructions, which are counted, not timed
 *
 * Four ways to do the same with a device that does nothing: by hand; by hand with care; by the
 * inline helpers of hartebeest-post.h; and by the symbols that libhartebeest exports.  Without
 * care, errors keep the sign of verbs, and an empty message has an element; the helpers see to
 * both.  The program runs itself under valgrind, twice for each way, with different numbers of
 * calls: the difference is what the calls cost.  The cost of the loop and of the device is
 * subtracted.  Ends with 1 when an inline helper costs more than careful code by hand, or a
 * symbol more than LIMIT over its inline function; with 77 where there is no valgrind.
 */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As in a program built without a stack protector: none of the ways has one. */
#define HARTEBEEST_INLINE_ static inline BEEST_UNPROTECTED
#include "hartebeest-post.h"

#define LIMIT 14
#define CALLS 1000

/* The header's names are its inline functions, so the symbols have other names here. */
int exported_write(struct ibv_qp *qp, const void *local, uint32_t length, uint32_t lkey,
		 uint64_t remote, uint32_t rkey, uint64_t wr_id,
		 unsigned int flags) __asm__("hartebeest_post_write");
int exported_send(struct ibv_qp *qp, const void *local, uint32_t length, uint32_t lkey,
		uint64_t wr_id, unsigned int flags) __asm__("hartebeest_post_send");
int exported_fetch_add(struct ibv_qp *qp, uint64_t *local, uint32_t lkey, uint64_t remote,
		     uint32_t rkey, uint64_t add, uint64_t wr_id,
		     unsigned int flags) __asm__("hartebeest_post_fetch_add");
int exported_recv(struct ibv_qp *qp, void *local, uint32_t length, uint32_t lkey,
		uint64_t wr_id) __asm__("hartebeest_post_recv");
int exported_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc) __asm__("hartebeest_poll");

/* --------------------------------------------------- a device of no cost --- */

static int stub_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp, (void)wr, (void)bad;
	return 0;
}

static int stub_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp, (void)wr, (void)bad;
	return 0;
}

static int stub_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	(void)cq, (void)count, (void)wc;
	return 0;
}

static struct ibv_context context = {
	.ops = { .post_send = stub_send, .post_recv = stub_recv, .poll_cq = stub_poll },
};
static struct ibv_qp pair = { .context = &context };
static struct ibv_cq queue = { .context = &context };

/* Set at run time, so that the compiler does not know the values, as in a program. */
static struct {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	uint64_t *local;
	uint64_t remote;
	uint32_t length, lkey, rkey, flags;
} it;

static void prepare(void)
{
	static uint64_t memory;
	volatile uint32_t number = 8;

	it.qp = &pair;
	it.cq = &queue;
	it.local = &memory;
	it.remote = number;
	it.length = it.lkey = it.rkey = it.flags = number;
}

/* ------------------------------------------------------------ by hand --- */

/* @careful: a negative errno, and no element for an empty message, as in the helpers. */
#define BY_HAND BEEST_UNPROTECTED static inline __attribute__((always_inline)) int

BY_HAND by_hand_post(struct ibv_qp *qp, struct ibv_send_wr *wr, uint32_t length, uint64_t wr_id,
		     bool careful)
{
	struct ibv_send_wr *bad;
	struct ibv_sge sge;
	int ret;

	sge.addr = (uintptr_t)it.local;
	sge.length = length;
	sge.lkey = it.lkey;
	wr->wr_id = wr_id;
	wr->next = NULL;
	wr->sg_list = &sge;
	wr->num_sge = careful && !length ? 0 : 1;
	wr->send_flags = it.flags;
	ret = ibv_post_send(qp, wr, &bad);
	return careful && ret > 0 ? -ret : ret;
}

BY_HAND by_hand_write(struct ibv_qp *qp, uint64_t wr_id, bool careful)
{
	struct ibv_send_wr wr;

	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = it.remote;
	wr.wr.rdma.rkey = it.rkey;
	return by_hand_post(qp, &wr, it.length, wr_id, careful);
}

BY_HAND by_hand_send(struct ibv_qp *qp, uint64_t wr_id, bool careful)
{
	struct ibv_send_wr wr;

	wr.opcode = IBV_WR_SEND;
	return by_hand_post(qp, &wr, it.length, wr_id, careful);
}

BY_HAND by_hand_fetch_add(struct ibv_qp *qp, uint64_t wr_id, bool careful)
{
	struct ibv_send_wr wr;

	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = it.remote;
	wr.wr.atomic.rkey = it.rkey;
	wr.wr.atomic.compare_add = wr_id;
	wr.wr.atomic.swap = 0;
	return by_hand_post(qp, &wr, 8, wr_id, careful);
}

BY_HAND by_hand_recv(struct ibv_qp *qp, uint64_t wr_id, bool careful)
{
	struct ibv_recv_wr wr, *bad;
	struct ibv_sge sge;
	int ret;

	sge.addr = (uintptr_t)it.local;
	sge.length = it.length;
	sge.lkey = it.lkey;
	wr.wr_id = wr_id;
	wr.next = NULL;
	wr.sg_list = &sge;
	wr.num_sge = careful && !it.length ? 0 : 1;
	ret = ibv_post_recv(qp, &wr, &bad);
	return careful && ret > 0 ? -ret : ret;
}

BY_HAND by_hand_poll(struct ibv_cq *cq, uint64_t wr_id, bool careful)
{
	struct ibv_wc wc;
	int ret = ibv_poll_cq(cq, 1, &wc);

	(void)wr_id;
	return careful && ret < 0 ? -EIO : ret;
}

#define HAND(way, careful, name, object) \
BEEST_UNPROTECTED static int way##_##name(uint64_t wr_id) \
{ \
	return by_hand_##name(it.object, wr_id, careful); \
}
#define HANDS(way, careful) \
	HAND(way, careful, write, qp) HAND(way, careful, send, qp) \
	HAND(way, careful, fetch_add, qp) HAND(way, careful, recv, qp) \
	HAND(way, careful, poll, cq)

HANDS(hand, false)
HANDS(careful, true)

/* -------------------------------------------- by the header, by the symbols --- */

#define WAYS(way, write, send, fetch_add, recv, poll) \
BEEST_UNPROTECTED static int way##_write(uint64_t wr_id) \
{ \
	return write(it.qp, it.local, it.length, it.lkey, it.remote, it.rkey, wr_id, it.flags); \
} \
BEEST_UNPROTECTED static int way##_send(uint64_t wr_id) \
{ \
	return send(it.qp, it.local, it.length, it.lkey, wr_id, it.flags); \
} \
BEEST_UNPROTECTED static int way##_fetch_add(uint64_t wr_id) \
{ \
	return fetch_add(it.qp, it.local, it.lkey, it.remote, it.rkey, wr_id, wr_id, it.flags); \
} \
BEEST_UNPROTECTED static int way##_recv(uint64_t wr_id) \
{ \
	return recv(it.qp, it.local, it.length, it.lkey, wr_id); \
} \
BEEST_UNPROTECTED static int way##_poll(uint64_t wr_id) \
{ \
	struct ibv_wc wc; \
 \
	(void)wr_id; \
	return poll(it.cq, 1, &wc); \
}

WAYS(inline, hartebeest_post_write, hartebeest_post_send, hartebeest_post_fetch_add,
     hartebeest_post_recv, hartebeest_poll)
WAYS(symbol, exported_write, exported_send, exported_fetch_add, exported_recv, exported_poll)

/* ------------------------------------------------------------- counting --- */

/* The cost of the loop, of calling a way and of the device. */
static int nothing(uint64_t wr_id)
{
	(void)wr_id;
	return it.qp->context->ops.post_send(it.qp, NULL, NULL);
}

enum way { BARE, CAREFUL, INLINED, SYMBOL, WAYS_COUNT };

static const char *const ways[WAYS_COUNT] = { "hand", "careful", "inline", "symbol" };

static const struct {
	const char *name;
	int (*once[WAYS_COUNT])(uint64_t wr_id);
} rows[] = {
#define ROW(name) { #name, { hand_##name, careful_##name, inline_##name, symbol_##name } }
	ROW(write), ROW(send), ROW(fetch_add), ROW(recv), ROW(poll),
};
enum { ROWS_COUNT = sizeof(rows) / sizeof(rows[0]) };

/* Run in the process under valgrind. */
static int repeat(int row, int way, int calls)
{
	int (*volatile chosen)(uint64_t wr_id) = row < 0 ? nothing : rows[row].once[way];
	int (*once)(uint64_t wr_id) = chosen;
	int i, sum = 0;

	prepare();
	for (i = 0; i < calls; i++)
		sum += once((uint64_t)i);
	return sum;
}

/* The instructions of the whole process; -1: valgrind does not work here. */
static long count_all(const char *program, int row, int way, int calls)
{
	char command[4352], line[256];
	long counted = -1;
	FILE *pipe;

	snprintf(command, sizeof(command), "valgrind --tool=callgrind "
		 "--callgrind-out-file=/dev/null '%s' %d %d %d 2>&1", program, row, way, calls);
	pipe = popen(command, "r");
	while (pipe && fgets(line, sizeof(line), pipe)) {
		if (strstr(line, "Collected : "))
			counted = atol(strstr(line, ": ") + 2);
	}
	return pipe && pclose(pipe) == 0 ? counted : -1;
}

static long count_one(const char *program, int row, int way)
{
	long few = count_all(program, row, way, CALLS);
	long many = count_all(program, row, way, 2 * CALLS);

	return few < 0 || many < 0 ? -1 : (many - few + CALLS / 2) / CALLS;
}

static void report(const char *program, int row, long idle, long counted[WAYS_COUNT])
{
	int way;

	printf("| %s |", rows[row].name);
	for (way = 0; way < WAYS_COUNT; way++) {
		counted[way] = count_one(program, row, way) - idle;
		printf(" %ld |", counted[way]);
	}
	printf("\n");
	fflush(stdout);
}

/* Does @way of a row cost at most @limit more than @against? */
static bool compare(int row, const long counted[WAYS_COUNT], enum way way, enum way against,
		    long limit)
{
	long more = counted[way] - counted[against];

	printf("%s: %s, %s: %ld more than %s, at most %ld wanted\n",
	       more > limit ? "MISSED" : "met",
	       rows[row].name, ways[way], more, ways[against], limit);
	return more <= limit;
}

static int report_all(const char *program)
{
	long idle = count_one(program, -1, 0), counted[ROWS_COUNT][WAYS_COUNT];
	bool good = true;
	int row;

	if (idle < 0) {
		fprintf(stderr, "no valgrind that counts instructions\n");
		return 77;
	}

	printf("## bench/post: instructions of one call\n\n| | %s | %s | %s | %s |\n"
	       "|---|---|---|---|---|\n", ways[BARE], ways[CAREFUL], ways[INLINED], ways[SYMBOL]);
	for (row = 0; row < ROWS_COUNT; row++)
		report(program, row, idle, counted[row]);
	printf("\n");
	for (row = 0; row < ROWS_COUNT; row++) {
		good &= compare(row, counted[row], INLINED, CAREFUL, 0);
		good &= compare(row, counted[row], SYMBOL, INLINED, LIMIT);
	}
	printf("\n");
	return !good;
}

int main(int argc, char **argv)
{
	char program[4096];
	ssize_t size;

	if (argc == 4)
		return repeat(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));

	size = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (size < 0)
		return 77;
	program[size] = '\0';
	return report_all(program);
}
