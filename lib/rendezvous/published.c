/* SPDX-License-Identifier: MIT */
/* published.c - see published.h */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/rendezvous/published.h"
#include "lib/rendezvous/shelf.h"

/* One server that keeps silent must not use up the time of the others. */
#define WITHDRAW_ATTEMPT (250 * BEEST_MS)
#define WITHDRAW_BATCH 64

/* To a server that failed, what nobody waits for is sent this much later, ... */
#define AWAY_PAUSE BEEST_SECOND
/* ... and each time after twice as long, up to: */
#define AWAY_PAUSE_MAX (8 * BEEST_SECOND)

#define TTL_MAX (INT64_C(30) * 24 * 60 * 60 * BEEST_SECOND)

/* A server that failed: what nobody waits for is not sent to it for a while. */
struct away {
	int64_t until, pause;
};

struct beest_published {
	struct beest_kv *exchange;
	const struct beest_log *log;
	int64_t ttl;
	pid_t pid;		/* of the first user, 0: none yet */

	pthread_mutex_t lock;	/* of all below */
	struct beest_shelf shelf;
	uint64_t versions;
	struct away *away;	/* one a server */
	int64_t due;		/* nothing is to be sent by itself before that */
	bool moved;		/* a round may have missed one that took another's place */
	size_t turn;		/* where the next watch begins */
	bool lost;		/* something was missing at the last look */
};

int beest_published_open(struct beest_published **publishedp,
			 struct beest_kv *exchange, int64_t ttl,
			 const struct beest_log *log)
{
	struct beest_published *published = calloc(1, sizeof(*published));

	if (published)
		published->away = calloc(beest_kv_count(exchange),
					 sizeof(*published->away));
	if (!published || !published->away) {
		free(published);
		return beest_fail(ENOMEM, "no memory for the list of records");
	}

	published->exchange = exchange;
	published->log = log;
	published->ttl = ttl < TTL_MAX ? ttl : TTL_MAX;
	pthread_mutex_init(&published->lock, NULL);
	*publishedp = published;

	return 0;
}

void beest_published_close(struct beest_published *published)
{
	if (!published)
		return;

	beest_shelf_clear(&published->shelf);
	if (beest_published_mine(published))
		pthread_mutex_destroy(&published->lock);
	free(published->away);
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

/* Its time is over, by a server's clock that counts whole seconds: it is not lost. */
static bool is_expired(const struct beest_published *published, const struct beest_own *own)
{
	return published->ttl && own->put &&
	       beest_clock_now() - own->put > published->ttl - BEEST_SECOND;
}

static uint8_t *take(struct beest_published *published, struct beest_own *own)
{
	published->moved = true;
	return beest_shelf_take(&published->shelf, own);
}

/* Letters that no server has any more and nobody will put back, when there is no room. */
static void drop_expired_letters(struct beest_published *published)
{
	struct beest_shelf *shelf = &published->shelf;
	size_t i = 0;

	if (shelf->count < shelf->room)
		return;
	while (i < shelf->count)
		if ((shelf->list[i].flags & BEEST_PUBLISHED_LETTER) &&
		    is_expired(published, &shelf->list[i]))
			free(take(published, &shelf->list[i]));
		else
			i++;
}

static struct beest_own *find_or_add(struct beest_published *published, const char *key)
{
	struct beest_own *own = beest_shelf_find(&published->shelf, key);

	if (own)
		return own;
	drop_expired_letters(published);

	return beest_shelf_add(&published->shelf, key);
}

/* When it is to be sent by itself. */
static int64_t due(const struct beest_published *published, const struct beest_own *own)
{
	if (!own->put)
		return own->flags & BEEST_PUBLISHED_LAZY ? 0 : INT64_MAX;
	if (!published->ttl || own->flags & BEEST_PUBLISHED_LETTER)
		return INT64_MAX;
	return own->put + published->ttl / 3;
}

static void note_due(struct beest_published *published, const struct beest_own *own)
{
	int64_t at = due(published, own);

	if (at < published->due)
		published->due = at;
}

/* A copy that outlives the lock; its bytes are for free(3). */
static bool copy_own(const struct beest_own *own, struct beest_own *copy)
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
			const char *key, uint8_t *bytes, size_t size, int flags,
			uint64_t *version)
{
	uint8_t *former = bytes;
	struct beest_own *own;

	pthread_mutex_lock(&published->lock);
	own = find_or_add(published, key);
	if (own) {
		former = own->bytes;
		own->kind = kind;
		own->bytes = bytes;
		own->size = size;
		own->flags |= flags;
		own->owner = 0;
		own->version = ++published->versions;
		own->put = 0;
		if (version)
			*version = own->version;
		note_due(published, own);
	}
	pthread_mutex_unlock(&published->lock);
	free(former);

	return own ? 0 : beest_fail(ENOMEM, "no memory to remember key '%s'", key);
}

void beest_published_own(struct beest_published *published, const char *key, uint64_t owner)
{
	struct beest_own *own;

	pthread_mutex_lock(&published->lock);
	own = beest_shelf_find(&published->shelf, key);
	if (own)
		own->owner = owner;
	pthread_mutex_unlock(&published->lock);
}

bool beest_published_is_put(struct beest_published *published, const char *key)
{
	struct beest_own *own;
	bool put;

	pthread_mutex_lock(&published->lock);
	own = beest_shelf_find(&published->shelf, key);
	put = own && own->put;
	pthread_mutex_unlock(&published->lock);

	return put;
}

/* @unsent: only that version, and only if no server has it; 0: whatever stands there. */
static void forget(struct beest_published *published, const char *key, uint64_t unsent)
{
	uint8_t *bytes = NULL;
	struct beest_own *own;

	pthread_mutex_lock(&published->lock);
	own = beest_shelf_find(&published->shelf, key);
	if (own && (!unsent || (own->version == unsent && !own->put)))
		bytes = take(published, own);
	pthread_mutex_unlock(&published->lock);
	free(bytes);
}

void beest_published_forget(struct beest_published *published, const char *key)
{
	forget(published, key, 0);
}

void beest_published_forget_unsent(struct beest_published *published, const char *key,
				   uint64_t version)
{
	forget(published, key, version);
}

/* 1: copied, 0: not in the list. */
static int copy_by_key(struct beest_published *published, const char *key, struct beest_own *copy)
{
	struct beest_own *own;
	bool copied = true;

	pthread_mutex_lock(&published->lock);
	own = beest_shelf_find(&published->shelf, key);
	if (own)
		copied = copy_own(own, copy);
	pthread_mutex_unlock(&published->lock);
	if (!copied)
		return beest_fail(ENOMEM, "no memory for the record of key '%s'", key);

	return own != NULL;
}

/* Notes that a server took @sent; false when the list has changed meanwhile. */
static bool note_put(struct beest_published *published, const struct beest_own *sent)
{
	struct beest_own *own;
	bool same;

	pthread_mutex_lock(&published->lock);
	own = beest_shelf_find(&published->shelf, sent->key);
	same = own && own->version == sent->version;
	if (same) {
		own->put = beest_clock_now();
		note_due(published, own);
	}
	pthread_mutex_unlock(&published->lock);

	return same;
}

static int delete_key(struct beest_published *published, const char *key, int64_t deadline)
{
	int ret = beest_kv_delete(published->exchange, key, deadline);

	return ret == -ENOENT ? 0 : ret;
}

int beest_published_sync(struct beest_published *published, const char *key,
			 int64_t deadline)
{
	struct beest_own own;
	int ret;

	do {
		ret = copy_by_key(published, key, &own);
		if (ret < 0)
			return ret;
		if (ret == 0)
			return delete_key(published, key, deadline);
		ret = beest_kv_put(published->exchange, key, own.bytes, own.size,
				   beest_published_ttl(published), deadline);
		free(own.bytes);
		if (ret < 0)
			return ret;
	} while (!note_put(published, &own));

	return 0;
}

/* ------------------------------------------------------------- putting back --- */

/* 1: copied, 0: none there. */
static int copy_by_index(struct beest_published *published, size_t i, struct beest_own *copy)
{
	bool within, copied = true;

	pthread_mutex_lock(&published->lock);
	within = i < published->shelf.count;
	if (within)
		copied = copy_own(&published->shelf.list[i], copy);
	pthread_mutex_unlock(&published->lock);
	if (!copied)
		return beest_fail(ENOMEM, "no memory for a record");

	return within;
}

/* By add: another's record stays.  If ours was removed meanwhile, it must go again. */
static int put_back(struct beest_published *published, const struct beest_own *own,
		    int64_t deadline)
{
	int ret;

	if (!own->put)
		return 0;
	if ((own->flags & BEEST_PUBLISHED_LETTER) && is_expired(published, own))
		return 0;

	ret = beest_kv_add(published->exchange, own->key, own->bytes, own->size,
			   beest_published_ttl(published), deadline);
	if (ret == -EEXIST)
		return 0;
	if (ret == 0 && !note_put(published, own))
		ret = beest_published_sync(published, own->key, deadline);

	return ret;
}

/* What its readers took away must stay away, so only where the sentinel was lost. */
static int put_letters_back(struct beest_published *published, const char *server,
			    int64_t deadline)
{
	struct beest_own own;
	size_t i;
	int ret;

	for (i = 0; ; i++) {
		ret = copy_by_index(published, i, &own);
		if (ret <= 0)
			return ret;
		ret = 0;
		if ((own.flags & BEEST_PUBLISHED_LETTER) &&
		    beest_kv_server(published->exchange, own.key) == server)
			ret = put_back(published, &own, deadline);
		free(own.bytes);
		if (ret < 0)
			return ret;
	}
}

/* 1: the server has nothing there, 0: it has. */
static int is_missing(struct beest_published *published, const char *key, int64_t deadline)
{
	struct beest_kv_value value;
	bool missing;
	int ret;

	ret = beest_kv_get(published->exchange, &key, 1, &value, deadline);
	if (ret < 0)
		return ret;

	missing = !value.bytes;
	beest_kv_values_free(&value, 1);

	return missing;
}

/* The letters first: once it stands there, nobody looks for them. */
static int put_sentinel_back(struct beest_published *published, const struct beest_own *own,
			     int64_t deadline)
{
	int ret = 0;

	if (own->put && !is_expired(published, own))
		ret = is_missing(published, own->key, deadline);
	if (ret > 0)
		ret = put_letters_back(published, beest_kv_server(published->exchange,
								  own->key), deadline);

	return ret < 0 ? ret : put_back(published, own, deadline);
}

/* -------------------------------------------------------- sent by themselves --- */

struct round {
	size_t i;			/* where it goes on */
	int64_t now, next;		/* the next time that something is due */
};

static bool find_due(struct beest_published *published, struct round *round,
		     char key[BEEST_KEY_MAX + 1])
{
	const struct beest_shelf *shelf = &published->shelf;
	bool found = false;
	int64_t at;

	pthread_mutex_lock(&published->lock);
	for (; published->due <= round->now && round->i < shelf->count && !found; round->i++) {
		at = due(published, &shelf->list[round->i]);
		found = at <= round->now;
		if (at < round->next)
			round->next = at;
		if (found)
			strcpy(key, shelf->list[round->i].key);
	}
	if (!found && published->due <= round->now) {
		published->due = published->moved ? 0 : round->next;
		published->moved = false;
	}
	pthread_mutex_unlock(&published->lock);

	return found;
}

static size_t server_of(const struct beest_published *published, const char *key)
{
	const char *text = beest_kv_server(published->exchange, key);
	size_t i = 0;

	while (beest_kv_text(published->exchange, i) != text)
		i++;

	return i;
}

/* One that failed since @now, or shortly before, is not asked at every call. */
static bool is_away(struct beest_published *published, size_t server, int64_t now)
{
	bool away;

	pthread_mutex_lock(&published->lock);
	away = now < published->away[server].until;
	pthread_mutex_unlock(&published->lock);

	return away;
}

/* Each attempt may take a second of somebody's time, so they become rare. */
static void note_away(struct beest_published *published, size_t server)
{
	struct away *away = &published->away[server];

	pthread_mutex_lock(&published->lock);
	away->pause = away->pause ? 2 * away->pause : AWAY_PAUSE;
	if (away->pause > AWAY_PAUSE_MAX)
		away->pause = AWAY_PAUSE_MAX;
	away->until = beest_clock_deadline(away->pause);
	pthread_mutex_unlock(&published->lock);
}

static void note_back(struct beest_published *published, size_t server)
{
	pthread_mutex_lock(&published->lock);
	published->away[server].pause = 0;
	pthread_mutex_unlock(&published->lock);
}

/* A sentinel that is set anew would not show any more that its server lost the letters. */
static int renew(struct beest_published *published, const char *key, int64_t deadline)
{
	struct beest_own own;
	int ret;

	ret = copy_by_key(published, key, &own);
	if (ret <= 0)
		return ret;		/* 0: removed meanwhile, by who then deletes it */

	ret = 0;
	if (own.flags & BEEST_PUBLISHED_SENTINEL)
		ret = put_sentinel_back(published, &own, deadline);
	free(own.bytes);

	return ret < 0 ? ret : beest_published_sync(published, key, deadline);
}

void beest_published_away(struct beest_published *published, const char *key)
{
	note_away(published, server_of(published, key));
}

/* A server that fails is left out from then on; the records of others are sent. */
int beest_published_refresh(struct beest_published *published, int64_t deadline)
{
	struct round round = { .now = beest_clock_now(), .next = INT64_MAX };
	char key[BEEST_KEY_MAX + 1];
	int ret, result = 0;
	size_t server;

	while (find_due(published, &round, key)) {
		server = server_of(published, key);
		if (is_away(published, server, round.now))
			continue;
		ret = renew(published, key, deadline);
		if (ret == 0) {
			note_back(published, server);
			continue;
		}
		if (beest_kv_count(published->exchange) == 1)
			return ret;	/* what was called for is tried again, and this with it */
		note_away(published, server);
		result = ret;
	}

	return result;
}

/* ------------------------------------------------------------- getting lost --- */

static void watch_own(struct beest_watch *watch, const struct beest_own *own)
{
	strcpy(watch->key, own->key);
	watch->anchor = own->flags & BEEST_PUBLISHED_ANCHOR;
	watch->version = own->version;
}

static size_t watch_anchor(struct beest_published *published, struct beest_watch *watch)
{
	size_t i;

	for (i = 0; i < published->shelf.count; i++) {
		if (!(published->shelf.list[i].flags & BEEST_PUBLISHED_ANCHOR) ||
		    !published->shelf.list[i].put)
			continue;
		watch_own(watch, &published->shelf.list[i]);
		return 1;
	}

	return 0;
}

size_t beest_published_watch(struct beest_published *published,
			     struct beest_watch watch[BEEST_WATCH_MAX])
{
	const struct beest_own *own;
	size_t step, watched;

	pthread_mutex_lock(&published->lock);
	watched = watch_anchor(published, watch);
	for (step = 0; step < published->shelf.count && watched < BEEST_WATCH_MAX; step++) {
		own = &published->shelf.list[published->turn++ % published->shelf.count];
		if (own->put && !(own->flags & (BEEST_PUBLISHED_ANCHOR | BEEST_PUBLISHED_LETTER)))
			watch_own(&watch[watched++], own);
	}
	pthread_mutex_unlock(&published->lock);

	return watched;
}

/*
 * Removed or replaced since it was asked for, or at its end while nobody called: then its
 * absence means nothing.
 */
static bool is_current(struct beest_published *published, const struct beest_watch *watch)
{
	struct beest_own *own;
	bool current;

	pthread_mutex_lock(&published->lock);
	own = beest_shelf_find(&published->shelf, watch->key);
	current = own && own->version == watch->version && !is_expired(published, own);
	pthread_mutex_unlock(&published->lock);

	return current;
}

/* A server that fails is left out from then on; the records of others go back. */
static int put_all_back(struct beest_published *published, int64_t deadline)
{
	const char *server, *bad = NULL;
	int ret, result = 0;
	struct beest_own own;
	size_t i;

	for (i = 0; ; i++) {
		ret = copy_by_index(published, i, &own);
		if (ret <= 0)
			return ret < 0 ? ret : result;
		server = beest_kv_server(published->exchange, own.key);
		if (server == bad || own.flags & BEEST_PUBLISHED_LETTER)
			ret = 0;
		else if (own.flags & BEEST_PUBLISHED_SENTINEL)
			ret = put_sentinel_back(published, &own, deadline);
		else
			ret = put_back(published, &own, deadline);
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
			  beest_kv_server(published->exchange, key), key);
}

int beest_published_check(struct beest_published *published,
			  const struct beest_watch *watch, size_t count,
			  const struct beest_kv_value *values, int64_t deadline)
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

static bool is_of(const struct beest_own *own, const struct beest_kv_value *value,
		  const struct beest_incarnation *incarnation)
{
	struct beest_record record;

	return value->bytes &&
	       beest_record_decode(value->bytes, value->size, own->kind, own->key,
				   &record) == 0 &&
	       !memcmp(&record.author.incarnation, incarnation, sizeof(*incarnation));
}

static bool delete_of(struct beest_published *published, const struct beest_own *own,
		      const struct beest_kv_value *value,
		      const struct beest_incarnation *incarnation, int64_t deadline)
{
	return !is_of(own, value, incarnation) ||
	       delete_key(published, own->key, deadline) == 0;
}

/* Looked at together, deleted one by one.  Returns how many are dealt with. */
static size_t withdraw(struct beest_published *published, const struct beest_own *const *owns,
		       size_t count, const struct beest_incarnation *incarnation,
		       int64_t deadline)
{
	int64_t attempt = beest_clock_deadline(WITHDRAW_ATTEMPT);
	struct beest_kv_value values[WITHDRAW_BATCH];
	const char *keys[WITHDRAW_BATCH];
	bool failed[WITHDRAW_BATCH];
	size_t i, done = 0;
	int ret;

	if (attempt > deadline)
		attempt = deadline;
	for (i = 0; i < count; i++)
		keys[i] = owns[i]->key;
	ret = beest_kv_get_some(published->exchange, keys, count, values, failed, attempt);
	if (ret < 0 && !beest_kv_transient(ret)) {
		beest_kv_values_free(values, count);
		return 0;
	}
	attempt = beest_clock_deadline(WITHDRAW_ATTEMPT);	/* a silent one has used up the other */
	if (attempt > deadline)
		attempt = deadline;
	for (i = 0; i < count; i++)
		done += !failed[i] &&
			delete_of(published, owns[i], &values[i], incarnation, attempt);
	beest_kv_values_free(values, count);

	return done;
}

static bool goes_at_the_end(const struct beest_own *own)
{
	return !(own->flags & (BEEST_PUBLISHED_LETTER | BEEST_PUBLISHED_STAYS));
}

/* The next batch, from *i on. */
static size_t gather(const struct beest_shelf *shelf, size_t *i,
		     const struct beest_own *owns[WITHDRAW_BATCH])
{
	size_t count = 0;

	for (; *i < shelf->count && count < WITHDRAW_BATCH; (*i)++)
		if (goes_at_the_end(&shelf->list[*i]))
			owns[count++] = &shelf->list[*i];

	return count;
}

void beest_published_withdraw(struct beest_published *published,
			      const struct beest_incarnation *incarnation,
			      int64_t patience, int64_t deadline)
{
	const struct beest_own *owns[WITHDRAW_BATCH];
	int64_t silence = beest_clock_deadline(patience);
	size_t i = 0, count, done, left = 0;

	while ((count = gather(&published->shelf, &i, owns))) {
		done = 0;
		if (beest_clock_left(silence) && beest_clock_left(deadline))
			done = withdraw(published, owns, count, incarnation,
					silence < deadline ? silence : deadline);
		if (done == count)
			silence = beest_clock_deadline(patience);
		left += count - done;
	}
	if (left)
		beest_log(published->log, BEEST_LOG_WARN, "%zu records stay behind on the "
			  "servers until their time to live is over", left);
}

/* Out of the list, so that nobody puts it back; @own has no bytes then. */
static bool take_one_of(struct beest_published *published, uint64_t owner, struct beest_own *own)
{
	uint8_t *bytes = NULL;
	size_t i;

	pthread_mutex_lock(&published->lock);
	for (i = 0; i < published->shelf.count && !bytes; i++) {
		if (published->shelf.list[i].owner != owner)
			continue;
		*own = published->shelf.list[i];
		bytes = take(published, &published->shelf.list[i]);
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
	listed = beest_shelf_find(&published->shelf, key) != NULL;
	pthread_mutex_unlock(&published->lock);

	return listed;
}

/* What another thread published under the key meanwhile may have gone with it. */
void beest_published_disown(struct beest_published *published, uint64_t owner,
			    const struct beest_incarnation *incarnation, int64_t deadline)
{
	struct beest_own own;
	const struct beest_own *one = &own;

	while (take_one_of(published, owner, &own)) {
		if (!beest_clock_left(deadline))
			continue;
		if (withdraw(published, &one, 1, incarnation, deadline) == 0)
			beest_log(published->log, BEEST_LOG_INFO, "key '%s' stays behind: %s",
				  own.key, beest_error_text());
		if (is_listed(published, own.key))
			beest_published_sync(published, own.key, deadline);
	}
}
