/* SPDX-License-Identifier: MIT */
/*
 * seal.c - the CPU time that a secret costs for a record, on both sides
 *
 * Records of several sizes are encoded and decoded again and again, plain and sealed by turns.
 * A figure is the least of all rounds, since a round does the same work each time and other
 * load of the machine only adds to it.  Ends with 1 when a sealed record of a queue pair takes
 * more than BENCH_MARGIN times MEASURED, in times of a plain one, with 77 where the library
 * cannot seal.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/bench.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/rendezvous/record.h"

#define KEY "hb1/bench/qp/node17:3-node18:5"
#define MEASURED 17.0
#define ROUNDS 15
#define ROUND_BYTES (4 << 20)	/* and at most ROUND_RECORDS records */
#define ROUND_RECORDS 4000

enum side { ENCODE, DECODE, SIDES };

static const struct {
	const char *what;
	size_t size;		/* of the body */
} rows[] = {
	{ "a queue pair", 71 },
	{ "with address and region", 111 },
	{ "a row of 4000 numbers", 8 + 4 * 4000 },
	{ "the largest message", 1024 * 1024 - 2048 },
};
#define ROWS BEEST_COUNT(rows)

static uint8_t *bytes, *work, *body;

static double cpu_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void demand(int ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s\n", beest_error_text());
	exit(2);
}

/* ns a record.  A record is copied before it is decoded, as from a server, sealed or plain. */
static double measure(struct beest_seal *seal, enum side side, size_t size, int count)
{
	size_t room = size + BEEST_RECORD_EMPTY_MAX;
	struct beest_record out, in = {
		.kind = BEEST_KIND_QP, .rank = 17, .body = body, .size = size,
	};
	int i, used = beest_record_encode(seal, &in, KEY, bytes, room);
	double began;

	demand(used);
	began = cpu_now();
	for (i = 0; i < count && side == ENCODE; i++)
		demand(beest_record_encode(seal, &in, KEY, work, room));
	for (i = 0; i < count && side == DECODE; i++) {
		memcpy(work, bytes, (size_t)used);
		demand(beest_record_decode(seal, work, (size_t)used, BEEST_KIND_QP, KEY, &out));
	}
	return (cpu_now() - began) / count;
}

/* The least of all rounds, plain and sealed. */
static void row_measure(struct beest_seal *seal, enum side side, size_t size, double least[2])
{
	int count = (int)BEEST_MIN((size_t)ROUND_RECORDS, ROUND_BYTES / size), round, way;
	double now;

	for (round = 0; round < ROUNDS; round++)
		for (way = 0; way < 2; way++) {
			now = measure(way ? seal : NULL, side, size, count);
			least[way] = round ? BEEST_MIN(least[way], now) : now;
		}
}

static int guard_check(const char *side, const double least[2])
{
	double ratio = least[1] / least[0];
	bool good = ratio <= MEASURED * BENCH_MARGIN;

	printf("%s: a sealed record of a queue pair, %s: %.3g x the time of a plain one; "
	       "measured %.3g, fails beyond %.3g\n", good ? "met" : "MISSED", side, ratio, MEASURED,
	       MEASURED * BENCH_MARGIN);
	return !good;
}

int main(void)
{
	static const char *const sides[SIDES] = { "encoded", "decoded" };
	struct beest_seal *seal;
	double least[ROWS][SIDES][2];
	int side, missed = 0;
	size_t i;

	if (beest_seal_open(&seal, "0123456789abcdef", 16, "bench") < 0) {
		printf("%s\n", beest_error_text());
		return 77;
	}
	bytes = malloc(1 << 20);
	work = malloc(1 << 20);
	body = calloc(1, 1 << 20);

	printf("Records: ns of the processor's time for each\n\n%-26s %9s %9s %9s %9s %9s\n",
	       "record", "bytes", "side", "plain", "sealed", "more");
	for (i = 0; i < ROWS; i++)
		for (side = 0; side < SIDES; side++) {
			row_measure(seal, side, rows[i].size, least[i][side]);
			printf("%-26s %9zu %9s %9.0f %9.0f %9.0f\n", rows[i].what,
			       rows[i].size + 30, sides[side], least[i][side][0], least[i][side][1],
			       least[i][side][1] - least[i][side][0]);
		}
	printf("\n");
	for (side = 0; side < SIDES; side++)
		missed |= guard_check(sides[side], least[0][side]);

	beest_seal_close(seal);
	free(bytes);
	free(work);
	free(body);
	return missed;
}
