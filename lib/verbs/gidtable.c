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
#include "lib/base/file.h"
#include "lib/base/text.h"
#include "lib/verbs/gidtable.h"
#include "lib/verbs/newer.h"

/* --------------------------------------------------------- interfaces --- */

/*
 * The kernel names no interface for an InfiniBand GID, but the hardware address of an
 * IPoIB interface is four bytes followed by the GID.  glibc leaves room for 24 bytes where
 * struct sockaddr_ll declares 8.
 */
static bool is_ipoib(const struct sockaddr_ll *link, const struct beest_ipaddr *gid)
{
	const uint8_t *address = (const uint8_t *)link + offsetof(struct sockaddr_ll, sll_addr);

	return link->sll_halen == 20 && memcmp(address + 4, gid->raw, sizeof(gid->raw)) == 0;
}

/*
 * Finds the interface by @number (0: unknown), else by @name (NULL: unknown), else by the
 * GID of an IPoIB interface.
 */
static void find_interface(const struct ifaddrs *each, uint32_t number, const char *name,
			   struct beest_gid_entry *entry)
{
	const unsigned int up = IFF_UP | IFF_RUNNING;
	const struct sockaddr_ll *link;

	for (; each; each = each->ifa_next) {
		/* getifaddrs(3) has one AF_PACKET entry for each interface. */
		if (!each->ifa_addr || each->ifa_addr->sa_family != AF_PACKET)
			continue;
		link = (const struct sockaddr_ll *)(const void *)each->ifa_addr;
		if (number ? (uint32_t)link->sll_ifindex != number :
		    name ? strcmp(each->ifa_name, name) != 0 : !is_ipoib(link, &entry->gid))
			continue;
		beest_text_copy(entry->netdev, sizeof(entry->netdev), each->ifa_name);
		entry->netdev_down = (each->ifa_flags & up) != up;
		return;
	}
}

/* ------------------------------------------------------- rdma-core >= 32 --- */

/* libibverbs numbers the types like enum beest_roce. */
static bool verbs_take(const struct beest_newer_gid *found, const struct ifaddrs *interfaces,
		       struct beest_gid_entry *entry)
{
	if (found->type > BEEST_ROCE_V2)
		return false;

	entry->index = (int)found->index;
	memcpy(entry->gid.raw, found->gid.raw, sizeof(entry->gid.raw));
	entry->roce = (enum beest_roce)found->type;
	if (found->netdev)
		find_interface(interfaces, found->netdev, NULL, entry);
	return true;
}

static bool verbs_read(const struct beest_device *device, int index,
		       const struct ifaddrs *interfaces, struct beest_gid_entry *entry)
{
	struct beest_newer_gid found;

	memset(&found, 0, sizeof(found));
	if (beest_newer()->query_gid(device->verbs, device->port, (uint32_t)index, &found, 0,
				     sizeof(found)) != 0)
		return false;

	found.index = (uint32_t)index;
	return verbs_take(&found, interfaces, entry);
}

/* --------------------------------------------------------------- sysfs --- */

static bool sysfs_attribute(const struct beest_device *device, const char *folder, int index,
			    char *line, size_t size)
{
	char path[IBV_SYSFS_PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/ports/%d/gid_attrs/%s/%d",
		 device->verbs->device->ibdev_path, device->port, folder, index);
	return beest_file_line(path, line, size);
}

/* Kernels older than RoCE v2 lack this folder. */
static bool sysfs_is_old(const struct beest_device *device)
{
	char path[IBV_SYSFS_PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/ports/%d/gid_attrs", device->verbs->device->ibdev_path,
		 device->port);
	return access(path, F_OK) != 0 && errno == ENOENT;
}

static bool sysfs_read_type(const struct beest_device *device, int index, enum beest_roce *roce)
{
	char line[32];

	*roce = device->ethernet ? BEEST_ROCE_V1 : BEEST_ROCE_NONE;
	if (!device->ethernet)
		return true;
	if (!sysfs_attribute(device, "types", index, line, sizeof(line)))
		return sysfs_is_old(device);
	if (strcmp(line, "RoCE v2") == 0)
		*roce = BEEST_ROCE_V2;
	return *roce == BEEST_ROCE_V2 || strcmp(line, "IB/RoCE v1") == 0;
}

static bool sysfs_read(const struct beest_device *device, int index,
		       const struct ifaddrs *interfaces, struct beest_gid_entry *entry)
{
	char netdev[IF_NAMESIZE];
	union ibv_gid gid;

	if (ibv_query_gid(device->verbs, device->port, index, &gid) != 0 ||
	    !sysfs_read_type(device, index, &entry->roce))
		return false;

	memcpy(entry->gid.raw, gid.raw, sizeof(entry->gid.raw));
	if (device->ethernet && sysfs_attribute(device, "ndevs", index, netdev, sizeof(netdev))) {
		memcpy(entry->netdev, netdev, sizeof(netdev));
		find_interface(interfaces, 0, netdev, entry);
	}
	return true;
}

/* --------------------------------------------------------------- table --- */

/* @interfaces: NULL when unknown; an interface missing there is not reported as down. */
static bool entry_read(const struct beest_device *device, int index,
		       const struct ifaddrs *interfaces, struct beest_gid_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	entry->index = index;
	if (beest_newer()->query_gid)
		return verbs_read(device, index, interfaces, entry);
	return sysfs_read(device, index, interfaces, entry);
}

/* False: @entry is empty.  Otherwise adds the IPoIB interface of an InfiniBand entry. */
static bool entry_finish(const struct beest_device *device, const struct ifaddrs *interfaces,
			 struct beest_gid_entry *entry)
{
	if (beest_ipaddr_is_zero(&entry->gid))
		return false;
	if (!device->ethernet && !entry->netdev[0])
		find_interface(interfaces, 0, NULL, entry);
	return true;
}

/*
 * Reads the table in one call, since Soft-RoCE has 1024 entries and an adapter 256.  -1:
 * the call failed, as it does where one entry is unreadable or another port has a longer
 * table.
 */
static int table_query(const struct beest_device *device, int length,
		       const struct ifaddrs *interfaces, struct beest_gid_entry *entries)
{
	const size_t room = (size_t)length * device->attr.phys_port_cnt;
	struct beest_newer_gid *found = calloc(room + 1, sizeof(*found));
	ssize_t i, got = -1;
	int count = 0;

	if (found)
		got = beest_newer()->query_gids(device->verbs, found, room, 0, sizeof(*found));
	for (i = 0; i < got && count < length; i++) {
		memset(&entries[count], 0, sizeof(*entries));
		count += found[i].port == device->port &&
			 verbs_take(&found[i], interfaces, &entries[count]) &&
			 entry_finish(device, interfaces, &entries[count]);
	}
	free(found);
	return got < 0 ? -1 : count;
}

static int table_walk(const struct beest_device *device, int length,
		      const struct ifaddrs *interfaces, struct beest_gid_entry *entries)
{
	int i, count = 0;

	for (i = 0; i < length; i++)
		count += entry_read(device, i, interfaces, &entries[count]) &&
			 entry_finish(device, interfaces, &entries[count]);
	return count;
}

int beest_gidtable_entries(const struct beest_device *device, struct beest_gid_entry **entries)
{
	struct ifaddrs *interfaces = NULL;
	struct ibv_port_attr attr;
	int ret, count = -1;

	ret = beest_device_port(device, &attr);
	if (ret < 0)
		return ret;
	*entries = calloc((size_t)attr.gid_tbl_len + 1, sizeof(**entries));
	if (!*entries)
		return beest_fail(ENOMEM, "no memory for %d GIDs", attr.gid_tbl_len);
	if (getifaddrs(&interfaces) != 0)
		interfaces = NULL;

	if (beest_newer()->query_gids)
		count = table_query(device, attr.gid_tbl_len, interfaces, *entries);
	if (count < 0)
		count = table_walk(device, attr.gid_tbl_len, interfaces, *entries);
	if (interfaces)
		freeifaddrs(interfaces);
	return count;
}

bool beest_gidtable_at(const struct beest_device *device, int index,
		       struct beest_gid_entry *entry)
{
	return entry_read(device, index, NULL, entry);
}
