/* SPDX-License-Identifier: MIT */
/* mr.c - see mr.h */
#include "config.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/verbs/mr.h"
#include "lib/verbs/newer.h"

/*
 * The common size on x86 and arm64.  Not the default size of the machine, which may be 1 GB:
 * munmap(2) refuses parts of a huge page.  glibc 2.17 has no name for MAP_HUGE_2MB.
 */
#define HUGE_PAGE ((size_t)2 << 20)
#define HUGE_FLAGS (MAP_HUGETLB | 21 << 26)

static int mr_release(struct beest_node *node)
{
	struct beest_mr *mr = BEEST_CONTAINER(node, struct beest_mr, node);

	return mr->mr ? beest_error_verbs(ibv_dereg_mr(mr->mr)) : 0;
}

static void mr_dispose(struct beest_node *node)
{
	struct beest_mr *mr = BEEST_CONTAINER(node, struct beest_mr, node);

	if (mr->buffer)
		munmap(mr->buffer, mr->mapped);
}

const struct beest_kind beest_mr_kind = {
	.noun = "memory region", .size = sizeof(struct beest_mr), .release = mr_release,
	.dispose = mr_dispose,
};

/* ------------------------------------------------------------- sentences --- */

/* The usual cause of ENOMEM is the limit on locked memory, which few users know. */
static int registration_failed(int ret, size_t length, int access)
{
	const int changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	const char *hint = "";
	struct rlimit limit;

	if (ret == -ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY)
		return beest_fail(ENOMEM, "cannot register %zu bytes: the limit on locked memory "
				  "is %ju bytes (ulimit -l; for a daemon's children "
				  "LimitMEMLOCK=infinity in its systemd unit)", length,
				  (uintmax_t)limit.rlim_cur);

	if (ret == -EINVAL && (access & changes) && !(access & IBV_ACCESS_LOCAL_WRITE))
		hint = "; remote write and atomics need IBV_ACCESS_LOCAL_WRITE too";
	if (ret == -EFAULT)
		hint = " (not mapped, or read-only)";
	return beest_fail(-ret, "cannot register %zu bytes with access flags 0x%x: %s%s", length,
			  (unsigned int)access, strerror(-ret), hint);
}

/* ---------------------------------------------------------------- buffer --- */

/*
 * Maps whole units of @unit bytes.  MAP_POPULATE, since registering untouched memory faults
 * it in page by page, measured at 50 times the cost of registering touched memory.
 */
static bool buffer_map(struct beest_mr *mr, size_t length, size_t unit, int flags)
{
	mr->mapped = (length + unit - 1) / unit * unit;
	mr->buffer = mmap(NULL, mr->mapped, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | flags, -1, 0);
	if (mr->buffer == MAP_FAILED)
		mr->buffer = NULL;
	return mr->buffer != NULL;
}

static int buffer_make(struct beest_mr *mr, size_t length, bool huge_pages,
		       const struct beest_log *log)
{
	if (length > SIZE_MAX - HUGE_PAGE)
		return beest_fail(ENOMEM, "a buffer of %zu bytes is more than can be mapped",
				  length);

	if (huge_pages) {
		if (buffer_map(mr, length, HUGE_PAGE, HUGE_FLAGS))
			return 0;
		beest_log(log, BEEST_LOG_WARN, "no huge pages of 2 MB for %zu bytes (%s): using "
			  "ordinary ones; see /sys/kernel/mm/hugepages/hugepages-2048kB/"
			  "nr_hugepages", length, strerror(errno));
	}
	if (buffer_map(mr, length, (size_t)sysconf(_SC_PAGESIZE), 0))
		return 0;
	return beest_fail_errno(-errno, "cannot map a buffer of %zu bytes", length);
}

/* ---------------------------------------------------------------- making --- */

static int mr_done(struct beest_mr *mr, int access, int ret, struct beest_mr **mrp)
{
	if (ret < 0) {
		beest_table_free(&mr->node);
		return ret;
	}

	mr->access = access;
	mr->node.handle = mr->mr;
	mr->node.needs[0] = mr->mr->pd;
	*mrp = mr;
	return 0;
}

int beest_mr_adopt(struct ibv_mr *verbs, int access, struct beest_mr **mrp)
{
	struct beest_mr *mr = beest_table_new(&beest_mr_kind);

	if (!mr)
		return -ENOMEM;

	mr->mr = verbs;
	mr->node.adopted = true;
	return mr_done(mr, access, 0, mrp);
}

int beest_mr_create(struct ibv_pd *pd, void *address, size_t length, int access, bool huge_pages,
		    const struct beest_log *log, struct beest_mr **mrp)
{
	struct beest_mr *mr = beest_table_new(&beest_mr_kind);
	int ret = 0;

	if (!mr)
		return -ENOMEM;
	if (!address)
		ret = buffer_make(mr, length, huge_pages, log);
	if (ret == 0) {
		/*
		 * The parentheses avoid the macro of verbs.h: for flags unknown at compile
		 * time it calls ibv_reg_mr_iova2(), which CentOS 7's libibverbs lacks.
		 */
		errno = 0;
		mr->mr = (ibv_reg_mr)(pd, address ? address : mr->buffer, length, access);
		if (!mr->mr)
			ret = registration_failed(beest_error_errno(), length, access);
	}
	return mr_done(mr, access, ret, mrp);
}

int beest_mr_register_dmabuf(struct ibv_pd *pd, int fd, uint64_t offset, size_t length,
			     uint64_t iova, int access, struct beest_mr **mrp)
{
	struct beest_mr *mr;
	int ret = 0;

	if (!beest_newer()->reg_dmabuf)
		return beest_fail(ENOSYS, "the libibverbs of this process has no "
				  "ibv_reg_dmabuf_mr(3): rdma-core has it since 34");

	mr = beest_table_new(&beest_mr_kind);
	if (!mr)
		return -ENOMEM;

	errno = 0;
	mr->mr = beest_newer()->reg_dmabuf(pd, offset, length, iova, fd, access);
	if (!mr->mr)
		ret = beest_fail_errno(beest_error_errno(), "cannot register the dma-buf of file "
				       "descriptor %d", fd);
	return mr_done(mr, access, ret, mrp);
}
