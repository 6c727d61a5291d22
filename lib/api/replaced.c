/* SPDX-License-Identifier: MIT */
/* replaced.c - see replaced.h */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "include/hartebeest-c.h"
#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/api/default.h"
#include "lib/api/remote.h"
#include "lib/api/replaced.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/core/bringup.h"
#include "lib/core/context.h"

/*
 * More frequent checks would find little and cost much.  After one that took long, the pause is
 * NOTICE_SHARE times as long, up to NOTICE_PAUSE_MAX: a bring-up goes on while its first queue
 * pairs are checked.
 */
#define NOTICE_PAUSE (100 * BEEST_MS)
#define NOTICE_PAUSE_MAX BEEST_SECOND
#define NOTICE_SHARE 16

/* A silent server stops a check after this time; the next check continues with the rest. */
#define NOTICE_TIME (250 * BEEST_MS)

/* A connection, which is made again when its peer is replaced. */
struct following {
	struct following *next;

	/* Atomic. */
	const struct ibv_cq *send_cq, *recv_cq;	/* of the last connect */
	int64_t changed;	/* when it was made again, or lost */
	bool again;		/* made again: the next connect has nothing to do */
	bool lost;		/* not made again: ignored until the next connect */
	bool awaited;		/* logged that a poll waits for it */
	int logged;		/* the failure of a check that was logged last; 0: none */

	const char *key;	/* of the peer; stored behind the name */
	char name[];
};

static pthread_mutex_t following_lock = PTHREAD_MUTEX_INITIALIZER;
static struct following *newest_following;	/* only grows */
static struct following *unchecked;		/* next check begins here; NULL: with the newest */
static int64_t next_check;			/* not before, by hartebeest_clock() */
static bool is_checking;			/* a thread is doing so now */
static bool is_suspected;

static struct following *all_following(void)
{
	return __atomic_load_n(&newest_following, __ATOMIC_ACQUIRE);
}

/* Looks it up by name: the program may have destroyed it, and made another one. */
static bool is_connected(const struct following *following)
{
	struct ibv_qp *qp;

	return hartebeest_qp_get(hartebeest_default_context(), following->name, &qp) == 0 &&
	       qp->state == IBV_QPS_RTS;
}

/*
 * As hartebeest_qp_follow(), but a peer that has left is no failure: a poll that waits for it logs
 * that once.  What lasts, as the failure of a rank, is logged once, too.
 */
static int follow_quietly(struct following *following, struct hartebeest_remote_qp *remote)
{
	struct hartebeest_context *hb = hartebeest_default_context();
	struct beest_limit limit;
	struct beest_qp *qp;
	int ret;

	beest_limit_start(&limit, NULL, HARTEBEEST_ONCE, 0);
	ret = beest_context_find_qp(hb, following->name, &qp);
	if (ret == 0)
		ret = beest_bringup_follow(hb, qp, following->key, remote, &limit);
	if (ret == 0 || ret == -ESHUTDOWN ||
	    __atomic_exchange_n(&following->logged, ret, __ATOMIC_RELAXED) == ret)
		return ret;

	return beest_call_done(hb, ret);
}

static void follow(struct following *following)
{
	struct hartebeest_remote_qp remote;
	bool lost;
	int ret;

	ret = follow_quietly(following, &remote);
	/* Native functions reset the queue pair, or connected it to another peer. */
	if (ret == -ENOTCONN) {
		__atomic_store_n(&following->lost, true, __ATOMIC_RELAXED);
		return;
	}
	lost = ret == -ENOENT || (ret < 0 && !is_connected(following));
	if (ret == 1)
		beest_remote_keep_qp(following->key, &remote);
	if (ret != 1 && !lost)
		return;

	__atomic_store_n(&following->again, !lost, __ATOMIC_RELAXED);
	__atomic_store_n(&following->lost, lost, __ATOMIC_RELAXED);
	__atomic_store_n(&following->changed, hartebeest_clock(), __ATOMIC_RELAXED);
}

static void follow_all(void)
{
	struct following *following = unchecked ? unchecked : all_following();
	int64_t begin = hartebeest_clock(), end, pause;

	for (; following && hartebeest_clock() < begin + NOTICE_TIME; following = following->next)
		if (!__atomic_load_n(&following->lost, __ATOMIC_RELAXED))
			follow(following);
	unchecked = following;
	end = hartebeest_clock();
	pause = BEEST_MIN((end - begin) * NOTICE_SHARE, NOTICE_PAUSE_MAX);
	next_check = end + BEEST_MAX(pause, NOTICE_PAUSE);
}

/* One thread checks at a time.  A suspicion noted meanwhile stays for the next check. */
void beest_replaced_check(void)
{
	bool suspicion;

	if (!all_following() || !beest_default_is_own() ||
	    __atomic_exchange_n(&is_checking, true, __ATOMIC_ACQUIRE))
		return;

	suspicion = __atomic_exchange_n(&is_suspected, false, __ATOMIC_RELAXED);
	if (suspicion || hartebeest_clock() > next_check)
		follow_all();
	__atomic_store_n(&is_checking, false, __ATOMIC_RELEASE);
}

void beest_replaced_suspect(void)
{
	__atomic_store_n(&is_suspected, true, __ATOMIC_RELAXED);
}

bool beest_replaced_is_suspected(void)
{
	return __atomic_load_n(&is_suspected, __ATOMIC_RELAXED);
}

static struct following *find_following(const char *name, const char *key)
{
	struct following *following = all_following();

	while (following && (strcmp(following->name, name) || strcmp(following->key, key)))
		following = following->next;
	return following;
}

static void follow_queues(struct following *following, const struct ibv_qp *qp)
{
	__atomic_store_n(&following->send_cq, qp->send_cq, __ATOMIC_RELAXED);
	__atomic_store_n(&following->recv_cq, qp->recv_cq, __ATOMIC_RELAXED);
}

/* Without memory, the connection works but is not followed. */
void beest_replaced_add(const char *name, const char *key, const struct ibv_qp *qp)
{
	struct following *following = find_following(name, key);
	size_t length = strlen(name) + 1;

	if (following) {
		follow_queues(following, qp);
		__atomic_store_n(&following->logged, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&following->lost, false, __ATOMIC_RELAXED);
		return;
	}
	following = calloc(1, sizeof(*following) + length + strlen(key) + 1);
	if (!following)
		return;

	follow_queues(following, qp);
	following->key = strcpy(following->name + length, key);
	memcpy(following->name, name, length);
	pthread_mutex_lock(&following_lock);
	following->next = newest_following;
	if (!following->next)
		next_check = hartebeest_clock() + NOTICE_PAUSE;
	__atomic_store_n(&newest_following, following, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&following_lock);
}

bool beest_replaced_again(const char *name, const char *key)
{
	struct following *following = find_following(name, key);

	return following && __atomic_exchange_n(&following->again, false, __ATOMIC_RELAXED) &&
	       is_connected(following);
}

/* The first connection from @following on whose completions @cq receives. */
static struct following *polled_by(struct following *following, const struct ibv_cq *cq)
{
	while (following && __atomic_load_n(&following->send_cq, __ATOMIC_RELAXED) != cq &&
	       __atomic_load_n(&following->recv_cq, __ATOMIC_RELAXED) != cq)
		following = following->next;
	return following;
}

/* Requests under way were lost with the earlier peer, and never complete. */
int beest_replaced_polled(const struct ibv_cq *cq, int64_t since)
{
	struct following *following = polled_by(all_following(), cq);

	for (; following; following = polled_by(following->next, cq))
		if (__atomic_load_n(&following->changed, __ATOMIC_RELAXED) >= since)
			return beest_fail(ECONNRESET, "queue pair '%s': its peer '%s' was "
					  "replaced, and requests under way are lost; the queue "
					  "pair is now %s", following->name, following->key,
					  following->lost ? "not connected" :
					  "connected to the new peer");
	return 0;
}

/* Helps where a program polls although it never connected, or a peer died silently. */
void beest_replaced_tell(const struct ibv_cq *cq)
{
	static bool alone;
	struct following *following = polled_by(all_following(), cq);
	struct hartebeest_context *hb = hartebeest_default_context();
	char peer[256] = "";
	const char *hint;

	if (__atomic_exchange_n(following ? &following->awaited : &alone, true, __ATOMIC_RELAXED))
		return;
	if (!following) {
		beest_log(beest_default_log(), BEEST_LOG_WARN, "still polling, but no completion "
			  "arrived for a second: hartebeest_connect_local_qp() has connected no "
			  "queue pair of this completion queue");
		return;
	}
	hartebeest_peer_text(hb, following->key, peer, sizeof(peer), HARTEBEEST_ONCE);
	hint = beest_context_endless(hb);
	beest_log(&hb->log, BEEST_LOG_WARN, "still polling, but no completion arrived for a "
		  "second: queue pair '%s' is connected to '%s' (%s)%s%s", following->name,
		  following->key, peer, hint ? "; " : "", hint ? hint : "");
}
