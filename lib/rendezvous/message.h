/* SPDX-License-Identifier: MIT */
/*
 * message.h - keyed messages, and numbers that many processes add to
 *
 * Owns their limits, and how a number begins.  Knows nothing of their content.
 */
#ifndef BEEST_MESSAGE_H
#define BEEST_MESSAGE_H

#include <stddef.h>

#include "include/hartebeest.h"
#include "lib/rendezvous/registry.h"

/* Documented in hartebeest_msg(3): 1 MiB less 2 KiB. */
#define BEEST_MESSAGE_MAX (1024 * 1024 - 2048)

/* Has the contract of hartebeest_msg_push_attr() in hartebeest.h.  @attr: not NULL. */
int beest_message_push(struct beest_registry *registry, const char *key, const void *data,
		       size_t size, const struct hartebeest_msg_attr *attr,
		       const struct beest_limit *limit);
int beest_message_wait(struct beest_registry *registry, const char *key, void *buffer,
		       size_t size, size_t *length, const struct beest_limit *limit);

/* Has the contract of hartebeest_msgs_wait() in hartebeest.h. */
int beest_message_wait_many(struct beest_registry *registry, struct hartebeest_message *first,
			    size_t count, size_t need, const struct beest_limit *limit);

/* -ENOENT: there is no such message. */
int beest_message_delete(struct beest_registry *registry, const char *key,
			 const struct beest_limit *limit);

/* Has the contract of hartebeest_counter_add() in hartebeest.h. */
int beest_message_count(struct beest_registry *registry, const char *name, uint32_t add,
			uint64_t *value, const struct beest_limit *limit);

#endif
