/* SPDX-License-Identifier: MIT */
/* file.c - see file.h */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/reserve.h"

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

bool beest_file_line(const char *path, char *line, size_t size)
{
	FILE *file = BEEST_RESERVED(fopen(path, "re"));
	bool got;

	if (!file)
		return false;

	got = fgets(line, (int)size, file) != NULL;
	fclose(file);
	line[got ? strcspn(line, "\n") : 0] = '\0';
	return line[0] != '\0';
}
