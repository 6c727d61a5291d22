/* SPDX-License-Identifier: MIT */
/*
 * selection.h - which port of which device this process uses
 *
 * Owns opening a device by its name, by its distance, or by what its ports offer, and the
 * reasons against the others.  Knows nothing of queue pairs, and keeps nothing.
 */
#ifndef BEEST_SELECTION_H
#define BEEST_SELECTION_H

#include "lib/base/log.h"
#include "lib/verbs/device.h"
#include "lib/verbs/gid.h"

/* -EINVAL: @name cannot be a name for beest_selection_open() on any machine. */
int beest_selection_check(const char *name);

/*
 * @name: "mlx5_0", "mlx5_0:1", or NULL for any.  "mlx5_0,mlx5_1": the local ranks take the
 * entries in turn; @local_rank -1: unknown, the first entry.  "mlx5_*,mlx4_0": one of these, where
 * each local rank starts with a different one; "^mlx5_bond_*": any but these; see names.h.
 * "near:numa", "near:pci:0000:65:00.0": the nearest device that is up; among equally near ones,
 * each local rank starts with a different one.
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
int beest_selection_open(struct beest_device *device, const char *name, int local_rank,
			 const struct beest_gid_policy *policy, const struct beest_log *log);

/*
 * The same for a device that the program opened and closes.  @port 0: any port, as for a
 * @name without a port.
 */
int beest_selection_borrow(struct beest_device *device, struct ibv_context *verbs, int port,
			   const struct beest_gid_policy *policy, const struct beest_log *log);

#endif
