/* SPDX-License-Identifier: MIT */
/* picture.c - see picture.h */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/picture.h"

static int picture_failed(const struct picture *picture, struct out *out)
{
	out_error(out, "%s: %s", picture->path, strerror(errno));
	return STATUS_FAILED;
}

int picture_open(struct picture *picture, struct out *out)
{
	if (!picture->path || picture->file)
		return STATUS_GOOD;
	picture->file = fopen(picture->path, "wxe");
	picture->is_new = picture->file;
	if (!picture->file && errno == EEXIST)
		picture->file = fopen(picture->path, "ae");
	return picture->file ? STATUS_GOOD : picture_failed(picture, out);
}

int picture_draw(struct picture *picture, struct out *out,
		 void (*draw)(const void *data, FILE *to), const void *data)
{
	FILE *file = picture->file;
	bool good;

	if (!file)
		return STATUS_GOOD;
	/* EINVAL: a device or a pipe, which cannot be truncated. */
	good = ftruncate(fileno(file), 0) == 0 || errno == EINVAL;
	if (good)
		draw(data, file);
	good &= !ferror(file);
	picture->file = NULL;
	return fclose(file) == 0 && good ? STATUS_GOOD : picture_failed(picture, out);
}

void picture_free(struct picture *picture)
{
	if (!picture->file)
		return;
	fclose(picture->file);
	if (picture->is_new)
		unlink(picture->path);
}
