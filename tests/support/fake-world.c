/* SPDX-License-Identifier: MIT */
/* fake-world.c - see fake-world.h */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/fake-verbs.h"
#include "tests/support/fake-world.h"
#include "tests/support/scratch.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WORDS 16

/* The description in words, to which the fake verbs point. */
static char words[16 * 1024];

static struct fake_device pristine;

/* What the current line is about. */
static struct fake_device *device;
static struct fake_port *port;

static const char *line_of_words = "";

static void line_is_wrong(const char *why)
{
	fprintf(stderr, "a line of a machine that begins with '%s': %s\n", line_of_words, why);
	abort();
}

/* ------------------------------------------------------------------ words --- */

struct named {
	const char *name;
	int value;
};

static const struct named errors[] = {
	{ "EPERM", EPERM }, { "ENOENT", ENOENT }, { "EIO", EIO }, { "EAGAIN", EAGAIN },
	{ "ENOMEM", ENOMEM }, { "EACCES", EACCES }, { "EFAULT", EFAULT }, { "ENODEV", ENODEV },
	{ "EINVAL", EINVAL }, { "ENOSPC", ENOSPC }, { "ENODATA", ENODATA }, { "ENOTTY", ENOTTY },
	{ "ENOSYS", ENOSYS }, { "EOPNOTSUPP", EOPNOTSUPP }, { "ENETUNREACH", ENETUNREACH },
	{ "ETIMEDOUT", ETIMEDOUT }, { "ENXIO", ENXIO }, { "EPROTO", EPROTO },
	{ "EPROTONOSUPPORT", EPROTONOSUPPORT }, { "EDQUOT", EDQUOT },
	{ "EDESTADDRREQ", EDESTADDRREQ }, { "ECONNREFUSED", ECONNREFUSED },
	{ "ENETDOWN", ENETDOWN },
};

static const struct named transports[] = {
	{ "iwarp", IBV_TRANSPORT_IWARP }, { "usnic", IBV_TRANSPORT_USNIC_UDP },
	{ "unspecified", 4 },		/* IBV_TRANSPORT_UNSPECIFIED, newer than the floor */
};

static const struct named states[] = {
	{ "down", IBV_PORT_DOWN }, { "init", IBV_PORT_INIT }, { "armed", IBV_PORT_ARMED },
};

static const struct named layers[] = {
	{ "infiniband", IBV_LINK_LAYER_INFINIBAND }, { "unspecified", IBV_LINK_LAYER_UNSPECIFIED },
};

static const struct named versions[] = { { "ib", 0 }, { "v1", 1 }, { "v2", 2 } };

/* -1: @word is none of them. */
static int value_of(const struct named *names, size_t count, const char *word)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (word && strcmp(names[i].name, word) == 0)
			return names[i].value;
	return -1;
}

#define VALUE_OF(names, word) value_of(names, COUNT(names), word)

static long number_of(const char *word)
{
	char *end = NULL;
	long number = word ? strtol(word, &end, 0) : 0;

	if (!end || *end || end == word)
		line_is_wrong("not a number");
	return number;
}

int fake_world_errno(const char *word)
{
	int error = VALUE_OF(errors, word);

	if (error < 0)
		line_is_wrong("an unknown errno");
	return error;
}

/* ------------------------------------------------------------------ lines --- */

static void take_interface(char **word)
{
	struct fake_interface *each = &fake_verbs.interfaces[fake_verbs.interface_count++];
	int i;

	if (fake_verbs.interface_count > FAKE_INTERFACES || !word[2])
		line_is_wrong("interface NAME NUMBER up|down");
	each->name = word[0];
	each->number = (uint32_t)number_of(word[1]);
	each->down = strcmp(word[2], "down") == 0;
	each->hardware = word[3];
	for (i = 0; word[3] && word[4 + i]; i++) {
		if (i == FAKE_ADDRESSES)
			line_is_wrong("too many addresses");
		each->addresses[i] = word[4 + i];
	}
}

/* The sysfs folder of a virtual function, with the link to its adapter. */
static const char *virtual_folder(void)
{
	static char folder[SCRATCH_SIZE];
	char path[SCRATCH_SIZE + 16];

	if (!folder[0])
		scratch_folder(folder, "fake-virtual");
	snprintf(path, sizeof(path), "%s/device", folder);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/device/physfn", folder);
	mkdir(path, 0755);
	return folder;
}

static void take_device(char **word)
{
	device = device ? fake_verbs_add(word[0]) : &fake_verbs.devices[0];
	*device = pristine;
	device->name = word[0];
	port = &device->ports[0];
	if (!word[1])
		return;
	if (strcmp(word[1], "virtual") == 0) {
		device->ibdev_path = virtual_folder();
		return;
	}
	device->transport = (enum ibv_transport_type)VALUE_OF(transports, word[1]);
	if ((int)device->transport < 0)
		line_is_wrong("an unknown transport");
}

#define LIMIT(name) { #name, offsetof(struct fake_device, attr.name) }

static const struct {
	const char *name;
	size_t offset;
} limits[] = {
	LIMIT(max_qp), LIMIT(max_qp_wr), LIMIT(max_sge), LIMIT(max_cqe), LIMIT(max_qp_rd_atom),
	LIMIT(max_res_rd_atom), LIMIT(max_qp_init_rd_atom),
	{ "max_inline", offsetof(struct fake_device, max_inline) },
	{ "inline_error", offsetof(struct fake_device, inline_error) },
	{ "ece_vendor", offsetof(struct fake_device, ece_vendor) },
	{ "ece_options", offsetof(struct fake_device, ece_options) },
};

static void take_limit(char **word)
{
	int number = VALUE_OF(errors, word[1]);
	size_t i;

	if (number < 0)
		number = (int)number_of(word[1]);
	for (i = 0; i < COUNT(limits); i++)
		if (strcmp(limits[i].name, word[0]) == 0) {
			memcpy((char *)device + limits[i].offset, &number, sizeof(number));
			return;
		}
	line_is_wrong("an unknown limit");
}

static void port_take_word(char ***word)
{
	const char *name = **word;

	if (VALUE_OF(states, name) >= 0)
		port->state = (enum ibv_port_state)VALUE_OF(states, name);
	else if (VALUE_OF(layers, name) >= 0)
		port->link_layer = (uint8_t)VALUE_OF(layers, name);
	else if (strcmp(name, "grh") == 0)
		port->flags = IBV_QPF_GRH_REQUIRED;
	else if (strcmp(name, "unpartitioned") == 0)
		memset(port->pkeys, 0, sizeof(port->pkeys));
	else if (strcmp(name, "lid") == 0)
		port->lid = (uint16_t)number_of(*++*word);
	else if (strcmp(name, "mtu") == 0)
		port->active_mtu = (enum ibv_mtu)number_of(*++*word);
	else
		line_is_wrong("an unknown word");
}

static void take_port(char **word)
{
	long number = number_of(*word++);

	if (number < 1 || number > FAKE_PORTS)
		line_is_wrong("no such port");
	port = &device->ports[number - 1];
	*port = pristine.ports[0];
	if (number > device->attr.phys_port_cnt)
		device->attr.phys_port_cnt = (uint8_t)number;
	for (; *word; word++)
		port_take_word(&word);
}

static void take_gid(char **word)
{
	long index = number_of(word[0]);
	struct fake_gid *gid;

	if (index < 0 || index >= FAKE_GIDS || VALUE_OF(versions, word[2]) < 0)
		line_is_wrong("gid INDEX ADDRESS v1|v2|ib");
	gid = &port->gids[index];
	if (index >= port->gid_count)
		port->gid_count = (int)index + 1;
	gid->gid = word[1];
	gid->roce = VALUE_OF(versions, word[2]);
	word += 3;
	if (*word && **word == '#')
		gid->number = (uint32_t)number_of(*word++ + 1);
	else if (*word && strcmp(*word, "fails") != 0)
		gid->netdev = *word++;
	if (*word && strcmp(*word++, "fails") == 0)
		gid->ah_error = fake_world_errno(*word);
}

static void take_failure(char **word)
{
	fake_verbs_fail(word[0], (int)number_of(word[1]), fake_world_errno(word[2]));
}

static const struct {
	const char *word;
	void (*take)(char **word);
	bool of_device;			/* only after a device */
} kinds[] = {
	{ "interface", take_interface, false },
	{ "device", take_device, false },
	{ "limit", take_limit, true },
	{ "port", take_port, true },
	{ "gid", take_gid, true },
	{ "fail", take_failure, false },
};

static void take_line(char **word)
{
	size_t i;

	line_of_words = word[0];
	if (!word[1])
		line_is_wrong("too few words");
	for (i = 0; i < COUNT(kinds); i++) {
		if (strcmp(kinds[i].word, word[0]) != 0)
			continue;
		if (kinds[i].of_device && !device)
			line_is_wrong("no device before it");
		kinds[i].take(word + 1);
		return;
	}
	line_is_wrong("an unknown word");
}

void fake_world(const char *text)
{
	char *line, *next, *rest, *word[WORDS + 1];
	int count;

	fake_verbs_reset();
	pristine = fake_verbs.devices[0];
	memset(pristine.ports[0].gids, 0, sizeof(pristine.ports[0].gids));
	device = NULL;
	port = NULL;
	if (strlen(text) >= sizeof(words))
		abort();
	strcpy(words, text);
	for (line = words; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		memset(word, 0, sizeof(word));
		rest = line;
		for (count = 0; count < WORDS && (word[count] = strtok_r(rest, " \t", &rest)); )
			count++;
		if (count)
			take_line(word);
	}
	if (!device)
		fake_verbs.device_count = 0;
}
