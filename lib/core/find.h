/* SPDX-License-Identifier: MIT */
/*
 * find.h - an object of each kind by its name
 *
 * Owns nothing but the step from a node of the context's table to what it is part of.
 * -ENOENT names the nearest.
 */
#ifndef BEEST_FIND_H
#define BEEST_FIND_H

struct hartebeest_context;
struct beest_cq;
struct beest_mr;
struct beest_qp;
struct ibv_pd;
struct ibv_srq;

int beest_find_cq(struct hartebeest_context *hb, const char *name, struct beest_cq **cq);
int beest_find_mr(struct hartebeest_context *hb, const char *name, struct beest_mr **mr);
int beest_find_pd(struct hartebeest_context *hb, const char *name, struct ibv_pd **pd);
int beest_find_qp(struct hartebeest_context *hb, const char *name, struct beest_qp **qp);
int beest_find_srq(struct hartebeest_context *hb, const char *name, struct ibv_srq **srq);

#endif
