/* SPDX-License-Identifier: MIT */
/*
 * records.h - what is stored on the servers for a job, decoded
 *
 * Owns the reading, the words for a record, and the judgement whether a rank is alive.  Knows
 * the form of records from lib/rendezvous/record.h.
 */
#ifndef TOOLS_RECORDS_H
#define TOOLS_RECORDS_H

#include <hartebeest.h>

#include "lib/rendezvous/record.h"
#include "lib/seal/seal.h"
#include "tools/out.h"
#include "tools/store.h"

struct records_record {
	char *key;			/* all of it, "hb1/JOB/rank/0" */
	const char *name;		/* within key: "rank/0" */
	int server;			/* of struct records */
	int64_t left;			/* seconds until it expires; -1: never */
	uint8_t *bytes;
	size_t size;
	int ret;			/* of decoding it */
	struct beest_record record;
	bool is_unopened;		/* it is sealed, and not by the secret of these settings */
	/* of presences, "rank/..." */
	bool is_presence;
	struct beest_rank_body rank;
	bool is_alive;			/* as far as known: it was renewed, and its process runs */
	const char *life;		/* "present", "has left" */
};

#define RECORDS_SERVERS 64

struct records {
	int64_t ttl;			/* seconds: exchange.ttl of these settings */
	int server_count;
	struct beest_hostport *servers;
	struct beest_seal *seal;	/* NULL: these settings have no secret */
	struct store_listing listings[RECORDS_SERVERS];
	struct records_record *list;	/* by key */
	size_t count;
};

/*
 * @job: NULL: keys of all jobs, without reading them.  Returns a status, after saying why it
 * is not STATUS_GOOD.  For records_free() in either case.
 */
int records_read(struct out *out, struct hartebeest_context *hb, const char *job,
		 struct records *records);
void records_free(struct records *records);

/* What the record says, as "RC at 10.0.0.1 qp 17, connected to rank 1". */
void records_text(const struct records *records, const struct records_record *record,
		  char *text, size_t size);

/* Warnings where presences disagree about who takes part or which servers there are. */
void records_check(struct out *out, const struct records *records);

#endif
