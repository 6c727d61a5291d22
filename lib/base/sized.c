/* SPDX-License-Identifier: MIT */
/* sized.c - see sized.h */
#include "config.h"

#include <string.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"

int beest_sized_check(const char *what, size_t i, const void *request, size_t step,
		      size_t known, size_t least)
{
	const unsigned char *bytes = request;
	size_t size, at;

	memcpy(&size, request, sizeof(size));
	if (size != step || step < least)
		return beest_fail(EINVAL, "%s %zu has the size %zu: hartebeest_%s_preset() was not "
				  "called%s", what, i, size, what,
				  size == step ? "" : ", or the first one has another size");
	for (at = known; at < step; at++)
		if (bytes[at])
			return beest_fail(E2BIG, "%s %zu asks for something that this version of "
					  "the library does not know, or hartebeest_%s_preset() "
					  "was not called", what, i, what);

	return 0;
}
