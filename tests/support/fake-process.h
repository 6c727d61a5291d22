/* SPDX-License-Identifier: MIT */
/*
 * fake-process.h - contexts of one process that look like those of many
 *
 * tests/support/libfakekv.a, linked ahead of lib/libbeest.la, defines the one function of
 * lib/base/process.h.  Whoever opens a context sets the number first.
 */
#ifndef FAKE_PROCESS_H
#define FAKE_PROCESS_H

#include <stdint.h>

/* Equal for contexts of the same process, which are all on hosts of their own. */
extern uint32_t fake_process;

#endif
