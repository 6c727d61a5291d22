/* SPDX-License-Identifier: MIT */
/* bare.c - see bare.h */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bare.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* The GID of RoCE v2 is the last entry with an IPv4 address; without one, the first entry. */
static void find_gid(struct bare_port *port, int count)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	union ibv_gid gid;
	int i;

	ibv_query_gid(port->verbs, port->number, 0, &port->gid);
	for (i = 0; i < count && port->link_layer == IBV_LINK_LAYER_ETHERNET; i++) {
		if (ibv_query_gid(port->verbs, port->number, i, &gid) != 0 ||
		    memcmp(gid.raw, mapped, sizeof(mapped)) != 0)
			continue;
		port->gid = gid;
		port->gid_index = i;
	}
}

static bool use_port(struct bare_port *port, uint8_t number)
{
	struct ibv_port_attr attr;

	memset(&attr, 0, sizeof(attr));
	if (ibv_query_port(port->verbs, number, &attr) != 0 || attr.state != IBV_PORT_ACTIVE)
		return false;
	port->number = number;
	port->lid = attr.lid;
	port->link_layer = attr.link_layer;
	port->mtu = attr.active_mtu;
	find_gid(port, attr.gid_tbl_len);
	return true;
}

/* "mlx5_0:2" is the second port of mlx5_0. */
static bool is_named(const char *name, const char *device)
{
	size_t length = strlen(device);

	return strncmp(name, device, length) == 0 && (name[length] == ':' || !name[length]);
}

int bare_open(struct bare_port *port, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **at;
	const char *colon = name ? strchr(name, ':') : NULL;
	uint8_t number = colon ? (uint8_t)atoi(colon + 1) : 1;

	memset(port, 0, sizeof(*port));
	for (at = list; at && *at && !port->number; at++) {
		if (name && !is_named(name, ibv_get_device_name(*at)))
			continue;
		port->verbs = ibv_open_device(*at);
		if (port->verbs && !use_port(port, number))
			ibv_close_device(port->verbs);
	}
	if (list)
		ibv_free_device_list(list);
	return port->number ? 0 : -ENODEV;
}

struct ibv_qp_init_attr bare_init_attr(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 1,
			 .max_recv_sge = 1, .max_inline_data = 256 },
	};
}

int bare_init(const struct bare_port *port, struct ibv_qp *qp, struct bare_end *end)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = port->number, .qp_access_flags = ACCESS,
	};

	end->qp_num = qp->qp_num;
	end->psn = (qp->qp_num * 2654435761u) >> 8;
	end->gid = port->gid;
	end->lid = port->lid;
	return -ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_ACCESS_FLAGS);
}

struct ibv_qp *bare_create(const struct bare_port *port, struct ibv_pd *pd,
			   struct ibv_cq *cq, struct bare_end *end)
{
	struct ibv_qp_init_attr init = bare_init_attr(cq);
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (qp && bare_init(port, qp, end) < 0) {
		ibv_destroy_qp(qp);
		return NULL;
	}
	return qp;
}

int bare_connect(const struct bare_port *port, struct ibv_qp *qp, const struct bare_end *own,
		 const struct bare_end *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = port->mtu, .dest_qp_num = peer->qp_num,
		.rq_psn = peer->psn, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .dlid = peer->lid, .port_num = port->number,
			     .is_global = port->link_layer == IBV_LINK_LAYER_ETHERNET,
			     .grh = { .dgid = peer->gid, .hop_limit = 64,
				      .sgid_index = (uint8_t)port->gid_index } },
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
	};
	int err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				IBV_QP_MIN_RNR_TIMER);

	if (err)
		return -err;
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = own->psn;
	return -ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}
