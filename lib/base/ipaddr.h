/* SPDX-License-Identifier: MIT */
/*
 * ipaddr.h - 128-bit addresses: IPv6, IPv4 mapped into it, and GIDs, which look the same
 *
 * Owns their text form and their classes.  Pure.  Knows nothing of interfaces, ports or GID
 * tables.
 */
#ifndef BEEST_IPADDR_H
#define BEEST_IPADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* In network byte order, like union ibv_gid; IPv4 is ::ffff:a.b.c.d. */
struct beest_ipaddr {
	uint8_t raw[16];
};

/* The address in a socket address; false: @address is NULL or of another family. */
bool beest_ipaddr_of(const struct sockaddr *address, struct beest_ipaddr *ip);

/* Reads an IPv4 or IPv6 address; -EINVAL: @text is neither. */
int beest_ipaddr_parse(const char *text, struct beest_ipaddr *ip);

/* "::ffff:10.0.0.1", for people.  The macros' texts live as long as the block. */
#define BEEST_GID_TEXT(gid) beest_ipaddr_text((gid), (char[INET6_ADDRSTRLEN]){ 0 })
const char *beest_ipaddr_text(const struct beest_ipaddr *gid, char text[INET6_ADDRSTRLEN]);

/* "10.0.0.1" or "fd00::1": IPv4 as people write it. */
#define BEEST_IP_TEXT(ip) beest_ipaddr_ip_text((ip), (char[INET6_ADDRSTRLEN]){ 0 })
const char *beest_ipaddr_ip_text(const struct beest_ipaddr *ip, char text[INET6_ADDRSTRLEN]);

bool beest_ipaddr_is_ipv4(const struct beest_ipaddr *gid);
bool beest_ipaddr_is_link_local(const struct beest_ipaddr *gid);	/* fe80::/10, 169.254/16 */
bool beest_ipaddr_is_zero(const struct beest_ipaddr *gid);
bool beest_ipaddr_is_wildcard(const struct beest_ipaddr *ip);	/* 0.0.0.0/8, :: */

/*
 * Why no single interface of another host can have this address (unspecified, loopback,
 * multicast or broadcast), worded to follow "ADDRESS is "; NULL: an interface can.
 */
const char *beest_ipaddr_nobody(const struct beest_ipaddr *ip);

/* True when the first @bits bits of both are equal. */
bool beest_ipaddr_has_prefix(const struct beest_ipaddr *gid, const struct beest_ipaddr *wanted,
			     int bits);

#endif
