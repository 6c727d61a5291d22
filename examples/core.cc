/* SPDX-License-Identifier: MIT */
/*
 * core.cc - a C++ program as it is written for the original Hartebeest
 *
 * It uses only hartebeest.hh.  Node 0 writes a string into node 1's buffer.  Node 1 polls its
 * memory until the string is there and then acknowledges it through Memcached.
 */
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include <hartebeest.hh>

static const char text[] = "a string from node 0, in C++";

static int write_there(const std::string &pd, const std::string &own, const std::string &other)
{
	auto qp = HARTEBEEST_CORE_HDL.get_local_qp(pd.c_str(), own.c_str())->get_qp();
	auto local = HARTEBEEST_CORE_HDL.get_local_mr(pd.c_str(), own.c_str())->get_mr();
	auto remote = HARTEBEEST_CORE_HDL.get_remote_mr(other.c_str())->get_mr();

	std::memcpy(local->addr, text, sizeof(text));
	if (!HARTEBEEST_CORE_HDL.rdma_post_single_fast(qp, local->addr, remote->addr,
						       sizeof(text), IBV_WR_RDMA_WRITE,
						       local->lkey, remote->rkey, 0) ||
	    !HARTEBEEST_CORE_HDL.rdma_poll("core-send") ||
	    !HARTEBEEST_CORE_HDL.memc_wait_general("core-arrived"))
		return 1;

	HARTEBEEST_CORE_HDL.memc_del_general("core-arrived");
	HB_CLOGGER->info("node {}: acknowledged", HARTEBEEST_CORE_HDL.get_nid());
	return 0;
}

static int wait_here(const std::string &pd, const std::string &own)
{
	auto buffer = HARTEBEEST_CORE_HDL.get_local_mr(pd.c_str(), own.c_str())->get_buffer();
	auto written = reinterpret_cast<const char *>(buffer);

	for (int i = 0; i < 10000 && std::strcmp(written, text) != 0; i++)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	HB_CLOGGER->info("node {}: {}", HARTEBEEST_CORE_HDL.get_nid(), written);
	return HARTEBEEST_CORE_HDL.memc_push_general("core-arrived") ? 0 : 1;
}

int main()
{
	HARTEBEEST_CORE_HDL.init();

	const int nid = HARTEBEEST_CORE_HDL.get_nid();
	const std::string pd = "core-pd-" + std::to_string(nid);
	const std::string own = "core-" + std::to_string(nid);
	const std::string other = "core-" + std::to_string(!nid);

	HARTEBEEST_CORE_HDL.create_local_pd(pd.c_str());
	HARTEBEEST_CORE_HDL.create_local_mr(pd.c_str(), own.c_str(), 8192,
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					    IBV_ACCESS_REMOTE_WRITE);
	HARTEBEEST_CORE_HDL.memc_push_local_mr(own.c_str(), pd.c_str(), own.c_str());
	HARTEBEEST_CORE_HDL.memc_fetch_remote_mr(other.c_str());

	HARTEBEEST_CORE_HDL.create_basiccq("core-send");
	HARTEBEEST_CORE_HDL.create_basiccq("core-recv");
	HARTEBEEST_CORE_HDL.create_local_qp(pd.c_str(), own.c_str(), IBV_QPT_RC, "core-send",
					    "core-recv");
	HARTEBEEST_CORE_HDL.init_local_qp(pd.c_str(), own.c_str());
	HARTEBEEST_CORE_HDL.memc_push_local_qp(own.c_str(), pd.c_str(), own.c_str());
	HARTEBEEST_CORE_HDL.memc_fetch_remote_qp(other.c_str());
	if (!HARTEBEEST_CORE_HDL.connect_local_qp(pd.c_str(), own.c_str(), other.c_str()))
		return 1;

	return nid == 0 ? write_there(pd, own, other) : wait_here(pd, own);
}
