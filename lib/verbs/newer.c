/* SPDX-License-Identifier: MIT */
/* newer.c - see newer.h */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

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
