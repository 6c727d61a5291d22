/* SPDX-License-Identifier: MIT */
/* network.c - see network.h */
#include "config.h"

#include <infiniband/verbs.h>
#include <stddef.h>

#include "lib/base/macro.h"
#include "lib/verbs/network.h"

static const struct {
	int value;
	struct beest_network network;
} link_layers[] = {
	{ IBV_LINK_LAYER_INFINIBAND, { "InfiniBand", NULL } },
	{ IBV_LINK_LAYER_ETHERNET, { "RoCE", NULL } },
}, transports[] = {
	{ IBV_TRANSPORT_IWARP, { "iWARP", "iWARP, whose connections only rdma_cm can make" } },
	{ IBV_TRANSPORT_USNIC, { "usNIC", "usNIC, which has datagrams only" } },
	{ IBV_TRANSPORT_USNIC_UDP, { "usNIC", "usNIC, which has datagrams only" } },
};

const struct beest_network *beest_network_of(int transport, uint8_t link_layer)
{
	static const struct beest_network other = {
		"other", "neither InfiniBand nor RoCE: such devices, Amazon's EFA for instance, "
		"have queue pairs of another kind, which libfabric can connect"
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(transports); i++)
		if (transports[i].value == transport)
			return &transports[i].network;
	for (i = 0; transport == IBV_TRANSPORT_IB && i < BEEST_COUNT(link_layers); i++)
		if (link_layers[i].value == link_layer)
			return &link_layers[i].network;
	return &other;
}
