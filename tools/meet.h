/* SPDX-License-Identifier: MIT */
/*
 * meet.h - how the two ends of a ping find each other
 *
 * Owns the four ways, who measures and who answers, and the exchange of plans.  Knows
 * nothing of queue pairs but the keys under which they will be.
 *
 *   ranks    a launcher has numbered the processes: the first pings each other one
 *   anybody  whoever calls last listens, and the one that listened before asks it: so two
 *            meet though neither knows which is first, and what a crash leaves is no matter
 *   listen   serves whoever asks under a name
 *   ask      asks whoever listens under a name
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

struct meeting {
	struct plan plan;		/* what both ends do */
	bool measures;			/* the other end answers */
	char key[HARTEBEEST_SERVICE_KEY];	/* of this end's objects and messages */
	char peer_key[HARTEBEEST_SERVICE_KEY];
	struct hartebeest_request request;	/* key "": there is none */
	char who[160];			/* the other end */
	char why[PLAN_TEXT];		/* to -EINVAL: the plans do not go together */
};

/* The first exchange with the servers.  Returns 0 or a negative errno of the library. */
int meet_begin(struct meet *meet, int64_t deadline);

/*
 * The next meeting: 1, 0: there is none any more (MEET_RANKS), or a negative errno; with
 * -EINVAL the meeting took place, and its why is set.
 */
int meet_next(struct meet *meet, struct meeting *meeting, int64_t deadline);

/* The other end may go: it gets @text by meet_told().  Also after hartebeest_cancel(). */
void meet_tell(struct meet *meet, const struct meeting *meeting, const char *text);

/* Looks once: 1, or 0. */
int meet_told(struct meet *meet, const struct meeting *meeting, char *text, size_t size);

/* Nothing of it is left on the server. */
void meet_part(struct meet *meet, struct meeting *meeting);

#endif
