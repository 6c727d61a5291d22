/* SPDX-License-Identifier: MIT */
/*
 * secret.h - the file with the secret of a job
 *
 * Owns its folder, name and bytes, and removes those that no other process could.  Knows nothing of
 * who reads it.
 */
#ifndef TOOLS_SECRET_H
#define TOOLS_SECRET_H

#include <limits.h>

#include "tools/out.h"

#define SECRET_FOLDER ".hartebeest"	/* below the home folder */

/*
 * Makes a file in @folder; NULL: in the folder above.  @address: of the server whose records the
 * secret seals.  Returns a status, after reporting why it is not STATUS_GOOD; @path is "" then.
 */
int secret_make(struct out *out, const char *folder, const char *address, char path[PATH_MAX]);

#endif
