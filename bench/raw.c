/* SPDX-License-Identifier: MIT */
/* raw.c - see raw.h */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/raw.h"

int raw_talk(struct bench_rank *rank, size_t length, int lines)
{
	struct raw *raw = rank->device;
	size_t got = 0;
	ssize_t ret;
	int seen = 0;

	if (send(raw->fd, raw->text, length, MSG_NOSIGNAL) != (ssize_t)length)
		return -EIO;
	while (seen < lines) {
		ret = recv(raw->fd, raw->text + got, raw->room - got - 1, 0);
		if (ret <= 0)
			return bench_fail(rank, -EIO, "raw memcached: no answer");
		for (; ret > 0; ret--)
			seen += raw->text[got++] == '\n';
		raw->text[got] = '\0';
		if (got >= 5 && strcmp(raw->text + got - 5, "END\r\n") == 0)
			break;
	}
	return 0;
}

int raw_open(struct bench_rank *rank)
{
	struct sockaddr_in server = { .sin_family = AF_INET,
				      .sin_port = htons((uint16_t)rank->pass->port) };
	struct timeval limit = { .tv_sec = rank->pass->limit };
	struct raw *raw = calloc(1, sizeof(*raw));
	int one = 1;

	if (!raw)
		abort();
	rank->device = raw;
	raw->room = 4096 + 256 * (size_t)rank->pass->size;
	raw->text = malloc(raw->room);
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	raw->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(raw->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(raw->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return connect(raw->fd, (struct sockaddr *)&server, sizeof(server)) == 0 ? 0
		: bench_fail(rank, -errno, "connect: %s", strerror(errno));
}

void raw_close(struct bench_rank *rank)
{
	struct raw *raw = rank->device;

	close(raw->fd);
	free(raw->text);
	free(raw);
}

void raw_pause(int64_t start)
{
	int64_t us = (bench_clock() - start) / 16000;

	usleep(us < 50 ? 50 : us > 5000 ? 5000 : (useconds_t)us);
}

int raw_await(struct bench_rank *rank, const char *key)
{
	struct raw *raw = rank->device;
	int64_t start = bench_clock();
	int ret;

	for (;;) {
		ret = raw_talk(rank, (size_t)sprintf(raw->text, "get %s\r\n", key), 3);
		if (ret < 0 || raw->text[0] == 'V')
			return ret;
		if (bench_over(rank))
			return -ETIMEDOUT;
		raw_pause(start);
	}
}
