/* SPDX-License-Identifier: MIT */
/* recordkind.c - see recordkind.h */
#include "config.h"

#include "lib/base/macro.h"
#include "lib/rendezvous/recordkind.h"

#define DELETED BEEST_RECORD_ENDS_DELETED
#define CLOSED BEEST_RECORD_ENDS_CLOSED
#define STAYS BEEST_RECORD_STAYS

static const struct beest_record_row record_rows[] = {
	/*                                              in_turn taken  read_back ending */
	{ BEEST_KIND_RANK, "rank", "rank",             false,  false, false,    STAYS },
	{ BEEST_KIND_MR, "mr", "region",               true,   false, true,     DELETED },
	{ BEEST_KIND_QP, "qp", "queue pair",           true,   false, true,     CLOSED },
	{ BEEST_KIND_MESSAGE, "msg", "message",        false,  true,  false,    STAYS },
	{ BEEST_KIND_MEMBER, "fence", "barrier",       true,   false, true,     STAYS },
	{ BEEST_KIND_LEADER, "fence", "barrier",       true,   false, false,    STAYS },
	{ BEEST_KIND_CHUNK, "fence", "barrier",        true,   false, true,     DELETED },
	{ BEEST_KIND_NUMBERS, "fence", "mesh",         true,   false, false,    DELETED },
	{ BEEST_KIND_SERVICE, "service", "service",    false,  false, false,    STAYS },
	{ BEEST_KIND_REQUEST, "service", "service",    true,   false, true,     DELETED },
	{ BEEST_KIND_COUNTER, "counter", "counter",    false,  false, false,    STAYS },
};

const struct beest_record_row *beest_record_row_at(size_t i)
{
	return i < BEEST_COUNT(record_rows) ? &record_rows[i] : NULL;
}

const struct beest_record_row *beest_record_row(enum beest_record_kind kind)
{
	static const struct beest_record_row unknown = {
		.word = "unknown", .noun = "unknown", .ending = STAYS,
	};
	size_t i = 0;

	while (i < BEEST_COUNT(record_rows) && record_rows[i].kind != kind)
		i++;

	return i < BEEST_COUNT(record_rows) ? &record_rows[i] : &unknown;
}
