/* SPDX-License-Identifier: MIT */
/*
 * contribution.h - what each rank contributes to a mesh
 *
 * Owns the bytes that this rank brings.  Finds the ranks that are not connected yet in the
 * contributions of all, and connects them.  Does not know how these get from rank to rank.
 */
#ifndef BEEST_CONTRIBUTION_H
#define BEEST_CONTRIBUTION_H

#include "lib/core/meshstate.h"

/* Fills mesh->body and value. */
int beest_contribution_make(struct hartebeest_mesh *mesh);

/*
 * For a repair: 1: LID or MTU of the port have changed, so the contribution is another one, with a
 * generation that was drawn; 0: they have not.  Errors of beest_qp_look_again().
 */
int beest_contribution_renew(struct hartebeest_mesh *mesh);

/* -EPROTO: rank number @i, whose contribution has this @form, asks for a different mesh. */
int beest_contribution_same(const struct hartebeest_mesh *mesh, size_t i, uint64_t form);

/* Ranks to connect to, and their lists of queue pair numbers. */
struct beest_newcomers {
	struct beest_meshqps_peer *peers;
	size_t count;
};

/*
 * Finds the peers in @view that are not connected yet, or @all ranks including this one.
 * -EPROTO: a rank asks for a different mesh; -EBADMSG: its contribution is damaged.
 */
int beest_contribution_find(struct hartebeest_mesh *mesh, const struct beest_view *view, bool all,
			    struct beest_newcomers *new);
void beest_contribution_forget(struct beest_newcomers *new);

/*
 * Call it when all ranks have passed with mesh->view.  Returns how many of them were
 * replaced since the last complete bring-up.
 */
size_t beest_contribution_complete(struct hartebeest_mesh *mesh);

/*
 * Takes the lists of the newcomers from @view, from what is @hidden in it or not.  -EBADMSG: the
 * list of a rank is damaged; -EPROTO: it does not name this rank as a peer.
 */
int beest_contribution_lists(struct hartebeest_mesh *mesh, const struct beest_view *view,
			     struct beest_newcomers *new, bool hidden);

/*
 * A row has all queue pair numbers that one rank needs: in the order of ranks, those that each
 * rank's list has for it.  beest_contribution_row_fill() makes the row of the rank at @position
 * from the lists of @all.  beest_contribution_row() takes this rank's row in the place of lists.
 */
size_t beest_contribution_row_size(const struct hartebeest_mesh *mesh);
void beest_contribution_row_fill(const struct hartebeest_mesh *mesh,
				 const struct beest_newcomers *all,
				 size_t position, uint8_t *bytes);
int beest_contribution_row(const struct hartebeest_mesh *mesh, struct beest_newcomers *new,
			   const uint8_t *bytes);

/* Connects to all newcomers; at 0, the mesh shares @view. */
int beest_contribution_connect(struct hartebeest_mesh *mesh, struct beest_view *view,
			       struct beest_newcomers *new, const struct beest_limit *limit);

#endif
