/* SPDX-License-Identifier: MIT */
/*
 * address.c - the local address, from its choice until the device uses it, on the fake layers
 *
 * Covers the choice in words, the published IP address, a GID whose index moves, a LID and an MTU
 * that change, several contexts on several ports, and the path to a peer by rdma_cm.  What the
 * device receives is compared field by field.
 *
 * promise: hartebeest.json(5)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hartebeest.h"
#include "lib/core/context.h"
#include "lib/verbs/qp.h"
#include "tests/support/ah.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/logged.h"
#ifdef HAVE_RDMACM
#include "tests/support/fake-rdmacm.h"
#endif
#include "tests/support/make.h"
#include "tests/support/scratch.h"

static struct hartebeest_context *hb;

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	fake_verbs_reset();
#ifdef HAVE_RDMACM
	fake_rdmacm_reset();
#endif
	logged[0] = '\0';
	hb = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_verbs.hook = NULL;
	hartebeest_close(hb);
	return fake_verbs.open;
}

static struct fake_port *port_of(int device, int port)
{
	return &fake_verbs.devices[device].ports[port - 1];
}

static void open_with(const char *one, const char *two)
{
	const char *options[] = { one, two, NULL };

	assert_int_equal(hartebeest_open(&hb, options), 0);
	assert_int_equal(hartebeest_log_set(hb, HARTEBEEST_LOG_INFO, logged_keep, NULL), 0);
}

static struct beest_qp *make_qp(struct hartebeest_context *from, int type)
{
	struct beest_node *node;

	assert_int_equal(hartebeest_pd_create(from, "pd", NULL), 0);
	assert_int_equal(cq_make(from, "cq", 0, 0, NULL), 0);
	assert_int_equal(qp_make(from, "qp", "pd", type, "cq", "cq", NULL), 0);
	assert_int_equal(hartebeest_qp_init(from, "qp"), 0);
	node = beest_table_find(&from->objects, &beest_qp_kind, "qp");
	assert_non_null(node);
	return BEEST_CONTAINER(node, struct beest_qp, node);
}

static void set_gid(uint8_t raw[16], const char *text)
{
	assert_int_equal(inet_pton(AF_INET6, text, raw), 1);
}

static void gid_is(const uint8_t raw[16], const char *text)
{
	char is[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, raw, is, sizeof(is));
	assert_string_equal(is, text);
}

/* The remote end as @qp would find it, with @gid and the IP address @ip. */
static struct beest_endpoint peer_of(const struct beest_qp *qp, const char *gid, const char *ip)
{
	struct beest_endpoint peer = qp->local.endpoint;

	peer.rank = 3;
	set_gid(peer.gid.raw, gid);
	set_gid(peer.ip.raw, ip);
	peer.qp_num = 0xabcdef;
	peer.lid = 0xbeef;
	return peer;
}

static int connect_to(struct beest_qp *qp, const char *gid, const char *ip)
{
	struct beest_endpoint peer = peer_of(qp, gid, ip);

	return beest_qp_connect(qp, "far", &peer, UNIT_LIMIT(BEEST_SECOND), NULL);
}

static int connect_roce(struct beest_qp *qp)
{
	return connect_to(qp, "::ffff:10.0.0.2", "::ffff:10.0.0.2");
}

/* How often RTR was tried; @ah gets the address of the last try. */
static int rtr_tries(struct ibv_ah_attr *ah)
{
	const struct fake_modify *each;
	int tries = 0;
	size_t i;

	for (i = 0; i < fake_verbs.modified_count; i++) {
		each = &fake_verbs.modified[i];
		if (!(each->mask & IBV_QP_STATE) || each->attr.qp_state != IBV_QPS_RTR)
			continue;
		tries++;
		*ah = each->attr.ah_attr;
	}
	return tries;
}

/* -------------------------------------------------------- choice in words --- */

static void choice_in_words(void **state)
{
	char text[1024], small[16];

	(void)state;
	fake_verbs_add("fake1");
	port_of(0, 1)->state = IBV_PORT_DOWN;
	open_with(NULL, NULL);
	assert_true(hartebeest_device_text(hb, text, sizeof(text)) >= 0);
	assert_string_equal(text, "port fake1:1; IP address 10.0.0.1; P_Key 0xffff at index 0; GID "
			    "index 3: ::ffff:10.0.0.1, RoCE v2, eth0 was chosen by auto; index 0: "
			    "fe80::a00:27ff:fe00:1, RoCE v1, eth0 (RoCE v1); index 1: "
			    "fe80::a00:27ff:fe00:1, RoCE v2, eth0 (not IPv4); index 2: "
			    "::ffff:10.0.0.1, RoCE v1, eth0 (RoCE v1); passed over: port "
			    "fake0:1 is down");
	assert_int_equal(fake_verbs.pds, 0);
	assert_int_equal(hartebeest_device_text(hb, small, sizeof(small)), strlen(text));
	assert_string_equal(small, "port fake1:1; I");
	assert_int_equal(hartebeest_device_text(hb, NULL, 0), strlen(text));
	assert_int_equal(hartebeest_device_text(hb, NULL, 30), -EINVAL);
	assert_int_equal(hartebeest_device_text(NULL, small, sizeof(small)), -EINVAL);

	/* The reason also names a GID that was tried and failed. */
	port_of(1, 1)->gids[3].ah_error = ENETUNREACH;
	assert_true(hartebeest_device_text(hb, text, sizeof(text)) >= 0);
	assert_non_null(strstr(text, "index 3: ::ffff:10.0.0.1, RoCE v2, eth0 (tried and failed: "
			       "Network is unreachable)"));
	fake_verbs_fail("ibv_alloc_pd", 1, ENOMEM);
	assert_int_equal(hartebeest_device_text(hb, text, sizeof(text)), -ENOMEM);
}

static void choice_that_fails(void **state)
{
	char text[1024] = "untouched";

	(void)state;
	open_with("device.name=fake0", "device.gid=netdev:eth9");
	assert_int_equal(hartebeest_device_text(hb, text, sizeof(text)), -ENODATA);
	assert_string_equal(text, "untouched");
	assert_error_has("index 3: ::ffff:10.0.0.1, RoCE v2, eth0 (another interface)");
	assert_non_null(strstr(logged, "eth0 (another interface)"));
	assert_int_equal(fake_verbs.pds, 0);
}

/* -------------------------------------------------------------- device.addr --- */

static void opened_by_address(const char *addr, const char *device, int sgid_index)
{
	char option[64];

	snprintf(option, sizeof(option), "device.addr=%s", addr);
	hb = NULL;
	open_with(option, NULL);
	assert_int_equal(make_qp(hb, IBV_QPT_RC)->local.sgid_index, sgid_index);
	assert_string_equal(hb->device.label, device);
	hartebeest_close(hb);
	hb = NULL;
}

static void infiniband_port(int device, const char *gid, const char *netdev, const char *ip)
{
	struct fake_port *port = port_of(device, 1);

	memset(port->gids, 0, sizeof(port->gids));
	port->link_layer = IBV_LINK_LAYER_INFINIBAND;
	port->lid = (uint16_t)(7 + device);
	port->active_mtu = IBV_MTU_4096;
	port->gids[0].gid = gid;
	port->gids[0].netdev = netdev;
	port->ips[0] = ip;
}

static void by_address(void **state)
{
	(void)state;
	fake_verbs_add("fake1");
	fake_verbs_add("fake2");
	port_of(1, 1)->gids[4] = (struct fake_gid){ .gid = "fd00::1", .roce = 2, .netdev = "eth1" };
	infiniband_port(2, "fe80::9", "ib0", "10.1.0.9");
	opened_by_address("10.0.0.1", "fake0:1", 3);
	opened_by_address("fd00::1", "fake1:1", 4);
	opened_by_address("10.1.0.9", "fake2:1", 0);	/* InfiniBand, by its IPoIB address */

	open_with("device.addr=10.1.0.8", NULL);
	assert_int_equal(hartebeest_port_num(hb), -ENODATA);
	assert_error_has("no GID fits ip:10.1.0.8 (argument device.addr): an InfiniBand GID "
			 "holds no IP address, choose by netdev; ");
}

/* A value that fits nothing may be in any of the sources. */
static void origin_of_what_fits_nothing(void **state)
{
	char path[SCRATCH_SIZE], sentence[128];
	const struct {
		const char *variable, *value, *sentence;
	} rows[] = {
		{ "HARTEBEEST_ADDR", "10.1.0.8",
		  "no GID fits ip:10.1.0.8 (HARTEBEEST_ADDR): " },
		{ "HARTEBEEST_GID", "subnet:10.9.0.0/16",
		  "no GID fits subnet:10.9.0.0/16 (HARTEBEEST_GID): " },
		{ "HARTEBEEST_CONF_PATH", path, sentence },
	};
	size_t i;

	(void)state;
	scratch_text(path, "address", "{ \"device\": {\n\"gid\": \"netdev:ib7\" } }\n");
	snprintf(sentence, sizeof(sentence), "no GID fits netdev:ib7 (%s:2): ", path);
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		setenv(rows[i].variable, rows[i].value, 1);
		open_with(NULL, NULL);
		assert_int_equal(hartebeest_port_num(hb), -ENODATA);
		assert_error_has(rows[i].sentence);
		hartebeest_close(hb);
		hb = NULL;
		unsetenv(rows[i].variable);
	}
	unlink(path);
}

static void address_that_cannot_be(void **state)
{
	const char *both[] = { "device.addr=10.0.0.1", "device.gid=index:3", NULL };
	const char *bad[] = { "device.addr=eth0", NULL }, *any[] = { "device.addr=0.0.0.0", NULL };

	(void)state;
	assert_int_equal(hartebeest_open(&hb, both), -EINVAL);
	assert_error_is("argument device.addr: device.gid (HARTEBEEST_GID) also selects a GID: "
			"set only one of the two");
	assert_int_equal(hartebeest_open(&hb, bad), -EINVAL);
	assert_error_is("argument device.addr: 'eth0' is not an IPv4 or IPv6 address");
	assert_int_equal(hartebeest_open(&hb, any), -EINVAL);
	assert_error_is("argument device.addr: '0.0.0.0' is not an interface address");
}

/* ----------------------------------------------------- the IP that peers get --- */

static void published(const char *option, const char *wanted)
{
	hb = NULL;
	open_with(option, NULL);
	gid_is(make_qp(hb, IBV_QPT_RC)->local.endpoint.ip.raw, wanted);
	hartebeest_close(hb);
	hb = NULL;
}

static void the_published_ip(void **state)
{
	(void)state;
	port_of(0, 1)->gids[4] = (struct fake_gid){ .gid = "fd00::1", .roce = 2, .netdev = "eth0" };
	published("device.gid=auto", "::ffff:10.0.0.1");
	published("device.family=ipv6", "fd00::1");
	published("device.addr=fd00::1", "fd00::1");

	/* Peers cannot find a link-local GID: the interface's other address is published. */
	published("device.gid=index:1", "::ffff:10.0.0.1");

	/* Unless the interface has only link-local addresses. */
	memset(&port_of(0, 1)->gids[2], 0, 3 * sizeof(struct fake_gid));
	published("device.gid=index:1", "fe80::a00:27ff:fe00:1");

	infiniband_port(0, "fe80::7", NULL, NULL);
	published("device.gid=auto", "::");
	infiniband_port(0, "fe80::7", "ib0", NULL);
	published("device.gid=auto", "::");
	infiniband_port(0, "fe80::7", "ib0", "10.1.0.7");
	published("device.gid=auto", "::ffff:10.1.0.7");
	infiniband_port(0, "fe80::7", "ib0", "fd01::7");
	published("device.gid=auto", "fd01::7");
}

/* ------------------------------------------------------- an index that moves --- */

static struct fake_gid *gids;

static void swap_gids(int a, int b)
{
	struct fake_gid kept = gids[a];

	gids[a] = gids[b];
	gids[b] = kept;
}

/* Between INIT and connect, the GID moves to another used index or to an empty one. */
static void moved_before(void **state)
{
	const int targets[] = { 5, 0 };
	struct ibv_ah_attr ah;
	struct beest_qp *qp;
	char line[128];
	size_t i;

	(void)state;
	gids = port_of(0, 1)->gids;
	for (i = 0; i < BEEST_COUNT(targets); i++) {
		open_with(NULL, NULL);
		qp = make_qp(hb, IBV_QPT_RC);
		assert_int_equal(qp->local.sgid_index, 3);
		swap_gids(3, targets[i]);
		assert_int_equal(connect_roce(qp), 0);
		rtr_tries(&ah);
		assert_int_equal(ah.grh.sgid_index, targets[i]);
		assert_int_equal(qp->local.sgid_index, targets[i]);
		snprintf(line, sizeof(line), "6 queue pair 'qp': GID ::ffff:10.0.0.1 moved from "
			 "index 3 to %d of port fake0:1", targets[i]);
		assert_non_null(strstr(logged, line));
		hartebeest_close(hb);
		hb = NULL;
		swap_gids(3, targets[i]);
	}
}

/* Entries with the same GID on a VLAN, or as RoCE v1, are not taken for the one that moved. */
static void the_right_one_of_equals(void **state)
{
	struct beest_qp *qp;

	(void)state;
	gids = port_of(0, 1)->gids;
	gids[0] = (struct fake_gid){ .gid = "fe80::1", .roce = 2, .netdev = "eth0.7" };
	gids[1] = (struct fake_gid){ .gid = "fe80::1", .roce = 1, .netdev = "eth0" };
	gids[5] = (struct fake_gid){ .gid = "fe80::1", .roce = 2, .netdev = "eth0" };
	open_with("device.gid=index:5", NULL);
	qp = make_qp(hb, IBV_QPT_RC);
	swap_gids(5, 6);
	assert_int_equal(connect_to(qp, "fe80::2", "fe80::2"), 0);
	assert_int_equal(qp->local.sgid_index, 6);
}

/* Published by the link-local GID, since the IPv4 address came later. */
static void come_late(void **state)
{
	struct beest_qp *qp;

	(void)state;
	gids = port_of(0, 1)->gids;
	gids[2].gid = gids[3].gid = NULL;
	open_with(NULL, NULL);
	qp = make_qp(hb, IBV_QPT_RC);
	assert_int_equal(connect_roce(qp), -EPROTO);
	assert_error_is("the address family of the GID differs: IPv6 here (fake0:1) but IPv4 at "
			"the peer (rank 3): set device.family to the same at both ends, whose "
			"interfaces must have such an address");
	gids[3].gid = "::ffff:10.0.0.1";
	assert_int_equal(connect_roce(qp), -EPROTO);
	assert_error_has("IPv6 here (fake0:1) but IPv4 at the peer (rank 3): ");
	assert_error_has("; this end has the GID ::ffff:10.0.0.1 (RoCE v2) by now, which "
			 "hartebeest_qp_reset() and hartebeest_qp_publish() choose");
	assert_int_equal(beest_qp_reset(qp), 0);
	assert_int_equal(beest_qp_init(qp, &hb->port), 0);
	assert_int_equal(connect_roce(qp), 0);
}

static void gone(void **state)
{
	struct beest_qp *qp;

	(void)state;
	gids = port_of(0, 1)->gids;
	open_with(NULL, NULL);
	qp = make_qp(hb, IBV_QPT_RC);
	gids[3].gid = NULL;
	gids[2].gid = "::ffff:10.0.0.9";
	assert_int_equal(connect_roce(qp), -ENODATA);
	assert_error_is("the GID ::ffff:10.0.0.1 (RoCE v2) of this end "
			"is no longer in the table of port fake0:1: was its address removed?  "
			"hartebeest_qp_reset() and hartebeest_qp_publish() choose again among "
			"index 0: fe80::a00:27ff:fe00:1, RoCE v1; index 1: fe80::a00:27ff:fe00:1, "
			"RoCE v2; index 2: ::ffff:10.0.0.9, RoCE v1");
	assert_int_equal(fake_verbs_last_modify(qp->qp)->attr.qp_state, IBV_QPS_INIT);
}

/* The GID moves while the kernel handles @moving_call. */
static int moves_left;
static const char *moving_call;

static void move_under_way(const char *function)
{
	if (strcmp(function, moving_call) != 0 || moves_left == 0)
		return;
	moves_left--;
	swap_gids(3, 5);
}

static int connect_while_moving(const char *call, int type, int moves, int error, int times,
				struct beest_qp **qp)
{
	gids = port_of(0, 1)->gids;
	open_with(NULL, NULL);
	*qp = make_qp(hb, type);
	moving_call = call;
	moves_left = moves;
	fake_verbs.hook = move_under_way;
	if (error)
		fake_verbs_fail(call, 1, error);
	if (error && times == 2)
		fake_verbs_fail(call, 1, error);	/* the call after it */
	return connect_roce(*qp);
}

/* The fake and rxe answer ENODATA for an empty index; other drivers answer differently. */
static void moved_under_way(void **state)
{
	const int errors[] = { 0, EINVAL, ENODATA, ENODEV };
	struct ibv_ah_attr ah;
	struct beest_qp *qp;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(errors); i++) {
		setup(NULL);
		assert_int_equal(connect_while_moving("ibv_modify_qp", IBV_QPT_RC, 1, errors[i], 1,
						      &qp), 0);
		assert_int_equal(rtr_tries(&ah), 2);
		assert_int_equal(ah.grh.sgid_index, 5);
		assert_non_null(strstr(logged, "moved from index 3 to 5 of port fake0:1"));
		fake_verbs.hook = NULL;
		hartebeest_close(hb);
		hb = NULL;
	}
}

static void tried_again_once(void **state)
{
	struct ibv_ah_attr ah;
	struct beest_qp *qp;

	(void)state;
	assert_int_equal(connect_while_moving("ibv_modify_qp", IBV_QPT_RC, 1, EINVAL, 2, &qp),
			 -EINVAL);
	assert_int_equal(rtr_tries(&ah), 2);
	assert_error_has("INIT -> RTR of QP ");
	assert_error_has("GID index 5 (::ffff:10.0.0.1)");
}

static void not_moved_not_tried(void **state)
{
	const int errors[] = { EINVAL, ENODATA, ENODEV };
	struct ibv_ah_attr ah;
	struct beest_qp *qp;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(errors); i++) {
		setup(NULL);
		assert_int_equal(connect_while_moving("ibv_modify_qp", IBV_QPT_RC, 0, errors[i], 1,
						      &qp), -errors[i]);
		assert_int_equal(rtr_tries(&ah), 1);
		assert_error_has("INIT -> RTR of QP ");
		hartebeest_close(hb);
		hb = NULL;
	}

	/* Other errors do not depend on the GID table, so there is no second try. */
	setup(NULL);
	assert_int_equal(connect_while_moving("ibv_modify_qp", IBV_QPT_RC, 1, ETIMEDOUT, 1, &qp),
			 -ETIMEDOUT);
	assert_int_equal(rtr_tries(&ah), 1);
}

static void address_handle_moved_under_way(void **state)
{
	struct hartebeest_ud_address address;
	struct beest_qp *qp;

	(void)state;
	gids = port_of(0, 1)->gids;
	open_with(NULL, NULL);
	qp = make_qp(hb, IBV_QPT_UD);
	moving_call = "ibv_create_ah";
	moves_left = 1;
	fake_verbs.hook = move_under_way;
	assert_int_equal(connect_roce(qp), 0);
	assert_int_equal(beest_qp_address(qp, "far", &address), 0);
	assert_int_equal(qp->local.sgid_index, 5);

	fake_verbs.hook = NULL;
	fake_verbs_fail("ibv_create_ah", 1, EINVAL);
	assert_int_equal(connect_roce(qp), -EINVAL);
	assert_error_is("cannot make an address handle on fake0:1 from GID index 5 "
			"(::ffff:10.0.0.1) to ::ffff:10.0.0.2, LID 0: Invalid argument; the device "
			"rejects one of these values, or the GID table changed");
}

/* What a port says of itself between INIT and connect, of a queue pair that is published. */
static const struct port_change {
	const char *setting;
	bool infiniband;
	uint16_t lid;
	enum ibv_mtu mtu;
	enum ibv_port_state state;
	uint16_t uses_lid;		/* in its record from then on */
	enum ibv_mtu uses_mtu;
	const char *line;		/* logged; NULL: nothing has changed for this queue pair */
} port_changes[] = {
	{ NULL, true, 7, IBV_MTU_4096, IBV_PORT_ACTIVE, 7, IBV_MTU_4096, NULL },
	{ NULL, true, 17, IBV_MTU_4096, IBV_PORT_ACTIVE, 17, IBV_MTU_4096,
	  "6 queue pair 'qp': the LID of port fake0:1 changed from 7 to 17: publishing again" },
	{ NULL, true, 7, IBV_MTU_1024, IBV_PORT_ACTIVE, 7, IBV_MTU_1024,
	  "the MTU of port fake0:1 changed from 4096 to 1024: publishing again" },
	{ "device.events=0", true, 17, IBV_MTU_4096, IBV_PORT_ACTIVE, 17, IBV_MTU_4096,
	  "changed from 7 to 17" },
	{ "qp_attr.path_mtu=4", true, 7, IBV_MTU_1024, IBV_PORT_ACTIVE, 7, IBV_MTU_1024,
	  "changed from 2048 to 1024" },
	{ "qp_attr.path_mtu=2", true, 7, IBV_MTU_1024, IBV_PORT_ACTIVE, 7, IBV_MTU_512, NULL },
	/* It has lost its LID for the moment: the caller tries again. */
	{ NULL, true, 0, IBV_MTU_256, IBV_PORT_INIT, 7, IBV_MTU_4096, NULL },
	{ NULL, false, 0, IBV_MTU_512, IBV_PORT_ACTIVE, 0, IBV_MTU_512,
	  "6 queue pair 'qp': the MTU of port fake0:1 changed from 1024 to 512: publishing again" },
	{ NULL, false, 0, IBV_MTU_4096, IBV_PORT_ACTIVE, 0, IBV_MTU_4096,
	  "changed from 1024 to 4096" },
	{ "device.events=0", false, 0, IBV_MTU_512, IBV_PORT_ACTIVE, 0, IBV_MTU_512,
	  "changed from 1024 to 512" },
};

/* The peer has what this end has, so that the path MTU is that of this end. */
static void port_change_run(const struct port_change *row)
{
	struct fake_port *port = port_of(0, 1);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t generation;
	struct beest_qp *qp;
	int asked;

	if (row->infiniband)
		infiniband_port(0, "fe80::7", NULL, NULL);
	open_with(row->setting, NULL);
	qp = make_qp(hb, IBV_QPT_RC);
	snprintf(qp->key, sizeof(qp->key), "near");
	generation = qp->local.endpoint.generation;
	port->lid = row->lid;
	port->active_mtu = row->mtu;
	port->state = row->state;
	asked = fake_verbs_calls("ibv_query_port");
	assert_int_equal(row->infiniband ? connect_to(qp, "fe80::beef", "::") : connect_roce(qp),
			 row->state == IBV_PORT_ACTIVE ? 0 : -ENETDOWN);
	assert_int_equal(fake_verbs_calls("ibv_query_port"), asked + 1);
	assert_int_equal(qp->local.endpoint.lid, row->uses_lid);
	assert_int_equal(qp->local.endpoint.mtu, row->uses_mtu);
	assert_int_equal(qp->local.endpoint.generation != generation, row->line != NULL);
	if (row->line)
		assert_non_null(strstr(logged, row->line));
	else
		assert_null(strstr(logged, "changed from"));
	assert_int_equal(ibv_query_qp(qp->qp, &attr, IBV_QP_PATH_MTU, &init), 0);
	assert_true(attr.path_mtu <= row->uses_mtu);
}

static void a_port_that_has_changed(void **state)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(port_changes); i++) {
		setup(NULL);
		port_change_run(&port_changes[i]);
		assert_int_equal(teardown(state), 0);
		hb = NULL;
	}
}

/* An MTU of which no event tells is that of later queue pairs, too, once one has connected. */
static void later_queue_pairs_follow(void **state)
{
	struct beest_node *node;
	struct beest_qp *qp;

	(void)state;
	open_with(NULL, NULL);
	qp = make_qp(hb, IBV_QPT_RC);
	snprintf(qp->key, sizeof(qp->key), "near");
	port_of(0, 1)->active_mtu = IBV_MTU_512;
	assert_int_equal(connect_roce(qp), 0);
	assert_int_equal(qp_make(hb, "next", "pd", IBV_QPT_RC, "cq", "cq", NULL), 0);
	assert_int_equal(hartebeest_qp_init(hb, "next"), 0);
	node = beest_table_find(&hb->objects, &beest_qp_kind, "next");
	assert_int_equal(BEEST_CONTAINER(node, struct beest_qp, node)->local.endpoint.mtu,
			 IBV_MTU_512);
}

static void a_port_that_cannot_be_asked(void **state)
{
	struct beest_qp *qp;

	(void)state;
	open_with(NULL, NULL);
	qp = make_qp(hb, IBV_QPT_RC);
	snprintf(qp->key, sizeof(qp->key), "near");
	fake_verbs_fail("ibv_query_port", 1, EIO);
	assert_int_equal(connect_roce(qp), -EIO);
	assert_error_is("port fake0:1 cannot be queried: Input/output error");
	port_of(0, 1)->active_mtu = (enum ibv_mtu)9;
	assert_int_equal(connect_roce(qp), -EIO);
	assert_error_has("port fake0:1 reports the MTU 9, which is not within 1..5");
	port_of(0, 1)->active_mtu = IBV_MTU_1024;
	assert_int_equal(connect_roce(qp), 0);
}

/* Without a GRH, no GID index is used that could be wrong. */
static void infiniband_asks_no_table(void **state)
{
	struct beest_qp *qp;

	(void)state;
	infiniband_port(0, "fe80::7", NULL, NULL);
	open_with(NULL, NULL);
	qp = make_qp(hb, IBV_QPT_RC);
	port_of(0, 1)->gids[0].gid = "fe80::8";
	assert_int_equal(connect_to(qp, "fe80::beef", "::"), 0);
}

/* -------------------------------------------------- several ports, one process --- */

static void contexts_of_several_ports(void **state)
{
	static const char *const names[] = { "device.name=fake0:1", "device.name=fake0:2",
					     "device.addr=10.0.7.1" };
	static const char *const labels[] = { "fake0:1", "fake0:2", "fake1:1" };
	static const char *const addresses[] = { "::ffff:10.0.0.1", "::ffff:10.0.5.1",
						 "::ffff:10.0.7.1" };
	struct hartebeest_context *contexts[3];
	struct beest_qp *qps[3];
	int i;

	(void)state;
	fake_verbs_add("fake1");
	fake_verbs.devices[0].attr.phys_port_cnt = 2;
	fake_verbs.devices[0].ports[1] = fake_verbs.devices[0].ports[0];
	port_of(0, 2)->gids[3].gid = "::ffff:10.0.5.1";
	port_of(0, 2)->gids[3].netdev = "eth5";
	port_of(1, 1)->gids[3].gid = "::ffff:10.0.7.1";
	port_of(1, 1)->gids[3].netdev = "eth7";
	for (i = 0; i < 3; i++) {
		open_with(names[i], NULL);
		contexts[i] = hb;
		qps[i] = make_qp(hb, IBV_QPT_RC);
		assert_int_equal(connect_roce(qps[i]), 0);
	}
	for (i = 0; i < 3; i++) {
		assert_string_equal(qps[i]->local.label, labels[i]);
		gid_is(qps[i]->local.endpoint.ip.raw, addresses[i]);
		assert_int_equal(fake_verbs_last_modify(qps[i]->qp)->ret, 0);
		assert_int_equal(qps[i]->local.port, i == 1 ? 2 : 1);
	}
	hartebeest_close(contexts[1]);
	hartebeest_close(contexts[0]);
	assert_int_equal(fake_verbs.contexts, 1);
	hb = contexts[2];
	assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
}

/* ------------------------------------------------------------- path by rdma_cm --- */

#ifdef HAVE_RDMACM

static enum ibv_mtu mtu_of(const struct beest_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp->qp, &attr, IBV_QP_PATH_MTU, &init), 0);
	return attr.path_mtu;
}

static void roce_by_rdmacm(void **state)
{
	struct ibv_ah_attr ah, wanted = {
		.is_global = 1, .sl = 3, .port_num = 1, .static_rate = IBV_RATE_25_GBPS,
		.grh = { .sgid_index = 3, .hop_limit = 1, .traffic_class = 0x68,
			 .flow_label = 0x54321 },
	};
	struct beest_qp *qp;

	(void)state;
	fake_rdmacm.path.dlid = htobe16(0x7777);	/* ignored on RoCE */
	fake_rdmacm.path.sl = 3;
	fake_rdmacm.path.traffic_class = 0x68;
	fake_rdmacm.path.flow_label = htobe32(0x54321);
	fake_rdmacm.path.mtu = IBV_MTU_512;
	set_gid(wanted.grh.dgid.raw, "::ffff:10.0.0.2");
	open_with("device.resolver=rdmacm", "qp_attr.traffic_class=0x68");
	qp = make_qp(hb, IBV_QPT_RC);
	assert_int_equal(connect_roce(qp), 0);
	assert_int_equal(rtr_tries(&ah), 1);
	assert_ah_is(&ah, &wanted);
	assert_int_equal(mtu_of(qp), IBV_MTU_512);
	assert_int_equal(fake_rdmacm.tos, 0x68);
	assert_int_equal(fake_rdmacm.from.ss_family, AF_INET);
	assert_non_null(strstr(logged, "path by rdma_cm"));
}

static void infiniband_by_rdmacm(void **state)
{
	struct ibv_ah_attr ah, wanted = {
		.dlid = 0x1234, .sl = 5, .src_path_bits = 3, .port_num = 1,
		.static_rate = IBV_RATE_100_GBPS,
	};
	struct beest_qp *qp;

	(void)state;
	infiniband_port(0, "fe80::7", "ib0", "10.1.0.7");
	port_of(0, 1)->lmc = 2;
	fake_rdmacm_infiniband();
	fake_rdmacm.path.slid = htobe16(7);
	open_with("device.resolver=rdmacm", NULL);
	qp = make_qp(hb, IBV_QPT_RC);
	assert_int_equal(connect_to(qp, "fe80::beef", "::ffff:10.1.0.8"), 0);
	rtr_tries(&ah);
	assert_ah_is(&ah, &wanted);
	assert_int_equal(mtu_of(qp), IBV_MTU_2048);

	/* The peer is behind a router. */
	assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	set_gid(fake_rdmacm.path.dgid.raw, "fec0::beef");
	fake_rdmacm.path.hop_limit = 63;
	assert_int_equal(connect_to(qp, "fec0::beef", "::ffff:10.2.0.8"), 0);
	rtr_tries(&ah);
	wanted.is_global = 1;
	set_gid(wanted.grh.dgid.raw, "fec0::beef");
	wanted.grh.hop_limit = 63;
	wanted.grh.traffic_class = 9;
	wanted.grh.flow_label = 0x54321;
	assert_ah_is(&ah, &wanted);
}

static void another_start(void **state)
{
	struct ibv_ah_attr ah;
	struct beest_qp *qp;

	(void)state;
	open_with("device.resolver=rdmacm", "device.gid=index:1");
	qp = make_qp(hb, IBV_QPT_RC);
	gid_is(qp->local.endpoint.ip.raw, "::ffff:10.0.0.1");
	assert_int_equal(connect_to(qp, "fe80::2", "::ffff:10.0.0.2"), 0);
	rtr_tries(&ah);
	assert_int_equal(ah.grh.sgid_index, 3);
	gid_is(ah.grh.dgid.raw, "::ffff:10.0.0.2");
	assert_non_null(strstr(logged, "4 queue pair 'qp': the path leaves from GID "
			       "::ffff:10.0.0.1, but fe80::a00:27ff:fe00:1 was published"));
}

static void ways_that_do_not_suit(void **state)
{
	struct beest_qp *qp;

	(void)state;
	fake_verbs_add("fake1");
	infiniband_port(0, "fe80::7", "ib0", "10.1.0.7");
	infiniband_port(1, "fe80::8", "ib1", "10.1.0.8");
	fake_rdmacm_infiniband();
	fake_rdmacm.path.pkey = htobe16(0x8012);
	open_with("device.resolver=rdmacm", "device.name=fake0");
	qp = make_qp(hb, IBV_QPT_RC);
	assert_int_equal(connect_to(qp, "fe80::beef", "::ffff:10.1.0.9"), -EPROTO);
	assert_error_is("the path to fe80::beef is in the partition of "
			"P_Key 0x8012, but this end (fake0:1) in that of 0xffff: set qp_attr.pkey, "
			"or choose the interface of its partition");

	fake_rdmacm.device = 1;
	assert_int_equal(connect_to(qp, "fe80::beef", "::ffff:10.1.0.9"), -EXDEV);
	assert_error_is("the path to fe80::beef leaves by port fake1:1, "
			"but this end is port fake0:1: set device.addr to an address of the port");

	fake_rdmacm.address.status = -EHOSTUNREACH;
	assert_int_equal(connect_to(qp, "fe80::beef", "::ffff:10.1.0.9"), -EHOSTUNREACH);
	assert_error_has("no path to 10.1.0.9 from 10.1.0.7 (ib0): ");
	assert_int_equal(fake_verbs_last_modify(qp->qp)->attr.qp_state, IBV_QPS_INIT);
	fake_rdmacm.address.status = 0;

	/* A limited member of the same partition fits. */
	fake_rdmacm.device = 0;
	fake_rdmacm.path.pkey = htobe16(0x7fff);
	assert_int_equal(connect_to(qp, "fe80::beef", "::ffff:10.1.0.9"), 0);
}

static void each_peer_is_asked_for_once(void **state)
{
	struct beest_qp *qp;

	(void)state;
	open_with("device.resolver=rdmacm", NULL);
	qp = make_qp(hb, IBV_QPT_UD);
	assert_int_equal(connect_roce(qp), 0);
	assert_int_equal(connect_roce(qp), 0);
	assert_int_equal(fake_rdmacm.asked, 1);
	assert_int_equal(connect_to(qp, "::ffff:10.0.0.3", "::ffff:10.0.0.3"), 0);
	assert_int_equal(fake_rdmacm.asked, 2);

	/* After a failure with the path, rdma_cm is asked again. */
	fake_verbs_fail("ibv_create_ah", 1, EHOSTUNREACH);
	assert_int_equal(connect_roce(qp), -EHOSTUNREACH);
	assert_int_equal(connect_roce(qp), 0);
	assert_int_equal(fake_rdmacm.asked, 3);
}

static void nobody_asks_by_default(void **state)
{
	struct beest_qp *qp;

	(void)state;
	fake_rdmacm.channel.error = ENOENT;
	open_with(NULL, NULL);
	qp = make_qp(hb, IBV_QPT_RC);
	assert_int_equal(connect_roce(qp), 0);
	assert_int_equal(fake_rdmacm.asked, 0);
	hartebeest_close(hb);

	open_with("device.resolver=rdmacm", NULL);
	qp = make_qp(hb, IBV_QPT_RC);
	assert_int_equal(connect_roce(qp), -EOPNOTSUPP);
}

#else

static void rdmacm_was_not_built(void **state)
{
	struct beest_qp *qp;

	(void)state;
	open_with("device.resolver=rdmacm", NULL);
	qp = make_qp(hb, IBV_QPT_RC);
	assert_int_equal(connect_roce(qp), -ENOSYS);
	assert_error_is("this build of libhartebeest has no rdma_cm: "
			"it was configured without librdmacm");
}

#endif

#define FRESH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FRESH(choice_in_words),
		FRESH(choice_that_fails),
		FRESH(by_address),
		FRESH(origin_of_what_fits_nothing),
		FRESH(address_that_cannot_be),
		FRESH(the_published_ip),
		FRESH(moved_before),
		FRESH(the_right_one_of_equals),
		FRESH(come_late),
		FRESH(gone),
		FRESH(moved_under_way),
		FRESH(tried_again_once),
		FRESH(not_moved_not_tried),
		FRESH(address_handle_moved_under_way),
		FRESH(a_port_that_has_changed),
		FRESH(later_queue_pairs_follow),
		FRESH(a_port_that_cannot_be_asked),
		FRESH(infiniband_asks_no_table),
		FRESH(contexts_of_several_ports),
#ifdef HAVE_RDMACM
		FRESH(roce_by_rdmacm),
		FRESH(infiniband_by_rdmacm),
		FRESH(another_start),
		FRESH(ways_that_do_not_suit),
		FRESH(each_peer_is_asked_for_once),
		FRESH(nobody_asks_by_default),
#else
		FRESH(rdmacm_was_not_built),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
