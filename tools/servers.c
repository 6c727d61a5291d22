/* SPDX-License-Identifier: MIT */
/* servers.c - see doctor.h */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/kv/sentence.h"
#include "tools/doctor.h"
#include "tools/file.h"
#include "tools/ranks.h"
#include "tools/records.h"
#include "tools/server.h"
#include "tools/session.h"
#include "tools/store.h"

#define LABEL 12
#define PATIENCE (3 * BEEST_SECOND)

/* What this check stores on a server belongs to a job of its own. */
#define DOCTOR_JOB "doctor"
#define MARK_SECONDS 10
#define ADDRESSES 16
#define TURNS 3				/* connections to each address */

/* For other clients. */
#define SPARE_CONNECTIONS 16

#define SOMAXCONN_FILE "/proc/sys/net/core/somaxconn"
#define ITEM_SIZE (INT64_C(1) << 20)

struct facts {
	int64_t connections, connections_max, evictions, items, bytes, bytes_max, item_size;
	int64_t backlog;
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
		{ "maxconns", &facts->connections_max }, { "tcp_backlog", &facts->backlog },
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
	int64_t wanted = BEEST_MAX(ranks, 0) * SERVER_RANK_CONNECTIONS + SPARE_CONNECTIONS;
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

/* An address of this node?  Only then does this node's kernel limit the backlog. */
static bool is_here(const struct beest_hostport *server)
{
	struct beest_hostport list[ADDRESSES];
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_DGRAM };
	struct addrinfo *info = NULL;
	bool here = !server->port;
	int fd;

	if (here || !store_addresses(server, list, ADDRESSES) ||
	    getaddrinfo(list[0].host, NULL, &hints, &info))
		return here;
	fd = socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	here = fd >= 0 && bind(fd, info->ai_addr, info->ai_addrlen) == 0;
	if (fd >= 0)
		close(fd);
	freeaddrinfo(info);
	return here;
}

/* Ranks beyond it connect a second later, or after three, seven, ... */
static void check_backlog(struct out *out, const struct beest_hostport *server,
			  const struct facts *facts, int64_t ranks)
{
	char line[32];
	int64_t kernel = 0;

	if (ranks <= 0)
		return;
	if (file_line(line, sizeof(line), SOMAXCONN_FILE) && is_here(server))
		kernel = strtoll(line, NULL, 10);
	if (kernel && kernel < ranks) {
		out_line(out, OUT_WARNING, "backlog", "%" PRId64 " ranks may connect at once, and "
			 "this node lets %" PRId64 " wait (net.core.somaxconn): the others are "
			 "delayed by seconds", ranks, kernel);
		out_cure(out, "sysctl -w net.core.somaxconn=%" PRId64 ", and start memcached "
			 "again", ranks);
	} else if (facts->backlog && facts->backlog < ranks) {
		out_line(out, OUT_WARNING, "backlog", "%" PRId64 " ranks may connect at once, and "
			 "memcached lets %" PRId64 " wait: the others are delayed by seconds",
			 ranks, facts->backlog);
		out_cure(out, "memcached -b %" PRId64, ranks);
	} else if (facts->backlog) {
		out_line(out, OUT_OK, "backlog", "%" PRId64 " connections may wait%s",
			 kernel ? BEEST_MIN(kernel, facts->backlog) : facts->backlog,
			 kernel ? "" : ", if net.core.somaxconn of its node allows it");
	}
}

static void check_memory(struct out *out, const struct facts *facts, int64_t ranks)
{
	int64_t mesh = ranks * SERVER_RANK_BYTES;
	int64_t pairs = ranks * ranks * SERVER_PAIR_BYTES;

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
	out_json_int(item, "backlog", facts->backlog);
	out_json_int(item, "evictions", facts->evictions);
	out_json_int(item, "bytes", facts->bytes);
	out_json_int(item, "bytes_max", facts->bytes_max);
	out_json_int(item, "item_size", facts->item_size);
}

/* ---------------------------------------------------------- what is wrong --- */

/* A failure to read the secret is not the server's. */
#define SECRET "exchange.secret_file"

/* The first row whose error and word fit; 0 and NULL: any. */
static const struct remedy {
	int error;
	const char *word;		/* of the sentence */
	const char *cure;
} remedies[] = {
	{ 0, SECRET, "a file of this user alone, in a folder that all nodes share: 'hartebeest "
	  "serve --secret-dir FOLDER' makes one" },
	{ ECONNREFUSED, "(127.", "other nodes mean another address by this name: remove the "
	  "loopback address that /etc/hosts of this node gives it, or name the other address" },
	{ ECONNREFUSED, NULL, "start memcached there, listening on an address that the nodes reach "
	  "(-l), and open its port in the firewall" },
	{ EACCES, "socket file", "memcached -a 0777, or a mode that admits this user" },
	{ EACCES, "a rule of this host", "'ip route get ADDRESS' shows a prohibit route; else look "
	  "at SELinux, and at IPAddressDeny of systemd" },
	{ EACCES, NULL, "start memcached without -S and -Y: hartebeest(7), Security, has what to "
	  "use instead" },
	{ EADDRNOTAVAIL, NULL, "'getent hosts NAME' must find the name on every node" },
	{ EHOSTDOWN, BEEST_KV_UNANSWERED, "'nc -vz HOST PORT' on that host itself: if it connects "
	  "there, a firewall drops packets of this node (firewall-cmd --add-port=PORT/tcp); if "
	  "not, memcached has no room for more connections (-b, -c); 'ping HOST' and 'getent "
	  "hosts NAME' from here show whether it is up, and which address is meant" },
	{ EHOSTDOWN, BEEST_KV_SILENT, "check its process there, and its -c: memcached before 1.6 "
	  "is silent when it has too few connections (2 for each rank)" },
	{ EHOSTDOWN, NULL, "check the load of its host and of the network, and whether large "
	  "packets pass: ping -M do -s 1472 HOST" },
	{ EHOSTUNREACH, BEEST_KV_NO_SCOPE, "'ip -6 route get ADDRESS' names it; or give another "
	  "address of that host" },
	{ EHOSTUNREACH, NULL, "'ip route get ADDRESS' shows the route; if it is right, open the "
	  "port in the firewall there: firewall-cmd --add-port=PORT/tcp" },
	{ ENETUNREACH, BEEST_KV_NO_PORT, "'ss -s' counts the connections of this node: if they use "
	  "up net.ipv4.ip_local_port_range, end some or widen it; else 'ip route get ADDRESS' "
	  "shows the way" },
	{ ENOBUFS, "out of memory", "memcached with a larger -m, or without -M, which refuses "
	  "instead of evicting" },
	{ ENOBUFS, NULL, "look at the log of the server, or of the proxy and the one behind it" },
	{ EPROTO, "TLS", "start memcached without -Z, or a tunnel to it (stunnel) on each node, "
	  "and name that" },
	{ EPROTO, NULL, "HARTEBEEST_EXC_IP_PORT names the port of something else" },
	{ EUSERS, NULL, "memcached -c N allows more: 2 for each rank" },
	{ ECONNRESET, NULL, "look at the log of the server, and of proxies and firewalls on the "
	  "way, which may end connections; memcached -c N allows more: 2 for each rank" },
	{ 0, NULL, "check the name, the route and the firewall: 'nc -vz HOST PORT' from this "
	  "node" },
};

static void say_unreachable(struct out *out, int ret, const char *sentence)
{
	const struct remedy *row = remedies;

	while ((row->error && row->error != -ret) || (row->word && !strstr(sentence, row->word)))
		row++;
	out_line(out, OUT_FAILURE, "server", "%s", sentence);
	out_cure(out, "%s", row->cure);
}

/* Leaves out the library's words around the sentence about a server. */
static void sentence_trim(char *sentence)
{
	static const char *const ends[] = { "; to be deleted: ", "; wanted: " };
	char *begin = strstr(sentence, "server "), *end;
	size_t i;

	for (i = 0; i < BEEST_COUNT(ends); i++)
		if ((end = strstr(sentence, ends[i])))
			*end = '\0';
	if (begin)
		memmove(sentence, begin + strlen("server "), strlen(begin) - strlen("server ") + 1);
}

/*
 * Speaks to the server as the library does, in a job of its own: adds an epoch, and deletes what
 * is not there.  0, or an error with its @sentence.
 */
static int try_exchange(const struct beest_hostport *server, char *sentence, size_t size)
{
	char servers[sizeof(server->text) + 32];
	const char *const settings[] = {
		servers, "job.id=" DOCTOR_JOB, "log.level=none", NULL,
	};
	struct hartebeest_context *hb;
	int ret;

	snprintf(servers, sizeof(servers), "exchange.servers=%s", server->text);
	ret = session_try(&hb, settings);
	if (ret == 0) {
		ret = hartebeest_msg_delete(hb, "nothing", hartebeest_clock() + PATIENCE);
		hartebeest_close(hb);
	}
	snprintf(sentence, size, "%s", hartebeest_error());
	sentence_trim(sentence);
	return ret == -ENOENT && !strstr(sentence, SECRET) ? 0 : ret;
}

/* As long as two packets of a usual network, and not as long as two of one with large packets. */
#define LARGE 2500

/* What small requests do not show: do large packets pass on the way to a server and back? */
static bool large_pass(struct out *out, const struct beest_hostport *server)
{
	char servers[sizeof(server->text) + 32], name[64], bytes[LARGE];
	const char *const settings[] = {
		servers, "job.id=" DOCTOR_JOB, "log.level=none", NULL,
	};
	struct hartebeest_context *hb;
	size_t length;
	int ret;

	snprintf(servers, sizeof(servers), "exchange.servers=%s", server->text);
	memset(bytes, 'x', sizeof(bytes));
	if (session_try(&hb, settings) < 0)
		return true;
	snprintf(name, sizeof(name), "large/%d-%" PRId64, (int)getpid(), beest_clock_now());
	ret = hartebeest_msg_push(hb, name, bytes, sizeof(bytes),
				  hartebeest_clock() + PATIENCE);
	if (ret == 0)
		ret = hartebeest_msg_wait(hb, name, bytes, sizeof(bytes), &length,
					  hartebeest_clock() + PATIENCE);
	if (ret == 0)
		hartebeest_msg_delete(hb, name, hartebeest_clock() + PATIENCE);
	hartebeest_close(hb);
	if ((ret != -EHOSTDOWN && ret != -ETIMEDOUT) || session_signal())
		return true;
	out_line(out, OUT_FAILURE, "packets", "%s answers small requests, but not one of %d bytes "
		 "within %s: large packets are lost on the way", server->text, LARGE,
		 BEEST_SPAN(PATIENCE));
	out_cure(out, "the MTU of this node's interface, of the server's, and of VPNs or overlays "
		 "between them: ping -M do -s 1472 %s", server->host);
	return false;
}

/* ------------------------------------------------------------- one server --- */

static int ask_server(const struct beest_hostport *server, char *version, size_t size,
		      int64_t *time, struct facts *facts)
{
	struct store *store = NULL;
	int ret = store_open(&store, server, PATIENCE);

	*time = beest_clock_now();
	if (ret == 0)
		ret = store_version(store, version, size);
	*time = beest_clock_now() - *time;
	/* Settings are read first: their "evictions on" is not the number of evictions. */
	if (ret == 0)
		ret = store_stats(store, "settings", note_fact, facts);
	if (ret == 0)
		ret = store_stats(store, "", note_fact, facts);
	store_close(store);
	return ret;
}

/* A key that the first connection adds, and that all others must find. */
struct mark {
	char key[64];
	const struct beest_hostport *at;	/* where it was added; NULL: nowhere yet */
};

/* 1: the mark is there; 0: it is not, so another server answers; or a negative errno. */
static int mark_look(struct mark *mark, const struct beest_hostport *address)
{
	struct store *store = NULL;
	uint8_t *value = NULL;
	size_t size;
	int ret = store_open(&store, address, PATIENCE);

	if (ret == 0 && !mark->at) {
		ret = store_add(store, mark->key, "mark", MARK_SECONDS);
		mark->at = ret == 0 ? address : NULL;
		ret = ret == 0 ? 1 : ret;
	} else if (ret == 0) {
		ret = store_get(store, mark->key, &value, &size);
		ret = ret == 0 ? value != NULL : ret;
		free(value);
	}
	store_close(store);
	return ret;
}

static void say_several(struct out *out, const struct beest_hostport *server,
			const struct beest_hostport *one, const struct beest_hostport *other)
{
	if (one == other)
		out_line(out, OUT_FAILURE, "server", "%s: new connections lead to several servers, "
			 "each with keys of its own", one->text);
	else
		out_line(out, OUT_FAILURE, "server", "%s: different servers answer at %s and %s",
			 server->text, one->host, other->host);
	out_cure(out, "HARTEBEEST_EXC_IP_PORT with the address of one of them, the same on all "
		 "nodes");
}

/* A host's own name is often a loopback address there, and only there. */
static void check_loopback(struct out *out, const struct beest_hostport *server,
			   const struct beest_hostport *address)
{
	if (!server->port || !strcmp(server->host, address->host) ||
	    !strncmp(server->host, "localhost", strlen("localhost")) ||
	    (strncmp(address->host, "127.", 4) && strcmp(address->host, "::1")))
		return;
	out_line(out, OUT_WARNING, "address", "%s is %s on this node: other nodes cannot reach it "
		 "there", server->host, address->host);
	out_cure(out, "remove it from /etc/hosts of this node, or give the address that the other "
		 "nodes use");
}

/*
 * The library tries all addresses, so it is enough if one works; but all must lead to one server,
 * and so must new connections.  A server that demands a login refuses this check.
 */
static int check_addresses(struct out *out, const struct beest_hostport *server)
{
	struct beest_hostport list[ADDRESSES];
	size_t i, count = store_addresses(server, list, ADDRESSES);
	struct mark mark = { .at = NULL };
	int ret = 1, turn;

	snprintf(mark.key, sizeof(mark.key), "hb1/" DOCTOR_JOB "/mark/%d-%" PRId64, (int)getpid(),
		 beest_clock_now());
	if (count)
		check_loopback(out, server, &list[0]);
	for (i = 0; i < count && ret != 0; i++) {
		for (turn = 0, ret = 1; turn < TURNS && ret > 0; turn++)
			ret = mark_look(&mark, &list[i]);
		if (ret == 0)
			say_several(out, server, mark.at, &list[i]);
		else if (ret < 0 && count > 1)
			out_line(out, OUT_WARNING, "address", "%s; the other addresses are used "
				 "instead", beest_error_text());
	}
	return ret == 0 ? -EPROTO : 0;
}

static void check_state(struct out *out, const struct beest_hostport *server, int64_t ranks,
			bool exchanges)
{
	struct facts facts = { 0 };
	char version[64] = "";
	int64_t time = 0;

	if (ask_server(server, version, sizeof(version), &time, &facts) == 0) {
		facts_object(out, server->text, version, time, &facts);
		if (exchanges)
			out_line(out, OUT_OK, "server", "%s, memcached %s, %.2f ms", server->text,
				 version, (double)time / BEEST_MS);
		check_connections(out, &facts, ranks);
		check_backlog(out, server, &facts, ranks);
		check_memory(out, &facts, ranks);
	} else if (exchanges && !session_signal()) {
		out_line(out, OUT_WARNING, "server", "%s works, but does not show its state, as a "
			 "proxy or a server with a login: memory and connections are not checked",
			 server->text);
		out_cure(out, "'hartebeest doctor' with the address of the server itself");
	}
}

static int check_server(struct out *out, const struct beest_hostport *server, int64_t ranks)
{
	char sentence[1024];
	int ret;

	out_waiting(out, "asking %s", server->text);
	ret = try_exchange(server, sentence, sizeof(sentence));
	out_waiting_end(out);
	if (session_signal())
		return -ECANCELED;
	if (ret < 0)
		say_unreachable(out, ret, sentence);
	if (ret == 0 && !large_pass(out, server))
		return -EHOSTDOWN;
	/* Its state may show why it refuses, unless nothing answers at all. */
	if (ret == 0 || ret == -ENOBUFS || ret == -EPROTO || ret == -ENOSPC)
		check_state(out, server, ranks, ret == 0);
	return ret == 0 ? check_addresses(out, server) : ret;
}

/* Counts the ranks that are present, and checks that they agree. */
static void check_ranks(struct out *out, struct hartebeest_context *hb)
{
	struct records records;
	char text[1024];
	size_t present;
	int before = out->counts[OUT_WARNING];
	const char *job = hartebeest_job(hb), *name = strcmp(job, "-") ? job : "no job id";

	if (records_read(out, hb, job, &records) == 0) {
		records_check(out, &records);
		present = ranks_present(&records, text, sizeof(text));
		if (!present)
			out_line(out, OUT_NOTE, "job", "%s: no rank is present", name);
		else if (out->counts[OUT_WARNING] != before)
			out_line(out, OUT_NOTE, "job", "%s: %s", name, text);
		else
			out_line(out, OUT_OK, "job", "%s: %s%s", name, text, present > 1 ?
				 "; they agree on who takes part and on the servers" : "");
	}
	records_free(&records);
}

/* Launchers that pass no variable on unless an option asks for it.  The last row fits any. */
static const struct {
	const char *variable;		/* by which the launcher is known */
	const char *cure;
} passing[] = {
	{ "OMPI_COMM_WORLD_RANK", "Open MPI passes no variable on: 'hartebeest serve -- mpirun "
	  "...', or mpirun -x HARTEBEEST_EXC_IP_PORT" },
	{ "SLURM_STEP_ID", "'hartebeest serve -- srun ...', or HARTEBEEST_EXC_IP_PORT=host:11211 "
	  "in the environment of srun, which --export must not restrict" },
	{ NULL, "'hartebeest serve' and 'hartebeest run' start a server; or set "
	  "HARTEBEEST_EXC_IP_PORT=host:11211, the same on all nodes" },
};

static void say_unnamed(struct out *out)
{
	size_t i = 0;

	while (passing[i].variable && !getenv(passing[i].variable))
		i++;
	out_line(out, OUT_WARNING, "server", "no Memcached server is named");
	out_cure(out, "%s", passing[i].cure);
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
		say_unnamed(out);
		return;
	}
	if (beest_parse_hostports(text, &servers, &count) == 0)
		for (i = 0; i < count && !session_signal(); i++)
			failed |= check_server(out, &servers[i], ranks);
	free(servers);
	if (!failed)
		check_ranks(out, hb);
}
