/* SPDX-License-Identifier: MIT */
/*
 * random.c - bytes from the kernel, a pool of them at a time
 *
 * Owns a pool per thread, so that a packet sequence number costs no call of the kernel.
 * No descriptor stays open: a fork or a program that closes all it does not know can
 * break nothing.  Knows nothing of what the bytes are for.
 */
#include "config.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/random.h"

#define SOURCE "/dev/urandom"
#define POOL_SIZE 256			/* at most that many are never cut short */
#define NONBLOCK 1			/* GRND_NONBLOCK, of a header that CentOS 7 lacks */

static __thread struct {
	pid_t pid;			/* whose it is: a forked child has a copy */
	size_t left;
	uint8_t bytes[POOL_SIZE];
} pool;

/* glibc before 2.25 does not wrap the system call, and Linux before 3.17 has none. */
static int source_read(void *buffer, size_t size)
{
	ssize_t got;
	int fd;

#ifdef SYS_getrandom
	if (syscall(SYS_getrandom, buffer, size, NONBLOCK) == (long)size)
		return 0;
#endif
	fd = open(SOURCE, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? beest_error_errno() : beest_file_read(fd, buffer, size);
	if (fd >= 0)
		close(fd);
	if (got >= 0 && (size_t)got < size)
		got = -EIO;
	if (got < 0)
		return beest_fail_errno((int)got, "cannot read " SOURCE);
	return 0;
}

int beest_random(void *buffer, size_t size)
{
	pid_t pid = getpid();
	int ret;

	if (size > sizeof(pool.bytes))
		return source_read(buffer, size);
	if (pool.pid != pid || pool.left < size) {
		pool.left = 0;
		ret = source_read(pool.bytes, sizeof(pool.bytes));
		if (ret < 0)
			return ret;
		pool.pid = pid;
		pool.left = sizeof(pool.bytes);
	}

	/* What was handed out does not stay in memory. */
	pool.left -= size;
	memcpy(buffer, pool.bytes + pool.left, size);
	memset(pool.bytes + pool.left, 0, size);
	return 0;
}
