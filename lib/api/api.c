/* SPDX-License-Identifier: MIT */
/*
 * api.c - every exported function of hartebeest.h
 *
 * Each validates, looks up, delegates.  Owns what all of them share: arguments are
 * checked here, and a failure is logged here, once, as the call returns.  Exceptions:
 * context.c logs the failure of hartebeest_open(), and nobody logs those of ranks, size,
 * job, origin and option_get.  hartebeest.h has the contracts.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "include/hartebeest.h"
#include "lib/verbs/port.h"
#include "lib/verbs/completion.h"
#include "lib/core/context.h"
#include "lib/verbs/cq.h"
#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/rendezvous/barrier.h"
#include "lib/rendezvous/message.h"
#include "lib/verbs/mr.h"
#include "lib/core/bringup.h"
#include "lib/core/pathquery.h"
#include "lib/verbs/pd.h"
#include "lib/verbs/posting.h"
#include "lib/core/handshake.h"
#include "lib/core/pairs.h"
#include "lib/core/service.h"
#include "lib/verbs/qp.h"
#include "lib/verbs/srq.h"

/* What a program asks for wrongly, or what happens to it, whatever the settings are. */
static const int no_settings[] = {
	EAGAIN, EBUSY, ECANCELED, EEXIST, EINVAL, EISCONN, EMSGSIZE, ENOENT, ENOMEM, ENOTCONN,
	EOPNOTSUPP, ERANGE,
};

/* A misspelt variable may be why a wait, a publication or the opening of a device failed. */
static void hint_at_settings(const struct hartebeest_context *hb, int ret)
{
	size_t i = 0;

	while (i < BEEST_COUNT(no_settings) && ret != -no_settings[i])
		i++;
	if (i == BEEST_COUNT(no_settings))
		beest_options_hint(&hb->options, ret);
}

/* Last line of a function: the failure is complete here and nowhere below. */
static int done(const struct hartebeest_context *hb, int ret)
{
	if (ret < 0 && hb)
		hint_at_settings(hb, ret);
	if (ret < 0 && hb)
		beest_log(&hb->log, BEEST_LOG_ERROR, "%s", beest_error_text());
	return ret;
}

/* Of a function that waits: a look that was asked for is no failure to report. */
static int waited(const struct hartebeest_context *hb, const struct beest_limit *limit, int ret)
{
	return limit->once || ret == -ECANCELED ? ret : done(hb, ret);
}

static int refuse_argument(const struct hartebeest_context *hb, const char *function,
			   const char *why)
{
	return done(hb, beest_fail(EINVAL, "%s(): %s", function, why));
}

/* @arguments begin with the context; @names has their names, with commas between. */
static int check_arguments(const char *function, const char *names,
			   const void *const *arguments, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (!arguments[i])
			return done(arguments[0], beest_fail(EINVAL, "%s(): %.*s is NULL", function,
							     (int)strcspn(names, ","), names));
		names += strcspn(names, ",");
		names += strspn(names, ", ");
	}
	return 0;
}

/* First line of a function that takes pointers: the context and those that are needed. */
#define REQUIRE(...)									\
	do {										\
		const void *const arguments_[] = { __VA_ARGS__ };			\
											\
		if (check_arguments(__func__, #__VA_ARGS__, arguments_,			\
				    BEEST_COUNT(arguments_)) < 0)			\
			return -EINVAL;							\
	} while (0)

/* The same of a function that waits until its deadline. */
#define REQUIRE_LIMIT(limit, ...)							\
	do {										\
		REQUIRE(__VA_ARGS__);							\
		if (beest_context_limit(hb, __func__, deadline, limit) < 0)		\
			return done(hb, -EINVAL);						\
	} while (0)

/* A step that the rest of the function needs. */
#define TRY(step)									\
	do {										\
		int try_ = (step);							\
											\
		if (try_ < 0)								\
			return done(hb, try_);						\
	} while (0)

/* Objects by name: what most functions begin with. */
#define DEFINE_FIND(type)								\
	static int find_##type(struct hartebeest_context *hb, const char *name,		\
			       struct beest_##type **object)			\
	{									\
		struct beest_node *node;					\
		int ret;							\
										\
		ret = beest_context_find(hb, &beest_##type##_kind, name, &node);	\
		if (ret < 0)							\
			return ret;						\
										\
		*object = BEEST_CONTAINER(node, struct beest_##type, node);	\
		return 0;							\
	}

DEFINE_FIND(pd)
DEFINE_FIND(cq)
DEFINE_FIND(srq)
DEFINE_FIND(mr)
DEFINE_FIND(qp)

/* ------------------------------------------------------------- context --- */

HARTEBEEST_EXPORT int hartebeest_open(struct hartebeest_context **hbp,
				      const char *const *options)
{
	if (!hbp)
		return refuse_argument(NULL, __func__, "hbp is NULL");
	return beest_context_open(hbp, options);
}

HARTEBEEST_EXPORT int hartebeest_open_verbs(struct hartebeest_context **hbp,
					    const char *const *options,
					    struct ibv_context *verbs, int port)
{
	if (!hbp || !verbs)
		return refuse_argument(NULL, __func__, hbp ? "verbs is NULL" : "hbp is NULL");
	if (port < 0 || port > UINT8_MAX)
		return refuse_argument(NULL, __func__, "port is not within 0..255");
	return beest_context_open_verbs(hbp, options, verbs, port);
}

HARTEBEEST_EXPORT int hartebeest_close(struct hartebeest_context *hb)
{
	return beest_context_close(hb);
}

HARTEBEEST_EXPORT const char *hartebeest_error(void)
{
	return beest_error_text();
}

HARTEBEEST_EXPORT int hartebeest_rank(const struct hartebeest_context *hb)
{
	REQUIRE(hb);
	if (hb->launch.rank < 0)
		return beest_fail(ENODATA, "the rank of this process is not known: set "
				  "HARTEBEEST_NID, or start it with srun or mpirun");
	return hb->launch.rank;
}

HARTEBEEST_EXPORT int hartebeest_size(const struct hartebeest_context *hb)
{
	REQUIRE(hb);
	if (hb->launch.participants.count == 0)
		return beest_fail(ENODATA, "the number of ranks is not known: set "
				  "HARTEBEEST_PARTICIPANTS, or start with srun or mpirun");
	return (int)hb->launch.participants.count;
}

HARTEBEEST_EXPORT int hartebeest_participant(const struct hartebeest_context *hb, int index)
{
	int size = hartebeest_size(hb);

	if (size < 0)
		return size;
	if (index < 0 || index >= size)
		return beest_fail(ERANGE, "participant %d is not within 0..%d", index, size - 1);
	return hb->launch.participants.id[index];
}

HARTEBEEST_EXPORT int hartebeest_local_rank(const struct hartebeest_context *hb)
{
	REQUIRE(hb);
	if (hb->launch.local_rank < 0)
		return beest_fail(ENODATA, "the rank of this process on its node is not known: "
				  "start it with srun, mpirun or torchrun");
	return hb->launch.local_rank;
}

HARTEBEEST_EXPORT const char *hartebeest_job(const struct hartebeest_context *hb)
{
	if (!hb) {
		beest_fail(EINVAL, "%s(): hb is NULL", __func__);
		return NULL;
	}
	return hb->launch.job;
}

HARTEBEEST_EXPORT const char *hartebeest_origin(const struct hartebeest_context *hb,
						const char **warning)
{
	if (!hb) {
		beest_fail(EINVAL, "%s(): hb is NULL", __func__);
		return NULL;
	}
	if (warning)
		*warning = hb->launch.warning;
	return hb->launch.source;
}

HARTEBEEST_EXPORT int hartebeest_verbs(struct hartebeest_context *hb,
				       struct ibv_context **verbs)
{
	const struct beest_device *device;

	REQUIRE(hb, verbs);
	TRY(beest_context_device(hb, &device));
	*verbs = device->verbs;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_port_num(struct hartebeest_context *hb)
{
	const struct beest_device *device;

	REQUIRE(hb);
	TRY(beest_context_device(hb, &device));
	return device->port;
}

HARTEBEEST_EXPORT int hartebeest_device_text(struct hartebeest_context *hb, char *text,
					     size_t size)
{
	const struct beest_device *device;
	int64_t pkey;

	REQUIRE(hb, text);
	if (size < 4)
		return refuse_argument(hb, __func__, "size is below 4");
	TRY(beest_context_device(hb, &device));
	pkey = hb->options.qp[BEEST_RC].pkey;
	return done(hb, beest_port_text(device, &hb->policy,
					   pkey == BEEST_AUTO ? 0 : (uint16_t)pkey, text, size));
}

static void copy_path(const struct beest_pathrec *found, struct hartebeest_path *path)
{
	memset(path, 0, sizeof(*path));
	snprintf(path->device, sizeof(path->device), "%s", found->device);
	memcpy(path->sgid.raw, found->sgid.raw, sizeof(path->sgid.raw));
	memcpy(path->dgid.raw, found->dgid.raw, sizeof(path->dgid.raw));
	path->flow_label = found->flow_label;
	path->dlid = found->ethernet ? 0 : found->dlid;
	path->pkey = found->pkey;
	path->port = found->port;
	path->link_layer = found->ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	path->sl = found->sl;
	path->src_path_bits = found->src_path_bits;
	path->mtu = found->mtu;
	path->rate = found->rate;
	path->hop_limit = found->hop_limit;
	path->traffic_class = found->traffic_class;
	path->life_time = found->life_time;
}

HARTEBEEST_EXPORT int hartebeest_resolve(struct hartebeest_context *hb, const char *ip,
					 struct hartebeest_path *path, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_pathrec found;
	int ret;

	REQUIRE_LIMIT(&limit, hb, ip, path);
	ret = beest_pathquery_ask(hb, ip, &limit, &found);
	if (ret == 0)
		copy_path(&found, path);
	return waited(hb, &limit, ret);
}

HARTEBEEST_EXPORT void hartebeest_cancel(struct hartebeest_context *hb)
{
	if (hb)
		beest_cancel_call(&hb->cancel);
}

HARTEBEEST_EXPORT void hartebeest_cancel_clear(struct hartebeest_context *hb)
{
	if (hb)
		beest_cancel_clear(&hb->cancel);
}

HARTEBEEST_EXPORT int hartebeest_option_get(const struct hartebeest_context *hb,
					    const char *name, char *text, size_t size,
					    const char **source)
{
	REQUIRE(hb, name, text);
	if (size == 0)
		return refuse_argument(hb, __func__, "size is 0");
	return beest_options_text(&hb->options, name, text, size, source);
}

HARTEBEEST_EXPORT int hartebeest_log_set(struct hartebeest_context *hb, int level,
					 void (*write)(void *data, int level, const char *text),
					 void *data)
{
	REQUIRE(hb);
	if (level < HARTEBEEST_LOG_NONE || level > HARTEBEEST_LOG_DEBUG)
		return done(hb, beest_fail(EINVAL, "log level %d is not within %d..%d", level,
					   HARTEBEEST_LOG_NONE, HARTEBEEST_LOG_DEBUG));

	hb->log.level = level;
	hb->log.write = write;
	hb->log.data = data;
	return 0;
}

/* --------------------------------------------------------------- event --- */

HARTEBEEST_EXPORT int hartebeest_event_get(struct hartebeest_context *hb,
					   struct hartebeest_event *event, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_events *events;
	int ret;

	REQUIRE_LIMIT(&limit, hb, event);
	ret = beest_context_events(hb, &events);
	if (ret == 0)
		ret = beest_events_get(events, event, &limit);
	/* That nothing has happened is no line in the log. */
	return ret == -ETIMEDOUT ? ret : waited(hb, &limit, ret);
}

HARTEBEEST_EXPORT int hartebeest_event_fd(struct hartebeest_context *hb)
{
	struct beest_events *events;

	REQUIRE(hb);
	TRY(beest_context_events(hb, &events));
	return done(hb, beest_events_fd(events));
}

/* -------------------------------------- protection domain, completion queue --- */

HARTEBEEST_EXPORT int hartebeest_pd_create(struct hartebeest_context *hb, const char *name,
					   struct ibv_pd **pd)
{
	const struct beest_device *device;
	struct beest_pd *made;

	REQUIRE(hb, name);
	TRY(beest_context_name_available(hb, &beest_pd_kind, name));
	TRY(beest_context_device(hb, &device));
	TRY(beest_pd_create(device, &made));
	TRY(beest_context_add(hb, &beest_pd_kind, name, &made->node));
	if (pd)
		*pd = made->pd;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_pd_get(struct hartebeest_context *hb, const char *name,
					struct ibv_pd **pd)
{
	struct beest_pd *found;

	REQUIRE(hb, name, pd);
	TRY(find_pd(hb, name, &found));
	*pd = found->pd;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_pd_destroy(struct hartebeest_context *hb, const char *name)
{
	REQUIRE(hb, name);
	return done(hb, beest_context_destroy(hb, &beest_pd_kind, name));
}

HARTEBEEST_EXPORT int hartebeest_cq_create(struct hartebeest_context *hb, const char *name,
					   int depth, uint32_t flags, struct ibv_cq **cq)
{
	const struct beest_device *device;
	struct beest_cq *made;

	REQUIRE(hb, name);
	if (depth < 0)
		return done(hb, beest_fail(EINVAL, "a completion queue cannot have %d entries",
					   depth));
	if (flags & ~HARTEBEEST_CQ_CHANNEL)
		return done(hb, beest_fail(EINVAL, "%s(): flags 0x%" PRIx32 " are not known",
					   __func__, flags));
	TRY(beest_context_name_available(hb, &beest_cq_kind, name));
	TRY(beest_context_device(hb, &device));
	TRY(beest_cq_create(device, depth ? depth : hb->options.cq_depth,
			    flags & HARTEBEEST_CQ_CHANNEL, &made));
	TRY(beest_context_add(hb, &beest_cq_kind, name, &made->node));
	if (cq)
		*cq = made->cq;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_cq_get(struct hartebeest_context *hb, const char *name,
					struct ibv_cq **cq)
{
	struct beest_cq *found;

	REQUIRE(hb, name, cq);
	TRY(find_cq(hb, name, &found));
	*cq = found->cq;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_cq_destroy(struct hartebeest_context *hb, const char *name)
{
	REQUIRE(hb, name);
	return done(hb, beest_context_destroy(hb, &beest_cq_kind, name));
}

static int cq_require_channel(const struct beest_cq *cq)
{
	return cq->channel ? 0 : beest_fail(ENODATA, "completion queue '%s' has no channel: "
					    "hartebeest_cq_create() makes one that is asked for "
					    "HARTEBEEST_CQ_CHANNEL", cq->node.name);
}

HARTEBEEST_EXPORT int hartebeest_cq_fd(struct hartebeest_context *hb, const char *name)
{
	struct beest_cq *cq;

	REQUIRE(hb, name);
	TRY(find_cq(hb, name, &cq));
	TRY(cq_require_channel(cq));
	return cq->channel->fd;
}

HARTEBEEST_EXPORT int hartebeest_cq_wait(struct hartebeest_context *hb, struct ibv_cq *verbs,
					 int count, struct ibv_wc *wc, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_cq *cq;
	int ret;

	REQUIRE_LIMIT(&limit, hb, verbs, wc);
	if (count < 1)
		return refuse_argument(hb, __func__, "count is below 1");
	TRY(beest_context_cq(hb, verbs, &cq));
	TRY(cq_require_channel(cq));
	ret = beest_cq_wait(cq, count, wc, &limit, beest_context_interrupt, hb);
	/* That nothing has happened is no line in the log. */
	return ret == -ETIMEDOUT ? ret : waited(hb, &limit, ret);
}

/* ------------------------------------------------- shared receive queue --- */

HARTEBEEST_EXPORT int hartebeest_srq_create(struct hartebeest_context *hb, const char *name,
					    const char *pd, uint32_t max_wr, uint32_t max_sge,
					    struct ibv_srq **srq)
{
	const struct beest_qp_options *preset;
	const struct beest_device *device;
	struct beest_srq *made;
	struct beest_pd *domain;

	REQUIRE(hb, name, pd);
	preset = &hb->options.qp[BEEST_RC];
	TRY(beest_context_name_available(hb, &beest_srq_kind, name));
	TRY(find_pd(hb, pd, &domain));
	TRY(beest_context_device(hb, &device));
	TRY(beest_srq_create(device, domain->pd, max_wr ? max_wr : (uint32_t)preset->max_recv_wr,
			     max_sge ? max_sge : (uint32_t)preset->max_recv_sge, &made));
	TRY(beest_context_add(hb, &beest_srq_kind, name, &made->node));
	if (srq)
		*srq = made->srq;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_srq_get(struct hartebeest_context *hb, const char *name,
					 struct ibv_srq **srq)
{
	struct beest_srq *found;

	REQUIRE(hb, name, srq);
	TRY(find_srq(hb, name, &found));
	*srq = found->srq;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_srq_destroy(struct hartebeest_context *hb, const char *name)
{
	REQUIRE(hb, name);
	return done(hb, beest_context_destroy(hb, &beest_srq_kind, name));
}

/* ------------------------------------------------------- memory region --- */

/* What precedes and follows each way to make a region. */
static int mr_begin(struct hartebeest_context *hb, const char *name, const char *pd_name,
		    size_t length, struct beest_pd **pd)
{
	int ret;

	if (length == 0)
		return beest_fail(EINVAL, "memory region '%s' would be empty", name);

	ret = beest_context_name_available(hb, &beest_mr_kind, name);
	return ret < 0 ? ret : find_pd(hb, pd_name, pd);
}

static int mr_end(struct hartebeest_context *hb, const char *name, int ret,
		  struct beest_mr *mr, struct ibv_mr **out)
{
	if (ret < 0)
		return done(hb, beest_fail_prefix(ret, "memory region '%s'", name));
	TRY(beest_context_add(hb, &beest_mr_kind, name, &mr->node));
	if (out)
		*out = mr->mr;
	return 0;
}

/* @address is NULL for a buffer of the library's own. */
static int mr_create(struct hartebeest_context *hb, const char *name, const char *pd,
		     void *address, size_t length, int access, struct ibv_mr **out)
{
	struct beest_pd *domain = NULL;
	struct beest_mr *mr = NULL;
	int ret;

	TRY(mr_begin(hb, name, pd, length, &domain));
	ret = beest_mr_create(domain->pd, address, length, access,
			      hb->options.mr_huge_pages != 0, &hb->log, &mr);
	return mr_end(hb, name, ret, mr, out);
}

HARTEBEEST_EXPORT int hartebeest_mr_create(struct hartebeest_context *hb, const char *name,
					   const char *pd, size_t length, int access,
					   struct ibv_mr **out)
{
	REQUIRE(hb, name, pd);
	return mr_create(hb, name, pd, NULL, length, access, out);
}

HARTEBEEST_EXPORT int hartebeest_mr_register(struct hartebeest_context *hb,
					     const char *name, const char *pd,
					     void *address, size_t length, int access,
					     struct ibv_mr **out)
{
	REQUIRE(hb, name, pd, address);
	return mr_create(hb, name, pd, address, length, access, out);
}

HARTEBEEST_EXPORT int hartebeest_mr_register_dmabuf(struct hartebeest_context *hb,
						    const char *name, const char *pd,
						    int fd, uint64_t offset, size_t length,
						    uint64_t iova, int access,
						    struct ibv_mr **out)
{
	struct beest_pd *domain = NULL;
	struct beest_mr *mr = NULL;
	int ret;

	REQUIRE(hb, name, pd);
	TRY(mr_begin(hb, name, pd, length, &domain));
	ret = beest_mr_register_dmabuf(domain->pd, fd, offset, length, iova, access,
				       &mr);
	return mr_end(hb, name, ret, mr, out);
}

HARTEBEEST_EXPORT int hartebeest_mr_get(struct hartebeest_context *hb, const char *name,
					struct ibv_mr **mr)
{
	struct beest_mr *found;

	REQUIRE(hb, name, mr);
	TRY(find_mr(hb, name, &found));
	*mr = found->mr;
	return 0;
}

/* After the object, since one that cannot go (-EBUSY) stays published. */
static void withdraw_records(struct hartebeest_context *hb, uint64_t serial)
{
	if (serial)
		beest_registry_withdraw(hb->registry, serial);
}

HARTEBEEST_EXPORT int hartebeest_mr_destroy(struct hartebeest_context *hb, const char *name)
{
	struct beest_mr *mr;
	uint64_t serial;

	REQUIRE(hb, name);
	TRY(find_mr(hb, name, &mr));
	serial = mr->serial;
	TRY(beest_context_destroy(hb, &beest_mr_kind, name));
	withdraw_records(hb, serial);
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_mr_publish(struct hartebeest_context *hb, const char *name,
					    const char *key, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_handshake_context context;
	struct beest_mr *mr;
	int ret;

	REQUIRE_LIMIT(&limit, hb, name, key);
	TRY(find_mr(hb, name, &mr));
	ret = beest_context_handshake(hb, &limit, &context);
	if (ret == 0)
		ret = beest_handshake_mr_publish(&context, mr, key);
	return waited(hb, &limit, ret);
}

HARTEBEEST_EXPORT int hartebeest_mr_fetch(struct hartebeest_context *hb,
					  const char *peer_key,
					  struct hartebeest_remote_mr *mr, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_handshake_context context;
	struct beest_region region;
	int ret;

	REQUIRE_LIMIT(&limit, hb, peer_key, mr);
	ret = beest_context_handshake(hb, &limit, &context);
	if (ret == 0)
		ret = beest_handshake_mr_fetch(&context, peer_key, &region);
	if (ret == 0)
		beest_pairs_show_region(&region, mr);
	return waited(hb, &limit, ret);
}

/* ---------------------------------------------------------- queue pair --- */

#define QP_REQUEST_SIZE_MIN (offsetof(struct hartebeest_qp_request, sq_sig_all) + \
			     sizeof(int32_t))

static int qp_create(struct hartebeest_context *hb, const char *name, const char *pd_name,
		     struct ibv_qp_init_attr *attr, struct ibv_qp **out)
{
	const struct beest_device *device;
	struct beest_pd *pd;
	struct beest_qp *qp;

	TRY(beest_context_name_available(hb, &beest_qp_kind, name));
	TRY(find_pd(hb, pd_name, &pd));
	TRY(beest_context_device(hb, &device));
	TRY(beest_qp_create(device, pd->pd, hb->options.qp, attr, &qp));
	qp->router = beest_context_pathcache(hb);
	TRY(beest_context_add(hb, &beest_qp_kind, name, &qp->node));
	beest_qp_warn_of_depth(qp, &hb->log);
	if (out)
		*out = qp->qp;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_qp_create(struct hartebeest_context *hb, const char *name,
					   struct hartebeest_qp_request *request,
					   struct ibv_qp **out)
{
	struct ibv_qp_init_attr attr;
	struct beest_cq *send, *receive;
	struct beest_srq *srq;
	int ret;

	REQUIRE(hb, name, request);
	TRY(beest_sized_check("qp_request", 0, request, request->size, sizeof(*request),
			      QP_REQUEST_SIZE_MIN));
	REQUIRE(hb, request->pd, request->send_cq);
	TRY(find_cq(hb, request->send_cq, &send));
	TRY(find_cq(hb, request->recv_cq ? request->recv_cq : request->send_cq, &receive));
	memset(&attr, 0, sizeof(attr));
	if (request->srq) {
		TRY(find_srq(hb, request->srq, &srq));
		attr.srq = srq->srq;
	}
	attr.qp_context = request->qp_context;
	attr.send_cq = send->cq;
	attr.recv_cq = receive->cq;
	attr.cap = request->cap;
	attr.qp_type = request->type ? request->type :
		       (enum ibv_qp_type)hb->options.qp[BEEST_RC].qp_type;
	attr.sq_sig_all = request->sq_sig_all;
	ret = qp_create(hb, name, request->pd, &attr, out);
	if (ret == 0)
		request->cap = attr.cap;
	return ret;
}

HARTEBEEST_EXPORT int hartebeest_qp_create_attr(struct hartebeest_context *hb,
						const char *name, const char *pd,
						struct ibv_qp_init_attr *attr,
						struct ibv_qp **out)
{
	REQUIRE(hb, name, pd, attr);
	REQUIRE(hb, attr->send_cq, attr->recv_cq);
	return qp_create(hb, name, pd, attr, out);
}

HARTEBEEST_EXPORT int hartebeest_qp_get(struct hartebeest_context *hb, const char *name,
					struct ibv_qp **qp)
{
	struct beest_qp *found;

	REQUIRE(hb, name, qp);
	TRY(find_qp(hb, name, &found));
	*qp = found->qp;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_qp_cap(struct hartebeest_context *hb, const char *name,
					struct ibv_qp_cap *cap)
{
	struct beest_qp *qp;

	REQUIRE(hb, name, cap);
	TRY(find_qp(hb, name, &qp));
	*cap = qp->cap;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_qp_destroy(struct hartebeest_context *hb, const char *name)
{
	struct beest_qp *qp;
	uint64_t serial;

	REQUIRE(hb, name);
	TRY(find_qp(hb, name, &qp));
	serial = qp->serial;
	TRY(beest_context_destroy(hb, &beest_qp_kind, name));
	withdraw_records(hb, serial);
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_qp_refill_set(struct hartebeest_context *hb,
					       const char *name,
					       int (*refill)(void *data, struct ibv_qp *qp),
					       void *data)
{
	struct beest_qp *qp;

	REQUIRE(hb, name);
	TRY(find_qp(hb, name, &qp));
	qp->refill = refill;
	qp->refill_data = data;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_qp_init(struct hartebeest_context *hb, const char *name)
{
	struct beest_qp *qp;

	REQUIRE(hb, name);
	TRY(find_qp(hb, name, &qp));
	return done(hb, beest_bringup_init(hb, qp));
}

HARTEBEEST_EXPORT int hartebeest_qp_publish(struct hartebeest_context *hb, const char *name,
					    const char *key, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_qp *qp;

	REQUIRE_LIMIT(&limit, hb, name, key);
	TRY(find_qp(hb, name, &qp));
	return waited(hb, &limit, beest_bringup_publish(hb, qp, key, &limit));
}

HARTEBEEST_EXPORT int hartebeest_qp_fetch(struct hartebeest_context *hb,
					  const char *peer_key,
					  struct hartebeest_remote_qp *remote,
					  int64_t deadline)
{
	struct beest_limit limit;
	struct beest_endpoint found;
	int ret;

	REQUIRE_LIMIT(&limit, hb, peer_key);
	ret = beest_bringup_fetch(hb, peer_key, &limit, &found);
	if (ret == 0 && remote)
		beest_pairs_show_peer(&found, remote);
	return waited(hb, &limit, ret);
}

HARTEBEEST_EXPORT int hartebeest_qp_connect(struct hartebeest_context *hb, const char *name,
					    const char *peer_key, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_qp *qp;

	REQUIRE_LIMIT(&limit, hb, name, peer_key);
	TRY(find_qp(hb, name, &qp));
	return waited(hb, &limit, beest_bringup_connect(hb, qp, peer_key, &limit));
}

HARTEBEEST_EXPORT int hartebeest_qp_confirm(struct hartebeest_context *hb, const char *name,
					    const char *peer_key, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_qp *qp;

	REQUIRE_LIMIT(&limit, hb, name, peer_key);
	TRY(find_qp(hb, name, &qp));
	return waited(hb, &limit, beest_bringup_confirm(hb, qp, peer_key, &limit));
}

HARTEBEEST_EXPORT int hartebeest_qp_follow(struct hartebeest_context *hb, const char *name,
					   const char *peer_key,
					   struct hartebeest_remote_qp *remote)
{
	struct beest_limit limit;
	struct beest_qp *qp;
	int ret;

	REQUIRE(hb, name, peer_key);
	TRY(find_qp(hb, name, &qp));
	beest_limit_start(&limit, NULL, HARTEBEEST_ONCE, 0);
	ret = beest_bringup_follow(hb, qp, peer_key, &limit);
	if (ret == 1 && remote)
		beest_pairs_show_peer(&qp->remote, remote);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_peer_text(struct hartebeest_context *hb,
					   const char *peer_key, char *text, size_t size)
{
	char who[BEEST_PRESENCE_TEXT];
	struct beest_registry *registry;
	struct beest_endpoint remote;

	REQUIRE(hb, peer_key, text);
	TRY(beest_bringup_peer(hb, peer_key, &remote));
	TRY(beest_context_registry(hb, &registry));
	snprintf(text, size, "%s", beest_presence_author(registry, remote.rank,
							 &remote.incarnation, who));
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_pairs_connect(struct hartebeest_context *hb,
					       struct hartebeest_pair *pairs, size_t count,
					       int64_t deadline)
{
	struct beest_limit limit;
	REQUIRE_LIMIT(&limit, hb);
	if (count)
		REQUIRE(hb, pairs);
	return waited(hb, &limit, beest_pairs_connect(hb, pairs, count, &limit));
}

HARTEBEEST_EXPORT int hartebeest_qp_reset(struct hartebeest_context *hb, const char *name)
{
	struct beest_qp *qp;

	REQUIRE(hb, name);
	TRY(find_qp(hb, name, &qp));
	return done(hb, beest_qp_reset(qp));
}

HARTEBEEST_EXPORT int hartebeest_qp_reconnect(struct hartebeest_context *hb,
					      const char *name, const char *peer_key,
					      int64_t deadline)
{
	struct beest_limit limit;
	struct beest_qp *qp;

	REQUIRE_LIMIT(&limit, hb, name, peer_key);
	TRY(find_qp(hb, name, &qp));
	return waited(hb, &limit, beest_bringup_reconnect(hb, qp, peer_key, &limit));
}

HARTEBEEST_EXPORT int hartebeest_qp_address(struct hartebeest_context *hb, const char *name,
					    const char *peer_key,
					    struct hartebeest_address *address)
{
	const struct beest_ud_peer *found;
	struct beest_qp *qp;

	REQUIRE(hb, name, peer_key, address);
	TRY(find_qp(hb, name, &qp));
	TRY(beest_qp_address(qp, peer_key, &found));
	memset(address, 0, sizeof(*address));
	address->ah = found->ah;
	address->qp_num = found->remote.qp_num;
	address->qkey = found->remote.qkey;
	return 0;
}

/* --------------------------------------------------------------- adopt --- */

HARTEBEEST_EXPORT int hartebeest_pd_adopt(struct hartebeest_context *hb, const char *name,
					  struct ibv_pd *verbs)
{
	struct beest_pd *pd;

	REQUIRE(hb, name, verbs);
	TRY(beest_context_adoptable(hb, &beest_pd_kind, name, verbs->context, verbs));
	TRY(beest_pd_adopt(verbs, &pd));
	return done(hb, beest_context_add(hb, &beest_pd_kind, name, &pd->node));
}

HARTEBEEST_EXPORT int hartebeest_cq_adopt(struct hartebeest_context *hb, const char *name,
					  struct ibv_cq *verbs)
{
	struct beest_cq *cq;

	REQUIRE(hb, name, verbs);
	TRY(beest_context_adoptable(hb, &beest_cq_kind, name, verbs->context, verbs));
	TRY(beest_cq_adopt(verbs, &cq));
	return done(hb, beest_context_add(hb, &beest_cq_kind, name, &cq->node));
}

HARTEBEEST_EXPORT int hartebeest_srq_adopt(struct hartebeest_context *hb, const char *name,
					   struct ibv_srq *verbs)
{
	struct beest_srq *srq;

	REQUIRE(hb, name, verbs);
	TRY(beest_context_adoptable(hb, &beest_srq_kind, name, verbs->context, verbs));
	TRY(beest_srq_adopt(verbs, &srq));
	return done(hb, beest_context_add(hb, &beest_srq_kind, name, &srq->node));
}

HARTEBEEST_EXPORT int hartebeest_mr_adopt(struct hartebeest_context *hb, const char *name,
					  struct ibv_mr *verbs, int access)
{
	struct beest_mr *mr;

	REQUIRE(hb, name, verbs);
	TRY(beest_context_adoptable(hb, &beest_mr_kind, name, verbs->context, verbs));
	TRY(beest_mr_adopt(verbs, access, &mr));
	return done(hb, beest_context_add(hb, &beest_mr_kind, name, &mr->node));
}

HARTEBEEST_EXPORT int hartebeest_qp_adopt(struct hartebeest_context *hb, const char *name,
					  struct ibv_qp *verbs)
{
	const struct beest_device *device;
	enum ibv_qp_state state;
	struct beest_qp *qp;
	int ret;

	REQUIRE(hb, name, verbs);
	TRY(beest_context_adoptable(hb, &beest_qp_kind, name, verbs->context, verbs));
	TRY(beest_context_device(hb, &device));
	TRY(beest_qp_adopt(device, hb->options.qp, verbs, &qp));
	qp->router = beest_context_pathcache(hb);
	TRY(beest_context_add(hb, &beest_qp_kind, name, &qp->node));

	/* What the program chose for INIT is read back at once: it may not suit. */
	ret = beest_qp_state(qp, &state);
	if (ret == 0 && state == IBV_QPS_INIT)
		ret = beest_bringup_init(hb, qp);
	if (ret < 0)
		beest_context_destroy(hb, &beest_qp_kind, name);
	return done(hb, ret);
}

/* ---------------------------------------------------------- completion --- */

HARTEBEEST_EXPORT int hartebeest_completion_text(struct hartebeest_context *hb,
						 const struct ibv_wc *wc, char *text,
						 size_t size)
{
	REQUIRE(hb, wc, text);
	if (size == 0)
		return refuse_argument(hb, __func__, "size is 0");
	pthread_mutex_lock(&hb->naming);
	beest_completion_text(beest_context_qp_by_number(hb, wc->qp_num), wc, text, size);
	pthread_mutex_unlock(&hb->naming);
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_post_text(struct hartebeest_context *hb, struct ibv_qp *qp,
					   const struct ibv_send_wr *wr, int ret, char *text,
					   size_t size)
{
	REQUIRE(hb, qp, text);
	if (size == 0)
		return refuse_argument(hb, __func__, "size is 0");
	if (ret == 0)
		return refuse_argument(hb, __func__, "ret is 0: the post was taken");
	pthread_mutex_lock(&hb->naming);
	beest_posting_text(beest_context_qp_by_number(hb, qp->qp_num), qp, wr,
			   ret < 0 ? -ret : ret, text, size);
	pthread_mutex_unlock(&hb->naming);
	return 0;
}

/* ----------------------------------------------------- message, barrier --- */

HARTEBEEST_EXPORT int hartebeest_msg_push(struct hartebeest_context *hb, const char *key,
					  const void *data, size_t length, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_registry *registry;
	int ret;

	REQUIRE_LIMIT(&limit, hb, key);
	if (!data && length)
		return refuse_argument(hb, __func__, "data is NULL");
	ret = beest_context_registry(hb, &registry);
	if (ret == 0)
		ret = beest_message_push(registry, key, data, length, &limit);
	return waited(hb, &limit, ret);
}

HARTEBEEST_EXPORT int hartebeest_msg_wait(struct hartebeest_context *hb,
					  const char *peer_key, void *buffer, size_t size,
					  size_t *length, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_registry *registry;
	int ret;

	REQUIRE_LIMIT(&limit, hb, peer_key);
	if (!buffer && size)
		return refuse_argument(hb, __func__, "buffer is NULL");
	ret = beest_context_registry(hb, &registry);
	if (ret == 0)
		ret = beest_message_wait(registry, peer_key, buffer, size, length, &limit);
	return waited(hb, &limit, ret);
}

HARTEBEEST_EXPORT int hartebeest_msgs_wait(struct hartebeest_context *hb,
					   struct hartebeest_message *messages,
					   size_t count, size_t need, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_registry *registry;
	int ret;

	REQUIRE_LIMIT(&limit, hb, messages);
	ret = beest_context_registry(hb, &registry);
	if (ret == 0)
		ret = beest_message_wait_many(registry, messages, count, need, &limit);
	return waited(hb, &limit, ret);
}

HARTEBEEST_EXPORT int hartebeest_msg_delete(struct hartebeest_context *hb, const char *key,
					    int64_t deadline)
{
	struct beest_limit limit;
	struct beest_registry *registry;
	int ret;

	REQUIRE_LIMIT(&limit, hb, key);
	ret = beest_context_registry(hb, &registry);
	if (ret == 0)
		ret = beest_message_delete(registry, key, &limit);
	return waited(hb, &limit, ret);
}

static int find_or_add_barrier(struct hartebeest_context *hb, const char *name,
			       struct beest_barrier **barrier)
{
	struct beest_node *node;
	int ret;

	pthread_mutex_lock(&hb->naming);
	node = beest_table_look(&hb->objects, &beest_barrier_kind, name);
	pthread_mutex_unlock(&hb->naming);
	if (node) {
		*barrier = BEEST_CONTAINER(node, struct beest_barrier, node);
		return 0;
	}

	ret = beest_barrier_create(barrier);
	return ret < 0 ? ret : beest_context_add(hb, &beest_barrier_kind, name,
						 &(*barrier)->node);
}

HARTEBEEST_EXPORT int hartebeest_barrier(struct hartebeest_context *hb, const char *name,
					 int64_t deadline)
{
	struct beest_limit limit;
	struct beest_barrier *barrier;
	struct beest_registry *registry;
	int ret, rank;

	REQUIRE_LIMIT(&limit, hb, name);
	rank = hartebeest_rank(hb);
	TRY(rank);
	TRY(hartebeest_size(hb));
	ret = beest_context_registry(hb, &registry);
	if (ret == 0)
		ret = find_or_add_barrier(hb, name, &barrier);
	if (ret == 0)
		ret = beest_barrier_wait(registry, &hb->roll, barrier,
					 &hb->launch.participants, rank, &limit);
	return waited(hb, &limit, ret);
}

HARTEBEEST_EXPORT int hartebeest_fail(struct hartebeest_context *hb, const char *text)
{
	struct beest_registry *registry;

	REQUIRE(hb, text);
	TRY(beest_context_registry(hb, &registry));
	TRY(beest_failure_say(registry, text));
	return 0;
}

/* ------------------------------------------------------------- service --- */

HARTEBEEST_EXPORT int hartebeest_service_listen(struct hartebeest_context *hb,
						const char *service, int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(&limit, hb, service);
	return waited(hb, &limit, beest_service_listen(hb, service, &limit));
}

HARTEBEEST_EXPORT int hartebeest_service_accept(struct hartebeest_context *hb,
						const char *service,
						struct hartebeest_request *request,
						int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(&limit, hb, service, request);
	return waited(hb, &limit, beest_service_accept(hb, service, request, &limit));
}

HARTEBEEST_EXPORT int hartebeest_service_request(struct hartebeest_context *hb,
						 const char *service, const void *data,
						 size_t length,
						 struct hartebeest_request *request,
						 int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(&limit, hb, service, request);
	if (!data && length)
		return refuse_argument(hb, __func__, "data is NULL");
	return waited(hb, &limit, beest_service_request(hb, service, data, length, request,
							  &limit));
}

HARTEBEEST_EXPORT int hartebeest_service_leave(struct hartebeest_context *hb,
					       const char *service,
					       const struct hartebeest_request *request)
{
	REQUIRE(hb, service);
	return done(hb, beest_service_leave(hb, service, request));
}
