/* SPDX-License-Identifier: MIT */
/*
 * names.h - which devices and ports the option device.name means
 *
 * Owns the form of its text: names, patterns, and what is excluded.  Knows nothing of the state of
 * a port, and of no device but by its name.
 */
#ifndef BEEST_NAMES_H
#define BEEST_NAMES_H

#include <stdbool.h>

#define BEEST_NAMES_MAX 32

struct beest_names_entry {
	char text[64];			/* a name, or a pattern of fnmatch(3) */
	int port;			/* 0: any */
	bool is_pattern;
};

struct beest_names {
	struct beest_names_entry entries[BEEST_NAMES_MAX];
	int count;
	bool excludes;			/* all but these */
};

/* -EINVAL: the sentence names the entry. */
int beest_names_parse(struct beest_names *names, const char *text);

/*
 * An entry that names no device, but begins the names of some as "mlx5" does, means these: so
 * NCCL_IB_HCA has it.  But mlx5_1 never means mlx5_10.
 */
void beest_names_widen(struct beest_names *names, const char *const *devices, int count);

/* Names alone, of which each local rank takes one.  Otherwise they limit what may be taken. */
bool beest_names_is_list(const struct beest_names *names);

/* May this port be taken?  @port 0: any port of the device? */
bool beest_names_has(const struct beest_names *names, const char *device, int port);

#endif
