/* SPDX-License-Identifier: MIT */
/*
 * ah.h - the attributes of an address handle, compared field by field
 *
 * memcmp(3) will not do, since the struct has padding.
 */
#ifndef TESTS_AH_H
#define TESTS_AH_H

#include <infiniband/verbs.h>

#include "tests/support/unit.h"

static inline void assert_ah_is(const struct ibv_ah_attr *is, const struct ibv_ah_attr *wanted)
{
	assert_memory_equal(is->grh.dgid.raw, wanted->grh.dgid.raw, 16);
	assert_int_equal(is->grh.flow_label, wanted->grh.flow_label);
	assert_int_equal(is->grh.sgid_index, wanted->grh.sgid_index);
	assert_int_equal(is->grh.hop_limit, wanted->grh.hop_limit);
	assert_int_equal(is->grh.traffic_class, wanted->grh.traffic_class);
	assert_int_equal(is->dlid, wanted->dlid);
	assert_int_equal(is->sl, wanted->sl);
	assert_int_equal(is->src_path_bits, wanted->src_path_bits);
	assert_int_equal(is->static_rate, wanted->static_rate);
	assert_int_equal(is->is_global, wanted->is_global);
	assert_int_equal(is->port_num, wanted->port_num);
}

#endif
