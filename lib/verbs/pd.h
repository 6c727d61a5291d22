/* SPDX-License-Identifier: MIT */
/*
 * pd.h - a protection domain with a name
 *
 * Owns the struct ibv_pd, unless the program does.  Knows nothing of what is made in it: the
 * table's order of creation and the kernel's EBUSY take care of that.
 */
#ifndef BEEST_PD_H
#define BEEST_PD_H

#include "lib/base/table.h"
#include "lib/verbs/device.h"

/* An object is a bare node, whose handle is the struct ibv_pd. */
extern const struct beest_kind beest_pd_kind;

/* A domain without a name, freed with beest_pd_free().  Errno of ibv_alloc_pd(3). */
int beest_pd_alloc(const struct beest_device *device, struct ibv_pd **verbs);
int beest_pd_free(struct ibv_pd *verbs);

/* The same as an object, which is in no table yet. */
int beest_pd_create(const struct beest_device *device, struct beest_node **pd);

#endif
