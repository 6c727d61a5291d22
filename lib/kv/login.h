/* SPDX-License-Identifier: MIT */
/*
 * login.h - user and password for servers that demand them
 *
 * Owns the reading of the password's file and its wiping.  Knows nothing of servers:
 * it fills a struct.
 */
#ifndef BEEST_LOGIN_H
#define BEEST_LOGIN_H

#include "lib/base/log.h"

struct beest_login {
	char *user;		/* NULL: no login */
	char *password;
};

/*
 * From what exchange.user and exchange.password_file say, else exchange.password; each
 * may be NULL.  A file that others may read is a warning.  -EINVAL: one without the other,
 * an empty password, a NUL in it or more than 1023 bytes; errno of open(2) and read(2).
 */
int beest_login_read(struct beest_login *login, const char *user, const char *password_file,
		     const char *password, const struct beest_log *log);

/* Overwrites both; accepts an empty one. */
void beest_login_free(struct beest_login *login);

#endif
