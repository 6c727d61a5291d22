/* SPDX-License-Identifier: MIT */
/*
 * seal.c - sealed records: nobody reads or forges them, and refusals say why
 *
 * promise: hartebeest-exchange(7)
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef HAVE_CRYPTO
#include <openssl/evp.h>
#endif

#include "lib/base/text.h"
#include "lib/rendezvous/record.h"
#include "lib/seal/seal.h"
#include "lib/seal/secret.h"
#include "tests/support/page.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define KEY "hb1/demo/msg/sealed"
#define FORGED "a sealed record that is forged, damaged, or of another key"

/*
 * The message "hello" of hartebeest-exchange(7), with the nonce a0 ... ab, made by another
 * program.
 */
static const char hex[] =
	"48424501" "10578659" "a0a1a2a3a4a5a6a7a8a9aaab"
	"a4366ccfe307b4553e624d94a71c29696253da9cded6409a2fc8b1ce1f5a379dd166ac"
	"98051f8df25edaef547db185fd69d80c";

#define VECTOR_SIZE (sizeof(hex) / 2)
#define HELLO_SIZE (30 + 5 + BEEST_SEAL_OVERHEAD)

static struct beest_seal *seal;

static struct beest_seal *seal_of(const char *secret, const char *job)
{
	struct beest_seal *made = NULL;

	assert_int_equal(beest_seal_open(&made, secret, strlen(secret), job), 0);
	return made;
}

static int setup(void **state)
{
	(void)state;
	seal = seal_of(SECRET, "demo");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	beest_seal_close(seal);
	return 0;
}

static size_t hello_make(struct beest_seal *by, const char *key, uint8_t bytes[HELLO_SIZE])
{
	struct beest_record record = {
		.kind = BEEST_KIND_MESSAGE, .rank = 0, .body = (const uint8_t *)"hello", .size = 5,
	};
	int ret;

	memset(bytes, 0, HELLO_SIZE);
	for (ret = 0; ret < BEEST_INCARNATION_SIZE; ret++)
		record.incarnation.bytes[ret] = (uint8_t)ret;
	ret = beest_record_encode(by, &record, key, bytes, HELLO_SIZE);
	assert_in_range(ret, 35, HELLO_SIZE);
	return (size_t)ret;
}

/* Decodes a copy of exactly that size, so that a checker sees every byte read too far. */
static int decode(struct beest_seal *by, const char *key, const uint8_t *bytes, size_t size,
		  char text[8])
{
	uint8_t *exact = malloc(size ? size : 1);
	struct beest_record record;
	int ret;

	memcpy(exact, bytes, size);
	memset(&record, 0x55, sizeof(record));
	ret = beest_record_decode(by, exact, size, BEEST_KIND_MESSAGE, key, &record);
	if (ret == 0)
		snprintf(text, 8, "%.*s", (int)record.size, (const char *)record.body);
	else
		assert_true(record.size == (size_t)UINT64_C(0x5555555555555555));
	free(exact);
	return ret;
}

static void hello_is(const uint8_t *bytes, size_t size)
{
	char text[8];

	assert_int_equal(decode(seal, KEY, bytes, size, text), 0);
	assert_string_equal(text, "hello");
}

/* --------------------------------------------------------------------------- the format --- */

static void vector_bytes(uint8_t bytes[VECTOR_SIZE])
{
	unsigned int byte;
	size_t i;

	for (i = 0; i < VECTOR_SIZE; i++) {
		assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
		bytes[i] = (uint8_t)byte;
	}
}

static void wire_form_is_fixed(void **state)
{
	char *page = page_read(PAGE), shown[PAGE_HEX];
	uint8_t bytes[VECTOR_SIZE];

	(void)state;
	page_hex(page, KEY, shown);
	assert_string_equal(shown, hex);
	free(page);
	vector_bytes(bytes);
	assert_int_equal(VECTOR_SIZE, HELLO_SIZE);
	hello_is(bytes, VECTOR_SIZE);
}

static bool bytes_have(const uint8_t *bytes, size_t size, const void *wanted, size_t length)
{
	size_t i;

	for (i = 0; i + length <= size; i++)
		if (memcmp(bytes + i, wanted, length) == 0)
			return true;
	return false;
}

/* Shows neither the message nor its author, and not the same bytes twice. */
static void a_reader_of_the_server_learns_nothing(void **state)
{
	static const uint8_t incarnation[] = { 4, 5, 6, 7, 8 };
	uint8_t first[HELLO_SIZE], second[HELLO_SIZE];
	size_t i, same = 0;

	(void)state;
	assert_int_equal(hello_make(seal, KEY, first), HELLO_SIZE);
	assert_int_equal(hello_make(seal, KEY, second), HELLO_SIZE);
	assert_false(bytes_have(first, HELLO_SIZE, "hello", 5));
	assert_false(bytes_have(first, HELLO_SIZE, "HBR", 3));
	assert_false(bytes_have(first, HELLO_SIZE, incarnation, sizeof(incarnation)));
	assert_false(bytes_have(first, HELLO_SIZE, SECRET, 4));
	assert_memory_equal(first, second, 8);
	for (i = 8; i < HELLO_SIZE; i++)
		same += first[i] == second[i];
	assert_in_range(same, 0, 10);
	hello_is(first, HELLO_SIZE);
	hello_is(second, HELLO_SIZE);
}

static void every_length_comes_back(void **state)
{
	static uint8_t body[70000], bytes[sizeof(body) + BEEST_RECORD_EMPTY_MAX];
	static const size_t sizes[] = { 0, 1, 15, 16, 17, 101, 4096, sizeof(body) };
	struct beest_record out, in = { .kind = BEEST_KIND_QP, .flags = 0x0a, .rank = -1 };
	size_t i;
	int ret;

	(void)state;
	for (i = 0; i < BEEST_COUNT(sizes); i++) {
		memset(body, (int)i + 1, sizes[i]);
		in.body = body;
		in.size = sizes[i];
		assert_int_equal(beest_record_encode(seal, &in, KEY, bytes,
						     sizes[i] + BEEST_RECORD_EMPTY_MAX - 1),
				 -EMSGSIZE);
		ret = beest_record_encode(seal, &in, KEY, bytes, sizeof(bytes));
		assert_int_equal(ret, sizes[i] + beest_record_overhead(seal));
		assert_int_equal(beest_record_decode(seal, bytes, (size_t)ret, BEEST_KIND_ANY, KEY,
						     &out), 0);
		assert_int_equal(out.kind, BEEST_KIND_QP);
		assert_int_equal(out.flags, 0x0a);
		assert_int_equal(out.size, sizes[i]);
		assert_memory_equal(out.body, body, sizes[i]);
	}
}

static void a_sealed_record_can_be_closed(void **state)
{
	uint8_t bytes[HELLO_SIZE];
	struct beest_record record;

	(void)state;
	hello_make(seal, KEY, bytes);
	assert_int_equal(beest_record_close(seal, bytes, HELLO_SIZE, KEY), 0);
	assert_int_equal(beest_record_decode(seal, bytes, HELLO_SIZE, BEEST_KIND_ANY, KEY, &record),
			 0);
	assert_int_equal(record.flags, BEEST_RECORD_CLOSED);
	assert_int_equal(record.size, 5);
	assert_memory_equal(record.body, "hello", 5);
	assert_int_equal(beest_record_close(seal, bytes, HELLO_SIZE, KEY), -EBADMSG);
}

/* ------------------------------------------------------------------------------- refusals --- */

/* The refusal of a flipped bit depends on its field: letters, version, check value, or others. */
static int refusal_of(size_t at)
{
	return at < 3 ? -EBADMSG : at < 4 ? -EPROTONOSUPPORT : at < 8 ? -EKEYREJECTED : -EBADMSG;
}

static void every_flipped_bit_is_refused(void **state)
{
	uint8_t bytes[HELLO_SIZE];
	char text[8];
	size_t at, bit;

	(void)state;
	hello_make(seal, KEY, bytes);
	for (at = 0; at < HELLO_SIZE; at++)
		for (bit = 0; bit < 8; bit++) {
			bytes[at] ^= (uint8_t)(1 << bit);
			assert_int_equal(decode(seal, KEY, bytes, HELLO_SIZE, text),
					 refusal_of(at));
			if (at >= 8)
				assert_error_is(FORGED);
			bytes[at] ^= (uint8_t)(1 << bit);
		}
	hello_is(bytes, HELLO_SIZE);
}

static void every_truncation_is_refused(void **state)
{
	uint8_t bytes[HELLO_SIZE + 1] = { 0 };
	char text[8];
	size_t size;

	(void)state;
	hello_make(seal, KEY, bytes);
	for (size = 0; size < HELLO_SIZE; size++)
		assert_int_equal(decode(seal, KEY, bytes, size, text), -EBADMSG);
	assert_int_equal(decode(seal, KEY, bytes, HELLO_SIZE + 1, text), -EBADMSG);
	assert_int_equal(decode(seal, KEY, bytes, BEEST_SEAL_OVERHEAD, text), -EBADMSG);
	assert_error_is(FORGED);
	assert_int_equal(decode(seal, KEY, bytes, BEEST_SEAL_OVERHEAD - 1, text), -EBADMSG);
	assert_error_is("35 bytes are too few for a sealed record");
}

/* Bytes sealed with the right secret that are too short for a record, or none. */
static void sealed_nonsense_is_refused(void **state)
{
	uint8_t bytes[HELLO_SIZE] = { 0 };
	char text[8];
	size_t size;

	(void)state;
	for (size = 0; size <= HELLO_SIZE - BEEST_SEAL_OVERHEAD; size++) {
		memset(bytes, 'x', sizeof(bytes));
		assert_int_equal(beest_seal_encrypt(seal, KEY, bytes, BEEST_SEAL_OVERHEAD + size),
				 0);
		assert_int_equal(decode(seal, KEY, bytes, BEEST_SEAL_OVERHEAD + size, text),
				 -EBADMSG);
	}
	assert_error_is("not a record of hartebeest");
}

/* An attacker moves a genuine record of rank 1 to the key of rank 2. */
static void a_record_of_another_key_is_refused(void **state)
{
	uint8_t bytes[HELLO_SIZE];
	char text[8];

	(void)state;
	hello_make(seal, KEY, bytes);
	assert_int_equal(decode(seal, "hb1/demo/msg/sealee", bytes, HELLO_SIZE, text), -EBADMSG);
	assert_error_is(FORGED);
	assert_int_equal(decode(seal, "hb1/demo/msg/seale", bytes, HELLO_SIZE, text), -EBADMSG);
	hello_is(bytes, HELLO_SIZE);
}

static void another_secret_is_named(void **state)
{
	struct beest_seal *other = seal_of("0123456789abcdef0123456789abcdeg", "demo");
	struct beest_seal *longer = seal_of(SECRET "0", "demo");
	uint8_t bytes[HELLO_SIZE];
	char text[8];

	(void)state;
	hello_make(seal, KEY, bytes);
	assert_int_equal(decode(other, KEY, bytes, HELLO_SIZE, text), -EKEYREJECTED);
	assert_error_has("a record sealed with another secret (check value 10578659, the local one "
			 "is ");
	assert_int_equal(decode(longer, KEY, bytes, HELLO_SIZE, text), -EKEYREJECTED);
	beest_seal_close(other);
	beest_seal_close(longer);
}

/* The same secret makes a different key in another job, so records cannot be moved there. */
static void another_job_is_another_key(void **state)
{
	struct beest_seal *other = seal_of(SECRET, "demo2");
	uint8_t bytes[HELLO_SIZE], check[4];
	char text[8];

	(void)state;
	hello_make(seal, KEY, bytes);
	memcpy(check, bytes + 4, sizeof(check));
	hello_make(other, KEY, bytes);
	assert_int_equal(decode(seal, KEY, bytes, HELLO_SIZE, text), -EKEYREJECTED);
	memcpy(bytes + 4, check, sizeof(check));
	assert_int_equal(decode(seal, KEY, bytes, HELLO_SIZE, text), -EBADMSG);
	assert_error_is(FORGED);
	beest_seal_close(other);
}

static void unsealed_records_are_refused(void **state)
{
	uint8_t bytes[HELLO_SIZE];
	size_t size = hello_make(NULL, KEY, bytes);
	char text[8];

	(void)state;
	assert_int_equal(size, 35);
	assert_int_equal(decode(NULL, KEY, bytes, size, text), 0);
	assert_int_equal(decode(seal, KEY, bytes, size, text), -EKEYREJECTED);
	assert_error_is("a record that is not sealed: its author has no secret");
	bytes[20] ^= 1;
	assert_int_equal(decode(seal, KEY, bytes, size, text), -EBADMSG);
	assert_error_has("a damaged record, or one of another key");
}

static void without_a_secret_a_sealed_record_is_named(void **state)
{
	uint8_t bytes[VECTOR_SIZE];
	char text[8];

	(void)state;
	vector_bytes(bytes);
	assert_int_equal(decode(NULL, KEY, bytes, HELLO_SIZE, text), -ENOKEY);
	assert_error_is("a sealed record, but this process has no secret: set "
			"HARTEBEEST_SECRET_FILE (exchange.secret_file)");
}

/* ------------------------------------------------------------------- threads, processes --- */

#define THREADS 12
#define ROUNDS 500

static void *seal_and_open(void *data)
{
	const char *key = data;
	uint8_t bytes[HELLO_SIZE];
	struct beest_record record;
	intptr_t good = 0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		struct beest_record in = { .kind = BEEST_KIND_MESSAGE, .size = 5,
					   .body = (const uint8_t *)"hello" };

		good += beest_record_encode(seal, &in, key, bytes, sizeof(bytes)) == HELLO_SIZE &&
			beest_record_decode(seal, bytes, HELLO_SIZE, BEEST_KIND_ANY, key,
					    &record) == 0 &&
			memcmp(record.body, "hello", 5) == 0;
	}
	return (void *)good;
}

/* There are more threads than kept contexts. */
static void many_threads_share_a_secret(void **state)
{
	static char keys[THREADS][32];
	pthread_t threads[THREADS];
	void *good;
	int i;

	(void)state;
	for (i = 0; i < THREADS; i++) {
		snprintf(keys[i], sizeof(keys[i]), "hb1/demo/msg/%d", i);
		assert_int_equal(pthread_create(&threads[i], NULL, seal_and_open, keys[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &good);
		assert_int_equal((intptr_t)good, ROUNDS);
	}
}

/* If two processes drew the same nonce, the difference of their texts would show. */
static void a_forked_child_draws_other_nonces(void **state)
{
	uint8_t ours[HELLO_SIZE], theirs[HELLO_SIZE] = { 0 };
	int ends[2], status;
	pid_t child;

	(void)state;
	hello_make(seal, KEY, ours);
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		hello_make(seal, KEY, theirs);
		_exit(write(ends[1], theirs, HELLO_SIZE) != HELLO_SIZE);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(read(ends[0], theirs, HELLO_SIZE), HELLO_SIZE);
	close(ends[0]);
	close(ends[1]);
	hello_make(seal, KEY, ours);
	assert_int_not_equal(memcmp(ours + 8, theirs + 8, 12), 0);
	hello_is(theirs, HELLO_SIZE);
}

/* ----------------------------------------------------------------------------- the file --- */

static char path[SCRATCH_SIZE];

static int file_setup(void **state)
{
	(void)state;
	return close(scratch_file(path, "hartebeest-secret"));
}

static int file_teardown(void **state)
{
	(void)state;
	return unlink(path);
}

static int read_back(const void *bytes, size_t size, struct beest_secret *secret)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
	memset(secret, 0, sizeof(*secret));
	return beest_secret_read(secret, path);
}

static void secret_is(const char *text, size_t size)
{
	struct beest_secret secret;

	assert_int_equal(read_back(text, strlen(text), &secret), 0);
	assert_int_equal(secret.size, size);
	assert_memory_equal(secret.bytes, text, size);
	beest_text_clear(&secret, sizeof(secret));
	assert_int_equal(secret.size, 0);
	assert_int_equal(secret.bytes[0], 0);
}

/* Editors and `openssl rand -hex 32` end a file with a newline, printf does not. */
static void an_end_of_line_does_not_count(void **state)
{
	static const uint8_t binary[16] = { 0, '\n', 1, [15] = 0 };
	struct beest_secret secret;

	(void)state;
	secret_is(SECRET, 32);
	secret_is(SECRET "\n", 32);
	secret_is(SECRET "\r\n", 32);
	secret_is("two lines are\none secret\n", 24);
	assert_int_equal(read_back(binary, sizeof(binary), &secret), 0);
	assert_int_equal(secret.size, 16);
	assert_memory_equal(secret.bytes, binary, 16);
}

static void a_secret_has_a_size(void **state)
{
	static char text[BEEST_SECRET_MAX + 4];
	struct beest_secret secret;

	(void)state;
	assert_int_equal(read_back("", 0, &secret), -EINVAL);
	assert_error_has("' has 0 bytes; a secret needs at least 16 random bytes");
	assert_int_equal(read_back("123456789012345\n\n", 17, &secret), -EINVAL);
	assert_error_has("' has 15 bytes; a secret needs at least 16 random bytes");
	assert_null(strstr(beest_error_text(), "1234"));
	secret_is(unit_repeat(text, 'x', BEEST_SECRET_MAX), BEEST_SECRET_MAX);
	secret_is(strcat(text, "\r\n"), BEEST_SECRET_MAX);
	assert_int_equal(read_back(strcat(text, "\n"), BEEST_SECRET_MAX + 3, &secret), -EINVAL);
	unit_repeat(text, 'x', BEEST_SECRET_MAX + 1);
	assert_int_equal(read_back(text, BEEST_SECRET_MAX + 1, &secret), -EINVAL);
	assert_error_has("' has more than 1024 bytes");
}

static void others_must_not_read_it(void **state)
{
	static const mode_t modes[] = { 0640, 0620, 0610, 0604, 0602, 0777 };
	struct beest_secret secret;
	size_t i;

	(void)state;
	assert_int_equal(read_back(SECRET, 32, &secret), 0);
	for (i = 0; i < BEEST_COUNT(modes); i++) {
		assert_int_equal(chmod(path, modes[i]), 0);
		assert_int_equal(beest_secret_read(&secret, path), -EPERM);
		assert_error_has("': users other than its owner may read or write it (mode ");
		assert_error_has("; run chmod 600");
	}
	assert_int_equal(chmod(path, 0400), 0);
	assert_int_equal(beest_secret_read(&secret, path), 0);
}

static void the_file_must_be_private(void **state)
{
	struct beest_secret secret;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(read_back(SECRET, 32, &secret), 0);
	assert_int_equal(chown(path, 1, (gid_t)-1), 0);
	assert_int_equal(beest_secret_read(&secret, path), -EPERM);
	assert_error_has("' belongs to user 1, but this process runs as user 0 and needs a file of "
			 "its own");
}

static void irregular_files_are_named(void **state)
{
	struct beest_secret secret;

	(void)state;
	assert_int_equal(beest_secret_read(&secret, "/no/such/file"), -ENOENT);
	assert_error_is("'/no/such/file': No such file or directory; all nodes of a job must "
			"share the folder of its secret: give hartebeest serve one by "
			"--secret-dir, or --no-secret");
	assert_int_equal(beest_secret_read(&secret, "/"), -EINVAL);
	assert_error_is("'/' is not a regular file");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(beest_secret_read(&secret, path), -EINVAL);
	assert_error_has("' is not a regular file");
}

/* -------------------------------------------------------------- a libcrypto that fails --- */

#ifdef HAVE_CRYPTO

static bool new_fails, copy_fails;

/* Stands before libcrypto's own. */
EVP_CIPHER_CTX *EVP_CIPHER_CTX_new(void)
{
	EVP_CIPHER_CTX *(*own)(void) = (EVP_CIPHER_CTX *(*)(void))dlsym(RTLD_NEXT, __func__);

	return new_fails ? NULL : own();
}

int EVP_CIPHER_CTX_copy(EVP_CIPHER_CTX *to, const EVP_CIPHER_CTX *from)
{
	int (*own)(EVP_CIPHER_CTX *, const EVP_CIPHER_CTX *) =
		(int (*)(EVP_CIPHER_CTX *, const EVP_CIPHER_CTX *))dlsym(RTLD_NEXT, __func__);

	return copy_fails ? 0 : own(to, from);
}

/* A refusal is not a lack of memory. */
static void libcrypto_fails(void **state)
{
	uint8_t bytes[HELLO_SIZE];

	(void)state;
	hello_make(seal, KEY, bytes);
	copy_fails = true;
	assert_int_equal(beest_seal_encrypt(seal, KEY, bytes, sizeof(bytes)), -EIO);
	assert_error_is("libcrypto refused to seal a record");
	copy_fails = false;
	hello_make(seal, KEY, bytes);
	copy_fails = true;
	assert_int_equal(beest_seal_decrypt(seal, KEY, bytes, sizeof(bytes)), -EIO);
	assert_error_is("libcrypto refused to open a record");
	copy_fails = false;
	new_fails = true;
	assert_int_equal(beest_seal_decrypt(seal, KEY, bytes, sizeof(bytes)), -ENOMEM);
	assert_error_is("no memory for a cipher");
	new_fails = false;
	assert_int_equal(beest_seal_decrypt(seal, KEY, bytes, sizeof(bytes)), 0);
}

#else
static void libcrypto_fails(void **state)
{
	(void)state;
	skip();
}
#endif

/* ------------------------------------------------------------------- without libcrypto --- */

static void a_secret_is_refused_with_the_reason(void **state)
{
	(void)state;
	assert_int_equal(beest_seal_open(&seal, SECRET, 32, "demo"), -ENOSYS);
	assert_error_is("this build of libhartebeest cannot seal records: it was configured "
			"without libcrypto (--with-openssl)");
	assert_null(seal);
}

#ifdef HAVE_CRYPTO
#define SEALS 1
#else
#define SEALS 0
#endif

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define FILE_TEST(test) cmocka_unit_test_setup_teardown(test, file_setup, file_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wire_form_is_fixed),
		TEST(a_reader_of_the_server_learns_nothing),
		TEST(every_length_comes_back),
		TEST(a_sealed_record_can_be_closed),
		TEST(every_flipped_bit_is_refused),
		TEST(every_truncation_is_refused),
		TEST(sealed_nonsense_is_refused),
		TEST(a_record_of_another_key_is_refused),
		TEST(another_secret_is_named),
		TEST(another_job_is_another_key),
		TEST(unsealed_records_are_refused),
		TEST(without_a_secret_a_sealed_record_is_named),
		TEST(libcrypto_fails),
		TEST(many_threads_share_a_secret),
		TEST(a_forked_child_draws_other_nonces),
	};
	const struct CMUnitTest without[] = {
		cmocka_unit_test(a_secret_is_refused_with_the_reason),
		cmocka_unit_test(without_a_secret_a_sealed_record_is_named),
	};
	const struct CMUnitTest files[] = {
		FILE_TEST(an_end_of_line_does_not_count),
		FILE_TEST(a_secret_has_a_size),
		FILE_TEST(others_must_not_read_it),
		FILE_TEST(the_file_must_be_private),
		FILE_TEST(irregular_files_are_named),
	};
	int failed = cmocka_run_group_tests_name("file", files, NULL, NULL);

	if (SEALS)
		return failed + cmocka_run_group_tests_name("seal", tests, NULL, NULL);

	return failed + cmocka_run_group_tests_name("without libcrypto", without, NULL, NULL);
}
