/* SPDX-License-Identifier: MIT */
/*
 * probe.h - what is at the address of a server that gives no proper answer
 *
 * Owns a plain socket for as long as the questions take.  Knows nothing of libmemcached,
 * sends no record and keeps no connection.
 */
#ifndef BEEST_PROBE_H
#define BEEST_PROBE_H

#include <stdbool.h>
#include <stdint.h>

struct beest_memcached_address;

struct beest_kv_stats {
	uint64_t limit_bytes, evictions, item_bytes;
	uint64_t time;			/* by its own clock, in seconds */
	uint64_t connections_max, turned_away;	/* how often no more were possible */
	bool out_of_memory_is_an_error;		/* memcached -M: refuses instead of evicting */
};

/* See beest_kv_probe(). */
int beest_probe(const struct beest_memcached_address *address, int64_t deadline,
		struct beest_kv_stats *stats);

#endif
