/* SPDX-License-Identifier: MIT */
/*
 * address.h - this end's address: which it is, and why this one
 *
 * Owns the words about a choice that device.c and gid.c make.  Keeps nothing: it reads
 * the tables again at each call.  Knows nothing of queue pairs.
 */
#ifndef BEEST_ADDRESS_H
#define BEEST_ADDRESS_H

#include "lib/verbs/device.h"

/*
 * Port, GID, P_Key and IP address with the reason for each and the refusals of the
 * others, cut to fit.  @wanted as for beest_device_pkey().  Fails as the choice does,
 * the sentence then having all refusals.
 */
int beest_address_text(const struct beest_device *device, const struct beest_gid_policy *policy,
		       uint16_t wanted, char *text, size_t size);

/* The IP of this end; -EADDRNOTAVAIL when it has none. */
int beest_address_ip(const struct beest_device *device, const struct beest_gid_policy *policy,
		     struct beest_ipaddr *ip);

#endif
