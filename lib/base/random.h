/* SPDX-License-Identifier: MIT */
/*
 * random.h - unpredictable bits for incarnations and packet sequence numbers
 *
 * Reads getrandom(2) where the kernel has it, else /dev/urandom.  Thread-safe; a forked child draws
 * other bits than its parent.
 */
#ifndef BEEST_RANDOM_H
#define BEEST_RANDOM_H

#include <stddef.h>

/* 0, or the negative errno of open(2) or read(2), with a sentence. */
int beest_random(void *buffer, size_t size);

#endif
