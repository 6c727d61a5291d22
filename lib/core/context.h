/* SPDX-License-Identifier: MIT */
/*
 * context.h - struct hartebeest: settings, device, board and named objects
 *
 * Owns all of them, and opens device and board when they are first needed.  Knows
 * nothing of what a public function promises: api.c does.
 */
#ifndef BEEST_CONTEXT_H
#define BEEST_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/rendezvous/board.h"
#include "lib/verbs/device.h"
#include "lib/verbs/event.h"
#include "lib/settings/launch.h"
#include "lib/base/log.h"
#include "lib/settings/options.h"
#include "lib/path/pathcache.h"
#include "lib/base/table.h"

struct hartebeest {
	struct beest_options options;
	struct beest_launch launch;
	struct beest_gid_policy policy;
	struct beest_log log;
	pid_t pid;			/* a forked child must not touch inherited objects */

	pthread_mutex_t opening;	/* covers device and board while they are opened */
	struct beest_device device;
	bool device_open;
	struct beest_events events;	/* while device_open */
	struct beest_board *board;
	struct beest_pathcache router;	/* used where device.resolver is rdmacm */

	pthread_mutex_t naming;		/* covers objects; never held while one is made or
					   connected, nor while talking to a server */
	struct beest_table objects;
};

/* All kinds of failure as hartebeest_open(3) documents them. */
int beest_context_open(struct hartebeest **hb, const char *const *arguments);
void beest_context_close(struct hartebeest *hb);

/* The device, opened at the first call. */
int beest_context_device(struct hartebeest *hb, const struct beest_device **device);

bool beest_context_has_device(struct hartebeest *hb);

/* Its events, once it is open.  -EOPNOTSUPP: left to the program. */
int beest_context_events(struct hartebeest *hb, struct beest_events **events);

/* The board, opened at the first call.  -EDESTADDRREQ when no server is named. */
int beest_context_board(struct hartebeest *hb, struct beest_board **board);

/* NULL: the path to a peer comes from its record. */
struct beest_pathcache *beest_context_pathcache(struct hartebeest *hb);

/* Objects by name, under the lock. */
int beest_context_find(struct hartebeest *hb, const struct beest_kind *kind,
		       const char *name, struct beest_node **node);
/* Asked before things are made: -EEXIST, or -EINVAL for an impossible name. */
int beest_context_name_available(struct hartebeest *hb, const struct beest_kind *kind,
				 const char *name);

/* Destroys @node if its name has been taken meanwhile. */
int beest_context_add(struct hartebeest *hb, const struct beest_kind *kind,
		      const char *name, struct beest_node *node);
int beest_context_destroy(struct hartebeest *hb, const struct beest_kind *kind,
			  const char *name);

#endif
