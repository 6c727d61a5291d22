/* SPDX-License-Identifier: MIT */
/* parse.c - numbers, durations, ids and server lists: a value or a reason */
#include "config.h"

#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/parse.h"
#include "tests/fuzz/fuzz.h"

static void integers(const char *text)
{
	int64_t value = 0, again = 1;
	char number[32];

	if (beest_parse_int(text, -5, 1000000, &value) < 0)
		return;
	HOLDS(value >= -5 && value <= 1000000);
	snprintf(number, sizeof(number), "%lld", (long long)value);
	HOLDS(beest_parse_int(number, -5, 1000000, &again) == 0 && again == value);
}

static void durations(const char *text)
{
	int64_t ns = -1;

	if (beest_parse_duration(text, &ns) == 0)
		HOLDS(ns >= 0);
}

static void id_lists(const char *text)
{
	struct beest_ids ids = { NULL, 0 };
	size_t i;

	if (strlen(text) > 64 || beest_parse_ids(text, &ids) < 0)
		return;
	HOLDS(ids.count > 0 && ids.count <= BEEST_IDS_MAX);
	for (i = 1; i < ids.count; i++)
		HOLDS(ids.id[i - 1] < ids.id[i]);
	HOLDS(beest_parse_ids_position(&ids, ids.id[ids.count - 1]) == (int)ids.count - 1);
	beest_parse_ids_free(&ids);
}

/* The canonical text must mean the same server. */
static void is_canonical(const struct beest_hostport *endpoint)
{
	struct beest_hostport *again = NULL;
	size_t count = 0;

	HOLDS(beest_parse_hostports(endpoint->text, &again, &count) == 0 && count == 1);
	HOLDS(!strcmp(again->text, endpoint->text) && !strcmp(again->host, endpoint->host));
	HOLDS(again->port == endpoint->port);
	free(again);
}

static void endpoints(const char *text)
{
	struct beest_hostport *list = NULL;
	size_t i, count = 0;

	if (beest_parse_hostports(text, &list, &count) < 0)
		return;
	HOLDS(count > 0 && count <= BEEST_HOSTPORTS_MAX);
	for (i = 0; i < count; i++)
		is_canonical(&list[i]);
	free(list);
}

static void (*const parsers[])(const char *) = { integers, durations, id_lists, endpoints };

/* The first byte, '0' to '3', selects the parser; with any other byte, all parse the input. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *copy;
	size_t i;

	if (size < 1)
		return 0;
	copy = fuzz_cut(data + 1, size - 1, &text, 1);
	for (i = 0; i < BEEST_COUNT(parsers); i++)
		if (data[0] == '0' + i || data[0] > '3' || data[0] < '0')
			parsers[i](text);
	free(copy);
	return 0;
}
