/* SPDX-License-Identifier: MIT */
/*
 * seal.h - bytes that cannot be read or made without the job's secret
 *
 * Owns the keys derived from a secret and a job id, and the sealed form of
 * hartebeest-exchange(7): AES-256-GCM by libcrypto, with the name under which the bytes are
 * stored as associated data.  Knows nothing of records, nor of where a secret is from.
 *
 * Many threads and a forked child may use one seal: there is no lock.
 */
#ifndef BEEST_SEAL_H
#define BEEST_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct beest_seal;

/* Before the plain bytes: letters, version, check value and nonce.  Behind them: the tag. */
#define BEEST_SEAL_HEAD 20
#define BEEST_SEAL_TAG 16
#define BEEST_SEAL_OVERHEAD (BEEST_SEAL_HEAD + BEEST_SEAL_TAG)

/* -ENOSYS: this build has no libcrypto; -ENOMEM; -EIO: libcrypto failed. */
int beest_seal_open(struct beest_seal **seal, const void *secret, size_t size, const char *job);
void beest_seal_close(struct beest_seal *seal);

/* True when the bytes begin like a sealed record. */
#define BEEST_SEAL_LETTERS "HBE"

static inline bool beest_seal_is_on(const uint8_t *bytes, size_t size)
{
	return size >= strlen(BEEST_SEAL_LETTERS) &&
	       memcmp(bytes, BEEST_SEAL_LETTERS, strlen(BEEST_SEAL_LETTERS)) == 0;
}

/*
 * Both functions work in place: the plain bytes begin at @bytes + BEEST_SEAL_HEAD, and @size
 * includes the overhead.  -ENOMEM, -EIO, or an error of beest_random().
 */
int beest_seal_encrypt(struct beest_seal *seal, const char *name, uint8_t *bytes, size_t size);

/*
 * What can be refused without computing the seal; 0: it has to be computed.  What passes contains
 * the beginning of a sealed record of this secret once only, so two that pass overlap by less than
 * such a beginning.  By chance, a true record has a second one at one of 2^64 places.  Errors of
 * beest_seal_decrypt().
 */
int beest_seal_check(const struct beest_seal *seal, const uint8_t *bytes, size_t size);

/*
 * -EBADMSG: forged, damaged, cut short, or of another name; -EKEYREJECTED: of another secret;
 * -EPROTONOSUPPORT: of another version; -ENOMEM, -EIO: unknown, the record may be good.  After a
 * failure the bytes are useless.
 */
int beest_seal_decrypt(struct beest_seal *seal, const char *name, uint8_t *bytes, size_t size);

#endif
