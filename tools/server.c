/* SPDX-License-Identifier: MIT */
/* server.c - see server.h */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
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
#include "tools/server.h"

#define PATIENCE (10 * BEEST_SECOND)
#define CONNECTIONS_MIN 1024
#define CONNECTIONS_A_RANK 8

/* In TMPDIR. */
#define FOLDER "/hartebeest-XXXXXX"
#define SOCKET "/memcached"

/* The guard's exit status if memcached cannot be executed. */
#define NOT_THERE 127

/* ----------------------------------------------------------- memcached --- */

/* Runs in the server's process. */
static void run_server(const struct server *server, int ranks, pid_t parent)
{
	char connections[16];
	const char *user = geteuid() == 0 ? "root" : NULL;

	snprintf(connections, sizeof(connections), "%d",
		 BEEST_MAX(CONNECTIONS_MIN, ranks * CONNECTIONS_A_RANK));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	/* memcached wants -u from root only; for others the NULL ends the list there. */
	execlp("memcached", "memcached", "-s", server->socket, "-a", "0600", "-t", "2", "-c",
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
static void guard(const struct server *server, int ranks, int pipe, const sigset_t *unblocked)
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
		run_server(server, ranks, own);
	}
	if (pid > 0)
		status = guard_wait(pid, pipe);
	unlink(server->socket);
	rmdir(server->folder);
	_exit(status);
}

/* Blocks signals from before the folder is made until the guard that removes it runs. */
static int start_guard(struct server *server, int ranks)
{
	int pipe[2], ret = 0;
	sigset_t all, unblocked;

	if (pipe2(pipe, O_CLOEXEC) < 0)
		return -errno;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &unblocked);
	if (!mkdtemp(server->folder)) {
		ret = -errno;
	} else {
		snprintf(server->socket, sizeof(server->socket), "%s" SOCKET, server->folder);
		server->pid = fork();
		if (server->pid == 0) {
			close(pipe[1]);
			guard(server, ranks, pipe[0], &unblocked);
		}
		if (server->pid < 0) {
			ret = -errno;
			rmdir(server->folder);
		}
	}
	sigprocmask(SIG_SETMASK, &unblocked, NULL);
	close(pipe[0]);
	if (ret < 0)
		close(pipe[1]);
	server->pipe = pipe[1];
	return ret;
}

/* ------------------------------------------------------------ together --- */

static bool listens(const struct server *server)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool good;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", server->socket);
	good = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	return good;
}

static int start_failed(struct out *out, struct server *server, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_THERE)
		out_error(out, "there is no memcached in PATH: install the package memcached, or "
			  "name a server in HARTEBEEST_EXC_IP_PORT");
	else
		out_error(out, "memcached did not start; name a server in HARTEBEEST_EXC_IP_PORT");
	server_end(server);
	return STATUS_FAILED;
}

static int await_server(struct out *out, struct server *server)
{
	int64_t end = beest_clock_deadline(PATIENCE);
	int status = 0;

	while (!listens(server)) {
		if (waitpid(server->pid, &status, WNOHANG) != 0) {
			server->pid = 0;
			return start_failed(out, server, status);
		}
		if (!beest_clock_left(end))
			return start_failed(out, server, status);
		poll(NULL, 0, 2);
	}
	return STATUS_GOOD;
}

int server_start(struct out *out, struct server *server, int ranks)
{
	const char *temporary = getenv("TMPDIR");
	int ret;

	if (!temporary || !*temporary ||
	    strlen(temporary) + strlen(FOLDER) >= sizeof(server->folder))
		temporary = "/tmp";
	snprintf(server->folder, sizeof(server->folder), "%s" FOLDER, temporary);
	ret = start_guard(server, ranks);
	if (ret < 0) {
		out_error(out, "no private memcached in %s: %s; TMPDIR names another folder, "
			  "HARTEBEEST_EXC_IP_PORT a server", temporary, strerror(-ret));
		memset(server, 0, sizeof(*server));
		return STATUS_FAILED;
	}
	out_waiting(out, "starting memcached");
	ret = await_server(out, server);
	out_waiting_end(out);
	return ret;
}

void server_end(struct server *server)
{
	if (server->folder[0])
		close(server->pipe);
	while (server->pid && waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
		;
	memset(server, 0, sizeof(*server));
}
