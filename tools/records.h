/* SPDX-License-Identifier: MIT */
/*
 * records.h - the keys that the servers have for a job, with decoded records
 *
 * Owns reading them, the text for a record, and the judgement whether a rank is alive.  Knows
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
	char *key;			/* the whole key, "hb1/JOB/rank/0" */
	const char *name;		/* within key: "rank/0" */
	int server;			/* index in servers of struct records */
	int64_t left;			/* seconds until it expires; -1: never */
	uint8_t *bytes;
	size_t size;
	int ret;			/* of decoding it */
	struct beest_record record;
	bool is_unopened;		/* sealed, and could not be opened with these settings */
	/* of presences, "rank/..." */
	bool is_presence;
	struct beest_rank_body rank;
	bool is_alive;			/* its process runs, or, if unknown: renewed in time */
	const char *life;		/* "present", "has left" */
};

#define RECORDS_SERVERS 64

struct records {
	int64_t ttl;			/* seconds: exchange.ttl of these settings */
	int server_count;
	struct beest_hostport *servers;
	struct beest_seal *seal;	/* NULL: these settings have no secret */
	struct store_listing listings[RECORDS_SERVERS];
	struct records_record *list;	/* sorted by key, then by server */
	size_t count;
};

/*
 * Reads the records of @job; NULL: lists the keys of all jobs, without their values.  Returns a
 * status, after reporting why it is not STATUS_GOOD.  Free @records by records_free() in any
 * case.
 */
int records_read(struct out *out, struct hartebeest_context *hb, const char *job,
		 struct records *records);
void records_free(struct records *records);

/* Describes the record, as "RC qp 17, ..., connected to qp 18 of rank 1". */
void records_text(const struct records *records, const struct records_record *record,
		  char *text, size_t size);

/* Warns where presences disagree about the participants or the servers. */
void records_check(struct out *out, const struct records *records);

#endif
