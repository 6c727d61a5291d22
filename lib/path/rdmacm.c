/* SPDX-License-Identifier: MIT */
/*
 * rdmacm.c - see rdmacm.h
 *
 * Each query has its own event channel and rdma_cm_id.  The channel does not block, so that
 * poll(2) keeps the deadline.  Results are copied: the ibv_context in the id belongs to
 * librdmacm, which opens the device a second time and keeps it open.
 */
#include "config.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/netdev.h"
#include "lib/base/text.h"
#include "lib/path/rdmacm.h"

/*
 * The kernel misses an ARP answer that arrives before it waits for one, as happens over veth, and
 * notices it only after its time limit: so the first limit is short.  The kernel may report its
 * verdict a little later than the limit.
 */
#define FIRST_TRY (100 * BEEST_MS)
#define LONGEST_TRY (2 * BEEST_SECOND)
#define VERDICT (200 * BEEST_MS)

#define ANY_PORT 9		/* discard; nothing is sent there */

enum phase {
	PHASE_OPEN,		/* reach rdma_cm at all */
	PHASE_BIND,		/* bind the local address */
	PHASE_ADDRESS,		/* resolve the peer's by ARP or neighbour discovery */
	PHASE_ROUTE,		/* get the path record */
};

struct resolver {
	const struct beest_rdmacm_query *query;
	int64_t deadline;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
};

/* ------------------------------------------------------------- sentences --- */

/*
 * The meaning of an errno in each phase.  librdmacm and the kernel use ENODEV for four different
 * failures.
 */
#define NO_ACCESS "this user may not read and write /dev/infiniband/rdma_cm"
#define NO_ANSWER "the address does not answer ARP or neighbour discovery: is its interface up, " \
	"and on this network?"
#define NO_ROUTE "there is no route to the address"

static const struct reason {
	enum phase phase;
	int err;		/* from librdmacm; 0: any other */
	int ret;		/* to be returned; 0: the same */
	const char *text;
} reasons[] = {
	{ PHASE_OPEN, ENOENT, EOPNOTSUPP, "the kernel's rdma_cm cannot be asked: is the module "
	  "rdma_ucm loaded, and is there a /dev/infiniband/rdma_cm?" },
	{ PHASE_OPEN, ENODEV, 0, "rdma_cm finds no RDMA device on this machine" },
	{ PHASE_OPEN, EACCES, 0, NO_ACCESS },
	{ PHASE_OPEN, EPERM, EACCES, NO_ACCESS },
	{ PHASE_OPEN, 0, 0, "rdma_cm cannot be reached" },
	{ PHASE_BIND, EADDRNOTAVAIL, 0, "the local address is on no interface of this host" },
	{ PHASE_BIND, ENODEV, 0, "there is no RDMA device behind the local address: a RoCE port "
	  "needs the address on its interface, an InfiniBand port on IPoIB" },
	{ PHASE_BIND, 0, 0, "rdma_cm rejects the local address" },
	{ PHASE_ADDRESS, ENODEV, 0, "there is no RDMA device behind the interface that leads "
	  "there: a RoCE port needs an address on its interface, an InfiniBand port on IPoIB" },
	{ PHASE_ADDRESS, ETIMEDOUT, 0, NO_ANSWER },
	{ PHASE_ADDRESS, ENODATA, ETIMEDOUT, NO_ANSWER },
	{ PHASE_ADDRESS, ENETUNREACH, 0, NO_ROUTE },
	{ PHASE_ADDRESS, EHOSTUNREACH, 0, NO_ROUTE },
	{ PHASE_ADDRESS, EADDRNOTAVAIL, EHOSTUNREACH, NO_ROUTE },
	{ PHASE_ADDRESS, 0, 0, "rdma_cm cannot resolve the address" },
	{ PHASE_ROUTE, ETIMEDOUT, 0, "the subnet manager does not answer in time" },
	{ PHASE_ROUTE, EHOSTUNREACH, 0, "the subnet manager knows no path" },
	{ PHASE_ROUTE, ENODEV, 0, "the device went away, or the address is this host's own and "
	  "on no RDMA interface" },
	{ PHASE_ROUTE, 0, 0, "rdma_cm finds no path" },
};

/* ------------------------------------------------------------- addresses --- */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t address_of(const struct beest_ipaddr *ip, unsigned int scope, int port,
			    union address *address)
{
	memset(address, 0, sizeof(*address));
	if (beest_ipaddr_is_ipv4(ip)) {
		address->v4.sin_family = AF_INET;
		address->v4.sin_port = htons((uint16_t)port);
		memcpy(&address->v4.sin_addr, ip->raw + 12, 4);
		return sizeof(address->v4);
	}

	address->v6.sin6_family = AF_INET6;
	address->v6.sin6_port = htons((uint16_t)port);
	address->v6.sin6_scope_id = beest_ipaddr_is_link_local(ip) ? scope : 0;
	memcpy(&address->v6.sin6_addr, ip->raw, 16);
	return sizeof(address->v6);
}

/*
 * Finds the local address that the kernel would use.  Connecting a datagram socket looks up the
 * route and sends nothing.
 */
static bool source_of(const struct beest_rdmacm_query *query, struct beest_ipaddr *ip)
{
	union address to, from;
	socklen_t size = address_of(query->to, query->scope, ANY_PORT, &to);
	int fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool found;

	if (fd < 0)
		return false;

	found = connect(fd, &to.any, size) == 0 && getsockname(fd, &from.any, &size) == 0 &&
		beest_ipaddr_of(&from.any, ip);
	close(fd);
	return found;
}

static void source_text(const struct resolver *resolver, char *text, size_t size)
{
	char name[IF_NAMESIZE];
	struct beest_ipaddr ip;

	text[0] = '\0';
	if (resolver->query->from)
		ip = *resolver->query->from;
	else if (!source_of(resolver->query, &ip))
		return;

	beest_netdev_of(&ip, name);
	snprintf(text, size, " from %s%s%s%s", BEEST_IP_TEXT(&ip), name[0] ? " (" : "", name,
		 name[0] ? ")" : "");
}

static int fail_phase(const struct resolver *resolver, enum phase phase, int err)
{
	char way[INET6_ADDRSTRLEN + IF_NAMESIZE + 16];
	const struct reason *reason = reasons;

	while (reason->phase != phase || (reason->err && reason->err != err))
		reason++;
	source_text(resolver, way, sizeof(way));
	return beest_fail(reason->ret ? reason->ret : err, "no path to %s%s: %s (%s)",
			  BEEST_IP_TEXT(resolver->query->to), way, reason->text, strerror(err));
}

/* ---------------------------------------------------------------- events --- */

/* For librdmacm's time limits.  Rounds up, since 0 ms would leave no time at all. */
static int milliseconds(int64_t ns)
{
	if (ns > INT32_MAX * BEEST_MS)
		return INT32_MAX;
	return (int)((ns + BEEST_MS - 1) / BEEST_MS);
}

/* Acknowledges each event at once: rdma_destroy_id(3) waits until all are acknowledged. */
static int take_event(struct resolver *resolver, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	int status;

	errno = 0;
	if (rdma_get_cm_event(resolver->channel, &event) != 0)
		return errno == EAGAIN ? -EAGAIN : beest_error_errno();

	type = event->event;
	status = abs(event->status);
	rdma_ack_cm_event(event);
	if (type == wanted)
		return 0;
	return type == RDMA_CM_EVENT_DEVICE_REMOVAL ? -ENODEV : status ? -status : -EIO;
}

static int wait_event(struct resolver *resolver, enum rdma_cm_event_type wanted, int64_t deadline)
{
	struct beest_limit limit = *resolver->query->limit;
	int ret;

	limit.end = deadline;
	for (;;) {
		beest_limit_poll(&limit, resolver->channel->fd);
		if (beest_limit_check(&limit) < 0)
			return -ECANCELED;
		ret = take_event(resolver, wanted);
		if (ret != -EAGAIN)
			return ret;
		if (!beest_limit_left(&limit))
			return -ETIMEDOUT;
	}
}

/* ---------------------------------------------------------------- phases --- */

static int open_channel(struct resolver *resolver)
{
	uint8_t tos = resolver->query->tos;
	int flags;

	errno = 0;
	resolver->channel = rdma_create_event_channel();
	if (!resolver->channel)
		return beest_error_errno();
	flags = fcntl(resolver->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(resolver->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    rdma_create_id(resolver->channel, &resolver->id, NULL, RDMA_PS_TCP) != 0)
		return beest_error_errno();
	if (tos && rdma_set_option(resolver->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos,
				   sizeof(tos)) != 0)
		return beest_error_errno();
	return 0;
}

static int bind_local(struct resolver *resolver)
{
	const struct beest_rdmacm_query *query = resolver->query;
	union address from;

	if (!query->from)
		return 0;

	address_of(query->from, query->scope, 0, &from);
	errno = 0;
	if (rdma_bind_addr(resolver->id, &from.any) != 0)
		return beest_error_errno();
	return resolver->id->verbs ? 0 : -ENODEV;
}

static int try_resolving(struct resolver *resolver, union address *to, int64_t time,
			 bool *answered)
{
	int64_t deadline = beest_clock_deadline(time + VERDICT);
	int ret;

	*answered = true;
	errno = 0;
	if (rdma_resolve_addr(resolver->id, NULL, &to->any, milliseconds(time)) != 0)
		return beest_error_errno();

	ret = wait_event(resolver, RDMA_CM_EVENT_ADDR_RESOLVED, deadline);
	*answered = beest_clock_left(deadline) > 0;
	return ret;
}

/* Retries only after an answer: the kernel refuses a second request while one is pending. */
static int resolve_address(struct resolver *resolver)
{
	int64_t left, time = FIRST_TRY;
	union address to;
	bool answered;
	int ret;

	address_of(resolver->query->to, resolver->query->scope, 0, &to);
	do {
		left = beest_clock_left(resolver->deadline);
		ret = try_resolving(resolver, &to, time < left ? time : left, &answered);
		time = time < LONGEST_TRY ? 2 * time : time;
	} while (ret == -ETIMEDOUT && answered && beest_clock_left(resolver->deadline) > 0);

	if (ret == 0 && !resolver->id->verbs)
		ret = -ENODEV;		/* rdma_resolve_route(3) would crash */
	return ret;
}

static int resolve_route(struct resolver *resolver)
{
	int64_t left = beest_clock_left(resolver->deadline);
	int64_t deadline = beest_clock_deadline(left + VERDICT);
	int ret;

	errno = 0;
	if (rdma_resolve_route(resolver->id, milliseconds(left)) != 0)
		return beest_error_errno();

	ret = wait_event(resolver, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline);
	if (ret == 0 && (resolver->id->route.num_paths < 1 || !resolver->id->route.path_rec))
		ret = -EHOSTUNREACH;
	return ret;
}

static int (*const phases[])(struct resolver *resolver) = {
	[PHASE_OPEN] = open_channel,
	[PHASE_BIND] = bind_local,
	[PHASE_ADDRESS] = resolve_address,
	[PHASE_ROUTE] = resolve_route,
};

/* ---------------------------------------------------------------- answer --- */

static int copy_path_record(const struct resolver *resolver, struct hartebeest_path *path)
{
	const struct rdma_cm_id *id = resolver->id;
	struct ibv_port_attr attr;
	int ret;

	ret = beest_error_verbs(ibv_query_port(id->verbs, id->port_num, &attr));
	if (ret < 0)
		return beest_fail_errno(ret, "port %d of %s cannot be queried", id->port_num,
					id->verbs->device->name);

	memset(path, 0, sizeof(*path));
	beest_text_copy(path->device, sizeof(path->device), id->verbs->device->name);
	path->port = id->port_num;
	path->link_layer = IBV_LINK_LAYER_INFINIBAND;
	beest_pathrec_read(id->route.path_rec, attr.lmc, path);
	if (attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
		path->link_layer = IBV_LINK_LAYER_ETHERNET;
		path->dlid = path->src_path_bits = 0;
	}
	return 0;
}

static int run_phases(struct resolver *resolver)
{
	const struct ibv_device *device;
	enum phase phase;
	int ret;

	for (phase = PHASE_OPEN; phase < BEEST_COUNT(phases); phase++) {
		ret = phases[phase](resolver);
		if (ret < 0)
			return ret == -ECANCELED ? ret : fail_phase(resolver, phase, -ret);
		if (phase != PHASE_ADDRESS)
			continue;

		device = resolver->id->verbs->device;
		if (device->transport_type == IBV_TRANSPORT_IWARP)
			return beest_fail(EPROTONOSUPPORT, "the path to %s leads through the iWARP "
					  "device %s, whose connections only rdma_cm can make",
					  BEEST_IP_TEXT(resolver->query->to), device->name);
	}
	return 0;
}

int beest_rdmacm_resolve(const struct beest_rdmacm_query *query, struct hartebeest_path *path)
{
	struct resolver resolver = {
		.query = query, .deadline = beest_limit_look(query->limit),
	};
	int ret;

	ret = beest_pathrec_check(query->to);
	if (ret == 0 && query->from)
		ret = beest_pathrec_check(query->from);
	if (ret < 0)
		return ret;

	ret = run_phases(&resolver);
	if (ret == 0)
		ret = copy_path_record(&resolver, path);
	if (resolver.id)
		rdma_destroy_id(resolver.id);
	if (resolver.channel)
		rdma_destroy_event_channel(resolver.channel);
	return ret == -ETIMEDOUT ? -beest_limit_errno(query->limit) : ret;
}
