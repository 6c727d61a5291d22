/* SPDX-License-Identifier: MIT */
/*
 * probe.h - what is at the address of a server that gives no proper answer
 *
 * Owns a plain socket for as long as the questions take.  Knows nothing of libmemcached,
 * sends no record and keeps no connection.
 */
#ifndef BEEST_PROBE_H
#define BEEST_PROBE_H

#include "lib/kv/memcached.h"

/* See beest_kv_probe(). */
int beest_probe(const struct beest_memcached_address *address, struct beest_kv_stats *stats);

#endif
