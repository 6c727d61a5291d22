/* SPDX-License-Identifier: MIT */
/* mr.c - see mr.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/verbs/mr.h"

/* x86's and arm64's common size; another default only loses the huge pages. */
#define HUGE_PAGE ((size_t)2 << 20)

static void mr_free(struct beest_mr *mr)
{
	if (mr->buffer)
		munmap(mr->buffer, mr->mapped);
	free(mr);
}

static int mr_destroy(struct beest_node *node)
{
	struct beest_mr *mr = BEEST_CONTAINER(node, struct beest_mr, node);
	int ret;

	ret = beest_error_verbs(ibv_dereg_mr(mr->mr));
	if (ret < 0)
		return beest_fail(-ret, "cannot deregister memory region '%s': %s", node->name,
				  strerror(-ret));
	mr_free(mr);
	return 0;
}

const struct beest_kind beest_mr_kind = { "memory region", mr_destroy };

/* Hands over a region that was made, or frees what there is of it. */
static int mr_finish(struct beest_mr *mr, int ret, struct beest_mr **mrp)
{
	if (ret < 0)
		mr_free(mr);
	else
		*mrp = mr;
	return ret;
}

/* The likely reason behind the kernel's number, where there is one. */
static const char *registration_hint(int ret, int access)
{
	const int changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if (ret == -EINVAL && (access & changes) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return "; remote write and atomics need IBV_ACCESS_LOCAL_WRITE too";
	if (ret == -EFAULT)
		return " (not mapped, or read-only)";
	return "";
}

/* The most common cause of ENOMEM is a limit that nobody thinks of. */
static int registration_failed(int ret, size_t length, int access)
{
	struct rlimit limit;

	if (ret == -ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY)
		return beest_fail(ENOMEM, "cannot register %zu bytes: the limit on locked memory "
				  "is %ju bytes (ulimit -l; for a daemon's children "
				  "LimitMEMLOCK=infinity in its systemd unit)", length,
				  (uintmax_t)limit.rlim_cur);

	return beest_fail(-ret, "cannot register %zu bytes with access flags 0x%x: %s%s", length,
			  (unsigned int)access, strerror(-ret),
			  registration_hint(ret, access));
}

/*
 * The parentheses keep verbs.h's macro away: for flags unknown at compile time it
 * calls ibv_reg_mr_iova2(), a symbol that CentOS 7's libibverbs does not have.
 */
static int mr_enroll(struct beest_mr *mr, struct ibv_pd *pd, void *address, size_t length,
		     int access)
{
	errno = 0;
	mr->mr = (ibv_reg_mr)(pd, address, length, access);
	if (!mr->mr)
		return registration_failed(beest_error_errno(), length, access);

	mr->access = access;
	return 0;
}

/*
 * MAP_POPULATE: registering untouched memory faults it in page by page, which was
 * measured at 50 times the cost of registering touched memory.
 */
static void *buffer_map(size_t length, int flags)
{
	void *buffer = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | flags, -1, 0);

	return buffer == MAP_FAILED ? NULL : buffer;
}

static size_t size_round_up(size_t length, size_t unit)
{
	return (length + unit - 1) / unit * unit;
}

static int mr_allocate(struct beest_mr *mr, size_t length, bool huge_pages,
		       const struct beest_log *log)
{
	if (length > SIZE_MAX - HUGE_PAGE)
		return beest_fail(ENOMEM, "a buffer of %zu bytes is more than can be mapped", length);

	if (huge_pages) {
		mr->mapped = size_round_up(length, HUGE_PAGE);
		mr->buffer = buffer_map(mr->mapped, MAP_HUGETLB);
		if (!mr->buffer)
			beest_log(log, BEEST_LOG_WARN, "no huge pages for %zu bytes (%s): using "
				  "ordinary ones; see /proc/sys/vm/nr_hugepages", length,
				  strerror(errno));
	}
	if (!mr->buffer) {
		mr->mapped = size_round_up(length, (size_t)sysconf(_SC_PAGESIZE));
		mr->buffer = buffer_map(mr->mapped, 0);
	}
	if (!mr->buffer)
		return beest_fail(errno, "cannot map a buffer of %zu bytes: %s", length,
				  strerror(errno));
	return 0;
}

int beest_mr_create(struct ibv_pd *pd, void *address, size_t length, int access, bool huge_pages,
		    const struct beest_log *log, struct beest_mr **mrp)
{
	struct beest_mr *mr = calloc(1, sizeof(*mr));
	int ret = 0;

	if (!mr)
		return beest_fail(ENOMEM, "no memory for a memory region");

	if (!address)
		ret = mr_allocate(mr, length, huge_pages, log);
	if (ret == 0)
		ret = mr_enroll(mr, pd, address ? address : mr->buffer, length, access);
	return mr_finish(mr, ret, mrp);
}

#if HAVE_DECL_IBV_REG_DMABUF_MR
int beest_mr_register_dmabuf(struct ibv_pd *pd, int fd, uint64_t offset, size_t length,
			     uint64_t iova, int access, struct beest_mr **mrp)
{
	struct beest_mr *mr = calloc(1, sizeof(*mr));
	int ret = 0;

	if (!mr)
		return beest_fail(ENOMEM, "no memory for a memory region");

	errno = 0;
	mr->mr = ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);
	mr->access = access;
	if (!mr->mr) {
		ret = beest_error_errno();
		beest_fail(-ret, "cannot register the dma-buf of file descriptor %d: %s", fd,
			   strerror(-ret));
	}
	return mr_finish(mr, ret, mrp);
}
#else
int beest_mr_register_dmabuf(struct ibv_pd *pd, int fd, uint64_t offset, size_t length,
			     uint64_t iova, int access, struct beest_mr **mrp)
{
	(void)pd, (void)fd, (void)offset, (void)length, (void)iova, (void)access, (void)mrp;
	return beest_fail(ENOSYS, "this libhartebeest was built against a libibverbs without "
			  "ibv_reg_dmabuf_mr(3)");
}
#endif
