/* SPDX-License-Identifier: MIT */
/*
 * device.h - one port of one verbs device
 *
 * Owns the ibv_context, which port it is, and what can be read from port and P_Key table.
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
	bool borrowed;			/* the program opened it, and closes it */
	char choice[96];		/* how local rank or distance chose; "": neither did */
	char passed_over[BEEST_REASON_SIZE];	/* other ports, and why not them */
};

/* -EINVAL for what can be no @name below, on whatever machine. */
int beest_device_name_check(const char *name);

/*
 * @name: "mlx5_0", "mlx5_0:1", or NULL for the first port that is up, RoCE and InfiniBand
 * alike.  "mlx5_0,mlx5_1": that whose turn it is by @local_rank; -1: unknown, the first.
 * "near:numa", "near:pci:0000:65:00.0": the nearest that is up; of those that are equally
 * near, each local rank begins with another.  The policy rules VALUE, IP, SUBNET and NETDEV
 * choose among ports by their GID table unless @name gives the port.  @policy may be NULL.
 *
 * -ENODEV: no such device (nearest known named) or no device, also where the kernel has no
 * RDMA support; -ENXIO: no such port; -ENETDOWN: the port is not active (state named);
 * -EPROTONOSUPPORT: iWARP; -EACCES and other errno of ibv_open_device(3), with a hint at
 * /dev/infiniband; -ENODATA: no port's GID table suits the policy (listing what there is), or
 * no device has a place in sysfs (near:).  Nothing stays open then.
 */
int beest_device_open(struct beest_device *device, const char *name, int local_rank,
		      const struct beest_gid_policy *policy, const struct beest_log *log);

/*
 * A port of what the program opened; 0: as if nothing but the device had been named.
 * Errors of beest_device_open().
 */
int beest_device_borrow(struct beest_device *device, struct ibv_context *verbs, int port,
			const struct beest_gid_policy *policy, const struct beest_log *log);

/* Accepts a device that was never opened (all zero). */
void beest_device_close(struct beest_device *device);

/* Reads the port at each call: LID, MTU and state change while a job runs. */
int beest_device_port(const struct beest_device *device, struct ibv_port_attr *attr);

/*
 * Index of @wanted (low 15 bits; a full member is preferred), or of the first full
 * member when @wanted is 0, then of the first limited one; RoCE: index 0.  @pkey is
 * the value found, host byte order.  -ENODATA lists what the port has.
 */
int beest_device_pkey(const struct beest_device *device, uint16_t wanted,
		      uint16_t *index, uint16_t *pkey);

/* The P_Key at @index; errno of ibv_query_pkey(3). */
int beest_device_pkey_at(const struct beest_device *device, uint16_t index, uint16_t *pkey);

/* "active", "down", ... for ibv_port_attr.state. */
const char *beest_device_state_text(enum ibv_port_state state);

#endif
