/* SPDX-License-Identifier: MIT */
/*
 * device.h - one port of one verbs device
 *
 * Owns the ibv_context, the port number, and reading the port and its P_Key table.  Knows
 * nothing of queue pairs, records or other ranks.
 */
#ifndef BEEST_DEVICE_H
#define BEEST_DEVICE_H

#include <infiniband/verbs.h>

#include "lib/verbs/gid.h"
#include "lib/base/log.h"

/* Bytes for the text of a choice, with all refusals. */
#define BEEST_REASON_SIZE 800

struct beest_device {
	struct ibv_context *verbs;
	struct ibv_device_attr attr;
	char name[64];			/* "mlx5_0" */
	char label[72];			/* "mlx5_0:1", for sentences and records */
	uint8_t port;
	bool soft_roce;			/* rdma_rxe, to which retry_cnt 7 means forever */
	bool ethernet;			/* link layer at the time of opening */
	bool borrowed;			/* the program opened it, and closes it */
	char choice[96];		/* how local rank or distance decided; "": neither did */
	char passed_over[BEEST_REASON_SIZE];	/* other ports, each with the reason */
};

/* -EINVAL: @name cannot be a name for beest_device_open() on any machine. */
int beest_device_name_check(const char *name);

/*
 * @name: "mlx5_0", "mlx5_0:1", or NULL for any.  "mlx5_0,mlx5_1": the local ranks take the
 * entries in turn; @local_rank -1: unknown, the first entry.  "near:numa",
 * "near:pci:0000:65:00.0": the nearest device that is up; among equally near ones, each local
 * rank starts with a different one.
 *
 * Of several ports that are up, the one is taken whose best GID by @policy is best, by
 * beest_gid_lacks(), and of equals the first; a port number in @name overrides this.  With the
 * policy rules VALUE, IP, SUBNET and NETDEV a port must have such a GID; with the others, a port
 * without one is taken if all are.  @policy NULL: the first port.
 *
 * -ENODEV: no such device (the sentence suggests the nearest name) or no device at all, also
 * where the kernel has no RDMA support; -ENXIO: no such port; -ENETDOWN: the port is not
 * active (state named); -EPROTONOSUPPORT: neither InfiniBand nor RoCE; -EACCES and other errno of
 * ibv_open_device(3), with a hint at /dev/infiniband; -ENODATA: no port's GID table suits
 * the policy (the sentence lists the tables), or no device has a place in sysfs (near:).
 * After an error nothing stays open.
 */
int beest_device_open(struct beest_device *device, const char *name, int local_rank,
		      const struct beest_gid_policy *policy, const struct beest_log *log);

/*
 * The same for a device that the program opened and closes.  @port 0: any port, as for a
 * @name without a port.
 */
int beest_device_borrow(struct beest_device *device, struct ibv_context *verbs, int port,
			const struct beest_gid_policy *policy, const struct beest_log *log);

/* Accepts a device that was never opened (all zero). */
void beest_device_close(struct beest_device *device);

/* Queries the port on each call, since LID, MTU and state change while a job runs. */
int beest_device_port(const struct beest_device *device, struct ibv_port_attr *attr);

/*
 * Finds the P_Key @wanted (its low 15 bits, preferably as a full member), or for 0 the first
 * full member, else the first limited one.  RoCE: index 0.  @pkey: the value found, host
 * byte order.  -ENODATA: not found, and the sentence lists the port's P_Keys.
 */
int beest_device_pkey(const struct beest_device *device, uint16_t wanted,
		      uint16_t *index, uint16_t *pkey);

/* The P_Key at @index; errno of ibv_query_pkey(3). */
int beest_device_pkey_at(const struct beest_device *device, uint16_t index, uint16_t *pkey);

/* "active", "down", ... for ibv_port_attr.state. */
const char *beest_device_state_text(enum ibv_port_state state);

#endif
