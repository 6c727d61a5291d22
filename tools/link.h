/* SPDX-License-Identifier: MIT */
/*
 * link.h - one end of a ping: its objects, and how they are brought up step by step
 *
 * Owns the queue pair, its queues and its region, and the table of steps with what to do
 * when one fails.  Knows nothing of how the ends found each other.
 */
#ifndef TOOLS_LINK_H
#define TOOLS_LINK_H

#include <hartebeest.h>

#include "tools/meet.h"
#include "tools/pinger.h"
#include "tools/steps.h"

/* The name of its queue pair. */
#define LINK_NAME "ping"

struct link {
	/* in */
	struct hartebeest_context *hb;
	const struct meeting *meeting;	/* its plan and its keys */
	/* out */
	struct pinger pinger;		/* ready once the link is up */
	struct hartebeest_remote_qp peer;	/* as fetched */
	char who[256];			/* the other end: as in the meeting, then as fetched */
	char note[1024];		/* what the last step found, or why it failed */
	const char *cure;		/* of the step that failed */
};

/*
 * Takes all steps until both ends are connected.  Returns 0, or the negative errno of the step that
 * failed, which is left for the caller to report.  @wait: how long a deadline of INT64_MAX may
 * take at a time, so that @goes_on decides whether to wait again.
 */
int link_up(struct link *link, struct steps *steps, int64_t deadline, int64_t wait,
	    bool (*goes_on)(void *data), void *data);

/* Destroys its objects, whichever were created. */
void link_down(struct link *link);

/* The largest message that this plan can send here, in bytes; 0: unknown. */
uint32_t link_largest(const struct link *link);

#endif
