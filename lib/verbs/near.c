/* SPDX-License-Identifier: MIT */
/* near.c - see near.h */
#include "config.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/parse.h"
#include "lib/base/text.h"
#include "lib/verbs/near.h"

#define CPU_SETS 8			/* of 1024 processors each */
#define OTHER_ROOT 1000			/* more than any distance in one tree of bridges */
#define LINE_SIZE 4096			/* the most a sysfs file has */

const char *beest_near_sysfs = "/sys";

/* ----------------------------------------------------------------- reading --- */

/* Resolves a link, given by its path in four parts, to its folder in /sys/devices. */
static bool place_of_link(char place[PATH_MAX], const char *root, const char *folder,
			  const char *name, const char *link)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s%s%s%s", root, folder, name, link) <
	       (int)sizeof(path) && realpath(path, place);
}

/* A soft device has no PCI device, but its network interface may. */
static bool place_of_device(char place[PATH_MAX], const char *path)
{
	char netdev[LINE_SIZE];

	if (place_of_link(place, path, "/device", "", ""))
		return true;
	return (beest_file_line(netdev, LINE_SIZE, "%s/parent", path) ||
		beest_file_line(netdev, LINE_SIZE, "%s/ports/1/gid_attrs/ndevs/0", path)) &&
	       place_of_link(place, beest_near_sysfs, "/class/net/", netdev, "/device");
}

/* A device below a PCI device, such as virtio0, has its parent's numa_node.  -1: not known. */
static int node_of_place(const char *place)
{
	char path[PATH_MAX], line[LINE_SIZE], *slash;

	beest_text_copy(path, sizeof(path), place);
	while (!beest_file_line(line, LINE_SIZE, "%s/numa_node", path)) {
		slash = strrchr(path, '/');
		if (!slash)
			return -1;
		*slash = '\0';
	}
	return atoi(line);
}

/* -------------------------------------------------------------- NUMA nodes --- */

/* May this process run on any of these processors: "0-15,32-47"? */
static bool is_allowed_on(const char *processors)
{
	cpu_set_t allowed[CPU_SETS];
	struct beest_ids ids;
	bool found = false;
	size_t i;

	memset(allowed, 0, sizeof(allowed));
	if (sched_getaffinity(0, sizeof(allowed), allowed) < 0 ||
	    beest_parse_ids(processors, &ids) < 0)
		return false;
	for (i = 0; i < ids.count && !found; i++)
		found = (size_t)ids.id[i] < CPU_SETS * CPU_SETSIZE &&
			CPU_ISSET_S((size_t)ids.id[i], sizeof(allowed), allowed);
	beest_parse_ids_free(&ids);
	return found;
}

/* @line: the distance to each of near->nodes, in order.  The smallest of all lines is kept. */
static void note_distances(struct beest_near *near, const char *line)
{
	char *end;
	long each;
	int i;

	for (i = 0; i < near->count; i++, line = end) {
		each = strtol(line, &end, 10);
		if (end == line)
			return;
		near->distances[i] = BEEST_MIN(near->distances[i], (int)each);
	}
}

/* Measures from @node; -1: from every node that this process may run on. */
static void measure_nodes(struct beest_near *near, int node)
{
	char folder[PATH_MAX], line[LINE_SIZE];
	struct beest_ids ids = { NULL, 0 };
	int i;

	if (!beest_file_line(line, LINE_SIZE, "%s/devices/system/node/online",
			     beest_near_sysfs) || beest_parse_ids(line, &ids) < 0)
		return;
	near->count = (int)BEEST_MIN(ids.count, BEEST_NEAR_NODES);
	for (i = 0; i < near->count; i++) {
		near->nodes[i] = ids.id[i];
		near->distances[i] = BEEST_NEAR_UNKNOWN;
	}
	beest_parse_ids_free(&ids);

	for (i = 0; i < near->count; i++) {
		snprintf(folder, sizeof(folder), "%s/devices/system/node/node%d",
			 beest_near_sysfs, near->nodes[i]);
		if (node >= 0 ? node != near->nodes[i] :
		    !beest_file_line(line, LINE_SIZE, "%s/cpulist", folder) || !is_allowed_on(line))
			continue;
		if (beest_file_line(line, LINE_SIZE, "%s/distance", folder))
			note_distances(near, line);
	}
}

static int distance_of_node(const struct beest_near *near, int node)
{
	int i;

	for (i = 0; i < near->count; i++)
		if (near->nodes[i] == node)
			return near->distances[i];
	return BEEST_NEAR_UNKNOWN;
}

/* --------------------------------------------------------------- PCI tree --- */

static int count_slashes(const char *text)
{
	int count = 0;

	for (; *text; text++)
		count += *text == '/';
	return count;
}

/* Steps up to the nearest bridge above both and down again; -1: there is none. */
static int steps_between(const char *a, const char *b)
{
	size_t i, same = 0;

	for (i = 0; a[i] && a[i] == b[i]; i++)
		if (a[i] == '/')
			same = i;
	if ((!a[i] || a[i] == '/') && (!b[i] || b[i] == '/'))
		same = i;
	if (!memmem(a, same, "/pci", 4))
		return -1;
	return count_slashes(a + same) + count_slashes(b + same);
}

/* ------------------------------------------------------------ the interface --- */

#define NUMA "near:numa"
#define PCI "near:pci:"

bool beest_near_is(const char *text)
{
	return strncmp(text, "near:", 5) == 0;
}

int beest_near_check(const char *text)
{
	const char *pci = strncmp(text, PCI, strlen(PCI)) == 0 ? text + strlen(PCI) : "";
	unsigned int domain, bus, slot, function;
	int length = 0;

	if (strcmp(text, NUMA) == 0 ||
	    (sscanf(pci, "%x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &length) == 4 &&
	     !pci[length]))
		return 0;
	return beest_fail(EINVAL, "%s is neither near:numa nor near:pci: with the address of a "
			  "device, such as near:pci:0000:65:00.0", BEEST_QUOTE(text));
}

/* CUDA writes PCI addresses in capitals, the kernel in small letters. */
static int place_of_pci(char place[PATH_MAX], const char *text)
{
	char address[32];
	size_t i;

	for (i = 0; text[i] && i < sizeof(address) - 1; i++)
		address[i] = (char)tolower((unsigned char)text[i]);
	address[i] = '\0';
	return place_of_link(place, beest_near_sysfs, "/bus/pci/devices/", address, "") ? 0 :
	       beest_fail(ENODEV, "device.name: there is no PCI device %s", BEEST_QUOTE(address));
}

int beest_near_start(struct beest_near *near, const char *text)
{
	int ret = beest_near_check(text);

	if (ret < 0)
		return ret;
	memset(near, 0, sizeof(*near));
	if (strcmp(text, NUMA) != 0)
		ret = place_of_pci(near->pci, text + strlen(PCI));
	if (ret == 0)
		measure_nodes(near, near->pci[0] ? node_of_place(near->pci) : -1);
	return ret;
}

int beest_near_distance(const struct beest_near *near, const char *path)
{
	char place[PATH_MAX];
	int steps;

	if (!place_of_device(place, path))
		return beest_fail(ENODATA, "neither it nor its network interface has a place in "
				  "sysfs");

	steps = near->pci[0] ? steps_between(near->pci, place) : -1;
	if (steps >= 0)
		return steps;
	return (near->pci[0] ? OTHER_ROOT : 0) + distance_of_node(near, node_of_place(place));
}
