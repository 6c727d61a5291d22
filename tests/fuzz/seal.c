/* SPDX-License-Identifier: MIT */
/*
 * seal.c - sealed records: what does not open is refused, and what opens is what was sealed
 *
 * First, the bytes are opened as they are.  Then they are sealed, so that hostile contents get
 * behind the tag, and spoilt by one bit, by their length and by another key.
 */
#include "config.h"

#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/rendezvous/record.h"
#include "tests/fuzz/fuzz.h"

#define KEY "hb1/job/qp/name"
#define SECRET "0123456789abcdef"

static struct beest_seal *seal;

static uint8_t *copy_of(const uint8_t *bytes, size_t size, size_t before, size_t behind)
{
	uint8_t *copy = calloc(1, before + size + behind + !size);

	if (size)
		memcpy(copy + before, bytes, size);
	return copy;
}

/* Decodes a copy, since opening decrypts in place; @body gets a copy of the record's body. */
static int decode(struct beest_seal *with, const char *key, const uint8_t *bytes, size_t size,
		  struct beest_record *record, uint8_t **body)
{
	uint8_t *copy = copy_of(bytes, size, 0, 0);
	int ret = beest_record_decode(with, copy, size, BEEST_KIND_ANY, key, record);

	*body = NULL;
	HOLDS(ret <= 0);
	if (ret < 0)
		HOLDS(beest_error_text()[0]);
	else
		*body = copy_of(record->body, record->size, 0, 0);
	free(copy);
	return ret;
}

static void is_refused(struct beest_seal *with, const char *key, const uint8_t *bytes, size_t size)
{
	struct beest_record record;
	uint8_t *body;

	HOLDS(decode(with, key, bytes, size, &record, &body) < 0);
}

/* Without the secret, nobody can make a record that is accepted. */
static void open_as_it_is(const uint8_t *data, size_t size)
{
	struct beest_record record;
	uint8_t *body;

	if (decode(seal, KEY, data, size, &record, &body) == 0)
		HOLDS(beest_seal_is_on(data, size));
	free(body);
	if (beest_seal_is_on(data, size))
		is_refused(NULL, KEY, data, size);
}

/* The contents of a seal must decode like the same bytes without a seal. */
static void opens_to_the_same(const uint8_t *data, size_t size, const uint8_t *sealed)
{
	struct beest_record plain, opened;
	uint8_t *ours, *theirs;
	int ret = decode(NULL, KEY, data, size, &plain, &ours);

	if (beest_seal_is_on(data, size))
		goto out;		/* without a secret, this is refused for another reason */
	HOLDS(decode(seal, KEY, sealed, size + BEEST_SEAL_OVERHEAD, &opened, &theirs) == ret);
	if (ret == 0)
		HOLDS(opened.kind == plain.kind && opened.flags == plain.flags &&
		      opened.rank == plain.rank && opened.size == plain.size &&
		      !memcmp(theirs, ours, plain.size));
	free(theirs);
out:
	free(ours);
}

static void spoilt_is_refused(const uint8_t *data, size_t size, uint8_t *sealed)
{
	size_t all = size + BEEST_SEAL_OVERHEAD, at = size ? data[0] * all / 256 : 0;

	is_refused(seal, KEY "x", sealed, all);
	is_refused(seal, KEY, sealed, all - 1);
	sealed[at] ^= (uint8_t)(1 << (size ? data[size - 1] & 7 : 0));
	is_refused(seal, KEY, sealed, all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *sealed = copy_of(data, size, BEEST_SEAL_HEAD, BEEST_SEAL_TAG);

	if (!seal)
		HOLDS(beest_seal_open(&seal, SECRET, strlen(SECRET), "job") == 0);
	open_as_it_is(data, size);
	HOLDS(beest_seal_encrypt(seal, KEY, sealed, size + BEEST_SEAL_OVERHEAD) == 0);
	opens_to_the_same(data, size, sealed);
	spoilt_is_refused(data, size, sealed);
	free(sealed);
	return 0;
}
