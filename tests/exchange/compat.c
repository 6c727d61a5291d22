/* SPDX-License-Identifier: MIT */
/*
 * compat.c - the original's C functions, as its programs use them
 *
 * A process has one default context, so each scenario runs in a child.  The child reports
 * by its exit status; the parent reads afterwards what it printed.
 *
 * promise: hartebeest_compat(3)
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hartebeest-c.h"
#include "hartebeest.h"
#include "lib/api/replaced.h"
#include "lib/base/clock.h"
#include "lib/rendezvous/record.h"
#include "tests/support/fake-clock.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/rank.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"
#include "tests/support/wire.h"

#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct cache *cache;
static char folder[SCRATCH_SIZE];
static char json[96];

/* ----------------------------------------------------------- in the child --- */

static int report;			/* the test's own stderr */

static void broken(const char *condition, int line) __attribute__((noreturn));
static void broken(const char *condition, int line)
{
	dprintf(report, "line %d: %s; last error: %s\n", line, condition, hartebeest_error());
	_exit(1);
}

#define EXPECT(condition) ((condition) ? (void)0 : broken(#condition, __LINE__))

static off_t told_so_far(void)
{
	struct stat status;

	return fstat(2, &status) == 0 ? status.st_size : -1;
}

/* stderr has grown, and its last line is the sentence of hartebeest_error(). */
static void was_told(off_t before, const char *call, int line)
{
	char wanted[1200], told[4096] = "";
	ssize_t size = pread(2, told, sizeof(told) - 1, before);
	size_t length;

	snprintf(wanted, sizeof(wanted), " error: %s\n", hartebeest_error());
	length = strlen(wanted);
	if (size >= (ssize_t)length && strcmp(told + (size_t)size - length, wanted) == 0)
		return;
	dprintf(report, "told: \"%s\"\n", told);
	broken(call, line);
}

/* The call returns false or NULL and prints a line. */
#define FAILS(call)								\
	do {									\
		off_t told_before = told_so_far();				\
										\
		EXPECT(!(call));						\
		was_told(told_before, "was not told: " #call, __LINE__);		\
	} while (0)

/*
 * The call returns false or NULL and prints nothing: this failure was reported before, or is
 * normal in programs of the original.
 */
#define FAILS_SILENTLY(call)							\
	do {									\
		off_t told_before = told_so_far();				\
										\
		EXPECT(!(call));						\
		EXPECT(told_so_far() == told_before);				\
	} while (0)

#define SAYS(text) EXPECT(strstr(hartebeest_error(), text))

/* Counts the lines on stderr that contain @text. */
static int lines_with(const char *text)
{
	static char told[65536];
	ssize_t size = pread(2, told, sizeof(told) - 1, 0);
	const char *found = told;
	int count = 0;

	EXPECT(size >= 0);
	told[size] = '\0';
	while ((found = strstr(found, text))) {
		found += strcspn(found, "\n");
		count++;
	}
	return count;
}

/* ---------------------------------------------------------- in the parent --- */

struct child {
	pid_t pid;
	int out, err;
};

static int temporary(const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
	assert_true(fd >= 0);
	unlink(path);
	return fd;
}

/* The child gets a rank, and its device an address of its own. */
static void become_rank(int rank)
{
	struct fake_port *port = &fake_verbs.devices[0].ports[0];
	char number[16];

	snprintf(number, sizeof(number), "%d", rank);
	setenv("HARTEBEEST_NID", number, 1);
	port->gids[3].gid = rank ? "::ffff:10.0.0.2" : "::ffff:10.0.0.1";
}

static void run(struct child *child, int rank, void (*scenario)(void))
{
	child->out = temporary("out");
	child->err = temporary("err");
	fflush(NULL);
	child->pid = fork();
	if (child->pid)
		return;

	report = dup(2);
	dup2(child->out, 1);
	dup2(child->err, 2);
	become_rank(rank);
	scenario();
	exit(0);			/* the default context ends with the program */
}

/* All that was written to @fd; the caller frees it. */
static char *content(int fd)
{
	char *text = calloc(1, 65536);

	assert_true(text && pread(fd, text, 65535, 0) >= 0);
	close(fd);
	return text;
}

/* Checks a good end and an empty stdout; returns stderr, which the caller frees. */
static char *ended(struct child *child)
{
	int status = -1;
	char *out, *err;

	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	out = content(child->out);
	err = content(child->err);
	if (status)
		print_error("it said: %s%s\n", out, err);
	assert_int_equal(status, 0);
	assert_string_equal(out, "");
	free(out);
	return err;
}

/* But for the warning that the server is slow, as it is on a busy machine. */
static void ended_silently(struct child *child)
{
	char *err = ended(child), *rest = err, *line;

	while ((line = strsep(&rest, "\n")))
		if (!strstr(line, "it or the network is overloaded"))
			assert_string_equal(line, "");
	free(err);
}

static void alone(void (*scenario)(void))
{
	struct child child;

	run(&child, 0, scenario);
	free(ended(&child));
}

static void alone_and_silent(void (*scenario)(void))
{
	struct child child;

	run(&child, 0, scenario);
	ended_silently(&child);
}

static int group_setup(void **state)
{
	(void)state;
	surroundings_clear();
	cache_need();
	cache = cache_start(NULL);
	scratch_folder(folder, "exchange-compat");
	snprintf(json, sizeof(json), "%s/conf.json", folder);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	cache_end(cache);
	unlink(json);
	return rmdir(folder);
}

static void write_json(const char *text)
{
	int fd = open(json, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	setenv("HARTEBEEST_CONF_PATH", json, 1);
}

static int setup(void **state)
{
	static int number;
	char job[32];

	(void)state;
	fake_verbs_reset();
	snprintf(job, sizeof(job), "job%d", number++);
	surroundings_clear();
	setenv("HARTEBEEST_JOB", job, 1);
	setenv("HARTEBEEST_PARTICIPANTS", "0,1", 1);
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	setenv("HARTEBEEST_TIMEOUT", RANK_PATIENCE, 1);
	return 0;
}

/* ------------------------------------------------------ the original's flow --- */

static int rank_of(void)
{
	return atoi(hartebeest_get_sysvar("HARTEBEEST_NID"));
}

/* "qp-0", in one of two buffers by turns. */
static const char *key(const char *what, int rank)
{
	static char texts[2][32];
	static int turn;

	turn = !turn;
	snprintf(texts[turn], sizeof(texts[turn]), "%s-%d", what, rank);
	return texts[turn];
}

static void make_all(void)
{
	EXPECT(hartebeest_create_local_pd("pd"));
	EXPECT(hartebeest_create_local_mr("pd", "mr", 4096, RW));
	EXPECT(hartebeest_create_basiccq("send"));
	EXPECT(hartebeest_create_basiccq("recv"));
	EXPECT(hartebeest_create_local_qp("pd", "qp", IBV_QPT_RC, "send", "recv"));
	EXPECT(hartebeest_init_local_qp("pd", "qp"));
}

static const struct ibv_qp_attr *last_step(const struct ibv_qp *qp, enum ibv_qp_state to)
{
	size_t i = fake_verbs.modified_count;

	while (i-- > 0)
		if (fake_verbs.modified[i].qp_num == qp->qp_num &&
		    fake_verbs.modified[i].attr.qp_state == to)
			return &fake_verbs.modified[i].attr;
	return NULL;
}

static void meet(void)
{
	int me = rank_of();

	EXPECT(hartebeest_memc_push_general(key("done", me)));
	EXPECT(hartebeest_memc_wait_general(key("done", !me)));
}

static void transfer(struct ibv_qp *qp, struct ibv_mr *mr, const struct ibv_mr *remote)
{
	const struct fake_wr *wr;

	fake_verbs.complete_sends = true;
	EXPECT(hartebeest_rdma_post_single_fast(qp, mr->addr, remote->addr, 64, IBV_WR_RDMA_WRITE,
						mr->lkey, remote->rkey, 4711));
	wr = fake_verbs_posted(0);
	EXPECT(wr->send.wr_id == 4711);		/* the original lost it */
	EXPECT(wr->send.send_flags == IBV_SEND_SIGNALED);
	EXPECT(wr->send.opcode == IBV_WR_RDMA_WRITE);
	EXPECT(wr->send.wr.rdma.remote_addr == (uintptr_t)remote->addr);
	EXPECT(wr->send.wr.rdma.rkey == remote->rkey);
	EXPECT(wr->sge[0].addr == (uintptr_t)mr->addr && wr->sge[0].lkey == mr->lkey);
	EXPECT(wr->sge[0].length == 64);
	EXPECT(hartebeest_rdma_send_poll(qp));
}

static void original_flow(void)
{
	struct ibv_qp *qp, *remote_qp;
	struct ibv_mr *mr, *remote_mr;
	const struct ibv_qp_attr *rtr;
	int me;

	hartebeest_init();
	me = rank_of();
	make_all();
	EXPECT(hartebeest_memc_push_local_mr(key("mr", me), "pd", "mr"));
	EXPECT(hartebeest_memc_push_local_qp(key("qp", me), "pd", "qp"));
	EXPECT(hartebeest_memc_fetch_remote_mr(key("mr", !me)));
	EXPECT(hartebeest_memc_fetch_remote_qp(key("qp", !me)));
	EXPECT(hartebeest_connect_local_qp("pd", "qp", key("qp", !me)));
	meet();

	qp = hartebeest_get_local_qp("pd", "qp");
	mr = hartebeest_get_local_mr("pd", "mr");
	remote_qp = hartebeest_get_remote_qp(key("qp", !me));
	remote_mr = hartebeest_get_remote_mr(key("mr", !me));
	EXPECT(qp && mr && remote_qp && remote_mr);
	EXPECT(hartebeest_get_local_pd("pd") == qp->pd);
	EXPECT(qp->state == IBV_QPS_RTS);
	EXPECT(remote_qp->qp_type == IBV_QPT_RC);
	EXPECT(remote_mr->length == 4096 && remote_mr->addr);
	rtr = last_step(qp, IBV_QPS_RTR);
	EXPECT(rtr && rtr->dest_qp_num == remote_qp->qp_num);
	EXPECT(rtr->ah_attr.grh.dgid.raw[15] == (me ? 1 : 2));
	transfer(qp, mr, remote_mr);
	EXPECT(hartebeest_memc_del_general(key("done", !me)));
}

/* The bytes under a key; NULL: none are there. */
static uint8_t *in_the_server(const char *kind, const char *name, size_t *size)
{
	static char answer[4096];
	const char *found, *end;
	char request[128];

	snprintf(request, sizeof(request), "get hb1/%s/%s/%s\r\n", getenv("HARTEBEEST_JOB"), kind,
		 name);
	found = strstr(cache_talk(cache, request, answer, sizeof(answer)), "VALUE");
	if (!found)
		return NULL;

	end = strstr(found, "\r\n");
	assert_non_null(end);
	assert_int_equal(sscanf(found, "VALUE %*s %*u %zu", size), 1);
	assert_true(end + 2 + *size < answer + sizeof(answer));
	return (uint8_t *)end + 2;
}

/* A closed queue pair's record stays for a while, but does not count as published. */
static bool is_published(const char *kind, const char *name)
{
	size_t size;
	const uint8_t *bytes = in_the_server(kind, name, &size);

	return bytes && !(wire_flags(bytes) & BEEST_RECORD_CLOSED);
}

/* The state in the presence of a rank. */
static int rank_state(int rank)
{
	struct beest_rank_body body;
	struct beest_record record;
	char name[16], key[128];
	uint8_t *bytes;
	size_t size;

	snprintf(name, sizeof(name), "%d", rank);
	snprintf(key, sizeof(key), "hb1/%s/rank/%d", getenv("HARTEBEEST_JOB"), rank);
	bytes = in_the_server("rank", name, &size);
	assert_non_null(bytes);
	assert_int_equal(beest_record_decode(NULL, bytes, size, BEEST_KIND_RANK, key, &record), 0);
	assert_int_equal(beest_record_rank_decode(&record, &body), 0);
	return body.state;
}

static void flow(void **state)
{
	struct child children[2];

	(void)state;
	run(&children[0], 0, original_flow);
	run(&children[1], 1, original_flow);
	ended_silently(&children[0]);
	ended_silently(&children[1]);
	assert_false(is_published("qp", "qp-0"));	/* deleted at exit */
	assert_false(is_published("qp", "qp-1"));
	assert_false(is_published("mr", "mr-1"));
	assert_int_equal(rank_state(0), BEEST_RANK_LEFT);
	assert_int_equal(rank_state(1), BEEST_RANK_LEFT);
}

/* ------------------------------------------------------------ wrong calls --- */

static void unknown_names(void)
{
	struct ibv_qp *qp;

	hartebeest_init();
	FAILS(hartebeest_get_local_pd("pd"));
	FAILS(hartebeest_get_local_mr("pd", "mr"));
	FAILS(hartebeest_get_local_qp("pd", "qp"));
	FAILS(hartebeest_create_local_mr("pd", "mr", 64, RW));
	SAYS("no protection domain is called 'pd'");
	FAILS(hartebeest_create_local_qp("pd", "qp", IBV_QPT_RC, "send", "recv"));
	SAYS("no completion queue is called 'send'");
	FAILS(hartebeest_init_local_qp("pd", "qp"));
	FAILS(hartebeest_connect_local_qp("pd", "qp", "key"));
	SAYS("no queue pair is called 'pd/qp'");
	FAILS(hartebeest_memc_push_local_mr("key", "pd", "mr"));
	FAILS(hartebeest_memc_push_local_qp("key", "pd", "qp"));
	FAILS(IN_VAIN(hartebeest_memc_fetch_remote_mr("key")));
	SAYS("after 60 s: no region 'key'");
	EXPECT(lines_with("warn: still waiting, after 25 s: no region 'key' (key ") == 1);
	FAILS(IN_VAIN(hartebeest_memc_fetch_remote_qp("key")));
	EXPECT(lines_with("warn: still waiting, after 25 s: no queue pair 'key' (key ") == 1);
	FAILS(IN_VAIN(hartebeest_memc_wait_general("key")));
	FAILS_SILENTLY(hartebeest_memc_del_general("key"));
	SAYS("no message 'key'");
	FAILS(hartebeest_get_remote_mr("key"));
	SAYS("no fetched memory region is called 'key'");
	FAILS(hartebeest_get_remote_qp("key"));
	FAILS(hartebeest_rdma_poll("cq"));

	make_all();
	FAILS_SILENTLY(hartebeest_create_local_pd("pd"));
	FAILS_SILENTLY(hartebeest_create_local_mr("pd", "mr", 4096, RW));
	FAILS_SILENTLY(hartebeest_create_basiccq("send"));
	FAILS_SILENTLY(hartebeest_create_local_qp("pd", "qp", IBV_QPT_RC, "send", "recv"));
	SAYS("queue pair 'pd/qp' exists already");
	FAILS(hartebeest_create_local_mr("pd", "empty", 0, RW));
	FAILS(hartebeest_create_local_qp("pd", "raw", IBV_QPT_RAW_PACKET, "send", "recv"));
	FAILS(hartebeest_connect_local_qp("pd", "qp", "key"));
	SAYS("hartebeest_qp_fetch() was not called");
	qp = hartebeest_get_local_qp("pd", "qp");
	EXPECT(qp && qp->state == IBV_QPS_INIT);
	EXPECT(hartebeest_memc_push_local_qp("key", "pd", "qp"));	/* everything still works */
}

static void null_names(void)
{
	FAILS(hartebeest_memc_push_general(NULL));
	FAILS(hartebeest_memc_wait_general(NULL));
	FAILS(hartebeest_memc_del_general(NULL));
	FAILS(hartebeest_create_local_pd(NULL));
	FAILS(hartebeest_create_local_mr(NULL, "mr", 64, RW));
	FAILS(hartebeest_create_local_mr("pd", NULL, 64, RW));
	FAILS(hartebeest_memc_push_local_mr(NULL, "pd", "mr"));
	FAILS(hartebeest_memc_push_local_mr("key", NULL, "mr"));
	FAILS(hartebeest_memc_push_local_mr("key", "pd", NULL));
	FAILS(hartebeest_memc_fetch_remote_mr(NULL));
	FAILS(hartebeest_create_basiccq(NULL));
	FAILS(hartebeest_create_local_qp(NULL, "qp", IBV_QPT_RC, "send", "recv"));
	FAILS(hartebeest_create_local_qp("pd", NULL, IBV_QPT_RC, "send", "recv"));
	FAILS(hartebeest_create_local_qp("pd", "qp", IBV_QPT_RC, NULL, "recv"));
	FAILS(hartebeest_create_local_qp("pd", "qp", IBV_QPT_RC, "send", NULL));
	FAILS(hartebeest_init_local_qp(NULL, "qp"));
	FAILS(hartebeest_init_local_qp("pd", NULL));
	FAILS(hartebeest_connect_local_qp(NULL, "qp", "key"));
	FAILS(hartebeest_connect_local_qp("pd", NULL, "key"));
	FAILS(hartebeest_connect_local_qp("pd", "qp", NULL));
	FAILS(hartebeest_memc_push_local_qp(NULL, "pd", "qp"));
	FAILS(hartebeest_memc_push_local_qp("key", NULL, "qp"));
	FAILS(hartebeest_memc_push_local_qp("key", "pd", NULL));
	FAILS(hartebeest_memc_fetch_remote_qp(NULL));
	FAILS(hartebeest_rdma_poll(NULL));
	FAILS(hartebeest_rdma_send_poll(NULL));
	FAILS(hartebeest_rdma_recv_poll(NULL));
	FAILS(hartebeest_rdma_post_single_fast(NULL, NULL, NULL, 0, IBV_WR_SEND, 0, 0, 0));
	FAILS(hartebeest_rdma_post_single_signaled_inline(NULL, NULL, NULL, 0, IBV_WR_SEND, 0, 0,
							  0));
	FAILS(hartebeest_get_local_pd(NULL));
	FAILS(hartebeest_get_local_mr(NULL, "mr"));
	FAILS(hartebeest_get_local_mr("pd", NULL));
	FAILS(hartebeest_get_local_qp(NULL, "qp"));
	FAILS(hartebeest_get_local_qp("pd", NULL));
	FAILS(hartebeest_get_remote_mr(NULL));
	FAILS(hartebeest_get_remote_qp(NULL));
	EXPECT(!hartebeest_get_sysvar(NULL));
	EXPECT(fake_verbs_calls("ibv_get_device_list") == 0);
}

static void null_before_anything(void)
{
	FAILS(hartebeest_rdma_post_single_fast(NULL, NULL, NULL, 0, IBV_WR_SEND, 0, 0, 0));
}

static void null_poll_before_anything(void)
{
	FAILS(hartebeest_rdma_send_poll(NULL));
}

static void null_getter_before_anything(void)
{
	FAILS(hartebeest_get_remote_qp(NULL));
	FAILS(hartebeest_get_remote_mr("key"));
}

/* A program may leave out hartebeest_init(): the first call does its work. */
static void without_init(void)
{
	EXPECT(hartebeest_memc_push_general("m"));
	EXPECT(hartebeest_memc_wait_general("m"));
	make_all();
	hartebeest_init();
	hartebeest_init();
	EXPECT(hartebeest_get_local_qp("pd", "qp"));
}

/* Short enough for tests of fetches that find nothing. */
static void limit_fetches(void)
{
	write_json("{ \"fetch\": { \"timeout\": \"" RANK_PATIENCE "\" } }");
}

static void wrong_calls(void **state)
{
	(void)state;
	limit_fetches();
	alone(unknown_names);
	alone(null_names);
	alone(null_before_anything);
	alone(null_poll_before_anything);
	alone(null_getter_before_anything);
	alone_and_silent(without_init);
}

/* ------------------------------------------------------------ bad settings --- */

static void everything_fails(void)
{
	char name[400];
	struct ibv_qp qp;

	memset(&qp, 0, sizeof(qp));
	hartebeest_init();
	EXPECT(lines_with(" error: ") > 0);
	FAILS_SILENTLY(hartebeest_memc_push_general("key"));
	FAILS_SILENTLY(hartebeest_memc_wait_general("key"));
	FAILS_SILENTLY(hartebeest_memc_del_general("key"));
	FAILS_SILENTLY(hartebeest_create_local_pd("pd"));
	FAILS_SILENTLY(hartebeest_create_local_mr("pd", "mr", 64, RW));
	FAILS_SILENTLY(hartebeest_memc_push_local_mr("key", "pd", "mr"));
	FAILS_SILENTLY(hartebeest_memc_fetch_remote_mr("key"));
	FAILS_SILENTLY(hartebeest_create_basiccq("send"));
	FAILS_SILENTLY(hartebeest_create_local_qp("pd", "qp", IBV_QPT_RC, "send", "recv"));
	FAILS_SILENTLY(hartebeest_init_local_qp("pd", "qp"));
	FAILS_SILENTLY(hartebeest_connect_local_qp("pd", "qp", "key"));
	FAILS_SILENTLY(hartebeest_memc_push_local_qp("key", "pd", "qp"));
	FAILS_SILENTLY(hartebeest_memc_fetch_remote_qp("key"));
	FAILS_SILENTLY(hartebeest_rdma_poll("cq"));
	FAILS(hartebeest_rdma_send_poll(NULL));
	FAILS(hartebeest_rdma_recv_poll(&qp));
	FAILS(hartebeest_rdma_post_single_fast(&qp, name, name, 1, IBV_WR_SEND, 0, 0, 0));
	FAILS_SILENTLY(hartebeest_get_local_pd("pd"));
	FAILS_SILENTLY(hartebeest_get_local_mr("pd", "mr"));
	FAILS_SILENTLY(hartebeest_get_local_qp("pd", "qp"));
	FAILS_SILENTLY(hartebeest_get_remote_mr("key"));
	FAILS_SILENTLY(hartebeest_get_remote_qp("key"));
	unit_repeat(name, '%', sizeof(name) - 1);
	FAILS_SILENTLY(hartebeest_create_local_pd(name));
	FAILS_SILENTLY(hartebeest_create_local_mr(name, name, 64, RW));
	EXPECT(!hartebeest_get_sysvar("HARTEBEEST_NPARTICIPANTS"));
}

static void bad_rank(void)
{
	setenv("HARTEBEEST_NID", "two", 1);
	everything_fails();
	SAYS("HARTEBEEST_NID");
}

static void no_file(void)
{
	setenv("HARTEBEEST_CONF_PATH", "/nonexistent/conf.json", 1);
	everything_fails();
	SAYS("/nonexistent/conf.json");
}

static void bad_level(void)
{
	setenv("HARTEBEEST_LOG", "verbose", 1);
	everything_fails();
	SAYS("HARTEBEEST_LOG");
}

static void foreign_rank(void)
{
	setenv("HARTEBEEST_NID", "2", 1);
	everything_fails();
	SAYS("2");
}

/* One line, wherever the level was set, and none when later calls fail for the same reason. */
static void one_line_for_all(void)
{
	static const char *const levels[] = { NULL, "error", "debug" };
	size_t i;

	setenv("HARTEBEEST_GID", "bad", 1);
	for (i = 0; i < BEEST_COUNT(levels); i++) {
		if (levels[i])
			setenv("HARTEBEEST_LOG", levels[i], 1);
		FAILS((hartebeest_init(), NULL));
		EXPECT(lines_with("HARTEBEEST_GID") == (int)i + 1);
		FAILS_SILENTLY(hartebeest_create_local_pd("pd"));
		FAILS_SILENTLY(hartebeest_memc_push_general("key"));
		FAILS_SILENTLY(hartebeest_get_remote_qp("key"));
		FAILS_SILENTLY(hartebeest_default_context());
		SAYS("HARTEBEEST_GID");
	}
}

/* Once the settings are good, the next hartebeest_init() uses them. */
static void repaired(void)
{
	setenv("HARTEBEEST_GID", "bad", 1);
	FAILS(hartebeest_create_local_pd("pd"));
	unsetenv("HARTEBEEST_GID");
	FAILS_SILENTLY(hartebeest_create_local_pd("pd"));
	hartebeest_init();
	EXPECT(hartebeest_create_local_pd("pd"));
}

static void no_server(void)
{
	unsetenv("HARTEBEEST_EXC_IP_PORT");
	make_all();
	FAILS(hartebeest_memc_push_general("key"));
	SAYS("HARTEBEEST_EXC_IP_PORT");
	FAILS(hartebeest_memc_fetch_remote_qp("key"));
	FAILS(hartebeest_memc_push_local_qp("key", "pd", "qp"));
}

static void no_device(void)
{
	fake_verbs.device_count = 0;
	FAILS(hartebeest_create_local_pd("pd"));
	FAILS(hartebeest_create_basiccq("cq"));
	EXPECT(hartebeest_memc_push_general("key"));	/* needs no device */
	EXPECT(hartebeest_memc_wait_general("key"));
}

static void bad_settings(void **state)
{
	(void)state;
	alone(bad_rank);
	alone(no_file);
	alone(bad_level);
	alone(foreign_rank);
	alone(one_line_for_all);
	alone(repaired);
	alone(no_server);
	alone(no_device);
}

/* ---------------------------------------------- settings of the original's programs --- */

/* Settings that the original accepted, and the reason why they are refused here. */
static const struct habit {
	const char *variable, *value;	/* HARTEBEEST_CONF_PATH: the content of the file */
	const char *reason;
} habits[] = {
	{ "HARTEBEEST_NID", "01", "drop the leading zero" },
	{ "HARTEBEEST_PARTICIPANTS", "0, 1", "see byte 3" },
	{ "HARTEBEEST_PARTICIPANTS", "0,1,", "see byte 5" },
	{ "HARTEBEEST_CONF_PATH", "{ \"cq_attr\": { \"cq_depth\": 128.0 } }",
	  "found the number 128.0" },
	{ "HARTEBEEST_CONF_PATH", "{ \"cq_attr\": { \"cq_depth\": true } }",
	  "found true" },
	{ "HARTEBEEST_CONF_PATH", "{ \"cq_attr\": { \"cq_depth\": 1, \"cq_depth\": 2 } }",
	  "is given twice" },
	{ "HARTEBEEST_CONF_PATH", "\xef\xbb\xbf{ }", "begins with a byte order mark" },
	{ "HARTEBEEST_CONF_PATH", "{ \"my own\": { } }", "unknown section 'my own'" },
	{ "HARTEBEEST_CONF_PATH", "{ \"cq_attr\": { \"my_own\": 1 } }",
	  "unknown option 'cq_attr.my_own'" },
};

static const struct habit *habit;

static void keep_a_habit(void)
{
	hartebeest_init();
	EXPECT(!hartebeest_default_context());
	SAYS(habit->reason);
	EXPECT(lines_with(habit->reason) == 1);
}

/* Set in the child, since run() sets HARTEBEEST_NID. */
static void keep_a_habit_of_rank(void)
{
	setenv(habit->variable, habit->value, 1);
	keep_a_habit();
}

static void settings_of_the_original_are_refused(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(habits); i++) {
		habit = &habits[i];
		setup(NULL);
		if (strcmp(habit->variable, "HARTEBEEST_CONF_PATH") == 0) {
			write_json(habit->value);
			alone(keep_a_habit);
		} else {
			alone(keep_a_habit_of_rank);
		}
	}
}

static void begin_in_the_folder(void)
{
	EXPECT(chdir(folder) == 0);
	hartebeest_init();
	EXPECT(hartebeest_default_context());
	EXPECT(lines_with("./hb_config.json is not read") == !getenv("HARTEBEEST_CONF_PATH"));
}

static void the_file_of_the_working_directory(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/hb_config.json", folder);
	write_json("{ }");
	assert_int_equal(link(json, path), 0);
	alone_and_silent(begin_in_the_folder);
	unsetenv("HARTEBEEST_CONF_PATH");
	alone(begin_in_the_folder);
	unlink(path);
}

static void has_elements(const char *option, const char *wanted)
{
	char text[16];

	EXPECT(hartebeest_option_get(hartebeest_default_context(), option, text, sizeof(text),
				     NULL) >= 0);
	EXPECT(strcmp(text, wanted) == 0);
}

static void have_sixteen_elements(void)
{
	struct ibv_qp_cap cap;

	make_all();
	EXPECT(hartebeest_qp_cap(hartebeest_default_context(), "pd/qp", &cap) == 0);
	EXPECT(cap.max_send_sge == 16 && cap.max_recv_sge == 16);
	has_elements("qp_init_attr.ud:cap.max_send_sge", "16");
}

/* A setting overrides the original's default of 16. */
static void have_four_elements(void)
{
	has_elements("qp_init_attr.rc:cap.max_send_sge", "4");
	has_elements("qp_init_attr.uc:cap.max_send_sge", "16");
	has_elements("qp_init_attr.rc:cap.max_recv_sge", "1");
	has_elements("qp_init_attr.ud:cap.max_recv_sge", "1");
}

/* The original's own file gives 128 entries and requests; its programs use one queue for all. */
static void have_room_for_all(void)
{
	struct ibv_qp_cap cap;
	struct ibv_qp *qp;

	EXPECT(hartebeest_create_local_pd("pd"));
	EXPECT(hartebeest_create_basiccq("cq"));
	EXPECT(hartebeest_create_local_qp("pd", "qp", IBV_QPT_RC, "cq", "cq"));
	qp = hartebeest_get_local_qp("pd", "qp");
	EXPECT(hartebeest_qp_cap(hartebeest_default_context(), "pd/qp", &cap) == 0);
	EXPECT(cap.max_send_wr >= 128);
	EXPECT(qp->send_cq->cqe >= (int)(cap.max_send_wr + cap.max_recv_wr));
}

static void depth_as_in_the_original(void **state)
{
	(void)state;
	write_json("{ \"cq_attr\": { \"cq_depth\": 128 },"
		   "  \"qp_init_attr\": { \"rc:cap.max_send_wr\": 128 } }");
	alone_and_silent(have_room_for_all);
}

static void elements_as_in_the_original(void **state)
{
	(void)state;
	alone_and_silent(have_sixteen_elements);
	write_json("{ \"qp_init_attr\": { \"rc:cap.max_send_sge\": 4, \"cap.max_recv_sge\": 1 } }");
	alone_and_silent(have_four_elements);
}

/* ------------------------------------------------------- how much is told --- */

static void fail_quietly(void)
{
	EXPECT(!hartebeest_get_local_pd("none"));
	SAYS("no protection domain is called 'none'");
	EXPECT(!hartebeest_rdma_send_poll(NULL));
	EXPECT(!hartebeest_get_remote_qp("none"));
	EXPECT(!hartebeest_create_local_pd(NULL));
}

static void log_none(void)
{
	setenv("HARTEBEEST_LOG", "none", 1);
	EXPECT(!hartebeest_rdma_send_poll(NULL));
	fail_quietly();
}

static void bad_rank_log_none(void)
{
	setenv("HARTEBEEST_LOG", "none", 1);
	setenv("HARTEBEEST_NID", "two", 1);
	hartebeest_init();
	EXPECT(!hartebeest_create_local_pd("pd"));
	SAYS("HARTEBEEST_NID");
}

static void log_info(void)
{
	setenv("HARTEBEEST_LOG", "info", 1);
	make_all();
	FAILS(hartebeest_get_local_pd("none"));
}

static void log_levels(void **state)
{
	struct child child;
	char *err;

	(void)state;
	alone_and_silent(log_none);
	alone_and_silent(bad_rank_log_none);
	write_json("{ \"log\": { \"level\": \"none\" } }");
	alone_and_silent(fail_quietly);
	unsetenv("HARTEBEEST_CONF_PATH");

	run(&child, 0, log_info);
	err = ended(&child);
	assert_non_null(strstr(err, " info: "));
	free(err);
}

/* ----------------------------------------------------- fetching once more --- */

static void publish_twice(void)
{
	EXPECT(hartebeest_create_local_pd("pd"));
	EXPECT(hartebeest_create_basiccq("cq"));
	EXPECT(hartebeest_create_local_mr("pd", "one", 4096, RW));
	EXPECT(hartebeest_create_local_mr("pd", "two", 8192, RW));
	EXPECT(hartebeest_create_local_qp("pd", "one", IBV_QPT_RC, "cq", "cq"));
	EXPECT(hartebeest_create_local_qp("pd", "two", IBV_QPT_UC, "cq", "cq"));
	EXPECT(hartebeest_memc_push_local_mr("key", "pd", "one"));
	EXPECT(hartebeest_memc_push_local_qp("key", "pd", "one"));
	EXPECT(hartebeest_memc_push_general("first"));
	EXPECT(hartebeest_memc_wait_general("next"));
	EXPECT(hartebeest_memc_push_local_mr("key", "pd", "two"));
	EXPECT(hartebeest_memc_push_local_qp("key", "pd", "two"));
	EXPECT(hartebeest_memc_push_general("second"));
	EXPECT(hartebeest_memc_wait_general("end"));
}

static void fetch_twice(void)
{
	struct ibv_mr *mr, before;
	struct ibv_qp *qp;
	uint32_t number;

	EXPECT(hartebeest_memc_wait_general("first"));
	EXPECT(hartebeest_memc_fetch_remote_mr("key"));
	EXPECT(hartebeest_memc_fetch_remote_qp("key"));
	mr = hartebeest_get_remote_mr("key");
	qp = hartebeest_get_remote_qp("key");
	EXPECT(mr && qp && mr->length == 4096 && qp->qp_type == IBV_QPT_RC);
	before = *mr;
	number = qp->qp_num;
	EXPECT(hartebeest_memc_push_general("next"));
	EXPECT(hartebeest_memc_wait_general("second"));
	EXPECT(mr->length == 4096);			/* unchanged until it is fetched again */
	EXPECT(hartebeest_memc_fetch_remote_mr("key"));
	EXPECT(hartebeest_memc_fetch_remote_qp("key"));
	EXPECT(hartebeest_get_remote_mr("key") == mr);
	EXPECT(hartebeest_get_remote_qp("key") == qp);
	EXPECT(mr->length == 8192 && mr->rkey != before.rkey && mr->addr != before.addr);
	EXPECT(qp->qp_type == IBV_QPT_UC && qp->qp_num != number);
	FAILS(hartebeest_rdma_send_poll(qp));		/* looks like a queue pair and is none */
	FAILS(hartebeest_rdma_post_single_fast(qp, mr, mr->addr, 1, IBV_WR_SEND, 0, 0, 0));
	EXPECT(hartebeest_memc_push_general("end"));
}

static void a_second_fetch_is_fresh(void **state)
{
	struct child children[2];

	(void)state;
	run(&children[0], 0, publish_twice);
	run(&children[1], 1, fetch_twice);
	ended_silently(&children[0]);
	free(ended(&children[1]));
}

/* ------------------------------------------------------------- data path --- */

/* A queue pair in RTS, without a peer. */
static struct ibv_qp *ready_qp(void)
{
	struct ibv_qp *qp;

	make_all();
	qp = hartebeest_get_local_qp("pd", "qp");
	EXPECT(qp);
	fake_verbs_set_state(qp, IBV_QPS_RTS);
	return qp;
}

static void posts(void)
{
	static const enum ibv_wr_opcode good[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_SEND_WITH_IMM,
	};
	static const enum ibv_wr_opcode bad[] = {
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, (enum ibv_wr_opcode)77,
	};
	struct ibv_qp *qp = ready_qp();
	char data[300] = "inline data";
	size_t i, beyond = (size_t)(UINT64_C(1) << 32);

	for (i = 0; i < BEEST_COUNT(good); i++) {
		EXPECT(hartebeest_rdma_post_single_fast(qp, data, data, 64, good[i], 1, 2, 3 + i));
		EXPECT(fake_verbs_posted(0)->send.opcode == good[i]);
		EXPECT(fake_verbs_posted(0)->send.wr_id == 3 + i);
		EXPECT(fake_verbs_posted(0)->send.imm_data == 0);
	}
	for (i = 0; i < BEEST_COUNT(bad); i++) {
		FAILS(hartebeest_rdma_post_single_fast(qp, data, data, 64, bad[i], 1, 2, 3));
		SAYS("is not a write, read or send");
	}
	EXPECT(fake_verbs.posted_count == BEEST_COUNT(good));

	EXPECT(hartebeest_rdma_post_single_signaled_inline(qp, data, data, 12, IBV_WR_RDMA_WRITE,
							   1, 2, 99));
	EXPECT(fake_verbs_posted(0)->send.send_flags == (IBV_SEND_SIGNALED | IBV_SEND_INLINE));
	EXPECT(fake_verbs_posted(0)->send.wr_id == 99);
	EXPECT(!memcmp(fake_verbs_posted(0)->bytes, "inline data", 12));
	FAILS(hartebeest_rdma_post_single_signaled_inline(qp, data, data, 257, IBV_WR_SEND, 1, 2,
							  99));
	SAYS("posting 257 bytes to QP ");
	SAYS("too long to be sent inline?");
	if (beyond) {			/* where size_t has more than 32 bits */
		FAILS(hartebeest_rdma_post_single_fast(qp, data, data, beyond, IBV_WR_SEND, 1, 2,
						       3));
		SAYS("a request of 4294967296 bytes is more than one work request can carry");
	}
	EXPECT(hartebeest_rdma_post_single_fast(qp, data, data, UINT32_MAX, IBV_WR_SEND, 1, 2, 3));
	fake_verbs_fail("ibv_post_send", 1, ENOMEM);
	FAILS(hartebeest_rdma_post_single_fast(qp, data, data, 5, IBV_WR_SEND, 1, 2, 3));
	SAYS("failed: Cannot allocate memory");
	EXPECT(!strstr(hartebeest_error(), "inline"));
	fake_verbs_set_state(qp, IBV_QPS_INIT);
	FAILS(hartebeest_rdma_post_single_fast(qp, data, data, 5, IBV_WR_SEND, 1, 2, 3));
}

/* The original never set the address handle, so a datagram is refused. */
static void posts_no_datagram(void)
{
	struct ibv_qp *qp;
	char byte = 0;

	EXPECT(hartebeest_create_local_pd("pd"));
	EXPECT(hartebeest_create_basiccq("cq"));
	EXPECT(hartebeest_create_local_qp("pd", "ud", IBV_QPT_UD, "cq", "cq"));
	qp = hartebeest_get_local_qp("pd", "ud");
	EXPECT(qp);
	FAILS(hartebeest_rdma_post_single_fast(qp, &byte, &byte, 1, IBV_WR_SEND, 1, 2, 3));
	SAYS("a datagram needs an address");
	EXPECT(fake_verbs.posted_count == 0);
}

static void complete(struct ibv_cq *cq, uint32_t qp_num, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	memset(&wc, 0, sizeof(wc));
	wc.wr_id = 5;
	wc.status = status;
	wc.qp_num = qp_num;
	fake_verbs_complete(cq, &wc);
}

static void polls(void)
{
	struct ibv_qp *qp = ready_qp();
	int64_t start = beest_clock_now();

	FAILS(hartebeest_rdma_poll("send"));
	SAYS("poll.timeout");
	EXPECT(beest_clock_now() - start >= 30 * BEEST_MS);
	FAILS(hartebeest_rdma_send_poll(qp));
	FAILS(hartebeest_rdma_recv_poll(qp));

	complete(qp->send_cq, qp->qp_num, IBV_WC_SUCCESS);
	complete(qp->recv_cq, qp->qp_num, IBV_WC_SUCCESS);
	complete(qp->recv_cq, qp->qp_num, IBV_WC_SUCCESS);
	EXPECT(hartebeest_rdma_send_poll(qp));
	EXPECT(hartebeest_rdma_recv_poll(qp));		/* each poll took one completion */
	EXPECT(hartebeest_rdma_poll("recv"));
	FAILS(hartebeest_rdma_poll("recv"));

	complete(qp->send_cq, qp->qp_num, IBV_WC_RETRY_EXC_ERR);
	FAILS(hartebeest_rdma_poll("send"));
	SAYS("the peer does not answer");
	SAYS("request 5 of queue pair 'pd/qp' on fake0:1");
	complete(qp->recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	FAILS(hartebeest_rdma_recv_poll(qp));
	SAYS("a queue pair unknown to this context");
	fake_verbs_fail("ibv_poll_cq", 1, EIO);
	FAILS(hartebeest_rdma_poll("send"));
	SAYS("Input/output error");
	complete(qp->send_cq, qp->qp_num, IBV_WC_SUCCESS);
	EXPECT(hartebeest_rdma_send_poll(qp));
}

/* Each poll takes 20 ms, so that a second passes. */
static void take_time(const char *function)
{
	if (strcmp(function, "ibv_poll_cq") == 0)
		fake_clock_skip(20 * BEEST_MS);
}

/* The poll says once, after a second, what it waits for. */
static void polls_for_nobody(void)
{
	make_all();
	fake_verbs.hook = take_time;
	FAILS(hartebeest_rdma_poll("send"));
	EXPECT(lines_with("still polling") == 1);
	EXPECT(lines_with("has connected no queue pair of this completion queue") == 1);
	FAILS(hartebeest_rdma_poll("send"));
	EXPECT(lines_with("still polling") == 1);
}

/* @hint: what the line says of the device. */
static void poll_for_a_peer(const char *hint)
{
	EXPECT(hartebeest_create_local_pd("pd"));
	EXPECT(hartebeest_create_basiccq("cq"));
	EXPECT(hartebeest_create_local_qp("pd", "a", IBV_QPT_RC, "cq", "cq"));
	EXPECT(hartebeest_create_local_qp("pd", "b", IBV_QPT_RC, "cq", "cq"));
	EXPECT(hartebeest_memc_push_local_qp("key of a", "pd", "a") == false);
	EXPECT(hartebeest_memc_push_local_qp("key-of-a", "pd", "a"));
	EXPECT(hartebeest_memc_push_local_qp("key-of-b", "pd", "b"));
	EXPECT(hartebeest_memc_fetch_remote_qp("key-of-b"));
	EXPECT(hartebeest_connect_local_qp("pd", "a", "key-of-b"));
	fake_verbs.hook = take_time;
	FAILS(hartebeest_rdma_poll("cq"));
	EXPECT(lines_with("queue pair 'pd/a' is connected to 'key-of-b' (rank 0 on ") == 1);
	EXPECT(lines_with(hint) == 1);
	FAILS(hartebeest_rdma_send_poll(hartebeest_get_local_qp("pd", "a")));
	EXPECT(lines_with("still polling") == 1);
}

static void polls_for_a_peer(void)
{
	poll_for_a_peer("fake0:1)\n");
}

static void polls_for_a_peer_by_soft_roce(void)
{
	fake_verbs.devices[0].attr.vendor_id = 0xffffff;
	poll_for_a_peer("fake0:1); a Soft-RoCE device takes qp_attr.retry_cnt 7 as infinite, so "
			"requests to a peer that is gone never fail: set it to 6 or less\n");
}

/* Native functions reconnect the queue pair elsewhere: its former peer is no longer followed. */
static void changes_its_peer(void)
{
	static const char *const names[] = { "a", "b", "c" };
	size_t i;

	EXPECT(hartebeest_create_local_pd("pd"));
	EXPECT(hartebeest_create_basiccq("cq"));
	for (i = 0; i < BEEST_COUNT(names); i++) {
		EXPECT(hartebeest_create_local_qp("pd", names[i], IBV_QPT_RC, "cq", "cq"));
		EXPECT(hartebeest_memc_push_local_qp(names[i], "pd", names[i]));
		EXPECT(hartebeest_memc_fetch_remote_qp(names[i]));
	}
	EXPECT(hartebeest_connect_local_qp("pd", "a", "b"));
	pause_ms(110);
	EXPECT(hartebeest_memc_push_general("checks"));	/* so that the next call does not check */
	EXPECT(hartebeest_qp_reset(hartebeest_default_context(), "pd/a") == 0);
	EXPECT(hartebeest_connect_local_qp("pd", "a", "c"));

	fake_verbs.hook = take_time;
	FAILS(hartebeest_rdma_poll("cq"));
	SAYS("(option poll.timeout)");
	EXPECT(lines_with("queue pair 'pd/a' is not connected to 'b'") == 1);
}

static void data_path(void **state)
{
	(void)state;
	alone(posts);
	alone(posts_no_datagram);
	write_json("{ \"poll\": { \"timeout\": \"30ms\" } }");
	alone(polls);
	write_json("{ \"poll\": { \"timeout\": \"10s\" } }");
	alone(polls_for_nobody);
	alone(polls_for_a_peer);
	alone(polls_for_a_peer_by_soft_roce);
	alone(changes_its_peer);
}

/* ---------------------------------------------------------------- settings --- */

static bool is_text(const char *is, const char *wanted)
{
	return is && strcmp(is, wanted) == 0;
}

static void variables(void)
{
	EXPECT(is_text(hartebeest_get_sysvar("HARTEBEEST_NID"), "0"));
	EXPECT(is_text(hartebeest_get_sysvar("HARTEBEEST_PARTICIPANTS"), "0,1"));
	EXPECT(is_text(hartebeest_get_sysvar("HARTEBEEST_NPARTICIPANTS"), "2"));
	EXPECT(hartebeest_get_sysvar("HARTEBEEST_EXC_IP_PORT") ==
	       getenv("HARTEBEEST_EXC_IP_PORT"));
	EXPECT(!hartebeest_get_sysvar("HARTEBEEST_CONF_PATH"));
	EXPECT(!hartebeest_get_sysvar("HARTEBEEST_"));
	EXPECT(!hartebeest_get_sysvar(""));
	EXPECT(!hartebeest_get_sysvar(NULL));
	setenv("HOME", "/root", 1);
	EXPECT(!hartebeest_get_sysvar("HOME"));		/* not a variable of its own */
}

static void launched_by_slurm(void)
{
	unsetenv("HARTEBEEST_NID");
	unsetenv("HARTEBEEST_PARTICIPANTS");
	setenv("SLURM_PROCID", "3", 1);
	setenv("SLURM_STEP_NUM_TASKS", "16", 1);
	setenv("SLURM_STEP_ID", "0", 1);
	setenv("SLURM_JOB_ID", "77", 1);
	EXPECT(is_text(hartebeest_get_sysvar("HARTEBEEST_NID"), "3"));
	EXPECT(is_text(hartebeest_get_sysvar("HARTEBEEST_NPARTICIPANTS"), "16"));
	EXPECT(!hartebeest_get_sysvar("HARTEBEEST_EXC_IP_PORTS"));
}

static void said_by_a_file(void)
{
	unsetenv("HARTEBEEST_EXC_IP_PORT");
	EXPECT(is_text(hartebeest_get_sysvar("HARTEBEEST_EXC_IP_PORT"), "a-server:1"));
}

static void launched_by_nobody(void)
{
	unsetenv("HARTEBEEST_NID");
	unsetenv("HARTEBEEST_PARTICIPANTS");
	FAILS(hartebeest_get_sysvar("HARTEBEEST_NID"));
	SAYS("set HARTEBEEST_NID, or start it with");
	FAILS(hartebeest_get_sysvar("HARTEBEEST_NPARTICIPANTS"));
	FAILS(hartebeest_get_sysvar("HARTEBEEST_PARTICIPANTS"));
	SAYS("HARTEBEEST_PARTICIPANTS is not set");
	FAILS_SILENTLY(hartebeest_get_sysvar("HARTEBEEST_NID"));
	FAILS_SILENTLY(hartebeest_get_sysvar("HARTEBEEST_NPARTICIPANTS"));
	FAILS_SILENTLY(hartebeest_get_sysvar("HARTEBEEST_PARTICIPANTS"));
	FAILS_SILENTLY(hartebeest_get_sysvar("HARTEBEEST_CONF_PATH"));
	EXPECT(hartebeest_memc_push_general("m"));	/* messages need no rank */
}

static void system_variables(void **state)
{
	(void)state;
	alone_and_silent(variables);
	alone_and_silent(launched_by_slurm);
	write_json("{ \"exchange\": { \"servers\": \"a-server:1\" } }");
	alone_and_silent(said_by_a_file);
	unsetenv("HARTEBEEST_CONF_PATH");
	alone(launched_by_nobody);
}

/* ------------------------------------------------------------------- names --- */

static void names_with_slashes(void)
{
	static const char *const pds[] = { "a", "a/b", "a%2Fb", "a%2fb", "a/", "/" };
	struct ibv_mr *mrs[2 * BEEST_COUNT(pds)];
	char long_name[300];
	size_t i, j;

	for (i = 0; i < BEEST_COUNT(pds); i++) {
		EXPECT(hartebeest_create_local_pd(pds[i]));
		EXPECT(hartebeest_create_local_mr(pds[i], "c", 64, RW));
		EXPECT(hartebeest_create_local_mr(pds[i], "b/c", 64, RW));
		mrs[2 * i] = hartebeest_get_local_mr(pds[i], "c");
		mrs[2 * i + 1] = hartebeest_get_local_mr(pds[i], "b/c");
	}
	for (i = 0; i < BEEST_COUNT(mrs); i++)
		for (j = 0; j < i; j++)
			EXPECT(mrs[i] && mrs[i] != mrs[j]);
	EXPECT(mrs[0]->pd == hartebeest_get_local_pd("a"));
	EXPECT(mrs[2]->pd == hartebeest_get_local_pd("a/b"));

	unit_repeat(long_name, '/', 299);
	FAILS(hartebeest_create_local_pd(long_name));
	FAILS(hartebeest_create_local_mr(long_name, long_name, 64, RW));
	FAILS(hartebeest_get_local_mr("a", long_name));
	FAILS(hartebeest_create_local_pd(""));
	FAILS(hartebeest_memc_push_general("a b"));
	SAYS("byte 2 is a blank");
	FAILS(hartebeest_memc_push_general("a\r\nflush_all"));
	FAILS(hartebeest_memc_wait_general(""));
}

static void names(void **state)
{
	(void)state;
	alone(names_with_slashes);
}

/* ----------------------------------------------------------------- messages --- */

static void message_functions(void)
{
	FAILS(IN_VAIN(hartebeest_memc_wait_general("m")));
	SAYS("after 60 s (HARTEBEEST_TIMEOUT): no message 'm'");
	EXPECT(hartebeest_memc_push_general("m"));
	EXPECT(hartebeest_memc_wait_general("m"));
	EXPECT(hartebeest_memc_wait_general("m"));
	EXPECT(hartebeest_memc_del_general("m"));
	FAILS_SILENTLY(hartebeest_memc_del_general("m"));
	FAILS(IN_VAIN(hartebeest_memc_wait_general("m")));
	EXPECT(hartebeest_memc_push_general("m"));
	EXPECT(hartebeest_memc_wait_general("m"));
}

static int64_t time_told = 1000 * BEEST_SECOND, longest_pause;
static int pause_count;

static int64_t tell_time(void)
{
	return time_told += BEEST_US;
}

static void pass_until(int64_t time)
{
	longest_pause = BEEST_MAX(longest_pause, time - time_told);
	time_told = BEEST_MAX(time, time_told);
	pause_count++;
}

/* A peer deletes its message within some round trips after it was seen by others. */
static void wait_without_long_pauses(void)
{
	static const struct beest_clock_source source = { tell_time, pass_until };

	setenv("HARTEBEEST_TIMEOUT", "200ms", 1);
	EXPECT(hartebeest_memc_push_general("other"));	/* connects */
	beest_clock_source = &source;
	FAILS(hartebeest_memc_wait_general("m"));
	SAYS("after 200 ms (HARTEBEEST_TIMEOUT): no message 'm'");
	EXPECT(longest_pause > 0 && longest_pause < 100 * BEEST_US);
}

/* Others may have been held up since this process saw the last message that all waited for. */
static void delete_late(void)
{
	static const struct beest_clock_source source = { tell_time, pass_until };

	make_all();
	EXPECT(hartebeest_memc_push_local_qp("qp-0", "pd", "qp"));
	EXPECT(hartebeest_memc_push_general("m"));
	EXPECT(hartebeest_memc_push_general("n"));
	beest_clock_source = &source;
	EXPECT(hartebeest_memc_wait_general("n"));
	EXPECT(hartebeest_memc_del_general("qp-0"));
	EXPECT(pause_count == 0);
	EXPECT(hartebeest_memc_del_general("m"));
	EXPECT(pause_count == 64);
	EXPECT(hartebeest_memc_del_general("n"));
	EXPECT(pause_count == 64);
	EXPECT(hartebeest_memc_push_general("n"));
	EXPECT(hartebeest_memc_wait_general("n"));
	time_told += BEEST_SECOND;
	EXPECT(hartebeest_memc_del_general("n"));
	EXPECT(pause_count == 64);
}

static void message(void **state)
{
	(void)state;
	alone(wait_without_long_pauses);
	alone(delete_late);
	alone(message_functions);
	assert_true(is_published("msg", "m"));	/* stays for ranks that come late */
}

/* -------------------------------------------------------------- withdrawing --- */

static void publish_all(void)
{
	make_all();
	EXPECT(hartebeest_memc_push_local_mr(key("mr", rank_of()), "pd", "mr"));
	EXPECT(hartebeest_memc_push_local_qp(key("qp", rank_of()), "pd", "qp"));
	EXPECT(hartebeest_memc_push_general("published"));	/* its answer comes after both */
}

/* Not even a tombstone is there. */
static bool is_gone(const char *kind, const char *name)
{
	size_t size;

	return !in_the_server(kind, name, &size);
}

static void withdraw_each(void)
{
	publish_all();
	EXPECT(hartebeest_memc_del_general("qp-0"));
	EXPECT(is_gone("qp", "qp-0") && is_published("mr", "mr-0"));
	EXPECT(hartebeest_memc_del_general("mr-0"));
	EXPECT(is_gone("mr", "mr-0"));
	FAILS_SILENTLY(hartebeest_memc_del_general("qp-0"));
	SAYS("no message 'qp-0'");
	FAILS_SILENTLY(hartebeest_memc_del_general("mr-0"));
	EXPECT(hartebeest_memc_push_local_qp("qp-0", "pd", "qp"));
	EXPECT(hartebeest_memc_push_local_mr("mr-0", "pd", "mr"));
	EXPECT(hartebeest_memc_fetch_remote_qp("qp-0"));
	EXPECT(hartebeest_memc_fetch_remote_mr("mr-0"));
}

/* As in the original's one name space. */
static void withdraw_all_of_one_key(void)
{
	publish_all();
	EXPECT(hartebeest_memc_push_local_qp("k", "pd", "qp"));
	EXPECT(hartebeest_memc_push_local_mr("k", "pd", "mr"));
	EXPECT(hartebeest_memc_push_general("k"));
	EXPECT(hartebeest_memc_del_general("k"));
	EXPECT(is_gone("qp", "k") && is_gone("mr", "k") && is_gone("msg", "k"));
	EXPECT(is_published("qp", "qp-0") && is_published("mr", "mr-0"));
	FAILS_SILENTLY(hartebeest_memc_del_general("k"));
}

/* A server that has lost everything gets back what was not withdrawn. */
static void withdraw_and_restore(void)
{
	static const char *const stored[] = { "epoch", "rank/0", "qp/qp-0" };
	char request[128], answer[64];
	size_t i;

	publish_all();
	EXPECT(hartebeest_memc_push_local_qp("other", "pd", "qp"));
	EXPECT(hartebeest_memc_del_general("other"));
	EXPECT(hartebeest_memc_del_general("mr-0"));
	for (i = 0; i < BEEST_COUNT(stored); i++) {
		snprintf(request, sizeof(request), "delete hb1/%s/%s\r\n",
			 getenv("HARTEBEEST_JOB"), stored[i]);
		EXPECT(strstr(cache_talk(cache, request, answer, sizeof(answer)), "DELETED"));
	}
	EXPECT(hartebeest_memc_fetch_remote_qp("qp-0"));
	EXPECT(lines_with(" has lost what it had") == 1);
	EXPECT(is_gone("qp", "other") && is_gone("mr", "mr-0"));
}

/* Other processes have nothing to fear. */
static void withdraw_what_another_published(void)
{
	FAILS_SILENTLY(hartebeest_memc_del_general("qp-0"));
	FAILS_SILENTLY(hartebeest_memc_del_general("mr-0"));
}

static void publish_and_die(void)
{
	publish_all();
	_exit(0);			/* as by SIGKILL: deletes no record */
}

static void withdraw(void **state)
{
	struct child child;

	(void)state;
	alone_and_silent(withdraw_each);
	alone_and_silent(withdraw_all_of_one_key);
	run(&child, 0, withdraw_and_restore);
	free(ended(&child));
	setup(NULL);
	alone_and_silent(publish_and_die);
	run(&child, 1, withdraw_what_another_published);
	ended_silently(&child);
	assert_true(is_published("qp", "qp-0"));
	assert_true(is_published("mr", "mr-0"));
}

/* ------------------------------------------------------ the end of a process --- */

static void a_normal_end_takes_back(void **state)
{
	(void)state;
	alone_and_silent(publish_and_die);
	assert_true(is_published("qp", "qp-0"));
	assert_true(is_published("mr", "mr-0"));
	assert_int_equal(rank_state(0), BEEST_RANK_ALIVE);
	alone_and_silent(publish_all);
	assert_false(is_published("qp", "qp-0"));
	assert_false(is_published("mr", "mr-0"));
	assert_int_equal(rank_state(0), BEEST_RANK_LEFT);
}

static pid_t ending;			/* the process that leave_statics() is for */

static void leave_statics(void)
{
	if (ending != getpid())
		return;
	EXPECT(is_gone("mr", "mr-0"));
	EXPECT(rank_state(0) == BEEST_RANK_LEFT);
}

static void end_before_statics(void)
{
	ending = getpid();
	EXPECT(atexit(leave_statics) == 0);
	publish_all();
}

/*
 * Static objects of a C++ program are destroyed like this.  Its threads use them until the process
 * is gone, which must not take as long as talking to a server.
 */
static void the_end_comes_before_statics_go(void **state)
{
	(void)state;
	alone_and_silent(end_before_statics);
}

#ifdef HAVE_CRYPTO
static void connect_and_end(void)
{
	publish_all();
	EXPECT(hartebeest_memc_fetch_remote_qp("qp-0"));
	EXPECT(hartebeest_connect_local_qp("pd", "qp", "qp-0"));
}

/* The end still has to seal a tombstone, although libcrypto may have ended before. */
static void a_normal_end_with_a_secret(void **state)
{
	struct rank_settings settings = {
		.servers = cache_hostport(cache)->text, .job = getenv("HARTEBEEST_JOB"),
	};
	struct hartebeest_context *hb;

	(void)state;
	write_json("{ \"log\": { \"level\": \"warn\" } }");	/* any file does */
	setenv("HARTEBEEST_SECRET_FILE", json, 1);
	alone_and_silent(connect_and_end);
	assert_true(is_gone("mr", "mr-0"));
	assert_int_equal(rank_open(&hb, &settings), 0);
	assert_int_equal(UNTIL_ANSWERED(hartebeest_qp_fetch(hb, "qp-0", NULL, HARTEBEEST_ONCE)),
			 -EAGAIN);
	assert_non_null(strstr(hartebeest_error(), "but its queue pair was destroyed"));
	assert_int_equal(hartebeest_close(hb), 0);
}
#endif

static void publish_and_end_quickly(void)
{
	publish_all();
	quick_exit(0);
}

static void a_quick_end_leaves_all(void **state)
{
	(void)state;
	alone_and_silent(publish_and_end_quickly);
	assert_true(is_published("qp", "qp-0"));
	assert_int_equal(rank_state(0), BEEST_RANK_ALIVE);
}

/* Detached threads, which use regions, queue pairs and the library until the kernel ends them. */
static struct {
	pid_t pid;			/* of the process that has them; 0: none */
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	unsigned long reads, posts, calls;	/* atomic */
} detached;

/* LeakSanitizer asks this at exit: a forked child has no threads, but their memory. */
int __lsan_is_turned_off(void) __attribute__((visibility("default")));
int __lsan_is_turned_off(void)
{
	return detached.pid && detached.pid != getpid();
}

#define COUNT(number) __atomic_add_fetch(&(number), 1, __ATOMIC_RELEASE)

static void *read_for_ever(void *data)
{
	const volatile char *first = detached.mr->addr;

	while (first[0] == 0 && first[4095] == 0)
		COUNT(detached.reads);
	return data;
}

static void *post_for_ever(void *data)
{
	struct ibv_mr *mr = detached.mr;
	struct ibv_qp *qp = detached.qp;

	for (;; COUNT(detached.posts)) {
		EXPECT(hartebeest_rdma_post_single_fast(qp, mr->addr, mr->addr, 8,
							IBV_WR_RDMA_WRITE, mr->lkey, mr->rkey, 1));
		EXPECT(hartebeest_rdma_send_poll(qp));
	}
	return data;
}

static void *call_for_ever(void *data)
{
	for (;; COUNT(detached.calls)) {
		EXPECT(hartebeest_memc_push_local_mr("late", "pd", "mr"));
		EXPECT(hartebeest_memc_push_local_qp("late", "pd", "qp"));
		EXPECT(hartebeest_memc_push_general("message"));
		EXPECT(hartebeest_memc_wait_general("message"));
		EXPECT(hartebeest_memc_del_general("message"));
		EXPECT(hartebeest_get_local_mr("pd", "mr") == detached.mr);
	}
	return data;
}

static void advance(unsigned long *count)
{
	unsigned long before = __atomic_load_n(count, __ATOMIC_ACQUIRE);

	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < before + 3)
		pause_ms(1);
}

static void advance_all(void)
{
	advance(&detached.reads);
	advance(&detached.posts);
	advance(&detached.calls);
}

/* The priority makes it run after the end of the default context. */
static void __attribute__((destructor(101))) threads_outlive_the_library(void)
{
	if (detached.pid != getpid())
		return;

	advance_all();
	EXPECT(is_gone("mr", "mr-0") && !is_published("qp", "qp-0"));
	EXPECT(rank_state(0) == BEEST_RANK_LEFT);
	EXPECT(hartebeest_memc_push_local_mr("later", "pd", "mr"));
	EXPECT(is_gone("mr", "later"));
	advance_all();
}

static void end_with_threads(void)
{
	static void *(*const bodies[])(void *) = {
		read_for_ever, post_for_ever, call_for_ever,
	};
	pthread_t thread;
	int status, i;
	pid_t child;
	size_t j;

	publish_all();
	detached.mr = hartebeest_get_local_mr("pd", "mr");
	detached.qp = hartebeest_get_local_qp("pd", "qp");
	fake_verbs_set_state(detached.qp, IBV_QPS_RTS);
	fake_verbs.complete_sends = true;
	detached.pid = getpid();
	for (j = 0; j < BEEST_COUNT(bodies); j++)
		EXPECT(pthread_create(&thread, NULL, bodies[j], NULL) == 0 &&
		       pthread_detach(thread) == 0);
	advance_all();
	for (i = 0; i < 10; i++) {	/* whatever locks the threads hold at that moment */
		child = fork();
		if (child == 0)
			exit(0);
		EXPECT(waitpid(child, &status, 0) == child && status == 0);
	}
}

static void threads_at_the_end(void **state)
{
	(void)state;
	alone_and_silent(end_with_threads);
}

/* ---------------------------------------------------------- peers that restart --- */

/* Its presence replaces the former one behind the first message, so that is not the one to tell. */
static void come_late(void)
{
	EXPECT(hartebeest_memc_push_general("come"));
	EXPECT(hartebeest_memc_push_general("alive"));
	EXPECT(hartebeest_memc_wait_general("go"));
	publish_all();
	EXPECT(hartebeest_memc_wait_general("done"));
}

/* The sentence names the process that has the rank now. */
static void is_of_a_process_that_is_gone(const char *name)
{
	char wanted[160], host[64];

	EXPECT(gethostname(host, sizeof(host)) == 0);
	snprintf(wanted, sizeof(wanted), " was published by a process that is gone; its successor "
		 "is rank 1 on %s, pid ", host);
	SAYS(name);
	SAYS(wanted);
}

static void meet_the_late_one(void)
{
	EXPECT(hartebeest_memc_wait_general("alive"));
	FAILS(IN_VAIN(hartebeest_memc_fetch_remote_qp("qp-1")));
	is_of_a_process_that_is_gone("qp-1");
	FAILS(IN_VAIN(hartebeest_memc_fetch_remote_mr("mr-1")));
	is_of_a_process_that_is_gone("mr-1");
	EXPECT(hartebeest_memc_push_general("go"));
	EXPECT(hartebeest_memc_fetch_remote_qp("qp-1"));
	EXPECT(hartebeest_memc_fetch_remote_mr("mr-1"));
	EXPECT(hartebeest_memc_push_general("done"));
}

/* Records of a dead process whose rank another process has are refused. */
static void leftovers_are_refused(void **state)
{
	struct child dead, late, other;

	(void)state;
	limit_fetches();
	run(&dead, 1, publish_and_die);
	ended_silently(&dead);
	run(&late, 1, come_late);
	run(&other, 0, meet_the_late_one);
	free(ended(&other));
	ended_silently(&late);
}

static void connect_to(int peer)
{
	EXPECT(hartebeest_memc_fetch_remote_qp(key("qp", peer)));
	EXPECT(hartebeest_connect_local_qp("pd", "qp", key("qp", peer)));
}

static void first_life(void)
{
	publish_all();
	connect_to(0);
	EXPECT(hartebeest_memc_wait_general("up"));
	_exit(0);
}

static void second_life(void)
{
	EXPECT(hartebeest_create_local_pd("other"));	/* so that numbers differ */
	EXPECT(hartebeest_create_basiccq("other"));
	EXPECT(hartebeest_create_local_qp("other", "qp", IBV_QPT_RC, "other", "other"));
	make_all();
	EXPECT(hartebeest_memc_push_local_qp("qp-1", "pd", "qp"));
	connect_to(0);
	EXPECT(hartebeest_memc_push_general("again"));
	EXPECT(hartebeest_memc_wait_general("done"));
}

static const struct ibv_qp *own_qp(void)
{
	return hartebeest_get_local_qp("pd", "qp");
}

static uint32_t own_peer(void)
{
	return last_step(own_qp(), IBV_QPS_RTR)->dest_qp_num;
}

/*
 * The size of what a call prints that does not concern the queue pair.  Such a call looks at the
 * peer if the last look is 100 ms old.
 */
static off_t told_by_the_next_look(void)
{
	off_t before = told_so_far();

	pause_ms(150);
	EXPECT(hartebeest_memc_push_general("anything"));
	return told_so_far() - before;
}

/* Any next call connects to the new peer; a later one, where a slow server answered no look. */
static void outlive(void)
{
	uint32_t former, psn;

	publish_all();
	connect_to(1);
	former = hartebeest_get_remote_qp("qp-1")->qp_num;
	psn = last_step(own_qp(), IBV_QPS_RTS)->sq_psn;
	EXPECT(hartebeest_memc_push_general("up"));
	EXPECT(hartebeest_memc_wait_general("again"));
	while (own_peer() == former)
		told_by_the_next_look();

	EXPECT(own_peer() == hartebeest_get_remote_qp("qp-1")->qp_num);
	/* the new peer has read it in the record */
	EXPECT(last_step(own_qp(), IBV_QPS_RTS)->sq_psn == psn);
	EXPECT(own_qp()->state == IBV_QPS_RTS);
	EXPECT(hartebeest_memc_fetch_remote_qp("qp-1"));
	EXPECT(hartebeest_connect_local_qp("pd", "qp", "qp-1"));	/* done already */
	FAILS(hartebeest_connect_local_qp("pd", "qp", "qp-1"));		/* but accepted once only */
	EXPECT(hartebeest_memc_push_general("done"));
}

/* A reconnection must not keep the next queue pair of that name from being connected. */
static void outlive_and_make_again(void)
{
	struct hartebeest_context *hb = hartebeest_default_context();
	uint32_t former;

	publish_all();
	connect_to(1);
	former = own_peer();
	EXPECT(hartebeest_memc_push_general("up"));
	EXPECT(hartebeest_memc_wait_general("again"));
	while (own_peer() == former)
		told_by_the_next_look();
	EXPECT(hartebeest_qp_destroy(hb, "pd/qp") == 0);
	EXPECT(hartebeest_create_local_qp("pd", "qp", IBV_QPT_RC, "send", "recv"));
	EXPECT(hartebeest_memc_push_local_qp("qp-0", "pd", "qp"));
	connect_to(1);
	EXPECT(own_qp()->state == IBV_QPS_RTS);
	EXPECT(hartebeest_memc_push_general("done"));
}

/*
 * A failed request makes the next post look at the peer first.  Repeated where a look had no
 * answer.
 */
static void outlive_by_a_failure(void)
{
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	uint32_t former;

	publish_all();
	connect_to(1);
	qp = hartebeest_get_local_qp("pd", "qp");
	former = own_peer();
	EXPECT(hartebeest_memc_push_general("up"));
	while (!is_published("msg", "again"))
		pause_ms(1);
	mr = hartebeest_get_local_mr("pd", "mr");
	fake_verbs.complete_sends = true;
	do {
		fake_verbs.complete_status = IBV_WC_RETRY_EXC_ERR;
		EXPECT(hartebeest_rdma_post_single_fast(qp, mr->addr, NULL, 8, IBV_WR_RDMA_WRITE,
							mr->lkey, 1, 1));
		EXPECT(own_peer() == former);
		FAILS(hartebeest_rdma_poll("send"));
		fake_verbs.complete_status = IBV_WC_SUCCESS;
		EXPECT(hartebeest_rdma_post_single_fast(qp, mr->addr, NULL, 8, IBV_WR_RDMA_WRITE,
							mr->lkey, 1, 2));
		EXPECT(hartebeest_rdma_poll("send"));
	} while (own_peer() == former);
	EXPECT(hartebeest_memc_push_general("done"));
}

/* Requests under way are lost, so a poll that waited on would never end. */
static void outlive_by_a_poll(void)
{
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	uint32_t former;

	publish_all();
	connect_to(1);
	qp = hartebeest_get_local_qp("pd", "qp");
	former = last_step(qp, IBV_QPS_RTR)->dest_qp_num;
	EXPECT(hartebeest_memc_push_general("up"));
	while (!is_published("msg", "again"))
		pause_ms(1);
	fake_verbs.hook = take_time;
	FAILS(hartebeest_rdma_recv_poll(qp));
	SAYS("queue pair 'pd/qp': its peer 'qp-1' was replaced, and requests under way are "
	     "lost; the queue pair is now connected to the new peer");
	EXPECT(last_step(qp, IBV_QPS_RTR)->dest_qp_num != former);
	EXPECT(lines_with("still polling") == 0);

	mr = hartebeest_get_local_mr("pd", "mr");
	fake_verbs.complete_sends = true;
	EXPECT(hartebeest_rdma_post_single_fast(qp, mr->addr, NULL, 8, IBV_WR_RDMA_WRITE, mr->lkey,
						1, 2));
	EXPECT(hartebeest_rdma_poll("send"));
	fake_verbs.hook = NULL;
	EXPECT(hartebeest_memc_push_general("done"));
}

#define MANY 40

/*
 * If each queue pair caused a look of its own at a stopped server, each would take a quarter of a
 * second and a new connection.
 */
static void look_at_many(void)
{
	char number[16];
	long before;
	int i;

	EXPECT(hartebeest_create_local_pd("pd"));
	EXPECT(hartebeest_create_basiccq("cq"));
	for (i = 0; i < MANY; i++) {
		snprintf(number, sizeof(number), "%d", i);
		EXPECT(hartebeest_create_local_qp("pd", number, IBV_QPT_RC, "cq", "cq"));
		EXPECT(hartebeest_init_local_qp("pd", number));
		EXPECT(hartebeest_memc_push_local_qp(number, "pd", number));
		EXPECT(hartebeest_memc_fetch_remote_qp(number));
		EXPECT(hartebeest_connect_local_qp("pd", number, number));
	}
	pause_ms(150);
	before = cache_stat(cache, "total_connections");
	cache_stop(cache);
	FAILS(IN_VAIN(hartebeest_memc_push_general("m")));
	cache_resume(cache);
	EXPECT(cache_stat(cache, "total_connections") - before < MANY / 2);
}

/* A queue pair that cannot be reconnected is reported once and then left alone. */
static void outlive_disconnected(void)
{
	off_t told = 0;

	publish_all();
	connect_to(1);
	EXPECT(hartebeest_memc_push_general("up"));
	while (!is_published("msg", "again"))
		pause_ms(1);
	fake_verbs_fail("ibv_modify_qp", 3, EIO);	/* RESET and INIT pass, RTR fails */
	while (own_qp()->state == IBV_QPS_RTS)
		told = told_by_the_next_look();
	EXPECT(told > 0);
	told_by_the_next_look();
	EXPECT(told_by_the_next_look() == 0);
	connect_to(1);
	EXPECT(own_qp()->state == IBV_QPS_RTS);
	EXPECT(hartebeest_memc_push_general("done"));
}

/* One look reconnects the queue pair, the next one fails to: the second result counts. */
static void connect_after_both(void)
{
	static const char *const names[] = { "x", "y", "z", "w" };
	const struct ibv_qp *x;
	uint32_t former;
	off_t told = 0;
	size_t i;

	EXPECT(hartebeest_create_local_pd("pd"));
	EXPECT(hartebeest_create_basiccq("cq"));
	for (i = 0; i < BEEST_COUNT(names); i++) {
		EXPECT(hartebeest_create_local_qp("pd", names[i], IBV_QPT_RC, "cq", "cq"));
		EXPECT(hartebeest_init_local_qp("pd", names[i]));
	}
	EXPECT(hartebeest_memc_push_local_qp("own", "pd", "x"));
	EXPECT(hartebeest_memc_push_local_qp("peer", "pd", "y"));
	EXPECT(hartebeest_memc_fetch_remote_qp("peer"));
	EXPECT(hartebeest_connect_local_qp("pd", "x", "peer"));
	x = hartebeest_get_local_qp("pd", "x");
	former = last_step(x, IBV_QPS_RTR)->dest_qp_num;
	EXPECT(hartebeest_memc_push_local_qp("peer", "pd", "z"));
	while (last_step(x, IBV_QPS_RTR)->dest_qp_num == former)
		told_by_the_next_look();
	EXPECT(hartebeest_memc_push_local_qp("peer", "pd", "w"));
	fake_verbs_fail("ibv_modify_qp", 3, EIO);
	while (x->state == IBV_QPS_RTS)
		told = told_by_the_next_look();
	EXPECT(told > 0);
	EXPECT(hartebeest_memc_fetch_remote_qp("peer"));
	EXPECT(hartebeest_connect_local_qp("pd", "x", "peer"));
	EXPECT(x->state == IBV_QPS_RTS);
}

/* The keys of both ends are withdrawn: nothing is said, and nothing publishes them again. */
static void withdraw_when_connected(void)
{
	static const char *const names[] = { "x", "y", "z" };
	const struct ibv_qp *x;
	uint32_t former;
	size_t i;

	EXPECT(hartebeest_create_local_pd("pd"));
	EXPECT(hartebeest_create_basiccq("cq"));
	for (i = 0; i < BEEST_COUNT(names); i++)
		EXPECT(hartebeest_create_local_qp("pd", names[i], IBV_QPT_RC, "cq", "cq"));
	EXPECT(hartebeest_memc_push_local_qp("own", "pd", "x"));
	EXPECT(hartebeest_memc_push_local_qp("peer", "pd", "y"));
	EXPECT(hartebeest_memc_fetch_remote_qp("own"));
	EXPECT(hartebeest_memc_fetch_remote_qp("peer"));
	EXPECT(hartebeest_memc_del_general("own"));
	EXPECT(hartebeest_connect_local_qp("pd", "x", "peer"));	/* stores its record again */
	EXPECT(hartebeest_connect_local_qp("pd", "y", "own"));
	EXPECT(is_gone("qp", "own") && is_published("qp", "peer"));
	EXPECT(hartebeest_memc_del_general("peer"));
	EXPECT(is_gone("qp", "peer"));
	EXPECT(told_by_the_next_look() == 0);
	x = hartebeest_get_local_qp("pd", "x");
	EXPECT(x->state == IBV_QPS_RTS);
	EXPECT(hartebeest_get_local_qp("pd", "y")->state == IBV_QPS_RTS);
	EXPECT(is_gone("qp", "own") && is_gone("qp", "peer"));

	former = last_step(x, IBV_QPS_RTR)->dest_qp_num;
	EXPECT(hartebeest_memc_push_local_qp("peer", "pd", "z"));
	while (last_step(x, IBV_QPS_RTR)->dest_qp_num == former)
		told_by_the_next_look();
	EXPECT(is_gone("qp", "own"));
}

/* A datagram queue pair has many peers, and none of them is followed. */
static void be_silent_with_datagrams(void)
{
	EXPECT(hartebeest_create_local_pd("pd"));
	EXPECT(hartebeest_create_basiccq("cq"));
	EXPECT(hartebeest_create_local_qp("pd", "ud", IBV_QPT_UD, "cq", "cq"));
	EXPECT(hartebeest_memc_push_local_qp("ud", "pd", "ud"));
	EXPECT(hartebeest_memc_fetch_remote_qp("ud"));
	EXPECT(hartebeest_connect_local_qp("pd", "ud", "ud"));
	pause_ms(150);				/* longer than the 100 ms between two looks */
	EXPECT(hartebeest_memc_push_general("anything"));
}

static void live_and_leave(void)
{
	publish_all();
	connect_to(0);
	EXPECT(hartebeest_memc_wait_general("up"));
}

/* A peer that has left may come back, so the next looks go on, in silence. */
static void outlive_in_silence(void)
{
	int i;

	publish_all();
	connect_to(1);
	EXPECT(hartebeest_memc_push_general("up"));
	while (is_published("qp", "qp-1"))
		pause_ms(1);
	EXPECT(!is_gone("qp", "qp-1"));
	/* A server that is busy may not answer in the time of such a look. */
	for (i = 0; i < 2 || strstr(hartebeest_error(), "no answer"); i++) {
		beest_replaced_suspect();	/* so that the next call looks */
		EXPECT(told_by_the_next_look() == 0);
	}
	SAYS("queue pair 'pd/qp': its peer 'qp-1' has left");
	EXPECT(own_qp()->state == IBV_QPS_RTS);
}

static void a_peer_that_leaves(void **state)
{
	struct child other, peer;

	(void)state;
	run(&other, 0, outlive_in_silence);
	run(&peer, 1, live_and_leave);
	ended_silently(&other);
	ended_silently(&peer);
}

static void live_and_fail(void)
{
	publish_all();
	connect_to(0);
	EXPECT(hartebeest_memc_wait_general("up"));
	EXPECT(hartebeest_fail(hartebeest_default_context(), "enough") == 0);
	EXPECT(hartebeest_memc_wait_general("heard"));
}

/* Each look would hear of it again, ten times a second. */
static void outlive_a_failure(void)
{
	int i;

	publish_all();
	connect_to(1);
	EXPECT(hartebeest_memc_push_general("up"));
	while (!lines_with("has failed: enough")) {
		beest_replaced_suspect();
		told_by_the_next_look();
	}
	for (i = 0; i < 10; i++) {
		beest_replaced_suspect();
		told_by_the_next_look();
	}
	EXPECT(lines_with("has failed: enough") == 1);
	EXPECT(own_qp()->state == IBV_QPS_RTS);
	EXPECT(hartebeest_memc_push_general("heard"));
}

static void a_peer_that_fails(void **state)
{
	struct child other, peer;

	(void)state;
	run(&other, 0, outlive_a_failure);
	run(&peer, 1, live_and_fail);
	free(ended(&other));
	ended_silently(&peer);
}

static void restart_beside(void (*scenario)(void))
{
	struct child first, second, other;

	run(&other, 0, scenario);
	run(&first, 1, first_life);
	ended_silently(&first);
	run(&second, 1, second_life);
	free(ended(&other));
	ended_silently(&second);
}

static void a_peer_that_restarts(void **state)
{
	(void)state;
	restart_beside(outlive);
}

static void a_peer_that_restarts_before_this_end_is_made_again(void **state)
{
	(void)state;
	restart_beside(outlive_and_make_again);
}

static void a_peer_that_restarts_in_a_poll(void **state)
{
	(void)state;
	restart_beside(outlive_by_a_poll);
}

static void a_peer_that_restarts_in_vain(void **state)
{
	(void)state;
	restart_beside(outlive_disconnected);
}

static void a_silent_server_and_many_peers(void **state)
{
	(void)state;
	alone(look_at_many);
}

static void a_peer_replaced_twice(void **state)
{
	(void)state;
	alone(connect_after_both);
}

static void connected_and_withdrawn(void **state)
{
	(void)state;
	alone_and_silent(withdraw_when_connected);
}

static void datagrams_follow_nobody(void **state)
{
	(void)state;
	alone_and_silent(be_silent_with_datagrams);
}

static void a_peer_that_restarts_in_a_transfer(void **state)
{
	(void)state;
	restart_beside(outlive_by_a_failure);
}

/* --------------------------------------------------------------------- fork --- */

static void fork_and_exit(void)
{
	struct ibv_qp *qp;
	int status = -1;
	pid_t child;

	make_all();
	EXPECT(hartebeest_memc_push_local_qp("qp", "pd", "qp"));
	child = fork();
	if (child == 0)
		exit(0);		/* the child's exit must not close the parent's context */
	EXPECT(waitpid(child, &status, 0) == child && status == 0);
	EXPECT(hartebeest_memc_fetch_remote_qp("qp"));
	qp = hartebeest_get_local_qp("pd", "qp");
	EXPECT(qp && qp->state == IBV_QPS_INIT);
	EXPECT(hartebeest_memc_push_local_qp("qp", "pd", "qp"));
}

static void a_forked_child(void **state)
{
	(void)state;
	alone_and_silent(fork_and_exit);
}

#define TEST(function) cmocka_unit_test_setup(function, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(flow),
		TEST(wrong_calls),
		TEST(bad_settings),
		TEST(settings_of_the_original_are_refused),
		TEST(the_file_of_the_working_directory),
		TEST(elements_as_in_the_original),
		TEST(depth_as_in_the_original),
		TEST(log_levels),
		TEST(a_second_fetch_is_fresh),
		TEST(data_path),
		TEST(system_variables),
		TEST(names),
		TEST(message),
		TEST(withdraw),
		TEST(connected_and_withdrawn),
		TEST(a_normal_end_takes_back),
		TEST(the_end_comes_before_statics_go),
#ifdef HAVE_CRYPTO
		TEST(a_normal_end_with_a_secret),
#endif
		TEST(a_quick_end_leaves_all),
		TEST(threads_at_the_end),
		TEST(leftovers_are_refused),
		TEST(a_peer_that_leaves),
		TEST(a_peer_that_fails),
		TEST(a_peer_that_restarts),
		TEST(a_peer_that_restarts_before_this_end_is_made_again),
		TEST(a_peer_that_restarts_in_a_transfer),
		TEST(a_peer_that_restarts_in_a_poll),
		TEST(a_peer_that_restarts_in_vain),
		TEST(a_peer_replaced_twice),
		TEST(datagrams_follow_nobody),
		TEST(a_silent_server_and_many_peers),
		TEST(a_forked_child),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
