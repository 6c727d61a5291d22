/* SPDX-License-Identifier: MIT */
/*
 * choice.h - which server of the list holds a key
 *
 * Owns the choice by highest random weight over the servers' configured text, so that
 * ranks that resolve a name to different addresses still agree.  Pure.  Knows nothing of
 * addresses or connections.
 */
#ifndef BEEST_CHOICE_H
#define BEEST_CHOICE_H

#include <stddef.h>
#include <stdint.h>

struct beest_choice {
	const char *text;	/* as configured */
	uint64_t hash;		/* of the text */
};

/* @text must outlive @server. */
void beest_choice_set(struct beest_choice *server, const char *text);

/* The index of the server that holds @key; @count: at least 1. */
size_t beest_choice_of(const struct beest_choice *servers, size_t count, const char *key);

/*
 * The same for every rank with the same list, in any order.  Also the same for all lists of
 * one server: it holds all keys, whatever name a rank knows it by.
 */
uint64_t beest_choice_digest(const struct beest_choice *servers, size_t count);

#endif
