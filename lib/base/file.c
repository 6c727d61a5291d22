/* SPDX-License-Identifier: MIT */
/* file.c - see file.h */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/file.h"

ssize_t beest_file_read(int fd, void *buffer, size_t size)
{
	size_t used = 0;
	ssize_t got;

	while (used < size) {
		got = read(fd, (char *)buffer + used, size - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return beest_error_errno();
		if (got == 0)
			break;
		used += (size_t)got;
	}
	return (ssize_t)used;
}

bool beest_file_line(char *line, size_t size, const char *path, ...)
{
	char whole[PATH_MAX];
	FILE *file = NULL;
	va_list args;
	bool got;

	va_start(args, path);
	if (vsnprintf(whole, sizeof(whole), path, args) < (int)sizeof(whole))
		file = fopen(whole, "re");
	va_end(args);
	if (!file)
		return false;

	got = fgets(line, (int)size, file) != NULL;
	fclose(file);
	line[got ? strcspn(line, "\n") : 0] = '\0';
	return line[0] != '\0';
}

/*
 * In the direction that fails, as glibc does for set-user-ID programs: to read or write gives
 * EBADF, as with a closed descriptor, so what a program prints is not lost without an error.
 */
int beest_file_fill_streams(void)
{
	int fd = STDIN_FILENO, opened;

	while (fd <= STDERR_FILENO) {
		if (fcntl(fd, F_GETFD) >= 0) {
			fd++;
			continue;
		}
		opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
		if (opened < 0)
			return beest_fail_errno(-errno, "descriptor %d is closed, and /dev/null "
						"cannot take its place", fd);
		if (opened != fd)
			close(opened);		/* another thread has taken its place */
	}
	return 0;
}
