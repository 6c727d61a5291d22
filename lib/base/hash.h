/* SPDX-License-Identifier: MIT */
/*
 * hash.h - the CRC-32 of IEEE 802.3, as zlib's crc32() computes it, and the hash FNV-1a
 *
 * Owns both.  Neither is a signature: they detect damage, not intent.
 */
#ifndef BEEST_HASH_H
#define BEEST_HASH_H

#include <stddef.h>
#include <stdint.h>

/* @sum: 0 at first, then the result so far. */
uint32_t beest_hash_crc32(uint32_t sum, const void *bytes, size_t size);

/* FNV-1a with 64 bits.  @hash: BEEST_HASH_FNV at first, then the result so far. */
#define BEEST_HASH_FNV UINT64_C(0xcbf29ce484222325)

uint64_t beest_hash_fnv(uint64_t hash, const void *bytes, size_t size);

/* FNV-1a of a whole text, without its NUL. */
uint64_t beest_hash_text(const char *text);

#endif
