/* SPDX-License-Identifier: MIT */
/*
 * fence.c - runs under one job id, again and again, on a real server that takes little
 *
 * Through the public interface.  Each row says what ranks do, how often, and what the last run
 * returns, says and leaves on the server.  Ranks are threads with a context each.  No row waits for
 * the end of a limit that a slow machine could reach, except for what has to fail anyway.
 *
 * promise: hartebeest_mesh(3), hartebeest_msg(3)
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hartebeest-mesh.h"
#include "hartebeest.h"
#include "lib/base/macro.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/rank.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#define RANKS_MOST 16
#define BYTES_MOST 4096
#define MS 1000000

#ifdef HAVE_CRYPTO
#define SEALS true
#else
#define SEALS false
#endif

/* memcached wants chunks of at most half of the largest value. */
#define TAKES(bytes, half) { "-I", bytes, "-o", "slab_chunk_max=" half, NULL }

struct row {
	const char *what;
	const char *server[8];		/* arguments of memcached */
	bool full;			/* has no memory left in the last round, of rank 0 alone */
	int size;
	char call;			/* b barrier, g gather, m mesh */
	size_t bytes;			/* more of each value */
	int missing;			/* ranks that come in the last round only: from the end */
	int rounds;
	bool free;			/* ranks begin the next round without waiting for others */
	bool secrets;			/* each round has its own */
	int odd;			/* a rank that knows of one rank more; 0: none */
	int late;			/* ranks that come when all others have ended */
	int late_ms;			/* or the last rank comes so late */
	const char *option;
	/* Of the last round, on all ranks. */
	int ret;
	const char *says[3];
	/* What stays for each rank, and besides; 0, 0: not judged. */
	int items, more;
};

/*
 * What stays of a rank: its presence, when it began, and its record of the fence, whose first one
 * is the leader's; besides, the epoch and the news.
 */
static const struct row rows[] = {
	{ "a value is never that of another round", { NULL }, .size = 4, .call = 'g',
	  .rounds = 100, .free = true, .items = 3, .more = 2 },
	{ "calls that fail leave no more behind", TAKES("2k", "1024"), .size = 4,
	  .call = 'b', .missing = 1, .rounds = 8, .items = 3, .more = 2 },
	{ "gathers that fail", TAKES("2k", "1024"), .size = 4, .call = 'g', .missing = 1,
	  .rounds = 8, .items = 3, .more = 2 },
	{ "meshes that fail", TAKES("2k", "1024"), .size = 4, .call = 'm', .missing = 1,
	  .rounds = 8, .items = 3, .more = 2 },
	{ "each run has a secret of its own", TAKES("4k", "2048"), .size = 4, .call = 'b',
	  .rounds = 16, .secrets = true, .items = 3, .more = 2 },
	{ "a server that takes short values only", TAKES("1k", "512"), .size = 16, .call = 'b',
	  .rounds = 3, .items = 3, .more = 2 },
	{ "a mesh on it", TAKES("1k", "512"), .size = 4, .call = 'm', .rounds = 3 },
	/* A rank that is held up for as long as records live misses that the others have passed. */
	{ "a gather later than records live", { NULL }, .size = 3, .call = 'g', .rounds = 1,
	  .option = "exchange.ttl=20s", .late_ms = 22000 },
	{ "a value too large for the server", TAKES("1k", "512"), .size = 3, .call = 'g',
	  .bytes = 1500, .rounds = 1, .ret = -EMSGSIZE,
	  .says = { "takes at most 1024 bytes for a key and its value (memcached -I)", " needs 16",
		    "/fence/all/" } },
	{ "a value just too large", TAKES("1k", "512"), .size = 3, .call = 'g',
	  .bytes = 870, .rounds = 1, .ret = -EMSGSIZE, .says = { "(memcached -I)" } },
	{ "values that are too large together", TAKES("2k", "1024"), .size = 4, .call = 'g',
	  .bytes = 700, .rounds = 1, .ret = -EMSGSIZE,
	  .says = { "takes at most 2048 bytes for a key and its value (memcached -I)",
		    "/fence/all/" } },
	{ "a server without memory", { "-m", "2", "-M", NULL }, .full = true, .size = 3,
	  .call = 'b', .rounds = 2, .ret = -ENOSPC, .says = { "out of memory" } },
	{ "one rank has another number of ranks", { NULL }, .size = 8, .call = 'b', .odd = 5,
	  .late = 2, .rounds = 1, .ret = -EPROTO, .says = { "rank 5 " } },
};

static const struct row *row;
static struct cache *cache;

static struct rank {
	pthread_t thread;
	int number, round, ret;
	char error[1024];
} ranks[RANKS_MOST];

/* ------------------------------------------------------------------------------ a rank --- */

static int rank_begin(const struct rank *rank, struct hartebeest_context **hb)
{
	const struct rank_settings settings = {
		.servers = cache_hostport(cache)->text, .job = "job", .rank = rank->number,
		.size = row->size + (row->odd && rank->number == row->odd), .device = "fake0",
		.more = { row->option },
	};

	return rank_open(hb, &settings);
}

/* The value has the rank, the round, and bytes that tell them. */
static void value_fill(char *value, int number, int round)
{
	memset(value, 'a' + (number + round) % 26, 8 + row->bytes);
	memcpy(value, &number, sizeof(number));
	memcpy(value + 4, &round, sizeof(round));
}

static int gather(struct hartebeest_context *hb, const struct rank *rank, int64_t deadline)
{
	const size_t size = 8 + row->bytes;
	char value[BYTES_MOST], *all = calloc((size_t)row->size, size);
	int i, ret;

	value_fill(value, rank->number, rank->round);
	ret = hartebeest_gather(hb, "all", value, size, all, deadline);
	for (i = 0; i < row->size && ret == 0; i++) {
		value_fill(value, i, rank->round);
		if (memcmp(value, all + (size_t)i * size, size) != 0)
			ret = -EILSEQ;
	}
	free(all);

	return ret;
}

static int mesh(struct hartebeest_context *hb, int64_t deadline)
{
	struct hartebeest_mesh *mesh = NULL;
	int ret = hartebeest_mesh_connect(hb, "all", NULL, &mesh, deadline);

	hartebeest_mesh_close(mesh);

	return ret;
}

/* A round in which a rank is missing fails, whatever the limit is. */
static int64_t limit_of(const struct rank *rank)
{
	return row->missing && rank->round < row->rounds - 1 ? hartebeest_clock() + 60 * MS : 0;
}

static void rank_round(struct rank *rank)
{
	const int64_t deadline = limit_of(rank);
	struct hartebeest_context *hb = NULL;

	rank->ret = rank_begin(rank, &hb);
	if (rank->ret == 0)
		rank->ret = row->call == 'g' ? gather(hb, rank, deadline) :
			    row->call == 'm' ? mesh(hb, deadline) :
			    hartebeest_barrier(hb, "all", deadline);
	snprintf(rank->error, sizeof(rank->error), "%s", rank->ret ? hartebeest_error() : "");
	hartebeest_close(hb);
}

static void *rank_run(void *data)
{
	struct rank *rank = data;

	if (row->late_ms && rank->number == row->size - 1)
		pause_ms(row->late_ms);
	do
		rank_round(rank);
	while (row->free && rank->ret == 0 && ++rank->round < row->rounds);

	return NULL;
}

/* --------------------------------------------------------------------------- the rounds --- */

static void ranks_run(int first, int end, int round)
{
	char secret[SCRATCH_SIZE], text[64];
	int i;

	if (row->secrets) {
		snprintf(text, sizeof(text), "the secret of round %d\n", round);
		scratch_text(secret, "exchange-fence", text);
		setenv("HARTEBEEST_SECRET_FILE", secret, 1);
	}
	for (i = first; i < end; i++) {
		ranks[i] = (struct rank){ .number = i, .round = round };
		assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_run, &ranks[i]), 0);
	}
	for (i = first; i < end; i++)
		pthread_join(ranks[i].thread, NULL);
	if (row->secrets) {
		unsetenv("HARTEBEEST_SECRET_FILE");
		unlink(secret);
	}
}

/*
 * Fills the first page of each class of sizes, which a server has whatever its limit is; but not
 * of those for the shortest values, by which a process says that it begins.
 */
static void server_fill(void)
{
	static char request[1200000], answer[64], value[1200];
	size_t size, used;
	int n = 0;

	memset(value, 'x', sizeof(value));
	for (size = 130; size < sizeof(value); size += size / 6) {
		for (used = 0; used + size + 100 < sizeof(request); n++)
			used += (size_t)sprintf(request + used, "set f%d 0 0 %zu noreply\r\n%.*s"
						"\r\n", n, size, (int)size, value);
		strcpy(request + used, "quit\r\n");
		cache_talk(cache, request, answer, sizeof(answer));
	}
}

/* The last round is what the row is about. */
static void rounds_run(void)
{
	const int present = row->size - row->missing;
	int round, i;

	for (round = 0; round < row->rounds - 1 && !row->free; round++) {
		ranks_run(0, present, round);
		for (i = 0; i < present; i++)
			assert_true((ranks[i].ret != 0) == (row->missing != 0));
	}
	if (row->full)
		server_fill();
	ranks_run(0, row->full ? 1 : row->size - row->late, round);
	ranks_run(row->size - row->late, row->size, round);
}

/* ------------------------------------------------------------------------ the judgement --- */

static void rank_judge(const struct rank *rank)
{
	size_t i;
	bool wrong = rank->ret != row->ret;

	for (i = 0; i < BEEST_COUNT(row->says) && row->says[i]; i++)
		wrong |= !strstr(rank->error, row->says[i]);
	if (wrong)
		fail_msg("%s: rank %d, round %d: %d %s", row->what, rank->number, rank->round,
			 rank->ret, rank->error);
}

static void items_judge(void)
{
	const long items = cache_stat(cache, "curr_items");

	if (row->items && items > row->items * row->size + row->more)
		fail_msg("%s: %ld items", row->what, items);
}

static void runs(void **state)
{
	size_t n;
	int i;

	(void)state;
	for (n = 0; n < BEEST_COUNT(rows); n++) {
		row = &rows[n];
		if (row->server[0] && !cache_since(5))
			continue;	/* it has no slab_chunk_max */
		if (row->secrets && !SEALS)
			continue;
		cache = cache_start(row->server);
		rounds_run();
		for (i = 0; i < (row->full ? 1 : row->size); i++)
			rank_judge(&ranks[i]);
		items_judge();
		cache_end(cache);
		cache = NULL;
	}
}

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	cache_need();
	fake_verbs_reset();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cache_end(cache);
	return fake_verbs.open;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(runs, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
