/* SPDX-License-Identifier: MIT */
/* talk.c - see talk.h */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tests/support/ended.h"
#include "tests/support/scratch.h"
#include "tests/support/talk.h"
#include "tests/support/timer.h"
#include "tests/support/unit.h"

#define TALKS 8			/* at a time */

static const struct talk *talks[TALKS];

/* Does not return. */
static void run(const struct talk *talk)
{
	int count = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	timer_leave();
	while (talk->words[count])
		count++;
	if (talk->program)
		exit(talk->program(count, (char **)talk->words));
	execv(talk->words[0], (char *const *)talk->words);
	_exit(127);
}

/* --------------------------------------------------------------- pipes --- */

/* An unnamed file, at its start. */
static int input_file(const char *text)
{
	char path[SCRATCH_SIZE];
	int fd = scratch_file(path, "hartebeest-input");

	assert_int_equal(unlink(path), 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void begin_on_pipes(struct talk *talk)
{
	int input = talk->input ? input_file(talk->input) : open("/dev/null", O_RDONLY);
	int out[2], err[2];

	assert_int_equal(pipe(out), 0);
	assert_int_equal(pipe(err), 0);
	talk->pid = fork();
	if (talk->pid == 0) {
		dup2(input, 0);
		dup2(out[1], 1);
		dup2(err[1], 2);
		close(out[0]), close(out[1]), close(err[0]), close(err[1]), close(input);
		run(talk);
	}
	close(out[1]), close(err[1]), close(input);
	talk->fd[0] = out[0];
	talk->fd[1] = err[0];
}

/* ------------------------------------------------------------ terminal --- */

static void begin_on_terminal(struct talk *talk)
{
	struct winsize size = { .ws_row = 24, .ws_col = talk->columns ? talk->columns : 80 };
	int own, terminal;

	surroundings_need_terminal();
	own = posix_openpt(O_RDWR | O_NOCTTY);
	assert_true(own >= 0 && grantpt(own) == 0 && unlockpt(own) == 0);
	talk->pid = fork();
	if (talk->pid == 0) {
		timer_leave();
		setsid();
		terminal = open(ptsname(own), O_RDWR);
		ioctl(terminal, TIOCSCTTY, 0);
		ioctl(terminal, TIOCSWINSZ, &size);
		dup2(terminal, 0), dup2(terminal, 1), dup2(terminal, 2);
		close(terminal), close(own);
		setenv("TERM", "xterm", 1);
		run(talk);
	}
	talk->fd[0] = own;
	talk->fd[1] = -1;
	if (talk->input)
		talk_type(talk, talk->input);
}

/* -------------------------------------------------- pipes and terminal --- */

/* A terminal whose other end was closed returns EIO. */
static bool take(struct talk *talk, int stream)
{
	char *to = stream ? talk->err : talk->out;
	size_t *used = &talk->used[stream];
	ssize_t got = read(talk->fd[stream], to + *used, TALK_SIZE - 1 - *used);

	if (got < 0 && errno == EINTR)
		return true;
	if (got <= 0) {
		close(talk->fd[stream]);
		talk->fd[stream] = -1;
		return false;
	}
	if (talk->passed_on && write(STDERR_FILENO, to + *used, (size_t)got) < 0)
		return false;
	*used += (size_t)got;
	to[*used] = '\0';
	return true;
}

/* False: both streams have ended. */
static bool listen_on(struct talk *talk)
{
	struct pollfd polled[2] = {
		{ .fd = talk->fd[0], .events = POLLIN },
		{ .fd = talk->fd[1], .events = POLLIN },
	};
	int i, ready;

	if (talk->fd[0] < 0 && talk->fd[1] < 0)
		return false;
	ready = poll(polled, 2, -1);
	for (i = 0; ready > 0 && i < 2; i++)
		if (polled[i].fd >= 0 && polled[i].revents)
			take(talk, i);
	return true;
}

/* ---------------------------------------------------- begin, wait, end --- */

static void print_all(void)
{
	int i;

	for (i = 0; i < TALKS; i++)
		if (talks[i])
			print_error("'%s %s' had said:\n%s%s", talks[i]->words[0],
				    talks[i]->words[1] ? talks[i]->words[1] : "", talks[i]->out,
				    talks[i]->err);
}

static void note(const struct talk *talk, const struct talk *now)
{
	int i;

	for (i = 0; i < TALKS; i++)
		if (talks[i] == talk)
			break;
	if (i < TALKS)
		talks[i] = now;
}

void talk_begin(struct talk *talk)
{
	ended_prints(print_all);
	note(talk, NULL);
	note(NULL, talk);
	fflush(stdout), fflush(stderr);
	talk->out[0] = talk->err[0] = '\0';
	talk->used[0] = talk->used[1] = 0;
	if (talk->terminal)
		begin_on_terminal(talk);
	else
		begin_on_pipes(talk);
	assert_true(talk->pid > 0);
}

void talk_until(struct talk *talk, const char *text)
{
	while (!strstr(talk->out, text))
		if (!listen_on(talk))
			fail_msg("the command ended without '%s': %s%s", text, talk->out,
				 talk->err);
}

/* A signal may interrupt it even if there is room, unlike with a pipe. */
void talk_type(struct talk *talk, const char *text)
{
	assert_int_equal(TEMP_FAILURE_RETRY(write(talk->fd[0], text, strlen(text))), strlen(text));
}

void talk_end(struct talk *talk)
{
	int status;

	while (listen_on(talk))
		;
	assert_int_equal(waitpid(talk->pid, &status, 0), talk->pid);
	note(talk, NULL);
	talk->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int talk_words(struct talk *talk, const char *const *words)
{
	int i;

	for (i = 0; words[i]; i++)
		talk->words[i] = words[i];
	talk->words[i] = NULL;
	talk_begin(talk);
	talk_end(talk);
	return talk->status;
}

/* ------------------------------------------------------------- judging --- */

void talk_says(const struct talk *talk, const char *text)
{
	if (!strstr(talk->out, text))
		fail_msg("standard output has no '%s':\n%s%s", text, talk->out, talk->err);
}

void talk_complains(const struct talk *talk, const char *text)
{
	if (!strstr(talk->err, text))
		fail_msg("standard error has no '%s':\n%s%s", text, talk->out, talk->err);
}

/* Tests are two folders deep. */
void talk_build_folder(char *path, size_t size)
{
	ssize_t length = readlink("/proc/self/exe", path, size - 1);
	int i;

	assert_true(length > 0);
	path[length] = '\0';
	for (i = 0; i < 3; i++)
		*strrchr(path, '/') = '\0';
}

/*
 * The program behind libtool's script in tools/, if there is one: the script starts many
 * others.  The library that it uses reads the settings file of the machine.
 */
const char *talk_tool(void)
{
	static char tool[4096];
	const char *path = getenv("LD_LIBRARY_PATH");
	char build[3072], libraries[8192];

	talk_build_folder(build, sizeof(build));
	snprintf(tool, sizeof(tool), "%s/tests/support/hartebeest", build);
	if (access(BEEST_SYSTEM_FILE, F_OK) == 0 && access(tool, X_OK) == 0)
		return tool;
	snprintf(tool, sizeof(tool), "%s/tools/.libs/hartebeest", build);
	if (access(tool, X_OK) != 0) {
		snprintf(tool, sizeof(tool), "%s/tools/hartebeest", build);
		return tool;
	}
	snprintf(libraries, sizeof(libraries), "%s/lib/.libs%s%s", build, path ? ":" : "",
		 path ? path : "");
	setenv("LD_LIBRARY_PATH", libraries, 1);
	return tool;
}
