/* SPDX-License-Identifier: MIT */
/* options.c - a settings file and arguments: values within range, or a reason */
#include "config.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/settings/options.h"
#include "tests/fuzz/fuzz.h"

#define ARGUMENTS 4

/* Every option has a text that is cut to fit, whatever its value. */
static void are_readable(const struct beest_options *options)
{
	char name[128], text[64];
	const char *source, *dot;
	size_t i;

	for (i = 0; i < beest_option_count; i++) {
		dot = strchr(beest_option_rows[i].name, '.') + 1;
		snprintf(name, sizeof(name), "%.*s%s%s", (int)(dot - beest_option_rows[i].name),
			 beest_option_rows[i].name,
			 beest_option_rows[i].per_transport ? "rc:" : "", dot);
		HOLDS(beest_options_text(options, name, text, sizeof(text), &source) >= 0);
		HOLDS(strlen(text) < sizeof(text) && source);
	}
}

static void load(const char *file, const char *const *arguments)
{
	struct beest_options options;
	int ret = beest_options_load(&options, NULL, file, arguments);

	HOLDS(ret <= 0);
	if (ret < 0)
		HOLDS(beest_error_text()[0]);
	are_readable(&options);
	beest_options_free(&options);
}

static void load_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("settings", MFD_CLOEXEC);
	char path[64];

	HOLDS(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	load(path, NULL);
	close(fd);
}

static void load_arguments(const uint8_t *data, size_t size)
{
	char *arguments[ARGUMENTS + 1] = { NULL };
	char *copy = fuzz_cut(data, size, arguments, ARGUMENTS);

	load(NULL, (const char *const *)arguments);
	free(copy);
}

/* Input with a leading brace is a file; other input has an argument on each line. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	clearenv();
	if (size && data[0] == '{')
		load_file(data, size);
	else
		load_arguments(data, size);
	return 0;
}
