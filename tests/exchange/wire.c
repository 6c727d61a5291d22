/* SPDX-License-Identifier: MIT */
/*
 * wire.c - live records, read by a program that knows only the manual page
 *
 * Two ranks bring each other up.  tests/support/read-records then fetches their records from
 * the servers by itself, and every field is compared with the expected value: over RoCE; over
 * InfiniBand, where the IP address of a port is not its GID; and with a secret, which seals all
 * records.
 *
 * promise: hartebeest-exchange(7)
 */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "lib/core/context.h"
#include "lib/verbs/qp.h"
#include "tests/support/bringup.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/rank.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#define SERVERS 3

static struct cache *caches[SERVERS];
static struct bringup *bringup;
static struct bringup_crowd crowd;
static bool infiniband;
static char secret[SCRATCH_SIZE];
static bool sealed;
static char output[16384];

/* One process for many calls of the reader: a start of Python takes longer than all of them. */
#define RUN_READER "python3 -c 'import runpy, sys\n" \
		   "secret, calls = sys.argv[1].split(), sys.argv[2:]\n" \
		   "for call in calls:\n" \
		   "\tsys.argv[1:] = secret + call.split()\n" \
		   "\trunpy.run_path(\"" READER "\")' "

/* Each call is quoted. */
static FILE *reader_start(const char *calls)
{
	char command[4096];
	FILE *pipe;

	fflush(NULL);
	snprintf(command, sizeof(command), RUN_READER "'%s%s' %s 2>&1", sealed ? "--secret " : "",
		 sealed ? secret : "", calls);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	return pipe;
}

/* It must succeed.  Keeps its output. */
static void reader_end(FILE *pipe, const char *calls)
{
	size_t size = 0;

	do {
		clearerr(pipe);
		errno = 0;
		size += fread(output + size, 1, sizeof(output) - 1 - size, pipe);
	} while (ferror(pipe) && errno == EINTR);
	output[size] = '\0';
	if (pclose(pipe))
		fail_msg("%s\n%s", calls, output);
}

static void read_records(const char *calls)
{
	reader_end(reader_start(calls), calls);
}

/* "name=value" is in the line that begins with @record. */
static void field_is(const char *record, const char *name, const char *expected)
{
	char wanted[320];
	const char *line = strstr(output, record), *end, *found;

	if (!line)
		fail_msg("no line '%s' in:\n%s", record, output);
	end = strchr(line + 1, '\n');
	snprintf(wanted, sizeof(wanted), " %s=%s", name, expected);
	found = strstr(line, wanted);
	if (!found || found > end || !strchr(" \n", found[strlen(wanted)]))
		fail_msg("'%s' is not in:\n%.*s", wanted, (int)(end - line), line);
}

static void number_is(const char *record, const char *name, uint64_t expected)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)expected);
	field_is(record, name, text);
}

static void bytes_are(const char *record, const char *name, const void *data, size_t size)
{
	const uint8_t *bytes = data;
	char text[160] = "";
	size_t i;

	for (i = 0; i < size; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	field_is(record, name, text);
}

static const struct beest_incarnation *incarnation(int rank)
{
	return beest_registry_incarnation(crowd.member[rank].hb->registry);
}

static void author_is(const char *record, int rank)
{
	bytes_are(record, "incarnation", incarnation(rank)->bytes, BEEST_INCARNATION_SIZE);
	number_is(record, "rank", (uint64_t)rank);
}

static uint64_t hash_of(const void *bytes, size_t size)
{
	return beest_hash_fnv(BEEST_HASH_FNV, bytes, size);
}

/* Of the ids 0 and 1. */
static uint64_t ranks_digest(void)
{
	static const uint8_t ids[8] = { 0, 0, 0, 0, 0, 0, 0, 1 };

	return hash_of(ids, sizeof(ids));
}

#define VALUE_SIZE 5000

static uint8_t values[2][2][VALUE_SIZE];	/* as each rank gathers them */

/* What the only chunk of such a gather has. */
static uint64_t chunk_digest(void)
{
	static uint8_t bytes[2][28 + VALUE_SIZE];
	int rank;

	for (rank = 0; rank < 2; rank++) {
		memset(bytes[rank], 0, 28);
		bytes[rank][3] = (uint8_t)rank;
		memcpy(bytes[rank] + 4, incarnation(rank), BEEST_INCARNATION_SIZE);
		bytes[rank][23] = 1;
		bytes[rank][26] = VALUE_SIZE >> 8;
		bytes[rank][27] = VALUE_SIZE & 0xff;
		memset(bytes[rank] + 28, 'a' + rank, VALUE_SIZE);
	}
	return hash_of(bytes, sizeof(bytes));
}

static void fetch(const char *names)
{
	char call[2048];

	snprintf(call, sizeof(call), "'%s wire %s'", bringup->server, names);
	read_records(call);
}

/* -------------------------------------------------------- what two ranks leave behind --- */

/* Connects a queue pair and offers two regions to the peer. */
static int connect_by_the_call(struct bringup_member *member)
{
	static const char *const offer[] = { "mr", "more" };
	struct hartebeest_remote_mr regions[2];
	char key[16], peer_key[16];
	struct hartebeest_pair pair;

	snprintf(key, sizeof(key), "pair%d", member->rank);
	snprintf(peer_key, sizeof(peer_key), "pair%d", !member->rank);
	hartebeest_pair_init(&pair);
	pair.qp = "pair";
	pair.key = key;
	pair.peer_key = peer_key;
	pair.offer = offer;
	pair.offer_count = 2;
	pair.regions = regions;
	pair.region_room = 2;
	return hartebeest_pairs_connect(member->hb, &pair, 1, 0);
}

static void *go_on(void *data)
{
	struct bringup_member *member = data;
	struct bringup_rank *it = &member->bringup->rank[member->rank];
	char value[VALUE_SIZE];

	it->ret = mr_make(member->hb, "more", "pd", 64, IBV_ACCESS_LOCAL_WRITE,
			  NULL);
	if (it->ret == 0)
		it->ret = qp_make(member->hb, "pair", "pd", IBV_QPT_RC, "cq", "cq",
					       NULL);
	if (it->ret == 0)
		it->ret = connect_by_the_call(member);
	if (it->ret == 0)
		it->ret = hartebeest_barrier(member->hb, "all", 0);
	memset(value, 'a' + member->rank, sizeof(value));
	if (it->ret == 0)
		it->ret = hartebeest_gather(member->hb, "values", value, sizeof(value),
					    values[member->rank], 0);
	if (it->ret < 0)
		snprintf(it->error, sizeof(it->error), "%s", hartebeest_error());
	return NULL;
}

/* ---------------------------------------------------------------- reading the records --- */

static void a_rank_can_be_read(void **state)
{
	char host[64], servers[64];
	int rank;

	(void)state;
	gethostname(host, sizeof(host));
	assert_int_equal(sscanf(output, "servers=%60s", servers), 1);
	for (rank = 0; rank < 2; rank++) {
		const char *line = rank ? "\nrank/1" : "\nrank/0";

		author_is(line, rank);
		field_is(line, "servers", servers);
		number_is(line, "pid", (uint64_t)getpid());
		number_is(line, "size", 2);
		number_is(line, "state", 0);
		field_is(line, "host", host);
		field_is(line, "device", "fake0:1");
		field_is(line, "reason", "");
	}
}

static void region_number_is(const char *line, const char *field, const char *which,
			     uint64_t number)
{
	char name[16];

	snprintf(name, sizeof(name), "%s%s", field, which);
	number_is(line, name, number);
}

/* @which: the number of a region in a queue pair's record; empty: a region's own record. */
static void region_is(const char *line, const char *which, int rank, const char *name)
{
	struct ibv_mr *mr = NULL;

	assert_int_equal(hartebeest_mr_get(crowd.member[rank].hb, name, &mr), 0);
	region_number_is(line, "address", which, (uintptr_t)mr->addr);
	region_number_is(line, "length", which, mr->length);
	region_number_is(line, "rkey", which, mr->rkey);
	region_number_is(line, "access", which, strcmp(name, "mr") ? IBV_ACCESS_LOCAL_WRITE :
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

static void a_region_can_be_read(void **state)
{
	(void)state;
	author_is("\nmr/mr0", 0);
	region_is("\nmr/mr0", "", 0, "mr");
	author_is("\nmr/mr1", 1);
	region_is("\nmr/mr1", "", 1, "mr");
}

static const struct beest_qp *qp_of(int rank, const char *name)
{
	struct beest_node *node;

	node = beest_table_find(&crowd.member[rank].hb->objects, &beest_qp_kind, name);
	assert_non_null(node);
	return BEEST_CONTAINER(node, struct beest_qp, node);
}

static void endpoint_is(const char *line, const struct beest_endpoint *it)
{
	number_is(line, "type", IBV_QPT_RC);
	number_is(line, "link", infiniband ? IBV_LINK_LAYER_INFINIBAND :
		  IBV_LINK_LAYER_ETHERNET);
	number_is(line, "roce", infiniband ? 0 : 2);
	number_is(line, "mtu", it->mtu);
	number_is(line, "reads", it->max_dest_rd_atomic);
	number_is(line, "grh", it->grh_required);
	number_is(line, "lid", infiniband ? 7 : 0);
	number_is(line, "pkey", 0xffff);
	number_is(line, "qp", it->qp_num);
	number_is(line, "psn", it->psn);
	number_is(line, "qkey", it->qkey);
	number_is(line, "generation", it->generation);
	bytes_are(line, "gid", it->gid.raw, 16);
	bytes_are(line, "ip", it->ip.raw, 16);
	assert_int_equal(memcmp(&it->gid, &it->ip, sizeof(it->gid)) != 0, infiniband);
}

static void echo_is(const char *line, int peer, const struct beest_endpoint *it)
{
	bytes_are(line, "peer", incarnation(peer)->bytes, BEEST_INCARNATION_SIZE);
	number_is(line, "peer_qp", it->qp_num);
	number_is(line, "peer_psn", it->psn);
	number_is(line, "peer_generation", it->generation);
}

static void a_queue_pair_can_be_read(void **state)
{
	static const struct {
		const char *line, *name;
	} rows[2][2] = {
		{ { "\nqp/0-1", "to1" }, { "\nqp/1-0", "to0" } },
		{ { "\nqp/pair0", "pair" }, { "\nqp/pair1", "pair" } },
	};
	int i, rank;

	(void)state;
	for (i = 0; i < 2; i++)
		for (rank = 0; rank < 2; rank++) {
			const char *line = rows[i][rank].line;

			author_is(line, rank);
			endpoint_is(line, &qp_of(rank, rows[i][rank].name)->local.endpoint);
			echo_is(line, !rank, &qp_of(!rank, rows[i][!rank].name)->local.endpoint);
			number_is(line, "closed", 0);
			number_is(line, "regions", i ? 2 : 0);
			if (i) {
				region_is(line, "0", rank, "mr");
				region_is(line, "1", rank, "more");
			}
		}
}

static void a_message_can_be_read(void **state)
{
	(void)state;
	author_is("\nmsg/hello0", 0);
	field_is("\nmsg/hello0", "text", "wire from 0");
	author_is("\nmsg/hello1", 1);
	field_is("\nmsg/hello1", "text", "wire from 1");
}

/* The number of a field that is in the line of @record. */
static uint64_t number_of(const char *record, const char *name)
{
	char wanted[64];
	const char *line = strstr(output, record), *found;

	snprintf(wanted, sizeof(wanted), " %s=", name);
	found = line ? strstr(line, wanted) : NULL;
	if (!found || found > line + 1 + strcspn(line + 1, "\n"))
		fail_msg("no '%s' of '%s' in:\n%s", name, record, output);
	return strtoull(found + strlen(wanted), NULL, 10);
}

static void setup_is(const char *line, int rank, uint64_t what, uint64_t form)
{
	author_is(line, rank);
	number_is(line, "what", what);
	number_is(line, "size", 2);
	number_is(line, "ranks", ranks_digest());
	number_is(line, "form", form);
	number_is(line, "call", 1);
	number_is(line, "error", 0);
}

static void leader_is(const char *line, uint64_t what, uint64_t form, uint64_t passes)
{
	setup_is(line, 0, what, form);
	bytes_are(line, "added", incarnation(0), BEEST_INCARNATION_SIZE);
	assert_true(number_of(line, "committed"));
	number_is(line, "passes", passes);
	number_is(line, "proposed", 0);
	number_is(line, "culprit_call", 0);
	number_is(line, "in_pass", 0);
	number_is(line, "ranges", 0);
}

/* The second barrier of that name was a pass. */
static void a_barrier_can_be_read(void **state)
{
	const char *line = "\nfence/all/1 ";

	(void)state;
	leader_is("\nfence/all/lead ", 1, 0, 1);
	setup_is(line, 1, 1, 0);
	bytes_are(line, "follows", incarnation(0), BEEST_INCARNATION_SIZE);
	number_is(line, "view", number_of("\nfence/all/lead ", "committed"));
	number_is(line, "pass", 1);
	number_is(line, "shown", 0);
	number_is(line, "value_size", 0);
}

static void value_is(const char *line, int rank)
{
	char text[24];

	number_is(line, "value_size", VALUE_SIZE);
	snprintf(text, sizeof(text), "%016llx",
		 (unsigned long long)hash_of(values[0][rank], VALUE_SIZE));
	field_is(line, "value", text);
}

static void a_gather_can_be_read(void **state)
{
	const char *line = "\nfence/values/1 ";

	(void)state;
	assert_memory_equal(values[0], values[1], sizeof(values[0]));
	assert_int_equal(values[0][1][0], 'b');
	leader_is("\nfence/values/lead ", 2, VALUE_SIZE, 0);
	setup_is(line, 1, 2, VALUE_SIZE);
	bytes_are(line, "follows", incarnation(0), BEEST_INCARNATION_SIZE);
	number_is(line, "view", number_of("\nfence/values/lead ", "committed"));
	number_is(line, "pass", 0);
	number_is(line, "shown", VALUE_SIZE);
	value_is(line, 1);
}

/* ------------------------------------------------------------- a fence while it goes on --- */

#define TRIES 30

static int fence_ret[2];

/* Until it has nothing to add to what is there. */
static void looks(int rank, int (*look)(int rank))
{
	int i;

	for (i = 0; i < 8 && fence_ret[rank] == -EAGAIN; i++)
		fence_ret[rank] = UNTIL_ANSWERED(look(rank));
}

/* Rank 1 has come, and rank 0 proposes to it. */
static void fence_propose(int (*look)(int rank))
{
	fence_ret[0] = fence_ret[1] = -EAGAIN;
	looks(0, look);
	looks(1, look);
	looks(0, look);
	assert_int_equal(fence_ret[0], -EAGAIN);
	assert_int_equal(fence_ret[1], -EAGAIN);
}

static void fence_end(int (*look)(int rank), int ret)
{
	int i;

	for (i = 0; i < TRIES; i++)
		looks(!(i % 2), look);
	assert_int_equal(fence_ret[0], ret);
	assert_int_equal(fence_ret[1], ret);
}

static uint8_t long_values[2][2][VALUE_SIZE];

static int long_look(int rank)
{
	return hartebeest_gather(crowd.member[rank].hb, "long", values[rank][rank], VALUE_SIZE,
				 long_values[rank], HARTEBEEST_ONCE);
}

/* On a busy machine, it may name a rank that has not acknowledged for a second. */
static void lead_proposes(const char *line)
{
	assert_true(number_of(line, "proposed"));
	number_is(line, "committed", 0);
}

#define CHUNK_NAME 64

static void chunk_name(const char *fence, char name[CHUNK_NAME])
{
	snprintf(name, CHUNK_NAME, "fence/%s/%016llx", fence, (unsigned long long)chunk_digest());
}

/* A write without an answer may still be on its way, or be sent with the next look. */
static void chunk_is_absent(const char *name)
{
	char line[80];
	int i = 0;

	snprintf(line, sizeof(line), "\n%s ", name);
	do {
		hartebeest_msg_wait(crowd.member[0].hb, "none", NULL, 0, NULL, HARTEBEEST_ONCE);
		fetch(name);
	} while (!strstr(output, " absent=1\n") && i++ < TRIES);
	number_is(line, "absent", 1);
}

/* Values that are too long for the leader's record, which says what the chunk's digest is. */
static void a_chunk_can_be_read(void **state)
{
	char name[CHUNK_NAME], names[128], line[80];
	int rank;

	(void)state;
	chunk_name("long", name);
	snprintf(names, sizeof(names), "fence/long/lead %s", name);
	memset(long_values, 0, sizeof(long_values));
	fence_propose(long_look);
	fetch(names);
	lead_proposes("\nfence/long/lead ");
	number_is("\nfence/long/lead ", "chunk_ranks", 6);
	number_is("\nfence/long/lead ", "chunks", 1);
	field_is("\nfence/long/lead ", "chunk0", strrchr(name, '/') + 1);
	for (rank = 0; rank < 2; rank++) {
		snprintf(line, sizeof(line), "\n%s#%d ", name, rank + 1);
		author_is(line, rank);
		number_is(line, "call", 1);
		value_is(line, rank);
	}
	assert_null(strstr(output, "#3 "));
	fence_end(long_look, 0);
	for (rank = 0; rank < 2; rank++)
		assert_memory_equal(long_values[rank], values[0], sizeof(values[0]));
	chunk_is_absent(name);
	fetch("fence/long/lead");
	leader_is("\nfence/long/lead ", 2, VALUE_SIZE, 0);
	number_is("\nfence/long/lead ", "chunks", 0);
}

static int short_look(int rank)
{
	char value = (char)('a' + rank), all[2];

	return hartebeest_gather(crowd.member[rank].hb, "short", &value, 1, all, HARTEBEEST_ONCE);
}

/* Values that are short enough for the leader's record. */
static void a_proposal_can_be_read(void **state)
{
	char line[64];
	int rank;

	(void)state;
	fence_propose(short_look);
	fetch("fence/short/lead");
	lead_proposes("\nfence/short/lead ");
	number_is("\nfence/short/lead ", "chunks", 0);
	for (rank = 0; rank < 2; rank++) {
		snprintf(line, sizeof(line), "\nfence/short/lead#%d ", rank + 1);
		author_is(line, rank);
		number_is(line, "call", 1);
		field_is(line, "value", rank ? "62" : "61");
	}
	fence_end(short_look, 0);
}

static int late_look(int rank)
{
	return hartebeest_barrier(crowd.member[rank].hb, "late", HARTEBEEST_ONCE);
}

/* The leader names those that it misses after a while, and no longer once they have come. */
static void those_missing_can_be_read(void **state)
{
	const char *line = "\nfence/late/lead ";
	int i = 0;

	(void)state;
	fence_ret[0] = fence_ret[1] = -EAGAIN;
	do {
		looks(0, late_look);
		fetch("fence/late/lead fence/late/1");
	} while (!number_of(line, "ranges") && i++ < TRIES);
	assert_int_equal(fence_ret[0], -EAGAIN);
	assert_true(number_of(line, "looked"));
	number_is(line, "ranges", 1);
	number_is(line, "first0", 1);
	number_is(line, "last0", 1);
	number_is(line, "proposed", 0);
	number_is("\nfence/late/1", "absent", 1);
	fence_end(late_look, 0);
	fetch("fence/late/lead");
	leader_is(line, 1, 0, 0);
	number_is(line, "looked", 0);
}

static int odd_look(int rank)
{
	struct hartebeest_context *hb = crowd.member[rank].hb;
	char value = 0, all[2];

	return rank ? hartebeest_gather(hb, "odd", &value, 1, all, HARTEBEEST_ONCE) :
	       hartebeest_barrier(hb, "odd", HARTEBEEST_ONCE);
}

/* The leader judges; the member, whose call is over then, has nothing to call. */
static void a_failure_can_be_read(void **state)
{
	const char *lead = "\nfence/odd/lead ", *member = "\nfence/odd/1 ";

	(void)state;
	fence_ret[0] = fence_ret[1] = -EAGAIN;
	looks(0, odd_look);
	looks(1, odd_look);
	fetch("fence/odd/lead fence/odd/1");
	setup_is(lead, 0, 1, 0);
	setup_is(member, 1, 2, 1);
	bytes_are(member, "follows", incarnation(0), BEEST_INCARNATION_SIZE);
	fence_end(odd_look, -EPROTO);
	fetch("fence/odd/lead fence/odd/1");
	number_is(lead, "what", 1);
	number_is(lead, "error", EPROTO);
	bytes_are(lead, "culprit", incarnation(1), BEEST_INCARNATION_SIZE);
	number_is(lead, "culprit_call", 1);
	number_is(lead, "in_pass", 0);
	number_is(lead, "committed", 0);
	field_is(lead, "reason", "rank 1 calls hartebeest_gather() with the name 'odd', and rank 0 "
		 "calls hartebeest_barrier(): give them different names");
	author_is(member, 1);
	number_is(member, "what", 0);
	number_is(member, "error", 0);
	number_is(member, "value_size", 0);
}

/* Rank 1 is the member that the page shows in Python. */
static void the_page_is_enough_to_take_part(void **state)
{
	const struct rank_settings settings = {
		.servers = bringup->server, .job = "python", .rank = 0, .size = 2,
	};
	struct hartebeest_context *hb;
	char call[2048], wanted[64];
	FILE *pipe;
	int i;

	(void)state;
	snprintf(call, sizeof(call), "'--fence " PAGE " %s python together 3'", bringup->server);
	assert_int_equal(rank_open(&hb, &settings), 0);
	pipe = reader_start(call);
	for (i = 0; i < 3; i++)
		if (hartebeest_barrier(hb, "together", 0) < 0)
			print_error("%s\n", hartebeest_error());
	reader_end(pipe, call);
	for (i = 1; i <= 3; i++) {
		snprintf(wanted, sizeof(wanted), "pass%d ", i);
		assert_true(number_of(wanted, "view"));
		assert_true(number_of(wanted, "view") == number_of("pass1 ", "view"));
	}
	assert_int_equal(hartebeest_barrier(hb, "together", HARTEBEEST_ONCE), -EAGAIN);
	hartebeest_close(hb);
}

static void an_epoch_can_be_read(void **state)
{
	const struct beest_registry *registry = crowd.member[0].hb->registry;
	char name[16];
	int i;

	(void)state;
	for (i = 0; i < SERVERS; i++) {
		snprintf(name, sizeof(name), "at%d", i);
		if (registry->servers[i].epoch.known)
			bytes_are("\nepoch", name, registry->servers[i].epoch.bytes,
				  BEEST_EPOCH_SIZE);
	}
	number_is("\nnews", "absent", 1);
}

/* Written on each of the three servers, chosen by the rule of the page. */
static void the_page_is_enough_to_write(void **state)
{
	char calls[2048], name[16], text[64];
	size_t length = 0;
	int i;

	(void)state;
	for (i = 0; i < 8; i++)
		length += (size_t)snprintf(calls + length, sizeof(calls) - length,
					   "'--push %s wire p%d number-%d' ", bringup->server, i,
					   i);
	read_records(calls);
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		assert_int_equal(hartebeest_msg_wait(crowd.member[0].hb, name, text,
						     sizeof(text), &length, 0), 0);
		assert_int_equal(length, 8);
		assert_int_equal(text[7], '0' + i);
	}
}

/* The reader knows only the page, so the examples agree with the page's own rules. */
static void the_pages_own_examples_can_be_read(void **state)
{
	(void)state;
	sealed = true;
	read_records("'--page " PAGE "'");
	sealed = getenv("HARTEBEEST_SECRET_FILE") != NULL;
	field_is("msg/sealed", "text", "hello");
	field_is("rank/0", "host", "node1");
	field_is("rank/0", "device", "mlx5_0:1");
	field_is("msg/greeting", "text", "hello");
	number_is("mr/buf", "length", 4096);
	number_is("qp/0-1", "qp", 0x12a);
	number_is("qp/0-1", "psn", 0xabcdef);
	number_is("qp/0-1", "peer_qp", 0x12b);
	number_is("qp/0-1", "peer_psn", 0x123456);
	number_is("qp/0-1", "length0", 4096);
	number_is("qp/0-1", "closed", 0);
	number_is("fence/all/lead", "proposed", 0x4d62ae6c0981e4b4);
	number_is("fence/all/lead", "ranks", ranks_digest());
	field_is("fence/all/lead#1", "incarnation", "000102030405060708090a0b0c0d0e0f");
	field_is("fence/all/lead#2", "incarnation", "101112131415161718191a1b1c1d1e1f");
	field_is("fence/all/1", "follows", "000102030405060708090a0b0c0d0e0f");
	number_is("fence/all/1", "view", 0x4d62ae6c0981e4b4);
}

static void a_refusal_can_be_read(void **state)
{
	static const char *const keys[2] = { "odd0", "odd1" };
	char reason[128];
	int rank;

	(void)state;
	for (rank = 0; rank < 2; rank++) {
		assert_int_equal(qp_make(crowd.member[rank].hb, "odd", "pd", rank ? IBV_QPT_RC :
					 IBV_QPT_UC, "cq", "cq", NULL), 0);
		assert_int_equal(hartebeest_qp_publish(crowd.member[rank].hb, "odd", keys[rank],
						       0), 0);
	}
	assert_int_equal(hartebeest_qp_fetch(crowd.member[0].hb, "odd1", NULL, 0), 0);
	assert_int_equal(hartebeest_qp_connect(crowd.member[0].hb, "odd", "odd1", 0),
			 -EPROTOTYPE);
	snprintf(reason, sizeof(reason), "the transport differs: UC here (%s) but RC at the peer "
		 "(rank 1): give both queue pairs the same type", qp_of(0, "odd")->local.label);
	fetch("qp/odd0");
	author_is("\nqp/odd0", 0);
	echo_is("\nqp/odd0", 1, &qp_of(1, "odd")->local.endpoint);
	field_is("\nqp/odd0", "reason", reason);
	number_is("\nqp/odd0", "closed", 0);
	assert_int_equal(hartebeest_qp_destroy(crowd.member[0].hb, "odd"), 0);
	fetch("qp/odd0");
	field_is("\nqp/odd0", "reason", reason);
	number_is("\nqp/odd0", "closed", 1);
}

static int last_look(int rank)
{
	return hartebeest_gather(crowd.member[rank].hb, "last", values[rank][rank], VALUE_SIZE,
				 long_values[rank], HARTEBEEST_ONCE);
}

/* The leader finds that rank 1 has left, so what it has proposed is over. */
static void proposal_fails(const char *chunk)
{
	int i;

	for (i = 0; i < TRIES && fence_ret[0] == -EAGAIN; i++, usleep(100000))
		looks(0, last_look);
	assert_int_equal(fence_ret[0], -ESHUTDOWN);
	fetch("fence/last/lead");
	number_is("\nfence/last/lead ", "error", ESHUTDOWN);
	number_is("\nfence/last/lead ", "proposed", 0);
	number_is("\nfence/last/lead ", "chunks", 0);
	chunk_is_absent(chunk);
}

/* A rank that leaves says so, closes the records of its queue pairs, and deletes the rest. */
static void an_end_can_be_read(void **state)
{
	struct beest_endpoint gone = qp_of(1, "to0")->local.endpoint;
	struct beest_incarnation author = *incarnation(1);
	char chunk[CHUNK_NAME];
	const char *news;

	(void)state;
	chunk_name("last", chunk);
	fence_propose(last_look);
	fetch(chunk);
	assert_null(strstr(output, "absent"));
	hartebeest_close(crowd.member[1].hb);
	crowd.member[1].hb = NULL;
	fetch("rank/1 qp/1-0 qp/pair1 mr/mr1 of/pair1/1 msg/hello1 fence/all/lead fence/all/1 "
	      "news");
	bytes_are("\nrank/1", "incarnation", author.bytes, sizeof(author));
	number_is("\nrank/1", "state", 1);
	endpoint_is("\nqp/1-0", &gone);
	echo_is("\nqp/1-0", 0, &qp_of(0, "to1")->local.endpoint);
	number_is("\nqp/1-0", "closed", 1);
	number_is("\nqp/pair1", "closed", 1);
	number_is("\nmr/mr1", "absent", 1);
	number_is("\nof/pair1/1", "absent", 1);
	field_is("\nmsg/hello1", "text", "wire from 1");
	leader_is("\nfence/all/lead ", 1, 0, 1);
	bytes_are("\nfence/all/1 ", "incarnation", author.bytes, sizeof(author));
	news = strstr(output, "\nnews value=");
	assert_non_null(news);
	assert_int_equal(strspn(news + 12, "0123456789abcdef"), 2 * BEEST_EPOCH_SIZE);
	proposal_fails(chunk);
}

static int crowd_go_on(void)
{
	int rank;

	for (rank = 0; rank < 2; rank++)
		pthread_create(&crowd.thread[rank], NULL, go_on, &crowd.member[rank]);
	bringup_join(&crowd);
	for (rank = 0; rank < 2; rank++)
		if (bringup->rank[rank].ret < 0)
			print_error("rank %d: %s\n", rank, bringup->rank[rank].error);
	return bringup->rank[0].ret < 0 || bringup->rank[1].ret < 0;
}

/* All that the first tests look at. */
static void fetch_all(void)
{
	fetch("rank/0 rank/1 mr/mr0 mr/mr1 qp/0-1 qp/1-0 qp/pair0 qp/pair1 msg/hello0 msg/hello1 "
	      "fence/all/lead fence/all/1 fence/values/lead fence/values/1 epoch news");
}

static int group_setup(void **state)
{
	char servers[1200] = "";
	const char *wrong;
	int i;

	(void)state;
	if (infiniband)
		fake_verbs_infiniband();
	else
		fake_verbs_reset();
	for (i = 0; i < SERVERS; i++) {
		caches[i] = cache_start(NULL);
		strcat(strcat(servers, i ? "," : ""), cache_hostport(caches[i])->text);
	}
	bringup = bringup_new(servers, "wire", 2);
	bringup_start(&crowd, bringup);
	bringup_join(&crowd);
	bringup_note_all(&crowd);
	wrong = bringup_wrong(bringup);
	if (wrong)
		print_error("%s\n", wrong);
	if (wrong || crowd_go_on())
		return -1;
	fetch_all();
	return 0;
}

static int group_teardown(void **state)
{
	int i;

	(void)state;
	bringup_leave(&crowd);
	bringup_free(bringup);
	for (i = 0; i < SERVERS; i++)
		cache_end(caches[i]);
	return fake_verbs.open;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rank_can_be_read),
		cmocka_unit_test(a_region_can_be_read),
		cmocka_unit_test(a_queue_pair_can_be_read),
		cmocka_unit_test(a_message_can_be_read),
		cmocka_unit_test(a_barrier_can_be_read),
		cmocka_unit_test(a_gather_can_be_read),
		cmocka_unit_test(an_epoch_can_be_read),
		cmocka_unit_test(a_chunk_can_be_read),
		cmocka_unit_test(a_proposal_can_be_read),
		cmocka_unit_test(those_missing_can_be_read),
		cmocka_unit_test(a_failure_can_be_read),
		cmocka_unit_test(the_page_is_enough_to_write),
		cmocka_unit_test(the_pages_own_examples_can_be_read),
		cmocka_unit_test(the_page_is_enough_to_take_part),
		cmocka_unit_test(a_refusal_can_be_read),
		cmocka_unit_test(an_end_can_be_read),
	};
	int failed;

	if (system("command -v python3 >/dev/null")) {
		fprintf(stderr, "no python3 in PATH\n");
		return 77;
	}
	cache_need();
	/* That of the page's example. */
	scratch_text(secret, "hartebeest-wire", "0123456789abcdef0123456789abcdef\n");
	failed = cmocka_run_group_tests_name("RoCE", tests, group_setup, group_teardown);
	infiniband = true;
	failed += cmocka_run_group_tests_name("InfiniBand", tests, group_setup, group_teardown);
#ifdef HAVE_CRYPTO
	sealed = true;
	setenv("HARTEBEEST_SECRET_FILE", secret, 1);
	failed += cmocka_run_group_tests_name("sealed", tests, group_setup, group_teardown);
#endif
	unlink(secret);
	return failed;
}
