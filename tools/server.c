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
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "tools/command.h"
#include "tools/server.h"

#define PATIENCE (10 * BEEST_SECOND)
#define CONNECTIONS_MIN 1024
#define CONNECTIONS_A_RANK 8

/* Of this status the child speaks where memcached itself cannot be started. */
#define NOT_THERE 127

/* In the server's process.  A group of its own: Ctrl-C is meant for the ranks. */
static void run_server(const struct server *server, int ranks, pid_t parent)
{
	char connections[16];
	int null = open("/dev/null", O_RDWR);
	const char *user = geteuid() == 0 ? "root" : NULL;

	snprintf(connections, sizeof(connections), "%d",
		 BEEST_MAX(CONNECTIONS_MIN, ranks * CONNECTIONS_A_RANK));
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	dup2(null, 0), dup2(null, 1), dup2(null, 2);
	/* No user but root is asked for one. */
	execlp("memcached", "memcached", "-s", server->socket, "-a", "0600", "-t", "2", "-c",
	       connections, user ? "-u" : NULL, user, NULL);
	_exit(NOT_THERE);
}

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
		if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
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
	pid_t parent = getpid();

	/* A path of a socket has at most 107 bytes. */
	if (!temporary || !*temporary || strlen(temporary) > 30)
		temporary = "/tmp";
	snprintf(server->folder, sizeof(server->folder), "%s/hartebeest-XXXXXX", temporary);
	if (!mkdtemp(server->folder)) {
		out_error(out, "no folder %s: %s", server->folder, strerror(errno));
		server->folder[0] = '\0';
		return STATUS_FAILED;
	}
	snprintf(server->socket, sizeof(server->socket), "%s/memcached", server->folder);

	server->pid = fork();
	if (server->pid == 0)
		run_server(server, ranks, parent);
	if (server->pid < 0) {
		out_error(out, "no process for memcached: %s", strerror(errno));
		server->pid = 0;
		server_end(server);
		return STATUS_FAILED;
	}
	return await_server(out, server);
}

void server_end(struct server *server)
{
	if (server->pid) {
		kill(server->pid, SIGKILL);
		while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (server->folder[0]) {
		unlink(server->socket);
		rmdir(server->folder);
	}
	memset(server, 0, sizeof(*server));
}
