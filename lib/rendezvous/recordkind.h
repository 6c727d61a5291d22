/* SPDX-License-Identifier: MIT */
/*
 * recordkind.h - the kinds of records
 *
 * Owns the table of their letters and words, and of what a lease does with each.  Knows nothing of
 * their bodies (record.h).
 */
#ifndef BEEST_RECORDKIND_H
#define BEEST_RECORDKIND_H

#include <stdbool.h>
#include <stddef.h>

/* The letter is part of the record, the word part of the key: hb1/JOB/WORD/NAME. */
enum beest_record_kind {
	BEEST_KIND_ANY = 0,		/* for decoding: any kind */
	BEEST_KIND_RANK = 'r',		/* "rank": a process that takes part */
	BEEST_KIND_MR = 'm',		/* "mr": a memory region */
	BEEST_KIND_QP = 'q',		/* "qp": a queue pair, and whom it is connected to */
	BEEST_KIND_MESSAGE = 's',	/* "msg" */
	BEEST_KIND_MEMBER = 'e',	/* "fence": a rank that takes part, by itself */
	BEEST_KIND_LEADER = 'f',	/* "fence": what the first rank decides */
	BEEST_KIND_CHUNK = 'h',		/* "fence": what some ranks contribute */
	BEEST_KIND_NUMBERS = 'g',	/* "fence": queue pair numbers of a mesh */
	BEEST_KIND_SERVICE = 'l',	/* "service": an entry in the list of a service */
	BEEST_KIND_REQUEST = 'c',	/* "service", too: a client's request */
	BEEST_KIND_COUNTER = 'n',	/* "counter": only its key; its value is no record */
};

/* What becomes of a record at the end; one that is kept expires on its server. */
enum beest_record_ending {
	BEEST_RECORD_ENDS_DELETED,
	BEEST_RECORD_ENDS_CLOSED,
	BEEST_RECORD_STAYS,
};

struct beest_record_row {
	enum beest_record_kind kind;
	const char *word;	/* in keys: "qp" */
	const char *noun;	/* in sentences: "queue pair" */
	/* Of a lease: */
	bool in_turn;		/* read in turn and renewed by it; else its owner does that */
	bool taken;		/* readers may delete it: absence is no loss, writes are answered */
	bool read_back;		/* reading it shows whether the write was carried out */
	enum beest_record_ending ending;
};

/* The row of a kind; of one that this version does not know, the row of unknown kinds. */
const struct beest_record_row *beest_record_row(enum beest_record_kind kind);

/* The row number @i, from 0; NULL: there are no more. */
const struct beest_record_row *beest_record_row_at(size_t i);

#endif
