/* SPDX-License-Identifier: MIT */
/* contribution.c - see contribution.h */
#include "config.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/core/contribution.h"
#include "lib/core/meshphase.h"

/* A digest of what all ranks must ask for alike. */
static uint64_t form_of(const struct hartebeest_mesh *mesh)
{
	uint32_t numbers[] = {
		htonl((uint32_t)mesh->ranks.count), htonl(mesh->qps.per_peer),
		htonl(mesh->qps.attr.region_count),
		htonl((uint32_t)mesh->qps.model->local.transport),
		htonl(mesh->qps.peers != NULL),
	};
	uint64_t form = beest_hash_fnv(beest_hash_text(mesh->qps.name), numbers,
				       sizeof(numbers));
	uint32_t id;
	size_t i;

	for (i = 0; i < mesh->ranks.count; i++) {
		id = htonl((uint32_t)mesh->ranks.id[i]);
		form = beest_hash_fnv(form, &id, sizeof(id));
	}

	return form;
}

/*
 * How many 4-byte words the list of a rank with @peers peers has.  Where ranks choose their peers,
 * the number of peers and their ids precede the queue pair numbers.
 */
static size_t list_words(const struct hartebeest_mesh *mesh, size_t peers)
{
	return (mesh->qps.peers ? 1 + peers : 0) + peers * mesh->qps.per_peer;
}

static uint8_t *word_put(uint8_t *at, uint32_t word)
{
	word = htonl(word);
	memcpy(at, &word, sizeof(word));

	return at + sizeof(word);
}

static void list_fill(const struct hartebeest_mesh *mesh, uint8_t *at)
{
	const struct beest_meshqps *qps = &mesh->qps;
	size_t i;

	if (qps->peers)
		at = word_put(at, (uint32_t)qps->peer_count);
	for (i = 0; qps->peers && i < qps->peer_count; i++)
		at = word_put(at, (uint32_t)mesh->ranks.id[qps->peers[i]]);
	for (i = 0; i < qps->peer_count * qps->per_peer; i++)
		at = word_put(at, qps->slots[i]->qp_num);
}

static void own_contribution_fill(struct hartebeest_mesh *mesh)
{
	mesh->body.endpoint = mesh->qps.model->local.endpoint;
	beest_record_mesh_encode(&mesh->body, mesh->regions, mesh->qps.attr.region_count,
				 mesh->value);
}

int beest_contribution_make(struct hartebeest_mesh *mesh)
{
	/* Once for all its connections: a contribution holds for a whole call of the fence. */
	int ret = beest_qp_look_again(mesh->qps.model);

	if (ret < 0)
		return ret;
	mesh->blob_size = beest_record_mesh_size(mesh->qps.attr.region_count);
	if (!beest_meshqps_is_in_row(&mesh->qps))
		mesh->list_size = sizeof(uint32_t) * list_words(mesh, mesh->qps.peer_count);
	mesh->value = malloc(mesh->blob_size + mesh->list_size);
	if (!mesh->value)
		return beest_fail(ENOMEM, "no memory for a mesh of %zu ranks", mesh->ranks.count);
	mesh->body.form = form_of(mesh);
	if (mesh->list_size) {
		list_fill(mesh, mesh->value + mesh->blob_size);
		mesh->body.list = beest_hash_fnv(BEEST_HASH_FNV, mesh->value + mesh->blob_size,
						 mesh->list_size) | 1;
	}
	own_contribution_fill(mesh);

	return 0;
}

int beest_contribution_renew(struct hartebeest_mesh *mesh)
{
	int ret = beest_qp_look_again(mesh->qps.model);

	if (ret > 0)
		own_contribution_fill(mesh);

	return ret;
}

/* ----------------------------------------------------------- what others brought --- */

int beest_contribution_same(const struct hartebeest_mesh *mesh, size_t i, uint64_t form)
{
	return form == mesh->body.form ? 0 :
	       beest_fail(EPROTO, "rank %d and rank %d ask for different meshes: name, ranks, "
			  "type, qps_per_peer and region_count must be the same, and all or none "
			  "name peers", mesh->rank, mesh->ranks.id[i]);
}

static int contribution_decode(struct hartebeest_mesh *mesh, const struct beest_view *view,
			       size_t i, struct beest_mesh_body *body)
{
	const struct beest_fence_entry entry = beest_view_entry(view, i);
	int ret;

	if (entry.size < mesh->blob_size)
		return beest_fail(EBADMSG, "rank %d contributes %d bytes to a mesh, not %zu",
				  mesh->ranks.id[i], (int)entry.size, mesh->blob_size);
	ret = beest_record_mesh_decode(entry.value, mesh->blob_size, body);
	if (ret < 0)
		return beest_fail_prefix(ret, "rank %d", mesh->ranks.id[i]);
	body->endpoint.incarnation = entry.incarnation;
	body->endpoint.rank = mesh->ranks.id[i];

	return beest_contribution_same(mesh, i, body->form);
}

/*
 * Is rank number @i the same in both?  A repair leaves what it brings as it is, with the generation
 * that it had when it was made, unless its port has another LID or MTU.  A mesh that is made again
 * may have the same numbers otherwise.
 */
static bool lives_on(const struct hartebeest_mesh *mesh, size_t i, const struct beest_view *then,
		     const struct beest_view *now)
{
	const struct beest_fence_entry was = beest_view_entry(then, i);
	const struct beest_fence_entry is = beest_view_entry(now, i);

	return beest_process_is_context(&was.incarnation, &is.incarnation) &&
	       is.size >= mesh->blob_size && memcmp(was.value, is.value, mesh->blob_size) == 0;
}

size_t beest_contribution_complete(struct hartebeest_mesh *mesh)
{
	const size_t own = mesh->qps.own;
	size_t i, count = 0;

	for (i = 0; i < mesh->ranks.count && mesh->complete; i++)
		count += (i == own || beest_meshqps_has_peer(&mesh->qps, i)) &&
			 !lives_on(mesh, i, mesh->complete, mesh->view);
	beest_view_free(mesh->complete);
	mesh->complete = NULL;

	return count;
}

void beest_contribution_forget(struct beest_newcomers *new)
{
	size_t i;

	for (i = 0; i < new->count; i++)
		free(new->peers[i].list);
	free(new->peers);
}

int beest_contribution_find(struct hartebeest_mesh *mesh, const struct beest_view *view, bool all,
			    struct beest_newcomers *new)
{
	const struct beest_meshqps *qps = &mesh->qps;
	/* Only of its peers has a rank surely read what they contribute. */
	const bool chosen = qps->peers && !all;
	size_t i, k, count = chosen ? qps->peer_count : mesh->ranks.count, own = qps->own;
	/* A rank that brings another one is replaced for its peers: all of them connect again. */
	bool kept = mesh->view && lives_on(mesh, own, mesh->view, view);
	struct beest_meshqps_peer *peer;
	struct beest_mesh_body body;
	int ret = 0;

	new->count = 0;
	new->peers = calloc(count + 1, sizeof(*new->peers));
	if (!new->peers)
		return beest_fail(ENOMEM, "no memory to connect %zu ranks", count);
	for (k = 0; k < count && ret == 0; k++) {
		i = chosen ? qps->peers[k] : k;
		if (!all && (i == own || (kept && lives_on(mesh, i, mesh->view, view))))
			continue;
		ret = contribution_decode(mesh, view, i, &body);
		if (ret < 0)
			continue;
		peer = &new->peers[new->count++];
		peer->position = i;
		peer->slot = beest_meshqps_slot(qps, i, own);
		peer->endpoint = body.endpoint;
		peer->digest = body.list;
	}

	return ret;
}

/* How many words a list has, by its head; SIZE_MAX: an impossible number. */
static size_t list_length(const struct hartebeest_mesh *mesh, const uint8_t *bytes, size_t size)
{
	size_t peers = mesh->ranks.count - 1;
	uint32_t count;

	if (mesh->qps.peers && size >= sizeof(count)) {
		memcpy(&count, bytes, sizeof(count));
		peers = ntohl(count);
	}

	return peers < mesh->ranks.count ? list_words(mesh, peers) : SIZE_MAX;
}

/* Finds the numbers for this rank in the list of a rank that chooses its peers. */
static int peer_find_own(const struct hartebeest_mesh *mesh, struct beest_meshqps_peer *peer)
{
	uint32_t i, count = peer->list[0];

	for (i = 0; i < count && peer->list[1 + i] != (uint32_t)mesh->rank; i++)
		;
	if (i == count)
		return beest_fail(EPROTO, "rank %d has rank %d among its peers, but rank %d does "
				  "not have rank %d among its own", mesh->rank, peer->endpoint.rank,
				  peer->endpoint.rank, mesh->rank);
	peer->slot = (size_t)i * mesh->qps.per_peer;
	peer->numbers = peer->list + 1 + count + peer->slot;

	return 1;
}

/* A copy of @count numbers in host byte order, for free(3). */
static int words_copy(const uint8_t *bytes, size_t count, uint32_t **words)
{
	size_t i;

	*words = malloc(count * sizeof(**words));
	if (!*words)
		return beest_fail(ENOMEM, "no memory for the numbers of %zu queue pairs", count);
	memcpy(*words, bytes, count * sizeof(**words));
	for (i = 0; i < count; i++)
		(*words)[i] = ntohl((*words)[i]);

	return 1;
}

/*
 * Takes the list of a newcomer from the beginning of @bytes.  1: done; 0: these are not the bytes
 * of its digest.
 */
static int list_take(struct hartebeest_mesh *mesh, struct beest_meshqps_peer *peer,
		     const uint8_t *bytes, size_t size)
{
	size_t count = list_length(mesh, bytes, size);
	int ret;

	if (count > size / sizeof(*peer->list) ||
	    (beest_hash_fnv(BEEST_HASH_FNV, bytes, count * sizeof(*peer->list)) | 1) !=
	    peer->digest)
		return 0;
	ret = words_copy(bytes, count, &peer->list);
	if (ret > 0 && mesh->qps.peers)
		return peer_find_own(mesh, peer);
	if (ret > 0 && peer->position != mesh->qps.own)
		peer->numbers = peer->list + peer->slot;

	return ret;
}

int beest_contribution_lists(struct hartebeest_mesh *mesh, const struct beest_view *view,
			     struct beest_newcomers *new, bool hidden)
{
	struct beest_meshqps_peer *peer;
	struct beest_fence_entry entry;
	int ret = 0;

	for (peer = new->peers; peer < new->peers + new->count && ret >= 0; peer++) {
		if (!peer->digest)
			continue;
		entry = beest_view_entry(view, peer->position);
		ret = hidden ? list_take(mesh, peer, entry.hidden, entry.hidden_size) :
		      list_take(mesh, peer, entry.value + mesh->blob_size,
				entry.size - mesh->blob_size);
		if (ret == 0)
			ret = beest_fail(EBADMSG, "the list of rank %d is damaged",
					 peer->endpoint.rank);
	}

	return BEEST_MIN(ret, 0);
}

size_t beest_contribution_row_size(const struct hartebeest_mesh *mesh)
{
	return mesh->ranks.count * mesh->qps.per_peer * sizeof(uint32_t);
}

void beest_contribution_row_fill(const struct hartebeest_mesh *mesh,
				 const struct beest_newcomers *all, size_t position, uint8_t *bytes)
{
	const struct beest_meshqps *qps = &mesh->qps;
	uint32_t index, number;
	size_t i, place;

	for (i = 0; i < all->count; i++)
		for (index = 0; index < qps->per_peer; index++) {
			place = beest_meshqps_slot(qps, i, position) + index;
			number = i != position && all->peers[i].list ?
				 all->peers[i].list[place] : 0;
			bytes = word_put(bytes, number);
		}
}

int beest_contribution_row(const struct hartebeest_mesh *mesh, struct beest_newcomers *new,
			   const uint8_t *bytes)
{
	struct beest_meshqps_peer *peer;
	/* The first newcomer keeps it for all, for beest_contribution_forget() to free. */
	uint32_t **words = &new->peers[0].list;
	int ret = words_copy(bytes, mesh->ranks.count * mesh->qps.per_peer, words);

	for (peer = new->peers; peer < new->peers + new->count && ret > 0; peer++)
		if (peer->digest)
			peer->numbers = *words + peer->position * mesh->qps.per_peer;

	return BEEST_MIN(ret, 0);
}

/*
 * Queue pairs take RTR and RTS one after the other, so the time of both is divided in the
 * proportion that the sample took.
 */
static void rts_split(struct hartebeest_mesh *mesh, int64_t before)
{
	const struct beest_meshqps *qps = &mesh->qps;
	struct hartebeest_mesh_stats *stats = &mesh->stats;
	int64_t rts;

	if (!qps->rts_time)
		return;
	rts = (int64_t)((double)(stats->rtr.time - before) * (double)qps->rts_time /
			(double)(qps->rtr_time + qps->rts_time));
	stats->rtr.time -= rts;
	stats->rts.time += rts;
}

int beest_contribution_connect(struct hartebeest_mesh *mesh, struct beest_view *view,
			       struct beest_newcomers *new, const struct beest_limit *limit)
{
	int64_t before = mesh->stats.rtr.time;
	size_t culprit;
	int ret;

	beest_meshphase_enter(mesh, &mesh->stats.rtr);
	ret = beest_meshqps_connect(&mesh->qps, new->peers, new->count, limit, &culprit);
	beest_meshphase_enter(mesh, &mesh->stats.confirm);
	rts_split(mesh, before);
	if (ret < 0)
		return ret;
	/* Keeps the last complete view until this one is complete. */
	if (mesh->complete)
		beest_view_free(mesh->view);
	else
		mesh->complete = mesh->view;
	mesh->view = beest_view_share(view);

	return 0;
}
