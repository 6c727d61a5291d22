/* SPDX-License-Identifier: MIT */
/* fake-process.c - see fake-process.h */
#include "config.h"

#include <string.h>

#include "lib/base/process.h"
#include "tests/support/fake-process.h"

uint32_t fake_process;

/* Belongs to no process on this machine, so process ids mean nothing. */
int beest_process_mark(uint8_t mark[BEEST_PROCESS_SIZE])
{
	uint32_t halves[2] = { ~fake_process, fake_process };

	memcpy(mark, halves, BEEST_PROCESS_SIZE);
	return 0;
}
