/* SPDX-License-Identifier: MIT */
/*
 * registry.h - registries over the fake servers
 *
 * Owns a clock that a test sets, the log, and shorthands for what tests of lib/rendezvous often
 * do.  Each registry belongs to a separate process.  Knows nothing of what is asserted.
 */
#ifndef TESTS_REGISTRY_H
#define TESTS_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/rendezvous/look.h"
#include "lib/rendezvous/registry.h"
#include "lib/rendezvous/store.h"
#include "lib/rendezvous/wait.h"
#include "lib/rendezvous/wait.h"
#include "tests/support/fake-kv.h"

#define REGISTRY_RANKS 1024	/* that are played */
#define REGISTRY_IDS 100000	/* of a job */

struct registry_stage {
	/* Set before registry_make(); registry_start() sets defaults. */
	const char *servers;		/* "a:1 b:1 c:1" */
	const char *job;
	int64_t timeout, ttl;		/* ns */
	int (*interrupt)(void *data);
	const char *secret;		/* NULL: none */
	bool same_process;		/* the process of the registry before */

	int64_t now;			/* begins with the crew's time */
	char log[16384];		/* "warn: text\n", oldest first; the rest is lost */
	int warnings;

	/* internal */
	struct beest_registry *open[REGISTRY_RANKS];
	size_t open_count;
};

extern struct registry_stage registry_stage;
extern struct fake_kv_server *registry_server;	/* "a:1" */

/* Defaults, empty servers, the stage's clock.  The end kills all registries. */
void registry_start(void);
void registry_end(void);

/* For tests that need no more. */
int registry_setup(void **state);
int registry_teardown(void **state);
#define REGISTRY_TEST(test) \
	cmocka_unit_test_setup_teardown(test, registry_setup, registry_teardown)

/* Runs crew_run(); then the stage's clock has the crew's time. */
void registry_run(void);

/* A seal of the stage's secret and job, which the caller closes; NULL: there is no secret. */
struct beest_seal *registry_seal(void);

/* @rank -1: none.  Ranks are 0 to @size - 1; @size 0: unknown. */
struct beest_registry *registry_make(int rank, int size);

void registry_close(struct beest_registry *registry);

/*
 * Ends it as if its process were killed: withdraws nothing.  Accepts NULL and other
 * registries.
 */
void registry_kill(struct beest_registry *registry);

const struct beest_ids *registry_ranks(int size);

/*
 * The limit of a call with that deadline, valid to the end of the block.  0: the stage's
 * timeout.
 */
#define REGISTRY_LIMIT(deadline) registry_limit((deadline), &(struct beest_limit){ 0 })
const struct beest_limit *registry_limit(int64_t deadline, struct beest_limit *limit);

/* "hb1/JOB/WORD/NAME", in one of a few buffers in turn. */
const char *registry_key(enum beest_record_kind kind, const char *name);

/* Puts a record with the body @text under that name. */
int registry_put(struct beest_registry *registry, enum beest_record_kind kind, const char *name,
		 const char *text, uint64_t *serial);
int registry_publish(struct beest_registry *registry, enum beest_record_kind kind,
		     const char *name, const char *text);
int registry_look(struct beest_registry *registry, unsigned int flags);

/* The body of the record that the server has under that name; NULL: none. */
const char *registry_said(struct beest_registry *registry, enum beest_record_kind kind,
			  const char *name);

/* The server where that name is kept. */
struct fake_kv_server *registry_home(struct beest_registry *registry,
				     enum beest_record_kind kind, const char *name);

/* Puts a record of a queue pair with an echo; the rest of its body is arbitrary. */
int registry_put_echo(struct beest_registry *registry, const char *name, uint64_t *serial);

#endif
