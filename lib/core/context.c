/* SPDX-License-Identifier: MIT */
/* context.c - see context.h */
#include "config.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/core/context.h"
#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/lock.h"
#include "lib/base/text.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/store.h"
#include "lib/seal/seal.h"
#include "lib/seal/secret.h"
#include "lib/settings/sysfile.h"
#include "lib/verbs/retry.h"
#include "lib/verbs/selection.h"

static int read_policy(const struct beest_options *options, struct beest_gid_policy *policy)
{
	const char *name = options->device_addr ? "device.addr" : "device.gid";
	int ret;

	ret = beest_gid_policy_parse(options->device_gid, (enum beest_roce)options->device_roce,
				     (int)options->device_family, policy);
	if (ret < 0)
		return beest_options_fail_prefix(options, ret, "device.gid");

	ret = beest_gid_policy_local(options->device_addr, policy);
	if (ret < 0)
		return beest_options_fail_prefix(options, ret, "device.addr");

	beest_options_origin(options, name, policy->origin);
	return 0;
}

/* What a context's log begins with; write is NULL: its settings decide. */
static struct beest_log log_default;

void beest_context_log_default(int level, void (*write)(void *data, int level, const char *text),
			       void *data)
{
	log_default.level = level;
	log_default.write = write;
	log_default.data = data;
}

static int read_settings(struct hartebeest_context *hb, const char *const *defaults,
			 const char *const *arguments)
{
	const struct beest_options *options = &hb->options;
	int ret;

	ret = beest_options_load(&hb->options, defaults, beest_sysfile_path, arguments);
	if (!hb->log.write)
		hb->log.level = (int)options->log_level;
	if (ret == 0)
		ret = beest_launch_read(&hb->launch, options);
	if (ret < 0)
		return ret;

	hb->log.rank = hb->launch.rank;
	if (options->log_file)
		ret = beest_log_open(&hb->log, options->log_file);
	if (ret < 0)
		return beest_options_fail_prefix(options, ret, "log.file");

	ret = beest_selection_check(options->device_name);
	if (ret < 0)
		return beest_options_fail_prefix(options, ret, "device.name");

	return read_policy(options, &hb->policy);
}

static void log_settings(const struct hartebeest_context *hb)
{
	if (hb->options.unknown_environment[0])
		beest_log(&hb->log, BEEST_LOG_WARN, "%s", hb->options.unknown_environment);
	if (hb->launch.warning[0])
		beest_log(&hb->log, BEEST_LOG_WARN, "%s", hb->launch.warning);
	if (hb->launch.ignored[0])
		beest_log(&hb->log, BEEST_LOG_WARN, "%s", hb->launch.ignored);
	if (hb->launch.source[0])
		beest_log(&hb->log, BEEST_LOG_INFO, "%s", hb->launch.source);
	beest_log(&hb->log, BEEST_LOG_DEBUG, "servers %s, timeout %s",
		  hb->options.servers ? hb->options.servers : "not given",
		  BEEST_SPAN(hb->options.timeout));
}

/*
 * Objects that the program's own objects depend on must outlive the context: the kernel
 * refuses to destroy them, and the program would crash if it destroyed its own after the
 * device was closed.
 */
struct leftovers {
	const struct beest_log *log;
	struct beest_text text;
	char broken[BEEST_ERROR_SIZE / 2];	/* the first that its device did not destroy */
};

static void leftover_note(void *data, struct beest_node *node, int ret)
{
	struct leftovers *left = data;

	if (ret == -EBUSY)
		beest_text_item(&left->text, "%s '%s' is still in use", node->kind->noun,
				node->name);
	else
		beest_log(left->log, BEEST_LOG_WARN, "%s", beest_error_text());
	if (ret != -EBUSY && !left->broken[0])
		beest_text_copy(left->broken, sizeof(left->broken), beest_error_text());
	free(node);
}

/* -EBUSY, -EIO: the device must not be closed. */
static int objects_clear(struct hartebeest_context *hb)
{
	struct leftovers left = { .log = &hb->log, .text = BEEST_TEXT(512) };
	struct beest_node *node;
	int ret;

	for (node = hb->objects.newest; node; node = node->older)
		if (node->adopted && !hb->borrows)
			beest_text_item(&left.text, "%s '%s' is adopted", node->kind->noun,
					node->name);
	beest_table_clear(&hb->objects, leftover_note, &left);
	if (!left.text.used)
		return 0;

	/* Then the kernel ends them all with the process. */
	ret = left.broken[0] ?
	      beest_fail(EIO, "device %s stays open until the process ends, since it did not "
			 "destroy an object, on which others depend: %s", hb->device.name,
			 left.broken) :
	      beest_fail(EBUSY, "device %s stays open until the process ends, since objects of the "
			 "program depend on it: %s", hb->device.name, left.text.buffer);
	beest_log(&hb->log, BEEST_LOG_WARN, "%s", beest_error_text());
	return ret;
}

/* Also frees a context that beest_context_open() has only partly built. */
static int context_discard(struct hartebeest_context *hb)
{
	int ret = objects_clear(hb);

	beest_pathcache_stop(&hb->pathcache);
	if (hb->registry) {
		beest_client_settle(&hb->client);
		beest_store_leave(hb->registry);
	}
	beest_registry_close(hb->registry);
	beest_seal_close(hb->seal);
	beest_membership_end(&hb->membership);
	beest_client_end(&hb->client);
	if (hb->device_open) {
		beest_port_end(&hb->port);
		beest_events_end(&hb->events);
		if (ret == 0)
			beest_device_close(&hb->device);
	}
	beest_log_close(&hb->log);
	beest_launch_free(&hb->launch);
	beest_options_free(&hb->options);
	pthread_mutex_destroy(&hb->opening);
	pthread_mutex_destroy(&hb->objects.lock);
	free(hb);
	return ret;
}

const char *beest_context_endless(const struct hartebeest_context *hb)
{
	if (!hb->device.soft_roce || hb->options.qp[BEEST_RC].retry_cnt != 7)
		return NULL;
	return "a Soft-RoCE device takes qp_attr.retry_cnt 7 as infinite, so requests to a peer "
	       "that is gone never fail: set it to 6 or less";
}

/*
 * Takes the lock safely: the event is acknowledged already, so no thread that destroys its
 * object holds the lock while it waits for that.
 */
static void describe_queue(void *data, uint32_t qp_num, const void *handle, char *text,
			   size_t size)
{
	struct hartebeest_context *hb = data;
	const struct beest_node *node;
	const struct beest_qp *qp;

	pthread_mutex_lock(&hb->objects.lock);
	qp = qp_num ? beest_context_qp_by_number(hb, qp_num) : NULL;
	node = qp ? &qp->node : beest_table_holder(&hb->objects, handle);
	if (node)
		snprintf(text, size, "%s '%s'", node->kind->noun, node->name);
	pthread_mutex_unlock(&hb->objects.lock);
}

static void device_opened(struct hartebeest_context *hb)
{
	bool reads_events = hb->options.device_events && !hb->borrows;

	beest_events_start(&hb->events, &hb->device, &hb->log);
	hb->events.describe = describe_queue;
	hb->events.data = hb;
	beest_port_start(&hb->port, &hb->device, &hb->policy, reads_events ? &hb->events : NULL,
			 &hb->log);
	if (hb->options.device_resolver == BEEST_RESOLVER_RDMACM)
		hb->port.pathcache = &hb->pathcache;
	__atomic_store_n(&hb->device_open, true, __ATOMIC_RELEASE);
	if (beest_context_endless(hb))
		beest_log(&hb->log, BEEST_LOG_INFO, "%s: %s", hb->device.label,
			  beest_context_endless(hb));
}

struct beest_limit beest_context_limit(struct hartebeest_context *hb)
{
	struct beest_limit limit;

	beest_limit_start(&limit, &hb->cancel, 0, hb->options.timeout);
	return limit;
}

static int borrow_device(struct hartebeest_context *hb, struct ibv_context *verbs, int port)
{
	const struct beest_limit limit = beest_context_limit(hb);
	int ret;

	hb->borrows = true;
	do
		ret = beest_selection_borrow(&hb->device, verbs, port, &hb->policy, &hb->log);
	while (beest_retry(&ret, &limit, &hb->log));
	if (ret == 0)
		device_opened(hb);
	return ret;
}

int beest_context_open(struct hartebeest_context **hbp, const char *const *defaults,
		       const char *const *arguments, struct ibv_context *verbs, int port)
{
	struct hartebeest_context *hb;
	int ret;

	hb = calloc(1, sizeof(*hb));
	if (!hb)
		return beest_fail(ENOMEM, "no memory for a context");

	ret = beest_table_start(&hb->objects);
	if (ret < 0) {
		free(hb);
		return ret;
	}
	pthread_mutex_init(&hb->opening, NULL);
	hb->pid = getpid();
	hb->log = log_default;
	hb->log.rank = -1;
	hb->log.said = hb->said;
	beest_pathcache_start(&hb->pathcache);
	beest_membership_start(&hb->membership);
	beest_client_start(&hb->client);
	ret = beest_file_fill_streams();
	if (ret == 0)
		ret = beest_options_hint(&hb->options, read_settings(hb, defaults, arguments));
	if (ret == 0)
		log_settings(hb);
	if (ret == 0 && verbs)
		ret = borrow_device(hb, verbs, port);
	if (ret < 0) {
		beest_log(&hb->log, BEEST_LOG_ERROR, "%s", beest_error_text());
		context_discard(hb);
		return ret;
	}

	*hbp = hb;
	return 0;
}

/*
 * A forked child shares its parent's objects: destroying a queue pair in the child would
 * destroy the parent's.  The child keeps the memory until it ends.
 */
int beest_context_close(struct hartebeest_context *hb)
{
	return hb && hb->pid == getpid() ? context_discard(hb) : 0;
}

void beest_context_leave(struct hartebeest_context *hb)
{
	struct beest_registry *registry = __atomic_load_n(&hb->registry, __ATOMIC_ACQUIRE);

	if (!registry || hb->pid != getpid())
		return;
	beest_client_settle(&hb->client);
	beest_store_leave(registry);
}

/* ------------------------------------------------------ opened when needed --- */

static int open_device(struct hartebeest_context *hb)
{
	int ret;
	BEEST_HOLD(&hb->opening);

	if (hb->device_open)
		return 0;

	ret = beest_selection_open(&hb->device, hb->options.device_name, hb->launch.local_rank,
				   &hb->policy, &hb->log);
	if (ret == 0)
		device_opened(hb);
	return ret;
}

int beest_context_need_device(struct hartebeest_context *hb, const struct beest_limit *limit)
{
	const struct beest_limit usual = beest_context_limit(hb);
	int ret;

	do
		ret = open_device(hb);
	while (beest_retry(&ret, limit ? limit : &usual, &hb->log));
	return ret;
}

bool beest_context_has_device(struct hartebeest_context *hb)
{
	return __atomic_load_n(&hb->device_open, __ATOMIC_ACQUIRE);
}

int beest_context_need_events(struct hartebeest_context *hb)
{
	if (hb->borrows)
		return beest_fail(EOPNOTSUPP, "the program reads the events of its own struct "
				  "ibv_context itself");
	if (!hb->options.device_events)
		return beest_fail(EOPNOTSUPP, "the option device.events is 0, so the program "
				  "itself must read the device's events");

	return beest_context_need_device(hb, NULL);
}

/* A wait for a peer ends early if the local device will never reach the peer. */
int beest_context_interrupt(void *context)
{
	struct hartebeest_context *hb = context;

	if (!beest_context_has_device(hb) || !hb->port.events || hb->pid != getpid())
		return 0;

	return beest_events_check(&hb->events);
}

/* Called after each look in vain.  Also moves requests whose server has lost them. */
static int look_interrupt(void *context)
{
	struct hartebeest_context *hb = context;

	beest_client_keep(&hb->client);
	return beest_context_interrupt(hb);
}

static void context_explain(void *context, const char *name, struct beest_text *text)
{
	struct hartebeest_context *hb = context;

	beest_client_explain(&hb->client, name, text);
}

/* The secret is in memory only briefly; the keys derived from it stay with the registry. */
static int read_secret(struct hartebeest_context *hb)
{
	const char *path = hb->options.secret_file;
	struct beest_secret secret;
	int ret;

	if (!path)
		return 0;

	ret = beest_secret_read(&secret, path);
	if (ret == 0)
		ret = beest_seal_open(&hb->seal, secret.bytes, secret.size, hb->launch.job);
	beest_text_clear(&secret, sizeof(secret));
	if (ret < 0)
		return beest_options_fail_prefix(&hb->options, ret, "exchange.secret_file");

	if (strcmp(hb->launch.job, BEEST_JOB_NONE) == 0)
		beest_log(&hb->log, BEEST_LOG_WARN, "a secret without a job id: records of an "
			  "earlier run with this secret cannot be told from this run's; set "
			  "HARTEBEEST_JOB");
	return 0;
}

static int identify(struct hartebeest_context *hb)
{
	int ret = hb->identified ? 0 : read_secret(hb);

	if (ret == 0 && !hb->identified)
		ret = beest_process_incarnation(&hb->incarnation);
	if (ret < 0) {
		beest_seal_close(hb->seal);
		hb->seal = NULL;
	}
	hb->identified = ret == 0;
	return ret;
}

static int open_registry(struct hartebeest_context *hb)
{
	struct beest_registry_config config = {
		.job = hb->launch.job,
		.rank = hb->launch.rank,
		.ranks = &hb->launch.participants,
		.ttl = hb->options.ttl,
		.incarnation = &hb->incarnation,
		.interrupt = look_interrupt,
		.explain = context_explain,
		.data = hb,
		.log = &hb->log,
	};
	struct beest_hostport *servers;
	size_t i;
	int ret;

	if (hb->registry)
		return 0;
	if (!hb->options.servers)
		return beest_fail(EDESTADDRREQ, "no Memcached server is named: start the job by "
				  "'hartebeest serve -- COMMAND', or set HARTEBEEST_EXC_IP_PORT="
				  "host:port (option exchange.servers)");

	ret = beest_parse_hostports(hb->options.servers, &servers, &config.server_count);
	if (ret < 0)
		return beest_fail_prefix(ret, "exchange.servers");
	beest_options_origin(&hb->options, "exchange.servers", hb->servers_origin);
	for (i = 0; i < config.server_count; i++)
		servers[i].origin = hb->servers_origin;

	config.servers = servers;
	ret = identify(hb);
	config.seal = hb->seal;
	if (ret == 0)
		ret = beest_registry_open(&hb->registry, &config);
	free(servers);
	return ret;
}

static int need_registry(struct hartebeest_context *hb, enum beest_record_kind kind,
			 const char *wanted)
{
	int ret;
	BEEST_HOLD(&hb->opening);

	ret = open_registry(hb);
	if (ret < 0 && wanted)
		beest_fail(-ret, "%s; wanted: %s '%s'", beest_error_text(),
			   beest_record_row(kind)->noun, wanted);
	return beest_options_hint(&hb->options, ret);	/* for any errno, unlike api/call */
}

static int check_process(const struct hartebeest_context *hb)
{
	return hb->pid == getpid() ? 0 :
	       beest_fail(EPERM, "a forked child must not use the context of its parent, but may "
			  "open one of its own with another rank");
}

int beest_context_need_identity(struct hartebeest_context *hb)
{
	BEEST_HOLD(&hb->opening);

	return check_process(hb) < 0 ? -EPERM : identify(hb);
}

int beest_context_need_registry(struct hartebeest_context *hb, enum beest_record_kind kind,
				const char *wanted)
{
	int ret = check_process(hb);

	if (ret < 0)
		return ret;
	ret = need_registry(hb, kind, wanted);
	if (ret == 0 && beest_context_has_device(hb))
		beest_presence_set_device(hb->registry, hb->device.label);
	return ret;
}

/* ------------------------------------------------------------- objects --- */

/* @object: an expression for the object of the found node. */
#define DEFINE_FIND(noun, type, object)							\
	int beest_context_find_##noun(struct hartebeest_context *hb, const char *name,	\
				      type **found)					\
	{										\
		struct beest_node *node = beest_table_find(&hb->objects,		\
							   &beest_##noun##_kind, name);	\
											\
		if (node)								\
			*found = object;						\
		return node ? 0 : -ENOENT;						\
	}

DEFINE_FIND(cq, struct beest_cq, BEEST_CONTAINER(node, struct beest_cq, node))
DEFINE_FIND(mr, struct beest_mr, BEEST_CONTAINER(node, struct beest_mr, node))
DEFINE_FIND(pd, struct ibv_pd, node->handle)
DEFINE_FIND(qp, struct beest_qp, BEEST_CONTAINER(node, struct beest_qp, node))
DEFINE_FIND(srq, struct ibv_srq, node->handle)

int beest_context_cq(struct hartebeest_context *hb, const struct ibv_cq *verbs,
		     struct beest_cq **cq)
{
	struct beest_node *node;

	node = beest_table_holder(&hb->objects, verbs);
	if (!node || node->kind != &beest_cq_kind)
		return beest_fail(ENOENT, "this completion queue does not belong to the "
				  "context: make one with hartebeest_cq_create()");

	*cq = BEEST_CONTAINER(node, struct beest_cq, node);
	return 0;
}

int beest_context_adoptable(struct hartebeest_context *hb, const struct beest_kind *kind,
			    const char *name, const struct ibv_context *verbs,
			    const void *handle)
{
	struct beest_node *holder;
	int ret;

	ret = beest_table_name_available(&hb->objects, kind, name);
	if (ret == 0)
		ret = beest_context_need_device(hb, NULL);
	if (ret < 0)
		return ret;
	if (verbs != hb->device.verbs)
		return beest_fail(EXDEV, "%s '%s' was made on another struct ibv_context (of "
				  "device %s) than this context has: open a context on it with "
				  "hartebeest_open_verbs()", kind->noun, name, verbs->device->name);

	pthread_mutex_lock(&hb->objects.lock);
	holder = beest_table_holder(&hb->objects, handle);
	ret = holder ? beest_fail(EALREADY, "this %s is called '%s' already", kind->noun,
				  holder->name) : 0;
	pthread_mutex_unlock(&hb->objects.lock);
	return ret;
}

int beest_context_add(struct hartebeest_context *hb, const struct beest_kind *kind,
		      const char *name, void *handle, const void *need)
{
	struct beest_node *node = beest_table_wrap(kind, handle);

	if (!node)
		return -ENOMEM;
	node->needs[0] = need;
	return beest_table_add(&hb->objects, name, node);
}

int beest_context_adopt(struct hartebeest_context *hb, const struct beest_kind *kind,
			const char *name, const struct ibv_context *verbs, void *handle,
			const void *need)
{
	struct beest_node *node;
	int ret;

	ret = beest_context_adoptable(hb, kind, name, verbs, handle);
	if (ret < 0)
		return ret;
	node = beest_table_new(kind);
	if (!node)
		return -ENOMEM;

	node->handle = handle;
	node->needs[0] = need;
	node->adopted = true;
	return beest_table_add(&hb->objects, name, node);
}

const struct beest_qp *beest_context_qp_by_number(const struct hartebeest_context *hb,
						  uint32_t qp_num)
{
	const struct beest_qp *qp;
	struct beest_node *node;

	for (node = hb->objects.newest; node; node = node->older) {
		qp = BEEST_CONTAINER(node, struct beest_qp, node);
		if (node->kind == &beest_qp_kind && qp->local.endpoint.qp_num == qp_num)
			return qp;
	}
	return NULL;
}

/* ---------------------------------------------------- requests on completion queues --- */

/* A queue without a name in this context is compared with each of its users alone. */
void beest_context_load(struct hartebeest_context *hb, const struct ibv_cq *queue,
			int64_t requests, const char *who)
{
	char name[BEEST_KEY_MAX + 1] = "", text[64];
	struct beest_node *node;
	struct beest_cq *cq;
	int64_t sum = 0;

	pthread_mutex_lock(&hb->objects.lock);
	node = beest_table_holder(&hb->objects, queue);
	if (node) {
		cq = BEEST_CONTAINER(node, struct beest_cq, node);
		sum = cq->requests;
		cq->requests += requests;
		beest_text_copy(name, sizeof(name), node->name);
	}
	pthread_mutex_unlock(&hb->objects.lock);
	if (queue->cqe < 0 || sum > queue->cqe || sum + requests <= queue->cqe)
		return;
	snprintf(text, sizeof(text), "entries of completion queue %p", (const void *)queue);
	beest_log(&hb->log, beest_log_once(&hb->log, BEEST_LOG_WARN, text), "completion queue '%s' "
		  "has %d entries, but with %s, %" PRId64 " requests may be under way whose "
		  "completions it gets: some may be lost; make it deeper", name, queue->cqe, who,
		  sum + requests);
}

/* @sign: 1 or -1 */
static void qp_load(struct hartebeest_context *hb, const struct beest_qp *qp, const char *name,
		    int sign)
{
	const struct ibv_cq *send = qp->node.needs[1], *receive = qp->node.needs[2];
	char who[BEEST_KEY_MAX + 16];

	snprintf(who, sizeof(who), "queue pair '%s'", name);
	beest_context_load(hb, send, sign * beest_qp_requests(qp, send), who);
	if (receive != send)
		beest_context_load(hb, receive, sign * beest_qp_requests(qp, receive), who);
}

/* Counts first, since another thread may destroy what was added.  A failure destroys it, too. */
int beest_context_add_qp(struct hartebeest_context *hb, const char *name, struct beest_qp *qp)
{
	const struct beest_qp copy = *qp;
	int ret;

	qp_load(hb, &copy, name, 1);
	ret = beest_table_add(&hb->objects, name, &qp->node);
	if (ret < 0)
		qp_load(hb, &copy, name, -1);

	return ret;
}

/* ------------------------------------------------------------------------ destroying --- */

int beest_context_destroy(struct hartebeest_context *hb, const struct beest_kind *kind,
			  const char *name)
{
	struct beest_node *node;
	struct beest_qp *qp;
	uint64_t serial;
	int ret;

	pthread_mutex_lock(&hb->objects.lock);
	node = beest_table_look(&hb->objects, kind, name);
	serial = node ? node->serial : 0;
	qp = node && kind == &beest_qp_kind ? BEEST_CONTAINER(node, struct beest_qp, node) : NULL;
	if (qp)
		qp_load(hb, qp, name, -1);
	ret = beest_table_destroy(&hb->objects, kind, name);
	if (qp && ret < 0)
		qp_load(hb, qp, name, 1);
	pthread_mutex_unlock(&hb->objects.lock);
	if (ret == 0 && serial && hb->pid == getpid())
		beest_store_withdraw(hb->registry, serial, SIZE_MAX);
	return ret;
}
