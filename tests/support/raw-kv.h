/* SPDX-License-Identifier: MIT */
/*
 * raw-kv.h - a look at a server behind the library's back, over lib/kv/ alone
 *
 * Owns one-key requests.  Knows nothing of records and jobs: keys and values are bytes.
 */
#ifndef TESTS_RAW_KV_H
#define TESTS_RAW_KV_H

#include "lib/kv/kv.h"

/* Each waits for its answer.  Errors of kv.h; -EEXIST: already there, -ENOENT: not there. */
int raw_kv_put(struct beest_kv *kv, const char *key, const void *value, size_t size,
	       int64_t ttl, int64_t deadline);
int raw_kv_add(struct beest_kv *kv, const char *key, const void *value, size_t size,
	       int64_t ttl, int64_t deadline);
int raw_kv_delete(struct beest_kv *kv, const char *key, int64_t deadline);

/*
 * Keys of one server, absent ones without bytes; after a failure none has any.  Stores a key
 * of its own there, which shows that the server answers.
 */
int raw_kv_get(struct beest_kv *kv, const char *const *keys, size_t count,
	       struct beest_kv_value *values, int64_t deadline);

/* The server of @key, as configured. */
const char *raw_kv_server(const struct beest_kv *kv, const char *key);

#endif
