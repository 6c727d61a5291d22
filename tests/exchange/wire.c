/* SPDX-License-Identifier: MIT */
/*
 * wire.c - live records, read by a program that knows the manual page alone
 *
 * Two ranks bring each other up; tests/read-records fetches what they published from
 * the servers by itself, and every field is compared with what it must be.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/core/context.h"
#include "lib/verbs/qp.h"
#include "tests/support/bringup.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/memcached.h"
#include "tests/support/unit.h"

#define SERVERS 3

static struct cache *caches[SERVERS];
static struct bringup *bringup;
static struct bringup_crowd crowd;
static char output[8192];

/* The reader's output; it must succeed. */
static void read_records(const char *arguments)
{
	char command[2048];
	size_t size = 0;
	FILE *pipe;

	fflush(NULL);
	snprintf(command, sizeof(command), "'" READER "' %s 2>&1", arguments);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	do {
		clearerr(pipe);
		errno = 0;
		size += fread(output + size, 1, sizeof(output) - 1 - size, pipe);
	} while (ferror(pipe) && errno == EINTR);
	output[size] = '\0';
	if (pclose(pipe))
		fail_msg("%s\n%s", command, output);
}

/* "name=value" in the line that begins with @record. */
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

static void bytes_are(const char *record, const char *name, const uint8_t *bytes, size_t size)
{
	char text[160];
	size_t i;

	for (i = 0; i < size; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	field_is(record, name, text);
}

static const uint8_t *incarnation(int rank)
{
	return beest_board_incarnation(crowd.member[rank].hb->board)->bytes;
}

static const struct beest_endpoint *card(int rank)
{
	struct beest_node *node;

	assert_int_equal(beest_context_find(crowd.member[rank].hb, &beest_qp_kind,
					    rank ? "to0" : "to1", &node), 0);
	return &BEEST_CONTAINER(node, struct beest_qp, node)->end.card;
}

static void author_is(const char *record, int rank)
{
	char host[64];

	gethostname(host, sizeof(host));
	bytes_are(record, "incarnation", incarnation(rank), 16);
	number_is(record, "pid", (uint64_t)getpid());
	number_is(record, "rank", (uint64_t)rank);
	field_is(record, "host", host);
}

static void region_is_told(int rank, const char *record)
{
	struct ibv_mr *mr = NULL;

	assert_int_equal(hartebeest_mr_get(crowd.member[rank].hb, "mr", &mr), 0);
	author_is(record, rank);
	number_is(record, "address", (uintptr_t)mr->addr);
	number_is(record, "length", bringup->rank[rank].length);
	number_is(record, "rkey", mr->rkey);
	number_is(record, "access", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

static void queue_pair_is_told(int rank, const char *record)
{
	const struct beest_endpoint *it = card(rank);

	author_is(record, rank);
	number_is(record, "type", IBV_QPT_RC);
	number_is(record, "link", IBV_LINK_LAYER_ETHERNET);
	number_is(record, "roce", 2);
	number_is(record, "mtu", it->mtu);
	number_is(record, "reads", it->max_dest_rd_atomic);
	number_is(record, "grh", 0);
	number_is(record, "lmc", 0);
	number_is(record, "sl", it->sl);
	number_is(record, "lid", 0);
	number_is(record, "pkey", 0xffff);
	number_is(record, "qp", it->qp_num);
	number_is(record, "psn", it->sq_psn);
	number_is(record, "qkey", it->qkey);
	bytes_are(record, "gid", it->gid, 16);
	bytes_are(record, "ip", it->address, 16);
	field_is(record, "device", "fake0:1");
}

static void confirmation_is_told(int rank, const char *record)
{
	author_is(record, rank);
	number_is(record, "qp", card(rank)->qp_num);
	number_is(record, "psn", card(rank)->sq_psn);
	bytes_are(record, "peer", incarnation(!rank), 16);
	number_is(record, "peer_qp", card(!rank)->qp_num);
	number_is(record, "peer_psn", card(!rank)->sq_psn);
}

/* FNV-1a over the incarnations, lowest bit set, as the page has it. */
static void barrier_is_told(int rank, const char *record)
{
	uint64_t digest = UINT64_C(0xcbf29ce484222325);
	size_t i;

	for (i = 0; i < 32; i++)
		digest = (digest ^ incarnation((int)i / 16)[i % 16]) * UINT64_C(0x100000001b3);
	author_is(record, rank);
	number_is(record, "pass", 1);
	number_is(record, "digest", digest | 1);
}

static void the_page_is_enough_to_read(void **state)
{
	char arguments[1600], digest[64];

	(void)state;
	snprintf(arguments, sizeof(arguments), "%s wire rank/0 rank/1 mr/mr0 mr/mr1 qp/0-1 qp/1-0 "
		 "confirm/0-1 confirm/1-0 msg/hello0 msg/hello1 barrier/all/1/0 barrier/all/1/1",
		 bringup->server);
	read_records(arguments);
	assert_int_equal(sscanf(output, "servers=%60s", digest), 1);
	field_is("\nrank/0", "servers", digest);
	field_is("\nrank/1", "servers", digest);
	number_is("\nrank/0", "ranks", 2);
	author_is("\nrank/0", 0);
	author_is("\nrank/1", 1);
	region_is_told(0, "\nmr/mr0");
	region_is_told(1, "\nmr/mr1");
	queue_pair_is_told(0, "\nqp/0-1");
	queue_pair_is_told(1, "\nqp/1-0");
	confirmation_is_told(0, "\nconfirm/0-1");
	confirmation_is_told(1, "\nconfirm/1-0");
	field_is("\nmsg/hello0", "text", "wire from 0");
	field_is("\nmsg/hello1", "text", "wire from 1");
	barrier_is_told(0, "\nbarrier/all/1/0");
	barrier_is_told(1, "\nbarrier/all/1/1");
}

/* On each of the three servers, as the page tells which one. */
static void the_page_is_enough_to_write(void **state)
{
	char arguments[1600], name[16], text[64];
	size_t length = 0;
	int i;

	(void)state;
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		snprintf(arguments, sizeof(arguments), "--push %s wire %s 'number %d'",
			 bringup->server, name, i);
		read_records(arguments);
		assert_int_equal(hartebeest_msg_wait(crowd.member[0].hb, name, text,
						     sizeof(text), &length), 0);
		assert_int_equal(length, 8);
		assert_int_equal(text[7], '0' + i);
	}
}

static int group_setup(void **state)
{
	char servers[1200] = "";
	const char *wrong;
	int i;

	(void)state;
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
	return wrong != NULL;
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
		cmocka_unit_test(the_page_is_enough_to_read),
		cmocka_unit_test(the_page_is_enough_to_write),
	};

	if (system("python3 -c '' >/dev/null 2>&1")) {
		fprintf(stderr, "no python3 in PATH\n");
		return 77;
	}
	cache_need();
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
