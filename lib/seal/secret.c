/* SPDX-License-Identifier: MIT */
/* secret.c - see secret.h */
#include "config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/seal/secret.h"

/* Checks the open file, which cannot be replaced meanwhile, rather than the path. */
static int file_check(int fd, const char *path)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return beest_fail_errno(-errno, "%s", BEEST_QUOTE(path));
	if (!S_ISREG(status.st_mode))
		return beest_fail(EINVAL, "%s is not a regular file", BEEST_QUOTE(path));
	if (status.st_uid != geteuid())
		return beest_fail(EPERM, "%s belongs to user %u, but this process runs as user %u "
				  "and needs a file of its own", BEEST_QUOTE(path),
				  (unsigned int)status.st_uid, (unsigned int)geteuid());
	if (status.st_mode & 077)
		return beest_fail(EPERM, "%s: users other than its owner may read or write it "
				  "(mode %03o); run chmod 600", BEEST_QUOTE(path),
				  (unsigned int)status.st_mode & 0777);

	return 0;
}

static int bytes_read(struct beest_secret *secret, int fd, const char *path)
{
	ssize_t got = beest_file_read(fd, secret->bytes, sizeof(secret->bytes));
	size_t size = (size_t)got;

	if (got < 0)
		return beest_fail_errno((int)got, "%s", BEEST_QUOTE(path));
	while (got < (ssize_t)sizeof(secret->bytes) && size &&
	       (secret->bytes[size - 1] == '\n' || secret->bytes[size - 1] == '\r'))
		size--;
	if (size > BEEST_SECRET_MAX)
		return beest_fail(EINVAL, "%s has more than %d bytes", BEEST_QUOTE(path),
				  BEEST_SECRET_MAX);
	if (size < BEEST_SECRET_MIN)
		return beest_fail(EINVAL, "%s has %zu bytes; a secret needs at least %d random "
				  "bytes", BEEST_QUOTE(path), size, BEEST_SECRET_MIN);
	secret->size = size;

	return 0;
}

int beest_secret_read(struct beest_secret *secret, const char *path)
{
	/* O_NONBLOCK: opening a pipe would otherwise wait for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), ret;

	if (fd < 0 && errno == ENOENT)
		return beest_fail(ENOENT, "%s: No such file or directory; all nodes of a job must "
				  "share the folder of its secret: give hartebeest serve one by "
				  "--secret-dir, or --no-secret", BEEST_QUOTE(path));
	if (fd < 0)
		return beest_fail_errno(-errno, "%s", BEEST_QUOTE(path));
	ret = file_check(fd, path);
	if (ret == 0)
		ret = bytes_read(secret, fd, path);
	close(fd);

	return ret;
}
