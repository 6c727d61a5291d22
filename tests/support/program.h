/* SPDX-License-Identifier: MIT */
/*
 * program.h - an example as the ranks of a job, and what each must print
 *
 * A failure that is known is expected, but neither passed over nor kept after its end: while it
 * lasts, a line "XFAIL ..." says so.
 */
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

#include <stdbool.h>

struct program {
	const char *name;		/* of the example */
	int ranks;
	/*
	 * What the output of each rank must contain; the second is for all ranks but 0, NULL: as
	 * for rank 0.  '#' is the rank, and '@' each other rank in turn.
	 */
	const char *says[2];
	const char *arguments[2][2];	/* of the same ranks; NULL: none, or no more */
	const char *known_failure;	/* its reason; NULL: the program works */
};

/*
 * Runs the ranks with a Memcached server of their own.  Fails the test unless all succeed and
 * print what they must; or, if the failure is known, if they do.  @test names the test program.
 */
void program_run(const char *test, const struct program *program);

/*
 * Does @text contain @says, with @rank in place of each '#', @other in place of each '@', and any
 * text in place of each '*'?
 */
bool program_says(const char *text, const char *says, int rank, int other);

#endif
