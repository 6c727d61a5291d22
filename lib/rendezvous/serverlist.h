/* SPDX-License-Identifier: MIT */
/*
 * serverlist.h - do all ranks agree on servers, participants and secret?
 *
 * Ranks with different lists look for the same key on different servers, and wait for
 * each other in vain.  So a rank that has waited for a while stores its presence under
 * one plain name on each server of its list, replacing what is there.  What it finds
 * before that may be a leftover; what it finds later was written by a living process.
 *
 * Owns what is stored and seen there.  Cannot detect different lists that have no
 * server in common.
 */
#ifndef BEEST_SERVERLIST_H
#define BEEST_SERVERLIST_H

#include "lib/rendezvous/registry.h"

/*
 * Judges what was read there.  -EPROTO: a living process has another list, other
 * participants or another secret.
 */
int beest_serverlist_judge(struct beest_registry *registry, size_t server,
			   const struct beest_kv_value *value);

#endif
