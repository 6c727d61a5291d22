/* SPDX-License-Identifier: MIT */
/* memcached.c - see memcached.h */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/macro.h"
#include "tests/support/loopback.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/scratch.h"
#include "tests/support/silence.h"

#define CACHES_MAX 16
#define ARGUMENTS_MAX 24
#define ANSWER_MS 60000

struct cache {
	pid_t pid;				/* 0: not running */
	pid_t owner;				/* the process that started it */
	struct beest_hostport endpoint;
	int hold;				/* on its port */
	const char *arguments[ARGUMENTS_MAX];
	char port[16];
};

static struct cache *caches[CACHES_MAX];
static const char *program;

static void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void give_up(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* ---------------------------------------------------------------- sockets --- */

/* connect(2) cannot be repeated after a signal, so signals are blocked. */
static int connect_undisturbed(int fd, const struct sockaddr *address, socklen_t size)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = connect(fd, address, size);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ret;
}

static int tcp_connect(const struct beest_hostport *endpoint)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = htons(endpoint->port),
		.sin_addr.s_addr = inet_addr(endpoint->host),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect_undisturbed(fd, (struct sockaddr *)&in, sizeof(in)) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int unix_connect(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(un.sun_path, sizeof(un.sun_path), "%.100s", path);
	if (fd >= 0 && connect_undisturbed(fd, (struct sockaddr *)&un, sizeof(un)) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/*
 * Ports below the range of outgoing connections.  In that range, a connection may meet itself, and
 * anybody may take the port of a killed server.
 */
#define PORT_MIN 10000
#define PORT_MAX 32000

static uint16_t random_port(void)
{
	static uint32_t seed;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	seed = seed * 1664525 + (uint32_t)now.tv_nsec + (uint32_t)getpid() * 2654435761u;
	return (uint16_t)(PORT_MIN + (seed >> 8) % (PORT_MAX - PORT_MIN));
}

/*
 * Test programs run in parallel, and none may take the port of a server that another one will
 * soon restart.  An abstract name disappears with its last descriptor.
 */
static int port_hold(uint16_t port)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "hartebeest-test-port-%u", port);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&un, sizeof(un)) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* A socket bound to a free port of 127.0.0.1, stored in @endpoint, and a hold on the port. */
static int bind_held(struct beest_hostport *endpoint, int *hold)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int tries;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (tries = 0; tries < 1000; tries++) {
		in.sin_port = htons(random_port());
		*hold = port_hold(ntohs(in.sin_port));
		if (*hold >= 0 && bind(fd, (struct sockaddr *)&in, sizeof(in)) == 0)
			break;
		if (*hold >= 0)
			close(*hold);
	}
	if (tries == 1000)
		give_up("no free port on 127.0.0.1: %s", strerror(errno));

	memset(endpoint, 0, sizeof(*endpoint));
	endpoint->port = ntohs(in.sin_port);
	strcpy(endpoint->host, "127.0.0.1");
	snprintf(endpoint->text, sizeof(endpoint->text), "127.0.0.1:%d", endpoint->port);
	return fd;
}

int bind_free(struct beest_hostport *endpoint)
{
	int hold, fd = bind_held(endpoint, &hold);

	close(hold);
	return fd;
}

/* The hold lasts as long as this process. */
void closed_hostport(struct beest_hostport *endpoint)
{
	int hold;

	close(bind_held(endpoint, &hold));
}

void mute_hostport(struct beest_hostport *endpoint)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	int fd = bind_free(endpoint), i;

	silence_begin();
	listen(fd, 0);
	in.sin_port = htons(endpoint->port);
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (i = 0; i < 3; i++) {	/* more than fit in the queue of connections */
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		connect(fd, (struct sockaddr *)&in, sizeof(in));
	}
}

/* -------------------------------------------------------------- processes --- */

static void end_all(void)
{
	int i;

	for (i = 0; i < CACHES_MAX; i++)
		if (caches[i] && caches[i]->owner == getpid())
			cache_end(caches[i]);
}

static const char *find_program(void)
{
	static char path[512];
	char *all = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin");
	char *directory, *rest = NULL;
	const char *found = NULL;

	for (directory = strtok_r(all, ":", &rest); directory && !found;
	     directory = strtok_r(NULL, ":", &rest)) {
		snprintf(path, sizeof(path), "%s/memcached", directory);
		if (access(path, X_OK) == 0)
			found = path;
	}
	free(all);
	return found;
}

void cache_need(void)
{
	setenv("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", 0);
	program = find_program();
	timer_need();
	atexit(end_all);
	if (program && loopback_is_up())
		return;

	fprintf(stderr, "%s\n", program ? LOOPBACK_IS_DOWN : "no memcached in PATH");
	exit(77);
}

bool cache_since(int minor)
{
	char command[PATH_MAX + 8], line[64] = "";
	int found = -1;
	FILE *said;

	snprintf(command, sizeof(command), "'%s' -h", program);
	said = popen(command, "r");
	if (!said || TEMP_FAILURE_RETRY(read(fileno(said), line, sizeof(line) - 1)) <= 0 ||
	    sscanf(line, "memcached 1.%d", &found) != 1)
		give_up("%s does not say its version", program);
	pclose(said);
	return found >= minor;
}

/* The death signal works however the test dies: by assertion, signal or time-out. */
static void run(struct cache *cache)
{
	int null = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != cache->owner)
		_exit(1);
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	timer_leave();
	execv(program, (char *const *)cache->arguments);
	_exit(127);
}

int cache_connect(const struct cache *cache)
{
	return cache->endpoint.port ? tcp_connect(&cache->endpoint)
				    : unix_connect(cache->endpoint.host);
}

static int ended(struct cache *cache)
{
	if (waitpid(cache->pid, NULL, WNOHANG) != cache->pid)
		return 0;

	cache->pid = 0;
	return 1;
}

/* 1: it accepts connections, 0: it ended before (perhaps since another took the port). */
static int await(struct cache *cache)
{
	int fd;

	while (!ended(cache)) {
		fd = cache_connect(cache);
		if (fd >= 0) {
			close(fd);
			return 1;
		}
		pause_ms(5);
	}
	return 0;
}

static int launch(struct cache *cache)
{
	cache->pid = fork();
	if (cache->pid < 0)
		give_up("fork: %s", strerror(errno));
	if (cache->pid == 0)
		run(cache);

	return await(cache);
}

static struct cache *cache_new(void)
{
	struct cache *cache = calloc(1, sizeof(*cache));
	int i = 0;

	while (i < CACHES_MAX && caches[i])
		i++;
	if (!program || !cache || i == CACHES_MAX)
		give_up("cache_need() was not called, or too many servers at once");

	caches[i] = cache;
	cache->owner = getpid();
	return cache;
}

/* memcached demands -u from root, and other users must not give it. */
static int arguments_begin(struct cache *cache)
{
	int n = 0;

	cache->arguments[n++] = program;
	if (geteuid() == 0) {
		cache->arguments[n++] = "-u";
		cache->arguments[n++] = "root";
	}
	return n;
}

static int launch_tcp(struct cache *cache, const char *const *arguments)
{
	const char *const fixed[] = {
		"-l", cache->endpoint.host, "-p", cache->port, "-U", "0", "-t", "2",
	};
	int i, n = arguments_begin(cache);

	snprintf(cache->port, sizeof(cache->port), "%d", cache->endpoint.port);
	for (i = 0; i < (int)BEEST_COUNT(fixed); i++)
		cache->arguments[n++] = fixed[i];
	for (i = 0; arguments && arguments[i] && n < ARGUMENTS_MAX - 1; i++)
		cache->arguments[n++] = arguments[i];
	cache->arguments[n] = NULL;
	return launch(cache);
}

struct cache *cache_start(const char *const *arguments)
{
	struct cache *cache = cache_new();
	int tries;

	for (tries = 0; tries < 5; tries++) {
		close(bind_held(&cache->endpoint, &cache->hold));
		if (launch_tcp(cache, arguments))
			return cache;
		close(cache->hold);
	}
	give_up("memcached ends at once");
	return NULL;
}

struct cache *cache_start_at(const char *address, uint16_t port)
{
	struct cache *cache = cache_new();

	cache->hold = -1;
	cache->endpoint.port = port;
	snprintf(cache->endpoint.host, sizeof(cache->endpoint.host), "%s", address);
	snprintf(cache->endpoint.text, sizeof(cache->endpoint.text), "%s:%d", address, port);
	if (!launch_tcp(cache, NULL))
		give_up("memcached does not start at %s", cache->endpoint.text);
	return cache;
}

struct cache *cache_start_unix(void)
{
	struct cache *cache = cache_new();
	int n = arguments_begin(cache);

	snprintf(cache->endpoint.host, sizeof(cache->endpoint.host), "%s/beest-%d.sock", scratch(),
		 (int)getpid());
	snprintf(cache->endpoint.text, sizeof(cache->endpoint.text), "%s",
		 cache->endpoint.host);
	cache->arguments[n++] = "-s";
	cache->arguments[n++] = cache->endpoint.host;
	cache->arguments[n] = NULL;
	if (!launch(cache))
		give_up("memcached ends at once");
	return cache;
}

/* True if the state in that file, after the name in parentheses, is one of @states. */
static bool state_is(const char *stat_file, const char *states)
{
	char line[512] = "", *name_end;
	FILE *file = fopen(stat_file, "r");

	if (!file)
		return true;			/* the thread has ended meanwhile */
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	name_end = strrchr(line, ')');
	return !name_end || (name_end[1] && strchr(states, name_end[2]));
}

static bool threads_are(pid_t pid, const char *states)
{
	char pattern[64];
	glob_t threads;
	bool all = true;
	size_t i;

	snprintf(pattern, sizeof(pattern), "/proc/%d/task/*/stat", (int)pid);
	if (glob(pattern, GLOB_NOSORT, NULL, &threads))
		return true;
	for (i = 0; all && i < threads.gl_pathc; i++)
		all = state_is(threads.gl_pathv[i], states);
	globfree(&threads);
	return all;
}

/*
 * kill(2) only asks: each thread stops or ends by itself, and may still answer until then.
 * waitpid(2) would not help a forked rank, which is not the server's parent.
 */
static void signal_and_await(pid_t pid, int signal, const char *states)
{
	kill(pid, signal);
	while (!threads_are(pid, states))
		pause_ms(1);
}

void cache_stop(struct cache *cache)
{
	silence_begin();
	signal_and_await(cache->pid, SIGSTOP, "TtZX");
}

void cache_resume(struct cache *cache)
{
	kill(cache->pid, SIGCONT);
	silence_end();
}

void cache_kill(struct cache *cache)
{
	if (!cache->pid)
		return;

	if (threads_are(cache->pid, "Tt"))
		silence_end();
	signal_and_await(cache->pid, SIGKILL, "ZX");
	while (waitpid(cache->pid, NULL, 0) < 0 && errno == EINTR)
		;
	cache->pid = 0;
}

void cache_restart(struct cache *cache)
{
	int tries;

	cache_kill(cache);
	for (tries = 0; tries < 100; tries++) {
		if (launch(cache))
			return;
		pause_ms(20);
	}
	give_up("memcached does not start again on port %s", cache->port);
}

void cache_end(struct cache *cache)
{
	int i;

	if (!cache)
		return;

	cache_kill(cache);
	if (cache->endpoint.port)
		close(cache->hold);
	else
		unlink(cache->endpoint.host);
	for (i = 0; i < CACHES_MAX; i++)
		if (caches[i] == cache)
			caches[i] = NULL;
	free(cache);
}

const struct beest_hostport *cache_hostport(const struct cache *cache)
{
	return &cache->endpoint;
}

/* ------------------------------------------------------------- raw talking --- */

static int poll_again(struct pollfd *fds, nfds_t count, int ms)
{
	int ret;

	do
		ret = poll(fds, count, ms);
	while (ret < 0 && errno == EINTR);
	return ret;
}

static int is_complete(const char *answer, size_t size)
{
	static const char *const ends[] = {
		"END\r\n", "STORED\r\n", "DELETED\r\n", "NOT_FOUND\r\n", "ERROR\r\n", "OK\r\n",
	};
	size_t i, length;

	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		length = strlen(ends[i]);
		if (size >= length && !memcmp(answer + size - length, ends[i], length))
			return 1;
	}
	return 0;
}

const char *cache_talk(const struct cache *cache, const char *request,
		       char *answer, size_t size)
{
	int fd = cache_connect(cache);
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	size_t used = 0;
	ssize_t got = 1;

	if (fd < 0 || write(fd, request, strlen(request)) < 0)
		give_up("the server takes no request: %s", strerror(errno));
	while (got > 0 && used < size - 1 && !is_complete(answer, used) &&
	       poll_again(&pollfd, 1, ANSWER_MS) == 1) {
		got = read(fd, answer + used, size - 1 - used);
		used += got > 0 ? (size_t)got : 0;
	}
	answer[used] = '\0';
	close(fd);
	return answer;
}

bool cache_was_late(int ret, const char *sentence)
{
	static const char *const phrases[] = {
		"no answer", "no connection", "silent: it ", "did not arrive in time",
		"answers small requests",
	};
	size_t i = 0;

	if (ret != -EAGAIN)
		return ret == -EHOSTDOWN;
	while (i < BEEST_COUNT(phrases) && !strstr(sentence, phrases[i]))
		i++;

	return i < BEEST_COUNT(phrases);
}

long cache_stat(const struct cache *cache, const char *name)
{
	char line[64], answer[8192];
	const char *found;

	snprintf(line, sizeof(line), "STAT %s ", name);
	found = strstr(cache_talk(cache, "stats\r\n", answer, sizeof(answer)), line);
	return found ? atol(found + strlen(line)) : -1;
}

/* ---------------------------------------------------------- fake servers --- */

struct fake {
	struct beest_hostport endpoint;
	const struct fake_service *service;	/* NULL: answer and good say what it does */
	const char *answer;
	int good;
	int dripped;
	int incremented;
	int fd;
	int ends[2];		/* a pipe; closing it ends the thread */
	pthread_t thread;
};

/* 1: @fd can be read, 0: the end. */
static int awake(struct fake *fake, int fd)
{
	struct pollfd fds[] = {
		{ .fd = fd, .events = POLLIN }, { .fd = fake->ends[0], .events = POLLIN },
	};

	return poll_again(fds, 2, -1) > 0 && !fds[1].revents;
}

static void serve(struct fake *fake, int fd)
{
	char request[4096] = "";
	const char *answer;

	while (awake(fake, fd) && read(fd, request, sizeof(request)) > 0) {
		answer = strncmp(request, "delete ", 7) ? "END\r\n" : "NOT_FOUND\r\n";
		if (fake->good-- <= 0)
			answer = fake->answer;
		if (!*answer || send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0)
			break;
	}
	close(fd);
}

static int say(int fd, const char *bytes, size_t size)
{
	return !size || send(fd, bytes, size, MSG_NOSIGNAL) >= 0;
}

/* Answers a get by one value after the other, until the client has had enough. */
static void drip(struct fake *fake, int fd, char *request)
{
	char *key, *rest = NULL, line[400];

	key = strstr(request, "get ");
	if (!key)
		return;
	key = strtok_r(key + 4, " \r\n", &rest);
	for (; key; key = strtok_r(NULL, " \r\n", &rest)) {
		snprintf(line, sizeof(line), "VALUE %.250s 0 1\r\nx\r\n", key);
		if (!say(fd, line, strlen(line)))
			return;
		__atomic_fetch_add(&fake->dripped, 1, __ATOMIC_RELAXED);
		pause_ms(fake->service->drip_ms);
	}
	say(fd, "END\r\n", 5);
}

static void serve_foreign(struct fake *fake, int fd)
{
	const struct fake_service *service = fake->service;
	char request[32 * 1024];
	ssize_t got;

	say(fd, service->banner, service->banner_size);
	while (!service->closes && awake(fake, fd)) {
		got = read(fd, request, sizeof(request) - 1);
		if (got <= 0)
			break;
		request[got] = '\0';
		if (strstr(request, "incr "))
			__atomic_fetch_add(&fake->incremented, 1, __ATOMIC_RELAXED);
		if (service->drip_ms)
			drip(fake, fd, request);
		if (!say(fd, service->echoes ? request : service->answer,
			 service->echoes ? (size_t)got : service->answer_size))
			break;
	}
	close(fd);
}

static void *fake_run(void *data)
{
	struct fake *fake = data;
	int fd;

	while ((fake->answer || fake->service) && awake(fake, fake->fd)) {
		fd = accept(fake->fd, NULL, NULL);
		if (fd >= 0 && fake->service)
			serve_foreign(fake, fd);
		else if (fd >= 0)
			serve(fake, fd);
	}
	return NULL;
}

static struct fake *fake_begin(const struct fake_service *service, const char *answer, int good)
{
	struct fake *fake = calloc(1, sizeof(*fake));

	if (!fake || pipe(fake->ends) < 0)
		give_up("no pipe: %s", strerror(errno));

	silence_begin();
	fake->service = service;
	fake->answer = answer;
	fake->good = good;
	fake->fd = bind_free(&fake->endpoint);
	if (listen(fake->fd, 16) < 0 || pthread_create(&fake->thread, NULL, fake_run, fake))
		give_up("no fake server: %s", strerror(errno));
	return fake;
}

struct fake *fake_start(const char *answer, int good)
{
	return fake_begin(NULL, answer, good);
}

struct fake *fake_start_service(const struct fake_service *service)
{
	return fake_begin(service, NULL, 0);
}

int fake_dripped(const struct fake *fake)
{
	return __atomic_load_n(&fake->dripped, __ATOMIC_RELAXED);
}

int fake_incremented(const struct fake *fake)
{
	return __atomic_load_n(&fake->incremented, __ATOMIC_RELAXED);
}

const struct beest_hostport *fake_hostport(const struct fake *fake)
{
	return &fake->endpoint;
}

void fake_end(struct fake *fake)
{
	close(fake->ends[1]);
	pthread_join(fake->thread, NULL);
	close(fake->ends[0]);
	close(fake->fd);
	free(fake);
	silence_end();
}
