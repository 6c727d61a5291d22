/* SPDX-License-Identifier: MIT */
/*
 * meet.h - how the two ends of a ping find each other
 *
 * Owns the four ways, which end measures and which answers, and the exchange of plans.  Knows
 * nothing of queue pairs but the keys for their records.
 *
 *   ranks    a launcher has numbered the processes: the first rank pings each other rank
 *   any      the last to arrive listens, and the listener before it becomes its client: so two
 *            meet though neither knows which is first, and what a crash leaves does no harm
 *   listen   serves all clients that ask for a name
 *   ask      is a client of the listener of a name
 */
#ifndef TOOLS_MEET_H
#define TOOLS_MEET_H

#include <stdbool.h>

#include <hartebeest.h>

#include "tools/plan.h"

enum meet_way {
	MEET_RANKS,
	MEET_ANYBODY,
	MEET_LISTEN,
	MEET_ASK,
};

struct meet {
	/* in */
	struct hartebeest_context *hb;
	enum meet_way way;
	const char *name;		/* of MEET_LISTEN and MEET_ASK */
	struct plan plan;		/* what this end wants */
	/* kept by meet.c */
	char service[100];
	int next;			/* MEET_RANKS: position of the next rank */
};

/* Bytes for what an end sends the other: a status, a blank, and the reason or the result. */
#define MEET_TOLD 700

struct meeting {
	struct plan plan;		/* what both ends do */
	bool measures;			/* this end does, and the other answers */
	char key[HARTEBEEST_SERVICE_KEY];	/* of this end's objects and messages */
	char peer_key[HARTEBEEST_SERVICE_KEY];
	struct hartebeest_client request;	/* key "": none */
	char who[160];			/* the other end */
	char why[MEET_TOLD];		/* for -EINVAL: why the plans do not agree */
};

/* Makes this end known on the servers.  Returns 0 or a negative errno of the library. */
int meet_begin(struct meet *meet, int64_t deadline);

/*
 * Waits for the next meeting.  Returns 1, 0 if there are no more (MEET_RANKS), or a negative
 * errno.  If the two met but their plans do not agree, or the other end has already given up, that
 * is -EINVAL and why is set.
 */
int meet_next(struct meet *meet, struct meeting *meeting, int64_t deadline);

/*
 * Lets the other end go, which gets @text by meet_told().  Works after hartebeest_cancel().
 * Returns 0 or a negative errno.
 */
int meet_tell(struct meet *meet, const struct meeting *meeting, const char *text);

/* The same for all ranks that this one would have met. */
void meet_tell_ranks(struct meet *meet, const char *text);

/* Looks once.  Returns 1 with what the other end sent, or 0. */
int meet_told(struct meet *meet, const struct meeting *meeting, char *text, size_t size);

/* What follows the status in what was sent. */
const char *meet_reason(const char *told);

/* Ends a meeting, and leaves nothing of it on the servers. */
void meet_part(struct meet *meet, struct meeting *meeting);

#endif
