/* SPDX-License-Identifier: MIT */
/*
 * reach.h - an address of this host that other nodes reach
 *
 * Owns the choice among the host's own addresses.  Knows nothing of what listens there.
 */
#ifndef TOOLS_REACH_H
#define TOOLS_REACH_H

#include <netinet/in.h>

#include "tools/out.h"

/*
 * @given: an address or an interface of this host; NULL: the address to which the node's name
 * resolves.  Returns a status, after reporting why it is not STATUS_GOOD.
 */
int reach_find(struct out *out, const char *given, char address[INET6_ADDRSTRLEN]);

#endif
