/* SPDX-License-Identifier: MIT */
/*
 * anchors.c - the exchange alone: N ranks, of which each learns what all others brought
 *
 * No queue pair is made, and nothing is confirmed.  A rank is done when it holds the bytes of
 * all others, as many as a rank of a mesh with one region brings.
 *
 * 	library		hartebeest_gather(), which is the fence of a mesh without its queue pairs
 * 	original	a key for each pair and one for the region, asked for one by one
 * 	raw records	sockets to the same server: a record a rank, a counter, and a list that
 * 			the rank with the last number writes
 * 	socket star	TCP connections to rank 0, which hands out everything
 * 	PMIx		put, commit, fence with data, get; a process a rank under mpirun
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/ours.h"
#include "bench/plain.h"
#include "bench/raw.h"
#include "bench/star.h"

/* The size of a queue pair's record, and of a region's. */
#define END 74
#define REGION 24
#define BROUGHT (END + REGION)

/* ---------------------------------------------------------- what was learnt --- */

/* What one rank brings.  pass->data has, for each rank, those of all ranks as it learnt them. */
struct anchor {
	char bytes[BROUGHT];
};

static void anchors_prepare(struct bench_pass *pass)
{
	pass->data = calloc((size_t)pass->size * (size_t)pass->size, sizeof(struct anchor));
	if (!pass->data)
		abort();
}

static void anchors_discard(struct bench_pass *pass)
{
	free(pass->data);
}

static struct anchor *learnt(const struct bench_rank *rank, int peer)
{
	return (struct anchor *)rank->pass->data + (size_t)rank->rank * (size_t)rank->pass->size +
	       peer;
}

/* Letters, since raw_talk() counts lines: a bit of the rank chooses one of two for each byte. */
static struct anchor anchor_of(int rank)
{
	struct anchor anchor;
	int i;

	for (i = 0; i < BROUGHT; i++)
		anchor.bytes[i] = (char)('a' + (rank >> i % 11 & 1) + 2 * (i % 12));
	return anchor;
}

static const char *anchors_wrong(struct bench_pass *pass)
{
	static char text[128];
	int rank, peer, size = pass->side->programs ? 0 : pass->size;

	for (peer = 0; peer < size; peer++) {
		const struct anchor anchor = anchor_of(peer);

		for (rank = 0; rank < size; rank++) {
			if (memcmp(learnt(&pass->ranks[rank], peer), &anchor, sizeof(anchor)) == 0)
				continue;
			snprintf(text, sizeof(text), "rank %d does not have what rank %d brought",
				 rank, peer);
			return text;
		}
	}
	return NULL;
}

/* ------------------------------------------------------------------ the library --- */

static int library_work(struct bench_rank *rank)
{
	const struct anchor own = anchor_of(rank->rank);

	return ours_result(rank, hartebeest_gather(rank->own, "anchors", &own, sizeof(own),
						   learnt(rank, 0), HARTEBEEST_DEFAULT));
}

/* ------------------------------------------------------------ original's way --- */

static int set_end(struct bench_rank *rank, int peer)
{
	return plain_set(rank, plain_key(rank, "qp", rank->rank, peer).text,
			 learnt(rank, rank->rank), END);
}

static int wait_end(struct bench_rank *rank, int peer)
{
	return plain_wait(rank, plain_key(rank, "qp", peer, rank->rank).text,
			  learnt(rank, peer), END);
}

static int wait_region(struct bench_rank *rank, int peer)
{
	return plain_wait(rank, plain_key(rank, "mr", peer, 0).text,
			  learnt(rank, peer)->bytes + END, REGION);
}

static int original_work(struct bench_rank *rank)
{
	struct anchor *own = learnt(rank, rank->rank);
	int ret;

	*own = anchor_of(rank->rank);
	ret = plain_set(rank, plain_key(rank, "mr", rank->rank, 0).text, own->bytes + END,
			REGION);
	if (ret == 0)
		ret = bench_each_peer(rank, set_end);
	if (ret == 0)
		ret = bench_each_peer(rank, wait_end);
	return ret < 0 ? ret : bench_each_peer(rank, wait_region);
}

/* ------------------------------------------------------------- raw memcached --- */

static int records_open(struct bench_rank *rank)
{
	struct raw *raw;
	int ret = raw_open(rank);

	raw = rank->device;
	return ret < 0 || rank->rank ? ret
		: raw_talk(rank, (size_t)sprintf(raw->text, "add %s-count 0 0 1\r\n0\r\n",
						 rank->pass->job), 1);
}

/* Copies the bytes of @count values from "VALUE key flags size\r\n<size bytes>\r\n...". */
static int values_take(const char *text, struct anchor *to, size_t size, int count)
{
	const char *bytes;
	int i;

	for (i = 0; i < count; i++) {
		bytes = strchr(text, '\n');
		if (strncmp(text, "VALUE ", 6) != 0 || !bytes)
			return -EBADMSG;
		memcpy((char *)to + (size_t)i * size, bytes + 1, size);
		text = bytes + 1 + size + 2;
	}
	return 0;
}

/* The rank with the last number writes the list of all. */
static int roll_write(struct bench_rank *rank)
{
	size_t size = (size_t)rank->pass->size * sizeof(struct anchor), length;
	struct raw *raw = rank->device;
	int i, ret;

	length = (size_t)sprintf(raw->text, "get");
	for (i = 0; i < rank->pass->size; i++)
		length += (size_t)sprintf(raw->text + length, " %s-%d", rank->pass->job, i);
	length += (size_t)sprintf(raw->text + length, "\r\n");
	ret = raw_talk(rank, length, 2 * rank->pass->size + 1);
	if (ret == 0)
		ret = values_take(raw->text, learnt(rank, 0), BROUGHT, rank->pass->size);
	if (ret < 0)
		return ret;
	length = (size_t)sprintf(raw->text, "set %s-list 0 0 %zu\r\n", rank->pass->job, size);
	memcpy(raw->text + length, learnt(rank, 0), size);
	memcpy(raw->text + length + size, "\r\n", 2);
	return raw_talk(rank, length + size + 2, 1);
}

static int roll_await(struct bench_rank *rank)
{
	struct raw *raw = rank->device;
	char key[64];
	int ret;

	snprintf(key, sizeof(key), "%s-list", rank->pass->job);
	ret = raw_await(rank, key);
	return ret < 0 ? ret : values_take(raw->text, learnt(rank, 0), (size_t)rank->pass->size *
					   sizeof(struct anchor), 1);
}

static int records_work(struct bench_rank *rank)
{
	const struct anchor own = anchor_of(rank->rank);
	struct raw *raw = rank->device;
	int ret = raw_talk(rank, (size_t)sprintf(raw->text, "set %s-%d 0 0 %d\r\n%.*s\r\n"
						 "incr %s-count 1\r\n", rank->pass->job,
						 rank->rank, BROUGHT, BROUGHT, own.bytes,
						 rank->pass->job), 2);

	if (ret < 0)
		return ret;
	if (atoi(strchr(raw->text, '\n') + 1) == rank->pass->size)
		return roll_write(rank);
	return roll_await(rank);
}

/* ------------------------------------------------------------ sockets and PMIx --- */

static int sockets_work(struct bench_rank *rank)
{
	const struct anchor own = anchor_of(rank->rank);
	int ret = star_gather(rank, &own, sizeof(own), rank->rank ? NULL : learnt(rank, 0));

	return ret < 0 ? ret : star_spread(rank, learnt(rank, 0), 0, learnt(rank, 0),
					   (size_t)rank->pass->size * sizeof(own));
}

static int pmix_programs(struct bench_pass *pass)
{
	return bench_command(pass, pass->size, BENCH_MPIRUN " -n %d %s anchors %d", pass->limit,
			     pass->size, bench_program("pmix"), BROUGHT);
}

/* --------------------------------------------------------------------- table --- */

#define LIBRARY "library"
#define ORIGINAL "original"
#define RECORDS "raw records"
#define SOCKETS "socket star"
#define PMIX "PMIx"

static const struct bench_side sides[] = {
	{ .name = LIBRARY, .open = ours_open_connected, .work = library_work, .close = ours_close },
	{ .name = ORIGINAL, .open = plain_open, .work = original_work, .close = plain_close },
	{ .name = RECORDS, .open = records_open, .work = records_work, .close = raw_close },
	{ .name = SOCKETS, .open = star_open, .work = sockets_work, .close = star_close },
	{ .name = PMIX, .programs = pmix_programs, .missing = bench_pmix_missing, .largest = 64 },
	{ .name = NULL }
};

#define MAX 1024

static const struct bench_goal goals[] = {
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, ORIGINAL, 2, 2, 0, 3.2 },
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, ORIGINAL, 4, 4, 0, 2.2 },
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, ORIGINAL, 16, 16, 0, 0.5 },
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, ORIGINAL, 64, 64, 0, 1 / 7.0 },
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, ORIGINAL, 256, 256, 0, 1 / 23.0 },
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, ORIGINAL, 1024, MAX, 0, 1 / 40.0 },
	{ BENCH_GUARD, LIBRARY, BENCH_SERVER_CPU, ORIGINAL, 1024, MAX, 0, 1 / 100.0 },
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, RECORDS, 64, 64, 0, 4.2 },
	/* Raw records take 16 to 97 ms at 256, and 140 to 640 at 1024, from pass to pass. */
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, RECORDS, 256, 256, 0, 3.5 },
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, RECORDS, 1024, MAX, 0, 5.8 },
	/* PMIx needs no network: its ratio differs fourfold from machine to machine. */
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, PMIX, 2, 2, 0, 1.8 },
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, PMIX, 4, 4, 0, 1.1 },
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, PMIX, 16, 16, 0, 0.6 },
	{ BENCH_GUARD, LIBRARY, BENCH_TIME, PMIX, 64, 64, 0, 0.32 },
	{ BENCH_AIM, LIBRARY, BENCH_TIME, ORIGINAL, 4, 16, 0, 1.0 },
	{ BENCH_AIM, LIBRARY, BENCH_TIME, ORIGINAL, 1024, MAX, 0, 1 / 250.0 },
	{ .side = NULL }
};

static const int sizes[] = { 2, 4, 16, 64, 256, 1024, 0 };

int main(int argc, char **argv)
{
	static const struct bench bench = {
		.name = "anchors",
		.title = "what N ranks bring, learnt by all, without queue pairs",
		.sizes = sizes,
		.sides = sides,
		.goals = goals,
		.units = bench_peers,
		.keys_text = "keys a peer",
		.prepare = anchors_prepare,
		.discard = anchors_discard,
		.wrong = anchors_wrong,
	};

	return bench_main(argc, argv, &bench);
}
