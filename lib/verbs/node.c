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
#include "lib/base/file.h"
#include "lib/base/text.h"
#include "lib/verbs/near.h"
#include "lib/verbs/node.h"

const char *beest_node_folder = "/dev/infiniband";

/*
 * Opens the node, since libibverbs reports another errno than the kernel.  The permissions do not
 * suffice: a container's device cgroup forbids nodes that any user may open, and so does an
 * exclusive RDMA name space.
 */
int beest_node_check(const char *device, const char *dev_name)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", beest_node_folder, dev_name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		return 0;
	}
	switch (errno) {
	case ENOENT:
	case ENOTDIR:
		return beest_fail(ENOENT, "device %s cannot be opened: there is no %s; a container "
				  "needs it passed in (--device=%s)", device, path, path);
	case EACCES:
		return beest_fail(EACCES, "device %s cannot be opened: user %u may not read and "
				  "write %s", device, (unsigned int)geteuid(), path);
	case EPERM:
		return beest_fail(EPERM, "device %s cannot be opened: this container or job may "
				  "not use %s, whatever its mode: start it with --device=%s, or "
				  "use a device plugin in Kubernetes (device cgroup); where "
				  "RDMA name spaces are exclusive, 'rdma dev set %s netns NAME' "
				  "outside gives it the device", device, path, path, device);
	default:
		return 0;
	}
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

/*
 * In an exclusive RDMA name space, the kernel hides the devices of others, but not the folders of
 * their nodes: each has a file with the name of the device.
 */
static void list_elsewhere(struct beest_text *devices)
{
	struct beest_text nodes = BEEST_TEXT(256);
	char folder[PATH_MAX], name[64];
	const char *node;
	int length;

	snprintf(folder, sizeof(folder), "%s/class/infiniband_verbs", beest_near_sysfs);
	list_folder(folder, "uverbs", &nodes);
	for (node = nodes.buffer; *node; node += length + strspn(node + length, ", ")) {
		length = (int)strcspn(node, ",");
		if (beest_file_line(name, sizeof(name), "%s/%.*s/ibdev", folder, length, node))
			beest_text_add(devices, "%s%s", devices->used ? ", " : "", name);
	}
}

int beest_node_fail_without(void)
{
	struct beest_text devices = BEEST_TEXT(256), nodes = BEEST_TEXT(256);
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/class/infiniband", beest_near_sysfs);
	list_folder(path, "", &devices);
	if (!devices.used) {
		list_elsewhere(&devices);
		if (devices.used)
			return beest_fail(ENODEV, "the devices %s belong to another network name "
					  "space, since those of RDMA are exclusive: 'rdma dev set "
					  "DEVICE netns NAME' outside gives this one a device, "
					  "'rdma system set netns shared' all", devices.buffer);
		return beest_fail(ENODEV, "this machine has no RDMA device, or its driver is not "
				  "loaded: 'hartebeest doctor' says what is missing, and Soft-RoCE "
				  "makes a device of any network interface (rdma link add rxe0 "
				  "type rxe netdev eth0)");
	}

	list_folder(beest_node_folder, "uverbs", &nodes);
	if (!nodes.used)
		return beest_fail(ENODEV, "the kernel has the devices %s, but there is no "
				  "%s/uverbs*: is the kernel module ib_uverbs loaded? A container "
				  "needs it passed in", devices.buffer, beest_node_folder);
	return beest_fail(ENODEV, "the kernel has the devices %s, but libibverbs finds none: is "
			  "the provider library for them installed?", devices.buffer);
}
