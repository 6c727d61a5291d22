/* SPDX-License-Identifier: MIT */
/*
 * netdev.h - IP addresses of network interfaces
 *
 * Owns both questions to getifaddrs(3): who has this address, and which address has
 * this interface?  Knows nothing of ports: their GID table names the interface.
 */
#ifndef BEEST_NETDEV_H
#define BEEST_NETDEV_H

#include <net/if.h>

#include "lib/base/ipaddr.h"

/* The interface that has @ip, IPv4 mapped; "" when none has. */
void beest_netdev_of(const struct beest_ipaddr *ip, char name[IF_NAMESIZE]);

/*
 * An address of the interface @name: wide scope before link-local, then @family
 * (AF_UNSPEC: IPv4) before the other.  False: it has none, and *ip is zero.
 */
bool beest_netdev_ip(const char *name, int family, struct beest_ipaddr *ip);

#endif
