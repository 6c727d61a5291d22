/* SPDX-License-Identifier: MIT */
/*
 * command.c - the built hartebeest info, doctor and mesh on a real device; and hartebeest ping
 * beside other measuring programs, where they are installed
 *
 * promise: hartebeest(1)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <json-c/json.h>

#include "hartebeest-mesh.h"
#include "hartebeest.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/talk.h"

static const char *tool;
static char folder[SCRATCH_SIZE], path[128];
static struct talk talk, other;

#define RUN(...) TALK(&talk, tool, __VA_ARGS__)
#define SAYS(text) talk_says(&talk, text)

static int setup(void **state)
{
	(void)state;
	memset(&talk, 0, sizeof(talk));
	memset(&other, 0, sizeof(other));
	unsetenv("HARTEBEEST_EXC_IP_PORT");
	unsetenv("HARTEBEEST_NID");
	unsetenv("HARTEBEEST_JOB");
	return 0;
}

static void succeeds(int status)
{
	if (status != 0)
		fail_msg("ended with %d:\n%s%s", status, talk.out, talk.err);
}

static const char *file(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

/* -------------------------------------------------------- info, doctor --- */

static void what_info_shows(void **state)
{
	(void)state;
	succeeds(RUN("info"));
	SAYS("  --    libraries     lib");
	SAYS("libibverbs.so.1");
	SAYS(":1        active   ");
	SAYS(" Gb/s  mtu ");
	SAYS("p_keys 0x");
	SAYS(" was chosen by auto");
	SAYS("  OK    chosen        port ");
	SAYS(" memlock       ");
	SAYS(" fork          ");
	assert_null(strstr(talk.out, "FAIL"));
}

static void doctor_finds(int status, const char *command, const char *line)
{
	assert_int_equal(TALK(&talk, "/bin/sh", "-c", command, tool), status);
	SAYS(line);
}

#define ALONG "/tmp/hartebeest-along"

/*
 * Begins a command of another user, who may be unable to enter the build folder: what it needs is
 * copied.  It then begins with $tool.
 */
#define NOBODY "install -d -m 755 " ALONG "; install -m 755 -t " ALONG " $0 $(ldd $0 | sed -n " \
	"'s,.* => \\(.*/libhartebeest[^ ]*\\) .*,\\1,p'); tool=" ALONG "/${0##*/}; cd /; " \
	"LD_LIBRARY_PATH=" ALONG " exec setpriv --reuid=65534 --regid=65534 --clear-groups " \
	"--bounding-set=-all "

/* Obstacles are made only in the tests' own virtual machine. */
static void what_doctor_finds(void **state)
{
	(void)state;
	succeeds(RUN("doctor", "-o", "device.resolver=rdmacm"));
	SAYS(" rdma_cm       is there");
	succeeds(RUN("doctor"));
	SAYS("ib_uverbs is there\n  OK    node          /dev/infiniband/uverbs");
	SAYS("  OK    choice        port ");
	if (!getenv("BEEST_VM"))
		return;
	SAYS("  WARN  network       v1 and v0 are in one network: one answers ARP for the other\n"
	     "        -> sysctl -w net.ipv4.conf.all.arp_ignore=1 ");
	SAYS("has an mtu of 1500; large transfers gain by 'ip link set v0 mtu 9000'");
	doctor_finds(1,
		     "exec unshare -m sh -c 'mount -t tmpfs no /dev/infiniband; exec $0 doctor' $0",
		     "/dev/infiniband/uverbs0 of rxe0 is missing: /sys shows the device, /dev does "
		     "not, as in a container\n        -> start the container with --device=");
	assert_int_equal(system("chmod 600 /dev/infiniband/uverbs0"), 0);
	doctor_finds(1, NOBODY "$tool doctor",
		     "/dev/infiniband/uverbs0 of rxe0: Permission denied\n"
		     "        -> udev rules of rdma-core make it 0666; else: chmod 0666 ");
	assert_int_equal(system("chmod 666 /dev/infiniband/uverbs0"), 0);
	doctor_finds(0, "ulimit -l 64; " NOBODY "$tool doctor", "  WARN  memlock       only 64 KiB "
		     "can be locked: larger regions and queues fail with ENOMEM\n        -> ");
}

/* ---------------------------------------------------------------- mesh --- */

static void four_local_ranks(void **state)
{
	FILE *svg = fopen(file("mesh.svg"), "w");
	char text[4096];

	(void)state;
	assert_non_null(svg);
	fputs("an old picture", svg);
	fclose(svg);
	succeeds(RUN("mesh", "--local", "4", "-c", "10", "--bw", "--svg", file("mesh.svg")));
	SAYS("mesh of 4 ranks, RC write of 8 bytes");
	SAYS("bandwidth in MB/s");
	SAYS("  OK    pairs       12 of 12 work: least ");
	SAYS(" arrived ");
	SAYS("create ");
	assert_null(strstr(strstr(talk.out, "judgement") + 1, "judgement"));
	svg = fopen(file("mesh.svg"), "r");
	assert_non_null(svg);
	assert_true(fread(text, 1, sizeof(text), svg) > 100);
	assert_memory_equal(text, "<svg ", 5);
	fclose(svg);
}

static void by_a_launcher(void **state)
{
	(void)state;
	succeeds(RUN("run", "-n", "2", "--", tool, "mesh", "-c", "10"));
	SAYS("0: mesh of 2 ranks");
	SAYS("0:   OK    pairs       2 of 2 work");
	assert_null(strstr(talk.out, "1: "));
}

/* Sets the variables of srun by hand, so that Slurm is not needed. */
static void by_the_variables_of_slurm(void **state)
{
	static const char script[] =
		"for i in 0 1; do SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 "
		"SLURM_PROCID=$i SLURM_LOCALID=$i $0 mesh -c 10 & all=\"$all $!\"; done; "
		"for one in $all; do wait $one || exit; done; exec $0 keys --all";
	struct cache *cache = cache_start(NULL);

	(void)state;
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	succeeds(TALK(&talk, "/bin/sh", "-c", script, tool));
	SAYS("mesh of 2 ranks");
	SAYS("  OK    pairs       2 of 2 work");
	SAYS("  --    4711.0 ");
	cache_end(cache);
}

/* The earlier report is changed to say 1 ns for one pair, so this pair is slower now. */
static void since_another_time(void **state)
{
	struct json_object *all, *rows, *row, *times;
	FILE *old;

	(void)state;
	succeeds(RUN("mesh", "--local", "2", "-c", "10", "--json"));
	all = json_tokener_parse(talk.out);
	assert_non_null(all);
	assert_true(json_object_object_get_ex(all, "rows", &rows));
	assert_true(json_object_object_get_ex(all, "failed", NULL));
	assert_int_equal(json_object_array_length(rows), 2);
	row = json_object_array_get_idx(rows, 0);
	assert_true(json_object_object_get_ex(row, "times_ns", &times));
	json_object_array_put_idx(times, 1, json_object_new_int64(1));
	old = fopen(file("old.json"), "w");
	assert_non_null(old);
	fputs(json_object_to_json_string(all), old);
	fclose(old);
	json_object_put(all);
	assert_int_equal(RUN("mesh", "--local", "2", "-c", "10", "--diff", file("old.json")), 1);
	SAYS("changes\n");
	SAYS("  FAIL  0 -> 1      1 ns before, ");
}

/* Rank 0 of 2; rank 1 never comes. */
static void first_of_two(struct cache *cache)
{
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	setenv("HARTEBEEST_JOB", "alone", 1);
	setenv("HARTEBEEST_NID", "0", 1);
	setenv("HARTEBEEST_NPARTICIPANTS", "2", 1);
}

static void one_that_does_not_come(void **state)
{
	struct cache *cache = cache_start(NULL);
	int status, tries = 0;

	(void)state;
	first_of_two(cache);
	do	/* a busy machine may not answer the last look */
		status = RUN("mesh", "-o", "exchange.timeout=2s");
	while (status == 1 && tries++ < 20);
	assert_int_equal(status, 3);
	SAYS("  FAIL  rank 0 ");
	SAYS("  FAIL  rank 1 ");
	SAYS("it did not report");
	unsetenv("HARTEBEEST_NPARTICIPANTS");
	cache_end(cache);
}

/* ------------------------------------------------------------- Ctrl-C --- */

static void begin_on_terminal(const char *const *words)
{
	int i = -1;

	do {
		i++;
		talk.words[i] = words[i];
	} while (words[i]);
	talk.terminal = true;
	talk_begin(&talk);
}

/* The command ends by the signal @number, without judging pairs that it did not measure. */
static void ends_by(int number)
{
	talk_end(&talk);
	assert_int_equal(talk.status, 128 + number);
	assert_null(strstr(talk.out, "FAIL"));
	assert_null(strstr(talk.out, "judgement"));
}

static void no_server_is_left(void)
{
	char pattern[128];
	glob_t found;
	int ret;

	snprintf(pattern, sizeof(pattern), "%s/hartebeest-*", folder);
	while ((ret = glob(pattern, 0, NULL, &found)) == 0)
		globfree(&found), pause_ms(20);
	assert_int_equal(ret, GLOB_NOMATCH);
}

/* Ctrl-C reaches the ranks through the terminal; a signal to the command alone must, too. */
static void a_mesh_interrupted(void **state)
{
	static const int numbers[] = { SIGINT, SIGTERM };
	size_t i;

	(void)state;
	setenv("TMPDIR", folder, 1);
	for (i = 0; i < BEEST_COUNT(numbers); i++) {
		begin_on_terminal((const char *const[]){ tool, "mesh", "--local", "3", "-c",
							 "1000000", NULL });
		talk_until(&talk, "round 1 of 2");
		if (numbers[i] == SIGINT)
			talk_type(&talk, "\003");
		else
			kill(talk.pid, numbers[i]);
		ends_by(numbers[i]);
		no_server_is_left();
	}
	unsetenv("TMPDIR");
}

/* A rank that joins the command's mesh, and never reports its results. */
static void be_silent(void)
{
	static const char *const regions[] = { "mesh" };
	struct hartebeest_mesh_attr attr;
	struct hartebeest_context *hb;
	struct hartebeest_mesh *mesh;
	struct ibv_mr *mr;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	timer_leave();
	setenv("HARTEBEEST_NID", "1", 1);
	hartebeest_mesh_attr_init(&attr);
	attr.pd = "mesh";
	attr.regions = regions;
	attr.region_count = 1;
	if (hartebeest_open(&hb, NULL) == 0 &&
	    hartebeest_pd_create(hb, "mesh", NULL) == 0 &&
	    mr_make(hb, "mesh", "mesh", 65536, IBV_ACCESS_LOCAL_WRITE |
		    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, &mr) == 0 &&
	    hartebeest_mesh_connect(hb, "mesh", &attr, &mesh, 0) == 0 &&
	    hartebeest_mesh_barrier(mesh, 0) == 0 &&	/* after the only round */
	    hartebeest_mesh_barrier(mesh, 0) == 0)	/* after slow pairs were measured again */
		for (;;)
			pause_ms(1000);
	fprintf(stderr, "%s\n", hartebeest_error());
	_exit(1);
}

/* All pairs are measured, but one rank's report is missing. */
static void a_mesh_interrupted_at_its_end(void **state)
{
	struct cache *cache = cache_start(NULL);
	pid_t silent;

	(void)state;
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	setenv("HARTEBEEST_JOB", "end", 1);
	setenv("HARTEBEEST_NPARTICIPANTS", "2", 1);
	fflush(NULL);
	silent = fork();
	if (silent == 0)
		be_silent();
	setenv("HARTEBEEST_NID", "0", 1);
	begin_on_terminal((const char *const[]){ tool, "mesh", "-c", "5", "-o",
						 "exchange.timeout=1h", NULL });
	talk_until(&talk, "waiting for rank 1's results 1 s ");
	talk_type(&talk, "\003");
	ends_by(SIGINT);
	kill(silent, SIGKILL);
	waitpid(silent, NULL, 0);
	unsetenv("HARTEBEEST_NPARTICIPANTS");
	cache_end(cache);
}

/* Interrupts a mesh while a rank is missing, and a ping while its other end is missing. */
static void a_bring_up_interrupted(void **state)
{
	struct cache *cache = cache_start(NULL);

	(void)state;
	first_of_two(cache);
	begin_on_terminal((const char *const[]){ tool, "mesh", "-o", "exchange.timeout=1h", NULL });
	talk_until(&talk, "connecting 2 ranks 1 s ");
	talk_type(&talk, "\003");
	ends_by(SIGINT);
	unsetenv("HARTEBEEST_NPARTICIPANTS");
	unsetenv("HARTEBEEST_NID");
	begin_on_terminal((const char *const[]){ tool, "ping", "-o", "exchange.timeout=1h", NULL });
	talk_until(&talk, "waiting for the other end 1 s ");
	talk_type(&talk, "\003");
	ends_by(SIGINT);
	cache_end(cache);
}

/* -------------------------------------------------------------- beside --- */

static bool has_ended(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* Runs the client again until the server listens. */
static void beside(const char *program, const char *const *server, const char *const *client)
{
	int i;

	if (access(program, X_OK) != 0) {
		print_message("%s is not installed\n", program);
		return;
	}
	for (i = 0; server[i]; i++)
		other.words[i] = server[i];
	other.words[i] = NULL;
	talk_begin(&other);
	while (talk_words(&talk, client) != 0 && !has_ended(other.pid))
		pause_ms(100);
	talk_end(&other);
	printf("%s\n%s", program, talk.out);
	assert_int_equal(talk.status, 0);
}

/*
 * In the long run.  Asserts no times: every program must run, and a reader of the log can compare
 * them.
 */
static void beside_others(void **state)
{
	static const char pingpong[] = "/usr/bin/ibv_rc_pingpong", rping[] = "/usr/bin/rping";
	static const char lat[] = "/usr/bin/ib_write_lat", bw[] = "/usr/bin/ib_write_bw";
	char device[64];

	(void)state;
	snprintf(device, sizeof(device), "%.63s", ranks_port(0));
	*strchrnul(device, ':') = '\0';
	succeeds(RUN("run", "-n", "2", "--", tool, "ping", "-c", "200", "-b", "-w", "200ms", "-s",
		     "1024", "-O", "send"));
	printf("hartebeest ping\n%s", talk.out);
	beside(pingpong, (const char *[]){ pingpong, "-d", device, "-g", "1", "-n", "200", "-s",
					   "1024", NULL },
	       (const char *[]){ pingpong, "-d", device, "-g", "1", "-n", "200", "-s", "1024",
				 "127.0.0.1", NULL });
	if (getenv("BEEST_VM"))
		beside(rping, (const char *[]){ rping, "-s", "-a", "10.9.0.1", "-C", "100", NULL },
		       (const char *[]){ rping, "-c", "-a", "10.9.0.1", "-C", "100", "-S", "1024",
					 NULL });
	beside(lat,
	       (const char *[]){ lat, "-d", device, "-x", "1", "-n", "200", "-s", "1024", NULL },
	       (const char *[]){ lat, "-d", device, "-x", "1", "-n", "200", "-s", "1024",
				 "127.0.0.1", NULL });
	beside(bw, (const char *[]){ bw, "-d", device, "-x", "1", "-n", "200", "-s", "1024", NULL },
	       (const char *[]){ bw, "-d", device, "-x", "1", "-n", "200", "-s", "1024",
				 "127.0.0.1", NULL });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, setup)
		TEST(what_info_shows),
		TEST(four_local_ranks),
		TEST(by_a_launcher),
		TEST(by_the_variables_of_slurm),
		TEST(since_another_time),
		TEST(one_that_does_not_come),
		TEST(a_mesh_interrupted),
		TEST(a_mesh_interrupted_at_its_end),
		TEST(a_bring_up_interrupted),
		{ unit_whole() ? "beside_others" : NULL, beside_others, setup, NULL, NULL },
		TEST(what_doctor_finds),
	};
	int failed;

	ranks_need_device();
	cache_need();
	tool = talk_tool();
	scratch_folder(folder, "hartebeest-mesh");
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(file("mesh.svg"));
	unlink(file("old.json"));
	rmdir(folder);
	return failed;
}
