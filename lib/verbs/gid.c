/* SPDX-License-Identifier: MIT */
/*
 * gid.c - policy, refusals, ranking
 *
 * Owns what rules an entry out, and what makes one better than another.  Their texts are
 * the reasons that users read.
 */
#include "config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/verbs/gid.h"
#include "lib/base/nearest.h"
#include "lib/base/parse.h"
#include "lib/base/text.h"
#include "lib/settings/options.h"

#define IPV4_OFFSET 96			/* bits before the IPv4 part of an IPv4-mapped address */

/* ------------------------------------------------------------- policy --- */

static int parse_index(const char *text, struct beest_gid_policy *policy)
{
	int64_t index;

	if (beest_parse_int(text, 0, BEEST_GID_INDEX_MAX, &index) < 0)
		return beest_fail_prefix(-EINVAL, "GID index");

	policy->index = (int)index;
	return 0;
}

static int parse_value(const char *text, struct beest_gid_policy *policy)
{
	if (inet_pton(AF_INET6, text, policy->gid.raw) != 1)
		return beest_fail(EINVAL, "%s is not a GID such as fe80::1", BEEST_QUOTE(text));
	if (beest_ipaddr_is_zero(&policy->gid))
		return beest_fail(EINVAL, "the GID %s is zero, which marks an empty entry",
				  BEEST_QUOTE(text));
	policy->prefix = BEEST_GID_BITS;
	return 0;
}

static int parse_ip(const char *text, struct beest_gid_policy *policy)
{
	int ret = beest_ipaddr_parse(text, &policy->gid);

	policy->prefix = BEEST_GID_BITS;
	if (ret == 0 && beest_ipaddr_is_wildcard(&policy->gid))
		return beest_fail(EINVAL, "%s is not an interface address", BEEST_QUOTE(text));
	return ret;
}

static int parse_subnet(const char *text, struct beest_gid_policy *policy)
{
	char address[INET6_ADDRSTRLEN];
	size_t length = strcspn(text, "/");
	int offset = memchr(text, ':', length) ? 0 : IPV4_OFFSET;
	int64_t bits;

	snprintf(address, sizeof(address), "%.*s", (int)length, text);
	if (!text[length] || length >= sizeof(address) ||
	    beest_ipaddr_parse(address, &policy->gid) < 0)
		return beest_fail(EINVAL, "%s is not a subnet such as 10.0.0.0/24 or fd00::/64",
				  BEEST_QUOTE(text));

	if (beest_parse_int(text + length + 1, 0, BEEST_GID_BITS - offset, &bits) < 0)
		return beest_fail_prefix(-EINVAL, "the prefix length of subnet %s",
					 BEEST_QUOTE(text));
	policy->prefix = (int)bits + offset;
	return 0;
}

static int parse_netdev(const char *text, struct beest_gid_policy *policy)
{
	size_t length = strlen(text);

	if (length == 0 || length >= sizeof(policy->netdev) || strchr(text, '/') ||
	    beest_text_not_key(text))
		return beest_fail(EINVAL, "%s is not a network interface: 1 to %zu bytes "
				  "without blanks or slashes", BEEST_QUOTE(text),
				  sizeof(policy->netdev) - 1);

	strcpy(policy->netdev, text);
	return 0;
}

#define RULE_WORD(before, word, example) word,

static const char *const rule_words[] = { BEEST_GID_RULES(RULE_WORD) };

/* How the rest of each rule is read, and why the rule refuses an entry. */
static const struct {
	int (*parse)(const char *text, struct beest_gid_policy *policy);
	const char *refusal;
} rules[] = {
	[BEEST_GID_AUTO] = { NULL, NULL },
	[BEEST_GID_INDEX] = { parse_index, "another index" },
	[BEEST_GID_VALUE] = { parse_value, "another address" },
	[BEEST_GID_IP] = { parse_ip, "another address" },
	[BEEST_GID_SUBNET] = { parse_subnet, "another subnet" },
	[BEEST_GID_NETDEV] = { parse_netdev, "another interface" },
};

static int parse_rule(const char *text, struct beest_gid_policy *policy)
{
	size_t i, length = strcspn(text, ":");
	struct beest_nearest nearest;
	char word[16];

	beest_text_copy(policy->text, sizeof(policy->text), text);
	if (strcmp(text, "auto") == 0)
		return 0;

	snprintf(word, sizeof(word), "%.*s", (int)BEEST_MIN(length, sizeof(word) - 1), text);
	nearest = (struct beest_nearest)BEEST_NEAREST(word);
	for (i = 0; i < BEEST_COUNT(rules); i++) {
		beest_nearest_offer(&nearest, rule_words[i], rule_words[i]);
		if (text[length] != ':' || strcmp(word, rule_words[i]) != 0 || !rules[i].parse)
			continue;
		policy->rule = (enum beest_gid_rule)i;
		return rules[i].parse(text + length + 1, policy);
	}

	return beest_fail(EINVAL, "%s is not a choice of GID: " BEEST_GID_RULES_TEXT "%s",
			  BEEST_QUOTE(text), BEEST_NEAREST_TEXT(&nearest));
}

int beest_gid_policy_parse(const char *gid, enum beest_roce roce, int family,
			   struct beest_gid_policy *policy)
{
	struct beest_gid_policy parsed;
	int ret;

	memset(&parsed, 0, sizeof(parsed));
	parsed.roce = roce;
	parsed.family = family;
	ret = parse_rule(gid, &parsed);
	if (ret == 0)
		*policy = parsed;
	return ret;
}

int beest_gid_policy_local(const char *addr, struct beest_gid_policy *policy)
{
	char text[BEEST_QUOTE_SIZE];		/* longer than any address: a cut text is none */

	if (!addr)
		return 0;
	if (policy->rule != BEEST_GID_AUTO)
		return beest_fail(EINVAL, "device.gid (HARTEBEEST_GID) also selects a GID: set "
				  "only one of the two");

	snprintf(text, sizeof(text), "ip:%s", addr);
	return beest_gid_policy_parse(text, policy->roce, policy->family, policy);
}

/* ----------------------------------------------------------- refusals --- */

/* An InfiniBand GID is no IP address, but its IPoIB interface has one. */
static bool rule_fits(const struct beest_gid_entry *entry, const struct beest_gid_policy *policy)
{
	bool is_over = policy->netdev[0] && strcmp(entry->netdev, policy->netdev) == 0;

	if (policy->rule == BEEST_GID_INDEX)
		return entry->index == policy->index;
	if (policy->rule == BEEST_GID_NETDEV)
		return is_over;
	return beest_ipaddr_has_prefix(&entry->gid, &policy->gid, policy->prefix) ||
	       (policy->rule == BEEST_GID_IP && !entry->roce && is_over);
}

/* Refusals of RoCE only: an InfiniBand GID is no IP address and needs no interface. */
static const char *roce_refusal(const struct beest_gid_entry *entry,
				const struct beest_gid_policy *policy)
{
	static const uint8_t zero[8];
	bool ipv4 = beest_ipaddr_is_ipv4(&entry->gid);

	if (policy->roce && entry->roce != policy->roce)
		return "the other RoCE version";
	if (policy->family != AF_UNSPEC && ipv4 != (policy->family == AF_INET))
		return "the other address family";
	if (!ipv4 && beest_ipaddr_is_link_local(&entry->gid) &&
	    memcmp(entry->gid.raw + 8, zero, sizeof(zero)) == 0)
		return "no interface part";
	return entry->netdev_down ? "interface down" : NULL;
}

/* NULL: the entry is acceptable. */
static const char *gid_refusal(const struct beest_gid_entry *entry,
			       const struct beest_gid_policy *policy)
{
	const char *why = NULL;

	if (beest_ipaddr_is_zero(&entry->gid))
		return "empty";
	if (!rule_fits(entry, policy))
		return rules[policy->rule].refusal;
	if (entry->index > BEEST_GID_INDEX_MAX)
		return "beyond index 255";
	if (entry->roce)
		why = roce_refusal(entry, policy);
	return !why && entry->trial_error ? "tried and failed" : why;
}

/* ------------------------------------------------------------ ranking --- */

/*
 * The first merit in which two entries differ decides.  An entry without a known interface
 * belongs to another network namespace, or the kernel is old and will answer ENXIO.
 */
enum merit { IS_THERE, HAS_NETDEV, IS_V2, IS_IPV4, IS_WIDE, IS_PHYSICAL, MERITS };

static const char *const lacking[MERITS] = {
	[IS_THERE] = "no GID",
	[HAS_NETDEV] = "no known interface",
	[IS_V2] = "RoCE v1",
	[IS_IPV4] = "not IPv4",
	[IS_WIDE] = "link-local",
	[IS_PHYSICAL] = "virtual interface",
};

static bool is_physical(const char *netdev)
{
	static const char *const virtual[] = {
		"docker", "cni", "flannel", "cali", "vxlan", "br-", "veth",
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(virtual); i++)
		if (strncmp(netdev, virtual[i], strlen(virtual[i])) == 0)
			return false;

	return true;
}

/* What no entry can have by @policy is no merit. */
static void merits_of(const struct beest_gid_entry *entry, const struct beest_gid_policy *policy,
		      bool merits[MERITS])
{
	merits[IS_THERE] = !beest_ipaddr_is_zero(&entry->gid);
	merits[HAS_NETDEV] = entry->netdev[0] != '\0';
	merits[IS_V2] = entry->roce == BEEST_ROCE_V2 || policy->roce == BEEST_ROCE_V1;
	merits[IS_IPV4] = beest_ipaddr_is_ipv4(&entry->gid) || policy->family == AF_INET6;
	merits[IS_WIDE] = !beest_ipaddr_is_link_local(&entry->gid);
	merits[IS_PHYSICAL] = is_physical(entry->netdev);
}

const char *beest_gid_lacks(const struct beest_gid_entry *entry,
			    const struct beest_gid_entry *other,
			    const struct beest_gid_policy *policy)
{
	bool mine[MERITS], theirs[MERITS];
	int i;

	if (!beest_ipaddr_is_zero(&entry->gid) && !entry->roce)
		return NULL;
	merits_of(entry, policy, mine);
	memset(theirs, true, sizeof(theirs));
	if (other && (other->roce || beest_ipaddr_is_zero(&other->gid)))
		merits_of(other, policy, theirs);
	for (i = 0; i < MERITS; i++)
		if (mine[i] != theirs[i])
			return theirs[i] ? lacking[i] : NULL;
	return NULL;
}

/* Why @entry is worse than @best of the same port; NULL: it is better. */
static const char *gid_weakness(const struct beest_gid_entry *entry,
				const struct beest_gid_entry *best,
				const struct beest_gid_policy *policy)
{
	const char *lacks = beest_gid_lacks(entry, best, policy);

	if (lacks || beest_gid_lacks(best, entry, policy))
		return lacks;
	return entry->index < best->index ? NULL : "higher index";
}

static int gid_find_best(const struct beest_gid_entry *entries, size_t count,
			 const struct beest_gid_policy *policy)
{
	int best = -1;
	size_t i;

	for (i = 0; i < count; i++)
		if (!gid_refusal(&entries[i], policy) &&
		    (best < 0 || !gid_weakness(&entries[i], &entries[best], policy)))
			best = (int)i;

	return best;
}

/* ------------------------------------------------------------- choice --- */

const char *beest_gid_entry_text(const struct beest_gid_entry *entry,
				 char text[BEEST_GID_ENTRY_SIZE])
{
	snprintf(text, BEEST_GID_ENTRY_SIZE, "%s, %s%s%s", BEEST_GID_TEXT(&entry->gid),
		 beest_endpoint_roce_text(entry->roce), entry->netdev[0] ? ", " : "",
		 entry->netdev);
	return text;
}

static void add_entry(struct beest_text *text, const struct beest_gid_entry *entry,
		      const char *why)
{
	char what[BEEST_GID_ENTRY_SIZE];

	beest_text_item(text, "index %d: %s", entry->index, beest_gid_entry_text(entry, what));
	if (why)
		beest_text_add(text, " (%s%s%s)", why, entry->trial_error ? ": " : "",
			       entry->trial_error ? strerror(entry->trial_error) : "");
}

static void add_policy(struct beest_text *text, const struct beest_gid_policy *policy)
{
	beest_text_add(text, "%s", policy->text);
	if (policy->roce)
		beest_text_add(text, ", %s only", beest_endpoint_roce_text(policy->roce));
	if (policy->family != AF_UNSPEC)
		beest_text_add(text, ", IPv%d only", policy->family == AF_INET ? 4 : 6);
}

/* Users look for IP addresses in an InfiniBand GID table, which has none: explain that. */
static const char *nothing_fits_hint(const struct beest_gid_entry *entries, size_t count,
				     const struct beest_gid_policy *policy)
{
	bool by_ip = policy->rule == BEEST_GID_IP || policy->rule == BEEST_GID_SUBNET;

	if (count == 0)
		return "the GID table has no entry that can be read: the interface of the port is "
		       "down or has no address, or it is in another network name space (a "
		       "container needs the host's network, or an interface of its own above "
		       "the adapter: macvlan, SR-IOV)";
	if (!by_ip || entries[0].roce != BEEST_ROCE_NONE)
		return "";
	return policy->netdev[0] ? "the interface with this address is not on this port; " :
	       "an InfiniBand GID holds no IP address, choose by netdev; ";
}

static int nothing_fits(const struct beest_gid_entry *entries, size_t count,
			const struct beest_gid_policy *policy)
{
	char sentence[BEEST_ERROR_SIZE - 128];
	struct beest_text text, there;
	size_t i;

	beest_text_start(&text, sentence, sizeof(sentence));
	add_policy(&text, policy);
	beest_text_add(&text, "%s: %s", policy->origin, nothing_fits_hint(entries, count, policy));
	beest_text_start(&there, sentence + text.used, sizeof(sentence) - text.used);
	for (i = 0; i < count; i++)
		add_entry(&there, &entries[i], gid_refusal(&entries[i], policy));

	return beest_fail(ENODATA, "no GID fits %s", sentence);
}

int beest_gid_choose(const struct beest_gid_entry *entries, size_t count,
		     const struct beest_gid_policy *policy, char *reason, size_t size)
{
	int best = gid_find_best(entries, count, policy);
	struct beest_text text;
	const char *why;
	size_t i;

	if (best < 0)
		return nothing_fits(entries, count, policy);

	beest_text_start(&text, reason, size);
	add_entry(&text, &entries[best], NULL);
	beest_text_add(&text, count > 1 ? " was chosen by " : " is the only one; chosen by ");
	add_policy(&text, policy);
	for (i = 0; i < count; i++) {
		if (i == (size_t)best)
			continue;
		why = gid_refusal(&entries[i], policy);
		add_entry(&text, &entries[i], why ? why :
			  gid_weakness(&entries[i], &entries[best], policy));
	}
	return best;
}
