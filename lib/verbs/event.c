/* SPDX-License-Identifier: MIT */
/* event.c - see event.h */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/lock.h"
#include "lib/verbs/event.h"

enum scope { DEVICE, PORT, QUEUE_PAIR, COMPLETIONS, RECEIVES };

static const struct kind {
	enum ibv_event_type type;
	enum scope scope;
	int level;
	const char *name, *meaning;
} event_kinds[] = {
#define KIND(type, scope, level, meaning) \
	{ IBV_EVENT_##type, scope, BEEST_LOG_##level, #type, meaning }
	KIND(DEVICE_FATAL, DEVICE, WARN, "a fatal error: it no longer works"),
	KIND(PORT_ERR, PORT, WARN, "it went down"),
	KIND(PORT_ACTIVE, PORT, INFO, "it is active"),
	KIND(LID_CHANGE, PORT, WARN, "its LID changed: published records have the old one"),
	KIND(GID_CHANGE, PORT, WARN, "its GID table changed: published records may have an "
	     "address that is gone"),
	KIND(PKEY_CHANGE, PORT, WARN, "its P_Key table changed: a partition may be gone"),
	KIND(SM_CHANGE, PORT, INFO, "its subnet manager changed"),
	KIND(CLIENT_REREGISTER, PORT, INFO, "its subnet manager asks to register again"),
	KIND(QP_FATAL, QUEUE_PAIR, WARN, "an error that no completion reports"),
	KIND(QP_REQ_ERR, QUEUE_PAIR, WARN, "an invalid request arrived from the peer"),
	KIND(QP_ACCESS_ERR, QUEUE_PAIR, WARN, "the peer asked for memory that it may not access"),
	KIND(COMM_EST, QUEUE_PAIR, INFO, "its first message arrived"),
	KIND(SQ_DRAINED, QUEUE_PAIR, INFO, "its send queue is drained"),
	KIND(PATH_MIG, QUEUE_PAIR, INFO, "it changed to its alternate path"),
	KIND(PATH_MIG_ERR, QUEUE_PAIR, WARN, "it could not change to its alternate path"),
	KIND(QP_LAST_WQE_REACHED, QUEUE_PAIR, INFO, "its last receive was taken"),
	KIND(CQ_ERR, COMPLETIONS, WARN, "it overflowed: completions are lost"),
	KIND(SRQ_ERR, RECEIVES, WARN, "an error: it takes no more receives"),
	KIND(SRQ_LIMIT_REACHED, RECEIVES, INFO, "it is running low"),
	KIND(WQ_FATAL, DEVICE, WARN, "a work queue of the program has a fatal error"),
#undef KIND
	/* IBV_EVENT_DEVICE_SPEED_CHANGE of rdma-core 63 */
	{ IBV_EVENT_WQ_FATAL + 1, DEVICE, BEEST_LOG_INFO, "DEVICE_SPEED_CHANGE", "the speed of a "
	  "link has changed" },
	{ 0, DEVICE, BEEST_LOG_WARN, "unknown", "an unknown event" },	/* all others */
};

void beest_events_start(struct beest_events *events, const struct beest_device *device,
			const struct beest_log *log)
{
	memset(events, 0, sizeof(*events));
	events->device = device;
	events->log = log;
	events->epoll = events->ready = -1;
	pthread_mutex_init(&events->lock, NULL);
}

static void events_close(struct beest_events *events)
{
	if (events->epoll >= 0)
		close(events->epoll);
	if (events->ready >= 0)
		close(events->ready);
	events->epoll = events->ready = -1;
}

void beest_events_end(struct beest_events *events)
{
	events_close(events);
	pthread_mutex_destroy(&events->lock);
}

/* ------------------------------------------------- under the lock: the queue --- */

static void queue_set_ready(struct beest_events *events, bool ready)
{
	uint64_t number = 1;
	ssize_t size;

	if (events->ready < 0)
		return;

	size = ready ? write(events->ready, &number, sizeof(number)) :
		       read(events->ready, &number, sizeof(number));
	(void)size;			/* on failure it was so already */
}

/*
 * Is @event the same as the newest event kept of its subject?  A completion queue that
 * overflowed may report that again and again, and would leave no room for others.  The
 * subject of an event without port and queue pair shows in its text only, so all such
 * events are compared.
 */
static bool queue_has(const struct beest_events *events, const struct hartebeest_event *event)
{
	const struct hartebeest_event *kept;
	unsigned int i;

	for (i = events->count; i > 0; i--) {
		kept = &events->queue[(events->first + i - 1) % BEEST_EVENTS_MAX];
		if (kept->port != event->port || kept->qp_num != event->qp_num)
			continue;
		if (!strcmp(kept->text, event->text))
			return true;
		if (event->port || event->qp_num)
			return false;
	}

	return false;
}

/* A full queue drops its oldest event.  device_gone, down_since and changes keep its effect. */
static void queue_push(struct beest_events *events, const struct hartebeest_event *event)
{
	if (events->count == BEEST_EVENTS_MAX) {
		events->first = (events->first + 1) % BEEST_EVENTS_MAX;
		events->count--;
	}
	events->queue[(events->first + events->count++) % BEEST_EVENTS_MAX] = *event;
	queue_set_ready(events, true);
}

static bool queue_pop(struct beest_events *events, struct hartebeest_event *event)
{
	if (events->count == 0)
		return false;

	*event = events->queue[events->first];
	events->first = (events->first + 1) % BEEST_EVENTS_MAX;
	if (--events->count == 0)
		queue_set_ready(events, false);
	return true;
}

/* ------------------------------------------------------------- reading one --- */

static const struct kind *kind_of(enum ibv_event_type type)
{
	size_t i = 0;

	while (i < BEEST_COUNT(event_kinds) - 1 && event_kinds[i].type != type)
		i++;
	return &event_kinds[i];
}

/* Must not block: another reader may take the event after poll(2) has seen it. */
static bool event_read_raw(const struct beest_events *events, struct ibv_async_event *raw)
{
	struct ibv_context *verbs = events->device->verbs;
	struct pollfd waiting = { .fd = verbs->async_fd, .events = POLLIN };
	int flags, ret;

	if (verbs->async_fd < 0 || poll(&waiting, 1, 0) <= 0 || !(waiting.revents & POLLIN))
		return false;

	flags = fcntl(verbs->async_fd, F_GETFL);
	fcntl(verbs->async_fd, F_SETFL, flags | O_NONBLOCK);
	ret = ibv_get_async_event(verbs, raw);
	fcntl(verbs->async_fd, F_SETFL, flags);
	return ret == 0;
}

/* @handle: of a completion queue or shared receive queue; NULL: the event is of neither. */
static void event_subject(const struct beest_events *events, const struct kind *kind,
			  const struct hartebeest_event *event, const void *handle, char *text,
			  size_t size)
{
	if (kind->scope == PORT)
		snprintf(text, size, "port %s:%d", events->device->name, event->port);
	else if (kind->scope == QUEUE_PAIR)
		snprintf(text, size, "queue pair number %u", event->qp_num);
	else
		snprintf(text, size, "%sdevice %s", kind->scope == COMPLETIONS ?
			 "a completion queue of " : kind->scope == RECEIVES ?
			 "a shared receive queue of " : "", events->device->name);
	if (handle || event->qp_num)
		events->describe(events->data, event->qp_num, handle, text, size);
}

/* event->port is 0 for an event of no port, and then matches no device's port. */
static void event_conclude(struct beest_events *events, struct hartebeest_event *event)
{
	bool own = event->port == events->device->port;
	bool down = event->type == IBV_EVENT_PORT_ERR && own;
	bool gone = event->type == IBV_EVENT_DEVICE_FATAL;

	events->changes += own;
	events->device_gone |= gone;
	if (down && !events->down_since)
		events->down_since = beest_clock_now();
	if (event->type == IBV_EVENT_PORT_ACTIVE && own)
		events->down_since = 0;
	event->fatal = gone;
}

static bool events_read_one(struct beest_events *events)
{
	struct hartebeest_event event = { 0 };
	char subject[BEEST_ERROR_SIZE / 4];
	const void *handle = NULL;
	struct ibv_async_event raw;
	const struct kind *kind;

	if (!event_read_raw(events, &raw))
		return false;

	/* Once the event is acknowledged, its object may be destroyed: read from it before. */
	kind = kind_of(raw.event_type);
	event.type = raw.event_type;
	if (kind->scope == PORT)
		event.port = raw.element.port_num;
	if (kind->scope == QUEUE_PAIR)
		event.qp_num = raw.element.qp->qp_num;
	if (kind->scope == COMPLETIONS)
		handle = raw.element.cq;
	if (kind->scope == RECEIVES)
		handle = raw.element.srq;
	ibv_ack_async_event(&raw);
	event_conclude(events, &event);
	event_subject(events, kind, &event, handle, subject, sizeof(subject));
	snprintf(event.text, sizeof(event.text), "%.150s: %s (%s)", subject, kind->meaning,
		 kind->name);
	if (queue_has(events, &event))
		return true;
	queue_push(events, &event);
	beest_log(events->log, kind->level, "%s", event.text);
	return true;
}

/* ------------------------------------------------------------ the interface --- */

static int events_make_fd(struct beest_events *events)
{
	struct epoll_event wanted = { .events = EPOLLIN };
	int err, device = events->device->verbs->async_fd;

	events->epoll = epoll_create1(EPOLL_CLOEXEC);
	events->ready = eventfd(events->count > 0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (events->epoll >= 0 && events->ready >= 0 &&
	    epoll_ctl(events->epoll, EPOLL_CTL_ADD, events->ready, &wanted) == 0 &&
	    (device < 0 || epoll_ctl(events->epoll, EPOLL_CTL_ADD, device, &wanted) == 0))
		return 0;

	err = errno;
	events_close(events);
	return beest_fail_errno(-err, "no file descriptor for events of device %s",
				events->device->name);
}

int beest_events_fd(struct beest_events *events)
{
	int ret = 0;
	BEEST_HOLD(&events->lock);

	if (events->epoll < 0)
		ret = events_make_fd(events);
	return ret < 0 ? ret : events->epoll;
}

/* Costs one poll(2) when nothing is pending. */
static void events_read_all(struct beest_events *events)
{
	while (events_read_one(events))
		;
}

static bool events_next(struct beest_events *events, struct hartebeest_event *event)
{
	BEEST_HOLD(&events->lock);

	events_read_all(events);
	return queue_pop(events, event);
}

int beest_events_get(struct beest_events *events, struct hartebeest_event *event,
		     const struct beest_limit *limit)
{
	int fd = beest_events_fd(events);

	if (fd < 0)
		return fd;

	while (!events_next(events, event)) {
		if (limit->once)
			return beest_fail(EAGAIN, "no event is pending");
		if (!beest_limit_left(limit))
			return beest_fail(ETIMEDOUT, "%sno event arrived",
					  BEEST_LIMIT_TEXT(limit, "after"));
		if (beest_limit_check(limit) < 0)
			return -ECANCELED;
		beest_limit_poll(limit, fd);
	}

	return 1;
}

uint64_t beest_events_changes(struct beest_events *events)
{
	BEEST_HOLD(&events->lock);

	events_read_all(events);
	return events->changes;
}

int beest_events_check(struct beest_events *events)
{
	BEEST_HOLD(&events->lock);

	events_read_all(events);
	if (events->device_gone)
		return beest_fail(EIO, "device %s reported a fatal error: close the context and "
				  "open another", events->device->name);
	return 0;
}

int64_t beest_events_down(struct beest_events *events)
{
	BEEST_HOLD(&events->lock);

	events_read_all(events);
	return events->down_since ? beest_clock_now() - events->down_since : 0;
}
