/* SPDX-License-Identifier: MIT */
/*
 * codec.h - structs to bytes and back, by a table with one row per field
 *
 * Owns how integers and plain bytes look on the wire.  Pure.  Knows nothing of their meaning.
 */
#ifndef BEEST_CODEC_H
#define BEEST_CODEC_H

#include <stddef.h>
#include <stdint.h>

/* Encoding and decoding walk the same rows, so that they cannot drift apart. */
struct beest_codec_field {
	uint16_t offset;
	uint16_t size;
	enum { BEEST_CODEC_UINT, BEEST_CODEC_BYTES } type;
};

struct beest_codec_layout {
	const struct beest_codec_field *fields;
	size_t count;
};

#define BEEST_CODEC_ROW(type, member, form) \
	{ offsetof(struct type, member), sizeof(((struct type *)0)->member), \
	  BEEST_CODEC_##form }
#define BEEST_CODEC_LAYOUT(rows) { rows, BEEST_COUNT(rows) }

/* Its size on the wire, in bytes. */
size_t beest_codec_size(const struct beest_codec_layout *layout);

/* The number of bytes written, or -EMSGSIZE. */
int beest_codec_encode(const struct beest_codec_layout *layout, const void *payload,
		       uint8_t *bytes, size_t size);

/* 0, or -EBADMSG when the bytes end too early. */
int beest_codec_decode(const struct beest_codec_layout *layout, const uint8_t *bytes,
		       size_t size, void *payload);

#endif
