/* SPDX-License-Identifier: MIT */
/*
 * msg.c - hartebeest msg: messages and barriers for shell scripts
 *
 * Owns the ways of a payload: from an argument or standard input, and to standard output.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "tools/command.h"
#include "tools/session.h"

#define PAYLOAD_MAX (1024 * 1024 - 2048)

static int64_t timeout = -1, ttl;
static bool once;
static unsigned char payload[PAYLOAD_MAX + 1];	/* shows that input is longer; for a NUL */

#define TIMEOUT										\
	{ "timeout", 't', ARGS_TIME, &timeout, .value = "TIME", .max = 30 * BEEST_DAY,	\
	  .help = "how long to wait for server and peer, as 5s; 0: one look; default 30s" }

static const struct args_option options[] = { TIMEOUT, { .name = NULL } };

static const struct args_option push_options[] = {
	TIMEOUT,
	{ "ttl", 0, ARGS_TIME, &ttl, .value = "TIME", .min = BEEST_SECOND, .max = 30 * BEEST_DAY,
	  .help = "how long the message lives; default exchange.ttl" },
	{ "once", 0, ARGS_FLAG, &once, .help = "for one reader, whose wait deletes it" },
	{ .name = NULL },
};

static int64_t deadline(void)
{
	return timeout < 0 ? 0 : timeout == 0 ? HARTEBEEST_ONCE : hartebeest_clock() + timeout;
}

/* Ends each verb.  @ret: what the library's call returned.  Returns a status. */
static int close_after(struct out *out, struct hartebeest_context *hb, int ret)
{
	out_waiting_end(out);
	ret = ret < 0 ? out_failed(out, ret) : STATUS_GOOD;
	session_close(hb);
	return ret;
}

/* ---------------------------------------------------------------- push --- */

/* Reads standard input to its end.  Returns the length, or below 0 after reporting why. */
static ssize_t read_input(struct out *out)
{
	ssize_t length = beest_file_read(STDIN_FILENO, payload, sizeof(payload));

	if (length < 0)
		out_error(out, "standard input: %s", strerror((int)-length));
	if (length <= PAYLOAD_MAX)
		return length;
	out_error(out, "standard input has more than %d bytes, which is the most that a message "
		  "may have", PAYLOAD_MAX);
	return -EMSGSIZE;
}

static int push(struct out *out, int count, char **operands)
{
	bool given = count > 1 && strcmp(operands[1], "-");
	const void *data = given ? (const void *)operands[1] : payload;
	ssize_t length = given ? (ssize_t)strlen(operands[1]) : read_input(out);
	struct hartebeest_msg_attr attr;
	struct hartebeest_context *hb;
	int status;

	if (length < 0)
		return STATUS_FAILED;
	status = session_open_unranked(out, &hb);
	if (status != STATUS_GOOD)
		return status;

	hartebeest_msg_attr_init(&attr);
	attr.ttl = ttl;
	attr.flags = once ? HARTEBEEST_MSG_ONCE : 0;
	out_waiting(out, "storing message %s", operands[0]);
	out_json_int(out->json, "length", length);
	return close_after(out, hb, hartebeest_msg_push_attr(hb, operands[0], data,
							     (size_t)length, &attr, deadline()));
}

/* ---------------------------------------------------------------- wait --- */

/* Adds the payload as "text", or as hexadecimal digits if other bytes would break the JSON. */
static void add_payload(struct out *out, size_t length)
{
	char *hex = malloc(2 * length + 1);
	size_t i;

	if (!hex)
		return;
	for (i = 0; i < length; i++)
		snprintf(hex + 2 * i, 3, "%02x", payload[i]);
	if (out_is_text((const char *)payload, length))
		json_object_object_add(out->json, "text",
				       json_object_new_string_len((const char *)payload,
								  (int)length));
	else
		json_object_object_add(out->json, "hex",
				       json_object_new_string_len(hex, (int)(2 * length)));
	out_json_int(out->json, "length", (int64_t)length);
	free(hex);
}

/* Writes the payload unchanged.  A terminal gets a newline in addition if none is there. */
static void write_payload(struct out *out, size_t length)
{
	fwrite(payload, 1, length, stdout);
	if (out->columns && length && payload[length - 1] != '\n')
		putchar('\n');
}

static int wait_for(struct out *out, int count, char **operands)
{
	struct hartebeest_context *hb;
	int ret, status = session_open_unranked(out, &hb);
	size_t length;

	(void)count;
	if (status != STATUS_GOOD)
		return status;

	out_waiting(out, "waiting for message %s", operands[0]);
	ret = hartebeest_msg_wait(hb, operands[0], payload, PAYLOAD_MAX, &length,
				  deadline());
	status = close_after(out, hb, ret);
	if (status == STATUS_GOOD && out->json)
		add_payload(out, length);
	else if (status == STATUS_GOOD)
		write_payload(out, length);
	return status;
}

/* ------------------------------------------------------ delete, barrier --- */

static int delete(struct out *out, int count, char **operands)
{
	struct hartebeest_context *hb;
	int status = session_open_unranked(out, &hb);

	(void)count;
	if (status != STATUS_GOOD)
		return status;

	out_waiting(out, "deleting message %s", operands[0]);
	return close_after(out, hb, hartebeest_msg_delete(hb, operands[0], deadline()));
}

static int barrier(struct out *out, int count, char **operands)
{
	struct hartebeest_context *hb;
	int status = session_open(out, &hb);

	if (status != STATUS_GOOD)
		return status;

	out_waiting(out, "waiting for all ranks");
	return close_after(out, hb, hartebeest_barrier(hb, count ? operands[0] : "hartebeest",
						       deadline()));
}

static const struct command verbs[] = {
	{ .name = "push", .operands = "KEY [VALUE|-]", .least = 1, .most = 2, .run = push,
	  .help = "Stores a message under a key; without VALUE, from standard input.",
	  .options = push_options },
	{ .name = "wait", .operands = "KEY", .least = 1, .most = 1, .run = wait_for,
	  .help = "Waits for the message of a key and writes it to standard output.",
	  .options = options },
	{ .name = "delete", .operands = "KEY", .least = 1, .most = 1, .run = delete,
	  .help = "Removes the message of a key.",
	  .options = options },
	{ .name = "barrier", .operands = "[NAME]", .least = 0, .most = 1, .run = barrier,
	  .help = "Waits until every rank of the job has reached the same barrier.",
	  .options = options },
	{ .name = NULL },
};

const struct command msg_command = {
	.name = "msg",
	.help = "Messages and barriers by way of the Memcached server, for shell scripts.",
	.verbs = verbs,
	.more = "Messages stay until they are deleted, or for exchange.ttl (a day), unless\n"
		"push --ttl or --once says otherwise.  A barrier takes the rank of this process,\n"
		"which no other may have then; the others take none.  Exit status 3: timeout.\n",
};
