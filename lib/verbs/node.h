/* SPDX-License-Identifier: MIT */
/*
 * node.h - why the kernel's devices cannot be used: their nodes in /dev/infiniband
 *
 * libibverbs does not distinguish a node that is missing, as in a container, from one that
 * this user may not open.  Owns the sentences that do.  Knows nothing of ports.
 */
#ifndef BEEST_NODE_H
#define BEEST_NODE_H

/* The folder of the nodes, which only tests change. */
extern const char *beest_node_folder;

/*
 * Is its node why @device could not be opened?  @dev_name: of struct ibv_device, "uverbs0".
 * -ENOENT, -EACCES or -EPERM with a sentence that names the node; 0: it is not the reason.
 */
int beest_node_check(const char *device, const char *dev_name);

/*
 * -ENODEV for a libibverbs that finds no device; the sentence names the kernel's devices, or those
 * that belong to another RDMA name space.
 */
int beest_node_fail_without(void);

#endif
