/* SPDX-License-Identifier: MIT */
/*
 * near.h - how far is an adapter from this process, or from another device?
 *
 * Owns distances by sysfs: along the PCI tree, and between NUMA nodes.  Knows nothing of
 * verbs: it is given the sysfs folder of a device.
 */
#ifndef BEEST_NEAR_H
#define BEEST_NEAR_H

#include <limits.h>
#include <stdbool.h>

/* The root of sysfs, which only tests change. */
extern const char *beest_near_sysfs;

#define BEEST_NEAR_NODES 64		/* at most this many NUMA nodes count */
#define BEEST_NEAR_UNKNOWN 255		/* no distance is known; no known one is greater */

struct beest_near {
	char pci[PATH_MAX];		/* the device to be near to; "": the process */
	int nodes[BEEST_NEAR_NODES];	/* numbers of the online NUMA nodes, ascending */
	int count;
	/* From each node to the device's node, or to the nearest one this process may run on. */
	int distances[BEEST_NEAR_NODES];
};

/*
 * beest_near_is(): @text begins with "near:".  beest_near_check(): -EINVAL unless it is
 * "near:numa" or like "near:pci:0000:65:00.0".
 */
bool beest_near_is(const char *text);
int beest_near_check(const char *text);

/* Reads what adapters are measured against.  -EINVAL as above; -ENODEV: no such PCI device. */
int beest_near_start(struct beest_near *near, const char *text);

/*
 * The distance of the device whose sysfs folder is @path, ibdev_path of its struct
 * ibv_device: smaller is nearer.  -ENODATA: neither the device nor its network interface has
 * a place in sysfs.
 */
int beest_near_distance(const struct beest_near *near, const char *path);

#endif
