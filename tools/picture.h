/* SPDX-License-Identifier: MIT */
/*
 * picture.h - the file that a command writes its picture to
 *
 * Owns what becomes of the file: it is opened before anything is measured, so that a bad path costs
 * no time, and without a picture in the end it is as it was.  Knows nothing of what is drawn.
 */
#ifndef TOOLS_PICTURE_H
#define TOOLS_PICTURE_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/out.h"

struct picture {
	const char *path;		/* NULL: no picture is wanted */
	FILE *file;			/* open until the picture is written */
	bool is_new;			/* the file was not there before */
};

/* Opens the file, once, if one is wanted.  STATUS_FAILED: it cannot be written; a line has why. */
int picture_open(struct picture *picture, struct out *out);

/* Replaces what the file has by what @draw writes, unless no picture is wanted. */
int picture_draw(struct picture *picture, struct out *out,
		 void (*draw)(const void *data, FILE *to), const void *data);

/* Whatever has happened before. */
void picture_free(struct picture *picture);

#endif
