/* SPDX-License-Identifier: MIT */
/* entry.c - see entry.h */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/rendezvous/entry.h"

/* Before each entry. */
#define LENGTH_SIZE 2

int beest_entry_encode(struct beest_seal *seal, const struct beest_record *record,
		       const char *key, uint8_t bytes[BEEST_ENTRY_MAX])
{
	int ret = beest_record_encode(seal, record, key, bytes + LENGTH_SIZE,
				      BEEST_ENTRY_MAX - LENGTH_SIZE);

	if (ret < 0)
		return ret;
	bytes[0] = (uint8_t)(ret >> 8);
	bytes[1] = (uint8_t)ret;

	return ret + LENGTH_SIZE;
}

void beest_entry_read(struct beest_entry_reader *reader, struct beest_seal *seal,
		      enum beest_record_kind kind, const char *key, const uint8_t *bytes,
		      size_t size)
{
	reader->seal = seal;
	reader->kind = kind;
	reader->key = key;
	reader->bytes = bytes;
	reader->size = size;
	reader->entry_size = reader->foreign = reader->examined = 0;
}

/* The size of what looks like an entry here, with its length; 0: nothing does. */
static size_t entry_size(const uint8_t *bytes, size_t left)
{
	size_t size;

	if (left < LENGTH_SIZE + BEEST_RECORD_OVERHEAD || bytes[LENGTH_SIZE] != 'H' ||
	    bytes[LENGTH_SIZE + 1] != 'B')
		return 0;
	size = LENGTH_SIZE + (size_t)(bytes[0] << 8 | bytes[1]);

	return size <= left && size <= BEEST_ENTRY_MAX ? size : 0;
}

/*
 * Opens a copy of a sealed record, since opening changes its bytes.  0: it does not count.  Its
 * length may be wrong then, so the next entry is looked for from the next byte on, however many
 * were refused: a reader of all would otherwise miss entries that one of the last bytes finds.
 */
static int entry_open(struct beest_entry_reader *reader, struct beest_record *record)
{
	uint8_t *bytes = (uint8_t *)reader->entry + LENGTH_SIZE;
	size_t size = reader->entry_size - LENGTH_SIZE;
	int ret = beest_record_precheck(reader->seal, bytes, size);

	if (ret == 0) {
		reader->examined += size;
		if (reader->seal)
			bytes = memcpy(reader->opened, bytes, size);
		ret = beest_record_decode(reader->seal, bytes, size, reader->kind, reader->key,
					  record);
	}
	if (ret == -ENOMEM || ret == -EIO)
		return ret;
	if (ret < 0)
		reader->entry_size = 1;
	if (ret < 0 && ret != -EBADMSG) {
		reader->foreign++;
		beest_text_copy(reader->why, sizeof(reader->why), beest_error_text());
	}

	return ret == 0;
}

int beest_entry_next(struct beest_entry_reader *reader, struct beest_record *record)
{
	int ret = 0;

	while (reader->size && ret == 0) {
		reader->entry = reader->bytes;
		reader->entry_size = entry_size(reader->bytes, reader->size);
		if (reader->entry_size)
			ret = entry_open(reader, record);
		else
			reader->entry_size = 1;
		reader->bytes += reader->entry_size;
		reader->size -= reader->entry_size;
	}

	return ret;
}
