/* SPDX-License-Identifier: MIT */
/*
 * stack.h - how much stack a call needs
 *
 * Runs it in a thread whose stack was painted, and looks how far the paint is gone.  Knows nothing
 * of the call.
 */
#ifndef TESTS_STACK_H
#define TESTS_STACK_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

#define STACK_SIZE (1024 * 1024)
#define STACK_PAINT 0xa5

#ifdef __has_feature
#define STACK_HAS(x) __has_feature(x)
#else
#define STACK_HAS(x) 0
#endif

/*
 * Sanitizers, and compilers that do not optimize, use more stack than users' builds do; valgrind
 * has its own opinion about a painted one.
 */
static inline bool stack_counts(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__) || \
	STACK_HAS(address_sanitizer) || STACK_HAS(thread_sanitizer)
	return false;
#else
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[1024];
	bool counts = true;

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "/vgpreload"))
			counts = false;
	if (maps)
		fclose(maps);
	return counts;
#endif
}

/*
 * The bytes of stack that @call needs, those of its thread included.  Blocks signals there: a
 * handler of tests/support/timer.c needs several KiB of the stack that it interrupts.
 */
static inline size_t stack_of(void *(*call)(void *data), void *data)
{
	unsigned char *stack = NULL;
	pthread_attr_t attributes;
	pthread_t thread;
	size_t free_bytes = 0;
	sigset_t all, before;

	assert_int_equal(posix_memalign((void **)&stack, 4096, STACK_SIZE), 0);
	memset(stack, STACK_PAINT, STACK_SIZE);
	pthread_attr_init(&attributes);
	assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK_SIZE), 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	assert_int_equal(pthread_create(&thread, &attributes, call, data), 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_attr_destroy(&attributes);
	while (free_bytes < STACK_SIZE && stack[free_bytes] == STACK_PAINT)
		free_bytes++;
	free(stack);
	return STACK_SIZE - free_bytes;
}

#endif
