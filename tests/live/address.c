/* SPDX-License-Identifier: MIT */
/*
 * address.c - every way to choose an address, and both resolvers, on real devices
 *
 * Two contexts in one process, each on its own port, connect to each other.  The tests compare
 * what the device then holds with the expected choice, and send data both ways.  They change
 * addresses and MTUs, so they need the virtual machine of tests/vm.
 *
 * promise: hartebeest_resolve(3), hartebeest(7)
 */
#include "config.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hartebeest-post.h"
#include "hartebeest.h"
#include "tests/support/gids.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/rank.h"
#include "tests/support/ranks.h"
#include "tests/support/unit.h"

#define SIZE 20000		/* several packets at any MTU */
#define HALF 32768
#define OPTIONS 6

#ifdef HAVE_RDMACM
#define RDMACM "device.resolver=rdmacm"
#endif

static struct cache *cache;

/* --------------------------------------------------------------- network --- */

static void run(const char *command)
{
	if (system(command) != 0)
		fail_msg("failed: %s", command);
}

/* Adds two addresses whose traffic takes the wire, not lo, as tests/vm/init does for its own. */
static void add_pair(const char *family, const char *one, const char *two, int bits)
{
	static int table = 200;
	char command[1024];

	snprintf(command, sizeof(command),
		 "set -e; f=%s; a=%s; b=%s; n=%d; t1=%d; t2=%d; d=; [ $f != -6 ] || d=nodad\n"
		 "ip $f addr add $a/$n dev v0 $d; ip $f addr add $b/$n dev v1 $d\n"
		 "ip $f rule add pref 20 from $a to $b lookup $t1\n"
		 "ip $f rule add pref 21 from $b to $a lookup $t2\n"
		 "ip $f route add $b dev v0 src $a table $t1\n"
		 "ip $f route add $a dev v1 src $b table $t2\n",
		 family, one, two, bits, table, table + 1);
	table += 2;
	run(command);
}

static int set_up(void **state)
{
	(void)state;
	if (!getenv("BEEST_VM") || !ranks_port(1))
		return 0;

	run("ip link set v0 mtu 1500; ip link set v1 mtu 1500");
	add_pair("-4", "10.77.0.1", "10.78.0.2", 24);
	add_pair("-6", "fd77::1", "fd78::2", 64);
	gids_settle();
	cache_need();
	cache = cache_start(NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	cache_end(cache);
	return 0;
}

static void need_machine(void)
{
	if (!cache)
		skip();
}

/* -------------------------------------------------------------- two ends --- */

struct end {
	struct hartebeest_context *hb;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct hartebeest_remote_mr there;
	char me[32], peer[32];
	char log[8192];
};

static void keep(void *data, int level, const char *text)
{
	struct end *end = data;
	size_t used = strlen(end->log);

	snprintf(end->log + used, sizeof(end->log) - used, "%d %s\n", level, text);
}

static void fatal(const char *what)
{
	fail_msg("%s: %s", what, hartebeest_error());
}

#define WORKS(call) do { if ((call) < 0) fatal(#call); } while (0)

static void open_end(struct end *end, int which, const char *const options[OPTIONS])
{
	struct rank_settings settings = {
		.servers = cache_hostport(cache)->text, .timeout = RANKS_PATIENCE,
		.more = { "qp_attr.retry_cnt=5" },
	};
	static int serial;
	int i;

	for (i = 0; i < OPTIONS && options[i]; i++)
		settings.more[1 + i] = options[i];
	memset(end, 0, sizeof(*end));
	serial++;
	snprintf(end->me, sizeof(end->me), "%d-%d", (serial - 1) / 2, which);
	snprintf(end->peer, sizeof(end->peer), "%d-%d", (serial - 1) / 2, !which);
	WORKS(rank_open(&end->hb, &settings));
	hartebeest_log_set(end->hb, HARTEBEEST_LOG_INFO, keep, end);
}

static void make_end(struct end *end, int type)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	WORKS(hartebeest_pd_create(end->hb, "pd", NULL));
	WORKS(cq_make(end->hb, "cq", 0, 0, &end->cq));
	WORKS(mr_make(end->hb, "mr", "pd", 2 * HALF, access, &end->mr));
	WORKS(qp_make(end->hb, "qp", "pd", type, "cq", "cq", &end->qp));
	WORKS(hartebeest_mr_publish(end->hb, "mr", end->me, 0));
	WORKS(hartebeest_qp_publish(end->hb, "qp", end->me, 0));
}

static void fetch_end(struct end *end, struct hartebeest_remote_qp *remote)
{
	WORKS(hartebeest_mr_fetch(end->hb, end->peer, &end->there, 0));
	WORKS(hartebeest_qp_fetch(end->hb, end->peer, remote, 0));
}

static void *confirm(void *data)
{
	struct end *end = data;

	return hartebeest_qp_confirm(end->hb, "qp", end->peer, 0) == 0 ? NULL : end;
}

static void confirm_both(struct end ends[2])
{
	pthread_t thread;
	void *failed;

	assert_int_equal(pthread_create(&thread, NULL, confirm, &ends[0]), 0);
	WORKS(hartebeest_qp_confirm(ends[1].hb, "qp", ends[1].peer, 0));
	pthread_join(thread, &failed);
	assert_null(failed);
}

static void complete(struct end *end)
{
	struct ibv_wc wc;

	assert_int_equal(hartebeest_poll_until(end->cq, 1, &wc, HARTEBEEST_FOREVER), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void write_across(struct end *from, struct end *to, int byte)
{
	memset(from->mr->addr, byte, SIZE);
	assert_int_equal(hartebeest_post_write(from->qp, from->mr->addr, SIZE, from->mr->lkey,
					       from->there.address + HALF, from->there.rkey, 1,
					       IBV_SEND_SIGNALED), 0);
	complete(from);
	assert_memory_equal((char *)to->mr->addr + HALF, from->mr->addr, SIZE);
}

static void close_both(struct end ends[2])
{
	hartebeest_close(ends[0].hb);
	hartebeest_close(ends[1].hb);
}

/* ------------------------------------------------------------- every way --- */

struct way {
	const char *name;
	const char *options[2][OPTIONS];	/* of the end on v0, of the end on v1 */
	const char *gids[2];			/* that must be chosen */
	int traffic_class;
};

#define BOTH(...) { { "device.name=rxe0", __VA_ARGS__ }, { "device.name=rxe1", __VA_ARGS__ } }
#define EACH(one, two) { { one }, { two } }
#define EACH_WITH(one, two, ...) { { one, __VA_ARGS__ }, { two, __VA_ARGS__ } }
#define IPV4 { "::ffff:10.9.0.1", "::ffff:10.9.0.2" }
#define IPV6 { "fd09::1", "fd09::2" }
#define FAR4 { "::ffff:10.77.0.1", "::ffff:10.78.0.2" }
#define FAR6 { "fd77::1", "fd78::2" }

static const struct way ways[] = {
	{ "auto", BOTH("device.gid=auto"), IPV4, 0 },
	{ "index", BOTH("device.gid=index:1"), IPV4, 0 },
	{ "gid", EACH("device.gid=gid:fd09::1", "device.gid=gid:fd09::2"), IPV6, 0 },
	{ "ip", EACH("device.gid=ip:10.9.0.1", "device.gid=ip:10.9.0.2"), IPV4, 0 },
	{ "ip, IPv6", EACH("device.gid=ip:fd09::1", "device.gid=ip:fd09::2"), IPV6, 0 },
	{ "subnet", BOTH("device.gid=subnet:10.9.0.0/24"), IPV4, 0 },
	{ "subnets that differ",
	  EACH("device.gid=subnet:10.77.0.0/24", "device.gid=subnet:10.78.0.0/24"), FAR4, 0 },
	{ "subnets that differ, IPv6",
	  EACH("device.gid=subnet:fd77::/64", "device.gid=subnet:fd78::/64"), FAR6, 0 },
	{ "netdev", EACH("device.gid=netdev:v0", "device.gid=netdev:v1"), IPV4, 0 },
	{ "family", BOTH("device.family=ipv6", "device.roce=v2"), IPV6, 0 },
	{ "addr", EACH("device.addr=10.77.0.1", "device.addr=10.78.0.2"), FAR4, 0 },
	{ "addr, IPv6", EACH("device.addr=fd77::1", "device.addr=fd78::2"), FAR6, 0 },
	{ "path attributes", BOTH("qp_attr.traffic_class=104", "qp_attr.ah_attr.static_rate=3",
				  "qp_attr.flow_label=0x12345", "qp_attr.ah_attr.sl=2"),
	  IPV4, 104 },
	{ "flow label by both numbers", BOTH("qp_attr.flow_label=auto"), IPV4, 0 },
#ifdef HAVE_RDMACM
	{ "rdmacm, auto", BOTH(RDMACM), IPV4, 0 },
	{ "rdmacm, IPv6", BOTH(RDMACM, "device.family=ipv6"), IPV6, 0 },
	{ "rdmacm, addr", EACH_WITH("device.addr=10.77.0.1", "device.addr=10.78.0.2", RDMACM),
	  FAR4, 0 },
	{ "rdmacm, addr, IPv6", EACH_WITH("device.addr=fd77::1", "device.addr=fd78::2", RDMACM),
	  FAR6, 0 },
	{ "rdmacm, traffic class", BOTH(RDMACM, "qp_attr.traffic_class=104"), IPV4, 104 },
	{ "rdmacm at one end", { { "device.addr=10.9.0.1", RDMACM }, { "device.addr=10.9.0.2" } },
	  IPV4, 0 },
#endif
};

static void same_gid(const union ibv_gid *gid, const char *text)
{
	uint8_t wanted[16];
	char is[INET6_ADDRSTRLEN];

	assert_int_equal(inet_pton(AF_INET6, text, wanted), 1);
	if (memcmp(gid->raw, wanted, sizeof(wanted)) == 0)
		return;
	inet_ntop(AF_INET6, gid->raw, is, sizeof(is));
	fail_msg("GID %s, not %s", is, text);
}

/* Checks what the device holds, not what the library believes. */
static void check_device(struct end *end, const char *own, const char *peer, int traffic_class)
{
	struct ibv_qp_init_attr init;
	struct ibv_port_attr port;
	struct ibv_qp_attr attr;
	union ibv_gid gid;

	assert_int_equal(ibv_query_qp(end->qp, &attr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_STATE,
				      &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(ibv_query_gid(end->qp->context, 1, attr.ah_attr.grh.sgid_index, &gid), 0);
	same_gid(&gid, own);
	same_gid(&attr.ah_attr.grh.dgid, peer);
	assert_int_equal(attr.ah_attr.grh.traffic_class, traffic_class);
	assert_int_equal(ibv_query_port(end->qp->context, 1, &port), 0);
	assert_true(attr.path_mtu <= port.active_mtu);
}

static void connect_way(const struct way *way, struct end ends[2])
{
	struct hartebeest_remote_qp remote;
	int i;

	for (i = 0; i < 2; i++) {
		open_end(&ends[i], i, way->options[i]);
		make_end(&ends[i], IBV_QPT_RC);
	}
	for (i = 0; i < 2; i++) {
		fetch_end(&ends[i], &remote);
		same_gid(&remote.ip, way->gids[!i]);
		WORKS(hartebeest_qp_connect(ends[i].hb, "qp", ends[i].peer, 0));
	}
	confirm_both(ends);
}

static void every_way(void **state)
{
	const struct way *way = *state;
	struct end ends[2];
	char text[1024];

	need_machine();
	connect_way(way, ends);
	check_device(&ends[0], way->gids[0], way->gids[1], way->traffic_class);
	check_device(&ends[1], way->gids[1], way->gids[0], way->traffic_class);
	assert_string_equal(ends[0].qp->context->device->name, "rxe0");
	assert_string_equal(ends[1].qp->context->device->name, "rxe1");
	write_across(&ends[0], &ends[1], 17);
	write_across(&ends[1], &ends[0], 71);
	WORKS(hartebeest_device_text(ends[0].hb, text, sizeof(text)));
	if (!strstr(text, way->gids[0]) || !strstr(text, "port rxe0:1 (Soft-RoCE)"))
		fail_msg("reported: %s", text);
	close_both(ends);
}

/* ---------------------------------------------------------- wrong choices --- */

static const struct {
	const char *options[2];
	int ret;
	const char *sentence;
} wrong[] = {
	{ { "device.gid=subnet:10.50.0.0/24" }, -ENODATA,
	  "no GID fits subnet:10.50.0.0/24 (argument device.gid): " },
	{ { "device.gid=ip:10.9.0.2", "device.name=rxe0:1" }, -ENODATA,
	  "::ffff:10.9.0.1, RoCE v2, v0 (another address)" },
	{ { "device.addr=10.50.0.1" }, -ENODATA,
	  "no GID fits ip:10.50.0.1 (argument device.addr): " },
	{ { "device.gid=netdev:v9" }, -ENODATA, "(another interface)" },
	{ { "device.roce=v1" , "device.name=rxe0" }, -ENODATA, "(the other RoCE version)" },
	{ { "device.gid=index:77", "device.name=rxe1" }, -ENODATA, "(another index)" },
};

static void wrong_choices(void **state)
{
	const char *options[OPTIONS] = { NULL };
	struct end end;
	char text[1024];
	size_t i;

	(void)state;
	need_machine();
	for (i = 0; i < BEEST_COUNT(wrong); i++) {
		memcpy(options, wrong[i].options, sizeof(wrong[i].options));
		open_end(&end, 0, options);
		assert_int_equal(hartebeest_device_text(end.hb, text, sizeof(text)),
				 wrong[i].ret);
		if (!strstr(hartebeest_error(), wrong[i].sentence))
			fail_msg("reported: %s", hartebeest_error());
		assert_non_null(strstr(end.log, wrong[i].sentence));
		hartebeest_close(end.hb);
		open_end(&end, 1, options);	/* open_end() counts ends in pairs */
		hartebeest_close(end.hb);
	}
}

/* -------------------------------------------------------- moving addresses --- */

static const struct way moving = {
	"moving", EACH("device.addr=10.98.0.1", "device.addr=10.98.0.2"),
	{ "::ffff:10.98.0.1", "::ffff:10.98.0.2" }, 0,
};

static void begin_moving(struct end ends[2])
{
	int i;

	run("ip addr add 10.99.0.1/24 dev v0");
	add_pair("-4", "10.98.0.1", "10.98.0.2", 24);
	gids_settle();
	for (i = 0; i < 2; i++) {
		open_end(&ends[i], i, moving.options[i]);
		make_end(&ends[i], IBV_QPT_RC);
	}
}

/* After the publication, the address moves, and another one takes its index. */
static void address_that_moves(void **state)
{
	struct end ends[2];
	int i;

	(void)state;
	need_machine();
	begin_moving(ends);
	run("ip addr del 10.99.0.1/24 dev v0; ip addr del 10.98.0.1/24 dev v0");
	gids_settle();
	run("ip addr add 10.98.0.1/24 dev v0");
	gids_settle();
	run("ip addr add 10.97.0.1/24 dev v0");
	run("ip route replace 10.98.0.2 dev v0 src 10.98.0.1 table $("
	    "ip rule | sed -n 's/.*from 10.98.0.1 to 10.98.0.2 lookup //p')");
	gids_settle();
	for (i = 0; i < 2; i++) {
		fetch_end(&ends[i], NULL);
		WORKS(hartebeest_qp_connect(ends[i].hb, "qp", ends[i].peer, 0));
	}
	confirm_both(ends);
	if (!strstr(ends[0].log, "GID ::ffff:10.98.0.1 moved from index "))
		fail_msg("logged: %s", ends[0].log);
	check_device(&ends[0], moving.gids[0], moving.gids[1], 0);
	write_across(&ends[0], &ends[1], 33);
	write_across(&ends[1], &ends[0], 44);
	close_both(ends);
	run("ip addr del 10.97.0.1/24 dev v0");
	run("ip addr del 10.98.0.1/24 dev v0; ip addr del 10.98.0.2/24 dev v1");
	gids_settle();
}

static void address_that_goes(void **state)
{
	struct end ends[2];

	(void)state;
	need_machine();
	run("ip addr add 10.98.0.1/24 dev v0; ip addr add 10.98.0.2/24 dev v1");
	gids_settle();
	open_end(&ends[0], 0, moving.options[0]);
	open_end(&ends[1], 1, moving.options[1]);
	make_end(&ends[0], IBV_QPT_RC);
	make_end(&ends[1], IBV_QPT_RC);
	run("ip addr del 10.98.0.1/24 dev v0");
	gids_settle();
	fetch_end(&ends[0], NULL);
	assert_int_equal(hartebeest_qp_connect(ends[0].hb, "qp", ends[0].peer, 0), -ENODATA);
	assert_error_has("::ffff:10.98.0.1 (RoCE v2) of this end is no longer in the table of port "
			 "rxe0:1");

	/* The address comes back: the queue pair, still in INIT, can connect. */
	run("ip addr add 10.98.0.1/24 dev v0");
	gids_settle();
	WORKS(hartebeest_qp_connect(ends[0].hb, "qp", ends[0].peer, 0));
	close_both(ends);
	run("ip addr del 10.98.0.1/24 dev v0; ip addr del 10.98.0.2/24 dev v1");
	gids_settle();
}

/* -------------------------------------------------------------------- MTU --- */

static const struct {
	int mtu[2];			/* of the interfaces */
	enum ibv_mtu path;
} mtus[] = {
	{ { 4200, 1500 }, IBV_MTU_1024 },
	{ { 4200, 4200 }, IBV_MTU_4096 },
	{ { 1500, 4200 }, IBV_MTU_1024 },
	{ { 1500, 1500 }, IBV_MTU_1024 },
};

static void mtu_is_agreed(const struct way *way, size_t row)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct end ends[2];
	int i;

	connect_way(way, ends);
	for (i = 0; i < 2; i++) {
		assert_int_equal(ibv_query_qp(ends[i].qp, &attr, IBV_QP_PATH_MTU, &init), 0);
		assert_int_equal(attr.path_mtu, mtus[row].path);
	}
	write_across(&ends[0], &ends[1], 55);
	write_across(&ends[1], &ends[0], 66);
	close_both(ends);
}

static const struct way *way_named(const char *name)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(ways); i++)
		if (strcmp(ways[i].name, name) == 0)
			return &ways[i];
	return NULL;
}

static void mtu_small_and_big(void **state)
{
	char command[128];
	size_t i;

	(void)state;
	need_machine();
	for (i = 0; i < BEEST_COUNT(mtus); i++) {
		snprintf(command, sizeof(command), "ip link set v0 mtu %d; ip link set v1 mtu %d",
			 mtus[i].mtu[0], mtus[i].mtu[1]);
		run(command);
		gids_settle();
		mtu_is_agreed(way_named("auto"), i);
#ifdef HAVE_RDMACM
		mtu_is_agreed(way_named("rdmacm, auto"), i);
#endif
	}
}

/* --------------------------------------------------------------- resolve --- */

struct question {
	const char *options[2];
	const char *ip;
	int ret;
	const char *sentence;		/* of the error; if @ret is 0, the local GID */
};

static const struct question questions[] = {
#ifdef HAVE_RDMACM
	{ { "device.addr=10.9.0.1" }, "10.9.0.2", 0, "::ffff:10.9.0.1" },
	{ { "device.name=rxe1" }, "10.9.0.1", 0, "::ffff:10.9.0.2" },
	{ { "device.addr=fd09::1" }, "fd09::2", 0, "fd09::1" },
	{ { "device.gid=ip:10.77.0.1" }, "10.78.0.2", 0, "::ffff:10.77.0.1" },
	{ { "device.addr=fd78::2" }, "fd77::1", 0, "fd78::2" },
	{ { "device.addr=10.9.0.1", "exchange.timeout=4s" }, "10.9.0.99", -ETIMEDOUT,
	  "no path to 10.9.0.99 from 10.9.0.1 (v0): the address does not answer ARP" },
	{ { "device.addr=fd09::1", "exchange.timeout=4s" }, "fd09::99", -ETIMEDOUT,
	  "neighbour discovery" },
	{ { NULL }, "192.0.2.1", -ENETUNREACH, "there is no route to the address" },
	{ { NULL }, "10.66.0.2", -ENODEV,
	  "no path to 10.66.0.2 from 10.66.0.1 (w0): there is no RDMA device behind" },
	{ { "device.addr=10.66.0.1" }, "10.9.0.2", -ENODEV,
	  "there is no RDMA device behind the local address" },
	{ { "device.addr=10.9.0.77" }, "10.9.0.2", -EADDRNOTAVAIL,
	  "the local address is on no interface" },
#else
	{ { "device.addr=10.9.0.1" }, "10.9.0.2", -ENOSYS, "without librdmacm" },
#endif
	{ { NULL }, "127.0.0.1", -EINVAL, "127.0.0.1 is a loopback address" },
	{ { NULL }, "::1", -EINVAL, "::1 is a loopback address" },
	{ { NULL }, "0.0.0.0", -EINVAL, "0.0.0.0 is not the address of a single host" },
	{ { NULL }, "239.1.1.1", -EINVAL, "multicast" },
	{ { NULL }, "nowhere", -EINVAL, "'nowhere' is not an IPv4 or IPv6 address" },
	{ { NULL }, "fe80::1%nothere", -ENODEV, "no network interface 'nothere'" },
};

static void ask(const struct question *question)
{
	const char *options[OPTIONS] = { question->options[0], question->options[1] };
	struct hartebeest_path path;
	struct end end;
	int ret;

	open_end(&end, 0, options);
	memset(&path, 0xa5, sizeof(path));
	ret = hartebeest_resolve(end.hb, question->ip, &path, 0);
	if (ret != question->ret)
		fail_msg("%s: %d: %s", question->ip, ret, hartebeest_error());
	if (ret == 0)
		same_gid(&path.sgid, question->sentence);
	else if (!strstr(hartebeest_error(), question->sentence))
		fail_msg("%s: reported: %s", question->ip, hartebeest_error());
	if (ret == 0) {
		assert_int_equal(path.port, 1);
		assert_int_equal(path.link_layer, IBV_LINK_LAYER_ETHERNET);
		assert_int_equal(path.mtu, IBV_MTU_1024);
		assert_int_equal(path.pkey, 0xffff);
		assert_int_equal(path.dlid, 0);
		assert_true(path.hop_limit > 0);
	}
	hartebeest_close(end.hb);
	open_end(&end, 1, options);
	hartebeest_close(end.hb);
}

static void resolve(void **state)
{
	size_t i;

	(void)state;
	need_machine();
	run("ip neigh flush dev v0; ip neigh flush dev v1");	/* as after a boot */
	run("ip link add w0 type veth peer name w1; ip link set w0 up; ip link set w1 up;"
	    "ip addr add 10.66.0.1/24 dev w0;"
	    "ip neigh add 10.66.0.2 lladdr 02:00:00:00:00:02 dev w0");
	for (i = 0; i < BEEST_COUNT(questions); i++)
		ask(&questions[i]);
}

#ifdef HAVE_RDMACM
/* Runs in a process that has not used librdmacm yet, since librdmacm keeps its device open. */
static int ask_without_ucm(void)
{
	const char *options[] = { "device.addr=10.9.0.1", NULL };
	struct hartebeest_path path;
	struct hartebeest_context *hb;
	char text[1024];

	if (hartebeest_open(&hb, options) < 0 ||
	    hartebeest_device_text(hb, text, sizeof(text)) < 0)
		return 1;
	if (hartebeest_resolve(hb, "10.9.0.2", &path, 0) != -EOPNOTSUPP ||
	    !strstr(hartebeest_error(), "is the module rdma_ucm loaded")) {
		fprintf(stderr, "reported: %s\n", hartebeest_error());
		return 2;
	}
	hartebeest_close(hb);
	return 0;
}

static void without_rdma_ucm(void **state)
{
	int status = 0;
	pid_t pid;

	(void)state;
	need_machine();
	run("mv /dev/infiniband/rdma_cm /dev/infiniband/away");
	pid = fork();
	if (pid == 0)
		_exit(ask_without_ucm());
	waitpid(pid, &status, 0);
	run("mv /dev/infiniband/away /dev/infiniband/rdma_cm");
	assert_int_equal(status, 0);
}

/* The peer loses its address after it has published. */
static void peer_that_went(void **state)
{
	const char *const options[2][OPTIONS] = {
		{ "device.addr=10.98.0.1", RDMACM, "exchange.timeout=4s" },
		{ "device.addr=10.98.0.2", RDMACM, "exchange.timeout=4s" },
	};
	struct end ends[2];
	int i;

	(void)state;
	need_machine();
	run("ip addr add 10.98.0.1/24 dev v0; ip addr add 10.98.0.2/24 dev v1");
	gids_settle();
	for (i = 0; i < 2; i++) {
		open_end(&ends[i], i, options[i]);
		make_end(&ends[i], IBV_QPT_RC);
	}
	run("ip addr del 10.98.0.2/24 dev v1; ip neigh flush dev v0");
	gids_settle();
	fetch_end(&ends[0], NULL);
	assert_int_equal(hartebeest_qp_connect(ends[0].hb, "qp", ends[0].peer, 0), -ETIMEDOUT);
	assert_error_has("no path to 10.98.0.2 from 10.98.0.1 (v0): the address does not answer");
	close_both(ends);
	run("ip addr del 10.98.0.1/24 dev v0");
}

static void datagrams(void **state)
{
	const char *const options[2][OPTIONS] = { { "device.addr=10.77.0.1", RDMACM },
						  { "device.addr=10.78.0.2", RDMACM } };
	struct hartebeest_ud_address address;
	struct end ends[2];
	struct ibv_wc wc;
	int i;

	(void)state;
	need_machine();
	for (i = 0; i < 2; i++) {
		open_end(&ends[i], i, options[i]);
		make_end(&ends[i], IBV_QPT_UD);
		assert_int_equal(hartebeest_post_recv(ends[i].qp, ends[i].mr->addr, 1064,
						      ends[i].mr->lkey, 5), 0);
	}
	for (i = 0; i < 2; i++) {
		fetch_end(&ends[i], NULL);
		WORKS(hartebeest_qp_connect(ends[i].hb, "qp", ends[i].peer, 0));
	}
	WORKS(hartebeest_qp_ud_address(ends[0].hb, "qp", ends[0].peer, &address));
	memset((char *)ends[0].mr->addr + HALF, 99, 1000);
	assert_int_equal(hartebeest_post_send_ud(ends[0].qp, (char *)ends[0].mr->addr + HALF, 1000,
						 ends[0].mr->lkey, address.ah, address.qp_num,
						 address.qkey, 6, IBV_SEND_SIGNALED), 0);
	complete(&ends[0]);
	assert_int_equal(hartebeest_poll_until(ends[1].cq, 1, &wc, HARTEBEEST_FOREVER), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 1040);		/* with the GRH before it */
	assert_int_equal(((char *)ends[1].mr->addr)[40], 99);
	close_both(ends);
}
#endif

int main(void)
{
	const struct CMUnitTest others[] = {
		cmocka_unit_test(wrong_choices),
#ifdef HAVE_RDMACM
		cmocka_unit_test(without_rdma_ucm),
#endif
		cmocka_unit_test(resolve),
		cmocka_unit_test(address_that_moves),
		cmocka_unit_test(address_that_goes),
#ifdef HAVE_RDMACM
		cmocka_unit_test(peer_that_went),
		cmocka_unit_test(datagrams),
#endif
		cmocka_unit_test(mtu_small_and_big),
	};
	struct CMUnitTest tests[BEEST_COUNT(others) + BEEST_COUNT(ways)];
	size_t i, count = 0;

	ranks_need_device();
	if (!getenv("BEEST_VM") || !ranks_port(1)) {
		fprintf(stderr, "changes addresses: only in the virtual machine of tests/vm\n");
		return 77;
	}
	for (i = 0; i < BEEST_COUNT(others); i++)
		tests[count++] = others[i];
	for (i = 0; i < BEEST_COUNT(ways); i++)
		tests[count++] = (struct CMUnitTest){ ways[i].name, every_way, NULL, NULL,
						      (void *)(uintptr_t)&ways[i] };
	return _cmocka_run_group_tests("live-address", tests, count, set_up, tear_down);
}
