/* SPDX-License-Identifier: MIT */
/*
 * compat.c - the original Hartebeest's C functions, over the public interface
 *
 * Owns the one default context, and the copies of remote objects that the original
 * hands out as struct ibv_mr and struct ibv_qp.  Knows nothing that hartebeest.h
 * does not offer, but for tools of the lowest layer and how its context differs: nobody
 * confirms there, and some presets are the original's.
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
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/table.h"
#include "lib/core/context.h"

/* A check of the server sooner than this would find little and cost much. */
#define NOTICE_PAUSE (100 * BEEST_MS)

/* A silent server makes one check last that long: the next call continues with the rest. */
#define NOTICE_TIME (250 * BEEST_MS)

/* Where the original looked for its settings. */
#define FORMER_FILE "./hb_config.json"

/* ----------------------------------------------------- default context --- */

static struct {
	pthread_mutex_t lock;
	struct hartebeest_context *hb;	/* set once */
	pid_t pid;			/* of the process that opened it */
	struct beest_log log;		/* until it is there */
	int failed;			/* why it could not be opened, until the next init */
	char failure[BEEST_ERROR_SIZE];
	struct beest_table remotes;
	struct following *following;	/* newest first; only grows */
	struct following *rest;		/* not checked last time */
	int64_t noticed;		/* time of the last check, by hartebeest_clock() */
	bool noticing;			/* a thread checks now */
	bool doubt;			/* a transfer failed since the last check */
} self = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.log = { .level = BEEST_LOG_WARN, .rank = -1 },
};

static const struct beest_log *log_of_all(void)
{
	return self.hb ? &self.hb->log : &self.log;
}

/* For failures found here: the native functions log theirs.  True: @ret is one. */
static bool log_failure(int ret)
{
	if (ret < 0)
		beest_log(log_of_all(), BEEST_LOG_ERROR, "%s", beest_error_text());
	return ret < 0;
}

/* What the original made of a setting, by what is said of it here. */
static void explain_refusal(void)
{
	static const struct {
		const char *refused, *taken;
	} habits[] = {
		{ "HARTEBEEST_NID", "took the digits that it began with" },
		{ "HARTEBEEST_PARTICIPANTS", "did not look into that list" },
		{ "expected a whole number", "cut fractions off, and took true for 1" },
		{ "is given twice", "took the last of equal keys" },
		{ "byte order mark", "passed over a byte order mark" },
		{ "unknown ", "passed over keys that it did not know" },
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(habits); i++)
		if (strstr(self.failure, habits[i].refused))
			break;
	if (i < BEEST_COUNT(habits))
		beest_log(&self.log, BEEST_LOG_ERROR, "the original Hartebeest %s; this library "
			  "refuses what may be a mistake", habits[i].taken);
}

/* hartebeest_open() logs its failure where HARTEBEEST_LOG gives a level. */
static void fail_open(int ret, bool is_logged)
{
	if (!is_logged)
		log_failure(ret);
	self.failed = -ret;
	snprintf(self.failure, sizeof(self.failure), "%s", beest_error_text());
	explain_refusal();
}

/*
 * true and false say too little, so warnings and errors are logged by preset.  A program
 * that was written for the original may count on its 16 elements a request.
 */
static void set_presets(struct hartebeest_context *hb)
{
	hb->unconfirmed = true;
	beest_options_preset(&hb->options, "qp_init_attr.cap.max_send_sge", "16");
	beest_options_preset(&hb->options, "qp_init_attr.cap.max_recv_sge", "16");
	beest_options_preset(&hb->options, "log.level", "warn");
	hb->log.level = (int)hb->options.log_level;
}

static void open_default(void)
{
	const char *given = secure_getenv("HARTEBEEST_LOG");
	struct hartebeest_context *hb;
	bool has_level;
	int64_t level;
	int ret;

	has_level = given && beest_log_level(given, &level) == 0;
	if (has_level)
		self.log.level = (int)level;

	ret = hartebeest_open(&hb, NULL);
	if (ret < 0) {
		fail_open(ret, has_level);
		return;
	}

	set_presets(hb);
	self.pid = getpid();
	if (!secure_getenv("HARTEBEEST_CONF_PATH") && access(FORMER_FILE, F_OK) == 0)
		beest_log(&hb->log, BEEST_LOG_WARN, FORMER_FILE " is not read, which the original "
			  "did: set HARTEBEEST_CONF_PATH=" FORMER_FILE);
	__atomic_store_n(&self.hb, hb, __ATOMIC_RELEASE);
}

/* A failure is logged once, and is that of all calls until hartebeest_init(). */
static bool open_once(bool again)
{
	bool is_open;

	pthread_mutex_lock(&self.lock);
	if (!self.hb && (again || !self.failed))
		open_default();
	is_open = self.hb;
	if (!is_open)
		beest_fail(self.failed, "%s", self.failure);
	pthread_mutex_unlock(&self.lock);
	return is_open;
}

/* What each function begins with: after true, self.hb is there until the process ends. */
static bool has_context(void)
{
	return __atomic_load_n(&self.hb, __ATOMIC_ACQUIRE) || open_once(false);
}

HARTEBEEST_EXPORT void hartebeest_init(void)
{
	open_once(true);
}

HARTEBEEST_EXPORT struct hartebeest_context *hartebeest_default_context(void)
{
	return has_context() ? self.hb : NULL;
}

/* What is not in the environment may come from a launcher or a file. */
HARTEBEEST_EXPORT char *hartebeest_get_sysvar(const char *name)
{
	static struct {
		const char *name;
		int (*number)(const struct hartebeest_context *hb);
		size_t option;		/* NULL number: where the text is */
		char text[12];
		bool is_missed;
	} variables[] = {
		{ "HARTEBEEST_NID", .number = hartebeest_rank },
		{ "HARTEBEEST_NPARTICIPANTS", .number = hartebeest_size },
		{ "HARTEBEEST_PARTICIPANTS",
		  .option = offsetof(struct beest_options, participants) },
		{ "HARTEBEEST_EXC_IP_PORT", .option = offsetof(struct beest_options, servers) },
	}, *variable = variables, *end = variables + BEEST_COUNT(variables);
	char *text = NULL;
	int ret;

	if (!name || strncmp(name, "HARTEBEEST_", strlen("HARTEBEEST_")) != 0)
		return NULL;
	if (secure_getenv(name))
		return secure_getenv(name);

	while (variable < end && strcmp(name, variable->name))
		variable++;
	if (variable == end || !has_context())
		return NULL;

	if (!variable->number) {
		text = *(char **)((char *)&self.hb->options + variable->option);
		ret = text ? 0 : beest_fail(ENODATA, "%s is not set", name);
	} else {
		ret = variable->number(self.hb);
		if (ret >= 0)
			snprintf(text = variable->text, sizeof(variable->text), "%d", ret);
	}
	if (!text && !__atomic_exchange_n(&variable->is_missed, true, __ATOMIC_RELAXED))
		log_failure(ret);
	return text;
}

/* ---------------------------------------------------------------- names --- */

/*
 * The original keeps regions and queue pairs within their protection domain; here a
 * name is "pd/name".  A slash in the first part is escaped, so that no two pairs have
 * the same name.
 */
#define SCOPED_SIZE 600
#define SCOPED(pd, name) scoped_name((char[SCOPED_SIZE]){ 0 }, pd, name)

static const char *scoped_name(char *text, const char *pd, const char *name)
{
	size_t used = 0;

	if (!pd || !name)
		return NULL;		/* the native function refuses and names it */

	for (; *pd && used < 256; pd++) {
		if (*pd == '/' || *pd == '%')
			used += (size_t)sprintf(text + used, "%%%02X", *pd);
		else
			text[used++] = *pd;
	}
	snprintf(text + used, SCOPED_SIZE - used, "/%s", name);
	return text;
}

/* ------------------------------------------------------- remote objects --- */

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
	if (remote && beest_table_add(&self.remotes, kind, key, &remote->node) == 0)
		return remote;

	free(remote);
	log_failure(beest_fail(ENOMEM, "no memory for the %s '%s'", kind->noun, key));
	return NULL;
}

static bool keep_remote_mr(const char *key, const struct hartebeest_remote_mr *mr)
{
	struct remote *remote;

	pthread_mutex_lock(&self.lock);
	remote = find_or_add_remote(&remote_mr_kind, key);
	if (remote) {
		remote->mr.addr = (void *)(uintptr_t)mr->address;
		remote->mr.length = (size_t)mr->length;
		remote->mr.rkey = mr->rkey;
	}
	pthread_mutex_unlock(&self.lock);
	return remote;
}

static bool keep_remote_qp(const char *key, const struct hartebeest_remote_qp *qp)
{
	struct remote *remote;

	pthread_mutex_lock(&self.lock);
	remote = find_or_add_remote(&remote_qp_kind, key);
	if (remote) {
		remote->qp.qp_num = qp->qp_num;
		remote->qp.qp_type = qp->qp_type;
	}
	pthread_mutex_unlock(&self.lock);
	return remote;
}

static struct remote *find_remote(const struct beest_kind *kind, const char *key)
{
	struct beest_node *node = NULL;

	if (!has_context())
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

/* -------------------------------------------------- a peer that was replaced --- */

/* A connection that is made again when its peer is replaced. */
struct following {
	struct following *next;
	const struct ibv_qp *qp;
	const struct ibv_cq *send_cq, *recv_cq;
	int64_t changed;	/* time when it was made again, or lost */
	bool again;		/* it was made again: the next connect has nothing to do */
	bool lost;		/* it could not be: ignored until the next connect */
	bool awaited;		/* it was logged that a poll waits for it */
	const char *key;	/* the peer's, behind the name */
	char name[];
};

static struct following *all_following(void)
{
	return __atomic_load_n(&self.following, __ATOMIC_ACQUIRE);
}

static void follow(struct following *following)
{
	struct hartebeest_remote_qp remote;
	bool lost;
	int ret;

	ret = hartebeest_qp_follow(self.hb, following->name, following->key, &remote);
	lost = ret == -ENOENT || (ret < 0 && following->qp->state != IBV_QPS_RTS);
	if (ret == 1)
		keep_remote_qp(following->key, &remote);
	if (ret != 1 && !lost)
		return;

	__atomic_store_n(&following->again, !lost, __ATOMIC_RELAXED);
	__atomic_store_n(&following->lost, lost, __ATOMIC_RELAXED);
	__atomic_store_n(&following->changed, hartebeest_clock(), __ATOMIC_RELAXED);
}

static void follow_all(void)
{
	struct following *following = self.rest ? self.rest : all_following();
	int64_t end = hartebeest_clock() + NOTICE_TIME;

	for (; following && hartebeest_clock() < end; following = following->next)
		if (!__atomic_load_n(&following->lost, __ATOMIC_RELAXED))
			follow(following);
	self.rest = following;
}

/*
 * The original cannot report that a peer restarted, so each call that talks to the
 * server checks whether one did.  Never waits for a peer; one thread at a time.
 */
static void notice_replaced(void)
{
	bool doubt = __atomic_exchange_n(&self.doubt, false, __ATOMIC_RELAXED);

	if (!all_following() || self.pid != getpid() ||
	    __atomic_exchange_n(&self.noticing, true, __ATOMIC_ACQUIRE))
		return;

	if (doubt || hartebeest_clock() - self.noticed > NOTICE_PAUSE) {
		follow_all();
		self.noticed = hartebeest_clock();
	}
	__atomic_store_n(&self.noticing, false, __ATOMIC_RELEASE);
}

/* has_context(), for a function that talks to the server. */
static bool has_exchange(void)
{
	if (!has_context())
		return false;
	notice_replaced();
	return true;
}

static struct following *find_following(const char *name, const char *key)
{
	struct following *following = all_following();

	while (following && (strcmp(following->name, name) || strcmp(following->key, key)))
		following = following->next;
	return following;
}

/* Without memory the connection is not followed, but works. */
static void add_following(const char *name, const char *key, const struct ibv_qp *qp)
{
	struct following *following = find_following(name, key);
	size_t length = strlen(name) + 1;

	if (following) {
		__atomic_store_n(&following->lost, false, __ATOMIC_RELAXED);
		return;
	}
	following = calloc(1, sizeof(*following) + length + strlen(key) + 1);
	if (!following)
		return;

	following->qp = qp;
	following->send_cq = qp->send_cq;
	following->recv_cq = qp->recv_cq;
	following->key = strcpy(following->name + length, key);
	memcpy(following->name, name, length);
	pthread_mutex_lock(&self.lock);
	following->next = self.following;
	__atomic_store_n(&self.following, following, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&self.lock);
}

/* ------------------------------------------------------------------ end --- */

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
		free(following);
	}
}

/* ------------------------------------------------------------- messages --- */

HARTEBEEST_EXPORT bool hartebeest_memc_push_general(const char *key)
{
	return has_exchange() && hartebeest_msg_push(self.hb, key, NULL, 0, 0) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_memc_wait_general(const char *key)
{
	return has_exchange() && hartebeest_msg_wait(self.hb, key, NULL, 0, NULL, 0) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_memc_del_general(const char *key)
{
	return has_exchange() && hartebeest_msg_delete(self.hb, key, 0) == 0;
}

/* ---------------------------------------------------- local resources --- */

HARTEBEEST_EXPORT bool hartebeest_create_local_pd(const char *pd)
{
	return has_context() && hartebeest_pd_create(self.hb, pd, NULL) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_create_local_mr(const char *pd, const char *mr,
						  size_t length, int access)
{
	return has_context() && hartebeest_mr_create(self.hb, SCOPED(pd, mr), pd, length, access,
					  NULL) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_create_basiccq(const char *cq)
{
	return has_context() && hartebeest_cq_create(self.hb, cq, 0, 0, NULL) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_create_local_qp(const char *pd, const char *qp,
						  enum ibv_qp_type type, const char *send_cq,
						  const char *recv_cq)
{
	struct hartebeest_qp_request request;

	hartebeest_qp_request_preset(&request);
	request.pd = pd;
	request.send_cq = send_cq;
	request.recv_cq = recv_cq;
	request.type = type;
	return has_context() &&
	       hartebeest_qp_create(self.hb, SCOPED(pd, qp), &request, NULL) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_init_local_qp(const char *pd, const char *qp)
{
	return has_context() && hartebeest_qp_init(self.hb, SCOPED(pd, qp)) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_connect_local_qp(const char *pd, const char *qp,
						   const char *remote_key)
{
	const char *name = SCOPED(pd, qp);
	struct following *following = NULL;
	struct ibv_qp *found;

	if (!has_exchange())
		return false;

	/* notice_replaced() may have connected to the new peer already. */
	if (name && remote_key)
		following = find_following(name, remote_key);
	if (following && __atomic_exchange_n(&following->again, false, __ATOMIC_RELAXED))
		return true;
	if (hartebeest_qp_connect(self.hb, name, remote_key, 0) < 0)
		return false;

	/* A datagram queue pair has an address for each datagram instead of one peer. */
	if (hartebeest_qp_get(self.hb, name, &found) == 0 && found->qp_type != IBV_QPT_UD)
		add_following(name, remote_key, found);
	return true;
}

HARTEBEEST_EXPORT struct ibv_pd *hartebeest_get_local_pd(const char *pd)
{
	struct ibv_pd *found;

	return has_context() && hartebeest_pd_get(self.hb, pd, &found) == 0 ? found : NULL;
}

HARTEBEEST_EXPORT struct ibv_mr *hartebeest_get_local_mr(const char *pd, const char *mr)
{
	struct ibv_mr *found;

	return has_context() && hartebeest_mr_get(self.hb, SCOPED(pd, mr), &found) == 0 ? found : NULL;
}

HARTEBEEST_EXPORT struct ibv_qp *hartebeest_get_local_qp(const char *pd, const char *qp)
{
	struct ibv_qp *found;

	return has_context() && hartebeest_qp_get(self.hb, SCOPED(pd, qp), &found) == 0 ? found : NULL;
}

/* ------------------------------------------------------------- exchange --- */

HARTEBEEST_EXPORT bool hartebeest_memc_push_local_mr(const char *memc_key, const char *pd,
						     const char *mr)
{
	return has_exchange() && hartebeest_mr_publish(self.hb, SCOPED(pd, mr), memc_key, 0) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_memc_push_local_qp(const char *memc_key, const char *pd,
						     const char *qp)
{
	return has_exchange() && hartebeest_qp_publish(self.hb, SCOPED(pd, qp), memc_key, 0) == 0;
}

HARTEBEEST_EXPORT bool hartebeest_memc_fetch_remote_mr(const char *memc_key)
{
	struct hartebeest_remote_mr mr;

	return has_exchange() && hartebeest_mr_fetch(self.hb, memc_key, &mr, 0) == 0 &&
	       keep_remote_mr(memc_key, &mr);
}

HARTEBEEST_EXPORT bool hartebeest_memc_fetch_remote_qp(const char *memc_key)
{
	struct hartebeest_remote_qp qp;

	return has_exchange() && hartebeest_qp_fetch(self.hb, memc_key, &qp, 0) == 0 &&
	       keep_remote_qp(memc_key, &qp);
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
	has_context();			/* sets the log level */
	return beest_fail(EINVAL, "the queue pair does not belong to this process");
}

/* The original fills the RDMA fields only; atomics and datagrams take them for others. */
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
		return !log_failure(ret);
	if (__atomic_load_n(&self.doubt, __ATOMIC_RELAXED))
		has_exchange();

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
	return !log_failure(ret);
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

/* The next one from @following on whose completions come to @cq. */
static struct following *polled_by(struct following *following, const struct ibv_cq *cq)
{
	while (following && following->send_cq != cq && following->recv_cq != cq)
		following = following->next;
	return following;
}

/* Requests under way are gone with a former peer: no completion will come of them. */
static int check_polled(const struct ibv_cq *cq, int64_t since)
{
	struct following *following = polled_by(all_following(), cq);

	for (; following; following = polled_by(following->next, cq))
		if (__atomic_load_n(&following->changed, __ATOMIC_RELAXED) >= since)
			return beest_fail(ECONNRESET, "queue pair '%s': its peer '%s' was replaced, "
					  "and what was under way is gone: %s", following->name,
					  following->key, following->lost ?
					  "it is connected to nobody" :
					  "it is connected to the new one");
	return 0;
}

/* For a program that polls although it never connected, or whose peer died silently. */
static void tell_wait(const struct ibv_cq *cq)
{
	static bool alone;
	struct following *following = polled_by(all_following(), cq);
	char peer[256] = "";

	if (__atomic_exchange_n(following ? &following->awaited : &alone, true, __ATOMIC_RELAXED))
		return;
	if (!following) {
		beest_log(log_of_all(), BEEST_LOG_WARN, "polling goes on, but nothing came for a "
			  "second: hartebeest_connect_local_qp() has connected no queue pair of "
			  "this completion queue");
		return;
	}
	hartebeest_peer_text(self.hb, following->key, peer, sizeof(peer));
	beest_log(&self.hb->log, BEEST_LOG_WARN, "polling goes on, but nothing came for a second: "
		  "queue pair '%s' is connected to '%s' (%s)", following->name, following->key,
		  peer);
}

/* Once a second it looks whether a completion can still come. */
static int poll_patiently(struct ibv_cq *cq, struct ibv_wc *wc)
{
	int64_t start = hartebeest_clock(), now = start, deadline = INT64_MAX;
	int ret;

	if (has_context() && self.hb->options.poll_timeout)
		deadline = start + self.hb->options.poll_timeout;

	do {
		ret = hartebeest_poll_until(cq, 1, wc, BEEST_MIN(deadline, now + BEEST_SECOND));
		if (ret != -ETIMEDOUT)
			return ret;
		notice_replaced();
		if (check_polled(cq, start) < 0)
			return -ECONNRESET;
		tell_wait(cq);
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
	if (log_failure(ret))
		return false;
	if (wc.status == IBV_WC_SUCCESS)
		return true;

	hartebeest_completion_text(hartebeest_default_context(), &wc, text, sizeof(text));
	__atomic_store_n(&self.doubt, true, __ATOMIC_RELAXED);
	return !log_failure(beest_fail(EIO, "%s", text));
}

HARTEBEEST_EXPORT bool hartebeest_rdma_poll(const char *cq)
{
	struct ibv_cq *found;

	return has_context() && hartebeest_cq_get(self.hb, cq, &found) == 0 && poll_one(found);
}

HARTEBEEST_EXPORT bool hartebeest_rdma_send_poll(struct ibv_qp *qp)
{
	return qp && qp->send_cq ? poll_one(qp->send_cq) : !log_failure(fail_queue_pair());
}

HARTEBEEST_EXPORT bool hartebeest_rdma_recv_poll(struct ibv_qp *qp)
{
	return qp && qp->recv_cq ? poll_one(qp->recv_cq) : !log_failure(fail_queue_pair());
}
