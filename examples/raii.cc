/* SPDX-License-Identifier: MIT */
/*
 * raii.cc - two processes write into each other's memory, in C++
 *
 *	hartebeest run -n 2 -- ./raii
 *
 * On two hosts, start it twice, with HARTEBEEST_NID=0 and 1, HARTEBEEST_PARTICIPANTS=0,1 and
 * HARTEBEEST_EXC_IP_PORT=host:port of a Memcached server.
 */
#include <cstdio>
#include <cstdlib>

#include <hartebeest-post.h>
#include <hartebeest-raii.hh>

static const int access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

/* Sleeps until the write has completed. */
static void write_there(const hartebeest::context &context, const hartebeest::queue_pair &qp,
			const hartebeest::completion_queue &cq,
			const hartebeest::memory_region &mr,
			const struct hartebeest_remote_mr &there)
{
	struct ibv_wc wc;

	hartebeest::check(hartebeest_post_write(qp.get(), mr.data(), 64, mr.lkey(),
						there.address + 2048, there.rkey, 1,
						IBV_SEND_SIGNALED), "posting");
	cq.wait(&wc, 1);
	if (wc.status != IBV_WC_SUCCESS)
		throw hartebeest::error(EIO, context.completion_text(wc));
}

static void greet()
{
	const hartebeest::context context;
	const std::string me = context.rank() ? "b" : "a", peer = context.rank() ? "a" : "b";
	const hartebeest::protection_domain pd(context, "pd");
	const hartebeest::completion_queue cq(context, "cq", 0, HARTEBEEST_CQ_CHANNEL);
	const hartebeest::memory_region mr(pd, "mr", 4096, access_flags);
	const hartebeest::queue_pair qp(pd, "qp", cq, cq, IBV_QPT_RC);
	hartebeest::pair_list pairs(context);

	pairs.add(qp, me, peer, 1);
	pairs.offer(mr);
	pairs.connect();

	std::snprintf(mr.data<char>(), 64, "hello from %s", me.c_str());
	write_there(context, qp, cq, mr, pairs.region(0));
	context.barrier("written");
	std::printf("%s reads: %s\n", me.c_str(), mr.data<const char>(2048));
}

int main()
{
	try {
		greet();
	} catch (const hartebeest::error &error) {
		std::fprintf(stderr, "%s (errno %d)\n", error.what(), error.number());
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
