/* SPDX-License-Identifier: MIT */
/*
 * hash.h - the checksum of IEEE 802.3, as zlib's crc32(), and the hash FNV-1a
 *
 * Owns both.  Neither is a signature: they find damage, not intent.
 */
#ifndef BEEST_HASH_H
#define BEEST_HASH_H

#include <stddef.h>
#include <stdint.h>

/* @sum: 0 to begin with, then the result so far. */
uint32_t beest_hash_crc32(uint32_t sum, const void *bytes, size_t size);

/* FNV-1a of 64 bits.  @hash: BEEST_HASH_FNV to begin with, then the result so far. */
#define BEEST_HASH_FNV UINT64_C(0xcbf29ce484222325)

uint64_t beest_hash_fnv(uint64_t hash, const void *bytes, size_t size);

/* The whole of one of a text. */
uint64_t beest_hash_text(const char *text);

#endif
