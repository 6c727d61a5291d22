/* SPDX-License-Identifier: MIT */
/* surroundings.c - see surroundings.h */
#include "config.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/macro.h"
#include "lib/settings/sysfile.h"
#include "tests/support/loopback.h"
#include "tests/support/scratch.h"
#include "tests/support/surroundings.h"

/* The reference takes tests/support/sysfile.c into the program. */
const char *const surroundings_sysfile = beest_sysfile_path;

extern char **environ;

/* Prefixes of variables: of the library, of the launchers that it knows, and of the language. */
static const char *const prefixes[] = {
	"HARTEBEEST_", "LC_", "COBALT_", "FLUX_", "I_MPI_", "JSM_", "LSB_", "MPISPAWN_", "MV2_",
	"OMPI_", "PALS_", "PBS_", "PMI_", "PMIX_", "SGE_", "SLURM", "TORCHELASTIC_",
};

static const char *const names[] = {
	"GROUP_WORLD_SIZE", "JOB_COMPLETION_INDEX", "JOB_ID", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
	"MASTER_ADDR", "MASTER_PORT", "MPI_LOCALRANKID", "NSLOTS", "RANK", "WORLD_SIZE",
	"IBV_FORK_SAFE", "INVOCATION_ID", "LANG", "LANGUAGE", "MEMCACHED_PORT_FILENAME",
	"NO_COLOR", "RDMAV_FORK_SAFE", "XDG_RUNTIME_DIR",
};

static bool is_left_over(const char *variable)
{
	size_t i, length = strcspn(variable, "=");

	for (i = 0; i < BEEST_COUNT(prefixes); i++)
		if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
			return true;
	for (i = 0; i < BEEST_COUNT(names); i++)
		if (length == strlen(names[i]) && !strncmp(variable, names[i], length))
			return true;
	return false;
}

static void unset_variables(void)
{
	char **variable = environ, *name;

	while (variable && *variable) {
		if (!is_left_over(*variable)) {
			variable++;
			continue;
		}
		name = strndup(*variable, strcspn(*variable, "="));
		if (!name || unsetenv(name) < 0)
			abort();
		free(name);
	}
}

/* A shell ignores SIGINT and SIGQUIT for what it starts in the background, nohup(1) SIGHUP. */
static void reset_signals(void)
{
	struct sigaction action, initial = { .sa_handler = SIG_DFL };
	sigset_t none;
	int number;

	for (number = 1; number < NSIG; number++)
		if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
			sigaction(number, &initial, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Else the first files that a test opens would be its standard streams. */
static void open_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	close(fd);
}

void surroundings_begin(void)
{
	static bool begun;

	if (begun)
		return;
	begun = true;
	unset_variables();
	reset_signals();
	open_streams();
	scratch_begin();
}

void surroundings_clear(void)
{
	const char *folder = scratch();

	clearenv();
	setenv("TMPDIR", folder, 1);
}

/* ------------------------------------------------------- what a machine may lack --- */

static void need(bool has, const char *reason)
{
	if (has)
		return;
	print_message("%s\n", reason);
	skip();
}

void surroundings_need_loopback(void)
{
	need(loopback_is_up(), LOOPBACK_IS_DOWN);
}

void surroundings_need_localhost(void)
{
	const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
	const struct sockaddr_in *in;
	struct addrinfo *found;
	bool has = false;

	if (getaddrinfo("localhost", NULL, &hints, &found) == 0) {
		in = (const struct sockaddr_in *)found->ai_addr;
		has = in->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
		freeaddrinfo(found);
	}
	need(has, "localhost is not 127.0.0.1 on this machine");
}

void surroundings_need_terminal(void)
{
	int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	char name[64];
	bool has = fd >= 0 && grantpt(fd) == 0 && unlockpt(fd) == 0 &&
		   ptsname_r(fd, name, sizeof(name)) == 0 && access(name, R_OK | W_OK) == 0;

	if (fd >= 0)
		close(fd);
	need(has, "this machine has no pseudo terminals");
}

void surroundings_need_ipv6(void)
{
	const struct sockaddr_in6 in = { .sin6_family = AF_INET6,
					 .sin6_addr = IN6ADDR_LOOPBACK_INIT };

	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&in, sizeof(in)) == 0;

	if (fd >= 0)
		close(fd);
	need(has, "::1 is no address of this machine");
}
