/* SPDX-License-Identifier: MIT */
/*
 * lease.c - the records that a process wants on a server get there, stay, and go
 *
 * First the table alone, driven by scripts; then table, look and a server that fails at each
 * request in turn.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/rendezvous/lease.c"	/* for the table of its states */
#include "tests/support/registry.h"
#include "tests/support/unit.h"
#include "tests/support/wire.h"

#define TTL 600
#define UNIQUE 7			/* of the value that a `cas` replaces */

/* ---------------------------------------------------------- the table by scripts --- */

/*
 * Together, the scripts take each way from one state to another that the table of lease.c has.
 *
 * Words of a script, separated by blanks:
 *
 * 	put		a new version; `echo`: one that has an echo; `add`: one that is only
 * 			added; `cas`: one that replaces only the value that was read;
 * 			`again`: the last version, as `cas`
 * 	doom, end	its object is destroyed; the context is closed
 * 	withdraw	its owner no longer wants it
 * 	lose		the server's epoch has changed
 * 	republish, forget
 * 	displace	the other process had this rank before
 * 	release		its push is over
 * 	+N		N seconds pass; ++N: milliseconds
 * 	?settled, ?unsettled, ?sent, ?unsent
 * 	?STATE		its state; ?FREED: it is forgotten
 * 	?missing	the last look should have found it there
 * 	?overtook	it may have replaced a newer version
 * 	l:PLAN=ANSWER	a look; c: one that also checks
 * 	hold, holdc	another thread plans a look; holdc: one that also checks
 * 	late=ANSWER	the answer to the first of those looks
 *
 * PLAN: S set, A add, C cas, D delete, g get; of a closed record T set, U add.  ANSWER:
 *
 * 	=  what was stored   -  nothing   <  an older version of ours   x  another's record
 * 	o  another's, which a `cas` was to replace, as it was an older version of ours
 * 	^  its tombstone
 * 	%  no record         !  the request fails      ~  nobody waits for an answer
 * 	s, a and so on: the same as =, but after writes alone, when nothing was read
 * 	#  the write is too large, and the rest of the request fails
 * 	$  stored, but the server has lost everything since
 * 	&  the write is refused, since another value is there
 */
struct script {
	const char *name;
	enum beest_record_kind kind;
	const char *words;
};

static const struct script scripts[] = {
	{ "stored", BEEST_KIND_QP, "put ?unsettled l:Sg= ?settled l: l: c:g= l:" },
	{ "a later version", BEEST_KIND_QP, "put l:Sg= put ?unsettled l:Sg= ?settled" },
	{ "failed", BEEST_KIND_QP, "put l:Sg! ?unsettled l:Sg! l:Sg= ?settled" },
	{ "refused", BEEST_KIND_QP, "put l:Sg- ?unsettled l:Sg= ?settled" },
	{ "handed over, arrived", BEEST_KIND_QP, "put l:Sg~ ?unsettled l:g= ?settled l:" },
	{ "handed over, lost", BEEST_KIND_QP, "put l:Sg~ l:g- l:Sg= ?settled" },
	{ "handed over, failed", BEEST_KIND_QP, "put l:Sg~ l:g! l:g= ?settled" },
	{ "evicted", BEEST_KIND_QP, "put l:Sg= c:g- ?unsettled l:Ag= ?settled l:" },
	{ "evicted, the addition fails", BEEST_KIND_QP, "put l:Sg= c:g- l:Ag! l:Ag- l:Ag=" },
	{ "evicted, now another's", BEEST_KIND_QP, "put l:Sg= c:g- l:Agx ?settled l: c: +300 c:" },
	{ "the server started again", BEEST_KIND_QP, "put l:Sg= lose l:Ag= ?settled l:" },
	{ "lost before it was stored", BEEST_KIND_QP, "put lose l:Sg= ?settled" },
	{ "lost while under way", BEEST_KIND_QP, "put l:Sg~ lose l:g- l:Sg= l:" },
	{ "an older version came late", BEEST_KIND_QP, "put l:Sg= put l:Sg= c:g< l:Sg= l:" },
	{ "older at once", BEEST_KIND_QP, "put put l:Sg< l:Sg= ?settled" },
	{ "another's", BEEST_KIND_QP, "put l:Sgx ?settled l: c: lose l: doom ?FREED" },
	{ "another's in turn", BEEST_KIND_QP, "put l:Sg= c:gx l: c: lose l: doom ?FREED" },
	{ "no record", BEEST_KIND_QP, "put l:Sg= c:g% l: c: doom ?FREED" },
	{ "taken back from another", BEEST_KIND_QP, "put l:Sgx put ?unsettled l:Sg= ?settled" },
	{ "by republishing", BEEST_KIND_QP, "put l:Sgx republish l:Sg= ?settled" },
	{ "renewed after it was seen", BEEST_KIND_QP,
	  "put l:Sg= +199 c:g= l: +2 c:g= l:Sg= l: +199 c:g= l:" },
	{ "not renewed when another's", BEEST_KIND_QP, "put l:Sg= +201 c:gx l: +201 c: l:" },
	{ "not renewed unseen", BEEST_KIND_QP, "put l:Sg= +201 l: c:g! l: c:g= l:Sg=" },
	{ "seen again after a failure", BEEST_KIND_QP,
	  "put l:Sg! l:Sg= l: ++21 c:g< l:Sg= ++21 c:g= l:" },
	{ "destroyed", BEEST_KIND_MR, "put l:Sg= doom l:g= l:D= ?FREED" },
	{ "destroyed, a queue pair", BEEST_KIND_QP, "put l:Sg= doom l:g= l:T= ?FREED" },
	{ "destroyed, a connected one", BEEST_KIND_QP, "echo l:Sg= doom l:g= l:T= ?FREED" },
	{ "destroyed, older", BEEST_KIND_MR, "put put l:Sg= doom l:g< l:D= ?FREED" },
	{ "destroyed, another's", BEEST_KIND_MR, "put l:Sg= doom l:gx ?FREED" },
	{ "destroyed, evicted", BEEST_KIND_MR, "put l:Sg= doom l:g- ?FREED" },
	{ "destroyed, failing", BEEST_KIND_MR, "put l:Sg= doom l:g! l:g= l:D! l:D= ?FREED" },
	{ "destroyed, the removal handed over", BEEST_KIND_MR,
	  "put l:Sg= doom l:g= l:D~ l:g= l:D~ l:g- ?FREED" },
	{ "destroyed, the tombstone handed over", BEEST_KIND_QP,
	  "put l:Sg= doom l:g= l:T~ l:g= l:T~ l:g^ ?FREED" },
	{ "destroyed unsent", BEEST_KIND_MR, "put doom ?FREED" },
	{ "destroyed, perhaps sent", BEEST_KIND_MR, "put l:Sg! doom l:g= l:D= ?FREED" },
	{ "destroyed under way", BEEST_KIND_MR, "put l:Sg~ doom l:g= l:D= ?FREED" },
	{ "destroyed, the server lost all", BEEST_KIND_MR, "put l:Sg= doom lose ?FREED" },
	{ "destroyed when lost", BEEST_KIND_MR, "put l:Sg= lose doom l:g- ?FREED" },
	{ "put again when destroyed", BEEST_KIND_MR, "put l:Sg= doom l:g= put l:Sg= ?settled" },
	{ "withdrawn at once", BEEST_KIND_QP, "echo l:Sg= +10 withdraw l:D! l:D= ?FREED" },
	{ "withdrawn", BEEST_KIND_QP, "echo l:Sg= +11 withdraw l:g= l:D= ?FREED" },
	{ "withdrawn, another's", BEEST_KIND_QP, "put l:Sg= +11 withdraw l:gx ?FREED" },
	{ "withdrawn, known as another's", BEEST_KIND_QP, "put l:Sgx withdraw ?FREED" },
	{ "withdrawn under way", BEEST_KIND_QP, "put l:Sg~ withdraw l:g= l:D= ?FREED" },
	{ "withdrawn, evicted", BEEST_KIND_QP, "put l:Sg= +11 withdraw l:g- ?FREED" },
	{ "withdrawn, the server lost all", BEEST_KIND_QP, "put l:Sg= withdraw lose ?FREED" },
	{ "forgotten", BEEST_KIND_QP, "put l:Sg= forget ?FREED l: c:" },
	{ "closed", BEEST_KIND_QP, "echo l:Sg= end l:g= l:T= ?FREED" },
	{ "closed, evicted", BEEST_KIND_QP, "echo l:Sg= end l:g- l:U= ?FREED" },
	{ "closed, the server lost all", BEEST_KIND_QP, "echo l:Sg= end lose l:U! l:U= ?FREED" },
	{ "closed, lost meanwhile", BEEST_KIND_QP, "echo l:Sg= end l:g= l:T! lose l:U= ?FREED" },
	{ "closed when lost", BEEST_KIND_QP, "echo l:Sg= lose end l:g- l:U= ?FREED" },
	{ "closed when lost, now another's", BEEST_KIND_QP, "echo l:Sg= lose end l:gx ?FREED" },
	{ "closed, lost, put again", BEEST_KIND_QP, "echo l:Sg= doom lose echo l:Sg= ?settled" },
	{ "closed, a region", BEEST_KIND_MR, "put l:Sg= end l:g= l:D= ?FREED" },
	{ "put after the end", BEEST_KIND_MR, "end put l: ?FREED" },
	{ "a message after the end", BEEST_KIND_MESSAGE, "end put l:Ss ?settled" },
	{ "closed, a message stays", BEEST_KIND_MESSAGE, "put l:Ss end l: ?settled" },
	{ "closed, numbers", BEEST_KIND_NUMBERS, "put l:Ss end l:g= l:D= ?FREED" },
	{ "closed, a chunk", BEEST_KIND_CHUNK, "put l:Sg= end l:g= l:D= ?FREED" },
	{ "closed, a chunk of another's", BEEST_KIND_CHUNK, "put l:Sg= end l:gx ?FREED" },
	{ "closed, a member stays", BEEST_KIND_MEMBER, "put l:Sg= end l: put l:Sg= ?settled" },
	{ "closed, a leader stays", BEEST_KIND_LEADER, "add l:Aa end l: cas l:Ca ?settled" },
	{ "closed, a presence says more", BEEST_KIND_RANK, "put l:Ss end l: put l:Ss ?settled" },
	{ "a region", BEEST_KIND_MR, "put l:Sg= c:g- l:Ag= +201 c:g= l:Sg= doom l:g= l:D= ?FREED" },
	{ "a presence", BEEST_KIND_RANK, "put l:Ss c: +201 c: lose l:Aa republish l:Ss c:" },
	{ "numbers are not read back", BEEST_KIND_NUMBERS,
	  "put l:Ss ?settled c:g= lose l:Aa ?settled c:g- l:Aa +201 c:g= l:Ss" },
	{ "but where they were handed over", BEEST_KIND_NUMBERS,
	  "put l:S~ l:g= ?settled c:g= l:" },
	{ "a member", BEEST_KIND_MEMBER, "put l:Sg= ?settled c:g= l: +201 c:g= l:Sg= ?settled l:" },
	{ "a member, says more", BEEST_KIND_MEMBER, "put l:Sg= put l:Sg< l:Sg= ?settled" },
	{ "a member, evicted", BEEST_KIND_MEMBER, "put l:Sg= c:g- l:Ag= ?settled l:" },
	{ "a member, replaced", BEEST_KIND_MEMBER, "put l:Sg= c:gx ?settled l: lose l: +300 c:" },
	{ "a member adds", BEEST_KIND_MEMBER, "add l:Ag= ?settled put l:Sg= ?settled" },
	{ "a member adds, not heard", BEEST_KIND_MEMBER,
	  "add l:Ag- ?unsettled l:Ag! l:Ag~ l:g= ?settled" },
	{ "a member adds, another's stays", BEEST_KIND_MEMBER,
	  "add l:Agx ?settled l: c: put l:Sg= ?settled" },
	{ "a leader adds", BEEST_KIND_LEADER, "add l:Aa ?settled c:g= l:" },
	{ "a leader adds, failing", BEEST_KIND_LEADER,
	  "add l:A! ?unsettled l:A! l:Aa ?settled" },
	{ "a leader adds, another's stays", BEEST_KIND_LEADER,
	  "add l:Aa c:gx ?settled l: c: lose l:" },
	{ "a leader adds, handed over", BEEST_KIND_LEADER,
	  "add l:A~ l:g- ?unsettled l:A~ l:g= ?settled l:" },
	{ "a leader goes on", BEEST_KIND_LEADER,
	  "add l:Aa cas l:Ca ?settled cas l:Ca ?settled c:g= l:" },
	{ "a leader goes on, failing", BEEST_KIND_LEADER,
	  "add l:Aa cas l:C! ?unsettled l:C! l:Ca ?settled" },
	{ "a leader goes on, handed over", BEEST_KIND_LEADER,
	  "cas l:C~ ?unsettled l:g= ?settled cas l:C~ l:g< l:Ca ?settled" },
	{ "a leader goes on, refused since an older one is there", BEEST_KIND_LEADER,
	  "add l:Aa cas l:Ca c:g< l:Ca ?settled" },
	{ "a leader goes on, too large, and puts it again", BEEST_KIND_LEADER,
	  "add l:Aa cas l:Ca again ?unsettled l:Cg< ?missing ?unsettled l:Cg= ?settled c:g= l:" },
	{ "a leader puts it again, since another's was there", BEEST_KIND_LEADER,
	  "cas l:Ca again l:Cgx ?settled cas l:Ca ?settled" },
	{ "a leader takes over, refused", BEEST_KIND_LEADER,
	  "cas l:Ca again l:Cgo ?missing ?settled cas l:Ca ?settled" },
	{ "a leader puts it again, which was lost", BEEST_KIND_LEADER,
	  "add l:Aa again l:Cg- ?missing ?unsettled l:Cg= ?settled" },
	{ "a leader goes on, refused since another leads", BEEST_KIND_LEADER,
	  "cas l:Ca c:gx ?settled l: c: lose l: +300 c: l:" },
	{ "a leader, evicted", BEEST_KIND_LEADER,
	  "cas l:Ca c:g- ?unsettled l:Aa ?settled c:g= l:" },
	{ "a leader, evicted, another's since", BEEST_KIND_LEADER,
	  "cas l:Ca c:g- l:Aa c:gx ?settled l: c:" },
	{ "a leader, the server lost all", BEEST_KIND_LEADER,
	  "cas l:Ca lose ?unsettled l:Aa ?settled cas l:Ca" },
	{ "a leader, lost before its answer came", BEEST_KIND_LEADER,
	  "cas l:C$ ?unsettled l:Ca ?settled" },
	{ "a chunk", BEEST_KIND_CHUNK, "put l:Sg= ?settled c:g= l: +201 c:g= l:Sg= ?settled" },
	{ "a chunk, evicted", BEEST_KIND_CHUNK, "put l:Sg= c:g- ?unsettled l:Ag= ?settled l:" },
	{ "a chunk, the server lost all", BEEST_KIND_CHUNK, "put l:Sg= lose l:Ag= ?settled" },
	{ "a chunk, no longer needed", BEEST_KIND_CHUNK, "put l:Sg= withdraw l:D= ?FREED" },
	{ "a chunk, no longer needed for long", BEEST_KIND_CHUNK,
	  "put l:Sg= +11 withdraw l:g= l:D= ?FREED" },
	{ "a chunk, needed again", BEEST_KIND_CHUNK,
	  "put l:Sg= withdraw put l:Sg= ?settled" },
	{ "a message", BEEST_KIND_MESSAGE, "put l:Ss ?settled l: c: +201 c: l:" },
	{ "a message is restored", BEEST_KIND_MESSAGE, "put l:Ss lose l:Aa ?settled l:" },
	{ "until it has expired", BEEST_KIND_MESSAGE, "put l:Ss +601 lose ?FREED l:" },
	{ "a message, failing", BEEST_KIND_MESSAGE, "put l:S! l:S! l:Ss ?settled ++21 c: l:" },
	{ "a message too large", BEEST_KIND_MESSAGE,
	  "put l:S# ?settled l: lose l: put l:Ss ?settled" },
	{ "a message after the loss", BEEST_KIND_MESSAGE, "put lose l:Ss l: ?settled" },
	{ "a message, lost before its answer came", BEEST_KIND_MESSAGE,
	  "put l:S$ ?unsettled l:Ss ?settled" },
	{ "a message, nothing read", BEEST_KIND_MESSAGE, "put l:S~ ?settled l:" },
	{ "a message that nobody has read yet", BEEST_KIND_MESSAGE,
	  "put l:Ss c: release c:g= c:g! c:g= +201 c:g= l: lose l:Aa ?settled" },
	{ "a message that a reader deleted", BEEST_KIND_MESSAGE,
	  "put l:Ss release c:g- ?FREED lose l:" },
	{ "a message that belongs to no push", BEEST_KIND_MESSAGE,
	  "put l:Ss release doom l: ?settled forget ?FREED doom put l:Ss ?settled" },
	{ "a message that another replaced", BEEST_KIND_MESSAGE, "put l:Ss release c:gx ?FREED" },
	{ "another thread's request is under way", BEEST_KIND_QP,
	  "put hold ?unsent late! ?unsent hold ?unsent late~ ?sent l:g= ?sent" },
	{ "a message, an older one came late", BEEST_KIND_MESSAGE,
	  "put l:Ss put l:Ss release c:g< l:Ss ?settled" },
	{ "a message that is only added", BEEST_KIND_MESSAGE,
	  "add l:A& ?OCCUPIED l: cas l:C& ?OCCUPIED lose l:A& ?OCCUPIED release c:g- ?FREED" },
	{ "versions that cross", BEEST_KIND_QP,
	  "put hold put l:Sg= ?settled late~ ?overtook ?unsettled l:Sg= ?settled" },
	{ "versions that overlap", BEEST_KIND_QP,
	  "put hold put hold late~ ?overtook late= ?unsettled l:Sg= ?settled" },
	{ "sent again, another's was read before", BEEST_KIND_QP,
	  "put l:Sg= holdc republish latex ?REPLACED l:" },
	{ "lost, put again", BEEST_KIND_QP, "put l:Sg= lose put ?DIRTY l:Sg= ?CLEAN" },
	{ "lost, another's was read before", BEEST_KIND_QP,
	  "put l:Sg= holdc lose latex ?REPLACED l:" },
	{ "added, put again", BEEST_KIND_QP, "put l:Sg= lose l:Ag~ put ?DIRTY l:Sg= ?CLEAN" },
	{ "added, destroyed", BEEST_KIND_MR, "put l:Sg= lose l:Ag~ doom ?DOOMED l:g= l:D= ?FREED" },
	{ "added, too large", BEEST_KIND_MESSAGE, "put l:Ss lose l:A# ?REFUSED l: c:" },
	{ "too large, destroyed", BEEST_KIND_NUMBERS, "put l:S# ?REFUSED end ?DOOMED l:g- ?FREED" },
	{ "destroyed, put again", BEEST_KIND_MR, "put l:Sg= doom put ?DIRTY l:Sg= ?CLEAN" },
	{ "ours, an older version came late", BEEST_KIND_MR,
	  "put hold put l:Sg= doom l:g= ?OURS late~ ?DOOMED l:g< l:D= ?FREED" },
	{ "removed, an older version came late", BEEST_KIND_MR,
	  "put hold put l:Sg= doom l:g= l:D~ ?REMOVED late~ ?overtook ?DOOMED l:g< l:D= ?FREED" },
	{ "removed, put again", BEEST_KIND_MR,
	  "put l:Sg= doom l:g= l:D~ put ?DIRTY l:Sg= ?CLEAN" },
	{ "closed, then the server lost all", BEEST_KIND_QP,
	  "echo l:Sg= doom l:g= l:T~ lose ?MISSING l:U= ?FREED" },
	{ "missing, an older version was read before", BEEST_KIND_QP,
	  "echo l:Sg= doom hold lose ?MISSING late< ?OURS l:T= ?FREED" },
	{ "missing, another's was read before", BEEST_KIND_QP,
	  "echo l:Sg= doom hold lose ?MISSING latex ?FREED" },
	{ "missing, an older version came late", BEEST_KIND_QP,
	  "put hold put l:Sg= doom lose ?MISSING late~ ?DOOMED l:g- ?MISSING l:U= ?FREED" },
	{ "buried, put again", BEEST_KIND_QP,
	  "echo l:Sg= doom lose l:U~ ?BURIED put ?DIRTY l:Sg= ?CLEAN" },
	{ "buried, an older version is there", BEEST_KIND_QP,
	  "echo l:Sg= doom lose l:U~ l:g< ?OURS l:T= ?FREED" },
	{ "buried, an older version came late", BEEST_KIND_QP,
	  "put hold put l:Sg= doom lose l:U~ late~ ?DOOMED l:g^ ?FREED" },
	{ "of the process before, carried out late", BEEST_KIND_QP,
	  "put displace l:Sgx ?DIRTY l:Sg= ?CLEAN c:gx ?DIRTY" },
	{ "the same, seen before that is known", BEEST_KIND_QP,
	  "put l:Sg= c:gx ?REPLACED displace ?SENT l:gx ?DIRTY l:Sg= displace ?CLEAN" },
	{ "which a process does not touch that leaves", BEEST_KIND_QP,
	  "echo l:Sg= displace doom l:gx ?FREED" },
	{ "a message of the process before", BEEST_KIND_MESSAGE,
	  "displace put l:Ss release c:gx ?FREED" },
	{ "forgotten under way", BEEST_KIND_QP, "put hold forget put late~ ?DIRTY l:Sg= ?CLEAN" },
	{ "a leftover that was read before", BEEST_KIND_QP,
	  "put hold l: late= ?settled holdc republish l:Sg= latex lose l:Ag= ?settled" },
};

static struct beest_leases *leases;
static struct beest_incarnation self, other;
static struct beest_lease_plan plan;
static char key[BEEST_KEY_MAX + 1];
static uint64_t number;
static unsigned int versions;
static size_t missing;			/* in the last look */
static bool overtook;
static struct beest_lease_plan held[2];
static size_t held_count;
static enum state seen_last;
static bool ways[FREED + 1][FREED + 1];	/* from one state to another */
static const char *where;		/* names the failing test */

static void script_fail(const char *why, const char *what)
{
	print_error("%s: %s '%s'\n", where, why, what);
	_fail(__FILE__, __LINE__);
}

static size_t record_make(uint8_t *bytes, enum beest_record_kind kind, unsigned int which,
			  const struct beest_incarnation *author, uint8_t flags)
{
	char body[16];
	struct beest_record record = {
		.kind = kind, .flags = flags, .incarnation = *author, .body = (uint8_t *)body,
	};

	record.size = (size_t)snprintf(body, sizeof(body), "%u", which);
	return (size_t)beest_record_encode(NULL, &record, key, bytes, 128);
}

static void script_add(enum beest_record_kind kind, uint8_t flags, bool adds, uint64_t unique)
{
	uint8_t bytes[128];
	struct beest_lease_wanted wanted = {
		.kind = kind, .key = key, .serial = 1, .flags = flags, .bytes = bytes,
		.add_only = adds, .unique = unique, .digest = versions,
	};

	wanted.size = record_make(bytes, kind, versions, &self, flags);
	assert_int_equal(beest_lease_put(leases, &wanted), 0);
	memset(bytes, 0, sizeof(bytes));
}

static void script_put(enum beest_record_kind kind, uint8_t flags)
{
	versions++;
	script_add(kind, flags, false, 0);
}

static const char *plan_text(void)
{
	static char text[16];
	char *at = text;
	size_t i;

	for (i = 0; i < plan.write_count; i++) {
		*at = "SADIPC"[plan.writes[i].verb];
		if (*at != 'D' && wire_flags(plan.writes[i].value) & BEEST_RECORD_CLOSED) {
			*at = *at == 'S' ? 'T' : 'U';
			assert_int_equal(plan.writes[i].ttl, 60);
		}
		if (strchr("SAC", *at))
			assert_int_equal(plan.writes[i].ttl, TTL);
		assert_int_equal(plan.writes[i].unique != 0 && *at != 'A', *at == 'C');
		at++;
	}
	for (i = 1; i < plan.key_count; i++)
		*at++ = 'g';
	*at = '\0';
	return text;
}

/* Notes the way that the record has gone. */
static enum state state_see(void)
{
	const struct lease *lease = lease_find(leases, key);
	const enum state now = lease ? lease->state : FREED;

	ways[seen_last][now] = true;
	seen_last = now;
	return now;
}

static void look_plan(bool check)
{
	assert_int_equal(beest_lease_plan(leases, 0, check, 0, &plan), 0);
	plan.number = ++number;
	state_see();
}

/* At most one key is read. */
static void look_answer(enum beest_record_kind kind, char answer, uint8_t flags)
{
	uint8_t bytes[128] = "no record";
	struct beest_kv_value values[2] = { { 0 }, { .bytes = bytes, .size = 9 } };
	struct beest_kv_value *value = &values[1];

	if (answer == '=')
		value->size = record_make(bytes, kind, versions, &self, flags);
	else if (answer == '<')
		value->size = record_make(bytes, kind, versions - 1, &self, 0);
	else if (answer == '^')
		value->size = record_make(bytes, kind, versions, &self, BEEST_RECORD_CLOSED);
	else if (answer == 'x' || answer == 'o')
		value->size = record_make(bytes, kind, versions, &other, 0);
	else if (answer == '-')
		value->bytes = NULL;
	value->unique = strchr("<o", answer) ? UNIQUE : UNIQUE + 1;
	if (answer == '#' || answer == '&')
		plan.writes[plan.write_count - 1].ret = answer == '#' ? -EMSGSIZE : -EEXIST;
	if (answer == '#')
		beest_lease_done(leases, &plan, 0, true, values, plan.number);
	if (plan.write_count)
		plan.writes[plan.write_count - 1].done = answer == '$';
	missing = beest_lease_done(leases, &plan, strchr("!#", answer) ? -EHOSTDOWN :
				   answer == '$' ? -ENODATA : 0, !strchr("~!#", answer), values,
				   plan.number);
	overtook = plan.overtook;
	beest_lease_plan_free(&plan);
	state_see();
}

static void script_look(enum beest_record_kind kind, const char *word, bool echo)
{
	size_t length = strcspn(word + 2, "=-<^xo%!~sa#$&");
	const char *text;

	look_plan(*word == 'c');
	text = plan_text();
	if (strlen(text) != length || strncmp(text, word + 2, length) != 0)
		script_fail(word, text);
	if (length)
		look_answer(kind, word[2 + length], echo ? BEEST_RECORD_ECHO : 0);
	else
		beest_lease_plan_free(&plan);
}

static const char *const state_names[] = {
	[NEW] = "NEW", [DIRTY] = "DIRTY", [SENT] = "SENT", [LOST] = "LOST", [ADDED] = "ADDED",
	[CLEAN] = "CLEAN", [OCCUPIED] = "OCCUPIED", [REPLACED] = "REPLACED",
	[REFUSED] = "REFUSED", [DOOMED] = "DOOMED", [OURS] = "OURS", [REMOVED] = "REMOVED",
	[MISSING] = "MISSING", [BURIED] = "BURIED", [FREED] = "FREED",
};

static void script_ask(const char *word)
{
	const char *name = state_names[state_see()];
	bool settled = beest_lease_is(leases, key, BEEST_LEASE_SETTLED);
	bool sent = beest_lease_is(leases, key, BEEST_LEASE_SENT);

	if (strcmp(word, "?missing") == 0 ? missing != 1 :
	    strcmp(word, "?overtook") == 0 ? !overtook :
	    strcmp(word, "?settled") == 0 ? !settled :
	    strcmp(word, "?unsettled") == 0 ? settled :
	    strcmp(word, "?sent") == 0 ? !sent :
	    strcmp(word, "?unsent") == 0 ? sent : strcmp(word + 1, name) != 0)
		script_fail(word, name);
}

static void script_word(const struct script *script, const char *word)
{
	static bool echo;

	if (!strcmp(word, "put") || !strcmp(word, "echo")) {
		echo = *word == 'e';
		script_put(script->kind, echo ? BEEST_RECORD_ECHO : 0);
	} else if (!strcmp(word, "add") || !strcmp(word, "cas")) {
		versions++;
		script_add(script->kind, 0, true, word[1] == 'a' ? UNIQUE : 0);
	} else if (!strcmp(word, "again")) {
		script_add(script->kind, 0, true, UNIQUE);
	} else if (!strcmp(word, "doom")) {
		beest_lease_doom(leases, 1);
	} else if (!strcmp(word, "withdraw")) {
		assert_true(beest_lease_doom_key(leases, key));
		assert_false(beest_lease_doom_key(leases, key));
	} else if (!strcmp(word, "end")) {
		beest_lease_doom_all(leases);
	} else if (!strcmp(word, "lose")) {
		beest_lease_lose(leases, 0);
	} else if (!strcmp(word, "republish")) {
		beest_lease_republish(leases, key);
	} else if (!strcmp(word, "displace")) {
		beest_lease_displace(leases, &other);
	} else if (!strcmp(word, "release")) {
		beest_lease_release(leases, key, 2);	/* of another push */
		beest_lease_release(leases, key, 1);
	} else if (!strcmp(word, "forget")) {
		beest_lease_forget(leases, key, 0);
	} else if (!strncmp(word, "++", 2)) {
		registry_stage.now += atoi(word + 2) * BEEST_MS;
	} else if (*word == '+') {
		registry_stage.now += atoi(word + 1) * BEEST_SECOND;
	} else if (!strncmp(word, "hold", 4)) {
		look_plan(word[4] == 'c');
		held[held_count++] = plan;
	} else if (!strncmp(word, "late", 4)) {
		plan = held[0];
		held[0] = held[--held_count];
		look_answer(script->kind, word[4], 0);
	} else if (*word == '?') {
		script_ask(word);
	} else {
		script_look(script->kind, word, echo);
	}
}

static void script_run(const struct script *script)
{
	char words[256], *word, *rest = words;

	where = script->name;
	snprintf(words, sizeof(words), "%s", script->words);
	snprintf(key, sizeof(key), "hb1/job/x/y");
	seen_last = NEW;
	assert_int_equal(beest_lease_open(&leases, TTL * BEEST_SECOND, &self, NULL), 0);
	while ((word = strtok_r(rest, " ", &rest))) {
		script_word(script, word);
		state_see();
	}
	beest_lease_close(leases);
}

static void ways_check(void)
{
	enum state from, to;
	size_t event, missed = 0;

	for (from = NEW; from < FREED; from++)
		for (event = 0; event < EVENTS; event++) {
			to = transitions[from][event];
			if (to == STAYS || ways[from][to])
				continue;
			print_error("no script goes from %s to %s\n", state_names[from],
				    state_names[to]);
			missed++;
		}
	assert_int_equal(missed, 0);
}

static void states(void **state)
{
	size_t i;

	(void)state;
	memset(&self, 1, sizeof(self));
	memset(&other, 2, sizeof(other));
	for (i = 0; i < BEEST_COUNT(scripts); i++)
		script_run(&scripts[i]);
	ways_check();
}

/* Expired messages must not pile up in a process that pushes for ever. */
static void messages_that_expired(void **state)
{
	size_t i, most = 0;

	(void)state;
	where = "many messages";
	assert_int_equal(beest_lease_open(&leases, TTL * BEEST_SECOND, &self, NULL), 0);
	for (i = 0; i < 10000; i++) {
		snprintf(key, sizeof(key), "hb1/job/msg/%zu", i);
		script_put(BEEST_KIND_MESSAGE, 0);
		script_look(BEEST_KIND_MESSAGE, "l:Ss", false);
		registry_stage.now += BEEST_SECOND;
		most = BEEST_MAX(most, beest_lease_count(leases, false));
	}
	script_ask("?settled");			/* the last one is kept until it expires */
	assert_in_range(most, TTL - 1, 3 * 1024);
	beest_lease_close(leases);
}

/* Of many records just written, some are read back; of many stored ones, a few in turn. */
static void many(void **state)
{
	struct beest_kv_value values[64];
	bool seen[40] = { false };
	size_t i, round, keys;

	(void)state;
	assert_int_equal(beest_lease_open(&leases, TTL * BEEST_SECOND, &self, NULL), 0);
	for (i = 0; i < 40; i++) {
		snprintf(key, sizeof(key), "hb1/job/x/%zu", i);
		script_put(BEEST_KIND_QP, 0);
	}
	memset(values, 0, sizeof(values));
	assert_int_equal(beest_lease_plan(leases, 0, false, 0, &plan), 0);
	assert_int_equal(plan.write_count, 40);
	assert_int_equal(plan.key_count, 1 + 8);
	assert_string_equal(plan.keys[8], key);			/* always includes the last */
	for (i = 1; i < plan.key_count; i++) {
		values[i].bytes = (uint8_t *)plan.writes[i < 8 ? i - 1 : 39].value;
		values[i].size = plan.writes[i < 8 ? i - 1 : 39].size;
	}
	assert_int_equal(beest_lease_done(leases, &plan, 0, true, values, 1), 0);
	beest_lease_plan_free(&plan);
	for (round = 0; round < 10; round++) {
		assert_int_equal(beest_lease_plan(leases, 0, true, 0, &plan), 0);
		assert_int_equal(plan.write_count, 0);
		assert_int_equal(plan.key_count, 1 + 4);
		for (i = 1; i < plan.key_count; i++)
			seen[atoi(strrchr(plan.keys[i], '/') + 1)] = true;
		beest_lease_plan_free(&plan);
	}
	for (i = 0; i < 40; i++)
		assert_true(seen[i]);
	registry_stage.now += (TTL / 3 + 1) * BEEST_SECOND;
	assert_int_equal(beest_lease_plan(leases, 0, true, 0, &plan), 0);
	keys = plan.key_count;
	beest_lease_plan_free(&plan);
	assert_int_equal(keys, 1 + 40);				/* all are due for renewal */
	beest_lease_close(leases);
}

#define WITHDRAWALS 100

static int64_t cpu_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * BEEST_SECOND + now.tv_nsec;
}

/* A look stores all records, and reads back what it wants. */
static void all_stored(void)
{
	struct beest_kv_value values[64] = { { 0 } };
	size_t i, k;

	assert_int_equal(beest_lease_plan(leases, 0, false, 0, &plan), 0);
	assert_in_range(plan.key_count, 1, BEEST_COUNT(values));
	for (i = 1; i < plan.key_count; i++)
		for (k = 0; k < plan.write_count; k++)
			if (plan.writes[k].key == plan.keys[i]) {
				values[i].bytes = (uint8_t *)plan.writes[k].value;
				values[i].size = plan.writes[k].size;
			}
	assert_int_equal(beest_lease_done(leases, &plan, 0, true, values, ++number), 0);
	beest_lease_plan_free(&plan);
}

static void canary_check(uint64_t at, bool wanted)
{
	char found[BEEST_KEY_MAX + 1] = "";

	assert_int_equal(beest_lease_canary(leases, 0, at, 0, found), wanted);
	assert_int_equal(beest_lease_is_canary(leases, key, at), wanted);
	assert_string_equal(found, wanted ? key : "");
}

/*
 * A record shows that its server has lost nothing, unless a request that is under way, or that has
 * failed since, may have stored it there again.
 */
static void a_record_that_is_written_shows_nothing(void **state)
{
	struct beest_lease_plan late;

	(void)state;
	assert_int_equal(beest_lease_open(&leases, TTL * BEEST_SECOND, &self, NULL), 0);
	script_put(BEEST_KIND_QP, 0);
	canary_check(UINT64_MAX, false);
	assert_int_equal(beest_lease_plan(leases, 0, false, 0, &late), 0);
	assert_int_equal(late.write_count, 1);
	beest_lease_republish(leases, key);
	number = 8;
	all_stored();					/* by request 9 */
	canary_check(UINT64_MAX, false);
	beest_lease_done(leases, &late, -EHOSTDOWN, false, NULL, 12);
	canary_check(UINT64_MAX, false);
	beest_lease_plan_free(&late);
	canary_check(9, false);
	canary_check(11, false);
	canary_check(12, true);
	beest_lease_close(leases);
}

/* The least processor's time that a withdrawal takes, of the records of some of @count objects. */
static int64_t withdrawal_cost(size_t count)
{
	uint8_t bytes[128];
	struct beest_lease_wanted wanted = {
		.kind = BEEST_KIND_QP, .key = key, .bytes = bytes,
	};
	int64_t start, least = INT64_MAX;
	size_t i;

	assert_int_equal(beest_lease_open(&leases, TTL * BEEST_SECOND, &self, NULL), 0);
	for (i = 1; i <= count; i++) {
		snprintf(key, sizeof(key), "hb1/job/qp/%zu", i);
		wanted.size = record_make(bytes, BEEST_KIND_QP, 1, &self, 0);
		wanted.serial = i;
		assert_int_equal(beest_lease_put(leases, &wanted), 0);
	}
	all_stored();
	for (i = 1; i <= WITHDRAWALS; i++) {
		start = cpu_now();
		beest_lease_doom(leases, i * (count / WITHDRAWALS));
		assert_int_equal(beest_lease_count(leases, true), i);
		least = BEEST_MIN(least, cpu_now() - start);
	}
	beest_lease_close(leases);
	return least;
}

/*
 * With a hundred times as many records, a withdrawal would take twenty times as long if it walked
 * all of them.  Other load adds to most measurements, but never to all: so the least counts.
 */
static void a_withdrawal_does_not_walk_all_records(void **state)
{
	int64_t few = INT64_MAX, many = INT64_MAX;
	int round;

	(void)state;
	for (round = 0; round < 5; round++) {
		few = BEEST_MIN(few, withdrawal_cost(WITHDRAWALS));
		many = BEEST_MIN(many, withdrawal_cost(100 * WITHDRAWALS));
	}
	if (many > 5 * few)
		print_error("a withdrawal: %lld ns, of many %lld ns\n", (long long)few,
			    (long long)many);
	assert_true(many <= 5 * few);
}

/* ------------------------------------------------------- with a look and a server --- */

static struct beest_registry *registry;

static const enum beest_record_kind kinds[] = {
	BEEST_KIND_QP, BEEST_KIND_MR, BEEST_KIND_MESSAGE,
};

/* Does what users do with records.  Each call must succeed, whatever fails once. */
static void life(void)
{
	size_t i;

	registry = registry_make(0, 2);
	for (i = 0; i < BEEST_COUNT(kinds); i++) {
		assert_int_equal(registry_publish(registry, kinds[i], "x", "one"), 0);
		assert_string_equal(registry_said(registry, kinds[i], "x"), "one");
	}
	assert_int_equal(registry_publish(registry, BEEST_KIND_QP, "x", "two"), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "two");
}

/* A queue pair leaves a closed record for a minute. */
static bool is_closed(const char *name)
{
	const void *bytes = fake_kv_get(registry_server, registry_key(BEEST_KIND_QP, name), NULL);

	return bytes && wire_flags(bytes) & BEEST_RECORD_CLOSED;
}

static const int errors[] = { EHOSTDOWN, ECONNRESET };

static void each_command_fails(enum fake_kv_unit unit, enum fake_kv_manner manner, int error)
{
	struct beest_registry *reader;
	int n;

	for (n = 1; ; n++) {
		fake_kv_reset();
		registry_server = fake_kv_server("a:1");
		fake_kv_fail(unit, n, error, manner);
		life();
		if (!fake_kv.fired) {
			registry_close(registry);
			break;
		}
		fake_kv_apply_late();
		registry_stage.now += BEEST_SECOND;
		assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
		assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
		assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "two");
		assert_string_equal(registry_said(registry, BEEST_KIND_MR, "x"), "one");
		assert_string_equal(registry_said(registry, BEEST_KIND_MESSAGE, "x"), "one");
		registry_close(registry);
		reader = registry_make(1, 2);
		assert_true(is_closed("x"));
		assert_null(registry_said(reader, BEEST_KIND_MR, "x"));
		registry_kill(reader);
	}
	assert_in_range(n, 5, 60);
}

static void whatever_fails_once(void **state)
{
	static const enum fake_kv_manner manners[] = {
		FAKE_KV_REFUSED, FAKE_KV_LOST, FAKE_KV_LATE,
	};
	size_t manner, error;

	(void)state;
	for (manner = 0; manner < BEEST_COUNT(manners); manner++)
		for (error = 0; error < BEEST_COUNT(errors); error++) {
			each_command_fails(FAKE_KV_REQUEST, manners[manner], errors[error]);
			each_command_fails(FAKE_KV_COMMAND, manners[manner], errors[error]);
		}
}

/* Close leaves nothing behind if one of its answers is lost. */
static void whatever_fails_at_the_end(void **state)
{
	int64_t began;
	int n;

	(void)state;
	for (n = 1; ; n++) {
		fake_kv_reset();
		registry_server = fake_kv_server("a:1");
		life();
		began = registry_stage.now;
		fake_kv_fail(FAKE_KV_COMMAND, n, ECONNRESET, FAKE_KV_LOST);
		registry_close(registry);
		if (!fake_kv.fired)
			break;
		assert_in_range(registry_stage.now - began, 0, BEEST_SECOND);
	}
	assert_in_range(n, 3, 20);
}

/* Nor if the server failed shortly before. */
static void a_failure_before_the_end(void **state)
{
	struct beest_registry *reader;

	(void)state;
	life();
	registry_server->error = ECONNREFUSED;
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), -ECONNREFUSED);
	registry_server->error = 0;
	registry_close(registry);
	reader = registry_make(1, 2);
	assert_true(is_closed("x"));
	assert_null(registry_said(reader, BEEST_KIND_MR, "x"));
	assert_null(strstr(registry_stage.log, "stay behind"));
}

static void restarts(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		life();
		fake_kv_restart(registry_server);
		registry_stage.now += BEEST_SECOND;
		assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
		assert_int_equal(registry_look(registry, 0), 0);
		assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "two");
		assert_string_equal(registry_said(registry, BEEST_KIND_MR, "x"), "one");
		assert_string_equal(registry_said(registry, BEEST_KIND_MESSAGE, "x"), "one");
		assert_non_null(strstr(registry_stage.log, "has lost what it had"));
		registry_close(registry);
		fake_kv_reset();
		registry_server = fake_kv_server("a:1");
	}
}

/* Another process came first after the restart: its record is left alone. */
static void a_record_of_another_since_the_restart(void **state)
{
	struct beest_registry *replacement;

	(void)state;
	life();
	fake_kv_restart(registry_server);
	replacement = registry_make(1, 2);
	assert_int_equal(registry_publish(replacement, BEEST_KIND_QP, "x", "replacement"), 0);
	registry_stage.now += 10 * BEEST_SECOND;
	registry_look(registry, BEEST_LOOK_CHECK);
	registry_stage.now += 10 * BEEST_SECOND;
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_int_equal(registry_look(registry, 0), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "replacement");
	assert_string_equal(registry_said(registry, BEEST_KIND_MR, "x"), "one");
	registry_close(registry);
	assert_string_equal(registry_said(replacement, BEEST_KIND_QP, "x"), "replacement");
	registry_close(replacement);
}

/* Messages are restored only if the server lost everything. */
static void a_message_that_was_taken(void **state)
{
	int i;

	(void)state;
	life();
	assert_true(fake_kv_evict(registry_server, registry_key(BEEST_KIND_MESSAGE, "x")));
	for (i = 0; i < 20; i++) {
		registry_stage.now += BEEST_SECOND;
		assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	}
	fake_kv_reconnect();
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_null(registry_said(registry, BEEST_KIND_MESSAGE, "x"));
	registry_close(registry);
}

/* The message was stored and taken by its reader, although the look failed afterwards. */
static void a_message_whose_look_fails_later(void **state)
{
	(void)state;
	life();
	assert_int_equal(registry_put(registry, BEEST_KIND_QP, "y", "one", NULL), 0);
	assert_int_equal(registry_put(registry, BEEST_KIND_MESSAGE, "y", "text", NULL), 0);
	fake_kv_fail(FAKE_KV_COMMAND, 3, EHOSTDOWN, FAKE_KV_REFUSED);
	assert_int_equal(registry_look(registry, 0), -EHOSTDOWN);
	assert_string_equal(registry_said(registry, BEEST_KIND_MESSAGE, "y"), "text");
	assert_true(fake_kv_evict(registry_server, registry_key(BEEST_KIND_MESSAGE, "y")));
	registry_stage.now += 10 * BEEST_SECOND;
	assert_int_equal(registry_look(registry, 0), 0);
	assert_int_equal(registry_look(registry, 0), 0);
	assert_null(registry_said(registry, BEEST_KIND_MESSAGE, "y"));
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "y"), "one");
	registry_close(registry);
}

/* The first request there is breaks after the server has answered the message, and dies. */
static void a_message_before_the_first_epoch(void **state)
{
	int n, looks;

	(void)state;
	for (n = 1; n < 6; n++) {
		registry = registry_make(0, 2);
		assert_int_equal(registry_put(registry, BEEST_KIND_MESSAGE, "m", "text", NULL), 0);
		fake_kv_fail(FAKE_KV_COMMAND, n, ECONNRESET, FAKE_KV_REFUSED);
		assert_int_not_equal(registry_look(registry, 0), 0);
		assert_int_equal(fake_kv.fired, 1);
		fake_kv_restart(registry_server);
		/* The first looks are over connections that are broken. */
		for (looks = 0; looks < 3; looks++) {
			registry_stage.now += 10 * BEEST_SECOND;
			registry_look(registry, 0);
		}
		assert_string_equal(registry_said(registry, BEEST_KIND_MESSAGE, "m"), "text");
		registry_close(registry);
		fake_kv_reset();
		registry_server = fake_kv_server("a:1");
	}
}

/* The message is stored by the look that finds the loss, and is taken at once. */
static void a_message_in_the_look_that_learns_the_loss(void **state)
{
	(void)state;
	life();
	fake_kv_restart(registry_server);
	assert_int_equal(registry_put(registry, BEEST_KIND_MESSAGE, "new", "text", NULL), 0);
	assert_int_equal(registry_look(registry, 0), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_MESSAGE, "new"), "text");
	assert_true(fake_kv_evict(registry_server, registry_key(BEEST_KIND_MESSAGE, "new")));
	assert_int_equal(registry_look(registry, 0), 0);
	assert_int_equal(registry_look(registry, 0), 0);
	assert_null(registry_said(registry, BEEST_KIND_MESSAGE, "new"));
	assert_string_equal(registry_said(registry, BEEST_KIND_MESSAGE, "x"), "one");
	registry_close(registry);
}

/* Nothing expires as long as the process waits now and then. */
static void renewal(void **state)
{
	int i;

	(void)state;
	registry_stage.ttl = 30 * BEEST_SECOND;
	life();
	for (i = 0; i < 120; i++) {
		registry_stage.now += BEEST_SECOND;
		assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	}
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "two");
	assert_null(registry_said(registry, BEEST_KIND_MESSAGE, "x"));
	registry_stage.now += 31 * BEEST_SECOND;
	assert_null(registry_said(registry, BEEST_KIND_QP, "x"));
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_int_equal(registry_look(registry, 0), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "two");
	registry_close(registry);
}

/* Many records are checked in turn, so each evicted one is noticed. */
static void eviction(void **state)
{
	char name[8];
	int i, j;

	(void)state;
	registry = registry_make(0, 2);
	for (i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "%d", i);
		assert_int_equal(registry_put(registry, BEEST_KIND_MR, name, "region", NULL), 0);
	}
	assert_int_equal(registry_look(registry, 0), 0);
	for (i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "%d", i);
		assert_true(fake_kv_evict(registry_server, registry_key(BEEST_KIND_MR, name)));
		for (j = 0; j < 12; j++)
			assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
		assert_string_equal(registry_said(registry, BEEST_KIND_MR, name), "region");
	}
	registry_close(registry);
}

static void withdrawal(void **state)
{
	uint64_t mine = 0, closed = 0, stays = 0;

	(void)state;
	registry = registry_make(0, 2);
	registry_put(registry, BEEST_KIND_QP, "plain", "p", &mine);
	assert_int_equal(registry_put(registry, BEEST_KIND_MR, "with", "r", &mine), 0);
	registry_put_echo(registry, "echo", &closed);
	registry_put(registry, BEEST_KIND_MR, "stays", "s", &stays);
	assert_int_equal(registry_look(registry, 0), 0);

	fake_kv_count_again();
	beest_store_withdraw(registry, mine, SIZE_MAX);
	assert_int_equal(fake_kv.round_trips, 2);
	assert_true(is_closed("plain"));
	assert_null(registry_said(registry, BEEST_KIND_MR, "with"));
	assert_string_equal(registry_said(registry, BEEST_KIND_MR, "stays"), "s");

	beest_store_withdraw(registry, closed, SIZE_MAX);
	assert_true(is_closed("echo"));
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "echo"), "echo");
	registry_stage.now += 61 * BEEST_SECOND;
	assert_null(registry_said(registry, BEEST_KIND_QP, "echo"));
	beest_store_withdraw(registry, 0, SIZE_MAX);
	beest_store_withdraw(registry, 77, SIZE_MAX);
	beest_lease_doom(registry->leases, 0);
	assert_int_equal(registry_look(registry, 0), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_MR, "stays"), "s");
	registry_close(registry);
}

#define OBJECTS 2
#define REGIONS 16

/* Puts regions of two objects on both servers, and withdraws one object after the other. */
static void withdraw_beside(int error, bool silent)
{
	struct fake_kv_server *b = fake_kv_server("b:1");
	char names[OBJECTS][REGIONS][8];
	uint64_t serials[OBJECTS] = { 0 };
	int object, i, at_b = 0;

	registry_stage.servers = "a:1 b:1";
	registry = registry_make(0, 2);
	for (object = 0; object < OBJECTS; object++)
		for (i = 0; i < REGIONS; i++) {
			snprintf(names[object][i], sizeof(names[0][0]), "m%d-%d", object, i);
			registry_put(registry, BEEST_KIND_MR, names[object][i], "r",
				     &serials[object]);
			at_b += registry_home(registry, BEEST_KIND_MR, names[object][i]) == b;
		}
	assert_in_range(at_b, 1, OBJECTS * REGIONS - 1);
	assert_int_equal(registry_look(registry, 0), 0);
	registry_server->error = error;
	registry_server->silent = silent;
	for (object = 0; object < OBJECTS; object++) {
		beest_store_withdraw(registry, serials[object], SIZE_MAX);
		for (i = 0; i < REGIONS; i++)
			if (registry_home(registry, BEEST_KIND_MR, names[object][i]) == b)
				assert_null(registry_said(registry, BEEST_KIND_MR,
							  names[object][i]));
	}
	registry_server->error = 0;
	registry_server->silent = false;
	registry_kill(registry);
}

/* Records are withdrawn from one server although the other is away. */
static void withdrawal_from_one_of_two(void **state)
{
	(void)state;
	withdraw_beside(ECONNREFUSED, false);
}

/* The second withdrawal leaves out the server that was silent, and asks the one behind it. */
static void withdrawal_beside_a_silent_server(void **state)
{
	(void)state;
	withdraw_beside(0, true);
}

/* A server or a firewall has closed a connection that was idle for long. */
static void withdrawal_over_a_connection_that_was_closed(void **state)
{
	uint64_t mine = 0;

	(void)state;
	registry = registry_make(0, 2);
	registry_put(registry, BEEST_KIND_MR, "x", "r", &mine);
	assert_int_equal(registry_look(registry, 0), 0);
	fake_kv_fail(FAKE_KV_REQUEST, 1, ECONNRESET, FAKE_KV_REFUSED);
	beest_store_withdraw(registry, mine, SIZE_MAX);
	assert_null(registry_said(registry, BEEST_KIND_MR, "x"));
	registry_kill(registry);
}

static void close_over_a_connection_that_was_closed(void **state)
{
	(void)state;
	registry = registry_make(0, 2);
	registry_put(registry, BEEST_KIND_MR, "x", "r", NULL);
	assert_int_equal(registry_look(registry, 0), 0);
	fake_kv_fail(FAKE_KV_REQUEST, 1, ECONNRESET, FAKE_KV_REFUSED);
	registry_close(registry);
	assert_null(fake_kv_get(registry_server, registry_key(BEEST_KIND_MR, "x"), NULL));
}

/* A rank that waits for this one learns of its leaving only by these records. */
static void leaving_over_a_connection_that_was_closed(void **state)
{
	struct beest_rank_body body;
	struct beest_record record;
	size_t size;
	uint8_t *bytes;

	(void)state;
	registry = registry_make(0, 2);
	assert_int_equal(registry_publish(registry, BEEST_KIND_MESSAGE, "m", "text"), 0);
	fake_kv_fail(FAKE_KV_REQUEST, 1, ECONNRESET, FAKE_KV_REFUSED);
	registry_close(registry);
	bytes = (uint8_t *)(uintptr_t)fake_kv_get(registry_server, "hb1/job/rank/0", &size);
	assert_non_null(bytes);
	assert_int_equal(beest_record_decode(NULL, bytes, size, BEEST_KIND_RANK, "hb1/job/rank/0",
					     &record), 0);
	assert_int_equal(beest_record_rank_decode(&record, &body), 0);
	assert_int_equal(body.state, BEEST_RANK_LEFT);
	assert_non_null(fake_kv_get(registry_server, "hb1/job/news", NULL));
}

/* ---------------------------------------------------------- two threads by a hook --- */

static int hooked_at;
static enum beest_record_kind hooked_kind;
static uint64_t hooked_serial;

/* Runs between another thread's plan and its request. */
static void replace_and_look(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)kv;
	(void)request;
	if (hooked_at-- != 0)
		return;
	registry_put(registry, hooked_kind, "x", "newer", NULL);
	registry_look(registry, 0);
}

static void one_replaces_what_the_other_sends(void **state)
{
	size_t kind;
	int n;

	(void)state;
	for (kind = 0; kind < 2; kind++)
		for (n = 0; n < 3; n++) {
			life();
			hooked_at = n;
			hooked_kind = kinds[kind];
			fake_kv.hook = replace_and_look;
			registry_put(registry, hooked_kind, "x", "older", NULL);
			assert_int_equal(registry_look(registry, 0), 0);
			fake_kv.hook = NULL;
			if (hooked_at < 0)
				assert_string_equal(registry_said(registry, hooked_kind, "x"),
						    "newer");
			registry_close(registry);
			fake_kv_reset();
			registry_server = fake_kv_server("a:1");
		}
}

/* Destroys the record while another thread sends it. */
static void destroy_and_look(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)kv;
	(void)request;
	if (hooked_at-- == 0)
		beest_store_withdraw(registry, hooked_serial, SIZE_MAX);
}

static void one_destroys_what_the_other_sends(void **state)
{
	(void)state;
	registry = registry_make(0, 2);
	hooked_at = 0;
	hooked_serial = 0;
	fake_kv.hook = destroy_and_look;
	registry_put(registry, BEEST_KIND_MR, "x", "text", &hooked_serial);
	registry_look(registry, 0);
	fake_kv.hook = NULL;
	registry_look(registry, 0);
	registry_look(registry, 0);
	assert_null(registry_said(registry, BEEST_KIND_MR, "x"));
	registry_close(registry);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		REGISTRY_TEST(states),
		REGISTRY_TEST(messages_that_expired),
		REGISTRY_TEST(many),
		REGISTRY_TEST(a_record_that_is_written_shows_nothing),
		REGISTRY_TEST(a_withdrawal_does_not_walk_all_records),
		REGISTRY_TEST(whatever_fails_once),
		REGISTRY_TEST(whatever_fails_at_the_end),
		REGISTRY_TEST(a_failure_before_the_end),
		REGISTRY_TEST(restarts),
		REGISTRY_TEST(a_record_of_another_since_the_restart),
		REGISTRY_TEST(a_message_that_was_taken),
		REGISTRY_TEST(a_message_whose_look_fails_later),
		REGISTRY_TEST(a_message_before_the_first_epoch),
		REGISTRY_TEST(a_message_in_the_look_that_learns_the_loss),
		REGISTRY_TEST(renewal),
		REGISTRY_TEST(eviction),
		REGISTRY_TEST(withdrawal),
		REGISTRY_TEST(withdrawal_from_one_of_two),
		REGISTRY_TEST(withdrawal_beside_a_silent_server),
		REGISTRY_TEST(withdrawal_over_a_connection_that_was_closed),
		REGISTRY_TEST(close_over_a_connection_that_was_closed),
		REGISTRY_TEST(leaving_over_a_connection_that_was_closed),
		REGISTRY_TEST(one_replaces_what_the_other_sends),
		REGISTRY_TEST(one_destroys_what_the_other_sends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
