/* SPDX-License-Identifier: MIT */
/* local.c - see local.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/macro.h"
#include "tools/command.h"
#include "tools/local.h"
#include "tools/session.h"

struct variable {
	const char *name;
	int value;
};

static void set_numbers(const struct variable *variables, size_t count)
{
	char text[16];
	size_t i;

	for (i = 0; i < count; i++) {
		snprintf(text, sizeof(text), "%d", variables[i].value);
		setenv(variables[i].name, text, 1);
	}
}

/* Programs may know torchrun's variables, and the library takes the local rank from them. */
void local_rank(int rank)
{
	const struct variable variables[] = {
		{ "HARTEBEEST_NID", rank }, { "RANK", rank }, { "LOCAL_RANK", rank },
	};

	set_numbers(variables, BEEST_COUNT(variables));
}

/* Sets both the list and the number of participants, as a settings file may have either. */
static void set_count(int count)
{
	const struct variable variables[] = {
		{ "HARTEBEEST_NPARTICIPANTS", count }, { "WORLD_SIZE", count },
		{ "LOCAL_WORLD_SIZE", count },
	};
	char list[32];

	set_numbers(variables, BEEST_COUNT(variables));
	snprintf(list, sizeof(list), "0-%d", count - 1);
	setenv("HARTEBEEST_PARTICIPANTS", list, 1);
}

static void set_job(const struct local *local)
{
	char job[64];

	snprintf(job, sizeof(job), "%.20s-%d-%" PRIx64, local->name, (int)getpid(),
		 (uint64_t)hartebeest_clock());
	setenv("HARTEBEEST_JOB", job, 1);
}

int local_begin(struct out *out, struct local *local)
{
	char server[16], job[16];
	struct hartebeest_context *hb;
	int status;

	local_rank(0);
	set_count(local->count);
	status = session_open(out, &hb);
	if (status != STATUS_GOOD)
		return status;
	hartebeest_option_get(hb, "exchange.servers", server, sizeof(server), NULL);
	hartebeest_option_get(hb, "job.id", job, sizeof(job), NULL);
	session_close(hb);
	if (session_signal())
		return STATUS_FAILED;

	if (local->is_new || !job[0])
		set_job(local);
	if (server[0])
		return STATUS_GOOD;
	status = server_start(out, &local->server, local->count);
	if (status == STATUS_GOOD)
		setenv("HARTEBEEST_EXC_IP_PORT", local->server.socket, 1);
	return status;
}

void local_end(struct local *local)
{
	server_end(&local->server);
}
