/* SPDX-License-Identifier: MIT */
/*
 * bench.h - measures several ways of doing one thing, in one run
 *
 * Owns the order of the passes, the clock, the Memcached server, the table and the
 * comparison with the goals.  Knows nothing of what the ways do: a way is a side, which
 * has three functions that every rank calls in a thread or process of its own, or one
 * function that starts programs.
 *
 * The sides take turns, so that all of them meet the same machine.  A table shows medians
 * and ranges.  A bench ends with 0 when all goals were met, with 1 when one was missed
 * or a side failed, and with 77 when it cannot run here.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct bench;
struct bench_side;

#define BENCH_TEXT 320
#define BENCH_SERVERS 4
#define BENCH_BUSY 4		/* busy loops beside it, where a bench asks for them */

/* Followed by the limit in seconds, then by " -n", the number and the program. */
#define BENCH_MPIRUN "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " \
		     "timeout %d mpirun --oversubscribe"

/* What one pass costs.  Rows of the same order are in bench.c. */
enum bench_figure {
	BENCH_TIME,		/* ms, from the first rank's start to the last one's end */
	BENCH_SERVER_CPU,	/* ms of the Memcached servers */
	BENCH_KEYS,		/* asked for, stored or deleted, a rank and unit */
	BENCH_RANK_CPU,		/* ms of one rank, on average */
	BENCH_FIGURES
};

struct bench_rank {
	struct bench_pass *pass;
	int rank;
	void *own, *device;	/* of the side */
	int64_t start, end;	/* set around work(), which may set others */
	int64_t cpu;
	pid_t pid;		/* of a process */
	int ret;
	char error[BENCH_TEXT];
};

/* One side, once. */
struct bench_pass {
	const struct bench *bench;
	const struct bench_side *side;
	int size;		/* what the column says; mostly the number of ranks */
	int count;		/* of ranks */
	char server[24 * BENCH_SERVERS];	/* "127.0.0.1:11211,127.0.0.1:11212" */
	int port;		/* of the first */
	char job[32];		/* no other pass has this name */
	int limit;		/* seconds */
	int64_t deadline;
	int failed;		/* atomic: a rank gave up, so the others may too */
	void *data;		/* of the bench, the same for all ranks */
	double figures[BENCH_FIGURES];	/* negative: not measured */
	char error[BENCH_TEXT];
	struct bench_rank ranks[];
};

struct bench_side {
	const char *name;

	/* Of a rank: 0 or a negative errno.  Only work() is measured. */
	int (*open)(struct bench_rank *rank);
	int (*work)(struct bench_rank *rank);
	void (*close)(struct bench_rank *rank);

	/* Instead of these three: all ranks, as programs.  Fills figures. */
	int (*programs)(struct bench_pass *pass);

	/* Why this side is not here; NULL: it is. */
	const char *(*missing)(void);
	int largest;		/* the largest size measured; 0: any */
	int servers;		/* up to BENCH_SERVERS of them; 0: one */
};

/* The median of @side may be at most @limit times that of @against; NULL: @limit. */
struct bench_goal {
	const char *side;
	enum bench_figure figure;
	const char *against;
	int from, to;		/* sizes */
	int busy;
	double limit;
	const char *text;
};

struct bench {
	const char *name, *title;
	const char *column;		/* what a size is; NULL: "N" */
	const int *sizes;		/* ends with 0 */
	const int *busy_sizes;		/* measured with busy loops beside it; may be NULL */
	const struct bench_side *sides;	/* ends with a NULL name; ratios are to the first */
	const struct bench_goal *goals;	/* ends with a NULL side */
	int ranks;			/* 0: as many as the size says */
	bool processes;			/* ranks are processes, else threads */
	bool restarts;			/* the servers, after each pass, else empties them */
	bool warm_up;			/* the first pass of each side is not counted */
	int repeats;			/* what work() does so often; 0: once */
	int (*units)(int size);		/* BENCH_KEYS is divided by it; NULL: 1 */
	const char *keys_text;		/* the column of BENCH_KEYS: "keys a pair" */
	/* Memory at pass->data, zero, that ranks have in common also as processes; else: */
	size_t shared;
	void (*prepare)(struct bench_pass *pass);
	void (*discard)(struct bench_pass *pass);
	/* What was exchanged, compared after the clock: by each rank, and by the caller. */
	int (*prove)(struct bench_rank *rank);
	const char *(*wrong)(struct bench_pass *pass);	/* NULL: nothing is */
	void (*need)(void);		/* exits with 77 and a reason */
};

/* Arguments: [-b BUSY] [-r ROUNDS] [-s SECONDS] [-t LIMIT] [-w WAY,...] [SIZE...] */
int bench_main(int argc, char **argv, const struct bench *bench);

static inline int64_t bench_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* True when a rank must give up: it took too long, or another rank failed. */
bool bench_over(const struct bench_rank *rank);

/* Keeps the sentence of a failure.  Returns @ret. */
int bench_fail(struct bench_rank *rank, int ret, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* For each other rank in turn; ends at the first failure. */
int bench_each_peer(struct bench_rank *rank, int (*fn)(struct bench_rank *rank, int peer));

/* Units of a bench in which each rank deals with each other one. */
int bench_peers(int size);

/* A line of "stats" of the pass's server number @i; -1: there are fewer. */
long bench_server_stat(const struct bench_pass *pass, int i, const char *name);

/* A program of this folder: its path.  The text stays until the next call. */
const char *bench_program(const char *name);

/* Why no program of PMIx can be run; NULL: it can. */
const char *bench_pmix_missing(void);

/*
 * Runs a command whose ranks print "start end" in nanoseconds of bench_clock(), and
 * notes the time between the first start and the last end.
 */
int bench_command(struct bench_pass *pass, int ranks, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
