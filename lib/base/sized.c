/* SPDX-License-Identifier: MIT */
/* sized.c - see sized.h */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/sized.h"

int beest_sized_check(const char *what, size_t i, const void *request, size_t step,
		      size_t known, size_t least)
{
	const unsigned char *bytes = request;
	char number[24] = "";
	size_t size, at;

	memcpy(&size, request, sizeof(size));
	for (at = known; size == step && at < step && !bytes[at]; at++)
		;
	if (size == step && step >= least && at >= step)
		return 0;

	if (i != BEEST_SIZED_ALONE)
		snprintf(number, sizeof(number), " %zu", i);
	if (size != step || step < least)
		return beest_fail(EINVAL, "%s%s has the size %zu: hartebeest_%s_init() was not "
				  "called%s", what, number, size, what,
				  size == step ? "" : ", or the first one has another size");

	return beest_fail(E2BIG, "%s%s asks for something that this version of the library does "
			  "not know, or hartebeest_%s_init() was not called", what, number, what);
}

int beest_sized_copy(const char *what, const void *request, void *own, size_t known,
		     size_t least)
{
	size_t size;

	memcpy(&size, request, sizeof(size));
	memset(own, 0, known);
	if (size >= least)
		memcpy(own, request, BEEST_MIN(size, known));
	return beest_sized_check(what, BEEST_SIZED_ALONE, request, size, known, least);
}
