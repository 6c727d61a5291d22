/* SPDX-License-Identifier: MIT */
/* plan.c - see plan.h */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "tests/support/plan.h"

#define LINE 1000
#define FIELDS 12
#define ROWS 48
#define TABLES 3

/* ------------------------------------------------------------------------- words --- */

static const char *const op_words[OPS] = {
	[BARRIER] = "barrier", [MESH] = "mesh", [MEET] = "barrier of mesh",
	[REPAIR] = "repair of mesh", [CLOSE] = "close of mesh", [MESSAGE] = "messages",
	[PUSH] = "push of messages", [READ] = "read of messages", [PAIRS] = "pairs",
	[SERVE] = "service", [WORK] = "work", [TOGETHER] = "together in mesh", [LEAVE] = "leave",
	[GATHER] = "gather", [RESTORE] = "repair or mesh", [AWAIT] = "wait for message",
	[FAIL] = "fail out of luck", [PAUSE] = "pause", [ALL] = "wait for all", [KILL] = "die",
};

/* The letter of the first name; 0: there are no names. */
static char op_letter(enum op op)
{
	switch (op) {
	case LEAVE:
	case FAIL:
	case PAUSE:
	case ALL:
	case KILL:
		return 0;
	case MESH:
	case MEET:
	case REPAIR:
	case CLOSE:
	case TOGETHER:
	case RESTORE:
		return 'm';
	default:
		return 'a';
	}
}

static const char *const what_words[] = {
	[HOLD] = "is held up", [FAILURE] = "fails", [LATE] = "fails, and is carried out later",
	[RESTART] = "restarts its server", [FLUSH] = "finds a server emptied",
	[EVICTION] = "finds a record evicted", [FORGETTING] = "finds an epoch evicted",
	[AWAY] = "finds a server away", [DEATH] = "dies", [END] = "ends with all others",
	[LOSS] = "finds a certain record evicted", [FLIP] = "finds a record damaged",
	[CUT] = "finds a record cut", [EMPTY] = "finds a record emptied",
};
static const char *const former_words[FORMERS] = { "left nothing", "has left", "was killed" };
static const char *const manner_words[] = {
	[FAKE_KV_REFUSED] = "refused", [FAKE_KV_LOST] = "lost", [FAKE_KV_TORN] = "torn",
	[FAKE_KV_LATE] = "late",
};

static const struct {
	const char *word;
	int number;
} errors[] = {
	{ "EADDRINUSE", EADDRINUSE }, { "ECANCELED", ECANCELED }, { "ECONNABORTED", ECONNABORTED },
	{ "ECONNREFUSED", ECONNREFUSED }, { "ECONNRESET", ECONNRESET }, { "EHOSTDOWN", EHOSTDOWN },
	{ "EINVAL", EINVAL }, { "EMSGSIZE", EMSGSIZE }, { "EPROTO", EPROTO },
	{ "ESHUTDOWN", ESHUTDOWN }, { "ESTALE", ESTALE }, { "ETIMEDOUT", ETIMEDOUT },
};

static const char *error_word(int number)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(errors); i++)
		if (errors[i].number == number)
			return errors[i].word;
	return "0";
}

static const struct {
	const char *word;
	int64_t ns;
} units[] = {
	{ "s", BEEST_SECOND }, { "ms", BEEST_MS }, { "us", BEEST_US }, { "ns", 1 },
};

const char *plan_event_text(enum what what)
{
	return what_words[what];
}

/* ----------------------------------------------------------------------- printing --- */

bool plan_ranks_have(const struct plan_ranks *ranks, int number)
{
	static const struct plan_ranks none;

	return memcmp(ranks, &none, sizeof(none)) == 0 ||
	       ranks->bits[number / 64] >> number % 64 & 1;
}

static char *next_text(void)
{
	static char texts[8][200];
	static int turn;

	return texts[turn++ % 8];
}

static const char *span_text(int64_t span)
{
	char *text = next_text();
	size_t i = 0;

	while (span % units[i].ns)
		i++;
	snprintf(text, 200, "%lld %s", (long long)(span / units[i].ns), units[i].word);
	return text;
}

const char *plan_step_text(const struct step *step)
{
	char *text = next_text();
	const char letter = op_letter(step->op);
	int used = snprintf(text, 200, "%s", op_words[step->op]);

	if (letter)
		used += snprintf(text + used, 20, " %c", letter + step->name);
	if (step->thread)
		snprintf(text + used, 20, " by thread 1");
	return text;
}

static void event_print(FILE *file, const struct event *event)
{
	fprintf(file, "\trank %d at request %d ", event->rank, event->at);
	fprintf(file, "%s%s", event->pushed ? "after a push " : "", what_words[event->what]);
	if (event->what == DEATH && !event->span)
		fprintf(file, " for good");
	else if (event->what == DEATH)
		fprintf(file, ", and has a replacement after %s", span_text(event->span));
	if (event->what == HOLD || event->what == AWAY)
		fprintf(file, " for %s", span_text(event->span));
	if (event->what == LATE)
		fprintf(file, " by %s", span_text(event->span));
	if (event->what == END)
		fprintf(file, ", which begin again within %s", span_text(event->span));
	if (event->what == FAILURE || event->what == LATE)
		fprintf(file, " (command %d, %s: %s)", event->command,
			manner_words[event->manner], error_word(event->error));
	if (event->what == EVICTION)
		fprintf(file, " (item %d)", event->item);
	if (event->what >= RESTART && event->what <= AWAY && event->server)
		fprintf(file, " (server %d)", event->server);
	fprintf(file, "\n");
}

/* What all ranks have in common. */
static void common_print(FILE *file, const struct plan *plan)
{
	fprintf(file, "\t%d ranks", plan->size);
	if (plan->seed)
		fprintf(file, ", seed %llu", (unsigned long long)plan->seed);
	if (plan->servers > 1)
		fprintf(file, ", %d servers", plan->servers);
	fprintf(file, ", limit %s", span_text(plan->limit));
	if (plan->noise)
		fprintf(file, ", noise %s", span_text(plan->noise));
	if (plan->slow >= 0)
		fprintf(file, ", rank %d is slow", plan->slow);
	fprintf(file, "%s%s%s", plan->scattered ? ", scattered numbers" : "",
		plan->sealed ? ", sealed" : "",
		plan->type == IBV_QPT_UD ? ", UD" : plan->type == IBV_QPT_UC ? ", UC" : "");
	if (plan->per_peer > 1)
		fprintf(file, ", %d a peer", plan->per_peer);
	if (plan->reach)
		fprintf(file, ", peers up to %d away", plan->reach);
	fprintf(file, "%s", plan->hosts ? ", unknown deaths" : "");
	if (plan->patience == POLLS)
		fprintf(file, ", all poll");
	if (plan->patience == GIVES_UP)
		fprintf(file, ", all give up and call again");
	if (plan->twins)
		fprintf(file, ", twins within %s after a run that %s", span_text(plan->behind),
			former_words[plan->former]);
	fprintf(file, "\n");
}

void plan_print(FILE *file, const struct plan *plan)
{
	int i;

	if (plan->source) {
		fputs(plan->source, file);
		return;
	}
	common_print(file, plan);
	for (i = 0; i < plan->step_count; i++)
		fprintf(file, "%s%s", i ? ", " : "\tall: ", plan_step_text(&plan->steps[i]));
	fprintf(file, "\n");
	for (i = 0; i < plan->event_count; i++)
		event_print(file, &plan->events[i]);
}

/* ------------------------------------------------------------------------ reading --- */

static char reading[LINE];		/* the title of the plan that is read */

static void is_wrong(const char *why, const char *text)
{
	fprintf(stderr, "plan '%s' has %s: %s\n", reading, why, text);
	exit(1);
}

static bool number_take(const char **at, int64_t *number)
{
	char *end;

	*number = strtoll(*at, &end, 10);
	if (end == *at)
		return false;
	*at = end;
	return true;
}

static bool span_take(const char **at, int64_t *span)
{
	const char *text = *at;
	size_t i, length;

	if (!number_take(&text, span) || *text++ != ' ')
		return false;
	for (i = 0; i < BEEST_COUNT(units); i++) {
		length = strlen(units[i].word);
		if (strncmp(text, units[i].word, length) != 0)
			continue;
		*span *= units[i].ns;
		*at = text + length;
		return true;
	}
	return false;
}

static bool ranks_take(const char **at, struct plan_ranks *ranks)
{
	int64_t first, last;

	memset(ranks, 0, sizeof(*ranks));
	if (strncmp(*at, "all", 3) == 0) {
		*at += 3;
		return true;
	}
	do {
		*at += **at == ',';
		if (!number_take(at, &first) || first < 0)
			return false;
		last = first;
		if (**at == '-' && (++*at, !number_take(at, &last)))
			return false;
		for (; first <= last && first < PLAN_PROCESSES; first++)
			ranks->bits[first / 64] |= UINT64_C(1) << first % 64;
	} while (**at == ',' && (*at)[1] != ' ');

	return true;
}

/* One place of a form; NULL @to: only whether it fits. */
static bool place_take(const char **at, char place, void *to)
{
	struct plan_ranks ranks;
	int64_t number;
	bool fits;

	switch (place) {
	case '*':
		return ranks_take(at, to ? to : &ranks);
	case '@':
		return span_take(at, to ? to : &number);
	default:
		fits = number_take(at, &number);
		if (to && place == '#')
			*(int *)to = (int)number;
		else if (to)
			*(uint64_t *)to = (uint64_t)number;
		return fits;
	}
}

/*
 * If the text at @at begins like @form, moves @at behind that and stores what is in its places:
 * # is a number (int), % a large one (uint64_t), @ a span, * ranks.
 */
static bool takes(const char **at, const char *form, ...)
{
	const char *text = *at, *part;
	va_list arguments;

	for (part = form; *part; part++)
		if (strchr("#%@*", *part) ? !place_take(&text, *part, NULL) : *text++ != *part)
			return false;
	va_start(arguments, form);
	for (part = form; *part; part++)
		if (strchr("#%@*", *part))
			place_take(at, *part, va_arg(arguments, void *));
		else
			++*at;
	va_end(arguments);
	return true;
}

/* Takes one of @count words, whose number it returns; the longest.  -1: there is none. */
static int word_take(const char **at, const char *const *words, int count)
{
	int i, found = -1;

	for (i = 0; i < count; i++)
		if (strncmp(*at, words[i], strlen(words[i])) == 0 &&
		    (found < 0 || strlen(words[i]) > strlen(words[found])))
			found = i;
	*at += found < 0 ? 0 : strlen(words[found]);
	return found;
}

static int error_take(const char **at)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(errors); i++)
		if (takes(at, errors[i].word))
			return errors[i].number;
	is_wrong("an unknown errno", *at);
	return 0;
}

/* Whatever is in quotes. */
static const char *quote_take(const char **at)
{
	const char *end = strchr(*at, '"');
	const char *quote;

	if (!end)
		is_wrong("a quote without end", *at);
	quote = strndup(*at, (size_t)(end - *at));
	*at = end + 1;
	return quote;
}

static bool flag_take(const char **at, const char *word, bool *flag)
{
	if (!takes(at, word))
		return false;
	*flag = true;
	return true;
}

static bool type_take(const char **at, struct plan *plan)
{
	plan->type = takes(at, "UD") ? IBV_QPT_UD : takes(at, "UC") ? IBV_QPT_UC : IBV_QPT_RC;
	return plan->type != IBV_QPT_RC;
}

static bool patience_take(const char **at, struct plan *plan)
{
	const bool polls = takes(at, "* poll", &plan->pollers);

	if (!polls && !takes(at, "all give up and call again"))
		return false;
	plan->patience = polls ? POLLS : GIVES_UP;
	return true;
}

static bool twins_take(const char **at, struct plan *plan)
{
	int former;

	if (!takes(at, "twins within @ after a run that ", &plan->behind))
		return false;
	former = word_take(at, former_words, FORMERS);
	plan->twins = true;
	plan->former = former < 0 ? NOTHING : former;
	return former >= 0;
}

static void common_read(const char *at, struct plan *plan)
{
	do {
		if (takes(&at, "limit @ by HARTEBEEST_TIMEOUT", &plan->limit))
			plan->usual = true;
		else if (!(takes(&at, "# ranks", &plan->size) ||
			   takes(&at, "seed %", &plan->seed) ||
			   takes(&at, "# servers", &plan->servers) ||
			   takes(&at, "limit @", &plan->limit) ||
			   takes(&at, "noise @", &plan->noise) ||
			   takes(&at, "rank # is slow", &plan->slow) ||
			   takes(&at, "rank # is one of #", &plan->odd, &plan->odd_size) ||
			   flag_take(&at, "scattered numbers", &plan->scattered) ||
			   flag_take(&at, "sealed", &plan->sealed) ||
			   flag_take(&at, "unknown deaths", &plan->hosts) ||
			   takes(&at, "# a peer", &plan->per_peer) ||
			   takes(&at, "peers up to # away", &plan->reach) ||
			   takes(&at, "records live @", &plan->ttl) ||
			   takes(&at, "requests take @", &plan->latency) ||
			   takes(&at, "values up to # bytes", &plan->item_max) ||
			   patience_take(&at, plan) || twins_take(&at, plan) ||
			   type_take(&at, plan)))
			is_wrong("no such words", at);
	} while (takes(&at, ", "));
	if (*at)
		is_wrong("no such words", at);
}

static void steps_read(const char *at, const struct plan_ranks *who, struct plan *plan)
{
	struct step *step;
	int op;

	do {
		if (plan->step_count == PLAN_STEPS)
			is_wrong("too many steps", at);
		step = &plan->steps[plan->step_count++];
		op = word_take(&at, op_words, OPS);
		if (op < 0)
			is_wrong("no such step", at);
		step->op = op;
		step->who = *who;
		if (op_letter(step->op)) {
			step->name = takes(&at, " ") ? *at++ - op_letter(step->op) : -1;
			if (step->name < 0 || step->name > 2)
				is_wrong("no such name", at - 1);
		}
		takes(&at, " of # bytes", &step->bytes);
		if (step->op == PAUSE && !takes(&at, " @", &step->span))
			is_wrong("a pause without end", at);
		flag_take(&at, " apart", &step->apart);
		step->thread = takes(&at, " by thread 1");
	} while (takes(&at, ", "));
	if (*at)
		is_wrong("no such words of a step", at);
}

static void event_read(const char *at, int rank, struct plan *plan)
{
	struct event *event = &plan->events[plan->event_count];
	const char *begin = at;
	int what, manner;

	if (plan->event_count++ == PLAN_EVENTS)
		is_wrong("too many events", at);
	event->rank = rank;
	event->each = takes(&at, "each request ");
	if (!event->each && !takes(&at, "request # ", &event->at) &&
	    !takes(&at, "@ ", &event->time))
		is_wrong("no such time", at);
	flag_take(&at, "after a push ", &event->pushed);
	what = word_take(&at, what_words, BEEST_COUNT(what_words));
	if (what < 0)
		is_wrong("no such event", at);
	event->what = what;
	if (!takes(&at, " for good") && !takes(&at, ", and has a replacement after @",
					       &event->span) &&
	    !takes(&at, " for @", &event->span) && !takes(&at, " by @", &event->span))
		takes(&at, ", which begin again within @", &event->span);
	if (takes(&at, " (command #, ", &event->command)) {
		manner = word_take(&at, manner_words, BEEST_COUNT(manner_words));
		event->manner = manner < 0 ? FAKE_KV_REFUSED : manner;
		event->error = takes(&at, ": ") ? error_take(&at) : 0;
		at += *at == ')';
	}
	if (event->what >= LOSS && takes(&at, ": ")) {
		event->key = strdup(at);
		at += strlen(at);
	}
	takes(&at, " (item #)", &event->item);
	takes(&at, " (server #)", &event->server);
	if (*at)
		is_wrong("no such event", begin);
}

static void quotes_read(const char **at, struct expectation *expected)
{
	int i = 0;

	while (i < PLAN_TEXTS && expected->texts[i])
		i++;
	for (; takes(at, " \"") || takes(at, "\""); i++) {
		if (i == PLAN_TEXTS)
			is_wrong("too many texts", *at);
		expected->texts[i] = quote_take(at);
	}
}

static void expectation_read(const char *at, struct plan *plan)
{
	struct expectation *expected = &plan->expected[plan->expected_count];
	const char *begin = at;

	if (plan->expected_count++ == PLAN_EXPECTED || !plan->step_count)
		is_wrong("an expectation that has no place", at);
	expected->step = plan->step_count - 1;
	flag_take(&at, "one of ", &expected->one);
	if (!takes(&at, "*:", &expected->who))
		is_wrong("no such ranks", at);
	do {
		if (expected->count == BEEST_COUNT(expected->results))
			is_wrong("too many results", begin);
		if (!takes(&at, " ok") && !takes(&at, " #", &expected->results[expected->count]))
			expected->results[expected->count] = takes(&at, " ") ? -error_take(&at) : 0;
		expected->count++;
	} while (takes(&at, " or"));
	quotes_read(&at, expected);
	if (takes(&at, ", not \""))
		expected->absent = quote_take(&at);
	takes(&at, ", within @ of *", &expected->within, &expected->after);
	flag_take(&at, ", alike", &expected->alike);
	if (*at)
		is_wrong("no such expectation", begin);
}

static void line_read(const char *at, struct plan *plan)
{
	struct plan_ranks who;
	int rank;

	if (takes(&at, "expect "))
		expectation_read(at, plan);
	else if (*at == '"' && plan->expected_count)
		quotes_read(&at, &plan->expected[plan->expected_count - 1]);
	else if (takes(&at, "rank # at ", &rank))
		event_read(at, rank, plan);
	else if (takes(&at, "*: ", &who))
		steps_read(at, &who, plan);
	else
		common_read(at, plan);
}

static void plan_begin(struct plan *plan)
{
	memset(plan, 0, sizeof(*plan));
	plan->servers = plan->per_peer = 1;
	plan->slow = -1;
	plan->limit = 10 * BEEST_SECOND;
	plan->type = IBV_QPT_RC;
}

/* The next line, without blanks around it; false: there is none. */
static bool next_line(const char **at, char line[LINE])
{
	size_t length;

	*at += strspn(*at, " \t\n");
	length = strcspn(*at, "\n");
	if (!length)
		return false;
	if (length >= LINE)
		is_wrong("a long line", *at);
	memcpy(line, *at, length);
	*at += length;
	while (strchr(" \t", line[length - 1]))
		length--;
	line[length] = '\0';
	return true;
}

void plan_parse(const char *text, struct plan *plan)
{
	char line[LINE];

	plan_begin(plan);
	while (next_line(&text, line))
		line_read(line, plan);
	if (plan->size < 2 || !plan->step_count)
		is_wrong("no ranks or steps", text);
}

/* -------------------------------------------------------------------- files, tables --- */

struct row {
	char line[LINE];		/* its fields end with '\0' */
	const char *fields[FIELDS];
	int count;
};

static void row_split(struct row *row, const char *line)
{
	char *at = row->line, *end, *last;

	memset(row, 0, sizeof(*row));
	snprintf(row->line, sizeof(row->line), "%s", line + 1);
	for (; (end = strchr(at, '|')); at = end + 1) {
		if (row->count == FIELDS)
			is_wrong("too many fields", line);
		at += strspn(at, " ");
		for (last = end; last > at && last[-1] == ' ';)
			last--;
		*last = '\0';
		row->fields[row->count++] = at;
	}
}

/* The text with what the row has for each name in <>. */
static char *row_fill(const char *text, const struct row *names, const struct row *row)
{
	char *filled = NULL;
	size_t size, length = 0;
	FILE *file = open_memstream(&filled, &size);
	int i;

	while (*text) {
		for (i = 0; *text == '<' && i < row->count; i++) {
			length = strlen(names->fields[i]);
			if (strncmp(text + 1, names->fields[i], length) == 0 &&
			    text[length + 1] == '>')
				break;
		}
		if (*text == '<' && i < row->count) {
			fputs(row->fields[i], file);
			text += length + 2;
		} else {
			fputc(*text++, file);
		}
	}
	fclose(file);
	return filled;
}

/* A table: its first row has the names. */
struct table {
	struct row rows[ROWS];
	int count;
};

static struct table tables[TABLES];
static int table_count;

static void plan_take(const char *title, const char *text, void (*take)(struct plan *plan))
{
	struct plan plan;

	snprintf(reading, sizeof(reading), "%s", title);
	plan_parse(text, &plan);
	plan.title = strdup(title);
	plan.source = strdup(text);
	take(&plan);
}

/* One plan for each row of this table and the ones behind it. */
static void tables_fill(const char *title, const char *text, int table,
			void (*take)(struct plan *plan))
{
	const struct row *names;
	char longer[LINE], *filled;
	int i;

	if (table == table_count) {
		plan_take(title, text, take);
		return;
	}
	names = tables[table].rows;
	for (i = 1; i < tables[table].count; i++) {
		if (names[i].count != names->count)
			is_wrong("a row with too few or too many fields", title);
		snprintf(longer, sizeof(longer), "%.900s, row %d", title, i);
		filled = row_fill(text, names, &names[i]);
		tables_fill(longer, filled, table + 1, take);
		free(filled);
	}
}

static void row_add(const char *line, bool begins)
{
	struct table *table;

	if (begins && table_count++ < TABLES)
		tables[table_count - 1].count = 0;
	if (table_count > TABLES || tables[table_count - 1].count == ROWS)
		is_wrong("too many tables or rows", line);
	table = &tables[table_count - 1];
	row_split(&table->rows[table->count++], line);
}

/* The lines of one plan, up to the next one; returns where that is. */
static const char *plan_read(const char *at, const char *title, void (*take)(struct plan *plan))
{
	char line[LINE], *text;
	const char *before;
	size_t size;
	FILE *file = open_memstream(&text, &size);
	bool in_table = false;

	snprintf(reading, sizeof(reading), "%s", title);
	table_count = 0;
	for (before = at; next_line(&at, line) && strncmp(line, "plan: ", 6) != 0; before = at) {
		if (line[0] == '|')
			row_add(line, !in_table);
		else if (line[0] != '#' && strncmp(line, "promise: ", 9) != 0)
			fprintf(file, "%s\n", line);
		in_table = line[0] == '|';
	}
	fclose(file);
	tables_fill(title, text, 0, take);
	free(text);
	return before;
}

static char *file_read(const char *path)
{
	FILE *from = fopen(path, "r"), *to;
	char buffer[4096], *text;
	size_t size, got;

	if (!from)
		is_wrong("no file", path);
	to = open_memstream(&text, &size);
	while ((got = fread(buffer, 1, sizeof(buffer), from)))
		fwrite(buffer, 1, got, to);
	fclose(from);
	fclose(to);
	return text;
}

void plans_read(const char *path, void (*take)(struct plan *plan))
{
	char *text = file_read(path), line[LINE], title[LINE];
	const char *at = text;

	while (next_line(&at, line))
		if (strncmp(line, "plan: ", 6) == 0) {
			snprintf(title, sizeof(title), "%s", line + 6);
			at = plan_read(at, title, take);
		} else if (line[0] != '#' && strncmp(line, "promise: ", 9) != 0) {
			is_wrong("a line before the first plan", line);
		}
	free(text);
}
