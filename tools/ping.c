/* SPDX-License-Identifier: MIT */
/*
 * ping.c - hartebeest ping: can two processes reach each other, and how fast?
 *
 * Owns the options, the order of steps, and the output.  meet.c decides which end measures,
 * link.c connects the two, and pinger.c pings.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "tools/command.h"
#include "tools/curve.h"
#include "tools/link.h"
#include "tools/meet.h"
#include "tools/picture.h"
#include "tools/session.h"
#include "tools/steps.h"

#define LABEL 10

/*
 * How long an end that serves waits for a peer, which may have crashed since it asked, or may be on
 * a host that is busy with a job.
 */
#define GHOST_TIME (20 * BEEST_SECOND)

/* How often to check for the other end's result, and whether it is still there. */
#define SILENCE (50 * BEEST_MS)
#define LOOK_AFTER BEEST_SECOND

/* Options.  NULL: not given. */
static const char *type_word, *op_word;
static struct plan wanted = {
	.first = PLAN_OPEN, .last = PLAN_OPEN, .count = PLAN_OPEN, .duration = PLAN_OPEN,
	.interval = PLAN_OPEN,
};
static bool wants_bandwidth, wants_to_listen;
static const char *svg_path;

struct ping {
	struct out *out;
	struct hartebeest_context *hb;
	struct meet meet;
	int64_t timeout;		/* exchange.timeout */
	int64_t until;			/* MEET_ANYBODY: looks for peers until then */
	struct steps steps;
	struct json_object *object;	/* of the current meeting */
	char summary[600];		/* of its result, for the other end */
	struct picture picture;
	struct curve curve;		/* of the last peer that was measured here */
};

/* ------------------------------------------------------------- results --- */

static const struct share {
	const char *title, *key;
	int share;
} shares[] = {
	{ "50%", "p50_ns", 5000 },
	{ "90%", "p90_ns", 9000 },
	{ "99%", "p99_ns", 9900 },
	{ "99.9%", "p999_ns", 9990 },
};

/* Adds microseconds, with three digits or more. */
static void add_time(struct beest_text *line, int64_t ns)
{
	double us = (double)ns / 1000;

	beest_text_add(line, " %8.*f", us < 10 ? 2 : us < 100 ? 1 : 0, us);
}

static void show_header(struct ping *ping, const struct plan *plan)
{
	char text[160];
	struct beest_text line;
	size_t i;

	beest_text_start(&line, text, sizeof(text));
	beest_text_add(&line, "%10s %8s %8s", "bytes", "pings", "min");
	for (i = 0; i < BEEST_COUNT(shares); i++)
		beest_text_add(&line, " %8s", shares[i].title);
	beest_text_add(&line, " %8s", "max");
	if (plan->bandwidth)
		beest_text_add(&line, " %8s %8s", "MB/s", "k/s");
	if (plan->bandwidth && !plan_is_echo(plan))
		beest_text_add(&line, " %8s", "both");
	out_text(ping->out, "%s", text);
}

static void show_row(struct ping *ping, uint32_t size, const struct pinger_result *result)
{
	char text[200];
	struct beest_text line;
	size_t i;

	beest_text_start(&line, text, sizeof(text));
	beest_text_add(&line, "%10" PRIu32 " %8" PRIu64, size, result->times.count);
	add_time(&line, result->times.min);
	for (i = 0; i < BEEST_COUNT(shares); i++)
		add_time(&line, histogram_percentile(&result->times, shares[i].share));
	add_time(&line, result->times.max);
	if (result->messages)
		beest_text_add(&line, " %8.1f %8.1f", (double)result->rate / 1e6,
			       (double)result->messages / 1e3);
	if (result->both)
		beest_text_add(&line, " %8.1f", (double)result->both / 1e6);
	out_text(ping->out, "%s", text);
}

static void row_object(struct ping *ping, uint32_t size, const struct pinger_result *result)
{
	struct json_object *item = out_json_item(out_json_array(ping->object, "results"));
	size_t i;

	out_json_int(item, "bytes", size);
	out_json_int(item, "sent", result->sent);
	out_json_int(item, "lost", result->lost);
	out_json_int(item, "wrong", result->wrong);
	out_json_int(item, "min_ns", result->times.min);
	for (i = 0; i < BEEST_COUNT(shares); i++)
		out_json_int(item, shares[i].key,
			     histogram_percentile(&result->times, shares[i].share));
	out_json_int(item, "max_ns", result->times.max);
	if (result->messages) {
		out_json_int(item, "bytes_per_s", result->rate);
		out_json_int(item, "messages_per_s", result->messages);
	}
	if (result->both)
		out_json_int(item, "both_bytes_per_s", result->both);
}

/* The counts of all sizes together. */
struct sum {
	int64_t sent, lost, wrong;
};

static int show_sum(struct ping *ping, const struct sum *sum)
{
	int64_t back = sum->sent - sum->lost;

	snprintf(ping->summary, sizeof(ping->summary), "%" PRId64 " pings, %" PRId64 " lost, %"
		 PRId64 " wrong", sum->sent, sum->lost, sum->wrong);
	if (sum->wrong) {
		out_line(ping->out, OUT_FAILURE, "data", "%" PRId64 " of %" PRId64 " returned "
			 "with wrong bytes", sum->wrong, back);
		out_cure(ping->out, "a device, its firmware or memory is broken: try other ports");
	} else if (back) {
		out_line(ping->out, OUT_OK, "data", "%" PRId64 " of %" PRId64 " returned, each "
			 "byte as it was sent", back, sum->sent);
	} else if (!sum->lost) {
		out_line(ping->out, OUT_NOTE, "data", "no ping was completed");
	}
	if (sum->lost) {
		out_line(ping->out, back ? OUT_WARNING : OUT_FAILURE, "lost", "%" PRId64 " of %"
			 PRId64 ": UC and UD do not retransmit", sum->lost, sum->sent);
		out_cure(ping->out, "look for drops and errors in the counters of both ports and "
			 "of the switch; flow control (PFC) for RoCE");
	}
	return sum->wrong || (sum->lost && !back) ? STATUS_FAILED : STATUS_GOOD;
}

/* ------------------------------------------------------------ measuring --- */

static const char data_cure[] =
	"the other end has died, a link is down, or a switch drops frames of this MTU: try "
	"-o qp_attr.path_mtu=1 at both ends";

static void show_progress(void *data, const struct pinger_result *result)
{
	static int64_t last;
	int64_t now = hartebeest_clock();
	struct ping *ping = data;
	char time[STEPS_TIME];

	if (now - last < BEEST_SECOND / 4)
		return;
	last = now;
	out_progress(ping->out, "%" PRId64 " pings, median %s, %" PRId64 " lost", result->sent,
		     steps_time(histogram_percentile(&result->times, 5000), time), result->lost);
}

/* Measures one size, and shows its row even after a failure. */
static int measure_size(struct ping *ping, struct link *link, uint32_t size, struct sum *sum)
{
	static struct pinger_result result;
	int ret = pinger_measure(&link->pinger, size, &result, show_progress, ping);

	if (result.times.count)
		show_row(ping, size, &result);
	row_object(ping, size, &result);
	if (result.rate && ping->curve.count < CURVE_MAX)
		ping->curve.points[ping->curve.count++] =
			(struct curve_point){ size, result.rate, result.both };
	sum->sent += result.sent;
	sum->lost += result.lost;
	sum->wrong += result.wrong;
	return ret;
}

/* A sweep ends at the largest message that can be sent here. */
static int measure_sizes(struct ping *ping, struct link *link, struct sum *sum)
{
	const struct plan *plan = link->pinger.plan;
	int64_t size, last = BEEST_MIN(plan->last, (int64_t)link_largest(link));
	int ret = 0;

	for (size = plan->first; ret == 0 && size <= last; size = BEEST_MAX(1, 2 * size))
		ret = measure_size(ping, link, (uint32_t)size, sum);
	return ret;
}

static int data_failed(struct ping *ping, int ret, const char *why, const char *cure)
{
	snprintf(ping->summary, sizeof(ping->summary), "%s", why);
	return steps_bad(&ping->steps, ret, why, cure);
}

static int first_ping(struct ping *ping, struct link *link, int64_t deadline)
{
	const struct plan *plan = link->pinger.plan;
	uint32_t largest = link_largest(link);
	char time[STEPS_TIME], why[100];
	int64_t ret;

	steps_begin(&ping->steps, "first ping");
	if (plan->first > largest) {
		snprintf(why, sizeof(why), "%" PRId64 " bytes are more than one message can carry "
			 "here: %" PRIu32, plan->first, largest);
		return data_failed(ping, -EMSGSIZE, why, "give a smaller --size");
	}
	out_waiting(ping->out, "first ping to %s", link->who);
	ret = pinger_first(&link->pinger, deadline);
	if (ret < 0)
		return data_failed(ping, (int)ret, link->pinger.why, data_cure);
	steps_good(&ping->steps, "round trip %s", steps_time(ret, time));
	return STATUS_GOOD;
}

/* Only the end that measures opens the picture: both may have been given the same file. */
static int measure(struct ping *ping, struct link *link, int64_t deadline)
{
	char title[400], name[PLAN_NAME];
	struct sum sum = { 0 };
	int ret, status = picture_open(&ping->picture, ping->out);

	if (status != STATUS_GOOD) {
		strcpy(ping->summary, "its picture cannot be written");
		return status;
	}
	status = first_ping(ping, link, deadline);
	if (status != STATUS_GOOD)
		return status;
	snprintf(title, sizeof(title), "%s to %s: round trips in us",
		 plan_name(link->pinger.plan, name), link->who);
	out_title(ping->out, LABEL, title);
	show_header(ping, link->pinger.plan);
	steps_begin(&ping->steps, "pings");
	snprintf(ping->curve.title, sizeof(ping->curve.title), "%s", name);
	ping->curve.count = 0;
	ret = measure_sizes(ping, link, &sum);
	status = show_sum(ping, &sum);
	return ret < 0 && ret != -ECANCELED ? data_failed(ping, ret, link->pinger.why, data_cure)
					   : status;
}

static int measure_and_tell(struct ping *ping, const struct meeting *meeting, struct link *link,
			    int64_t deadline)
{
	int status = measure(ping, link, deadline);
	char text[620];

	snprintf(text, sizeof(text), "%d %s%s", status, session_signal() ? "interrupted, " : "",
		 ping->summary);
	meet_tell(&ping->meet, meeting, text);
	return status;
}

/* ------------------------------------------------------------- answering --- */

/* Is the other end still there?  Returns 0, or a negative errno with a sentence in the pinger. */
static int look_after(struct ping *ping, const struct meeting *meeting, struct link *link,
		      int64_t silent)
{
	struct pinger *pinger = &link->pinger;

	if (hartebeest_qp_follow(ping->hb, LINK_NAME, meeting->peer_key, NULL,
				 HARTEBEEST_ONCE) == -ESHUTDOWN) {
		snprintf(pinger->why, sizeof(pinger->why), "the other end has left");
		return -ESHUTDOWN;
	}
	if (pinger->plan->type == IBV_QPT_RC)
		return pinger_touch(pinger);
	if (ping->meet.way == MEET_RANKS || silent < ping->timeout + pinger->plan->interval)
		return 0;
	snprintf(pinger->why, sizeof(pinger->why), "nothing arrived for %" PRId64 " s",
		 silent / BEEST_SECOND);
	return -ETIMEDOUT;
}

static int answer_some(struct link *link)
{
	static const struct timespec pause = { .tv_nsec = SILENCE / 2 };
	const struct plan *plan = link->pinger.plan;

	if (plan_is_echo(plan))
		return pinger_answer(&link->pinger, SILENCE + plan->interval);
	nanosleep(&pause, NULL);
	return session_signal() ? -ECANCELED : 0;
}

/* Answers until the other end reports its result: then returns 1 with that in @told. */
static int answer_all(struct ping *ping, const struct meeting *meeting, struct link *link,
		      char *told, size_t size)
{
	int64_t now, heard = hartebeest_clock(), looked = heard;
	int ret;

	for (;;) {
		ret = answer_some(link);
		now = hartebeest_clock();
		if (ret == 1)
			heard = now;
		else if (meet_told(&ping->meet, meeting, told, size))
			return 1;
		else if (ret == 0 && now - looked > LOOK_AFTER) {
			looked = now;
			ret = look_after(ping, meeting, link, now - heard);
		}
		if (ret < 0)
			return meet_told(&ping->meet, meeting, told, size) ? 1 : ret;
	}
}

static int answer(struct ping *ping, const struct meeting *meeting, struct link *link)
{
	const char *said;
	char told[MEET_TOLD];
	int ret, status;

	steps_begin(&ping->steps, "answers");
	out_waiting(ping->out, "answering %s", link->who);
	ret = answer_all(ping, meeting, link, told, sizeof(told));
	if (ret < 0)
		return steps_bad(&ping->steps, ret, link->pinger.why,
				 "see what the other end says");
	status = atoi(told);
	said = meet_reason(told);
	if (status == STATUS_GOOD)
		steps_good(&ping->steps, "%s", said);
	else
		steps_bad(&ping->steps, -EIO, said, "see what the other end says");
	return status ? STATUS_FAILED : STATUS_GOOD;
}

/* ------------------------------------------------------------- meetings --- */

/*
 * The others may have passed the barrier at which this rank gave up, and those wait for their turn
 * without a deadline.  One whose plan was lost waits as well.
 */
static void let_ranks_go(struct ping *ping, const struct meeting *meeting, const char *why)
{
	char text[MEET_TOLD];

	snprintf(text, sizeof(text), "%d %.600s", STATUS_FAILED, why);
	if (ping->meet.next)
		meet_tell(&ping->meet, meeting, text);
	else
		meet_tell_ranks(&ping->meet, text);
}

static int meeting_failed(struct ping *ping, const struct meeting *meeting, int ret)
{
	static const char *const cures[] = {
		[MEET_RANKS] = "all ranks must run 'hartebeest ping' with the same servers",
		[MEET_ANYBODY] = "run 'hartebeest ping' at the other end, with the same "
				 "HARTEBEEST_EXC_IP_PORT and HARTEBEEST_JOB",
		[MEET_LISTEN] = "another process listens under this name",
		[MEET_ASK] = "run 'hartebeest ping --listen NAME' at the other end, with the same "
			     "HARTEBEEST_EXC_IP_PORT and HARTEBEEST_JOB",
	};
	char why[MEET_TOLD];
	int status;

	if (ret == -EINVAL && meeting->why[0])
		return steps_bad(&ping->steps, ret, meeting->why, "see --help, and what the other "
				 "end says");
	snprintf(why, sizeof(why), "%s", ret == -ECANCELED ? "interrupted" : hartebeest_error());
	status = steps_bad(&ping->steps, ret, hartebeest_error(), cures[ping->meet.way]);
	if (ping->meet.way == MEET_RANKS)
		let_ranks_go(ping, meeting, why);
	return status;
}

/* The first rank pings the others in turn, so these wait.  A client may have crashed by now. */
static int64_t link_deadline(const struct ping *ping, const struct meeting *meeting)
{
	if (ping->meet.way == MEET_RANKS && !meeting->measures && hartebeest_size(ping->hb) > 2)
		return INT64_MAX;
	return hartebeest_clock() + (meeting->measures || ping->meet.way == MEET_RANKS
				     ? ping->timeout : BEEST_MIN(ping->timeout, GHOST_TIME));
}

static void meeting_object(struct ping *ping, const struct meeting *meeting,
			   const struct link *link)
{
	out_json_text(ping->object, "peer", link->who);
	out_json_bool(ping->object, "measures", meeting->measures);
	out_json_text(ping->object, "type", plan_types[meeting->plan.type - IBV_QPT_RC]);
	out_json_text(ping->object, "op", plan_ops[meeting->plan.op]);
}

struct failed {
	struct ping *ping;
	const struct meeting *meeting;
	char told[MEET_TOLD];		/* why the other end gave up */
};

/* Ranks wait for their turn without a deadline, but not for a rank that gave up. */
static bool has_said_nothing(void *data)
{
	struct failed *failed = data;

	return !meet_told(&failed->ping->meet, failed->meeting, failed->told,
			  sizeof(failed->told));
}

/*
 * Each end reports a failure once, and notifies the other: one that has not found it itself would
 * wait in vain, and then name a false cause.  *gone: the peer has left, which does not count if
 * another arrives.
 */
static int link_failed(struct failed *failed, const struct link *link, int ret, bool *gone)
{
	struct ping *ping = failed->ping;
	bool is_silent = ret == -ETIMEDOUT || ret == -ESHUTDOWN || ret == -ECONNABORTED;
	char text[MEET_TOLD];

	if (is_silent && (failed->told[0] || !has_said_nothing(failed))) {
		snprintf(text, sizeof(text), "the other end: %.600s", meet_reason(failed->told));
		return steps_bad(&ping->steps, -EPROTO, text, "see what the other end says");
	}
	if (is_silent && ping->meet.way == MEET_ANYBODY) {
		*gone = true;
		steps_vain(&ping->steps, "the other end has gone: looking for another");
		return STATUS_GOOD;
	}
	snprintf(text, sizeof(text), "%d %.600s", STATUS_FAILED, ret == -ECANCELED ? "interrupted" :
		 link->note);
	meet_tell(&ping->meet, failed->meeting, text);
	return steps_bad(&ping->steps, ret, link->note, link->cure);
}

static int hold_meeting(struct ping *ping, const struct meeting *meeting, bool *gone)
{
	int64_t deadline = link_deadline(ping, meeting);
	struct link link = { .hb = ping->hb, .meeting = meeting };
	struct failed failed = { .ping = ping, .meeting = meeting };
	int ret = link_up(&link, &ping->steps, deadline, GHOST_TIME, has_said_nothing, &failed);
	int status;

	if (ret < 0)
		status = link_failed(&failed, &link, ret, gone);
	else
		status = meeting->measures ? measure_and_tell(ping, meeting, &link, deadline)
					   : answer(ping, meeting, &link);
	meeting_object(ping, meeting, &link);
	link_down(&link);
	return status;
}

/*
 * Are there other peers to meet?  @met: what meet_next() returned.  Ranks meet all others once they
 * were at the barrier, a listener goes on whatever its last client wanted, and an end whose peer
 * has gone looks for another.
 */
static bool goes_on(const struct ping *ping, int met, bool is_known, bool gone)
{
	switch (ping->meet.way) {
	case MEET_RANKS:
		return met != 0 && ping->meet.next > 0;
	case MEET_ANYBODY:
		return gone;
	case MEET_LISTEN:
		return met > 0 || is_known;
	case MEET_ASK:
		break;
	}
	return false;
}

static int64_t meeting_deadline(const struct ping *ping)
{
	if (ping->meet.way == MEET_LISTEN)
		return INT64_MAX;
	return ping->meet.way == MEET_ANYBODY ? ping->until : hartebeest_clock() + ping->timeout;
}

/* Returns whether there may be more. */
static bool one_meeting(struct ping *ping, int *status)
{
	char name[PLAN_NAME];
	struct meeting meeting;
	bool gone = false;
	int ret;

	*status = STATUS_GOOD;
	ping->object = out_json_item(out_json_array(ping->out->json, "meetings"));
	ping->steps.array = out_json_array(ping->object, "steps");
	steps_begin(&ping->steps, "peer");
	out_waiting(ping->out, "waiting for the other end");
	ret = meet_next(&ping->meet, &meeting, meeting_deadline(ping));
	if (ret > 0) {
		steps_good(&ping->steps, "%s; %s, measured %s", meeting.who,
			   plan_name(&meeting.plan, name), meeting.measures ? "here" : "there");
		*status = hold_meeting(ping, &meeting, &gone);
	} else if (ret < 0) {
		*status = meeting_failed(ping, &meeting, ret);
	}
	meet_part(&ping->meet, &meeting);
	return !session_signal() && goes_on(ping, ret, meeting.why[0], gone);
}

/* One meeting that failed is enough to fail. */
static int all_meetings(struct ping *ping)
{
	int status, worst = STATUS_GOOD;
	bool more;

	ping->until = hartebeest_clock() + ping->timeout;
	do {
		more = one_meeting(ping, &status);
		worst = BEEST_MAX(worst, status);
	} while (more);
	return worst;
}

/* ------------------------------------------------------------ beginning --- */

static bool make_plan(struct ping *ping, char *why, size_t size)
{
	struct plan *plan = &ping->meet.plan, check;

	*plan = wanted;
	plan->type = plan_word(plan_types, type_word);
	plan->op = plan_word(plan_ops, op_word);
	plan->bandwidth = wants_bandwidth || svg_path ? 2 : PLAN_OPEN;
	check = *plan;
	return plan_finish(&check, why, size);
}

/* Under a launcher, the lines of all ranks appear in one place. */
static void name_rank(struct ping *ping, const char *host)
{
	const int rank = hartebeest_rank(ping->hb);

	ping->steps.quiet = rank != hartebeest_participant(ping->hb, 0);
	snprintf(ping->steps.who, sizeof(ping->steps.who), "rank %d on %s: ", rank, host);
}

static void choose_way(struct ping *ping, int count, char **operands)
{
	static char host[64];

	gethostname(host, sizeof(host) - 1);
	ping->meet.hb = ping->hb;
	ping->meet.name = count ? operands[0] : host;
	ping->meet.way = wants_to_listen ? MEET_LISTEN : count ? MEET_ASK
			 : hartebeest_size(ping->hb) > 1 && hartebeest_rank(ping->hb) >= 0
			 ? MEET_RANKS : MEET_ANYBODY;
	if (ping->meet.way == MEET_RANKS)
		name_rank(ping, host);
}

static int find_device(struct ping *ping)
{
	char text[512];
	int ret;

	steps_begin(&ping->steps, "device");
	out_waiting(ping->out, "looking for a port and its GID");
	ret = hartebeest_device_text(ping->hb, text, sizeof(text));
	if (ret < 0)
		return steps_bad(&ping->steps, ret, hartebeest_error(), "'hartebeest info' lists "
				 "the ports, 'hartebeest doctor' says what is missing");
	steps_good(&ping->steps, "%.*s", (int)strcspn(text, ";"), text);
	return STATUS_GOOD;
}

static int find_servers(struct ping *ping)
{
	char text[256] = "";
	int ret;

	steps_begin(&ping->steps, "servers");
	out_waiting(ping->out, "asking the servers");
	ret = meet_begin(&ping->meet, hartebeest_clock() + ping->timeout);
	if (ret < 0)
		return steps_bad(&ping->steps, ret, hartebeest_error(), "a memcached must run, and "
				 "HARTEBEEST_EXC_IP_PORT=HOST:PORT name it at both ends");
	hartebeest_option_get(ping->hb, "exchange.servers", text, sizeof(text), NULL);
	steps_good(&ping->steps, "%s%s%s", text, ping->meet.way == MEET_LISTEN ? ", listening as "
		   : "", ping->meet.way == MEET_LISTEN ? ping->meet.name : "");
	return STATUS_GOOD;
}

static int ping_all(struct ping *ping)
{
	int status;

	ping->timeout = session_duration(ping->hb, "exchange.timeout");
	ping->steps.out = ping->out;
	ping->steps.array = out_json_array(ping->out->json, "steps");
	if (!ping->steps.quiet)
		out_title(ping->out, LABEL, "bring-up");
	status = find_device(ping);
	if (status == STATUS_GOOD)
		status = find_servers(ping);
	if (status == STATUS_GOOD)
		status = all_meetings(ping);
	return status;
}

/* The end that measured has the picture. */
static int draw(struct ping *ping, int status)
{
	int ret = STATUS_GOOD;

	if (ping->curve.count)
		ret = picture_draw(&ping->picture, ping->out, curve_svg, &ping->curve);
	return status == STATUS_GOOD ? ret : status;
}

static int ping(struct out *out, int count, char **operands)
{
	struct ping ping = { .out = out, .picture.path = svg_path };
	char why[PLAN_TEXT];
	int status;

	if (!make_plan(&ping, why, sizeof(why))) {
		out_error(out, "%s", why);
		return STATUS_MISUSED;
	}
	status = session_open(out, &ping.hb);
	if (status != STATUS_GOOD)
		return status;
	choose_way(&ping, count, operands);
	status = draw(&ping, ping_all(&ping));
	picture_free(&ping.picture);
	session_close(ping.hb);
	return status;
}

static const struct args_option options[] = {
	{ "type", 't', ARGS_TEXT, &type_word, .value = "TYPE", .words = plan_types,
	  .help = "transport, default rc" },
	{ "op", 'O', ARGS_TEXT, &op_word, .value = "OP", .words = plan_ops,
	  .help = "operation of a ping, default write, or send for ud" },
	{ "size", 's', ARGS_INT, &wanted.first, .value = "BYTES", .min = 0, .max = PLAN_LAST_MAX,
	  .help = "size of a message, default 8" },
	{ "sweep", 'a', ARGS_INT, &wanted.last, .value = "BYTES", .min = 1, .max = PLAN_LAST_MAX,
	  .help = "sizes from --size on, doubled up to this" },
	{ "count", 'c', ARGS_INT, &wanted.count, .value = "N", .min = 1,
	  .max = PLAN_COUNT_MAX, .help = "pings of each size, default 1000" },
	{ "duration", 'w', ARGS_TIME, &wanted.duration, .value = "TIME", .min = 1,
	  .max = PLAN_TIME_MAX, .help = "pings of each size end after TIME" },
	{ "interval", 'i', ARGS_TIME, &wanted.interval, .value = "TIME", .min = 0,
	  .max = PLAN_TIME_MAX,
	  .help = "from the beginning of a ping to that of the next, default 0" },
	{ "bw", 'b', ARGS_FLAG, &wants_bandwidth, .help = "measure bandwidth, too" },
	{ "svg", 0, ARGS_TEXT, &svg_path, .value = "FILE",
	  .help = "write a picture of the bandwidth over the size to FILE" },
	{ "listen", 'l', ARGS_FLAG, &wants_to_listen,
	  .help = "answer pings to NAME, default this host's name" },
	{ .name = NULL },
};

const struct command ping_command = {
	.name = "ping",
	.operands = "[NAME]",
	.help = "Connects two processes that find each other, and measures round trips.",
	.options = options,
	.most = 1,
	.run = ping,
	.more = "Run it at both ends, in any order; or with --listen at one end, and with NAME at\n"
		"others.  Under a launcher, the first rank pings each other one.  Options may be\n"
		"given at either end; -o exchange.timeout=5min waits longer for the other end.\n",
};
