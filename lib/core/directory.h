/* SPDX-License-Identifier: MIT */
/*
 * home.h - where all of one service is kept
 *
 * Owns the keys of a service: those of its list, of its requests and of both ends of each, and
 * what is said in the list.  All of it is on the server of the list.  Knows neither which
 * requests there are nor who was served.
 */
#ifndef BEEST_HOME_H
#define BEEST_HOME_H

#include "include/hartebeest.h"
#include "lib/core/roster.h"
#include "lib/rendezvous/wait.h"

#define BEEST_HOME_NAME_MAX 64

struct beest_home {
	struct beest_registry *registry;
	char service[BEEST_HOME_NAME_MAX + 1];
	struct beest_list list;
};

/* -EINVAL: no service can have this name. */
int beest_home_check(const char *name);

/* @name has passed that check.  Errors of beest_registry_key(). */
int beest_home_find(struct beest_home *home, struct beest_registry *registry, const char *name);
void beest_home_end(struct beest_home *home);

/* The random bits of a context, which its requests have in their ids. */
uint64_t beest_home_client(const struct beest_incarnation *incarnation);

/* The id of a request as its ends see it. */
struct beest_request_id beest_home_id(const struct hartebeest_client *request);

/* The key of the request with this id. */
void beest_home_key(const struct beest_home *home, const struct beest_request_id *id,
		    char key[BEEST_KEY_MAX + 1]);

/* The keys under which the two ends of a request publish their queue pairs. */
void beest_home_ends(const struct beest_home *home, const struct beest_request_id *id,
		     char client[HARTEBEEST_SERVICE_KEY], char server[HARTEBEEST_SERVICE_KEY]);

/* Is this context the author? */
bool beest_home_is_own(const struct beest_home *home, const struct beest_incarnation *author);

/* The part of a wait that appends what is said, and reads the list. */
void beest_home_wait(struct beest_home *home, struct beest_wait *wait, struct beest_wait_get *get,
		     int (*see_list)(void *data, const struct beest_kv_value *value), void *data);

/* Says something of one request, or of several. */
int beest_home_say(struct beest_home *home, const struct beest_service_body *body);
int beest_home_say_one(struct beest_home *home, enum beest_service_word word,
		       const struct beest_request_id *id);

/* As beest_roster_see(), for a look that has appended what was said: also finds a full list. */
int beest_home_see(struct beest_home *home, struct beest_roster *roster,
		   const struct beest_kv_value *value);

/* Says that the list is full, how large it is, and what helps; "": it is not full. */
#define BEEST_HOME_FULL 256
const char *beest_home_full(const struct beest_home *home, const struct beest_roster *roster,
			    char text[BEEST_HOME_FULL]);

/*
 * Stores the list again, shorter: of ended requests it keeps nothing, of others only their ids.
 * Best effort: if it was changed meanwhile, it stays as it is.  @tell adds what the process knows
 * of the requests and the list does not say; NULL: nothing.
 */
void beest_home_compact(struct beest_home *home,
			void (*tell)(void *data, const struct beest_home *home,
				     struct beest_roster *roster), void *data);

#endif
