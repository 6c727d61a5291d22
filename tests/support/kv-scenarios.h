/* SPDX-License-Identifier: MIT */
/*
 * kv-scenarios.h - what any key-value client and its server do, the fake as the real one
 *
 * Owns assertions only: tests/unit/fake-kv.c runs them over the fake, tests/exchange/kv.c
 * over a memcached, so the two are known to agree.
 */
#ifndef TESTS_KV_SCENARIOS_H
#define TESTS_KV_SCENARIOS_H

#include "lib/kv/kv.h"

/* One server, empty at the start of each scenario, and a handle without connections. */
struct kv_stage {
	struct beest_kv *kv;
	void (*restart)(void);			/* empty, at the same address */
	void (*pause)(int seconds);
};

struct kv_scenario {
	const char *name;
	void (*run)(const struct kv_stage *stage);
	int without_login;	/* with one every write is answered */
};

/* Ends with a NULL name. */
extern const struct kv_scenario kv_scenarios[];

#endif
