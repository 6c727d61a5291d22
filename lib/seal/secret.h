/* SPDX-License-Identifier: MIT */
/*
 * secret.h - the secret of a job, from a file
 *
 * Owns what such a file may be: a regular one of the user's own that nobody else can read or
 * write.  Knows nothing of what a secret is for; it is in no sentence and no log.
 */
#ifndef BEEST_SECRET_H
#define BEEST_SECRET_H

#include <stddef.h>
#include <stdint.h>

/* Fewer could be guessed by whoever reads the server; more than the other are a wrong file. */
#define BEEST_SECRET_MIN 16
#define BEEST_SECRET_MAX 1024

struct beest_secret {
	size_t size;
	uint8_t bytes[BEEST_SECRET_MAX + 3];	/* an end of line, and one byte too many */
};

/*
 * All bytes of the file but the ends of lines at its end.  -EPERM: it is somebody else's, or
 * somebody else may read or write it; -EINVAL: no regular file, too short or too long; or the
 * errno of open(2) and read(2).  The sentence names the file.
 */
int beest_secret_read(struct beest_secret *secret, const char *path);

/* Nothing of it stays there. */
void beest_secret_wipe(struct beest_secret *secret);

#endif
