/* SPDX-License-Identifier: MIT */
/* local.c - see local.h */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/command.h"
#include "tools/local.h"
#include "tools/parent.h"
#include "tools/session.h"

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

/* Programs may know torchrun's variables, and the library takes the local rank from them. */
static void set_rank(int rank)
{
	set_number("HARTEBEEST_NID", rank);
	set_number("RANK", rank);
	set_number("LOCAL_RANK", rank);
}

void local_rank(int rank, pid_t parent)
{
	parent_end_with(parent, SIGKILL);
	set_rank(rank);
}

/* Sets both the list and the number of participants, as a settings file may have either. */
static void set_count(int count)
{
	char list[32];

	set_number("HARTEBEEST_NPARTICIPANTS", count);
	set_number("WORLD_SIZE", count);
	set_number("LOCAL_WORLD_SIZE", count);
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

	set_rank(0);
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
	local->server.connections = server_connections(local->count);
	local->server.megabytes = server_megabytes(local->count);
	local->server.threads = 2;
	status = server_start(out, &local->server);
	if (status == STATUS_GOOD)
		setenv("HARTEBEEST_EXC_IP_PORT", local->server.name, 1);
	return status;
}

void local_end(struct local *local)
{
	server_end(&local->server);
}
