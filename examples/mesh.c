/* SPDX-License-Identifier: MIT */
/*
 * mesh.c - all ranks of a job, each connected to all others by one call
 *
 *	hartebeest run -n 4 -- ./mesh
 *
 * On several hosts, start it with srun or mpirun, or by hand with HARTEBEEST_PARTICIPANTS=0-3 and
 * HARTEBEEST_NID=0 and so on.  HARTEBEEST_EXC_IP_PORT=host:port names a Memcached server.
 *
 * Each rank writes the square of its id into its slot of every other rank's inbox.  Ids may have
 * gaps: the slot of a rank is its place among all.
 */
#include <stdint.h>
#include <stdio.h>

#include <hartebeest-mesh.h>
#include <hartebeest-post.h>

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static int die(void)
{
	fprintf(stderr, "%s\n", hartebeest_error());
	return 1;
}

/* Writes over the link to @peer, and waits until it has been delivered. */
static int write_to(struct hartebeest_mesh *mesh, int peer, const struct ibv_mr *mr, uint64_t *from,
		    int slot)
{
	struct hartebeest_remote_mr inbox;
	struct ibv_wc wc;

	if (hartebeest_mesh_region(mesh, peer, 0, &inbox) < 0)
		return -1;
	if (hartebeest_post_write(hartebeest_mesh_qp(mesh, peer, 0), from, sizeof(*from), mr->lkey,
				  inbox.address + (uint64_t)slot * sizeof(*from), inbox.rkey, 0,
				  IBV_SEND_SIGNALED) < 0)
		return -1;
	return hartebeest_poll_until(hartebeest_mesh_cq(mesh), 1, &wc,
				     hartebeest_clock() + 10000000000) == 1 &&
	       wc.status == IBV_WC_SUCCESS ? 0 : -1;
}

int main(void)
{
	const char *const regions[] = { "inbox" };
	struct hartebeest_mesh_attr attr;
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_mesh_stats stats;
	struct hartebeest_context *hb;
	struct hartebeest_mesh *mesh;
	struct ibv_mr *mr;
	uint64_t *slots;
	int rank, size, place, id, i;

	if (hartebeest_open(&hb, NULL) < 0 || (rank = hartebeest_rank(hb)) < 0 ||
	    (size = hartebeest_size(hb)) < 0)
		return die();
	/* A slot for each rank, and one more to send from. */
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = ((size_t)size + 1) * sizeof(*slots);
	mr_attr.access = ACCESS;
	if (hartebeest_pd_create(hb, "pd", NULL) < 0 ||
	    hartebeest_mr_create(hb, "inbox", &mr_attr, &mr) < 0)
		return die();
	slots = mr->addr;

	hartebeest_mesh_attr_init(&attr);
	attr.pd = "pd";
	attr.regions = regions;
	attr.region_count = 1;
	if (hartebeest_mesh_connect(hb, "all", &attr, &mesh, 0) < 0)
		return die();

	slots[size] = (uint64_t)rank * (uint64_t)rank;
	place = hartebeest_position(hb, rank);
	slots[place] = slots[size];
	for (i = 0; i < size; i++) {
		id = hartebeest_participant(hb, i);
		if (id != rank && write_to(mesh, id, mr, &slots[size], place) < 0)
			return fprintf(stderr, "rank %d was not reached\n", id), 1;
	}
	if (hartebeest_mesh_barrier(mesh, 0) < 0)
		return die();

	hartebeest_mesh_stats_get(mesh, &stats);
	printf("rank %d of %d, %d queue pairs in %d us:", rank, size, (int)stats.qps,
	       (int)(stats.total / 1000));
	for (i = 0; i < size; i++)
		printf(" %d", (int)slots[i]);
	printf("\n");
	hartebeest_close(hb);
	return 0;
}
