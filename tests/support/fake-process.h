/* SPDX-License-Identifier: MIT */
/*
 * fake-process.h - contexts of one process that look like those of many
 *
 * tests/support/libfakekv.a, linked before lib/libbeest.la, defines the only function of
 * lib/base/process.h, and getpid(2).  A test sets the number before it opens a context.
 */
#ifndef FAKE_PROCESS_H
#define FAKE_PROCESS_H

#include <stdint.h>

/* Equal for contexts of the same process.  Each process is on its own host. */
extern uint32_t fake_process;

#endif
