/* SPDX-License-Identifier: MIT */
/* memory.c - see memory.h */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "lib/base/memlock.h"
#include "tools/memory.h"

/* A limit below this is a distribution's default, not a choice. */
#define SMALL (UINT64_C(64) << 20)

/* The place of the limit depends on what started this process. */
static const char *limit_cure(void)
{
	if (getenv("SLURM_JOB_ID"))
		return "systemctl edit slurmd: [Service] LimitMEMLOCK=infinity; and "
		       "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf";
	if (getenv("INVOCATION_ID"))
		return "systemctl edit the service: [Service] LimitMEMLOCK=infinity";
	return "put '* - memlock unlimited' into /etc/security/limits.d/rdma.conf and log in "
	       "again; in a container: --ulimit memlock=-1";
}

static void show_limit(struct out *out)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return;
	out_json_int(out->json, "memlock_bytes",
		     limit.rlim_cur == RLIM_INFINITY ? -1 : (int64_t)limit.rlim_cur);
	if (limit.rlim_cur == RLIM_INFINITY)
		out_line(out, OUT_OK, "memlock", "no limit on locked memory");
	else if (beest_memlock_is_lifted())
		out_line(out, OUT_OK, "memlock", "%" PRIu64 " KiB, but this process may lock more "
			 "(CAP_IPC_LOCK)", (uint64_t)limit.rlim_cur >> 10);
	else if (limit.rlim_cur >= SMALL)
		out_line(out, OUT_OK, "memlock", "%" PRIu64 " MiB can be locked",
			 (uint64_t)limit.rlim_cur >> 20);
	else {
		out_line(out, OUT_WARNING, "memlock", "only %" PRIu64 " KiB can be locked: larger "
			 "regions and queues fail with ENOMEM", (uint64_t)limit.rlim_cur >> 10);
		out_cure(out, "%s", limit_cure());
	}
}

/* Since 5.12, fork(2) copies pinned pages for the child, so that the parent keeps its own. */
static bool kernel_copies(void)
{
	struct utsname machine;
	int major = 0, minor = 0;

	return uname(&machine) == 0 && sscanf(machine.release, "%d.%d", &major, &minor) == 2 &&
	       (major > 5 || (major == 5 && minor >= 12));
}

static void show_fork(struct out *out)
{
	bool asked = getenv("RDMAV_FORK_SAFE") || getenv("IBV_FORK_SAFE");

	out_json_bool(out->json, "fork_safe", asked || kernel_copies());
	if (kernel_copies())
		out_line(out, OUT_OK, "fork", "safe: this kernel copies pinned pages");
	else if (asked)
		out_line(out, OUT_OK, "fork", "safe by RDMAV_FORK_SAFE");
	else {
		out_line(out, OUT_NOTE, "fork", "a program that forks (system(3), too) may lose "
			 "what its device writes; this kernel does not copy pinned pages");
		out_cure(out, "set RDMAV_FORK_SAFE=1 for programs that fork");
	}
}

void memory_lines(struct out *out)
{
	show_limit(out);
	show_fork(out);
}
