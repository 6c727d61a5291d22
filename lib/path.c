/* SPDX-License-Identifier: MIT */
/* path.c - see path.h */
#include "config.h"

#include "lib/address.h"
#include "lib/clock.h"
#include "lib/path.h"
#include "lib/resolve.h"

/* Where a path is to start: *from stays NULL where the kernel may choose. */
static int local_ip(struct hartebeest *hb, struct beest_gid *ip, const struct beest_gid **from)
{
	const struct beest_device *device;
	int ret = 0;

	if (hb->policy.rule == BEEST_GID_IP) {
		*ip = hb->policy.gid;
	} else {
		if (!hb->options.device_name && !beest_context_has_device(hb))
			return 0;
		ret = beest_context_device(hb, &device);
		if (ret == 0)
			ret = beest_address_ip(device, &hb->policy, ip);
	}
	if (ret == 0)
		*from = ip;
	return ret;
}

/* A start of the other family than the goal is no start: the kernel chooses. */
int beest_path_ask(struct hartebeest *hb, const char *text, struct beest_route *route)
{
	struct beest_question question = {
		.tos = (uint8_t)hb->options.qp[BEEST_RC].traffic_class,
		.deadline = beest_deadline(hb->options.timeout),
	};
	struct beest_gid from, to;
	int ret;

	ret = beest_route_parse(text, &to, &question.scope);
	if (ret == 0)
		ret = local_ip(hb, &from, &question.from);
	if (ret < 0)
		return ret;

	question.to = &to;
	if (question.from && beest_gid_is_ipv4(&from) != beest_gid_is_ipv4(&to))
		question.from = NULL;
	return beest_resolve(&question, route);
}
