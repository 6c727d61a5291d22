/* SPDX-License-Identifier: MIT */
/*
 * raw.h - Memcached's text protocol over a socket, with no client library
 *
 * Shows what a way through a server costs at least.  Requests are written by the caller.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include "bench/bench.h"

struct raw {
	int fd;
	char *text;		/* requests, then answers */
	size_t room;		/* 256 bytes a rank, and more */
};

/* The connection goes to rank->device. */
int raw_open(struct bench_rank *rank);
void raw_close(struct bench_rank *rank);

/* Sends @length bytes of text, reads until there are @lines, or END. */
int raw_talk(struct bench_rank *rank, size_t length, int lines);

/* Looks for a value with the library's pauses, until the answer with it is in raw->text. */
int raw_await(struct bench_rank *rank, const char *key);

/* The library's pause: a sixteenth of the time since @start, 50 us to 5 ms. */
void raw_pause(int64_t start);

#endif
