/* SPDX-License-Identifier: MIT */
/*
 * reports.c - what people met elsewhere: each file of tests/reports/ is a report
 *
 * A report has the machine or the environment of its owner, the calls that were made there, and
 * parts of what each call says, in JSON:
 *
 *	report		what its owner met, in a few words
 *	comment		what a reader needs to know besides
 *	machine		lines of tests/support/fake-world.h
 *	environment	"NAME=value" of each variable; there is no other
 *	options		arguments of hartebeest_open()
 *	calls		in their order, by the names of the table below; a name may be followed by
 *			a blank and its argument.  Each has an array of texts that it says.
 *	beside		variables that a process of another run has otherwise: its job is another
 *	peer		variables that another rank of the same run has otherwise: so is its job
 *	fails		the errno of the last call of the library; without it, none fails
 *	never		a text that no call says
 *
 * promise: hartebeest(7)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <glob.h>
#include <json-c/json.h>

#include "hartebeest.h"
#include "lib/base/clock.h"
#include "lib/core/context.h"
#include "lib/verbs/near.h"
#include "lib/verbs/node.h"
#include "lib/verbs/qp.h"
#include "tests/support/fake-command.h"
#include "tests/support/fake-world.h"
#include "tests/support/make.h"
#include "tools/file.h"

static char text[8192];			/* what the last call said */

/* ------------------------------------------------------------------- a report --- */

static void report_is_wrong(const char *what, const char *name)
{
	fprintf(stderr, "a report has %s: %s\n", what, name);
	abort();
}

/* NULL: the report has no such member. */
static struct json_object *member(struct json_object *report, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(report, name, &value) ? value : NULL;
}

static const char *string(struct json_object *report, const char *name)
{
	return json_object_get_string(member(report, name));
}

static size_t count(struct json_object *array)
{
	return array ? (size_t)json_object_array_length(array) : 0;
}

static const char *item(struct json_object *array, size_t i)
{
	return json_object_get_string(json_object_array_get_idx(array, i));
}

static void variables_set(struct json_object *variables)
{
	char variable[256];
	size_t i;

	for (i = 0; i < count(variables); i++) {
		snprintf(variable, sizeof(variable), "%s", item(variables, i));
		if (!strchr(variable, '='))
			report_is_wrong("a variable without a value", variable);
		if (strstr(variable, "=127.0.0.1:"))
			surroundings_need_loopback();
		*strchr(variable, '=') = '\0';
		setenv(variable, variable + strlen(variable) + 1, 1);
	}
}

/* Makes this process one of the report's. */
static void enter(struct json_object *report)
{
	struct json_object *machine = member(report, "machine");
	char lines[8192] = "";
	size_t i;

	for (i = 0; i < count(machine); i++) {
		strncat(lines, item(machine, i), sizeof(lines) - strlen(lines) - 1);
		strncat(lines, "\n", sizeof(lines) - strlen(lines) - 1);
	}
	fake_world(lines);
	surroundings_clear();
	variables_set(member(report, "environment"));
}

/* ---------------------------------------------------------------------- calls --- */

static struct beest_qp *qp_of(struct hartebeest_context *hb)
{
	struct beest_qp *qp;

	assert_int_equal(beest_context_find_qp(hb, "qp", &qp), 0);
	return qp;
}

/* Appends how the queue pair is connected. */
static void connection_describe(const struct beest_qp *qp)
{
	size_t used = strlen(text);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp->qp, &attr, 0, &init), 0);
	snprintf(text + used, sizeof(text) - used, "; connected: LID 0x%x%s, reads in %d, out %d",
		 attr.ah_attr.dlid, attr.ah_attr.is_global ? " with GRH" : "",
		 attr.max_dest_rd_atomic, attr.max_rd_atomic);
	used = strlen(text);
	if (attr.ah_attr.grh.flow_label)
		used += (size_t)snprintf(text + used, sizeof(text) - used, ", flow label 0x%x",
					 attr.ah_attr.grh.flow_label);
	if (fake_verbs_ece(qp->qp))
		snprintf(text + used, sizeof(text) - used, ", ECE options 0x%x",
			 fake_verbs_ece(qp->qp));
}

/* Connects to another end, which this machine has, too. */
static int call_connect(struct hartebeest_context *hb, const char *option)
{
	const char *options[] = { "log.level=none", option, NULL };
	struct hartebeest_context *other = NULL;
	int ret;

	assert_int_equal(hartebeest_open(&other, options), 0);
	assert_int_equal(hartebeest_pd_create(other, "pd", NULL), 0);
	assert_int_equal(cq_make(other, "cq", 16, 0, NULL), 0);
	assert_int_equal(qp_make(other, "qp", "pd", IBV_QPT_RC, "cq", "cq", NULL), 0);
	assert_int_equal(hartebeest_qp_init(other, "qp"), 0);
	ret = beest_qp_connect(qp_of(hb), "far", &qp_of(other)->local.endpoint,
			       UNIT_LIMIT(BEEST_MS), NULL);
	if (ret == 0)
		connection_describe(qp_of(hb));
	assert_int_equal(hartebeest_close(other), 0);
	return ret;
}

/* Takes the steps of a bring-up to INIT.  Returns the errno of the one that fails, or 0. */
static int call_init(struct hartebeest_context *hb, const char *argument)
{
	int ret = hartebeest_device_text(hb, text, sizeof(text));

	(void)argument;
	if (ret >= 0)
		ret = hartebeest_pd_create(hb, "pd", NULL);
	if (ret == 0)
		ret = cq_make(hb, "cq", 16, 0, NULL);
	if (ret == 0)
		ret = mr_make(hb, "mr", "pd", 4096, IBV_ACCESS_LOCAL_WRITE, NULL);
	if (ret == 0)
		ret = qp_make(hb, "qp", "pd", IBV_QPT_RC, "cq", "cq", NULL);
	if (ret == 0)
		ret = hartebeest_qp_init(hb, "qp");
	return ret;
}

/* Called only if the context could be opened, see test_report(). */
static int call_open(struct hartebeest_context *hb, const char *argument)
{
	(void)argument;
	snprintf(text, sizeof(text), "opened, as %s", hartebeest_origin(hb, NULL));
	return 0;
}

/* Who this process is, by its environment, and what is doubtful about it. */
static int call_origin(struct hartebeest_context *hb, const char *argument)
{
	const char *warning, *origin = hartebeest_origin(hb, &warning);

	(void)argument;
	snprintf(text, sizeof(text), "%s; warning: %s", origin, warning);
	return 0;
}

static int call_push(struct hartebeest_context *hb, const char *key)
{
	return hartebeest_msg_push(hb, key, "text", 4, HARTEBEEST_ONCE);
}

static const struct call {
	const char *name;
	int (*make)(struct hartebeest_context *hb, const char *argument);
	bool is_command;		/* of hartebeest(1), in a process of its own */
} calls[] = {
	{ .name = "open", .make = call_open },
	{ .name = "init", .make = call_init },
	{ .name = "connect", .make = call_connect },
	{ .name = "origin", .make = call_origin },
	{ .name = "push", .make = call_push },
	{ .name = "info", .is_command = true },
	{ .name = "doctor", .is_command = true },
};

/* @argument receives what follows the name. */
static const struct call *call_find(const char *words, const char **argument)
{
	size_t i, length = strcspn(words, " ");

	*argument = words + length + (words[length] == ' ');
	for (i = 0; i < BEEST_COUNT(calls); i++)
		if (strlen(calls[i].name) == length && strncmp(calls[i].name, words, length) == 0)
			return &calls[i];
	report_is_wrong("an unknown call", words);
	return NULL;
}

/* Returns what the command prints. */
static const char *run_command(struct json_object *report, const char *name)
{
	struct json_object *options = member(report, "options");
	static struct talk talk;

	fake_command_reset(&talk);
	enter(report);
	if (count(options))
		TALK(&talk, "hartebeest", name, "-o", item(options, 0));
	else
		TALK(&talk, "hartebeest", name);
	return talk.out;
}

/* ---------------------------------------------------------------------- tests --- */

static void says(struct json_object *report, const char *said, struct json_object *texts)
{
	const char *never = string(report, "never");
	size_t i;

	for (i = 0; i < count(texts); i++)
		if (!strstr(said, item(texts, i)))
			fail_msg("\"%s\"\ndoes not contain \"%s\"", said, item(texts, i));
	if (never && strstr(said, never))
		fail_msg("\"%s\"\ncontains \"%s\"", said, never);
}

/* Makes the calls of the library; all but the last succeed.  Returns the last one's errno. */
static int make_calls(struct json_object *report, struct hartebeest_context *hb)
{
	const struct call *call;
	const char *argument;
	int ret = 0;

	json_object_object_foreach(member(report, "calls"), words, texts) {
		call = call_find(words, &argument);
		if (call->is_command)
			continue;
		if (ret < 0)
			fail_msg("\"%s\", before %s", text, words);
		text[0] = '\0';
		ret = call->make(hb, argument);
		if (ret < 0)
			snprintf(text, sizeof(text), "%s", hartebeest_error());
		says(report, text, texts);
	}
	return ret;
}

static void ask_commands(struct json_object *report)
{
	const char *argument;

	json_object_object_foreach(member(report, "calls"), words, texts)
		if (call_find(words, &argument)->is_command)
			says(report, run_command(report, words), texts);
}

/* Compares the job of a process that has these variables otherwise. */
static void compare_jobs(struct json_object *report, const char *name, const char *job)
{
	static const char *const options[] = { "log.level=none", NULL };
	struct hartebeest_context *other = NULL;

	if (!member(report, name))
		return;
	enter(report);
	variables_set(member(report, name));
	assert_int_equal(hartebeest_open(&other, options), 0);
	if (!strcmp(other->launch.job, job) != !strcmp(name, "peer"))
		fail_msg("job %s, %s: %s", job, name, other->launch.job);
	assert_int_equal(hartebeest_close(other), 0);
}

static void test_report(void **state)
{
	struct json_object *report = *state, *given = member(report, "options");
	const char *options[8] = { "log.level=none" }, *fails = string(report, "fails");
	struct hartebeest_context *hb = NULL;
	size_t i;
	int ret;

	for (i = 0; i < count(given) && i + 2 < BEEST_COUNT(options); i++)
		options[i + 1] = item(given, i);
	beest_near_sysfs = beest_node_folder = file_root = "/nonexistent";
	enter(report);
	ret = hartebeest_open(&hb, options);
	if (ret < 0)
		says(report, hartebeest_error(), member(member(report, "calls"), "open"));
	else
		ret = make_calls(report, hb);
	compare_jobs(report, "beside", hb ? hb->launch.job : "");
	compare_jobs(report, "peer", hb ? hb->launch.job : "");
	assert_int_equal(ret, fails ? -fake_world_errno(fails) : 0);
	assert_int_equal(hartebeest_close(hb), 0);
	assert_int_equal(fake_verbs.open, 0);
	ask_commands(report);
}

static struct json_object *report_read(const char *path)
{
	static char bytes[16 * 1024];
	FILE *file = fopen(path, "r");
	size_t size;

	if (!file)
		report_is_wrong("no file", path);
	size = fread(bytes, 1, sizeof(bytes) - 1, file);
	fclose(file);
	bytes[size] = '\0';
	return json_tokener_parse(bytes);
}

/* Members that this program does not know would be believed to be tested. */
static void check_members(struct json_object *report, const char *path)
{
	static const char *const known[] = { "report", "comment", "machine", "environment",
					     "options", "calls", "beside", "peer", "fails",
					     "never" };
	size_t i;

	if (!report || !string(report, "report") || !member(report, "calls"))
		report_is_wrong("no report or no calls, or is not JSON", path);
	json_object_object_foreach(report, name, value) {
		(void)value;
		for (i = 0; i < BEEST_COUNT(known) && strcmp(known[i], name) != 0; i++)
			;
		if (i == BEEST_COUNT(known))
			report_is_wrong("an unknown member", path);
	}
}

int main(void)
{
	struct CMUnitTest *tests;
	struct json_object *report;
	glob_t files;
	size_t i;
	int ret;

	if (glob(REPORTS "/*.json", 0, NULL, &files) != 0)
		report_is_wrong("no file", REPORTS);
	tests = calloc(files.gl_pathc, sizeof(*tests));
	if (!tests)
		abort();
	for (i = 0; i < files.gl_pathc; i++) {
		report = report_read(files.gl_pathv[i]);
		check_members(report, files.gl_pathv[i]);
		tests[i] = (struct CMUnitTest){
			.name = string(report, "report"), .test_func = test_report,
			.initial_state = report,
		};
	}
	ret = _cmocka_run_group_tests("reports", tests, files.gl_pathc, NULL, NULL);
	for (i = 0; i < files.gl_pathc; i++)
		json_object_put(tests[i].initial_state);
	free(tests);
	globfree(&files);
	return ret;
}
