/* SPDX-License-Identifier: MIT */
/*
 * context.h - struct hartebeest_context: settings, device, registry and named objects
 *
 * Owns settings, rank, log, device, registry and the table of named objects, and
 * opens device and registry when they are first needed.  Knows nothing of what a
 * public function promises: that is api/'s.
 */
#ifndef BEEST_CONTEXT_H
#define BEEST_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/core/authors.h"
#include "lib/core/client.h"
#include "lib/rendezvous/barrier.h"
#include "lib/rendezvous/registry.h"
#include "lib/verbs/cq.h"
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

	pthread_mutex_t opening;	/* covers device and registry while they are opened */
	struct beest_device device;
	bool device_open;
	bool borrows;			/* the device is the program's, and so are its events */
	struct beest_events events;	/* while device_open */
	struct beest_port port;		/* while device_open */
	struct beest_registry *registry;
	struct beest_authors authors;
	bool unconfirmed;		/* the program never confirms: the original's interface */
	struct beest_roll roll;		/* of the barriers */
	struct beest_client client;	/* its requests for services */
	struct beest_pathcache pathcache;	/* used where device.resolver is rdmacm */

	struct beest_table objects;
};

/*
 * All kinds of failure as hartebeest_open(3) documents them.  @presets, @arguments: as for
 * beest_options_load().  @verbs: what the program opened, of which this port is used; NULL: a
 * device is opened when one is needed.
 */
int beest_context_open(struct hartebeest_context **hb, const char *const *presets,
		       const char *const *arguments, struct ibv_context *verbs, int port);
int beest_context_close(struct hartebeest_context *hb);

/* Opens the device at the first call: hb->device and hb->port can be used. */
int beest_context_need_device(struct hartebeest_context *hb);

bool beest_context_has_device(struct hartebeest_context *hb);

/* The same for hb->events.  -EOPNOTSUPP: left to the program. */
int beest_context_need_events(struct hartebeest_context *hb);

/* Why a wait has to end before its deadline; 0: it has not. */
int beest_context_interrupt(void *context);

/*
 * Opens the registry at the first call: hb->registry can be used.  -EDESTADDRREQ when no server
 * is named; -EPERM in a forked child.  @wanted: for the sake of which name, which the sentence
 * of a failure tells; NULL: of none.
 */
int beest_context_need_registry(struct hartebeest_context *hb, const char *wanted);

/* An object of each kind by its name.  -ENOENT names the nearest. */
int beest_context_find_cq(struct hartebeest_context *hb, const char *name, struct beest_cq **cq);
int beest_context_find_mr(struct hartebeest_context *hb, const char *name, struct beest_mr **mr);
int beest_context_find_pd(struct hartebeest_context *hb, const char *name, struct ibv_pd **pd);
int beest_context_find_qp(struct hartebeest_context *hb, const char *name, struct beest_qp **qp);
int beest_context_find_srq(struct hartebeest_context *hb, const char *name, struct ibv_srq **srq);

/* The object around a completion queue of libibverbs; -ENOENT: not of this context. */
int beest_context_cq(struct hartebeest_context *hb, const struct ibv_cq *verbs,
		     struct beest_cq **cq);

/*
 * Asked before an object of the program gets a name: as beest_table_name_available(), -EXDEV
 * (made on other @verbs than those of the context), -EALREADY (has a name).
 */
int beest_context_adoptable(struct hartebeest_context *hb, const struct beest_kind *kind,
			    const char *name, const struct ibv_context *verbs,
			    const void *handle);

/*
 * Gives a name to what the program made and destroys; errors as above.  Of kinds that need no
 * more than the handle, and at most one other.
 */
int beest_context_adopt(struct hartebeest_context *hb, const struct beest_kind *kind,
			const char *name, const struct ibv_context *verbs, void *handle,
			const void *need);

/*
 * As beest_table_destroy(), and then withdraws what was published with this serial number; 0:
 * nothing.  An object that cannot go (-EBUSY) stays published.
 */
int beest_context_destroy_published(struct hartebeest_context *hb,
				    const struct beest_kind *kind, const char *name,
				    uint64_t serial);

/* Under the lock, which the caller holds.  NULL: not of this context. */
const struct beest_qp *beest_context_qp_by_number(const struct hartebeest_context *hb,
						  uint32_t qp_num);

#endif
