/* SPDX-License-Identifier: MIT */
/* main.c - hartebeest(1); see command.h */
#include "config.h"

#include "tools/command.h"

int main(int argc, char **argv)
{
	return command_main(argc, argv);
}
