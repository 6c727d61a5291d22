/* SPDX-License-Identifier: MIT */
/* login.c - see login.h */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/text.h"
#include "lib/kv/login.h"

#define PASSWORD_MAX 1023
#define FILE_OPTION "exchange.password_file"

/* Not an error: on some clusters every file of a share has such a mode. */
static void mode_warn(const char *path, int fd, const struct beest_log *log)
{
	struct stat status;

	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_mode & 077)
		beest_log(log, BEEST_LOG_WARN, FILE_OPTION " %s: users other than its owner may "
			  "read or write it (mode %03o)", path,
			  (unsigned int)status.st_mode & 0777);
}

/* Keeps the first line, without its end. */
static int password_check(const char *path, char *bytes, ssize_t size)
{
	size_t length;

	if (size < 0)
		return beest_fail_errno((int)size, "%s", BEEST_QUOTE(path));

	bytes[size] = '\0';
	length = strcspn(bytes, "\r\n");
	if (length == 0)
		return beest_fail(EINVAL, "%s: its first line is empty", BEEST_QUOTE(path));
	if (length > PASSWORD_MAX)
		return beest_fail(EINVAL, "%s: its first line has more than %d bytes",
				  BEEST_QUOTE(path), PASSWORD_MAX);
	if (bytes[length] == '\0' && length < (size_t)size)
		return beest_fail(EINVAL, "%s: byte %zu is NUL", BEEST_QUOTE(path), length + 1);

	memset(bytes + length, 0, (size_t)size - length);
	return 0;
}

static int password_read(const char *path, char **password, const struct beest_log *log)
{
	char *bytes = calloc(1, PASSWORD_MAX + 2);
	int fd, ret;

	if (!bytes)
		return beest_fail(ENOMEM, "no memory for a password");

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0) {
		ret = beest_fail_errno(-errno, "%s", BEEST_QUOTE(path));
	} else {
		mode_warn(path, fd, log);
		ret = password_check(path, bytes, beest_file_read(fd, bytes, PASSWORD_MAX + 1));
		close(fd);
	}
	if (ret == 0)
		*password = bytes;
	else
		beest_text_wipe(bytes);

	return ret;
}

static int text_copy(char **to, const char *from)
{
	*to = strdup(from);

	return *to ? 0 : beest_fail(ENOMEM, "no memory for a login");
}

int beest_login_read(struct beest_login *login, const char *user, const char *password_file,
		     const char *password, const struct beest_log *log)
{
	int ret;

	memset(login, 0, sizeof(*login));
	if (user && !password_file && !password)
		return beest_fail(EINVAL, "exchange.user '%s' has no password: set "
				  "HARTEBEEST_EXC_PASSWORD_FILE (option " FILE_OPTION ")",
				  user);
	if (!user && (password_file || password))
		return beest_fail(EINVAL, "a password without a user: set HARTEBEEST_EXC_USER "
				  "(option exchange.user)");
	if (!user)
		return 0;

	ret = text_copy(&login->user, user);
	if (ret == 0 && password_file)
		ret = password_read(password_file, &login->password, log);
	else if (ret == 0)
		ret = text_copy(&login->password, password);
	if (ret < 0)
		beest_login_free(login);

	return ret;
}

void beest_login_free(struct beest_login *login)
{
	beest_text_wipe(login->user);
	beest_text_wipe(login->password);
	memset(login, 0, sizeof(*login));
}
