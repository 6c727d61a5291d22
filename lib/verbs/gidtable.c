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
#include "lib/base/netdev.h"
#include "lib/base/text.h"
#include "lib/verbs/gidtable.h"
#include "lib/verbs/newer.h"

/* --------------------------------------------------------- interfaces --- */

/* What entries are compared with. */
struct surroundings {
	struct ifaddrs *interfaces;	/* NULL: unknown, so every entry is without interface */
	const char *wanted;		/* the name to prefer above an InfiniBand GID */
};

/* getifaddrs(3) has one AF_PACKET entry for each interface; NULL: @each is another one. */
static const struct sockaddr_ll *link_of(const struct ifaddrs *each)
{
	const void *address = each->ifa_addr;

	return each->ifa_addr && each->ifa_addr->sa_family == AF_PACKET ? address : NULL;
}

/* glibc leaves room for 24 bytes where struct sockaddr_ll declares 8. */
static const uint8_t *link_hardware(const struct sockaddr_ll *link)
{
	return (const uint8_t *)link + offsetof(struct sockaddr_ll, sll_addr);
}

/*
 * The kernel makes a link-local GID of the interface's Ethernet address, with a bit inverted,
 * even where the interface itself has another link-local address or none.  In the middle are two
 * bytes that count interfaces which share that address.
 */
static bool is_made_of(const struct beest_ipaddr *gid, const struct sockaddr_ll *link)
{
	const uint8_t *address = link_hardware(link), *id = gid->raw + 8;

	return link->sll_halen == 6 && beest_ipaddr_is_link_local(gid) &&
	       ((id[0] ^ address[0]) & ~2) == 0 && memcmp(id + 1, address + 1, 2) == 0 &&
	       memcmp(id + 5, address + 3, 3) == 0;
}

static bool interface_has(const struct ifaddrs *each, const char *name,
			  const struct beest_ipaddr *gid)
{
	struct beest_ipaddr ip;

	for (; each; each = each->ifa_next)
		if (beest_netdev_is(each, name) &&
		    (link_of(each) ? is_made_of(gid, link_of(each)) :
		     beest_ipaddr_of(each->ifa_addr, &ip) && memcmp(&ip, gid, sizeof(ip)) == 0))
			return true;
	return false;
}

static void entry_name(struct beest_gid_entry *entry, const struct ifaddrs *interface)
{
	const unsigned int up = IFF_UP | IFF_RUNNING;

	beest_text_copy(entry->netdev, sizeof(entry->netdev), interface->ifa_name);
	entry->netdev_down = (interface->ifa_flags & up) != up;
}

/*
 * Names the interface with this @number (0: unknown), else with this @name, of a RoCE entry.  Both
 * may mean an interface of another network name space, and then fit one of this one by chance.  So
 * they only count if that interface has the address of the GID.
 */
static void find_interface(const struct surroundings *around, uint32_t number, const char *name,
			   struct beest_gid_entry *entry)
{
	const struct ifaddrs *each;

	for (each = around->interfaces; each; each = each->ifa_next)
		if (link_of(each) && (number ? (uint32_t)link_of(each)->sll_ifindex == number :
				      strcmp(each->ifa_name, name) == 0))
			break;
	if (each && interface_has(around->interfaces, each->ifa_name, &entry->gid))
		entry_name(entry, each);
}

/*
 * The kernel names no interface for an InfiniBand GID, but the hardware address of an
 * IPoIB interface is four bytes followed by the GID.
 */
static bool is_ipoib(const struct ifaddrs *each, const struct beest_ipaddr *gid)
{
	const struct sockaddr_ll *link = link_of(each);

	return link && link->sll_halen == 20 &&
	       memcmp(link_hardware(link) + 4, gid->raw, sizeof(gid->raw)) == 0;
}

/*
 * Several may have the same hardware address: the children of other partitions, and a bond.  The
 * wanted one is best, then one with an IP address.  0: not above this GID.
 */
static int ipoib_rank(const struct surroundings *around, const struct ifaddrs *each,
		      const struct beest_ipaddr *gid)
{
	struct beest_ipaddr ip;

	if (!is_ipoib(each, gid))
		return 0;
	if (strcmp(each->ifa_name, around->wanted) == 0)
		return 3;
	return beest_netdev_ip_in(around->interfaces, each->ifa_name, AF_UNSPEC, &ip) &&
	       !beest_ipaddr_is_link_local(&ip) ? 2 : 1;
}

static void find_ipoib(const struct surroundings *around, struct beest_gid_entry *entry)
{
	const struct ifaddrs *each;
	int rank, best = 0;

	for (each = around->interfaces; each; each = each->ifa_next) {
		rank = ipoib_rank(around, each, &entry->gid);
		if (rank > best)
			entry_name(entry, each);
		best = BEEST_MAX(best, rank);
	}
}

/* ------------------------------------------------------- rdma-core >= 32 --- */

/* libibverbs numbers the types like enum beest_roce. */
static bool verbs_take(const struct beest_newer_gid *found, const struct surroundings *around,
		       struct beest_gid_entry *entry)
{
	if (found->type > BEEST_ROCE_V2)
		return false;

	entry->index = (int)found->index;
	memcpy(entry->gid.raw, found->gid.raw, sizeof(entry->gid.raw));
	entry->roce = (enum beest_roce)found->type;
	if (found->netdev)
		find_interface(around, found->netdev, NULL, entry);
	return true;
}

static bool verbs_read(const struct beest_device *device, int index,
		       const struct surroundings *around, struct beest_gid_entry *entry)
{
	struct beest_newer_gid found;

	memset(&found, 0, sizeof(found));
	if (beest_newer()->query_gid(device->verbs, device->port, (uint32_t)index, &found, 0,
				     sizeof(found)) != 0)
		return false;

	found.index = (uint32_t)index;
	return verbs_take(&found, around, entry);
}

/* --------------------------------------------------------------- sysfs --- */

static bool sysfs_attribute(const struct beest_device *device, const char *folder, int index,
			    char *line, size_t size)
{
	return beest_file_line(line, size, "%s/ports/%d/gid_attrs/%s/%d",
			       device->verbs->device->ibdev_path, device->port, folder, index);
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
		       const struct surroundings *around, struct beest_gid_entry *entry)
{
	char name[IF_NAMESIZE];
	union ibv_gid gid;

	if (ibv_query_gid(device->verbs, device->port, index, &gid) != 0 ||
	    !sysfs_read_type(device, index, &entry->roce))
		return false;

	memcpy(entry->gid.raw, gid.raw, sizeof(entry->gid.raw));
	if (device->ethernet && sysfs_attribute(device, "ndevs", index, name, sizeof(name)))
		find_interface(around, 0, name, entry);
	return true;
}

/* --------------------------------------------------------------- table --- */

static bool entry_read(const struct beest_device *device, int index,
		       const struct surroundings *around, struct beest_gid_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	entry->index = index;
	if (beest_newer()->query_gid)
		return verbs_read(device, index, around, entry);
	return sysfs_read(device, index, around, entry);
}

/* False: @entry is empty.  Otherwise adds the IPoIB interface of an InfiniBand entry. */
static bool entry_finish(const struct beest_device *device, const struct surroundings *around,
			 struct beest_gid_entry *entry)
{
	if (beest_ipaddr_is_zero(&entry->gid))
		return false;
	if (!device->ethernet)
		find_ipoib(around, entry);
	return true;
}

/*
 * Reads the table in one call, since Soft-RoCE has 1024 entries and an adapter 256.  -1:
 * the call failed, as it does where one entry is unreadable or another port has a longer
 * table.
 */
static int table_query(const struct beest_device *device, int length,
		       const struct surroundings *around, struct beest_gid_entry *entries)
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
			 verbs_take(&found[i], around, &entries[count]) &&
			 entry_finish(device, around, &entries[count]);
	}
	free(found);
	return got < 0 ? -1 : count;
}

static int table_walk(const struct beest_device *device, int length,
		      const struct surroundings *around, struct beest_gid_entry *entries)
{
	int i, count = 0;

	for (i = 0; i < length; i++)
		count += entry_read(device, i, around, &entries[count]) &&
			 entry_finish(device, around, &entries[count]);
	return count;
}

int beest_gidtable_entries(const struct beest_device *device, const char *wanted,
			   struct beest_gid_entry **entries)
{
	struct surroundings around = { .wanted = wanted };
	struct ibv_port_attr attr;
	int ret, count = -1;

	ret = beest_device_port(device, &attr);
	if (ret < 0)
		return ret;
	*entries = calloc((size_t)attr.gid_tbl_len + 1, sizeof(**entries));
	if (!*entries)
		return beest_fail(ENOMEM, "no memory for %d GIDs", attr.gid_tbl_len);
	if (getifaddrs(&around.interfaces) != 0)
		around.interfaces = NULL;

	if (beest_newer()->query_gids)
		count = table_query(device, attr.gid_tbl_len, &around, *entries);
	if (count < 0)
		count = table_walk(device, attr.gid_tbl_len, &around, *entries);
	if (around.interfaces)
		freeifaddrs(around.interfaces);
	return count;
}

bool beest_gidtable_at(const struct beest_device *device, int index,
		       struct beest_gid_entry *entry)
{
	static const struct surroundings unknown;

	return entry_read(device, index, &unknown, entry);
}
