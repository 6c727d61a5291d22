/* SPDX-License-Identifier: MIT */
/*
 * port.h - what a port offers a queue pair: found once, kept until it may have changed
 *
 * Owns the last choice for a device and a policy: port attributes, GID, IP address and
 * P_Keys.  A queue pair that finds it here reads no table.  Thread-safe.  Knows nothing of
 * queue pairs.
 */
#ifndef BEEST_PORT_H
#define BEEST_PORT_H

#include <pthread.h>
#include <stdbool.h>

#include "lib/path/pathcache.h"
#include "lib/settings/options.h"
#include "lib/verbs/device.h"
#include "lib/verbs/event.h"
#include "lib/verbs/gid.h"

struct beest_port_choice {
	struct ibv_port_attr attr;
	struct beest_gid_entry gid;
	struct beest_ipaddr ip;		/* of beest_source_ip() */
};

/* A result of beest_device_pkey().  Zero: not asked yet, since no P_Key is zero. */
struct beest_port_pkey {
	uint16_t index, pkey;
};

struct beest_port {
	const struct beest_device *device;
	const struct beest_gid_policy *policy;
	struct beest_events *events;	/* NULL: the program reads them */
	const struct beest_log *log;
	struct beest_pathcache *pathcache;	/* NULL: the peer's endpoint has the way to it */

	pthread_mutex_t lock;		/* covers all below */
	bool known;
	struct beest_port_choice choice;
	struct beest_port_pkey pkeys[BEEST_TRANSPORTS];	/* each transport may want another one */
	uint64_t changes;		/* beest_events_changes() before the choice */
	struct beest_gid_entry previous;	/* the GID of the choice before; zero: none */
	char reason[BEEST_REASON_SIZE];	/* as last logged */
};

/* All arguments must outlive @port.  @events may be NULL.  There is no path cache at first. */
void beest_port_start(struct beest_port *port, const struct beest_device *device,
		      const struct beest_gid_policy *policy, struct beest_events *events,
		      const struct beest_log *log);
void beest_port_end(struct beest_port *port);

/*
 * Returns the kept choice, or a new one, which is logged when its reason is new.  The GID of
 * a new choice is tried with an address handle of @pd.  Errors of beest_source_choose(), -ENETDOWN:
 * the port is not active, or -EIO: it reports an impossible MTU; then no choice is kept.
 */
int beest_port_choose(struct beest_port *port, struct ibv_pd *pd,
		      struct beest_port_choice *choice);

/*
 * Queries the port, which does not report that its MTU has changed, nor another LID while the
 * program reads the events.  Drops the kept choice if its LID or MTU was another one.  Errors of
 * ibv_query_port(3), -ENETDOWN: the port is not active, so that its values are not those of a later
 * connection, or -EIO: an impossible MTU.
 */
int beest_port_look_again(struct beest_port *port, struct ibv_port_attr *attr);

/* -ENETDOWN: the port is not active now; the sentence has for how long, if events show it. */
int beest_port_check(const struct beest_port *port);

/* As beest_device_pkey(), but kept with the choice.  A transport always wants the same P_Key. */
int beest_port_pkey(struct beest_port *port, enum beest_transport transport, uint16_t wanted,
		    struct beest_port_pkey *pkey);

/* Drops the kept choice: the device refused what followed from it. */
void beest_port_forget(struct beest_port *port);

/*
 * -ENODATA: the GID by which @own could reach @remote is gone from the port's table, so INIT
 * chose another one; the sentence is that of beest_source_relocate().  Then the user has to
 * restore the address, not to make the two ends alike.
 */
int beest_port_check_former(struct beest_port *port, const struct beest_endpoint *own,
			    const struct beest_endpoint *remote);

/*
 * Would INIT choose another GID by now, by which @own could reach @remote?  False also if it
 * reaches @remote already.  Overwrites the sentence.
 */
bool beest_port_find_fitting(const struct beest_port *port, const struct beest_endpoint *own,
			     const struct beest_endpoint *remote, struct beest_gid_entry *found);

/*
 * Describes port, GID, P_Key and IP address as a new choice finds them, with the reason for
 * each and the refusals of the others, cut to @size; last the other ports, after "passed over: ".
 * @wanted as for beest_device_pkey().
 * Fails as the choice does; its sentence then has all refusals.
 */
int beest_port_text(const struct beest_device *device, const struct beest_gid_policy *policy,
		    uint16_t wanted, char *text, size_t size);

/* The IP address of this end by a new choice; -EADDRNOTAVAIL when it has none. */
int beest_port_ip(const struct beest_device *device, const struct beest_gid_policy *policy,
		  struct beest_ipaddr *ip);

#endif
