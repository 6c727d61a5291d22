/* SPDX-License-Identifier: MIT */
/*
 * random.c - bytes from /dev/urandom
 *
 * Owns nothing between calls: no descriptor stays open, so a fork or a program that
 * closes all it does not know can break nothing.  Knows nothing of what they are for.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/random.h"

#define SOURCE "/dev/urandom"

static int read_all(int fd, char *at, size_t left)
{
	ssize_t got;

	while (left) {
		errno = 0;		/* the end of a file is no errno: -EIO */
		got = read(fd, at, left);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return beest_error_errno();
		at += got;
		left -= got;
	}
	return 0;
}

static int read_source(void *buffer, size_t size)
{
	int fd = open(SOURCE, O_RDONLY | O_CLOEXEC);
	int ret;

	if (fd < 0)
		return beest_error_errno();
	ret = read_all(fd, buffer, size);
	close(fd);
	return ret;
}

int beest_random(void *buffer, size_t size)
{
	int ret = read_source(buffer, size);

	if (ret < 0)
		return beest_fail(-ret, "cannot read " SOURCE ": %s", strerror(-ret));
	return 0;
}
