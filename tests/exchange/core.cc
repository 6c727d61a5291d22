/* SPDX-License-Identifier: MIT */
/*
 * core.cc - every function of hartebeest.hh, in two processes
 *
 * The device is the fake, which completes a write and moves no bytes; a real Memcached
 * server stands between the two.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "include/hartebeest.hh"

extern "C" {
#include "tests/support/fake-verbs.h"
#include "tests/support/memcached.h"
#include "tests/support/ranks.h"
}

#define CORE HARTEBEEST_CORE_HDL

static const int access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
static const char *const keys[] = { "core-0", "core-1" };

static void create(const char *own)
{
	EXPECT(CORE.create_local_pd("pd"));
	EXPECT(!CORE.create_local_pd("pd"));
	EXPECT(CORE.create_local_mr("pd", own, 8192, access_flags));
	EXPECT(CORE.create_basiccq("send"));
	EXPECT(CORE.create_basiccq("recv"));
	EXPECT(CORE.create_local_qp("pd", own, IBV_QPT_RC, "send", "recv"));
	EXPECT(CORE.init_local_qp("pd", own));

	EXPECT(CORE.get_local_pd("pd")->get_pd());
	EXPECT(CORE.get_local_pd("pd") == CORE.get_local_pd("pd"));
	EXPECT(CORE.get_local_pd("no such") == nullptr);
	EXPECT(CORE.get_local_mr("pd", "no such") == nullptr);
	EXPECT(CORE.get_local_qp("no such", own) == nullptr);
	EXPECT(CORE.get_local_mr("pd", own)->get_buffer() ==
	       CORE.get_local_mr("pd", own)->get_mr()->addr);
	EXPECT(CORE.get_local_qp("pd", own)->get_qp()->qp_type == IBV_QPT_RC);
}

static void exchange(const char *own, const char *other)
{
	EXPECT(CORE.get_remote_mr(other) == nullptr);
	EXPECT(CORE.get_remote_qp(other) == nullptr);
	EXPECT(CORE.memc_push_local_mr(own, "pd", own));
	EXPECT(CORE.memc_push_local_qp(own, "pd", own));
	EXPECT(CORE.memc_fetch_remote_mr(other));
	EXPECT(CORE.memc_fetch_remote_qp(other));
	EXPECT(CORE.get_remote_mr(other)->get_mr()->length == 8192);
	EXPECT(CORE.get_remote_qp(other)->get_qp()->qp_num != 0);
	EXPECT(CORE.connect_local_qp("pd", own, other));
}

static void transfer(const char *own, const char *other)
{
	struct ibv_mr *local = CORE.get_local_mr("pd", own)->get_mr();
	struct ibv_mr *remote = CORE.get_remote_mr(other)->get_mr();
	struct ibv_qp *qp = CORE.get_local_qp("pd", own)->get_qp();
	const struct fake_wr *posted;

	fake_verbs.complete_sends = true;
	EXPECT(CORE.rdma_post_single_fast(qp, local->addr, remote->addr, 64, IBV_WR_RDMA_WRITE,
					  local->lkey, remote->rkey, 5));
	EXPECT(CORE.rdma_poll("send"));
	EXPECT(CORE.rdma_post_single_fast(qp, local->addr, remote->addr, 64, IBV_WR_RDMA_WRITE,
					  local->lkey, remote->rkey, 6));
	EXPECT(CORE.rdma_send_poll(qp));

	posted = fake_verbs_posted(0);
	EXPECT(posted->send.wr_id == 6 && posted->send.wr.rdma.rkey == remote->rkey);
	EXPECT(posted->send.wr.rdma.remote_addr == reinterpret_cast<uintptr_t>(remote->addr));

	struct ibv_wc wc;
	memset(&wc, 0, sizeof(wc));
	fake_verbs_complete(qp->recv_cq, &wc);
	EXPECT(CORE.rdma_recv_poll(qp));
}

/* Both tell that they are done, and wait for each other. */
static void messages(const char *own, const char *other)
{
	EXPECT(CORE.memc_push_general(own));
	EXPECT(CORE.memc_wait_general(other));
	EXPECT(CORE.memc_del_general(other));
	EXPECT(!CORE.memc_del_general("no such"));
}

static int rank(int nid, void *)
{
	unsetenv("HARTEBEEST_DEVICE");
	fake_verbs_reset();
	CORE.init();
	EXPECT(CORE.get_nid() == nid);
	EXPECT(CORE.get_sysvar("HARTEBEEST_EXC_IP_PORT") != nullptr);
	EXPECT(&CORE == &hartebeest::HartebeestCore::get_instance());

	create(keys[nid]);
	exchange(keys[nid], keys[!nid]);
	transfer(keys[nid], keys[!nid]);
	messages(keys[nid], keys[!nid]);
	return 0;
}

/* The logger writes where the original's did. */
static bool logs()
{
	std::ostringstream text;
	std::streambuf *console = std::cout.rdbuf(text.rdbuf());

	HB_CLOGGER->info("{} and 0x{:x}, {}", "one", 255, 16);
	HB_CLOGGER->warn("no end {");
	std::cout.rdbuf(console);
	return text.str() == "[HB] [info] one and 0xff, 16\n[HB] [warning] no end {\n";
}

int main()
{
	struct ranks ranks;
	int failed;

	cache_need();
	memset(&ranks, 0, sizeof(ranks));
	struct cache *cache = cache_start(NULL);
	ranks.count = 2;
	ranks.server = cache_hostport(cache)->text;
	ranks.job = "core";
	failed = ranks_run(&ranks, rank, NULL);
	cache_end(cache);
	if (!logs()) {
		fprintf(stderr, "the logger's lines are not as they should be\n");
		failed++;
	}
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
