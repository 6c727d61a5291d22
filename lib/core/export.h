/* SPDX-License-Identifier: MIT */
/*
 * export.h - pairs by bytes that the program carries to the peer itself
 *
 * Owns the form of these bytes, and takes a queue pair to its peer by them: for each pair, a record
 * as on a server.  Knows nothing of servers, nor of how the bytes get to the peer.
 */
#ifndef BEEST_EXPORT_H
#define BEEST_EXPORT_H

#include "include/hartebeest.h"
#include "lib/core/context.h"

/* Each does what hartebeest.h promises of hartebeest_qp_<the same>(). */
int beest_export(struct hartebeest_context *hb, struct hartebeest_pair *pairs, size_t count,
		 void *bytes, size_t *size);
int beest_import(struct hartebeest_context *hb, struct hartebeest_pair *pairs, size_t count,
		 const void *bytes, size_t size, const struct beest_limit *limit);

#endif
