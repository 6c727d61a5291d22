/* SPDX-License-Identifier: MIT */
/*
 * random.h - bits nobody can guess, for incarnations and packet sequence numbers
 *
 * Reads /dev/urandom: getrandom(2) has no wrapper before glibc 2.25.
 */
#ifndef BEEST_RANDOM_H
#define BEEST_RANDOM_H

#include <stddef.h>

/* 0, or the negative errno of open(2) or read(2), with a sentence. */
int beest_random(void *buffer, size_t size);

#endif
