/* SPDX-License-Identifier: MIT */
/*
 * replaced.h - peers of the original's interface that were replaced
 *
 * The original's interface cannot report that a peer restarted, so its functions check for that
 * and connect to the new peer.  Owns the list of connections to check.  Never waits for a peer.
 */
#ifndef BEEST_REPLACED_H
#define BEEST_REPLACED_H

#include <stdbool.h>
#include <stdint.h>

struct ibv_cq;
struct ibv_qp;

/* From now on, @name is connected again when another queue pair is stored under @key. */
void beest_replaced_add(const char *name, const char *key, const struct ibv_qp *qp);

/* True, once: a check has connected @name again already, so connecting has nothing to do. */
bool beest_replaced_again(const char *name, const char *key);

/* Checks all connections, unless it did so just now and no transfer has failed since. */
void beest_replaced_check(void);

/* Notes that a transfer failed, so a peer may be gone. */
void beest_replaced_suspect(void);
bool beest_replaced_is_suspected(void);

/* -ECONNRESET: a peer was replaced since @since, and its requests that complete to @cq are lost. */
int beest_replaced_polled(const struct ibv_cq *cq, int64_t since);

/* Logs once that a poll of @cq goes on without completions, and which peer it waits for. */
void beest_replaced_tell(const struct ibv_cq *cq);

#endif
