/* SPDX-License-Identifier: MIT */
/* meshlist.c - see meshlist.h */
#include "config.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/core/meshlist.h"
#include "lib/rendezvous/look.h"

/* Up to this many lists of newcomers cost little, and nobody makes rows for so few ranks. */
#define LISTS_FEW 32

/* A rank reads lists if its row has not come PATIENCE, and PATIENCE_RANK for each rank, later. */
#define PATIENCE (50 * BEEST_MS)
#define PATIENCE_RANK (4 * BEEST_MS)

/* Seconds that a row lives.  A rank that comes later reads lists. */
#define ROW_TTL 60

static int list_key(const struct beest_meeting *meeting, const char *word, int rank,
		    char key[BEEST_KEY_MAX + 1])
{
	const struct beest_tally_place place = beest_meeting_place(meeting, 0);
	char last[24];

	snprintf(last, sizeof(last), "%s.%d", word, rank);

	return beest_tally_key(&place, last, key);
}

/* All keys of a mesh are on one server, so a rank's list is there when its mark is. */
static int server_find(const struct beest_meeting *meeting, size_t *server)
{
	const struct beest_tally_place place = beest_meeting_place(meeting, 0);
	char key[BEEST_KEY_MAX + 1];
	int ret = beest_tally_placed_as(&place, key);

	if (ret == 0)
		*server = beest_kv_server_of(meeting->registry->kv, key);

	return ret;
}

int beest_meshlist_put(const struct hartebeest_mesh *mesh, const struct beest_meeting *meeting)
{
	const struct beest_tally_place place = beest_meeting_place(meeting, 0);
	char key[BEEST_KEY_MAX + 1], placed_as[BEEST_KEY_MAX + 1];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_NUMBERS, .key = key, .placed_as = placed_as, .body = mesh->list,
		.size = mesh->list_size,
	};
	int ret;

	if (!mesh->list)
		return 0;
	ret = list_key(meeting, "list", mesh->rank, key);
	if (ret == 0)
		ret = beest_tally_placed_as(&place, placed_as);

	return ret < 0 ? ret : beest_registry_put(meeting->registry, &record);
}

/* -------------------------------------------------------------------------- lists --- */

static bool want_decode(const struct beest_meeting *meeting, const struct beest_look_want *want,
			struct beest_record *record)
{
	return want->value.bytes &&
	       beest_record_decode(meeting->registry->seal, want->value.bytes, want->value.size,
				   BEEST_KIND_NUMBERS, want->key, record) == 0;
}

/* @want is that of the first newcomer with a list; those of the others follow. */
static int lists_judge(struct hartebeest_mesh *mesh, const struct beest_meeting *meeting,
		       struct beest_newcomers *new, const struct beest_look_want *want)
{
	struct beest_record record;
	size_t i;
	int ret = 1;

	for (i = 0; i < new->count && ret > 0; i++)
		if (new->digests[i])
			ret = want_decode(meeting, want++, &record) ?
			      beest_meshmark_list(mesh, new, i, record.body, record.size) : 0;

	return ret;
}

/* 1: all lists are there; 0: not yet. */
static int lists_read(struct hartebeest_mesh *mesh, const struct beest_meeting *meeting,
		      struct beest_newcomers *new)
{
	char (*keys)[BEEST_KEY_MAX + 1] = calloc(new->count + 1, sizeof(*keys));
	struct beest_look look = {
		.wants = calloc(new->count + 1, sizeof(*look.wants)),
		.deadline = beest_meeting_deadline(meeting),
	};
	struct beest_look_want *want = look.wants;
	size_t i, server = 0;
	int ret = server_find(meeting, &server);

	if (!keys || !want)
		ret = beest_fail(ENOMEM, "no memory for the lists of %zu ranks", new->count);
	for (i = 0; i < new->count && ret == 0; i++) {
		if (!new->digests[i])
			continue;
		ret = list_key(meeting, "list", new->peers[i].endpoint.rank, keys[i]);
		want->key = keys[i];
		want++->server = server;
		look.count++;
	}
	if (ret == 0) {
		ret = beest_look_take(meeting->registry, &look) < 0 ? 0 :
		      lists_judge(mesh, meeting, new, look.wants);
		beest_look_free(look.wants, look.count);
	}
	free(look.wants);
	free(keys);

	return ret;
}

static size_t lists_count(const struct beest_newcomers *new)
{
	size_t i, count = 0;

	for (i = 0; i < new->count; i++)
		count += new->digests[i] != 0;

	return count;
}

/* --------------------------------------------------------------------------- rows --- */

#define DIGEST_SIZE sizeof(uint64_t)

/* The body of a row's record: the digest of the roll, big-endian, and the row. */
static size_t row_bytes(const struct hartebeest_mesh *mesh)
{
	return DIGEST_SIZE + beest_meshmark_row_size(mesh);
}

struct row {
	char key[BEEST_KEY_MAX + 1];
	uint8_t *bytes;
};

/* Prepares the write of a row.  It has no lease: a rank that misses its row reads lists. */
static int row_make(const struct hartebeest_mesh *mesh, const struct beest_meeting *meeting,
		    uint8_t *body, size_t i, struct row *row, struct beest_look_extra *extra)
{
	struct beest_registry_record record = {
		.kind = BEEST_KIND_NUMBERS, .key = row->key, .body = body,
		.size = row_bytes(mesh),
	};
	int ret;

	ret = list_key(meeting, "row", mesh->ranks.id[i], row->key);
	if (ret == 0)
		ret = server_find(meeting, &extra->server);
	if (ret == 0)
		ret = beest_registry_encode(meeting->registry, &record, &row->bytes);
	if (ret < 0)
		return ret;
	extra->write = (struct beest_kv_write){
		.verb = BEEST_KV_SET, .key = row->key, .value = row->bytes, .size = (size_t)ret,
		.ttl = ROW_TTL,
	};

	return 0;
}

static void rows_put(struct hartebeest_mesh *mesh, const struct beest_meeting *meeting,
		     uint64_t digest, const struct beest_newcomers *all)
{
	const uint64_t wire = htobe64(digest);
	struct row *rows = calloc(all->count, sizeof(*rows));
	uint8_t *body = malloc(row_bytes(mesh));
	struct beest_look look = {
		.extras = calloc(all->count, sizeof(*look.extras)), .extra_count = all->count,
		.deadline = beest_meeting_deadline(meeting),
	};
	size_t i;
	int ret = rows && body && look.extras ? 0 : -ENOMEM;

	if (ret == 0)
		memcpy(body, &wire, DIGEST_SIZE);
	for (i = 0; i < all->count && ret == 0; i++) {
		beest_meshmark_row_fill(mesh, all, i, body + DIGEST_SIZE);
		ret = row_make(mesh, meeting, body, i, &rows[i], &look.extras[i]);
	}
	if (ret == 0)
		beest_look_take(meeting->registry, &look);
	for (i = 0; i < all->count && rows; i++)
		free(rows[i].bytes);
	free(look.extras);
	free(rows);
	free(body);
}

void beest_meshlist_rows(struct hartebeest_mesh *mesh, const struct beest_meeting *meeting,
			 const uint8_t *marks, uint64_t digest)
{
	struct beest_newcomers all;

	/* With chosen peers, lists are short and read by few. */
	if (mesh->fabric.peers || mesh->ranks.count <= LISTS_FEW)
		return;
	if (beest_meshmark_find(mesh, marks, true, &all) == 0 && lists_count(&all) &&
	    lists_read(mesh, meeting, &all) > 0)
		rows_put(mesh, meeting, digest, &all);
	beest_meshmark_forget(&all);
}

/* Reads the row of this rank, if there is one for the roll that it waits for. */
static void row_fetch(struct hartebeest_mesh *mesh, const struct beest_meeting *meeting)
{
	const uint64_t wire = htobe64(mesh->row_roll);
	char key[BEEST_KEY_MAX + 1];
	struct beest_look_want want = { .key = key };
	struct beest_look look = {
		.wants = &want, .count = 1, .deadline = beest_meeting_deadline(meeting),
	};
	struct beest_record record;

	if (list_key(meeting, "row", mesh->rank, key) < 0 ||
	    server_find(meeting, &want.server) < 0)
		return;
	if (beest_look_take(meeting->registry, &look) == 0 &&
	    want_decode(meeting, &want, &record) && record.size == row_bytes(mesh) &&
	    memcmp(record.body, &wire, DIGEST_SIZE) == 0)
		mesh->row = malloc(row_bytes(mesh));
	if (mesh->row)
		memcpy(mesh->row, record.body + DIGEST_SIZE, row_bytes(mesh) - DIGEST_SIZE);
	beest_look_free(&want, 1);
}

bool beest_meshlist_is_ready(struct hartebeest_mesh *mesh, const struct beest_meeting *meeting,
			     uint64_t digest)
{
	if (mesh->row_roll != digest || mesh->row)
		return true;
	row_fetch(mesh, meeting);

	return mesh->row || beest_clock_now() >= mesh->row_until;
}

int beest_meshlist_fetch(struct hartebeest_mesh *mesh, const struct beest_meeting *meeting,
			 uint64_t digest, struct beest_newcomers *new)
{
	size_t count = lists_count(new);

	if (!count)
		return 1;
	if (count <= LISTS_FEW || mesh->fabric.peers)
		return lists_read(mesh, meeting, new);
	if (mesh->row_roll != digest) {
		free(mesh->row);
		mesh->row = NULL;
		mesh->row_roll = digest;
		mesh->row_until = beest_clock_deadline(PATIENCE + (int64_t)mesh->ranks.count *
						       PATIENCE_RANK);
		row_fetch(mesh, meeting);
	}
	if (mesh->row)
		return beest_meshmark_row(mesh, new, mesh->row);

	return beest_clock_left(mesh->row_until) ? 0 : lists_read(mesh, meeting, new);
}
