/* SPDX-License-Identifier: MIT */
/* meshphase.c - see meshphase.h */
#include "config.h"

#include "lib/base/clock.h"
#include "lib/core/context.h"
#include "lib/core/meshphase.h"

static struct hartebeest_mesh_phase meters_read(const struct hartebeest_mesh *mesh)
{
	const struct beest_registry *registry = __atomic_load_n(&mesh->qps.hb->registry,
								__ATOMIC_ACQUIRE);
	struct hartebeest_mesh_phase meters = { .time = beest_clock_now() };

	if (registry && !mesh->qps.attr.gather) {
		meters.requests = beest_registry_begun(registry);
		meters.bytes = __atomic_load_n(&registry->bytes, __ATOMIC_RELAXED);
	}

	return meters;
}

void beest_meshphase_enter(struct hartebeest_mesh *mesh, struct hartebeest_mesh_phase *phase)
{
	const struct hartebeest_mesh_phase now = meters_read(mesh);

	if (mesh->phase) {
		mesh->phase->time += now.time - mesh->begun.time;
		mesh->phase->requests += now.requests - mesh->begun.requests;
		mesh->phase->bytes += now.bytes - mesh->begun.bytes;
		mesh->stats.total += now.time - mesh->begun.time;
	}
	mesh->phase = phase;
	mesh->begun = now;
}
