/* SPDX-License-Identifier: MIT */
/*
 * quorum.h - nodes that start as programs of the original do
 *
 * Owns the bring-up of one node: four queue pairs to each other node, published before INIT, under
 * keys with parentheses; messages as barriers; a delete of everything; detached threads that
 * outlive main().  As in those programs, nothing tests what a fetch returns.  Uses only functions
 * of hartebeest-c.h, except to look whether a record is there.
 */
#ifndef QUORUM_H
#define QUORUM_H

#include <stdbool.h>

#define QUORUM_NODES 3

struct quorum {
	const char *folder;		/* for settings, and for what each node prints */
	bool device_moves_bytes;	/* false: only a fake device */
	/* Called by each node before it begins, and before it fetches anything; may be NULL. */
	void (*begin)(int node, const char *folder);
	void (*connect)(int node, const char *folder);
};

/*
 * Runs three nodes on a server of their own.  They must end well and print nothing, except that
 * they still wait: the machine may be slow.
 */
void quorum_run(const struct quorum *quorum);

/* What a node has printed so far, to both streams; the caller frees it. */
char *quorum_printed(const char *folder, int node);

/* Removes the files of the nodes. */
void quorum_forget(const char *folder);

#endif
