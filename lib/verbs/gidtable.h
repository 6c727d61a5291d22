/* SPDX-License-Identifier: MIT */
/*
 * gidtable.h - the GID table of a port, from wherever it can be read
 *
 * Owns the two sources: ibv_query_gid_table(3) and ibv_query_gid_ex(3), which came with
 * rdma-core 32, and sysfs, the only source with CentOS 7's 22.4.  Knows nothing of policy.
 */
#ifndef BEEST_GIDTABLE_H
#define BEEST_GIDTABLE_H

#include "lib/verbs/device.h"
#include "lib/verbs/gid.h"

struct ifaddrs;

/*
 * Reads one entry.  False: it is empty, unreadable, or hidden from this network namespace.
 * @interfaces: of getifaddrs(3), NULL when that failed; an interface missing there is not
 * reported as down.
 */
typedef bool beest_gid_read(const struct beest_device *device, int index,
			    const struct ifaddrs *interfaces, struct beest_gid_entry *entry);

beest_gid_read beest_gid_read_sysfs;
beest_gid_read beest_gid_read_verbs;	/* only if beest_newer() has query_gid */

/*
 * Reads all non-zero entries that @source can read, and skips the others.  The caller
 * frees *entries.  Returns the count, -ENOMEM, or an error of beest_device_port().
 */
int beest_gidtable_read(const struct beest_device *device, beest_gid_read *source,
			struct beest_gid_entry **entries);

/* The same from the best source that this process has. */
int beest_gidtable_entries(const struct beest_device *device, struct beest_gid_entry **entries);

/* Reads one entry, perhaps without its interface.  False: there is none. */
bool beest_gidtable_at(const struct beest_device *device, int index,
		       struct beest_gid_entry *entry);

#endif
