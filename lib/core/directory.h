/* SPDX-License-Identifier: MIT */
/*
 * directory.h - the service directory: where all of one service is kept
 *
 * Owns the keys of a service: those of its list, of its requests and of both ends of each, how a
 * call reads and extends the list, and how a list gets shorter.  All of it is on the server of the
 * list.  Knows neither which requests there are nor which were accepted.
 */
#ifndef BEEST_DIRECTORY_H
#define BEEST_DIRECTORY_H

#include "include/hartebeest.h"
#include "lib/core/requests.h"
#include "lib/rendezvous/wait.h"

#define BEEST_DIRECTORY_NAME_MAX 64

#define BEEST_DIRECTORY_FULL 500

struct beest_directory {
	struct beest_registry *registry;
	char service[BEEST_DIRECTORY_NAME_MAX + 1];
	struct beest_list list;
	/* That the list is full, how large it is, and what helps; "": it is not full. */
	char full[BEEST_DIRECTORY_FULL];
	/* What replaces the list that this look has read, if that did not change; NULL: nothing. */
	uint8_t *shorter;
	size_t shorter_size;
	uint64_t unique;
	bool failing;			/* the last run ended because the server failed */
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

/* Of a look that did not do what it was to do at the server; that may answer others by now. */
int beest_directory_failure(const struct beest_directory *directory);

/* Is this context the author? */
bool beest_directory_is_own(const struct beest_directory *directory,
			    const struct beest_incarnation *author);

/* As beest_requests_see(), behind what the look has appended: also finds a full list. */
int beest_directory_see(struct beest_directory *directory, struct beest_requests *requests,
			const struct beest_kv_value *value);

/* Has the looks append an entry about one request, or about several. */
int beest_directory_append(struct beest_directory *directory,
			   const struct beest_service_body *body);
int beest_directory_append_one(struct beest_directory *directory, enum beest_service_word word,
			       const struct beest_request_id *id);

/* Has them append what the list lacks of the requests that it names. */
int beest_directory_append_missing(struct beest_directory *directory,
				   const struct beest_requests *requests);

/*
 * Has this look store a shorter list in place of @value, which @requests has seen last: with the
 * entry of this context, which listens since @since, and the ids of requests that are not over.
 * Best effort: if another process changes the list meanwhile, or there is no memory, it stays
 * as it is.
 */
void beest_directory_shorten(struct beest_directory *directory,
			     const struct beest_requests *requests, uint64_t since,
			     const struct beest_kv_value *value);

/* -------------------------------------------------------------------------- looking --- */

#define BEEST_DIRECTORY_READS 16

struct beest_directory_reads {
	struct beest_request_id ids[BEEST_DIRECTORY_READS];
	size_t count;
	bool hurry;
};

/* What a call does in each look.  A negative errno with a sentence ends the call, 1 succeeds. */
struct beest_directory_steps {
	/* The list, which may be absent. */
	int (*see_list)(void *data, const struct beest_kv_value *value);
	/* The record of a request that the look had to read; NULL: it is absent. */
	int (*see_request)(void *data, const struct beest_request_id *id,
			   const struct beest_record *record);
	/*
	 * Chooses whose records the next look reads, and whether it follows without a pause.  Also
	 * called before the first look.  NULL: the looks read only the list.
	 */
	int (*next)(void *data, struct beest_directory_reads *reads);
	const char *unmet;		/* why the list does not suffice, for the sentence */
};

/*
 * Looks until a step ends the call, or @limit does; errors of beest_wait_run().  A limit that
 * allows one look, or has passed, allows a second one if the first has found a reason.
 */
int beest_directory_run(struct beest_directory *directory, const struct beest_limit *limit,
			const struct beest_directory_steps *steps, void *data);

#endif
