/* SPDX-License-Identifier: MIT */
/* counter.c - prints the frequency of this host's time stamp counter, in kHz (x86) */
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

#define BILLION 1000000000LL
#define TRIES 1000

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * BILLION + time.tv_nsec;
}

/* Of many tries the shortest, which no pause of the host has blurred. */
static void read_both(long long *clock, unsigned long long *counter)
{
	long long before, span, least = BILLION;
	unsigned long long count;
	int i;

	for (i = 0; i < TRIES; i++) {
		before = now();
		count = __rdtsc();
		span = now() - before;
		if (span < least) {
			least = span;
			*clock = before + span / 2;
			*counter = count;
		}
	}
}

int main(void)
{
	const struct timespec pause = { 0, 100000000 };
	unsigned long long first = 0, last = 0;
	long long begun = 0, ended = 1;

	read_both(&begun, &first);
	nanosleep(&pause, NULL);
	read_both(&ended, &last);
	printf("%.0f\n", (double)(last - first) * 1e6 / (double)(ended - begun));
	return 0;
}
