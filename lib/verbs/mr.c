/* SPDX-License-Identifier: MIT */
/* mr.c - see mr.h */
#include "config.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/verbs/mr.h"
#include "lib/verbs/newer.h"
#include "lib/verbs/quota.h"

/*
 * The common size on x86 and arm64.  Not the default size of the machine, which may be 1 GB:
 * munmap(2) refuses parts of a huge page.  glibc 2.17 has no name for MAP_HUGE_2MB.
 */
#define HUGE_PAGE ((size_t)2 << 20)

int beest_mr_huge_flags = MAP_HUGETLB | 21 << 26;

static int mr_release(struct beest_node *node)
{
	struct beest_mr *mr = BEEST_CONTAINER(node, struct beest_mr, node);

	return mr->mr ? beest_quota_count(BEEST_QUOTA_MR, -1,
					  beest_error_verbs(ibv_dereg_mr(mr->mr))) : 0;
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

/* Flags that all devices know; from bit 20 on, they ignore what they do not know. */
#define ACCESS_COMMON 0x1f
#define ACCESS_OPTIONAL 0x3ff00000

/* What access flags cannot have, or ask of the device; NULL: nothing is known. */
static const char *access_hint(int access)
{
	const int changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if ((access & changes) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return "remote write and atomics need IBV_ACCESS_LOCAL_WRITE too";
	if (access & IBV_ACCESS_ON_DEMAND)
		return "the device may have no on-demand paging (IBV_ACCESS_ON_DEMAND) for this "
		       "memory: 'ibv_devinfo -v' shows it";
	if (access & ~(ACCESS_COMMON | ACCESS_OPTIONAL))
		return "kernel and device may not know all of these flags";

	return NULL;
}

static int registration_failed(int ret, const struct ibv_pd *pd, size_t length, int access)
{
	struct ibv_device_attr limits;
	const char *hint = NULL;

	if (ibv_query_device(pd->context, &limits) == 0 && limits.max_mr_size &&
	    length > limits.max_mr_size)
		return beest_fail(-ret, "cannot register %zu bytes: the device allows %" PRIu64
				  " in one region (max_mr_size)", length, limits.max_mr_size);
	if (ret == -ENOMEM || ret == -EAGAIN)
		return beest_quota_fail(BEEST_QUOTA_MR, pd->context, ret,
					"cannot register %zu bytes", length);

	if (ret == -EINVAL || ret == -EOPNOTSUPP || ret == -ENOSYS)
		hint = access_hint(access);
	if (ret == -EFAULT)
		hint = "it is not mapped, read-only, or memory of a device: that of a GPU needs "
		       "the kernel module nvidia-peermem, or hartebeest_mr_register_dmabuf()";
	beest_fail(-ret, "cannot register %zu bytes with access flags 0x%x: %s%s%s", length,
		   (unsigned int)access, strerror(-ret), hint ? "; " : "", hint ? hint : "");
	return beest_quota_limit(BEEST_QUOTA_MR, pd->context, ret);
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

static void buffer_warn(size_t length, const char *why, const struct beest_log *log)
{
	beest_log(log, BEEST_LOG_WARN, "no huge pages of 2 MB for %zu bytes (%s): using ordinary "
		  "ones; see /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages, and "
		  "hugetlb.2MB.max of the cgroup that /proc/self/cgroup names", length, why);
}

/* ------------------------------------------------------------ registering --- */

/* Registers @length bytes.  Returns the errno of ibv_reg_mr(3), without a sentence. */
static int mr_register(struct beest_mr *mr, struct ibv_pd *pd, void *address, size_t length,
		       int access)
{
	/*
	 * The parentheses avoid the macro of verbs.h: for flags unknown at compile
	 * time it calls ibv_reg_mr_iova2(), which CentOS 7's libibverbs lacks.
	 */
	errno = 0;
	mr->mr = (ibv_reg_mr)(pd, address, length, access);
	return mr->mr ? beest_quota_count(BEEST_QUOTA_MR, 1, 0) : beest_error_errno();
}

/*
 * Makes a buffer on huge pages and registers it.  -ENOENT: use ordinary pages.
 *
 * With RDMAV_FORK_SAFE, libibverbs hides the pages from children by madvise(2), which refuses
 * part of a huge page: then the region covers whole ones.  A cgroup that has used up its huge
 * pages lets them be mapped, and then not be touched.
 */
static int mr_register_huge(struct beest_mr *mr, struct ibv_pd *pd, size_t length, int access,
			    const struct beest_log *log)
{
	int ret;

	if (!buffer_map(mr, length, HUGE_PAGE, beest_mr_huge_flags)) {
		buffer_warn(length, strerror(errno), log);
		return -ENOENT;
	}

	ret = mr_register(mr, pd, mr->buffer, length, access);
	if (ret == -EINVAL)
		ret = mr_register(mr, pd, mr->buffer, mr->mapped, access);
	if (ret != -EFAULT)
		return ret < 0 ? registration_failed(ret, pd, length, access) : 0;

	munmap(mr->buffer, mr->mapped);
	mr->buffer = NULL;
	buffer_warn(length, "there are less than were mapped", log);
	return -ENOENT;
}

static int mr_register_ordinary(struct beest_mr *mr, struct ibv_pd *pd, void *address,
				size_t length, int access)
{
	int ret;

	if (!address && !buffer_map(mr, length, (size_t)sysconf(_SC_PAGESIZE), 0))
		return beest_fail_errno(-errno, "cannot map a buffer of %zu bytes", length);
	ret = mr_register(mr, pd, address ? address : mr->buffer, length, access);
	return ret < 0 ? registration_failed(ret, pd, length, access) : 0;
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
	int ret = -ENOENT;

	if (!mr)
		return -ENOMEM;
	if (!address && length > SIZE_MAX - HUGE_PAGE)
		ret = beest_fail(ENOMEM, "a buffer of %zu bytes is more than can be mapped",
				 length);
	else if (!address && huge_pages)
		ret = mr_register_huge(mr, pd, length, access, log);
	if (ret == -ENOENT)
		ret = mr_register_ordinary(mr, pd, address, length, access);
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
	if (mr->mr)
		beest_quota_count(BEEST_QUOTA_MR, 1, 0);
	else
		ret = beest_quota_fail(BEEST_QUOTA_MR, pd->context, beest_error_errno(), "cannot "
				       "register the dma-buf of file descriptor %d", fd);
	return mr_done(mr, access, ret, mrp);
}
