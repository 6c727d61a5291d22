/* SPDX-License-Identifier: MIT */
/*
 * talk.h - a command in a separate process, on pipes or on a pseudo terminal
 *
 * Owns the process, its three streams and its output.  Knows nothing of the command.
 */
#ifndef TESTS_TALK_H
#define TESTS_TALK_H

#include <stdbool.h>
#include <sys/types.h>

#define TALK_SIZE (256 * 1024)
#define TALK_WORDS 32

struct talk {
	/* in */
	int (*program)(int argc, char **argv);	/* NULL: words[0] is a path, for execv(3) */
	const char *words[TALK_WORDS];		/* the command line, which NULL ends */
	const char *input;			/* standard input; NULL: none */
	bool terminal;				/* all streams are one pseudo terminal */
	int columns;				/* of the terminal; 0: 80 */
	bool passed_on;				/* all output, as it arrives, to standard error */
	/* out */
	int status;				/* exit status, or 128 + the signal */
	char out[TALK_SIZE], err[TALK_SIZE];	/* on a terminal, all is in out */
	/* internal */
	pid_t pid;
	int fd[2];
	size_t used[2];
};

/* Starts the command; fails the test if that is impossible. */
void talk_begin(struct talk *talk);

/*
 * Waits until standard output contains @text; fails the test if the command ends before.  No wait
 * has a limit: a test that is ended as hung prints what its commands have said.
 */
void talk_until(struct talk *talk, const char *text);

/* Types @text at its terminal. */
void talk_type(struct talk *talk, const char *text);

/* Waits until it ends. */
void talk_end(struct talk *talk);

/* Starts a command line and waits for its end. */
#define TALK(talk, ...) talk_words((talk), (const char *const[]){ __VA_ARGS__, NULL })
int talk_words(struct talk *talk, const char *const *words);

/* Fails the test unless standard output, or standard error, contains @text. */
void talk_says(const struct talk *talk, const char *text);
void talk_complains(const struct talk *talk, const char *text);

/*
 * The path of the build folder, and that of hartebeest(1) as built or, where the machine has a
 * settings file, of one that does not read it.
 */
void talk_build_folder(char *path, size_t size);
const char *talk_tool(void);

#endif
