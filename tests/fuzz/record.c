/* SPDX-License-Identifier: MIT */
/* record.c - any bytes under a key are a record or a refusal, and encode back */
#include "config.h"

#include "lib/base/hash.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/rendezvous/record.h"
#include "tests/fuzz/fuzz.h"

#define KEY "hb1/job/qp/name"

static const char kinds[] = "rmqcsb";

static const struct beest_codec_layout *const layouts[] = {
	&beest_mr_layout, &beest_qp_layout, &beest_confirm_layout, &beest_barrier_layout,
	&beest_rank_layout,
};

static void decode_payloads(const struct beest_record *record)
{
	uint8_t payload[512], bytes[BEEST_PAYLOAD_MAX];
	size_t i;
	int size;

	for (i = 0; i < BEEST_COUNT(layouts); i++) {
		memset(payload, 0, sizeof(payload));
		if (beest_codec_decode(layouts[i], record->payload, record->payload_size,
				       payload) < 0)
			continue;
		size = beest_codec_encode(layouts[i], payload, bytes, sizeof(bytes));
		HOLDS(size > 0 && (size_t)size <= record->payload_size);
		if (layouts[i] != &beest_qp_layout)	/* texts lose what is behind their end */
			HOLDS(!memcmp(bytes, record->payload, (size_t)size));
	}
}

/* What was accepted says the same when it is encoded again. */
static void encodes_back(const struct beest_record *record)
{
	size_t room = BEEST_RECORD_OVERHEAD + record->payload_size;
	uint8_t *bytes = malloc(room);
	struct beest_record again;
	int size = beest_record_encode(record, bytes, room);

	HOLDS(size > 0);
	HOLDS(beest_record_decode(bytes, (size_t)size, record->kind, KEY, &again) == 0);
	HOLDS(!memcmp(&again.author.incarnation, &record->author.incarnation, 16));
	HOLDS(!strcmp(again.author.host, record->author.host));
	HOLDS(again.author.pid == record->author.pid && again.author.rank == record->author.rank);
	HOLDS(again.payload_size == record->payload_size);
	HOLDS(!again.payload_size || !memcmp(again.payload, record->payload, again.payload_size));
	free(bytes);
}

static void decode(const uint8_t *bytes, size_t size)
{
	struct beest_record record;
	size_t i;

	for (i = 0; kinds[i]; i++) {
		if (beest_record_decode(bytes, size, (enum beest_record_kind)kinds[i], KEY,
					&record) < 0) {
			HOLDS(beest_error_text()[0]);
			continue;
		}
		HOLDS(record.payload >= bytes && record.payload + record.payload_size + 4 ==
		      bytes + size);
		encodes_back(&record);
		decode_payloads(&record);
	}
}

/* Chance does not find a sum: the second try has the right one. */
static void correct_sum(uint8_t *bytes, size_t size)
{
	uint32_t crc = beest_hash_crc32(bytes, size - 4);
	int i;

	for (i = 1; i <= 4; i++) {
		bytes[size - (size_t)i] = (uint8_t)crc;
		crc >>= 8;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	decode(data, size);
	if (size < 4)
		return 0;
	copy = malloc(size);
	memcpy(copy, data, size);
	correct_sum(copy, size);
	decode(copy, size);
	free(copy);
	return 0;
}
