/* SPDX-License-Identifier: MIT */
/* unmet.c - see unmet.h */
#include "config.h"

#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/rendezvous/inquiry.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/unmet.h"
#include "lib/rendezvous/watch.h"

/* Missing records that a sentence names, at most: keys are long. */
#define NAMED_MAX 3

/* Room for a name and a key. */
#define WANTED_SIZE (2 * BEEST_KEY_MAX + 64)

/* -------------------------------------------------------------- what is wanted --- */

int beest_unmet_say(struct beest_registry *registry, const struct beest_wait *wait,
		   const struct beest_wait_get *get, char *text, size_t size)
{
	const char *noun = beest_waiting_noun(get);
	char why[BEEST_KV_WHY];
	int ret = beest_look_trouble(registry, get->server, wait->since, why);

	if (ret < 0) {
		beest_text_copy(text, size, why);
		return ret;
	}
	if (get->seen < 0)
		snprintf(text, size, "%s '%s' (key %s): %s", noun, get->name, get->key,
			 get->trouble);
	else if (get->seen && get->trouble[0])
		snprintf(text, size, "%s '%s' (key %s) was published %s", noun, get->name,
			 get->key, get->trouble);
	else if (get->seen)
		snprintf(text, size, "%s '%s' (key %s) was published, but %s", noun, get->name,
			 get->key, get->unmet ? get->unmet : "is not accepted");
	else if (get->answered)
		snprintf(text, size, "no %s '%s' (key %s) was published", noun, get->name,
			 get->key);
	else
		snprintf(text, size, "nothing is known of %s '%s' (key %s) yet", noun, get->name,
			 get->key);

	return get->seen < 0 ? get->seen :
	       -beest_limit_errno(wait->limit);
}

/* Names the first record that is still wanted, for the end of a sentence about a server. */
static void wanted_say(const struct waiting *w, char *text, size_t size)
{
	const struct beest_wait_get *get = beest_waiting_missing(w);
	const char *key = beest_waiting_unstored(w);

	text[0] = '\0';
	if (get)
		snprintf(text, size, "; wanted: %s '%s' (key %s)", beest_waiting_noun(get),
			 get->name, get->key);
	else if (key)
		snprintf(text, size, "; to be stored: key %s", key);
}

int beest_unmet_add(const struct waiting *w, int ret)
{
	char wanted[WANTED_SIZE];

	wanted_say(w, wanted, sizeof(wanted));

	return beest_fail(-ret, "%s%s", beest_error_text(), wanted);
}

/* -------------------------------------------------- why the wait has ended in vain --- */

static size_t own_server(const struct waiting *w, const char *key)
{
	return key ? beest_kv_server_of(w->registry->kv, key) : 0;
}

/* The failure of a server that a missing record needs; it explains everything else. */
static int server_failure(const struct waiting *w, char why[BEEST_KV_WHY])
{
	const struct beest_wait *wait = w->wait;
	size_t i;
	int ret = 0;

	for (i = 0; i < wait->count && ret >= 0; i++)
		if (!wait->gets[i].got)
			ret = beest_look_trouble(w->registry, wait->gets[i].server, wait->since,
						 why);
	for (i = 0; i < wait->own_count && ret >= 0; i++)
		if (!beest_waiting_is_stored(w, i))
			ret = beest_look_trouble(w->registry, own_server(w, wait->own_keys[i]),
						 wait->since, why);

	return ret;
}

/* Two processes that publish under one key overwrite each other, and no peer finds both. */
static void rivals_say(const struct waiting *w, struct beest_text *text)
{
	const struct beest_wait *wait = w->wait;
	size_t i;

	for (i = 0; i < wait->own_count; i++)
		if (beest_lease_is(w->registry->leases, wait->own_keys[i],
				   BEEST_LEASE_CONTESTED)) {
			beest_text_item(text, "another process publishes its own record under key "
					"%s, too", wait->own_keys[i]);
			return;
		}
}

/* What only makes the sentence better takes no time beyond that of the last look. */
static int64_t ask_until(const struct waiting *w)
{
	return BEEST_MIN(w->until, beest_clock_deadline(BEEST_INQUIRY_TIME));
}

/* ------------------------------------------------------- who has ended, and other hints --- */

/* Names the author of a record that is not accepted.  False: none is known, or it may be alive. */
static bool author_has_ended(struct beest_registry *registry, const struct beest_wait_get *get,
			     char who[BEEST_PRESENCE_TEXT])
{
	return !get->got && get->has_author && get->seen >= 0 &&
	       beest_presence_is_over(registry, get->rank, &get->author, who);
}

/* Adds other possible reasons why nothing arrived. */
static void suspicions_say(const struct waiting *w, const struct beest_wait_get *first,
			   struct beest_text *text)
{
	struct beest_registry *registry = w->registry;
	size_t server = first ? first->server : own_server(w, beest_waiting_unstored(w));
	bool asks = beest_inquiry_fits(w->wait->limit) && beest_clock_left(w->until);
	bool missing = first && first->seen == 0;
	bool others_are_here = false;
	char said[BEEST_KV_WHY], who[BEEST_PRESENCE_TEXT];

	if (asks && first && !first->trouble[0] && author_has_ended(registry, first, who))
		beest_text_item(text, "it is of %s", who);
	rivals_say(w, text);
	/* At one that answers slowly, a question would bring no answer in time. */
	if (beest_look_speed_say(registry, server, w->wait->limit->began, w->bytes, text))
		asks = false;
	if (asks)
		beest_inquiry_server(registry, server, missing ? first->kind : BEEST_KIND_ANY,
				     ask_until(w), text);
	beest_look_loss_say(registry, server, w->wait->since, text);
	if (beest_look_trouble(registry, server, w->wait->since, said))
		beest_text_item(text, "meanwhile it failed: %s", said);
	if (asks && missing && registry->explain)
		registry->explain(registry->data, first->name, text);
	if (asks && missing)
		others_are_here = beest_inquiry_ranks(registry, ask_until(w), text);
	beest_registry_suspicion(registry, missing && !others_are_here ? "both sides" : NULL, text);
}

int beest_unmet_fail(struct waiting *w, const struct beest_limit *limit)
{
	const struct beest_wait *wait = w->wait;
	const struct beest_wait_get *get, *first = NULL;
	char why[BEEST_KV_WHY], more[48] = "";
	char wanted[WANTED_SIZE];
	int class, failed, ret = -beest_limit_errno(w->wait->limit);
	struct beest_text list = BEEST_TEXT(700), own = BEEST_TEXT(600);
	struct beest_text *hints = wait->hints ? wait->hints : &own;
	size_t i, missing = 0;

	wanted_say(w, wanted, sizeof(wanted));
	failed = server_failure(w, why);
	if (failed < 0)
		return beest_fail(-failed, "%s%s%s", BEEST_LIMIT_TEXT(limit, "tried for"), why,
				  wanted);
	failed = beest_watch_compare(w);
	if (failed < 0)
		return beest_unmet_add(w, failed);

	for (class = 0; class < 3; class++)
		for (i = 0; i < wait->count; i++) {
			get = &wait->gets[i];
			if (get->got || class != (get->seen < 0 ? 2 : get->seen))
				continue;
			failed = beest_unmet_say(w->registry, wait, get, why, sizeof(why));
			ret = first ? ret : failed;
			first = first ? first : get;
			if (missing++ < NAMED_MAX)
				beest_text_add(&list, "%s%s", missing > 1 ? ", " : "", why);
		}
	if (missing > NAMED_MAX)
		snprintf(more, sizeof(more), " and %zu more", missing - NAMED_MAX);
	suspicions_say(w, first, hints);

	return beest_fail(-ret, "%s%s%s%s; %s", BEEST_LIMIT_TEXT(limit, "after"),
			  first ? list.buffer : "not all own records are stored", more,
			  first ? "" : wanted, hints->buffer);
}

bool beest_unmet_log(const struct waiting *w)
{
	const struct beest_wait *wait = w->wait;
	char who[BEEST_PRESENCE_TEXT];
	size_t i, asked = 0;

	if (wait->ended_log)
		return wait->ended_log(wait->data);
	for (i = 0; i < wait->count && asked < NAMED_MAX; i++) {
		asked += wait->gets[i].has_author && !wait->gets[i].got;
		if (!author_has_ended(w->registry, &wait->gets[i], who))
			continue;
		beest_log(w->registry->log, BEEST_LOG_WARN, "still waiting for %s '%s' (key %s) of "
			  "%s", beest_waiting_noun(&wait->gets[i]), wait->gets[i].name,
			  wait->gets[i].key, who);
		return true;
	}

	return false;
}
