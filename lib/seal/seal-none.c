/* SPDX-License-Identifier: MIT */
/* seal-none.c - seal.h for a build without libcrypto: all calls fail */
#include "config.h"

#include "lib/base/error.h"
#include "lib/seal/seal.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static int seal_is_missing(void)
{
	return beest_fail(ENOSYS, "this build of libhartebeest cannot seal records: it was "
			  "configured without libcrypto (--with-openssl)");
}

int beest_seal_open(struct beest_seal **seal, const void *secret, size_t size, const char *job)
{
	return seal_is_missing();
}

void beest_seal_close(struct beest_seal *seal)
{
}

int beest_seal_encrypt(struct beest_seal *seal, const char *name, uint8_t *bytes, size_t size)
{
	return seal_is_missing();
}

int beest_seal_check(const struct beest_seal *seal, const uint8_t *bytes, size_t size)
{
	return seal_is_missing();
}

int beest_seal_decrypt(struct beest_seal *seal, const char *name, uint8_t *bytes, size_t size)
{
	return seal_is_missing();
}
