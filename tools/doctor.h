/* SPDX-License-Identifier: MIT */
/*
 * doctor.h - the half of hartebeest doctor that asks servers
 *
 * Owns what a job needs of a Memcached server.  Knows nothing of devices.
 */
#ifndef TOOLS_DOCTOR_H
#define TOOLS_DOCTOR_H

#include <hartebeest.h>

#include "tools/out.h"

/* A part: all servers, and whether the ranks of this job agree.  @ranks: below 1: unknown. */
void doctor_servers(struct out *out, struct hartebeest_context *hb, int64_t ranks);

#endif
