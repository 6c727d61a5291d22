/* SPDX-License-Identifier: MIT */
/* look.c - see look.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/rendezvous/look.h"

/* To a server that failed, what nobody waits for is sent this much later, ... */
#define AWAY_PAUSE BEEST_SECOND
/* ... and each time after twice as long, up to: */
#define AWAY_PAUSE_MAX (8 * BEEST_SECOND)

/* A server is asked for its evictions at most so often. */
#define PROBE_PAUSE BEEST_SECOND

/* So many times a server may evict what was just stored until nothing helps. */
#define STRIKES_MAX 3
/* Those that are longer ago than this do not count. */
#define STRIKE_TIME (10 * BEEST_SECOND)

/* So many own records are looked for before a server has lost all. */
#define WITNESSES_MAX 4

/* How many items of this library memcached 1.6 holds in a megabyte. */
#define ITEMS_PER_MB 4369

/* One request to one server: leases, and what is wanted there. */
struct part {
	struct beest_kv_request request;
	struct beest_lease_plan plan;
	struct beest_kv_write *writes;		/* the plan's, and what goes along */
	const char **keys;			/* epoch, the plan's, the wanted */
	struct beest_kv_value *values;
	size_t *want_of;			/* of the wanted keys */
	size_t want_count;
	uint64_t number;
	bool outdated;				/* the server has lost all of it since */
};

struct round {
	struct beest_registry *registry;
	struct beest_look *look;
	struct part *parts;
	size_t count;
	int ret;				/* the last failure, and its sentence */
	char why[BEEST_ERROR_SIZE];
};

static void round_fail(struct round *round, int ret)
{
	round->ret = ret;
	snprintf(round->why, sizeof(round->why), "%s", beest_error_text());
}

/* --------------------------------------------------------- what a part asks for --- */

static void part_free(struct part *part)
{
	if (part->values)
		beest_kv_values_free(part->values, part->request.key_count);
	beest_lease_plan_free(&part->plan);
	free(part->writes);
	free(part->keys);
	free(part->values);
	free(part->want_of);
}

static int part_allocate(struct part *part, size_t wants, size_t extras)
{
	size_t keys = 1 + part->plan.key_count + wants;

	part->writes = calloc(part->plan.write_count + extras + 1, sizeof(*part->writes));
	part->keys = calloc(keys, sizeof(*part->keys));
	part->values = calloc(keys, sizeof(*part->values));
	part->want_of = calloc(wants + 1, sizeof(*part->want_of));
	if (part->writes && part->keys && part->values && part->want_of)
		return 0;

	return beest_fail(ENOMEM, "no memory for a request of %zu keys", keys);
}

static void part_fill(struct part *part, const struct beest_registry_server *server,
		      struct beest_look *look)
{
	struct beest_kv_request *request = &part->request;
	const size_t index = request->server;
	size_t i;

	for (i = 0; i < part->plan.write_count; i++)
		part->writes[i] = part->plan.writes[i];
	request->writes = part->writes;
	request->write_count = part->plan.write_count;
	for (i = 0; i < look->extra_count && !(request->flags & BEEST_KV_ANSWERED); i++)
		if (look->extras[i].server == index && !look->extras[i].done)
			part->writes[request->write_count++] = look->extras[i].write;

	part->keys[request->key_count++] = server->epoch_key;
	for (i = 0; i < part->plan.key_count; i++)
		part->keys[request->key_count++] = part->plan.keys[i];
	for (i = 0; i < look->count && !(request->flags & BEEST_KV_ANSWERED); i++) {
		if (look->wants[i].server != index || !look->wants[i].key)
			continue;
		part->want_of[part->want_count++] = i;
		part->keys[request->key_count++] = look->wants[i].key;
	}
	request->keys = part->keys;
	request->values = part->values;
}

static size_t server_extras(const struct beest_look *look, size_t server)
{
	size_t i, count = 0;

	for (i = 0; i < look->extra_count; i++)
		count += look->extras[i].server == server && !look->extras[i].done;

	return count;
}

/* How many keys of a server are wanted; @needed: whether somebody waits for it at all. */
static size_t server_wants(const struct beest_look *look, size_t server, size_t *needed)
{
	size_t i, count = 0;

	*needed = server_extras(look, server);
	for (i = 0; i < look->count; i++) {
		if (look->wants[i].server != server)
			continue;
		(*needed)++;
		count += look->wants[i].key != NULL;
	}

	return count;
}

static bool server_is_away(struct beest_registry *registry, size_t server)
{
	bool away;

	pthread_mutex_lock(&registry->lock);
	away = beest_clock_now() < registry->servers[server].away_until;
	pthread_mutex_unlock(&registry->lock);

	return away;
}

/* Leases of a server that failed wait, unless somebody waits for that server anyway. */
static int part_plan(struct round *round, size_t server, unsigned int flags)
{
	struct part *part = &round->parts[round->count];
	struct beest_registry *registry = round->registry;
	struct beest_look *look = round->look;
	bool answered = flags & BEEST_LEASE_ANSWERED;
	size_t wants, needed;
	int ret = 0;

	memset(part, 0, sizeof(*part));
	part->request.server = server;
	part->request.flags = answered ? BEEST_KV_ANSWERED : 0;
	if (look->flags & BEEST_LOOK_OFFER && !answered)
		part->request.flags |= BEEST_KV_LAZY;
	wants = server_wants(look, server, &needed);
	if (!needed && server_is_away(registry, server))
		return 0;

	if (beest_registry_is_own(registry))
		ret = beest_lease_plan(registry->leases, server, flags, &part->plan);
	if (ret == 0 && !part->plan.write_count && !part->plan.key_count &&
	    (answered || (!wants && !server_extras(look, server)))) {
		part_free(part);
		return 0;
	}
	if (ret == 0)
		ret = part_allocate(part, answered ? 0 : wants, server_extras(look, server));
	if (ret < 0) {
		part_free(part);
		return ret;
	}
	part_fill(part, &registry->servers[server], look);
	part->number = __atomic_add_fetch(&registry->requests, 1, __ATOMIC_RELAXED);
	round->count++;

	return 0;
}

/* ------------------------------------------------------------------------ epochs --- */

/* The write that adds an epoch, with @bytes to hold it. */
static int epoch_write(const char *key, uint8_t bytes[BEEST_EPOCH_SIZE],
		       struct beest_kv_write *write)
{
	int ret = beest_random(bytes, BEEST_EPOCH_SIZE);

	memset(write, 0, sizeof(*write));
	write->verb = BEEST_KV_ADD;
	write->key = key;
	write->value = bytes;
	write->size = BEEST_EPOCH_SIZE;
	write->ttl = BEEST_EPOCH_TTL;

	return ret;
}

static bool epoch_known(struct beest_registry *registry, size_t server,
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

static bool key_is_there(struct beest_registry *registry, size_t server, const char *key,
			 int64_t deadline)
{
	struct beest_kv_value value = { NULL, 0 };
	struct beest_kv_request request = {
		.server = server, .keys = &key, .key_count = 1, .values = &value,
	};
	bool there;

	there = beest_kv_run(registry->kv, &request, 1, deadline) == 0;
	beest_kv_values_free(&value, 1);

	return there;
}

/* Where the epoch was evicted and not all else is lost, it is added again as it was. */
static bool epoch_still_counts(struct beest_registry *registry, size_t server, int64_t deadline)
{
	char key[BEEST_KEY_MAX + 1];
	size_t i;

	for (i = 0; i < WITNESSES_MAX && beest_registry_is_own(registry) &&
	     beest_lease_witness(registry->leases, server, i, key); i++)
		if (key_is_there(registry, server, key, deadline))
			return true;

	return false;
}

/*
 * A new connection has brought no epoch: the server has lost it, or is none.  Adds it with
 * an answer, which tells why where that fails.
 */
static int epoch_mend(struct beest_registry *registry, size_t server, int64_t deadline)
{
	uint8_t fresh[BEEST_EPOCH_SIZE], known[BEEST_EPOCH_SIZE];
	struct beest_kv_stats stats;
	struct beest_kv_write write;
	struct beest_kv_request request = {
		.server = server, .flags = BEEST_KV_ANSWERED, .writes = &write, .write_count = 1,
	};
	int ret;

	ret = beest_kv_probe(registry->kv, server, &stats);
	if (ret == 0)
		ret = epoch_write(registry->servers[server].epoch_key, fresh, &write);
	if (ret < 0)
		return ret;

	if (epoch_known(registry, server, known) &&
	    epoch_still_counts(registry, server, deadline))
		write.value = known;
	ret = beest_kv_run(registry->kv, &request, 1, deadline);

	return ret < 0 ? ret : write.ret == -EEXIST ? 0 : write.ret;
}

/* -EPROTO for what is no epoch. */
static int epoch_judge(struct beest_registry *registry, struct part *part)
{
	const size_t server = part->request.server;
	enum beest_epoch_verdict verdict;
	uint64_t begun = __atomic_load_n(&registry->requests, __ATOMIC_RELAXED);

	pthread_mutex_lock(&registry->lock);
	verdict = beest_epoch_judge(&registry->servers[server].epoch, &part->values[0],
				    part->number, begun);
	pthread_mutex_unlock(&registry->lock);
	part->outdated = verdict == BEEST_EPOCH_OUTDATED;

	if (verdict == BEEST_EPOCH_ALIEN)
		return beest_fail(EPROTO, "server %s: what is stored under %s is no epoch",
				  beest_kv_text(registry->kv, server),
				  registry->servers[server].epoch_key);
	if (verdict == BEEST_EPOCH_CHANGED && beest_registry_is_own(registry)) {
		beest_log(registry->log, BEEST_LOG_WARN, "server %s has lost what it had: "
			  "storing the records again", beest_kv_text(registry->kv, server));
		beest_lease_lose(registry->leases, server, part->number);
	}

	return 0;
}

/* Before messages go to a server that lost all: those of before are lost, these are not. */
static int epoch_learn(struct beest_registry *registry, size_t server, int64_t deadline)
{
	const char *keys[] = { registry->servers[server].epoch_key };
	struct beest_kv_value value = { NULL, 0 };
	struct part part = {
		.request = { .server = server, .keys = keys, .key_count = 1, .values = &value },
		.values = &value,
		.number = __atomic_add_fetch(&registry->requests, 1, __ATOMIC_RELAXED),
	};
	int ret;

	ret = beest_kv_run(registry->kv, &part.request, 1, deadline);
	if (ret == 0)
		ret = epoch_judge(registry, &part);
	beest_kv_values_free(&value, 1);

	return ret;
}

/* ----------------------------------------------------------------- a small server --- */

static int server_too_small(struct beest_registry *registry, size_t server,
			    const struct beest_kv_stats *stats)
{
	uint64_t limit = stats->limit_bytes >> 20, items, needed;

	items = (uint64_t)beest_lease_count(registry->leases) *
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

/* How often it was too small of late. */
static unsigned int server_strikes(struct beest_registry *registry, size_t server,
				   const struct beest_kv_stats *stats, int64_t former)
{
	struct beest_registry_server *own = &registry->servers[server];
	unsigned int strikes;

	pthread_mutex_lock(&registry->lock);
	if (stats->evictions <= own->evictions && !stats->out_of_memory_is_an_error)
		own->strikes = 0;
	else if (beest_clock_now() - former > STRIKE_TIME)
		own->strikes = 1;
	else
		own->strikes++;
	own->evictions = stats->evictions;
	strikes = own->strikes;
	pthread_mutex_unlock(&registry->lock);

	return strikes;
}

/*
 * A record that should be there is not.  A server that evicts is reported at once; where it
 * goes on like that, ranks would evict each other's records for ever.
 */
static int server_lost_some(struct beest_registry *registry, size_t server)
{
	struct beest_registry_server *own = &registry->servers[server];
	struct beest_kv_stats stats;
	int64_t former, now = beest_clock_now();
	unsigned int strikes;
	bool due;
	int ret;

	pthread_mutex_lock(&registry->lock);
	former = own->probed;
	due = !former || now - former >= PROBE_PAUSE;
	if (due)
		own->probed = now;
	pthread_mutex_unlock(&registry->lock);
	if (!due)
		return 0;

	ret = beest_kv_probe(registry->kv, server, &stats);
	if (ret < 0)
		return ret;
	strikes = server_strikes(registry, server, &stats, former);
	if (strikes == 0)
		return 0;

	ret = server_too_small(registry, server, &stats);
	if (strikes == 1)
		beest_log(registry->log, BEEST_LOG_WARN, "%s", beest_error_text());

	return strikes >= STRIKES_MAX ? ret : 0;
}

/* --------------------------------------------------------------------- one round --- */

static void server_failed(struct beest_registry *registry, size_t server)
{
	struct beest_registry_server *own = &registry->servers[server];

	pthread_mutex_lock(&registry->lock);
	own->away_pause = own->away_pause ? 2 * own->away_pause : AWAY_PAUSE;
	if (own->away_pause > AWAY_PAUSE_MAX)
		own->away_pause = AWAY_PAUSE_MAX;
	own->away_until = beest_clock_deadline(own->away_pause);
	pthread_mutex_unlock(&registry->lock);
}

static void server_answered(struct beest_registry *registry, size_t server)
{
	pthread_mutex_lock(&registry->lock);
	registry->servers[server].away_pause = 0;
	registry->servers[server].away_until = 0;
	pthread_mutex_unlock(&registry->lock);
}

/* The first failure among writes that wait for their answers. */
static int part_writes_failure(const struct part *part)
{
	size_t i;

	for (i = 0; i < part->plan.write_count; i++)
		if (part->writes[i].ret < 0 && part->writes[i].ret != -EEXIST)
			return part->writes[i].ret;

	return 0;
}

static void part_hand_over(struct part *part, struct beest_look *look)
{
	size_t i, at = 1 + part->plan.key_count, extra = part->plan.write_count;

	for (i = 0; i < look->extra_count && extra < part->request.write_count; i++)
		if (look->extras[i].server == part->request.server && !look->extras[i].done) {
			look->extras[i].write = part->writes[extra++];
			look->extras[i].done = true;
		}
	for (i = 0; i < part->want_count; i++) {
		look->wants[part->want_of[i]].value = part->values[at + i];
		part->values[at + i].bytes = NULL;
	}
}

static void part_wants_fail(const struct part *part, struct beest_look *look)
{
	bool answered = part->request.flags & BEEST_KV_ANSWERED;
	size_t i;

	for (i = 0; i < look->count; i++)
		if (look->wants[i].server == part->request.server &&
		    (!answered || !look->wants[i].key))
			look->wants[i].failed = true;
}

/* The request has ended with an answer, as far as it waits for one. */
static int part_judge(struct round *round, struct part *part)
{
	struct beest_registry *registry = round->registry;
	struct beest_kv_request *request = &part->request;
	bool answered = request->flags & BEEST_KV_ANSWERED;
	size_t i, missing = 0;
	int ret = 0;

	if (request->answered)
		ret = epoch_judge(registry, part);
	if (ret < 0)
		return ret;

	for (i = 0; i < part->plan.write_count; i++)
		part->plan.writes[i] = part->writes[i];
	if (part->plan.room)
		missing = beest_lease_done(registry->leases, &part->plan,
					   part->outdated ? -ENODATA : 0,
					   answered || request->answered, part->values + 1,
					   part->number);
	part_hand_over(part, round->look);
	server_answered(registry, request->server);
	if (missing)
		ret = server_lost_some(registry, request->server);

	return ret < 0 ? ret : part_writes_failure(part);
}

static void part_end(struct round *round, struct part *part)
{
	struct beest_registry *registry = round->registry;
	int ret = part->request.ret;

	if (ret == 0) {
		ret = part_judge(round, part);
		if (ret < 0)
			round_fail(round, ret);
	}
	if (ret == 0)
		return;

	round->ret = ret;
	if (part->plan.room)
		beest_lease_done(registry->leases, &part->plan, ret, false, NULL, part->number);
	part_wants_fail(part, round->look);
	server_failed(registry, part->request.server);
}

/* The same once more, over a new connection. */
static void part_again(struct round *round, struct part *part)
{
	beest_kv_values_free(part->values, part->request.key_count);
	part->number = __atomic_add_fetch(&round->registry->requests, 1, __ATOMIC_RELAXED);
	part->request.flags &= ~(unsigned int)BEEST_KV_LAZY;
	beest_kv_run(round->registry->kv, &part->request, 1, round->look->deadline);
}

/* A connection that is closed at once says little: a question of our own says more. */
static void part_explain(struct round *round, struct part *part)
{
	struct beest_kv_stats stats;
	int ret = beest_kv_probe(round->registry->kv, part->request.server, &stats);

	if (ret == 0)
		return;
	part->request.ret = ret;
	round_fail(round, ret);
}

/*
 * An old connection that brings no epoch may have been to a server that is gone.  A new
 * one says that the epoch has to be added.
 */
static void part_mend(struct round *round, struct part *part)
{
	struct beest_registry *registry = round->registry;
	int ret;

	if (part->request.ret == -ENODATA && !part->request.fresh)
		part_again(round, part);
	if (part->request.ret == -ECONNRESET && part->request.fresh)
		part_explain(round, part);
	if (part->request.ret != -ENODATA)
		return;

	ret = epoch_mend(registry, part->request.server, round->look->deadline);
	if (ret == 0 && part->request.flags & BEEST_KV_ANSWERED)
		ret = epoch_learn(registry, part->request.server, round->look->deadline);
	if (ret == 0) {
		part_again(round, part);
		ret = part->request.ret;
	}
	if (ret == -ENODATA)
		ret = beest_fail(ENOBUFS, "server %s loses at once what it stores",
				 beest_kv_text(registry->kv, part->request.server));
	part->request.ret = ret;
	if (ret < 0)
		round_fail(round, ret);
}

/* All requests work at once; the openings and their bytes live as long as the round. */
static int round_run(struct round *round)
{
	struct beest_registry *registry = round->registry;
	struct beest_kv_request *requests = calloc(round->count + 1, sizeof(*requests));
	struct beest_kv_write *openings = calloc(round->count + 1, sizeof(*openings));
	uint8_t (*epochs)[BEEST_EPOCH_SIZE] = calloc(round->count + 1, sizeof(*epochs));
	struct part *part;
	size_t i;
	int ret = 0;

	if (!requests || !openings || !epochs)
		ret = beest_fail(ENOMEM, "no memory for %zu requests", round->count);
	for (i = 0; i < round->count && ret == 0; i++) {
		part = &round->parts[i];
		if (!epoch_known(registry, part->request.server, epochs[i])) {
			ret = epoch_write(registry->servers[part->request.server].epoch_key,
					  epochs[i], &openings[i]);
			part->request.opening = &openings[i];
		}
		requests[i] = part->request;
	}
	if (ret == 0 &&
	    beest_kv_run(registry->kv, requests, round->count, round->look->deadline) < 0)
		snprintf(round->why, sizeof(round->why), "%s", beest_error_text());
	for (i = 0; i < round->count && ret == 0; i++) {
		part = &round->parts[i];
		part->request = requests[i];
		part_mend(round, part);
		part_end(round, part);
	}
	free(requests);
	free(openings);
	free(epochs);

	return ret;
}

/* @only: one server, or all of them. */
static int round_take(struct beest_registry *registry, struct beest_look *look, size_t only,
		      char why[BEEST_ERROR_SIZE])
{
	struct round round = { .registry = registry, .look = look };
	unsigned int check = look->flags & BEEST_LOOK_CHECK ? BEEST_LEASE_CHECK : 0;
	size_t i;
	int ret = 0;

	round.parts = calloc(2 * registry->server_count, sizeof(*round.parts));
	if (!round.parts)
		return beest_fail(ENOMEM, "no memory for a request");

	for (i = 0; i < registry->server_count && ret == 0; i++) {
		if (only != SIZE_MAX && only != i)
			continue;
		ret = part_plan(&round, i, check);
		if (ret == 0 && beest_registry_is_own(registry))
			ret = part_plan(&round, i, BEEST_LEASE_ANSWERED);
	}
	if (ret == 0 && round.count)
		ret = round_run(&round);
	for (i = 0; i < round.count; i++) {
		if (ret < 0 && round.parts[i].plan.room)
			beest_lease_done(registry->leases, &round.parts[i].plan, ret, false, NULL,
					 round.parts[i].number);
		part_free(&round.parts[i]);
	}
	free(round.parts);
	if (ret == 0 && round.ret < 0) {
		ret = round.ret;
		memcpy(why, round.why, BEEST_ERROR_SIZE);
	} else if (ret < 0) {
		snprintf(why, BEEST_ERROR_SIZE, "%s", beest_error_text());
	}

	return ret;
}

void beest_look_degraded(struct beest_registry *registry, const char *why)
{
	if (!__atomic_exchange_n(&registry->degraded, true, __ATOMIC_RELAXED))
		beest_log(registry->log, BEEST_LOG_WARN, "%s; what other servers have is not "
			  "affected", why);
}

/*
 * Whoever sees a record of ours must be able to see who we are, so with several servers
 * the presence is answered before anything goes to another one.
 */
int beest_look_take(struct beest_registry *registry, struct beest_look *look)
{
	const struct beest_presence *presence = &registry->presence;
	struct beest_look first = { .deadline = look->deadline };
	struct beest_look_want home = { .server = presence->server };
	char why[BEEST_ERROR_SIZE];
	size_t i;
	int ret;

	for (i = 0; i < look->count; i++) {
		look->wants[i].failed = false;
		look->wants[i].value = (struct beest_kv_value){ NULL, 0 };
	}
	if (registry->server_count > 1 && beest_registry_is_own(registry) &&
	    !server_is_away(registry, presence->server) &&
	    !beest_lease_is_settled(registry->leases, presence->key)) {
		first.wants = &home;
		first.count = 1;
		if (round_take(registry, &first, presence->server, why) < 0)
			beest_look_degraded(registry, why);
	}
	ret = round_take(registry, look, look->flags & BEEST_LOOK_OFFER ?
			 look->wants[0].server : SIZE_MAX, why);

	return ret < 0 ? beest_fail(-ret, "%s", why) : 0;
}

void beest_look_free(struct beest_look_want *wants, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		beest_kv_values_free(&wants[i].value, 1);
}
