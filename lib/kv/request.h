/* SPDX-License-Identifier: MIT */
/*
 * request.h - what every key-value client does with a request
 *
 * Owns the limits of keys and values, and the results before and after a request.  Pure.
 * Knows nothing of servers or connections.
 */
#ifndef BEEST_REQUEST_H
#define BEEST_REQUEST_H

#include "lib/kv/kv.h"

/* Clears the results and checks keys and sizes.  -EINVAL, -EMSGSIZE. */
int beest_request_prepare(struct beest_kv_request *request);

/*
 * Drops the results of a request that failed with @ret.  Its answered writes that are not done
 * get @ret as well.
 */
void beest_request_spoil(struct beest_kv_request *request, int ret);

/* Is any of its writes answered? */
bool beest_request_has_answers(const struct beest_kv_request *request);

/* Does the answer to its last write prove all that reading its keys could? */
bool beest_request_ends_answered(const struct beest_kv_request *request);

#endif
