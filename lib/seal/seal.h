/* SPDX-License-Identifier: MIT */
/*
 * seal.h - bytes that nobody reads or makes without the job's secret
 *
 * Owns the keys that come from a secret and a job id, and the sealed form of
 * hartebeest-exchange(7): AES-256-GCM by libcrypto, with the name under which the bytes are
 * stored as associated data.  Knows nothing of records, nor where a secret comes from.
 *
 * May be used by many threads, and by a forked child: there is no lock.
 */
#ifndef BEEST_SEAL_H
#define BEEST_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct beest_seal;

/* Around the plain bytes: letters, version, check value and nonce; and the tag. */
#define BEEST_SEAL_HEAD 20
#define BEEST_SEAL_TAG 16
#define BEEST_SEAL_OVERHEAD (BEEST_SEAL_HEAD + BEEST_SEAL_TAG)

/* -ENOSYS: this build has no libcrypto; -ENOMEM; -EIO: libcrypto refuses. */
int beest_seal_open(struct beest_seal **seal, const void *secret, size_t size, const char *job);
void beest_seal_close(struct beest_seal *seal);

/* Do these bytes say that they are sealed? */
#define BEEST_SEAL_LETTERS "HBE"

static inline bool beest_seal_is_on(const uint8_t *bytes, size_t size)
{
	return size >= strlen(BEEST_SEAL_LETTERS) &&
	       memcmp(bytes, BEEST_SEAL_LETTERS, strlen(BEEST_SEAL_LETTERS)) == 0;
}

/*
 * Both work in place: @bytes has the plain ones from BEEST_SEAL_HEAD on, and @size counts the
 * overhead.  -ENOMEM, -EIO.
 */
int beest_seal_encrypt(struct beest_seal *seal, const char *name, uint8_t *bytes, size_t size);

/*
 * -EBADMSG: forged, damaged, cut short, or of another name; -EKEYREJECTED: of another secret;
 * -EPROTONOSUPPORT: another version; -ENOMEM, -EIO: it may be a good one.  The bytes are of no
 * use then.
 */
int beest_seal_decrypt(struct beest_seal *seal, const char *name, uint8_t *bytes, size_t size);

#endif
