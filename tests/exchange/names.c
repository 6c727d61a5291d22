/* SPDX-License-Identifier: MIT */
/*
 * names.c - servers that are given by a name, and descriptors that belong to the program
 *
 * Through the public interface, with a name service that the test steers.  Two servers on one
 * port, at two addresses of loopback, are what a name may lead to.
 *
 * promise: hartebeest_open(3)
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hartebeest.h"
#include "tests/support/fake-names.h"
#include "tests/support/logged.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/rank.h"
#include "tests/support/unit.h"

#define FIRST "127.0.0.1"
#define SECOND "127.0.0.2"
#define BOTH FIRST "," SECOND
#define HEARD_OF "a message"

static struct cache *first, *second;
static struct hartebeest_context *hb, *peer;
static char server[64];

static int setup(void **state)
{
	(void)state;
	first = cache_start(NULL);
	snprintf(server, sizeof(server), FAKE_NAMES_HOST ":%d", cache_hostport(first)->port);
	fake_names_say(FIRST);
	logged[0] = '\0';
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_names_hold(false);
	hartebeest_close(hb);
	hartebeest_close(peer);
	hb = peer = NULL;
	cache_end(first);
	cache_end(second);
	first = second = NULL;
	return 0;
}

static void join(struct hartebeest_context **rank, int number)
{
	const struct rank_settings settings = {
		.servers = server, .job = "names", .rank = number, .size = 2,
	};

	assert_int_equal(rank_open(rank, &settings), 0);
	hartebeest_log_set(*rank, HARTEBEEST_LOG_WARN, logged_keep, NULL);
}

static void start_second(void)
{
	second = cache_start_at(SECOND, cache_hostport(first)->port);
}

static int64_t later(void)
{
	return hartebeest_clock() + 60 * BEEST_SECOND;
}

static int push(struct hartebeest_context *rank, const char *key)
{
	return hartebeest_msg_push(rank, key, HEARD_OF, sizeof(HEARD_OF), later());
}

static int wait_for(struct hartebeest_context *rank, const char *key, int64_t deadline)
{
	char message[sizeof(HEARD_OF)];
	size_t size;
	int ret = hartebeest_msg_wait(rank, key, message, sizeof(message), &size, deadline);

	if (ret == 0)
		assert_string_equal(message, HEARD_OF);
	return ret;
}

/* Looks again until the name service has answered, however long its thread takes. */
static int look_for(struct hartebeest_context *rank, const char *key)
{
	int ret;

	do
		ret = UNTIL_ANSWERED(wait_for(rank, key, HARTEBEEST_ONCE));
	while (ret < 0 && strstr(hartebeest_error(), "the name is not resolved yet"));
	return ret;
}

static void asked_is(int count)
{
	while (fake_names_asked() < count)
		pause_ms(1);
}

/* A call in a thread of its own. */
struct caller {
	pthread_t thread;
	int64_t deadline;
	bool done;
	int ret;
	char error[1024];
};

static void *call(void *data)
{
	struct caller *caller = data;

	caller->ret = hartebeest_msg_push(hb, "key", HEARD_OF, sizeof(HEARD_OF), caller->deadline);
	snprintf(caller->error, sizeof(caller->error), "%s", hartebeest_error());
	__atomic_store_n(&caller->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void call_begin(struct caller *caller, int64_t deadline)
{
	*caller = (struct caller){ .deadline = deadline };
	assert_int_equal(pthread_create(&caller->thread, NULL, call, caller), 0);
}

static bool call_is_done(struct caller *caller)
{
	return __atomic_load_n(&caller->done, __ATOMIC_ACQUIRE);
}

/* ------------------------------------------------------------- resolution --- */

/* A rank may start before the name of its server exists, and the name service may fail once. */
static void a_name_that_comes_later(void **state)
{
	static const struct {
		int error, cause;
		const char *sentence;
	} rows[] = {
		{ EAI_NONAME, 0, "the name cannot be resolved: Name or service not known" },
		{ EAI_AGAIN, 0, "the name cannot be resolved: Temporary failure in name" },
		{ EAI_FAIL, 0, "the name cannot be resolved: Non-recoverable failure" },
		{ EAI_SYSTEM, ECONNREFUSED, "the name cannot be resolved: Connection refused" },
	};
	struct caller caller;
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++) {
		fake_names_fail(rows[i].error, rows[i].cause);
		join(&hb, 0);
		assert_int_equal(look_for(hb, "key"), -EAGAIN);
		assert_non_null(strstr(hartebeest_error(), server));
		assert_non_null(strstr(hartebeest_error(), " (argument exchange.servers): "));
		assert_non_null(strstr(hartebeest_error(), rows[i].sentence));
		call_begin(&caller, later());
		asked_is(fake_names_asked() + 2);
		assert_false(call_is_done(&caller));
		fake_names_say(FIRST);
		pthread_join(caller.thread, NULL);
		assert_int_equal(caller.ret, 0);
		teardown(state);
		setup(state);
	}
}

static void no_descriptor_to_resolve_it(void **state)
{
	(void)state;
	fake_names_fail(EAI_NONAME, EMFILE);
	join(&hb, 0);
	assert_int_equal(push(hb, "key"), -EMFILE);
	assert_non_null(strstr(hartebeest_error(), "this process has too many open files"));
}

/* No call waits for a name longer than for anything else, and none holds up another. */
static void a_name_service_that_is_silent(void **state)
{
	struct caller caller;
	int asked = fake_names_asked();

	(void)state;
	fake_names_hold(true);
	join(&hb, 0);
	call_begin(&caller, later());
	asked_is(asked + 1);
	assert_int_equal(wait_for(hb, "key", HARTEBEEST_ONCE), -EAGAIN);
	assert_non_null(strstr(hartebeest_error(), "the name is not resolved yet"));
	assert_int_equal(wait_for(hb, "key", hartebeest_clock() + BEEST_MS), -EADDRNOTAVAIL);
	assert_false(call_is_done(&caller));
	hartebeest_cancel(hb);
	pthread_join(caller.thread, NULL);
	assert_int_equal(caller.ret, -ECANCELED);
	hartebeest_cancel_clear(hb);
	assert_int_equal(fake_names_asked(), asked + 1);
	fake_names_hold(false);
	assert_int_equal(push(hb, "key"), 0);
	assert_int_equal(fake_names_asked(), asked + 1);
}

/* A context may be closed while the name service is silent. */
static void closing_while_it_is_silent(void **state)
{
	int asked = fake_names_asked();

	(void)state;
	fake_names_hold(true);
	join(&hb, 0);
	assert_int_equal(wait_for(hb, "key", HARTEBEEST_ONCE), -EAGAIN);
	hartebeest_close(hb);
	hb = NULL;
	fake_names_hold(false);
	while (fake_names_answered() < asked + 1)
		pause_ms(1);
}

/* ---------------------------------------------------- a server that moves --- */

static void the_server_moves(void **state)
{
	(void)state;
	join(&hb, 0);
	assert_int_equal(push(hb, "key"), 0);
	start_second();
	cache_kill(first);
	fake_names_say(SECOND);
	assert_int_equal(push(hb, "other"), 0);
	join(&peer, 1);
	assert_int_equal(wait_for(peer, "other", later()), 0);
	assert_int_equal(push(hb, "third"), 0);		/* sends what the first server had, too */
	assert_int_equal(wait_for(peer, "key", later()), 0);
	assert_non_null(strstr(logged, "has lost what it had"));
}

static void one_of_two_addresses_dies(void **state)
{
	int asked = fake_names_asked();

	(void)state;
	fake_names_say(BOTH);
	join(&hb, 0);
	assert_int_equal(push(hb, "key"), 0);
	assert_int_equal(fake_names_asked(), asked + 1);
	start_second();
	cache_kill(first);
	assert_int_equal(push(hb, "other"), 0);
	assert_non_null(strstr(logged, SECOND));
}

/* The first address was never that of a server. */
static void every_address_is_tried(void **state)
{
	(void)state;
	fake_names_say("127.0.0.9,::1," FIRST);
	join(&hb, 0);
	assert_int_equal(push(hb, "key"), 0);
}

/* ------------------------------------------------ several servers as one --- */

/* Each rank resolved the name to another address first. */
static void two_servers_under_one_name(void **state)
{
	int ret;

	(void)state;
	start_second();
	fake_names_say(BOTH);
	join(&hb, 0);
	assert_int_equal(push(hb, "key"), 0);
	fake_names_say(SECOND "," FIRST);
	join(&peer, 1);
	assert_int_equal(push(peer, "other"), 0);
	assert_int_equal(wait_for(peer, "key", later()), -EPROTO);
	assert_non_null(strstr(hartebeest_error(), server));
	assert_non_null(strstr(hartebeest_error(), "(" SECOND "): another one answers at " FIRST
			       ": several servers answer under this name"));
	assert_non_null(strstr(hartebeest_error(), "; wanted: message 'key' (key hb1/names/"));
	do	/* each asks at the end, for 100 ms, which may be too short on a busy machine */
		ret = wait_for(hb, "other", hartebeest_clock() + 20 * BEEST_MS);
	while (ret == -ETIMEDOUT);
	assert_int_equal(ret, -EPROTO);
	assert_non_null(strstr(hartebeest_error(), "another one answers at " SECOND));
}

/* One address, but the other does not have this job's records: nothing is wrong. */
static void two_servers_of_which_one_is_used(void **state)
{
	(void)state;
	start_second();
	fake_names_say(BOTH);
	join(&hb, 0);
	assert_int_equal(push(hb, "key"), 0);
	assert_int_equal(UNTIL_ANSWERED(wait_for(hb, "never", hartebeest_clock() + BEEST_SECOND)),
			 -ETIMEDOUT);
	assert_non_null(strstr(hartebeest_error(), "(" FIRST ") answers"));
}

/* -------------------------------------------------------- old connections --- */

/* As when a server or a proxy closes what was not used for a while. */
static void an_old_connection_that_was_closed(void **state)
{
	(void)state;
	join(&hb, 0);
	assert_int_equal(push(hb, "key"), 0);
	cache_kill(first);
	cache_restart(first);
	assert_int_equal(UNTIL_ANSWERED(wait_for(hb, "never", HARTEBEEST_ONCE)), -EAGAIN);
	assert_null(strstr(hartebeest_error(), "closed"));
	cache_kill(first);
	cache_restart(first);
	assert_int_equal(UNTIL_ANSWERED(hartebeest_msg_push(hb, "key", HEARD_OF, sizeof(HEARD_OF),
							    HARTEBEEST_ONCE)), 0);
	cache_kill(first);
	cache_restart(first);
	assert_int_equal(UNTIL_ANSWERED(wait_for(hb, "never", HARTEBEEST_ONCE)), -EAGAIN);
	assert_null(strstr(hartebeest_error(), "failed"));
}

/* --------------------------------------------- the program's descriptors --- */

#define STREAMS 3

static void streams_close(void)
{
	int fd;

	for (fd = 0; fd < STREAMS; fd++)
		close(fd);
}

static bool is_null(int fd)
{
	struct stat status, null;

	return fstat(fd, &status) == 0 && stat("/dev/null", &null) == 0 &&
	       status.st_rdev == null.st_rdev;
}

/* All three are there for programs that this one executes, too, and fail as closed ones do. */
static bool streams_are_filled(void)
{
	char byte = 'x';
	int fd;

	for (fd = 0; fd < STREAMS; fd++)
		if (!is_null(fd) || fcntl(fd, F_GETFD) & FD_CLOEXEC)
			return false;
	return read(0, &byte, 1) < 0 && errno == EBADF && write(1, &byte, 1) < 0 &&
	       errno == EBADF && write(2, &byte, 1) < 0 && errno == EBADF;
}

/* Returns the line of the first check that fails; 0: none. */
#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)

static const struct rank_settings streamless = {
	.servers = server, .job = "names", .size = 2,
	.more = { "log.level=debug", "exchange.timeout=60s" },
};

static int without_streams(void)
{
	streams_close();
	CHECK(rank_open(&hb, &streamless) == 0);
	CHECK(streams_are_filled());
	CHECK(push(hb, "key") == 0);
	CHECK(streams_are_filled());
	CHECK(wait_for(hb, "key", later()) == 0);
	CHECK(wait_for(hb, "never", hartebeest_clock() + 30 * BEEST_MS) == -ETIMEDOUT);
	hartebeest_close(hb);
	CHECK(streams_are_filled());
	return 0;
}

/* Those that are open stay what they are. */
static int without_one_stream(void)
{
	int ends[2];

	streams_close();
	CHECK(pipe(ends) == 0 && ends[0] == 0 && ends[1] == 1);
	CHECK(rank_open(&hb, &streamless) == 0);
	CHECK(push(hb, "key") == 0);
	CHECK(is_null(2) && !is_null(0) && !is_null(1));
	CHECK(write(1, "x", 1) == 1 && read(0, (char[2]){ 0 }, 2) == 1);
	hartebeest_close(hb);
	return 0;
}

static int without_descriptors(void)
{
	const struct rlimit none = { 0, 0 };

	streams_close();
	if (setrlimit(RLIMIT_NOFILE, &none) < 0)
		return 0;		/* valgrind refuses it: it has descriptors of its own */
	CHECK(rank_open(&hb, &streamless) == -EMFILE);
	CHECK(strstr(hartebeest_error(), "descriptor 0 is closed, and /dev/null cannot take its "
		     "place: Too many open files"));
	return 0;
}

static int wait_status(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void a_program_without_streams(void **state)
{
	static int (*const programs[])(void) = {
		without_streams, without_one_stream, without_descriptors,
	};
	size_t i;
	pid_t pid;

	(void)state;
	for (i = 0; i < BEEST_COUNT(programs); i++) {
		pid = fork();
		if (pid == 0)
			_exit(programs[i]() % 256);
		assert_int_equal(wait_status(pid), 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_name_that_comes_later),
		TEST(no_descriptor_to_resolve_it),
		TEST(a_name_service_that_is_silent),
		TEST(closing_while_it_is_silent),
		TEST(the_server_moves),
		TEST(one_of_two_addresses_dies),
		TEST(every_address_is_tried),
		TEST(two_servers_under_one_name),
		TEST(two_servers_of_which_one_is_used),
		TEST(an_old_connection_that_was_closed),
		TEST(a_program_without_streams),
	};

	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
