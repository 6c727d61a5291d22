/* SPDX-License-Identifier: MIT */
/* file.c - see file.h */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/file.h"

bool file_line(char *line, size_t size, const char *path, ...)
{
	char full[4096];
	va_list args;
	FILE *file;

	va_start(args, path);
	vsnprintf(full, sizeof(full), path, args);
	va_end(args);

	line[0] = '\0';
	file = fopen(full, "re");
	if (!file)
		return false;
	if (!fgets(line, (int)size, file))
		line[0] = '\0';
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	return line[0] != '\0';
}
