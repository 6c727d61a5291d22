/* SPDX-License-Identifier: MIT */
/*
 * info.c - hartebeest info: which devices there are, what the library would choose, and why
 *
 * Owns the order of the parts.  Asks no server and touches no peer.
 */
#include "config.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "lib/base/text.h"
#include "tools/command.h"
#include "tools/memory.h"
#include "tools/options.h"
#include "tools/ports.h"
#include "tools/session.h"

#define LABEL 12

static bool wants_options;

/* The sentence about a choice, which has a piece for each of up to 1024 GIDs. */
static char choice[128 * 1024];

/* The first line of all: the port and GID that would be chosen, or why there is none. */
static char verdict_room[600];
static struct beest_text verdict;

/* ---------------------------------------------------------- versions --- */

struct loaded {
	struct out *out;
	struct beest_text list;
};

/* Notes the name behind symbolic links, "libibverbs.so.1.14.44.0", of the libraries below. */
static int note_library(struct dl_phdr_info *info, size_t size, void *data)
{
	static const char *const wanted[] = { "libibverbs.", "librdmacm.", "libmemcached.",
					      "libjson-c." };
	char *real = info->dlpi_name[0] == '/' ? realpath(info->dlpi_name, NULL) : NULL;
	const char *name = real ? strrchr(real, '/') + 1 : NULL;
	struct loaded *loaded = data;
	size_t i;

	(void)size;
	for (i = 0; name && i < BEEST_COUNT(wanted); i++) {
		if (strncmp(name, wanted[i], strlen(wanted[i])))
			continue;
		beest_text_add(&loaded->list, "%s%s", loaded->list.used ? ", " : "", name);
		if (loaded->out->json)
			json_object_array_add(out_json_array(loaded->out->json, "libraries"),
					      json_object_new_string(name));
	}
	free(real);
	return 0;
}

static void show_versions(struct out *out)
{
	char text[512];
	struct loaded loaded = { .out = out };
	struct utsname machine;

	uname(&machine);
	beest_text_start(&loaded.list, text, sizeof(text));
	dl_iterate_phdr(note_library, &loaded);
	out_title(out, LABEL, "hartebeest " PACKAGE_VERSION);
	out_line(out, OUT_NOTE, "kernel", "%s %s on %s", machine.sysname, machine.release,
		 machine.nodename);
	out_line(out, OUT_NOTE, "libraries", "%s", text[0] ? text : "linked statically");
	out_json_text(out->json, "version", PACKAGE_VERSION);
	out_json_text(out->json, "kernel", machine.release);
	out_json_text(out->json, "host", machine.nodename);
}

/* ----------------------------------------------------------- devices --- */

static void port_text(const struct ports_port *port, char *text, size_t size)
{
	struct beest_text line;
	int64_t rate = ports_rate(port);
	int i;

	beest_text_start(&line, text, size);
	beest_text_add(&line, "%-8s %-10s", ports_state(port), port->network->refusal ?
		       port->network->refusal : port->network->name);
	if (port->network->refusal)
		return;
	if (rate)
		beest_text_add(&line, " %4g Gb/s", (double)rate / 1000);
	beest_text_add(&line, "  mtu %d of %d", ports_mtu(port->attr.active_mtu),
		       ports_mtu(port->attr.max_mtu));
	if (!port->ethernet)
		beest_text_add(&line, "  lid %d (sm %d)", port->attr.lid, port->attr.sm_lid);
	beest_text_add(&line, "  %s", port->netdev[0] ? port->netdev : "no netdev");
	if (port->numa >= 0)
		beest_text_add(&line, "  numa %d", port->numa);
	for (i = 0; i < port->pkey_count; i++)
		beest_text_add(&line, "%s0x%04x", i ? "," : "  p_keys ", port->pkeys[i]);
	if (port->ece.vendor)
		beest_text_add(&line, "  ece 0x%x", port->ece.options);
	if (port->limits.fw_ver[0])
		beest_text_add(&line, "  firmware %s", port->limits.fw_ver);
}

static void port_object(const struct ports_port *port, struct json_object *item)
{
	const struct ibv_device_attr *limits = &port->limits;
	int i;

	out_json_text(item, "device", port->device);
	out_json_int(item, "port", port->port);
	out_json_text(item, "state", ports_state(port));
	out_json_text(item, "link", port->attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "ethernet" :
		      port->attr.link_layer == IBV_LINK_LAYER_INFINIBAND ? "infiniband" : "other");
	out_json_text(item, "network", port->network->name);
	out_json_int(item, "mbit_per_s", ports_rate(port));
	out_json_int(item, "mtu", ports_mtu(port->attr.active_mtu));
	out_json_int(item, "max_mtu", ports_mtu(port->attr.max_mtu));
	out_json_int(item, "lid", port->attr.lid);
	out_json_int(item, "sm_lid", port->attr.sm_lid);
	out_json_text(item, "netdev", port->netdev);
	if (port->ece.vendor) {
		out_json_int(item, "ece_vendor", port->ece.vendor);
		out_json_int(item, "ece_options", port->ece.options);
	}
	if (port->numa >= 0)
		out_json_int(item, "numa", port->numa);
	out_json_text(item, "firmware", limits->fw_ver);
	out_json_int(item, "max_qp", limits->max_qp);
	out_json_int(item, "max_qp_wr", limits->max_qp_wr);
	out_json_int(item, "max_cq", limits->max_cq);
	out_json_int(item, "max_cqe", limits->max_cqe);
	out_json_int(item, "max_mr", limits->max_mr);
	out_json_int(item, "max_sge", limits->max_sge);
	out_json_int(item, "max_rd_atomic", limits->max_qp_rd_atom);
	for (i = 0; item && i < port->pkey_count; i++)
		json_object_array_add(out_json_array(item, "pkeys"),
				      json_object_new_int(port->pkeys[i]));
}

static void show_port(struct out *out, const struct ports_port *port)
{
	char label[80], text[400], cure[PORTS_CURE];
	struct json_object *item = out_json_item(out_json_array(out->json, "ports"));

	snprintf(label, sizeof(label), port->port ? "%s:%d" : "%s", port->device, port->port);
	if (port->error) {
		out_json_text(item, "device", port->device);
		out_json_text(item, "error", port->why);
		out_line(out, OUT_FAILURE, label, "%s", port->why);
		out_cure(out, "%s", ports_cure(port, cure));
		return;
	}

	port_object(port, item);
	port_text(port, text, sizeof(text));
	out_line(out, ports_usable(port) ? OUT_OK : OUT_NOTE, label, "%s", text);
	if (!ports_active(port) && !port->network->refusal)
		out_cure(out, "%s", ports_cure(port, cure));
}

/* -------------------------------------------------------------- gids --- */

/*
 * The index in a piece "index 3: ..." or "GID index 3: ..." of the sentence about a choice, and
 * in *rest what follows it.  -1: another piece.
 */
static int piece_index(const char *piece, const char **rest)
{
	int index, length = 0;

	if ((sscanf(piece, "index %d: %n", &index, &length) < 1 || !length) &&
	    (sscanf(piece, "GID index %d: %n", &index, &length) < 1 || !length))
		return -1;
	*rest = piece + length;
	return index;
}

#define PASSED_OVER "passed over: "

/* Calls @show for each piece of the sentence about a choice.  The last may have a ';' itself. */
static void each_piece(char *text, struct out *out, struct json_object *object,
		       void (*show)(struct out *out, struct json_object *object, char *piece))
{
	char *piece, *next;

	for (piece = text; piece; piece = next) {
		next = strncmp(piece, PASSED_OVER, strlen(PASSED_OVER)) ?
		       strstr(piece, "; ") : NULL;
		if (next) {
			*next = '\0';
			next += 2;
		}
		show(out, object, piece);
	}
}

static void show_gid(struct out *out, struct json_object *array, char *piece)
{
	bool chosen = !strncmp(piece, "GID ", 4);
	struct json_object *item;
	char label[16];
	const char *rest;
	int index = piece_index(piece, &rest);

	if (index < 0)
		return;
	snprintf(label, sizeof(label), "gid %d", index);
	item = out_json_item(array);
	out_json_int(item, "index", index);
	out_json_bool(item, "chosen", chosen);
	out_json_text(item, "text", rest);
	if (!out->json)
		out_line(out, chosen ? OUT_OK : OUT_NOTE, label, "%s", rest);
}

/* Shows each GID of this port, and which one would be chosen. */
static void show_gids(struct out *out, const struct ports_port *port)
{
	char name[100];
	struct hartebeest_context *hb;
	struct json_object *array;
	int ret;

	snprintf(name, sizeof(name), "device.name=%s:%d", port->device, port->port);
	if (session_try(&hb, (const char *const[]){ name, NULL }) < 0)
		return;

	array = out_json_array(out->json, name + strlen("device.name="));
	out_waiting(out, "trying the GIDs of %s:%d", port->device, port->port);
	ret = hartebeest_device_text(hb, choice, sizeof(choice));
	out_waiting_end(out);
	if (ret >= 0)
		each_piece(choice, out, array, show_gid);
	else
		out_line(out, OUT_NOTE, "gid", "none that fits: %s", hartebeest_error());
	session_close(hb);
}

static void show_ports(struct out *out, const struct ports_port *list, int count)
{
	int i;

	out_title(out, LABEL, "devices");
	for (i = 0; i < count; i++) {
		show_port(out, &list[i]);
		if (ports_usable(&list[i]))
			show_gids(out, &list[i]);
	}
}

/* ------------------------------------------------------------ choice --- */

/* The object has the whole sentence as "chosen", and only ports as checks. */
static void show_choice_piece(struct out *out, struct json_object *object, char *piece)
{
	const char *rest;
	bool first = !strncmp(piece, "port ", 5);
	bool last = !strncmp(piece, PASSED_OVER, strlen(PASSED_OVER));

	(void)object;
	if (last)
		out_line(out, OUT_NOTE, "passed over", "%s", piece + strlen(PASSED_OVER));
	else if (first || (!out->json && (piece_index(piece, &rest) < 0 ||
					  !strncmp(piece, "GID ", 4))))
		out_line(out, first ? OUT_OK : OUT_NOTE, first ? "chosen" : "", "%s", piece);
	if (first)
		beest_text_start(&verdict, verdict_room, sizeof(verdict_room));
	if (first || !strncmp(piece, "GID ", 4))
		beest_text_add(&verdict, "%s%s", first ? "usable: " : "; ", piece);
}

/* Returns the status: without a port, nothing can be connected. */
static int show_choice(struct out *out, struct hartebeest_context *hb,
		       const struct ports_port *list, int count)
{
	int ret;

	if (count > 0)
		out_title(out, LABEL, "choice");
	out_waiting(out, "trying all ports");
	ret = hartebeest_device_text(hb, choice, sizeof(choice));
	out_waiting_end(out);
	if (ret >= 0) {
		out_json_text(out->json, "chosen", choice);
		each_piece(choice, out, NULL, show_choice_piece);
		return STATUS_GOOD;
	}

	beest_text_start(&verdict, verdict_room, sizeof(verdict_room));
	beest_text_add(&verdict, "not usable: no port can be chosen");
	out_line(out, OUT_FAILURE, "none", "%s", hartebeest_error());
	out_cure(out, "%s", count > 0 ? ports_choice_cure(list, count) :
		 "messages, barriers and keys work without a device");
	return STATUS_FAILED;
}

static int show_devices(struct out *out, struct hartebeest_context *hb)
{
	struct ports_port *list;
	int status, count = ports_list(&list);

	show_ports(out, list, count);
	status = show_choice(out, hb, list, count);
	free(list);
	return status;
}

/* ----------------------------------------------------------- process --- */

static void show_if_known(struct out *out, const char *key, int value)
{
	if (value >= 0)
		out_json_int(out->json, key, value);
}

static void show_launch(struct out *out, struct hartebeest_context *hb)
{
	const char *warning = "", *origin = hartebeest_origin(hb, &warning);

	out_title(out, LABEL, "this process");
	out_line(out, hartebeest_rank(hb) < 0 ? OUT_NOTE : OUT_OK, "rank", "%s", origin);
	if (*warning) {
		out_line(out, OUT_WARNING, "launcher", "%s", warning);
		out_cure(out, "set HARTEBEEST_NID and HARTEBEEST_PARTICIPANTS: they decide");
	}
	if (!out->json)
		return;
	show_if_known(out, "rank", hartebeest_rank(hb));
	show_if_known(out, "size", hartebeest_size(hb));
	show_if_known(out, "local_rank", hartebeest_local_rank(hb));
	out_json_text(out->json, "job", hartebeest_job(hb));
}

static void show_verdict(struct out *out, int status)
{
	struct utsname machine;

	uname(&machine);
	out_verdict(out, status != STATUS_GOOD ? OUT_FAILURE : out->counts[OUT_WARNING] ?
		    OUT_WARNING : OUT_OK, "%s is %s", machine.nodename, verdict_room);
}

static int info(struct out *out, int count, char **operands)
{
	struct hartebeest_context *hb;
	int status = session_open(out, &hb);

	(void)count, (void)operands;
	if (status != STATUS_GOOD)
		return status;
	if (wants_options) {
		options_show_all(out, hb);
	} else {
		out_hold(out);
		show_versions(out);
		status = show_devices(out, hb);
		show_launch(out, hb);
		memory_lines(out);
		options_show_given(out, hb);
		show_verdict(out, status);
	}
	session_close(hb);
	return status;
}

static const struct args_option options[] = {
	{ "options", 0, ARGS_FLAG, &wants_options,
	  .help = "every setting: value, source, range and meaning" },
	{ .name = NULL },
};

const struct command info_command = {
	.name = "info",
	.help = "Shows devices, the port and GID that would be chosen and why, rank and settings.",
	.options = options,
	.run = info,
	.more = "Exit status 1: no port can be used.  No server is asked: 'hartebeest doctor' "
		"does\n"
		"that.\n",
};
