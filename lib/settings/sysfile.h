/* SPDX-License-Identifier: MIT */
/*
 * sysfile.h - where the settings file of the machine is
 *
 * Owns the path and nothing else, so that a program that links the library's objects can have
 * another one, as tests do.  Knows nothing of what is in the file.
 */
#ifndef BEEST_SYSFILE_H
#define BEEST_SYSFILE_H

/* SYSCONFDIR/hartebeest.json: the only settings file that is read without being named. */
extern const char beest_sysfile_path[];

#endif
