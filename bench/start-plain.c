/* SPDX-License-Identifier: MIT */
/* start-plain.c - start-ours.c with plain libmemcached and nothing else */
#include "config.h"

#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"

int main(int argc, char **argv)
{
	memcached_st *handle = memcached_create(NULL);
	char own[64], other[64], *found;
	memcached_return_t code;
	size_t length;
	uint32_t flags;

	if (argc < 4 || !handle)
		return 2;
	snprintf(own, sizeof(own), "%s-%s", argv[3], argv[1]);
	snprintf(other, sizeof(other), "%s-%d", argv[3], !atoi(argv[1]));
	memcached_server_add(handle, "127.0.0.1", (in_port_t)atoi(strchr(argv[2], ':') + 1));
	if (memcached_set(handle, own, strlen(own), own, strlen(own) + 1, 0, 0) !=
	    MEMCACHED_SUCCESS)
		return 1;
	while (!(found = memcached_get(handle, other, strlen(other), &length, &flags, &code)))
		sleep(0);
	printf("0 %lld\n", (long long)bench_clock());
	fflush(stdout);
	memcached_free(handle);
	return strcmp(found, other) != 0;
}
