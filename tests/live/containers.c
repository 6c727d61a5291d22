/* SPDX-License-Identifier: MIT */
/*
 * containers.c - name spaces, cgroups and addresses as containers and clusters have them
 *
 * A row makes such a surrounding by a shell, runs the built hartebeest(1) there, and says what it
 * prints.  Runs only in the tests' own virtual machine, since a row changes the whole machine.
 *
 * promise: hartebeest(7)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/gids.h"
#include "tests/support/memcached.h"
#include "tests/support/ranks.h"
#include "tests/support/talk.h"

/* Makes a cgroup /tmp/c/t with a controller, which a command enters by ENTER. */
#define CGROUP(controller) \
	"mkdir /tmp/c && mount -t cgroup2 none /tmp/c && " \
	"echo +" controller " >/tmp/c/cgroup.subtree_control && mkdir /tmp/c/t"
#define ENTER "echo 0 >/tmp/c/t/cgroup.procs; "
#define CGROUP_END "rmdir /tmp/c/t && umount /tmp/c && rmdir /tmp/c"

/* Linux 6.1 crashes when a device goes whose limits a removed cgroup had. */
#define RDMA_END "echo rxe0 hca_handle=max hca_object=max >/tmp/c/t/rdma.max && " CGROUP_END

/* The same for the first version, which alone has devices. */
#define DEVICES "mkdir /tmp/c && mount -t cgroup -o devices none /tmp/c && mkdir /tmp/c/t && " \
	"echo \"c $((0x$(stat -c %t /dev/infiniband/uverbs0))):" \
	"$((0x$(stat -c %T /dev/infiniband/uverbs0))) rwm\" >/tmp/c/t/devices.deny"
#define ENTER_DEVICES "echo $$ >/tmp/c/t/tasks; "

#define HUGE_PAGES "echo 4 >/proc/sys/vm/nr_hugepages"
#define HUGE_PAGES_END "echo 0 >/proc/sys/vm/nr_hugepages"

static const struct surrounding {
	const char *name;
	const char *begin, *command, *end;	/* of the shell; $0: hartebeest(1) */
	int status;
	const char *says[3];			/* NULL: nothing more */
	const char *never;
} surroundings[] = {
	{
		/* The interface t0 gets the number that v0 has outside, and is down. */
		.name = "a network name space where a number means another interface",
		.command = "n=$(cat /sys/class/net/v0/ifindex); exec unshare -n sh -c \"ip link "
			   "add t0 index $n type veth peer name t1 && exec $0 info\"",
		.says = { "::ffff:10.9.0.1, RoCE v2 was chosen by auto",
			  "  OK    chosen        port " },
		.never = "t0",
	},
	{
		.name = "netdev: in such a name space",
		.command = "n=$(cat /sys/class/net/v0/ifindex); exec unshare -n sh -c \"ip link "
			   "add t0 index $n type veth peer name t1 && ip address add "
			   "192.168.7.7/24 dev t0 && ip link set t0 up && ip link set t1 up && "
			   "exec $0 info -o device.gid=netdev:t0\"",
		.status = 1,
		.says = { "no GID fits netdev:t0 (argument device.gid): " },
	},
	{
		.name = "the first port has no IPv4 address",
		.begin = "ip -4 address flush dev v0",
		.command = "exec $0 info",
		.end = "ip address add 10.9.0.1/24 dev v0",
		.says = { "  OK    chosen        port rxe1:1", "  --    passed over   port "
			  "rxe0:1 offers f", ", v0 (not IPv4)\n" },
	},
	{
		.name = "exclusive RDMA name spaces",
		.begin = "rdma system set netns exclusive",
		.command = "exec unshare -nm sh -c \"mount -t sysfs none /sys && exec $0 doctor\"",
		.end = "rdma system set netns shared",
		.status = 1,
		.says = { "  FAIL  kernel        2 RDMA devices belong to another network name "
			  "space, ",
			  "'rdma dev set DEVICE netns NAME' gives this one a device" },
		.never = "no driver has an RDMA device",
	},
	{
		.name = "exclusive RDMA name spaces, whose devices /sys shows all the same",
		.begin = "rdma system set netns exclusive",
		.command = "exec unshare -n $0 doctor",
		.end = "rdma system set netns shared",
		.status = 1,
		.says = { "  FAIL  node          /dev/infiniband/uverbs0 of rxe0: this "
			  "container or job may not use it, whatever its mode\n", "outside: "
										  "rdma dev set "
										  "rxe0 netns "
										  "NAME\n" },
	},
	{
		.name = "a device cgroup, in the words of info",
		.begin = DEVICES,
		.command = ENTER_DEVICES "exec $0 info -o device.name=rxe0",
		.end = CGROUP_END,
		.status = 1,
		.says = { "  FAIL  rxe0          device rxe0 cannot be opened: this container "
			  "or job may not use /dev/infiniband/uverbs0, whatever its mode: start "
			  "it with --device=/dev/infiniband/uverbs0, or use a device plugin in "
			  "Kubernetes (device cgroup)" },
		.never = "dmesg",
	},
	{
		.name = "a device cgroup, in the words of doctor",
		.begin = DEVICES,
		.command = ENTER_DEVICES "exec $0 doctor",
		.end = CGROUP_END,
		.status = 1,
		.says = { "  FAIL  node          /dev/infiniband/uverbs0 of rxe0: this "
			  "container or job may not use it, whatever its mode\n        -> start "
			  "the container with --device=/dev/infiniband/uverbs0" },
		.never = "chmod",
	},
	{
		.name = "an rdma cgroup without handles",
		.begin = CGROUP("rdma") " && echo rxe0 hca_handle=0 >/tmp/c/t/rdma.max",
		.command = ENTER "exec $0 info -o device.name=rxe0",
		.end = RDMA_END,
		.status = 1,
		.says = { "  FAIL  rxe0          device rxe0 cannot be opened: the rdma cgroup "
			  "of this process allows no more objects of the device: raise "
			  "hca_object and hca_handle" },
		.never = "temporarily",
	},
	{
		/* A protection domain, but no address handle for a trial. */
		.name = "an rdma cgroup without room for a trial",
		.begin = CGROUP("rdma") " && echo rxe0 hca_object=1 >/tmp/c/t/rdma.max",
		.command = ENTER "exec $0 info -o device.name=rxe0",
		.end = RDMA_END,
		.says = { "  OK    chosen        port rxe0:1" },
	},
	{
		.name = "an rdma cgroup without room for a mesh",
		.begin = CGROUP("rdma") " && echo rxe0 hca_object=1 >/tmp/c/t/rdma.max",
		.command = ENTER "exec $0 mesh --local 2 -c 10 -o device.name=rxe0",
		.end = RDMA_END,
		.status = 1,
		.says = { "the rdma cgroup of this process allows no more objects of the device" },
		.never = "temporarily",
	},
	{
		.name = "huge pages",
		.begin = HUGE_PAGES,
		.command = "exec $0 mesh --local 2 -c 10 -o mr.huge_pages=1",
		.end = HUGE_PAGES_END,
		.says = { "  OK    pairs       2 of 2 work" },
	},
	{
		.name = "huge pages and fork",
		.begin = HUGE_PAGES,
		.command = "export RDMAV_FORK_SAFE=1; exec $0 mesh --local 2 -c 10 -o "
			   "mr.huge_pages=1",
		.end = HUGE_PAGES_END,
		.says = { "  OK    pairs       2 of 2 work" },
	},
	{
		.name = "huge pages that the hugetlb cgroup does not allow",
		.begin = HUGE_PAGES " && " CGROUP("hugetlb") " && echo 0 >/tmp/c/t/hugetlb.2MB.max",
		.command = ENTER "exec $0 mesh --local 2 -c 10 -o mr.huge_pages=1",
		.end = CGROUP_END " && " HUGE_PAGES_END,
		.says = { "  OK    pairs       2 of 2 work" },
	},
};

static const char *tool;

static void run(const char *command)
{
	if (command && system(command) != 0)
		fail_msg("failed: %s", command);
	gids_settle();
}

static void test_surrounding(void **state)
{
	const struct surrounding *surrounding = *state;
	static struct talk talk;
	int status;
	size_t i;

	memset(&talk, 0, sizeof(talk));
	run(surrounding->begin);
	status = TALK(&talk, "/bin/sh", "-c", surrounding->command, tool);
	run(surrounding->end);
	for (i = 0; i < BEEST_COUNT(surrounding->says) && surrounding->says[i]; i++)
		talk_says(&talk, surrounding->says[i]);
	if (surrounding->never && strstr(talk.out, surrounding->never))
		fail_msg("it says '%s':\n%s", surrounding->never, talk.out);
	if (status != surrounding->status)
		fail_msg("ended with %d:\n%s%s", status, talk.out, talk.err);
}

int main(void)
{
	struct CMUnitTest tests[BEEST_COUNT(surroundings)];
	size_t i;

	if (!getenv("BEEST_VM")) {
		fprintf(stderr, "not the tests' own virtual machine\n");
		return 77;
	}
	ranks_need_device();
	cache_need();
	tool = talk_tool();
	for (i = 0; i < BEEST_COUNT(surroundings); i++)
		tests[i] = (struct CMUnitTest){
			.name = surroundings[i].name, .test_func = test_surrounding,
			.initial_state = (void *)(uintptr_t)&surroundings[i],
		};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
