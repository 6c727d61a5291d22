/* SPDX-License-Identifier: MIT */
/*
 * attendance.h - the records of all ranks, read at once: who has come, who has not, and why
 *
 * Owns what was read of each rank, and the sentences about who is missing.  Who reads, and
 * when, is its callers': whoever opens the gate, and whoever gives up waiting for it.
 */
#ifndef BEEST_ATTENDANCE_H
#define BEEST_ATTENDANCE_H

#include "lib/rendezvous/gathering.h"

/* Reads all records.  0, or the failure of a server. */
int beest_attendance_read(struct beest_gathering *g);

/* Has rank number @i come to this roll call, not to one that is over? */
bool beest_attendance_called(const struct beest_gathering *g, size_t i);

/* Has rank number @i come to this pass?  In the roll call: does it know of @digest? */
bool beest_attendance_here(const struct beest_gathering *g, size_t i, uint64_t digest);
bool beest_attendance_complete(const struct beest_gathering *g, uint64_t digest);

/* After the roll call: 0, or why not all of those who are missing will come to this pass. */
int beest_attendance_judge(struct beest_gathering *g);

/* About once a second, to the caller's progress(): who is missing. */
void beest_attendance_report(struct beest_gathering *g);

/* In vain: reads all once more.  -ETIMEDOUT or -EAGAIN names whose record did not come. */
int beest_attendance_expired(struct beest_gathering *g);

#endif
