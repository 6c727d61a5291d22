/* SPDX-License-Identifier: MIT */
/* secret.c - see secret.h */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/process.h"
#include "lib/base/random.h"
#include "lib/base/text.h"
#include "tools/command.h"
#include "tools/secret.h"

#define BYTES 32

/* The mark of the process that made it, its id, and when it began. */
#define NAME "secret-%02x%02x%02x%02x%02x%02x%02x%02x-%d-%" PRIu64
#define NAME_SIZE 64

struct author {
	struct beest_incarnation incarnation;
	pid_t pid;
	uint64_t began;			/* see beest_process_ticks() */
};

static int report(struct out *out, const char *folder, const char *address, int err)
{
	out_error(out, "cannot make the secret in %s: %s; give --secret-dir a folder that all "
		  "nodes share; --no-secret leaves the records unsealed: then any process that "
		  "reaches %s can direct RDMA writes", folder, strerror(err), address);
	return STATUS_FAILED;
}

/* In a sticky folder, as /tmp is, no other user can remove or rename a file. */
static int check_folder(struct out *out, const char *folder)
{
	struct stat status;

	if (stat(folder, &status) < 0 || status.st_mode & S_ISVTX ||
	    !(status.st_mode & (S_IWGRP | S_IWOTH)))
		return STATUS_GOOD;
	out_error(out, "no secret in %s: users other than its owner may write there (mode %04o), "
		  "and so remove the secret: run chmod go-w %s, or give --secret-dir another "
		  "folder", folder, (unsigned int)status.st_mode & 07777, folder);
	return STATUS_FAILED;
}

/* --------------------------------------------------------------- names --- */

static void name_write(const struct author *author, char name[NAME_SIZE])
{
	const uint8_t *mark = author->incarnation.bytes;

	snprintf(name, NAME_SIZE, NAME, mark[0], mark[1], mark[2], mark[3], mark[4], mark[5],
		 mark[6], mark[7], (int)author->pid, author->began);
}

static bool name_read(const char *name, struct author *author)
{
	unsigned int mark[BEEST_PROCESS_SIZE];
	size_t i;

	memset(author, 0, sizeof(*author));
	if (sscanf(name, "secret-%2x%2x%2x%2x%2x%2x%2x%2x-%d-%" SCNu64, &mark[0], &mark[1],
		   &mark[2], &mark[3], &mark[4], &mark[5], &mark[6], &mark[7], &author->pid,
		   &author->began) != BEEST_PROCESS_SIZE + 2)
		return false;
	for (i = 0; i < BEEST_PROCESS_SIZE; i++)
		author->incarnation.bytes[i] = (uint8_t)mark[i];
	return true;
}

/*
 * Removes what is left when all processes of a job on this node are killed at once, as batch
 * systems do it: the guard of the server then has no time to.
 */
static void remove_left(const char *folder, const struct author *own)
{
	const struct dirent *entry;
	struct author author;
	DIR *list = opendir(folder);

	while (list && (entry = readdir(list)))
		if (name_read(entry->d_name, &author) &&
		    beest_process_life(&author.incarnation, author.pid, author.began,
				       &own->incarnation) == BEEST_PROCESS_DEAD)
			unlinkat(dirfd(list), entry->d_name, 0);
	if (list)
		closedir(list);
}

/* --------------------------------------------------------------- files --- */

/* Neither what is written nor, below, the bytes stay in memory: they would be in a core dump. */
static int write_bytes(int fd, const uint8_t bytes[BYTES])
{
	char text[2 * BYTES + 2];
	int i, ret;

	for (i = 0; i < BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	strcpy(text + 2 * BYTES, "\n");
	errno = ENOSPC;
	ret = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -errno;
	beest_text_clear(text, sizeof(text));
	return ret;
}

static int make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), ret;
	uint8_t bytes[BYTES];

	if (fd < 0)
		return -errno;
	ret = beest_random(bytes, sizeof(bytes));
	if (ret == 0)
		ret = write_bytes(fd, bytes);
	beest_text_clear(bytes, sizeof(bytes));
	if (close(fd) < 0 && ret == 0)
		ret = -errno;
	if (ret < 0)
		unlink(path);
	return ret;
}

static const char *home_folder(void)
{
	const char *home = getenv("HOME");
	const struct passwd *user = home && *home ? NULL : getpwuid(geteuid());

	return home && *home ? home : user ? user->pw_dir : "/";
}

/* Also makes that below the home folder. */
static int find_folder(const char *given, char folder[PATH_MAX - NAME_SIZE])
{
	char all[PATH_MAX];

	if (given && !realpath(given, all))
		return -errno;
	if (!given)
		snprintf(all, sizeof(all), "%s/" SECRET_FOLDER, home_folder());
	if (strlen(all) >= PATH_MAX - NAME_SIZE)
		return -ENAMETOOLONG;
	strcpy(folder, all);
	return given || mkdir(folder, 0700) == 0 || errno == EEXIST ? 0 : -errno;
}

int secret_make(struct out *out, const char *given, const char *address, char path[PATH_MAX])
{
	struct author own = { .pid = getpid(), .began = beest_process_ticks(getpid()) };
	char folder[PATH_MAX - NAME_SIZE] = "", name[NAME_SIZE];
	int ret;

	path[0] = '\0';
#ifndef HAVE_CRYPTO
	out_error(out, "this build has no libcrypto, so it cannot seal records: --no-secret serves "
		  "without, and then any process that reaches %s can direct RDMA writes", address);
	return STATUS_FAILED;
#endif
	ret = find_folder(given, folder);
	if (ret == 0 && check_folder(out, folder) != STATUS_GOOD)
		return STATUS_FAILED;
	if (ret == 0)
		ret = beest_process_mark(own.incarnation.bytes);
	if (ret == 0) {
		remove_left(folder, &own);
		name_write(&own, name);
		snprintf(path, PATH_MAX, "%s/%s", folder, name);
		ret = make_file(path);
	}
	if (ret == 0)
		return STATUS_GOOD;
	path[0] = '\0';
	return report(out, folder[0] ? folder : given ? given : "~/" SECRET_FOLDER, address, -ret);
}
