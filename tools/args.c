/* SPDX-License-Identifier: MIT */
/* args.c - see args.h */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "lib/base/parse.h"
#include "lib/base/text.h"
#include "tools/args.h"

static bool BEEST_PRINTF(2, 3) args_fail(struct args *args, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(args->why, sizeof(args->why), format, list);
	va_end(list);
	return false;
}

/* ------------------------------------------------------------- values --- */

static bool set_int(const struct args_option *option, const char *text)
{
	return beest_parse_int(text, option->min, option->max, option->to) == 0;
}

static bool set_time(const struct args_option *option, const char *text)
{
	int64_t ns;

	if (beest_parse_duration(text, &ns) < 0)
		return false;
	if (ns >= option->min && ns <= option->max) {
		*(int64_t *)option->to = ns;
		return true;
	}

	beest_fail(ERANGE, "%s is not within %s..%s", BEEST_QUOTE(text),
		   BEEST_DURATION_TEXT(option->min), BEEST_DURATION_TEXT(option->max));
	return false;
}

static bool set_text(const struct args_option *option, const char *text)
{
	const char *const *word = option->words;
	char list[256];
	struct beest_text all;

	if (!*text) {
		beest_fail(EINVAL, "'' is not a value");
		return false;
	}
	if (!word) {
		*(const char **)option->to = text;
		return true;
	}

	beest_text_start(&all, list, sizeof(list));
	for (; *word; word++) {
		if (!strcmp(*word, text)) {
			*(const char **)option->to = *word;
			return true;
		}
		beest_text_add(&all, "%s%s", all.used ? ", " : "", *word);
	}
	beest_fail(EINVAL, "%s is none of %s", BEEST_QUOTE(text), list);
	return false;
}

static bool set_list(const struct args_option *option, const char *text)
{
	struct args_list *list = option->to;

	if (list->count == ARGS_LIST_MAX) {
		beest_fail(E2BIG, "may be given at most %d times", ARGS_LIST_MAX);
		return false;
	}
	list->text[list->count++] = text;
	return true;
}

static bool (*const setters[])(const struct args_option *option, const char *text) = {
	[ARGS_INT] = set_int,
	[ARGS_TIME] = set_time,
	[ARGS_TEXT] = set_text,
	[ARGS_LIST] = set_list,
};

static bool set_value(struct args *args, const struct args_option *option, const char *shown,
		      const char *value)
{
	if (setters[option->kind](option, value))
		return true;

	return args_fail(args, "%s: %s", shown, beest_error_text());
}

/* -------------------------------------------------------------- words --- */

static bool option_is(const struct args_option *option, const char *word, size_t length)
{
	if (word[0] != '-')
		return option->letter && option->letter == word[0] && length == 1;

	return strlen(option->name) == length - 1 && !memcmp(option->name, word + 1, length - 1);
}

/* @word: without its first "-". */
static const struct args_option *find_word(const struct args_option *const *tables,
					   const char *word, size_t length)
{
	const struct args_option *option;

	for (; *tables; tables++)
		for (option = *tables; option->name; option++)
			if (option_is(option, word, length))
				return option;
	return NULL;
}

const struct args_option *args_find(const struct args_option *const *tables, const char *word)
{
	return word[0] == '-' && word[1] ? find_word(tables, word + 1, strcspn(word + 1, "="))
					 : NULL;
}

static bool fail_unknown(struct args *args, const char *word)
{
	const struct args_option *const *table;
	const struct args_option *option;
	struct beest_nearest nearest;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	nearest = (struct beest_nearest)BEEST_NEAREST(name + (name[1] == '-' ? 2 : 1));
	for (table = args->tables; *table; table++)
		for (option = *table; option->name; option++)
			beest_nearest_offer(&nearest, option->name, option->name);
	return args_fail(args, "unknown option %s%s%s%s", BEEST_QUOTE(name),
			 nearest.best ? BEEST_NEAREST_IS : "", nearest.best ? "--" : "",
			 nearest.best ? (const char *)nearest.best : "");
}

/* --name, --name=VALUE.  Takes the next word if the option needs one. */
static bool take_long(struct args *args, char *word, char ***rest)
{
	size_t length = strcspn(word, "=");
	const struct args_option *option = find_word(args->tables, word + 1, length - 1);
	char shown[80];

	if (!option)
		return fail_unknown(args, word);

	snprintf(shown, sizeof(shown), "--%s", option->name);
	if (option->kind != ARGS_FLAG && word[length])
		return set_value(args, option, shown, word + length + 1);
	if (option->kind != ARGS_FLAG && **rest)
		return set_value(args, option, shown, *(*rest)++);
	if (option->kind != ARGS_FLAG)
		return args_fail(args, "%s needs a value: %s %s", shown, shown, option->value);
	if (word[length])
		return args_fail(args, "%s takes no value", shown);

	*(bool *)option->to = true;
	return true;
}

/* "-np 4", as mpirun has it, is -n with the value "p".  @next: the word that follows. */
static bool set_attached(struct args *args, const struct args_option *option, const char *shown,
			 const char *value, const char *next)
{
	size_t used;

	if (set_value(args, option, shown, value))
		return true;
	used = strlen(args->why);
	if (next && option->kind == ARGS_INT && setters[ARGS_INT](option, next))
		snprintf(args->why + used, sizeof(args->why) - used, "; did you mean %s %s?", shown,
			 next);
	return false;
}

/* -t, -tVALUE, -ab.  Takes the next word if the option needs one. */
static bool take_letters(struct args *args, const char *word, char ***rest)
{
	const struct args_option *option;
	const char *letter;
	char shown[3] = "-?";

	for (letter = word + 1; *letter; letter++) {
		option = find_word(args->tables, letter, 1);
		if (!option)
			return fail_unknown(args, word);

		shown[1] = *letter;
		if (option->kind == ARGS_FLAG)
			*(bool *)option->to = true;
		else if (letter[1])
			return set_attached(args, option, shown, letter + 1, **rest);
		else if (**rest)
			return set_value(args, option, shown, *(*rest)++);
		else
			return args_fail(args, "%s needs a value: %s %s", shown, shown,
					 option->value);
	}
	return true;
}

bool args_parse(struct args *args, int argc, char **argv)
{
	char **rest = argv, **kept = argv, *word;
	bool only_operands = false, good = true;

	args->operands = argv;
	while (good && rest < argv + argc) {
		word = *rest++;
		if (only_operands || word[0] != '-' || !word[1]) {
			*kept++ = word;
			only_operands |= args->first_ends;
		} else if (!strcmp(word, "--")) {
			only_operands = true;
		} else if (word[1] == '-') {
			good = take_long(args, word, &rest);
		} else {
			good = take_letters(args, word, &rest);
		}
	}
	args->count = (int)(kept - argv);
	*kept = NULL;
	return good;
}

const char *args_title(const struct args_option *option, char title[ARGS_TITLE])
{
	char letter[8] = "    ";

	if (option->letter)
		snprintf(letter, sizeof(letter), "-%c, ", option->letter);
	snprintf(title, ARGS_TITLE, "%s--%s%s%s", letter, option->name, option->value ? " " : "",
		 option->value ? option->value : "");
	return title;
}
