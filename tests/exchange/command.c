/* SPDX-License-Identifier: MIT */
/*
 * command.c - hartebeest(1) as it was built, with real servers: run, msg, keys and doctor
 *
 * The tests talk to it through pipes and a pseudo-terminal, without a device.
 *
 * promise: hartebeest(1)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <json-c/json.h>

#include "hartebeest.h"
#include "lib/base/process.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/relay.h"
#include "tests/support/slow.h"
#include "tests/support/scratch.h"
#include "tests/support/talk.h"

static const char *tool;
static char folder[SCRATCH_SIZE], path[128];
static struct talk talk;
static struct cache *cache;

#define SYSTEM_PATH "/usr/local/bin:/usr/bin:/bin"

#define SKIPPED 77

#define RUN(...) TALK(&talk, tool, __VA_ARGS__)
#define SAYS(text) talk_says(&talk, text)
#define BEGIN(...) begin((const char *const[]){ tool, __VA_ARGS__, NULL })
#define COMPLAINS(text) talk_complains(&talk, text)

/* A single look of msg wait, repeated until the server has answered. */
#define LOOK(...) look((const char *const[]){ tool, "msg", "wait", __VA_ARGS__, NULL })

static int setup(void **state)
{
	(void)state;
	memset(&talk, 0, sizeof(talk));
	unsetenv("HARTEBEEST_CONF_PATH");
	unsetenv("HARTEBEEST_EXC_IP_PORT");
	unsetenv("HARTEBEEST_NID");
	unsetenv("HARTEBEEST_NPARTICIPANTS");
	setenv("HARTEBEEST_JOB", "command", 1);
	setenv("TMPDIR", folder, 1);
	return 0;
}

static int setup_server(void **state)
{
	setup(state);
	if (!cache)
		cache = cache_start(NULL);
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	return 0;
}

static void begin(const char *const *words)
{
	int i = -1;

	do {
		i++;
		talk.words[i] = words[i];
	} while (words[i]);
	talk_begin(&talk);
}

static int look(const char *const *words)
{
	int status, tries = 0;

	do
		status = talk_words(&talk, words);
	while ((status == 1 || cache_was_late(-EAGAIN, talk.err)) && tries++ < 100);
	return status;
}

/* Types Ctrl-C at the terminal of a command. */
static void press_interrupt(void)
{
	talk_type(&talk, "\003");
	talk_end(&talk);
}

/* The command died of SIGINT, without an error message. */
static void is_interrupted(void)
{
	assert_int_equal(talk.status, 128 + SIGINT);
	assert_null(strstr(talk.out, "hartebeest "));
}

static void interrupt(void)
{
	press_interrupt();
	is_interrupted();
}

/* Standard output is a single JSON object with @key; NULL: with any. */
static void is_object_with(const char *key)
{
	struct json_tokener *parser = json_tokener_new();
	struct json_object *object = json_tokener_parse_ex(parser, talk.out, (int)talk.used[0]);

	if (!object || (key && !json_object_object_get_ex(object, key, NULL)))
		fail_msg("no object with %s:\n%s", key ? key : "anything", talk.out);
	assert_int_equal(strspn(talk.out + parser->char_offset, "\n"),
			 talk.used[0] - (size_t)parser->char_offset);
	json_object_put(object);
	json_tokener_free(parser);
}

/* The path of a file in the test's own folder. */
static const char *file(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static bool is_there(const char *name)
{
	glob_t found;
	bool there;

	there = glob(file(name), 0, NULL, &found) == 0;
	if (there)
		globfree(&found);
	return there;
}

/* A private server leaves nothing behind. */
static void nothing_is_left(void)
{
	assert_false(is_there("hartebeest-*"));
}

/* A run that was killed could not clean up; its children do, a little later. */
static void nothing_is_left_soon(void)
{
	int tries;

	for (tries = 0; tries < 12000 && is_there("hartebeest-*"); tries++)
		pause_ms(10);
	nothing_is_left();
}

/* Waits until the file @name holds a process id, and returns it. */
static pid_t pid_in(const char *name)
{
	int pid = 0, tries;
	FILE *from;

	for (tries = 0; tries < 12000 && pid <= 0; tries++) {
		from = fopen(file(name), "r");
		if (from && fscanf(from, "%d.", &pid) != 1)
			pid = 0;
		if (from)
			fclose(from);
		if (pid <= 0)
			pause_ms(10);
	}
	assert_true(pid > 0);
	return pid;
}

static void ends(pid_t pid)
{
	int tries;

	for (tries = 0; tries < 12000 && !beest_process_has_ended(pid); tries++)
		pause_ms(10);
	assert_true(beest_process_has_ended(pid));
}

/* ----------------------------------------------------------------- run --- */

static void ranks_and_their_environment(void **state)
{
	(void)state;
	unsetenv("HARTEBEEST_JOB");
	assert_int_equal(RUN("run", "-n", "3", "--", "sh", "-c",
			     "echo $HARTEBEEST_NID/$HARTEBEEST_NPARTICIPANTS/$LOCAL_RANK/"
			     "$HARTEBEEST_JOB/$HARTEBEEST_EXC_IP_PORT; echo wrong >&2"), 0);
	SAYS("0: 0/3/0/run-");
	SAYS("1: 1/3/1/run-");
	SAYS("2: 2/3/2/run-");
	SAYS("/memcached\n");
	COMPLAINS("0: wrong\n");
	COMPLAINS("2: wrong\n");
	nothing_is_left();
}

static void a_server_and_a_job_that_are_named(void **state)
{
	char expected[400];

	(void)state;
	assert_int_equal(RUN("run", "-pn1", "sh", "-c", "echo $HARTEBEEST_JOB on "
			     "$HARTEBEEST_EXC_IP_PORT"), 0);
	snprintf(expected, sizeof(expected), "command on %s\n", cache_hostport(cache)->text);
	assert_string_equal(talk.out, expected);
}

/* Settings about ranks in a file belong to another job, so run overrides them. */
static void run_overrides_a_settings_file(void **state)
{
	FILE *settings = fopen(file("settings"), "w");

	(void)state;
	assert_non_null(settings);
	fputs("{\"job\": {\"participants\": \"3,5,7\", \"nparticipants\": 3, \"rank\": 5}}",
	      settings);
	fclose(settings);
	setenv("HARTEBEEST_CONF_PATH", file("settings"), 1);
	assert_int_equal(RUN("run", "-n", "2", "--", tool, "msg", "barrier"), 0);
	assert_int_equal(RUN("run", "-n", "1", "--", tool, "msg", "barrier"), 0);
	assert_string_equal(talk.err, "");
	unlink(file("settings"));
}

/* Ranks inherit descriptors, limits and signals of run. */
static void what_ranks_inherit(void **state)
{
	char *second;

	(void)state;
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "ulimit -Sn 300; exec $0 run -pn 1 -- sh -c "
			      "'ulimit -Sn'", tool), 0);
	assert_string_equal(talk.out, "300\n");
	assert_int_equal(RUN("run", "-pn", "2", "--", "sh", "-c", "echo $(ls /proc/self/fd)"), 0);
	second = strchr(talk.out, '\n') + 1;
	assert_memory_equal(talk.out, second, strlen(second));
	assert_int_equal(second - talk.out, strlen(second));
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "trap '' HUP; exec $0 run -n 1 -- sh -c "
			      "'kill -HUP $PPID; kill -HUP $$; echo on'", tool), 0);
	assert_string_equal(talk.out, "0: on\n");
	assert_int_equal(RUN("run", "-n", "1", "--", "sh", "-c", "kill -PIPE $$; echo on"),
			 128 + SIGPIPE);
}

/* Descriptors suffice for a few ranks only.  The output omits ranks that never began. */
static void ranks_that_cannot_begin(void **state)
{
	(void)state;
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "ulimit -n 20; exec $0 run -n 40 --json -- "
			      "sleep 1000", tool), 1);
	COMPLAINS(" cannot be started: Too many open files\n");
	SAYS("cannot be started: Too many open files\"");
	SAYS("\"rank\": 0,");
	SAYS("\"signal\": 15,");
	assert_null(strstr(talk.out, "\"rank\": 39"));
	assert_null(strstr(talk.out, "\"status\": 0"));
}

static void ranks_that_meet(void **state)
{
	(void)state;
	assert_int_equal(RUN("run", "-n", "4", "--", tool, "msg", "barrier", "here"), 0);
	assert_int_equal(RUN("run", "-n", "2", "--", "sh", "-c", "if [ $RANK = 0 ]; then echo "
			     "\"good morning\" | $0 msg push k; else $0 msg wait k; fi", tool), 0);
	assert_string_equal(talk.out, "1: good morning\n");
	nothing_is_left();
}

/* The sentence names no errno: that of the last system call is not the reason. */
static void nobody_reads_to_the_end(void **state)
{
	(void)state;
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "exec \"$0\" run -n 1 -- sh -c 'echo lost' "
			      ">/dev/full", tool), 1);
	assert_string_equal(talk.err,
			    "hartebeest run: standard output: not all could be written\n");
	nothing_is_left();
}

static void the_worst_status(void **state)
{
	(void)state;
	assert_int_equal(RUN("run", "-n", "3", "-g", "0", "--", "sh", "-c",
			     "[ $RANK = 1 ] || exec sleep 1000; exit 7"), 7);
	assert_string_equal(talk.err, "hartebeest run: rank 1 ended with exit status 7; ending the "
			    "others\n");
	assert_int_equal(RUN("run", "-n", "3", "-g", "1ms", "--", "sh", "-c",
			     "[ $RANK = 1 ] || exec sleep 1000; exit 7"), 7);
	assert_string_equal(talk.err, "hartebeest run: rank 1 ended with exit status 7; the others "
			    "may go on for 1ms\nhartebeest run: ending 2 ranks that still run\n");
	assert_int_equal(RUN("run", "-n", "1", "--", "sh", "-c", "exit 255"), 255);
	COMPLAINS("rank 0 ended with exit status 255\n");
	assert_int_equal(RUN("run", "-n", "1", "--", "sh", "-c", "exit 2"), 2);
	assert_string_equal(talk.err, "hartebeest run: rank 0 ended with exit status 2\n");
	assert_int_equal(RUN("run", "-n", "1", "--", "sh", "-c", "kill -SEGV $$"), 139);
	COMPLAINS("rank 0 died of signal 11 (Segmentation fault)\n");
	assert_int_equal(RUN("run", "-n", "2", "/nonexistent/program"), 127);
	COMPLAINS("hartebeest run: /nonexistent/program: No such file or directory");
	assert_int_equal(RUN("run", "-n", "1", "/"), 126);
	nothing_is_left();
}

/* Another rank gives its own reason long after the first failure was seen. */
static void each_has_its_reason(void **state)
{
	(void)state;
	assert_int_equal(RUN("run", "-n", "2", "-g", "1h", "--", "sh", "-c",
			     "if [ $RANK = 1 ]; then echo $$ >$0; exit 7; fi; "
			     "until [ -s $0 ]; do sleep 0.05; done; "
			     "while kill -0 $(cat $0) 2>/dev/null; do sleep 0.05; done; sleep 1; "
			     "echo the reason >&2; exit 9", file("failed")), 9);
	COMPLAINS("rank 1 ended with exit status 7; the others may go on for 1h\n0: the reason\n"
		  "hartebeest run: rank 0 ended with exit status 9\n");
	unlink(file("failed"));
}

static void a_rank_that_ignores_sigterm(void **state)
{
	(void)state;
	assert_int_equal(RUN("run", "-n", "2", "-g", "1ms", "--", "sh", "-c",
			     "if [ $RANK = 1 ]; then trap '' TERM; echo deaf >$0; fi; "
			     "if [ $RANK = 0 ]; then until [ -s $0 ]; do sleep 0.05; done; exit 5; "
			     "fi; while :; do sleep 1; done", file("deaf")), 5);
	unlink(file("deaf"));
}

/* The rank turns SIGTERM into a status of its own, which does not count. */
static void a_rank_with_a_status_for_sigterm(void **state)
{
	(void)state;
	assert_int_equal(RUN("run", "-n", "2", "-g", "0", "--", "sh", "-c",
			     "if [ $RANK = 1 ]; then trap 'exit 9' TERM; echo ready >$0; fi; "
			     "if [ $RANK = 0 ]; then until [ -s $0 ]; do sleep 0.05; done; exit 5; "
			     "fi; while :; do sleep 0.1; done", file("ready")), 5);
	unlink(file("ready"));
}

static void lines_of_all_lengths(void **state)
{
	char *line = malloc(40001);

	(void)state;
	assert_int_equal(RUN("run", "-n", "1", "--", "printf", "a\\n\\nb"), 0);
	assert_string_equal(talk.out, "0: a\n0: \n0: b\n");
	assert_int_equal(RUN("run", "-n", "11", "-p", "--", "true"), 0);
	assert_string_equal(talk.out, "");
	memset(line, 'x', 40000);
	line[40000] = '\0';
	assert_int_equal(RUN("run", "-pn", "1", "--", "echo", line), 0);
	assert_int_equal(talk.used[0], 40003);		/* broken twice */
	free(line);
	talk.input = "to rank 0";
	assert_int_equal(RUN("run", "-n", "2", "--", "cat"), 0);
	assert_string_equal(talk.out, "0: to rank 0\n");
}

/* A grandchild holds the streams open. */
static void a_grandchild_that_stays(void **state)
{
	(void)state;
	assert_int_equal(RUN("run", "-n", "1", "--", "sh", "-c",
			     "sleep 1000 & echo $!. >$0; echo done", file("stays")), 0);
	assert_string_equal(talk.out, "0: done\n");
	assert_int_equal(kill(pid_in("stays"), SIGKILL), 0);
	unlink(file("stays"));
}

static void statuses_as_an_object(void **state)
{
	(void)state;
	assert_int_equal(RUN("run", "--json", "-n", "2", "--", "sh", "-c", "echo hi"), 0);
	COMPLAINS("0: hi\n");
	SAYS("\"ranks\": [");
	SAYS("\"rank\": 1");
	assert_null(strstr(talk.out, "hi"));
}

static void begin_sleepers(void)
{
	talk.words[0] = tool, talk.words[1] = "run", talk.words[2] = "-n", talk.words[3] = "2";
	talk.words[4] = "sh", talk.words[5] = "-c";
	talk.words[6] = "echo $$. >$0-$RANK; echo ready; exec sleep 1000";
	talk.words[7] = file("pid");
	talk.words[8] = NULL;
	talk_begin(&talk);
	talk_until(&talk, "0: ready");
	talk_until(&talk, "1: ready");
}

/* As in a container whose process 1 reaps nobody, the orphans become zombies. */
static void no_orphan_of_a_killed_run(void **state)
{
	pid_t first, second;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	begin_sleepers();
	assert_true(is_there("hartebeest-*/memcached"));
	first = pid_in("pid-0"), second = pid_in("pid-1");
	kill(talk.pid, SIGKILL);
	talk_end(&talk);
	assert_int_equal(talk.status, 128 + SIGKILL);
	ends(first);
	ends(second);
	nothing_is_left_soon();
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

/* The memcached never listens. */
static void asked_to_end_before_it_began(void **state)
{
	FILE *slow;
	pid_t server;

	(void)state;
	surroundings_need_terminal();
	slow = fopen(file("memcached"), "w");
	assert_non_null(slow);
	fprintf(slow, "#!/bin/sh\necho $$. >%s/slow\nexec /bin/sleep 1000\n", folder);
	fclose(slow);
	chmod(file("memcached"), 0700);
	setenv("PATH", folder, 1);
	talk.words[0] = tool, talk.words[1] = "run", talk.words[2] = "-n", talk.words[3] = "2";
	talk.words[4] = "/bin/true", talk.words[5] = NULL;
	talk.terminal = true;
	talk_begin(&talk);
	setenv("PATH", SYSTEM_PATH, 1);
	server = pid_in("slow");
	talk_until(&talk, "starting memcached 1 s ");
	kill(talk.pid, SIGTERM);
	talk_end(&talk);
	assert_int_equal(talk.status, 128 + SIGTERM);
	ends(server);
	nothing_is_left_soon();
	unlink(file("memcached")), unlink(file("slow"));
}

static void asked_to_end(void **state)
{
	pid_t first;

	(void)state;
	begin_sleepers();
	first = pid_in("pid-0");
	kill(talk.pid, SIGTERM);
	talk_end(&talk);
	assert_int_equal(talk.status, 128 + SIGTERM);
	ends(first);
	nothing_is_left();
}

/* Ranks that write without a pause must not keep run from ending. */
static void asked_to_end_amid_lines(void **state)
{
	(void)state;
	unlink(file("pid-0"));
	begin((const char *const[]){ "/bin/sh", "-c", "exec $0 run -n 4 -- sh -c '"
	      "[ $RANK = 3 ] && echo $$. >$0; exec yes' $1 >/dev/null", tool, path, NULL });
	pid_in("pid-0");
	pause_ms(200);
	kill(talk.pid, SIGTERM);
	talk_end(&talk);
	assert_int_equal(talk.status, 128 + SIGTERM);
	nothing_is_left();
}

/* The ranks end because of their server, without a failure of their own. */
static void ranks_without_their_server(void **state)
{
	FILE *server = fopen(file("memcached"), "w");

	(void)state;
	assert_non_null(server);
	fprintf(server, "#!/bin/sh\necho $$ >%s/server\nPATH=" SYSTEM_PATH
		" exec memcached \"$@\"\n", folder);
	fclose(server);
	chmod(file("memcached"), 0700);
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "PATH=$1:$PATH exec $0 run -n 2 -g 1ms -- "
			      "sh -c '[ $RANK = 1 ] || kill -KILL $(cat $0/server); "
			      "exec sleep 1000' $1", tool, folder), 1);
	COMPLAINS("hartebeest run: the private memcached ended\n");
	unlink(file("memcached")), unlink(file("server"));
	nothing_is_left();
}

#define LARGE 200000

/*
 * As a rank: enlarges the pipe, fills it while the reader is stopped, and exits before the reader
 * goes on.
 */
static int write_at_once(void)
{
	static char lines[LARGE];
	pid_t own = getpid(), reader = getppid();
	bool good;

	memset(lines, '\n', sizeof(lines));
	if (fcntl(STDOUT_FILENO, F_SETPIPE_SZ, 1 << 20) < LARGE)
		return SKIPPED;
	kill(reader, SIGSTOP);
	good = write(STDOUT_FILENO, lines, sizeof(lines)) == LARGE;
	if (fork() == 0) {
		close(STDOUT_FILENO), close(STDERR_FILENO);
		while (getppid() == own)
			pause_ms(1);
		kill(reader, SIGCONT);
		_exit(0);
	}
	return !good;
}

static void lines_of_a_large_pipe(void **state)
{
	char own[4096] = "";

	(void)state;
	assert_true(readlink("/proc/self/exe", own, sizeof(own) - 1) > 0);
	if (RUN("run", "-pn", "1", own, "write at once") == SKIPPED)
		skip();
	assert_int_equal(talk.status, 0);
	assert_int_equal(talk.used[0], LARGE);
}

static void interrupted_at_the_terminal(void **state)
{
	pid_t first;

	(void)state;
	talk.terminal = true;
	setenv("NO_COLOR", "1", 1);
	begin_sleepers();
	first = pid_in("pid-0");
	press_interrupt();
	assert_int_equal(talk.status, 128 + SIGINT);
	ends(first);
	nothing_is_left_soon();
}

/* The command must die of the signal: after a mere status the shell would go on. */
static void a_script_that_is_interrupted(void **state)
{
	(void)state;
	talk.terminal = true;
	begin((const char *const[]){ "/bin/bash", "-c", "$0 run -n 2 -- sh -c 'echo ready; exec "
	      "sleep 1000'; echo went on", tool, NULL });
	talk_until(&talk, "ready");
	press_interrupt();
	assert_null(strstr(talk.out, "went on"));
	assert_int_equal(talk.status, 128 + SIGINT);
	nothing_is_left_soon();
}

/* In a name space in which /tmp and /dev/shm cannot be written. */
static void no_folder_for_the_server(void **state)
{
#define READ_ONLY "for i in /tmp /dev/shm; do mount --rbind $i $i && " \
	"mount -o remount,bind,ro $i || exit 1; done; "

	(void)state;
	unsetenv("XDG_RUNTIME_DIR");
	setenv("TMPDIR", "/nonexistent", 1);
	if (TALK(&talk, "/usr/bin/unshare", "-rm", "sh", "-c", READ_ONLY) != 0)
		skip();
	assert_int_equal(TALK(&talk, "/usr/bin/unshare", "-rm", "sh", "-c", READ_ONLY
			      "exec $0 run -n 2 true", tool), 1);
	COMPLAINS("hartebeest run: no private memcached: /nonexistent: No such file or directory; "
		  "/tmp: Read-only file system; /dev/shm: Read-only file system; name in TMPDIR a "
		  "folder in which this user can make files, or name a server in "
		  "HARTEBEEST_EXC_IP_PORT\n");
}

static void wrong_ways_to_run(void **state)
{
	(void)state;
	assert_int_equal(RUN("run", "true"), 2);
	COMPLAINS("hartebeest run: the number of ranks is missing: -n N\n"
		  "Try 'hartebeest run --help'.\n");
	assert_int_equal(RUN("run", "-n", "2"), 2);
	COMPLAINS("an argument is missing: PROGRAM [ARGUMENT...]");
	assert_int_equal(RUN("run", "-n", "0", "true"), 2);
	COMPLAINS("-n: '0'");
	assert_int_equal(RUN("run", "-n", "two", "true"), 2);
	COMPLAINS("-n: 'two'");
	assert_int_equal(RUN("run", "-n", "2", "--nubmer", "3", "true"), 2);
	COMPLAINS("the nearest is --number");
	setenv("PATH", "/nonexistent", 1);
	assert_int_equal(RUN("run", "-n", "2", "/bin/true"), 1);
	COMPLAINS("there is no memcached in PATH: install the package memcached, or name a server "
		  "in HARTEBEEST_EXC_IP_PORT");
	setenv("PATH", SYSTEM_PATH, 1);
	setenv("HARTEBEEST_TIMEOUT", "soon", 1);
	assert_int_equal(RUN("run", "-n", "2", "/bin/true"), 1);
	COMPLAINS("HARTEBEEST_TIMEOUT");
	unsetenv("HARTEBEEST_TIMEOUT");
}

/* ----------------------------------------------------------------- msg --- */

static void messages(void **state)
{
	(void)state;
	assert_int_equal(RUN("msg", "push", "a", "one two"), 0);
	assert_string_equal(talk.out, "");
	assert_int_equal(RUN("msg", "wait", "a"), 0);
	assert_string_equal(talk.out, "one two");
	assert_int_equal(RUN("msg", "push", "a", ""), 0);
	assert_int_equal(RUN("msg", "wait", "a"), 0);
	assert_string_equal(talk.out, "");
	talk.input = "lines\nof \001 bytes\n";
	assert_int_equal(RUN("msg", "push", "a"), 0);
	assert_int_equal(RUN("msg", "wait", "a"), 0);
	assert_string_equal(talk.out, "lines\nof \001 bytes\n");
	assert_int_equal(RUN("msg", "push", "a", "-"), 0);
	assert_int_equal(RUN("msg", "wait", "a", "--json"), 0);
	SAYS("\"hex\": \"6c696e65730a6f662001206279746573");
	assert_int_equal(RUN("msg", "delete", "a"), 0);
	assert_int_equal(RUN("msg", "delete", "a"), 1);
	COMPLAINS("hartebeest msg delete: ");
	assert_int_equal(LOOK("a", "-t", "0"), 3);
	COMPLAINS("hartebeest msg wait: ");
	assert_int_equal(LOOK("a", "-t", "20ms"), 3);
	COMPLAINS("'a'");
}

/* Lives two seconds longer at most; servers count whole ones. */
static void messages_with_a_life(void **state)
{
	int ret, tries = 0;

	(void)state;
	assert_int_equal(RUN("msg", "push", "brief", "b", "--ttl", "1s"), 0);
	assert_int_equal(RUN("msg", "push", "one", "o", "--once", "--ttl=1h"), 0);
	assert_int_equal(RUN("msg", "push", "each", "e", "--ttl", "1h"), 0);
	assert_int_equal(RUN("msg", "wait", "one"), 0);
	assert_string_equal(talk.out, "o");
	assert_int_equal(LOOK("one", "-t", "0"), 3);
	while ((ret = LOOK("brief", "-t", "0")) == 0 && tries++ < 1000)
		pause_ms(10);
	assert_int_equal(ret, 3);
	assert_int_equal(LOOK("each", "-t", "0"), 0);
	assert_int_equal(LOOK("each", "-t", "0"), 0);
	assert_string_equal(talk.out, "e");
}

static void a_message_too_large(void **state)
{
	char *large = malloc(1024 * 1024 + 1);

	(void)state;
	memset(large, 'x', 1024 * 1024);
	large[1024 * 1024] = '\0';
	talk.input = large;
	assert_int_equal(RUN("msg", "push", "a"), 1);
	COMPLAINS("hartebeest msg push: standard input has more than 1046528 bytes, which is the "
		  "most that a message may have\n");
	free(large);
}

static void servers_that_are_not_there(void **state)
{
	struct beest_hostport closed;

	(void)state;
	unsetenv("HARTEBEEST_EXC_IP_PORT");
	assert_int_equal(RUN("msg", "wait", "a"), 1);
	COMPLAINS("HARTEBEEST_EXC_IP_PORT");
	closed_hostport(&closed);
	setenv("HARTEBEEST_EXC_IP_PORT", closed.text, 1);
	assert_int_equal(RUN("msg", "push", "a", "b", "-t", "50ms"), 1);
	COMPLAINS(closed.text);
}

static void wrong_ways_to_talk(void **state)
{
	(void)state;
	assert_int_equal(RUN("msg"), 2);
	COMPLAINS("hartebeest msg: a command is missing");
	assert_int_equal(RUN("msg", "pusch", "a"), 2);
	COMPLAINS("hartebeest msg: unknown command 'pusch', the nearest is push");
	assert_int_equal(RUN("msg", "push"), 2);
	COMPLAINS("hartebeest msg push: an argument is missing: KEY [VALUE|-]");
	assert_int_equal(RUN("msg", "wait", "a", "b"), 2);
	COMPLAINS("'b' is one argument too many: KEY");
	assert_int_equal(RUN("msg", "wait", "a", "-t", "5"), 2);
	COMPLAINS("-t: '5'");
	assert_int_equal(RUN("msg", "wait", "a", "--timeout=31d"), 2);
	COMPLAINS("--timeout: '31d'");
	assert_int_equal(RUN("msg", "wait", "a b"), 1);
	COMPLAINS("'a b'");
	assert_int_equal(RUN("msg", "barrier"), 1);
	COMPLAINS("HARTEBEEST_NID");
	assert_int_equal(RUN("msg", "--help"), 0);
	SAYS("push       Stores a message");
	assert_int_equal(RUN("--complete", "msg", "push", "--t"), 0);
	SAYS("--timeout\t");
	assert_int_equal(RUN("msg", "push", "a", "b", "--ttl", "999ms"), 2);
	COMPLAINS("--ttl: '999ms' is not within 1s..30d");
	assert_int_equal(RUN("msg", "wait", "a", "--once"), 2);
	COMPLAINS("unknown option '--once'");
	assert_int_equal(RUN("--complete", "msg", ""), 0);
	SAYS("barrier\t");
}

/* Scripts meet at one barrier again and again, each time in new processes. */
static void barriers_of_scripts(void **state)
{
	char *line, *rest = talk.err;

	(void)state;
	assert_int_equal(RUN("run", "-n", "3", "--", "sh", "-c",
			     "for i in 1 2 3 4 5 6 7 8; do $0 msg barrier again || exit; echo $i; "
			     "done",
			     tool), 0);
	SAYS("0: 8\n");
	SAYS("1: 8\n");
	SAYS("2: 8\n");
	while ((line = strsep(&rest, "\n")))		/* a busy machine may be late for one */
		if (*line && !strstr(line, "still waiting at barrier 'again'"))
			fail_msg("%s", line);
}

static void a_wait_at_the_terminal(void **state)
{
	(void)state;
	talk.terminal = true;
	talk.words[0] = tool, talk.words[1] = "msg", talk.words[2] = "wait";
	talk.words[3] = "never";
	talk.words[4] = "--timeout", talk.words[5] = "1h", talk.words[6] = NULL;
	talk_begin(&talk);
	talk_until(&talk, "waiting for message never 1 s");
	talk_type(&talk, "\003");
	talk_end(&talk);
	assert_int_equal(talk.status, 128 + SIGINT);
}

/* Lines of standard error end between words, too. */
static void an_error_at_the_terminal(void **state)
{
	const char *line;

	(void)state;
	talk.terminal = true;
	talk.words[0] = tool, talk.words[1] = "keys", talk.words[2] = "a/b", talk.words[3] = NULL;
	talk_begin(&talk);
	talk_end(&talk);
	assert_int_equal(talk.status, 2);
	SAYS(" printable characters\r\n    without '/' and blanks\r\n");
	for (line = talk.out; *line; line += strcspn(line, "\n"), line += *line == '\n')
		assert_true(strcspn(line, "\r\n") <= 80);
}

/* The caller ignores the signal, as nohup(1) does. */
static void a_wait_that_goes_on(void **state)
{
	static struct talk other;

	(void)state;
	talk.terminal = true;
	talk.words[0] = "/bin/sh", talk.words[1] = "-c";
	talk.words[2] = "trap '' TERM; exec $0 msg wait late -t 1h", talk.words[3] = tool;
	talk.words[4] = NULL;
	talk_begin(&talk);
	talk_until(&talk, "waiting for message late 1 s");
	kill(talk.pid, SIGTERM);
	assert_int_equal(TALK(&other, tool, "msg", "push", "late", "at last"), 0);
	talk_end(&talk);
	assert_int_equal(talk.status, 0);
	SAYS("at last");
}

/* ---------------------------------------------------------- completion --- */

static void words_in_bash(void **state)
{
	const char *const script = "source $0; COMP_WORDS=(hartebeest \"${@:2}\"); "
				   "COMP_CWORD=$(($# - 1)); _hartebeest \"$1\"; "
				   "echo \"${COMPREPLY[@]}\"";

	(void)state;
	assert_int_equal(TALK(&talk, "/bin/bash", "-c", script, COMPLETION, tool, "in"), 0);
	assert_string_equal(talk.out, "info\n");
	assert_int_equal(TALK(&talk, "/bin/bash", "-c", script, COMPLETION, tool, "msg", "p"), 0);
	assert_string_equal(talk.out, "push\n");
	assert_int_equal(TALK(&talk, "/bin/bash", "-c", script, COMPLETION, tool, "keys", "--cl"),
			 0);
	assert_string_equal(talk.out, "--clean\n");
	assert_int_equal(TALK(&talk, "/bin/bash", "-c", script, COMPLETION, tool, "run", "-n", ""),
			 0);
	assert_string_equal(talk.out, "\n");
	assert_int_equal(TALK(&talk, "/bin/bash", "-c", script, COMPLETION, tool, "ping", "--type",
			      "=", "r"), 0);
	assert_string_equal(talk.out, "rc\n");
	assert_int_equal(TALK(&talk, "/bin/bash", "-c", script, COMPLETION, tool, "ping", "--type",
			      "="), 0);
	assert_string_equal(talk.out, "rc uc ud\n");
}

/* In an interactive shell, as at a terminal. */
static void words_in_zsh(void **state)
{
	static const char *const each[][2] = {
		{ "in", "info " }, { "keys --cl", "keys --clean " },
		{ "ping --type=r", "ping --type=rc " }, { "mesh --svg /et", "mesh --svg /etc/" },
	};
	char bin[4096], typed[64], shown[64];
	size_t i;

	(void)state;
	if (system("zsh -f -c 'zmodload zsh/zpty' >/dev/null 2>&1") != 0) {
		print_message("zsh is not installed\n");
		skip();
	}
	surroundings_need_terminal();
	snprintf(bin, sizeof(bin), "%.*s", (int)(strrchr(tool, '/') - tool), tool);
	for (i = 0; i < BEEST_COUNT(each); i++) {
		snprintf(typed, sizeof(typed), "hartebeest %s", each[i][0]);
		snprintf(shown, sizeof(shown), "hartebeest %s\n", each[i][1]);
		assert_int_equal(TALK(&talk, "/usr/bin/env", "zsh", "-f", ZSH_SCRIPT,
				      ZSH_COMPLETION, bin, typed), 0);
		assert_string_equal(talk.out, shown);
	}
}

/* ---------------------------------------------------------------- keys --- */

static struct talk waiting;

/* A process that waits for the other ranks; @number NULL: without a rank, for a message. */
static void begin_rank(struct talk *rank, const char *number, const char *size)
{
	memset(rank, 0, sizeof(*rank));
	rank->words[0] = tool, rank->words[1] = "msg";
	rank->words[2] = number ? "barrier" : "wait", rank->words[3] = "never";
	rank->words[4] = "-t", rank->words[5] = "1h";
	if (number)
		setenv("HARTEBEEST_NID", number, 1);
	if (size)
		setenv("HARTEBEEST_NPARTICIPANTS", size, 1);
	talk_begin(rank);
	unsetenv("HARTEBEEST_NID");
	unsetenv("HARTEBEEST_NPARTICIPANTS");
}

/* Repeats keys until it prints @text.  On a busy machine a server may be late (status 3). */
static void until_keys_say(const char *text)
{
	int tries = 0;

	do
		assert_true(RUN("keys") != 2 && tries++ < 1000);
	while (!strstr(talk.out, text));
}

/* Sets the variables of torchrun, which gives all runs the same id unless it is told one. */
static void enter_torchrun(const char *port, const char *rank)
{
	unsetenv("HARTEBEEST_JOB");
	setenv("RANK", rank, 1);
	setenv("LOCAL_RANK", rank, 1);
	setenv("WORLD_SIZE", "2", 1);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	setenv("MASTER_PORT", port, 1);
	setenv("TORCHELASTIC_RUN_ID", "none", 1);
}

static int leave_torchrun(void **state)
{
	static const char *const names[] = {
		"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
		"TORCHELASTIC_RUN_ID",
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(names); i++)
		unsetenv(names[i]);
	return 0;
}

/* Rank 1 of one run does not take the message of rank 0 of the other. */
static void two_runs_of_torchrun_at_once(void **state)
{
	(void)state;
	enter_torchrun("29500", "0");
	assert_int_equal(RUN("msg", "push", "address", "one"), 0);
	enter_torchrun("29501", "1");
	assert_int_equal(LOOK("address", "-t", "0"), 3);
	enter_torchrun("29501", "0");
	assert_int_equal(RUN("msg", "push", "address", "two"), 0);
	enter_torchrun("29500", "1");
	assert_int_equal(LOOK("address", "-t", "0"), 0);
	assert_string_equal(talk.out, "one");
	enter_torchrun("29501", "1");
	assert_int_equal(LOOK("address", "-t", "0"), 0);
	assert_string_equal(talk.out, "two");
}

static void keys_of_the_living_and_the_dead(void **state)
{
	(void)state;
	if (!cache_since(6))
		skip();
	setenv("HARTEBEEST_JOB", "living", 1);
	assert_int_equal(RUN("msg", "push", "greeting", "hello"), 0);
	begin_rank(&waiting, "7", "9");
	/* The age is missing when the record was stored while the server listed its keys. */
	until_keys_say(", one of 9, ");
	SAYS("rank/7 ");
	SAYS("job living\n"
	     "  --    ranks                     1 of 9 ranks are present; never seen: 0-6, 8\n");
	SAYS("present, pid ");
	until_keys_say("  --    waits                     1 rank last waited for barrier 'never'");
	SAYS("msg/greeting              message of 5 bytes");
	SAYS("'lru_crawler metadump ");
	SAYS("epoch                     random bytes, which change when this server loses "
	     "everything");
	assert_int_equal(RUN("keys", "--all"), 0);
	SAYS("  --    living  ");
	assert_int_equal(RUN("msg", "push", "short", "1"), 0);
	assert_int_equal(RUN("keys"), 0);
	SAYS("message of 1 byte; ");
	assert_int_equal(RUN("msg", "push", "one", "12", "--once"), 0);
	assert_int_equal(RUN("keys"), 0);
	SAYS("message of 2 bytes, for one reader; ");
	assert_int_equal(RUN("msg", "wait", "one"), 0);
	assert_int_equal(RUN("keys"), 0);
	SAYS("message for one reader, which has taken it; ");
	assert_int_equal(RUN("keys", "--clean"), 1);
	COMPLAINS("job living may be alive: one of its ranks is present; 'hartebeest keys --clean "
		  "--force' removes it anyway");
	assert_int_equal(RUN("keys", "--waiting"), 0);
	SAYS("rank/7 ");
	assert_null(strstr(talk.out, "msg/greeting"));
	assert_int_equal(RUN("keys", "--json"), 0);
	SAYS("\"state\": \"present\"");
	SAYS("\"for\": \"barrier 'never'\"");

	kill(waiting.pid, SIGKILL);
	talk_end(&waiting);
	assert_int_equal(RUN("keys"), 0);
	SAYS("its process has ended");
	assert_null(strstr(talk.out, " ranks are present"));
	assert_int_equal(RUN("keys", "--clean"), 0);
	SAYS("removed ");
	assert_int_equal(RUN("keys"), 0);
	SAYS("this job has no keys here");
	assert_int_equal(LOOK("greeting", "-t", "0"), 3);
}

/* The base64 key is "hb1/strange/msg/a", a line end, and "delete hb1/strange/msg/greeting". */
/* Nobody knows from these numbers which others there are. */
static void keys_of_ranks_with_other_numbers(void **state)
{
	(void)state;
	if (!cache_since(6))
		skip();
	setenv("HARTEBEEST_JOB", "numbered", 1);
	setenv("HARTEBEEST_PARTICIPANTS", "10,20", 1);
	begin_rank(&waiting, "20", NULL);
	unsetenv("HARTEBEEST_PARTICIPANTS");
	until_keys_say("  --    ranks                     1 of 2 ranks are present\n");
	kill(waiting.pid, SIGKILL);
	talk_end(&waiting);
}

static void keys_that_are_commands(void **state)
{
	static const char store[] = "ms aGIxL3N0cmFuZ2UvbXNnL2ENCmRlbGV0ZSBoYjEvc3RyYW5nZS9tc2"
				    "cvZ3JlZXRpbmc= 1 b\r\nx\r\nquit\r\n";
	char answer[64];

	(void)state;
	setenv("HARTEBEEST_JOB", "strange", 1);
	assert_int_equal(RUN("msg", "push", "greeting", "hello"), 0);
	if (strncmp(cache_talk(cache, store, answer, sizeof(answer)), "HD", 2))
		skip();
	assert_int_equal(RUN("keys"), 0);
	SAYS("msg/greeting ");
	assert_int_equal(LOOK("greeting", "-t", "0"), 0);
	assert_string_equal(talk.out, "hello");
}

static void clean_by_force(void **state)
{
	(void)state;
	setenv("HARTEBEEST_JOB", "forced", 1);
	begin_rank(&waiting, "0", "2");
	until_keys_say("rank/0 ");
	assert_int_equal(RUN("keys", "--clean", "--force"), 0);
	SAYS("removed ");
	kill(waiting.pid, SIGKILL);
	talk_end(&waiting);
}

#ifdef HAVE_CRYPTO
/* Writes a secret of 32 times @letter to a file that only its owner may read. */
static void use_secret(char letter)
{
	char bytes[32];
	int fd = open(file("secret"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	memset(bytes, letter, sizeof(bytes));
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	close(fd);
	setenv("HARTEBEEST_SECRET_FILE", file("secret"), 1);
}

static int drop_secret(void **state)
{
	(void)state;
	unlink(file("secret"));
	return unsetenv("HARTEBEEST_SECRET_FILE");
}

/* With the secret a sealed job is listed as any other; without it, nobody knows who is alive. */
static void keys_of_a_sealed_job(void **state)
{
	(void)state;
	if (!cache_since(6))
		skip();
	setenv("HARTEBEEST_JOB", "sealed", 1);
	use_secret('a');
	assert_int_equal(RUN("msg", "push", "greeting", "hello"), 0);
	assert_int_equal(RUN("keys"), 0);
	SAYS("msg/greeting              message of 5 bytes");

	use_secret('b');
	assert_int_equal(RUN("keys"), 0);
	SAYS("msg/greeting              sealed, with another secret");
	assert_null(strstr(talk.out, "message of "));

	drop_secret(NULL);
	assert_int_equal(RUN("keys"), 0);
	SAYS("; set HARTEBEEST_SECRET_FILE to read it");
	assert_null(strstr(talk.out, "message of "));
	assert_int_equal(RUN("keys", "--clean"), 1);
	COMPLAINS("some of its records are sealed, and HARTEBEEST_SECRET_FILE does not open them");

	use_secret('a');
	assert_int_equal(RUN("keys", "--clean"), 0);
	SAYS("removed ");
}

/* As on a node that does not share the folder. */
static void doctor_without_the_secret(void **state)
{
	(void)state;
	setenv("HARTEBEEST_SECRET_FILE", "/nonexistent", 1);
	assert_int_equal(RUN("doctor"), 1);
	SAYS("  FAIL  server        ");
	SAYS("'/nonexistent': No such file or directory; all nodes of a job must share the folder "
	     "of its secret: give hartebeest serve one by --secret-dir, or --no-secret\n"
	     "        -> a file of this user alone, in a folder that all nodes share");
	assert_null(strstr(talk.out, " works, "));
}
#endif

/*
 * A rank that has stored something and then takes no look: a look would show it the
 * disagreement.
 */
static struct hartebeest_context *be_rank(const char *number, const char *size)
{
	struct hartebeest_context *hb;

	setenv("HARTEBEEST_NID", number, 1);
	setenv("HARTEBEEST_NPARTICIPANTS", size, 1);
	assert_int_equal(hartebeest_open(&hb, NULL), 0);
	unsetenv("HARTEBEEST_NID");
	unsetenv("HARTEBEEST_NPARTICIPANTS");
	hartebeest_msg_push(hb, number, "here", 4, 0);
	return hb;
}

static void ranks_that_disagree(void **state)
{
	struct hartebeest_context *ranks[2];

	(void)state;
	setenv("HARTEBEEST_JOB", "quarrel", 1);
	ranks[0] = be_rank("0", "2");
	ranks[1] = be_rank("1", "4");
	assert_int_equal(RUN("keys"), 1);
	SAYS("  WARN  ranks ");
	SAYS("rank 0 on ");
	SAYS("counts 2 ranks, rank 1 on ");
	SAYS("-> give both the same HARTEBEEST_PARTICIPANTS");
	assert_int_equal(RUN("doctor"), 1);
	SAYS("counts 2 ranks, rank 1 on ");
	assert_null(strstr(talk.out, "rank -1"));
	hartebeest_close(ranks[0]);
	hartebeest_close(ranks[1]);
}

static void meet(struct hartebeest_context *const *ranks, int count, const char *name)
{
	int i, ret, here = 0;

	for (i = 0; here < (1 << count) - 1; i = (i + 1) % count) {
		if (here & 1 << i)
			continue;
		ret = UNTIL_ANSWERED(hartebeest_barrier(ranks[i], name, HARTEBEEST_ONCE));
		assert_true(ret == 0 || ret == -EAGAIN);
		here |= (ret == 0) << i;
	}
}

/* The script of a rank pushes, waits and deletes while the rank's program runs. */
static void messages_beside_a_rank(void **state)
{
	struct hartebeest_context *ranks[2];

	(void)state;
	setenv("HARTEBEEST_JOB", "beside", 1);
	ranks[0] = be_rank("0", "2");
	ranks[1] = be_rank("1", "2");
	meet(ranks, 2, "before");
	setenv("HARTEBEEST_NID", "0", 1);
	setenv("HARTEBEEST_NPARTICIPANTS", "2", 1);
	assert_int_equal(RUN("msg", "push", "state", "running"), 0);
	assert_int_equal(RUN("msg", "wait", "state"), 0);
	assert_string_equal(talk.out, "running");
	assert_int_equal(RUN("msg", "delete", "state"), 0);
	unsetenv("HARTEBEEST_NID");
	unsetenv("HARTEBEEST_NPARTICIPANTS");
	meet(ranks, 2, "after");
	hartebeest_close(ranks[0]);
	hartebeest_close(ranks[1]);
}

/* The first call of a barrier makes the view, the later ones are passes with it. */
static void keys_of_a_barrier(void **state)
{
	struct hartebeest_context *ranks[2];

	(void)state;
	setenv("HARTEBEEST_JOB", "barrier", 1);
	ranks[0] = be_rank("0", "2");
	ranks[1] = be_rank("1", "2");
	meet(ranks, 2, "step");
	until_keys_say("barrier of 2 ranks, led here: call 1, a view is committed, passed 1 time "
		       "with it; of rank 0");
	meet(ranks, 2, "step");
	meet(ranks, 2, "step");
	until_keys_say("barrier of 2 ranks, led here: call 1, a view is committed, passed 3 times "
		       "with it; of rank 0");
	SAYS("barrier of 2 ranks, arrived at pass 3; of rank 1");
	hartebeest_close(ranks[0]);
	hartebeest_close(ranks[1]);
}

/* A listener that got no answer stores the rest when it next accepts. */
static void until_keys_say_of(struct hartebeest_context *listener, const char *text)
{
	struct hartebeest_client none;
	int tries = 0;

	do {
		assert_true(hartebeest_service_accept(listener, "s", &none, HARTEBEEST_ONCE) < 0);
		assert_true(RUN("keys") != 2 && tries++ < 1000);
	} while (!strstr(talk.out, text));
}

/* What a listener stores as it stops is lost if the server is late. */
static void until_stopped(struct hartebeest_context *listener)
{
	int tries = 0;

	do {
		assert_int_equal(hartebeest_service_listen(listener, "s", HARTEBEEST_FOREVER), 0);
		assert_int_equal(hartebeest_service_close(listener, "s"), 0);
		assert_true(RUN("keys") != 2 && tries++ < 1000);
	} while (!strstr(talk.out, " (has stopped); "));
}

/* Each request counts once, whatever words the list has of it. */
static void keys_of_a_service(void **state)
{
	struct hartebeest_client made[4], got;
	struct hartebeest_context *hb[2];
	int i;

	(void)state;
	setenv("HARTEBEEST_JOB", "service", 1);
	for (i = 0; i < 2; i++)
		assert_int_equal(hartebeest_open(&hb[i], NULL), 0);
	for (i = 0; i < 4; i++)
		assert_int_equal(hartebeest_service_request(hb[1], "s", "x", 1, &made[i],
							    HARTEBEEST_FOREVER), 0);
	until_keys_say("list: no process listens; 4 requests: 4 waiting, 0 accepted, 0 ended");
	assert_int_equal(hartebeest_service_listen(hb[0], "s", HARTEBEEST_FOREVER), 0);
	for (i = 0; i < 4; i++)
		assert_int_equal(hartebeest_service_accept(hb[0], "s", &got,
							   HARTEBEEST_FOREVER), 0);
	until_keys_say_of(hb[0], " listens; 4 requests: 0 waiting, 4 accepted, 0 ended");
	SAYS("list: pid ");
	assert_int_equal(got.number, made[3].number);
	assert_int_equal(UNTIL_ANSWERED(hartebeest_service_leave(hb[0], "s", &got)), 0);
	assert_int_equal(UNTIL_ANSWERED(hartebeest_service_leave(hb[1], "s", &made[3])), 0);
	until_keys_say_of(hb[0], " listens; 4 requests: 0 waiting, 3 accepted, 1 ended");
	assert_int_equal(hartebeest_service_close(hb[0], "s"), 0);
	until_stopped(hb[0]);
	SAYS("list: no process listens, the last was pid ");
	hartebeest_close(hb[0]);
	until_keys_say(" (has left); ");
	hartebeest_close(hb[1]);
}

/* Not every process knows who takes part. */
static void ranks_that_do_not_know(void **state)
{
	static struct talk other;

	(void)state;
	if (!cache_since(6))
		skip();
	setenv("HARTEBEEST_JOB", "unaware", 1);
	begin_rank(&waiting, NULL, NULL);
	until_keys_say(", pid ");
	begin_rank(&other, "1", "2");
	until_keys_say("rank/1 ");
	assert_int_equal(RUN("keys"), 0);
	assert_null(strstr(talk.out, "WARN"));
	kill(waiting.pid, SIGKILL), kill(other.pid, SIGKILL);
	talk_end(&waiting), talk_end(&other);
}

/* One server lists as before memcached 1.4.31, the other refuses to list. */
static void servers_that_list_differently(void **state)
{
	struct cache *old, *shut;

	(void)state;
	if (!cache_since(6))
		skip();
	old = cache_start((const char *const[]){ "-o", "no_lru_crawler", NULL });
	shut = cache_start((const char *const[]){ "-X", NULL });
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(old)->text, 1);
	assert_int_equal(RUN("msg", "push", "greeting", "hello"), 0);
	/* It lists only items that its maintenance has moved to the cold queue. */
	until_keys_say("msg/greeting");
	assert_int_equal(talk.status, 1);
	assert_null(strstr(strstr(talk.out, "msg/greeting") + 1, "msg/greeting"));
	SAYS("'stats cachedump' walked over ");
	SAYS("  WARN  cut ");
	SAYS("        -> start memcached without -o no_lru_crawler and no_modern: then it lists");
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(shut)->text, 1);
	assert_int_equal(RUN("keys"), 1);
	COMPLAINS("this server does not allow keys to be listed");
	cache_end(old);
	cache_end(shut);
}

/* Memcached says OK first since 1.6.43. */
static void a_server_that_says_ok_first(void **state)
{
	static const char list[] = "STAT time 1000\r\nEND\r\nOK\r\n"
				   "key=hb1%2Fjob%2Fmsg%2Fgreeting exp=-1 la=1 size=70\r\nEND\r\n";
	const struct fake_service service = { .banner = list, .banner_size = strlen(list) };
	struct fake *recent = fake_start_service(&service);

	(void)state;
	setenv("HARTEBEEST_EXC_IP_PORT", fake_hostport(recent)->text, 1);
	assert_int_equal(RUN("keys", "--all"), 0);
	SAYS("  --    job                       1 key, 0 ranks\n");
	fake_end(recent);
}

static void wrong_ways_to_list(void **state)
{
	(void)state;
	assert_int_equal(RUN("keys", "a/b"), 2);
	COMPLAINS("a job cannot be called 'a/b': ");
	assert_int_equal(RUN("keys", ""), 2);
	assert_int_equal(RUN("keys", "a", "b"), 2);
	assert_int_equal(RUN("keys", "--all", "--clean"), 2);
	COMPLAINS("--all only lists: name one job to clean\nTry 'hartebeest keys --help'.\n");
	assert_int_equal(RUN("keys", "--all", "--waiting"), 2);
	COMPLAINS("--waiting lists the ranks of one job: it goes without --clean and --all");
	assert_int_equal(RUN("keys", "--force"), 2);
	COMPLAINS("--force goes with --clean only");
	assert_int_equal(RUN("keys", "--clean", "unheard-of"), 1);
	COMPLAINS("job unheard-of has no keys here; 'hartebeest keys --all' lists the jobs that "
		  "have");
	assert_int_equal(RUN("keys", "--clean", "--force", "unheard-of"), 0);
	assert_string_equal(talk.out, "removed 0 keys\n");
	unsetenv("HARTEBEEST_EXC_IP_PORT");
	assert_int_equal(RUN("keys"), 1);
	COMPLAINS("set HARTEBEEST_EXC_IP_PORT=host:port");
}

/* -------------------------------------------------------------- doctor --- */

/* Rank 0 shows the others' words, too: the largest group first, whatever its rank. */
static void many_nodes_at_once(void **state)
{
	(void)state;
	RUN("run", "-n", "4", "-g", "1min", "--", "sh", "-c", "[ $HARTEBEEST_NID != 1 ] || export "
	    "HARTEBEEST_TIMOUT=1; exec $0 doctor --all", tool);
	SAYS("0: 3 nodes alike: ");
	SAYS("\n0: 1 node: ");
	SAYS("variables\n");
	SAYS("0:   WARN  variables     unknown environment variable HARTEBEEST_TIMOUT");
	assert_true(strstr(talk.out, "3 nodes alike") < strstr(talk.out, "1 node: "));
	assert_null(strstr(talk.out, "\n1: "));
	assert_null(strstr(talk.out, "memcached 1."));
}

/* What another process left as a report goes to a terminal. */
static void a_report_that_does_harm(void **state)
{
	static const char harm[64 + 4096] = "node\033[2J";
	struct hartebeest_context *other;

	(void)state;
	setenv("HARTEBEEST_JOB", "harm", 1);
	other = be_rank("1", "2");
	assert_int_equal(hartebeest_msg_push(other, "doctor/1", harm, sizeof(harm), 0), 0);
	setenv("HARTEBEEST_NID", "0", 1), setenv("HARTEBEEST_NPARTICIPANTS", "2", 1);
	assert_int_equal(RUN("doctor", "--all"), 1);
	SAYS("1 node: rank 1\nFAIL  it has not reported\n");
	assert_null(strchr(talk.out, '\033'));
	unsetenv("HARTEBEEST_NID"), unsetenv("HARTEBEEST_NPARTICIPANTS");
	hartebeest_close(other);
}

static void a_server_in_good_health(void **state)
{
	(void)state;
	assert_true(RUN("doctor") <= 1);
	SAYS("  OK    server        ");
	SAYS(", memcached 1.");
	SAYS("  OK    connections   ");
	SAYS("  OK    memory        ");
	assert_true(RUN("doctor", "--ranks", "100000") <= 1);
	SAYS("  WARN  connections   ");
	SAYS(" in use, and 100000 ranks need up to 200016\n        -> memcached -c 200016\n");
	SAYS("  WARN  memory        ");
	SAYS(" MB are too little for 100000 ranks\n        -> memcached -m ");
	SAYS("  WARN  backlog       100000 ranks may connect at once, and ");
	assert_true(RUN("doctor", "--ranks", "8") <= 1);
	SAYS("  OK    backlog       ");
	setenv("HARTEBEEST_TIMOUT", "5s", 1);
	assert_true(RUN("doctor") <= 1);
	SAYS("  WARN  variables     unknown environment variable HARTEBEEST_TIMOUT, the nearest is "
	     "HARTEBEEST_TIMEOUT\n        -> ");
	unsetenv("HARTEBEEST_TIMOUT");
	assert_true(RUN("doctor", "--json") <= 1);
	SAYS("\"round_trip_ns\": ");
}

/* Servers that answer as a full one does, before they are asked. */
static void servers_that_are_full(void **state)
{
	static const char few[] = "VERSION 1.6.18\r\nSTAT curr_connections 120\r\n"
				  "STAT max_connections 128\r\nEND\r\nEND\r\n";
	static const char none[] = "ERROR Too many open connections\r\n";
	static const char small[] = "VERSION 1.6.18\r\nSTAT evictions 7\r\nSTAT limit_maxbytes "
				    "67108864\r\nSTAT item_size_max 1024\r\nEND\r\nEND\r\n";
	const struct fake_service evicts = { .banner = small, .banner_size = strlen(small) };
	const struct fake_service nearly = { .banner = few, .banner_size = strlen(few) };
	const struct fake_service wholly = { .banner = none, .banner_size = strlen(none) };
	struct fake *first = fake_start_service(&nearly), *second = fake_start_service(&wholly);
	struct fake *third = fake_start_service(&evicts);

	(void)state;
	setenv("HARTEBEEST_EXC_IP_PORT", fake_hostport(third)->text, 1);
	assert_true(RUN("doctor") <= 1);
	SAYS("  WARN  memory        7 keys were evicted since it started: records may be lost\n"
	     "        -> ");
	SAYS("  WARN  item size     1024 bytes: messages may be 1 MiB long\n        -> ");
	setenv("HARTEBEEST_EXC_IP_PORT", fake_hostport(first)->text, 1);
	assert_true(RUN("doctor") <= 1);
	SAYS("120 of 128 in use: few are left for more ranks\n        -> memcached -c 272\n");
	assert_true(RUN("doctor", "-r", "100") <= 1);
	SAYS("120 of 128 in use, and 100 ranks need up to 216\n        -> memcached -c 272\n");
	setenv("HARTEBEEST_EXC_IP_PORT", fake_hostport(second)->text, 1);
	assert_int_equal(RUN("doctor"), 1);
	SAYS(": it answers ERROR: too many connections (memcached -c), or not a Memcached server\n"
	     "        -> memcached -c N allows more");
	fake_end(first);
	fake_end(second);
	fake_end(third);
}

/* Messages of 64 KiB into a server of 2 MB, which must evict some. */
static void a_server_that_evicts(void **state)
{
	struct cache *small = cache_start((const char *const[]){ "-m", "2", NULL });

	(void)state;
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(small)->text, 1);
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "for i in $(seq 1 200); do head -c 65536 "
			      "/dev/zero | $0 msg push m$i || exit; done", tool), 0);
	assert_true(RUN("doctor") <= 1);
	SAYS("  WARN  memory        ");
	SAYS(" keys were evicted since it started: records may be lost\n        -> ");
	cache_end(small);
}

static void a_way_that_loses_large_packets(void **state)
{
	struct slow slow = { .cache = cache, .largest = 1400 };

	(void)state;
	slow_start(&slow);
	setenv("HARTEBEEST_EXC_IP_PORT", slow.endpoint.text, 1);
	assert_int_equal(RUN("doctor"), 1);
	SAYS("  FAIL  packets       ");
	SAYS(" answers small requests, but not one of 2500 bytes within 3 s: large packets are "
	     "lost on the way\n        -> the MTU of this node's interface, ");
	slow_end(&slow);
}

static void servers_in_bad_health(void **state)
{
	const struct fake_service web = { .answer = "HTTP/1.1 400 Bad Request\r\n\r\n",
					  .answer_size = 28 };
	struct fake *other = fake_start_service(&web), *silent = fake_start(NULL, 0);
	struct beest_hostport closed, mute;

	(void)state;
	unsetenv("HARTEBEEST_EXC_IP_PORT");
	assert_true(RUN("doctor") <= 1);
	SAYS("  WARN  server        no Memcached server is named\n"
	     "        -> 'hartebeest serve' and 'hartebeest run' start a server; or set ");
	setenv("OMPI_COMM_WORLD_RANK", "0", 1);
	setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
	assert_true(RUN("doctor") <= 1);
	unsetenv("OMPI_COMM_WORLD_RANK"), unsetenv("OMPI_COMM_WORLD_SIZE");
	SAYS("  WARN  server        no Memcached server is named\n"
	     "        -> Open MPI passes no variable on: 'hartebeest serve -- mpirun ...', or "
	     "mpirun -x HARTEBEEST_EXC_IP_PORT\n");
	closed_hostport(&closed);
	setenv("HARTEBEEST_EXC_IP_PORT", closed.text, 1);
	assert_int_equal(RUN("doctor"), 1);
	SAYS(": connection refused: no memcached listens there\n        -> start memcached there");
	setenv("HARTEBEEST_EXC_IP_PORT", fake_hostport(other)->text, 1);
	assert_int_equal(RUN("doctor"), 1);
	SAYS(": not a Memcached: it says 'HTTP/1.1 400 Bad Request'\n        -> "
	     "HARTEBEEST_EXC_IP_PORT names the port of something else");
	setenv("HARTEBEEST_EXC_IP_PORT", fake_hostport(silent)->text, 1);
	assert_int_equal(RUN("doctor"), 1);
	SAYS(": silent: it takes connections but does not answer (stopped, overloaded, or all its "
	     "connections are in use)\n        -> check its process there, and its -c: ");
	mute_hostport(&mute);
	setenv("HARTEBEEST_EXC_IP_PORT", mute.text, 1);
	assert_int_equal(RUN("doctor"), 1);
	SAYS(": no answer to a connection: a firewall that drops packets, a wrong address, or a "
	     "host that is down\n        -> 'nc -vz HOST PORT' on that host itself: ");
	fake_end(other);
	fake_end(silent);
}

/* It is no fault that a proxy does not show its state, or lists no keys. */
static void a_proxy_that_passes_on_requests(void **state)
{
	struct cache *const behind[] = { cache, NULL };
	struct relay relay;

	(void)state;
	relay_start(&relay, behind);
	setenv("HARTEBEEST_EXC_IP_PORT", relay.endpoint.text, 1);
	setenv("HARTEBEEST_JOB", "relayed", 1);
	setenv("HARTEBEEST_NID", "0", 1);
	setenv("HARTEBEEST_PARTICIPANTS", "0", 1);
	assert_int_equal(RUN("msg", "barrier"), 0);
	assert_int_equal(RUN("keys"), 0);
	SAYS("  --    rank/0 ");
	SAYS(" works, but lists no keys, as a proxy");
	assert_true(RUN("doctor") <= 1);
	SAYS("  WARN  server        ");
	SAYS(" works, but does not show its state, as a proxy");
	SAYS("  --    job           relayed: no rank is present");
	assert_null(strstr(talk.out, "FAIL  server"));
	relay_end(&relay);
	unsetenv("HARTEBEEST_NID");
	unsetenv("HARTEBEEST_PARTICIPANTS");
}

/* Each connection leads to another server: the doctor and a waiting rank notice. */
static void a_proxy_of_several_servers(void **state)
{
	struct cache *more = cache_start(NULL), *const behind[] = { cache, more, NULL };
	struct relay relay;
	int status, tries = 0;

	(void)state;
	relay_start(&relay, behind);
	setenv("HARTEBEEST_EXC_IP_PORT", relay.endpoint.text, 1);
	setenv("HARTEBEEST_JOB", "split", 1);
	assert_int_equal(RUN("doctor"), 1);
	SAYS("  FAIL  server        ");
	SAYS(": new connections lead to several servers, each with keys of its own\n        -> ");
	assert_int_equal(RUN("msg", "push", "greeting", "hello"), 0);
	assert_int_equal(RUN("msg", "push", "greeting", "hello"), 0);
	do	/* it asks at the end, for a moment, which may be too short on a busy machine */
		status = RUN("msg", "wait", "never", "-t", "1s");
	while ((status == 3 || cache_was_late(-EAGAIN, talk.err)) && tries++ < 100);
	assert_int_equal(status, 1);
	COMPLAINS(": several servers answer under this name, each with records of its own");
	relay_end(&relay);
	cache_end(more);
}

static void wrong_ways_to_ask(void **state)
{
	(void)state;
	assert_int_equal(RUN("doctor", "--ranks", "0"), 2);
	COMPLAINS("hartebeest doctor: --ranks: '0'");
	assert_int_equal(RUN("doctor", "-r"), 2);
	COMPLAINS("-r needs a value: -r N");
	assert_int_equal(RUN("doctor", "-rmany"), 2);
	COMPLAINS("-r: 'many'");
	assert_int_equal(RUN("doctor", "--rank=2"), 2);
	COMPLAINS("unknown option '--rank', the nearest is --ranks");
	assert_int_equal(RUN("doctor", "node0"), 2);
	COMPLAINS("'node0' is one argument too many");
	assert_int_equal(RUN("doctor", "-o", "exchange.timeout=soon"), 2);
	COMPLAINS("exchange.timeout");
}

/* ------------------------------------------------------------ each of them --- */

/* Each command prints one object, on success and on failure. */
static void objects_of_each(void **state)
{
	static const struct each {
		const char *words[8], *key;
		int status;
	} all[] = {
		{ { "doctor" }, "checks", -1 }, { { "info" }, "version", -1 },
		{ { "info", "--options" }, "options", 0 },
		{ { "msg", "push", "a", "b\"" }, "length", 0 },
		{ { "msg", "wait", "a" }, "text", 0 }, { { "msg", "delete", "a" }, NULL, 0 },
		{ { "msg", "delete", "a" }, "error", 1 },
		{ { "msg", "wait", "a", "-t", "0" }, "error", 3 },
		{ { "msg", "barrier" }, "error", 1 }, { { "keys" }, "keys", 0 },
		{ { "keys", "--all" }, "jobs", 0 }, { { "keys", "--clean", "none" }, "error", 1 },
		{ { "keys", "--clean", "--force" }, "removed", 0 },
		{ { "run", "-n", "1", "true" }, "ranks", 0 },
		{ { "run", "-n", "1", "false" }, "ranks", 1 },
		{ { "mesh" }, "error", 2 }, { { "ping", "-t", "ud", "-O", "read" }, "error", 2 },
	};
	const char *words[12];
	size_t i;
	int at;

	(void)state;
	if (!cache_since(6))
		skip();
	for (i = 0; i < BEEST_COUNT(all); i++) {
		at = 0;
		words[at++] = tool;
		words[at++] = all[i].words[0];
		if (!strcmp(all[i].words[0], "msg"))
			words[at++] = all[i].words[1];
		words[at++] = "--json";
		memcpy(&words[at], &all[i].words[at - 2],
		       (BEEST_COUNT(all[i].words) - (size_t)at + 2) * sizeof(words[0]));
		at = talk_words(&talk, words);
		if (all[i].status >= 0 ? at != all[i].status : at > 1)
			fail_msg("%s ended with %d: %s%s", all[i].words[0], at, talk.out, talk.err);
		is_object_with(all[i].key);
	}
}

/* doctor gives a server up after three seconds, perhaps before it is interrupted. */
static void interrupt_doctor(const char *server)
{
	char shown[400];
	int tries = 0;

	snprintf(shown, sizeof(shown), "asking %s 1 s ", server);
	do {
		assert_true(tries++ < 100);
		BEGIN("doctor");
		talk_until(&talk, shown);
		press_interrupt();
	} while (talk.status == 1 && strstr(talk.out, "firewall"));
	is_interrupted();
}

/* A wait of more than a second is shown on a terminal, and Ctrl-C ends it at once. */
static void waits_for_a_silent_server(void **state)
{
	struct fake *silent = fake_start(NULL, 0);
	const char *server = fake_hostport(silent)->text;
	char shown[400];

	(void)state;
	setenv("HARTEBEEST_EXC_IP_PORT", server, 1);
	setenv("HARTEBEEST_TIMEOUT", "1h", 1);
	setenv("HARTEBEEST_NID", "0", 1), setenv("HARTEBEEST_NPARTICIPANTS", "2", 1);
	setenv("NO_COLOR", "1", 1);
	talk.terminal = true;
	talk.columns = 200;

	BEGIN("keys");
	snprintf(shown, sizeof(shown), "\r\033[Klisting the keys of %s 1 s ", server);
	talk_until(&talk, shown);
	interrupt();
	BEGIN("keys", "--clean", "--force");
	talk_until(&talk, shown);
	interrupt();
	interrupt_doctor(server);
	BEGIN("msg", "push", "a", "b");
	talk_until(&talk, "storing message a 1 s ");
	interrupt();
	BEGIN("msg", "delete", "a");
	talk_until(&talk, "deleting message a 1 s ");
	interrupt();
	BEGIN("msg", "barrier");
	talk_until(&talk, "waiting for all ranks 1 s ");
	interrupt();

	unsetenv("HARTEBEEST_NID"), unsetenv("HARTEBEEST_NPARTICIPANTS");
	unsetenv("HARTEBEEST_TIMEOUT");
	fake_end(silent);
}

/* A file that is opened later must not become standard output. */
static void streams_that_are_closed(void **state)
{
	(void)state;
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "echo b | $0 msg push a >&-", tool), 0);
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "exec $0 msg wait a >&-", tool), 1);
	COMPLAINS("hartebeest msg wait: standard output: ");
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "exec $0 keys >&- 2>&-", tool), 1);
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "exec $0 msg push a <&-", tool), 1);
	COMPLAINS("hartebeest msg push: standard input: Bad file descriptor");
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "exec $0 keys --help >/dev/full", tool), 1);
	COMPLAINS("hartebeest keys: standard output: No space left on device");
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "exec $0 --version >/dev/full", tool), 1);
	COMPLAINS("hartebeest: standard output: No space left on device");
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "$0 keys | head -n 1", tool), 0);
	assert_string_equal(talk.out, "job command\n");
}

/*
 * A path that cannot be written is refused before anything is measured; an old picture is kept
 * when nothing was measured.
 */
static void files_of_a_picture(void **state)
{
	char text[16] = "";
	FILE *old = fopen(file("old.svg"), "w");

	(void)state;
	assert_non_null(old);
	fputs("<svg/>", old);
	fclose(old);
	assert_int_equal(RUN("mesh", "-n", "2", "-o", "device.name=none0", "--svg",
			     "/nowhere/mesh.svg"), 1);
	COMPLAINS("hartebeest mesh: /nowhere/mesh.svg: No such file or directory\n");
	assert_string_equal(talk.out, "");
	assert_int_equal(RUN("mesh", "-n", "2", "-o", "device.name=none0", "--svg",
			     file("old.svg")), 1);
	SAYS("  FAIL  rank 0 ");
	old = fopen(file("old.svg"), "r");
	assert_non_null(old);
	assert_non_null(fgets(text, sizeof(text), old));
	fclose(old);
	assert_string_equal(text, "<svg/>");
	unlink(file("old.svg"));
	assert_int_equal(RUN("mesh", "-n", "2", "-o", "device.name=none0", "--svg",
			     file("new.svg")), 1);
	SAYS("  FAIL  rank 0 ");
	assert_false(is_there("new.svg"));
}

/* There is no home, the working folder is gone, and the language is unknown. */
static void a_poor_environment(void **state)
{
	(void)state;
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "mkdir $1 && cd $1 && rmdir $1 && exec env "
			      "-u HOME -u LANG -u TERM LC_ALL=xx_YY.UTF-8 $0 msg push a b", tool,
			      file("gone")), 0);
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "mkdir $1 && cd $1 && rmdir $1 && exec env "
			      "-u HOME LC_ALL=C $0 run -n 2 -- $0 msg barrier", tool, file("gone")),
			      0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define ALONE(name) cmocka_unit_test_setup(name, setup)
#define BESIDE(name) cmocka_unit_test_setup(name, setup_server)
		ALONE(ranks_and_their_environment),
		BESIDE(a_server_and_a_job_that_are_named),
		ALONE(run_overrides_a_settings_file),
		ALONE(what_ranks_inherit),
		BESIDE(ranks_that_cannot_begin),
		ALONE(ranks_that_meet),
		ALONE(nobody_reads_to_the_end),
		ALONE(the_worst_status),
		ALONE(each_has_its_reason),
		ALONE(a_rank_that_ignores_sigterm),
		ALONE(a_rank_with_a_status_for_sigterm),
		ALONE(lines_of_all_lengths),
		ALONE(a_grandchild_that_stays),
		ALONE(statuses_as_an_object),
		ALONE(no_orphan_of_a_killed_run),
		ALONE(asked_to_end_before_it_began),
		ALONE(asked_to_end),
		ALONE(asked_to_end_amid_lines),
		ALONE(ranks_without_their_server),
		ALONE(lines_of_a_large_pipe),
		ALONE(interrupted_at_the_terminal),
		ALONE(a_script_that_is_interrupted),
		ALONE(no_folder_for_the_server),
		ALONE(wrong_ways_to_run),
		BESIDE(messages),
		BESIDE(messages_with_a_life),
		cmocka_unit_test_setup_teardown(two_runs_of_torchrun_at_once, setup_server,
						leave_torchrun),
		BESIDE(a_message_too_large),
		BESIDE(servers_that_are_not_there),
		BESIDE(wrong_ways_to_talk),
		ALONE(barriers_of_scripts),
		BESIDE(a_wait_at_the_terminal),
		BESIDE(an_error_at_the_terminal),
		BESIDE(a_wait_that_goes_on),
		ALONE(words_in_bash),
		ALONE(words_in_zsh),
		BESIDE(keys_of_the_living_and_the_dead),
		BESIDE(keys_of_ranks_with_other_numbers),
		BESIDE(keys_that_are_commands),
		BESIDE(clean_by_force),
#ifdef HAVE_CRYPTO
		cmocka_unit_test_setup_teardown(keys_of_a_sealed_job, setup_server, drop_secret),
		cmocka_unit_test_setup_teardown(doctor_without_the_secret, setup_server,
						drop_secret),
#endif
		BESIDE(ranks_that_disagree),
		BESIDE(messages_beside_a_rank),
		BESIDE(keys_of_a_barrier),
		BESIDE(keys_of_a_service),
		BESIDE(ranks_that_do_not_know),
		BESIDE(servers_that_list_differently),
		BESIDE(a_server_that_says_ok_first),
		BESIDE(wrong_ways_to_list),
		BESIDE(many_nodes_at_once),
		BESIDE(a_report_that_does_harm),
		BESIDE(a_server_in_good_health),
		BESIDE(servers_that_are_full),
		BESIDE(a_server_that_evicts),
		BESIDE(a_way_that_loses_large_packets),
		BESIDE(servers_in_bad_health),
		BESIDE(a_proxy_that_passes_on_requests),
		BESIDE(a_proxy_of_several_servers),
		BESIDE(wrong_ways_to_ask),
		BESIDE(objects_of_each),
		ALONE(waits_for_a_silent_server),
		BESIDE(streams_that_are_closed),
		ALONE(files_of_a_picture),
		BESIDE(a_poor_environment),
	};
	int failed;

	(void)argv;
	if (argc > 1)
		return write_at_once();
	cache_need();
	tool = talk_tool();
	scratch_folder(folder, "hb");
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(file("pid-0")), unlink(file("pid-1"));
	rmdir(folder);
	cache_end(cache);
	return failed;
}
