/* SPDX-License-Identifier: MIT */
/*
 * raii-mesh.cc - all ranks of a job, each connected to all others, in C++
 *
 *	hartebeest run -n 4 -- ./raii-mesh
 *
 * On several hosts, start it with srun or mpirun, or by hand with HARTEBEEST_PARTICIPANTS=0-3 and
 * HARTEBEEST_NID=0 and so on.  HARTEBEEST_EXC_IP_PORT=host:port names a Memcached server.
 *
 * Each rank writes the square of its id into its slot of every other rank's inbox.
 */
#include <cstdio>
#include <cstdlib>

#include <hartebeest-post.h>
#include <hartebeest-raii.hh>

static const int access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

/* Sleeps until the write has been delivered. */
static void write_to(const hartebeest::context &context, const hartebeest::mesh &mesh, int peer,
		     const hartebeest::completion_queue &cq,
		     const hartebeest::memory_region &inbox, size_t from, size_t slot)
{
	const struct hartebeest_remote_mr there = mesh.region(peer);
	struct ibv_wc wc;

	hartebeest::check(hartebeest_post_write(mesh.qp(peer), inbox.data(from * 8), 8,
						inbox.lkey(), there.address + slot * 8,
						there.rkey, 0, IBV_SEND_SIGNALED), "posting");
	cq.wait(&wc, 1);
	if (wc.status != IBV_WC_SUCCESS)
		throw hartebeest::error(EIO, context.completion_text(wc));
}

static void square()
{
	const hartebeest::context context;
	const int rank = context.rank(), size = context.size();
	const size_t count = static_cast<size_t>(size);
	const hartebeest::protection_domain pd(context, "pd");
	const hartebeest::completion_queue cq(context, "cq", 32 * size, HARTEBEEST_CQ_CHANNEL);
	/* A slot for each rank, and one more to send from. */
	const hartebeest::memory_region inbox(pd, "inbox", (count + 1) * 8, access_flags);
	uint64_t *const slots = inbox.data<uint64_t>();
	hartebeest::mesh_attr attr;
	size_t own = 0;

	attr.use(pd);
	attr.use(cq);
	attr.offer(inbox);
	hartebeest::mesh mesh(context, "all", attr);

	while (context.participant(static_cast<int>(own)) != rank)
		own++;
	slots[count] = slots[own] = static_cast<uint64_t>(rank) * static_cast<uint64_t>(rank);
	for (int i = 0; i < size; i++)
		if (context.participant(i) != rank)
			write_to(context, mesh, context.participant(i), cq, inbox, count, own);
	mesh.barrier();

	std::printf("rank %d of %d:", rank, size);
	for (size_t i = 0; i < count; i++)
		std::printf(" %d", static_cast<int>(slots[i]));
	std::printf("\n");
}

int main()
{
	try {
		square();
	} catch (const hartebeest::error &error) {
		std::fprintf(stderr, "%s (errno %d)\n", error.what(), error.number());
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
