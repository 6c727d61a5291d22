/* SPDX-License-Identifier: MIT */
/*
 * direct.h - a roll call of few ranks, in which each reads the records of all
 *
 * Nobody opens a gate that others wait for: a rank is done when all others have said that
 * they know the very same roll.
 */
#ifndef BEEST_DIRECT_H
#define BEEST_DIRECT_H

#include "lib/rendezvous/gathering.h"

/* Waits for all records, beside the gate. */
int beest_direct_start(struct beest_gathering *g);

/* After each look.  1: all know of all. */
int beest_direct_each(struct beest_gathering *g);

#endif
