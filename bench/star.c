/* SPDX-License-Identifier: MIT */
/* star.c - see star.h */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/star.h"

/* Others find rank 0's star through its entry in the pass. */
struct star {
	int listener;
	int *fds;		/* rank 0: one for each rank; others: one */
	struct sockaddr_in address;
};

static int io(struct bench_rank *rank, int fd, void *buffer, size_t size, bool sends)
{
	char *at = buffer;
	ssize_t done;

	while (size) {
		done = sends ? send(fd, at, size, MSG_NOSIGNAL) : recv(fd, at, size, MSG_WAITALL);
		if (done <= 0)
			return bench_fail(rank, -EIO, "socket: %s",
					  done ? strerror(errno) : "closed");
		at += done;
		size -= (size_t)done;
	}
	return 0;
}

static int tune(struct bench_rank *rank, int fd)
{
	struct timeval limit = { .tv_sec = rank->pass->limit };
	int one = 1;

	if (fd < 0)
		return bench_fail(rank, -errno, "socket: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	return 0;
}

static int listen_open(struct bench_rank *rank, struct star *star)
{
	socklen_t size = sizeof(star->address);

	star->address.sin_family = AF_INET;
	star->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	star->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (star->listener < 0 ||
	    bind(star->listener, (struct sockaddr *)&star->address, size) < 0 ||
	    getsockname(star->listener, (struct sockaddr *)&star->address, &size) < 0 ||
	    listen(star->listener, rank->pass->size) < 0)
		return bench_fail(rank, -errno, "socket: %s", strerror(errno));
	__atomic_store_n(&rank->own, star, __ATOMIC_RELEASE);
	return 0;
}

static int accept_all(struct bench_rank *rank, struct star *star)
{
	int i, fd, from, ret = 0;

	for (i = 1; i < rank->pass->size && ret == 0; i++) {
		fd = accept4(star->listener, NULL, NULL, SOCK_CLOEXEC);
		ret = tune(rank, fd);
		if (ret == 0)
			ret = io(rank, fd, &from, sizeof(from), false);
		if (ret == 0)
			star->fds[from] = fd;
	}
	return ret;
}

static int connect_one(struct bench_rank *rank, struct star *star)
{
	const struct star *root;
	int ret;

	rank->own = star;
	while (!(root = __atomic_load_n(&rank->pass->ranks[0].own, __ATOMIC_ACQUIRE))) {
		if (bench_over(rank))
			return bench_fail(rank, -ETIMEDOUT, "rank 0 does not listen");
		usleep(1000);
	}
	star->fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ret = tune(rank, star->fds[0]);
	if (ret == 0 && connect(star->fds[0], (const struct sockaddr *)&root->address,
				sizeof(root->address)) < 0)
		ret = bench_fail(rank, -errno, "connect: %s", strerror(errno));
	return ret < 0 ? ret : io(rank, star->fds[0], &rank->rank, sizeof(rank->rank), true);
}

int star_open(struct bench_rank *rank)
{
	struct star *star = calloc(1, sizeof(*star));
	int ret;

	if (!star || !(star->fds = calloc((size_t)rank->pass->size, sizeof(int))))
		abort();
	star->listener = -1;
	if (rank->rank)
		return connect_one(rank, star);
	ret = listen_open(rank, star);
	return ret < 0 ? ret : accept_all(rank, star);
}

void star_close(struct bench_rank *rank)
{
	struct star *star = rank->own;
	int i, count = rank->rank ? 1 : rank->pass->size;

	for (i = 0; i < count; i++)
		if (star->fds[i] > 0)
			close(star->fds[i]);
	if (star->listener >= 0)
		close(star->listener);
	free(star->fds);
	free(star);
}

int star_gather(struct bench_rank *rank, const void *mine, size_t size, void *all)
{
	struct star *star = rank->own;
	int i, ret = 0;

	if (rank->rank)
		return io(rank, star->fds[0], (void *)mine, size, true);
	memcpy(all, mine, size);
	for (i = 1; i < rank->pass->size && ret == 0; i++)
		ret = io(rank, star->fds[i], (char *)all + (size_t)i * size, size, false);
	return ret;
}

int star_spread(struct bench_rank *rank, const void *all, size_t stride, void *mine,
		size_t size)
{
	struct star *star = rank->own;
	int i, ret = 0;

	if (rank->rank)
		return io(rank, star->fds[0], mine, size, false);
	memcpy(mine, all, size);
	for (i = 1; i < rank->pass->size && ret == 0; i++)
		ret = io(rank, star->fds[i], (char *)all + (size_t)i * stride, size, true);
	return ret;
}

int star_meet(struct bench_rank *rank)
{
	char byte = 0, *all = rank->rank ? NULL : calloc((size_t)rank->pass->size, 1);
	int ret = star_gather(rank, &byte, 1, all);

	if (ret == 0)
		ret = star_spread(rank, all, 1, &byte, 1);
	free(all);
	return ret;
}
