/* SPDX-License-Identifier: MIT */
/*
 * gid.h - which entry of a port's GID table is this end's address?
 *
 * Owns the policy and the ranking.  Pure: a table of entries in, an index and a reason
 * out.  Knows nothing of where the entries were read.
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
	int index;			/* sgid_index: meaningful on this host only */
	enum beest_roce roce;		/* BEEST_ROCE_NONE on InfiniBand */
	char netdev[IF_NAMESIZE];	/* "": the kernel names none */
	bool netdev_down;
	int trial_error;		/* errno of its trial address handle; 0: none failed */
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
	char text[64];			/* the rule as given: "ip:10.0.0.5" */
	char origin[256];		/* " (HARTEBEEST_GID)", for sentences; or "" */
	int index;
	struct beest_ipaddr gid;	/* VALUE, IP, SUBNET */
	int prefix;			/* leading bits of gid that count */
	char netdev[IF_NAMESIZE];	/* NETDEV; IP: the one with that address, "": none */
	enum beest_roce roce;		/* NONE: v2 before v1; else only this one */
	int family;			/* AF_UNSPEC: IPv4 before IPv6; else only this one */
};

/* Parses device.gid.  @roce and @family as in the struct.  -EINVAL names what is wrong. */
int beest_gid_policy_parse(const char *gid, enum beest_roce roce, int family,
			   struct beest_gid_policy *policy);

/*
 * Applies device.addr, which is short for device.gid=ip:@addr.  -EINVAL: device.gid
 * chooses as well, or @addr is no address.  @addr may be NULL.
 */
int beest_gid_policy_local(const char *addr, struct beest_gid_policy *policy);

/*
 * Returns the position of the chosen entry.  @reason is for people: why it was chosen, and
 * why the others were not.  -ENODATA: no entry fits, and the sentence lists them all; a
 * policy is never replaced by another choice.
 *
 * Refused are empty entries, entries whose trial failed, and those beyond
 * BEEST_GID_INDEX_MAX, which no address handle can name.  RoCE also refuses a link-local
 * GID without interface part and an interface that is down.
 *
 * InfiniBand (all entries BEEST_ROCE_NONE) takes the lowest index that is left.  RoCE
 * prefers in this order: known interface, v2 to v1, IPv4 to IPv6, wide scope to
 * link-local, physical interface to docker*, cni*, flannel*, cali*, vxlan*, br-* and
 * veth*, lowest index.
 */
int beest_gid_choose(const struct beest_gid_entry *entries, size_t count,
		     const struct beest_gid_policy *policy, char *reason, size_t size);

/*
 * What the GID @entry lacks that @other has, be they of one port or of two, in the order of
 * preference above, in words; NULL: nothing.  @other NULL: any GID that @policy allows.  A zero
 * @entry is a port without a GID.  An InfiniBand GID lacks nothing.
 */
const char *beest_gid_lacks(const struct beest_gid_entry *entry,
			    const struct beest_gid_entry *other,
			    const struct beest_gid_policy *policy);

/* "::ffff:10.0.0.1, RoCE v2, eth0" */
#define BEEST_GID_ENTRY_SIZE 96
const char *beest_gid_entry_text(const struct beest_gid_entry *entry,
				 char text[BEEST_GID_ENTRY_SIZE]);

#endif
