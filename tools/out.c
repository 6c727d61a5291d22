/* SPDX-License-Identifier: MIT */
/* out.c - see out.h */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <hartebeest.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "tools/command.h"
#include "tools/out.h"

#define TEXT_SIZE 4096
#define INDENT 2
#define COLUMNS_MIN 40
#define TEXT_COLUMNS_MIN 24	/* beside a label; with fewer, text continues below the label */

/* Marks are four columns wide, and words, so that no reader depends on the colour. */
static const struct level {
	const char *mark, *color, *name;
} levels[OUT_LEVELS] = {
	[OUT_OK] = { "OK  ", "32", "ok" },
	[OUT_NOTE] = { "--  ", "2", "note" },
	[OUT_WARNING] = { "WARN", "33", "warning" },
	[OUT_FAILURE] = { "FAIL", "31", "failure" },
};

/* ------------------------------------------------------------- texts --- */

bool out_is_text(const char *bytes, size_t length)
{
	size_t step, i;

	for (i = 0; i < length; i += step) {
		step = beest_text_step(bytes + i);
		if (!step && bytes[i] && strchr("\t\n\r", bytes[i]))
			step = 1;
		if (!step)
			return false;
	}
	return true;
}

static void clean_text(char *text)
{
	size_t step;

	for (; *text; text += step ? step : 1) {
		step = beest_text_step(text);
		if (!step)
			*text = '?';
	}
}

static void BEEST_PRINTF(2, 0) make_text(char text[TEXT_SIZE], const char *format, va_list args)
{
	vsnprintf(text, TEXT_SIZE, format, args);
	clean_text(text);
}

#define MAKE_TEXT(text, format) do {		\
	va_list args_;				\
	va_start(args_, format);		\
	make_text(text, format, args_);		\
	va_end(args_);				\
} while (0)

static int columns_of(const char *text, size_t length)
{
	int columns = 0;

	while (length--)
		columns += (*text++ & 0xc0) != 0x80;
	return columns;
}

/* Breaks lines between words.  @at: columns already written; @indent: those of further lines. */
static void write_broken(FILE *to, int columns, const char *text, int at, int indent)
{
	size_t word;
	int width;

	while (*text) {
		word = strspn(text, " ");
		word += strcspn(text + word, " ");
		width = columns_of(text, word);
		if (columns && at + width > columns && at > indent) {
			fprintf(to, "\n%*s", indent, "");
			text += strspn(text, " ");
			at = indent;
			continue;
		}
		fwrite(text, 1, word, to);
		text += word;
		at += width;
	}
	putc('\n', to);
}

/* --------------------------------------------------------- beginning --- */

static bool color_wanted(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb");
}

static int terminal_columns(int fd)
{
	struct winsize size = { 0 };

	if (!isatty(fd))
		return 0;
	if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return 80;
	return BEEST_MAX(size.ws_col, COLUMNS_MIN);
}

void out_start(struct out *out, const char *command, bool json)
{
	memset(out, 0, sizeof(*out));
	setvbuf(stdout, NULL, _IOLBF, 0);	/* each line at once, even into a pipe */
	out->command = command;
	out->to = stdout;
	out->since = hartebeest_clock();
	out->columns = terminal_columns(STDOUT_FILENO);
	out->color = !json && color_wanted();
	if (json)
		out->json = json_object_new_object();
}

/* Set by the timer of out_waiting() when it has written its line. */
static volatile sig_atomic_t waiting_shown;

static void clear_progress(struct out *out)
{
	if (out->progress || waiting_shown)
		fputs("\r\033[K", stderr);
	out->progress = false;
	waiting_shown = false;
}

/* ------------------------------------------------------------- lines --- */

void out_title(struct out *out, int label, const char *title)
{
	clear_progress(out);
	snprintf(out->part, sizeof(out->part), "%s", title);
	out->label = label;
	if (out->quiet)
		return;
	if (!out->json && out->began)
		putc('\n', out->to);
	if (!out->json && out->color && columns_of(title, strlen(title)) <= out->columns)
		fprintf(out->to, "\033[1m%s\033[0m\n", title);
	else if (!out->json)
		write_broken(out->to, out->columns, title, 0, 0);
	out->began = true;
}

static void check_add(struct out *out, enum out_level level, const char *label, const char *text)
{
	struct json_object *checks = out_json_array(out->json, "checks");

	out->check = out_json_item(checks);
	if (out->part[0])
		out_json_text(out->check, "part", out->part);
	out_json_text(out->check, "level", levels[level].name);
	out_json_text(out->check, "name", label);
	out_json_text(out->check, "text", text);
}

/* Each label once; it may be part of another. */
static void worst_add(struct out *out, const char *label)
{
	const size_t used = strlen(out->worst), length = strlen(label);
	const char *each;
	size_t size;

	for (each = out->worst; *each; each += size + strspn(each + size, ", ")) {
		size = strcspn(each, ",");
		if (size == length && memcmp(each, label, length) == 0)
			return;
	}
	snprintf(out->worst + used, sizeof(out->worst) - used, "%s%s", used ? ", " : "", label);
}

void out_line(struct out *out, enum out_level level, const char *label, const char *format, ...)
{
	const struct level *how = &levels[level];
	int width, indent = INDENT + 4 + 2 + out->label + 2;
	char text[TEXT_SIZE], name[256];

	MAKE_TEXT(text, format);
	snprintf(name, sizeof(name), "%s", label);
	clean_text(name);
	clear_progress(out);
	out->counts[level]++;
	out->began = true;
	out->hides = out->quiet && level < OUT_WARNING;
	if (level >= OUT_WARNING)
		worst_add(out, name);
	if (out->json) {
		check_add(out, level, name, text);
		return;
	}
	if (out->hides)
		return;

	fprintf(out->to, out->color ? "%*s\033[%sm%s\033[0m  %-*s  " : "%*s%.0s%s  %-*s  ", INDENT,
		"", how->color, how->mark, out->label, name);
	width = INDENT + 4 + 2 + BEEST_MAX(out->label, columns_of(name, strlen(name))) + 2;
	if (out->columns && out->columns - indent < TEXT_COLUMNS_MIN)
		indent = INDENT + 4 + 2;
	write_broken(out->to, out->columns, text, width, indent);
}

void out_cure(struct out *out, const char *format, ...)
{
	int indent = INDENT + 4 + 2;
	char text[TEXT_SIZE];

	MAKE_TEXT(text, format);
	if (out->json) {
		out_json_text(out->check, "cure", text);
		return;
	}
	if (out->hides)
		return;
	fprintf(out->to, "%*s-> ", indent, "");
	write_broken(out->to, out->columns, text, indent + 3, indent + 3);
}

void out_text(struct out *out, const char *format, ...)
{
	char text[TEXT_SIZE];

	if (out->json || out->quiet)
		return;
	MAKE_TEXT(text, format);
	clear_progress(out);
	out->began = true;
	write_broken(out->to, out->columns, text, 0, (int)strspn(text, " "));
}

void out_hold(struct out *out)
{
	FILE *to = out->json ? NULL : open_memstream(&out->held, &out->held_size);

	out->to = to ? to : out->to;
}

static void verdict_write(const struct out *out, enum out_level level, const char *text)
{
	const struct level *how = &levels[level];

	fprintf(out->to, out->color ? "\033[%sm%s\033[0m  " : "%.0s%s  ", how->color, how->mark);
	write_broken(out->to, out->columns, text, 6, 6);
}

/* Ends holding.  NULL: nothing is held back. */
static char *out_held(struct out *out)
{
	char *held = NULL;

	if (out->to != stdout && fclose(out->to) == 0)
		held = out->held;
	out->to = stdout;
	return held;
}

void out_verdict(struct out *out, enum out_level level, const char *format, ...)
{
	char text[TEXT_SIZE], *held;

	if (out->json)
		return;
	MAKE_TEXT(text, format);
	clear_progress(out);
	held = out_held(out);
	verdict_write(out, level, text);
	if (held && *held)
		printf("%s%s", out->quiet ? "" : "\n", held);
	free(held);
}

char *out_take_verdict(struct out *out, enum out_level level, const char *text)
{
	char *held = out_held(out), *all = NULL;

	out_hold(out);
	if (out->to != stdout) {
		verdict_write(out, level, text);
		fputs(held ? held : "", out->to);
		all = out_held(out);
	}
	free(held);
	return all;
}

void out_error(struct out *out, const char *format, ...)
{
	char text[TEXT_SIZE];
	int at;

	MAKE_TEXT(text, format);
	clear_progress(out);
	fflush(stdout);
	at = fprintf(stderr, "hartebeest %s: ", out->command);
	write_broken(stderr, terminal_columns(STDERR_FILENO), text, at, 4);
	if (out->json && !json_object_object_get_ex(out->json, "error", NULL))
		out_json_text(out->json, "error", text);
}

int out_failed(struct out *out, int ret)
{
	if (ret != -ECANCELED)
		out_error(out, "%s", hartebeest_error());
	return ret == -ETIMEDOUT || ret == -EAGAIN ? STATUS_TIMEOUT : STATUS_FAILED;
}

void out_progress(struct out *out, const char *format, ...)
{
	int columns = terminal_columns(STDERR_FILENO);
	char text[TEXT_SIZE];

	if (!columns || hartebeest_clock() - out->since < BEEST_SECOND)
		return;
	MAKE_TEXT(text, format);
	fflush(stdout);
	fprintf(stderr, "\r\033[K%.*s", columns - 1, text);
	fflush(stderr);
	out->progress = true;
}

/* What the timer shows, ready to be written: its handler may only call write(2). */
static char waiting[256];
static int waiting_columns, waiting_seconds;
static struct sigaction before_waiting;

static void show_waiting(int number)
{
	int saved = errno, seconds = ++waiting_seconds, digit = 1;
	char tail[24] = "", *at = tail;
	ssize_t ignored;

	(void)number;
	while (seconds / digit >= 10)
		digit *= 10;
	*at++ = ' ';
	for (; digit; digit /= 10)
		*at++ = (char)('0' + seconds / digit % 10);
	memcpy(at, " s ", 3);
	ignored = write(STDERR_FILENO, waiting, strlen(waiting));
	ignored = write(STDERR_FILENO, tail, strlen(tail));
	(void)ignored;
	waiting_shown = true;
	errno = saved;
}

static void set_timer(int seconds)
{
	const struct itimerval every = { { seconds, 0 }, { seconds, 0 } };

	setitimer(ITIMER_REAL, &every, NULL);
}

void out_waiting(struct out *out, const char *format, ...)
{
	struct sigaction action;
	char text[TEXT_SIZE];

	out_waiting_end(out);
	waiting_columns = terminal_columns(STDERR_FILENO);
	if (!waiting_columns)
		return;
	MAKE_TEXT(text, format);
	snprintf(waiting, sizeof(waiting), "\r\033[K%.*s", BEEST_MIN(waiting_columns - 12, 200),
		 text);
	waiting_seconds = 0;
	memset(&action, 0, sizeof(action));
	action.sa_handler = show_waiting;
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, &before_waiting);
	set_timer(1);
}

/* A last signal of the timer may be pending: SIG_IGN discards it before it ends the program. */
void out_waiting_end(struct out *out)
{
	if (!waiting_columns)
		return;
	set_timer(0);
	signal(SIGALRM, SIG_IGN);
	sigaction(SIGALRM, &before_waiting, NULL);
	waiting_columns = 0;
	clear_progress(out);
}

/* json-c before 0.13 writes "\/" for "/", which means the same. */
static int object_form(void)
{
	int form = JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED;

#if HAVE_DECL_JSON_C_TO_STRING_NOSLASHESCAPE
	form |= JSON_C_TO_STRING_NOSLASHESCAPE;
#endif
	return form;
}

int out_end(struct out *out, int status)
{
	const char *why = "not all could be written";	/* after an earlier write failed */

	char *held = out_held(out);

	clear_progress(out);
	if (held)
		fputs(held, stdout);
	free(held);
	if (out->json) {
		printf("%s\n", json_object_to_json_string_ext(out->json, object_form()));
		json_object_put(out->json);
		out->json = NULL;
	}
	if (fflush(stdout) != 0)
		why = strerror(errno);
	else if (!ferror(stdout))
		return status;

	fprintf(stderr, "hartebeest %s: standard output: %s\n", out->command, why);
	return STATUS_FAILED;
}

/* -------------------------------------------------------- the object --- */

void out_json_text(struct json_object *object, const char *key, const char *text)
{
	char clean[TEXT_SIZE];

	if (!object)
		return;
	snprintf(clean, sizeof(clean), "%s", text);
	clean_text(clean);
	json_object_object_add(object, key, json_object_new_string(clean));
}

void out_json_int(struct json_object *object, const char *key, int64_t value)
{
	if (object)
		json_object_object_add(object, key, json_object_new_int64(value));
}

void out_json_bool(struct json_object *object, const char *key, bool value)
{
	if (object)
		json_object_object_add(object, key, json_object_new_boolean(value));
}

struct json_object *out_json_array(struct json_object *object, const char *key)
{
	struct json_object *inner = NULL;

	if (object && !json_object_object_get_ex(object, key, &inner)) {
		inner = json_object_new_array();
		json_object_object_add(object, key, inner);
	}
	return inner;
}

struct json_object *out_json_item(struct json_object *array)
{
	struct json_object *item = NULL;

	if (array) {
		item = json_object_new_object();
		json_object_array_add(array, item);
	}
	return item;
}
