/* SPDX-License-Identifier: MIT */
/* gid.c - GID policies, and their choices in any table */
#include "config.h"

#include "lib/base/error.h"
#include "lib/verbs/gid.h"
#include "tests/fuzz/fuzz.h"

#define ENTRIES 8

/* Each entry is 20 bytes of input: GID, index, version, interface. */
static size_t fill(struct beest_gid_entry *entries, const char *bytes)
{
	static const char *const names[] = { "", "eth0", "docker0", "ib0" };
	size_t i, count = strlen(bytes) / 20;

	for (i = 0; i < count && i < ENTRIES; i++, bytes += 20) {
		memset(&entries[i], 0, sizeof(entries[i]));
		memcpy(entries[i].gid.raw, bytes, 16);
		if (bytes[17] & 1)
			memcpy(entries[i].gid.raw, "\0\0\0\0\0\0\0\0\0\0\377\377", 12);
		entries[i].index = (uint8_t)bytes[16];
		entries[i].roce = (enum beest_roce)((uint8_t)bytes[17] % 3);
		strcpy(entries[i].netdev, names[(uint8_t)bytes[18] % 4]);
		entries[i].netdev_down = bytes[19] & 1;
	}
	return i;
}

static void choose(const struct beest_gid_policy *policy, const char *bytes)
{
	struct beest_gid_entry entries[ENTRIES];
	char reason[200];
	size_t count = fill(entries, bytes);
	int at = beest_gid_choose(entries, count, policy, reason, sizeof(reason));

	HOLDS(at < (int)count);
	if (at < 0) {
		HOLDS(beest_error_text()[0]);
		return;
	}
	HOLDS(strlen(reason) < sizeof(reason));
	HOLDS(BEEST_GID_TEXT(&entries[at].gid));
	if (policy->rule == BEEST_GID_INDEX)
		HOLDS(entries[at].index == policy->index);
}

/* Input lines: policy, a byte each for RoCE version and family, then the table. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int families[] = { AF_UNSPEC, AF_INET, AF_INET6 };
	struct beest_gid_policy policy;
	char *texts[4], *copy = fuzz_cut(data, size, texts, 4);

	if (beest_gid_policy_parse(texts[0], (enum beest_roce)((uint8_t)texts[1][0] % 3),
				   families[(uint8_t)texts[2][0] % 3], &policy) == 0) {
		HOLDS(policy.prefix >= 0 && policy.prefix <= 128);
		choose(&policy, texts[3]);
	} else {
		HOLDS(beest_error_text()[0]);
	}
	free(copy);
	return 0;
}
