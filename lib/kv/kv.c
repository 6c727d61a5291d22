/* SPDX-License-Identifier: MIT */
/*
 * kv.c - requests that go to all servers at once
 *
 * What must be true of a request is checked in request.c, what a server does with it is
 * memcached.c's concern; here connections are taken, driven and given back.
 */
#include "config.h"

#include <stdlib.h>

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

int beest_kv_open(struct beest_kv **kvp, const struct beest_hostport *servers, size_t count)
{
	struct beest_kv *kv = calloc(1, sizeof(*kv));
	int ret = 0;
	size_t i;

	if (kv) {
		kv->servers = calloc(count, sizeof(*kv->servers));
		kv->choices = calloc(count, sizeof(*kv->choices));
	}
	if (!kv || !kv->servers || !kv->choices) {
		beest_kv_close(kv);
		return beest_fail(ENOMEM, "no memory for %zu servers", count);
	}

	kv->count = count;
	for (i = 0; i < count && ret == 0; i++) {
		ret = beest_pool_open(&kv->servers[i], &servers[i]);
		if (ret == 0)
			beest_choice_set(&kv->choices[i], kv->servers[i].text);
	}
	if (ret < 0)
		beest_kv_close(kv);
	else
		*kvp = kv;

	return ret;
}

void beest_kv_close(struct beest_kv *kv)
{
	size_t i;

	if (!kv)
		return;

	for (i = 0; i < kv->count; i++)
		beest_pool_close(&kv->servers[i]);
	free(kv->servers);
	free(kv->choices);
	beest_login_free(&kv->login);
	free(kv);
}

int beest_kv_login(struct beest_kv *kv, const struct beest_login *login)
{
	size_t i, k;
	int ret;

	ret = beest_memcached_login_check(login);
	if (ret == 0)
		ret = beest_login_copy(&kv->login, login);
	if (ret < 0)
		return ret;

	for (i = 0; i < kv->count; i++)
		for (k = 0; k < kv->servers[i].address_count; k++)
			kv->servers[i].addresses[k].login = &kv->login;

	return 0;
}

uint64_t beest_kv_digest(const struct beest_kv *kv)
{
	return beest_choice_digest(kv->choices, kv->count);
}

size_t beest_kv_server_of(const struct beest_kv *kv, const char *key)
{
	return beest_choice_of(kv->choices, kv->count, key);
}

size_t beest_kv_count(const struct beest_kv *kv)
{
	return kv->count;
}

const char *beest_kv_text(const struct beest_kv *kv, size_t server)
{
	return kv->servers[server].text;
}

static int request_end(struct beest_kv *kv, struct beest_kv_request *request, int ret)
{
	if (request->session)
		ret = beest_pool_give(&kv->servers[request->server], request->session, ret);
	request->session = NULL;
	if (ret < 0)
		beest_request_spoil(request, ret);
	request->ret = ret;

	return ret;
}

/* With a login every write waits for its answer, so no connection buffers. */
static int request_begin(struct beest_kv *kv, struct beest_kv_request *request, int64_t deadline)
{
	bool buffering = !(request->flags & BEEST_KV_ANSWERED) && !kv->login.user;
	int ret;

	ret = beest_request_prepare(request);
	if (ret == 0)
		ret = beest_pool_take(&kv->servers[request->server], buffering,
				      &request->session);
	if (ret == 0)
		ret = beest_memcached_send(request->session, request, deadline);

	return ret < 0 ? request_end(kv, request, ret) : 0;
}

/* The last failure is returned, since its sentence is the one that is kept. */
int beest_kv_run(struct beest_kv *kv, struct beest_kv_request *requests, size_t count,
		 int64_t deadline)
{
	int ret, result = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		ret = request_begin(kv, &requests[i], deadline);
		result = ret < 0 ? ret : result;
	}
	for (i = 0; i < count; i++) {
		if (!requests[i].session)
			continue;
		ret = request_end(kv, &requests[i], beest_memcached_receive(requests[i].session));
		result = ret < 0 ? ret : result;
	}

	return result;
}

int beest_kv_probe(struct beest_kv *kv, size_t server, struct beest_kv_stats *stats)
{
	return beest_probe(beest_pool_address(&kv->servers[server]), stats);
}
