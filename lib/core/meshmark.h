/* SPDX-License-Identifier: MIT */
/*
 * meshmark.h - what each rank of a mesh brings
 *
 * Owns the bytes that this rank brings, finds those in what all have brought who are not
 * connected yet, and connects them.  Knows nothing of how the bytes get from rank to rank.
 */
#ifndef BEEST_MESHMARK_H
#define BEEST_MESHMARK_H

#include "lib/core/mesh.h"

/* Fills mesh->blob and mesh->list, and makes room for what others bring. */
int beest_meshmark_make(struct hartebeest_mesh *mesh);

/* Bytes of a mark, which is an incarnation and a blob. */
size_t beest_meshmark_size(const struct hartebeest_mesh *mesh);

/* -EPROTO: rank number @i, which has said this form, asks for another mesh. */
int beest_meshmark_same(const struct hartebeest_mesh *mesh, size_t i, uint64_t form);

/* Those who have to be connected, and the digests of their lists. */
struct beest_newcomers {
	struct beest_fabric_peer *peers;
	uint64_t *digests;
	uint32_t **lists;		/* NULL: not known yet */
	size_t count;
	size_t first;			/* position, be it a peer or not; or none of them */
};

/*
 * Who of @marks is not connected yet, or @all of them, this rank among them.  -EPROTO: a
 * rank asks for another mesh, -EBADMSG; mesh->trouble.culprit is the position of that rank.
 */
int beest_meshmark_find(struct hartebeest_mesh *mesh, const uint8_t *marks, bool all,
			struct beest_newcomers *new);
void beest_meshmark_forget(struct beest_newcomers *new);

/*
 * The roll is complete: mesh->incarnations are its ranks'.  Returns how many have another life
 * than in the one before.
 */
size_t beest_meshmark_complete(struct hartebeest_mesh *mesh);

/*
 * 1: these bytes begin with the list that newcomer @k has told the digest of; 0: they do not.
 * -EPROTO: it does not name this rank as a peer.
 */
int beest_meshmark_list(struct hartebeest_mesh *mesh, struct beest_newcomers *new, size_t k,
			const uint8_t *bytes, size_t size);

/*
 * A row has the numbers that each rank's list has for one rank, in the order of ranks.  It is
 * filled for the rank at @position from the lists of @all; the own one is taken instead of
 * lists, 0: there is no memory for it.
 */
size_t beest_meshmark_row_size(const struct hartebeest_mesh *mesh);
void beest_meshmark_row_fill(const struct hartebeest_mesh *mesh, const struct beest_newcomers *all,
			     size_t position, uint8_t *bytes);
int beest_meshmark_row(const struct hartebeest_mesh *mesh, struct beest_newcomers *new,
		       const uint8_t *bytes);

/* Connects to all of them, and at 0 takes @marks over.  Failures as of beest_meshmark_find(). */
int beest_meshmark_connect(struct hartebeest_mesh *mesh, uint8_t *marks,
			   struct beest_newcomers *new, const struct beest_limit *limit);

#endif
