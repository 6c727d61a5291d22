/* SPDX-License-Identifier: MIT */
/*
 * compat.c - the original Hartebeest's C functions, over the public interface
 *
 * Owns the one default context, and the copies of remote objects that the original
 * hands out as struct ibv_mr and struct ibv_qp.  Knows nothing that hartebeest.h
 * does not offer, but for tools of the lowest layer and the one mark of its context:
 * that nobody confirms there.
 *
 * Threads: as the native functions, but init and exit belong to one thread.
 */
#include "config.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/hartebeest-c.h"
#include "include/hartebeest-post.h"
#include "include/hartebeest.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/base/table.h"
#include "lib/core/context.h"

/* A check of the server sooner than this would find little and cost much. */
#define NOTICE_PAUSE INT64_C(100000000)

/* A silent server makes one check last that long: the next call continues with the rest. */
#define NOTICE_TIME INT64_C(250000000)

/* A connection that is made again when its peer is replaced. */
struct following {
	struct following *next;
	char *name, *key;
	bool again;		/* it was made again: the next connect has nothing to do */
	bool lost;		/* it could not be: ignored until the next connect */
};

static void free_following(struct following *following)
{
	free(following->name);
	free(following->key);
	free(following);
}

/* ----------------------------------------------------- default context --- */

static struct {
	pthread_mutex_t lock;
	struct hartebeest_context *hb;
	pid_t pid;			/* of the process that opened it */
	struct beest_log log;
	int64_t poll_timeout;		/* ns; 0: no limit */
	struct beest_table remotes;
	struct following *following;	/* newest first; only grows */
	struct following *rest;		/* not checked last time */
	int64_t noticed;		/* time of the last check, by hartebeest_clock() */
	bool noticing;			/* a thread checks now */
	bool doubt;			/* a transfer failed since the last check */
} self = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.log = { .level = BEEST_LOG_ERROR, .rank = -1 },
};

/* For failures found here: the native functions log theirs.  True: @ret is one. */
static bool log_failure(int ret)
{
	if (ret < 0)
		beest_log(self.hb ? &self.hb->log : &self.log, BEEST_LOG_ERROR, "%s",
			  beest_error_text());
	return ret < 0;
}

/*
 * true and false say too little, so failures are logged to stderr by preset; a file or
 * the environment may change that.
 */
static void set_log_level(void)
{
	const char *source;
	char text[64];

	if (hartebeest_option_get(self.hb, "log.level", text, sizeof(text), &source) == 0 &&
	    strcmp(source, "preset") == 0)
		hartebeest_log_set(self.hb, self.log.level, NULL, NULL);
}

static void open_default(void)
{
	const char *given = secure_getenv("HARTEBEEST_LOG");
	bool has_level;
	char text[64];
	int64_t level;
	int ret;

	/* hartebeest_open() logs its failure at this level, and at no other. */
	has_level = given && beest_log_level(given, &level) == 0;
	if (has_level)
		self.log.level = (int)level;

	ret = hartebeest_open(&self.hb, NULL);
	if (ret < 0) {
		if (!has_level)
			log_failure(ret);
		return;
	}

	self.pid = getpid();
	self.hb->unconfirmed = true;
	set_log_level();
	if (hartebeest_option_get(self.hb, "poll.timeout", text, sizeof(text), NULL) == 0)
		beest_parse_duration(text, &self.poll_timeout);
}

/* NULL after a failure, which has been logged. */
static struct hartebeest_context *default_context(void)
{
	struct hartebeest_context *hb;

	pthread_mutex_lock(&self.lock);
	if (!self.hb)
		open_default();
	hb = self.hb;
	pthread_mutex_unlock(&self.lock);
	return hb;
}

/*
 * Runs at normal exit, so that no peer finds the records of a process that is gone.  Not
 * in a forked child, which inherits its parent's objects.
 */
static void __attribute__((destructor)) close_default(void)
{
	struct following *following;

	if (self.pid != getpid())
		return;

	hartebeest_close(self.hb);
	self.hb = NULL;
	beest_table_clear(&self.remotes, NULL, NULL);
	self.rest = NULL;
	while ((following = self.following)) {
		self.following = following->next;
		free_following(following);
	}
}

HARTEBEEST_EXPORT void hartebeest_init(void)
{
	default_context();
}

HARTEBEEST_EXPORT char *hartebeest_get_sysvar(const char *name)
{
	static char rank[12], size[12];
	struct hartebeest_context *hb;
	char *value;

	if (!name || strncmp(name, "HARTEBEEST_", strlen("HARTEBEEST_")) != 0)
		return NULL;

	value = secure_getenv(name);
	if (value)
		return value;

	/* What is not in the environment may come from a launcher. */
	hb = default_context();
	if (hb && strcmp(name, "HARTEBEEST_NID") == 0 && hartebeest_rank(hb) >= 0) {
		snprintf(rank, sizeof(rank), "%d", hartebeest_rank(hb));
		return rank;
	}
	if (hb && strcmp(name, "HARTEBEEST_NPARTICIPANTS") == 0 && hartebeest_size(hb) >= 0) {
		snprintf(size, sizeof(size), "%d", hartebeest_size(hb));
		return size;
	}
	return NULL;
}

/* ---------------------------------------------------------------- names --- */

/*
 * The original keeps regions and queue pairs within their protection domain; here a
 * name is "pd/name".  A slash in the first part is escaped, so that no two pairs have
 * the same name.
 */
struct scoped {
	char text[600];
};

static const char *scoped_name(const char *pd, const char *name, struct scoped *scoped)
{
	size_t used = 0;

	if (!pd || !name)
		return NULL;		/* the native function refuses and names it */

	for (; *pd && used < 256; pd++) {
		if (*pd == '/' || *pd == '%')
			used += (size_t)sprintf(scoped->text + used, "%%%02X", *pd);
		else
			scoped->text[used++] = *pd;
	}
	snprintf(scoped->text + used, sizeof(scoped->text) - used, "/%s", name);
	return scoped->text;
}

/* -------------------------------------------------- a peer that was replaced --- */

static bool keep_remote(const char *key, const struct hartebeest_remote_mr *mr,
			const struct hartebeest_remote_qp *qp);

static void follow_all(struct hartebeest_context *hb)
{
	struct hartebeest_remote_qp remote;
	struct following *following;
	int64_t end = hartebeest_clock() + NOTICE_TIME;
	int ret;

	following = self.rest;
	if (!following)
		following = __atomic_load_n(&self.following, __ATOMIC_ACQUIRE);
	for (; following && hartebeest_clock() < end; following = following->next) {
		if (__atomic_load_n(&following->lost, __ATOMIC_RELAXED))
			continue;
		ret = hartebeest_qp_follow(hb, following->name, following->key, &remote);
		if (ret == 1) {
			keep_remote(following->key, NULL, &remote);
			__atomic_store_n(&following->again, true, __ATOMIC_RELAXED);
			continue;
		}
		if (ret < 0)		/* the connection may be gone */
			__atomic_store_n(&following->again, false, __ATOMIC_RELAXED);
		if (ret == -ENOTCONN)
			__atomic_store_n(&following->lost, true, __ATOMIC_RELAXED);
	}
	self.rest = following;
}

/*
 * The original cannot report that a peer restarted, so each call that talks to the
 * server checks whether one did.  Never waits for a peer; one thread at a time.
 */
static void notice_replaced(struct hartebeest_context *hb)
{
	bool doubt = __atomic_exchange_n(&self.doubt, false, __ATOMIC_RELAXED);

	if (!__atomic_load_n(&self.following, __ATOMIC_RELAXED) || self.pid != getpid() ||
	    __atomic_exchange_n(&self.noticing, true, __ATOMIC_ACQUIRE))
		return;

	if (doubt || hartebeest_clock() - self.noticed > NOTICE_PAUSE) {
		follow_all(hb);
		self.noticed = hartebeest_clock();
	}
	__atomic_store_n(&self.noticing, false, __ATOMIC_RELEASE);
}

/* default_context(), for a function that talks to the server. */
static struct hartebeest_context *talking_context(void)
{
	struct hartebeest_context *hb = default_context();

	if (hb)
		notice_replaced(hb);
	return hb;
}

static struct following *find_following(const char *name, const char *key)
{
	struct following *following;

	for (following = __atomic_load_n(&self.following, __ATOMIC_ACQUIRE); following;
	     following = following->next)
		if (!strcmp(following->name, name) && !strcmp(following->key, key))
			return following;

	return NULL;
}

/* Without memory the connection is not followed, but works. */
static void add_following(const char *name, const char *key)
{
	struct following *following = find_following(name, key);

	if (following) {
		__atomic_store_n(&following->lost, false, __ATOMIC_RELAXED);
		return;
	}
	following = calloc(1, sizeof(*following));
	if (!following)
		return;

	following->name = strdup(name);
	following->key = strdup(key);
	if (!following->name || !following->key) {
		free_following(following);
		return;
	}
	pthread_mutex_lock(&self.lock);
	following->next = self.following;
	__atomic_store_n(&self.following, following, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&self.lock);
}

/* ------------------------------------------------------------- messages --- */

HARTEBEEST_EXPORT bool hartebeest_memc_push_general(const char *key)
{
	struct hartebeest_context *hb = talking_context();

	return hb && hartebeest_msg_push(hb, key, NULL, 0, 0) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_memc_wait_general(const char *key)
{
	struct hartebeest_context *hb = talking_context();

	return hb && hartebeest_msg_wait(hb, key, NULL, 0, NULL, 0) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_memc_del_general(const char *key)
{
	struct hartebeest_context *hb = talking_context();

	return hb && hartebeest_msg_delete(hb, key, 0) == 0;
}

/* ---------------------------------------------------- local resources --- */

HARTEBEEST_EXPORT bool hartebeest_create_local_pd(const char *pd)
{
	struct hartebeest_context *hb = default_context();

	return hb && hartebeest_pd_create(hb, pd, NULL) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_create_local_mr(const char *pd, const char *mr,
						  size_t length, int access)
{
	struct hartebeest_context *hb = default_context();
	struct scoped scoped;

	return hb && hartebeest_mr_create(hb, scoped_name(pd, mr, &scoped), pd, length, access,
					  NULL) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_create_basiccq(const char *cq)
{
	struct hartebeest_context *hb = default_context();

	return hb && hartebeest_cq_create(hb, cq, 0, 0, NULL) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_create_local_qp(const char *pd, const char *qp,
						  enum ibv_qp_type type, const char *send_cq,
						  const char *recv_cq)
{
	struct hartebeest_context *hb = default_context();
	struct scoped scoped;

	return hb && hartebeest_qp_create(hb, scoped_name(pd, qp, &scoped), pd, (int)type,
					  send_cq, recv_cq, NULL) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_init_local_qp(const char *pd, const char *qp)
{
	struct hartebeest_context *hb = default_context();
	struct scoped scoped;

	return hb && hartebeest_qp_init(hb, scoped_name(pd, qp, &scoped)) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_connect_local_qp(const char *pd, const char *qp,
						   const char *remote_key)
{
	struct hartebeest_context *hb = talking_context();
	struct following *following = NULL;
	struct scoped scoped;
	const char *name = scoped_name(pd, qp, &scoped);
	struct ibv_qp *found;

	if (!hb)
		return false;

	/* notice_replaced() may have connected to the new peer already. */
	if (name && remote_key)
		following = find_following(name, remote_key);
	if (following && __atomic_exchange_n(&following->again, false, __ATOMIC_RELAXED))
		return true;
	if (hartebeest_qp_connect(hb, name, remote_key, 0) < 0)
		return false;

	/* A datagram queue pair has an address for each datagram instead of one peer. */
	if (hartebeest_qp_get(hb, name, &found) == 0 && found->qp_type != IBV_QPT_UD)
		add_following(name, remote_key);
	return true;
}

HARTEBEEST_EXPORT struct ibv_pd *hartebeest_get_local_pd(const char *pd)
{
	struct hartebeest_context *hb = default_context();
	struct ibv_pd *found = NULL;

	if (hb)
		hartebeest_pd_get(hb, pd, &found);
	return found;
}

HARTEBEEST_EXPORT struct ibv_mr *hartebeest_get_local_mr(const char *pd, const char *mr)
{
	struct hartebeest_context *hb = default_context();
	struct ibv_mr *found = NULL;
	struct scoped scoped;

	if (hb)
		hartebeest_mr_get(hb, scoped_name(pd, mr, &scoped), &found);
	return found;
}

HARTEBEEST_EXPORT struct ibv_qp *hartebeest_get_local_qp(const char *pd, const char *qp)
{
	struct hartebeest_context *hb = default_context();
	struct ibv_qp *found = NULL;
	struct scoped scoped;

	if (hb)
		hartebeest_qp_get(hb, scoped_name(pd, qp, &scoped), &found);
	return found;
}

/* ------------------------------------------------------------- exchange --- */

HARTEBEEST_EXPORT bool hartebeest_memc_push_local_mr(const char *memc_key, const char *pd,
						     const char *mr)
{
	struct hartebeest_context *hb = talking_context();
	struct scoped scoped;

	return hb && hartebeest_mr_publish(hb, scoped_name(pd, mr, &scoped), memc_key, 0) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_memc_push_local_qp(const char *memc_key, const char *pd,
						     const char *qp)
{
	struct hartebeest_context *hb = talking_context();
	struct scoped scoped;

	return hb && hartebeest_qp_publish(hb, scoped_name(pd, qp, &scoped), memc_key, 0) == 0;
}

/* Plain structs with a few fields set: they look like verbs objects but are not. */
struct remote {
	struct beest_node node;
	struct ibv_mr mr;
	struct ibv_qp qp;
};

static int free_remote(struct beest_node *node)
{
	free(BEEST_CONTAINER(node, struct remote, node));
	return 0;
}

static const struct beest_kind remote_mr_kind = { "fetched memory region", free_remote };
static const struct beest_kind remote_qp_kind = { "fetched queue pair", free_remote };

/* Reuses the one of this key, so that pointers handed out earlier see the new values. */
static struct remote *find_or_add_remote(const struct beest_kind *kind, const char *key)
{
	struct beest_node *node = beest_table_look(&self.remotes, kind, key);
	struct remote *remote;

	if (node)
		return BEEST_CONTAINER(node, struct remote, node);

	remote = calloc(1, sizeof(*remote));
	if (!remote) {
		beest_fail(ENOMEM, "no memory for the object fetched under '%s'", key);
		return NULL;
	}
	if (beest_table_add(&self.remotes, kind, key, &remote->node) < 0) {
		free(remote);
		return NULL;
	}
	return remote;
}

/* Stores @mr or @qp, whichever is not NULL, for get_remote_*(). */
static bool keep_remote(const char *key, const struct hartebeest_remote_mr *mr,
			const struct hartebeest_remote_qp *qp)
{
	struct remote *remote;

	pthread_mutex_lock(&self.lock);
	remote = find_or_add_remote(mr ? &remote_mr_kind : &remote_qp_kind, key);
	if (remote && mr) {
		remote->mr.addr = (void *)(uintptr_t)mr->address;
		remote->mr.length = (size_t)mr->length;
		remote->mr.rkey = mr->rkey;
	} else if (remote) {
		remote->qp.qp_num = qp->qp_num;
		remote->qp.qp_type = qp->qp_type;
	}
	pthread_mutex_unlock(&self.lock);
	return remote || !log_failure(-ENOMEM);
}

static struct remote *find_remote(const struct beest_kind *kind, const char *key)
{
	struct beest_node *node = NULL;

	if (!default_context())
		return NULL;

	pthread_mutex_lock(&self.lock);
	if (key)
		node = beest_table_find(&self.remotes, kind, key);
	else
		beest_fail(EINVAL, "the key of a %s is NULL", kind->noun);
	pthread_mutex_unlock(&self.lock);
	if (node)
		return BEEST_CONTAINER(node, struct remote, node);

	log_failure(-ENOENT);
	return NULL;
}

HARTEBEEST_EXPORT bool hartebeest_memc_fetch_remote_mr(const char *memc_key)
{
	struct hartebeest_context *hb = talking_context();
	struct hartebeest_remote_mr mr;

	return hb && hartebeest_mr_fetch(hb, memc_key, &mr, 0) == 0 &&
	       keep_remote(memc_key, &mr, NULL);
}

HARTEBEEST_EXPORT bool hartebeest_memc_fetch_remote_qp(const char *memc_key)
{
	struct hartebeest_context *hb = talking_context();
	struct hartebeest_remote_qp qp;

	return hb && hartebeest_qp_fetch(hb, memc_key, &qp, 0) == 0 &&
	       keep_remote(memc_key, NULL, &qp);
}

HARTEBEEST_EXPORT struct ibv_mr *hartebeest_get_remote_mr(const char *memc_key)
{
	struct remote *remote = find_remote(&remote_mr_kind, memc_key);

	return remote ? &remote->mr : NULL;
}

HARTEBEEST_EXPORT struct ibv_qp *hartebeest_get_remote_qp(const char *memc_key)
{
	struct remote *remote = find_remote(&remote_qp_kind, memc_key);

	return remote ? &remote->qp : NULL;
}

/* ------------------------------------------------------------ data path --- */

/* For NULL, or what get_remote_qp() returned: that only looks like a queue pair. */
static int fail_queue_pair(void)
{
	default_context();		/* sets the log level */
	return beest_fail(EINVAL, "the queue pair does not belong to this process");
}

/* The original fills the RDMA fields only; an atomic would take them for others. */
static int check_request(const struct ibv_qp *qp, size_t length, enum ibv_wr_opcode opcode)
{
	if (!qp || !qp->context)
		return fail_queue_pair();
	if (length > UINT32_MAX)
		return beest_fail(EMSGSIZE, "a request of %zu bytes is more than one work "
				  "request can carry", length);
	if (opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ && opcode != IBV_WR_SEND)
		return beest_fail(EOPNOTSUPP, "work request opcode %d is not a write, read or "
				  "send: see hartebeest-post.h for the others", opcode);
	return 0;
}

static bool post_request(struct ibv_qp *qp, void *local, void *remote, size_t length,
			 enum ibv_wr_opcode opcode, uint32_t lkey, uint32_t rkey, uint64_t wr_id,
			 unsigned int flags)
{
	int ret;

	ret = check_request(qp, length, opcode);
	if (ret < 0)
		return !log_failure(ret);
	if (__atomic_load_n(&self.doubt, __ATOMIC_RELAXED))
		talking_context();

	ret = hartebeest_post_rdma(qp, opcode, local, (uint32_t)length, lkey,
				   (uintptr_t)remote, rkey, wr_id, flags);
	if (ret < 0)
		beest_fail(-ret, "posting %zu bytes to QP %" PRIu32 " failed: %s%s", length,
			   qp->qp_num, strerror(-ret), flags & IBV_SEND_INLINE ?
			   " (too long to be sent inline?)" : "");
	return !log_failure(ret);
}

HARTEBEEST_EXPORT bool hartebeest_rdma_post_single_fast(struct ibv_qp *qp, void *local,
							void *remote, size_t length,
							enum ibv_wr_opcode opcode,
							uint32_t lkey, uint32_t rkey,
							uint64_t wr_id)
{
	return post_request(qp, local, remote, length, opcode, lkey, rkey, wr_id,
			    IBV_SEND_SIGNALED);
}

HARTEBEEST_EXPORT bool hartebeest_rdma_post_single_signaled_inline(struct ibv_qp *qp,
								   void *local,
								   void *remote,
								   size_t length,
								   enum ibv_wr_opcode opcode,
								   uint32_t lkey,
								   uint32_t rkey,
								   uint64_t wr_id)
{
	return post_request(qp, local, remote, length, opcode, lkey, rkey, wr_id,
			    IBV_SEND_SIGNALED | IBV_SEND_INLINE);
}

static bool poll_one(struct ibv_cq *cq)
{
	int64_t deadline = INT64_MAX;
	char text[768] = "";
	struct ibv_wc wc;
	int ret;

	if (!cq)
		return !log_failure(beest_fail(EINVAL, "there is no completion queue to poll"));
	if (self.poll_timeout)
		deadline = hartebeest_clock() + self.poll_timeout;

	ret = hartebeest_poll_until(cq, 1, &wc, deadline);
	if (ret < 0)
		return !log_failure(beest_fail(-ret, "no completion arrived: %s (option "
					       "poll.timeout)", strerror(-ret)));
	if (wc.status == IBV_WC_SUCCESS)
		return true;

	hartebeest_completion_text(default_context(), &wc, text, sizeof(text));
	__atomic_store_n(&self.doubt, true, __ATOMIC_RELAXED);
	return !log_failure(beest_fail(EIO, "%s", text));
}

HARTEBEEST_EXPORT bool hartebeest_rdma_poll(const char *cq)
{
	struct hartebeest_context *hb = default_context();
	struct ibv_cq *found;

	return hb && hartebeest_cq_get(hb, cq, &found) == 0 && poll_one(found);
}

HARTEBEEST_EXPORT bool hartebeest_rdma_send_poll(struct ibv_qp *qp)
{
	return qp && qp->send_cq ? poll_one(qp->send_cq) : !log_failure(fail_queue_pair());
}

HARTEBEEST_EXPORT bool hartebeest_rdma_recv_poll(struct ibv_qp *qp)
{
	return qp && qp->recv_cq ? poll_one(qp->recv_cq) : !log_failure(fail_queue_pair());
}
