/* SPDX-License-Identifier: MIT */
/* bench.c - see bench.h */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/bench.h"
#include "tests/support/memcached.h"

#define ROUNDS_MAX 101
#define ROUNDS_MIN 3
#define RESULTS 256
#define BUSY_MAX 64
#define STACK 262144
#define SECOND 1000000000.0
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct settings {
	int rounds, seconds, limit, busy;
} settings = { 31, 15, 120, 0 };

/* One side at one size, with so many busy loops beside it. */
struct result {
	const struct bench_side *side;
	int size, busy, rounds;
	bool gave_up;
	double figures[BENCH_FIGURES][ROUNDS_MAX];	/* in ascending order at last */
};

static struct result results[RESULTS];
static size_t result_count;
static struct cache *server;
static pid_t server_pid;
static char *own_path;
static int status;

/* ------------------------------------------------------------------- ranks --- */

bool bench_over(const struct bench_rank *rank)
{
	return __atomic_load_n(&rank->pass->failed, __ATOMIC_ACQUIRE) ||
	       bench_clock() > rank->pass->deadline;
}

int bench_fail(struct bench_rank *rank, int ret, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(rank->error, sizeof(rank->error), format, args);
	va_end(args);
	return ret;
}

static pthread_barrier_t opened, go, done, checked;

static int64_t thread_cpu(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void rank_note(struct bench_rank *rank, int ret)
{
	rank->ret = ret;
	if (ret < 0)
		__atomic_store_n(&rank->pass->failed, 1, __ATOMIC_RELEASE);
}

static void *rank_run(void *data)
{
	struct bench_rank *rank = data;
	const struct bench_side *side = rank->pass->side;
	int64_t cpu;

	rank_note(rank, side->open(rank));
	pthread_barrier_wait(&opened);
	pthread_barrier_wait(&go);
	cpu = thread_cpu();
	rank->start = bench_clock();
	if (!bench_over(rank))
		rank_note(rank, side->work(rank));
	if (!rank->end)
		rank->end = bench_clock();
	rank->cpu = thread_cpu() - cpu;
	pthread_barrier_wait(&done);
	pthread_barrier_wait(&checked);
	side->close(rank);
	return NULL;
}

/* ------------------------------------------------------------------ server --- */

struct usage {
	double cpu;		/* ms */
	double keys;
};

static double server_cpu(void)
{
	struct timespec cpu = { 0, 0 };
	clockid_t clock;

	if (clock_getcpuclockid(server_pid, &clock) == 0)
		clock_gettime(clock, &cpu);
	return cpu.tv_sec * 1e3 + cpu.tv_nsec / 1e6;
}

static double server_keys(void)
{
	static const char *const counters[] = { "cmd_get", "cmd_set", "cmd_touch", "incr_hits",
						"incr_misses", "delete_hits", "delete_misses" };
	char answer[8192], line[48];
	double keys = 0;
	const char *at;
	size_t i;

	cache_talk(server, "stats\r\nquit\r\n", answer, sizeof(answer));
	for (i = 0; i < COUNT(counters); i++) {
		snprintf(line, sizeof(line), "STAT %s ", counters[i]);
		at = strstr(answer, line);
		keys += at ? atof(at + strlen(line)) : 0;
	}
	return keys;
}

/* The CPU last here and first in note_usage(): asking for the counters costs some. */
static struct usage server_usage(void)
{
	struct usage usage;

	usage.keys = server_keys();
	usage.cpu = server_cpu();
	return usage;
}

static void note_usage(struct bench_pass *pass, const struct usage *before)
{
	double cpu = server_cpu(), keys = server_keys();
	int units = pass->bench->units ? pass->bench->units(pass->size) : 1;
	int repeats = pass->bench->repeats ? pass->bench->repeats : 1;

	pass->figures[BENCH_SERVER_CPU] = (cpu - before->cpu) / repeats;
	pass->figures[BENCH_KEYS] = (keys - before->keys) / pass->threads / units / repeats;
}

/* -------------------------------------------------------------------- pass --- */

static void note_ranks(struct bench_pass *pass)
{
	int64_t start = INT64_MAX, end = 0, cpu = 0;
	int i, repeats = pass->bench->repeats ? pass->bench->repeats : 1;

	for (i = 0; i < pass->threads; i++) {
		start = pass->ranks[i].start < start ? pass->ranks[i].start : start;
		end = pass->ranks[i].end > end ? pass->ranks[i].end : end;
		cpu += pass->ranks[i].cpu;
	}
	pass->figures[BENCH_TIME] = (double)(end - start) / 1e6 / repeats;
	pass->figures[BENCH_RANK_CPU] = (double)cpu / 1e6 / pass->threads / repeats;
}

/* The first sentence: others failed because that rank did. */
static int first_failure(struct bench_pass *pass)
{
	int i, ret = 0;

	for (i = 0; i < pass->threads; i++) {
		if (pass->ranks[i].ret >= 0 || (ret < 0 && !pass->ranks[i].error[0]))
			continue;
		ret = pass->ranks[i].ret;
		snprintf(pass->error, sizeof(pass->error), "rank %d: %.*s", i, BENCH_TEXT - 24,
			 pass->ranks[i].error[0] ? pass->ranks[i].error : strerror(-ret));
		if (pass->ranks[i].error[0])
			break;
	}
	return ret;
}

static int check(struct bench_pass *pass)
{
	const char *wrong = NULL;
	int ret = first_failure(pass);

	if (ret == 0 && pass->failed)
		ret = -ETIMEDOUT;
	if (ret == 0 && pass->bench->wrong)
		wrong = pass->bench->wrong(pass);
	if (wrong)
		snprintf(pass->error, sizeof(pass->error), "%s", wrong);
	return wrong ? -EBADMSG : ret;
}

static void all_barriers(void (*each)(pthread_barrier_t *, int), int size)
{
	each(&opened, size);
	each(&go, size);
	each(&done, size);
	each(&checked, size);
}

static void barrier_make(pthread_barrier_t *barrier, int size)
{
	pthread_barrier_init(barrier, NULL, (unsigned int)size);
}

static void barrier_end(pthread_barrier_t *barrier, int size)
{
	(void)size;
	pthread_barrier_destroy(barrier);
}

static void start_threads(struct bench_pass *pass, pthread_t *threads)
{
	pthread_attr_t attr;
	int i;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	for (i = 0; i < pass->threads; i++) {
		pass->ranks[i].pass = pass;
		pass->ranks[i].rank = i;
		if (pthread_create(&threads[i], &attr, rank_run, &pass->ranks[i]) != 0) {
			fprintf(stderr, "no more threads than %d\n", i);
			exit(77);
		}
	}
	pthread_attr_destroy(&attr);
}

static int run_threads(struct bench_pass *pass)
{
	pthread_t *threads = calloc((size_t)pass->threads, sizeof(*threads));
	struct usage before;
	int i, ret;

	pass->ranks = calloc((size_t)pass->threads, sizeof(*pass->ranks));
	if (!threads || !pass->ranks)
		abort();
	all_barriers(barrier_make, pass->threads + 1);
	start_threads(pass, threads);
	pthread_barrier_wait(&opened);
	before = server_usage();
	pass->deadline = bench_clock() + (int64_t)(pass->limit * SECOND);
	pthread_barrier_wait(&go);
	pthread_barrier_wait(&done);
	note_ranks(pass);
	note_usage(pass, &before);
	ret = check(pass);
	pthread_barrier_wait(&checked);
	for (i = 0; i < pass->threads; i++)
		pthread_join(threads[i], NULL);
	all_barriers(barrier_end, 0);
	free(pass->ranks);
	free(threads);
	return ret;
}

static int run_programs(struct bench_pass *pass)
{
	struct usage before = server_usage();
	int ret = pass->side->programs(pass);

	note_usage(pass, &before);
	return ret;
}

static int run_pass(struct bench_pass *pass)
{
	char answer[64];
	int i, ret;

	for (i = 0; i < BENCH_FIGURES; i++)
		pass->figures[i] = -1;
	if (pass->bench->prepare)
		pass->bench->prepare(pass);
	ret = pass->side->programs ? run_programs(pass) : run_threads(pass);
	if (pass->bench->discard)
		pass->bench->discard(pass);
	cache_talk(server, "flush_all\r\nquit\r\n", answer, sizeof(answer));
	return ret;
}

/* ----------------------------------------------------------------- rounds --- */

static bool is_left_out(const struct bench_side *side, int size, int busy)
{
	size_t i;

	if ((side->largest && size > side->largest) || (side->missing && side->missing()))
		return true;
	for (i = 0; i < result_count; i++)
		if (results[i].side == side && results[i].gave_up && results[i].busy == busy)
			return true;
	return false;
}

static void take_turn(const struct bench *bench, struct result *result)
{
	static int serial;
	struct bench_pass pass = { .bench = bench, .side = result->side, .size = result->size };
	int i, ret;

	pass.threads = bench->threads ? bench->threads : pass.size;
	pass.server = cache_hostport(server)->text;
	pass.port = cache_hostport(server)->port;
	pass.limit = settings.limit;
	pass.deadline = bench_clock() + (int64_t)(pass.limit * SECOND);
	snprintf(pass.job, sizeof(pass.job), "b%d-%d", (int)getpid(), ++serial);
	ret = run_pass(&pass);
	if (ret < 0) {
		result->gave_up = true;
		printf("%s, %d: gave up after %.0f s: %s\n", pass.side->name, pass.size,
		       pass.figures[BENCH_TIME] < 0 ? 0 : pass.figures[BENCH_TIME] / 1e3,
		       pass.error[0] ? pass.error : strerror(-ret));
		status |= ret == -EBADMSG;
		return;
	}
	for (i = 0; i < BENCH_FIGURES; i++)
		result->figures[i][result->rounds] = pass.figures[i];
	result->rounds++;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(const struct result *result, enum bench_figure figure)
{
	const double *all = result->figures[figure];
	int n = result->rounds;

	return n ? (all[n / 2] + all[(n - 1) / 2]) / 2 : -1;
}

static struct result *add_results(const struct bench *bench, int size, int busy, size_t *count)
{
	struct result *first = &results[result_count];
	const struct bench_side *side;

	*count = 0;
	for (side = bench->sides; side->name; side++) {
		if (is_left_out(side, size, busy))
			continue;
		if (result_count == RESULTS)
			abort();
		results[result_count++] = (struct result){ .side = side, .size = size, .busy = busy };
		(*count)++;
	}
	return first;
}

/* Who begins changes from round to round. */
static void measure_size(const struct bench *bench, int size, int busy)
{
	int64_t end = bench_clock() + (int64_t)(settings.seconds * SECOND);
	size_t i, at, count;
	struct result *first = add_results(bench, size, busy, &count);
	int round, figure;

	for (round = 0; round < settings.rounds; round++) {
		for (i = 0; i < count; i++) {
			at = (i + (size_t)round) % count;
			if (!first[at].gave_up)
				take_turn(bench, &first[at]);
		}
		if (round + 1 >= ROUNDS_MIN && bench_clock() > end)
			break;
	}
	for (i = 0; i < count; i++)
		for (figure = 0; figure < BENCH_FIGURES; figure++)
			qsort(first[i].figures[figure], (size_t)first[i].rounds, sizeof(double),
			      compare);
}

/* ------------------------------------------------------------------- table --- */

static const struct result *find(const char *side, int size, int busy)
{
	size_t i;

	for (i = 0; i < result_count; i++)
		if (strcmp(results[i].side->name, side) == 0 && results[i].size == size &&
		    results[i].busy == busy)
			return &results[i];
	return NULL;
}

static void print_figure(const struct result *result, enum bench_figure figure)
{
	double value = median(result, figure);

	if (value < 0)
		printf(" - |");
	else
		printf(" %.3g |", value);
}

static void print_row(const struct bench *bench, const struct result *result)
{
	const struct result *first = find(bench->sides[0].name, result->size, result->busy);
	const double *times = result->figures[BENCH_TIME];

	printf("| %d | %s |", result->size, result->side->name);
	if (!result->rounds) {
		printf(" gave up | - | - | - | - | - |\n");
		return;
	}
	printf(" %.3g | %.3g-%.3g of %d |", median(result, BENCH_TIME), times[0],
	       times[result->rounds - 1], result->rounds);
	if (first && first->rounds)
		printf(" %.2f |", median(result, BENCH_TIME) / median(first, BENCH_TIME));
	else
		printf(" - |");
	print_figure(result, BENCH_SERVER_CPU);
	print_figure(result, BENCH_KEYS);
	print_figure(result, BENCH_RANK_CPU);
	printf("\n");
}

static void print_table(const struct bench *bench, size_t from)
{
	size_t i;

	printf("\n| %s | way | ms | range, rounds | x first | server CPU ms | %s | "
	       "rank CPU ms |\n|---|---|---|---|---|---|---|---|\n",
	       bench->column ? bench->column : "N",
	       bench->keys_text ? bench->keys_text : "keys a rank");
	for (i = from; i < result_count; i++)
		print_row(bench, &results[i]);
	printf("\n");
	fflush(stdout);
}

/* ------------------------------------------------------------------- goals --- */

static const char *const figure_units[BENCH_FIGURES] = { "ms", "ms of server CPU", "keys",
							 "ms of a rank's CPU" };

/* A side that gave up took forever. */
static double reached(const struct result *side, const struct result *against,
		      enum bench_figure figure)
{
	if (!side->rounds)
		return 1e9;
	if (!against)
		return median(side, figure);
	return against->rounds ? median(side, figure) / median(against, figure) : 0;
}

static void check_goal(const struct bench_goal *goal, const struct result *side)
{
	const struct result *against = goal->against ?
		find(goal->against, side->size, side->busy) : NULL;
	double value;
	bool met;

	if (goal->against && !against)
		return;
	value = reached(side, against, goal->figure);
	met = value <= goal->limit;
	status |= !met;
	printf("%s: %s: at %d%s ", met ? "met" : "MISSED", goal->text, side->size,
	       side->busy ? ", with busy loops beside it," : "");
	if (value >= 1e9)
		printf("it gave up\n");
	else if (against)
		printf("%.2f of %s, at most %.2f wanted\n", value, goal->against, goal->limit);
	else
		printf("%.3g %s, at most %.3g wanted\n", value, figure_units[goal->figure],
		       goal->limit);
}

static void check_goals(const struct bench *bench)
{
	const struct bench_goal *goal;
	size_t i;

	for (goal = bench->goals; goal->side; goal++)
		for (i = 0; i < result_count; i++)
			if (strcmp(results[i].side->name, goal->side) == 0 &&
			    results[i].size >= goal->from && results[i].size <= goal->to &&
			    results[i].busy == goal->busy)
				check_goal(goal, &results[i]);
}

/* ---------------------------------------------------------------- programs --- */

const char *bench_program(const char *name)
{
	static char path[1024];
	const char *slash = strrchr(own_path, '/');

	snprintf(path, sizeof(path), "%.*s%s", slash ? (int)(slash - own_path + 1) : 0, own_path,
		 name);
	return path;
}

const char *bench_pmix_missing(void)
{
	if (access(bench_program("pmix"), X_OK) != 0)
		return "PMIx: not installed";
	if (system("command -v mpirun >/dev/null 2>&1") != 0)
		return "PMIx: there is no mpirun";
	return NULL;
}

int bench_command(struct bench_pass *pass, int ranks, const char *format, ...)
{
	char command[2048], line[256];
	long long start, end, first = INT64_MAX, last = 0;
	va_list args;
	FILE *output;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	output = popen(command, "r");
	if (!output)
		return -errno;
	while (fgets(line, sizeof(line), output)) {
		if (sscanf(line, "%lld %lld", &start, &end) != 2) {
			snprintf(pass->error, sizeof(pass->error), "%s", line);
			continue;
		}
		first = start < first ? start : first;
		last = end > last ? end : last;
		ranks--;
	}
	if (pclose(output) != 0 || ranks != 0)
		return -EIO;
	pass->figures[BENCH_TIME] = (double)(last - first) / 1e6;
	return 0;
}

/* -------------------------------------------------------------------- main --- */

static pid_t busy_loops[BUSY_MAX];

static void start_busy_loops(int count)
{
	pid_t parent = getpid();
	int i;

	for (i = 0; i < count; i++) {
		busy_loops[i] = fork();
		if (busy_loops[i] != 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			;
		_exit(0);
	}
}

static void end_busy_loops(int count)
{
	while (count-- > 0) {
		kill(busy_loops[count], SIGKILL);
		waitpid(busy_loops[count], NULL, 0);
	}
}

static void measure(const struct bench *bench, const int *sizes, int busy)
{
	size_t from = result_count;

	if (busy)
		printf("With %d busy loops beside it:\n", busy);
	fflush(stdout);
	start_busy_loops(busy);
	for (; *sizes; sizes++)
		measure_size(bench, *sizes, busy);
	end_busy_loops(busy);
	print_table(bench, from);
}

static int number(const char *text, int max)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || value < 1 || value > max) {
		fprintf(stderr, "%s is no number from 1 to %d\n", text, max);
		exit(2);
	}
	return (int)value;
}

static void read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "b:r:s:t:")) != -1) {
		switch (option) {
		case 'b': settings.busy = number(optarg, BUSY_MAX); break;
		case 'r': settings.rounds = number(optarg, ROUNDS_MAX); break;
		case 's': settings.seconds = number(optarg, 3600); break;
		case 't': settings.limit = number(optarg, 3600); break;
		default:
			fprintf(stderr, "usage: %s [-b BUSY] [-r ROUNDS] [-s SECONDS] [-t LIMIT] "
				"[SIZE...]\n", argv[0]);
			exit(2);
		}
	}
}

/* Two ends of a connection for each rank, and more. */
static void raise_limits(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

static void print_missing(const struct bench *bench)
{
	const struct bench_side *side;

	for (side = bench->sides; side->name; side++)
		if (side->missing && side->missing())
			printf("%s is left out.  %s.\n", side->name, side->missing());
}

int bench_main(int argc, char **argv, const struct bench *bench)
{
	static const char *const large[] = { "-m", "1024", "-c", "4096", NULL };
	int sizes[32] = { 0 };
	size_t count = 0;

	own_path = argv[0];
	read_options(argc, argv);
	while (optind < argc && count < COUNT(sizes) - 1)
		sizes[count++] = number(argv[optind++], 1000000);
	raise_limits();
	if (bench->need)
		bench->need();
	cache_need();
	server = cache_start(large);
	server_pid = (pid_t)cache_stat(server, "pid");	/* it names its own process */
	printf("## bench/%s: %s\n", bench->name, bench->title);
	print_missing(bench);
	measure(bench, count ? sizes : bench->sizes, settings.busy);
	if (!count && bench->busy_sizes)
		measure(bench, bench->busy_sizes, BENCH_BUSY);
	check_goals(bench);
	cache_end(server);
	printf("\n");
	return status;
}
