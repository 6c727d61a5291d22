/* SPDX-License-Identifier: MIT */
/*
 * home.h - where all of one service is kept
 *
 * Owns the keys of a service and what its clients and its listener write there in the same
 * way.  All of them are on the server of the listener's record.  The epoch of that server is
 * part of a request's key: when all is lost, numbers begin at 1 again.  Knows neither who
 * has asked nor who has been heard.
 */
#ifndef BEEST_HOME_H
#define BEEST_HOME_H

#include "include/hartebeest.h"
#include "lib/rendezvous/wait.h"

#define BEEST_HOME_NAME_MAX 64

/* How long a number that was closed stays so. */
#define BEEST_HOME_CLOSED_TTL 60	/* seconds */

struct beest_home {
	struct beest_registry *registry;
	size_t server;
	char service[BEEST_HOME_NAME_MAX + 1];
	char listener_key[BEEST_KEY_MAX + 1];
	char count_key[BEEST_KEY_MAX + 1];	/* of the last number that a client drew */
};

/* -EINVAL: no name; else errors of beest_context_need_registry() and beest_registry_key(). */
int beest_home_find(struct beest_home *home, struct hartebeest_context *hb, const char *name);

/* Of its server, as far as this process knows; 0: not known yet. */
uint64_t beest_home_epoch(const struct beest_home *home);

/* Of the request that has this number. */
void beest_home_key(const struct beest_home *home, uint64_t epoch, uint64_t number,
		    char key[BEEST_KEY_MAX + 1]);

/*
 * Under which the queue pairs of a request's two ends will be: unlike the request's own, they
 * never change.
 */
void beest_home_ends(const struct beest_home *home, const struct beest_incarnation *author,
		     uint32_t id, char client[HARTEBEEST_SERVICE_KEY],
		     char server[HARTEBEEST_SERVICE_KEY]);

bool beest_home_is_own(const struct beest_home *home, const struct beest_record *record);

/* A write that goes with a look. */
struct beest_look_extra beest_home_write(const struct beest_home *home, enum beest_kv_verb verb,
					 const char *key, const void *value, size_t size);

/* The write of a request's record, into @bytes, that says that nobody has the number. */
int beest_home_close(const struct beest_home *home, enum beest_kv_verb verb, const char *key,
		     uint8_t bytes[BEEST_RECORD_EMPTY_MAX], struct beest_look_extra *extra);

/* One reading of the listener's record, by which the server shows that it answers. */
struct beest_home_sight {
	struct beest_listener_body body;	/* zero but for since: none of this epoch */
	bool another;				/* it is of another process */
	uint64_t drawn;				/* number; 0: none was asked for, or counted */
};

/* Counts up as well where @draws; the counter is added where it is not there. */
int beest_home_look(const struct beest_home *home, bool draws, struct beest_home_sight *sight,
		    const struct beest_limit *limit);

#endif
