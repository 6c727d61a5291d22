/* SPDX-License-Identifier: MIT */
/* allocation.c - see allocation.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"
#include "lib/base/parse.h"
#include "tools/allocation.h"

#define RANKS_MAX 1000000

/* The product of two variables, or one. */
static const char *const numbers[][2] = {
	{ "SLURM_NTASKS" },
	{ "SLURM_JOB_NUM_NODES", "SLURM_CPUS_ON_NODE" },
	{ "PBS_NP" },
	{ "LSB_DJOB_NUMPROC" },
	{ "NSLOTS" },			/* Grid Engine */
	{ "FLUX_JOB_SIZE" },
};

/* Files that have a line for each slot. */
static const char *const files[] = { "PBS_NODEFILE", "LSB_DJOB_HOSTFILE" };

static const char *const number_options[] = { "-n", "-np", "--np", "--ntasks" };
static const char *const file_options[] = {
	"--hostfile", "-hostfile", "--machinefile", "-machinefile", "-f",
};

static int64_t number_of(const char *text)
{
	int64_t number;

	return text && beest_parse_int(text, 1, RANKS_MAX, &number) == 0 ? number : 0;
}

/* "node1 slots=4", "node1:4" and "node1" are 4, 4 and 1 slots. */
static int64_t line_slots(const char *line)
{
	const char *slots = strstr(line, "slots=");
	int number = 0;

	line += strspn(line, " \t");
	if (!*line || strchr("#\r\n", *line))
		return 0;
	if (slots)
		sscanf(slots, "slots=%d", &number);
	else
		sscanf(line, "%*[^: \t]:%d", &number);
	return BEEST_MAX(number, 1);
}

static int64_t file_slots(const char *path)
{
	FILE *file = path ? fopen(path, "re") : NULL;
	int64_t slots = 0;
	char line[1024];

	while (file && fgets(line, sizeof(line), file))
		slots += line_slots(line);
	if (file)
		fclose(file);
	return slots;
}

/* The value of an option, "--np 4" or "--np=4", at @words; NULL: it is another word. */
static const char *option_value(char *const *words, const char *const *names, size_t count)
{
	size_t i, length;

	for (i = 0; i < count; i++) {
		length = strlen(names[i]);
		if (!strcmp(words[0], names[i]))
			return words[1];
		if (!strncmp(words[0], names[i], length) && words[0][length] == '=')
			return words[0] + length + 1;
	}
	return NULL;
}

int64_t allocation_ranks(char *const *words)
{
	int64_t ranks = 0, found;
	size_t i;

	for (i = 0; i < BEEST_COUNT(numbers); i++) {
		found = number_of(getenv(numbers[i][0]));
		if (numbers[i][1])
			found *= number_of(getenv(numbers[i][1]));
		ranks = BEEST_MAX(ranks, found);
	}
	for (i = 0; i < BEEST_COUNT(files); i++)
		ranks = BEEST_MAX(ranks, file_slots(getenv(files[i])));
	for (; *words; words++) {
		found = number_of(option_value(words, number_options,
					       BEEST_COUNT(number_options)));
		ranks = BEEST_MAX(ranks, found);
		found = file_slots(option_value(words, file_options, BEEST_COUNT(file_options)));
		ranks = BEEST_MAX(ranks, found);
	}
	return BEEST_MIN(ranks, RANKS_MAX);
}
