/* SPDX-License-Identifier: MIT */
/* raw-kv.c - see raw-kv.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/raw-kv.h"

static int write_run(struct beest_kv *kv, struct beest_kv_write write, int64_t deadline)
{
	struct beest_kv_request request = {
		.server = beest_kv_server_of(kv, write.key), .writes = &write, .write_count = 1,
	};
	int ret;

	write.answered = true;
	ret = beest_kv_run(kv, &request, 1, deadline, NULL);

	return ret < 0 ? ret : write.ret;
}

int raw_kv_put(struct beest_kv *kv, const char *key, const void *value, size_t size,
	       int64_t ttl, int64_t deadline)
{
	return write_run(kv, (struct beest_kv_write){
		.verb = BEEST_KV_SET, .key = key, .value = value, .size = size, .ttl = ttl,
	}, deadline);
}

int raw_kv_add(struct beest_kv *kv, const char *key, const void *value, size_t size,
	       int64_t ttl, int64_t deadline)
{
	return write_run(kv, (struct beest_kv_write){
		.verb = BEEST_KV_ADD, .key = key, .value = value, .size = size, .ttl = ttl,
	}, deadline);
}

int raw_kv_delete(struct beest_kv *kv, const char *key, int64_t deadline)
{
	return write_run(kv, (struct beest_kv_write){
		.verb = BEEST_KV_DELETE, .key = key,
	}, deadline);
}

int raw_kv_get(struct beest_kv *kv, const char *const *keys, size_t count,
	       struct beest_kv_value *values, int64_t deadline)
{
	struct beest_kv_write canary = {
		.verb = BEEST_KV_SET, .key = "raw-kv/canary", .value = "w", .size = 1, .ttl = 3600,
	};
	const char **asked = malloc((count + 1) * sizeof(*asked));
	struct beest_kv_value *got = calloc(count + 1, sizeof(*got));
	struct beest_kv_request request = {
		.server = beest_kv_server_of(kv, keys[0]), .writes = &canary, .write_count = 1,
		.keys = asked, .key_count = count + 1, .values = got,
	};
	int ret;

	if (!asked || !got)
		abort();
	asked[0] = canary.key;
	memcpy(asked + 1, keys, count * sizeof(*keys));
	ret = beest_kv_run(kv, &request, 1, deadline, NULL);
	beest_kv_values_free(got, ret < 0 ? count + 1 : 1);
	memcpy(values, got + 1, count * sizeof(*values));
	free(asked);
	free(got);
	return ret;
}

const char *raw_kv_server(const struct beest_kv *kv, const char *key)
{
	return beest_kv_text(kv, beest_kv_server_of(kv, key));
}
