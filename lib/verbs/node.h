/* SPDX-License-Identifier: MIT */
/*
 * node.h - why the kernel's devices cannot be used: their nodes in /dev/infiniband
 *
 * libibverbs does not tell a node that is missing, as in a container, from one that this user
 * may not open.  Owns these sentences.  Knows nothing of ports.
 */
#ifndef BEEST_NODE_H
#define BEEST_NODE_H

/* Where the nodes are; only tests have them elsewhere. */
extern const char *beest_node_folder;

/*
 * Of a device that could not be opened; @dev_name: as struct ibv_device has it, "uverbs0".
 * -ENOENT or -EACCES with a sentence that names the node; 0: the node is not the reason.
 */
int beest_node_check(const char *device, const char *dev_name);

/* Where libibverbs finds no device at all: -ENODEV, and what the kernel has. */
int beest_node_fail_without(void);

#endif
