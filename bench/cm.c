/* SPDX-License-Identifier: MIT */
/*
 * cm.c - bench/connect's side by rdma_cm
 *
 * Rank 0 listens.  Each end has one event channel and one table that maps events to the next
 * step, so all connections advance at once.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "bench/live.h"

#define RESOLVE_MS 5000

/* rdma_cm needs an IP address; on RoCE the port's GID contains one. */
static struct sockaddr_in own_address(const struct live *live)
{
	struct sockaddr_in address = { .sin_family = AF_INET };

	memcpy(&address.sin_addr, live->bare.gid.raw + 12, 4);
	return address;
}

static int listen_at(struct bench_rank *rank)
{
	struct live *live = rank->device;

	live->address = own_address(live);
	if (rdma_create_id(live->channel, &live->listener, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_bind_addr(live->listener, (struct sockaddr *)&live->address) != 0 ||
	    rdma_listen(live->listener, rank->pass->size) != 0)
		return bench_fail(rank, -errno, "rdma_listen: %s", strerror(errno));
	live->address.sin_port = rdma_get_src_port(live->listener);
	return live_send(live, &live->address, sizeof(live->address));
}

const char *cm_missing(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	if (!channel)
		return "rdma_cm: the kernel has none";
	rdma_destroy_event_channel(channel);
	return NULL;
}

/*
 * PD and CQ need librdmacm's own context of the device.  An id has it only once bound, so it is
 * looked up by name.
 */
static struct ibv_context *own_verbs(const struct live *live)
{
	struct ibv_context **all = rdma_get_devices(NULL), **at;
	struct ibv_context *found = NULL;

	for (at = all; at && *at && !found; at++)
		if (strcmp(ibv_get_device_name((*at)->device),
			   ibv_get_device_name(live->bare.verbs->device)) == 0)
			found = *at;
	rdma_free_devices(all);
	return found;
}

int cm_open(struct bench_rank *rank)
{
	struct live *live = live_new(rank);
	struct ibv_context *verbs;
	int ret;

	if (bare_open(&live->bare, live->port) < 0 || !(verbs = own_verbs(live)))
		return bench_fail(rank, -ENODEV, "cannot open %s", live->port);
	live->ids = calloc((size_t)rank->pass->size, sizeof(live->ids[0]));
	live->channel = rdma_create_event_channel();
	if (!live->channel || !live->ids)
		return bench_fail(rank, -errno, "rdma_cm: %s", strerror(errno));
	ret = live_objects(rank, verbs);
	if (ret == 0)
		ret = rank->rank == 0 ? listen_at(rank) :
			live_receive(live, &live->address, sizeof(live->address));
	return ret < 0 ? ret : live_meet(live);
}

/* ------------------------------------------------------------------- events --- */

/* Requests may overtake each other, so each carries the index of its connection. */
static int index_of(const struct live *live, const struct rdma_cm_id *id)
{
	return (int)((struct rdma_cm_id *const *)id->context - live->ids);
}

static int create_qp(struct live *live, struct rdma_cm_id *id, int index)
{
	struct ibv_qp_init_attr init = bare_init_attr(live->cq);

	if (rdma_create_qp(id, live->pd, &init) != 0)
		return -errno;
	live->ids[index] = id;
	live->qps[index] = id->qp;
	return 0;
}

static struct rdma_conn_param parameters(const int *index)
{
	return (struct rdma_conn_param){
		.private_data = index, .private_data_len = sizeof(*index),
		.responder_resources = 1, .initiator_depth = 1,
		.retry_count = 7, .rnr_retry_count = 7,
	};
}

static int request_connection(struct live *live, struct rdma_cm_id *id)
{
	int index = index_of(live, id), ret = create_qp(live, id, index);
	struct rdma_conn_param param = parameters(&index);

	if (ret < 0)
		return ret;
	return rdma_connect(id, &param) == 0 ? 0 : -errno;
}

static int accept_connection(struct live *live, const struct rdma_cm_event *event)
{
	struct rdma_conn_param param = parameters(NULL);
	int index, ret;

	param.private_data_len = 0;
	memcpy(&index, event->param.conn.private_data, sizeof(index));
	ret = create_qp(live, event->id, index);
	if (ret < 0)
		return ret;
	return rdma_accept(event->id, &param) == 0 ? 0 : -errno;
}

/* Takes the next step of a connection; returns 1 when it is established. */
static int advance(struct bench_rank *rank, const struct rdma_cm_event *event)
{
	struct live *live = rank->device;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return rdma_resolve_route(event->id, RESOLVE_MS) == 0 ? 0 : -errno;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return request_connection(live, event->id);
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return accept_connection(live, event);
	case RDMA_CM_EVENT_ESTABLISHED:
		return 1;
	default:
		return bench_fail(rank, event->status < 0 ? event->status : -EIO, "%s: %d",
				  rdma_event_str(event->event), event->status);
	}
}

static int ask_for(struct live *live, int index)
{
	struct sockaddr_in own = own_address(live);
	struct rdma_cm_id *id;

	if (rdma_create_id(live->channel, &id, &live->ids[index], RDMA_PS_TCP) != 0)
		return -errno;
	return rdma_resolve_addr(id, (struct sockaddr *)&own, (struct sockaddr *)&live->address,
				 RESOLVE_MS) == 0 ? 0 : -errno;
}

int cm_work(struct bench_rank *rank)
{
	struct live *live = rank->device;
	int i, ret = 0, established = 0, size = rank->pass->size;
	struct pollfd ready = { .fd = live->channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	for (i = 0; i < size && rank->rank && ret == 0; i++)
		ret = ask_for(live, i);
	while (ret >= 0 && established < size) {
		if (poll(&ready, 1, rank->pass->limit * 1000) <= 0)
			return bench_fail(rank, -ETIMEDOUT, "no event of rdma_cm");
		if (rdma_get_cm_event(live->channel, &event) != 0)
			return bench_fail(rank, -errno, "rdma_cm: %s", strerror(errno));
		ret = advance(rank, event);
		rdma_ack_cm_event(event);
		established += ret == 1;
	}
	return ret < 0 ? ret : live_meet(live);
}
