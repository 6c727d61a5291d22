/* SPDX-License-Identifier: MIT */
/*
 * gids.h - until the GID tables of this machine say what its addresses are
 *
 * Owns the comparison of the two, for Soft-RoCE.  GIDs follow addresses by way of a kernel
 * thread, which takes its time on a busy machine.
 */
#ifndef TESTS_GIDS_H
#define TESTS_GIDS_H

/* After addresses or links were changed; ends the program when it takes longer than 60 s. */
void gids_settle(void);

#endif
