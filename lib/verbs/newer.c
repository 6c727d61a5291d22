/* SPDX-License-Identifier: MIT */
/* newer.c - see newer.h */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/verbs/newer.h"

static struct beest_newer newer;

/* C cannot convert a data pointer to a function pointer; by POSIX their bytes are the same. */
static void newer_find(const char *name, void *function)
{
	void *address = dlsym(RTLD_DEFAULT, name);

	memcpy(function, &address, sizeof(address));
}

static void newer_find_all(void)
{
	newer_find("_ibv_query_gid_ex", &newer.query_gid);
	newer_find("_ibv_query_gid_table", &newer.query_gids);
	newer_find("ibv_reg_dmabuf_mr", &newer.reg_dmabuf);
	newer_find("ibv_query_ece", &newer.query_ece);
	newer_find("ibv_set_ece", &newer.set_ece);
}

const struct beest_newer *beest_newer(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, newer_find_all);
	return &newer;
}

/* ----------------------------------------------------------------------------- ECE --- */

/* struct ibv_ece of rdma-core 31. */
struct beest_newer_ece {
	uint32_t vendor_id;
	uint32_t options;
	uint32_t comp_mask;
};

struct beest_ece beest_newer_ece_of(struct ibv_qp *qp)
{
	struct beest_newer_ece found = { .vendor_id = 0 };
	const struct beest_newer *own = beest_newer();

	/* A provider without options answers EOPNOTSUPP; whatever the errno, there are none. */
	if (!own->query_ece || !own->set_ece || own->query_ece(qp, &found) != 0 ||
	    !found.vendor_id)
		return (struct beest_ece){ .vendor = 0 };
	return (struct beest_ece){ .vendor = found.vendor_id, .options = found.options };
}

int beest_newer_ece_set(struct ibv_qp *qp, const struct beest_ece *ece)
{
	struct beest_newer_ece wanted = { .vendor_id = ece->vendor, .options = ece->options };

	return beest_error_verbs(beest_newer()->set_ece(qp, &wanted));
}
