/* SPDX-License-Identifier: MIT */
/* party.c - see party.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/context.h"
#include "tests/support/crew.h"
#include "tests/support/fake-process.h"
#include "tests/support/make.h"
#include "tests/support/party.h"
#include "tests/support/registry.h"
#include "tests/support/surroundings.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

struct party_member party[PARTY_RANKS];

/* Of the regions; mapping memory for each would cost more than the rest of a context. */
static char memory[PARTY_RANKS][PARTY_REGIONS][PARTY_REGIONS * 4096];

static const char *const region_names[PARTY_REGIONS] = { "mr0", "mr1", "mr2", "mr3" };

void party_start(void)
{
	surroundings_clear();
	registry_start();
	fake_verbs_reset();
}

void party_end(void)
{
	size_t i;

	fake_kv.hook = NULL;
	fake_verbs.hook = NULL;
	for (i = 0; i < PARTY_RANKS; i++)
		party_kill(&party[i]);
	registry_end();
}

static void must(int ret)
{
	if (ret == 0)
		return;
	fprintf(stderr, "party: %s\n", hartebeest_error());
	abort();
}

struct party_member *party_open(int slot, int rank, int size, const char *setting)
{
	struct party_member *member = &party[slot];
	char number[32], ranks[32], settings[200], *at = settings;
	const char *options[10] = {
		"exchange.servers=a:1", "job.id=job", number, ranks, "exchange.timeout=10s",
	};
	size_t i = 5;

	memset(member, 0, sizeof(*member));
	member->rank = rank;
	snprintf(number, sizeof(number), "job.rank=%d", rank);
	snprintf(ranks, sizeof(ranks), "job.participants=0-%d", size - 1);
	snprintf(settings, sizeof(settings), "%s", setting ? setting : "");
	while (at && *at)
		options[i++] = strsep(&at, " ");
	fake_process++;
	must(hartebeest_open(&member->hb, options));
	must(hartebeest_pd_create(member->hb, "pd", NULL));
	must(cq_make(member->hb, "cq", 0, 0, NULL));
	for (i = 0; i < PARTY_REGIONS; i++)
		must(mr_make_of(member->hb, region_names[i], "pd", memory[slot][i],
				4096 * (i + 1), ACCESS, NULL));
	return member;
}

void party_close(struct party_member *member)
{
	hartebeest_close(member->hb);
	member->hb = NULL;
}

void party_kill(struct party_member *member)
{
	if (member->hb && member->hb->registry) {
		registry_kill(member->hb->registry);
		member->hb->registry = NULL;
	}
	party_close(member);
}

struct hartebeest_pair *party_pair(struct party_member *member, int peer, int type)
{
	struct hartebeest_pair *pair = &member->pairs[member->count];
	char (*names)[24] = member->names[member->count];

	hartebeest_pair_init(pair);
	snprintf(names[0], sizeof(names[0]), "q%d-%d", member->rank, peer);
	snprintf(names[1], sizeof(names[1]), "%d/%d", member->rank, peer);
	snprintf(names[2], sizeof(names[2]), "%d/%d", peer, member->rank);
	must(qp_make(member->hb, names[0], "pd", type, "cq", "cq", NULL));
	pair->qp = names[0];
	pair->key = names[1];
	pair->peer_key = names[2];
	pair->regions = member->regions[member->count];
	member->count++;
	return pair;
}

void party_offer(struct hartebeest_pair *pair, uint32_t count, uint32_t room)
{
	pair->offer = region_names;
	pair->offer_count = count;
	pair->region_room = room;
}

void party_connect(void *data)
{
	struct party_member *member = data;

	crew_pass(member->delay);
	member->began = crew_now();
	member->ret = hartebeest_pairs_connect(member->hb, member->pairs, member->count,
					       member->deadline);
	member->ended = crew_now();
	snprintf(member->error, sizeof(member->error), "%s",
		 member->ret ? hartebeest_error() : "");
}

const void *party_kv(const struct party_member *member)
{
	return member->hb && member->hb->registry ? member->hb->registry->kv : NULL;
}
