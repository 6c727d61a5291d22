/* SPDX-License-Identifier: MIT */
/* elsewhere.c - see elsewhere.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/netdev.h"
#include "lib/base/text.h"
#include "lib/verbs/elsewhere.h"
#include "lib/verbs/gidtable.h"

/* Does the port have a GID on an interface of this network? */
static bool port_has(const struct beest_device *device, const struct beest_ipaddr *ip)
{
	struct beest_gid_entry *entries;
	int i, count = beest_gidtable_entries(device, "", &entries);
	bool found = false;

	for (i = 0; i < count && !found; i++)
		found = entries[i].netdev[0] && beest_netdev_reaches(entries[i].netdev, ip);
	if (count >= 0)
		free(entries);

	return found;
}

static bool device_has(struct beest_device *device, const struct beest_device *own,
		       const struct beest_ipaddr *ip)
{
	struct ibv_port_attr attr;
	int port;

	if (ibv_query_device(device->verbs, &device->attr) != 0)
		return false;
	for (port = 1; port <= device->attr.phys_port_cnt; port++) {
		device->port = (uint8_t)port;
		snprintf(device->label, sizeof(device->label), "%s:%d", device->name, port);
		if (strcmp(device->label, own->label) == 0 ||
		    beest_device_port(device, &attr) < 0 || attr.state != IBV_PORT_ACTIVE)
			continue;
		device->ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
		if (port_has(device, ip))
			return true;
	}

	return false;
}

bool beest_elsewhere_find(const struct beest_device *own, const struct beest_ipaddr *ip,
			  char label[72])
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct beest_device device;
	bool found = false;
	size_t i;

	for (i = 0; list && list[i] && !found; i++) {
		memset(&device, 0, sizeof(device));
		beest_text_copy(device.name, sizeof(device.name), list[i]->name);
		device.verbs = ibv_open_device(list[i]);
		if (!device.verbs)
			continue;
		found = device_has(&device, own, ip);
		if (found)
			strcpy(label, device.label);
		beest_device_close(&device);
	}
	if (list)
		ibv_free_device_list(list);

	return found;
}
