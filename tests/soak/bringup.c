/* SPDX-License-Identifier: MIT */
/*
 * bringup.c - bring-ups in a row leave nothing behind
 *
 *	bringup SECONDS
 *
 * The same job comes up and goes again and again.  Its keys are the same each time, so the
 * server must not have more records after a run than after the ones before, and the process
 * not more descriptors, threads or memory.
 */
#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "tests/support/bringup.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/memcached.h"

#define RANKS 8
#define FIRST_RUNS 50			/* in which what is kept for good comes into being */
#define MEMORY_SLACK 4096		/* KB: heaps of threads do not come out alike */

struct holdings {
	long items, descriptors, threads, memory;
};

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

/* Resident, in KB. */
static long memory(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long all = 0, resident = 0;

	if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2)
		abort();
	fclose(file);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static struct holdings holdings(const struct cache *cache)
{
	return (struct holdings){
		.items = cache_stat(cache, "curr_items"),
		.descriptors = count_entries("/proc/self/fd"),
		.threads = count_entries("/proc/self/task"),
		.memory = memory(),
	};
}

/* Ends the program when the ranks are not connected as they should be. */
static void bring_up(const struct cache *cache)
{
	struct bringup *bringup = bringup_new(cache_hostport(cache)->text, "soak", RANKS);
	struct bringup_crowd crowd;
	const char *wrong;

	bringup_let_go(bringup);
	bringup_start(&crowd, bringup);
	bringup_join(&crowd);
	bringup_note_all(&crowd);
	bringup_leave(&crowd);
	wrong = bringup_wrong(bringup);
	if (wrong || fake_verbs.open) {
		fprintf(stderr, "%s; %d objects open\n", wrong ? wrong : "connected",
			fake_verbs.open);
		exit(1);
	}
	bringup_free(bringup);
	fake_verbs_reset();
}

static int has_grown(const char *what, long before, long now)
{
	if (now <= before)
		return 0;

	fprintf(stderr, "%ld %s at first, %ld now\n", before, what, now);
	return 1;
}

int main(int argc, char **argv)
{
	int64_t end = beest_clock_deadline(atol(argc > 1 ? argv[1] : "10") * BEEST_SECOND);
	struct holdings first, now;
	struct cache *cache;
	long runs;

	clearenv();
	cache_need();
	cache = cache_start(NULL);
	fake_verbs_reset();
	for (runs = 0; runs < FIRST_RUNS; runs++)
		bring_up(cache);
	first = holdings(cache);
	for (; beest_clock_left(end); runs++)
		bring_up(cache);
	now = holdings(cache);
	cache_end(cache);
	printf("%ld bring-ups of %d ranks, %ld items in the server, %ld KB\n", runs, RANKS,
	       now.items, now.memory);
	return has_grown("items", first.items, now.items) |
	       has_grown("descriptors", first.descriptors, now.descriptors) |
	       has_grown("threads", first.threads, now.threads) |
	       has_grown("KB", first.memory + MEMORY_SLACK, now.memory);
}
