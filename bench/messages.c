/* SPDX-License-Identifier: MIT */
/*
 * messages.c - each of N ranks has 64 bytes that all others want
 *
 * 	messages	the library's: one pushed, the others waited for
 * 	key by key	plain libmemcached: one set, the others asked for one by one
 * 	raw memcached	its protocol over a socket: one set, all missing ones in one get
 * 	socket star	TCP connections to rank 0, which hands out everything
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/ours.h"
#include "bench/plain.h"
#include "bench/raw.h"
#include "bench/star.h"

#define LENGTH 64

struct key {
	char text[64];
};

static struct key message_key(const struct bench_rank *rank, int from)
{
	struct key key;

	snprintf(key.text, sizeof(key.text), "%s-message-%d", rank->pass->job, from);
	return key;
}

/* The library's keys have the job in them already. */
static struct key message_name(int from)
{
	struct key name;

	snprintf(name.text, sizeof(name.text), "message-%d", from);
	return name;
}

/* Each pass and rank has a text of its own. */
static void message_fill(const struct bench_pass *pass, int rank, char message[LENGTH])
{
	memset(message, 'x', LENGTH);
	snprintf(message, LENGTH, "%s from %d", pass->job, rank);
}

/* Rank r's copy of rank s's message is at (r * size + s) * LENGTH. */
static void prepare(struct bench_pass *pass)
{
	pass->data = calloc((size_t)pass->size * (size_t)pass->size, LENGTH);
	if (!pass->data)
		abort();
}

static void discard(struct bench_pass *pass)
{
	free(pass->data);
}

static char *received(const struct bench_rank *rank, int from)
{
	size_t at = (size_t)rank->rank * (size_t)rank->pass->size + (size_t)from;

	return (char *)rank->pass->data + at * LENGTH;
}

static const char *wrong(struct bench_pass *pass)
{
	static char text[96];
	char message[LENGTH];
	int a, b;

	for (b = 0; b < pass->size; b++) {
		message_fill(pass, b, message);
		for (a = 0; a < pass->size; a++) {
			if (memcmp(received(&pass->ranks[a], b), message, LENGTH) == 0)
				continue;
			snprintf(text, sizeof(text), "rank %d has another message than rank %d's",
				 a, b);
			return text;
		}
	}
	return NULL;
}

/* ------------------------------------------------------------- the library --- */

static int library_work(struct bench_rank *rank)
{
	struct hartebeest_message messages[rank->pass->size];
	struct key names[rank->pass->size];
	char *own = received(rank, rank->rank);
	size_t count = 0;
	int i, ret;

	message_fill(rank->pass, rank->rank, own);
	ret = hartebeest_msg_push(rank->own, message_name(rank->rank).text, own, LENGTH, 0);
	for (i = 0; i < rank->pass->size; i++) {
		if (i == rank->rank)
			continue;
		names[count] = message_name(i);
		hartebeest_message_init(&messages[count]);
		messages[count].peer_key = names[count].text;
		messages[count].buffer = received(rank, i);
		messages[count++].room = LENGTH;
	}
	if (ret == 0)
		ret = hartebeest_msgs_wait(rank->own, messages, count, 0, 0);
	return ours_result(rank, ret < 0 ? ret : 0);
}

/* ------------------------------------------------------------------- others --- */

static int plain_work(struct bench_rank *rank)
{
	char *own = received(rank, rank->rank);
	int i, ret;

	message_fill(rank->pass, rank->rank, own);
	ret = plain_set(rank, message_key(rank, rank->rank).text, own, LENGTH);
	for (i = 0; i < rank->pass->size && ret == 0; i++)
		if (i != rank->rank)
			ret = plain_wait(rank, message_key(rank, i).text, received(rank, i),
					 LENGTH);
	return ret;
}

static int sockets_work(struct bench_rank *rank)
{
	size_t size = (size_t)rank->pass->size * LENGTH;
	char own[LENGTH], *all = rank->rank ? NULL : malloc(size);
	int ret;

	message_fill(rank->pass, rank->rank, own);
	ret = star_gather(rank, own, LENGTH, all);
	if (ret == 0)
		ret = star_spread(rank, all, 0, received(rank, 0), size);
	free(all);
	return ret;
}

/* Asks for all missing messages in one request; returns how many came. */
static int raw_look(struct bench_rank *rank, bool *here)
{
	struct raw *raw = rank->device;
	size_t length = (size_t)sprintf(raw->text, "get");
	int i, came = 0, ret;
	char *at;

	for (i = 0; i < rank->pass->size; i++)
		if (!here[i])
			length += (size_t)sprintf(raw->text + length, " %s",
						  message_key(rank, i).text);
	length += (size_t)sprintf(raw->text + length, "\r\n");
	ret = raw_talk(rank, length, 2 * rank->pass->size + 1);
	if (ret < 0)
		return ret;
	for (at = raw->text; *at == 'V'; at += LENGTH + 2, came++) {
		i = atoi(strstr(at, "message-") + strlen("message-"));
		at = strchr(at, '\n') + 1;
		memcpy(received(rank, i), at, LENGTH);
		here[i] = true;
	}
	return came;
}

static int raw_work(struct bench_rank *rank)
{
	struct raw *raw = rank->device;
	bool *here = calloc((size_t)rank->pass->size, sizeof(*here));
	int64_t start = bench_clock();
	int ret, left = rank->pass->size - 1;
	size_t length = (size_t)sprintf(raw->text, "set %s 0 0 %d\r\n",
					message_key(rank, rank->rank).text, LENGTH);

	message_fill(rank->pass, rank->rank, raw->text + length);
	memcpy(received(rank, rank->rank), raw->text + length, LENGTH);
	here[rank->rank] = true;
	memcpy(raw->text + length + LENGTH, "\r\n", 2);
	ret = raw_talk(rank, length + LENGTH + 2, 1);
	while (ret >= 0 && left) {
		ret = bench_over(rank) ? -ETIMEDOUT : raw_look(rank, here);
		left -= ret > 0 ? ret : 0;
		if (ret >= 0 && left)
			raw_pause(start);
	}
	free(here);
	return ret < 0 ? ret : 0;
}

/* -------------------------------------------------------------------- table --- */

#define OURS "messages"
#define PLAIN "key by key"
#define RAW "raw memcached"
#define SOCKETS "socket star"

static const struct bench_side sides[] = {
	{ .name = OURS, .open = ours_open_connected, .work = library_work, .close = ours_close },
	{ .name = PLAIN, .open = plain_open, .work = plain_work, .close = plain_close },
	{ .name = RAW, .open = raw_open, .work = raw_work, .close = raw_close },
	{ .name = SOCKETS, .open = star_open, .work = sockets_work, .close = star_close },
	{ .name = NULL }
};

static const struct bench_goal goals[] = {
	{ BENCH_GUARD, OURS, BENCH_TIME, PLAIN, 2, 2, 0, 1.25 },
	{ BENCH_GUARD, OURS, BENCH_TIME, PLAIN, 4, 4, 0, 0.9 },
	{ BENCH_GUARD, OURS, BENCH_TIME, PLAIN, 16, 16, 0, 0.6 },
	{ BENCH_GUARD, OURS, BENCH_TIME, PLAIN, 64, 64, 0, 0.23 },
	{ BENCH_GUARD, OURS, BENCH_TIME, PLAIN, 256, 1024, 0, 0.15 },
	{ BENCH_GUARD, OURS, BENCH_TIME, RAW, 2, 4, 0, 1.3 },
	{ BENCH_GUARD, OURS, BENCH_TIME, RAW, 16, 64, 0, 1.8 },
	{ BENCH_GUARD, OURS, BENCH_TIME, RAW, 256, 1024, 0, 2.2 },
	{ BENCH_AIM, OURS, BENCH_TIME, PLAIN, 2, 2, 0, 1.0 },
	{ BENCH_AIM, OURS, BENCH_TIME, RAW, 2, 1024, 0, 1.5 },
	{ .side = NULL }
};

static const int sizes[] = { 2, 4, 16, 64, 256, 1024, 0 };

int main(int argc, char **argv)
{
	static const struct bench bench = {
		.name = "messages",
		.title = "64 bytes of each of N ranks to all others",
		.sizes = sizes,
		.sides = sides,
		.goals = goals,
		.units = bench_peers,
		.keys_text = "keys a message",
		.prepare = prepare,
		.discard = discard,
		.wrong = wrong,
	};

	return bench_main(argc, argv, &bench);
}
