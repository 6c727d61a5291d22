/* SPDX-License-Identifier: MIT */
/*
 * hash.h - the checksum of IEEE 802.3, as zlib's crc32()
 *
 * Owns its table.  Tells damage from intent only by chance: it is no signature.
 */
#ifndef BEEST_HASH_H
#define BEEST_HASH_H

#include <stddef.h>
#include <stdint.h>

uint32_t beest_hash_crc32(const void *bytes, size_t size);

#endif
