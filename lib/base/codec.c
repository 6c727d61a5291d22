/* SPDX-License-Identifier: MIT */
/*
 * codec.c - see codec.h
 *
 * On the wire, fields are in the order of the rows, without gaps.  Integers are
 * big-endian; texts have their full width and end in zeros.
 */
#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "lib/base/codec.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"

/*
 * Host order to big-endian and back: the same step both ways.  Sends no bytes that follow
 * the end of a text.
 */
static void copy_field(const struct beest_codec_field *field, uint8_t *to, const uint8_t *from)
{
	const bool swapped = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
	size_t i, size = field->size;

	if (field->type == BEEST_CODEC_UINT && swapped) {
		for (i = 0; i < size; i++)
			to[i] = from[size - 1 - i];
		return;
	}

	if (field->type == BEEST_CODEC_TEXT)
		size = strnlen((const char *)from, size);
	memcpy(to, from, size);
	memset(to + size, 0, field->size - size);
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
		return beest_fail(EMSGSIZE, "payload of %zu bytes in a buffer of %zu",
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
	const struct beest_codec_field *field;
	const uint8_t *at = bytes;
	size_t i;

	if (size < beest_codec_size(layout))
		return beest_fail(EBADMSG, "payload of %zu bytes, at least %zu expected",
				  size, beest_codec_size(layout));

	/* Texts go to terminals and logs: no control characters in them. */
	for (i = 0; i < layout->count; at += layout->fields[i++].size)
		if (layout->fields[i].type == BEEST_CODEC_TEXT &&
		    (!memchr(at, '\0', layout->fields[i].size) ||
		     beest_text_control((const char *)at)))
			return beest_fail(EBADMSG, "payload with a malformed text");

	for (i = 0; i < layout->count; i++) {
		field = &layout->fields[i];
		copy_field(field, (uint8_t *)payload + field->offset, bytes);
		bytes += field->size;
	}

	return 0;
}
