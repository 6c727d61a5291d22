/* SPDX-License-Identifier: MIT */
/*
 * netdev.h - IP addresses of network interfaces
 *
 * Owns the questions to getifaddrs(3): which interface has this address, which address does this
 * interface have, and which network?  Knows nothing of ports: their GID table names the interface.
 */
#ifndef BEEST_NETDEV_H
#define BEEST_NETDEV_H

#include <ifaddrs.h>
#include <net/if.h>

#include "lib/base/ipaddr.h"

/* Is @entry, of getifaddrs(3), about the interface @name?  "eth0:1" is a label of eth0. */
bool beest_netdev_is(const struct ifaddrs *entry, const char *name);

/* The name of the interface that has @ip (IPv4: mapped), "" when none has it. */
void beest_netdev_of(const struct beest_ipaddr *ip, char name[IF_NAMESIZE]);

/* Does the interface @name have an address in the same network as @ip, by its netmask? */
bool beest_netdev_reaches(const char *name, const struct beest_ipaddr *ip);

/*
 * An address of the interface @name.  Prefers a wider scope over link-local, then @family
 * (AF_UNSPEC: IPv4) over the other family.  False: it has none, and *ip is zero.
 */
bool beest_netdev_ip(const char *name, int family, struct beest_ipaddr *ip);

/* The same, with the list of getifaddrs(3). */
bool beest_netdev_ip_in(const struct ifaddrs *list, const char *name, int family,
			struct beest_ipaddr *ip);

#endif
