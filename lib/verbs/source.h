/* SPDX-License-Identifier: MIT */
/*
 * source.h - the GID that this end sends from
 *
 * Owns choosing it from the table of a port, trying it, and finding it again after the table
 * has changed.  Knows nothing of queue pairs, and keeps nothing.
 */
#ifndef BEEST_SOURCE_H
#define BEEST_SOURCE_H

#include "lib/base/log.h"
#include "lib/verbs/device.h"
#include "lib/verbs/gid.h"

/*
 * Chooses the GID of this end by @policy; @reason is for people, cut to @size.  Given @pd, a
 * RoCE GID is tried with an address handle to itself.  If that fails with an errno that speaks of
 * the GID, the next best is taken; another errno, such as -ENOMEM, is returned.  -EAGAIN is the
 * rdma cgroup's, which may leave room for all but a trial: then the GID is not tried.
 */
int beest_source_choose(const struct beest_device *device, struct ibv_pd *pd,
			const struct beest_gid_policy *policy, const struct beest_log *log,
			struct beest_gid_entry *chosen, char *reason, size_t size);

/*
 * Are GID, RoCE version and interface the same, whatever the index?  An unknown interface
 * fits any.
 */
bool beest_source_same(const struct beest_gid_entry *a, const struct beest_gid_entry *b);

/* Does the table still have this GID at source->index?  Reads that entry only. */
bool beest_source_holds(const struct beest_device *device, const struct beest_gid_entry *source);

/*
 * Finds the current index of a GID, since addresses change while a job runs, and the
 * table moves with them.  Reads only the entry at the old index if the GID is still there,
 * unless @search asks for the whole table.  1: source->index has changed, 0: it has not,
 * -ENODATA: the GID is gone, and the sentence lists the table.
 */
int beest_source_relocate(const struct beest_device *device, bool search,
			  struct beest_gid_entry *source);

/*
 * The IP address of this end, by which librdmacm knows peers: the policy's; else a GID of
 * wide scope; else an address of its interface; else, on RoCE, the link-local GID.  Zero:
 * there is none, as on InfiniBand without IPoIB.
 */
void beest_source_ip(const struct beest_gid_entry *source, const struct beest_gid_policy *policy,
		     struct beest_ipaddr *ip);

#endif
