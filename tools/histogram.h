/* SPDX-License-Identifier: MIT */
/*
 * histogram.h - any number of times in constant memory, and their percentiles
 *
 * Owns the buckets: exact below 128 ns, and above that to one percent of the value.  The
 * least and the greatest value are exact.  Knows nothing of what was timed.
 */
#ifndef TOOLS_HISTOGRAM_H
#define TOOLS_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_EXACT 128
#define HISTOGRAM_BUCKETS (HISTOGRAM_EXACT + 56 * 64)

/* Zero is empty. */
struct histogram {
	uint64_t count;
	int64_t min, max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* @value: 0 or more. */
void histogram_add(struct histogram *histogram, int64_t value);

/* The value that @share ten-thousandths do not exceed; 5000: the median.  0: it is empty. */
int64_t histogram_percentile(const struct histogram *histogram, int share);

#endif
