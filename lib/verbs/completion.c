/* SPDX-License-Identifier: MIT */
/* completion.c - see completion.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/verbs/completion.h"
#include "lib/verbs/source.h"

static const char *const meanings[] = {
	[IBV_WC_SUCCESS] = "done",
	[IBV_WC_LOC_LEN_ERR] = "the message is longer than the receive buffer or the path MTU "
		"allows",
	[IBV_WC_LOC_QP_OP_ERR] = "bad local request: check lkey, length and flags, whether a "
		"receive is as long as the message, whether the link is up, and the type: UC and "
		"UD have no reads and atomics",
	[IBV_WC_LOC_PROT_ERR] = "the lkey does not cover the local buffer, or its region lacks "
		"IBV_ACCESS_LOCAL_WRITE, which receives, reads and atomics need",
	[IBV_WC_WR_FLUSH_ERR] = "dropped, because an earlier request failed, or one of the peer "
		"that this end refused; look for the first failure at both ends",
	[IBV_WC_REM_INV_REQ_ERR] = "the peer refuses the request: its queue pair's access flags "
		"(qp_attr.access_flags) forbid it, it is longer than the receive, an atomic's "
		"address is no multiple of 8, or the path MTU differs",
	[IBV_WC_REM_ACCESS_ERR] = "the peer's rkey does not cover this address and length, or "
		"lacks the access flag",
	[IBV_WC_REM_OP_ERR] = "the peer could not complete it: its receive buffer is too small, "
		"or its queue pair failed",
	[IBV_WC_RETRY_EXC_ERR] = "the peer does not answer: it is gone, its queue pair is not "
		"in RTR, the path is broken, or it has no receive posted (some devices count that, "
		"too)",
	[IBV_WC_RNR_RETRY_EXC_ERR] = "the peer has no receive posted",
};

static const char *status_meaning(enum ibv_wc_status status)
{
	return (size_t)status < BEEST_COUNT(meanings) && meanings[status] ? meanings[status] :
	       ibv_wc_status_str(status);
}

/* A UD queue pair has many peers, and gets no acknowledgements: no peer is to blame. */
static bool completion_has_peer(const struct beest_qp *qp)
{
	return qp->peer_key[0] && qp->local.transport != BEEST_UD;
}

static void completion_ends_text(const struct beest_qp *qp, char *text, size_t size)
{
	if (!qp)
		snprintf(text, size, "a queue pair unknown to this context");
	else if (!completion_has_peer(qp))
		snprintf(text, size, "%s '%s' on %s", qp->node.kind->noun, qp->node.name,
			 qp->local.label);
	else
		snprintf(text, size, "%s '%s' on %s, connected to '%s' (QP %" PRIu32 " of %s)",
			 qp->node.kind->noun, qp->node.name, qp->local.label, qp->peer_key,
			 qp->remote.qp_num, BEEST_PEER_TEXT(&qp->remote));
}

/*
 * An end that lost its address sends nothing or gets no answer: it looks like the peer's
 * fault.
 */
static bool own_end_is_lost(const struct beest_qp *qp, enum ibv_wc_status status)
{
	bool peer_is_blamed = status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_LOC_QP_OP_ERR ||
			      status == IBV_WC_RESP_TIMEOUT_ERR;

	return peer_is_blamed && qp && qp->port && qp->source.roce &&
	       !beest_source_holds(qp->device, &qp->source);
}

bool beest_completion_is_unanswered(const struct beest_qp *qp, const struct ibv_wc *wc)
{
	return qp && completion_has_peer(qp) &&
	       (wc->status == IBV_WC_RETRY_EXC_ERR || wc->status == IBV_WC_RESP_TIMEOUT_ERR);
}

/* Packets to such a peer go to this end itself. */
static bool peer_has_own_address(const struct beest_qp *qp, const struct ibv_wc *wc)
{
	return beest_completion_is_unanswered(qp, wc) && qp->port &&
	       memcmp(&qp->remote.gid, &qp->local.endpoint.gid, sizeof(qp->remote.gid)) == 0 &&
	       qp->remote.lid == qp->local.endpoint.lid &&
	       !beest_process_is_here(&qp->remote.incarnation);
}

void beest_completion_text(const struct beest_qp *qp, const struct ibv_wc *wc, char *text,
			   size_t size)
{
	const bool lost = own_end_is_lost(qp, wc->status);
	char ends[768];		/* two names of 255 bytes, a device, a rank */

	completion_ends_text(qp, ends, sizeof(ends));
	snprintf(text, size, "%s (status %d, vendor error 0x%x): %s; request %" PRIu64
		 " of %s%s%s%s", ibv_wc_status_str(wc->status), wc->status, wc->vendor_err,
		 status_meaning(wc->status), wc->wr_id, ends, lost ? "; but the address of this "
		 "end is gone from the GID table, or has moved in it" : "",
		 lost && qp->node.kind == &beest_qp_kind ?
		 ": hartebeest_qp_reconnect() looks for it again" : "",
		 peer_has_own_address(qp, wc) ? "; and the peer, on another host or in another "
		 "container, has the address of this end: two machines with one address, such as "
		 "clones?" : "");
}
