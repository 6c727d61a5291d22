/* SPDX-License-Identifier: MIT */
/*
 * source.h - the GID that this end starts from
 *
 * Owns the choice from the table of a port, the trial of what was chosen, and finding it
 * again when the table has changed.  Knows nothing of queue pairs, and keeps nothing.
 */
#ifndef BEEST_SOURCE_H
#define BEEST_SOURCE_H

#include "lib/verbs/device.h"

/*
 * The GID of this end by policy, and the reason for people in BEEST_REASON_SIZE bytes.
 * It is tried with an address handle to itself where @pd is given (RoCE only).  The next
 * best is taken when that fails with an errno that speaks of the GID; another errno, such
 * as -ENOMEM, is returned.
 */
int beest_source_choose(const struct beest_device *device, struct ibv_pd *pd,
			const struct beest_gid_policy *policy, const struct beest_log *log,
			struct beest_gid_entry *chosen, char *reason);

/* Are both the same GID, RoCE version and interface, whatever their index? */
bool beest_source_same(const struct beest_gid_entry *a, const struct beest_gid_entry *b);

/* Does the table still have this GID at source->index?  Reads that one entry. */
bool beest_source_holds(const struct beest_device *device, const struct beest_gid_entry *source);

/*
 * Finds the present index of a GID: addresses come and go while a job runs, and the table
 * moves with them.  Reads one entry where it holds, unless @search asks for the whole
 * table.  1: source->index is another now, 0: it is not, -ENODATA: the GID is gone, with a
 * list of what there is.
 */
int beest_source_relocate(const struct beest_device *device, bool search,
			  struct beest_gid_entry *source);

/*
 * The IP address of this end, which librdmacm knows peers by: the policy's; else the
 * GID itself where it is one of wide scope; else one of its interface.  Zero when
 * there is none: InfiniBand without IPoIB.
 */
void beest_source_ip(const struct beest_gid_entry *source, const struct beest_gid_policy *policy,
		     struct beest_ipaddr *ip);

#endif
