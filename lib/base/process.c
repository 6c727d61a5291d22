/* SPDX-License-Identifier: MIT */
/* process.c - see process.h */
#include "config.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "lib/base/error.h"
#include "lib/base/process.h"
#include "lib/base/random.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define NAME_SPACE "/proc/self/ns/pid"

/* What cannot be read remains zero: without /proc the host name has to be enough. */
static uint32_t place_hash(void)
{
	struct {
		uint64_t name_space;
		char boot[40], host[64];
	} all;
	struct stat status;
	int fd;

	memset(&all, 0, sizeof(all));
	if (stat(NAME_SPACE, &status) == 0)
		all.name_space = status.st_ino;
	fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, all.boot, sizeof(all.boot)) < 0)
		memset(all.boot, 0, sizeof(all.boot));
	if (fd >= 0)
		close(fd);
	if (gethostname(all.host, sizeof(all.host)) < 0)
		memset(all.host, 0, sizeof(all.host));

	return beest_hash_crc32(&all, sizeof(all));
}

/* Drawn once; a forked child has the same. */
static int seed_draw(uint32_t *seed)
{
	static uint32_t drawn;		/* 0: not yet */
	uint32_t fresh;
	int ret;

	*seed = __atomic_load_n(&drawn, __ATOMIC_RELAXED);
	if (*seed)
		return 0;

	ret = beest_random(&fresh, sizeof(fresh));
	if (ret < 0)
		return ret;
	fresh |= 1;
	if (__atomic_compare_exchange_n(&drawn, seed, fresh, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		*seed = fresh;

	return 0;
}

/* Contains the process id, so that a forked child has another mark. */
int beest_process_mark(uint8_t mark[BEEST_PROCESS_SIZE])
{
	struct {
		uint32_t seed, pid;
	} self = { .pid = (uint32_t)getpid() };
	uint32_t halves[2];
	int ret;

	ret = seed_draw(&self.seed);
	if (ret < 0)
		return ret;

	halves[0] = place_hash();
	halves[1] = beest_hash_crc32(&self, sizeof(self));
	memcpy(mark, halves, BEEST_PROCESS_SIZE);

	return 0;
}
