/* SPDX-License-Identifier: MIT */
/* netdev.c - see netdev.h */
#include "config.h"

#include <string.h>
#include <sys/socket.h>

#include "lib/base/netdev.h"
#include "lib/base/text.h"

/* No interface has a colon in its name. */
bool beest_netdev_is(const struct ifaddrs *entry, const char *name)
{
	size_t length = strlen(name);

	return strncmp(entry->ifa_name, name, length) == 0 &&
	       (entry->ifa_name[length] == '\0' || entry->ifa_name[length] == ':');
}

void beest_netdev_of(const struct beest_ipaddr *ip, char name[IF_NAMESIZE])
{
	struct ifaddrs *interfaces, *each;
	struct beest_ipaddr its;

	name[0] = '\0';
	if (getifaddrs(&interfaces) != 0)
		return;

	for (each = interfaces; each && !name[0]; each = each->ifa_next)
		if (beest_ipaddr_of(each->ifa_addr, &its) && memcmp(&its, ip, sizeof(its)) == 0)
			beest_text_copy(name, IF_NAMESIZE, each->ifa_name);
	freeifaddrs(interfaces);
	name[strcspn(name, ":")] = '\0';
}

/* How many leading bits of an address count, of IPv4 as mapped; -1: there is no netmask. */
static int mask_prefix(const struct sockaddr *mask)
{
	struct beest_ipaddr bits;
	int i, ipv4 = mask && mask->sa_family == AF_INET, prefix = ipv4 ? 96 : 0;

	if (!mask || !beest_ipaddr_of(mask, &bits))
		return -1;
	for (i = ipv4 ? 12 : 0; i < (int)sizeof(bits.raw); i++)
		prefix += __builtin_popcount(bits.raw[i]);
	return prefix;
}

int beest_netdev_prefix(const struct beest_ipaddr *ip)
{
	struct ifaddrs *interfaces, *each;
	struct beest_ipaddr its;
	int prefix = -1;

	if (beest_ipaddr_is_link_local(ip) || getifaddrs(&interfaces) != 0)
		return -1;
	for (each = interfaces; each && prefix < 0; each = each->ifa_next) {
		prefix = mask_prefix(each->ifa_netmask);
		if (prefix >= 0 && (!beest_ipaddr_of(each->ifa_addr, &its) ||
				    !beest_ipaddr_has_prefix(&its, ip, prefix)))
			prefix = -1;
	}
	freeifaddrs(interfaces);

	return prefix;
}

/* Higher is better, and never 0, which means no address. */
static int address_rank(const struct beest_ipaddr *ip, int family)
{
	bool wanted = beest_ipaddr_is_ipv4(ip) == (family != AF_INET6);

	return 1 + 2 * !beest_ipaddr_is_link_local(ip) + wanted;
}

bool beest_netdev_ip_in(const struct ifaddrs *each, const char *name, int family,
			struct beest_ipaddr *ip)
{
	struct beest_ipaddr its;
	int best = 0;

	memset(ip, 0, sizeof(*ip));
	for (; each; each = each->ifa_next) {
		if (!beest_netdev_is(each, name) || !beest_ipaddr_of(each->ifa_addr, &its) ||
		    address_rank(&its, family) <= best)
			continue;
		best = address_rank(&its, family);
		*ip = its;
	}
	return best > 0;
}

bool beest_netdev_ip(const char *name, int family, struct beest_ipaddr *ip)
{
	struct ifaddrs *interfaces;
	bool found;

	memset(ip, 0, sizeof(*ip));
	if (!name[0] || getifaddrs(&interfaces) != 0)
		return false;

	found = beest_netdev_ip_in(interfaces, name, family, ip);
	freeifaddrs(interfaces);
	return found;
}
