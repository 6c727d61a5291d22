/* SPDX-License-Identifier: MIT */
/*
 * port.c - one choice for a port: what each INIT costs, and what makes it choose again
 *
 * Each call of verbs, getifaddrs(3) and poll(2) is recorded by name.
 *
 * promise: hartebeest_qp(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hartebeest.h"
#include "lib/core/context.h"
#include "lib/verbs/qp.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/logged.h"
#include "tests/support/make.h"

/* ------------------------------------------------------------- counting --- */

static bool counting;
static char calls[4096];		/* their names, each with a space behind it */

static void note_call(const char *function)
{
	if (counting)
		strcat(strcat(calls, function), " ");
}

/* Replaces libc's poll(2), by which the library looks for events. */
int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	struct timespec left = { timeout / 1000, timeout % 1000 * 1000000L };

	note_call("poll");
	return (int)syscall(SYS_ppoll, fds, count, timeout < 0 ? NULL : &left, NULL, 0);
}

static void count(bool on)
{
	counting = on;
	if (on)
		calls[0] = '\0';
}

/* ------------------------------------------------------------- helpers --- */

static struct hartebeest_context *hb;
static int made;

static int lines_of(const char *words)
{
	const char *at = logged;
	int lines = 0;

	while ((at = strstr(at, words))) {
		at++;
		lines++;
	}
	return lines;
}

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	fake_verbs_reset();
	fake_verbs.hook = note_call;
	logged[0] = '\0';
	made = 0;
	hb = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	count(false);
	fake_verbs.hook = NULL;
	hartebeest_close(hb);
	return fake_verbs.open;
}

static void open_with(const char *one, const char *two)
{
	const char *options[] = { one, two, NULL };

	assert_int_equal(hartebeest_open(&hb, options), 0);
	assert_int_equal(hartebeest_log_set(hb, HARTEBEEST_LOG_INFO, logged_keep, NULL), 0);
	assert_int_equal(hartebeest_pd_create(hb, "pd", NULL), 0);
	assert_int_equal(cq_make(hb, "cq", 0, 0, NULL), 0);
}

static struct fake_port *own_port(void)
{
	return &fake_verbs.devices[0].ports[0];
}

static struct beest_qp *find_qp(const char *name)
{
	struct beest_node *node;

	node = beest_table_find(&hb->objects, &beest_qp_kind, name);
	assert_non_null(node);
	return BEEST_CONTAINER(node, struct beest_qp, node);
}

/* Makes another queue pair; only the calls of its INIT are recorded. */
static int init_another(struct beest_qp **qp)
{
	char name[16];
	int ret;

	snprintf(name, sizeof(name), "qp%d", made++);
	assert_int_equal(qp_make(hb, name, "pd", IBV_QPT_RC, "cq", "cq", NULL), 0);
	count(true);
	ret = hartebeest_qp_init(hb, name);
	count(false);
	if (qp)
		*qp = find_qp(name);
	return ret;
}

static void init_costs(const char *expected)
{
	assert_int_equal(init_another(NULL), 0);
	assert_string_equal(calls, expected);
}

static void raise_event(enum ibv_event_type type, int port)
{
	struct ibv_async_event event = { .event_type = type };

	event.element.port_num = port;
	fake_verbs_raise(&event);
}

static int connect_to(struct beest_qp *qp, const char *ip)
{
	struct beest_endpoint remote = qp->local.endpoint;

	remote.rank = 3;
	remote.qp_num = 0xabcdef;
	assert_int_equal(beest_ipaddr_parse(ip, &remote.gid), 0);
	remote.ip = remote.gid;
	return beest_qp_connect(qp, "far", &remote, UNIT_LIMIT(0), NULL);
}

/* ------------------------------------------------------------- the price --- */

/* One poll(2) of the event descriptor, and one call of the device. */
static void the_second_init_costs_one_call(void **state)
{
	struct beest_qp *first, *second;

	(void)state;
	open_with(NULL, NULL);
	assert_int_equal(init_another(&first), 0);
	assert_non_null(strstr(calls, "ibv_create_ah "));
	assert_non_null(strstr(calls, "getifaddrs "));
	init_costs("poll ibv_modify_qp ");
	assert_int_equal(init_another(&second), 0);
	assert_string_equal(calls, "poll ibv_modify_qp ");
	assert_int_equal(second->local.sgid_index, 3);
	assert_memory_equal(&second->local.endpoint.gid, &first->local.endpoint.gid, 16);
	assert_memory_equal(&second->local.endpoint.ip, &first->local.endpoint.ip, 16);
	assert_int_equal(second->local.endpoint.mtu, first->local.endpoint.mtu);
	assert_int_equal(second->local.endpoint.pkey, 0xffff);
	assert_int_equal(lines_of("GID index 3: "), 1);
}

static void the_same_on_infiniband(void **state)
{
	struct beest_qp *qp;

	(void)state;
	fake_verbs_infiniband();
	fake_verbs.hook = note_call;
	open_with(NULL, NULL);
	assert_int_equal(init_another(NULL), 0);
	assert_non_null(strstr(calls, "ibv_query_pkey "));
	init_costs("poll ibv_modify_qp ");
	assert_int_equal(init_another(&qp), 0);
	assert_int_equal(qp->local.endpoint.lid, 7);
}

/* Transports may have different partitions: each is looked up once. */
static void partitions_of_all_transports(void **state)
{
	struct beest_port_pkey found;
	size_t i, again;

	(void)state;
	fake_verbs_infiniband();
	own_port()->pkey_count = 4;
	for (i = 0; i < 4; i++)
		own_port()->pkeys[i] = (uint16_t)(0x8001 + i);
	open_with(NULL, NULL);
	assert_int_equal(init_another(NULL), 0);
	fake_verbs.hook = note_call;
	for (again = 0; again < 2; again++)
		for (i = 1; i < BEEST_TRANSPORTS; i++) {
			count(true);
			assert_int_equal(beest_port_pkey(&hb->port, (enum beest_transport)i,
							 (uint16_t)(0x8001 + i), &found), 0);
			count(false);
			assert_int_equal(found.index, i);
			assert_int_equal(found.pkey, 0x8001 + i);
			assert_int_equal(calls[0] != '\0', again == 0);
		}
	beest_port_forget(&hb->port);
	for (again = 0; again < 2; again++)
		assert_int_equal(beest_port_pkey(&hb->port, BEEST_UC, 0x8009, &found), -ENODATA);
}

/* The device is asked for the state only if the queue pair may have failed by itself. */
static void a_connection_asks_no_state(void **state)
{
	struct beest_qp *qp;

	(void)state;
	open_with(NULL, NULL);
	assert_int_equal(init_another(&qp), 0);
	count(true);
	assert_int_equal(connect_to(qp, "10.0.0.2"), 0);
	count(false);
	assert_null(strstr(calls, "ibv_query_qp"));
	assert_null(strstr(calls, "ibv_query_port"));
	assert_null(strstr(calls, "getifaddrs"));
	fake_verbs_set_state(qp->qp, IBV_QPS_ERR);
	count(true);
	assert_int_equal(hartebeest_qp_reset(hb, "qp0"), 0);
	count(false);
	assert_string_equal(calls, "ibv_query_qp ibv_modify_qp ");
	count(true);
	assert_int_equal(hartebeest_qp_init(hb, "qp0"), 0);
	count(false);
	assert_string_equal(calls, "poll ibv_modify_qp ");
}

/* Where a record tells the peer, LID and MTU are asked for once, and a RoCE GID is read once. */
static void what_a_published_connection_asks(void **state)
{
	static const struct {
		bool infiniband;
		int type;
		const char *peer, *calls;
	} rows[] = {
		{ false, IBV_QPT_RC, "10.0.0.2",
		  "ibv_query_port ibv_query_gid_ex ibv_modify_qp ibv_modify_qp " },
		{ true, IBV_QPT_RC, "fe80::9", "ibv_query_port ibv_modify_qp ibv_modify_qp " },
		{ true, IBV_QPT_UD, "fe80::9",
		  "ibv_query_port ibv_modify_qp ibv_modify_qp ibv_create_ah " },
	};
	struct beest_qp *qp;
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++) {
		setup(NULL);
		if (rows[i].infiniband)
			fake_verbs_infiniband();
		fake_verbs.hook = note_call;
		open_with(NULL, NULL);
		assert_int_equal(qp_make(hb, "qp", "pd", rows[i].type, "cq", "cq", NULL), 0);
		assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
		qp = find_qp("qp");
		strcpy(qp->key, "near");
		count(true);
		assert_int_equal(connect_to(qp, rows[i].peer), 0);
		count(false);
		assert_string_equal(calls, rows[i].calls);
		assert_int_equal(teardown(state), 0);
		hb = NULL;
	}
}

/* -------------------------------------------------------- choosing again --- */

static void an_event_of_the_port(void **state)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_GID_CHANGE, IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE,
		IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE, IBV_EVENT_CLIENT_REREGISTER,
	};
	struct hartebeest_event event;
	struct beest_qp *qp;
	size_t i;

	(void)state;
	open_with(NULL, NULL);
	assert_int_equal(init_another(NULL), 0);
	for (i = 0; i < BEEST_COUNT(types); i++) {
		raise_event(types[i], 1);
		if (i % 2)		/* an event counts whoever reads it */
			assert_int_equal(hartebeest_event_get(hb, &event, 0), 1);
		own_port()->active_mtu = i % 2 ? IBV_MTU_1024 : IBV_MTU_2048;
		assert_int_equal(init_another(&qp), 0);
		assert_non_null(strstr(calls, "ibv_query_port "));
		assert_int_equal(qp->local.endpoint.mtu, own_port()->active_mtu);
		init_costs("poll ibv_modify_qp ");
	}
	assert_int_equal(lines_of("GID index 3: "), 1);		/* the same choice each time */
}

static void an_event_of_another_port(void **state)
{
	struct ibv_async_event device = { .event_type = IBV_EVENT_DEVICE_FATAL };

	(void)state;
	open_with(NULL, NULL);
	assert_int_equal(init_another(NULL), 0);
	raise_event(IBV_EVENT_GID_CHANGE, 2);
	assert_int_equal(init_another(NULL), 0);
	assert_null(strstr(calls, "ibv_query_port"));
	device.element.port_num = 1;
	fake_verbs_raise(&device);
	assert_int_equal(init_another(NULL), 0);
	assert_null(strstr(calls, "ibv_query_port"));
}

static void a_better_address_comes(void **state)
{
	struct fake_gid *gids = own_port()->gids;
	struct beest_qp *qp;

	(void)state;
	gids[3].gid = NULL;
	open_with(NULL, NULL);
	assert_int_equal(init_another(&qp), 0);
	assert_int_equal(qp->local.sgid_index, 1);
	gids[3].gid = "::ffff:10.0.0.1";
	raise_event(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(init_another(&qp), 0);
	assert_int_equal(qp->local.sgid_index, 3);
	assert_int_equal(lines_of("GID index 1: "), 1);
	assert_int_equal(lines_of("GID index 3: "), 1);
}

static void a_refusal(void **state)
{
	struct beest_qp *qp;

	(void)state;
	open_with(NULL, NULL);
	assert_int_equal(init_another(&qp), 0);
	fake_verbs_fail("ibv_modify_qp", 1, ETIMEDOUT);
	assert_int_equal(connect_to(qp, "10.0.0.2"), -ETIMEDOUT);
	assert_int_equal(init_another(NULL), 0);
	assert_non_null(strstr(calls, "ibv_create_ah "));
	init_costs("poll ibv_modify_qp ");

	fake_verbs_fail("ibv_modify_qp", 1, EINVAL);
	assert_int_equal(init_another(NULL), -EINVAL);
	assert_int_equal(init_another(NULL), 0);
	assert_non_null(strstr(calls, "ibv_create_ah "));
}

static void a_datagram_address_that_is_refused(void **state)
{
	struct beest_qp *qp;

	(void)state;
	open_with(NULL, NULL);
	assert_int_equal(qp_make(hb, "ud", "pd", IBV_QPT_UD, "cq", "cq", NULL), 0);
	assert_int_equal(hartebeest_qp_init(hb, "ud"), 0);
	qp = find_qp("ud");
	fake_verbs_fail("ibv_create_ah", 1, ENETUNREACH);
	assert_int_equal(connect_to(qp, "10.0.0.2"), -ENETUNREACH);
	assert_int_equal(init_another(NULL), 0);
	assert_non_null(strstr(calls, "ibv_query_port "));
}

/* ----------------------------------------------- events left to the program --- */

static void without_events_one_entry_is_read(void **state)
{
	struct fake_gid *gids = own_port()->gids;
	struct beest_qp *qp;

	(void)state;
	open_with("device.events=0", NULL);
	assert_int_equal(init_another(NULL), 0);
	init_costs("ibv_query_gid_ex ibv_modify_qp ");
	gids[6] = gids[3];
	gids[3].gid = "::ffff:10.0.0.9";
	gids[3].roce = 1;
	assert_int_equal(init_another(&qp), 0);
	assert_non_null(strstr(calls, "ibv_create_ah "));
	assert_int_equal(qp->local.sgid_index, 6);
	assert_null(strstr(calls, "poll"));
}

/* An address handle has 8 bits for the index, so a larger one would name another entry. */
static void a_gid_may_move_too_far(void **state)
{
	struct fake_gid *gids = own_port()->gids;
	struct beest_qp *qp;

	(void)state;
	open_with("device.events=0", NULL);
	assert_int_equal(init_another(&qp), 0);
	own_port()->gid_count = 256 + 8;
	gids[256 + 7] = gids[3];
	gids[3].gid = "::ffff:10.0.0.9";
	assert_int_equal(connect_to(qp, "::ffff:10.0.0.2"), -ENODATA);
	assert_error_has("the GID ::ffff:10.0.0.1 (RoCE v2) of this end is no longer in the table");
	gids[7] = gids[256 + 7];
	assert_int_equal(connect_to(qp, "::ffff:10.0.0.2"), 0);
	assert_int_equal(qp->local.sgid_index, 7);
}

/* On InfiniBand, all is read again: an old LID must not be published. */
static void without_events_infiniband_reads_all(void **state)
{
	struct beest_qp *qp;

	(void)state;
	fake_verbs_infiniband();
	open_with("device.events=0", NULL);
	assert_int_equal(init_another(&qp), 0);
	assert_int_equal(qp->local.endpoint.lid, 7);
	own_port()->lid = 8;
	assert_int_equal(init_another(&qp), 0);
	assert_int_equal(qp->local.endpoint.lid, 8);
}

/* ------------------------------------------------------- the trial handle --- */

/* An error that is not about the GID fails the call; the next call starts from scratch. */
static void a_passing_failure_is_not_remembered(void **state)
{
	static const int errors[] = { EIO, ENOMEM, EBUSY, EPERM };
	char sentence[160];
	struct beest_qp *qp;
	size_t i;

	(void)state;
	open_with(NULL, NULL);
	for (i = 0; i < BEEST_COUNT(errors); i++) {
		fake_verbs_fail("ibv_create_ah", 1, errors[i]);
		assert_int_equal(init_another(NULL), -errors[i]);
		snprintf(sentence, sizeof(sentence), "port fake0:1: an address handle from GID 3 "
			 "(::ffff:10.0.0.1) to itself failed: %s", strerror(errors[i]));
		assert_error_is(sentence);
		assert_int_equal(init_another(&qp), 0);
		assert_int_equal(qp->local.sgid_index, 3);
		beest_port_forget(&hb->port);
	}
	assert_int_equal(lines_of("GID index 3: "), 1);
}

static void a_failure_of_the_gid_chooses_the_next(void **state)
{
	static const int errors[] = {
		EINVAL, ENODATA, ENODEV, ENXIO, ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, ETIMEDOUT,
	};
	struct beest_qp *qp;
	size_t i;

	(void)state;
	open_with(NULL, NULL);
	for (i = 0; i < BEEST_COUNT(errors); i++) {
		own_port()->gids[3].ah_error = errors[i];
		assert_int_equal(init_another(&qp), 0);
		assert_int_equal(qp->local.sgid_index, 1);
		own_port()->gids[3].ah_error = 0;
		beest_port_forget(&hb->port);
		assert_int_equal(init_another(&qp), 0);
		assert_int_equal(qp->local.sgid_index, 3);
		beest_port_forget(&hb->port);
	}
}

/* ------------------------------------------------------ an address that is lost --- */

#define LOST "the GID ::ffff:10.0.0.1 (RoCE v2) of this end is no longer in the table of port " \
	"fake0:1: was its address removed?"

/* Only link-local IPv6 is left.  The error names the lost address, not differing families. */
static void a_lost_address_is_named(void **state)
{
	struct fake_gid *gids = own_port()->gids;
	struct beest_qp *qp;

	(void)state;
	open_with(NULL, NULL);
	assert_int_equal(init_another(&qp), 0);
	gids[2].gid = gids[3].gid = NULL;
	raise_event(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(connect_to(qp, "10.0.0.2"), -ENODATA);
	assert_error_has(LOST);
	assert_int_equal(hartebeest_qp_reset(hb, "qp0"), 0);
	assert_int_equal(hartebeest_qp_init(hb, "qp0"), 0);
	assert_int_equal(qp->local.sgid_index, 1);
	assert_int_equal(connect_to(qp, "10.0.0.2"), -ENODATA);
	assert_error_has(LOST);

	gids[6].gid = "::ffff:10.0.0.1";		/* the address is back, at another index */
	gids[6].roce = 2;
	gids[6].netdev = "eth0";
	raise_event(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(hartebeest_qp_reset(hb, "qp0"), 0);
	assert_int_equal(hartebeest_qp_init(hb, "qp0"), 0);
	assert_int_equal(connect_to(qp, "10.0.0.2"), 0);
	assert_int_equal(qp->local.sgid_index, 6);
}

static void families_differ_all_the_same(void **state)
{
	struct beest_qp *qp;

	(void)state;
	open_with("device.family=ipv6", NULL);
	assert_int_equal(init_another(&qp), 0);
	assert_int_equal(connect_to(qp, "10.0.0.2"), -EPROTO);
	assert_error_has("the address family of the GID differs: IPv6 here (fake0:1) but IPv4 at "
			 "the peer (rank 3)");
}

/* ------------------------------------------------------------ many threads --- */

#define THREADS 8
#define INITS 32

static void *init_many(void *data)
{
	const char *name = data;
	int i;

	for (i = 0; i < INITS; i++)
		if (hartebeest_qp_init(hb, name) < 0 || hartebeest_qp_reset(hb, name) < 0)
			return data;
	return NULL;
}

static void many_threads(void **state)
{
	char names[THREADS][8];
	pthread_t threads[THREADS];
	void *failed;
	int i;

	(void)state;
	fake_verbs.hook = NULL;
	open_with(NULL, NULL);
	for (i = 0; i < THREADS; i++) {
		snprintf(names[i], sizeof(names[i]), "t%d", i);
		assert_int_equal(qp_make(hb, names[i], "pd", IBV_QPT_RC, "cq", "cq",
						      NULL), 0);
	}
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, init_many, names[i]), 0);
	for (i = 0; i < 4; i++)
		raise_event(IBV_EVENT_GID_CHANGE, 1);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	assert_true(fake_verbs_calls("ibv_create_ah") <= 5);
	assert_int_equal(lines_of("GID index 3: "), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(the_second_init_costs_one_call),
		TEST(the_same_on_infiniband),
		TEST(partitions_of_all_transports),
		TEST(a_connection_asks_no_state),
		TEST(what_a_published_connection_asks),
		TEST(an_event_of_the_port),
		TEST(an_event_of_another_port),
		TEST(a_better_address_comes),
		TEST(a_refusal),
		TEST(a_datagram_address_that_is_refused),
		TEST(without_events_one_entry_is_read),
		TEST(a_gid_may_move_too_far),
		TEST(without_events_infiniband_reads_all),
		TEST(a_passing_failure_is_not_remembered),
		TEST(a_failure_of_the_gid_chooses_the_next),
		TEST(a_lost_address_is_named),
		TEST(families_differ_all_the_same),
		TEST(many_threads),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
