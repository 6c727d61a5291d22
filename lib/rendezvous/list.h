/* SPDX-License-Identifier: MIT */
/*
 * list.h - one value to which every process appends its entries
 *
 * Owns how entries get into a list, and how a list gets shorter.  Knows neither the contents of
 * entries nor which of them are still needed.
 *
 * An append may be carried out twice, late or never, and a server may lose the whole list: so
 * a process that wants an entry in the list reads the list, and appends what is missing.
 */
#ifndef BEEST_LIST_H
#define BEEST_LIST_H

#include "lib/rendezvous/entry.h"
#include "lib/rendezvous/look.h"

/* The writes that append: an empty list is added where there is none, and then extended. */
#define BEEST_LIST_WRITES 2

struct beest_list {
	struct beest_registry *registry;
	size_t server;
	enum beest_record_kind kind;	/* of its entries */
	char key[BEEST_KEY_MAX + 1];
	/* Go along with the looks until they are done. */
	struct beest_look_extra extras[BEEST_LIST_WRITES];
	uint8_t *entries;		/* that they append */
	size_t entries_size;
};

/* Errors of beest_registry_key(). */
int beest_list_start(struct beest_list *list, struct beest_registry *registry,
		     enum beest_record_kind kind, const char *name);
void beest_list_end(struct beest_list *list);

/* Has the looks from now on append an entry of this context.  -EMSGSIZE, -ENOMEM. */
int beest_list_append(struct beest_list *list, const void *body, size_t size);

/* Is anything to be appended? */
bool beest_list_is_appending(const struct beest_list *list);

/*
 * Is what this process appended missing from the value that was read behind it?  Then the server
 * takes no longer one.  An absent list shows nothing, nor does a second call.
 */
bool beest_list_is_refused(struct beest_list *list, const struct beest_kv_value *value);

/*
 * Appends this context's entries if there is a list: best effort, as beest_look_offer(), and not if
 * the server was silent a moment ago.
 */
void beest_list_offer(struct beest_list *list);

/* Begins to read a value of the list, which must outlive the reader; an absent one is empty. */
void beest_list_read(const struct beest_list *list, const struct beest_kv_value *value,
		     struct beest_entry_reader *reader);

/* --------------------------------------------------------------------- replacing --- */

/* Reads the list for a replacement.  *value is for beest_kv_values_free(). */
int beest_list_fetch(struct beest_list *list, struct beest_kv_value *value);

/* One entry of this context, as the list has it.  Returns its size; -EMSGSIZE, -ENOMEM. */
int beest_list_encode(const struct beest_list *list, const void *body, size_t size,
		      uint8_t bytes[BEEST_ENTRY_MAX]);

/*
 * Stores other entries in place of those that were fetched with that unique.  -EEXIST, -ENOENT:
 * the list was changed or lost since, so nothing was stored; -EMSGSIZE: too long.
 */
int beest_list_replace(struct beest_list *list, uint64_t unique, const void *bytes, size_t size);

#endif
