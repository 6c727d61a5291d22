/* SPDX-License-Identifier: MIT */
/*
 * stub.h - a verbs device that costs next to nothing, the same for every side
 *
 * Owns nothing but memory.  It has no locks and checks nothing.  Each queue pair keeps the
 * attributes it was given, so that a bench can compare the two ends.
 */
#ifndef BENCH_STUB_H
#define BENCH_STUB_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define STUB_LID 7

struct stub_qp {
	struct ibv_qp qp;		/* first, since verbs callers hold a pointer to it */
	uint32_t dest_qp_num, rq_psn, sq_psn;
};

/* From now on this thread's queue pairs have numbers with gaps, as if others made some between. */
void stub_mix_numbers(void);

/*
 * With true, making and changing a queue pair takes as much CPU time as on Soft-RoCE; with
 * false, next to none.
 */
void stub_take_time(bool like_a_device);

/* Is @one in RTS, and was its device given the numbers of @other? */
bool stub_joined(const struct ibv_qp *one, const struct ibv_qp *other);

#endif
