/* SPDX-License-Identifier: MIT */
/*
 * entry.h - the form of a list, one value with entries of many processes
 *
 * Owns how entries stand one behind the other.  An entry is a record of its own, with its own
 * checksum or seal, so that neither a foreign nor a damaged one hides the others.  Pure.  Knows
 * nothing of servers, or of what entries contain.
 */
#ifndef BEEST_ENTRY_H
#define BEEST_ENTRY_H

#include "lib/rendezvous/record.h"

/* The bytes of an entry, with its length. */
#define BEEST_ENTRY_MAX 2048

/* Returns the size of the entry.  Errors of beest_record_encode(). */
int beest_entry_encode(struct beest_seal *seal, const struct beest_record *record,
		       const char *key, uint8_t bytes[BEEST_ENTRY_MAX]);

struct beest_entry_reader {
	struct beest_seal *seal;
	enum beest_record_kind kind;
	const char *key;
	const uint8_t *bytes;		/* what is left */
	size_t size;
	const uint8_t *entry;		/* the last one, as it is in the list: copies are valid */
	size_t entry_size;
	size_t examined;		/* the bytes whose checksum or seal was computed */
	size_t foreign;			/* what may be of another version or secret */
	char why[160];			/* the sentence of the last of these */
	uint8_t opened[BEEST_ENTRY_MAX];
};

/* The list with that key, whose entries are of that kind.  All three pointers must stay valid. */
void beest_entry_read(struct beest_entry_reader *reader, struct beest_seal *seal,
		      enum beest_record_kind kind, const char *key, const uint8_t *bytes,
		      size_t size);

/*
 * 1: the next entry, whose body is valid until the next call; 0: there are no more; -ENOMEM,
 * -EIO.  Skips whatever is no entry, byte by byte, in time that grows with the list's size at most:
 * with a seal, each byte is examined a few times at most, whatever was appended without the secret.
 */
int beest_entry_next(struct beest_entry_reader *reader, struct beest_record *record);

#endif
