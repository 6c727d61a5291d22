/* SPDX-License-Identifier: MIT */
/*
 * event.h - what the device reports by itself: port down, device dead, tables changed
 *
 * Owns the queue of events that were read and not yet handed out, and what follows from
 * them: whether the device is gone, since when the port is down, and whether its tables may have
 * changed.
 * There is no thread: every call that waits reads events.  Each is acknowledged as it is
 * read, so that destroying an object never has to wait for that.  An event that an object
 * reports repeatedly is kept once.  Knows no names but those from describe().
 */
#ifndef BEEST_EVENT_H
#define BEEST_EVENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "include/hartebeest.h"
#include "lib/verbs/device.h"
#include "lib/base/limit.h"
#include "lib/base/log.h"

#define BEEST_EVENTS_MAX 64

struct beest_events {
	const struct beest_device *device;
	const struct beest_log *log;
	/*
	 * Writes "queue pair 'name'" for a number, or "completion queue 'name'" for a
	 * handle, and leaves @text alone where it knows neither.  The object of @handle may
	 * already be destroyed.
	 */
	void (*describe)(void *data, uint32_t qp_num, const void *handle, char *text, size_t size);
	void *data;

	pthread_mutex_t lock;		/* covers all below */
	struct hartebeest_event queue[BEEST_EVENTS_MAX];
	unsigned int first, count;
	bool device_gone;
	int64_t down_since;		/* when the port was seen to go down; 0: it is up */
	uint64_t changes;		/* events of this port: its tables may differ now */
	int epoll, ready;		/* for beest_events_fd(); -1: not asked for */
};

/* @device must be open, and outlive @events. */
void beest_events_start(struct beest_events *events, const struct beest_device *device,
			const struct beest_log *log);
void beest_events_end(struct beest_events *events);

/* Readable while there is an event to get.  -EMFILE and other errno of epoll_create(2). */
int beest_events_fd(struct beest_events *events);

/* 1: *event was taken from the queue; -ETIMEDOUT, -EAGAIN: there was none; -ECANCELED. */
int beest_events_get(struct beest_events *events, struct hartebeest_event *event,
		     const struct beest_limit *limit);

/*
 * Reads pending events.  A result that differs from an earlier one: the port's tables may
 * have changed in between.
 */
uint64_t beest_events_changes(struct beest_events *events);

/*
 * Reads pending events, for a caller that waits for something else.  -EIO: the device is gone.  A
 * port that is down may be back before the caller needs it.
 */
int beest_events_check(struct beest_events *events);

/* Reads pending events.  Returns for how long the port is down; 0: no event shows that. */
int64_t beest_events_down(struct beest_events *events);

#endif
