/* SPDX-License-Identifier: MIT */
/*
 * sized.h - checks structs of the public interface, which begin with their size
 *
 * Owns the rule by which such a struct grows: new fields are added at its end, and zero asks for
 * nothing.  Knows nothing of the other fields.
 */
#ifndef BEEST_SIZED_H
#define BEEST_SIZED_H

#include <stddef.h>
#include <stdint.h>

#define BEEST_SIZED_ALONE SIZE_MAX

/* The size of @type in the first release, of which @last was the last field. */
#define BEEST_SIZED_FIRST(type, last) (offsetof(type, last) + sizeof(((type *)NULL)->last))

/*
 * @i: the index of @request in an array; BEEST_SIZED_ALONE: it is in none.
 * @step: the size of each element, from the first one; without an array, the request's own.
 * @known: the size that this library knows; @least: the size in the first release.
 * -EINVAL: its size is not @step, or is below @least; -E2BIG: it sets an unknown field.
 */
int beest_sized_check(const char *what, size_t i, const void *request, size_t step,
		      size_t known, size_t least);

/*
 * Copies a struct that is in no array to @own, which has @known bytes: fields that an older
 * caller's struct lacks are zero there.  Fails as beest_sized_check().
 */
int beest_sized_copy(const char *what, const void *request, void *own, size_t known,
		     size_t least);

/* The same for a struct of type hartebeest_WHAT, which ended with @last in the first release. */
#define BEEST_SIZED_COPY(what, request, own, last)					\
	beest_sized_copy(#what, (request), (own), sizeof(struct hartebeest_##what),	\
			 BEEST_SIZED_FIRST(struct hartebeest_##what, last))

#endif
