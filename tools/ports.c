/* SPDX-License-Identifier: MIT */
/* ports.c - see ports.h */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"
#include "lib/verbs/gidtable.h"
#include "lib/verbs/newer.h"
#include "tools/file.h"
#include "tools/ports.h"
#include "tools/session.h"

/* ----------------------------------------------------------- reading --- */

/* Takes it from the GIDs as the library reads them, which knows old kernels and IPoIB. */
static void read_netdev(struct ibv_context *verbs, struct ports_port *port)
{
	struct beest_device device = { .verbs = verbs, .attr = port->limits,
				       .port = (uint8_t)port->port, .ethernet = port->ethernet };
	struct beest_gid_entry *gids = NULL;
	int i, count = beest_gidtable_entries(&device, "", &gids);

	for (i = 0; i < count && !port->netdev[0]; i++)
		snprintf(port->netdev, sizeof(port->netdev), "%s", gids[i].netdev);
	free(gids);
}

static void read_pkeys(struct ibv_context *verbs, struct ports_port *port)
{
	__be16 pkey;
	int i;

	for (i = 0; i < port->attr.pkey_tbl_len &&
	     port->pkey_count < (int)BEEST_COUNT(port->pkeys); i++)
		if (ibv_query_pkey(verbs, (uint8_t)port->port, i, &pkey) == 0 && pkey)
			port->pkeys[port->pkey_count++] = ntohs(pkey);
}

/* struct ibv_port_attr has no room for speeds beyond NDR: "800 Gb/sec (4X XDR)". */
static void read_rate(struct ibv_context *verbs, struct ports_port *port)
{
	char line[64];
	double rate;

	if (file_line(line, sizeof(line), "%s/ports/%d/rate", verbs->device->ibdev_path,
		      port->port) && sscanf(line, "%lf Gb/sec", &rate) == 1)
		port->rate = (int64_t)(rate * 1000);
}

/* Only a queue pair has them. */
static void read_ece(struct ibv_context *verbs, struct ports_port *port)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1, .max_recv_wr = 1,
						.max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_pd *pd = ibv_alloc_pd(verbs);
	struct ibv_cq *cq = ibv_create_cq(verbs, 2, NULL, NULL, 0);
	struct ibv_qp *qp;

	attr.send_cq = attr.recv_cq = cq;
	qp = pd && cq ? ibv_create_qp(pd, &attr) : NULL;
	if (qp) {
		port->ece = beest_newer_ece_of(qp);
		ibv_destroy_qp(qp);
	}
	if (cq)
		ibv_destroy_cq(cq);
	if (pd)
		ibv_dealloc_pd(pd);
}

static void read_port(struct ibv_context *verbs, struct ports_port *port)
{
	memset(&port->attr, 0, sizeof(port->attr));
	port->error = ibv_query_port(verbs, (uint8_t)port->port, &port->attr);
	if (port->error)
		return;

	port->network = beest_network_of(verbs->device->transport_type, port->attr.link_layer);
	port->ethernet = !port->network->refusal &&
			 port->attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	read_pkeys(verbs, port);
	read_rate(verbs, port);
	if (!port->network->refusal)
		read_ece(verbs, port);
	read_netdev(verbs, port);
}

/* Appends a copy of @as.  Returns it; NULL: no memory. */
static struct ports_port *add_port(struct ports_port **list, int *count,
				   const struct ports_port *as)
{
	struct ports_port *more = realloc(*list, (*count + 1) * sizeof(*more));

	if (!more)
		return NULL;
	*list = more;
	more[*count] = *as;
	return &more[(*count)++];
}

/* The library knows the causes, and corrects an errno that libibverbs does not pass on. */
static void explain(struct ports_port *port)
{
	struct hartebeest_context *hb;
	char name[100], text[4];
	int ret;

	snprintf(port->why, sizeof(port->why), "%s", strerror(port->error));
	snprintf(name, sizeof(name), "device.name=%s", port->device);
	if (session_try(&hb, (const char *const[]){ name, NULL }) < 0)
		return;

	ret = hartebeest_device_text(hb, text, sizeof(text));
	if (ret < 0) {
		port->error = -ret;
		snprintf(port->why, sizeof(port->why), "%s", hartebeest_error());
	}
	session_close(hb);
}

static void add_device(struct ports_port **list, int *count, struct ibv_device *device)
{
	struct ports_port base = { .numa = -1 }, *port;
	struct ibv_context *verbs;
	char numa[16];
	int i;

	snprintf(base.device, sizeof(base.device), "%.63s", ibv_get_device_name(device));
	if (file_line(numa, sizeof(numa), "%s/device/numa_node", device->ibdev_path))
		base.numa = atoi(numa);
	errno = 0;
	verbs = ibv_open_device(device);
	if (!verbs)
		base.error = errno ? errno : EIO;
	else
		base.error = ibv_query_device(verbs, &base.limits);

	if (base.error) {
		explain(&base);
		add_port(list, count, &base);
	}
	for (i = 1; !base.error && i <= base.limits.phys_port_cnt; i++) {
		base.port = i;
		port = add_port(list, count, &base);
		if (port)
			read_port(verbs, port);
	}
	if (verbs)
		ibv_close_device(verbs);
}

int ports_list(struct ports_port **list)
{
	struct ibv_device **devices;
	int i, number, count = 0;

	*list = NULL;
	errno = 0;
	devices = ibv_get_device_list(&number);
	if (!devices)		/* rdma-core 22 sets errno to -38 where the kernel lacks verbs */
		return errno ? -abs(errno) : -EIO;

	for (i = 0; i < number; i++)
		add_device(list, &count, devices[i]);
	ibv_free_device_list(devices);
	return count;
}

/* ------------------------------------------------------------- words --- */

const char *ports_state(const struct ports_port *port)
{
	static const char *const states[] = {
		[IBV_PORT_NOP] = "no state", [IBV_PORT_DOWN] = "down",
		[IBV_PORT_INIT] = "initializing", [IBV_PORT_ARMED] = "armed",
		[IBV_PORT_ACTIVE] = "active", [IBV_PORT_ACTIVE_DEFER] = "active, deferred",
	};

	return port->attr.state < BEEST_COUNT(states) ? states[port->attr.state] : "unknown";
}

bool ports_active(const struct ports_port *port)
{
	return !port->error && port->attr.state == IBV_PORT_ACTIVE;
}

bool ports_usable(const struct ports_port *port)
{
	return ports_active(port) && !port->network->refusal;
}

int64_t ports_rate(const struct ports_port *port)
{
	/* Mbit/s of a lane and the number of lanes, by the bit that is set. */
	static const int speeds[] = { 2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000 };
	static const int widths[] = { 1, 4, 8, 12, 2 };
	int speed = ffs(port->attr.active_speed), width = ffs(port->attr.active_width);

	if (port->rate)
		return port->rate;
	if (speed < 1 || width < 1 || width > (int)BEEST_COUNT(widths))
		return 0;
	return (int64_t)speeds[speed - 1] * widths[width - 1];
}

int ports_mtu(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128 << mtu : 0;
}

static const char *physical_state(const struct ports_port *port)
{
	static const char *const states[] = {
		NULL, "sleep", "polling: no signal", "disabled", "training", NULL,
		"error recovery", "test",
	};

	return port->attr.phys_state < BEEST_COUNT(states) ? states[port->attr.phys_state] : NULL;
}

/* Where the kernel knows more than the sentence has. */
static void error_cure(const struct ports_port *port, char cure[PORTS_CURE])
{
	static const struct {
		int error;
		const char *cure;
	} cures[] = {
		{ EACCES, "give this user /dev/infiniband/uverbs*: udev rules of rdma-core make "
			  "them 0666" },
		{ ENOENT, "start the container with --device=/dev/infiniband, or use a device "
			  "plugin for RDMA in Kubernetes" },
		{ EPERM, "'hartebeest doctor' looks at the nodes" },
		{ EDQUOT, "raise rdma.max of the cgroup that /proc/self/cgroup names, or of one "
			  "above it" },
		{ ENOMEM, "see memlock below" },
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(cures); i++)
		if (cures[i].error == port->error) {
			snprintf(cure, PORTS_CURE, "%s", cures[i].cure);
			return;
		}
	snprintf(cure, PORTS_CURE, "see dmesg for %s", port->device);
}

const char *ports_cure(const struct ports_port *port, char cure[PORTS_CURE])
{
	const char *physical = physical_state(port);
	const char *netdev = port->netdev[0] ? port->netdev : "INTERFACE";

	if (port->error)
		error_cure(port, cure);
	else if (!port->ethernet && port->attr.state != IBV_PORT_DOWN)
		snprintf(cure, PORTS_CURE, "a subnet manager must run on this network: 'sminfo', "
			 "'systemctl start opensm'");
	else if (port->ethernet)
		snprintf(cure, PORTS_CURE, "ip link set %s up; then check cable and switch%s%s%s",
			 netdev, physical ? " (" : "", physical ? physical : "",
			 physical ? ")" : "");
	else
		snprintf(cure, PORTS_CURE, "check cable and switch%s%s%s", physical ? " (" : "",
			 physical ? physical : "", physical ? ")" : "");
	return cure;
}

const char *ports_choice_cure(const struct ports_port *list, int count)
{
	bool usable = false, error = false;
	int i;

	for (i = 0; i < count; i++) {
		usable |= ports_usable(&list[i]);
		error |= list[i].error != 0;
	}
	if (usable)
		return "a port needs an address on its interface (ip address add ADDRESS/24 dev "
		       "INTERFACE); HARTEBEEST_DEVICE, HARTEBEEST_GID and HARTEBEEST_ADDR "
		       "narrow the choice";
	return error ? "see the device above" :
	       "a port must be active; HARTEBEEST_DEVICE, HARTEBEEST_GID and HARTEBEEST_ADDR "
	       "narrow the choice";
}
