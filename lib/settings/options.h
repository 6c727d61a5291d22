/* SPDX-License-Identifier: MIT */
/*
 * options.h - every setting, the sources it may have, and the one it has
 *
 * Owns the meaning of every key of hartebeest.json(5), of the HARTEBEEST_*
 * environment and of the arguments of hartebeest_open(3).  Knows nothing of
 * devices, servers or queue pairs: it only fills a struct.
 *
 * Precedence, decided in beest_options_load() and nowhere else:
 * default < JSON file < environment < argument.
 */
#ifndef BEEST_OPTIONS_H
#define BEEST_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/parse.h"

/* The value of an integer option that is left to the library ("auto"). */
#define BEEST_AUTO INT64_C(-1)

/* This process takes no rank, whatever its launcher states ("none"). */
#define BEEST_RANK_NONE INT64_C(-2)

/* Index into beest_options.qp; the order of the prefixes rc:, uc:, ud:. */
enum beest_transport {
	BEEST_RC,
	BEEST_UC,
	BEEST_UD,
	BEEST_TRANSPORTS,
};

/* The source of the path to a peer. */
enum beest_resolver {
	BEEST_RESOLVER_RECORD,
	BEEST_RESOLVER_RDMACM,
};

/* Sections qp_init_attr and qp_attr, once for each transport. */
struct beest_qp_options {
	int64_t qp_type;		/* enum ibv_qp_type: 2 RC, 3 UC, 4 UD */
	int64_t max_send_wr;
	int64_t max_recv_wr;
	int64_t max_send_sge;
	int64_t max_recv_sge;
	int64_t max_inline_data;	/* bytes */
	int64_t path_mtu;		/* enum ibv_mtu, an upper limit; AUTO: that of the port */
	int64_t rq_psn;			/* AUTO: the peer's sq_psn */
	int64_t sq_psn;			/* AUTO: random */
	int64_t is_global;		/* 1: GRH even where not required */
	int64_t sl;
	int64_t src_path_bits;
	int64_t max_dest_rd_atomic;
	int64_t max_rd_atomic;
	int64_t min_rnr_timer;
	int64_t timeout;		/* 4.096 us * 2^timeout, 0: infinite */
	int64_t retry_cnt;
	int64_t rnr_retry;		/* 7: infinite */
	int64_t pkey;			/* AUTO: first full member */
	int64_t traffic_class;
	int64_t hop_limit;
	int64_t flow_label;		/* 20 bits; AUTO: by both queue pair numbers */
	int64_t ece;			/* 1: the options that both adapters have */
	int64_t static_rate;		/* enum ibv_rate, 0: as fast as the port */
	int64_t qkey;			/* UD */
	int64_t access_flags;		/* AUTO: all the device can do */
};

struct beest_origin {
	const char *source;		/* "default", "FILE", "environment NAME", "argument" */
	unsigned int line;		/* within the file; 0: not a file */
};

struct beest_options {
	int64_t cq_depth;			/* cq_attr.cq_depth */
	struct beest_qp_options qp[BEEST_TRANSPORTS];
	int64_t mr_huge_pages;			/* mr.huge_pages: 0 or 1 */

	char *device_name;			/* device.name: "mlx5_0:1"; NULL: first active */
	char *device_gid;			/* device.gid: policy text, default "auto" */
	char *device_addr;			/* device.addr: local IP; NULL: not given */
	int64_t device_resolver;		/* device.resolver: enum beest_resolver */
	int64_t device_roce;			/* device.roce: enum beest_roce; NONE: auto */
	int64_t device_events;			/* device.events: 0 or 1 */
	int64_t device_family;			/* device.family: AF_INET, AF_INET6, AF_UNSPEC */

	char *servers;				/* exchange.servers; NULL: not given */
	char *secret_file;			/* exchange.secret_file; NULL: not given */
	int64_t timeout;			/* exchange.timeout, ns */
	int64_t ttl;				/* exchange.ttl, ns */
	int64_t poll_timeout;			/* poll.timeout, ns; 0: no limit */
	int64_t fetch_timeout;			/* fetch.timeout, ns; 0: no limit */

	char *participants;			/* job.participants: "0-63"; NULL: not given */
	int64_t nparticipants;			/* job.nparticipants; AUTO: not given */
	int64_t rank;				/* job.rank; AUTO: not given */
	char *job;				/* job.id; NULL: not given */

	int64_t log_level;			/* log.level: BEEST_LOG_* */
	char *log_file;				/* log.file; NULL: stderr */

	struct beest_origin *origins;		/* one per slot: see options.c */
	char *file[2];				/* JSON files read, for origins; or NULL */
	char unknown_environment[512];		/* sentence about unknown HARTEBEEST_*, or "" */
};

/*
 * @defaults, @arguments: NULL-terminated arrays of "section.key=value", or NULL.  @defaults replace
 * those of the table.  @system_file: read when it exists; NULL for none.  The file that
 * HARTEBEEST_CONF_PATH names is read after it and must exist.
 *
 * Reads all sources even when one of them fails, so that the report of the failure follows
 * the log level of a later source.  Returns the first failure: -EINVAL
 * (unknown key, bad value), -ERANGE, -ENOENT and other errno of open(2) and read(2),
 * -EBADMSG (not JSON), -EFBIG (file over 1 MiB), -ENOMEM.
 * Even then, @options holds the values that were good, for beest_options_free().
 */
int beest_options_load(struct beest_options *options, const char *const *defaults,
		       const char *system_file, const char *const *arguments);
void beest_options_free(struct beest_options *options);

/*
 * Writes the value to @text, in the form in which it may be given, and its source to
 * @source, which may be NULL.  @name: "section.key" or "section.rc:key".  Returns its length, as
 * snprintf(3) does; -ENOENT names the nearest option.
 */
int beest_options_text(const struct beest_options *options, const char *name,
		       char *text, size_t size, const char **source);

/*
 * Puts the source and name of an option before the sentence of a failure that its value caused,
 * though well-formed: "environment HARTEBEEST_GID (device.gid): ...",
 * "FILE:3: device.gid: ...".  Returns @ret.
 */
int beest_options_fail_prefix(const struct beest_options *options, int ret, const char *name);

/*
 * The same in short, behind the value in a sentence of another room: " (HARTEBEEST_GID)",
 * " (FILE:3)", " (argument device.gid)"; "" for a default.  Returns @text.
 */
#define BEEST_ORIGIN_SIZE 256
const char *beest_options_origin(const struct beest_options *options, const char *name,
				 char text[BEEST_ORIGIN_SIZE]);

/*
 * Adds the HARTEBEEST_ variables that are unknown to the sentence of a failure, once: a misspelt
 * one may be the cause, and the log may be off.  Returns @ret.
 */
int beest_options_hint(const struct beest_options *options, int ret);

/* One row per option.  hartebeest(1) and tests read them, too. */
enum beest_option_type {
	BEEST_OPTION_INT,	/* JSON integer; base 10 or 0x in text */
	BEEST_OPTION_DURATION,	/* JSON string "30s" */
	BEEST_OPTION_STRING,
	BEEST_OPTION_WORD,	/* one of a fixed list; stored as its number */
};

struct beest_option {
	const char *name;		/* "section.key" */
	const char *environment;	/* NULL: none */
	enum beest_option_type type;
	bool per_transport;		/* offset is within struct beest_qp_options */
	size_t offset;
	const char *initial;		/* text; NULL: not given */
	int64_t min, max;		/* ints and durations */
	const struct beest_word *words;	/* of an int: also allowed, the negative last; or NULL */
	bool joins;			/* words are of flags: "A|B" */
	int64_t unit;			/* of an int whose time is unit * 2^int ns; 0: no time */
	const char *called[3];		/* what people call it, for wrong names; NULL: no more */
	int (*check)(const char *text);	/* of a string that is not empty; may be NULL */
	const char *help;
};

/*
 * The rules of device.gid, in the order of enum beest_gid_rule: what precedes each in a list,
 * its word, and an example of what follows the word.
 */
#define BEEST_GID_RULES(RULE)								\
	RULE("", "auto", "")								\
	RULE(", ", "index", ":3")							\
	RULE(", ", "gid", ":fe80::1")							\
	RULE(", ", "ip", ":10.0.0.5")							\
	RULE(", ", "subnet", ":10.0.0.0/24")						\
	RULE(" or ", "netdev", ":ib0")

#define BEEST_GID_RULE_TEXT(before, word, example) before word example

/* "auto, index:3, ... or netdev:ib0" */
#define BEEST_GID_RULES_TEXT BEEST_GID_RULES(BEEST_GID_RULE_TEXT)

extern const struct beest_option beest_option_rows[];
extern const size_t beest_option_count;

#endif
