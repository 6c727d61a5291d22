/* SPDX-License-Identifier: MIT */
/*
 * store.h - change what the servers have, and see it done
 *
 * Owns the calls that store and remove what the registry keeps and return when the servers have
 * done so, up to the last record of a rank that leaves or fails.  Knows nothing of what is in it.
 */
#ifndef BEEST_STORE_H
#define BEEST_STORE_H

#include "lib/rendezvous/look.h"

/* Puts the record of an object, and waits until its server has it. */
int beest_store_publish(struct beest_registry *registry,
			const struct beest_registry_record *record,
			const struct beest_limit *limit);

/*
 * Takes looks with these @extras until the last one, which is answered, is done: its result, or the
 * failure of its server, with @purpose and the key in the sentence: -EAGAIN if that may pass and
 * the limit is one look.
 */
int beest_store_ask(struct beest_registry *registry, struct beest_look_extra *extras,
		    size_t count, const char *purpose, const struct beest_limit *limit);

/* Reads the value of a key and its unique, in the same way, for beest_kv_values_free(). */
int beest_store_read(struct beest_registry *registry, const char *key, const char *purpose,
		     struct beest_kv_value *value, const struct beest_limit *limit);

/*
 * Deletes the record of a key, whichever process wrote it.  -ENOENT: there was none, and no attempt
 * that failed may have deleted it.
 */
int beest_store_delete(struct beest_registry *registry, const char *key,
		       const struct beest_limit *limit);

/*
 * Withdraws the records of the object with this serial, within beest_look_closing().  A server
 * that was silent a moment ago is left to a later look, and so is any that has just failed, unless
 * it is @server (SIZE_MAX: none).
 */
void beest_store_withdraw(struct beest_registry *registry, uint64_t serial, size_t server);

/*
 * Removes what was given up, and a message with that name, too.  Ends like that; the error of a
 * server, if that has not answered whether it deleted the message.
 */
int beest_store_purge(struct beest_registry *registry, const char *message);

/*
 * Withdraws the records of queue pairs and regions that are still this context's own, and
 * stores that this rank has left.  Barriers, messages and listeners stay until their time to live
 * ends.  Waits for silent servers until beest_look_closing().  Other threads may be using the
 * registry: what they publish from now on is withdrawn at once.
 */
void beest_store_leave(struct beest_registry *registry);

/*
 * Notifies all ranks that wait, now or later, that this rank has failed; without a rank, only those
 * that wait for what this process has published.  Ends at beest_look_closing().  Of
 * @text less than BEEST_REASON_MAX bytes are kept.  Errors of beest_wait_run().
 */
int beest_store_fail(struct beest_registry *registry, const char *text);

#endif
