/* SPDX-License-Identifier: MIT */
/*
 * export.c - see export.h
 *
 * The bytes, with integers in big-endian order:
 *
 *   offset  bytes  content
 *        0      3  "HBX"
 *        3      1  version, 1
 *        4      4  their number, from offset 0 on; what follows them is not read
 *        8      2  number of pairs
 *
 * For each pair follow the size of its key (2 bytes), that of its record (4), the key and the
 * record, as they would be on a server.
 */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/codec.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/core/bringup.h"
#include "lib/core/export.h"
#include "lib/core/pairset.h"
#include "lib/verbs/retry.h"

#define EXPORT_VERSION 1

struct head {
	uint8_t magic[3];
	uint8_t version;
	uint32_t size;
	uint16_t count;
};

static const struct beest_codec_field export_rows[] = {
	BEEST_CODEC_ROW(head, magic, BYTES),
	BEEST_CODEC_ROW(head, version, UINT),
	BEEST_CODEC_ROW(head, size, UINT),
	BEEST_CODEC_ROW(head, count, UINT),
};
static const struct beest_codec_layout export_layout = BEEST_CODEC_LAYOUT(export_rows);

struct item {
	uint16_t key_size;
	uint32_t record_size;
	const uint8_t *key, *record;	/* within the bytes */
};

static const struct beest_codec_field item_rows[] = {
	BEEST_CODEC_ROW(item, key_size, UINT),
	BEEST_CODEC_ROW(item, record_size, UINT),
};
static const struct beest_codec_layout item_layout = BEEST_CODEC_LAYOUT(item_rows);

/* Of one pair, with its key. */
#define ITEM_MAX (6 + BEEST_KEY_MAX + BEEST_QP_BODY_MAX + BEEST_RECORD_EMPTY_MAX)

_Static_assert(ITEM_MAX - UINT8_MAX * BEEST_REGION_SIZE <= 1024 && BEEST_REGION_SIZE == 24,
	       "HARTEBEEST_EXPORT_SIZE() is too small");

/* --------------------------------------------------------------------- to export --- */

/* Returns the size of the item, or a negative errno. */
static int item_encode(struct beest_handshake *pairing, uint8_t bytes[ITEM_MAX])
{
	const struct hartebeest_context *hb = pairing->hb;
	const struct beest_qp *qp = pairing->qp;
	const char *key = pairing->own_key;
	const struct beest_qp_body body = qp->refusal ?
		beest_handshake_body(qp, &qp->remote, qp->refusal) :
		beest_handshake_body(qp, NULL, "");
	uint8_t plain[BEEST_QP_BODY_MAX];
	struct beest_record record = {
		.kind = BEEST_KIND_QP, .incarnation = hb->incarnation, .rank = hb->launch.rank,
		.body = plain,
	};
	struct item item;
	int used, ret;

	ret = beest_registry_key_of(hb->launch.job, BEEST_KIND_QP, pairing->pair->key,
				    pairing->own_key);
	if (ret < 0)
		return ret;
	record.size = (size_t)beest_record_qp_encode(&body, qp->regions, &record.flags, plain);
	used = (int)beest_codec_size(&item_layout);
	item.key_size = (uint16_t)strlen(key);
	memcpy(bytes + used, key, item.key_size);
	used += item.key_size;
	ret = beest_record_encode(hb->seal, &record, key, bytes + used, (size_t)(ITEM_MAX - used));
	if (ret < 0)
		return ret;
	item.record_size = (uint32_t)ret;
	beest_codec_encode(&item_layout, &item, bytes, (size_t)used);

	return used + ret;
}

/* Those who import it send to a UD queue pair at once. */
static int pair_export(struct beest_handshake *pairing, uint8_t bytes[ITEM_MAX])
{
	const struct beest_limit limit = beest_context_limit(pairing->hb);
	int ret;

	pairing->qp->by_bytes = true;
	ret = beest_pairing_start(pairing, &limit);
	if (ret == 0)
		ret = beest_bringup_serve(pairing->hb, pairing->qp, &limit);

	return ret < 0 ? ret : item_encode(pairing, bytes);
}

/* Returns the size of all, which @bytes has room for, or a negative errno. */
static int set_export(struct beest_pairset *set, uint8_t *bytes)
{
	struct head head = { .magic = { 'H', 'B', 'X' }, .version = EXPORT_VERSION,
			     .count = (uint16_t)set->count };
	size_t i, used = beest_codec_size(&export_layout);
	int ret;

	for (i = 0; i < set->count; i++) {
		if (set->list[i].pair->result < 0)
			continue;
		ret = pair_export(&set->list[i], bytes + used);
		if (ret < 0)
			beest_pairing_fail(set->list[i].pair, ret);
		else
			used += (size_t)ret;
	}
	head.size = (uint32_t)used;
	beest_codec_encode(&export_layout, &head, bytes, beest_codec_size(&export_layout));
	ret = beest_pairset_result(set, NULL);

	return ret < 0 ? ret : (int)used;
}

/* As much as the caller has room for, or only the size. */
static int hand_out(const uint8_t *from, size_t used, void *bytes, size_t *size)
{
	const size_t room = *size;

	*size = used;
	if (!bytes)
		return 0;
	if (used > room)
		return beest_fail(EMSGSIZE, "what is exported has %zu bytes, but there is room for "
				  "%zu", used, room);
	memcpy(bytes, from, used);

	return 0;
}

#define COUNT_MAX UINT16_MAX

int beest_export(struct hartebeest_context *hb, struct hartebeest_pair *pairs, size_t count,
		 void *bytes, size_t *size)
{
	struct beest_pairset set = { .hb = hb };
	uint8_t *all = NULL;
	int ret;

	if (count > COUNT_MAX)
		return beest_fail(EINVAL, "%zu pairs are too many: at most %d are possible", count,
				  COUNT_MAX);
	ret = beest_pairset_open(&set, hb, pairs, count, true);
	if (ret == 0)
		ret = beest_context_need_identity(hb);
	if (ret == 0)
		all = malloc(beest_codec_size(&export_layout) + count * ITEM_MAX);
	if (ret == 0 && !all)
		ret = beest_fail(ENOMEM, "no memory to export %zu pairs", count);
	ret = ret < 0 ? beest_pairset_refuse(&set, ret) : set_export(&set, all);
	if (ret >= 0)
		ret = hand_out(all, (size_t)ret, bytes, size);
	free(all);
	beest_pairset_close(&set);

	return ret;
}

/* --------------------------------------------------------------------- to import --- */

/* What a program has received. */
struct import {
	struct hartebeest_context *hb;
	const struct beest_limit *limit;
	struct head head;
	const uint8_t *bytes;
	size_t size;			/* as the head has it */
};

/* Takes the item at offset *@at, and goes to the next.  -EBADMSG: it would end too late. */
static int item_take(const struct import *import, size_t *at, struct item *item)
{
	const uint8_t *bytes = import->bytes + *at;
	size_t left = import->size - *at;

	if (beest_codec_decode(&item_layout, bytes, left, item) < 0)
		return beest_fail(EBADMSG, "the bytes end within a pair");
	bytes += beest_codec_size(&item_layout);
	left -= beest_codec_size(&item_layout);
	if (item->key_size > left || item->record_size > left - item->key_size)
		return beest_fail(EBADMSG, "the bytes end within a pair");
	item->key = bytes;
	item->record = bytes + item->key_size;
	*at = (size_t)(item->record - import->bytes) + item->record_size;

	return 0;
}

static int head_check(struct import *import, size_t size)
{
	const struct head *head = &import->head;

	if (beest_codec_decode(&export_layout, import->bytes, size, &import->head) < 0 ||
	    memcmp(head->magic, "HBX", sizeof(head->magic)) != 0)
		return beest_fail(EBADMSG, "these are not bytes of hartebeest_qp_export()%s", size ?
				  "" : ": there are none");
	if (head->version != EXPORT_VERSION)
		return beest_fail(EPROTONOSUPPORT, "bytes of version %d; this library understands "
				  "version %d only", head->version, EXPORT_VERSION);
	if (head->size > size)
		return beest_fail(EBADMSG, "only %zu bytes of %" PRIu32 " that were exported have "
				  "arrived", size, head->size);
	import->size = head->size;

	return 0;
}

/* Are there as many pairs as the head has, and nothing else? */
static int items_check(const struct import *import)
{
	size_t i, at = beest_codec_size(&export_layout);
	struct item item;
	int ret = 0;

	for (i = 0; i < import->head.count && ret == 0; i++)
		ret = item_take(import, &at, &item);

	return ret < 0 || at == import->size ? ret :
	       beest_fail(EBADMSG, "the bytes do not end with the last pair");
}

/* Finds what the peer has exported under this key. */
static int item_find(const struct import *import, const char *key, struct item *item)
{
	struct beest_text there = BEEST_TEXT(300);
	size_t i, at = beest_codec_size(&export_layout);

	for (i = 0; i < import->head.count; i++) {
		item_take(import, &at, item);
		if (item->key_size == strlen(key) && memcmp(item->key, key, item->key_size) == 0)
			return 0;
		beest_text_add(&there, "%s%.*s", i ? ", " : "", (int)item->key_size,
			       (const char *)item->key);
	}

	return beest_fail(ENOENT, "the peer did not export %s; these bytes are of %s", key,
			  there.used ? there.buffer : "no pair");
}

/* Finds the item of the peer, and opens its record in @copy, which has room for it. */
static int item_decode(const struct import *import, struct beest_handshake *pairing,
		       uint8_t copy[ITEM_MAX], struct beest_record *record)
{
	struct item item;
	int ret;

	ret = beest_registry_key_of(import->hb->launch.job, BEEST_KIND_QP,
				    pairing->pair->peer_key, pairing->key);
	if (ret == 0)
		ret = item_find(import, pairing->key, &item);
	if (ret < 0)
		return ret;
	if (item.record_size > ITEM_MAX)
		return beest_fail(EBADMSG, "a record of %" PRIu32 " bytes is not one of a queue "
				  "pair", item.record_size);
	memcpy(copy, item.record, item.record_size);
	ret = beest_record_decode(import->hb->seal, copy, item.record_size, BEEST_KIND_QP,
				  pairing->key, record);

	return ret < 0 ? ret : beest_record_qp_decode(record, &pairing->peer);
}

/* Could these bytes be those of the peer, as it is now? */
static int peer_check(const struct beest_handshake *pairing)
{
	const struct beest_qp *qp = pairing->qp;
	const struct beest_endpoint *connected = beest_qp_remote(qp, pairing->pair->peer_key);
	const struct beest_endpoint *remote = &pairing->peer.endpoint;
	struct beest_connection path;
	int ret;

	if (beest_process_is_context(&remote->incarnation, &pairing->hb->incarnation) &&
	    remote->qp_num == qp->local.endpoint.qp_num)
		return beest_fail(EINVAL, "these are the bytes of this end itself");
	if (connected && beest_process_is_context(&remote->incarnation, &connected->incarnation) &&
	    remote->generation < connected->generation)
		return beest_fail(ESTALE, "these bytes are older than those of the same peer that "
				  "were imported before");
	if (!beest_handshake_is_refused(pairing))
		return 0;
	/* If both ends disagree, this end knows how by itself. */
	ret = beest_qp_agree(qp, remote, &path);

	return ret < 0 ? ret : beest_fail(ECONNABORTED, "the peer could not connect to this queue "
					  "pair: %s", pairing->peer.reason);
}

/* Remembers why, for the next export. */
static void refusal_keep(struct beest_qp *qp, const struct beest_endpoint *remote, int ret)
{
	char *reason = strdup(beest_error_text());

	if (ret == -EAGAIN || ret == -EISCONN || ret == -ECANCELED || !reason) {
		free(reason);
		return;
	}
	free(qp->refusal);
	qp->refusal = reason;
	qp->remote = *remote;
}

static int peer_connect(struct beest_handshake *pairing, const struct beest_limit *limit)
{
	const struct beest_endpoint *remote = &pairing->peer.endpoint;
	const char *peer_key = pairing->pair->peer_key;
	struct beest_qp *qp = pairing->qp;
	int ret = 0;

	if (beest_handshake_is_connected(pairing))
		return 0;
	if (beest_qp_remote(qp, peer_key))
		ret = beest_handshake_begin_again(pairing);
	if (ret == 0)
		do
			ret = beest_qp_connect(qp, peer_key, remote, limit, NULL);
		while (beest_retry(&ret, limit, &pairing->hb->log));
	if (ret < 0) {
		refusal_keep(qp, remote, ret);
		return beest_fail_prefix(ret, "%s", BEEST_PEER_TEXT(remote));
	}
	free(qp->refusal);
	qp->refusal = NULL;

	return 0;
}

/* 1: the peer is connected to this very queue pair; 0: this end to the peer. */
static int pair_import(const struct import *import, struct beest_handshake *pairing,
		       uint8_t copy[ITEM_MAX])
{
	struct beest_record record;
	int ret = item_decode(import, pairing, copy, &record);

	if (ret < 0)
		return ret;
	pairing->qp->by_bytes = true;
	ret = beest_pairing_start(pairing, import->limit);
	if (ret == 0)
		ret = peer_check(pairing);
	if (ret == 0)
		ret = peer_connect(pairing, import->limit);
	if (ret < 0)
		return ret;
	beest_handshake_take_regions(pairing, &record);
	beest_pairing_end(pairing);

	return pairing->pair->result < 0 ? pairing->pair->result :
	       beest_handshake_is_confirmed(pairing);
}

/* Returns how many pairs the bytes do not confirm. */
static int set_import(struct beest_pairset *set, const struct import *import)
{
	uint8_t *copy = malloc(ITEM_MAX);
	size_t i;
	int ret, left = 0;

	if (!copy)
		return beest_pairset_refuse(set, beest_fail(ENOMEM, "no memory for a record"));
	for (i = 0; i < set->count; i++) {
		if (set->list[i].pair->result < 0)
			continue;
		ret = pair_import(import, &set->list[i], copy);
		if (ret < 0)
			beest_pairing_fail(set->list[i].pair, ret);
		left += ret == 0;
	}
	free(copy);
	ret = beest_pairset_result(set, NULL);

	return ret < 0 ? ret : left;
}

int beest_import(struct hartebeest_context *hb, struct hartebeest_pair *pairs, size_t count,
		 const void *bytes, size_t size, const struct beest_limit *limit)
{
	struct import import = { .hb = hb, .limit = limit, .bytes = bytes };
	struct beest_pairset set;
	int ret;

	ret = beest_pairset_open(&set, hb, pairs, count, false);
	if (ret == 0)
		ret = beest_context_need_identity(hb);
	if (ret == 0)
		ret = head_check(&import, size);
	if (ret == 0)
		ret = items_check(&import);
	ret = ret < 0 ? beest_pairset_refuse(&set, ret) : set_import(&set, &import);
	beest_pairset_close(&set);

	return ret;
}
