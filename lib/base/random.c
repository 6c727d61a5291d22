/* SPDX-License-Identifier: MIT */
/*
 * random.c - bytes from /dev/urandom
 *
 * Owns nothing between calls: without an open descriptor, neither a fork nor a program
 * that closes all descriptors can break it.  Knows nothing of what the bytes are for.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/random.h"

#define SOURCE "/dev/urandom"

static int read_source(void *buffer, size_t size)
{
	int fd = open(SOURCE, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return beest_error_errno();
	got = beest_file_read(fd, buffer, size);
	close(fd);
	if (got < 0)
		return got;
	return (size_t)got == size ? 0 : -EIO;
}

int beest_random(void *buffer, size_t size)
{
	int ret = read_source(buffer, size);

	if (ret < 0)
		return beest_fail(-ret, "cannot read " SOURCE ": %s", strerror(-ret));
	return 0;
}
