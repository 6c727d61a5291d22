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

/* Host order to big-endian and back: the same step both ways. */
static void copy_uint(uint8_t *to, const uint8_t *from, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		to[i] = from[size - 1 - i];
#else
		to[i] = from[i];
#endif
}

static void copy_bytes(uint8_t *to, const uint8_t *from, size_t size)
{
	memcpy(to, from, size);
}

/* Sends no bytes that follow the end of a text. */
static void copy_text(uint8_t *to, const uint8_t *from, size_t size)
{
	size_t length = strnlen((const char *)from, size);

	memcpy(to, from, length);
	memset(to + length, 0, size - length);
}

static void (*const copy[])(uint8_t *, const uint8_t *, size_t) = {
	[BEEST_CODEC_UINT] = copy_uint,
	[BEEST_CODEC_BYTES] = copy_bytes,
	[BEEST_CODEC_TEXT] = copy_text,
};

static size_t layout_size(const struct beest_codec_layout *layout)
{
	size_t i, size = 0;

	for (i = 0; i < layout->count; i++)
		size += layout->fields[i].size;

	return size;
}

int beest_codec_encode(const struct beest_codec_layout *layout, const void *payload,
		       uint8_t *bytes, size_t size)
{
	size_t i, needed = layout_size(layout);
	const struct beest_codec_field *field;

	if (size < needed)
		return beest_fail(EMSGSIZE, "payload of %zu bytes in a buffer of %zu",
				  needed, size);

	for (i = 0; i < layout->count; i++) {
		field = &layout->fields[i];
		copy[field->type](bytes, (const uint8_t *)payload + field->offset, field->size);
		bytes += field->size;
	}

	return (int)needed;
}

/* Texts go to terminals and logs: no control characters in them. */
static bool text_is_sound(const uint8_t *bytes, size_t size)
{
	size_t i, length = strnlen((const char *)bytes, size);

	for (i = 0; i < length; i++)
		if (beest_text_is_control(bytes[i]))
			return false;

	return length < size;
}

static int texts_check(const struct beest_codec_layout *layout, const uint8_t *bytes)
{
	const struct beest_codec_field *field;
	size_t i;

	for (i = 0; i < layout->count; i++) {
		field = &layout->fields[i];
		if (field->type == BEEST_CODEC_TEXT && !text_is_sound(bytes, field->size))
			return beest_fail(EBADMSG, "payload with a malformed text");
		bytes += field->size;
	}

	return 0;
}

int beest_codec_decode(const struct beest_codec_layout *layout, const uint8_t *bytes,
		       size_t size, void *payload)
{
	const struct beest_codec_field *field;
	size_t i;
	int ret;

	if (size < layout_size(layout))
		return beest_fail(EBADMSG, "payload of %zu bytes, at least %zu expected",
				  size, layout_size(layout));
	ret = texts_check(layout, bytes);
	if (ret < 0)
		return ret;

	for (i = 0; i < layout->count; i++) {
		field = &layout->fields[i];
		copy[field->type]((uint8_t *)payload + field->offset, bytes, field->size);
		bytes += field->size;
	}

	return 0;
}
