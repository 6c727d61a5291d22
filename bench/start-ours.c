/* SPDX-License-Identifier: MIT */
/* start-ours.c - one of two ranks of bench/start: RANK SERVER JOB; prints its end */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "hartebeest.h"

#define TRY(call) if ((call) < 0) return fprintf(stderr, "%s\n", hartebeest_error()), 1

int main(int argc, char **argv)
{
	char servers[64], job[64], found[8];
	const char *options[] = { servers, job, NULL }, *own, *other;
	struct hartebeest_context *hb;

	if (argc < 4)
		return 2;
	own = argv[1];
	other = *own == '0' ? "1" : "0";
	snprintf(servers, sizeof(servers), "exchange.servers=%s", argv[2]);
	snprintf(job, sizeof(job), "job.id=%s", argv[3]);
	TRY(hartebeest_open(&hb, options));
	TRY(hartebeest_msg_push(hb, own, own, 2, 0));
	TRY(hartebeest_msg_wait(hb, other, found, sizeof(found), NULL, 0));
	printf("0 %lld\n", (long long)bench_clock());
	fflush(stdout);
	hartebeest_close(hb);
	return strcmp(found, other) != 0;
}
