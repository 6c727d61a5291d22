/* SPDX-License-Identifier: MIT */
/*
 * core.cc - everything public in hartebeest.hh, used by two processes
 *
 * The device is the fake, which completes a write and moves no bytes.  Between the processes is
 * a real Memcached server.  All that the original's four test programs use is covered.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "include/hartebeest.hh"

extern "C" {
#include "tests/support/fake-verbs.h"
#include "tests/support/memcached.h"
#include "tests/support/ranks.h"
#include "tests/support/surroundings.h"
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

/* The classes without the core. */
static void objects(const char *own)
{
	hartebeest::Pd *pd = HB_PD_CACHE.get_resrc("pd");
	hartebeest::Mr *mr = pd->get_mr_cache().get_resrc(own);
	hartebeest::Qp *qp = pd->get_qp_cache().get_resrc(own);
	hartebeest::Hca &hca = HB_HCA_INITR.get_hca(0);

	EXPECT(pd == CORE.get_local_pd("pd") &&
	       std::string(HB_PD_CACHE.get_name()) == "SINGLETON_PD_CACHE");
	EXPECT(mr == CORE.get_local_mr("pd", own) && qp == CORE.get_local_qp("pd", own));
	EXPECT(std::string(mr->get_name()) == own && mr->is_allocated() && mr->is_mr_created());
	EXPECT(qp->is_qp_created() && qp->query_state() == IBV_QPS_INIT);
	EXPECT(HB_BASICCQ_CACHE.get_resrc("send")->get_cq() == qp->get_qp()->send_cq);
	EXPECT(HB_BASICCQ_CACHE.is_registered("recv") &&
	       !HB_BASICCQ_CACHE.is_registered("no such"));

	EXPECT(HB_HCA_INITR.get_n_hca_devs() == 1 && pd->get_hca() == &hca);
	EXPECT(hca.get_device_ctx() == pd->get_pd()->context && hca.get_device_attr().max_qp > 0);
	EXPECT(hca.get_device_pid() == 1 && qp->get_pid() == 1 &&
	       qp->get_plid() == hca.get_device_plid());
	EXPECT(HB_HCA_INITR.open_device(0).ret_code == hartebeest::HCAINITR_RETCODE_OPEN_OK);
	EXPECT(HB_HCA_INITR.open_device(1).ret_code == hartebeest::HCAINITR_RETCODE_RANGE_ERR);
	EXPECT(HB_HCA_INITR.bind_port(0, 1).ret_code == hartebeest::HCAINITR_RETCODE_BIND_PORT_OK);
	EXPECT(HB_HCA_INITR.bind_port(0, 2).ret_code != hartebeest::HCAINITR_RETCODE_BIND_PORT_OK);

	EXPECT(pd->create_mr("by pd", 64, access_flags).ret_code ==
	       hartebeest::PD_RETCODE_CREATE_MR_OK);
	EXPECT(pd->create_mr("by pd", 64, access_flags).ret_code ==
	       hartebeest::PD_RETCODE_CREATE_MR_ERR);
	EXPECT(CORE.get_local_mr("pd", "by pd")->get_mr()->length == 64);
	hartebeest::BasicCq queue("by name", hca);
	EXPECT(queue.get_cq() && CORE.create_basiccq("by core"));
	struct ibv_cq *cq = HB_BASICCQ_CACHE.get_resrc("by core")->get_cq();
	EXPECT(pd->create_qp("by pd", IBV_QPT_RC, cq, cq).ret_code ==
	       hartebeest::PD_RETCODE_CREATE_QP_OK);
	hartebeest::Qp made("by class", IBV_QPT_UC, pd, cq, cq);
	EXPECT(made.is_qp_created() && made.get_qp()->send_cq == cq);
	EXPECT(made.transit_init().ret_code == hartebeest::QP_TRANSITION_2_INIT_OK);
	EXPECT(made.transit_rts().ret_code == hartebeest::QP_TRANSITION_2_RTS_ERR);
	EXPECT(hartebeest::Pd("another", hca).get_pd() && CORE.get_local_pd("another")->get_pd());
}

/* The core finds objects that C functions made. */
static void made_in_c()
{
	EXPECT(hartebeest_create_local_pd("in C"));
	EXPECT(hartebeest_create_local_mr("in C", "mr", 128, access_flags));
	EXPECT(CORE.get_local_mr("in C", "mr")->get_mr()->length == 128);
}

/* The texts that the original's processes exchanged. */
static void flat(const char *own)
{
	hartebeest::Mr *mr = CORE.get_local_mr("pd", own);
	hartebeest::Qp *qp = CORE.get_local_qp("pd", own);
	hartebeest::Mr other_mr("", 0);
	hartebeest::Qp other_qp("", IBV_QPT_RC, nullptr, nullptr, nullptr);

	EXPECT(!other_mr.is_allocated() && !other_mr.is_mr_created() && !other_qp.is_qp_created());
	EXPECT(other_qp.query_state() == IBV_QPS_UNKNOWN);
	other_mr.unflatten_info(mr->flatten_info().c_str());
	other_qp.unflatten_info(qp->flatten_info().c_str());
	EXPECT(std::string(other_mr.get_name()) == own && std::string(other_qp.get_name()) == own);
	EXPECT(other_mr.get_mr()->rkey == mr->get_mr()->rkey &&
	       other_mr.get_mr()->addr == mr->get_mr()->addr);
	EXPECT(other_mr.get_mr()->length == 8192 && other_mr.get_buffer() == mr->get_buffer());
	EXPECT(other_qp.get_qp()->qp_num == qp->get_qp()->qp_num && other_qp.get_pid() == 1);
	other_mr.unflatten_info("no numbers");
	EXPECT(other_mr.get_mr()->addr == nullptr);
}

/* The program registers a region itself; the object deregisters it. */
static void own_region()
{
	const int regions = fake_verbs.mrs;
	{
		hartebeest::Mr mr("own", 100);

		EXPECT(mr.is_allocated() && !mr.is_mr_created() && mr.get_buffer()[99] == 0);
		mr.set_mr(ibv_reg_mr(CORE.get_local_pd("pd")->get_pd(), mr.get_buffer(), 100,
				     access_flags));
		mr.set_type(hartebeest::MR_TYPE_LOCAL);
		EXPECT(fake_verbs.mrs == regions + 1);
	}
	EXPECT(fake_verbs.mrs == regions);

	uint8_t *buffer = hartebeest::alloc_buffer(64);
	EXPECT(buffer && buffer[63] == 0);
	hartebeest::free_buffer(buffer);
}

/* The program opens a device itself. */
static void own_device()
{
	const int contexts = fake_verbs.contexts;
	struct ibv_device **list = ibv_get_device_list(nullptr);
	{
		hartebeest::Hca hca;

		EXPECT(hca.device_open().ret_code == hartebeest::HCA_RETCODE_OPEN_ERR);
		EXPECT(hca.device_register(list[0]).ret_code ==
		       hartebeest::HCA_RETCODE_REGISTER_OK);
		EXPECT(hca.device_open().ret_code == hartebeest::HCA_RETCODE_OPEN_OK);
		EXPECT(hca.get_device_ctx() && fake_verbs.contexts == contexts + 1);
		hca.set_device_pid(3);
		EXPECT(hca.get_device_pid() == 3);
	}
	EXPECT(fake_verbs.contexts == contexts);
	ibv_free_device_list(list);
}

static bool is_attr(const char *key, int wanted)
{
	const int *value = HB_CFG_LOADER.get_attr(key);

	return value && *value == wanted;
}

/* As in the original's config-test. */
static void settings(int nid)
{
	hartebeest::ConfigLoader loader = hartebeest::ConfigLoader::get_instance();
	hartebeest::Retcode retcode;

	EXPECT(retcode.ret_code == hartebeest::UNDEFINED && retcode.aux_str == "undefined");
	retcode = loader.init_sysvars();
	EXPECT(retcode.ret_code == hartebeest::CFGLDR_RETCODE_OK);
	EXPECT(loader.init_params().ret_code == hartebeest::CFGLDR_RETCODE_OK);
	EXPECT(std::atoi(loader.get_sysvar("HARTEBEEST_NID")) == nid);
	EXPECT(*loader.get_attr("qp_type") == IBV_QPT_RC && *loader.get_attr("timeout") == 14);
	EXPECT(is_attr("cq_depth", 512) && is_attr("ah_attr.src_path_bits", 0));
	EXPECT(is_attr("rc:cap.max_send_sge", 16) && is_attr("ud:cap.max_recv_sge", 16));
	EXPECT(is_attr("rc:path_mtu", -1) && is_attr("ud:qkey", 0x11111111));
	EXPECT(!HB_CFG_LOADER.get_attr("no such"));
}

static void retcodes()
{
	hb_retcode retcode(hartebeest::MEMCH_DEL_ERR);

	EXPECT(retcode.aux_str == "Memcached: not deleted");
	retcode.append_str(hartebeest::UNDEFINED);
	EXPECT(retcode.ret_code == hartebeest::COMPOUND);
	EXPECT(retcode.aux_str == "Memcached: not deleted, undefined");
	EXPECT(hb_retcode(hartebeest::COMPOUND).aux_str == "several");
	EXPECT(hb_retcode(7, "text").aux_str == "text" && hb_retcode(1000).aux_str == "undefined");
}

/* As in the original's memc-test, and a text longer than one look has room for. */
static void texts(const char *own)
{
	const std::string long_text(10000, 'x');
	std::string value = "untouched";

	EXPECT(HARTEBEEST_MEMC_HDL.get(own, value).ret_code == hartebeest::MEMCH_GET_ERR);
	EXPECT(value == "untouched");
	EXPECT(HARTEBEEST_MEMC_HDL.prefix_set(own, hartebeest::HB_MEMC_KEY_PREF_INIT,
					      "AAAABBBBCCCCDDDD").ret_code ==
	       hartebeest::MEMCH_SET_OK);
	EXPECT(HARTEBEEST_MEMC_HDL.prefix_get(own, hartebeest::HB_MEMC_KEY_PREF_INIT,
					      value).ret_code ==
	       hartebeest::MEMCH_GET_OK);
	EXPECT(value == "AAAABBBBCCCCDDDD");
	EXPECT(HARTEBEEST_MEMC_HDL.prefix_get(own, hartebeest::HB_MEMC_KEY_PREF_QPREADY,
					      value).ret_code ==
	       hartebeest::MEMCH_GET_ERR);
	EXPECT(HB_EXCHANGER.set(own, long_text.c_str()).ret_code == hartebeest::MEMCH_SET_OK);
	EXPECT(HB_EXCHANGER.get(own, value).ret_code == hartebeest::MEMCH_GET_OK &&
	       value == long_text);
	EXPECT(CORE.memc_wait_general(own));
	EXPECT(HB_EXCHANGER.del(own).ret_code == hartebeest::MEMCH_DEL_OK);
	EXPECT(HB_EXCHANGER.del(own).ret_code == hartebeest::MEMCH_DEL_ERR);
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
	EXPECT(CORE.get_local_qp("pd", own)->query_state() == IBV_QPS_RTS);
	EXPECT(CORE.get_local_qp("pd", own)->transit_rts().ret_code ==
	       hartebeest::QP_TRANSITION_2_RTS_OK);
	EXPECT(CORE.get_local_qp("pd", own)->transit_rtr(CORE.get_remote_qp(other)).ret_code ==
	       hartebeest::QP_TRANSITION_2_RTR_ERR);		/* done already */
	EXPECT(CORE.get_remote_qp(other)->query_state() == IBV_QPS_UNKNOWN);
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

	EXPECT(CORE.rdma_post_single_signaled_inline(qp, local->addr, remote->addr, 8,
						     IBV_WR_RDMA_WRITE_WITH_IMM, 0, remote->rkey,
						     7));
	EXPECT(CORE.rdma_send_poll(qp) && fake_verbs_posted(0)->send.imm_data == 0);

	struct ibv_wc wc;
	memset(&wc, 0, sizeof(wc));
	fake_verbs_complete(qp->recv_cq, &wc);
	EXPECT(CORE.rdma_recv_poll(qp));
}

/* Both say that they are done, and wait for each other. */
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

	settings(nid);
	retcodes();
	create(keys[nid]);
	objects(keys[nid]);
	made_in_c();
	flat(keys[nid]);
	own_region();
	own_device();
	texts(keys[nid]);
	exchange(keys[nid], keys[!nid]);
	transfer(keys[nid], keys[!nid]);
	messages(keys[nid], keys[!nid]);
	return 0;
}

static int wrong_lines;

template <class... Values>
static void says(const std::string &wanted, const Values &...values)
{
	std::ostringstream text;
	std::streambuf *console = std::cout.rdbuf(text.rdbuf());

	HB_CLOGGER->info(values...);
	std::cout.rdbuf(console);
	if (text.str() == "[HB:info] " + wanted + "\n")
		return;
	fprintf(stderr, "wanted \"%s\", got %s", wanted.c_str(), text.str().c_str());
	wrong_lines++;
}

/* The logger writes to the original's stream, formatted as fmt would. */
static int logs()
{
	const uint8_t byte = 7;
	int number;

	says("one and 0xff, 16", "{} and 0x{:x}, {}", "one", 255, 16);
	says("no end {", "no end {");
	says("{} {{}}", "{} {{}}");			/* without arguments, not a format */
	says("002a 3.14 {} {7}", "{:04x} {:.2f} {{}} {{{}}}", 42, 3.14159, 7);
	says("true 1 7 0x07 A 65", "{} {:d} {} {:#04x} {} {:d}", true, true, byte, byte, 'A', 'A');
	says("b a", "{1} {0}", "a", "b");
	says("[   7|7   |***7|x   |   x|-007]", "[{:4}|{:<4}|{:*>4}|{:4}|{:>4}|{:04}]", 7, 7, 7,
	     "x", "x", -7);
	says("+1 1.5e+03 1.5E+03 17 FF", "{:+} {:.1e} {:.1E} {:o} {:X}", 1, 1500.0, 1500.0, 15,
	     255);
	says("1.500000 2.500000E+00 3.14159", "{:f} {:E} {:g}", 1.5, 2.5f, 3.14159265);
	says("0.1 2.5 -1 18446744073709551615", "{} {} {} {}", 0.1, 2.5f, -1, UINT64_MAX);
	says("5 4", "{} {}", IBV_MTU_4096, IBV_MTU_2048);
	says("a text {} {:x}", "a {} {} {:x}", std::string("text"));
	says("only", std::string("only"));
	says("42", 42);
	says("} {", "}} {{", 1);
	says("0x10", "{}", reinterpret_cast<void *>(16));
	says("0x10", "0x{:x}", static_cast<uintptr_t>(16));
	number = HB_CLOGGER->level();
	HB_CLOGGER->set_level(5);
	HB_CLOGGER->error("not shown");
	HB_CLOGGER->set_level(number);
	if (number != 2 || HB_CLOGGER->should_log(1) || HB_CLOGGER->name() != "HB")
		wrong_lines++;
	return wrong_lines;
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
	failed += logs();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
