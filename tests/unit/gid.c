/* SPDX-License-Identifier: MIT */
/*
 * gid.c - GID policies as text, and their choices from GID tables as hosts have them
 *
 * promise: hartebeest.json(5)
 */
#include "config.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "lib/verbs/gid.h"
#include "tests/support/unit.h"

#define ENTRIES 16

/* index, GID, version, interface, down; a row without a GID ends the table. */
struct row {
	int index;
	const char *gid;
	int roce;
	const char *netdev;
	bool down;
};

/* show_gids(8) of a ConnectX-5 with an address of each family. */
static const struct row mlx5[] = {
	{ 0, "fe80::ba59:9fff:fe12:3456", 1, "ens1f0", false },
	{ 1, "fe80::ba59:9fff:fe12:3456", 2, "ens1f0", false },
	{ 2, "fd00:1::17", 1, "ens1f0", false },
	{ 3, "fd00:1::17", 2, "ens1f0", false },
	{ 4, "::ffff:192.168.7.17", 1, "ens1f0", false },
	{ 5, "::ffff:192.168.7.17", 2, "ens1f0", false },
	{ 0, NULL, 0, NULL, false },
};

/* A bond with a VLAN whose interface is down, and the default GIDs of both. */
static const struct row bond[] = {
	{ 0, "fe80::1e34:daff:fe00:1", 1, "bond0", false },
	{ 1, "fe80::1e34:daff:fe00:1", 2, "bond0", false },
	{ 2, "::ffff:10.20.0.3", 1, "bond0", false },
	{ 3, "::ffff:10.20.0.3", 2, "bond0", false },
	{ 4, "::ffff:10.30.0.3", 1, "bond0.30", true },
	{ 5, "::ffff:10.30.0.3", 2, "bond0.30", true },
	{ 0, NULL, 0, NULL, false },
};

/* In a container: entries of other namespaces are missing or have no interface. */
static const struct row container[] = {
	{ 1, "fe80::1e34:daff:fe00:9", 2, "", false },
	{ 3, "::ffff:10.1.1.1", 2, "", false },
	{ 9, "::ffff:172.17.0.1", 2, "docker0", false },
	{ 12, "::ffff:169.254.3.3", 2, "eth0", false },
	{ 14, "::ffff:10.244.1.6", 1, "eth0", false },
	{ 15, "::ffff:10.244.1.6", 2, "eth0", false },
	{ 0, NULL, 0, NULL, false },
};

/* bnxt_re on a network without IPv4; index 0 has no interface part. */
static const struct row ipv6_only[] = {
	{ 0, "fe80::", 1, "enp2s0", false },
	{ 1, "fe80::", 2, "enp2s0", false },
	{ 2, "fe80::20a:f7ff:fe00:2", 1, "enp2s0", false },
	{ 3, "fe80::20a:f7ff:fe00:2", 2, "enp2s0", false },
	{ 4, "2001:db8::2", 1, "enp2s0", false },
	{ 5, "2001:db8::2", 2, "enp2s0", false },
	{ 0, NULL, 0, NULL, false },
};

/* fe80::/10 covers more than fe80::/16. */
static const struct row far_link_local[] = {
	{ 0, "febf::1", 2, "eth0", false },
	{ 1, "2001:db8::9", 2, "eth0", false },
	{ 0, NULL, 0, NULL, false },
};

static const struct row infiniband[] = {
	{ 0, "fe80::f452:1403:7b:cba1", 0, "ib0", false },
	{ 0, NULL, 0, NULL, false },
};

/* Routed InfiniBand: a second prefix beside the default. */
static const struct row routed[] = {
	{ 0, "fe80::f452:1403:7b:cba1", 0, "ib0", true },
	{ 1, "fec0:0:0:5:f452:1403:7b:cba1", 0, "", false },
	{ 4, "fec0:0:0:7:f452:1403:7b:cba1", 0, "", false },
	{ 0, NULL, 0, NULL, false },
};

/* Soft-RoCE on a veth pair, as in the virtual machine of the tests. */
static const struct row rxe[] = {
	{ 0, "fe80::e8d1:40ff:fe00:1", 2, "v0", false },
	{ 1, "::ffff:10.9.0.1", 2, "v0", false },
	{ 0, NULL, 0, NULL, false },
};

/* Physical interfaces come before those of containers, even with a higher index. */
static const struct row virtual[] = {
	{ 0, "::ffff:172.17.0.1", 2, "docker0", false },
	{ 1, "::ffff:10.88.0.1", 2, "cni-podman0", false },
	{ 2, "::ffff:10.244.0.0", 2, "flannel.1", false },
	{ 3, "::ffff:10.1.0.1", 2, "cali1234", false },
	{ 4, "::ffff:10.2.0.1", 2, "vxlan.calico", false },
	{ 5, "::ffff:172.18.0.1", 2, "br-3f1e", false },
	{ 6, "::ffff:10.3.0.1", 2, "veth77", false },
	{ 7, "::ffff:10.4.0.1", 2, "eno1", false },
	{ 8, "::ffff:10.5.0.1", 2, "eno1", false },
	{ 0, NULL, 0, NULL, false },
};

static const struct row nothing[] = { { 0, NULL, 0, NULL, false } };

static void gid_of(const char *text, struct beest_ipaddr *gid)
{
	assert_int_equal(inet_pton(AF_INET6, text, gid->raw), 1);
}

static size_t load(const struct row *rows, struct beest_gid_entry entries[ENTRIES])
{
	size_t count = 0;

	memset(entries, 0, ENTRIES * sizeof(entries[0]));
	for (; rows->gid; rows++, count++) {
		gid_of(rows->gid, &entries[count].gid);
		entries[count].index = rows->index;
		entries[count].roce = (enum beest_roce)rows->roce;
		entries[count].netdev_down = rows->down;
		snprintf(entries[count].netdev, IF_NAMESIZE, "%s", rows->netdev);
	}
	return count;
}

static enum beest_roce roce_of(const char *word)
{
	return !word || strcmp(word, "auto") == 0 ? BEEST_ROCE_NONE :
	       strcmp(word, "v1") == 0 ? BEEST_ROCE_V1 : BEEST_ROCE_V2;
}

static int family_of(const char *word)
{
	return !word || strcmp(word, "auto") == 0 ? AF_UNSPEC :
	       strcmp(word, "ipv4") == 0 ? AF_INET : AF_INET6;
}

/* The chosen index, or a negative errno. */
static int choice(const struct row *rows, const char *gid, const char *roce,
		  const char *family)
{
	struct beest_gid_entry entries[ENTRIES];
	struct beest_gid_policy policy;
	size_t count = load(rows, entries);
	char reason[1024];
	int ret;

	ret = beest_gid_policy_parse(gid ? gid : "auto", roce_of(roce), family_of(family),
				     &policy);
	if (ret < 0) {
		print_error("%s\n", beest_error_text());
		fail();
	}
	ret = beest_gid_choose(entries, count, &policy, reason, sizeof(reason));
	return ret < 0 ? ret : entries[ret].index;
}

/* ------------------------------------------------------------- choices --- */

static const struct {
	const struct row *rows;
	const char *gid, *roce, *family;
	int index;
} choices[] = {
	{ mlx5, "auto", "auto", "auto", 5 },
	{ mlx5, NULL, NULL, NULL, 5 },
	{ mlx5, "auto", "v1", "auto", 4 },
	{ mlx5, "auto", "v2", "auto", 5 },
	{ mlx5, "auto", "auto", "ipv4", 5 },
	{ mlx5, "auto", "auto", "ipv6", 3 },
	{ mlx5, "auto", "v1", "ipv6", 2 },
	{ mlx5, "index:0", "auto", "auto", 0 },
	{ mlx5, "index:3", "v2", "ipv6", 3 },
	{ mlx5, "gid:fe80::ba59:9fff:fe12:3456", "auto", "auto", 1 },
	{ mlx5, "gid:fe80::ba59:9fff:fe12:3456", "v1", "auto", 0 },
	{ mlx5, "gid:0000:0000:0000:0000:0000:ffff:c0a8:0711", "auto", "auto", 5 },
	{ mlx5, "ip:192.168.7.17", "auto", "auto", 5 },
	{ mlx5, "ip:192.168.7.17", "v1", "auto", 4 },
	{ mlx5, "ip:fd00:1::17", "auto", "auto", 3 },
	{ mlx5, "subnet:192.168.0.0/16", "auto", "auto", 5 },
	{ mlx5, "subnet:192.168.0.0/21", "auto", "auto", 5 },
	{ mlx5, "subnet:192.168.7.16/31", "auto", "auto", 5 },
	{ mlx5, "subnet:192.168.7.17/32", "auto", "auto", 5 },
	{ mlx5, "subnet:0.0.0.0/0", "auto", "auto", 5 },
	{ mlx5, "subnet:fd00::/8", "auto", "auto", 3 },
	{ mlx5, "subnet:fe80::/10", "auto", "auto", 1 },
	{ mlx5, "subnet:::/0", "auto", "ipv6", 3 },
	{ mlx5, "netdev:ens1f0", "auto", "auto", 5 },
	{ bond, "auto", "auto", "auto", 3 },
	{ bond, "auto", "v1", "auto", 2 },
	{ bond, "netdev:bond0", "auto", "ipv6", 1 },
	{ container, "auto", "auto", "auto", 15 },
	{ container, "auto", "v1", "auto", 14 },
	{ container, "ip:172.17.0.1", "auto", "auto", 9 },
	{ container, "ip:10.1.1.1", "auto", "auto", 3 },
	{ container, "subnet:169.254.0.0/16", "auto", "auto", 12 },
	{ container, "index:1", "auto", "auto", 1 },
	{ ipv6_only, "auto", "auto", "auto", 5 },
	{ ipv6_only, "subnet:fe80::/64", "auto", "auto", 3 },
	{ ipv6_only, "auto", "v1", "auto", 4 },
	{ far_link_local, "auto", "auto", "auto", 1 },
	{ infiniband, "auto", "auto", "auto", 0 },
	{ infiniband, "auto", "v2", "ipv4", 0 },	/* both concern only RoCE */
	{ infiniband, "netdev:ib0", "auto", "auto", 0 },
	{ infiniband, "gid:fe80::f452:1403:7b:cba1", "auto", "auto", 0 },
	{ routed, "auto", "auto", "auto", 0 },		/* although IPoIB is down */
	{ routed, "index:4", "auto", "auto", 4 },
	{ routed, "subnet:fec0::/16", "auto", "auto", 1 },
	{ routed, "subnet:fec0:0:0:7::/64", "auto", "auto", 4 },
	{ rxe, "auto", "auto", "auto", 1 },
	{ rxe, "auto", "auto", "ipv6", 0 },
	{ virtual, "auto", "auto", "auto", 7 },
	{ virtual, "netdev:docker0", "auto", "auto", 0 },
	{ virtual, "subnet:10.3.0.0/16", "auto", "auto", 6 },
};

static void test_choices(void **state)
{
	size_t i;
	int got;

	(void)state;
	for (i = 0; i < BEEST_COUNT(choices); i++) {
		got = choice(choices[i].rows, choices[i].gid, choices[i].roce,
			     choices[i].family);
		if (got != choices[i].index)
			print_error("row %zu, %s: %s\n", i, choices[i].gid, beest_error_text());
		assert_int_equal(got, choices[i].index);
	}
}

/* The order of a table does not matter. */
static void test_order(void **state)
{
	struct beest_gid_policy policy = { .rule = BEEST_GID_AUTO };
	struct beest_gid_entry entries[ENTRIES], first;
	size_t count = load(mlx5, entries), i;
	char reason[256];
	int best;

	(void)state;
	for (i = 0; i < count; i++) {
		first = entries[0];
		memmove(entries, entries + 1, (count - 1) * sizeof(first));
		entries[count - 1] = first;
		best = beest_gid_choose(entries, count, &policy, reason, sizeof(reason));
		assert_int_equal(entries[best].index, 5);
	}
}

/* ------------------------------------------------------------ refusals --- */

static const struct {
	const struct row *rows;
	const char *gid, *roce, *family;
	const char *sentence;
} refusals[] = {
	{ nothing, "auto", "auto", "auto",
	  "no GID fits auto: the GID table has no entry that can be read" },
	{ rxe, "index:3", "auto", "auto",
	  "no GID fits index:3: "
	  "index 0: fe80::e8d1:40ff:fe00:1, RoCE v2, v0 (another index); "
	  "index 1: ::ffff:10.9.0.1, RoCE v2, v0 (another index)" },
	{ rxe, "index:1", "v1", "auto", "RoCE v2, v0 (the other RoCE version)" },
	{ rxe, "index:1", "v1", "auto", "no GID fits index:1, RoCE v1 only: " },
	{ rxe, "index:1", "auto", "ipv6", "no GID fits index:1, IPv6 only: " },
	{ rxe, "index:1", "auto", "ipv6", "v0 (the other address family)" },
	{ rxe, "ip:10.9.0.2", "auto", "auto", "no GID fits ip:10.9.0.2: " },
	{ rxe, "ip:10.9.0.2", "auto", "auto", "v0 (another address)" },
	{ rxe, "ip:fd00::1", "auto", "auto", "no GID fits ip:fd00::1: " },
	{ rxe, "gid:::ffff:10.9.0.2", "auto", "auto", "no GID fits gid:::ffff:10.9.0.2: " },
	{ rxe, "subnet:10.8.0.0/16", "auto", "auto", "no GID fits subnet:10.8.0.0/16: " },
	{ rxe, "subnet:10.8.0.0/16", "auto", "auto", "v0 (another subnet)" },
	{ mlx5, "subnet:192.168.0.0/22", "auto", "auto", "no GID fits subnet:192.168.0.0/22: " },
	{ rxe, "subnet:fd00::/8", "auto", "auto", "no GID fits subnet:fd00::/8: " },
	{ rxe, "subnet:10.9.0.0/31", "auto", "ipv6",
	  "no GID fits subnet:10.9.0.0/31, IPv6 only: " },
	{ rxe, "netdev:eth0", "auto", "auto", "no GID fits netdev:eth0: " },
	{ rxe, "netdev:eth0", "auto", "auto", "v0 (another interface)" },
	{ rxe, "netdev:v", "auto", "auto", "no GID fits netdev:v: " },
	{ rxe, "auto", "auto", "auto", NULL },
	{ bond, "ip:10.30.0.3", "auto", "auto",
	  "index 5: ::ffff:10.30.0.3, RoCE v2, bond0.30 (interface down)" },
	{ ipv6_only, "index:1", "auto", "auto", "enp2s0 (no interface part)" },
	{ ipv6_only, "auto", "auto", "ipv4", "no GID fits auto, IPv4 only: " },
	{ infiniband, "ip:10.0.0.1", "auto", "auto",
	  "an InfiniBand GID holds no IP address, choose by netdev; index 0: " },
	{ infiniband, "netdev:ib1", "auto", "auto",
	  "no GID fits netdev:ib1: index 0: fe80::f452:1403:7b:cba1, InfiniBand, ib0 "
	  "(another interface)" },
};

static void test_refusals(void **state)
{
	size_t i;
	int got;

	(void)state;
	for (i = 0; i < BEEST_COUNT(refusals); i++) {
		got = choice(refusals[i].rows, refusals[i].gid, refusals[i].roce,
			     refusals[i].family);
		if (!refusals[i].sentence) {
			assert_true(got >= 0);
			continue;
		}
		assert_int_equal(got, -ENODATA);
		assert_error_has(refusals[i].sentence);
	}
}

static void test_zero_is_no_gid(void **state)
{
	struct beest_gid_policy policy = { .rule = BEEST_GID_INDEX, .index = 2 };
	struct beest_gid_entry entry = { .index = 2, .roce = BEEST_ROCE_V2 };
	char reason[64];

	(void)state;
	assert_true(beest_ipaddr_is_zero(&entry.gid));
	assert_int_equal(beest_gid_choose(&entry, 1, &policy, reason, sizeof(reason)),
			 -ENODATA);
	assert_error_has("(empty)");
}

/* Skips each choice in turn: shows the order of preference, until no GID is left. */
static void test_skip(void **state)
{
	static const int order[] = { 5, 3, 1, 4, 2, 0 };
	struct beest_gid_policy policy = { .rule = BEEST_GID_AUTO };
	struct beest_gid_entry entries[ENTRIES];
	size_t count = load(mlx5, entries), i;
	char reason[1024];
	int best;

	(void)state;
	for (i = 0; i < count; i++) {
		best = beest_gid_choose(entries, count, &policy, reason, sizeof(reason));
		assert_int_equal(entries[best].index, order[i]);
		entries[best].trial_error = ENETUNREACH;
	}
	best = beest_gid_choose(entries, count, &policy, reason, sizeof(reason));
	assert_int_equal(best, -ENODATA);
	assert_error_has("index 0: fe80::ba59:9fff:fe12:3456, RoCE v1, ens1f0 (tried and failed: "
			 "Network is unreachable)");
}

/* ------------------------------------------------------------- reasons --- */

static void reason_for(const struct row *rows, const char *gid, char *reason, size_t size)
{
	struct beest_gid_entry entries[ENTRIES];
	struct beest_gid_policy policy;
	size_t count = load(rows, entries);

	assert_int_equal(beest_gid_policy_parse(gid, BEEST_ROCE_NONE, AF_UNSPEC, &policy), 0);
	assert_true(beest_gid_choose(entries, count, &policy, reason, size) >= 0);
}

static void test_reasons(void **state)
{
	char reason[1024];

	(void)state;
	reason_for(infiniband, "auto", reason, sizeof(reason));
	assert_string_equal(reason, "index 0: fe80::f452:1403:7b:cba1, InfiniBand, ib0 is the "
			    "only one; chosen by auto");

	reason_for(rxe, "netdev:v0", reason, sizeof(reason));
	assert_string_equal(reason, "index 1: ::ffff:10.9.0.1, RoCE v2, v0 was chosen by "
			    "netdev:v0; index 0: fe80::e8d1:40ff:fe00:1, RoCE v2, v0 "
			    "(not IPv4)");

	reason_for(container, "auto", reason, sizeof(reason));
	assert_non_null(strstr(reason, "index 3: ::ffff:10.1.1.1, RoCE v2 (no known interface)"));
	assert_non_null(strstr(reason, "docker0 (virtual interface)"));
	assert_non_null(strstr(reason, "169.254.3.3, RoCE v2, eth0 (link-local)"));
	assert_non_null(strstr(reason, "10.244.1.6, RoCE v1, eth0 (RoCE v1)"));

	reason_for(virtual, "auto", reason, sizeof(reason));
	assert_non_null(strstr(reason, "10.5.0.1, RoCE v2, eno1 (higher index)"));
}

/* A short buffer truncates the reason visibly. */
static void test_short_reason(void **state)
{
	char reason[1024], cut[1024];
	size_t size, length;

	(void)state;
	reason_for(mlx5, "auto", reason, sizeof(reason));
	length = strlen(reason);
	for (size = 4; size <= length + 1; size++) {
		memset(cut, 'x', sizeof(cut));
		reason_for(mlx5, "auto", cut, size);
		assert_int_equal(cut[size], 'x');
		if (size <= length) {
			assert_int_equal(strlen(cut), size - 1);
			assert_string_equal(cut + size - 4, "...");
			assert_memory_equal(cut, reason, size - 4);
		}
	}
	assert_string_equal(cut, reason);
}

/* With 255 entries, the sentence is truncated and the buffer not overrun. */
static void test_big_table(void **state)
{
	static struct beest_gid_entry entries[255];
	struct beest_gid_policy policy = { .rule = BEEST_GID_NETDEV, .netdev = "eth0" };
	char reason[256];
	int i;

	(void)state;
	for (i = 0; i < 255; i++) {
		gid_of("2001:db8::1", &entries[i].gid);
		entries[i].index = i;
		entries[i].roce = BEEST_ROCE_V2;
	}
	assert_int_equal(beest_gid_choose(entries, 255, &policy, reason, sizeof(reason)),
			 -ENODATA);
	assert_error_has("...");
	assert_true(strlen(beest_error_text()) < BEEST_ERROR_SIZE - 1);
}

/* Soft-RoCE has 1024 entries, but an address handle cannot name an index above 255. */
static void test_far_index(void **state)
{
	struct beest_gid_policy policy = { .rule = BEEST_GID_AUTO };
	struct beest_gid_entry entries[2] = {
		{ .index = 3, .roce = BEEST_ROCE_V1, .netdev = "eth0" },
		{ .index = 256 + 7, .roce = BEEST_ROCE_V2, .netdev = "eth0" },
	};
	char reason[256];

	(void)state;
	gid_of("::ffff:10.0.0.1", &entries[0].gid);
	gid_of("::ffff:10.0.0.1", &entries[1].gid);
	assert_int_equal(beest_gid_choose(entries, 2, &policy, reason, sizeof(reason)), 0);
	assert_non_null(strstr(reason, "index 263: ::ffff:10.0.0.1, RoCE v2, eth0 (beyond index "
			       "255)"));
	assert_int_equal(beest_gid_choose(&entries[1], 1, &policy, reason, sizeof(reason)),
			 -ENODATA);
}

/* ------------------------------------------------------------- parsing --- */

static const struct {
	const char *gid, *sentence;
} malformed[] = {
	{ "", "'' is not a choice of GID: auto, index:3, gid:fe80::1, ip:10.0.0.5, "
	      "subnet:10.0.0.0/24 or netdev:ib0" },
	{ "3", "'3' is not a choice of GID" },
	{ "Auto", ", the nearest is auto" },
	{ "autoo", ", the nearest is auto" },
	{ "auto:", "'auto:' is not a choice of GID" },
	{ "idnex:3", ", the nearest is index" },
	{ "netdevice:ib0", "'netdevice:ib0' is not a choice of GID" },
	{ "index", "'index' is not a choice of GID" },
	{ "averyveryverylongword:3", "is not a choice of GID" },
	{ "index:", "GID index: '' is not a number" },
	{ "index:-1", "GID index: '-1'" },
	{ "index:256", "GID index: '256' is out of range: 0 to 255" },
	{ "index:3x", "GID index: '3x'" },
	{ "gid:", "'' is not a GID such as fe80::1" },
	{ "gid:10.0.0.1", "'10.0.0.1' is not a GID such as fe80::1" },
	{ "gid:fe80::1::2", "is not a GID" },
	{ "gid:::", "the GID '::' is zero" },
	{ "ip:", "'' is not an IPv4 or IPv6 address" },
	{ "ip:10.0.0", "'10.0.0' is not an IPv4 or IPv6 address" },
	{ "ip:node7", "'node7' is not an IPv4 or IPv6 address" },
	{ "ip:10.0.0.5/24", "'10.0.0.5/24' is not an IPv4 or IPv6 address" },
	{ "ip:0.0.0.0", "'0.0.0.0' is not an interface address" },
	{ "ip:::", "'::' is not an interface address" },
	{ "subnet:", "'' is not a subnet such as 10.0.0.0/24" },
	{ "subnet:10.0.0.0", "'10.0.0.0' is not a subnet" },
	{ "subnet:/24", "'/24' is not a subnet" },
	{ "subnet:10.0.0/24", "'10.0.0/24' is not a subnet" },
	{ "subnet:10.0.0.0/33", "the prefix length of subnet '10.0.0.0/33': '33'" },
	{ "subnet:10.0.0.0/", "the prefix length of subnet '10.0.0.0/'" },
	{ "subnet:fd00::/129", "'129' is out of range: 0 to 128" },
	{ "subnet:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000/8",
	  "is not a subnet" },
	{ "netdev:", "'' is not a network interface" },
	{ "netdev:a b", "'a b' is not a network interface" },
	{ "netdev:../etc", "'../etc' is not a network interface" },
	{ "netdev:sixteen-bytes-ab", "is not a network interface: 1 to 15 bytes" },
};

static void test_malformed(void **state)
{
	struct beest_gid_policy policy, before;
	size_t i;

	(void)state;
	memset(&before, 0x5a, sizeof(before));
	for (i = 0; i < BEEST_COUNT(malformed); i++) {
		policy = before;
		assert_int_equal(beest_gid_policy_parse(malformed[i].gid, BEEST_ROCE_NONE,
							AF_UNSPEC, &policy), -EINVAL);
		assert_error_has(malformed[i].sentence);
		assert_memory_equal(&policy, &before, sizeof(policy));
	}
}

static void test_parsed(void **state)
{
	struct beest_gid_policy policy;

	(void)state;
	assert_int_equal(beest_gid_policy_parse("index:0x10", BEEST_ROCE_V1, AF_INET6, &policy), 0);
	assert_int_equal(policy.rule, BEEST_GID_INDEX);
	assert_int_equal(policy.index, 16);
	assert_int_equal(policy.roce, BEEST_ROCE_V1);
	assert_int_equal(policy.family, AF_INET6);

	assert_int_equal(beest_gid_policy_parse("subnet:10.1.0.0/16", BEEST_ROCE_NONE, AF_UNSPEC,
						&policy), 0);
	assert_int_equal(policy.rule, BEEST_GID_SUBNET);
	assert_int_equal(policy.prefix, 112);
	assert_int_equal(policy.roce, BEEST_ROCE_NONE);
	assert_int_equal(policy.family, AF_UNSPEC);

	assert_int_equal(beest_gid_policy_parse("netdev:fifteen-bytes-a", BEEST_ROCE_NONE,
						AF_UNSPEC, &policy), 0);
	assert_string_equal(policy.netdev, "fifteen-bytes-a");
}

static void test_texts(void **state)
{
	struct beest_ipaddr gid;

	(void)state;
	gid_of("::ffff:10.0.0.1", &gid);
	assert_string_equal(BEEST_GID_TEXT(&gid), "::ffff:10.0.0.1");
	assert_string_equal(BEEST_IP_TEXT(&gid), "10.0.0.1");
	gid_of("fd00::1", &gid);
	assert_string_equal(BEEST_IP_TEXT(&gid), "fd00::1");
	assert_string_equal(beest_endpoint_roce_text(BEEST_ROCE_NONE), "InfiniBand");
	assert_string_equal(beest_endpoint_roce_text(BEEST_ROCE_V1), "RoCE v1");
	assert_string_equal(beest_endpoint_roce_text(BEEST_ROCE_V2), "RoCE v2");
	assert_string_equal(beest_endpoint_roce_text((enum beest_roce)9), "unknown RoCE version");
}

static void test_no_address_is_set_in_vain(void **state)
{
	const struct sockaddr other = { .sa_family = AF_UNIX };
	struct beest_ipaddr ip, before;

	(void)state;
	gid_of("fd00::1", &ip);
	before = ip;
	assert_false(beest_ipaddr_of(NULL, &ip));
	assert_false(beest_ipaddr_of(&other, &ip));
	assert_int_equal(beest_ipaddr_parse("10.0.0", &ip), -EINVAL);
	assert_memory_equal(&ip, &before, sizeof(ip));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choices),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_zero_is_no_gid),
		cmocka_unit_test(test_skip),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_short_reason),
		cmocka_unit_test(test_big_table),
		cmocka_unit_test(test_far_index),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_parsed),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_no_address_is_set_in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
