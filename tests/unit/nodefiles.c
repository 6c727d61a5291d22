/* SPDX-License-Identifier: MIT */
/* nodefiles.c - one process of a host fetches, others read; whatever goes wrong, each fetches */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/nodefiles.h"
#include "tests/support/pause.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#define KEY "hb1/job/fence/a/0123456789abcdef"

static char root[SCRATCH_SIZE], folder[SCRATCH_SIZE + 32];
static struct beest_incarnation self;

/* Two processes, as far as their files are concerned. */
static struct beest_nodefiles one, two;
static int swept_one, swept_two;

static int setup(void **state)
{
	(void)state;
	scratch_folder(root, "nodefiles");
	snprintf(folder, sizeof(folder), "%s/hartebeest-%u", root, (unsigned int)geteuid());
	beest_nodefiles_root = root;
	beest_process_mark(self.bytes);
	swept_one = swept_two = 0;
	one = (struct beest_nodefiles){ .author = &self, .swept = &swept_one };
	two = (struct beest_nodefiles){ .author = &self, .swept = &swept_two };
	return 0;
}

/* Also removes what is in the folder. */
static int files_in_folder(bool remove)
{
	DIR *list = opendir(folder);
	const struct dirent *entry;
	int count = 0;

	while (list && (entry = readdir(list)))
		if (entry->d_name[0] != '.') {
			count++;
			if (remove && unlinkat(dirfd(list), entry->d_name, 0) < 0)
				unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR);
		}
	if (list)
		closedir(list);
	return count;
}

static int teardown(void **state)
{
	(void)state;
	beest_nodefiles_end(&one);
	beest_nodefiles_end(&two);
	files_in_folder(true);
	if (rmdir(folder) < 0)
		unlink(folder);
	rmdir(root);
	beest_nodefiles_root = NULL;
	return 0;
}

/* The path of the only file. */
static const char *file_path(void)
{
	static char path[SCRATCH_SIZE + 300];
	DIR *list = opendir(folder);
	const struct dirent *entry;

	path[0] = '\0';
	while (list && (entry = readdir(list)))
		if (entry->d_name[0] != '.')
			snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
	closedir(list);
	assert_true(path[0]);
	return path;
}

static enum beest_nodefile look(struct beest_nodefiles *files, const char *expected)
{
	uint8_t *bytes = NULL;
	size_t size = 0;
	enum beest_nodefile found = beest_nodefiles_look(files, KEY, &bytes, &size);

	if (found == BEEST_NODEFILE_THERE) {
		assert_int_equal(size, strlen(expected));
		assert_memory_equal(bytes, expected, size);
		free(bytes);
	}
	return found;
}

static void store(struct beest_nodefiles *files, const char *text)
{
	beest_nodefiles_store(files, KEY, (const uint8_t *)text, strlen(text));
}

static void one_fetches_and_others_read(void **state)
{
	struct stat status;

	(void)state;
	assert_int_equal(look(&one, ""), BEEST_NODEFILE_OWN);
	assert_int_equal(look(&two, ""), BEEST_NODEFILE_AWAITED);
	assert_int_equal(look(&one, ""), BEEST_NODEFILE_OWN);
	store(&two, "not its file");
	assert_int_equal(look(&two, ""), BEEST_NODEFILE_AWAITED);
	store(&one, "a chunk");
	assert_int_equal(look(&two, "a chunk"), BEEST_NODEFILE_THERE);
	assert_int_equal(stat(folder, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0700);
	assert_int_equal(stat(file_path(), &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	beest_nodefiles_end(&two);
	assert_int_equal(files_in_folder(false), 1);
	beest_nodefiles_end(&one);
	assert_int_equal(files_in_folder(false), 0);
	assert_int_equal(look(&two, ""), BEEST_NODEFILE_OWN);
}

/* Each waits for a moment only, and makes no other wait. */
static void one_that_does_not_fetch(void **state)
{
	int i;

	(void)state;
	assert_int_equal(look(&one, ""), BEEST_NODEFILE_OWN);
	for (i = 0; look(&two, "") == BEEST_NODEFILE_AWAITED; i++)
		pause_ms(1);
	assert_int_equal(look(&two, ""), BEEST_NODEFILE_OWN);
	store(&two, "by the second");
	store(&one, "late");
	assert_int_equal(look(&two, "late"), BEEST_NODEFILE_THERE);
}

/* A process that makes a file, and is killed then. */
static void killed_reader(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		self.bytes[BEEST_PROCESS_SIZE - 1] ^= 1;
		look(&one, "");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(files_in_folder(false), 1);
}

static void what_a_killed_reader_leaves(void **state)
{
	uint8_t *bytes = NULL;
	size_t size;

	(void)state;
	killed_reader();
	/* The next process of this user removes it, whatever it needs itself. */
	assert_int_equal(beest_nodefiles_look(&two, KEY "x", &bytes, &size), BEEST_NODEFILE_OWN);
	assert_int_equal(files_in_folder(false), 1);
	beest_nodefiles_end(&two);
	assert_int_equal(files_in_folder(false), 0);

	/* One that runs already fetches after a moment, and removes it, too. */
	killed_reader();
	while (look(&two, "") == BEEST_NODEFILE_AWAITED)
		pause_ms(1);
	assert_int_equal(look(&two, ""), BEEST_NODEFILE_OWN);
	store(&two, "again");
	assert_int_equal(files_in_folder(false), 1);
	beest_nodefiles_end(&two);
	assert_int_equal(files_in_folder(false), 0);
}

/* ------------------------------------------------------------------ wrong folders --- */

static void folder_of_all(void)
{
	mkdir(folder, 0755);
	chmod(folder, 0777);
}

static void folder_elsewhere(void)
{
	if (symlink("/tmp", folder) < 0)
		fail();
}

static void folder_that_is_a_file(void)
{
	close(open(folder, O_WRONLY | O_CREAT, 0600));
}

static void folder_of_another(void)
{
	mkdir(folder, 0700);
	if (geteuid() == 0 && chown(folder, 65534, 65534) < 0)
		fail();
	if (geteuid() != 0)
		chmod(folder, 0770);
}

static void no_root(void)
{
	beest_nodefiles_root = "/nonexistent";
}

static void no_folder_at_all(void)
{
	beest_nodefiles_root = NULL;
}

/* A folder that others may change is not used. */
static void folders_that_are_wrong(void **state)
{
	static void (*const rows[])(void) = {
		folder_of_all, folder_elsewhere, folder_that_is_a_file, folder_of_another, no_root,
		no_folder_at_all,
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++) {
		setup(state);
		rows[i]();
		assert_int_equal(look(&one, ""), BEEST_NODEFILE_OWN);
		assert_int_equal(look(&two, ""), BEEST_NODEFILE_OWN);
		store(&one, "a chunk");
		assert_int_equal(look(&two, ""), BEEST_NODEFILE_OWN);
		assert_int_equal(files_in_folder(false) && i != 1, 0);
		unlink(folder);
		teardown(state);
	}
	setup(state);
}

/* -------------------------------------------------------------------- wrong files --- */

static void file_elsewhere(const char *path)
{
	unlink(path);
	if (symlink("/etc/passwd", path) < 0)
		fail();
}

static void file_that_is_a_folder(const char *path)
{
	unlink(path);
	mkdir(path, 0700);
}

/* Nobody writes to it: whoever opened it for reading would wait for ever. */
static void file_that_is_a_pipe(const char *path)
{
	unlink(path);
	mkfifo(path, 0600);
}

static void file_that_is_empty(const char *path)
{
	if (truncate(path, 0) < 0)
		fail();
}

static void file_that_is_cut(const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0 || truncate(path, status.st_size - 1) < 0)
		fail();
}

static void file_that_is_longer(const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0 || truncate(path, status.st_size + 1) < 0)
		fail();
}

static void file_that_is_huge(const char *path)
{
	if (truncate(path, 4 << 20) < 0)
		fail();
}

static void files_that_are_wrong(void **state)
{
	static void (*const rows[])(const char *path) = {
		file_elsewhere, file_that_is_a_folder, file_that_is_a_pipe, file_that_is_empty,
		file_that_is_cut, file_that_is_longer, file_that_is_huge,
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		assert_int_equal(look(&one, ""), BEEST_NODEFILE_OWN);
		store(&one, "a chunk");
		rows[i](file_path());
		assert_int_equal(look(&two, ""), BEEST_NODEFILE_OWN);
		beest_nodefiles_end(&one);
		files_in_folder(true);
	}
}

/* ------------------------------------------------------------------------- memory --- */

static void no_room(void **state)
{
	struct rlimit limit, small;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = limit;
	for (small.rlim_cur = 0; small.rlim_cur < 200; small.rlim_cur += 40) {
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		assert_int_equal(look(&one, ""), BEEST_NODEFILE_OWN);
		store(&one, "a chunk of which only the beginning has room, and then not even that, "
		      "so that nothing of it should stay in the folder of this user");
		assert_int_equal(files_in_folder(false), 0);
		beest_nodefiles_end(&one);
	}
	setrlimit(RLIMIT_FSIZE, &limit);
	signal(SIGXFSZ, SIG_DFL);
}

/* Too much is there, by processes that live. */
static void a_folder_that_is_full(void **state)
{
	uint8_t *bytes = NULL;
	size_t size;

	(void)state;
	assert_int_equal(look(&one, ""), BEEST_NODEFILE_OWN);
	if (truncate(file_path(), 65 << 20) < 0)
		fail();
	assert_int_equal(beest_nodefiles_look(&two, KEY "x", &bytes, &size), BEEST_NODEFILE_OWN);
	assert_int_equal(files_in_folder(false), 1);
	beest_nodefiles_end(&two);
	beest_nodefiles_end(&one);
	assert_int_equal(beest_nodefiles_look(&two, KEY "x", &bytes, &size), BEEST_NODEFILE_OWN);
	assert_int_equal(files_in_folder(false), 0);
}

#define ALONE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALONE(one_fetches_and_others_read),
		ALONE(one_that_does_not_fetch),
		ALONE(what_a_killed_reader_leaves),
		ALONE(folders_that_are_wrong),
		ALONE(files_that_are_wrong),
		ALONE(no_room),
		ALONE(a_folder_that_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
