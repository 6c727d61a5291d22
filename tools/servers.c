/* SPDX-License-Identifier: MIT */
/* servers.c - see doctor.h */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "tools/doctor.h"
#include "tools/records.h"
#include "tools/session.h"
#include "tools/store.h"

#define LABEL 12
#define PATIENCE (3 * BEEST_SECOND)

/* Memory for the records of a rank in a mesh, and of each pair of ranks, with overhead. */
#define RANK_BYTES 2048
#define PAIR_BYTES 512

/* A rank has one connection, and two while it waits.  A few more are for other clients. */
#define RANK_CONNECTIONS 2
#define SPARE_CONNECTIONS 16
#define ITEM_SIZE (INT64_C(1) << 20)

struct facts {
	int64_t connections, connections_max, evictions, items, bytes, bytes_max, item_size;
};

static void note_fact(void *data, const char *name, const char *value)
{
	struct facts *facts = data;
	const struct {
		const char *name;
		int64_t *to;
	} rows[] = {
		{ "curr_connections", &facts->connections }, { "evictions", &facts->evictions },
		{ "max_connections", &facts->connections_max },
		{ "maxconns", &facts->connections_max },
		{ "curr_items", &facts->items }, { "bytes", &facts->bytes },
		{ "limit_maxbytes", &facts->bytes_max }, { "item_size_max", &facts->item_size },
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++)
		if (!strcmp(rows[i].name, name))
			*rows[i].to = strtoll(value, NULL, 10);
}

static void check_connections(struct out *out, const struct facts *facts, int64_t ranks)
{
	int64_t spare = facts->connections + SPARE_CONNECTIONS;
	int64_t wanted = BEEST_MAX(ranks, 0) * RANK_CONNECTIONS + SPARE_CONNECTIONS;
	int64_t in_use = facts->connections, most = facts->connections_max;

	if (!most)
		return;
	if (most >= BEEST_MAX(wanted, spare)) {
		out_line(out, OUT_OK, "connections", "%" PRId64 " of %" PRId64 " in use", in_use,
			 most);
		return;
	}
	if (most < wanted)
		out_line(out, OUT_WARNING, "connections", "%" PRId64 " of %" PRId64 " in use, and %"
			 PRId64 " ranks need up to %" PRId64, in_use, most, ranks, wanted);
	else
		out_line(out, OUT_WARNING, "connections", "%" PRId64 " of %" PRId64 " in use: few "
			 "are left for more ranks", in_use, most);
	out_cure(out, "memcached -c %" PRId64, BEEST_MAX(wanted, 2 * spare));
}

static void check_memory(struct out *out, const struct facts *facts, int64_t ranks)
{
	int64_t mesh = ranks * RANK_BYTES, pairs = ranks * ranks * PAIR_BYTES;

	if (facts->evictions) {
		out_line(out, OUT_WARNING, "memory", "%" PRId64 " keys were evicted since it "
			 "started: records may be lost", facts->evictions);
		out_cure(out, "memcached -m %" PRId64 ", and no other use of this server",
			 BEEST_MAX(facts->bytes_max >> 19, 128));
	} else if (ranks > 0 && facts->bytes + mesh > facts->bytes_max) {
		out_line(out, OUT_WARNING, "memory", "%" PRId64 " MB are too little for %" PRId64
			 " ranks", facts->bytes_max >> 20, ranks);
		out_cure(out, "memcached -m %" PRId64, ((facts->bytes + mesh) >> 19) + 64);
	} else if (ranks > 0 && facts->bytes + pairs > facts->bytes_max) {
		out_line(out, OUT_WARNING, "memory", "%" PRId64 " MB suffice for a mesh of %"
			 PRId64 " ranks, but not for a record of each pair (%" PRId64 " MB)",
			 facts->bytes_max >> 20, ranks, pairs >> 20);
		out_cure(out, "hartebeest_mesh_connect(), or memcached -m %" PRId64,
			 ((facts->bytes + pairs) >> 19) + 64);
	} else {
		out_line(out, OUT_OK, "memory", "%" PRId64 " of %" PRId64 " MB in use, %" PRId64
			 " keys, none evicted%s", facts->bytes >> 20, facts->bytes_max >> 20,
			 facts->items, ranks > 0 ? "; enough for these ranks" : "");
	}
	if (facts->item_size && facts->item_size < ITEM_SIZE) {
		out_line(out, OUT_WARNING, "item size",
			 "%" PRId64 " bytes: messages may be 1 MiB long", facts->item_size);
		out_cure(out, "memcached -I 1m");
	}
}

static void facts_object(struct out *out, const char *server, const char *version, int64_t time,
			 const struct facts *facts)
{
	struct json_object *item = out_json_item(out_json_array(out->json, "servers"));

	out_json_text(item, "server", server);
	out_json_text(item, "version", version);
	out_json_int(item, "round_trip_ns", time);
	out_json_int(item, "connections", facts->connections);
	out_json_int(item, "connections_max", facts->connections_max);
	out_json_int(item, "evictions", facts->evictions);
	out_json_int(item, "bytes", facts->bytes);
	out_json_int(item, "bytes_max", facts->bytes_max);
	out_json_int(item, "item_size", facts->item_size);
}

static void say_unreachable(struct out *out, int ret)
{
	out_line(out, OUT_FAILURE, "server", "%s", beest_error_text());
	if (ret == -ECONNREFUSED || ret == -ENOENT)
		out_cure(out, "start memcached there, listening on an address that the nodes reach "
			 "(-l), and open its port in the firewall");
	else if (ret == -EACCES)
		out_cure(out, "set HARTEBEEST_EXC_USER and HARTEBEEST_EXC_PASSWORD_FILE; the "
			 "library logs in, this check cannot");
	else if (ret == -EUSERS)
		out_cure(out, "memcached -c N allows more: %d for each rank", RANK_CONNECTIONS);
	else if (ret == -EHOSTDOWN)
		out_cure(out, "check its process there, and its -c: memcached before 1.6 is silent "
			 "when it has too few connections (%d for each rank)", RANK_CONNECTIONS);
	else if (ret == -EPROTO)
		out_cure(out, "HARTEBEEST_EXC_IP_PORT names the port of something else");
	else
		out_cure(out, "check the name, the route and the firewall: 'nc -vz HOST PORT' "
			 "from this node");
}

static int ask_server(const struct beest_hostport *server, char *version, size_t size,
		      int64_t *time, struct facts *facts)
{
	struct store *store = NULL;
	int ret = store_open(&store, server, PATIENCE);

	*time = beest_clock_now();
	if (ret == 0)
		ret = store_version(store, version, size);
	*time = beest_clock_now() - *time;
	/* Settings come first: their "evictions on" is not the number of evictions. */
	if (ret == 0)
		ret = store_stats(store, "settings", note_fact, facts);
	if (ret == 0)
		ret = store_stats(store, "", note_fact, facts);
	store_close(store);
	return ret;
}

static int check_server(struct out *out, const struct beest_hostport *server, int64_t ranks)
{
	struct facts facts = { 0 };
	char version[64] = "";
	int64_t time = 0;
	int ret;

	out_waiting(out, "asking %s", server->text);
	ret = ask_server(server, version, sizeof(version), &time, &facts);
	out_waiting_end(out);
	if (ret == -ECANCELED)
		return ret;
	if (ret < 0) {
		say_unreachable(out, ret);
		return ret;
	}

	facts_object(out, server->text, version, time, &facts);
	out_line(out, OUT_OK, "server", "%s, memcached %s, %.2f ms", server->text, version,
		 (double)time / BEEST_MS);
	check_connections(out, &facts, ranks);
	check_memory(out, &facts, ranks);
	return 0;
}

/* Counts the ranks that are present, and checks that they agree. */
static void check_ranks(struct out *out, struct hartebeest_context *hb)
{
	struct records records;
	size_t i, present = 0;
	int before = out->counts[OUT_WARNING];
	const char *job = hartebeest_job(hb);

	if (records_read(out, hb, job, &records) == 0) {
		for (i = 0; i < records.count; i++)
			present += records.list[i].is_alive &&
				   strcmp(records.list[i].name, "rank/servers");
		records_check(out, &records);
		if (out->counts[OUT_WARNING] == before)
			out_line(out, present ? OUT_OK : OUT_NOTE, "job",
				 "%s: %zu rank%s present%s",
				 strcmp(job, "-") ? job : "no job id", present, present == 1
				 ? " is" : "s are", present > 1
				 ? ", and agree on who takes part and on the servers" : "");
	}
	records_free(&records);
}

void doctor_servers(struct out *out, struct hartebeest_context *hb, int64_t ranks)
{
	struct beest_hostport *servers = NULL;
	size_t i, count = 0;
	char text[4096];
	int failed = 0;

	out_title(out, LABEL, "servers");
	hartebeest_option_get(hb, "exchange.servers", text, sizeof(text), NULL);
	if (!text[0]) {
		out_line(out, OUT_WARNING, "server", "no Memcached server is named");
		out_cure(out, "HARTEBEEST_EXC_IP_PORT=host:11211, the same on all nodes; "
			 "'hartebeest run' starts its own");
		return;
	}
	if (beest_parse_hostports(text, &servers, &count) == 0)
		for (i = 0; i < count && !session_signal(); i++)
			failed |= check_server(out, &servers[i], ranks);
	free(servers);
	if (!failed)
		check_ranks(out, hb);
}
