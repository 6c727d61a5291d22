/* SPDX-License-Identifier: MIT */
/*
 * table.h - objects by kind and name
 *
 * Owns the names and the order of creation.  An object is made after those it depends
 * on, so destroying in reverse order of creation is always right: queue pairs before
 * their completion queues, everything before its protection domain.
 * Knows nothing of verbs: each kind says how its objects are released.
 *
 * May be used by many threads.  Whoever needs several steps to be one holds the lock
 * meanwhile, which is recursive, but never while an object is made or connected, nor while
 * talking to a server.
 */
#ifndef BEEST_TABLE_H
#define BEEST_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct beest_node;

struct beest_kind {
	const char *noun;	/* "queue pair", as sentences say it */
	size_t size;		/* of an object, whose first member is its node */
	/* Gives what is behind it back to another library; an errno keeps it.  NULL: nothing. */
	int (*release)(struct beest_node *node);
	const char *users;	/* who may be why that is -EBUSY; NULL: nobody */
	/* Frees what it has in memory besides, once it is released; NULL: nothing. */
	void (*dispose)(struct beest_node *node);
};

/* First member of every object that has a name. */
struct beest_node {
	const struct beest_kind *kind;
	char *name;				/* owned by the table */
	uint32_t hash;				/* of the name */
	struct beest_node *chain, *holders;	/* same bucket, by name and by handle */
	struct beest_node *older, *newer;	/* order of creation */

	/* Set by whoever made the object.  Handles are compared; only the kind follows its own. */
	void *handle;				/* what others know it by; NULL: nothing */
	const void *needs[4];			/* handles that it cannot do without */
	bool adopted;				/* not made here: forgotten, not released */
};

struct beest_table {
	pthread_mutex_t lock;
	struct beest_node **buckets;		/* by name, then by handle */
	size_t size;				/* of each kind: a power of two, or 0 */
	size_t count;
	struct beest_node *newest;
};

#define BEEST_TABLE_EMPTY { .lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP }

/* A new object, zero but for its kind; NULL: no memory, with a sentence. */
void *beest_table_new(const struct beest_kind *kind);

/* The same around @handle.  Where there is no memory, the kind releases what is behind it. */
void *beest_table_wrap(const struct beest_kind *kind, void *handle);

/* Destroys one that is in no table. */
int beest_table_free(struct beest_node *node);

/*
 * Asked before things are made: -EINVAL for a name that is not 1 to 255 bytes without control
 * characters (says which byte), -EEXIST when this kind has the name already.
 */
int beest_table_name_available(struct beest_table *table, const struct beest_kind *kind,
			       const char *name);

/* As above, or -ENOMEM: @node is destroyed then. */
int beest_table_add(struct beest_table *table, const char *name, struct beest_node *node);

/* NULL, without a sentence, when there is none: that may not be a failure. */
struct beest_node *beest_table_look(struct beest_table *table, const struct beest_kind *kind,
				    const char *name);

/* As above, or a new one under that name; errors of beest_table_add(). */
int beest_table_obtain(struct beest_table *table, const struct beest_kind *kind,
		       const char *name, struct beest_node **node);

/* NULL, with a sentence that names the nearest known name, when there is none. */
struct beest_node *beest_table_find(struct beest_table *table, const struct beest_kind *kind,
				    const char *name);

/*
 * Removes and destroys it; a failure puts it back, and its sentence says why, and which object
 * still uses it.  -ENOENT as above.
 */
int beest_table_destroy(struct beest_table *table, const struct beest_kind *kind,
			const char *name);

/* The newest object that has, or that needs, this handle; NULL: none. */
struct beest_node *beest_table_holder(struct beest_table *table, const void *handle);
struct beest_node *beest_table_user(struct beest_table *table, const void *handle);

/*
 * Destroys everything, newest first, and leaves the table empty.  An object that cannot be
 * released is handed to @refused with that failure, while it has its name; NULL: it is
 * dropped.
 */
void beest_table_clear(struct beest_table *table,
		       void (*refused)(void *data, struct beest_node *node, int ret), void *data);

#endif
