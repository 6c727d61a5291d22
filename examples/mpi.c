/* SPDX-License-Identifier: MIT */
/*
 * mpi.c - an MPI program that connects queue pairs of its own with libhartebeest
 *
 *	mpicc -o mpi mpi.c $(pkg-config --cflags --libs libhartebeest)
 *	HARTEBEEST_EXC_IP_PORT=host:port mpirun -n 4 ./mpi
 *
 * Each rank writes its number into the memory of the next, in a ring.  Without a verbs
 * device, the ranks exchange messages instead.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>

#include <hartebeest-post.h>
#include <hartebeest.h>

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define SECOND INT64_C(1000000000)

static int rank, size;

static void try(int ret)
{
	if (ret >= 0)
		return;

	fprintf(stderr, "rank %d: %s\n", rank, hartebeest_error());
	MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

/* MPI knows rank and size under any launcher; a new job id separates this run from others. */
static struct hartebeest_context *open_as_mpi_says(void)
{
	char own[32], all[32], job[48] = "";
	const char *options[] = { own, all, job, NULL };
	struct hartebeest_context *hb = NULL;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (rank == 0)
		snprintf(job, sizeof(job), "job.id=%ld-%ld", (long)time(NULL), (long)getpid());
	MPI_Bcast(job, sizeof(job), MPI_CHAR, 0, MPI_COMM_WORLD);

	snprintf(own, sizeof(own), "job.rank=%d", rank);
	snprintf(all, sizeof(all), "job.participants=0-%d", size - 1);
	try(hartebeest_open(&hb, options));
	return hb;
}

/* One queue pair, for writes into the memory that its peer offers. */
static void prepare(struct hartebeest_context *hb, struct hartebeest_pair *pair,
		    const char *name, const char *own_key, const char *peer_key)
{
	struct hartebeest_qp_attr attr;

	hartebeest_pair_init(pair);
	pair->qp = name;
	pair->key = own_key;
	pair->peer_key = peer_key;
	hartebeest_qp_attr_init(&attr);
	attr.pd = "pd";
	attr.send_cq = "cq";
	attr.type = IBV_QPT_RC;
	try(hartebeest_qp_create(hb, name, &attr, NULL));
}

static int ring(struct hartebeest_context *hb)
{
	int next = (rank + 1) % size, previous = (rank + size - 1) % size;
	char out[32], in[32], next_in[32], previous_out[32];
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_remote_mr there;
	struct hartebeest_pair pairs[2];
	const char *offer[] = { "mr" };
	struct ibv_mr *mr = NULL;
	struct ibv_cq *cq = NULL;
	struct ibv_qp *qp = NULL;
	struct ibv_wc wc;
	int *numbers;

	snprintf(out, sizeof(out), "out-of-%d", rank);
	snprintf(in, sizeof(in), "in-of-%d", rank);
	snprintf(next_in, sizeof(next_in), "in-of-%d", next);
	snprintf(previous_out, sizeof(previous_out), "out-of-%d", previous);
	try(hartebeest_pd_create(hb, "pd", NULL));
	try(hartebeest_cq_create(hb, "cq", NULL, &cq));
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = 4096;
	mr_attr.access = ACCESS;
	try(hartebeest_mr_create(hb, "mr", &mr_attr, &mr));
	prepare(hb, &pairs[0], "out", out, next_in);
	prepare(hb, &pairs[1], "in", in, previous_out);
	pairs[0].regions = &there;
	pairs[0].region_room = 1;
	pairs[1].offer = offer;
	pairs[1].offer_count = 1;
	try(hartebeest_pairs_connect(hb, pairs, 2, 0));

	numbers = mr->addr;
	numbers[0] = rank;
	try(hartebeest_qp_get(hb, "out", &qp));
	if (hartebeest_post_write(qp, numbers, sizeof(int), mr->lkey,
				  there.address + sizeof(int), there.rkey, 1,
				  IBV_SEND_SIGNALED) < 0 ||
	    hartebeest_poll_until(cq, 1, &wc, hartebeest_clock() + 10 * SECOND) < 0 ||
	    wc.status != IBV_WC_SUCCESS)
		fprintf(stderr, "rank %d: the write failed\n", rank);
	try(hartebeest_barrier(hb, "written", 0));
	printf("rank %d of %d: rank %d wrote %d\n", rank, size, previous, numbers[1]);
	return numbers[1] == previous;
}

static int messages(struct hartebeest_context *hb)
{
	int previous = (rank + size - 1) % size, number = -1;
	char own_key[32], previous_key[32];

	snprintf(own_key, sizeof(own_key), "number-of-%d", rank);
	snprintf(previous_key, sizeof(previous_key), "number-of-%d", previous);
	try(hartebeest_msg_push(hb, own_key, &rank, sizeof(rank), 0));
	try(hartebeest_msg_wait(hb, previous_key, &number, sizeof(number), NULL, 0));
	try(hartebeest_barrier(hb, "read", 0));
	printf("rank %d of %d: rank %d told %d\n", rank, size, previous, number);
	return number == previous;
}

int main(int argc, char **argv)
{
	struct hartebeest_context *hb;
	int good, all_good = 0;

	MPI_Init(&argc, &argv);
	hb = open_as_mpi_says();
	good = hartebeest_port_num(hb) < 0 ? messages(hb) : ring(hb);
	MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	hartebeest_close(hb);
	MPI_Finalize();
	return all_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
