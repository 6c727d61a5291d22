/* SPDX-License-Identifier: MIT */
/* published.c - see published.h */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/crc32.h"
#include "lib/error.h"
#include "lib/published.h"

/* One server that keeps silent must not use up the time of the others. */
#define WITHDRAW_ATTEMPT (250 * BEEST_MS)

#define TTL_MAX (INT64_C(30) * 24 * 60 * 60 * BEEST_SECOND)

struct own {
	char key[BEEST_KEY_MAX + 1];
	uint32_t hash;
	enum beest_record_kind kind;
	int flags;
	uint64_t owner;		/* 0: nobody in particular */
	uint8_t *bytes;
	size_t size;
	uint64_t version;	/* never the same twice */
	int64_t put;		/* when a server took this version, 0: not yet */
};

struct beest_published {
	struct beest_exchange *exchange;
	const struct beest_log *log;
	int64_t ttl;
	pid_t pid;		/* of the first user, 0: none yet */

	pthread_mutex_t lock;	/* of all below */
	struct own *list;
	size_t count, room;
	uint64_t versions;
	size_t turn;		/* where the next watch begins */
	bool lost;		/* something was missing at the last look */
};

int beest_published_open(struct beest_published **publishedp,
			 struct beest_exchange *exchange, int64_t ttl,
			 const struct beest_log *log)
{
	struct beest_published *published = calloc(1, sizeof(*published));

	if (!published)
		return beest_fail(ENOMEM, "no memory for the list of records");

	published->exchange = exchange;
	published->log = log;
	published->ttl = ttl < TTL_MAX ? ttl : TTL_MAX;
	pthread_mutex_init(&published->lock, NULL);
	*publishedp = published;

	return 0;
}

void beest_published_close(struct beest_published *published)
{
	size_t i;

	if (!published)
		return;

	for (i = 0; i < published->count; i++)
		free(published->list[i].bytes);
	free(published->list);
	if (beest_published_mine(published))
		pthread_mutex_destroy(&published->lock);
	free(published);
}

bool beest_published_mine(struct beest_published *published)
{
	pid_t owner = 0, self = getpid();

	return __atomic_compare_exchange_n(&published->pid, &owner, self, false,
					   __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
	       owner == self;
}

int64_t beest_published_ttl(const struct beest_published *published)
{
	return (published->ttl + BEEST_SECOND - 1) / BEEST_SECOND;
}

/* ------------------------------------------------ under the lock: the list --- */

static struct own *find(struct beest_published *published, const char *key)
{
	uint32_t hash = beest_crc32(key, strlen(key));
	size_t i;

	for (i = 0; i < published->count; i++)
		if (published->list[i].hash == hash && !strcmp(published->list[i].key, key))
			return &published->list[i];

	return NULL;
}

static bool grow(struct beest_published *published)
{
	size_t room = published->room ? 2 * published->room : 16;
	struct own *list;

	if (published->count < published->room)
		return true;

	list = realloc(published->list, room * sizeof(*list));
	if (!list)
		return false;
	published->list = list;
	published->room = room;

	return true;
}

static struct own *append(struct beest_published *published, const char *key)
{
	struct own *own;

	if (!grow(published))
		return NULL;

	own = &published->list[published->count++];
	memset(own, 0, sizeof(*own));
	strcpy(own->key, key);
	own->hash = beest_crc32(key, strlen(key));

	return own;
}

/* A copy that outlives the lock; its bytes are for free(3). */
static bool copy_own(const struct own *own, struct own *copy)
{
	*copy = *own;
	copy->bytes = malloc(own->size ? own->size : 1);
	if (!copy->bytes)
		return false;
	memcpy(copy->bytes, own->bytes, own->size);

	return true;
}

/* ------------------------------------------------------------ one step each --- */

int beest_published_set(struct beest_published *published, enum beest_record_kind kind,
			const char *key, uint8_t *bytes, size_t size, int flags)
{
	uint8_t *former = bytes;
	struct own *own;

	pthread_mutex_lock(&published->lock);
	own = find(published, key);
	if (!own)
		own = append(published, key);
	if (own) {
		former = own->bytes;
		own->kind = kind;
		own->bytes = bytes;
		own->size = size;
		own->flags |= flags;
		own->owner = 0;
		own->version = ++published->versions;
		own->put = 0;
	}
	pthread_mutex_unlock(&published->lock);
	free(former);

	return own ? 0 : beest_fail(ENOMEM, "no memory to remember key '%s'", key);
}

void beest_published_own(struct beest_published *published, const char *key, uint64_t owner)
{
	struct own *own;

	pthread_mutex_lock(&published->lock);
	own = find(published, key);
	if (own)
		own->owner = owner;
	pthread_mutex_unlock(&published->lock);
}

bool beest_published_is_put(struct beest_published *published, const char *key)
{
	struct own *own;
	bool put;

	pthread_mutex_lock(&published->lock);
	own = find(published, key);
	put = own && own->put;
	pthread_mutex_unlock(&published->lock);

	return put;
}

void beest_published_forget(struct beest_published *published, const char *key)
{
	uint8_t *bytes = NULL;
	struct own *own;

	pthread_mutex_lock(&published->lock);
	own = find(published, key);
	if (own) {
		bytes = own->bytes;
		*own = published->list[--published->count];
	}
	pthread_mutex_unlock(&published->lock);
	free(bytes);
}

/* 1: copied, 0: not in the list. */
static int copy_by_key(struct beest_published *published, const char *key, struct own *copy)
{
	struct own *own;
	bool copied = true;

	pthread_mutex_lock(&published->lock);
	own = find(published, key);
	if (own)
		copied = copy_own(own, copy);
	pthread_mutex_unlock(&published->lock);
	if (!copied)
		return beest_fail(ENOMEM, "no memory for the record of key '%s'", key);

	return own != NULL;
}

/* Notes that a server took @sent; false when the list has changed meanwhile. */
static bool note_put(struct beest_published *published, const struct own *sent)
{
	struct own *own;
	bool same;

	pthread_mutex_lock(&published->lock);
	own = find(published, sent->key);
	same = own && own->version == sent->version;
	if (same)
		own->put = beest_now();
	pthread_mutex_unlock(&published->lock);

	return same;
}

static int delete_key(struct beest_published *published, const char *key, int64_t deadline)
{
	int ret = beest_exchange_delete(published->exchange, key, deadline);

	return ret == -ENOENT ? 0 : ret;
}

int beest_published_sync(struct beest_published *published, const char *key,
			 int64_t deadline)
{
	struct own own;
	int ret;

	do {
		ret = copy_by_key(published, key, &own);
		if (ret < 0)
			return ret;
		if (ret == 0)
			return delete_key(published, key, deadline);
		ret = beest_exchange_put(published->exchange, key, own.bytes, own.size,
					 beest_published_ttl(published), deadline);
		free(own.bytes);
		if (ret < 0)
			return ret;
	} while (!note_put(published, &own));

	return 0;
}

/* -------------------------------------------------------------- growing old --- */

static bool is_old(const struct beest_published *published, const struct own *own, int64_t now)
{
	return own->put && !(own->flags & BEEST_PUBLISHED_LETTER) &&
	       now - own->put > published->ttl / 3;
}

static bool find_old(struct beest_published *published, char key[BEEST_KEY_MAX + 1])
{
	int64_t now = beest_now();
	bool found = false;
	size_t i;

	pthread_mutex_lock(&published->lock);
	for (i = 0; i < published->count && !found; i++) {
		found = is_old(published, &published->list[i], now);
		if (found)
			strcpy(key, published->list[i].key);
	}
	pthread_mutex_unlock(&published->lock);

	return found;
}

int beest_published_refresh(struct beest_published *published, int64_t deadline)
{
	char key[BEEST_KEY_MAX + 1];
	int ret = 0;

	while (ret == 0 && published->ttl && find_old(published, key))
		ret = beest_published_sync(published, key, deadline);

	return ret;
}

/* ------------------------------------------------------------- getting lost --- */

static void watch_own(struct beest_watch *watch, const struct own *own)
{
	strcpy(watch->key, own->key);
	watch->anchor = own->flags & BEEST_PUBLISHED_ANCHOR;
	watch->version = own->version;
}

static size_t watch_anchor(struct beest_published *published, struct beest_watch *watch)
{
	size_t i;

	for (i = 0; i < published->count; i++) {
		if (!(published->list[i].flags & BEEST_PUBLISHED_ANCHOR) ||
		    !published->list[i].put)
			continue;
		watch_own(watch, &published->list[i]);
		return 1;
	}

	return 0;
}

size_t beest_published_watch(struct beest_published *published,
			     struct beest_watch watch[BEEST_WATCH_MAX])
{
	const struct own *own;
	size_t step, watched;

	pthread_mutex_lock(&published->lock);
	watched = watch_anchor(published, watch);
	for (step = 0; step < published->count && watched < BEEST_WATCH_MAX; step++) {
		own = &published->list[published->turn++ % published->count];
		if (own->put && !(own->flags & (BEEST_PUBLISHED_ANCHOR | BEEST_PUBLISHED_LETTER)))
			watch_own(&watch[watched++], own);
	}
	pthread_mutex_unlock(&published->lock);

	return watched;
}

/* Removed or replaced since it was asked for: then its absence means nothing. */
static bool is_current(struct beest_published *published, const struct beest_watch *watch)
{
	struct own *own;
	bool current;

	pthread_mutex_lock(&published->lock);
	own = find(published, watch->key);
	current = own && own->version == watch->version;
	pthread_mutex_unlock(&published->lock);

	return current;
}

/* 1: copied, 0: none there. */
static int copy_by_index(struct beest_published *published, size_t i, struct own *copy)
{
	bool within, copied = true;

	pthread_mutex_lock(&published->lock);
	within = i < published->count;
	if (within)
		copied = copy_own(&published->list[i], copy);
	pthread_mutex_unlock(&published->lock);
	if (!copied)
		return beest_fail(ENOMEM, "no memory for a record");

	return within;
}

/* By add: another's record stays.  If ours was removed meanwhile, it must go again. */
static int put_back(struct beest_published *published, const struct own *own, int64_t deadline)
{
	int ret;

	if (!own->put)
		return 0;

	ret = beest_exchange_add(published->exchange, own->key, own->bytes, own->size,
				 beest_published_ttl(published), deadline);
	if (ret == -EEXIST)
		return 0;
	if (ret == 0 && !note_put(published, own))
		ret = beest_published_sync(published, own->key, deadline);

	return ret;
}

/* A server that fails is left out from then on; the records of others go back. */
static int put_all_back(struct beest_published *published, int64_t deadline)
{
	const char *server, *bad = NULL;
	int ret, result = 0;
	struct own own;
	size_t i;

	for (i = 0; ; i++) {
		ret = copy_by_index(published, i, &own);
		if (ret <= 0)
			return ret < 0 ? ret : result;
		server = beest_exchange_server(published->exchange, own.key);
		ret = server == bad ? 0 : put_back(published, &own, deadline);
		free(own.bytes);
		if (ret < 0) {
			bad = server;
			result = ret;
		}
	}
}

/* Says so once, until a look finds everything there again. */
static void note_lost(struct beest_published *published, const char *key)
{
	bool before;

	pthread_mutex_lock(&published->lock);
	before = published->lost;
	published->lost = key != NULL;
	pthread_mutex_unlock(&published->lock);

	if (key && !before)
		beest_log(published->log, BEEST_LOG_WARN, "server %s lost key '%s' "
			  "(restarted, or short of memory): putting all records back",
			  beest_exchange_server(published->exchange, key), key);
}

int beest_published_check(struct beest_published *published,
			  const struct beest_watch *watch, size_t count,
			  const struct beest_value *values, int64_t deadline)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (values[i].bytes || !is_current(published, &watch[i]))
			continue;
		note_lost(published, watch[i].key);
		return put_all_back(published, deadline);
	}
	if (count)
		note_lost(published, NULL);

	return 0;
}

/* ------------------------------------------------------------------ the end --- */

static int get_one(struct beest_published *published, const char *key,
		   struct beest_value *value, int64_t deadline)
{
	return beest_exchange_get(published->exchange, &key, 1, value, deadline);
}

static bool is_of(const struct own *own, const struct beest_value *value,
		  const struct beest_incarnation *incarnation)
{
	struct beest_record record;

	return value->bytes &&
	       beest_record_decode(value->bytes, value->size, own->kind, own->key,
				   &record) == 0 &&
	       !memcmp(&record.author.incarnation, incarnation, sizeof(*incarnation));
}

static void withdraw_one(struct beest_published *published, const struct own *own,
			 const struct beest_incarnation *incarnation, int64_t deadline)
{
	int64_t attempt = beest_deadline(WITHDRAW_ATTEMPT);
	struct beest_value value;
	int ret;

	if (attempt > deadline)
		attempt = deadline;
	ret = get_one(published, own->key, &value, attempt);
	if (ret == 0 && is_of(own, &value, incarnation))
		ret = delete_key(published, own->key, attempt);
	beest_values_free(&value, 1);
	if (ret < 0)
		beest_log(published->log, BEEST_LOG_INFO, "key '%s' stays behind: %s",
			  own->key, beest_error_text());
}

void beest_published_withdraw(struct beest_published *published,
			      const struct beest_incarnation *incarnation,
			      int64_t deadline)
{
	size_t i;

	for (i = 0; i < published->count && beest_left(deadline); i++)
		if (!(published->list[i].flags & (BEEST_PUBLISHED_LETTER | BEEST_PUBLISHED_STAYS)))
			withdraw_one(published, &published->list[i], incarnation, deadline);
}

/* Out of the list, so that nobody puts it back; @own has no bytes then. */
static bool take_one_of(struct beest_published *published, uint64_t owner, struct own *own)
{
	uint8_t *bytes = NULL;
	size_t i;

	pthread_mutex_lock(&published->lock);
	for (i = 0; i < published->count && !bytes; i++) {
		if (published->list[i].owner != owner)
			continue;
		*own = published->list[i];
		bytes = own->bytes;
		published->list[i] = published->list[--published->count];
	}
	pthread_mutex_unlock(&published->lock);
	own->bytes = NULL;
	free(bytes);

	return bytes != NULL;
}

static bool is_listed(struct beest_published *published, const char *key)
{
	bool listed;

	pthread_mutex_lock(&published->lock);
	listed = find(published, key) != NULL;
	pthread_mutex_unlock(&published->lock);

	return listed;
}

/* What another thread published under the key meanwhile may have gone with it. */
void beest_published_disown(struct beest_published *published, uint64_t owner,
			    const struct beest_incarnation *incarnation, int64_t deadline)
{
	struct own own;

	while (take_one_of(published, owner, &own)) {
		if (!beest_left(deadline))
			continue;
		withdraw_one(published, &own, incarnation, deadline);
		if (is_listed(published, own.key))
			beest_published_sync(published, own.key, deadline);
	}
}
