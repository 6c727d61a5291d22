/* SPDX-License-Identifier: MIT */
/*
 * gidtable.h - the GID table of a port, from wherever it can be read
 *
 * Owns the two sources: ibv_query_gid_table(3) and ibv_query_gid_ex(3), which are new in
 * rdma-core 32, and sysfs, the only source with CentOS 7's 22.4.  Knows nothing of policy.
 */
#ifndef BEEST_GIDTABLE_H
#define BEEST_GIDTABLE_H

#include "lib/verbs/device.h"
#include "lib/verbs/gid.h"

/*
 * Reads all non-zero entries that can be read, and skips the others: unreadable ones, and those
 * hidden from this network name space.  An entry has an interface only if that is one of this
 * network name space and has the GID as its address; on InfiniBand, if its hardware address has the
 * GID.  @wanted: the interface to name if several do; "": one with an IP address.  The caller frees
 * *entries.  Returns the count, -ENOMEM, or an error of beest_device_port().
 */
int beest_gidtable_entries(const struct beest_device *device, const char *wanted,
			   struct beest_gid_entry **entries);

/* Reads one entry without its interface.  False: there is none. */
bool beest_gidtable_at(const struct beest_device *device, int index,
		       struct beest_gid_entry *entry);

#endif
