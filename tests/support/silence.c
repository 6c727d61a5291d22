/* SPDX-License-Identifier: MIT */
/* silence.c - see silence.h */
#include "config.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "tests/support/silence.h"

#define PATIENCE_MS 60000
#define LOOK_MS 1000			/* no single look waits longer */

static int *silent;			/* atomic, in shared memory */

__attribute__((constructor)) static void share(void)
{
	silent = mmap(NULL, sizeof(*silent), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (silent == MAP_FAILED)
		abort();
}

void silence_begin(void)
{
	__atomic_add_fetch(silent, 1, __ATOMIC_RELAXED);
}

void silence_end(void)
{
	__atomic_sub_fetch(silent, 1, __ATOMIC_RELAXED);
}

/* libmemcached waits for 1 ms where nothing may come. */
static bool is_look(int fd, int ms)
{
	socklen_t size = sizeof(int);
	int type;

	return ms > 1 && ms <= LOOK_MS && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

/* A server may become silent meanwhile, in another process. */
int silence_poll(struct pollfd *fd, int ms)
{
	const struct timespec once = { ms / 1000, ms % 1000 * 1000000L };
	int ret, waited = 0, most = is_look(fd->fd, ms) ? PATIENCE_MS : ms;

	do {
		ret = ppoll(fd, 1, ms < 0 ? NULL : &once, NULL);
		waited += ms;
	} while (ret == 0 && waited < most && !__atomic_load_n(silent, __ATOMIC_RELAXED));

	return ret;
}
