/* SPDX-License-Identifier: MIT */
/*
 * doctor.c - hartebeest doctor: will it work here, and if not, what must be done?
 *
 * Owns the checks of the kernel, its device nodes and its networks, and their order.  Anything
 * may be missing altogether: a check reports that, and the next one goes on.
 */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/netdev.h"
#include "lib/base/text.h"
#include "tools/command.h"
#include "tools/doctor.h"
#include "tools/file.h"
#include "tools/fold.h"
#include "tools/forecast.h"
#include "tools/memory.h"
#include "tools/options.h"
#include "tools/ports.h"
#include "tools/session.h"

#define LABEL 12

/* Bytes around the payload of a RoCE packet, at most. */
#define ROCE_OVERHEAD 74

static int64_t ranks, per_node, peers;
static bool is_quiet, wants_all;

static const struct args_option options[] = {
	{ "quiet", 'q', ARGS_FLAG, &is_quiet,
	  .help = "only what is not OK: equal nodes say the same" },
	{ "all", 'a', ARGS_FLAG, &wants_all,
	  .help = "under a launcher: rank 0 shows what all nodes say, equal ones together" },
	{ "ranks", 'r', ARGS_INT, &ranks, .value = "N", .min = 1, .max = 1000000,
	  .help = "check that the servers suffice for N ranks, and forecast what they need" },
	{ "per-node", 'P', ARGS_INT, &per_node, .value = "P", .min = 1, .max = 1000000,
	  .help = "ranks on a node, for the forecast; default: its processors" },
	{ "peers", 'k', ARGS_INT, &peers, .value = "K", .min = 1, .max = 1000000,
	  .help = "peers of a rank, for the forecast; default: 26" },
	{ .name = NULL },
};

static char firmware[160];		/* "mlx5_0 20.31.1014" of each device */

/* -------------------------------------------------------------- kernel --- */

/* The number of entries that begin with @prefix; 0 also if there is no such folder. */
static int count_entries(const char *path, const char *prefix)
{
	const struct dirent *entry;
	DIR *folder = file_folder(path);
	int count = 0;

	while (folder && (entry = readdir(folder)))
		count += entry->d_name[0] != '.' && !strncmp(entry->d_name, prefix, strlen(prefix));
	if (folder)
		closedir(folder);
	return count;
}

static void check_modules(struct out *out)
{
	int devices = count_entries("/sys/class/infiniband", "");
	int elsewhere = devices ? 0 : count_entries("/sys/class/infiniband_verbs", "uverbs");

	if (elsewhere) {
		out_line(out, OUT_FAILURE, "kernel", "%d RDMA device%s belong%s to another network "
			 "name space, since those of RDMA are exclusive", elsewhere,
			 elsewhere > 1 ? "s" : "", elsewhere > 1 ? "" : "s");
		out_cure(out, "outside: 'rdma dev set DEVICE netns NAME' gives this one a device, "
			 "'rdma system set netns shared' all");
		return;
	}
	if (!devices) {
		out_line(out, OUT_FAILURE, "kernel", "no driver has an RDMA device");
		out_cure(out, "load the adapter's driver (modprobe mlx5_ib, irdma, bnxt_re, ...); "
			 "without an adapter Soft-RoCE makes a device of a network interface: "
			 "modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0 "
			 "(hartebeest(7), Soft-RoCE)");
		return;
	}
	if (!count_entries("/sys/class/infiniband_verbs", "uverbs")) {
		out_line(out, OUT_FAILURE, "kernel", "%d RDMA devices, but ib_uverbs is not "
			 "loaded: programs cannot use them", devices);
		out_cure(out, "modprobe ib_uverbs; the package rdma-core loads it at each boot");
		return;
	}
	out_line(out, OUT_OK, "kernel", "%d RDMA device%s, ib_uverbs is there", devices,
		 devices > 1 ? "s" : "");
}

/* -------------------------------------------------------- device nodes --- */

static void node_device(const char *name, char device[64])
{
	file_line(device, 64, "/sys/class/infiniband_verbs/%.200s/ibdev", name);
}

static bool is_visible(const char *name)
{
	char device[64], path[128];

	node_device(name, device);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", device);
	return file_may(path, F_OK);
}

static void check_node(struct out *out, const char *name)
{
	char path[300], device[64];

	snprintf(path, sizeof(path), "/dev/infiniband/%.200s", name);
	node_device(name, device);
	if (!file_may(path, F_OK)) {
		out_line(out, OUT_FAILURE, "node", "%s of %s is missing: /sys shows the device, "
			 "/dev does not, as in a container", path, device);
		out_cure(out, "start the container with --device=%s (and --device="
			 "/dev/infiniband/rdma_cm), or use a device plugin for RDMA in Kubernetes",
			 path);
	} else if (!file_opens(path) && errno == EPERM) {
		out_line(out, OUT_FAILURE, "node", "%s of %s: this container or job may not use "
			 "it, whatever its mode", path, device);
		out_cure(out, "start the container with --device=%s, or use a device plugin for "
			 "RDMA in Kubernetes (device cgroup); where RDMA name spaces are "
			 "exclusive ('rdma system'), outside: rdma dev set %s netns "
			 "NAME", path, device);
	} else if (!file_may(path, R_OK | W_OK)) {
		out_line(out, OUT_FAILURE, "node", "%s of %s: %s", path, device, strerror(errno));
		out_cure(out, "udev rules of rdma-core make it 0666; else: chmod 0666 %s, or join "
			 "its group", path);
	} else {
		out_line(out, OUT_OK, "node", "%s of %s can be used", path, device);
	}
}

/* Nodes of devices in other name spaces show nothing. */
static void check_nodes(struct out *out)
{
	const struct dirent *entry;
	DIR *folder = file_folder("/sys/class/infiniband_verbs");

	while (folder && (entry = readdir(folder)))
		if (!strncmp(entry->d_name, "uverbs", 6) && is_visible(entry->d_name))
			check_node(out, entry->d_name);
	if (folder)
		closedir(folder);
}

static void check_rdmacm(struct out *out, const struct hartebeest_context *hb)
{
	char resolver[16];
	bool wanted;

	hartebeest_option_get(hb, "device.resolver", resolver, sizeof(resolver), NULL);
	wanted = !strcmp(resolver, "rdmacm");
	if (wanted && file_may("/dev/infiniband/rdma_cm", F_OK)) {
		out_line(out, OUT_OK, "rdma_cm", "is there");
	} else if (wanted) {
		out_line(out, OUT_FAILURE, "rdma_cm", "HARTEBEEST_RESOLVER=rdmacm needs "
			 "/dev/infiniband/rdma_cm");
		out_cure(out, "modprobe rdma_ucm, or leave HARTEBEEST_RESOLVER out");
	}
	if (file_may("/run/ibacm-unix.sock", F_OK) || file_may("/run/ibacm.sock", F_OK))
		out_line(out, OUT_NOTE, "ibacm", "runs: rdma_cm takes its paths from there");
}

/* --------------------------------------------------------------- ports --- */

static long netdev_mtu(const char *netdev)
{
	char line[16];

	return file_line(line, sizeof(line), "/sys/class/net/%s/mtu", netdev) ? atol(line) : 0;
}

static void check_mtu(struct out *out, const struct ports_port *port)
{
	int mtu = ports_mtu(port->attr.active_mtu), max = ports_mtu(port->attr.max_mtu);
	long netdev = port->netdev[0] ? netdev_mtu(port->netdev) : 0;

	if (!port->ethernet || !netdev)
		return;
	if (netdev < mtu + ROCE_OVERHEAD) {
		out_line(out, OUT_WARNING, "mtu",
			 "%s:%d sends %d bytes a packet, but %s takes only %ld in all",
			 port->device, port->port, mtu, port->netdev, netdev);
		out_cure(out, "ip link set %s mtu %d, on all nodes and switches; or a smaller "
			 "qp_attr.path_mtu", port->netdev,
			 mtu + ROCE_OVERHEAD > 4200 ? 9000 : 4200);
	} else if (mtu < max) {
		out_line(out, OUT_NOTE, "mtu", "%s:%d sends %d of %d bytes a packet since %s has "
			 "an mtu of %ld; large transfers gain by 'ip link set %s mtu 9000' on all "
			 "nodes and switches", port->device, port->port, mtu, max, port->netdev,
			 netdev, port->netdev);
	} else {
		out_line(out, OUT_OK, "mtu", "%s:%d sends %d bytes a packet, %s takes %ld",
			 port->device, port->port, mtu, port->netdev, netdev);
	}
}

static void check_address(struct out *out, const struct ports_port *port,
			  const struct ifaddrs *list)
{
	struct beest_ipaddr ip;
	char no_ipv6[8];

	if (!port->netdev[0] || (beest_netdev_ip_in(list, port->netdev, AF_UNSPEC, &ip) &&
				 !beest_ipaddr_is_link_local(&ip)))
		return;
	file_line(no_ipv6, sizeof(no_ipv6), "/proc/sys/net/ipv6/conf/%s/disable_ipv6",
		  port->netdev);
	if (port->ethernet && no_ipv6[0] == '1') {
		out_line(out, OUT_WARNING, "address", "%s of %s:%d has no IPv4 address, and IPv6 "
			 "is switched off there: so its GID reaches no peer", port->netdev,
			 port->device, port->port);
		out_cure(out, "ip address add ADDRESS/24 dev %s, or sysctl -w "
			 "net.ipv6.conf.%s.disable_ipv6=0", port->netdev, port->netdev);
	} else if (port->ethernet) {
		out_line(out, OUT_NOTE, "address", "%s of %s:%d has no address that routers "
			 "forward: its GID is link-local", port->netdev, port->device, port->port);
		out_cure(out, "ip address add ADDRESS/24 dev %s, if peers are behind a router",
			 port->netdev);
	} else {
		out_line(out, OUT_NOTE, "address", "%s of %s:%d has no IPv4 address (IPoIB): "
			 "only rdma_cm needs one", port->netdev, port->device, port->port);
	}
}

/* Errors of the link that a port has counted since its driver was loaded. */
static void check_counters(struct out *out, const struct ports_port *port)
{
	static const char *const names[] = {
		"symbol_error", "link_error_recovery", "port_rcv_errors",
		"local_link_integrity_errors", "excessive_buffer_overrun_errors",
	};
	struct beest_text text = BEEST_TEXT(200);
	char line[24];
	size_t i;

	for (i = 0; i < BEEST_COUNT(names); i++)
		if (file_line(line, sizeof(line), "/sys/class/infiniband/%s/ports/%d/counters/%s",
			      port->device, port->port, names[i]) && strcmp(line, "0"))
			beest_text_add(&text, "%s%s %s", text.used ? ", " : "", names[i], line);
	if (!text.used)
		return;
	out_line(out, OUT_WARNING, "counters", "%s:%d has counted %s", port->device, port->port,
		 text.buffer);
	out_cure(out, "if they grow (perfquery, 'rdma statistic show'): the cable, its plugs, or "
		 "the port of the switch");
}

/* Software devices have none, and report 0.0.0. */
static void note_firmware(const struct ports_port *port)
{
	size_t used = strlen(firmware);

	if (port->port == 1 && port->limits.fw_ver[0] && strcmp(port->limits.fw_ver, "0.0.0"))
		snprintf(firmware + used, sizeof(firmware) - used, "%s%s %s", used ? ", " : "",
			 port->device, port->limits.fw_ver);
}

/* @is_known: why devices cannot be opened was reported before, so it is no second failure. */
static void check_port(struct out *out, const struct ports_port *port, const struct ifaddrs *list,
		       bool is_known)
{
	char cure[PORTS_CURE], label[80];

	snprintf(label, sizeof(label), port->port ? "%s:%d" : "%s", port->device, port->port);
	if (port->error && is_known) {
		out_line(out, OUT_NOTE, label, "%s", port->why);
		return;
	}
	if (!port->error && port->network->refusal) {
		out_line(out, OUT_NOTE, label, "%s", port->network->refusal);
		return;
	}
	if (!ports_active(port)) {
		out_line(out, port->error ? OUT_FAILURE : OUT_WARNING, label, "%s", port->error
			 ? port->why : ports_state(port));
		out_cure(out, "%s", ports_cure(port, cure));
		return;
	}
	out_line(out, OUT_OK, label, "active, %s", port->network->name);
	note_firmware(port);
	check_counters(out, port);
	check_mtu(out, port);
	check_address(out, port, list);
}

/* ------------------------------------------- two ports in one network --- */

struct network {
	uint32_t number;		/* the address under its mask, in network byte order */
	char netdev[IF_NAMESIZE];
};

static uint32_t ipv4_of(const struct sockaddr *address)
{
	return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
}

/* An interface may have several addresses in one network, which is added once. */
static int network_add(struct network *networks, int found, const struct ifaddrs *from)
{
	uint32_t number = ipv4_of(from->ifa_addr) & ipv4_of(from->ifa_netmask);
	int i;

	for (i = 0; i < found; i++)
		if (networks[i].number == number && !strcmp(networks[i].netdev, from->ifa_name))
			return found;
	networks[found].number = number;
	snprintf(networks[found].netdev, IF_NAMESIZE, "%s", from->ifa_name);
	return found + 1;
}

static bool is_roce_port(const struct ports_port *ports, int count, const char *netdev)
{
	int i;

	for (i = 0; i < count; i++)
		if (ports_active(&ports[i]) && ports[i].ethernet &&
		    !strcmp(ports[i].netdev, netdev))
			return true;
	return false;
}

static int networks_of(const struct ports_port *ports, int count, const struct ifaddrs *list,
		       struct network *networks, int room)
{
	int found = 0;

	for (; list && found < room; list = list->ifa_next)
		if (list->ifa_addr && list->ifa_netmask && list->ifa_addr->sa_family == AF_INET &&
		    is_roce_port(ports, count, list->ifa_name))
			found = network_add(networks, found, list);
	return found;
}

/* For arp_ignore and rp_filter the greater value of "all" and of the interface applies. */
static int ipv4_setting(const char *netdev, const char *name)
{
	char all[8], own[8];

	file_line(all, sizeof(all), "/proc/sys/net/ipv4/conf/all/%s", name);
	file_line(own, sizeof(own), "/proc/sys/net/ipv4/conf/%s/%s", netdev, name);
	return BEEST_MAX(atoi(all), atoi(own));
}

static void check_pair(struct out *out, const struct network *a, const struct network *b)
{
	bool answers = ipv4_setting(a->netdev, "arp_ignore") < 1 ||
		       ipv4_setting(b->netdev, "arp_ignore") < 1;
	bool drops = ipv4_setting(a->netdev, "rp_filter") == 1 ||
		     ipv4_setting(b->netdev, "rp_filter") == 1;

	if (!answers && !drops) {
		out_line(out, OUT_OK, "network", "%s and %s are in one network, and each answers "
			 "for itself", a->netdev, b->netdev);
		return;
	}
	out_line(out, OUT_WARNING, "network", "%s and %s are in one network: %s%s%s", a->netdev,
		 b->netdev, answers ? "one answers ARP for the other" : "",
		 answers && drops ? ", and " : "",
		 drops ? "rp_filter=1 drops what arrives at the other" : "");
	out_cure(out, "sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 "
		 "net.ipv4.conf.all.rp_filter=2; or a network of its own for each");
}

static void check_networks(struct out *out, const struct ports_port *ports, int count,
			   const struct ifaddrs *list)
{
	struct network networks[16];
	int i, j, found = networks_of(ports, count, list, networks, BEEST_COUNT(networks));

	for (i = 0; i < found; i++)
		for (j = i + 1; j < found; j++)
			if (strcmp(networks[i].netdev, networks[j].netdev) &&
			    networks[i].number == networks[j].number)
				check_pair(out, &networks[i], &networks[j]);
}

static void check_ports(struct out *out, const struct ports_port *ports, int count)
{
	struct ifaddrs *list = NULL;
	bool is_known = out->counts[OUT_FAILURE];
	int i;

	if (getifaddrs(&list) < 0)
		list = NULL;
	for (i = 0; i < count; i++)
		check_port(out, &ports[i], list, is_known);
	if (count > 0)
		check_networks(out, ports, count, list);
	freeifaddrs(list);
}

/* The text has the ports that were passed over last. */
static void choice_line(struct out *out, char *text)
{
	static const char passed[] = "; passed over: ";
	char *others = strstr(text, passed);

	text[strcspn(text, ";")] = '\0';
	out_line(out, OUT_OK, "choice", "%s; 'hartebeest info' says why", text);
	if (others)
		out_line(out, OUT_NOTE, "passed over", "%s", others + strlen(passed));
}

/* A failure that was reported before is the cause, so this is no second failure. */
static void check_choice(struct out *out, struct hartebeest_context *hb,
			 const struct ports_port *ports, int count)
{
	static char text[128 * 1024];
	int ret;

	out_waiting(out, "trying ports and GIDs");
	ret = hartebeest_device_text(hb, text, sizeof(text));
	out_waiting_end(out);
	if (ret >= 0) {
		choice_line(out, text);
		return;
	}
	if (out->counts[OUT_FAILURE]) {
		out_line(out, OUT_NOTE, "choice", "none, for the reason above");
		return;
	}
	out_line(out, OUT_FAILURE, "choice", "%s", hartebeest_error());
	out_cure(out, "%s", ports_choice_cure(ports, count));
}

/* A halo in three dimensions has so many neighbours. */
#define PEERS 26

static void forecast(struct out *out, const struct ports_port *ports, int count)
{
	const int64_t processors = BEEST_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
	const struct forecast_job job = {
		.ranks = ranks, .per_node = BEEST_MIN(per_node ? per_node : processors, ranks),
		.peers = BEEST_MIN(peers ? peers : PEERS, BEEST_MAX(ranks - 1, 1)),
	};

	if (ranks)
		forecast_lines(out, &job, ports, count);
}

/* ------------------------------------------------------------ together --- */

static void check_launch(struct out *out, struct hartebeest_context *hb)
{
	const char *warning = "", *origin = hartebeest_origin(hb, &warning);

	out_line(out, OUT_NOTE, "rank", "%s", origin);
	if (*warning) {
		out_line(out, OUT_WARNING, "launcher", "%s", warning);
		out_cure(out, "HARTEBEEST_NID, HARTEBEEST_PARTICIPANTS and HARTEBEEST_JOB decide");
	}
	options_unknown_line(out);
}

/* "2 failures, 1 warning: memlock, server". */
static void verdict_text(const struct out *out, char *text, size_t size)
{
	int failures = out->counts[OUT_FAILURE], warnings = out->counts[OUT_WARNING];
	struct beest_text all;

	beest_text_start(&all, text, size);
	beest_text_add(&all, "%d failure%s, %d warning%s%s%s%s%s", failures,
		       failures == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s",
		       out->worst[0] ? ": " : "", out->worst, firmware[0] ? "; firmware " : "",
		       firmware);
}

static enum out_level verdict_level(const struct out *out)
{
	return out->counts[OUT_FAILURE] ? OUT_FAILURE : out->counts[OUT_WARNING] ? OUT_WARNING
	       : OUT_OK;
}

/* The host is part of it unless nodes are to be compared. */
static int sum_up(struct out *out)
{
	char text[300], host[80] = "";

	gethostname(host, sizeof(host) - 1);
	out_json_text(out->json, "host", host);
	out_json_int(out->json, "failures", out->counts[OUT_FAILURE]);
	out_json_int(out->json, "warnings", out->counts[OUT_WARNING]);
	verdict_text(out, text, sizeof(text));
	out_verdict(out, verdict_level(out), "%s%s%s", is_quiet ? "" : host, is_quiet ? "" : ": ",
		    text);
	return out->counts[OUT_FAILURE] ? STATUS_FAILED : STATUS_GOOD;
}

static void check_all(struct out *out, struct hartebeest_context *hb)
{
	struct ports_port *ports;
	int count;

	out_title(out, LABEL, "device");
	check_modules(out);
	check_nodes(out);
	count = ports_list(&ports);
	check_ports(out, ports, count);
	check_choice(out, hb, ports, count);
	check_rdmacm(out, hb);
	out_title(out, LABEL, "process");
	memory_lines(out);
	check_launch(out, hb);
	doctor_servers(out, hb, ranks ? ranks : hartebeest_size(hb));
	forecast(out, ports, count);
	free(ports);
}

/*
 * The text of each rank has no times, counts or names of its own.  The status of the first is that
 * of all: a launcher might end it when another one fails.
 */
static int fold_all(struct out *out, struct hartebeest_context *hb)
{
	char text[300], *said;
	int status;

	verdict_text(out, text, sizeof(text));
	said = out_take_verdict(out, verdict_level(out), text);
	if (!said) {
		out_error(out, "no memory");
		return STATUS_FAILED;
	}
	status = fold_run(out, hb, said);
	free(said);
	return status;
}

static int doctor(struct out *out, int count, char **operands)
{
	struct hartebeest_context *hb;
	int status;

	(void)count, (void)operands;
	if (wants_all && out->json) {
		out_error(out, "--all shows lines for people, without --json");
		return STATUS_MISUSED;
	}
	if ((per_node || peers) && !ranks) {
		out_error(out, "%s is for the forecast of --ranks N", per_node ? "--per-node" :
			  "--peers");
		return STATUS_MISUSED;
	}
	status = session_open(out, &hb);
	if (status != STATUS_GOOD)
		return status;
	out->quiet = is_quiet || wants_all;
	if (wants_all) {		/* the same text, whatever each rank writes to */
		out->color = false;
		out->columns = 0;
	}
	out_hold(out);
	check_all(out, hb);
	status = wants_all ? fold_all(out, hb) : sum_up(out);
	session_close(hb);
	return status;
}

const struct command doctor_command = {
	.name = "doctor",
	.help = "Reports what is in the way of RDMA and Memcached here, and what to do about it.",
	.options = options,
	.run = doctor,
	.more = "Exit status 1: a check failed.  With warnings only, it is 0.\n",
};
