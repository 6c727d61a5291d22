/* SPDX-License-Identifier: MIT */
/*
 * device.c - choice of device and port, GID table, P_Key; a failure leaves nothing open
 *
 * promise: hartebeest.json(5)
 */
#include "config.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/verbs/gidtable.h"
#include "lib/verbs/near.h"
#include "lib/verbs/newer.h"
#include "lib/verbs/node.h"
#include "lib/verbs/selection.h"
#include "lib/verbs/source.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/logged.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

/* Directory of device nodes and sysfs, since this machine may have its own. */
static char machine[SCRATCH_SIZE];

static struct beest_device device;
static char reason[BEEST_REASON_SIZE];

static const struct beest_log noisy = { .level = BEEST_LOG_DEBUG, .write = logged_keep };

static int reset(void **state)
{
	(void)state;
	fake_verbs_reset();
	memset(&device, 0, sizeof(device));
	logged[0] = '\0';
	beest_node_folder = machine;
	beest_near_sysfs = machine;
	return 0;
}

static int check_closed(void **state)
{
	(void)state;
	beest_device_close(&device);
	return fake_verbs.open;
}

#define FRESH(test) cmocka_unit_test_setup_teardown(test, reset, check_closed)

static struct fake_port *port_of(int device_index)
{
	return &fake_verbs.devices[device_index].ports[0];
}

static struct beest_gid_policy policy_of(const char *gid)
{
	struct beest_gid_policy policy;

	assert_int_equal(beest_gid_policy_parse(gid, BEEST_ROCE_NONE, AF_UNSPEC, &policy), 0);
	return policy;
}

static void write_line(const char *name, const char *line)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", machine, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(line, file);
	fclose(file);
}

static void make_node(const char *name)
{
	write_line(name, "");
}

static int open_by(const char *name, const char *gid)
{
	struct beest_gid_policy policy = policy_of(gid);

	return beest_selection_open(&device, name, -1, &policy, &noisy);
}

static void opens(const char *name, const char *gid, const char *label)
{
	assert_int_equal(open_by(name, gid), 0);
	assert_string_equal(device.label, label);
	assert_int_equal(fake_verbs.open, 1);
	beest_device_close(&device);
	assert_int_equal(fake_verbs.open, 0);
}

static void fails(const char *name, const char *gid, int wanted, const char *sentence)
{
	assert_int_equal(open_by(name, gid), wanted);
	assert_error_has(sentence);
	assert_int_equal(fake_verbs.open, 0);
	assert_null(device.verbs);
}

/* -------------------------------------------------------------- choice --- */

static void test_open(void **state)
{
	(void)state;
	assert_int_equal(beest_selection_open(&device, NULL, -1, NULL, &noisy), 0);
	assert_string_equal(device.name, "fake0");
	assert_string_equal(device.label, "fake0:1");
	assert_int_equal(device.port, 1);
	assert_int_equal(device.attr.max_qp_wr, 4096);
	assert_false(device.soft_roce);
	assert_int_equal(fake_verbs.contexts, 1);
	assert_int_equal(fake_verbs.lists, 0);
	assert_string_equal(logged, "6 using port fake0:1\n");

	beest_device_close(&device);
	beest_device_close(&device);
	assert_string_equal(device.name, "");
}

static void test_by_name(void **state)
{
	(void)state;
	fake_verbs_add("mlx5_1")->attr.phys_port_cnt = 2;
	fake_verbs.devices[1].ports[1] = fake_verbs.devices[1].ports[0];

	opens(NULL, "auto", "fake0:1");
	opens("fake0", "auto", "fake0:1");
	opens("mlx5_1", "auto", "mlx5_1:1");
	opens("mlx5_1:1", "auto", "mlx5_1:1");
	opens("mlx5_1:2", "auto", "mlx5_1:2");
	opens("mlx5_", "auto", "mlx5_1:1");
	fake_verbs.devices[1].ports[0].state = IBV_PORT_DOWN;
	opens("mlx5_1", "auto", "mlx5_1:2");
}

static void test_bad_names(void **state)
{
	(void)state;
	fake_verbs_add("mlx5_1");
	fails("mlx4_1", "auto", -ENODEV, "there is no RDMA device 'mlx4_1', the nearest is "
	      "mlx5_1: this machine has fake0; mlx5_1");
	fails("qib0", "auto", -ENODEV, "no RDMA device 'qib0': this machine has");
	fails("", "auto", -EINVAL, "'' is not the name of a device");
	fails(":1", "auto", -EINVAL, "':1' is not the name of a device");
	fails("mlx5_1:", "auto", -EINVAL, "the port in device 'mlx5_1:': ''");
	fails("mlx5_1:0", "auto", -EINVAL, "the port in device 'mlx5_1:0': '0'");
	fails("mlx5_1:x", "auto", -EINVAL, "'x' is not a number");
	fails("mlx5_1:1:1", "auto", -EINVAL, "'1:1' is not a number");
	fails("mlx5_1:256", "auto", -EINVAL, "'256' is out of range");
	fails("mlx5_1:2", "auto", -ENXIO, "device mlx5_1 has no port 2: its ports are 1 to 1");
	fails("a-name-that-is-longer-than-any-that-the-kernel-gives-to-a-device", "auto",
	      -EINVAL, "is not the name of a device");
}

static void test_states(void **state)
{
	static const struct {
		enum ibv_port_state state;
		const char *text;
	} states[] = {
		{ IBV_PORT_NOP, "port fake0:1 is in no state" },
		{ IBV_PORT_DOWN, "port fake0:1 is down" },
		{ IBV_PORT_INIT, "port fake0:1 is initializing: no subnet manager" },
		{ IBV_PORT_ARMED, "port fake0:1 is armed" },
		{ IBV_PORT_ACTIVE_DEFER, "port fake0:1 is active but failing" },
		{ (enum ibv_port_state)9, "port fake0:1 is in an unknown state" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(states); i++) {
		port_of(0)->state = states[i].state;
		fails("fake0:1", "auto", -ENETDOWN, states[i].text);
		fails(NULL, "auto", -ENETDOWN, states[i].text);
	}
	assert_string_equal(beest_device_state_text(IBV_PORT_ACTIVE), "active");
	fails(NULL, "auto", -ENETDOWN, "no port of any RDMA device can be used: port fake0:1");
}

/* Chooses the first port that is up, whatever its link layer. */
static void test_passed_over(void **state)
{
	(void)state;
	fake_verbs_add("fake1")->open_error = EACCES;
	fake_verbs_add("siw0")->transport = IBV_TRANSPORT_IWARP;
	fake_verbs_add("ib0");
	port_of(0)->state = IBV_PORT_DOWN;
	port_of(3)->link_layer = IBV_LINK_LAYER_INFINIBAND;

	opens(NULL, "auto", "ib0:1");
	assert_string_equal(logged, "6 using port ib0:1; passed over: port fake0:1 is down; "
			    "device fake1 cannot be opened: Permission denied; "
			    "device siw0 is iWARP, whose connections only rdma_cm can make\n");
	port_of(3)->state = IBV_PORT_INIT;
	fails(NULL, "auto", -ENETDOWN, "port ib0:1 is initializing");
	assert_error_has("fake1 cannot be opened");
}

static void test_no_devices(void **state)
{
	(void)state;
	fake_verbs.device_count = 0;
	fails(NULL, "auto", -ENODEV, "this machine has no RDMA device");
	fails("mlx5_0", "auto", -ENODEV, "this machine has no RDMA device");

	assert_error_has("'hartebeest doctor' says what is missing, and Soft-RoCE makes");

	fake_verbs_fail("ibv_get_device_list", 1, -ENOSYS);	/* really negative */
	fails(NULL, "auto", -ENODEV, "this machine has no RDMA device");
	fake_verbs_fail("ibv_get_device_list", 1, ENOSYS);
	fails(NULL, "auto", -ENODEV, "this machine has no RDMA device");
	fake_verbs_fail("ibv_get_device_list", 1, ENOMEM);
	fails(NULL, "auto", -ENOMEM, "the RDMA devices cannot be listed: Cannot allocate");
	fake_verbs_fail("ibv_get_device_list", 1, FAKE_NO_ERRNO);
	fails(NULL, "auto", -EIO, "the RDMA devices cannot be listed: Input/output error");
}

static void test_iwarp(void **state)
{
	(void)state;
	fake_verbs.devices[0].transport = IBV_TRANSPORT_IWARP;
	fails("fake0", "auto", -EPROTONOSUPPORT, "device fake0 is iWARP, whose connections only "
	      "rdma_cm can make");
	fails(NULL, "auto", -EPROTONOSUPPORT, "fake0 is iWARP");
	assert_int_equal(fake_verbs_calls("ibv_open_device"), 0);
}

static void test_open_fails(void **state)
{
	static const struct {
		int error, wanted;
		const char *sentence;
	} errors[] = {
		{ EACCES, -EACCES, "device fake0 cannot be opened: Permission denied" },
		{ EPERM, -EPERM, "device fake0 cannot be opened: Operation not permitted" },
		{ ENOENT, -ENOENT, "device fake0 cannot be opened: No such file or directory" },
		{ ENOMEM, -ENOMEM, "device fake0 cannot be opened: Cannot allocate memory" },
		{ FAKE_NO_ERRNO, -EIO, "device fake0 cannot be opened: Input/output error" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(errors); i++) {
		fake_verbs.devices[0].open_error = errors[i].error;
		fails("fake0", "auto", errors[i].wanted, errors[i].sentence);
		fails(NULL, "auto", errors[i].wanted, errors[i].sentence);
	}

	/* The errno of one device is not reported for the next. */
	fake_verbs_add("fake1");
	fake_verbs.devices[0].open_error = EACCES;
	fails(NULL, "auto", -EACCES, "device fake1 cannot be opened: Input/output error");
}

/* Root may open anything, so the check runs as another user. */
static bool in_another_process(bool (*check)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit((geteuid() == 0 && setuid(65534) < 0) || !check());
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static bool open_is_refused(void)
{
	char node[128];

	snprintf(node, sizeof(node), " may not read and write %s/uverbs-fake0", machine);
	return open_by("fake0", "auto") == -EACCES &&
	       strstr(beest_error_text(), "device fake0 cannot be opened: user ") &&
	       strstr(beest_error_text(), node);
}

static bool open_finds_no_node(void)
{
	char sentence[192];

	snprintf(sentence, sizeof(sentence), "device fake0 cannot be opened: there is no "
		 "%s/uverbs-fake0; a container needs it passed in", machine);
	return open_by("fake0", "auto") == -ENOENT && strstr(beest_error_text(), sentence);
}

/* As a device cgroup does, this forbids open(2) whatever the permissions of the node are. */
static bool forbid_opening(void)
{
	const unsigned int low = __BYTE_ORDER == __LITTLE_ENDIAN ? 0 : 4;
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]) + low),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_RDWR, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = BEEST_COUNT(steps), .filter = steps };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool open_is_forbidden(void)
{
	char sentence[384];

	snprintf(sentence, sizeof(sentence), "device fake0 cannot be opened: this container or job "
		 "may not use %s/uverbs-fake0, whatever its mode: start it with "
		 "--device=%s/uverbs-fake0", machine, machine);
	return forbid_opening() && open_by("fake0", "auto") == -EPERM &&
	       strstr(beest_error_text(), sentence) &&
	       strstr(beest_error_text(), "(device cgroup); where RDMA name spaces are exclusive, "
		      "'rdma dev set fake0 netns NAME' outside gives it the device");
}

static void test_forbidden_node(void **state)
{
	char path[128];

	(void)state;
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
		skip();		/* an emulated processor */
	snprintf(path, sizeof(path), "%s/uverbs-fake0", machine);
	assert_int_equal(chmod(path, 0666), 0);
	fake_verbs.devices[0].open_error = ENOENT;
	assert_true(in_another_process(open_is_forbidden));
}

/* libibverbs reports ENOENT in each of these cases. */
static void test_nodes(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/uverbs-fake0", machine);
	fake_verbs.devices[0].open_error = ENOENT;
	assert_int_equal(chmod(path, 0), 0);
	assert_true(in_another_process(open_is_refused));
	assert_int_equal(unlink(path), 0);
	assert_true(open_finds_no_node());
	assert_true(in_another_process(open_finds_no_node));
	make_node("uverbs-fake0");
}

/* How a container sees the host's devices. */
static void test_devices_of_the_kernel(void **state)
{
	char path[128], nodes[128];

	(void)state;
	fake_verbs.device_count = 0;
	snprintf(path, sizeof(path), "%s/class", machine);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/class/infiniband", machine);
	assert_int_equal(mkdir(path, 0755), 0);
	make_node("class/infiniband/rxe1");
	make_node("class/infiniband/rxe0");
	fails(NULL, "auto", -ENODEV, "the kernel has the devices rxe0, rxe1, but libibverbs finds "
	      "none: is the provider library for them installed?");
	snprintf(nodes, sizeof(nodes), "%s/class", machine);
	beest_node_folder = nodes;
	fails(NULL, "auto", -ENODEV, "the kernel has the devices rxe0, rxe1, but there is no ");
	assert_error_has("/uverbs*: is the kernel module ib_uverbs loaded? A container needs it "
			 "passed in");
}

/* In an exclusive RDMA name space, only the folders of the nodes are left. */
static void test_devices_elsewhere(void **state)
{
	static char sysfs[128];
	char path[128];
	int i;

	(void)state;
	fake_verbs.device_count = 0;
	snprintf(sysfs, sizeof(sysfs), "%s/sys", machine);
	beest_near_sysfs = sysfs;
	for (i = 0; i < 4; i++) {
		static const char *const folders[] = {
			"", "/class", "/class/infiniband_verbs", "/class/infiniband_verbs/uverbs1",
		};

		snprintf(path, sizeof(path), "%s%s", sysfs, folders[i]);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	make_node("sys/class/infiniband_verbs/abi_version");
	write_line("sys/class/infiniband_verbs/uverbs1/ibdev", "rxe1\n");
	fails(NULL, "auto", -ENODEV, "the devices rxe1 belong to another network name space, since "
	      "those of RDMA are exclusive: 'rdma dev set DEVICE netns NAME' outside gives this "
	      "one a device, 'rdma system set netns shared' all");
}

static int group_start(void **state)
{
	(void)state;
	scratch_folder(machine, "unit-device");
	make_node("uverbs-fake0");
	make_node("uverbs-fake1");
	return chmod(machine, 0755);
}

static int group_end(void **state)
{
	char command[SCRATCH_SIZE + 8];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", machine);
	return system(command);
}

static void test_soft_roce(void **state)
{
	static const struct {
		const char *name;
		uint32_t vendor;
		bool soft;
	} rows[] = {
		{ "rxe0", 0xffffff, true },
		{ "my_link", 0xffffff, true },
		{ "rxe0", 0, true },		/* as old kernels report it */
		{ "rxe0", 0x02c9, false },
		{ "mlx5_0", 0x02c9, false },
		{ "hns_0", 0, false },
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		fake_verbs.devices[0].name = rows[i].name;
		fake_verbs.devices[0].attr.vendor_id = rows[i].vendor;
		assert_int_equal(open_by(NULL, "auto"), 0);
		assert_int_equal(device.soft_roce, rows[i].soft);
		beest_device_close(&device);
	}
	assert_non_null(strstr(logged, "using port my_link:1 (Soft-RoCE)"));
}

/* ------------------------------------------------- choice by GID table --- */

static void two_ports(void)
{
	struct fake_device *second = fake_verbs_add("fake1");

	second->ports[0].gids[0].netdev = second->ports[0].gids[1].netdev = "eth1";
	second->ports[0].gids[2].netdev = second->ports[0].gids[3].netdev = "eth1";
	second->ports[0].gids[2].gid = second->ports[0].gids[3].gid = "::ffff:10.0.1.1";
}

static void test_by_table(void **state)
{
	(void)state;
	two_ports();
	opens(NULL, "ip:10.0.0.1", "fake0:1");
	opens(NULL, "ip:10.0.1.1", "fake1:1");
	opens(NULL, "subnet:10.0.1.0/24", "fake1:1");
	opens(NULL, "netdev:eth1", "fake1:1");
	opens(NULL, "gid:::ffff:10.0.1.1", "fake1:1");
	opens(NULL, "index:3", "fake0:1");
	opens(NULL, "index:7", "fake0:1");		/* refused by the GID choice */
	opens("fake0:1", "ip:10.0.1.1", "fake0:1");	/* likewise */
	fails("fake0", "ip:10.0.1.1", -ENODATA, "port fake0:1: no GID fits ip:10.0.1.1: index 0");

	fails(NULL, "ip:10.0.2.1", -ENODATA, "no port of any RDMA device can be used: "
	      "port fake0:1: no GID fits ip:10.0.2.1: index 0: fe80::a00:27ff:fe00:1, "
	      "RoCE v1, eth0 (another address); index 1");
	assert_error_has("; port fake1:1: no GID fits ip:10.0.2.1");
	assert_error_has("::ffff:10.0.1.1, RoCE v2, eth1 (another address)");
}

static void test_by_table_of_second_port(void **state)
{
	struct fake_device *only = &fake_verbs.devices[0];

	(void)state;
	only->attr.phys_port_cnt = 2;
	only->ports[1] = only->ports[0];
	only->ports[1].gids[3].gid = "::ffff:10.7.0.1";
	opens(NULL, "ip:10.7.0.1", "fake0:2");
	opens("fake0", "ip:10.7.0.1", "fake0:2");
	only->ports[1].state = IBV_PORT_DOWN;
	fails(NULL, "ip:10.7.0.1", -ENODATA, "port fake0:2 is down");
}

/* Other devices and GIDs are looked at only where that can make a difference. */
static void test_cost(void **state)
{
	int others;

	(void)state;
	opens(NULL, "auto", "fake0:1");
	assert_int_equal(fake_verbs_calls("ibv_query_port"), 1);
	assert_int_equal(fake_verbs_calls("ibv_query_gid_table"), 0);
	assert_int_equal(fake_verbs_calls("getifaddrs"), 0);

	for (others = 0; others < 3; others++)
		fake_verbs_add(others == 0 ? "fake1" : others == 1 ? "fake2" : "fake3");
	opens(NULL, "auto", "fake0:1");
	assert_int_equal(fake_verbs_calls("ibv_open_device"), 2);
	assert_int_equal(fake_verbs_calls("ibv_query_port"), 1 + 2);
	assert_int_equal(fake_verbs_calls("ibv_query_gid_table"), 1);
	assert_int_equal(fake_verbs_calls("getifaddrs"), 1);
	opens("fake2", "auto", "fake2:1");
	opens("fake3:1", "auto", "fake3:1");
	assert_int_equal(fake_verbs_calls("ibv_query_gid_table"), 1);
}

static void test_by_ipoib(void **state)
{
	(void)state;
	fake_verbs_infiniband();
	port_of(0)->gids[0].netdev = "ib0";
	fake_verbs_add("fake1")->ports[0].gids[0] = (struct fake_gid){ .gid = "fe80::8",
								      .netdev = "ib1" };
	opens(NULL, "netdev:ib0", "fake0:1");
	opens(NULL, "netdev:ib1", "fake1:1");
	fails(NULL, "netdev:ib2", -ENODATA, "index 0: fe80::8, InfiniBand, ib1 (another "
	      "interface)");
	fails(NULL, "ip:10.0.0.1", -ENODATA, "holds no IP address, choose by netdev");
}

/* ---------------------------------------------------------- GID table --- */

static void same_gid(const struct beest_gid_entry *entry, int index, const char *gid,
		     enum beest_roce roce, const char *netdev, bool down)
{
	assert_int_equal(entry->index, index);
	assert_string_equal(BEEST_GID_TEXT(&entry->gid), gid);
	assert_int_equal(entry->roce, roce);
	assert_string_equal(entry->netdev, netdev);
	assert_int_equal(entry->netdev_down, down);
}

static void sparse(struct fake_port *port)
{
	memset(port->gids, 0, sizeof(port->gids));
	port->gid_count = 20;
	port->gids[0].error = EINVAL;
	port->gids[3] = (struct fake_gid){ .gid = "fe80::3", .roce = 2, .netdev = "eth0" };
	port->gids[4] = (struct fake_gid){ .gid = "::ffff:10.0.0.4", .roce = 1 };
	port->gids[5].error = EIO;
	port->gids[6] = (struct fake_gid){ .gid = "::", .roce = 2, .netdev = "eth9",
					    .netdev_down = true };
	port->gids[10] = (struct fake_gid){ .gid = "::ffff:10.0.0.10", .roce = 2 };
	port->gids[19] = (struct fake_gid){ .gid = "::ffff:10.0.0.9", .roce = 2, .netdev = "eth9",
					     .netdev_down = true };
	port->gids[20] = (struct fake_gid){ .gid = "::ffff:10.0.0.20", .roce = 2, .netdev = "eth9",
					     .netdev_down = true };
}

static void test_sparse_table(void **state)
{
	struct beest_gid_entry *entries;

	(void)state;
	sparse(port_of(0));
	assert_int_equal(open_by(NULL, "auto"), 0);
	assert_int_equal(beest_gidtable_entries(&device, "", &entries), 4);
	same_gid(&entries[0], 3, "fe80::3", BEEST_ROCE_V2, "eth0", false);
	same_gid(&entries[1], 4, "::ffff:10.0.0.4", BEEST_ROCE_V1, "", false);
	same_gid(&entries[2], 10, "::ffff:10.0.0.10", BEEST_ROCE_V2, "", false);
	same_gid(&entries[3], 19, "::ffff:10.0.0.9", BEEST_ROCE_V2, "eth9", true);
	free(entries);

	port_of(0)->gid_count = 0;
	assert_int_equal(beest_gidtable_entries(&device, "", &entries), 0);
	free(entries);
}

static int in_one, one_by_one;

static void reads_count(const char *function)
{
	in_one += strcmp(function, "ibv_query_gid_table") == 0;
	one_by_one += strcmp(function, "ibv_query_gid_ex") == 0;
}

/* A table of 1024 entries is read by one call, unless that call is not supported. */
static void test_table_in_one_call(void **state)
{
	struct beest_gid_entry *entries;
	int fails;

	(void)state;
	sparse(port_of(0));
	assert_int_equal(open_by(NULL, "auto"), 0);
	for (fails = 0; fails < 2; fails++) {
		in_one = one_by_one = 0;
		fake_verbs.hook = reads_count;
		if (fails)
			fake_verbs_fail("ibv_query_gid_table", 1, EOPNOTSUPP);
		assert_int_equal(beest_gidtable_entries(&device, "", &entries), 4);
		fake_verbs.hook = NULL;
		same_gid(&entries[0], 3, "fe80::3", BEEST_ROCE_V2, "eth0", false);
		same_gid(&entries[3], 19, "::ffff:10.0.0.9", BEEST_ROCE_V2, "eth9", true);
		free(entries);
		assert_int_equal(in_one, 1);
		assert_int_equal(one_by_one, fails ? 20 : 0);
	}
}

static void test_table_without_interfaces(void **state)
{
	struct beest_gid_entry *entries;

	(void)state;
	assert_int_equal(open_by(NULL, "auto"), 0);
	fake_verbs_fail("getifaddrs", 1, ENOMEM);
	assert_int_equal(beest_gidtable_entries(&device, "", &entries), 4);
	assert_int_equal(entries[3].roce, BEEST_ROCE_V2);
	assert_false(entries[3].netdev_down);		/* unknown counts as up */
	free(entries);
}

static void test_port_query_fails(void **state)
{
	struct beest_gid_entry *entries, chosen;
	struct beest_gid_policy policy = policy_of("auto");
	struct ibv_port_attr attr;
	uint16_t index, pkey;

	(void)state;
	assert_int_equal(open_by(NULL, "auto"), 0);
	fake_verbs_fail("ibv_query_port", 0, ENODEV);
	assert_int_equal(beest_device_port(&device, &attr), -ENODEV);
	assert_error_is("port fake0:1 cannot be queried: No such device");
	assert_int_equal(beest_gidtable_entries(&device, "", &entries), -ENODEV);
	assert_int_equal(beest_source_choose(&device, NULL, &policy, &noisy, &chosen, reason,
					     sizeof(reason)),
			 -ENODEV);
	assert_int_equal(beest_device_pkey(&device, 0, &index, &pkey), 0);	/* read at open */

	beest_device_close(&device);
	fake_verbs_reset();
	fake_verbs_infiniband();
	assert_int_equal(open_by(NULL, "auto"), 0);
	fake_verbs_fail("ibv_query_port", 0, ENODEV);
	assert_int_equal(beest_device_pkey(&device, 0, &index, &pkey), -ENODEV);
}

/* --------------------------------------------------------------- sysfs --- */

static char folder[SCRATCH_SIZE];

static void write_file(const char *name, const char *text)
{
	char path[256], *slash;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	for (slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int make_folder(void **state)
{
	scratch_folder(folder, "unit-device");
	reset(state);
	fake_verbs.devices[0].ibdev_path = folder;
	return 0;
}

static int remove_folder(void **state)
{
	char command[SCRATCH_SIZE + 8];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command) || check_closed(state);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

static int read_sysfs(struct beest_gid_entry **entries)
{
	struct beest_newer *newer = (struct beest_newer *)beest_newer(), all = *newer;
	int ret;

	newer->query_gid = NULL;
	newer->query_gids = NULL;
	ret = beest_gidtable_entries(&device, "", entries);
	*newer = all;
	return ret;
}

static void test_sysfs(void **state)
{
	struct beest_gid_entry *entries;

	(void)state;
	sparse(port_of(0));
	port_of(0)->gids[7].gid = "fe80::7";		/* its type cannot be read */
	port_of(0)->gids[8].gid = "fe80::8";		/* a type of a later kernel */
	write_file("ports/1/gid_attrs/types/3", "RoCE v2\n");
	write_file("ports/1/gid_attrs/types/4", "IB/RoCE v1\n");
	write_file("ports/1/gid_attrs/types/8", "RoCE v3\n");
	write_file("ports/1/gid_attrs/types/19", "RoCE v2\n");
	write_file("ports/1/gid_attrs/ndevs/3", "eth0\n");
	write_file("ports/1/gid_attrs/ndevs/4", "");
	write_file("ports/1/gid_attrs/ndevs/19", "eth9\n");

	assert_int_equal(open_by(NULL, "auto"), 0);
	assert_int_equal(read_sysfs(&entries), 3);
	same_gid(&entries[0], 3, "fe80::3", BEEST_ROCE_V2, "eth0", false);
	same_gid(&entries[1], 4, "::ffff:10.0.0.4", BEEST_ROCE_V1, "", false);
	same_gid(&entries[2], 19, "::ffff:10.0.0.9", BEEST_ROCE_V2, "eth9", true);
	free(entries);
}

/* The name is that of an interface of another network name space, which is none of ours. */
static void test_sysfs_unknown_interface(void **state)
{
	struct beest_gid_entry *entries;

	(void)state;
	sparse(port_of(0));
	write_file("ports/1/gid_attrs/types/3", "RoCE v2\n");
	write_file("ports/1/gid_attrs/ndevs/3", "eth77\n");
	assert_int_equal(open_by(NULL, "auto"), 0);
	assert_int_equal(read_sysfs(&entries), 1);
	same_gid(&entries[0], 3, "fe80::3", BEEST_ROCE_V2, "", false);
	free(entries);
}

/* Kernels before 4.5 have no gid_attrs, so the GID is RoCE v1. */
static void test_sysfs_of_old_kernel(void **state)
{
	struct beest_gid_entry *entries;

	(void)state;
	sparse(port_of(0));
	write_file("ports/1/state", "4: ACTIVE\n");
	assert_int_equal(open_by(NULL, "auto"), 0);
	assert_int_equal(read_sysfs(&entries), 4);
	same_gid(&entries[3], 19, "::ffff:10.0.0.9", BEEST_ROCE_V1, "", false);
	free(entries);
}

static void test_sysfs_of_infiniband(void **state)
{
	struct beest_gid_entry *entries;

	(void)state;
	fake_verbs_infiniband();
	fake_verbs.devices[0].ibdev_path = folder;
	port_of(0)->gids[0].netdev = "ib0";
	write_file("ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
	assert_int_equal(open_by(NULL, "auto"), 0);
	assert_int_equal(read_sysfs(&entries), 1);
	same_gid(&entries[0], 0, "fe80::7", BEEST_ROCE_NONE, "ib0", false);
	free(entries);
}

/* ---------------------------------------------------------- GID choice --- */

static void chooses(struct ibv_pd *pd, const char *gid, int index)
{
	struct beest_gid_policy policy = policy_of(gid);
	struct beest_gid_entry chosen;

	assert_int_equal(beest_source_choose(&device, pd, &policy, &noisy, &chosen, reason,
					     sizeof(reason)), 0);
	assert_int_equal(chosen.index, index);
}

static void test_gid(void **state)
{
	struct ibv_pd *pd;

	(void)state;
	assert_int_equal(open_by(NULL, "auto"), 0);
	pd = ibv_alloc_pd(device.verbs);
	chooses(NULL, "auto", 3);
	assert_int_equal(fake_verbs_calls("ibv_create_ah"), 0);
	chooses(pd, "auto", 3);
	assert_int_equal(fake_verbs_calls("ibv_create_ah"), 1);
	assert_int_equal(strncmp(reason, "index 3: ::ffff:10.0.0.1, RoCE v2, eth0 was chosen by "
				 "auto; index 0: ", 68), 0);
	chooses(pd, "index:0", 0);
	assert_int_equal(fake_verbs.ahs, 0);
	ibv_dealloc_pd(pd);
}

static void test_next_best(void **state)
{
	struct beest_gid_policy policy = policy_of("auto"), third = policy_of("index:3");
	struct beest_gid_entry chosen;
	struct ibv_pd *pd;
	int i;

	(void)state;
	assert_int_equal(open_by(NULL, "auto"), 0);
	pd = ibv_alloc_pd(device.verbs);
	port_of(0)->gids[3].ah_error = ENETUNREACH;
	chooses(pd, "auto", 1);
	assert_non_null(strstr(logged, "4 port fake0:1: an address handle from GID 3 "
			       "(::ffff:10.0.0.1) to itself failed: Network is unreachable"));
	assert_non_null(strstr(reason, "eth0 (tried and failed: Network is unreachable)"));

	assert_int_equal(beest_source_choose(&device, pd, &third, &noisy, &chosen, reason,
					     sizeof(reason)),
			 -ENODATA);
	assert_error_has("port fake0:1: no GID fits index:3: ");
	assert_error_has("eth0 (tried and failed: Network is unreachable)");

	for (i = 0; i < 4; i++)
		port_of(0)->gids[i].ah_error = ENODEV;
	assert_int_equal(beest_source_choose(&device, pd, &policy, &noisy, &chosen, reason,
					     sizeof(reason)),
			 -ENODATA);
	assert_error_has("(tried and failed: No such device)");

	/* Earlier failures are not remembered. */
	memset(&port_of(0)->gids[0].ah_error, 0, sizeof(int));
	chooses(pd, "auto", 0);
	assert_int_equal(fake_verbs.ahs, 0);
	ibv_dealloc_pd(pd);
}

static void test_gid_of_infiniband(void **state)
{
	struct ibv_pd *pd;

	(void)state;
	fake_verbs_infiniband();
	assert_int_equal(open_by(NULL, "auto"), 0);
	pd = ibv_alloc_pd(device.verbs);
	chooses(pd, "auto", 0);
	assert_int_equal(fake_verbs_calls("ibv_create_ah"), 0);
	ibv_dealloc_pd(pd);
}

static void test_no_gid(void **state)
{
	struct beest_gid_policy policy = policy_of("ip:10.9.9.9");
	struct beest_gid_entry chosen;

	(void)state;
	assert_int_equal(open_by("fake0:1", "auto"), 0);
	assert_int_equal(beest_source_choose(&device, NULL, &policy, &noisy, &chosen, reason,
					     sizeof(reason)),
			 -ENODATA);
	assert_error_has("port fake0:1: no GID fits ip:10.9.9.9: index 0: ");
	port_of(0)->gid_count = 0;
	assert_int_equal(beest_source_choose(&device, NULL, &policy, &noisy, &chosen, reason,
					     sizeof(reason)),
			 -ENODATA);
	assert_error_has("the GID table has no entry that can be read");
}

/* --------------------------------------------------------------- P_Key --- */

static const struct {
	uint16_t pkeys[6];
	uint16_t wanted;
	int index;			/* or a negative errno */
	uint16_t pkey;
	const char *sentence;
} pkeys[] = {
	{ { 0xffff }, 0, 0, 0xffff, NULL },
	{ { 0x7fff, 0x8012 }, 0, 1, 0x8012, NULL },
	{ { 0, 0x8000, 0x7fff, 0x0012 }, 0, 2, 0x7fff, NULL },
	{ { 0x7fff, 0x8012, 0xffff }, 0, 1, 0x8012, NULL },
	{ { 0x7fff, 0x8012, 0xffff }, 0x7fff, 2, 0xffff, NULL },
	{ { 0x7fff, 0x8012, 0xffff }, 0xffff, 2, 0xffff, NULL },
	{ { 0x7fff, 0x0012 }, 0xffff, 0, 0x7fff, NULL },
	{ { 0x0012, 0x0034, 0x8034 }, 0x0034, 2, 0x8034, NULL },
	{ { 0x7fff, 0x8012 }, 0x0034, -ENODATA, 0,
	  "port fake0:1 has no P_Key 0x0034: it has index 0: 0x7fff (limited member); "
	  "index 1: 0x8012" },
	{ { 0x7fff, 0x8012 }, 0x8000, -ENODATA, 0, "port fake0:1 has no P_Key 0x8000: it has" },
	{ { 0, 0x8000 }, 0, -ENODATA, 0, "port fake0:1 has an empty P_Key table: " },
	{ { 0 }, 0xffff, -ENODATA, 0, "port fake0:1 has no P_Key 0xffff: it has an empty P_Key "
	  "table: " },
};

static void test_pkeys(void **state)
{
	uint16_t index, pkey;
	size_t i;
	int ret;

	(void)state;
	fake_verbs_infiniband();
	assert_int_equal(open_by(NULL, "auto"), 0);
	for (i = 0; i < BEEST_COUNT(pkeys); i++) {
		memcpy(port_of(0)->pkeys, pkeys[i].pkeys, sizeof(pkeys[i].pkeys));
		index = pkey = 0x5a5a;
		ret = beest_device_pkey(&device, pkeys[i].wanted, &index, &pkey);
		assert_int_equal(ret, pkeys[i].sentence ? pkeys[i].index : 0);
		if (pkeys[i].sentence) {
			assert_error_has(pkeys[i].sentence);
			assert_int_equal(index, 0x5a5a);
			continue;
		}
		assert_int_equal(index, pkeys[i].index);
		assert_int_equal(pkey, pkeys[i].pkey);
	}
}

static void test_unreadable_pkeys(void **state)
{
	uint16_t index, pkey;

	(void)state;
	fake_verbs_infiniband();
	assert_int_equal(open_by(NULL, "auto"), 0);
	fake_verbs_fail("ibv_query_pkey", 1, EIO);
	assert_int_equal(beest_device_pkey(&device, 0, &index, &pkey), 0);
	assert_int_equal(index, 1);
	assert_int_equal(pkey, 0x8012);
	fake_verbs_fail("ibv_query_pkey", 0, EIO);
	assert_int_equal(beest_device_pkey(&device, 0, &index, &pkey), -ENODATA);
	assert_error_is("port fake0:1 has no P_Key that can be read");
}

static void test_pkey_of_roce(void **state)
{
	uint16_t index = 9, pkey = 9;

	(void)state;
	assert_int_equal(open_by(NULL, "auto"), 0);
	assert_int_equal(beest_device_pkey(&device, 0, &index, &pkey), 0);
	assert_int_equal(index, 0);
	assert_int_equal(pkey, 0xffff);
}

/* ------------------------------------------------------------ failures --- */

/* Runs everything that this module does; 0: nothing failed. */
static int everything(const char *name, const char *gid)
{
	struct beest_gid_policy policy = policy_of(gid);
	struct beest_gid_entry chosen;
	uint16_t index, pkey;
	struct ibv_pd *pd;
	int ret;

	ret = beest_selection_open(&device, name, -1, &policy, &noisy);
	if (ret < 0) {
		assert_int_equal(fake_verbs.open, 0);
		assert_null(device.verbs);
		return ret;
	}

	pd = ibv_alloc_pd(device.verbs);
	ret = beest_source_choose(&device, pd, &policy, &noisy, &chosen, reason,
					     sizeof(reason));
	if (ret == 0)
		ret = beest_device_pkey(&device, 0, &index, &pkey);
	if (pd)
		ibv_dealloc_pd(pd);
	assert_int_equal(fake_verbs.open, 1);
	beest_device_close(&device);
	assert_int_equal(fake_verbs.open, 0);
	return ret;
}

/* Each call fails in turn: the result is an errno with a sentence, or another choice. */
static void walk(const char *name, const char *gid, void (*describe)(void), int least)
{
	int n, ret;

	for (n = 1; ; n++) {
		fake_verbs_reset();
		describe();
		fake_verbs_fail("*", n, EIO);
		ret = everything(name, gid);
		if (!fake_verbs.fired)
			break;
		assert_true(ret == 0 || ret == -EIO || ret == -ENODATA);
		if (ret < 0)
			assert_true(beest_error_text()[0]);
	}
	assert_int_equal(ret, 0);
	assert_true(n > least);
}

static void one_port(void)
{
}

static void test_every_failure(void **state)
{
	(void)state;
	walk(NULL, "auto", one_port, 9);
	walk("fake0:1", "auto", one_port, 9);
	walk(NULL, "auto", two_ports, 9);
	walk(NULL, "ip:10.0.1.1", two_ports, 20);
	walk(NULL, "auto", fake_verbs_infiniband, 10);
}

/* Each call fails every time: the result can only be a failure. */
static void test_all_fail(void **state)
{
	(void)state;
	fake_verbs_fail("*", 0, FAKE_NO_ERRNO);
	assert_int_equal(everything(NULL, "auto"), -EIO);
	reset(state);
	fake_verbs_fail("ibv_query_device", 0, ENOMEM);
	assert_int_equal(everything(NULL, "auto"), -ENOMEM);
	assert_error_has("the limits of device fake0 cannot be read: Cannot allocate memory");
	reset(state);
	fake_verbs_fail("ibv_query_port", 0, ENOMEM);
	assert_int_equal(everything(NULL, "auto"), -ENOMEM);
	assert_error_has("port fake0:1 cannot be queried: Cannot allocate memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FRESH(test_open),
		FRESH(test_by_name),
		FRESH(test_bad_names),
		FRESH(test_states),
		FRESH(test_passed_over),
		FRESH(test_no_devices),
		FRESH(test_iwarp),
		FRESH(test_open_fails),
		FRESH(test_nodes),
		FRESH(test_forbidden_node),
		FRESH(test_devices_of_the_kernel),
		FRESH(test_devices_elsewhere),
		FRESH(test_soft_roce),
		FRESH(test_by_table),
		FRESH(test_by_table_of_second_port),
		FRESH(test_cost),
		FRESH(test_by_ipoib),
		FRESH(test_sparse_table),
		FRESH(test_table_in_one_call),
		FRESH(test_table_without_interfaces),
		FRESH(test_port_query_fails),
		IN_FOLDER(test_sysfs),
		IN_FOLDER(test_sysfs_unknown_interface),
		IN_FOLDER(test_sysfs_of_old_kernel),
		IN_FOLDER(test_sysfs_of_infiniband),
		FRESH(test_gid),
		FRESH(test_next_best),
		FRESH(test_gid_of_infiniband),
		FRESH(test_no_gid),
		FRESH(test_pkeys),
		FRESH(test_unreadable_pkeys),
		FRESH(test_pkey_of_roce),
		FRESH(test_every_failure),
		FRESH(test_all_fail),
	};

	return cmocka_run_group_tests(tests, group_start, group_end);
}
