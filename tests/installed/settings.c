/* SPDX-License-Identifier: MIT */
/* settings.c - a user's program that needs neither server nor adapter */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hartebeest-c.h>
#include <hartebeest-post.h>
#include <hartebeest.h>

int main(void)
{
	static const char *const options[] = {
		"job.rank=1", "job.participants=0-3", "cq_attr.cq_depth=77", NULL
	};
	struct hartebeest_context *hb;
	char depth[16];

	if (hartebeest_open(&hb, options) < 0 ||
	    hartebeest_option_get(hb, "cq_attr.cq_depth", depth, sizeof(depth), NULL) < 0) {
		fprintf(stderr, "settings: %s\n", hartebeest_error());
		return EXIT_FAILURE;
	}
	printf("version %d.%d.%d\n", HARTEBEEST_VERSION_MAJOR, HARTEBEEST_VERSION_MINOR,
	       HARTEBEEST_VERSION_PATCH);
	printf("rank %d of %d, queues of %s\n", hartebeest_rank(hb), hartebeest_size(hb), depth);
	hartebeest_close(hb);
	if (hartebeest_version() != HARTEBEEST_VERSION) {
		fprintf(stderr, "settings: header and library have different versions\n");
		return EXIT_FAILURE;
	}
	return strcmp(depth, "77") == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
