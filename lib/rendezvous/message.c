/* SPDX-License-Identifier: MIT */
/* message.c - see message.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/rendezvous/message.h"
#include "lib/base/text.h"

/* ------------------------------------------------------------ messages --- */

int beest_message_push(struct beest_board *board, const char *key, const void *data,
		       size_t size)
{
	if (size > BEEST_MESSAGE_MAX)
		return beest_fail(EMSGSIZE, "message '%s' has %zu bytes; at most %d fit into a "
				  "Memcached value", key, size, BEEST_MESSAGE_MAX);

	return beest_board_publish(board, BEEST_KIND_MESSAGE, key, data, size);
}

static int take(const struct beest_record *record, const char *key, void *buffer, size_t size,
		size_t *length)
{
	if (length)
		*length = record->payload_size;
	if (size == 0)
		return 0;
	if (record->payload_size > size)
		return beest_fail(EMSGSIZE, "message '%s' has %zu bytes, the buffer %zu", key,
				  record->payload_size, size);

	if (record->payload_size)
		memcpy(buffer, record->payload, record->payload_size);
	return 0;
}

int beest_message_wait(struct beest_board *board, const char *key, void *buffer, size_t size,
		       size_t *length)
{
	struct beest_wish wish = { .kind = BEEST_KIND_MESSAGE, .name = key };
	int ret;

	ret = beest_board_wait(board, &wish, 1, NULL, NULL);
	if (ret < 0)
		return ret;

	ret = take(&wish.record, key, buffer, size, length);
	beest_wishes_free(&wish, 1);
	return ret;
}

int beest_message_delete(struct beest_board *board, const char *key)
{
	return beest_board_remove(board, BEEST_KIND_MESSAGE, key);
}

/* ------------------------------------------------------------- barrier --- */

static int destroy(struct beest_node *node)
{
	free(BEEST_CONTAINER(node, struct beest_barrier, node));
	return 0;
}

const struct beest_kind beest_barrier_kind = { "barrier", destroy };

int beest_barrier_create(struct beest_barrier **barrier)
{
	*barrier = calloc(1, sizeof(**barrier));
	return *barrier ? 0 : beest_fail(ENOMEM, "no memory for a barrier");
}

/*
 * Each rank publishes a digest of the incarnations it has seen of all ranks, 0 while
 * some are missing.  The barrier is passed when all digests are one's own.  A
 * leftover of a former run cannot have that digest, since one's own incarnation is
 * part of it; when the live rank replaces the leftover, everybody's digest follows.
 */
struct arrival {
	struct beest_author author;
	uint64_t digest;
	bool seen;
	char name[BEEST_KEY_MAX + 1];
};

struct gathering {
	struct beest_board *board;
	const char *name;		/* of one's own record */
	struct arrival *arrivals;
	size_t count;
	uint64_t generation;
	uint64_t digest;		/* published */
};

/* FNV-1a over the incarnations in order of rank; never 0. */
static uint64_t digest_of(const struct gathering *gathering)
{
	const struct beest_incarnation *incarnation;
	uint64_t digest = UINT64_C(14695981039346656037);
	size_t i, byte;

	for (i = 0; i < gathering->count; i++) {
		if (!gathering->arrivals[i].seen)
			return 0;
		incarnation = &gathering->arrivals[i].author.incarnation;
		for (byte = 0; byte < BEEST_INCARNATION_SIZE; byte++)
			digest = (digest ^ incarnation->bytes[byte]) *
				 UINT64_C(1099511628211);
	}

	return digest | 1;
}

static int see_arrival(void *data, const struct beest_record *record)
{
	struct arrival *arrival = data;
	struct beest_barrier_payload payload;
	int ret;

	ret = beest_codec_decode(&beest_barrier_layout, record->payload,
				 record->payload_size, &payload);
	if (ret < 0)
		return ret;

	arrival->author = record->author;
	arrival->digest = payload.digest;
	arrival->seen = true;
	return 0;			/* after_look() decides, over all of them */
}

static bool all_agree(const struct gathering *gathering)
{
	size_t i;

	for (i = 0; i < gathering->count; i++)
		if (gathering->arrivals[i].digest != gathering->digest)
			return false;

	return gathering->digest != 0;
}

static int announce(struct gathering *gathering)
{
	struct beest_barrier_payload payload = {
		.generation = gathering->generation,
		.digest = gathering->digest,
	};
	uint8_t bytes[BEEST_PAYLOAD_MAX];
	int size;

	size = beest_codec_encode(&beest_barrier_layout, &payload, bytes, sizeof(bytes));
	return size < 0 ? size : beest_board_publish(gathering->board, BEEST_KIND_BARRIER,
						     gathering->name, bytes, (size_t)size);
}

static int after_look(void *data)
{
	struct gathering *gathering = data;
	uint64_t digest = digest_of(gathering);

	if (digest != gathering->digest) {
		gathering->digest = digest;
		return announce(gathering);
	}

	return all_agree(gathering);
}

static int name_record(char *name, size_t size, const char *barrier, uint64_t generation,
		       int rank)
{
	int length = snprintf(name, size, "%s/%" PRIu64 "/%d", barrier, generation, rank);

	return length < (int)size ? 0 : beest_fail(ENAMETOOLONG, "the barrier's name '%s' is "
						   "too long for a key", barrier);
}

static int prepare(struct gathering *gathering, struct beest_wish *wishes,
		   const char *barrier, const struct beest_ids *ranks, int rank)
{
	struct arrival *arrival;
	size_t i;
	int ret;

	for (i = 0; i < gathering->count; i++) {
		arrival = &gathering->arrivals[i];
		ret = name_record(arrival->name, sizeof(arrival->name), barrier,
				  gathering->generation, ranks->id[i]);
		if (ret < 0)
			return ret;
		if (ranks->id[i] == rank)
			gathering->name = arrival->name;
		wishes[i].kind = BEEST_KIND_BARRIER;
		wishes[i].name = arrival->name;
		wishes[i].accept = see_arrival;
		wishes[i].data = arrival;
	}

	return 0;
}

/*
 * Whoever passes generation g has seen everybody in g, so everybody has left g - 1,
 * and nobody asks for its records again.
 */
static void forget_previous(struct beest_board *board, const struct beest_barrier *barrier,
			    int rank)
{
	char name[BEEST_KEY_MAX + 1];

	if (barrier->generation > 1 &&
	    name_record(name, sizeof(name), barrier->node.name, barrier->generation - 1,
			rank) == 0)
		beest_board_remove(board, BEEST_KIND_BARRIER, name);
}

/* What is known of a rank that is missing; the host and pid may be of a former run. */
static void describe(struct beest_text *text, const struct gathering *gathering,
		     const struct arrival *arrival, int rank)
{
	char key[BEEST_KEY_MAX + 1];

	beest_board_key(gathering->board, BEEST_KIND_BARRIER, arrival->name, key);
	if (arrival->seen)
		beest_text_add(text, "rank %d (key %s, last seen from host %s, pid %" PRIu32 ")",
			       rank, key, arrival->author.host, arrival->author.pid);
	else
		beest_text_add(text, "rank %d (key %s, never seen)", rank, key);
}

/*
 * Who has no record, or one that goes with another gathering than one's own: that of
 * a former run.  The records of those who wait as well say nothing of the matter.
 */
static int missing(const struct gathering *gathering, const struct beest_ids *ranks,
		   const struct beest_barrier *barrier)
{
	const struct arrival *arrival;
	struct beest_text text;
	size_t i, count = 0;
	char list[640];

	beest_text_start(&text, list, sizeof(list));
	for (i = 0; i < gathering->count; i++) {
		arrival = &gathering->arrivals[i];
		if (arrival->name == gathering->name ||
		    (arrival->seen && arrival->digest == gathering->digest))
			continue;
		if (count++)
			beest_text_add(&text, ", ");
		describe(&text, gathering, arrival, ranks->id[i]);
	}

	if (!count)			/* all came, and one's own last look was in vain */
		return beest_fail_prefix(-ETIMEDOUT, "barrier '%s', pass %" PRIu64,
					 barrier->node.name, gathering->generation);
	return beest_fail(ETIMEDOUT, "barrier '%s', pass %" PRIu64 ": %zu of %zu did not come "
			  "within exchange.timeout: %s", barrier->node.name,
			  gathering->generation, count, gathering->count, list);
}

int beest_barrier_wait(struct beest_board *board, struct beest_barrier *barrier,
		       const struct beest_ids *ranks, int rank)
{
	struct gathering gathering = { .board = board, .count = ranks->count };
	struct beest_wish *wishes;
	int ret;

	gathering.generation = ++barrier->generation;
	gathering.arrivals = calloc(ranks->count, sizeof(*gathering.arrivals));
	wishes = calloc(ranks->count, sizeof(*wishes));
	if (!gathering.arrivals || !wishes) {
		barrier->generation--;
		ret = beest_fail(ENOMEM, "no memory for a barrier of %zu ranks", ranks->count);
		goto out;
	}

	ret = prepare(&gathering, wishes, barrier->node.name, ranks, rank);
	if (ret == 0)
		ret = announce(&gathering);
	if (ret == 0)
		ret = beest_board_wait(board, wishes, ranks->count, after_look, &gathering);
	if (ret == 0)
		forget_previous(board, barrier, rank);
	beest_wishes_free(wishes, ranks->count);
	if (ret == -ETIMEDOUT)
		missing(&gathering, ranks, barrier);
	else if (ret < 0)
		beest_fail_prefix(ret, "barrier '%s', pass %" PRIu64, barrier->node.name,
				  gathering.generation);
	if (ret < 0)
		barrier->generation--;		/* may be tried again */
out:
	free(wishes);
	free(gathering.arrivals);
	return ret;
}
