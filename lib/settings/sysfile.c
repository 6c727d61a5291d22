/* SPDX-License-Identifier: MIT */
/* sysfile.c - see sysfile.h */
#include "config.h"

#include "lib/settings/sysfile.h"

/* Set by configure. */
#ifndef BEEST_SYSTEM_FILE
#error "BEEST_SYSTEM_FILE is to be defined as SYSCONFDIR/hartebeest.json"
#endif

const char beest_sysfile_path[] = BEEST_SYSTEM_FILE;
