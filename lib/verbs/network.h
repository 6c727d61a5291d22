/* SPDX-License-Identifier: MIT */
/*
 * network.h - InfiniBand, RoCE, or a network on which the library cannot connect
 *
 * Owns the names of networks, and why a device is none for this library.  Pure.  Knows nothing of
 * the state of a port.
 */
#ifndef BEEST_NETWORK_H
#define BEEST_NETWORK_H

#include <stdint.h>

struct beest_network {
	const char *name;		/* "RoCE" */
	const char *refusal;		/* to follow "DEVICE is "; NULL: the library can connect */
};

/*
 * @transport: of struct ibv_device.  @link_layer: of struct ibv_port_attr; it counts on transports
 * of InfiniBand's kind only, so before a port was queried any of the two will do.
 */
const struct beest_network *beest_network_of(int transport, uint8_t link_layer);

#endif
