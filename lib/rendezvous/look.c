/* SPDX-License-Identifier: MIT */
/* look.c - see look.h */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/kv/request.h"
#include "lib/rendezvous/look.h"

/* A server that failed is sent what nobody waits for only after this pause, ... */
#define AWAY_PAUSE BEEST_SECOND
/* ... which doubles with each further failure, up to: */
#define AWAY_PAUSE_MAX (8 * BEEST_SECOND)

/* The shortest time between two questions for a server's evictions. */
#define PROBE_PAUSE BEEST_SECOND

/* A look fails after this many probes in a row that find evictions. */
#define STRIKES_MAX 3
/* The count starts again if the last probe is longer ago than this. */
#define STRIKE_TIME (10 * BEEST_SECOND)

/* The longest time to spend on what nobody waits for. */
#define OFFER_TIME (250 * BEEST_MS)

/* Own records that are looked for, at most, before a server counts as having lost all. */
#define WITNESSES_MAX 4

/* The number of this library's items that memcached 1.6 holds in a megabyte. */
#define ITEMS_PER_MB 4369

/* One request to one server: its leases, the extras and the wants. */
struct part {
	struct beest_kv_request *request;	/* of the round */
	struct beest_lease_plan plan;
	struct beest_kv_write opening;		/* adds an epoch */
	uint8_t epoch[BEEST_EPOCH_SIZE];
	uint64_t number;
	bool outdated;				/* the server has lost everything since */
};

struct round {
	struct beest_registry *registry;
	struct beest_look *look;
	struct part *parts;
	struct beest_kv_request *requests;	/* one a part, behind these in one block */
	size_t count;
	int ret;				/* the last failure, and its sentence */
	char why[BEEST_KV_WHY];
};

static void server_note(struct beest_registry *registry, const struct part *part, int failure)
{
	struct beest_registry_server *own = &registry->servers[part->plan.server];
	int64_t now = beest_clock_now();

	pthread_mutex_lock(&registry->lock);
	own->failure = failure;
	if (failure == 0) {
		own->answered = now;
		own->answered_by = part->number;
		own->away_until = own->away_pause = 0;
	} else {
		own->failed_by = part->number;
		memcpy(own->why, part->request->why, sizeof(own->why));
	}
	/* A closed old connection says nothing about the server. */
	if (failure < 0 && (failure != -ECONNRESET || part->request->fresh)) {
		own->away_pause = !own->away_pause ? AWAY_PAUSE :
				  BEEST_MIN(2 * own->away_pause, AWAY_PAUSE_MAX);
		own->away_until = now + own->away_pause;
	}
	pthread_mutex_unlock(&registry->lock);
}

/* The last look of a wait is short: brief silence soon after an answer proves nothing. */
int beest_look_trouble(struct beest_registry *registry, size_t server, uint64_t since,
		       char why[BEEST_KV_WHY])
{
	const struct beest_registry_server *own = &registry->servers[server];
	int ret;

	pthread_mutex_lock(&registry->lock);
	ret = own->failure;
	if (ret == -EHOSTDOWN && own->answered_by > since &&
	    beest_clock_now() - own->answered < 2 * BEEST_LIMIT_LOOK)
		ret = 0;
	if (ret == 0)
		ret = own->failed_by > since;
	memcpy(why, own->why, BEEST_KV_WHY);
	pthread_mutex_unlock(&registry->lock);

	return ret;
}

static bool server_is_away(struct beest_registry *registry, size_t server)
{
	bool away;

	pthread_mutex_lock(&registry->lock);
	away = beest_clock_now() < registry->servers[server].away_until;
	pthread_mutex_unlock(&registry->lock);

	return away;
}

/* --------------------------------------------------------- what a part asks for --- */

/* Wants and extras go with a part besides its leases. */
static bool part_has_want(const struct part *part, const struct beest_look_want *want)
{
	return want->key && want->server == part->plan.server;
}

static bool part_has_extra(const struct part *part, const struct beest_look_extra *extra)
{
	return !extra->done && extra->server == part->plan.server;
}

/* Puts the extras behind the writes of the leases. */
static void extras_add(struct part *part, const struct beest_look *look)
{
	struct beest_kv_request *request = part->request;
	size_t i;

	request->write_count = part->plan.write_count;
	for (i = 0; i < look->extra_count; i++)
		if (part_has_extra(part, &look->extras[i]))
			request->writes[request->write_count++] = look->extras[i].write;
}

static int part_fill(struct round *round, struct part *part)
{
	struct beest_kv_request *request = part->request;
	const struct beest_look *look = round->look;
	size_t i;

	request->server = part->plan.server;
	request->writes = part->plan.writes;
	request->keys = part->plan.keys;
	request->key_count = part->plan.key_count;
	request->values = calloc(request->key_count + look->count, sizeof(*request->values));
	if (!request->values)
		return beest_fail(ENOMEM, "no memory for a request of %zu keys", look->count);

	part->plan.keys[0] = round->registry->epoch_key;
	extras_add(part, look);
	for (i = 0; i < look->count; i++)
		if (part_has_want(part, &look->wants[i]))
			part->plan.keys[request->key_count++] = look->wants[i].key;
	part->number = __atomic_add_fetch(&round->registry->requests, 1, __ATOMIC_RELAXED);

	return 0;
}

static void part_free(struct part *part)
{
	if (part->request->values)
		beest_kv_values_free(part->request->values, part->request->key_count);
	free(part->request->values);
	beest_lease_plan_free(&part->plan);
}

/* Skips a server that is away, unless somebody waits for it: its leases can wait. */
static int part_plan(struct round *round, size_t server)
{
	struct part *part = &round->parts[round->count];
	struct beest_registry *registry = round->registry;
	const struct beest_look *look = round->look;
	bool needed = false;
	size_t i, spare = 0;
	int ret = 0;

	part->request = &round->requests[round->count];
	part->request->lazy = look->flags & BEEST_LOOK_OFFER;
	part->plan.server = server;
	for (i = 0; i < look->extra_count; i++)
		spare += part_has_extra(part, &look->extras[i]);
	for (i = 0; i < look->count; i++) {
		spare += part_has_want(part, &look->wants[i]);
		needed |= look->wants[i].server == server;
	}
	if (!spare && !needed && server_is_away(registry, server))
		return 0;

	ret = beest_lease_plan(registry->leases, server, look->flags & BEEST_LOOK_CHECK, spare,
			       &part->plan);
	if (ret < 0 || (!spare && !part->plan.write_count && part->plan.key_count == 1)) {
		beest_lease_plan_free(&part->plan);
		return ret;
	}
	round->count++;

	return part_fill(round, part);
}

/* ------------------------------------------------------------------------ epochs --- */

/* Prepares the write that adds a new epoch; @bytes holds it. */
static int epoch_write(const struct beest_registry *registry, uint8_t bytes[BEEST_EPOCH_SIZE],
		       struct beest_kv_write *write)
{
	*write = (struct beest_kv_write){
		.verb = BEEST_KV_ADD, .key = registry->epoch_key, .value = bytes,
		.size = BEEST_EPOCH_SIZE, .ttl = BEEST_EPOCH_TTL,
	};

	return beest_random(bytes, BEEST_EPOCH_SIZE);
}

bool beest_look_epoch(struct beest_registry *registry, size_t server,
		      uint8_t bytes[BEEST_EPOCH_SIZE])
{
	const struct beest_epoch *epoch = &registry->servers[server].epoch;
	bool known;

	pthread_mutex_lock(&registry->lock);
	known = epoch->known;
	memcpy(bytes, epoch->bytes, BEEST_EPOCH_SIZE);
	pthread_mutex_unlock(&registry->lock);

	return known;
}

/* Judges the epoch that request @number read.  -EPROTO: it is not an epoch. */
static int epoch_judge(struct beest_registry *registry, size_t server, uint64_t number,
		       const struct beest_kv_value *value, bool *outdated)
{
	uint64_t begun = __atomic_load_n(&registry->requests, __ATOMIC_RELAXED);
	enum beest_epoch_verdict verdict;

	pthread_mutex_lock(&registry->lock);
	verdict = beest_epoch_judge(&registry->servers[server].epoch, value, number, begun);
	pthread_mutex_unlock(&registry->lock);
	*outdated = verdict == BEEST_EPOCH_OUTDATED;

	if (verdict == BEEST_EPOCH_ALIEN)
		return beest_fail(EPROTO, "server %s: the value under %s is not an epoch",
				  beest_kv_text(registry->kv, server), registry->epoch_key);
	if (verdict == BEEST_EPOCH_CHANGED) {
		beest_log(registry->log, BEEST_LOG_WARN, "server %s has lost what it had: "
			  "storing the records again", beest_kv_text(registry->kv, server));
		beest_lease_lose(registry->leases, server, number);
	}

	return 0;
}

/* -ENODATA: the key is absent. */
static int key_read(struct beest_registry *registry, size_t server, const char *key,
		    int64_t deadline, struct beest_kv_value *value)
{
	struct beest_kv_request request = {
		.server = server, .keys = &key, .key_count = 1, .values = value,
	};

	return beest_kv_run(registry->kv, &request, 1, deadline, NULL);
}

/* Another process may have stored its record there since the server lost everything. */
static bool value_is_own(const struct beest_registry *registry, const char *key,
			 const struct beest_kv_value *value)
{
	struct beest_record record;

	return beest_record_decode(registry->seal, value->bytes, value->size, BEEST_KIND_ANY,
				   key, &record) == 0 &&
	       beest_process_is_context(&record.incarnation,
					beest_registry_incarnation(registry));
}

/* Does the server still have an own record?  Then only the epoch was evicted and stays valid. */
static bool epoch_still_counts(struct beest_registry *registry, size_t server, int64_t deadline)
{
	struct beest_kv_value value = { NULL, 0 };
	char key[BEEST_KEY_MAX + 1];
	bool there = false;
	size_t i;

	for (i = 0; i < WITNESSES_MAX && !there &&
	     beest_lease_witness(registry->leases, server, i, key); i++) {
		there = key_read(registry, server, key, deadline, &value) == 0 &&
			value_is_own(registry, key, &value);
		beest_kv_values_free(&value, 1);
	}

	return there;
}

/*
 * A new connection has brought no epoch: the server has lost it, or is no Memcached.  Adds it
 * by an answered write, so that a failure tells its cause, and learns it before anything else
 * is sent there: earlier messages are lost then, later ones are not.
 */
static int epoch_mend(struct beest_registry *registry, size_t server, int64_t deadline)
{
	uint8_t fresh[BEEST_EPOCH_SIZE], known[BEEST_EPOCH_SIZE];
	struct beest_kv_value value = { NULL, 0 };
	struct beest_kv_stats stats;
	struct beest_kv_write write;
	struct beest_kv_request request = {
		.server = server, .writes = &write, .write_count = 1,
	};
	uint64_t number;
	bool outdated;
	int ret;

	ret = beest_kv_probe(registry->kv, server, &stats);
	if (ret == 0)
		ret = epoch_write(registry, fresh, &write);
	if (ret < 0)
		return ret;
	write.answered = true;

	if (beest_look_epoch(registry, server, known) &&
	    epoch_still_counts(registry, server, deadline))
		write.value = known;
	ret = beest_kv_run(registry->kv, &request, 1, deadline, NULL);
	if (ret == 0)
		ret = write.ret == -EEXIST ? 0 : write.ret;
	number = __atomic_add_fetch(&registry->requests, 1, __ATOMIC_RELAXED);
	if (ret == 0)
		ret = key_read(registry, server, registry->epoch_key, deadline, &value);
	if (ret == 0)
		ret = epoch_judge(registry, server, number, &value, &outdated);
	beest_kv_values_free(&value, 1);

	return ret;
}

/* ----------------------------------------------------------------- a small server --- */

static int server_too_small(struct beest_registry *registry, size_t server,
			    const struct beest_kv_stats *stats)
{
	uint64_t limit = stats->limit_bytes >> 20, items, needed;

	items = (uint64_t)beest_lease_count(registry->leases, false) *
		(registry->size ? (uint64_t)registry->size : 1);
	needed = (items + items / 50) / ITEMS_PER_MB + 2;
	if (needed <= limit)
		needed = 2 * limit;

	if (stats->out_of_memory_is_an_error)
		return beest_fail(ENOSPC, "server %s is out of memory (memcached -M -m %" PRIu64
				  "); start it with -m %" PRIu64 " or more",
				  beest_kv_text(registry->kv, server), limit, needed);

	return beest_fail(ENOSPC, "server %s is too small for this job: it has evicted %" PRIu64
			  " records (memcached -m %" PRIu64 "); start it with -m %" PRIu64
			  " or more", beest_kv_text(registry->kv, server), stats->evictions,
			  limit, needed);
}

/*
 * A record that should be there is missing.  If the server evicts, this is logged at once.  If
 * it goes on evicting, the look fails: ranks would evict each other's records for ever.
 */
static int server_lost_some(struct beest_registry *registry, size_t server)
{
	struct beest_registry_server *own = &registry->servers[server];
	int64_t former, now = beest_clock_now();
	struct beest_kv_stats stats;
	unsigned int strikes;
	bool due;
	int ret;

	pthread_mutex_lock(&registry->lock);
	former = own->probed;
	due = !former || now - former >= PROBE_PAUSE;
	if (due)
		own->probed = now;
	pthread_mutex_unlock(&registry->lock);
	ret = due ? beest_kv_probe(registry->kv, server, &stats) : 0;
	if (!due || ret < 0)
		return ret;

	pthread_mutex_lock(&registry->lock);
	if (stats.evictions <= own->evictions && !stats.out_of_memory_is_an_error)
		own->strikes = 0;
	else
		own->strikes = now - former > STRIKE_TIME ? 1 : own->strikes + 1;
	own->evictions = stats.evictions;
	strikes = own->strikes;
	pthread_mutex_unlock(&registry->lock);
	if (strikes == 0)
		return 0;

	ret = server_too_small(registry, server, &stats);
	if (strikes == 1)
		beest_log(registry->log, BEEST_LOG_WARN, "%s", beest_error_text());

	return strikes >= STRIKES_MAX ? ret : 0;
}

/* --------------------------------------------------------------------- one round --- */

/* If the request failed, only the extras whose answers had come are done. */
static void extras_hand_over(const struct part *part, struct beest_look *look)
{
	const struct beest_kv_write *write = part->request->writes + part->plan.write_count;
	size_t i;

	for (i = 0; i < look->extra_count; i++)
		if (part_has_extra(part, &look->extras[i])) {
			look->extras[i].write = *write;
			look->extras[i].done = part->request->ret == 0 || write->done;
			write++;
		}
}

static void part_hand_over(const struct part *part, struct beest_look *look)
{
	size_t i, key = part->plan.key_count;

	extras_hand_over(part, look);
	for (i = 0; i < look->count; i++)
		if (part_has_want(part, &look->wants[i])) {
			look->wants[i].value = part->request->values[key];
			part->request->values[key++].bytes = NULL;
		}
}

/*
 * A record that is too large for the server does not fail the look, which may be for another
 * record: the caller that put it asks for the refusal (BEEST_LEASE_REFUSED).
 */
static bool write_concerns_all(const struct beest_kv_write *write)
{
	return write->ret != -EEXIST && write->ret != -EMSGSIZE;
}

/* The request has succeeded; a lazy one may have done so without an answer. */
static int part_judge(struct round *round, struct part *part)
{
	struct beest_registry *registry = round->registry;
	const struct beest_kv_request *request = part->request;
	const size_t server = request->server;
	size_t i, missing;
	int ret = 0;

	if (request->values[0].bytes)
		ret = epoch_judge(registry, server, part->number, &request->values[0],
				  &part->outdated);
	if (ret < 0)
		return ret;

	missing = beest_lease_done(registry->leases, &part->plan, part->outdated ? -ENODATA : 0,
				   request->answered, request->values, part->number);
	for (i = 0; i < part->plan.write_count && ret == 0; i++)
		if (write_concerns_all(&request->writes[i]))
			ret = request->writes[i].ret;
	part_hand_over(part, round->look);
	server_note(registry, part, 0);
	if (ret == 0 && missing)
		ret = server_lost_some(registry, server);

	return ret;
}

/*
 * Logs only the writes, since a wait reads the same keys again and again.  A server that fails
 * as it did at the last look is left to the wait, which logs the failure once a second.
 */
static void part_log(struct beest_registry *registry, const struct part *part)
{
	static const char *const verbs[] = {
		[BEEST_KV_SET] = "set",
		[BEEST_KV_ADD] = "add",
		[BEEST_KV_DELETE] = "delete",
		[BEEST_KV_INCR] = "incr",
	};
	const struct beest_kv_request *request = part->request;
	const struct beest_kv_write *write = request->writes;
	int former;
	size_t i;

	if (registry->log->level < BEEST_LOG_DEBUG)
		return;
	pthread_mutex_lock(&registry->lock);
	former = registry->servers[request->server].failure;
	pthread_mutex_unlock(&registry->lock);
	if (request->ret < 0 && request->ret == former)
		return;

	for (i = 0; i < request->write_count; i++, write++)
		beest_log(registry->log, BEEST_LOG_DEBUG, "request %" PRIu64 " to %s: %s %s (%zu "
			  "bytes)%s%s", part->number, beest_kv_text(registry->kv, request->server),
			  verbs[write->verb], write->key, write->size,
			  request->ret < 0 ? ": " : "",
			  request->ret < 0 ? strerror(-request->ret) : "");
}

static uint64_t part_bytes(const struct part *part)
{
	const struct beest_kv_request *request = part->request;
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; i < request->write_count; i++)
		bytes += request->writes[i].size;
	for (i = 0; i < request->key_count; i++)
		bytes += request->values[i].size;

	return bytes;
}

static void part_end(struct round *round, struct part *part)
{
	struct beest_registry *registry = round->registry;
	const struct beest_look *look = round->look;
	int ret = part->request->ret;
	size_t i;

	part_log(registry, part);
	__atomic_add_fetch(&registry->bytes, part_bytes(part), __ATOMIC_RELAXED);
	if (ret == 0) {
		ret = part_judge(round, part);
		if (ret < 0)
			beest_request_spoil(part->request, ret);
	}
	if (ret == 0)
		return;

	round->ret = ret;
	memcpy(round->why, part->request->why, sizeof(part->request->why));
	extras_hand_over(part, round->look);
	beest_lease_done(registry->leases, &part->plan, ret, false, NULL, part->number);
	for (i = 0; i < look->count; i++)
		if (look->wants[i].server == part->plan.server)
			look->wants[i].failed = true;
	server_note(registry, part, ret);
}

/*
 * Runs the request once more over a new connection, without the extras that were answered: a
 * second answer would differ.
 */
static void part_again(struct round *round, struct part *part)
{
	extras_hand_over(part, round->look);
	extras_add(part, round->look);
	beest_kv_values_free(part->request->values, part->request->key_count);
	part->number = __atomic_add_fetch(&round->registry->requests, 1, __ATOMIC_RELAXED);
	part->request->lazy = false;
	beest_log(round->registry->log, BEEST_LOG_DEBUG, "request %" PRIu64 " to %s, once more "
		  "over a new connection", part->number,
		  beest_kv_text(round->registry->kv, part->request->server));
	beest_kv_run(round->registry->kv, part->request, 1, round->look->deadline, NULL);
}

/*
 * A new connection that is closed at once, or that could not be made, says little: a probe says
 * more.  It takes time if the server is silent.
 */
static bool part_wants_probe(const struct round *round, const struct part *part)
{
	const struct beest_kv_request *request = part->request;

	if (request->unexplained)
		return beest_clock_left(round->look->deadline) > 0;

	return request->fresh && request->ret == -ECONNRESET;
}

/*
 * An old connection that brings no epoch may have been to a server that is gone, so the request
 * runs again.  If a new connection brings none, the epoch has to be added.
 */
static void part_mend(struct round *round, struct part *part)
{
	struct beest_registry *registry = round->registry;
	struct beest_kv_request *request = part->request;
	struct beest_kv_stats stats;
	int ret = 0;

	if (request->ret == -ENODATA && !request->fresh)
		part_again(round, part);
	if (part_wants_probe(round, part)) {
		ret = beest_kv_probe(registry->kv, request->server, &stats);
	} else if (request->ret == -ENODATA) {
		ret = epoch_mend(registry, request->server, round->look->deadline);
		if (ret == 0) {
			part_again(round, part);
			ret = request->ret;
		}
		if (ret == -ENODATA)
			ret = beest_fail(ENOBUFS, "server %s loses whatever it stores at once",
					 beest_kv_text(registry->kv, request->server));
	}
	if (ret < 0)
		beest_request_spoil(request, ret);
}

/* Runs all requests at once. */
static int round_run(struct round *round)
{
	struct beest_registry *registry = round->registry;
	struct part *part;
	size_t i;
	int ret = 0;

	for (i = 0; i < round->count && ret == 0; i++) {
		part = &round->parts[i];
		if (beest_look_epoch(registry, part->plan.server, part->epoch))
			continue;
		ret = epoch_write(registry, part->epoch, &part->opening);
		part->request->opening = &part->opening;
	}
	if (ret < 0)
		return ret;

	beest_kv_run(registry->kv, round->requests, round->count, round->look->deadline,
		     round->look->signals);
	for (i = 0; i < round->count; i++) {
		part_mend(round, &round->parts[i]);
		part_end(round, &round->parts[i]);
	}

	return 0;
}

/* @only: the index of one server; SIZE_MAX: all servers. */
static int round_take(struct beest_registry *registry, struct beest_look *look, size_t only)
{
	struct round round = { .registry = registry, .look = look };
	struct beest_look mending = { .deadline = look->deadline };
	size_t i, room = registry->server_count;
	bool overtook = false;
	int ret = 0;

	round.parts = calloc(room, sizeof(*round.parts) + sizeof(*round.requests));
	if (!round.parts)
		ret = beest_fail(ENOMEM, "no memory for a request");
	else
		round.requests = (struct beest_kv_request *)(round.parts + room);
	for (i = 0; i < room && ret == 0; i++)
		if (only == SIZE_MAX || only == i)
			ret = part_plan(&round, i);
	if (ret == 0 && round.count)
		ret = round_run(&round);
	for (i = 0; i < round.count; i++) {
		if (ret < 0)
			beest_lease_done(registry->leases, &round.parts[i].plan, ret, false, NULL,
					 round.parts[i].number);
		overtook |= round.parts[i].plan.overtook;
		part_free(&round.parts[i]);
	}
	free(round.parts);
	/* This may be the process's last look: no other would store the newer version again. */
	if (ret == 0 && round.ret == 0 && overtook)
		round_take(registry, &mending, SIZE_MAX);

	return round.ret < 0 ? beest_fail(-round.ret, "%s", round.why) : ret;
}

void beest_look_degraded(struct beest_registry *registry)
{
	if (!__atomic_exchange_n(&registry->degraded, true, __ATOMIC_RELAXED))
		beest_log(registry->log, BEEST_LOG_WARN, "%s; what other servers have is not "
			  "affected", beest_error_text());
}

/*
 * A process that sees one of our records must be able to see who we are.  So with several
 * servers the presence is answered before anything goes to another server.
 */
int beest_look_take(struct beest_registry *registry, struct beest_look *look)
{
	const struct beest_presence *presence = &registry->presence;
	struct beest_look_want home = { .server = presence->server };
	struct beest_look first = { .wants = &home, .count = 1, .deadline = look->deadline };
	size_t i;

	for (i = 0; i < look->count; i++) {
		look->wants[i].failed = false;
		look->wants[i].value = (struct beest_kv_value){ NULL, 0 };
	}
	if (registry->server_count > 1 && !server_is_away(registry, presence->server) &&
	    !beest_lease_is(registry->leases, presence->key, BEEST_LEASE_SETTLED) &&
	    round_take(registry, &first, presence->server) < 0)
		beest_look_degraded(registry);

	return round_take(registry, look, look->flags & BEEST_LOOK_OFFER ?
			  look->wants[0].server : SIZE_MAX);
}

void beest_look_offer(struct beest_registry *registry, struct beest_look_extra *extra)
{
	struct beest_look_want want = { .server = extra->server };
	struct beest_look look = {
		.wants = &want, .count = 1, .extras = extra, .extra_count = 1,
		.flags = BEEST_LOOK_OFFER, .deadline = beest_clock_deadline(OFFER_TIME),
	};

	beest_look_take(registry, &look);
}

void beest_look_free(struct beest_look_want *wants, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		beest_kv_values_free(&wants[i].value, 1);
}
