/* SPDX-License-Identifier: MIT */
/*
 * gid.h - which entry of a port's GID table is this end's address?
 *
 * Owns the policy and the ranking.  Pure: a table of entries in, an index and a
 * reason out.  Knows nothing of where the entries were read.
 */
#ifndef BEEST_GID_H
#define BEEST_GID_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/ipaddr.h"
#include "lib/base/endpoint.h"

struct beest_gid_entry {
	struct beest_ipaddr gid;
	int index;			/* sgid_index: means something on this host only */
	enum beest_roce roce;		/* BEEST_ROCE_NONE on InfiniBand */
	char netdev[IF_NAMESIZE];	/* "" when the kernel does not say */
	bool netdev_down;
	int trial_error;		/* errno of an address handle from it; 0: none failed */
};

#define BEEST_GID_INDEX_MAX 255	/* ibv_global_route.sgid_index has 8 bits */

enum beest_gid_rule {
	BEEST_GID_AUTO,
	BEEST_GID_INDEX,		/* index:3 */
	BEEST_GID_VALUE,		/* gid:fe80::... */
	BEEST_GID_IP,			/* ip:10.0.0.5, ip:fd00::1 */
	BEEST_GID_SUBNET,		/* subnet:10.0.0.0/24 */
	BEEST_GID_NETDEV,		/* netdev:ib0 */
};

#define BEEST_GID_BITS 128

struct beest_gid_policy {
	enum beest_gid_rule rule;
	char text[64];			/* the rule as it was given: "ip:10.0.0.5" */
	int index;
	struct beest_ipaddr gid;	/* VALUE, IP, SUBNET */
	int prefix;			/* leading bits of gid that count */
	char netdev[IF_NAMESIZE];	/* IP: the interface that has it now, "" when none does */
	enum beest_roce roce;		/* NONE: v2 before v1; else only this one */
	int family;			/* AF_UNSPEC: IPv4 before IPv6; AF_INET, AF_INET6: only */
};

/* The text of device.gid; @roce and @family as in the struct.  -EINVAL says what is wrong. */
int beest_gid_policy_parse(const char *gid, enum beest_roce roce, int family,
			   struct beest_gid_policy *policy);

/*
 * device.addr is device.gid=ip: under a name of its own: -EINVAL when both choose.
 * @addr may be NULL.
 */
int beest_gid_policy_local(const char *addr, struct beest_gid_policy *policy);

/*
 * Returns the position in @entries, and in @reason why this one and why not the
 * others, for people.  -ENODATA when nothing fits: a policy is never replaced by
 * another choice; the sentence lists what was there.
 *
 * No entry beyond BEEST_GID_INDEX_MAX, which no address handle can name.
 *
 * InfiniBand (all entries BEEST_ROCE_NONE): the lowest index unless the policy
 * says otherwise.  RoCE: no zero GID, no link-local GID without interface part,
 * no interface that is down; then known interface first, v2 before v1, wanted family
 * (IPv4 first), wide scope before link-local, physical before docker*, cni*, flannel*,
 * cali*, vxlan*, br-*, veth*, lowest index.
 */
int beest_gid_choose(const struct beest_gid_entry *entries, size_t count,
		     const struct beest_gid_policy *policy, char *reason, size_t size);

#endif
