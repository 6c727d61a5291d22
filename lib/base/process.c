/* SPDX-License-Identifier: MIT */
/* process.c - see process.h */
#include "config.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/process.h"
#include "lib/base/random.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define NAME_SPACE "/proc/self/ns/pid"

/* Unreadable parts remain zero: without /proc, the host name alone has to do. */
static uint32_t place_hash(void)
{
	struct {
		uint64_t name_space;
		char boot[40], host[64];
	} all;
	struct stat status;

	memset(&all, 0, sizeof(all));
	if (stat(NAME_SPACE, &status) == 0)
		all.name_space = status.st_ino;
	beest_file_line(BOOT_ID, all.boot, sizeof(all.boot));
	if (gethostname(all.host, sizeof(all.host)) < 0)
		all.host[0] = '\0';

	return beest_hash_crc32(0, &all, sizeof(all));
}

/* The mark depends on the process id, so that a forked child has another one. */
int beest_process_mark(uint8_t mark[BEEST_PROCESS_SIZE])
{
	static uint32_t seed;		/* drawn once; 0: not yet */
	uint32_t fresh, none = 0, halves[2];
	struct {
		uint32_t seed, pid;
	} self = { .pid = (uint32_t)getpid() };
	int ret;

	if (!__atomic_load_n(&seed, __ATOMIC_RELAXED)) {
		ret = beest_random(&fresh, sizeof(fresh));
		if (ret < 0)
			return ret;
		__atomic_compare_exchange_n(&seed, &none, fresh | 1, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	}
	self.seed = __atomic_load_n(&seed, __ATOMIC_RELAXED);

	halves[0] = place_hash();
	halves[1] = beest_hash_crc32(0, &self, sizeof(self));
	memcpy(mark, halves, BEEST_PROCESS_SIZE);
	return 0;
}
