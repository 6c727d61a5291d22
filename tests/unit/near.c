/* SPDX-License-Identifier: MIT */
/*
 * near.c - device.name as a list, near:numa and near:pci, on a sysfs with eight adapters
 *
 * There are two sockets and four PCI trees with two adapters each.  The process runs on the
 * second socket on every machine, since its list of processors names all of them.
 *
 * promise: hartebeest.json(5)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hartebeest.h"
#include "lib/verbs/near.h"
#include "lib/verbs/selection.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/logged.h"
#include "tests/support/scratch.h"

#define ADAPTERS 8

static const struct adapter {
	const char *name, *place;
	int node;
} adapters[ADAPTERS] = {
	{ "mlx5_0", "pci0000:10/0000:10:01.0/0000:11:00.0", 0 },
	{ "mlx5_1", "pci0000:10/0000:10:03.0/0000:12:00.0", 0 },
	{ "mlx5_2", "pci0000:20/0000:20:01.0/0000:21:00.0", 0 },
	{ "mlx5_3", "pci0000:20/0000:20:03.0/0000:22:00.0", 0 },
	{ "mlx5_4", "pci0000:80/0000:80:01.0/0000:81:00.0", 1 },
	{ "mlx5_5", "pci0000:80/0000:80:03.0/0000:82:00.0", 1 },
	{ "mlx5_6", "pci0000:c0/0000:c0:01.0/0000:c1:00.0", 1 },
	{ "mlx5_7", "pci0000:c0/0000:c0:03.0/0000:c2:00.0", 1 },
};

/* A GPU under the bridge of mlx5_5. */
#define GPU "0000:8A:00.0"
#define GPU_PLACE "pci0000:80/0000:80:03.0/0000:8a:00.0"

static char root[SCRATCH_SIZE];
static char paths[ADAPTERS][128];
static struct beest_device device;

static const struct beest_log noisy = { .level = BEEST_LOG_INFO, .write = logged_keep };

/* --------------------------------------------------------------- the sysfs --- */

static const char *below(const char *path)
{
	static char full[4][256];
	static int turn;
	char *text = full[turn++ % 4], *slash;

	snprintf(text, sizeof(full[0]), "%s/%s", root, path);
	for (slash = text + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(text, 0700);
		*slash = '/';
	}
	return text;
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(below(path), "w");

	assert_non_null(file);
	fprintf(file, "%s\n", text);
	fclose(file);
}

static void make_link(const char *from, const char *to)
{
	const char *path = below(from);

	unlink(path);
	assert_int_equal(symlink(below(to), path), 0);
}

static void make_place(const char *place, int node)
{
	char path[160], number[8];

	snprintf(path, sizeof(path), "devices/%s/numa_node", place);
	snprintf(number, sizeof(number), "%d", node);
	write_file(path, number);
}

static void make_adapter(int i, const struct adapter *adapter)
{
	struct fake_device *fake = i ? fake_verbs_add(adapter->name) : &fake_verbs.devices[0];
	char from[128], to[128];

	fake->name = adapter->name;
	make_place(adapter->place, adapter->node);
	snprintf(paths[i], sizeof(paths[i]), "%s/class/infiniband/%s", root, adapter->name);
	snprintf(from, sizeof(from), "class/infiniband/%s/device", adapter->name);
	snprintf(to, sizeof(to), "devices/%s", adapter->place);
	make_link(from, to);
	fake->ibdev_path = paths[i];
}

static int setup(void **state)
{
	int i;

	(void)state;
	surroundings_clear();
	fake_verbs_reset();
	memset(&device, 0, sizeof(device));
	logged[0] = '\0';
	scratch_folder(root, "unit-near");
	beest_near_sysfs = root;
	for (i = 0; i < ADAPTERS; i++)
		make_adapter(i, &adapters[i]);
	make_place(GPU_PLACE, 1);
	make_link("bus/pci/devices/0000:8a:00.0", "devices/" GPU_PLACE);
	write_file("devices/system/node/online", "0-1");
	write_file("devices/system/node/node0/cpulist", "8000-8001");
	write_file("devices/system/node/node0/distance", "10 21");
	write_file("devices/system/node/node1/cpulist", "0-7999");
	write_file("devices/system/node/node1/distance", "21 10");
	return 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	(void)status, (void)type, (void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	beest_near_sysfs = "/sys";
	beest_device_close(&device);
	return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS) || fake_verbs.open;
}

static void opens(const char *name, int local_rank, const char *label)
{
	assert_int_equal(beest_selection_open(&device, name, local_rank, NULL, &noisy), 0);
	assert_string_equal(device.label, label);
	beest_device_close(&device);
}

static void fails(const char *name, int wanted, const char *sentence)
{
	assert_int_equal(beest_selection_open(&device, name, 0, NULL, &noisy), wanted);
	assert_error_has(sentence);
	assert_int_equal(fake_verbs.open, 0);
}

static void take_down(int first, int last)
{
	for (; first <= last; first++)
		fake_verbs.devices[first].ports[0].state = IBV_PORT_DOWN;
}

/* ------------------------------------------------------------------- lists --- */

static void a_list_by_local_rank(void **state)
{
	static const char list[] = "mlx5_6,mlx5_2:1,mlx5_0";

	(void)state;
	opens(list, 0, "mlx5_6:1");
	opens(list, 1, "mlx5_2:1");
	opens(list, 2, "mlx5_0:1");
	opens(list, 7, "mlx5_2:1");
	assert_non_null(strstr(logged, "6 using port mlx5_2:1, number 2 of 3 in device.name by "
			       "local rank 7\n"));
	opens("mlx5_3", 7, "mlx5_3:1");
	assert_non_null(strstr(logged, "6 using port mlx5_3:1\n"));
	assert_null(strstr(logged, "4 "));
	opens(list, -1, "mlx5_6:1");
	assert_non_null(strstr(logged, "4 using port mlx5_6:1, the first of 3 in device.name, "
			       "since no launcher gives a local rank\n"));
}

/* All entries are checked, not only the one whose turn it is. */
static void malformed_lists(void **state)
{
	(void)state;
	fails("mlx5_0,", -EINVAL, "'' is not the name of a device");
	fails("mlx5_0,,mlx5_1", -EINVAL, "'' is not the name of a device");
	fails("mlx5_0,mlx5_1:x", -EINVAL, "the port in device 'mlx5_1:x': 'x'");
	fails("mlx5_0,near:numa", -EINVAL, "the port in device 'near:numa'");
	fails("mlx5_00,mlx5_1", -ENODEV, "there is no RDMA device 'mlx5_00'");
	assert_int_equal(beest_selection_check("mlx5_0,mlx5_1:2"), 0);
	assert_int_equal(beest_selection_check("mlx5_0, mlx5_1:0"), -EINVAL);
}

/* Patterns, what is excluded, and what NCCL_IB_HCA may have: which port the local rank gets. */
static const struct {
	const char *name;
	int local_rank;
	const char *label;
} patterns[] = {
	{ "mlx5_[2-4]", 0, "mlx5_2:1" },
	{ "mlx5_[2-4]", 4, "mlx5_3:1" },
	{ "mlx5_[2-4]", -1, "mlx5_2:1" },
	{ "mlx5_6,mlx5_?", 9, "mlx5_1:1" },
	{ "mlx5_*:1", 2, "mlx5_2:1" },
	{ "^mlx5_0", 3, "mlx5_1:1" },
	{ "^mlx5_0,mlx5_1:1,mlx5_2:2", 0, "mlx5_2:1" },
	{ "^mlx5_[0-5]", 1, "mlx5_6:1" },
	{ "^=mlx5_0", 0, "mlx5_1:1" },
	{ "=mlx5_3:1,mlx5_5", 1, "mlx5_5:1" },
	{ "mlx5", 9, "mlx5_1:1" },
	{ "mlx", 3, "mlx5_3:1" },
};

static void patterns_of_names(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(patterns); i++)
		opens(patterns[i].name, patterns[i].local_rank, patterns[i].label);
	take_down(2, 3);
	opens("mlx5_[2-4]", 0, "mlx5_4:1");
	assert_non_null(strstr(logged, "6 using port mlx5_4:1, one of 3 devices that device.name "
			       "leaves; passed over: device.name rules out device mlx5_0; "));
	assert_non_null(strstr(logged, "port mlx5_2:1 is down"));
}

static void patterns_that_leave_nothing(void **state)
{
	char many[40 * 7] = "";
	int i;

	(void)state;
	fails("mlx4_*", -ENODEV, "no RDMA device is left by device.name 'mlx4_*': this machine has "
	      "mlx5_0; mlx5_1; ");
	fails("^mlx5_*", -ENODEV, "no RDMA device is left by device.name '^mlx5_*'");
	fails("mlx5_[67]:2", -ENODEV, "device.name rules out port mlx5_6:1");
	take_down(6, 7);
	fails("mlx5_[67]", -ENETDOWN, "port mlx5_6:1 is ");
	fails("mlx5_0,^mlx5_1", -EINVAL, "'^mlx5_1' is not the name of a device, such as mlx5_0 or "
	      "mlx5_0:1: ^ and = are for all entries, before the first one");
	fails("^", -EINVAL, "'' is not the name of a device");
	fails("^mlx5_0,", -EINVAL, "'' is not the name of a device");
	/* One digit more is another adapter. */
	fake_verbs.devices[1].name = "mlx5_10";
	fails("mlx5_1", -ENODEV, "there is no RDMA device 'mlx5_1', the nearest is ");
	for (i = 0; i < 40; i++)
		strcat(many, i ? ",mlx5_0" : "mlx5_0");
	fails(many, -EINVAL, "more than 32 names of devices");
}

/* -------------------------------------------------------------- near:numa --- */

/* Ranks take the adapters of their own socket in turn, instead of all using the first. */
static void adapters_of_the_own_socket(void **state)
{
	int rank;

	(void)state;
	for (rank = 0; rank < 16; rank++) {
		char label[16];

		snprintf(label, sizeof(label), "mlx5_%d:1", 4 + rank % 4);
		opens("near:numa", rank, label);
	}
	opens("near:numa", -1, "mlx5_4:1");
	assert_non_null(strstr(logged, "6 using port mlx5_5:1, near:numa, at distance 10 like 3 "
			       "others\n"));

	/* A port that is down is passed over, first in favour of its neighbours. */
	take_down(4, 5);
	opens("near:numa", 0, "mlx5_6:1");
	opens("near:numa", 1, "mlx5_6:1");
	opens("near:numa", 3, "mlx5_7:1");
	take_down(6, 7);
	opens("near:numa", 1, "mlx5_1:1");
	assert_non_null(strstr(logged, "6 using port mlx5_1:1, near:numa, at distance 21 like 3 "
			       "others; passed over: port mlx5_5:1 is down; port mlx5_6:1 is "
			       "down"));
	take_down(0, 3);
	fails("near:numa", -ENETDOWN, "no port of any RDMA device can be used: port mlx5_4:1 is "
	      "down; port mlx5_5:1 is down");
}

/* A process that is not bound to a node is near to all nodes. */
static void without_binding(void **state)
{
	(void)state;
	write_file("devices/system/node/node0/cpulist", "0-7999");
	opens("near:numa", 0, "mlx5_0:1");
	opens("near:numa", 5, "mlx5_5:1");
}

static void a_machine_without_nodes(void **state)
{
	(void)state;
	unlink(below("devices/system/node/online"));
	opens("near:numa", 3, "mlx5_3:1");
	assert_non_null(strstr(logged, "near:numa, at distance 255 like 7 others"));
}

static void a_node_that_nobody_says(void **state)
{
	int i;

	(void)state;
	for (i = 4; i < 8; i++)
		make_place(adapters[i].place, -1);
	opens("near:numa", 0, "mlx5_0:1");	/* a known distance is better */
}

/* --------------------------------------------------------------- near:pci --- */

static void adapters_near_a_gpu(void **state)
{
	(void)state;
	opens("near:pci:" GPU, 0, "mlx5_5:1");		/* below the same bridge */
	assert_non_null(strstr(logged, "near:pci:" GPU ", at distance 2\n"));
	opens("near:pci:0000:8a:00.0", 3, "mlx5_5:1");
	take_down(5, 5);
	opens("near:pci:" GPU, 3, "mlx5_4:1");		/* in the same tree */
	take_down(4, 4);
	opens("near:pci:" GPU, 0, "mlx5_6:1");		/* on the same socket */
	opens("near:pci:" GPU, 1, "mlx5_7:1");
	assert_non_null(strstr(logged, "at distance 1010 like 1 other;"));
	take_down(6, 7);
	opens("near:pci:" GPU, 2, "mlx5_2:1");
}

static void malformed_wishes(void **state)
{
	static const char *const wishes[] = {
		"near:", "near:numa1", "near:pci", "near:pci:", "near:pci:65:00.0",
		"near:pci:0000:65:00", "near:pci:0000:65:00.0x", "near:pci:../../etc",
		"near:gpu:0",
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(wishes); i++) {
		assert_int_equal(beest_selection_check(wishes[i]), -EINVAL);
		assert_error_has("is neither near:numa nor near:pci: with the address of a device");
	}
	assert_int_equal(beest_selection_check("near:numa"), 0);
	assert_int_equal(beest_selection_check("near:pci:0000:65:00.0"), 0);
	fails("near:pci:0000:65:00.0", -ENODEV,
	      "device.name: there is no PCI device '0000:65:00.0'");
}

/* ------------------------------------------------------------ soft devices --- */

static void a_soft_device(int i)
{
	char path[128];

	snprintf(path, sizeof(path), "class/infiniband/%s/device", adapters[i].name);
	unlink(below(path));
}

/* A soft device is where its network interface is, here one of virtio. */
static void by_network_interface(void **state)
{
	(void)state;
	a_soft_device(2);
	write_file("class/infiniband/mlx5_2/parent", "eth9");
	make_place("pci0000:80/0000:80:09.0", 1);
	write_file("devices/pci0000:80/0000:80:09.0/virtio3/vendor", "0x1af4");
	make_link("class/net/eth9/device", "devices/pci0000:80/0000:80:09.0/virtio3");
	opens("near:numa", 0, "mlx5_2:1");
	opens("near:numa", 1, "mlx5_4:1");

	/* Kernels without that file name the interface along with the GID. */
	unlink(below("class/infiniband/mlx5_2/parent"));
	write_file("class/infiniband/mlx5_2/ports/1/gid_attrs/ndevs/0", "eth9");
	opens("near:numa", 5, "mlx5_2:1");
}

static void without_a_place(void **state)
{
	int i;

	(void)state;
	a_soft_device(4);
	write_file("class/infiniband/mlx5_4/parent", "v0");
	opens("near:numa", 0, "mlx5_5:1");
	assert_non_null(strstr(logged, "passed over: device mlx5_4: neither it nor its network "
			       "interface has a place in sysfs"));
	for (i = 0; i < ADAPTERS; i++)
		a_soft_device(i);
	fails("near:numa", -ENODATA, "no port of any RDMA device can be used: device mlx5_0: "
	      "neither it nor");
}

/* -------------------------------------------------------- by way of the API --- */

static void told_by_the_device_text(void **state)
{
	static const char *const options[] = { "device.name=near:numa", NULL };
	struct hartebeest_context *hb;
	char text[1024];

	(void)state;
	setenv("SLURM_PROCID", "3", 1);
	setenv("SLURM_NTASKS", "4", 1);
	setenv("SLURM_STEP_NUM_TASKS", "4", 1);
	setenv("SLURM_JOB_ID", "1", 1);
	setenv("SLURM_STEP_ID", "0", 1);
	setenv("SLURM_LOCALID", "2", 1);
	assert_int_equal(hartebeest_open(&hb, options), 0);
	assert_int_equal(hartebeest_local_rank(hb), 2);
	assert_true(hartebeest_device_text(hb, text, sizeof(text)) >= 0);
	assert_non_null(strstr(text, "port mlx5_6:1, near:numa, at distance 10 like 3 others; IP "
			       "address 10.0.0.1; "));
	assert_int_equal(hartebeest_close(hb), 0);
}

static void text_is(const char *wanted)
{
	static const char *const options[] = { "device.name=near:numa", NULL };
	struct hartebeest_context *hb;
	char text[1024];

	assert_int_equal(hartebeest_open(&hb, options), 0);
	assert_true(hartebeest_device_text(hb, text, sizeof(text)) >= 0);
	assert_ptr_equal(strstr(text, wanted), text);
	assert_int_equal(hartebeest_close(hb), 0);
}

static void lose_gids(int first, int last)
{
	for (; first <= last; first++)
		fake_verbs.devices[first].ports[0].gid_count = 0;
}

/* Nearness goes before the worth of a GID, but not before having one. */
static void near_ones_without_a_gid(void **state)
{
	(void)state;
	lose_gids(4, 5);
	text_is("port mlx5_6:1, near:numa, at distance 10 like 3 others; ");
	lose_gids(6, 6);
	fake_verbs.devices[7].ports[0].gid_count = 2;		/* link-local */
	text_is("port mlx5_7:1, near:numa, at distance 10 like 3 others; ");
	lose_gids(7, 7);
	text_is("port mlx5_0:1, near:numa, at distance 21 like 3 others; ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_list_by_local_rank),
		TEST(malformed_lists),
		TEST(patterns_of_names),
		TEST(patterns_that_leave_nothing),
		TEST(adapters_of_the_own_socket),
		TEST(without_binding),
		TEST(a_machine_without_nodes),
		TEST(a_node_that_nobody_says),
		TEST(adapters_near_a_gpu),
		TEST(malformed_wishes),
		TEST(by_network_interface),
		TEST(without_a_place),
		TEST(told_by_the_device_text),
		TEST(near_ones_without_a_gid),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
