/* SPDX-License-Identifier: MIT */
/* port.c - see port.h */
#include "config.h"

#include <string.h>

#include "lib/base/error.h"
#include "lib/verbs/port.h"

void beest_port_start(struct beest_port *port, const struct beest_device *device,
		      const struct beest_gid_policy *policy, struct beest_events *events,
		      const struct beest_log *log)
{
	memset(port, 0, sizeof(*port));
	port->device = device;
	port->policy = policy;
	port->events = events;
	port->log = log;
	pthread_mutex_init(&port->lock, NULL);
}

void beest_port_end(struct beest_port *port)
{
	pthread_mutex_destroy(&port->lock);
}

/* ------------------------------------------------ under the lock: the choice --- */

static void choice_forget(struct beest_port *port)
{
	port->known = false;
	memset(port->pkeys, 0, sizeof(port->pkeys));
}

/*
 * Without events, RoCE asks for the one entry that counts.  LID and P_Keys of InfiniBand
 * have no such cheap question, and its GID needs no trial: it chooses again.
 */
static bool choice_is_current(const struct beest_port *port, uint64_t changes)
{
	if (!port->known)
		return false;
	if (port->events)
		return port->changes == changes;
	return port->choice.gid.roce && beest_device_gid_holds(port->device, &port->choice.gid);
}

/* Leaves @news alone where the choice is the same as before. */
static int choice_make(struct beest_port *port, struct ibv_pd *pd, char *news)
{
	struct beest_port_choice choice;
	char reason[BEEST_REASON_SIZE];
	int ret;

	choice_forget(port);
	ret = beest_device_port(port->device, &choice.attr);
	if (ret == 0)
		ret = beest_device_gid(port->device, pd, port->policy, port->log, &choice.gid,
				       reason);
	if (ret < 0)
		return ret;

	beest_device_ip(&choice.gid, port->policy, &choice.ip);
	if (port->reason[0] && !beest_device_gid_same(&port->choice.gid, &choice.gid)) {
		port->former = port->choice.gid;
		port->has_former = true;
	}
	if (strcmp(port->reason, reason) != 0)
		strcpy(news, strcpy(port->reason, reason));
	port->choice = choice;
	port->known = true;
	return 0;
}

/* ------------------------------------------------------------ the interface --- */

int beest_port_choose(struct beest_port *port, struct ibv_pd *pd,
		      struct beest_port_choice *choice)
{
	/* Read before the tables: a change in between is seen the next time. */
	uint64_t changes = port->events ? beest_events_changes(port->events) : 0;
	char news[BEEST_REASON_SIZE] = "";
	int ret = 0;

	pthread_mutex_lock(&port->lock);
	if (!choice_is_current(port, changes)) {
		ret = choice_make(port, pd, news);
		port->changes = changes;
	}
	if (ret == 0)
		*choice = port->choice;
	pthread_mutex_unlock(&port->lock);

	/* Outside the lock: the program's own function may be called. */
	if (news[0])
		beest_log(port->log, BEEST_LOG_INFO, "port %s: GID %s", port->device->label, news);
	return ret;
}

int beest_port_pkey(struct beest_port *port, uint16_t wanted, uint16_t *index, uint16_t *pkey)
{
	struct beest_port_pkey *slot = port->pkeys;
	struct beest_port_pkey *last = slot + BEEST_COUNT(port->pkeys) - 1;
	int ret = 0;

	pthread_mutex_lock(&port->lock);
	while (slot < last && slot->known && slot->wanted != wanted)
		slot++;
	if (!slot->known || slot->wanted != wanted) {
		ret = beest_device_pkey(port->device, wanted, &slot->index, &slot->pkey);
		slot->wanted = wanted;
		slot->known = ret == 0;
	}
	if (ret == 0) {
		*index = slot->index;
		*pkey = slot->pkey;
	}
	pthread_mutex_unlock(&port->lock);
	return ret;
}

void beest_port_forget(struct beest_port *port)
{
	pthread_mutex_lock(&port->lock);
	choice_forget(port);
	pthread_mutex_unlock(&port->lock);
}

int beest_port_check_former(struct beest_port *port, const struct beest_endpoint *remote)
{
	struct beest_gid_entry former;
	bool suits;

	pthread_mutex_lock(&port->lock);
	former = port->former;
	suits = port->has_former && former.roce == remote->roce &&
		beest_ipaddr_is_ipv4(&former.gid) == beest_ipaddr_is_ipv4(&remote->gid);
	pthread_mutex_unlock(&port->lock);
	return suits ? beest_device_gid_relocate(port->device, false, &former) : 0;
}
