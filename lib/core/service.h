/* SPDX-License-Identifier: MIT */
/*
 * service.h - the listener of a service, for clients that are not known in advance
 *
 * Owns which requests the listener has accepted, and how either end closes one.  Those that this
 * context makes are client's.  Knows nothing of queue pairs but the keys under which both ends
 * publish theirs.
 */
#ifndef BEEST_SERVICE_H
#define BEEST_SERVICE_H

#include "include/hartebeest.h"
#include "lib/base/limit.h"

/* Each does what hartebeest.h promises of its namesake. */
int beest_service_listen(struct hartebeest_context *hb, const char *name,
			 const struct beest_limit *limit);
int beest_service_accept(struct hartebeest_context *hb, const char *name,
			 struct hartebeest_client *request, const struct beest_limit *limit);
int beest_service_request(struct hartebeest_context *hb, const char *name, const void *data,
			  size_t length, struct hartebeest_client *request,
			  const struct beest_limit *limit);
int beest_service_leave(struct hartebeest_context *hb, const char *name,
			const struct hartebeest_client *request);
int beest_service_close(struct hartebeest_context *hb, const char *name);

#endif
