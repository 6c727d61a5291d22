/* SPDX-License-Identifier: MIT */
/* look.c - see look.h */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/lock.h"
#include "lib/base/random.h"
#include "lib/kv/request.h"
#include "lib/rendezvous/look.h"

/* The shortest time between two questions for a server's evictions. */
#define PROBE_PAUSE BEEST_SECOND

/* A look fails after this many probes in a row that find evictions. */
#define STRIKES_MAX 3
/* The count starts again if the last probe is longer ago than this. */
#define STRIKE_TIME (10 * BEEST_SECOND)

/* Own records that are looked for, at most, before a server counts as having lost all. */
#define CANARIES_MAX 4

/* The number of this library's items that memcached 1.6 holds in a megabyte. */
#define ITEMS_PER_MB 4369

/* What memcached 1.6 counts of an item besides its key and value, when it compares it with -I. */
#define ITEM_HEAD 59

/* The writes by which a process announces itself, and how long they stay, in seconds. */
#define STARTS 2
#define STARTS_TTL (2 * BEEST_STARTS_RECENT / BEEST_SECOND)

/* One request to one server: its leases, the extras and the wants. */
struct part {
	struct beest_kv_request *request;	/* of the round */
	struct beest_lease_plan plan;
	struct beest_kv_write opening;		/* adds an epoch */
	uint8_t epoch[BEEST_EPOCH_SIZE];
	bool begins;				/* announces a process of this rank */
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

/* Under the lock.  A lazy request succeeds without an answer. */
static void answer_note(struct beest_registry_server *own, const struct part *part)
{
	const struct beest_kv_request *request = part->request;

	own->answered = beest_clock_now();
	own->answered_by = part->plan.number;
	if (request->answered || request->ret == -ENODATA)
		beest_pace_answered(&own->pace, request->took);
}

/* An answer without an epoch does not suffice, but is one. */
static void server_answered(struct beest_registry *registry, const struct part *part)
{
	BEEST_HOLD(&registry->lock);

	answer_note(&registry->servers[part->plan.server], part);
}

static void server_note(struct beest_registry *registry, const struct part *part, int failure)
{
	struct beest_registry_server *own = &registry->servers[part->plan.server];
	const struct beest_kv_request *request = part->request;
	int64_t now = beest_clock_now();
	bool cut = failure == -EHOSTDOWN && request->took < request->patience;
	bool again;
	BEEST_HOLD(&registry->lock);

	/* One that the deadline has cut short knows less than the one before, which was not. */
	again = cut && own->failure == failure;
	own->stuck |= failure == -EHOSTDOWN && !cut;
	own->failure = failure;
	if (failure == 0) {
		answer_note(own, part);
		own->stuck = false;
		own->away_until = 0;
	} else {
		own->failed_by = part->plan.number;
		if (request->heard) {
			own->answered = request->heard;
			own->answered_by = part->plan.number;
		}
		if (!again)
			memcpy(own->why, request->why, sizeof(own->why));
	}
	/* A closed old connection shows nothing about the server. */
	if (failure < 0 && (failure != -ECONNRESET || request->fresh)) {
		beest_pace_failed(&own->pace, request->key_count);
		own->away_until = now + beest_pace_away(&own->pace);
	}
}

/*
 * Silence proves nothing while it has lasted no longer than this server's answers may take, unless
 * it has ended a request before: then only beginnings are answered.
 */
int beest_look_trouble(struct beest_registry *registry, size_t server, uint64_t since,
		       char why[BEEST_KV_WHY])
{
	const struct beest_registry_server *own = &registry->servers[server];
	const int size = beest_registry_size(registry);
	int ret;
	BEEST_HOLD(&registry->lock);

	ret = own->failure;
	if (ret == -EHOSTDOWN && own->answered_by > since && !own->stuck &&
	    beest_clock_now() - own->answered < beest_pace_suspect(&own->pace, size))
		ret = 0;
	if (ret == 0)
		ret = own->failed_by > since;
	memcpy(why, own->why, BEEST_KV_WHY);

	return ret;
}

/* Slower than that, a server cannot answer all who wait as often as they usually ask. */
#define SLOW (100 * BEEST_MS)

bool beest_look_speed_say(struct beest_registry *registry, size_t server, int64_t began,
			  uint64_t bytes, struct beest_text *text)
{
	const struct beest_registry_server *own = &registry->servers[server];
	BEEST_HOLD(&registry->lock);

	beest_text_item(text, "server %s answers", beest_kv_label(registry->kv, server));
	if (own->failure != -EHOSTDOWN && own->pace.longest <= SLOW)
		return false;
	beest_text_add(text, " slowly: %.1f MB in %s",
		       (double)(__atomic_load_n(&registry->bytes, __ATOMIC_RELAXED) - bytes) / 1e6,
		       BEEST_SPAN(beest_clock_now() - began));
	if (beest_registry_size(registry))
		beest_text_add(text, ", and %d ranks ask it", beest_registry_size(registry));

	return true;
}

/* Those who passed or went on notice nothing of it until they call the library again. */
void beest_look_loss_say(struct beest_registry *registry, size_t server, uint64_t since,
			 struct beest_text *text)
{
	const struct beest_epoch *epoch = &registry->servers[server].epoch;
	BEEST_HOLD(&registry->lock);

	if (epoch->changed && epoch->learned > since)
		beest_text_item(text, "meanwhile it lost its contents; others store theirs again "
				"in their next call, so a missing one may have been here");
}

/* 0: a server may be asked; else the error by which it failed a moment ago. */
static int server_is_away(struct beest_registry *registry, size_t server)
{
	const struct beest_registry_server *own = &registry->servers[server];
	BEEST_HOLD(&registry->lock);

	return beest_clock_now() < own->away_until ? own->failure : 0;
}

struct beest_pace beest_look_pace(struct beest_registry *registry, size_t server)
{
	BEEST_HOLD(&registry->lock);

	return registry->servers[server].pace;
}

static int64_t patience_of(struct beest_registry *registry, size_t server)
{
	const struct beest_pace pace = beest_look_pace(registry, server);

	return beest_pace_patience(&pace, beest_registry_size(registry));
}

/* A question to a server is given up like a request: it must not last as long as the call may. */
static int64_t probe_until(struct beest_registry *registry, size_t server, int64_t deadline)
{
	return BEEST_MIN(deadline, beest_clock_deadline(patience_of(registry, server)));
}

int64_t beest_look_until(struct beest_registry *registry, size_t server,
			 const struct beest_limit *limit)
{
	const struct beest_pace pace = beest_look_pace(registry, server);

	return limit->once ? beest_clock_deadline(beest_pace_single(&pace)) :
	       beest_limit_look(limit);
}

int64_t beest_look_brief(struct beest_registry *registry, size_t server)
{
	const int64_t longest = beest_look_pace(registry, server).longest;

	return beest_clock_deadline(BEEST_MAX(BEEST_LIMIT_LOOK, 2 * longest));
}

int64_t beest_look_closing(struct beest_registry *registry)
{
	int64_t most = 0;
	struct beest_pace pace;
	size_t i;

	for (i = 0; i < registry->server_count; i++) {
		pace = beest_look_pace(registry, i);
		most = BEEST_MAX(most, beest_pace_closing(&pace));
	}

	return beest_clock_deadline(most);
}

bool beest_look_is_silent(struct beest_registry *registry, size_t server)
{
	return server_is_away(registry, server) == -EHOSTDOWN;
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

static void wants_fail(const struct beest_look *look, size_t server)
{
	size_t i;

	for (i = 0; i < look->count; i++)
		look->wants[i].failed |= look->wants[i].server == server;
}

/* Does a request to @server have to announce this process? */
static bool start_is_due(const struct beest_registry *registry, size_t server)
{
	const struct beest_registry_presence *presence = &registry->presence;
	const int64_t begun_at = __atomic_load_n(&presence->begun_at, __ATOMIC_RELAXED);

	return presence->rank >= 0 && beest_registry_is_announced(registry) &&
	       server == beest_registry_server(registry, BEEST_KEY_RANK) &&
	       (!begun_at || (!__atomic_load_n(&presence->met, __ATOMIC_RELAXED) &&
			      beest_clock_now() - begun_at > BEEST_STARTS_RECENT));
}

void beest_look_begin_again(struct beest_registry *registry)
{
	__atomic_store_n(&registry->presence.begun_at, 0, __ATOMIC_RELAXED);
}

/* The start is appended where there are some, and else added: one of the two is carried out. */
static void starts_add(const struct beest_registry *registry,
		       struct beest_kv_request *request)
{
	static const enum beest_kv_verb verbs[STARTS] = { BEEST_KV_APPEND, BEEST_KV_ADD };
	size_t i;

	for (i = 0; i < STARTS; i++)
		request->writes[request->write_count++] = (struct beest_kv_write){
			.verb = verbs[i], .key = registry->keys[BEEST_KEY_STARTS],
			.value = &registry->presence.incarnation, .size = BEEST_INCARNATION_SIZE,
			.ttl = STARTS_TTL,
		};
}

/* Puts the extras behind the writes of the leases.  The last one may be answered. */
static void extras_add(struct part *part, const struct round *round)
{
	struct beest_kv_request *request = part->request;
	const struct beest_look *look = round->look;
	size_t i;

	request->write_count = part->plan.write_count;
	if (part->begins)
		starts_add(round->registry, request);
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
	request->patience = patience_of(round->registry, part->plan.server);
	request->writes = part->plan.writes;
	request->keys = part->plan.keys;
	request->key_count = part->plan.key_count;
	request->values = calloc(request->key_count + look->count, sizeof(*request->values));
	if (!request->values)
		return beest_fail(ENOMEM, "no memory for a request of %zu keys", look->count);

	part->plan.keys[0] = round->registry->keys[BEEST_KEY_EPOCH];
	if (part->begins)
		__atomic_store_n(&round->registry->presence.begun_at, beest_clock_now(),
				 __ATOMIC_RELAXED);
	extras_add(part, round);
	for (i = 0; i < look->count; i++)
		if (part_has_want(part, &look->wants[i]))
			part->plan.keys[request->key_count++] = look->wants[i].key;
	part->plan.number = beest_registry_number(round->registry);

	return 0;
}

static void part_free(struct part *part)
{
	if (part->request->values)
		beest_kv_values_free(part->request->values, part->request->key_count);
	free(part->request->values);
	beest_lease_plan_free(&part->plan);
}

/*
 * Skips a server that is away, unless a caller waits for it: its leases can wait.  An idle look
 * also skips one that was silent, so that many such looks take no longer than one.
 */
static int part_plan(struct round *round, size_t server)
{
	struct part *part = &round->parts[round->count];
	struct beest_registry *registry = round->registry;
	const struct beest_look *look = round->look;
	bool needed = false;
	size_t i, spare = 0;
	int ret = 0;

	if (look->flags & BEEST_LOOK_IDLE && beest_look_is_silent(registry, server)) {
		wants_fail(look, server);
		return 0;
	}
	part->request = &round->requests[round->count];
	part->request->lazy = look->flags & BEEST_LOOK_OFFER;
	part->request->uniques = look->flags & BEEST_LOOK_UNIQUES;
	part->plan.server = server;
	for (i = 0; i < look->extra_count; i++)
		spare += part_has_extra(part, &look->extras[i]);
	needed = spare;
	for (i = 0; i < look->count; i++) {
		spare += part_has_want(part, &look->wants[i]);
		needed |= look->wants[i].server == server && !look->wants[i].idle;
	}
	if (!needed && server_is_away(registry, server)) {
		wants_fail(look, server);
		return 0;
	}

	/* If the server has lost all, the request runs again, and then announces it in any case. */
	part->begins = start_is_due(registry, server);
	ret = beest_lease_plan(registry->leases, server, look->flags & BEEST_LOOK_CHECK,
			       spare + STARTS, &part->plan);
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
		.verb = BEEST_KV_ADD, .key = registry->keys[BEEST_KEY_EPOCH], .value = bytes,
		.size = BEEST_EPOCH_SIZE, .ttl = BEEST_EPOCH_TTL,
	};

	return beest_random(bytes, BEEST_EPOCH_SIZE);
}

bool beest_look_epoch(struct beest_registry *registry, size_t server,
		      uint8_t bytes[BEEST_EPOCH_SIZE])
{
	const struct beest_epoch *epoch = &registry->servers[server].epoch;
	BEEST_HOLD(&registry->lock);

	memcpy(bytes, epoch->bytes, BEEST_EPOCH_SIZE);

	return epoch->known;
}

int beest_look_compare(struct beest_registry *registry, size_t server, int64_t deadline)
{
	uint8_t epoch[BEEST_EPOCH_SIZE];
	const struct beest_kv_value known = { .bytes = epoch, .size = sizeof(epoch) };

	/* One that answers slowly would not do so in time, and had better not be asked more. */
	if (!beest_look_epoch(registry, server, epoch) ||
	    beest_look_pace(registry, server).longest > BEEST_KV_COMPARE)
		return 0;

	return beest_kv_compare(registry->kv, server, registry->keys[BEEST_KEY_EPOCH], &known,
				deadline);
}

/*
 * Judges the epoch that request @number read.  -EPROTO: it is not one, or that of another server;
 * -ENODATA: the server may have lost since what the request stored, so it has to be sent again.
 */
static int epoch_judge(struct beest_registry *registry, size_t server, uint64_t number,
		       const struct beest_kv_value *value)
{
	uint64_t begun = beest_registry_begun(registry);
	enum beest_epoch_verdict verdict;

	pthread_mutex_lock(&registry->lock);
	verdict = beest_epoch_judge(&registry->servers[server].epoch, value, number, begun);
	pthread_mutex_unlock(&registry->lock);

	if (verdict == BEEST_EPOCH_ALIEN)
		return beest_fail(EPROTO, "server %s: the value under %s is not an epoch",
				  beest_kv_text(registry->kv, server),
				  registry->keys[BEEST_KEY_EPOCH]);
	if (verdict == BEEST_EPOCH_AGAIN)
		return beest_fail(EPROTO, "server %s: " BEEST_KV_SEVERAL,
				  beest_kv_label(registry->kv, server));
	if (verdict == BEEST_EPOCH_CHANGED) {
		beest_log(registry->log, BEEST_LOG_WARN, "server %s has lost what it had: "
			  "storing the records again", beest_kv_label(registry->kv, server));
		beest_lease_lose(registry->leases, server);
		if (server == beest_registry_server(registry, BEEST_KEY_RANK))
			beest_look_begin_again(registry);
	}

	return verdict == BEEST_EPOCH_OUTDATED ? -ENODATA : 0;
}

/* -ENODATA: the first key is absent. */
static int keys_read(struct beest_registry *registry, size_t server, const char *const *keys,
		     size_t count, int64_t deadline, struct beest_kv_value *values)
{
	struct beest_kv_request request = {
		.server = server, .keys = keys, .key_count = count, .values = values,
		.patience = patience_of(registry, server),
	};

	return beest_kv_run(registry->kv, &request, 1, deadline, NULL);
}

/*
 * Does the server still have an own record that it had along with the epoch @known?  Then only the
 * epoch was evicted and stays valid.  A later record may have been stored there after it lost all:
 * meanwhile, another thread may have learned that, and stored this one again.  Another process may
 * have stored its own, too.  If the epoch is there by now, a record shows nothing of the time when
 * the epoch is gone again.
 */
static bool epoch_still_counts(struct beest_registry *registry, size_t server,
			       const uint8_t known[BEEST_EPOCH_SIZE], int64_t deadline)
{
	struct beest_kv_value values[2];
	uint8_t now[BEEST_EPOCH_SIZE];
	char key[BEEST_KEY_MAX + 1];
	const char *const keys[] = { key, registry->keys[BEEST_KEY_EPOCH] };
	bool there = false;
	uint64_t brought;
	size_t i;

	pthread_mutex_lock(&registry->lock);
	brought = registry->servers[server].epoch.brought;
	pthread_mutex_unlock(&registry->lock);
	for (i = 0; i < CANARIES_MAX && !there &&
	     beest_lease_canary(registry->leases, server, brought, i, key); i++) {
		memset(values, 0, sizeof(values));
		there = keys_read(registry, server, keys, 2, deadline, values) == 0 &&
			!values[1].bytes &&
			beest_record_is_of(registry->seal, values[0].bytes, values[0].size, key,
					   beest_registry_incarnation(registry), 1) &&
			beest_lease_is_canary(registry->leases, key, brought);
		beest_kv_values_free(values, 2);
	}

	return there && beest_look_epoch(registry, server, now) &&
	       memcmp(now, known, sizeof(now)) == 0;
}

/*
 * A new connection has brought no epoch: the server has lost it, or is no Memcached.  Adds it
 * by an answered write, so that a failure names its cause, and learns it before anything else
 * is sent there: earlier messages are lost then, later ones are not.
 */
static int epoch_mend(struct beest_registry *registry, size_t server, int64_t deadline)
{
	uint8_t fresh[BEEST_EPOCH_SIZE], known[BEEST_EPOCH_SIZE];
	struct beest_kv_value value = { 0 };
	struct beest_kv_stats stats;
	struct beest_kv_write write;
	const char *key = registry->keys[BEEST_KEY_EPOCH];
	struct beest_kv_request request = {
		.server = server, .writes = &write, .write_count = 1,
		.patience = patience_of(registry, server),
	};
	uint64_t number;
	int ret;

	ret = beest_kv_probe(registry->kv, server, probe_until(registry, server, deadline), &stats);
	if (ret == 0)
		ret = epoch_write(registry, fresh, &write);
	if (ret < 0)
		return ret;
	write.answered = true;

	if (beest_look_epoch(registry, server, known) &&
	    epoch_still_counts(registry, server, known, deadline))
		write.value = known;
	ret = beest_kv_run(registry->kv, &request, 1, deadline, NULL);
	if (ret == 0)
		ret = write.ret == -EEXIST ? 0 : write.ret;
	number = beest_registry_number(registry);
	if (ret == 0)
		ret = keys_read(registry, server, &key, 1, deadline, &value);
	if (ret == 0)
		ret = epoch_judge(registry, server, number, &value);
	beest_kv_values_free(&value, 1);

	/* Another thread may have learned a later one, which is as good. */
	return ret == -ENODATA ? 0 : ret;
}

/* ----------------------------------------------------------------- a small server --- */

static int server_too_small(struct beest_registry *registry, size_t server,
			    const struct beest_kv_stats *stats)
{
	uint64_t limit = stats->limit_bytes >> 20, items, needed;

	items = (uint64_t)beest_lease_count(registry->leases, false) *
		(uint64_t)BEEST_MAX(beest_registry_size(registry), 1);
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

/* A server takes no value that is too large for it. */
static int server_takes_less(struct beest_registry *registry, size_t server,
			     const struct beest_kv_stats *stats)
{
	const size_t largest = beest_lease_largest(registry->leases, server) + ITEM_HEAD;

	if (!stats->item_bytes || largest <= stats->item_bytes)
		return 0;

	return beest_fail(EMSGSIZE, "server %s takes at most %" PRIu64 " bytes for a key and its "
			  "value (memcached -I), and a record of this job needs %zu",
			  beest_kv_label(registry->kv, server), stats->item_bytes, largest);
}

/*
 * A record that should be there is missing.  If the server evicts, this is logged at once.  If
 * it goes on evicting, the look fails: ranks would evict each other's records for ever.
 */
static int server_lost_some(struct beest_registry *registry, size_t server)
{
	struct beest_registry_server *own = &registry->servers[server];
	int64_t previous, now = beest_clock_now();
	struct beest_kv_stats stats;
	unsigned int strikes;
	bool due;
	int ret;

	pthread_mutex_lock(&registry->lock);
	previous = own->probed;
	due = !previous || now - previous >= PROBE_PAUSE;
	if (due)
		own->probed = now;
	pthread_mutex_unlock(&registry->lock);
	ret = due ? beest_kv_probe(registry->kv, server, beest_look_brief(registry, server),
				   &stats) : 0;
	if (due && ret == 0)
		ret = server_takes_less(registry, server, &stats);
	if (!due || ret < 0)
		return ret;

	pthread_mutex_lock(&registry->lock);
	if (stats.evictions <= own->evictions && !stats.out_of_memory_is_an_error)
		own->strikes = 0;
	else
		own->strikes = now - previous > STRIKE_TIME ? 1 : own->strikes + 1;
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

/* If the request failed, only the extras whose answers had arrived are done. */
static void extras_hand_over(const struct part *part, struct beest_look *look)
{
	const struct beest_kv_write *write = part->request->writes + part->plan.write_count +
					     (part->begins ? STARTS : 0);
	size_t i;

	for (i = 0; i < look->extra_count; i++)
		if (part_has_extra(part, &look->extras[i])) {
			look->extras[i].write = *write;
			look->extras[i].done = part->request->ret == 0 || write->done;
			write++;
		}
}

/* After a failure, a key without a value may be absent, or its answer has not arrived. */
static void wants_hand_over(const struct part *part, const struct beest_look *look, bool all)
{
	size_t i, key = part->plan.key_count;

	for (i = 0; i < look->count; i++) {
		if (!part_has_want(part, &look->wants[i]))
			continue;
		look->wants[i].value = part->request->values[key];
		look->wants[i].failed = !all && !look->wants[i].value.bytes;
		part->request->values[key++].bytes = NULL;
	}
}

/* Of a request that failed, only what the known server answered counts. */
static bool part_has_canary(struct round *round, const struct part *part)
{
	const struct beest_kv_request *request = part->request;
	uint8_t epoch[BEEST_EPOCH_SIZE];

	return request->key_count && request->values[0].bytes &&
	       request->values[0].size == sizeof(epoch) &&
	       beest_look_epoch(round->registry, part->plan.server, epoch) &&
	       memcmp(request->values[0].bytes, epoch, sizeof(epoch)) == 0;
}

/*
 * The first request that finds what @part stored: itself, if it read the epoch behind its writes;
 * else the next one to begin.
 */
static uint64_t part_found_by(const struct round *round, const struct part *part)
{
	const struct beest_kv_request *request = part->request;

	return request->answered && !beest_request_ends_answered(request) ? part->plan.number :
	       beest_registry_begun(round->registry) + 1;
}

/*
 * The request has succeeded; a lazy one may have done so without an answer.  A record that is too
 * large for the server does not fail the look, which may be for another record: the caller that
 * put it asks for the refusal (BEEST_LEASE_REFUSED).
 */
static int part_judge(struct round *round, struct part *part)
{
	struct beest_registry *registry = round->registry;
	const struct beest_kv_request *request = part->request;
	const size_t server = request->server;
	size_t missing;
	int ret;

	ret = epoch_judge(registry, server, part->plan.number, &request->values[0]);
	if (ret < 0 && ret != -ENODATA)
		return ret;

	missing = beest_lease_done(registry->leases, &part->plan, ret, request->answered,
				   request->values, part_found_by(round, part));
	extras_hand_over(part, round->look);
	wants_hand_over(part, round->look, true);
	server_note(registry, part, 0);

	return missing ? server_lost_some(registry, server) : 0;
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
		[BEEST_KV_APPEND] = "append",
		[BEEST_KV_CAS] = "cas",
	};
	const struct beest_kv_request *request = part->request;
	const struct beest_kv_write *write = request->writes;
	int previous;
	size_t i;

	if (registry->log->level < BEEST_LOG_DEBUG)
		return;
	pthread_mutex_lock(&registry->lock);
	previous = registry->servers[request->server].failure;
	pthread_mutex_unlock(&registry->lock);
	if (request->ret < 0 && request->ret == previous)
		return;

	for (i = 0; i < request->write_count; i++, write++)
		beest_log(registry->log, BEEST_LOG_DEBUG, "request %" PRIu64 " to %s: %s %s (%zu "
			  "bytes)%s%s", part->plan.number,
			  beest_kv_text(registry->kv, request->server),
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
	int ret = part->request->ret, done;

	part_log(registry, part);
	__atomic_add_fetch(&registry->bytes, part_bytes(part), __ATOMIC_RELAXED);
	if (ret == 0) {
		ret = part_judge(round, part);
		if (ret < 0)
			beest_request_spoil(part->request, ret);
	}
	if (ret == 0)
		return;

	if (part->begins)
		beest_look_begin_again(registry);
	round->ret = ret;
	memcpy(round->why, part->request->why, sizeof(part->request->why));
	extras_hand_over(part, round->look);
	done = ret;
	/* Without a known epoch, it would go unnoticed that the server has lost the rest since. */
	if (!beest_look_epoch(registry, part->plan.server, part->epoch))
		done = -ENODATA;
	beest_lease_done(registry->leases, &part->plan, done, false, NULL,
			 part_found_by(round, part));
	wants_fail(look, part->plan.server);
	if (part_has_canary(round, part))
		wants_hand_over(part, look, false);
	server_note(registry, part, ret);
}

/*
 * Runs the request once more over a new connection, without the extras that were answered: a
 * second answer would differ.
 */
static void part_again(struct round *round, struct part *part)
{
	size_t i;

	extras_hand_over(part, round->look);
	for (i = 0; i < round->look->extra_count; i++)
		round->look->extras[i].repeated |= part_has_extra(part, &round->look->extras[i]);
	part->begins |= start_is_due(round->registry, part->plan.server);
	extras_add(part, round);
	beest_kv_values_free(part->request->values, part->request->key_count);
	part->plan.number = beest_registry_number(round->registry);
	part->request->lazy = false;
	beest_log(round->registry->log, BEEST_LOG_DEBUG, "request %" PRIu64 " to %s, once more "
		  "over a new connection", part->plan.number,
		  beest_kv_text(round->registry->kv, part->request->server));
	beest_kv_run(round->registry->kv, part->request, 1, round->look->deadline, NULL);
}

/*
 * A server that answers a small request over a new connection, but not this one, is overloaded, or
 * large packets are lost on the way there or back.
 */
static int part_ask_less(struct round *round, const struct part *part)
{
	struct beest_registry *registry = round->registry;
	const struct beest_kv_request *request = part->request;
	const int64_t soon = beest_look_brief(registry, request->server);
	size_t i, bytes = 0;
	char previous[BEEST_KV_WHY];

	memcpy(previous, request->why, sizeof(previous));
	if (beest_kv_probe(registry->kv, request->server,
			   BEEST_MIN(round->look->deadline, soon), NULL) < 0)
		return beest_fail(EHOSTDOWN, "%s", previous);
	for (i = 0; i < request->write_count; i++)
		bytes += request->writes[i].size;

	return beest_fail(EHOSTDOWN, "server %s answers small requests, but not this one (%zu "
			  "bytes to store, %zu keys to read) within %s: it or the network is "
			  "overloaded, or large packets are lost on the way (path MTU)",
			  beest_kv_label(registry->kv, request->server), bytes, request->key_count,
			  BEEST_SPAN(request->took));
}

/*
 * A connection that is refused, closed at once or answered by another service does not show the
 * reason; a probe may.  A probe is slow if the server is silent.
 */
static bool part_wants_probe(const struct round *round, const struct part *part)
{
	const struct beest_kv_request *request = part->request;

	if (!beest_clock_left(round->look->deadline))
		return false;

	return request->unexplained ||
	       (request->fresh && (request->ret == -ECONNRESET || request->ret == -EPROTO));
}

/*
 * An old connection that is closed, as by a server or a proxy that closes idle ones, or that
 * brings no epoch, may have been to a server that is gone.  So the request runs again at once.  If
 * a new connection brings no epoch, it has to be added.
 */
static void part_mend(struct round *round, struct part *part)
{
	struct beest_registry *registry = round->registry;
	struct beest_kv_request *request = part->request;
	struct beest_kv_stats stats;
	int ret = 0;

	if ((request->ret == -ENODATA || request->ret == -ECONNRESET) && !request->fresh)
		part_again(round, part);
	if (request->ret == -ENODATA)
		server_answered(registry, part);
	if (request->ret == -EHOSTDOWN && request->took >= request->patience &&
	    beest_clock_left(round->look->deadline)) {
		ret = part_ask_less(round, part);
	} else if (part_wants_probe(round, part)) {
		ret = beest_kv_probe(registry->kv, request->server,
				     probe_until(registry, request->server, round->look->deadline),
				     &stats);
	} else if (request->ret == -ENODATA) {
		ret = epoch_mend(registry, request->server, round->look->deadline);
		if (ret == 0) {
			part_again(round, part);
			ret = request->ret;
		}
		if (ret == -ENODATA)
			ret = beest_fail(ENOBUFS, "server %s loses at once whatever it stores",
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
					 0);
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
	const size_t server = beest_registry_server(registry, BEEST_KEY_RANK);
	struct beest_look_want own = { .server = server };
	struct beest_look first = { .wants = &own, .count = 1, .deadline = look->deadline };
	size_t i;

	for (i = 0; i < look->count; i++) {
		look->wants[i].failed = false;
		look->wants[i].value = (struct beest_kv_value){ 0 };
	}
	if (registry->server_count > 1 && !server_is_away(registry, server) &&
	    !beest_lease_is(registry->leases, registry->keys[BEEST_KEY_RANK],
			    BEEST_LEASE_SETTLED) &&
	    round_take(registry, &first, server) < 0)
		beest_look_degraded(registry);

	return round_take(registry, look, look->flags & BEEST_LOOK_OFFER ?
			  look->wants[0].server : SIZE_MAX);
}

void beest_look_offer(struct beest_registry *registry, struct beest_look_extra *extra,
		      unsigned int flags)
{
	struct beest_look_want want = { .server = extra->server };
	struct beest_look look = {
		.wants = &want, .count = 1, .extras = extra, .extra_count = 1,
		.flags = BEEST_LOOK_OFFER | flags,
		.deadline = beest_look_brief(registry, extra->server),
	};

	beest_look_take(registry, &look);
}

void beest_look_send(struct beest_registry *registry, const char *key)
{
	struct beest_look_extra none = {
		.server = beest_kv_server_of(registry->kv, key), .done = true,
	};

	beest_look_offer(registry, &none, 0);
}

void beest_look_free(struct beest_look_want *wants, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		beest_kv_values_free(&wants[i].value, 1);
}
