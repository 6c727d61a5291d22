/* SPDX-License-Identifier: MIT */
/* tally.c - see tally.h */
#include "config.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/text.h"
#include "lib/rendezvous/list.h"
#include "lib/rendezvous/tally.h"

size_t beest_tally_few = 128;

/* --------------------------------------------------------------------------- keys --- */

static int key_make(const struct beest_tally_place *place, uint64_t run, const char *last,
		    char key[BEEST_KEY_MAX + 1])
{
	char name[2 * BEEST_KEY_MAX], head[17] = "-", pass[24] = "";
	int size;

	if (run)
		snprintf(head, sizeof(head), "%016" PRIx64, run);
	if (run)
		snprintf(pass, sizeof(pass), "%" PRIx64 "/", place->pass);
	size = snprintf(name, sizeof(name), "%s/%s/%s%s", head, place->name, pass, last);
	if (size > BEEST_KEY_MAX)
		return beest_fail(ENAMETOOLONG, "the name '%s' is too long for a key",
				  place->name);

	return beest_registry_key(place->registry, BEEST_KIND_BARRIER, name, key);
}

int beest_tally_key(const struct beest_tally_place *place, const char *last,
		    char key[BEEST_KEY_MAX + 1])
{
	return key_make(place, place->run, last, key);
}

int beest_tally_placed_as(const struct beest_tally_place *place, char key[BEEST_KEY_MAX + 1])
{
	return key_make(place, 0, "", key);
}

static size_t part_ranks_of(const struct beest_ids *ranks)
{
	return ranks->count <= beest_tally_few ? ranks->count : BEEST_TALLY_PART;
}

static size_t parts_of(const struct beest_ids *ranks)
{
	return (ranks->count + part_ranks_of(ranks) - 1) / part_ranks_of(ranks);
}

static size_t position_of(const struct beest_tally_place *place)
{
	int position = beest_parse_ids_position(place->ranks, place->rank);

	return position < 0 ? 0 : (size_t)position;
}

static int part_key(const struct beest_tally_place *place, size_t part,
		    char key[BEEST_KEY_MAX + 1])
{
	char last[24];

	snprintf(last, sizeof(last), "%zu", part);

	return beest_tally_key(place, last, key);
}

static int own_key(const struct beest_tally_place *place, char key[BEEST_KEY_MAX + 1])
{
	return part_key(place, position_of(place) / part_ranks_of(place->ranks), key);
}

static int top_key(const struct beest_tally_place *place, char key[BEEST_KEY_MAX + 1])
{
	return parts_of(place->ranks) > 1 ? beest_tally_key(place, "head", key) :
	       part_key(place, 0, key);
}

/* ------------------------------------------------------------------ begin and end --- */

static size_t own_part(const struct beest_tally *tally)
{
	return tally->own.position / tally->where.part_ranks;
}

int beest_tally_start(struct beest_tally *tally, const struct beest_tally_place *place)
{
	const size_t count = place->ranks->count;
	int ret;

	memset(tally, 0, sizeof(*tally));
	tally->place = *place;
	tally->own.position = position_of(place);
	tally->where.part_count = parts_of(place->ranks);
	tally->where.part_ranks = part_ranks_of(place->ranks);
	tally->turn = own_part(tally);
	ret = beest_tally_placed_as(place, tally->where.placed_as);
	if (ret == 0)
		ret = top_key(place, tally->where.top_key);
	if (ret == 0)
		ret = own_key(place, tally->where.own_key);
	if (ret < 0)
		return ret;
	tally->where.server = beest_kv_server_of(place->registry->kv, tally->where.placed_as);
	tally->states = calloc(count, sizeof(*tally->states));
	tally->parts = calloc(tally->where.part_count, sizeof(*tally->parts));
	if (!tally->states || !tally->parts) {
		beest_tally_end(tally);
		return beest_fail(ENOMEM, "no memory for a list of %zu ranks", count);
	}

	return 0;
}

static struct beest_seal *seal_of(const struct beest_tally *tally)
{
	return tally->place.registry->seal;
}

static size_t part_limit(const struct beest_tally *tally, size_t part)
{
	return BEEST_MIN((part + 1) * tally->where.part_ranks, tally->place.ranks->count);
}

static size_t blob_size(const struct beest_tally *tally)
{
	return tally->brought.mark_size - BEEST_MARK_HEAD;
}

static uint32_t mark_generation(const uint8_t *mark)
{
	uint32_t wire;

	memcpy(&wire, mark + BEEST_INCARNATION_SIZE, sizeof(wire));

	return be32toh(wire);
}

static void mark_set_generation(uint8_t *mark, uint32_t generation)
{
	const uint32_t wire = htobe32(generation);

	memcpy(mark + BEEST_INCARNATION_SIZE, &wire, sizeof(wire));
}

/* The digest of @marks of one part's ranks, if all their generations are so many @more. */
static uint64_t marks_digest(const struct beest_tally *tally, const uint8_t *marks, size_t part,
			     uint32_t more)
{
	uint8_t head[BEEST_MARK_HEAD];
	uint64_t digest = BEEST_HASH_FNV;
	const uint8_t *mark;
	size_t i;

	for (i = part * tally->where.part_ranks; i < part_limit(tally, part); i++) {
		mark = marks + i * tally->brought.mark_size;
		memcpy(head, mark, sizeof(head));
		mark_set_generation(head, mark_generation(mark) + more);
		digest = beest_hash_fnv(digest, head, sizeof(head));
	}

	return digest | 1;
}

static int marks_fail(size_t count)
{
	return beest_fail(ENOMEM, "no memory for the marks of %zu ranks", count);
}

/* Before they change: who has taken a roll keeps the marks as they were. */
static int marks_own(struct beest_tally *tally)
{
	const size_t size = tally->place.ranks->count * tally->brought.mark_size;
	uint8_t *own;

	if (!tally->brought.lent)
		return 0;
	own = malloc(size);
	if (!own)
		return marks_fail(tally->place.ranks->count);
	memcpy(own, tally->brought.marks, size);
	tally->brought.marks = own;
	tally->brought.lent = false;

	return 0;
}

int beest_tally_start_roll(struct beest_tally *tally, const struct beest_tally_place *place,
			   uint32_t generation, const void *blob, size_t size,
			   const uint8_t *former)
{
	size_t i;
	int ret = beest_tally_start(tally, place);

	if (ret < 0)
		return ret;
	tally->brought.blob = blob;
	tally->brought.generation = generation;
	tally->brought.mark_size = BEEST_MARK_HEAD + size;
	tally->brought.former = former;
	tally->brought.marks = malloc(place->ranks->count * tally->brought.mark_size);
	if (!tally->brought.marks) {
		beest_tally_end(tally);
		return marks_fail(place->ranks->count);
	}
	/* The head may still name what was passed with. */
	for (i = 0; i < tally->where.part_count && former && beest_tally_has_head(tally); i++) {
		tally->parts[i].heard = marks_digest(tally, former, i, 0);
		tally->parts[i].expected = marks_digest(tally, former, i, 1);
	}

	return 0;
}

void beest_tally_end(struct beest_tally *tally)
{
	free(tally->states);
	free(tally->parts);
	if (!tally->brought.lent)
		free(tally->brought.marks);
	free(tally->top.bytes);
	memset(tally, 0, sizeof(*tally));
}

/* ------------------------------------------------------------------------- saying --- */

/* @key is one of that place.  What was said there before is not said again. */
static int entry_put(const struct beest_tally_place *place, const char *key,
		     const struct beest_barrier_body *body, const void *more, size_t size)
{
	uint8_t bytes[BEEST_ENTRY_MAX];
	char placed_as[BEEST_KEY_MAX + 1];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_BARRIER, .key = key, .placed_as = placed_as, .body = bytes,
		.size = BEEST_BARRIER_SIZE + size, .flags = place->flags, .calm = true,
	};
	int ret = beest_tally_placed_as(place, placed_as);

	if (ret < 0)
		return ret;
	if (record.size + beest_record_overhead(place->registry->seal) > sizeof(bytes))
		return beest_fail(EMSGSIZE, "an entry of %zu bytes is too long", size);
	beest_record_barrier_encode(body, bytes);
	if (size)
		memcpy(bytes + BEEST_BARRIER_SIZE, more, size);

	return beest_registry_put(place->registry, &record);
}

int beest_tally_say(struct beest_tally *tally, enum beest_barrier_word word, uint64_t roll)
{
	struct beest_leases *leases = tally->place.registry->leases;
	struct beest_barrier_body body = {
		.word = (uint8_t)word, .round = tally->brought.generation, .roll = roll,
	};
	size_t size = 0;
	int ret;

	if (tally->brought.blob && word == BEEST_BARRIER_COMES) {
		body.roll = beest_lease_noted(leases, tally->where.own_key);
		size = blob_size(tally);
	}
	tally->own.said = false;
	ret = entry_put(&tally->place, tally->where.own_key, &body, tally->brought.blob, size);
	if (ret == 0 && word == BEEST_BARRIER_PASSED)
		beest_lease_note(leases, tally->where.own_key, roll);

	return ret;
}

/* A part that lacks this rank again is not complete when the head learns that a round begins. */
int beest_tally_give_up(struct beest_tally *tally)
{
	const struct beest_barrier_body body = {
		.word = BEEST_BARRIER_GIVES_UP, .roll = tally->place.run,
	};
	int ret;

	if (tally->rounds.gives_up)
		return 0;
	tally->rounds.gives_up = tally->rounds.given_up + 1;
	ret = entry_put(&tally->place, tally->where.own_key, &body, NULL, 0);
	if (ret < 0 || !beest_tally_has_head(tally))
		return ret;
	ret = entry_put(&tally->place, tally->where.top_key, &body, NULL, 0);
	beest_lease_insist(tally->place.registry->leases, tally->where.top_key);

	return ret;
}

#define REFUSED_MAX 64

int beest_tally_refuse(const struct beest_tally_place *place, uint64_t roll,
		       const struct beest_incarnation *late, size_t count)
{
	const struct beest_barrier_body body = { .word = BEEST_BARRIER_REFUSES, .roll = roll };
	char key[BEEST_KEY_MAX + 1];
	int ret = top_key(place, key);

	return ret < 0 ? ret : entry_put(place, key, &body, late,
					 BEEST_MIN(count, REFUSED_MAX) * sizeof(*late));
}

void beest_tally_forget(const struct beest_tally_place *place)
{
	char key[BEEST_KEY_MAX + 1];

	if (own_key(place, key) == 0)
		beest_lease_forget(place->registry->leases, key, 0);
	if (top_key(place, key) == 0)
		beest_lease_forget(place->registry->leases, key, 0);
}

/* The keys of lists of one name. */
struct runs {
	char roll[BEEST_KEY_MAX + 1];	/* of a roll call, up to the part: "... /-/NAME/" */
	size_t size;			/* ... up to the "-" that stands for the run */
	char run[17];			/* which goes on */
};

static bool is_of_another_run(const char *key, const void *data)
{
	const struct runs *runs = data;
	const char *run = key + runs->size, *name = runs->roll + runs->size + 1, *last;

	if (strncmp(key, runs->roll, runs->size) != 0 || strspn(run, "0123456789abcdef") != 16 ||
	    strncmp(run + 16, name, strlen(name)) != 0 || strncmp(run, runs->run, 16) == 0)
		return false;
	/* The pass and the part follow, or this is a longer name. */
	last = strchr(run + 16 + strlen(name), '/');

	return last && !strchr(last + 1, '/');
}

void beest_tally_forget_runs(const struct beest_tally_place *place)
{
	struct runs runs;

	if (beest_tally_placed_as(place, runs.roll) < 0)
		return;
	runs.size = strlen(runs.roll) - strlen(place->name) - strlen("-//");
	snprintf(runs.run, sizeof(runs.run), "%016" PRIx64, place->run);
	beest_lease_forget_each(place->registry->leases, is_of_another_run, &runs);
}

bool beest_tally_delete(const struct beest_tally_place *place, bool head,
			char key[BEEST_KEY_MAX + 1], struct beest_look_extra *extra)
{
	char placed_as[BEEST_KEY_MAX + 1];

	if (position_of(place) % (head ? place->ranks->count : part_ranks_of(place->ranks)) != 0 ||
	    (head && parts_of(place->ranks) == 1) ||
	    beest_tally_placed_as(place, placed_as) < 0 ||
	    (head ? top_key(place, key) : own_key(place, key)) < 0)
		return false;
	*extra = (struct beest_look_extra){
		.server = beest_kv_server_of(place->registry->kv, placed_as),
		.write = { .verb = BEEST_KV_DELETE, .key = key },
	};

	return true;
}

/* ---------------------------------------------------------------- what entries say --- */

static uint8_t *mark_at(const struct beest_tally *tally, size_t i)
{
	return tally->brought.marks + i * tally->brought.mark_size;
}

/* A rank that brings less, or more, than this one asks for something else: its user judges that. */
static void mark_fill(const struct beest_tally *tally, size_t i, const struct beest_record *record,
		      const struct beest_barrier_body *body)
{
	const size_t room = blob_size(tally);
	const size_t size = BEEST_MIN(record->size - BEEST_BARRIER_SIZE, room);
	uint8_t *mark = mark_at(tally, i);

	memcpy(mark, &record->incarnation, BEEST_INCARNATION_SIZE);
	mark_set_generation(mark, body->round);
	memcpy(mark + BEEST_MARK_HEAD, record->body + BEEST_BARRIER_SIZE, size);
	memset(mark + BEEST_MARK_HEAD + size, 0, room - size);
}

static bool is_this_context(const struct beest_tally *tally, const struct beest_record *record)
{
	return beest_process_is_context(&record->incarnation,
					beest_registry_incarnation(tally->place.registry));
}

/* Is it what this process says now? */
static bool is_own(const struct beest_tally *tally, const struct beest_record *record)
{
	return is_this_context(tally, record) &&
	       (!tally->brought.marks ||
		mark_generation(mark_at(tally, tally->own.position)) == tally->brought.generation);
}

/* One value of a list. */
struct reading {
	struct beest_tally *tally;
	const char *key;
	size_t first, end;		/* positions of the part's ranks; both 0: it is the head */
};

static size_t part_of(const struct reading *reading)
{
	return reading->first / reading->tally->where.part_ranks;
}

static bool is_head(const struct reading *reading)
{
	return reading->first == reading->end;
}

/* Its author has passed with that roll, whether it has come again or not. */
static void take_roll(struct beest_tally *tally, const struct beest_barrier_body *body)
{
	tally->told.passed |= body->roll && body->roll == tally->told.roll;
}

/* Has this rank passed with that mark before? */
static bool is_former(const struct beest_tally *tally, size_t i)
{
	const uint8_t *former = tally->brought.former;

	return former && memcmp(mark_at(tally, i), former + i * tally->brought.mark_size,
				BEEST_MARK_HEAD) == 0;
}

/* Does its author call the same function?  A head, too, must not name parts of another call. */
static bool is_same_call(const struct beest_tally *tally, const struct beest_record *record)
{
	return (record->flags & BEEST_RECORD_GATHERS) == tally->place.flags;
}

static void take_comes(const struct reading *reading, size_t i, const struct beest_record *record,
		       const struct beest_barrier_body *body)
{
	struct beest_tally *tally = reading->tally;

	if (tally->place.run && body->roll != tally->place.run)
		return;
	if (tally->brought.marks) {
		mark_fill(tally, i, record, body);
		take_roll(tally, body);
	}
	if (!is_same_call(tally, record)) {
		/* A rank may correct itself. */
		tally->states[i] = i == tally->own.position ? BEEST_TALLY_ABSENT :
				   BEEST_TALLY_DIFFERS;
		return;
	}
	tally->states[i] = is_former(tally, i) ? BEEST_TALLY_HAS_PASSED : BEEST_TALLY_CAME;
	tally->last = i;
	if (i == tally->own.position)
		tally->own.is_last = is_own(tally, record);
}

static void take_passed(const struct reading *reading, size_t i, const struct beest_record *record,
			const struct beest_barrier_body *body)
{
	struct beest_tally *tally = reading->tally;

	if (!tally->brought.marks)
		return;
	mark_fill(tally, i, record, body);
	tally->states[i] = BEEST_TALLY_HAS_PASSED;
	take_roll(tally, body);
}

static void take_refusal(struct beest_tally *tally, const struct beest_record *record)
{
	const struct beest_incarnation *self = beest_registry_incarnation(tally->place.registry);
	const uint8_t *named = record->body + BEEST_BARRIER_SIZE;
	const uint8_t *end = record->body + record->size;

	for (; named + BEEST_INCARNATION_SIZE <= end; named += BEEST_INCARNATION_SIZE)
		tally->told.refused |= memcmp(named, self, BEEST_INCARNATION_SIZE) == 0;
}

/* Is this the list by whose order all decide? */
static bool is_top(const struct reading *reading)
{
	return !beest_tally_has_head(reading->tally) || is_head(reading);
}

static bool all_are_named(const struct beest_tally *tally)
{
	size_t i;

	for (i = 0; i < tally->where.part_count; i++)
		if (tally->parts[i].named != tally->place.run)
			return false;

	return true;
}

static bool all_came(const struct reading *reading)
{
	size_t i;

	for (i = reading->first; i < reading->end; i++)
		if (reading->tally->states[i] != BEEST_TALLY_CAME)
			return false;

	return true;
}

static void take_giving_up(const struct reading *reading, const struct beest_record *record)
{
	struct beest_tally *tally = reading->tally;
	size_t i;

	if (!tally->place.run || (is_top(reading) && (beest_tally_has_head(tally) ?
						      all_are_named(tally) : all_came(reading))))
		return;
	memset(tally->states + reading->first, BEEST_TALLY_ABSENT,
	       reading->end - reading->first);
	if (!is_top(reading))
		return;
	tally->rounds.number++;
	tally->rounds.given_up += is_this_context(tally, record);
	for (i = 0; i < tally->where.part_count; i++)
		tally->parts[i].named = 0;
}

static void entry_take(const struct reading *reading, const struct beest_record *record)
{
	struct beest_tally *tally = reading->tally;
	struct beest_barrier_body body;
	int position;

	if (beest_record_barrier_decode(record, &body) < 0)
		return;
	if (body.word == BEEST_BARRIER_REFUSES)
		take_refusal(tally, record);
	if (body.word == BEEST_BARRIER_GIVES_UP)
		take_giving_up(reading, record);
	if (body.word == BEEST_BARRIER_FULL && beest_tally_has_head(tally) &&
	    is_same_call(tally, record) && body.part < tally->where.part_count &&
	    body.round == tally->rounds.number) {
		tally->parts[body.part].named = body.roll;
		tally->own.named_last = is_this_context(tally, record);
	}
	if (body.word != BEEST_BARRIER_COMES && body.word != BEEST_BARRIER_PASSED)
		return;
	position = beest_parse_ids_position(tally->place.ranks, record->rank);
	if (position < (int)reading->first || position >= (int)reading->end)
		return;
	(body.word == BEEST_BARRIER_COMES ? take_comes : take_passed)(reading, (size_t)position,
								      record, &body);
}

/* The digest of a part whose ranks have all come; 0: some have not. */
static uint64_t part_digest(const struct reading *reading)
{
	const struct beest_tally *tally = reading->tally;

	if (!all_came(reading))
		return 0;

	return !tally->brought.marks ? tally->place.run :
	       marks_digest(tally, tally->brought.marks, part_of(reading), 0);
}

/* Entries of another secret or version may be why nobody comes. */
static void strangers_note(struct beest_tally *tally, const struct beest_entry_reader *reader)
{
	if (!reader->strangers)
		return;
	tally->stranger.error = reader->stranger;
	beest_text_copy(tally->stranger.why, sizeof(tally->stranger.why), reader->why);
}

/* What is known of the ranks, or parts, that the list is about is made anew. */
static void reading_reset(const struct reading *reading)
{
	struct beest_tally *tally = reading->tally;
	size_t i;

	memset(tally->states + reading->first, BEEST_TALLY_ABSENT,
	       reading->end - reading->first);
	tally->last = SIZE_MAX;
	if (is_top(reading)) {
		tally->rounds.number = tally->rounds.given_up = 0;
		tally->own.named_last = false;
	}
	for (i = 0; i < tally->where.part_count && is_head(reading); i++)
		tally->parts[i].named = 0;
}

static int entries_read(const struct reading *reading, const uint8_t *bytes, size_t size)
{
	struct beest_tally *tally = reading->tally;
	struct beest_entry_reader reader;
	struct beest_record record;
	int ret = is_head(reading) ? 0 : marks_own(tally);

	if (ret < 0)
		return ret;
	beest_entry_read(&reader, seal_of(tally), BEEST_KIND_BARRIER, reading->key, bytes, size);
	while ((ret = beest_entry_next(&reader, &record)) > 0)
		entry_take(reading, &record);
	strangers_note(tally, &reader);
	/* A list that was lost meanwhile does not say any longer how often this rank gave up. */
	if (is_top(reading))
		tally->rounds.gives_up = BEEST_MIN(tally->rounds.gives_up,
						   tally->rounds.given_up + 1);

	return ret;
}

static bool only_reads(const struct beest_tally *tally)
{
	return tally->brought.marks && !tally->brought.blob;
}

/* After the entries of a part were read. */
static void part_settle(const struct reading *reading)
{
	struct beest_tally *tally = reading->tally;
	const size_t number = part_of(reading);
	struct beest_tally_part *part = &tally->parts[number];
	struct beest_tally_own *own = &tally->own;

	part->digest = part_digest(reading);
	part->heard = part->named;
	part->round = tally->rounds.number;
	part->read = true;
	if (number != own_part(tally))
		return;
	own->said = tally->states[own->position] == BEEST_TALLY_CAME && own->is_last;
	own->completes = own->said && part->digest && tally->last == own->position;
	/* Says it anew if it was stored and is not there, or another's came behind it. */
	if (!own->said && !tally->rounds.gives_up && !only_reads(tally) &&
	    beest_lease_is(tally->place.registry->leases, reading->key, BEEST_LEASE_SETTLED))
		beest_lease_insist(tally->place.registry->leases, reading->key);
}

static int part_read(struct beest_tally *tally, size_t number, const char *key,
		     const struct beest_kv_value *value)
{
	const struct reading reading = {
		.tally = tally, .key = key, .first = number * tally->where.part_ranks,
		.end = part_limit(tally, number),
	};
	int ret;

	reading_reset(&reading);
	if (number == own_part(tally))
		tally->own.size = value->bytes ? value->size : 0;
	ret = entries_read(&reading, value->bytes, value->bytes ? value->size : 0);
	part_settle(&reading);

	return ret;
}

/* ------------------------------------------------------------------- in each look --- */

/* The number of bytes that were read before, and say the same now. */
static size_t top_keep(struct beest_tally *tally, const struct beest_kv_value *value)
{
	const size_t size = value->bytes ? value->size : 0;
	size_t kept = tally->top.size;
	uint8_t *top;

	if (kept > size || (kept && memcmp(tally->top.bytes, value->bytes, kept) != 0))
		kept = 0;
	tally->top.size = 0;
	if (!size)
		return 0;
	top = size > kept ? realloc(tally->top.bytes, size) : tally->top.bytes;
	if (!top)
		return 0;
	memcpy(top + kept, (const uint8_t *)value->bytes + kept, size - kept);
	tally->top.bytes = top;
	tally->top.size = size;

	return kept;
}

/* Each look reads it again, but mostly only what others have appended is new. */
static int see_top(void *data, const struct beest_kv_value *value)
{
	struct beest_tally *tally = data;
	const struct reading reading = {
		.tally = tally, .key = tally->where.top_key,
		.end = beest_tally_has_head(tally) ? 0 : part_limit(tally, 0),
	};
	const size_t before = tally->top.size, kept = top_keep(tally, value);
	int ret = 0;

	if (before && (kept != before || tally->top.size != before))
		tally->top.moved_at = beest_clock_now();
	if (!kept)
		reading_reset(&reading);
	if (value->bytes)
		ret = entries_read(&reading, (const uint8_t *)value->bytes + kept,
				   value->size - kept);
	if (!beest_tally_has_head(tally)) {
		tally->own.size = tally->top.size;
		part_settle(&reading);
	}

	return ret < 0 ? ret : tally->rests;
}

bool beest_tally_own_rests(const struct beest_tally *tally)
{
	return tally->own.said && (tally->parts[own_part(tally)].digest ||
			       beest_clock_now() >= tally->sample_until);
}

/* Until the entry of this rank is there, which may complete its part, and as a sample of all. */
static int see_own(void *data, const struct beest_kv_value *value)
{
	struct beest_tally *tally = data;
	int ret = part_read(tally, own_part(tally), tally->where.own_key, value);

	return ret < 0 ? ret : beest_tally_own_rests(tally);
}

size_t beest_tally_gets(struct beest_tally *tally, const char *name, const char *noun,
			struct beest_wait_get gets[BEEST_TALLY_GETS])
{
	struct beest_wait_get get = {
		.kind = BEEST_KIND_BARRIER, .key = tally->where.top_key, .name = name, .noun = noun,
		.placed_as = tally->where.placed_as, .server = tally->where.server,
		.see_list = see_top, .data = tally,
	};

	gets[0] = get;
	get.key = tally->where.own_key;
	get.see_list = see_own;
	get.got = beest_tally_own_rests(tally);
	gets[1] = get;

	return beest_tally_has_head(tally) ? 2 : 1;
}

/* Reads the parts for which @wanted says so, by one look. */
static int parts_read(struct beest_tally *tally, const bool *wanted, int64_t deadline)
{
	char (*keys)[BEEST_KEY_MAX + 1] = calloc(tally->where.part_count, sizeof(*keys));
	struct beest_look_want *wants = calloc(tally->where.part_count, sizeof(*wants));
	struct beest_look look = { .wants = wants, .deadline = deadline };
	size_t i, k;
	int ret = 0;

	if (!keys || !wants)
		ret = beest_fail(ENOMEM, "no memory to read %zu lists", tally->where.part_count);
	for (i = 0; i < tally->where.part_count && ret == 0; i++) {
		if (!wanted[i])
			continue;
		ret = part_key(&tally->place, i, keys[look.count]);
		wants[look.count].key = keys[look.count];
		wants[look.count++].server = tally->where.server;
	}
	if (ret == 0 && look.count)
		ret = beest_look_take(tally->place.registry, &look);
	for (i = k = 0; i < tally->where.part_count && ret == 0 && look.count; i++)
		if (wanted[i]) {
			ret = part_read(tally, i, keys[k], &wants[k].value);
			k++;
		}
	if (look.count)
		beest_look_free(wants, look.count);
	free(wants);
	free(keys);

	return ret;
}

/*
 * Is a rank of that part missing, as far as is known?  Whether all know a roll, the head decides:
 * it says so in the same order to all.
 */
static bool part_lacks(const struct beest_tally *tally, size_t i)
{
	const struct beest_tally_part *part = &tally->parts[i];

	if (tally->place.run && part->named == tally->place.run)
		return false;

	return !part->digest ||
	       (tally->place.run && !tally->place.pass && beest_tally_has_head(tally));
}

int beest_tally_read(struct beest_tally *tally, const struct beest_tally *other, size_t most,
		     int64_t deadline)
{
	const size_t own = own_part(tally), begin = tally->turn;
	const bool any = beest_tally_is_complete(tally) && beest_tally_is_complete(other);
	bool wanted[tally->where.part_count];
	size_t i, step, count = 0;

	memset(wanted, 0, sizeof(wanted));
	for (step = 0; step < tally->where.part_count && count < most; step++) {
		i = (begin + step) % tally->where.part_count;
		wanted[i] = any || part_lacks(other, i) ||
			    (part_lacks(tally, i) && !only_reads(tally));
		count += wanted[i];
		tally->turn = i + 1;
	}
	wanted[own] |= tally->brought.marks || part_lacks(tally, own);

	return parts_read(tally, wanted, deadline);
}

bool beest_tally_comes_again(const struct beest_tally *roll, size_t i, const uint8_t *mark)
{
	const uint8_t *now = mark_at(roll, i);

	return memcmp(now, mark, BEEST_INCARNATION_SIZE) == 0 &&
	       mark_generation(now) > mark_generation(mark);
}

/* Does the head name it as a part whose ranks have all come again with what they brought? */
static bool part_is_renewed(const struct beest_tally_part *part)
{
	return part->named && part->named == part->expected && part->named != part->digest;
}

/* Its marks then follow from those of the last roll. */
static int part_renew(struct beest_tally *tally, size_t number)
{
	const size_t first = number * tally->where.part_ranks;
	const size_t count = part_limit(tally, number) - first;
	struct beest_tally_part *part = &tally->parts[number];
	size_t i;
	int ret = marks_own(tally);

	if (ret < 0)
		return ret;
	memcpy(mark_at(tally, first), tally->brought.former + first * tally->brought.mark_size,
	       count * tally->brought.mark_size);
	for (i = first; i < first + count; i++)
		mark_set_generation(mark_at(tally, i), mark_generation(mark_at(tally, i)) + 1);
	memset(tally->states + first, BEEST_TALLY_CAME, count);
	part->digest = part->heard = part->named;
	part->round = tally->rounds.number;
	part->read = true;

	return 0;
}

/*
 * Many parts are read at once when half of all can be, and when all can be: a look for each would
 * cost more.  A server that does not answer is left for the wait to report.
 */
int beest_tally_each(struct beest_tally *tally, int64_t deadline)
{
	const size_t all = tally->where.part_count;
	bool wanted[all];
	const struct beest_tally_part *part;
	size_t i, count = 0, named = 0;
	int ret = 0;

	for (i = 0; i < all && ret == 0; i++) {
		part = &tally->parts[i];
		if (part_is_renewed(part))
			ret = part_renew(tally, i);
		wanted[i] = tally->brought.marks && part->named && part->named != part->heard &&
			    part->named != part->digest;
		count += wanted[i];
		named += part->named || part->digest;
	}
	if (ret == 0 && count && (named == all || 2 * count >= all))
		ret = parts_read(tally, wanted, deadline);
	if (ret < 0)
		return beest_kv_transient(ret) ? 0 : ret;

	return beest_tally_is_complete(tally);
}

static const char *call_of(bool gathers)
{
	return gathers ? "hartebeest_gather()" : "hartebeest_barrier()";
}

/* No rank passes: the others find the entry of this one. */
static int calls_check(const struct beest_tally *tally)
{
	const struct beest_ids *ranks = tally->place.ranks;
	const uint8_t *differs = memchr(tally->states, BEEST_TALLY_DIFFERS, ranks->count);
	const bool gathers = tally->place.flags & BEEST_RECORD_GATHERS;

	if (!differs)
		return 0;

	return beest_fail(EPROTO, "rank %d calls %s with this name, but rank %d, this one, calls "
			  "%s", ranks->id[differs - tally->states], call_of(!gathers),
			  tally->place.rank, call_of(gathers));
}

int beest_tally_check(const struct beest_tally *tally)
{
	struct beest_registry *registry = tally->place.registry;
	int ret = tally->parts ? calls_check(tally) : 0;

	if (ret < 0)
		return ret;
	if (tally->own.said || !tally->parts ||
	    !beest_lease_is(registry->leases, tally->where.own_key, BEEST_LEASE_REFUSED))
		return 0;
	/* A later call may find a server that takes it. */
	beest_lease_forget(registry->leases, tally->where.own_key, 0);

	return beest_fail(EMSGSIZE, "server %s: %s; to be stored: key %s",
			  beest_kv_text(registry->kv, tally->where.server), BEEST_KV_TOO_LARGE,
			  tally->where.own_key);
}

bool beest_tally_is_complete(const struct beest_tally *tally)
{
	size_t i;

	for (i = 0; i < tally->where.part_count; i++)
		if (part_lacks(tally, i))
			return false;

	return true;
}

/* -------------------------------------------------------------------- the head --- */

/* Is it complete, and does the head lack it? */
static bool part_is_unnamed(const struct beest_tally *tally, size_t i)
{
	const struct beest_tally_part *part = &tally->parts[i];

	return part->digest && part->digest != part->named && part->round == tally->rounds.number;
}

bool beest_tally_is_last(const struct beest_tally *tally)
{
	size_t i;

	if (!beest_tally_has_head(tally))
		return tally->own.completes;
	for (i = 0; i < tally->where.part_count; i++)
		if (!tally->parts[i].digest || part_is_unnamed(tally, i))
			return false;

	return tally->own.named_last;
}

int beest_tally_name(struct beest_tally *tally, bool late)
{
	struct beest_barrier_body body = { .word = BEEST_BARRIER_FULL };
	size_t i = own_part(tally), step = 0;
	int ret;

	if (!beest_tally_has_head(tally))
		return 0;
	while (late && step < tally->where.part_count && !part_is_unnamed(tally, i)) {
		i = (i + 1) % tally->where.part_count;
		step++;
	}
	if (!part_is_unnamed(tally, i) || !(late || tally->own.completes))
		return 0;
	body.part = (uint32_t)i;
	body.round = tally->rounds.number;
	body.roll = tally->parts[i].digest;
	ret = entry_put(&tally->place, tally->where.top_key, &body, NULL, 0);
	/* It was said before, and got lost, or another's late entry stands behind it. */
	if (ret == 0 && late)
		beest_lease_insist(tally->place.registry->leases, tally->where.top_key);

	return ret < 0 ? ret : !beest_lease_is(tally->place.registry->leases, tally->where.top_key,
					       BEEST_LEASE_SETTLED);
}

/* -------------------------------------------------------------------- compaction --- */

/*
 * A list of a roll call has an entry more of each rank after each repair, and after each run that
 * was killed.  It is long when it has four times what is needed, or LONG_MOST bytes: servers take
 * items of up to a megabyte, a quarter of which 128 ranks with 64 regions each need.
 */
#define LONG_MOST (256 * 1024)

static size_t long_size(const struct beest_tally *tally, size_t entries, size_t size)
{
	size += beest_record_overhead(seal_of(tally)) + BEEST_BARRIER_SIZE;

	return BEEST_MIN(4 * entries * size + 4096, LONG_MOST);
}

/*
 * Where the entry that @record replaces is kept: those of a rank, or about a part, replace each
 * other.  -1: this one is kept as well, or for ever.
 */
static int entry_slot(const struct beest_tally *tally, const struct beest_record *record)
{
	struct beest_barrier_body body;

	if (beest_record_barrier_decode(record, &body) < 0 || body.word == BEEST_BARRIER_REFUSES)
		return -1;
	if (body.word == BEEST_BARRIER_FULL)
		return body.part < tally->where.part_count ? (int)body.part : -1;

	return beest_parse_ids_position(tally->place.ranks, record->rank);
}

/* Returns the number of @bytes that are needed of @value; they are fewer. */
static size_t entries_keep(struct beest_tally *tally, const char *key,
			   const struct beest_kv_value *value, uint8_t *bytes)
{
	const size_t count = tally->place.ranks->count;
	struct { const uint8_t *bytes; size_t size; } *slots = calloc(count, sizeof(*slots));
	struct beest_entry_reader reader;
	struct beest_record record;
	size_t i, size = 0;
	int slot;

	beest_entry_read(&reader, seal_of(tally), BEEST_KIND_BARRIER, key, value->bytes,
			 value->size);
	while (slots && beest_entry_next(&reader, &record) > 0) {
		slot = entry_slot(tally, &record);
		if (slot >= 0) {
			slots[slot].bytes = reader.entry;
			slots[slot].size = reader.entry_size;
			continue;
		}
		memcpy(bytes + size, reader.entry, reader.entry_size);
		size += reader.entry_size;
	}
	for (i = 0; i < count && slots; i++) {
		if (slots[i].size)
			memcpy(bytes + size, slots[i].bytes, slots[i].size);
		size += slots[i].size;
	}
	free(slots);

	return reader.strangers ? 0 : size;
}

static void tally_shorten(struct beest_tally *tally, const char *key)
{
	struct beest_list list = {
		.registry = tally->place.registry, .server = tally->where.server,
	};
	struct beest_kv_value value = { 0 };
	uint8_t *bytes = NULL;
	size_t size = 0;

	strcpy(list.key, key);
	if (beest_list_fetch(&list, &value) == 0 && value.bytes)
		bytes = malloc(value.size);
	if (bytes)
		size = entries_keep(tally, key, &value, bytes);
	if (size)
		beest_list_replace(&list, value.unique, bytes, size);
	beest_kv_values_free(&value, 1);
	free(bytes);
}

void beest_tally_shorten(struct beest_tally *tally)
{
	if (!tally->own.completes)
		return;
	if (tally->own.size > long_size(tally, tally->where.part_ranks, tally->brought.mark_size))
		tally_shorten(tally, tally->where.own_key);
	if (beest_tally_has_head(tally) &&
	    tally->top.size > long_size(tally, tally->where.part_count, 0))
		tally_shorten(tally, tally->where.top_key);
}

uint64_t beest_tally_digest(const struct beest_tally *tally)
{
	uint64_t digest = BEEST_HASH_FNV, wire;
	size_t i;

	for (i = 0; i < tally->where.part_count; i++) {
		wire = htobe64(tally->parts[i].digest);
		digest = beest_hash_fnv(digest, &wire, sizeof(wire));
	}

	return digest | 1;
}

double beest_tally_share(const struct beest_tally *tally)
{
	const size_t own = own_part(tally), first = own * tally->where.part_ranks;
	const size_t ranks = part_limit(tally, own) - first;
	size_t i, count = 0;

	for (i = first; i < first + ranks; i++)
		count += tally->states[i] == BEEST_TALLY_CAME;

	return (double)count / (double)ranks;
}
