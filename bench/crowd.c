/* SPDX-License-Identifier: MIT */
/*
 * crowd.c - what thousands of ranks ask of one server
 *
 * Each rank has a registry and a connection of its own, and takes part in a fence with the bytes of
 * a mesh with one region.  All run in turns in one thread, where a pause takes no time.  So the
 * time is that of the processors of this machine, the server's and the ranks' together; what a
 * network would add is calculated from the bytes.
 *
 * 	1 a node, 8 a node, ...	each rank reads what all contribute, a chunk once a node
 * 	6 peers			each rank reads what six neighbours contribute
 *
 * What all contribute would take more memory than one machine has: 39 GB at 16 384 ranks.  So a
 * rank keeps its own entry, and reads the other chunks as lib/rendezvous/member.c does, but forgets
 * them.  tests/unit/barrier compares the two.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/reader.h"
#include "lib/base/error.h"
#include "lib/base/nodefiles.h"
#include "lib/rendezvous/fencecall.h"
#include "lib/rendezvous/store.h"
#include "tests/support/crew.h"
#include "tests/support/scratch.h"

/* What a rank of a mesh with one region contributes. */
#define CONTRIBUTION 119
#define PEERS 6

/* What a request takes of the time that ranks see, and what each key of the leader's adds. */
#define ROUND_TRIP (50 * BEEST_US)
#define KEY_TIME BEEST_US

static struct {
	struct bench_pass *pass;
	int per_node;			/* 0: peers */
	struct beest_ids ranks;
	struct beest_hostport server;
	char root[SCRATCH_SIZE];	/* of the folders of nodes */
} crowd;

struct citizen {
	int rank;
	struct beest_registry *registry;
	struct beest_fence fence;
	struct reader reader;
	size_t peers[PEERS];
	char node[SCRATCH_SIZE + 16];
};

/* -------------------------------------------------------------------------- a rank --- */

static int contribution_take(void *data, struct beest_view *view)
{
	struct citizen *citizen = data;

	return crowd.per_node ? reader_take(&citizen->reader, view) : 0;
}

/* The library reads chunks between the looks. */
static void looked(void *data)
{
	const struct citizen *citizen = data;

	beest_nodefiles_root = citizen->node;
	crew_pass(ROUND_TRIP + (citizen->rank ? 0 : crowd.pass->size * KEY_TIME));
}

static struct citizen *citizen_open(int rank)
{
	static const struct beest_log quiet = { .level = BEEST_LOG_NONE };
	struct beest_incarnation incarnation;
	const struct beest_registry_config config = {
		.incarnation = &incarnation, .servers = &crowd.server, .server_count = 1,
		.job = crowd.pass->job,
		.rank = rank, .ranks = &crowd.ranks, .ttl = 600 * BEEST_SECOND, .log = &quiet,
	};
	struct citizen *citizen = calloc(1, sizeof(*citizen));
	const int count = (int)crowd.ranks.count;
	static const int steps[PEERS] = { -256, -16, -1, 1, 16, 256 };
	int i;

	if (!citizen || beest_process_incarnation(&incarnation) < 0 ||
	    beest_registry_open(&citizen->registry, &config) < 0)
		abort();
	citizen->rank = rank;
	for (i = 0; i < PEERS; i++)
		citizen->peers[i] = (size_t)((rank + steps[i] % count + count) % count);
	snprintf(citizen->node, sizeof(citizen->node), "%s/%d", crowd.root,
		 rank / (crowd.per_node ? crowd.per_node : 1));
	mkdir(citizen->node, 0700);	/* or it is there */

	return citizen;
}

static void citizen_run(void *data)
{
	struct citizen *citizen = data;
	uint8_t value[CONTRIBUTION];
	struct beest_limit limit;
	struct beest_fence_call call = {
		.registry = citizen->registry, .ranks = &crowd.ranks, .rank = citizen->rank,
		.name = "mesh/m", .title = "m", .setup = { .what = BEEST_FENCE_MESH, .form = 1 },
		.value = value, .size = sizeof(value), .needs = { citizen->peers, PEERS },
		.looked = looked, .take = contribution_take, .data = citizen, .limit = &limit,
	};
	int ret;

	memset(value, citizen->rank, sizeof(value));
	if (crowd.per_node)
		call.needs.count = 0;
	citizen->reader.call = &call;
	citizen->reader.node = crowd.per_node > 1 ? citizen->node : NULL;
	beest_limit_start(&limit, NULL, crew_now() + 600 * BEEST_SECOND, 0);
	ret = beest_fencecall_run(&citizen->fence, &call);
	reader_end(&citizen->reader);
	if (ret < 0)
		bench_fail(&crowd.pass->ranks[0], ret, "rank %d: %s", citizen->rank,
			   beest_error_text());
}

static void citizen_close(struct citizen *citizen)
{
	char folder[sizeof(citizen->node) + 32];

	snprintf(folder, sizeof(folder), "%s/hartebeest-%u", citizen->node,
		 (unsigned int)geteuid());
	rmdir(folder);			/* the last rank of a node */
	rmdir(citizen->node);
	beest_fence_end(&citizen->fence);
	beest_registry_close(citizen->registry);	/* the server is emptied after each pass */
	free(citizen);
}

/* ------------------------------------------------------------------------- a pass --- */

/* All begin at once.  The clock runs while they take part, and not while they are opened. */
static int crowd_run(struct bench_pass *pass, int per_node)
{
	struct citizen **citizens = calloc((size_t)pass->size, sizeof(*citizens));
	int64_t since;
	int i;

	crowd.pass = pass;
	crowd.per_node = per_node;
	crowd.ranks.count = (size_t)pass->size;
	crowd.ranks.id = calloc(crowd.ranks.count, sizeof(*crowd.ranks.id));
	if (!citizens || !crowd.ranks.id)
		abort();
	for (i = 0; i < pass->size; i++)
		crowd.ranks.id[i] = i;
	snprintf(crowd.server.text, sizeof(crowd.server.text), "%s", pass->server);
	snprintf(crowd.server.host, sizeof(crowd.server.host), "%.*s",
		 (int)strcspn(pass->server, ":"), pass->server);
	crowd.server.port = (uint16_t)pass->port;
	scratch_folder(crowd.root, "crowd");
	for (i = 0; i < pass->size; i++) {
		citizens[i] = citizen_open(i);
		crew_start(citizen_run, citizens[i]);
	}
	since = bench_clock();
	crew_run();
	pass->figures[BENCH_TIME] = (double)(bench_clock() - since) / 1e6;
	for (i = 0; i < pass->size; i++)
		citizen_close(citizens[i]);
	free(citizens);
	free(crowd.ranks.id);
	rmdir(crowd.root);

	return pass->ranks[0].ret;
}

static int alone(struct bench_pass *pass)
{
	return crowd_run(pass, 1);
}

static int eight(struct bench_pass *pass)
{
	return crowd_run(pass, 8);
}

static int thirty_two(struct bench_pass *pass)
{
	return crowd_run(pass, 32);
}

static int many(struct bench_pass *pass)
{
	return crowd_run(pass, 128);
}

static int peers(struct bench_pass *pass)
{
	return crowd_run(pass, 0);
}

/* What all read of a view of N ranks, one a node, is some 150 N squared bytes. */
static const struct bench_side sides[] = {
	{ .name = "1 a node", .programs = alone, .largest = 1024 },
	{ .name = "8 a node", .programs = eight, .largest = 4096 },
	{ .name = "32 a node", .programs = thirty_two, .largest = 4096 },
	{ .name = "128 a node", .programs = many },
	{ .name = "6 peers", .programs = peers },
	{ .name = NULL }
};

static const struct bench_goal goals[] = {
	{ BENCH_GUARD, "8 a node", BENCH_MB, "1 a node", 1024, 1024, 0, 0.18 },
	{ BENCH_GUARD, "32 a node", BENCH_MB, "1 a node", 1024, 1024, 0, 0.093 },
	{ BENCH_GUARD, "128 a node", BENCH_MB, "1 a node", 1024, 1024, 0, 0.072 },
	{ BENCH_GUARD, "6 peers", BENCH_MB, "1 a node", 1024, 1024, 0, 0.185 },
	{ .side = NULL }
};

int main(int argc, char **argv)
{
	/* 16384 take minutes, almost all of them for what is each rank's own work elsewhere. */
	static const int sizes[] = { 256, 1024, 0 };
	static const struct bench bench = {
		.name = "crowd", .title = "Requests of thousands of ranks to one server",
		.sizes = sizes, .sides = sides, .goals = goals, .ranks = 1,
		.keys_text = "keys",
	};

	return bench_main(argc, argv, &bench);
}
