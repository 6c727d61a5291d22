/* SPDX-License-Identifier: MIT */
/*
 * seal.c - see seal.h
 *
 * The sealed form of P plain bytes:
 *
 *   offset  bytes  content
 *        0      3  "HBE"
 *        3      1  version, 1
 *        4      4  check value of the secret
 *        8     12  nonce, random
 *       20      P  the plain bytes, encrypted
 *     20+P     16  tag
 *
 * Works with OpenSSL 1.0.2 (CentOS 7) and later.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/seal/seal.h"

#define SEAL_VERSION 1
#define KEY_SIZE 32
#define CHECK_SIZE 4
#define NONCE_SIZE 12

enum { AT_VERSION = 3, AT_CHECK = 4, AT_NONCE = AT_CHECK + CHECK_SIZE };

struct beest_seal {
	uint8_t check[CHECK_SIZE];
	EVP_CIPHER_CTX *keyed;		/* has the key; never used itself, only copied */
};

/* -------------------------------------------------------------------- the keys --- */

/* HKDF of RFC 5869 with SHA-256 and no salt; one block suffices. */
static bool key_derive(const void *secret, size_t size, const char *job, const char *purpose,
		       uint8_t key[KEY_SIZE])
{
	static const uint8_t salt[KEY_SIZE];
	uint8_t extracted[KEY_SIZE], info[BEEST_KEY_MAX];
	unsigned int length = KEY_SIZE;
	size_t used;
	bool ok;

	used = (size_t)snprintf((char *)info, sizeof(info), "hb1/%s/%s", job, purpose);
	if (used >= sizeof(info))
		return false;
	info[used++] = 1;
	ok = HMAC(EVP_sha256(), salt, KEY_SIZE, secret, size, extracted, &length) &&
	     HMAC(EVP_sha256(), extracted, KEY_SIZE, info, used, key, &length);
	OPENSSL_cleanse(extracted, sizeof(extracted));

	return ok;
}

/*
 * The check value distinguishes secrets.  It is the beginning of another derived key, so it
 * reveals nothing of the one that seals.
 */
static bool seal_fill(struct beest_seal *seal, const void *secret, size_t size, const char *job)
{
	uint8_t key[KEY_SIZE];
	bool ok;

	ok = key_derive(secret, size, job, "check", key);
	memcpy(seal->check, key, CHECK_SIZE);
	ok = ok && key_derive(secret, size, job, "record", key) &&
	     EVP_CipherInit_ex(seal->keyed, EVP_aes_256_gcm(), NULL, key, NULL, 1) == 1;
	OPENSSL_cleanse(key, sizeof(key));

	return ok;
}

int beest_seal_open(struct beest_seal **sealp, const void *secret, size_t size, const char *job)
{
	struct beest_seal *seal = calloc(1, sizeof(*seal));

	if (seal)
		seal->keyed = EVP_CIPHER_CTX_new();
	if (!seal || !seal->keyed) {
		free(seal);
		return beest_fail(ENOMEM, "no memory for a secret");
	}
	if (!seal_fill(seal, secret, size, job)) {
		beest_seal_close(seal);
		return beest_fail(EIO, "libcrypto has no AES-256-GCM or no HMAC with SHA-256 for "
				  "this process");
	}
	*sealp = seal;

	return 0;
}

void beest_seal_close(struct beest_seal *seal)
{
	if (!seal)
		return;

	EVP_CIPHER_CTX_free(seal->keyed);
	free(seal);
}

/* ---------------------------------------------------------------------- the bytes --- */

/* -EIO: libcrypto failed; -EBADMSG: the tag does not match the bytes. */
static int cipher_run(EVP_CIPHER_CTX *context, const char *name, uint8_t *bytes, size_t size,
		      bool encrypts)
{
	uint8_t *text = bytes + BEEST_SEAL_HEAD, *tag = bytes + size - BEEST_SEAL_TAG;
	int used;

	if (EVP_CipherInit_ex(context, NULL, NULL, NULL, bytes + AT_NONCE, encrypts) != 1 ||
	    EVP_CipherUpdate(context, NULL, &used, (const uint8_t *)name,
			     (int)strlen(name)) != 1 ||
	    EVP_CipherUpdate(context, text, &used, text,
			     (int)(size - BEEST_SEAL_OVERHEAD)) != 1)
		return -EIO;

	if (encrypts)
		return EVP_CipherFinal_ex(context, text, &used) == 1 &&
		       EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, BEEST_SEAL_TAG,
					   tag) == 1 ?
		       0 : -EIO;
	if (EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, BEEST_SEAL_TAG, tag) != 1)
		return -EIO;

	return EVP_CipherFinal_ex(context, text, &used) == 1 ? 0 : -EBADMSG;
}

static int seal_run(struct beest_seal *seal, const char *name, uint8_t *bytes, size_t size,
		    bool encrypts)
{
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	int ret = -EIO;

	if (!context)
		return beest_fail(ENOMEM, "no memory for a cipher");
	if (EVP_CIPHER_CTX_copy(context, seal->keyed) == 1)
		ret = cipher_run(context, name, bytes, size, encrypts);
	EVP_CIPHER_CTX_free(context);
	if (ret == -EIO)
		return beest_fail(EIO, "libcrypto refused to %s a record",
				  encrypts ? "seal" : "open");
	if (ret < 0)
		return beest_fail(-ret,
				  "a sealed record that is forged, damaged, or of another key");

	return 0;
}

int beest_seal_encrypt(struct beest_seal *seal, const char *name, uint8_t *bytes, size_t size)
{
	int ret;

	memcpy(bytes, BEEST_SEAL_LETTERS, AT_VERSION);
	bytes[AT_VERSION] = SEAL_VERSION;
	memcpy(bytes + AT_CHECK, seal->check, CHECK_SIZE);
	ret = beest_random(bytes + AT_NONCE, NONCE_SIZE);

	return ret < 0 ? ret : seal_run(seal, name, bytes, size, true);
}

/* Anyone who reads the server can write all that is in the clear here, as often as wanted. */
int beest_seal_check(const struct beest_seal *seal, const uint8_t *bytes, size_t size)
{
	const uint8_t *its = bytes + AT_CHECK, *own = seal->check;

	if (size < BEEST_SEAL_OVERHEAD)
		return beest_fail(EBADMSG, "%zu bytes are too few for a sealed record", size);
	if (bytes[AT_VERSION] != SEAL_VERSION)
		return beest_fail(EPROTONOSUPPORT, "a record sealed in version %d; this library "
				  "understands version %d only", bytes[AT_VERSION], SEAL_VERSION);
	if (memcmp(its, own, CHECK_SIZE) != 0)
		return beest_fail(EKEYREJECTED, "a record sealed with another secret (check value "
				  "%02x%02x%02x%02x, the local one is %02x%02x%02x%02x)", its[0],
				  its[1], its[2], its[3], own[0], own[1], own[2], own[3]);
	if (memmem(bytes + 1, size - 1, bytes, AT_NONCE))
		return beest_fail(EBADMSG, "not a sealed record: it contains the beginning of "
				  "another");

	return 0;
}

int beest_seal_decrypt(struct beest_seal *seal, const char *name, uint8_t *bytes, size_t size)
{
	int ret = beest_seal_check(seal, bytes, size);

	return ret < 0 ? ret : seal_run(seal, name, bytes, size, false);
}
