/* SPDX-License-Identifier: MIT */
/*
 * secret.h - reads the secret of a job from a file
 *
 * Owns the rules for that file: it is a regular one, belongs to the user, and no other user can
 * read or write it.  Knows nothing of what a secret is for.  No sentence and no log contains it.
 */
#ifndef BEEST_SECRET_H
#define BEEST_SECRET_H

#include <stddef.h>
#include <stdint.h>

/* In bytes.  A reader of the server could guess a shorter one; a longer file is the wrong one. */
#define BEEST_SECRET_MIN 16
#define BEEST_SECRET_MAX 1024

/* For beest_text_clear(), once it is no longer needed. */
struct beest_secret {
	size_t size;
	uint8_t bytes[BEEST_SECRET_MAX + 3];	/* + \r\n, and 1 to detect a longer file */
};

/*
 * The secret is the whole file without the line ends at its end.  -EPERM: the file belongs to
 * another user, or others may read or write it; -EINVAL: not a regular file, too short or too
 * long; or the errno of open(2), fstat(2) or read(2).  The sentence names the file.
 */
int beest_secret_read(struct beest_secret *secret, const char *path);

#endif
