/* SPDX-License-Identifier: MIT */
/*
 * registry.h - registries over the servers made of lists
 *
 * Owns a clock that a test sets, what was logged, and short words for what tests of
 * lib/rendezvous do again and again.  Every registry is that of a process of its own.
 * Knows nothing of what is asserted.
 */
#ifndef TESTS_REGISTRY_H
#define TESTS_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/rendezvous/look.h"
#include "lib/rendezvous/registry.h"
#include "lib/rendezvous/wait.h"
#include "tests/support/fake-kv.h"

#define REGISTRY_RANKS 1024

struct registry_stage {
	/* To be set before registry_make(); preset by registry_start(). */
	const char *servers;		/* "a:1 b:1 c:1" */
	const char *job;
	int64_t timeout, ttl;		/* ns */
	int (*interrupt)(void *data);
	const char *secret;		/* NULL: none */
	bool same_process;		/* as that of the registry before */

	int64_t now;			/* begins with the crew's */
	char log[16384];		/* "warn: text\n", oldest first; what is too much is lost */
	int warnings;

	/* kept by the functions below */
	struct beest_registry *open[REGISTRY_RANKS];
	size_t open_count;
};

extern struct registry_stage registry_stage;
extern struct fake_kv_server *registry_server;	/* "a:1" */

/* Presets, empty servers, the stage's clock; and the end of all that was made, as if killed. */
void registry_start(void);
void registry_end(void);

/* The same for tests that need no more. */
int registry_setup(void **state);
int registry_teardown(void **state);
#define REGISTRY_TEST(test) \
	cmocka_unit_test_setup_teardown(test, registry_setup, registry_teardown)

/* crew_run(), after which the stage's clock shows the crew's time. */
void registry_run(void);

/* Of the stage's secret and job; NULL where there is no secret.  Whoever asks closes it. */
struct beest_seal *registry_seal(void);

/* @rank -1: none.  @size ranks from 0; 0: unknown. */
struct beest_registry *registry_make(int rank, int size);

void registry_close(struct beest_registry *registry);

/* As a process does that is killed: nothing is withdrawn.  Accepts NULL, and any other one. */
void registry_kill(struct beest_registry *registry);

const struct beest_ids *registry_ranks(int size);

/* Of a call with that deadline; valid to the end of the block.  0: registry_stage.timeout. */
#define REGISTRY_LIMIT(deadline) registry_limit((deadline), &(struct beest_limit){ 0 })
const struct beest_limit *registry_limit(int64_t deadline, struct beest_limit *limit);

/* "hb1/JOB/WORD/NAME", one of a few buffers in turn. */
const char *registry_key(enum beest_record_kind kind, const char *name);

/* A record that says @text under that name. */
int registry_put(struct beest_registry *registry, enum beest_record_kind kind, const char *name,
		 const char *text, uint64_t *serial);
int registry_publish(struct beest_registry *registry, enum beest_record_kind kind,
		     const char *name, const char *text);
int registry_look(struct beest_registry *registry, unsigned int flags);

/* What the body of the record under that name says on its server; NULL: none is there. */
const char *registry_said(struct beest_registry *registry, enum beest_record_kind kind,
			  const char *name);

/* The server where that name is kept. */
struct fake_kv_server *registry_home(struct beest_registry *registry,
				     enum beest_record_kind kind, const char *name);

/* A record of a queue pair that has an echo; the rest of the text does not matter. */
int registry_put_echo(struct beest_registry *registry, const char *name, uint64_t *serial);

#endif
