/* SPDX-License-Identifier: MIT */
/* options.c - see options.h */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/parse.h"
#include "lib/base/text.h"
#include "lib/settings/options.h"
#include "tools/options.h"

#define NAME_SIZE 80
#define VALUE_SIZE 512
#define LABEL 30
#define LABEL_NONE 12		/* as in the other parts of 'hartebeest info' */

static const char *const prefixes[BEEST_TRANSPORTS] = { "rc:", "uc:", "ud:" };

/* ------------------------------------------------------------ meaning --- */

/* 4.096 us * 2^code: how long to wait for an acknowledgement; 0: for ever. */
static void timeout_text(const struct hartebeest_context *hb, int64_t code, char *text,
			 size_t size)
{
	double ms = 4.096e-3 * (double)(UINT64_C(1) << code);
	char retries[16];

	if (!code) {
		snprintf(text, size, "no limit");
		return;
	}
	hartebeest_option_get(hb, "qp_attr.rc:retry_cnt", retries, sizeof(retries), NULL);
	snprintf(text, size, "%.3g ms; with %s retries a dead peer shows after %.2g s or more", ms,
		 retries, ms * (atoi(retries) + 1) / 1000);
}

/* The value of min_rnr_timer by its code, in units of 10 us. */
static void rnr_text(const struct hartebeest_context *hb, int64_t code, char *text, size_t size)
{
	static const int units[] = {
		65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
		1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	(void)hb;
	snprintf(text, size, "%.4g ms", units[code & 31] / 100.0);
}

/* Settings whose codes need an explanation, and have no words. */
static const struct meaning {
	const char *name;
	void (*text)(const struct hartebeest_context *hb, int64_t code, char *text, size_t size);
} meanings[] = {
	{ "qp_attr.timeout", timeout_text },
	{ "qp_attr.min_rnr_timer", rnr_text },
};

static const char *meaning_of(const struct hartebeest_context *hb, const struct beest_option *row,
			      const char *value, char *text, size_t size)
{
	const char *word;
	int64_t code;
	size_t i;

	text[0] = '\0';
	if (beest_parse_int(value, row->min, row->max, &code) < 0)
		return text;
	word = row->words && !row->joins ? beest_parse_word_text(row->words, code) : NULL;
	if (word)
		beest_text_copy(text, size, word);
	for (i = 0; i < BEEST_COUNT(meanings); i++)
		if (!strcmp(meanings[i].name, row->name))
			meanings[i].text(hb, code, text, size);
	return text;
}

/* -------------------------------------------------------------- range --- */

static const char *range_of(const struct beest_option *row, char *buffer, size_t size)
{
	const struct beest_word *word;
	struct beest_text text;

	beest_text_start(&text, buffer, size);
	if (row->type == BEEST_OPTION_INT)
		beest_text_add(&text, "%" PRId64 "..%" PRId64, row->min, row->max);
	if (row->type == BEEST_OPTION_DURATION)
		beest_text_add(&text, "%s..%s", BEEST_DURATION_TEXT(row->min),
			       BEEST_DURATION_TEXT(row->max));
	for (word = row->words; word && word->text; word++)
		beest_text_add(&text, "%s%s", word > row->words ? "|" : text.used ? " or " : "",
			       word->text);
	if (row->unit)
		beest_text_add(&text, " or a duration");
	return buffer;
}

/* ---------------------------------------------------------------- rows --- */

/* One value of a row.  Its name is "section.rc:key" if values differ by transport. */
struct setting {
	const struct beest_option *row;
	char name[NAME_SIZE], value[VALUE_SIZE];
	const char *source;
};

static void setting_read(const struct hartebeest_context *hb, const struct beest_option *row,
			 int transport, struct setting *setting)
{
	const char *dot = strchr(row->name, '.');

	setting->row = row;
	snprintf(setting->name, sizeof(setting->name), "%.*s%s%s", (int)(dot + 1 - row->name),
		 row->name, row->per_transport ? prefixes[transport] : "", dot + 1);
	hartebeest_option_get(hb, setting->name, setting->value, sizeof(setting->value),
			      &setting->source);
}

/*
 * Reads a row for each transport; returns the number of settings.  If all are alike, that is
 * one, with a name without prefix.
 */
static int settings_read(const struct hartebeest_context *hb, const struct beest_option *row,
			 struct setting settings[BEEST_TRANSPORTS])
{
	bool alike = true;
	int i;

	setting_read(hb, row, 0, &settings[0]);
	for (i = 1; row->per_transport && i < BEEST_TRANSPORTS; i++) {
		setting_read(hb, row, i, &settings[i]);
		alike &= !strcmp(settings[i].value, settings[0].value) &&
			 !strcmp(settings[i].source, settings[0].source);
	}
	if (!alike)
		return BEEST_TRANSPORTS;
	snprintf(settings[0].name, sizeof(settings[0].name), "%s", row->name);
	return 1;
}

static void setting_object(const struct setting *setting, const char *meaning,
			   struct json_object *array)
{
	struct json_object *item = out_json_item(array);
	char range[128];

	out_json_text(item, "name", setting->name);
	out_json_text(item, "value", setting->value);
	out_json_text(item, "source", setting->source);
	out_json_text(item, "default", setting->row->initial ? setting->row->initial : "");
	out_json_text(item, "range", range_of(setting->row, range, sizeof(range)));
	out_json_text(item, "environment",
		      setting->row->environment ? setting->row->environment : "");
	out_json_text(item, "meaning", setting->row->help);
	if (*meaning)
		out_json_text(item, "value_means", meaning);
}

static void setting_line(struct out *out, const struct hartebeest_context *hb,
			 const struct setting *setting, bool in_full)
{
	bool by_default = !strcmp(setting->source, "default");
	char range[128], meaning[128], text[VALUE_SIZE + 1024];
	struct beest_text line;

	meaning_of(hb, setting->row, setting->value, meaning, sizeof(meaning));
	setting_object(setting, meaning, out_json_array(out->json, "options"));
	if (out->json)
		return;

	beest_text_start(&line, text, sizeof(text));
	beest_text_add(&line, "%s", setting->value[0] ? setting->value : "(not given)");
	if (*meaning)
		beest_text_add(&line, " = %s", meaning);
	if (!by_default)
		beest_text_add(&line, "  from %s; default %s", setting->source,
			       setting->row->initial ? setting->row->initial : "(not given)");
	out_line(out, by_default ? OUT_NOTE : OUT_OK, setting->name, "%s", text);
	if (!in_full)
		return;
	range_of(setting->row, range, sizeof(range));
	out_text(out, "        %s%s%s%s%s%s", setting->row->help, *range ? " [" : "", range,
		 *range ? "]" : "", setting->row->environment ? "  " : "",
		 setting->row->environment ? setting->row->environment : "");
}

/* --------------------------------------------------------------- parts --- */

void options_unknown_line(struct out *out)
{
	struct beest_options options;

	beest_options_load(&options, NULL, NULL, NULL);
	if (options.unknown_environment[0]) {
		out_line(out, OUT_WARNING, "variables", "%s", options.unknown_environment);
		out_cure(out, "correct or unset it: an unknown variable has no effect");
	}
	beest_options_free(&options);
}

void options_show_given(struct out *out, const struct hartebeest_context *hb)
{
	static const char title[] = "settings that differ from their defaults";
	struct setting settings[BEEST_TRANSPORTS];
	size_t row;
	int i, count, given = 0;

	for (row = 0; row < beest_option_count; row++) {
		count = settings_read(hb, &beest_option_rows[row], settings);
		for (i = 0; i < count; i++) {
			if (!strcmp(settings[i].source, "default"))
				continue;
			if (!given++)
				out_title(out, LABEL, title);
			setting_line(out, hb, &settings[i], false);
		}
	}
	if (!given) {
		out_title(out, LABEL_NONE, title);
		out_line(out, OUT_NOTE, "none",
			 "all are default; 'hartebeest info --options' lists them");
	}
	options_unknown_line(out);
}

void options_show_all(struct out *out, const struct hartebeest_context *hb)
{
	struct setting settings[BEEST_TRANSPORTS];
	const char *name, *section = "";
	char title[NAME_SIZE];
	size_t row;
	int i, count;

	for (row = 0; row < beest_option_count; row++) {
		name = beest_option_rows[row].name;
		if (strncmp(name, section, strcspn(name, ".") + 1)) {
			snprintf(title, sizeof(title), "%.*s", (int)strcspn(name, "."), name);
			out_title(out, LABEL, title);
			section = name;
		}
		count = settings_read(hb, &beest_option_rows[row], settings);
		for (i = 0; i < count; i++)
			setting_line(out, hb, &settings[i], true);
	}
	options_unknown_line(out);
}
