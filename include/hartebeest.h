/* SPDX-License-Identifier: MIT */
/*
 * hartebeest.h - bring RDMA queue pairs up through a Memcached server
 *
 * The library creates and finds verbs objects by name and hands back plain struct ibv_*
 * pointers, on which every verbs call still works.
 *
 * Errors.  Unless stated otherwise, a function returns 0 or a negative errno, and after a
 * failure hartebeest_error() gives the reason in a sentence.  Outputs are set on success
 * only.  Nothing is printed unless HARTEBEEST_LOG or hartebeest_log_set() asks for it.
 * The functions of hartebeest-c.h are the exception: they print their errors.
 *
 * Every function may return -EINVAL for a NULL or malformed argument, and -ENOMEM,
 * besides the errors that its comment lists.  A function that uses the device may also
 * return
 *
 *   -ENODEV           no RDMA device, or none of that name
 *   -ENXIO            no such port
 *   -ENETDOWN         port not active
 *   -EACCES, -EPERM, -ENOENT  device node not accessible
 *   -EDQUOT           the rdma cgroup allows no more objects of the device
 *   -EPROTONOSUPPORT  neither InfiniBand nor RoCE: iWARP, usNIC or EFA
 *   -ENODATA          no port has the GID that device.gid or device.addr asks for
 *
 * and one that uses the server
 *
 *   -EDESTADDRREQ     no server is named: set HARTEBEEST_EXC_IP_PORT
 *   -EADDRNOTAVAIL    a server's name is not resolved
 *   -ECONNREFUSED, -ECONNRESET, -EHOSTUNREACH, -ENETUNREACH  cannot connect
 *   -EAFNOSUPPORT     an IPv6 address, which this libmemcached cannot use
 *   -EHOSTDOWN        connected, but no answer
 *   -EUSERS           too many connections
 *   -EMFILE, -ENFILE  no file descriptor left
 *   -EACCES           the server demands a login, which the library does not have
 *   -EPROTO           not a Memcached server; or another rank has a different list of
 *                     servers, other participants or another secret
 *   -ENOBUFS          server out of memory
 *   -ENOSPC           the server evicts this job's records
 *   -EMSGSIZE         value too large
 *   -ENAMETOOLONG     hb1/JOB/KIND/KEY is longer than 250 bytes
 *   -EADDRINUSE       another process runs under this rank
 *
 * The library resolves names of servers, and reads the secret, when a context first
 * uses the server, not in hartebeest_open().  So that first use may also return
 *
 *   -EINVAL           a secret that does not have 16 to 1024 bytes
 *   -EPERM            the secret's file belongs to another user, or others may read it
 *   -ENOSYS           a secret, but this build has no libcrypto
 *
 * and the errno of open(2) and read(2).
 *
 * Deadlines.  A call that may wait for a peer or a server takes one deadline for the
 * whole call:
 *
 *   HARTEBEEST_DEFAULT  0: the option exchange.timeout (default 30 s) from now
 *   a time              of hartebeest_clock(); one that has passed allows one look
 *   HARTEBEEST_FOREVER  INT64_MAX: no deadline
 *   HARTEBEEST_ONCE     one look, which takes at most a quarter of a second per server, or
 *                       2 s where answers have taken long before, or where seven looks in a
 *                       row have got none
 *
 * At the deadline the call returns -ETIMEDOUT, and the sentence names what did not arrive.
 * If a server fails in a way that may pass, the library retries until the deadline, and
 * returns the server's errno only if the failure lasts that long.  A server that does not
 * answer may hold the call up for a quarter of a second longer: the last look gets that time.
 *
 * With HARTEBEEST_ONCE nothing is retried, and -EAGAIN means: call again.  It covers
 * all that a call with a deadline would go on waiting for: what the call looked for is not
 * there, its record cannot be read, or its server does not answer or refuses connections,
 * as one that is started late.  The sentence gives the cause; how long to try is up to the
 * program.  Any other errno is final.  A program that polls learns of ranks that leave or fail
 * and of a second process of its rank as one that waits does.  No failure of such a call is
 * logged.  Any other negative deadline is -EINVAL.
 *
 * hartebeest_cancel() ends any wait with -ECANCELED.  The library cannot end one wait: on
 * RoCE, the transition to RTR, in which the kernel may look for the peer's address for a
 * second.
 *
 * Every function that reads a peer's record may also return -EBADMSG (the value under the
 * key is not a record), -EPROTONOSUPPORT (a record of another version), -ENOKEY (it is
 * sealed, and this process has no secret) and -EKEYREJECTED (it is not sealed, or with
 * another secret), though not with HARTEBEEST_ONCE.
 *
 * Names of objects have 1 to 255 bytes without control characters.  Each kind has a name
 * space of its own in each context.  Keys, under which a process publishes, are printable
 * ASCII without blanks.  Together with the job id a key has at most 242 bytes, the key of
 * a message 241, that of a counter 237, and the name of a barrier 222; without a job id, each
 * has one byte less.
 *
 * Texts.  A function that writes a sentence to @text, which has @size bytes, works as
 * snprintf(3): it cuts the sentence to fit, and returns its whole length, so that a result
 * of @size or more means that it was cut.  With a @size of 0, @text may be NULL.
 *
 * Structs.  A struct that the caller fills in begins with its size, which an init
 * function sets.  Zero in a field asks for nothing, and new fields are added at the end,
 * so old programs work with new libraries and new programs with old ones.  If a new
 * program asks an old library for something it does not know, the call returns -E2BIG.  A
 * struct that the library fills in keeps its size, and ends in reserved words that are
 * zero until they get a meaning.
 *
 * Threads.  Many threads may use a context at once, but one queue pair, and one barrier,
 * only by one thread at a time.  An object must not be destroyed while another thread
 * uses it.  If several threads destroy the same name, one succeeds, and the others get
 * -ENOENT.
 *
 * Callbacks.  The library calls a function of the program only within a call of the program,
 * and on its thread; threads of a mesh may also call the log function.  The function must
 * return: no C++ exception, no longjmp(3), no pthread_exit(3).  It must not destroy an object
 * that the call uses, nor close the context.  Each prototype names the calls that it may make.
 *
 * Fork.  A child must not use its parent's context.  There, calls that use the server
 * return -EPERM, and hartebeest_close() only forgets the context.
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

/* ------------------------------------------------------------ version --- */

/* The version of this header.  "#if HARTEBEEST_VERSION >= HARTEBEEST_VERSION_OF(0, 2, 0)" works. */
#define HARTEBEEST_VERSION_MAJOR 0
#define HARTEBEEST_VERSION_MINOR 1
#define HARTEBEEST_VERSION_PATCH 0
#define HARTEBEEST_VERSION_OF(major, minor, patch) ((major) * 65536 + (minor) * 256 + (patch))
#define HARTEBEEST_VERSION HARTEBEEST_VERSION_OF(HARTEBEEST_VERSION_MAJOR, \
						 HARTEBEEST_VERSION_MINOR, \
						 HARTEBEEST_VERSION_PATCH)

/**
 * hartebeest_version() - the version of the library that runs
 *
 * It may be later than HARTEBEEST_VERSION, with which the program was compiled.
 *
 * Returns the version in the form of HARTEBEEST_VERSION_OF().
 *
 * Since: 0.1
 */
int hartebeest_version(void);

/* ------------------------------------------------------------ context --- */

/**
 * hartebeest_open() - read settings and make a context
 * @hbp:     receives the context, for hartebeest_close()
 * @options: NULL-terminated array of "section.key=value" strings, or NULL
 *
 * A later source overrides an earlier one: defaults, /etc/hartebeest.json, the file that
 * HARTEBEEST_CONF_PATH names, environment, @options.  Touches neither device nor network:
 * the first resource opens the port, and the first exchange connects to the server.
 *
 * Returns 0, -EINVAL (unknown key; malformed value; both device.addr and device.gid
 * given), -ERANGE (value out of range; the sentence gives the range), -EBADMSG (file is
 * not JSON), -EFBIG (file larger than 1 MiB), -ENODATA (a launcher gives a rank but no
 * size), -ENAMETOOLONG (job id longer than 64 bytes), -ENOENT (file missing; rank not
 * among the participants), or another errno of open(2) or read(2).
 *
 * Since: 0.1
 */
int hartebeest_open(struct hartebeest_context **hbp, const char *const *options);

/**
 * hartebeest_open_verbs() - make a context on a device that the program has opened
 * @hbp, @options: as for hartebeest_open(); the option device.name is ignored
 * @verbs:         from ibv_open_device(3) or rdma_cm; must outlive the context, which
 *                 does not close it
 * @port:          1 or more; 0: choose one of its ports
 *
 * With this, an existing program keeps its own objects, and names those that are to be
 * connected: see hartebeest_qp_adopt().  The program itself reads the device's
 * asynchronous events, so hartebeest_event_get() and hartebeest_event_fd() return
 * -EOPNOTSUPP, and waits do not end when the device fails.
 *
 * Returns 0, or fails as hartebeest_open() or as the first use of the device does.
 *
 * Since: 0.1
 */
int hartebeest_open_verbs(struct hartebeest_context **hbp, const char *const *options,
			  struct ibv_context *verbs, int port);

/**
 * hartebeest_close() - destroy all objects and take back what was published
 * @hb: NULL is ignored
 *
 * Destroys objects, and frees buffers of hartebeest_mr_create(), in reverse order of
 * creation.  From the server it removes the records of memory regions, of requests, and
 * of queue pairs that were never connected, if they are still this context's own.  For
 * one minute, the record of a queue pair that was connected shows that it is closed, so
 * its peer can still confirm, and the rank's record shows that the rank has left.
 * Messages and barriers stay until their time to live ends, since a peer may be about to
 * read them.  Waits three seconds at most for servers that do not answer, or
 * four times as long as the slowest answers took, however many there are.
 *
 * Returns 0, or -EBUSY when an object that the program made itself still uses an object
 * of the context.  The context is gone even then, but the objects in use, which the
 * sentence and a line of the log name, and the device stay open until the process ends.
 * The program may still use and destroy its own.  The library does not know objects that
 * the program made on the struct ibv_context of hartebeest_verbs() alone: destroy them
 * first, or adopt them (hartebeest_pd_adopt()).
 *
 * Since: 0.1
 */
int hartebeest_close(struct hartebeest_context *hb);

/**
 * hartebeest_error() - the calling thread's last failure, as a sentence
 *
 * Never NULL; "" before the first failure.  Valid until this thread's next call of the
 * library.  A call that succeeds does not clear it, and may leave a different sentence
 * there.
 *
 * Since: 0.1
 */
const char *hartebeest_error(void);

/**
 * hartebeest_cancel() - end all waits of a context
 *
 * Every call that waits for a peer, a server, an event or a completion, now or later,
 * returns -ECANCELED within about a second, unless what it waits for is already there.
 * Nothing is logged.  May be called from any thread and from a signal handler; NULL is
 * ignored.
 *
 * Since: 0.1
 */
void hartebeest_cancel(struct hartebeest_context *hb);

/**
 * hartebeest_cancel_clear() - let later calls wait again
 *
 * Calls that began earlier still end.  May be called from any thread and from a signal
 * handler.
 *
 * Since: 0.1
 */
void hartebeest_cancel_clear(struct hartebeest_context *hb);

/**
 * hartebeest_rank() - this process's id: HARTEBEEST_NID, else the launcher's
 *
 * Returns the id, or -ENODATA if neither gives one.
 *
 * Since: 0.1
 */
int hartebeest_rank(const struct hartebeest_context *hb);

/**
 * hartebeest_size() - the number of ranks that take part
 *
 * Returns the number, or -ENODATA if neither the settings nor a launcher gives it.
 *
 * Since: 0.1
 */
int hartebeest_size(const struct hartebeest_context *hb);

/**
 * hartebeest_participant() - the id of a rank, by its position among all
 * @index: 0 to hartebeest_size() - 1; ids ascend, and may have gaps
 *
 * Every other function takes and returns ranks as ids.
 *
 * Returns the id, -ERANGE for any other @index, or -ENODATA if the participants are not
 * known.
 *
 * Since: 0.1
 */
int hartebeest_participant(const struct hartebeest_context *hb, int index);

/**
 * hartebeest_position() - the position of a rank among all, from 0
 * @rank: an id, such as hartebeest_rank()
 *
 * The reverse of hartebeest_participant(): the rank's place in arrays that have one for each.
 *
 * Returns the position, -ENOENT if no participant has that id, or -ENODATA if the participants
 * are not known.
 *
 * Since: 0.1
 */
int hartebeest_position(const struct hartebeest_context *hb, int rank);

/**
 * hartebeest_local_rank() - this process's number among those of its node
 *
 * Returns the number, or -ENODATA if no launcher gives one.
 *
 * Since: 0.1
 */
int hartebeest_local_rank(const struct hartebeest_context *hb);

/**
 * hartebeest_job() - the name space of this run, or "-" if it has no name
 *
 * Owned by the context.  NULL only if @hb is NULL.
 *
 * Since: 0.1
 */
const char *hartebeest_job(const struct hartebeest_context *hb);

/**
 * hartebeest_origin() - rank, size and job, each with its source
 * @warning: receives a text about contradictions between two launchers, and about a job id
 *           that several runs may have, "" if there is neither; may be NULL
 *
 * For example "rank 3 of 8 (from SLURM_PROCID, SLURM_STEP_NUM_TASKS), local rank 1 (from
 * SLURM_LOCALID), job 4711.0 (from SLURM_JOB_ID.SLURM_STEP_ID)".  The context owns both
 * texts.  NULL only if @hb is NULL.
 *
 * Since: 0.1
 */
const char *hartebeest_origin(const struct hartebeest_context *hb, const char **warning);

/**
 * hartebeest_verbs() - the device, which is opened if necessary
 * @verbs: owned by the context; hartebeest_close() closes it
 *
 * Since: 0.1
 */
int hartebeest_verbs(struct hartebeest_context *hb, struct ibv_context **verbs);

/**
 * hartebeest_port_num() - the number of the port in use, which is opened if necessary
 *
 * Returns 1 or more, or a negative errno.
 *
 * Since: 0.1
 */
int hartebeest_port_num(struct hartebeest_context *hb);

/**
 * hartebeest_device_text() - which port, GID, P_Key and IP address are chosen, and why
 * @text: receives the choice, its reason, and why all others were refused
 *
 * Chooses as hartebeest_qp_init() does for RC, from the current tables.  Opens the device
 * if necessary.
 *
 * Returns the length of the text, or the error of a choice that fails: -ENODATA, with all
 * refusals in hartebeest_error().
 *
 * Since: 0.1
 */
int hartebeest_device_text(struct hartebeest_context *hb, char *text, size_t size);

/* A path from this host to an IP address.  Integers are in host byte order. */
struct hartebeest_path {
	char device[64];	/* local device, "mlx5_0" */
	union ibv_gid sgid;	/* local GID */
	union ibv_gid dgid;	/* the peer's GID */
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
 * hartebeest_resolve() - ask rdma_cm for the path to an IP address
 * @ip:   of the peer's RDMA interface: "10.0.0.2", "fd00::2", "fe80::2%eth0"
 * @path: filled on success
 *
 * The path begins at device.addr or device.gid=ip: if given, else at the port of
 * device.name or the port already open, else at the port that the kernel's routing
 * chooses.  The traffic class asked for is that of RC.  Each call asks again.  Connects
 * nothing.
 *
 * Returns 0, -ENOSYS (built without librdmacm), -EOPNOTSUPP (kernel without rdma_ucm),
 * -EINVAL (not the address of a single host: loopback, wildcard, multicast), -ENODEV (no
 * RDMA device leads there; no such interface after %), -EADDRNOTAVAIL (this end has no IP
 * address: InfiniBand without IPoIB), -ENETUNREACH, -EHOSTUNREACH (no route), -ETIMEDOUT
 * (no answer to ARP or neighbour discovery, or from the subnet manager), -EPROTONOSUPPORT
 * (iWARP), -EACCES (no access to /dev/infiniband/rdma_cm), or -ENODATA (no GID of that
 * port fits the options).
 *
 * Since: 0.1
 */
int hartebeest_resolve(struct hartebeest_context *hb, const char *ip,
		       struct hartebeest_path *path, int64_t deadline);

/**
 * hartebeest_option_get() - the value of an option as text, and its source
 * @name:   "section.key" or "section.rc:key", as in hartebeest.json(5)
 * @text:   receives the value; "" if the option has none
 * @source: receives "default", a file name, "environment NAME" or "argument"; owned by the
 *          context; may be NULL
 *
 * Returns the length of the value, or -ENOENT (no such option; the sentence names the
 * nearest).
 *
 * Since: 0.1
 */
int hartebeest_option_get(const struct hartebeest_context *hb, const char *name, char *text,
			  size_t size, const char **source);

/* The values of syslog(3). */
enum hartebeest_log_level {
	HARTEBEEST_LOG_NONE = 0,
	HARTEBEEST_LOG_ERROR = 3,
	HARTEBEEST_LOG_WARN = 4,
	HARTEBEEST_LOG_INFO = 6,
	HARTEBEEST_LOG_DEBUG = 7
};

/**
 * hartebeest_log_set() - choose where log lines go, and from which level on
 * @hb:    NULL: for each context that is opened later, with the lines of a
 *         hartebeest_open() that fails; the option log.level does not count then
 * @level: enum hartebeest_log_level; lines above it are not made
 * @write: called on any thread, and on several at once, with the bare sentence, without
 *         newline.  The thread may hold locks of the library, so @write must call none of
 *         its functions except hartebeest_clock(), and must return: no exception, no
 *         longjmp(3).  NULL: lines go to the file of the option log.file, else to stderr,
 *         as "TIME HOST hartebeest[PID] rank RANK LEVEL: SENTENCE"
 * @data:  passed to @write
 *
 * Affects later lines only.  Must not be called while another thread uses the context, or,
 * if @hb is NULL, opens one.  If both @hb and @write are NULL, the settings count again.
 *
 * Returns 0, or -EINVAL (@level).
 *
 * Since: 0.1
 */
int hartebeest_log_set(struct hartebeest_context *hb, int level,
		       void (*write)(void *data, int level, const char *text), void *data);

/* --------------------------------------------------------------- event --- */

/* An asynchronous event of the device. */
struct hartebeest_event {
	enum ibv_event_type type;
	int port;		/* 0: the event does not concern a port */
	uint32_t qp_num;	/* 0: it does not concern a queue pair */
	int fatal;		/* 1: this context's device is gone */
	char text[256];		/* the event as a sentence */
	uint64_t reserved[4];	/* zero */
};

/**
 * hartebeest_event_get() - the next asynchronous event of the device
 * @event: filled when the call returns 1
 *
 * The library acknowledges events, and logs each at level warn or info.  Calls that wait
 * for a peer also read them (hartebeest_qp_fetch(), hartebeest_qp_confirm(),
 * hartebeest_mr_fetch(), hartebeest_msg_wait(), hartebeest_barrier()): such a call fails
 * with -EIO when the device reports a fatal error.  A port that goes down ends no call: those
 * that need it wait until it is active again, and fail with -ENETDOWN at their deadline.  The
 * last 64 events are kept for this function.  An event that repeats before it is fetched counts
 * once.
 *
 * Returns 1 when @event was filled; -ETIMEDOUT or -EAGAIN (HARTEBEEST_ONCE) when there
 * was none, neither of which is logged; -EOPNOTSUPP with the option device.events=0;
 * -EMFILE or another errno of epoll_create(2) and eventfd(2); or the error of opening the
 * device.
 *
 * Since: 0.1
 */
int hartebeest_event_get(struct hartebeest_context *hb, struct hartebeest_event *event,
			 int64_t deadline);

/**
 * hartebeest_event_fd() - a file descriptor for poll(2)
 *
 * Readable while there is an event for hartebeest_event_get().  The context owns it; use
 * it for waiting only.
 *
 * Returns the descriptor, or a negative errno as hartebeest_event_get() does.
 *
 * Since: 0.1
 */
int hartebeest_event_fd(struct hartebeest_context *hb);

/* ------------------------------------- protection domain, completion queue --- */

/**
 * hartebeest_pd_create() - allocate a protection domain
 * @name: its name from now on
 * @pd:   receives it; may be NULL; owned by the context
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

/* A completion channel that serves this queue alone, for hartebeest_cq_wait(). */
#define HARTEBEEST_CQ_CHANNEL 1u

/*
 * The attributes of a completion queue to create.  Call hartebeest_cq_attr_init() first,
 * then fill in what is to differ.  New fields will be added at the end.
 */
struct hartebeest_cq_attr {
	size_t size;			/* of the caller's struct: the init function sets it */
	uint32_t depth;			/* entries; 0: option cq_attr.cq_depth */
	uint32_t flags;			/* 0 or HARTEBEEST_CQ_CHANNEL */
	uint32_t comp_vector;		/* as in ibv_create_cq(3): which interrupt is raised */
	struct ibv_comp_channel *channel;	/* the program's own; NULL: none */
	void *cq_context;		/* as in ibv_create_cq(3) */
};

/** hartebeest_cq_attr_init() - set size, and every other field to zero */
static inline void hartebeest_cq_attr_init(struct hartebeest_cq_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
}

/**
 * hartebeest_cq_create() - create a completion queue
 * @attr: what to make; NULL: every field is zero
 * @cq:   may be NULL; owned by the context; cq->cqe is the number of entries granted
 *
 * The depth is reduced to what the device supports.  A warning is logged once if the requests that
 * all its queue pairs may have under way are more than its entries.  A queue that uses the
 * program's own channel is not for hartebeest_cq_wait(): the program reads its events itself.
 *
 * Returns 0, -EEXIST, -EINVAL (the device has no such comp_vector; attr->channel besides
 * HARTEBEEST_CQ_CHANNEL; the init function was not called), -E2BIG (a field or flag that
 * this version does not know), or the errno of ibv_create_cq(3) or
 * ibv_create_comp_channel(3).
 *
 * Since: 0.1
 */
int hartebeest_cq_create(struct hartebeest_context *hb, const char *name,
			 const struct hartebeest_cq_attr *attr, struct ibv_cq **cq);

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
 * Becomes readable when something completes after hartebeest_cq_wait() found the queue
 * empty.  The context owns it; use it for waiting only.
 *
 * Returns the descriptor, -ENOENT, or -ENODATA (the queue was made without
 * HARTEBEEST_CQ_CHANNEL, or adopted).
 *
 * Since: 0.1
 */
int hartebeest_cq_fd(struct hartebeest_context *hb, const char *name);

/**
 * hartebeest_cq_wait() - take completions, sleeping until there are some
 * @cq:       made with HARTEBEEST_CQ_CHANNEL
 * @count:    room in @wc, at least 1
 * @wc:       receives the completions
 * @deadline: as in the opening comment; HARTEBEEST_ONCE does not wait
 *
 * Arms the queue, reads its events and acknowledges them.  After -EAGAIN and -ETIMEDOUT
 * the queue is empty and armed: the next completion makes hartebeest_cq_fd() readable.
 * One thread at a time may wait for a queue.
 *
 * Returns the number taken; -EAGAIN (HARTEBEEST_ONCE) or -ETIMEDOUT, neither of which is
 * logged; -ENODATA (no channel), -ENOENT (a queue that this context does not know), -EIO
 * (the queue failed), -EIO or -ENETDOWN (of the device: see hartebeest_event_get()), or the
 * errno of ibv_req_notify_cq(3).
 *
 * Since: 0.1
 */
int hartebeest_cq_wait(struct hartebeest_context *hb, struct ibv_cq *cq, int count,
		       struct ibv_wc *wc, int64_t deadline);

/* ------------------------------------------------- shared receive queue --- */

/*
 * The attributes of a shared receive queue to create.  Call hartebeest_srq_attr_init()
 * first, then fill them in.  New fields will be added at the end.
 */
struct hartebeest_srq_attr {
	size_t size;			/* of the caller's struct: the init function sets it */
	const char *pd;			/* name of its protection domain */
	void *srq_context;		/* as in ibv_create_srq(3) */
	uint32_t max_wr;		/* receives; 0: option qp_init_attr.cap.max_recv_wr */
	uint32_t max_sge;		/* elements; 0: option qp_init_attr.cap.max_recv_sge */
};

/** hartebeest_srq_attr_init() - set size, and every other field to zero */
static inline void hartebeest_srq_attr_init(struct hartebeest_srq_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
}

/**
 * hartebeest_srq_create() - create a receive queue that several queue pairs share
 * @attr: what to make; pd is required, and both sizes are reduced to what the device
 *        supports
 * @srq:  may be NULL; owned by the context; for hartebeest_post_srq_recv()
 *
 * A queue pair uses it if its struct hartebeest_qp_attr names it.  Receives posted to
 * it stay when such a queue pair is reset, so the refill function of the queue pair is
 * not called.
 *
 * Returns 0, -EEXIST, -ENOENT (no such PD), -EINVAL (the init function was not called),
 * -E2BIG (a field that this version does not know), or the errno of ibv_create_srq(3).
 *
 * Since: 0.1
 */
int hartebeest_srq_create(struct hartebeest_context *hb, const char *name,
			  const struct hartebeest_srq_attr *attr, struct ibv_srq **srq);

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

/*
 * The attributes of a memory region.  Call hartebeest_mr_attr_init() first, then fill them
 * in.  New fields will be added at the end.
 */
struct hartebeest_mr_attr {
	size_t size;			/* of the caller's struct: the init function sets it */
	const char *pd;			/* name of its protection domain */
	void *address;			/* of the program's memory: hartebeest_mr_register() */
	size_t length;			/* bytes, more than 0 */
	int32_t access;			/* enum ibv_access_flags */
	int32_t dmabuf_fd;		/* these for hartebeest_mr_register_dmabuf() alone, as */
	uint64_t dmabuf_offset;		/* the arguments of ibv_reg_dmabuf_mr(3) */
	uint64_t dmabuf_iova;
};

/** hartebeest_mr_attr_init() - set size, and every other field to zero */
static inline void hartebeest_mr_attr_init(struct hartebeest_mr_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
}

/**
 * hartebeest_mr_create() - allocate and register a zeroed, page-aligned buffer
 * @attr: pd and length are required, and address is NULL
 * @mr:   may be NULL; (*mr)->addr is the buffer; owned by the context
 *
 * The buffer is rounded up to whole pages, so that no other data shares them.  With the
 * option mr.huge_pages=1 it is on huge pages if the system has some; with RDMAV_FORK_SAFE,
 * the region then covers whole ones, and may be longer than attr->length.
 *
 * Returns 0, -EEXIST, -ENOENT (no such PD), -EINVAL (a field is missing or for another
 * function; the init function was not called), -E2BIG (a field that this version does not
 * know), or the errno of ibv_reg_mr(3); the sentence of -ENOMEM gives the limit on locked
 * memory.
 *
 * Since: 0.1
 */
int hartebeest_mr_create(struct hartebeest_context *hb, const char *name,
			 const struct hartebeest_mr_attr *attr, struct ibv_mr **mr);

/**
 * hartebeest_mr_register() - register memory of the caller
 * @attr: address, too, is required; the memory stays the caller's, and must outlive the
 *        region
 *
 * Otherwise as hartebeest_mr_create().  -EFAULT: not mapped, or read-only.
 *
 * Since: 0.1
 */
int hartebeest_mr_register(struct hartebeest_context *hb, const char *name,
			   const struct hartebeest_mr_attr *attr, struct ibv_mr **mr);

/**
 * hartebeest_mr_register_dmabuf() - register memory of a device
 * @attr: with the fields dmabuf_fd, dmabuf_offset and dmabuf_iova; address is NULL
 *
 * Otherwise as hartebeest_mr_create().  -EOPNOTSUPP: the device does not support it;
 * -ENOSYS: libibverbs is older than 34.
 *
 * Since: 0.1
 */
int hartebeest_mr_register_dmabuf(struct hartebeest_context *hb, const char *name,
				  const struct hartebeest_mr_attr *attr,
				  struct ibv_mr **mr);

/**
 * hartebeest_mr_get() - find a memory region by its name
 *
 * Returns 0 or -ENOENT.  Since: 0.1
 */
int hartebeest_mr_get(struct hartebeest_context *hb, const char *name, struct ibv_mr **mr);

/**
 * hartebeest_mr_destroy() - deregister a memory region
 *
 * Takes back what was published of the region, and frees a buffer of
 * hartebeest_mr_create().
 *
 * Returns 0, -ENOENT or -EBUSY.  Since: 0.1
 */
int hartebeest_mr_destroy(struct hartebeest_context *hb, const char *name);

/*
 * A peer's region, as hartebeest_mr_fetch() returns it: everything needed to access it.
 * Integers are in host byte order.
 */
struct hartebeest_remote_mr {
	uint64_t address;	/* in the peer's address space */
	uint64_t length;	/* bytes */
	uint32_t rkey;		/* ibv_mr.rkey of the peer */
	uint32_t access;	/* enum ibv_access_flags of its registration */
	uint64_t reserved[1];	/* zero */
};

/**
 * hartebeest_mr_publish() - let others find a region
 * @name: of the region
 * @key:  under which they fetch it
 *
 * Replaces what was stored under the key.  The record stays until the region is destroyed
 * or hartebeest_close().
 *
 * Returns 0, -ENOENT, or -ETIMEDOUT (the server did not take the record).
 *
 * Since: 0.1
 */
int hartebeest_mr_publish(struct hartebeest_context *hb, const char *name, const char *key,
			  int64_t deadline);

/**
 * hartebeest_mr_fetch() - wait for a region that a peer publishes
 * @peer_key: as the peer gave it to hartebeest_mr_publish()
 * @mr:       filled on success
 *
 * Each call asks the server again, and ignores a record whose author's rank now belongs
 * to another process.  Before hartebeest_qp_confirm() the region may still be that of an
 * earlier process.  So fetch it after that call, and again after hartebeest_qp_reconnect()
 * and when hartebeest_qp_follow() returned 1.
 *
 * Returns 0, -ETIMEDOUT, -EBADMSG (not a record, or one with impossible values),
 * -EPROTONOSUPPORT (record of another version), or -EIO or -ENETDOWN (of the device: see
 * hartebeest_event_get()).
 *
 * Since: 0.1
 */
int hartebeest_mr_fetch(struct hartebeest_context *hb, const char *peer_key,
			struct hartebeest_remote_mr *mr, int64_t deadline);

/* --------------------------------------------------------- queue pair --- */

/* The type that the option qp_init_attr.qp_type gives.  In C++ a bare 0 is no enum. */
#ifdef __cplusplus
#define HARTEBEEST_QPT_DEFAULT static_cast<enum ibv_qp_type>(0)
#else
#define HARTEBEEST_QPT_DEFAULT ((enum ibv_qp_type)0)
#endif

/*
 * The attributes of a queue pair to create.  Call hartebeest_qp_attr_init() first, then
 * fill them in.  New fields will be added at the end.
 */
struct hartebeest_qp_attr {
	size_t size;			/* of the caller's struct: the init function sets it */
	const char *pd;			/* name of its protection domain */
	const char *send_cq;		/* names of its completion queues */
	const char *recv_cq;		/* NULL: send_cq */
	const char *srq;		/* name of a shared receive queue; NULL: none */
	void *qp_context;		/* as in ibv_create_qp(3) */
	struct ibv_qp_cap cap;		/* fields of 0 are taken from the options; out: granted */
	enum ibv_qp_type type;		/* HARTEBEEST_QPT_DEFAULT: option qp_init_attr.qp_type */
	int32_t sq_sig_all;		/* 1: each send request makes a completion */
};

/** hartebeest_qp_attr_init() - set size, and every other field to zero */
static inline void hartebeest_qp_attr_init(struct hartebeest_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
}

/**
 * hartebeest_qp_create() - create a queue pair in the state RESET
 * @attr: what to make; pd and send_cq are required
 * @qp:   may be NULL; owned by the context
 *
 * Sizes are taken from @attr or from the options qp_init_attr.cap.*, and are reduced to
 * what the device supports; inline data is halved until the device accepts it.  The sizes
 * granted are in @attr->cap, and can be read later by hartebeest_qp_cap().
 *
 * Returns 0, -EEXIST, -ENOENT (no PD or queue of that name), -EOPNOTSUPP (type is not
 * IBV_QPT_RC, IBV_QPT_UC or IBV_QPT_UD), -EINVAL (the init function was not called), -E2BIG (a
 * field that this version does not know), or the errno of ibv_create_qp(3).
 *
 * Since: 0.1
 */
int hartebeest_qp_create(struct hartebeest_context *hb, const char *name,
			 struct hartebeest_qp_attr *attr, struct ibv_qp **qp);

/**
 * hartebeest_qp_create_verbs() - create a queue pair from a filled struct ibv_qp_init_attr
 * @pd:   name of the protection domain
 * @attr: queues, SRQ, type and so on as for ibv_create_qp(3); sizes of 0 in attr->cap
 *        are taken from the options; on success attr->cap has the sizes granted
 *
 * Returns as hartebeest_qp_create().
 *
 * Since: 0.1
 */
int hartebeest_qp_create_verbs(struct hartebeest_context *hb, const char *name,
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
 * Takes back what was published of it.  A closed record stays for a minute, so that its
 * peer can still confirm, or learns why there will be no connection.
 *
 * Returns 0, -ENOENT or the errno of ibv_destroy_qp(3).  Since: 0.1
 */
int hartebeest_qp_destroy(struct hartebeest_context *hb, const char *name);

/**
 * hartebeest_qp_init() - take a queue pair from RESET to INIT, for posting receives
 *
 * Chooses GID and P_Key, and draws a new packet sequence number.  From INIT on, receives
 * may be posted; the refill function does so, and if it fails, the queue pair goes back
 * to RESET.  Does nothing if the queue pair is in INIT already.
 *
 * Returns 0, -ENOENT, -EISCONN (beyond INIT already: call hartebeest_qp_reset() first),
 * -ENODATA (no GID or P_Key fits the options), the error of the refill function, or the
 * errno of ibv_modify_qp(3).
 *
 * Since: 0.1
 */
int hartebeest_qp_init(struct hartebeest_context *hb, const char *name);

/**
 * hartebeest_qp_publish() - let the peer find this queue pair
 * @key: under which the peer fetches it
 *
 * Takes a queue pair in RESET to INIT first, since its sequence number is part of the
 * record.  Takes a UD queue pair to RTS, so that a server can answer clients that it does not
 * know in advance: ibv_create_ah_from_wc(3) makes an address handle to a client that has sent
 * something.  The record stays until the queue pair is destroyed, another one of this context is
 * published under the same key, or hartebeest_close().  If called with several keys,
 * hartebeest_qp_connect() and hartebeest_qp_reconnect() publish again under the last one only.
 *
 * Returns 0, -ENOENT, -ETIMEDOUT (the server did not take the record), or as
 * hartebeest_qp_init().
 *
 * Since: 0.1
 */
int hartebeest_qp_publish(struct hartebeest_context *hb, const char *name, const char *key,
			  int64_t deadline);

/*
 * A fetched queue pair.  Integers are in host byte order, addresses in network byte
 * order.  hartebeest_peer_text() gives its rank, host and device as a sentence.
 */
struct hartebeest_remote_qp {
	union ibv_gid gid;
	union ibv_gid ip;	/* IP address of its port, IPv4 as ::ffff:a.b.c.d; zero: none */
	uint32_t qp_type;	/* enum ibv_qp_type */
	uint32_t qp_num;
	uint32_t psn;		/* sequence number of its first packet */
	uint32_t qkey;		/* UD only */
	uint16_t lid;		/* InfiniBand only */
	uint16_t pkey;		/* P_Key, with the membership bit 0x8000 */
	int32_t rank;		/* -1: unknown */
	uint32_t ece_vendor;	/* of its adapter, as ibv_query_ece(3); 0: it offers no options */
	uint32_t ece_options;	/* that it offers */
	uint64_t reserved[3];	/* zero */
};

/**
 * hartebeest_peer_text() - who is behind a peer's key, as a sentence
 * @peer_key: as given to hartebeest_qp_fetch()
 * @text:     receives "rank 3 on cn08, pid 17, mlx5_0:1"
 *
 * Asks the server.  If the peer has left or failed, or was a process of this host and is
 * dead, the text adds that, and so do later texts of hartebeest_completion_text().  If the
 * server does not answer, the text names the rank alone; if another process has that rank
 * now, it notes that instead of naming host and device.
 *
 * Returns the length of the text in all these cases, -ENOENT (never fetched) or -EINVAL.
 *
 * Since: 0.1
 */
int hartebeest_peer_text(struct hartebeest_context *hb, const char *peer_key, char *text,
			 size_t size, int64_t deadline);

/**
 * hartebeest_qp_fetch() - wait for a queue pair that a peer publishes
 * @peer_key: as the peer gave it to hartebeest_qp_publish()
 * @remote:   filled on success; may be NULL
 *
 * Each call asks the server again, and keeps what it found under the key, for
 * hartebeest_qp_connect().  A record of an RC or UC queue pair may be a leftover of an
 * earlier process, which hartebeest_qp_confirm() finds out.  UD is not confirmed, so a UD
 * record is ignored if its author's rank now belongs to another process.  A peer that
 * could not connect to a queue pair of this context, and has closed, ends the wait.
 *
 * Returns 0, -ETIMEDOUT, -EBADMSG, -EPROTONOSUPPORT, -EIO or -ENETDOWN, as
 * hartebeest_mr_fetch(), -ECONNABORTED (the peer gave up; the sentence has the reason), or, if
 * both ends disagree, as hartebeest_qp_connect().
 *
 * Since: 0.1
 */
int hartebeest_qp_fetch(struct hartebeest_context *hb, const char *peer_key,
			struct hartebeest_remote_qp *remote, int64_t deadline);

/**
 * hartebeest_peer_regions() - the regions that a fetched peer offers
 * @peer_key: as given to hartebeest_qp_fetch() or hartebeest_pairs_connect()
 * @regions:  receives the first @count of them; may be NULL if @count is 0
 *
 * They are those of the peer's record as it was last fetched: what the peer offers in
 * hartebeest_pairs_connect(), or, if this end called that, as many as its pair had room for.
 * Asks no server.  None are known after hartebeest_qp_follow() and hartebeest_qp_reconnect()
 * until the peer is fetched again.
 *
 * Returns how many regions there are, which may be 0, or -ENOENT (never fetched).
 *
 * Since: 0.1
 */
int hartebeest_peer_regions(struct hartebeest_context *hb, const char *peer_key,
			    struct hartebeest_remote_mr *regions, size_t count);

/**
 * hartebeest_qp_connect() - take a queue pair to RTS, connected to a peer
 * @name:     of the local queue pair, in RESET or INIT
 * @peer_key: of the peer, as given to hartebeest_qp_fetch()
 *
 * Connects to the peer as it was last fetched under the key; if it never was, fetches it
 * first, and waits for that.  Both ends call this, and neither waits for the other.  Before a
 * program sends the first message, it calls hartebeest_qp_confirm() (or a barrier) to be sure
 * that the peer is connected.  Path MTU, outstanding reads and atomics, partition and
 * addresses are agreed on from the two records before the device is touched.  If the call
 * fails, the queue pair stays in the state that it had reached.  A queue pair that was reset
 * since it was published is published again.
 *
 * The local GID is looked up again: if its index has changed, the new index is used.  So are
 * LID and MTU of the port, if the queue pair was published: if one has changed, the record is
 * published again, and a peer that is connected by the old one connects again.
 *
 * A UD queue pair goes to RTS, and gets an address handle for this peer
 * (hartebeest_qp_ud_address()).  The function may be called again for further peers.
 *
 * With device.resolver=rdmacm the path record to the peer's published IP address gives
 * GIDs, SL, MTU, LID, source path bits, hop limit, traffic class, flow label and rate.
 * It is asked for once per peer.  The options of SL, path bits, flow label and rate have
 * no effect then.
 *
 * Returns 0, -ENOENT (no such queue pair), -EISCONN (already connected), -EINVAL
 * (src_path_bits beyond the port's LMC; published under @peer_key itself), -EPROTOTYPE
 * (transport or link layer differ), -EPROTO (another disagreement: RoCE version, partition,
 * subnet, sequence number), -ENODATA (the local GID is gone), the errno of ibv_modify_qp(3),
 * as hartebeest_qp_fetch() if the peer was not fetched before, or with rdmacm the errors of
 * hartebeest_resolve() and -EXDEV (the path leaves by another port).
 *
 * Since: 0.1
 */
int hartebeest_qp_connect(struct hartebeest_context *hb, const char *name,
			  const char *peer_key, int64_t deadline);

/**
 * hartebeest_qp_confirm() - wait until the peer is connected to this queue pair
 * @name:     of the local queue pair; NULL: the newest that is connected to @peer_key
 * @peer_key: to which @name is connected
 *
 * Succeeds when the peer's record shows that it is in RTR or later for this very queue
 * pair of this very process.  A record of an earlier run cannot show that.  If the peer has
 * restarted meanwhile, the local queue pair goes back to RESET and connects to the new
 * one.  If that fails, it is not connected, and hartebeest_qp_reconnect() tries again.
 *
 * Both ends must have published and connected.  hartebeest_qp_connect() notifies the peer;
 * if the server did not answer just then, the next call that publishes, waits or follows
 * a peer does.  So connect all queue pairs first, then confirm them in any order.
 *
 * Returns 0, -ENOENT, -ENOTCONN (not connected to this key, or not published),
 * -EOPNOTSUPP (UD has no single peer: use hartebeest_barrier()), -ETIMEDOUT, -ESHUTDOWN
 * or -ECONNABORTED (the peer's process has left, failed, or could not connect to this
 * queue pair), -EBADMSG, -EPROTONOSUPPORT, -EIO or -ENETDOWN as hartebeest_qp_fetch(), the
 * error of the refill function, or as hartebeest_qp_connect().
 *
 * Since: 0.1
 */
int hartebeest_qp_confirm(struct hartebeest_context *hb, const char *name,
			  const char *peer_key, int64_t deadline);

/**
 * hartebeest_qp_follow() - connect to the new peer if the peer has been replaced
 * @peer_key: to which @name is connected
 * @remote:   filled if the peer was replaced; may be NULL
 *
 * Waits until a peer that restarted has published another queue pair under @peer_key.  With
 * HARTEBEEST_ONCE it looks once, as a program does between other work.  The local queue
 * pair then goes through RESET and connects to the new one, keeping the sequence number
 * that it has already published.  One of UD stays in RTS, and only its address of this peer is
 * replaced (hartebeest_qp_ud_address()).  To learn whether the new peer is connected too, call
 * hartebeest_qp_confirm().  If connecting fails, the queue pair is not connected.
 *
 * Returns 1 if the peer was replaced; 0 if by the deadline it was not, if nothing is stored
 * there, or if the server does not answer; -ESHUTDOWN (within the last minute the peer closed its
 * queue pair and left), -EIO or -ENETDOWN (of the device: see hartebeest_event_get()),
 * -ENOENT (no such queue pair), -ENOTCONN (not connected to this key), -EBADMSG (a record with
 * values that no queue pair can have), -EACCES or -EPROTO (the server demands a login, or is not
 * a Memcached server), the error of the refill function, or as hartebeest_qp_connect().
 *
 * Since: 0.1
 */
int hartebeest_qp_follow(struct hartebeest_context *hb, const char *name,
			 const char *peer_key, struct hartebeest_remote_qp *remote,
			 int64_t deadline);

/**
 * hartebeest_qp_reset() - take a queue pair from any state to RESET
 *
 * Work requests that have not completed are dropped without a completion.
 *
 * Returns 0, -ENOENT, or the errno of ibv_modify_qp(3).
 *
 * Since: 0.1
 */
int hartebeest_qp_reset(struct hartebeest_context *hb, const char *name);

/**
 * hartebeest_qp_reconnect() - connect again after a failure, or when the peer restarted
 * @peer_key: of the peer
 *
 * Takes the queue pair through RESET to INIT with a new sequence number, publishes it
 * again under its key, fetches the peer's record again, goes to RTS, and confirms.  Both
 * ends call it, but an end that restarted calls hartebeest_qp_confirm() as at its first
 * start.  Each call begins from the start; to continue after -EAGAIN or -ETIMEDOUT, call
 * hartebeest_pairs_connect().
 *
 * Returns 0, -ENOTCONN (not published), -EOPNOTSUPP (UD), or as the functions that do
 * these steps.
 *
 * Since: 0.1
 */
int hartebeest_qp_reconnect(struct hartebeest_context *hb, const char *name,
			    const char *peer_key, int64_t deadline);

/**
 * hartebeest_qp_refill_set() - set the function that posts a queue pair's receives
 * @refill: called whenever the queue pair gets to the state INIT; posts receives and
 *          returns 0, or a negative errno that fails the transition; NULL: none.  Runs on the
 *          thread of the call that initializes, publishes, connects, confirms or follows, and
 *          no lock is held: it may post, and find objects by name, but must not change or
 *          destroy this queue pair, its queues or regions, nor throw
 * @data:   passed to @refill
 *
 * RESET drops posted receives.  hartebeest_qp_confirm() and hartebeest_qp_reconnect() may
 * have to go through RESET, so a program that receives sets this before
 * hartebeest_qp_init(), and lets @refill post the first receives, too.
 *
 * Returns 0 or -ENOENT.
 *
 * Since: 0.1
 */
int hartebeest_qp_refill_set(struct hartebeest_context *hb, const char *name,
			     int (*refill)(void *data, struct ibv_qp *qp), void *data);

/* The destination of a UD message: arguments of hartebeest_post_send_ud(). */
struct hartebeest_ud_address {
	struct ibv_ah *ah;	/* owned by the context */
	uint32_t qp_num;
	uint32_t qkey;
	uint64_t reserved[2];	/* zero */
};

/**
 * hartebeest_qp_ud_address() - the address of a peer of a connected UD queue pair
 *
 * It is valid until the peer is replaced by a call that connects or follows, or the queue pair is
 * reset.
 *
 * Returns 0, -ENOENT, or -ENOTCONN before hartebeest_qp_connect().
 *
 * Since: 0.1
 */
int hartebeest_qp_ud_address(struct hartebeest_context *hb, const char *name,
			     const char *peer_key, struct hartebeest_ud_address *address);

/**
 * hartebeest_completion_text() - a completion as a sentence that names both ends
 * @wc:   from ibv_poll_cq(3) or hartebeest_poll()
 * @text: receives status and its usual meaning, vendor error, wr_id, queue pair and peer
 *
 * Asks no server.  If the peer did not answer, and a wait or hartebeest_peer_text() has found
 * earlier that it has left, failed or died, or that another process has its rank, the text adds
 * that.
 *
 * Returns the length of the text.
 *
 * Since: 0.1
 */
int hartebeest_completion_text(struct hartebeest_context *hb, const struct ibv_wc *wc,
			       char *text, size_t size);

/* --------------------------------------------------------------- adopt --- */

/**
 * hartebeest_pd_adopt() - name a protection domain that the program made
 * @name: its name from now on, as if hartebeest_pd_create() had made it
 * @pd:   made on hartebeest_verbs(), or on the device given to hartebeest_open_verbs()
 *
 * The library never destroys an adopted object: hartebeest_pd_destroy() only forgets it.
 * Call that, or hartebeest_close(), before ibv_dealloc_pd(3).  If anything adopted is
 * left when a context that opened its device itself is closed, the device stays open
 * until the process ends.
 *
 * Returns 0, -EEXIST (name in use), -EALREADY (it already has a name) or -EXDEV (made on
 * another struct ibv_context).
 *
 * Since: 0.1
 */
int hartebeest_pd_adopt(struct hartebeest_context *hb, const char *name, struct ibv_pd *pd);

/**
 * hartebeest_cq_adopt() - name a completion queue that the program made
 * @cq: made by any function; a completion channel stays the program's
 *
 * hartebeest_cq_wait() returns -ENODATA for it.  Returns as hartebeest_pd_adopt().
 *
 * Since: 0.1
 */
int hartebeest_cq_adopt(struct hartebeest_context *hb, const char *name, struct ibv_cq *cq);

/**
 * hartebeest_srq_adopt() - name a shared receive queue that the program made
 *
 * Returns as hartebeest_pd_adopt().
 *
 * Since: 0.1
 */
int hartebeest_srq_adopt(struct hartebeest_context *hb, const char *name,
			 struct ibv_srq *srq);

/**
 * hartebeest_mr_adopt() - name a memory region that the program registered
 * @access: the flags of its registration, which verbs do not report; peers see them
 *
 * hartebeest_mr_destroy() forgets the region, and takes back what was published of it.
 * Call that, or hartebeest_close(), before ibv_dereg_mr(3).
 *
 * Returns as hartebeest_pd_adopt().
 *
 * Since: 0.1
 */
int hartebeest_mr_adopt(struct hartebeest_context *hb, const char *name, struct ibv_mr *mr,
			int access);

/**
 * hartebeest_qp_adopt() - name a queue pair that the program made
 * @qp: RC, UC or UD, from ibv_create_qp(3), ibv_create_qp_ex(3), a vendor's call or
 *      rdma_cm
 *
 * A queue pair in RESET is initialized, published, connected, confirmed and reconnected
 * like one of hartebeest_qp_create().
 *
 * One that the program has taken to INIT must be on the context's port.  Its access
 * flags, P_Key and Q_Key are read back and kept, also after hartebeest_qp_reset().
 *
 * A UD queue pair in RTS is taken over likewise, and can be published, and connected to peers.
 * Any other beyond INIT only gets a name, for hartebeest_completion_text() and events.  All
 * functions that would connect it return -EISCONN until hartebeest_qp_reset(), since its
 * first sequence number cannot be read back.
 *
 * hartebeest_qp_destroy() forgets the queue pair, and takes back what was published of
 * it.  Call that, or hartebeest_close(), before ibv_destroy_qp(3).
 *
 * Returns 0, as hartebeest_pd_adopt(), -EOPNOTSUPP (another transport), -EINVAL (the program
 * took it to another port), or as hartebeest_qp_init().
 *
 * Since: 0.1
 */
int hartebeest_qp_adopt(struct hartebeest_context *hb, const char *name, struct ibv_qp *qp);

/**
 * hartebeest_post_text() - why a post was refused, or nothing completes, as a sentence
 * @qp:   any queue pair of this process
 * @wr:   the request that was posted; NULL: a receive, or not known
 * @ret:  what hartebeest_post_write(), ibv_post_send(3) or the like returned, or the
 *        -ETIMEDOUT of hartebeest_poll_until()
 * @text: receives queue pair, request and the likely reason (its state, a full queue, a
 *        request that it cannot carry, a small completion queue)
 *
 * To stay fast, a post itself returns only an errno.  This asks the device for the state
 * of the queue pair.
 *
 * Returns the length of the text, or -EINVAL (@ret is 0).
 *
 * Since: 0.1
 */
int hartebeest_post_text(struct hartebeest_context *hb, struct ibv_qp *qp,
			 const struct ibv_send_wr *wr, int ret, char *text, size_t size);

/* ------------------------------------------------------------- many pairs --- */

/* The number of regions that one pair may offer. */
#define HARTEBEEST_PAIR_REGIONS 255

/*
 * One queue pair and its peer, for hartebeest_pairs_connect() and hartebeest_qp_export().  Call
 * hartebeest_pair_init() first, then fill it in.  New fields will be added at the end.
 */
struct hartebeest_pair {
	size_t size;			/* of the caller's struct: the init function sets it */
	const char *qp;			/* name of the local queue pair */
	const char *key;		/* under which it is published */
	const char *peer_key;		/* under which the peer publishes its queue pair */
	const char *const *offer;	/* names of local regions that the peer gets */
	struct hartebeest_remote_mr *regions;	/* receives the peer's regions, in its order */
	uint32_t offer_count;		/* names in offer, at most 255 */
	uint32_t region_room;		/* elements of regions; not 0: at least one must arrive */
	/* out */
	uint32_t region_count;		/* number of regions that the peer offers */
	int32_t result;			/* of this pair alone: 0 or a negative errno */
	struct hartebeest_remote_qp peer;
	char reason[512];		/* the sentence for result; "" if it is 0 */
};

/** hartebeest_pair_init() - set size, and every other field to zero */
static inline void hartebeest_pair_init(struct hartebeest_pair *pair)
{
	memset(pair, 0, sizeof(*pair));
	pair->size = sizeof(*pair);
}

/**
 * hartebeest_pairs_connect() - connect many queue pairs to their peers in one call
 * @pairs: an array; call hartebeest_pair_init() for each element first
 * @count: number of elements
 *
 * Publishes all queue pairs, fetches all peers, connects each pair as its peer appears,
 * and waits until all have confirmed.  The regions of offer travel in the same records.
 * The peers may call this or the single steps, in any order and at any time: neither needs
 * to have published before.  A queue pair may be in any state.  One that is connected to
 * its peer is only confirmed again; one in an error state, or connected to another peer,
 * goes through RESET first.
 *
 * Every pair is tried whatever becomes of the others, and has its own result.  Another
 * call with the same pairs continues where the last one ended.  If a peer is replaced
 * meanwhile, its pair is connected again.  A UD queue pair may be in several pairs; those
 * with the same key must offer the same regions.  It has an address handle for each
 * peer afterwards (hartebeest_qp_ud_address()), and is not confirmed.
 *
 * Returns 0, or the first failed result: -ENOENT (no such queue pair or region),
 * -ETIMEDOUT, -EAGAIN (with HARTEBEEST_ONCE, if no pair fails otherwise), -EMSGSIZE (the
 * peer offers more regions than there is room for; it is connected and confirmed, and the
 * room is filled), -ENOMSG (the peer offers none, and there is room for some; it is connected
 * and confirmed), -ESHUTDOWN (the peer has left), or as hartebeest_qp_connect() and
 * hartebeest_qp_confirm().  No pair is tried after -EINVAL (a field is missing, two pairs
 * share a queue pair or a key, or offer different regions under one key), -E2BIG (a field
 * that this version does not know) and errors of the settings.  Each pair then has that
 * result and its sentence, except after an invalid argument, and except a pair that was not
 * initialized and those that follow it.
 *
 * Since: 0.1
 */
int hartebeest_pairs_connect(struct hartebeest_context *hb, struct hartebeest_pair *pairs,
			     size_t count, int64_t deadline);

/* Room for what so many pairs, which offer so many regions in total, export at most. */
#define HARTEBEEST_EXPORT_SIZE(pairs, regions) (16 + 1024 * (pairs) + 24 * (regions))

/**
 * hartebeest_qp_export() - what the peer must know, as bytes for the program to carry
 * @pairs: an array, as for hartebeest_pairs_connect()
 * @count: number of elements, from 1 to 65535
 * @bytes: receives the bytes; NULL: only @size is wanted
 * @size:  in: the room at @bytes; out: the number of bytes, whether they fit or not
 *
 * Connects queue pairs by any carrier that the program has: a pipe, MPI, a socket, a file.
 * No server is asked, or needs to be named.  The bytes are for hartebeest_qp_import() at the
 * peer, whose pairs have these keys as their peer keys.  They have the queue pair of each pair,
 * the regions of offer, and to which queue pair of the peer it is connected by now.  So the bytes
 * that an end exports after it has imported those of the peer confirm the peer's connection.  The
 * names of keys and the job id must be the same at both ends; where the job has a secret, the
 * bytes are sealed.  HARTEBEEST_EXPORT_SIZE() is room for them in any case.
 *
 * A queue pair may be in any state: one that is connected to its peer stays so, any other goes to
 * INIT, through RESET if need be.  One that a last import could not connect exports the
 * reason.
 *
 * Returns 0; -EMSGSIZE (the bytes do not fit, and none was written); or the first failed result,
 * and then exports nothing: -ENOENT (no such queue pair or region), -EINVAL (a field is
 * missing, or as in hartebeest_pairs_connect()), -E2BIG, -ENAMETOOLONG (the key), -ENETDOWN (the
 * port is still not active when the time of the option exchange.timeout is over), -EPERM (a
 * forked child), -ENOMEM, and as hartebeest_qp_init().
 *
 * Since: 0.1
 */
int hartebeest_qp_export(struct hartebeest_context *hb, struct hartebeest_pair *pairs,
			 size_t count, void *bytes, size_t *size);

/**
 * hartebeest_qp_import() - connect to the peers whose bytes have arrived
 * @pairs: an array, as for hartebeest_qp_export()
 * @count: number of elements
 * @bytes: what the peer has exported; more bytes may follow, and are not read
 * @size:  the number of bytes
 *
 * Checks that both ends agree, takes each queue pair to RTS, fills peer and regions of its pair,
 * and notes whether the peer is connected to it.  The peer may export and import in any order
 * with this end.  As long as the result is above 0, export, carry and import once more:
 *
 *	do {
 *		export; send to the peer; receive from it;
 *		left = hartebeest_qp_import(...);
 *	} while (left > 0);
 *
 * Where both ends do this, each loop runs twice.  With a request and its answer, three messages
 * suffice: the peer confirms by its answer, and this end by the third.  Only a confirmed
 * connection is surely one to a living peer, and only then are its regions: what an earlier
 * process left behind is never confirmed.  A peer that was replaced is connected again.
 *
 * Returns the number of pairs that are connected, but not confirmed by these bytes; 0: all are
 * confirmed, or UD.  Or the first failed result, while every pair is tried: -EBADMSG (these
 * are not such bytes, or not all), -EPROTONOSUPPORT (of another version), -ENOENT (no such queue
 * pair or region; or the bytes have none under peer_key), -EKEYREJECTED, -ENOKEY (sealed with
 * another secret or by one end only), -EINVAL (the bytes of this end itself; or as in
 * hartebeest_pairs_connect()), -ESTALE (older than those imported before), -ECONNABORTED (the
 * peer could not connect to this queue pair, and the sentence has its reason), -EMSGSIZE,
 * -ENOMSG as in hartebeest_pairs_connect(), and as hartebeest_qp_connect().
 *
 * Since: 0.1
 */
int hartebeest_qp_import(struct hartebeest_context *hb, struct hartebeest_pair *pairs,
			 size_t count, const void *bytes, size_t size, int64_t deadline);

/* ----------------------------------------------------- message, barrier --- */

/**
 * hartebeest_msg_push() - leave a message under a key
 * @data:   @length bytes; may be NULL if @length is 0
 * @length: at most 1046528 (1 MiB less 2 KiB)
 *
 * Replaces an earlier message.  Needs no device.  A push that fails is given up: the context
 * does not store the message later.  A message outlives its reader, its author and the run,
 * for the time of the option exchange.ttl, and until then the context keeps a copy, unless it
 * finds that a reader has deleted the message.  hartebeest_msg_push_attr() gives a message a
 * life of its own.
 *
 * Returns 0, -EMSGSIZE (@length), or -ETIMEDOUT (the server did not take the message).
 *
 * Since: 0.1
 */
int hartebeest_msg_push(struct hartebeest_context *hb, const char *key, const void *data,
			size_t length, int64_t deadline);

/* The message is for one reader, whose wait takes it. */
#define HARTEBEEST_MSG_ONCE 1u

/*
 * The life of a message.  Call hartebeest_msg_attr_init() first, then fill it in.  New fields
 * will be added at the end.
 */
struct hartebeest_msg_attr {
	size_t size;		/* of the caller's struct: the init function sets it */
	int64_t ttl;		/* ns, 1 ms to 30 days, and up to 2 s longer; 0: exchange.ttl */
	uint64_t flags;		/* 0 or HARTEBEEST_MSG_ONCE */
};

/** hartebeest_msg_attr_init() - set size, and every other field to zero */
static inline void hartebeest_msg_attr_init(struct hartebeest_msg_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
}

/**
 * hartebeest_msg_push_attr() - leave a message that has a life of its own
 * @attr: how long it lives, and for how many readers
 *
 * Otherwise as hartebeest_msg_push().  With HARTEBEEST_MSG_ONCE, the first reader whose buffer
 * is large enough takes the message, and others do not get it; a wait without a buffer leaves it
 * there.  The reader puts a tombstone in its place for a minute, which shows a push or a take
 * whose answer was lost what it has done.  The context keeps no copy, and does not store the
 * message again if its server loses it, since it cannot know whether it had been read.
 *
 * Returns as hartebeest_msg_push(), -EINVAL (@attr was not initialized; ttl is no such time), or
 * -E2BIG (a field or flag that this version does not know).
 *
 * Since: 0.1
 */
int hartebeest_msg_push_attr(struct hartebeest_context *hb, const char *key, const void *data,
			     size_t length, const struct hartebeest_msg_attr *attr,
			     int64_t deadline);

/**
 * hartebeest_msg_wait() - wait for a message
 * @peer_key: under which it is pushed
 * @buffer:   receives the message; may be NULL if @size is 0
 * @size:     bytes of @buffer; 0 asks for no data and accepts any message
 * @length:   receives the full length of the message in bytes; may be NULL
 *
 * The message stays for others, unless it was pushed with HARTEBEEST_MSG_ONCE.  Then this call
 * takes it, which needs one more round trip, and goes on waiting if another reader was faster.
 *
 * Returns 0, -ETIMEDOUT, -EIO or -ENETDOWN (of the device: see hartebeest_event_get()),
 * -EBADMSG, -EPROTONOSUPPORT, -ESTALE (a message for one reader is gone, since its server failed
 * as it was taken, and so is its tombstone), or -EMSGSIZE if @size is too small (@length is set
 * then, too; the buffer is not).
 *
 * Since: 0.1
 */
int hartebeest_msg_wait(struct hartebeest_context *hb, const char *peer_key, void *buffer,
			size_t size, size_t *length, int64_t deadline);

/*
 * One message of hartebeest_msgs_wait().  Call hartebeest_message_init() first, then
 * fill it in.  New fields will be added at the end.
 */
struct hartebeest_message {
	size_t size;		/* of the caller's struct: the init function sets it */
	const char *peer_key;	/* under which it is pushed */
	void *buffer;		/* receives it; may be NULL when room is 0 */
	size_t room;		/* bytes of buffer; 0 asks for no data and accepts any message */
	/* out */
	size_t length;		/* full length in bytes */
	int32_t arrived;	/* 1 once it has; it is not asked for again */
	int32_t result;		/* 0, -EMSGSIZE (room is too small), -EAGAIN (not yet) */
};

/** hartebeest_message_init() - set size, and every other field to zero */
static inline void hartebeest_message_init(struct hartebeest_message *message)
{
	memset(message, 0, sizeof(*message));
	message->size = sizeof(*message);
}

/**
 * hartebeest_msgs_wait() - wait for many messages at once
 * @messages: an array; call hartebeest_message_init() for each element first
 * @count:    number of elements
 * @need:     number of messages that must have arrived; 0: all
 *
 * Each request asks for all missing messages.  Messages stay for others, except as in
 * hartebeest_msg_wait().  Another call with the same array asks only for those that have not
 * arrived.
 *
 * Returns the number of messages that have arrived; -ETIMEDOUT or -EAGAIN (HARTEBEEST_ONCE)
 * if it is less than @need (those that have arrived are marked); -EINVAL, -E2BIG, or
 * as hartebeest_msg_wait(), but a buffer that is too small only shows in its message's
 * result.
 *
 * Since: 0.1
 */
int hartebeest_msgs_wait(struct hartebeest_context *hb, struct hartebeest_message *messages,
			 size_t count, size_t need, int64_t deadline);

/**
 * hartebeest_msg_delete() - remove a message
 *
 * Returns 0; -ENOENT if there is no such message, or its only reader has taken it (after -EAGAIN
 * with HARTEBEEST_ONCE, the call before may have deleted it); or -ESTALE, as hartebeest_msg_wait().
 * Since: 0.1
 */
int hartebeest_msg_delete(struct hartebeest_context *hb, const char *key, int64_t deadline);

/**
 * hartebeest_barrier() - wait until every rank of the job has called it
 * @name: the same on all ranks; may be used any number of times
 *
 * Leftovers of an earlier run do not count.  A call after -ETIMEDOUT or -EAGAIN continues
 * the same pass: this rank has arrived, and the others may pass meanwhile.  The first call
 * under a name agrees on the processes that take part, and so takes longer than later ones.
 * A rank that cannot take part notifies all: their calls fail within two seconds, with its
 * errno and its sentence.
 *
 * Returns 0, -EPROTO (another rank calls hartebeest_gather() with this name; no rank passes),
 * -EINVAL (the last call for this name was a hartebeest_gather() that has not ended), -ENODATA
 * (rank or size unknown), -EPROTONOSUPPORT, -EKEYREJECTED or -ENOKEY (ranks are missing, and
 * what is stored there is of another version or secret), -EIO or
 * -ENETDOWN (of the device: see hartebeest_event_get()), -ESTALE (this or another rank was
 * started again after the context's first barrier, or the first rank died while the server lost
 * what all had agreed on), -ESHUTDOWN or -ECONNABORTED (a rank has left or failed), or
 * -ETIMEDOUT; its sentence names the missing ranks, and so does that of -EAGAIN
 * (HARTEBEEST_ONCE), as far as this rank or the first one knows.  If the first rank dies when all
 * have arrived, the others time out or fail with its replacement.
 *
 * Since: 0.1
 */
int hartebeest_barrier(struct hartebeest_context *hb, const char *name, int64_t deadline);

/**
 * hartebeest_gather() - bring together a value of each rank
 * @name:  as for hartebeest_barrier(); a gather is also a pass of the barrier of that name, in
 *         which all ranks must gather
 * @value: @size bytes of this rank; all ranks must give the same number of bytes
 * @size:  1 to 1046528
 * @all:   receives the values of all ranks, in the order of hartebeest_participant()
 *
 * What an earlier run or pass left does not count: all ranks return the values on which they
 * have agreed.  A call after -ETIMEDOUT, -EAGAIN, -ECANCELED or an error of the server continues
 * the same pass, and must give the same value.
 *
 * Returns 0, -EPROTO (a rank gave another number of bytes, or calls hartebeest_barrier()),
 * -EINVAL (@size is 0, or the last call has not ended and had another value), -EMSGSIZE (@size),
 * or as hartebeest_barrier().  The contents of @all are undefined after a
 * failure.
 *
 * Since: 0.1
 */
int hartebeest_gather(struct hartebeest_context *hb, const char *name, const void *value,
		      size_t size, void *all, int64_t deadline);

/**
 * hartebeest_counter_add() - add to a number that all processes of the job share
 * @key:   of the counter, which begins at 0; at most 237 bytes together with the job id
 * @add:   1 or more
 * @value: receives the sum
 *
 * No two calls get the same sum, so processes can number themselves.  Numbers may be skipped
 * if a server fails meanwhile.  A counter lives for 30 days from the first addition on, so
 * without a job id, a later run continues it.  It begins again at 0 if its server loses what
 * it stores.
 *
 * Returns 0, -EINVAL (@add is 0), -EBADMSG (what is stored there is no number), or the error of
 * the server.
 *
 * Since: 0.1
 */
int hartebeest_counter_add(struct hartebeest_context *hb, const char *key, uint32_t add,
			   uint64_t *value, int64_t deadline);

/**
 * hartebeest_fail() - notify all waiting ranks that this rank has given up
 * @text: the reason, for people; the first 200 bytes are kept
 *
 * Current and later waits of all other ranks end within two seconds with -ECONNABORTED,
 * and their sentence names the failed rank and gives @text.  Waits of this context
 * continue.  If the process has no rank, only waits for what it has published end.  The
 * call waits as long as hartebeest_close() for servers that do not answer.  The failure stays
 * known until the context is closed, and for ten minutes longer; it does not matter whether
 * the process goes on or ends.
 *
 * A failure that an earlier run left ends no wait.  So a rank that has neither published
 * nor waited before must know that the failure is of its own run: on the same host, its
 * process began before the failure, or the failed process is alive; on another host, it
 * began three seconds before the failure.  If this is not the first context of the
 * process, the beginning of the context counts, not that of the process.  A rank that does
 * not know waits on, and if that wait fails, its sentence mentions the failure.
 *
 * Returns 0, or the error of a server, which then may not have stored the failure.
 *
 * Since: 0.1
 */
int hartebeest_fail(struct hartebeest_context *hb, const char *text);

/* -------------------------------------------------------------- service --- */

#define HARTEBEEST_SERVICE_DATA 1024
#define HARTEBEEST_SERVICE_KEY 128

/* A client of a service, and what it asked for, as either end sees it. */
struct hartebeest_client {
	uint64_t number;	/* among the requests of its context, from 1 */
	uint64_t context;	/* random; context and number never occur twice together */
	int32_t rank;		/* rank of the client; -1: none */
	uint32_t pid;		/* of the client */
	uint32_t again;		/* 1: an earlier listening process has had it */
	uint32_t length;	/* bytes of data */
	char host[64];		/* of the client */
	char key[HARTEBEEST_SERVICE_KEY];	/* under which to publish this end's queue pair */
	char peer_key[HARTEBEEST_SERVICE_KEY];	/* of the other end's queue pair */
	unsigned char data[HARTEBEEST_SERVICE_DATA];	/* from the client */
	uint64_t reserved[4];	/* zero */
};

/**
 * hartebeest_service_listen() - serve clients that are not known in advance
 * @service: 1 to 64 printable ASCII characters without blanks and '/'
 *
 * A service has one listener: the last process that called this function.
 * hartebeest_service_accept() reports to the previous one that it was replaced.  Rank and size
 * need not be known.  Another call by the listener changes nothing.
 *
 * Returns 0, -EINVAL (the name), -ETIMEDOUT or -EAGAIN.
 *
 * Since: 0.1
 */
int hartebeest_service_listen(struct hartebeest_context *hb, const char *service,
			      int64_t deadline);

/**
 * hartebeest_service_accept() - wait for the next client that asks
 * @client: filled on success
 *
 * Gives each stored request once to each listening process, the oldest first.  If several
 * threads of the process call this function, each request goes to one of them.  A listener
 * that was started again also gets all requests that its predecessor had.  For each, create a
 * queue pair and connect it by hartebeest_pairs_connect() with the two keys of the request,
 * or refuse the request by hartebeest_service_leave().
 *
 * After a restart of the Memcached server, clients that wait for anything ask again by
 * themselves.  A listener that already had such a request does not get it twice.
 *
 * Returns 0, -ENOTCONN (hartebeest_service_listen() was not called), -EADDRINUSE (another
 * process has the service now), -ETIMEDOUT or -EAGAIN (no client asked; neither is logged),
 * -EIO or -ENETDOWN (of the device: see hartebeest_event_get()).
 *
 * Since: 0.1
 */
int hartebeest_service_accept(struct hartebeest_context *hb, const char *service,
			      struct hartebeest_client *client, int64_t deadline);

/**
 * hartebeest_service_request() - ask to be served
 * @data:   @length bytes for the listener; may be NULL if @length is 0
 * @length: at most HARTEBEEST_SERVICE_DATA
 * @client: filled on success
 *
 * The request stays stored, whether or not a listener exists yet, until
 * hartebeest_service_leave() or hartebeest_close(), or, if this process crashes, for the
 * time of the option exchange.ttl.  Create a queue pair and connect it by
 * hartebeest_pairs_connect() with the two keys of the request: that call waits for the
 * listener.
 *
 * Returns 0, -EINVAL (the name), -EMSGSIZE (@length over 1024), -ETIMEDOUT or -EAGAIN.
 *
 * Since: 0.1
 */
int hartebeest_service_request(struct hartebeest_context *hb, const char *service,
			       const void *data, size_t length,
			       struct hartebeest_client *client, int64_t deadline);

/**
 * hartebeest_service_leave() - withdraw, refuse or end a request
 * @client: from hartebeest_service_request() or hartebeest_service_accept()
 *
 * The queue pair published under the request's key is closed on the server, so the other
 * end's hartebeest_qp_follow() returns -ESHUTDOWN.  Destroy the queue pair afterwards.
 *
 * Waits a quarter of a second longer than hartebeest_close() for servers that do not answer.  A
 * server that was silent a moment ago is not asked, and the call fails, so many such calls take no
 * longer than one.
 *
 * Returns 0; -ENOENT (this context neither made that request nor, as the listener, has it),
 * -EAGAIN (another thread stores it right now, or the server has not taken that yet), or the error
 * of a server.  After an error of a server, a later listener may get the request: call again,
 * which is no error either if the request has ended.  A client's request also goes with its next
 * call that talks to the server.
 *
 * Since: 0.1
 */
int hartebeest_service_leave(struct hartebeest_context *hb, const char *service,
			     const struct hartebeest_client *client);

/**
 * hartebeest_service_close() - stop listening
 *
 * Requests stay for the next listener, and connections stay as they are.
 *
 * Returns 0, -EINVAL (the name) or -ENOENT (this context does not listen).
 *
 * Since: 0.1
 */
int hartebeest_service_close(struct hartebeest_context *hb, const char *service);

#ifdef __cplusplus
}
#endif

#endif
