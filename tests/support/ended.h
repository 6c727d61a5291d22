/* SPDX-License-Identifier: MIT */
/*
 * ended.h - what a test program prints when it is ended as hung
 *
 * Owns the handler of SIGTERM, by which tests/run-tests ends a program without progress.
 */
#ifndef TESTS_ENDED_H
#define TESTS_ENDED_H

/* Calls @print before SIGTERM ends this process; not in its children. */
void ended_prints(void (*print)(void));

#endif
