/* SPDX-License-Identifier: MIT */
/*
 * directory.h - the service directory: where all of one service is kept
 *
 * Owns the keys of a service: those of its list, of its requests and of both ends of each, and
 * what the list contains.  All of it is on the server of the list.  Knows neither which
 * requests there are nor who was served.
 */
#ifndef BEEST_DIRECTORY_H
#define BEEST_DIRECTORY_H

#include "include/hartebeest.h"
#include "lib/core/requests.h"
#include "lib/rendezvous/wait.h"

#define BEEST_DIRECTORY_NAME_MAX 64

struct beest_directory {
	struct beest_registry *registry;
	char service[BEEST_DIRECTORY_NAME_MAX + 1];
	struct beest_list list;
};

/* -EINVAL: no service can have this name. */
int beest_directory_check(const char *name);

/* @name has passed that check.  Errors of beest_registry_key(). */
int beest_directory_find(struct beest_directory *directory, struct beest_registry *registry,
			 const char *name);
void beest_directory_end(struct beest_directory *directory);

/* The random bits of a context, which its requests have in their ids. */
uint64_t beest_directory_client(const struct beest_incarnation *incarnation);

/* The id of a request as its ends see it. */
struct beest_request_id beest_directory_id(const struct hartebeest_client *request);

/* The key of the request with this id. */
void beest_directory_key(const struct beest_directory *directory, const struct beest_request_id *id,
			 char key[BEEST_KEY_MAX + 1]);

/* The keys under which the two ends of a request publish their queue pairs. */
void beest_directory_ends(const struct beest_directory *directory,
			  const struct beest_request_id *id,
			  char client[HARTEBEEST_SERVICE_KEY], char server[HARTEBEEST_SERVICE_KEY]);

/* Is this context the author? */
bool beest_directory_is_own(const struct beest_directory *directory,
			    const struct beest_incarnation *author);

/* The part of a wait that appends this context's entries, and reads the list. */
void beest_directory_wait(struct beest_directory *directory, struct beest_wait *wait,
			  struct beest_wait_get *get,
			  int (*see_list)(void *data, const struct beest_kv_value *value),
			  void *data);

/* Appends an entry about one request, or about several. */
int beest_directory_say(struct beest_directory *directory, const struct beest_service_body *body);
int beest_directory_say_one(struct beest_directory *directory, enum beest_service_word word,
			    const struct beest_request_id *id);

/* As beest_requests_see(), for a look that has appended entries: also finds a full list. */
int beest_directory_see(struct beest_directory *directory, struct beest_requests *requests,
			const struct beest_kv_value *value);

/* The sentence that the list is full, how large it is, and what helps; "": it is not full. */
#define BEEST_DIRECTORY_FULL 256
const char *beest_directory_full(const struct beest_directory *directory,
				 const struct beest_requests *requests,
				 char text[BEEST_DIRECTORY_FULL]);

/*
 * Stores the list again, shorter: of ended requests it keeps nothing, of others only their ids.
 * Best effort: if it was changed meanwhile, it stays as it is.  @tell adds what the process knows
 * of the requests and the list lacks; NULL: nothing.
 */
void beest_directory_compact(struct beest_directory *directory,
			     void (*tell)(void *data, const struct beest_directory *directory,
					  struct beest_requests *requests), void *data);

#endif
