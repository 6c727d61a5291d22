/* SPDX-License-Identifier: MIT */
/*
 * mpi-mesh.c - queue pairs between all ranks of an MPI job, with no server
 *
 *	mpicc -o mpi-mesh mpi-mesh.c $(pkg-config --cflags --libs libhartebeest)
 *	mpirun -n 4 ./mpi-mesh
 *
 * MPI_Allgather() replaces Memcached.  Each rank writes its number into the memory of the
 * next.
 */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>

#include <hartebeest-mesh.h>
#include <hartebeest-post.h>

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static int gather(void *data, const void *mine, void *all, size_t length)
{
	MPI_Comm *comm = data;

	return MPI_Allgather(mine, (int)length, MPI_BYTE, all, (int)length, MPI_BYTE, *comm) ==
	       MPI_SUCCESS ? 0 : -EIO;
}

static void check(int ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s\n", hartebeest_error());
	MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
	const char *const regions[] = { "mr" };
	MPI_Comm comm = MPI_COMM_WORLD;
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_mesh_attr attr;
	struct hartebeest_remote_mr there;
	struct hartebeest_context *hb;
	struct hartebeest_mesh *mesh;
	struct ibv_mr *mr;
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	int rank, size, next;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	check(hartebeest_open(&hb, NULL));
	check(hartebeest_pd_create(hb, "pd", NULL));
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = 4096;
	mr_attr.access = ACCESS;
	check(hartebeest_mr_create(hb, "mr", &mr_attr, &mr));
	/* A peer may write as soon as it is connected. */
	((int *)mr->addr)[0] = -1;
	((int *)mr->addr)[1] = rank;

	hartebeest_mesh_attr_init(&attr);
	attr.pd = "pd";
	attr.regions = regions;
	attr.region_count = 1;
	attr.gather = gather;
	attr.gather_data = &comm;
	attr.rank_count = (unsigned int)size;
	attr.own_rank = rank;
	check(hartebeest_mesh_connect(hb, "world", &attr, &mesh, 0));

	next = (rank + 1) % size;
	if (size > 1) {
		check(hartebeest_mesh_region(mesh, next, 0, &there));
		check(hartebeest_post_write(hartebeest_mesh_qp(mesh, next, 0),
					    (int *)mr->addr + 1, sizeof(int), mr->lkey,
					    there.address, there.rkey, 0, IBV_SEND_SIGNALED));
		hartebeest_poll_until(hartebeest_mesh_cq(mesh), 1, &wc,
				      hartebeest_clock() + 10000000000);
	}
	check(hartebeest_mesh_barrier(mesh, 0));
	printf("rank %d of %d: rank %d wrote %d (%s)\n", rank, size, (rank + size - 1) % size,
	       ((int *)mr->addr)[0], ibv_wc_status_str(wc.status));
	hartebeest_close(hb);
	MPI_Finalize();
	return 0;
}
