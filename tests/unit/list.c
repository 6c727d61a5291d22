/* SPDX-License-Identifier: MIT */
/*
 * list.c - a value that many processes append to, by scripts
 *
 * Three processes share one list over the fake servers.  Each entry is a letter.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/rendezvous/list.h"
#include "tests/support/registry.h"
#include "tests/support/unit.h"

/*
 * Words of a script, separated by blanks; A is a process, a to c:
 *
 * 	A+XYZ		says these letters: its looks append them
 * 	A=XYZ		looks, and reads these letters; A!: its look fails
 * 	A~		offers what it says
 * 	A?		fetches the list for a replacement
 * 	A<XYZ		replaces it by those of its entries; A#XYZ: it changed meanwhile
 * 	refused, lost, late	happens to the next request
 * 	apply		the late writes are carried out
 * 	restart, evict
 * 	noise		somebody appends bytes that are no entry
 * 	cut		somebody appends the beginning of the list's first entry
 * 	forged		somebody appends many beginnings of entries, which overlap
 * 	damage		a byte of the last entry is another one
 * 	length		the length of the first entry is impossible
 * 	foreign		an entry with another secret, or of another version, is appended
 */
struct script {
	const char *name;
	const char *words;
};

static const struct script scripts[] = {
	{ "one", "a+x a=x a=x b=x" },
	{ "nothing", "a= b=" },
	{ "in their order", "a+x a=x b+y b=xy c+z c=xyz a+w a=xyzw" },
	{ "two at once", "a+xy a=xy b=xy" },
	{ "said before the other was sent", "a+x a+y a=xy a=xy" },
	{ "restart", "a+x a=x restart a= b+y b=y a+x a=yx" },
	{ "evicted", "a+x a=x evict a= a+x a=x b=x" },
	{ "refused", "a+x refused a! b= a=x" },
	{ "the answer is lost", "a+x lost a! b=x a=xx" },
	{ "late", "a+x late a! b= a=x b+y b=xy apply b=xyx" },
	{ "late on an empty server", "a+x late a! restart b= apply b=x" },
	{ "offered", "a+x a=x a+y a~ b=xy a=xy" },
	{ "offered to nobody", "a+x a~ b= a=" },
	{ "noise", "a+x a=x noise b+y b=xy noise noise c+z c=xyz" },
	{ "cut within", "a+x a=x cut cut b+y b=xy a+z a=xyz" },
	{ "noise alone", "noise a= a+x a=x" },
	{ "cut", "a+x a=x cut b+y b=xy" },
	{ "forged beginnings", "a+x a=x forged b+y b=xy c+zw c=xyzw forged a+v a=xyzwv" },
	{ "damaged", "a+x a=x b+y b=xy damage a=x b+y b=xy" },
	{ "damaged length", "a+x a=x b+y b=xy length a=y" },
	{ "foreign entries", "a+x a=x foreign b+y b=xy" },
	{ "compacted", "a+xyz a=xyz b? b<z a=z b+w b=zw" },
	{ "compacted to nothing", "a+x a=x a? a< a= b+y b=y" },
	{ "noise is not kept", "a+x a=x noise b+y b=xy a? a<xy a=xy" },
	{ "appended meanwhile", "a+xy a=xy b? a+z a=xyz b#x a=xyz b? b<xz a=xz" },
	{ "two compacting at once", "a+xyz a=xyz b? c? b<yz c#z a=yz c? c<z a=z" },
	{ "lost meanwhile", "a+xy a=xy b? restart b#x b= " },
	{ "evicted meanwhile", "a+xy a=xy b? evict b#x b=" },
	{ "another list meanwhile", "a+xy a=xy b? restart a= a+z a=z b#x b=z" },
	{ "twice on an empty server", "a+x a=x restart a+y a=yy b=yy" },
	{ "the replacement is lost", "a+xy a=xy b? lost b!x a=x b=x" },
	{ "the replacement is late", "a+xy a=xy b? late b!x c+z c=xyz apply c=xyz" },
};

static struct member {
	struct beest_registry *registry;
	struct beest_list list;
	struct beest_kv_value fetched;
} members[3];

static int start(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(members); i++) {
		members[i].registry = registry_make(-1, 0);
		assert_int_equal(beest_list_start(&members[i].list, members[i].registry,
						  BEEST_KIND_MESSAGE, "list"), 0);
	}
	return 0;
}

static void end(void)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(members); i++) {
		beest_list_end(&members[i].list);
		beest_kv_values_free(&members[i].fetched, 1);
	}
}

static const char *list_key(void)
{
	return members[0].list.key;
}

/* ----------------------------------------------------------- what happens to a list --- */

static const char noise[] = "\0\100HBR noise\0\377HBE and much more of it";

/* Stores the list again, with @size bytes behind it. */
static void list_extend(const void *bytes, size_t size)
{
	static uint8_t all[65536];
	size_t before = 0;
	const void *value = fake_kv_get(registry_server, list_key(), &before);

	if (before)
		memcpy(all, value, before);
	memcpy(all + before, bytes, size);
	fake_kv_put(registry_server, list_key(), all, before + size, 600);
}

/* A byte of the list becomes another one. */
static void list_touch(size_t at, bool from_end)
{
	static uint8_t all[65536];
	size_t size;
	const void *value = fake_kv_get(registry_server, list_key(), &size);

	memcpy(all, value, size);
	all[from_end ? size - at : at] ^= 0x5a;
	fake_kv_put(registry_server, list_key(), all, size, 600);
}

static void list_cut(void)
{
	uint8_t bytes[20];

	memcpy(bytes, fake_kv_get(registry_server, list_key(), NULL), sizeof(bytes));
	list_extend(bytes, sizeof(bytes));
}

/*
 * Beginnings that anyone who reads the list can write: the letters, and the check value if it is
 * sealed.  There is one each @period bytes, with that @length of an entry.
 */
#define BEGINNING 10

static void forge(uint8_t *bytes, size_t size, size_t period, size_t length)
{
	size_t at;

	memset(bytes, 0, period);
	bytes[0] = (uint8_t)(length >> 8);
	bytes[1] = (uint8_t)length;
	memcpy(bytes + 2, (const uint8_t *)fake_kv_get(registry_server, list_key(), NULL) + 2,
	       BEGINNING - 2);
	for (at = period; at < size; at++)
		bytes[at] = bytes[at - period];
}

static void list_forge(void)
{
	uint8_t bytes[900 * BEGINNING];

	forge(bytes, sizeof(bytes), BEGINNING, 52);
	list_extend(bytes, sizeof(bytes));
}

#ifdef HAVE_CRYPTO
#define OTHER_SECRET "another secret of 32 characters."
#else
#define OTHER_SECRET NULL
#endif

/* As a process with another secret, or without one, or of a later version appends it. */
static void list_foreign(void)
{
	const struct beest_record record = { .kind = BEEST_KIND_MESSAGE, .rank = -1 };
	const char *secret = registry_stage.secret;
	struct beest_seal *seal;
	uint8_t bytes[BEEST_ENTRY_MAX];
	int size;

	registry_stage.secret = secret ? NULL : OTHER_SECRET;
	seal = registry_seal();
	registry_stage.secret = secret;
	size = beest_entry_encode(seal, &record, list_key(), bytes);
	assert_true(size > 0);
	if (!secret && !seal)
		bytes[5]++;		/* its version */
	beest_seal_close(seal);
	list_extend(bytes, (size_t)size);
}

static void happen(const char *word)
{
	static const struct {
		const char *word;
		enum fake_kv_manner manner;
	} failures[] = {
		{ "refused", FAKE_KV_REFUSED }, { "lost", FAKE_KV_LOST }, { "late", FAKE_KV_LATE },
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(failures); i++)
		if (!strcmp(word, failures[i].word)) {
			fake_kv_fail(FAKE_KV_REQUEST, 1, EHOSTDOWN, failures[i].manner);
			return;
		}
	if (!strcmp(word, "apply"))
		assert_true(fake_kv_apply_late() > 0);
	else if (!strcmp(word, "restart"))
		fake_kv_restart(registry_server);
	else if (!strcmp(word, "evict"))
		assert_true(fake_kv_evict(registry_server, list_key()));
	else if (!strcmp(word, "noise"))
		list_extend(noise, sizeof(noise));
	else if (!strcmp(word, "cut"))
		list_cut();
	else if (!strcmp(word, "forged"))
		list_forge();
	else if (!strcmp(word, "damage"))
		list_touch(3, true);
	else if (!strcmp(word, "length"))
		list_touch(0, false);
	else if (!strcmp(word, "foreign"))
		list_foreign();
	else
		fail_msg("no such word: %s", word);
}

/* -------------------------------------------------------------- what a process does --- */

static void letters_read(const struct beest_list *list, const struct beest_kv_value *value,
			 char *letters)
{
	struct beest_entry_reader reader;
	struct beest_record record;
	int ret;

	beest_list_read(list, value, &reader);
	while ((ret = beest_entry_next(&reader, &record)) > 0) {
		assert_int_equal(record.size, 1);
		*letters++ = (char)record.body[0];
	}
	assert_int_equal(ret, 0);
	*letters = '\0';
}

static int member_look(struct member *member, char *letters)
{
	struct beest_look_want want = { .key = list_key(), .server = member->list.server };
	struct beest_look look = {
		.wants = &want, .count = 1, .extras = member->list.extras,
		.extra_count = BEEST_LIST_WRITES, .deadline = beest_clock_deadline(BEEST_SECOND),
	};
	int ret = beest_look_take(member->registry, &look);

	if (ret == 0)
		letters_read(&member->list, &want.value, letters);
	beest_look_free(&want, 1);
	return ret;
}

/* Replaces what was fetched by the first entry of each letter. */
static int member_replace(struct member *member, const char *letters)
{
	uint8_t bytes[4096];
	struct beest_entry_reader reader;
	struct beest_record record;
	size_t size = 0;

	beest_list_read(&member->list, &member->fetched, &reader);
	while (beest_entry_next(&reader, &record) > 0)
		if (strchr(letters, record.body[0])) {
			memcpy(bytes + size, reader.entry, reader.entry_size);
			size += reader.entry_size;
		}
	return beest_list_replace(&member->list, member->fetched.unique, bytes, size);
}

static void member_act(struct member *member, char act, const char *letters)
{
	char found[64];
	int ret;

	switch (act) {
	case '+':
		for (; *letters; letters++)
			assert_int_equal(beest_list_append(&member->list, letters, 1), 0);
		assert_true(beest_list_is_appending(&member->list));
		break;
	case '=':
		assert_int_equal(member_look(member, found), 0);
		assert_string_equal(found, letters);
		assert_false(beest_list_is_appending(&member->list));
		break;
	case '~':
		beest_list_offer(&member->list);
		break;
	case '?':
		beest_kv_values_free(&member->fetched, 1);
		assert_int_equal(beest_list_fetch(&member->list, &member->fetched), 0);
		assert_int_not_equal(member->fetched.unique, 0);
		break;
	case '<':
		assert_int_equal(member_replace(member, letters), 0);
		break;
	case '#':
		ret = member_replace(member, letters);
		assert_true(ret == -EEXIST || ret == -ENOENT);
		break;
	case '!':
		assert_true(*letters ? member_replace(member, letters) < 0 :
			    member_look(member, found) < 0);
		break;
	default:
		fail_msg("no such word: %c", act);
	}
}

static void script_run(void **state, const struct script *script)
{
	char words[200], *word, *rest = words;

	snprintf(words, sizeof(words), "%s", script->words);
	start(state);
	while ((word = strsep(&rest, " ")))
		if (*word && word[1] && strchr("+=~?<#!", word[1]))
			member_act(&members[word[0] - 'a'], word[1], word + 2);
		else if (*word)
			happen(word);
	end();
}

static void all_scripts(void **state, const char *secret)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(scripts); i++) {
		registry_end();
		registry_start();
		registry_stage.secret = secret;
		print_message("%s\n", scripts[i].name);
		script_run(state, &scripts[i]);
	}
}

static void plain_lists(void **state)
{
	all_scripts(state, NULL);
}

static void sealed_lists(void **state)
{
#ifdef HAVE_CRYPTO
	all_scripts(state, "a secret of thirty-two characters");
#else
	(void)state;
	skip();
#endif
}

/* ------------------------------------------------------------------ single properties --- */

/* The list is as long as it needs to be; an entry is one record. */
static void the_form_of_an_entry(void **state)
{
	struct member *a = &members[0];
	const uint8_t *bytes;
	struct beest_record record;
	char letters[8];
	size_t size;

	start(state);
	member_act(a, '+', "x");
	assert_int_equal(member_look(a, letters), 0);
	bytes = fake_kv_get(registry_server, list_key(), &size);
	assert_int_equal(size, 2 + BEEST_RECORD_OVERHEAD + 1);
	assert_int_equal(bytes[0] << 8 | bytes[1], size - 2);
	assert_int_equal(beest_record_decode(NULL, (uint8_t *)bytes + 2, size - 2,
					     BEEST_KIND_MESSAGE, list_key(), &record), 0);
	assert_memory_equal(&record.incarnation, beest_registry_incarnation(a->registry),
			    sizeof(record.incarnation));
	end();
}

/* Entries of another version or secret are counted, so that nobody drops them. */
static void foreign_entries_are_counted(void **state)
{
	struct beest_entry_reader reader;
	struct beest_record record;
	struct beest_kv_value value = { 0 };

	start(state);
	member_act(&members[0], '+', "x");
	member_act(&members[0], '=', "x");
	happen("foreign");
	happen("noise");
	value.bytes = (uint8_t *)fake_kv_get(registry_server, list_key(), &value.size);
	beest_list_read(&members[0].list, &value, &reader);
	assert_int_equal(beest_entry_next(&reader, &record), 1);
	assert_int_equal(beest_entry_next(&reader, &record), 0);
	assert_int_equal(reader.foreign, 1);
	end();
}

static void an_entry_that_is_too_long(void **state)
{
	static const char body[BEEST_ENTRY_MAX];

	start(state);
	assert_int_equal(beest_list_append(&members[0].list, body, sizeof(body)), -EMSGSIZE);
	assert_false(beest_list_is_appending(&members[0].list));
	end();
}

/* A megabyte of what looks like entries takes no longer than one that does not. */
static void a_list_of_noise(void **state)
{
	static uint8_t bytes[BEEST_VALUE_MAX];
	struct beest_entry_reader reader;
	struct beest_record record;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)"\2\0HBR"[i % 5];
	beest_entry_read(&reader, NULL, BEEST_KIND_MESSAGE, "key", bytes, sizeof(bytes));
	assert_int_equal(beest_entry_next(&reader, &record), 0);
	assert_int_equal(reader.size, 0);
}

/*
 * A megabyte of forged beginnings of entries with this secret and, between them, of another one, of
 * later versions, and unsealed.  No byte is examined for more than one of each kind.
 */
static void a_list_of_forged_beginnings(void **state)
{
#ifdef HAVE_CRYPTO
	static const char *const others[] = { "", "HBE\1abcd", "HBE\2", "HBR\1m", "HBR\2m" };
	static const struct {
		size_t period, length;
	} rows[] = {
		{ BEGINNING, BEEST_ENTRY_MAX - 2 }, { BEGINNING, 100 }, { 70, 68 }, { 70, 100 },
		{ 300, BEEST_ENTRY_MAX - 2 }, { 2048, BEEST_ENTRY_MAX - 2 },
	};
	static uint8_t bytes[BEEST_VALUE_MAX];
	struct beest_entry_reader reader;
	struct beest_record record;
	struct beest_kv_value value = { .bytes = bytes, .size = sizeof(bytes) };
	size_t i, k, at;

	registry_stage.secret = "a secret of thirty-two characters";
	start(state);
	member_act(&members[0], '+', "x");
	member_act(&members[0], '=', "x");
	for (i = 0; i < BEEST_COUNT(rows) * BEEST_COUNT(others); i++) {
		k = i % BEEST_COUNT(others);
		forge(bytes, sizeof(bytes), rows[i / BEEST_COUNT(others)].period,
		      rows[i / BEEST_COUNT(others)].length);
		for (at = BEGINNING; at + BEGINNING <= sizeof(bytes); at += 3 * BEGINNING)
			memcpy(bytes + at + 2, others[k], strlen(others[k]));
		beest_list_read(&members[0].list, &value, &reader);
		assert_int_equal(beest_entry_next(&reader, &record), 0);
		assert_int_equal(reader.size, 0);
		assert_in_range(reader.examined, 0, 2 * sizeof(bytes));
	}
	end();
#else
	(void)state;
	skip();
#endif
}

/* It costs what a look costs that reads one key. */
static void costs_of_an_append(void **state)
{
	char letters[8];

	start(state);
	member_act(&members[0], '+', "x");
	member_act(&members[0], '=', "x");
	fake_kv_count_again();
	member_act(&members[0], '+', "y");
	assert_int_equal(member_look(&members[0], letters), 0);
	assert_int_equal(fake_kv.round_trips, 1);
	assert_int_equal(fake_kv.commands, 3);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		REGISTRY_TEST(plain_lists),
		REGISTRY_TEST(sealed_lists),
		REGISTRY_TEST(the_form_of_an_entry),
		REGISTRY_TEST(foreign_entries_are_counted),
		REGISTRY_TEST(an_entry_that_is_too_long),
		REGISTRY_TEST(a_list_of_noise),
		REGISTRY_TEST(a_list_of_forged_beginnings),
		REGISTRY_TEST(costs_of_an_append),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
