/* SPDX-License-Identifier: MIT */
/* netdev.c - see netdev.h */
#include "config.h"

#include <netinet/in.h>
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

/* @mask: as a mapped address, whose first 12 bytes do not count, or of IPv6. */
static bool is_same_network(const struct beest_ipaddr *a, const struct beest_ipaddr *b,
			    const struct sockaddr *mask)
{
	const bool ipv4 = beest_ipaddr_is_ipv4(a);
	struct beest_ipaddr bits;
	size_t i;

	if (ipv4 != beest_ipaddr_is_ipv4(b) || beest_ipaddr_is_link_local(b) || !mask ||
	    mask->sa_family != (ipv4 ? AF_INET : AF_INET6))
		return false;
	if (ipv4)
		memcpy(bits.raw + 12, &((const struct sockaddr_in *)(const void *)mask)->sin_addr,
		       4);
	else
		memcpy(bits.raw, &((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr, 16);
	for (i = ipv4 ? 12 : 0; i < sizeof(bits.raw); i++)
		if ((a->raw[i] ^ b->raw[i]) & bits.raw[i])
			return false;

	return true;
}

bool beest_netdev_reaches(const char *name, const struct beest_ipaddr *ip)
{
	struct ifaddrs *interfaces, *each;
	struct beest_ipaddr its;
	bool found = false;

	if (getifaddrs(&interfaces) != 0)
		return false;
	for (each = interfaces; each && !found; each = each->ifa_next)
		found = beest_netdev_is(each, name) && beest_ipaddr_of(each->ifa_addr, &its) &&
			is_same_network(&its, ip, each->ifa_netmask);
	freeifaddrs(interfaces);

	return found;
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
