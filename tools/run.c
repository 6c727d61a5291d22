/* SPDX-License-Identifier: MIT */
/*
 * run.c - hartebeest run: the ranks of a job as processes of this machine
 *
 * Owns the ranks from fork to the last status: their environment, their output, and their
 * common end.  They stay in the terminal's process group, so that Ctrl-C reaches them, and end
 * with this process, however that ends.  Processes that they start themselves may outlive them.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/parse.h"
#include "tools/command.h"
#include "tools/local.h"
#include "tools/session.h"

#define RANKS_MAX 4096
#define LINE_SIZE 16384

/* From the first signal to end until SIGKILL. */
#define PATIENCE (5 * BEEST_SECOND)

/* At most so many failed ranks are named. */
#define FAILURES_MAX 10

static int64_t number, grace = 3 * BEEST_SECOND;
static bool plain;

static const struct args_option options[] = {
	{ "number", 'n', ARGS_INT, &number, .value = "N", .min = 1, .max = RANKS_MAX,
	  .help = "how many ranks" },
	{ "plain", 'p', ARGS_FLAG, &plain, .help = "lines without the rank before them" },
	{ "grace", 'g', ARGS_TIME, &grace, .value = "TIME", .min = 0, .max = BEEST_DAY,
	  .help = "how long the others may go on when a rank fails, default 3s" },
	{ .name = NULL },
};

/* One of the two streams of a rank. */
struct stream {
	int fd;				/* -1: the stream has ended */
	size_t used;
	char line[LINE_SIZE];
};

struct rank {
	pid_t pid;			/* 0: it has ended, or was not started */
	int status, signal;		/* it exited with status, or died of signal */
	bool told;			/* this process sent it a signal to end */
	int64_t ended;			/* 0: it runs, or was not started */
	struct stream streams[2];
};

struct job {
	struct out *out;
	struct local local;
	struct rank *ranks;
	int count, running, failures;
	int64_t began;
	/* When SIGTERM and SIGKILL are due; 0: not decided, INT64_MAX: sent. */
	int64_t end_at, kill_at;
};

/* ------------------------------------------------------------- signals --- */

/* Set by handlers for the loop in watch(), and only while that waits. */
static volatile sig_atomic_t asked, asked_again, from_terminal;

static void note_end(int signal_number, siginfo_t *info, void *context)
{
	(void)context;
	asked_again = asked != 0;
	asked = signal_number;
	from_terminal = info->si_code == SI_KERNEL;
}

static void note_child(int signal_number, siginfo_t *info, void *context)
{
	(void)signal_number, (void)info, (void)context;
}

static const struct watched {
	int number;
	void (*note)(int signal_number, siginfo_t *info, void *context);	/* NULL: ignored */
} watched[] = {
	{ SIGINT, note_end }, { SIGTERM, note_end }, { SIGHUP, note_end }, { SIGQUIT, note_end },
	{ SIGCHLD, note_child }, { SIGPIPE, NULL },
};

/* What this process was started with, which each rank gets back. */
static struct {
	struct sigaction actions[BEEST_COUNT(watched)];
	sigset_t unblocked;
	struct rlimit files;
} before;

/* Signals are blocked except while ppoll(2) waits.  Ignored ones stay so, as under nohup(1). */
static void watch_signals(void)
{
	struct sigaction action;
	sigset_t blocked;
	size_t i;

	memset(&action, 0, sizeof(action));
	sigemptyset(&blocked);
	for (i = 0; i < BEEST_COUNT(watched); i++) {
		sigaction(watched[i].number, NULL, &before.actions[i]);
		if (watched[i].note == note_end && before.actions[i].sa_handler == SIG_IGN)
			continue;
		action.sa_flags = watched[i].note ? SA_SIGINFO : 0;
		action.sa_handler = SIG_IGN;
		if (watched[i].note)
			action.sa_sigaction = watched[i].note;
		sigaction(watched[i].number, &action, NULL);
		sigaddset(&blocked, watched[i].number);
	}
	sigprocmask(SIG_BLOCK, &blocked, &before.unblocked);
}

static void unwatch_signals(void)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(watched); i++)
		sigaction(watched[i].number, &before.actions[i], NULL);
	sigprocmask(SIG_SETMASK, &before.unblocked, NULL);
}

static void signal_ranks(struct job *job, int signal_number)
{
	int i;

	for (i = 0; i < job->count; i++) {
		if (!job->ranks[i].pid)
			continue;
		job->ranks[i].told = true;
		kill(job->ranks[i].pid, signal_number);
	}
}

/* Asks the ranks to end; SIGKILL follows if they do not.  @signal_number: 0: they have it. */
static void end_ranks(struct job *job, int signal_number)
{
	job->end_at = INT64_MAX;
	if (signal_number)
		signal_ranks(job, signal_number);
	if (!job->kill_at)
		job->kill_at = beest_clock_deadline(PATIENCE);
}

/* Gives the other ranks time to end by themselves and report their own reasons. */
static void end_ranks_soon(struct job *job)
{
	if (!job->end_at)
		job->end_at = beest_clock_deadline(grace);
}

/* --------------------------------------------------------------- lines --- */

/* With --json, standard output is for the object, so lines of ranks go to standard error. */
static FILE *stream_file(const struct job *job, int stream)
{
	return stream || job->out->json ? stderr : stdout;
}

static void write_line(struct job *job, int rank, int stream, const char *line, size_t length)
{
	static const char *const colors[] = { "36", "33", "35", "32", "34", "31" };
	const char *color = colors[rank % BEEST_COUNT(colors)];
	int width = snprintf(NULL, 0, "%d", job->count - 1);
	FILE *file = stream_file(job, stream);

	if (!plain)
		fprintf(file, job->out->color ? "\033[%sm%*d:\033[0m " : "%.0s%*d: ", color, width,
			rank);
	fwrite(line, 1, length, file);
	if (!length || line[length - 1] != '\n')
		putc('\n', file);
}

/* Writes whole lines, and parts of lines that are too long; @all: also the rest. */
static void flush_stream(struct job *job, int rank, int stream, bool all)
{
	struct stream *from = &job->ranks[rank].streams[stream];
	size_t start = 0, length;
	char *end;

	while ((end = memchr(from->line + start, '\n', from->used - start))) {
		length = (size_t)(end + 1 - (from->line + start));
		write_line(job, rank, stream, from->line + start, length);
		start += length;
	}
	if (start < from->used && (all || (start == 0 && from->used == LINE_SIZE))) {
		write_line(job, rank, stream, from->line + start, from->used - start);
		start = from->used;
	}
	memmove(from->line, from->line + start, from->used - start);
	from->used -= start;
	fflush(stream_file(job, stream));
}

/* Reads no more than is there now, so that a rank that never pauses does not block the rest. */
static void read_stream(struct job *job, int rank, int stream)
{
	struct stream *from = &job->ranks[rank].streams[stream];
	int there = 0, total = 0;
	ssize_t got;

	ioctl(from->fd, FIONREAD, &there);
	while (from->fd >= 0 && total <= there) {
		got = read(from->fd, from->line + from->used, LINE_SIZE - from->used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		if (got <= 0) {
			close(from->fd);
			from->fd = -1;
		} else {
			from->used += (size_t)got;
			total += (int)got;
		}
		flush_stream(job, rank, stream, from->fd < 0);
	}
}

/* ------------------------------------------------------------ starting --- */

/* Runs in the rank's process. */
static void run_rank(int rank, char **words, const int to[2], pid_t parent)
{
	int err, null = rank ? open("/dev/null", O_RDONLY | O_CLOEXEC) : STDIN_FILENO;

	local_rank(rank, parent);
	unwatch_signals();
	setrlimit(RLIMIT_NOFILE, &before.files);
	dup2(null, STDIN_FILENO);
	dup2(to[0], STDOUT_FILENO);
	dup2(to[1], STDERR_FILENO);
	execvp(words[0], words);
	err = errno;
	fprintf(stderr, "hartebeest run: %s: %s\n", words[0], strerror(err));
	fflush(stderr);
	_exit(err == ENOENT ? 127 : 126);
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int start_rank(struct job *job, int rank, char **words)
{
	struct rank *started = &job->ranks[rank];
	int stream, err = 0, pipes[2][2] = { { -1, -1 }, { -1, -1 } };
	pid_t parent = getpid();

	if (pipe2(pipes[0], O_CLOEXEC) < 0 || pipe2(pipes[1], O_CLOEXEC) < 0 ||
	    (started->pid = fork()) < 0)
		err = errno;
	if (!err && !started->pid)
		run_rank(rank, words, (int[2]){ pipes[0][1], pipes[1][1] }, parent);
	for (stream = 0; stream < 2; stream++) {
		close_end(&pipes[stream][1]);
		if (err)
			close_end(&pipes[stream][0]);
		else
			fcntl(pipes[stream][0], F_SETFL, O_NONBLOCK);
		started->streams[stream].fd = pipes[stream][0];
	}
	if (err) {
		started->pid = 0;
		out_error(job->out, "rank %d cannot be started: %s", rank, strerror(err));
		end_ranks(job, SIGTERM);
		return -1;
	}
	job->running++;
	return 0;
}

/* A rank needs two descriptors here, for which the default limit may be too low. */
static void raise_limit(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &before.files);
	limit = before.files;
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = BEEST_MIN(limit.rlim_max, BEEST_MAX(limit.rlim_cur,
								     4 * RANKS_MAX));
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* -------------------------------------------------------------- ending --- */

static struct rank *rank_of(struct job *job, pid_t pid)
{
	int i;

	for (i = 0; i < job->count; i++)
		if (job->ranks[i].pid == pid)
			return &job->ranks[i];
	return NULL;
}

/* As shells report it. */
static int status_of(const struct rank *rank)
{
	return rank->signal ? 128 + rank->signal : rank->status;
}

/* "; the others may go on for 3s", after the sentence about the first failure. */
static const char *outlook(const struct job *job, char text[80])
{
	text[0] = '\0';
	if (job->running && !job->end_at && grace)
		snprintf(text, 80, "; the others may go on for %s", BEEST_DURATION_TEXT(grace));
	else if (job->running && !job->end_at)
		snprintf(text, 80, "; ending the others");
	return text;
}

/* Reports a failed rank.  A rank that was asked to end has not failed. */
static void judge(struct job *job, const struct rank *rank)
{
	int index = (int)(rank - job->ranks);
	char text[80];

	if (!status_of(rank) || rank->told || asked)
		return;
	outlook(job, text);
	end_ranks_soon(job);
	if (job->failures++ >= FAILURES_MAX)
		return;
	if (rank->signal)
		out_error(job->out, "rank %d died of signal %d (%s)%s", index, rank->signal,
			  strsignal(rank->signal), text);
	else
		out_error(job->out, "rank %d ended with exit status %d%s", index, rank->status,
			  text);
}

static void reap(struct job *job)
{
	struct rank *rank;
	int stream, status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == job->local.server.pid) {
			server_ended(&job->local.server, status);
			out_error(job->out, "the private memcached ended");
			end_ranks_soon(job);
		}
		rank = rank_of(job, pid);
		if (!rank)
			continue;
		for (stream = 0; stream < 2; stream++)
			read_stream(job, (int)(rank - job->ranks), stream);
		rank->pid = 0;
		rank->ended = hartebeest_clock();
		if (WIFSIGNALED(status))
			rank->signal = WTERMSIG(status);
		else
			rank->status = WEXITSTATUS(status);
		job->running--;
		judge(job, rank);
	}
}

/* A signal from the terminal reached every rank by itself. */
static void pass_signal_on(struct job *job)
{
	static int passed;

	if (asked && asked != passed) {
		end_ranks(job, from_terminal ? 0 : asked);
		passed = asked;
	}
}

static void end_in_time(struct job *job)
{
	int64_t now = hartebeest_clock();

	if (job->end_at && now >= job->end_at) {
		if (job->running && grace)
			out_error(job->out, "ending %d rank%s that still run%s", job->running,
				  job->running == 1 ? "" : "s", job->running == 1 ? "s" : "");
		end_ranks(job, SIGTERM);
	}
	if (asked_again || (job->kill_at && now >= job->kill_at)) {
		signal_ranks(job, SIGKILL);
		asked_again = 0;
		job->kill_at = INT64_MAX;
	}
}

static void poll_streams(struct job *job, struct pollfd *polled)
{
	const struct timespec tick = { 0, 100000000 };
	int i, stream, ready;

	for (i = 0; i < 2 * job->count; i++) {
		polled[i].fd = job->ranks[i / 2].streams[i % 2].fd;
		polled[i].events = POLLIN;
	}
	/* Wakes up regularly only if a signal will be due. */
	ready = ppoll(polled, 2 * (nfds_t)job->count, job->end_at ? &tick : NULL,
		      &before.unblocked);
	if (ready > 0)		/* then it may not have delivered a pending signal */
		ppoll(NULL, 0, &(struct timespec){ 0, 0 }, &before.unblocked);
	for (i = 0; ready > 0 && i < job->count; i++)
		for (stream = 0; stream < 2; stream++)
			if (polled[2 * i + stream].revents)
				read_stream(job, i, stream);
}

/* When all ranks have ended, does not wait for their children, which may hold streams open. */
static void watch(struct job *job, struct pollfd *polled)
{
	int i, stream;

	while (job->running) {
		poll_streams(job, polled);
		reap(job);
		pass_signal_on(job);
		end_in_time(job);
	}
	for (i = 0; i < job->count; i++) {
		for (stream = 0; stream < 2; stream++) {
			read_stream(job, i, stream);
			flush_stream(job, i, stream, true);
			if (job->ranks[i].streams[stream].fd >= 0)
				close(job->ranks[i].streams[stream].fd);
		}
	}
}

/* As in judge(). */
static bool was_ended(const struct rank *rank)
{
	return rank->told && status_of(rank);
}

static void rank_object(const struct job *job, int index, struct json_object *array)
{
	const struct rank *rank = &job->ranks[index];
	struct json_object *item = out_json_item(array);

	out_json_int(item, "rank", index);
	out_json_int(item, "status", status_of(rank));
	if (rank->signal)
		out_json_int(item, "signal", rank->signal);
	out_json_int(item, "milliseconds", (rank->ended - job->began) / BEEST_MS);
}

static int worst(const struct job *job)
{
	struct json_object *array = out_json_array(job->out->json, "ranks");
	int i, status = STATUS_GOOD;

	for (i = 0; i < job->count && job->ranks[i].ended; i++) {
		rank_object(job, i, array);
		status = BEEST_MAX(status, was_ended(&job->ranks[i]) ? STATUS_FAILED
				   : status_of(&job->ranks[i]));
	}
	return asked ? 128 + asked : status;
}

/* ------------------------------------------------------------ together --- */

static int run_job(struct job *job, char **words, struct pollfd *polled)
{
	int i;

	fflush(stdout);
	job->began = hartebeest_clock();
	raise_limit();
	watch_signals();
	for (i = 0; i < job->count && !asked; i++)
		if (start_rank(job, i, words) < 0)
			break;
	watch(job, polled);
	unwatch_signals();
	session_caught(asked);
	return i < job->count && !asked ? BEEST_MAX(worst(job), STATUS_FAILED) : worst(job);
}

static int run(struct out *out, int count, char **words)
{
	struct job job = { .out = out, .count = (int)number };
	struct pollfd *polled;
	int64_t meant;
	int i, status;

	(void)count;
	if (!number) {
		out_error(out, "the number of ranks is missing: -n %s",
			  beest_parse_int(words[0], 1, RANKS_MAX, &meant) == 0 ? words[0] : "N");
		return STATUS_MISUSED;
	}
	job.local = (struct local){ .name = "run", .count = job.count };
	status = local_begin(out, &job.local);
	if (status != STATUS_GOOD)
		return status;

	job.ranks = calloc((size_t)job.count, sizeof(*job.ranks));
	polled = calloc((size_t)job.count, 2 * sizeof(*polled));
	for (i = 0; job.ranks && i < 2 * job.count; i++)
		job.ranks[i / 2].streams[i % 2].fd = -1;
	if (job.ranks && polled) {
		status = run_job(&job, words, polled);
	} else {
		out_error(out, "no memory for %d ranks", job.count);
		status = STATUS_FAILED;
	}
	local_end(&job.local);
	free(job.ranks);
	free(polled);
	return status;
}

const struct command run_command = {
	.name = "run",
	.operands = "PROGRAM [ARGUMENT...]",
	.help = "Runs the ranks of a job on this machine, with a memcached of their own.",
	.options = options,
	.runs_program = true,
	.least = 1, .most = ARGS_WORDS_MAX,
	.run = run,
	.more = "Sets rank, number of ranks, job and, where none is named, a server, whose\n"
		"socket is in a folder of TMPDIR.  Standard input goes to rank 0.  When a rank\n"
		"fails, the others are ended if they go on for longer than --grace.  The exit\n"
		"status is the greatest of the ranks'; a signal counts 128 more than its number.\n",
};
