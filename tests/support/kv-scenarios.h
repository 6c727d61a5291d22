/* SPDX-License-Identifier: MIT */
/*
 * kv-scenarios.h - how any key-value client and server behave, the fake like the real one
 *
 * Owns only assertions: tests/unit/fake-kv.c runs them with the fake, tests/exchange/kv.c
 * with a memcached, so both are known to agree.
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
};

/* Ends with a NULL name. */
extern const struct kv_scenario kv_scenarios[];

#endif
