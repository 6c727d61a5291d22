/* SPDX-License-Identifier: MIT */
/*
 * kv.c - which server has a key, and requests that go to all of them at once
 *
 * A key belongs to the server with the highest mix64(fnv1a64(server text) ^
 * fnv1a64(key)), the greater text at a tie.  Every implementation that shares keys
 * with this one must choose alike.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/kv/kv.h"
#include "lib/kv/login.h"
#include "lib/base/macro.h"
#include "lib/kv/pool.h"

#define TTL_MAX (INT64_C(30) * 24 * 60 * 60)	/* longer reads as a date */

struct beest_kv {
	struct beest_pool *servers;
	size_t count;
	struct beest_login login;
};

static uint64_t fnv1a64(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);

	return hash;
}

/* The finalizer of splitmix64: every bit in changes half of the bits out. */
static uint64_t mix64(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);

	return x ^ x >> 31;
}

static bool outranks(const struct beest_pool *a, const struct beest_pool *b, uint64_t key)
{
	uint64_t score_a = mix64(a->hash ^ key);
	uint64_t score_b = mix64(b->hash ^ key);

	if (score_a != score_b)
		return score_a > score_b;

	return strcmp(a->text, b->text) > 0;
}

static struct beest_pool *server_of(const struct beest_kv *exchange, const char *key)
{
	struct beest_pool *best = &exchange->servers[0];
	uint64_t hash = fnv1a64(key);
	size_t i;

	for (i = 1; i < exchange->count; i++)
		if (outranks(&exchange->servers[i], best, hash))
			best = &exchange->servers[i];

	return best;
}

int beest_kv_open(struct beest_kv **exchangep,
		  const struct beest_hostport *servers, size_t count)
{
	struct beest_kv *exchange = calloc(1, sizeof(*exchange));
	int ret = 0;
	size_t i;

	if (exchange)
		exchange->servers = calloc(count, sizeof(*exchange->servers));
	if (!exchange || !exchange->servers) {
		free(exchange);
		return beest_fail(ENOMEM, "no memory for %zu servers", count);
	}

	exchange->count = count;
	for (i = 0; i < count && ret == 0; i++) {
		exchange->servers[i].hash = fnv1a64(servers[i].text);
		ret = beest_pool_open(&exchange->servers[i], &servers[i]);
	}
	if (ret < 0) {
		beest_kv_close(exchange);
		return ret;
	}

	*exchangep = exchange;

	return 0;
}

void beest_kv_close(struct beest_kv *exchange)
{
	size_t i;

	if (!exchange)
		return;

	for (i = 0; i < exchange->count; i++)
		beest_pool_close(&exchange->servers[i]);
	free(exchange->servers);
	beest_login_free(&exchange->login);
	free(exchange);
}

int beest_kv_login(struct beest_kv *exchange, const struct beest_login *login)
{
	size_t i, k;
	int ret;

	ret = beest_memcached_login_check(login);
	if (ret == 0)
		ret = beest_login_copy(&exchange->login, login);
	if (ret < 0)
		return ret;

	for (i = 0; i < exchange->count; i++)
		for (k = 0; k < exchange->servers[i].address_count; k++)
			exchange->servers[i].addresses[k].login = &exchange->login;

	return 0;
}

uint64_t beest_kv_digest(const struct beest_kv *exchange)
{
	uint64_t sum = exchange->count;
	size_t i;

	for (i = 0; i < exchange->count; i++)
		sum += mix64(exchange->servers[i].hash);

	return mix64(sum);
}

const char *beest_kv_server(const struct beest_kv *exchange, const char *key)
{
	return server_of(exchange, key)->text;
}

bool beest_kv_transient(int error)
{
	static const int transient[] = {
		ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ECONNRESET, EHOSTDOWN,
		EUSERS, ENOBUFS,
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(transient); i++)
		if (error == -transient[i])
			return true;

	return false;
}

/* A CR LF in a key is the end of one command and the begin of another. */
static int key_check(const char *key)
{
	size_t i;

	for (i = 0; key[i] && i <= BEEST_KEY_MAX; i++)
		if ((uint8_t)key[i] <= 0x20 || (uint8_t)key[i] >= 0x7f)
			return beest_fail(EINVAL, "key %s: byte %zu is 0x%02x, which Memcached forbids",
					  BEEST_QUOTE(key), i + 1, (uint8_t)key[i]);
	if (i == 0)
		return beest_fail(EINVAL, "an empty key");
	if (i > BEEST_KEY_MAX)
		return beest_fail(EINVAL, "key %s: byte %d is one more than Memcached takes",
				  BEEST_QUOTE(key), BEEST_KEY_MAX + 1);

	return 0;
}

typedef int store_fn(struct beest_memcached *, const char *, const void *, size_t, int64_t, int64_t);

static int store(struct beest_pool *server, store_fn *fn, const char *key,
		 const void *value, size_t size, int64_t ttl, int64_t deadline)
{
	struct beest_memcached *session;
	int ret;

	ret = key_check(key);
	if (ret < 0)
		return ret;
	if (size > BEEST_VALUE_MAX)
		return beest_fail(EMSGSIZE, "key '%s': a value of %zu bytes, at most %d are possible",
				  key, size, BEEST_VALUE_MAX);

	ret = beest_pool_take(server, &session);
	if (ret < 0)
		return ret;
	ret = fn(session, key, value, size, ttl < TTL_MAX ? ttl : TTL_MAX, deadline);

	return beest_pool_give(server, session, ret);
}

int beest_kv_put(struct beest_kv *exchange, const char *key,
		 const void *value, size_t size, int64_t ttl, int64_t deadline)
{
	return store(server_of(exchange, key), beest_memcached_put, key, value, size, ttl,
		     deadline);
}

int beest_kv_add(struct beest_kv *exchange, const char *key,
		 const void *value, size_t size, int64_t ttl, int64_t deadline)
{
	return store(server_of(exchange, key), beest_memcached_add, key, value, size, ttl,
		     deadline);
}

static int delete(struct beest_pool *server, const char *key, int64_t deadline)
{
	struct beest_memcached *session;
	int ret;

	ret = key_check(key);
	if (ret < 0)
		return ret;

	ret = beest_pool_take(server, &session);
	if (ret < 0)
		return ret;

	return beest_pool_give(server, session, beest_memcached_delete(session, key, deadline));
}

int beest_kv_delete(struct beest_kv *exchange, const char *key, int64_t deadline)
{
	return delete(server_of(exchange, key), key, deadline);
}

/* The keys of one request, those of a server side by side. */
struct part {
	struct beest_pool *server;
	struct beest_memcached *session;	/* while an answer is due */
	size_t begin, count;
};

struct request {
	struct part *parts;		/* one a server */
	size_t part_count;
	const char **keys;
	size_t *lengths;
	size_t *where;			/* position among the caller's keys */
	size_t *part_of;		/* of the caller's keys */
};

static void request_free(struct request *request)
{
	free(request->parts);
	free(request->keys);
	free(request->lengths);
	free(request->where);
	free(request->part_of);
}

static int request_allocate(struct request *request, size_t servers, size_t keys)
{
	request->part_count = servers;
	request->parts = calloc(servers, sizeof(*request->parts));
	request->keys = calloc(keys, sizeof(*request->keys));
	request->lengths = calloc(keys, sizeof(*request->lengths));
	request->where = calloc(keys, sizeof(*request->where));
	request->part_of = calloc(keys, sizeof(*request->part_of));
	if (!request->parts || !request->keys || !request->lengths || !request->where ||
	    !request->part_of)
		return beest_fail(ENOMEM, "no memory for a request of %zu keys", keys);

	return 0;
}

/* Counts the keys of each server, then lays the parts end to end. */
static void parts_lay(struct request *request, const struct beest_kv *exchange,
		      const char *const *keys, size_t count)
{
	size_t i, begin = 0;

	for (i = 0; i < count; i++) {
		request->part_of[i] = (size_t)(server_of(exchange, keys[i]) - exchange->servers);
		request->parts[request->part_of[i]].count++;
	}
	for (i = 0; i < request->part_count; i++) {
		request->parts[i].server = &exchange->servers[i];
		request->parts[i].begin = begin;
		begin += request->parts[i].count;
		request->parts[i].count = 0;
	}
}

static void request_fill(struct request *request, const char *const *keys, size_t count)
{
	struct part *part;
	size_t i, at;

	for (i = 0; i < count; i++) {
		part = &request->parts[request->part_of[i]];
		at = part->begin + part->count++;
		request->keys[at] = keys[i];
		request->lengths[at] = strlen(keys[i]);
		request->where[at] = i;
	}
}

static int part_ask(struct request *request, struct part *part, int64_t deadline)
{
	struct beest_memcached *session;
	int ret;

	if (!part->count)
		return 0;

	ret = beest_pool_take(part->server, &session);
	if (ret < 0)
		return ret;
	ret = beest_memcached_ask(session, request->keys + part->begin,
				  request->lengths + part->begin, part->count, deadline);
	if (ret < 0)
		return beest_pool_give(part->server, session, ret);
	part->session = session;

	return 0;
}

static int part_collect(struct request *request, struct part *part,
			struct beest_kv_value *values, int64_t deadline)
{
	struct beest_memcached *session = part->session;
	int ret;

	if (!session)
		return 0;

	part->session = NULL;
	ret = beest_memcached_collect(session, request->keys + part->begin,
				      request->lengths + part->begin,
				      request->where + part->begin, part->count,
				      values, deadline);

	return beest_pool_give(part->server, session, ret);
}

/* Its answer is not known, in part perhaps: then none of it is. */
static void part_spoil(struct request *request, const struct part *part,
		       struct beest_kv_value *values, bool *failed)
{
	size_t i;

	for (i = part->begin; i < part->begin + part->count; i++) {
		beest_kv_values_free(&values[request->where[i]], 1);
		failed[request->where[i]] = true;
	}
}

/*
 * All servers work at once: each is asked before the first answer is awaited.  The last
 * failure is returned, since its sentence is the one that is kept.
 */
static int request_run(struct request *request, struct beest_kv_value *values, bool *failed,
		       int64_t deadline)
{
	int ret, result = 0;
	size_t i;

	for (i = 0; i < request->part_count; i++) {
		ret = part_ask(request, &request->parts[i], deadline);
		if (ret < 0) {
			part_spoil(request, &request->parts[i], values, failed);
			result = ret;
		}
	}
	for (i = 0; i < request->part_count; i++) {
		ret = part_collect(request, &request->parts[i], values, deadline);
		if (ret < 0) {
			part_spoil(request, &request->parts[i], values, failed);
			result = ret;
		}
	}

	return result;
}

static int get_all(struct beest_kv *exchange, const char *const *keys, size_t count,
		   struct beest_kv_value *values, bool *failed, int64_t deadline)
{
	struct request request = { NULL, 0, NULL, NULL, NULL, NULL };
	int ret;

	ret = request_allocate(&request, exchange->count, count);
	if (ret == 0) {
		parts_lay(&request, exchange, keys, count);
		request_fill(&request, keys, count);
		ret = request_run(&request, values, failed, deadline);
	}
	request_free(&request);

	return ret;
}

int beest_kv_get_some(struct beest_kv *exchange, const char *const *keys,
		      size_t count, struct beest_kv_value *values, bool *failed,
		      int64_t deadline)
{
	size_t i;
	int ret = 0;

	if (!count)
		return 0;

	memset(values, 0, count * sizeof(*values));
	memset(failed, 0, count * sizeof(*failed));
	for (i = 0; i < count && ret == 0; i++)
		ret = key_check(keys[i]);
	if (ret == 0)
		ret = get_all(exchange, keys, count, values, failed, deadline);

	return ret;
}

int beest_kv_get(struct beest_kv *exchange, const char *const *keys,
		 size_t count, struct beest_kv_value *values, int64_t deadline)
{
	bool *failed;
	int ret;

	if (!count)
		return 0;
	memset(values, 0, count * sizeof(*values));
	failed = calloc(count, sizeof(*failed));
	if (!failed)
		return beest_fail(ENOMEM, "no memory for a request of %zu keys", count);

	ret = beest_kv_get_some(exchange, keys, count, values, failed, deadline);
	if (ret < 0)
		beest_kv_values_free(values, count);
	free(failed);

	return ret;
}

/* ---------------------------------------------------- one server of them --- */

size_t beest_kv_count(const struct beest_kv *exchange)
{
	return exchange->count;
}

const char *beest_kv_text(const struct beest_kv *exchange, size_t server)
{
	return exchange->servers[server].text;
}

int beest_kv_put_at(struct beest_kv *exchange, size_t server, const char *key,
		    const void *value, size_t size, int64_t ttl, int64_t deadline)
{
	return store(&exchange->servers[server], beest_memcached_put, key, value, size, ttl,
		     deadline);
}

int beest_kv_delete_at(struct beest_kv *exchange, size_t server, const char *key,
		       int64_t deadline)
{
	return delete(&exchange->servers[server], key, deadline);
}

int beest_kv_get_at(struct beest_kv *exchange, size_t server, const char *key,
		    struct beest_kv_value *value, int64_t deadline)
{
	const size_t length = strlen(key), where = 0;
	struct beest_pool *at = &exchange->servers[server];
	struct beest_memcached *session;
	int ret;

	memset(value, 0, sizeof(*value));
	ret = beest_pool_take(at, &session);
	if (ret < 0)
		return ret;

	ret = beest_memcached_ask(session, &key, &length, 1, deadline);
	if (ret == 0)
		ret = beest_memcached_collect(session, &key, &length, &where, 1, value, deadline);
	ret = beest_pool_give(at, session, ret);
	if (ret < 0)
		beest_kv_values_free(value, 1);

	return ret;
}

void beest_kv_values_free(struct beest_kv_value *values, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		free(values[i].bytes);
		values[i].bytes = NULL;
		values[i].size = 0;
	}
}
