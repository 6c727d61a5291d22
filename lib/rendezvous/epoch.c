/* SPDX-License-Identifier: MIT */
/* epoch.c - see epoch.h */
#include "config.h"

#include <string.h>

#include "lib/rendezvous/epoch.h"

enum beest_epoch_verdict beest_epoch_judge(struct beest_epoch *epoch,
					   const struct beest_kv_value *value, uint64_t number,
					   uint64_t begun)
{
	bool known = epoch->known;

	if (value->size != BEEST_EPOCH_SIZE)
		return BEEST_EPOCH_ALIEN;
	if (known && memcmp(epoch->bytes, value->bytes, BEEST_EPOCH_SIZE) == 0)
		return BEEST_EPOCH_SAME;
	if (known && number <= epoch->learned)
		return BEEST_EPOCH_OUTDATED;

	memcpy(epoch->bytes, value->bytes, BEEST_EPOCH_SIZE);
	epoch->known = true;
	epoch->learned = begun;

	return known ? BEEST_EPOCH_CHANGED : BEEST_EPOCH_FIRST;
}
