/* SPDX-License-Identifier: MIT */
/*
 * gids.h - waits until this machine's GID tables match its addresses
 *
 * Owns the comparison of the two, for Soft-RoCE.  A kernel thread updates GIDs after addresses,
 * which takes a while on a busy machine.
 */
#ifndef TESTS_GIDS_H
#define TESTS_GIDS_H

/* Call it after changing addresses or links. */
void gids_settle(void);

#endif
