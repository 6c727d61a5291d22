/* SPDX-License-Identifier: MIT */
/*
 * mesh.c - hartebeest mesh: every rank connected to every other, measured and shown
 *
 * Owns the rounds of measuring, the collecting of what each rank found, and what is said of
 * it.  The judgement is matrix.c's, the pictures are heat.c's.
 *
 * In round k each rank writes to the k-th after it, so that each is the source and the
 * target of one other at a time.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hartebeest-mesh.h>

#include "lib/base/clock.h"
#include "lib/base/parse.h"
#include "lib/base/text.h"
#include "tools/command.h"
#include "tools/heat.h"
#include "tools/pinger.h"
#include "tools/server.h"
#include "tools/session.h"
#include "tools/steps.h"

#define NAME "mesh"
#define LABEL 10
#define LOCAL_MAX 64
#define LIST_MAX 10		/* pairs that are named */
#define THREADS 4		/* that connect: the kernel sleeps in each transition of RoCE */

/* Of the bandwidth of one pair. */
#define RATE_SIZE 65536
#define RATE_TIME (50 * BEEST_MS)

/* So long the reports of the others are waited for once the bring-up failed. */
#define REPORT_TIME (3 * BEEST_SECOND)

static int64_t local_ranks, ping_count = 100, ping_size = 8;
static bool wants_rates;
static const char *svg_path, *old_path;

struct mesh {
	struct out *out;
	struct hartebeest_context *hb;
	struct hartebeest_mesh *mesh;
	struct hartebeest_mesh_stats stats;
	struct ibv_mr *mr;
	struct plan plan;
	struct matrix matrix;
	int own;			/* position of this rank */
	bool shows;			/* it is the first */
	int64_t timeout;
};

static bool stopped(void)
{
	return session_signal() != 0;
}

/* ------------------------------------------------------------ bringing up --- */

static int create(struct mesh *mesh)
{
	int ret, access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_READ;

	ret = hartebeest_pd_create(mesh->hb, NAME, NULL);
	if (ret == 0)
		ret = hartebeest_mr_create(mesh->hb, NAME, NAME, pinger_bytes(&mesh->plan), access,
					   &mesh->mr);
	return ret;
}

static int connect_all(struct mesh *mesh)
{
	static const char *const regions[] = { NAME };
	struct hartebeest_mesh_attr attr;
	int ret;

	hartebeest_mesh_attr_preset(&attr);
	attr.pd = NAME;
	attr.regions = regions;
	attr.region_count = 1;
	attr.threads = THREADS;
	attr.cap.max_send_wr = (uint32_t)pinger_window(&mesh->plan) + 1;
	attr.cap.max_recv_wr = 1;
	ret = hartebeest_mesh_connect(mesh->hb, NAME, &attr, &mesh->mesh,
				      hartebeest_clock() + mesh->timeout);
	return ret < 0 ? ret : hartebeest_mesh_stats(mesh->mesh, &mesh->stats);
}

/* -------------------------------------------------------------- measuring --- */

static int measure_rate(struct pinger *pinger, const struct plan *plan, int64_t *rate)
{
	static struct pinger_result result;
	struct plan rates = *plan;
	int ret;

	rates.count = 0;
	rates.duration = RATE_TIME;
	rates.bandwidth = 1;
	pinger->plan = &rates;
	ret = pinger_measure(pinger, RATE_SIZE, &result, NULL, NULL);
	*rate = result.rate;
	return ret;
}

/* One pair; a failure is its own only. */
static void measure_pair(struct mesh *mesh, int to)
{
	static struct pinger_result result;
	size_t cell = (size_t)mesh->own * (size_t)mesh->matrix.count + (size_t)to;
	int rank = hartebeest_participant(mesh->hb, to), ret;
	struct pinger pinger = {
		.hb = mesh->hb, .plan = &mesh->plan, .mr = mesh->mr, .stopped = stopped,
		.qp = hartebeest_mesh_qp(mesh->mesh, rank, 0), .patience = 5 * BEEST_SECOND,
		.send_cq = hartebeest_mesh_cq(mesh->mesh),
	};

	hartebeest_mesh_region(mesh->mesh, rank, 0, &pinger.there);
	ret = pinger_measure(&pinger, (uint32_t)ping_size, &result, NULL, NULL);
	mesh->matrix.times[cell] = histogram_percentile(&result.times, 5000);
	if (ret == 0 && wants_rates)
		ret = measure_rate(&pinger, &mesh->plan, &mesh->matrix.rates[cell]);
	if (ret < 0 && ret != -ECANCELED)
		matrix_fail(&mesh->matrix, mesh->own, to, pinger.why);
	else if (result.wrong)
		matrix_fail(&mesh->matrix, mesh->own, to, "what came back is not what was sent");
}

static int measure_all(struct mesh *mesh)
{
	int count = mesh->matrix.count, round, ret = 0;

	for (round = 1; round < count && ret == 0; round++) {
		if (mesh->shows)
			out_progress(mesh->out, "round %d of %d", round, count - 1);
		measure_pair(mesh, (mesh->own + round) % count);
		ret = hartebeest_mesh_barrier(mesh->mesh, hartebeest_clock() + mesh->timeout);
	}
	return ret;
}

/* -------------------------------------------------------------- reporting --- */

/* A report of a former run would be taken for one of this. */
static void name_report(char name[40], int rank)
{
	snprintf(name, 40, NAME "-report-%d", rank);
}

static int clear_report(struct mesh *mesh)
{
	char name[40];
	int ret;

	name_report(name, hartebeest_rank(mesh->hb));
	ret = hartebeest_msg_delete(mesh->hb, name, hartebeest_clock() + mesh->timeout);
	return ret == -ENOENT ? 0 : ret;
}

static void fill_own(struct mesh *mesh, const char *error)
{
	struct matrix_row *row = &mesh->matrix.rows[mesh->own];

	row->here = true;
	row->rank = hartebeest_rank(mesh->hb);
	gethostname(row->host, sizeof(row->host) - 1);
	row->phases[MATRIX_CREATE] = mesh->stats.create;
	row->phases[MATRIX_EXCHANGE] = mesh->stats.exchange;
	row->phases[MATRIX_CONNECT] = mesh->stats.connect;
	row->phases[MATRIX_CONFIRM] = mesh->stats.confirm;
	if (error && *error)
		row->error = strdup(error);
}

static void report(struct mesh *mesh)
{
	struct json_object *object = matrix_row_object(&mesh->matrix, mesh->own);
	const char *text = json_object_to_json_string(object);
	char name[40];

	name_report(name, hartebeest_rank(mesh->hb));
	hartebeest_msg_push(mesh->hb, name, text, strlen(text), hartebeest_clock() + mesh->timeout);
	json_object_put(object);
}

static void read_report(struct mesh *mesh, int row, const char *text)
{
	struct json_object *object = json_tokener_parse(text);

	mesh->matrix.rows[row].rank = hartebeest_participant(mesh->hb, row);
	if (!object || !matrix_row_read(&mesh->matrix, row, object))
		mesh->matrix.rows[row].error = strdup("its report cannot be read");
	json_object_put(object);
}

/* One at a time: a report may be long, and there may be many. */
static void collect(struct mesh *mesh, int64_t deadline)
{
	size_t room = 8192 + 400 * (size_t)mesh->matrix.count, length;
	char *text = calloc(room + 1, 1), name[40];
	int i, ret;

	for (i = 0; text && i < mesh->matrix.count; i++) {
		if (i == mesh->own)
			continue;
		mesh->matrix.rows[i].rank = hartebeest_participant(mesh->hb, i);
		name_report(name, mesh->matrix.rows[i].rank);
		ret = hartebeest_msg_wait(mesh->hb, name, text, room, &length, deadline);
		if (ret == 0) {
			text[length] = '\0';
			read_report(mesh, i, text);
		} else {
			mesh->matrix.rows[i].error = strdup("it did not report");
		}
	}
	free(text);
}

/* ---------------------------------------------------------------- showing --- */

static void show_heat(struct mesh *mesh, const struct heat *heat)
{
	int columns = mesh->out->columns, count = heat->matrix->count;

	if (mesh->out->json)
		return;
	if (columns ? heat_table_columns(heat) <= columns : count <= 32)
		heat_table(heat, stdout, mesh->out->color);
	else
		heat_map(heat, stdout, mesh->out->color, columns ? columns : 512);
}

static void start_heats(struct mesh *mesh, struct heat *times, struct heat *rates)
{
	*times = (struct heat){ .matrix = &mesh->matrix, .values = mesh->matrix.times,
				.unit = "us", .factor = 1e-3 };
	*rates = (struct heat){ .matrix = &mesh->matrix, .values = mesh->matrix.rates,
				.unit = "MB/s", .factor = 1e-6, .rates = true };
	heat_start(times);
	heat_start(rates);
}

static int write_svg(struct mesh *mesh, const struct heat *times, const struct heat *rates)
{
	FILE *file = fopen(svg_path, "w");
	bool good = file != NULL;

	if (good)
		heat_svg(times, wants_rates ? rates : NULL, file);
	if (good && ferror(file))
		good = false;
	if (file && fclose(file) != 0)
		good = false;
	if (good)
		return STATUS_GOOD;
	out_error(mesh->out, "%s: %s", svg_path, strerror(errno));
	return STATUS_FAILED;
}

static void show_late(struct mesh *mesh)
{
	const struct matrix *matrix = &mesh->matrix;
	int i, last = 0;
	char time[STEPS_TIME], total[STEPS_TIME];
	int64_t late;

	for (i = 0; i < matrix->count; i++)
		if (matrix->rows[i].here && matrix_late(matrix, i) > matrix_late(matrix, last))
			last = i;
	late = matrix_late(matrix, last);
	out_line(mesh->out, late > BEEST_SECOND ? OUT_WARNING : OUT_OK, "last", "rank %d on %s came "
		 "%s after the first", matrix->rows[last].rank, matrix->rows[last].host,
		 steps_time(late, time));
	if (late > BEEST_SECOND)
		out_cure(mesh->out, "see how the launcher starts processes there, and whether files "
			 "or names are slow to find");
	out_line(mesh->out, OUT_OK, "bring-up", "%" PRIu64 " queue pairs a rank in %s",
		 mesh->stats.qps, steps_time(mesh->stats.total, total));
}

/* The longest that any rank spent in each phase. */
static void show_phases(struct mesh *mesh)
{
	char text[200], time[STEPS_TIME];
	struct beest_text line;
	int64_t longest;
	int phase, i;

	beest_text_start(&line, text, sizeof(text));
	for (phase = 0; phase < MATRIX_PHASES; phase++) {
		for (i = 0, longest = 0; i < mesh->matrix.count; i++)
			longest = BEEST_MAX(longest, mesh->matrix.rows[i].phases[phase]);
		beest_text_add(&line, "%s%s %s", phase ? ", " : "", matrix_phases[phase],
			       steps_time(longest, time));
	}
	out_line(mesh->out, OUT_NOTE, "phases", "%s; the longest of all ranks", text);
}

/* "{0-3} {4-7}". */
static void group_text(const struct matrix *matrix, const int *group, int groups, char *text,
		       size_t size)
{
	struct beest_text line;
	int i, g, first;

	beest_text_start(&line, text, size);
	for (g = 0; g < groups; g++) {
		beest_text_add(&line, "%s{", g ? " " : "");
		for (i = 0, first = 1; i < matrix->count; i++) {
			if (group[i] != g)
				continue;
			beest_text_add(&line, "%s%d", first ? "" : ",", matrix->rows[i].rank);
			first = i;
			while (i + 1 < matrix->count && group[i + 1] == g)
				i++;
			if (i > first)
				beest_text_add(&line, "-%d", matrix->rows[i].rank);
			first = 0;
		}
		beest_text_add(&line, "}");
	}
}

static void show_groups(struct mesh *mesh, const int *group, int groups)
{
	char text[400], inside[STEPS_TIME], between[STEPS_TIME];

	if (groups < 2)
		return;
	group_text(&mesh->matrix, group, groups, text, sizeof(text));
	steps_time(matrix_between(&mesh->matrix, group, true), inside);
	steps_time(matrix_between(&mesh->matrix, group, false), between);
	out_line(mesh->out, OUT_NOTE, "groups", "%s: %s inside, %s between", text, inside, between);
	out_json_text(mesh->out->json, "groups", "%s", text);
}

static void show_slow(struct mesh *mesh, const int *group)
{
	const struct matrix *matrix = &mesh->matrix;
	struct matrix_pair pairs[LIST_MAX];
	int i, count = matrix_slow(matrix, group, pairs, LIST_MAX);
	char now[STEPS_TIME], usual[STEPS_TIME], label[40];

	for (i = 0; i < BEEST_MIN(count, LIST_MAX); i++) {
		snprintf(label, sizeof(label), "%d -> %d", matrix->rows[pairs[i].from].rank,
			 matrix->rows[pairs[i].to].rank);
		out_line(mesh->out, OUT_WARNING, label, "%s, %.1f times the median %s; %s to %s",
			 steps_time(pairs[i].now, now),
			 (double)pairs[i].now / (double)pairs[i].usual,
			 steps_time(pairs[i].usual, usual), matrix->rows[pairs[i].from].host,
			 matrix->rows[pairs[i].to].host);
	}
	if (count > 0)
		out_cure(mesh->out, "%d slow: look for a host, cable or switch that they share, and "
			 "for other load", count);
}

/* Returns how many pairs failed. */
static int show_failures(struct mesh *mesh)
{
	const struct matrix *matrix = &mesh->matrix;
	size_t count = (size_t)matrix->count, cell;
	int failed = 0, from, to;
	const char *back;
	char label[40];

	for (from = 0; from < matrix->count; from++) {
		for (to = 0; to < matrix->count; to++) {
			cell = (size_t)from * count + (size_t)to;
			if (matrix->times[cell] != MATRIX_FAILED || failed++ >= LIST_MAX)
				continue;
			back = matrix->times[(size_t)to * count + (size_t)from] >= 0
			       ? "the way back works: one direction only" : "";
			snprintf(label, sizeof(label), "%d -> %d", matrix->rows[from].rank,
				 matrix->rows[to].rank);
			out_line(mesh->out, OUT_FAILURE, label, "%s to %s: %s", matrix->rows[from].host,
				 matrix->rows[to].host, matrix->why[cell]);
			out_cure(mesh->out, "%s%s'hartebeest ping' between these two shows more",
				 back, *back ? "; " : "");
		}
	}
	if (failed > LIST_MAX)
		out_line(mesh->out, OUT_FAILURE, "more", "%d pairs failed in all", failed);
	return failed;
}

/* Returns how many ranks have nothing to show. */
static int show_errors(struct mesh *mesh)
{
	const struct matrix_row *row = mesh->matrix.rows;
	int i, count = 0;
	char label[24];

	for (i = 0; i < mesh->matrix.count; i++, row++) {
		if (!row->error)
			continue;
		count++;
		snprintf(label, sizeof(label), "rank %d", row->rank);
		out_line(mesh->out, OUT_FAILURE, label, "%s%s%s", row->host, row->host[0] ? ": " : "",
			 row->error);
		out_cure(mesh->out, "'hartebeest doctor' on that host");
	}
	return count;
}

static void show_summary(struct mesh *mesh, int failed)
{
	int count = mesh->matrix.count, pairs = count * (count - 1);
	char least[STEPS_TIME], median[STEPS_TIME], most[STEPS_TIME];

	out_json_int(mesh->out->json, "pairs", pairs);
	out_json_int(mesh->out->json, "failed", failed);
	out_line(mesh->out, failed ? OUT_FAILURE : OUT_OK, "pairs", "%d of %d work: least %s, median "
		 "%s, most %s", pairs - failed, pairs,
		 steps_time(matrix_share(&mesh->matrix, mesh->matrix.times, 0), least),
		 steps_time(matrix_share(&mesh->matrix, mesh->matrix.times, 5000), median),
		 steps_time(matrix_share(&mesh->matrix, mesh->matrix.times, 10000), most));
	if (failed)
		out_cure(mesh->out, "see the pairs above");
}

/* ------------------------------------------------------------- comparing --- */

static int read_old(struct out *out, struct matrix *old)
{
	FILE *file = fopen(old_path, "r");
	struct json_object *object = NULL;
	char *text = NULL;
	size_t size = 0;
	bool good;

	if (file && getdelim(&text, &size, '\0', file) > 0)
		object = json_tokener_parse(text);
	good = object && matrix_read(old, object);
	json_object_put(object);
	free(text);
	if (file)
		fclose(file);
	if (good)
		return STATUS_GOOD;
	out_error(out, "%s is not what 'hartebeest mesh --json' writes", old_path);
	return STATUS_USAGE;
}

static const char *change_text(int64_t ns, char text[STEPS_TIME])
{
	return ns == MATRIX_FAILED ? "failed" : steps_time(ns, text);
}

/* Slower pairs and new failures fail the command; returns the status. */
static int show_changes(struct mesh *mesh, const struct matrix *old)
{
	const struct matrix *matrix = &mesh->matrix;
	struct matrix_pair pairs[LIST_MAX];
	int i, count = matrix_changes(matrix, old, pairs, LIST_MAX), worse = 0;
	char now[STEPS_TIME], then[STEPS_TIME], label[40];
	bool is_worse;

	out_title(mesh->out, LABEL, "changes");
	for (i = 0; i < BEEST_MIN(count, LIST_MAX); i++) {
		is_worse = pairs[i].now == MATRIX_FAILED ||
			   (pairs[i].usual >= 0 && pairs[i].now > pairs[i].usual);
		worse += is_worse;
		snprintf(label, sizeof(label), "%d -> %d", matrix->rows[pairs[i].from].rank,
			 matrix->rows[pairs[i].to].rank);
		out_line(mesh->out, is_worse ? OUT_FAILURE : OUT_OK, label, "%s before, %s now",
			 change_text(pairs[i].usual, then), change_text(pairs[i].now, now));
		if (is_worse)
			out_cure(mesh->out, "look at what was changed at %s and %s",
				 matrix->rows[pairs[i].from].host, matrix->rows[pairs[i].to].host);
	}
	if (count > LIST_MAX)
		out_line(mesh->out, OUT_NOTE, "more", "%d pairs changed in all", count);
	if (!count)
		out_line(mesh->out, OUT_OK, "none", "each pair takes about as long as in %s", old_path);
	return worse ? STATUS_FAILED : STATUS_GOOD;
}

/* --------------------------------------------------------------- together --- */

static void add_rows(struct mesh *mesh)
{
	struct json_object *rows = out_json_array(mesh->out->json, "rows");
	int i;

	for (i = 0; rows && i < mesh->matrix.count; i++)
		json_object_array_add(rows, matrix_row_object(&mesh->matrix, i));
}

static int show_judgement(struct mesh *mesh)
{
	int *group = calloc((size_t)mesh->matrix.count, sizeof(*group)), failed;

	if (!group)
		return STATUS_FAILED;
	out_title(mesh->out, LABEL, "judgement");
	failed = show_failures(mesh);
	show_summary(mesh, failed);
	show_groups(mesh, group, matrix_groups(&mesh->matrix, group));
	show_slow(mesh, group);
	show_late(mesh);
	show_phases(mesh);
	free(group);
	return failed ? STATUS_FAILED : STATUS_GOOD;
}

static int show(struct mesh *mesh, const struct matrix *old)
{
	char title[120];
	struct heat times, rates;
	bool failed;

	snprintf(title, sizeof(title), "mesh of %d ranks, RC write of %" PRId64 " bytes, median round "
		 "trip in us, from row to column", mesh->matrix.count, ping_size);
	out_title(mesh->out, LABEL, title);
	start_heats(mesh, &times, &rates);
	show_heat(mesh, &times);
	if (wants_rates) {
		out_title(mesh->out, LABEL, "bandwidth in MB/s, from row to column");
		show_heat(mesh, &rates);
	}
	add_rows(mesh);
	failed = show_errors(mesh) > 0;
	failed |= show_judgement(mesh) != STATUS_GOOD;
	if (svg_path)
		failed |= write_svg(mesh, &times, &rates) != STATUS_GOOD;
	if (old)
		failed |= show_changes(mesh, old) != STATUS_GOOD;
	return failed ? STATUS_FAILED : STATUS_GOOD;
}

/* What stopped the others is the better reason, often. */
static int bring_up_failed(struct mesh *mesh, int ret)
{
	char why[600];
	int status = ret == -ETIMEDOUT ? STATUS_TIMEOUT : STATUS_FAILED;

	if (ret == -ECANCELED)
		return STATUS_FAILED;
	snprintf(why, sizeof(why), "%s", hartebeest_error());
	fill_own(mesh, why);
	if (!mesh->shows) {
		report(mesh);
		return status;
	}
	collect(mesh, hartebeest_clock() + REPORT_TIME);
	out_title(mesh->out, LABEL, "bring-up");
	show_errors(mesh);
	return status;
}

static int bring_up(struct mesh *mesh)
{
	int ret;

	if (mesh->shows)
		out_waiting(mesh->out, "connecting %d ranks", mesh->matrix.count);
	ret = clear_report(mesh);
	if (ret == 0)
		ret = create(mesh);
	if (ret == 0)
		ret = connect_all(mesh);
	if (mesh->shows)
		out_waiting_end(mesh->out);
	return ret;
}

static int bring_up_and_measure(struct mesh *mesh, const struct matrix *old)
{
	int ret = bring_up(mesh);

	if (ret < 0)
		return bring_up_failed(mesh, ret);
	ret = measure_all(mesh);
	fill_own(mesh, ret < 0 ? hartebeest_error() : NULL);
	if (stopped())
		return STATUS_FAILED;
	if (!mesh->shows) {
		report(mesh);
		return STATUS_GOOD;
	}
	collect(mesh, hartebeest_clock() + mesh->timeout);
	return show(mesh, old);
}

static void make_plan(struct plan *plan)
{
	char why[PLAN_TEXT];

	plan_start(plan);
	plan->first = ping_size;
	plan->last = wants_rates ? BEEST_MAX(RATE_SIZE, ping_size) : ping_size;
	plan->count = ping_count;
	plan->duration = 0;
	plan_finish(plan, why, sizeof(why));
}

static int with_context(struct mesh *mesh, const struct matrix *old)
{
	int i, size = hartebeest_size(mesh->hb), rank = hartebeest_rank(mesh->hb), status;
	char text[64];

	if (rank < 0 || size < 2) {
		out_error(mesh->out, "a mesh needs two ranks or more: start it by mpirun, srun or "
			  "'hartebeest run', or give --local N");
		return STATUS_USAGE;
	}
	if (size > MATRIX_MAX || !matrix_make(&mesh->matrix, size)) {
		out_error(mesh->out, "%d ranks are too many for one picture", size);
		return STATUS_FAILED;
	}
	for (i = 0; i < size; i++)
		if (hartebeest_participant(mesh->hb, i) == rank)
			mesh->own = i;
	mesh->shows = mesh->own == 0;
	hartebeest_option_get(mesh->hb, "exchange.timeout", text, sizeof(text), NULL);
	beest_parse_duration(text, &mesh->timeout);
	make_plan(&mesh->plan);
	status = bring_up_and_measure(mesh, old);
	matrix_free(&mesh->matrix);
	return status;
}

static int run_rank(struct out *out)
{
	struct mesh mesh = { .out = out };
	struct matrix old = { 0 };
	int status = old_path ? read_old(out, &old) : STATUS_GOOD;

	if (status == STATUS_GOOD)
		status = session_open(out, &mesh.hb, NULL);
	if (status == STATUS_GOOD) {
		status = with_context(&mesh, old_path ? &old : NULL);
		session_close(mesh.hb);
	}
	matrix_free(&old);
	return status;
}

/* ------------------------------------------------------------------ local --- */

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

/* What the first rank says is enough; a child ends with it. */
static int run_child(struct out *out, int rank, pid_t parent)
{
	int null = open("/dev/null", O_WRONLY);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(STATUS_FAILED);
	dup2(null, STDOUT_FILENO);
	set_number("HARTEBEEST_NID", rank);
	_exit(run_rank(out));
}

static int start_ranks(struct out *out, pid_t *pids)
{
	pid_t parent = getpid();
	char job[64];
	int i;

	snprintf(job, sizeof(job), "mesh-%d-%" PRIx64, (int)parent, (uint64_t)hartebeest_clock());
	setenv("HARTEBEEST_JOB", job, 1);
	unsetenv("HARTEBEEST_PARTICIPANTS");
	set_number("HARTEBEEST_NPARTICIPANTS", (int)local_ranks);
	set_number("HARTEBEEST_NID", 0);
	fflush(stdout);
	for (i = 1; i < local_ranks; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			run_child(out, i, parent);
		if (pids[i] < 0) {
			out_error(out, "rank %d cannot be started: %s", i, strerror(errno));
			return STATUS_FAILED;
		}
	}
	return STATUS_GOOD;
}

static void end_ranks(const pid_t *pids, bool kills)
{
	int i;

	for (i = 1; i < local_ranks; i++) {
		if (pids[i] <= 0)
			continue;
		if (kills)
			kill(pids[i], SIGTERM);
		while (waitpid(pids[i], NULL, 0) < 0 && errno == EINTR)
			;
	}
}

static int run_local(struct out *out)
{
	struct server server = { 0 };
	pid_t pids[LOCAL_MAX] = { 0 };
	int status = STATUS_GOOD;

	if (!getenv("HARTEBEEST_EXC_IP_PORT"))
		status = server_start(out, &server, (int)local_ranks);
	if (status != STATUS_GOOD)
		return status;
	if (server.pid)
		setenv("HARTEBEEST_EXC_IP_PORT", server.socket, 1);
	status = start_ranks(out, pids);
	if (status == STATUS_GOOD)
		status = run_rank(out);
	end_ranks(pids, status != STATUS_GOOD);
	server_end(&server);
	return status;
}

static int mesh_run(struct out *out, int count, char **operands)
{
	(void)count, (void)operands;
	return local_ranks ? run_local(out) : run_rank(out);
}

static const struct args_option options[] = {
	{ "local", 'n', ARGS_INT, &local_ranks, .value = "N", .min = 2, .max = LOCAL_MAX,
	  .help = "N ranks on this machine" },
	{ "count", 'c', ARGS_INT, &ping_count, .value = "N", .min = 1, .max = 1000000,
	  .help = "pings of each pair, preset 100" },
	{ "size", 's', ARGS_INT, &ping_size, .value = "BYTES", .min = 0, .max = PLAN_LAST_MAX,
	  .help = "of a ping, preset 8" },
	{ "bw", 'b', ARGS_FLAG, &wants_rates, .help = "measure bandwidth, too" },
	{ "svg", 0, ARGS_TEXT, &svg_path, .value = "FILE", .help = "write the picture there" },
	{ "diff", 0, ARGS_TEXT, &old_path, .value = "FILE",
	  .help = "what changed since that --json was written" },
	{ .name = NULL },
};

const struct command mesh_command = {
	.name = "mesh",
	.help = "Connects every rank to every other, and shows which pairs are slow or fail.",
	.options = options,
	.flags = COMMAND_JSON | COMMAND_SETTINGS,
	.run = mesh_run,
	.more = "Start it by mpirun, srun or 'hartebeest run', a rank a host; the first rank shows\n"
		"what all found.  Exit status 1: a pair failed, or with --diff became slower.\n",
};
