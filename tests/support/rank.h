/* SPDX-License-Identifier: MIT */
/*
 * rank.h - opens one rank's context, as tests do
 *
 * Owns the spelling of options, and a limit that a slow machine never reaches.  Knows nothing of
 * what the rank does, nor of the environment.
 */
#ifndef TESTS_RANK_H
#define TESTS_RANK_H

#include "hartebeest.h"

#define RANK_PATIENCE_S 60
#define RANK_PATIENCE "60s"		/* the default limit of every wait */
#define RANK_MORE 8

struct rank_settings {
	const char *servers;
	const char *job;		/* NULL: not set */
	int size;			/* 0: rank and size are not set */
	int rank;
	const char *timeout;		/* NULL: RANK_PATIENCE */
	const char *device;		/* NULL: not set */
	const char *more[RANK_MORE];	/* "key=value"; these override the ones above */
};

/* Like hartebeest_open(). */
int rank_open(struct hartebeest_context **hb, const struct rank_settings *settings);

#endif
