/* SPDX-License-Identifier: MIT */
/* command.c - see command.h */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "tools/command.h"
#include "tools/session.h"

/* In the order in which help shows them. */
extern const struct command doctor_command;
extern const struct command info_command;
extern const struct command keys_command;
extern const struct command mesh_command;
extern const struct command msg_command;
extern const struct command ping_command;
extern const struct command run_command;
extern const struct command serve_command;

static const struct command *const commands[] = {
	&info_command,
	&doctor_command,
	&ping_command,
	&mesh_command,
	&run_command,
	&serve_command,
	&msg_command,
	&keys_command,
	NULL
};

static bool wants_help, wants_json;

static const struct args_option help_options[] = {
	{ "help", 'h', ARGS_FLAG, &wants_help, .help = "this text" },
	{ .name = NULL },
};

static const struct args_option object_options[] = {
	{ "json", 0, ARGS_FLAG, &wants_json, .help = "one JSON object instead of lines" },
	{ .name = NULL },
};

#define TABLES 5

/* Collects the tables of all options that @command takes, ended by NULL. */
static void option_tables(const struct command *command,
			  const struct args_option *tables[TABLES])
{
	int count = 0;

	if (command->options)
		tables[count++] = command->options;
	if (command->run && !command->runs_program)
		tables[count++] = session_options;
	if (command->run)
		tables[count++] = object_options;
	tables[count++] = help_options;
	tables[count] = NULL;
}

/* ------------------------------------------------------------ finding --- */

/* Row @at of the verbs of @parent, or of all commands if that is NULL.  NULL: the end. */
static const struct command *command_next(const struct command *parent, int at)
{
	if (!parent)
		return commands[at];
	return parent->verbs && parent->verbs[at].name ? &parent->verbs[at] : NULL;
}

static const struct command *command_find(const struct command *parent, const char *name)
{
	const struct command *command;
	int i;

	for (i = 0; (command = command_next(parent, i)); i++)
		if (!strcmp(command->name, name))
			return command;
	return NULL;
}

/* --------------------------------------------------------------- help --- */

static void show_commands(const struct command *parent)
{
	const struct command *command;
	int i;

	for (i = 0; (command = command_next(parent, i)); i++)
		printf("  %-10s %s\n", command->name, command->help);
}

static void show_program(void)
{
	printf("Usage: hartebeest COMMAND [OPTION...] [ARGUMENT...]\n\n");
	show_commands(NULL);
	printf("\n'hartebeest COMMAND --help' explains a command, hartebeest(1) all of them.\n"
	       "'hartebeest --version' shows the version.\n"
	       "Exit status: 0 success, 1 failure, 2 wrong usage, 3 timeout.\n");
}

static void show_words(const struct args_option *option)
{
	const char *const *word;

	for (word = option->words; word && *word; word++)
		printf("%s%s", word == option->words ? ": " : ", ", *word);
	putchar('\n');
}

static void show_options(const struct command *command)
{
	const struct args_option *tables[TABLES], *option;
	char title[ARGS_TITLE];
	int i;

	option_tables(command, tables);
	printf("\n");
	for (i = 0; tables[i]; i++) {
		for (option = tables[i]; option->name; option++) {
			printf("  %-30s %s", args_title(option, title), option->help);
			show_words(option);
		}
	}
}

/* @name: "msg push". */
static void show_command(const struct command *command, const char *name)
{
	const char *operands = command->verbs ? "COMMAND" : command->operands;

	printf("Usage: hartebeest %s [OPTION...]%s%s\n\n", name, operands ? " " : "",
	       operands ? operands : "");
	printf("%s\n", command->help);
	if (command->verbs) {
		putchar('\n');
		show_commands(command);
	}
	show_options(command);
	if (command->more)
		printf("\n%s", command->more);
}

/* --------------------------------------------------------- completion --- */

/* Each offer is a line "WORD<tab>HELP".  The shell selects those that match what was typed. */

static void offer_options(const struct args_option *const *tables)
{
	const struct args_option *option;

	for (; *tables; tables++)
		for (option = *tables; option->name; option++)
			printf("--%s\t%s\n", option->name, option->help);
}

/* @before: what the shell counts as part of the same word: "--type=". */
static void offer_words(const struct args_option *option, const char *before, size_t length)
{
	const char *const *word;

	for (word = option->words; word && *word; word++)
		printf("%.*s%s\t%s\n", (int)length, before, *word, option->help);
}

static void offer_commands(const struct command *parent)
{
	const struct command *command;
	int i;

	for (i = 0; (command = command_next(parent, i)); i++)
		printf("%s\t%s\n", command->name, command->help);
}

/* The option whose value the last word is, after "--type" or in "--type=VALUE"; NULL: none. */
static const struct args_option *option_open(const struct args_option *const *tables, int count,
					     char **words)
{
	const struct args_option *option = NULL;

	if (strchr(words[count - 1], '='))
		option = args_find(tables, words[count - 1]);
	else if (count > 1 && !strchr(words[count - 2], '='))
		option = args_find(tables, words[count - 2]);
	return option && option->kind != ARGS_FLAG ? option : NULL;
}

/*
 * bash splits "--type=rc" into three words.  Makes the last word the value and the word before
 * it the option.  Returns the new count.
 */
static int join_words(int count, char **words)
{
	if (count > 1 && !strcmp(words[count - 1], "=")) {
		words[count - 1][0] = '\0';
	} else if (count > 2 && !strcmp(words[count - 2], "=")) {
		words[count - 2] = words[count - 1];
		count--;
	}
	return count;
}

/*
 * hartebeest --complete WORD...: prints what could replace the last word.  Prints nothing where
 * the shell knows better, as for file names.
 */
static int complete(int count, char **words)
{
	const struct args_option *tables[TABLES], *option;
	const struct command *command = NULL, *found;
	char *last;

	count = join_words(count, words);
	while (count > 1 && (found = command_find(command, words[0]))) {
		command = found;
		words++, count--;
	}
	if (count < 1)
		return STATUS_GOOD;
	if (!command || (command->verbs && words[count - 1][0] != '-')) {
		offer_commands(command);
		return STATUS_GOOD;
	}

	option_tables(command, tables);
	option = option_open(tables, count, words);
	last = words[count - 1];
	if (option)
		offer_words(option, last, strchr(last, '=') ? strcspn(last, "=") + 1 : 0);
	else if (last[0] == '-')
		offer_options(tables);
	return STATUS_GOOD;
}

/* ------------------------------------------------------------ running --- */

/* Ends a command that printed help or the like.  Returns the exit status. */
static int end_text(const char *name)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return STATUS_GOOD;
	fprintf(stderr, "hartebeest%s%s: standard output: %s\n", *name ? " " : "", name,
		strerror(errno));
	return STATUS_FAILED;
}

/* Follows the reason on standard error. */
static int refer_to_help(const char *name)
{
	fprintf(stderr, "Try 'hartebeest%s%s --help'.\n", *name ? " " : "", name);
	return STATUS_USAGE;
}

static int usage(const char *name, const char *why)
{
	fprintf(stderr, "hartebeest%s%s: %s\n", *name ? " " : "", name, why);
	return refer_to_help(name);
}

static int run(const struct command *command, const char *name, int count, char **operands)
{
	struct out out;
	int status;

	out_start(&out, name, wants_json);
	status = out_end(&out, command->run(&out, count, operands));
	if (session_signal())
		session_die();
	return status == STATUS_MISUSED ? refer_to_help(name) : status;
}

static int parse_and_run(const struct command *command, const char *name, int argc, char **argv)
{
	const struct args_option *tables[TABLES];
	struct args args = { .tables = tables,
			     .first_ends = command->verbs || command->runs_program };
	char why[700];
	const char *wrong;

	option_tables(command, tables);
	if (!args_parse(&args, argc, argv))
		return usage(name, args.why);
	if (wants_help) {
		show_command(command, name);
		return end_text(name);
	}

	wrong = command->verbs ? "a command is missing"
		: args.count < command->least ? "an argument is missing"
		: args.count > command->most ? "is one argument too many" : NULL;
	if (!wrong)
		return run(command, name, args.count, args.operands);
	snprintf(why, sizeof(why), "%s%s%s%s%s",
		 args.count > command->most ? BEEST_QUOTE(args.operands[command->most]) : "",
		 args.count > command->most ? " " : "", wrong, command->operands ? ": " : "",
		 command->operands ? command->operands : "");
	return usage(name, why);
}

/* Is @word an option of any command below @parent? */
static bool is_option(const struct command *parent, const char *word)
{
	const struct args_option *tables[TABLES];
	const struct command *command;
	int i;

	for (i = 0; (command = command_next(parent, i)); i++) {
		option_tables(command, tables);
		if (args_find(tables, word) || is_option(command, word))
			return true;
	}
	return false;
}

static int unknown_option(const char *word)
{
	char why[300];

	snprintf(why, sizeof(why), is_option(NULL, word) ? "%s is before the command: options "
		 "follow it" : "unknown option %s: without a command, there are --help and "
		 "--version", BEEST_QUOTE(word));
	return usage("", why);
}

static int unknown(const struct command *parent, const char *name, const char *word)
{
	const struct command *command;
	struct beest_nearest nearest = BEEST_NEAREST(word);
	char why[300];
	int i;

	for (i = 0; (command = command_next(parent, i)); i++)
		beest_nearest_offer(&nearest, command->name, command->name);
	snprintf(why, sizeof(why), "unknown command %s%s", BEEST_QUOTE(word),
		 BEEST_NEAREST_TEXT(&nearest));
	return usage(name, why);
}

static int dispatch(const struct command *parent, const char *name, int argc, char **argv)
{
	const struct command *command = command_find(parent, argv[0]);
	char full[64];
	int status;

	if (!command)
		return *argv[0] == '-' ? unknown_option(argv[0]) :
					 unknown(parent, name, argv[0]);

	snprintf(full, sizeof(full), "%s%s%s", name, *name ? " " : "", command->name);
	if (command->verbs && argc > 1 && argv[1][0] != '-')
		return dispatch(command, full, argc - 1, argv + 1);
	status = parse_and_run(command, full, argc - 1, argv + 1);
	if (status != STATUS_GOOD && command->failed)
		command->failed(status);
	return status;
}

int command_main(int argc, char **argv)
{
	if (argc < 2)
		return usage("", "a command is missing");
	if (!strcmp(argv[1], "--complete"))
		return complete(argc - 2, argv + 2);
	if (!strcmp(argv[1], "--version"))
		printf("hartebeest %s\n", PACKAGE_VERSION);
	else if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		show_program();
	else
		return dispatch(NULL, "", argc - 1, argv + 1);
	return end_text("");
}
