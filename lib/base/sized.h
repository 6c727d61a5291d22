/* SPDX-License-Identifier: MIT */
/*
 * sized.h - requests of the public interface, which begin with their size
 *
 * Owns the rule by which such a struct grows: new fields come at its end, and zero asks for
 * nothing.  Knows nothing of what a request asks for.
 */
#ifndef BEEST_SIZED_H
#define BEEST_SIZED_H

#include <stddef.h>
#include <stdint.h>

#define BEEST_SIZED_ALONE SIZE_MAX

/*
 * @request: number @i of an array whose elements have @step bytes, as the first one says;
 *           BEEST_SIZED_ALONE: one that is in no array.
 * @known: the bytes that this library knows; @least: those of the first release.
 * -EINVAL: another size, or too small a one; -E2BIG: a field that is not known is set.
 */
int beest_sized_check(const char *what, size_t i, const void *request, size_t step,
		      size_t known, size_t least);

#endif
