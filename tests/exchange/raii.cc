/* SPDX-License-Identifier: MIT */
/*
 * raii.cc - the classes of hartebeest-raii.hh, used by two processes
 *
 * The device is the fake, which completes a write and moves no bytes.  Between the processes is
 * a real Memcached server.  The tests count what stays open.
 *
 * promise: hartebeest_raii(3)
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/hartebeest-c.h"
#include "include/hartebeest-post.h"
#include "include/hartebeest-raii.hh"

extern "C" {
#include "tests/support/fake-verbs.h"
#include "tests/support/memcached.h"
#include "tests/support/ranks.h"
#include "tests/support/surroundings.h"
}

using hartebeest::completion_queue;
using hartebeest::context;
using hartebeest::memory_region;
using hartebeest::mesh;
using hartebeest::mesh_attr;
using hartebeest::pair_list;
using hartebeest::protection_domain;
using hartebeest::queue_pair;
using hartebeest::shared_receive_queue;

static const int access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

static_assert(!std::is_copy_constructible<context>::value, "one owner");
static_assert(!std::is_copy_assignable<queue_pair>::value, "one owner");
static_assert(std::is_nothrow_move_constructible<queue_pair>::value, "as in a vector");
static_assert(std::is_nothrow_move_assignable<memory_region>::value, "as in a vector");
static_assert(!std::is_copy_constructible<mesh>::value, "one owner");
static_assert(!std::is_copy_constructible<pair_list>::value, "one owner");
static_assert(std::is_move_assignable<pair_list>::value, "as the others");
static_assert(std::is_nothrow_move_constructible<mesh>::value, "as in a vector");

/* The errno that @call throws with a sentence like @sentence; 0: it does not throw. */
template <class Call>
static int thrown(const Call &call, const char *sentence)
{
	try {
		call();
	} catch (const hartebeest::error &error) {
		EXPECT(std::strstr(error.what(), sentence));
		EXPECT(error.code() == std::error_code(error.number(), std::generic_category()));
		return error.number();
	}
	return 0;
}

/* thrown(), repeated while the server on a busy machine takes longer than one look. */
template <class Call>
static int thrown_in_the_end(const Call &call, const char *sentence)
{
	int number;

	do
		number = thrown(call, sentence);
	while (number == EHOSTDOWN);
	return number;
}

static void failures()
{
	const context own;
	const protection_domain pd(own, "pd");

	EXPECT(thrown([] { context({ "no.such=1" }); }, "unknown option 'no.such'") == EINVAL);
	EXPECT(thrown([&] { own.participant(7); }, "") == ERANGE);
	EXPECT(thrown([&] { own.option("no.such"); }, "no.such") == ENOENT);
	EXPECT(thrown([] { context(static_cast<struct ibv_context *>(nullptr)); },
		      "hartebeest_open_verbs(): verbs is NULL") == EINVAL);
	EXPECT(thrown([&] { memory_region(pd, "mr", nullptr, 4096, access_flags); },
		      "hartebeest_mr_register(): attr->address is NULL") == EINVAL);
	EXPECT(thrown([&] { hartebeest::check(-EAGAIN, "posting"); },
		      "posting: Resource temp") == EAGAIN);
	try {
		memory_region(pd, "mr", 0, access_flags);
		EXPECT(!"an empty region is refused");
	} catch (const std::system_error &error) {
		EXPECT(error.code() == std::errc::invalid_argument);
	}
}

/* A constructor that fails must not destroy the object that has the name. */
static void a_name_that_is_taken()
{
	const context own;
	const protection_domain pd(own, "pd");
	const memory_region mr(pd, "mr", 64, access_flags);

	EXPECT(thrown([&] { protection_domain(own, "pd"); }, "'pd' exists already") == EEXIST);
	EXPECT(thrown([&] { memory_region(pd, "mr", 64, access_flags); },
		      "exists already") == EEXIST);
	EXPECT(fake_verbs.pds == 1 && fake_verbs.mrs == 1);
	{
		const memory_region other(pd, "other", 64, access_flags);
		EXPECT(fake_verbs.mrs == 2);
	}
	EXPECT(fake_verbs.mrs == 1 && mr->length == 64);
}

/* Parents that are destroyed first stay until their children are gone. */
static void any_order()
{
	std::unique_ptr<context> own(new context);
	std::unique_ptr<protection_domain> pd(new protection_domain(*own, "pd"));
	std::unique_ptr<completion_queue> send(new completion_queue(*own, "send"));
	std::unique_ptr<completion_queue> recv(new completion_queue(*own, "recv"));
	std::unique_ptr<memory_region> mr(new memory_region(*pd, "mr", 64, access_flags));
	std::unique_ptr<queue_pair> qp(new queue_pair(*pd, "qp", *send, *recv, IBV_QPT_RC));

	own.reset();
	send.reset();
	recv.reset();
	pd.reset();
	EXPECT(fake_verbs.contexts == 1 && fake_verbs.cqs == 2 && fake_verbs.pds == 1);
	EXPECT(*mr->data() == 0 && mr->name() == "mr");
	qp->init();
	EXPECT((*qp)->state == IBV_QPS_INIT);
	qp.reset();
	EXPECT(fake_verbs.cqs == 0 && fake_verbs.pds == 1);
	mr.reset();
	EXPECT(fake_verbs.open == 0);
}

static void moves()
{
	std::vector<queue_pair> many;
	{
		const context own;
		const protection_domain pd(own, "pd");
		const completion_queue cq(own, "cq");

		for (int i = 0; i < 10; i++)
			many.emplace_back(pd, "qp" + std::to_string(i), cq, cq, IBV_QPT_UC);
	}
	EXPECT(fake_verbs.qps == 10 && many[9].name() == "qp9");
	many[0] = std::move(many[9]);
	EXPECT(fake_verbs.qps == 9 && many[0].name() == "qp9" && many[9].get() == nullptr);
	many.clear();
	EXPECT(fake_verbs.open == 0);
}

static void adopted()
{
	context own;
	struct ibv_pd *pd = ibv_alloc_pd(own.verbs());
	{
		const protection_domain adopted = protection_domain::adopt(own, "own", pd);
		const memory_region mr(adopted, "mr", 64, access_flags);

		EXPECT(adopted.get() == pd && mr->pd == pd);
	}
	EXPECT(fake_verbs.pds == 1 && fake_verbs.mrs == 0);
	ibv_dealloc_pd(pd);
}

static void receives_of_its_own()
{
	const context own;
	const protection_domain pd(own, "pd");
	const completion_queue cq(own, "cq");
	const shared_receive_queue srq(pd, "srq", 8);
	const queue_pair sharing(pd, "sharing", cq, cq, srq, IBV_QPT_RC);
	queue_pair qp(pd, "qp", cq, cq, IBV_QPT_RC);
	int posted = 0;

	struct ibv_qp_cap sizes = ibv_qp_cap();

	EXPECT(sharing->srq == srq.get() && sharing.cap().max_send_wr > 0);
	sizes.max_send_wr = 4;
	EXPECT(queue_pair(pd, "small", cq, cq, IBV_QPT_RC, sizes).cap().max_send_wr == 4);
	EXPECT(queue_pair(pd, "small", cq, cq, srq, IBV_QPT_RC, sizes).cap().max_send_wr == 4);
	qp.refill([&](struct ibv_qp *) { return posted++, 0; });
	qp.init();
	EXPECT(posted == 1);
	qp.reset();
	qp.refill([](struct ibv_qp *) -> int { throw std::runtime_error("no memory"); });
	EXPECT(thrown([&] { qp.init(); }, "") == ECANCELED);
	qp.refill(nullptr);
	qp.init();
}

static void lines()
{
	std::string line;
	context own;

	own.log(HARTEBEEST_LOG_ERROR, [&](int level, const char *text) {
		line = std::to_string(level) + text;
	});
	EXPECT(thrown([&] { own.option(""); }, "") == ENOENT);
	EXPECT(thrown([&] { memory_region(protection_domain(own, "pd"), "m", 0, 0); },
		      "") == EINVAL);
	EXPECT(line.compare(0, 1, "3") == 0 && line.size() > 10);
	line.clear();
	EXPECT(thrown([&] { own.log(99, nullptr); }, "log level 99") == EINVAL);
	EXPECT(line.compare(0, 13, "3log level 99") == 0);
}

/* The default context, which only its own end closes. */
static void borrowed()
{
	int lines = 0;

	context::borrow(hartebeest_default_context())
		.log(HARTEBEEST_LOG_ERROR, [&](int, const char *) { lines++; });
	EXPECT(!hartebeest_create_local_pd(""));
	EXPECT(lines == 0);
	{
		const context own = context::borrow(hartebeest_default_context());
		const protection_domain pd(own, "pd");

		EXPECT(hartebeest_get_local_pd("pd") == pd.get());
	}
	EXPECT(hartebeest_create_local_pd("pd"));
}

static void messages(const context &own, const std::string &me, const std::string &peer)
{
	const std::string sent(10000, 'x');
	std::string came = "untouched";

	EXPECT(!own.wait("nobody", came, HARTEBEEST_ONCE));
	EXPECT(came == "untouched");
	EXPECT(thrown_in_the_end([&] { own.wait("nobody", came, 1); }, "nobody") == ETIMEDOUT);
	EXPECT(own.push("to-" + peer, sent + me));
	EXPECT(own.wait("to-" + me, came) && came == sent + peer);
	EXPECT(own.barrier("read"));
	EXPECT(own.erase("to-" + peer));
	EXPECT(thrown([&] { own.erase("to-" + peer); }, "no message") == ENOENT);
}

static void pairs_of(const context &own, const std::string &me, const std::string &peer)
{
	const protection_domain pd(own, "pd");
	const completion_queue cq(own, "cq", 0, HARTEBEEST_CQ_CHANNEL);
	const memory_region mr(pd, "mr", 8192, access_flags);
	queue_pair qp(pd, "qp", cq, cq, IBV_QPT_RC);
	struct hartebeest_remote_mr there;
	pair_list pairs(own);
	struct ibv_wc wc;

	EXPECT(thrown([&] { pairs.offer(mr); }, "'mr' is offered to no peer") == EINVAL);
	pairs.add(qp, me, peer, 2);
	pairs.offer(mr);
	EXPECT(pairs.connect() && pairs.size() == 1 && pairs[0].result == 0);
	EXPECT(pairs.region(0).length == 8192 && pairs[0].region_count == 1);
	EXPECT(thrown([&] { pairs.region(0, 1); }, "offers no region 1") == ENOENT);
	EXPECT(qp.confirm(peer) && !qp.follow(peer, HARTEBEEST_ONCE));
	EXPECT(own.peer_text(peer).find(own.rank() ? "rank 0 on " : "rank 1 on ") == 0);
	EXPECT(mr.publish("region-of-" + me) && own.fetch("region-of-" + peer, there));
	EXPECT(there.rkey == pairs.region(0).rkey);

	EXPECT(cq.fd() > 2 && cq.wait(&wc, 1, HARTEBEEST_ONCE) == 0);
	fake_verbs.complete_sends = true;
	hartebeest::check(hartebeest_post_write(qp.get(), mr.data(), 8, mr.lkey(), there.address,
						there.rkey, 7, IBV_SEND_SIGNALED), "posting");
	EXPECT(cq.wait(&wc, 1) == 1 && wc.wr_id == 7);
	EXPECT(own.barrier("written"));
}

/* The bytes are carried by messages here, as by any other carrier. */
static void pairs_by_bytes(const context &own, const std::string &me, const std::string &peer)
{
	const protection_domain pd(own, "pd");
	const completion_queue cq(own, "cq");
	const memory_region mr(pd, "mr", 4096, access_flags);
	queue_pair qp(pd, "carried", cq, cq, IBV_QPT_RC);
	pair_list pairs(own);
	std::string came;
	std::size_t left = 2;
	int turn;

	pairs.add(qp, "bytes-of-" + me, "bytes-of-" + peer, 1);
	pairs.offer(mr);
	for (turn = 0; turn < 2; turn++) {
		EXPECT(own.push("turn" + std::to_string(turn) + me, pairs.export_to()));
		EXPECT(own.wait("turn" + std::to_string(turn) + peer, came));
		left = pairs.import_from(came);
		EXPECT(left == (turn ? 0 : 1) && pairs.region(0).length == 4096);
	}
	EXPECT(thrown([&] { pairs.import_from("nonsense"); }, "these are not bytes of") == EBADMSG);
	EXPECT(own.barrier("carried"));
}

static void meshes(const context &own)
{
	const int peer = !own.rank();
	std::unique_ptr<mesh> kept;
	int posted = 0;
	{
		const protection_domain pd(own, "mesh's");
		const completion_queue cq(own, "mesh's");
		const memory_region mr(pd, "offered", 512, access_flags);
		mesh_attr request;

		request.use(pd);
		request.use(cq);
		request.offer(mr);
		request.attr.qps_per_peer = 2;
		request.connect_to({ peer });
		request.progress([](const char *) {});
		request.refill([&](int rank, struct ibv_qp *) {
			return posted += rank == peer, 0;
		});
		mesh all(own, "all", request);
		EXPECT(posted == 2 && all.cq() == cq.get() && all.pd() == pd.get());
		EXPECT(all.region(peer).length == 512);
		kept.reset(new mesh(std::move(all)));
	}
	EXPECT(kept->qp(peer, 1) && kept->qp(peer, 0) != kept->qp(peer, 1));
	EXPECT(!kept->qp(own.rank()) && !kept->qp(peer, 2));
	EXPECT(thrown([&] { kept->region(7); }, "") == ENOENT);
	EXPECT(thrown([&] { kept->address(peer); }, "") == EOPNOTSUPP);
	EXPECT(kept->stats().qps == 2 && kept->barrier());
	EXPECT(fake_verbs.qps == 2 && fake_verbs.mrs == 1);
	kept.reset();
	EXPECT(fake_verbs.qps == 0 && fake_verbs.mrs == 0 && fake_verbs.cqs == 0);
}

/* An empty list of peers does not mean all ranks. */
static void mesh_of_strangers(const context &own)
{
	mesh_attr request;

	request.connect_to({});
	EXPECT(!mesh(own, "strangers", request).qp(!own.rank()));
	request.among({});
	EXPECT(thrown([&] { mesh(own, "nobody", request); }, "rank_count is 0") == EINVAL);
}

/* A mesh of one rank, by a gather() of the program's own. */
static void gathered_mesh(const context &own)
{
	mesh_attr request;

	request.attr.rank_count = 1;
	request.gather([](const void *mine, void *every, size_t length) {
		return std::memcpy(every, mine, length), 0;
	});
	{
		mesh alone(own, "alone", request);
		EXPECT(!alone.qp(0) && !alone.qp(1));
		EXPECT(alone.barrier());
	}
	request.gather([](const void *, void *, size_t) -> int { throw 1; });
	EXPECT(thrown([&] { mesh(own, "alone", request); }, "") == ECANCELED);
	request.gather(nullptr);
	request.attr.rank_count = 0;
	request.among({ 5 });
	EXPECT(thrown([&] { mesh(own, "alone", request); }, "ranks do not include") == EINVAL);
}

static void services(const context &own)
{
	struct hartebeest_client request;

	if (own.rank() == 0) {
		EXPECT(own.listen("store"));
		EXPECT(own.accept("store", request));
		EXPECT(request.rank == 1 && !std::memcmp(request.data, "hello", 5));
		EXPECT(own.barrier("served"));
		own.close_service("store");
	} else {
		EXPECT(own.request("store", "hello", request));
		EXPECT(own.barrier("served"));
		own.leave("store", request);
	}
	EXPECT(own.barrier("left"));
}

static void cancelled(const context &own)
{
	std::string text;

	own.cancel();
	EXPECT(thrown([&] { own.wait("nobody", text); }, "") == ECANCELED);
	own.cancel_clear();
	EXPECT(!own.wait("nobody", text, HARTEBEEST_ONCE));
}

/* The last act of rank 0: the other rank's wait reports it, and none of its earlier ones. */
static void given_up(const context &own)
{
	std::string text;

	if (own.rank() == 0) {
		EXPECT(own.wait("last-act", text));
		own.fail("out of memory");
	} else {
		own.push("last-act", "yes");
		EXPECT(thrown([&] { own.barrier("never"); }, "out of memory") == ECONNABORTED);
	}
}

static int rank(int nid, void *)
{
	unsetenv("HARTEBEEST_DEVICE");
	fake_verbs_reset();
	failures();
	a_name_that_is_taken();
	any_order();
	moves();
	adopted();
	receives_of_its_own();
	lines();
	EXPECT(fake_verbs.open == 0);
	{
		const context own({ "exchange.ttl=1h" });

		EXPECT(own.rank() == nid && own.size() == 2 && own.participant(1) == 1);
		EXPECT(own.option("exchange.ttl") == "1h" && own.job() == "raii");
		EXPECT(own.origin().find("rank ") == 0 && own.port_num() == 1);
		EXPECT(own.device_text().find("fake0:1") != std::string::npos);
		messages(own, std::to_string(nid), std::to_string(!nid));
		pairs_of(own, std::to_string(nid), std::to_string(!nid));
		pairs_by_bytes(own, std::to_string(nid), std::to_string(!nid));
		meshes(own);
		mesh_of_strangers(own);
		gathered_mesh(own);
		services(own);
		cancelled(own);
		given_up(own);
	}
	EXPECT(fake_verbs.open == 0);
	borrowed();
	return 0;
}

/* Throws on the line that comes when the count reaches 0. */
static void line_thrown(void *data, int, const char *)
{
	int *left = static_cast<int *>(data);

	if (*left > 0 && --*left == 0)
		throw std::runtime_error("thrown");
}

static void calls_that_log(struct hartebeest_context *hb)
{
	EXPECT(hartebeest_msg_push(hb, "key", "x", 1, 0) == 0);
	EXPECT(hartebeest_msg_wait(hb, "never", NULL, 0, NULL,
				   hartebeest_clock() + 30000000) == -ETIMEDOUT);
	EXPECT(hartebeest_pd_create(hb, "pd", NULL) == 0);
	EXPECT(hartebeest_barrier(hb, "both", 0) == 0);
}

/* A callback must not throw, but if it does, it leaves no lock behind. */
static int throwing(const char *server)
{
	const std::string servers = std::string("exchange.servers=") + server;
	const char *const settings[] = {
		servers.c_str(), "job.id=throwing", "job.rank=0", "job.participants=0", NULL,
	};
	struct hartebeest_context *hb;
	int line, left, thrown = 1;

	fake_verbs_reset();
	for (line = 1; thrown; line++) {
		left = line;
		thrown = 0;
		EXPECT(hartebeest_open(&hb, settings) == 0);
		EXPECT(hartebeest_log_set(hb, HARTEBEEST_LOG_DEBUG, line_thrown, &left) == 0);
		try {
			calls_that_log(hb);
		} catch (const std::runtime_error &) {
			thrown = 1;
		}
		left = 0;
		hartebeest_pd_destroy(hb, "pd");
		EXPECT(hartebeest_pd_create(hb, "pd", NULL) == 0);
		EXPECT(hartebeest_barrier(hb, "both", 0) == 0);
		hartebeest_close(hb);
	}
	EXPECT(line > 5);
	return 0;
}

/*
 * What a thrown exception passes is not freed.  So the work has a process of its own, which ends by
 * a signal if all is well, before a tool looks for leaks.
 */
static int in_a_child(int (*work)(const char *server), const char *server)
{
	int status;
	pid_t child = fork();

	if (!child) {
		if (work(server) == 0)
			raise(SIGKILL);
		_exit(EXIT_FAILURE);
	}
	EXPECT(child > 0 && waitpid(child, &status, 0) == child);
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	return 0;
}

int main()
{
	struct ranks ranks;
	int failed;

	cache_need();
	memset(&ranks, 0, sizeof(ranks));
	struct cache *cache = cache_start(NULL);
	failed = in_a_child(throwing, cache_hostport(cache)->text);
	ranks.count = 2;
	ranks.server = cache_hostport(cache)->text;
	ranks.job = "raii";
	failed |= ranks_run(&ranks, rank, NULL);
	cache_end(cache);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
