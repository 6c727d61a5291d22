/* SPDX-License-Identifier: MIT */
/*
 * serve.c - hartebeest serve: a command, and a memcached for its job
 *
 * Owns the command's environment, and the server from its start to its end: it is started again
 * when it dies.  Knows nothing of what the command is; a launcher starts the ranks.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/parse.h"
#include "lib/base/process.h"
#include "lib/base/text.h"
#include "tools/allocation.h"
#include "tools/command.h"
#include "tools/parent.h"
#include "tools/reach.h"
#include "tools/secret.h"
#include "tools/server.h"
#include "tools/session.h"

/* The server is given up when it dies this often, each time within this time. */
#define DEATHS_MAX 3
#define DEATH_TIME (10 * BEEST_SECOND)

#define PID "HARTEBEEST_SERVE_PID"

static int64_t ranks, port;
static const char *listen_at, *secret_dir;
static bool no_secret, background;

static const struct args_option options[] = {
	{ "ranks", 'r', ARGS_INT, &ranks, .value = "N", .min = 1, .max = 1000000,
	  .help = "how many ranks to expect; by default what the batch system or COMMAND says" },
	{ "listen", 'l', ARGS_TEXT, &listen_at, .value = "ADDRESS|INTERFACE",
	  .help = "where it listens; by default the address of this node's name" },
	{ "port", 'p', ARGS_INT, &port, .value = "N", .min = 1, .max = 65535,
	  .help = "the port; by default a free one" },
	{ "secret-dir", 's', ARGS_TEXT, &secret_dir, .value = "FOLDER",
	  .help = "for the secret, shared by all nodes; by default ~/" SECRET_FOLDER },
	{ "no-secret", 0, ARGS_FLAG, &no_secret,
	  .help = "records are not sealed: any process that reaches the server can change them" },
	{ "background", 'b', ARGS_FLAG, &background,
	  .help = "print the environment for a shell, and end with that shell" },
	{ .name = NULL },
};

struct serving {
	struct out *out;
	struct server server;
	char address[INET6_ADDRSTRLEN];
	char secret[PATH_MAX];		/* "": none */
	int64_t started;		/* when the server was started last */
	int deaths;			/* in a row */
	bool given_up;			/* it died too often */
	pid_t command;			/* 0: none, or it has ended */
	int status;			/* of the command, as shells report it */
};

/* --------------------------------------------------------- environment --- */

/* In the order in which they are printed.  Launchers have to pass the first three on. */
static const char *const variables[] = {
	"HARTEBEEST_EXC_IP_PORT", "HARTEBEEST_SECRET_FILE", "HARTEBEEST_JOB", PID,
};
#define PASSED 3

/*
 * Variables that list which others a launcher passes on.  srun passes all by default, and Hydra
 * always; Open MPI's mpirun passes its own only.
 */
static const struct passing {
	const char *variable, *separator;
	bool restricts;		/* if it is not set, or has ALL, everything is passed on */
} passings[] = {
	{ "OMPI_MCA_mca_base_env_list", ";", false },
	{ "SLURM_EXPORT_ENV", ",", true },
};

static void pass_variables(const struct passing *passing)
{
	const char *former = getenv(passing->variable);
	struct beest_text list = BEEST_TEXT(4096);
	size_t i;

	if (passing->restricts && (!former || strstr(former, "ALL")))
		return;
	if (former && strcmp(former, "NONE"))
		beest_text_add(&list, "%s", former);
	for (i = 0; i < PASSED; i++)
		if (getenv(variables[i]))
			beest_text_add(&list, "%s%s", list.used ? passing->separator : "",
				       variables[i]);
	setenv(passing->variable, list.buffer, 1);
}

/* @value: NULL: none.  What an earlier serve has left is no user's wish. */
static void set_variable(const struct serving *serving, const char *name, const char *value)
{
	const char *former = getenv(name);

	if (former && !getenv(PID))
		out_error(serving->out, "%s was %s, and is %s for this job; to use the earlier "
			  "value, leave serve out", name, former, value ? value : "unset");
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* @one_job: else each step of a launcher has an id of its own, which the library takes. */
static void set_environment(const struct serving *serving, bool one_job)
{
	char text[64];
	size_t i;

	set_variable(serving, variables[0], serving->server.name);
	set_variable(serving, variables[1], serving->secret[0] ? serving->secret : NULL);
	if (one_job && !getenv(variables[2])) {
		snprintf(text, sizeof(text), "serve-%d-%" PRIx64, (int)getpid(),
			 (uint64_t)hartebeest_clock());
		setenv(variables[2], text, 1);
	}
	snprintf(text, sizeof(text), "%d", (int)getpid());
	setenv(PID, text, 1);
	for (i = 0; i < BEEST_COUNT(passings); i++)
		pass_variables(&passings[i]);
}

static void print_quoted(FILE *to, const char *value)
{
	putc('\'', to);
	for (; *value; value++)
		fputs(*value == '\'' ? "'\\''" : (char[2]){ *value }, to);
	putc('\'', to);
}

static void print_variable(FILE *to, const char *name)
{
	if (!getenv(name))
		return;
	fprintf(to, "%s=", name);
	print_quoted(to, getenv(name));
	fprintf(to, "; export %s;\n", name);
}

/* As assignments for a shell.  The comment is last, since eval without quotes makes one line. */
static void print_environment(FILE *to)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(variables); i++)
		print_variable(to, variables[i]);
	for (i = 0; i < BEEST_COUNT(passings); i++)
		print_variable(to, passings[i].variable);
	if (!getenv(variables[2]))
		fprintf(to, "# a launcher names each run; without one: export %s=NAME\n",
			variables[2]);
}

static bool is_mpirun(const char *word)
{
	static const char *const names[] = { "mpirun", "mpiexec", "orterun", "prterun" };
	const char *name = strrchr(word, '/');
	size_t i;

	name = name ? name + 1 : word;
	for (i = 0; i < BEEST_COUNT(names); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

/*
 * Open MPI refuses its variable together with options -x, so an mpirun with such options, perhaps
 * behind a word such as time(1), gets more of them instead.
 */
static char **with_options(char **words, int count)
{
	char **all = calloc((size_t)count + 2 * PASSED + 1, sizeof(*all));
	int i, at = 0, used;
	bool found = false;

	while (at < count && !is_mpirun(words[at]))
		at++;
	for (i = at + 1; i < count; i++)
		found |= !strcmp(words[i], "-x");
	if (!all || !found) {
		free(all);
		return words;
	}
	unsetenv(passings[0].variable);
	memcpy(all, words, ((size_t)at + 1) * sizeof(*all));
	used = at + 1;
	for (i = 0; i < PASSED; i++)
		if (getenv(variables[i])) {
			all[used++] = (char *)"-x";
			all[used++] = (char *)variables[i];
		}
	memcpy(all + used, words + at + 1, (size_t)(count - at - 1) * sizeof(*all));
	return all;
}

/* -------------------------------------------------------------- server --- */

/* memcached raises the limit if it may, and else ends at once. */
static int check_files(const struct serving *serving, int64_t planned)
{
	int needed = serving->server.connections + SERVER_SPARE_FILES;
	struct rlimit limit, raised;
	bool fewer = serving->server.connections > server_connections(0);
	char whose[32] = "";

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max >= (rlim_t)needed)
		return STATUS_GOOD;
	raised = (struct rlimit){ .rlim_cur = limit.rlim_cur, .rlim_max = (rlim_t)needed };
	if (setrlimit(RLIMIT_NOFILE, &raised) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0)
		return STATUS_GOOD;
	if (fewer)
		snprintf(whose, sizeof(whose), " for %" PRId64 " ranks", planned);
	out_error(serving->out, "memcached needs %d file descriptors%s, and this process may have "
		  "%ju: raise ulimit -Hn%s", needed, whose, (uintmax_t)limit.rlim_max,
		  fewer ? ", or give a smaller --ranks" : "");
	return STATUS_FAILED;
}

static void plan_server(struct serving *serving, int64_t planned)
{
	serving->server = (struct server){
		.address = serving->address,
		.port = (int)port,
		.connections = server_connections(planned),
		.megabytes = server_megabytes(planned),
		.threads = server_threads(planned),
		.backlog = server_backlog(planned),
		.leftover = serving->secret[0] ? serving->secret : NULL,
	};
}

static int start_server(struct serving *serving)
{
	serving->started = hartebeest_clock();
	return server_start(serving->out, &serving->server);
}

/* The library stores its records again on a server that has lost them. */
static void restart_server(struct serving *serving)
{
	char name[sizeof(serving->server.name)];

	memcpy(name, serving->server.name, sizeof(name));
	server_end(&serving->server);
	if (hartebeest_clock() - serving->started > DEATH_TIME)
		serving->deaths = 0;
	while (++serving->deaths <= DEATHS_MAX)
		if (start_server(serving) == STATUS_GOOD) {
			out_error(serving->out, "the server %s has ended, and was started again: "
				  "ranks store their records again", name);
			return;
		}
	out_error(serving->out, "the server %s has ended %d times in a row, and is not started "
		  "again: the job has none now", name, serving->deaths);
	serving->given_up = true;
}

/* --------------------------------------------------------- watching both --- */

/* Passed on to the command, except from a terminal, which reaches it by itself. */
static const int passed_on[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };

/* Signals wait for sigtimedwait(2), so none needs a handler. */
static void block_signals(sigset_t *signals, sigset_t *unblocked)
{
	size_t i;

	signal(SIGCHLD, SIG_DFL);
	sigemptyset(signals);
	sigaddset(signals, SIGCHLD);
	for (i = 0; i < BEEST_COUNT(passed_on); i++)
		sigaddset(signals, passed_on[i]);
	sigprocmask(SIG_BLOCK, signals, unblocked);
}

static void reap(struct serving *serving)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == serving->server.pid) {
			server_ended(&serving->server, status);
			restart_server(serving);
		} else if (pid == serving->command) {
			serving->command = 0;
			serving->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) :
					  WEXITSTATUS(status);
		}
	}
}

/* Returns the signal that arrived; 0: none, within a second. */
static int watch(struct serving *serving, const sigset_t *signals, siginfo_t *info)
{
	const struct timespec second = { 1, 0 };
	int number = sigtimedwait(signals, info, &second);

	if (number == SIGCHLD)
		reap(serving);
	return number > 0 && number != SIGCHLD ? number : 0;
}

/* Runs in the command's process. */
static void run_command(char **words, const sigset_t *unblocked, pid_t parent)
{
	int err;

	sigprocmask(SIG_SETMASK, unblocked, NULL);
	parent_end_with(parent, SIGTERM);
	execvp(words[0], words);
	err = errno;
	fprintf(stderr, "hartebeest serve: %s: %s\n", words[0], strerror(err));
	fflush(stderr);
	_exit(err == ENOENT ? 127 : 126);
}

static int serve_job(struct serving *serving, char **words, int count)
{
	sigset_t signals, unblocked;
	pid_t own = getpid();
	siginfo_t info;
	char **all;
	int number;

	set_environment(serving, true);
	all = with_options(words, count);
	block_signals(&signals, &unblocked);
	serving->command = fork();
	if (serving->command == 0)
		run_command(all, &unblocked, own);
	if (all != words)
		free(all);
	if (serving->command < 0) {
		out_error(serving->out, "%s cannot be started: %s", words[0], strerror(errno));
		return STATUS_FAILED;
	}
	while (serving->command) {
		number = watch(serving, &signals, &info);
		if (number && info.si_code != SI_KERNEL)
			kill(serving->command, number);
	}
	return serving->status;
}

/* Until a signal arrives. */
static int serve_alone(struct serving *serving)
{
	sigset_t signals, unblocked;
	siginfo_t info;

	set_environment(serving, false);
	block_signals(&signals, &unblocked);
	printf("# memcached listens at %s until this process ends; for the shell of a job:\n",
	       serving->server.name);
	print_environment(stdout);
	fflush(stdout);
	while (!serving->given_up && !watch(serving, &signals, &info))
		;
	return serving->given_up ? STATUS_FAILED : STATUS_GOOD;
}

/* ---------------------------------------------------------- background --- */

/* -1: there is no such process. */
static pid_t parent_of(pid_t pid)
{
	char text[1024];
	const char *end;
	int parent;

	end = beest_file_line(text, sizeof(text), "/proc/%d/stat", (int)pid) ?
	      strrchr(text, ')') : NULL;
	return end && sscanf(end, ") %*c %d", &parent) == 1 ? parent : -1;
}

static size_t command_line(pid_t pid, char *text, size_t size)
{
	char path[32];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? 0 : beest_file_read(fd, text, size);
	if (fd >= 0)
		close(fd);
	return got < 0 ? 0 : (size_t)got;
}

/*
 * The shell that runs eval "$(hartebeest serve --background)".  The parent may be a copy that the
 * shell made of itself for "$(...)": such a copy has the same command line.
 */
static pid_t find_shell(void)
{
	pid_t shell = getppid(), above;
	char own[4096], its[4096];
	size_t length = command_line(shell, own, sizeof(own));

	while (length && (above = parent_of(shell)) > 0 &&
	       command_line(above, its, sizeof(its)) == length && !memcmp(own, its, length))
		shell = above;
	return shell;
}

/* Runs in the process in the background until the shell ends, or a signal arrives. */
static int serve_shell(struct serving *serving, pid_t shell, int pipe)
{
	const uint64_t began = beest_process_ticks(shell);
	sigset_t signals, unblocked;
	FILE *to = fdopen(pipe, "w");
	siginfo_t info;

	set_environment(serving, false);
	print_environment(to);
	putc('\0', to);		/* the guard has the pipe, too, so its end shows nothing */
	fclose(to);
	block_signals(&signals, &unblocked);
	/* A later process may get the shell's id. */
	while (!beest_process_has_ended(shell) && beest_process_ticks(shell) == began &&
	       !serving->given_up && !watch(serving, &signals, &info))
		;
	return STATUS_GOOD;
}

/* Copies what the background process writes.  Nothing: it has failed, and reported why. */
static int await_background(pid_t pid, int pipe)
{
	FILE *from = fdopen(pipe, "r");
	char *text = NULL;
	size_t size = 0;
	int status = 0;

	if (from && getdelim(&text, &size, '\0', from) > 0)
		fputs(text, stdout);
	else
		waitpid(pid, &status, 0);
	free(text);
	return WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_FAILED;
}

/* ------------------------------------------------------------ together --- */

static int begin(struct serving *serving, char **words)
{
	int64_t planned = ranks ? ranks : allocation_ranks(words);
	int status;

	status = reach_find(serving->out, listen_at, serving->address);
	if (status == STATUS_GOOD && !no_secret)
		status = secret_make(serving->out, secret_dir, serving->address, serving->secret);
	if (status != STATUS_GOOD)
		return status;
	plan_server(serving, planned);
	status = check_files(serving, planned);
	if (status == STATUS_GOOD)
		status = start_server(serving);
	if (status != STATUS_GOOD && serving->secret[0])
		unlink(serving->secret);
	return status;
}

static void end(struct serving *serving)
{
	server_end(&serving->server);
	if (serving->secret[0])
		unlink(serving->secret);
}

static int run_in_background(struct serving *serving, char **words)
{
	int status, pipe[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid, shell = find_shell();

	if (pipe2(pipe, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		out_error(serving->out, "no process in the background: %s", strerror(errno));
		return STATUS_FAILED;
	}
	if (pid > 0) {
		close(pipe[1]);
		return await_background(pid, pipe[0]);
	}
	setsid();
	close(pipe[0]);
	dup2(null, STDIN_FILENO), dup2(null, STDOUT_FILENO);
	status = begin(serving, words);
	if (status == STATUS_GOOD) {
		status = serve_shell(serving, shell, pipe[1]);
		end(serving);
	}
	_exit(status);
}

/* Two servers in one script: the ranks would use the inner one, and nothing the other. */
static int check_nested(struct out *out)
{
	const char *text = getenv(PID), *server = getenv(variables[0]);
	int64_t pid;

	if (!text || !server || beest_parse_int(text, 1, INT_MAX, &pid) < 0 ||
	    kill((pid_t)pid, 0) < 0)
		return STATUS_GOOD;
	out_error(out, "process %s serves this job already, at %s: leave one of the two out, or "
		  "unset " PID, text, server);
	return STATUS_FAILED;
}

static int run(struct out *out, int count, char **words)
{
	struct serving serving = { .out = out };
	int status = check_nested(out);

	if (background && count) {
		out_error(out, "--background takes no command: its output is for eval");
		return STATUS_MISUSED;
	}
	if (status != STATUS_GOOD)
		return status;
	if (background)
		return run_in_background(&serving, words);
	status = begin(&serving, words);
	if (status != STATUS_GOOD)
		return status;
	status = count ? serve_job(&serving, words, count) : serve_alone(&serving);
	end(&serving);
	return status;
}

/* So that eval fails, too, instead of running nothing. */
static void fail_eval(int status)
{
	if (background)
		printf("(exit %d)\n", status);
}

const struct command serve_command = {
	.name = "serve",
	.operands = "[COMMAND [ARGUMENT...]]",
	.help = "Runs a command, such as srun or mpirun, with a memcached for its job.",
	.options = options,
	.runs_program = true,
	.least = 0, .most = ARGS_WORDS_MAX,
	.run = run,
	.failed = fail_eval,
	.more = "Sets server, secret and job in the environment of COMMAND, and has launchers\n"
		"pass them on.  The server ends with COMMAND, whose exit status is that of\n"
		"serve.  In a batch script of several steps:\n"
		"eval \"$(hartebeest serve --background)\"\n",
};
