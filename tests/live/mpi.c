/* SPDX-License-Identifier: MIT */
/*
 * mpi.c - the MPI examples and hartebeest mesh under a real mpirun, on a real device
 *
 * Uses Open MPI and MPICH, which Debian installs side by side, or the one that mpicc and mpirun
 * belong to.  The test compiles the examples itself, since the library's build needs no MPI.
 *
 *	mpi compile	only compiles them
 *
 * BEEST_TEST_MPI names a folder for the compiled examples.  Programs that it already has are not
 * compiled again, which would take long on an emulated processor.
 */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/memcached.h"
#include "tests/support/ranks.h"
#include "tests/support/talk.h"
#include "tests/support/unit.h"

#define SECONDS 200		/* limit of a run; ends a deadlock */

enum { OPENMPI, MPICH };

/* Commands have the suffix, or are the plain ones if mpirun --version contains the version. */
static const struct mpi {
	const char *suffix, *version, *options;
	int size;			/* ranks; those of MPICH spin while they wait */
} mpis[] = {
	[OPENMPI] = { "openmpi", "Open", "--oversubscribe --mca pml ob1 --mca btl self,vader", 3 },
	[MPICH] = { "mpich", "HYDRA", "", 2 },
};

static const struct mpi *mpi;
static char compiler[32], launcher[32];

static bool mpi_works(const char *suffix, const char *version)
{
	char command[256];

	snprintf(compiler, sizeof(compiler), "mpicc%s", suffix);
	snprintf(launcher, sizeof(launcher), "mpirun%s", suffix);
	snprintf(command, sizeof(command), "%s --version >/dev/null 2>&1 && "
		 "%s --version 2>/dev/null | grep -q '%s'", compiler, launcher, version);
	return system(command) == 0;
}

/* If this MPI is not installed, the test is skipped. */
static int mpi_choose(void **state)
{
	char suffix[16];

	mpi = *state;
	snprintf(suffix, sizeof(suffix), ".%s", mpi->suffix);
	if (!mpi_works(suffix, mpi->version) && !mpi_works("", mpi->version))
		mpi = NULL;
	return 0;
}

static void mpi_need(void)
{
	if (!mpi)
		skip();
}

static struct cache *cache;
static char own_folder[] = "/tmp/live-mpi-XXXXXX";
static const char *folder;		/* of the compiled examples */

static int setup(void **state)
{
	(void)state;
	cache = cache_start(NULL);
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	setenv("HARTEBEEST_TIMEOUT", "60s", 1);
	/* MPICH itself uses shared memory, too, and leaves the device to the examples. */
	setenv("UCX_TLS", "self,sm", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	folder = getenv("BEEST_TEST_MPI");
	if (!folder)
		folder = mkdtemp(own_folder);
	return folder ? 0 : -1;
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	cache_end(cache);
	if (folder != own_folder)
		return 0;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

static const char *program_of(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s.%s", folder, name, mpi->suffix);
	return path;
}

static int compile(const char *name)
{
	const char *program = program_of(name);
	char command[2048];

	if (access(program, X_OK) == 0)
		return 0;
	snprintf(command, sizeof(command), "%s -std=gnu99 -I%s/include -o %s "
		 "%s/examples/%s.c -Llib/.libs -Wl,-rpath,$PWD/lib/.libs -lhartebeest -libverbs",
		 compiler, SOURCES, program, SOURCES, name);
	return system(command);
}

/* Each rank must read what the rank before it wrote. */
static void run(const char *name, int size)
{
	char command[1024], output[16384], line[64];
	size_t length;
	FILE *program;
	int rank;

	snprintf(command, sizeof(command), "timeout %d %s %s -n %d %s", SECONDS, launcher,
		 mpi->options, size, program_of(name));
	program = popen(command, "r");
	assert_non_null(program);
	length = fread(output, 1, sizeof(output) - 1, program);
	output[length] = '\0';
	if (pclose(program) != 0) {
		print_error("%s printed:\n%s", command, output);
		fail();
	}
	for (rank = 0; rank < size; rank++) {
		snprintf(line, sizeof(line), "rank %d of %d: rank %d wrote %d", rank, size,
			 (rank + size - 1) % size, (rank + size - 1) % size);
		if (strstr(output, line))
			continue;
		print_error("'%s' is missing; %s printed:\n%s", line, command, output);
		fail();
	}
}

static void through_memcached(void **state)
{
	(void)state;
	mpi_need();
	assert_int_equal(compile("mpi"), 0);
	run("mpi", mpi->size);
}

static void by_its_own_gather(void **state)
{
	(void)state;
	mpi_need();
	assert_int_equal(compile("mpi-mesh"), 0);
	run("mpi-mesh", mpi->size);
}

/* hartebeest(1) does not call MPI; mpirun only gives it a rank. */
static void a_mesh(void **state)
{
	static struct talk talk;
	char command[1024];

	(void)state;
	mpi_need();
	snprintf(command, sizeof(command), "exec timeout %d %s %s -n 3 '%s' mesh -c 10", SECONDS,
		 launcher, mpi->options, talk_tool());
	if (TALK(&talk, "/bin/sh", "-c", command) != 0)
		fail_msg("mpirun ended with %d:\n%s%s", talk.status, talk.out, talk.err);
	talk_says(&talk, "mesh of 3 ranks");
	/* mpirun provides a terminal, so the words before this are coloured. */
	talk_says(&talk, "pairs       6 of 6 work");
}

static int compile_all(void)
{
	size_t i;
	void *state;

	folder = getenv("BEEST_TEST_MPI");
	for (i = 0; folder && i < BEEST_COUNT(mpis); i++) {
		state = (void *)&mpis[i];
		mpi_choose(&state);
		if (mpi && (compile("mpi") != 0 || compile("mpi-mesh") != 0))
			return 1;
	}
	return folder ? 0 : 2;
}

#define TEST(function, i) \
	{ #function " (" #i ")", function, mpi_choose, NULL, (void *)&mpis[i] }

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(through_memcached, OPENMPI), TEST(through_memcached, MPICH),
		TEST(by_its_own_gather, OPENMPI), TEST(by_its_own_gather, MPICH),
		TEST(a_mesh, OPENMPI), TEST(a_mesh, MPICH),
	};

	if (argc == 2 && strcmp(argv[1], "compile") == 0)
		return compile_all();
	ranks_need_device();
	cache_need();
	if (system("mpicc --version >/dev/null 2>&1 && mpirun --version >/dev/null 2>&1") != 0) {
		fputs("mpicc or mpirun is not installed\n", stderr);
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
