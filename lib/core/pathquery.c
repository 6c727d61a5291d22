/* SPDX-License-Identifier: MIT */
/* pathquery.c - see pathquery.h */
#include "config.h"

#include "lib/verbs/port.h"
#include "lib/core/pathquery.h"
#include "lib/path/rdmacm.h"

/* Finds where a path starts.  *from stays NULL if the kernel may choose. */
static int local_ip(struct hartebeest_context *hb, const struct beest_limit *limit,
		    struct beest_ipaddr *ip, const struct beest_ipaddr **from)
{
	int ret = 0;

	if (hb->policy.rule == BEEST_GID_IP) {
		*ip = hb->policy.gid;
	} else {
		if (!hb->options.device_name && !beest_context_has_device(hb))
			return 0;
		ret = beest_context_need_device(hb, limit);
		if (ret == 0)
			ret = beest_port_ip(&hb->device, &hb->policy, ip);
	}
	if (ret == 0)
		*from = ip;
	return ret;
}

/* If our address is of another family than the target, the kernel chooses where the path starts. */
int beest_pathquery_ask(struct hartebeest_context *hb, const char *text,
			const struct beest_limit *limit, struct hartebeest_path *path)
{
	struct beest_rdmacm_query question = {
		.tos = (uint8_t)hb->options.qp[BEEST_RC].traffic_class,
		.limit = limit,
	};
	struct beest_ipaddr from, to;
	int ret;

	ret = beest_pathrec_parse(text, &to, &question.scope);
	if (ret == 0)
		ret = local_ip(hb, limit, &from, &question.from);
	if (ret < 0)
		return ret;

	question.to = &to;
	if (question.from && beest_ipaddr_is_ipv4(&from) != beest_ipaddr_is_ipv4(&to))
		question.from = NULL;
	return beest_rdmacm_resolve(&question, path);
}
