/* SPDX-License-Identifier: MIT */
/*
 * scratch.h - temporary files and folders of tests
 *
 * Owns where they are: in the first of TMPDIR, /tmp and /var/tmp that a program may write, that
 * is short, since the path of a socket has at most 107 bytes, and that all users may enter, if root
 * runs the tests.  If only a long TMPDIR is left, it has a short name in /proc, which is valid as
 * long as this process lives, and only for its user in this name space.
 */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

/* That of a path that scratch_folder() and scratch_file() write. */
#define SCRATCH_SIZE 80

/*
 * Chooses the folder of temporary files before a program clears its environment, and sets TMPDIR,
 * which what the program starts inherits.
 */
void scratch_begin(void);

/* The folder of temporary files.  If there is none, ends the program: status 77 and the reason. */
const char *scratch(void);

/*
 * Makes a folder, or an empty file, whose name begins with @name, which has at most 20 bytes, and
 * stores its path.  Ends the program if it cannot.  A file's descriptor is returned.
 */
void scratch_folder(char path[SCRATCH_SIZE], const char *name);
int scratch_file(char path[SCRATCH_SIZE], const char *name);

/* Makes a file that contains @text, as above. */
void scratch_text(char path[SCRATCH_SIZE], const char *name, const char *text);

#endif
