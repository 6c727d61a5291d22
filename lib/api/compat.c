/* SPDX-License-Identifier: MIT */
/*
 * compat.c - the original Hartebeest's C functions
 *
 * Owns nothing: default.c has their context, remote.c the remote objects that they return, and
 * replaced.c the peers that restart.  Uses hartebeest.h, tools of base/ and the options of the
 * context, and core/ for what only this interface does: its own limits, and one name space of keys.
 *
 * Threads: as for the native functions, but init and exit belong to one thread.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/hartebeest-c.h"
#include "include/hartebeest-post.h"
#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/api/default.h"
#include "lib/api/remote.h"
#include "lib/api/replaced.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/core/bringup.h"
#include "lib/core/context.h"
#include "lib/core/handshake.h"
#include "lib/rendezvous/message.h"
#include "lib/verbs/objects.h"

/* ------------------------------------------------------------- context --- */

/* Looks in the environment first; a launcher or a file may have given the rest. */
HARTEBEEST_EXPORT char *hartebeest_get_sysvar(const char *name)
{
	static struct {
		const char *name;
		int (*number)(const struct hartebeest_context *hb);
		size_t option;		/* offset of the text, where number is NULL */
		char text[12];
		bool is_missed;
	} variables[] = {
		{ "HARTEBEEST_NID", .number = hartebeest_rank },
		{ "HARTEBEEST_NPARTICIPANTS", .number = hartebeest_size },
		{ "HARTEBEEST_PARTICIPANTS",
		  .option = offsetof(struct beest_options, participants) },
		{ "HARTEBEEST_EXC_IP_PORT", .option = offsetof(struct beest_options, servers) },
	}, *variable = variables, *end = variables + BEEST_COUNT(variables);
	struct hartebeest_context *hb;
	char *text = NULL;
	int ret;

	if (!name || strncmp(name, "HARTEBEEST_", strlen("HARTEBEEST_")) != 0)
		return NULL;
	if (secure_getenv(name))
		return secure_getenv(name);

	while (variable < end && strcmp(name, variable->name))
		variable++;
	hb = variable < end ? hartebeest_default_context() : NULL;
	if (!hb)
		return NULL;

	if (!variable->number) {
		text = *(char **)((char *)&hb->options + variable->option);
		ret = text ? 0 : beest_fail(ENODATA, "%s is not set", name);
	} else {
		ret = variable->number(hb);
		if (ret >= 0)
			snprintf(text = variable->text, sizeof(variable->text), "%d", ret);
	}
	if (!text && !__atomic_exchange_n(&variable->is_missed, true, __ATOMIC_RELAXED))
		beest_default_failed(ret);
	return text;
}

/* ---------------------------------------------------------------- names --- */

/*
 * The original has a namespace for regions and queue pairs in each protection domain, so their
 * names here are "pd/name".  A slash in the first part is escaped, so that names differ when
 * their parts differ.
 */
#define SCOPED_SIZE 600
#define SCOPED(pd, name) scoped_name((char[SCOPED_SIZE]){ 0 }, pd, name)

static const char *scoped_name(char *text, const char *pd, const char *name)
{
	size_t used = 0;

	if (!pd || !name)
		return NULL;		/* the native function refuses it, and names it */

	for (; *pd && used < 256; pd++) {
		if (*pd == '/' || *pd == '%')
			used += (size_t)sprintf(text + used, "%%%02X", *pd);
		else
			text[used++] = *pd;
	}
	snprintf(text + used, SCOPED_SIZE - used, "/%s", name);
	return text;
}

/* ------------------------------------------------------------- messages --- */

/* For functions that talk to servers: also checks whether a peer was replaced. */
static struct hartebeest_context *exchange_context(void)
{
	struct hartebeest_context *hb = hartebeest_default_context();

	if (hb)
		beest_replaced_check();
	return hb;
}

static bool key_is_given(const struct hartebeest_context *hb, const char *function,
			 const char *key)
{
	const void *const arguments[] = { key };

	return hb && beest_call_check(hb, function, "key", arguments, 1) == 0;
}

/* For failures that are normal in programs of the original.  Returns false. */
static bool tell_quietly(const struct hartebeest_context *hb)
{
	beest_log(&hb->log, BEEST_LOG_INFO, "%s", beest_error_text());
	return false;
}

HARTEBEEST_EXPORT bool hartebeest_memc_push_general(const char *key)
{
	struct hartebeest_context *hb = exchange_context();

	return hb && hartebeest_msg_push(hb, key, NULL, 0, 0) == 0;
}

static int64_t message_seen_at;		/* atomic; when a wait for a message succeeded last */

/*
 * Each node deletes its message as soon as it has seen those of the others, so one that paused for
 * long would miss it.  The original does not pause at all, but asks 10 000 times only.
 */
HARTEBEEST_EXPORT bool hartebeest_memc_wait_general(const char *key)
{
	struct hartebeest_context *hb = exchange_context();
	struct beest_limit limit;
	int ret;

	if (!key_is_given(hb, __func__, key))
		return false;
	limit = beest_context_limit(hb);
	limit.steady = true;
	ret = beest_context_need_registry(hb, BEEST_KIND_MESSAGE, key);
	if (ret == 0)
		ret = beest_message_wait(hb->registry, key, NULL, 0, NULL, &limit);
	if (ret == 0)
		__atomic_store_n(&message_seen_at, beest_clock_now(), __ATOMIC_RELAXED);
	return beest_call_waited(hb, &limit, ret) == 0;
}

/*
 * Others may be about to look for the message that this process is going to delete, and nodes do so
 * sooner than with the original.  Counts pauses, about 20 ms in all, since a time may pass while
 * the whole machine is stopped.
 */
#define MESSAGE_RECENT BEEST_SECOND
#define MESSAGE_PAUSES 64

static void message_stay(void)
{
	int64_t seen_at = __atomic_exchange_n(&message_seen_at, 0, __ATOMIC_RELAXED);
	int pauses = beest_clock_left(seen_at + MESSAGE_RECENT) ? MESSAGE_PAUSES : 0;
	struct beest_backoff backoff;

	beest_clock_backoff_start(&backoff, 0);
	while (pauses-- > 0)
		beest_clock_backoff_sleep(&backoff, INT64_MAX);
}

static int key_delete(struct hartebeest_context *hb, const char *key,
		      const struct beest_limit *limit)
{
	int ret = beest_handshake_withdraw(hb, key);

	if (ret != 0)
		return BEEST_MIN(ret, 0);
	message_stay();
	return beest_message_delete(hb->registry, key, limit);
}

/* Nothing to delete is no error: programs of the original delete to make sure. */
HARTEBEEST_EXPORT bool hartebeest_memc_del_general(const char *key)
{
	struct hartebeest_context *hb = exchange_context();
	struct beest_limit limit;
	int ret;

	if (!key_is_given(hb, __func__, key))
		return false;
	limit = beest_context_limit(hb);
	ret = key_delete(hb, key, &limit);
	return ret != -ENOENT ? beest_call_done(hb, ret) == 0 : tell_quietly(hb);
}

/* ---------------------------------------------------- local resources --- */

/* Programs of the original make a queue for sends and one for receives, of the same name. */
static bool is_new(struct hartebeest_context *hb, const struct beest_kind *kind, const char *name)
{
	return hb && (beest_table_name_available(&hb->objects, kind, name) != -EEXIST ||
		      tell_quietly(hb));
}

HARTEBEEST_EXPORT bool hartebeest_create_local_pd(const char *pd)
{
	struct hartebeest_context *hb = hartebeest_default_context();

	return is_new(hb, &beest_pd_kind, pd) && hartebeest_pd_create(hb, pd, NULL) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_create_local_mr(const char *pd, const char *mr,
						  size_t length, int access)
{
	struct hartebeest_context *hb = hartebeest_default_context();
	const char *name = SCOPED(pd, mr);
	struct hartebeest_mr_attr attr;

	hartebeest_mr_attr_init(&attr);
	attr.pd = pd;
	attr.length = length;
	attr.access = access;
	return is_new(hb, &beest_mr_kind, name) &&
	       hartebeest_mr_create(hb, name, &attr, NULL) == 0;
}

/*
 * Room for all that a queue pair may have under way, even if cq_attr.cq_depth is less: the
 * original's own files give less, and its programs use one queue for sends and receives.
 */
static uint32_t queue_depth(const struct beest_options *options)
{
	const struct beest_qp_options *qp = &options->qp[BEEST_RC];

	return (uint32_t)BEEST_MAX(options->cq_depth, qp->max_send_wr + qp->max_recv_wr);
}

HARTEBEEST_EXPORT bool hartebeest_create_basiccq(const char *cq)
{
	struct hartebeest_context *hb = hartebeest_default_context();

	struct hartebeest_cq_attr attr;

	if (!is_new(hb, &beest_cq_kind, cq))
		return false;
	hartebeest_cq_attr_init(&attr);
	attr.depth = queue_depth(&hb->options);
	return hartebeest_cq_create(hb, cq, &attr, NULL) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_create_local_qp(const char *pd, const char *qp,
						  enum ibv_qp_type type, const char *send_cq,
						  const char *recv_cq)
{
	struct hartebeest_context *hb = hartebeest_default_context();
	const char *name = SCOPED(pd, qp);
	struct hartebeest_qp_attr attr;

	hartebeest_qp_attr_init(&attr);
	attr.pd = pd;
	attr.send_cq = send_cq;
	attr.recv_cq = recv_cq;
	attr.type = type;
	return is_new(hb, &beest_qp_kind, name) &&
	       hartebeest_qp_create(hb, name, &attr, NULL) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_init_local_qp(const char *pd, const char *qp)
{
	struct hartebeest_context *hb = hartebeest_default_context();

	return hb && hartebeest_qp_init(hb, SCOPED(pd, qp)) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_connect_local_qp(const char *pd, const char *qp,
						   const char *remote_key)
{
	struct hartebeest_context *hb = exchange_context();
	const char *name = SCOPED(pd, qp);
	struct ibv_qp *found;

	if (!hb)
		return false;

	/* The check may have connected to the new peer already. */
	if (name && remote_key && beest_replaced_again(name, remote_key))
		return true;
	if (hartebeest_qp_connect(hb, name, remote_key, 0) < 0)
		return false;

	/* A datagram queue pair has no single peer to follow. */
	if (hartebeest_qp_get(hb, name, &found) == 0 && found->qp_type != IBV_QPT_UD)
		beest_replaced_add(name, remote_key, found);
	return true;
}

HARTEBEEST_EXPORT struct ibv_pd *hartebeest_get_local_pd(const char *pd)
{
	struct hartebeest_context *hb = hartebeest_default_context();
	struct ibv_pd *found;

	return hb && hartebeest_pd_get(hb, pd, &found) == 0 ? found : NULL;
}

HARTEBEEST_EXPORT struct ibv_mr *hartebeest_get_local_mr(const char *pd, const char *mr)
{
	struct hartebeest_context *hb = hartebeest_default_context();
	struct ibv_mr *found;

	return hb && hartebeest_mr_get(hb, SCOPED(pd, mr), &found) == 0 ? found : NULL;
}

HARTEBEEST_EXPORT struct ibv_qp *hartebeest_get_local_qp(const char *pd, const char *qp)
{
	struct hartebeest_context *hb = hartebeest_default_context();
	struct ibv_qp *found;

	return hb && hartebeest_qp_get(hb, SCOPED(pd, qp), &found) == 0 ? found : NULL;
}

/* ------------------------------------------------------------- exchange --- */

HARTEBEEST_EXPORT bool hartebeest_memc_push_local_mr(const char *memc_key, const char *pd,
						     const char *mr)
{
	struct hartebeest_context *hb = exchange_context();

	return hb && hartebeest_mr_publish(hb, SCOPED(pd, mr), memc_key, 0) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_memc_push_local_qp(const char *memc_key, const char *pd,
						     const char *qp)
{
	struct hartebeest_context *hb = exchange_context();

	return hb && hartebeest_qp_publish(hb, SCOPED(pd, qp), memc_key, 0) == 0;
}

/* The original's fetches never end, so its programs use the result without testing for it. */
static struct beest_limit fetch_limit(const struct hartebeest_context *hb)
{
	int64_t most = hb->options.fetch_timeout ? hb->options.fetch_timeout : INT64_MAX;
	struct beest_limit limit;

	beest_limit_start(&limit, &hb->cancel, beest_clock_deadline(most), 0);
	limit.tells = true;
	return limit;
}

HARTEBEEST_EXPORT bool hartebeest_memc_fetch_remote_mr(const char *memc_key)
{
	struct hartebeest_context *hb = exchange_context();
	struct hartebeest_remote_mr mr;
	struct beest_limit limit;
	int ret;

	if (!key_is_given(hb, __func__, memc_key))
		return false;
	limit = fetch_limit(hb);
	ret = beest_handshake_mr_fetch(hb, memc_key, &mr, &limit);
	return beest_call_waited(hb, &limit, ret) == 0 && beest_remote_keep_mr(memc_key, &mr);
}

HARTEBEEST_EXPORT bool hartebeest_memc_fetch_remote_qp(const char *memc_key)
{
	struct hartebeest_context *hb = exchange_context();
	struct hartebeest_remote_qp qp;
	struct beest_limit limit;
	int ret;

	if (!key_is_given(hb, __func__, memc_key))
		return false;
	limit = fetch_limit(hb);
	ret = beest_bringup_fetch(hb, memc_key, &qp, &limit);
	return beest_call_waited(hb, &limit, ret) == 0 && beest_remote_keep_qp(memc_key, &qp);
}

/* ------------------------------------------------------------ data path --- */

/* Refuses NULL and the result of hartebeest_get_remote_qp(), which only looks like a queue pair. */
static int fail_queue_pair(void)
{
	hartebeest_default_context();	/* sets the log level */
	return beest_fail(EINVAL, "the queue pair does not belong to this process");
}

/* The original sets the RDMA fields only, which atomics and datagrams would misread. */
static int check_request(const struct ibv_qp *qp, size_t length, enum ibv_wr_opcode opcode)
{
	if (!qp || !qp->context)
		return fail_queue_pair();
	if (length > UINT32_MAX)
		return beest_fail(EMSGSIZE, "a request of %zu bytes is more than one work "
				  "request can carry", length);
	if (opcode > IBV_WR_RDMA_READ)
		return beest_fail(EOPNOTSUPP, "work request opcode %d is not a write, read or "
				  "send: see hartebeest-post.h for the others", opcode);
	if (qp->qp_type == IBV_QPT_UD)
		return beest_fail(EOPNOTSUPP, "QP %" PRIu32 " is UD, and a datagram needs an "
				  "address: see hartebeest_post_send_ud()", qp->qp_num);
	return 0;
}

static bool post_request(struct ibv_qp *qp, void *local, void *remote, size_t length,
			 enum ibv_wr_opcode opcode, uint32_t lkey, uint32_t rkey, uint64_t wr_id,
			 unsigned int flags)
{
	struct ibv_send_wr wr;
	int ret;

	ret = check_request(qp, length, opcode);
	if (ret < 0)
		return !beest_default_failed(ret);
	if (beest_replaced_is_suspected())
		exchange_context();

	wr.wr_id = wr_id;
	wr.opcode = opcode;
	wr.send_flags = flags;
	wr.imm_data = 0;
	wr.wr.rdma.remote_addr = (uintptr_t)remote;
	wr.wr.rdma.rkey = rkey;
	ret = hartebeest_post_wr(qp, &wr, local, (uint32_t)length, lkey);
	if (ret < 0)
		beest_fail(-ret, "posting %zu bytes to QP %" PRIu32 " failed: %s%s", length,
			   qp->qp_num, strerror(-ret), flags & IBV_SEND_INLINE ?
			   " (too long to be sent inline?)" : "");
	return ret == 0 || !beest_default_failed(ret);
}

HARTEBEEST_EXPORT bool
hartebeest_rdma_post_single_fast(struct ibv_qp *qp, void *local, void *remote, size_t length,
				 enum ibv_wr_opcode opcode, uint32_t lkey, uint32_t rkey,
				 uint64_t wr_id)
{
	return post_request(qp, local, remote, length, opcode, lkey, rkey, wr_id,
			    IBV_SEND_SIGNALED);
}

HARTEBEEST_EXPORT bool
hartebeest_rdma_post_single_signaled_inline(struct ibv_qp *qp, void *local, void *remote,
					    size_t length, enum ibv_wr_opcode opcode,
					    uint32_t lkey, uint32_t rkey, uint64_t wr_id)
{
	return post_request(qp, local, remote, length, opcode, lkey, rkey, wr_id,
			    IBV_SEND_SIGNALED | IBV_SEND_INLINE);
}

/* Checks once a second whether a completion can still arrive. */
static int poll_patiently(struct ibv_cq *cq, struct ibv_wc *wc)
{
	int64_t start = hartebeest_clock(), now = start, deadline = INT64_MAX;
	struct hartebeest_context *hb = hartebeest_default_context();
	int ret;

	if (hb && hb->options.poll_timeout)
		deadline = start + hb->options.poll_timeout;

	do {
		ret = hartebeest_poll_until(cq, 1, wc, BEEST_MIN(deadline, now + BEEST_SECOND));
		if (ret != -ETIMEDOUT)
			return ret;
		beest_replaced_check();
		if (beest_replaced_polled(cq, start) < 0)
			return -ECONNRESET;
		beest_replaced_tell(cq);
		now = hartebeest_clock();
	} while (now < deadline);
	return ret;
}

static bool poll_one(struct ibv_cq *cq)
{
	char text[768] = "";
	struct ibv_wc wc;
	int ret;

	ret = hartebeest_poll(cq, 1, &wc);
	if (ret == 0)
		ret = poll_patiently(cq, &wc);
	if (ret < 0 && ret != -ECONNRESET)
		beest_fail(-ret, "no completion arrived: %s%s", strerror(-ret),
			   ret == -ETIMEDOUT ? " (option poll.timeout)" : "");
	if (ret < 0)
		return !beest_default_failed(ret);
	if (wc.status == IBV_WC_SUCCESS)
		return true;

	hartebeest_completion_text(hartebeest_default_context(), &wc, text, sizeof(text));
	beest_replaced_suspect();
	return !beest_default_failed(beest_fail(EIO, "%s", text));
}

HARTEBEEST_EXPORT bool hartebeest_rdma_poll(const char *cq)
{
	struct hartebeest_context *hb = hartebeest_default_context();
	struct ibv_cq *found;

	return hb && hartebeest_cq_get(hb, cq, &found) == 0 && poll_one(found);
}

HARTEBEEST_EXPORT bool hartebeest_rdma_send_poll(struct ibv_qp *qp)
{
	return qp && qp->send_cq ? poll_one(qp->send_cq) : !beest_default_failed(fail_queue_pair());
}

HARTEBEEST_EXPORT bool hartebeest_rdma_recv_poll(struct ibv_qp *qp)
{
	return qp && qp->recv_cq ? poll_one(qp->recv_cq) : !beest_default_failed(fail_queue_pair());
}
