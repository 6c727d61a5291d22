/* SPDX-License-Identifier: MIT */
/* link.c - see link.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "lib/verbs/newer.h"
#include "tools/link.h"
#include "tools/ports.h"

/* How long to wait for a completion or an echo.  What UC and UD lose does not arrive later. */
#define PATIENCE (5 * BEEST_SECOND)
#define PATIENCE_LOSSY BEEST_SECOND

/* The names of all objects. */
#define NAME LINK_NAME
#define NAME_RECV "ping receives"

/* --------------------------------------------------------------- steps --- */

static int refill(void *data, struct ibv_qp *qp)
{
	const struct link *link = data;

	return plan_is_echo(link->pinger.plan) ? pinger_refill(&link->pinger, qp) : 0;
}

static int create_queues(struct link *link)
{
	struct hartebeest_cq_attr cq_attr;
	uint32_t window = (uint32_t)pinger_window(link->pinger.plan);
	int ret;

	hartebeest_cq_attr_init(&cq_attr);
	cq_attr.depth = window + 1;
	ret = hartebeest_cq_create(link->hb, NAME, &cq_attr, &link->pinger.send_cq);
	cq_attr.depth = window;
	if (ret == 0)
		ret = hartebeest_cq_create(link->hb, NAME_RECV, &cq_attr, &link->pinger.recv_cq);
	return ret;
}

static int create_qp(struct link *link)
{
	struct hartebeest_qp_attr attr;

	hartebeest_qp_attr_init(&attr);
	attr.pd = NAME;
	attr.send_cq = NAME;
	attr.recv_cq = NAME_RECV;
	attr.type = (enum ibv_qp_type)link->pinger.plan->type;
	attr.cap.max_send_wr = (uint32_t)pinger_window(link->pinger.plan) + 1;
	attr.cap.max_recv_wr = (uint32_t)pinger_window(link->pinger.plan);
	return hartebeest_qp_create(link->hb, NAME, &attr, &link->pinger.qp);
}

static int create(struct link *link, int64_t deadline)
{
	struct hartebeest_mr_attr mr_attr;
	int ret, access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_READ;

	(void)deadline;
	if (link->pinger.plan->op >= PLAN_FETCH_ADD)
		access |= IBV_ACCESS_REMOTE_ATOMIC;
	ret = hartebeest_pd_create(link->hb, NAME, NULL);
	if (ret == 0)
		ret = create_queues(link);
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = NAME;
	mr_attr.length = pinger_bytes(link->pinger.plan);
	mr_attr.access = access;
	if (ret == 0)
		ret = hartebeest_mr_create(link->hb, NAME, &mr_attr, &link->pinger.mr);
	if (ret == 0)
		ret = create_qp(link);
	if (ret == 0)
		ret = hartebeest_qp_refill_set(link->hb, NAME, refill, link);
	if (ret == 0)
		ret = hartebeest_qp_init(link->hb, NAME);
	if (ret == 0)
		snprintf(link->note, sizeof(link->note),
			 "QP %" PRIu32 " in INIT, %zu bytes registered",
			 link->pinger.qp->qp_num, link->pinger.mr->length);
	return ret;
}

static int publish(struct link *link, int64_t deadline)
{
	int ret = hartebeest_mr_publish(link->hb, NAME, link->meeting->key, deadline);

	snprintf(link->note, sizeof(link->note), "as %s", link->meeting->key);
	return ret < 0 ? ret : hartebeest_qp_publish(link->hb, NAME, link->meeting->key, deadline);
}

static int fetch(struct link *link, int64_t deadline)
{
	int ret;

	ret = hartebeest_qp_fetch(link->hb, link->meeting->peer_key, &link->peer, deadline);
	if (ret < 0)
		return ret;
	hartebeest_peer_text(link->hb, link->meeting->peer_key, link->who, sizeof(link->who),
			     HARTEBEEST_ONCE);
	snprintf(link->note, sizeof(link->note), "queue pair %" PRIu32 " of %s", link->peer.qp_num,
		 link->who);
	return 0;
}

/* The options that both adapters have, as the device has taken them in RTR. */
static void options_note(struct link *link)
{
	const struct beest_ece used = beest_newer_ece_of(link->pinger.qp);
	size_t length = strlen(link->note);

	if (used.vendor && link->peer.ece_vendor)
		snprintf(link->note + length, sizeof(link->note) - length,
			 ", ECE options 0x%" PRIx32 " of both (the peer has 0x%" PRIx32
			 " of vendor 0x%" PRIx32 ")", used.options, link->peer.ece_options,
			 link->peer.ece_vendor);
}

static int connect_qp(struct link *link, int64_t deadline)
{
	int ret = hartebeest_qp_connect(link->hb, NAME, link->meeting->peer_key, deadline);

	if (ret == 0 && link->pinger.plan->type == IBV_QPT_UD)
		ret = hartebeest_qp_ud_address(link->hb, NAME, link->meeting->peer_key,
					    &link->pinger.address);
	snprintf(link->note, sizeof(link->note), "RTR, RTS");
	if (ret == 0)
		options_note(link);
	return ret;
}

/* Goes before the fetch of the region, which might find an earlier process's. */
static int confirm(struct link *link, int64_t deadline)
{
	if (link->pinger.plan->type == IBV_QPT_UD) {
		snprintf(link->note, sizeof(link->note), "datagrams have no connection");
		return 0;
	}
	snprintf(link->note, sizeof(link->note), "the other end is connected to this one");
	return hartebeest_qp_confirm(link->hb, NAME, link->meeting->peer_key, deadline);
}

static int fetch_region(struct link *link, int64_t deadline)
{
	int ret = hartebeest_mr_fetch(link->hb, link->meeting->peer_key, &link->pinger.there,
				      deadline);

	if (ret == 0)
		snprintf(link->note, sizeof(link->note), "rkey 0x%" PRIx32 ", %" PRIu64 " bytes",
			 link->pinger.there.rkey, link->pinger.there.length);
	return ret;
}

static const struct link_step {
	const char *name;
	int (*take)(struct link *link, int64_t deadline);
	const char *cure;
} link_steps[] = {
	{ "queue pair", create, "'hartebeest doctor' looks at limits and permissions" },
	{ "publish", publish, "'hartebeest doctor' looks at the servers" },
	{ "fetch", fetch, "the other end did not get as far as 'publish': see what it says" },
	{ "connect", connect_qp, "'hartebeest info' at both ends: link layer, RoCE version, P_Key "
	  "and MTU must match" },
	{ "confirm", confirm, "the other end did not get past 'connect': see what it says" },
	{ "region", fetch_region, "the other end has left: see what it says" },
};

/* A step may be taken again after it timed out. */
static int take_step(struct link *link, const struct link_step *step, int64_t deadline,
		     int64_t wait, bool (*goes_on)(void *data), void *data)
{
	int ret;

	do
		ret = step->take(link, deadline == INT64_MAX ? hartebeest_clock() + wait :
				 deadline);
	while (ret == -ETIMEDOUT && deadline == INT64_MAX && goes_on(data));
	return ret;
}

int link_up(struct link *link, struct steps *steps, int64_t deadline, int64_t wait,
	    bool (*goes_on)(void *data), void *data)
{
	size_t i;
	int ret;

	snprintf(link->who, sizeof(link->who), "%s", link->meeting->who);
	memset(&link->pinger, 0, sizeof(link->pinger));
	link->pinger.hb = link->hb;
	link->pinger.plan = &link->meeting->plan;
	link->pinger.patience = link->meeting->plan.type == IBV_QPT_RC ? PATIENCE : PATIENCE_LOSSY;
	for (i = 0; i < BEEST_COUNT(link_steps); i++) {
		link->note[0] = '\0';
		steps_begin(steps, link_steps[i].name);
		out_waiting(steps->out, "%s: waiting for %s", link_steps[i].name, link->who);
		ret = take_step(link, &link_steps[i], deadline, wait, goes_on, data);
		if (ret < 0) {
			snprintf(link->note, sizeof(link->note), "%s", hartebeest_error());
			link->cure = link_steps[i].cure;
			return ret;
		}
		steps_good(steps, "%s", link->note);
	}
	return 0;
}

void link_down(struct link *link)
{
	hartebeest_qp_destroy(link->hb, NAME);
	hartebeest_mr_destroy(link->hb, NAME);
	hartebeest_cq_destroy(link->hb, NAME_RECV);
	hartebeest_cq_destroy(link->hb, NAME);
	hartebeest_pd_destroy(link->hb, NAME);
}

uint32_t link_largest(const struct link *link)
{
	struct ibv_port_attr attr;
	int port = hartebeest_port_num(link->hb);

	if (port < 1 || ibv_query_port(link->pinger.qp->context, (uint8_t)port, &attr))
		return 0;
	return link->pinger.plan->type == IBV_QPT_UD ? (uint32_t)ports_mtu(attr.active_mtu)
						     : attr.max_msg_sz;
}
