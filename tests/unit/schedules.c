/* SPDX-License-Identifier: MIT */
/*
 * schedules.c - what ranks promise each other, whatever the order of their requests
 *
 * 	schedules			a few hundred seeds, always the same
 * 	schedules FIRST COUNT		these seeds
 * 	schedules SEED			this seed, with each request on stderr
 * 	schedules PART			kept plans whose title has that part
 *
 * Each seed makes a plan: the number of ranks and servers, the steps that all ranks take, and the
 * faults of single requests.  tests/plans/ has further plans (tests/support/plan.h), which may say
 * what they expect.  Each plan is tried in a separate process, over the fake device and
 * servers, so that it always takes the same course.  Failures are printed.  A single seed's
 * plan is reduced as far as it still fails.
 *
 * Owns the plans that are drawn, all trials and the promises:
 * - nobody passes a barrier, or is connected, before all have come there;
 * - a connected rank has the same numbers, keys and incarnations as the other end;
 * - each message arrives unchanged, also long after it was pushed, and one for one reader once;
 * - each pair of neighbours is connected;
 * - a listener is given each client's request once, and they are connected;
 * - ranks that repair their mesh whenever others were started again come together;
 * - a run among the leftovers of one that was killed succeeds, and takes no message for its own
 *   that a killed process has left, once that one's rank has come again, or if its death is known;
 * - without deaths all succeed, whoever is held up and whatever fails for a while;
 * - of two runs under one job id, nobody is connected to ranks of both, or passes with them, though
 *   another process of its own rank has begun;
 * - with a death the others succeed, or fail by their limit and say who did not come;
 * - the last rank leaves on the servers what hartebeest-exchange(7) says.
 *
 * Two cases are beyond the promises, and so happen in no trial: a server that loses its contents
 * after a rank has left, or while a process is about to add the epoch, which alone was evicted.
 * If a server fails, ranks look after their records until all are done.  A rank may have a second
 * thread, which takes some of the steps while the first thread takes the others.
 */
#include "config.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "hartebeest-mesh.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/random.h"
#include "lib/base/text.h"
#include "lib/core/context.h"
#include "lib/core/mesh.h"
#include "lib/core/contribution.h"
#include "tests/support/crew.h"
#include "tests/support/crowd.h"
#include "tests/support/fake-process.h"
#include "tests/support/make.h"
#include "tests/support/party.h"
#include "tests/support/plan.h"
#include "tests/support/registry.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#define SEEDS 300			/* without arguments */
#define RANKS 40
#define STEPS 12
#define MESHES 2
#define PASSINGS 200
#define MEETS 4				/* in a row, in a mesh that is not repaired */
#define TRIES 8				/* after failures, when ranks die */
#define MESSAGES 3			/* of a rank in a step */
#define MESSAGE_MAX 3000
#define THREADS 2			/* of a rank */
#define COMING (4 * BEEST_SECOND)		/* until all others see a new rank, at most */
#define WORK_MOST (15 * BEEST_SECOND)
#define TWINS 8				/* of so many seeds, one is for two runs */
#define SILENCE BEEST_SECOND		/* whoever makes no request for so long may be dead */
#define SLOWNESS (30 * BEEST_MS)		/* a slow rank's requests are held up for less */
#define SECONDS 120			/* of processor time, for one trial */

/* After its limit, a call looks a last time, and asks who is missing. */
#define LAST_LOOKS (1500 * BEEST_MS)

/* ---------------------------------------------------------------- plans that are drawn --- */

static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint64_t dice;			/* of the plan */

/* From 0 to @below - 1. */
static int draw(int below)
{
	dice = mix(dice);
	return (int)(dice % (uint64_t)below);
}

static int64_t draw_span(void)
{
	static const int64_t most[] = {
		BEEST_MS, 100 * BEEST_MS, 100 * BEEST_MS, 100 * BEEST_MS, BEEST_SECOND,
		5 * BEEST_SECOND,
	};
	int64_t span = most[draw(BEEST_COUNT(most))];

	return span / 1000 * (1 + draw(1000));
}

static void step_add(struct plan *plan, enum op op, int name)
{
	if (plan->step_count < STEPS)
		plan->steps[plan->step_count++] = (struct step){ .op = op, .name = name };
}

/* As in a script that calls hartebeest(1) repeatedly. */
static void draw_script(struct plan *plan)
{
	enum op op = draw(2) ? BARRIER : MESH;
	int lives = 2 + draw(3), names = 1 + draw(2), i;

	for (i = 0; i < lives; i++) {
		if (i)
			step_add(plan, LEAVE, 0);
		step_add(plan, draw(8) ? op : (enum op)(BARRIER + MESH - op), draw(names));
	}
}

static struct event *event_add(struct plan *plan, enum what what)
{
	struct event *event = &plan->events[plan->event_count++];

	event->what = what;
	event->rank = draw(plan->size);
	event->at = draw(draw(2) ? 8 : 4 + 8 * plan->step_count);
	event->span = draw_span();
	event->server = draw(plan->servers);
	event->item = draw(1000);
	return event;
}

static void draw_program(struct plan *plan)
{
	static const enum op all[] = {
		BARRIER, BARRIER, BARRIER, MESH, MESH, MESH, MEET, MEET, REPAIR, CLOSE, MESSAGE,
		MESSAGE, PAIRS, PAIRS, WORK, WORK, LEAVE,
	};
	int count = 2 + draw(7), i;
	enum op op;

	for (i = 0; i < count; i++) {
		op = all[draw(BEEST_COUNT(all))];
		step_add(plan, op, draw(2));
		/* The keys must not be reused before all are done. */
		if (op == PAIRS)
			step_add(plan, BARRIER, draw(2));
	}
}

static void draw_faults(struct plan *plan)
{
	static const int errors[] = { ECONNRESET, EHOSTDOWN, ECONNREFUSED };
	int count = 1 + draw(3);
	struct event *event;

	while (count--) {
		event = event_add(plan, (enum what)(FAILURE + draw(DEATH - FAILURE)));
		event->error = errors[draw(BEEST_COUNT(errors))];
		event->command = draw(5);
		event->manner = event->what == LATE ? FAKE_KV_LATE :
				(enum fake_kv_manner)draw(FAKE_KV_LATE);
	}
}

/* A mesh that is repaired whenever one of its ranks was started again. */
static void draw_survivors(struct plan *plan)
{
	int count = 1 + draw(3);
	struct event *event;

	step_add(plan, TOGETHER, draw(2));
	if (!draw(3))
		event_add(plan, HOLD);
	if (!draw(3))
		draw_faults(plan);
	while (count--) {
		event = event_add(plan, DEATH);
		event->at = draw(60);
	}
}

/*
 * A replacement starts at the beginning of a life, while others may be further.  So their steps
 * must not look to it like earlier ones: each mesh is made once, and none is repaired.
 */
static void draw_replacements(struct plan *plan)
{
	int i, begin = 0, kept;
	bool made[MESHES] = { false };

	for (i = 0; i < plan->step_count; i++)
		begin = plan->steps[i].op == LEAVE ? i + 1 : begin;
	for (i = kept = begin; i < plan->step_count; i++) {
		const struct step step = plan->steps[i];

		if (step.op == REPAIR || (step.op == MESH && made[step.name]))
			continue;
		made[step.name] |= step.op == MESH;
		plan->steps[kept++] = step;
	}
	plan->step_count = kept;
	if (!kept)
		step_add(plan, BARRIER, 0);
}

static void draw_deaths(struct plan *plan)
{
	int count = 1 + (plan->size > 2 && !draw(4));
	struct event *event;

	while (count--) {
		event = event_add(plan, DEATH);
		if (draw(2))
			event->span = 0;
		else
			draw_replacements(plan);
	}
}

/*
 * A barrier, a mesh or a service belongs to one thread, and so do a pair and the barrier after it.
 * All other steps may be taken by either thread.
 */
static void draw_threads(struct plan *plan)
{
	static const bool has_name[OPS] = {
		[BARRIER] = true, [MESH] = true, [MEET] = true, [REPAIR] = true, [CLOSE] = true,
		[SERVE] = true,
	};
	struct step *step;

	for (step = plan->steps; step < plan->steps + plan->step_count; step++)
		step->thread = has_name[step->op] ? step->name :
			       step->op == PAIRS && step < plan->steps + plan->step_count - 1 ?
			       step[1].name : draw(THREADS);
}

/* Draws what all steps have in common. */
static void draw_form(struct plan *plan)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	plan->type = types[draw(BEEST_COUNT(types))];
	plan->per_peer = draw(3) ? 1 : 2 + draw(2);
	plan->reach = draw(3) ? 0 : 1 + draw(3);
#ifdef HAVE_CRYPTO
	plan->sealed = !draw(4);
#endif
	if (!draw(3))
		draw_threads(plan);
}

/*
 * In place of work, before a barrier, so that no listener is asked for its next step too
 * early.
 */
static void draw_services(struct plan *plan)
{
	int i;

	for (i = 0; i + 1 < plan->step_count; i++)
		if (plan->steps[i].op == WORK && draw(2)) {
			plan->steps[i].op = SERVE;
			plan->steps[i + 1].op = BARRIER;
			plan->steps[i + 1].name = plan->steps[i].name;
		}
}

static void draw_all(struct plan *plan, uint64_t seed)
{
	static const int sizes[] = { 2, 3, 3, 4, 4, 5, 16, 17, 20, 33 };
	static const int64_t noises[] = { 0, 30 * BEEST_US, 300 * BEEST_US, 3 * BEEST_MS };
	static const int counts[] = { 1, 1, 2, 3 };
	int holds, kind;
	bool faults, deaths;

	dice = seed;
	memset(plan, 0, sizeof(*plan));
	plan->seed = seed;
	plan->size = draw(4) ? sizes[draw(BEEST_COUNT(sizes))] : 2 + draw(RANKS - 1);
	plan->servers = counts[draw(BEEST_COUNT(counts))];
	plan->noise = noises[draw(BEEST_COUNT(noises))];
	plan->slow = draw(4) ? -1 : draw(plan->size);
	plan->scattered = !draw(3);
	plan->limit = 10 * BEEST_SECOND;
	if (!draw(8)) {
		draw_survivors(plan);
		return;
	}
	if (draw(2))
		draw_script(plan);
	else
		draw_program(plan);
	for (holds = draw(5); holds; holds--)
		event_add(plan, HOLD);
	kind = draw(20);
	faults = kind < 7;
	deaths = kind >= 6 && kind < 13;
	if (!deaths && !draw(3))
		event_add(plan, END);
	if (faults)
		draw_faults(plan);
	if (deaths)
		draw_deaths(plan);
	if (!deaths)
		plan->limit = 60 * BEEST_SECOND;
	draw_services(plan);
}

/* A server loses something between a push and the request that follows. */
static void draw_loss(struct plan *plan)
{
	static const enum what all[] = { FLUSH, FLUSH, FORGETTING, RESTART };
	struct event *event;
	int i;

	for (i = 0; i < plan->event_count; i++)
		if (plan->events[i].what >= DEATH)
			return;
	if (plan->event_count == PLAN_EVENTS || draw(2))
		return;
	event = event_add(plan, all[draw(BEEST_COUNT(all))]);
	event->at = draw(2);
	event->pushed = true;
}

static void step_insert(struct plan *plan, int at, struct step step)
{
	memmove(&plan->steps[at + 1], &plan->steps[at],
		(size_t)(plan->step_count++ - at) * sizeof(*plan->steps));
	plan->steps[at] = step;
}

/* Messages that are read some steps after they were pushed, in the same life. */
static void draw_letters(struct plan *plan)
{
	struct step step;
	int i, at;

	for (i = 0; i < plan->step_count && plan->step_count < STEPS - 1; i++) {
		step = plan->steps[i];
		if (step.op != MESSAGE || draw(2))
			continue;
		plan->steps[i].op = PUSH;
		if (draw(2))
			step_insert(plan, i + 1,
				    (struct step){ .op = BARRIER, .name = step.thread,
						   .thread = step.thread });
		for (at = i + 1; at < plan->step_count && plan->steps[at].op != LEAVE && draw(4);)
			at++;
		step.op = READ;
		step_insert(plan, at, step);
		draw_loss(plan);
		i = at;
	}
}

/* Two runs, whose ranks start at about the same time. */
static void draw_twins(struct plan *plan, uint64_t seed)
{
	static const int sizes[] = { 2, 2, 3, 4, 5, 8, 16, 17, 20 };
	static const enum op firsts[] = { MESH, MESH, BARRIER, BARRIER, PAIRS, MESSAGE };
	static const int64_t spans[] = {
		BEEST_MS, BEEST_MS, 5 * BEEST_MS, 30 * BEEST_MS, 300 * BEEST_MS, 2 * BEEST_SECOND,
	};
	static const int64_t noises[] = { 0, 30 * BEEST_US, 300 * BEEST_US, 3 * BEEST_MS };
	int count = 1 + draw(3);

	memset(plan, 0, sizeof(*plan));
	plan->seed = seed;
	plan->twins = true;
	plan->size = sizes[draw(BEEST_COUNT(sizes))];
	plan->servers = 1;
	plan->noise = noises[draw(BEEST_COUNT(noises))];
	plan->slow = draw(4) ? -1 : draw(plan->size);
	plan->limit = 10 * BEEST_SECOND;
	plan->behind = spans[draw(BEEST_COUNT(spans))];
	plan->former = draw(2) ? NOTHING : draw(FORMERS);
	while (count--)
		step_add(plan, firsts[draw(BEEST_COUNT(firsts))], plan->step_count % MESHES);
}

/*
 * Barriers become gathers, and ranks that poll, or give up and call again.  Mixed apart from the
 * dice, so that other plans stay as they were.
 */
static void draw_gathers(struct plan *plan)
{
	uint64_t apart = mix(plan->seed ^ 0x6a7e);
	int i;

	plan->patience = apart % 3 ? WAITS : (int)(apart / 3 % PATIENCES);
	for (i = 0; i < plan->step_count; i++) {
		apart = mix(apart);
		if (plan->steps[i].op == BARRIER && apart % 3 == 0)
			plan->steps[i].op = GATHER;
	}
}

/* Of every few seeds, one is for two runs. */
static void draw_plan(struct plan *plan, uint64_t seed)
{
	draw_all(plan, seed);
	if (mix(~seed) % TWINS == 0)
		draw_twins(plan, seed);
	draw_form(plan);
	plan->hosts = mix(mix(~seed)) % 2;
	if (plan->twins)
		for (struct step *step = plan->steps; step < plan->steps + STEPS; step++)
			step->thread = 0;
	else
		draw_letters(plan);
	draw_gathers(plan);
}

/* -------------------------------------------------------------------- one trial --- */

/* One end's view of its connection with another rank, by the verbs. */
struct link {
	uint32_t qp_num, psn;		/* own, for this peer */
	uint32_t dest_qp_num, rq_psn;	/* of the peer, as set in RTR */
	bool known;			/* what the peer offers, and with a mesh who it is */
	struct hartebeest_remote_mr region;
	struct beest_incarnation incarnation;
};

struct card {
	uint64_t digest;
	struct beest_incarnation own;
	struct hartebeest_remote_mr region;
	struct link links[PLAN_PROCESSES];
};

struct thread {
	struct rank *rank;
	int step;
	int64_t began, held;		/* of its step; how long it was held up since */
	bool runs;
	bool lacks_epoch[PLAN_SERVERS];	/* it may have found none there, and is about to add it */
};

/* How a step of which something is expected has ended. */
struct ending {
	bool ended;
	int ret;
	int64_t began, at;
	char *sentence;
};

static struct rank {
	const struct beest_kv *kv;	/* NULL: no context */
	struct thread threads[THREADS];
	struct beest_incarnation incarnation;
	int life_begin;
	int requests, of_life;		/* in all lives, and in this one */
	int pushed_at;			/* the number of requests then; -1: never */
	uint64_t traced;
	bool dead;			/* noticed when its call looks next */
	bool died, is_replacement, begins_again;
	int64_t replaced_after;
	int run;			/* counts those that were killed before */
	bool there, came;		/* others find its presence, of this life, or of this run */
	bool follows;			/* others found that of its predecessor, which was killed */
	int killed_life;		/* where that one's last life began; -1: not killed so */
	bool failed, ended;
	struct hartebeest_mesh *mesh[MESHES];
	bool entered[PLAN_STEPS], through[PLAN_STEPS];
	struct card *cards[PLAN_STEPS];
	struct ending ends[PLAN_STEPS];

	/* of twins */
	uint64_t begun, latest;		/* places of requests among all: of its first one, and of
					   the latest by which it may have met others */
	int64_t heard_at;		/* when it made its latest request */
	bool told, has_met;
	/* By whom each rank of the job was represented. */
	const struct rank *met[PLAN_STEPS][PLAN_PROCESSES];
} ranks[PLAN_PROCESSES];

static struct plan plan;		/* of this process */
static bool traces;
static uint64_t fake_places;		/* of requests, as they are carried out */
static struct verdict {
	char text[2048];		/* "": no promise was broken */
	bool reached;			/* the request for which this trial is one of many */
} *verdict;
static uint64_t entropy;

/* Replaces the library's function: each trial draws the same bits every time. */
int beest_random(void *buffer, size_t size)
{
	uint8_t *byte = buffer;

	while (size--)
		*byte++ = (uint8_t)(entropy = mix(entropy));
	return 0;
}

/* The running thread, a member of the crew. */
static struct thread *here(void)
{
	struct thread *self = crew_data();

	return self ? self : ranks[0].threads;
}

static struct thread *thread_at(struct rank *rank, int step)
{
	return &rank->threads[plan.steps[step].thread];
}

static int slot_of(const struct rank *rank)
{
	return (int)(rank - ranks);
}

static bool takes(const struct rank *rank, int step)
{
	return plan_ranks_have(&plan.steps[step].who, slot_of(rank));
}

/* Another process of the rank follows. */
static bool ends_life(const struct rank *rank, int step)
{
	const enum op op = plan.steps[step].op;

	return (op == LEAVE || op == KILL) && takes(rank, step);
}

/* Twins have the same number. */
static int number_of(const struct rank *rank)
{
	return slot_of(rank) % plan.size;
}

static int slots(void)
{
	return plan.twins ? 2 * plan.size : plan.size;
}

static void trace(const struct rank *rank, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void trace(const struct rank *rank, const char *format, ...)
{
	va_list arguments;

	if (!traces)
		return;
	fprintf(stderr, "%12.6f rank %d%s: ", (double)crew_now() / BEEST_SECOND, number_of(rank),
		!plan.twins ? "" : slot_of(rank) < plan.size ? " of run A" : " of run B");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
}

/* Only the first failure counts, since others may follow from it.  A dead rank has none. */
static void broken(const struct rank *rank, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void broken(const struct rank *rank, const char *format, ...)
{
	va_list arguments;
	int used;

	if (verdict->text[0] || rank->dead)
		return;
	used = snprintf(verdict->text, sizeof(verdict->text), "rank %d, step %d (%s): ",
			number_of(rank), here()->step, plan_step_text(&plan.steps[here()->step]));
	va_start(arguments, format);
	vsnprintf(verdict->text + used, sizeof(verdict->text) - (size_t)used, format, arguments);
	va_end(arguments);
	trace(rank, "BROKEN: %s", verdict->text);
}

static bool plan_has(enum what first, enum what last)
{
	int i;

	for (i = 0; i < plan.event_count; i++)
		if (plan.events[i].what >= first && plan.events[i].what <= last)
			return true;
	return false;
}

static bool servers_fail(void)
{
	return plan_has(FAILURE, AWAY) || plan_has(LOSS, EMPTY);
}

static bool ranks_die(void)
{
	return plan_has(DEATH, DEATH);
}

/* --------------------------------------------------------------- faults of requests --- */

static const char *const server_names[PLAN_SERVERS] = { "a:1", "b:1", "c:1" };

static struct rank *rank_of(const struct beest_kv *kv)
{
	int i = 0;

	while (i < slots() && ranks[i].kv != kv)
		i++;
	return i < slots() ? &ranks[i] : NULL;
}

/* Finds an item that may be evicted.  Records that nobody stores again may not. */
struct eviction {
	int item, count;
	char key[BEEST_KEY_MAX + 1];
};

static void eviction_count(const char *key, const void *value, size_t size, void *data)
{
	struct eviction *eviction = data;

	(void)value;
	(void)size;
	if (strstr(key, "/msg/") || strstr(key, "/news"))
		return;
	if (eviction->count++ == eviction->item)
		snprintf(eviction->key, sizeof(eviction->key), "%s", key);
}

static void epoch_find(const char *key, const void *value, size_t size, void *data)
{
	struct eviction *eviction = data;

	(void)value;
	(void)size;
	if (strstr(key, "/epoch"))
		snprintf(eviction->key, sizeof(eviction->key), "%s", key);
}

static void epoch_evict(struct fake_kv_server *server)
{
	struct eviction eviction = { .key = "" };

	fake_kv_visit(server, epoch_find, &eviction);
	fake_kv_evict(server, eviction.key);
}

static bool epoch_is_missing(struct fake_kv_server *server)
{
	struct eviction eviction = { .key = "" };

	fake_kv_visit(server, epoch_find, &eviction);
	return server->items && !eviction.key[0];
}

/* Whoever adds the known epoch, as it found a record, hides a loss in between from the others. */
static bool epoch_is_due(int server)
{
	const struct thread *thread;
	int i;

	for (i = 0; i < slots(); i++)
		for (thread = ranks[i].threads; thread < ranks[i].threads + THREADS; thread++)
			if (thread->lacks_epoch[server] && !ranks[i].dead)
				return true;
	return epoch_is_missing(fake_kv_server(server_names[server]));
}

static void evict(struct fake_kv_server *server, int item)
{
	struct eviction eviction = { .item = -1 };
	int count;

	fake_kv_visit(server, eviction_count, &eviction);
	if (!eviction.count)
		return;
	count = eviction.count;
	eviction = (struct eviction){ .item = item % count };
	fake_kv_visit(server, eviction_count, &eviction);
	fake_kv_evict(server, eviction.key);
}

/* Changes a certain record, which must be there. */
static void spoil(struct rank *rank, struct fake_kv_server *server, const struct event *event)
{
	char key[BEEST_KEY_MAX + 1];
	uint8_t *bytes;
	const void *value;
	size_t size, i;

	snprintf(key, sizeof(key), "hb1/job/%s", event->key);
	value = fake_kv_get(server, key, &size);
	if (!value) {
		broken(rank, "there is no record '%s' to be changed", key);
		return;
	}
	bytes = malloc(size);
	memcpy(bytes, value, size);
	for (i = 20; i < size && event->what == FLIP; i += 40)
		bytes[i] ^= 0x10;
	if (event->what == CUT || event->what == EMPTY)
		size = event->what == CUT ? size / 3 : 0;
	if (event->what == LOSS)
		fake_kv_evict(server, key);
	else
		fake_kv_put(server, key, bytes, size, 600);
	free(bytes);
}

static void come_back(void *data)
{
	const struct event *event = data;

	crew_pass(event->span);
	fake_kv_server(server_names[event->server])->error = 0;
}

static void carry_out_late(void *data)
{
	const struct event *event = data;

	crew_pass(event->span);
	fake_kv_apply_late();
}

/* Less than @most, and the same in each trial. */
static int64_t noise_of(const struct rank *rank, int64_t most, int what)
{
	uint64_t place = (uint64_t)what * RANKS + (uint64_t)slot_of(rank);

	return most ? (int64_t)(mix(plan.seed ^ mix(place)) % (uint64_t)most) : 0;
}

/* A process is dead at once, and not when its threads look next, or have closed its context. */
static void rank_die(struct rank *rank)
{
	rank->dead = true;
	fake_process_kill(&rank->incarnation);
}

/* Kills all ranks, as a batch system does: only the run's records are left. */
static void run_end(const struct event *event)
{
	struct rank *rank;

	for (rank = ranks; rank < ranks + plan.size; rank++) {
		rank_die(rank);
		rank->begins_again = true;
		rank->follows = rank->there;
		rank->killed_life = rank->there ? rank->life_begin : -1;
		rank->there = rank->came = false;
		rank->run++;
		rank->replaced_after = noise_of(rank, event->span, -event->at);
		memset(rank->entered, 0, sizeof(rank->entered));
		memset(rank->through, 0, sizeof(rank->through));
	}
}

static void event_happen(struct rank *rank, struct event *event)
{
	struct fake_kv_server *server = fake_kv_server(server_names[event->server]);

	verdict->reached |= event->each;
	if ((event->what == RESTART || event->what == FLUSH) && epoch_is_due(event->server))
		return;
	trace(rank, "%s", plan_event_text(event->what));
	switch (event->what) {
	case FAILURE:
	case LATE:
		fake_kv_fail(event->command ? FAKE_KV_COMMAND : FAKE_KV_REQUEST,
			     event->command ? event->command : 1, event->error, event->manner);
		if (event->what == LATE)
			crew_start(carry_out_late, event);
		break;
	case RESTART:
		fake_kv_restart(server);
		break;
	case FLUSH:
		fake_kv_flush(server);
		break;
	case EVICTION:
		evict(server, event->item);
		break;
	case FORGETTING:
		epoch_evict(server);
		break;
	case AWAY:
		server->error = event->error ? event->error : EHOSTDOWN;
		crew_start(come_back, event);
		break;
	case DEATH:
		rank_die(rank);
		rank->replaced_after = event->span;
		break;
	case END:
		run_end(event);
		break;
	case LOSS:
	case FLIP:
	case CUT:
	case EMPTY:
		spoil(rank, server, event);
		break;
	case HOLD:
		break;
	}
}

static void event_wait(void *data)
{
	struct event *event = data;

	crew_pass(event->time);
	event_happen(&ranks[event->rank], event);
}

static bool somebody_has_closed(void)
{
	int i;

	for (i = 0; i < plan.size; i++)
		if (ranks[i].ended)
			return true;
	return false;
}

static bool is_due(const struct rank *rank, const struct event *event)
{
	int i;

	if (event->time || &ranks[event->rank] != rank ||
	    (event->what == END && (rank->run || somebody_has_closed())))
		return false;
	if (event->pushed)
		return rank->pushed_at >= 0 && event->at == rank->requests - rank->pushed_at;
	if (event->what != DEATH)
		return event->at == rank->requests;
	for (i = here()->step; i < plan.step_count; i++)
		if (ends_life(rank, i))
			return false;
	return !rank->died && event->at == rank->of_life;
}

static int64_t hold(const struct beest_kv *kv)
{
	struct rank *rank = rank_of(kv);
	int64_t span;
	int i;

	if (!rank || rank->dead || verdict->text[0])
		return 0;
	span = noise_of(rank, number_of(rank) == plan.slow ? SLOWNESS : plan.noise, rank->requests);
	for (i = 0; i < plan.event_count; i++)
		if (plan.events[i].what == HOLD && is_due(rank, &plan.events[i])) {
			span += plan.events[i].span;
			verdict->reached |= plan.events[i].each;
		}
	here()->held += span;
	return span;
}

/* A request that a rank repeats is printed once. */
static void trace_request(struct rank *rank, const struct beest_kv_request *request)
{
	struct beest_text text = BEEST_TEXT(1000);
	uint64_t hash;
	size_t i;

	if (!traces)
		return;
	for (i = 0; i < request->write_count; i++)
		beest_text_add(&text, " +%s", strchr(request->writes[i].key + 4, '/') + 1);
	for (i = 1; i < request->key_count; i++)
		beest_text_add(&text, " ?%s", strchr(request->keys[i] + 4, '/') + 1);
	hash = beest_hash_text(text.buffer);
	if (hash != rank->traced)
		trace(rank, "request %d:%s", rank->requests, text.buffer);
	rank->traced = hash;
}

/*
 * Does it ask who is there, or say which servers there are, and nothing else?  An author is asked
 * for after its record was read.
 */
static bool request_is_question(const struct beest_kv_request *request)
{
	size_t i = 1, k = 0;

	while (i < request->key_count && strstr(request->keys[i], "/rank/"))
		i++;
	while (k < request->write_count && strstr(request->writes[k].key, "/rank/servers"))
		k++;
	return k == request->write_count && i == request->key_count;
}

static void hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	struct rank *rank = rank_of(kv);
	int i;

	if (!rank)
		return;
	trace_request(rank, request);
	here()->lacks_epoch[request->server] =
		epoch_is_missing(fake_kv_server(server_names[request->server]));
	for (i = 0; i < plan.event_count && !rank->dead; i++)
		if (is_due(rank, &plan.events[i]))
			event_happen(rank, &plan.events[i]);
	rank->requests++;
	rank->of_life++;
	fake_places++;
	rank->begun = rank->begun ? rank->begun : fake_places;
	rank->latest = request_is_question(request) ? rank->latest : fake_places;
	rank->heard_at = crew_now();
	if (rank->dead)
		fake_kv_fail(FAKE_KV_REQUEST, 1, EHOSTDOWN, FAKE_KV_REFUSED);
}

static int (*look_interrupt)(void *);	/* the library's own, of a context */

/* Stops a dead rank, and all ranks once a promise is broken. */
static int interrupt(void *data)
{
	const struct rank *rank = ranks;

	while (party[slot_of(rank)].hb != data)
		rank++;
	if (rank->dead || verdict->text[0])
		return beest_fail(EINTR, "killed");

	return look_interrupt(data);
}

/* ------------------------------------------------------------------ what must be true --- */

static bool is_same(const struct beest_incarnation *a, const struct beest_incarnation *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static void all_have_entered(const struct rank *rank)
{
	int i;

	if (plan.twins)
		return;
	for (i = 0; i < plan.size; i++) {
		if (takes(&ranks[i], here()->step) && !ranks[i].entered[here()->step])
			broken(rank, "it passed before rank %d had come", i);
	}
}

/* -------------------------------------------------------------- two runs at once --- */

static const struct rank *twin_of(const struct rank *rank)
{
	return &ranks[(slot_of(rank) + plan.size) % (2 * plan.size)];
}

/* Pairs go on with a process that came when the one before it had left, whomever that one met. */
static bool has_followed(const struct rank *rank, const struct rank *former)
{
	return plan.steps[here()->step].op == PAIRS && former->ended &&
	       former->latest < rank->begun;
}

/*
 * Notes the process that a rank of the job was here, and compares that with what this process did:
 * if it has passed, too, it was with the same ones.
 */
static void twin_note(struct rank *rank, int number, const struct beest_incarnation *incarnation)
{
	const int step = here()->step;
	const struct rank *each, *other, **met = rank->met[step];
	int i;

	for (each = ranks; each < ranks + slots(); each++)
		if (is_same(&each->incarnation, incarnation))
			met[number] = each;
	if (!met[number] || !met[number]->through[step])
		return;
	for (i = 0; i < plan.size; i++) {
		other = met[number]->met[step][i];
		if (met[i] && other && met[i] != other && !has_followed(met[i], other) &&
		    !has_followed(other, met[i]))
			broken(rank, "it has met a rank %d that has met another rank %d", number,
			       i);
	}
}

static void twins_note(struct rank *rank, const struct beest_view *view,
		       const struct beest_incarnation *members)
{
	struct beest_fence_entry entry;
	int i;

	for (i = 0; i < plan.size; i++) {
		if (view)
			entry = beest_view_entry(view, (size_t)i);
		twin_note(rank, i, view ? &entry.incarnation : &members[i]);
	}
}

/* Another process of its rank had begun, and still made requests: it must have been told. */
static void twins_judge(struct rank *rank)
{
	const struct rank *twin = plan.twins ? twin_of(rank) : NULL;
	const enum op op = plan.steps[here()->step].op;
	bool is_call = op == MESH || op == GATHER || (op == BARRIER && !rank->has_met);

	if (twin && (is_call || !rank->has_met) && twin->kv && twin->begun &&
	    twin->begun < rank->latest && !twin->failed &&
	    crew_now() - twin->heard_at < SILENCE)
		broken(rank, "it has met others beside another process of its rank");
	rank->has_met = true;
}

/* Checks two ranks that are both through with the step. */
static void links_match(const struct rank *rank, int own, int other)
{
	const int step = here()->step;
	const struct card *mine = rank->cards[step], *theirs = ranks[other].cards[step];
	const struct link *one = &mine->links[other], *two = &theirs->links[own];

	if (mine->digest != theirs->digest)
		broken(rank, "it knows other ranks than rank %d does", other);
	if (mine->digest && ((one->known && !is_same(&one->incarnation, &theirs->own)) ||
			     (two->known && !is_same(&two->incarnation, &mine->own))))
		broken(rank, "rank %d is another life of it, or it of that", other);
	if (one->dest_qp_num != two->qp_num || one->rq_psn != two->psn ||
	    two->dest_qp_num != one->qp_num || two->rq_psn != one->psn)
		broken(rank, "its queue pair and that of rank %d are not connected", other);
	if ((one->known && (one->region.rkey != theirs->region.rkey ||
			    one->region.address != theirs->region.address)) ||
	    (two->known && two->region.rkey != mine->region.rkey))
		broken(rank, "its region, or that of rank %d, is another one", other);
}

static void link_read(struct link *link, struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ibv_query_qp(qp, &attr, 0, &init);
	link->qp_num = qp->qp_num;
	link->psn = attr.sq_psn;
	link->dest_qp_num = attr.dest_qp_num;
	link->rq_psn = attr.rq_psn;
}

/* The rank's card for its step, to be filled with what it has of others. */
static struct card *card_begin(struct rank *rank)
{
	struct card **card = &rank->cards[here()->step];
	const int own = slot_of(rank);
	struct ibv_mr *mr;

	free(*card);
	*card = calloc(1, sizeof(**card));
	(*card)->own = *beest_registry_incarnation(party[own].hb->registry);
	hartebeest_mr_get(party[own].hb, "mr0", &mr);
	(*card)->region.rkey = mr->rkey;
	(*card)->region.address = (uintptr_t)mr->addr;
	return *card;
}

static bool is_near(int one, int other, int reach)
{
	int apart = abs(one - other);

	return BEEST_MIN(apart, plan.size - apart) <= reach;
}

static bool is_peer(int one, int other)
{
	return !plan.reach || is_near(one, other, plan.reach);
}

/* UD: only the numbers tell who is connected. */
static void mesh_link_read(struct link *link, const struct hartebeest_mesh *mesh, int peer)
{
	struct hartebeest_ud_address address;

	if (plan.type != IBV_QPT_UD) {
		link_read(link, hartebeest_mesh_qp(mesh, peer, plan.per_peer - 1));
		return;
	}
	link->qp_num = hartebeest_mesh_qp(mesh, peer, 0)->qp_num;
	if (hartebeest_mesh_ud_address(mesh, peer, &address) == 0)
		link->dest_qp_num = address.qp_num;
}

/* Compares what the rank has of the step's mesh with the ranks that are through with the step. */
static void mesh_check(struct rank *rank, struct hartebeest_mesh *mesh)
{
	struct card *card = card_begin(rank);
	int i, own = number_of(rank);

	if (plan.twins) {
		twins_note(rank, mesh->view, NULL);
		return;
	}
	card->digest = mesh->fence->view->id;
	for (i = 0; i < plan.size; i++) {
		if (i == own)
			continue;
		if (is_peer(own, i))
			mesh_link_read(&card->links[i], mesh, i);
		card->links[i].known = beest_view_knows(mesh->view, (size_t)i);
		if (!card->links[i].known)
			continue;
		card->links[i].incarnation = beest_view_entry(mesh->view, (size_t)i).incarnation;
		hartebeest_mesh_region(mesh, i, 0, &card->links[i].region);
	}
	for (i = 0; i < plan.size; i++)
		if (i != own && ranks[i].cards[here()->step] && (ranks[i].through[here()->step] ||
		    ranks[i].cards[here()->step]->digest == card->digest))
			links_match(rank, own, i);
}

static bool has_just_come(struct rank *rank, int step)
{
	const struct thread *thread = thread_at(rank, step);

	return crew_now() - thread->began - thread->held < COMING;
}

/* True if the rank does not come to the step, or had no time to do so. */
static bool is_missing(struct rank *rank, int step)
{
	return rank->dead || rank->died || rank->failed || !rank->entered[step] ||
	       (thread_at(rank, step)->step == step && has_just_come(rank, step));
}

/* A rank that comes shortly before the limit of others leaves them no time to notice. */
static bool somebody_just_came(void)
{
	int i;

	for (i = 0; i < plan.size; i++)
		if (ranks[i].entered[here()->step] && has_just_come(&ranks[i], here()->step))
			return true;
	return false;
}

/* Whom a leader that no longer answers has missed may have come since. */
static bool is_history(const char *sentence, const char *at)
{
	static const char before[] = "since it missed ";
	const size_t length = sizeof(before) - 1;

	return at >= sentence + length && strncmp(at - length, before, length) == 0;
}

/*
 * A rank that is named must be missing.  A thread that waits for another thread's fence leaves
 * the naming to it.
 */
static void culprit_is_named(const struct rank *rank, const char *sentence)
{
	const enum op op = plan.steps[here()->step].op;
	const char *at = sentence;
	bool named = false;
	int number, last, fields;

	if (op == MESSAGE || op == READ || op == PAIRS || op == SERVE || somebody_just_came() ||
	    strstr(sentence, "another thread is still in this context's first barrier"))
		return;
	while (at && (at = strstr(at, "rank"))) {
		if (is_history(sentence, at)) {
			at = strchr(at, ')');
			continue;
		}
		at += strlen("rank");
		at += *at == 's';
		fields = sscanf(at, " %d-%d", &number, &last);
		if (fields < 1)
			continue;
		for (last = fields == 2 ? last : number; number <= last; number++) {
			if (number == number_of(rank))
				continue;
			if (is_missing(&ranks[number], here()->step))
				named = true;
			else
				broken(rank, "it names rank %d, which has come: %s", number,
				       sentence);
		}
	}
	if (!named)
		broken(rank, "it names nobody who is missing: %s", sentence);
}

static bool somebody_is_missing(const struct rank *rank)
{
	int i;

	for (i = 0; i < plan.size; i++)
		if (&ranks[i] != rank && is_missing(&ranks[i], here()->step))
			return true;
	return false;
}

static void failure_judge(struct rank *rank, int ret)
{
	char sentence[BEEST_ERROR_SIZE];

	snprintf(sentence, sizeof(sentence), "%s", hartebeest_error());
	trace(rank, "failed (%s): %s", strerror(-ret), sentence);
	rank->failed = true;
	rank->told |= ret == -EADDRINUSE;
	if (plan.twins)
		return;
	/* Nothing excuses it in a scene whose ranks all live, but for seeds as they were drawn. */
	if (plan.title && !ranks_die() && !strstr(plan.title, "seed "))
		broken(rank, "it failed (%s): %s", strerror(-ret), sentence);
	/* The lost records may be of ranks that are gone. */
	if (servers_fail() && ranks_die() && plan.steps[here()->step].op != TOGETHER)
		return;
	if ((!somebody_is_missing(rank) || plan.steps[here()->step].op == TOGETHER) &&
	    !rank->is_replacement)
		broken(rank, "it failed (%s): %s", strerror(-ret), sentence);
	else if (!rank->is_replacement)
		culprit_is_named(rank, sentence);
}

/* --------------------------------------------------------------------------- steps --- */

static int64_t deadline(void)
{
	return plan.usual ? 0 : crew_now() + plan.limit;
}

/* What a rank gives in a step of its run. */
static uint64_t value_of(const struct rank *rank, int number, int step)
{
	return mix((uint64_t)rank->run << 32 | (uint64_t)number << 16 | (uint64_t)step);
}

static int meet_until(struct rank *rank, const struct step *step, int64_t until)
{
	const char name[] = { (char)('a' + step->name), '\0' };
	struct hartebeest_context *hb = party[slot_of(rank)].hb;
	const size_t size = step->bytes ? (size_t)step->bytes : sizeof(uint64_t);
	uint64_t value = value_of(rank, number_of(rank), here()->step);
	uint8_t *own, *all;
	int i, ret;

	if (step->op == BARRIER)
		return hartebeest_barrier(hb, name, until);
	own = calloc(1, size);
	all = calloc(PLAN_PROCESSES, size);
	memcpy(own, &value, sizeof(value));
	ret = hartebeest_gather(hb, name, own, size, all, until);
	for (i = 0; i < plan.size && ret == 0 && !plan.twins && !ranks_die(); i++) {
		memcpy(&value, all + (size_t)i * size, sizeof(value));
		if (value != value_of(rank, i, here()->step))
			broken(rank, "it gathers a value of rank %d that is not of this step", i);
	}
	free(own);
	free(all);
	return ret;
}

/* For half of the limit it polls, or gives up and calls again; then it waits. */
static int run_barrier(struct rank *rank, const struct step *step)
{
	const int64_t half = crew_now() + plan.limit / 2, end = deadline();
	const bool patient = !plan.patience || !plan_ranks_have(&plan.pollers, number_of(rank));
	int ret = -EAGAIN;

	while (!patient && crew_now() < half && !rank->dead &&
	       (ret == -EAGAIN || ret == -ETIMEDOUT)) {
		ret = meet_until(rank, step, plan.patience == POLLS ? HARTEBEEST_ONCE :
				 crew_now() + 30 * BEEST_MS);
		if (ret == -EAGAIN || ret == -ETIMEDOUT)
			crew_pass(5 * BEEST_MS);
	}
	if (ret == -EAGAIN || ret == -ETIMEDOUT)
		ret = meet_until(rank, step, end);
	if (ret == 0)
		all_have_entered(rank);
	if (ret == 0 && plan.twins)
		twins_note(rank, NULL, party[slot_of(rank)].hb->membership.members);
	return ret;
}

static void mesh_close(struct rank *rank, int name)
{
	if (rank->mesh[name])
		hartebeest_mesh_close(rank->mesh[name]);
	rank->mesh[name] = NULL;
}

static int mesh_connect(struct rank *rank, int number)
{
	static const char *const region[] = { "mr0" };
	const char name[] = { (char)('m' + number), '\0' };
	int32_t peers[PLAN_PROCESSES], i;
	struct hartebeest_mesh_attr attr;

	hartebeest_mesh_attr_init(&attr);
	attr.pd = "pd";
	attr.regions = region;
	attr.region_count = 1;
	attr.type = plan.type;
	attr.qps_per_peer = (uint32_t)plan.per_peer;
	attr.peers = plan.reach ? peers : NULL;
	for (i = 0; plan.reach && i < plan.size; i++)
		if (i != number_of(rank) && is_peer(number_of(rank), i))
			peers[attr.peer_count++] = i;
	return hartebeest_mesh_connect(party[slot_of(rank)].hb, name, &attr, &rank->mesh[number],
				       deadline());
}

static int run_mesh(struct rank *rank, const struct step *step)
{
	int ret;

	mesh_close(rank, step->name);
	ret = mesh_connect(rank, step->name);
	if (ret < 0)
		return ret;
	all_have_entered(rank);
	mesh_check(rank, rank->mesh[step->name]);
	return 0;
}

static int run_meet(struct rank *rank, const struct step *step)
{
	int ret;

	if (!rank->mesh[step->name])
		return 0;
	ret = hartebeest_mesh_barrier(rank->mesh[step->name], deadline());
	if (ret == 0)
		all_have_entered(rank);
	return ret;
}

static int run_repair(struct rank *rank, const struct step *step)
{
	int ret;

	if (!rank->mesh[step->name])
		return 0;
	ret = hartebeest_mesh_repair(rank->mesh[step->name], deadline());
	if (ret < 0)
		return ret;
	all_have_entered(rank);
	mesh_check(rank, rank->mesh[step->name]);
	if (ret && !ranks_die())
		broken(rank, "%d ranks were replaced", ret);
	return 0;
}

/* A rank that has no mesh was started again: it takes part in the others' repair. */
static int run_restore(struct rank *rank, const struct step *step)
{
	struct hartebeest_mesh **mesh = &rank->mesh[step->name];
	int ret = *mesh ? hartebeest_mesh_repair(*mesh, deadline()) :
		  mesh_connect(rank, step->name);

	if (ret < 0)
		return ret;
	all_have_entered(rank);
	mesh_check(rank, *mesh);
	return ret;
}

static int run_close(struct rank *rank, const struct step *step)
{
	mesh_close(rank, step->name);
	return 0;
}

/* Asks the servers for nothing. */
static int run_work(struct rank *rank, const struct step *step)
{
	int64_t span = noise_of(rank, step->name ? WORK_MOST : BEEST_SECOND, -here()->step);

	crew_pass(span);
	here()->held += span;
	return 0;
}

static int run_await(struct rank *rank, const struct step *step)
{
	const char name[] = { (char)('a' + step->name), '\0' };

	return hartebeest_msg_wait(party[slot_of(rank)].hb, name, NULL, 0, NULL, deadline());
}

static int run_fail(struct rank *rank, const struct step *step)
{
	(void)step;
	return hartebeest_fail(party[slot_of(rank)].hb, "out of luck");
}

static int run_pause(struct rank *rank, const struct step *step)
{
	const int number = slot_of(rank);
	int64_t span = !step->apart ? step->span :
		       step->span < 0 ? (slots() - 1 - number) * -step->span : number * step->span;

	crew_pass(span);
	here()->held += span;
	return 0;
}

/* By the clock, so that all go on at the same instant; asks the servers for nothing. */
static int run_all(struct rank *rank, const struct step *step)
{
	const int own = here()->step;
	int i = 0;

	(void)step;
	while (i < slots() && !rank->dead && !verdict->text[0]) {
		const struct rank *other = &ranks[i];

		if (!takes(other, own) || other->entered[own] || other->ended || other->failed)
			i++;
		else
			crew_pass(10 * BEEST_MS - crew_now() % (10 * BEEST_MS));
	}
	crew_pass(10 * BEEST_MS - crew_now() % (10 * BEEST_MS));
	return 0;
}

/* One pass of a mesh, and the ranks of its view that have come. */
static struct passing {
	uint64_t digest, pass;
	bool came[PLAN_PROCESSES];
} passings[PASSINGS];

static struct passing *passing_of(const struct hartebeest_mesh *mesh)
{
	struct passing *passing = passings;

	while (passing->digest && (passing->digest != mesh->fence->view->id ||
				   passing->pass != mesh->passes))
		passing++;
	if (passing == passings + PASSINGS - 1)
		abort();
	passing->digest = mesh->fence->view->id;
	passing->pass = mesh->passes;
	return passing;
}

static int passing_hold(struct rank *rank, struct hartebeest_mesh *mesh)
{
	struct passing *passing = passing_of(mesh);
	int ret, i;

	passing->came[number_of(rank)] = true;
	ret = hartebeest_mesh_barrier(mesh, deadline());
	for (i = 0; i < plan.size && ret == 0; i++)
		if (!passing->came[i])
			broken(rank, "it passed before rank %d had come", i);
	return ret;
}

/*
 * Does what a program that survives deaths does: after a failure it repairs its mesh, and
 * begins again.
 */
static int run_together(struct rank *rank, const struct step *step)
{
	struct hartebeest_mesh **mesh = &rank->mesh[step->name];
	int ret, tries = 0, turn = 0, met = 0;
	bool repairs = false;

	while (met < MEETS) {
		turn++;
		crew_pass(noise_of(rank, turn % 4 ? 10 * BEEST_MS : BEEST_SECOND, -turn));
		if (*mesh && !repairs) {
			ret = passing_hold(rank, *mesh);
			met = ret < 0 ? 0 : met + 1;
		} else {
			if (rank->cards[here()->step])
				rank->cards[here()->step]->digest = 0;
			ret = *mesh ? hartebeest_mesh_repair(*mesh, deadline()) :
			      mesh_connect(rank, step->name);
			if (ret >= 0)
				mesh_check(rank, *mesh);
			repairs = false;
			met = 0;
		}
		trace(rank, "%d, %d: %s", ret, met, ret < 0 ? hartebeest_error() : "");
		if (ret < 0 && (rank->dead || ++tries == TRIES || verdict->text[0]))
			return ret;
		repairs |= ret < 0;
	}
	return 0;
}

/* True if the other rank has come to @step, so that what the two exchange must succeed. */
static bool may_rely_on(const struct rank *rank, int other, int step)
{
	return !rank->is_replacement && !is_missing(&ranks[other], step) &&
	       !(servers_fail() && ranks_die());
}

/* The message from one rank to another in a step of a run; returns its length. */
static size_t message_fill(int run, int step, int from, int to, char key[32],
			   char text[MESSAGE_MAX])
{
	uint64_t word = mix(plan.seed + (uint64_t)((step * RANKS + from) * RANKS + to) +
			    (uint64_t)run * UINT32_MAX);
	size_t length = word % MESSAGE_MAX, i;

	snprintf(key, 32, "s%d/f%d/t%d", step, from, to);
	for (i = 0; i < length; i++)
		text[i] = (char)(word = mix(word));
	return length;
}

/* The @i-th neighbour of a rank; negative: to the other side. */
static int neighbour(const struct rank *rank, int i)
{
	return ((number_of(rank) + i) % plan.size + plan.size) % plan.size;
}

/*
 * Messages that are deleted are for one reader, if no server loses them and no other run, nor
 * process that takes the place of their reader, asks for them.
 */
static bool is_once(int pushed)
{
	return plan.steps[pushed].name && plan.former == NOTHING && !plan.twins &&
	       !plan_has(RESTART, END);
}

static int message_push(const struct rank *rank, int to)
{
	char key[32], text[MESSAGE_MAX];
	size_t length = message_fill(rank->run, here()->step, number_of(rank), to, key, text);
	struct hartebeest_msg_attr attr;

	hartebeest_msg_attr_init(&attr);
	attr.flags = is_once(here()->step) ? HARTEBEEST_MSG_ONCE : 0;
	return hartebeest_msg_push_attr(party[slot_of(rank)].hb, key, text, length, &attr,
					deadline());
}

/* Which run of @from has sent the @size bytes that were got?  -1: none. */
static int message_run(const struct rank *rank, int from, int pushed, const char *got, size_t size)
{
	char key[32], text[MESSAGE_MAX];
	int run = rank->run;

	while (run >= 0 &&
	       (message_fill(run, pushed, from, number_of(rank), key, text) != size ||
		memcmp(got, text, size) != 0))
		run--;
	return run;
}

/* @came: the rank had come again before this one asked for its message. */
static void message_judge(const struct rank *rank, int from, int pushed, int run, bool came)
{
	const struct rank *other = &ranks[from];

	if (run < 0)
		broken(rank, "the message of rank %d is not what that sent", from);
	else if (run < rank->run && rank->follows && other->killed_life >= 0 &&
		 pushed >= other->killed_life && (came || !plan.hosts) && !servers_fail())
		broken(rank, "the message of rank %d is of a run that was killed", from);
}

/* Its only reader has taken it. */
static int message_return(const struct rank *rank, const char *key)
{
	char got[MESSAGE_MAX];

	if (hartebeest_msg_wait(party[slot_of(rank)].hb, key, got, sizeof(got), NULL,
				HARTEBEEST_ONCE) == 0)
		broken(rank, "the message %s for one reader comes twice", key);
	return 0;
}

/* @pushed: the step in which it was. */
static int message_wait(struct rank *rank, int from, int pushed, bool removes)
{
	struct hartebeest_context *hb = party[slot_of(rank)].hb;
	const bool came = ranks[from].came;
	char key[32], got[MESSAGE_MAX];
	size_t size = 0;
	int ret;

	message_fill(0, pushed, from, number_of(rank), key, got);
	ret = hartebeest_msg_wait(hb, key, got, sizeof(got), &size, deadline());
	if (ret < 0 && !plan.twins && may_rely_on(rank, from, pushed))
		broken(rank, "the message of rank %d did not come: %s", from, hartebeest_error());
	if (ret < 0)
		return ret;
	twins_judge(rank);
	if (!plan.twins)
		message_judge(rank, from, pushed, message_run(rank, from, pushed, got, size), came);
	if (removes && is_once(pushed))
		return message_return(rank, key);
	/* Dead ranks notice their death by this limit, and others wait for their replacements. */
	ret = removes ? hartebeest_msg_delete(hb, key, crew_now() + plan.limit / 4) : 0;
	/* The server may have lost it since it was read. */
	return ret == -ENOENT && servers_fail() ? 0 : ret;
}

/* One end of a pair. */
struct side {
	int peer;
	char qp[16], key[HARTEBEEST_SERVICE_KEY], peer_key[HARTEBEEST_SERVICE_KEY];
	struct hartebeest_remote_mr region;
};

static void side_name_qp(const struct rank *rank, struct side *side)
{
	snprintf(side->qp, sizeof(side->qp), "q%d-%d", here()->step - rank->life_begin, side->peer);
}

static void side_make(const struct rank *rank, struct side *side, struct hartebeest_pair *pair)
{
	static const char *const offer[] = { "mr0" };

	side_name_qp(rank, side);
	if (qp_make(party[slot_of(rank)].hb, side->qp, "pd", IBV_QPT_RC, "cq", "cq", NULL) < 0)
		abort();
	hartebeest_pair_init(pair);
	pair->qp = side->qp;
	pair->key = side->key;
	pair->peer_key = side->peer_key;
	pair->offer = offer;
	pair->offer_count = 1;
	pair->regions = &side->region;
	pair->region_room = 1;
}

/* Sets the keys of the connection to a neighbour. */
static void side_name(const struct rank *rank, struct side *side)
{
	const int own = number_of(rank), number = here()->step - rank->life_begin;

	snprintf(side->key, sizeof(side->key), "p%d/%d-%d", number, own, side->peer);
	snprintf(side->peer_key, sizeof(side->peer_key), "p%d/%d-%d", number, side->peer, own);
}

static void side_read(const struct rank *rank, const struct side *side)
{
	struct link *link = &rank->cards[here()->step]->links[side->peer];
	struct ibv_qp *qp;

	hartebeest_qp_get(party[slot_of(rank)].hb, side->qp, &qp);
	link_read(link, qp);
	link->known = true;
	link->region = side->region;
}

/* A pair meets one process, and says so by the echo: that one has met this one. */
static void side_note(struct rank *rank, const struct side *side)
{
	struct beest_qp *qp;

	if (beest_context_find_qp(party[slot_of(rank)].hb, side->qp, &qp) < 0)
		abort();
	rank->met[here()->step][number_of(rank)] = rank;
	twin_note(rank, side->peer, &qp->remote.incarnation);
}

static void pairs_judge(struct rank *rank, const struct side *sides, int count)
{
	int i;

	card_begin(rank);
	for (i = 0; i < count; i++)
		side_read(rank, &sides[i]);
	for (i = 0; i < count; i++) {
		if (plan.twins)
			side_note(rank, &sides[i]);
		else if (ranks[sides[i].peer].through[here()->step])
			links_match(rank, number_of(rank), sides[i].peer);
	}
}

/* With the ranks that are near: both neighbours, unless the plan has peers up to another reach. */
static int run_pairs(struct rank *rank, const struct step *step)
{
	struct side *sides = calloc((size_t)plan.size, sizeof(*sides));
	struct hartebeest_pair *pairs = calloc((size_t)plan.size, sizeof(*pairs));
	int i, count = 0, ret;

	(void)step;
	for (i = 1; i < plan.size; i++) {
		sides[count].peer = neighbour(rank, i);
		if (!is_near(number_of(rank), sides[count].peer, BEEST_MAX(plan.reach, 1)))
			continue;
		side_name(rank, &sides[count]);
		side_make(rank, &sides[count], &pairs[count]);
		count++;
	}
	ret = hartebeest_pairs_connect(party[slot_of(rank)].hb, pairs, (size_t)count, deadline());
	for (i = 0; i < count && ret < 0; i++)
		if (pairs[i].result < 0 && !plan.twins &&
		    may_rely_on(rank, sides[i].peer, here()->step))
			broken(rank, "the pair with rank %d: %s", sides[i].peer, pairs[i].reason);
	if (ret == 0)
		pairs_judge(rank, sides, count);
	free(sides);
	free(pairs);
	return ret;
}

/* Connects either end of a request for a service. */
static int service_connect(struct rank *rank, const struct hartebeest_client *request, int peer,
			   int64_t limit)
{
	struct side side = { .peer = peer };
	struct hartebeest_pair pair;
	int ret;

	memcpy(side.key, request->key, sizeof(side.key));
	memcpy(side.peer_key, request->peer_key, sizeof(side.peer_key));
	side_name_qp(rank, &side);
	hartebeest_qp_destroy(party[slot_of(rank)].hb, side.qp);	/* left by one that died */
	side_make(rank, &side, &pair);
	ret = hartebeest_pairs_connect(party[slot_of(rank)].hb, &pair, 1, limit);
	if (ret == 0)
		side_read(rank, &side);
	return ret;
}

/*
 * The data of a request: process and step of the client.  Others ask, too: ranks of a run that was
 * killed, and clients that were served and have not left.
 */
struct client {
	int number, step;
	struct beest_incarnation incarnation;
};

static bool client_lives(const struct client *client)
{
	const struct party_member *member = &party[client->number];

	return client->step == here()->step && !ranks[client->number].dead && member->hb &&
	       member->hb->registry &&
	       is_same(&client->incarnation, beest_registry_incarnation(member->hb->registry));
}

static int service_serve(struct rank *rank, const char *name, int64_t limit)
{
	struct hartebeest_context *hb = party[slot_of(rank)].hb;
	struct hartebeest_client request;
	struct client client;
	struct beest_incarnation served[PLAN_PROCESSES], nobody;
	int count = 1, ret = hartebeest_service_listen(hb, name, limit);

	memset(&nobody, 0, sizeof(nobody));
	memset(served, 0, sizeof(served));
	while (ret == 0 && count < plan.size) {
		ret = hartebeest_service_accept(hb, name, &request, limit);
		if (ret < 0)
			break;
		memcpy(&client, request.data, sizeof(client));
		if (!client_lives(&client))
			continue;
		if (is_same(&served[client.number], &client.incarnation))
			broken(rank, "it was given the request of rank %d twice", client.number);
		count += is_same(&served[client.number], &nobody);
		served[client.number] = client.incarnation;
		ret = service_connect(rank, &request, client.number, limit);
	}
	return ret;
}

static int service_ask(struct rank *rank, const char *name, int listener, int64_t limit)
{
	struct hartebeest_context *hb = party[slot_of(rank)].hb;
	struct client client = {
		.number = number_of(rank),
		.step = here()->step,
		.incarnation = *beest_registry_incarnation(hb->registry),
	};
	struct hartebeest_client request;
	int ret;

	ret = hartebeest_service_request(hb, name, &client, sizeof(client), &request, limit);
	if (ret == 0)
		ret = service_connect(rank, &request, listener, limit);
	/*
	 * A client that has left stores nothing again, but the listener may still need its
	 * records.
	 */
	if (ret == 0 && !servers_fail() && noise_of(rank, 2, -here()->step))
		hartebeest_service_leave(hb, name, &request);
	return ret;
}

static int run_serve(struct rank *rank, const struct step *step)
{
	const int own = number_of(rank), listener = step->name ? plan.size - 1 : 0;
	const int64_t limit = deadline();
	const char *name = step->name ? "last" : "first";
	int ret, i;

	card_begin(rank);
	if (own == listener)
		ret = service_serve(rank, name, limit);
	else
		ret = service_ask(rank, name, listener, limit);
	for (i = 0; i < plan.size && ret == 0; i++)
		if (i != own && (own == listener || i == listener) &&
		    ranks[i].through[here()->step])
			links_match(rank, own, i);
	return ret;
}

static int run_push(struct rank *rank, const struct step *step)
{
	int i, ret = 0;

	(void)step;
	for (i = 1; i <= BEEST_MIN(MESSAGES, plan.size - 1) && ret == 0; i++)
		ret = message_push(rank, neighbour(rank, i));
	rank->pushed_at = rank->requests;
	return ret;
}

static int messages_wait(struct rank *rank, int pushed, bool removes)
{
	int i, ret = 0;

	for (i = 1; i <= BEEST_MIN(MESSAGES, plan.size - 1) && ret == 0; i++)
		ret = message_wait(rank, neighbour(rank, -i), pushed, removes);
	return ret;
}

static int run_messages(struct rank *rank, const struct step *step)
{
	int ret = run_push(rank, step);

	return ret < 0 ? ret : messages_wait(rank, here()->step, step->name);
}

/* Reads what was pushed in the last such step, if it is of this life and was not read before. */
static int run_read(struct rank *rank, const struct step *step)
{
	int pushed = here()->step;

	do {
		if (pushed-- == rank->life_begin || plan.steps[pushed].op == READ)
			return 0;
	} while (plan.steps[pushed].op != PUSH);

	return messages_wait(rank, pushed, step->name);
}

static int (*const runs[OPS])(struct rank *rank, const struct step *step) = {
	[BARRIER] = run_barrier, [GATHER] = run_barrier, [MESH] = run_mesh,
	[MEET] = run_meet, [REPAIR] = run_repair,
	[CLOSE] = run_close, [MESSAGE] = run_messages, [PUSH] = run_push, [READ] = run_read,
	[WORK] = run_work,
	[PAIRS] = run_pairs, [SERVE] = run_serve, [TOGETHER] = run_together,
	[RESTORE] = run_restore, [AWAIT] = run_await, [FAIL] = run_fail, [PAUSE] = run_pause,
	[ALL] = run_all,
};

/* ------------------------------------------------------------------- lives of a rank --- */

static void rank_open(struct rank *rank)
{
	static const char *const lists[] = { "a:1", "a:1,b:1", "a:1,b:1,c:1" };
	const int slot = slot_of(rank);
	const int size = plan.odd_size && slot == plan.odd ? plan.odd_size : plan.size;
	char settings[200], ttl[40] = "";
	struct hartebeest_context *hb;

	if (plan.ttl)
		snprintf(ttl, sizeof(ttl), " exchange.ttl=%dms", (int)(plan.ttl / BEEST_MS));
	snprintf(settings, sizeof(settings), "exchange.servers=%s exchange.timeout=%dms%s",
		 lists[plan.servers - 1], (int)(plan.limit / BEEST_MS), ttl);
	hb = party_open(slot, number_of(rank), size, settings)->hb;
	if (beest_context_need_registry(hb, BEEST_KIND_ANY, NULL) < 0)
		abort();
	look_interrupt = hb->registry->interrupt;
	hb->registry->interrupt = interrupt;
	rank->kv = party_kv(&party[slot]);
	rank->incarnation = *beest_registry_incarnation(hb->registry);
	rank->of_life = 0;
	rank->pushed_at = -1;
	memset(rank->mesh, 0, sizeof(rank->mesh));
}

static void rank_end(struct rank *rank, bool closes)
{
	struct party_member *member = &party[slot_of(rank)];

	/* It counts as one that has left, even if it is killed before it has said so. */
	rank->there = false;
	if (closes) {		/* a server may carry out the requests of a killed process later */
		fake_kv_apply_late();
		party_close(member);
	} else {
		party_kill(member);
	}
	rank->kv = NULL;
}

static bool is_busy(const struct rank *rank, int begin, int end)
{
	int i = begin;

	while (i < end && (rank->through[i] || !takes(rank, i)))
		i++;
	return !rank->ended && !rank->failed && i < end;
}

/* Goes on calling the library, as a program would, until all others are done. */
static void rank_linger(struct rank *rank, int steps)
{
	struct hartebeest_context *hb = party[slot_of(rank)].hb;
	int64_t end = crew_now() + 3 * plan.limit;
	int i;

	for (i = 0; i < plan.size && crew_now() < end && !rank->dead && !verdict->text[0]; i++)
		while (is_busy(&ranks[i], rank->life_begin, steps) && crew_now() < end &&
		       !rank->dead && !verdict->text[0])
			hartebeest_msg_wait(hb, "never", NULL, 0, NULL, crew_now() + BEEST_SECOND);
}

static bool is_expected(const struct rank *rank, int step)
{
	int i;

	for (i = 0; i < plan.expected_count; i++)
		if (plan.expected[i].step == step &&
		    plan_ranks_have(&plan.expected[i].who, slot_of(rank)))
			return true;
	return false;
}

/* Both success and failure are expected of it, so that it ends with a failure. */
static bool may_succeed(const struct rank *rank, int step)
{
	const struct expectation *expected = plan.expected;

	for (; expected < plan.expected + plan.expected_count; expected++)
		if (expected->step == step && plan_ranks_have(&expected->who, slot_of(rank)) &&
		    expected->count > 1 && (!expected->results[0] || !expected->results[1]))
			return true;
	return false;
}

static void step_note(struct rank *rank, int ret)
{
	struct ending *end = &rank->ends[here()->step];

	trace(rank, "%d: %s", ret, ret < 0 ? hartebeest_error() : "");
	end->ended = true;
	end->ret = ret;
	end->at = crew_now();
	free(end->sentence);
	end->sentence = strdup(ret < 0 ? hartebeest_error() : "");
}

static void step_run(struct rank *rank)
{
	const struct step *step = &plan.steps[here()->step];
	const int before = rank->of_life;
	int ret;

	trace(rank, "begins step %d (%s)", here()->step, plan_step_text(step));
	here()->began = crew_now();
	here()->held = 0;
	rank->ends[here()->step].began = crew_now();
	rank->entered[here()->step] = true;
	ret = runs[step->op](rank, step);
	if (rank->dead || verdict->text[0])
		return;
	step_note(rank, ret);
	if (ret == 0)
		twins_judge(rank);
	rank->there |= ret >= 0 && rank->of_life > before;
	rank->came |= rank->there;
	if (ret >= 0)
		rank->through[here()->step] = true;
	else if (!is_expected(rank, here()->step))
		failure_judge(rank, ret);
	else
		rank->failed = may_succeed(rank, here()->step);
	if (step->op != MESSAGE && step->op != PUSH && step->op != READ && step->op != TOGETHER &&
	    step->op != ALL && crew_now() - here()->began - here()->held > plan.limit + LAST_LOOKS)
		broken(rank, "it took %d ms, of which it was held up for %d",
		       (int)((crew_now() - here()->began) / BEEST_MS),
		       (int)(here()->held / BEEST_MS));
	trace(rank, "ends it");
}

/* Takes the steps of a thread until the end of a life. */
static void thread_run(void *data)
{
	struct thread *self = data;
	struct rank *rank = self->rank;

	for (self->step = rank->life_begin; self->step < plan.step_count &&
	     !ends_life(rank, self->step) && !rank->failed && !rank->dead && !verdict->text[0];
	     self->step++)
		if (thread_at(rank, self->step) == self && takes(rank, self->step))
			step_run(rank);
	self->runs = false;
}

static bool has_steps(const struct thread *thread)
{
	int i;

	for (i = thread->rank->life_begin; i < plan.step_count; i++)
		if (thread_at(thread->rank, i) == thread && takes(thread->rank, i))
			return true;
	return false;
}

/* A process that does nothing does not begin. */
static bool life_is_empty(const struct rank *rank)
{
	int i;

	for (i = rank->life_begin; i < plan.step_count && !ends_life(rank, i); i++)
		if (takes(rank, i))
			return false;
	return true;
}

/* Where the life of a process that does not begin ends. */
static int life_skip(const struct rank *rank)
{
	int i = rank->life_begin;

	while (i < plan.step_count && !ends_life(rank, i))
		i++;
	return i;
}

static void threads_run(struct rank *rank)
{
	struct thread *second = &rank->threads[1];

	rank->threads[0].rank = second->rank = rank;
	second->runs = has_steps(second);
	if (second->runs)
		crew_start(thread_run, second);
	thread_run(rank->threads);
	while (second->runs)
		crew_pass(BEEST_MS);
}

/* True: another life follows. */
static bool life_run(struct rank *rank)
{
	bool last, killed;

	if (life_is_empty(rank)) {
		here()->step = life_skip(rank);
		return here()->step < plan.step_count;
	}
	rank_open(rank);
	threads_run(rank);
	last = here()->step == plan.step_count;
	if (rank->failed || (servers_fail() && here()->step > rank->life_begin))
		rank_linger(rank, here()->step);
	killed = rank->dead || (!last && plan.steps[here()->step].op == KILL);
	rank_end(rank, !killed && !verdict->text[0]);
	trace(rank, "%s", rank->dead ? "is dead" : "has closed");
	return !last && !rank->failed && !rank->dead && !verdict->text[0];
}

/* Another process takes the rank, and starts at the beginning of this life. */
static void replacement_begin(struct rank *rank)
{
	int i;

	crew_pass(rank->replaced_after);
	rank->dead = false;
	rank->failed = false;
	rank->is_replacement = true;
	for (i = rank->life_begin; i < plan.step_count; i++)
		rank->through[i] = false;
	life_run(rank);
}

static void rank_run(void *data)
{
	struct rank *rank = ((struct thread *)data)->rank;

	if (plan.twins)
		crew_pass(noise_of(rank, plan.behind, -1));
	do {
		if (rank->begins_again)
			crew_pass(rank->replaced_after);
		rank->begins_again = rank->dead = false;
		rank->life_begin = 0;
		while (life_run(rank))
			rank->life_begin = here()->step + 1;
	} while (rank->begins_again);
	if (rank->dead) {
		rank->died = true;
		if (rank->replaced_after)
			replacement_begin(rank);
	}
	rank->ended = true;
}

/* ------------------------------------------------------------------- what is left --- */

/* Whether records may be left when all have closed, and after another minute. */
static const struct left_row {
	const char *word;
	bool at_first, later;
} left_rows[] = {
	{ "/rank/servers", false, false }, { "/rank/", true, false }, { "/mr/", false, false },
	{ "/qp/", true, false }, { "/failed", false, false }, { "/fence/", true, true },
	{ "/msg/s", true, true }, { "/epoch", true, true }, { "/news", true, true },
	{ "/count", true, true }, { "/list", true, true }, { "/service/", true, false },
	{ "/starts/", true, false }, { "/", false, false },
};

static void left_judge(const char *key, const void *value, size_t size, void *later)
{
	const struct left_row *row = left_rows;
	int step = -1;
	const char *message = strstr(key, "/msg/s");

	(void)value;
	(void)size;
	while (!strstr(key, row->word))
		row++;
	if (later ? !row->later : !row->at_first)
		broken(&ranks[0], "%s is left", key);
	if (message && sscanf(message, "/msg/s%d", &step) == 1 && plan.steps[step].name &&
	    (later || !is_once(step)))
		broken(&ranks[0], "%s is left, though it was deleted", key);
}

static void once_judge(const char *key, const void *value, size_t size, void *data)
{
	const char *message = strstr(key, "/msg/s");
	int step;

	(void)value;
	(void)size;
	(void)data;
	if (message && sscanf(message, "/msg/s%d", &step) == 1 && is_once(step))
		broken(&ranks[0], "%s is there again, though its only reader has it", key);
}

/* No request that was repeated or carried out late has brought back a message for one reader. */
static void once_check(void)
{
	int i;

	ranks[0].threads[0].step = 0;
	fake_kv_apply_late();
	registry_stage.now += 61 * BEEST_SECOND;
	for (i = 0; i < plan.servers; i++)
		fake_kv_visit(fake_kv_server(server_names[i]), once_judge, NULL);
}

static void leftovers_check(void)
{
	int i;

	ranks[0].threads[0].step = 0;
	for (i = 0; i < plan.servers; i++)
		fake_kv_visit(fake_kv_server(server_names[i]), left_judge, NULL);
	registry_stage.now += 61 * BEEST_SECOND;
	for (i = 0; i < plan.servers; i++)
		fake_kv_visit(fake_kv_server(server_names[i]), left_judge, &ranks[0]);
}

/* Leaves gaps between the numbers, as if several processes made queue pairs. */
static void numbers_scatter(const char *function)
{
	static uint32_t turn;

	if (strcmp(function, "ibv_create_qp") == 0)
		fake_verbs.next_qp_num = 1000 + (++turn * 7919) % 100000;
}

static char secret_path[SCRATCH_SIZE];

/* Leaves the presences of a run that has ended, as its ranks have. */
static void former_run(void)
{
	struct party_member *member;
	int i;

	for (i = 0; i < plan.size && plan.former != NOTHING; i++) {
		member = party_open(i, i, plan.size, NULL);
		hartebeest_msg_push(member->hb, "former", "x", 1, 0);
		if (plan.former == LEFT)
			party_close(member);
		else
			party_kill(member);
	}
}

/* ------------------------------------------------------------- what a plan expects --- */

/* When a rank began the step, or, if it does not take that, the nearest one of its own. */
static int64_t begin_of(const struct rank *rank, int step)
{
	int i, nearest = -1;

	for (i = 0; i < plan.step_count; i++)
		if (rank->ends[i].began && plan.steps[i].op < PAUSE &&
		    (nearest < 0 || abs(i - step) < abs(nearest - step)))
			nearest = i;
	return nearest < 0 ? 0 : rank->ends[nearest].began;
}

static bool is_in_time(const struct rank *rank, const struct expectation *expected)
{
	int64_t begin = rank->ends[expected->step].began;
	int i;

	for (i = 0; i < slots(); i++)
		if (plan_ranks_have(&expected->after, i))
			begin = BEEST_MAX(begin, begin_of(&ranks[i], expected->step));
	return !expected->within || rank->ends[expected->step].at <= begin + expected->within;
}

static bool is_as_expected(const struct rank *rank, const struct expectation *expected)
{
	const struct ending *end = &rank->ends[expected->step];
	bool fits = false;
	int i;

	for (i = 0; i < expected->count; i++)
		fits |= end->ret == expected->results[i];
	if (!end->ended || !fits || !is_in_time(rank, expected))
		return false;
	if (end->ret >= 0)
		return true;
	for (i = 0; i < PLAN_TEXTS && expected->texts[i]; i++)
		if (!strstr(end->sentence, expected->texts[i]))
			return false;
	return !expected->absent || !strstr(end->sentence, expected->absent);
}

static void expectation_check(const struct expectation *expected)
{
	const struct rank *rank;
	const struct ending *end, *first = NULL;
	int met = 0;

	ranks[0].threads[0].step = expected->step;
	for (rank = ranks; rank < ranks + slots(); rank++) {
		end = &rank->ends[expected->step];
		if (!plan_ranks_have(&expected->who, slot_of(rank)) ||
		    !takes(rank, expected->step))
			continue;
		if (rank->failed && !end->began) {
			met++;
			continue;
		}
		first = first ? first : end;
		if (is_as_expected(rank, expected) && !(expected->alike && end->ret != first->ret))
			met++;
		else if (!expected->one)
			broken(&ranks[slot_of(rank)], "expectation %d is not met by process %d: "
			       "%s (%s) after %d ms: %s", (int)(expected - plan.expected) + 1,
			       slot_of(rank), end->ended ? "it ended" : "it has not ended",
			       strerror(end->ret < 0 ? -end->ret : 0),
			       (int)((end->at - end->began) / BEEST_MS),
			       end->ended ? end->sentence : "");
	}
	if (expected->one ? met != 1 : !met)
		broken(&ranks[0], "expectation %d is met by %d ranks",
		       (int)(expected - plan.expected) + 1, met);
}

static bool has_killed(void)
{
	const struct step *step = plan.steps;

	while (step < plan.steps + plan.step_count && step->op != KILL)
		step++;
	return step < plan.steps + plan.step_count;
}

/* Runs in a separate process. */
static void plan_try(void)
{
	int i;

	entropy = plan.seed;
	party_start();
	fake_process_hides_deaths = plan.hosts;
	if (plan.sealed)
		setenv("HARTEBEEST_SECRET_FILE", secret_path, 1);
	fake_kv.hold = hold;
	fake_kv.hook = hook;
	fake_kv.latency = plan.latency ? plan.latency : FAKE_KV_LATENCY;
	fake_kv_server(server_names[0])->item_max = (size_t)plan.item_max;
	fake_verbs.hook = plan.scattered ? numbers_scatter : NULL;
	former_run();
	for (i = 0; i < slots(); i++) {
		ranks[i].threads[0].rank = &ranks[i];
		crew_start(rank_run, ranks[i].threads);
	}
	for (i = 0; i < plan.event_count; i++)
		if (plan.events[i].time)
			crew_start(event_wait, &plan.events[i]);
	registry_run();
	fake_kv.hold = NULL;
	fake_kv.hook = NULL;
	for (i = 0; i < plan.expected_count; i++)
		expectation_check(&plan.expected[i]);
	if (!plan_has(FAILURE, EMPTY) && !plan.twins && !plan.expected_count && !has_killed() &&
	    !verdict->text[0])
		leftovers_check();
	else if (!verdict->text[0])
		once_check();
}

/* ---------------------------------------------------------------------- all trials --- */

static struct crowd crowd;
static struct verdict *verdicts;
static struct plan tried[CROWD_MAX];
static uint64_t failures;
static bool shrinking, failed;		/* the result of the last trial */

static void trial_start(const struct plan *wanted)
{
	const struct rlimit most = { SECONDS, SECONDS };
	int place = crowd_place(&crowd);
	pid_t pid;

	verdict = &verdicts[place];
	verdict->text[0] = '\0';
	verdict->reached = false;
	tried[place] = *wanted;
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		abort();
	if (pid == 0) {
		setrlimit(RLIMIT_CPU, &most);
		plan = *wanted;
		plan_try();
		_exit(0);
	}
	crowd.pid[place] = pid;
}

static bool fails(const struct plan *wanted)
{
	trial_start(wanted);
	crowd_reap(&crowd, 0);
	return failed;
}

/* Drops every event and step that is not needed for the failure, and as many ranks. */
static void plan_shrink(struct plan *least)
{
	static const int sizes[] = { 2, 3, 4, 16, 17, 20 };
	struct plan less;
	size_t k;
	int i;

	for (i = least->event_count - 1; i >= 0; i--) {
		less = *least;
		memmove(&less.events[i], &less.events[i + 1],
			(size_t)(--less.event_count - i) * sizeof(*less.events));
		*least = fails(&less) ? less : *least;
	}
	for (i = least->step_count - 1; i >= 0; i--) {
		less = *least;
		memmove(&less.steps[i], &less.steps[i + 1],
			(size_t)(--less.step_count - i) * sizeof(*less.steps));
		*least = less.step_count && fails(&less) ? less : *least;
	}
	for (k = 0; k < BEEST_COUNT(sizes) && sizes[k] < least->size; k++) {
		less = *least;
		less.size = sizes[k];
		for (i = 0; i < less.event_count; i++)
			less.events[i].rank %= less.size;
		*least = fails(&less) ? less : *least;
	}
	less = *least, less.noise = 0;
	*least = fails(&less) ? less : *least;
	less = *least, less.slow = -1;
	*least = fails(&less) ? less : *least;
	less = *least, less.servers = 1;
	*least = fails(&less) ? less : *least;
	less = *least, less.scattered = false;
	*least = fails(&less) ? less : *least;
	less = *least, less.type = IBV_QPT_RC;
	*least = fails(&less) ? less : *least;
	less = *least, less.per_peer = 1;
	*least = fails(&less) ? less : *least;
	less = *least, less.reach = 0;
	*least = fails(&less) ? less : *least;
	less = *least, less.sealed = false;
	*least = fails(&less) ? less : *least;
	less = *least, less.former = NOTHING;
	*least = fails(&less) ? less : *least;
}

static bool has_each(const struct plan *wanted)
{
	int i;

	for (i = 0; i < wanted->event_count; i++)
		if (wanted->events[i].each)
			return true;
	return false;
}

static bool sweep_ended;		/* a trial's request was beyond the last one */

static void trial_ended(int place, int status)
{
	failed = status || verdicts[place].text[0];
	sweep_ended |= has_each(&tried[place]) && !verdicts[place].reached;
	if (!failed || shrinking)
		return;
	failures++;
	fprintf(stderr, "%s (seed %llu): %s\n", tried[place].title ? tried[place].title : "drawn",
		(unsigned long long)tried[place].seed, verdicts[place].text[0] ?
		verdicts[place].text : "its process ended too early");
	plan_print(stderr, &tried[place]);
}

/* Reduces one seed's plan, and prints each request of the rest. */
static int explain(uint64_t seed)
{
	struct plan least;

	draw_plan(&least, seed);
	plan_print(stderr, &least);
	shrinking = true;
	if (fails(&least)) {
		plan_shrink(&least);
		fprintf(stderr, "and with as little as possible: ");
		plan_print(stderr, &least);
	}
	traces = true;
	shrinking = false;
	fails(&least);
	return failed;
}

static struct kept {
	struct plan *plans;
	size_t count;
	const char *part;		/* of the titles; NULL: of all */
} kept;

static void kept_add(struct plan *wanted)
{
	if (kept.part && !strstr(wanted->title, kept.part))
		return;
	kept.plans = realloc(kept.plans, (kept.count + 1) * sizeof(*wanted));
	kept.plans[kept.count++] = *wanted;
}

static void kept_read(const char *part)
{
	glob_t files;
	size_t i;

	kept.part = part;
	if (glob(PLANS "/*.plan", 0, NULL, &files) != 0)
		abort();
	for (i = 0; i < files.gl_pathc; i++)
		plans_read(files.gl_pathv[i], kept_add);
	globfree(&files);
}

/* The plan of a seed that has failed can be kept as it is printed. */
static void print_check(const struct plan *wanted)
{
	struct plan again;
	char *texts[2];
	size_t size;
	FILE *file;
	int i;

	for (i = 0; i < 2; i++) {
		file = open_memstream(&texts[i], &size);
		plan_print(file, i ? &again : wanted);
		fclose(file);
		if (i == 0)
			plan_parse(texts[0], &again);
	}
	if (strcmp(texts[0], texts[1]) != 0) {
		fprintf(stderr, "printed:\n%sread:\n%s", texts[0], texts[1]);
		abort();
	}
	free(texts[0]);
	free(texts[1]);
}

/* One trial for each request of a rank; of many ranks, for some. */
static void sweep(const struct plan *wanted, int usual)
{
	struct plan one = *wanted;
	const int stride = usual * (1 + one.size / 16);
	int at, i;

	crowd_reap(&crowd, 0);
	sweep_ended = false;
	for (at = 0; !sweep_ended; at += stride) {
		for (i = 0; i < one.event_count; i++)
			if (one.events[i].each)
				one.events[i].at = at;
		trial_start(&one);
	}
	crowd_reap(&crowd, 0);
	if (at <= stride) {
		failures++;
		fprintf(stderr, "%s: its rank makes no request\n", wanted->title);
	}
}

/* Of the requests of a sweep, some do but for scripts/check --all. */
static void try_kept(void)
{
	const int stride = unit_whole() ? 6 : 4 * unit_stride(6);
	const struct plan *wanted;

	for (wanted = kept.plans; wanted < kept.plans + kept.count; wanted++) {
		if (has_each(wanted))
			sweep(wanted, stride);
		else
			trial_start(wanted);
	}
}

static int try_all(uint64_t first, uint64_t count, int stride)
{
	struct plan drawn;
	uint64_t seed;

	kept_read(NULL);
	try_kept();
	for (seed = first; seed < first + count && failures < 10; seed += (uint64_t)stride) {
		draw_plan(&drawn, seed);
		print_check(&drawn);
		trial_start(&drawn);
	}
	crowd_reap(&crowd, 0);
	fprintf(stderr, "%llu seeds failed of those from %llu to %llu\n",
		(unsigned long long)failures, (unsigned long long)first,
		(unsigned long long)(seed - 1));
	return failures > 0;
}

/* Tries the plans whose titles have @part, with each request on stderr if it is one. */
static int try_some(const char *part)
{
	kept_read(part);
	traces = kept.count == 1;
	try_kept();
	crowd_reap(&crowd, 0);
	fprintf(stderr, "%d trials failed, of %d plans\n", (int)failures, (int)kept.count);
	return failures > 0 || !kept.count;
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 0) : SEEDS;
	int ret;

	crew_need();
	crowd.size = argc == 2 && first ? 1 : 4;
	crowd.ended = trial_ended;
	verdicts = crowd_share(&crowd, sizeof(*verdicts));
	if (!verdicts)
		abort();
	scratch_text(secret_path, "hartebeest-schedules", "0123456789abcdef0123456789abcdef");
	if (argc == 2 && !first)
		ret = try_some(argv[1]);
	else if (argc == 2)
		ret = explain(first);
	else
		ret = try_all(first, count, argc > 1 ? 1 : unit_stride(6));
	unlink(secret_path);
	return ret;
}
