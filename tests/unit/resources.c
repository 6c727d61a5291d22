/* SPDX-License-Identifier: MIT */
/*
 * resources.c - domains, queues, regions and queue pairs through the public interface:
 * creating, finding, destroying, and RESET -> INIT
 *
 * promise: hartebeest_pd(3), hartebeest_mr(3), hartebeest_qp(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hartebeest-mesh.h"
#include "hartebeest-post.h"
#include "hartebeest.h"
#include "lib/base/error.h"
#include "lib/base/memlock.h"
#include "lib/core/context.h"
#include "lib/verbs/mr.h"
#include "lib/verbs/qp.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/logged.h"
#include "tests/support/make.h"
#include "tests/support/meanwhile.h"
#include "tests/support/scratch.h"

#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct hartebeest_context *hb;
static int huge_flags;

/* ------------------------------------------------------------- helpers --- */

static void open_with(const char *first, const char *second)
{
	const char *options[] = { first, second, NULL };

	hartebeest_close(hb);
	hb = NULL;
	assert_int_equal(hartebeest_open(&hb, options), 0);
}

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	fake_verbs_reset();
	beest_mr_huge_flags = huge_flags;
	return hartebeest_open(&hb, NULL);
}

/* Whatever a test did, nothing stays open after the context is closed. */
static int teardown(void **state)
{
	(void)state;
	fake_verbs.hook = NULL;
	hartebeest_close(hb);
	hb = NULL;
	if (fake_verbs.open)
		print_error("%d objects are still open\n", fake_verbs.open);
	return fake_verbs.open;
}

static struct ibv_pd *make_pd(void)
{
	struct ibv_pd *pd = NULL;

	assert_int_equal(hartebeest_pd_create(hb, "pd", &pd), 0);
	return pd;
}

static struct ibv_cq *make_cq(void)
{
	struct ibv_cq *cq = NULL;

	assert_int_equal(cq_make(hb, "cq", 0, 0, &cq), 0);
	return cq;
}

static struct ibv_qp *make_qp(int type)
{
	struct ibv_qp *qp = NULL;

	make_pd();
	make_cq();
	assert_int_equal(qp_make(hb, "qp", "pd", type, "cq", "cq", &qp), 0);
	assert_non_null(qp);
	return qp;
}

/* The library's knowledge of the local end, from which it publishes. */
static const struct beest_local *end_of(const char *name)
{
	struct beest_node *node;

	node = beest_table_find(&hb->objects, &beest_qp_kind, name);
	assert_non_null(node);
	return &BEEST_CONTAINER(node, struct beest_qp, node)->local;
}

static void assert_gid(const uint8_t gid[16], const char *text)
{
	uint8_t wanted[16];

	assert_int_equal(inet_pton(AF_INET6, text, wanted), 1);
	assert_memory_equal(gid, wanted, sizeof(wanted));
}

/* -------------------------------------------------------------- opening --- */

static void nothing_before_it_is_needed(void **state)
{
	struct ibv_context *verbs = NULL;

	(void)state;
	assert_int_equal(fake_verbs_calls("ibv_get_device_list"), 0);
	assert_int_equal(hartebeest_verbs(hb, &verbs), 0);
	assert_non_null(verbs);
	assert_int_equal(fake_verbs.contexts, 1);
	assert_int_equal(hartebeest_port_num(hb), 1);
	make_qp(IBV_QPT_RC);
	assert_int_equal(fake_verbs.contexts, 1);
	assert_int_equal(fake_verbs_calls("ibv_open_device"), 1);
}

static void a_device_that_is_not_there(void **state)
{
	struct ibv_pd *pd = NULL;

	(void)state;
	open_with("device.name=fake1", NULL);
	assert_int_equal(hartebeest_pd_create(hb, "pd", &pd), -ENODEV);
	assert_error_has("fake1");
	assert_error_has("fake0");
	assert_null(pd);
	assert_int_equal(hartebeest_port_num(hb), -ENODEV);
	assert_int_equal(fake_verbs.open, 0);

	fake_verbs_add("fake1");
	assert_int_equal(hartebeest_pd_create(hb, "pd", &pd), 0);	/* plugged in */
	assert_non_null(pd);
}

static void no_rank_no_size(void **state)
{
	(void)state;
	assert_int_equal(hartebeest_rank(hb), -ENODATA);
	assert_error_has("HARTEBEEST_NID");
	assert_int_equal(hartebeest_size(hb), -ENODATA);
	assert_error_has("HARTEBEEST_NPARTICIPANTS");
	assert_string_equal(hartebeest_job(hb), "-");
	open_with("job.rank=1", "job.participants=0-7");
	assert_int_equal(hartebeest_rank(hb), 1);
	assert_int_equal(hartebeest_size(hb), 8);
}

/* Ranks are ids, not indexes. */
static void ids_with_gaps(void **state)
{
	static const int ids[] = { 2, 3, 7, 100, 2147483647 };
	int i;

	(void)state;
	assert_int_equal(hartebeest_participant(hb, 0), -ENODATA);
	assert_error_has("HARTEBEEST_NPARTICIPANTS");
	assert_int_equal(hartebeest_position(hb, 0), -ENODATA);
	open_with("job.rank=100", "job.participants=100,7,2147483647,2-3");
	assert_int_equal(hartebeest_size(hb), BEEST_COUNT(ids));
	for (i = 0; i < (int)BEEST_COUNT(ids); i++) {
		assert_int_equal(hartebeest_participant(hb, i), ids[i]);
		assert_int_equal(hartebeest_position(hb, ids[i]), i);
	}
	assert_int_equal(hartebeest_position(hb, 4), -ENOENT);
	assert_error_is("rank 4 is not among the 5 participants");
	assert_int_equal(hartebeest_position(hb, -1), -ENOENT);
	assert_int_equal(hartebeest_position(NULL, 0), -EINVAL);
	assert_int_equal(hartebeest_participant(hb, -1), -ERANGE);
	assert_int_equal(hartebeest_participant(hb, 5), -ERANGE);
	assert_error_is("participant 5 is not within 0..4");
	assert_int_equal(hartebeest_participant(hb, INT32_MIN), -ERANGE);
	assert_int_equal(hartebeest_participant(NULL, 0), -EINVAL);
}

static void the_launcher_gives_the_local_rank(void **state)
{
	(void)state;
	assert_int_equal(hartebeest_local_rank(hb), -ENODATA);
	assert_error_has("torchrun");
	assert_int_equal(hartebeest_local_rank(NULL), -EINVAL);
	setenv("RANK", "5", 1);
	setenv("WORLD_SIZE", "8", 1);
	setenv("LOCAL_RANK", "1", 1);
	open_with(NULL, NULL);
	assert_int_equal(hartebeest_rank(hb), 5);
	assert_int_equal(hartebeest_local_rank(hb), 1);
	assert_string_equal(hartebeest_origin(hb, NULL), "rank 5 of 8 (from RANK, WORLD_SIZE), "
			    "local rank 1 (from LOCAL_RANK), no job id");
}

static void closing_nothing(void **state)
{
	(void)state;
	hartebeest_close(NULL);
	assert_int_equal(hartebeest_open(NULL, NULL), -EINVAL);
	assert_error_is("hartebeest_open(): hbp is NULL");
}

static void a_failed_open_sets_nothing(void **state)
{
	const char *options[] = { "cq_attr.cq_dept=5", NULL };
	struct hartebeest_context *untouched = hb;

	(void)state;
	assert_int_equal(hartebeest_open(&untouched, options), -EINVAL);
	assert_ptr_equal(untouched, hb);
	assert_error_has("cq_depth");
}

/* The program's function is there before the context is. */
static void a_failed_open_reaches_the_function(void **state)
{
	const char *bad[] = { "cq_attr.cq_dept=5", NULL }, *silent[] = { "log.level=none", NULL };
	struct hartebeest_context *own;

	(void)state;
	logged[0] = '\0';
	assert_int_equal(hartebeest_log_set(NULL, 9, logged_keep, NULL), -EINVAL);
	assert_int_equal(hartebeest_log_set(NULL, HARTEBEEST_LOG_ERROR, logged_keep, NULL), 0);
	assert_int_equal(hartebeest_open(&own, bad), -EINVAL);
	assert_ptr_equal(strstr(logged, "3 "), logged);
	assert_non_null(strstr(logged, "cq_depth"));

	/* It stays that of the context, and counts more than the option. */
	assert_int_equal(hartebeest_open(&own, silent), 0);
	assert_int_equal(hartebeest_log_set(NULL, 0, NULL, NULL), 0);
	logged[0] = '\0';
	assert_int_equal(hartebeest_qp_init(own, "none"), -ENOENT);
	assert_non_null(strstr(logged, "no queue pair is called 'none'"));
	hartebeest_close(own);

	logged[0] = '\0';
	assert_int_equal(hartebeest_open(&own, bad), -EINVAL);
	assert_string_equal(logged, "");
}

/* The value has the right type but no meaning: option and source come before the reason. */
static void values_are_told_with_their_source(void **state)
{
	static const struct {
		const char *argument, *variable, *text, *sentence;
	} rows[] = {
		{ "device.gid=index:300", NULL, NULL,
		  "argument device.gid: GID index: '300' is out of range: 0 to 255" },
		{ "device.gid=subnet:10.0.0.0/33", NULL, NULL,
		  "argument device.gid: the prefix length of subnet '10.0.0.0/33': '33' is out of "
		  "range: 0 to 32" },
		{ NULL, "HARTEBEEST_GID", "ip:10.0.0",
		  "environment HARTEBEEST_GID (device.gid): '10.0.0' is not an IPv4 or IPv6 "
		  "address" },
		{ NULL, "HARTEBEEST_GID", "netdev:",
		  "environment HARTEBEEST_GID (device.gid): '' is not a network interface: 1 to 15 "
		  "bytes without blanks or slashes" },
		{ NULL, "HARTEBEEST_DEVICE", "rxe0:x",
		  "environment HARTEBEEST_DEVICE (device.name): the port in device 'rxe0:x': 'x' "
		  "is not a number from 1 to 255" },
		{ "device.name=:1", NULL, NULL,
		  "argument device.name: ':1' is not the name of a device, such as mlx5_0 or "
		  "mlx5_0:1" },
		{ NULL, "HARTEBEEST_ADDR", "10.0.0",
		  "environment HARTEBEEST_ADDR (device.addr): '10.0.0' is not an IPv4 or IPv6 "
		  "address" },
	};
	const char *options[] = { NULL, NULL };
	struct hartebeest_context *none;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		options[0] = rows[i].argument;
		if (rows[i].variable)
			setenv(rows[i].variable, rows[i].text, 1);
		assert_int_equal(hartebeest_open(&none, options), -EINVAL);
		assert_error_is(rows[i].sentence);
		surroundings_clear();
	}
}

/* A value that is refused only after all have been read. */
static void a_file_is_named_with_line_and_option(void **state)
{
	static const struct {
		const char *json, *sentence;
	} rows[] = {
		{ "{ \"device\": {\n\"gid\": \"index:300\" } }",
		  ":2: device.gid: GID index: '300' is out of range: 0 to 255" },
		{ "{ \"job\": {\n\"id\": \"a\" },\n\"log\": { \"file\": \"%z\" } }",
		  ":3: log.file: '%z': h, p, r or another % must follow a %" },
		{ "{ \"job\":\n{ \"participants\": \"0,,1\" } }", ":2: job.participants: '0,,1' is "
		  "not a list of ids such as 0,1 or 0-63: see byte 3" },
	};
	char path[SCRATCH_SIZE], sentence[192];
	struct hartebeest_context *none;
	int fd = scratch_file(path, "hartebeest");
	size_t i;

	(void)state;
	setenv("HARTEBEEST_CONF_PATH", path, 1);
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, rows[i].json, strlen(rows[i].json), 0),
				 (int)strlen(rows[i].json));
		assert_int_equal(hartebeest_open(&none, NULL), -EINVAL);
		snprintf(sentence, sizeof(sentence), "%s%s", path, rows[i].sentence);
		assert_error_is(sentence);
	}
	close(fd);
	surroundings_clear();
	unlink(path);
}

static void options_as_text(void **state)
{
	const char *source = NULL;
	char text[16];

	(void)state;
	open_with("cq_attr.cq_depth=77", NULL);
	assert_int_equal(hartebeest_option_get(hb, "cq_attr.cq_depth", text, sizeof(text), &source),
			 2);
	assert_string_equal(text, "77");
	assert_string_equal(source, "argument");
	assert_true(hartebeest_option_get(hb, "poll.timeout", text, sizeof(text), NULL) >= 0);
	assert_string_equal(text, "1h");
	assert_int_equal(hartebeest_option_get(hb, "poll.timeot", text, sizeof(text), NULL),
			 -ENOENT);
	assert_error_has("poll.timeout");
	assert_int_equal(hartebeest_option_get(hb, "poll.timeout", NULL, 0, NULL), 2);
}

/* ---------------------------------------------------------------- names --- */

/* Each function that takes a name, and the noun of its sentence. */
static int create_pd(const char *name)
{
	return hartebeest_pd_create(hb, name, NULL);
}

static int create_cq(const char *name)
{
	return cq_make(hb, name, 0, 0, NULL);
}

static int create_mr(const char *name)
{
	return mr_make(hb, name, "pd", 64, RW, NULL);
}

static int register_mr(const char *name)
{
	static char memory[64];

	return mr_make_of(hb, name, "pd", memory, sizeof(memory), RW, NULL);
}

static int register_dmabuf(const char *name)
{
	return mr_make_of_dmabuf(hb, name, "pd", 1, 0, 64, 0, RW, NULL);
}

static int create_srq(const char *name)
{
	return srq_make(hb, name, "pd", 16, 1, NULL);
}

static int create_qp(const char *name)
{
	return qp_make(hb, name, "pd", IBV_QPT_RC, "cq", "cq", NULL);
}

static int create_qp_attr(const char *name)
{
	struct ibv_qp_init_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.qp_type = IBV_QPT_RC;
	assert_int_equal(hartebeest_cq_get(hb, "cq", &attr.send_cq), 0);
	attr.recv_cq = attr.send_cq;
	return hartebeest_qp_create_verbs(hb, name, "pd", &attr, NULL);
}

static const struct {
	int (*create)(const char *name);
	const char *noun;
} makers[] = {
	{ create_pd, "protection domain" },
	{ create_cq, "completion queue" },
	{ create_mr, "memory region" },
	{ register_mr, "memory region" },
	{ register_dmabuf, "memory region" },
	{ create_qp, "queue pair" },
	{ create_qp_attr, "queue pair" },
};

static void a_name_is_used_once(void **state)
{
	char sentence[128];
	int open, calls;
	size_t i;

	(void)state;
	make_pd();
	make_cq();
	assert_int_equal(create_mr("mr"), 0);
	assert_int_equal(create_qp("qp"), 0);
	open = fake_verbs.open;
	calls = fake_verbs_calls("ibv_create_qp") + fake_verbs_calls("ibv_reg_mr");
	for (i = 0; i < BEEST_COUNT(makers); i++) {
		const char *name = i == 0 ? "pd" : i == 1 ? "cq" : i < 5 ? "mr" : "qp";

		assert_int_equal(makers[i].create(name), -EEXIST);
		snprintf(sentence, sizeof(sentence), "%s '%s' exists already", makers[i].noun,
			 name);
		assert_error_is(sentence);
	}
	assert_int_equal(fake_verbs.open, open);
	assert_int_equal(fake_verbs_calls("ibv_create_qp") + fake_verbs_calls("ibv_reg_mr"), calls);
}

/* Each kind has its own name space: a region and a queue pair may have the same name. */
static void kinds_do_not_share_names(void **state)
{
	size_t i;

	(void)state;
	make_pd();
	make_cq();
	for (i = 0; i < BEEST_COUNT(makers); i++)
		if (i < 3 || i == 5)
			assert_int_equal(makers[i].create("x"), 0);
}

static void bad_names_touch_no_device(void **state)
{
	char longest[257], sentence[256];
	size_t i;

	(void)state;
	assert_int_equal(create_pd(""), -EINVAL);
	assert_int_equal(create_cq("a\nb"), -EINVAL);
	assert_int_equal(fake_verbs_calls("ibv_get_device_list"), 0);

	make_pd();
	make_cq();
	unit_repeat(longest, 'n', 256);
	for (i = 0; i < BEEST_COUNT(makers); i++) {
		int open = fake_verbs.open;

		assert_int_equal(makers[i].create(""), -EINVAL);
		snprintf(sentence, sizeof(sentence), "the %s name is empty", makers[i].noun);
		assert_error_is(sentence);
		assert_int_equal(makers[i].create("tab\there"), -EINVAL);
		snprintf(sentence, sizeof(sentence), "the %s name 'tab\\x09here' has the control "
			 "character 0x09 at byte 4", makers[i].noun);
		assert_error_is(sentence);
		assert_int_equal(makers[i].create(longest), -EINVAL);
		assert_error_has("256 bytes: the limit is 255");
		assert_int_equal(makers[i].create(longest + 1), i == 3 || i == 4 || i == 6 ?
				 -EEXIST : 0);
		assert_true(fake_verbs.open <= open + 1);
	}
	assert_int_equal(fake_verbs_calls("ibv_alloc_pd"), 2);
}

static int no_refill(void *data, struct ibv_qp *qp)
{
	(void)data, (void)qp;
	return 0;
}

static void never_created(void **state)
{
	struct hartebeest_ud_address address;
	struct ibv_qp_cap cap;
	struct ibv_pd *pd = NULL;
	struct ibv_cq *cq = NULL;
	struct ibv_mr *mr = NULL;
	struct ibv_qp *qp = NULL;

	(void)state;
	assert_int_equal(hartebeest_pd_get(hb, "main", &pd), -ENOENT);
	assert_error_is("no protection domain is called 'main'; there is no protection domain at "
			"all");
	assert_int_equal(create_pd("domain"), 0);
	assert_int_equal(create_cq("queue"), 0);
	assert_int_equal(mr_make(hb, "region", "domain", 1, RW, NULL), 0);
	assert_int_equal(qp_make(hb, "pair-1", "domain", 2, "queue", "queue", NULL), 0);

	assert_int_equal(hartebeest_pd_get(hb, "domein", &pd), -ENOENT);
	assert_error_is("no protection domain is called 'domein', the nearest is domain");
	assert_int_equal(hartebeest_pd_destroy(hb, "pair-1"), -ENOENT);	/* of another kind */
	assert_error_is("no protection domain is called 'pair-1'");
	assert_int_equal(hartebeest_cq_get(hb, "Queue", &cq), -ENOENT);
	assert_error_is("no completion queue is called 'Queue', the nearest is queue");
	assert_int_equal(hartebeest_cq_destroy(hb, "Queue"), -ENOENT);
	assert_int_equal(hartebeest_mr_get(hb, "regions", &mr), -ENOENT);
	assert_error_is("no memory region is called 'regions', the nearest is region");
	assert_int_equal(hartebeest_mr_destroy(hb, "regions"), -ENOENT);
	assert_int_equal(hartebeest_mr_publish(hb, "regions", "key", 0), -ENOENT);
	assert_error_is("no memory region is called 'regions', the nearest is region");
	assert_int_equal(hartebeest_qp_get(hb, "pair-l", &qp), -ENOENT);
	assert_error_is("no queue pair is called 'pair-l', the nearest is pair-1");
	assert_int_equal(hartebeest_qp_destroy(hb, "pair-l"), -ENOENT);
	assert_int_equal(hartebeest_qp_cap(hb, "pair-l", &cap), -ENOENT);
	assert_int_equal(hartebeest_qp_init(hb, "pair-l"), -ENOENT);
	assert_int_equal(hartebeest_qp_reset(hb, "pair-l"), -ENOENT);
	assert_int_equal(hartebeest_qp_refill_set(hb, "pair-l", no_refill, NULL), -ENOENT);
	assert_int_equal(hartebeest_qp_publish(hb, "pair-l", "key", 0), -ENOENT);
	assert_int_equal(hartebeest_qp_connect(hb, "pair-l", "key", 0), -ENOENT);
	assert_int_equal(hartebeest_qp_confirm(hb, "pair-l", "key", 0), -ENOENT);
	assert_int_equal(hartebeest_qp_reconnect(hb, "pair-l", "key", 0), -ENOENT);
	assert_int_equal(hartebeest_qp_ud_address(hb, "pair-l", "key", &address), -ENOENT);
	assert_error_is("no queue pair is called 'pair-l', the nearest is pair-1");

	assert_int_equal(mr_make(hb, "m", "domein", 1, RW, &mr), -ENOENT);
	assert_error_is("no protection domain is called 'domein', the nearest is domain");
	assert_int_equal(qp_make(hb, "q", "domain", 2, "qeue", "queue", &qp), -ENOENT);
	assert_error_is("no completion queue is called 'qeue', the nearest is queue");
	assert_int_equal(qp_make(hb, "q", "domain", 2, "queue", "qeue", &qp), -ENOENT);
	assert_int_equal(qp_make(hb, "q", "domein", 2, "queue", "queue", &qp),
			 -ENOENT);
	assert_true(!pd && !cq && !mr && !qp);
}

/* -------------------------------------------------------- NULL arguments --- */

static int lines;
static char last_line[1024];

static void keep_line(void *data, int level, const char *text)
{
	assert_ptr_equal(data, &lines);
	assert_int_equal(level, HARTEBEEST_LOG_ERROR);
	snprintf(last_line, sizeof(last_line), "%s", text);
	lines++;
}

/* Each failure is logged in one line, with the sentence. */
static void logged_once(int ret, int wanted)
{
	assert_int_equal(ret, wanted);
	assert_int_equal(lines, 1);
	assert_string_equal(last_line, hartebeest_error());
	lines = 0;
}

#define REFUSED(call, what)							\
	do {									\
		logged_once(call, -EINVAL);					\
		assert_error_has(what);						\
	} while (0)

static void null_arguments(void **state)
{
	struct ibv_qp_init_attr attr;
	struct ibv_wc wc;
	char text[8];

	(void)state;
	memset(&attr, 0, sizeof(attr));
	memset(&wc, 0, sizeof(wc));
	lines = 0;
	hartebeest_log_set(hb, HARTEBEEST_LOG_ERROR, keep_line, &lines);

	REFUSED(hartebeest_verbs(hb, NULL), "hartebeest_verbs(): verbs is NULL");
	REFUSED(hartebeest_cq_wait(hb, NULL, 1, NULL, 0), "hartebeest_cq_wait(): cq is NULL");
	REFUSED(hartebeest_option_get(hb, NULL, text, 1, NULL), "name is NULL");
	REFUSED(hartebeest_option_get(hb, "x", NULL, 1, NULL), "text is NULL");
	REFUSED(hartebeest_log_set(hb, -1, NULL, NULL), "log level -1 is not within 0..7");
	REFUSED(hartebeest_log_set(hb, 8, NULL, NULL), "log level 8 is not within 0..7");
	REFUSED(hartebeest_pd_create(hb, NULL, NULL), "hartebeest_pd_create(): name is NULL");
	REFUSED(hartebeest_pd_get(hb, NULL, NULL), "name is NULL");
	REFUSED(hartebeest_pd_get(hb, "pd", NULL), "hartebeest_pd_get(): pd is NULL");
	REFUSED(hartebeest_pd_destroy(hb, NULL), "name is NULL");
	REFUSED(cq_make(hb, NULL, 1, 0, NULL), "name is NULL");
	REFUSED(hartebeest_cq_get(hb, NULL, NULL), "name is NULL");
	REFUSED(hartebeest_cq_get(hb, "cq", NULL), "hartebeest_cq_get(): cq is NULL");
	REFUSED(hartebeest_cq_destroy(hb, NULL), "name is NULL");
	REFUSED(mr_make(hb, NULL, "pd", 1, RW, NULL), "name is NULL");
	REFUSED(mr_make(hb, "mr", NULL, 1, RW, NULL), "pd is NULL");
	REFUSED(mr_make(hb, "mr", "pd", 0, RW, NULL),
		"memory region 'mr' would be empty");
	REFUSED(mr_make_of(hb, NULL, "pd", text, 1, RW, NULL), "name is NULL");
	REFUSED(mr_make_of(hb, "mr", NULL, text, 1, RW, NULL), "pd is NULL");
	REFUSED(mr_make_of(hb, "mr", "pd", NULL, 1, RW, NULL), "address is NULL");
	REFUSED(mr_make_of(hb, "mr", "pd", text, 0, RW, NULL), "would be empty");
	REFUSED(mr_make_of_dmabuf(hb, NULL, "pd", 1, 0, 1, 0, RW, NULL),
		"name is NULL");
	REFUSED(mr_make_of_dmabuf(hb, "mr", NULL, 1, 0, 1, 0, RW, NULL), "pd is NULL");
	REFUSED(mr_make_of_dmabuf(hb, "mr", "pd", 1, 0, 0, 0, RW, NULL),
		"would be empty");
	REFUSED(hartebeest_mr_get(hb, NULL, NULL), "name is NULL");
	REFUSED(hartebeest_mr_get(hb, "mr", NULL), "hartebeest_mr_get(): mr is NULL");
	REFUSED(hartebeest_mr_destroy(hb, NULL), "name is NULL");
	REFUSED(hartebeest_mr_publish(hb, NULL, "k", 0), "name is NULL");
	REFUSED(hartebeest_mr_publish(hb, "mr", NULL, 0), "key is NULL");
	REFUSED(hartebeest_mr_fetch(hb, NULL, NULL, 0), "key is NULL");
	REFUSED(hartebeest_mr_fetch(hb, "k", NULL, 0), "mr is NULL");
	REFUSED(qp_make(hb, NULL, "pd", 2, "cq", "cq", NULL), "name is NULL");
	REFUSED(qp_make(hb, "qp", NULL, 2, "cq", "cq", NULL), "pd is NULL");
	REFUSED(qp_make(hb, "qp", "pd", 2, NULL, "cq", NULL), "send_cq is NULL");
	REFUSED(hartebeest_qp_create(hb, "qp", NULL, NULL), "attr is NULL");
	REFUSED(hartebeest_qp_create_verbs(hb, NULL, "pd", &attr, NULL), "name is NULL");
	REFUSED(hartebeest_qp_create_verbs(hb, "qp", NULL, &attr, NULL), "pd is NULL");
	REFUSED(hartebeest_qp_create_verbs(hb, "qp", "pd", NULL, NULL), "attr is NULL");
	REFUSED(hartebeest_qp_create_verbs(hb, "qp", "pd", &attr, NULL), "attr->send_cq is NULL");
	attr.send_cq = (struct ibv_cq *)&attr;
	REFUSED(hartebeest_qp_create_verbs(hb, "qp", "pd", &attr, NULL), "attr->recv_cq is NULL");
	REFUSED(hartebeest_qp_get(hb, NULL, NULL), "name is NULL");
	REFUSED(hartebeest_qp_get(hb, "qp", NULL), "hartebeest_qp_get(): qp is NULL");
	REFUSED(hartebeest_qp_cap(hb, NULL, NULL), "name is NULL");
	REFUSED(hartebeest_qp_cap(hb, "qp", NULL), "cap is NULL");
	REFUSED(hartebeest_qp_destroy(hb, NULL), "name is NULL");
	REFUSED(hartebeest_qp_init(hb, NULL), "name is NULL");
	REFUSED(hartebeest_qp_publish(hb, NULL, "k", 0), "name is NULL");
	REFUSED(hartebeest_qp_publish(hb, "qp", NULL, 0), "key is NULL");
	REFUSED(hartebeest_qp_fetch(hb, NULL, NULL, 0), "key is NULL");
	REFUSED(hartebeest_qp_connect(hb, NULL, "k", 0), "name is NULL");
	REFUSED(hartebeest_qp_connect(hb, "qp", NULL, 0), "key is NULL");
	REFUSED(hartebeest_qp_confirm(hb, "qp", NULL, 0), "key is NULL");
	REFUSED(hartebeest_qp_reset(hb, NULL), "name is NULL");
	REFUSED(hartebeest_qp_reconnect(hb, NULL, "k", 0), "name is NULL");
	REFUSED(hartebeest_qp_reconnect(hb, "qp", NULL, 0), "key is NULL");
	REFUSED(hartebeest_qp_refill_set(hb, NULL, NULL, NULL), "name is NULL");
	REFUSED(hartebeest_qp_ud_address(hb, NULL, "k", NULL), "name is NULL");
	REFUSED(hartebeest_qp_ud_address(hb, "qp", NULL, NULL), "key is NULL");
	REFUSED(hartebeest_qp_ud_address(hb, "qp", "k", NULL), "address is NULL");
	REFUSED(hartebeest_completion_text(hb, NULL, text, 8), "wc is NULL");
	REFUSED(hartebeest_completion_text(hb, &wc, NULL, 8), "text is NULL");
	REFUSED(hartebeest_peer_text(hb, "key", NULL, 1, 0), "text is NULL");
	REFUSED(hartebeest_msg_push(hb, NULL, NULL, 0, 0), "hartebeest_msg_push(): key is NULL");
	REFUSED(hartebeest_msg_push(hb, "k", NULL, 1, 0), "hartebeest_msg_push(): data is NULL");
	REFUSED(hartebeest_msg_wait(hb, NULL, NULL, 0, NULL, 0), "key is NULL");
	REFUSED(hartebeest_msg_wait(hb, "k", NULL, 1, NULL, 0), "buffer is NULL");
	REFUSED(hartebeest_msg_delete(hb, NULL, 0), "key is NULL");
	REFUSED(hartebeest_barrier(hb, NULL, 0), "name is NULL");
	assert_int_equal(fake_verbs_calls("ibv_get_device_list"), 0);
}

static void null_context(void **state)
{
	struct ibv_qp_init_attr attr;
	char text[8];

	(void)state;
	memset(&attr, 0, sizeof(attr));
	assert_int_equal(hartebeest_rank(NULL), -EINVAL);
	assert_error_is("hartebeest_rank(): hb is NULL");
	assert_int_equal(hartebeest_size(NULL), -EINVAL);
	assert_null(hartebeest_job(NULL));
	assert_error_is("hartebeest_job(): hb is NULL");
	assert_int_equal(hartebeest_verbs(NULL, NULL), -EINVAL);
	assert_int_equal(hartebeest_port_num(NULL), -EINVAL);
	assert_int_equal(hartebeest_option_get(NULL, "x", text, 1, NULL), -EINVAL);
	assert_int_equal(hartebeest_pd_create(NULL, "x", NULL), -EINVAL);
	assert_int_equal(hartebeest_pd_get(NULL, "x", NULL), -EINVAL);
	assert_int_equal(hartebeest_pd_destroy(NULL, "x"), -EINVAL);
	assert_int_equal(cq_make(NULL, "x", 0, 0, NULL), -EINVAL);
	assert_int_equal(hartebeest_cq_get(NULL, "x", NULL), -EINVAL);
	assert_int_equal(hartebeest_cq_destroy(NULL, "x"), -EINVAL);
	assert_int_equal(mr_make(NULL, "x", "x", 1, 0, NULL), -EINVAL);
	assert_int_equal(mr_make_of(NULL, "x", "x", text, 1, 0, NULL), -EINVAL);
	assert_int_equal(mr_make_of_dmabuf(NULL, "x", "x", 1, 0, 1, 0, 0, NULL),
			 -EINVAL);
	assert_int_equal(hartebeest_mr_get(NULL, "x", NULL), -EINVAL);
	assert_int_equal(hartebeest_mr_destroy(NULL, "x"), -EINVAL);
	assert_int_equal(hartebeest_mr_publish(NULL, "x", "x", 0), -EINVAL);
	assert_int_equal(hartebeest_mr_fetch(NULL, "x", NULL, 0), -EINVAL);
	assert_int_equal(qp_make(NULL, "x", "x", 2, "x", "x", NULL), -EINVAL);
	assert_int_equal(hartebeest_qp_create_verbs(NULL, "x", "x", &attr, NULL), -EINVAL);
	assert_int_equal(hartebeest_qp_get(NULL, "x", NULL), -EINVAL);
	assert_int_equal(hartebeest_qp_cap(NULL, "x", NULL), -EINVAL);
	assert_int_equal(hartebeest_qp_destroy(NULL, "x"), -EINVAL);
	assert_int_equal(hartebeest_qp_init(NULL, "x"), -EINVAL);
	assert_int_equal(hartebeest_qp_publish(NULL, "x", "x", 0), -EINVAL);
	assert_int_equal(hartebeest_qp_fetch(NULL, "x", NULL, 0), -EINVAL);
	assert_int_equal(hartebeest_qp_connect(NULL, "x", "x", 0), -EINVAL);
	assert_int_equal(hartebeest_qp_confirm(NULL, "x", "x", 0), -EINVAL);
	assert_int_equal(hartebeest_qp_reset(NULL, "x"), -EINVAL);
	assert_int_equal(hartebeest_qp_reconnect(NULL, "x", "x", 0), -EINVAL);
	assert_int_equal(hartebeest_qp_refill_set(NULL, "x", NULL, NULL), -EINVAL);
	assert_int_equal(hartebeest_qp_ud_address(NULL, "x", "x", NULL), -EINVAL);
	assert_int_equal(hartebeest_completion_text(NULL, NULL, text, 8), -EINVAL);
	assert_int_equal(hartebeest_msg_push(NULL, "x", NULL, 0, 0), -EINVAL);
	assert_int_equal(hartebeest_msg_wait(NULL, "x", NULL, 0, NULL, 0), -EINVAL);
	assert_int_equal(hartebeest_msg_delete(NULL, "x", 0), -EINVAL);
	assert_int_equal(hartebeest_barrier(NULL, "x", 0), -EINVAL);
	assert_error_is("hartebeest_barrier(): hb is NULL");
}

static void failures_are_logged_once(void **state)
{
	struct ibv_pd *pd;

	(void)state;
	lines = 0;
	make_pd();
	hartebeest_log_set(hb, HARTEBEEST_LOG_ERROR, keep_line, &lines);
	logged_once(hartebeest_pd_get(hb, "pe", &pd), -ENOENT);
	logged_once(create_pd("pd"), -EEXIST);
	logged_once(create_pd("a\x01"), -EINVAL);
	fake_verbs_fail("ibv_create_cq", 1, ENOSPC);
	logged_once(create_cq("cq"), -ENOSPC);
	fake_verbs_fail("ibv_reg_mr", 1, EPERM);
	logged_once(create_mr("mr"), -EPERM);
	logged_once(hartebeest_msg_push(hb, "k", NULL, 0, 0), -EDESTADDRREQ);
	logged_once(hartebeest_barrier(hb, "b", 0), -ENODATA);

	hartebeest_log_set(hb, HARTEBEEST_LOG_NONE, keep_line, &lines);
	assert_int_equal(create_pd("pd"), -EEXIST);
	assert_int_equal(lines, 0);
}

/* ------------------------------------------------- domain, queue, sizes --- */

static void get_what_was_created(void **state)
{
	struct ibv_pd *pd, *same_pd = NULL;
	struct ibv_cq *cq, *same_cq = NULL;
	struct ibv_mr *mr = NULL, *same_mr = NULL;
	struct ibv_qp *qp, *same_qp = NULL;

	(void)state;
	qp = make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_pd_get(hb, "pd", &pd), 0);
	assert_int_equal(hartebeest_pd_get(hb, "pd", &same_pd), 0);
	assert_ptr_equal(pd, same_pd);
	assert_int_equal(hartebeest_cq_get(hb, "cq", &cq), 0);
	assert_int_equal(hartebeest_cq_get(hb, "cq", &same_cq), 0);
	assert_ptr_equal(cq, same_cq);
	assert_int_equal(mr_make(hb, "mr", "pd", 10, RW, &mr), 0);
	assert_int_equal(hartebeest_mr_get(hb, "mr", &same_mr), 0);
	assert_ptr_equal(mr, same_mr);
	assert_int_equal(hartebeest_qp_get(hb, "qp", &same_qp), 0);
	assert_ptr_equal(qp, same_qp);
	assert_ptr_equal(qp->pd, pd);
	assert_ptr_equal(qp->send_cq, cq);
	assert_ptr_equal(qp->recv_cq, cq);
	assert_ptr_equal(mr->pd, pd);
	assert_int_equal(qp->state, IBV_QPS_RESET);
}

static void two_queues(void **state)
{
	struct ibv_cq *send = NULL, *receive = NULL;
	struct ibv_qp *qp = NULL;

	(void)state;
	make_pd();
	assert_int_equal(cq_make(hb, "send", 1, 0, &send), 0);
	assert_int_equal(cq_make(hb, "receive", 2, 0, &receive), 0);
	assert_int_equal(qp_make(hb, "qp", "pd", 2, "send", "receive", &qp), 0);
	assert_ptr_equal(qp->send_cq, send);
	assert_ptr_equal(qp->recv_cq, receive);
}

static void a_request(void **state)
{
	struct hartebeest_qp_attr request;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	(void)state;
	make_pd();
	cq = make_cq();
	assert_int_equal(srq_make(hb, "srq", "pd", 16, 1, &srq), 0);
	hartebeest_qp_attr_init(&request);
	request.pd = "pd";
	request.send_cq = "cq";
	request.srq = "srq";
	request.qp_context = &init;
	request.type = IBV_QPT_UC;
	request.sq_sig_all = 1;
	request.cap.max_send_wr = 7;
	assert_int_equal(hartebeest_qp_create(hb, "qp", &request, &qp), 0);
	assert_ptr_equal(qp->send_cq, cq);
	assert_ptr_equal(qp->recv_cq, cq);
	assert_ptr_equal(qp->srq, srq);
	assert_ptr_equal(qp->qp_context, &init);
	assert_int_equal(qp->qp_type, IBV_QPT_UC);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
	assert_int_equal(init.sq_sig_all, 1);
	assert_in_range(request.cap.max_send_wr, 7, 15);
	assert_int_equal(request.cap.max_send_wr, attr.cap.max_send_wr);
	assert_int_equal(request.cap.max_send_sge, attr.cap.max_send_sge);

	request.srq = "sqr";
	assert_int_equal(hartebeest_qp_create(hb, "other", &request, NULL), -ENOENT);
	assert_error_is("no shared receive queue is called 'sqr', the nearest is srq");
	request.srq = NULL;
	request.cap.max_send_sge = 1000000;
	fake_verbs_fail("ibv_create_qp", 1, EPERM);
	assert_int_equal(hartebeest_qp_create(hb, "other", &request, NULL), -EPERM);
	assert_int_equal(request.cap.max_send_sge, 1000000);	/* untouched */
}

/* ------------------------------------------------------- structs that grow --- */

/*
 * The sizes of 0.1, for programs compiled with it: they never change, though the structs grow.
 * @call: must not fail because of the struct's size
 */
static union {
	size_t size;
	struct hartebeest_cq_attr cq_attr;
	struct hartebeest_srq_attr srq_attr;
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_qp_attr qp_attr;
	struct hartebeest_mesh_attr mesh_attr;
	struct hartebeest_pair pair;
	struct hartebeest_message message;
} *grown;

static int grown_cq(void) { return hartebeest_cq_create(hb, "grown", &grown->cq_attr, NULL); }

static int grown_srq(void)
{
	grown->srq_attr.pd = "pd";
	return hartebeest_srq_create(hb, "grown", &grown->srq_attr, NULL);
}

static int grown_mr(void)
{
	grown->mr_attr.pd = "pd";
	grown->mr_attr.length = 64;
	return hartebeest_mr_create(hb, "grown", &grown->mr_attr, NULL);
}

static int grown_mr_register(void)
{
	static char memory[64];

	grown->mr_attr.pd = "pd";
	grown->mr_attr.length = sizeof(memory);
	grown->mr_attr.address = memory;
	return hartebeest_mr_register(hb, "grown", &grown->mr_attr, NULL);
}

static int grown_mr_dmabuf(void)
{
	grown->mr_attr.pd = "pd";
	grown->mr_attr.length = 64;
	return hartebeest_mr_register_dmabuf(hb, "grown", &grown->mr_attr, NULL);
}

static int grown_qp(void)
{
	grown->qp_attr.pd = "pd";
	grown->qp_attr.send_cq = "cq";
	return hartebeest_qp_create(hb, "grown", &grown->qp_attr, NULL);
}

static int grown_mesh(void)
{
	struct hartebeest_mesh *mesh;

	return hartebeest_mesh_connect(hb, "grown", &grown->mesh_attr, &mesh, 1);
}

static int grown_pair(void)
{
	grown->pair.qp = "none";
	grown->pair.key = "a";
	grown->pair.peer_key = "b";
	return hartebeest_pairs_connect(hb, &grown->pair, 1, 1);
}

/* Here the server is looked for first: the program has one, which does not answer. */
static int grown_message(void)
{
	static const char *const options[] = { "exchange.servers=/nonexistent/socket", NULL };
	struct hartebeest_context *own;
	char text[512];
	int ret;

	assert_int_equal(hartebeest_open(&own, options), 0);
	grown->message.peer_key = "a";
	ret = hartebeest_msgs_wait(own, &grown->message, 1, 0, 1);
	snprintf(text, sizeof(text), "%s", hartebeest_error());
	hartebeest_close(own);
	beest_fail(-ret, "%s", text);
	return ret;
}

static const struct {
	const char *what;
	size_t size;			/* with pointers of 8 bytes */
	int (*call)(void);
	int ret;
} grown_rows[] = {
	{ "cq_attr", 40, grown_cq, 0 },
	{ "srq_attr", 32, grown_srq, 0 },
	{ "mr_attr", 56, grown_mr, 0 },
	{ "mr_attr", 56, grown_mr_register, 0 },
	{ "mr_attr", 56, grown_mr_dmabuf, 0 },
	{ "qp_attr", 80, grown_qp, 0 },
	{ "mesh_attr", 152, grown_mesh, -ENODATA },
	{ "pair", 664, grown_pair, -EDESTADDRREQ },
	{ "message", 48, grown_message, -ECONNREFUSED },
};

static void forget_grown(void)
{
	hartebeest_cq_destroy(hb, "grown");
	hartebeest_srq_destroy(hb, "grown");
	hartebeest_mr_destroy(hb, "grown");
	hartebeest_qp_destroy(hb, "grown");
}

/*
 * Passes a struct of @size bytes, the last of which are @last, at the end of a page behind which
 * nothing can be read.  Returns 0 unless the call fails because of that.
 */
static int grown_call(char *end, size_t i, size_t size, uint64_t last)
{
	char init[64];
	int ret;

	memset(end - 4096, 0, 4096);
	grown = (void *)(end - size);
	grown->size = size;
	if (last)
		memcpy(end - sizeof(last), &last, sizeof(last));
	forget_grown();
	snprintf(init, sizeof(init), "hartebeest_%s_init() was not called", grown_rows[i].what);
	ret = grown_rows[i].call();
	if (strstr(hartebeest_error(), init))
		return ret;
	assert_int_equal(ret, grown_rows[i].ret);
	return 0;
}

static void structs_of_other_sizes(void **state)
{
	char *end = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char text[64];
	size_t i;

	(void)state;
	if (sizeof(void *) != 8)
		skip();
	assert_ptr_not_equal(end, MAP_FAILED);
	end += 4096;
	assert_int_equal(mprotect(end, 4096, PROT_NONE), 0);
	make_pd();
	make_cq();
	for (i = 0; i < BEEST_COUNT(grown_rows); i++) {
		print_message("%s\n", grown_rows[i].what);
		/* A program of 0.1, and a later one that asks for nothing new, or does. */
		assert_int_equal(grown_call(end, i, grown_rows[i].size, 0), 0);
		assert_int_equal(grown_call(end, i, 1024, 0), 0);
		assert_int_equal(grown_call(end, i, 1024, 1), -E2BIG);
		snprintf(text, sizeof(text), "%s%s asks for something that this version",
			 grown_rows[i].what,
			 strstr("pair message", grown_rows[i].what) ? " 0" : "");
		assert_error_has(text);
		/* Nothing was initialized. */
		assert_int_equal(grown_call(end, i, grown_rows[i].size - 8, 0), -EINVAL);
		grown->size = 0;
		assert_int_equal(grown_rows[i].call(), -EINVAL);
	}
	munmap(end - 4096, 8192);
}

static int cqe_of(int depth)
{
	struct ibv_cq *cq = NULL;
	int cqe;

	assert_int_equal(cq_make(hb, "c", depth, 0, &cq), 0);
	cqe = cq->cqe;
	assert_int_equal(hartebeest_cq_destroy(hb, "c"), 0);
	return cqe;
}

/* The fake grants the next power of two minus one. */
static void depth_of_a_completion_queue(void **state)
{
	(void)state;
	assert_int_equal(cqe_of(0), 1023);
	assert_int_equal(cqe_of(1), 1);
	assert_int_equal(cqe_of(1000), 1023);
	assert_int_equal(cqe_of(65535), 65535);
	assert_int_equal(cqe_of(65536), 65535);
	assert_int_equal(cqe_of(INT32_MAX), 65535);
	open_with("cq_attr.cq_depth=7", NULL);
	assert_int_equal(cqe_of(0), 7);
	open_with("cq_attr.cq_depth=4194304", NULL);
	assert_int_equal(cqe_of(0), 65535);
}

static void sizes_are_cut(void **state)
{
	const char *options[] = {
		"qp_init_attr.cap.max_send_wr=100000", "qp_init_attr.cap.max_recv_wr=5000",
		"qp_init_attr.cap.max_send_sge=1024", "qp_init_attr.cap.max_recv_sge=17", NULL
	};
	struct ibv_qp_cap cap;

	(void)state;
	hartebeest_close(hb);
	assert_int_equal(hartebeest_open(&hb, options), 0);
	make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_cap(hb, "qp", &cap), 0);
	assert_int_equal(cap.max_send_wr, 4096);
	assert_int_equal(cap.max_recv_wr, 4096);
	assert_int_equal(cap.max_send_sge, 16);
	assert_int_equal(cap.max_recv_sge, 16);
	assert_int_equal(cap.max_inline_data, 256);
}

/* Reports the sizes that the device granted, not those asked for. */
static void granted_sizes_are_told(void **state)
{
	struct ibv_qp_cap cap;

	(void)state;
	open_with("qp_init_attr.cap.max_send_wr=100", "qp_init_attr.cap.max_recv_wr=33");
	make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_cap(hb, "qp", &cap), 0);
	assert_int_equal(cap.max_send_wr, 128);
	assert_int_equal(cap.max_recv_wr, 64);
}

static void sizes_are_per_transport(void **state)
{
	struct ibv_qp_cap cap;

	(void)state;
	open_with("qp_init_attr.uc:cap.max_send_wr=512", "qp_init_attr.ud:cap.max_send_wr=1024");
	make_qp(IBV_QPT_UC);
	assert_int_equal(hartebeest_qp_cap(hb, "qp", &cap), 0);
	assert_int_equal(cap.max_send_wr, 512);
	assert_int_equal(qp_make(hb, "ud", "pd", IBV_QPT_UD, "cq", "cq", NULL), 0);
	assert_int_equal(hartebeest_qp_cap(hb, "ud", &cap), 0);
	assert_int_equal(cap.max_send_wr, 1024);
	assert_int_equal(qp_make(hb, "rc", "pd", IBV_QPT_RC, "cq", "cq", NULL), 0);
	assert_int_equal(hartebeest_qp_cap(hb, "rc", &cap), 0);
	assert_int_equal(cap.max_send_wr, 128);
}

/* 256, 128, 64, 32 and so on, until the device accepts. */
static void inline_data_is_halved(void **state)
{
	static const struct {
		uint32_t most, granted;
		int tries;
	} rows[] = {
		{ 256, 256, 1 }, { 255, 128, 2 }, { 101, 64, 3 }, { 60, 32, 4 }, { 0, 0, 10 },
	};
	static const int errors[] = { EINVAL, ENOMEM, ENOSPC, EOPNOTSUPP, FAKE_NO_ERRNO };
	struct ibv_qp_cap cap;
	size_t i, e;

	(void)state;
	for (e = 0; e < BEEST_COUNT(errors); e++)
		for (i = 0; i < BEEST_COUNT(rows); i++) {
			hartebeest_close(hb);
			hb = NULL;
			fake_verbs_reset();
			fake_verbs.devices[0].max_inline = rows[i].most;
			fake_verbs.devices[0].inline_error = errors[e];
			open_with(NULL, NULL);
			make_qp(IBV_QPT_RC);
			assert_int_equal(hartebeest_qp_cap(hb, "qp", &cap), 0);
			assert_int_equal(cap.max_inline_data, rows[i].granted);
			assert_int_equal(cap.max_send_wr, 128);
			assert_int_equal(fake_verbs_calls("ibv_create_qp"), rows[i].tries);
		}
}

/* A failure that is not about inline data does not halve it. */
static void other_failures_are_no_reason_to_halve(void **state)
{
	struct ibv_qp *qp = NULL;

	(void)state;
	make_pd();
	make_cq();
	fake_verbs_fail("ibv_create_qp", 0, EPERM);
	assert_int_equal(qp_make(hb, "qp", "pd", 2, "cq", "cq", &qp), -EPERM);
	assert_error_is("fake0:1: cannot create a RC queue pair (128 send, 128 receive requests, 1 "
			"and 1 elements, 256 bytes inline): Operation not permitted");
	assert_null(qp);
	assert_int_equal(fake_verbs_calls("ibv_create_qp"), 1);
}

static void a_queue_pair_that_cannot_be(void **state)
{
	(void)state;
	make_pd();
	make_cq();
	fake_verbs_fail("ibv_create_qp", 0, ENOMEM);
	assert_int_equal(create_qp("qp"), -ENOMEM);
	assert_int_equal(fake_verbs_calls("ibv_create_qp"), 10);
	assert_error_has(", 0 bytes inline): Cannot allocate memory");
}

static void types(void **state)
{
	struct ibv_qp *qp = NULL;

	(void)state;
	make_pd();
	make_cq();
	assert_int_equal(qp_make(hb, "a", "pd", 0, "cq", "cq", &qp), 0);
	assert_int_equal(qp->qp_type, IBV_QPT_RC);
	assert_int_equal(qp_make(hb, "b", "pd", IBV_QPT_RAW_PACKET, "cq", "cq", &qp),
			 -EOPNOTSUPP);
	assert_error_is("queue pair type 8 is not supported: RC (2), UC (3) and UD (4) are");
	assert_int_equal(qp_make(hb, "b", "pd", -1, "cq", "cq", &qp), -EOPNOTSUPP);
	assert_int_equal(qp_make(hb, "b", "pd", 1, "cq", "cq", &qp), -EOPNOTSUPP);
	assert_int_equal(qp->qp_type, IBV_QPT_RC);	/* untouched */
	assert_int_equal(qp_make(hb, "c", "pd", IBV_QPT_UD, "cq", "cq", &qp), 0);
	assert_int_equal(qp->qp_type, IBV_QPT_UD);
}

static void type_0_is_the_option(void **state)
{
	struct ibv_qp *qp;
	char option[64];
	int type;

	(void)state;
	for (type = IBV_QPT_RC; type <= IBV_QPT_UD; type++) {
		snprintf(option, sizeof(option), "qp_init_attr.qp_type=%d", type);
		open_with(option, NULL);
		qp = make_qp(0);
		assert_int_equal(qp->qp_type, type);
	}
}

static void create_attr_keeps_what_is_given(void **state)
{
	struct ibv_qp_init_attr attr;
	struct ibv_qp *qp = NULL;

	(void)state;
	make_pd();
	memset(&attr, 0, sizeof(attr));
	attr.send_cq = attr.recv_cq = make_cq();
	attr.qp_context = &attr;
	attr.qp_type = IBV_QPT_UC;
	attr.sq_sig_all = 1;
	attr.cap.max_send_wr = 300;
	attr.cap.max_recv_sge = 3;
	attr.cap.max_inline_data = 17;
	assert_int_equal(hartebeest_qp_create_verbs(hb, "qp", "pd", &attr, &qp), 0);
	assert_ptr_equal(qp->qp_context, &attr);
	assert_int_equal(qp->qp_type, IBV_QPT_UC);
	assert_int_equal(attr.cap.max_send_wr, 512);
	assert_int_equal(attr.cap.max_recv_wr, 128);
	assert_int_equal(attr.cap.max_send_sge, 1);
	assert_int_equal(attr.cap.max_recv_sge, 3);
	assert_int_equal(attr.cap.max_inline_data, 17);
	assert_int_equal(attr.sq_sig_all, 1);
}

static void create_attr_is_untouched_by_failure(void **state)
{
	struct ibv_qp_init_attr attr, before;

	(void)state;
	make_pd();
	memset(&attr, 0, sizeof(attr));
	attr.send_cq = attr.recv_cq = make_cq();
	attr.qp_type = IBV_QPT_RC;
	attr.cap.max_send_wr = 1000000;
	before = attr;
	fake_verbs_fail("ibv_create_qp", 0, EINVAL);
	assert_int_equal(hartebeest_qp_create_verbs(hb, "qp", "pd", &attr, NULL), -EINVAL);
	assert_memory_equal(&attr, &before, sizeof(attr));
	attr.qp_type = IBV_QPT_RAW_PACKET;
	assert_int_equal(hartebeest_qp_create_verbs(hb, "qp", "pd", &attr, NULL), -EOPNOTSUPP);
}

static void shared_receive_queue(void **state)
{
	struct ibv_srq_init_attr srq_attr;
	struct ibv_qp_init_attr attr;
	struct ibv_qp *qp = NULL;

	(void)state;
	memset(&srq_attr, 0, sizeof(srq_attr));
	memset(&attr, 0, sizeof(attr));
	srq_attr.attr.max_wr = srq_attr.attr.max_sge = 1;
	attr.srq = ibv_create_srq(make_pd(), &srq_attr);
	attr.send_cq = attr.recv_cq = make_cq();
	attr.qp_type = IBV_QPT_RC;
	assert_int_equal(hartebeest_qp_create_verbs(hb, "qp", "pd", &attr, &qp), 0);
	assert_ptr_equal(qp->srq, attr.srq);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(ibv_destroy_srq(attr.srq), EBUSY);
	assert_int_equal(hartebeest_qp_destroy(hb, "qp"), 0);
	assert_int_equal(ibv_destroy_srq(attr.srq), 0);
}

/* -------------------------------------------- depth of completion queues --- */

static int warnings;

static void keep_warning(void *data, int level, const char *text)
{
	(void)data;
	if (level != HARTEBEEST_LOG_WARN)
		return;
	snprintf(last_line, sizeof(last_line), "%s", text);
	warnings++;
}

static void listen_for_warnings(void)
{
	warnings = 0;
	hartebeest_log_set(hb, HARTEBEEST_LOG_WARN, keep_warning, NULL);
}

/* A queue of the default depth is enough for one queue pair of default sizes. */
static void defaults_fit_together(void **state)
{
	struct ibv_qp *qp;

	(void)state;
	listen_for_warnings();
	qp = make_qp(IBV_QPT_RC);
	assert_true(qp->send_cq->cqe >= 2 * (128 + 128));
	assert_int_equal(warnings, 0);
}

static void warns_of_a_shallow_completion_queue(void **state)
{
	(void)state;
	make_pd();
	listen_for_warnings();
	assert_int_equal(cq_make(hb, "cq", 511, 0, NULL), 0);
	assert_int_equal(create_qp("one"), 0);
	assert_int_equal(warnings, 0);
	assert_int_equal(create_qp("two"), 0);
	assert_int_equal(warnings, 1);
	assert_string_equal(last_line, "completion queue 'cq' has 511 entries, but with queue pair "
			    "'two', 512 requests may be under way whose completions it gets: some "
			    "may be lost; make it deeper");
	/* once a queue; what is destroyed does not count */
	assert_int_equal(create_qp("three"), 0);
	assert_int_equal(hartebeest_qp_destroy(hb, "two"), 0);
	assert_int_equal(hartebeest_qp_destroy(hb, "three"), 0);
	assert_int_equal(create_qp("again"), 0);
	assert_int_equal(warnings, 1);
	memset(hb->said, 0, sizeof(hb->said));
	assert_int_equal(hartebeest_qp_destroy(hb, "again"), 0);
	assert_int_equal(create_qp_attr("attr"), 0);
	assert_int_equal(warnings, 2);
	assert_int_equal(hartebeest_qp_destroy(hb, "attr"), 0);
	assert_int_equal(cq_make(hb, "other", 255, 0, NULL), 0);
	assert_int_equal(qp_make(hb, "apart", "pd", 2, "cq", "other", NULL), 0);
	assert_int_equal(warnings, 2);
	assert_int_equal(cq_make(hb, "small", 127, 0, NULL), 0);
	assert_int_equal(qp_make(hb, "r", "pd", 2, "other", "small", NULL), 0);
	assert_int_equal(warnings, 4);		/* of both */
	assert_non_null(strstr(last_line, "'small' has 127 entries, but with queue pair 'r', "
			       "128 "));
}

/* As mesh libraries do: none alone is too much. */
static void warns_of_a_crowded_completion_queue(void **state)
{
	char name[8];
	int i;

	(void)state;
	make_pd();
	listen_for_warnings();
	assert_int_equal(cq_make(hb, "cq", 2047, 0, NULL), 0);
	for (i = 0; i < 16; i++) {
		assert_int_equal(warnings, i >= 8);
		snprintf(name, sizeof(name), "q%d", i);
		assert_int_equal(create_qp(name), 0);
	}
	assert_int_equal(warnings, 1);
}

static void receives_of_a_shared_queue_do_not_count(void **state)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };

	(void)state;
	attr.srq = ibv_create_srq(make_pd(), &srq_attr);
	listen_for_warnings();
	assert_int_equal(cq_make(hb, "cq", 255, 0, &attr.send_cq), 0);
	attr.recv_cq = attr.send_cq;
	assert_int_equal(hartebeest_qp_create_verbs(hb, "qp", "pd", &attr, NULL), 0);
	assert_int_equal(warnings, 0);
	assert_int_equal(hartebeest_qp_destroy(hb, "qp"), 0);
	assert_int_equal(ibv_destroy_srq(attr.srq), 0);
}

/* -------------------------------------------------------------- destroy --- */

static void busy(void **state)
{
	(void)state;
	make_qp(IBV_QPT_RC);
	create_mr("mr");
	assert_int_equal(hartebeest_cq_destroy(hb, "cq"), -EBUSY);
	assert_error_is("cannot destroy completion queue 'cq': Device or resource busy; a queue "
			"pair still uses it: queue pair 'qp'");
	assert_int_equal(hartebeest_pd_destroy(hb, "pd"), -EBUSY);
	assert_error_is("cannot destroy protection domain 'pd': Device or resource busy; "
			"regions, queue pairs or shared receive queues still use it: memory "
			"region 'mr'");
	assert_int_equal(hartebeest_mr_destroy(hb, "mr"), 0);
	assert_int_equal(hartebeest_pd_destroy(hb, "pd"), -EBUSY);
	assert_error_has("still use it: queue pair 'qp'");
	assert_int_equal(hartebeest_qp_destroy(hb, "qp"), 0);
	create_mr("mr");
	assert_int_equal(hartebeest_pd_destroy(hb, "pd"), -EBUSY);
	assert_int_equal(hartebeest_cq_destroy(hb, "cq"), 0);
	assert_int_equal(hartebeest_mr_destroy(hb, "mr"), 0);
	assert_int_equal(hartebeest_pd_destroy(hb, "pd"), 0);
	assert_int_equal(fake_verbs.open, 1);		/* the device */
	assert_int_equal(hartebeest_pd_destroy(hb, "pd"), -ENOENT);
	make_qp(IBV_QPT_RC);				/* the names are free again */
}

/* The program's own queue pair has no name to report. */
static void busy_with_an_unnamed_queue_pair(void **state)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct ibv_pd *pd = make_pd();
	struct ibv_qp *qp;

	(void)state;
	attr.send_cq = attr.recv_cq = make_cq();
	qp = ibv_create_qp(pd, &attr);
	assert_non_null(qp);
	assert_int_equal(hartebeest_cq_destroy(hb, "cq"), -EBUSY);
	assert_error_is("cannot destroy completion queue 'cq': Device or resource busy; a queue "
			"pair still uses it");
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(hartebeest_cq_destroy(hb, "cq"), 0);
}

static void a_failed_destroy_keeps_the_object(void **state)
{
	struct ibv_qp *qp = NULL, *made = make_qp(IBV_QPT_RC);
	struct ibv_mr *mr = NULL;

	(void)state;
	create_mr("mr");
	fake_verbs_fail("ibv_destroy_qp", 1, EIO);
	assert_int_equal(hartebeest_qp_destroy(hb, "qp"), -EIO);
	assert_error_is("cannot destroy queue pair 'qp': Input/output error");
	assert_int_equal(hartebeest_qp_get(hb, "qp", &qp), 0);
	assert_ptr_equal(qp, made);
	fake_verbs_fail("ibv_dereg_mr", 1, EBUSY);
	assert_int_equal(hartebeest_mr_destroy(hb, "mr"), -EBUSY);
	assert_error_has("cannot destroy memory region 'mr': Device or resource busy");
	assert_int_equal(hartebeest_mr_get(hb, "mr", &mr), 0);
	memset(mr->addr, 1, mr->length);		/* its memory still exists */
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
}

static char closed[512];

static void note_close(const char *function)
{
	if (strstr(function, "ibv_de") == function || strstr(function, "ibv_close") == function)
		snprintf(closed + strlen(closed), sizeof(closed) - strlen(closed), "%s ",
			 function);
}

static void close_goes_backwards(void **state)
{
	(void)state;
	make_pd();
	create_mr("first");
	make_cq();
	create_qp("a");
	create_qp("b");
	create_mr("last");
	closed[0] = '\0';
	fake_verbs.hook = note_close;
	hartebeest_close(hb);
	hb = NULL;
	assert_string_equal(closed, "ibv_dereg_mr ibv_destroy_qp ibv_destroy_qp ibv_destroy_cq "
			    "ibv_dereg_mr ibv_dealloc_pd ibv_close_device ");
	assert_int_equal(fake_verbs.open, 0);
}

/* An object made after a destroy may still use older ones. */
static void close_after_a_mixture(void **state)
{
	(void)state;
	make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_destroy(hb, "qp"), 0);
	assert_int_equal(hartebeest_cq_destroy(hb, "cq"), 0);
	make_cq();
	create_mr("mr");
	assert_int_equal(hartebeest_cq_destroy(hb, "cq"), 0);
	make_cq();
	create_qp("qp");
	assert_int_equal(hartebeest_cq_destroy(hb, "cq"), -EBUSY);
}

static int status_of(pid_t child)
{
	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int destructors(void)
{
	return fake_verbs_calls("ibv_destroy_qp") + fake_verbs_calls("ibv_destroy_cq") +
	       fake_verbs_calls("ibv_dereg_mr") + fake_verbs_calls("ibv_dealloc_pd") +
	       fake_verbs_calls("ibv_close_device");
}

/* The child shares the parent's objects in the kernel, so it must destroy none. */
static void close_in_a_forked_child(void **state)
{
	struct ibv_mr *mr = NULL;
	pid_t child;

	(void)state;
	make_qp(IBV_QPT_RC);
	assert_int_equal(mr_make(hb, "mr", "pd", 100, RW, &mr), 0);
	child = fork();
	if (child == 0) {
		hartebeest_close(hb);
		memset(mr->addr, 1, mr->length);
		_exit(destructors());
	}
	assert_int_equal(status_of(child), 0);
	assert_int_equal(fake_verbs.qps, 1);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
}

/* -------------------------------------------------------- memory region --- */

static void a_buffer_of_whole_pages(void **state)
{
	static const size_t lengths[] = { 1, 4095, 4096, 4097, 1000000 };
	long page = sysconf(_SC_PAGESIZE);
	struct ibv_mr *mr = NULL;
	char *byte;
	size_t i, j;

	(void)state;
	make_pd();
	for (i = 0; i < BEEST_COUNT(lengths); i++) {
		assert_int_equal(mr_make(hb, "mr", "pd", lengths[i], RW, &mr), 0);
		assert_int_equal((uintptr_t)mr->addr % (uintptr_t)page, 0);
		assert_int_equal(mr->length, lengths[i]);
		byte = mr->addr;
		for (j = 0; j < lengths[i]; j++)
			assert_int_equal(byte[j], 0);
		memset(byte, 0xff, (lengths[i] + (size_t)page - 1) / (size_t)page * (size_t)page);
		assert_int_equal(hartebeest_mr_destroy(hb, "mr"), 0);
	}
}

/* Ordinary pages pass for huge ones, which few machines have. */
static void pretend_huge_pages(void)
{
	beest_mr_huge_flags = 0;
	open_with("mr.huge_pages=1", NULL);
	listen_for_warnings();
	make_pd();
}

/* The hugetlb cgroup lets pages be mapped that then cannot be touched. */
static void huge_pages_of_a_cgroup(void **state)
{
	struct ibv_mr *mr = NULL;

	(void)state;
	pretend_huge_pages();
	fake_verbs_fail("ibv_reg_mr", 1, EFAULT);
	assert_int_equal(mr_make(hb, "mr", "pd", 4000000, RW, &mr), 0);
	memset(mr->addr, 1, mr->length);
	assert_int_equal(mr->length, 4000000);
	assert_int_equal(warnings, 1);
	assert_non_null(strstr(last_line, "no huge pages of 2 MB for 4000000 bytes (there are less "
			       "than were mapped): using ordinary ones; see "));
	assert_non_null(strstr(last_line, "hugetlb.2MB.max of the cgroup that /proc/self/cgroup "
			       "names"));

	fake_verbs_fail("ibv_reg_mr", 0, EFAULT);
	assert_int_equal(mr_make(hb, "other", "pd", 4000000, RW, &mr), -EFAULT);
}

/* RDMAV_FORK_SAFE=1: libibverbs refuses a part of a huge page. */
static void huge_pages_and_fork(void **state)
{
	struct ibv_mr *mr = NULL;

	(void)state;
	pretend_huge_pages();
	fake_verbs_fail("ibv_reg_mr", 1, EINVAL);
	assert_int_equal(mr_make(hb, "mr", "pd", 4000000, RW, &mr), 0);
	assert_int_equal(mr->length, 4194304);
	assert_int_equal(warnings, 0);
	assert_int_equal(fake_verbs_calls("ibv_reg_mr"), 2);

	fake_verbs_fail("ibv_reg_mr", 0, EINVAL);
	assert_int_equal(mr_make(hb, "other", "pd", 4000000, RW, &mr), -EINVAL);
	assert_int_equal(warnings, 0);
}

/* Whether or not the machine has huge pages, there is a buffer; without them, also a warning. */
static void huge_pages_where_there_are_some(void **state)
{
	struct ibv_mr *mr = NULL;

	(void)state;
	open_with("mr.huge_pages=1", NULL);
	listen_for_warnings();
	make_pd();
	assert_int_equal(mr_make(hb, "mr", "pd", 3000000, RW, &mr), 0);
	memset(mr->addr, 1, mr->length);
	assert_int_equal(mr->length, 3000000);
	if (warnings)
		assert_non_null(strstr(last_line, "no huge pages of 2 MB for 3000000 bytes ("));
	else
		assert_int_equal((uintptr_t)mr->addr % (2 << 20), 0);
}

static void the_callers_memory(void **state)
{
	static char memory[100];
	struct ibv_mr *mr = NULL;

	(void)state;
	make_pd();
	memory[99] = 7;
	assert_int_equal(mr_make_of(hb, "mr", "pd", memory + 1, 99, RW, &mr), 0);
	assert_ptr_equal(mr->addr, memory + 1);
	assert_int_equal(mr->length, 99);
	assert_int_equal(hartebeest_mr_destroy(hb, "mr"), 0);
	assert_int_equal(memory[99], 7);
}

static void memory_of_a_device(void **state)
{
	struct ibv_mr *mr = NULL;

	(void)state;
	make_pd();
	assert_int_equal(mr_make_of_dmabuf(hb, "mr", "pd", 5, 64, 4096, 0x1000, RW,
					   &mr), 0);
	assert_non_null(mr);
	assert_int_equal(fake_verbs_calls("ibv_reg_dmabuf_mr"), 1);
	fake_verbs_fail("ibv_reg_dmabuf_mr", 1, EOPNOTSUPP);
	assert_int_equal(mr_make_of_dmabuf(hb, "gpu", "pd", 5, 0, 1, 0, RW, NULL),
			 -EOPNOTSUPP);
	assert_error_is("memory region 'gpu': cannot register the dma-buf of file descriptor 5: "
			"Operation not supported");
}

/* Not by ibv_reg_mr_iova2, which the macro of verbs.h would call, but CentOS 7 lacks. */
static void registered_by_the_old_symbol(void **state)
{
	(void)state;
	make_pd();
	assert_int_equal(create_mr("a"), 0);
	assert_int_equal(register_mr("b"), 0);
	assert_int_equal(fake_verbs_calls("ibv_reg_mr"), 2);
	assert_int_equal(fake_verbs_calls("ibv_reg_mr_iova2"), 0);
}

/* The limit on locked memory is the cause for queues as for regions, unless it is lifted. */
static const struct {
	const char *call, *what;
	int (*make)(const char *name);
} lockers[] = {
	{ "ibv_reg_mr", "memory region 'b': cannot register 64 bytes: ", create_mr },
	{ "ibv_create_cq", "fake0:1: cannot create a completion queue of 512 "
			   "entries: ", create_cq },
	{ "ibv_create_srq", "fake0:1: cannot create a shared receive queue "
			    "of 16 requests with 1 elements: ", create_srq },
	{ "ibv_create_qp", "fake0:1: cannot create a RC queue pair (", create_qp },
};

static void process_has(const char *folder, const char *capabilities, const char *uid_map)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/status", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "Name:\tx\nCapEff:\t%s\n", capabilities);
	fclose(file);
	snprintf(path, sizeof(path), "%s/uid_map", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%s\n", uid_map);
	fclose(file);
}

static void all_lockers_blame(const char *cause)
{
	char sentence[1024], *device;
	size_t i;

	for (i = 0; i < BEEST_COUNT(lockers); i++) {
		fake_verbs_fail(lockers[i].call, 0, ENOMEM);
		assert_int_equal(lockers[i].make("b"), -ENOMEM);
		snprintf(sentence, sizeof(sentence), "%s", beest_error_text());
		assert_ptr_equal(strstr(sentence, lockers[i].what), sentence);
		device = strstr(sentence, "; this process has ");
		if (device)
			*device = '\0';
		assert_true(strlen(sentence) >= strlen(cause));
		assert_string_equal(sentence + strlen(sentence) - strlen(cause), cause);
		memset(fake_verbs.failures, 0, sizeof(fake_verbs.failures));
	}
}

static void out_of_locked_memory(void **state)
{
	static const char limit[] =
		"Cannot allocate memory; the limit on locked memory is 65536 bytes (ulimit -l; "
		"for a daemon's children LimitMEMLOCK=infinity in its systemd unit; for a "
		"container --ulimit memlock=-1)";
	char folder[SCRATCH_SIZE], command[SCRATCH_SIZE + 8];
	struct rlimit before, low;

	(void)state;
	make_pd();
	assert_int_equal(create_cq("cq"), 0);
	scratch_folder(folder, "hartebeest-process");
	beest_memlock_proc = folder;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	low = before;
	low.rlim_cur = 65536;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);

	process_has(folder, "0000000000000000", "0 0 4294967295");
	all_lockers_blame(limit);
	process_has(folder, "0000003fffffffff", "0 0 4294967295");
	all_lockers_blame(": Cannot allocate memory");
	process_has(folder, "0000003fffffffff", "0 1000 1");	/* root in a user namespace */
	all_lockers_blame(limit);

	setrlimit(RLIMIT_MEMLOCK, &before);
	beest_memlock_proc = "/proc/self";
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
}

/* What is made counts until it is destroyed, and the device's limit is part of the sentence. */
static const struct {
	const char *call, *says;
	int error, (*make)(const char *name);
} limited[] = {
	{ "ibv_alloc_pd", "; this process has 1 of the 9 protection domains that the device allows "
			  "all processes together (max_pd)", ENOMEM, create_pd },
	{ "ibv_create_cq", "; this process has 4 of the 8 completion queues that ", ENOMEM,
	  create_cq },
	{ "ibv_create_srq", "; this process has 3 of the 7 shared receive queues that ", ENOSPC,
	  create_srq },
	{ "ibv_reg_mr", "; this process has 3 of the 6 memory regions that ", EINVAL, create_mr },
	{ "ibv_create_qp", "; this process has 3 of the 5 queue pairs that ", EINVAL, create_qp },
};

static void limits_of_the_device(void **state)
{
	struct ibv_device_attr *limits = &fake_verbs.devices[0].attr;
	static const char *const names[] = { "a", "b", "c" };
	size_t i, k;

	(void)state;
	limits->max_pd = 9;
	limits->max_cq = 8;
	limits->max_srq = 7;
	limits->max_mr = 6;
	limits->max_qp = 5;
	make_pd();
	assert_int_equal(create_cq("cq"), 0);
	for (i = 0; i < BEEST_COUNT(limited); i++) {
		for (k = 0; i > 0 && k < BEEST_COUNT(names); k++)
			assert_int_equal(limited[i].make(names[k]), 0);
		fake_verbs_fail(limited[i].call, 0, limited[i].error);
		assert_int_equal(limited[i].make("d"), -limited[i].error);
		assert_error_has(limited[i].says);
		memset(fake_verbs.failures, 0, sizeof(fake_verbs.failures));
	}
	assert_int_equal(hartebeest_qp_destroy(hb, "a"), 0);
	fake_verbs_fail("ibv_create_qp", 0, ENOMEM);
	assert_int_equal(create_qp("d"), -ENOMEM);
	assert_error_has("; this process has 2 of the 5 queue pairs that ");
	memset(fake_verbs.failures, 0, sizeof(fake_verbs.failures));
	limits->max_mr_size = 63;
	fake_verbs_fail("ibv_reg_mr", 0, EINVAL);
	assert_int_equal(create_mr("d"), -EINVAL);
	assert_error_has("cannot register 64 bytes: the device allows 63 in one region "
			 "(max_mr_size)");
}

static void registration_refused(void **state)
{
	(void)state;
	make_pd();
	assert_int_equal(mr_make(hb, "mr", "pd", 64, IBV_ACCESS_REMOTE_WRITE, NULL),
			 -EINVAL);
	assert_error_is("memory region 'mr': cannot register 64 bytes with access flags 0x2: "
			"Invalid argument; remote write and atomics need IBV_ACCESS_LOCAL_WRITE "
			"too");
	fake_verbs_fail("ibv_reg_mr", 1, EFAULT);
	assert_int_equal(register_mr("mr"), -EFAULT);
	assert_error_is("memory region 'mr': cannot register 64 bytes with access flags 0x7: Bad "
			"address; it is not mapped, read-only, or memory of a device: that of a "
			"GPU needs the kernel module nvidia-peermem, or "
			"hartebeest_mr_register_dmabuf()");
	fake_verbs_fail("ibv_reg_mr", 1, EINVAL);
	assert_int_equal(mr_make(hb, "mr", "pd", 64, 1 << 30, NULL), -EINVAL);
	assert_error_is("memory region 'mr': cannot register 64 bytes with access flags "
			"0x40000000: Invalid argument; kernel and device may not know all of these "
			"flags");
	fake_verbs_fail("ibv_reg_mr", 1, EOPNOTSUPP);
	assert_int_equal(mr_make(hb, "mr", "pd", 64, 1 | IBV_ACCESS_ON_DEMAND, NULL),
			 -EOPNOTSUPP);
	assert_error_has("access flags 0x41: Operation not supported; the device may have no "
			 "on-demand paging (IBV_ACCESS_ON_DEMAND) for this memory: 'ibv_devinfo "
			 "-v'");
	fake_verbs_fail("ibv_reg_mr", 1, EINVAL);
	assert_int_equal(mr_make(hb, "mr", "pd", 64, 1 | 1 << 20, NULL), -EINVAL);
	assert_error_is("memory region 'mr': cannot register 64 bytes with access flags 0x100001: "
			"Invalid argument");
	fake_verbs_fail("ibv_reg_mr", 1, EINVAL);
	assert_int_equal(mr_make(hb, "mr", "pd", 64, IBV_ACCESS_REMOTE_ATOMIC, NULL),
			 -EINVAL);
	assert_error_has("access flags 0x8: Invalid argument; remote write and atomics need");
	fake_verbs_fail("ibv_reg_mr", 1, FAKE_NO_ERRNO);
	errno = ENOENT;
	assert_int_equal(register_mr("mr"), -EIO);	/* not the errno of an earlier call */
}

static void more_than_can_be_mapped(void **state)
{
	static const size_t lengths[] = { SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 8 * 7 };
	char sentence[128];
	size_t i;

	(void)state;
	make_pd();
	for (i = 0; i < BEEST_COUNT(lengths); i++) {
		assert_true(mr_make(hb, "mr", "pd", lengths[i], RW, NULL) < 0);
		assert_error_has("memory region 'mr': ");
		assert_error_has(" map");
	}
	assert_int_equal(mr_make(hb, "mr", "pd", SIZE_MAX, RW, NULL), -ENOMEM);
	snprintf(sentence, sizeof(sentence), "memory region 'mr': a buffer of %zu bytes is more "
		 "than can be mapped", SIZE_MAX);
	assert_error_is(sentence);
}

/* The size of this process in pages, from /proc. */
static long pages_in_use(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = -1;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%ld", &pages), 1);
	fclose(file);
	return pages;
}

static void a_failed_registration_unmaps(void **state)
{
	long before = pages_in_use();
	int i;

	(void)state;
	make_pd();
	fake_verbs_fail("ibv_reg_mr", 0, EPERM);
	for (i = 0; i < 16; i++)
		assert_int_equal(mr_make(hb, "mr", "pd", 4 << 20, RW, NULL), -EPERM);
	assert_true(pages_in_use() - before < 8 * (4 << 20) / sysconf(_SC_PAGESIZE));
}

/* ---------------------------------------------------------------- INIT --- */

static void init_roce(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	const struct fake_modify *modify;
	const struct beest_local *end;

	(void)state;
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	modify = fake_verbs_last_modify(qp);
	assert_int_equal(modify->attr.port_num, 1);
	assert_int_equal(modify->attr.pkey_index, 0);
	assert_int_equal(modify->attr.qp_access_flags, RW | IBV_ACCESS_REMOTE_ATOMIC);

	end = end_of("qp");
	assert_int_equal(end->sgid_index, 3);		/* v2 before v1, IPv4 before link-local */
	assert_gid(end->endpoint.gid.raw, "::ffff:10.0.0.1");
	assert_int_equal(end->endpoint.roce, BEEST_ROCE_V2);
	assert_int_equal(end->endpoint.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(end->endpoint.lid, 0);
	assert_int_equal(end->endpoint.mtu, IBV_MTU_1024);
	assert_int_equal(end->endpoint.pkey, 0xffff);
	assert_int_equal(end->endpoint.qp_num, qp->qp_num);
	assert_int_equal(end->endpoint.qp_type, IBV_QPT_RC);
	assert_int_equal(end->endpoint.max_dest_rd_atomic, 16);
	assert_int_equal(end->max_init_rd_atomic, 16);
	assert_int_equal(end->endpoint.grh_required, 0);
	assert_string_equal(end->label, "fake0:1");
	assert_int_equal(fake_verbs.ahs, 0);		/* the trial handle is destroyed */
}

static void init_infiniband(void **state)
{
	struct ibv_qp *qp;
	const struct beest_local *end;

	(void)state;
	hartebeest_close(hb);
	fake_verbs_infiniband();
	fake_verbs.devices[0].ports[0].lmc = 2;
	fake_verbs.devices[0].ports[0].flags = IBV_QPF_GRH_REQUIRED;
	fake_verbs.devices[0].attr.max_qp_rd_atom = 4;
	fake_verbs.devices[0].attr.max_qp_init_rd_atom = 8;
	hb = NULL;
	open_with("qp_attr.ah_attr.sl=5", "qp_attr.path_mtu=2");
	qp = make_qp(IBV_QPT_UC);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(fake_verbs_last_modify(qp)->attr.qp_access_flags,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	end = end_of("qp");
	assert_int_equal(end->sgid_index, 0);
	assert_gid(end->endpoint.gid.raw, "fe80::7");
	assert_int_equal(end->endpoint.roce, BEEST_ROCE_NONE);
	assert_int_equal(end->endpoint.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(end->endpoint.lid, 7);
	assert_int_equal(end->lmc, 2);
	assert_int_equal(end->endpoint.mtu, IBV_MTU_512);
	assert_int_equal(end->endpoint.grh_required, 1);
	assert_int_equal(end->endpoint.max_dest_rd_atomic, 4);
	assert_int_equal(end->max_init_rd_atomic, 8);
}

/* Numbers of drivers that no record could hold. */
static void init_with_strange_limits(void **state)
{
	static const struct {
		int reads, shown;
	} rows[] = { { -1, 0 }, { 0, 0 }, { 255, 16 }, { 256, 16 }, { 1 << 30, 16 } };
	size_t i;

	(void)state;
	make_qp(IBV_QPT_RC);
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		hb->device.attr.max_qp_rd_atom = hb->device.attr.max_qp_init_rd_atom =
			rows[i].reads;
		assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
		assert_int_equal(end_of("qp")->endpoint.max_dest_rd_atomic, rows[i].shown);
		assert_int_equal(end_of("qp")->max_init_rd_atomic,
				 rows[i].shown ? BEEST_MIN(rows[i].reads, 255) : 0);
		assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
	}
}

/* The option is only an upper limit: the port's own MTU may be lower. */
static void path_mtu_is_a_limit(void **state)
{
	(void)state;
	open_with("qp_attr.path_mtu=5", NULL);
	make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(end_of("qp")->endpoint.mtu, IBV_MTU_1024);
}

/* A mesh knows how many queue pairs it makes. */
static void reads_are_shared(void **state)
{
	static const struct {
		int total;
		size_t count;
		int each;
	} rows[] = { { 0, 8, 16 }, { 64, 1, 16 }, { 64, 8, 8 }, { 64, 64, 1 }, { 64, 65, 0 } };
	struct beest_qp *qp;
	size_t i;

	(void)state;
	open_with("qp_attr.max_dest_rd_atomic=16", NULL);
	make_qp(IBV_QPT_RC);
	assert_int_equal(beest_context_find_qp(hb, "qp", &qp), 0);
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		fake_verbs.devices[0].attr.max_res_rd_atom = rows[i].total;
		hb->device.attr.max_res_rd_atom = rows[i].total;
		assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
		beest_qp_share_reads(qp, rows[i].count);
		assert_int_equal(qp->local.endpoint.max_dest_rd_atomic, rows[i].each);
		assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
	}
}

/* A driver and an rdma-core that do not know each other. */
static void an_impossible_mtu(void **state)
{
	static const int wrong[] = { 0, 6, 77 };
	char sentence[128];
	size_t i;

	(void)state;
	make_qp(IBV_QPT_RC);
	for (i = 0; i < BEEST_COUNT(wrong); i++) {
		fake_verbs.devices[0].ports[0].active_mtu = (enum ibv_mtu)wrong[i];
		assert_int_equal(hartebeest_qp_init(hb, "qp"), -EIO);
		snprintf(sentence, sizeof(sentence), "port fake0:1 reports the MTU %d, which is "
			 "not within 1..5 (enum ibv_mtu): ", wrong[i]);
		assert_error_has(sentence);
	}
	fake_verbs.devices[0].ports[0].active_mtu = IBV_MTU_1024;
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
}

static void init_datagram(void **state)
{
	struct ibv_qp *qp;

	(void)state;
	open_with("qp_attr.qkey=0x1234567", NULL);
	qp = make_qp(IBV_QPT_UD);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(fake_verbs_last_modify(qp)->attr.qkey, 0x1234567);
	assert_int_equal(end_of("qp")->endpoint.qkey, 0x1234567);
}

static unsigned int access_of(const char *option, enum ibv_atomic_cap atomic)
{
	struct ibv_qp *qp;

	fake_verbs.devices[0].attr.atomic_cap = atomic;
	open_with(option, NULL);
	qp = make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	return fake_verbs_last_modify(qp)->attr.qp_access_flags;
}

static void access_flags(void **state)
{
	(void)state;
	assert_int_equal(access_of(NULL, IBV_ATOMIC_HCA), RW | IBV_ACCESS_REMOTE_ATOMIC);
	assert_int_equal(access_of(NULL, IBV_ATOMIC_GLOB), RW | IBV_ACCESS_REMOTE_ATOMIC);
	assert_int_equal(access_of(NULL, IBV_ATOMIC_NONE), RW);
	assert_int_equal(access_of("qp_attr.access_flags=1", IBV_ATOMIC_HCA), 1);
	assert_int_equal(access_of("qp_attr.access_flags=0", IBV_ATOMIC_HCA), 0);
}

static void a_partition_is_not_used_on_roce(void **state)
{
	(void)state;
	open_with("qp_attr.pkey=0xffff", NULL);
	listen_for_warnings();
	make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(warnings, 0);

	open_with("qp_attr.pkey=0x1234", NULL);
	listen_for_warnings();
	make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(warnings, 1);
	assert_string_equal(last_line, "queue pair 'qp': option qp_attr.pkey (0x1234) is not used "
			    "on RoCE: port fake0:1 has 0xffff only");
	assert_int_equal(end_of("qp")->endpoint.pkey, 0xffff);
}

static void partition_by_value(void **state)
{
	struct ibv_qp *qp;

	(void)state;
	hartebeest_close(hb);
	fake_verbs_infiniband();
	hb = NULL;
	open_with("qp_attr.pkey=0x0012", NULL);
	qp = make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(fake_verbs_last_modify(qp)->attr.pkey_index, 1);
	assert_int_equal(end_of("qp")->endpoint.pkey, 0x8012);

	open_with("qp_attr.pkey=0x8013", NULL);
	qp = make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), -ENODATA);
	assert_error_has("0x8012");
	assert_int_equal(qp->state, IBV_QPS_RESET);
}

static void no_gid_fits(void **state)
{
	struct ibv_qp *qp;

	(void)state;
	open_with("device.name=fake0:1", "device.gid=ip:10.9.9.9");
	qp = make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), -ENODATA);
	assert_error_has("10.0.0.1");
	assert_int_equal(qp->state, IBV_QPS_RESET);
	fake_verbs.devices[0].ports[0].gids[5] = (struct fake_gid){
		.gid = "::ffff:10.9.9.9", .roce = 2, .netdev = "eth0"
	};
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);	/* the address came meanwhile */
	assert_int_equal(end_of("qp")->sgid_index, 5);
}

/* GID tables may be reordered while a job runs; the device reports it. */
static void the_gid_may_move(void **state)
{
	struct fake_gid *gids = fake_verbs.devices[0].ports[0].gids;
	struct ibv_async_event moved = {
		.event_type = IBV_EVENT_GID_CHANGE, .element.port_num = 1,
	};

	(void)state;
	make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(end_of("qp")->sgid_index, 3);
	gids[7] = gids[3];
	memset(&gids[3], 0, sizeof(gids[3]));
	fake_verbs.devices[0].ports[0].active_mtu = IBV_MTU_4096;
	fake_verbs_raise(&moved);
	assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(end_of("qp")->sgid_index, 7);
	assert_int_equal(end_of("qp")->endpoint.mtu, IBV_MTU_4096);
}

/* Event sentences truncate long names, which may then be equal. */
static void events_of_queue_pairs_with_long_names(void **state)
{
	struct ibv_async_event raw = { .event_type = IBV_EVENT_QP_FATAL };
	struct hartebeest_event event;
	struct ibv_qp *qps[2];
	char name[256];
	int i;

	(void)state;
	make_pd();
	make_cq();
	unit_repeat(name, 'q', 255);
	for (i = 0; i < 2; i++) {
		name[254] = (char)('0' + i);
		assert_int_equal(qp_make(hb, name, "pd", IBV_QPT_RC, "cq", "cq", &qps[i]), 0);
	}
	for (i = 0; i < 4; i++) {
		raw.element.qp = qps[i % 2];
		fake_verbs_raise(&raw);
	}
	for (i = 0; i < 2; i++) {
		assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
		assert_int_equal(event.qp_num, qps[i]->qp_num);
	}
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), -EAGAIN);
}

/* ----------------------------------------------------- sequence numbers --- */

#define DRAWS 64

static void sequence_numbers_differ(void **state)
{
	uint32_t psn[DRAWS], high = 0;
	int i, j, same = 0;

	(void)state;
	make_qp(IBV_QPT_RC);
	for (i = 0; i < DRAWS; i++) {
		assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
		psn[i] = end_of("qp")->endpoint.psn;
		assert_true(psn[i] <= 0xffffff);
		high |= psn[i] & 0xff0000;
		for (j = 0; j < i; j++)
			same += psn[i] == psn[j];
		assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
	}
	assert_true(same <= 1);		/* chance makes one pair in 8000 runs, not two */
	assert_true(high != 0);
}

static void sequence_number_by_option(void **state)
{
	(void)state;
	open_with("qp_attr.sq_psn=16777215", NULL);
	make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(end_of("qp")->endpoint.psn, 0xffffff);
	open_with("qp_attr.sq_psn=0", NULL);
	make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(end_of("qp")->endpoint.psn, 0);
}

/* --------------------------------------------------------------- refill --- */

static struct {
	int calls, result;
	struct ibv_qp *qp;
	enum ibv_qp_state state;
} refills;

static int refill(void *data, struct ibv_qp *qp)
{
	assert_ptr_equal(data, &refills);
	refills.calls++;
	refills.qp = qp;
	refills.state = qp->state;
	return refills.result < 0 ? refills.result : hartebeest_post_recv(qp, NULL, 0, 0, 9);
}

static void refill_is_called_in_init(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);

	(void)state;
	memset(&refills, 0, sizeof(refills));
	assert_int_equal(hartebeest_qp_refill_set(hb, "qp", refill, &refills), 0);
	assert_int_equal(refills.calls, 0);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(refills.calls, 1);
	assert_ptr_equal(refills.qp, qp);
	assert_int_equal(refills.state, IBV_QPS_INIT);
	assert_int_equal(fake_verbs_posted(0)->recv.wr_id, 9);

	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);	/* is in INIT: nothing to do */
	assert_int_equal(refills.calls, 1);
	assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(refills.calls, 2);

	assert_int_equal(hartebeest_qp_refill_set(hb, "qp", NULL, NULL), 0);
	assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(refills.calls, 2);
}

/* A queue pair without receives is useless in INIT. */
static void a_failed_refill_fails_the_transition(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);

	(void)state;
	memset(&refills, 0, sizeof(refills));
	refills.result = -ENOBUFS;
	assert_int_equal(hartebeest_qp_refill_set(hb, "qp", refill, &refills), 0);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), -ENOBUFS);
	assert_error_is("the refill function of queue pair 'qp' failed: No buffer space available");
	assert_int_equal(qp->state, IBV_QPS_RESET);
	refills.result = -ENOMEM;
	assert_int_equal(hartebeest_qp_init(hb, "qp"), -ENOMEM);
	assert_error_is("the refill function of queue pair 'qp' failed (the receive queue takes at "
			"most 128 requests, qp_init_attr.cap.max_recv_wr): Cannot allocate memory");
	refills.result = 0;
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(refills.calls, 3);
}

/* --------------------------------------------------------- other states --- */

static void init_beyond_init(void **state)
{
	static const enum ibv_qp_state states[] = {
		IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR,
	};
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	size_t i;

	(void)state;
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	fake_verbs_set_state(qp, IBV_QPS_RTS);
	fake_verbs_fail("ibv_query_qp", 1, EIO);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), -EIO);
	assert_error_is("cannot read the state of queue pair 'qp': Input/output error");
	for (i = 0; i < BEEST_COUNT(states); i++) {
		fake_verbs_set_state(qp, states[i]);
		assert_int_equal(hartebeest_qp_init(hb, "qp"), -EISCONN);
		assert_error_is("queue pair 'qp' is beyond INIT already: hartebeest_qp_reset() "
				"first");
		assert_int_equal(qp->state, states[i]);
		assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
		assert_int_equal(qp->state, IBV_QPS_RESET);
	}
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
}

/* Intel's E810 refuses RESET -> RESET. */
static void reset_of_reset_asks_nothing(void **state)
{
	(void)state;
	make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
	assert_int_equal(fake_verbs_calls("ibv_modify_qp"), 0);
}

static void failures_on_the_way_to_init(void **state)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);

	(void)state;
	fake_verbs_fail("ibv_query_port", 1, ENODEV);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), -ENODEV);
	fake_verbs_fail("ibv_modify_qp", 1, EINVAL);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), -EINVAL);
	assert_error_has("RESET -> INIT of QP ");
	assert_error_has(" on fake0:1 failed: Invalid argument; the access flags or the P_Key "
			 "index do not suit the device (port 1, P_Key index 0, access flags 0xf)");
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	fake_verbs_fail("ibv_modify_qp", 1, EIO);
	assert_int_equal(hartebeest_qp_reset(hb, "qp"), -EIO);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	fake_verbs_set_state(qp, IBV_QPS_ERR);
	fake_verbs_fail("ibv_query_qp", 1, EIO);
	assert_int_equal(hartebeest_qp_reset(hb, "qp"), -EIO);
}

/* Without a server, calls that need none work, and the others say so. */
#define UNNAMED "no Memcached server is named: start the job by 'hartebeest serve -- COMMAND', " \
		"or set HARTEBEEST_EXC_IP_PORT=host:port (option exchange.servers)"

static void no_server_is_named(void **state)
{
	struct hartebeest_remote_mr mr;
	char text[8];

	(void)state;
	make_qp(IBV_QPT_RC);
	create_mr("mr");
	assert_int_equal(hartebeest_mr_publish(hb, "mr", "k", 0), -EDESTADDRREQ);
	assert_error_is(UNNAMED "; wanted: region 'k'");
	assert_int_equal(hartebeest_mr_fetch(hb, "k", &mr, 0), -EDESTADDRREQ);
	assert_error_has("; wanted: region 'k'");
	assert_int_equal(hartebeest_qp_publish(hb, "qp", "k", 0), -EDESTADDRREQ);
	assert_error_has("; wanted: queue pair 'k'");
	assert_int_equal(hartebeest_qp_fetch(hb, "k", NULL, 0), -EDESTADDRREQ);
	assert_error_has("; wanted: queue pair 'k'");
	assert_int_equal(hartebeest_msg_push(hb, "k", NULL, 0, 0), -EDESTADDRREQ);
	assert_error_has("; wanted: message 'k'");
	assert_int_equal(hartebeest_msg_wait(hb, "k", text, 8, NULL, 0), -EDESTADDRREQ);
	assert_int_equal(hartebeest_msg_delete(hb, "k", 0), -EDESTADDRREQ);
	assert_int_equal(hartebeest_peer_regions(hb, "k", NULL, 0), -ENOENT);
	assert_error_has("hartebeest_qp_fetch() was not called");
	assert_int_equal(hartebeest_qp_connect(hb, "qp", "k", 0), -EDESTADDRREQ);
	assert_error_has("; wanted: queue pair 'k'");
	assert_int_equal(hartebeest_qp_confirm(hb, "qp", "k", 0), -ENOTCONN);
	assert_error_is("queue pair 'qp' is not published, so no peer can confirm it");
	assert_int_equal(hartebeest_qp_reconnect(hb, "qp", "k", 0), -ENOTCONN);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
}

/* -------------------------------------------------------- unknown variables --- */

#define UNKNOWN "; unknown environment variable HARTEBEEST_DEVCE, the nearest is HARTEBEEST_DEVICE"

/* A misspelt variable may be the cause, and the log is silent by default. */
static void unknown_variables_end_sentences(void **state)
{
	const char *options[] = { "job.rank=x", NULL };
	struct hartebeest_context *none = NULL;
	struct ibv_pd *pd;

	(void)state;
	setenv("HARTEBEEST_DEVCE", "fake1", 1);
	assert_int_equal(hartebeest_open(&none, options), -EINVAL);
	assert_error_is("argument job.rank: 'x' is not a number from 0 to 2147483647, or 'none' "
			"(id of this process; none: it takes no rank, whatever its launcher says)"
			UNKNOWN);

	open_with(NULL, NULL);
	assert_int_equal(hartebeest_size(hb), -ENODATA);
	assert_error_is("the number of ranks is not known: set HARTEBEEST_NPARTICIPANTS, or start "
			"the program with hartebeest run, srun or mpirun" UNKNOWN);
	fake_verbs.device_count = 0;
	assert_int_equal(create_pd("pd"), -ENODEV);
	assert_error_has(UNKNOWN);
	assert_int_equal(hartebeest_msg_push(hb, "k", NULL, 0, 0), -EDESTADDRREQ);
	assert_error_is(UNNAMED "; wanted: message 'k'" UNKNOWN);

	/* Although -EINVAL usually means a wrong call. */
	setenv("HARTEBEEST_SECRET_FIL", "xyzzy", 1);
	open_with("exchange.servers=127.0.0.1:1", "exchange.secret_file=/dev/null");
	assert_int_equal(hartebeest_msg_push(hb, "k", NULL, 0, 0), -EINVAL);
	assert_error_has("unknown environment variable HARTEBEEST_SECRET_FIL, the nearest is "
			 "HARTEBEEST_SECRET_FILE");
	assert_null(strstr(hartebeest_error(), "xyzzy"));
	assert_null(strstr(strstr(hartebeest_error(), "HARTEBEEST_DEVCE") + 1, "HARTEBEEST_DEVCE"));
	unsetenv("HARTEBEEST_SECRET_FIL");

	/* A failure that no setting can cause does not mention the variable. */
	assert_int_equal(hartebeest_pd_get(hb, "pd", &pd), -ENOENT);
	assert_null(strstr(hartebeest_error(), "HARTEBEEST_DEVCE"));
	unsetenv("HARTEBEEST_DEVCE");
}

/* ----------------------------------------------------------------- log files --- */

static void log_lines_go_to_a_file(void **state)
{
	char folder[SCRATCH_SIZE], option[128], path[128], text[4096] = "";
	struct hartebeest_context *none = NULL;
	const char *missing[] = { "log.file=/nonexistent/log", "log.level=error", NULL };
	FILE *file;

	(void)state;
	scratch_folder(folder, "unit-resources");
	setenv("HARTEBEEST_LOG", "DEBUG", 1);
	setenv("HARTEBEEST_NID", "7", 1);
	snprintf(option, sizeof(option), "log.file=%s/%%r", folder);
	snprintf(path, sizeof(path), "%s/7", folder);
	open_with(option, NULL);
	make_qp(IBV_QPT_RC);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);

	file = fopen(path, "r");
	assert_non_null(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	assert_non_null(strstr(text, "] rank 7 info: rank 7 (from HARTEBEEST_NID)"));
	assert_non_null(strstr(text, "] rank 7 debug: servers not given, timeout 30 s\n"));
	assert_non_null(strstr(text, "] rank 7 debug: queue pair 'qp' is QP "));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);

	unsetenv("HARTEBEEST_LOG");
	assert_int_equal(hartebeest_open(&none, missing), -ENOENT);
	assert_error_is("argument log.file: '/nonexistent/log': No such file or directory");
}

/* ------------------------------------------------------ every failing call --- */

static int init_qp(const char *name)
{
	return hartebeest_qp_init(hb, name);
}

static int get_port(const char *name)
{
	int port = hartebeest_port_num(hb);

	(void)name;
	return port < 0 ? port : 0;
}

static const struct {
	int (*step)(const char *name);
	const char *name;
} bring_up[] = {
	{ get_port, NULL }, { create_pd, "pd" }, { create_cq, "cq" }, { create_mr, "mr" },
	{ register_mr, "own" }, { register_dmabuf, "gpu" }, { create_qp, "qp" },
	{ create_qp_attr, "qp2" }, { init_qp, "qp" }, { init_qp, "qp2" },
};

/* A failed step succeeds when repeated; all others succeed at once. */
static int take_all_steps(void)
{
	int ret, failed = 0;
	size_t i;

	for (i = 0; i < BEEST_COUNT(bring_up); i++) {
		ret = bring_up[i].step(bring_up[i].name);
		if (ret == 0)
			continue;
		failed++;
		assert_true(ret < 0);
		assert_true(strlen(hartebeest_error()) > 10);
		assert_int_equal(bring_up[i].step(bring_up[i].name), 0);
	}
	return failed;
}

static void every_call_may_fail(void **state)
{
	static const int errors[] = { EIO, ENOMEM, EINVAL, FAKE_NO_ERRNO };
	int n, fired = 1, failed = 0;
	size_t e;

	(void)state;
	for (e = 0; e < BEEST_COUNT(errors); e++)
		for (n = 1, fired = 1; fired; n++) {
			hartebeest_close(hb);
			fake_verbs_reset();
			assert_int_equal(hartebeest_open(&hb, NULL), 0);
			fake_verbs_fail("*", n, errors[e]);
			failed += take_all_steps();
			fired = fake_verbs.fired;
			assert_int_equal(fake_verbs.mrs, 3);
			assert_int_equal(fake_verbs.qps, 2);
			assert_int_equal(fake_verbs.ahs, 0);
			assert_int_equal(fake_verbs.lists, 0);
			hartebeest_close(hb);
			hb = NULL;
			assert_int_equal(fake_verbs.open, 0);
		}
	assert_true(failed > 40);	/* the walk reached them */
}

/* A step fails, and the program gives up. */
static void giving_up_in_the_middle(void **state)
{
	int n, ret, fired = 1;
	size_t i;

	(void)state;
	for (n = 1; fired; n++) {
		hartebeest_close(hb);
		fake_verbs_reset();
		assert_int_equal(hartebeest_open(&hb, NULL), 0);
		fake_verbs_fail("*", n, EIO);
		for (i = 0, ret = 0; i < BEEST_COUNT(bring_up) && ret == 0; i++)
			ret = bring_up[i].step(bring_up[i].name);
		fired = fake_verbs.fired;
		hartebeest_close(hb);
		hb = NULL;
		assert_int_equal(fake_verbs.open, 0);
	}
}

/* -------------------------------------------------------------- threads --- */

#define THREADS 4
#define ROUNDS 50

static void *create_many(void *data)
{
	int *created = data, i;
	char name[16];

	for (i = 0; i < ROUNDS; i++) {
		snprintf(name, sizeof(name), "cq%d", i);
		*created += create_cq(name) == 0;
	}
	return NULL;
}

/* One of several threads gets a name that all want; the device is opened once. */
static void threads_share_a_context(void **state)
{
	pthread_t threads[THREADS];
	int created[THREADS] = { 0 }, i, sum = 0;

	(void)state;
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, create_many, &created[i]), 0);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		sum += created[i];
	}
	assert_int_equal(sum, ROUNDS);
	assert_int_equal(fake_verbs.cqs, ROUNDS);
	assert_int_equal(fake_verbs.contexts, 1);
	assert_int_equal(fake_verbs_calls("ibv_open_device"), 1);
}

/* While the first object is being made, another gets its name. */
static void overtake(const char *function)
{
	if (strcmp(function, "ibv_create_cq") != 0)
		return;
	fake_verbs.hook = NULL;
	assert_int_equal(create_cq("cq"), 0);
}

static void overtaken(void **state)
{
	struct ibv_cq *cq = NULL;

	(void)state;
	fake_verbs.hook = overtake;
	assert_int_equal(cq_make(hb, "cq", 0, 0, &cq), -EEXIST);
	assert_error_is("completion queue 'cq' exists already");
	assert_null(cq);
	assert_int_equal(fake_verbs.cqs, 1);
}

/* Each kind of object under the name "x", as a thread makes, finds and destroys it. */
static void *made;			/* what the creation returned */

static int make_x_pd(void)
{
	return hartebeest_pd_create(hb, "x", (struct ibv_pd **)&made);
}

static int make_x_cq(void)
{
	return cq_make(hb, "x", 0, 0, (struct ibv_cq **)&made);
}

static int make_x_srq(void)
{
	return srq_make(hb, "x", "pd", 0, 0, (struct ibv_srq **)&made);
}

static int make_x_mr(void)
{
	return mr_make(hb, "x", "pd", 64, RW, (struct ibv_mr **)&made);
}

static int make_x_qp(void)
{
	return qp_make(hb, "x", "pd", IBV_QPT_RC, "cq", "cq", (struct ibv_qp **)&made);
}

static struct ibv_qp *own_qp;		/* the program's, in INIT */

static int adopt_x_qp(void)
{
	made = own_qp;
	return hartebeest_qp_adopt(hb, "x", own_qp);
}

static int get_x_pd(void **verbs)
{
	return hartebeest_pd_get(hb, "x", (struct ibv_pd **)verbs);
}

static int get_x_cq(void **verbs)
{
	return hartebeest_cq_get(hb, "x", (struct ibv_cq **)verbs);
}

static int get_x_srq(void **verbs)
{
	return hartebeest_srq_get(hb, "x", (struct ibv_srq **)verbs);
}

static int get_x_mr(void **verbs)
{
	return hartebeest_mr_get(hb, "x", (struct ibv_mr **)verbs);
}

static int get_x_qp(void **verbs)
{
	return hartebeest_qp_get(hb, "x", (struct ibv_qp **)verbs);
}

static const struct shared {
	int (*make)(void);
	int (*get)(void **verbs);
	int (*destroy)(struct hartebeest_context *hb, const char *name);
} shared[] = {
	{ make_x_pd, get_x_pd, hartebeest_pd_destroy },
	{ make_x_cq, get_x_cq, hartebeest_cq_destroy },
	{ make_x_srq, get_x_srq, hartebeest_srq_destroy },
	{ make_x_mr, get_x_mr, hartebeest_mr_destroy },
	{ make_x_qp, get_x_qp, hartebeest_qp_destroy },
	{ adopt_x_qp, get_x_qp, hartebeest_qp_destroy },
};

static struct {
	const struct shared *kind;
	void *verbs;			/* what it found under the name; NULL: nothing */
	int ret;
} other;

static void other_destroys(void)
{
	if (other.kind->get(&other.verbs) < 0)
		other.verbs = NULL;
	other.ret = other.kind->destroy(hb, "x");
}

static void other_begin(const struct shared *kind, int n)
{
	other.kind = kind;
	other.verbs = NULL;
	other.ret = -ENOENT;
	meanwhile_begin(n, other_destroys, &hb->objects.lock);
}

static void make_for_both(void)
{
	const struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };

	mallopt(M_PERTURB, 0xa5);	/* shows who reads freed memory */
	init.send_cq = init.recv_cq = make_cq();
	own_qp = ibv_create_qp(make_pd(), &init);
	assert_int_equal(ibv_modify_qp(own_qp, (struct ibv_qp_attr *)&attr, IBV_QP_STATE |
				       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
}

/* One of two threads destroys it, and the other finds nothing, in any order of their steps. */
static void destroyed_by_two_threads(void **state)
{
	const struct shared *kind;
	bool more;
	int n, ret;

	(void)state;
	make_for_both();
	for (kind = shared; kind < shared + BEEST_COUNT(shared); kind++)
		for (n = 1, more = true; more; n++) {
			assert_int_equal(kind->make(), 0);
			other_begin(kind, n);
			ret = kind->destroy(hb, "x");
			more = meanwhile_end();
			assert_int_equal(BEEST_MIN(ret, other.ret), -ENOENT);
			assert_int_equal(BEEST_MAX(ret, other.ret), 0);
		}
	assert_int_equal(ibv_destroy_qp(own_qp), 0);
}

/* A thread that creates an object may find it destroyed, but it gets what it created. */
static void destroyed_while_it_is_made(void **state)
{
	const struct shared *kind;
	bool more;
	int n, caught = 0;

	(void)state;
	make_for_both();
	for (kind = shared; kind < shared + BEEST_COUNT(shared); kind++)
		for (n = 1, more = true; more; n++) {
			other_begin(kind, n);
			assert_int_equal(kind->make(), 0);
			more = meanwhile_end();
			if (other.verbs)
				assert_ptr_equal(made, other.verbs);
			assert_int_equal(kind->destroy(hb, "x"), other.ret == 0 ? -ENOENT : 0);
			caught += other.ret == 0;
		}
	assert_true(caught >= (int)BEEST_COUNT(shared));
	assert_int_equal(ibv_destroy_qp(own_qp), 0);
}

static void the_version_is_that_of_the_header(void **state)
{
	(void)state;
	assert_int_equal(hartebeest_version(), HARTEBEEST_VERSION);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static void a_success_says_nothing(void **state)
{
	(void)state;
	assert_string_equal(hartebeest_error(), "");
	assert_int_equal(hartebeest_pd_create(hb, "pd", NULL), 0);
	assert_string_equal(hartebeest_error(), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_success_says_nothing),	/* first: no failure came before it */
		TEST(nothing_before_it_is_needed),
		TEST(a_device_that_is_not_there),
		TEST(no_rank_no_size),
		TEST(ids_with_gaps),
		TEST(the_launcher_gives_the_local_rank),
		TEST(closing_nothing),
		TEST(a_failed_open_sets_nothing),
		TEST(a_failed_open_reaches_the_function),
		TEST(options_as_text),
		TEST(values_are_told_with_their_source),
		TEST(a_file_is_named_with_line_and_option),
		TEST(a_name_is_used_once),
		TEST(kinds_do_not_share_names),
		TEST(bad_names_touch_no_device),
		TEST(never_created),
		TEST(null_arguments),
		TEST(null_context),
		TEST(failures_are_logged_once),
		TEST(get_what_was_created),
		TEST(two_queues),
		TEST(a_request),
		TEST(structs_of_other_sizes),
		TEST(depth_of_a_completion_queue),
		TEST(sizes_are_cut),
		TEST(granted_sizes_are_told),
		TEST(sizes_are_per_transport),
		TEST(inline_data_is_halved),
		TEST(other_failures_are_no_reason_to_halve),
		TEST(a_queue_pair_that_cannot_be),
		TEST(types),
		TEST(type_0_is_the_option),
		TEST(create_attr_keeps_what_is_given),
		TEST(create_attr_is_untouched_by_failure),
		TEST(shared_receive_queue),
		TEST(defaults_fit_together),
		TEST(warns_of_a_shallow_completion_queue),
		TEST(warns_of_a_crowded_completion_queue),
		TEST(receives_of_a_shared_queue_do_not_count),
		TEST(busy),
		TEST(busy_with_an_unnamed_queue_pair),
		TEST(a_failed_destroy_keeps_the_object),
		TEST(close_goes_backwards),
		TEST(close_after_a_mixture),
		TEST(close_in_a_forked_child),
		TEST(a_buffer_of_whole_pages),
		TEST(huge_pages_where_there_are_some),
		TEST(huge_pages_of_a_cgroup),
		TEST(huge_pages_and_fork),
		TEST(the_callers_memory),
		TEST(memory_of_a_device),
		TEST(registered_by_the_old_symbol),
		TEST(out_of_locked_memory),
		TEST(limits_of_the_device),
		TEST(registration_refused),
		TEST(more_than_can_be_mapped),
		TEST(a_failed_registration_unmaps),
		TEST(init_roce),
		TEST(init_infiniband),
		TEST(init_with_strange_limits),
		TEST(path_mtu_is_a_limit),
		TEST(an_impossible_mtu),
		TEST(reads_are_shared),
		TEST(init_datagram),
		TEST(access_flags),
		TEST(a_partition_is_not_used_on_roce),
		TEST(partition_by_value),
		TEST(no_gid_fits),
		TEST(the_gid_may_move),
		TEST(events_of_queue_pairs_with_long_names),
		TEST(the_version_is_that_of_the_header),
		TEST(sequence_numbers_differ),
		TEST(sequence_number_by_option),
		TEST(refill_is_called_in_init),
		TEST(a_failed_refill_fails_the_transition),
		TEST(init_beyond_init),
		TEST(reset_of_reset_asks_nothing),
		TEST(failures_on_the_way_to_init),
		TEST(no_server_is_named),
		TEST(unknown_variables_end_sentences),
		TEST(log_lines_go_to_a_file),
		TEST(every_call_may_fail),
		TEST(giving_up_in_the_middle),
		TEST(threads_share_a_context),
		TEST(overtaken),
		TEST(destroyed_by_two_threads),
		TEST(destroyed_while_it_is_made),
	};

	huge_flags = beest_mr_huge_flags;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
