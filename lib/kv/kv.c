/* SPDX-License-Identifier: MIT */
/*
 * kv.c - requests that go to all servers at once
 *
 * What must be true of a request is checked in request.c, what a server does with it is
 * memcached.c's concern; here connections are taken, driven and given back.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/kv/choice.h"
#include "lib/kv/kv.h"
#include "lib/kv/login.h"
#include "lib/kv/pool.h"
#include "lib/kv/probe.h"
#include "lib/kv/request.h"

struct beest_kv {
	struct beest_pool *servers;
	struct beest_choice *choices;	/* the same servers */
	size_t count;
	struct beest_login login;
};

size_t beest_kv_server_of(const struct beest_kv *exchange, const char *key)
{
	return beest_choice_of(exchange->choices, exchange->count, key);
}

static struct beest_pool *server_of(const struct beest_kv *exchange, const char *key)
{
	return &exchange->servers[beest_kv_server_of(exchange, key)];
}

int beest_kv_open(struct beest_kv **exchangep,
		  const struct beest_hostport *servers, size_t count)
{
	struct beest_kv *exchange = calloc(1, sizeof(*exchange));
	int ret = 0;
	size_t i;

	if (exchange) {
		exchange->servers = calloc(count, sizeof(*exchange->servers));
		exchange->choices = calloc(count, sizeof(*exchange->choices));
	}
	if (!exchange || !exchange->servers || !exchange->choices) {
		beest_kv_close(exchange);
		return beest_fail(ENOMEM, "no memory for %zu servers", count);
	}

	exchange->count = count;
	for (i = 0; i < count && ret == 0; i++) {
		ret = beest_pool_open(&exchange->servers[i], &servers[i]);
		if (ret == 0)
			beest_choice_set(&exchange->choices[i], exchange->servers[i].text);
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
	free(exchange->choices);
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
	return beest_choice_digest(exchange->choices, exchange->count);
}

const char *beest_kv_server(const struct beest_kv *exchange, const char *key)
{
	return server_of(exchange, key)->text;
}

typedef int store_fn(struct beest_memcached *, const char *, const void *, size_t, int64_t, int64_t);

static int store(struct beest_pool *server, store_fn *fn, const char *key,
		 const void *value, size_t size, int64_t ttl, int64_t deadline)
{
	struct beest_memcached *session;
	int ret;

	ret = beest_request_check_key(key);
	if (ret < 0)
		return ret;
	ret = beest_request_check_size(key, size);
	if (ret < 0)
		return ret;

	ret = beest_pool_take(server, false, &session);
	if (ret < 0)
		return ret;
	ret = fn(session, key, value, size, beest_request_ttl(ttl), deadline);

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

	ret = beest_request_check_key(key);
	if (ret < 0)
		return ret;

	ret = beest_pool_take(server, false, &session);
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

	ret = beest_pool_take(part->server, false, &session);
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
		ret = beest_request_check_key(keys[i]);
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
	ret = beest_pool_take(at, false, &session);
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

/* ------------------------------------------------------- the new interface --- */

/* A request under way. */
struct run {
	struct beest_kv_request *request;
	struct beest_pool *server;
	struct beest_memcached *session;	/* NULL: ended */
	size_t *lengths;			/* of the keys */
};

static int lengths_of(const struct beest_kv_request *request, size_t **lengths)
{
	size_t i;

	*lengths = malloc((request->key_count + 1) * sizeof(**lengths));
	if (!*lengths)
		return beest_fail(ENOMEM, "no memory for a request of %zu keys",
				  request->key_count);
	for (i = 0; i < request->key_count; i++)
		(*lengths)[i] = strlen(request->keys[i]);

	return 0;
}

/* Nothing of a failed request is kept; a write that has no result of its own shares it. */
static void run_spoil(struct run *run, int ret)
{
	struct beest_kv_request *request = run->request;
	size_t i;

	beest_kv_values_free(request->values, request->key_count);
	request->answered = false;
	for (i = 0; i < request->write_count; i++)
		if (beest_memcached_is_answered(request, &request->writes[i]))
			request->writes[i].ret = ret;
}

static int run_end(struct run *run, int ret)
{
	if (run->session)
		ret = beest_pool_give(run->server, run->session, ret);
	run->session = NULL;
	free(run->lengths);
	run->lengths = NULL;
	if (ret < 0)
		run_spoil(run, ret);
	run->request->ret = ret;

	return ret;
}

static void request_clear(struct beest_kv_request *request)
{
	size_t i;

	if (request->key_count)
		memset(request->values, 0, request->key_count * sizeof(*request->values));
	for (i = 0; i < request->write_count; i++) {
		request->writes[i].ret = 0;
		request->writes[i].number = 0;
	}
	request->ret = 0;
	request->fresh = false;
	request->answered = false;
}

/* With a login every write waits for its answer, so no connection buffers. */
static int run_begin(struct run *run, struct beest_kv *kv, int64_t deadline)
{
	bool buffering = !(run->request->flags & BEEST_KV_ANSWERED) && !kv->login.user;
	int ret;

	request_clear(run->request);
	ret = beest_request_check(run->request);
	if (ret == 0)
		ret = lengths_of(run->request, &run->lengths);
	if (ret == 0)
		ret = beest_pool_take(run->server, buffering, &run->session);
	if (ret == 0)
		ret = beest_memcached_send(run->session, run->request, run->lengths, deadline);

	return ret < 0 ? run_end(run, ret) : 0;
}

static int run_finish(struct run *run, int64_t deadline)
{
	if (!run->session)
		return 0;

	return run_end(run, beest_memcached_receive(run->session, run->request, run->lengths,
						    deadline));
}

/* The last failure is returned, since its sentence is the one that is kept. */
static int runs_drive(struct run *runs, size_t count, struct beest_kv *kv, int64_t deadline)
{
	int ret, result = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		ret = run_begin(&runs[i], kv, deadline);
		result = ret < 0 ? ret : result;
	}
	for (i = 0; i < count; i++) {
		ret = run_finish(&runs[i], deadline);
		result = ret < 0 ? ret : result;
	}

	return result;
}

int beest_kv_run(struct beest_kv *kv, struct beest_kv_request *requests, size_t count,
		 int64_t deadline)
{
	struct run one = { NULL, NULL, NULL, NULL }, *runs = &one;
	size_t i;
	int ret;

	if (count > 1)
		runs = calloc(count, sizeof(*runs));
	if (!runs) {
		ret = beest_fail(ENOMEM, "no memory for %zu requests", count);
		for (i = 0; i < count; i++) {
			request_clear(&requests[i]);
			requests[i].ret = ret;
		}
		return ret;
	}

	for (i = 0; i < count; i++) {
		runs[i].request = &requests[i];
		runs[i].server = &kv->servers[requests[i].server];
	}
	ret = runs_drive(runs, count, kv, deadline);
	if (runs != &one)
		free(runs);

	return ret;
}

int beest_kv_probe(struct beest_kv *kv, size_t server, struct beest_kv_stats *stats)
{
	return beest_probe(beest_pool_address(&kv->servers[server]), stats);
}
