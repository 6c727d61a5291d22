/* SPDX-License-Identifier: MIT */
/*
 * login.h - user and password for servers that demand them
 *
 * Owns the reading of the password file and the wiping of the password.  Knows nothing of
 * servers.
 */
#ifndef BEEST_LOGIN_H
#define BEEST_LOGIN_H

#include "lib/base/log.h"

struct beest_login {
	char *user;		/* NULL: no login */
	char *password;
};

/*
 * Takes the values of exchange.user, exchange.password_file and, without a file,
 * exchange.password; each may be NULL.  Warns if others may read or write the file.
 * -EINVAL: a user without a password or the reverse, or the file's first line is empty,
 * contains NUL or has more than 1023 bytes; errno of open(2) and read(2); -ENOMEM.
 */
int beest_login_read(struct beest_login *login, const char *user, const char *password_file,
		     const char *password, const struct beest_log *log);

/* Wipes and frees both; accepts an empty login. */
void beest_login_free(struct beest_login *login);

#endif
