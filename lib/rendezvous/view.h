/* SPDX-License-Identifier: MIT */
/*
 * view.h - who takes part in a fence, and what each contributes
 *
 * Owns the entries of all ranks, how they are divided into chunks, and what names a view.  Pure,
 * but for the number of a view, which is drawn.  Knows nothing of servers, or of the order in which
 * ranks do things.
 */
#ifndef BEEST_VIEW_H
#define BEEST_VIEW_H

#include "lib/base/parse.h"
#include "lib/rendezvous/record.h"

/* The encoded entry of a rank; on the leader, what is hidden from the others follows it. */
struct beest_view_encoded {
	uint8_t *bytes;			/* NULL: none yet */
	size_t size;
};

struct beest_view {
	int owners;			/* besides the first; atomic */
	uint64_t id;			/* never the same twice; 0: it is being made */
	struct beest_incarnation leader;	/* who has proposed it, and in which of its calls */
	uint32_t call;
	bool taken;			/* this rank has done what the view demands of it */
	size_t count;			/* of ranks */
	struct beest_view_encoded *entries;
	size_t chunk_ranks;		/* 0: it is in one piece, within the leader's record */
	/* As they are stored. */
	uint64_t *chunks;		/* the digest of each; NULL: not read yet */
	uint64_t index;			/* the digest of these digests, which are a chunk, too;
					   0: they are within the leader's record */
	bool *needed;			/* the chunks that are read; NULL: all */
};

/* Ranks at these positions; NULL: all. */
struct beest_positions {
	const size_t *position;
	size_t count;
};

/* NULL: no memory, with the sentence. */
struct beest_view *beest_view_new(size_t count);

/* Frees it when its last owner does so; NULL: does nothing. */
void beest_view_free(struct beest_view *view);

/* Adds an owner: returns the view, which does not change any longer. */
struct beest_view *beest_view_share(struct beest_view *view);

/* Another view with the same entries, which may change; NULL: no memory, with the sentence. */
struct beest_view *beest_view_copy(const struct beest_view *view);

/* Is @encoded the entry of the rank at @position? */
bool beest_view_has(const struct beest_view *view, size_t position,
		    const struct beest_view_encoded *encoded);

/* Takes @encoded for the rank at @position over. */
void beest_view_set(struct beest_view *view, size_t position, struct beest_view_encoded encoded);

/* Is the entry of the rank at @position there?  Else it is in a chunk that was not read. */
static inline bool beest_view_knows(const struct beest_view *view, size_t position)
{
	return view->entries[position].bytes != NULL;
}

/* The entry of the rank at @position, which must be there. */
struct beest_fence_entry beest_view_entry(const struct beest_view *view, size_t position);

/* Does it have this call of that process? */
bool beest_view_names(const struct beest_view *view, size_t position,
		      const struct beest_incarnation *incarnation, uint32_t call);

/* Are all entries there, or all of the chunks that are needed? */
bool beest_view_is_whole(const struct beest_view *view);

/* Names a view that is whole, and divides it.  -ENOMEM, -EIO. */
int beest_view_close(struct beest_view *view, const struct beest_incarnation *leader,
		     uint32_t call);

/* How many chunks it has, with that of digests. */
size_t beest_view_chunk_count(const struct beest_view *view);
uint64_t beest_view_digest(const struct beest_view *view, size_t k);

/* The bytes of chunk @k, or of all in one piece, for free(3); NULL: no memory. */
uint8_t *beest_view_encode(const struct beest_view *view, size_t k, size_t *size);

/* Fills in what the leader's record has of it, with bytes for free(3); NULL: no memory. */
uint8_t *beest_view_describe(const struct beest_view *view, struct beest_leader_body *lead);

/*
 * Begins to read the view that @lead, a record of @leader, proposes.  beest_view_need() may follow.
 * -ENOMEM; -EBADMSG.
 */
int beest_view_begin(const struct beest_ids *ranks, const struct beest_incarnation *leader,
		     const struct beest_leader_body *lead, struct beest_view **view);

/* Only the chunks of these are needed, and that of the rank at @own.  -ENOMEM. */
int beest_view_need(struct beest_view *view, const struct beest_positions *needs, size_t own);

/* Begins to read the chunk of the rank at @position in a view that was read before.  -ENOMEM. */
int beest_view_begin_again(const struct beest_view *known, size_t position,
			   struct beest_view **view);

/* Reads a chunk, and returns which it is.  -ENOMEM; -EBADMSG: it is none of this view. */
int beest_view_read(struct beest_view *view, const struct beest_ids *ranks, const uint8_t *bytes,
		    size_t size);

/* Is chunk @k needed, and still to be read? */
bool beest_view_lacks(const struct beest_view *view, size_t k);

#endif
