/* SPDX-License-Identifier: MIT */
/*
 * fencecall.h - takes part in a fence, from its first look to its last
 *
 * Owns the wait.  After each look, leader.c or member.c decides, and this rank's record is stored
 * if it has changed.  If anything else ends the wait, all others learn of it.
 */
#ifndef BEEST_FENCECALL_H
#define BEEST_FENCECALL_H

#include "lib/rendezvous/fence.h"

/*
 * 0: fence->view is that of all ranks.  -ETIMEDOUT names the missing ranks; -EAGAIN: the limit
 * allows one look only; then, and after -ECANCELED or the failure of a server, the next call
 * continues this one.  -EINVAL: it would contribute something else; -EPROTO: ranks differ in what
 * they call; -ESTALE: a rank was started again; -ESHUTDOWN, -ECONNABORTED: one has left or failed;
 * or an errno of take().
 */
int beest_fencecall_run(struct beest_fence *fence, const struct beest_fence_call *call);

/*
 * Ends a call on all ranks, since this one fails with @ret and the thread's sentence before it can
 * contribute anything.  Waits for at most beest_fence_patience() until the leader has read that.
 * Returns @ret.
 */
int beest_fencecall_refuse(struct beest_fence *fence, const struct beest_fence_call *call, int ret);

/*
 * Reads the entry of the rank at @position in a view, of which this rank has read other chunks:
 * from the chunk that its leader has left.  For beest_view_free().  Errors of beest_wait_run().
 */
int beest_fencecall_fetch(const struct beest_fence_call *call, const struct beest_view *known,
			  size_t position, struct beest_view **view);

#endif
