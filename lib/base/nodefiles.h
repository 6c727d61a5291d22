/* SPDX-License-Identifier: MIT */
/*
 * nodefiles.h - what one process of a host has read, for the others of its user
 *
 * Owns a folder in memory, in which each file has what one key names.  The first process that needs
 * it makes the file and then fetches what belongs there; the others wait for it a moment.  Nothing
 * depends on the folder: without it, or if a process dies or the memory is full, each fetches for
 * itself.  A reader has to check what is in a file.  Knows nothing of servers.
 */
#ifndef BEEST_NODEFILES_H
#define BEEST_NODEFILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/process.h"

/* Where the folder is; NULL: there is none.  Only tests and benches set this, for their thread. */
extern __thread const char *beest_nodefiles_root;

/* One for each series of files; zero at first, but for the first two. */
struct beest_nodefiles {
	const struct beest_incarnation *author;
	int *swept;			/* of the author: 1: what others had left was removed; -1:
					   too much is left; 0 at first; atomic */
	int folder;			/* 0: not open; -1: there is none */
	uint64_t began;			/* see beest_process_ticks() */
	uint64_t *names;		/* of the files that it has made */
	size_t count;
};

enum beest_nodefile {
	BEEST_NODEFILE_THERE,
	BEEST_NODEFILE_OWN,		/* the caller has to fetch it */
	BEEST_NODEFILE_AWAITED,		/* another process fetches it */
};

/* If it is there, @bytes receives the contents for free(3). */
enum beest_nodefile beest_nodefiles_look(struct beest_nodefiles *files, const char *key,
					 uint8_t **bytes, size_t *size);

/* Has this process made the file? */
bool beest_nodefiles_made(const struct beest_nodefiles *files, const char *key);

/* Stores what the caller has fetched, if it has made the file. */
void beest_nodefiles_store(struct beest_nodefiles *files, const char *key, const uint8_t *bytes,
			   size_t size);

/* Closes the folder until it is needed again: a call may last for minutes. */
void beest_nodefiles_rest(struct beest_nodefiles *files);

/* Removes the files that it has made. */
void beest_nodefiles_end(struct beest_nodefiles *files);

#endif
