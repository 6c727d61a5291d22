/* SPDX-License-Identifier: MIT */
/* pathrec.c - each field of a path record, and addresses that are refused */
#include "config.h"

#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <endian.h>

#include "lib/path/pathrec.h"

/* Each field has a different value; bits beyond a field's width are set. */
static const struct ibv_sa_path_rec record = {
	.dgid.raw = { 0xfe, 0x80, [15] = 0x22 },
	.sgid.raw = { 0xfe, 0x80, [15] = 0x11 },
	.hop_limit = 255,
	.traffic_class = 0x68,
	.sl = 0x7d,
	.mtu_selector = 2,
	.mtu = 0x80 | IBV_MTU_4096,
	.rate_selector = 2,
	.rate = 0x80 | IBV_RATE_100_GBPS,
	.packet_life_time_selector = 2,
	.packet_life_time = 0x80 | 18,
};

static void every_field(void **state)
{
	struct ibv_sa_path_rec is = record;
	struct hartebeest_path route;

	(void)state;
	memset(&route, 0, sizeof(route));
	is.dlid = htobe16(0x1234);
	is.slid = htobe16(0x0abf);
	is.pkey = htobe16(0x8012);
	is.flow_label = htobe32(0xfff54321);
	beest_pathrec_read(&is, 3, &route);
	assert_memory_equal(route.dgid.raw, record.dgid.raw, 16);
	assert_memory_equal(route.sgid.raw, record.sgid.raw, 16);
	assert_int_equal(route.dlid, 0x1234);
	assert_int_equal(route.src_path_bits, 7);	/* the low 3 bits of 0x0abf */
	assert_int_equal(route.pkey, 0x8012);
	assert_int_equal(route.flow_label, 0x54321);
	assert_int_equal(route.hop_limit, 255);
	assert_int_equal(route.traffic_class, 0x68);
	assert_int_equal(route.sl, 13);
	assert_int_equal(route.mtu, IBV_MTU_4096);
	assert_int_equal(route.rate, IBV_RATE_100_GBPS);
	assert_int_equal(route.life_time, 18);

	beest_pathrec_read(&is, 0, &route);
	assert_int_equal(route.src_path_bits, 0);
	beest_pathrec_read(&is, 7, &route);
	assert_int_equal(route.src_path_bits, 0x3f);
}

static const struct {
	const char *text, *ip;		/* ip NULL: refused */
	int ret;
	const char *sentence;
} rows[] = {
	{ "10.0.0.2", "::ffff:10.0.0.2", 0, NULL },
	{ "fd00::2", "fd00::2", 0, NULL },
	{ "::ffff:10.0.0.2", "::ffff:10.0.0.2", 0, NULL },
	{ "fe80::2%lo", "fe80::2", 0, NULL },
	{ "169.254.1.1", "::ffff:169.254.1.1", 0, NULL },
	{ "223.255.255.1", "::ffff:223.255.255.1", 0, NULL },
	{ "127.0.0.1", NULL, -EINVAL, "127.0.0.1 is a loopback address, which every host has" },
	{ "127.255.0.9", NULL, -EINVAL, "127.255.0.9 is a loopback address, which every host has" },
	{ "::1", NULL, -EINVAL, "::1 is a loopback address, which every host has" },
	{ "0.0.0.0", NULL, -EINVAL, "0.0.0.0 is not the address of a single host" },
	{ "0.1.2.3", NULL, -EINVAL, "0.1.2.3 is not the address of a single host" },
	{ "::", NULL, -EINVAL, ":: is not the address of a single host" },
	{ "224.0.0.1", NULL, -EINVAL, "224.0.0.1 is a multicast address, which belongs to no "
	  "single peer" },
	{ "239.255.255.255", NULL, -EINVAL, "239.255.255.255 is a multicast address, which belongs "
	  "to no single peer" },
	{ "ff02::1", NULL, -EINVAL, "ff02::1 is a multicast address, which belongs to no single "
	  "peer" },
	{ "255.255.255.255", NULL, -EINVAL, "255.255.255.255 is the broadcast address" },
	{ "10.0.0", NULL, -EINVAL, "'10.0.0' is not an IPv4 or IPv6 address" },
	{ "", NULL, -EINVAL, "'' is not an IPv4 or IPv6 address" },
	{ "node1", NULL, -EINVAL, "'node1' is not an IPv4 or IPv6 address" },
	{ "1111:1111:1111:1111:1111:1111:1111:1111:1111:1111", NULL, -EINVAL,
	  "'1111:1111:1111:1111:1111:1111:1111:1111:1111:1111' is not an IPv4 or IPv6 address" },
	{ "fe80::2%no-such-if", NULL, -ENODEV, "there is no network interface 'no-such-if'" },
	{ "fe80::2%", NULL, -ENODEV, "there is no network interface ''" },
};

static void addresses(void **state)
{
	struct beest_ipaddr ip;
	unsigned int scope;
	uint8_t wanted[16];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		assert_int_equal(beest_pathrec_parse(rows[i].text, &ip, &scope), rows[i].ret);
		if (!rows[i].ip) {
			assert_error_is(rows[i].sentence);
			continue;
		}
		assert_int_equal(inet_pton(AF_INET6, rows[i].ip, wanted), 1);
		assert_memory_equal(ip.raw, wanted, 16);
		assert_int_equal(scope != 0, strchr(rows[i].text, '%') != NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field),
		cmocka_unit_test(addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
