/* SPDX-License-Identifier: MIT */
/* plain.c - see plain.h */
#include "config.h"

#include <errno.h>
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/plain.h"

struct plain_key plain_key(const struct bench_rank *rank, const char *kind, int from, int to)
{
	struct plain_key key;

	snprintf(key.text, sizeof(key.text), "%s-%s-%d-%d", rank->pass->job, kind, from, to);
	return key;
}

int plain_open(struct bench_rank *rank)
{
	memcached_st *handle = memcached_create(NULL);
	memcached_return_t code;

	rank->own = handle;
	if (!handle)
		return -ENOMEM;
	code = memcached_server_add(handle, "127.0.0.1", (in_port_t)rank->pass->port);
	if (code == MEMCACHED_SUCCESS)
		code = memcached_exist(handle, "nobody", strlen("nobody"));
	if (code != MEMCACHED_NOTFOUND)
		return bench_fail(rank, -EIO, "%s", memcached_strerror(handle, code));
	return 0;
}

void plain_close(struct bench_rank *rank)
{
	memcached_free(rank->own);
}

int plain_set(struct bench_rank *rank, const char *key, const void *value, size_t size)
{
	memcached_return_t code = memcached_set(rank->own, key, strlen(key), value, size, 0, 0);

	return code == MEMCACHED_SUCCESS ? 0
		: bench_fail(rank, -EIO, "set %s: %s", key, memcached_strerror(rank->own, code));
}

int plain_wait(struct bench_rank *rank, const char *key, void *value, size_t size)
{
	memcached_return_t code;
	size_t length;
	uint32_t flags;
	char *found;

	while (!(found = memcached_get(rank->own, key, strlen(key), &length, &flags, &code))) {
		if (bench_over(rank))
			return bench_fail(rank, -ETIMEDOUT, "%s did not come", key);
		sleep(0);
	}
	if (length == size)
		memcpy(value, found, size);
	free(found);
	return length == size ? 0 : bench_fail(rank, -EBADMSG, "%s has %zu bytes", key, length);
}

int plain_delete(struct bench_rank *rank, const char *key)
{
	memcached_return_t code = memcached_delete(rank->own, key, strlen(key), 0);

	return code == MEMCACHED_SUCCESS ? 0
		: bench_fail(rank, -EIO, "delete %s: %s", key, memcached_strerror(rank->own, code));
}
