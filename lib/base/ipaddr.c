/* SPDX-License-Identifier: MIT */
/* ipaddr.c - see ipaddr.h */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/ipaddr.h"

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

bool beest_ipaddr_is_ipv4(const struct beest_ipaddr *gid)
{
	return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

bool beest_ipaddr_is_zero(const struct beest_ipaddr *gid)
{
	static const struct beest_ipaddr zero;

	return memcmp(gid, &zero, sizeof(zero)) == 0;
}

/* The casts are safe: libc aligns the addresses that it returns. */
bool beest_ipaddr_of(const struct sockaddr *address, struct beest_ipaddr *ip)
{
	const void *of = address;

	if (!address || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
		return false;

	memcpy(ip->raw, mapped, sizeof(mapped));
	if (address->sa_family == AF_INET)
		memcpy(ip->raw + sizeof(mapped), &((const struct sockaddr_in *)of)->sin_addr, 4);
	else
		memcpy(ip->raw, &((const struct sockaddr_in6 *)of)->sin6_addr, 16);
	return true;
}

/* Linux treats all of 0.0.0.0/8 as this host. */
bool beest_ipaddr_is_wildcard(const struct beest_ipaddr *ip)
{
	return beest_ipaddr_is_ipv4(ip) ? ip->raw[12] == 0 : beest_ipaddr_is_zero(ip);
}

/* Accepts 240.0.0.0/4, which Linux treats as host addresses. */
const char *beest_ipaddr_nobody(const struct beest_ipaddr *ip)
{
	static const struct beest_ipaddr loopback = { { [15] = 1 } };
	static const uint8_t broadcast[4] = { 255, 255, 255, 255 };
	const uint8_t *v4 = ip->raw + sizeof(mapped);
	bool ipv4 = beest_ipaddr_is_ipv4(ip);

	if (beest_ipaddr_is_wildcard(ip))
		return "not the address of a single host";
	if (ipv4 ? v4[0] == 127 : memcmp(ip, &loopback, sizeof(loopback)) == 0)
		return "a loopback address, which every host has";
	if (ipv4 ? (v4[0] & 0xf0) == 224 : ip->raw[0] == 0xff)
		return "a multicast address, which belongs to no single peer";
	if (ipv4 && memcmp(v4, broadcast, sizeof(broadcast)) == 0)
		return "the broadcast address";
	return NULL;
}

bool beest_ipaddr_is_link_local(const struct beest_ipaddr *gid)
{
	if (beest_ipaddr_is_ipv4(gid))
		return gid->raw[12] == 169 && gid->raw[13] == 254;
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

bool beest_ipaddr_has_prefix(const struct beest_ipaddr *gid, const struct beest_ipaddr *wanted,
			     int bits)
{
	int bytes = bits / 8, rest = bits % 8;

	if (memcmp(gid->raw, wanted->raw, (size_t)bytes) != 0)
		return false;
	return rest == 0 || ((gid->raw[bytes] ^ wanted->raw[bytes]) >> (8 - rest)) == 0;
}

const char *beest_ipaddr_text(const struct beest_ipaddr *gid, char text[INET6_ADDRSTRLEN])
{
	return inet_ntop(AF_INET6, gid->raw, text, INET6_ADDRSTRLEN);
}

const char *beest_ipaddr_ip_text(const struct beest_ipaddr *ip, char text[INET6_ADDRSTRLEN])
{
	if (!beest_ipaddr_is_ipv4(ip))
		return beest_ipaddr_text(ip, text);
	return inet_ntop(AF_INET, ip->raw + sizeof(mapped), text, INET6_ADDRSTRLEN);
}

int beest_ipaddr_parse(const char *text, struct beest_ipaddr *ip)
{
	struct beest_ipaddr parsed;

	memcpy(parsed.raw, mapped, sizeof(mapped));
	if (inet_pton(AF_INET, text, parsed.raw + sizeof(mapped)) != 1 &&
	    inet_pton(AF_INET6, text, parsed.raw) != 1)
		return beest_fail(EINVAL, "%s is not an IPv4 or IPv6 address", BEEST_QUOTE(text));
	*ip = parsed;
	return 0;
}
