/* SPDX-License-Identifier: MIT */
/*
 * crew.c - see crew.h
 *
 * Sleeping members are kept in a heap, ordered by instant and then by when they went to sleep.
 */
#undef _FORTIFY_SOURCE			/* its longjmp(3) refuses to change stacks */
#include "config.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "lib/base/clock.h"
#include "tests/support/crew.h"

#define STACK_SIZE (128 * 1024)
/*
 * At least a page, however large pages are.  Valgrind takes a jump of the stack pointer for a
 * switch of stacks if it is longer than 2 MB: only addresses are spent, where there are enough.
 */
#define GUARD_SIZE (UINTPTR_MAX > UINT32_MAX ? 4 * 1024 * 1024 : 64 * 1024)
#define MEMORY_SIZE (GUARD_SIZE + STACK_SIZE)

/*
 * The start of the virtual clock: later than the uptime of any machine, so that nothing
 * expires when the real clock is used again after a run.
 */
#define BEGINNING (INT64_C(100) * 365 * 86400 * BEEST_SECOND)

/*
 * Where stacks are placed, if the kernel agrees.  The library mixes addresses of its variables
 * into the jitter, so they must be the same in every run.
 */
#define STACKS_AT ((uintptr_t)UINT64_C(0x200000000000))

#ifdef __has_feature
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#define ASAN 1
void __sanitizer_start_switch_fiber(void **save, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *save, const void **bottom, size_t *size);
void __asan_unpoison_memory_region(void const volatile *at, size_t size);
#else
#define ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
#define TSAN 1
#else
#define TSAN 0
#endif

/* Where to continue: in a member, or in the test that called crew_run(). */
struct place {
	ucontext_t context;
	jmp_buf jump;
	bool begun;			/* continues at jump, not at context */
	void *fake_stack;		/* AddressSanitizer's */
	const void *bottom;
	size_t size;
};

struct member {
	struct place place;
	void (*function)(void *data);
	void *data;
	char *stack;
	int64_t due;
	uint64_t order;
};

static struct crew {
	struct place test, *left;	/* left: by the last switch */
	struct member **heap;		/* members that sleep or have not begun */
	size_t count, space;
	struct member *current;		/* NULL: the test runs */
	int64_t now;
	uint64_t order;
	size_t started;			/* since there was no member */
	char **stacks;			/* by the number of members started before */
	size_t stack_count;
} crew = { .test = { .begun = true }, .now = BEGINNING };

void crew_need(void)
{
	if (!TSAN)
		return;
	fprintf(stderr, "ThreadSanitizer follows no coroutines\n");
	exit(77);
}

/* -------------------------------------------------------------------- heap --- */

static bool is_before(const struct member *a, const struct member *b)
{
	return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void heap_swap(size_t a, size_t b)
{
	struct member *member = crew.heap[a];

	crew.heap[a] = crew.heap[b];
	crew.heap[b] = member;
}

static void heap_add(struct member *member)
{
	size_t at = crew.count++;

	if (crew.count > crew.space) {
		crew.space = crew.space ? crew.space * 2 : 64;
		crew.heap = realloc(crew.heap, crew.space * sizeof(*crew.heap));
		if (!crew.heap)
			abort();
	}
	member->order = crew.order++;
	crew.heap[at] = member;
	for (; at && is_before(crew.heap[at], crew.heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap_swap(at, (at - 1) / 2);
}

static struct member *heap_take(void)
{
	struct member *first = crew.heap[0];
	size_t at = 0, child;

	crew.heap[0] = crew.heap[--crew.count];
	while ((child = at * 2 + 1) < crew.count) {
		if (child + 1 < crew.count && is_before(crew.heap[child + 1], crew.heap[child]))
			child++;
		if (!is_before(crew.heap[child], crew.heap[at]))
			break;
		heap_swap(at, child);
		at = child;
	}
	return first;
}

/* --------------------------------------------------------------- switching --- */

static void place_arrive(struct place *self)
{
#if ASAN
	__sanitizer_finish_switch_fiber(self->fake_stack, &crew.left->bottom, &crew.left->size);
#else
	(void)self;
#endif
}

/*
 * Functions of ucontext.h make a system call for the signal mask, so longjmp(3) makes all switches
 * but the first.  AddressSanitizer follows only swapcontext(3), and must learn of both stacks
 * before and after each switch.
 */
static void place_switch(struct place *from, struct place *to, bool for_good)
{
	crew.left = from;
#if ASAN
	__sanitizer_start_switch_fiber(for_good ? NULL : &from->fake_stack, to->bottom, to->size);
	swapcontext(&from->context, &to->context);
#else
	(void)for_good;
	if (_setjmp(from->jump) == 0) {
		if (to->begun)
			_longjmp(to->jump, 1);
		to->begun = true;
		setcontext(&to->context);
	}
#endif
	place_arrive(from);
}

static void member_begin(void)
{
	struct member *self = crew.current;

	place_arrive(&self->place);
	self->function(self->data);
	place_switch(&self->place, &crew.test, true);
}

/* The member that is due first; its instant comes. */
static struct member *member_next(void)
{
	crew.current = heap_take();
	crew.now = crew.current->due > crew.now ? crew.current->due : crew.now;
	return crew.current;
}

static void member_free(struct member *member)
{
#if ASAN
	__asan_unpoison_memory_region(member->stack + GUARD_SIZE, STACK_SIZE);
#endif
	free(member);
}

/* ------------------------------------------------------------------- clock --- */

static int64_t source_now(void)
{
	return crew.now;
}

/* Outside of members, for example in a test's preparation, time just passes. */
static void source_sleep_until(int64_t instant)
{
	struct member *self = crew.current, *next;

	if (!self) {
		crew.now = instant > crew.now ? instant : crew.now;
		return;
	}
	self->due = instant > crew.now ? instant : crew.now;
	heap_add(self);
	next = member_next();
	if (next != self)
		place_switch(&self->place, &next->place, false);
}

static const struct beest_clock_source source = { source_now, source_sleep_until };

void *crew_data(void)
{
	return crew.current ? crew.current->data : NULL;
}

int64_t crew_now(void)
{
	return crew.now;
}

void crew_pass(int64_t duration)
{
	source_sleep_until(crew.now + duration);
}

/* -------------------------------------------------------------------- crew --- */

void crew_clear(void)
{
	while (crew.count)
		member_free(heap_take());
	if (crew.current)
		member_free(crew.current);
	crew.current = NULL;
	free(crew.heap);
	crew.heap = NULL;
	crew.space = 0;
	beest_clock_source = NULL;
}

/* Stacks are kept for later members, which spares the kernel mapping and clearing them. */
static char *stack_get(void)
{
	char *wanted = (char *)(STACKS_AT + crew.started * MEMORY_SIZE), *stack;

	if (crew.started < crew.stack_count)
		return crew.stacks[crew.started++];
	stack = mmap(wanted, MEMORY_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stack == MAP_FAILED || mprotect(stack, GUARD_SIZE, PROT_NONE) < 0)
		abort();
	crew.stacks = realloc(crew.stacks, ++crew.stack_count * sizeof(*crew.stacks));
	if (!crew.stacks)
		abort();
	return crew.stacks[crew.started++] = stack;
}

void crew_start(void (*function)(void *data), void *data)
{
	struct member *member = calloc(1, sizeof(*member));
	struct place *place = &member->place;

	if (!member || getcontext(&place->context) < 0)
		abort();
	if (!crew.count && !crew.current)
		crew.started = 0;
	member->stack = stack_get();
	member->function = function;
	member->data = data;
	member->due = crew.now;
	place->bottom = member->stack + GUARD_SIZE;
	place->size = STACK_SIZE;
	place->context.uc_stack.ss_sp = member->stack + GUARD_SIZE;
	place->context.uc_stack.ss_size = STACK_SIZE;
	makecontext(&place->context, member_begin, 0);
	heap_add(member);
}

void crew_run(void)
{
	beest_clock_source = &source;
	while (crew.count) {
		place_switch(&crew.test, &member_next()->place, false);
		member_free(crew.current);	/* it has ended */
		crew.current = NULL;
	}
	crew_clear();
}
