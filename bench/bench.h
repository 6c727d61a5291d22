/* SPDX-License-Identifier: MIT */
/*
 * bench.h - measures several ways of doing one thing, in one run
 *
 * Owns the order of the passes, the clock, the Memcached server, the table and the comparison
 * with the goals.  Does not know what is measured.  Each way is a side: either three functions
 * that every rank calls in a thread or process of its own, or one function that starts
 * programs.
 *
 * The sides take turns, so that all of them see the same load of the machine.  A table shows
 * medians and ranges.  A bench ends with 0 when all guards were met, with 1 when one was missed
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
#define BENCH_BUSY 4		/* busy loops, in benches that use any */

/* Followed by the limit in seconds, then by " -n", the number and the program. */
#define BENCH_MPIRUN "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " \
		     "timeout %d mpirun --oversubscribe"

/* The costs of a pass.  bench.c has arrays in this order. */
enum bench_figure {
	BENCH_TIME,		/* ms, from the first rank's start to the last one's end */
	BENCH_SERVER_CPU,	/* ms, all Memcached servers */
	BENCH_KEYS,		/* asked for, stored or deleted, for each rank and unit */
	BENCH_RANK_CPU,		/* ms of one rank, on average */
	BENCH_CONNECTS,		/* to Memcached servers, for each rank, also by open() */
	BENCH_MB,		/* all bytes that these have read and written */
	BENCH_FIGURES
};

struct bench_rank {
	struct bench_pass *pass;
	int rank;
	void *own, *device;	/* for the side's use */
	int64_t start, end;	/* set around work(), which may set others */
	int64_t cpu;
	pid_t pid;		/* if the rank is a process */
	int ret;
	char error[BENCH_TEXT];
};

/* One run of a side. */
struct bench_pass {
	const struct bench *bench;
	const struct bench_side *side;
	int size;		/* the value in the first column, mostly the number of ranks */
	int count;		/* number of ranks */
	char server[24 * BENCH_SERVERS];	/* "127.0.0.1:11211,127.0.0.1:11212" */
	int port;		/* of the first server */
	char job[32];		/* unique to the pass */
	int limit;		/* seconds */
	int64_t deadline;
	int failed;		/* atomic: a rank gave up, so all may */
	void *data;		/* for the bench's use, the same for all ranks */
	double figures[BENCH_FIGURES];	/* negative: not measured */
	char error[BENCH_TEXT];
	struct bench_rank ranks[];
};

struct bench_side {
	const char *name;

	/* Called for each rank; 0 or a negative errno.  Only work() is measured. */
	int (*open)(struct bench_rank *rank);
	int (*work)(struct bench_rank *rank);
	void (*close)(struct bench_rank *rank);

	/* Instead of these three: runs all ranks as programs and sets the figures. */
	int (*programs)(struct bench_pass *pass);

	/* The reason why this side cannot run; NULL: it can. */
	const char *(*missing)(void);
	int largest;		/* measured at larger sizes only when -w names it; 0: no limit */
	int servers;		/* up to BENCH_SERVERS; 0: one */
	bool named;		/* takes long: measured only when -w names it */
};

/*
 * A guard has the ratio that was measured: the bench fails at more than BENCH_MARGIN times of it,
 * since that is a regression.  An aim has the ratio that is wanted: its distance is printed, and
 * it never fails.
 */
enum bench_kind { BENCH_GUARD, BENCH_AIM };
#define BENCH_MARGIN 1.5	/* what medians of a quiet machine differ by from run to run */

/* The median of @side as a multiple of that of @against in the same run. */
struct bench_goal {
	enum bench_kind kind;
	const char *side;
	enum bench_figure figure;
	const char *against;	/* NULL, for aims only: the median itself */
	int from, to;		/* sizes that the goal is for */
	int busy;
	double ratio;
};

struct bench {
	const char *name, *title;
	const char *column;		/* heading of the sizes; NULL: "N" */
	const int *sizes;		/* ends with 0 */
	const int *busy_sizes;		/* sizes also measured with busy loops; may be NULL */
	const struct bench_side *sides;	/* ends with a NULL name; ratios are to the first */
	const struct bench_goal *goals;	/* ends with a NULL side */
	int ranks;			/* 0: the size is the number of ranks */
	bool processes;			/* ranks are processes, not threads */
	bool restarts;			/* servers are restarted after each pass, not emptied */
	bool warm_up;			/* the first pass of each side is not counted */
	int repeats;			/* how often work() does it; 0: once */
	int (*units)(int size);		/* BENCH_KEYS is divided by it; NULL: 1 */
	const char *keys_text;		/* heading of BENCH_KEYS, e.g. "keys a pair" */
	/* Size of zeroed memory at pass->data that processes share, too; 0: prepare() sets data. */
	size_t shared;
	void (*prepare)(struct bench_pass *pass);
	void (*discard)(struct bench_pass *pass);
	/* After the clock stopped, each rank and then the caller check what was exchanged. */
	int (*prove)(struct bench_rank *rank);
	const char *(*wrong)(struct bench_pass *pass);	/* NULL: nothing */
	void (*need)(void);		/* exits with 77 and a reason if the bench cannot run */
};

/* Arguments: [-b BUSY] [-q] [-r ROUNDS] [-s SECONDS] [-t LIMIT] [-w WAY,...] [SIZE...] */
int bench_main(int argc, char **argv, const struct bench *bench);

static inline int64_t bench_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Must a rank give up?  It took too long, or another rank failed. */
bool bench_over(const struct bench_rank *rank);

/* Sets the rank's sentence.  Returns @ret. */
int bench_fail(struct bench_rank *rank, int ret, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Calls @fn for each other rank in turn; ends at the first failure. */
int bench_each_peer(struct bench_rank *rank, int (*fn)(struct bench_rank *rank, int peer));

/* units() of a bench in which each rank deals with each other one. */
int bench_peers(int size);

/* The value of @name in "stats" of the pass's server @i; -1: there is no such server. */
long bench_server_stat(const struct bench_pass *pass, int i, const char *name);

/* The path of a program in this folder, valid until the next call. */
const char *bench_program(const char *name);

/* The reason why no program of PMIx can run; NULL: it can. */
const char *bench_pmix_missing(void);

/*
 * Runs a command whose ranks print "start end" in nanoseconds of bench_clock(), and
 * notes the time between the first start and the last end.
 */
int bench_command(struct bench_pass *pass, int ranks, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
