/* SPDX-License-Identifier: MIT */
/*
 * fake-verbs.c - see fake-verbs.h
 *
 * Functions that verbs.h declares differently from release to release, or turns into macros,
 * are defined here under their assembler names: ibv_query_port, ibv_reg_mr and its variants,
 * _ibv_query_gid_ex.  Contexts are of the old kind (not within a struct verbs_context), so
 * that the inlines of verbs.h call these symbols.
 */
#include "config.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/support/fake-verbs.h"
#include "tests/support/silence.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CONTAINER(pointer, type, member) \
	((type *)(void *)((char *)(pointer) - offsetof(type, member)))
#define PSN_MASK 0xffffff
#define FUNCTIONS 64

struct fake_verbs fake_verbs;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t serial;			/* for QP numbers and keys */

/* ------------------------------------------------------- calls, failures --- */

static struct {
	const char *function;
	int count;
} calls[FUNCTIONS];

static void count_call(const char *function)
{
	size_t i;

	for (i = 0; i < COUNT(calls) - 1 && calls[i].function; i++)
		if (strcmp(calls[i].function, function) == 0)
			break;

	calls[i].function = function;
	calls[i].count++;
}

int fake_verbs_calls(const char *function)
{
	int count = 0;
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < COUNT(calls) && calls[i].function; i++)
		if (strcmp(calls[i].function, function) == 0)
			count = calls[i].count;
	pthread_mutex_unlock(&lock);

	return count;
}

static int fires(struct fake_failure *failure, const char *function, bool any)
{
	if (!failure->function)
		return 0;
	if (strcmp(failure->function, function) != 0 &&
	    !(any && strcmp(failure->function, "*") == 0))
		return 0;
	if (failure->nth > 1) {
		failure->nth--;
		return 0;
	}
	if (failure->nth == 1)
		failure->function = NULL;
	fake_verbs.fired++;
	return failure->error;
}

/* Called first by every function.  Nonzero: the function has to fail with this error. */
static int enter(const char *function, bool any)
{
	int error = 0;
	size_t i;

	if (fake_verbs.hook)
		fake_verbs.hook(function);

	pthread_mutex_lock(&lock);
	count_call(function);
	for (i = 0; i < FAKE_FAILURES && !error; i++)
		error = fires(&fake_verbs.failures[i], function, any);
	pthread_mutex_unlock(&lock);
	return error;
}

static int called(const char *function)
{
	return enter(function, true);
}

/* "*" does not stand for destructors, so clean-up works while all failures are tried. */
static int called_destructor(const char *function)
{
	return enter(function, false);
}

void fake_verbs_fail(const char *function, int nth, int error)
{
	size_t i;

	for (i = 0; i < FAKE_FAILURES - 1 && fake_verbs.failures[i].function; i++)
		continue;

	fake_verbs.failures[i].function = function;
	fake_verbs.failures[i].nth = nth;
	fake_verbs.failures[i].error = error;
}

static void *null_with(int error)
{
	if (error != FAKE_NO_ERRNO)
		errno = error;
	return NULL;
}

static int minus_one_with(int error)
{
	null_with(error);
	return -1;
}

static int returned(int error)
{
	return error == FAKE_NO_ERRNO ? EIO : error;
}

/* --------------------------------------------------------------- objects --- */

/* First member of all objects that are handed out. */
struct object {
	struct object *next, **link;
	void (*free)(struct object *object);
	int *count;
	int users;
};

static struct object *objects;

static void *make(size_t size, int *count, void (*discard)(struct object *))
{
	struct object *object = calloc(1, size);

	if (!object)
		abort();

	object->free = discard;
	object->count = count;
	pthread_mutex_lock(&lock);
	object->next = objects;
	object->link = &objects;
	if (objects)
		objects->link = &object->next;
	objects = object;
	(*count)++;
	fake_verbs.open++;
	pthread_mutex_unlock(&lock);
	return object;
}

static void unmake(struct object *object)
{
	pthread_mutex_lock(&lock);
	*object->link = object->next;
	if (object->next)
		object->next->link = object->link;
	(*object->count)--;
	fake_verbs.open--;
	pthread_mutex_unlock(&lock);
	object->free(object);
}

static void plain_free(struct object *object)
{
	free(object);
}

static void use(struct object *object, int by)
{
	__atomic_add_fetch(&object->users, by, __ATOMIC_SEQ_CST);
}

/* Last step of every destructor; returns its errno. */
static int destroyed(const char *function, struct object *object)
{
	int error = called_destructor(function);

	if (error)
		return returned(error);
	if (__atomic_load_n(&object->users, __ATOMIC_SEQ_CST))
		return EBUSY;
	unmake(object);
	return 0;
}

/* As in libibverbs, a device lives as long as a list or a context needs it. */
struct fake_ibdev {
	struct ibv_device device;
	const struct fake_device *described;
	int users;
};

struct fake_list {
	struct object object;
	struct ibv_device *devices[FAKE_DEVICES + 1];
};

struct fake_context {
	struct object object;
	struct ibv_context verbs;
	const struct fake_device *described;
};

struct fake_pd {
	struct object object;
	struct ibv_pd pd;
};

struct fake_mr {
	struct object object;
	struct ibv_mr mr;
};

struct fake_ah {
	struct object object;
	struct ibv_ah ah;
};

struct fake_srq {
	struct object object;
	struct ibv_srq srq;
};

struct fake_cq {
	struct object object;
	struct ibv_cq cq;
	struct ibv_wc *wcs;
	size_t first, count;
	bool armed;
	int vector;
	unsigned int events, unacked;	/* not yet read; read but not acknowledged */
};

struct fake_channel {
	struct object object;
	struct ibv_comp_channel channel;
};

struct fake_qp {
	struct object object;
	struct ibv_qp qp;
	uint32_t ece_set, ece_has;	/* for RTR; as it is read back */
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
};

static const struct fake_device *described(const struct ibv_context *verbs)
{
	return CONTAINER(verbs, struct fake_context, verbs)->described;
}

static struct fake_qp *fake_qp(const struct ibv_qp *qp)
{
	return CONTAINER(qp, struct fake_qp, qp);
}

static struct fake_cq *fake_cq(const struct ibv_cq *cq)
{
	return CONTAINER(cq, struct fake_cq, cq);
}

static struct object *pd_object(const struct ibv_pd *pd)
{
	return &CONTAINER(pd, struct fake_pd, pd)->object;
}

static uint32_t next_serial(void)
{
	return __atomic_add_fetch(&serial, 1, __ATOMIC_SEQ_CST);
}

/* --------------------------------------------------------------- defaults --- */

static const struct fake_device roce = {
	.name = "fake0",
	.node_type = IBV_NODE_CA,
	.transport = IBV_TRANSPORT_IB,
	.max_inline = FAKE_INLINE,
	.inline_error = EINVAL,
	.attr = {
		.fw_ver = "1.0",
		.max_mr_size = UINT64_MAX,
		.vendor_id = 0x02c9,
		.max_qp = 1024,
		.max_qp_wr = 4096,
		.max_sge = 16,
		.max_sge_rd = 16,
		.max_cq = 1024,
		.max_cqe = 65535,
		.max_mr = 1024,
		.max_pd = 1024,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_ah = 1024,
		.max_srq = 64,
		.max_srq_wr = 4096,
		.max_srq_sge = 16,
		.max_pkeys = 16,
		.local_ca_ack_delay = 16,
		.phys_port_cnt = 1,
	},
	.ports = { {
		.state = IBV_PORT_ACTIVE,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.active_mtu = IBV_MTU_1024,
		.gid_count = 8,
		.gids = {
			{ .gid = "fe80::a00:27ff:fe00:1", .roce = 1, .netdev = "eth0" },
			{ .gid = "fe80::a00:27ff:fe00:1", .roce = 2, .netdev = "eth0" },
			{ .gid = "::ffff:10.0.0.1", .roce = 1, .netdev = "eth0" },
			{ .gid = "::ffff:10.0.0.1", .roce = 2, .netdev = "eth0" },
		},
		.pkey_count = 1,
		.pkeys = { 0xffff },
	} },
};

static const struct fake_port infiniband = {
	.state = IBV_PORT_ACTIVE,
	.link_layer = IBV_LINK_LAYER_INFINIBAND,
	.lid = 7,
	.active_mtu = IBV_MTU_4096,
	.gid_count = 8,
	.gids = { { .gid = "fe80::7" } },
	.pkey_count = 8,
	.pkeys = { 0xffff, 0x8012 },
};

static void async_count(void);

void fake_verbs_reset(void)
{
	while (objects)
		unmake(objects);

	while (fake_verbs.event_count-- > 0)
		async_count();
	memset(&fake_verbs.device_count, 0,
	       sizeof(fake_verbs) - offsetof(struct fake_verbs, device_count));
	memset(calls, 0, sizeof(calls));
	serial = 0x100;
	fake_verbs.devices[0] = roce;
	fake_verbs.device_count = 1;
}

void fake_verbs_infiniband(void)
{
	fake_verbs_reset();
	fake_verbs.devices[0].ports[0] = infiniband;
}

struct fake_device *fake_verbs_add(const char *name)
{
	struct fake_device *device;

	if (fake_verbs.device_count == FAKE_DEVICES)
		abort();

	device = &fake_verbs.devices[fake_verbs.device_count++];
	*device = fake_verbs.devices[0];
	device->name = name;
	return device;
}

/* --------------------------------------------------------------- devices --- */

static void drop_device(struct ibv_device *device)
{
	struct fake_ibdev *ibdev = CONTAINER(device, struct fake_ibdev, device);

	if (--ibdev->users == 0)
		free(ibdev);
}

static struct ibv_device *new_device(const struct fake_device *from)
{
	struct fake_ibdev *ibdev = calloc(1, sizeof(*ibdev));
	struct ibv_device *device;

	if (!ibdev)
		abort();

	ibdev->described = from;
	ibdev->users = 1;
	device = &ibdev->device;
	device->node_type = from->node_type;
	device->transport_type = from->transport;
	snprintf(device->name, sizeof(device->name), "%s", from->name);
	snprintf(device->dev_name, sizeof(device->dev_name), "uverbs-%s", from->name);
	if (from->ibdev_path)
		snprintf(device->ibdev_path, sizeof(device->ibdev_path), "%s", from->ibdev_path);
	else
		snprintf(device->ibdev_path, sizeof(device->ibdev_path), "/nonexistent/%s",
			 from->name);
	return device;
}

static void free_list(struct object *object)
{
	struct fake_list *list = CONTAINER(object, struct fake_list, object);
	struct ibv_device **device;

	for (device = list->devices; *device; device++)
		drop_device(*device);
	free(list);
}

struct ibv_device **ibv_get_device_list(int *count)
{
	int i, error = called("ibv_get_device_list");
	struct fake_list *list;

	if (error)
		return null_with(error);

	list = make(sizeof(*list), &fake_verbs.lists, free_list);
	for (i = 0; i < fake_verbs.device_count; i++)
		list->devices[i] = new_device(&fake_verbs.devices[i]);
	if (count)
		*count = fake_verbs.device_count;
	return list->devices;
}

void ibv_free_device_list(struct ibv_device **devices)
{
	called_destructor("ibv_free_device_list");
	unmake(&CONTAINER(devices, struct fake_list, devices)->object);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	const struct fake_device *from = CONTAINER(device, struct fake_ibdev, device)->described;

	return htobe64(0x0200000000000000 + (uint64_t)(from - fake_verbs.devices));
}

static void free_context(struct object *object)
{
	struct fake_context *context = CONTAINER(object, struct fake_context, object);

	drop_device(context->verbs.device);
	free(context);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad);
static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
static int req_notify_cq(struct ibv_cq *cq, int solicited);

static int async = -1;

static void open_async(void)
{
	__atomic_store_n(&async, eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE | EFD_NONBLOCK),
			 __ATOMIC_RELAXED);
}

/* Belongs to the test until its end, since a context may briefly outlive a reset. */
static int async_fd(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_async);
	return async;
}

static void async_count(void)
{
	uint64_t number;

	if (read(async_fd(), &number, sizeof(number)) < 0 && errno != EAGAIN)
		abort();
}

void fake_verbs_raise(const struct ibv_async_event *event)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&lock);
	if (fake_verbs.event_count == FAKE_EVENTS)
		abort();
	fake_verbs.events[fake_verbs.event_count++] = *event;
	if (write(async_fd(), &one, sizeof(one)) < 0)
		abort();
	pthread_mutex_unlock(&lock);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct fake_ibdev *ibdev = CONTAINER(device, struct fake_ibdev, device);
	int error = called("ibv_open_device");
	struct fake_context *context;

	if (error || ibdev->described->open_error)
		return null_with(error ? error : ibdev->described->open_error);

	context = make(sizeof(*context), &fake_verbs.contexts, free_context);
	context->described = ibdev->described;
	context->verbs.device = device;
	context->verbs.cmd_fd = -1;
	context->verbs.async_fd = async_fd();
	context->verbs.num_comp_vectors = 1;
	context->verbs.ops.post_send = post_send;
	context->verbs.ops.post_recv = post_recv;
	context->verbs.ops.post_srq_recv = post_srq_recv;
	context->verbs.ops.poll_cq = poll_cq;
	context->verbs.ops.req_notify_cq = req_notify_cq;
	ibdev->users++;
	return &context->verbs;
}

int ibv_close_device(struct ibv_context *verbs)
{
	int error = destroyed("ibv_close_device",
			      &CONTAINER(verbs, struct fake_context, verbs)->object);

	return error ? minus_one_with(error) : 0;
}

int ibv_query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	int error = called("ibv_query_device");

	if (error)
		return returned(error);

	*attr = described(verbs)->attr;
	return 0;
}

/* Another thread may raise an event at the same time. */
static bool take_event(struct ibv_async_event *event)
{
	bool taken;

	pthread_mutex_lock(&lock);
	taken = fake_verbs.event_count > 0;
	if (taken) {
		async_count();
		*event = fake_verbs.events[0];
		fake_verbs.event_count--;
		memmove(fake_verbs.events, fake_verbs.events + 1,
			(size_t)fake_verbs.event_count * sizeof(*event));
	}
	pthread_mutex_unlock(&lock);
	return taken;
}

__attribute__((weak, visibility("default")))
int fake_poll(struct pollfd *, nfds_t, int) __asm__("poll");

/*
 * The library asks for events at each look, which takes no system call here.  libmemcached waits
 * for a server as tests/support/silence.h has it.  Weak, since a test may have its own.
 */
int fake_poll(struct pollfd *fds, nfds_t count, int timeout)
{
	const struct timespec left = { timeout / 1000, timeout % 1000 * 1000000L };

	if (count != 1)
		return ppoll(fds, count, timeout < 0 ? NULL : &left, NULL);
	if (timeout != 0 || fds->fd < 0 ||
	    fds->fd != __atomic_load_n(&async, __ATOMIC_RELAXED))
		return silence_poll(fds, timeout);
	pthread_mutex_lock(&lock);
	fds->revents = fake_verbs.event_count ? fds->events & POLLIN : 0;
	pthread_mutex_unlock(&lock);
	return fds->revents != 0;
}

int ibv_get_async_event(struct ibv_context *verbs, struct ibv_async_event *event)
{
	int error = called("ibv_get_async_event");

	(void)verbs;
	if (error)
		return minus_one_with(error);
	return take_event(event) ? 0 : minus_one_with(EAGAIN);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	called_destructor("ibv_ack_async_event");
	fake_verbs.acked_events++;
}

/* ---------------------------------------------------------- port, tables --- */

static const struct fake_port *port_at(const struct fake_device *device, unsigned int port)
{
	return port >= 1 && port <= device->attr.phys_port_cnt ? &device->ports[port - 1] : NULL;
}

static const struct fake_gid *gid_at(const struct fake_port *port, unsigned int index)
{
	return index < (unsigned int)port->gid_count ? &port->gids[index] : NULL;
}

static void gid_bytes(const char *text, uint8_t raw[16])
{
	memset(raw, 0, 16);
	if (text && inet_pton(AF_INET6, text, raw) != 1)
		abort();
}

int fake_query_port(struct ibv_context *, uint8_t, struct ibv_port_attr *)
	__asm__("ibv_query_port");

/* Fills member by member, since old binaries have a shorter struct. */
int fake_query_port(struct ibv_context *verbs, uint8_t number, struct ibv_port_attr *attr)
{
	const struct fake_port *port = port_at(described(verbs), number);
	int error = called("ibv_query_port");

	if (error)
		return returned(error);
	if (!port)
		return EINVAL;

	attr->state = __atomic_load_n(&port->state, __ATOMIC_RELAXED);
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = port->active_mtu;
	attr->gid_tbl_len = port->gid_count;
	attr->pkey_tbl_len = (uint16_t)port->pkey_count;
	attr->lid = port->lid;
	attr->sm_lid = port->link_layer == IBV_LINK_LAYER_ETHERNET ? 0 : 1;
	attr->lmc = port->lmc;
	attr->max_msg_sz = 1U << 31;
	attr->phys_state = attr->state == IBV_PORT_ACTIVE ? 5 : 3;
	attr->link_layer = port->link_layer;
	attr->flags = port->flags;
	return 0;
}

/* Returns zeros for an empty entry, for which ibv_query_gid_ex(3) fails with ENODATA. */
int ibv_query_gid(struct ibv_context *verbs, uint8_t number, int index, union ibv_gid *gid)
{
	const struct fake_port *port = port_at(described(verbs), number);
	const struct fake_gid *entry = port ? gid_at(port, (unsigned int)index) : NULL;
	int error = called("ibv_query_gid");

	if (error)
		return minus_one_with(error);
	if (!entry || entry->error)
		return minus_one_with(entry ? entry->error : EINVAL);

	gid_bytes(entry->gid, gid->raw);
	return 0;
}

/* struct ibv_gid_entry, since rdma-core 32. */
struct fake_gid_entry {
	uint64_t gid[2];
	uint32_t gid_index;
	uint32_t port_num;
	uint32_t gid_type;
	uint32_t ndev_ifindex;
};

static uint32_t index_of_netdev(const char *name);

static void gid_entry_fill(const struct fake_port *port, uint32_t number, uint32_t index,
			   struct fake_gid_entry *entry)
{
	const struct fake_gid *gid = &port->gids[index];

	*entry = (struct fake_gid_entry){ .gid_index = index, .port_num = number,
					  .gid_type = (uint32_t)gid->roce };
	gid_bytes(gid->gid, (uint8_t *)entry->gid);
	if (gid->number)
		entry->ndev_ifindex = gid->number;
	else if (gid->roce && gid->netdev)	/* the kernel has none for InfiniBand */
		entry->ndev_ifindex = index_of_netdev(gid->netdev);
}

/* For functions that lib/verbs/newer.c looks up at run time. */
#define EXPORTED __attribute__((visibility("default")))

EXPORTED int fake_query_gid_ex(struct ibv_context *, uint32_t, uint32_t, struct fake_gid_entry *,
			       uint32_t, size_t) __asm__("_ibv_query_gid_ex");

int fake_query_gid_ex(struct ibv_context *verbs, uint32_t number, uint32_t index,
		      struct fake_gid_entry *entry, uint32_t flags, size_t size)
{
	const struct fake_port *port = port_at(described(verbs), number);
	const struct fake_gid *gid = port ? gid_at(port, index) : NULL;
	int error = called("ibv_query_gid_ex");

	if (error)
		return returned(error);
	if (!gid || flags || size < sizeof(*entry))
		return EINVAL;
	if (gid->error || !gid->gid)
		return gid->error ? gid->error : ENODATA;

	gid_entry_fill(port, number, index, entry);
	return 0;
}

EXPORTED ssize_t fake_query_gid_table(struct ibv_context *, struct fake_gid_entry *, size_t,
				      uint32_t, size_t) __asm__("_ibv_query_gid_table");

/* Unreadable entries are left out, like empty ones. */
ssize_t fake_query_gid_table(struct ibv_context *verbs, struct fake_gid_entry *entries,
			     size_t count, uint32_t flags, size_t size)
{
	int error = called("ibv_query_gid_table"), index;
	const struct fake_port *port;
	unsigned int number;
	size_t filled = 0;

	if (error || flags || size != sizeof(*entries))
		return error ? -returned(error) : -EINVAL;
	for (number = 1; (port = port_at(described(verbs), number)); number++)
		for (index = 0; index < port->gid_count; index++) {
			if (!port->gids[index].gid || port->gids[index].error)
				continue;
			if (filled == count)
				return -EINVAL;
			gid_entry_fill(port, number, (uint32_t)index, &entries[filled++]);
		}
	return (ssize_t)filled;
}

int ibv_query_pkey(struct ibv_context *verbs, uint8_t number, int index, __be16 *pkey)
{
	const struct fake_port *port = port_at(described(verbs), number);
	int error = called("ibv_query_pkey");

	if (error)
		return minus_one_with(error);
	if (!port || index < 0 || index >= port->pkey_count)
		return minus_one_with(EINVAL);

	*pkey = htobe16(port->pkeys[index]);
	return 0;
}

/* ------------------------------------------------------------ interfaces --- */

#define NETDEVS 1024		/* distinct names; must fit on a coroutine's stack */
#define FIRST_IFINDEX 1000

struct fake_netdevs {
	const struct fake_gid *by_name[NETDEVS];
	size_t count;
};

static void note_netdev(struct fake_netdevs *netdevs, const struct fake_gid *gid)
{
	size_t i;

	if (!gid->netdev)
		return;
	for (i = 0; i < netdevs->count; i++)
		if (strcmp(netdevs->by_name[i]->netdev, gid->netdev) == 0)
			return;
	netdevs->by_name[netdevs->count++] = gid;
}

static void find_netdevs(struct fake_netdevs *netdevs)
{
	int d, p, g;

	netdevs->count = 0;
	for (d = 0; d < fake_verbs.device_count; d++)
		for (p = 0; p < FAKE_PORTS; p++)
			for (g = 0; g < fake_verbs.devices[d].ports[p].gid_count; g++)
				note_netdev(netdevs, &fake_verbs.devices[d].ports[p].gids[g]);
}

static uint32_t index_of_netdev(const char *name)
{
	struct fake_netdevs netdevs;
	size_t i;

	for (i = 0; i < (size_t)fake_verbs.interface_count; i++)
		if (strcmp(fake_verbs.interfaces[i].name, name) == 0)
			return fake_verbs.interfaces[i].number;

	find_netdevs(&netdevs);
	for (i = 0; i < netdevs.count; i++)
		if (strcmp(netdevs.by_name[i]->netdev, name) == 0)
			return (uint32_t)(FIRST_IFINDEX + i);

	return 0;
}

/* An element of the list of getifaddrs(3). */
struct fake_ifaddr {
	struct ifaddrs ifaddrs;
	union {
		struct sockaddr_ll link;
		uint8_t room[sizeof(struct sockaddr_ll) + 12];	/* as large as glibc's */
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
	char name[IF_NAMESIZE];
	struct sockaddr_in mask;
};

static struct fake_ifaddr *new_ifaddr(struct ifaddrs **list, const char *name, bool down)
{
	struct fake_ifaddr *new = calloc(1, sizeof(*new));

	if (!new)
		abort();

	snprintf(new->name, sizeof(new->name), "%s", name);
	new->ifaddrs.ifa_name = new->name;
	new->ifaddrs.ifa_flags = down ? 0 : IFF_UP | IFF_RUNNING;
	new->ifaddrs.ifa_next = *list;
	*list = &new->ifaddrs;
	return new;
}

/*
 * @hardware: the six bytes of Ethernet, or the GID of the port of an IPoIB interface, whose address
 * is four bytes with the queue pair number and this GID.
 */
static void add_link(struct ifaddrs **list, const struct fake_interface *of)
{
	struct fake_ifaddr *new = new_ifaddr(list, of->name, of->down);
	struct sockaddr_ll *link = &new->address.link;
	uint8_t *bytes = new->address.room + offsetof(struct sockaddr_ll, sll_addr);

	link->sll_family = AF_PACKET;
	link->sll_ifindex = (int)of->number;
	link->sll_halen = 6;
	new->ifaddrs.ifa_addr = (struct sockaddr *)link;
	if (!of->hardware || sscanf(of->hardware, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", &bytes[0],
				    &bytes[1], &bytes[2], &bytes[3], &bytes[4], &bytes[5]) == 6)
		return;
	link->sll_halen = 20;
	memset(bytes, 0, 4);
	gid_bytes(of->hardware, bytes + 4);
}

/* Each IPv4 address has a 24-bit network. */
static void make_ipv4(struct fake_ifaddr *new)
{
	new->mask.sin_family = AF_INET;
	new->mask.sin_addr.s_addr = htonl(0xffffff00);
	new->address.v4.sin_family = AF_INET;
	new->ifaddrs.ifa_netmask = (struct sockaddr *)&new->mask;
}

static void add_ip(struct ifaddrs **list, const char *name, bool down, const char *text)
{
	struct fake_ifaddr *new = new_ifaddr(list, name, down);
	struct in6_addr ip;

	new->ifaddrs.ifa_addr = (struct sockaddr *)&new->address;
	if (inet_pton(AF_INET, text, &new->address.v4.sin_addr) == 1) {
		make_ipv4(new);
		return;
	}
	if (inet_pton(AF_INET6, text, &ip) != 1)
		abort();
	new->address.v6.sin6_family = AF_INET6;
	new->address.v6.sin6_addr = ip;
	if (!IN6_IS_ADDR_V4MAPPED(&ip))
		return;
	memset(&new->address, 0, sizeof(new->address));
	make_ipv4(new);
	memcpy(&new->address.v4.sin_addr, ip.s6_addr + 12, 4);
}

static void add_link_of_gid(struct ifaddrs **list, const struct fake_gid *gid)
{
	const struct fake_interface interface = {
		.name = gid->netdev, .number = index_of_netdev(gid->netdev),
		.down = gid->netdev_down, .hardware = gid->roce ? NULL : gid->gid,
	};

	add_link(list, &interface);
}

/* One address for each GID: on RoCE, the GIDs are made from addresses. */
static void add_ip_of_gid(struct ifaddrs **list, const struct fake_gid *gid, const char *ip_text)
{
	const char *text = ip_text ? ip_text : gid->roce ? gid->gid : NULL;

	if (gid->netdev && text)
		add_ip(list, gid->netdev, gid->netdev_down, text);
}

static void add_addresses(struct ifaddrs **list)
{
	const struct fake_port *port;
	int d, p, g;

	for (d = 0; d < fake_verbs.device_count; d++) {
		for (p = 0; p < FAKE_PORTS; p++) {
			port = &fake_verbs.devices[d].ports[p];
			for (g = 0; g < port->gid_count; g++)
				add_ip_of_gid(list, &port->gids[g], port->ips[g]);
		}
	}
}

static void add_interfaces_of_gids(struct ifaddrs **list)
{
	struct fake_netdevs netdevs;

	new_ifaddr(list, "tun0", true);		/* some have no address at all */
	find_netdevs(&netdevs);
	while (netdevs.count--)
		add_link_of_gid(list, netdevs.by_name[netdevs.count]);
	add_addresses(list);
}

/* Backwards, so that the list has the order of the description. */
static void add_interfaces(struct ifaddrs **list)
{
	const struct fake_interface *each;
	int i, a;

	for (i = fake_verbs.interface_count - 1; i >= 0; i--) {
		each = &fake_verbs.interfaces[i];
		for (a = FAKE_ADDRESSES - 1; a >= 0; a--)
			if (each->addresses[a])
				add_ip(list, each->name, each->down, each->addresses[a]);
		add_link(list, each);
	}
}

int getifaddrs(struct ifaddrs **list)
{
	int error = called("getifaddrs");

	if (error)
		return minus_one_with(error);

	*list = NULL;
	if (fake_verbs.interface_count)
		add_interfaces(list);
	else
		add_interfaces_of_gids(list);
	return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
	struct ifaddrs *next;

	for (; list; list = next) {
		next = list->ifa_next;
		free(CONTAINER(list, struct fake_ifaddr, ifaddrs));
	}
}

/* ------------------------------------------------ domains, regions, queues --- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *verbs)
{
	int error = called("ibv_alloc_pd");
	struct fake_pd *pd;

	if (error)
		return null_with(error);

	pd = make(sizeof(*pd), &fake_verbs.pds, plain_free);
	pd->pd.context = verbs;
	return &pd->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return destroyed("ibv_dealloc_pd", pd_object(pd));
}

/* As the kernel requires, remote write access implies local write access. */
static struct ibv_mr *reg_mr(const char *function, struct ibv_pd *pd, void *address,
			     size_t length, unsigned int access)
{
	int error = called(function);
	struct fake_mr *mr;

	if (!error && (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		error = EINVAL;
	if (error)
		return null_with(error);

	mr = make(sizeof(*mr), &fake_verbs.mrs, plain_free);
	mr->mr.context = pd->context;
	mr->mr.pd = pd;
	mr->mr.addr = address;
	mr->mr.length = length;
	mr->mr.lkey = next_serial();
	mr->mr.rkey = mr->mr.lkey + 0x10000;
	use(pd_object(pd), 1);
	return &mr->mr;
}

struct ibv_mr *fake_reg_mr(struct ibv_pd *, void *, size_t, int) __asm__("ibv_reg_mr");
struct ibv_mr *fake_reg_mr_iova(struct ibv_pd *, void *, size_t, uint64_t, int)
	__asm__("ibv_reg_mr_iova");
struct ibv_mr *fake_reg_mr_iova2(struct ibv_pd *, void *, size_t, uint64_t, unsigned int)
	__asm__("ibv_reg_mr_iova2");
EXPORTED struct ibv_mr *fake_reg_dmabuf_mr(struct ibv_pd *, uint64_t, size_t, uint64_t, int,
					   int) __asm__("ibv_reg_dmabuf_mr");

struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	return reg_mr("ibv_reg_mr", pd, address, length, (unsigned int)access);
}

struct ibv_mr *fake_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length,
				uint64_t iova, int access)
{
	(void)iova;
	return reg_mr("ibv_reg_mr_iova", pd, address, length, (unsigned int)access);
}

struct ibv_mr *fake_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length,
				 uint64_t iova, unsigned int access)
{
	(void)iova;
	return reg_mr("ibv_reg_mr_iova2", pd, address, length, access);
}

struct ibv_mr *fake_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				  uint64_t iova, int fd, int access)
{
	(void)offset, (void)iova, (void)fd;
	return reg_mr("ibv_reg_dmabuf_mr", pd, NULL, length, (unsigned int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct ibv_pd *pd = mr->pd;
	int error = destroyed("ibv_dereg_mr", &CONTAINER(mr, struct fake_mr, mr)->object);

	if (!error)
		use(pd_object(pd), -1);
	return error;
}

static struct object *channel_object(const struct ibv_comp_channel *channel)
{
	return &CONTAINER(channel, struct fake_channel, channel)->object;
}

static void free_channel(struct object *object)
{
	struct fake_channel *channel = CONTAINER(object, struct fake_channel, object);

	close(channel->channel.fd);
	free(channel);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *verbs)
{
	int error = called("ibv_create_comp_channel");
	struct fake_channel *channel;

	if (error)
		return null_with(error);

	channel = make(sizeof(*channel), &fake_verbs.channels, free_channel);
	channel->channel.context = verbs;
	channel->channel.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return destroyed("ibv_destroy_comp_channel", channel_object(channel));
}

static void free_cq(struct object *object)
{
	struct fake_cq *cq = CONTAINER(object, struct fake_cq, object);

	free(cq->wcs);
	free(cq);
}

static uint32_t power_of_two(uint32_t least)
{
	uint32_t power = 1;

	while (power < least)
		power *= 2;
	return power;
}

/* Grants the next power of two minus one, as devices do: 128 becomes 255. */
struct ibv_cq *ibv_create_cq(struct ibv_context *verbs, int cqe, void *data,
			     struct ibv_comp_channel *channel, int vector)
{
	int max = described(verbs)->attr.max_cqe, error = called("ibv_create_cq");
	struct fake_cq *cq;

	if (!error && (cqe < 1 || cqe > max || vector < 0 ||
		       vector >= verbs->num_comp_vectors))
		error = EINVAL;
	if (error)
		return null_with(error);

	cq = make(sizeof(*cq), &fake_verbs.cqs, free_cq);
	cq->cq.context = verbs;
	cq->cq.channel = channel;
	if (channel)
		use(channel_object(channel), 1);
	cq->cq.cq_context = data;
	cq->vector = vector;
	cq->cq.cqe = (int)power_of_two((uint32_t)cqe + 1) - 1;
	if (cq->cq.cqe > max)
		cq->cq.cqe = max;
	return &cq->cq;
}

/* The real one waits for ever if an event was not acknowledged. */
int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct ibv_comp_channel *channel = cq->channel;
	int error;

	if (fake_cq(cq)->unacked)
		abort();
	error = destroyed("ibv_destroy_cq", &fake_cq(cq)->object);
	if (!error && channel)
		use(channel_object(channel), -1);
	return error;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	const struct ibv_device_attr *limits = &described(pd->context)->attr;
	int error = called("ibv_create_srq");
	struct fake_srq *srq;

	if (!error && (attr->attr.max_wr > (uint32_t)limits->max_srq_wr ||
		       attr->attr.max_sge > (uint32_t)limits->max_srq_sge))
		error = EINVAL;
	if (error)
		return null_with(error);

	srq = make(sizeof(*srq), &fake_verbs.srqs, plain_free);
	srq->srq.context = pd->context;
	srq->srq.srq_context = attr->srq_context;
	srq->srq.pd = pd;
	use(pd_object(pd), 1);
	return &srq->srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct ibv_pd *pd = srq->pd;
	int error = destroyed("ibv_destroy_srq",
			      &CONTAINER(srq, struct fake_srq, srq)->object);

	if (!error)
		use(pd_object(pd), -1);
	return error;
}

/* --------------------------------------------------------------- address --- */

static bool is_ipv4(const uint8_t raw[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(raw, mapped, sizeof(mapped)) == 0;
}

static int check_roce_address(const struct fake_gid *own, const uint8_t dgid[16])
{
	static const uint8_t zero[16];
	uint8_t sgid[16];

	gid_bytes(own->gid, sgid);
	if (memcmp(dgid, zero, sizeof(zero)) == 0)
		return EINVAL;
	return is_ipv4(sgid) == is_ipv4(dgid) ? 0 : EINVAL;
}

/* Like rdma_check_ah_attr() and rdma_fill_sgid_attr() of the kernel. */
static int check_address(const struct fake_device *device, const struct ibv_ah_attr *ah)
{
	const struct fake_port *port = port_at(device, ah->port_num);
	const struct fake_gid *own;
	bool ethernet;

	if (!port)
		return EINVAL;

	ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET;
	if (!ah->is_global)
		return ethernet || (port->flags & IBV_QPF_GRH_REQUIRED) ? EINVAL : 0;

	own = gid_at(port, ah->grh.sgid_index);
	if (!own || (!own->gid && !own->error))
		return ENODATA;
	if (own->error || own->ah_error)
		return own->error ? ENODEV : own->ah_error;
	return ethernet ? check_roce_address(own, ah->grh.dgid.raw) : 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	int error = called("ibv_create_ah");
	struct fake_ah *ah;

	if (!error)
		error = check_address(described(pd->context), attr);
	if (error)
		return null_with(error);

	ah = make(sizeof(*ah), &fake_verbs.ahs, plain_free);
	ah->ah.context = pd->context;
	ah->ah.pd = pd;
	use(pd_object(pd), 1);
	return &ah->ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	struct ibv_pd *pd = ah->pd;
	int error = destroyed("ibv_destroy_ah", &CONTAINER(ah, struct fake_ah, ah)->object);

	if (!error)
		use(pd_object(pd), -1);
	return error;
}

/* ------------------------------------------------------------ queue pairs --- */

/* The kernel's qp_state_table, as far as tests go: a row for each transition and set of types. */
enum {
	RC = 1 << 0,
	UC = 1 << 1,
	UD = 1 << 2,
	RAW = 1 << 3,
	ALL = RC | UC | UD | RAW,
};

static const struct {
	enum ibv_qp_type type;
	int bit;
} types[] = {
	{ IBV_QPT_RC, RC }, { IBV_QPT_UC, UC }, { IBV_QPT_UD, UD }, { IBV_QPT_RAW_PACKET, RAW },
};

#define RESET IBV_QPS_RESET
#define INIT IBV_QPS_INIT
#define RTR IBV_QPS_RTR
#define RTS IBV_QPS_RTS
#define SQD IBV_QPS_SQD
#define SQE IBV_QPS_SQE
#define ERR IBV_QPS_ERR

#define PORT_SET (IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define TO_PEER (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define ANSWER (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RETRY (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
#define MIGRATE (IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE)
#define NOW IBV_QP_CUR_STATE

static const struct rule {
	enum ibv_qp_state from, to;
	int types, required, optional;
} rules[] = {
	{ RESET, RESET, ALL, 0, 0 },
	{ RESET, INIT, RC | UC, PORT_SET | IBV_QP_ACCESS_FLAGS, 0 },
	{ RESET, INIT, UD, PORT_SET | IBV_QP_QKEY, 0 },

	{ INIT, RESET, ALL, 0, 0 },
	{ INIT, ERR, ALL, 0, 0 },
	{ INIT, INIT, RC | UC, 0, PORT_SET | IBV_QP_ACCESS_FLAGS },
	{ INIT, INIT, UD, 0, PORT_SET | IBV_QP_QKEY },
	{ INIT, RTR, RC, TO_PEER | ANSWER,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ INIT, RTR, UC, TO_PEER, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ INIT, RTR, UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },

	{ RTR, RESET, ALL, 0, 0 },
	{ RTR, ERR, ALL, 0, 0 },
	{ RTR, RTS, RC, IBV_QP_SQ_PSN | RETRY, NOW | MIGRATE | IBV_QP_MIN_RNR_TIMER },
	{ RTR, RTS, UC, IBV_QP_SQ_PSN, NOW | MIGRATE },
	{ RTR, RTS, UD, IBV_QP_SQ_PSN, NOW | IBV_QP_QKEY },

	{ RTS, RESET, ALL, 0, 0 },
	{ RTS, ERR, ALL, 0, 0 },
	{ RTS, RTS, RC, 0, NOW | MIGRATE | IBV_QP_MIN_RNR_TIMER },
	{ RTS, RTS, UC, 0, NOW | MIGRATE },
	{ RTS, RTS, UD, 0, NOW | IBV_QP_QKEY },

	{ SQD, RESET, ALL, 0, 0 },
	{ SQD, ERR, ALL, 0, 0 },

	{ SQE, RESET, ALL, 0, 0 },
	{ SQE, ERR, ALL, 0, 0 },
	{ SQE, RTS, UC, 0, NOW | IBV_QP_ACCESS_FLAGS },
	{ SQE, RTS, UD, 0, NOW | IBV_QP_QKEY },

	{ ERR, RESET, ALL, 0, 0 },
	{ ERR, ERR, ALL, 0, 0 },
};

static int type_bit(enum ibv_qp_type type)
{
	size_t i;

	for (i = 0; i < COUNT(types); i++)
		if (types[i].type == type)
			return types[i].bit;

	return 0;
}

static const struct rule *rule_for(enum ibv_qp_state from, enum ibv_qp_state to, int type)
{
	size_t i;

	for (i = 0; i < COUNT(rules); i++)
		if (rules[i].from == from && rules[i].to == to && (rules[i].types & type))
			return &rules[i];

	return NULL;
}

static int check_mask(const struct fake_qp *qp, enum ibv_qp_state to, int mask)
{
	const struct rule *rule = rule_for(qp->qp.state, to, type_bit(qp->qp.qp_type));

	if (!rule || (mask & rule->required) != rule->required ||
	    (mask & ~(rule->required | rule->optional | IBV_QP_STATE)))
		return EINVAL;
	return 0;
}

/* uverbs compares the port of the address with that of INIT. */
static int check_av(const struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (!(mask & IBV_QP_AV))
		return 0;
	if (attr->ah_attr.port_num != (mask & IBV_QP_PORT ? attr->port_num : qp->attr.port_num))
		return EINVAL;
	return check_address(described(qp->qp.context), &attr->ah_attr);
}

static int above(int mask, int bit, int value, int limit)
{
	return (mask & bit) && value > limit;
}

/* Are fewer than @reads left of what all queue pairs of this device may answer together? */
static bool reads_are_used_up(const struct fake_qp *qp, int reads)
{
	const struct fake_device *device = described(qp->qp.context);
	const struct object *object;
	const struct fake_qp *other;
	int used = reads;

	if (!reads || !device->attr.max_res_rd_atom)
		return false;
	pthread_mutex_lock(&lock);
	for (object = objects; object; object = object->next) {
		other = CONTAINER(object, struct fake_qp, object);
		if (object->count == &fake_verbs.qps && other != qp &&
		    described(other->qp.context) == device)
			used += other->attr.max_dest_rd_atomic;
	}
	pthread_mutex_unlock(&lock);
	return used > device->attr.max_res_rd_atom;
}

static int check_limits(const struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct fake_device *device = described(qp->qp.context);
	const struct fake_port *port = port_at(device, mask & IBV_QP_PORT ? attr->port_num :
					       qp->attr.port_num);

	if ((mask & IBV_QP_PORT) && !port)
		return EINVAL;
	if ((mask & IBV_QP_PATH_MTU) &&
	    (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096))
		return EINVAL;
	if (above(mask, IBV_QP_PKEY_INDEX, attr->pkey_index, port ? port->pkey_count - 1 : -1) ||
	    above(mask, IBV_QP_MAX_QP_RD_ATOMIC, attr->max_rd_atomic,
		  device->attr.max_qp_init_rd_atom) ||
	    above(mask, IBV_QP_MAX_DEST_RD_ATOMIC, attr->max_dest_rd_atomic,
		  device->attr.max_qp_rd_atom) ||
	    above(mask, IBV_QP_TIMEOUT, attr->timeout, 31))
		return EINVAL;
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && reads_are_used_up(qp, attr->max_dest_rd_atomic))
		return EINVAL;
	return 0;
}

#define FIELD(bit, member) \
	{ bit, offsetof(struct ibv_qp_attr, member), sizeof(((struct ibv_qp_attr *)0)->member) }

static const struct {
	int bit;
	size_t offset, size;
} fields[] = {
	FIELD(IBV_QP_ACCESS_FLAGS, qp_access_flags),
	FIELD(IBV_QP_PKEY_INDEX, pkey_index),
	FIELD(IBV_QP_PORT, port_num),
	FIELD(IBV_QP_QKEY, qkey),
	FIELD(IBV_QP_AV, ah_attr),
	FIELD(IBV_QP_PATH_MTU, path_mtu),
	FIELD(IBV_QP_TIMEOUT, timeout),
	FIELD(IBV_QP_RETRY_CNT, retry_cnt),
	FIELD(IBV_QP_RNR_RETRY, rnr_retry),
	FIELD(IBV_QP_RQ_PSN, rq_psn),
	FIELD(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic),
	FIELD(IBV_QP_ALT_PATH, alt_ah_attr),
	FIELD(IBV_QP_MIN_RNR_TIMER, min_rnr_timer),
	FIELD(IBV_QP_SQ_PSN, sq_psn),
	FIELD(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic),
	FIELD(IBV_QP_PATH_MIG_STATE, path_mig_state),
	FIELD(IBV_QP_DEST_QPN, dest_qp_num),
};

static void take_over(struct fake_qp *qp, enum ibv_qp_state to,
		      const struct ibv_qp_attr *attr, int mask)
{
	size_t i;

	if (to == RESET)
		memset(&qp->attr, 0, sizeof(qp->attr));
	for (i = 0; i < COUNT(fields); i++)
		if (mask & fields[i].bit)
			memcpy((char *)&qp->attr + fields[i].offset,
			       (const char *)attr + fields[i].offset, fields[i].size);
	if (to == RTR)
		qp->ece_has = qp->ece_set & ~described(qp->qp.context)->ece_refuses;
	qp->attr.rq_psn &= PSN_MASK;
	qp->attr.sq_psn &= PSN_MASK;
	qp->attr.cap = qp->init.cap;
	qp->qp.state = to;
}

/* As struct ibv_ece, which CentOS 7's header lacks. */
struct fake_ece {
	uint32_t vendor_id, options, comp_mask;
};

EXPORTED int fake_query_ece(struct ibv_qp *, struct fake_ece *) __asm__("ibv_query_ece");
EXPORTED int fake_set_ece(struct ibv_qp *, struct fake_ece *) __asm__("ibv_set_ece");

int fake_query_ece(struct ibv_qp *qp, struct fake_ece *ece)
{
	const struct fake_device *device = described(qp->context);
	int error = called("ibv_query_ece");

	if (error || !device->ece_vendor)
		return error ? returned(error) : EOPNOTSUPP;
	ece->vendor_id = device->ece_vendor;
	ece->options = fake_qp(qp)->ece_has;
	ece->comp_mask = 0;
	return 0;
}

int fake_set_ece(struct ibv_qp *qp, struct fake_ece *ece)
{
	const struct fake_device *device = described(qp->context);
	int error = called("ibv_set_ece");

	if (error)
		return returned(error);
	if (device->ece_error)
		return device->ece_error;
	if (ece->vendor_id != device->ece_vendor || ece->comp_mask || qp->state != IBV_QPS_INIT)
		return EINVAL;
	fake_qp(qp)->ece_set = ece->options;
	fake_qp(qp)->ece_has = 0;
	return 0;
}

uint32_t fake_verbs_ece(const struct ibv_qp *qp)
{
	const struct fake_qp *own = CONTAINER(qp, struct fake_qp, qp);

	return own->ece_set ? own->ece_has : 0;
}

static int modify(struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->qp.state;
	int error = called("ibv_modify_qp");

	if (error)
		return returned(error);

	error = check_av(qp, attr, mask);
	if (!error)
		error = check_mask(qp, to, mask);
	if (!error)
		error = check_limits(qp, attr, mask);
	if (!error)
		take_over(qp, to, attr, mask);
	return error;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_modify entry = {
		.qp_num = qp->qp_num, .from = qp->state, .attr = *attr, .mask = mask,
	};

	entry.ret = modify(fake_qp(qp), attr, mask);
	pthread_mutex_lock(&lock);
	fake_verbs.modified[fake_verbs.modified_count++ % FAKE_HISTORY] = entry;
	pthread_mutex_unlock(&lock);
	return entry.ret;
}

const struct fake_modify *fake_verbs_last_modify(const struct ibv_qp *qp)
{
	size_t i = fake_verbs.modified_count, oldest = i > FAKE_HISTORY ? i - FAKE_HISTORY : 0;

	while (i-- > oldest)
		if (fake_verbs.modified[i % FAKE_HISTORY].qp_num == qp->qp_num)
			return &fake_verbs.modified[i % FAKE_HISTORY];

	return NULL;
}

int fake_verbs_vector(struct ibv_cq *cq)
{
	return CONTAINER(cq, struct fake_cq, cq)->vector;
}

void fake_verbs_set_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	qp->state = state;
}

static int check_cap(const struct fake_device *device, const struct ibv_qp_cap *cap)
{
	const struct ibv_device_attr *limits = &device->attr;

	if (cap->max_inline_data > device->max_inline)
		return device->inline_error;
	return cap->max_send_wr > (uint32_t)limits->max_qp_wr ||
	       cap->max_recv_wr > (uint32_t)limits->max_qp_wr ||
	       cap->max_send_sge > (uint32_t)limits->max_sge ||
	       cap->max_recv_sge > (uint32_t)limits->max_sge ? EINVAL : 0;
}

static void grant(uint32_t *size, int limit)
{
	*size = power_of_two(*size);
	if (*size > (uint32_t)limit)
		*size = (uint32_t)limit;
}

static void use_queues(const struct ibv_qp *qp, int by)
{
	use(pd_object(qp->pd), by);
	use(&fake_cq(qp->send_cq)->object, by);
	use(&fake_cq(qp->recv_cq)->object, by);
	if (qp->srq)
		use(&CONTAINER(qp->srq, struct fake_srq, srq)->object, by);
}

static void fill_qp(struct ibv_qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	qp->context = pd->context;
	qp->qp_context = attr->qp_context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->srq = attr->srq;
	qp->qp_num = fake_verbs.next_qp_num ? fake_verbs.next_qp_num : next_serial();
	qp->state = RESET;
	qp->qp_type = attr->qp_type;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	const struct fake_device *device = described(pd->context);
	int error = called("ibv_create_qp");
	struct fake_qp *qp;

	if (!error && (!type_bit(attr->qp_type) || !attr->send_cq || !attr->recv_cq))
		error = EINVAL;
	if (!error)
		error = check_cap(device, &attr->cap);
	if (error)
		return null_with(error);

	grant(&attr->cap.max_send_wr, device->attr.max_qp_wr);
	grant(&attr->cap.max_recv_wr, device->attr.max_qp_wr);
	qp = make(sizeof(*qp), &fake_verbs.qps, plain_free);
	qp->init = *attr;
	qp->ece_has = described(pd->context)->ece_options;
	qp->attr.cap = attr->cap;
	fill_qp(&qp->qp, pd, attr);
	use_queues(&qp->qp, 1);
	return &qp->qp;
}

int ibv_query_qp(struct ibv_qp *verbs, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	int error = called("ibv_query_qp");
	struct fake_qp *qp = fake_qp(verbs);

	(void)mask;
	if (error)
		return returned(error);

	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->qp.state;
	*init = qp->init;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct ibv_qp former = *qp;
	int error = destroyed("ibv_destroy_qp", &fake_qp(qp)->object);

	if (!error)
		use_queues(&former, -1);
	return error;
}

/* ------------------------------------------------------------- post, poll --- */

static struct fake_wr *record_wr(uint32_t qp_num, const struct ibv_sge *sge, int count)
{
	struct fake_wr *wr;

	pthread_mutex_lock(&lock);
	wr = &fake_verbs.posted[fake_verbs.posted_count++ % FAKE_WRS];
	pthread_mutex_unlock(&lock);
	memset(wr, 0, sizeof(*wr));
	wr->qp_num = qp_num;
	if (count > 0)
		memcpy(wr->sge, sge, (size_t)(count < FAKE_SGES ? count : FAKE_SGES) *
		       sizeof(*sge));
	return wr;
}

const struct fake_wr *fake_verbs_posted(size_t back)
{
	size_t count = fake_verbs.posted_count;

	if (back >= count || back >= FAKE_WRS)
		return NULL;
	return &fake_verbs.posted[(count - 1 - back) % FAKE_WRS];
}

void fake_verbs_complete(struct ibv_cq *verbs, const struct ibv_wc *wc)
{
	struct fake_cq *cq = fake_cq(verbs);
	const uint64_t one = 1;

	pthread_mutex_lock(&lock);
	cq->wcs = realloc(cq->wcs, (cq->first + cq->count + 1) * sizeof(*wc));
	if (!cq->wcs)
		abort();
	cq->wcs[cq->first + cq->count++] = *wc;
	if (cq->armed && verbs->channel) {
		cq->armed = false;
		cq->events++;
		if (write(verbs->channel->fd, &one, sizeof(one)) < 0)
			abort();
	}
	pthread_mutex_unlock(&lock);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	int error = called("ibv_req_notify_cq");

	(void)solicited;
	if (error)
		return returned(error);
	pthread_mutex_lock(&lock);
	fake_cq(cq)->armed = true;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Finds a queue of the channel that has an unread event. */
static struct fake_cq *take_cq_event(const struct ibv_comp_channel *channel)
{
	struct object *object;
	struct fake_cq *cq;

	for (object = objects; object; object = object->next) {
		if (object->free != free_cq)
			continue;
		cq = CONTAINER(object, struct fake_cq, object);
		if (cq->cq.channel != channel || !cq->events)
			continue;
		cq->events--;
		cq->unacked++;
		return cq;
	}
	abort();
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	int error = called("ibv_get_cq_event");
	uint64_t number;

	if (error)
		return minus_one_with(error);
	if (read(channel->fd, &number, sizeof(number)) < 0)
		return -1;

	pthread_mutex_lock(&lock);
	*cq = &take_cq_event(channel)->cq;
	*context = (*cq)->cq_context;
	pthread_mutex_unlock(&lock);
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	called_destructor("ibv_ack_cq_events");
	pthread_mutex_lock(&lock);
	fake_cq(cq)->unacked -= count;
	pthread_mutex_unlock(&lock);
}

static void complete(const struct ibv_qp *qp, bool receive, uint64_t wr_id,
		     enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	memset(&wc, 0, sizeof(wc));
	wc.wr_id = wr_id;
	wc.status = status;
	wc.opcode = opcode;
	wc.qp_num = qp->qp_num;
	fake_verbs_complete(receive ? qp->recv_cq : qp->send_cq, &wc);
}

static const struct {
	enum ibv_wr_opcode posted;
	enum ibv_wc_opcode completed;
} opcodes[] = {
	{ IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE },
	{ IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE },
	{ IBV_WR_SEND, IBV_WC_SEND },
	{ IBV_WR_SEND_WITH_IMM, IBV_WC_SEND },
	{ IBV_WR_RDMA_READ, IBV_WC_RDMA_READ },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD },
};

static enum ibv_wc_opcode completed_opcode(enum ibv_wr_opcode posted)
{
	size_t i;

	for (i = 0; i < COUNT(opcodes); i++)
		if (opcodes[i].posted == posted)
			return opcodes[i].completed;

	return IBV_WC_SEND;
}

static void complete_send(const struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	bool signaled = qp->init.sq_sig_all || (wr->send_flags & IBV_SEND_SIGNALED);
	enum ibv_wc_status status = fake_verbs.complete_status;

	if (qp->qp.state == ERR)
		status = IBV_WC_WR_FLUSH_ERR;
	else if (!fake_verbs.complete_sends)
		return;
	if (signaled || status != IBV_WC_SUCCESS)
		complete(&qp->qp, false, wr->wr_id, completed_opcode(wr->opcode), status);
}

/* Bytes beyond FAKE_INLINE are counted but not kept. */
static void gather(struct fake_wr *record, const struct ibv_send_wr *wr)
{
	size_t length, room;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		length = wr->sg_list[i].length;
		room = record->byte_count < FAKE_INLINE ? FAKE_INLINE - record->byte_count : 0;
		if (length && room)
			memcpy(record->bytes + record->byte_count,
			       (const void *)(uintptr_t)wr->sg_list[i].addr,
			       length < room ? length : room);
		record->byte_count += length;
	}
}

static size_t total_length(const struct ibv_send_wr *wr)
{
	size_t total = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		total += wr->sg_list[i].length;
	return total;
}

static int check_send(const struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_qp_cap *cap = &qp->init.cap;

	if (qp->qp.state == RESET || qp->qp.state == INIT || qp->qp.state == RTR)
		return EINVAL;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > cap->max_send_sge)
		return EINVAL;
	return (wr->send_flags & IBV_SEND_INLINE) &&
	       total_length(wr) > cap->max_inline_data ? EINVAL : 0;
}

static int post_one_send(const struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	int error = called("ibv_post_send");
	struct fake_wr *record;

	if (!error)
		error = check_send(qp, wr);
	if (error)
		return returned(error);

	record = record_wr(qp->qp.qp_num, wr->sg_list, wr->num_sge);
	record->send = *wr;
	if (wr->send_flags & IBV_SEND_INLINE)
		gather(record, wr);
	complete_send(qp, wr);
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int error;

	for (; wr; wr = wr->next) {
		error = post_one_send(fake_qp(qp), wr);
		if (error) {
			*bad = wr;
			return error;
		}
	}
	return 0;
}

static int post_one_recv(uint32_t qp_num, const struct ibv_recv_wr *wr, uint32_t max_sge)
{
	int error = called("ibv_post_recv");
	struct fake_wr *record;

	if (!error && (wr->num_sge < 0 || (uint32_t)wr->num_sge > max_sge))
		error = EINVAL;
	if (error)
		return returned(error);

	record = record_wr(qp_num, wr->sg_list, wr->num_sge);
	record->receive = true;
	record->recv = *wr;
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int error;

	for (; wr; wr = wr->next) {
		error = qp->state == RESET || qp->srq ? EINVAL :
			post_one_recv(qp->qp_num, wr, fake_qp(qp)->init.cap.max_recv_sge);
		if (error) {
			*bad = wr;
			return error;
		}
		if (qp->state == ERR)
			complete(qp, true, wr->wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR);
	}
	return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	int error;

	(void)srq;
	for (; wr; wr = wr->next) {
		error = post_one_recv(0, wr, FAKE_SGES);
		if (error) {
			*bad = wr;
			return error;
		}
	}
	return 0;
}

static int poll_cq(struct ibv_cq *verbs, int count, struct ibv_wc *wc)
{
	struct fake_cq *cq = fake_cq(verbs);
	int i, error = called("ibv_poll_cq");

	if (error)
		return -returned(error);

	pthread_mutex_lock(&lock);
	for (i = 0; i < count && cq->count; i++, cq->count--)
		wc[i] = cq->wcs[cq->first++];
	pthread_mutex_unlock(&lock);
	return i;
}
