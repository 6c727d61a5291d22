/* SPDX-License-Identifier: MIT */
/* nodefiles.c - see nodefiles.h */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/nodefiles.h"

/* A process that has made a file, and has not filled it so long after, is not waited for. */
#define PATIENCE (250 * BEEST_MS)

/* A file of a process of which nothing is known is a leftover then. */
#define LEFTOVER (60 * BEEST_SECOND)

/* Whatever jobs do and however they end, their files take no more. */
#define ALL_MOST (64 * 1024 * 1024)
#define FILE_MOST (2 * 1024 * 1024)

__thread const char *beest_nodefiles_root = "/dev/shm";

/* The beginning of each file, for processes of this host. */
struct head {
	struct beest_incarnation author;
	uint64_t began;			/* see beest_process_ticks() */
	int64_t made;			/* by beest_process_clock() */
	uint64_t size;			/* of what follows; 0: it is not there yet */
	int32_t pid;
	uint32_t zero;
};

#define NAME_SIZE 17

static void name_write(uint64_t name, char text[NAME_SIZE])
{
	snprintf(text, NAME_SIZE, "%016" PRIx64, name);
}

static struct head head_make(const struct beest_nodefiles *files, size_t size)
{
	const struct head head = {
		.author = *files->author, .began = files->began,
		.made = beest_process_clock(), .size = size, .pid = getpid(),
	};

	return head;
}

/* ------------------------------------------------------------------------ the folder --- */

static int path_open(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* -1: none, or not the user's own alone. */
static int folder_open(void)
{
	char path[64];
	struct stat status;
	int fd;

	if (!beest_nodefiles_root ||
	    snprintf(path, sizeof(path), "%s/hartebeest-%u", beest_nodefiles_root,
		     (unsigned int)geteuid()) >= (int)sizeof(path))
		return -1;
	fd = path_open(path);
	if (fd < 0 && errno == ENOENT) {
		mkdir(path, 0700);	/* or another process does */
		fd = path_open(path);
	}
	if (fd < 0)
		return -1;
	if (fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
	    !(status.st_mode & (S_IRWXG | S_IRWXO)))
		return fd;
	close(fd);

	return -1;
}

static int file_open(int folder, const char *name, int flags)
{
	return openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
}

/* Its size without the head; -1: it is no file of this kind. */
static int64_t head_read(int fd, struct head *head)
{
	struct stat status;

	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
	    beest_file_read(fd, head, sizeof(*head)) != (ssize_t)sizeof(*head))
		return -1;

	return (int64_t)status.st_size - (int64_t)sizeof(*head);
}

/* Its author is dead, or nothing is known of it and it is old. */
static bool head_is_leftover(const struct beest_nodefiles *files, const struct head *head)
{
	const int64_t age = beest_process_clock() - head->made;
	const enum beest_process_life life = beest_process_life(&head->author, head->pid,
								head->began, files->author);

	return life == BEEST_PROCESS_DEAD ||
	       (life == BEEST_PROCESS_UNKNOWN && (age < 0 || age > LEFTOVER));
}

/* Removes what killed processes have left.  Returns the bytes of what stays. */
static int64_t folder_sweep(const struct beest_nodefiles *files)
{
	const int fd = openat(files->folder, ".", O_RDONLY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	struct head head;
	int64_t size, sum = 0;
	int file;

	while (list && (entry = readdir(list))) {
		if (entry->d_name[0] == '.')
			continue;
		file = file_open(files->folder, entry->d_name, O_RDONLY);
		size = file < 0 ? -1 : head_read(file, &head);
		if (size < 0 || head_is_leftover(files, &head))
			unlinkat(files->folder, entry->d_name, 0);
		else
			sum += size;
		if (file >= 0)
			close(file);
	}
	if (list)
		closedir(list);
	else if (fd >= 0)
		close(fd);

	return sum;
}

/* Opens the folder and removes what was left there.  False: there is none. */
static bool files_begin(struct beest_nodefiles *files)
{
	int swept = __atomic_load_n(files->swept, __ATOMIC_RELAXED);

	if (files->folder)
		return files->folder > 0;
	files->folder = swept < 0 ? -1 : folder_open();
	if (!files->began)
		files->began = beest_process_ticks(getpid());
	if (files->folder < 0 || swept)
		return files->folder > 0;
	swept = folder_sweep(files) > ALL_MOST ? -1 : 1;
	__atomic_store_n(files->swept, swept, __ATOMIC_RELAXED);
	if (swept < 0) {
		beest_nodefiles_rest(files);
		files->folder = -1;
	}

	return files->folder > 0;
}

void beest_nodefiles_rest(struct beest_nodefiles *files)
{
	if (files->folder > 0)
		close(files->folder);
	files->folder = 0;
}

/* -------------------------------------------------------------------------- the files --- */

static bool file_is_own(const struct beest_nodefiles *files, uint64_t name)
{
	size_t i = 0;

	while (i < files->count && files->names[i] != name)
		i++;

	return i < files->count;
}

static bool write_all(int fd, const void *bytes, size_t size)
{
	return write(fd, bytes, size) == (ssize_t)size;
}

/* False: it is there already, or cannot be made. */
static bool file_make(struct beest_nodefiles *files, uint64_t name, const char *text)
{
	uint64_t *names = realloc(files->names, (files->count + 1) * sizeof(*names));
	const struct head head = head_make(files, 0);
	int fd;
	bool made;

	if (!names)
		return false;
	files->names = names;
	fd = file_open(files->folder, text, O_WRONLY | O_CREAT | O_EXCL);
	if (fd < 0)
		return false;
	made = write_all(fd, &head, sizeof(head));
	close(fd);
	if (made)
		files->names[files->count++] = name;
	else
		unlinkat(files->folder, text, 0);

	return made;
}

static enum beest_nodefile file_read(const struct beest_nodefiles *files, const char *text,
				     uint8_t **bytes, size_t *size)
{
	const int fd = file_open(files->folder, text, O_RDONLY);
	enum beest_nodefile found = BEEST_NODEFILE_OWN;
	struct head head;
	int64_t there = fd < 0 ? -1 : head_read(fd, &head);

	if (there == 0 && beest_process_clock() - head.made < PATIENCE)
		found = BEEST_NODEFILE_AWAITED;
	else if (there == 0 && head_is_leftover(files, &head))
		unlinkat(files->folder, text, 0);
	else if (there > 0 && there <= FILE_MOST && head.size == (uint64_t)there) {
		*size = (size_t)there;
		*bytes = malloc(*size);
		if (*bytes && beest_file_read(fd, *bytes, *size) == (ssize_t)*size)
			found = BEEST_NODEFILE_THERE;
		else
			free(*bytes);
	}
	if (fd >= 0)
		close(fd);

	return found;
}

enum beest_nodefile beest_nodefiles_look(struct beest_nodefiles *files, const char *key,
					 uint8_t **bytes, size_t *size)
{
	const uint64_t name = beest_hash_text(key);
	char text[NAME_SIZE];

	if (file_is_own(files, name) || !files_begin(files))
		return BEEST_NODEFILE_OWN;
	name_write(name, text);
	if (file_make(files, name, text))
		return BEEST_NODEFILE_OWN;

	return file_read(files, text, bytes, size);
}

bool beest_nodefiles_made(const struct beest_nodefiles *files, const char *key)
{
	return file_is_own(files, beest_hash_text(key));
}

void beest_nodefiles_store(struct beest_nodefiles *files, const char *key, const uint8_t *bytes,
			   size_t size)
{
	const uint64_t name = beest_hash_text(key);
	const struct head head = head_make(files, size);
	char text[NAME_SIZE];
	int fd;

	if (size > FILE_MOST || !file_is_own(files, name) || !files_begin(files))
		return;
	name_write(name, text);
	fd = file_open(files->folder, text, O_WRONLY);
	/* The head last: then all is there. */
	if (fd >= 0 &&
	    (lseek(fd, sizeof(head), SEEK_SET) < 0 || !write_all(fd, bytes, size) ||
	     lseek(fd, 0, SEEK_SET) < 0 || !write_all(fd, &head, sizeof(head))))
		unlinkat(files->folder, text, 0);
	if (fd >= 0)
		close(fd);
}

void beest_nodefiles_end(struct beest_nodefiles *files)
{
	char text[NAME_SIZE];

	if (files->count)
		files_begin(files);
	while (files->count) {
		name_write(files->names[--files->count], text);
		unlinkat(files->folder, text, 0);
	}
	free(files->names);
	files->names = NULL;
	beest_nodefiles_rest(files);
}
