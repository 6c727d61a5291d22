/* SPDX-License-Identifier: MIT */
/* port.c - see port.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/lock.h"
#include "lib/base/text.h"
#include "lib/verbs/objects.h"
#include "lib/verbs/port.h"
#include "lib/verbs/source.h"

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
 * Without events, RoCE reads the one GID entry that counts.  On InfiniBand, LID and P_Keys
 * have no such cheap check and the GID needs no trial, so it chooses again.
 */
static bool choice_is_current(const struct beest_port *port, uint64_t changes)
{
	if (!port->known)
		return false;
	if (port->events)
		return port->changes >= changes;	/* another thread may have seen more */
	return port->choice.gid.roce && beest_source_holds(port->device, &port->choice.gid);
}

static int state_check(const struct beest_port *port, enum ibv_port_state state)
{
	int64_t down;

	if (state == IBV_PORT_ACTIVE)
		return 0;
	down = port->events ? beest_events_down(port->events) : 0;

	return beest_fail(ENETDOWN, "port %s is %s%s%s%s", port->device->label,
			  beest_device_state_text(state), down ? ", for " : "",
			  down ? BEEST_SPAN(down) : "", down ? " now" : "");
}

int beest_port_check(const struct beest_port *port)
{
	struct ibv_port_attr attr;
	int ret = beest_device_port(port->device, &attr);

	return ret < 0 ? ret : state_check(port, attr.state);
}

/* Queries a port that must be active.  Peers and devices refuse any other MTU. */
static int port_read(const struct beest_port *port, struct ibv_port_attr *attr)
{
	int ret = beest_device_port(port->device, attr);

	if (ret == 0)
		ret = state_check(port, attr->state);
	if (ret < 0 || (attr->active_mtu >= IBV_MTU_256 && attr->active_mtu <= IBV_MTU_4096))
		return ret;

	return beest_fail(EIO, "port %s reports the MTU %d, which is not within %d..%d (enum "
			  "ibv_mtu): are its driver and rdma-core of the same release?",
			  port->device->label, attr->active_mtu, IBV_MTU_256, IBV_MTU_4096);
}

/* @news gets the reason, unless it is the same as before. */
static int choice_make(struct beest_port *port, struct ibv_pd *pd, char *news)
{
	struct beest_port_choice choice;
	char reason[BEEST_REASON_SIZE];
	int ret;

	choice_forget(port);
	ret = port_read(port, &choice.attr);
	if (ret == 0)
		ret = beest_source_choose(port->device, pd, port->policy, port->log, &choice.gid,
					  reason, sizeof(reason));
	if (ret < 0)
		return ret;

	beest_source_ip(&choice.gid, port->policy, &choice.ip);
	if (port->reason[0] && !beest_source_same(&port->choice.gid, &choice.gid))
		port->previous = port->choice.gid;
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
	/* Read before the tables, so that a change in between is seen the next time. */
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

	/* Outside the lock, since this may call a function of the program. */
	if (news[0])
		beest_log(port->log, BEEST_LOG_INFO, "port %s: GID %s", port->device->label, news);
	return ret;
}

int beest_port_look_again(struct beest_port *port, struct ibv_port_attr *attr)
{
	const struct ibv_port_attr *kept = &port->choice.attr;
	int ret = port_read(port, attr);
	BEEST_HOLD(&port->lock);

	if (ret == 0 && (kept->lid != attr->lid || kept->active_mtu != attr->active_mtu))
		choice_forget(port);
	return ret;
}

int beest_port_pkey(struct beest_port *port, enum beest_transport transport, uint16_t wanted,
		    struct beest_port_pkey *pkey)
{
	struct beest_port_pkey *kept = &port->pkeys[transport];
	int ret = 0;
	BEEST_HOLD(&port->lock);

	if (!kept->pkey)
		ret = beest_device_pkey(port->device, wanted, &kept->index, &kept->pkey);
	if (ret == 0)
		*pkey = *kept;
	return ret;
}

void beest_port_forget(struct beest_port *port)
{
	BEEST_HOLD(&port->lock);

	choice_forget(port);
}

/* Does the GID suit @remote in RoCE version and address family? */
static bool gid_suits(unsigned int roce, const struct beest_ipaddr *gid,
		      const struct beest_endpoint *remote)
{
	return roce == remote->roce &&
	       beest_ipaddr_is_ipv4(gid) == beest_ipaddr_is_ipv4(&remote->gid);
}

int beest_port_check_former(struct beest_port *port, const struct beest_endpoint *own,
			    const struct beest_endpoint *remote)
{
	struct beest_gid_entry previous;
	int ret = 0;

	if (!own->roce || !remote->roce || gid_suits(own->roce, &own->gid, remote))
		return 0;

	pthread_mutex_lock(&port->lock);
	previous = port->previous;
	pthread_mutex_unlock(&port->lock);
	if (gid_suits(previous.roce, &previous.gid, remote))
		ret = beest_source_relocate(port->device, false, &previous);
	return BEEST_MIN(ret, 0);
}

/* For questions that may be asked often: each would log the failed trials again. */
static const struct beest_log quiet = { .level = BEEST_LOG_NONE };

bool beest_port_find_fitting(const struct beest_port *port, const struct beest_endpoint *own,
			     const struct beest_endpoint *remote, struct beest_gid_entry *found)
{
	char reason[BEEST_REASON_SIZE];

	return own->roce && remote->roce && !gid_suits(own->roce, &own->gid, remote) &&
	       beest_source_choose(port->device, NULL, port->policy, &quiet, found, reason,
				   sizeof(reason)) == 0 &&
	       gid_suits(found->roce, &found->gid, remote);
}

/* ------------------------------------------------------- a choice in words --- */

/* A temporary protection domain: without one no entry is tried. */
static int text_choose(const struct beest_device *device, const struct beest_gid_policy *policy,
		       struct beest_gid_entry *gid, char *reason, size_t size)
{
	struct ibv_pd *pd;
	int ret;

	ret = beest_pd_alloc(device, &pd);
	if (ret < 0)
		return ret;
	ret = beest_source_choose(device, pd, policy, &quiet, gid, reason, size);
	beest_pd_free(pd);
	return ret;
}

int beest_port_text(const struct beest_device *device, const struct beest_gid_policy *policy,
		    uint16_t wanted, char *buffer, size_t size)
{
	char *reason = malloc(size);
	struct beest_gid_entry gid;
	struct beest_text text;
	struct beest_ipaddr ip;
	uint16_t index, pkey;
	int ret;

	if (!reason)
		return beest_fail(ENOMEM, "no memory for a text of %zu bytes", size);
	ret = text_choose(device, policy, &gid, reason, size);
	if (ret == 0)
		ret = beest_device_pkey(device, wanted, &index, &pkey);
	if (ret == 0) {
		beest_source_ip(&gid, policy, &ip);
		beest_text_start(&text, buffer, size);
		beest_text_add(&text, "port %s%s%s%s; %s%s; P_Key 0x%04x at index %d; GID %s",
			       device->label, device->soft_roce ? " (Soft-RoCE)" : "",
			       device->choice[0] ? ", " : "", device->choice,
			       beest_ipaddr_is_zero(&ip) ? "no IP address" : "IP address ",
			       beest_ipaddr_is_zero(&ip) ? "" : BEEST_IP_TEXT(&ip), pkey, index,
			       reason);
		if (device->passed_over[0])
			beest_text_item(&text, "passed over: %s", device->passed_over);
	}
	free(reason);
	return ret;
}

int beest_port_ip(const struct beest_device *device, const struct beest_gid_policy *policy,
		  struct beest_ipaddr *ip)
{
	char reason[BEEST_REASON_SIZE];
	struct beest_gid_entry gid;
	int ret;

	ret = beest_source_choose(device, NULL, policy, &quiet, &gid, reason,
				  sizeof(reason));
	if (ret < 0)
		return ret;

	beest_source_ip(&gid, policy, ip);
	if (beest_ipaddr_is_zero(ip))
		return beest_fail(EADDRNOTAVAIL, "port %s has no IP address, which rdma_cm "
				  "needs%s", device->label, device->ethernet ? "" :
				  ": InfiniBand needs IPoIB (the kernel module ib_ipoib) with an "
				  "address");
	return 0;
}
