/* SPDX-License-Identifier: MIT */
/*
 * service.h - peers that nobody listed: who serves, and who wants to be served
 *
 * Owns the numbered requests on the server: how a client appends one, which of them a
 * listener has had, and how either end leaves.  Knows nothing of queue pairs but the keys
 * under which both ends will publish theirs.
 */
#ifndef BEEST_SERVICE_H
#define BEEST_SERVICE_H

#include <pthread.h>
#include <stdint.h>

#include "include/hartebeest.h"
#include "lib/base/table.h"

/* Services that this context listens to, by name. */
extern const struct beest_kind beest_service_kind;

/* Requests of this context that stand. */
struct beest_services {
	pthread_mutex_t lock;
	struct beest_standing *standing;
	struct beest_standing *moving;	/* is being appended again */
	uint32_t drawn;			/* ids until now */
};

void beest_services_start(struct beest_services *services);
void beest_services_end(struct beest_services *services);

/*
 * Appends again what stood on a server that has lost everything.  Called by whoever waits
 * in vain; costs nothing where nothing is to be done.
 */
void beest_services_move(struct beest_services *services);

/* Each promises what its namesake does in hartebeest.h. */
int beest_service_listen(struct hartebeest_context *hb, const char *name, const struct beest_limit *limit);
int beest_service_accept(struct hartebeest_context *hb, const char *name,
			 struct hartebeest_request *request, const struct beest_limit *limit);
int beest_service_request(struct hartebeest_context *hb, const char *name, const void *data,
			  size_t length, struct hartebeest_request *request, const struct beest_limit *limit);
int beest_service_leave(struct hartebeest_context *hb, const char *name,
			const struct hartebeest_request *request);

#endif
