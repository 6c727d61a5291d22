/* SPDX-License-Identifier: MIT */
/* ranks.c - see ranks.h */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "tools/ranks.h"

#define RANKS_MAX (1 << 20)		/* no job has more; a record may be forged */

/* Is it the presence of a rank, under the rank's own name? */
static bool is_rank(const struct records_record *record)
{
	return record->is_presence && record->record.rank >= 0 &&
	       strcmp(record->name, "rank/servers");
}

/* The number of all ranks, as the ranks that are present know it; 0: they do not. */
static size_t size_of(const struct records *records)
{
	size_t i, size = 0;

	for (i = 0; i < records->count; i++)
		if (is_rank(&records->list[i]) && records->list[i].is_alive)
			size = BEEST_MAX(size, records->list[i].rank.size);

	return BEEST_MIN(size, RANKS_MAX);
}

/* Adds the ranks of one fate in ranges, "; has left: 5-6, 9", and takes them out of @fates. */
static void add_fate(struct beest_text *text, const char **fates, size_t size, const char *fate)
{
	const char *before = "";
	size_t i, last;

	beest_text_add(text, "; %s: ", fate);
	for (i = 0; i < size; i++) {
		if (!fates[i] || strcmp(fates[i], fate))
			continue;
		for (last = i; last < size && fates[last] && !strcmp(fates[last], fate); last++)
			fates[last] = NULL;
		beest_text_add(text, "%s%zu", before, i);
		if (--last > i)
			beest_text_add(text, "-%zu", last);
		before = ", ";
		i = last;
	}
}

/*
 * Why each rank is not there; NULL: it is, or the ranks have other numbers than those from 0 on, so
 * that none is known to be missing.  Returns the number of those that are there.
 */
static size_t fates_read(const struct records *records, const char **fates, size_t size)
{
	const struct records_record *each;
	size_t i, present = 0;
	bool others = false;

	for (i = 0; i < size; i++)
		fates[i] = "never seen";
	for (i = 0; i < records->count; i++) {
		each = &records->list[i];
		if (!is_rank(each))
			continue;
		present += each->is_alive;
		if ((size_t)each->record.rank < size)
			fates[each->record.rank] = each->is_alive ? NULL : each->life;
		else
			others = true;
	}
	for (i = 0; others && i < size; i++)
		fates[i] = NULL;

	return present;
}

size_t ranks_present(const struct records *records, char *buffer, size_t room)
{
	const size_t size = size_of(records);
	const char **fates = calloc(size + 1, sizeof(*fates));
	struct beest_text text;
	size_t i, present;

	beest_text_start(&text, buffer, room);
	present = fates ? fates_read(records, fates, size) : 0;
	if (present && size > 1)
		beest_text_add(&text, "%zu of %zu ranks are present", present, size);
	else if (present)
		beest_text_add(&text, "%zu rank%s present", present,
			       present == 1 ? " is" : "s are");
	for (i = 0; present && i < size; i++)
		if (fates[i])
			add_fate(&text, fates, size, fates[i]);
	free(fates);

	return present;
}

bool ranks_waits(const struct records_record *record)
{
	return is_rank(record) && record->is_alive && record->rank.waits[0];
}

static bool wait_alike(const struct records_record *a, const struct records_record *b)
{
	return ranks_waits(a) && ranks_waits(b) && !strcmp(a->rank.waits, b->rank.waits);
}

/* A rank renews its presence when a long wait begins, and later from time to time. */
static void show_wait(struct out *out, const struct records *records,
		      const struct records_record *first)
{
	struct json_object *item = out_json_item(out_json_array(out->json, "waits"));
	const struct records_record *each;
	int64_t age = -1;
	size_t i, count = 0;

	for (i = 0; i < records->count; i++) {
		each = &records->list[i];
		if (!wait_alike(first, each))
			continue;
		count++;
		if (each->left >= 0)
			age = BEEST_MAX(age, records->ttl - each->left);
	}
	out_json_text(item, "for", first->rank.waits);
	out_json_int(item, "ranks", (int64_t)count);
	out_json_int(item, "seconds", age);
	if (out->json)
		return;
	if (age >= 0)
		out_line(out, OUT_NOTE, "waits", "%zu rank%s last waited for %s, since %" PRId64
			 " s or longer", count, count == 1 ? "" : "s", first->rank.waits, age);
	else
		out_line(out, OUT_NOTE, "waits", "%zu rank%s last waited for %s", count,
			 count == 1 ? "" : "s", first->rank.waits);
}

void ranks_show(struct out *out, const struct records *records)
{
	const struct records_record *each;
	char text[1024];
	size_t i, j;

	if (!ranks_present(records, text, sizeof(text)))
		return;
	out_json_text(out->json, "ranks", text);
	if (!out->json)
		out_line(out, OUT_NOTE, "ranks", "%s", text);
	for (i = 0; i < records->count; i++) {
		each = &records->list[i];
		if (!ranks_waits(each))
			continue;
		for (j = 0; j < i && !wait_alike(each, &records->list[j]); j++)
			;
		if (j == i)
			show_wait(out, records, each);
	}
}
