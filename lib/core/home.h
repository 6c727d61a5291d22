/* SPDX-License-Identifier: MIT */
/*
 * home.h - where all records of one service are kept
 *
 * Owns the keys of a service, and the writes that its clients and its listener have in
 * common.  All keys are on the server of the listener's record.  A request's key has the
 * epoch of that server: when the server has lost everything, numbers begin at 1 again.
 * Knows neither which requests there are nor which of them were accepted.
 */
#ifndef BEEST_HOME_H
#define BEEST_HOME_H

#include "include/hartebeest.h"
#include "lib/rendezvous/wait.h"

#define BEEST_HOME_NAME_MAX 64

/* How long the record of a closed number is stored. */
#define BEEST_HOME_CLOSED_TTL 60	/* seconds */

struct beest_home {
	struct beest_registry *registry;
	size_t server;
	char service[BEEST_HOME_NAME_MAX + 1];
	char listener_key[BEEST_KEY_MAX + 1];
	char count_key[BEEST_KEY_MAX + 1];	/* the last number that a client drew */
};

/* -EINVAL: a bad name; else errors of beest_context_need_registry() and beest_registry_key(). */
int beest_home_find(struct beest_home *home, struct hartebeest_context *hb, const char *name);

/* The first 8 bytes of its server's epoch, as far as this process knows; 0: not known yet. */
uint64_t beest_home_epoch(const struct beest_home *home);

/* The key of the request with this number. */
void beest_home_key(const struct beest_home *home, uint64_t epoch, uint64_t number,
		    char key[BEEST_KEY_MAX + 1]);

/*
 * The keys under which the two ends of a request publish their queue pairs.  Unlike the key
 * of the request, they never change.
 */
void beest_home_ends(const struct beest_home *home, const struct beest_incarnation *author,
		     uint32_t id, char client[HARTEBEEST_SERVICE_KEY],
		     char server[HARTEBEEST_SERVICE_KEY]);

/* Is this context the author? */
bool beest_home_is_own(const struct beest_home *home, const struct beest_record *record);

/* A write that goes along with a look.  @key and @value must outlive it. */
struct beest_look_extra beest_home_write(const struct beest_home *home, enum beest_kv_verb verb,
					 const char *key, const void *value, size_t size);

/* The write of a closed record, encoded in @bytes: nobody has this number. */
int beest_home_close(const struct beest_home *home, enum beest_kv_verb verb, const char *key,
		     uint8_t bytes[BEEST_RECORD_EMPTY_MAX], struct beest_look_extra *extra);

/* What one look finds. */
struct beest_home_sight {
	struct beest_listener_body body;	/* not of this epoch: zero but for since */
	bool another;				/* another process stored the listener's record */
	uint64_t drawn;				/* the number from the counter; 0: none */
};

/*
 * Reads the listener's record, adds the counter if it is missing and, if @draws, draws a
 * number.  Ends when the server has answered.
 */
int beest_home_look(const struct beest_home *home, bool draws, struct beest_home_sight *sight,
		    const struct beest_limit *limit);

#endif
