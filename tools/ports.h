/* SPDX-License-Identifier: MIT */
/*
 * ports.h - every port of every verbs device of this machine, in words
 *
 * Owns what libibverbs and sysfs know of a port.  Knows nothing of which port is chosen.
 */
#ifndef TOOLS_PORTS_H
#define TOOLS_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "lib/base/endpoint.h"
#include "lib/verbs/network.h"

struct ports_port {
	char device[64];
	int port;
	struct ibv_device_attr limits;
	struct ibv_port_attr attr;
	char netdev[64];		/* "": unknown */
	int64_t rate;			/* Mbit/s, by sysfs; 0: unknown */
	struct beest_ece ece;		/* of a queue pair; vendor 0: it has no options */
	int numa;			/* -1: unknown, or the machine has one node only */
	uint16_t pkeys[8];		/* the first that are not 0, in host byte order */
	int pkey_count;
	const struct beest_network *network;
	bool ethernet;			/* RoCE */
	int error;			/* errno of opening or a query; the rest is unknown then */
	char why[600];			/* the library's sentence about it */
};

/*
 * Returns the number of ports in *list, which is for free(3), or the negative errno
 * of ibv_get_device_list(3).  A device that cannot be opened is listed as port 0.
 */
int ports_list(struct ports_port **list);

/* "active", "down", "initializing". */
const char *ports_state(const struct ports_port *port);
bool ports_active(const struct ports_port *port);

/* Is it active, and can the library connect there? */
bool ports_usable(const struct ports_port *port);

/* In Mbit/s; 0: unknown. */
int64_t ports_rate(const struct ports_port *port);

/* What to do about a port that has an error or is not active. */
#define PORTS_CURE 256
const char *ports_cure(const struct ports_port *port, char cure[PORTS_CURE]);

/* What to do if none of these ports can be chosen. */
const char *ports_choice_cure(const struct ports_port *list, int count);

/* Converts to bytes; 0: unknown. */
int ports_mtu(enum ibv_mtu mtu);

#endif
