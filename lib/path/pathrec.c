/* SPDX-License-Identifier: MIT */
/* pathrec.c - see pathrec.h */
#include "config.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/path/pathrec.h"

/* The bits of the fields that are narrower than their type in a path record. */
#define SL_MASK 0x0f
#define MTU_MASK 0x3f
#define RATE_MASK 0x3f
#define LIFE_TIME_MASK 0x3f
#define FLOW_LABEL_MASK 0xfffff

void beest_pathrec_read(const struct ibv_sa_path_rec *record, uint8_t lmc,
			struct hartebeest_path *path)
{
	memcpy(path->sgid.raw, record->sgid.raw, sizeof(path->sgid.raw));
	memcpy(path->dgid.raw, record->dgid.raw, sizeof(path->dgid.raw));
	path->flow_label = be32toh(record->flow_label) & FLOW_LABEL_MASK;
	path->dlid = be16toh(record->dlid);
	path->pkey = be16toh(record->pkey);
	path->src_path_bits = (uint8_t)(be16toh(record->slid) & ((1u << lmc) - 1));
	path->sl = record->sl & SL_MASK;
	path->mtu = record->mtu & MTU_MASK;
	path->rate = record->rate & RATE_MASK;
	path->hop_limit = record->hop_limit;
	path->traffic_class = record->traffic_class;
	path->life_time = record->packet_life_time & LIFE_TIME_MASK;
}

/* ---------------------------------------------------- addresses to ask for --- */

int beest_pathrec_check(const struct beest_ipaddr *ip)
{
	const char *why = beest_ipaddr_nobody(ip);

	return why ? beest_fail(EINVAL, "%s is %s", BEEST_IP_TEXT(ip), why) : 0;
}

int beest_pathrec_parse(const char *text, struct beest_ipaddr *ip, unsigned int *scope)
{
	size_t length = strcspn(text, "%");
	char address[BEEST_QUOTE_SIZE];		/* longer than any address: a cut text is none */
	int ret;

	*scope = 0;
	snprintf(address, sizeof(address), "%.*s", (int)length, text);
	ret = beest_ipaddr_parse(address, ip);
	if (ret < 0)
		return ret;

	if (text[length]) {
		*scope = if_nametoindex(text + length + 1);
		if (!*scope)
			return beest_fail(ENODEV, "there is no network interface %s",
					  BEEST_QUOTE(text + length + 1));
	}
	return beest_pathrec_check(ip);
}
