/* SPDX-License-Identifier: MIT */
/* slow.c - see slow.h */
#include "config.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "tests/support/pause.h"
#include "tests/support/silence.h"
#include "tests/support/slow.h"

#define PIECE 4096
#define WATCH (50 * BEEST_MS)

struct passage {
	struct slow *slow;
	int client, server;
	int64_t asked_at;		/* a request came, and no answer since; 0: none */
};

/* All answers share one way, as on a link. */
static pthread_mutex_t way = PTHREAD_MUTEX_INITIALIZER;

static bool bytes_send(int fd, const char *bytes, size_t size)
{
	return send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static bool answer_send(const struct passage *passage, const char *bytes, size_t size)
{
	struct slow *slow = passage->slow;
	size_t piece;

	for (; size; bytes += piece, size -= piece) {
		piece = BEEST_MIN(size, PIECE);
		if (slow->rate) {
			pthread_mutex_lock(&way);
			pause_us((long)((int64_t)piece * 1000000 / slow->rate));
			pthread_mutex_unlock(&way);
		}
		if (!bytes_send(passage->client, bytes, piece))
			return false;
		__atomic_add_fetch(&slow->bytes, (int64_t)piece, __ATOMIC_RELAXED);
	}
	return true;
}

static void longest_note(struct passage *passage)
{
	const int64_t took = passage->asked_at ? beest_clock_now() - passage->asked_at : 0;

	passage->asked_at = 0;
	pthread_mutex_lock(&way);
	passage->slow->longest = BEEST_MAX(passage->slow->longest, took);
	pthread_mutex_unlock(&way);
}

/* Passes on what has come from one side.  False: the connection ends. */
static bool side_pass(struct passage *passage, bool asks, char *bytes, size_t room)
{
	const struct slow *slow = passage->slow;
	ssize_t size = read(asks ? passage->client : passage->server, bytes, room);

	if (size <= 0)
		return false;
	if (slow->largest && (size_t)size > slow->largest)
		return true;
	if (!asks) {
		longest_note(passage);
		return answer_send(passage, bytes, (size_t)size);
	}
	if (!passage->asked_at) {
		passage->asked_at = beest_clock_now();
		pause_us((long)(slow->delay / BEEST_US));
	}
	return bytes_send(passage->server, bytes, (size_t)size);
}

static void *passage_run(void *data)
{
	struct passage *passage = data;
	struct pollfd ends[] = {
		{ .fd = passage->client, .events = POLLIN },
		{ .fd = passage->server, .events = POLLIN },
	};
	const size_t room = 65536;
	char *bytes = malloc(room);
	bool open = bytes != NULL;
	size_t i;

	while (open && poll(ends, BEEST_COUNT(ends), -1) > 0)
		for (i = 0; i < BEEST_COUNT(ends) && open; i++)
			if (ends[i].revents)
				open = side_pass(passage, i == 0, bytes, room);
	close(passage->client);
	close(passage->server);
	__atomic_sub_fetch(&passage->slow->passages, 1, __ATOMIC_RELEASE);
	free(bytes);
	free(passage);
	return NULL;
}

static void *listener_run(void *data)
{
	struct slow *slow = data;
	struct passage *passage;
	pthread_t thread;
	int fd;

	while ((fd = accept(slow->listener, NULL, NULL)) >= 0) {
		__atomic_add_fetch(&slow->accepted, 1, __ATOMIC_RELAXED);
		passage = malloc(sizeof(*passage));
		*passage = (struct passage){
			.slow = slow, .client = fd, .server = cache_connect(slow->cache),
		};
		__atomic_add_fetch(&slow->passages, 1, __ATOMIC_RELAXED);
		pthread_create(&thread, NULL, passage_run, passage);
		pthread_detach(thread);
	}
	return NULL;
}

/* How late does a thread of this process go on?  Ranks that wait for answers do, too. */
static void *watch_run(void *data)
{
	struct slow *slow = data;
	int64_t began;

	while (!__atomic_load_n(&slow->over, __ATOMIC_ACQUIRE)) {
		began = beest_clock_now();
		pause_us(WATCH / BEEST_US);
		began = beest_clock_now() - began - WATCH;
		pthread_mutex_lock(&way);
		slow->stalled = BEEST_MAX(slow->stalled, began);
		pthread_mutex_unlock(&way);
	}
	return NULL;
}

/* Its threads take no signals: a timer of the test would cut their pauses short. */
void slow_start(struct slow *slow)
{
	sigset_t all, before;

	silence_begin();
	slow->listener = bind_free(&slow->endpoint);
	listen(slow->listener, 64);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pthread_create(&slow->thread, NULL, listener_run, slow);
	pthread_create(&slow->watch, NULL, watch_run, slow);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int slow_accepted(const struct slow *slow)
{
	return __atomic_load_n(&slow->accepted, __ATOMIC_RELAXED);
}

int64_t slow_bytes(const struct slow *slow)
{
	return __atomic_load_n(&slow->bytes, __ATOMIC_RELAXED);
}

int64_t slow_longest(const struct slow *slow)
{
	int64_t longest;

	pthread_mutex_lock(&way);
	longest = slow->longest + slow->stalled;
	pthread_mutex_unlock(&way);
	return longest;
}

void slow_end(struct slow *slow)
{
	shutdown(slow->listener, SHUT_RDWR);
	pthread_join(slow->thread, NULL);
	__atomic_store_n(&slow->over, true, __ATOMIC_RELEASE);
	pthread_join(slow->watch, NULL);
	close(slow->listener);
	while (__atomic_load_n(&slow->passages, __ATOMIC_ACQUIRE))
		pause_us(1000);
	silence_end();
}
