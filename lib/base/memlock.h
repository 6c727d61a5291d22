/* SPDX-License-Identifier: MIT */
/*
 * memlock.h - how much memory this process may lock, as regions and queues do
 *
 * Owns the limit, and the privilege that lifts it.  Knows nothing of what is locked.
 */
#ifndef BEEST_MEMLOCK_H
#define BEEST_MEMLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* The folder of this process in /proc, which only tests change. */
extern const char *beest_memlock_proc;

/*
 * Does CAP_IPC_LOCK lift the limit?  The kernel asks for it in the first user namespace: root in a
 * container without privileges has it in vain.
 */
bool beest_memlock_is_lifted(void);

/* Is there a limit that applies?  *bytes gets it. */
bool beest_memlock_limit(uint64_t *bytes);

#endif
