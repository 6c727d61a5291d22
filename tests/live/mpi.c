/* SPDX-License-Identifier: MIT */
/*
 * mpi.c - the examples of MPI and hartebeest mesh under a real mpirun, on a real device
 *
 * The examples are compiled here, by mpicc: the library's build needs no MPI.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/memcached.h"
#include "tests/support/ranks.h"
#include "tests/support/talk.h"
#include "tests/support/unit.h"

#define SECONDS 120		/* a deadlock ends then */

static struct cache *cache;
static char folder[] = "/tmp/live-mpi-XXXXXX";

static int setup(void **state)
{
	(void)state;
	cache = cache_start(NULL);
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	setenv("HARTEBEEST_TIMEOUT", "60s", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	cache_end(cache);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

static void compile(const char *name)
{
	char command[1024];

	snprintf(command, sizeof(command), "mpicc -std=gnu99 -I%s/include -o %s/%s "
		 "%s/examples/%s.c -Llib/.libs -Wl,-rpath,$PWD/lib/.libs -lhartebeest -libverbs",
		 SOURCES, folder, name, SOURCES, name);
	assert_int_equal(system(command), 0);
}

/* Every rank reads what the one before it wrote. */
static void run(const char *name, int size)
{
	char command[256], output[16384], line[64];
	size_t length;
	FILE *program;
	int rank;

	snprintf(command, sizeof(command), "timeout %d mpirun --oversubscribe --mca btl self,vader "
		 "-n %d %s/%s", SECONDS, size, folder, name);
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
	compile("mpi");
	run("mpi", 2);
	run("mpi", 4);
}

static void by_its_own_gather(void **state)
{
	(void)state;
	compile("mpi-mesh");
	run("mpi-mesh", 2);
	run("mpi-mesh", 4);
}

/* hartebeest(1) is no program of MPI: mpirun only gives it a rank. */
static void a_mesh(void **state)
{
	static struct talk talk;

	(void)state;
	if (TALK(&talk, "/usr/bin/env", "timeout", "120", "mpirun", "--oversubscribe", "-n", "3",
		 talk_tool(), "mesh", "-c", "10") != 0)
		fail_msg("mpirun ended with %d:\n%s%s", talk.status, talk.out, talk.err);
	talk_says(&talk, "mesh of 3 ranks");
	/* mpirun brings a terminal, and so colour. */
	talk_says(&talk, "pairs       6 of 6 work");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(through_memcached),
		cmocka_unit_test(by_its_own_gather),
		cmocka_unit_test(a_mesh),
	};

	ranks_need_device();
	cache_need();
	if (system("mpicc --version >/dev/null 2>&1 && mpirun --version >/dev/null 2>&1") != 0) {
		fputs("mpicc or mpirun is not installed\n", stderr);
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
