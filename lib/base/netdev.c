/* SPDX-License-Identifier: MIT */
/* netdev.c - see netdev.h */
#include "config.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/netdev.h"
#include "lib/base/text.h"

/* False: not an IP address.  The casts: every sockaddr of getifaddrs(3) is aligned. */
static bool ip_of(const struct ifaddrs *interface, struct beest_ipaddr *ip)
{
	static const struct beest_ipaddr mapped = { { [10] = 0xff, [11] = 0xff } };
	const void *address = interface->ifa_addr;

	*ip = mapped;
	if (!address)
		return false;

	switch (interface->ifa_addr->sa_family) {
	case AF_INET:
		memcpy(ip->raw + 12, &((const struct sockaddr_in *)address)->sin_addr, 4);
		return true;
	case AF_INET6:
		memcpy(ip->raw, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
		return true;
	default:
		return false;
	}
}

void beest_netdev_of(const struct beest_ipaddr *ip, char name[IF_NAMESIZE])
{
	struct ifaddrs *interfaces, *each;
	struct beest_ipaddr its;

	name[0] = '\0';
	if (getifaddrs(&interfaces) != 0)
		return;

	for (each = interfaces; each && !name[0]; each = each->ifa_next)
		if (ip_of(each, &its) && memcmp(&its, ip, sizeof(its)) == 0)
			beest_text_copy(name, IF_NAMESIZE, each->ifa_name);
	freeifaddrs(interfaces);
}

/* Higher is better; 0: no address at all. */
static int address_rank(const struct beest_ipaddr *ip, int family)
{
	bool wanted = beest_ipaddr_is_ipv4(ip) == (family != AF_INET6);

	return 1 + 2 * !beest_ipaddr_is_link_local(ip) + wanted;
}

bool beest_netdev_ip(const char *name, int family, struct beest_ipaddr *ip)
{
	struct ifaddrs *interfaces, *each;
	struct beest_ipaddr its;
	int best = 0;

	memset(ip, 0, sizeof(*ip));
	if (!name[0] || getifaddrs(&interfaces) != 0)
		return false;

	for (each = interfaces; each; each = each->ifa_next) {
		if (strcmp(each->ifa_name, name) != 0 || !ip_of(each, &its) ||
		    address_rank(&its, family) <= best)
			continue;
		best = address_rank(&its, family);
		*ip = its;
	}
	freeifaddrs(interfaces);
	return best > 0;
}
