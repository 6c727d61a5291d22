/* SPDX-License-Identifier: MIT */
/*
 * serve.c - hartebeest serve as it was built, with a real memcached and shells as commands
 *
 * promise: hartebeest(1)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/scratch.h"
#include "tests/support/talk.h"

static const char *tool;
static char folder[SCRATCH_SIZE], path[256];
static struct talk talk;

#ifdef HAVE_CRYPTO
#define SERVE "serve", "-l127.0.0.1"
#define WORDS "serve -l 127.0.0.1"
#else
#define SERVE "serve", "-l127.0.0.1", "--no-secret"
#define WORDS "serve -l 127.0.0.1 --no-secret"
#endif

#define SYSTEM_PATH "/usr/local/bin:/usr/bin:/bin"
#define PATIENCE_TURNS 12000

#define RUN(...) TALK(&talk, tool, __VA_ARGS__)
#define SAYS(text) talk_says(&talk, text)
#define COMPLAINS(text) talk_complains(&talk, text)
#define SHELL(script) RUN(SERVE, "--", "sh", "-c", script, tool)
#define BEGIN(...) begin((const char *const[]){ __VA_ARGS__, NULL })

static void begin(const char *const *words)
{
	int i = -1;

	do {
		i++;
		talk.words[i] = words[i];
	} while (words[i]);
	talk_begin(&talk);
}

static const char *file(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static const char *const foreign[] = {
	"FLUX_JOB_SIZE", "HARTEBEEST_CONF_PATH", "HARTEBEEST_EXC_IP_PORT", "HARTEBEEST_JOB",
	"HARTEBEEST_NID", "HARTEBEEST_SECRET_FILE", "HARTEBEEST_SERVE_PID", "LSB_DJOB_HOSTFILE",
	"LSB_DJOB_NUMPROC", "NSLOTS", "OMPI_MCA_mca_base_env_list", "PBS_NODEFILE", "PBS_NP",
	"SLURM_EXPORT_ENV", "SLURM_NTASKS", "SLURMD_NODENAME",
};

/*
 * A memcached first in PATH, which notes its process id and arguments, and its parent, the guard,
 * and becomes the real one.  Scripts read the note byte by byte while the next server writes its
 * own, so it is never half.  With LAST_WORDS, it says these and ends.
 */
static void write_memcached(void)
{
	FILE *script = fopen(file("memcached"), "w");

	assert_non_null(script);
	fprintf(script, "#!/bin/sh\n[ -z \"$LAST_WORDS\" ] || { printf \"$LAST_WORDS\" >&2; "
		"exit 71; }\ncd %s && echo $PPID >guard && echo \"$$ $*\" >new && "
		"mv new noted\n"
		"PATH=${PATH#*:} exec memcached \"$@\"\n", folder);
	fclose(script);
	assert_int_equal(chmod(file("memcached"), 0755), 0);
}

/* What it noted. */
static pid_t noted(char *arguments, size_t size)
{
	FILE *from = fopen(file("noted"), "r");
	int pid = 0;

	assert_non_null(from);
	assert_int_equal(fscanf(from, "%d ", &pid), 1);
	assert_non_null(fgets(arguments, (int)size, from));
	fclose(from);
	return pid;
}

static pid_t noted_guard(void)
{
	FILE *from = fopen(file("guard"), "r");
	int pid = 0;

	assert_non_null(from);
	assert_int_equal(fscanf(from, "%d", &pid), 1);
	fclose(from);
	return pid;
}

static int setup(void **state)
{
	char all[512];
	size_t i;

	(void)state;
	memset(&talk, 0, sizeof(talk));
	for (i = 0; i < BEEST_COUNT(foreign); i++)
		unsetenv(foreign[i]);
	setenv("TMPDIR", folder, 1);
	setenv("HOME", folder, 1);
	setenv("T", tool, 1);
	snprintf(all, sizeof(all), "%s:" SYSTEM_PATH, folder);
	setenv("PATH", all, 1);
	unsetenv("LAST_WORDS");
	unlink(file("noted"));
	return 0;
}

static bool is_there(const char *pattern)
{
	glob_t found;
	bool there = glob(file(pattern), 0, NULL, &found) == 0;

	if (there)
		globfree(&found);
	return there;
}

/* Neither the server's folder nor a secret. */
static void nothing_is_left(void)
{
	assert_false(is_there("hartebeest-*"));
	assert_false(is_there(".hartebeest/*"));
}

/* After the end of a process that had no time to clean up: the guard does it. */
static void nothing_is_left_soon(void)
{
	int i;

	for (i = 0; i < PATIENCE_TURNS && (is_there("hartebeest-*") ||
					   is_there(".hartebeest/*")); i++)
		pause_ms(10);
	nothing_is_left();
}

/* ------------------------------------------------------------- the job --- */

/* Both ends of a message are commands of the job; its records are sealed. */
static void a_job(void **state)
{
	(void)state;
	assert_int_equal(SHELL("$T msg push x 'to all' && $T msg wait x && $T keys"), 0);
	SAYS("to all");
	SAYS("job serve-");
#ifdef HAVE_CRYPTO
	assert_int_equal(SHELL("stat -c %a $HARTEBEEST_SECRET_FILE; $T msg push x y; "
			       "unset HARTEBEEST_SECRET_FILE; "
			       "until said=$($T msg wait x -t 1s 2>&1) || "
			       "[ \"${said#*tried for}\" = \"$said\" ]; do :; done; "
			       "echo \"$said\" >&2"), 0);
	SAYS("600\n");
	COMPLAINS("a sealed record, but this process has no secret");
#endif
	nothing_is_left();
}

static void without_a_secret(void **state)
{
	(void)state;
	assert_int_equal(RUN("serve", "-l", "127.0.0.1", "--no-secret", "--", "sh", "-c",
			     "test -z \"$HARTEBEEST_SECRET_FILE\" && $T msg push x y && $T keys"),
			 0);
	SAYS("msg/x");
	nothing_is_left();
}

/* A job that is named keeps its name. */
static void a_name_for_the_job(void **state)
{
	(void)state;
	setenv("HARTEBEEST_JOB", "named", 1);
	assert_int_equal(SHELL("$T msg push x y && $T keys"), 0);
	SAYS("job named");
}

static void statuses(void **state)
{
	(void)state;
	assert_int_equal(SHELL("exit 7"), 7);
	assert_int_equal(SHELL("kill -SEGV $$"), 128 + SIGSEGV);
	assert_int_equal(RUN(SERVE, "--", "/nonexistent/program"), 127);
	COMPLAINS("hartebeest serve: /nonexistent/program: No such file or directory");
	assert_int_equal(RUN(SERVE, "--", "/"), 126);
	nothing_is_left();
}

/* ------------------------------------------------------------ launchers --- */

/* What a launcher is told to pass on, by what is in the environment before. */
static void variables_to_pass_on(void **state)
{
	static const struct {
		const char *variable, *before, *after;
	} rows[] = {
		{ "OMPI_MCA_mca_base_env_list", NULL, "HARTEBEEST_EXC_IP_PORT;" },
		{ "OMPI_MCA_mca_base_env_list", "PATH;A=1", "PATH;A=1;HARTEBEEST_EXC_IP_PORT;" },
		{ "SLURM_EXPORT_ENV", NULL, "unset" },
		{ "SLURM_EXPORT_ENV", "ALL", "ALL\n" },
		{ "SLURM_EXPORT_ENV", "ALL,A=1", "ALL,A=1\n" },
		{ "SLURM_EXPORT_ENV", "NONE", "HARTEBEEST_EXC_IP_PORT," },
		{ "SLURM_EXPORT_ENV", "PATH", "PATH,HARTEBEEST_EXC_IP_PORT," },
	};
	char script[128], wanted[128];
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++) {
		setup(state);
		if (rows[i].before)
			setenv(rows[i].variable, rows[i].before, 1);
		snprintf(script, sizeof(script), "echo \"<${%s-unset}\"", rows[i].variable);
		assert_int_equal(SHELL(script), 0);
		snprintf(wanted, sizeof(wanted), "<%s", rows[i].after);
		SAYS(wanted);
	}
}

/* Open MPI's variable and its options -x exclude each other. */
static void options_to_pass_on(void **state)
{
	FILE *mpirun = fopen(file("mpirun"), "w");

	(void)state;
	assert_non_null(mpirun);
	fprintf(mpirun, "#!/bin/sh\necho \"<$@> <${OMPI_MCA_mca_base_env_list-unset}>\"\n");
	fclose(mpirun);
	assert_int_equal(chmod(file("mpirun"), 0700), 0);
	assert_int_equal(RUN(SERVE, "--", "nice", file("mpirun"), "-x", "A", "-n", "2",
			     "a program"), 0);
	SAYS("<-x HARTEBEEST_EXC_IP_PORT -x HARTEBEEST_");
	SAYS(" -x HARTEBEEST_JOB -x A -n 2 a program> <unset>");
	assert_int_equal(RUN(SERVE, "--", file("mpirun"), "-n", "2", "a program"), 0);
	SAYS("<-n 2 a program> <HARTEBEEST_EXC_IP_PORT;");
	unlink(file("mpirun"));
}

/* memcached's -c and -m follow from the number of ranks. */
static void ranks_that_are_planned(void **state)
{
	static const struct {
		const char *variable, *value;	/* "hosts": a file of 200 hosts */
		const char *words[3];
		const char *arguments;
	} rows[] = {
		{ NULL, NULL, { "true" }, " -c 1024 -m 64 " },
		{ NULL, NULL, { "-r1024", "true" }, " -c 8192 -m 580 " },
		{ NULL, NULL, { "-r1500", "true" }, " -c 12000 -m 1093 " },
		{ NULL, NULL, { "true", "-n", "200" }, " -c 1600 -m 83 " },
		{ NULL, NULL, { "true", "--np=300" }, " -c 2400 -m 108 " },
		{ NULL, NULL, { "true", "--hostfile", "hosts" }, " -c 2400 -m 108 " },
		{ "SLURM_NTASKS", "640", { "true" }, " -c 5120 -m 266 " },
		{ "SLURM_NTASKS", "640", { "-r200", "true" }, " -c 1600 -m 83 " },
		{ "PBS_NP", "640", { "true" }, " -c 5120 -m 266 " },
		{ "PBS_NODEFILE", "hosts", { "true" }, " -c 2400 -m 108 " },
		{ "LSB_DJOB_NUMPROC", "640", { "true" }, " -c 5120 -m 266 " },
		{ "LSB_DJOB_HOSTFILE", "hosts", { "true" }, " -c 2400 -m 108 " },
		{ "NSLOTS", "640", { "true" }, " -c 5120 -m 266 " },
		{ "FLUX_JOB_SIZE", "640", { "true" }, " -c 5120 -m 266 " },
		{ "LSB_DJOB_NUMPROC", "a lot", { "true" }, " -c 1024 -m 64 " },
	};
	FILE *hosts = fopen(file("hosts"), "w");
	char arguments[512];
	size_t i;
	int host;

	assert_non_null(hosts);
	fprintf(hosts, "# as Open MPI and PBS write it\n\n");
	for (host = 0; host < 100; host++)
		fprintf(hosts, "node%d slots=2\nnode%d\n", host, host);
	fclose(hosts);
	assert_int_equal(chdir(folder), 0);
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		setup(state);
		if (rows[i].variable)
			setenv(rows[i].variable, rows[i].value, 1);
		assert_int_equal(RUN(SERVE, rows[i].words[0], rows[i].words[1], rows[i].words[2]),
				 0);
		noted(arguments, sizeof(arguments));
		if (!strstr(arguments, rows[i].arguments))
			fail_msg("row %zu: memcached %s", i, arguments);
	}
	unlink(file("hosts"));
}

/* doctor measures what memcached has made of the numbers, and wants no greater server. */
static void as_doctor_wants_it(void **state)
{
	(void)state;
	RUN(SERVE, "-r1024", "--", tool, "doctor", "--ranks", "1024");
	SAYS(" of 8192 in use\n");
	SAYS(" of 580 MB in use, ");
	SAYS("; enough for these ranks\n");
	assert_null(strstr(talk.out, "-> memcached"));
}

/* A message as long as any may be is no longer than what memcached takes. */
static void the_longest_message(void **state)
{
	(void)state;
	assert_int_equal(SHELL("head -c 1046528 /dev/zero | $T msg push x - && "
			       "$T msg wait x | wc -c"), 0);
	SAYS("1046528\n");
}

/* ----------------------------------------------------------- the end --- */

static void starts_sleeping(void)
{
	BEGIN(tool, SERVE, "--", "sh", "-c", "trap 'echo told; exit 3' TERM HUP USR1; echo ready; "
	      "while :; do sleep 0.05; done");
	talk_until(&talk, "ready\n");
}

static void signals_are_passed_on(void **state)
{
	static const int numbers[] = { SIGTERM, SIGHUP, SIGUSR1 };
	size_t i;

	for (i = 0; i < BEEST_COUNT(numbers); i++) {
		setup(state);
		starts_sleeping();
		kill(talk.pid, numbers[i]);
		talk_end(&talk);
		SAYS("told");
		assert_int_equal(talk.status, 3);
		nothing_is_left();
	}
}

static void interrupted_at_the_terminal(void **state)
{
	(void)state;
	talk.terminal = true;
	BEGIN(tool, SERVE, "--", "sh", "-c", "trap 'echo told; exit 3' INT; echo ready; "
	      "while :; do sleep 0.05; done");
	talk_until(&talk, "ready");
	talk_type(&talk, "\003");
	talk_end(&talk);
	assert_int_equal(talk.status, 3);
	assert_ptr_equal(strstr(strstr(talk.out, "told") + 1, "told"), NULL);
	nothing_is_left();
}

/* The server's process ends; if it has become a child of this one, it is reaped. */
static void ends(pid_t pid)
{
	int i;

	for (i = 0; i < PATIENCE_TURNS && waitpid(pid, NULL, WNOHANG) <= 0 &&
	     kill(pid, 0) == 0; i++)
		pause_ms(10);
	assert_int_equal(kill(pid, 0), -1);
}

static void killed(void **state)
{
	char arguments[512];
	pid_t server;

	(void)state;
	starts_sleeping();
	server = noted(arguments, sizeof(arguments));
	kill(talk.pid, SIGKILL);
	talk_end(&talk);
	assert_int_equal(talk.status, 128 + SIGKILL);
	SAYS("told");			/* the command does not run on without its server */
	ends(server);
	nothing_is_left_soon();
}

/*
 * As a batch system kills all processes of a job at once: the next serve removes the secret.  The
 * server ends by itself, also one that root started, and is reaped here, since process 1 of a
 * container may reap none.
 */
static void killed_with_its_guard(void **state)
{
	char arguments[512];
	pid_t server;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	starts_sleeping();
	server = noted(arguments, sizeof(arguments));
	kill(talk.pid, SIGSTOP);
	kill(noted_guard(), SIGKILL);
	kill(talk.pid, SIGKILL);
	talk_end(&talk);
	ends(server);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
#ifdef HAVE_CRYPTO
	assert_true(is_there(".hartebeest/*"));
#endif
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "rm -r $HOME/hartebeest-*; $T " WORDS " -b"
			      " >$HOME/live; $T " WORDS " true; . $HOME/live; rm $HOME/live; "
			      "[ ! -e $HOME/.hartebeest ] || [ -e $HARTEBEEST_SECRET_FILE ]"), 0);
	nothing_is_left_soon();
}

/* The server is there again, at the same address, and the job continues. */
static void a_server_that_dies(void **state)
{
	static const char *const killed[] = { "noted", "guard" };
	size_t i;

	for (i = 0; i < BEEST_COUNT(killed); i++) {
		setup(state);
		setenv("KILLED", killed[i], 1);
		assert_int_equal(SHELL("read pid rest <$HOME/noted; read killed rest "
				       "<$HOME/$KILLED; kill -KILL $killed; until $T msg push x y "
				       "-t 1s 2>&- && read new rest <$HOME/noted && "
				       "[ $new != $pid ]; do :; done; $T msg wait x"), 0);
		SAYS("y");
		assert_null(strstr(talk.err, "cannot listen"));
		COMPLAINS("has ended, and was started again: ranks store their records again\n");
		nothing_is_left();
	}
}

/* The command ends once serve has reaped the last guard, so serve has judged that death. */
static void a_server_that_always_dies(void **state)
{
	(void)state;
	assert_int_equal(SHELL("old=; for i in 1 2 3 4; do until read pid rest <$HOME/noted && "
			       "[ \"$pid\" != \"$old\" ]; do :; done; kill -KILL $pid; old=$pid; "
			       "done; read guard <$HOME/guard; while kill -0 $guard 2>&-; do :; "
			       "done"), 0);
	COMPLAINS("has ended 4 times in a row, and is not started again: the job has none now");
	nothing_is_left();
}

/* ------------------------------------------------------------- other users --- */

/* As the user of memcached, whom root does not trust: a link takes the place of the folder. */
static void put_link(void)
{
	const struct passwd *user = getpwnam("nobody");
	char to[sizeof(path)];
	glob_t found;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		snprintf(to, sizeof(to), "%s/precious", folder);
		_exit(!user || setgid(user->pw_gid) < 0 || setuid(user->pw_uid) < 0 ||
		      glob(file("hartebeest-*"), 0, NULL, &found) != 0 ||
		      rename(found.gl_pathv[0], file("moved")) < 0 ||
		      symlink(to, found.gl_pathv[0]) < 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void make_precious(bool remove)
{
	static const char *const names[] = { "memcached", "port", "port.lck" };
	char name[64];
	size_t i;

	if (!remove)
		assert_int_equal(mkdir(file("precious"), 0755), 0);
	for (i = 0; i < BEEST_COUNT(names); i++) {
		snprintf(name, sizeof(name), "precious/%s", names[i]);
		if (remove)
			assert_int_equal(unlink(file(name)), 0);
		else
			assert_int_equal(mknod(file(name), S_IFREG | 0644, 0), 0);
	}
	if (remove)
		assert_int_equal(rmdir(file("precious")), 0);
}

/* Whoever removes the folder's files removes none behind the link. */
static void a_link_in_place_of_the_folder(void **state)
{
	enum { ENDED, SERVE_KILLED, GUARD_KILLED, WAYS };
	glob_t found;
	int way, i;

	if (geteuid())
		skip();
	assert_int_equal(chmod(folder, 01777), 0);
	for (way = ENDED; way < WAYS; way++) {
		setup(state);
		make_precious(false);
		starts_sleeping();
		put_link();
		kill(way == GUARD_KILLED ? noted_guard() : talk.pid,
		     way == ENDED ? SIGTERM : SIGKILL);
		for (i = 0; i < PATIENCE_TURNS && is_there("moved/port") &&
			    is_there("precious/port"); i++)
			pause_ms(10);
		if (way == GUARD_KILLED)
			kill(talk.pid, SIGTERM);
		talk_end(&talk);
		make_precious(true);
		assert_false(is_there("moved/*"));
		rmdir(file("moved"));
		assert_int_equal(glob(file("hartebeest-*"), 0, NULL, &found), 0);
		assert_int_equal(found.gl_pathc, 1);
		assert_int_equal(unlink(found.gl_pathv[0]), 0);
		globfree(&found);
		nothing_is_left_soon();
	}
	assert_int_equal(chmod(folder, 0777), 0);
}

/* The effective id in that line of /proc/PID/status. */
static int effective_id(pid_t pid, const char *word)
{
	char name[64], line[128];
	FILE *status;
	int id = -1;

	snprintf(name, sizeof(name), "/proc/%d/status", (int)pid);
	status = fopen(name, "r");
	assert_non_null(status);
	while (fgets(line, sizeof(line), status))
		if (!strncmp(line, word, strlen(word)))
			assert_int_equal(sscanf(line + strlen(word), "%*d %d", &id), 1);
	fclose(status);
	return id;
}

static void the_guard_is_not_root(void **state)
{
	const struct passwd *user = getpwnam("nobody");
	int i;

	(void)state;
	if (geteuid() || !user)
		skip();
	starts_sleeping();
	for (i = 0; i < PATIENCE_TURNS && effective_id(noted_guard(), "Uid:") == 0; i++)
		pause_ms(10);
	assert_int_equal(effective_id(noted_guard(), "Uid:"), user->pw_uid);
	assert_int_equal(effective_id(noted_guard(), "Gid:"), user->pw_gid);
	kill(talk.pid, SIGTERM);
	talk_end(&talk);
	nothing_is_left();
}

#ifdef HAVE_CRYPTO
/* A sanitizer maps more than anybody can read, and keeps no program's bytes there. */
#define MAPPING_MAX (UINT64_C(1) << 32)

/* How often the bytes are in memory that the process can write; -1: it may not be read. */
static int count_in_memory(pid_t pid, const void *bytes, size_t size)
{
	static char part[1 << 20];
	uint64_t from, to;
	char name[64], line[512], *at;
	FILE *maps;
	ssize_t got;
	int memory, count = 0;

	snprintf(name, sizeof(name), "/proc/%d/mem", (int)pid);
	memory = open(name, O_RDONLY);
	if (memory < 0)
		return -1;
	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	maps = fopen(name, "r");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) != 2 ||
		    !strstr(line, " rw") || to - from > MAPPING_MAX)
			continue;
		for (; from < to; from += sizeof(part) - size) {
			got = pread(memory, part, BEEST_MIN(sizeof(part), to - from), (off_t)from);
			for (at = part; got > 0 && (at = memmem(at, (size_t)(part + got - at),
								bytes, size)); at++)
				count++;
		}
	}
	fclose(maps);
	close(memory);
	return count;
}

/* Its path is there, so this would find the secret, too. */
static void process_has_no_secret(pid_t pid, const char *name, const char text[64],
				  const uint8_t bytes[32])
{
	int count = count_in_memory(pid, name, strlen(name));

	if (count < 0) {
		print_message("the memory of process %d may not be read\n", (int)pid);
		return;
	}
	assert_int_not_equal(count, 0);
	assert_int_equal(count_in_memory(pid, bytes, 32), 0);
	assert_int_equal(count_in_memory(pid, text, 64), 0);
}
#endif

/* Only the file has it, so that no core dump does. */
static void the_secret_is_not_in_memory(void **state)
{
#ifdef HAVE_CRYPTO
	char text[65] = "";
	uint8_t bytes[32];
	unsigned int byte;
	glob_t found;
	FILE *from;
	size_t i;

	(void)state;
	starts_sleeping();
	assert_int_equal(glob(file(".hartebeest/secret-*"), 0, NULL, &found), 0);
	from = fopen(found.gl_pathv[0], "r");
	assert_non_null(from);
	assert_int_equal(fscanf(from, "%64s", text), 1);
	fclose(from);
	for (i = 0; i < sizeof(bytes); i++) {
		assert_int_equal(sscanf(text + 2 * i, "%2x", &byte), 1);
		bytes[i] = (uint8_t)byte;
	}
	process_has_no_secret(talk.pid, found.gl_pathv[0], text, bytes);
	process_has_no_secret(noted_guard(), found.gl_pathv[0], text, bytes);
	globfree(&found);
	kill(talk.pid, SIGTERM);
	talk_end(&talk);
	nothing_is_left();
#else
	(void)state;
	skip();
#endif
}

static void folders_for_the_secret(void **state)
{
#ifdef HAVE_CRYPTO
	static const struct {
		int mode;
		bool good;
	} rows[] = {
		{ 0700, true }, { 0755, true }, { 01777, true }, { 0777, false }, { 0775, false },
		{ 0757, false }, { 02770, false },
	};
	char shared[sizeof(path)], sentence[1024];
	const char *shown;
	char *real;
	size_t i;
	int given;

	(void)state;
	for (i = 0; i < 2 * BEEST_COUNT(rows); i++) {
		given = i & 1;
		snprintf(shared, sizeof(shared), "%s", file(given ? "shared" : ".hartebeest"));
		mkdir(shared, 0700);
		assert_int_equal(chmod(shared, (mode_t)rows[i / 2].mode), 0);
		if (given)
			RUN(SERVE, "-s", shared, "--", "sh", "-c", "echo $HARTEBEEST_SECRET_FILE");
		else
			RUN(SERVE, "--", "sh", "-c", "echo $HARTEBEEST_SECRET_FILE");
		assert_int_equal(talk.status, !rows[i / 2].good);
		/* It prints a folder that was given without the links in its path. */
		real = realpath(shared, NULL);
		assert_non_null(real);
		shown = given ? real : shared;
		snprintf(sentence, sizeof(sentence), "no secret in %s: users other than its owner "
			 "may write there (mode %04o), and so remove the secret: run chmod go-w "
			 "%s, or give --secret-dir another folder\n", shown, rows[i / 2].mode,
			 shown);
		if (rows[i / 2].good)
			SAYS(shown);
		else
			COMPLAINS(sentence);
		free(real);
		assert_int_equal(rmdir(shared), 0);
	}
	nothing_is_left();
#else
	(void)state;
	skip();
#endif
}

/* ---------------------------------------------------- without a command --- */

/* What it prints is the environment of a job in another shell. */
static void alone(void **state)
{
	(void)state;
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "$T " WORDS " >$HOME/environment & "
			      "until grep -q SERVE_PID $HOME/environment; do sleep 0.05; done; "
			      ". $HOME/environment; $T msg push x y && $T msg wait x && $T keys; "
			      "cat $HOME/environment; rm $HOME/environment; "
			      "kill $HARTEBEEST_SERVE_PID; wait $!"), 0);
	SAYS("yjob -\n");
	SAYS("# memcached listens at 127.0.0.1:");
	SAYS(" until this process ends; for the shell of a job:\n"
	     "HARTEBEEST_EXC_IP_PORT='127.0.0.1:");
	SAYS("\n# a launcher names each run; without one: export HARTEBEEST_JOB=NAME\n");
	nothing_is_left();
}

static void alone_without_its_server(void **state)
{
	char arguments[512];
	pid_t server = 0, dead;
	int deaths;

	(void)state;
	BEGIN(tool, SERVE);
	talk_until(&talk, "HARTEBEEST_SERVE_PID");
	for (deaths = 0; deaths < 4; deaths++) {
		for (dead = server; server == dead; pause_ms(10))
			server = noted(arguments, sizeof(arguments));
		kill(server, SIGKILL);
	}
	talk_end(&talk);
	assert_int_equal(talk.status, 1);
	COMPLAINS("has ended 4 times in a row, and is not started again");
	nothing_is_left();
}

/* ----------------------------------------------------- batch scripts --- */

static void in_the_background(void **state)
{
	static const char *const shells[] = { "/bin/bash", "/bin/dash" };
	char arguments[512];
	size_t i;

	for (i = 0; i < BEEST_COUNT(shells); i++) {
		setup(state);
		assert_int_equal(TALK(&talk, shells[i], "-c", "eval \"$($T " WORDS " -b)\"; "
				      "$T msg push x y && $T msg wait x && $T keys; true"), 0);
		SAYS("yjob -\n");	/* each step of the launcher has one */
		assert_int_equal(TALK(&talk, shells[i], "-c", "eval $($T " WORDS " -b); "
				      "$T msg push x y && $T msg wait x"), 0);
		ends(noted(arguments, sizeof(arguments)));
		nothing_is_left_soon();
	}
}

/* eval of nothing would be a success, and the script would go on without a server. */
static void eval_fails_too(void **state)
{
	static const struct {
		const char *words;
		int status;
	} rows[] = {
		{ "-b -l eth99", 1 },
		{ "--background --bogus", 2 },
		{ "-b true", 2 },
	};
	static const char *const shells[] = { "/bin/bash", "/bin/dash" };
	char script[256];
	size_t i, shell;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++)
		for (shell = 0; shell < BEEST_COUNT(shells); shell++) {
			snprintf(script, sizeof(script), "set -e; eval \"$($T serve %s)\"; "
				 "echo further; exit 0", rows[i].words);
			assert_int_equal(TALK(&talk, shells[shell], "-c", script), rows[i].status);
			assert_string_equal(talk.out, "");
		}
}

static void ended_in_the_background(void **state)
{
	char arguments[512];

	(void)state;
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "eval \"$($T " WORDS " -b)\"; "
			      "kill $HARTEBEEST_SERVE_PID; read pid rest <$HOME/noted; "
			      "while kill -0 $pid 2>/dev/null; do sleep 0.05; done"), 0);
	ends(noted(arguments, sizeof(arguments)));
	nothing_is_left_soon();
}

/* ------------------------------------------------------------- wrong --- */

static void wrong_ways(void **state)
{
	static const struct {
		const char *words[6];
		int status;
		const char *sentence;
	} rows[] = {
		{ { "-l", "203.0.113.7", "true" }, 1, "no interface of this host has the address "
		  "203.0.113.7; give --listen the address or the interface that the job's nodes "
		  "reach; this host has " },
		{ { "-l", "eth99", "true" }, 1,
		  "this host has neither an address nor an interface 'eth99'" },
		{ { "-p", "0", "true" }, 2, "-p: '0'" },
		{ { "-b", "-l", "127.0.0.1", "true" }, 2, "--background takes no command" },
#ifdef HAVE_CRYPTO
		{ { "-l", "127.0.0.1", "-s", "/nonexistent", "true" }, 1, "cannot make the "
		  "secret in /nonexistent: No such file or directory; give --secret-dir a folder "
		  "that all nodes share; --no-secret leaves the records unsealed: then any "
		  "process that reaches 127.0.0.1 can direct RDMA writes" },
		{ { "-l", "127.0.0.1", "-s", "/proc", "true" }, 1,
		  "cannot make the secret in /proc: " },
#endif
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		assert_int_equal(RUN("serve", rows[i].words[0], rows[i].words[1], rows[i].words[2],
				     rows[i].words[3], rows[i].words[4], rows[i].words[5]),
				 rows[i].status);
		COMPLAINS(rows[i].sentence);
	}
	nothing_is_left();
}

static void a_home_that_cannot_be_written(void **state)
{
	(void)state;
	setenv("HOME", "/nonexistent", 1);
#ifdef HAVE_CRYPTO
	assert_int_equal(RUN(SERVE, "true"), 1);
	COMPLAINS("cannot make the secret in /nonexistent/.hartebeest: No such file or directory; "
		  "give --secret-dir a folder that all nodes share");
#endif
	assert_int_equal(RUN(SERVE, "--no-secret", "true"), 0);
	nothing_is_left();
}

/* A wish of the user's is not set aside in silence. */
static void another_server_is_named(void **state)
{
	(void)state;
	setenv("HARTEBEEST_EXC_IP_PORT", "node0:11211", 1);
	setenv("HARTEBEEST_SECRET_FILE", "/some/secret", 1);
	assert_int_equal(RUN("serve", "-l127.0.0.1", "--no-secret", "--", "sh", "-c",
			     "echo $HARTEBEEST_EXC_IP_PORT $HARTEBEEST_SECRET_FILE"), 0);
	SAYS("127.0.0.1:");
	assert_null(strstr(talk.out, "/some/secret"));
	COMPLAINS("hartebeest serve: HARTEBEEST_EXC_IP_PORT was node0:11211, and is 127.0.0.1:");
	COMPLAINS(" for this job; to use the earlier value, leave serve out\n");
	COMPLAINS("hartebeest serve: HARTEBEEST_SECRET_FILE was /some/secret, and is unset for ");
	/* What remains of an earlier serve is no wish. */
	setenv("HARTEBEEST_SERVE_PID", "4194305", 1);
	assert_int_equal(SHELL("echo $HARTEBEEST_EXC_IP_PORT"), 0);
	SAYS("127.0.0.1:");
	assert_string_equal(talk.err, "");
}

static void a_port_that_is_taken(void **state)
{
	struct cache *cache = cache_start(NULL);
	char number[16], sentence[128];

	(void)state;
	snprintf(number, sizeof(number), "%d", cache_hostport(cache)->port);
	assert_int_equal(RUN(SERVE, "-p", number, "true"), 1);
	snprintf(sentence, sizeof(sentence), "memcached cannot listen at 127.0.0.1, port %s: "
		 "Address already in use", number);
	COMPLAINS(sentence);
	cache_end(cache);
	assert_int_equal(RUN(SERVE, "-p", number, "sh", "-c", "echo $HARTEBEEST_EXC_IP_PORT"), 0);
	snprintf(sentence, sizeof(sentence), "127.0.0.1:%s\n", number);
	SAYS(sentence);
	nothing_is_left();
}

/* For any user but root, and for root without the capability to raise a limit. */
static void few_descriptors(void **state)
{
	(void)state;
	if (TALK(&talk, "/bin/sh", "-c", "ulimit -n 200 && exec setpriv "
		 "--bounding-set=-sys_resource --inh-caps=-sys_resource true") != 0)
		skip();
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "ulimit -n 200 && exec setpriv "
			      "--bounding-set=-sys_resource --inh-caps=-sys_resource $T " WORDS
			      " -r 1000 true"), 1);
	COMPLAINS("memcached needs 8032 file descriptors for 1000 ranks, and this process may have "
		  "200: raise ulimit -Hn, or give a smaller --ranks");
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "ulimit -n 8223 && exec setpriv "
			      "--bounding-set=-sys_resource --inh-caps=-sys_resource $T " WORDS
			      " -r 1024 true"), 1);
	COMPLAINS("memcached needs 8224 file descriptors for 1024 ranks, and this process may have "
		  "8223: ");
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "ulimit -n 8224 && exec setpriv "
			      "--bounding-set=-sys_resource --inh-caps=-sys_resource $T " WORDS
			      " -r 1024 true"), 0);
	/* Fewer ranks would need as many. */
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", "ulimit -n 200 && exec setpriv "
			      "--bounding-set=-sys_resource --inh-caps=-sys_resource $T " WORDS
			      " true"), 1);
	COMPLAINS("memcached needs 1056 file descriptors, and this process may have 200: raise "
		  "ulimit -Hn\n");
	nothing_is_left();
}

/* As in a container of one user, who is root there. */
static void a_user_that_is_not_mapped(void **state)
{
	(void)state;
	if (TALK(&talk, "/usr/bin/unshare", "-r", "test", "-x", folder) != 0)
		skip();
	assert_int_equal(TALK(&talk, "/usr/bin/unshare", "-r", "sh", "-c", "exec $T " WORDS
			      " true"), 1);
	COMPLAINS("hartebeest serve: memcached as user nobody did not start: there is no such "
		  "user in this user name space\n");
	nothing_is_left();
}

static void serves_elsewhere(const char *temporary)
{
	setenv("TMPDIR", temporary, 1);
	assert_int_equal(RUN(SERVE, "true"), 0);
	assert_int_equal(RUN("run", "-n1", "--", "sh", "-c", "echo $HARTEBEEST_EXC_IP_PORT"), 0);
	SAYS("0: /");
}

/* TMPDIR does not serve.  If no other folder does, that of XDG_RUNTIME_DIR does. */
static void another_folder(void **state)
{
#define DOTS "/././././././././././././././."

	(void)state;
	assert_int_equal(mkdir(file("closed"), 0700), 0);
	assert_int_equal(mkdir(file("closed/open"), 0777), 0);
	setenv("XDG_RUNTIME_DIR", folder, 1);
	serves_elsewhere(file("closed/open"));
	serves_elsewhere(file("none"));
	serves_elsewhere(file(DOTS DOTS DOTS DOTS DOTS));
	serves_elsewhere(".");
	rmdir(file("closed/open")), rmdir(file("closed"));
	nothing_is_left();
}

static void without_memcached(void **state)
{
	(void)state;
	setenv("PATH", "/nonexistent", 1);
	assert_int_equal(RUN(SERVE, "/bin/true"), 1);
	COMPLAINS("there is no memcached in PATH: install the package memcached\n");
	nothing_is_left();
}

/* Its own words, which may be of several lines. */
static void a_memcached_that_does_not_start(void **state)
{
	(void)state;
	setenv("LAST_WORDS", "bind(): Permission denied\nfailed to listen on TCP port 80\n", 1);
	assert_int_equal(RUN(SERVE, "true"), 1);
	COMPLAINS(geteuid() ? "hartebeest serve: memcached did not start: " :
		  "hartebeest serve: memcached as user nobody did not start: ");
	COMPLAINS(": bind(): Permission denied; failed to listen on TCP port 80\n");
	setenv("LAST_WORDS", "\n", 1);
	assert_int_equal(RUN(SERVE, "true"), 1);
	COMPLAINS(" did not start: 'memcached -vv' may say why\n");
	nothing_is_left();
}

static void one_within_the_other(void **state)
{
	static const char *const malformed[] = { "", "abc", "0", "-1", "4294967297" };
	size_t i;

	(void)state;
	assert_int_equal(SHELL("exec $T serve -l 127.0.0.1 --no-secret true"), 1);
	COMPLAINS(" serves this job already, at 127.0.0.1:");
	COMPLAINS("leave one of the two out, or unset HARTEBEEST_SERVE_PID");
	/* None of these names a server that the ranks would use. */
	assert_int_equal(SHELL("unset HARTEBEEST_EXC_IP_PORT; exec $T serve -l 127.0.0.1 "
			       "--no-secret true"), 0);
	setenv("HARTEBEEST_EXC_IP_PORT", "127.0.0.1:11211", 1);
	for (i = 0; i < BEEST_COUNT(malformed); i++) {
		setenv("HARTEBEEST_SERVE_PID", malformed[i], 1);
		assert_int_equal(RUN(SERVE, "true"), 0);
	}
	nothing_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_job, setup),
		cmocka_unit_test_setup(without_a_secret, setup),
		cmocka_unit_test_setup(a_name_for_the_job, setup),
		cmocka_unit_test_setup(statuses, setup),
		cmocka_unit_test_setup(variables_to_pass_on, setup),
		cmocka_unit_test_setup(options_to_pass_on, setup),
		cmocka_unit_test_setup(ranks_that_are_planned, setup),
		cmocka_unit_test_setup(as_doctor_wants_it, setup),
		cmocka_unit_test_setup(the_longest_message, setup),
		cmocka_unit_test_setup(signals_are_passed_on, setup),
		cmocka_unit_test_setup(interrupted_at_the_terminal, setup),
		cmocka_unit_test_setup(killed, setup),
		cmocka_unit_test_setup(killed_with_its_guard, setup),
		cmocka_unit_test_setup(a_link_in_place_of_the_folder, setup),
		cmocka_unit_test_setup(the_guard_is_not_root, setup),
		cmocka_unit_test_setup(the_secret_is_not_in_memory, setup),
		cmocka_unit_test_setup(folders_for_the_secret, setup),
		cmocka_unit_test_setup(a_server_that_dies, setup),
		cmocka_unit_test_setup(a_server_that_always_dies, setup),
		cmocka_unit_test_setup(alone, setup),
		cmocka_unit_test_setup(alone_without_its_server, setup),
		cmocka_unit_test_setup(in_the_background, setup),
		cmocka_unit_test_setup(eval_fails_too, setup),
		cmocka_unit_test_setup(ended_in_the_background, setup),
		cmocka_unit_test_setup(wrong_ways, setup),
		cmocka_unit_test_setup(a_home_that_cannot_be_written, setup),
		cmocka_unit_test_setup(another_server_is_named, setup),
		cmocka_unit_test_setup(a_port_that_is_taken, setup),
		cmocka_unit_test_setup(few_descriptors, setup),
		cmocka_unit_test_setup(a_user_that_is_not_mapped, setup),
		cmocka_unit_test_setup(another_folder, setup),
		cmocka_unit_test_setup(without_memcached, setup),
		cmocka_unit_test_setup(a_memcached_that_does_not_start, setup),
		cmocka_unit_test_setup(one_within_the_other, setup),
	};
	char secrets[128];
	int failed;

	cache_need();
	tool = talk_tool();
	scratch_folder(folder, "serve");
	/* Root's memcached runs as another user, who writes the notes. */
	if (chmod(folder, 0777) < 0)
		return 1;
	write_memcached();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(file("memcached")), unlink(file("noted")), unlink(file("guard"));
	snprintf(secrets, sizeof(secrets), "%s/.hartebeest", folder);
	rmdir(secrets);
	rmdir(folder);
	return failed;
}
