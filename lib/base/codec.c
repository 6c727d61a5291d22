/* SPDX-License-Identifier: MIT */
/*
 * codec.c - see codec.h
 *
 * On the wire, fields follow each other in the order of the rows, without gaps.  Integers are
 * big-endian.
 */
#include "config.h"

#include <endian.h>
#include <string.h>

#include "lib/base/codec.h"
#include "lib/base/error.h"

/* Converts an integer from host order to big-endian or back: the step is the same. */
#define COPY_UINT(bits) \
	do { \
		uint##bits##_t value; \
		memcpy(&value, from, sizeof(value)); \
		value = htobe##bits(value); \
		memcpy(to, &value, sizeof(value)); \
	} while (0)

/* Records have up to twenty fields, and a mesh has thousands of records. */
static void copy_field(const struct beest_codec_field *field, uint8_t *to, const uint8_t *from)
{
	switch (field->type == BEEST_CODEC_UINT ? field->size : 0) {
	case 1:
		*to = *from;
		return;
	case 2:
		COPY_UINT(16);
		return;
	case 4:
		COPY_UINT(32);
		return;
	case 8:
		COPY_UINT(64);
		return;
	}
	memcpy(to, from, field->size);
}

size_t beest_codec_size(const struct beest_codec_layout *layout)
{
	size_t i, size = 0;

	for (i = 0; i < layout->count; i++)
		size += layout->fields[i].size;

	return size;
}

int beest_codec_encode(const struct beest_codec_layout *layout, const void *payload,
		       uint8_t *bytes, size_t size)
{
	size_t i, needed = beest_codec_size(layout);
	const struct beest_codec_field *field;

	if (size < needed)
		return beest_fail(EMSGSIZE, "a payload of %zu bytes does not fit into %zu bytes",
				  needed, size);

	for (i = 0; i < layout->count; i++) {
		field = &layout->fields[i];
		copy_field(field, bytes, (const uint8_t *)payload + field->offset);
		bytes += field->size;
	}

	return (int)needed;
}

int beest_codec_decode(const struct beest_codec_layout *layout, const uint8_t *bytes,
		       size_t size, void *payload)
{
	const size_t needed = beest_codec_size(layout);
	const struct beest_codec_field *field;
	size_t i;

	if (size < needed)
		return beest_fail(EBADMSG, "payload of %zu bytes, at least %zu expected", size,
				  needed);

	for (i = 0; i < layout->count; i++) {
		field = &layout->fields[i];
		copy_field(field, (uint8_t *)payload + field->offset, bytes);
		bytes += field->size;
	}

	return 0;
}
