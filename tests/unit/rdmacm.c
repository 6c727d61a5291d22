/* SPDX-License-Identifier: MIT */
/*
 * rdmacm.c - questions to rdma_cm, each of its failures, and the paths that are kept
 *
 * Without librdmacm: the sentence that says so.
 *
 * promise: hartebeest_resolve(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>

#include "hartebeest.h"
#include "lib/base/clock.h"
#include "lib/path/pathcache.h"

#ifndef HAVE_RDMACM

static void not_built(void **state)
{
	struct hartebeest_path path;
	struct hartebeest_context *hb;

	(void)state;
	assert_int_equal(hartebeest_open(&hb, NULL), 0);
	assert_int_equal(hartebeest_resolve(hb, "10.0.0.2", &path, 0), -ENOSYS);
	assert_error_is("this build of libhartebeest has no rdma_cm: it was configured without "
			"librdmacm");
	assert_int_equal(hartebeest_resolve(hb, "127.0.0.1", &path, 0), -EINVAL);
	hartebeest_close(hb);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(not_built),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

#include "tests/support/fake-rdmacm.h"
#include "tests/support/fake-verbs.h"

static struct beest_ipaddr ip_of(const char *text)
{
	struct beest_ipaddr ip;
	unsigned int scope;

	assert_int_equal(beest_pathrec_parse(text, &ip, &scope), 0);
	return ip;
}

static int reset(void **state)
{
	(void)state;
	fake_verbs_reset();
	fake_rdmacm_reset();
	return 0;
}

static int check_closed(void **state)
{
	(void)state;
	assert_int_equal(fake_rdmacm.open, 0);
	assert_int_equal(fake_verbs.open, 0);
	fake_verbs_reset();
	return 0;
}

/* ------------------------------------------------------------ one question --- */

static int ask_within(const char *from, const char *to, int64_t timeout,
		      struct hartebeest_path *route)
{
	struct beest_ipaddr source, goal = ip_of(to);
	struct beest_rdmacm_query question = {
		.to = &goal, .limit = UNIT_LIMIT(timeout),
	};

	if (from) {
		source = ip_of(from);
		question.from = &source;
	}
	return beest_rdmacm_resolve(&question, route);
}

static void roce(void **state)
{
	const struct sockaddr_in *from = (void *)&fake_rdmacm.from, *to = (void *)&fake_rdmacm.to;
	struct hartebeest_path route;

	(void)state;
	fake_rdmacm.path.slid = htobe16(3);
	fake_rdmacm.port = 0;
	fake_verbs.devices[0].ports[0].lmc = 2;		/* ignored on RoCE */
	assert_int_equal(ask_within("10.0.0.1", "10.0.0.2", 5 * BEEST_SECOND, &route), 0);
	assert_string_equal(route.device, "fake0");
	assert_int_equal(route.port, 1);
	assert_int_equal(route.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(route.src_path_bits, 0);
	assert_int_equal(route.mtu, IBV_MTU_1024);
	assert_int_equal(from->sin_family, AF_INET);
	assert_int_equal(ntohl(from->sin_addr.s_addr), 0x0a000001);
	assert_int_equal(from->sin_port, 0);
	assert_int_equal(ntohl(to->sin_addr.s_addr), 0x0a000002);
	assert_int_equal(fake_rdmacm.timeout_ms, 100);
	assert_int_equal(fake_rdmacm.tos, -1);
}

static void infiniband(void **state)
{
	struct hartebeest_path route;

	(void)state;
	fake_verbs_infiniband();
	fake_verbs.devices[0].ports[0].lmc = 2;
	fake_rdmacm_infiniband();
	fake_rdmacm.path.slid = htobe16(0x0107);
	assert_int_equal(ask_within("10.0.0.1", "10.0.0.2", BEEST_SECOND, &route), 0);
	assert_int_equal(route.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(route.src_path_bits, 3);
	assert_int_equal(route.dlid, 0x1234);
	assert_int_equal(route.sl, 5);
}

static void ipv6(void **state)
{
	const struct sockaddr_in6 *from = (void *)&fake_rdmacm.from, *to = (void *)&fake_rdmacm.to;
	struct beest_ipaddr goal = ip_of("fe80::2");
	struct beest_rdmacm_query question = {
		.to = &goal, .scope = 7, .tos = 0x68, .limit = UNIT_LIMIT(BEEST_SECOND),
	};
	struct hartebeest_path route;

	(void)state;
	assert_int_equal(ask_within("fd00::1", "fd00::2", BEEST_SECOND, &route), 0);
	assert_int_equal(from->sin6_family, AF_INET6);
	assert_int_equal(from->sin6_scope_id, 0);
	assert_int_equal(to->sin6_addr.s6_addr[15], 2);

	/* If the kernel may choose the source, no address is bound. */
	fake_rdmacm_reset();
	assert_int_equal(beest_rdmacm_resolve(&question, &route), 0);
	assert_int_equal(fake_rdmacm.from.ss_family, 0);
	assert_int_equal(to->sin6_scope_id, 7);
	assert_int_equal(fake_rdmacm.tos, 0x68);
}

/* ---------------------------------------------------------- every failure --- */

static const struct {
	struct fake_rdmacm cm;
	int ret;
	const char *sentence;
} failures[] = {
	{ { .channel.error = ENOENT }, -EOPNOTSUPP, "the kernel's rdma_cm cannot be asked: is the "
	  "module rdma_ucm loaded, and is there a /dev/infiniband/rdma_cm?" },
	{ { .channel.error = ENODEV }, -ENODEV, "rdma_cm finds no RDMA device on this machine" },
	{ { .channel.error = EACCES }, -EACCES, "this user may not read and write" },
	{ { .channel.error = EPERM }, -EACCES, "this user may not read and write" },
	{ { .channel.error = EMFILE }, -EMFILE, "rdma_cm cannot be reached (Too many open" },
	{ { .id.error = ENOMEM }, -ENOMEM, "rdma_cm cannot be reached (Cannot allocate" },
	{ { .bind.error = EADDRNOTAVAIL }, -EADDRNOTAVAIL, "no path to 10.0.0.2 from 10.0.0.1 "
	  "(eth0): the local address is on no interface of this host" },
	{ { .bind.error = ENODEV }, -ENODEV, "there is no RDMA device behind the local address: a "
	  "RoCE port needs the address on its interface, an InfiniBand port on IPoIB" },
	{ { .no_device = true }, -ENODEV, "there is no RDMA device behind the local address" },
	{ { .bind.error = EINVAL }, -EINVAL, "rdma_cm rejects the local address" },
	{ { .address.error = ENETUNREACH }, -ENETUNREACH, "there is no route to the address" },
	{ { .address.status = -EHOSTUNREACH }, -EHOSTUNREACH, "there is no route to the address" },
	{ { .address.status = -ENODEV }, -ENODEV, "there is no RDMA device behind the interface "
	  "that leads there" },
	{ { .address.status = -ETIMEDOUT }, -ETIMEDOUT, "the address does not answer ARP or "
	  "neighbour discovery: is its interface up, and on this network?" },
	{ { .address.status = 5 }, -EIO, "rdma_cm cannot resolve the address (Input/output" },
	{ { .address.silent = true }, -ETIMEDOUT, "the address does not answer ARP" },
	{ { .route.error = ENODEV }, -ENODEV, "the device went away" },
	{ { .route.status = -ETIMEDOUT }, -ETIMEDOUT, "the subnet manager does not answer "
	  "in time" },
	{ { .route.status = -EHOSTUNREACH }, -EHOSTUNREACH, "the subnet manager knows no path" },
	{ { .route.status = -EIO }, -EIO, "rdma_cm finds no path" },
	{ { .route.silent = true }, -ETIMEDOUT, "the subnet manager does not answer" },
};

static void every_failure(void **state)
{
	struct hartebeest_path route, before;
	int64_t limit;
	size_t i;
	int ret;

	(void)state;
	memset(&before, 0xa5, sizeof(before));
	for (i = 0; i < BEEST_COUNT(failures); i++) {
		fake_rdmacm_reset();
		fake_rdmacm.channel = failures[i].cm.channel;
		fake_rdmacm.id = failures[i].cm.id;
		fake_rdmacm.bind = failures[i].cm.bind;
		fake_rdmacm.address = failures[i].cm.address;
		fake_rdmacm.route = failures[i].cm.route;
		fake_rdmacm.no_device = failures[i].cm.no_device;
		route = before;
		limit = 50 * BEEST_MS;
		do	/* the steps before the failure may take longer than the limit */
			ret = ask_within("10.0.0.1", "10.0.0.2", limit, &route);
		while ((ret != failures[i].ret ||
			!strstr(beest_error_text(), failures[i].sentence)) &&
		       (limit *= 4) < 60 * BEEST_SECOND);
		assert_int_equal(ret, failures[i].ret);
		assert_error_has("no path to 10.0.0.2 from 10.0.0.1 (eth0): ");
		assert_error_has(failures[i].sentence);
		assert_memory_equal(&route, &before, sizeof(route));
		assert_int_equal(fake_rdmacm.open, 0);
		assert_int_equal(fake_verbs.open, 0);
	}
}

static void no_path(void **state)
{
	struct hartebeest_path route;

	(void)state;
	fake_rdmacm.paths = 0;
	assert_int_equal(ask_within("10.0.0.1", "10.0.0.2", 60 * BEEST_SECOND, &route),
			 -EHOSTUNREACH);
	assert_error_has("the subnet manager knows no path");
}

/* Without a device, id->verbs is NULL.  Asking for a route would crash, which the fake checks. */
static void no_device_without_source(void **state)
{
	struct hartebeest_path route;

	(void)state;
	fake_rdmacm.no_device = true;
	assert_int_equal(ask_within(NULL, "10.0.0.2", 60 * BEEST_SECOND, &route), -ENODEV);
	assert_error_has("there is no RDMA device behind the interface that leads there");
}

static void iwarp(void **state)
{
	struct hartebeest_path route;

	(void)state;
	fake_verbs.devices[0].transport = IBV_TRANSPORT_IWARP;
	assert_int_equal(ask_within("10.0.0.1", "10.0.0.2", 60 * BEEST_SECOND, &route),
			 -EPROTONOSUPPORT);
	assert_error_is("the path to 10.0.0.2 leads through the iWARP device fake0, whose "
			"connections only rdma_cm can make");
}

static void port_query_fails(void **state)
{
	struct hartebeest_path route;

	(void)state;
	fake_verbs_fail("ibv_query_port", 1, EIO);
	assert_int_equal(ask_within("10.0.0.1", "10.0.0.2", 60 * BEEST_SECOND, &route), -EIO);
	assert_error_is("port 1 of fake0 cannot be queried: Input/output error");
}

static void a_deadline_is_kept(void **state)
{
	struct hartebeest_path route;
	int64_t start = beest_clock_now();

	(void)state;
	fake_rdmacm.address.silent = true;
	assert_int_equal(ask_within("10.0.0.1", "10.0.0.2", 120 * BEEST_MS, &route), -ETIMEDOUT);
	assert_true(beest_clock_now() - start >= 120 * BEEST_MS);
}

/* The kernel may miss an ARP answer, so it is asked again with a longer time-out. */
static void asked_again_after_a_time_out(void **state)
{
	struct hartebeest_path route;

	(void)state;
	fake_rdmacm.late = 3;
	assert_int_equal(ask_within("10.0.0.1", "10.0.0.2", 60 * BEEST_SECOND, &route), 0);
	assert_int_equal(fake_rdmacm.asked, 4);
	assert_int_equal(fake_rdmacm.timeout_ms, 800);
	fake_rdmacm.late = 7;
	assert_int_equal(ask_within("10.0.0.1", "10.0.0.2", 60 * BEEST_SECOND, &route), 0);
	assert_int_equal(fake_rdmacm.timeout_ms, 3200);
	fake_rdmacm.asked = 0;
	fake_rdmacm.late = 7;
	assert_int_equal(ask_within("10.0.0.1", "10.0.0.2", 3 * BEEST_SECOND, &route), 0);
	assert_in_range(fake_rdmacm.timeout_ms, 1, 3000);	/* not 3200 */

	/* While there is no answer at all, the request is still running and is not repeated. */
	fake_rdmacm.asked = 0;
	fake_rdmacm.address.silent = true;
	assert_int_equal(ask_within("10.0.0.1", "10.0.0.2", BEEST_SECOND, &route), -ETIMEDOUT);
	assert_int_equal(fake_rdmacm.asked, 1);
}

static void loopback_is_never_asked(void **state)
{
	struct beest_ipaddr goal = { { [15] = 1 } };
	struct beest_rdmacm_query question = {
		.to = &goal, .limit = UNIT_LIMIT(BEEST_SECOND),
	};
	struct hartebeest_path route;

	(void)state;
	assert_int_equal(beest_rdmacm_resolve(&question, &route), -EINVAL);
	assert_int_equal(fake_rdmacm.asked, 0);
}

/* ------------------------------------------------------------ what is kept --- */

/* @ip NULL: the end has none. */
static struct beest_endpoint end(const char *ip)
{
	struct beest_endpoint made = {
		.rank = -1, .lid = 5, .link_layer = IBV_LINK_LAYER_ETHERNET,
	};

	if (ip)
		made.ip = made.gid = ip_of(ip);
	return made;
}

static struct beest_pathcache cache;
static struct hartebeest_path found;

/* For the service @tos, within a minute. */
static int find_path(const struct beest_endpoint *local, const struct beest_endpoint *remote,
		     uint8_t tos)
{
	memset(&found, 0, sizeof(found));
	return beest_pathcache_find(&cache, local, "own0:1", remote, 0, tos,
				    UNIT_LIMIT(60 * BEEST_SECOND), &found);
}

static void asked_once(void **state)
{
	struct beest_endpoint own = end("10.0.0.1"), b = end("10.0.0.2"), c = end("10.0.0.3");

	(void)state;
	beest_pathcache_start(&cache);
	assert_int_equal(find_path(&own, &b, 0), 0);
	assert_int_equal(find_path(&own, &b, 0), 0);
	assert_int_equal(found.mtu, IBV_MTU_1024);
	assert_int_equal(fake_rdmacm.asked, 1);

	/* Another peer, service or source has another path. */
	assert_int_equal(find_path(&own, &c, 0), 0);
	assert_int_equal(fake_rdmacm.asked, 2);
	assert_int_equal(find_path(&own, &b, 8), 0);
	assert_int_equal(fake_rdmacm.asked, 3);
	assert_int_equal(find_path(&c, &b, 0), 0);
	assert_int_equal(fake_rdmacm.asked, 4);
	assert_int_equal(find_path(&own, &b, 0), 0);
	assert_int_equal(fake_rdmacm.asked, 4);

	/* The subnet manager gave the peer another LID. */
	b.lid = 6;
	assert_int_equal(find_path(&own, &b, 0), 0);
	assert_int_equal(fake_rdmacm.asked, 5);

	beest_pathcache_forget(&cache, &b.ip);
	assert_int_equal(find_path(&own, &c, 0), 0);
	assert_int_equal(fake_rdmacm.asked, 5);
	assert_int_equal(find_path(&own, &b, 0), 0);
	assert_int_equal(fake_rdmacm.asked, 6);

	/* Failures are not kept. */
	fake_rdmacm.address.status = -EHOSTUNREACH;
	b.lid = 7;
	assert_int_equal(find_path(&own, &b, 0), -EHOSTUNREACH);
	fake_rdmacm.address.status = 0;
	assert_int_equal(find_path(&own, &b, 0), 0);
	assert_int_equal(fake_rdmacm.asked, 8);
	beest_pathcache_stop(&cache);
}

static void ends_without_address(void **state)
{
	struct beest_endpoint with = end("10.0.0.1"), six = end("fd00::2"), without = end(NULL);

	(void)state;
	beest_pathcache_start(&cache);
	without.link_layer = IBV_LINK_LAYER_INFINIBAND;
	assert_int_equal(find_path(&without, &with, 0), -EADDRNOTAVAIL);
	assert_error_is("the local port own0:1 has no IP address, which rdma_cm needs: set up "
			"IPoIB (the kernel module ib_ipoib) with an address");
	without.rank = 3;
	assert_int_equal(find_path(&with, &without, 0), -EADDRNOTAVAIL);
	assert_error_has("the peer (rank 3) has no IP address");
	assert_int_equal(find_path(&with, &six, 0), -EPROTO);
	assert_error_is("the address families differ: 10.0.0.1 here (own0:1), fd00::2 at the "
			"peer: set device.family or device.addr");
	assert_int_equal(fake_rdmacm.asked, 0);
	beest_pathcache_stop(&cache);
}

/* ------------------------------------------------------------ public function --- */

static void resolve_in_public(void **state)
{
	const char *addr[] = { "device.addr=10.0.0.1", "exchange.timeout=60s",
			       "qp_attr.traffic_class=104", NULL };
	const char *name[] = { "device.name=fake0", NULL };
	struct hartebeest_path path;
	struct hartebeest_context *hb;

	(void)state;
	assert_int_equal(hartebeest_open(&hb, addr), 0);
	assert_int_equal(hartebeest_resolve(hb, "10.0.0.2", &path, 0), 0);
	assert_string_equal(path.device, "fake0");
	assert_int_equal(path.port, 1);
	assert_int_equal(path.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_memory_equal(path.sgid.raw, fake_rdmacm.path.sgid.raw, 16);
	assert_memory_equal(path.dgid.raw, fake_rdmacm.path.dgid.raw, 16);
	assert_int_equal(path.mtu, IBV_MTU_1024);
	assert_int_equal(path.rate, IBV_RATE_25_GBPS);
	assert_int_equal(path.hop_limit, 1);
	assert_int_equal(path.pkey, 0xffff);
	assert_int_equal(path.life_time, 18);
	assert_int_equal(fake_rdmacm.tos, 104);
	assert_int_equal(fake_rdmacm.timeout_ms, 100);
	assert_int_equal(fake_rdmacm.from.ss_family, AF_INET);

	/* For the other address family, the kernel chooses the source. */
	memset(&fake_rdmacm.from, 0, sizeof(fake_rdmacm.from));
	assert_int_equal(hartebeest_resolve(hb, "fd00::2", &path, 0), 0);
	assert_int_equal(fake_rdmacm.from.ss_family, 0);
	assert_int_equal(hartebeest_resolve(hb, "::1", &path, 0), -EINVAL);
	hartebeest_close(hb);

	/* A named device is asked from its own address; without a name, from any. */
	assert_int_equal(hartebeest_open(&hb, name), 0);
	assert_int_equal(hartebeest_resolve(hb, "10.0.0.2", &path, 0), 0);
	assert_int_equal(fake_rdmacm.from.ss_family, AF_INET);
	hartebeest_close(hb);
	memset(&fake_rdmacm.from, 0, sizeof(fake_rdmacm.from));
	assert_int_equal(hartebeest_open(&hb, NULL), 0);
	assert_int_equal(hartebeest_resolve(hb, "10.0.0.2", &path, 0), 0);
	assert_int_equal(fake_rdmacm.from.ss_family, 0);
	hartebeest_close(hb);
}

/* Tests silence with each kind of deadline; a look lasts at most a quarter of a second. */
static void resolve_by_deadline(void **state)
{
	const char *options[] = { "exchange.timeout=20ms", NULL };
	struct hartebeest_path path;
	struct hartebeest_context *hb;
	int64_t began;

	(void)state;
	fake_rdmacm.address.silent = true;
	assert_int_equal(hartebeest_open(&hb, options), 0);
	assert_int_equal(hartebeest_resolve(hb, "10.0.0.2", &path, 0), -ETIMEDOUT);
	began = beest_clock_now();
	assert_int_equal(hartebeest_resolve(hb, "10.0.0.2", &path, began + 300 * BEEST_MS),
			 -ETIMEDOUT);
	assert_true(beest_clock_now() >= began + 300 * BEEST_MS);
	assert_int_equal(hartebeest_resolve(hb, "10.0.0.2", &path, began), -ETIMEDOUT);
	assert_int_equal(hartebeest_resolve(hb, "10.0.0.2", &path, HARTEBEEST_ONCE), -EAGAIN);
	assert_int_equal(hartebeest_resolve(hb, "10.0.0.2", &path, -2), -EINVAL);
	hartebeest_cancel(hb);
	assert_int_equal(hartebeest_resolve(hb, "10.0.0.2", &path, INT64_MAX), -ECANCELED);
	assert_error_is("hartebeest_cancel() ended the call");
	hartebeest_cancel_clear(hb);
	fake_rdmacm.address.silent = false;
	assert_int_equal(hartebeest_resolve(hb, "10.0.0.2", &path, HARTEBEEST_ONCE), 0);
	hartebeest_close(hb);
}

static void infiniband_without_ipoib(void **state)
{
	const char *name[] = { "device.name=fake0", NULL };
	struct hartebeest_path path;
	struct hartebeest_context *hb;

	(void)state;
	fake_verbs_infiniband();
	assert_int_equal(hartebeest_open(&hb, name), 0);
	assert_int_equal(hartebeest_resolve(hb, "10.0.0.2", &path, 0), -EADDRNOTAVAIL);
	assert_error_is("port fake0:1 has no IP address, which rdma_cm needs: "
			"InfiniBand needs IPoIB (the kernel module ib_ipoib) with an address");
	hartebeest_close(hb);

	fake_verbs.devices[0].ports[0].gids[0].netdev = "ib0";
	fake_verbs.devices[0].ports[0].ips[0] = "10.1.0.7";
	fake_rdmacm_infiniband();
	assert_int_equal(hartebeest_open(&hb, name), 0);
	assert_int_equal(hartebeest_resolve(hb, "10.1.0.8", &path, 0), 0);
	assert_int_equal(path.dlid, 0x1234);
	assert_int_equal(ntohl(((struct sockaddr_in *)&fake_rdmacm.from)->sin_addr.s_addr),
			 0x0a010007);
	hartebeest_close(hb);
}

#define FRESH(test) cmocka_unit_test_setup_teardown(test, reset, check_closed)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FRESH(roce),
		FRESH(infiniband),
		FRESH(ipv6),
		FRESH(every_failure),
		FRESH(no_path),
		FRESH(no_device_without_source),
		FRESH(iwarp),
		FRESH(port_query_fails),
		FRESH(a_deadline_is_kept),
		FRESH(asked_again_after_a_time_out),
		FRESH(loopback_is_never_asked),
		FRESH(asked_once),
		FRESH(ends_without_address),
		FRESH(resolve_in_public),
		FRESH(resolve_by_deadline),
		FRESH(infiniband_without_ipoib),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
