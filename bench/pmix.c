/* SPDX-License-Identifier: MIT */
/*
 * pmix.c - one rank of the sides that use PMIx; started by mpirun
 *
 * 	pmix mesh		queue pairs to all other ranks, by put, commit, fence, get
 * 	pmix anchors SIZE	the same exchange of SIZE bytes, without queue pairs
 * 	pmix barrier PASSES	PMIx_Fence
 * 	pmix start		from nothing until it holds a message of each other rank
 *
 * Prints "start end" in nanoseconds of bench_clock().  "pmix start" prints 0 as its start,
 * since the clock runs from exec(2), whose time only the caller knows.
 */
#include "config.h"

#include <infiniband/verbs.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bare.h"
#include "bench/bench.h"

#define TRY(call) do { \
	if ((call) != 0) { \
		fprintf(stderr, "rank %u: not 0: %s\n", self.rank, #call); \
		exit(1); \
	} \
} while (0)

static pmix_proc_t self;
static uint32_t size;

static void fence(bool collect)
{
	pmix_info_t info;

	PMIX_INFO_CONSTRUCT(&info);
	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	TRY(PMIx_Fence(NULL, 0, &info, 1));
	PMIX_INFO_DESTRUCT(&info);
}

static void put(void *bytes, size_t length)
{
	pmix_value_t value = { .type = PMIX_BYTE_OBJECT };

	value.data.bo.bytes = bytes;
	value.data.bo.size = length;
	TRY(PMIx_Put(PMIX_GLOBAL, "bench", &value));
	TRY(PMIx_Commit());
}

static pmix_value_t *get(uint32_t rank, size_t length)
{
	pmix_value_t *value;
	pmix_proc_t peer;

	PMIX_LOAD_PROCID(&peer, self.nspace, rank);
	TRY(PMIx_Get(&peer, "bench", NULL, 0, &value));
	TRY(value->type != PMIX_BYTE_OBJECT || value->data.bo.size != length);
	return value;
}

static void find_size(void)
{
	pmix_value_t *value;
	pmix_proc_t all;

	PMIX_LOAD_PROCID(&all, self.nspace, PMIX_RANK_WILDCARD);
	TRY(PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value));
	size = value->data.uint32;
	PMIX_VALUE_RELEASE(value);
}

/* ---------------------------------------------------------------------- mesh --- */

/* The value of a rank's one key: who it is, and an end for each other rank. */
struct blob {
	uint32_t rank;
	uint32_t rkey;
	uint64_t address, length;
	struct bare_end ends[];
};

static void connect_to(const struct bare_port *port, uint32_t rank, struct ibv_qp *qp,
		       const struct blob *own, size_t length)
{
	pmix_value_t *value = get(rank, length);
	const struct blob *theirs = (const struct blob *)value->data.bo.bytes;

	TRY(theirs->rank != rank);
	TRY(bare_connect(port, qp, &own->ends[rank], &theirs->ends[self.rank]));
	PMIX_VALUE_RELEASE(value);
}

static void mesh(void)
{
	size_t length = sizeof(struct blob) + size * sizeof(struct bare_end);
	struct blob *own = calloc(1, length);
	struct ibv_qp **qps = calloc(size, sizeof(*qps));
	struct bare_port port;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t rank;

	TRY(bare_open(&port, NULL));
	pd = ibv_alloc_pd(port.verbs);
	cq = ibv_create_cq(port.verbs, 4096, NULL, NULL, 0);
	fence(false);
	printf("%lld ", (long long)bench_clock());
	own->rank = self.rank;
	for (rank = 0; rank < size; rank++)
		if (rank != self.rank)
			TRY(!(qps[rank] = bare_create(&port, pd, cq, &own->ends[rank])));
	put(own, length);
	fence(true);
	for (rank = 0; rank < size; rank++)
		if (rank != self.rank)
			connect_to(&port, rank, qps[rank], own, length);
	fence(false);
	printf("%lld\n", (long long)bench_clock());
}

/* -------------------------------------------------------------------- others --- */

static void barrier(int passes)
{
	fence(false);
	printf("%lld ", (long long)bench_clock());
	while (passes--)
		fence(false);
	printf("%lld\n", (long long)bench_clock());
}

static void anchors(size_t length)
{
	char *own = malloc(length);
	uint32_t rank;

	TRY(!own);
	fence(false);
	printf("%lld ", (long long)bench_clock());
	memset(own, (int)self.rank, length);
	put(own, length);
	fence(true);
	for (rank = 0; rank < size; rank++) {
		pmix_value_t *value = get(rank, length);

		TRY(*(unsigned char *)value->data.bo.bytes != (unsigned char)rank);
		PMIX_VALUE_RELEASE(value);
	}
	printf("%lld\n", (long long)bench_clock());
}

static void start(void)
{
	uint32_t rank = self.rank;

	put(&rank, sizeof(rank));
	fence(true);
	for (rank = 0; rank < size; rank++) {
		pmix_value_t *value = get(rank, sizeof(rank));

		TRY(memcmp(value->data.bo.bytes, &rank, sizeof(rank)));
		PMIX_VALUE_RELEASE(value);
	}
	printf("0 %lld\n", (long long)bench_clock());
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	TRY(PMIx_Init(&self, NULL, 0));
	find_size();
	if (strcmp(what, "mesh") == 0)
		mesh();
	else if (strcmp(what, "barrier") == 0 && argc > 2)
		barrier(atoi(argv[2]));
	else if (strcmp(what, "anchors") == 0 && argc > 2)
		anchors((size_t)atoi(argv[2]));
	else
		start();
	fflush(stdout);
	TRY(PMIx_Finalize(NULL, 0));
	return 0;
}
