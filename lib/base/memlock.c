/* SPDX-License-Identifier: MIT */
/* memlock.c - see memlock.h */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>

#include "lib/base/file.h"
#include "lib/base/memlock.h"

#define IPC_LOCK (UINT64_C(1) << 14)	/* CAP_IPC_LOCK */

const char *beest_memlock_proc = "/proc/self";

static uint64_t capabilities(void)
{
	char line[PATH_MAX];
	uint64_t set = 0;
	FILE *file;

	snprintf(line, sizeof(line), "%s/status", beest_memlock_proc);
	file = fopen(line, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %" SCNx64, &set) == 1)
			break;
	if (file)
		fclose(file);
	return set;
}

/* Its user ids are those of all.  A kernel without user namespaces has no such file. */
static bool is_first_user_namespace(void)
{
	unsigned long inside, outside, count;
	char line[64];

	return !beest_file_line(line, sizeof(line), "%s/uid_map", beest_memlock_proc) ||
	       (sscanf(line, "%lu %lu %lu", &inside, &outside, &count) == 3 && inside == 0 &&
		outside == 0 && count == UINT32_MAX);
}

bool beest_memlock_is_lifted(void)
{
	return (capabilities() & IPC_LOCK) && is_first_user_namespace();
}

bool beest_memlock_limit(uint64_t *bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
	    beest_memlock_is_lifted())
		return false;

	*bytes = limit.rlim_cur;
	return true;
}
