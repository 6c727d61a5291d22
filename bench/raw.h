/* SPDX-License-Identifier: MIT */
/*
 * raw.h - Memcached's text protocol over a socket, with no client library
 *
 * Shows the least that a way through a server costs.  The caller writes the requests.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include "bench/bench.h"

struct raw {
	int fd;
	char *text;		/* requests, then answers */
	size_t room;		/* at least 256 bytes a rank */
};

/* Stores the connection in rank->device. */
int raw_open(struct bench_rank *rank);
void raw_close(struct bench_rank *rank);

/* Sends @length bytes of text and reads until there are @lines lines, or END. */
int raw_talk(struct bench_rank *rank, size_t length, int lines);

/* Looks for a value with the library's pauses, until raw->text has the answer with it. */
int raw_await(struct bench_rank *rank, const char *key);

/* The library's pause: a sixteenth of the time since @start, between 50 us and 5 ms. */
void raw_pause(int64_t start);

#endif
