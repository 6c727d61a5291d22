/* SPDX-License-Identifier: MIT */
/* missing.c - see missing.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/rendezvous/inquiry.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/missing.h"

static size_t count_of(const struct beest_missing *missing)
{
	return missing->tally->place.ranks->count;
}

static int id_of(const struct beest_missing *missing, size_t i)
{
	return missing->tally->place.ranks->id[i];
}

static bool is_missing(const struct beest_missing *missing, size_t i)
{
	return i != missing->tally->own.position && !beest_tally_is_here(missing->tally, i);
}

/*
 * A rank that has come and does not know the roll may wait, too, for one that has not come.  So
 * those that have not come are named first, and alone.
 */
static bool is_absent(const struct beest_missing *missing, size_t i)
{
	return is_missing(missing, i) &&
	       !(missing->came && beest_tally_is_here(missing->came, i));
}

/* Those to name: in the order of ranks, for free(3).  NULL: nobody, or no memory. */
static size_t *missing_find(const struct beest_missing *missing, size_t *count)
{
	size_t *found = calloc(count_of(missing), sizeof(*found));
	bool strictly = false;
	size_t i;

	*count = 0;
	for (i = 0; i < count_of(missing); i++)
		strictly |= is_absent(missing, i);
	for (i = 0; i < count_of(missing) && found; i++)
		if (strictly ? is_absent(missing, i) : is_missing(missing, i))
			found[(*count)++] = i;

	return found;
}

void beest_missing_report(const struct beest_missing *missing,
			  void (*report)(void *data, bool known, const int *ids, size_t count),
			  void *data)
{
	size_t i, count, *found = missing_find(missing, &count);
	int *ids = calloc(count + 1, sizeof(*ids));

	for (i = 0; i < count && ids; i++)
		ids[i] = id_of(missing, found[i]);
	if (ids && count)
		report(data, missing->came != NULL, ids, count);
	free(ids);
	free(found);
}

/* ------------------------------------------------------- ranks that will not come --- */

static int judge_answers(const struct beest_presence_query *queries, size_t count,
			 struct beest_incarnation *late, size_t *late_count)
{
	const struct beest_presence_query *first = NULL;
	char who[BEEST_PRESENCE_TEXT];
	size_t i;
	int ret = 0;

	for (i = 0; i < count && ret == 0; i++) {
		if (queries[i].ret > 0)
			ret = beest_presence_ended(queries[i].rank, &queries[i].body);
		if (queries[i].ret != -ESTALE)
			continue;
		first = first ? first : &queries[i];
		late[(*late_count)++] = queries[i].now;
	}
	if (!first || ret < 0)
		return ret;
	beest_presence_text(first->rank, &first->body, who);
	if (*late_count == 1)
		return beest_fail(ESTALE, "%s was started again after the run began", who);

	return beest_fail(ESTALE, "%s and %zu more were started again after the run began", who,
			  *late_count - 1);
}

int beest_missing_judge(const struct beest_missing *missing, const uint8_t *expected,
			size_t stride, size_t *turn, int64_t deadline,
			struct beest_incarnation late[BEEST_MISSING_ASKED], size_t *late_count)
{
	struct beest_presence_query *queries = calloc(BEEST_MISSING_ASKED, sizeof(*queries));
	size_t i, step, asked = 0, count = count_of(missing), begin = *turn;
	int ret;

	*late_count = 0;
	if (!queries)
		return beest_fail(ENOMEM, "no memory to ask for %zu ranks", count);
	for (step = 0; step < count && asked < BEEST_MISSING_ASKED; step++) {
		i = (begin + step) % count;
		*turn = (i + 1) % count;
		if (!is_missing(missing, i) || !beest_tally_is_read(missing->tally, i))
			continue;
		queries[asked].rank = id_of(missing, i);
		queries[asked++].incarnation = (const void *)(expected + i * stride);
	}
	beest_presence_query(missing->tally->place.registry, queries, asked, deadline);
	ret = judge_answers(queries, asked, late, late_count);
	free(queries);

	return ret;
}

/* ------------------------------------------------------------------- a wait in vain --- */

#define NAMED_MAX 4

/* The process that came, if a list of a roll call says so; @then: what it has not done since. */
static const struct beest_incarnation *last_seen(const struct beest_missing *missing, size_t i,
						 const char **then)
{
	const struct beest_tally *tally = missing->came ? missing->came : missing->tally;

	*then = tally->states[i] == BEEST_TALLY_CAME ? ", which has not answered since" :
		", which has finished without this process";

	return tally->brought.marks && tally->states[i] != BEEST_TALLY_ABSENT ?
	       (const void *)(tally->brought.marks + i * tally->brought.mark_size) : NULL;
}

/* True: nothing of this rank was ever seen. */
static bool missing_describe(struct beest_text *text, struct beest_missing *missing, size_t i)
{
	struct beest_registry *registry = missing->tally->place.registry;
	const char *then;
	const struct beest_incarnation *seen = last_seen(missing, i, &then);
	struct beest_text began = BEEST_TEXT(BEEST_PRESENCE_TEXT + BEEST_WAITS_MAX);
	char who[BEEST_PRESENCE_TEXT];
	bool over;

	if (seen) {
		over = beest_presence_is_over(registry, id_of(missing, i), seen, who);
		missing->returned |= !over;
		beest_text_add(text, "rank %d (last seen as %s%s)", id_of(missing, i), who,
			       over ? "" : then);
	} else if (beest_inquiry_fits(missing->limit) &&
		   beest_inquiry_rank(registry, id_of(missing, i), &began)) {
		beest_text_add(text, "rank %d (not there; it began as %s)", id_of(missing, i),
			       began.buffer);
	} else {
		beest_text_add(text, "rank %d (never seen)", id_of(missing, i));
		return missing->tally->brought.marks != NULL;
	}

	return false;
}

/* Adds what may be the reason.  @unseen: a missing rank was never seen. */
static void reasons_add(struct beest_text *text, const struct beest_missing *missing, bool unseen)
{
	const struct beest_tally *tally = missing->tally;
	const size_t server = tally->where.server;
	struct beest_registry *registry = tally->place.registry;

	if (tally->stranger.error)
		beest_text_item(text, "the list has an entry that cannot be read: %s",
				tally->stranger.why);
	beest_text_item(text, "server %s answers", beest_kv_label(registry->kv, server));
	if (beest_inquiry_fits(missing->limit))
		beest_inquiry_server(registry, server, BEEST_KIND_ANY,
				     beest_clock_deadline(BEEST_INQUIRY_TIME), text);
	beest_look_loss_say(registry, server, missing->since, text);
	beest_registry_suspicion(registry, unseen ? "all ranks" : NULL, text);
}

int beest_missing_fail(struct beest_missing *missing)
{
	size_t i, count, *found = missing_find(missing, &count);
	struct beest_text list = BEEST_TEXT(700), reasons = BEEST_TEXT(500);
	const struct beest_tally *tally = missing->tally;
	int err = tally->stranger.error ? -tally->stranger.error : ETIMEDOUT;
	bool unseen = false;

	if (!found)
		return beest_fail(ENOMEM, "no memory for %zu ranks", count_of(missing));
	for (i = 0; i < BEEST_MIN(count, NAMED_MAX); i++) {
		beest_text_add(&list, "%s", i ? ", " : "");
		unseen |= missing_describe(&list, missing, found[i]);
	}
	if (count > NAMED_MAX)
		beest_text_add(&list, " and %zu more", count - NAMED_MAX);
	free(found);
	if (!count)
		return 0;
	reasons_add(&reasons, missing, unseen);

	if (missing->limit->once)
		err = EAGAIN;

	return beest_fail(err, "%s%zu of %zu ranks %s not arrived: %s; key %s; %s",
			  BEEST_LIMIT_TEXT(missing->limit, "after"), count, count_of(missing),
			  count == 1 ? "has" : "have", list.buffer, tally->where.top_key,
			  reasons.buffer);
}
