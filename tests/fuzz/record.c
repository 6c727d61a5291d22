/* SPDX-License-Identifier: MIT */
/* record.c - any bytes under a key are a record or refused, and encode back */
#include "config.h"

#include <infiniband/verbs.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/macro.h"
#include "lib/rendezvous/record.h"
#include "tests/fuzz/fuzz.h"

#define KEY "hb1/job/qp/name"

/* Flags that depend on the body. */
#define BODY_FLAGS \
	(BEEST_RECORD_ECHO | BEEST_RECORD_IP | BEEST_RECORD_REFUSED | BEEST_RECORD_ECE)

union body {
	struct beest_qp_body qp;
	struct hartebeest_remote_mr mr;
	struct beest_rank_body rank;
	struct beest_message_body message;
};

/* An encoded body decodes to the same values, so it encodes to the same bytes again. */
static void qp_encodes_back(const struct beest_record *record)
{
	uint8_t once[BEEST_QP_BODY_MAX], twice[BEEST_QP_BODY_MAX];
	struct hartebeest_remote_mr regions[UINT8_MAX];
	struct beest_record again = *record;
	struct beest_qp_body body;
	uint8_t flags;
	size_t i;
	int size;

	if (beest_record_qp_decode(record, &body) < 0)
		return;
	HOLDS(body.endpoint.qp_num && body.endpoint.qp_num <= 0xffffff);
	HOLDS(body.endpoint.psn <= 0xffffff);
	HOLDS(body.endpoint.mtu >= IBV_MTU_256 && body.endpoint.mtu <= IBV_MTU_4096);

	for (i = 0; i < body.regions; i++)
		beest_record_qp_region(record, i, &regions[i]);
	size = beest_record_qp_encode(&body, regions, &again.flags, once);
	/* Longer than before if bytes of the reason were escaped. */
	HOLDS(size > 0 && (size_t)size <= (body.reason[0] ? sizeof(once) : record->size));
	again.body = once;
	again.size = (size_t)size;
	HOLDS(beest_record_qp_decode(&again, &body) == 0);
	for (i = 0; i < body.regions; i++)
		beest_record_qp_region(&again, i, &regions[i]);
	HOLDS(beest_record_qp_encode(&body, regions, &flags, twice) == size);
	HOLDS(flags == again.flags && !(flags & ~BODY_FLAGS));
	HOLDS(!memcmp(once, twice, (size_t)size));
}

static void texts_are_clean(const char *text, size_t room)
{
	size_t i;

	HOLDS(strnlen(text, room) < room);
	for (i = 0; text[i]; i++)
		HOLDS((uint8_t)text[i] >= 0x20 && text[i] != 0x7f);
}

static void rank_encodes_back(const struct beest_record *record)
{
	uint8_t bytes[BEEST_BODY_MAX];
	struct beest_record again = *record;
	struct beest_rank_body body, same;

	if (beest_record_rank_decode(record, &body) < 0)
		return;
	texts_are_clean(body.host, sizeof(body.host));
	texts_are_clean(body.device, sizeof(body.device));
	texts_are_clean(body.reason, sizeof(body.reason));
	again.body = bytes;
	again.size = (size_t)beest_record_rank_encode(&body, bytes);
	HOLDS(again.size <= sizeof(bytes));	/* longer than before if bytes were escaped */
	HOLDS(beest_record_rank_decode(&again, &same) == 0);
	HOLDS(!strcmp(same.host, body.host) && !strcmp(same.device, body.device));
	HOLDS(!strcmp(same.reason, body.reason) && same.pid == body.pid);
}

static void plain_bodies_encode_back(const struct beest_record *record)
{
	uint8_t bytes[BEEST_BODY_MAX];
	union body body;
	int size;

	if (beest_record_mr_decode(record, &body.mr) == 0) {
		size = beest_record_mr_encode(&body.mr, bytes);
		HOLDS((size_t)size <= record->size && !memcmp(bytes, record->body, (size_t)size));
	}
	if (beest_record_message_decode(record, &body.message) == 0)
		HOLDS(body.message.data + body.message.size == record->body + record->size);
}

/* A chunk, or a view within the leader's record: entries one behind the other. */
static void entries_encode_back(const uint8_t *bytes, size_t size)
{
	struct beest_fence_entry entry;
	uint8_t *again;
	int used;

	while ((used = beest_record_entry_decode(bytes, size, &entry)) > 0) {
		HOLDS((size_t)used <= size && entry.value + entry.size <= bytes + size);
		again = malloc((size_t)used);
		HOLDS(beest_record_entry_encode(&entry, again) == used);
		HOLDS(!memcmp(again, bytes, (size_t)used));
		free(again);
		bytes += used;
		size -= (size_t)used;
	}
	HOLDS(beest_error_text()[0]);
}

/* The same bytes again, unless some of the text were escaped. */
static void same_or_escaped(const struct beest_record *record, const uint8_t *bytes, size_t size,
			    const struct beest_fence_trouble *trouble)
{
	if (trouble->error)
		texts_are_clean(trouble->text, sizeof(trouble->text));
	else
		HOLDS(size == record->size && !memcmp(bytes, record->body, size));
}

static void member_encodes_back(const struct beest_record *record)
{
	struct beest_member_body body, same;
	struct beest_record again = *record;
	uint8_t *bytes;

	if (beest_record_member_decode(record, &body) < 0)
		return;
	HOLDS(body.value + body.size == record->body + record->size && body.shown <= body.size);
	bytes = malloc(BEEST_MEMBER_MAX(body.size));
	again.body = bytes;
	again.size = (size_t)beest_record_member_encode(&body, bytes);
	HOLDS(again.size <= BEEST_MEMBER_MAX(body.size));
	same_or_escaped(record, bytes, again.size, &body.refusal);
	HOLDS(beest_record_member_decode(&again, &same) == 0);
	HOLDS(!strcmp(same.refusal.text, body.refusal.text) && same.view == body.view);
	HOLDS(same.size == body.size && !memcmp(same.value, body.value, body.size));
	free(bytes);
}

static void leader_encodes_back(const struct beest_record *record)
{
	struct beest_leader_body body, same;
	struct beest_record again = *record;
	uint8_t *bytes;

	if (beest_record_leader_decode(record, &body) < 0)
		return;
	HOLDS(body.chunks + body.chunks_size == record->body + record->size);
	HOLDS(body.range_count <= BEEST_FENCE_RANGES);
	HOLDS(body.chunk_count <= body.chunks_size / 8 ||
	      (body.chunk_count > BEEST_FENCE_DIGESTS && body.chunks_size >= 8));
	bytes = malloc(BEEST_LEADER_MAX(body.chunks_size));
	again.body = bytes;
	again.size = (size_t)beest_record_leader_encode(&body, bytes);
	HOLDS(again.size <= BEEST_LEADER_MAX(body.chunks_size));
	same_or_escaped(record, bytes, again.size, &body.failure);
	HOLDS(beest_record_leader_decode(&again, &same) == 0);
	HOLDS(!strcmp(same.failure.text, body.failure.text) && same.proposed == body.proposed);
	HOLDS(!memcmp(same.missing, body.missing, sizeof(body.missing)));
	if (!body.chunk_count)
		entries_encode_back(body.chunks, body.chunks_size);
	free(bytes);
}

/* Encoding an accepted record again gives the same bytes. */
static void encodes_back(const struct beest_record *record, const uint8_t *bytes, size_t size)
{
	uint8_t *again = malloc(size);

	HOLDS(beest_record_encode(NULL, record, KEY, again, size) == (int)size);
	HOLDS(!memcmp(again, bytes, size));
	beest_record_close(NULL, again, size, KEY);
	HOLDS(again[5] == (record->flags | BEEST_RECORD_CLOSED));
	free(again);
}

static void decode(uint8_t *bytes, size_t size)
{
	static const char kinds[] = "rmqsefhg";
	struct beest_record record;
	size_t i, accepted = 0;

	for (i = 0; kinds[i]; i++) {
		if (beest_record_decode(NULL, bytes, size, (enum beest_record_kind)kinds[i], KEY,
					&record) < 0) {
			HOLDS(beest_error_text()[0]);
			continue;
		}
		accepted++;
		HOLDS(record.body >= bytes && record.body + record.size + 4 == bytes + size);
		encodes_back(&record, bytes, size);
		qp_encodes_back(&record);
		rank_encodes_back(&record);
		plain_bodies_encode_back(&record);
		member_encodes_back(&record);
		leader_encodes_back(&record);
		entries_encode_back(record.body, record.size);
	}
	HOLDS(accepted <= 1);
	HOLDS((beest_record_decode(NULL, bytes, size, BEEST_KIND_ANY, KEY,
				   &record) == 0) >= accepted);
}

/* Random bytes have no right checksum, so a second try corrects it. */
static void correct_sum(uint8_t *bytes, size_t size)
{
	uint32_t sum = beest_hash_crc32(beest_hash_crc32(0, KEY, strlen(KEY)), bytes, size - 4);
	int i;

	for (i = 1; i <= 4; i++) {
		bytes[size - (size_t)i] = (uint8_t)sum;
		sum >>= 8;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size);

	if (size)
		memcpy(copy, data, size);
	decode(copy, size);
	if (size >= 4) {
		correct_sum(copy, size);
		decode(copy, size);
	}
	free(copy);
	return 0;
}
