/* SPDX-License-Identifier: MIT */
/* epoch.c - see epoch.h */
#include "config.h"

#include <string.h>

#include "lib/base/macro.h"
#include "lib/rendezvous/epoch.h"

enum beest_epoch_verdict beest_epoch_judge(struct beest_epoch *epoch,
					   const struct beest_kv_value *value, uint64_t number,
					   uint64_t begun)
{
	bool known = epoch->known, back;

	if (!value->bytes)
		return epoch->changed && number <= epoch->learned ? BEEST_EPOCH_OUTDATED :
		       BEEST_EPOCH_SAME;
	if (value->size != BEEST_EPOCH_SIZE)
		return BEEST_EPOCH_ALIEN;
	if (known && memcmp(epoch->bytes, value->bytes, BEEST_EPOCH_SIZE) == 0) {
		epoch->brought = BEEST_MAX(epoch->brought, number);
		return BEEST_EPOCH_SAME;
	}
	if (known && number <= epoch->learned)
		return BEEST_EPOCH_OUTDATED;
	back = epoch->changed && memcmp(epoch->previous, value->bytes, BEEST_EPOCH_SIZE) == 0;
	if (back && epoch->returned)
		return BEEST_EPOCH_AGAIN;

	memcpy(epoch->previous, epoch->bytes, BEEST_EPOCH_SIZE);
	memcpy(epoch->bytes, value->bytes, BEEST_EPOCH_SIZE);
	epoch->known = true;
	epoch->changed = known;
	epoch->returned = back;
	epoch->learned = begun;
	epoch->brought = number;

	return known ? BEEST_EPOCH_CHANGED : BEEST_EPOCH_FIRST;
}
