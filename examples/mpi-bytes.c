/* SPDX-License-Identifier: MIT */
/*
 * mpi-bytes.c - a ring of queue pairs in an MPI job, with no server
 *
 *	mpicc -o mpi-bytes mpi-bytes.c $(pkg-config --cflags --libs libhartebeest)
 *	mpirun -n 4 ./mpi-bytes
 *
 * Each rank connects to the next and to the one before, by bytes that MPI_Sendrecv() carries, and
 * writes its number into the memory of the next.  examples/mpi-mesh.c connects all ranks.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include <hartebeest.h>
#include <hartebeest-post.h>

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define ROOM HARTEBEEST_EXPORT_SIZE(1, 1)

enum { BEFORE, NEXT };

static void check(int ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s\n", hartebeest_error());
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/* What this rank exports to @to; what @from exports to this rank takes its place. */
static void carry(char bytes[2][ROOM], const int ranks[2])
{
	static char received[2][ROOM];
	int side;

	for (side = BEFORE; side <= NEXT; side++)
		MPI_Sendrecv(bytes[side], ROOM, MPI_BYTE, ranks[side], side, received[!side],
			     ROOM, MPI_BYTE, ranks[!side], side, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	for (side = BEFORE; side <= NEXT; side++)
		memcpy(bytes[side], received[side], ROOM);
}

/* All ranks export and import as often, so that no MPI_Sendrecv() waits in vain. */
static void meet(struct hartebeest_context *hb, struct hartebeest_pair pairs[2],
		 const int ranks[2])
{
	static char bytes[2][ROOM];
	int turn, side, ret, left = 0;
	size_t size;

	for (turn = 0; turn < 2; turn++) {
		for (side = BEFORE; side <= NEXT; side++) {
			size = ROOM;
			check(hartebeest_qp_export(hb, &pairs[side], 1, bytes[side], &size));
		}
		carry(bytes, ranks);
		for (left = 0, side = BEFORE; side <= NEXT; side++) {
			ret = hartebeest_qp_import(hb, &pairs[side], 1, bytes[side], ROOM, 0);
			check(ret);
			left += ret;
		}
	}
	if (left) {
		fprintf(stderr, "a neighbour did not confirm\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "before", "next" }, *const offer[] = { "mr" };
	struct hartebeest_remote_mr there[2];
	struct hartebeest_qp_attr qp_attr;
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_pair pairs[2];
	struct hartebeest_context *hb;
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	char keys[2][2][48];
	struct ibv_qp *qps[2];
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	int rank, size, side, ranks[2];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	ranks[BEFORE] = (rank + size - 1) % size;
	ranks[NEXT] = (rank + 1) % size;
	check(hartebeest_open(&hb, NULL));
	check(hartebeest_pd_create(hb, "pd", NULL));
	check(hartebeest_cq_create(hb, "cq", NULL, &cq));
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = 4096;
	mr_attr.access = ACCESS;
	check(hartebeest_mr_create(hb, "mr", &mr_attr, &mr));
	/* A peer may write as soon as it is connected. */
	((int *)mr->addr)[0] = -1;
	((int *)mr->addr)[1] = rank;

	for (side = BEFORE; side <= NEXT; side++) {
		hartebeest_qp_attr_init(&qp_attr);
		qp_attr.pd = "pd";
		qp_attr.send_cq = "cq";
		check(hartebeest_qp_create(hb, names[side], &qp_attr, &qps[side]));
		/* The key has both ends and, where these are only two ranks, the side. */
		snprintf(keys[side][0], sizeof(keys[side][0]), "%d-%d-%s", rank, ranks[side],
			 names[side]);
		snprintf(keys[side][1], sizeof(keys[side][1]), "%d-%d-%s", ranks[side], rank,
			 names[!side]);
		hartebeest_pair_init(&pairs[side]);
		pairs[side].qp = names[side];
		pairs[side].key = keys[side][0];
		pairs[side].peer_key = keys[side][1];
		pairs[side].offer = offer;
		pairs[side].offer_count = 1;
		pairs[side].regions = &there[side];
		pairs[side].region_room = 1;
	}
	meet(hb, pairs, ranks);

	check(hartebeest_post_write(qps[NEXT], (int *)mr->addr + 1, sizeof(int), mr->lkey,
				    there[NEXT].address, there[NEXT].rkey, 0, IBV_SEND_SIGNALED));
	check(hartebeest_poll_until(cq, 1, &wc, hartebeest_clock() + 10000000000));
	MPI_Barrier(MPI_COMM_WORLD);
	printf("rank %d of %d: rank %d wrote %d (%s)\n", rank, size, ranks[BEFORE],
	       ((int *)mr->addr)[0], ibv_wc_status_str(wc.status));
	hartebeest_close(hb);
	MPI_Finalize();
	return 0;
}
