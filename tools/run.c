/* SPDX-License-Identifier: MIT */
/*
 * run.c - hartebeest run: the ranks of a job as processes of this machine
 *
 * Owns them from fork to the last status: their environment, their lines, and that they end
 * together.  They stay in the terminal's group, so that Ctrl-C reaches them, and end with
 * this process, however that ends.  What they start themselves may outlive them.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "tools/command.h"
#include "tools/server.h"
#include "tools/session.h"

#define RANKS_MAX 4096
#define LINE_SIZE 16384
#define PIPE_SIZE 65536

/* From the first request to end until SIGKILL. */
#define GRACE (5 * BEEST_SECOND)

static int64_t number;
static bool plain;

static const struct args_option options[] = {
	{ "number", 'n', ARGS_INT, &number, .value = "N", .min = 1, .max = RANKS_MAX,
	  .help = "how many ranks" },
	{ "plain", 'p', ARGS_FLAG, &plain, .help = "lines without the rank before them" },
	{ .name = NULL },
};

/* One of the two streams of a rank. */
struct stream {
	int fd;				/* -1: it has ended */
	size_t used;
	char line[LINE_SIZE];
};

struct rank {
	pid_t pid;			/* 0: it has ended, or did not begin */
	int status;			/* exit status, or 128 + the signal */
	bool told;			/* this program sent it a signal to end */
	int64_t ended;
	struct stream streams[2];
};

struct job {
	struct out *out;
	struct server server;
	struct rank *ranks;
	int count, running;
	int64_t began;
	bool failed;			/* a rank failed, or somebody wants this to end */
	int64_t kill_at;		/* when SIGKILL is due; 0: not yet */
	char name[64];			/* HARTEBEEST_JOB; "": somebody gave one */
};

/* ------------------------------------------------------------- signals --- */

/* Set by handlers, for the loop, which is interrupted by no other time. */
static volatile sig_atomic_t asked, asked_again, from_terminal;

static void note_end(int signal_number, siginfo_t *info, void *context)
{
	(void)context;
	asked_again = asked != 0;
	asked = signal_number;
	from_terminal = info->si_code == SI_KERNEL;
}

static void note_child(int signal_number)
{
	(void)signal_number;
}

/* Blocked but while poll(2) waits. */
static void watch_signals(sigset_t *unblocked)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action;
	sigset_t blocked;
	size_t i;

	memset(&action, 0, sizeof(action));
	sigemptyset(&blocked);
	action.sa_sigaction = note_end;
	action.sa_flags = SA_SIGINFO;
	for (i = 0; i < BEEST_COUNT(numbers); i++) {
		sigaction(numbers[i], &action, NULL);
		sigaddset(&blocked, numbers[i]);
	}
	action.sa_handler = note_child;
	action.sa_flags = 0;
	sigaction(SIGCHLD, &action, NULL);
	sigaddset(&blocked, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_BLOCK, &blocked, unblocked);
}

static void unwatch_signals(const sigset_t *unblocked)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGPIPE };
	size_t i;

	for (i = 0; i < BEEST_COUNT(numbers); i++)
		signal(numbers[i], SIG_DFL);
	sigprocmask(SIG_SETMASK, unblocked, NULL);
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

/* The ranks are to end; SIGKILL comes if they do not. */
static void end_ranks(struct job *job, int signal_number)
{
	job->failed = true;
	if (signal_number)
		signal_ranks(job, signal_number);
	if (!job->kill_at)
		job->kill_at = beest_clock_deadline(GRACE);
}

/* --------------------------------------------------------------- lines --- */

/* Where ranks may write an object, theirs must not stand in its way. */
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

/* Whole lines, and whatever is too long for one. */
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

/* What is there now: no more than a pipe holds, or one that never pauses would be all. */
static void read_stream(struct job *job, int rank, int stream)
{
	struct stream *from = &job->ranks[rank].streams[stream];
	size_t total = 0;
	ssize_t got;

	while (from->fd >= 0 && total < PIPE_SIZE) {
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
			total += (size_t)got;
		}
		flush_stream(job, rank, stream, from->fd < 0);
	}
}

/* ------------------------------------------------------------ starting --- */

/* Also for programs that know torchrun's variables: that is where the local rank comes from. */
static void set_environment(const struct job *job, int rank)
{
	const struct {
		const char *name;
		int value;
	} numbers[] = {
		{ "HARTEBEEST_NID", rank }, { "HARTEBEEST_NPARTICIPANTS", job->count },
		{ "RANK", rank }, { "LOCAL_RANK", rank }, { "WORLD_SIZE", job->count },
		{ "LOCAL_WORLD_SIZE", job->count },
	};
	char text[16];
	size_t i;

	unsetenv("HARTEBEEST_PARTICIPANTS");
	for (i = 0; i < BEEST_COUNT(numbers); i++) {
		snprintf(text, sizeof(text), "%d", numbers[i].value);
		setenv(numbers[i].name, text, 1);
	}
	if (job->name[0])
		setenv("HARTEBEEST_JOB", job->name, 1);
	if (job->server.pid)
		setenv("HARTEBEEST_EXC_IP_PORT", job->server.socket, 1);
}

/* In the rank's process. */
static void run_rank(const struct job *job, int rank, char **words, const int to[2],
		     const sigset_t *unblocked, pid_t parent)
{
	int null = rank ? open("/dev/null", O_RDONLY) : STDIN_FILENO;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	unwatch_signals(unblocked);
	set_environment(job, rank);
	dup2(null, STDIN_FILENO);
	dup2(to[0], STDOUT_FILENO);
	dup2(to[1], STDERR_FILENO);
	execvp(words[0], words);
	fprintf(stderr, "hartebeest run: %s: %s\n", words[0], strerror(errno));
	fflush(stderr);
	_exit(errno == ENOENT ? 127 : 126);
}

static int start_failed(struct job *job, int rank)
{
	out_error(job->out, "rank %d cannot be started: %s", rank, strerror(errno));
	end_ranks(job, SIGTERM);
	return -1;
}

static int start_rank(struct job *job, int rank, char **words, const sigset_t *unblocked)
{
	struct rank *started = &job->ranks[rank];
	int stream, pipes[2][2] = { { -1, -1 }, { -1, -1 } };
	pid_t parent = getpid();

	if (pipe2(pipes[0], O_CLOEXEC) < 0 || pipe2(pipes[1], O_CLOEXEC) < 0)
		return start_failed(job, rank);
	started->pid = fork();
	if (started->pid == 0)
		run_rank(job, rank, words, (int[2]){ pipes[0][1], pipes[1][1] }, unblocked, parent);
	for (stream = 0; stream < 2; stream++) {
		close(pipes[stream][1]);
		started->streams[stream].fd = pipes[stream][0];
		fcntl(pipes[stream][0], F_SETFL, O_NONBLOCK);
	}
	if (started->pid < 0) {
		started->pid = 0;
		return start_failed(job, rank);
	}
	job->running++;
	return 0;
}

/* Two descriptors a rank; the preset limit may be for a few hundred ranks only. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = BEEST_MIN(limit.rlim_max, 4 * RANKS_MAX);
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

/* The first failure is why the others end: it is said. */
static void judge(struct job *job, const struct rank *rank)
{
	int index = (int)(rank - job->ranks);

	if (!rank->status || job->failed)
		return;
	if (rank->status > 128)
		out_error(job->out, "rank %d died of signal %d (%s)%s", index, rank->status - 128,
			  strsignal(rank->status - 128), job->running ? "; ending the others" : "");
	else
		out_error(job->out, "rank %d ended with exit status %d%s", index, rank->status,
			  job->running ? "; ending the others" : "");
	end_ranks(job, SIGTERM);
}

static void reap(struct job *job)
{
	struct rank *rank;
	int stream, status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == job->server.pid) {
			job->server.pid = 0;
			out_error(job->out, "the private memcached ended");
			end_ranks(job, SIGTERM);
		}
		rank = rank_of(job, pid);
		if (!rank)
			continue;
		for (stream = 0; stream < 2; stream++)
			read_stream(job, (int)(rank - job->ranks), stream);
		rank->pid = 0;
		rank->ended = hartebeest_clock();
		rank->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		job->running--;
		judge(job, rank);
	}
}

/* Of the terminal's group every rank has it already. */
static void pass_signal_on(struct job *job)
{
	static int passed;

	if (asked && asked != passed) {
		end_ranks(job, from_terminal ? 0 : asked);
		passed = asked;
	}
	if (asked_again || (job->kill_at && hartebeest_clock() >= job->kill_at)) {
		signal_ranks(job, SIGKILL);
		asked_again = 0;
		job->kill_at = INT64_MAX;
	}
}

static void poll_streams(struct job *job, struct pollfd *polled, const sigset_t *unblocked)
{
	const struct timespec tick = { 0, 100000000 };
	int i, stream, ready;

	for (i = 0; i < 2 * job->count; i++) {
		polled[i].fd = job->ranks[i / 2].streams[i % 2].fd;
		polled[i].events = POLLIN;
	}
	/* A tick only where SIGKILL is due some time. */
	ready = ppoll(polled, 2 * (nfds_t)job->count, job->kill_at ? &tick : NULL, unblocked);
	for (i = 0; ready > 0 && i < job->count; i++)
		for (stream = 0; stream < 2; stream++)
			if (polled[2 * i + stream].revents)
				read_stream(job, i, stream);
}

/* A rank's child may hold its streams open: when all ranks have ended nobody waits for that. */
static void watch(struct job *job, struct pollfd *polled, const sigset_t *unblocked)
{
	int i, stream;

	while (job->running) {
		poll_streams(job, polled, unblocked);
		reap(job);
		pass_signal_on(job);
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

/* Who was ended because of another has not failed. */
static bool was_ended(const struct rank *rank)
{
	return rank->told && (rank->status == 128 + SIGTERM || rank->status == 128 + SIGKILL);
}

static int worst(const struct job *job)
{
	struct json_object *array = out_json_array(job->out->json, "ranks"), *item;
	int i, status = STATUS_GOOD;

	for (i = 0; i < job->count; i++) {
		item = out_json_item(array);
		out_json_int(item, "rank", i);
		out_json_int(item, "status", job->ranks[i].status);
		out_json_int(item, "milliseconds",
			     (job->ranks[i].ended - job->began) / BEEST_MS);
		if (!was_ended(&job->ranks[i]))
			status = BEEST_MAX(status, job->ranks[i].status);
	}
	return asked ? 128 + asked : status;
}

/* -------------------------------------------------------------- together --- */

/* Is a server named, anywhere?  And the name of the job? */
static int read_settings(struct job *job, bool *server)
{
	struct hartebeest_context *hb;
	const char *source;
	char text[512];

	if (session_try(&hb, NULL) < 0) {
		out_error(job->out, "%s", hartebeest_error());
		return STATUS_FAILED;
	}
	hartebeest_option_get(hb, "exchange.servers", text, sizeof(text), NULL);
	*server = text[0];
	hartebeest_option_get(hb, "job.id", text, sizeof(text), &source);
	if (!text[0])
		snprintf(job->name, sizeof(job->name), "run-%d-%" PRIx64, (int)getpid(),
			 (uint64_t)hartebeest_clock());
	session_close(hb);
	return STATUS_GOOD;
}

static int run_job(struct job *job, char **words, struct pollfd *polled)
{
	sigset_t unblocked;
	int i;

	fflush(stdout);
	job->began = hartebeest_clock();
	watch_signals(&unblocked);
	for (i = 0; i < job->count && !asked; i++)
		if (start_rank(job, i, words, &unblocked) < 0)
			break;
	watch(job, polled, &unblocked);
	server_end(&job->server);	/* a signal that is pending may be the end of this process */
	unwatch_signals(&unblocked);
	return i < job->count && !asked ? BEEST_MAX(worst(job), STATUS_FAILED) : worst(job);
}

static int run(struct out *out, int count, char **words)
{
	struct job job = { .out = out, .count = (int)number };
	struct pollfd *polled;
	int i, status;
	bool server;

	(void)count;
	if (!number) {
		out_error(out, "how many ranks?  -n N says so");
		return STATUS_USAGE;
	}
	raise_limit();
	status = read_settings(&job, &server);
	if (status == STATUS_GOOD && !server)
		status = server_start(out, &job.server, job.count);
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
	server_end(&job.server);
	free(job.ranks);
	free(polled);
	return status;
}

const struct command run_command = {
	.name = "run",
	.operands = "PROGRAM [ARGUMENT...]",
	.help = "Runs the ranks of a job on this machine, with a memcached of their own.",
	.options = options,
	.flags = COMMAND_JSON | COMMAND_PROGRAM,
	.least = 1, .most = ARGS_WORDS_MAX,
	.run = run,
	.more = "Sets rank, number of ranks, job and, where none is named, a server.  Standard input\n"
		"goes to rank 0.  When a rank fails the others are ended.  The exit status is the\n"
		"worst of all ranks'; a signal counts 128 more than its number.\n",
};
