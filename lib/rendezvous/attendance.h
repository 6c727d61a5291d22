/* SPDX-License-Identifier: MIT */
/*
 * attendance.h - reads the records of all ranks at once: who has come, who has not, and why
 *
 * Owns what was read of each rank, and the sentences about missing ranks.  Its callers decide
 * which rank reads, and when: one that opens the gate, or one that gives up waiting for it.
 */
#ifndef BEEST_ATTENDANCE_H
#define BEEST_ATTENDANCE_H

#include "lib/rendezvous/gathering.h"

/* Reads all records; in a roll call, also the gate.  0, or the failure of a server. */
int beest_attendance_read(struct beest_gathering *g);

/* Has rank number @i come to this roll call, and not to one that is over? */
bool beest_attendance_has_come(const struct beest_gathering *g, size_t i);

/* Has rank number @i come to this pass?  In a roll call: does its record name roll @digest? */
bool beest_attendance_here(const struct beest_gathering *g, size_t i, uint64_t digest);
bool beest_attendance_complete(const struct beest_gathering *g, uint64_t digest);

/* After the roll call: 0, or why some of the missing ranks will not come to this pass. */
int beest_attendance_judge(struct beest_gathering *g);

/* About once a second: reads all records, and reports the missing ranks to progress(). */
void beest_attendance_report(struct beest_gathering *g);

/*
 * The limit is over: reads all records once more.  -ETIMEDOUT or -EAGAIN names the missing; 0: all
 * have come, and this rank passes.
 */
int beest_attendance_expired(struct beest_gathering *g);

#endif
