/* SPDX-License-Identifier: MIT */
/*
 * raw-kv.h - a look at a server without the library, by lib/kv/ alone
 *
 * Owns requests for one key.  Knows nothing of records and jobs: keys and values are bytes.
 */
#ifndef TESTS_RAW_KV_H
#define TESTS_RAW_KV_H

#include "lib/kv/kv.h"

/* Waits for the answer.  Errors of request.h; -EEXIST: already there, -ENOENT: not there. */
int raw_kv_put(struct beest_kv *kv, const char *key, const void *value, size_t size,
	       int64_t ttl, int64_t deadline);
int raw_kv_add(struct beest_kv *kv, const char *key, const void *value, size_t size,
	       int64_t ttl, int64_t deadline);
int raw_kv_delete(struct beest_kv *kv, const char *key, int64_t deadline);

/*
 * Reads keys of one server.  Absent keys have no bytes; after a failure, none has.  Also stores a
 * key of its own, which shows that the server answers.
 */
int raw_kv_get(struct beest_kv *kv, const char *const *keys, size_t count,
	       struct beest_kv_value *values, int64_t deadline);

/* The server of @key, as configured. */
const char *raw_kv_server(const struct beest_kv *kv, const char *key);

#endif
