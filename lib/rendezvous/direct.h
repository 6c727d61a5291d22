/* SPDX-License-Identifier: MIT */
/*
 * direct.h - a roll call of few ranks, in which each reads all records
 *
 * No rank waits for another one to open a gate.  A rank is done when the records of all others
 * say that they know the same roll.
 */
#ifndef BEEST_DIRECT_H
#define BEEST_DIRECT_H

#include "lib/rendezvous/gathering.h"

/* Makes the wait look for the records of all other ranks, too. */
int beest_direct_start(struct beest_gathering *g);

/* After each look.  1: all ranks know the roll. */
int beest_direct_each(struct beest_gathering *g);

/* Frees what was read. */
void beest_direct_free(struct beest_gathering *g);

#endif
