/* SPDX-License-Identifier: MIT */
/*
 * hartebeest.h - bring RDMA queue pairs up through a Memcached server
 *
 * Names in, verbs out: objects are made and found by name, and what comes back
 * are the plain struct ibv_* pointers, on which every verbs call still works.
 *
 * Errors.  Unless said otherwise a function returns 0 or a negative errno, and
 * hartebeest_error() then gives the reason in a sentence.  Outputs are set only on
 * success.  Nothing is printed unless HARTEBEEST_LOG or hartebeest_log_set() asks, but
 * for the errors of hartebeest-c.h.
 *
 * Beside the errors listed with each function, all of them return -EINVAL for a
 * NULL or malformed argument and -ENOMEM, and those that first touch
 *
 *   the device: -ENODEV (no RDMA device, or none of that name), -ENXIO (no such port),
 *     -ENETDOWN (port not active), -EACCES or -ENOENT (device node not
 *     accessible), -EPROTONOSUPPORT (iWARP, which cannot be connected by hand),
 *     -ENODATA (no port has the GID that device.gid or device.addr asks for);
 *   the server: -EDESTADDRREQ (none named: HARTEBEEST_EXC_IP_PORT),
 *     -EADDRNOTAVAIL (name does not resolve), -ECONNREFUSED, -ECONNRESET,
 *     -EHOSTUNREACH, -ENETUNREACH (cannot connect), -EHOSTDOWN (connected, no
 *     answer), -EUSERS (too many connections), -ENOBUFS (server out of memory),
 *     -EMSGSIZE (value too large), -EACCES (login missing or refused), -ENOSYS (login
 *     without SASL in libmemcached), -EPROTO (not a Memcached; another rank has another
 *     list of servers, other participants or another secret), -ENOSPC (the server evicts
 *     this job's records),
 *     -EADDRINUSE (another process runs under this rank; waits only), -EMFILE, -ENFILE
 *     (no file descriptor left), -ENAMETOOLONG (hb1/JOB/KIND/KEY over 250 bytes); and
 *     as login and secret are read here and not by hartebeest_open(), -EINVAL (user without
 *     password, or the reverse; no secret of 16 to 1024 bytes), -EPERM (the file of the
 *     secret is another user's, or others may read it), -ENOSYS (a secret, and a build
 *     without libcrypto) and the errno of open(2) and read(2).
 *
 * Deadlines.  What may wait for a peer or a server takes a deadline for all of the call:
 *
 *   0                 the option exchange.timeout (preset 30 s) from now
 *   a time            of hartebeest_clock(); one that has passed allows one look
 *   INT64_MAX         never
 *   HARTEBEEST_ONCE   one look, a quarter of a second at most for a server
 *
 * A wait in vain ends with -ETIMEDOUT and names what did not come.  Trouble with a server
 * that may pass is retried until the deadline, and its errno is returned when it lasts that
 * long.  HARTEBEEST_ONCE retries nothing: -EAGAIN says that what was looked for is not there
 * yet, and trouble with a server comes as its own errno, such as -ECONNREFUSED or -EHOSTDOWN,
 * after which a program that polls calls again, too.  No failure of such a call is a line in
 * the log.  Any other negative deadline is -EINVAL.
 *
 * hartebeest_cancel() ends any wait with -ECANCELED.  Two waits are not ours to end:
 * resolving a server's host name, and on RoCE the transition to RTR, in which the kernel may
 * look for the peer's address for a second.
 *
 * What is read from the server may be no record (-EBADMSG), one of another version
 * (-EPROTONOSUPPORT), one that is sealed where this process has no secret (-ENOKEY), or one
 * that is not sealed, or with another secret (-EKEYREJECTED).
 *
 * Names of objects: 1 to 255 bytes without control characters, one name space for
 * each kind and context.  Keys, under which things are published: printable ASCII
 * without blanks, together with the job id at most 242 bytes, for messages 241; names of
 * barriers too, with 214 bytes for name and job id.
 *
 * Structs.  What a caller fills in begins with its size, which a preset function sets; zero
 * asks for nothing, and new fields come at the end, so that old programs and new libraries
 * understand each other, and the other way round: -E2BIG where a new program asks an old
 * library for something that it does not know.  What the library fills in keeps its size and
 * ends in reserved words, which are zero until they mean something.
 *
 * Threads: a context may be used by many threads at once, but one queue pair, and one
 * barrier, by one thread at a time; and an object must not be destroyed while another
 * thread uses it.
 *
 * Fork: a child must not use the context of its parent; hartebeest_close() in the child only
 * forgets it.
 */
#ifndef HARTEBEEST_H
#define HARTEBEEST_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "hartebeest-clock.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hartebeest_context;

/* ------------------------------------------------------------ context --- */

/**
 * hartebeest_open() - read settings and make a context
 * @hbp:     where to put it; for hartebeest_close()
 * @options: NULL-terminated "section.key=value" strings, or NULL
 *
 * Precedence: preset < /etc/hartebeest.json < file of HARTEBEEST_CONF_PATH <
 * environment < @options.  Touches neither device nor network: a port is opened by
 * the first resource, the server by the first exchange.
 *
 * Returns 0, -EINVAL (unknown key, malformed value, device.addr beside device.gid),
 * -ERANGE (value out of range, which the sentence names), -EBADMSG (file is not JSON),
 * -EFBIG, -ENODATA (a launcher gives a rank but no size), -ENAMETOOLONG (job id over 64
 * bytes), -ENOENT (file missing; rank not among the participants), other errno of open(2)
 * and read(2).
 *
 * Since: 0.1
 */
int hartebeest_open(struct hartebeest_context **hbp, const char *const *options);

/**
 * hartebeest_open_verbs() - a context on what the program opened itself
 * @hbp, @options: as for hartebeest_open(); the option device.name is not looked at
 * @verbs: of ibv_open_device(3) or rdma_cm; must outlive the context, which does not close
 *         it
 * @port:  1 or more; 0: chosen among its ports
 *
 * So an existing program keeps its objects, and gives those names that are to be
 * connected: hartebeest_qp_adopt().  The program reads the device's asynchronous events:
 * hartebeest_event_get() and _fd() are -EOPNOTSUPP, and waits do not end when the device
 * fails.
 *
 * Returns 0, or fails as hartebeest_open(), or as the first use of the device.
 *
 * Since: 0.1
 */
int hartebeest_open_verbs(struct hartebeest_context **hbp, const char *const *options,
			  struct ibv_context *verbs, int port);

/**
 * hartebeest_close() - destroy all objects and take back what was published
 * @hb: NULL is ignored
 *
 * Objects go in reverse order of creation, buffers of hartebeest_mr_create()
 * included.  Records of memory regions, of requests and of queue pairs that were never
 * connected are removed from the server if they are still this context's own.  For a minute
 * the record of a queue pair that was connected says that it is closed, by which its peer
 * still confirms, and that of the rank that it has left.  Messages and barriers stay until
 * their time to live ends, since a peer may be about to read them.  Waits about a second at
 * most for a server that does not answer.
 *
 * Returns 0, or -EBUSY when something that the program made itself still uses an object
 * of the context.  The context is gone all the same, but such objects, which the
 * sentence and a line of the log name, and the device stay open until the process ends:
 * the program may still use and destroy its own.  What was made on nothing but the
 * struct ibv_context of hartebeest_verbs() is not known here: destroy it before, or adopt
 * it (hartebeest_pd_adopt()).
 *
 * Since: 0.1
 */
int hartebeest_close(struct hartebeest_context *hb);

/**
 * hartebeest_error() - the calling thread's last failure, as a sentence
 *
 * Never NULL; "" before the first failure; valid until this thread's next call of the
 * library.  A call that succeeds does not clear it, and may leave another sentence there.
 *
 * Since: 0.1
 */
const char *hartebeest_error(void);

/**
 * hartebeest_cancel() - end all waits of a context
 *
 * Every call that waits for a peer, a server, an event or a completion, now or later, ends
 * with -ECANCELED unless what it waits for is there; within about a second, and no line of
 * the log tells of it.  From any thread and from a signal handler; NULL is ignored.
 *
 * Since: 0.1
 */
void hartebeest_cancel(struct hartebeest_context *hb);

/**
 * hartebeest_cancel_clear() - let later calls wait again
 *
 * Those that began before this still end.  From any thread and from a signal handler.
 *
 * Since: 0.1
 */
void hartebeest_cancel_clear(struct hartebeest_context *hb);

/**
 * hartebeest_rank() - this process's id: HARTEBEEST_NID, else the launcher's
 *
 * Returns it, or -ENODATA when nobody said.
 *
 * Since: 0.1
 */
int hartebeest_rank(const struct hartebeest_context *hb);

/**
 * hartebeest_size() - the number of ranks that take part
 *
 * Returns it, or -ENODATA when nobody said.
 *
 * Since: 0.1
 */
int hartebeest_size(const struct hartebeest_context *hb);

/**
 * hartebeest_participant() - the id of a rank, by its position among all
 * @index: 0 to hartebeest_size() - 1; ids ascend, and may have gaps
 *
 * Every other function that takes or gives a rank means an id.
 *
 * Returns the id, -ERANGE for another @index, or -ENODATA when nobody said who takes part.
 *
 * Since: 0.1
 */
int hartebeest_participant(const struct hartebeest_context *hb, int index);

/**
 * hartebeest_local_rank() - this process's number among those of its node
 *
 * Returns it, or -ENODATA when no launcher said.
 *
 * Since: 0.1
 */
int hartebeest_local_rank(const struct hartebeest_context *hb);

/**
 * hartebeest_job() - the name space of this run, "-" when nobody named one
 *
 * Owned by the context.  NULL only for a NULL context.
 *
 * Since: 0.1
 */
const char *hartebeest_job(const struct hartebeest_context *hb);

/**
 * hartebeest_origin() - rank, size and job, each with where it came from
 * @warning: receives what two launchers say that contradicts each other, "" when they
 *           agree; may be NULL
 *
 * "rank 3 of 8 (from SLURM_PROCID, SLURM_STEP_NUM_TASKS), local rank 1 (from
 * SLURM_LOCALID), job 4711.0 (from SLURM_JOB_ID.SLURM_STEP_ID)".  Both texts are owned by
 * the context.  NULL only for a NULL context.
 *
 * Since: 0.1
 */
const char *hartebeest_origin(const struct hartebeest_context *hb, const char **warning);

/**
 * hartebeest_verbs() - the device, opened if it was not yet
 * @verbs: owned by the context; closed by hartebeest_close()
 *
 * Since: 0.1
 */
int hartebeest_verbs(struct hartebeest_context *hb, struct ibv_context **verbs);

/**
 * hartebeest_port_num() - the number of the port in use, opened if it was not yet
 *
 * Returns 1 or more, or a negative errno.
 *
 * Since: 0.1
 */
int hartebeest_port_num(struct hartebeest_context *hb);

/**
 * hartebeest_device_text() - which port, GID, P_Key and IP address, and why these
 * @text: receives the choice, its reason, and the refusal of all others; cut to fit
 *
 * Chooses as hartebeest_qp_init() does for RC, from what the tables hold now; opens the
 * device if it was not yet.  Returns 0, -EINVAL (@size below 4), or as the choice fails:
 * -ENODATA, with all refusals in hartebeest_error().
 *
 * Since: 0.1
 */
int hartebeest_device_text(struct hartebeest_context *hb, char *text, size_t size);

/* A path from this host to an IP address.  Integers have host byte order. */
struct hartebeest_path {
	char device[64];	/* local device, "mlx5_0" */
	union ibv_gid sgid;	/* local GID */
	union ibv_gid dgid;	/* the peer's */
	uint32_t flow_label;
	uint16_t dlid;		/* InfiniBand; 0 on RoCE */
	uint16_t pkey;
	uint8_t port;		/* local port */
	uint8_t link_layer;	/* IBV_LINK_LAYER_INFINIBAND, IBV_LINK_LAYER_ETHERNET */
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t mtu;		/* enum ibv_mtu */
	uint8_t rate;		/* enum ibv_rate */
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t life_time;	/* packet life time, 4.096 us * 2^life_time */
	uint64_t reserved[4];	/* zero */
};

/**
 * hartebeest_resolve() - the path to an IP address, from rdma_cm
 * @ip:   of the peer's RDMA interface: "10.0.0.2", "fd00::2", "fe80::2%eth0"
 * @path: filled on success
 *
 * Starts at device.addr or device.gid=ip:, else at the port of device.name or the one
 * already open, else where the kernel routes.  Asks again at each call.  Connects nothing.
 *
 * The traffic class asked for is that of RC.
 *
 * Returns 0, -ENOSYS (built without librdmacm), -EOPNOTSUPP (kernel without rdma_ucm),
 * -EINVAL (no address of one host: loopback, wildcard, multicast), -ENODEV (no RDMA
 * device behind it; no such interface after %), -EADDRNOTAVAIL (this end has no IP
 * address: InfiniBand without IPoIB), -ENETUNREACH, -EHOSTUNREACH (no route),
 * -ETIMEDOUT (no answer to ARP or neighbour discovery, or from the subnet manager),
 * -EPROTONOSUPPORT (iWARP), -EACCES (/dev/infiniband/rdma_cm), -ENODATA (no GID of that
 * port fits the options).
 *
 * Since: 0.1
 */
int hartebeest_resolve(struct hartebeest_context *hb, const char *ip,
		       struct hartebeest_path *path, int64_t deadline);

/**
 * hartebeest_option_get() - the value of an option as text, and where it came from
 * @name:   "section.key" or "section.rc:key", as in hartebeest.json(5)
 * @text:   receives the value, cut to fit; "" when it was never given
 * @size:   of @text, at least 1
 * @source: receives "preset", a file name, "environment NAME" or "argument"; owned
 *          by the context; may be NULL
 *
 * Returns 0 or -ENOENT (the sentence names the nearest option).
 *
 * Since: 0.1
 */
int hartebeest_option_get(const struct hartebeest_context *hb, const char *name, char *text,
			  size_t size, const char **source);

/* Values of syslog(3). */
enum hartebeest_log_level {
	HARTEBEEST_LOG_NONE = 0,
	HARTEBEEST_LOG_ERROR = 3,
	HARTEBEEST_LOG_WARN = 4,
	HARTEBEEST_LOG_INFO = 6,
	HARTEBEEST_LOG_DEBUG = 7
};

/**
 * hartebeest_log_set() - where log lines go, and from which level on
 * @level: enum hartebeest_log_level; lines above it are not made
 * @write: called with the sentence alone, without newline, from whichever thread; NULL: the
 *         file of the option log.file, else stderr, as "TIME HOST hartebeest[PID] rank RANK
 *         LEVEL: SENTENCE"
 * @data:  handed to @write
 *
 * Takes effect for later lines.  Not to be called while another thread uses the context.
 *
 * Since: 0.1
 */
int hartebeest_log_set(struct hartebeest_context *hb, int level,
		       void (*write)(void *data, int level, const char *text), void *data);

/* --------------------------------------------------------------- event --- */

/* Something the device said by itself. */
struct hartebeest_event {
	enum ibv_event_type type;
	int port;		/* 0: not of a port */
	uint32_t qp_num;	/* 0: not of a queue pair */
	int fatal;		/* 1: this context's device is gone, or its port went down */
	char text[256];		/* as a sentence */
	uint64_t reserved[4];	/* zero */
};

/**
 * hartebeest_event_get() - the next asynchronous event of the device
 *
 * Events are acknowledged by the library, and also read by whoever waits
 * (hartebeest_qp_fetch(), _confirm(), hartebeest_mr_fetch(), hartebeest_msg_wait(),
 * hartebeest_barrier()): such a call fails with -EIO when the device reports a fatal
 * error, and with -ENETDOWN when the port of this context went down and is not back;
 * others are lines of the log, at warn or info.  The last 64 are kept for this function; what
 * an object says again before it was asked for counts once.
 *
 * Returns 1 when @event was filled, -ETIMEDOUT or -EAGAIN (HARTEBEEST_ONCE) when there was
 * none, neither of them a line of the log, -EOPNOTSUPP with the option device.events=0,
 * -EMFILE and other errno of epoll_create(2) and eventfd(2), or a negative errno of opening
 * the device.
 *
 * Since: 0.1
 */
int hartebeest_event_get(struct hartebeest_context *hb, struct hartebeest_event *event,
			 int64_t deadline);

/**
 * hartebeest_event_fd() - a file descriptor for poll(2)
 *
 * Readable while hartebeest_event_get() has something to give.  Owned by the context;
 * nothing but waiting may be done with it.  Returns it, or a negative errno as
 * hartebeest_event_get().
 *
 * Since: 0.1
 */
int hartebeest_event_fd(struct hartebeest_context *hb);

/* ------------------------------------- protection domain, completion queue --- */

/**
 * hartebeest_pd_create() - allocate a protection domain
 * @name: its name from now on
 * @pd:   may be NULL; owned by the context
 *
 * Returns 0, -EEXIST (name in use), or the errno of ibv_alloc_pd(3).
 *
 * Since: 0.1
 */
int hartebeest_pd_create(struct hartebeest_context *hb, const char *name,
			 struct ibv_pd **pd);

/**
 * hartebeest_pd_get() - find a protection domain by its name
 *
 * Returns 0 or -ENOENT.  Since: 0.1
 */
int hartebeest_pd_get(struct hartebeest_context *hb, const char *name, struct ibv_pd **pd);

/**
 * hartebeest_pd_destroy() - free a protection domain
 *
 * Returns 0, -ENOENT, or -EBUSY while something still uses it.  Since: 0.1
 */
int hartebeest_pd_destroy(struct hartebeest_context *hb, const char *name);

/* A completion channel that serves this queue alone: for hartebeest_cq_wait(). */
#define HARTEBEEST_CQ_CHANNEL 1u

/**
 * hartebeest_cq_create() - create a completion queue
 * @depth: entries; 0: the option cq_attr.cq_depth; cut to what the device can do
 * @flags: 0 or HARTEBEEST_CQ_CHANNEL
 * @cq:    may be NULL; owned by the context; cq->cqe is what was granted
 *
 * Returns 0, -EEXIST, or the errno of ibv_create_cq(3) or ibv_create_comp_channel(3).
 *
 * Since: 0.1
 */
int hartebeest_cq_create(struct hartebeest_context *hb, const char *name, int depth,
			 uint32_t flags, struct ibv_cq **cq);

/**
 * hartebeest_cq_get() - find a completion queue by its name
 *
 * Returns 0 or -ENOENT.  Since: 0.1
 */
int hartebeest_cq_get(struct hartebeest_context *hb, const char *name, struct ibv_cq **cq);

/**
 * hartebeest_cq_destroy() - destroy a completion queue
 *
 * Returns 0, -ENOENT, or -EBUSY while a queue pair uses it.  Since: 0.1
 */
int hartebeest_cq_destroy(struct hartebeest_context *hb, const char *name);

/**
 * hartebeest_cq_fd() - a file descriptor for poll(2) and epoll(7)
 *
 * Readable once something completed after hartebeest_cq_wait() found the queue empty.
 * Owned by the context; nothing but waiting may be done with it.
 *
 * Returns it, -ENOENT, or -ENODATA (made without HARTEBEEST_CQ_CHANNEL; adopted).
 *
 * Since: 0.1
 */
int hartebeest_cq_fd(struct hartebeest_context *hb, const char *name);

/**
 * hartebeest_cq_wait() - take completions, and sleep until there are some
 * @cq:       made with HARTEBEEST_CQ_CHANNEL
 * @count:    room in @wc, at least 1
 * @wc:       receives the completions
 * @deadline: of hartebeest_clock(); 0: exchange.timeout from now; HARTEBEEST_ONCE: does not
 *            wait
 *
 * Arms the queue, reads its events and acknowledges them.  -EAGAIN and -ETIMEDOUT say
 * that the queue is empty and armed: the next completion makes hartebeest_cq_fd()
 * readable.  One thread at a time may wait for a queue.
 *
 * Returns how many were taken; -EAGAIN (HARTEBEEST_ONCE) or -ETIMEDOUT, without a line in
 * the log; -ENODATA (no channel), -ENOENT (a queue that this context does not know), -EIO
 * (the queue failed), or the errno of ibv_req_notify_cq(3).
 *
 * Since: 0.1
 */
int hartebeest_cq_wait(struct hartebeest_context *hb, struct ibv_cq *cq, int count,
		       struct ibv_wc *wc, int64_t deadline);

/* ------------------------------------------------- shared receive queue --- */

/**
 * hartebeest_srq_create() - create a receive queue that several queue pairs share
 * @pd:      name of the protection domain
 * @max_wr:  receives; 0: the option qp_init_attr.cap.max_recv_wr; cut to what the device can do
 * @max_sge: elements of each; 0: the option qp_init_attr.cap.max_recv_sge; cut as well
 * @srq:     may be NULL; owned by the context; for hartebeest_post_srq_recv().  Queue pairs
 *           share it that name it in struct hartebeest_qp_request
 *
 * Receives that were posted to it stay when a queue pair is reset: its refill function is
 * not called.
 *
 * Returns 0, -EEXIST, -ENOENT (no such PD), or the errno of ibv_create_srq(3).
 *
 * Since: 0.1
 */
int hartebeest_srq_create(struct hartebeest_context *hb, const char *name, const char *pd,
			  uint32_t max_wr, uint32_t max_sge, struct ibv_srq **srq);

/**
 * hartebeest_srq_get() - find a shared receive queue by its name
 *
 * Returns 0 or -ENOENT.  Since: 0.1
 */
int hartebeest_srq_get(struct hartebeest_context *hb, const char *name, struct ibv_srq **srq);

/**
 * hartebeest_srq_destroy() - destroy a shared receive queue
 *
 * Returns 0, -ENOENT, or -EBUSY while a queue pair uses it.  Since: 0.1
 */
int hartebeest_srq_destroy(struct hartebeest_context *hb, const char *name);

/* ------------------------------------------------------ memory region --- */

/**
 * hartebeest_mr_create() - a zeroed, page-aligned buffer, registered
 * @pd:     name of the protection domain
 * @length: bytes, more than 0; the buffer is rounded up to whole pages, so that no
 *          other data shares them
 * @access: enum ibv_access_flags
 * @mr:     may be NULL; (*mr)->addr is the buffer; owned by the context
 *
 * With the option mr.huge_pages=1 on huge pages where the system has some.
 *
 * Returns 0, -EEXIST, -ENOENT (no such PD), or the errno of ibv_reg_mr(3); -ENOMEM
 * comes with the limit on locked memory.
 *
 * Since: 0.1
 */
int hartebeest_mr_create(struct hartebeest_context *hb, const char *name, const char *pd,
			 size_t length, int access, struct ibv_mr **mr);

/**
 * hartebeest_mr_register() - register memory of the caller
 *
 * As hartebeest_mr_create(), but @address stays the caller's and must outlive the
 * region.  -EFAULT: not mapped, or read-only.
 *
 * Since: 0.1
 */
int hartebeest_mr_register(struct hartebeest_context *hb, const char *name, const char *pd,
			   void *address, size_t length, int access, struct ibv_mr **mr);

/**
 * hartebeest_mr_register_dmabuf() - register memory of a device
 * @fd, @offset, @length, @iova: as for ibv_reg_dmabuf_mr(3)
 *
 * -EOPNOTSUPP: the device cannot; -ENOSYS: libibverbs is older than 34.
 *
 * Since: 0.1
 */
int hartebeest_mr_register_dmabuf(struct hartebeest_context *hb, const char *name,
				  const char *pd, int fd, uint64_t offset, size_t length,
				  uint64_t iova, int access, struct ibv_mr **mr);

/**
 * hartebeest_mr_get() - find a memory region by its name
 *
 * Returns 0 or -ENOENT.  Since: 0.1
 */
int hartebeest_mr_get(struct hartebeest_context *hb, const char *name, struct ibv_mr **mr);

/**
 * hartebeest_mr_destroy() - deregister a memory region
 *
 * Takes back what was published of it, and frees a buffer of hartebeest_mr_create().
 * Returns 0, -ENOENT or -EBUSY.  Since: 0.1
 */
int hartebeest_mr_destroy(struct hartebeest_context *hb, const char *name);

/* What a peer needs to reach a region, and what mr_fetch brings. */
struct hartebeest_remote_mr {
	uint64_t address;	/* in the peer's address space */
	uint64_t length;	/* bytes */
	uint32_t rkey;		/* as ibv_mr.rkey there; host byte order */
	uint32_t access;	/* enum ibv_access_flags it was registered with */
	uint64_t reserved[1];	/* zero */
};

/**
 * hartebeest_mr_publish() - let others find a region
 * @name: of the region
 * @key:  under which they fetch it
 *
 * Replaces what stood under the key.  Stays until the region is destroyed or
 * hartebeest_close().  Returns 0 or -ENOENT.
 *
 * Since: 0.1
 */
int hartebeest_mr_publish(struct hartebeest_context *hb, const char *name, const char *key,
			  int64_t deadline);

/**
 * hartebeest_mr_fetch() - wait for a region that a peer publishes
 * @peer_key: as the peer gave it to hartebeest_mr_publish()
 * @mr:  filled on success
 *
 * Each call asks the server again, and ignores a record whose author's rank belongs to
 * another process now.  Before hartebeest_qp_confirm() the region may be that of a former
 * process: fetch it afterwards, and again after hartebeest_qp_reconnect() and when
 * hartebeest_qp_follow() returned 1.
 *
 * Returns 0, -ETIMEDOUT, -EBADMSG (what is there is no record, or says what cannot
 * be), -EPROTONOSUPPORT (record of another version), -EIO or -ENETDOWN (of the device:
 * hartebeest_event_get()).
 *
 * Since: 0.1
 */
int hartebeest_mr_fetch(struct hartebeest_context *hb, const char *peer_key,
			struct hartebeest_remote_mr *mr, int64_t deadline);

/* --------------------------------------------------------- queue pair --- */

/* The type of the option qp_init_attr.qp_type: in C++ a bare 0 is no enum. */
#ifdef __cplusplus
#define HARTEBEEST_QPT_PRESET static_cast<enum ibv_qp_type>(0)
#else
#define HARTEBEEST_QPT_PRESET ((enum ibv_qp_type)0)
#endif

/*
 * What hartebeest_qp_create() is to make.  Set by hartebeest_qp_request_preset(), then
 * filled; new fields will come at the end.
 */
struct hartebeest_qp_request {
	size_t size;			/* of the caller's struct: the preset sets it */
	const char *pd;			/* name of its protection domain */
	const char *send_cq;		/* names of its completion queues */
	const char *recv_cq;		/* NULL: send_cq */
	const char *srq;		/* name of a shared receive queue; NULL: none */
	void *qp_context;		/* as in ibv_create_qp(3) */
	struct ibv_qp_cap cap;		/* what is 0 comes from the options; out: granted */
	enum ibv_qp_type type;		/* HARTEBEEST_QPT_PRESET: qp_init_attr.qp_type */
	int32_t sq_sig_all;		/* 1: each send request makes a completion */
};

/** hartebeest_qp_request_preset() - set every field to zero, and the size */
static inline void hartebeest_qp_request_preset(struct hartebeest_qp_request *request)
{
	memset(request, 0, sizeof(*request));
	request->size = sizeof(*request);
}

/**
 * hartebeest_qp_create() - create a queue pair in the state RESET
 * @request: what to make; pd and send_cq are needed
 * @qp:      may be NULL; owned by the context
 *
 * Sizes come from @request or the options qp_init_attr.cap.*, cut to what the device can
 * do; inline data is halved until the device accepts.  What was granted is in
 * @request->cap, and later in hartebeest_qp_cap().
 *
 * Returns 0, -EEXIST, -ENOENT (no PD or queue of that name), -EOPNOTSUPP (another type than
 * IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD), -EINVAL (the preset was not called), -E2BIG (a field
 * that this version does not know), or the errno of ibv_create_qp(3).
 *
 * Since: 0.1
 */
int hartebeest_qp_create(struct hartebeest_context *hb, const char *name,
			 struct hartebeest_qp_request *request, struct ibv_qp **qp);

/**
 * hartebeest_qp_create_attr() - create a queue pair from a filled struct ibv_qp_init_attr
 * @attr: queues, SRQ, type and so on as for ibv_create_qp(3); sizes in attr->cap that
 *        are 0 come from the options; on success attr->cap is what was granted
 *
 * Returns as hartebeest_qp_create().
 *
 * Since: 0.1
 */
int hartebeest_qp_create_attr(struct hartebeest_context *hb, const char *name,
			      const char *pd, struct ibv_qp_init_attr *attr,
			      struct ibv_qp **qp);

/**
 * hartebeest_qp_get() - find a queue pair by its name
 *
 * Returns 0 or -ENOENT.  Since: 0.1
 */
int hartebeest_qp_get(struct hartebeest_context *hb, const char *name, struct ibv_qp **qp);

/**
 * hartebeest_qp_cap() - the sizes that the device granted at creation
 *
 * Returns 0 or -ENOENT.  Since: 0.1
 */
int hartebeest_qp_cap(struct hartebeest_context *hb, const char *name,
		      struct ibv_qp_cap *cap);

/**
 * hartebeest_qp_destroy() - destroy a queue pair
 *
 * Takes back what was published of it.  Returns 0, -ENOENT or the errno of
 * ibv_destroy_qp(3).  Since: 0.1
 */
int hartebeest_qp_destroy(struct hartebeest_context *hb, const char *name);

/**
 * hartebeest_qp_init() - take a queue pair from RESET to INIT, where receives may be posted
 *
 * Draws a new packet sequence number.  Chooses GID and P_Key.  In INIT already, nothing
 * is done.  A refill function that fails leaves RESET.  Returns 0, -ENOENT,
 * -EISCONN (beyond INIT already: hartebeest_qp_reset() first), -ENODATA (no GID or
 * P_Key fits the options), or the errno of ibv_modify_qp(3).
 *
 * Since: 0.1
 */
int hartebeest_qp_init(struct hartebeest_context *hb, const char *name);

/**
 * hartebeest_qp_publish() - let the peer find this queue pair
 *
 * A queue pair still in RESET is taken to INIT first, since its sequence number is
 * part of what is published.  Stays until the queue pair is destroyed or
 * hartebeest_close().  What hartebeest_qp_connect() and _reconnect() publish again goes
 * under the key of the last call.  Returns 0, -ENOENT, or as hartebeest_qp_init().
 *
 * Since: 0.1
 */
int hartebeest_qp_publish(struct hartebeest_context *hb, const char *name, const char *key,
			  int64_t deadline);

/*
 * What is known of a fetched queue pair.  Its rank, host and device as a sentence:
 * hartebeest_peer_text().
 */
struct hartebeest_remote_qp {
	union ibv_gid gid;
	union ibv_gid address;	/* IP of its port, IPv4 as ::ffff:a.b.c.d; zero: none */
	uint32_t qp_type;	/* enum ibv_qp_type */
	uint32_t qp_num;
	uint32_t psn;		/* its first packet's sequence number */
	uint32_t qkey;		/* UD */
	uint16_t lid;		/* InfiniBand; host byte order */
	uint16_t pkey;		/* host byte order */
	int32_t rank;		/* -1: unknown */
	uint64_t reserved[4];	/* zero */
};

/**
 * hartebeest_peer_text() - who is behind a peer's key, as a sentence
 * @peer_key: as given to hartebeest_qp_fetch()
 * @text:     receives "rank 3 on cn08, pid 17, mlx5_0:1", cut to fit
 *
 * Asks the server, a quarter of a second at most; where it does not answer, or another
 * process has that rank now, the rank alone is named.  Returns 0, -ENOENT (never fetched)
 * or -EINVAL.
 *
 * Since: 0.1
 */
int hartebeest_peer_text(struct hartebeest_context *hb, const char *peer_key, char *text,
			 size_t size);

/**
 * hartebeest_qp_fetch() - wait for a queue pair that a peer publishes
 * @peer_key:    as the peer gave it to hartebeest_qp_publish()
 * @remote: may be NULL
 *
 * Each call asks the server again; what came is kept under the key for
 * hartebeest_qp_connect().  Of RC and UC it may be what a former process left, which
 * hartebeest_qp_confirm() finds out; of UD, a record whose author's rank belongs to
 * another process now is ignored.
 *
 * Returns 0, -ETIMEDOUT, -EBADMSG, -EPROTONOSUPPORT, -EIO, -ENETDOWN, as
 * hartebeest_mr_fetch().
 *
 * Since: 0.1
 */
int hartebeest_qp_fetch(struct hartebeest_context *hb, const char *peer_key,
			struct hartebeest_remote_qp *remote, int64_t deadline);

/**
 * hartebeest_qp_connect() - take a queue pair to RTS against a fetched peer
 * @name: of the own queue pair, in RESET or INIT
 * @peer_key:  of the peer, as given to hartebeest_qp_fetch()
 *
 * Both ends call this and neither waits for the other: before the first message is
 * sent, hartebeest_qp_confirm() (or a barrier) makes sure that the peer is there.
 * Path MTU, outstanding reads and atomics, partition and addresses are agreed from
 * the two records before the device is touched.  On failure the queue pair keeps
 * the state it had reached.  A queue pair that was reset since it was published is
 * published again.
 *
 * For UD: the queue pair goes to RTS, and an address handle for this peer is made
 * (hartebeest_qp_address()); may be called again for further peers.
 *
 * With device.resolver=rdmacm GIDs, SL, MTU, LID, source path bits, hop limit, traffic
 * class, flow label and rate come from the path record to the peer's published IP address,
 * asked for once a peer, and the options of SL, path bits, flow label and rate have no
 * effect.
 *
 * The own GID is looked up again: when its index moved, the new one is used.
 *
 * Returns 0, -ENOENT (either name unknown), -EISCONN (connected already), -EINVAL
 * (src_path_bits beyond the port's LMC), -EPROTOTYPE (transport or link layer differ),
 * -EPROTO (another disagreement: RoCE version, partition, sequence number), -ENODATA (the
 * own GID is gone), the errno of ibv_modify_qp(3), or with rdmacm as hartebeest_resolve()
 * and -EXDEV (the path leaves by another port).
 *
 * Since: 0.1
 */
int hartebeest_qp_connect(struct hartebeest_context *hb, const char *name,
			  const char *peer_key, int64_t deadline);

/**
 * hartebeest_qp_confirm() - wait until the peer is connected to this queue pair
 *
 * Succeeds when the peer says, for this very queue pair of this very process, that
 * it is in RTR or later.  A record of a former run can not say that.  When the peer
 * restarted meanwhile, this end goes back to RESET and connects to the new one.  When
 * that fails, it is connected to nobody: hartebeest_qp_reconnect() tries again.
 * Both ends must have published and connected, which tells the other end; where the
 * server did not answer just then, the next call that publishes, waits or follows a peer
 * does.  So connect all queue pairs first, then
 * confirm them in any order.
 *
 * Returns 0, -ENOENT, -ENOTCONN (not connected to this key, or never published),
 * -EOPNOTSUPP (UD has no single peer: use hartebeest_barrier()), -ETIMEDOUT, -ESHUTDOWN
 * or -ECONNABORTED (the peer's process has left or failed), -EBADMSG,
 * -EPROTONOSUPPORT, -EIO, -ENETDOWN, as hartebeest_qp_fetch(), what the refill function
 * returned, or as hartebeest_qp_connect().
 *
 * Since: 0.1
 */
int hartebeest_qp_confirm(struct hartebeest_context *hb, const char *name,
			  const char *peer_key, int64_t deadline);

/**
 * hartebeest_qp_follow() - has the peer been replaced? then connect to the new one
 * @remote: filled when it was; may be NULL
 *
 * Looks once at the record under @peer_key and waits for nobody (a quarter of a second at most
 * for the server).  When a peer that restarted has published another queue pair there,
 * this end goes through RESET and connects to it with the sequence number it has already
 * published.  Whether that peer is connected too, hartebeest_qp_confirm() tells.  A
 * failure to connect leaves the queue pair connected to nobody.
 *
 * Returns 1 when it was replaced, 0 when it was not, when nothing is there or the
 * server does not answer, -ESHUTDOWN (the peer has closed its queue pair and left, within
 * the last minute), -EIO or -ENETDOWN (of the device: hartebeest_event_get()), -ENOENT (no
 * such queue pair), -ENOTCONN (not connected to this key), -EOPNOTSUPP (UD), -EBADMSG (what
 * is there says what no queue pair can be), -EACCES or -EPROTO (the server refuses the login,
 * or is no Memcached), what the refill function returned, or as hartebeest_qp_connect().
 *
 * Since: 0.1
 */
int hartebeest_qp_follow(struct hartebeest_context *hb, const char *name,
			 const char *peer_key, struct hartebeest_remote_qp *remote);

/**
 * hartebeest_qp_reset() - take a queue pair from any state to RESET
 *
 * Work requests not yet completed are dropped without a completion.  Returns 0,
 * -ENOENT, or the errno of ibv_modify_qp(3).
 *
 * Since: 0.1
 */
int hartebeest_qp_reset(struct hartebeest_context *hb, const char *name);

/**
 * hartebeest_qp_reconnect() - connect again after a failure, or when the peer restarted
 *
 * RESET -> INIT with a new sequence number, published again under its key, the
 * peer's record fetched again, -> RTS, and confirmed.  Both ends call it; the end that
 * restarted calls hartebeest_qp_confirm() as at its first start.  Each call begins again:
 * after -EAGAIN or -ETIMEDOUT hartebeest_pairs_connect() goes on where this one ended.
 *
 * Returns 0, -ENOTCONN (never published), -EOPNOTSUPP (UD), or as the functions it
 * stands for.
 *
 * Since: 0.1
 */
int hartebeest_qp_reconnect(struct hartebeest_context *hb, const char *name,
			    const char *peer_key, int64_t deadline);

/**
 * hartebeest_qp_refill_set() - who posts the receives of this queue pair
 * @refill: called in the state INIT, whenever the queue pair gets there; posts
 *          receives and returns 0, or a negative errno that fails the transition;
 *          NULL: nobody
 *
 * RESET drops posted receives.  hartebeest_qp_confirm() and hartebeest_qp_reconnect()
 * may have to go through RESET, so a program that receives sets this before
 * hartebeest_qp_init() and posts its first receives there too.
 *
 * Returns 0 or -ENOENT.
 *
 * Since: 0.1
 */
int hartebeest_qp_refill_set(struct hartebeest_context *hb, const char *name,
			     int (*refill)(void *data, struct ibv_qp *qp), void *data);

/* Where a UD message goes: arguments of hartebeest_post_send_ud(). */
struct hartebeest_address {
	struct ibv_ah *ah;	/* owned by the context */
	uint32_t qp_num;
	uint32_t qkey;
	uint64_t reserved[2];	/* zero */
};

/**
 * hartebeest_qp_address() - the address of a peer of a connected UD queue pair
 *
 * Returns 0, -ENOENT, or -ENOTCONN before hartebeest_qp_connect().
 *
 * Since: 0.1
 */
int hartebeest_qp_address(struct hartebeest_context *hb, const char *name,
			  const char *peer_key, struct hartebeest_address *address);

/**
 * hartebeest_completion_text() - a completion as a sentence, with both ends named
 * @wc:   from ibv_poll_cq(3) or hartebeest_poll()
 * @text: receives status, what it usually means, vendor error, wr_id, queue pair and
 *        peer; cut to fit
 *
 * When the peer did not answer, its rank is looked up on the servers, for 250 ms at most: the
 * text says who it is if it has left or failed, if another process has its rank by now, or if
 * it was a process of this host and is dead.
 *
 * Returns 0.
 *
 * Since: 0.1
 */
int hartebeest_completion_text(struct hartebeest_context *hb, const struct ibv_wc *wc,
			       char *text, size_t size);

/* --------------------------------------------------------------- adopt --- */

/**
 * hartebeest_pd_adopt() - a name for a protection domain that the program made
 * @name: its name from now on, as if hartebeest_pd_create() had made it
 * @pd:   made on hartebeest_verbs(), or on what hartebeest_open_verbs() was given
 *
 * The library never destroys what it adopted.  hartebeest_pd_destroy() forgets it; call
 * that, or hartebeest_close(), before ibv_dealloc_pd(3).  A context that opened the device
 * itself keeps it open until the process ends if something adopted is left at its close.
 *
 * Returns 0, -EEXIST (name in use), -EALREADY (this one has a name already) or -EXDEV (made
 * on another struct ibv_context).
 *
 * Since: 0.1
 */
int hartebeest_pd_adopt(struct hartebeest_context *hb, const char *name, struct ibv_pd *pd);

/**
 * hartebeest_cq_adopt() - a name for a completion queue that the program made
 *
 * However it was made.  A channel stays the program's: hartebeest_cq_wait() is -ENODATA.
 * Returns as hartebeest_pd_adopt().  Since: 0.1
 */
int hartebeest_cq_adopt(struct hartebeest_context *hb, const char *name, struct ibv_cq *cq);

/**
 * hartebeest_srq_adopt() - a name for a shared receive queue that the program made
 *
 * Returns as hartebeest_pd_adopt().  Since: 0.1
 */
int hartebeest_srq_adopt(struct hartebeest_context *hb, const char *name,
			 struct ibv_srq *srq);

/**
 * hartebeest_mr_adopt() - a name for a memory region that the program registered
 * @access: the flags it was registered with, which verbs cannot tell; peers see them
 *
 * hartebeest_mr_destroy() forgets it, and takes back what was published of it; call that,
 * or hartebeest_close(), before ibv_dereg_mr(3).  Returns as hartebeest_pd_adopt().
 *
 * Since: 0.1
 */
int hartebeest_mr_adopt(struct hartebeest_context *hb, const char *name, struct ibv_mr *mr,
			int access);

/**
 * hartebeest_qp_adopt() - a name for a queue pair that the program made
 * @qp: by ibv_create_qp(3), ibv_create_qp_ex(3), a vendor's call, rdma_cm: RC, UC or UD
 *
 * In RESET it is initialized, published, connected, confirmed and reconnected like one of
 * hartebeest_qp_create().  In INIT, where the program has taken it, its port must be that
 * of the context; access flags, P_Key and Q_Key are read back and stay, also after
 * hartebeest_qp_reset().  Beyond INIT it has a name for hartebeest_completion_text() and
 * events; all that would connect it is -EISCONN until hartebeest_qp_reset(), since its
 * first sequence number cannot be read back.
 *
 * hartebeest_qp_destroy() forgets it, and takes back what was published of it; call that,
 * or hartebeest_close(), before ibv_destroy_qp(3).
 *
 * Returns 0, as hartebeest_pd_adopt(), -EOPNOTSUPP (another transport), -EINVAL (in INIT on
 * another port), or as hartebeest_qp_init().
 *
 * Since: 0.1
 */
int hartebeest_qp_adopt(struct hartebeest_context *hb, const char *name, struct ibv_qp *qp);

/**
 * hartebeest_post_text() - why a post was refused, as a sentence
 * @qp:   any queue pair of this process
 * @wr:   what was to be posted; NULL: a receive, or not known
 * @ret:  what hartebeest_post_write(), ibv_post_send(3) or the like returned
 * @text: receives queue pair, request and the likely reason: its state, a full queue, a
 *        request that it cannot carry; cut to fit
 *
 * A post itself says nothing but an errno, since that would cost time.  Asks the device for
 * the state of the queue pair.  Returns 0, or -EINVAL (@ret is 0).
 *
 * Since: 0.1
 */
int hartebeest_post_text(struct hartebeest_context *hb, struct ibv_qp *qp,
			 const struct ibv_send_wr *wr, int ret, char *text, size_t size);

/* ------------------------------------------------------------- many pairs --- */

/* So many regions one pair may offer. */
#define HARTEBEEST_PAIR_REGIONS 255

/*
 * One queue pair and its peer, for hartebeest_pairs_connect().  Set by
 * hartebeest_pair_preset(), then filled; new fields will come at the end.
 */
struct hartebeest_pair {
	size_t size;			/* of the caller's struct: the preset sets it */
	const char *qp;			/* name of the own queue pair */
	const char *key;		/* under which it is published */
	const char *peer_key;		/* under which the peer publishes its own */
	const char *const *offer;	/* names of own regions that the peer gets */
	struct hartebeest_remote_mr *regions;	/* receives the peer's, in its order */
	uint32_t offered;		/* how many names are in offer, at most 255 */
	uint32_t room;			/* how many fit into regions */
	/* out */
	uint32_t count;			/* how many regions the peer offers */
	int32_t result;			/* 0 or a negative errno, of this pair alone */
	struct hartebeest_remote_qp peer;
	char reason[512];		/* the sentence to result */
};

/** hartebeest_pair_preset() - set every field to zero, and the size */
static inline void hartebeest_pair_preset(struct hartebeest_pair *pair)
{
	memset(pair, 0, sizeof(*pair));
	pair->size = sizeof(*pair);
}

/**
 * hartebeest_pairs_connect() - connect many queue pairs to their peers in one call
 * @pairs: an array; each is set by hartebeest_pair_preset() first
 * @count: how many
 *
 * Publishes all, fetches all peers, connects each as its peer appears, and waits until all
 * have confirmed.  The regions of offer come along.  The peers call it, or the single
 * steps, in any order and at any time: nobody need have published before.  A queue pair
 * may be in any state: one that is connected to its peer is only confirmed again, one in
 * an error state or connected to another peer goes through RESET first.
 *
 * Every pair is tried whatever becomes of the others, and has its own result.  Called
 * again with the same pairs, it goes on where it was.  A peer that is replaced meanwhile
 * is connected again.  A UD queue pair may be in several pairs, has an address handle for
 * each peer afterwards (hartebeest_qp_address()), and is not confirmed.
 *
 * Returns 0, or the first failed result: -ENOENT (no such queue pair or region),
 * -ETIMEDOUT, -EAGAIN (HARTEBEEST_ONCE; where no pair fails otherwise), -EMSGSIZE (the
 * peer offers more regions than there is room for; it is connected and confirmed, and the
 * room is filled), -ESHUTDOWN (the peer has left), or as hartebeest_qp_connect() and
 * hartebeest_qp_confirm().  Nothing is tried with -EINVAL (a field is missing, a queue
 * pair or own key is in two pairs) and -E2BIG (a field that this version does not know).
 *
 * Since: 0.1
 */
int hartebeest_pairs_connect(struct hartebeest_context *hb, struct hartebeest_pair *pairs,
			     size_t count, int64_t deadline);

/* ----------------------------------------------------- message, barrier --- */

/**
 * hartebeest_msg_push() - leave a message under a key
 * @data: @length bytes, may be NULL when @length is 0; at most 1 MiB less 2 KiB
 *
 * Replaces a former message.  Needs no device.
 *
 * Since: 0.1
 */
int hartebeest_msg_push(struct hartebeest_context *hb, const char *key, const void *data,
			size_t length, int64_t deadline);

/**
 * hartebeest_msg_wait() - wait for a message
 * @buffer: receives it, at most @size bytes; may be NULL when @size is 0
 * @length: receives its full length; may be NULL
 *
 * The message stays for others.  Returns 0, -ETIMEDOUT, -EIO or -ENETDOWN (of the
 * device: hartebeest_event_get()), -EBADMSG, -EPROTONOSUPPORT, or -EMSGSIZE when @size is
 * too small (@length is set then too, the buffer is not).  @size 0 asks for no data
 * and takes any message.
 *
 * Since: 0.1
 */
int hartebeest_msg_wait(struct hartebeest_context *hb, const char *peer_key, void *buffer,
			size_t size, size_t *length, int64_t deadline);

/*
 * One message of hartebeest_msgs_wait().  Set by hartebeest_message_preset(), then filled;
 * new fields will come at the end.
 */
struct hartebeest_message {
	size_t size;		/* of the caller's struct: the preset sets it */
	const char *peer_key;	/* under which it was pushed */
	void *buffer;		/* receives it; may be NULL when room is 0 */
	size_t room;		/* bytes; 0 asks for no data and takes any message */
	/* out */
	size_t length;		/* its full length */
	int32_t here;		/* 1 when it came: it is not asked for again */
	int32_t result;		/* 0, -EMSGSIZE (room is too small), -EAGAIN (not here) */
};

/** hartebeest_message_preset() - set every field to zero, and the size */
static inline void hartebeest_message_preset(struct hartebeest_message *message)
{
	memset(message, 0, sizeof(*message));
	message->size = sizeof(*message);
}

/**
 * hartebeest_msgs_wait() - wait for many messages at once
 * @messages: an array; each is set by hartebeest_message_preset() first
 * @count:    how many
 * @need:     how many have to be here; 0: all
 *
 * Asks for all that are missing in one request at a time.  The messages stay for others.
 * Called again with the same array, it asks for those alone that are not here.
 *
 * Returns how many are here, -ETIMEDOUT or -EAGAIN (HARTEBEEST_ONCE) when these are fewer
 * than @need (what came is marked all the same), -EINVAL, -E2BIG, or as
 * hartebeest_msg_wait().
 *
 * Since: 0.1
 */
int hartebeest_msgs_wait(struct hartebeest_context *hb, struct hartebeest_message *messages,
			 size_t count, size_t need, int64_t deadline);

/**
 * hartebeest_msg_delete() - remove a message
 *
 * Returns 0, or -ENOENT when there is no such message.  Since: 0.1
 */
int hartebeest_msg_delete(struct hartebeest_context *hb, const char *key, int64_t deadline);

/**
 * hartebeest_barrier() - wait until every rank of the job is here
 * @name: the same on all ranks; may be used again and again
 *
 * Leftovers of a former run do not count.  Returns 0, -ENODATA (rank or size
 * unknown), -EBADMSG or -EPROTONOSUPPORT (the gate is no record, or one of another
 * version), -EIO or -ENETDOWN (of the device: hartebeest_event_get()), -ESTALE (a rank, or
 * this one, was started again after the context's first barrier), -ESHUTDOWN or
 * -ECONNABORTED (a rank has left or failed), or -ETIMEDOUT naming the ranks that are
 * missing; so does -EAGAIN among up to 32 ranks, which looks once more for that.  Called
 * again after -ETIMEDOUT or -EAGAIN, it goes on with the same pass.
 *
 * Since: 0.1
 */
int hartebeest_barrier(struct hartebeest_context *hb, const char *name, int64_t deadline);

/**
 * hartebeest_fail() - tell all who wait that this rank has given up
 * @text: why, for people; 200 bytes of it are kept
 *
 * The waits of all other ranks, those in progress and later ones, end within two seconds
 * with -ECONNABORTED, and their sentence says which rank has failed and @text.  Own waits go
 * on.  A process without rank ends only the waits for what it has published.  The call
 * takes a second at most.  The failure is known until the context is closed, and ten minutes
 * longer.
 *
 * Returns 0, or the error of a server, which then may not have been told.
 *
 * Since: 0.1
 */
int hartebeest_fail(struct hartebeest_context *hb, const char *text);

/* -------------------------------------------------------------- service --- */

#define HARTEBEEST_SERVICE_DATA 1024
#define HARTEBEEST_SERVICE_KEY 128

/* A client's wish to be served, as either end sees it. */
struct hartebeest_request {
	uint64_t number;	/* in the order of asking; gaps are possible */
	uint64_t epoch;		/* of the Memcached server, in which the number counts */
	int32_t rank;		/* of the client, -1: it has none */
	uint32_t pid;		/* of the client */
	uint32_t again;		/* 1: a listening process before this one has had it */
	uint32_t length;	/* bytes of data */
	char host[64];		/* of the client */
	char key[HARTEBEEST_SERVICE_KEY];	/* for this end's queue pair */
	char peer_key[HARTEBEEST_SERVICE_KEY];	/* under which the other end's will be */
	unsigned char data[HARTEBEEST_SERVICE_DATA];	/* the client's own */
	uint64_t reserved[4];	/* zero */
};

/**
 * hartebeest_service_listen() - serve clients that nobody listed
 * @service: 1 to 64 printable ASCII characters without blanks and '/'
 *
 * A service has one listener: the last that called this has it, and the one before is told
 * by hartebeest_service_accept().  Rank and size need not be known.  Called again by the
 * listener it changes nothing.
 *
 * Returns 0, -EINVAL (the name), -ETIMEDOUT or -EAGAIN.
 *
 * Since: 0.1
 */
int hartebeest_service_listen(struct hartebeest_context *hb, const char *service,
			      int64_t deadline);

/**
 * hartebeest_service_accept() - the next client that asks
 * @request: filled on success
 *
 * Gives each stored request once to each listening process, the oldest first, and so
 * to one that was started again all that its predecessor had.  Create a queue pair then, and
 * connect it by hartebeest_pairs_connect() with the two keys of the request; or refuse it by
 * hartebeest_service_leave().
 *
 * When the Memcached server was restarted, clients that wait for anything ask again by
 * themselves; a listener that had them already does not get them twice.
 *
 * Returns 0, -ENOTCONN (hartebeest_service_listen() comes first), -EADDRINUSE (another
 * process has the service now), -ETIMEDOUT or -EAGAIN (nobody asked; neither is a line of
 * the log), -EIO or -ENETDOWN (of the device: hartebeest_event_get()).
 *
 * Since: 0.1
 */
int hartebeest_service_accept(struct hartebeest_context *hb, const char *service,
			      struct hartebeest_request *request, int64_t deadline);

/**
 * hartebeest_service_request() - ask to be served
 * @data:    @length bytes for the listener, may be NULL when @length is 0
 * @request: filled on success
 *
 * The request is stored from here on, whether anybody listens yet or not, until
 * hartebeest_service_leave(), hartebeest_close(), or, if this process crashes, for
 * exchange.ttl.  Create a queue pair and connect it by hartebeest_pairs_connect() with the
 * two keys of the request: that waits for the listener.
 *
 * Returns 0, -EINVAL (the name), -EMSGSIZE (@length over 1024), -ETIMEDOUT or -EAGAIN.
 *
 * Since: 0.1
 */
int hartebeest_service_request(struct hartebeest_context *hb, const char *service,
			       const void *data, size_t length,
			       struct hartebeest_request *request, int64_t deadline);

/**
 * hartebeest_service_leave() - take a request back, refuse or end it, or stop listening
 * @request: as given by hartebeest_service_request() or hartebeest_service_accept(); NULL:
 *           this context no longer listens; requests stand for the next one that does
 *
 * The queue pair that was published under the request's key is closed on the server, so
 * that the other end's hartebeest_qp_follow() returns -ESHUTDOWN; destroy it afterwards.
 *
 * Returns 0, -ENOENT (no such request, or not listening), or as the server fails, which
 * costs a second at most: a later listener may then get the request.
 *
 * Since: 0.1
 */
int hartebeest_service_leave(struct hartebeest_context *hb, const char *service,
			     const struct hartebeest_request *request);

#ifdef __cplusplus
}
#endif

#endif
