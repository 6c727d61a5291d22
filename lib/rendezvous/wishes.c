/* SPDX-License-Identifier: MIT */
/* wishes.c - see wishes.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/rendezvous/wishes.h"

/* So many are named in a sentence; keys are long. */
#define NAMED_MAX 3

void beest_wishes_start(struct beest_wish *wishes, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		memset(&wishes[i].record, 0, sizeof(wishes[i].record));
		wishes[i].bytes = NULL;
		wishes[i].seen = 0;
		wishes[i].trouble[0] = '\0';
	}
}

void beest_wishes_free(struct beest_wish *wishes, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		free(wishes[i].bytes);
		wishes[i].bytes = NULL;
		memset(&wishes[i].record, 0, sizeof(wishes[i].record));
	}
}

static void see(struct beest_wish *wish, int seen, const char *trouble)
{
	wish->seen = seen;
	snprintf(wish->trouble, sizeof(wish->trouble), "%s", trouble);
}

/* A live peer may still replace it: this is no end of the wait. */
static void refuse(struct beest_wish *wish, const char *key, int ret,
		   const struct beest_log *log)
{
	if (wish->seen != ret)
		beest_log(log, BEEST_LOG_WARN, "key '%s' is passed over: %s", key,
			  beest_error_text());
	see(wish, ret, beest_error_text());
}

static void see_unmet(struct beest_wish *wish, const struct beest_author *author)
{
	char who[BEEST_AUTHOR_TEXT];

	wish->seen = 1;
	snprintf(wish->trouble, sizeof(wish->trouble),
		 "was published by %s, but %s", beest_author_text(author, who, sizeof(who)),
		 wish->unmet ? wish->unmet : "is not accepted");
}

static void grant(struct beest_wish *wish, const struct beest_record *record,
		  struct beest_kv_value *value)
{
	wish->record = *record;
	wish->bytes = value->bytes;
	value->bytes = NULL;
}

int beest_wish_judge(struct beest_wish *wish, const char *key, struct beest_kv_value *value,
		     const struct beest_log *log)
{
	struct beest_record record;
	int ret;

	if (!value->bytes) {
		see(wish, 0, "");
		return 0;
	}
	ret = beest_record_decode(value->bytes, value->size, wish->kind, key, &record);
	if (ret < 0) {
		refuse(wish, key, ret, log);
		return 0;
	}

	ret = wish->accept ? wish->accept(wish->data, &record) : 1;
	if (ret < 0)
		return beest_fail_prefix(ret, "%s '%s' (key %s)", beest_kind_word(wish->kind),
					 wish->name, key);
	if (ret > 0)
		grant(wish, &record, value);
	else
		see_unmet(wish, &record.author);

	return 0;
}

/* ------------------------------------------------------- what did not come --- */

struct text {
	char bytes[BEEST_ERROR_SIZE];
	size_t size;
	size_t named, left_out;
};

static void say(struct text *text, const struct beest_wish *wish, const char *key)
{
	const char *end = wish->seen ? wish->trouble : "was published";
	int more;

	if (text->named == NAMED_MAX) {
		text->left_out++;
		return;
	}
	more = snprintf(text->bytes + text->size, sizeof(text->bytes) - text->size,
			"%s%s%s '%s' (key %s) %s", text->named ? ", " : "",
			wish->seen ? "" : "no ", beest_kind_word(wish->kind), wish->name,
			key, end);
	text->size += (size_t)more;
	if (text->size >= sizeof(text->bytes))
		text->size = sizeof(text->bytes) - 1;
	text->named++;
}

static void say_all(struct text *text, const struct beest_wish *wishes,
		    beest_key *keys, size_t count, bool seen)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (beest_wish_pending(&wishes[i]) && (wishes[i].seen != 0) == seen)
			say(text, &wishes[i], keys[i]);
}

static int refused(const struct beest_wish *wishes, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (beest_wish_pending(&wishes[i]) && wishes[i].seen < 0)
			return (int)i;

	return -1;
}

/* The absent first: a record that is there and not accepted often waits for them. */
int beest_wishes_expired(const struct beest_wish *wishes, beest_key *keys,
			 size_t count, const char *after, const char *server)
{
	struct text text = { .size = 0 };
	int bad = refused(wishes, count);
	char more[64] = "";

	if (bad >= 0)
		return beest_fail(-wishes[bad].seen, "%s: %s '%s' (key %s): %s", after,
				  beest_kind_word(wishes[bad].kind), wishes[bad].name,
				  keys[bad], wishes[bad].trouble);

	say_all(&text, wishes, keys, count, false);
	say_all(&text, wishes, keys, count, true);
	if (text.left_out)
		snprintf(more, sizeof(more), " and %zu more", text.left_out);

	return beest_fail(ETIMEDOUT, "%s: %.900s%s; %s", after, text.bytes, more, server);
}
