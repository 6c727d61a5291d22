/* SPDX-License-Identifier: MIT */
/*
 * command.h - what a subcommand of hartebeest(1) is
 *
 * Owns the table of subcommands, from which --help, the completion of shells and the call
 * come.  Knows nothing of what a subcommand does.
 *
 * A new one is a file with a struct command, a line in the table of command.c, a section in
 * man/hartebeest.1, and its file's name in Makefile.am.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include "tools/args.h"
#include "tools/out.h"

/* What a command exits with; one that runs a program may exit with what that did. */
enum {
	STATUS_GOOD = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_TIMEOUT = 3,
	/* of run() below: its words are wrong: --help is named, STATUS_USAGE follows */
	STATUS_MISUSED = -1,
};

struct command {
	const char *name;
	const char *operands;		/* as help shows them, "KEY [VALUE]"; NULL: it has none */
	const char *help;		/* one line */
	const char *more;		/* below the options of --help; NULL: nothing */
	const struct args_option *options;	/* ended by one without name; NULL: none */
	const struct command *verbs;	/* "push" of "msg push", ended by one without name; NULL */
	bool runs_program;		/* its operands are a program with options of its own */
	int least, most;		/* how many operands */
	/* @operands end with NULL.  Returns a status. */
	int (*run)(struct out *out, int count, char **operands);
};

/* The whole program: finds the command, parses its options, runs it.  Returns a status. */
int command_main(int argc, char **argv);

#endif
