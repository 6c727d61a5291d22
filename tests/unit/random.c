/* SPDX-License-Identifier: MIT */
/* random.c - where random bytes come from, and what happens without a source */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "tests/support/unit.h"

/* --------------------------------------------- replaces libc's syscall(2) --- */

static int asked, refusal;
static uint32_t drawn;
static size_t most;			/* bytes in one answer */

/* Returns bytes that never repeat within one process. */
long syscall(long number, ...)
{
	unsigned char *buffer;
	va_list arguments;
	size_t i, size;

	(void)number;
	va_start(arguments, number);
	buffer = va_arg(arguments, unsigned char *);
	size = va_arg(arguments, size_t);
	va_end(arguments);
	__atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED);
	if (refusal) {
		errno = refusal;
		return -1;
	}

	size = size < most ? size : most;
	for (i = 0; i + 4 <= size; i += 4)
		*(uint32_t *)(void *)(buffer + i) = __atomic_add_fetch(&drawn, 1, __ATOMIC_RELAXED);
	return (long)size;
}

static int setup(void **state)
{
	(void)state;
	refusal = 0;
	most = SIZE_MAX;
	asked = 0;
	return 0;
}

/* --------------------------------------------------------------- tests --- */

#ifdef SYS_getrandom
static void numbers_differ(void **state)
{
	uint32_t numbers[128];
	size_t i, j;

	(void)state;
	for (i = 0; i < BEEST_COUNT(numbers); i++) {
		assert_int_equal(beest_random(&numbers[i], sizeof(numbers[i])), 0);
		for (j = 0; j < i; j++)
			assert_int_not_equal(numbers[i], numbers[j]);
	}
	assert_int_equal(asked, BEEST_COUNT(numbers));
}

/* On an old kernel, at early boot, or after a short answer, /dev/urandom is read. */
static void the_file_is_enough(void **state)
{
	unsigned char one[32] = { 0 }, other[32] = { 0 };

	(void)state;
	refusal = ENOSYS;
	assert_int_equal(beest_random(one, sizeof(one)), 0);
	setup(NULL);
	refusal = EAGAIN;
	assert_int_equal(beest_random(other, sizeof(other)), 0);
	assert_memory_not_equal(one, other, sizeof(one));
	setup(NULL);
	most = 8;
	memset(one, 0, sizeof(one));
	memset(other, 0, sizeof(other));
	assert_int_equal(beest_random(one, sizeof(one)), 0);
	assert_memory_not_equal(one + 8, other + 8, 24);	/* the rest is not zero */
}
#endif

static void it_stays_in_its_buffer(void **state)
{
	unsigned char bytes[9] = { 0 };

	(void)state;
	assert_int_equal(beest_random(bytes, 8), 0);
	assert_int_equal(bytes[8], 0);
	assert_int_equal(beest_random(bytes + 8, 0), 0);
	assert_int_equal(bytes[8], 0);
}

/* The descriptor that the next open(2) would return. */
static int next_descriptor(void)
{
	int fd = open("/dev/null", O_RDONLY);

	close(fd);
	return fd;
}

static void nothing_stays_open(void **state)
{
	int before = next_descriptor();
	char byte;

	(void)state;
	refusal = ENOSYS;
	assert_int_equal(beest_random(&byte, 1), 0);
	assert_int_equal(next_descriptor(), before);
}

/* With neither the system call nor a file, a sequence number fails, but a back-off does not. */
static void without_descriptors(void **state)
{
	struct beest_backoff backoff;
	struct rlimit limit, none;
	int ret;
	char byte;

	(void)state;
	refusal = ENOSYS;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	ret = beest_random(&byte, 1);
	beest_clock_backoff_start(&backoff, 2);
	setrlimit(RLIMIT_NOFILE, &limit);

	assert_int_equal(ret, -EMFILE);
	assert_error_is("cannot read /dev/urandom: Too many open files");
	assert_int_not_equal(backoff.seed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef SYS_getrandom
		cmocka_unit_test_setup(numbers_differ, setup),
		cmocka_unit_test_setup(the_file_is_enough, setup),
#endif
		cmocka_unit_test_setup(it_stays_in_its_buffer, setup),
		cmocka_unit_test_setup(nothing_stays_open, setup),
		cmocka_unit_test_setup(without_descriptors, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
