/* SPDX-License-Identifier: MIT */
/*
 * pingpong-socket.c - two ends that find each other over a TCP connection
 *
 *	pingpong-socket 18515		on one host
 *	pingpong-socket 18515 HOST	on another
 *
 * The usual way, with all its steps: the choice of an entry of the GID table, the exchange of
 * numbers, three transitions, and a last message over the socket, since neither end may send
 * before the other is ready.  examples/adopt.c is the same program without all that.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pingpong.h"

#define PORT 1			/* of the device */

/* What one end must know about the other. */
struct endpoint {
	union ibv_gid gid;
	uint32_t qp_num, psn;
	uint16_t lid;
	uint16_t mtu;
};

static struct ibv_port_attr port;
static int sgid_index;

/* ----------------------------------------------------------- local end --- */

/* RoCE: the last entry with an IPv4 address, which is version 2 on most devices. */
static void choose_gid(struct pingpong *self, union ibv_gid *gid)
{
	static const unsigned char ipv4[12] = { [10] = 0xff, [11] = 0xff };
	union ibv_gid each;
	int i;

	need(ibv_query_gid(self->verbs, PORT, 0, gid) == 0, "GID 0");
	if (port.link_layer != IBV_LINK_LAYER_ETHERNET)
		return;
	for (i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid(self->verbs, PORT, i, &each) != 0 ||
		    memcmp(each.raw, ipv4, sizeof(ipv4)) != 0)
			continue;
		*gid = each;
		sgid_index = i;
	}
}

static void to_init(struct pingpong *self, struct endpoint *own)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT };

	need(ibv_query_port(self->verbs, PORT, &port) == 0, "port");
	memset(own, 0, sizeof(*own));
	choose_gid(self, &own->gid);
	srand((unsigned int)time(NULL) ^ (unsigned int)getpid());
	own->psn = (uint32_t)rand() & 0xffffff;
	own->qp_num = self->qp->qp_num;
	own->lid = port.lid;
	own->mtu = (uint16_t)port.active_mtu;
	need(ibv_modify_qp(self->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			   IBV_QP_ACCESS_FLAGS) == 0, "RESET -> INIT");
}

/* -------------------------------------------------------------- socket --- */

static int accept_one(const char *service)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT,
				    .sin6_port = htons((uint16_t)atoi(service)) };
	int on = 1, fd, listener = socket(AF_INET6, SOCK_STREAM, 0);

	need(listener >= 0, "socket");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	need(bind(listener, (struct sockaddr *)&any, sizeof(any)) == 0, "bind");
	need(listen(listener, 1) == 0, "listen");
	fd = accept(listener, NULL, NULL);
	need(fd >= 0, "accept");
	close(listener);
	return fd;
}

/* Tries for 10 s, since the other end may not listen yet. */
static int connect_to(const char *host, const char *service)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list, *each;
	int fd, tries;

	need(getaddrinfo(host, service, &hints, &list) == 0, "host name");
	for (tries = 0; tries < 100; tries++) {
		for (each = list; each; each = each->ai_next) {
			fd = socket(each->ai_family, SOCK_STREAM, 0);
			if (fd >= 0 && connect(fd, each->ai_addr, each->ai_addrlen) == 0) {
				freeaddrinfo(list);
				return fd;
			}
			if (fd >= 0)
				close(fd);
		}
		usleep(100000);
	}
	need(0, "connect");
	return -1;
}

/* Sends a struct as it is in memory, which works if both hosts have the same layout. */
static void exchange(int fd, const void *own, void *its, size_t size)
{
	size_t got = 0;
	ssize_t ret;

	need(write(fd, own, size) == (ssize_t)size, "write");
	while (got < size) {
		ret = read(fd, (char *)its + got, size - got);
		need(ret > 0, "read");
		got += (size_t)ret;
	}
}

/* ------------------------------------------------------------- connect --- */

static void to_rts(struct pingpong *self, const struct endpoint *own,
		   const struct endpoint *its)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)(own->mtu < its->mtu ? own->mtu : its->mtu),
		.dest_qp_num = its->qp_num,
		.rq_psn = its->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = its->lid, .port_num = PORT },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 6,
		.rnr_retry = 7,
		.sq_psn = own->psn,
		.max_rd_atomic = 1,
	};

	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		rtr.ah_attr.is_global = 1;
		rtr.ah_attr.grh.dgid = its->gid;
		rtr.ah_attr.grh.sgid_index = (uint8_t)sgid_index;
		rtr.ah_attr.grh.hop_limit = 64;
	}
	need(ibv_modify_qp(self->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			   IBV_QP_MIN_RNR_TIMER) == 0, "INIT -> RTR");
	need(ibv_modify_qp(self->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
	     "RTR -> RTS");
}

int main(int argc, char **argv)
{
	static struct pingpong self;
	struct endpoint own, its;
	char ready = 'r', its_ready;
	int fd;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: %s PORT [HOST]\n", argv[0]);
		return EXIT_FAILURE;
	}
	create(&self);
	to_init(&self, &own);
	need(post_receive(&self) == 0, "receive");
	fd = argc == 2 ? accept_one(argv[1]) : connect_to(argv[2], argv[1]);
	exchange(fd, &own, &its, sizeof(own));
	to_rts(&self, &own, &its);
	exchange(fd, &ready, &its_ready, 1);
	play(&self, argc == 3);
	exchange(fd, &ready, &its_ready, 1);	/* lets the last acknowledgement arrive */
	close(fd);
	destroy(&self);
	return EXIT_SUCCESS;
}
