/* SPDX-License-Identifier: MIT */
/* board.c - see board.h */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/rendezvous/board.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/rendezvous/guestbook.h"
#include "lib/rendezvous/published.h"
#include "lib/base/random.h"
#include "lib/rendezvous/wishes.h"

/* A request needs some time even when none is left: a wait of 0 looks once. */
#define REQUEST_MIN (250 * BEEST_MS)

/* An attempt with this much time before it has had all that it may take. */
#define LOOK_TIME BEEST_SECOND

/* While waiting, others' lists of servers are compared this long after the begin, ... */
#define VISIT_FIRST (20 * BEEST_MS)
/* ... and then each time after twice as long, up to: */
#define VISIT_LAST BEEST_SECOND

/* The end of a process must not hang on a server that is silent. */
#define CLOSE_MAX BEEST_SECOND
#define GUESTBOOK_MAX (250 * BEEST_MS)

struct beest_board {
	struct beest_kv *exchange;
	struct beest_published *published;
	struct beest_guestbook *guestbook;
	const struct beest_log *log;
	char *job;
	uint64_t owners;		/* marks drawn so far */
	int (*interrupt)(void *data);
	void *data;
	int size;
	int64_t timeout;
	struct beest_author author;
	char anchor[BEEST_KEY_MAX + 1];		/* key of one's own rank record */
	bool anchored;				/* it has been put once */
	bool maimed;				/* it was told that a server is away */
};

/* --------------------------------------------------------------- sentences --- */

/* "300 ms", "30 s", "10 min" */
static const char *span_text(int64_t ns, char *text, size_t size)
{
	int64_t seconds = ns / BEEST_SECOND;

	if (ns % BEEST_SECOND && seconds < 10)
		snprintf(text, size, "%" PRId64 " ms", ns / BEEST_MS);
	else if (seconds < 120 || seconds % 60)
		snprintf(text, size, "%" PRId64 " s", seconds);
	else
		snprintf(text, size, "%" PRId64 " min", seconds / 60);

	return text;
}

#define SPAN(ns) span_text(ns, (char[32]){ 0 }, 32)

/* What Memcached forbids in a key, in the user's own words: the name. */
static int word_check(const char *what, const char *word)
{
	size_t i;

	if (!*word)
		return beest_fail(EINVAL, "the %s is empty", what);
	for (i = 0; word[i]; i++)
		if ((uint8_t)word[i] <= 0x20 || (uint8_t)word[i] >= 0x7f)
			return beest_fail(EINVAL, "the %s %s cannot be part of a key: byte %zu "
					  "is 0x%02x", what, BEEST_QUOTE(word), i + 1,
					  (uint8_t)word[i]);

	return 0;
}

/* ----------------------------------------------------------- open and close --- */

/* Host names are for sentences; whatever is odd in one must not spoil the record. */
static void host_read(char host[BEEST_HOST_MAX])
{
	size_t i;

	if (gethostname(host, BEEST_HOST_MAX) < 0)
		strcpy(host, "unknown");
	host[BEEST_HOST_MAX - 1] = '\0';
	for (i = 0; host[i]; i++)
		if ((uint8_t)host[i] <= 0x20 || (uint8_t)host[i] >= 0x7f)
			host[i] = '?';
}

static int author_fill(struct beest_author *author, int rank)
{
	int ret = beest_random(&author->incarnation, sizeof(author->incarnation));

	if (ret == 0)
		ret = beest_process_mark(author->incarnation.bytes);
	host_read(author->host);
	author->rank = rank;

	return ret < 0 ? beest_fail(-ret, "no random bits for an incarnation") : 0;
}

/* A process without a rank has a record of its own all the same, for watching. */
static void anchor_name(const struct beest_author *author, char name[64])
{
	size_t i;

	if (author->rank >= 0) {
		snprintf(name, 64, "%" PRId32, author->rank);
		return;
	}
	for (i = 0; i < BEEST_INCARNATION_SIZE; i++)
		snprintf(name + 2 * i, 3, "%02x", author->incarnation.bytes[i]);
}

static int guestbook_open(struct beest_board *board)
{
	char key[BEEST_KEY_MAX + 1];
	int ret;

	ret = beest_board_key(board, BEEST_KIND_RANK, BEEST_GUESTBOOK_NAME, key);

	return ret < 0 ? ret : beest_guestbook_open(&board->guestbook, board->exchange, key,
						    board->log);
}

static int board_start(struct beest_board *board, const struct beest_board_config *config)
{
	char name[64];
	int ret;

	board->log = config->log;
	board->size = config->size;
	board->timeout = config->timeout;
	board->interrupt = config->interrupt;
	board->data = config->data;
	ret = word_check("job id", config->job);
	if (ret < 0)
		return ret;
	board->job = strdup(config->job);
	if (!board->job)
		return beest_fail(ENOMEM, "no memory for a job id");

	ret = author_fill(&board->author, config->rank);
	if (ret == 0) {
		anchor_name(&board->author, name);
		ret = beest_board_key(board, BEEST_KIND_RANK, name, board->anchor);
	}
	if (ret == 0)
		ret = beest_kv_open(&board->exchange, config->servers,
				    config->server_count);
	if (ret == 0 && config->login)
		ret = beest_kv_login(board->exchange, config->login);
	if (ret == 0)
		ret = beest_published_open(&board->published, board->exchange,
					   config->ttl, config->log);
	if (ret == 0)
		ret = guestbook_open(board);

	return ret;
}

static void board_free(struct beest_board *board)
{
	beest_guestbook_close(board->guestbook);
	beest_published_close(board->published);
	beest_kv_close(board->exchange);
	free(board->job);
	free(board);
}

int beest_board_open(struct beest_board **boardp, const struct beest_board_config *config)
{
	struct beest_board *board = calloc(1, sizeof(*board));
	int ret;

	if (!board)
		return beest_fail(ENOMEM, "no memory for a board");

	ret = board_start(board, config);
	if (ret < 0) {
		board_free(board);
		return ret;
	}
	*boardp = board;

	return 0;
}

void beest_board_close(struct beest_board *board)
{
	int64_t limit;

	if (!board)
		return;

	if (beest_published_mine(board->published)) {
		limit = board->timeout > CLOSE_MAX ? board->timeout : CLOSE_MAX;
		beest_published_withdraw(board->published, &board->author.incarnation,
					 CLOSE_MAX, beest_clock_deadline(limit));
		beest_guestbook_leave(board->guestbook, &board->author,
				      beest_clock_deadline(GUESTBOOK_MAX));
	}
	board_free(board);
}

const struct beest_incarnation *beest_board_incarnation(const struct beest_board *board)
{
	return &board->author.incarnation;
}

int beest_board_key(const struct beest_board *board, enum beest_record_kind kind,
		    const char *name, char key[BEEST_KEY_MAX + 1])
{
	int ret, size;

	ret = word_check("name", name);
	if (ret < 0)
		return ret;

	size = snprintf(key, BEEST_KEY_MAX + 1, "hb1/%s/%s/%s", board->job,
			beest_kind_word(kind), name);
	if (size > BEEST_KEY_MAX)
		return beest_fail(ENAMETOOLONG, "the name %s is too long: its key has %d bytes, "
				  "at most %d are possible", BEEST_QUOTE(name), size,
				  BEEST_KEY_MAX);

	return 0;
}

/* --------------------------------------------------------------- insistence --- */

static int64_t request_deadline(int64_t deadline)
{
	int64_t left = beest_clock_left(deadline);

	return beest_clock_deadline(left > REQUEST_MIN ? left : REQUEST_MIN);
}

/* One record on its way to the board or away from it. */
struct errand {
	char key[BEEST_KEY_MAX + 1];
	enum beest_record_kind kind;
	uint8_t *bytes;
	size_t size;
	int tries;
};

typedef int attempt_fn(struct beest_board *board, struct errand *errand, int64_t deadline);

/* Says so once: a server that is away is what a user wants to know at once. */
static void note_failure(const struct beest_board *board, int tries)
{
	if (tries == 1)
		beest_log(board->log, BEEST_LOG_WARN, "%s; trying again for up to %s",
			  beest_error_text(), SPAN(board->timeout));
}

static int insist(struct beest_board *board, attempt_fn *attempt, struct errand *errand)
{
	int64_t deadline = beest_clock_deadline(board->timeout);
	struct beest_backoff backoff;
	int ret;

	beest_clock_backoff_start(&backoff, board->size);
	for (;;) {
		ret = attempt(board, errand, request_deadline(deadline));
		if (!beest_kv_transient(ret))
			return ret;
		if (!beest_clock_left(deadline))
			return beest_fail_prefix(ret, "tried for %s", SPAN(board->timeout));
		note_failure(board, ++errand->tries);
		beest_clock_backoff_sleep(&backoff, deadline);
	}
}

/* ------------------------------------------------------- publish and remove --- */

static int errand_fill(const struct beest_board *board, struct errand *errand,
		       const void *payload, size_t size)
{
	struct beest_record record = {
		.kind = errand->kind,
		.author = board->author,
		.payload = payload,
		.payload_size = size,
	};
	size_t room = BEEST_RECORD_OVERHEAD + size;
	int ret;

	if (size > BEEST_VALUE_MAX - BEEST_RECORD_OVERHEAD)
		return beest_fail(EMSGSIZE, "key '%s': %zu bytes, at most %d are possible",
				  errand->key, size, BEEST_VALUE_MAX - BEEST_RECORD_OVERHEAD);
	errand->bytes = malloc(room);
	if (!errand->bytes)
		return beest_fail(ENOMEM, "no memory for a record of %zu bytes", room);

	strcpy(record.key, errand->key);
	record.author.pid = (uint32_t)getpid();
	record.author.time = (uint64_t)time(NULL);
	ret = beest_record_encode(&record, errand->bytes, room);
	if (ret < 0) {
		free(errand->bytes);
		return ret;
	}
	errand->size = (size_t)ret;

	return 0;
}

static int flags_of(enum beest_record_kind kind)
{
	switch (kind) {
	case BEEST_KIND_MESSAGE:
		return BEEST_PUBLISHED_LETTER;
	case BEEST_KIND_CONFIRM:
	case BEEST_KIND_BARRIER:
		return BEEST_PUBLISHED_STAYS;
	default:
		return 0;
	}
}

static int remember(struct beest_board *board, struct errand *errand, int flags,
		    uint64_t *version)
{
	return beest_published_set(board->published, errand->kind, errand->key,
				   errand->bytes, errand->size, flags, version);
}

/* errand->key says which: the anchor, a sentinel, a line in the guest book. */
static int rank_record(struct beest_board *board, struct errand *errand)
{
	struct beest_rank_payload payload = {
		.servers = beest_kv_digest(board->exchange),
		.size = (uint32_t)board->size,
	};
	uint8_t bytes[BEEST_PAYLOAD_MAX];
	int ret;

	errand->kind = BEEST_KIND_RANK;
	ret = beest_codec_encode(&beest_rank_layout, &payload, bytes, sizeof(bytes));
	return ret < 0 ? ret : errand_fill(board, errand, bytes, (size_t)ret);
}

static int put_rank(struct beest_board *board, struct errand *errand, int flags,
		    int64_t deadline)
{
	int ret;

	ret = rank_record(board, errand);
	if (ret == 0)
		ret = remember(board, errand, flags, NULL);
	return ret < 0 ? ret : beest_published_sync(board->published, errand->key, deadline);
}

/* Is there somebody with another list of servers? */
static int visit(struct beest_board *board, int64_t deadline)
{
	struct beest_author author = board->author;
	struct errand errand = { .tries = 0 };
	int ret;

	author.pid = (uint32_t)getpid();
	ret = beest_board_key(board, BEEST_KIND_RANK, BEEST_GUESTBOOK_NAME, errand.key);
	if (ret == 0)
		ret = rank_record(board, &errand);
	if (ret < 0)
		return ret;

	ret = beest_guestbook_visit(board->guestbook, &author, errand.bytes, errand.size,
				    beest_published_ttl(board->published), deadline);
	free(errand.bytes);

	return ret;
}

/* Before anything else: whoever sees a record of ours can see who we are. */
static int anchor(struct beest_board *board, int64_t deadline)
{
	struct errand errand = { .tries = 0 };
	int ret;

	if (__atomic_load_n(&board->anchored, __ATOMIC_RELAXED) ||
	    !beest_published_mine(board->published))
		return 0;

	memcpy(errand.key, board->anchor, sizeof(errand.key));
	ret = put_rank(board, &errand, BEEST_PUBLISHED_ANCHOR, deadline);
	if (ret == 0)
		ret = visit(board, deadline);
	if (ret == 0)
		__atomic_store_n(&board->anchored, true, __ATOMIC_RELAXED);

	return ret;
}

static bool live_together(const struct beest_board *board, const char *a, const char *b)
{
	return beest_kv_server(board->exchange, a) ==
	       beest_kv_server(board->exchange, b);
}

/*
 * A letter that is missing may have been taken away, so letters are not watched: that
 * their server lost them shows by another record of ours there.  The anchor is on one
 * server only; each of the others that has a letter gets a record like it, before the
 * letter, lest a restart between the two goes unseen.
 */
static int sentinel(struct beest_board *board, const char *letter, int64_t deadline)
{
	struct errand errand = { .kind = BEEST_KIND_RANK };
	const uint8_t *mark = board->author.incarnation.bytes;
	unsigned int number = 0;

	do
		snprintf(errand.key, sizeof(errand.key), "%.200s/%02x%02x%02x%02x/%u",
			 board->anchor, mark[12], mark[13], mark[14], mark[15], ++number);
	while (!live_together(board, errand.key, letter));
	if (beest_published_is_put(board->published, errand.key))
		return 0;

	return put_rank(board, &errand, BEEST_PUBLISHED_SENTINEL, deadline);
}

/* @ret: of anchor().  Its server may be away, and others wait for what lives elsewhere. */
static int refresh(struct beest_board *board, int ret, int64_t deadline)
{
	int more;

	if (ret < 0 && (!beest_kv_transient(ret) ||
			beest_kv_count(board->exchange) == 1))
		return ret;
	if (ret < 0)
		beest_published_away(board->published, board->anchor);

	more = beest_published_refresh(board->published, deadline);
	return more < 0 && (ret == 0 || !beest_kv_transient(more)) ? more : ret;
}

/* What every call does first. */
static int upkeep(struct beest_board *board, int64_t deadline)
{
	int ret = anchor(board, deadline);

	return beest_published_mine(board->published) ? refresh(board, ret, deadline) : ret;
}

/* One of several servers is away: told once; what lives on the others goes on. */
static void note_maimed(struct beest_board *board)
{
	if (beest_kv_count(board->exchange) > 1 &&
	    !__atomic_exchange_n(&board->maimed, true, __ATOMIC_RELAXED))
		beest_log(board->log, BEEST_LOG_WARN, "%s; what does not live there goes on",
			  beest_error_text());
}

static int attempt_sync(struct beest_board *board, struct errand *errand, int64_t deadline)
{
	int ret = anchor(board, deadline);

	if (ret < 0 && live_together(board, errand->key, board->anchor))
		return ret;
	ret = refresh(board, ret, deadline);
	if (ret < 0 && !beest_kv_transient(ret))
		return ret;
	if (ret < 0)
		note_maimed(board);

	if (beest_published_is_put(board->published, errand->key))
		return 0;		/* just now, by the refresh */
	ret = errand->kind == BEEST_KIND_MESSAGE ? sentinel(board, errand->key, deadline) : 0;
	return ret < 0 ? ret : beest_published_sync(board->published, errand->key, deadline);
}

/* In a forked child: nothing is remembered there. */
static int attempt_put(struct beest_board *board, struct errand *errand, int64_t deadline)
{
	return beest_kv_put(board->exchange, errand->key, errand->bytes, errand->size,
			    beest_published_ttl(board->published), deadline);
}

static int publish(struct beest_board *board, uint64_t owner, enum beest_record_kind kind,
		   const char *name, const void *payload, size_t size)
{
	struct errand errand = { .kind = kind };
	int ret;

	ret = beest_board_key(board, kind, name, errand.key);
	if (ret == 0)
		ret = errand_fill(board, &errand, payload, size);
	if (ret < 0)
		return ret;

	if (!beest_published_mine(board->published)) {
		ret = insist(board, attempt_put, &errand);
		free(errand.bytes);
		return ret;
	}
	ret = remember(board, &errand, flags_of(kind), NULL);
	if (ret < 0)
		return ret;
	if (owner)
		beest_published_own(board->published, errand.key, owner);

	return insist(board, attempt_sync, &errand);
}

int beest_board_publish(struct beest_board *board, enum beest_record_kind kind,
			const char *name, const void *payload, size_t size)
{
	return publish(board, 0, kind, name, payload, size);
}

int beest_board_note(struct beest_board *board, enum beest_record_kind kind,
		     const char *name, const void *payload, size_t size, uint64_t *note)
{
	struct errand errand = { .kind = kind };
	int ret;

	*note = UINT64_MAX;
	if (!beest_published_mine(board->published))
		return publish(board, 0, kind, name, payload, size);

	ret = beest_board_key(board, kind, name, errand.key);
	if (ret == 0)
		ret = errand_fill(board, &errand, payload, size);
	return ret < 0 ? ret : remember(board, &errand, flags_of(kind) | BEEST_PUBLISHED_LAZY,
					note);
}

int beest_board_send(struct beest_board *board, enum beest_record_kind kind,
		     const char *name)
{
	struct errand errand = { .kind = kind };
	int ret;

	if (!beest_published_mine(board->published))
		return 0;		/* a note was no note there */

	ret = beest_board_key(board, kind, name, errand.key);
	return ret < 0 ? ret : insist(board, attempt_sync, &errand);
}

void beest_board_try_send(struct beest_board *board, enum beest_record_kind kind,
			  const char *name)
{
	struct errand errand = { .kind = kind };

	if (beest_published_mine(board->published) &&
	    beest_board_key(board, kind, name, errand.key) == 0)
		attempt_sync(board, &errand, beest_clock_deadline(REQUEST_MIN));
}

void beest_board_unnote(struct beest_board *board, enum beest_record_kind kind,
			const char *name, uint64_t note)
{
	char key[BEEST_KEY_MAX + 1];

	if (beest_published_mine(board->published) &&
	    beest_board_key(board, kind, name, key) == 0)
		beest_published_forget_unsent(board->published, key, note);
}

int beest_board_publish_of(struct beest_board *board, uint64_t *owner,
			   enum beest_record_kind kind, const char *name,
			   const void *payload, size_t size)
{
	uint64_t mark = __atomic_load_n(owner, __ATOMIC_RELAXED), drawn;

	if (!mark) {			/* another thread may publish the same region */
		drawn = __atomic_add_fetch(&board->owners, 1, __ATOMIC_RELAXED);
		if (__atomic_compare_exchange_n(owner, &mark, drawn, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			mark = drawn;
	}

	return publish(board, mark, kind, name, payload, size);
}

void beest_board_withdraw(struct beest_board *board, uint64_t owner)
{
	if (owner && beest_published_mine(board->published))
		beest_published_disown(board->published, owner, &board->author.incarnation,
				       beest_clock_deadline(CLOSE_MAX));
}

/* Gone after a failure: the failed attempt may have been the one that did it. */
static int attempt_delete(struct beest_board *board, struct errand *errand, int64_t deadline)
{
	int ret = beest_kv_delete(board->exchange, errand->key, deadline);

	return ret == -ENOENT && errand->tries ? 0 : ret;
}

int beest_board_remove(struct beest_board *board, enum beest_record_kind kind,
		       const char *name)
{
	struct errand errand = { .kind = kind };
	int ret;

	ret = beest_board_key(board, kind, name, errand.key);
	if (ret < 0)
		return ret;

	if (beest_published_mine(board->published))
		beest_published_forget(board->published, errand.key);
	ret = insist(board, attempt_delete, &errand);
	if (ret == -ENOENT)
		return beest_fail(ENOENT, "no %s '%s' (key %s)", beest_kind_word(kind), name,
				  errand.key);

	return ret;
}

/* ------------------------------------------------------------------ waiting --- */

struct waiting {
	struct beest_board *board;
	struct beest_wish *wishes;
	size_t count;
	beest_key *keys;		/* of the wishes */
	int64_t begin, deadline;
	int64_t visit;			/* when to compare lists of servers */

	/* one look: the pending wishes, then what is watched */
	const char **asked;
	size_t *wish_of;
	struct beest_kv_value *values;
	bool *failed;
	size_t pending, watched;
	struct beest_watch watch[BEEST_WATCH_MAX];

	bool answered;			/* the server, at some look */
	int failure;			/* of the server at the last look */
	int failures;
	char why[BEEST_ERROR_SIZE];
};

static void waiting_free(struct waiting *w)
{
	free(w->keys);
	free(w->asked);
	free(w->wish_of);
	free(w->values);
	free(w->failed);
}

static int waiting_start(struct waiting *w)
{
	size_t i, room = w->count + BEEST_WATCH_MAX;
	int ret = 0;

	beest_wishes_start(w->wishes, w->count);
	w->begin = beest_clock_now();
	w->visit = w->begin + VISIT_FIRST;
	w->deadline = beest_clock_deadline(w->board->timeout);
	w->pending = w->count;
	w->keys = calloc(w->count + 1, sizeof(*w->keys));
	w->asked = calloc(room, sizeof(*w->asked));
	w->wish_of = calloc(room, sizeof(*w->wish_of));
	w->values = calloc(room, sizeof(*w->values));
	w->failed = calloc(room, sizeof(*w->failed));
	if (!w->keys || !w->asked || !w->wish_of || !w->values || !w->failed)
		return beest_fail(ENOMEM, "no memory to wait for %zu records", w->count);

	for (i = 0; i < w->count && ret == 0; i++)
		ret = beest_board_key(w->board, w->wishes[i].kind, w->wishes[i].name, w->keys[i]);

	return ret;
}

static void gather(struct waiting *w)
{
	size_t i;

	w->pending = 0;
	for (i = 0; i < w->count; i++) {
		if (!beest_wish_pending(&w->wishes[i]))
			continue;
		w->asked[w->pending] = w->keys[i];
		w->wish_of[w->pending++] = i;
	}

	w->watched = 0;
	if (beest_published_mine(w->board->published))
		w->watched = beest_published_watch(w->board->published, w->watch);
	for (i = 0; i < w->watched; i++)
		w->asked[w->pending + i] = w->watch[i].key;
}

/*
 * A server may carry out what a process sent before it was killed after the first
 * request of the process that took its place.
 */
static bool is_dead(const struct beest_author *author, const struct beest_board *board)
{
	return beest_process_is_same_place(&author->incarnation, &board->author.incarnation) &&
	       kill((pid_t)author->pid, 0) < 0 && errno == ESRCH;
}

/* One's own rank record, after one has put it, with another's name on it? */
static int anchor_check(struct beest_board *board, const struct beest_kv_value *value)
{
	const struct beest_author *it;
	struct beest_record record;

	if (!value->bytes || beest_record_decode(value->bytes, value->size, BEEST_KIND_RANK,
						 board->anchor, &record) < 0)
		return 0;

	it = &record.author;
	if (beest_process_is_same(&it->incarnation, &board->author.incarnation))
		return 0;
	if (is_dead(it, board)) {
		__atomic_store_n(&board->anchored, false, __ATOMIC_RELAXED);
		return 0;		/* the look's upkeep puts ours anew */
	}

	return beest_fail(EADDRINUSE, "rank %" PRId32 " runs twice: as pid %d on host %s and as "
			  "pid %" PRIu32 " on host %s (key %s)", board->author.rank,
			  (int)getpid(), board->author.host, it->pid, it->host, board->anchor);
}

/* 0, or what ends the wait at once. */
static int judge(struct waiting *w)
{
	const struct beest_kv_value *watched = w->values + w->pending;
	size_t i, wish;
	int ret = 0;

	if (w->watched && w->watch[0].anchor)
		ret = anchor_check(w->board, &watched[0]);
	for (i = 0; i < w->pending && ret == 0; i++) {
		if (w->failed[i])
			continue;
		wish = w->wish_of[i];
		ret = beest_wish_judge(&w->wishes[wish], w->keys[wish], &w->values[i],
				       w->board->log);
	}

	return ret;
}

static bool all_granted(const struct waiting *w)
{
	size_t i;

	for (i = 0; i < w->count; i++)
		if (beest_wish_pending(&w->wishes[i]))
			return false;

	return true;
}

/*
 * A last look gets less time than others, so its silence proves nothing about a
 * server that answered before.
 */
static bool is_cut_short(const struct waiting *w, int failure, int64_t time)
{
	return failure == -EHOSTDOWN && w->answered && time < LOOK_TIME;
}

static void note_look(struct waiting *w, int failure)
{
	w->answered |= failure == 0;
	if (failure < 0) {
		note_failure(w->board, ++w->failures);
		snprintf(w->why, sizeof(w->why), "%s", beest_error_text());
	} else if (w->failure < 0) {
		beest_log(w->board->log, BEEST_LOG_INFO, "the exchange works again");
		w->failures = 0;
	}
	w->failure = failure;
}

/* What the server did not answer is neither there nor lost. */
static void drop_unanswered(struct waiting *w)
{
	size_t i, kept = 0;

	for (i = 0; i < w->watched; i++) {
		if (w->failed[w->pending + i])
			continue;
		w->watch[kept] = w->watch[i];
		w->values[w->pending + kept] = w->values[w->pending + i];
		if (kept != i)
			w->values[w->pending + i].bytes = NULL;
		kept++;
	}
	w->watched = kept;
}

static bool all_answered(const struct waiting *w)
{
	size_t i;

	for (i = 0; i < w->pending; i++)
		if (w->failed[i])
			return false;

	return true;
}

/* One's own records, on whichever servers. */
static int keep_house(struct waiting *w, int64_t deadline)
{
	int ret;

	ret = beest_published_check(w->board->published, w->watch, w->watched,
				    w->values + w->pending, deadline);

	return ret < 0 ? ret : upkeep(w->board, deadline);
}

/* With one server, what fails in housekeeping would fail for what is waited for, too. */
static int house_trouble(const struct waiting *w, int trouble)
{
	if (beest_kv_count(w->board->exchange) == 1)
		return trouble;
	note_maimed(w->board);

	return 0;
}

static int visit_in_time(struct waiting *w, int64_t deadline)
{
	int64_t now = beest_clock_now(), next;

	if (now < w->visit || !beest_published_mine(w->board->published))
		return 0;

	next = now - w->begin;
	w->visit = now + (next < VISIT_LAST ? next : VISIT_LAST);

	return visit(w->board, deadline);
}

/*
 * Negative: ends the wait.  A failure of the server that may pass is noted only, and
 * not that when it is the server of other keys than those that are waited for.
 */
static int look(struct waiting *w)
{
	int64_t left = beest_clock_left(w->deadline);
	int64_t deadline = request_deadline(w->deadline);
	int ret, verdict, trouble = 0;

	gather(w);
	ret = beest_kv_get_some(w->board->exchange, w->asked, w->pending + w->watched,
				w->values, w->failed, deadline);
	if (ret < 0 && !beest_kv_transient(ret)) {
		beest_kv_values_free(w->values, w->pending + w->watched);
		return ret;
	}

	drop_unanswered(w);
	if (all_answered(w)) {
		if (ret < 0)
			note_maimed(w->board);
		ret = 0;
	} else if (!is_cut_short(w, ret, left)) {
		note_look(w, ret);	/* now: its sentence is the last */
	}

	verdict = judge(w);
	if (verdict == 0)
		verdict = keep_house(w, deadline);
	beest_kv_values_free(w->values, w->pending + BEEST_WATCH_MAX);
	if (verdict == 0)
		verdict = visit_in_time(w, deadline);
	if (verdict < 0 && beest_kv_transient(verdict)) {
		trouble = house_trouble(w, verdict);
		verdict = 0;
	}
	if (verdict == 0 && ret == 0 && !is_cut_short(w, trouble, left))
		note_look(w, trouble);

	return verdict;
}

static bool pause_until_next(const struct waiting *w, struct beest_backoff *backoff)
{
	if (!beest_clock_left(w->deadline))
		return false;

	beest_clock_backoff_sleep(backoff, w->deadline);

	return true;
}

static int expired(const struct waiting *w)
{
	const struct beest_board *board = w->board;
	char after[64], server[700], suspicion[300];
	size_t first = 0;

	if (w->failure < 0)
		return beest_fail(-w->failure, "tried for %s: %s", SPAN(board->timeout), w->why);

	while (!beest_wish_pending(&w->wishes[first]))
		first++;
	snprintf(after, sizeof(after), "after %s", SPAN(board->timeout));
	snprintf(server, sizeof(server), "server %s answers",
		 beest_kv_server(board->exchange, w->keys[first]));
	beest_guestbook_suspicion(board->guestbook, suspicion, sizeof(suspicion));
	if (suspicion[0])
		snprintf(server + strlen(server), sizeof(server) - strlen(server), "; %s",
			 suspicion);

	return beest_wishes_expired(w->wishes, w->keys, w->count, after, server);
}

static int wait_for_all(struct waiting *w, int (*each)(void *data), void *data)
{
	struct beest_backoff backoff;
	int ret;

	beest_clock_backoff_start(&backoff, w->board->size);
	do {
		ret = look(w);
		if (ret == 0 && each)
			ret = each(data);
		if (ret < 0)
			return ret;
		if (ret > 0 || all_granted(w))
			return 0;
		if (w->board->interrupt)
			ret = w->board->interrupt(w->board->data);
		if (ret < 0)
			return ret;
	} while (pause_until_next(w, &backoff));

	return expired(w);
}

int beest_board_wait(struct beest_board *board, struct beest_wish *wishes, size_t count,
		     int (*each)(void *data), void *data)
{
	struct waiting w = { .board = board, .wishes = wishes, .count = count };
	int ret;

	ret = waiting_start(&w);
	if (ret == 0)
		ret = wait_for_all(&w, each, data);
	waiting_free(&w);
	if (ret < 0)
		beest_wishes_free(wishes, count);

	return ret;
}

int beest_board_peek(struct beest_board *board, enum beest_record_kind kind, const char *name,
		     struct beest_record *record, uint8_t **bytes)
{
	char key[BEEST_KEY_MAX + 1];
	const char *keys[] = { key };
	struct beest_kv_value value;
	int ret;

	ret = beest_board_key(board, kind, name, key);
	if (ret == 0)
		ret = beest_kv_get(board->exchange, keys, 1, &value,
				   beest_clock_deadline(REQUEST_MIN));
	if (ret < 0)
		return ret;
	if (!value.bytes || beest_record_decode(value.bytes, value.size, kind, key, record) < 0) {
		beest_kv_values_free(&value, 1);
		return 0;
	}

	*bytes = value.bytes;
	return 1;
}
