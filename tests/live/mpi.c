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
 *
 * promise: hartebeest_mesh(3)
 */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/memcached.h"
#include "tests/support/program.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/talk.h"
#include "tests/support/unit.h"

enum { OPENMPI, MPICH };

/* Commands have the suffix, or are the plain ones if mpirun --version contains the version. */
static const struct mpi {
	const char *suffix, *version, *options;
} mpis[] = {
	[OPENMPI] = { "openmpi", "Open", "--oversubscribe --mca pml ob1 --mca btl self,vader" },
	[MPICH] = { "mpich", "HYDRA", "" },
};

/*
 * Each rank of Open MPI takes 1.5 s of an emulated processor to start.  Those of MPICH spin while
 * they wait for each other.  So the long run alone has all rows.
 */
static const struct run {
	int mpi;
	const char *example;
	int ranks;
	const char *says;	/* each of them: '#' is the rank, '@' the one before it */
	bool costly;
} runs[] = {
	{ OPENMPI, "mpi", 2, .says = "rank # of 2: rank @ wrote @" },
	{ OPENMPI, "mpi", 3, .says = "rank # of 3: rank @ wrote @" },
	{ OPENMPI, "mpi-mesh", 2, .says = "rank # of 2: rank @ wrote @ (success)" },
	{ OPENMPI, "mpi-mesh", 4, .says = "rank # of 4: rank @ wrote @ (success)", .costly = true },
	{ OPENMPI, "mpi-bytes", 2, .says = "rank # of 2: rank @ wrote @ (success)",
	  .costly = true },
	{ MPICH, "mpi", 2, .says = "rank # of 2: rank @ wrote @" },
	{ MPICH, "mpi-mesh", 3, .says = "rank # of 3: rank @ wrote @ (success)", .costly = true },
	{ MPICH, "mpi-bytes", 3, .says = "rank # of 3: rank @ wrote @ (success)" },
};

static const struct mpi *mpi;
static char compiler[32], launcher[32];

static bool mpi_works(const char *suffix, const char *version)
{
	char command[256];

	snprintf(compiler, sizeof(compiler), "mpicc%s", suffix);
	snprintf(launcher, sizeof(launcher), "mpirun%s", suffix);
	snprintf(command, sizeof(command), "command -v %s >/dev/null && "
		 "%s --version 2>/dev/null | grep -q '%s'", compiler, launcher, version);
	return system(command) == 0;
}

static bool mpi_choose(const struct mpi *wanted)
{
	char suffix[16];

	if (mpi == wanted)
		return true;
	mpi = wanted;
	snprintf(suffix, sizeof(suffix), ".%s", mpi->suffix);
	if (!mpi_works(suffix, mpi->version) && !mpi_works("", mpi->version))
		mpi = NULL;
	return mpi != NULL;
}

/* If this MPI is not installed, the test is skipped. */
static void mpi_need(const struct mpi *wanted)
{
	if (!mpi_choose(wanted))
		skip();
}

static struct cache *cache;
static char own_folder[SCRATCH_SIZE];
static const char *folder;		/* of the compiled examples */

static int setup(void **state)
{
	(void)state;
	cache = cache_start(NULL);
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	setenv("HARTEBEEST_TIMEOUT", RANKS_PATIENCE, 1);
	/* If a run hangs, the last line of each rank says what it waits for. */
	setenv("HARTEBEEST_LOG", "debug", 1);
	/* MPICH itself uses shared memory, too, and leaves the device to the examples. */
	setenv("UCX_TLS", "self,sm", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	folder = getenv("BEEST_TEST_MPI");
	if (folder)
		return 0;
	scratch_folder(own_folder, "live-mpi");
	folder = own_folder;
	return 0;
}

static int teardown(void **state)
{
	char command[SCRATCH_SIZE + 8];

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

/* Passes all output on, so that it is not lost if the run hangs. */
static const char *mpirun(int size, const char *command_line)
{
	static struct talk talk = { .passed_on = true };
	char command[1024];

	snprintf(command, sizeof(command), "exec %s %s -n %d %s", launcher, mpi->options, size,
		 command_line);
	if (TALK(&talk, "/bin/sh", "-c", command) != 0)
		fail_msg("'%s' ended with %d", command, talk.status);
	return talk.out;
}

/* Each rank must read what the rank before it wrote. */
static void an_example(void **state)
{
	const struct run *run = *state;
	const char *output;
	int rank;

	mpi_need(&mpis[run->mpi]);
	assert_int_equal(compile(run->example), 0);
	output = mpirun(run->ranks, program_of(run->example));
	for (rank = 0; rank < run->ranks; rank++)
		if (!program_says(output, run->says, rank,
				  (rank + run->ranks - 1) % run->ranks))
			fail_msg("rank %d does not say '%s'", rank, run->says);
}

/* hartebeest(1) does not call MPI; mpirun only gives it a rank. */
static void a_mesh(void **state)
{
	char command[1024];
	const char *output;

	mpi_need(*state);
	snprintf(command, sizeof(command), "'%s' mesh -c 10", talk_tool());
	output = mpirun(2, command);
	assert_non_null(strstr(output, "mesh of 2 ranks"));
	/* mpirun provides a terminal, so the words before this are coloured. */
	assert_non_null(strstr(output, "pairs       2 of 2 work"));
}

static int compile_all(void)
{
	size_t i;

	folder = getenv("BEEST_TEST_MPI");
	for (i = 0; folder && i < BEEST_COUNT(mpis); i++)
		if (mpi_choose(&mpis[i]) && (compile("mpi") != 0 || compile("mpi-mesh") != 0 ||
						compile("mpi-bytes") != 0))
			return 1;
	return folder ? 0 : 2;
}

/* cmocka passes over tests without a function. */
static void add_runs(struct CMUnitTest *tests)
{
	static char names[BEEST_COUNT(runs)][64];
	size_t i;

	for (i = 0; i < BEEST_COUNT(runs); i++) {
		if (runs[i].costly && !unit_whole())
			continue;
		snprintf(names[i], sizeof(names[i]), "%s.%s with %d ranks", runs[i].example,
			 mpis[runs[i].mpi].suffix, runs[i].ranks);
		tests->name = names[i];
		tests->test_func = an_example;
		tests++->initial_state = (void *)&runs[i];
	}
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[BEEST_COUNT(mpis) + BEEST_COUNT(runs)] = {
		{ "a mesh.openmpi", a_mesh, NULL, NULL, (void *)&mpis[OPENMPI] },
		{ "a mesh.mpich", a_mesh, NULL, NULL, (void *)&mpis[MPICH] },
	};

	if (argc == 2 && strcmp(argv[1], "compile") == 0)
		return compile_all();
	ranks_need_device();
	cache_need();
	if (system("command -v mpicc >/dev/null && command -v mpirun >/dev/null") != 0) {
		fputs("mpicc or mpirun is not installed\n", stderr);
		return 77;
	}
	add_runs(tests + BEEST_COUNT(mpis));
	return cmocka_run_group_tests(tests, setup, teardown);
}
