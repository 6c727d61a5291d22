/* SPDX-License-Identifier: MIT */
/*
 * device.h - one port of one verbs device
 *
 * Owns the ibv_context and what can be read from port, GID table and P_Key table.
 * Knows nothing of queue pairs, records or other ranks.
 */
#ifndef BEEST_DEVICE_H
#define BEEST_DEVICE_H

#include <infiniband/verbs.h>

#include "lib/verbs/gid.h"
#include "lib/base/log.h"

/* Room for a choice and its refusals. */
#define BEEST_REASON_SIZE 800

struct beest_device {
	struct ibv_context *verbs;
	struct ibv_device_attr attr;
	char name[64];			/* "mlx5_0" */
	char label[72];			/* "mlx5_0:1", as sentences and records say it */
	uint8_t port;
	bool soft_roce;			/* rdma_rxe, which takes retry_cnt 7 for ever */
	bool ethernet;			/* link layer when the port was opened */
	char passed_over[BEEST_REASON_SIZE];	/* other ports, and why not them */
};

/* -EINVAL for what can be no @name below, on whatever machine. */
int beest_device_name_check(const char *name);

/*
 * @name: "mlx5_0", "mlx5_0:1", or NULL for the first port that is up, RoCE and
 * InfiniBand alike.  The policy rules VALUE, IP, SUBNET and NETDEV choose among ports
 * by their GID table unless @name gives the port.  @policy may be NULL.
 *
 * -ENOSYS: the machine has no RDMA support at all; -ENODEV: no such device
 * (nearest known named) or no device; -ENXIO: no such port; -ENETDOWN: the port is
 * not active (state named); -EPROTONOSUPPORT: iWARP; -EACCES and other errno of
 * ibv_open_device(3), with a hint at /dev/infiniband; -ENODATA: no port's GID table
 * suits the policy (listing what there is).  Nothing stays open then.
 */
int beest_device_open(struct beest_device *device, const char *name,
		      const struct beest_gid_policy *policy, const struct beest_log *log);

/* Accepts a device that was never opened (all zero). */
void beest_device_close(struct beest_device *device);

/* Reads the port at each call: LID, MTU and state change while a job runs. */
int beest_device_port(const struct beest_device *device, struct ibv_port_attr *attr);

/*
 * All readable, non-zero entries; sparse tables, unreadable entries and those of
 * another network namespace are skipped.  *entries is for free(3).  Returns the
 * count, or a negative errno.
 */
int beest_device_gids(const struct beest_device *device, struct beest_gid_entry **entries);

/*
 * The GID of this end by policy, and the reason for people in BEEST_REASON_SIZE bytes.
 * It is tried with an address handle to itself where @pd is given (RoCE only).  The next
 * best is taken when that fails with an errno that speaks of the GID; another errno, such
 * as -ENOMEM, is returned.
 */
int beest_device_gid(const struct beest_device *device, struct ibv_pd *pd,
		     const struct beest_gid_policy *policy, const struct beest_log *log,
		     struct beest_gid_entry *chosen, char *reason);

/* Are both the same GID, RoCE version and interface, whatever their index? */
bool beest_device_gid_same(const struct beest_gid_entry *a, const struct beest_gid_entry *b);

/* Does the table still have this GID at entry->index?  Reads that one entry. */
bool beest_device_gid_holds(const struct beest_device *device,
			    const struct beest_gid_entry *entry);

/*
 * Finds the present index of the GID of @entry: addresses come and go while a job runs,
 * and the table moves with them.  Reads one entry where it holds, unless @search asks for
 * the whole table.  1: entry->index is another now, 0: it is not, -ENODATA: the GID is
 * gone, with a list of what there is.
 */
int beest_device_gid_relocate(const struct beest_device *device, bool search,
			      struct beest_gid_entry *entry);

/*
 * The IP address of this end, which librdmacm knows peers by: the policy's; else the
 * GID itself where it is one of wide scope; else one of its interface.  Zero when
 * there is none: InfiniBand without IPoIB.
 */
void beest_device_ip(const struct beest_gid_entry *entry, const struct beest_gid_policy *policy,
		     struct beest_ipaddr *ip);

/*
 * Index of @wanted (low 15 bits; a full member is preferred), or of the first full
 * member when @wanted is 0, then of the first limited one; RoCE: index 0.  @pkey is
 * the value found, host byte order.  -ENODATA lists what the port has.
 */
int beest_device_pkey(const struct beest_device *device, uint16_t wanted,
		      uint16_t *index, uint16_t *pkey);

/* "active", "down", ... for ibv_port_attr.state. */
const char *beest_device_state_text(enum ibv_port_state state);

#endif
