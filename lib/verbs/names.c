/* SPDX-License-Identifier: MIT */
/* names.c - see names.h */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/parse.h"
#include "lib/base/text.h"
#include "lib/verbs/names.h"

/* Splits "mlx5_0:1" into name and port.  No device name in sysfs has a colon. */
static int entry_parse(struct beest_names_entry *entry, const char *text, size_t size)
{
	char whole[BEEST_QUOTE_SIZE];
	int64_t port = 0;
	size_t length;

	snprintf(whole, sizeof(whole), "%.*s", (int)size, text);
	length = strcspn(whole, ":");
	if (length == 0 || length >= sizeof(entry->text) || strchr("^=", whole[0]))
		return beest_fail(EINVAL, "%s is not the name of a device, such as mlx5_0 or "
				  "mlx5_0:1%s", BEEST_QUOTE(whole), strchr("^=", whole[0]) &&
				  length ? ": ^ and = are for all entries, before the first "
				  "one" : "");

	if (whole[length] && beest_parse_int(whole + length + 1, 1, UINT8_MAX, &port) < 0)
		return beest_fail_prefix(-EINVAL, "the port in device %s", BEEST_QUOTE(whole));

	snprintf(entry->text, sizeof(entry->text), "%.*s", (int)length, whole);
	entry->port = (int)port;
	entry->is_pattern = strpbrk(entry->text, "*?[") != NULL;

	return 0;
}

int beest_names_parse(struct beest_names *names, const char *text)
{
	size_t size;
	int ret = 0;

	memset(names, 0, sizeof(*names));
	names->excludes = *text == '^';
	text += names->excludes;
	text += *text == '=';		/* a name is no beginning of others here anyway */
	for (;;) {
		size = strcspn(text, ",");
		if (names->count == BEEST_NAMES_MAX)
			return beest_fail(EINVAL, "more than %d names of devices",
					  BEEST_NAMES_MAX);
		ret = entry_parse(&names->entries[names->count++], text, size);
		if (ret < 0 || !text[size])
			return ret;
		text += size + 1;
	}
}

static bool entry_matches(const struct beest_names_entry *entry, const char *device)
{
	return entry->is_pattern ? fnmatch(entry->text, device, 0) == 0 :
				   strcmp(entry->text, device) == 0;
}

/* Does the name of the device go on after that of the entry, but not within a number? */
static bool entry_begins(const struct beest_names_entry *entry, const char *device)
{
	const size_t length = strlen(entry->text);

	return strncmp(entry->text, device, length) == 0 && device[length] &&
	       !(isdigit((unsigned char)entry->text[length - 1]) &&
		 isdigit((unsigned char)device[length]));
}

static bool entry_is_beginning(const struct beest_names_entry *entry, const char *const *devices,
			       int count)
{
	bool begins = false;
	int i;

	for (i = 0; i < count; i++) {
		if (entry_matches(entry, devices[i]))
			return false;
		begins |= entry_begins(entry, devices[i]);
	}

	return begins;
}

void beest_names_widen(struct beest_names *names, const char *const *devices, int count)
{
	struct beest_names_entry *entry;

	for (entry = names->entries; entry < names->entries + names->count; entry++) {
		if (entry->is_pattern || strlen(entry->text) + 1 == sizeof(entry->text) ||
		    !entry_is_beginning(entry, devices, count))
			continue;
		strcat(entry->text, "*");
		entry->is_pattern = true;
	}
}

bool beest_names_is_list(const struct beest_names *names)
{
	int i = 0;

	while (i < names->count && !names->entries[i].is_pattern)
		i++;

	return i == names->count && !names->excludes;
}

bool beest_names_has(const struct beest_names *names, const char *device, int port)
{
	const struct beest_names_entry *entry;

	for (entry = names->entries; entry < names->entries + names->count; entry++)
		if (entry_matches(entry, device) &&
		    (names->excludes ? !entry->port || entry->port == port :
		     !entry->port || !port || entry->port == port))
			return !names->excludes;

	return names->excludes;
}
