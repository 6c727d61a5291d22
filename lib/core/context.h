/* SPDX-License-Identifier: MIT */
/*
 * context.h - struct hartebeest_context: settings, device, registry and named objects
 *
 * Owns settings, rank, log, device, registry and the table of named objects, and opens device
 * and registry when they are first needed.  Knows nothing of what a public function promises,
 * which is left to api/.
 */
#ifndef BEEST_CONTEXT_H
#define BEEST_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/core/client.h"
#include "lib/rendezvous/barrier.h"
#include "lib/rendezvous/registry.h"
#include "lib/verbs/objects.h"
#include "lib/verbs/device.h"
#include "lib/verbs/event.h"
#include "lib/verbs/mr.h"
#include "lib/verbs/port.h"
#include "lib/verbs/qp.h"
#include "lib/settings/launch.h"
#include "lib/base/log.h"
#include "lib/settings/options.h"
#include "lib/path/pathcache.h"
#include "lib/base/table.h"

struct hartebeest_context {
	struct beest_options options;
	struct beest_launch launch;
	struct beest_gid_policy policy;
	struct beest_log log;
	uint64_t said[BEEST_LOG_SAID];
	struct beest_cancel cancel;
	pid_t pid;			/* a forked child must not touch inherited objects */

	pthread_mutex_t opening;	/* held while device or registry is opened */
	struct beest_device device;
	bool device_open;
	bool borrows;			/* device and events belong to the program */
	struct beest_events events;	/* valid while device_open */
	struct beest_port port;		/* valid while device_open */
	bool identified;		/* the two that follow are known */
	struct beest_incarnation incarnation;
	struct beest_seal *seal;	/* of records and exports; NULL: the job has no secret */
	struct beest_registry *registry;
	char servers_origin[BEEST_ORIGIN_SIZE];	/* for sentences of the registry */
	/* Opened by the original's interface: never confirms, and publishes in haste. */
	bool unconfirmed;
	struct beest_membership membership;	/* of the barriers */
	struct beest_client client;	/* requests for services */
	struct beest_pathcache pathcache;	/* used where device.resolver is rdmacm */

	struct beest_table objects;
};

/*
 * Has each log begin with this level and function, before any setting is read; @write NULL: with
 * the values of the settings.
 */
void beest_context_log_default(int level, void (*write)(void *data, int level, const char *text),
			       void *data);

/*
 * Fails as hartebeest_open(3) documents.  @defaults, @arguments: as for beest_options_load().
 * @verbs: the program's own, of which @port is used; NULL: the library opens a device when it
 * needs one.
 */
int beest_context_open(struct hartebeest_context **hb, const char *const *defaults,
		       const char *const *arguments, struct ibv_context *verbs, int port);
int beest_context_close(struct hartebeest_context *hb);

/*
 * Withdraws all records, and leaves everything else to the kernel: nothing is destroyed or freed.
 * For the end of the process, while other threads may be using the context and its objects.
 */
void beest_context_leave(struct hartebeest_context *hb);

/* How long a call waits that has no deadline of its own. */
struct beest_limit beest_context_limit(struct hartebeest_context *hb);

/*
 * Opens the device at the first call.  hb->device and hb->port can be used afterwards.  Waits for a
 * port that is down, within @limit; NULL: beest_context_limit().
 */
int beest_context_need_device(struct hartebeest_context *hb, const struct beest_limit *limit);

bool beest_context_has_device(struct hartebeest_context *hb);

/* Why requests to a peer that is gone never fail, and the cure; NULL: they do fail. */
const char *beest_context_endless(const struct hartebeest_context *hb);

/* The same for hb->events.  -EOPNOTSUPP: the program reads events itself. */
int beest_context_need_events(struct hartebeest_context *hb);

/* A negative errno with a sentence if a wait must end before its deadline; else 0. */
int beest_context_interrupt(void *context);

/*
 * Draws the incarnation and reads the secret at the first call, for what needs no server.  -EPERM:
 * in a forked child; errors of beest_secret_read().
 */
int beest_context_need_identity(struct hartebeest_context *hb);

/*
 * Opens the registry at the first call.  hb->registry can be used afterwards.
 * -EDESTADDRREQ: no server is named; -EPERM: in a forked child.  @kind and @wanted: what
 * needs the registry, for the sentence of a failure; NULL: the caller adds that.
 */
int beest_context_need_registry(struct hartebeest_context *hb, enum beest_record_kind kind,
				const char *wanted);

/* Each finds an object by its name.  The sentence of -ENOENT has the nearest name. */
int beest_context_find_cq(struct hartebeest_context *hb, const char *name, struct beest_cq **cq);
int beest_context_find_mr(struct hartebeest_context *hb, const char *name, struct beest_mr **mr);
int beest_context_find_pd(struct hartebeest_context *hb, const char *name, struct ibv_pd **pd);
int beest_context_find_qp(struct hartebeest_context *hb, const char *name, struct beest_qp **qp);
int beest_context_find_srq(struct hartebeest_context *hb, const char *name, struct ibv_srq **srq);

/* Finds the object of a completion queue of libibverbs.  -ENOENT: not of this context. */
int beest_context_cq(struct hartebeest_context *hb, const struct ibv_cq *verbs,
		     struct beest_cq **cq);

/*
 * Called before an object of the program gets a name.  Errors of
 * beest_table_name_available(); -EXDEV: it was made on other @verbs than the context's;
 * -EALREADY: it has a name.
 */
int beest_context_adoptable(struct hartebeest_context *hb, const struct beest_kind *kind,
			    const char *name, const struct ibv_context *verbs,
			    const void *handle);

/*
 * Gives a name to what the library made: for kinds that keep nothing but @handle and at most one
 * handle that it needs.  As beest_table_add(); a failure destroys it.
 */
int beest_context_add(struct hartebeest_context *hb, const struct beest_kind *kind,
		      const char *name, void *handle, const void *need);

/* The same for what the program made and will destroy; errors of beest_context_adoptable(). */
int beest_context_adopt(struct hartebeest_context *hb, const struct beest_kind *kind,
			const char *name, const struct ibv_context *verbs, void *handle,
			const void *need);

/*
 * As beest_table_destroy(), and then withdraws what was published of the object.  An object
 * that cannot be destroyed (-EBUSY) stays published.
 */
int beest_context_destroy(struct hartebeest_context *hb, const struct beest_kind *kind,
			  const char *name);

/*
 * Requests that @who may have under way from now on, or (negative) no longer, and whose completions
 * @queue gets.  Warns if these become more than the queue has entries, once a queue: what overflows
 * is lost.
 */
void beest_context_load(struct hartebeest_context *hb, const struct ibv_cq *queue,
			int64_t requests, const char *who);

/* As beest_table_add(), and counts the requests of the queue pair. */
int beest_context_add_qp(struct hartebeest_context *hb, const char *name, struct beest_qp *qp);

/* The caller holds the lock of hb->objects.  NULL: not of this context. */
const struct beest_qp *beest_context_qp_by_number(const struct hartebeest_context *hb,
						  uint32_t qp_num);

#endif
