/* SPDX-License-Identifier: MIT */
/*
 * surroundings.h - what the machine and the caller leave to a test
 *
 * Owns the variables, signals and streams with which each test program begins, the settings file
 * of the machine, which tests do not read (sysfile.c), and what a machine may lack.  Knows nothing
 * of what is tested.  unit.h includes it; a program without unit.h includes it itself.
 */
#ifndef TESTS_SURROUNDINGS_H
#define TESTS_SURROUNDINGS_H

/*
 * Unsets the variables that the library and its command read, gives ignored signals their default
 * action, unblocks all, opens standard streams that are closed, and chooses the folder of temporary
 * files.  What a test starts inherits this.  Repeating it changes nothing.
 */
void surroundings_begin(void);

/* Before main(), and so before a program reads its environment. */
__attribute__((constructor)) static void surroundings_first(void)
{
	surroundings_begin();
}

/* Clears the environment, but not the folder of temporary files. */
void surroundings_clear(void);

/*
 * Skip the test case, and print the reason, where 127.0.0.1 cannot be reached, where "localhost" is
 * no name of it, where there are no pseudo terminals, and where ::1 is no address.
 */
void surroundings_need_loopback(void);
void surroundings_need_localhost(void);
void surroundings_need_terminal(void);
void surroundings_need_ipv6(void);

#endif
