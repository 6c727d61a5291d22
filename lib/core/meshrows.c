/* SPDX-License-Identifier: MIT */
/* meshrows.c - see meshrows.h */
#include "config.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/core/context.h"
#include "lib/core/meshrows.h"
#include "lib/rendezvous/look.h"

/* Up to this many lists cost each rank little. */
#define LISTS_FEW 32

#define VIEW_SIZE sizeof(uint64_t)

bool beest_meshrows_are_used(const struct hartebeest_mesh *mesh)
{
	/* With chosen peers, lists are short. */
	return !mesh->qps.peers && mesh->ranks.count > LISTS_FEW;
}

/* Rows are on the server of the fence. */
static int row_key(const struct hartebeest_mesh *mesh, int rank, char key[BEEST_KEY_MAX + 1],
		   char placed_as[BEEST_KEY_MAX + 1])
{
	struct beest_registry *registry = mesh->qps.hb->registry;
	char last[BEEST_KEY_MAX + 32];
	int ret;

	snprintf(last, sizeof(last), "%s/row.%d", mesh->key_name, rank);
	ret = beest_registry_key(registry, BEEST_KIND_NUMBERS, last, key);

	return ret < 0 ? ret : beest_registry_key(registry, BEEST_KIND_LEADER, mesh->key_name,
						  placed_as);
}

/* The body of a row's record: the id of the view, big-endian, and the row. */
static size_t row_bytes(const struct hartebeest_mesh *mesh)
{
	return VIEW_SIZE + beest_contribution_row_size(mesh);
}

int beest_meshrows_put(const struct hartebeest_mesh *mesh, uint64_t view,
		       const struct beest_newcomers *all)
{
	const uint64_t wire = htobe64(view);
	char key[BEEST_KEY_MAX + 1], placed_as[BEEST_KEY_MAX + 1];
	uint8_t *body = malloc(row_bytes(mesh));
	const struct beest_registry_record template = {
		.kind = BEEST_KIND_NUMBERS, .key = key, .placed_as = placed_as, .body = body,
		.size = row_bytes(mesh),
	};
	size_t i;
	int ret = 0;

	if (!body)
		return beest_fail(ENOMEM, "no memory for a row of %zu ranks", mesh->ranks.count);
	memcpy(body, &wire, VIEW_SIZE);
	for (i = 0; i < mesh->ranks.count && ret == 0; i++) {
		if (i == mesh->qps.own)
			continue;
		beest_contribution_row_fill(mesh, all, i, body + VIEW_SIZE);
		ret = row_key(mesh, mesh->ranks.id[i], key, placed_as);
		if (ret == 0)
			ret = beest_registry_put(mesh->qps.hb->registry, &template);
	}
	free(body);

	return ret;
}

void beest_meshrows_delete(const struct hartebeest_mesh *mesh)
{
	char key[BEEST_KEY_MAX + 1], placed_as[BEEST_KEY_MAX + 1];
	size_t i;

	for (i = 0; i < mesh->ranks.count; i++)
		if (i != mesh->qps.own &&
		    row_key(mesh, mesh->ranks.id[i], key, placed_as) == 0)
			beest_lease_doom_key(mesh->qps.hb->registry->leases, key);
}

static int row_read(const struct hartebeest_mesh *mesh, uint64_t view,
		    const struct beest_look_want *want, struct beest_newcomers *new)
{
	const uint64_t wire = htobe64(view);
	struct beest_record record;

	if (!want->value.bytes ||
	    beest_record_decode(mesh->qps.hb->registry->seal, want->value.bytes,
				want->value.size, BEEST_KIND_NUMBERS, want->key, &record) < 0 ||
	    record.size != row_bytes(mesh) || memcmp(record.body, &wire, VIEW_SIZE) != 0)
		return -EAGAIN;

	return beest_contribution_row(mesh, new, record.body + VIEW_SIZE);
}

int beest_meshrows_fetch(const struct hartebeest_mesh *mesh, uint64_t view,
			 struct beest_newcomers *new, int64_t deadline)
{
	char key[BEEST_KEY_MAX + 1], placed_as[BEEST_KEY_MAX + 1];
	struct beest_look_want want = { .key = key };
	struct beest_look look = { .wants = &want, .count = 1, .deadline = deadline };
	struct beest_registry *registry = mesh->qps.hb->registry;
	int ret = row_key(mesh, mesh->rank, key, placed_as);

	if (ret < 0)
		return ret;
	want.server = beest_kv_server_of(registry->kv, placed_as);
	ret = beest_look_take(registry, &look) < 0 ? -EAGAIN : row_read(mesh, view, &want, new);
	beest_look_free(&want, 1);

	return ret;
}
