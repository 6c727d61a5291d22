/* SPDX-License-Identifier: MIT */
/*
 * forecast.h - what so many ranks will need, in each way to connect them
 *
 * Owns the model of docs/performance.md, and the limits of devices and processes that it is
 * compared with.  Knows nothing of what is running.
 */
#ifndef TOOLS_FORECAST_H
#define TOOLS_FORECAST_H

#include "tools/out.h"
#include "tools/ports.h"

struct forecast_job {
	int64_t ranks;
	int64_t per_node;
	int64_t peers;			/* of each rank, where it chooses them */
};

/* A part: a line for each way, and which of them carry the job by what is there. */
void forecast_lines(struct out *out, const struct forecast_job *job,
		    const struct ports_port *ports, int count);

#endif
