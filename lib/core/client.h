/* SPDX-License-Identifier: MIT */
/*
 * client.h - the requests of this context for services
 *
 * Owns how a request is appended to those of its service, and that it stays stored until
 * its client leaves, whatever its server loses.  Knows nothing of who listens.
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
	struct beest_standing *moving;	/* being appended again; NULL: none */
	uint32_t drawn;			/* the last id of a request; atomic */
};

void beest_client_start(struct beest_client *client);

/* Call before the registry closes, so that it also deletes requests that are under way. */
void beest_client_settle(struct beest_client *client);

void beest_client_end(struct beest_client *client);

/* Does what hartebeest.h promises of hartebeest_service_request(). */
int beest_client_ask(struct hartebeest_context *hb, const char *name, const void *data,
		     size_t length, struct hartebeest_request *request,
		     const struct beest_limit *limit);

/* Withdraws the request whose client's end has that key.  False: there is none. */
bool beest_client_leave(struct beest_client *client, const char *key);

/*
 * Appends again the requests of a server that has lost everything.  Called after each look in
 * vain; costs nothing if there is nothing to do.
 */
void beest_client_move(struct beest_client *client);

#endif
