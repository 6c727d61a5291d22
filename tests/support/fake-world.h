/* SPDX-License-Identifier: MIT */
/*
 * fake-world.h - a machine of the fake verbs, described by text
 *
 * Owns the words of such a description, so that a test is a row of a table that reads like the
 * report of somebody who has this machine.  Each line describes one thing; words in [] may be left
 * out:
 *
 *	interface NAME NUMBER up|down [HARDWARE [ADDRESS...]]
 *		HARDWARE is that of Ethernet, 02:00:00:00:00:01, or the GID of an IPoIB interface.
 *		Without any such line, the interfaces are those of the GIDs.
 *	device NAME [iwarp|usnic|unspecified|virtual]
 *		virtual: a function of an adapter that its host has.  Each device is
 *		with the limits of fake0 and an active RoCE port 1 that has no GID.  The lines
 *		until the next device are about this one.
 *	limit NAME NUMBER
 *		of the device: max_qp_rd_atom, max_res_rd_atom, ece_options, ...
 *	port NUMBER [down|init|armed] [infiniband|unspecified] [lid NUMBER] [mtu NUMBER] [grh]
 *	     [unpartitioned]
 *		The lines about GIDs until the next port are about this one.
 *	gid INDEX ADDRESS v1|v2|ib [INTERFACE|#NUMBER] [fails ERRNO]
 *		#: the kernel's number of its interface, perhaps in another network name space.
 *		fails: address handles and RTR from this GID do.
 *	fail FUNCTION NTH ERRNO
 *		as fake_verbs_fail()
 */
#ifndef FAKE_WORLD_H
#define FAKE_WORLD_H

/*
 * Resets the fake verbs, and makes them the machine that @text describes.  Aborts, with the line on
 * stderr, if it does not understand one.
 */
void fake_world(const char *text);

/* The value of the errno with this name.  Aborts if it knows none. */
int fake_world_errno(const char *name);

#endif
