/* SPDX-License-Identifier: MIT */
/* loopback.c - see loopback.h */
#include "config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/loopback.h"

/*
 * A datagram needs no process that accepts it.  Even while the interface is down, bind(2)
 * succeeds.
 */
bool loopback_is_up(void)
{
	const struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(9),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_up = fd >= 0 && connect(fd, (const struct sockaddr *)&in, sizeof(in)) == 0;

	if (fd >= 0)
		close(fd);
	return is_up;
}
