/* SPDX-License-Identifier: MIT */
/*
 * elsewhere.h - other ports of this host, through which a peer might be reached
 *
 * Owns the question, for the sentence of a connection that failed, which other RDMA port of this
 * host is in the network of an address.  Knows nothing of why the connection failed.
 */
#ifndef BEEST_ELSEWHERE_H
#define BEEST_ELSEWHERE_H

#include <stdbool.h>

#include "lib/base/ipaddr.h"
#include "lib/verbs/device.h"

/*
 * Writes "mlx5_3:1", the first port of another device or number than @own whose interface has an
 * address in the network of @ip.  False: there is none.  Opens all devices.
 */
bool beest_elsewhere_find(const struct beest_device *own, const struct beest_ipaddr *ip,
			  char label[72]);

#endif
