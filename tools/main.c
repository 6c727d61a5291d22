/* SPDX-License-Identifier: MIT */
/* main.c - hartebeest(1); see command.h */
#include "config.h"

#include "lib/base/file.h"
#include "tools/command.h"

/* If that fails, there is no stream to print why. */
int main(int argc, char **argv)
{
	beest_file_fill_streams();
	return command_main(argc, argv);
}
