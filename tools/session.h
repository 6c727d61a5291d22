/* SPDX-License-Identifier: MIT */
/*
 * session.h - a context of the library for one command
 *
 * Owns the settings of the command line, and Ctrl-C: it ends all waits, and the command
 * then ends by the signal itself, after it has closed its context.  Knows nothing of what
 * the context is for.
 */
#ifndef TOOLS_SESSION_H
#define TOOLS_SESSION_H

#include <hartebeest.h>

#include "tools/args.h"
#include "tools/out.h"

/* -o SECTION.KEY=VALUE, of all commands but those around a program. */
extern const struct args_option session_options[];

/*
 * As hartebeest_open() with the settings of the command line.  One at a time.  Returns
 * STATUS_GOOD, or another after saying why.
 */
int session_open(struct out *out, struct hartebeest_context **hb);
void session_close(struct hartebeest_context *hb);

/*
 * The same without a word and without signals, any number at a time: to try a setting over the
 * others; NULL: none.
 */
int session_try(struct hartebeest_context **hb, const char *setting);

/* The value of @option, which is a duration with a preset, in ns. */
int64_t session_duration(const struct hartebeest_context *hb, const char *option);

/* The signal that asked this program to end; 0: none. */
int session_signal(void);

/* It was caught by a handler of the command's own; 0: none was. */
void session_caught(int number);

/* Ends this process by that signal, as shells expect. */
void session_die(void);

#endif
