/* SPDX-License-Identifier: MIT */
/* parse.c - what each grammar accepts, what it refuses, and the sentences */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/parse.h"
#include "tests/support/unit.h"

/* --- numbers --- */

static void takes_int(const char *text, int64_t min, int64_t max, int64_t wanted)
{
	int64_t value = ~wanted;

	assert_int_equal(beest_parse_int(text, min, max, &value), 0);
	assert_true(value == wanted);
}

static void refuses_int(const char *text, int64_t min, int64_t max, int wanted)
{
	int64_t value = 424242;

	beest_fail(EIO, "not set");
	assert_int_equal(beest_parse_int(text, min, max, &value), wanted);
	assert_true(value == 424242);
	assert_string_not_equal(beest_error_text(), "not set");
}

static void test_int(void **state)
{
	(void)state;
	takes_int("0", 0, 9, 0);
	takes_int("65535", 1, 65535, 65535);
	takes_int("1", 1, 65535, 1);
	takes_int("0x0", 0, 9, 0);
	takes_int("0xff", 0, 255, 255);
	takes_int("0x00fF", 0, 255, 255);
	takes_int("9223372036854775807", 0, INT64_MAX, INT64_MAX);
	takes_int("0x7fffffffffffffff", 0, INT64_MAX, INT64_MAX);
}

static void test_int_negative(void **state)
{
	(void)state;
	takes_int("-1", -1, 9, -1);
	takes_int("-0", -1, 9, 0);
	takes_int("-0x10", -16, 9, -16);
	takes_int("-9223372036854775808", INT64_MIN, 0, INT64_MIN);
	refuses_int("-9223372036854775809", INT64_MIN, 0, -ERANGE);
	refuses_int("-0", 0, 9, -ERANGE);
	refuses_int("-2", -1, 9, -ERANGE);
	refuses_int("-", -1, 9, -EINVAL);
	refuses_int("--1", -1, 9, -EINVAL);
	refuses_int("-01", -1, 9, -EINVAL);
}

static void test_int_refuses_what_is_no_number(void **state)
{
	static const char *const texts[] = {
		"", " ", " 1", "1 ", "1\n", "+1", "1x", "x", "0x", "0x ", "0xg", "0X1", "x1",
		"1.0", "1e3", "1k", "1,2", "00", "010", "1_000", "0x-1", "\xc2\xb2", "\xff",
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(texts); i++)
		refuses_int(texts[i], 0, 100, -EINVAL);
}

static void test_int_refuses_what_is_out_of_range(void **state)
{
	char huge[5000];

	(void)state;
	refuses_int("0", 1, 65535, -ERANGE);
	refuses_int("65536", 1, 65535, -ERANGE);
	refuses_int("-1", 0, 65535, -ERANGE);
	refuses_int("9223372036854775808", 0, INT64_MAX, -ERANGE);
	refuses_int("18446744073709551615", INT64_MIN, INT64_MAX, -ERANGE);
	refuses_int("18446744073709551616", INT64_MIN, INT64_MAX, -ERANGE);
	refuses_int("18446744073709551617", INT64_MIN, INT64_MAX, -ERANGE);
	refuses_int("0x10000000000000001", INT64_MIN, INT64_MAX, -ERANGE);
	refuses_int(unit_repeat(huge, '9', sizeof(huge) - 1), INT64_MIN, INT64_MAX, -ERANGE);
	huge[sizeof(huge) - 2] = 'x';
	refuses_int(huge, INT64_MIN, INT64_MAX, -EINVAL);
}

static void test_int_sentences(void **state)
{
	(void)state;
	refuses_int("1x", 1, 65535, -EINVAL);
	assert_error_is("'1x' is not a number from 1 to 65535");
	refuses_int("", -1, 5, -EINVAL);
	assert_error_is("'' is not a number from -1 to 5");
	refuses_int("010", 0, 100, -EINVAL);
	assert_error_is("'010' is not a number from 0 to 100; drop the leading zero, which "
			"some read as octal");
	refuses_int("70000", 1, 65535, -ERANGE);
	assert_error_is("'70000' is out of range: 1 to 65535");
	refuses_int("1\x1b[2J", 0, 9, -EINVAL);
	assert_error_is("'1\\x1b[2J' is not a number from 0 to 9");
}

/* --- durations --- */

static void takes_duration(const char *text, int64_t wanted)
{
	int64_t ns = ~wanted;

	assert_int_equal(beest_parse_duration(text, &ns), 0);
	assert_true(ns == wanted);
}

static void refuses_duration(const char *text, int wanted)
{
	int64_t ns = 424242;

	beest_fail(EIO, "not set");
	assert_int_equal(beest_parse_duration(text, &ns), wanted);
	assert_true(ns == 424242);
	assert_string_not_equal(beest_error_text(), "not set");
}

static void test_duration(void **state)
{
	(void)state;
	takes_duration("0", 0);
	takes_duration("0s", 0);
	takes_duration("500us", 500 * BEEST_US);
	takes_duration("67ms", 67 * BEEST_MS);
	takes_duration("30s", 30 * BEEST_SECOND);
	takes_duration("2min", 120 * BEEST_SECOND);
	takes_duration("1h", 3600 * BEEST_SECOND);
	takes_duration("1d", 86400 * BEEST_SECOND);
	takes_duration("106751d", 106751 * (86400 * BEEST_SECOND));
}

static void test_duration_refusals(void **state)
{
	static const char *const texts[] = {
		"", "30", "00", "s", "-1s", "+1s", " 1s", "1 s", "1s ", "1.5s", "1m", "1S", "1sec",
		"1s1s", "010s", "0x1s", "0us0", "1ns", "1s\n",
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(texts); i++)
		refuses_duration(texts[i], -EINVAL);
	refuses_duration("106752d", -ERANGE);
	refuses_duration("9223372036854775808us", -ERANGE);
	refuses_duration("99999999999999999999999s", -ERANGE);
}

static void test_duration_sentences(void **state)
{
	(void)state;
	refuses_duration("30", -EINVAL);
	assert_error_is("'30' is not a duration: after the number, us, ms, s, min, h or d is "
			"expected");
	refuses_duration("soon", -EINVAL);
	assert_error_is("'soon' is not a duration such as 30s or 67ms");
	refuses_duration("106752d", -ERANGE);
	assert_error_is("'106752d' is too long for a duration: the limit is 292 years");
}

/* --- id lists --- */

static void takes_ids(const char *text, size_t count, const int *wanted)
{
	struct beest_ids ids = { NULL, 0 };

	assert_int_equal(beest_parse_ids(text, &ids), 0);
	assert_int_equal(ids.count, count);
	assert_memory_equal(ids.id, wanted, count * sizeof(int));
	beest_parse_ids_free(&ids);
	assert_null(ids.id);
	assert_int_equal(ids.count, 0);
}

static void refuses_ids(const char *text, int wanted)
{
	int untouched = 0;
	struct beest_ids ids = { &untouched, 7 };

	beest_fail(EIO, "not set");
	assert_int_equal(beest_parse_ids(text, &ids), wanted);
	assert_ptr_equal(ids.id, &untouched);
	assert_int_equal(ids.count, 7);
	assert_string_not_equal(beest_error_text(), "not set");
}

#define TAKES_IDS(text, ...) \
	takes_ids(text, sizeof((int[]){ __VA_ARGS__ }) / sizeof(int), (int[]){ __VA_ARGS__ })

static void test_ids(void **state)
{
	(void)state;
	TAKES_IDS("0", 0);
	TAKES_IDS("0,1", 0, 1);
	TAKES_IDS("0-3,8,10-11", 0, 1, 2, 3, 8, 10, 11);
	TAKES_IDS("5-5", 5);
	TAKES_IDS("10-11,2,0-1", 0, 1, 2, 10, 11);
	TAKES_IDS("2147483646-2147483647", 2147483646, 2147483647);
}

static void test_ids_at_their_limit(void **state)
{
	struct beest_ids ids;

	(void)state;
	assert_int_equal(beest_parse_ids("0-999999", &ids), 0);
	assert_int_equal(ids.count, BEEST_IDS_MAX);
	assert_int_equal(ids.id[999999], 999999);
	beest_parse_ids_free(&ids);

	refuses_ids("0-1000000", -ERANGE);
	refuses_ids("0-999999,1000000", -ERANGE);
	refuses_ids("5-1000004,7", -ERANGE);
	refuses_ids("0-2147483647", -ERANGE);
}

static void test_ids_refusals(void **state)
{
	static const char *const texts[] = {
		"", ",", "0,", ",0", "0,,1", "0 ,1", "0, 1", " 0", "0\n", "-", "-1", "0-", "0--1",
		"1-2-3", "3-1", "1,1", "0-3,2", "0x1", "01", "a", "0;1", "0..3", "+1", "0-+1",
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(texts); i++)
		refuses_ids(texts[i], -EINVAL);
	refuses_ids("2147483648", -ERANGE);
	refuses_ids("2147483647-2147483648", -ERANGE);
	refuses_ids("0-99999999999999999999999", -ERANGE);
	refuses_ids("18446744073709551616", -ERANGE);
}

static void test_ids_sentences(void **state)
{
	(void)state;
	refuses_ids("0,,1", -EINVAL);
	assert_error_is("'0,,1' is not a list of ids such as 0,1 or 0-63: see byte 3");
	refuses_ids("", -EINVAL);
	assert_error_is("'' is not a list of ids such as 0,1 or 0-63: see byte 1");
	refuses_ids("0,3-1", -EINVAL);
	assert_error_is("3-1 in '0,3-1' runs backwards");
	refuses_ids("0-4,2", -EINVAL);
	assert_error_is("id 2 appears twice in '0-4,2'");
	refuses_ids("0-99999999", -ERANGE);
	assert_error_is("'0-99999999' holds more than 1000000 ids");
	refuses_ids("0,2147483648", -ERANGE);
	assert_error_is("an id in '0,2147483648' is above 2147483647");
}

static void test_ids_position(void **state)
{
	struct beest_ids ids;

	(void)state;
	assert_int_equal(beest_parse_ids("8,0-3,10-11", &ids), 0);
	assert_int_equal(beest_parse_ids_position(&ids, 0), 0);
	assert_int_equal(beest_parse_ids_position(&ids, 8), 4);
	assert_int_equal(beest_parse_ids_position(&ids, 11), 6);
	assert_int_equal(beest_parse_ids_position(&ids, 4), -1);
	assert_int_equal(beest_parse_ids_position(&ids, -1), -1);
	assert_int_equal(beest_parse_ids_position(&ids, 12), -1);
	beest_parse_ids_free(&ids);
	beest_parse_ids_free(&ids);
	assert_int_equal(beest_parse_ids_position(&ids, 0), -1);
}

/* --- server lists --- */

static void takes_server(const char *text, const char *canonical, const char *host,
			 int port)
{
	struct beest_hostport *list = NULL;
	size_t count = 0;

	assert_int_equal(beest_parse_hostports(text, &list, &count), 0);
	assert_int_equal(count, 1);
	assert_string_equal(list->text, canonical);
	assert_string_equal(list->host, host);
	assert_int_equal(list->port, port);
	free(list);
}

static void refuses_servers_with(const char *text, int wanted)
{
	struct beest_hostport untouched, *list = &untouched;
	size_t count = 7;

	beest_fail(EIO, "not set");
	assert_int_equal(beest_parse_hostports(text, &list, &count), wanted);
	assert_ptr_equal(list, &untouched);
	assert_int_equal(count, 7);
	assert_string_not_equal(beest_error_text(), "not set");
}

static void refuses_servers(const char *text)
{
	refuses_servers_with(text, -EINVAL);
}

static void test_server_names(void **state)
{
	(void)state;
	takes_server("node1", "node1:11211", "node1", 11211);
	takes_server("node1:1", "node1:1", "node1", 1);
	takes_server("10.0.0.1:65535", "10.0.0.1:65535", "10.0.0.1", 65535);
	takes_server("Node-1_a.Example.ORG", "node-1_a.example.org:11211",
		     "node-1_a.example.org", 11211);
}

static void test_server_ipv6(void **state)
{
	(void)state;
	takes_server("[::1]", "[::1]:11211", "::1", 11211);
	takes_server("[::1]:80", "[::1]:80", "::1", 80);
	takes_server("[2001:DB8:0:0:0:0:0:1]:80", "[2001:db8::1]:80", "2001:db8::1", 80);
	takes_server("[fe80::1%ib0]:80", "[fe80::1%ib0]:80", "fe80::1%ib0", 80);
	takes_server("[::ffff:10.0.0.1]", "[::ffff:10.0.0.1]:11211", "::ffff:10.0.0.1", 11211);
}

static void test_server_sockets(void **state)
{
	char path[200];

	(void)state;
	takes_server("/run/memcached.sock", "/run/memcached.sock", "/run/memcached.sock", 0);
	takes_server("/run/a:b", "/run/a:b", "/run/a:b", 0);
	unit_repeat(path, '/', 107);
	takes_server(path, path, path, 0);
	refuses_servers(unit_repeat(path, '/', 108));
	assert_error_has("has 108 bytes: the limit is 107");
}

static void test_server_lists(void **state)
{
	static const char *const wanted[] = {
		"host:7", "host:11211", "10.0.0.1:11211", "[::1]:11211", "/run/memcached.sock",
	};
	struct beest_hostport *list;
	size_t count;
	size_t i;

	(void)state;
	assert_int_equal(beest_parse_hostports("host:7,host,10.0.0.1:11211,[::1]:11211,"
					       "/run/memcached.sock", &list, &count), 0);
	assert_int_equal(count, BEEST_COUNT(wanted));
	for (i = 0; i < count; i++)
		assert_string_equal(list[i].text, wanted[i]);
	free(list);
}

static void test_server_refusals(void **state)
{
	static const char *const texts[] = {
		"", ",", "a,", ",a", "a,,b", ":", ":1", "a:", "a:+1", "a: 1", "a:x", "a:1x",
		"a:010", "a b", " a", "a ", "a\n", "a\r\nflush_all", "a\x7f", "a, b", "a:1:2",
		"run/m.sock", "./m.sock", "/run/a b", "/run/a\n", "a/b", "a@b", "a%ib0",
		"a\xc3\xbc", "::1", "fe80::1", "::1:11211", "[", "[]", "[::1", "[::1]x",
		"[::1]11211", "[::1]:", "[::1]]",
		"[[::1]]", "[10.0.0.1]", "[node]", "[::1::]", "[fe80::1%]",
		"[fe80::1%a b]", "[fe80::1%a/b]", "]", "a]",
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(texts); i++)
		refuses_servers(texts[i]);
	refuses_servers_with("a:0", -ERANGE);
	refuses_servers_with("a:65536", -ERANGE);
	refuses_servers_with("[::1]:0", -ERANGE);
}

static void test_servers_are_told_apart(void **state)
{
	(void)state;
	refuses_servers("a,b,a");
	assert_error_is("server 'a:11211' appears twice");
	refuses_servers("a,A:11211");
	refuses_servers("[::1],[0:0::1]:11211");
	assert_error_is("server '[::1]:11211' appears twice");
	refuses_servers("/run/m,/run/m");
}

static void test_server_sentences(void **state)
{
	(void)state;
	refuses_servers("a,,b");
	assert_error_is("server list 'a,,b' has an empty part at byte 3");
	refuses_servers_with("a:0", -ERANGE);
	assert_error_is("the port of server 'a:0': '0' is out of range: 1 to 65535");
	refuses_servers("a:");
	assert_error_is("the port of server 'a:': '' is not a number from 1 to 65535");
	refuses_servers("a, b");
	assert_error_is("server ' b' has a blank or control character");
	refuses_servers("a\r\nflush_all");
	assert_error_is("server 'a\\x0d\\x0aflush_all' has a blank or control character");
	refuses_servers("fe80::1");
	assert_error_is("server 'fe80::1' has more than one colon: give no weight after the port, "
			"and put an IPv6 address in brackets, as in [::1]:11211");
	refuses_servers("127.0.0.1:11211:3");
	assert_error_has("server '127.0.0.1:11211:3' has more than one colon: give no weight ");
	refuses_servers("[::1]:11211:3");
	assert_error_is("the port of server '[::1]:11211:3': '11211:3' is not a number from 1 to "
			"65535");
	refuses_servers("21377");
	assert_error_is("server '21377' has no host but a number: a port follows its host and a "
			"colon, as in host:11211");
	refuses_servers("127.0.0.1,21377");
	assert_error_has("server '21377' has no host but a number: ");
	refuses_servers("http://h:1");
	assert_error_is("server 'http://h:1' is a URL, not host, host:port, [IPv6]:port or the "
			"absolute path of a socket");
	refuses_servers("a:1;b:2");
	assert_error_is("server 'a:1;b:2' has a semicolon: commas separate servers");
	takes_server("/run/a;b://c", "/run/a;b://c", "/run/a;b://c", 0);
	refuses_servers("run/m.sock");
	assert_error_is("server 'run/m.sock' is not host, host:port, [IPv6]:port or the "
			"absolute path of a socket");
}

static void a_login_is_refused(void **state)
{
	static const struct {
		const char *servers, *named;
	} rows[] = {
		{ "me:xyzzy@h:1", "'h:1'" },
		{ "me@h", "'h'" },
		{ "memcached://me:xyzzy@h:1", "'h:1'" },
		{ "a,me:xyzzy@h:1,b", "'h:1,b'" },
		{ "me:xy,zzy@h", "'h'" },
		{ "me:xyzzy@x,xyzzy@h", "'h'" },
		{ "me:xyzzy xyzzy@[::1]:1", "'[::1]:1'" },
		{ "me:xyzzy@h,/run/m@1", "'1'" },
		{ "me:xyzzy@", "''" },
		{ "me:xyzzy,/zzy@h:1", "'h:1'" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		refuses_servers(rows[i].servers);
		assert_error_has(rows[i].named);
		assert_error_has(" has a login before it: the library does not log in: a secret "
				 "(exchange.secret_file) protects records, and a private address "
				 "or stunnel the server (hartebeest(7), Security)");
		assert_null(strstr(beest_error_text(), "zzy"));
	}
	takes_server("/run/m@1", "/run/m@1", "/run/m@1", 0);
	refuses_servers("/run/m@1,h:port");
	assert_error_has("'h:port'");
}

static void test_server_lengths(void **state)
{
	char name[600], canonical[600];

	(void)state;
	unit_repeat(name, 'a', 255);
	strcat(strcpy(canonical, name), ":11211");
	takes_server(name, canonical, name, 11211);
	refuses_servers(unit_repeat(name, 'a', 256));
	assert_error_has("has a name of 256 bytes: the limit is 255");
	refuses_servers(unit_repeat(name, 'a', 599));
	assert_error_has("has a name of 599 bytes: the limit is 255");

	memcpy(unit_repeat(name, 'a', 290), "[fe80::1%", 9);
	name[289] = ']';
	refuses_servers(name);
	assert_error_has("is not an IPv6 address in brackets");
}

static void test_too_many_servers(void **state)
{
	char list[3000];

	(void)state;
	refuses_servers(unit_repeat(list, ',', BEEST_HOSTPORTS_MAX - 1));
	refuses_servers_with(unit_repeat(list, ',', BEEST_HOSTPORTS_MAX), -ERANGE);
	assert_error_is("1025 servers are listed: the limit is 1024");
}

/* --- random bytes --- */

/* Mostly bytes that get far into a grammar, and some of any value. */
static const char *random_text(uint32_t *seed)
{
	static const char likely[] = "0123456789-,:[]%/.xabsmhdu ";
	static char text[64];
	size_t length = unit_next(seed) % (sizeof(text) - 1);
	size_t i;

	for (i = 0; i < length; i++)
		if (unit_next(seed) % 16)
			text[i] = likely[unit_next(seed) % (sizeof(likely) - 1)];
		else
			text[i] = unit_next(seed) % 255 + 1;
	text[length] = '\0';
	return text;
}

/* An accepted server must mean the same when its text is parsed again. */
static void try_servers(const char *text)
{
	struct beest_hostport *list, *again;
	size_t count, count_again;
	size_t i;

	if (beest_parse_hostports(text, &list, &count) < 0)
		return;
	for (i = 0; i < count; i++) {
		assert_int_equal(beest_parse_hostports(list[i].text, &again, &count_again), 0);
		assert_int_equal(count_again, 1);
		assert_memory_equal(&list[i], again, sizeof(*again));
		free(again);
	}
	free(list);
}

static void try_ids(const char *text)
{
	struct beest_ids ids;
	size_t i;

	if (beest_parse_ids(text, &ids) < 0)
		return;
	assert_true(ids.count > 0 && ids.id[0] >= 0);
	for (i = 1; i < ids.count; i++)
		assert_true(ids.id[i - 1] < ids.id[i]);
	beest_parse_ids_free(&ids);
}

static void test_any_bytes(void **state)
{
	uint32_t seed = 1;
	const char *text;
	int64_t value;
	int i;

	(void)state;
	for (i = 0; i < 20000; i += unit_stride(7)) {
		text = random_text(&seed);
		if (beest_parse_int(text, -9, 99, &value) == 0)
			assert_true(value >= -9 && value <= 99);
		if (beest_parse_duration(text, &value) == 0)
			assert_true(value >= 0);
		try_ids(text);
		try_servers(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_int),
		cmocka_unit_test(test_int_negative),
		cmocka_unit_test(test_int_refuses_what_is_no_number),
		cmocka_unit_test(test_int_refuses_what_is_out_of_range),
		cmocka_unit_test(test_int_sentences),
		cmocka_unit_test(test_duration),
		cmocka_unit_test(test_duration_refusals),
		cmocka_unit_test(test_duration_sentences),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_ids_at_their_limit),
		cmocka_unit_test(test_ids_refusals),
		cmocka_unit_test(test_ids_sentences),
		cmocka_unit_test(test_ids_position),
		cmocka_unit_test(test_server_names),
		cmocka_unit_test(test_server_ipv6),
		cmocka_unit_test(test_server_sockets),
		cmocka_unit_test(test_server_lists),
		cmocka_unit_test(test_server_refusals),
		cmocka_unit_test(test_servers_are_told_apart),
		cmocka_unit_test(test_server_sentences),
		cmocka_unit_test(a_login_is_refused),
		cmocka_unit_test(test_server_lengths),
		cmocka_unit_test(test_too_many_servers),
		cmocka_unit_test(test_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
