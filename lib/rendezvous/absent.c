/* SPDX-License-Identifier: MIT */
/* absent.c - see absent.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/rendezvous/absent.h"
#include "lib/rendezvous/inquiry.h"
#include "lib/rendezvous/presence.h"

/* Rows of ranks that a sentence names, at most. */
#define NAMED_MAX 4

/* The leader looks once a second while ranks are missing. */
#define SILENCE (3 * BEEST_SECOND)

static int id_of(const struct beest_fence_look *look, size_t position)
{
	return look->call->ranks->id[position];
}

static bool is_named(const struct beest_leader_body *lead, uint32_t id)
{
	size_t i = 0;

	while (i < lead->range_count && (id < lead->missing[i].first || id > lead->missing[i].last))
		i++;

	return i < lead->range_count;
}

/* If the leader names no missing rank, or does not look, all wait for it; it knows by itself. */
static bool leader_is_late(const struct beest_fence_look *look)
{
	return beest_fence_is_leader(look) || !look->there || !look->lead.range_count ||
	       beest_clock_now() - look->looked_at > SILENCE;
}

static bool is_absent(const struct beest_fence_look *look, size_t position)
{
	if (position == look->own)
		return false;
	if (leader_is_late(look))
		return look->role->awaits(look, position);

	return is_named(&look->lead, (uint32_t)id_of(look, position));
}

int *beest_absent_ids(const struct beest_fence_look *look, size_t *count)
{
	int *ids = calloc(look->call->ranks->count, sizeof(*ids));
	size_t i;

	*count = 0;
	for (i = 0; i < look->call->ranks->count && ids; i++)
		if (is_absent(look, i))
			ids[(*count)++] = id_of(look, i);

	return ids;
}

/* Ranks in a row that are missing, and the presence of the first and last of each row. */
struct rows {
	struct beest_fence_range at[NAMED_MAX];		/* by position */
	struct beest_presence_query ends[NAMED_MAX][2];
	size_t count;
};

/* Returns the number of those missing. */
static size_t rows_find(const struct beest_fence_look *look, struct rows *rows)
{
	size_t i, all;

	memset(rows, 0, sizeof(*rows));
	all = beest_fence_missing(look, is_absent, rows->at, NAMED_MAX, &rows->count);
	/* A leader that misses only this rank has not read its record yet. */
	if (!all && !beest_fence_is_leader(look))
		rows->count = all = 1;
	for (i = 0; i < rows->count; i++) {
		rows->ends[i][0].rank = id_of(look, rows->at[i].first);
		rows->ends[i][1].rank = id_of(look, rows->at[i].last);
	}
	if (beest_inquiry_fits(look->call->limit))
		beest_presence_query(look->call->registry, rows->ends[0], 2 * rows->count,
				     beest_clock_deadline(BEEST_INQUIRY_TIME), 0);

	return all;
}

/* Whom the leader missed when it looked last: so many rows at most. */
static void missed_say(const struct beest_leader_body *lead, size_t most, struct beest_text *text)
{
	const struct beest_fence_range *range = lead->missing;
	size_t i;

	for (i = 0; i < BEEST_MIN(lead->range_count, most); i++, range++) {
		beest_text_add(text, "%s%u", i ? ", " : "", range->first);
		if (range->last != range->first)
			beest_text_add(text, "-%u", range->last);
	}
}

/* No presence of those missing could be read.  Was there any, or another record? */
static void unseen_say(const struct beest_fence_look *look, size_t position,
		       const struct beest_presence_query *query, struct beest_text *text)
{
	const bool is_read = beest_fence_is_leader(look) || position == 0;

	if (query->ret <= 0 && query->body.reason[0])
		beest_text_add(text, "its record cannot be read: %s", query->body.reason);
	else if (is_read && look->wait.gets[position].seen < 0)
		beest_text_add(text, "its record cannot be read");
	else
		beest_text_add(text, "never seen");
}

static void one_say(const struct beest_fence_look *look, size_t position,
		    const struct beest_presence_query *query, struct beest_text *text)
{
	const bool leads = position == 0 && look->there, seen = query->ret > 0;
	char who[BEEST_PRESENCE_TEXT];
	const char *fate = "";

	if (seen) {
		fate = beest_presence_query_text(look->call->registry, query, who);
		beest_text_add(text, "%s %s", fate[0] || leads ? "last seen as" : "it began as",
			       who);
	}
	if (leads && !fate[0]) {
		beest_text_add(text, "%s has not answered since%s", seen ? ", which" : "it",
			       look->lead.range_count ? " it missed ranks " : "");
		missed_say(&look->lead, NAMED_MAX, text);
	} else if (!seen) {
		unseen_say(look, position, query, text);
	} else if (!fate[0] && query->body.waits[0]) {
		beest_text_add(text, ", which last waited for %s", query->body.waits);
	}
}

static void row_say(const struct beest_fence_look *look, const struct beest_fence_range *row,
		    const struct beest_presence_query ends[2], struct beest_text *text)
{
	static const char *const states[] = {
		[BEEST_RANK_ALIVE] = "they have begun",
		[BEEST_RANK_LEFT] = "they have left",
		[BEEST_RANK_FAILED] = "they have failed",
	};
	const struct beest_rank_body *first = &ends[0].body, *last = &ends[1].body;
	const bool seen = ends[0].ret > 0 && ends[1].ret > 0;

	if (row->first == row->last) {
		beest_text_add(text, "rank %d (", id_of(look, row->first));
		one_say(look, row->first, ends, text);
		beest_text_add(text, ")");
		return;
	}
	beest_text_add(text, "ranks %d-%d", id_of(look, row->first), id_of(look, row->last));
	if (!seen) {
		beest_text_add(text, " (");
		unseen_say(look, row->first, ends, text);
		beest_text_add(text, ")");
		return;
	}
	beest_text_add(text, strcmp(first->host, last->host) ? " on %s to %s" : " on %s",
		       first->host, last->host);
	if (first->state == last->state && first->state < BEEST_COUNT(states))
		beest_text_add(text, " (%s)", states[first->state]);
}

/* A record that is there, but cannot be read: of another version, or another secret. */
static const struct beest_wait_get *foreign_find(const struct beest_fence_look *look)
{
	size_t i = 0;

	while (i < look->wait.count && look->wait.gets[i].seen >= 0)
		i++;

	return i < look->wait.count ? &look->wait.gets[i] : NULL;
}

/* The leader has committed a view of the mesh, and calls for no other. */
static bool has_to_repair(const struct beest_fence_look *look)
{
	return look->there && beest_fence_is_mesh(look) && !look->fence->pass &&
	       look->lead.committed && leader_is_late(look) &&
	       (!look->lead.failure.error || look->lead.in_pass);
}

static void reasons_say(const struct beest_fence_look *look, bool unseen, struct beest_text *text)
{
	struct beest_registry *registry = look->call->registry;
	const size_t server = look->wait.gets[0].server;
	const struct beest_wait_get *foreign = foreign_find(look);

	if (foreign)
		beest_text_item(text, "key %s cannot be read: %s", foreign->key,
				foreign->trouble);
	beest_text_item(text, "server %s answers", beest_kv_label(registry->kv, server));
	if (beest_inquiry_fits(look->call->limit))
		beest_inquiry_server(registry, server, BEEST_KIND_ANY,
				     beest_clock_deadline(BEEST_INQUIRY_TIME), text);
	beest_look_loss_say(registry, server, look->wait.since, text);
	beest_registry_suspicion(registry, unseen ? "all ranks" : NULL, text);
	if (has_to_repair(look))
		beest_text_item(text, "the ranks that have connected mesh '%s' without this "
				"process have to call hartebeest_mesh_repair()", look->call->title);
	else if (look->there && look->lead.failure.error)
		beest_text_item(text, "rank %d has failed before, perhaps in an earlier run: %s",
				id_of(look, 0), look->lead.failure.text);
	else if (look->there &&
		 beest_fence_compare(look, id_of(look, 0), &look->lead.setup) < 0)
		beest_text_item(text, "perhaps in an earlier run, %s", beest_error_text());
}

int beest_absent_fail(const struct beest_fence_look *look)
{
	const struct beest_limit *limit = look->call->limit;
	const struct beest_wait_get *foreign = foreign_find(look);
	struct beest_text list = BEEST_TEXT(600), reasons = BEEST_TEXT(500);
	struct rows rows;
	size_t i, shown = 0, count = rows_find(look, &rows);
	bool unseen = false;

	if (!count)
		return beest_fail(beest_limit_errno(limit), "%sall ranks have arrived in the "
				  "meantime, but the last steps need more time: call again",
				  BEEST_LIMIT_TEXT(limit, "after"));
	for (i = 0; i < rows.count; i++) {
		beest_text_add(&list, "%s", i ? ", " : "");
		row_say(look, &rows.at[i], rows.ends[i], &list);
		unseen |= rows.ends[i][0].ret <= 0;
		shown += rows.at[i].last - rows.at[i].first + 1;
	}
	if (shown < count)
		beest_text_add(&list, " and %zu more", count - shown);
	reasons_say(look, unseen, &reasons);

	return beest_fail(foreign && !limit->once ? -foreign->seen : beest_limit_errno(limit),
			  "%s%zu of %zu ranks %s not arrived: %s; key %s; %s",
			  BEEST_LIMIT_TEXT(limit, "after"), count, look->call->ranks->count,
			  count == 1 ? "has" : "have", list.buffer, look->keys[0],
			  reasons.buffer);
}

int beest_absent_add(const struct beest_fence_look *look, int ret)
{
	struct beest_text list = BEEST_TEXT(200);

	if (look->there && !beest_fence_is_leader(look))
		missed_say(&look->lead, BEEST_FENCE_RANGES, &list);

	return !list.used ? ret :
	       beest_fail(-ret, "%s; when it last looked, these ranks had not arrived: %s",
			  beest_error_text(), list.buffer);
}

bool beest_absent_log(const struct beest_fence_look *look)
{
	const struct beest_registry *registry = look->call->registry;
	const struct beest_presence_query *query;
	char who[BEEST_PRESENCE_TEXT];
	struct rows rows;

	rows_find(look, &rows);
	for (query = rows.ends[0]; query < rows.ends[rows.count]; query++) {
		if (query->ret <= 0 || !beest_presence_query_text(registry, query, who)[0])
			continue;
		beest_log(registry->log, BEEST_LOG_WARN, "still waiting at %s '%s' for %s",
			  beest_fence_noun(look), look->call->title, who);
		return true;
	}

	return false;
}
