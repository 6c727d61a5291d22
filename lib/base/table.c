/* SPDX-License-Identifier: MIT */
/* table.c - a chained hash over names, threaded by a list in order of creation */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/nearest.h"
#include "lib/base/table.h"
#include "lib/base/text.h"

#define NAME_MAX_BYTES 255
#define FIRST_SIZE 16

void *beest_table_new(const struct beest_kind *kind)
{
	struct beest_node *node = calloc(1, kind->size);

	if (node)
		node->kind = kind;
	else
		beest_fail(ENOMEM, "no memory for a %s", kind->noun);

	return node;
}

void *beest_table_wrap(const struct beest_kind *kind, void *handle)
{
	struct beest_node *node = beest_table_new(kind), lost = { .handle = handle };

	if (node)
		node->handle = handle;
	else
		kind->release(&lost);

	return node;
}

int beest_table_free(struct beest_node *node)
{
	const struct beest_kind *kind = node->kind;
	int ret = kind->release && !node->adopted ? kind->release(node) : 0;

	if (ret < 0)
		return beest_fail(-ret, "cannot destroy %s '%s': %s%s%s", kind->noun, node->name,
				  strerror(-ret), ret == -EBUSY && kind->users ? "; " : "",
				  ret == -EBUSY && kind->users ? kind->users : "");
	if (kind->dispose)
		kind->dispose(node);
	free(node);
	return 0;
}

static int name_check(const char *noun, const char *name)
{
	const char *control = name ? beest_text_control(name) : NULL;

	if (!name || !name[0])
		return beest_fail(EINVAL, "the %s name is empty", noun);
	if (strlen(name) > NAME_MAX_BYTES)
		return beest_fail(EINVAL, "the %s name %s has %zu bytes: the limit is %d",
				  noun, BEEST_QUOTE(name), strlen(name), NAME_MAX_BYTES);
	if (control)
		return beest_fail(EINVAL, "the %s name %s has the %s 0x%02x at byte %td", noun,
				  BEEST_QUOTE(name),
				  (uint8_t)*control < 0x80 ? "control character" :
				  "control character or broken UTF-8", (uint8_t)*control,
				  control - name + 1);
	return 0;
}

static struct beest_node **bucket_of(const struct beest_table *table, uint32_t hash)
{
	return &table->buckets[hash & (table->size - 1)];
}

struct beest_node *beest_table_look(struct beest_table *table, const struct beest_kind *kind,
				    const char *name)
{
	uint32_t hash = (uint32_t)beest_hash_text(name);
	struct beest_node *node;

	pthread_mutex_lock(&table->lock);
	for (node = table->size ? *bucket_of(table, hash) : NULL; node; node = node->chain)
		if (node->hash == hash && node->kind == kind && !strcmp(node->name, name))
			break;
	pthread_mutex_unlock(&table->lock);
	return node;
}

/* In the second half of the buckets. */
static struct beest_node **holders_of(const struct beest_table *table, const void *handle)
{
	size_t hash = (size_t)beest_hash_fnv(BEEST_HASH_FNV, &handle, sizeof(handle));

	return &table->buckets[table->size + (hash & (table->size - 1))];
}

struct beest_node *beest_table_holder(struct beest_table *table, const void *handle)
{
	struct beest_node *node = NULL;

	pthread_mutex_lock(&table->lock);
	if (handle && table->size)
		for (node = *holders_of(table, handle); node; node = node->holders)
			if (node->handle == handle)
				break;
	pthread_mutex_unlock(&table->lock);
	return node;
}

static void chain_node(struct beest_table *table, struct beest_node *node)
{
	struct beest_node **bucket = bucket_of(table, node->hash);

	node->chain = *bucket;
	*bucket = node;
	if (!node->handle)
		return;
	bucket = holders_of(table, node->handle);
	node->holders = *bucket;
	*bucket = node;
}

/* The pointer to @node in its newer neighbour or, for the newest, in the table. */
static struct beest_node **link_to(struct beest_table *table, struct beest_node *node)
{
	return node->newer ? &node->newer->older : &table->newest;
}

static void unlink_node(struct beest_table *table, struct beest_node *node)
{
	struct beest_node **at = bucket_of(table, node->hash);

	BEEST_INVARIANT(*link_to(table, node) == node);
	while (*at != node)
		at = &(*at)->chain;
	*at = node->chain;
	if (node->handle) {
		for (at = holders_of(table, node->handle); *at != node; at = &(*at)->holders)
			;
		*at = node->holders;
	}
	*link_to(table, node) = node->older;
	if (node->older)
		node->older->newer = node->newer;
	table->count--;
}

/* Links @node between the neighbours that it names: new ones, or those before unlink_node(). */
static void link_node(struct beest_table *table, struct beest_node *node)
{
	chain_node(table, node);
	*link_to(table, node) = node;
	if (node->older)
		node->older->newer = node;
	table->count++;
}

static int table_grow(struct beest_table *table)
{
	size_t size = table->size ? 2 * table->size : FIRST_SIZE;
	struct beest_node **buckets = calloc(2 * size, sizeof(struct beest_node *));
	struct beest_node *node;

	if (!buckets)
		return beest_fail(ENOMEM, "no memory for a table of %zu names", size);

	free(table->buckets);
	table->buckets = buckets;
	table->size = size;
	for (node = table->newest; node; node = node->older)
		chain_node(table, node);
	return 0;
}

int beest_table_name_available(struct beest_table *table, const struct beest_kind *kind,
			       const char *name)
{
	int ret = name_check(kind->noun, name);

	if (ret == 0 && beest_table_look(table, kind, name))
		return beest_fail(EEXIST, "%s '%s' exists already", kind->noun, name);
	return ret;
}

/* Takes all steps that can fail before it changes the node. */
static int node_add(struct beest_table *table, const char *name, struct beest_node *node)
{
	int ret = beest_table_name_available(table, node->kind, name);
	char *copy;

	if (ret == 0 && table->count == table->size)
		ret = table_grow(table);
	if (ret < 0)
		return ret;
	copy = strdup(name);
	if (!copy)
		return beest_fail(ENOMEM, "no memory for the name '%s'", name);

	node->name = copy;
	node->hash = (uint32_t)beest_hash_text(name);
	node->older = table->newest;
	node->newer = NULL;
	link_node(table, node);
	return 0;
}

int beest_table_add(struct beest_table *table, const char *name, struct beest_node *node)
{
	int ret;

	pthread_mutex_lock(&table->lock);
	ret = node_add(table, name, node);
	pthread_mutex_unlock(&table->lock);
	if (ret < 0)
		beest_table_free(node);
	return ret;
}

int beest_table_obtain(struct beest_table *table, const struct beest_kind *kind,
		       const char *name, struct beest_node **node)
{
	int ret = 0;

	pthread_mutex_lock(&table->lock);
	*node = beest_table_look(table, kind, name);
	if (!*node) {
		*node = beest_table_new(kind);
		ret = *node ? beest_table_add(table, name, *node) : -ENOMEM;
	}
	pthread_mutex_unlock(&table->lock);
	return ret;
}

static void fail_unknown_name(struct beest_table *table, const struct beest_kind *kind,
			      const char *name)
{
	struct beest_nearest nearest;
	struct beest_node *each;
	bool any = false;

	beest_nearest_start(&nearest, name);
	for (each = table->newest; each; each = each->older) {
		if (each->kind != kind)
			continue;
		beest_nearest_offer(&nearest, each->name);
		any = true;
	}

	if (nearest.best)
		beest_fail(ENOENT, "no %s is called %s; the nearest name is '%s'", kind->noun,
			   BEEST_QUOTE(name), nearest.best);
	else
		beest_fail(ENOENT, "no %s is called %s%s%s%s", kind->noun, BEEST_QUOTE(name),
			   any ? "" : "; there is no ", any ? "" : kind->noun,
			   any ? "" : " at all");
}

struct beest_node *beest_table_find(struct beest_table *table, const struct beest_kind *kind,
				    const char *name)
{
	struct beest_node *node;

	pthread_mutex_lock(&table->lock);
	node = beest_table_look(table, kind, name);
	if (!node)
		fail_unknown_name(table, kind, name);
	pthread_mutex_unlock(&table->lock);
	return node;
}

struct beest_node *beest_table_user(struct beest_table *table, const void *handle)
{
	struct beest_node *node, *user = NULL;
	size_t i;

	pthread_mutex_lock(&table->lock);
	for (node = table->newest; node && handle && !user; node = node->older)
		for (i = 0; i < BEEST_COUNT(node->needs); i++)
			if (node->needs[i] == handle)
				user = node;
	pthread_mutex_unlock(&table->lock);
	return user;
}

/* Unlinks the node before it is freed, and frees the name last, since a sentence may use it. */
static int node_destroy(struct beest_table *table, struct beest_node *node)
{
	const struct beest_node *user;
	char *name = node->name;
	int ret;

	unlink_node(table, node);
	ret = beest_table_free(node);
	if (ret == 0) {
		free(name);
		return 0;
	}

	link_node(table, node);
	user = ret == -EBUSY ? beest_table_user(table, node->handle) : NULL;
	return !user ? ret : beest_fail(EBUSY, "%s: %s '%s'", beest_error_text(),
					user->kind->noun, user->name);
}

int beest_table_destroy(struct beest_table *table, const struct beest_kind *kind,
			const char *name)
{
	struct beest_node *node;
	int ret;

	pthread_mutex_lock(&table->lock);
	node = beest_table_find(table, kind, name);
	ret = node ? node_destroy(table, node) : -ENOENT;
	pthread_mutex_unlock(&table->lock);
	return ret;
}

void beest_table_clear(struct beest_table *table,
		       void (*refused)(void *data, struct beest_node *node, int ret), void *data)
{
	struct beest_node *node;
	char *name;
	int ret;

	pthread_mutex_lock(&table->lock);
	while ((node = table->newest)) {
		name = node->name;
		unlink_node(table, node);
		ret = beest_table_free(node);
		if (ret < 0 && refused)
			refused(data, node, ret);
		free(name);
	}
	free(table->buckets);
	table->buckets = NULL;
	table->size = 0;
	pthread_mutex_unlock(&table->lock);
}
