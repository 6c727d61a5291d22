/* SPDX-License-Identifier: MIT */
/*
 * command.c - hartebeest(1) over the fake verbs: subcommands, options and info
 *
 * Each call is a separate process, on pipes or on a pseudo terminal.
 *
 * promise: hartebeest(1)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <json-c/json.h>

#include "lib/base/file.h"
#include "lib/base/macro.h"
#include "lib/base/memlock.h"
#include "lib/verbs/node.h"
#include "tests/support/clock-step.h"
#include "tests/support/fake-command.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/scratch.h"
#include "tools/file.h"
#include "tools/secret.h"

static struct talk talk;

#define RUN(...) TALK(&talk, "hartebeest", __VA_ARGS__)
#define SAYS(text) talk_says(&talk, text)
#define REFUSES(text) fake_command_refuses(&talk, text)

static int setup(void **state)
{
	(void)state;
	fake_command_reset(&talk);
	return 0;
}

/* The printed object; fails the test if there is none. */
static struct json_object *object(void)
{
	struct json_object *parsed = json_tokener_parse(talk.out);

	if (!parsed)
		fail_msg("no JSON: %s", talk.out);
	return parsed;
}

static const char *text_of(struct json_object *from, const char *key)
{
	struct json_object *value = NULL;

	assert_true(json_object_object_get_ex(from, key, &value));
	return json_object_get_string(value);
}

/* --------------------------------------------------------------- words --- */

static void wrong_words(void **state)
{
	(void)state;
	assert_int_equal(TALK(&talk, "hartebeest"), STATUS_USAGE);
	REFUSES("hartebeest: a command is missing\nTry 'hartebeest --help'.\n");
	assert_int_equal(RUN("inof"), STATUS_USAGE);
	REFUSES("unknown command 'inof', the nearest is info");
	assert_int_equal(RUN("zzzzzzzz"), STATUS_USAGE);
	REFUSES("unknown command 'zzzzzzzz'\n");
	assert_int_equal(RUN("--option", "exchange.ttl=1h", "keys"), STATUS_USAGE);
	REFUSES("'--option' is before the command: options follow it\n");
	assert_int_equal(RUN("--ttl=1h", "msg"), STATUS_USAGE);
	REFUSES("'--ttl=1h' is before the command: ");
	assert_int_equal(RUN("-v"), STATUS_USAGE);
	REFUSES("hartebeest: unknown option '-v': without a command, there are --help and "
		"--version\n");
	assert_int_equal(RUN("in\nfo\033[2J"), STATUS_USAGE);
	REFUSES("unknown command 'in\\x0afo\\x1b[2J'");
	assert_int_equal(RUN(""), STATUS_USAGE);
	REFUSES("unknown command ''");
}

static void wrong_options(void **state)
{
	(void)state;
	assert_int_equal(RUN("info", "--jsno"), STATUS_USAGE);
	REFUSES("hartebeest info: unknown option '--jsno', the nearest is --json\n"
		  "Try 'hartebeest info --help'.\n");
	assert_int_equal(RUN("info", "-x"), STATUS_USAGE);
	REFUSES("unknown option '-x'");
	assert_int_equal(RUN("info", "--json=1"), STATUS_USAGE);
	REFUSES("--json takes no value");
	assert_int_equal(RUN("info", "-o"), STATUS_USAGE);
	REFUSES("-o needs a value: -o SECTION.KEY=VALUE");
	assert_int_equal(RUN("info", "--option"), STATUS_USAGE);
	REFUSES("--option needs a value: --option SECTION.KEY=VALUE");
	assert_int_equal(RUN("info", "now"), STATUS_USAGE);
	REFUSES("hartebeest info: 'now' is one argument too many");
	assert_int_equal(RUN("run", "-np", "4", "true"), STATUS_USAGE);
	REFUSES("-n: 'p' is not a number from 1 to 4096; did you mean -n 4?\n");
	assert_int_equal(RUN("run", "-np", "true"), STATUS_USAGE);
	REFUSES("-n: 'p' is not a number from 1 to 4096\n");
	assert_int_equal(RUN("run", "4", "true"), STATUS_USAGE);
	REFUSES("hartebeest run: the number of ranks is missing: -n 4\n");
	assert_int_equal(RUN("info", "--", "--json"), STATUS_USAGE);
	REFUSES("'--json' is one argument too many");
	assert_int_equal(RUN("info", "-odevice.nmae=fake0"), STATUS_USAGE);
	REFUSES("hartebeest info: argument: unknown option 'device.nmae', the nearest is "
		  "device.name");
	assert_int_equal(RUN("info", "-o", "exchange.timeout=5"), STATUS_USAGE);
	REFUSES("exchange.timeout");
}

static void help_everywhere(void **state)
{
	(void)state;
	assert_int_equal(RUN("--help"), STATUS_GOOD);
	SAYS("Usage: hartebeest COMMAND");
	SAYS("  info       ");
	assert_int_equal(RUN("info", "-h"), STATUS_GOOD);
	SAYS("Usage: hartebeest info [OPTION...]\n");
	SAYS("      --json ");
	assert_string_equal(talk.err, "");
	assert_int_equal(RUN("--version"), STATUS_GOOD);
	assert_string_equal(talk.out, "hartebeest " PACKAGE_VERSION "\n");
}

static void words_for_shells(void **state)
{
	(void)state;
	assert_int_equal(RUN("--complete", ""), STATUS_GOOD);
	SAYS("info\tShows ");
	assert_int_equal(RUN("--complete", "info", "--"), STATUS_GOOD);
	SAYS("--options\tevery setting");
	SAYS("--json\t");
	assert_int_equal(RUN("--complete", "info", "-o", ""), STATUS_GOOD);
	assert_string_equal(talk.out, "");
	assert_int_equal(RUN("--complete"), STATUS_GOOD);
	assert_string_equal(talk.out, "");
}

/* ---------------------------------------------------------------- info --- */

static void a_port(void **state)
{
	(void)state;
	assert_int_equal(RUN("info"), STATUS_GOOD);
	SAYS("  OK    fake0:1       active   RoCE        mtu 1024 of 4096  eth0  p_keys 0xffff  "
	     "firmware 1.0\n");
	SAYS("  OK    gid 3         ::ffff:10.0.0.1, RoCE v2, eth0 was chosen by auto\n");
	SAYS("  --    gid 2         ::ffff:10.0.0.1, RoCE v1, eth0 (RoCE v1)\n");
	SAYS("  OK    chosen        port fake0:1");
	SAYS("\n\nsettings that differ from their defaults\n"
	     "  --    none          all are default; ");
	assert_string_equal(talk.err, "");
}

static void a_port_that_waits(void **state)
{
	(void)state;
	fake_verbs_infiniband();
	fake_verbs.devices[0].ports[0].state = IBV_PORT_INIT;
	assert_int_equal(RUN("info"), STATUS_FAILED);
	SAYS("  --    fake0:1       initializing InfiniBand ");
	SAYS("        -> a subnet manager must run on this network");
	SAYS(" is not usable: no port can be chosen\n\n");
	SAYS("  FAIL  none ");
}

/*
 * Device names come from the kernel, GIDs from the network: control bytes must not get
 * through.
 */
static void bytes_that_do_harm(void **state)
{
	(void)state;
	fake_verbs.devices[0].name = "fa\033ke\377";
	RUN("info");
	SAYS("fa?ke?:1");
	assert_null(strchr(talk.out, '\033'));
}

static void every_option(void **state)
{
	struct json_object *all, *options;

	(void)state;
	setenv("HARTEBEEST_TIMEOUT", "10s", 1);
	assert_int_equal(RUN("info", "--options", "-o", "qp_attr.uc:sl=3", "-o",
			     "qp_attr.timeout=10"), STATUS_USAGE);
	REFUSES("'qp_attr.uc:sl'");
	assert_int_equal(RUN("info", "--options", "-o", "qp_attr.uc:traffic_class=3", "-o",
			     "qp_attr.timeout=10"), STATUS_GOOD);
	SAYS("  OK    exchange.timeout                10s  from environment HARTEBEEST_TIMEOUT; "
	     "default 30s\n        limit of every wait for a server or a peer [1ms..30d]  "
	     "HARTEBEEST_TIMEOUT\n");
	SAYS("  OK    qp_attr.timeout                 10 = 4.19 ms; with 7 retries a dead peer "
	     "shows after 0.034 s or more  from argument; default 14\n");
	SAYS("  --    qp_attr.rc:traffic_class        0\n");
	SAYS("  OK    qp_attr.uc:traffic_class        3  from argument; default 0\n");
	SAYS("  --    qp_attr.min_rnr_timer           12 = 0.64 ms\n");
	assert_int_equal(RUN("info", "--options", "--json"), STATUS_GOOD);
	all = object();
	assert_true(json_object_object_get_ex(all, "options", &options));
	assert_true(json_object_array_length(options) >= 40);
	json_object_put(all);
}

static void no_port(void **state)
{
	(void)state;
	fake_verbs.device_count = 0;
	assert_int_equal(RUN("info"), STATUS_FAILED);
	SAYS("  FAIL  none ");
	SAYS("'hartebeest doctor' says what is missing");
	SAYS("        -> messages, barriers and keys work without a device\n");
	SAYS("memlock");
}

/* ------------------------------------------------- a kernel made by the test --- */

static char kernel[SCRATCH_SIZE], proc[128], nodes[128];

static void kernel_has(const char *path, const char *text)
{
	char full[512], *slash;
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", kernel, path);
	slash = full + strlen(kernel);
	while ((slash = strchr(slash + 1, '/')) != NULL) {
		*slash = '\0';
		assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
		*slash = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void kernel_lacks(const char *path)
{
	char full[512];

	snprintf(full, sizeof(full), "%s%s", kernel, path);
	assert_int_equal(remove(full), 0);
}

static int kernel_setup(void **state)
{
	scratch_folder(kernel, "hartebeest-kernel");
	file_root = kernel;
	snprintf(proc, sizeof(proc), "%s/proc/self", kernel);
	snprintf(nodes, sizeof(nodes), "%s/dev/infiniband", kernel);
	beest_memlock_proc = proc;
	beest_node_folder = nodes;
	kernel_has("/sys/class/infiniband/fake0", "");
	kernel_has("/sys/class/infiniband_verbs/uverbs0/ibdev", "fake0\n");
	kernel_has("/dev/infiniband/uverbs0", "");
	kernel_has("/dev/infiniband/uverbs-fake0", "");
	kernel_has("/proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
	return setup(state);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status, (void)type, (void)place;
	return remove(path);
}

static int kernel_teardown(void **state)
{
	(void)state;
	file_root = "";
	beest_memlock_proc = "/proc/self";
	beest_node_folder = "/dev/infiniband";
	return nftw(kernel, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* An active InfiniBand port, which is chosen, and a RoCE port of another device that is down. */
static void two_kinds_of_ports(void **state)
{
	struct fake_device roce = fake_verbs.devices[0], *second;

	(void)state;
	kernel_has("/proc/self/status", "CapEff:\t0000000000004000\n");	/* no limit on memory */
	fake_verbs_infiniband();
	second = fake_verbs_add("fake1");
	*second = roce;
	second->name = "fake1";
	second->ports[0].state = IBV_PORT_DOWN;
	assert_int_equal(RUN("info"), STATUS_GOOD);
	assert_memory_equal(talk.out, "OK    ", 6);
	SAYS(" is usable: port fake0:1");
	SAYS("; GID index 0: fe80::7");
	SAYS("  OK    fake0:1       active   InfiniBand  mtu 4096 of 4096  lid 7 ");
	SAYS("  OK    gid 0         fe80::7");
	SAYS("  --    fake1:1       down     RoCE ");
	SAYS("\n        -> ip link set ");
	SAYS("  OK    chosen        port fake0:1");
	assert_int_equal(RUN("doctor"), STATUS_GOOD);
	SAYS("  WARN  fake1:1       down\n        -> ip link set ");

	second->ports[0].state = IBV_PORT_ACTIVE;
	assert_int_equal(RUN("info", "-o", "device.name=fake1"), STATUS_GOOD);
	SAYS("  OK    chosen        port fake1:1");
	SAYS("device.name                     fake1  from argument; default (not given)");
	assert_int_equal(RUN("info", "--json"), STATUS_GOOD);
	SAYS("\"link\": \"infiniband\"");
	SAYS("\"link\": \"ethernet\"");
	assert_int_equal(RUN("doctor"), STATUS_GOOD);
	SAYS("  OK    fake0:1       active, InfiniBand");
	SAYS("  OK    fake1:1       active, RoCE");
}

static void a_device_that_cannot_be_opened(void **state)
{
	(void)state;
	fake_verbs.devices[0].open_error = EACCES;
	assert_int_equal(RUN("info"), STATUS_FAILED);
	SAYS("  FAIL  fake0         device fake0 cannot be opened: Permission denied\n"
	     "        -> give this user /dev/infiniband/");
	SAYS("        -> see the device above\n");
	fake_verbs_fail("ibv_get_device_list", 0, ENOSYS);
	assert_int_equal(RUN("info"), STATUS_FAILED);
	SAYS("  FAIL  none ");
}

/* One cause is reported once, whether no device exists or the only one cannot be opened. */
static void one_failure_of_one_cause(void **state)
{
	(void)state;
	fake_verbs.devices[0].open_error = EACCES;
	assert_int_equal(RUN("doctor"), STATUS_FAILED);
	SAYS("  FAIL  fake0         device fake0 cannot be opened: Permission denied\n");
	SAYS("  --    choice        none, for the reason above\n");
	SAYS(": 1 failure, ");
	assert_memory_equal(talk.out, "FAIL  ", 6);
	fake_verbs.device_count = 0;
	kernel_lacks("/sys/class/infiniband_verbs/uverbs0/ibdev");
	kernel_lacks("/sys/class/infiniband_verbs/uverbs0");
	kernel_lacks("/sys/class/infiniband/fake0");
	assert_int_equal(RUN("doctor"), STATUS_FAILED);
	SAYS("        -> load the adapter's driver (");
	SAYS("modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0 (hartebeest(7), "
	     "Soft-RoCE)");
	SAYS(": 1 failure, ");
	SAYS(": kernel");
}

/* What carries so many ranks, by the limits of the fake device: 1024 queue pairs, 65535 entries. */
static void a_forecast(void **state)
{
	(void)state;
	RUN("doctor", "--ranks", "1024", "--per-node", "128", "--peers", "6");
	SAYS("forecast: 1024 ranks, 128 a node, 6 peers each\n");
	SAYS("  WARN  mesh          a node needs 130944 queue pairs, but fake0 allows 1024\n"
	     "        -> let each rank name its peers (attr->peers), or use IBV_QPT_UD\n");
	SAYS("  OK    mesh, peers   6 queue pairs a rank, 13.5 MB by way of the server: some ");
	SAYS("  OK    pairs         6 queue pairs a rank, 4.92 MB by way of the server: some ");
	SAYS("  OK    mesh, UD      1 queue pair a rank, 13.5 MB by way of the server: some ");

	RUN("doctor", "--ranks", "1000000", "--per-node", "2000", "--peers", "26");
	SAYS("  WARN  mesh          a node needs 1999998000 queue pairs, but fake0 allows 1024\n");
	SAYS("  WARN  mesh, peers   a node needs 52000 queue pairs, but fake0 allows 1024\n"
	     "        -> let each rank name fewer peers, or use IBV_QPT_UD\n");
	SAYS("  WARN  mesh, UD      a node needs 2000 queue pairs, but fake0 allows 1024\n"
	     "        -> start fewer ranks a node\n");

	fake_verbs.devices[0].attr.max_qp = 1 << 20;
	RUN("doctor", "--ranks", "4096", "--per-node", "1");
	SAYS("  WARN  mesh          a rank needs a completion queue of 131040 entries, but fake0 "
	     "allows 65535\n");
	SAYS("26 peers each");

	RUN("doctor", "--ranks", "64", "--json");
	SAYS("\"way\": \"mesh, UD\"");
	SAYS("\"server_bytes\": ");
	RUN("doctor");
	assert_null(strstr(talk.out, "forecast"));
	assert_int_equal(RUN("doctor", "--peers", "4"), STATUS_USAGE);
	REFUSES("hartebeest doctor: --peers is for the forecast of --ranks N");
	assert_int_equal(RUN("doctor", "--per-node", "0"), STATUS_USAGE);
}

/* Equal nodes say the same, and only what is not OK. */
static void a_quiet_doctor(void **state)
{
	char host[80] = "";

	(void)state;
	gethostname(host, sizeof(host) - 1);
	kernel_lacks("/sys/class/infiniband/fake0");
	kernel_has("/sys/class/infiniband/fake0/ports/1/counters/symbol_error", "12\n");
	kernel_has("/sys/class/infiniband/fake0/ports/1/counters/port_rcv_errors", "0\n");
	RUN("doctor");
	SAYS(host);
	SAYS("\n\ndevice\n");
	SAYS("  WARN  counters      fake0:1 has counted symbol_error 12\n        -> if they grow ");
	RUN("doctor", "--quiet");
	assert_null(strstr(talk.out, host));
	assert_null(strstr(talk.out, "OK  "));
	assert_null(strstr(talk.out, "\n\n"));
	SAYS("WARN  0 failures, ");
	SAYS(" warnings: counters, ");
	SAYS(", server; firmware fake0 1.0\n");
	SAYS("\n  WARN  counters ");
	SAYS("\n  WARN  server ");
	assert_int_equal(RUN("doctor", "--all", "--json"), STATUS_USAGE);
	SAYS("\"error\": \"--all shows lines for people, without --json\"");
	assert_int_equal(RUN("doctor", "--all"), STATUS_FAILED);
	REFUSES("the number of ranks is not known");
}

static void kernel_and_nodes(void **state)
{
	(void)state;
	RUN("doctor");
	SAYS("  OK    kernel        1 RDMA device, ib_uverbs is there\n");
	SAYS("  OK    node          /dev/infiniband/uverbs0 of fake0 can be used\n");
	kernel_lacks("/dev/infiniband/uverbs0");
	assert_int_equal(RUN("doctor"), STATUS_FAILED);
	SAYS("  FAIL  node          /dev/infiniband/uverbs0 of fake0 is missing: /sys shows the "
	     "device");
	SAYS("        -> start the container with --device=/dev/infiniband/uverbs0 ");
	kernel_lacks("/sys/class/infiniband_verbs/uverbs0/ibdev");
	kernel_lacks("/sys/class/infiniband_verbs/uverbs0");
	assert_int_equal(RUN("doctor"), STATUS_FAILED);
	SAYS("  FAIL  kernel        1 RDMA devices, but ib_uverbs is not loaded: ");
	SAYS("        -> modprobe ib_uverbs; ");
	kernel_lacks("/sys/class/infiniband/fake0");
	assert_int_equal(RUN("doctor"), STATUS_FAILED);
	SAYS("  FAIL  kernel        no driver has an RDMA device\n");
}

/* As a container sees it whose network name space has no device. */
static void exclusive_name_spaces(void **state)
{
	(void)state;
	fake_verbs.device_count = 0;
	kernel_lacks("/sys/class/infiniband/fake0");
	assert_int_equal(RUN("doctor"), STATUS_FAILED);
	SAYS("  FAIL  kernel        1 RDMA device belongs to another network name space, since "
	     "those of RDMA are exclusive\n"
	     "        -> outside: 'rdma dev set DEVICE netns NAME' gives this one a device, ");
	assert_null(strstr(talk.out, "  node  "));
}

static void a_place_in_the_machine(void **state)
{
	(void)state;
	fake_verbs.devices[0].ibdev_path = "/sys/class/infiniband/fake7";
	kernel_has("/sys/class/infiniband/fake7/device/numa_node", "3\n");
	assert_int_equal(RUN("info"), STATUS_GOOD);
	SAYS("  eth0  numa 3  p_keys 0xffff  firmware 1.0\n");
	kernel_has("/sys/class/infiniband/fake7/device/numa_node", "-1\n");
	assert_int_equal(RUN("info"), STATUS_GOOD);
	SAYS("  eth0  p_keys 0xffff  firmware 1.0\n");
}

static void rdma_cm_and_ibacm(void **state)
{
	(void)state;
	RUN("doctor");
	assert_null(strstr(talk.out, "  rdma_cm "));
	assert_int_equal(RUN("doctor", "-o", "device.resolver=rdmacm"), STATUS_FAILED);
	SAYS("  FAIL  rdma_cm       HARTEBEEST_RESOLVER=rdmacm needs /dev/infiniband/rdma_cm\n"
	     "        -> modprobe rdma_ucm");
	kernel_has("/dev/infiniband/rdma_cm", "");
	kernel_has("/run/ibacm-unix.sock", "");
	RUN("doctor");
	assert_null(strstr(talk.out, "  rdma_cm "));
	SAYS("  --    ibacm         runs: rdma_cm takes its paths from there\n");
}

static void network_is(struct fake_device *device, const char *name)
{
	size_t i;

	for (i = 0; i < FAKE_GIDS; i++)
		device->ports[0].gids[i].netdev = name;
}

static void a_network_below(void **state)
{
	struct fake_port *port = &fake_verbs.devices[0].ports[0];

	(void)state;
	kernel_has("/sys/class/net/eth0/mtu", "1000\n");
	RUN("doctor");
	SAYS("  WARN  mtu           fake0:1 sends 1024 bytes a packet, but eth0 takes only 1000 "
	     "in all\n"
	     "        -> ip link set eth0 mtu 4200, ");
	kernel_has("/sys/class/net/eth0/mtu", "1500\n");
	RUN("doctor");
	SAYS("  --    mtu           fake0:1 sends 1024 of 4096 bytes a packet since eth0 has an "
	     "mtu of 1500");
	kernel_has("/sys/class/net/eth0/mtu", "9000\n");
	port->active_mtu = IBV_MTU_4096;
	memset(&port->gids[2], 0, 2 * sizeof(port->gids[2]));
	RUN("doctor");
	SAYS("  OK    mtu           fake0:1 sends 4096 bytes a packet, eth0 takes 9000\n");
	SAYS("  --    address       eth0 of fake0:1 has no address that routers forward: its GID "
	     "is link-local\n");
	port->gids[3] = (struct fake_gid){ .gid = "fd00::1", .roce = 2, .netdev = "eth0" };
	RUN("doctor");
	assert_null(strstr(talk.out, "routers"));
	port->gids[3].gid = NULL;
	kernel_has("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1\n");
	port->gids[0].ah_error = port->gids[1].ah_error = ENETUNREACH;
	RUN("doctor");
	SAYS("  WARN  address       eth0 of fake0:1 has no IPv4 address, and IPv6 is switched off "
	     "there: so its GID reaches no peer\n"
	     "        -> ip address add ADDRESS/24 dev eth0, or sysctl -w "
	     "net.ipv6.conf.eth0.disable_ipv6=0\n");
	SAYS("(tried and failed: Network is unreachable)\n"
	     "        -> a port needs an address on its interface (ip address add ADDRESS/24 dev "
	     "INTERFACE); ");
	fake_verbs_infiniband();
	network_is(&fake_verbs.devices[0], "ib7");
	RUN("doctor");
	SAYS("  --    address       ib7 of fake0:1 has no IPv4 address (IPoIB): only rdma_cm needs "
	     "one\n");
}

/* The warning tells a port that answers ARP for the other from one that drops packets. */
static void two_ports_in_one_network(void **state)
{
	static const char *const files[] = { "/proc/sys/net/ipv4/conf/all/arp_ignore",
					     "/proc/sys/net/ipv4/conf/eth7/rp_filter" };
	struct fake_device *second = fake_verbs_add("fake1");

	(void)state;
	network_is(second, "eth7");
	second->ports[0].gids[2].gid = second->ports[0].gids[3].gid = "::ffff:10.0.0.2";
	RUN("doctor");
	SAYS("  WARN  network       eth7 and eth0 are in one network: one answers ARP for the "
	     "other\n"
	     "        -> sysctl -w net.ipv4.conf.all.arp_ignore=1 ");
	kernel_has(files[1], "1\n");
	RUN("doctor");
	SAYS("one answers ARP for the other, and rp_filter=1 drops what arrives at the other\n");
	kernel_has(files[0], "1\n");
	RUN("doctor");
	SAYS("are in one network: rp_filter=1 drops what arrives at the other\n");
	kernel_has(files[1], "2\n");
	RUN("doctor");
	SAYS("  OK    network       eth7 and eth0 are in one network, and each answers for "
	     "itself\n");
}

static void memory_that_can_be_locked(void **state)
{
	const struct rlimit small = { 64 << 10, RLIM_INFINITY };
	struct rlimit before;

	(void)state;
	getrlimit(RLIMIT_MEMLOCK, &before);
	if (setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ small.rlim_cur, before.rlim_max }) < 0)
		fail_msg("cannot lower the limit of locked memory");
	RUN("doctor");
	SAYS("  WARN  memlock       only 64 KiB can be locked: larger regions and queues fail with "
	     "ENOMEM\n"
	     "        -> put '* - memlock unlimited' into /etc/security/limits.d/rdma.conf");
	setenv("INVOCATION_ID", "1", 1);
	RUN("doctor");
	SAYS("        -> systemctl edit the service: [Service] LimitMEMLOCK=infinity\n");
	setenv("SLURM_JOB_ID", "1", 1);
	RUN("doctor");
	SAYS("        -> systemctl edit slurmd: [Service] LimitMEMLOCK=infinity; ");
	kernel_has("/proc/self/status", "CapEff:\t0000000000004000\n");
	RUN("doctor");
	SAYS("  OK    memlock       64 KiB, but this process may lock more (CAP_IPC_LOCK)\n");
	kernel_has("/proc/self/uid_map", "         0       1000          1\n");
	RUN("doctor");
	SAYS("  WARN  memlock       only 64 KiB can be locked: ");
	kernel_has("/proc/self/uid_map", "         0          0 4294967295\n");
	RUN("doctor");
	SAYS("  OK    memlock       64 KiB, but this process may lock more (CAP_IPC_LOCK)\n");
	setrlimit(RLIMIT_MEMLOCK, &before);
}

static void as_an_object(void **state)
{
	struct json_object *all, *ports, *port;

	(void)state;
	assert_int_equal(RUN("info", "--json"), STATUS_GOOD);
	all = object();
	assert_string_equal(text_of(all, "version"), PACKAGE_VERSION);
	assert_true(json_object_object_get_ex(all, "ports", &ports));
	assert_int_equal(json_object_array_length(ports), 1);
	port = json_object_array_get_idx(ports, 0);
	assert_string_equal(text_of(port, "device"), "fake0");
	assert_string_equal(text_of(port, "link"), "ethernet");
	assert_string_equal(text_of(port, "mtu"), "1024");
	assert_false(json_object_object_get_ex(port, "numa", NULL));
	assert_non_null(strstr(text_of(all, "chosen"), "port fake0:1; IP address 10.0.0.1; "));
	json_object_put(all);
}

/* The timer of out_waiting() never fires here, however slow the machine is. */
int setitimer(__itimer_which_t which, const struct itimerval *restrict value,
	      struct itimerval *restrict before)
{
	(void)which, (void)value, (void)before;
	return 0;
}

/* Pretends that each trial of a GID takes a second. */
static void second_passes(const char *function)
{
	if (!strcmp(function, "ibv_create_ah"))
		raise(SIGALRM);
}

/* A step that takes a second is shown with its elapsed time until it is done. */
static void a_line_of_progress(void **state)
{
	(void)state;
	talk.terminal = true;
	fake_verbs.hook = second_passes;
	assert_int_equal(RUN("info"), STATUS_GOOD);
	SAYS("\r\033[Ktrying the GIDs of fake0:1 1 s \r\033[K");
	SAYS("\r\033[Ktrying all ports 1 s \r\033[K");
}

static void on_a_terminal(void **state)
{
	(void)state;
	talk.terminal = true;
	assert_int_equal(RUN("info"), STATUS_GOOD);
	SAYS("\033[32mOK  \033[0m");
	setenv("NO_COLOR", "1", 1);
	assert_int_equal(RUN("info"), STATUS_GOOD);
	assert_null(strstr(talk.out, "\033["));
	SAYS("  OK    fake0:1");
}

/* If there is little room beside the labels, continuation lines begin below the labels. */
static void on_the_narrowest_terminal(void **state)
{
	(void)state;
	talk.terminal = true;
	talk.columns = 40;
	setenv("NO_COLOR", "1", 1);
	assert_int_equal(RUN("info"), STATUS_GOOD);
	SAYS("\n  --    none          all are default;\r\n        'hartebeest info --options'\r\n");
	assert_null(strchr(talk.out, '\033'));		/* no step took a second */
}

/* No line is wider than the terminal; continuation lines begin below the text. */
static void on_a_narrow_terminal(void **state)
{
	char *line, *rest = NULL;

	(void)state;
	talk.terminal = true;
	talk.columns = 50;
	setenv("NO_COLOR", "1", 1);
	assert_int_equal(RUN("info"), STATUS_GOOD);
	for (line = strtok_r(talk.out, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest))
		if (strlen(line) > 50 && strchr(line + strspn(line, " "), ' '))
			fail_msg("wider than 50 columns: %s", line);
}

#ifdef HAVE_CRYPTO
static void make_secret(const char *folder, char path[PATH_MAX])
{
	struct out out;

	out_start(&out, "serve", false);
	assert_int_equal(secret_make(&out, folder, "server", path), STATUS_GOOD);
}

/* Makes a secret in a process that lives on. */
static pid_t start_with_secret(const char *folder, char path[PATH_MAX])
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		make_secret(folder, path);
		if (write(ends[1], path, PATH_MAX) == PATH_MAX)
			pause();
		_exit(1);
	}
	close(ends[1]);
	assert_int_equal(beest_file_read(ends[0], path, PATH_MAX), PATH_MAX);
	close(ends[0]);
	return pid;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* The next serve removes the secret of one that has ended, whatever the clock says. */
static void secrets_of_other_processes(void **state)
{
	static const struct {
		bool killed;
		time_t clock_step;
		const char *began;	/* NULL: as its name says; when a process of this id did */
		bool stays;
	} rows[] = {
		{ false, 0, NULL, true },
		{ false, 3600, NULL, true },
		{ false, -3600, NULL, true },
		{ false, 0, "0", true },	/* unknown */
		{ false, 0, "1", false },
		{ true, 0, NULL, false },
		{ true, -3600, NULL, false },
		{ true, 0, "0", false },
	};
	char folder[SCRATCH_SIZE], its[PATH_MAX], own[PATH_MAX], path[PATH_MAX];
	size_t i;
	pid_t pid;

	(void)state;
	scratch_folder(folder, "hartebeest-secrets");
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		pid = start_with_secret(folder, its);
		strcpy(path, its);
		if (rows[i].began)
			strcpy(strrchr(path, '-') + 1, rows[i].began);
		assert_int_equal(rename(its, path), 0);
		if (rows[i].killed)
			end(pid);
		clock_step = rows[i].clock_step;
		make_secret(folder, own);
		clock_step = 0;
		assert_int_equal(access(path, F_OK) == 0, rows[i].stays);
		unlink(path);
		assert_int_equal(unlink(own), 0);
		if (!rows[i].killed)
			end(pid);
	}
	assert_int_equal(rmdir(folder), 0);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, setup)
		TEST(wrong_words),
		TEST(wrong_options),
		TEST(help_everywhere),
		TEST(words_for_shells),
		TEST(a_port),
		TEST(a_port_that_waits),
		TEST(bytes_that_do_harm),
		TEST(every_option),
		TEST(no_port),
#define KERNEL(name) cmocka_unit_test_setup_teardown(name, kernel_setup, kernel_teardown)
		KERNEL(two_kinds_of_ports),
		KERNEL(a_device_that_cannot_be_opened),
		KERNEL(one_failure_of_one_cause),
		KERNEL(a_forecast),
		KERNEL(a_quiet_doctor),
		KERNEL(kernel_and_nodes),
		KERNEL(exclusive_name_spaces),
		KERNEL(a_place_in_the_machine),
		KERNEL(rdma_cm_and_ibacm),
		KERNEL(a_network_below),
		KERNEL(two_ports_in_one_network),
		KERNEL(memory_that_can_be_locked),
		TEST(as_an_object),
		TEST(a_line_of_progress),
		TEST(on_a_terminal),
		TEST(on_a_narrow_terminal),
#ifdef HAVE_CRYPTO
		TEST(secrets_of_other_processes),
#endif
		TEST(on_the_narrowest_terminal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
