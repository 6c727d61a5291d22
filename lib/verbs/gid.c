/* SPDX-License-Identifier: MIT */
/*
 * gid.c - policy, refusals, ranking
 *
 * Two tables decide: what an entry must not be, and what makes one better than
 * another.  Their texts are the reasons that people get to read.
 */
#include "config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/verbs/gid.h"
#include "lib/base/nearest.h"
#include "lib/base/parse.h"
#include "lib/base/text.h"
#include "lib/settings/options.h"

#define GID_BITS 128
#define IPV4_BITS 32
#define IPV4_OFFSET 96			/* leading bits of an IPv4-mapped address */
#define INDEX_MAX 255			/* ibv_global_route.sgid_index has 8 bits */

/* ------------------------------------------------------------- policy --- */

static int parse_index(const char *text, struct beest_gid_policy *policy)
{
	int64_t index;
	int ret;

	ret = beest_parse_int(text, 0, INDEX_MAX, &index);
	if (ret < 0)
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
	return 0;
}

static int parse_ip(const char *text, struct beest_gid_policy *policy)
{
	int ret = beest_ipaddr_parse(text, &policy->gid);

	if (ret == 0 && beest_ipaddr_is_wildcard(&policy->gid))
		return beest_fail(EINVAL, "%s is no address of an interface", BEEST_QUOTE(text));
	return ret;
}

static int subnet_failed(const char *text)
{
	return beest_fail(EINVAL, "%s is not a subnet such as 10.0.0.0/24 or fd00::/64",
			  BEEST_QUOTE(text));
}

static int parse_subnet(const char *text, struct beest_gid_policy *policy)
{
	const char *slash = strchr(text, '/');
	char address[INET6_ADDRSTRLEN];
	int64_t bits;
	bool ipv4;

	if (!slash || (size_t)(slash - text) >= sizeof(address))
		return subnet_failed(text);

	memcpy(address, text, (size_t)(slash - text));
	address[slash - text] = '\0';
	if (beest_ipaddr_parse(address, &policy->gid) < 0)
		return subnet_failed(text);

	ipv4 = !strchr(address, ':');
	if (beest_parse_int(slash + 1, 0, ipv4 ? IPV4_BITS : GID_BITS, &bits) < 0)
		return beest_fail_prefix(-EINVAL, "the prefix length of subnet %s",
					 BEEST_QUOTE(text));
	policy->prefix = (int)bits + (ipv4 ? IPV4_OFFSET : 0);
	return 0;
}

static int parse_netdev(const char *text, struct beest_gid_policy *policy)
{
	size_t i;

	for (i = 0; text[i]; i++)
		if (text[i] == '/' || !isgraph((unsigned char)text[i]))
			break;

	if (i == 0 || i >= sizeof(policy->netdev) || text[i])
		return beest_fail(EINVAL, "%s is not a network interface: 1 to %zu bytes "
				  "without blanks or slashes", BEEST_QUOTE(text),
				  sizeof(policy->netdev) - 1);

	memcpy(policy->netdev, text, i + 1);
	return 0;
}

static const struct rule {
	enum beest_gid_rule rule;
	const char *word;
	int (*parse)(const char *text, struct beest_gid_policy *policy);
} rules[] = {
	{ BEEST_GID_INDEX, "index", parse_index },
	{ BEEST_GID_VALUE, "gid", parse_value },
	{ BEEST_GID_IP, "ip", parse_ip },
	{ BEEST_GID_SUBNET, "subnet", parse_subnet },
	{ BEEST_GID_NETDEV, "netdev", parse_netdev },
};

static int unknown_rule(const char *text, const char *word)
{
	struct beest_nearest nearest;
	size_t i;

	beest_nearest_start(&nearest, word);
	beest_nearest_offer(&nearest, "auto");
	for (i = 0; i < BEEST_COUNT(rules); i++)
		beest_nearest_offer(&nearest, rules[i].word);

	return beest_fail(EINVAL, "%s is not a choice of GID: auto, index:3, gid:fe80::1, "
			  "ip:10.0.0.5, subnet:10.0.0.0/24 or netdev:eth0%s%s%s",
			  BEEST_QUOTE(text), nearest.best ? " (did you mean '" : "",
			  nearest.best ? nearest.best : "", nearest.best ? "'?)" : "");
}

static int parse_rule(const char *text, struct beest_gid_policy *policy)
{
	size_t i, length = strcspn(text, ":");
	char word[16];

	if (strcmp(text, "auto") == 0)
		return 0;

	snprintf(word, sizeof(word), "%.*s", (int)(length < sizeof(word) ? length : 15), text);
	for (i = 0; i < BEEST_COUNT(rules); i++) {
		if (text[length] != ':' || strcmp(word, rules[i].word) != 0)
			continue;
		policy->rule = rules[i].rule;
		return rules[i].parse(text + length + 1, policy);
	}

	return unknown_rule(text, word);
}

/* The position in @words, which are three. */
static int parse_word(const char *what, const char *text, const char *const *words)
{
	int i;

	for (i = 0; words[i]; i++)
		if (strcmp(text, words[i]) == 0)
			return i;

	return beest_fail(EINVAL, "%s is not %s: %s, %s or %s", BEEST_QUOTE(text), what,
			  words[0], words[1], words[2]);
}

int beest_gid_policy_parse(const char *gid, const char *roce, const char *family,
			   struct beest_gid_policy *policy)
{
	static const int families[] = { AF_UNSPEC, AF_INET, AF_INET6 };
	struct beest_gid_policy parsed;
	int ret;

	memset(&parsed, 0, sizeof(parsed));
	ret = parse_rule(gid ? gid : "auto", &parsed);
	if (ret < 0)
		return ret;

	ret = parse_word("a RoCE version", roce ? roce : "auto", beest_options_roce_words);
	if (ret < 0)
		return ret;
	parsed.roce = (enum beest_roce)ret;

	ret = parse_word("an address family", family ? family : "auto",
			 beest_options_family_words);
	if (ret < 0)
		return ret;
	parsed.family = families[ret];

	*policy = parsed;
	return 0;
}

int beest_gid_policy_local(const char *addr, struct beest_gid_policy *policy)
{
	struct beest_gid_policy local = *policy;
	int ret;

	if (!addr)
		return 0;
	if (policy->rule != BEEST_GID_AUTO)
		return beest_fail(EINVAL, "device.gid (HARTEBEEST_GID) chooses a GID, too: give "
				  "one of them");

	ret = parse_ip(addr, &local);
	if (ret < 0)
		return ret;

	local.rule = BEEST_GID_IP;
	*policy = local;
	return 0;
}

/* ----------------------------------------------------------- refusals --- */

static bool wrong_index(const struct beest_gid_entry *entry,
			const struct beest_gid_policy *policy)
{
	return policy->rule == BEEST_GID_INDEX && entry->index != policy->index;
}

/* An InfiniBand GID is no IP address, but the interface over it (IPoIB) has one. */
static bool holds_ip(const struct beest_gid_entry *entry, const struct beest_gid_policy *policy)
{
	return policy->rule == BEEST_GID_IP && !entry->roce && policy->holder[0] &&
	       strcmp(entry->netdev, policy->holder) == 0;
}

static bool wrong_address(const struct beest_gid_entry *entry,
			  const struct beest_gid_policy *policy)
{
	if (holds_ip(entry, policy))
		return false;
	return (policy->rule == BEEST_GID_VALUE || policy->rule == BEEST_GID_IP) &&
	       !beest_ipaddr_has_prefix(&entry->gid, &policy->gid, GID_BITS);
}

static bool wrong_subnet(const struct beest_gid_entry *entry,
			 const struct beest_gid_policy *policy)
{
	return policy->rule == BEEST_GID_SUBNET &&
	       !beest_ipaddr_has_prefix(&entry->gid, &policy->gid, policy->prefix);
}

static bool wrong_netdev(const struct beest_gid_entry *entry,
			 const struct beest_gid_policy *policy)
{
	return policy->rule == BEEST_GID_NETDEV && strcmp(entry->netdev, policy->netdev) != 0;
}

static bool empty(const struct beest_gid_entry *entry, const struct beest_gid_policy *policy)
{
	(void)policy;
	return beest_ipaddr_is_zero(&entry->gid);
}

/* All below: RoCE only.  An InfiniBand GID is no IP address and needs no interface. */
static bool no_interface_part(const struct beest_gid_entry *entry,
			      const struct beest_gid_policy *policy)
{
	static const uint8_t zero[8];

	(void)policy;
	return entry->roce && !beest_ipaddr_is_ipv4(&entry->gid) &&
	       beest_ipaddr_is_link_local(&entry->gid) &&
	       memcmp(entry->gid.raw + 8, zero, sizeof(zero)) == 0;
}

static bool wrong_version(const struct beest_gid_entry *entry,
			  const struct beest_gid_policy *policy)
{
	return entry->roce && policy->roce && entry->roce != policy->roce;
}

static bool wrong_family(const struct beest_gid_entry *entry,
			 const struct beest_gid_policy *policy)
{
	int family = beest_ipaddr_is_ipv4(&entry->gid) ? AF_INET : AF_INET6;

	return entry->roce && policy->family != AF_UNSPEC && policy->family != family;
}

static bool down(const struct beest_gid_entry *entry, const struct beest_gid_policy *policy)
{
	(void)policy;
	return entry->roce && entry->netdev_down;
}

static const struct {
	bool (*applies)(const struct beest_gid_entry *entry,
			const struct beest_gid_policy *policy);
	const char *text;
} refusals[] = {
	{ empty, "empty" },
	{ wrong_index, "another index" },
	{ wrong_address, "another address" },
	{ wrong_subnet, "another subnet" },
	{ wrong_netdev, "another interface" },
	{ wrong_version, "the other RoCE version" },
	{ wrong_family, "the other address family" },
	{ no_interface_part, "no interface part" },
	{ down, "interface down" },
};

/* NULL: nothing speaks against it. */
static const char *gid_refusal(const struct beest_gid_entry *entry, bool tried,
			       const struct beest_gid_policy *policy)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(refusals); i++)
		if (refusals[i].applies(entry, policy))
			return refusals[i].text;

	return tried ? "tried and failed" : NULL;
}

/* ------------------------------------------------------------ ranking --- */

static bool has_netdev(const struct beest_gid_entry *entry)
{
	return entry->netdev[0] != '\0';
}

static bool is_v2(const struct beest_gid_entry *entry)
{
	return entry->roce == BEEST_ROCE_V2;
}

static bool is_ipv4_entry(const struct beest_gid_entry *entry)
{
	return beest_ipaddr_is_ipv4(&entry->gid);
}

static bool is_wide(const struct beest_gid_entry *entry)
{
	return !beest_ipaddr_is_link_local(&entry->gid);
}

static bool is_physical(const struct beest_gid_entry *entry)
{
	static const char *const virtual[] = {
		"docker", "cni", "flannel", "cali", "vxlan", "br-", "veth",
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(virtual); i++)
		if (strncmp(entry->netdev, virtual[i], strlen(virtual[i])) == 0)
			return false;

	return true;
}

/*
 * The first one in which two entries differ decides.  An entry without a known
 * interface belongs to another network namespace, or to an old kernel that will
 * answer ENXIO.
 */
static const struct {
	bool (*holds)(const struct beest_gid_entry *entry);
	const char *lacking;
} merits[] = {
	{ has_netdev, "no known interface" },
	{ is_v2, "RoCE v1" },
	{ is_ipv4_entry, "not IPv4" },
	{ is_wide, "link-local" },
	{ is_physical, "virtual interface" },
};

/* NULL: @entry is not behind @best in any merit but the index. */
static const char *gid_weakness(const struct beest_gid_entry *entry,
				const struct beest_gid_entry *best)
{
	bool mine, theirs;
	size_t i;

	for (i = 0; entry->roce && i < BEEST_COUNT(merits); i++) {
		mine = merits[i].holds(entry);
		theirs = merits[i].holds(best);
		if (mine != theirs)
			return theirs ? merits[i].lacking : NULL;
	}

	return entry->index < best->index ? NULL : "higher index";
}

static int gid_find_best(const struct beest_gid_entry *entries, size_t count, const bool *skip,
			 const struct beest_gid_policy *policy)
{
	int best = -1;
	size_t i;

	for (i = 0; i < count; i++)
		if (!gid_refusal(&entries[i], skip && skip[i], policy) &&
		    (best < 0 || !gid_weakness(&entries[i], &entries[best])))
			best = (int)i;

	return best;
}

/* ------------------------------------------------------------- choice --- */

static void add_entry(struct beest_text *text, const struct beest_gid_entry *entry,
		      const char *why)
{
	char gid[INET6_ADDRSTRLEN];

	beest_text_item(text, "index %d: %s, %s%s%s%s%s%s", entry->index,
			beest_ipaddr_text(&entry->gid, gid, sizeof(gid)),
			beest_endpoint_roce_text(entry->roce), entry->netdev[0] ? ", " : "",
			entry->netdev, why ? " (" : "", why ? why : "", why ? ")" : "");
}

static void add_rule(struct beest_text *text, const struct beest_gid_policy *policy)
{
	bool ipv4 = beest_ipaddr_is_ipv4(&policy->gid) && policy->prefix >= IPV4_OFFSET;
	char address[INET6_ADDRSTRLEN];

	beest_ipaddr_ip_text(&policy->gid, address, sizeof(address));
	switch (policy->rule) {
	case BEEST_GID_AUTO:
		beest_text_add(text, "auto");
		break;
	case BEEST_GID_INDEX:
		beest_text_add(text, "index:%d", policy->index);
		break;
	case BEEST_GID_VALUE:
		beest_ipaddr_text(&policy->gid, address, sizeof(address));
		beest_text_add(text, "gid:%s", address);
		break;
	case BEEST_GID_IP:
		beest_text_add(text, "ip:%s", address);
		break;
	case BEEST_GID_SUBNET:
		beest_text_add(text, "subnet:%s/%d", address, policy->prefix - (ipv4 ? IPV4_OFFSET : 0));
		break;
	case BEEST_GID_NETDEV:
		beest_text_add(text, "netdev:%s", policy->netdev);
		break;
	}
}

static void add_policy(struct beest_text *text, const struct beest_gid_policy *policy)
{
	add_rule(text, policy);
	if (policy->roce)
		beest_text_add(text, ", %s only", beest_endpoint_roce_text(policy->roce));
	if (policy->family != AF_UNSPEC)
		beest_text_add(text, ", %s only", 
			       policy->family == AF_INET ? "IPv4" : "IPv6");
}

/* InfiniBand has no IP address in its table: say so, or users look for it there. */
static const char *nothing_fits_hint(const struct beest_gid_entry *entries, size_t count,
				     const struct beest_gid_policy *policy)
{
	bool by_ip = policy->rule == BEEST_GID_IP || policy->rule == BEEST_GID_SUBNET;

	if (count == 0)
		return "the GID table has no entry that can be read";
	if (!by_ip || entries[0].roce != BEEST_ROCE_NONE)
		return "";
	return policy->rule == BEEST_GID_IP && policy->holder[0] ?
	       "the interface that has this address is not over this port; " :
	       "an InfiniBand GID holds no IP address, choose by netdev; ";
}

static int nothing_fits(const struct beest_gid_entry *entries, size_t count, const bool *skip,
			const struct beest_gid_policy *policy)
{
	char wanted[128], there[BEEST_ERROR_SIZE - 256];
	struct beest_text text;
	size_t i;

	beest_text_start(&text, wanted, sizeof(wanted));
	add_policy(&text, policy);

	beest_text_start(&text, there, sizeof(there));
	for (i = 0; i < count; i++)
		add_entry(&text, &entries[i],
			  gid_refusal(&entries[i], skip && skip[i], policy));

	return beest_fail(ENODATA, "no GID fits %s: %s%s", wanted,
			  nothing_fits_hint(entries, count, policy),
			  there);
}

static void explain_choice(const struct beest_gid_entry *entries, size_t count,
			   const bool *skip, const struct beest_gid_policy *policy, int best,
			   char *reason, size_t size)
{
	struct beest_text text;
	const char *why;
	size_t i;

	beest_text_start(&text, reason, size);
	add_entry(&text, &entries[best], NULL);
	beest_text_add(&text, count > 1 ? " was chosen by " : " is the only one; chosen by ");
	add_policy(&text, policy);
	for (i = 0; i < count; i++) {
		if (i == (size_t)best)
			continue;
		why = gid_refusal(&entries[i], skip && skip[i], policy);
		if (!why)
			why = gid_weakness(&entries[i], &entries[best]);
		add_entry(&text, &entries[i], why);
	}
}

int beest_gid_choose(const struct beest_gid_entry *entries, size_t count,
		     const bool *skip, const struct beest_gid_policy *policy,
		     char *reason, size_t size)
{
	int best = gid_find_best(entries, count, skip, policy);

	if (best < 0)
		return nothing_fits(entries, count, skip, policy);

	explain_choice(entries, count, skip, policy, best, reason, size);
	return best;
}
