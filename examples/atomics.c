/* SPDX-License-Identifier: MIT */
/*
 * atomics.c - a counter and a lock in one rank's memory, which all ranks use
 *
 *	hartebeest run -n 4 -- ./atomics
 *
 * On several hosts, start it with srun or mpirun, or by hand with HARTEBEEST_PARTICIPANTS=0-3 and
 * HARTEBEEST_NID=0 and so on.  HARTEBEEST_EXC_IP_PORT=host:port names a Memcached server.
 *
 * The first rank owns the memory and has a queue pair to each rank, including itself, since
 * the device's atomics are atomic among each other, but not with those of the processor.  All
 * ranks draw tickets by FETCH AND ADD, and change an account under a lock by COMPARE AND SWAP.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hartebeest-post.h>
#include <hartebeest.h>

#define TICKETS 200
#define DEPOSITS 20
#define PATIENCE INT64_C(60000000000)	/* ns */

/* Aligned words of 64 bits, as atomics require. */
struct shared {
	uint64_t tickets;	/* drawn so far */
	uint64_t lock;		/* 0, or the number of its holder */
	uint64_t account;	/* protected by the lock */
};

static struct {
	struct hartebeest_context *hb;
	int rank, owner;
	struct ibv_cq *cq;
	struct ibv_mr *mr;		/* receives the results */
	uint64_t *word;			/* its memory */
	struct ibv_qp *qp;
	struct hartebeest_remote_mr shared;
} self;

static int try(int ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "rank %d: %s\n", self.rank, hartebeest_error());
	exit(EXIT_FAILURE);
}

/* ---------------------------------------------------------------- connecting --- */

static void create_qp(const char *name, struct ibv_qp **qp)
{
	struct hartebeest_qp_attr attr;

	hartebeest_qp_attr_init(&attr);
	attr.pd = "pd";
	attr.send_cq = "cq";
	attr.type = IBV_QPT_RC;
	try(hartebeest_qp_create(self.hb, name, &attr, qp));
}

struct ends {
	char key[32], peer_key[32];
};

/* Every rank has a queue pair to the owner, which also has one to each of them. */
static void connect(void)
{
	static const char *const offer[] = { "shared" };
	int i, rank, size = try(hartebeest_size(self.hb));
	int count = self.rank == self.owner ? 1 + size : 1;
	struct hartebeest_pair *pairs = calloc((size_t)count, sizeof(*pairs));
	struct ends *ends = calloc((size_t)count, sizeof(*ends));

	if (!pairs || !ends)
		exit(EXIT_FAILURE);
	for (i = 0; i < count; i++) {
		rank = i ? hartebeest_participant(self.hb, i - 1) : self.rank;
		snprintf(ends[i].key, sizeof(ends[i].key), "%s-%d", i ? "for" : "of", rank);
		snprintf(ends[i].peer_key, sizeof(ends[i].peer_key), "%s-%d", i ? "of" : "for",
			 rank);
		create_qp(ends[i].key, i ? NULL : &self.qp);
		hartebeest_pair_init(&pairs[i]);
		pairs[i].qp = ends[i].key;
		pairs[i].key = ends[i].key;
		pairs[i].peer_key = ends[i].peer_key;
		pairs[i].offer = offer;
		pairs[i].offer_count = i > 0;
		pairs[i].regions = &self.shared;
		pairs[i].region_room = i == 0;
	}
	try(hartebeest_pairs_connect(self.hb, pairs, (size_t)count, 0));
	free(pairs);
	free(ends);
}

/* ---------------------------------------------------------------- operations --- */

static uint64_t address_of(size_t offset)
{
	return self.shared.address + offset;
}

/* Waits for the request, and returns the word as it was before the operation. */
static uint64_t complete(int ret)
{
	struct ibv_wc wc;
	char text[512];

	if (ret < 0 || hartebeest_poll_until(self.cq, 1, &wc, hartebeest_clock() + PATIENCE) < 0) {
		fprintf(stderr, "rank %d: %s\n", self.rank,
			ret < 0 ? strerror(-ret) : "no completion");
		exit(EXIT_FAILURE);
	}
	if (wc.status == IBV_WC_SUCCESS)
		return *self.word;
	hartebeest_completion_text(self.hb, &wc, text, sizeof(text));
	fprintf(stderr, "rank %d: %s\n", self.rank, text);
	exit(EXIT_FAILURE);
}

static uint64_t fetch_add(size_t offset, uint64_t number)
{
	return complete(hartebeest_post_fetch_add(self.qp, self.word, self.mr->lkey,
						  address_of(offset), self.shared.rkey, number, 0,
						  IBV_SEND_SIGNALED));
}

static uint64_t compare_swap(size_t offset, uint64_t expected, uint64_t wanted)
{
	return complete(hartebeest_post_compare_swap(self.qp, self.word, self.mr->lkey,
						     address_of(offset), self.shared.rkey, expected,
						     wanted, 0, IBV_SEND_SIGNALED));
}

static uint64_t read_word(size_t offset)
{
	return complete(hartebeest_post_read(self.qp, self.word, sizeof(*self.word),
					     self.mr->lkey, address_of(offset), self.shared.rkey, 0,
					     IBV_SEND_SIGNALED));
}

static void write_word(size_t offset, uint64_t value)
{
	*self.word = value;
	complete(hartebeest_post_write(self.qp, self.word, sizeof(*self.word), self.mr->lkey,
				       address_of(offset), self.shared.rkey, 0, IBV_SEND_SIGNALED));
}

/*
 * A lock whose holder dies stays locked.  The word has the holder's number, so the others can
 * check whether it is alive, by hartebeest_qp_follow() or by means of the program itself.
 */
static void deposit(uint64_t amount)
{
	uint64_t holder = (uint64_t)self.rank + 1;

	while (compare_swap(offsetof(struct shared, lock), 0, holder) != 0)
		;
	write_word(offsetof(struct shared, account),
		   read_word(offsetof(struct shared, account)) + amount);
	compare_swap(offsetof(struct shared, lock), holder, 0);
}

int main(void)
{
	struct hartebeest_mr_attr mr_attr;
	int i, access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC;
	uint64_t ticket, former = 0;
	struct ibv_mr *shared;

	try(hartebeest_open(&self.hb, NULL));
	self.rank = try(hartebeest_rank(self.hb));
	self.owner = try(hartebeest_participant(self.hb, 0));
	try(hartebeest_pd_create(self.hb, "pd", NULL));
	try(hartebeest_cq_create(self.hb, "cq", NULL, &self.cq));
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = sizeof(*self.word);
	mr_attr.access = IBV_ACCESS_LOCAL_WRITE;
	try(hartebeest_mr_create(self.hb, "word", &mr_attr, &self.mr));
	self.word = self.mr->addr;
	mr_attr.length = sizeof(struct shared);
	mr_attr.access = access;
	if (self.rank == self.owner)
		try(hartebeest_mr_create(self.hb, "shared", &mr_attr, &shared));
	connect();

	for (i = 0; i < TICKETS; i++) {
		ticket = fetch_add(offsetof(struct shared, tickets), 1);
		if (i && ticket <= former) {
			fprintf(stderr, "rank %d: ticket %" PRIu64 " was drawn twice\n", self.rank,
				ticket);
			return EXIT_FAILURE;
		}
		former = ticket;
	}
	for (i = 0; i < DEPOSITS; i++)
		deposit(10);

	try(hartebeest_barrier(self.hb, "done", 0));
	printf("rank %d: %" PRIu64 " tickets were drawn, %" PRIu64 " are in the account\n",
	       self.rank, read_word(offsetof(struct shared, tickets)),
	       read_word(offsetof(struct shared, account)));
	/* A rank that leaves takes its memory with it: wait for each other. */
	try(hartebeest_barrier(self.hb, "read", 0));
	try(hartebeest_close(self.hb));
	return EXIT_SUCCESS;
}
