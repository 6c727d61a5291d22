/* SPDX-License-Identifier: MIT */
/* meshown.c - see meshown.h */
#include "config.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/random.h"
#include "lib/base/text.h"
#include "lib/core/meshmark.h"
#include "lib/core/meshown.h"
#include "lib/core/meshphase.h"

/*
 * The status of a rank, big-endian.  A rank that has failed says so here, since it must take part
 * lest the others hang in the program's exchange.
 */
struct status {
	uint32_t error;			/* 0, or the errno with which it failed */
	uint32_t listed;		/* bytes of its list */
	uint64_t form;
};

/*
 * Exchanges the statuses of @count ranks.  The caller frees @all even on failure.  If this rank has
 * failed, returns @failed and restores its sentence.
 */
static int statuses_exchange(int (*gather)(void *, const void *, void *, size_t), void *data,
			     size_t count, int failed, struct status *own, struct status **all)
{
	char sentence[BEEST_ERROR_SIZE];
	int ret;

	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	own->error = htobe32((uint32_t)-failed);
	*all = calloc(count, sizeof(**all));
	ret = *all ? gather(data, own, *all, sizeof(*own)) : 0;
	if (failed < 0)
		return beest_fail(-failed, "%s", sentence);
	if (!*all)
		return beest_fail(ENOMEM, "no memory to ask %zu ranks", count);

	return ret < 0 ? beest_fail_errno(ret, "the program's gather function failed") : 0;
}

int beest_meshown_refuse(const struct hartebeest_mesh_attr *attr, int failed)
{
	struct status *all, own = { 0 };
	int ret = statuses_exchange(attr->gather, attr->gather_data, attr->rank_count, failed,
				    &own, &all);

	free(all);

	return ret;
}

/* Fails if a rank has failed or differs, this one first.  Returns the bytes of the longest list. */
static int status_gather(struct hartebeest_mesh *mesh, int failed)
{
	struct status own = {
		.listed = htobe32((uint32_t)mesh->list_size),
		.form = htobe64(mesh->body.form),
	};
	struct status *all;
	uint32_t listed = 0;
	size_t i;
	int ret;

	ret = statuses_exchange(mesh->gather, mesh->gather_data, mesh->ranks.count, failed, &own,
				&all);
	for (i = 0; i < mesh->ranks.count && ret == 0; i++) {
		listed = BEEST_MAX(listed, be32toh(all[i].listed));
		if (all[i].error)
			ret = beest_fail(ECONNABORTED, "rank %d has failed: %s", mesh->ranks.id[i],
					 strerror((int)be32toh(all[i].error)));
		else
			ret = beest_meshmark_same(mesh, i, be64toh(all[i].form));
	}
	free(all);

	return ret < 0 ? ret : (int)listed;
}

/* Exchanges marks and lists: @step bytes from each rank, with room for @listed bytes of list. */
static int marks_gather(struct hartebeest_mesh *mesh, const struct beest_incarnation *incarnation,
			size_t listed, uint8_t **all, size_t *step)
{
	uint8_t *own;
	int ret;

	*step = beest_meshmark_size(mesh) + listed;
	*all = calloc(mesh->ranks.count + 1, *step);
	if (!*all)
		return beest_fail(ENOMEM, "no memory for what %zu ranks bring", mesh->ranks.count);
	own = *all + mesh->ranks.count * *step;
	memcpy(own, incarnation, BEEST_INCARNATION_SIZE);
	memcpy(own + BEEST_MARK_HEAD, mesh->blob, mesh->blob_size);
	if (mesh->list)
		memcpy(own + beest_meshmark_size(mesh), mesh->list, mesh->list_size);
	ret = mesh->gather(mesh->gather_data, own, *all, *step);

	return ret < 0 ? beest_fail_errno(ret, "the program's gather function failed") : 0;
}

static int gathered_connect(struct hartebeest_mesh *mesh, const uint8_t *all, size_t step,
			    const struct beest_limit *limit)
{
	uint8_t *marks = malloc(mesh->ranks.count * beest_meshmark_size(mesh));
	struct beest_newcomers new;
	size_t i;
	int ret;

	if (!marks)
		return beest_fail(ENOMEM, "no memory for a mesh of %zu ranks", mesh->ranks.count);
	for (i = 0; i < mesh->ranks.count; i++)
		memcpy(marks + i * beest_meshmark_size(mesh), all + i * step,
		       beest_meshmark_size(mesh));
	ret = beest_meshmark_find(mesh, marks, false, &new);
	for (i = 0; i < new.count && ret >= 0; i++)
		if (new.digests[i]) {
			ret = beest_meshmark_list(mesh, &new, i,
						  all + new.peers[i].position * step +
						  beest_meshmark_size(mesh),
						  step - beest_meshmark_size(mesh));
			if (ret == 0)
				ret = beest_fail(EBADMSG, "the list of rank %d is damaged",
						 new.peers[i].endpoint.rank);
		}
	if (ret >= 0)
		ret = beest_meshmark_connect(mesh, marks, &new, limit);
	beest_meshmark_forget(&new);
	if (ret < 0)
		free(marks);

	return ret;
}

int beest_meshown_bringup(struct hartebeest_mesh *mesh, int failed,
			  const struct beest_limit *limit)
{
	struct beest_incarnation incarnation;
	uint8_t *all = NULL;
	size_t step = 0;
	int ret, listed;

	if (failed == 0)
		failed = beest_random(&incarnation, sizeof(incarnation));
	beest_meshphase_enter(mesh, &mesh->stats.wait);
	listed = status_gather(mesh, failed);
	if (listed < 0)
		return listed;
	beest_meshphase_enter(mesh, &mesh->stats.fetch);
	ret = marks_gather(mesh, &incarnation, (size_t)listed, &all, &step);
	if (ret == 0)
		ret = gathered_connect(mesh, all, step, limit);
	free(all);
	ret = status_gather(mesh, ret);

	return ret < 0 ? ret : 0;
}

int beest_meshown_barrier(struct hartebeest_mesh *mesh)
{
	int ret = status_gather(mesh, 0);

	if (ret < 0)
		return ret;
	mesh->passes++;

	return 0;
}
