/* SPDX-License-Identifier: MIT */
/* direct.c - see direct.h */
#include "config.h"

#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/rendezvous/direct.h"

/* A rank, and its record as this rank reads it. */
struct beest_direct {
	struct beest_gathering *g;
	char key[BEEST_KEY_MAX + 1];
	uint8_t *mark;			/* in g->marks; zero: not seen yet */
	uint8_t *padded;		/* what a shorter record brings; NULL: it is not shorter */
};

/* Has the author of @body passed the roll call that this rank is in, and come to the next? */
static bool direct_is_ahead(const struct beest_gathering *g,
			    const struct beest_barrier_body *body)
{
	return g->body.pass == BEEST_PASS_KNOWN && body->pass == BEEST_PASS_COME &&
	       body->roll == g->body.roll;
}

/*
 * What a rank brings.  One that asks for less brings less, and the caller, which judges that, gets
 * zeros for the rest.
 */
static const uint8_t *direct_blob(struct beest_direct *direct, const struct beest_record *record)
{
	const uint8_t *blob = record->body + BEEST_BARRIER_SIZE;
	size_t size = record->size - BEEST_BARRIER_SIZE, wanted = direct->g->call->blob_size;

	if (size >= wanted)
		return blob;
	if (!direct->padded)
		direct->padded = malloc(wanted);
	if (direct->padded) {
		memcpy(direct->padded, blob, size);
		memset(direct->padded + size, 0, wanted - size);
	}

	return direct->padded;
}

/* 1: the rank has come or, if this rank knows the roll already, knows the same one. */
static int see_direct(void *data, const struct beest_record *record)
{
	struct beest_direct *direct = data;
	struct beest_gathering *g = direct->g;
	struct beest_barrier_body body;
	const uint8_t *blob;
	int ret;

	ret = beest_record_barrier_decode(record, &body);
	if (ret < 0)
		return ret;
	blob = direct_blob(direct, record);
	if (!blob)
		return 0;
	/* All know the roll.  A rank that comes now comes to the next roll call. */
	if (g->gets[0].got)
		return 1;
	if (direct_is_ahead(g, &body))
		return 1;
	beest_gathering_note_passed(g, &body);
	if (beest_gathering_is_behind(g, &body))
		return 0;
	if (!beest_mark_is(g, direct->mark, &record->incarnation, blob)) {
		if (g->body.pass == BEEST_PASS_KNOWN &&
		    memcmp(direct->mark, &record->incarnation, BEEST_INCARNATION_SIZE) != 0)
			g->newcomer = g->call->ranks->id[direct - g->direct];
		beest_mark_fill(g, direct->mark, &record->incarnation, blob);
		g->changed = true;
	}
	/* It has a different roll: a rank may have been replaced. */
	g->doubt |= g->body.pass == BEEST_PASS_KNOWN && body.pass == BEEST_PASS_KNOWN &&
		    body.roll != g->body.roll;

	return g->body.pass != BEEST_PASS_KNOWN || body.roll == g->body.roll;
}

void beest_direct_free(struct beest_gathering *g)
{
	size_t i;

	for (i = 0; i < g->count && g->direct; i++)
		free(g->direct[i].padded);
	free(g->direct);
}

int beest_direct_start(struct beest_gathering *g)
{
	size_t i, k = 1;
	int ret = 0;

	g->direct = calloc(g->count, sizeof(*g->direct));
	g->marks = calloc(g->count, beest_gather_mark_size(g->call));
	if (!g->direct || !g->marks)
		return beest_fail(ENOMEM, "no memory for the records of %zu ranks", g->count);
	for (i = 0; i < g->count && ret == 0; i++) {
		g->direct[i].g = g;
		g->direct[i].mark = beest_mark_at(g, g->marks, i);
		ret = beest_gathering_rank_key(g, i, g->direct[i].key);
		if (i == g->own)
			continue;
		g->gets[k++] = (struct beest_wait_get){
			.kind = BEEST_KIND_BARRIER, .key = g->direct[i].key, .name = g->call->name,
			.see = see_direct, .data = &g->direct[i], .placed_as = g->gate_key,
		};
	}
	g->wait.count = k;
	beest_mark_fill(g, g->direct[g->own].mark, &g->registry->presence.incarnation,
			g->call->blob);

	return ret;
}

static bool all_are_read(const struct beest_gathering *g)
{
	size_t k;

	for (k = 1; k < g->wait.count; k++)
		if (!g->gets[k].got)
			return false;

	return true;
}

static void read_again(struct beest_gathering *g)
{
	size_t k;

	for (k = 1; k < g->wait.count; k++)
		g->gets[k].got = false;
	g->doubt = false;
}

/* Hands the marks on.  If they cannot be taken yet, reads all records and tries again. */
static int direct_take(struct beest_gathering *g)
{
	const uint64_t digest = beest_gathering_digest(g, g->marks);
	const size_t size = g->count * beest_gather_mark_size(g->call);
	uint8_t *marks = malloc(size);
	int ret;

	if (!marks)
		return beest_fail(ENOMEM, "no memory for a roll of %zu ranks", g->count);
	read_again(g);
	beest_gathering_keep(g, memcpy(marks, g->marks, size), digest);
	ret = beest_gathering_know(g, digest);
	g->changed = g->body.roll != digest;

	return ret;
}

/*
 * All know the roll.  The gate is for a rank that has yet to see so when one of the records is
 * replaced, so it need not be stored before this rank stores something else.
 */
static int direct_end(struct beest_gathering *g)
{
	struct beest_barrier_body gate = { .pass = BEEST_PASS_KNOWN, .roll = g->body.roll };
	int ret;

	g->call->digest = g->body.roll;
	ret = beest_gathering_open(g, &gate, NULL, 0);

	return ret < 0 ? ret : 1;
}

int beest_direct_each(struct beest_gathering *g)
{
	/* The gate says that all know the roll, even if a rank has come again since. */
	if (g->gets[0].got ||
	    (g->body.pass == BEEST_PASS_KNOWN && !g->changed && all_are_read(g) &&
	     beest_lease_is(g->registry->leases, g->record_key, BEEST_LEASE_SETTLED)))
		return direct_end(g);
	if (g->body.pass == BEEST_PASS_KNOWN ? g->changed : all_are_read(g))
		return direct_take(g);
	if (g->doubt)
		read_again(g);

	return 0;
}
