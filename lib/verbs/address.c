/* SPDX-License-Identifier: MIT */
/* address.c - see address.h */
#include "config.h"

#include <arpa/inet.h>
#include <string.h>

#include "lib/verbs/address.h"
#include "lib/base/error.h"
#include "lib/base/text.h"

/* The same words would go to the log at each call. */
static const struct beest_log quiet = { .level = BEEST_LOG_NONE };

int beest_address_text(const struct beest_device *device, const struct beest_gid_policy *policy,
		       uint16_t wanted, char *buffer, size_t size)
{
	char reason[BEEST_REASON_SIZE], address[INET6_ADDRSTRLEN];
	struct beest_gid_entry gid;
	struct beest_text text;
	uint16_t index, pkey;
	struct beest_ipaddr ip;
	struct ibv_pd *pd;
	int ret;

	/* A temporary protection domain: without one no entry is tried. */
	errno = 0;
	pd = ibv_alloc_pd(device->verbs);
	if (!pd) {
		ret = beest_error_errno();
		return beest_fail(-ret, "%s: cannot allocate a protection domain: %s",
				  device->label, strerror(-ret));
	}
	ret = beest_device_gid(device, pd, policy, &quiet, &gid, reason);
	ibv_dealloc_pd(pd);
	if (ret == 0)
		ret = beest_device_pkey(device, wanted, &index, &pkey);
	if (ret < 0)
		return ret;

	beest_device_ip(&gid, policy, &ip);
	beest_ipaddr_ip_text(&ip, address, sizeof(address));
	beest_text_start(&text, buffer, size);
	beest_text_add(&text, "port %s%s", device->label,
		       device->soft_roce ? " (Soft-RoCE)" : "");
	if (device->passed_over[0])
		beest_text_add(&text, ", passed over: %s", device->passed_over);
	if (beest_ipaddr_is_zero(&ip))
		beest_text_item(&text, "no IP address");
	else
		beest_text_item(&text, "IP address %s", address);
	beest_text_item(&text, "P_Key 0x%04x at index %d", pkey, index);
	beest_text_item(&text, "GID %s", reason);
	return 0;
}

int beest_address_ip(const struct beest_device *device, const struct beest_gid_policy *policy,
		     struct beest_ipaddr *ip)
{
	char reason[BEEST_REASON_SIZE];
	struct beest_gid_entry gid;
	int ret;

	ret = beest_device_gid(device, NULL, policy, &quiet, &gid, reason);
	if (ret < 0)
		return ret;

	beest_device_ip(&gid, policy, ip);
	if (beest_ipaddr_is_zero(ip))
		return beest_fail(EADDRNOTAVAIL, "port %s has no IP address, by which rdma_cm would "
				  "know it%s", device->label, device->ethernet ? "" :
				  ": InfiniBand needs IPoIB (the kernel module ib_ipoib) with an "
				  "address");
	return 0;
}
