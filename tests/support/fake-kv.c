/* SPDX-License-Identifier: MIT */
/* fake-kv.c - see fake-kv.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/nodefiles.h"
#include "lib/kv/choice.h"
#include "lib/kv/request.h"
#include "tests/support/fake-kv.h"

#define BUCKETS 8192
#define LAZY_TIME (100 * BEEST_MS)

struct fake_kv fake_kv;

struct fake_kv_item {
	struct fake_kv_item *older, *newer;	/* by their last use */
	struct fake_kv_item *next;		/* in the bucket */
	struct fake_kv_item **bucket;
	int64_t expiry;
	uint64_t unique;			/* another one with each write */
	char key[BEEST_KEY_MAX + 1];
	size_t size;
	uint8_t value[];
};

struct fake_kv_late {
	struct fake_kv_late *next;
	struct fake_kv_server *server;
	struct beest_kv_write write;		/* with copies of key and value */
};

struct connection {
	bool used;
	uint64_t boot, renewal;		/* of the server and the fake, when it was made */
	int64_t heard;
};

struct beest_kv {
	size_t count;
	struct beest_choice *choices;
	struct fake_kv_server **servers;
	struct connection *connections;		/* one for each server */
};

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

/* ----------------------------------------------------------------- content --- */

/* Keys differ mostly at their ends. */
static struct fake_kv_item **bucket_of(struct fake_kv_server *server, const char *key)
{
	size_t length = strlen(key);
	uint32_t hash = 5381;

	key += length > 12 ? length - 12 : 0;
	while (*key)
		hash = hash * 33 ^ (uint8_t)*key++;
	if (!server->buckets)
		server->buckets = must(calloc(BUCKETS, sizeof(*server->buckets)));
	return &server->buckets[hash % BUCKETS];
}

static void list_remove(struct fake_kv_server *server, struct fake_kv_item *item)
{
	*(item->older ? &item->older->newer : &server->oldest) = item->newer;
	*(item->newer ? &item->newer->older : &server->newest) = item->older;
}

static void list_append(struct fake_kv_server *server, struct fake_kv_item *item)
{
	item->newer = NULL;
	item->older = server->newest;
	*(item->older ? &item->older->newer : &server->oldest) = item;
	server->newest = item;
}

static void item_remove(struct fake_kv_server *server, struct fake_kv_item *item)
{
	struct fake_kv_item **at = item->bucket;

	while (*at != item)
		at = &(*at)->next;
	*at = item->next;
	list_remove(server, item);
	server->items--;
	server->bytes -= strlen(item->key) + item->size;
	free(item);
}

static struct fake_kv_item *item_find(struct fake_kv_server *server, const char *key)
{
	struct fake_kv_item *item = *bucket_of(server, key);

	while (item && strcmp(item->key, key))
		item = item->next;
	if (item && item->expiry <= beest_clock_now()) {
		item_remove(server, item);
		item = NULL;
	}
	return item;
}

static struct fake_kv_item *item_use(struct fake_kv_server *server, const char *key)
{
	struct fake_kv_item *item = item_find(server, key);

	if (item) {
		list_remove(server, item);
		list_append(server, item);
	}
	return item;
}

/* Makes room for @size more bytes.  False: there is none. */
static bool room_make(struct fake_kv_server *server, size_t size)
{
	if (!server->bytes_max)
		return true;
	while (server->bytes + size > server->bytes_max && !server->refuses && server->oldest) {
		item_remove(server, server->oldest);
		server->evictions++;
	}
	return server->bytes + size <= server->bytes_max;
}

/*
 * As on a real server, the old value is gone even if there is no room for the new one, unless that
 * was to replace it by compare-and-swap.
 */
static int item_store(struct fake_kv_server *server, const struct beest_kv_write *write)
{
	struct fake_kv_item *item = item_find(server, write->key);
	size_t length = strlen(write->key);
	int64_t ttl = BEEST_MIN(write->ttl, BEEST_TTL_MAX / BEEST_SECOND);

	if (item && write->verb != BEEST_KV_CAS)
		item_remove(server, item);
	if (server->item_max && write->size > server->item_max)
		return -EMSGSIZE;
	if (!room_make(server, length + write->size))
		return -ENOBUFS;
	item = item_find(server, write->key);
	if (item)
		item_remove(server, item);
	if (ttl < 0)
		return 0;

	item = must(calloc(1, sizeof(*item) + write->size + 1));
	memcpy(item->key, write->key, length);
	if (write->size)
		memcpy(item->value, write->value, write->size);
	item->size = write->size;
	item->unique = ++fake_kv.uniques;
	item->expiry = ttl ? beest_clock_deadline(ttl * BEEST_SECOND) : INT64_MAX;
	item->bucket = bucket_of(server, write->key);
	item->next = *item->bucket;
	*item->bucket = item;
	list_append(server, item);
	server->items++;
	server->bytes += length + item->size;
	return 0;
}

static int item_increment(struct fake_kv_server *server, struct beest_kv_write *write)
{
	struct fake_kv_item *item = item_use(server, write->key);
	struct beest_kv_write after = { .verb = BEEST_KV_SET, .key = write->key };
	char digits[24];
	int64_t expiry;

	if (!item)
		return -ENOENT;
	if (!item->size || strspn((const char *)item->value, "0123456789") != item->size)
		return -EBADMSG;

	snprintf(digits, sizeof(digits), "%.*s", (int)item->size, (const char *)item->value);
	write->number = strtoull(digits, NULL, 10) + BEEST_MAX(write->delta, 1);
	after.size = (size_t)snprintf(digits, sizeof(digits), "%llu",
				      (unsigned long long)write->number);
	after.value = digits;
	expiry = item->expiry;
	if (item_store(server, &after) < 0)
		return -ENOBUFS;
	server->newest->expiry = expiry;
	return 0;
}

static int item_extend(struct fake_kv_server *server, const struct beest_kv_write *write)
{
	struct fake_kv_item *item = item_use(server, write->key);
	struct beest_kv_write after = { .verb = BEEST_KV_SET, .key = write->key };
	uint8_t *value;
	int64_t expiry;
	int ret;

	if (!item)
		return -ENOENT;
	after.size = item->size + write->size;
	/* A real server says then that it did not store it, and the old value stays. */
	if (server->item_max && after.size > server->item_max)
		return -ENOENT;
	value = must(malloc(after.size + 1));
	memcpy(value, item->value, item->size);
	memcpy(value + item->size, write->value, write->size);
	after.value = value;
	expiry = item->expiry;
	ret = item_store(server, &after);
	if (ret == 0)
		server->newest->expiry = expiry;
	free(value);
	return ret;
}

/* The result of this write on a real server. */
static int write_apply(struct fake_kv_server *server, struct beest_kv_write *write)
{
	struct fake_kv_item *item;

	switch (write->verb) {
	case BEEST_KV_SET:
		return item_store(server, write);
	case BEEST_KV_ADD:
		return item_use(server, write->key) ? -EEXIST : item_store(server, write);
	case BEEST_KV_INCR:
		return item_increment(server, write);
	case BEEST_KV_APPEND:
		return item_extend(server, write);
	case BEEST_KV_CAS:
		item = item_use(server, write->key);
		if (item && item->unique != write->unique)
			return -EEXIST;
		return item ? item_store(server, write) : -ENOENT;
	case BEEST_KV_DELETE:
		break;
	}
	item = item_find(server, write->key);
	if (!item)
		return -ENOENT;
	item_remove(server, item);
	return 0;
}

static void server_clear(struct fake_kv_server *server)
{
	while (server->oldest)
		item_remove(server, server->oldest);
}

static void server_expire(struct fake_kv_server *server)
{
	struct fake_kv_item *item, *newer;
	int64_t now = beest_clock_now();

	for (item = server->oldest; item; item = newer) {
		newer = item->newer;
		if (item->expiry <= now)
			item_remove(server, item);
	}
}

/* ---------------------------------------------------------------- failures --- */

void fake_kv_fail(enum fake_kv_unit unit, int nth, int error, enum fake_kv_manner manner)
{
	size_t i = 0;

	while (i < FAKE_KV_FAILURES && fake_kv.failures[i].nth)
		i++;
	if (i == FAKE_KV_FAILURES)
		abort();
	fake_kv.failures[i] = (struct fake_kv_failure){ nth ? nth : -1, unit, manner, error };
}

/* Counts one more of @unit; returns the failure that is due, or NULL. */
static const struct fake_kv_failure *failure_next(enum fake_kv_unit unit)
{
	struct fake_kv_failure *failure;
	const struct fake_kv_failure *due = NULL;
	size_t i;

	for (i = 0; i < FAKE_KV_FAILURES; i++) {
		failure = &fake_kv.failures[i];
		if (failure->unit != unit || !failure->nth)
			continue;
		if (failure->nth > 0 && --failure->nth > 0)
			continue;
		due = failure;
		fake_kv.fired++;
	}
	return due;
}

static void late_keep(struct fake_kv_server *server, const struct beest_kv_write *write)
{
	struct fake_kv_late *late = must(calloc(1, sizeof(*late))), **end = &fake_kv.late;
	void *value = must(malloc(write->size + 1));

	if (write->size)
		memcpy(value, write->value, write->size);
	late->server = server;
	late->write = *write;
	late->write.key = must(strdup(write->key));
	late->write.value = value;
	while (*end)
		end = &(*end)->next;
	*end = late;
}

static void late_free(struct fake_kv_late *late)
{
	free((void *)late->write.key);
	free((void *)late->write.value);
	free(late);
}

size_t fake_kv_apply_late(void)
{
	struct fake_kv_late *late;
	size_t count = 0;

	while ((late = fake_kv.late)) {
		fake_kv.late = late->next;
		write_apply(late->server, &late->write);
		late_free(late);
		count++;
	}
	return count;
}

/* ---------------------------------------------------------------- requests --- */

/* A request on its way. */
struct trip {
	struct beest_kv *kv;
	struct fake_kv_server *server;
	struct beest_kv_request *request;
	const struct fake_kv_failure *failure;	/* of the whole request */
	bool late;				/* from here on, writes are kept */
	int waits;		/* round trips that cannot be shared */
	bool read;		/* one round trip shared by all requests of a run */
};

static int trip_fail(const struct trip *trip, int error)
{
	return beest_fail(error, "server %s: %s", trip->server->text, strerror(error));
}

static void command_count(struct trip *trip, size_t keys)
{
	fake_kv.commands++;
	fake_kv.keys += keys;
	trip->server->commands++;
}

/* -errno: this command ends its request, apart from any result of write_apply(). */
static int command_broken(struct trip *trip, enum fake_kv_manner *manner, bool is_write)
{
	const struct fake_kv_failure *one = failure_next(FAKE_KV_COMMAND), *other = NULL;

	if (is_write)
		other = failure_next(FAKE_KV_WRITE);
	if (!one)
		one = other;
	if (!one)
		return 0;
	*manner = one->manner;
	return trip_fail(trip, one->error);
}

/* *@result: the server's answer, whether or not it is read.  Returns the request's failure. */
static int write_send(struct trip *trip, struct beest_kv_write *write, int *result)
{
	enum fake_kv_manner manner = FAKE_KV_REFUSED;
	int ret = command_broken(trip, &manner, true);

	*result = 0;
	command_count(trip, 1);
	if (trip->late || (ret < 0 && manner == FAKE_KV_LATE)) {
		trip->late = true;
		late_keep(trip->server, write);
		return ret;
	}
	if (ret == 0 || manner == FAKE_KV_LOST)
		*result = write_apply(trip->server, write);
	return ret;
}

/* Answers after which a real connection is closed. */
static bool is_fatal(int result)
{
	return result < 0 && result != -ENOENT && result != -EEXIST;
}

static int write_run(struct trip *trip, struct beest_kv_write *write)
{
	bool answered = write->answered;
	struct beest_kv_write copy = *write;
	int ret, result;

	ret = write_send(trip, &copy, &result);
	trip->waits += answered;
	if (ret < 0)
		return ret;
	if (is_fatal(result) && answered)
		return trip_fail(trip, -result);
	if (answered) {
		write->ret = result;
		write->done = !trip->late;
		write->number = result < 0 ? 0 : copy.number;
	}
	return 0;
}

/* The rest of a late request is applied after the write that failed. */
static int writes_run(struct trip *trip)
{
	struct beest_kv_request *request = trip->request;
	int one, ret = 0;
	size_t i;

	for (i = 0; i < request->write_count && (ret == 0 || trip->late); i++) {
		one = write_run(trip, &request->writes[i]);
		ret = ret < 0 ? ret : one;
	}
	return ret;
}

static int opening_run(struct trip *trip)
{
	struct beest_kv_write copy;
	int result;

	if (!trip->request->opening)
		return 0;
	copy = *trip->request->opening;

	return write_send(trip, &copy, &result);
}

static void value_copy(struct fake_kv_server *server, const char *key, bool uniques,
		       struct beest_kv_value *value)
{
	struct fake_kv_item *item = item_use(server, key);

	if (!item)
		return;
	value->bytes = must(malloc(item->size ? item->size : 1));
	memcpy(value->bytes, item->value, item->size);
	value->size = item->size;
	value->unique = uniques ? item->unique : 0;
}

static int keys_run(struct trip *trip, size_t count)
{
	struct beest_kv_request *request = trip->request;
	enum fake_kv_manner manner;
	size_t i;
	int ret;

	ret = command_broken(trip, &manner, false);
	command_count(trip, count);
	if (ret < 0)
		return ret;

	for (i = 0; i < count; i++) {
		beest_kv_values_free(&request->values[i], 1);
		value_copy(trip->server, request->keys[i], request->uniques, &request->values[i]);
	}
	if (!request->values[0].bytes)
		return beest_fail(ENODATA, "server %s: '%s' is missing from its answer",
				  trip->server->text, request->keys[0]);
	return 0;
}

static int request_go(struct trip *trip, bool lazy)
{
	struct beest_kv_request *request = trip->request;
	bool ends_answered = beest_request_ends_answered(request);
	bool canary = request->fresh && request->key_count &&
		       beest_request_has_answers(request);
	int ret = 0;

	if (canary) {
		ret = opening_run(trip);
		trip->waits++;
		if (ret == 0)
			ret = keys_run(trip, 1);
	}
	if (ret == 0)
		ret = writes_run(trip);
	if (ret == 0 && request->fresh && !canary && !ends_answered)
		ret = opening_run(trip);
	if (ret == 0 && lazy && !ends_answered)
		return 0;
	trip->read = !ends_answered;
	if (ret == 0 && trip->read)
		ret = keys_run(trip, request->key_count);
	request->answered = ret == 0;
	return ret;
}

static bool is_used(const struct connection *connection)
{
	return connection->used && connection->renewal == fake_kv.renewal;
}

static bool is_lazy(const struct trip *trip, const struct connection *connection)
{
	return trip->request->lazy && is_used(connection) &&
	       beest_clock_now() - connection->heard <= LAZY_TIME;
}

static void answers_lose(struct beest_kv_request *request, enum fake_kv_manner manner)
{
	const size_t kept = manner == FAKE_KV_TORN ? request->key_count / 2 : 0;

	if (request->key_count)
		beest_kv_values_free(request->values + kept, request->key_count - kept);
}

static int trip_go(struct trip *trip, struct connection *connection)
{
	bool broken = is_used(connection) && connection->boot != trip->server->boot;
	bool lazy = is_lazy(trip, connection);
	int ret;

	trip->failure = failure_next(FAKE_KV_REQUEST);
	trip->request->fresh = !is_used(connection);
	fake_kv.fresh += trip->request->fresh;
	if (trip->server->error || trip->server->silent)
		return trip_fail(trip, trip->server->silent ? EHOSTDOWN : trip->server->error);
	if (broken && lazy && !beest_request_has_answers(trip->request))
		return 0;		/* the kernel accepted it */
	if (broken)
		return trip_fail(trip, ECONNRESET);
	if (trip->failure && trip->failure->manner == FAKE_KV_REFUSED)
		return trip_fail(trip, trip->failure->error);

	trip->late = trip->failure && trip->failure->manner == FAKE_KV_LATE;
	ret = request_go(trip, lazy);
	if (trip->failure) {
		answers_lose(trip->request, trip->failure->manner);
		ret = trip_fail(trip, trip->failure->error);
	}
	return ret;
}

static void trip_run(struct trip *trip)
{
	struct beest_kv_request *request = trip->request;
	struct connection *connection = &trip->kv->connections[request->server];
	int ret;

	fake_kv.requests++;
	ret = beest_request_prepare(request);
	if (ret < 0) {
		request->ret = ret;
		beest_request_spoil(request, ret);
		return;
	}

	ret = trip_go(trip, connection);
	if (ret < 0) {
		beest_request_spoil(request, ret);
		connection->used = false;
	} else if (request->answered) {
		connection->used = true;
		connection->boot = trip->server->boot;
		connection->renewal = fake_kv.renewal;
		connection->heard = beest_clock_now();
	}
	request->ret = ret;
}

static void hold_up(const struct beest_kv *kv)
{
	int64_t span = fake_kv.hold ? fake_kv.hold(kv) : 0;

	if (span && beest_clock_source)
		beest_clock_source->sleep_until(beest_clock_deadline(span));
}

static void hook_call(struct beest_kv *kv, const struct beest_kv_request *request)
{
	if (!fake_kv.hook || fake_kv.in_hook)
		return;
	fake_kv.in_hook = true;
	fake_kv.hook(kv, request);
	fake_kv.in_hook = false;
}

/*
 * Answers are those of the moment when the requests were sent.  A failure that waited for nothing
 * takes its time, too.
 */
static void latency_sleep(int trips, bool failed)
{
	fake_kv.round_trips += (uint64_t)trips;
	trips += failed && !trips;
	if (trips && fake_kv.latency && beest_clock_source)
		beest_clock_source->sleep_until(beest_clock_deadline(trips * fake_kv.latency));
}

int beest_kv_run(struct beest_kv *kv, struct beest_kv_request *requests, size_t count,
		 int64_t deadline, struct beest_kv_signals *signals)
{
	int result = 0, waits = 0;
	int64_t silent_until = 0, until;
	bool read = false;
	size_t i;

	(void)signals;
	fake_kv.runs++;
	for (i = 0; i < count; i++) {
		struct trip trip = {
			.kv = kv, .server = kv->servers[requests[i].server],
			.request = &requests[i],
		};

		hold_up(kv);
		hook_call(kv, &requests[i]);
		trip_run(&trip);
		result = requests[i].ret < 0 ? requests[i].ret : result;
		waits += trip.waits;
		read |= trip.read;
		until = requests[i].patience ? beest_clock_deadline(requests[i].patience) :
			INT64_MAX;
		if (trip.server->silent)
			silent_until = BEEST_MAX(silent_until, BEEST_MIN(until, deadline));
	}
	if (silent_until && beest_clock_source)
		beest_clock_source->sleep_until(silent_until);
	else
		latency_sleep(waits + read, result < 0);
	return result;
}

/* ----------------------------------------------------------------- handles --- */

struct fake_kv_server *fake_kv_server(const char *text)
{
	size_t i;

	for (i = 0; i < FAKE_KV_SERVERS && fake_kv.servers[i].text[0]; i++)
		if (!strcmp(fake_kv.servers[i].text, text))
			break;
	if (i == FAKE_KV_SERVERS)
		abort();
	if (!fake_kv.servers[i].text[0])	/* else @text may be this very buffer */
		snprintf(fake_kv.servers[i].text, sizeof(fake_kv.servers[i].text), "%s", text);
	server_expire(&fake_kv.servers[i]);
	return &fake_kv.servers[i];
}

int beest_kv_open(struct beest_kv **kvp, const struct beest_hostport *servers, size_t count)
{
	struct beest_kv *kv = must(calloc(1, sizeof(*kv)));
	size_t i;

	kv->count = count;
	kv->choices = must(calloc(count, sizeof(*kv->choices)));
	kv->servers = must(calloc(count, sizeof(*kv->servers)));
	kv->connections = must(calloc(count, sizeof(*kv->connections)));
	for (i = 0; i < count; i++) {
		kv->servers[i] = fake_kv_server(servers[i].text);
		beest_choice_set(&kv->choices[i], kv->servers[i]->text);
	}
	fake_kv.open++;
	*kvp = kv;
	return 0;
}

void beest_kv_close(struct beest_kv *kv)
{
	if (!kv)
		return;
	free(kv->choices);
	free(kv->servers);
	free(kv->connections);
	free(kv);
	fake_kv.open--;
}

uint64_t beest_kv_digest(const struct beest_kv *kv)
{
	return beest_choice_digest(kv->choices, kv->count);
}

const char *beest_kv_text(const struct beest_kv *kv, size_t server)
{
	return kv->choices[server].text;
}

const char *beest_kv_label(const struct beest_kv *kv, size_t server)
{
	return beest_kv_text(kv, server);
}

/* Each of these servers is one. */
int beest_kv_compare(struct beest_kv *kv, size_t server, const char *key,
		     const struct beest_kv_value *known, int64_t deadline)
{
	(void)kv, (void)server, (void)key, (void)known, (void)deadline;
	fake_kv.compares++;
	return 0;
}

size_t beest_kv_server_of(const struct beest_kv *kv, const char *key)
{
	return beest_choice_of(kv->choices, kv->count, key);
}

int beest_kv_probe(struct beest_kv *kv, size_t index, int64_t deadline,
		   struct beest_kv_stats *stats)
{
	struct fake_kv_server *server = kv->servers[index];
	int error = server->probe_error ? server->probe_error : server->error;

	fake_kv.probed_until = deadline;
	fake_kv.probes++;
	if (error)
		return beest_fail(error, "server %s: %s", server->text, strerror(error));

	if (!stats)
		return 0;
	memset(stats, 0, sizeof(*stats));
	stats->limit_bytes = server->bytes_max;
	stats->evictions = server->evictions;
	stats->connections_max = 30;
	stats->turned_away = server->turned_away;
	stats->item_bytes = server->item_max;
	stats->out_of_memory_is_an_error = server->refuses;
	stats->time = (uint64_t)(beest_clock_now() / BEEST_SECOND);
	return 0;
}

/* ---------------------------------------------------------------- steering --- */

/* Open handles keep their servers. */
void fake_kv_reset(void)
{
	uint64_t renewal = fake_kv.renewal + 1;
	size_t i, open = fake_kv.open;
	struct fake_kv_late *late;
	struct fake_kv old;

	beest_nodefiles_root = NULL;	/* each process counts what it fetches */

	while ((late = fake_kv.late)) {
		fake_kv.late = late->next;
		late_free(late);
	}
	for (i = 0; i < FAKE_KV_SERVERS; i++) {
		server_clear(&fake_kv.servers[i]);
		free(fake_kv.servers[i].buckets);
	}
	old = fake_kv;
	memset(&fake_kv, 0, sizeof(fake_kv));
	fake_kv.latency = FAKE_KV_LATENCY;
	fake_kv.renewal = renewal;
	fake_kv.open = open;
	for (i = 0; open && i < FAKE_KV_SERVERS; i++)
		strcpy(fake_kv.servers[i].text, old.servers[i].text);
}

void fake_kv_count_again(void)
{
	size_t i;

	fake_kv.runs = fake_kv.requests = fake_kv.round_trips = 0;
	fake_kv.commands = fake_kv.keys = fake_kv.probes = fake_kv.fresh = 0;
	fake_kv.fired = 0;
	for (i = 0; i < FAKE_KV_SERVERS; i++)
		fake_kv.servers[i].commands = 0;
}

void fake_kv_flush(struct fake_kv_server *server)
{
	server_clear(server);
}

void fake_kv_restart(struct fake_kv_server *server)
{
	fake_kv_flush(server);
	server->evictions = 0;
	server->boot++;
}

void fake_kv_reconnect(void)
{
	fake_kv.renewal++;
}

bool fake_kv_evict(struct fake_kv_server *server, const char *key)
{
	struct fake_kv_item *item = item_find(server, key);

	if (!item)
		return false;
	item_remove(server, item);
	server->evictions++;
	return true;
}

void fake_kv_put(struct fake_kv_server *server, const char *key, const void *value,
		 size_t size, int64_t ttl)
{
	const struct beest_kv_write write = {
		.verb = BEEST_KV_SET, .key = key, .value = value, .size = size, .ttl = ttl,
	};

	item_store(server, &write);
}

const void *fake_kv_get(struct fake_kv_server *server, const char *key, size_t *size)
{
	struct fake_kv_item *item = item_find(server, key);

	if (item && size)
		*size = item->size;
	return item ? item->value : NULL;
}

void fake_kv_visit(struct fake_kv_server *server,
		   void (*visit)(const char *key, const void *value, size_t size, void *data),
		   void *data)
{
	struct fake_kv_item *item;

	server_expire(server);
	for (item = server->oldest; item; item = item->newer)
		visit(item->key, item->value, item->size, data);
}
