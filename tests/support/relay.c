/* SPDX-License-Identifier: MIT */
/* relay.c - see relay.h */
#include "config.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "tests/support/pause.h"
#include "tests/support/relay.h"
#include "tests/support/timer.h"

#define CLIENTS 64

/* How often the process looks whether it may close a connection. */
#define LOOK_MS 5

enum { NOTHING, EXPECTED, PASSED_ON, ANSWERED, LOST };

struct relay_loss {
	int state;
	char words[128];
};

static int loss_state(const struct relay_loss *loss)
{
	return __atomic_load_n(&loss->state, __ATOMIC_ACQUIRE);
}

static void loss_set(struct relay_loss *loss, int state)
{
	__atomic_store_n(&loss->state, state, __ATOMIC_RELEASE);
}

static bool is_passed_on(const char *bytes, ssize_t size)
{
	static const char *const refused[] = { "version", "stats", "lru_crawler" };
	size_t i;

	for (i = 0; i < BEEST_COUNT(refused); i++)
		if (size >= 5 && !strncmp(bytes, refused[i], 5))
			return false;
	return true;
}

/* Passes on what has come.  False: the connection ends. */
static bool bytes_pass(int from, int to, bool asks, struct relay_loss *loss)
{
	char bytes[65536];
	ssize_t size = read(from, bytes, sizeof(bytes));

	if (size > 0 && asks && loss_state(loss) == EXPECTED &&
	    memmem(bytes, (size_t)size, loss->words, strlen(loss->words)))
		loss_set(loss, PASSED_ON);
	return size > 0 && (!asks || is_passed_on(bytes, size)) &&
	       send(to, bytes, (size_t)size, MSG_NOSIGNAL) == size;
}

static void both_close(struct pollfd *ends, size_t i)
{
	size_t other = i % 2 ? i + 1 : i - 1;

	close(ends[i].fd), close(ends[other].fd);
	ends[i].fd = ends[other].fd = -1;
}

/*
 * The answer stays where it is until the connection is closed, unless the client gives it up.
 * @server: its entry; 0: none.
 */
static size_t answer_keep(struct pollfd *ends, size_t server, struct relay_loss *loss)
{
	int state = loss_state(loss);

	if (!server)
		return 0;
	if (state == PASSED_ON && (ends[server].fd < 0 || ends[server].revents)) {
		ends[server].events = 0;
		loss_set(loss, ANSWERED);
	}
	ends[server].revents = 0;
	if (state != LOST)
		return server;
	if (ends[server].fd >= 0)
		both_close(ends, server);
	loss_set(loss, NOTHING);
	return 0;
}

/* Entries 1 and 2, 3 and 4, ...: a client, and its server. */
static void relay_serve(int listener, struct cache *const *caches, struct relay_loss *loss)
{
	struct pollfd ends[1 + 2 * CLIENTS];
	size_t i, other, count = 1, turn = 0, servers = 0, kept = 0;

	while (caches[servers])
		servers++;
	ends[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
	while (poll(ends, count, kept ? LOOK_MS : -1) >= 0) {
		kept = answer_keep(ends, kept, loss);
		for (i = 1; i < count; i++) {
			other = i % 2 ? i + 1 : i - 1;
			if (ends[i].fd < 0 || !ends[i].revents)
				continue;
			if (!bytes_pass(ends[i].fd, ends[other].fd, i % 2, loss))
				both_close(ends, i);
			else if (!kept && loss_state(loss) == PASSED_ON)
				kept = other;
		}
		if (!ends[0].revents || count == BEEST_COUNT(ends))
			continue;
		ends[count].fd = accept(listener, NULL, NULL);
		ends[count + 1].fd = cache_connect(caches[turn++ % servers]);
		ends[count].events = ends[count + 1].events = POLLIN;
		ends[count].revents = ends[count + 1].revents = 0;
		count += 2;
	}
}

void relay_start(struct relay *relay, struct cache *const *caches)
{
	int listener = bind_free(&relay->endpoint);

	relay->loss = mmap(NULL, sizeof(*relay->loss), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (relay->loss == MAP_FAILED)
		abort();
	listen(listener, CLIENTS);
	relay->pid = fork();
	if (relay->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		timer_leave();
		relay_serve(listener, caches, relay->loss);
		_exit(1);
	}
	close(listener);
}

void relay_end(struct relay *relay)
{
	kill(relay->pid, SIGKILL);
	while (waitpid(relay->pid, NULL, 0) < 0)
		;
	munmap(relay->loss, sizeof(*relay->loss));
}

void relay_expect(struct relay *relay, const char *words)
{
	beest_text_copy(relay->loss->words, sizeof(relay->loss->words), words);
	loss_set(relay->loss, EXPECTED);
}

void relay_await_loss(struct relay *relay)
{
	while (loss_state(relay->loss) != ANSWERED)
		pause_ms(1);
}

void relay_lose(struct relay *relay)
{
	loss_set(relay->loss, LOST);
	while (loss_state(relay->loss) != NOTHING)
		pause_ms(1);
}
