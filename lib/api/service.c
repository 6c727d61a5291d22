/* SPDX-License-Identifier: MIT */
/* service.c - exported functions of services */
#include "config.h"

#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/core/context.h"
#include "lib/core/service.h"

HARTEBEEST_EXPORT int hartebeest_service_listen(struct hartebeest_context *hb,
						const char *service, int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, service);
	return beest_call_waited(hb, &limit, beest_service_listen(hb, service, &limit));
}

HARTEBEEST_EXPORT int hartebeest_service_accept(struct hartebeest_context *hb,
						const char *service,
						struct hartebeest_client *client,
						int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, service, client);
	return beest_call_idled(hb, &limit, beest_service_accept(hb, service, client, &limit));
}

HARTEBEEST_EXPORT int hartebeest_service_request(struct hartebeest_context *hb,
						 const char *service, const void *data,
						 size_t length,
						 struct hartebeest_client *client,
						 int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, service, client);
	if (!data && length)
		return beest_call_refuse(hb, __func__, "data is NULL");
	return beest_call_waited(hb, &limit, beest_service_request(hb, service, data, length,
								   client, &limit));
}

HARTEBEEST_EXPORT int hartebeest_service_leave(struct hartebeest_context *hb,
					       const char *service,
					       const struct hartebeest_client *client)
{
	REQUIRE(hb, service, client);
	return beest_call_done(hb, beest_service_leave(hb, service, client));
}

HARTEBEEST_EXPORT int hartebeest_service_close(struct hartebeest_context *hb,
					       const char *service)
{
	REQUIRE(hb, service);
	return beest_call_done(hb, beest_service_close(hb, service));
}
