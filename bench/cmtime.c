/* SPDX-License-Identifier: MIT */
/*
 * cmtime.c - bench/connect's side by cmtime(1) of rdma-core, which measures rdma_cm
 *
 * A server at rank 0's port and a client at rank 1's.  cmtime takes each step for all
 * connections before the next step.  The client prints the time of each step; their sum
 * counts.
 */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/live.h"
#include "tests/support/ranks.h"

const char *cmtime_missing(void)
{
	return system("command -v cmtime >/dev/null 2>&1") == 0 ? NULL : "cmtime: not installed";
}

/* rdma_cm finds the port by the IPv4 address in its RoCE GID. */
static int port_address(int rank, char address[INET_ADDRSTRLEN])
{
	const char *port = ranks_port(rank) ? ranks_port(rank) : ranks_port(0);
	struct bare_port bare;
	int ret = bare_open(&bare, port);

	if (ret < 0)
		return ret;
	inet_ntop(AF_INET, bare.gid.raw + 12, address, INET_ADDRSTRLEN);
	ibv_close_device(bare.verbs);
	return 0;
}

/* ms of one line, "create id : 0.35 ...".  Since rdma-core 51 one line has the total, in us. */
static double line_ms(const char *line, bool *all)
{
	static const char *const steps[] = { "create id ", "bind addr ", "resolve addr ",
					     "resolve route", "create qp ", "connect " };
	const char *colon = strchr(line, ':');
	double us;
	size_t i;

	if (sscanf(line, "full connect %*f %lf", &us) == 1) {
		*all = true;
		return us / 1e3;
	}
	for (i = 0; colon && i < sizeof(steps) / sizeof(steps[0]); i++)
		if (strncmp(line, steps[i], strlen(steps[i])) == 0)
			return atof(colon + 1);
	return 0;
}

int cmtime_programs(struct bench_pass *pass)
{
	char server[INET_ADDRSTRLEN], client[INET_ADDRSTRLEN], command[1024], line[256];
	bool all = false;
	double ms, sum = 0;
	FILE *output;

	if (port_address(0, server) < 0 || port_address(1, client) < 0)
		return -ENODEV;
	/* The server prints nothing useful, and may never end since DREQs get lost. */
	snprintf(command, sizeof(command),
		 "exec 2>&1; cmtime -b %s -c %d -p 7473 >/dev/null & server=$!\n"
		 "for i in 1 2 3 4 5 6 7 8 9; do\n"
		 "  sleep 0.2; timeout %d cmtime -s %s -b %s -c %d -p 7473; ret=$?\n"
		 "  [ $ret != 0 ] || break\n"
		 "done; kill -9 $server; exit $ret", server, pass->size, pass->limit, server,
		 client, pass->size);
	output = popen(command, "r");
	if (!output)
		return -errno;
	while (fgets(line, sizeof(line), output)) {
		ms = line_ms(line, &all);
		sum = all && ms > 0 ? ms : sum + ms;
		if (ms == 0)
			snprintf(pass->error, sizeof(pass->error), "%s", line);
	}
	pass->figures[BENCH_TIME] = sum;
	return pclose(output) == 0 && sum > 0 ? 0 : -EIO;
}
