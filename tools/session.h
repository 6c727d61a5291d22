/* SPDX-License-Identifier: MIT */
/*
 * session.h - a context of the library for one command
 *
 * Owns the settings of the command line, and Ctrl-C, which ends all waits: the command then
 * closes its context and dies of the signal.  Knows nothing of what the context is for.
 */
#ifndef TOOLS_SESSION_H
#define TOOLS_SESSION_H

#include <hartebeest.h>

#include "tools/args.h"
#include "tools/out.h"

/* -o SECTION.KEY=VALUE, of all commands but those that run a program. */
extern const struct args_option session_options[];

/*
 * As hartebeest_open() with the settings of the command line.  One at a time.  Returns
 * STATUS_GOOD, or another status after reporting why.
 */
int session_open(struct out *out, struct hartebeest_context **hb);

/* As session_open(), without the rank that another process of the job may have. */
int session_open_unranked(struct out *out, struct hartebeest_context **hb);

void session_close(struct hartebeest_context *hb);

/*
 * The same without reports and signals, any number at a time.  @more: settings that override
 * those of the command line, up to SESSION_MORE, which NULL ends.  Returns as hartebeest_open().
 */
#define SESSION_MORE 4
int session_try(struct hartebeest_context **hb, const char *const *more);

/* The value of @option in ns, which must be a duration with a default. */
int64_t session_duration(const struct hartebeest_context *hb, const char *option);

/* The signal that asked this process to end; 0: none. */
int session_signal(void);

/* Sets that signal, where a command has its own handler; 0: none. */
void session_caught(int number);

/* Dies of that signal, as shells expect. */
void session_die(void);

#endif
