/* SPDX-License-Identifier: MIT */
/*
 * fortran.c - the types of hartebeest.f90 match the structs of the headers
 *
 * scripts/check-symbols checks that the module has each function, with the right number of
 * arguments.
 *
 * promise: hartebeest(3)
 */
#include "config.h"

#include <stddef.h>
#include <string.h>

#include "hartebeest-mesh.h"
#include "hartebeest.h"
#include "tests/support/unit.h"

/* defined in fortran-types.f90 */
int fortran_layout(size_t *numbers, int room);
void fortran_inits(struct hartebeest_pair *pair, struct hartebeest_message *message,
		   struct hartebeest_mesh_attr *attr, struct hartebeest_qp_attr *request,
		   struct hartebeest_cq_attr *cq, struct hartebeest_srq_attr *srq,
		   struct hartebeest_mr_attr *mr);

#define SIZE(type) { "sizeof(" #type ")", sizeof(struct type) }
#define OFFSET(type, member) { #type "." #member, offsetof(struct type, member) }

/* In the order of fortran-types.f90. */
static const struct {
	const char *what;
	size_t number;
} layout[] = {
	OFFSET(ibv_mr, rkey),
	SIZE(ibv_wc),
	OFFSET(ibv_wc, status),
	OFFSET(ibv_wc, qp_num),
	OFFSET(ibv_wc, wc_flags),
	OFFSET(ibv_wc, dlid_path_bits),
	SIZE(ibv_qp_cap),
	OFFSET(ibv_qp_cap, max_inline_data),
	SIZE(hartebeest_cq_attr),
	OFFSET(hartebeest_cq_attr, comp_vector),
	OFFSET(hartebeest_cq_attr, cq_context),
	SIZE(hartebeest_srq_attr),
	OFFSET(hartebeest_srq_attr, max_sge),
	SIZE(hartebeest_mr_attr),
	OFFSET(hartebeest_mr_attr, dmabuf_fd),
	OFFSET(hartebeest_mr_attr, dmabuf_iova),
	SIZE(hartebeest_qp_attr),
	OFFSET(hartebeest_qp_attr, sq_sig_all),
	SIZE(hartebeest_path),
	OFFSET(hartebeest_path, flow_label),
	OFFSET(hartebeest_path, life_time),
	SIZE(hartebeest_event),
	OFFSET(hartebeest_event, text),
	SIZE(hartebeest_remote_mr),
	OFFSET(hartebeest_remote_mr, access),
	SIZE(hartebeest_remote_qp),
	OFFSET(hartebeest_remote_qp, rank),
	SIZE(hartebeest_ud_address),
	OFFSET(hartebeest_ud_address, qkey),
	SIZE(hartebeest_pair),
	OFFSET(hartebeest_pair, result),
	OFFSET(hartebeest_pair, reason),
	SIZE(hartebeest_msg_attr),
	OFFSET(hartebeest_msg_attr, flags),
	SIZE(hartebeest_message),
	OFFSET(hartebeest_message, result),
	SIZE(hartebeest_client),
	OFFSET(hartebeest_client, data),
	OFFSET(hartebeest_client, reserved),
	SIZE(hartebeest_mesh_attr),
	OFFSET(hartebeest_mesh_attr, cap),
	OFFSET(hartebeest_mesh_attr, gather),
	OFFSET(hartebeest_mesh_attr, refill_data),
	SIZE(hartebeest_mesh_stats),
	OFFSET(hartebeest_mesh_stats, reserved),
};

static void types(void **state)
{
	size_t numbers[BEEST_COUNT(layout)], i;

	(void)state;
	assert_int_equal(fortran_layout(numbers, BEEST_COUNT(layout)), BEEST_COUNT(layout));
	for (i = 0; i < BEEST_COUNT(layout); i++) {
		if (numbers[i] != layout[i].number)
			print_error("%s\n", layout[i].what);
		assert_int_equal(numbers[i], layout[i].number);
	}
}

/* Defaults overwrite all members, whatever they held; only padding may keep its bytes. */
static void defaults(void **state)
{
	struct hartebeest_pair pair, its_pair;
	struct hartebeest_message message, its_message;
	struct hartebeest_qp_attr request, its_request;
	struct hartebeest_mesh_attr attr;
	struct hartebeest_srq_attr srq, its_srq;
	struct hartebeest_cq_attr its_cq;
	struct hartebeest_mr_attr mr, its_mr;

	(void)state;
	memset(&its_pair, 0xff, sizeof(its_pair));
	memset(&its_message, 0xff, sizeof(its_message));
	memset(&its_request, 0xff, sizeof(its_request));
	memset(&attr, 0xff, sizeof(attr));
	memset(&its_cq, 0xff, sizeof(its_cq));
	memset(&its_srq, 0xff, sizeof(its_srq));
	memset(&its_mr, 0xff, sizeof(its_mr));
	fortran_inits(&its_pair, &its_message, &attr, &its_request, &its_cq, &its_srq, &its_mr);
	hartebeest_srq_attr_init(&srq);
	hartebeest_mr_attr_init(&mr);
	assert_memory_equal(&its_srq, &srq, sizeof(srq));
	assert_memory_equal(&its_mr, &mr, sizeof(mr));
	assert_int_equal(its_cq.size, sizeof(its_cq));
	assert_true(!its_cq.depth && !its_cq.flags && !its_cq.comp_vector && !its_cq.channel);
	hartebeest_qp_attr_init(&request);
	assert_int_equal(its_request.size, request.size);
	assert_true(!its_request.pd && !its_request.srq && !its_request.qp_context);
	assert_true(!its_request.cap.max_inline_data && !its_request.sq_sig_all);
	hartebeest_pair_init(&pair);
	hartebeest_message_init(&message);
	assert_memory_equal(&its_pair, &pair, sizeof(pair));
	assert_memory_equal(&its_message, &message, sizeof(message));
	assert_int_equal(attr.size, sizeof(attr));
	assert_true(!attr.pd && !attr.cq && !attr.regions && !attr.region_count);
	assert_true(!attr.qps_per_peer && !attr.ranks && !attr.rank_count && !attr.type);
	assert_true(!attr.cap.max_send_wr && !attr.cap.max_inline_data && !attr.threads);
	assert_true(!attr.own_rank && !attr.gather && !attr.gather_data && !attr.refill);
	assert_null(attr.refill_data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types),
		cmocka_unit_test(defaults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
