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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/bench.h"
#include "tests/support/memcached.h"

#define ROUNDS_MAX 101
#define ROUNDS_MIN 3		/* but 1 if a round takes long */
#define RESULTS 256
#define BUSY_MAX 64
#define STACK 262144
#define SECOND 1000000000.0
#define GAVE_UP 1e9		/* a value worse than any goal */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct settings {
	int rounds, seconds, limit, busy;
	const char *ways;		/* parts of their names, separated by commas; NULL: all */
	bool quiet;			/* no goals: who reads the table has its own */
} settings = { 31, 6, 120, 0, NULL, false };

/* One side at one size, with @busy busy loops beside it. */
struct result {
	const struct bench_side *side;
	int size, busy, rounds;
	bool gave_up;
	double figures[BENCH_FIGURES][ROUNDS_MAX];	/* sorted in the end */
};

static struct result results[RESULTS];
static size_t result_count;
static struct cache *servers[BENCH_SERVERS];
static pid_t server_pids[BENCH_SERVERS];
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

int bench_each_peer(struct bench_rank *rank, int (*fn)(struct bench_rank *rank, int peer))
{
	int peer, ret = 0;

	for (peer = 0; peer < rank->pass->size && ret == 0; peer++) {
		if (peer == rank->rank)
			continue;
		ret = bench_over(rank) ? -ETIMEDOUT : fn(rank, peer);
	}
	return ret;
}

int bench_peers(int size)
{
	return size > 1 ? size - 1 : 1;
}

/* All ranks and the caller meet in this order. */
enum meeting { OPENED, GO, DONE, PROVED, CHECKED, MEETINGS };

/* Shared with ranks that are processes. */
struct arena {
	pthread_barrier_t meetings[MEETINGS];
	struct bench_pass pass;
};

static void meet(struct bench_pass *pass, enum meeting meeting)
{
	struct arena *arena = (struct arena *)((char *)pass - offsetof(struct arena, pass));

	pthread_barrier_wait(&arena->meetings[meeting]);
}

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
	meet(rank->pass, OPENED);
	meet(rank->pass, GO);
	cpu = thread_cpu();
	rank->start = bench_clock();
	if (!bench_over(rank))
		rank_note(rank, side->work(rank));
	if (!rank->end)
		rank->end = bench_clock();
	rank->cpu = thread_cpu() - cpu;
	meet(rank->pass, DONE);
	if (rank->pass->bench->prove && !rank->pass->failed)
		rank_note(rank, rank->pass->bench->prove(rank));
	meet(rank->pass, PROVED);
	meet(rank->pass, CHECKED);
	side->close(rank);
	return NULL;
}

/* ------------------------------------------------------------------ server --- */

struct usage {
	double cpu;		/* ms */
	double keys, connects, bytes;
};

static int server_count(const struct bench_side *side)
{
	return side->servers ? side->servers : 1;
}

static double server_cpu(const struct bench_pass *pass)
{
	struct timespec cpu;
	clockid_t clock;
	double sum = 0;
	int i;

	for (i = 0; i < server_count(pass->side); i++) {
		if (clock_getcpuclockid(server_pids[i], &clock) != 0 ||
		    clock_gettime(clock, &cpu) < 0)
			continue;
		sum += (double)cpu.tv_sec * 1e3 + (double)cpu.tv_nsec / 1e6;
	}
	return sum;
}

/* Flushed items would count as bytes until others need their room. */
static void restart_server(int i)
{
	cache_restart(servers[i]);
	server_pids[i] = (pid_t)cache_stat(servers[i], "pid");	/* memcached reports its own pid */
}

long bench_server_stat(const struct bench_pass *pass, int i, const char *name)
{
	return i < server_count(pass->side) ? cache_stat(servers[i], name) : -1;
}

static double stats_sum(const char *answer, const char *const *names)
{
	char line[48];
	double sum = 0;
	const char *at;

	for (; *names; names++) {
		snprintf(line, sizeof(line), "STAT %s ", *names);
		at = strstr(answer, line);
		sum += at ? atof(at + strlen(line)) : 0;
	}
	return sum;
}

/* Asking for counters costs CPU: this reads the CPU time last, note_usage() reads it first. */
static struct usage server_usage(const struct bench_pass *pass)
{
	static const char *const keys[] = { "cmd_get", "cmd_set", "cmd_touch", "incr_hits",
					    "incr_misses", "delete_hits", "delete_misses", NULL };
	static const char *const connects[] = { "total_connections", NULL };
	static const char *const bytes[] = { "bytes_read", "bytes_written", NULL };
	struct usage usage = { .keys = 0 };
	char answer[8192];
	int i;

	for (i = 0; i < server_count(pass->side); i++) {
		cache_talk(servers[i], "stats\r\nquit\r\n", answer, sizeof(answer));
		usage.keys += stats_sum(answer, keys);
		usage.connects += stats_sum(answer, connects);
		usage.bytes += stats_sum(answer, bytes);
	}
	usage.cpu = server_cpu(pass);
	return usage;
}

/* @connects: before the ranks opened. */
static void note_usage(struct bench_pass *pass, const struct usage *before, double connects)
{
	double cpu = server_cpu(pass);
	struct usage after = server_usage(pass);
	int units = pass->bench->units ? pass->bench->units(pass->size) : 1;
	int repeats = pass->bench->repeats ? pass->bench->repeats : 1;

	pass->figures[BENCH_SERVER_CPU] = (cpu - before->cpu) / repeats;
	pass->figures[BENCH_KEYS] = (after.keys - before->keys) / pass->count / units / repeats;
	pass->figures[BENCH_CONNECTS] = (after.connects - connects) / pass->count;
	pass->figures[BENCH_MB] = (after.bytes - before->bytes) / 1e6 / repeats;
}

/* -------------------------------------------------------------------- pass --- */

static void note_ranks(struct bench_pass *pass)
{
	int64_t start = INT64_MAX, end = 0, cpu = 0;
	int i, repeats = pass->bench->repeats ? pass->bench->repeats : 1;

	for (i = 0; i < pass->count; i++) {
		start = pass->ranks[i].start < start ? pass->ranks[i].start : start;
		end = pass->ranks[i].end > end ? pass->ranks[i].end : end;
		cpu += pass->ranks[i].cpu;
	}
	pass->figures[BENCH_TIME] = (double)(end - start) / 1e6 / repeats;
	pass->figures[BENCH_RANK_CPU] = (double)cpu / 1e6 / pass->count / repeats;
}

/* Reports the rank that failed first, since others failed because of it. */
static int first_failure(struct bench_pass *pass)
{
	const struct bench_rank *rank, *first = NULL;

	for (rank = pass->ranks; rank < pass->ranks + pass->count; rank++)
		if (rank->ret < 0 && (!first || rank->end < first->end))
			first = rank;
	if (!first)
		return 0;
	snprintf(pass->error, sizeof(pass->error), "rank %d: %.*s", first->rank, BENCH_TEXT - 24,
		 first->error[0] ? first->error : strerror(-first->ret));
	return first->ret;
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

static void start_rank(struct bench_rank *rank, pthread_t *thread, const pthread_attr_t *attr)
{
	if (!rank->pass->bench->processes) {
		if (pthread_create(thread, attr, rank_run, rank) == 0)
			return;
		fprintf(stderr, "no more threads than %d\n", rank->rank);
		exit(77);
	}
	rank->pid = fork();
	if (rank->pid != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rank_run(rank);
	_exit(0);
}

static void start_ranks(struct bench_pass *pass, pthread_t *threads)
{
	pthread_attr_t attr;
	int i;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	for (i = 0; i < pass->count; i++) {
		pass->ranks[i].pass = pass;
		pass->ranks[i].rank = i;
		start_rank(&pass->ranks[i], &threads[i], &attr);
	}
	pthread_attr_destroy(&attr);
}

static void join_ranks(struct bench_pass *pass, pthread_t *threads)
{
	int i;

	for (i = 0; i < pass->count; i++)
		if (pass->bench->processes)
			waitpid(pass->ranks[i].pid, NULL, 0);
		else
			pthread_join(threads[i], NULL);
}

static int run_ranks(struct bench_pass *pass)
{
	pthread_t *threads = calloc((size_t)pass->count, sizeof(*threads));
	const double connects = server_usage(pass).connects;
	struct usage before;
	int ret;

	if (!threads)
		abort();
	start_ranks(pass, threads);
	meet(pass, OPENED);
	before = server_usage(pass);
	pass->deadline = bench_clock() + (int64_t)(pass->limit * SECOND);
	meet(pass, GO);
	meet(pass, DONE);
	note_ranks(pass);
	note_usage(pass, &before, connects);
	meet(pass, PROVED);
	ret = check(pass);
	meet(pass, CHECKED);
	join_ranks(pass, threads);
	free(threads);
	return ret;
}

static int run_programs(struct bench_pass *pass)
{
	struct usage before = server_usage(pass);
	int ret = pass->side->programs(pass);

	note_usage(pass, &before, before.connects);
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
	ret = pass->side->programs ? run_programs(pass) : run_ranks(pass);
	if (pass->bench->discard)
		pass->bench->discard(pass);
	for (i = 0; i < server_count(pass->side); i++)
		if (pass->bench->restarts)
			restart_server(i);
		else
			cache_talk(servers[i], "flush_all\r\nquit\r\n", answer, sizeof(answer));
	return ret;
}

/* ----------------------------------------------------------------- rounds --- */

static bool way_is_wanted(const struct bench_side *side)
{
	const char *way = settings.ways, *end;
	char part[64];

	for (; way; way = *end ? end + 1 : NULL) {
		end = way + strcspn(way, ",");
		snprintf(part, sizeof(part), "%.*s", (int)(end - way), way);
		if (strstr(side->name, part))
			return true;
	}
	return !settings.ways && !side->named;
}

static bool is_left_out(const struct bench_side *side, int size, int busy)
{
	size_t i;

	if (!way_is_wanted(side) || (!settings.ways && side->largest && size > side->largest) ||
	    (side->missing && side->missing()))
		return true;
	for (i = 0; i < result_count; i++)
		if (results[i].side == side && results[i].gave_up && results[i].busy == busy)
			return true;
	return false;
}

/* Zeroed memory, shared with processes that are forked later. */
static void *map_shared(size_t size)
{
	void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		abort();
	return bytes;
}

static struct arena *arena_new(const struct bench *bench, const struct result *result)
{
	static int serial;
	int i, count = bench->ranks ? bench->ranks : result->size;
	struct arena *arena = map_shared(sizeof(*arena) + (size_t)count *
					 sizeof(struct bench_rank));
	pthread_barrierattr_t attr;
	struct bench_pass *pass;
	size_t used;

	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	for (i = 0; i < MEETINGS; i++)
		pthread_barrier_init(&arena->meetings[i], &attr, (unsigned int)count + 1);
	pthread_barrierattr_destroy(&attr);
	pass = &arena->pass;
	pass->bench = bench;
	pass->side = result->side;
	pass->size = result->size;
	pass->count = count;
	pass->data = bench->shared ? map_shared(bench->shared) : NULL;
	for (i = 0; i < server_count(pass->side); i++) {
		used = strlen(pass->server);
		snprintf(pass->server + used, sizeof(pass->server) - used, "%s%s", i ? "," : "",
			 cache_hostport(servers[i])->text);
	}
	pass->port = cache_hostport(servers[0])->port;
	pass->limit = settings.limit;
	pass->deadline = bench_clock() + (int64_t)(pass->limit * SECOND);
	snprintf(pass->job, sizeof(pass->job), "b%d-%d", (int)getpid(), ++serial);
	return arena;
}

static void arena_free(struct arena *arena)
{
	size_t size = sizeof(*arena) + (size_t)arena->pass.count * sizeof(struct bench_rank);
	int i;

	for (i = 0; i < MEETINGS; i++)
		pthread_barrier_destroy(&arena->meetings[i]);
	if (arena->pass.bench->shared)
		munmap(arena->pass.data, arena->pass.bench->shared);
	munmap(arena, size);
}

static void note_failure(struct result *result, const struct bench_pass *pass, double seconds,
			 int ret)
{
	result->gave_up = true;
	printf("%s, %d: gave up after %.1f s: %s\n", pass->side->name, pass->size, seconds,
	       pass->error[0] ? pass->error : strerror(-ret));
	status |= ret == -EBADMSG;
}

/* A rank that crashed leaves the others waiting; the alarm then ends the bench. */
static void take_turn(const struct bench *bench, struct result *result)
{
	struct arena *arena = arena_new(bench, result);
	int64_t start = bench_clock();
	int i, ret;

	alarm(4 * (unsigned int)settings.limit);
	ret = run_pass(&arena->pass);
	alarm(0);
	if (ret < 0) {
		note_failure(result, &arena->pass, (double)(bench_clock() - start) / SECOND, ret);
	} else {
		for (i = 0; i < BENCH_FIGURES; i++)
			result->figures[i][result->rounds] = arena->pass.figures[i];
		result->rounds++;
	}
	arena_free(arena);
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
		results[result_count++] =
			(struct result){ .side = side, .size = size, .busy = busy };
		(*count)++;
	}
	return first;
}

/* The first pass finds the network's neighbours, so it is not counted. */
static void warm_up(const struct bench *bench, struct result *result)
{
	take_turn(bench, result);
	result->rounds = 0;
}

/* The sides take turns; another one begins each round. */
static void measure_size(const struct bench *bench, int size, int busy)
{
	size_t i, at, count;
	struct result *first = add_results(bench, size, busy, &count);
	int64_t end, late;
	int round, figure;

	for (i = 0; i < count && bench->warm_up && first == results; i++)
		warm_up(bench, &first[i]);
	end = bench_clock() + (int64_t)(settings.seconds * SECOND);
	late = bench_clock() + (int64_t)(16 * settings.seconds * SECOND);
	for (round = 0; round < settings.rounds; round++) {
		for (i = 0; i < count; i++) {
			at = (i + (size_t)round) % count;
			if (!first[at].gave_up)
				take_turn(bench, &first[at]);
		}
		if (bench_clock() > (round + 1 >= ROUNDS_MIN ? end : late))
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
		printf(" gave up | - | - | - | - | - | - | - |\n");
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
	print_figure(result, BENCH_CONNECTS);
	print_figure(result, BENCH_MB);
	printf("\n");
}

static void print_head(const struct bench *bench)
{
	printf("\n| %s | way | ms | range, rounds | x first | server CPU ms | %s | "
	       "rank CPU ms | connects a rank | MB |\n|---|---|---|---|---|---|---|---|---|---|\n",
	       bench->column ? bench->column : "N",
	       bench->keys_text ? bench->keys_text : "keys a rank");
	fflush(stdout);
}

/* ------------------------------------------------------------------- goals --- */

static const char *const figure_names[BENCH_FIGURES] = {
	"time", "server CPU", "keys", "rank CPU", "connects", "MB",
};

/* The value of a goal; a side that gave up never reaches it. */
static double reached(const struct result *side, const struct result *against,
		      enum bench_figure figure)
{
	if (!side->rounds)
		return GAVE_UP;
	if (!against)
		return median(side, figure);
	return against->rounds ? median(side, figure) / median(against, figure) : 0;
}

static void print_verdict(const struct bench_goal *goal, double value)
{
	double more = value / goal->ratio;

	if (goal->kind == BENCH_GUARD)
		printf("; measured %.3g, fails beyond %.3g\n", goal->ratio,
		       BENCH_MARGIN * goal->ratio);
	else if (more <= 1)
		printf("; aim %.3g\n", goal->ratio);
	else
		printf("; aim %.3g, missed by a factor of %.3g\n", goal->ratio, more);
}

static void check_goal(const struct bench_goal *goal, const struct result *side)
{
	const struct result *against = goal->against ?
		find(goal->against, side->size, side->busy) : NULL;
	bool guards = goal->kind == BENCH_GUARD, good;
	double value;

	if (goal->against && (!against || !against->rounds)) {
		printf("not measured: %s at %d, without %s\n", goal->side, side->size,
		       goal->against);
		return;
	}
	value = reached(side, against, goal->figure);
	good = value <= goal->ratio * (guards ? BENCH_MARGIN : 1);
	status |= guards && !good;
	printf("%s: %s at %d%s: ", guards ? good ? "met" : "MISSED" : good ? "reached" : "aim",
	       goal->side, side->size, side->busy ? ", with busy loops" : "");
	if (value >= GAVE_UP)
		printf("it gave up");
	else if (against)
		printf("%.3g x the %s of %s", value, figure_names[goal->figure], goal->against);
	else
		printf("%.3g ms", value);
	print_verdict(goal, value);
}

static void check_goals(const struct bench *bench)
{
	const struct bench_goal *goal;
	size_t i;

	printf("\n");
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
	size_t i = result_count;

	if (busy)
		printf("\nWith %d busy loops beside it:\n", busy);
	print_head(bench);
	start_busy_loops(busy);
	for (; *sizes; sizes++) {
		measure_size(bench, *sizes, busy);
		for (; i < result_count; i++)
			print_row(bench, &results[i]);
		fflush(stdout);
	}
	end_busy_loops(busy);
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

	while ((option = getopt(argc, argv, "b:qr:s:t:w:")) != -1) {
		switch (option) {
		case 'b': settings.busy = number(optarg, BUSY_MAX); break;
		case 'q': settings.quiet = true; break;
		case 'r': settings.rounds = number(optarg, ROUNDS_MAX); break;
		case 's': settings.seconds = number(optarg, 3600); break;
		case 't': settings.limit = number(optarg, 3600); break;
		case 'w': settings.ways = optarg; break;
		default:
			fprintf(stderr, "usage: %s [-b BUSY] [-q] [-r ROUNDS] [-s SECONDS] "
				"[-t LIMIT] [-w WAY,...] [SIZE...]\n", argv[0]);
			exit(2);
		}
	}
}

/* Each rank may need both ends of a connection, and more. */
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

static void start_servers(const struct bench *bench)
{
	/* memcached raises its own limit to what it is given, or ends. */
	struct rlimit files = { .rlim_cur = 0 };
	const bool many = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur >= 20000;
	const char *const large[] = { "-m", "1024", "-c", many ? "20000" : "4096", NULL };
	const struct bench_side *side;
	int i;

	for (side = bench->sides; side->name; side++)
		for (i = 0; i < server_count(side); i++) {
			if (servers[i])
				continue;
			servers[i] = cache_start(large);
			server_pids[i] = (pid_t)cache_stat(servers[i], "pid");
		}
}

static void end_servers(void)
{
	int i;

	for (i = 0; i < BENCH_SERVERS; i++)
		cache_end(servers[i]);
}

int bench_main(int argc, char **argv, const struct bench *bench)
{
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
	start_servers(bench);
	printf("## bench/%s: %s\n", bench->name, bench->title);
	print_missing(bench);
	measure(bench, count ? sizes : bench->sizes, settings.busy);
	if (!count && bench->busy_sizes)
		measure(bench, bench->busy_sizes, BENCH_BUSY);
	if (!settings.quiet)
		check_goals(bench);
	end_servers();
	printf("\n");
	return status;
}
