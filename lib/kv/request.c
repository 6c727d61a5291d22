/* SPDX-License-Identifier: MIT */
/* request.c - see request.h, and the two helpers of kv.h that need no server */
#include "config.h"

#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/kv/request.h"

int beest_request_check_key(const char *key)
{
	size_t i;

	for (i = 0; key[i] && i <= BEEST_KEY_MAX; i++)
		if ((uint8_t)key[i] <= 0x20 || (uint8_t)key[i] >= 0x7f)
			return beest_fail(EINVAL, "key %s: byte %zu is 0x%02x, which Memcached forbids",
					  BEEST_QUOTE(key), i + 1, (uint8_t)key[i]);
	if (i == 0)
		return beest_fail(EINVAL, "an empty key");
	if (i > BEEST_KEY_MAX)
		return beest_fail(EINVAL, "key %s: byte %d is one more than Memcached takes",
				  BEEST_QUOTE(key), BEEST_KEY_MAX + 1);

	return 0;
}

int beest_request_check_size(const char *key, size_t size)
{
	if (size > BEEST_VALUE_MAX)
		return beest_fail(EMSGSIZE, "key '%s': a value of %zu bytes, at most %d are possible",
				  key, size, BEEST_VALUE_MAX);

	return 0;
}

static int check_write(const struct beest_kv_write *write)
{
	int ret = beest_request_check_key(write->key);

	if (ret == 0 && (write->verb == BEEST_KV_SET || write->verb == BEEST_KV_ADD))
		ret = beest_request_check_size(write->key, write->size);

	return ret;
}

int beest_request_check(const struct beest_kv_request *request)
{
	size_t i;
	int ret = 0;

	if (!request->key_count && !(request->flags & BEEST_KV_ANSWERED))
		return beest_fail(EINVAL, "a request without a key to read");
	for (i = 0; i < request->write_count && ret == 0; i++)
		ret = check_write(&request->writes[i]);
	if (ret == 0 && request->opening)
		ret = check_write(request->opening);
	for (i = 0; i < request->key_count && ret == 0; i++)
		ret = beest_request_check_key(request->keys[i]);

	return ret;
}

int64_t beest_request_ttl(int64_t ttl)
{
	return ttl < BEEST_TTL_MAX ? ttl : BEEST_TTL_MAX;
}

bool beest_kv_transient(int error)
{
	static const int transient[] = {
		ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ECONNRESET, EHOSTDOWN,
		EUSERS, ENOBUFS, ENODATA,
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(transient); i++)
		if (error == -transient[i])
			return true;

	return false;
}

void beest_kv_values_free(struct beest_kv_value *values, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		free(values[i].bytes);
		values[i].bytes = NULL;
		values[i].size = 0;
	}
}
