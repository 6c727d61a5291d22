/* SPDX-License-Identifier: MIT */
/* reach.c - see reach.h */
#include "config.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/netdev.h"
#include "lib/base/text.h"
#include "tools/command.h"
#include "tools/reach.h"

#define NAME_SIZE 256

/* Can another host connect to it, if a network leads there? */
static bool is_reachable(const struct beest_ipaddr *ip)
{
	return !beest_ipaddr_nobody(ip) && !beest_ipaddr_is_link_local(ip);
}

/* The reachable addresses of this host. */
struct own {
	struct beest_text text;		/* with their interfaces */
	char netdev[IF_NAMESIZE];	/* of the first; "": there is none */
	bool several_netdevs;
	int count, ipv4_count;
	struct beest_ipaddr ip;		/* one of them, of IPv4 if there is any */
};

#define OWN { .text = BEEST_TEXT(600) }

static void add_own(struct own *own, const struct ifaddrs *entry, const struct beest_ipaddr *ip)
{
	bool ipv4 = beest_ipaddr_is_ipv4(ip);

	beest_text_item(&own->text, "%s %s", entry->ifa_name, BEEST_IP_TEXT(ip));
	if (!own->netdev[0])
		beest_text_copy(own->netdev, sizeof(own->netdev), entry->ifa_name);
	own->several_netdevs |= !beest_netdev_is(entry, own->netdev);
	if (ipv4 || !own->ipv4_count)
		own->ip = *ip;
	own->ipv4_count += ipv4;
	own->count++;
}

static void list_own(struct own *own)
{
	struct ifaddrs *list = NULL, *each;
	struct beest_ipaddr ip;

	if (getifaddrs(&list) < 0)
		return;
	for (each = list; each; each = each->ifa_next)
		if (beest_ipaddr_of(each->ifa_addr, &ip) && is_reachable(&ip))
			add_own(own, each, &ip);
	freeifaddrs(list);
}

static void report_none(struct out *out, const char *why, const struct own *own)
{
	out_error(out, "%s; give --listen the address or the interface that the job's nodes "
		  "reach; this host has %s", why, own->count ? own->text.buffer : "only loopback");
}

/* Finds the address that was asked for. */
static int find_given(struct out *out, const char *given, struct beest_ipaddr *ip)
{
	struct own own = OWN;
	char netdev[IF_NAMESIZE], why[400];

	if (beest_ipaddr_parse(given, ip) < 0) {
		if (if_nametoindex(given) && beest_netdev_ip(given, AF_UNSPEC, ip))
			return STATUS_GOOD;
		snprintf(why, sizeof(why), if_nametoindex(given) ?
			 "interface %.200s has no IP address" :
			 "this host has neither an address nor an interface %.200s",
			 BEEST_QUOTE(given));
	} else {
		beest_netdev_of(ip, netdev);
		if (netdev[0])
			return STATUS_GOOD;
		snprintf(why, sizeof(why), "no interface of this host has the address %.200s",
			 given);
	}
	list_own(&own);
	report_none(out, why, &own);
	return STATUS_FAILED;
}

/* The name by which the other nodes know this one. */
static void node_name(char name[NAME_SIZE])
{
	const char *launcher = getenv("SLURMD_NODENAME");

	if (launcher && *launcher)
		beest_text_copy(name, NAME_SIZE, launcher);
	else if (gethostname(name, NAME_SIZE) < 0)
		strcpy(name, "localhost");
	name[NAME_SIZE - 1] = '\0';
}

/* An own address to which @name resolves.  False: it resolves to none that others can reach. */
static bool resolve(const char *name, struct beest_ipaddr *ip)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL, *each;
	char netdev[IF_NAMESIZE];
	bool found = false;

	if (getaddrinfo(name, NULL, &hints, &list))
		return false;
	for (each = list; each && !found; each = each->ai_next) {
		if (!beest_ipaddr_of(each->ai_addr, ip) || !is_reachable(ip))
			continue;
		beest_netdev_of(ip, netdev);
		found = netdev[0];
	}
	freeaddrinfo(list);
	return found;
}

/*
 * The node's name may resolve to loopback, as on Debian.  Then the choice is clear only if the
 * host has one address, or one interface with one address of IPv4; without any, it can serve
 * itself.
 */
static int find_own(struct out *out, struct beest_ipaddr *ip)
{
	struct own own = OWN;
	char name[NAME_SIZE], why[400];

	node_name(name);
	if (resolve(name, ip))
		return STATUS_GOOD;
	list_own(&own);
	if (!own.count) {
		out_error(out, "this host has no address that others reach: listening on "
			  "127.0.0.1, for processes of this host only");
		return beest_ipaddr_parse("127.0.0.1", ip) < 0 ? STATUS_FAILED : STATUS_GOOD;
	}
	*ip = own.ip;
	if (own.count == 1 || (!own.several_netdevs && own.ipv4_count == 1))
		return STATUS_GOOD;
	snprintf(why, sizeof(why), "the name of this node, %.200s, resolves here to no address "
		 "that others reach", name);
	report_none(out, why, &own);
	return STATUS_FAILED;
}

int reach_find(struct out *out, const char *given, char address[INET6_ADDRSTRLEN])
{
	struct beest_ipaddr ip;
	int status = given ? find_given(out, given, &ip) : find_own(out, &ip);

	if (status == STATUS_GOOD)
		beest_ipaddr_ip_text(&ip, address);
	return status;
}
