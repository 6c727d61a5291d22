/* SPDX-License-Identifier: MIT */
/*
 * gidtable.h - the GID table of a port, from wherever it can be read
 *
 * Owns the two sources: ibv_query_gid_table(3) and ibv_query_gid_ex(3), which rdma-core has
 * since 32, and sysfs, which is all that CentOS 7's 22.4 offers.  Knows nothing of policy.
 */
#ifndef BEEST_GIDTABLE_H
#define BEEST_GIDTABLE_H

#include "lib/verbs/device.h"
#include "lib/verbs/gid.h"

struct ifaddrs;

/*
 * One entry.  False: empty, unreadable, or not to be seen from this network
 * namespace.  @interfaces: of getifaddrs(3), NULL when that failed; an interface
 * that is not among them is not down.
 */
typedef bool beest_gid_read(const struct beest_device *device, int index,
			    const struct ifaddrs *interfaces, struct beest_gid_entry *entry);

beest_gid_read beest_gid_read_sysfs;
beest_gid_read beest_gid_read_verbs;	/* where beest_newer() has query_gid */

/*
 * All non-zero entries that @source can read: it skips the others and never stops.
 * *entries is for free(3).  Returns the count, -ENOMEM, or as beest_device_port().
 */
int beest_gidtable_read(const struct beest_device *device, beest_gid_read *source,
			struct beest_gid_entry **entries);

/* The same from the better source that this process has. */
int beest_gidtable_entries(const struct beest_device *device, struct beest_gid_entry **entries);

/* One entry, its interface perhaps left out.  False: nothing there. */
bool beest_gidtable_at(const struct beest_device *device, int index,
		       struct beest_gid_entry *entry);

#endif
