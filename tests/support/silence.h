/* SPDX-License-Identifier: MIT */
/*
 * silence.h - a server that is well is given the time that a busy machine needs
 *
 * The library waits for the answer to a single look for a quarter of a second.  A busy machine may
 * take longer, and a test that counts on the answer would fail.  So poll(2) of the library on a
 * socket, for which libfake.a has its own, waits for a minute, unless a server of the test is
 * silent on purpose.  Owns the number of these, which all processes of a test share.
 */
#ifndef TESTS_SILENCE_H
#define TESTS_SILENCE_H

#include <poll.h>

/* A server becomes silent, slow or odd; it ends, or is as others again. */
void silence_begin(void);
void silence_end(void);

/* As poll(2) of one descriptor. */
int silence_poll(struct pollfd *fd, int ms);

#endif
