/* SPDX-License-Identifier: MIT */
/*
 * serverlist.h - do all ranks name the same servers, count the same ranks, share a secret?
 *
 * Ranks with different lists look for the same key on different servers and wait for each
 * other in vain.  So a rank that has waited for a while puts its presence under one plain
 * name on each server of its list, whoever's is there.  What it finds before that may be
 * a leftover; what it finds later was written by a process that is alive.
 *
 * Owns that key and what was seen there.  Lists without a common server cannot be told.
 */
#ifndef BEEST_SERVERLIST_H
#define BEEST_SERVERLIST_H

#include <stddef.h>
#include <stdint.h>

#include "lib/kv/kv.h"
#include "lib/rendezvous/record.h"

struct beest_registry;

/* The last part of the key; no rank is called so. */
#define BEEST_SERVERLIST_NAME "servers"

struct beest_serverlist {
	char key[BEEST_KEY_MAX + 1];
};

/* What was read there.  -EPROTO: a living process has another list, other ranks or secret. */
int beest_serverlist_judge(struct beest_registry *registry, size_t server,
			   const struct beest_kv_value *value);

#endif
