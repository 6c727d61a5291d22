/* SPDX-License-Identifier: MIT */
/* local.c - see local.h */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "tools/command.h"
#include "tools/local.h"
#include "tools/session.h"

#define PATIENCE (10 * BEEST_SECOND)
#define CONNECTIONS_MIN 1024
#define CONNECTIONS_A_RANK 8

/* In TMPDIR. */
#define FOLDER "/hartebeest-XXXXXX"
#define SOCKET "/memcached"

/* The guard's exit status if memcached cannot be executed. */
#define NOT_THERE 127

/* This process must not outlive @parent. */
static void end_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(STATUS_FAILED);
}

/* ----------------------------------------------------------- memcached --- */

/* Runs in the server's process. */
static void run_server(const struct local *local, pid_t parent)
{
	char connections[16];
	const char *user = geteuid() == 0 ? "root" : NULL;

	snprintf(connections, sizeof(connections), "%d",
		 BEEST_MAX(CONNECTIONS_MIN, local->count * CONNECTIONS_A_RANK));
	end_with(parent);
	/* memcached wants -u from root only; for others the NULL ends the list there. */
	execlp("memcached", "memcached", "-s", local->socket, "-a", "0600", "-t", "2", "-c",
	       connections, user ? "-u" : NULL, user, NULL);
	_exit(NOT_THERE);
}

/* --------------------------------------------------------------- guard --- */

/*
 * The guard is a process between this one and memcached.  It waits until memcached ends, or
 * until nobody holds the other end of its pipe, and then removes the folder.  So nothing is
 * left behind, even when a signal ends this process at once.
 */

static void note_child(int number)
{
	(void)number;
}

/* All signals are blocked, except SIGCHLD while ppoll(2) waits.  Returns the exit status. */
static int guard_wait(pid_t pid, int pipe)
{
	struct pollfd polled = { .fd = pipe };
	int status = 0;
	sigset_t awake;
	pid_t ended;

	sigfillset(&awake);
	sigdelset(&awake, SIGCHLD);
	while ((ended = waitpid(pid, &status, WNOHANG)) == 0 &&
	       ppoll(&polled, 1, NULL, &awake) < 0)
		;
	if (!ended) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Runs in the guard's process, with all signals blocked.  Does not return. */
static void guard(const struct local *local, int pipe, const sigset_t *unblocked)
{
	struct sigaction action;
	int status = 1, null = open("/dev/null", O_RDWR);
	pid_t pid, own = getpid();

	memset(&action, 0, sizeof(action));
	action.sa_handler = note_child;
	sigaction(SIGCHLD, &action, NULL);
	setpgid(0, 0);		/* Ctrl-C is meant for the ranks */
	dup2(null, STDIN_FILENO), dup2(null, STDOUT_FILENO), dup2(null, STDERR_FILENO);
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, unblocked, NULL);
		run_server(local, own);
	}
	if (pid > 0)
		status = guard_wait(pid, pipe);
	unlink(local->socket);
	rmdir(local->folder);
	_exit(status);
}

/* Blocks signals from before the folder is made until the guard that removes it runs. */
static int start_guard(struct local *local)
{
	int pipe[2], ret = 0;
	sigset_t all, unblocked;

	if (pipe2(pipe, O_CLOEXEC) < 0)
		return -errno;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &unblocked);
	if (!mkdtemp(local->folder)) {
		ret = -errno;
	} else {
		snprintf(local->socket, sizeof(local->socket), "%s" SOCKET, local->folder);
		local->server = fork();
		if (local->server == 0) {
			close(pipe[1]);
			guard(local, pipe[0], &unblocked);
		}
		if (local->server < 0) {
			ret = -errno;
			rmdir(local->folder);
		}
	}
	sigprocmask(SIG_SETMASK, &unblocked, NULL);
	close(pipe[0]);
	if (ret < 0)
		close(pipe[1]);
	local->pipe = pipe[1];
	return ret;
}

static bool listens(const struct local *local)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool good;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", local->socket);
	good = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	return good;
}

static int await_server(struct out *out, struct local *local)
{
	int64_t end = beest_clock_deadline(PATIENCE);
	int status = 0;

	while (!listens(local)) {
		if (waitpid(local->server, &status, WNOHANG) != 0) {
			local->server = 0;
		} else if (beest_clock_left(end)) {
			poll(NULL, 0, 2);
			continue;
		}
		out_error(out, "%s name a server in HARTEBEEST_EXC_IP_PORT",
			  WIFEXITED(status) && WEXITSTATUS(status) == NOT_THERE ?
			  "there is no memcached in PATH: install the package memcached, or" :
			  "memcached did not start;");
		local_end(local);
		return STATUS_FAILED;
	}
	return STATUS_GOOD;
}

/* TMPDIR may be too long for the path of a socket: then the folder is in /tmp. */
static int start_server(struct out *out, struct local *local)
{
	const char *temporary = getenv("TMPDIR");
	int ret;

	if (!temporary || !*temporary ||
	    strlen(temporary) + strlen(FOLDER) >= sizeof(local->folder))
		temporary = "/tmp";
	snprintf(local->folder, sizeof(local->folder), "%s" FOLDER, temporary);
	ret = start_guard(local);
	if (ret < 0) {
		out_error(out, "no private memcached in %s: %s; TMPDIR names another folder, "
			  "HARTEBEEST_EXC_IP_PORT a server", temporary, strerror(-ret));
		local->server = 0;
		local->folder[0] = '\0';
		return STATUS_FAILED;
	}
	out_waiting(out, "starting memcached");
	ret = await_server(out, local);
	out_waiting_end(out);
	return ret;
}

/* --------------------------------------------------------- environment --- */

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

/* Programs may know torchrun's variables, and the library takes the local rank from them. */
static void set_rank(int rank)
{
	set_number("HARTEBEEST_NID", rank);
	set_number("RANK", rank);
	set_number("LOCAL_RANK", rank);
}

void local_rank(int rank, pid_t parent)
{
	end_with(parent);
	set_rank(rank);
}

/* Sets both the list and the number of participants, as a settings file may have either. */
static void set_count(int count)
{
	char list[32];

	set_number("HARTEBEEST_NPARTICIPANTS", count);
	set_number("WORLD_SIZE", count);
	set_number("LOCAL_WORLD_SIZE", count);
	snprintf(list, sizeof(list), "0-%d", count - 1);
	setenv("HARTEBEEST_PARTICIPANTS", list, 1);
}

static void set_job(const struct local *local)
{
	char job[64];

	snprintf(job, sizeof(job), "%.20s-%d-%" PRIx64, local->name, (int)getpid(),
		 (uint64_t)hartebeest_clock());
	setenv("HARTEBEEST_JOB", job, 1);
}

int local_begin(struct out *out, struct local *local)
{
	char server[16], job[16];
	struct hartebeest_context *hb;
	int status;

	set_rank(0);
	set_count(local->count);
	status = session_open(out, &hb);
	if (status != STATUS_GOOD)
		return status;
	hartebeest_option_get(hb, "exchange.servers", server, sizeof(server), NULL);
	hartebeest_option_get(hb, "job.id", job, sizeof(job), NULL);
	session_close(hb);
	if (session_signal())
		return STATUS_FAILED;

	if (local->is_new || !job[0])
		set_job(local);
	if (server[0])
		return STATUS_GOOD;
	status = start_server(out, local);
	if (status == STATUS_GOOD)
		setenv("HARTEBEEST_EXC_IP_PORT", local->socket, 1);
	return status;
}

void local_end(struct local *local)
{
	if (local->folder[0])
		close(local->pipe);
	while (local->server && waitpid(local->server, NULL, 0) < 0 && errno == EINTR)
		;
	local->server = 0;
	local->folder[0] = '\0';
}
