/* SPDX-License-Identifier: MIT */
/*
 * stub.c - see stub.h
 *
 * Linked ahead of libibverbs.  verbs.h turns some names into macros, so those functions are
 * defined under their assembler names.  The context is not inside a struct verbs_context, so
 * that the inline functions of verbs.h call these symbols, too.
 */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "bench/stub.h"

static struct ibv_device device = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.name = "stub0",
	.dev_name = "uverbs0",
	.ibdev_path = "/nonexistent/stub0",
};
static struct ibv_device *devices[] = { &device, NULL };
static struct ibv_context context = { .device = &device, .num_comp_vectors = 1 };
static uint32_t serial;

static uint32_t next_serial(void)
{
	return __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
}

/* Queue pair numbers have 24 bits and begin again when a bench has made many, but none is 0. */
static uint32_t next_number_of(uint32_t *last, uint32_t step)
{
	uint32_t number;

	do
		number = __atomic_add_fetch(last, step, __ATOMIC_RELAXED) & 0xffffff;
	while (number == 0);
	return number;
}

/*
 * A process that has the device to itself gets consecutive numbers for its queue pairs.  Ranks are
 * threads here, so each takes a block of numbers.
 */
#define BLOCK 1024
static __thread bool mixes_numbers;
static __thread uint32_t block, used = BLOCK;

void stub_mix_numbers(void)
{
	mixes_numbers = true;
}

static uint32_t next_number(void)
{
	static uint32_t mixed, blocks;

	if (mixes_numbers)
		return next_number_of(&mixed, 1);
	if (used == BLOCK) {
		block = next_number_of(&blocks, BLOCK);
		used = 0;
	}
	return block + used++;
}

/* -------------------------------------------------------------------- time --- */

/* ns of CPU time, measured on Soft-RoCE, where RTR also waits for address resolution. */
#define CREATE_TIME 122000
#define RTR_TIME 30000
#define CHANGE_TIME 6000

static bool takes_time;

void stub_take_time(bool like_a_device)
{
	takes_time = like_a_device;
}

static int64_t thread_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void spend(int64_t time)
{
	int64_t begin;

	if (!takes_time)
		return;
	begin = thread_time();
	while (thread_time() - begin < time)
		;
}

/* ------------------------------------------------------------------ device --- */

struct ibv_device **ibv_get_device_list(int *count)
{
	if (count)
		*count = 1;
	return devices;
}

void ibv_free_device_list(struct ibv_device **list)
{
	(void)list;
}

const char *ibv_get_device_name(struct ibv_device *of)
{
	return of->name;
}

static void open_events(void)
{
	context.async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* There is one context.  It never has an event. */
struct ibv_context *ibv_open_device(struct ibv_device *of)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)of;
	used = BLOCK;		/* a new block, as in a new process */
	pthread_once(&once, open_events);
	return &context;
}

int ibv_close_device(struct ibv_context *verbs)
{
	(void)verbs;
	return 0;
}

int ibv_query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	(void)verbs;
	*attr = (struct ibv_device_attr){
		.max_mr_size = UINT64_MAX, .max_qp = INT32_MAX, .max_qp_wr = 4096, .max_sge = 16,
		.max_cq = INT32_MAX, .max_cqe = INT32_MAX, .max_mr = INT32_MAX,
		.max_pd = INT32_MAX, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16,
		.atomic_cap = IBV_ATOMIC_HCA, .max_ah = INT32_MAX, .max_pkeys = 1,
		.phys_port_cnt = 1,
	};
	return 0;
}

int ibv_get_async_event(struct ibv_context *verbs, struct ibv_async_event *event)
{
	(void)verbs, (void)event;
	errno = EAGAIN;
	return -1;
}

int stub_query_port(struct ibv_context *, uint8_t, struct ibv_port_attr *)
	__asm__("ibv_query_port");

/* InfiniBand, whose addresses need no network interface. */
int stub_query_port(struct ibv_context *verbs, uint8_t port, struct ibv_port_attr *attr)
{
	(void)verbs, (void)port;
	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = attr->pkey_tbl_len = 1;
	attr->lid = STUB_LID;
	attr->sm_lid = 1;
	attr->lmc = 0;
	attr->max_msg_sz = 1U << 31;
	attr->phys_state = 5;
	attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
	attr->flags = 0;
	return 0;
}

int ibv_query_gid(struct ibv_context *verbs, uint8_t port, int index, union ibv_gid *gid)
{
	(void)verbs, (void)port, (void)index;
	memset(gid, 0, sizeof(*gid));
	gid->raw[0] = 0xfe;
	gid->raw[1] = 0x80;
	gid->raw[15] = STUB_LID;
	return 0;
}

/* struct ibv_gid_entry, which came with rdma-core 32. */
struct stub_gid_entry {
	union ibv_gid gid;
	uint32_t index, port, type, interface;
};

/* lib/verbs/newer.c looks it up at run time. */
__attribute__((visibility("default")))
int stub_query_gid_ex(struct ibv_context *, uint32_t, uint32_t, struct stub_gid_entry *,
		      uint32_t, size_t) __asm__("_ibv_query_gid_ex");

int stub_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
		      struct stub_gid_entry *entry, uint32_t flags, size_t size)
{
	struct stub_gid_entry filled = { .index = index, .port = port };

	(void)flags;
	if (size < sizeof(filled))
		return EINVAL;
	ibv_query_gid(verbs, (uint8_t)port, (int)index, &filled.gid);
	memcpy(entry, &filled, sizeof(filled));
	return 0;
}

__attribute__((visibility("default")))
ssize_t stub_query_gid_table(struct ibv_context *, struct stub_gid_entry *, size_t, uint32_t,
			     size_t) __asm__("_ibv_query_gid_table");

ssize_t stub_query_gid_table(struct ibv_context *verbs, struct stub_gid_entry *entries,
			     size_t count, uint32_t flags, size_t size)
{
	if (!count || stub_query_gid_ex(verbs, 1, 0, entries, flags, size) != 0)
		return -EINVAL;
	return 1;
}

/*
 * Those of libibverbs would look for a provider behind these structs.  The device has no options,
 * so nothing ever sets any.
 */
struct stub_ece;

__attribute__((visibility("default")))
int stub_query_ece(struct ibv_qp *, struct stub_ece *) __asm__("ibv_query_ece");

int stub_query_ece(struct ibv_qp *qp, struct stub_ece *ece)
{
	(void)qp, (void)ece;
	return EOPNOTSUPP;
}

int ibv_query_pkey(struct ibv_context *verbs, uint8_t port, int index, __be16 *pkey)
{
	(void)verbs, (void)port, (void)index;
	*pkey = htobe16(0xffff);
	return 0;
}

int getifaddrs(struct ifaddrs **list)
{
	*list = NULL;
	return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
	(void)list;
}

/* ----------------------------------------------------------------- objects --- */

#define MAKE(type, member) \
	type *member = calloc(1, sizeof(*member)); \
	if (!member) \
		return NULL

struct ibv_pd *ibv_alloc_pd(struct ibv_context *verbs)
{
	MAKE(struct ibv_pd, pd);

	pd->context = verbs;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

struct ibv_mr *stub_reg_mr(struct ibv_pd *, void *, size_t, int) __asm__("ibv_reg_mr");

struct ibv_mr *stub_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	MAKE(struct ibv_mr, mr);

	(void)access;
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = address;
	mr->length = length;
	mr->lkey = mr->rkey = next_serial();
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *verbs, int cqe, void *data,
			     struct ibv_comp_channel *channel, int vector)
{
	MAKE(struct ibv_cq, cq);

	(void)vector;
	cq->context = verbs;
	cq->channel = channel;
	cq->cq_context = data;
	cq->cqe = cqe;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	MAKE(struct ibv_ah, ah);

	(void)attr;
	ah->context = pd->context;
	ah->pd = pd;
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	free(ah);
	return 0;
}

/* -------------------------------------------------------------- queue pair --- */

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	MAKE(struct stub_qp, stub);

	spend(CREATE_TIME);
	stub->qp.context = pd->context;
	stub->qp.pd = pd;
	stub->qp.send_cq = attr->send_cq;
	stub->qp.recv_cq = attr->recv_cq;
	stub->qp.qp_type = attr->qp_type;
	stub->qp.qp_context = attr->qp_context;
	stub->qp.qp_num = next_number();
	stub->qp.state = IBV_QPS_RESET;
	return &stub->qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	free(qp);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct stub_qp *stub = (struct stub_qp *)qp;

	if (mask & IBV_QP_STATE) {
		spend(attr->qp_state == IBV_QPS_RTR ? RTR_TIME : CHANGE_TIME);
		qp->state = attr->qp_state;
	}
	if (mask & IBV_QP_DEST_QPN)
		stub->dest_qp_num = attr->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		stub->rq_psn = attr->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		stub->sq_psn = attr->sq_psn;
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	const struct stub_qp *stub = (const struct stub_qp *)qp;

	(void)mask;
	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->dest_qp_num = stub->dest_qp_num;
	attr->rq_psn = stub->rq_psn;
	attr->sq_psn = stub->sq_psn;
	return 0;
}

bool stub_joined(const struct ibv_qp *one, const struct ibv_qp *other)
{
	const struct stub_qp *a = (const struct stub_qp *)one;
	const struct stub_qp *b = (const struct stub_qp *)other;

	return a && b && a->qp.state == IBV_QPS_RTS && a->dest_qp_num == b->qp.qp_num &&
	       a->rq_psn == b->sq_psn;
}
