/* SPDX-License-Identifier: MIT */
/* fake-rdmacm.c - see fake-rdmacm.h */
#include "config.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fake-rdmacm.h"

struct fake_rdmacm fake_rdmacm;

/* The channel is a pipe: each byte in it is a pending event. */
struct fake_channel {
	struct rdma_event_channel channel;
	int to;
	struct rdma_cm_event event;
};

struct fake_id {
	struct rdma_cm_id id;
	enum { NEW, BOUND, ADDRESSED, ROUTED } state;
};

static struct fake_channel *fake_channel(struct rdma_event_channel *channel)
{
	return (struct fake_channel *)channel;
}

void fake_rdmacm_reset(void)
{
	memset(&fake_rdmacm, 0, sizeof(fake_rdmacm));
	fake_rdmacm.tos = -1;
	fake_rdmacm.paths = 1;
	inet_pton(AF_INET6, "::ffff:10.0.0.1", fake_rdmacm.path.sgid.raw);
	inet_pton(AF_INET6, "::ffff:10.0.0.2", fake_rdmacm.path.dgid.raw);
	fake_rdmacm.path.pkey = htobe16(0xffff);
	fake_rdmacm.path.mtu = IBV_MTU_1024;
	fake_rdmacm.path.rate = IBV_RATE_25_GBPS;
	fake_rdmacm.path.hop_limit = 1;
	fake_rdmacm.path.packet_life_time = 18;
}

void fake_rdmacm_infiniband(void)
{
	fake_rdmacm_reset();
	inet_pton(AF_INET6, "fe80::7", fake_rdmacm.path.sgid.raw);
	inet_pton(AF_INET6, "fe80::beef", fake_rdmacm.path.dgid.raw);
	fake_rdmacm.path.dlid = htobe16(0x1234);
	fake_rdmacm.path.slid = htobe16(0x0007);
	fake_rdmacm.path.sl = 5;
	fake_rdmacm.path.mtu = IBV_MTU_2048;
	fake_rdmacm.path.rate = IBV_RATE_100_GBPS;
	fake_rdmacm.path.hop_limit = 0;
	fake_rdmacm.path.traffic_class = 9;
	fake_rdmacm.path.flow_label = htobe32(0x54321);
}

static int fails(const struct fake_cm_end *end)
{
	if (!end->error)
		return 0;
	errno = end->error;
	return -1;
}

static int out_of_order(void)
{
	errno = ENOTRECOVERABLE;	/* no test expects this errno */
	return -1;
}

/* --------------------------------------------------------------- channel --- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct fake_channel *channel;
	int ends[2];

	if (fails(&fake_rdmacm.channel) != 0)
		return NULL;
	channel = calloc(1, sizeof(*channel));
	if (!channel || pipe(ends) != 0)
		abort();

	channel->channel.fd = ends[0];
	channel->to = ends[1];
	fake_rdmacm.open++;
	return &channel->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	close(fake_channel(channel)->to);
	free(channel);
	fake_rdmacm.open--;
}

static int raise_event(struct rdma_cm_id *id, const struct fake_cm_end *end,
		       enum rdma_cm_event_type good, enum rdma_cm_event_type bad)
{
	struct fake_channel *channel = fake_channel(id->channel);

	if (end->silent)
		return 0;
	channel->event.event = end->status ? bad : good;
	channel->event.status = end->status;
	return write(channel->to, "", 1) == 1 ? 0 : -1;
}

/* Refuses a blocking channel, since that could not keep a deadline. */
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	char byte;

	if (!(fcntl(channel->fd, F_GETFL) & O_NONBLOCK))
		return out_of_order();
	if (read(channel->fd, &byte, 1) != 1)
		return -1;
	*event = &fake_channel(channel)->event;
	fake_rdmacm.open++;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	fake_rdmacm.open--;
	return 0;
}

/* -------------------------------------------------------------------- id --- */

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space space)
{
	struct fake_id *made;

	(void)context;
	if (fails(&fake_rdmacm.id) != 0)
		return -1;
	made = calloc(1, sizeof(*made));
	if (!made)
		abort();

	made->id.channel = channel;
	made->id.ps = space;
	fake_rdmacm.open++;
	*id = &made->id;
	return 0;
}

static void open_device(struct rdma_cm_id *id)
{
	struct ibv_device **list;

	if (id->verbs || fake_rdmacm.no_device)
		return;
	list = ibv_get_device_list(NULL);
	id->verbs = ibv_open_device(list[fake_rdmacm.device]);
	ibv_free_device_list(list);
	id->port_num = (uint8_t)(fake_rdmacm.port + 1);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	if (id->verbs)
		ibv_close_device(id->verbs);
	free(id);
	fake_rdmacm.open--;
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t size)
{
	(void)id;
	if (level != RDMA_OPTION_ID || name != RDMA_OPTION_ID_TOS || size != 1)
		return out_of_order();
	fake_rdmacm.tos = *(uint8_t *)value;
	return 0;
}

static size_t size_of(const struct sockaddr *address)
{
	return address->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
	       sizeof(struct sockaddr_in6);
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	memcpy(&fake_rdmacm.from, address, size_of(address));
	if (fails(&fake_rdmacm.bind) != 0)
		return -1;
	open_device(id);
	((struct fake_id *)id)->state = BOUND;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	static const struct fake_cm_end late = { .status = -ETIMEDOUT };

	(void)from;
	fake_rdmacm.asked++;
	fake_rdmacm.timeout_ms = ms;
	memcpy(&fake_rdmacm.to, to, size_of(to));
	if (fails(&fake_rdmacm.address) != 0)
		return -1;
	if (fake_rdmacm.late > 0) {
		fake_rdmacm.late--;
		return raise_event(id, &late, RDMA_CM_EVENT_ADDR_RESOLVED,
				   RDMA_CM_EVENT_ADDR_ERROR);
	}
	if (!fake_rdmacm.address.status)
		open_device(id);
	((struct fake_id *)id)->state = ADDRESSED;
	return raise_event(id, &fake_rdmacm.address, RDMA_CM_EVENT_ADDR_RESOLVED,
			   RDMA_CM_EVENT_ADDR_ERROR);
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
	(void)ms;
	if (!id->verbs || ((struct fake_id *)id)->state != ADDRESSED)
		abort();		/* the real one crashes */
	if (fails(&fake_rdmacm.route) != 0)
		return -1;
	((struct fake_id *)id)->state = ROUTED;
	id->route.path_rec = fake_rdmacm.paths ? &fake_rdmacm.path : NULL;
	id->route.num_paths = fake_rdmacm.paths;
	return raise_event(id, &fake_rdmacm.route, RDMA_CM_EVENT_ROUTE_RESOLVED,
			   RDMA_CM_EVENT_ROUTE_ERROR);
}
