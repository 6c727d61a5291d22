/* SPDX-License-Identifier: MIT */
/*
 * replaced.h - peers of the original's interface that were replaced
 *
 * The original cannot report that a peer restarted, so its functions check by themselves
 * whether one did, and connect to the new one.  Owns the list of connections that are
 * checked.  Never waits for a peer.
 */
#ifndef BEEST_REPLACED_H
#define BEEST_REPLACED_H

#include <stdbool.h>
#include <stdint.h>

struct ibv_cq;
struct ibv_qp;

/* From now on @name is made again when another one than now is behind @key. */
void beest_replaced_add(const char *name, const char *key, const struct ibv_qp *qp);

/* True, once: it was made again already, so connecting it has nothing to do. */
bool beest_replaced_again(const char *name, const char *key);

/* Checks all of them; not again within a moment, unless a transfer failed since. */
void beest_replaced_check(void);

/* A transfer failed: a peer may be gone. */
void beest_replaced_doubt(void);
bool beest_replaced_is_doubted(void);

/* -ECONNRESET: what was under way since @since and would have completed to @cq is gone. */
int beest_replaced_polled(const struct ibv_cq *cq, int64_t since);

/* Logs, once for each peer, that a poll of @cq waits for it. */
void beest_replaced_tell(const struct ibv_cq *cq);

void beest_replaced_free(void);

#endif
