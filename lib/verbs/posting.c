/* SPDX-License-Identifier: MIT */
/* posting.c - see posting.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/verbs/posting.h"

struct posting {
	const struct beest_qp *named;
	struct ibv_qp *qp;
	const struct ibv_send_wr *wr;
	int err;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	uint64_t length;
};

/* It connects, but a device may let such requests wait for ever. */
#define NO_READS "this queue pair may have no reads and atomics under way " \
	"(qp_attr.max_rd_atomic and its device here, qp_attr.max_dest_rd_atomic and its device " \
	"at the peer)"

#define RC 1
#define UC 2
#define UD 4

static const struct opcode {
	const char *noun;
	unsigned int types;		/* of queue pairs that can carry it */
} opcodes[] = {
	[IBV_WR_RDMA_WRITE] = { "write", RC | UC },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { "write with immediate", RC | UC },
	[IBV_WR_SEND] = { "send", RC | UC | UD },
	[IBV_WR_SEND_WITH_IMM] = { "send with immediate", RC | UC | UD },
	[IBV_WR_RDMA_READ] = { "read", RC },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { "compare-and-swap", RC },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { "fetch-and-add", RC },
};

static const char *const states[] = {
	[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
	[IBV_QPS_RTS] = "RTS", [IBV_QPS_SQD] = "SQD", [IBV_QPS_SQE] = "SQE",
	[IBV_QPS_ERR] = "ERR",
};

static unsigned int type_bit(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC ? RC : type == IBV_QPT_UC ? UC : type == IBV_QPT_UD ? UD : 0;
}

/* NULL: there is no request, or it has an unknown opcode. */
static const struct opcode *opcode_of(const struct ibv_send_wr *wr)
{
	return wr && (size_t)wr->opcode < BEEST_COUNT(opcodes) ? &opcodes[wr->opcode] : NULL;
}

static bool qp_is_mesh(const struct beest_qp *named)
{
	return named->node.kind != &beest_qp_kind;
}

static void qp_say(const struct posting *p, struct beest_text *text)
{
	if (!p->named)
		beest_text_add(text, "queue pair (");
	else
		beest_text_add(text, "%s '%s' (", p->named->node.kind->noun, p->named->node.name);
	if (p->named && qp_is_mesh(p->named) && p->named->peer_key[0])
		beest_text_add(text, "to %s, ", p->named->peer_key);
	beest_text_add(text, "QP %" PRIu32 ", %s)", p->qp->qp_num,
		       beest_transition_type_text(p->qp->qp_type));
}

static void what_say(const struct posting *p, struct beest_text *text)
{
	const struct opcode *opcode = opcode_of(p->wr);

	beest_text_add(text, " did not accept a ");
	if (opcode)
		beest_text_add(text, "%s of %" PRIu64 " bytes: ", opcode->noun, p->length);
	else if (p->wr)
		beest_text_add(text, "request of opcode %d: ", p->wr->opcode);
	else
		beest_text_add(text, "request: ");
}

/* How to revive a queue pair; "" for one that only the program knows. */
static const char *revival_of(const struct beest_qp *named)
{
	return !named ? "" : qp_is_mesh(named) ? ": hartebeest_mesh_repair() brings it back when "
	       "that rank was started again" : ": hartebeest_qp_reconnect() brings it back";
}

/* Adds what the state forbids.  False: nothing. */
static bool state_say(const struct posting *p, struct beest_text *text)
{
	enum ibv_qp_state state = p->attr.qp_state;
	/* INIT and RTR refuse only send requests for their state. */
	bool sends = p->wr || (state != IBV_QPS_RESET && p->err == EINVAL);

	if ((sends && state < IBV_QPS_RTS) || state == IBV_QPS_RESET)
		beest_text_add(text, "it is in the state %s, and takes %s", states[state], sends ?
			       "send requests from RTS on: hartebeest_qp_connect() or "
			       "hartebeest_pairs_connect() first" :
			       "receives from INIT on (hartebeest_qp_init()), send requests from "
			       "RTS on (hartebeest_qp_connect())");
	else if (state == IBV_QPS_SQE || state == IBV_QPS_ERR)
		beest_text_add(text, "it is in the state %s after a failure, which a completion "
			       "reports%s", states[state], revival_of(p->named));
	else
		return false;
	return true;
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Adds why no queue pair of this type or size can carry the request.  False: one can. */
static bool request_say(const struct posting *p, struct beest_text *text)
{
	const struct ibv_qp_cap *cap = &p->attr.cap;
	const struct opcode *opcode = opcode_of(p->wr);
	unsigned int type = type_bit(p->qp->qp_type);

	if (opcode && type && !(opcode->types & type))
		beest_text_add(text, "a queue pair of this type cannot do that");
	else if (type == UD && !p->wr->wr.ud.ah)
		beest_text_add(text, "a UD request needs the address handle of its peer: "
			       "hartebeest_qp_ud_address()");
	else if (p->wr->num_sge > 0 && (uint32_t)p->wr->num_sge > cap->max_send_sge)
		beest_text_add(text, "it has %d elements, but the queue pair takes at most %"
			       PRIu32 " (qp_init_attr.cap.max_send_sge)", p->wr->num_sge,
			       cap->max_send_sge);
	else if (p->wr->send_flags & IBV_SEND_INLINE && p->length > cap->max_inline_data)
		beest_text_add(text, "it is to be sent inline, but the queue pair sends at most %"
			       PRIu32 " bytes inline (qp_init_attr.cap.max_inline_data)",
			       cap->max_inline_data);
	else if (is_atomic(p->wr->opcode) && p->wr->wr.atomic.remote_addr % sizeof(uint64_t))
		beest_text_add(text,
			       "an atomic needs a remote address that is a multiple of 8, which 0x%"
			       PRIx64 " is not", p->wr->wr.atomic.remote_addr);
	else if (type == UD && p->named && p->named->local.endpoint.mtu &&
		 p->length > (uint64_t)beest_transition_mtu_bytes(p->named->local.endpoint.mtu))
		beest_text_add(text, "a UD message can have at most %d bytes, the path MTU",
			       beest_transition_mtu_bytes(p->named->local.endpoint.mtu));
	else if (type == RC && (is_atomic(p->wr->opcode) || p->wr->opcode == IBV_WR_RDMA_READ) &&
		 p->attr.max_rd_atomic == 0)
		beest_text_add(text, NO_READS);
	else
		return false;
	return true;
}

static void errno_say(const struct posting *p, struct beest_text *text)
{
	if (p->err == ENOMEM && p->wr)
		beest_text_add(text, "its send queue is full (%" PRIu32 " requests, "
			       "qp_init_attr.cap.max_send_wr): take completions, and ask for one "
			       "by IBV_SEND_SIGNALED now and then", p->attr.cap.max_send_wr);
	else if (p->err == ENOMEM)
		beest_text_add(text, "its queue is full (%" PRIu32 " send requests, %" PRIu32
			       " receives): take completions, and post receives only "
			       "as messages arrive; a queue of 0 needs more room "
			       "(qp_init_attr.cap)", p->attr.cap.max_send_wr,
			       p->attr.cap.max_recv_wr);
	else if (p->err == EINVAL && !p->wr)
		beest_text_add(text, "the device refuses it; it sends at most %" PRIu32 " bytes "
			       "inline, and takes at most %" PRIu32 " elements in a send request "
			       "and %" PRIu32 " in a receive (qp_init_attr.cap); an atomic needs "
			       "RC and a remote address that is a multiple of 8",
			       p->attr.cap.max_inline_data, p->attr.cap.max_send_sge,
			       p->attr.cap.max_recv_sge);
	else
		beest_text_add(text, "the device refuses it");
}

/* ---------------------------------------------------------- nothing completed --- */

/* A completion queue that is too small loses completions without a word. */
static void depth_say(const struct posting *p, const struct ibv_cq *cq, struct beest_text *text)
{
	uint64_t most = cq == p->qp->send_cq ? p->attr.cap.max_send_wr : 0;

	if (cq == p->qp->recv_cq && !p->qp->srq)
		most += p->attr.cap.max_recv_wr;
	if (cq->cqe > 0 && most > (uint64_t)cq->cqe)
		beest_text_item(text, "it may have %" PRIu64 " requests under way, but its "
				"completion queue has %d entr%s, so completions may be lost",
				most, cq->cqe, cq->cqe == 1 ? "y" : "ies");
}

/* The library cannot know what the program has posted, so names the usual reasons. */
static void silence_say(const struct posting *p, bool asked, struct beest_text *text)
{
	enum ibv_qp_state state = asked ? p->attr.qp_state : IBV_QPS_RTS;
	bool signalled = (asked && p->init.sq_sig_all) ||
			 (p->wr && p->wr->send_flags & IBV_SEND_SIGNALED);

	if (state < IBV_QPS_RTS)
		beest_text_item(text, "it is in the state %s and sends nothing before RTS: "
				"hartebeest_qp_connect() or hartebeest_pairs_connect() first",
				states[state]);
	else if (state == IBV_QPS_SQE || state == IBV_QPS_ERR)
		beest_text_item(text, "it is in the state %s after a failure, which an earlier "
				"completion reported%s", states[state], revival_of(p->named));
	if (asked)
		depth_say(p, p->qp->send_cq, text);
	if (asked && p->qp->recv_cq != p->qp->send_cq)
		depth_say(p, p->qp->recv_cq, text);
	if (p->wr && !signalled)
		beest_text_item(text, "the request was posted without IBV_SEND_SIGNALED");
	else if (!signalled)
		beest_text_item(text, "a send request completes only with IBV_SEND_SIGNALED, and "
				"in the send_cq");
	beest_text_item(text, "a receive must be posted here before a message completes, and at "
			"the peer before a send does");
	if (asked && state == IBV_QPS_RTS && type_bit(p->qp->qp_type) == RC &&
	    p->attr.max_rd_atomic == 0)
		beest_text_item(text, NO_READS);
	if (asked && type_bit(p->qp->qp_type) == RC)
		beest_text_item(text, "Soft-RoCE never notices that a peer is gone while "
				"qp_attr.retry_cnt is 7");
}

int beest_posting_text(const struct beest_qp *named, struct ibv_qp *qp,
		       const struct ibv_send_wr *wr, int err, char *text, size_t size)
{
	struct posting p = { .named = named, .qp = qp, .wr = wr, .err = err };
	struct beest_text says = BEEST_TEXT(BEEST_ERROR_SIZE);
	bool asked;
	int i;

	for (i = 0; wr && i < wr->num_sge; i++)
		p.length += wr->sg_list[i].length;
	asked = ibv_query_qp(qp, &p.attr, IBV_QP_STATE | IBV_QP_CAP |
			     IBV_QP_MAX_QP_RD_ATOMIC, &p.init) == 0;
	qp_say(&p, &says);
	if (err == ETIMEDOUT) {
		beest_text_add(&says, ": nothing completed");
		silence_say(&p, asked, &says);
		return snprintf(text, size, "%s", says.buffer);
	}
	what_say(&p, &says);
	if (!asked || (!state_say(&p, &says) && (!wr || !request_say(&p, &says))))
		errno_say(&p, &says);
	return snprintf(text, size, "%s (%s)", says.buffer, strerror(err));
}
