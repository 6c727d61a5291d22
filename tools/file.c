/* SPDX-License-Identifier: MIT */
/* file.c - see file.h */
#include "config.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "tools/file.h"

#define PATH_SIZE 4096

const char *file_root = "";

static BEEST_PRINTF(2, 0) void path_make(char path[PATH_SIZE], const char *format, va_list args)
{
	int size = snprintf(path, PATH_SIZE, "%s", file_root);

	if (size < PATH_SIZE)
		vsnprintf(path + size, (size_t)(PATH_SIZE - size), format, args);
}

bool file_line(char *line, size_t size, const char *path, ...)
{
	char full[PATH_SIZE];
	va_list args;

	va_start(args, path);
	path_make(full, path, args);
	va_end(args);

	line[0] = '\0';
	return beest_file_line(line, size, "%s", full);
}

static void path_plain(char full[PATH_SIZE], const char *path)
{
	snprintf(full, PATH_SIZE, "%s%s", file_root, path);
}

FILE *file_open(const char *path)
{
	char full[PATH_SIZE];

	path_plain(full, path);
	return fopen(full, "re");
}

DIR *file_folder(const char *path)
{
	char full[PATH_SIZE];

	path_plain(full, path);
	return opendir(full);
}

bool file_may(const char *path, int mode)
{
	char full[PATH_SIZE];

	path_plain(full, path);
	return access(full, mode) == 0;
}

bool file_opens(const char *path)
{
	char full[PATH_SIZE];
	int fd;

	path_plain(full, path);
	fd = open(full, O_RDWR | O_CLOEXEC);
	return fd >= 0 && close(fd) == 0;
}
