/* SPDX-License-Identifier: MIT */
/*
 * ping.c - the built hartebeest ping on a real device
 *
 * promise: hartebeest(1)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <json-c/json.h>

#include "tests/support/memcached.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/talk.h"

static const char *tool;
static char port_0[100], port_1[100];
static struct talk here, there;
static struct cache *cache;

/* Two different ports if the machine has two. */
static void find_ports(void)
{
	snprintf(port_0, sizeof(port_0), "device.name=%s", ranks_port(0));
	snprintf(port_1, sizeof(port_1), "device.name=%s", ranks_port(ranks_port(1) ? 1 : 0));
}

static int setup(void **state)
{
	(void)state;
	memset(&here, 0, sizeof(here));
	memset(&there, 0, sizeof(there));
	if (!cache)
		cache = cache_start(NULL);
	unsetenv("HARTEBEEST_NID");
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	setenv("HARTEBEEST_JOB", "ping", 1);
	return 0;
}

#define BEGIN(talk, port, ...) \
	begin((talk), (const char *const[]){ tool, "ping", "-o", port, __VA_ARGS__, NULL })

static void begin(struct talk *talk, const char *const *words)
{
	int i = -1;

	do {
		i++;
		talk->words[i] = words[i];
	} while (words[i]);
	talk_begin(talk);
}

static void ends(struct talk *talk, int status)
{
	talk_end(talk);
	if (talk->status != status)
		fail_msg("ended with %d instead of %d:\n%s%s", talk->status, status, talk->out,
			 talk->err);
}

/* ------------------------------------------------------------ two ends --- */

static void each_operation(void **state)
{
	static const char *const each[][3] = {
		{ "rc", "send", "RC send to " }, { "rc", "write", "RC write to " },
		{ "ud", "send", "UD send to " }, { "rc", "fetch-add", "RC fetch-add to " },
		{ "uc", "write", "UC write to " }, { "uc", "send", "UC send to " },
		{ "rc", "compare-swap", "RC compare-swap to " }, { "rc", "read", "RC read to " },
	};
	const struct talk *measures;
	size_t i, step = (size_t)unit_stride(2);

	(void)state;
	for (i = 0; i < BEEST_COUNT(each); i += step) {
		BEGIN(&here, port_0, "-c", "20", "-t", each[i][0], "-O", each[i][1]);
		BEGIN(&there, port_1, "-b", "-w", "200ms");
		ends(&here, 0);
		ends(&there, 0);
		measures = strstr(here.out, "measured here") ? &here : &there;
		talk_says(measures, each[i][2]);
		talk_says(measures, " returned, each byte as it was sent");
		talk_says(measures == &here ? &there : &here, " pings, ");
	}
}

static void by_ranks(void **state)
{
	(void)state;
	if (TALK(&here, tool, "run", "-n", "3", "--", tool, "ping", "-c", "10") != 0)
		fail_msg("ended with %d:\n%s%s", here.status, here.out, here.err);
	talk_says(&here, "0: RC write to rank 1");
	talk_says(&here, "0: RC write to rank 2");
	talk_says(&here, "0:   OK    data        10 of 10 returned");
	assert_null(strstr(here.out, "1:   OK"));
}

static void as_an_object(void **state)
{
	struct json_object *all, *meetings, *meeting, *list, *row, *value;

	(void)state;
	BEGIN(&here, port_0, "--json", "-s", "0", "-a", "2048", "-c", "4");
	BEGIN(&there, port_1, "--json");
	ends(&here, 0);
	ends(&there, 0);
	all = json_tokener_parse(strstr(here.out, "\"measures\": true") ? here.out : there.out);
	assert_non_null(all);
	assert_true(json_object_object_get_ex(all, "meetings", &meetings));
	meeting = json_object_array_get_idx(meetings, 0);
	assert_true(json_object_object_get_ex(meeting, "steps", &list));
	assert_int_equal(json_object_array_length(list), 8);
	assert_true(json_object_object_get_ex(meeting, "results", &list));
	assert_int_equal(json_object_array_length(list), 13);
	row = json_object_array_get_idx(list, 12);
	assert_true(json_object_object_get_ex(row, "bytes", &value));
	assert_int_equal(json_object_get_int64(value), 2048);
	assert_true(json_object_object_get_ex(row, "wrong", &value));
	assert_int_equal(json_object_get_int64(value), 0);
	json_object_put(all);
}

/* Whichever end measures has the columns, and writes the picture. */
static void bandwidth_over_size(void **state)
{
	char path[SCRATCH_SIZE + 16], text[8192];
	const struct talk *measures;
	size_t length;
	FILE *svg;

	(void)state;
	snprintf(path, sizeof(path), "%s/ping.svg", scratch());
	BEGIN(&here, port_0, "-s", "4096", "-a", "65536", "-w", "100ms", "--svg", path);
	BEGIN(&there, port_1, "--svg", path);
	ends(&here, 0);
	ends(&there, 0);
	measures = strstr(here.out, "measured here") ? &here : &there;
	talk_says(measures, "     MB/s      k/s     both\n      4096 ");
	talk_says(measures, "\n     65536 ");
	svg = fopen(path, "r");
	assert_non_null(svg);
	length = fread(text, 1, sizeof(text) - 1, svg);
	text[length] = '\0';
	fclose(svg);
	assert_memory_equal(text, "<svg ", 5);
	assert_non_null(strstr(text, ">RC write</text>"));
	assert_non_null(strstr(text, "<title>both ways together</title></path>"));
	assert_non_null(strstr(text, ">64Ki</text>"));

	BEGIN(&here, port_0, "--svg", "/nonexistent/ping.svg");
	BEGIN(&there, port_1, "--svg", "/nonexistent/ping.svg");
	ends(&here, 1);
	ends(&there, 1);
	measures = strstr(here.out, "measured here") ? &here : &there;
	assert_non_null(strstr(measures->err, "/nonexistent/ping.svg: No such file or directory"));
	talk_says(measures == &here ? &there : &here, "its picture cannot be written");
}

static void differing_ends(void **state)
{
	(void)state;
	BEGIN(&here, port_0, "-t", "ud");
	BEGIN(&there, port_1, "-t", "uc");
	ends(&here, 1);
	ends(&there, 1);
	talk_says(&here, "the two ends differ in --type");
	talk_says(&there, "the two ends differ in --type");
}

/* A busy machine may not answer the last look in time. */
static void nobody_came(const char *service)
{
	int tries = 0;

	do {
		BEGIN(&here, port_0, "-o", "exchange.timeout=2s", service);
		talk_end(&here);
	} while (here.status == 1 && tries++ < 20);
	assert_int_equal(here.status, 3);
}

static void nobody_comes(void **state)
{
	(void)state;
	nobody_came(NULL);
	talk_says(&here, "  FAIL  peer ");
	talk_says(&here, "        -> run 'hartebeest ping' at the other end");
	nobody_came("nowhere");
	talk_says(&here, "        -> run 'hartebeest ping --listen NAME' at the other end");
}

/* ----------------------------------------------------------- listening --- */

/* A client that the listener refuses does not end it. */
static void one_listens(void **state)
{
	(void)state;
	BEGIN(&there, port_1, "-t", "rc", "--listen", "cn08");
	talk_until(&there, "listening as cn08");
	BEGIN(&here, port_0, "-c", "5", "cn08");
	ends(&here, 0);
	BEGIN(&here, port_0, "-t", "ud", "cn08");
	ends(&here, 1);
	talk_says(&here, "the two ends differ in --type");
	BEGIN(&here, port_0, "-c", "5", "-O", "read", "cn08");
	ends(&here, 0);
	talk_says(&here, "RC read to pid ");
	kill(there.pid, SIGINT);
	ends(&there, 128 + SIGINT);
	talk_says(&there, "5 pings, 0 lost, 0 wrong");
}

/* The leftovers of a killed client do not delay others for long. */
static void one_that_was_killed(void **state)
{
	(void)state;
	BEGIN(&here, port_0, "cn08");
	talk_until(&here, "servers");
	usleep(300000);
	kill(here.pid, SIGKILL);
	ends(&here, 128 + SIGKILL);
	BEGIN(&there, port_1, "--listen", "cn08");
	talk_until(&there, "listening as cn08");
	BEGIN(&here, port_0, "-c", "5", "cn08");
	ends(&here, 0);
	kill(there.pid, SIGTERM);
	ends(&there, 128 + SIGTERM);
}

/* -------------------------------------------------------------- ending --- */

/* Interrupts the end that measures; the other end learns of it. */
static void one_is_told_to_end(void **state)
{
	struct talk *measures, *answers;

	(void)state;
	BEGIN(&here, port_0, "-w", "1h");
	BEGIN(&there, port_1, "-o", "exchange.timeout=1min");
	talk_until(&here, "region");
	talk_until(&there, "region");
	measures = strstr(here.out, "measured here") ? &here : &there;
	answers = measures == &here ? &there : &here;
	talk_until(measures, "bytes    pings");
	kill(measures->pid, SIGINT);
	ends(measures, 128 + SIGINT);
	talk_says(measures, "data ");
	ends(answers, 0);
	talk_says(answers, "interrupted, ");
}

static void one_dies(void **state)
{
	struct talk *measures, *answers;

	(void)state;
	BEGIN(&here, port_0, "-w", "1h");
	BEGIN(&there, port_1, "-i", "10ms");
	talk_until(&here, "region");
	talk_until(&there, "region");
	measures = strstr(here.out, "measured here") ? &here : &there;
	answers = measures == &here ? &there : &here;
	talk_until(measures, "bytes    pings");
	kill(answers->pid, SIGKILL);
	ends(answers, 128 + SIGKILL);
	talk_end(measures);
	assert_in_range(measures->status, 1, 3);
	talk_says(measures, "  FAIL  pings ");
	talk_says(measures, "        -> the other end has died");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, setup)
		TEST(each_operation),
		TEST(by_ranks),
		TEST(as_an_object),
		TEST(bandwidth_over_size),
		TEST(differing_ends),
		TEST(nobody_comes),
		TEST(one_listens),
		TEST(one_that_was_killed),
		TEST(one_is_told_to_end),
		TEST(one_dies),
	};
	int failed;

	ranks_need_device();
	cache_need();
	tool = talk_tool();
	find_ports();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	cache_end(cache);
	return failed;
}
