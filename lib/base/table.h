/* SPDX-License-Identifier: MIT */
/*
 * table.h - objects by kind and name
 *
 * Owns the names and the order of creation.  An object is made after those it depends on, so
 * destroying in reverse order of creation is always right: queue pairs before their completion
 * queues, everything before its protection domain.  Knows nothing of verbs: each kind knows how
 * its objects are released.
 *
 * Many threads may use a table.  A caller holds the lock, which is recursive, to make several
 * steps atomic, but never while it makes or connects an object or talks to a server.
 */
#ifndef BEEST_TABLE_H
#define BEEST_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct beest_node;

struct beest_kind {
	const char *noun;	/* "queue pair", for sentences */
	size_t size;		/* of an object, whose first member is its node */
	/* Returns the handle to the other library; a failure keeps the object.  May be NULL. */
	int (*release)(struct beest_node *node);
	const char *users;	/* a sentence's guess why release failed with -EBUSY, or NULL */
	/* Frees the object's other memory after its release.  May be NULL. */
	void (*dispose)(struct beest_node *node);
};

/* First member of every object that has a name. */
struct beest_node {
	const struct beest_kind *kind;
	char *name;				/* owned by the table */
	struct beest_node *older, *newer;	/* order of creation */

	/* The maker sets these.  Handles are only compared; the kind alone follows its own. */
	void *handle;				/* by which others know it; NULL: none */
	const void *needs[4];			/* handles of objects that it depends on */
	bool adopted;				/* made by the program: never released */

	uint64_t serial;			/* identifies what is published of it; 0: nothing */
};

struct beest_table {
	pthread_mutex_t lock;
	void *names, *holders;			/* trees of tsearch(3); those with a handle */
	struct beest_node *newest;
};

/* Makes it empty.  -ENOMEM, -EAGAIN: no lock. */
int beest_table_start(struct beest_table *table);

/* A new object, zero except for its kind; NULL: no memory, with a sentence. */
void *beest_table_new(const struct beest_kind *kind);

/* The same with @handle, which is released when there is no memory. */
void *beest_table_wrap(const struct beest_kind *kind, void *handle);

/* Destroys an object that is in no table. */
int beest_table_free(struct beest_node *node);

/*
 * To be called before an object is made.  -EINVAL: the name does not have 1 to 255 bytes, or has
 * a control character or broken UTF-8 (the sentence names the byte); -EEXIST: this kind has the
 * name already.
 */
int beest_table_name_available(struct beest_table *table, const struct beest_kind *kind,
			       const char *name);

/*
 * Errors as above, or -ENOMEM; a failure destroys @node.  From here on, another thread may
 * destroy it, too: read before what is needed later.
 */
int beest_table_add(struct beest_table *table, const char *name, struct beest_node *node);

/* NULL when there is none; sets no sentence, since that may not be a failure. */
struct beest_node *beest_table_look(struct beest_table *table, const struct beest_kind *kind,
				    const char *name);

/* Like beest_table_look(), but adds a new object if there is none; errors of beest_table_add(). */
int beest_table_obtain(struct beest_table *table, const struct beest_kind *kind,
		       const char *name, struct beest_node **node);

/* NULL when there is none, with a sentence that gives the nearest known name. */
struct beest_node *beest_table_find(struct beest_table *table, const struct beest_kind *kind,
				    const char *name);

/*
 * Removes and destroys an object.  A failure leaves it there, with a sentence that names the reason
 * and the object that still uses it.  -ENOENT: there is none, with a sentence as above.
 */
int beest_table_destroy(struct beest_table *table, const struct beest_kind *kind,
			const char *name);

/* An object that has @handle, and the newest one that needs it; NULL: none. */
struct beest_node *beest_table_holder(struct beest_table *table, const void *handle);
struct beest_node *beest_table_user(struct beest_table *table, const void *handle);

/*
 * Destroys all objects, newest first, and leaves the table empty.  An object whose release fails
 * goes to @refused with that failure; @refused frees the node, whose name is valid until it
 * returns.  Without @refused, such an object leaks.
 */
void beest_table_clear(struct beest_table *table,
		       void (*refused)(void *data, struct beest_node *node, int ret), void *data);

#endif
