/* SPDX-License-Identifier: MIT */
/*
 * loopback.h - whether processes of this machine reach each other at 127.0.0.1
 */
#ifndef TESTS_LOOPBACK_H
#define TESTS_LOOPBACK_H

#include <stdbool.h>

#define LOOPBACK_IS_DOWN "127.0.0.1 cannot be reached: the interface lo is down"

bool loopback_is_up(void);

#endif
