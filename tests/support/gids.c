/* SPDX-License-Identifier: MIT */
/* gids.c - see gids.h */
#include "config.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hartebeest.h"
#include "tests/support/gids.h"
#include "tests/support/pause.h"

#define DEVICES "/sys/class/infiniband"
#define GAP 64				/* this many empty entries in a row end a table */

/* GIDs, or addresses in the form of GIDs. */
struct gids {
	struct in6_addr gid[256];
	size_t count;
};

static bool line_read(char *line, int size, const char *device, const char *file)
{
	char path[256];
	FILE *stream;
	bool got;

	snprintf(path, sizeof(path), DEVICES "/%s/%s", device, file);
	stream = fopen(path, "r");
	if (!stream)
		return false;
	got = fgets(line, size, stream) != NULL;
	fclose(stream);
	line[got ? strcspn(line, "\n") : 0] = '\0';
	return got;
}

static void gids_add(struct gids *gids, const struct in6_addr *gid)
{
	if (gids->count < sizeof(gids->gid) / sizeof(gids->gid[0]))
		gids->gid[gids->count++] = *gid;
}

static bool gids_have(const struct gids *gids, const struct in6_addr *gid)
{
	size_t i = 0;

	while (i < gids->count && memcmp(&gids->gid[i], gid, sizeof(*gid)) != 0)
		i++;
	return i < gids->count;
}

/* The kernel uses the first free entry, so no GID of the 1024 is far behind the others. */
static void table_read(struct gids *table, const char *device)
{
	char file[32], line[64];
	struct in6_addr gid;
	int i, empty = 0;

	table->count = 0;
	for (i = 0; empty < GAP; i++) {
		snprintf(file, sizeof(file), "ports/1/gids/%d", i);
		if (!line_read(line, sizeof(line), device, file))
			return;
		empty++;
		if (inet_pton(AF_INET6, line, &gid) != 1 || IN6_IS_ADDR_UNSPECIFIED(&gid))
			continue;
		gids_add(table, &gid);
		empty = 0;
	}
}

static void addresses_read(struct gids *addresses, const char *interface, bool *up)
{
	struct ifaddrs *all = NULL, *one;
	struct in6_addr gid;

	addresses->count = 0;
	*up = false;
	if (getifaddrs(&all) < 0)
		return;
	for (one = all; one; one = one->ifa_next) {
		if (strcmp(one->ifa_name, interface) != 0 || !one->ifa_addr)
			continue;
		*up = one->ifa_flags & IFF_UP;
		memset(&gid, 0, sizeof(gid));
		gid.s6_addr[10] = gid.s6_addr[11] = 0xff;
		if (one->ifa_addr->sa_family == AF_INET)
			memcpy(gid.s6_addr + 12, &((struct sockaddr_in *)one->ifa_addr)->sin_addr,
			       4);
		else if (one->ifa_addr->sa_family == AF_INET6)
			gid = ((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr;
		else
			continue;
		gids_add(addresses, &gid);
	}
	freeifaddrs(all);
}

/* The kernel has its own link-local GID, and adds no GIDs while the interface is down. */
static bool device_has_settled(const char *device)
{
	struct gids table, addresses;
	char interface[64];
	bool up, same = true;
	size_t i;

	if (!line_read(interface, sizeof(interface), device, "parent"))
		return true;
	table_read(&table, device);
	addresses_read(&addresses, interface, &up);
	for (i = 0; up && i < addresses.count; i++)
		same &= gids_have(&table, &addresses.gid[i]);
	for (i = 0; i < table.count; i++)
		same &= IN6_IS_ADDR_LINKLOCAL(&table.gid[i]) ||
			gids_have(&addresses, &table.gid[i]);
	return same;
}

static bool all_have_settled(void)
{
	DIR *folder = opendir(DEVICES);
	struct dirent *entry;
	bool settled = true;

	while (folder && settled && (entry = readdir(folder)))
		settled = entry->d_name[0] == '.' || device_has_settled(entry->d_name);
	if (folder)
		closedir(folder);
	return settled;
}

void gids_settle(void)
{
	while (!all_have_settled())
		pause_ms(5);
}
