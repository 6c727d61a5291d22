/* SPDX-License-Identifier: MIT */
/* records.c - see records.h */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/rendezvous/entry.h"
#include "lib/seal/secret.h"
#include "tools/command.h"
#include "tools/records.h"
#include "tools/session.h"

#define PREFIX "hb1/"
#define NAME_SIZE 100
#define PATIENCE (10 * BEEST_SECOND)

/* Presences are renewed after a third of their time to live, or this many seconds later. */
#define LATE 60

/* ------------------------------------------------------------- reading --- */

struct reading {
	struct records *records;
	int server;
	bool out_of_memory;
};

static void add_key(void *data, const char *key, int64_t left)
{
	struct reading *reading = data;
	struct records *records = reading->records;
	struct records_record *more, *record;

	more = realloc(records->list, (records->count + 1) * sizeof(*more));
	if (more)
		records->list = more;
	record = more ? &more[records->count] : NULL;
	if (record)
		memset(record, 0, sizeof(*record));
	if (!record || !(record->key = strdup(key))) {
		reading->out_of_memory = true;
		return;
	}
	record->name = strchr(record->key + strlen(PREFIX), '/');
	record->name = record->name ? record->name + 1 : record->key;
	record->server = reading->server;
	record->left = left;
	records->count++;
}

/* By key, and keys that several servers have by server. */
static int compare(const void *a, const void *b)
{
	const struct records_record *first = a, *second = b;
	int order = strverscmp(first->key, second->key);

	return order ? order : first->server - second->server;
}

static void decode(struct beest_seal *seal, struct records_record *record)
{
	record->ret = !record->bytes ? -ENOENT :
		      beest_record_decode(seal, record->bytes, record->size, BEEST_KIND_ANY,
					  record->key, &record->record);
	record->is_unopened = record->bytes && record->ret < 0 &&
			      beest_seal_is_on(record->bytes, record->size);
	record->is_presence = record->ret == 0 && record->record.kind == BEEST_KIND_RANK &&
			      beest_record_rank_decode(&record->record, &record->rank) == 0;
}

static int read_server(struct records *records, int server, const char *prefix, bool values)
{
	struct reading reading = { records, server, false };
	struct store *store = NULL;
	size_t i, first = records->count;
	int ret = store_open(&store, &records->servers[server], PATIENCE);

	if (ret == 0)
		ret = store_list(store, prefix, &records->listings[server], add_key, &reading);
	for (i = first; values && ret == 0 && i < records->count; i++) {
		ret = store_get(store, records->list[i].key, &records->list[i].bytes,
				&records->list[i].size);
		if (session_signal())
			ret = -ECANCELED;
		decode(records->seal, &records->list[i]);
	}
	store_close(store);
	return reading.out_of_memory ? -ENOMEM : ret;
}

/*
 * A server that lists no keys, as a proxy, may still answer for those whose names are known: the
 * epoch, the news, and the ranks that these settings name.
 */
static int read_known(struct records *records, struct hartebeest_context *hb, int server,
		      const char *prefix)
{
	struct reading reading = { records, server, false };
	struct store *store = NULL;
	uint8_t *value = NULL;
	char key[200];
	size_t bytes;
	int i, size = BEEST_MAX(hartebeest_size(hb), 0);
	int ret = store_open(&store, &records->servers[server], PATIENCE);

	for (i = -2; ret == 0 && i < size && !session_signal(); i++) {
		if (i < 0)
			snprintf(key, sizeof(key), "%s%s", prefix, i == -2 ? "epoch" : "news");
		else
			snprintf(key, sizeof(key), "%srank/%d", prefix,
				 hartebeest_participant(hb, i));
		ret = store_get(store, key, &value, &bytes);
		if (ret < 0 || !value)
			continue;
		add_key(&reading, key, -1);
		if (reading.out_of_memory) {
			free(value);
			break;
		}
		records->list[records->count - 1].bytes = value;
		records->list[records->count - 1].size = bytes;
		decode(records->seal, &records->list[records->count - 1]);
	}
	store_close(store);
	records->listings[server].command = "get";
	records->listings[server].cut = records->listings[server].by_name = true;
	return reading.out_of_memory ? -ENOMEM : ret;
}

/* ---------------------------------------------------------------- life --- */

static void judge_life(const struct records *records, struct records_record *record)
{
	static const char *const states[] = { "present", "has left", "has failed" };
	int64_t due = records->ttl - records->ttl / 3 - LATE;
	struct beest_incarnation own;
	enum beest_process_life life;

	record->life = states[BEEST_MIN(record->rank.state, BEEST_RANK_FAILED)];
	if (record->rank.state != BEEST_RANK_ALIVE)
		return;

	memset(&own, 0, sizeof(own));
	beest_process_mark(own.bytes);		/* zeros: of no place */
	life = beest_process_life(&record->record.incarnation, (pid_t)record->rank.pid,
				  record->rank.began, &own);
	record->is_alive = life == BEEST_PROCESS_UNKNOWN ?
			   record->left < 0 || record->left >= due : life == BEEST_PROCESS_ALIVE;
	if (!record->is_alive)
		record->life = life == BEEST_PROCESS_DEAD ? "its process has ended" :
			       "not renewed in time";
}

static int read_settings(struct out *out, struct hartebeest_context *hb, struct records *records)
{
	char servers[4096];
	size_t count;

	records->ttl = session_duration(hb, "exchange.ttl") / BEEST_SECOND;
	hartebeest_option_get(hb, "exchange.servers", servers, sizeof(servers), NULL);
	if (!servers[0]) {
		out_error(out, "no Memcached server is named: set HARTEBEEST_EXC_IP_PORT=host:port "
			  "to that of the job");
		return STATUS_FAILED;
	}
	if (beest_parse_hostports(servers, &records->servers, &count) < 0 ||
	    count > RECORDS_SERVERS) {
		out_error(out, "at most %d servers can be listed", RECORDS_SERVERS);
		return STATUS_FAILED;
	}
	records->server_count = (int)count;
	return STATUS_GOOD;
}

/* Records of a job are opened with its secret, if these settings have one. */
static int read_secret(struct out *out, struct hartebeest_context *hb, const char *job,
		       struct records *records)
{
	struct beest_secret secret;
	char path[4096];
	int ret;

	hartebeest_option_get(hb, "exchange.secret_file", path, sizeof(path), NULL);
	if (!job || !path[0])
		return STATUS_GOOD;
	ret = beest_secret_read(&secret, path);
	if (ret == 0)
		ret = beest_seal_open(&records->seal, secret.bytes, secret.size, job);
	beest_text_clear(&secret, sizeof(secret));
	if (ret == 0)
		return STATUS_GOOD;
	out_error(out, "HARTEBEEST_SECRET_FILE (exchange.secret_file): %s", beest_error_text());
	return STATUS_FAILED;
}

static void server_failed(struct out *out, int ret)
{
	if (ret == -EACCES || ret == -EPERM || ret == -EOPNOTSUPP)
		out_error(out, "%s; this server does not allow keys to be listed",
			  beest_error_text());
	else if (ret == -ENOMEM)
		out_error(out, "out of memory");
	else if (ret == -ECANCELED)
		return;
	else
		out_error(out, "%s; 'hartebeest doctor' shows more", beest_error_text());
}

/* Keeps the sentence of the first failure if this fails, too. */
static int read_instead(struct records *records, struct hartebeest_context *hb, int server,
			const char *prefix, int failure)
{
	char sentence[BEEST_ERROR_SIZE];

	snprintf(sentence, sizeof(sentence), "%s", beest_error_text());
	if (read_known(records, hb, server, prefix) == 0)
		return 0;
	return beest_fail(-failure, "%s", sentence);
}

int records_read(struct out *out, struct hartebeest_context *hb, const char *job,
		 struct records *records)
{
	int i, ret, status;
	char prefix[100];
	size_t j, before;

	memset(records, 0, sizeof(*records));
	status = read_settings(out, hb, records);
	if (status == STATUS_GOOD)
		status = read_secret(out, hb, job, records);
	if (status != STATUS_GOOD)
		return status;

	snprintf(prefix, sizeof(prefix), PREFIX "%s%s", job ? job : "", job ? "/" : "");
	for (i = 0; i < records->server_count; i++) {
		out_waiting(out, "listing the keys of %s", records->servers[i].text);
		before = records->count;
		ret = read_server(records, i, prefix, job != NULL);
		if (ret < 0 && ret != -ENOMEM && ret != -ECANCELED && ret != -EPERM && job &&
		    records->count == before)
			ret = read_instead(records, hb, i, prefix, ret);
		out_waiting_end(out);
		if (ret < 0) {
			server_failed(out, ret);
			return ret == -ETIMEDOUT ? STATUS_TIMEOUT : STATUS_FAILED;
		}
	}
	if (records->count)
		qsort(records->list, records->count, sizeof(*records->list), compare);
	for (j = 0; j < records->count; j++)
		if (records->list[j].is_presence)
			judge_life(records, &records->list[j]);
	return STATUS_GOOD;
}

void records_free(struct records *records)
{
	size_t i;

	for (i = 0; i < records->count; i++) {
		free(records->list[i].key);
		free(records->list[i].bytes);
	}
	free(records->list);
	free(records->servers);
	beest_seal_close(records->seal);
	memset(records, 0, sizeof(*records));
}

/* --------------------------------------------------------------- words --- */

/* The presence of an author; NULL: none. */
static const struct records_record *presence_of(const struct records *records,
						const struct beest_incarnation *author)
{
	const struct records_record *each;
	size_t i;

	for (i = 0; i < records->count; i++) {
		each = &records->list[i];
		if (each->is_presence && strcmp(each->name, "rank/servers") &&
		    beest_process_is_context(&each->record.incarnation, author))
			return each;
	}
	return NULL;
}

/* "rank 3", "pid 17 on cn08".  @rank: from the author's record; -1: unknown. */
static void add_author(struct beest_text *text, const struct records *records,
		       const struct beest_incarnation *author, int32_t rank)
{
	const struct records_record *presence = presence_of(records, author);

	if (!presence && rank >= 0)
		beest_text_add(text, "an earlier process of rank %d", rank);
	else if (!presence)
		beest_text_add(text, "a process that is gone");
	else if (presence->record.rank >= 0)
		beest_text_add(text, "rank %d", presence->record.rank);
	else
		beest_text_add(text, "pid %u on %s", presence->rank.pid, presence->rank.host);
}

static void add_presence(struct beest_text *text, const struct records *records,
			 const struct records_record *record)
{
	const struct beest_rank_body *rank = &record->rank;

	(void)records;
	if (!record->is_presence) {
		beest_text_add(text, "unreadable");
		return;
	}
	beest_text_add(text, "%s, pid %u on %s", record->life, rank->pid, rank->host);
	if (rank->device[0])
		beest_text_add(text, ", %s", rank->device);
	if (rank->size)
		beest_text_add(text, ", one of %u", rank->size);
	if (rank->waits[0] && rank->state == BEEST_RANK_ALIVE)
		beest_text_add(text, ", last waited for %s", rank->waits);
	if (rank->reason[0])
		beest_text_add(text, ": %s", rank->reason);
}

static void add_endpoint(struct beest_text *text, const struct beest_endpoint *endpoint)
{
	static const char *const transports[] = { "", "", "RC", "UC", "UD" };

	beest_text_add(text, "%s qp %u, ", endpoint->qp_type < BEEST_COUNT(transports)
		       ? transports[endpoint->qp_type] : "?", endpoint->qp_num);
	if (endpoint->link_layer == IBV_LINK_LAYER_INFINIBAND)
		beest_text_add(text, "InfiniBand lid %u", endpoint->lid);
	else
		beest_text_add(text, "%s %s", beest_endpoint_roce_text(endpoint->roce),
			       BEEST_GID_TEXT(&endpoint->gid));
	beest_text_add(text, ", mtu %d", 128 << endpoint->mtu);
}

static void add_qp(struct beest_text *text, const struct records *records,
		   const struct records_record *record)
{
	struct beest_qp_body body;

	if (beest_record_qp_decode(&record->record, &body) < 0) {
		beest_text_add(text, "unreadable");
		return;
	}
	add_endpoint(text, &body.endpoint);
	if (record->record.flags & BEEST_RECORD_ECHO) {
		beest_text_add(text, ", connected to qp %u of ", body.echo.qp_num);
		add_author(text, records, &body.echo.incarnation, -1);
	} else {
		beest_text_add(text, ", not connected%s%s", body.reason[0] ? ": " : "",
			       body.reason);
	}
	if (body.regions)
		beest_text_add(text, ", %u region%s", body.regions, body.regions == 1 ? "" : "s");
	if (record->record.flags & BEEST_RECORD_CLOSED)
		beest_text_add(text, "; closed");
}

static void add_mr(struct beest_text *text, const struct records *records,
		   const struct records_record *record)
{
	struct hartebeest_remote_mr region;

	(void)records;
	if (beest_record_mr_decode(&record->record, &region) < 0)
		beest_text_add(text, "unreadable");
	else
		beest_text_add(text, "%" PRIu64 " bytes at 0x%" PRIx64 ", rkey 0x%x, access 0x%x",
			       region.length, region.address, region.rkey, region.access);
}

static void add_message(struct beest_text *text, const struct records *records,
			const struct records_record *record)
{
	struct beest_message_body body;

	(void)records;
	if (beest_record_message_decode(&record->record, &body) < 0)
		beest_text_add(text, "unreadable");
	else if (body.taken)
		beest_text_add(text, "message for one reader, which has taken it");
	else
		beest_text_add(text, "message of %zu byte%s%s", body.size,
			       body.size == 1 ? "" : "s", body.once ? ", for one reader" : "");
}

static void add_foreign(struct beest_text *text, const struct beest_entry_reader *reader)
{
	if (reader->foreign)
		beest_text_add(text, "; %zu entries of another secret or version",
			       reader->foreign);
}

static const char *function_of(const struct beest_fence_setup *setup)
{
	static const char *const words[] = {
		[BEEST_FENCE_BARRIER] = "barrier",
		[BEEST_FENCE_GATHER] = "gather",
		[BEEST_FENCE_MESH] = "mesh",
	};

	return setup->what && setup->what < BEEST_COUNT(words) ? words[setup->what] : "fence";
}

static void add_member(struct beest_text *text, const struct records *records,
		       const struct records_record *record)
{
	struct beest_member_body body;

	(void)records;
	if (beest_record_member_decode(&record->record, &body) < 0) {
		beest_text_add(text, "unreadable");
		return;
	}
	beest_text_add(text, "%s of %u ranks, ", function_of(&body.setup), body.setup.size);
	if (body.refusal.error)
		beest_text_add(text, "refused: %s", body.refusal.text);
	else if (body.pass)		/* the call that makes the view passes first */
		beest_text_add(text, "arrived at pass %" PRIu64, body.pass + 1);
	else if (body.view)
		beest_text_add(text, "call %u: acknowledges the view that was proposed", body.call);
	else
		beest_text_add(text, "call %u: arrived, contributes %zu bytes", body.call,
			       body.size);
}

static void add_missing(struct beest_text *text, const struct beest_leader_body *body)
{
	size_t i;

	for (i = 0; i < body->range_count; i++) {
		beest_text_add(text, i ? ", %u" : "; missing: %u", body->missing[i].first);
		if (body->missing[i].last != body->missing[i].first)
			beest_text_add(text, "-%u", body->missing[i].last);
	}
}

/* The call that makes a view is the first to pass with it. */
static void add_committed(struct beest_text *text, const struct beest_leader_body *body)
{
	beest_text_add(text, "a view is committed");
	if (body->setup.what == BEEST_FENCE_BARRIER)
		beest_text_add(text, ", passed %" PRIu64 " time%s with it", body->passes + 1,
			       body->passes ? "s" : "");
}

static void add_leader(struct beest_text *text, const struct records *records,
		       const struct records_record *record)
{
	struct beest_leader_body body;

	(void)records;
	if (beest_record_leader_decode(&record->record, &body) < 0) {
		beest_text_add(text, "unreadable");
		return;
	}
	beest_text_add(text, "%s of %u ranks, led here: call %u, ", function_of(&body.setup),
		       body.setup.size, body.call);
	if (body.failure.error)
		beest_text_add(text, "failed: %s", body.failure.text);
	else if (body.proposed)
		beest_text_add(text, "a view is proposed");
	else if (body.committed)
		add_committed(text, &body);
	else
		beest_text_add(text, "ranks are counted");
	add_missing(text, &body);
}

static void add_chunk(struct beest_text *text, const struct records *records,
		      const struct records_record *record)
{
	(void)records;
	beest_text_add(text, "what some ranks contribute to a view, %zu bytes",
		       record->record.size);
}

static void add_numbers(struct beest_text *text, const struct records *records,
			const struct records_record *record)
{
	(void)records;
	beest_text_add(text, "queue pair numbers of a mesh, %zu bytes", record->record.size);
}

/* One of the words that a service's list has of a request. */
struct mention {
	struct beest_request_id id;
	uint8_t word;
};

/* What a service's list shows. */
struct service {
	uint8_t shows;			/* of the last listener: BEEST_SERVICE_LISTENS or _STOPS;
					   0: nothing */
	uint64_t since;
	int32_t rank;
	struct beest_incarnation listener;
	struct mention *mentions;
	size_t count;
};

/* By request, the greatest word first. */
static int compare_mentions(const void *a, const void *b)
{
	const struct mention *first = a, *second = b;

	if (first->id.client != second->id.client)
		return first->id.client < second->id.client ? -1 : 1;
	if (first->id.number != second->id.number)
		return first->id.number < second->id.number ? -1 : 1;
	return second->word - first->word;
}

/* Of two that began in the same second, the one with the greater incarnation listens. */
static void take_listener(struct service *service, const struct beest_record *entry,
			  const struct beest_service_body *body)
{
	if (body->since < service->since ||
	    (body->since == service->since &&
	     memcmp(&entry->incarnation, &service->listener, sizeof(entry->incarnation)) < 0))
		return;
	service->shows = body->word;
	service->since = body->since;
	service->rank = entry->rank;
	service->listener = entry->incarnation;
}

static int take_mentions(struct service *service, const struct beest_service_body *body)
{
	struct mention *more;
	size_t i;

	if (body->word < BEEST_SERVICE_ASKS || body->word > BEEST_SERVICE_ENDED || !body->count)
		return 0;
	more = realloc(service->mentions, (service->count + body->count) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	service->mentions = more;
	for (i = 0; i < body->count; i++)
		more[service->count++] = (struct mention){ body->ids[i], body->word };
	return 0;
}

/* -ENOMEM, -EIO. */
static int read_service(struct service *service, struct beest_entry_reader *reader)
{
	struct beest_service_body body;
	struct beest_record entry;
	int ret;

	memset(service, 0, sizeof(*service));
	while ((ret = beest_entry_next(reader, &entry)) > 0) {
		if (beest_record_service_decode(&entry, &body) < 0)
			continue;
		if (body.word == BEEST_SERVICE_LISTENS || body.word == BEEST_SERVICE_STOPS)
			take_listener(service, &entry, &body);
		else if (take_mentions(service, &body) < 0)
			return -ENOMEM;
	}
	return ret;
}

static void add_listener(struct beest_text *text, const struct records *records,
			 const struct service *service)
{
	const struct records_record *presence = presence_of(records, &service->listener);
	bool is_alive = presence && presence->is_alive;

	if (service->shows == BEEST_SERVICE_LISTENS && is_alive) {
		add_author(text, records, &service->listener, service->rank);
		beest_text_add(text, " listens");
		return;
	}
	beest_text_add(text, "no process listens");
	if (!service->shows)
		return;
	beest_text_add(text, ", the last was ");
	add_author(text, records, &service->listener, service->rank);
	if (presence)
		beest_text_add(text, " (%s)", is_alive ? "has stopped" : presence->life);
}

/* A request counts once, by the greatest word that the list has of it. */
static void add_requests(struct beest_text *text, const struct service *service)
{
	size_t counts[BEEST_SERVICE_ENDED + 1] = { 0 }, requests = 0, i;
	const struct mention *each = service->mentions;

	for (i = 0; i < service->count; i++, each++) {
		if (i && each->id.client == each[-1].id.client &&
		    each->id.number == each[-1].id.number)
			continue;
		requests++;
		counts[each->word]++;
	}
	beest_text_add(text, "; %zu request%s: %zu waiting, %zu accepted, %zu ended", requests,
		       requests == 1 ? "" : "s", counts[BEEST_SERVICE_ASKS],
		       counts[BEEST_SERVICE_ACCEPTED], counts[BEEST_SERVICE_ENDED]);
}

static void add_list(struct beest_text *text, const struct records *records,
		     const struct records_record *record)
{
	struct beest_entry_reader reader;
	struct service service;
	int ret;

	beest_entry_read(&reader, records->seal, BEEST_KIND_SERVICE, record->key, record->bytes,
			 record->size);
	ret = read_service(&service, &reader);
	beest_text_add(text, "list: ");
	if (ret < 0) {
		beest_text_add(text, "%s", strerror(-ret));
	} else {
		if (service.count)
			qsort(service.mentions, service.count, sizeof(*service.mentions),
			      compare_mentions);
		add_listener(text, records, &service);
		add_requests(text, &service);
	}
	free(service.mentions);
	add_foreign(text, &reader);
}

static void add_request(struct beest_text *text, const struct records *records,
			const struct records_record *record)
{
	struct beest_request_body body;

	(void)records;
	if (record->record.flags & BEEST_RECORD_CLOSED)
		beest_text_add(text, "a request, ended by its listener");
	else if (beest_record_request_decode(&record->record, &body) < 0)
		beest_text_add(text, "unreadable");
	else
		beest_text_add(text, "request of pid %u on %s, %u bytes", body.pid, body.host,
			       body.length);
}

static const struct kind {
	enum beest_record_kind kind;
	void (*add)(struct beest_text *text, const struct records *records,
		    const struct records_record *record);
} kinds[] = {
	{ BEEST_KIND_RANK, add_presence },
	{ BEEST_KIND_QP, add_qp },
	{ BEEST_KIND_MR, add_mr },
	{ BEEST_KIND_MESSAGE, add_message },
	{ BEEST_KIND_REQUEST, add_request },
	{ BEEST_KIND_MEMBER, add_member },
	{ BEEST_KIND_LEADER, add_leader },
	{ BEEST_KIND_CHUNK, add_chunk },
	{ BEEST_KIND_NUMBERS, add_numbers },
};

/* Keys whose values are not records, by how their names begin and end. */
static const struct plain {
	const char *begin, *end, *words;
	bool is_number;			/* a counter, whose value is shown */
} plains[] = {
	{ "counter/", "", "is the sum of all additions", true },
	{ "epoch", "epoch", "random bytes, which change when this server loses everything", false },
	{ "news", "news", "random bytes, which change when a rank leaves or fails", false },
	{ "starts/", "", "the processes of a rank that began within the last seconds", false },
};

static bool is_between(const char *name, const char *begin, const char *end)
{
	size_t length = strlen(name), last = strlen(end);

	return length >= last && !strcmp(name + length - last, end) &&
	       !strncmp(name, begin, strlen(begin));
}

static bool is_plain(const struct plain *plain, const char *name)
{
	return is_between(name, plain->begin, plain->end);
}

static void add_plain(struct beest_text *text, const struct records_record *record)
{
	const struct plain *plain = plains, *end = plains + BEEST_COUNT(plains);

	while (plain < end && !is_plain(plain, record->name))
		plain++;
	if (plain < end && plain->is_number)
		beest_text_add(text, "counter: %.*s ", (int)BEEST_MIN(record->size, 20),
			       (const char *)record->bytes);
	if (plain < end)
		beest_text_add(text, "%s", plain->words);
	else if (record->ret == -EKEYREJECTED)
		beest_text_add(text,
			       "a record that is not sealed; ranks with the secret ignore it");
	else
		beest_text_add(text, "%zu bytes, not a record", record->size);
}

static void add_sealed(struct beest_text *text, const struct records_record *record)
{
	if (record->ret == -ENOKEY)
		beest_text_add(text, "sealed, %zu bytes; set HARTEBEEST_SECRET_FILE to read it",
			       record->size);
	else
		beest_text_add(text, "sealed, %s", record->ret == -EKEYREJECTED ?
			       "with another secret" : "and forged, damaged, or of another key");
}

void records_text(const struct records *records, const struct records_record *record,
		  char *buffer, size_t size)
{
	const enum beest_record_kind kind = record->record.kind;
	struct beest_text text;
	size_t i = 0;

	beest_text_start(&text, buffer, size);
	if (!record->bytes) {
		beest_text_add(&text, "gone meanwhile");
		return;
	}
	if (is_between(record->name, "service/", "/list")) {
		add_list(&text, records, record);
		return;
	}
	if (record->is_unopened) {
		add_sealed(&text, record);
		return;
	}
	if (record->ret < 0) {
		add_plain(&text, record);
		return;
	}
	while (i < BEEST_COUNT(kinds) && kinds[i].kind != kind)
		i++;
	if (i < BEEST_COUNT(kinds))
		kinds[i].add(&text, records, record);
	else
		beest_text_add(&text, "%s, %zu bytes", beest_record_row(kind)->noun,
			       record->record.size);
	if (!record->is_presence) {
		beest_text_add(&text, "; of ");
		add_author(&text, records, &record->record.incarnation, record->record.rank);
	}
}

/* ------------------------------------------------------------ agreement --- */

/* "rank 3 on cn08", or "pid 17 on cn08" for a process without a rank. */
static const char *name_of(const struct records_record *record, char name[NAME_SIZE])
{
	if (record->record.rank >= 0)
		snprintf(name, NAME_SIZE, "rank %d on %s", record->record.rank, record->rank.host);
	else
		snprintf(name, NAME_SIZE, "pid %u on %s", record->rank.pid, record->rank.host);
	return name;
}

static void check_participants(struct out *out, const struct records_record *first,
			       const struct records_record *other)
{
	const struct beest_rank_body *a = &first->rank, *b = &other->rank;
	char one[NAME_SIZE], two[NAME_SIZE];

	if (a->participants == b->participants)
		return;
	name_of(first, one), name_of(other, two);
	if (a->size != b->size)
		out_line(out, OUT_WARNING, "ranks", "%s counts %u ranks, %s %u", one, a->size, two,
			 b->size);
	else
		out_line(out, OUT_WARNING, "ranks", "%s and %s name different participants", one,
			 two);
	out_cure(out, "give both the same HARTEBEEST_PARTICIPANTS, or start both by one launcher");
}

static void check_servers(struct out *out, const struct records_record *first,
			  const struct records_record *other)
{
	char one[NAME_SIZE], two[NAME_SIZE];

	if (first->rank.servers == other->rank.servers)
		return;
	out_line(out, OUT_WARNING, "servers", "%s and %s name different servers",
		 name_of(first, one), name_of(other, two));
	out_cure(out, "give both the same HARTEBEEST_EXC_IP_PORT");
}

/* Some processes do not know the participants, such as a script that pushes a message. */
void records_check(struct out *out, const struct records *records)
{
	const struct records_record *first = NULL, *counted = NULL, *each;
	size_t i;

	for (i = 0; i < records->count; i++) {
		each = &records->list[i];
		if (!each->is_alive)
			continue;
		if (!first)
			first = each;
		check_servers(out, first, each);
		if (!each->rank.participants)
			continue;
		if (!counted)
			counted = each;
		check_participants(out, counted, each);
	}
}
