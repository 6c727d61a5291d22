/* SPDX-License-Identifier: MIT */
/* relay.c - see relay.h */
#include "config.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/macro.h"
#include "tests/support/relay.h"
#include "tests/support/timer.h"

#define CLIENTS 64

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
static bool bytes_pass(int from, int to, bool asks)
{
	char bytes[65536];
	ssize_t size = read(from, bytes, sizeof(bytes));

	return size > 0 && (!asks || is_passed_on(bytes, size)) &&
	       send(to, bytes, (size_t)size, MSG_NOSIGNAL) == size;
}

/* Entries 1 and 2, 3 and 4, ...: a client, and its server. */
static void relay_serve(int listener, struct cache *const *caches)
{
	struct pollfd ends[1 + 2 * CLIENTS];
	size_t i, other, count = 1, turn = 0, servers = 0;

	while (caches[servers])
		servers++;
	ends[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
	while (poll(ends, count, -1) >= 0) {
		for (i = 1; i < count; i++) {
			other = i % 2 ? i + 1 : i - 1;
			if (ends[i].fd < 0 || !ends[i].revents ||
			    bytes_pass(ends[i].fd, ends[other].fd, i % 2))
				continue;
			close(ends[i].fd), close(ends[other].fd);
			ends[i].fd = ends[other].fd = -1;
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

	listen(listener, CLIENTS);
	relay->pid = fork();
	if (relay->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		timer_leave();
		relay_serve(listener, caches);
		_exit(1);
	}
	close(listener);
}

void relay_end(struct relay *relay)
{
	kill(relay->pid, SIGKILL);
	while (waitpid(relay->pid, NULL, 0) < 0)
		;
}
