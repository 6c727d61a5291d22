/* SPDX-License-Identifier: MIT */
/* main.c - hartebeest(1); see command.h */
#include "config.h"

#include <fcntl.h>
#include <unistd.h>

#include "tools/command.h"

/*
 * Fills the descriptors of closed streams with one that cannot be used.  Otherwise the next
 * file to be opened would take such a number, and output would go to a device or a server.
 */
static void keep_closed_streams_closed(void)
{
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			return;
}

int main(int argc, char **argv)
{
	keep_closed_streams_closed();
	return command_main(argc, argv);
}
