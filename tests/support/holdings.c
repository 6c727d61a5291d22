/* SPDX-License-Identifier: MIT */
/* holdings.c - see holdings.h */
#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/holdings.h"

#define MEMORY_SLACK 4096		/* KB: the heaps of threads vary */

static long count_entries(const char *folder)
{
	DIR *directory = opendir(folder);
	long count = 0;

	while (directory && readdir(directory))
		count++;
	if (directory)
		closedir(directory);
	return count;
}

static long memory(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long all = 0, resident = 0;

	if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2)
		abort();
	fclose(file);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

struct holdings holdings_count(const struct cache *cache)
{
	return (struct holdings){
		.items = cache_stat(cache, "curr_items"),
		.descriptors = count_entries("/proc/self/fd"),
		.threads = count_entries("/proc/self/task"),
		.memory = memory(),
	};
}

static int has_grown(const char *what, long before, long now)
{
	if (now <= before)
		return 0;

	fprintf(stderr, "%ld %s at first, %ld now\n", before, what, now);
	return 1;
}

int holdings_have_grown(const struct holdings *before, const struct holdings *now)
{
	return has_grown("items", before->items, now->items) |
	       has_grown("descriptors", before->descriptors, now->descriptors) |
	       has_grown("threads", before->threads, now->threads) |
	       has_grown("KB", before->memory + MEMORY_SLACK, now->memory);
}
