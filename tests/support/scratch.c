/* SPDX-License-Identifier: MIT */
/* scratch.c - see scratch.h */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/macro.h"
#include "tests/support/scratch.h"

#define PLACE_SIZE 48		/* leaves room for a name in SCRATCH_SIZE */
#define TEMPLATE "-XXXXXX"

static char place[PLACE_SIZE];

static void end(const char *what, const char *path)
{
	fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
	exit(1);
}

/* True if all users may enter @folder. */
static bool is_open(const char *folder)
{
	char path[PATH_MAX], *end;
	struct stat status;

	snprintf(path, sizeof(path), "%s", folder);
	for (end = path + strlen(path); end; end = strrchr(path, '/')) {
		*end = '\0';
		if (*path && (stat(path, &status) < 0 || !(status.st_mode & S_IXOTH)))
			return false;
	}
	return true;
}

static bool is_usable(const char *folder)
{
	struct stat status;

	return folder && folder[0] == '/' && stat(folder, &status) == 0 &&
	       S_ISDIR(status.st_mode) && access(folder, W_OK | X_OK) == 0;
}

/* Tests that run as root start processes of other users. */
static bool is_good(const char *folder)
{
	return is_usable(folder) && strlen(folder) < PLACE_SIZE &&
	       (geteuid() != 0 || is_open(folder));
}

static void choose(const char *folder)
{
	int fd = -1;

	if (strlen(folder) >= sizeof(place))
		fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);	/* stays open */
	if (fd >= 0)
		snprintf(place, sizeof(place), "/proc/%d/fd/%d", (int)getpid(), fd);
	else
		snprintf(place, sizeof(place), "%s", folder);
}

void scratch_begin(void)
{
	const char *const folders[] = { getenv("TMPDIR"), "/tmp", "/var/tmp" };
	size_t i;

	for (i = 0; !place[0] && i < BEEST_COUNT(folders); i++)
		if (is_good(folders[i]))
			choose(folders[i]);
	for (i = 0; !place[0] && i < BEEST_COUNT(folders); i++)
		if (is_usable(folders[i]))
			choose(folders[i]);
	if (place[0])
		setenv("TMPDIR", place, 1);
}

const char *scratch(void)
{
	scratch_begin();
	if (place[0])
		return place;
	fprintf(stderr, "no folder for temporary files: TMPDIR, /tmp and /var/tmp are closed\n");
	exit(77);
}

static void make_template(char path[SCRATCH_SIZE], const char *name)
{
	int size = snprintf(path, SCRATCH_SIZE, "%s/%s" TEMPLATE, scratch(), name);

	if (size >= SCRATCH_SIZE)
		abort();
}

void scratch_folder(char path[SCRATCH_SIZE], const char *name)
{
	make_template(path, name);
	if (!mkdtemp(path))
		end("cannot make", path);
}

int scratch_file(char path[SCRATCH_SIZE], const char *name)
{
	int fd;

	make_template(path, name);
	fd = mkstemp(path);
	if (fd < 0)
		end("cannot make", path);
	return fd;
}

void scratch_text(char path[SCRATCH_SIZE], const char *name, const char *text)
{
	int fd = scratch_file(path, name);

	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		end("cannot write", path);
	close(fd);
}
