/* SPDX-License-Identifier: MIT */
/*
 * args.h - options of a command line, by table
 *
 * Owns their grammar: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, flags together as -ab,
 * and "--", after which all words are operands.  Stores each value where its row points.
 * Knows nothing of subcommands.
 */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum args_kind {
	ARGS_FLAG,		/* bool */
	ARGS_INT,		/* int64_t; also 0x10 */
	ARGS_TIME,		/* int64_t, nanoseconds: "5s", "200ms" */
	ARGS_TEXT,		/* const char * */
	ARGS_LIST,		/* struct args_list: may be repeated */
};

#define ARGS_LIST_MAX 63

/* For commands that take any number of operands. */
#define ARGS_WORDS_MAX 1000000

/* Ended by NULL. */
struct args_list {
	const char *text[ARGS_LIST_MAX + 1];
	size_t count;
};

struct args_option {
	const char *name;		/* "timeout": given as --timeout */
	char letter;			/* 't': given as -t, too; 0: none */
	enum args_kind kind;
	void *to;			/* holds the default until the option is given */
	const char *value;		/* its name in the help: "TIME"; NULL: a flag */
	const char *help;		/* one line */
	int64_t min, max;		/* ARGS_INT, ARGS_TIME */
	const char *const *words;	/* ARGS_TEXT: one of these, ended by NULL; NULL: any */
};

struct args {
	const struct args_option *const *tables;	/* ended by NULL */
	bool first_ends;	/* all words after the first operand are operands */
	/* out */
	char **operands;	/* within argv, ended by NULL */
	int count;
	char why[512];
};

/*
 * @argv: ended by NULL, without the command's name; operands are moved to its front.
 * Returns false with a sentence in @why.
 */
bool args_parse(struct args *args, int argc, char **argv);

/* Finds the option of a word "--name", "--name=VALUE" or "-n"; NULL: none. */
const struct args_option *args_find(const struct args_option *const *tables, const char *word);

/* "-t, --timeout TIME". */
#define ARGS_TITLE 64
const char *args_title(const struct args_option *option, char title[ARGS_TITLE]);

#endif
