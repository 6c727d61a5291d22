/* SPDX-License-Identifier: MIT */
/* absent.c - see absent.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/rendezvous/absent.h"
#include "lib/rendezvous/inquiry.h"
#include "lib/rendezvous/leader.h"
#include "lib/rendezvous/presence.h"

/* Groups of ranks that a sentence names, at most. */
#define NAMED_MAX 4

/* The leader looks once a second while ranks are missing. */
#define SILENCE (3 * BEEST_SECOND)

/* Ranks in a row that are missing, by their positions, and the presence of the first and last. */
struct group {
	size_t first, last;
	struct beest_presence_query ends[2];
};

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

/* If the leader names no missing rank, or does not look, all wait for it. */
static bool leader_is_late(const struct beest_fence_look *look)
{
	return !look->there || !look->lead.range_count ||
	       beest_clock_now() - look->looked_at > SILENCE;
}

static bool is_absent(const struct beest_fence_look *look, size_t position)
{
	if (position == look->own)
		return false;
	if (beest_fence_is_leader(look))
		return !beest_leader_has(look, position);
	if (leader_is_late(look))
		return position == 0;

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

/* Returns the number of those missing; *@named of the groups are filled. */
static size_t groups_find(const struct beest_fence_look *look, struct group groups[NAMED_MAX],
			  size_t *named)
{
	size_t i, count = 0;
	bool joins = false;		/* the rank before is missing, and in the last group */

	*named = 0;
	for (i = 0; i < look->call->ranks->count; i++) {
		if (!is_absent(look, i)) {
			joins = false;
			continue;
		}
		count++;
		if (joins) {
			groups[*named - 1].last = i;
		} else if (*named < NAMED_MAX) {
			groups[(*named)++] = (struct group){ .first = i, .last = i };
			joins = true;
		}
	}

	return count;
}

static void groups_ask(const struct beest_fence_look *look, struct group *groups, size_t count)
{
	struct beest_presence_query queries[2 * NAMED_MAX] = { 0 };
	size_t i;

	if (!beest_inquiry_fits(look->call->limit))
		return;
	for (i = 0; i < 2 * count; i++)
		queries[i].rank = id_of(look, i & 1 ? groups[i / 2].last : groups[i / 2].first);
	beest_presence_query(look->call->registry, queries, 2 * count,
			     beest_clock_deadline(BEEST_INQUIRY_TIME));
	for (i = 0; i < 2 * count; i++)
		groups[i / 2].ends[i & 1] = queries[i];
}

/* Whom the leader missed when it looked last. */
static void missed_say(const struct beest_fence_look *look, struct beest_text *text)
{
	const struct beest_fence_range *range = look->lead.missing;
	const size_t count = BEEST_MIN(look->lead.range_count, NAMED_MAX);
	size_t i;

	for (i = 0; i < count; i++, range++) {
		beest_text_add(text, "%s%u", i ? ", " : " since it missed ranks ", range->first);
		if (range->last != range->first)
			beest_text_add(text, "-%u", range->last);
	}
	beest_text_add(text, count ? ")" : " since)");
}

/* No presence of those missing could be read.  Was there any, or another record? */
static void unseen_say(const struct beest_fence_look *look, const struct group *group,
		       struct beest_text *text)
{
	const bool is_read = beest_fence_is_leader(look) || group->first == 0;
	const char *why = group->ends[0].ret <= 0 ? group->ends[0].body.reason : "";

	if (why[0])
		beest_text_add(text, "its record cannot be read: %s)", why);
	else if (is_read && look->wait.gets[group->first].seen < 0)
		beest_text_add(text, "its record cannot be read)");
	else
		beest_text_add(text, "never seen)");
}

static void one_say(const struct beest_fence_look *look, const struct group *group,
		    struct beest_text *text)
{
	const struct beest_presence_query *query = group->ends;
	const bool leads = group->first == 0 && look->there;
	char who[BEEST_PRESENCE_TEXT];
	const char *fate;

	beest_text_add(text, "rank %d (", id_of(look, group->first));
	if (query->ret <= 0 && !leads) {
		unseen_say(look, group, text);
		return;
	}
	if (query->ret <= 0) {
		beest_text_add(text, "it has not answered");
		missed_say(look, text);
		return;
	}
	fate = beest_presence_query_text(look->call->registry, query, who);
	beest_text_add(text, "%s %s", fate[0] || leads ? "last seen as" : "it began as", who);
	if (leads && !fate[0]) {
		beest_text_add(text, ", which has not answered");
		missed_say(look, text);
		return;
	}
	if (!fate[0] && query->body.waits[0])
		beest_text_add(text, ", which last waited for %s", query->body.waits);
	beest_text_add(text, ")");
}

static void group_say(const struct beest_fence_look *look, const struct group *group,
		      struct beest_text *text)
{
	static const char *const states[] = {
		[BEEST_RANK_ALIVE] = "they have begun",
		[BEEST_RANK_LEFT] = "they have left",
		[BEEST_RANK_FAILED] = "they have failed",
	};
	const struct beest_rank_body *first = &group->ends[0].body, *last = &group->ends[1].body;
	const bool seen = group->ends[0].ret > 0 && group->ends[1].ret > 0;

	if (group->first == group->last) {
		one_say(look, group, text);
		return;
	}
	beest_text_add(text, "ranks %d-%d", id_of(look, group->first), id_of(look, group->last));
	if (seen)
		beest_text_add(text, strcmp(first->host, last->host) ? " on %s to %s" : " on %s",
			       first->host, last->host);
	if (!seen) {
		beest_text_add(text, " (");
		unseen_say(look, group, text);
	} else if (first->state == last->state && first->state < BEEST_COUNT(states)) {
		beest_text_add(text, " (%s)", states[first->state]);
	}
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
	struct group groups[NAMED_MAX];
	size_t i, named, shown = 0, count = groups_find(look, groups, &named);
	bool unseen = false;

	/* A leader that misses only this rank has not read its record yet. */
	if (!count && !beest_fence_is_leader(look)) {
		groups[named++] = (struct group){ .first = 0, .last = 0 };
		count++;
	}
	if (!count)
		return beest_fail(beest_limit_errno(limit), "%sall ranks have arrived in the "
				  "meantime, but the last steps need more time: call again",
				  BEEST_LIMIT_TEXT(limit, "after"));
	groups_ask(look, groups, named);
	for (i = 0; i < named; i++) {
		beest_text_add(&list, "%s", i ? ", " : "");
		group_say(look, &groups[i], &list);
		unseen |= groups[i].ends[0].ret <= 0;
		shown += groups[i].last - groups[i].first + 1;
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
	const struct beest_leader_body *lead = &look->lead;
	struct beest_text list = BEEST_TEXT(200);
	size_t i;

	for (i = 0; i < lead->range_count && look->there && !beest_fence_is_leader(look); i++) {
		beest_text_add(&list, i ? ", %u" : "%u", lead->missing[i].first);
		if (lead->missing[i].last != lead->missing[i].first)
			beest_text_add(&list, "-%u", lead->missing[i].last);
	}

	return !list.used ? ret :
	       beest_fail(-ret, "%s; when it last looked, these ranks had not arrived: %s",
			  beest_error_text(), list.buffer);
}

bool beest_absent_log(const struct beest_fence_look *look)
{
	const struct beest_registry *registry = look->call->registry;
	struct group groups[NAMED_MAX];
	char who[BEEST_PRESENCE_TEXT];
	size_t i, named;

	groups_find(look, groups, &named);
	groups_ask(look, groups, named);
	for (i = 0; i < 2 * named; i++) {
		const struct beest_presence_query *query = &groups[i / 2].ends[i & 1];

		if (query->ret <= 0 || !beest_presence_query_text(registry, query, who)[0])
			continue;
		beest_log(registry->log, BEEST_LOG_WARN, "still waiting at %s '%s' for %s",
			  beest_fence_noun(look), look->call->title, who);
		return true;
	}

	return false;
}
