/* SPDX-License-Identifier: MIT */
/* request.c - see request.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/kv/request.h"

/* CR LF in a key would end one command and begin another. */
static int key_check(const char *key)
{
	const char *bad = beest_text_not_key(key);

	if (!*key)
		return beest_fail(EINVAL, "an empty key");
	if (bad)
		return beest_fail(EINVAL, "key %s: byte %td is %s, which Memcached forbids",
				  BEEST_QUOTE(key), bad - key + 1, BEEST_BYTE_TEXT(*bad));
	if (strlen(key) > BEEST_KEY_MAX)
		return beest_fail(EINVAL, "key %s is longer than the %d bytes that Memcached takes",
				  BEEST_QUOTE(key), BEEST_KEY_MAX);

	return 0;
}

static int write_check(const struct beest_kv_write *write)
{
	int ret = key_check(write->key);

	if (ret == 0 && write->size > BEEST_VALUE_MAX)
		return beest_fail(EMSGSIZE,
				  "key '%s': the value has %zu bytes, at most %d are possible",
				  write->key, write->size, BEEST_VALUE_MAX);

	return ret;
}

int beest_request_prepare(struct beest_kv_request *request)
{
	size_t i;
	int ret = 0;

	request->session = NULL;
	request->took = 0;
	request->heard = 0;
	request->unexplained = false;
	if (request->key_count)
		memset(request->values, 0, request->key_count * sizeof(*request->values));
	for (i = 0; i < request->write_count; i++)
		request->writes[i].done = false;
	beest_request_spoil(request, 0);

	if (!request->key_count && !beest_request_ends_answered(request))
		return beest_fail(EINVAL, "a request without a key to read");
	for (i = 0; i < request->write_count && ret == 0; i++)
		ret = write_check(&request->writes[i]);
	if (ret == 0 && request->opening)
		ret = write_check(request->opening);
	for (i = 0; i < request->key_count && ret == 0; i++)
		ret = key_check(request->keys[i]);

	return ret;
}

void beest_request_spoil(struct beest_kv_request *request, int ret)
{
	struct beest_kv_write *write;
	size_t i;

	if ((ret != -EHOSTDOWN && ret != -ECONNRESET) || !request->key_count ||
	    !request->values[0].bytes)
		beest_kv_values_free(request->values, request->key_count);
	request->answered = false;
	request->ret = ret;
	beest_text_copy(request->why, sizeof(request->why), ret < 0 ? beest_error_text() : "");
	for (i = 0; i < request->write_count; i++) {
		write = &request->writes[i];
		if (write->done)
			continue;
		write->ret = write->answered ? ret : 0;
		write->number = 0;
	}
}

bool beest_request_has_answers(const struct beest_kv_request *request)
{
	size_t i = 0;

	while (i < request->write_count && !request->writes[i].answered)
		i++;

	return i < request->write_count;
}

bool beest_request_ends_answered(const struct beest_kv_request *request)
{
	return request->write_count && request->writes[request->write_count - 1].answered &&
	       request->key_count <= 1;
}

bool beest_kv_transient(int error)
{
	switch (-error) {
	case EADDRNOTAVAIL:
	case ECONNREFUSED:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ECONNRESET:
	case EHOSTDOWN:
	case EUSERS:
	case ENOBUFS:
	case ENODATA:
		return true;
	}

	return false;
}

void beest_kv_values_free(struct beest_kv_value *values, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		free(values[i].bytes);
		values[i] = (struct beest_kv_value){ 0 };
	}
}
