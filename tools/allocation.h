/* SPDX-License-Identifier: MIT */
/*
 * allocation.h - how many ranks a job may have, before its launcher has started
 *
 * Owns the variables and the host files of batch systems, and the options of launchers that give
 * a number of processes.  Knows nothing of what the number is for.
 */
#ifndef TOOLS_ALLOCATION_H
#define TOOLS_ALLOCATION_H

#include <stdint.h>

/*
 * The greatest number that the environment or a launcher's command line gives; 0: neither does.
 * @words end with NULL.
 */
int64_t allocation_ranks(char *const *words);

#endif
