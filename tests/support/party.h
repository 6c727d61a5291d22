/* SPDX-License-Identifier: MIT */
/*
 * party.h - contexts of many ranks in one thread, over the fake device and servers
 *
 * Owns opening them, each with a domain, a completion queue and what pairs need.  Each context
 * looks like a separate process.  Knows nothing of what is asserted.
 */
#ifndef TESTS_PARTY_H
#define TESTS_PARTY_H

#include <stdio.h>

#include "hartebeest.h"
#include "tests/support/crew.h"
#include "tests/support/fake-kv.h"
#include "tests/support/fake-verbs.h"

#define PARTY_RANKS 1024
#define PARTY_PAIRS 64
#define PARTY_REGIONS 4

struct party_member {
	struct hartebeest_context *hb;
	int rank;
	size_t count;				/* number of pairs */
	struct hartebeest_pair pairs[PARTY_PAIRS];
	char names[PARTY_PAIRS][3][24];		/* queue pair, own key, peer's key */
	struct hartebeest_remote_mr regions[PARTY_PAIRS][PARTY_REGIONS];
	char key[24];

	/* of party_connect() */
	int64_t delay, deadline, began, ended;
	int ret;
	char error[1024];
};

extern struct party_member party[PARTY_RANKS];

/* For setup and teardown. */
void party_start(void);
void party_end(void);

/* The teardown of a test with a crew; fails if the test left objects open. */
static inline int party_teardown(void **state)
{
	(void)state;
	crew_clear();
	party_end();
	if (fake_verbs.open)
		fprintf(stderr, "%d objects are still open\n", fake_verbs.open);
	return fake_verbs.open;
}

/* Opens a context with "pd", "cq" and regions "mr0" to "mr3"; @setting: "NAME=VALUE ..." or NULL */
struct party_member *party_open(int slot, int rank, int size, const char *setting);
void party_close(struct party_member *member);

/* Ends a context as if its process were killed. */
void party_kill(struct party_member *member);

/* Adds a pair of that type, to rank @peer; its queue pair is "qRANK-PEER". */
struct hartebeest_pair *party_pair(struct party_member *member, int peer, int type);

/* The pair offers the first @count regions, and has room for so many of its peer. */
void party_offer(struct hartebeest_pair *pair, uint32_t count, uint32_t room);

/* Runs hartebeest_pairs_connect() for all its pairs; a member of a crew. */
void party_connect(void *member);

/* The registry's key-value handle, for hooks. */
const void *party_kv(const struct party_member *member);

#endif
