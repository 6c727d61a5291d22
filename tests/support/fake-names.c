/* SPDX-License-Identifier: MIT */
/* fake-names.c - see fake-names.h */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/fake-names.h"

typedef int ask_function(const char *host, const char *port, const struct addrinfo *hints,
			 struct addrinfo **found);

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char addresses[256];
	int error, cause;
	bool held;
	int asked, answered;
} names = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static ask_function *real_service(void)
{
	return (ask_function *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
}

/* The list of all addresses: each is resolved alone, as a number. */
static int addresses_list(const char *port, const struct addrinfo *hints, struct addrinfo **found)
{
	struct addrinfo numeric = *hints, **end = found;
	char copy[sizeof(names.addresses)], *one, *rest = NULL;
	int ret = 0;

	numeric.ai_flags |= AI_NUMERICHOST;
	strcpy(copy, names.addresses);
	*found = NULL;
	for (one = strtok_r(copy, ",", &rest); one && !ret; one = strtok_r(NULL, ",", &rest)) {
		ret = real_service()(one, port, &numeric, end);
		while (!ret && *end)
			end = &(*end)->ai_next;
	}
	return ret;
}

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		struct addrinfo **found)
{
	int ret, cause;

	if (!host || strcmp(host, FAKE_NAMES_HOST) != 0 || !hints ||
	    (hints->ai_flags & AI_NUMERICHOST))
		return real_service()(host, port, hints, found);

	pthread_mutex_lock(&names.lock);
	names.asked++;
	pthread_cond_broadcast(&names.changed);
	while (names.held)
		pthread_cond_wait(&names.changed, &names.lock);
	ret = names.error ? names.error : addresses_list(port, hints, found);
	cause = names.cause;
	names.answered++;
	pthread_mutex_unlock(&names.lock);
	errno = cause;
	return ret;
}

void fake_names_say(const char *addresses)
{
	pthread_mutex_lock(&names.lock);
	snprintf(names.addresses, sizeof(names.addresses), "%s", addresses);
	names.error = names.cause = 0;
	pthread_mutex_unlock(&names.lock);
}

void fake_names_fail(int error, int cause)
{
	pthread_mutex_lock(&names.lock);
	names.error = error;
	names.cause = cause;
	pthread_mutex_unlock(&names.lock);
}

void fake_names_hold(bool hold)
{
	pthread_mutex_lock(&names.lock);
	names.held = hold;
	pthread_cond_broadcast(&names.changed);
	pthread_mutex_unlock(&names.lock);
}

static int names_count(const int *which)
{
	int count;

	pthread_mutex_lock(&names.lock);
	count = *which;
	pthread_mutex_unlock(&names.lock);
	return count;
}

int fake_names_asked(void)
{
	return names_count(&names.asked);
}

int fake_names_answered(void)
{
	return names_count(&names.answered);
}
