/* SPDX-License-Identifier: MIT */
/*
 * transition.c - what two ends agree on, each attribute that follows, each refusal
 *
 * The masks are written here a second time, from the kernel's qp_state_table.  The fake device
 * enforces a third copy of them.
 *
 * promise: hartebeest_qp(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "lib/verbs/transition.h"
#include "tests/support/ah.h"
#include "tests/support/fake-verbs.h"

/* ------------------------------------------------------------ two ends --- */

struct pair {
	struct beest_qp_options options;
	struct beest_local local;
	struct beest_endpoint remote;
	struct beest_connection path;
	struct ibv_ah_attr ah;		/* the expected path.attr.ah_attr */
};

static void set_gid(struct beest_ipaddr *gid, const char *text)
{
	assert_int_equal(inet_pton(AF_INET6, text, gid->raw), 1);
}

static const struct beest_qp_options some_options = {
	.path_mtu = BEEST_AUTO,
	.rq_psn = BEEST_AUTO,
	.sq_psn = BEEST_AUTO,
	.sl = 3,
	.max_dest_rd_atomic = 16,
	.max_rd_atomic = 16,
	.min_rnr_timer = 12,
	.timeout = 14,
	.retry_cnt = 6,
	.rnr_retry = 5,
	.pkey = BEEST_AUTO,
	.traffic_class = 104,
	.hop_limit = 64,
	.flow_label = 0x98765,
	.static_rate = IBV_RATE_10_GBPS,
	.access_flags = BEEST_AUTO,
};

static const struct {
	uint8_t type;
	const char *text;
} types[BEEST_TRANSPORTS] = {
	[BEEST_RC] = { IBV_QPT_RC, "RC" },
	[BEEST_UC] = { IBV_QPT_UC, "UC" },
	[BEEST_UD] = { IBV_QPT_UD, "UD" },
};

static void common(struct pair *pair, enum beest_transport transport)
{
	memset(pair, 0, sizeof(*pair));
	pair->options = some_options;
	pair->local.options = &pair->options;
	pair->local.transport = transport;
	pair->local.port = 1;
	pair->local.sgid_index = 3;
	pair->local.pkey_index = 5;
	pair->local.max_init_rd_atomic = 16;
	pair->local.access_flags = 7;
	pair->local.endpoint = (struct beest_endpoint){
		.qp_type = types[transport].type, .mtu = IBV_MTU_4096,
		.max_dest_rd_atomic = 11, .pkey = 0xffff, .qp_num = 0x111111,
		.psn = 0x222222, .qkey = 0x0badcafe, .rank = -1,
	};
	pair->local.label = "own0:1";
	pair->remote = (struct beest_endpoint){
		.qp_type = types[transport].type, .mtu = IBV_MTU_4096,
		.max_dest_rd_atomic = 9, .pkey = 0xffff, .qp_num = 0xabcdef,
		.psn = 0x765432, .qkey = 0x0ddba11, .rank = 3,
	};
	pair->ah.port_num = 1;
	pair->ah.sl = 3;
	pair->ah.static_rate = IBV_RATE_10_GBPS;
}

static void infiniband(struct pair *pair, enum beest_transport transport)
{
	common(pair, transport);
	pair->local.endpoint.link_layer = pair->remote.link_layer = IBV_LINK_LAYER_INFINIBAND;
	pair->local.endpoint.lid = 7;
	pair->remote.lid = 0xbeef;
	set_gid(&pair->local.endpoint.gid, "fe80::7");
	set_gid(&pair->remote.gid, "fe80::beef");
	pair->ah.dlid = 0xbeef;
}

static void expect_grh(struct pair *pair)
{
	pair->ah.is_global = 1;
	memcpy(pair->ah.grh.dgid.raw, pair->remote.gid.raw, 16);
	pair->ah.grh.sgid_index = 3;
	pair->ah.grh.flow_label = 0x98765;
	pair->ah.grh.hop_limit = 64;
	pair->ah.grh.traffic_class = 104;
}

static void roce(struct pair *pair, enum beest_transport transport, enum beest_roce version)
{
	common(pair, transport);
	pair->local.endpoint.link_layer = pair->remote.link_layer = IBV_LINK_LAYER_ETHERNET;
	pair->local.endpoint.roce = pair->remote.roce = (uint8_t)version;
	pair->local.endpoint.mtu = pair->remote.mtu = IBV_MTU_1024;
	set_gid(&pair->local.endpoint.gid, "::ffff:10.0.0.1");
	set_gid(&pair->remote.gid, "::ffff:10.0.1.2");
	expect_grh(pair);
}

static void agree(struct pair *pair)
{
	memset(&pair->path, 0xa5, sizeof(pair->path));
	assert_int_equal(beest_transition_agree(&pair->local, &pair->remote, &pair->path), 0);
}

static void agrees(struct pair *pair)
{
	agree(pair);
	assert_ah_is(&pair->path.attr.ah_attr, &pair->ah);
}

/* A refusal names the two values that clash, and changes nothing. */
static void refuses(struct pair *pair, int ret, const char *sentence)
{
	struct beest_connection before;

	memset(&before, 0xa5, sizeof(before));
	pair->path = before;
	assert_int_equal(beest_transition_agree(&pair->local, &pair->remote, &pair->path), ret);
	assert_error_is(sentence);
	assert_memory_equal(&pair->path, &before, sizeof(before));
}

/* ------------------------------------------------------ address vector --- */

static void same_subnet_goes_by_lid(void **state)
{
	struct pair pair;
	int transport;

	(void)state;
	for (transport = 0; transport < BEEST_TRANSPORTS; transport++) {
		infiniband(&pair, transport);
		agrees(&pair);
		assert_int_equal(pair.path.attr.ah_attr.is_global, 0);
	}
}

static void either_port_may_demand_a_grh(void **state)
{
	struct pair pair;
	int side;

	(void)state;
	for (side = 1; side <= 3; side++) {
		infiniband(&pair, BEEST_RC);
		pair.local.endpoint.grh_required = side & 1;
		pair.remote.grh_required = side >> 1;
		expect_grh(&pair);
		agrees(&pair);
		assert_int_equal(pair.path.attr.ah_attr.dlid, 0xbeef);
	}
}

static void is_global_asks_for_a_grh(void **state)
{
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_UC);
	pair.options.is_global = 1;
	pair.options.hop_limit = 255;
	pair.options.traffic_class = 255;
	pair.local.sgid_index = 255;
	expect_grh(&pair);
	pair.ah.grh.hop_limit = 255;
	pair.ah.grh.traffic_class = 255;
	pair.ah.grh.sgid_index = 255;
	agrees(&pair);
}

static void other_prefix_goes_by_router(void **state)
{
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_RC);
	set_gid(&pair.local.endpoint.gid, "fec0:0:1234:1::7");
	set_gid(&pair.remote.gid, "fec0:0:5678:2::beef");
	expect_grh(&pair);
	pair.ah.dlid = 0x5678;		/* the FLID: bytes 4 and 5 of the peer's GID */
	agrees(&pair);
}

/* No packet reaches the LID of a peer in another subnet. */
static void other_prefix_without_flid_needs_rdmacm(void **state)
{
	static const char *const gids[] = {
		"fec0:0:0:2::beef",		/* no FLID */
		"fec0:0:c001:2::beef",		/* a multicast LID */
		"fec0:1:5678:2::beef", "2001:db8:5678::beef",	/* not of this form */
	};
	struct pair pair;
	char sentence[512];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(gids); i++) {
		infiniband(&pair, BEEST_RC);
		set_gid(&pair.remote.gid, gids[i]);
		snprintf(sentence, sizeof(sentence), "the peer (rank 3) (%s) is in another "
			 "InfiniBand subnet than this end (own0:1, fe80::7), and its GID has no "
			 "LID of a router: set HARTEBEEST_RESOLVER=rdmacm (device.resolver) at "
			 "both ends, which asks the subnet manager for the way", gids[i]);
		refuses(&pair, -EPROTO, sentence);
		pair.local.asks_rdmacm = true;
		agree(&pair);
		assert_int_equal(pair.path.attr.ah_attr.is_global, 1);
	}
}

/* Within one subnet, these bytes are part of the prefix and not a LID. */
static void same_prefix_has_no_flid(void **state)
{
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_RC);
	set_gid(&pair.local.endpoint.gid, "fec0:0:5678:2::7");
	set_gid(&pair.remote.gid, "fec0:0:5678:2::beef");
	agrees(&pair);
}

static void path_bits_within_the_lmc(void **state)
{
	struct pair pair;
	int bits;

	(void)state;
	for (bits = 0; bits < 4; bits++) {
		infiniband(&pair, BEEST_RC);
		pair.local.lmc = 2;
		pair.options.src_path_bits = bits;
		pair.ah.src_path_bits = (uint8_t)bits;
		agrees(&pair);
	}
}

static void path_bits_beyond_the_lmc(void **state)
{
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_RC);
	pair.local.lmc = 2;
	pair.options.src_path_bits = 4;
	refuses(&pair, -EINVAL, "option qp_attr.ah_attr.src_path_bits is 4, but port own0:1 "
		"has LMC 2: at most 3");

	pair.local.lmc = 0;
	pair.options.src_path_bits = 1;
	refuses(&pair, -EINVAL, "option qp_attr.ah_attr.src_path_bits is 1, but port own0:1 "
		"has LMC 0: at most 0");
}

/* The peer's LMC does not matter. */
static void path_bits_ask_the_own_lmc(void **state)
{
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_RC);
	pair.options.src_path_bits = 1;
	assert_int_equal(beest_transition_agree(&pair.local, &pair.remote, &pair.path), -EINVAL);
}

static void peer_without_lid(void **state)
{
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_RC);
	pair.remote.lid = 0;
	refuses(&pair, -EPROTO, "the port of the peer (rank 3) has no LID: is a subnet manager "
		"running?");
}

/* Omni-Path shows an extended LID as 0, and finds it in the GID. */
static void peer_with_an_extended_lid(void **state)
{
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_RC);
	pair.remote.lid = 0;
	pair.remote.grh_required = 1;
	expect_grh(&pair);
	pair.ah.dlid = 0;
	agrees(&pair);
}

static void roce_always_has_a_grh(void **state)
{
	struct pair pair;
	int transport, version;

	(void)state;
	for (transport = 0; transport < BEEST_TRANSPORTS; transport++)
		for (version = BEEST_ROCE_V1; version <= BEEST_ROCE_V2; version++) {
			roce(&pair, transport, version);
			agrees(&pair);
			assert_int_equal(pair.path.attr.ah_attr.dlid, 0);
		}
}

/* LIDs and path bits only exist on InfiniBand; RoCE ignores them. */
static void roce_has_no_lid(void **state)
{
	struct pair pair;

	(void)state;
	roce(&pair, BEEST_RC, BEEST_ROCE_V2);
	pair.remote.lid = 17;
	pair.options.src_path_bits = 5;
	agrees(&pair);
}

static void roce_over_ipv6(void **state)
{
	struct pair pair;

	(void)state;
	roce(&pair, BEEST_RC, BEEST_ROCE_V2);
	set_gid(&pair.local.endpoint.gid, "fd00::1");
	set_gid(&pair.remote.gid, "fe80::2");
	expect_grh(&pair);
	agrees(&pair);
}

/* The original passed the peer's port, which the kernel refuses with EINVAL. */
static void port_is_the_own_one(void **state)
{
	struct pair pair;
	struct ibv_qp_attr attr;

	(void)state;
	infiniband(&pair, BEEST_RC);
	pair.local.port = 2;
	pair.local.label = "own0:2";
	pair.ah.port_num = 2;
	agrees(&pair);
	beest_transition_attr(BEEST_TO_INIT, &pair.local, NULL, &attr);
	assert_int_equal(attr.port_num, 2);
	beest_transition_attr(BEEST_TO_RTR, &pair.local, &pair.path, &attr);
	assert_int_equal(attr.ah_attr.port_num, 2);
}

/* The service level is set by the options of this end, not by the peer. */
static void service_level_is_the_own_one(void **state)
{
	struct pair pair;

	(void)state;
	roce(&pair, BEEST_RC, BEEST_ROCE_V1);
	pair.options.sl = 15;
	pair.ah.sl = 15;
	agrees(&pair);
}

/* ------------------------------------------------------------- numbers --- */

static void mtu_is_the_smaller(void **state)
{
	struct pair pair;
	int mine, its;

	(void)state;
	for (mine = IBV_MTU_256; mine <= IBV_MTU_4096; mine++)
		for (its = IBV_MTU_256; its <= IBV_MTU_4096; its++) {
			infiniband(&pair, BEEST_RC);
			pair.local.endpoint.mtu = (uint8_t)mine;
			pair.remote.mtu = (uint8_t)its;
			agree(&pair);
			assert_int_equal(pair.path.attr.path_mtu, mine < its ? mine : its);
		}
}

static void mtu_in_bytes(void **state)
{
	(void)state;
	assert_int_equal(beest_transition_mtu_bytes(IBV_MTU_256), 256);
	assert_int_equal(beest_transition_mtu_bytes(IBV_MTU_512), 512);
	assert_int_equal(beest_transition_mtu_bytes(IBV_MTU_1024), 1024);
	assert_int_equal(beest_transition_mtu_bytes(IBV_MTU_2048), 2048);
	assert_int_equal(beest_transition_mtu_bytes(IBV_MTU_4096), 4096);
}

/* The least of the option, the limit of this device, and the limit of the peer. */
static void reads_out_are_the_least_of_three(void **state)
{
	static const struct {
		int wish;
		uint8_t device, peer, result;
	} rows[] = {
		{ 16, 16, 16, 16 }, { 4, 16, 16, 4 }, { 16, 8, 16, 8 }, { 16, 16, 2, 2 },
		{ 0, 16, 16, 0 }, { 16, 0, 16, 0 }, { 16, 16, 0, 0 }, { 255, 255, 255, 255 },
	};
	struct pair pair;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		infiniband(&pair, BEEST_RC);
		pair.options.max_rd_atomic = rows[i].wish;
		pair.local.max_init_rd_atomic = rows[i].device;
		pair.remote.max_dest_rd_atomic = rows[i].peer;
		agree(&pair);
		assert_int_equal(pair.path.attr.max_rd_atomic, rows[i].result);
	}
}

static void numbers_come_from_the_peer(void **state)
{
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_RC);
	agree(&pair);
	assert_int_equal(pair.path.attr.dest_qp_num, 0xabcdef);
	assert_int_equal(pair.path.attr.rq_psn, 0x765432);
}

static void a_given_rq_psn_is_checked(void **state)
{
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_RC);
	pair.options.rq_psn = 0x765432;
	agree(&pair);
	assert_int_equal(pair.path.attr.rq_psn, 0x765432);

	pair.options.rq_psn = 3185;
	refuses(&pair, -EPROTO, "option qp_attr.rq_psn is 3185, but the peer (rank 3) starts at "
		"sequence number 7754802: set its qp_attr.sq_psn too, or neither");

	pair.options.rq_psn = 0;
	refuses(&pair, -EPROTO, "option qp_attr.rq_psn is 0, but the peer (rank 3) starts at "
		"sequence number 7754802: set its qp_attr.sq_psn too, or neither");
}

/* ----------------------------------------------------- disagreements --- */

static void transports_differ(void **state)
{
	struct pair pair;
	char sentence[256];
	int mine, its;

	(void)state;
	for (mine = 0; mine < BEEST_TRANSPORTS; mine++)
		for (its = 0; its < BEEST_TRANSPORTS; its++) {
			if (mine == its)
				continue;
			infiniband(&pair, mine);
			pair.remote.qp_type = types[its].type;
			snprintf(sentence, sizeof(sentence), "the transport differs: %s here "
				 "(own0:1) but %s at the peer (rank 3): give both queue pairs the "
				 "same type", types[mine].text, types[its].text);
			refuses(&pair, -EPROTOTYPE, sentence);
		}
}

/* A later version may have transports that this one does not know. */
static void unknown_transport(void **state)
{
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_RC);
	pair.remote.qp_type = 200;
	refuses(&pair, -EPROTOTYPE, "the transport differs: RC here (own0:1) but unknown type at "
		"the peer (rank 3): give both queue pairs the same type");
}

static void link_layers_differ(void **state)
{
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_RC);
	pair.remote.link_layer = IBV_LINK_LAYER_ETHERNET;
	pair.remote.roce = BEEST_ROCE_V2;
	refuses(&pair, -EPROTOTYPE, "the link layer differs: InfiniBand here (own0:1) but Ethernet "
		"at the peer (rank 3): choose ports of the same kind by HARTEBEEST_DEVICE "
		"(device.name)");

	roce(&pair, BEEST_UD, BEEST_ROCE_V2);
	pair.remote.rank = -1;
	pair.remote.link_layer = IBV_LINK_LAYER_INFINIBAND;
	refuses(&pair, -EPROTOTYPE, "the link layer differs: Ethernet here (own0:1) but InfiniBand "
		"at the peer: choose ports of the same kind by HARTEBEEST_DEVICE (device.name)");
}

static void roce_versions_differ(void **state)
{
	struct pair pair;

	(void)state;
	roce(&pair, BEEST_RC, BEEST_ROCE_V1);
	pair.remote.roce = BEEST_ROCE_V2;
	refuses(&pair, -EPROTO, "the RoCE version differs: RoCE v1 here (own0:1) but RoCE v2 at "
		"the peer (rank 3): set device.roce to the same version at both ends");

	roce(&pair, BEEST_UC, BEEST_ROCE_V2);
	pair.remote.roce = BEEST_ROCE_V1;
	refuses(&pair, -EPROTO, "the RoCE version differs: RoCE v2 here (own0:1) but RoCE v1 at "
		"the peer (rank 3): set device.roce to the same version at both ends");
}

static void address_families_differ(void **state)
{
	struct pair pair;

	(void)state;
	roce(&pair, BEEST_RC, BEEST_ROCE_V2);
	set_gid(&pair.remote.gid, "fd00::2");
	refuses(&pair, -EPROTO, "the address family of the GID differs: IPv4 here (own0:1) but "
		"IPv6 at the peer (rank 3): set device.family to the same at both ends, whose "
		"interfaces must have such an address");

	roce(&pair, BEEST_RC, BEEST_ROCE_V2);
	set_gid(&pair.local.endpoint.gid, "fd00::2");
	refuses(&pair, -EPROTO, "the address family of the GID differs: IPv6 here (own0:1) but "
		"IPv4 at the peer (rank 3): set device.family to the same at both ends, whose "
		"interfaces must have such an address");
}

/* Between InfiniBand ports, neither RoCE version nor address family matters. */
static void infiniband_has_no_family(void **state)
{
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_RC);
	pair.remote.roce = BEEST_ROCE_V1;
	agrees(&pair);
}

static void partitions(void **state)
{
	static const struct {
		uint16_t mine, its;
		const char *what;	/* NULL: they can talk */
	} rows[] = {
		{ 0xffff, 0xffff, NULL },
		{ 0x8012, 0x8012, NULL },
		{ 0x8012, 0x0012, NULL },
		{ 0x0012, 0x8012, NULL },
		{ 0x0012, 0x0012, "the partition membership (two limited members cannot talk)" },
		{ 0x7fff, 0x7fff, "the partition membership (two limited members cannot talk)" },
		{ 0xffff, 0x8012, "the partition" },
		{ 0x8012, 0x8013, "the partition" },
		{ 0x0012, 0x8013, "the partition" },
		{ 0x0012, 0x0013, "the partition" },
	};
	char sentence[384];
	struct pair pair;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		infiniband(&pair, BEEST_RC);
		pair.local.endpoint.pkey = rows[i].mine;
		pair.remote.pkey = rows[i].its;
		if (!rows[i].what) {
			agrees(&pair);
			continue;
		}
		snprintf(sentence, sizeof(sentence), "%s differs: P_Key 0x%04x here (own0:1) but "
			 "0x%04x at the peer (rank 3): %s", rows[i].what,
			 rows[i].mine, rows[i].its, strstr(rows[i].what, "membership") ?
			 "make one of them a full member in the subnet manager, or set "
			 "qp_attr.pkey to another partition" :
			 "set qp_attr.pkey to a P_Key that both ports have");
		refuses(&pair, -EPROTO, sentence);
	}
}

/* ----------------------------------------------------- a path of rdma_cm --- */

static struct hartebeest_path some_route(const struct pair *pair)
{
	struct hartebeest_path route = {
		.device = "own0", .port = 1, .flow_label = 0x54321, .dlid = 0x1234,
		.pkey = 0xffff, .sl = 11, .src_path_bits = 5, .mtu = IBV_MTU_2048,
		.rate = IBV_RATE_100_GBPS, .hop_limit = 200, .traffic_class = 33,
	};

	route.link_layer = pair->local.endpoint.link_layer;
	inet_pton(AF_INET6, "fd00::77", route.dgid.raw);
	return route;
}

static void expect_route(struct pair *pair, const struct hartebeest_path *route)
{
	memset(&pair->ah, 0, sizeof(pair->ah));
	pair->ah.port_num = 1;
	pair->ah.sl = 11;
	pair->ah.static_rate = IBV_RATE_100_GBPS;
	pair->ah.is_global = 1;
	memcpy(pair->ah.grh.dgid.raw, route->dgid.raw, 16);
	pair->ah.grh.sgid_index = 9;
	pair->ah.grh.hop_limit = 200;
	pair->ah.grh.traffic_class = 33;
	pair->ah.grh.flow_label = 0x54321;
}

static void follows(struct pair *pair, const struct hartebeest_path *route)
{
	agree(pair);
	assert_int_equal(beest_transition_apply_path(&pair->local, route, 9, &pair->path), 0);
	assert_ah_is(&pair->path.attr.ah_attr, &pair->ah);
}

static void a_route_replaces_the_address(void **state)
{
	struct hartebeest_path route;
	struct pair pair;

	(void)state;
	roce(&pair, BEEST_RC, BEEST_ROCE_V2);
	route = some_route(&pair);
	expect_route(&pair, &route);
	follows(&pair, &route);
	assert_int_equal(pair.path.attr.path_mtu, IBV_MTU_1024);	/* the smaller */

	infiniband(&pair, BEEST_RC);
	route = some_route(&pair);
	expect_route(&pair, &route);
	pair.ah.dlid = 0x1234;
	pair.ah.src_path_bits = 5;
	follows(&pair, &route);
	assert_int_equal(pair.path.attr.path_mtu, IBV_MTU_2048);

	/* Without hops there is no GRH, unless a port requires one. */
	route.hop_limit = 0;
	pair.ah.is_global = 0;
	memset(&pair.ah.grh, 0, sizeof(pair.ah.grh));
	follows(&pair, &route);
	pair.remote.grh_required = 1;
	expect_route(&pair, &route);
	pair.ah.dlid = 0x1234;
	pair.ah.src_path_bits = 5;
	pair.ah.grh.hop_limit = 64;		/* the option's */
	follows(&pair, &route);

	/* A path record without MTU does not limit it. */
	route.mtu = 0;
	follows(&pair, &route);
	assert_int_equal(pair.path.attr.path_mtu, IBV_MTU_4096);
}

static void a_route_that_does_not_suit(void **state)
{
	struct hartebeest_path route;
	struct beest_connection before;
	struct pair pair;

	(void)state;
	infiniband(&pair, BEEST_RC);
	agree(&pair);
	before = pair.path;
	route = some_route(&pair);
	route.port = 2;
	assert_int_equal(beest_transition_apply_path(&pair.local, &route, 9, &pair.path), -EXDEV);
	assert_error_is("the path to fd00::77 leaves by port own0:2, but this end is port own0:1: "
			"set device.addr to an address of the port");
	route.port = 1;
	route.pkey = 0x8012;
	assert_int_equal(beest_transition_apply_path(&pair.local, &route, 9, &pair.path), -EPROTO);
	assert_memory_equal(&pair.path, &before, sizeof(before));
	route.link_layer = IBV_LINK_LAYER_ETHERNET;		/* RoCE has no partitions */
	assert_int_equal(beest_transition_apply_path(&pair.local, &route, 9, &pair.path), 0);
}

static void agreed_in_words(void **state)
{
	struct pair pair;
	char text[384], small[12];

	(void)state;
	roce(&pair, BEEST_RC, BEEST_ROCE_V2);
	pair.remote.mtu = IBV_MTU_512;
	agree(&pair);
	assert_string_equal(beest_transition_agreed_text(&pair.local, &pair.remote, &pair.path,
							 text, sizeof(text)),
			    "path MTU 512 (1024 here, 512 at the peer), reads out 9 (of 16 wanted, "
			    "16 of the device, 9 at the peer), in 11, flow label 0x98765 (UDP "
			    "source port 51011)");
	assert_string_equal(beest_transition_agreed_text(&pair.local, &pair.remote, &pair.path,
							 small, sizeof(small)), "path MTU...");
	roce(&pair, BEEST_UC, BEEST_ROCE_V2);
	agree(&pair);
	assert_string_equal(beest_transition_agreed_text(&pair.local, &pair.remote, &pair.path,
							 text, sizeof(text)),
			    "path MTU 1024 (1024 here, 1024 at the peer), flow label 0x98765 (UDP "
			    "source port 51011)");
	pair.local.endpoint.ece = (struct beest_ece){ 0x15b3, 0x13 };
	pair.remote.ece = (struct beest_ece){ 0x15b3, 0x31 };
	pair.path.attr.ah_attr.grh.flow_label = 0;
	pair.path.ece.options = 0x11;
	assert_string_equal(beest_transition_agreed_text(&pair.local, &pair.remote, &pair.path,
							 text, sizeof(text)),
			    "path MTU 1024 (1024 here, 1024 at the peer), ECE options 0x11 (0x13 "
			    "of vendor 0x15b3 here, 0x31 of 0x15b3 at the peer)");
}

/* By the kernel's rdma_calc_flow_label(), whose results for these numbers are known. */
static void a_flow_label_by_numbers(void **state)
{
	static const struct {
		uint32_t own, its, label;
	} rows[] = {
		{ 1, 1, 0x00001 }, { 0x11, 0x12, 0x00132 }, { 0xffffff, 0xffffff, 0xfff1e },
		{ 0x123456, 0x654321, 0xa77ae },
	};
	struct beest_qp_options options;
	struct pair pair;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		roce(&pair, BEEST_RC, BEEST_ROCE_V2);
		options = *pair.local.options;
		options.flow_label = BEEST_AUTO;
		pair.local.options = &options;
		pair.local.endpoint.qp_num = rows[i].own;
		pair.remote.qp_num = rows[i].its;
		agree(&pair);
		assert_int_equal(pair.path.attr.ah_attr.grh.flow_label, rows[i].label);
		/* Both ends find the same. */
		pair.local.endpoint.qp_num = rows[i].its;
		pair.remote.qp_num = rows[i].own;
		agree(&pair);
		assert_int_equal(pair.path.attr.ah_attr.grh.flow_label, rows[i].label);
	}
}

/* The worst disagreement first: partitions do not matter when RC meets UD. */
static void order_of_complaints(void **state)
{
	struct pair pair;

	(void)state;
	roce(&pair, BEEST_RC, BEEST_ROCE_V2);
	pair.options.rq_psn = 1;
	assert_int_equal(beest_transition_agree(&pair.local, &pair.remote, &pair.path), -EPROTO);
	assert_error_has("rq_psn");
	pair.remote.pkey = 0x8001;
	assert_int_equal(beest_transition_agree(&pair.local, &pair.remote, &pair.path), -EPROTO);
	assert_error_has("partition");
	pair.remote.roce = BEEST_ROCE_V1;
	assert_int_equal(beest_transition_agree(&pair.local, &pair.remote, &pair.path), -EPROTO);
	assert_error_has("RoCE version");
	pair.remote.link_layer = IBV_LINK_LAYER_INFINIBAND;
	assert_int_equal(beest_transition_agree(&pair.local, &pair.remote, &pair.path),
			 -EPROTOTYPE);
	assert_error_has("link layer");
	pair.remote.qp_type = IBV_QPT_UD;
	assert_int_equal(beest_transition_agree(&pair.local, &pair.remote, &pair.path),
			 -EPROTOTYPE);
	assert_error_has("transport");
}

/* ---------------------------------------------------------- attributes --- */

static const int masks[BEEST_TRANSITIONS][BEEST_TRANSPORTS] = {
	[BEEST_TO_INIT] = {
		[BEEST_RC] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[BEEST_UC] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[BEEST_UD] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	},
	[BEEST_TO_RTR] = {
		[BEEST_RC] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		[BEEST_UC] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN,
		[BEEST_UD] = IBV_QP_STATE,
	},
	[BEEST_TO_RTS] = {
		[BEEST_RC] = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
		[BEEST_UC] = IBV_QP_STATE | IBV_QP_SQ_PSN,
		[BEEST_UD] = IBV_QP_STATE | IBV_QP_SQ_PSN,
	},
};

static void masks_are_the_kernels(void **state)
{
	struct ibv_qp_attr attr;
	struct pair pair;
	int step, transport;

	(void)state;
	for (step = 0; step < BEEST_TRANSITIONS; step++)
		for (transport = 0; transport < BEEST_TRANSPORTS; transport++) {
			infiniband(&pair, transport);
			agree(&pair);
			assert_int_equal(beest_transition_attr(step, &pair.local, &pair.path,
							       &attr),
					 masks[step][transport]);
		}
}

/* Each attribute that some mask has, with its value here; the rest is in @pair->ah. */
static void attributes_are_both_ends(void **state)
{
	struct ibv_qp_attr attr;
	struct pair pair;
	int step, transport;

	(void)state;
	for (step = 0; step < BEEST_TRANSITIONS; step++)
		for (transport = 0; transport < BEEST_TRANSPORTS; transport++) {
			roce(&pair, transport, BEEST_ROCE_V2);
			agree(&pair);
			memset(&attr, 0xa5, sizeof(attr));
			beest_transition_attr(step, &pair.local, step == BEEST_TO_INIT ? NULL :
					      &pair.path, &attr);
			assert_int_equal(attr.qp_state, IBV_QPS_INIT + step);
			assert_int_equal(attr.pkey_index, 5);
			assert_int_equal(attr.port_num, 1);
			assert_int_equal(attr.qp_access_flags, 7);
			assert_int_equal(attr.qkey, 0x0badcafe);	/* this end's */
			assert_int_equal(attr.max_dest_rd_atomic, 11);
			assert_int_equal(attr.min_rnr_timer, 12);
			assert_int_equal(attr.sq_psn, 0x222222);
			assert_int_equal(attr.timeout, 14);
			assert_int_equal(attr.retry_cnt, 6);
			assert_int_equal(attr.rnr_retry, 5);
			if (step == BEEST_TO_INIT)
				continue;
			assert_ah_is(&attr.ah_attr, &pair.ah);
			assert_int_equal(attr.path_mtu, IBV_MTU_1024);
			assert_int_equal(attr.dest_qp_num, 0xabcdef);
			assert_int_equal(attr.rq_psn, 0x765432);
			assert_int_equal(attr.max_rd_atomic, 9);
		}
}

/* --------------------------------------------------------------- words --- */

static void types_in_words(void **state)
{
	(void)state;
	assert_string_equal(beest_transition_type_text(IBV_QPT_RC), "RC");
	assert_string_equal(beest_transition_type_text(IBV_QPT_UC), "UC");
	assert_string_equal(beest_transition_type_text(IBV_QPT_UD), "UD");
	assert_string_equal(beest_transition_type_text(IBV_QPT_RAW_PACKET), "unknown type");
	assert_int_equal(beest_transition_transport(IBV_QPT_RC), BEEST_RC);
	assert_int_equal(beest_transition_transport(IBV_QPT_UC), BEEST_UC);
	assert_int_equal(beest_transition_transport(IBV_QPT_UD), BEEST_UD);
	assert_int_equal(beest_transition_transport(IBV_QPT_RAW_PACKET), -EOPNOTSUPP);
	assert_error_is("queue pair type 8 is not supported: RC (2), UC (3) and UD (4) are");
	assert_int_equal(beest_transition_transport(0), -EOPNOTSUPP);
	assert_int_equal(beest_transition_transport(-1), -EOPNOTSUPP);
}

/* --------------------------------------------------------------- doing --- */

/* Makes a queue pair of the fake device, without the library. */
static struct ibv_qp *make_qp(int transport)
{
	struct ibv_qp_init_attr attr;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *verbs = ibv_open_device(list[0]);
	struct ibv_qp *qp;

	ibv_free_device_list(list);
	memset(&attr, 0, sizeof(attr));
	attr.qp_type = types[transport].type;
	attr.send_cq = attr.recv_cq = ibv_create_cq(verbs, 8, NULL, NULL, 0);
	attr.cap.max_send_wr = attr.cap.max_recv_wr = 1;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	qp = ibv_create_qp(ibv_alloc_pd(verbs), &attr);
	assert_non_null(qp);
	return qp;
}

/* Adapts the local end to the fake device. */
static void suit(struct pair *pair, int transport, bool is_infiniband)
{
	if (is_infiniband)
		infiniband(pair, transport);
	else
		roce(pair, transport, BEEST_ROCE_V2);
	pair->local.pkey_index = 0;
	agree(pair);
}

static void steps_are_taken(void **state)
{
	struct ibv_qp_attr attr;
	struct pair pair;
	struct ibv_qp *qp;
	int step, i;

	(void)state;
	for (i = 0; i < 2 * BEEST_TRANSPORTS; i++) {
		if (i % 2)
			fake_verbs_infiniband();
		else
			fake_verbs_reset();
		suit(&pair, i / 2, i % 2);
		qp = make_qp(i / 2);
		for (step = 0; step < BEEST_TRANSITIONS; step++) {
			assert_int_equal(beest_transition_take(step, qp, &pair.local, &pair.path),
					 0);
			assert_int_equal(qp->state, IBV_QPS_INIT + step);
			assert_int_equal(fake_verbs_last_modify(qp)->mask, masks[step][i / 2]);
			beest_transition_attr(step, &pair.local, &pair.path, &attr);
			assert_memory_equal(&fake_verbs_last_modify(qp)->attr, &attr,
					    sizeof(attr));
		}
		assert_int_equal(beest_transition_reset(qp), 0);
		assert_int_equal(fake_verbs_last_modify(qp)->mask, IBV_QP_STATE);
		assert_int_equal(qp->state, IBV_QPS_RESET);
	}
	fake_verbs_reset();
}

#define ON_ROCE "GID index 3 (::ffff:10.0.0.1) to QP 11259375 at ::ffff:10.0.1.2, LID 0, path " \
	"MTU 1024, reads out 9, in 11, timeout 14, retries 6)"
#define ON_INFINIBAND "GID index 3 (fe80::7) to QP 11259375 at LID 48879, path MTU 4096, reads " \
	"out 9, in 11, timeout 14, retries 6)"

static void a_failed_step_tells_why(void **state)
{
	static const struct {
		int step, error, infiniband;
		const char *text, *cause, *values;
	} rows[] = {
		{ BEEST_TO_INIT, EINVAL, 0, "RESET -> INIT", "the access flags or the P_Key index "
		  "do not suit the device", "port 1, P_Key index 0, access flags 0x7)" },
		{ BEEST_TO_INIT, EPERM, 1, "RESET -> INIT", "see dmesg(1) on this host",
		  "port 1, P_Key index 0, access flags 0x7)" },
		{ BEEST_TO_RTR, ETIMEDOUT, 0, "INIT -> RTR", "the peer's address 10.0.1.2 does "
		  "not answer to ARP or neighbour discovery: is its interface up, and in the same "
		  "network?",
		  ON_ROCE },
		{ BEEST_TO_RTR, ENETUNREACH, 0, "INIT -> RTR", "there is no route to the peer's "
		  "address 10.0.1.2", ON_ROCE },
		{ BEEST_TO_RTR, EHOSTUNREACH, 0, "INIT -> RTR", "there is no route to the peer's "
		  "address 10.0.1.2", ON_ROCE },
		{ BEEST_TO_RTR, ENODATA, 0, "INIT -> RTR", "the GID at this index is gone: was the "
		  "address removed?", ON_ROCE },
		{ BEEST_TO_RTR, ENODEV, 0, "INIT -> RTR", "the GID belongs to no interface of this "
		  "network name space", ON_ROCE },
		{ BEEST_TO_RTR, ENXIO, 0, "INIT -> RTR", "the GID at this index has no network "
		  "interface", ON_ROCE },
		{ BEEST_TO_RTR, EINVAL, 1, "INIT -> RTR", "the device rejects one of these "
		  "values (it may have no resources left for incoming reads: "
		  "qp_attr.max_dest_rd_atomic), or the GID table changed", ON_INFINIBAND },
		{ BEEST_TO_RTR, ENOMEM, 0, "INIT -> RTR", "the device has no resources left, "
		  "perhaps for incoming reads: lower qp_attr.max_dest_rd_atomic", ON_ROCE },
		{ BEEST_TO_RTR, EIO, 0, "INIT -> RTR", "see dmesg(1) on this host", ON_ROCE },
		{ BEEST_TO_RTS, EINVAL, 0, "RTR -> RTS", "max_rd_atomic, timeout or retry counts "
		  "exceed the device", ON_ROCE },
		{ BEEST_TO_RTS, ETIMEDOUT, 1, "RTR -> RTS", "see dmesg(1) on this host",
		  ON_INFINIBAND },
	};
	char sentence[1024];
	struct pair pair;
	struct ibv_qp *qp;
	size_t i;
	int step;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		if (rows[i].infiniband)
			fake_verbs_infiniband();
		else
			fake_verbs_reset();
		suit(&pair, BEEST_RC, rows[i].infiniband);
		qp = make_qp(BEEST_RC);
		for (step = 0; step < rows[i].step; step++)
			assert_int_equal(beest_transition_take(step, qp, &pair.local, &pair.path),
					 0);
		fake_verbs_fail("ibv_modify_qp", 1, rows[i].error);
		assert_int_equal(beest_transition_take(step, qp, &pair.local,
						       step ? &pair.path : NULL),
				 -rows[i].error);
		snprintf(sentence, sizeof(sentence), "%s of QP %u on own0:1 failed: %s; %s (%s",
			 rows[i].text, qp->qp_num, strerror(rows[i].error), rows[i].cause,
			 rows[i].values);
		assert_error_is(sentence);
		assert_int_equal(qp->state, IBV_QPS_RESET + step);
	}
	fake_verbs_reset();
}

static void a_failed_reset_is_told(void **state)
{
	struct ibv_qp *qp;

	(void)state;
	fake_verbs_reset();
	qp = make_qp(BEEST_RC);
	fake_verbs_fail("ibv_modify_qp", 1, EIO);
	assert_int_equal(beest_transition_reset(qp), -EIO);
	assert_error_has("resetting QP ");
	assert_error_has(" failed: Input/output error");
	fake_verbs_reset();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_subnet_goes_by_lid),
		cmocka_unit_test(either_port_may_demand_a_grh),
		cmocka_unit_test(is_global_asks_for_a_grh),
		cmocka_unit_test(other_prefix_goes_by_router),
		cmocka_unit_test(other_prefix_without_flid_needs_rdmacm),
		cmocka_unit_test(same_prefix_has_no_flid),
		cmocka_unit_test(path_bits_within_the_lmc),
		cmocka_unit_test(path_bits_beyond_the_lmc),
		cmocka_unit_test(path_bits_ask_the_own_lmc),
		cmocka_unit_test(peer_without_lid),
		cmocka_unit_test(peer_with_an_extended_lid),
		cmocka_unit_test(roce_always_has_a_grh),
		cmocka_unit_test(roce_has_no_lid),
		cmocka_unit_test(roce_over_ipv6),
		cmocka_unit_test(port_is_the_own_one),
		cmocka_unit_test(service_level_is_the_own_one),
		cmocka_unit_test(mtu_is_the_smaller),
		cmocka_unit_test(mtu_in_bytes),
		cmocka_unit_test(reads_out_are_the_least_of_three),
		cmocka_unit_test(numbers_come_from_the_peer),
		cmocka_unit_test(a_given_rq_psn_is_checked),
		cmocka_unit_test(transports_differ),
		cmocka_unit_test(unknown_transport),
		cmocka_unit_test(link_layers_differ),
		cmocka_unit_test(roce_versions_differ),
		cmocka_unit_test(address_families_differ),
		cmocka_unit_test(infiniband_has_no_family),
		cmocka_unit_test(partitions),
		cmocka_unit_test(order_of_complaints),
		cmocka_unit_test(a_route_replaces_the_address),
		cmocka_unit_test(a_route_that_does_not_suit),
		cmocka_unit_test(agreed_in_words),
		cmocka_unit_test(a_flow_label_by_numbers),
		cmocka_unit_test(masks_are_the_kernels),
		cmocka_unit_test(attributes_are_both_ends),
		cmocka_unit_test(types_in_words),
		cmocka_unit_test(steps_are_taken),
		cmocka_unit_test(a_failed_step_tells_why),
		cmocka_unit_test(a_failed_reset_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
