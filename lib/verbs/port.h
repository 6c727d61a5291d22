/* SPDX-License-Identifier: MIT */
/*
 * port.h - what a port offers a queue pair: found once, kept until it may have changed
 *
 * Owns the last choice of a device and a policy: port attributes, GID, IP address and
 * P_Keys.  A queue pair that finds it there costs no look at any table.  Thread-safe.
 * Knows nothing of queue pairs.
 */
#ifndef BEEST_PORT_H
#define BEEST_PORT_H

#include <pthread.h>
#include <stdbool.h>

#include "lib/path/pathcache.h"
#include "lib/settings/options.h"
#include "lib/verbs/device.h"
#include "lib/verbs/event.h"

struct beest_port_choice {
	struct ibv_port_attr attr;
	struct beest_gid_entry gid;
	struct beest_ipaddr ip;		/* as beest_source_ip() */
};

/* An answer of beest_device_pkey(); no P_Key is zero: not asked yet. */
struct beest_port_pkey {
	uint16_t index, pkey;
};

struct beest_port {
	const struct beest_device *device;
	const struct beest_gid_policy *policy;
	struct beest_events *events;	/* NULL: left to the program */
	const struct beest_log *log;
	struct beest_pathcache *pathcache;	/* NULL: the way to a peer is in its endpoint */

	pthread_mutex_t lock;		/* of all below */
	bool known;
	struct beest_port_choice choice;
	struct beest_port_pkey pkeys[BEEST_TRANSPORTS];	/* each may want another one */
	uint64_t changes;		/* beest_events_changes() when it was made */
	struct beest_gid_entry former;	/* the GID that was chosen before another one; zero: none */
	char reason[BEEST_REASON_SIZE];	/* as last logged */
};

/* All that is given must outlive it.  @events may be NULL.  Without a path cache at first. */
void beest_port_start(struct beest_port *port, const struct beest_device *device,
		      const struct beest_gid_policy *policy, struct beest_events *events,
		      const struct beest_log *log);
void beest_port_end(struct beest_port *port);

/*
 * The choice that is kept, or a new one, which is logged when it differs from the last.
 * The GID is tried with an address handle of @pd.  Errors of beest_source_choose(): a
 * choice that failed leaves nothing behind.
 */
int beest_port_choose(struct beest_port *port, struct ibv_pd *pd,
		      struct beest_port_choice *choice);

/* As beest_device_pkey() for a transport, which always wants the same; kept with the choice. */
int beest_port_pkey(struct beest_port *port, enum beest_transport transport, uint16_t wanted,
		    struct beest_port_pkey *pkey);

/* The next choice is a new one: the device refused what followed from this one. */
void beest_port_forget(struct beest_port *port);

/*
 * -ENODATA: the GID by which @own could reach @remote is no longer in the port's table, so that
 * INIT has chosen another one, with the sentence of beest_source_relocate().  The user has to
 * restore the address, not to make the two ends alike.
 */
int beest_port_check_former(struct beest_port *port, const struct beest_endpoint *own,
			    const struct beest_endpoint *remote);

/*
 * Port, GID, P_Key and IP address as a new choice finds them, with the reason for each and
 * the refusals of the others, cut to fit.  @wanted as for beest_device_pkey().  Fails as
 * the choice does, the sentence then having all refusals.
 */
int beest_port_text(const struct beest_device *device, const struct beest_gid_policy *policy,
		    uint16_t wanted, char *text, size_t size);

/* The IP of this end by a new choice; -EADDRNOTAVAIL when it has none. */
int beest_port_ip(const struct beest_device *device, const struct beest_gid_policy *policy,
		  struct beest_ipaddr *ip);

#endif
