/* SPDX-License-Identifier: MIT */
/*
 * client.h - the requests of this context for services
 *
 * Owns how a request is appended to those of its service, and that it stands there until its
 * client leaves, whatever its server loses.  Knows nothing of who listens.
 */
#ifndef BEEST_CLIENT_H
#define BEEST_CLIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "include/hartebeest.h"
#include "lib/base/limit.h"

struct beest_client {
	pthread_mutex_t lock;		/* of all below; not held while talking to a server */
	struct beest_standing *standing;
	struct beest_standing *moving;	/* is being appended again */
	uint32_t drawn;			/* ids until now */
};

void beest_client_start(struct beest_client *client);

/* The registry is about to close: it takes away all requests, also those on their way. */
void beest_client_settle(struct beest_client *client);

void beest_client_end(struct beest_client *client);

/* What hartebeest_service_request() promises. */
int beest_client_ask(struct hartebeest_context *hb, const char *name, const void *data,
		     size_t length, struct hartebeest_request *request,
		     const struct beest_limit *limit);

/* The request whose own end has that key stands no longer; false: there is none. */
bool beest_client_leave(struct beest_client *client, const char *key);

/*
 * Appends again what stood on a server that has lost everything.  Called by whoever waits
 * in vain; costs nothing where nothing is to be done.
 */
void beest_client_move(struct beest_client *client);

#endif
