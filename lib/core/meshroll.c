/* SPDX-License-Identifier: MIT */
/* meshroll.c - see meshroll.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/core/context.h"
#include "lib/core/meshlist.h"
#include "lib/core/meshmark.h"
#include "lib/core/meshphase.h"
#include "lib/core/meshroll.h"
#include "lib/rendezvous/presence.h"

/*
 * The processes of a run start within this time of each other.  For as long, a mark that does
 * not fit may be a leftover, and its rank may still replace it.
 */
#define LEFTOVER_TIME (2 * BEEST_SECOND)

/* A bring-up or repair by the servers. */
struct bringup {
	struct hartebeest_mesh *mesh;
	struct beest_meeting meeting;
};

/* Is the culprit alive, so that no other process will take its place? */
static bool culprit_lives(const struct bringup *bringup, const uint8_t *marks)
{
	const struct hartebeest_mesh *mesh = bringup->mesh;
	struct beest_incarnation incarnation;
	struct beest_presence_query query = {
		.rank = mesh->ranks.id[mesh->trouble.culprit], .incarnation = &incarnation,
	};

	memcpy(&incarnation, marks + mesh->trouble.culprit * beest_meshmark_size(mesh),
	       sizeof(incarnation));
	beest_presence_query(bringup->meeting.registry, &query, 1,
			     beest_meeting_deadline(&bringup->meeting));

	return query.ret > 0 && query.body.state == BEEST_RANK_ALIVE;
}

static void trouble_note(struct beest_mesh_trouble *trouble, uint64_t digest, int ret,
			 const char *why)
{
	if (!trouble->ret)
		trouble->since = beest_clock_now();
	trouble->ret = ret;
	trouble->marks = digest;
	beest_text_copy(trouble->why, sizeof(trouble->why), why);
}

/*
 * A rank that asks for fewer ranks fails while this one still waits, and may have ended when this
 * one gives up.  So it has to live only when its mark is seen first.
 */
static void meshroll_doubt(void *data, const uint8_t *marks, const uint8_t *states)
{
	struct bringup *bringup = data;
	struct hartebeest_mesh *mesh = bringup->mesh;
	char why[BEEST_ERROR_SIZE];
	size_t i;
	bool all = true;
	int ret = 0;

	for (i = 0; i < mesh->ranks.count && ret == 0; i++) {
		all &= states[i] == BEEST_TALLY_CAME;
		if (states[i] == BEEST_TALLY_CAME)
			ret = beest_meshmark_check(mesh, marks, i);
	}
	/* A roll that could not be connected stays so, though its marks fit. */
	if (ret == 0 && !(all && mesh->trouble.marks))
		mesh->trouble.ret = 0;
	if (ret == 0 || mesh->trouble.ret)
		return;
	/* The question whether it lives may leave another sentence. */
	beest_text_copy(why, sizeof(why), beest_error_text());
	if (culprit_lives(bringup, marks))
		trouble_note(&mesh->trouble, 0, ret, why);
}

/* Notes why the marks could not be connected.  -EAGAIN: that may change; else @ret is final. */
static int meshroll_failed(struct bringup *bringup, const uint8_t *marks, uint64_t digest,
			   int ret)
{
	struct beest_mesh_trouble *trouble = &bringup->mesh->trouble;
	int64_t now = beest_clock_now();

	trouble_note(trouble, digest, ret, beest_error_text());
	if (now - trouble->since < LEFTOVER_TIME)
		return -EAGAIN;
	trouble->since = now;

	return culprit_lives(bringup, marks) ? beest_fail(-ret, "%s", trouble->why) : -EAGAIN;
}

static int newcomers_connect(struct bringup *bringup, uint8_t *marks, uint64_t digest)
{
	struct beest_newcomers new;
	int ret;

	ret = beest_meshmark_find(bringup->mesh, marks, false, &new);
	if (ret == 0)
		ret = beest_meshlist_fetch(bringup->mesh, &bringup->meeting, digest, &new);
	if (ret > 0)
		ret = beest_meshmark_connect(bringup->mesh, marks, &new, bringup->meeting.limit);
	else if (ret == 0)
		ret = -EAGAIN;
	beest_meshmark_forget(&new);

	return ret;
}

static int meshroll_take_roll(void *data, uint8_t *marks, uint64_t digest)
{
	struct bringup *bringup = data;
	struct hartebeest_mesh *mesh = bringup->mesh;
	int ret;

	if (mesh->trouble.ret && beest_clock_now() - mesh->trouble.since < LEFTOVER_TIME &&
	    mesh->trouble.marks == digest)
		return -EAGAIN;
	beest_meshphase_enter(mesh, &mesh->stats.fetch);
	ret = newcomers_connect(bringup, marks, digest);
	if (ret < 0 && ret != -EAGAIN)
		return meshroll_failed(bringup, marks, digest, ret);
	if (ret == 0)
		mesh->trouble.ret = 0;

	return ret;
}

static void meshroll_waits(void *data)
{
	struct hartebeest_mesh *mesh = ((struct bringup *)data)->mesh;

	beest_meshphase_enter(mesh, &mesh->stats.wait);
}

static bool meshroll_ready(void *data, uint64_t digest)
{
	struct bringup *bringup = data;

	return beest_meshlist_is_ready(bringup->mesh, &bringup->meeting, digest);
}

static void meshroll_last(void *data, const uint8_t *marks, uint64_t digest)
{
	struct bringup *bringup = data;

	beest_meshlist_rows(bringup->mesh, &bringup->meeting, marks, digest);
}

#define NAMED_MAX 8

static void meshroll_progress(void *data, bool known, const int *missing, size_t count)
{
	const struct hartebeest_mesh *mesh = ((struct bringup *)data)->mesh;
	struct beest_text text = BEEST_TEXT(200);
	size_t i;

	beest_text_add(&text, "%zu of %zu %s; missing: ", mesh->ranks.count - count,
		       mesh->ranks.count, known ? "are connected" : "have arrived");
	for (i = 0; i < BEEST_MIN(count, NAMED_MAX); i++)
		beest_text_add(&text, "%s%d", i ? ", " : "", missing[i]);
	if (count > NAMED_MAX)
		beest_text_add(&text, " and %zu more", count - NAMED_MAX);
	mesh->progress(mesh->progress_data, text.buffer);
}

static void meeting_fill(const struct hartebeest_mesh *mesh, const struct beest_limit *limit,
			 struct beest_meeting *meeting)
{
	memset(meeting, 0, sizeof(*meeting));
	meeting->registry = mesh->fabric.hb->registry;
	meeting->ranks = &mesh->ranks;
	meeting->rank = mesh->rank;
	meeting->name = mesh->key_name;
	meeting->title = mesh->fabric.name;
	meeting->noun = "mesh";
	meeting->limit = limit;
	meeting->marks = mesh->marks;
	meeting->blob_size = mesh->blob_size;
}

int beest_meshroll_bringup(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
{
	struct bringup bringup = { .mesh = mesh };
	struct beest_meeting *meeting = &bringup.meeting;
	char key[BEEST_KEY_MAX + 1];
	int ret;

	beest_meshphase_enter(mesh, &mesh->stats.publish);
	ret = beest_context_need_registry(mesh->fabric.hb, BEEST_KIND_ANY, NULL);
	if (ret == 0)		/* here, since later sentences would name the key, not the mesh */
		ret = beest_registry_key(mesh->fabric.hb->registry, BEEST_KIND_BARRIER,
					 mesh->fabric.name, key);
	if (ret < 0)
		return ret;
	beest_meshphase_count(mesh);
	meeting_fill(mesh, limit, meeting);
	/* An earlier call may have taken a roll that has not been passed. */
	if (mesh->complete_marks)
		meeting->marks = mesh->complete_marks;
	meeting->state = &mesh->roll_state;
	meeting->blob = mesh->blob;
	meeting->generation = mesh->body.endpoint.generation;
	meeting->take_roll = meshroll_take_roll;
	meeting->last = meshroll_last;
	meeting->ready = meshroll_ready;
	meeting->doubt = meshroll_doubt;
	meeting->again = true;
	meeting->waits = meshroll_waits;
	meeting->progress = mesh->progress ? meshroll_progress : NULL;
	meeting->data = &bringup;
	ret = beest_meshlist_put(mesh, meeting);
	if (ret == 0)
		ret = beest_meeting_run(meeting);
	if (ret == -ETIMEDOUT && mesh->trouble.ret && mesh->trouble.marks)
		ret = beest_fail(-mesh->trouble.ret, "%s", mesh->trouble.why);
	else if (ret == -ETIMEDOUT && mesh->trouble.ret)
		ret = beest_fail(ETIMEDOUT, "%s; %s", beest_error_text(), mesh->trouble.why);
	else if (ret == -ETIMEDOUT && meeting->without)
		ret = beest_fail(ETIMEDOUT, "%s: the ranks that have finished have to call "
				 "hartebeest_mesh_repair()", beest_error_text());
	mesh->digest = ret == 0 ? meeting->digest : 0;
	if (ret == 0)
		ret = (int)beest_meshmark_complete(mesh);

	return ret;
}

int beest_meshroll_barrier(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
{
	struct beest_meeting meeting;
	int ret;

	if (!mesh->digest)
		return beest_fail(ESTALE, "it was not repaired: call hartebeest_mesh_repair() "
				  "again");
	ret = beest_context_need_registry(mesh->fabric.hb, BEEST_KIND_ANY, NULL);
	if (ret < 0)
		return ret;
	meeting_fill(mesh, limit, &meeting);
	meeting.run = mesh->digest;
	meeting.pass = mesh->passes + 1;
	meeting.state = &mesh->barrier_state;
	ret = beest_meeting_run(&meeting);
	if (ret == 0)
		mesh->passes++;
	if (ret == -ESTALE)
		beest_fail(ESTALE, "%s: call hartebeest_mesh_repair()", beest_error_text());

	return ret;
}
