/* SPDX-License-Identifier: MIT */
/*
 * meshmark.h - the mark that each rank brings to a mesh
 *
 * Owns the bytes that this rank brings.  Finds the ranks that are not connected yet in the marks
 * of all, and connects them.  Does not know how marks get from rank to rank.
 */
#ifndef BEEST_MESHMARK_H
#define BEEST_MESHMARK_H

#include "lib/core/meshstate.h"

/* Fills mesh->body, blob and list. */
int beest_meshmark_make(struct hartebeest_mesh *mesh);

/*
 * For a repair: 1: LID or MTU of the port have changed, so the mark is another one, with a
 * generation that was drawn; 0: they have not.  Errors of beest_qp_look_again().
 */
int beest_meshmark_renew(struct hartebeest_mesh *mesh);

/* Before what a rank brings, its mark has its incarnation, and four bytes that mean nothing. */
#define BEEST_MARK_HEAD (BEEST_INCARNATION_SIZE + 4)

/* The bytes of a mark. */
size_t beest_meshmark_size(const struct hartebeest_mesh *mesh);

/* -EPROTO: rank number @i, whose mark has this @form, asks for a different mesh. */
int beest_meshmark_same(const struct hartebeest_mesh *mesh, size_t i, uint64_t form);

/* Ranks to connect to, and their lists of queue pair numbers. */
struct beest_newcomers {
	struct beest_meshqps_peer *peers;
	uint64_t *digests;		/* of the list of each; 0: its numbers are in a row */
	uint32_t **lists;		/* in host byte order; NULL: not known yet */
	size_t count;
};

/*
 * Finds the peers in @marks that are not connected yet, or @all ranks including this one.
 * -EPROTO: a rank asks for a different mesh; -EBADMSG: its mark is damaged.
 */
int beest_meshmark_find(struct hartebeest_mesh *mesh, const uint8_t *marks, bool all,
			struct beest_newcomers *new);
void beest_meshmark_forget(struct beest_newcomers *new);

/*
 * Call it when all ranks have passed with mesh->marks.  Returns how many of them were replaced
 * since the last complete bring-up.
 */
size_t beest_meshmark_complete(struct hartebeest_mesh *mesh);

/*
 * Takes the list of newcomer number @k from the beginning of @bytes.  1: done; 0: these are not
 * the bytes of its digest; -EPROTO: it does not name this rank as a peer.
 */
int beest_meshmark_list(struct hartebeest_mesh *mesh, struct beest_newcomers *new, size_t k,
			const uint8_t *bytes, size_t size);

/*
 * A row has all queue pair numbers that one rank needs: in the order of ranks, those that each
 * rank's list has for it.  beest_meshmark_row_fill() makes the row of the rank at @position from
 * the lists of @all.  beest_meshmark_row() takes the own row in the place of lists.
 */
size_t beest_meshmark_row_size(const struct hartebeest_mesh *mesh);
void beest_meshmark_row_fill(const struct hartebeest_mesh *mesh, const struct beest_newcomers *all,
			     size_t position, uint8_t *bytes);
int beest_meshmark_row(const struct hartebeest_mesh *mesh, struct beest_newcomers *new,
		       const uint8_t *bytes);

/*
 * Connects to all newcomers; at 0, @marks belong to the mesh.
 */
int beest_meshmark_connect(struct hartebeest_mesh *mesh, uint8_t *marks,
			   struct beest_newcomers *new, const struct beest_limit *limit);

#endif
