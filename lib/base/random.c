/* SPDX-License-Identifier: MIT */
/*
 * random.c - bytes from the kernel
 *
 * Keeps no bytes and no open descriptor, so that neither a fork nor a program that closes unknown
 * descriptors does harm.  Knows nothing of what the bytes are for.
 */
#include "config.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/random.h"

#define SOURCE "/dev/urandom"
#define NONBLOCK 1			/* GRND_NONBLOCK, whose header CentOS 7 lacks */

/* glibc before 2.25 has no wrapper for the system call; Linux before 3.17 has no such call. */
int beest_random(void *buffer, size_t size)
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
	return got < 0 ? beest_fail_errno((int)got, "cannot read " SOURCE) : 0;
}
