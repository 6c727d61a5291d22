/* SPDX-License-Identifier: MIT */
/*
 * near.h - how far is an adapter from this process, or from another device?
 *
 * Owns distances as sysfs tells them: along the PCI tree, and between NUMA nodes.  Knows
 * nothing of verbs: it is handed the folder of a device.
 */
#ifndef BEEST_NEAR_H
#define BEEST_NEAR_H

#include <limits.h>
#include <stdbool.h>

/* Where sysfs is; only tests put another folder there. */
extern const char *beest_near_sysfs;

#define BEEST_NEAR_NODES 64		/* NUMA nodes of one machine */
#define BEEST_NEAR_UNKNOWN 255		/* a distance that nobody says: the greatest there is */

struct beest_near {
	char pci[PATH_MAX];		/* folder of the device to be near to; "": the process */
	int nodes[BEEST_NEAR_NODES];	/* numbers of the NUMA nodes, ascending */
	int count;
	/* Of each node to those that the process may run on, or that the device is at. */
	int distances[BEEST_NEAR_NODES];
};

/* "near:numa", "near:pci:0000:65:00.0" or neither.  -EINVAL: it begins with near: only. */
bool beest_near_is(const char *text);
int beest_near_check(const char *text);

/* Reads what all adapters are measured by.  -ENODEV: no such PCI device. */
int beest_near_start(struct beest_near *near, const char *text);

/*
 * How far the device of the folder @path is; @path as struct ibv_device has it.  The
 * smaller, the nearer; equals are equally near.  -ENODATA: it has no place in sysfs, nor
 * has its network interface.
 */
int beest_near_distance(const struct beest_near *near, const char *path);

#endif
