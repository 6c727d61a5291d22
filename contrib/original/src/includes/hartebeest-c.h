/* SPDX-License-Identifier: MIT */
/* hartebeest-c.h - where programs for the original look for it; the installed header of that name */
#pragma GCC system_header	/* no warning that #include_next is an extension */
#include_next <hartebeest-c.h>
