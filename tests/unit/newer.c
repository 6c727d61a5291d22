/* SPDX-License-Identifier: MIT */
/*
 * newer.c - a libibverbs as old as CentOS 7's: nothing newer is found at run time
 *
 * This program is linked with its own dlsym(3).  All other tests find the fake's functions.
 */
#include "config.h"

#include "lib/verbs/mr.h"
#include "lib/verbs/newer.h"
#include "tests/support/unit.h"

static char asked[256];

void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);

/* A sanitizer in this program looks functions up as well. */
void *__wrap_dlsym(void *handle, const char *name)
{
	if (!strstr(name, "ibv_"))
		return __real_dlsym(handle, name);
	strcat(strcat(asked, name), " ");
	return NULL;
}

/* Each function is looked up once, by its name in libibverbs. */
static void looked_up_once(void **state)
{
	(void)state;
	assert_null(beest_newer()->query_gid);
	assert_null(beest_newer()->query_gids);
	assert_null(beest_newer()->reg_dmabuf);
	assert_null(beest_newer()->query_ece);
	assert_null(beest_newer()->set_ece);
	assert_string_equal(asked, "_ibv_query_gid_ex _ibv_query_gid_table ibv_reg_dmabuf_mr "
			    "ibv_query_ece ibv_set_ece ");
}

static void memory_of_a_device_is_refused(void **state)
{
	struct beest_mr *mr = NULL;

	(void)state;
	assert_int_equal(beest_mr_register_dmabuf(NULL, 5, 0, 64, 0, IBV_ACCESS_LOCAL_WRITE, &mr),
			 -ENOSYS);
	assert_error_is("the libibverbs of this process has no ibv_reg_dmabuf_mr(3): rdma-core has "
			"it since 34");
	assert_null(mr);
}

/* The layout in which libibverbs returns the kernel's numbers. */
static void as_libibverbs_has_it(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct beest_newer_gid), 32);
	assert_int_equal(offsetof(struct beest_newer_gid, type), 24);
	assert_int_equal(offsetof(struct beest_newer_gid, netdev), 28);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(looked_up_once),
		cmocka_unit_test(memory_of_a_device_is_refused),
		cmocka_unit_test(as_libibverbs_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
