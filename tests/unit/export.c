/* SPDX-License-Identifier: MIT */
/*
 * export.c - pairs by bytes, without any server
 *
 * Two contexts of one process are the two ends, on two fake devices.
 *
 * promise: hartebeest_export(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hartebeest.h"
#include "lib/base/clock.h"
#include "lib/core/context.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"
#include "tests/support/scratch.h"

#define ROOM HARTEBEEST_EXPORT_SIZE(4, 300)

static struct end {
	struct hartebeest_context *hb;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	const char *offer[1];
	struct hartebeest_remote_mr there[2];
	struct hartebeest_pair pair;
	uint8_t bytes[ROOM];		/* as it has exported them last */
	size_t size;
} a, b;

/* ---------------------------------------------------------------------- the ends --- */

static void end_open(struct end *end, char name, int type, const char *option)
{
	const char *options[] = {
		"log.level=none", name == 'a' ? "device.name=fake0" : "device.name=fake1",
		"job.id=export", name == 'a' ? "job.rank=0" : "job.rank=1", option, NULL,
	};
	static const char keys[2][2] = { "a", "b" };

	memset(end, 0, sizeof(*end));
	assert_int_equal(hartebeest_open(&end->hb, options), 0);
	assert_int_equal(hartebeest_pd_create(end->hb, "pd", NULL), 0);
	assert_int_equal(cq_make(end->hb, "cq", 16, 0, NULL), 0);
	assert_int_equal(mr_make(end->hb, "mr", "pd", 4096, IBV_ACCESS_LOCAL_WRITE |
				 IBV_ACCESS_REMOTE_WRITE, &end->mr), 0);
	assert_int_equal(qp_make(end->hb, "qp", "pd", type, "cq", "cq", &end->qp), 0);
	end->offer[0] = "mr";
	hartebeest_pair_init(&end->pair);
	end->pair.qp = "qp";
	end->pair.key = keys[name == 'b'];
	end->pair.peer_key = keys[name == 'a'];
	end->pair.offer = end->offer;
	end->pair.offer_count = 1;
	end->pair.regions = end->there;
	end->pair.region_room = 2;
}

static void both_open(int type)
{
	end_open(&a, 'a', type, NULL);
	end_open(&b, 'b', type, NULL);
}

static void end_close(struct end *end)
{
	assert_int_equal(hartebeest_close(end->hb), 0);
	end->hb = NULL;
}

static int setup(void **state)
{
	struct fake_port *port;

	(void)state;
	surroundings_clear();
	fake_verbs_reset();
	port = fake_verbs_add("fake1")->ports;
	port->gids[2].gid = port->gids[3].gid = "::ffff:10.0.0.2";
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	hartebeest_close(a.hb);
	hartebeest_close(b.hb);
	a.hb = b.hb = NULL;
	return fake_verbs.open;
}

static int export(struct end *end)
{
	end->size = sizeof(end->bytes);
	return hartebeest_qp_export(end->hb, &end->pair, 1, end->bytes, &end->size);
}

static int import(struct end *end, const struct end *from)
{
	return hartebeest_qp_import(end->hb, &end->pair, 1, from->bytes, from->size, 0);
}

static const struct ibv_qp_attr *rtr_of(const struct ibv_qp *qp)
{
	size_t i = fake_verbs.modified_count;

	while (i-- > 0)
		if (fake_verbs.modified[i].qp_num == qp->qp_num &&
		    fake_verbs.modified[i].attr.qp_state == IBV_QPS_RTR &&
		    fake_verbs.modified[i].ret == 0)
			return &fake_verbs.modified[i].attr;
	fail_msg("queue pair %u was never in RTR", qp->qp_num);
	return NULL;
}

/* Both are in RTS, each with the numbers and the region of the other. */
static void are_connected(void)
{
	struct end *ends[] = { &a, &b };
	int i;

	for (i = 0; i < 2; i++) {
		const struct end *own = ends[i], *other = ends[!i];

		assert_int_equal(own->qp->state, IBV_QPS_RTS);
		assert_int_equal(rtr_of(own->qp)->dest_qp_num, other->qp->qp_num);
		assert_int_equal(rtr_of(own->qp)->rq_psn,
				 fake_verbs_last_modify(other->qp)->attr.sq_psn);
		assert_int_equal(own->pair.peer.qp_num, other->qp->qp_num);
		assert_int_equal(own->pair.peer.rank, !i);
		assert_int_equal(own->pair.region_count, 1);
		assert_int_equal(own->there[0].rkey, other->mr->rkey);
		assert_int_equal(own->there[0].address, (uintptr_t)other->mr->addr);
	}
}

/* ---------------------------------------------------------------------- connecting --- */

/* Both export and import at the same time, twice. */
static void both_at_once(void **state)
{
	(void)state;
	both_open(IBV_QPT_RC);
	assert_int_equal(export(&a), 0);
	assert_int_equal(export(&b), 0);
	assert_int_equal(import(&a, &b), 1);
	assert_int_equal(import(&b, &a), 1);
	are_connected();
	assert_int_equal(export(&a), 0);
	assert_int_equal(export(&b), 0);
	assert_int_equal(import(&a, &b), 0);
	assert_int_equal(import(&b, &a), 0);
	are_connected();
	/* No server was named, and none was needed. */
	assert_null(a.hb->registry);
}

/* A request, its answer, and a third message. */
static void one_after_the_other(void **state)
{
	(void)state;
	both_open(IBV_QPT_UC);
	assert_int_equal(export(&a), 0);
	assert_int_equal(import(&b, &a), 1);
	assert_int_equal(export(&b), 0);
	assert_int_equal(import(&a, &b), 0);
	assert_int_equal(export(&a), 0);
	assert_int_equal(import(&b, &a), 0);
	are_connected();
}

static void datagrams(void **state)
{
	struct hartebeest_ud_address address;

	(void)state;
	both_open(IBV_QPT_UD);
	assert_int_equal(export(&a), 0);
	assert_int_equal(a.qp->state, IBV_QPS_RTS);
	assert_int_equal(import(&b, &a), 0);
	assert_int_equal(hartebeest_qp_ud_address(b.hb, "qp", "a", &address), 0);
	assert_int_equal(address.qp_num, a.qp->qp_num);
	assert_int_equal(b.there[0].rkey, a.mr->rkey);
}

static void many_pairs(void **state)
{
	static const char *const names[] = { "qp", "q1", "q2" };
	static const char *const keys[2][3] = { { "a", "a1", "a2" }, { "b", "b1", "b2" } };
	struct hartebeest_pair pairs[2][3];
	static uint8_t bytes[2][ROOM];
	struct end *ends[] = { &a, &b };
	struct ibv_qp *qp;
	size_t size[2];
	int i, k, turn;

	(void)state;
	both_open(IBV_QPT_RC);
	for (i = 0; i < 2; i++)
		for (k = 0; k < 3; k++) {
			if (k)
				assert_int_equal(qp_make(ends[i]->hb, names[k], "pd", IBV_QPT_RC,
							 "cq", "cq", NULL), 0);
			hartebeest_pair_init(&pairs[i][k]);
			/* In another order at the other end. */
			pairs[i][k].qp = names[i ? 2 - k : k];
			pairs[i][k].key = keys[i][i ? 2 - k : k];
			pairs[i][k].peer_key = keys[!i][i ? 2 - k : k];
		}
	for (turn = 0; turn < 2; turn++) {
		for (i = 0; i < 2; i++) {
			size[i] = ROOM;
			assert_int_equal(hartebeest_qp_export(ends[i]->hb, pairs[i], 3, bytes[i],
							      &size[i]), 0);
		}
		for (i = 0; i < 2; i++)
			assert_int_equal(hartebeest_qp_import(ends[i]->hb, pairs[i], 3, bytes[!i],
							      size[!i], 0), turn ? 0 : 3);
	}
	assert_int_equal(hartebeest_qp_get(b.hb, "q1", &qp), 0);
	assert_int_equal(pairs[0][1].peer.qp_num, qp->qp_num);
	/* Only some of what the peer has exported. */
	assert_int_equal(hartebeest_qp_import(a.hb, &pairs[0][2], 1, bytes[1], size[1], 0), 0);
}

static void sizes(void **state)
{
	uint8_t bytes[ROOM];
	size_t size = 7;

	(void)state;
	both_open(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_export(a.hb, &a.pair, 1, NULL, &size), 0);
	assert_in_range(size, 100, HARTEBEEST_EXPORT_SIZE(1, 1));
	size--;
	memset(bytes, 0x5a, sizeof(bytes));
	assert_int_equal(hartebeest_qp_export(a.hb, &a.pair, 1, bytes, &size), -EMSGSIZE);
	assert_error_has("bytes, but there is room for ");
	assert_int_equal(bytes[0], 0x5a);
	assert_int_equal(hartebeest_qp_export(a.hb, &a.pair, 1, bytes, &size), 0);
	assert_int_equal(bytes[size], 0x5a);
	/* What follows is not read. */
	assert_int_equal(hartebeest_qp_import(b.hb, &b.pair, 1, bytes, sizeof(bytes), 0), 1);
}

/* The peer's process ends after it has connected; another one takes its place. */
static void a_peer_that_is_replaced(void **state)
{
	(void)state;
	both_at_once(state);
	end_close(&b);
	end_open(&b, 'b', IBV_QPT_RC, NULL);
	assert_int_equal(export(&b), 0);
	assert_int_equal(import(&a, &b), 1);
	assert_int_equal(export(&a), 0);
	assert_int_equal(import(&b, &a), 0);
	assert_int_equal(export(&b), 0);
	assert_int_equal(import(&a, &b), 0);
	are_connected();
}

/* This end begins again, so both connect again. */
static void begin_again(void **state)
{
	(void)state;
	both_at_once(state);
	assert_int_equal(hartebeest_qp_confirm(a.hb, "qp", "b", 0), -ENOTCONN);
	assert_error_has("queue pair 'qp' is confirmed by bytes: import what its peer exports");
	assert_int_equal(hartebeest_qp_reconnect(a.hb, "qp", "b", 0), -ENOTCONN);
	assert_error_has("queue pair 'qp' is connected by bytes: call hartebeest_qp_reset()");
	assert_int_equal(hartebeest_qp_reset(a.hb, "qp"), 0);
	assert_int_equal(export(&a), 0);
	assert_int_equal(import(&b, &a), 1);
	assert_int_equal(export(&b), 0);
	assert_int_equal(import(&a, &b), 0);
	are_connected();
}

/* One end answers fewer reads than it has exported, and the other learns that. */
static void adapters_that_agree(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		fake_verbs.devices[i].ece_vendor = 0x15b3;
		fake_verbs.devices[i].ece_options = i ? 0x31 : 0x13;
	}
	fake_verbs.devices[1].ece_refuses = 0x10;
	both_open(IBV_QPT_RC);
	for (i = 0; i < 3; i++) {
		assert_int_equal(export(&a), 0);
		assert_int_equal(export(&b), 0);
		assert_true(import(&a, &b) >= 0);
		assert_true(import(&b, &a) >= 0);
	}
	assert_int_equal(import(&a, &b), 0);
	assert_int_equal(fake_verbs_ece(a.qp), 0x1);
	assert_int_equal(fake_verbs_ece(b.qp), 0x1);
}

/* ---------------------------------------------------------------------- refusals --- */

static void refuses(struct end *end, const void *bytes, size_t size, int err, const char *why)
{
	assert_int_equal(hartebeest_qp_import(end->hb, &end->pair, 1, bytes, size, 0), -err);
	assert_error_has(why);
	assert_int_equal(end->pair.result, -err);
	assert_true(strstr(end->pair.reason, why) != NULL);
}

static void what_is_refused(void **state)
{
	uint8_t bytes[ROOM], old[ROOM];
	size_t i, old_size;

	(void)state;
	both_open(IBV_QPT_RC);
	assert_int_equal(export(&a), 0);
	assert_int_equal(export(&b), 0);
	refuses(&b, a.bytes, 0, EBADMSG, "these are not bytes of hartebeest_qp_export(): there "
		"are none");
	refuses(&b, "hello, world", 12, EBADMSG, "these are not bytes of hartebeest_qp_export()");
	for (i = 1; i < a.size; i++)
		refuses(&b, a.bytes, i, EBADMSG, i < 10 ? "these are not bytes of " :
			"that were exported have arrived");
	/* Each byte counts. */
	for (i = 0; i < a.size; i++) {
		memcpy(bytes, a.bytes, a.size);
		bytes[i] ^= 0x40;
		assert_true(hartebeest_qp_import(b.hb, &b.pair, 1, bytes, a.size, 0) < 0);
	}
	memcpy(bytes, a.bytes, a.size);
	bytes[3] = 2;
	refuses(&b, bytes, a.size, EPROTONOSUPPORT, "bytes of version 2");
	refuses(&a, a.bytes, a.size, ENOENT, "the peer did not export hb1/export/qp/b; these bytes "
		"are of hb1/export/qp/a");
	a.pair.peer_key = "a";
	refuses(&a, a.bytes, a.size, EINVAL, "have the same key 'a'");
	a.pair.key = "other";
	refuses(&a, a.bytes, a.size, EINVAL, "these are the bytes of this end itself");
	a.pair.key = "a", a.pair.peer_key = "b";

	/* Bytes that were exported before others are late. */
	memcpy(old, a.bytes, a.size);
	old_size = a.size;
	assert_int_equal(hartebeest_qp_reset(a.hb, "qp"), 0);
	assert_int_equal(export(&a), 0);
	assert_int_equal(import(&b, &a), 1);
	refuses(&b, old, old_size, ESTALE, "these bytes are older than those of the same peer that "
		"were imported before");
	assert_int_equal(b.qp->state, IBV_QPS_RTS);

	end_close(&a);
	end_open(&a, 'a', IBV_QPT_RC, "job.id=other");
	assert_int_equal(export(&a), 0);
	refuses(&b, a.bytes, a.size, ENOENT, "the peer did not export hb1/export/qp/a; these bytes "
		"are of hb1/other/qp/a");
}

/* The end that cannot connect says why, and the other hears it with the next bytes. */
static void ends_that_disagree(void **state)
{
	(void)state;
	end_open(&a, 'a', IBV_QPT_RC, "qp_attr.rq_psn=1");
	end_open(&b, 'b', IBV_QPT_RC, NULL);
	assert_int_equal(export(&b), 0);
	assert_int_equal(import(&a, &b), -EPROTO);
	assert_error_has("queue pair 'qp' and 'b': the peer (rank 1): option qp_attr.rq_psn is 1");
	assert_int_equal(export(&a), 0);
	assert_int_equal(import(&b, &a), -ECONNABORTED);
	assert_error_has("the peer could not connect to this queue pair: option qp_attr.rq_psn is "
			 "1, but ");
	/* Until it begins again. */
	assert_int_equal(hartebeest_qp_reset(a.hb, "qp"), 0);
	assert_int_equal(export(&a), 0);
	assert_int_equal(import(&b, &a), 1);
}

/* A neighbour that does not answer yet; nothing is exported of a queue pair that is not there. */
static void trouble_of_this_end(void **state)
{
	(void)state;
	both_open(IBV_QPT_RC);
	assert_int_equal(export(&b), 0);
	assert_int_equal(export(&a), 0);
	fake_verbs_fail("ibv_modify_qp", 1, EHOSTUNREACH);
	assert_int_equal(hartebeest_qp_import(a.hb, &a.pair, 1, b.bytes, b.size, HARTEBEEST_ONCE),
			 -EAGAIN);
	assert_error_has("there is no route to the peer's address 10.0.0.2");
	fake_verbs_fail("ibv_modify_qp", 1, EHOSTUNREACH);
	assert_int_equal(import(&a, &b), 1);
	a.pair.qp = "none";
	assert_int_equal(export(&a), -ENOENT);
	assert_error_has("queue pair 'none' and 'b': no queue pair is called 'none'");
	a.pair.qp = NULL;
	assert_int_equal(export(&a), -EINVAL);
	assert_error_has("pair 0: the field qp is NULL");
	assert_int_equal(hartebeest_qp_export(a.hb, &a.pair, 0, NULL, &a.size), -EINVAL);
	assert_error_has("hartebeest_qp_export(): count is 0");
	assert_int_equal(hartebeest_qp_import(a.hb, &a.pair, 0, "", 0, 0), -EINVAL);
}

static void sealed(void **state)
{
#ifdef HAVE_CRYPTO
	char path[SCRATCH_SIZE], other[SCRATCH_SIZE], setting[128], wrong[128];

	(void)state;
	scratch_text(path, "export-secret", "0123456789abcdef");
	scratch_text(other, "export-other", "fedcba9876543210");
	snprintf(setting, sizeof(setting), "exchange.secret_file=%s", path);
	snprintf(wrong, sizeof(wrong), "exchange.secret_file=%s", other);
	end_open(&a, 'a', IBV_QPT_RC, setting);
	end_open(&b, 'b', IBV_QPT_RC, setting);
	assert_int_equal(export(&a), 0);
	assert_null(memmem(a.bytes, a.size, &a.mr->rkey, 4));
	assert_int_equal(import(&b, &a), 1);
	assert_int_equal(export(&b), 0);
	assert_int_equal(import(&a, &b), 0);
	end_close(&b);
	end_open(&b, 'b', IBV_QPT_RC, wrong);
	assert_int_equal(import(&b, &a), -EKEYREJECTED);
	end_close(&b);
	end_open(&b, 'b', IBV_QPT_RC, NULL);
	assert_int_equal(import(&b, &a), -ENOKEY);
	assert_error_has("a sealed record, but this process has no secret");
	assert_int_equal(export(&b), 0);
	assert_int_equal(import(&a, &b), -EKEYREJECTED);
	assert_error_has("a record that is not sealed");
	unlink(path);
	unlink(other);
#else
	(void)state;
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(both_at_once),
		TEST(one_after_the_other),
		TEST(datagrams),
		TEST(many_pairs),
		TEST(sizes),
		TEST(a_peer_that_is_replaced),
		TEST(begin_again),
		TEST(adapters_that_agree),
		TEST(what_is_refused),
		TEST(ends_that_disagree),
		TEST(trouble_of_this_end),
		TEST(sealed),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
