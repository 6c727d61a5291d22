/* SPDX-License-Identifier: MIT */
/* table.c - trees of tsearch(3) by name and by handle, and a list in order of creation */
#include "config.h"

#include <search.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "lib/base/table.h"
#include "lib/base/text.h"

#define NAME_MAX_BYTES 255

/*
 * By an attribute, since only glibc has an initializer for a recursive lock.  Other locks are in
 * memory of zeros, which is an initializer with glibc and musl: they work whatever is returned.
 */
int beest_table_start(struct beest_table *table)
{
	pthread_mutexattr_t attr;
	int ret;

	memset(table, 0, sizeof(*table));
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	ret = pthread_mutex_init(&table->lock, &attr);
	pthread_mutexattr_destroy(&attr);

	return ret == 0 ? 0 : beest_fail_errno(-ret, "no recursive lock");
}

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

static int node_release(struct beest_node *node)
{
	const struct beest_kind *kind = node->kind;
	int ret = kind->release && !node->adopted ? kind->release(node) : 0;

	if (ret < 0)
		return beest_fail(-ret, "cannot destroy %s '%s': %s%s%s", kind->noun, node->name,
				  strerror(-ret), ret == -EBUSY && kind->users ? "; " : "",
				  ret == -EBUSY && kind->users ? kind->users : "");
	return 0;
}

static void node_free(struct beest_node *node)
{
	if (node->kind->dispose)
		node->kind->dispose(node);
	free(node);
}

int beest_table_free(struct beest_node *node)
{
	int ret = node_release(node);

	if (ret == 0)
		node_free(node);
	return ret;
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

static int compare_names(const void *a, const void *b)
{
	const struct beest_node *one = a, *other = b;
	int order = strcmp(one->name, other->name);

	return order ? order : (one->kind > other->kind) - (one->kind < other->kind);
}

static int compare_handles(const void *a, const void *b)
{
	const struct beest_node *one = a, *other = b;

	return (one->handle > other->handle) - (one->handle < other->handle);
}

/*
 * The order of the tree by handle.  The program may have destroyed an adopted object, whose
 * address another object has by now.
 */
static int compare_holders(const void *a, const void *b)
{
	int order = compare_handles(a, b);

	return order ? order : compare_names(a, b);
}

static struct beest_node *node_find(struct beest_table *table, void *const *tree,
				    const struct beest_node *like,
				    int (*compare)(const void *a, const void *b))
{
	struct beest_node **found, *node;

	pthread_mutex_lock(&table->lock);
	found = tfind(like, tree, compare);
	node = found ? *found : NULL;
	pthread_mutex_unlock(&table->lock);
	return node;
}

struct beest_node *beest_table_look(struct beest_table *table, const struct beest_kind *kind,
				    const char *name)
{
	const struct beest_node like = { .kind = kind, .name = (char *)name };

	return node_find(table, &table->names, &like, compare_names);
}

struct beest_node *beest_table_holder(struct beest_table *table, const void *handle)
{
	const struct beest_node like = { .handle = (void *)handle };

	return node_find(table, &table->holders, &like, compare_handles);
}

static void node_unlink(struct beest_table *table, struct beest_node *node)
{
	struct beest_node **link = node->newer ? &node->newer->older : &table->newest;

	BEEST_INVARIANT(*link == node);
	*link = node->older;
	if (node->older)
		node->older->newer = node->newer;
	tdelete(node, &table->names, compare_names);
	tdelete(node, &table->holders, compare_holders);
}

int beest_table_name_available(struct beest_table *table, const struct beest_kind *kind,
			       const char *name)
{
	int ret = name_check(kind->noun, name);

	if (ret == 0 && beest_table_look(table, kind, name))
		return beest_fail(EEXIST, "%s '%s' exists already", kind->noun, name);
	return ret;
}

static int node_add(struct beest_table *table, const char *name, struct beest_node *node)
{
	int ret = beest_table_name_available(table, node->kind, name);

	if (ret < 0)
		return ret;
	node->name = strdup(name);
	if (!node->name || !tsearch(node, &table->names, compare_names) ||
	    (node->handle && !tsearch(node, &table->holders, compare_holders))) {
		if (node->name)
			tdelete(node, &table->names, compare_names);
		free(node->name);
		node->name = NULL;
		return beest_fail(ENOMEM, "no memory for the name '%s'", name);
	}
	node->older = table->newest;
	node->newer = NULL;
	if (node->older)
		node->older->newer = node;
	table->newest = node;
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
	struct beest_nearest nearest = BEEST_NEAREST(name);
	struct beest_node *each;
	bool any = false;

	for (each = table->newest; each; each = each->older) {
		if (each->kind != kind)
			continue;
		beest_nearest_offer(&nearest, each->name, each->name);
		any = true;
	}

	if (any)
		beest_fail(ENOENT, "no %s is called %s%s", kind->noun, BEEST_QUOTE(name),
			   BEEST_NEAREST_TEXT(&nearest));
	else
		beest_fail(ENOENT, "no %s is called %s; there is no %s at all", kind->noun,
			   BEEST_QUOTE(name), kind->noun);
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

/* Frees the name last, since a sentence may use it. */
static int node_destroy(struct beest_table *table, struct beest_node *node)
{
	const struct beest_node *user;
	char *name = node->name;
	int ret = node_release(node);

	if (ret == 0) {
		node_unlink(table, node);
		node_free(node);
		free(name);
		return 0;
	}
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
		node_unlink(table, node);
		ret = beest_table_free(node);
		if (ret < 0 && refused)
			refused(data, node, ret);
		free(name);
	}
	pthread_mutex_unlock(&table->lock);
}
