/* SPDX-License-Identifier: MIT */
/*
 * fake-names.h - a name service that a test steers
 *
 * Defines getaddrinfo(3), which answers questions for the host "cache" as the test says, and
 * passes all others on.  May be changed while threads ask.
 */
#ifndef TESTS_FAKE_NAMES_H
#define TESTS_FAKE_NAMES_H

#include <stdbool.h>

#define FAKE_NAMES_HOST "cache"

/* "127.0.0.1,::1": the addresses of the host, in this order, from now on. */
void fake_names_say(const char *addresses);

/* From now on, it fails with this EAI_... and, unless 0, this errno. */
void fake_names_fail(int error, int cause);

/* From now on, questions are not answered; false: those that wait are, too. */
void fake_names_hold(bool hold);

/* How many questions have been asked, and how many have been answered. */
int fake_names_asked(void);
int fake_names_answered(void);

#endif
