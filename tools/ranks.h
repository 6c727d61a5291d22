/* SPDX-License-Identifier: MIT */
/*
 * ranks.h - which ranks of a job are there, and what they wait for
 *
 * Owns what is counted over all ranks: the lines above a list of a thousand.  Knows the records
 * only as records.h has read them.
 */
#ifndef TOOLS_RANKS_H
#define TOOLS_RANKS_H

#include "tools/records.h"

/*
 * Writes "67 of 70 ranks are present; never seen: 17; has left: 5-6".  The number of all is what
 * those present know.  Returns how many these are; 0: none, and nothing is written.
 */
size_t ranks_present(const struct records *records, char *text, size_t size);

/* Is it a rank that is present, and has made a long wait? */
bool ranks_waits(const struct records_record *record);

/* Shows that, and how many ranks last waited for what. */
void ranks_show(struct out *out, const struct records *records);

#endif
