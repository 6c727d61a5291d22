/* SPDX-License-Identifier: MIT */
/*
 * options.c - every row, every source, and every sentence users rely on
 *
 * promise: hartebeest.json(5), hartebeest_open(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "lib/base/nearest.h"
#include "lib/settings/options.h"
#include "tests/support/scratch.h"

static char folder[SCRATCH_SIZE];
static char json_path[128];
static char system_path[128];

/* ------------------------------------------------------------ helpers --- */

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	scratch_folder(folder, "unit-options");
	snprintf(json_path, sizeof(json_path), "%s/user.json", folder);
	snprintf(system_path, sizeof(system_path), "%s/system.json", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(json_path);
	rmdir(json_path);
	unlink(system_path);
	return rmdir(folder);
}

static void write_bytes(const char *path, const char *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

static void write_text(const char *path, const char *text)
{
	write_bytes(path, text, strlen(text));
}

static void use_json(const char *text)
{
	write_text(json_path, text);
	setenv("HARTEBEEST_CONF_PATH", json_path, 1);
}

static int load_with(struct beest_options *options, const char *argument)
{
	const char *arguments[] = { argument, NULL };

	return beest_options_load(options, NULL, NULL, arguments);
}

/* Like assert_error_is(), but @wanted has "FILE" instead of the path, which varies. */
/* A refused value's sentence ends with the help of its option, which @sentence names. */
static bool is_help(const char *end, const char *sentence)
{
	char help[BEEST_ERROR_SIZE];
	size_t i;

	for (i = 0; i < beest_option_count; i++) {
		snprintf(help, sizeof(help), " (%s)", beest_option_rows[i].help);
		if (!strcmp(end, help) &&
		    strstr(sentence, strrchr(beest_option_rows[i].name, '.') + 1))
			return true;
	}
	return false;
}

/* @wanted: without the help that may follow. */
static void assert_sentence(const char *wanted)
{
	char text[2 * BEEST_ERROR_SIZE] = "";
	const char *from = beest_error_text();
	const char *path;

	while ((path = strstr(from, json_path))) {
		strncat(text, from, path - from);
		strcat(text, "FILE");
		from = path + strlen(json_path);
	}
	strcat(text, from);
	if (strncmp(text, wanted, strlen(wanted)) || !is_help(text + strlen(wanted), wanted))
		assert_string_equal(text, wanted);
}

static void refuses_json(const char *text, int err, const char *sentence)
{
	struct beest_options options;

	use_json(text);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -err);
	assert_sentence(sentence);
	beest_options_free(&options);
	unsetenv("HARTEBEEST_CONF_PATH");
}

static void refuses_argument(const char *argument, int err, const char *sentence)
{
	struct beest_options options;

	assert_int_equal(load_with(&options, argument), -err);
	assert_sentence(sentence);
	beest_options_free(&options);
}

static void assert_value(const struct beest_options *options, const char *name,
			 const char *value, const char *source)
{
	char text[256];
	const char *from;

	assert_true(beest_options_text(options, name, text, sizeof(text), &from) >= 0);
	assert_string_equal(text, value);
	assert_string_equal(from, source);
}

/* ---------------------------------------------------------- every row --- */

enum way { JSON, ENVIRONMENT, ARGUMENT, WAYS };

static bool has_way(const struct beest_option *row, enum way way)
{
	return way != ENVIRONMENT || row->environment;
}

/* Integers are written bare into JSON, all other values in quotes. */
static void put_json(const struct beest_option *row, const char *value)
{
	bool bare = row->type == BEEST_OPTION_INT && !isalpha((unsigned char)value[0]);
	int length = (int)strcspn(row->name, ".");
	char text[256];

	snprintf(text, sizeof(text), "{ \"%.*s\": { \"%s\": %s%s%s } }", length, row->name,
		 row->name + length + 1, bare ? "" : "\"", value, bare ? "" : "\"");
	use_json(text);
}

static int load_by(struct beest_options *options, const struct beest_option *row,
		   enum way way, const char *value)
{
	char argument[256];
	int ret;

	snprintf(argument, sizeof(argument), "%s=%s", row->name, value);
	if (way == JSON)
		put_json(row, value);
	if (way == ENVIRONMENT)
		setenv(row->environment, value, 1);
	ret = load_with(options, way == ARGUMENT ? argument : NULL);

	unsetenv("HARTEBEEST_CONF_PATH");
	if (row->environment)
		unsetenv(row->environment);
	return ret;
}

static void source_by(const struct beest_option *row, enum way way, char *source)
{
	if (way == JSON)
		strcpy(source, json_path);
	else if (way == ENVIRONMENT)
		sprintf(source, "environment %s", row->environment);
	else
		strcpy(source, "argument");
}

static void assert_others_untouched(const struct beest_options *options,
				    const struct beest_option *row)
{
	struct beest_options defaults;
	char text[256];
	size_t i;

	assert_int_equal(beest_options_load(&defaults, NULL, NULL, NULL), 0);
	for (i = 0; i < beest_option_count; i++) {
		if (&beest_option_rows[i] == row)
			continue;
		assert_true(beest_options_text(&defaults, beest_option_rows[i].name, text,
					       sizeof(text), NULL) >= 0);
		assert_value(options, beest_option_rows[i].name, text, "default");
	}
	beest_options_free(&defaults);
}

static void accepts(const struct beest_option *row, const char *value)
{
	char source[128];
	struct beest_options options;
	enum way way;

	for (way = JSON; way < WAYS; way++) {
		if (!has_way(row, way))
			continue;
		if (load_by(&options, row, way, value) < 0)
			fail_msg("%s=%s: %s", row->name, value, beest_error_text());
		source_by(row, way, source);
		assert_value(&options, row->name, value, source);
		assert_others_untouched(&options, row);
		beest_options_free(&options);
	}
}

/* The value is refused in every way, and the default stays. */
static void refuses(const struct beest_option *row, const char *value, int err)
{
	struct beest_options options;
	enum way way;

	for (way = JSON; way < WAYS; way++) {
		if (!has_way(row, way))
			continue;
		if (load_by(&options, row, way, value) != -err)
			fail_msg("%s=%s is not refused by %d", row->name, value, err);
		assert_non_null(strstr(beest_error_text(), row->name));
		assert_value(&options, row->name, !row->initial ? "" :
			     strcmp(row->initial, "0x11111111") ? row->initial : "286331153",
			     "default");
		beest_options_free(&options);
	}
}

static void number_text(int64_t number, char *text)
{
	sprintf(text, "%" PRId64, number);
}

static void microseconds_text(int64_t ns, char *text)
{
	sprintf(text, "%" PRId64 "us", ns / 1000);
}

static void walk_int(const struct beest_option *row)
{
	const struct beest_word *word;
	char text[32];

	number_text(row->min, text);
	accepts(row, text);
	number_text(row->max, text);
	accepts(row, text);
	number_text(row->min - 1, text);
	refuses(row, text, ERANGE);
	number_text(row->max + 1, text);
	refuses(row, text, ERANGE);
	refuses(row, "99999999999999999999", ERANGE);
	for (word = row->words; word && word->text; word++)
		if (word->value < 0)
			accepts(row, word->text);
}

/* min and max are printed in other units than given here. */
static void walk_duration(const struct beest_option *row)
{
	struct beest_options options;
	char text[32];

	microseconds_text(row->min, text);
	assert_int_equal(load_by(&options, row, ARGUMENT, text), 0);
	beest_options_free(&options);
	accepts(row, "30d");
	microseconds_text(row->max + 1000, text);
	refuses(row, text, ERANGE);
	microseconds_text(row->min - 1000, text);
	refuses(row, text, row->min ? ERANGE : EINVAL);
	refuses(row, "30", EINVAL);
}

static void walk_string(const struct beest_option *row)
{
	accepts(row, "some-text");
	refuses(row, "", EINVAL);
}

static void walk_word(const struct beest_option *row)
{
	const struct beest_word *word;

	for (word = row->words; word->text; word++)
		accepts(row, word->text);
	refuses(row, "neither", EINVAL);
	refuses(row, "", EINVAL);
}

/* A secret is read only from the environment, and never shown. */

static void (*const walks[])(const struct beest_option *row) = {
	[BEEST_OPTION_INT] = walk_int,
	[BEEST_OPTION_DURATION] = walk_duration,
	[BEEST_OPTION_STRING] = walk_string,
	[BEEST_OPTION_WORD] = walk_word,
};

static void every_row_takes_its_range(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < beest_option_count; i++)
		walks[beest_option_rows[i].type](&beest_option_rows[i]);
}

/* A printed default can be given as an argument, and means the same again. */
static void every_default_goes_round(void **state)
{
	struct beest_options options, again;
	char text[128];
	const char *source;
	size_t i;

	(void)state;
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), 0);
	for (i = 0; i < beest_option_count; i++) {
		const struct beest_option *row = &beest_option_rows[i];

		assert_true(beest_options_text(&options, row->name, text, sizeof(text),
					       &source) >= 0);
		assert_string_equal(source, "default");
		assert_int_equal(!row->initial, !*text);
		if (!row->initial)
			continue;
		assert_int_equal(load_by(&again, row, ARGUMENT, text), 0);
		assert_value(&again, row->name, text, "argument");
		beest_options_free(&again);
		assert_int_equal(load_by(&again, row, ARGUMENT, row->initial), 0);
		assert_value(&again, row->name, text, "argument");
		beest_options_free(&again);
	}
	beest_options_free(&options);
}

static void every_row_explains_itself(void **state)
{
	size_t i, j;

	(void)state;
	for (i = 0; i < beest_option_count; i++) {
		assert_non_null(beest_option_rows[i].help);
		for (j = 0; j < i; j++)
			assert_string_not_equal(beest_option_rows[i].name,
						beest_option_rows[j].name);
	}
}

static void defaults_are_in_the_struct(void **state)
{
	struct beest_options options;
	int i;

	(void)state;
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), 0);
	assert_int_equal(options.cq_depth, 512);
	for (i = 0; i < BEEST_TRANSPORTS; i++) {
		assert_int_equal(options.qp[i].qp_type, 2);
		assert_int_equal(options.qp[i].max_inline_data, 256);
		assert_int_equal(options.qp[i].path_mtu, BEEST_AUTO);
		assert_int_equal(options.qp[i].min_rnr_timer, 12);
		assert_int_equal(options.qp[i].timeout, 14);
		assert_int_equal(options.qp[i].hop_limit, 64);
		assert_int_equal(options.qp[i].qkey, 0x11111111);
		assert_int_equal(options.qp[i].access_flags, BEEST_AUTO);
	}
	assert_null(options.device_name);
	assert_string_equal(options.device_gid, "auto");
	assert_null(options.servers);
	assert_int_equal(options.timeout, INT64_C(30000000000));
	assert_int_equal(options.ttl, INT64_C(86400000000000));
	assert_int_equal(options.poll_timeout, INT64_C(3600000000000));
	assert_int_equal(options.fetch_timeout, INT64_C(3600000000000));
	assert_null(options.participants);
	assert_int_equal(options.nparticipants, BEEST_AUTO);
	assert_int_equal(options.rank, BEEST_AUTO);
	assert_int_equal(options.log_level, BEEST_LOG_NONE);
	assert_string_equal(options.unknown_environment, "");
	assert_null(options.file[0]);
	assert_null(options.file[1]);
	beest_options_free(&options);
}

/* --------------------------------------------------------- transports --- */

static void a_prefix_sets_one_transport(void **state)
{
	static const char *const prefixes[] = { "rc:", "uc:", "ud:" };
	struct beest_options options;
	char argument[128];
	int set, seen;

	(void)state;
	for (set = 0; set < BEEST_TRANSPORTS; set++) {
		sprintf(argument, "qp_init_attr.%scap.max_send_wr=7", prefixes[set]);
		assert_int_equal(load_with(&options, argument), 0);
		for (seen = 0; seen < BEEST_TRANSPORTS; seen++) {
			sprintf(argument, "qp_init_attr.%scap.max_send_wr", prefixes[seen]);
			assert_int_equal(options.qp[seen].max_send_wr, seen == set ? 7 : 128);
			assert_value(&options, argument, seen == set ? "7" : "128",
				     seen == set ? "argument" : "default");
		}
		beest_options_free(&options);
	}
}

static void no_prefix_sets_all(void **state)
{
	struct beest_options options;

	(void)state;
	assert_int_equal(load_with(&options, "qp_attr.timeout=20"), 0);
	assert_int_equal(options.qp[BEEST_RC].timeout, 20);
	assert_int_equal(options.qp[BEEST_UC].timeout, 20);
	assert_int_equal(options.qp[BEEST_UD].timeout, 20);
	assert_value(&options, "qp_attr.timeout", "20", "argument");
	beest_options_free(&options);
}

static void prefix_wins(const char *json)
{
	struct beest_options options;

	use_json(json);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), 0);
	assert_int_equal(options.qp[BEEST_RC].timeout, 3);
	assert_int_equal(options.qp[BEEST_UC].timeout, 5);
	assert_int_equal(options.qp[BEEST_UD].timeout, 5);
	beest_options_free(&options);
}

static void a_prefix_wins_in_any_order(void **state)
{
	(void)state;
	prefix_wins("{ \"qp_attr\": { \"rc:timeout\": 3, \"timeout\": 5 } }");
	prefix_wins("{ \"qp_attr\": { \"timeout\": 5, \"rc:timeout\": 3 } }");
}

/* Within one source, the prefix wins; but an argument overrides a file. */
static void a_higher_source_wins_over_a_prefix(void **state)
{
	struct beest_options options;

	(void)state;
	use_json("{ \"qp_attr\": { \"rc:timeout\": 3 } }");
	assert_int_equal(load_with(&options, "qp_attr.timeout=5"), 0);
	assert_int_equal(options.qp[BEEST_RC].timeout, 5);
	beest_options_free(&options);
}

static void a_qp_type_with_a_prefix_is_checked(void **state)
{
	struct beest_options options;

	(void)state;
	use_json("{ \"qp_init_attr\": { \"rc:qp_type\": 2, \"uc:qp_type\": 3,"
		 " \"ud:qp_type\": 4 } }");
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), 0);
	assert_int_equal(options.qp[BEEST_UC].qp_type, 3);
	assert_int_equal(options.qp[BEEST_UD].qp_type, 4);
	beest_options_free(&options);

	refuses_json("{ \"qp_init_attr\": {\n\"uc:qp_type\": 2 } }", EINVAL,
		     "FILE:2: qp_init_attr.uc:qp_type: "
		     "2 is not the type of uc:qp_type, which is always 3");
	refuses_argument("qp_init_attr.rc:qp_type=4", EINVAL,
			 "argument qp_init_attr.rc:qp_type: "
			 "4 is not the type of rc:qp_type, which is always 2");
}

static void other_rows_have_no_prefix(void **state)
{
	(void)state;
	refuses_argument("cq_attr.rc:cq_depth=4", EINVAL,
			 "argument: unknown option "
			 "'cq_attr.rc:cq_depth', the nearest is cq_attr.cq_depth");
}

/* ------------------------------------------------------------ sources --- */

static void defaults_of_the_caller(void **state)
{
	const char *const defaults[] = { "exchange.timeout=4s", "poll.timeout=5s", NULL };
	struct beest_options options;

	(void)state;
	write_text(system_path, "{ \"exchange\": { \"timeout\": \"1s\" } }");
	assert_int_equal(beest_options_load(&options, defaults, system_path, NULL), 0);
	assert_value(&options, "exchange.timeout", "1s", system_path);
	assert_value(&options, "poll.timeout", "5s", "default");
	beest_options_free(&options);
}

static void one_source_wins_over_another(void **state)
{
	struct beest_options options;

	(void)state;
	write_text(system_path, "{ \"exchange\": { \"timeout\": \"1s\" },"
			       " \"job\": { \"rank\": 1 } }");
	assert_int_equal(beest_options_load(&options, NULL, system_path, NULL), 0);
	assert_value(&options, "exchange.timeout", "1s", system_path);
	assert_value(&options, "job.rank", "1", system_path);
	assert_string_equal(options.file[0], system_path);
	assert_null(options.file[1]);
	beest_options_free(&options);

	use_json("{ \"exchange\": { \"timeout\": \"2s\" } }");
	assert_int_equal(beest_options_load(&options, NULL, system_path, NULL), 0);
	assert_value(&options, "exchange.timeout", "2s", json_path);
	assert_value(&options, "job.rank", "1", system_path);
	assert_string_equal(options.file[1], json_path);
	beest_options_free(&options);

	setenv("HARTEBEEST_TIMEOUT", "3s", 1);
	assert_int_equal(beest_options_load(&options, NULL, system_path, NULL), 0);
	assert_value(&options, "exchange.timeout", "3s", "environment HARTEBEEST_TIMEOUT");
	beest_options_free(&options);

	assert_int_equal(load_with(&options, "exchange.timeout=4s"), 0);
	assert_value(&options, "exchange.timeout", "4s", "argument");
	beest_options_free(&options);
}

static void the_system_file_may_be_absent(void **state)
{
	struct beest_options options;

	(void)state;
	assert_int_equal(beest_options_load(&options, NULL, system_path, NULL), 0);
	assert_null(options.file[0]);
	beest_options_free(&options);
}

static void a_named_file_must_exist(void **state)
{
	struct beest_options options;

	(void)state;
	unlink(json_path);
	setenv("HARTEBEEST_CONF_PATH", json_path, 1);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -ENOENT);
	assert_sentence("environment HARTEBEEST_CONF_PATH: 'FILE': No such file or directory");
	beest_options_free(&options);

	setenv("HARTEBEEST_CONF_PATH", "", 1);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -EINVAL);
	assert_sentence("environment HARTEBEEST_CONF_PATH: '' is not a value; "
			"leave it out instead");
	beest_options_free(&options);
}

/* A number alone explains nothing. */
static void a_refused_value_is_explained(void **state)
{
	static const char help[] = " (service level)";
	struct beest_options options;

	(void)state;
	use_json("{ \"qp_attr\": { \"ah_attr.sl\": 16 } }");
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -ERANGE);
	assert_non_null(strstr(beest_error_text(), "'16' is out of range: 0 to 15 (service "
			       "level)"));
	beest_options_free(&options);
	use_json("{ \"qp_attr\": { \"ah_attr.sl\": 1.5 } }");
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -EINVAL);
	assert_non_null(strstr(beest_error_text(), help));
	beest_options_free(&options);
	unsetenv("HARTEBEEST_CONF_PATH");

	assert_int_equal(load_with(&options, "qp_attr.ah_attr.sl=x"), -EINVAL);
	assert_string_equal(beest_error_text(), "argument qp_attr.ah_attr.sl: 'x' is not a number "
			    "from 0 to 15 (service level)");
	beest_options_free(&options);
	setenv("HARTEBEEST_NPARTICIPANTS", "0", 1);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -ERANGE);
	assert_string_equal(beest_error_text(), "environment HARTEBEEST_NPARTICIPANTS "
			    "(job.nparticipants): '0' is out of range: 1 to 1000000 (number of "
			    "ranks, with ids from 0)");
	beest_options_free(&options);
	unsetenv("HARTEBEEST_NPARTICIPANTS");
}

static void the_last_of_equal_arguments_wins(void **state)
{
	const char *arguments[] = { "job.rank=1", "job.rank=2", NULL };
	struct beest_options options;

	(void)state;
	assert_int_equal(beest_options_load(&options, NULL, NULL, arguments), 0);
	assert_int_equal(options.rank, 2);
	beest_options_free(&options);
}

/*
 * All sources are read before the first failure is reported, so log.level applies to the
 * report.
 */
static void all_is_read_and_the_first_failure_told(void **state)
{
	const char *arguments[] = { "job.rank=x", "log.level=debug", "job.rank=y", NULL };
	struct beest_options options;

	(void)state;
	setenv("HARTEBEEST_TIMEOUT", "soon", 1);
	setenv("HARTEBEEST_NID", "4", 1);
	assert_int_equal(beest_options_load(&options, NULL, NULL, arguments), -EINVAL);
	assert_sentence("environment HARTEBEEST_TIMEOUT (exchange.timeout): "
			"'soon' is not a duration such as 30s or 67ms");
	assert_int_equal(options.log_level, BEEST_LOG_DEBUG);
	assert_value(&options, "job.rank", "4", "environment HARTEBEEST_NID");
	assert_value(&options, "exchange.timeout", "30s", "default");
	beest_options_free(&options);
}

static void the_rest_of_a_file_with_a_bad_key_holds(void **state)
{
	struct beest_options options;

	(void)state;
	use_json("{ \"cq_attr\": { \"cq_depth\": 0 },\n  \"qp_attr\": { \"timout\": 1,\n"
		 "    \"retry_cnt\": 3 },\n  \"log\": { \"level\": \"info\" } }");
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -ERANGE);
	assert_sentence("FILE:1: cq_attr.cq_depth: "
			"'0' is out of range: 1 to 4194304");
	assert_value(&options, "cq_attr.cq_depth", "512", "default");
	assert_value(&options, "qp_attr.retry_cnt", "3", json_path);
	assert_int_equal(options.log_level, BEEST_LOG_INFO);
	beest_options_free(&options);
}

/* -------------------------------------------------------- JSON: values --- */

#define AT "FILE"

static void json_types_are_told(void **state)
{
	static const struct {
		const char *json, *sentence;
	} cases[] = {
		{ "{\"qp_attr\":{\"timeout\":\"14\"}}",
		  "qp_attr.timeout: found the text '14', expected a whole number" },
		{ "{\"qp_attr\":{\"timeout\":\"auto\"}}",
		  "qp_attr.timeout: 'auto' is not a number from 0 to 31, or a duration such as "
		  "67ms" },
		{ "{\"qp_attr\":{\"ud:path_mtu\":\"4\"}}",
		  "qp_attr.ud:path_mtu: found the text '4', expected a whole number" },
		{ "{\"qp_attr\":{\"pkey\":\"0x1234\"}}",
		  "qp_attr.pkey: found the text '0x1234', expected a whole number in decimal: JSON "
		  "has no hexadecimal" },
		{ "{\"qp_attr\":{\"timeout\":1.5}}",
		  "qp_attr.timeout: found the number 1.5, expected a whole number" },
		{ "{\"qp_attr\":{\"timeout\":true}}",
		  "qp_attr.timeout: found true, expected a whole number" },
		{ "{\"qp_attr\":{\"timeout\":null}}",
		  "qp_attr.timeout: found null, expected a whole number" },
		{ "{\"qp_attr\":{\"timeout\":[14]}}",
		  "qp_attr.timeout: found an array, expected a whole number" },
		{ "{\"qp_attr\":{\"timeout\":{\"qp_attr\":{\"timeout\":3}}}}",
		  "qp_attr.timeout: found an object, expected a whole number" },
		{ "{\"mr\":{\"huge_pages\":false}}",
		  "mr.huge_pages: found false, expected a whole number" },
		{ "{\"exchange\":{\"timeout\":30}}",
		  "exchange.timeout: found the number 30, expected a duration in quotes, "
		  "such as \"30s\"" },
		{ "{\"job\":{\"id\":7}}",
		  "job.id: found the number 7, expected text in quotes" },
		{ "{\"job\":{\"id\":null}}", "job.id: found null, expected text in quotes" },
		{ "{\"exchange\":{\"servers\":[\"a\"]}}", "exchange.servers: found an array, "
		  "expected text in quotes, with commas between several" },
		{ "{\"device\":{\"roce\":2}}",
		  "device.roce: found the number 2, expected a word in quotes" },
		{ "{\"log\":{\"level\":7}}",
		  "log.level: found the number 7, expected a word in quotes" },
		{ "{\"qp_attr\":7}", "qp_attr: found the number 7, expected an object" },
		{ "{\"qp_attr\":[{\"timeout\":7}]}",
		  "qp_attr: found an array, expected an object" },
		{ "{\"qp_attr\":null}", "qp_attr: found null, expected an object" },
	};
	char sentence[256];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(cases); i++) {
		snprintf(sentence, sizeof(sentence), AT ":1: %s", cases[i].sentence);
		refuses_json(cases[i].json, EINVAL, sentence);
	}
}

/* Words for numbers, in arguments and, in quotes, in a file. */
static void words_for_numbers(void **state)
{
	static const struct {
		const char *name, *text;
		int64_t value;
	} rows[] = {
		{ "qp_init_attr.qp_type", "UC", 3 }, { "qp_init_attr.qp_type", "ud", 4 },
		{ "qp_init_attr.qp_type", "2", 2 }, { "qp_attr.path_mtu", "4096", 5 },
		{ "qp_attr.path_mtu", "256", 1 }, { "qp_attr.path_mtu", "3", 3 },
		{ "qp_attr.access_flags", "REMOTE_WRITE|LOCAL_WRITE", 3 },
		{ "qp_attr.access_flags", "relaxed_ordering", 1 << 20 },
		{ "qp_attr.access_flags", "7", 7 },
		/* 4.096 us * 2^14 are 67.1 ms */
		{ "qp_attr.timeout", "67ms", 14 }, { "qp_attr.timeout", "68ms", 15 },
		{ "qp_attr.timeout", "1us", 1 }, { "qp_attr.timeout", "2h", 31 },
		{ "qp_attr.timeout", "0", 0 },
	};
	char argument[128], value[32], json[160];
	const char *arguments[] = { argument, NULL }, *dot;
	struct beest_options options;
	size_t i;
	int ret;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		snprintf(argument, sizeof(argument), "%s=%s", rows[i].name, rows[i].text);
		assert_int_equal(beest_options_load(&options, NULL, NULL, arguments), 0);
		beest_options_text(&options, rows[i].name, value, sizeof(value), NULL);
		assert_int_equal(atoll(value), rows[i].value);
		beest_options_free(&options);
		dot = strchr(rows[i].name, '.');
		snprintf(json, sizeof(json), "{ \"%.*s\": { \"%s\": \"%s\" } }",
			 (int)(dot - rows[i].name), rows[i].name, dot + 1, rows[i].text);
		use_json(json);
		ret = beest_options_load(&options, NULL, NULL, NULL);
		unsetenv("HARTEBEEST_CONF_PATH");
		/* A number is none in quotes, unless it is a word. */
		assert_int_equal(ret, strlen(rows[i].text) == 1 ? -EINVAL : 0);
		beest_options_free(&options);
	}
	refuses_argument("qp_attr.timeout=0ms", EINVAL, "argument qp_attr.timeout: '0ms' is not a "
			 "number from 0 to 31, or a duration such as 67ms");
	refuses_argument("qp_attr.rc:qp_type=UD", EINVAL, "argument: unknown option "
			 "'qp_attr.rc:qp_type', the nearest is qp_init_attr.rc:qp_type");
	refuses_argument("qp_init_attr.rc:qp_type=UD", EINVAL, "argument "
			 "qp_init_attr.rc:qp_type: UD is not the type of rc:qp_type, which is "
			 "always 2");
	refuses_argument("qp_attr.access_flags=REMOTE_WRITE|READ", EINVAL, "argument "
			 "qp_attr.access_flags: 'REMOTE_WRITE|READ' is not a number from 0 to "
			 "2097151, LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, MW_BIND, "
			 "ZERO_BASED, ON_DEMAND, HUGETLB, RELAXED_ORDERING, or 'auto'");
	refuses_argument("qp_attr.timeout=3h", EINVAL, "argument qp_attr.timeout: '3h' is not a "
			 "number from 0 to 31, or a duration such as 67ms");
}

static void json_ranges_are_told(void **state)
{
	(void)state;
	refuses_json("{ \"qp_attr\": {\n \"retry_cnt\": 7,\n \"uc:timeout\": 32 } }", ERANGE,
		     AT ":3: qp_attr.uc:timeout: '32' is out of range: 0 to 31, or a duration such "
		     "as 67ms");
	refuses_json("{ \"qp_attr\": { \"path_mtu\": 4097 } }", ERANGE,
		     AT ":1: qp_attr.path_mtu: '4097' is out of range: 1 to 5, 256, 512, 1024, "
		     "2048, 4096, or 'auto'");
	refuses_json("{ \"qp_attr\": { \"timeout\": -1 } }", ERANGE,
		     AT ":1: qp_attr.timeout: '-1' is out of range: 0 to 31, "
		     "or a duration such as 67ms");
	refuses_json("{ \"qp_attr\": { \"timeout\": 4294967297 } }", ERANGE,
		     AT ":1: qp_attr.timeout: '4294967297' is out of range: 0 to 31, "
		     "or a duration such as 67ms");
	/* Of these, json-c reads the nearest number, which differs between its versions. */
	refuses_json("{ \"qp_attr\": { \"timeout\": 18446744073709551630 } }", ERANGE,
		     AT ":1: qp_attr.timeout: '18446744073709551630' is out of range: 0 to 31, "
		     "or a duration such as 67ms");
	refuses_json("{ \"qp_attr\": { \"timeout\": -9223372036854775809 } }", ERANGE,
		     AT ":1: qp_attr.timeout: '-9223372036854775809' is out of range: 0 to 31, "
		     "or a duration such as 67ms");
	refuses_json("{ \"exchange\": 18446744073709551630 }", EINVAL, AT ":1: exchange: found "
		     "the number 18446744073709551630, expected an object");
	refuses_json("{ \"exchange\": { \"ttl\": 1.50e9 } }", EINVAL, AT ":1: exchange.ttl: "
		     "found the number 1.50e9, expected a duration in quotes, such as \"30s\"");
	refuses_json("{ \"exchange\": { \"ttl\": \"31d\" } }", ERANGE,
		     AT ":1: exchange.ttl: '31d' is not in the range 1s to 30d");
	refuses_json("{ \"exchange\": { \"timeout\": \"100us\" } }", ERANGE,
		     AT ":1: exchange.timeout: '100us' is not in the range 1ms to 30d");
	refuses_json("{ \"device\": { \"roce\": \"v3\" } }", EINVAL,
		     AT ":1: device.roce: 'v3' is not one of auto, v1, v2");
	refuses_json("{ \"device\": { \"name\": \"\" } }", EINVAL,
		     AT ":1: device.name: '' is not a value; leave it out instead");
}

static void json_strings_are_decoded(void **state)
{
	struct beest_options options;

	(void)state;
	use_json("{ \"exchange\": { \"servers\": \"\\/run\\/m.sock,\\u0068ost:11211\" } }");
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), 0);
	assert_string_equal(options.servers, "/run/m.sock,host:11211");
	beest_options_free(&options);
}

static void unknown_keys_are_told(void **state)
{
	(void)state;
	refuses_json("{ \"qp_attr\": {\n\n \"timout\": 1 } }", EINVAL,
		     AT ":3: unknown option 'qp_attr.timout', the nearest is qp_attr.timeout");
	refuses_json("{ \"qp_attr\": { \"rc:timout\": 1 } }", EINVAL, AT ":1: unknown option "
		     "'qp_attr.rc:timout', the nearest is qp_attr.rc:timeout");
	refuses_json("{ \"qp_attr\": { \"Timeout\": 1 } }", EINVAL,
		     AT ":1: unknown option 'qp_attr.Timeout', the nearest is qp_attr.timeout");
	/* A right key in a wrong section, and a part of a key. */
	refuses_json("{ \"cq_attr\": { \"retry_cnt\": 1 } }", EINVAL,
		     AT ":1: unknown option 'cq_attr.retry_cnt', the nearest is "
		     "qp_attr.retry_cnt");
	refuses_json("{ \"qp_attr\": { \"uc:max_inline_data\": 1 } }", EINVAL,
		     AT ":1: unknown option 'qp_attr.uc:max_inline_data', the nearest is "
		     "qp_init_attr.uc:cap.max_inline_data");
	refuses_json("{ \"qp_attr\": { \"sl\": 1 } }", EINVAL,
		     AT ":1: unknown option 'qp_attr.sl', the nearest is qp_attr.ah_attr.sl");
	refuses_json("{ \"qp_attr\": { \"colour_of_the_cable\": 1 } }", EINVAL,
		     AT ":1: unknown option 'qp_attr.colour_of_the_cable'");
	refuses_json("{ \"qp_attr\": { \"\": 1 } }", EINVAL, AT ":1: unknown option "
		     "'qp_attr.', the nearest is qp_attr.ece");
	refuses_json("{\n \"qp_atr\": {} }", EINVAL,
		     AT ":2: unknown section 'qp_atr', the nearest is qp_attr");
	refuses_json("{ \"shopping\": { \"timeout\": 1 } }", EINVAL,
		     AT ":1: unknown section 'shopping'");
	refuses_json("{ \"timeout\": \"5s\" }", EINVAL,
		     AT ":1: unknown section 'timeout', the nearest is exchange.timeout");
	refuses_json("{ \"servers\": \"localhost\" }", EINVAL,
		     AT ":1: unknown section 'servers', the nearest is exchange.servers");
	refuses_json("{ \"HARTEBEEST_TIMEOUT\": \"5s\" }", EINVAL,
		     AT ":1: unknown section 'HARTEBEEST_TIMEOUT', the nearest is "
		     "exchange.timeout");
	refuses_json("{ \"exchange\": { \"HARTEBEEST_TIMEOUT\": \"5s\" } }", EINVAL,
		     AT ":1: unknown option 'exchange.HARTEBEEST_TIMEOUT', the nearest is "
		     "exchange.timeout");
}

/* The library's comparisons lead here by the linker's --wrap, and are counted. */
int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);
int __real_strncmp(const char *a, const char *b, size_t size);
int __wrap_strncmp(const char *a, const char *b, size_t size);
void __real_beest_nearest_offer(struct beest_nearest *nearest, const char *candidate,
				const void *meaning);
void __wrap_beest_nearest_offer(struct beest_nearest *nearest, const char *candidate,
				const void *meaning);

static long comparisons, offers;

int __wrap_strcmp(const char *a, const char *b)
{
	comparisons++;
	return __real_strcmp(a, b);
}

int __wrap_strncmp(const char *a, const char *b, size_t size)
{
	comparisons++;
	return __real_strncmp(a, b, size);
}

void __wrap_beest_nearest_offer(struct beest_nearest *nearest, const char *candidate,
				const void *meaning)
{
	offers++;
	__real_beest_nearest_offer(nearest, candidate, meaning);
}

static void read_unknown(int count)
{
	char *text = malloc(32 + 16 * (size_t)count), *at = text;
	struct beest_options options;
	int i;

	assert_non_null(text);
	at += sprintf(at, "{ \"exchange\": {");
	for (i = 0; i < count; i++)
		at += sprintf(at, "%s\n\"key%05d\":1", i ? "," : "", i);
	strcpy(at, "} }");
	use_json(text);
	comparisons = offers = 0;
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -EINVAL);
	beest_options_free(&options);
	free(text);
}

/* Each key costs the same, however many there are, and the nearest name is looked for once. */
static void unknown_keys_take_their_share(void **state)
{
	long few, offers_of_few;

	(void)state;
	read_unknown(1000);
	few = comparisons;
	offers_of_few = offers;
	assert_true(few > 1000 && offers > 0);
	read_unknown(8000);
	assert_true(comparisons <= 8 * few);
	assert_int_equal(offers, offers_of_few);
}

/* Names that are right in an argument but not in JSON, and a misplaced transport. */
static void misplaced_names_are_told(void **state)
{
	(void)state;
	refuses_json("{ \"exchange.timeout\": \"5s\" }", EINVAL,
		     AT ":1: unknown section 'exchange.timeout', the nearest is "
		     "\"exchange\": { \"timeout\": ... }");
	refuses_json("{ \"qp_attr.rc:timeout\": 5 }", EINVAL,
		     AT ":1: unknown section 'qp_attr.rc:timeout', the nearest is "
		     "\"qp_attr\": { \"rc:timeout\": ... }");
	refuses_json("{ \"libfoo.bar\": 5 }", EINVAL, AT ":1: unknown section 'libfoo.bar'");
	refuses_json("{ \"rc:qp_attr\": { \"timeout\": 5 } }", EINVAL,
		     AT ":1: unknown section 'rc:qp_attr', the nearest is qp_attr");
	refuses_argument("rc:qp_attr.timeout=5", EINVAL,
			 "argument: unknown option 'rc:qp_attr.timeout', the nearest is "
			 "qp_attr.timeout");
	refuses_argument("uc:exchange.timeout=5", EINVAL,
			 "argument: unknown option 'uc:exchange.timeout', the nearest is "
			 "exchange.timeout");
}

static void repeated_keys_are_told(void **state)
{
	(void)state;
	refuses_json("{ \"qp_attr\": {\n \"timeout\": 3,\n \"retry_cnt\": 1,\n \"timeout\": 4 } }",
		     EBADMSG, AT ":4: qp_attr.timeout is given twice, first in line 2");
	refuses_json("{ \"qp_attr\": {},\n \"cq_attr\": {},\n \"qp_attr\": {} }", EBADMSG,
		     AT ":3: qp_attr is given twice, first in line 1");
	refuses_json("{ \"qp_attr\": { \"timeout\": \"x\" },\n \"qp_attr\": 1 }", EBADMSG,
		     AT ":2: qp_attr is given twice, first in line 1");
}

/* -------------------------------------------------------- JSON: grammar --- */

/* All versions of json-c lead to the same sentences, whatever they accept. */
static void malformed_json_is_named(void **state)
{
	static const struct {
		const char *json, *sentence;
	} cases[] = {
		{ "", ": the file is empty; write at least {}" },
		{ " \n\t", ": the file is empty; write at least {}" },
		{ "[]", ":1: the file must be one object, { ... }" },
		{ "7", ":1: the file must be one object, { ... }" },
		{ "null", ":1: the file must be one object, { ... }" },
		{ "\n\"qp_attr\"", ":2: the file must be one object, { ... }" },
		{ "{} {}", ":1: text after the end of the object" },
		{ "{}\n}", ":2: text after the end of the object" },
		{ "{}\n7", ":2: text after the end of the object" },
		{ "{}x", ":1: text after the end of the object" },
		{ "{}\n// end", ":2: text after the end of the object" },
		{ "{ // end\n}", ":1: JSON has no comments" },
		{ "{\n/* start */ }", ":2: JSON has no comments" },
		{ "# start\n{}", ":1: the file must be one object, { ... }" },
		{ "{ # start\n}", ":1: JSON has no comments" },
		{ "{ \"qp_attr\": { 'timeout': 3 } }",
		  ":1: text needs double quotes, not single ones" },
		{ "{ \"job\": { \"id\": 'a' } }",
		  ":1: text needs double quotes, not single ones" },
		{ "{ \"qp_attr\": {\n \"timeout\": 3,\n } }", ":3: a comma before '}'" },
		{ "{ \"qp_attr\": { \"timeout\": 3 }, }", ":1: a comma before '}'" },
		{ "{ , }", ":1: a comma before '}'" },
		{ "{ \"qp_attr\": { \"timeout\" 3 } }",
		  ":1: object property name separator ':' expected" },
		{ "{ \"qp_attr\": { \"timeout\": 3\n \"retry_cnt\": 3 } }",
		  ":2: object value separator ',' expected" },
		{ "{ \"qp_attr\": { \"timeout\": } }", ":1: unexpected character" },
		{ "{ \"qp_attr\": { \"timeout\": 3\n", ":2: unexpected end of data" },
		{ "{ \"qp_attr\": [ 1 } }", ":1: array value separator ',' expected" },
		{ "{ \"qp_attr\": [ 1, ] }", ":1: a comma before ']'" },
		{ "{ \"job\": { \"id\": \"abc\n } }", ":1: a string has no end" },
		{ "{ \"job\": { \"id\": \"abc", ":1: a string has no end" },
		{ "{ \"job\": { \"id\": \"a\tb\" } }", ":1: a string has a control character" },
		{ "{ \"job\": { \"id\": \"Z\xfcrich\" } }",
		  ":1: a string has byte 0xfc, which is not UTF-8 or begins a control character" },
		{ "{ \"job\": {\n \"i\xc3\": \"a\" } }", ":2: a string has byte 0xc3, which "
		  "is not UTF-8 or begins a control character" },
		{ "{ \"job\": { \"id\": \"a\xc2\x9b" "1m\" } }",
		  ":1: a string has byte 0xc2, which is not UTF-8 or begins a control character" },
		{ "{ \"job\": { \"id\": \"a\\x\" } }",
		  ":1: invalid string sequence" },
		{ "{ \"job\": { \"id\": \"a\\u12g4\" } }",
		  ":1: invalid string sequence" },
		{ "{ \"job\": { \"id\": \"a\\u0000b\" } }",
		  ":1: a string has a NUL, \\u0000" },
		{ "{ \"qp_attr\": { \"ti\\u006deout\": 3 } }",
		  ":1: a key must be written without escapes" },
		{ "{ \"qp_attr\": { \"timeout\": 014 } }",
		  ":1: 014 is not a JSON value; text needs double quotes" },
		{ "{ \"qp_attr\": { \"timeout\": +14 } }",
		  ":1: +14 is not a JSON value; text needs double quotes" },
		{ "{ \"qp_attr\": { \"timeout\": 0x14 } }",
		  ":1: 0x14 is not a JSON value; text needs double quotes" },
		{ "{ \"qp_attr\": { \"timeout\": 14ms } }",
		  ":1: 14ms is not a JSON value; text needs double quotes" },
		{ "{ \"qp_attr\": { \"timeout\": .5 } }",
		  ":1: .5 is not a JSON value; text needs double quotes" },
		{ "{ \"qp_attr\": { \"timeout\": - } }",
		  ":1: - is not a JSON value; text needs double quotes" },
		{ "{ \"qp_attr\": { \"timeout\": 1-2 } }",
		  ":1: 1-2 is not a JSON value; text needs double quotes" },
		{ "{ \"qp_attr\": { \"timeout\": NaN } }",
		  ":1: NaN is not a JSON value; text needs double quotes" },
		{ "{ \"qp_attr\": { \"timeout\": -Infinity } }",
		  ":1: -Infinity is not a JSON value; text needs double quotes" },
		{ "{ \"qp_attr\": { \"timeout\": 1e } }",
		  ":1: 1e is not a JSON value; text needs double quotes" },
		{ "{ \"qp_attr\": { \"timeout\": TRUE } }",
		  ":1: TRUE is not a JSON value; text needs double quotes" },
		{ "{ \"job\": { \"id\": abc } }",
		  ":1: abc is not a JSON value; text needs double quotes" },
		{ "{ \"qp_attr\" = 3 }", ":1: unexpected '='" },
		{ "{ { \"timeout\": 3 } }", ":1: quoted object property name expected" },
		{ "\xef\xbb\xbf{}", ":1: the file begins with a byte order mark" },
		{ "\xff\xfe{", ":1: the file is UTF-16: save it as UTF-8" },
		{ "\xfe\xff", ":1: the file is UTF-16: save it as UTF-8" },
		{ "{ \xe2\x80\x9cjob\xe2\x80\x9d: {} }",
		  ":1: typographic quotes: text needs straight ones, \"" },
		{ "{ \"job\": { \"id\": \xe2\x80\x99x } }",
		  ":1: typographic quotes: text needs straight ones, \"" },
		{ "{\n\xc2\xa0\"job\": {} }", ":2: a no-break space: replace it by a plain one" },
		{ "{ \xe2\x82\xac }", ":1: unexpected byte 0xe2" },
		{ "{\v}", ":1: unexpected byte 0x0b" },
	};
	char sentence[256];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(cases); i++) {
		snprintf(sentence, sizeof(sentence), AT "%s", cases[i].sentence);
		refuses_json(cases[i].json, EBADMSG, sentence);
	}
}

/* Versions of json-c read these numbers differently, and no option takes one, so none is set. */
static void fractions_are_refused(void **state)
{
	static const char *const numbers[] = {
		"1.5", "1.", "1e", "1e1", "1E+1", "1.5-3", "1e2.5", "0.", "-0.0", "1.0",
	};
	struct beest_options options;
	char text[64];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(numbers); i++) {
		snprintf(text, sizeof(text), "{ \"qp_attr\": { \"timeout\": %s } }", numbers[i]);
		use_json(text);
		assert_true(beest_options_load(&options, NULL, NULL, NULL) < 0);
		assert_error_has(json_path);
		assert_value(&options, "qp_attr.timeout", "14", "default");
		beest_options_free(&options);
	}
}

static void json_is_taken_in_every_dress(void **state)
{
	static const char *const texts[] = {
		"{}", " {}\r\n", "{\"qp_attr\":{}}", "{\t\"qp_attr\"\n:\r{ }\n,\"mr\":{}}\n\n",
		"{\"job\":{\"id\":\"{[,:]}\\\" // x\"}}", "{\"job\":{\"id\":\"\xc3\xa9\\u00e9\"}}",
	};
	struct beest_options options;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(texts); i++) {
		use_json(texts[i]);
		if (beest_options_load(&options, NULL, NULL, NULL) < 0)
			fail_msg("%s: %s", texts[i], beest_error_text());
		beest_options_free(&options);
	}
}

static void deep_nesting_is_refused(void **state)
{
	char text[256] = "{\"qp_attr\":";

	(void)state;
	memset(text + strlen(text), '[', 100);
	refuses_json(text, EBADMSG, AT ":1: nesting too deep");
}

static void a_nul_is_no_end(void **state)
{
	struct beest_options options;

	(void)state;
	use_json("");
	write_bytes(json_path, "{}\0{}", 5);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -EBADMSG);
	assert_sentence(AT ":1: text after the end of the object");
	beest_options_free(&options);

	write_bytes(json_path, "{\"a\0\":1}", 8);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -EBADMSG);
	assert_sentence(AT ":1: a string has no end");
	beest_options_free(&options);
}

/* -------------------------------------------------------- JSON: the file --- */

#define NAMED "environment HARTEBEEST_CONF_PATH: 'FILE'"

static void refuses_file(int err, const char *sentence)
{
	struct beest_options options;

	setenv("HARTEBEEST_CONF_PATH", json_path, 1);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -err);
	assert_sentence(sentence);
	assert_null(options.file[1]);
	beest_options_free(&options);
}

static void a_directory_is_told(void **state)
{
	(void)state;
	assert_int_equal(mkdir(json_path, 0700), 0);
	refuses_file(EISDIR, NAMED ": a directory, not a file");
	rmdir(json_path);
}

/* The library does not wait for a writer. */
static void a_fifo_is_told(void **state)
{
	(void)state;
	assert_int_equal(mkfifo(json_path, 0600), 0);
	refuses_file(EINVAL, NAMED ": not a regular file");
}

static void an_unreadable_file_is_told(void **state)
{
	uid_t user = geteuid();
	struct beest_options options;
	int ret;

	(void)state;
	use_json("{}");
	assert_int_equal(chmod(json_path, 0), 0);
	if (user == 0)		/* root can read everything, nobody cannot */
		assert_int_equal(seteuid(65534), 0);
	ret = beest_options_load(&options, NULL, NULL, NULL);
	assert_int_equal(seteuid(user), 0);
	assert_int_equal(ret, -EACCES);
	assert_error_has(": Permission denied");
	beest_options_free(&options);
}

static void a_loop_of_links_is_told(void **state)
{
	(void)state;
	assert_int_equal(symlink(json_path, json_path), 0);
	refuses_file(ELOOP, NAMED ": Too many levels of symbolic links");
}

static void one_mib_is_the_limit(void **state)
{
	const size_t limit = 1024 * 1024;
	char *text = malloc(limit + 1);
	struct beest_options options;

	(void)state;
	assert_non_null(text);
	memset(text, ' ', limit + 1);
	memcpy(text, "{}", 2);

	write_bytes(json_path, text, limit);
	setenv("HARTEBEEST_CONF_PATH", json_path, 1);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), 0);
	beest_options_free(&options);

	write_bytes(json_path, text, limit + 1);
	refuses_file(EFBIG, NAMED ": larger than 1 MiB");
	free(text);
}

static void a_bad_system_file_is_told(void **state)
{
	struct beest_options options;
	char sentence[256];

	(void)state;
	write_text(system_path, "{");
	assert_int_equal(beest_options_load(&options, NULL, system_path, NULL), -EBADMSG);
	snprintf(sentence, sizeof(sentence), "%s:1: unexpected end of data", system_path);
	assert_error_is(sentence);
	beest_options_free(&options);
}

static void the_locale_stays(void **state)
{
	struct beest_options options;
	char before[256];

	(void)state;
	setlocale(LC_ALL, "C.UTF-8");
	snprintf(before, sizeof(before), "%s", setlocale(LC_ALL, NULL));
	use_json("{ \"qp_attr\": { \"timeout\": 3 } }");
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), 0);
	assert_string_equal(setlocale(LC_ALL, NULL), before);
	setlocale(LC_ALL, "C");
	beest_options_free(&options);
}

/* ------------------------------------------------------- environment --- */

/* Names of options, and what people call them, lead to the variable, too. */
static void what_variables_are_called(void **state)
{
	static const char *const rows[][2] = {
		{ "SERVERS", "EXC_IP_PORT" }, { "SERVER", "EXC_IP_PORT" },
		{ "EXC_SERVERS", "EXC_IP_PORT" }, { "RANK", "NID" }, { "SIZE", "NPARTICIPANTS" },
		{ "WORLD_SIZE", "NPARTICIPANTS" }, { "NRANKS", "NPARTICIPANTS" },
		{ "JOB_ID", "JOB" }, { "TIMOUT", "TIMEOUT" }, { "CONF_PATHS", "CONF_PATH" },
		{ "CONF", "CONF_PATH" },
	};
	struct beest_options options;
	char name[64], sentence[160];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		snprintf(name, sizeof(name), "HARTEBEEST_%s", rows[i][0]);
		snprintf(sentence, sizeof(sentence), "unknown environment variable %s, the "
			 "nearest is HARTEBEEST_%s", name, rows[i][1]);
		setenv(name, "3", 1);
		assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), 0);
		assert_string_equal(options.unknown_environment, sentence);
		beest_options_free(&options);
		unsetenv(name);
	}
}

static void unknown_variables_are_told(void **state)
{
	struct beest_options options;

	(void)state;
	setenv("HARTEBEEST_NDI", "3", 1);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), 0);
	assert_string_equal(options.unknown_environment, "unknown environment variable "
			    "HARTEBEEST_NDI, the nearest is HARTEBEEST_NID");
	beest_options_free(&options);

	setenv("HARTEBEEST_nid", "3", 1);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), 0);
	assert_non_null(strstr(options.unknown_environment, "HARTEBEEST_nid, the nearest is "
			       "HARTEBEEST_NID"));
	beest_options_free(&options);
	unsetenv("HARTEBEEST_nid");

	setenv("HARTEBEEST_COLOUR", "", 1);
	setenv("HARTEBEES_NID", "another prefix", 1);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), 0);
	assert_non_null(strstr(options.unknown_environment, "HARTEBEEST_NDI, the nearest is "
			       "HARTEBEEST_NID"));
	assert_non_null(strstr(options.unknown_environment, "; "));
	assert_non_null(strstr(options.unknown_environment, "unknown environment variable "
			       "HARTEBEEST_COLOUR"));
	assert_null(strstr(options.unknown_environment, "HARTEBEES_NID"));
	beest_options_free(&options);
}

static void known_variables_are_not(void **state)
{
	struct beest_options options;
	size_t i;

	(void)state;
	for (i = 0; i < beest_option_count; i++)
		if (beest_option_rows[i].environment)
			setenv(beest_option_rows[i].environment, "1", 1);
	use_json("{}");
	beest_options_load(&options, NULL, NULL, NULL);
	assert_string_equal(options.unknown_environment, "");
	beest_options_free(&options);
}

static void an_empty_variable_is_refused(void **state)
{
	struct beest_options options;

	(void)state;
	setenv("HARTEBEEST_EXC_IP_PORT", "", 1);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -EINVAL);
	assert_sentence("environment HARTEBEEST_EXC_IP_PORT (exchange.servers): "
			"'' is not a value; leave it out instead");
	beest_options_free(&options);
	unsetenv("HARTEBEEST_EXC_IP_PORT");
	setenv("HARTEBEEST_TIMEOUT", "", 1);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -EINVAL);
	assert_sentence("environment HARTEBEEST_TIMEOUT (exchange.timeout): "
			"'' is not a value; leave it out instead");
	beest_options_free(&options);
}

/* ---------------------------------------------------------- arguments --- */

/* Bad servers are reported at once, with their source, not at the first wait. */
static void bad_servers_are_told(void **state)
{
	struct beest_options options;

	(void)state;
	setenv("HARTEBEEST_EXC_IP_PORT", "http://h:1", 1);
	assert_int_equal(beest_options_load(&options, NULL, NULL, NULL), -EINVAL);
	assert_sentence("environment HARTEBEEST_EXC_IP_PORT (exchange.servers): server "
			"'http://h:1' is a URL, not host, host:port, [IPv6]:port or the "
			"absolute path of a socket");
	beest_options_free(&options);
	unsetenv("HARTEBEEST_EXC_IP_PORT");

	refuses_argument("exchange.servers=a:1;b:2", EINVAL, "argument exchange.servers: server "
			 "'a:1;b:2' has a semicolon: commas separate servers");
	refuses_json("{ \"exchange\": {\n \"servers\": \"a:0\" } }", ERANGE, "FILE:2: "
		     "exchange.servers: the port of server 'a:0': '0' is out of range: 1 to 65535");
}

#define NOT_NESTED "a section has no objects, but keys such as \"rc:timeout\" and "	\
	"\"cap.max_send_wr\""

static void bad_arguments_are_told(void **state)
{
	(void)state;
	refuses_argument("qp_attr.timeout", EINVAL,
			 "argument 'qp_attr.timeout': section.key=value expected");
	refuses_argument("", EINVAL, "argument '': section.key=value expected");
	refuses_argument("timeout=3", EINVAL,
			 "argument: unknown option 'timeout', the nearest is exchange.timeout");
	refuses_argument("HARTEBEEST_TIMEOUT=5s", EINVAL,
			 "argument: unknown option 'HARTEBEEST_TIMEOUT', the nearest is "
			 "exchange.timeout");
	refuses_argument("job.size=3", EINVAL,
			 "argument: unknown option 'job.size', the nearest is "
			 "job.nparticipants");
	refuses_argument("max_send_wr=3", EINVAL,
			 "argument: unknown option 'max_send_wr', the nearest is "
			 "qp_init_attr.cap.max_send_wr");
	refuses_json("{ \"qp_init_attr\": { \"cap\": { \"max_send_wr\": 3 } } }", EINVAL,
		     AT ":1: unknown option 'qp_init_attr.cap': " NOT_NESTED);
	refuses_json("{ \"qp_attr\": { \"rc\": { \"timeout\": 3 } } }", EINVAL,
		     AT ":1: unknown option 'qp_attr.rc': " NOT_NESTED);
	refuses_json("{ \"qp_attr\": { \"RC:timeuot\": 3 } }", EINVAL,
		     AT ":1: unknown option 'qp_attr.RC:timeuot', the nearest is "
		     "qp_attr.rc:timeout");
	refuses_argument("rc:timeout=3", EINVAL,
			 "argument: unknown option 'rc:timeout', the nearest is "
			 "qp_attr.rc:timeout");
	refuses_argument("=x", EINVAL, "argument: unknown option ''");
	refuses_argument("qp_attr.timeout=0x20", ERANGE,
			 "argument qp_attr.timeout: '0x20' is out of range: 0 to 31, or a "
			 "duration such as 67ms");
	refuses_argument("qp_attr.timeout= 3", EINVAL,
			 "argument qp_attr.timeout: ' 3' is not a number from 0 to 31, or a "
			 "duration such as 67ms");
	refuses_argument(" qp_attr.timeout=3", EINVAL,
			 "argument: unknown option ' qp_attr.timeout', "
			 "the nearest is qp_attr.timeout");
}

static void a_password_is_not_repeated(void **state)
{
	(void)state;
	refuses_argument("exchange.password=xyzzy", EINVAL, "argument: unknown option "
			 "'exchange.password'");
	refuses_json("{ \"exchange\": { \"password\": \"xyzzy\" } }", EINVAL, "FILE:1: unknown "
		     "option 'exchange.password'");
	refuses_argument("exchange.servers=me:xyzzy@h", EINVAL, "argument exchange.servers: server "
			 "'h' has a login before it: " BEEST_NO_LOGIN " (Memcached servers: "
			 "host:port, [IPv6]:port or socket path, separated by commas)");
}

static void a_value_may_hold_an_equals_sign(void **state)
{
	struct beest_options options;

	(void)state;
	assert_int_equal(load_with(&options, "job.id=a=b"), 0);
	assert_string_equal(options.job, "a=b");
	beest_options_free(&options);
}

static void numbers_may_be_hexadecimal(void **state)
{
	struct beest_options options;

	(void)state;
	assert_int_equal(load_with(&options, "qp_attr.pkey=0x8001"), 0);
	assert_int_equal(options.qp[BEEST_RC].pkey, 0x8001);
	assert_value(&options, "qp_attr.pkey", "32769", "argument");
	beest_options_free(&options);
}

/* --------------------------------------------------------------- text --- */

static void durations_print_in_the_largest_exact_unit(void **state)
{
	static const char *const texts[][2] = {
		{ "1ms", "1ms" }, { "1500us", "1500us" }, { "2000us", "2ms" },
		{ "60s", "1min" }, { "90s", "90s" }, { "60min", "1h" }, { "48h", "2d" },
		{ "25h", "25h" },
	};
	struct beest_options options;
	char argument[64];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(texts); i++) {
		sprintf(argument, "exchange.timeout=%s", texts[i][0]);
		assert_int_equal(load_with(&options, argument), 0);
		assert_value(&options, "exchange.timeout", texts[i][1], "argument");
		beest_options_free(&options);
	}
	assert_int_equal(load_with(&options, "poll.timeout=0"), 0);
	assert_value(&options, "poll.timeout", "0", "argument");
	assert_int_equal(options.poll_timeout, 0);
	beest_options_free(&options);
}

static void text_is_cut_and_names_are_checked(void **state)
{
	struct beest_options options;
	char text[4] = "xyz";

	(void)state;
	assert_int_equal(load_with(&options, "job.id=abcdef"), 0);
	assert_true(beest_options_text(&options, "job.id", text, sizeof(text), NULL) >= 0);
	assert_string_equal(text, "abc");
	assert_int_equal(beest_options_text(&options, "job.it", text, sizeof(text), NULL),
			 -ENOENT);
	assert_error_is("unknown option 'job.it', the nearest is job.id");
	assert_int_equal(beest_options_text(&options, "", text, sizeof(text), NULL), -ENOENT);
	assert_int_equal(beest_options_text(&options, ".", text, sizeof(text), NULL), -ENOENT);
	assert_int_equal(beest_options_text(&options, "log.rc:level", text, sizeof(text), NULL),
			 -ENOENT);
	assert_string_equal(text, "abc");
	beest_options_free(&options);
}

static void freeing_twice_is_harmless(void **state)
{
	struct beest_options options;

	(void)state;
	assert_int_equal(load_with(&options, "job.id=a"), 0);
	beest_options_free(&options);
	beest_options_free(&options);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_row_takes_its_range),
		TEST(every_default_goes_round),
		TEST(every_row_explains_itself),
		TEST(defaults_are_in_the_struct),
		TEST(a_prefix_sets_one_transport),
		TEST(no_prefix_sets_all),
		TEST(a_prefix_wins_in_any_order),
		TEST(a_higher_source_wins_over_a_prefix),
		TEST(a_qp_type_with_a_prefix_is_checked),
		TEST(other_rows_have_no_prefix),
		TEST(defaults_of_the_caller),
		TEST(one_source_wins_over_another),
		TEST(the_system_file_may_be_absent),
		TEST(a_named_file_must_exist),
		TEST(a_refused_value_is_explained),
		TEST(the_last_of_equal_arguments_wins),
		TEST(all_is_read_and_the_first_failure_told),
		TEST(the_rest_of_a_file_with_a_bad_key_holds),
		TEST(json_types_are_told),
		TEST(words_for_numbers),
		TEST(json_ranges_are_told),
		TEST(json_strings_are_decoded),
		TEST(unknown_keys_are_told),
		TEST(unknown_keys_take_their_share),
		TEST(misplaced_names_are_told),
		TEST(repeated_keys_are_told),
		TEST(malformed_json_is_named),
		TEST(fractions_are_refused),
		TEST(json_is_taken_in_every_dress),
		TEST(deep_nesting_is_refused),
		TEST(a_nul_is_no_end),
		TEST(a_directory_is_told),
		TEST(a_fifo_is_told),
		TEST(an_unreadable_file_is_told),
		TEST(a_loop_of_links_is_told),
		TEST(one_mib_is_the_limit),
		TEST(a_bad_system_file_is_told),
		TEST(the_locale_stays),
		TEST(unknown_variables_are_told),
		TEST(what_variables_are_called),
		TEST(known_variables_are_not),
		TEST(an_empty_variable_is_refused),
		TEST(bad_servers_are_told),
		TEST(bad_arguments_are_told),
		TEST(a_password_is_not_repeated),
		TEST(a_value_may_hold_an_equals_sign),
		TEST(numbers_may_be_hexadecimal),
		TEST(durations_print_in_the_largest_exact_unit),
		TEST(text_is_cut_and_names_are_checked),
		TEST(freeing_twice_is_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
