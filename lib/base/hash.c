/* SPDX-License-Identifier: MIT */
/*
 * hash.c - CRC-32 in steps of sixteen bytes, and then of four, since the records of a mesh add up
 * to megabytes
 */
#include "config.h"

#include <pthread.h>
#include <string.h>

#include "lib/base/hash.h"

#define POLYNOMIAL 0xedb88320u	/* reflected */

#define STEP 16

/* table[n][b]: how byte b changes the sum when n more bytes follow it. */
static uint32_t table[STEP][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void crc_table_fill(void)
{
	unsigned int byte, bit, n;
	uint32_t sum;

	for (byte = 0; byte < 256; byte++) {
		sum = byte;
		for (bit = 0; bit < 8; bit++)
			sum = sum & 1 ? POLYNOMIAL ^ (sum >> 1) : sum >> 1;
		table[0][byte] = sum;
	}
	for (n = 1; n < STEP; n++)
		for (byte = 0; byte < 256; byte++)
			table[n][byte] = table[0][table[n - 1][byte] & 0xff] ^
					 (table[n - 1][byte] >> 8);
}

uint32_t beest_hash_crc32(uint32_t sum, const void *bytes, size_t size)
{
	const uint8_t *b = bytes;

	sum = ~sum;
	pthread_once(&once, crc_table_fill);
	/* The terms that need the last sum are last, so that the others need not wait for it. */
	for (; size >= STEP; b += STEP, size -= STEP)
		sum = table[0][b[15]] ^ table[1][b[14]] ^ table[2][b[13]] ^ table[3][b[12]] ^
		      table[4][b[11]] ^ table[5][b[10]] ^ table[6][b[9]] ^ table[7][b[8]] ^
		      table[8][b[7]] ^ table[9][b[6]] ^ table[10][b[5]] ^ table[11][b[4]] ^
		      table[12][b[3] ^ (sum >> 24)] ^ table[13][b[2] ^ (sum >> 16 & 0xff)] ^
		      table[14][b[1] ^ (sum >> 8 & 0xff)] ^ table[15][b[0] ^ (sum & 0xff)];
	for (; size >= 4; b += 4, size -= 4)
		sum = table[0][b[3] ^ (sum >> 24)] ^ table[1][b[2] ^ (sum >> 16 & 0xff)] ^
		      table[2][b[1] ^ (sum >> 8 & 0xff)] ^ table[3][b[0] ^ (sum & 0xff)];
	for (; size; b++, size--)
		sum = table[0][(*b ^ sum) & 0xff] ^ (sum >> 8);

	return ~sum;
}

uint64_t beest_hash_fnv(uint64_t hash, const void *bytes, size_t size)
{
	const uint8_t *b = bytes;

	for (; size; b++, size--)
		hash = (hash ^ *b) * UINT64_C(0x100000001b3);
	return hash;
}

uint64_t beest_hash_text(const char *text)
{
	return beest_hash_fnv(BEEST_HASH_FNV, text, strlen(text));
}
