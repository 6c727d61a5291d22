/* SPDX-License-Identifier: MIT */
/*
 * device.h - one port of one verbs device
 *
 * Owns the ibv_context, the port number, and reading the port and its P_Key table.  Knows
 * nothing of queue pairs, records or other ranks, nor how the port is chosen (selection).
 */
#ifndef BEEST_DEVICE_H
#define BEEST_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* Bytes for the text of a choice, with all refusals. */
#define BEEST_REASON_SIZE 800

struct beest_device {
	struct ibv_context *verbs;
	struct ibv_device_attr attr;
	char name[64];			/* "mlx5_0" */
	char label[72];			/* "mlx5_0:1", for sentences and records */
	uint8_t port;
	bool soft_roce;			/* rdma_rxe, to which retry_cnt 7 means forever */
	bool ethernet;			/* link layer at the time of opening */
	bool borrowed;			/* the program opened it, and closes it */
	char choice[96];		/* how local rank or distance decided; "": neither did */
	char passed_over[BEEST_REASON_SIZE];	/* other ports, each with the reason */
};

/* Accepts a device that was never opened (all zero). */
void beest_device_close(struct beest_device *device);

/* Queries the port on each call, since LID, MTU and state change while a job runs. */
int beest_device_port(const struct beest_device *device, struct ibv_port_attr *attr);

/*
 * Finds the P_Key @wanted (its low 15 bits, preferably as a full member), or for 0 the first
 * full member, else the first limited one.  RoCE: index 0.  @pkey: the value found, host
 * byte order.  -ENODATA: not found, and the sentence lists the port's P_Keys.
 */
int beest_device_pkey(const struct beest_device *device, uint16_t wanted,
		      uint16_t *index, uint16_t *pkey);

/* The P_Key at @index; errno of ibv_query_pkey(3). */
int beest_device_pkey_at(const struct beest_device *device, uint16_t index, uint16_t *pkey);

/*
 * What a virtual function lacks that is down or has no GID, to follow the sentence; "" for any
 * other device.
 */
const char *beest_device_virtual_text(const struct ibv_context *verbs, bool ethernet);

/* "active", "down", ... for ibv_port_attr.state. */
const char *beest_device_state_text(enum ibv_port_state state);

#endif
