/* SPDX-License-Identifier: MIT */
/*
 * command.h - what a subcommand of hartebeest(1) is
 *
 * Owns the table of subcommands, by which they are called, explained by --help and completed
 * by shells.  Knows nothing of what a subcommand does.
 *
 * A new subcommand needs a file with a struct command, a line in the table of command.c, a
 * section in man/hartebeest.1, and a line for the file in Makefile.am.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include "tools/args.h"
#include "tools/out.h"

/* Exit statuses.  A command that runs a program may exit with the program's status. */
enum {
	STATUS_GOOD = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_TIMEOUT = 3,
	/* only from run() below: wrong words; a hint at --help and STATUS_USAGE follow */
	STATUS_MISUSED = -1,
};

struct command {
	const char *name;
	const char *operands;		/* as help shows them, "KEY [VALUE]"; NULL: none */
	const char *help;		/* one line */
	const char *more;		/* shown below the options of --help; NULL: nothing */
	const struct args_option *options;	/* ended by one without name; NULL: none */
	const struct command *verbs;	/* "push" of "msg push", ended by one without name; NULL */
	bool runs_program;		/* its operands are a program and the program's words */
	int least, most;		/* how many operands */
	/* @operands end with NULL.  Returns a status. */
	int (*run)(struct out *out, int count, char **operands);
	/* Called with a status other than STATUS_GOOD, at the end, also of wrong words; or NULL. */
	void (*failed)(int status);
};

/* The whole program: finds the command, parses its options, runs it.  Returns a status. */
int command_main(int argc, char **argv);

#endif
