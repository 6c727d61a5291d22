/* SPDX-License-Identifier: MIT */
/*
 * wire.h - parts of a stored record that a test reads without decoding it
 *
 * Owns offsets of hartebeest-exchange(7).  For records that are not sealed.
 */
#ifndef TESTS_WIRE_H
#define TESTS_WIRE_H

#include <stdint.h>

static inline uint8_t wire_flags(const void *bytes)
{
	return ((const uint8_t *)bytes)[5];
}

#endif
