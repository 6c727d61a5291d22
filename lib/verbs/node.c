/* SPDX-License-Identifier: MIT */
/* node.c - see node.h */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/verbs/near.h"
#include "lib/verbs/node.h"

const char *beest_node_folder = "/dev/infiniband";

int beest_node_check(const char *device, const char *dev_name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", beest_node_folder, dev_name);
	if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0)
		return 0;
	if (errno == ENOENT || errno == ENOTDIR)
		return beest_fail(ENOENT, "device %s cannot be opened: there is no %s; a container "
				  "needs it passed in", device, path);
	if (errno == EACCES)
		return beest_fail(EACCES, "device %s cannot be opened: user %u may not read and "
				  "write %s", device, (unsigned int)geteuid(), path);
	return 0;
}

/* Adds the entries of @folder that begin with @start, separated by commas. */
static void list_folder(const char *folder, const char *start, struct beest_text *text)
{
	struct dirent **entries = NULL;
	int i, count = scandir(folder, &entries, NULL, alphasort);
	const char *name;

	for (i = 0; i < count; i++) {
		name = entries[i]->d_name;
		if (name[0] != '.' && strncmp(name, start, strlen(start)) == 0)
			beest_text_add(text, "%s%s", text->used ? ", " : "", name);
		free(entries[i]);
	}
	free(entries);
}

int beest_node_fail_without(void)
{
	struct beest_text devices = BEEST_TEXT(256), nodes = BEEST_TEXT(256);
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/class/infiniband", beest_near_sysfs);
	list_folder(path, "", &devices);
	if (!devices.used)
		return beest_fail(ENODEV, "this machine has no RDMA device, or its driver is not "
				  "loaded: 'hartebeest doctor' says what is missing, and Soft-RoCE "
				  "makes a device of any network interface (rdma link add rxe0 "
				  "type rxe netdev eth0)");

	list_folder(beest_node_folder, "uverbs", &nodes);
	if (!nodes.used)
		return beest_fail(ENODEV, "the kernel has the devices %s, but there is no "
				  "%s/uverbs*: is the kernel module ib_uverbs loaded? A container "
				  "needs it passed in", devices.buffer, beest_node_folder);
	return beest_fail(ENODEV, "the kernel has the devices %s, but libibverbs finds none: is "
			  "the provider library for them installed?", devices.buffer);
}
