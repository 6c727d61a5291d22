/* SPDX-License-Identifier: MIT */
/*
 * message.c - one of two ranks that exchange a message through Memcached
 *
 * Settings come from the environment, as a launcher would set them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hartebeest.h>

#define TEXT "a message from rank 0"

static int exchange(struct hartebeest_context *hb)
{
	char text[sizeof(TEXT)] = "";
	size_t length = 0;
	int ret;

	if (hartebeest_rank(hb) == 0)
		return hartebeest_msg_push(hb, "text", TEXT, sizeof(TEXT), 0);

	ret = hartebeest_msg_wait(hb, "text", text, sizeof(text), &length, 0);
	if (ret < 0)
		return ret;
	printf("rank 1 received: %s\n", text);
	return length == sizeof(TEXT) && strcmp(text, TEXT) == 0 ? 0 : -1;
}

int main(void)
{
	struct hartebeest_context *hb;

	if (hartebeest_open(&hb, NULL) < 0 || exchange(hb) < 0 ||
	    hartebeest_barrier(hb, "read", 0) < 0) {
		fprintf(stderr, "message: %s\n", hartebeest_error());
		return EXIT_FAILURE;
	}
	hartebeest_close(hb);
	return EXIT_SUCCESS;
}
