/* SPDX-License-Identifier: MIT */
/*
 * request.h - what every key-value client demands of a request
 *
 * Owns the limits of keys, values and times to live.  Pure.  Knows nothing of servers
 * and connections.
 */
#ifndef BEEST_REQUEST_H
#define BEEST_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "lib/kv/kv.h"

/* A server reads more seconds than these as a date in 1970. */
#define BEEST_TTL_MAX (INT64_C(30) * 24 * 60 * 60)

/* -EINVAL: a CR LF in a key is the end of one command and the beginning of another. */
int beest_request_check_key(const char *key);

/* -EMSGSIZE */
int beest_request_check_size(const char *key, size_t size);

/* All keys and sizes of a request; -EINVAL, -EMSGSIZE. */
int beest_request_check(const struct beest_kv_request *request);

/* @ttl, cut to BEEST_TTL_MAX. */
int64_t beest_request_ttl(int64_t ttl);

#endif
