/* SPDX-License-Identifier: MIT */
/*
 * injection.c - every call of the library into another library fails in turn
 *
 * 	injection [FUNCTION]
 *
 * There are two bring-ups over a fake device, a fake rdma_cm and a real Memcached, with sealed
 * records: one of two contexts in one thread, and one by the functions of hartebeest-c.h.  The
 * n-th call of memory, file, socket, thread, libibverbs, librdmacm, libmemcached, json-c or
 * libcrypto fails: once; from then on for ever; and once, with the step that failed taken again,
 * by both ranks if it needs both.  Each case is a process.  It must come to its end, each step
 * that fails must say why, nothing may stay open, and a step that is taken again must succeed.
 *
 * Only the library's own calls count: Makefile.am links its references to these functions to the
 * wrappers below.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <json-c/json.h>
#include <libmemcached/memcached.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_CRYPTO
#include <openssl/evp.h>
#include <openssl/hmac.h>
#endif
#ifdef HAVE_RDMACM
#include <rdma/rdma_cma.h>
#include "tests/support/fake-rdmacm.h"
#endif

#include "hartebeest-c.h"
#include "hartebeest-mesh.h"
#include "hartebeest.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"
#include "tests/support/crowd.h"
#include "tests/support/memcached.h"
#include "tests/support/rank.h"
#include "tests/support/scratch.h"
#include "tests/support/surroundings.h"

enum mode { ONCE, FOR_EVER, AGAIN, MODES };

static const char *const modes[] = { "once", "for ever", "once, and again" };

/* The outcome of one process, shared with the test. */
struct outcome {
	long calls;			/* so far */
	char function[48];		/* the first that failed */
	char step[32];			/* taken last */
	char wrong[1200];
	bool repeated;			/* a step that failed was taken again */
	long blocks;			/* of memory that the library has not freed */
	int objects, descriptors;
};

static struct {
	long nth;			/* 0: none fails */
	enum mode mode;
	bool fired;
	struct outcome *outcome;
} plan;

/* True within a step of the one thread whose calls count. */
static __thread bool armed;

static const char *only;		/* the only function that fails, or NULL */

/* ---------------------------------------------------------- functions that fail --- */

static bool fails(const char *function)
{
	if (!armed || (only && strcmp(only, function)))
		return false;
	plan.outcome->calls++;
	if (!plan.nth || plan.outcome->calls < plan.nth ||
	    (plan.mode != FOR_EVER && plan.outcome->calls > plan.nth))
		return false;
	if (!plan.fired)
		snprintf(plan.outcome->function, sizeof(plan.outcome->function), "%s", function);
	plan.fired = true;
	return true;
}

/* The linker turns the library's references to @name to this wrapper. */
#define FAILING(type, name, parameters, arguments, failure) \
	type __wrap_##name parameters; \
	type __wrap_##name parameters \
	{ \
		if (fails(#name)) { \
			failure; \
		} \
		return name arguments; \
	}
#define WITH(error, value) errno = error; return value

/* Blocks of the library's threads count as well. */
static void *counted(void *block)
{
	__atomic_add_fetch(&plan.outcome->blocks, block != NULL, __ATOMIC_RELAXED);
	return block;
}

FAILING(int, open, (const char *path, int flags, mode_t mode), (path, flags, mode),
	WITH(EMFILE, -1))
FAILING(ssize_t, read, (int fd, void *to, size_t size), (fd, to, size), WITH(EIO, -1))
FAILING(int, fstat, (int fd, struct stat *status), (fd, status), WITH(EIO, -1))
FAILING(int, socket, (int family, int type, int protocol), (family, type, protocol),
	WITH(EMFILE, -1))
FAILING(int, connect, (int fd, const struct sockaddr *where, socklen_t size), (fd, where, size),
	WITH(ECONNREFUSED, -1))
FAILING(ssize_t, send, (int fd, const void *from, size_t size, int flags), (fd, from, size, flags),
	WITH(EPIPE, -1))
FAILING(ssize_t, recv, (int fd, void *to, size_t size, int flags), (fd, to, size, flags),
	WITH(ECONNRESET, -1))
FAILING(int, getaddrinfo, (const char *host, const char *port, const struct addrinfo *hints,
			   struct addrinfo **found), (host, port, hints, found),
	return EAI_MEMORY)
FAILING(int, getifaddrs, (struct ifaddrs **found), (found), WITH(ENOMEM, -1))
FAILING(int, getsockname, (int fd, struct sockaddr *where, socklen_t *size), (fd, where, size),
	WITH(ENOBUFS, -1))
FAILING(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t size),
	(fd, level, name, value, size), WITH(ENOMEM, -1))
FAILING(int, poll, (struct pollfd *waiting, nfds_t count, int time), (waiting, count, time),
	WITH(ENOMEM, -1))
FAILING(int, fcntl, (int fd, int command, long value), (fd, command, value), WITH(EINVAL, -1))
FAILING(FILE *, fopen, (const char *path, const char *way), (path, way), WITH(EMFILE, NULL))
FAILING(int, scandir, (const char *folder, struct dirent ***found,
	int (*chosen)(const struct dirent *), int (*order)(const struct dirent **,
							   const struct dirent **)),
	(folder, found, chosen, order), WITH(ENOMEM, -1))
FAILING(int, gethostname, (char *name, size_t size), (name, size), WITH(EFAULT, -1))
FAILING(int, epoll_ctl, (int fd, int command, int watched, struct epoll_event *event),
	(fd, command, watched, event), WITH(ENOMEM, -1))
FAILING(int, epoll_create1, (int flags), (flags), WITH(EMFILE, -1))
FAILING(int, eventfd, (unsigned int value, int flags), (value, flags), WITH(EMFILE, -1))
FAILING(void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
	(at, size, protection, flags, fd, offset), WITH(ENOMEM, MAP_FAILED))

FAILING(int, pthread_mutex_init, (pthread_mutex_t *mutex, const pthread_mutexattr_t *attr),
	(mutex, attr), return ENOMEM)
FAILING(int, pthread_create, (pthread_t *thread, const pthread_attr_t *attr,
	void *(*run)(void *), void *data), (thread, attr, run, data), return EAGAIN)

FAILING(struct ibv_device **, ibv_get_device_list, (int *count), (count), WITH(ENOMEM, NULL))
FAILING(struct ibv_context *, ibv_open_device, (struct ibv_device *device), (device),
	WITH(ENODEV, NULL))
FAILING(int, ibv_query_device, (struct ibv_context *verbs, struct ibv_device_attr *attr),
	(verbs, attr), return EIO)
FAILING(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *verbs), (verbs), WITH(ENOMEM, NULL))
FAILING(struct ibv_cq *, ibv_create_cq, (struct ibv_context *verbs, int depth, void *data,
					  struct ibv_comp_channel *channel, int vector),
	(verbs, depth, data, channel, vector), WITH(ENOMEM, NULL))
FAILING(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr),
	(pd, attr), WITH(ENOMEM, NULL))
FAILING(int, ibv_modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask),
	(qp, attr, mask), return ENOMEM)
FAILING(int, ibv_query_gid, (struct ibv_context *verbs, uint8_t port, int index,
			     union ibv_gid *gid), (verbs, port, index, gid), WITH(EIO, -1))
FAILING(int, ibv_query_pkey, (struct ibv_context *verbs, uint8_t port, int index,
			      __be16 *pkey), (verbs, port, index, pkey), WITH(EIO, -1))
FAILING(int, ibv_query_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			    struct ibv_qp_init_attr *init), (qp, attr, mask, init), return EIO)
FAILING(struct ibv_ah *, ibv_create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *attr), (pd, attr),
	WITH(ENOMEM, NULL))

#undef ibv_reg_mr
#undef ibv_query_port
FAILING(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *pd, void *at, size_t length, int access),
	(pd, at, length, access), WITH(ENOMEM, NULL))
FAILING(int, ibv_query_port, (struct ibv_context *verbs, uint8_t port,
			      struct _compat_ibv_port_attr *attr), (verbs, port, attr), return EIO)

#ifdef HAVE_RDMACM
FAILING(struct rdma_event_channel *, rdma_create_event_channel, (void), (), WITH(EMFILE, NULL))
FAILING(int, rdma_create_id, (struct rdma_event_channel *channel, struct rdma_cm_id **id,
			      void *data, enum rdma_port_space space), (channel, id, data, space),
	WITH(ENOMEM, -1))
FAILING(int, rdma_bind_addr, (struct rdma_cm_id *id, struct sockaddr *where), (id, where),
	WITH(EADDRNOTAVAIL, -1))
FAILING(int, rdma_resolve_addr, (struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
				 int time), (id, from, to, time), WITH(ENETUNREACH, -1))
FAILING(int, rdma_resolve_route, (struct rdma_cm_id *id, int time), (id, time), WITH(ENODEV, -1))
FAILING(int, rdma_get_cm_event, (struct rdma_event_channel *channel, struct rdma_cm_event **event),
	(channel, event), WITH(EIO, -1))
#endif

#ifdef HAVE_CRYPTO
FAILING(EVP_CIPHER_CTX *, EVP_CIPHER_CTX_new, (void), (), return NULL)
FAILING(int, EVP_CIPHER_CTX_copy, (EVP_CIPHER_CTX *to, const EVP_CIPHER_CTX *from), (to, from),
	return 0)
FAILING(int, EVP_CIPHER_CTX_ctrl, (EVP_CIPHER_CTX *context, int command, int number, void *data),
	(context, command, number, data), return 0)
FAILING(int, EVP_CipherInit_ex, (EVP_CIPHER_CTX *context, const EVP_CIPHER *cipher, ENGINE *engine,
	const unsigned char *key, const unsigned char *nonce, int encrypts),
	(context, cipher, engine, key, nonce, encrypts), return 0)
FAILING(int, EVP_CipherUpdate, (EVP_CIPHER_CTX *context, unsigned char *to, int *used,
	const unsigned char *from, int size), (context, to, used, from, size), return 0)
FAILING(unsigned char *, HMAC, (const EVP_MD *digest, const void *key, int length,
	const unsigned char *data, size_t size, unsigned char *to, unsigned int *used),
	(digest, key, length, data, size, to, used), return NULL)
#endif

FAILING(memcached_return_t, memcached_behavior_set, (memcached_st *handle,
	memcached_behavior_t behavior, uint64_t value), (handle, behavior, value),
	return MEMCACHED_MEMORY_ALLOCATION_FAILURE)
FAILING(memcached_return_t, memcached_set_memory_allocators, (memcached_st *handle,
	memcached_malloc_fn new, memcached_free_fn old, memcached_realloc_fn resize,
	memcached_calloc_fn zeroed, void *data), (handle, new, old, resize, zeroed, data),
	plan.outcome->blocks--;		/* the library does not free() it */
	return MEMCACHED_FAILURE)
FAILING(memcached_return_t, memcached_result_set_value, (memcached_result_st *result,
	const char *value, size_t length), (result, value, length),
	return MEMCACHED_MEMORY_ALLOCATION_FAILURE)
FAILING(memcached_return_t, memcached_server_add, (memcached_st *handle, const char *host,
	in_port_t port), (handle, host, port), return MEMCACHED_MEMORY_ALLOCATION_FAILURE)
FAILING(memcached_return_t, memcached_set, (memcached_st *handle, const char *key, size_t length,
	const char *value, size_t size, time_t ttl, uint32_t flags),
	(handle, key, length, value, size, ttl, flags), return MEMCACHED_WRITE_FAILURE)
FAILING(memcached_return_t, memcached_add, (memcached_st *handle, const char *key, size_t length,
	const char *value, size_t size, time_t ttl, uint32_t flags),
	(handle, key, length, value, size, ttl, flags), return MEMCACHED_WRITE_FAILURE)
FAILING(memcached_return_t, memcached_delete, (memcached_st *handle, const char *key,
	size_t length, time_t ttl), (handle, key, length, ttl), return MEMCACHED_TIMEOUT)
FAILING(memcached_return_t, memcached_increment, (memcached_st *handle, const char *key,
	size_t length, uint32_t by, uint64_t *value), (handle, key, length, by, value),
	return MEMCACHED_TIMEOUT)
FAILING(memcached_return_t, memcached_mget, (memcached_st *handle, const char *const *keys,
	const size_t *lengths, size_t count), (handle, keys, lengths, count),
	return MEMCACHED_CONNECTION_FAILURE)
FAILING(memcached_result_st *, memcached_fetch_result, (memcached_st *handle,
	memcached_result_st *result, memcached_return_t *error), (handle, result, error),
	*error = MEMCACHED_TIMEOUT; return NULL)
FAILING(memcached_return_t, memcached_flush_buffers, (memcached_st *handle), (handle),
	return MEMCACHED_WRITE_FAILURE)

FAILING(struct json_tokener *, json_tokener_new, (void), (), return NULL)
FAILING(struct json_object *, json_tokener_parse_ex, (struct json_tokener *tokener,
	const char *text, int length), (tokener, text, length), return NULL)
FAILING(struct json_object *, json_object_new_object, (void), (), return NULL)
FAILING(struct json_object *, json_object_new_int, (int32_t value), (value), return NULL)

/* ----------------------------------------------------------- counted memory --- */

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__wrap_strdup(const char *text);
int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void __wrap_free(void *block);
memcached_st *__wrap_memcached_create(memcached_st *handle);

void *__wrap_malloc(size_t size)
{
	return fails("malloc") ? (errno = ENOMEM, NULL) : counted(malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails("calloc") ? (errno = ENOMEM, NULL) : counted(calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size)
{
	if (fails("realloc"))
		return errno = ENOMEM, NULL;
	return block ? realloc(block, size) : counted(realloc(NULL, size));
}

char *__wrap_strdup(const char *text)
{
	return fails("strdup") ? (errno = ENOMEM, NULL) : counted(strdup(text));
}

int __wrap_asprintf(char **text, const char *format, ...)
{
	va_list values;
	int ret;

	if (fails("asprintf"))
		return errno = ENOMEM, -1;
	va_start(values, format);
	ret = vasprintf(text, format, values);
	va_end(values);
	__atomic_add_fetch(&plan.outcome->blocks, ret >= 0, __ATOMIC_RELAXED);
	return ret;
}

void __wrap_free(void *block)
{
	__atomic_sub_fetch(&plan.outcome->blocks, block != NULL, __ATOMIC_RELAXED);
	free(block);
}

/* libmemcached allocates it, and the library frees it by memcached_free(). */
memcached_st *__wrap_memcached_create(memcached_st *handle)
{
	return fails("memcached_create") ? NULL : counted(memcached_create(handle));
}

/* ---------------------------------------------------------------- the bring-up --- */

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct hartebeest_context *side[2];
static const char *servers;
static char job[32];
static char secret_file[128];		/* an option; any file that others may not read will do */

/*
 * Takes a step for both ranks in turn until both are through, since each waits for the other.  With
 * @leave, a rank that is through is not called again: it would wait for the next time.
 */
static int in_turn(int (*take)(int i), bool leave)
{
	int64_t end = hartebeest_clock() + RANK_PATIENCE_S * (int64_t)1000000000;
	static bool through[2];
	int i, ret = 0;

	if (!leave)
		through[0] = through[1] = false;
	while (ret >= 0 && !(through[0] && through[1])) {
		for (i = 0; i < 2 && ret >= 0; i++) {
			ret = leave && through[i] ? 0 : take(i);
			through[i] = ret >= 0;
			ret = ret == -EAGAIN && hartebeest_clock() < end ? 0 : ret;
		}
	}
	return ret < 0 ? ret : 0;
}

static int open_side(int i)
{
	const struct rank_settings settings = {
		.servers = servers, .job = job, .rank = i, .size = 2,
		.timeout = plan.mode == FOR_EVER ? "60ms" : RANK_PATIENCE,
		.more = {
#ifdef HAVE_CRYPTO
			secret_file,
#endif
#ifdef HAVE_RDMACM
			"device.resolver=rdmacm",
#endif
		},
	};

	return side[i] ? 0 : rank_open(&side[i], &settings);
}

static int make_pd(int i)
{
	return hartebeest_pd_create(side[i], "pd", NULL);
}

static int make_cq(int i)
{
	return cq_make(side[i], "cq", 0, 0, NULL);
}

static int make_mr(int i)
{
	return mr_make(side[i], "mr", "pd", 4096, ACCESS, NULL);
}

static int make_qp(int i)
{
	return qp_make(side[i], "qp", "pd", IBV_QPT_RC, "cq", "cq", NULL);
}

static int publish_mr(int i)
{
	return hartebeest_mr_publish(side[i], "mr", i ? "mr1" : "mr0", 0);
}

static int publish_qp(int i)
{
	return hartebeest_qp_publish(side[i], "qp", i ? "1" : "0", 0);
}

static int fetch_qp(int i)
{
	return hartebeest_qp_fetch(side[i], i ? "0" : "1", NULL, 0);
}

static int connect_qp(int i)
{
	int ret = hartebeest_qp_connect(side[i], "qp", i ? "0" : "1", 0);

	return ret == -EISCONN ? 0 : ret;
}

/* The first rank's part may be done, while the second still waits for it. */
static int pair_once(int i)
{
	struct hartebeest_pair pair;

	hartebeest_pair_init(&pair);
	pair.qp = "qp";
	pair.key = i ? "1" : "0";
	pair.peer_key = i ? "0" : "1";
	return hartebeest_pairs_connect(side[i], &pair, 1, HARTEBEEST_ONCE);
}

static int confirm_qp(int i)
{
	return i ? in_turn(pair_once, false) : 0;
}

static int fetch_mr(int i)
{
	struct hartebeest_remote_mr mr;

	return hartebeest_mr_fetch(side[i], i ? "mr0" : "mr1", &mr, 0);
}

static int push(int i)
{
	return hartebeest_msg_push(side[i], i ? "m1" : "m0", "hello", 5, 0);
}

static int wait_msg(int i)
{
	return hartebeest_msg_wait(side[i], i ? "m0" : "m1", NULL, 0, NULL, 0);
}

static int delete_msg(int i)
{
	int ret = hartebeest_msg_delete(side[i], i ? "m0" : "m1", 0);

	return ret == -ENOENT ? 0 : ret;	/* the failed attempt may have deleted it */
}

static int listen_for(int i)
{
	return i ? 0 : hartebeest_service_listen(side[0], "s", 0);
}

static int request(int i)
{
	struct hartebeest_client request;

	return i ? hartebeest_service_request(side[1], "s", "x", 1, &request, 0) : 0;
}

static int accept_one(int i)
{
	struct hartebeest_client request;

	return i ? 0 : hartebeest_service_accept(side[0], "s", &request, 0);
}

static int meet_once(int i)
{
	return hartebeest_barrier(side[i], "go", HARTEBEEST_ONCE);
}

static int meet(int i)
{
	return i ? in_turn(meet_once, true) : 0;
}

static int event_fd(int i)
{
	int ret = hartebeest_event_fd(side[i]);

	return ret < 0 ? ret : 0;
}

static int withdraw(int i)
{
	return hartebeest_mr_destroy(side[i], "mr");
}

/*
 * Both ranks must wait at once, so the step of the second is that of both.  The second waits in a
 * thread, whose calls do not count.
 */
static struct {
	pthread_t thread;
	int ret;
	char error[1200];		/* the sentence of its thread */
} second;

static struct hartebeest_mesh *meshes[2];

static int mesh_connect(int i)
{
	struct hartebeest_mesh_attr attr;

	hartebeest_mesh_attr_init(&attr);
	attr.threads = 1;
	return hartebeest_mesh_connect(side[i], "mesh", &attr, &meshes[i], 0);
}

static void *second_connect(void *data)
{
	second.ret = mesh_connect(1);
	snprintf(second.error, sizeof(second.error), "%s", hartebeest_error());
	return data;
}

/* If one rank has failed, the other gives up.  If they try again, both do. */
static int meet_in_mesh(int i)
{
	int ret;

	if (!i)
		return 0;
	for (i = 0; i < 2; i++) {
		hartebeest_mesh_close(meshes[i]);
		meshes[i] = NULL;
	}
	hartebeest_cancel_clear(side[1]);
	if (pthread_create(&second.thread, NULL, second_connect, NULL) != 0)
		return beest_fail(EAGAIN, "no thread for the second rank");
	ret = mesh_connect(0);
	if (ret < 0)
		hartebeest_cancel(side[1]);
	pthread_join(second.thread, NULL);
	return ret < 0 || second.ret >= 0 ? ret : beest_fail(-second.ret, "%s", second.error);
}

struct step {
	const char *name;
	int (*take)(int i);
};

static const struct step native[] = {
	{ "open", open_side }, { "pd", make_pd }, { "cq", make_cq }, { "mr", make_mr },
	{ "qp", make_qp }, { "event_fd", event_fd }, { "mr_publish", publish_mr },
	{ "qp_publish", publish_qp }, { "qp_fetch", fetch_qp }, { "qp_connect", connect_qp },
	{ "qp_confirm", confirm_qp }, { "mr_fetch", fetch_mr }, { "msg_push", push },
	{ "msg_wait", wait_msg }, { "msg_delete", delete_msg }, { "barrier", meet },
	{ "service_listen", listen_for }, { "service_request", request },
	{ "service_accept", accept_one }, { "mesh_connect", meet_in_mesh },
	{ "mr_destroy", withdraw }, { NULL, NULL },
};

static void native_end(void)
{
	hartebeest_close(side[1]);
	hartebeest_close(side[0]);
}

/* ------------------------------------------------------------- hartebeest-c.h --- */

/* Two queue pairs of the default context; "0" and "1" are names and keys. */
static const char *own_name(int i)
{
	return i ? "1" : "0";
}

/* The errno of a bool function's failure, whose sentence is hartebeest_error(); 0: success. */
static int told(bool good)
{
	return good ? 0 : -EIO;
}

static int c_open(int i)
{
	setenv("HARTEBEEST_EXC_IP_PORT", servers, 1);
	setenv("HARTEBEEST_JOB", job, 1);
	setenv("HARTEBEEST_TIMEOUT", plan.mode == FOR_EVER ? "60ms" : RANK_PATIENCE, 1);
	hartebeest_init();
	return i ? 0 : told(hartebeest_default_context());
}

static int c_pd(int i)
{
	return i ? 0 : told(hartebeest_create_local_pd("pd"));
}

static int c_cq(int i)
{
	return told(hartebeest_create_basiccq(own_name(i)));
}

static int c_mr(int i)
{
	return told(hartebeest_create_local_mr("pd", own_name(i), 4096, ACCESS));
}

static int c_qp(int i)
{
	return told(hartebeest_create_local_qp("pd", own_name(i), IBV_QPT_RC, own_name(i),
					       own_name(i)));
}

static int c_init(int i)
{
	return told(hartebeest_init_local_qp("pd", own_name(i)));
}

static int c_push_mr(int i)
{
	return told(hartebeest_memc_push_local_mr(own_name(i), "pd", own_name(i)));
}

static int c_push_qp(int i)
{
	return told(hartebeest_memc_push_local_qp(own_name(i), "pd", own_name(i)));
}

static int c_fetch_mr(int i)
{
	return told(hartebeest_memc_fetch_remote_mr(own_name(!i)));
}

static int c_fetch_qp(int i)
{
	return told(hartebeest_memc_fetch_remote_qp(own_name(!i)));
}

/* A queue pair stuck half-way to RTS needs what the sentence advises. */
static int c_connect(int i)
{
	bool good = hartebeest_connect_local_qp("pd", own_name(i), own_name(!i));

	if (!good && strstr(hartebeest_error(), "is not in INIT: hartebeest_qp_reset()"))
		good = hartebeest_qp_reset(hartebeest_default_context(),
					   i ? "pd/1" : "pd/0") == 0 &&
		       hartebeest_memc_push_local_qp(own_name(i), "pd", own_name(i)) &&
		       hartebeest_connect_local_qp("pd", own_name(i), own_name(!i));
	return told(good);
}

static int c_push(int i)
{
	return told(hartebeest_memc_push_general(own_name(i)));
}

static int c_wait(int i)
{
	return told(hartebeest_memc_wait_general(own_name(!i)));
}

static int c_delete(int i)
{
	return told(hartebeest_memc_del_general(own_name(!i)));
}

static int c_look_up(int i)
{
	return told(hartebeest_get_local_pd("pd") && hartebeest_get_local_mr("pd", own_name(i)) &&
		    hartebeest_get_local_qp("pd", own_name(i)) &&
		    hartebeest_get_remote_mr(own_name(!i)) &&
		    hartebeest_get_remote_qp(own_name(!i)));
}

static int c_transfer(int i)
{
	struct ibv_qp *qp = hartebeest_get_local_qp("pd", own_name(i));
	const struct ibv_mr *mr = hartebeest_get_local_mr("pd", own_name(i));
	const struct ibv_mr *to = hartebeest_get_remote_mr(own_name(!i));

	if (!qp || !mr || !to)
		return -EIO;
	fake_verbs.complete_sends = true;
	return told(hartebeest_rdma_post_single_fast(qp, mr->addr, to->addr, 64, IBV_WR_RDMA_WRITE,
						     mr->lkey, to->rkey, 1) &&
		    hartebeest_rdma_send_poll(qp));
}

static const struct step original[] = {
	{ "init", c_open }, { "create_local_pd", c_pd }, { "create_basiccq", c_cq },
	{ "create_local_mr", c_mr }, { "create_local_qp", c_qp }, { "init_local_qp", c_init },
	{ "memc_push_local_mr", c_push_mr }, { "memc_push_local_qp", c_push_qp },
	{ "memc_fetch_remote_mr", c_fetch_mr }, { "memc_fetch_remote_qp", c_fetch_qp },
	{ "connect_local_qp", c_connect }, { "memc_push_general", c_push },
	{ "memc_wait_general", c_wait }, { "memc_del_general", c_delete },
	{ "get_", c_look_up }, { "rdma_post_single_fast", c_transfer }, { NULL, NULL },
};

static const struct flavour {
	const char *name;
	const struct step *steps;
	void (*end)(void);		/* NULL: only records go; the rest ends with the process */
} flavours[] = {
	{ "hartebeest.h", native, native_end },
	{ "hartebeest-c.h", original, NULL },
};

static int step_take(const struct step *step, int i)
{
	int ret;

	armed = true;
	ret = step->take(i);
	armed = false;
	return ret;
}

/*
 * In mode AGAIN, a step that failed is taken again; otherwise the rest is left out.  In mode
 * FOR_EVER waits have a short limit, which a slow machine may reach before any failure.
 */
static void bring_up(const struct flavour *flavour)
{
	struct outcome *outcome = plan.outcome;
	const struct step *step;
	bool failed = false;
	int i, ret;

	for (step = flavour->steps; step->name && !failed; step++) {
		for (i = 0; i < 2 && !failed; i++) {
			snprintf(outcome->step, sizeof(outcome->step), "%s", step->name);
			ret = step_take(step, i);
			if (ret < 0 && !hartebeest_error()[0])
				snprintf(outcome->wrong, sizeof(outcome->wrong), "no sentence");
			if (ret < 0 && !plan.fired && plan.mode != FOR_EVER)
				snprintf(outcome->wrong, sizeof(outcome->wrong), "%d without a "
					 "failure: %s", ret, hartebeest_error());
			if (ret < 0 && plan.mode == AGAIN) {
				outcome->repeated = true;
				ret = step_take(step, i);
			}
			if (ret < 0 && plan.mode == AGAIN)
				snprintf(outcome->wrong, sizeof(outcome->wrong),
					 "again %d: %.1000s", ret, hartebeest_error());
			failed = ret < 0;
		}
	}
	armed = true;
	if (flavour->end)
		flavour->end();
}

/* ------------------------------------------------------------ one process each --- */

#define HELD_UP_S (2 * RANK_PATIENCE_S)

static int descriptors(void)
{
	int fd, count = 0;

	for (fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static int descriptors_before;

/* Runs after the handlers of exit(3). */
static void __attribute__((destructor(101))) what_stays(void)
{
	armed = false;
	if (!plan.outcome)
		return;
	plan.outcome->objects = fake_verbs.open;
#ifdef HAVE_RDMACM
	plan.outcome->objects += fake_rdmacm.open;
#endif
	plan.outcome->descriptors = descriptors() - descriptors_before;
}

static void run(const struct flavour *flavour, struct outcome *outcome, long nth, enum mode mode)
{
	const struct ibv_async_event none = { .event_type = IBV_EVENT_SM_CHANGE };
	const struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	alarm(HELD_UP_S);
	snprintf(job, sizeof(job), "inject-%d", (int)getpid());
	plan.nth = nth;
	plan.mode = mode;
	plan.outcome = outcome;
	fake_verbs_raise(&none);		/* opens shared descriptors */
	descriptors_before = descriptors();
	bring_up(flavour);
	exit(0);
}

/* Returns 1 and prints why if the process misbehaved. */
static int judge(const struct flavour *flavour, const struct outcome *outcome, long nth,
		 enum mode mode, int status)
{
	char wrong[1400] = "";

	if (WIFSIGNALED(status))
		snprintf(wrong, sizeof(wrong), WTERMSIG(status) == SIGALRM ? "is held up" :
			 "dies of signal %d", WTERMSIG(status));
	else if (outcome->wrong[0])
		snprintf(wrong, sizeof(wrong), "%s", outcome->wrong);
	else if (!flavour->end)
		;
	else if (outcome->objects)
		snprintf(wrong, sizeof(wrong), "%d verbs objects stay", outcome->objects);
	else if (outcome->descriptors)
		snprintf(wrong, sizeof(wrong), "%d file descriptors stay", outcome->descriptors);
	else if (outcome->blocks)
		snprintf(wrong, sizeof(wrong), "%ld blocks of memory stay", outcome->blocks);
	if (wrong[0])
		printf("%s: call %ld, %s fails %s, in step %s: %s\n", flavour->name, nth,
		       outcome->function, modes[mode], outcome->step, wrong);
	return wrong[0] != '\0';
}

#define CROWD 16

static struct trial {
	const struct flavour *flavour;
	long nth;
	enum mode mode;
	struct outcome *outcome;
} trials[CROWD];
static long injections, repetitions, misbehaved;

static void trial_ended(int place, int status)
{
	const struct trial *trial = &trials[place];

	repetitions += trial->outcome->repeated;
	misbehaved += judge(trial->flavour, trial->outcome, trial->nth, trial->mode, status);
}

static struct crowd crowd = { .size = CROWD, .ended = trial_ended };

static struct outcome *inject(const struct flavour *flavour, long nth, enum mode mode)
{
	int place = crowd_place(&crowd);
	struct trial *trial = &trials[place];

	trial->flavour = flavour;
	trial->nth = nth;
	trial->mode = mode;
	memset(trial->outcome, 0, sizeof(*trial->outcome));
	fflush(stdout);
	crowd.pid[place] = fork();
	if (crowd.pid[place] == 0)
		run(flavour, trial->outcome, nth, mode);
	injections += nth > 0;
	return trial->outcome;
}

static const char *file_make(void)
{
	static char path[SCRATCH_SIZE];

	scratch_text(path, "beest-injection", "{ \"qp_attr\": { \"timeout\": 12 }, \"log\": "
		     "{ \"level\": \"none\" } }\n");
	return path;
}

static void inject_all(const struct flavour *flavour)
{
	long nth, calls;
	int i;
	struct outcome *all = inject(flavour, 0, ONCE);

	crowd_reap(&crowd, 0);
	calls = all->calls;
	for (nth = 1; nth <= calls; nth++)
		for (i = 0; i < MODES; i++)
			inject(flavour, nth, (enum mode)i);
	crowd_reap(&crowd, 0);
}

int main(int argc, char **argv)
{
	static struct outcome nothing;
	struct outcome *outcomes;
	struct cache *cache;
	size_t i;

	plan.outcome = &nothing;
	surroundings_clear();
	setenv("HARTEBEEST_LOG", "none", 1);
	only = argc > 1 ? argv[1] : NULL;
	cache_need();
	cache = cache_start(NULL);
	servers = cache_hostport(cache)->text;
	setenv("HARTEBEEST_CONF_PATH", file_make(), 1);
	snprintf(secret_file, sizeof(secret_file), "exchange.secret_file=%s",
		 getenv("HARTEBEEST_CONF_PATH"));
	fake_verbs_reset();
#ifdef HAVE_RDMACM
	fake_rdmacm_reset();
#endif
	outcomes = crowd_share(&crowd, sizeof(*outcomes));
	for (i = 0; i < CROWD; i++)
		trials[i].outcome = &outcomes[i];

	for (i = 0; i < BEEST_COUNT(flavours); i++)
		inject_all(&flavours[i]);
	unlink(getenv("HARTEBEEST_CONF_PATH"));
	cache_end(cache);
	plan.outcome = NULL;
	printf("%ld injections, %ld steps taken again, %ld misbehaved\n", injections, repetitions,
	       misbehaved);
	return misbehaved != 0;
}
