/* SPDX-License-Identifier: MIT */
/*
 * sentence.h - what was seen of a server that gives no proper answer
 *
 * Each kind of trouble has one sentence.  hartebeest doctor chooses its cure by it.
 */
#ifndef BEEST_SENTENCE_H
#define BEEST_SENTENCE_H

#include "lib/base/parse.h"

#define BEEST_KV_REFUSED "connection refused: no memcached listens there"
#define BEEST_KV_UNANSWERED "no answer to a connection: a firewall that drops packets, a wrong " \
	"address, or a host that is down"
/* Memcached before 1.6 leaves connections beyond its -c waiting in the kernel. */
#define BEEST_KV_SILENT "silent: it takes connections but does not answer (stopped, " \
	"overloaded, or all its connections are in use)"
#define BEEST_KV_LATE "the rest of its answer did not arrive in time"
#define BEEST_KV_CLOSED "the connection was closed (a server with too many connections, or one " \
	"that demands a SASL login, does that too)"
#define BEEST_KV_LOGIN "it demands a login (memcached -S or -Y), but " BEEST_NO_LOGIN
#define BEEST_KV_CLOSES "it closes every connection without an answer"
#define BEEST_KV_NO_PORT "no local port is free for a connection there, or no local address " \
	"leads there"
#define BEEST_KV_NO_SCOPE "a link-local address needs the interface that leads there: " \
	"fe80::77%eth0"

#endif
