/* SPDX-License-Identifier: MIT */
/* forecast.c - see forecast.h */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "lib/base/memlock.h"
#include "lib/base/text.h"
#include "tools/forecast.h"

#define LABEL 12

/*
 * Measured, see docs/performance.md: bytes of one rank in a view with one region, and ranks that
 * are read together; what each rank reads and stores besides, and an end of a pair; what the server
 * takes for a rank, for an end of a pair, and for a byte; and what a rank takes for a queue pair,
 * from creation to RTS.
 */
#define VIEW_BYTES 147
#define CHUNK_RANKS 32
#define RANK_BYTES 12000
#define PAIR_BYTES 800
#define RANK_TIME (200 * BEEST_US)
#define PAIR_TIME (3 * BEEST_US)
#define BYTES_A_MS 750000
#define QP_TIME (250 * BEEST_US)

/* A queue pair of the default size: pages of its queues, and its entries in a completion queue. */
#define QP_MEMORY (8 << 10)
#define QP_ENTRIES 32
#define ENTRY_MEMORY 64

/* What one way takes. */
struct need {
	int64_t qps;			/* of a rank */
	int64_t bytes;			/* that the server hands out or takes in, all together */
	int64_t server;			/* ns of its processors */
};

static int64_t divide_up(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

/* The processes of a node read a chunk once. */
static struct need whole_view(const struct forecast_job *job, int64_t qps)
{
	const int64_t nodes = divide_up(job->ranks, job->per_node);
	const struct need need = {
		.qps = qps,
		.bytes = nodes * job->ranks * VIEW_BYTES + job->ranks * RANK_BYTES,
		.server = job->ranks * RANK_TIME,
	};

	return need;
}

static struct need full_mesh(const struct forecast_job *job)
{
	return whole_view(job, job->ranks - 1);
}

static struct need datagrams(const struct forecast_job *job)
{
	return whole_view(job, 1);
}

/* As if each peer were in a chunk of its own; but a node reads no chunk twice. */
static struct need chosen_peers(const struct forecast_job *job)
{
	struct need need = whole_view(job, job->peers);
	const int64_t each = (job->peers + 1) * CHUNK_RANKS * VIEW_BYTES + RANK_BYTES;

	need.bytes = BEEST_MIN(need.bytes, job->ranks * each);

	return need;
}

static struct need pairs(const struct forecast_job *job)
{
	const struct need need = {
		.qps = job->peers, .bytes = job->ranks * job->peers * PAIR_BYTES,
		.server = job->ranks * (RANK_TIME + job->peers * PAIR_TIME),
	};

	return need;
}

static const struct way {
	const char *label;
	struct need (*find)(const struct forecast_job *job);
	const char *instead;
} ways[] = {
	{ "mesh", full_mesh, "let each rank name its peers (attr->peers), or use IBV_QPT_UD" },
	{ "mesh, peers", chosen_peers, "let each rank name fewer peers, or use IBV_QPT_UD" },
	{ "pairs", pairs, "give each rank fewer peers, or use IBV_QPT_UD" },
	{ "mesh, UD", datagrams, "start fewer ranks a node" },
};

/* ------------------------------------------------------------------------- limits --- */

/* Of all devices with a port that can be used; 0: there is none. */
struct limits {
	int64_t qps;			/* together */
	int64_t entries;		/* of the smallest completion queue */
	uint64_t locked;		/* 0: no limit */
	char devices[128];
};

static struct limits limits_find(const struct ports_port *ports, int count)
{
	struct limits limits = { .qps = 0 };
	struct beest_text names;
	const char *last = "";
	int i;

	beest_text_start(&names, limits.devices, sizeof(limits.devices));
	for (i = 0; i < count; i++) {
		if (!ports_usable(&ports[i]) || strcmp(ports[i].device, last) == 0)
			continue;
		beest_text_add(&names, "%s%s", *last ? ", " : "", ports[i].device);
		last = ports[i].device;
		limits.qps += ports[i].limits.max_qp;
		limits.entries = limits.entries ?
				 BEEST_MIN(limits.entries, ports[i].limits.max_cqe) :
				 ports[i].limits.max_cqe;
	}
	if (!beest_memlock_limit(&limits.locked))
		limits.locked = 0;

	return limits;
}

/* What is exceeded, with both numbers; "": nothing. */
static void excess_find(const struct need *need, const struct forecast_job *job,
			const struct limits *limits, char *text, size_t size)
{
	const int64_t a_node = need->qps * BEEST_MIN(job->per_node, job->ranks);
	const int64_t entries = need->qps * QP_ENTRIES;
	const int64_t locked = need->qps * QP_MEMORY + entries * ENTRY_MEMORY;

	text[0] = '\0';
	if (limits->qps && a_node > limits->qps)
		snprintf(text, size, "a node needs %" PRId64 " queue pairs, but %s allow%s %"
			 PRId64, a_node, limits->devices, strchr(limits->devices, ',') ? "" : "s",
			 limits->qps);
	else if (limits->entries && entries > limits->entries)
		snprintf(text, size, "a rank needs a completion queue of %" PRId64 " entries, but "
			 "%s allow%s %" PRId64, entries, limits->devices,
			 strchr(limits->devices, ',') ? "" : "s", limits->entries);
	else if (limits->locked && (uint64_t)locked > limits->locked)
		snprintf(text, size, "a rank locks some %" PRId64 " MB, but may lock %" PRIu64
			 " KiB", (locked >> 20) + 1, limits->locked >> 10);
}

/* ------------------------------------------------------------------------- lines --- */

static const char *bytes_text(int64_t bytes, char text[32])
{
	if (bytes < 10 * INT64_C(1000000000))
		snprintf(text, 32, "%.3g MB", (double)bytes / 1e6);
	else
		snprintf(text, 32, "%.3g GB", (double)bytes / 1e9);

	return text;
}

/* The server's time or that of a 10 Gbit/s link, whichever is longer, and then the queue pairs. */
static int64_t time_of(const struct need *need)
{
	const int64_t server = need->server + need->bytes / BYTES_A_MS * BEEST_MS;
	const int64_t link = need->bytes * 8 / 10;

	return BEEST_MAX(server, link) + need->qps * QP_TIME;
}

static void way_line(struct out *out, const struct way *way, const struct forecast_job *job,
		     const struct limits *limits)
{
	const struct need need = way->find(job);
	struct json_object *item = out_json_item(out_json_array(out->json, "forecast"));
	char excess[300], bytes[32];

	excess_find(&need, job, limits, excess, sizeof(excess));
	out_json_text(item, "way", way->label);
	out_json_int(item, "qps_a_rank", need.qps);
	out_json_int(item, "server_bytes", need.bytes);
	out_json_int(item, "time_ns", time_of(&need));
	out_json_bool(item, "possible", !excess[0]);
	if (excess[0]) {
		out_line(out, OUT_WARNING, way->label, "%s", excess);
		out_cure(out, "%s", way->instead);
	} else {
		out_line(out, OUT_OK, way->label, "%" PRId64 " queue pair%s a rank, %s by way of "
			 "the server: some %s", need.qps, need.qps == 1 ? "" : "s",
			 bytes_text(need.bytes, bytes), BEEST_SPAN(time_of(&need)));
	}
}

void forecast_lines(struct out *out, const struct forecast_job *job,
		    const struct ports_port *ports, int count)
{
	const struct limits limits = limits_find(ports, count);
	char title[120];
	size_t i;

	snprintf(title, sizeof(title), "forecast: %" PRId64 " ranks, %" PRId64 " a node, %" PRId64
		 " peers each", job->ranks, job->per_node, job->peers);
	out_title(out, LABEL, title);
	for (i = 0; i < BEEST_COUNT(ways); i++)
		way_line(out, &ways[i], job, &limits);
	if (!limits.qps)
		out_line(out, OUT_NOTE, "limits", "no device can be used here, so none of its "
			 "limits were compared");
}
