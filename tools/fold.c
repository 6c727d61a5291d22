/* SPDX-License-Identifier: MIT */
/* fold.c - see fold.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "tools/command.h"
#include "tools/fold.h"

#define HOST_MAX 64
#define SAID_MAX 4096
#define NAMED_MAX 8

/* How long a message waits for a first rank that is late, in seconds. */
#define LIFE 600

/* How long the first rank waits for all others together. */
#define PATIENCE (60 * BEEST_SECOND)

/* What one rank sends. */
struct report {
	char host[HOST_MAX];
	char text[SAID_MAX];
};

static void report_fill(struct report *report, const char *said)
{
	memset(report, 0, sizeof(*report));
	gethostname(report->host, sizeof(report->host) - 1);
	beest_text_copy(report->text, sizeof(report->text), said);
}

static void report_key(int rank, char key[40])
{
	snprintf(key, 40, "doctor/%d", rank);
}

/* The first reader deletes it, so that a later run does not find it. */
static int report_push(struct hartebeest_context *hb, const struct report *report)
{
	struct hartebeest_msg_attr attr;
	char key[40];

	hartebeest_msg_attr_init(&attr);
	attr.flags = HARTEBEEST_MSG_ONCE;
	attr.ttl = LIFE * BEEST_SECOND;
	report_key(hartebeest_rank(hb), key);
	return hartebeest_msg_push_attr(hb, key, report, sizeof(*report), &attr, 0);
}

/* Others may have written it, and it goes to a terminal. */
static bool report_is_text(const struct report *report)
{
	return !report->text[SAID_MAX - 1] && !report->host[HOST_MAX - 1] &&
	       out_is_text(report->text, strlen(report->text)) &&
	       out_is_text(report->host, strlen(report->host));
}

static void report_wait(struct hartebeest_context *hb, int rank, struct report *report,
			int64_t deadline)
{
	char key[40];
	size_t length;

	report_key(rank, key);
	if (hartebeest_msg_wait(hb, key, report, sizeof(*report), &length, deadline) == 0 &&
	    length == sizeof(*report) && report_is_text(report))
		return;
	memset(report, 0, sizeof(*report));
	snprintf(report->host, sizeof(report->host), "rank %d", rank);
	beest_text_copy(report->text, sizeof(report->text), "FAIL  it has not reported\n");
}

static int reports_compare(const void *a, const void *b)
{
	return strcmp(((const struct report *)a)->text, ((const struct report *)b)->text);
}

/* The number of reports from @first on that are the same. */
static int alike(const struct report *first, const struct report *end)
{
	const struct report *at = first;

	while (at < end && !strcmp(at->text, first->text))
		at++;
	return (int)(at - first);
}

static void group_show(const struct out *out, const struct report *first, int count)
{
	int i;

	fprintf(out->to, "%d node%s%s: ", count, count == 1 ? "" : "s", count == 1 ? "" : " alike");
	for (i = 0; i < count && i < NAMED_MAX; i++)
		fprintf(out->to, "%s%s", i ? ", " : "", first[i].host);
	if (count > NAMED_MAX)
		fprintf(out->to, " and %d more", count - NAMED_MAX);
	fprintf(out->to, "\n%s", first->text);
}

/* The largest group first. */
static void reports_show(const struct out *out, struct report *reports, int count)
{
	const struct report *end = reports + count, *at;
	int size, most = count, next, group;

	qsort(reports, (size_t)count, sizeof(*reports), reports_compare);
	for (size = most; size > 0; size = next) {
		for (at = reports, next = 0; at < end; at += group) {
			group = alike(at, end);
			if (group == size)
				group_show(out, at, group);
			else if (group < size)
				next = BEEST_MAX(next, group);
		}
	}
}

static int reports_gather(struct out *out, struct hartebeest_context *hb, const char *said)
{
	int i, size = hartebeest_size(hb), own = hartebeest_rank(hb), status = STATUS_GOOD;
	struct report *reports = calloc((size_t)size, sizeof(*reports));
	int64_t deadline = hartebeest_clock() + PATIENCE;

	if (!reports) {
		out_error(out, "no memory for %d reports", size);
		return STATUS_FAILED;
	}
	for (i = 0; i < size; i++) {
		out_progress(out, "%d of %d nodes have reported", i, size);
		if (hartebeest_participant(hb, i) == own)
			report_fill(&reports[i], said);
		else
			report_wait(hb, hartebeest_participant(hb, i), &reports[i],
				    deadline);
		if (strncmp(reports[i].text, "FAIL", 4) == 0)
			status = STATUS_FAILED;
	}
	reports_show(out, reports, size);
	free(reports);
	return status;
}

int fold_run(struct out *out, struct hartebeest_context *hb, const char *said)
{
	struct report report;
	int ret, size = hartebeest_size(hb);

	if (size < 0 || hartebeest_rank(hb) < 0)
		return out_failed(out, size < 0 ? size : hartebeest_rank(hb));
	if (hartebeest_rank(hb) == hartebeest_participant(hb, 0))
		return reports_gather(out, hb, said);
	report_fill(&report, said);
	ret = report_push(hb, &report);
	return ret < 0 ? out_failed(out, ret) : STATUS_GOOD;
}
