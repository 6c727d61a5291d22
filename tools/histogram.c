/* SPDX-License-Identifier: MIT */
/* histogram.c - see histogram.h */
#include "config.h"

#include "lib/base/macro.h"
#include "tools/histogram.h"

/* Each power of two from 2^7 on is divided into 64 buckets. */
static int bucket_of(int64_t value)
{
	int power;

	if (value < HISTOGRAM_EXACT)
		return (int)value;
	power = 63 - __builtin_clzll((unsigned long long)value);
	return HISTOGRAM_EXACT + (power - 7) * 64 + (int)(value >> (power - 6)) - 64;
}

/* The middle of a bucket. */
static int64_t bucket_value(int bucket)
{
	int power, part;

	if (bucket < HISTOGRAM_EXACT)
		return bucket;
	power = (bucket - HISTOGRAM_EXACT) / 64 + 7;
	part = (bucket - HISTOGRAM_EXACT) % 64 + 64;
	return ((int64_t)part << (power - 6)) + (INT64_C(1) << (power - 6)) / 2;
}

void histogram_add(struct histogram *histogram, int64_t value)
{
	if (!histogram->count || value < histogram->min)
		histogram->min = value;
	if (!histogram->count || value > histogram->max)
		histogram->max = value;
	histogram->count++;
	histogram->buckets[bucket_of(value)]++;
}

int64_t histogram_percentile(const struct histogram *histogram, int share)
{
	uint64_t seen = 0, wanted = histogram->count / 10000 * (uint64_t)share +
				    (histogram->count % 10000 * (uint64_t)share + 9999) / 10000;
	int64_t value = 0;
	int i;

	for (i = 0; i < HISTOGRAM_BUCKETS && seen < BEEST_MAX(wanted, 1); i++) {
		seen += histogram->buckets[i];
		value = bucket_value(i);
	}
	return BEEST_MAX(histogram->min, BEEST_MIN(value, histogram->max));
}
