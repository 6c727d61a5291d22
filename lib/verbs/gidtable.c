/* SPDX-License-Identifier: MIT */
/* gidtable.c - see gidtable.h */
#include "config.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/verbs/gidtable.h"

/* --------------------------------------------------------- interfaces --- */

/* getifaddrs(3) has one of these for each interface, whatever its addresses. */
static const struct sockaddr_ll *link_of(const struct ifaddrs *interface)
{
	if (!interface->ifa_addr || interface->ifa_addr->sa_family != AF_PACKET)
		return NULL;
	return (const struct sockaddr_ll *)(const void *)interface->ifa_addr;
}

/*
 * The kernel names no interface for a GID of InfiniBand, but the hardware address
 * of IPoIB is four bytes of its own and then the GID.  glibc leaves room for 24
 * bytes where struct sockaddr_ll declares 8.
 */
static bool is_ipoib(const struct sockaddr_ll *link, const struct beest_ipaddr *gid)
{
	const uint8_t *address = (const uint8_t *)link + offsetof(struct sockaddr_ll, sll_addr);

	return link->sll_halen == 20 && memcmp(address + 4, gid->raw, sizeof(gid->raw)) == 0;
}

/* By @number, else by @name, else by the GID over which it is. */
static bool is_wanted(const struct ifaddrs *interface, uint32_t number, const char *name,
		      const struct beest_ipaddr *gid)
{
	const struct sockaddr_ll *link = link_of(interface);

	if (!link)
		return false;
	if (number)
		return (uint32_t)link->sll_ifindex == number;
	return name ? strcmp(interface->ifa_name, name) == 0 : is_ipoib(link, gid);
}

static void find_interface(const struct ifaddrs *interfaces, uint32_t number, const char *name,
			   struct beest_gid_entry *entry)
{
	const unsigned int up = IFF_UP | IFF_RUNNING;

	for (; interfaces; interfaces = interfaces->ifa_next) {
		if (!is_wanted(interfaces, number, name, &entry->gid))
			continue;
		snprintf(entry->netdev, sizeof(entry->netdev), "%s", interfaces->ifa_name);
		entry->netdev_down = (interfaces->ifa_flags & up) != up;
		return;
	}
}

/* ------------------------------------------------------- rdma-core >= 32 --- */

#if HAVE_DECL_IBV_QUERY_GID_EX
static const enum beest_roce roces[] = {
	[IBV_GID_TYPE_IB] = BEEST_ROCE_NONE,
	[IBV_GID_TYPE_ROCE_V1] = BEEST_ROCE_V1,
	[IBV_GID_TYPE_ROCE_V2] = BEEST_ROCE_V2,
};

bool beest_gid_read_verbs(const struct beest_gidtable *table, int index,
			  const struct ifaddrs *interfaces, struct beest_gid_entry *entry)
{
	struct ibv_gid_entry found;

	memset(&found, 0, sizeof(found));
	if (ibv_query_gid_ex(table->verbs, table->port, (uint32_t)index, &found, 0) != 0 ||
	    found.gid_type >= BEEST_COUNT(roces))
		return false;

	memcpy(entry->gid.raw, found.gid.raw, sizeof(entry->gid.raw));
	entry->roce = roces[found.gid_type];
	if (found.ndev_ifindex)
		find_interface(interfaces, found.ndev_ifindex, NULL, entry);
	return true;
}
#endif

/* --------------------------------------------------------------- sysfs --- */

/* Below gid_attrs of the port; false: too long. */
static bool sysfs_path(const struct beest_gidtable *table, const char *rest,
		       char *path, size_t size)
{
	int length = snprintf(path, size, "%s/ports/%d/gid_attrs%s",
			      table->verbs->device->ibdev_path, table->port, rest);

	return length > 0 && (size_t)length < size;
}

/* One line without its end; false: nothing to be had. */
static bool sysfs_attribute(const struct beest_gidtable *table, const char *name, int index,
			    char *line, size_t size)
{
	char path[IBV_SYSFS_PATH_MAX + 64], rest[32];
	FILE *file;
	bool got;

	snprintf(rest, sizeof(rest), "/%s/%d", name, index);
	file = sysfs_path(table, rest, path, sizeof(path)) ? fopen(path, "re") : NULL;
	if (!file)
		return false;

	got = fgets(line, (int)size, file) != NULL;
	fclose(file);
	line[got ? strcspn(line, "\n") : 0] = '\0';
	return line[0] != '\0';
}

/* Kernels before RoCE v2 have no such folder. */
static bool sysfs_is_old(const struct beest_gidtable *table)
{
	char path[IBV_SYSFS_PATH_MAX + 64];

	return sysfs_path(table, "", path, sizeof(path)) && access(path, F_OK) != 0 &&
	       errno == ENOENT;
}

static bool sysfs_read_type(const struct beest_gidtable *table, int index, enum beest_roce *roce)
{
	char line[32];

	*roce = BEEST_ROCE_NONE;
	if (!table->ethernet)
		return true;

	*roce = BEEST_ROCE_V1;
	if (!sysfs_attribute(table, "types", index, line, sizeof(line)))
		return sysfs_is_old(table);
	if (strcmp(line, "RoCE v2") == 0)
		*roce = BEEST_ROCE_V2;
	return *roce == BEEST_ROCE_V2 || strcmp(line, "IB/RoCE v1") == 0;
}

bool beest_gid_read_sysfs(const struct beest_gidtable *table, int index,
			  const struct ifaddrs *interfaces, struct beest_gid_entry *entry)
{
	char netdev[IF_NAMESIZE];
	union ibv_gid gid;

	if (ibv_query_gid(table->verbs, table->port, index, &gid) != 0 ||
	    !sysfs_read_type(table, index, &entry->roce))
		return false;

	memcpy(entry->gid.raw, gid.raw, sizeof(entry->gid.raw));
	if (table->ethernet && sysfs_attribute(table, "ndevs", index, netdev, sizeof(netdev))) {
		memcpy(entry->netdev, netdev, sizeof(netdev));
		find_interface(interfaces, 0, netdev, entry);
	}
	return true;
}

/* --------------------------------------------------------------- table --- */

static int gidtable_fill(const struct beest_gidtable *table, beest_gid_read *source,
			 const struct ifaddrs *interfaces, struct beest_gid_entry *entries)
{
	struct beest_gid_entry *entry;
	int i, count = 0;

	for (i = 0; i < table->size; i++) {
		entry = &entries[count];
		memset(entry, 0, sizeof(*entry));
		entry->index = i;
		if (!source(table, i, interfaces, entry) || beest_ipaddr_is_zero(&entry->gid))
			continue;
		if (!table->ethernet && !entry->netdev[0])
			find_interface(interfaces, 0, NULL, entry);
		count++;
	}
	return count;
}

int beest_gidtable_read(const struct beest_gidtable *table, beest_gid_read *source,
			struct beest_gid_entry **entries)
{
	size_t size = table->size > 0 ? (size_t)table->size : 1;
	struct ifaddrs *interfaces;
	int count;

	*entries = calloc(size, sizeof(**entries));
	if (!*entries)
		return beest_fail(ENOMEM, "no memory for %zu GIDs", size);

	if (getifaddrs(&interfaces) != 0)
		interfaces = NULL;
	count = gidtable_fill(table, source, interfaces, *entries);
	if (interfaces)
		freeifaddrs(interfaces);
	return count;
}

#if HAVE_DECL_IBV_QUERY_GID_EX
#define BEST_SOURCE beest_gid_read_verbs
#else
#define BEST_SOURCE beest_gid_read_sysfs
#endif

int beest_gidtable_entries(const struct beest_gidtable *table,
			   struct beest_gid_entry **entries)
{
	return beest_gidtable_read(table, BEST_SOURCE, entries);
}

bool beest_gidtable_at(const struct beest_gidtable *table, int index,
		       struct beest_gid_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	entry->index = index;
	return BEST_SOURCE(table, index, NULL, entry);
}
