/* SPDX-License-Identifier: MIT */
/*
 * options.c - one row per option, and the sources that fill them
 *
 * A slot is one value: row * 3 + transport.  Rows that are not per transport use
 * the first of their three slots.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/endpoint.h"
#include "lib/base/error.h"
#include "lib/settings/json.h"
#include "lib/base/log.h"
#include "lib/base/nearest.h"
#include "lib/settings/options.h"
#include "lib/base/parse.h"
#include "lib/base/text.h"

/* --------------------------------------------------------------- rows --- */

#define FILE_VARIABLE "HARTEBEEST_CONF_PATH"
#define VARIABLE_PREFIX "HARTEBEEST_"

/*
 * A name within the constant "environment NAME", which read_environment() takes as the source of
 * the value.
 */
#define ENVIRONMENT "environment "
#define ARGUMENT "argument"
#define DEFAULT "default"
#define VARIABLE(name) (&(ENVIRONMENT name)[sizeof(ENVIRONMENT) - 1])

#define AT(member) .offset = offsetof(struct beest_options, member)
#define QP(member) \
	INT, .per_transport = true, .offset = offsetof(struct beest_qp_options, member)
#define RANGE(low, high) .min = (low), .max = (high)
#define INT .type = BEEST_OPTION_INT
#define DURATION .type = BEEST_OPTION_DURATION
#define STRING .type = BEEST_OPTION_STRING
#define WORD(list) .type = BEEST_OPTION_WORD, .words = (list)
#define AUTO .words = auto_words, .initial = "auto"

static const struct beest_word auto_words[] = { { "auto", BEEST_AUTO }, { NULL, 0 } };
static const struct beest_word none_words[] = { { "none", BEEST_RANK_NONE }, { NULL, 0 } };
static const struct beest_word roce_words[] = {
	{ "auto", BEEST_ROCE_NONE }, { "v1", BEEST_ROCE_V1 }, { "v2", BEEST_ROCE_V2 }, { NULL, 0 },
};
static const struct beest_word family_words[] = {
	{ "auto", AF_UNSPEC }, { "ipv4", AF_INET }, { "ipv6", AF_INET6 }, { NULL, 0 },
};
static const struct beest_word resolver_words[] = {
	{ "record", BEEST_RESOLVER_RECORD }, { "rdmacm", BEEST_RESOLVER_RDMACM }, { NULL, 0 },
};

static const struct beest_word type_words[] = {
	{ "RC", 2 }, { "UC", 3 }, { "UD", 4 }, { NULL, 0 },
};
static const struct beest_word mtu_words[] = {
	{ "256", 1 }, { "512", 2 }, { "1024", 3 }, { "2048", 4 }, { "4096", 5 },
	{ "auto", BEEST_AUTO }, { NULL, 0 },
};
static const struct beest_word access_words[] = {
	{ "LOCAL_WRITE", 1 }, { "REMOTE_WRITE", 2 }, { "REMOTE_READ", 4 }, { "REMOTE_ATOMIC", 8 },
	{ "MW_BIND", 16 }, { "ZERO_BASED", 32 }, { "ON_DEMAND", 64 }, { "HUGETLB", 128 },
	{ "RELAXED_ORDERING", 1 << 20 }, { "auto", BEEST_AUTO }, { NULL, 0 },
};
static const struct beest_word ece_words[] = { { "auto", 1 }, { "off", 0 }, { NULL, 0 } };

static int check_servers(const char *text)
{
	struct beest_hostport *list = NULL;
	size_t count;
	int ret = beest_parse_hostports(text, &list, &count);

	free(list);
	return ret;
}

const struct beest_option beest_option_rows[] = {
	{ "cq_attr.cq_depth", INT, AT(cq_depth), .initial = "512", RANGE(1, 4194304),
	  .help = "size of a completion queue, reduced to the limit of the device" },

	{ "qp_init_attr.qp_type", QP(qp_type), .initial = "2", RANGE(2, 4),
	  .words = type_words,
	  .help = "transport: 2 RC, 3 UC, 4 UD" },
	{ "qp_init_attr.cap.max_send_wr", QP(max_send_wr), .initial = "128", RANGE(0, 4194304),
	  .help = "size of the send queue, reduced to the limit of the device" },
	{ "qp_init_attr.cap.max_recv_wr", QP(max_recv_wr), .initial = "128", RANGE(0, 4194304),
	  .help = "size of the receive queue, reduced to the limit of the device" },
	{ "qp_init_attr.cap.max_send_sge", QP(max_send_sge), .initial = "1", RANGE(0, 1024),
	  .help = "scatter/gather elements of a send request, reduced to the limit of the device" },
	{ "qp_init_attr.cap.max_recv_sge", QP(max_recv_sge), .initial = "1", RANGE(0, 1024),
	  .help = "scatter/gather elements of a receive request, reduced to the limit of the "
		  "device" },
	{ "qp_init_attr.cap.max_inline_data", QP(max_inline_data), .initial = "256",
	  RANGE(0, 65536),
	  .help = "data sent within the request itself, reduced to the limit of the device" },

	{ "qp_attr.path_mtu", QP(path_mtu), RANGE(1, 5), .words = mtu_words, .initial = "auto",
	  .help = "upper limit in bytes (256 to 4096), or as in enum ibv_mtu (1 to 5); auto: "
		  "that of both ports" },
	{ "qp_attr.rq_psn", QP(rq_psn), AUTO, RANGE(0, 0xffffff),
	  .help = "first packet sequence number to receive; auto: the peer's sq_psn" },
	{ "qp_attr.sq_psn", QP(sq_psn), AUTO, RANGE(0, 0xffffff),
	  .help = "first packet sequence number to send; auto: random" },
	{ "qp_attr.ah_attr.is_global", QP(is_global), .initial = "0", RANGE(0, 1),
	  .help = "1: a global routing header even if none is needed" },
	{ "qp_attr.ah_attr.sl", QP(sl), .initial = "0", RANGE(0, 15),
	  .help = "service level" },
	{ "qp_attr.ah_attr.src_path_bits", QP(src_path_bits), .initial = "0", RANGE(0, 127),
	  .help = "source path bits, if the port has an LMC" },
	{ "qp_attr.ah_attr.static_rate", QP(static_rate), .initial = "0", RANGE(0, 63),
	  .help = "limit of the rate as in enum ibv_rate; 0: the rate of the port" },
	{ "qp_attr.max_dest_rd_atomic", QP(max_dest_rd_atomic), AUTO, RANGE(0, 255),
	  .help = "reads and atomics served at once, reduced to the limit of the device; auto: "
		  "16, or fewer if the device has few in total" },
	{ "qp_attr.max_rd_atomic", QP(max_rd_atomic), .initial = "16", RANGE(0, 255),
	  .help = "reads and atomics outstanding at once, reduced to the limits of both ends" },
	{ "qp_attr.min_rnr_timer", QP(min_rnr_timer), .initial = "12", RANGE(0, 31),
	  .help = "code of the pause that a sender makes when no receive is posted; 12: 0.64 ms" },
	{ "qp_attr.timeout", QP(timeout), .initial = "14", RANGE(0, 31),
	  .unit = 4096,
	  .help = "wait for an acknowledgement: 4.096 us * 2^timeout, or a duration such as 67ms, "
		  "rounded up; 0: for ever" },
	{ "qp_attr.retry_cnt", QP(retry_cnt), .initial = "7", RANGE(0, 7),
	  .help = "retransmissions before a send fails" },
	{ "qp_attr.rnr_retry", QP(rnr_retry), .initial = "7", RANGE(0, 7),
	  .help = "attempts while the receiver is not ready; 7: for ever" },
	{ "qp_attr.pkey", QP(pkey), AUTO, RANGE(1, 0xffff),
	  .help = "partition key; auto: the first full member, else the first limited one" },
	{ "qp_attr.traffic_class", QP(traffic_class), .initial = "0", RANGE(0, 255),
	  .help = "traffic class of the global routing header" },
	{ "qp_attr.hop_limit", QP(hop_limit), .initial = "64", RANGE(1, 255),
	  .help = "hop limit of the global routing header" },
	{ "qp_attr.flow_label", QP(flow_label), .words = auto_words, .initial = "0",
	  RANGE(0, 0xfffff),
	  .help = "flow label of the global routing header, by which RoCE v2 chooses its UDP "
		  "source port; auto: another one for each pair of queue pair numbers, as rdma_cm "
		  "does" },
	{ "qp_attr.ece", WORD(ece_words), .per_transport = true,
	  .offset = offsetof(struct beest_qp_options, ece), .initial = "auto",
	  .help = "enhanced connection establishment: auto, what both adapters can do, or off" },
	/* The top bit would select a privileged key instead. */
	{ "qp_attr.qkey", QP(qkey), .initial = "0x11111111", RANGE(0, 0x7fffffff),
	  .help = "queue key of datagrams" },
	{ "qp_attr.access_flags", QP(access_flags), RANGE(0, 0x1fffff),
	  .words = access_words, .joins = true, .initial = "auto",
	  .help = "enum ibv_access_flags, as a number or names such as REMOTE_WRITE|LOCAL_WRITE; "
		  "auto: all that transport and device allow" },

	{ "mr.huge_pages", INT, AT(mr_huge_pages), .initial = "0", RANGE(0, 1),
	  .help = "1: put buffers of the library in huge pages of 2 MB" },

	{ "device.name", VARIABLE("HARTEBEEST_DEVICE"), STRING, AT(device_name),
	  .help = "device or device:port, such as mlx5_0:1; a list of them by local rank; "
		  "mlx5_*: any of these; ^mlx5_bond_*: any but these; near:numa or "
		  "near:pci:0000:65:00.0; not given: the port with the best GID" },
	{ "device.gid", VARIABLE("HARTEBEEST_GID"), STRING, AT(device_gid), .initial = "auto",
	  .help = "which GID: " BEEST_GID_RULES_TEXT },
	{ "device.addr", VARIABLE("HARTEBEEST_ADDR"), STRING, AT(device_addr),
	  .help = "this end's IP address, which chooses device, port and GID" },
	{ "device.resolver", VARIABLE("HARTEBEEST_RESOLVER"), WORD(resolver_words),
	  AT(device_resolver), .initial = "record",
	  .help = "source of the path to a peer: its record, or rdma_cm" },
	{ "device.roce", WORD(roce_words), AT(device_roce), .initial = "auto",
	  .help = "RoCE version" },
	{ "device.family", WORD(family_words), AT(device_family),
	  .initial = "auto", .help = "address family of a RoCE GID" },

	{ "device.events", INT, AT(device_events), .initial = "1", RANGE(0, 1),
	  .help = "0: the program reads the device's asynchronous events itself" },

	{ "exchange.servers", VARIABLE("HARTEBEEST_EXC_IP_PORT"), STRING, AT(servers),
	  .check = check_servers, .called = { "MEMCACHED", "EXC_SERVERS" },
	  .help = "Memcached servers: host:port, [IPv6]:port or socket path, separated by "
		  "commas" },
	{ "exchange.secret_file", VARIABLE("HARTEBEEST_SECRET_FILE"), STRING, AT(secret_file),
	  .help = "file with the job's secret: all records are encrypted and authenticated" },
	{ "exchange.timeout", VARIABLE("HARTEBEEST_TIMEOUT"), DURATION, AT(timeout),
	  .initial = "30s", RANGE(BEEST_MS, 30 * BEEST_DAY),
	  .help = "limit of every wait for a server or a peer" },
	{ "exchange.ttl", DURATION, AT(ttl), .initial = "1d",
	  RANGE(BEEST_SECOND, BEEST_TTL_MAX),
	  .help = "time to live of records, renewed while in use" },

	{ "poll.timeout", DURATION, AT(poll_timeout), .initial = "1h",
	  RANGE(0, 30 * BEEST_DAY),
	  .help = "limit of the compatibility interface's polls; 0: none" },
	{ "fetch.timeout", DURATION, AT(fetch_timeout), .initial = "1h",
	  RANGE(0, 30 * BEEST_DAY),
	  .help = "limit of the compatibility interface's fetches; 0: none" },

	{ "job.participants", VARIABLE("HARTEBEEST_PARTICIPANTS"), STRING, AT(participants),
	  .help = "ids of all ranks, such as 0,1 or 0-63" },
	{ "job.nparticipants", VARIABLE("HARTEBEEST_NPARTICIPANTS"), INT, AT(nparticipants),
	  RANGE(1, BEEST_IDS_MAX), .called = { "SIZE", "WORLD_SIZE", "NRANKS" },
	  .help = "number of ranks, with ids from 0" },
	{ "job.rank", VARIABLE("HARTEBEEST_NID"), INT, AT(rank), RANGE(0, INT32_MAX),
	  .words = none_words,
	  .help = "id of this process; none: it takes no rank, whatever its launcher says" },
	{ "job.id", VARIABLE("HARTEBEEST_JOB"), STRING, AT(job),
	  .called = { "JOB_ID" },
	  .help = "name of this run; not given: the launcher's job and step" },

	{ "log.level", VARIABLE("HARTEBEEST_LOG"), WORD(beest_log_words), AT(log_level),
	  .initial = "none", .help = "the least severe lines that are logged" },
	{ "log.file", VARIABLE("HARTEBEEST_LOG_FILE"), STRING, AT(log_file),
	  .help = "file to log to instead of stderr; %h is the host, %p the process id, %r the "
		  "rank" },
};

const size_t beest_option_count = BEEST_COUNT(beest_option_rows);

#define ROWS BEEST_COUNT(beest_option_rows)
#define SLOTS (ROWS * BEEST_TRANSPORTS)

/* ------------------------------------------------------------- values --- */

/* @transport: BEEST_TRANSPORTS, none, gives the slot and value of RC. */
static size_t slot_of(const struct beest_option *row, int transport)
{
	return (row - beest_option_rows) * BEEST_TRANSPORTS + transport % BEEST_TRANSPORTS;
}

static const void *value_at(const struct beest_options *options,
			    const struct beest_option *row, int transport)
{
	const void *base = options;

	if (row->per_transport)
		base = &options->qp[transport % BEEST_TRANSPORTS];
	return (const char *)base + row->offset;
}

/* NULL: the @length bytes at @text are none of the words, whose case does not matter. */
static const struct beest_word *find_word(const struct beest_word *word, const char *text,
					  size_t length)
{
	while (word && word->text && (strlen(word->text) != length ||
				      strncasecmp(word->text, text, length) != 0))
		word++;
	return word && word->text ? word : NULL;
}

/* "RC", "auto", or of flags "REMOTE_WRITE|LOCAL_WRITE".  False: they are no words. */
static bool set_by_words(const struct beest_option *row, const char *text, int64_t *value)
{
	const struct beest_word *word = find_word(row->words, text, strlen(text));
	int64_t sum = 0;
	size_t length;

	if (word) {
		*value = word->value;
		return true;
	}
	do {
		length = row->joins ? strcspn(text, "|") : strlen(text);
		word = find_word(row->words, text, length);
		if (!word || word->value < 0)
			return false;
		sum |= word->value;
		text += length + 1;
	} while (text[-1]);
	*value = sum;
	return true;
}

/* "67ms": the least int whose time is as long.  False: @text is no duration. */
static bool set_by_duration(const struct beest_option *row, const char *text, int64_t *value)
{
	int64_t ns, code = 1;

	if (!row->unit || strspn(text, "0123456789") == strlen(text) ||
	    beest_parse_duration(text, &ns) < 0 || ns <= 0)
		return false;
	while (code < row->max && row->unit << code < ns)
		code++;
	*value = code;
	return row->unit << code >= ns;
}

/* The sentence of a failure offers the words that are allowed. */
static int set_int(const struct beest_option *row, const char *text, void *value)
{
	struct beest_text words = BEEST_TEXT(200);
	const struct beest_word *word;
	int ret;

	if (set_by_words(row, text, value) || set_by_duration(row, text, value))
		return 0;

	ret = beest_parse_int(text, row->min, row->max, value);
	if (ret == 0)
		return 0;
	for (word = row->words; word && word->text; word++)
		beest_text_add(&words, word->value < 0 ? ", or '%s'" : ", %s", word->text);
	if (row->unit)
		beest_text_add(&words, ", or a duration such as 67ms");
	return beest_fail(-ret, "%s%s", beest_error_text(), words.buffer);
}

static int set_duration(const struct beest_option *row, const char *text, void *value)
{
	int64_t ns;
	int ret = beest_parse_duration(text, &ns);

	if (ret < 0)
		return ret;
	if (ns < row->min || ns > row->max)
		return beest_fail(ERANGE, "%s is not in the range %s to %s", BEEST_QUOTE(text),
				  BEEST_DURATION_TEXT(row->min), BEEST_DURATION_TEXT(row->max));
	*(int64_t *)value = ns;
	return 0;
}

static int set_word(const struct beest_option *row, const char *text, void *value)
{
	return beest_parse_word(text, row->words, value);
}

static int set_string(const struct beest_option *row, const char *text, void *value)
{
	char **string = value, *copy;
	int ret = 0;

	if (row->check)
		ret = row->check(text);
	if (ret < 0)
		return ret;

	copy = strdup(text);
	if (!copy)
		return beest_fail(ENOMEM, "out of memory");
	free(*string);
	*string = copy;
	return 0;
}

/* How a value of each type is written in JSON, and how it gets from text into memory. */
static const struct {
	enum json_type json;
	const char *expected;
	bool owned;		/* stored as a string for free(3) */
	int (*set)(const struct beest_option *row, const char *text, void *value);
} types[] = {
	[BEEST_OPTION_INT] = { json_type_int, "a whole number", false, set_int },
	[BEEST_OPTION_DURATION] = { json_type_string, "a duration in quotes, such as \"30s\"",
				    false, set_duration },
	[BEEST_OPTION_STRING] = { json_type_string, "text in quotes", true, set_string },
	[BEEST_OPTION_WORD] = { json_type_string, "a word in quotes", false, set_word },
};

/* Writes "" for an option that is not given. */
static int value_text(const struct beest_option *row, const void *value, char *text, size_t size)
{
	const int64_t *number = value;
	char *const *string = value;
	const char *word;

	if (types[row->type].owned)
		return snprintf(text, size, "%s", *string ? *string : "");
	if (row->type == BEEST_OPTION_WORD)
		return snprintf(text, size, "%s", beest_parse_word_text(row->words, *number));
	if (row->type == BEEST_OPTION_DURATION)
		return snprintf(text, size, "%s", BEEST_DURATION_TEXT(*number));
	word = row->words && *number < 0 ? beest_parse_word_text(row->words, *number) : NULL;
	if (word || *number == BEEST_AUTO)
		return snprintf(text, size, "%s", word ? word : "");
	return snprintf(text, size, "%" PRId64, *number);
}

/* -------------------------------------------------------------- names --- */

/* The option and transports that "section.key" or "section.rc:key" names. */
struct place {
	const struct beest_option *row;
	int transport;		/* BEEST_TRANSPORTS: all that the row has */
};

static const char *const prefixes[BEEST_TRANSPORTS + 1] = {
	[BEEST_RC] = "rc:",
	[BEEST_UC] = "uc:",
	[BEEST_UD] = "ud:",
	[BEEST_TRANSPORTS] = "",
};

#define NAME_SIZE 160

/* BEEST_TRANSPORTS: there is no prefix. */
static int prefix_of(const char *text)
{
	int transport = BEEST_RC;

	while (strncasecmp(text, prefixes[transport], strlen(prefixes[transport])))
		transport++;
	return transport;
}

/* "qp_attr.rc:timeout" -> "qp_attr.timeout", BEEST_RC. */
static int split_name(const char *name, char plain[NAME_SIZE])
{
	const char *dot = strchr(name, '.'), *key = dot ? dot + 1 : name;
	int transport = prefix_of(key);

	snprintf(plain, NAME_SIZE, "%.*s%s", (int)(key - name), name,
		 key + strlen(prefixes[transport]));
	return transport;
}

static bool find_place(const char *name, struct place *place)
{
	const struct beest_option *row = beest_option_rows, *end = row + ROWS;
	char plain[NAME_SIZE];
	int transport = split_name(name, plain);

	while (row < end && strcmp(row->name, plain))
		row++;
	if (row == end || (transport < BEEST_TRANSPORTS && !row->per_transport))
		return false;

	*place = (struct place){ row, transport };
	return true;
}

static const char *tail_of(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

/* Variables that are no options: the second is for scripts that use hartebeest serve. */
static const struct beest_option other_rows[] = {
	{ .environment = FILE_VARIABLE }, { .environment = VARIABLE_PREFIX "SERVE_PID" },
};

static void offer_variables(struct beest_nearest *nearest, const struct beest_option *row,
			    size_t count)
{
	for (; count--; row++)
		if (row->environment)
			beest_nearest_offer(nearest, row->environment + strlen(VARIABLE_PREFIX),
					    row);
}

/*
 * By one word, such as "RANK" or "timeout".  The names of variables win over the last words of
 * options, and over what people call them.  @each: only options of each transport.
 */
static const struct beest_option *nearest_by_word(const char *word, bool each)
{
	bool has_prefix = !strncmp(word, VARIABLE_PREFIX, strlen(VARIABLE_PREFIX));
	struct beest_nearest nearest = BEEST_NEAREST(word + has_prefix * strlen(VARIABLE_PREFIX));
	const struct beest_option *row;
	size_t i;

	if (!each) {
		offer_variables(&nearest, beest_option_rows, ROWS);
		offer_variables(&nearest, other_rows, BEEST_COUNT(other_rows));
	}
	for (row = beest_option_rows; row < beest_option_rows + ROWS; row++) {
		if (each && !row->per_transport)
			continue;
		beest_nearest_offer(&nearest, tail_of(row->name), row);
		for (i = 0; i < BEEST_COUNT(row->called) && row->called[i]; i++)
			beest_nearest_offer(&nearest, row->called[i], row);
	}
	return nearest.best;
}

/* Finds it despite a typing error, a wrong section or a missing "cap.". */
static const struct beest_option *nearest_row(const char *plain, bool each)
{
	struct beest_nearest nearest = BEEST_NEAREST(plain);
	const struct beest_option *row;
	size_t section = strcspn(plain, ".");

	for (row = beest_option_rows; row < beest_option_rows + ROWS; row++)
		if (!strncmp(row->name, plain, section + 1) && !strcmp(tail_of(row->name),
								       tail_of(plain)))
			return row;
	for (row = beest_option_rows; row < beest_option_rows + ROWS; row++)
		beest_nearest_offer(&nearest, row->name, row);
	return nearest.best ? nearest.best : nearest_by_word(tail_of(plain), each);
}

/* "qp_attr.rc:timeout" */
static const char *place_text(const struct place *place, char text[NAME_SIZE])
{
	const char *name = place->row->name;
	int section = (int)strcspn(name, ".") + 1;

	snprintf(text, NAME_SIZE, "%.*s%s%s", section, name, prefixes[place->transport],
		 name + section);
	return text;
}

static int fail_unknown(int err, const char *what, const char *name)
{
	char plain[NAME_SIZE], meant[NAME_SIZE];
	struct place place = { .transport = split_name(name, plain) };

	place.row = nearest_row(plain, place.transport < BEEST_TRANSPORTS);
	if (!place.row)
		return beest_fail(err, "unknown %s %s", what, BEEST_QUOTE(name));

	if (!place.row->per_transport)
		place.transport = BEEST_TRANSPORTS;
	return beest_fail(err, "unknown %s %s" BEEST_NEAREST_IS "%s", what, BEEST_QUOTE(name),
			  place.row->name ? place_text(&place, meant) : place.row->environment);
}

/* ------------------------------------------------- one source at a time - */

/* beest_options_load() on its way from source to source. */
struct reading {
	struct beest_options *options;
	struct beest_origin origin;	/* of the value that is being read */
	bool exact[SLOTS];		/* set by a key with a prefix, which wins */
	int ret;			/* the first failure; the rest is read nevertheless */
	char sentence[BEEST_ERROR_SIZE];
};

static void begin_source(struct reading *reading, const char *source)
{
	reading->origin = (struct beest_origin){ source, 0 };
	memset(reading->exact, 0, sizeof(reading->exact));
}

/* "FILE:3: exchange.ttl: ...", "environment NAME (exchange.ttl): ...", "argument ..." */
static int fail_at(const struct beest_origin *origin, int ret, const char *name)
{
	if (origin->line)
		return beest_fail_prefix(ret, "%s:%u: %s", origin->source, origin->line, name);
	return beest_fail_prefix(ret, strcmp(origin->source, ARGUMENT) ? "%s (%s)" : "%s %s",
				 origin->source, name);
}

/* Ends the sentence with what the option is, since a number alone explains nothing. */
static int fail_value(const struct reading *reading, int ret, const struct beest_option *row,
		      const char *name)
{
	beest_fail(-ret, "%s (%s)", beest_error_text(), row->help);
	return fail_at(&reading->origin, ret, name);
}

static void keep_failure(struct reading *reading, int ret)
{
	if (ret >= 0 || reading->ret < 0)
		return;
	reading->ret = ret;
	beest_text_copy(reading->sentence, sizeof(reading->sentence), beest_error_text());
}

/* "rc:qp_type" can only be 2, and so on. */
static int check_qp_type(const struct place *place, const char *text)
{
	static const int numbers[BEEST_TRANSPORTS] = { 2, 3, 4 };
	int transport = place->transport;
	int64_t number;

	if (transport == BEEST_TRANSPORTS || strcmp(tail_of(place->row->name), "qp_type") ||
	    (!set_by_words(place->row, text, &number) &&
	     beest_parse_int(text, 0, INT64_MAX, &number) < 0) || number == numbers[transport])
		return 0;
	return beest_fail(EINVAL, "%s is not the type of %sqp_type, which is always %d", text,
			  prefixes[transport], numbers[transport]);
}

static int set_place(struct reading *reading, const struct place *place, const char *text)
{
	bool exact = place->transport < BEEST_TRANSPORTS;
	int transport = place->transport % BEEST_TRANSPORTS;
	int ret = *text ? check_qp_type(place, text) :
		  beest_fail(EINVAL, "'' is not a value; leave it out instead");
	int last = exact || !place->row->per_transport ? transport : BEEST_UD;
	size_t slot;

	for (; !ret && transport <= last; transport++) {
		slot = slot_of(place->row, transport);
		BEEST_INVARIANT(slot < SLOTS);
		if (reading->exact[slot] && !exact)
			continue;
		ret = types[place->row->type].set(place->row, text,
			(void *)value_at(reading->options, place->row, transport));
		if (ret < 0)
			break;
		reading->exact[slot] = exact;
		reading->options->origins[slot] = reading->origin;
	}
	return ret;
}

static int read_defaults(struct reading *reading)
{
	struct beest_options *options = reading->options;
	const struct beest_option *row;
	struct place place;
	int ret = 0;
	size_t i;

	options->origins = calloc(SLOTS, sizeof(*options->origins));
	if (!options->origins)
		return beest_fail(ENOMEM, "out of memory");

	begin_source(reading, DEFAULT);
	for (i = 0; i < SLOTS; i++)
		options->origins[i] = reading->origin;
	for (row = beest_option_rows; !ret && row < beest_option_rows + ROWS; row++) {
		place = (struct place){ row, BEEST_TRANSPORTS };
		if (row->initial)
			ret = set_place(reading, &place, row->initial);
		else if (row->type == BEEST_OPTION_INT)
			*(int64_t *)value_at(options, row, 0) = BEEST_AUTO;
	}
	return ret;
}

/* --------------------------------------------------------------- file --- */

/* May it be in quotes, though the option is a number?  A number itself may not. */
static bool is_quotable(const struct beest_option *row, const char *text)
{
	int64_t number;

	return (row->words || row->unit) &&
	       (set_by_words(row, text, &number) ||
		beest_parse_int(text, INT64_MIN, INT64_MAX, &number) < 0);
}

static int check_type(const struct beest_option *row, const struct beest_json_entry *entry)
{
	if (entry->type == types[row->type].json ||
	    (entry->type == json_type_string && is_quotable(row, entry->text)))
		return 0;
	if (row->type == BEEST_OPTION_INT && entry->type == json_type_string &&
	    !strncasecmp(entry->text, "0x", 2))
		return beest_fail(EINVAL, "found %s, expected a whole number in decimal: JSON has "
				  "no hexadecimal", BEEST_JSON_FOUND(entry));
	if (row->type == BEEST_OPTION_INT && row->words && !row->words[1].text)
		return beest_fail(EINVAL, "found %s, expected %s or \"%s\"",
				  BEEST_JSON_FOUND(entry), types[row->type].expected,
				  row->words->text);
	return beest_fail(EINVAL, "found %s, expected %s%s", BEEST_JSON_FOUND(entry),
			  types[row->type].expected, row->check &&
			  entry->type == json_type_array ? ", with commas between several" : "");
}

static int fail_in_source(const struct beest_origin *origin, int ret)
{
	if (origin->line)
		return beest_fail_prefix(ret, "%s:%u", origin->source, origin->line);
	return beest_fail_prefix(ret, "%s", origin->source);
}

/* Some take the first part of a key for an object, as in "cap": { "max_send_wr": 1 }. */
static int fail_named(const char *name, const struct beest_json_entry *entry)
{
	if (!entry || entry->type != json_type_object)
		return fail_unknown(EINVAL, "option", name);
	return beest_fail(EINVAL, "unknown option %s: a section has no objects, but keys such as "
			  "\"rc:timeout\" and \"cap.max_send_wr\"", BEEST_QUOTE(name));
}

/*
 * Sets what a key of the file, @entry, or an argument, NULL, names.  Only the first failure is
 * reported, so later unknown names need no sentence: finding the nearest name for each would take
 * seconds with a large file.
 */
static int set_named(struct reading *reading, const char *name, const char *text,
		     const struct beest_json_entry *entry)
{
	struct place place;
	int ret = 0;

	if (!find_place(name, &place))
		return reading->ret < 0 ? reading->ret :
		       fail_in_source(&reading->origin, fail_named(name, entry));

	if (entry)
		ret = check_type(place.row, entry);
	if (!ret)
		ret = set_place(reading, &place, text);
	return ret < 0 ? fail_value(reading, ret, place.row, name) : 0;
}

/* An option outside its section also looks like a section. */
static int check_section(const struct reading *reading, const struct beest_json_entry *entry)
{
	const char *name = entry->section, *dot = strchr(name, '.');
	struct beest_nearest nearest = BEEST_NEAREST(name + strlen(prefixes[prefix_of(name)]));
	const struct beest_option *row;
	char section[NAME_SIZE] = "";
	struct place place;
	int ret;

	for (row = beest_option_rows; row < beest_option_rows + ROWS && nearest.distance; row++) {
		snprintf(section, sizeof(section), "%.*s", (int)strcspn(row->name, "."), row->name);
		beest_nearest_offer(&nearest, section, row);
	}

	if (!strcmp(section, name) && entry->type == json_type_object)
		return 0;
	row = nearest.best;
	if (!strcmp(section, name))
		ret = beest_fail(EINVAL, "%s: found %s, expected an object", name,
				 BEEST_JSON_FOUND(entry));
	else if (find_place(name, &place))
		ret = beest_fail(EINVAL, "unknown section %s" BEEST_NEAREST_IS
				 "\"%.*s\": { \"%s\": ... }", BEEST_QUOTE(name),
				 (int)(dot - name), name, dot + 1);
	else if (row)
		ret = beest_fail(EINVAL, "unknown section %s" BEEST_NEAREST_IS "%.*s",
				 BEEST_QUOTE(name), (int)strcspn(row->name, "."), row->name);
	else
		ret = fail_unknown(EINVAL, "section", name);
	return fail_in_source(&reading->origin, ret);
}

static void read_file_entry(void *data, const struct beest_json_entry *entry)
{
	struct reading *reading = data;
	char name[NAME_SIZE];

	reading->origin.line = entry->line;
	if (entry->key) {
		snprintf(name, sizeof(name), "%s.%s", entry->section, entry->key);
		keep_failure(reading, set_named(reading, name, entry->text, entry));
	} else if (reading->ret == 0) {
		keep_failure(reading, check_section(reading, entry));
	}
}

/* @variable: the environment variable that names the file; NULL: the path is fixed. */
static void read_file(struct reading *reading, char **kept, const char *path,
		      const char *variable)
{
	struct beest_json *json = NULL;
	int ret = beest_json_open(&json, path);

	if (ret < 0 && ret != -EBADMSG && variable)
		beest_fail_prefix(ret, "%s", variable);
	keep_failure(reading, ret);
	if (ret < 0)
		return;

	*kept = strdup(path);
	begin_source(reading, *kept);
	if (*kept)
		beest_json_walk(json, read_file_entry, reading);
	else
		keep_failure(reading, beest_fail(ENOMEM, "out of memory"));
	beest_json_close(json);
}

static void read_files(struct reading *reading, const char *system_file)
{
	const char *path = secure_getenv(FILE_VARIABLE);

	/* Checks before opening: an absent file is no failure and must leave no sentence. */
	if (system_file && (access(system_file, F_OK) == 0 ||
			    (errno != ENOENT && errno != ENOTDIR)))
		read_file(reading, &reading->options->file[0], system_file, NULL);
	if (path && !*path)
		keep_failure(reading, beest_fail(EINVAL, ENVIRONMENT FILE_VARIABLE
						 ": '' is not a value; leave it out instead"));
	else if (path)
		read_file(reading, &reading->options->file[1], path, ENVIRONMENT FILE_VARIABLE);
}

/* -------------------------------------------------------- environment --- */

static void read_environment(struct reading *reading)
{
	const struct beest_option *row;
	struct place place;
	const char *text;
	int ret;

	for (row = beest_option_rows; row < beest_option_rows + ROWS; row++) {
		text = row->environment ? secure_getenv(row->environment) : NULL;
		if (!text)
			continue;

		begin_source(reading, row->environment - strlen(ENVIRONMENT));
		place = (struct place){ row, BEEST_TRANSPORTS };
		ret = set_place(reading, &place, text);
		if (ret < 0)
			fail_value(reading, ret, row, row->name);
		keep_failure(reading, ret);
	}
}

static void check_variable(struct beest_text *sentence, const char *name)
{
	const struct beest_option *best = nearest_by_word(name, false);

	if (!best)
		beest_text_item(sentence, "unknown environment variable %s", name);
	else if (!best->environment || strcmp(best->environment, name))
		beest_text_item(sentence, "unknown environment variable %s" BEEST_NEAREST_IS "%s",
				name, best->environment ? best->environment : best->name);
}

static void note_unknown_variables(struct beest_options *options)
{
	struct beest_text sentence;
	char name[NAME_SIZE];
	char **variable;

	beest_text_start(&sentence, options->unknown_environment,
			 sizeof(options->unknown_environment));
	for (variable = environ; variable && *variable && !sentence.full; variable++) {
		if (strncmp(*variable, VARIABLE_PREFIX, strlen(VARIABLE_PREFIX)))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*variable, "="), *variable);
		check_variable(&sentence, name);
	}
}

/* ---------------------------------------------------------- arguments --- */

static int set_argument(struct reading *reading, const char *argument)
{
	const char *equals = strchr(argument, '=');
	char name[NAME_SIZE];

	if (!equals)
		return beest_fail(EINVAL, "argument %s: section.key=value expected",
				  BEEST_QUOTE(argument));
	snprintf(name, sizeof(name), "%.*s", (int)(equals - argument), argument);
	return set_named(reading, name, equals + 1, NULL);
}

static void read_arguments(struct reading *reading, const char *const *arguments)
{
	for (; arguments && *arguments; arguments++)
		keep_failure(reading, set_argument(reading, *arguments));
}

/* ---------------------------------------------------------- interface --- */

int beest_options_load(struct beest_options *options, const char *const *defaults,
		       const char *system_file, const char *const *arguments)
{
	struct reading reading = { .options = options };

	memset(options, 0, sizeof(*options));
	keep_failure(&reading, read_defaults(&reading));
	if (reading.ret < 0)
		return reading.ret;

	read_arguments(&reading, defaults);
	read_files(&reading, system_file);
	read_environment(&reading);
	begin_source(&reading, ARGUMENT);
	read_arguments(&reading, arguments);
	note_unknown_variables(options);

	return reading.ret < 0 ? beest_fail(-reading.ret, "%s", reading.sentence) : 0;
}

void beest_options_free(struct beest_options *options)
{
	const struct beest_option *row;

	for (row = beest_option_rows; row < beest_option_rows + ROWS; row++)
		if (types[row->type].owned)
			free(*(char **)value_at(options, row, BEEST_RC));
	free(options->origins);
	free(options->file[0]);
	free(options->file[1]);
	memset(options, 0, sizeof(*options));
}

int beest_options_fail_prefix(const struct beest_options *options, int ret, const char *name)
{
	struct place place;

	if (!find_place(name, &place))
		return ret;
	return fail_at(&options->origins[slot_of(place.row, place.transport)], ret, name);
}

const char *beest_options_origin(const struct beest_options *options, const char *name,
				 char text[BEEST_ORIGIN_SIZE])
{
	const struct beest_origin *origin;
	struct place place;

	text[0] = '\0';
	if (!find_place(name, &place))
		return text;
	origin = &options->origins[slot_of(place.row, place.transport)];
	if (origin->line)
		snprintf(text, BEEST_ORIGIN_SIZE, " (%.*s:%u)", BEEST_ORIGIN_SIZE - 32,
			 origin->source, origin->line);
	else if (!strcmp(origin->source, ARGUMENT))
		snprintf(text, BEEST_ORIGIN_SIZE, " (" ARGUMENT " %s)", name);
	else if (strcmp(origin->source, DEFAULT))
		snprintf(text, BEEST_ORIGIN_SIZE, " (%s)",
			 origin->source + strlen(ENVIRONMENT));
	return text;
}

int beest_options_hint(const struct beest_options *options, int ret)
{
	if (ret < 0 && options->unknown_environment[0] &&
	    !strstr(beest_error_text(), options->unknown_environment))
		beest_fail(-ret, "%s; %s", beest_error_text(), options->unknown_environment);
	return ret;
}

int beest_options_text(const struct beest_options *options, const char *name,
		       char *text, size_t size, const char **source)
{
	struct place place;

	if (!find_place(name, &place))
		return fail_unknown(ENOENT, "option", name);

	if (source)
		*source = options->origins[slot_of(place.row, place.transport)].source;
	return value_text(place.row, value_at(options, place.row, place.transport), text, size);
}
