/* SPDX-License-Identifier: MIT */
/*
 * sysfile.c - takes the place of lib/settings/sysfile.c in tests, which may run where an
 * administrator wrote a settings file
 */
#include "config.h"

#include "lib/settings/sysfile.h"

const char beest_sysfile_path[] = "/nonexistent/hartebeest.json";
