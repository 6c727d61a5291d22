/* SPDX-License-Identifier: MIT */
/* server.c - see server.h */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "tools/command.h"
#include "tools/parent.h"
#include "tools/server.h"

#define PATIENCE (60 * BEEST_SECOND)

/*
 * Below a folder that choose_folder() finds.  memcached writes the file with its port once it
 * listens there.
 */
#define FOLDER "/hartebeest-XXXXXX"
#define SOCKET "/memcached"
#define PORT_FILE "/port"

/* The guard's exit status if memcached cannot be executed. */
#define NOT_THERE 127

/* A server that the network reaches does not run as root. */
#define HARMLESS_USER "nobody"

/* -------------------------------------------------------------- numbers --- */

#define CONNECTIONS_MIN 1024
#define MEGABYTES_MIN 64
#define PAIR_MEGABYTES_MAX 1024

int server_connections(int64_t ranks)
{
	return (int)BEEST_MAX(CONNECTIONS_MIN, 4 * ranks * SERVER_RANK_CONNECTIONS);
}

int server_megabytes(int64_t ranks)
{
	int64_t pairs = ranks * ranks * SERVER_PAIR_BYTES >> 20;

	return (int)(MEGABYTES_MIN + (2 * ranks * SERVER_RANK_BYTES >> 20) +
		     BEEST_MIN(pairs, PAIR_MEGABYTES_MAX));
}

/*
 * A thread answers some hundred thousand requests a second, but beside the ranks of its node it has
 * to wait for a processor, and each thread gets a share of its own.
 */
#define THREAD_RANKS 64
#define THREADS_FEW 4
#define THREADS_MAX 32

int server_threads(int64_t ranks)
{
	const long processors = BEEST_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
	const int64_t wanted = BEEST_MAX(ranks / THREAD_RANKS, THREADS_FEW);

	return (int)BEEST_MIN(BEEST_MIN(wanted, processors), THREADS_MAX);
}

int server_backlog(int64_t ranks)
{
	return server_connections(ranks);
}

/* ------------------------------------------------------------ memcached --- */

struct words {
	const char *word[24];
	char text[12][16];		/* of the numbers */
	int count, numbers;
};

static void add_option(struct words *words, const char *option, const char *value)
{
	words->word[words->count++] = option;
	words->word[words->count++] = value;
}

static void add_number(struct words *words, const char *option, int number)
{
	char *text = words->text[words->numbers++];

	if (!number)
		return;
	snprintf(text, sizeof(words->text[0]), "%d", number);
	add_option(words, option, text);
}

static bool changes_user(const struct server *server)
{
	return !geteuid() && server->address;
}

/* @for_good: else seteuid(2) can take it back. */
static int become_harmless(bool for_good)
{
	const struct passwd *user = getpwnam(HARMLESS_USER);

	if (!user)
		return -ENOENT;
	/* In a container, a process that has no other groups may be refused this. */
	return (setgroups(0, NULL) == 0 || errno == EPERM) &&
	       (for_good ? setgid : setegid)(user->pw_gid) == 0 &&
	       (for_good ? setuid : seteuid)(user->pw_uid) == 0 ? 0 : -errno;
}

/*
 * Runs in the server's process.  memcached's own -u would clear the signal of parent_end_with(), as
 * each change of the user does.  Another user than root cannot raise the limit of files.
 */
static void change_user(const struct server *server)
{
	rlim_t needed = (rlim_t)server->connections + SERVER_SPARE_FILES;
	struct rlimit limit;
	int ret;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_max = BEEST_MAX(limit.rlim_max, needed);
	setrlimit(RLIMIT_NOFILE, &limit);
	ret = become_harmless(true);
	if (ret == 0)
		return;
	if (ret == -EINVAL)
		dprintf(STDERR_FILENO, "there is no such user in this user name space\n");
	else
		dprintf(STDERR_FILENO, ret == -ENOENT ? "there is no such user\n" :
			"its process cannot change to this user: %s\n", strerror(-ret));
	_exit(1);
}

/* Runs in the server's process, whose standard error report_end() reads. */
static void run_memcached(const struct server *server)
{
	struct words words = { .word = { "memcached" }, .count = 1 };
	char path[sizeof(server->folder) + sizeof(PORT_FILE)];

	snprintf(path, sizeof(path), "%s" PORT_FILE, server->folder);
	setenv("MEMCACHED_PORT_FILENAME", path, 1);
	if (server->address) {
		add_option(&words, "-l", server->address);
		add_number(&words, "-p", server->port ? server->port : -1);
		add_option(&words, "-U", "0");
	} else {
		add_option(&words, "-s", server->name);
		add_option(&words, "-a", "0600");
	}
	add_number(&words, "-c", server->connections);
	add_number(&words, "-m", server->megabytes);
	add_number(&words, "-t", server->threads);
	add_number(&words, "-b", server->backlog);
	if (!geteuid())
		add_option(&words, "-u", "root");
	execvp(words.word[0], (char *const *)words.word);
	if (errno == ENOENT)
		_exit(NOT_THERE);
	dprintf(STDERR_FILENO, "none in PATH can be executed: %s\n", strerror(errno));
	_exit(1);
}

/* --------------------------------------------------------------- folder --- */

/* In its place. */
static const char *folder_name(const struct server *server)
{
	return strrchr(server->folder, '/') + 1;
}

/*
 * The folder belongs to the user of memcached, who may put another in its place, or a symbolic
 * link.  So for root, its path means nothing: what root opens and removes is inside a descriptor.
 */
static int open_folder(struct server *server)
{
	server->inside = openat(server->place, folder_name(server),
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return server->inside < 0 ? -errno : 0;
}

static void close_folder(struct server *server)
{
	close(server->inside);
	close(server->place);
	server->folder[0] = '\0';
}

static void remove_files(const struct server *server)
{
	static const char *const files[] = { SOCKET, PORT_FILE, PORT_FILE ".lck" };
	size_t i;

	for (i = 0; i < BEEST_COUNT(files); i++)
		unlinkat(server->inside, files[i] + 1, 0);
}

static void remove_folder(const struct server *server)
{
	remove_files(server);
	unlinkat(server->place, folder_name(server), AT_REMOVEDIR);
}

/*
 * Only memcached of another user than root needs it: it could not write its port otherwise.
 * EINVAL: this user name space has no such user.  change_user() finds that, too, and reports it.
 */
static int give_folder(const struct server *server)
{
	const struct passwd *user = changes_user(server) ? getpwnam(HARMLESS_USER) : NULL;

	return user && fchown(server->inside, user->pw_uid, user->pw_gid) < 0 && errno != EINVAL ?
	       -errno : 0;
}

/* Runs in a process of its own, as the user of memcached.  Returns 0 or a positive errno. */
static int make_file(const struct server *server)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s" SOCKET, server->folder);
	if (!server->address) {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		return bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
	}
	fd = open(address.sun_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 || write(fd, "\n", 1) < 0 || close(fd) < 0 ? errno : 0;
}

/*
 * memcached that cannot write its port listens all the same, and reports nothing that a program
 * could rely on.  So its user first tries to make such a file.
 */
static int try_folder(const struct server *server)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(changes_user(server) && become_harmless(true) < 0 ? 0 : make_file(server));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	remove_files(server);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

static int make_folder(struct server *server, const char *place)
{
	size_t size = sizeof(server->folder);
	int ret;

	if (snprintf(server->folder, size, "%s" FOLDER, place) >= (int)size)
		return -ENAMETOOLONG;
	server->place = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	server->inside = -1;
	ret = server->place < 0 || !mkdtemp(server->folder) ? -errno : open_folder(server);
	if (ret == 0) {
		ret = give_folder(server);
		if (ret == 0)
			ret = try_folder(server);
		if (ret < 0)
			remove_folder(server);
	}
	if (ret < 0)
		close_folder(server);
	return ret;
}

/*
 * TMPDIR may be too long for the path of a socket, or closed to the user of memcached.  @why gets
 * what keeps memcached out of each place, if it can use none.
 */
static int choose_folder(struct server *server, struct beest_text *why)
{
	const char *const places[] = {
		getenv("TMPDIR"), "/tmp", getenv("XDG_RUNTIME_DIR"), "/dev/shm",
	};
	size_t i;
	int ret = 0;

	for (i = 0; i < BEEST_COUNT(places); i++) {
		if (!places[i] || places[i][0] != '/')
			continue;
		ret = make_folder(server, places[i]);
		if (ret == 0)
			break;
		beest_text_item(why, "%s: %s", places[i], strerror(-ret));
	}
	if (ret == 0 && !server->address)
		snprintf(server->name, sizeof(server->name), "%s" SOCKET, server->folder);
	if (ret < 0) {
		server->folder[0] = '\0';
		beest_text_item(why, "name in TMPDIR a folder in which %s can make files",
				changes_user(server) ? "user " HARMLESS_USER : "this user");
	}
	return ret;
}

/* ---------------------------------------------------------------- guard --- */

/*
 * The guard is a process between this one and memcached.  It waits until memcached ends, or
 * until no process holds the other end of its socket, and then removes the folder.  So nothing is
 * left behind, even when a signal ends this process at once.  The socket is also what memcached
 * has as its standard error.
 *
 * Root's guard waits, and removes what memcached has made, as the user of memcached.  It keeps the
 * right to be root again for what only root may remove: the folder, if its place is closed to that
 * user, and the leftover.  So no process of that user can send it a signal.
 */

static void note_child(int number)
{
	(void)number;
}

/*
 * All signals are blocked, except SIGCHLD while ppoll(2) waits.  Returns the exit status of
 * memcached, or 0 if @alone: the owner ended first.
 */
static int guard_wait(pid_t pid, int owner, bool *alone)
{
	struct pollfd polled = { .fd = owner, .events = POLLIN };
	int status = 0;
	sigset_t awake;
	pid_t ended;

	sigfillset(&awake);
	sigdelset(&awake, SIGCHLD);
	while ((ended = waitpid(pid, &status, WNOHANG)) == 0 &&
	       ppoll(&polled, 1, NULL, &awake) < 0)
		;
	if (ended)
		return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	*alone = true;
	return 0;
}

/* What memcached has made is removed by its user, the rest by the user who called serve. */
static void guard_remove(const struct server *server, uid_t user, gid_t group, bool alone)
{
	remove_files(server);
	if (seteuid(user) < 0 || setegid(group) < 0)
		return;
	unlinkat(server->place, folder_name(server), AT_REMOVEDIR);
	if (alone && server->leftover)
		unlink(server->leftover);
}

/* Runs in the guard's process, with all signals blocked.  Does not return. */
static void guard(const struct server *server, int owner, const sigset_t *unblocked)
{
	struct sigaction action;
	int status = 1, null = open("/dev/null", O_RDWR);
	const uid_t user = geteuid();
	const gid_t group = getegid();
	pid_t pid, own = getpid();
	bool alone = false;

	memset(&action, 0, sizeof(action));
	action.sa_handler = note_child;
	sigaction(SIGCHLD, &action, NULL);
	setpgid(0, 0);		/* Ctrl-C is meant for the ranks */
	dup2(null, STDIN_FILENO), dup2(null, STDOUT_FILENO), dup2(owner, STDERR_FILENO);
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, unblocked, NULL);
		if (changes_user(server))
			change_user(server);
		parent_end_with(own, SIGKILL);
		run_memcached(server);
	}
	/* If it may not, nor may memcached's process, which reports it. */
	if (changes_user(server))
		become_harmless(false);
	if (pid > 0)
		status = guard_wait(pid, owner, &alone);
	guard_remove(server, user, group, alone);
	_exit(status);
}

/*
 * Blocks signals from before the folder is made until the guard that removes it runs.  @why: see
 * choose_folder().
 */
static int start_guard(struct server *server, struct beest_text *why)
{
	int ends[2], ret;
	sigset_t all, unblocked;

	/* Not blocking: what memcached writes when this end is full is lost, and it goes on. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return -errno;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &unblocked);
	ret = choose_folder(server, why);
	if (ret == 0) {
		server->pid = fork();
		if (server->pid == 0) {
			close(ends[1]);
			guard(server, ends[0], &unblocked);
		}
		if (server->pid < 0)
			ret = -errno;
	}
	if (ret < 0 && server->folder[0]) {
		remove_folder(server);
		close_folder(server);
	}
	sigprocmask(SIG_SETMASK, &unblocked, NULL);
	close(ends[0]);
	if (ret < 0)
		close(ends[1]);
	server->guard = ends[1];
	return ret;
}

/* ------------------------------------------------------------- starting --- */

static bool listens_on_socket(const struct server *server)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool good;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", server->name);
	good = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	return good;
}

/* A connection would not show whose server listens there, but the file is memcached's own. */
static bool listens_at_address(struct server *server)
{
	/* Neither does a link lead elsewhere, nor does opening a pipe wait. */
	int fd = openat(server->inside, &PORT_FILE[1],
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	bool good;

	if (!file)
		return false;
	good = fscanf(file, "TCP INET%*[6: ]%d", &server->port) == 1;
	fclose(file);
	snprintf(server->name, sizeof(server->name), strchr(server->address, ':') ? "[%s]:%d" :
		 "%s:%d", server->address, server->port);
	return good;
}

/* Another server can only take the place of one at no address that was asked for. */
static const char *other_server(const struct server *server)
{
	return server->address ? "" : ", or name a server in HARTEBEEST_EXC_IP_PORT";
}

/* The lines that memcached has written on its standard error. */
static void list_errors(const struct server *server, struct beest_text *text)
{
	char errors[400], *line, *rest;
	ssize_t got = read(server->guard, errors, sizeof(errors) - 1);

	errors[got < 0 ? 0 : got] = '\0';
	for (line = strtok_r(errors, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		beest_text_item(text, "%s", line);
}

static void report_end(struct out *out, const struct server *server, int status)
{
	struct beest_text errors = BEEST_TEXT(500);

	list_errors(server, &errors);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_THERE)
		out_error(out, "there is no memcached in PATH: install the package memcached%s",
			  other_server(server));
	else
		out_error(out, "memcached%s did not start: %s%s",
			  changes_user(server) ? " as user " HARMLESS_USER : "", errors.used ?
			  errors.buffer : "'memcached -vv' may say why", other_server(server));
}

static int await_server(struct out *out, struct server *server)
{
	int64_t end = beest_clock_deadline(PATIENCE);
	int status = 0;

	while (!(server->address ? listens_at_address(server) : listens_on_socket(server))) {
		if (waitpid(server->pid, &status, WNOHANG) != 0) {
			server_ended(server, status);
		} else if (beest_clock_left(end)) {
			poll(NULL, 0, 2);
			continue;
		}
		report_end(out, server, status);
		server_end(server);
		return STATUS_FAILED;
	}
	return STATUS_GOOD;
}

/* Finds out what would keep memcached from listening, to report it better than memcached does. */
static int try_address(const struct server *server)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
					.ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	char port[16];
	int fd, ret, yes = 1;

	snprintf(port, sizeof(port), "%d", server->port);
	if (getaddrinfo(server->address, port, &hints, &found))
		return -EINVAL;
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ret = fd < 0 ? -errno : 0;
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
		if (bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, 1) < 0)
			ret = -errno;
		close(fd);
	}
	freeaddrinfo(found);
	return ret;
}

int server_start(struct out *out, struct server *server)
{
	struct beest_text why = BEEST_TEXT(1000);
	int ret = server->address ? try_address(server) : 0;

	server->pid = 0;
	server->folder[0] = '\0';
	if (ret < 0) {
		out_error(out, "memcached cannot listen at %s, port %d: %s; give another with "
			  "--%s", server->address, server->port, strerror(-ret),
			  server->port ? "port" : "listen");
		return STATUS_FAILED;
	}
	ret = start_guard(server, &why);
	if (ret < 0) {
		out_error(out, "no private memcached: %s%s", why.used ? why.buffer : strerror(-ret),
			  other_server(server));
		server->pid = 0;
		server->folder[0] = '\0';
		return STATUS_FAILED;
	}
	out_waiting(out, "starting memcached");
	ret = await_server(out, server);
	out_waiting_end(out);
	return ret;
}

void server_ended(struct server *server, int status)
{
	server->pid = 0;
	if (WIFSIGNALED(status))
		remove_folder(server);
}

/* memcached has the guard's end of the socket, too, and listens until it closes that. */
static void await_end(const struct server *server)
{
	struct pollfd polled = { .fd = server->guard, .events = POLLIN };
	char rest[256];

	while (poll(&polled, 1, (int)(PATIENCE / 1000000)) > 0 &&
	       read(server->guard, rest, sizeof(rest)) > 0)
		;
}

void server_end(struct server *server)
{
	int status = 0;

	if (server->folder[0])
		shutdown(server->guard, SHUT_WR);
	if (server->pid) {
		while (waitpid(server->pid, &status, 0) < 0 && errno == EINTR)
			;
		server_ended(server, status);
	}
	if (server->folder[0]) {
		await_end(server);
		close(server->guard);
		close_folder(server);
	}
	server->pid = 0;
}
