/* SPDX-License-Identifier: MIT */
/*
 * stencil.c - a field in two dimensions, cut into tiles whose edges go to four neighbours
 *
 *	hartebeest run -n 4 -- ./stencil
 *
 * On several hosts, start it with srun or mpirun, or by hand with HARTEBEEST_PARTICIPANTS=0-3 and
 * HARTEBEEST_NID=0 and so on.  HARTEBEEST_EXC_IP_PORT=host:port names a Memcached server.
 *
 * In each step a cell becomes the mean of the four around it.  The field has no border: its
 * right edge touches its left edge, and its top the bottom.  So every rank has four neighbours,
 * whether there are one rank or a thousand, and some of them may be the rank itself.  In the
 * end, each rank computes the whole field alone, and compares its tile.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hartebeest-post.h>
#include <hartebeest.h>

#define SIDE 16			/* of a tile, in cells */
#define STEPS 50
#define PATIENCE INT64_C(60000000000)	/* ns */
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

enum { LEFT, RIGHT, UP, DOWN, DIRECTIONS };
static const char *const names[] = { "left", "right", "up", "down" };
static const int opposite[] = { RIGHT, LEFT, DOWN, UP };

/* The halves serve alternate steps: a neighbour may be one step ahead, but not two. */
struct edges {
	double out[2][DIRECTIONS][SIDE];	/* local edges */
	double in[2][DIRECTIONS][SIDE];		/* written by the neighbours */
};

static struct {
	struct hartebeest_context *hb;
	int position, width, height;	/* in the grid of ranks */
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct edges *edges;		/* the region */
	struct ibv_qp *qp[DIRECTIONS];
	struct hartebeest_remote_mr there[DIRECTIONS];
	int sent, came[DIRECTIONS];
} self;

static double tile[SIDE][SIDE], next_tile[SIDE][SIDE];

/* An example may exit; the library never does that for its user. */
static int try(int ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "%s\n", hartebeest_error());
	exit(EXIT_FAILURE);
}

/* Makes the grid as square as the number of ranks allows. */
static void find_place(void)
{
	int size = try(hartebeest_size(self.hb)), rank = try(hartebeest_rank(self.hb));

	self.position = try(hartebeest_position(self.hb, rank));
	for (self.height = 1; self.height * self.height <= size; self.height++)
		if (size % self.height == 0)
			self.width = size / self.height;
	self.height = size / self.width;
}

static int neighbour(int direction)
{
	int x = self.position % self.width, y = self.position / self.width;

	x += (direction == RIGHT) - (direction == LEFT) + self.width;
	y += (direction == DOWN) - (direction == UP) + self.height;
	return try(hartebeest_participant(self.hb, y % self.height * self.width + x % self.width));
}

/* ---------------------------------------------------------------- connecting --- */

/* A WRITE with immediate data consumes a receive, but no memory.  Posts two, for two steps. */
static int refill(void *data, struct ibv_qp *qp)
{
	struct ibv_qp **place = data;
	uint64_t direction = (uint64_t)(place - self.qp);
	int ret = hartebeest_post_recv(qp, NULL, 0, 0, direction);

	return ret < 0 ? ret : hartebeest_post_recv(qp, NULL, 0, 0, direction);
}

static void create(void)
{
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_qp_attr attr;
	int i;

	try(hartebeest_pd_create(self.hb, "pd", NULL));
	try(hartebeest_cq_create(self.hb, "cq", NULL, &self.cq));
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = sizeof(*self.edges);
	mr_attr.access = ACCESS;
	try(hartebeest_mr_create(self.hb, "edges", &mr_attr, &self.mr));
	self.edges = self.mr->addr;
	for (i = 0; i < DIRECTIONS; i++) {
		hartebeest_qp_attr_init(&attr);
		attr.pd = "pd";
		attr.send_cq = "cq";
		attr.type = IBV_QPT_RC;
		try(hartebeest_qp_create(self.hb, names[i], &attr, &self.qp[i]));
		try(hartebeest_qp_refill_set(self.hb, names[i], refill, &self.qp[i]));
	}
}

/* Connects all four in one call, which asks the server for all at once. */
static void connect(void)
{
	static const char *const offer[] = { "edges" };
	struct hartebeest_pair pairs[DIRECTIONS];
	char keys[DIRECTIONS][32], peer_keys[DIRECTIONS][32];
	int i;

	for (i = 0; i < DIRECTIONS; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%d/%s", hartebeest_rank(self.hb), names[i]);
		snprintf(peer_keys[i], sizeof(peer_keys[i]), "%d/%s", neighbour(i),
			 names[opposite[i]]);
		hartebeest_pair_init(&pairs[i]);
		pairs[i].qp = names[i];
		pairs[i].key = keys[i];
		pairs[i].peer_key = peer_keys[i];
		pairs[i].offer = offer;
		pairs[i].offer_count = 1;
		pairs[i].regions = &self.there[i];
		pairs[i].region_room = 1;
	}
	try(hartebeest_pairs_connect(self.hb, pairs, DIRECTIONS, 0));
}

/* ------------------------------------------------------------------ one step --- */

static void send_edge(int direction, int step)
{
	double (*out)[SIDE] = self.edges->out[step % 2];
	double (*in)[SIDE] = self.edges->in[step % 2];
	ptrdiff_t place = (char *)in[opposite[direction]] - (char *)self.edges;
	int i, ret;

	for (i = 0; i < SIDE; i++)
		out[direction][i] = direction == LEFT ? tile[i][0] :
				    direction == RIGHT ? tile[i][SIDE - 1] :
				    direction == UP ? tile[0][i] : tile[SIDE - 1][i];
	ret = hartebeest_post_write_imm(self.qp[direction], out[direction], sizeof(*out),
					self.mr->lkey,
					self.there[direction].address + (uint64_t)place,
					self.there[direction].rkey, (uint32_t)step, 0,
					IBV_SEND_SIGNALED);
	if (ret == 0)
		return;
	fprintf(stderr, "posting: %s\n", strerror(-ret));
	exit(EXIT_FAILURE);
}

/* Takes one completion: a local write, or a neighbour's, whose receive is posted again. */
static void take_completion(void)
{
	struct ibv_wc wc;
	char text[512];

	if (hartebeest_poll_until(self.cq, 1, &wc, hartebeest_clock() + PATIENCE) < 0) {
		fprintf(stderr, "no completion within a minute\n");
		exit(EXIT_FAILURE);
	}
	if (wc.status != IBV_WC_SUCCESS) {
		hartebeest_completion_text(self.hb, &wc, text, sizeof(text));
		fprintf(stderr, "%s\n", text);
		exit(EXIT_FAILURE);
	}
	if (!(wc.opcode & IBV_WC_RECV)) {
		self.sent++;
		return;
	}
	self.came[wc.wr_id]++;
	if (hartebeest_post_recv(self.qp[wc.wr_id], NULL, 0, 0, wc.wr_id) < 0)
		exit(EXIT_FAILURE);
}

static int is_complete(int step)
{
	return self.sent == (step + 1) * DIRECTIONS && self.came[LEFT] > step &&
	       self.came[RIGHT] > step && self.came[UP] > step && self.came[DOWN] > step;
}

static double cell(double (*in)[SIDE], int x, int y)
{
	return x < 0 ? in[LEFT][y] : x == SIDE ? in[RIGHT][y] :
	       y < 0 ? in[UP][x] : y == SIDE ? in[DOWN][x] : tile[y][x];
}

static void relax(double (*in)[SIDE])
{
	int x, y;

	for (y = 0; y < SIDE; y++)
		for (x = 0; x < SIDE; x++)
			next_tile[y][x] = (cell(in, x - 1, y) + cell(in, x + 1, y) +
					   cell(in, x, y - 1) + cell(in, x, y + 1)) / 4;
	memcpy(tile, next_tile, sizeof(tile));
}

/* ------------------------------------------------------------- the whole field --- */

static double first_value(int x, int y)
{
	return (x * 31 + y * 17) % 101;
}

static void start_tile(void)
{
	int x, y, left = self.position % self.width * SIDE, top = self.position / self.width * SIDE;

	for (y = 0; y < SIDE; y++)
		for (x = 0; x < SIDE; x++)
			tile[y][x] = first_value(left + x, top + y);
}

/* How many rows of the local tile differ from the field that one process computes. */
static int compare(void)
{
	int w = self.width * SIDE, h = self.height * SIDE, step, x, y, wrong = 0;
	int left = self.position % self.width * SIDE, top = self.position / self.width * SIDE;
	size_t size = sizeof(double) * (size_t)(w * h);
	double *field = malloc(size), *next = malloc(size), *former;

	if (!field || !next)
		exit(EXIT_FAILURE);
	for (y = 0; y < h; y++)
		for (x = 0; x < w; x++)
			field[y * w + x] = first_value(x, y);
	for (step = 0; step < STEPS; step++) {
		for (y = 0; y < h; y++)
			for (x = 0; x < w; x++)
				next[y * w + x] = (field[y * w + (x + w - 1) % w] +
						   field[y * w + (x + 1) % w] +
						   field[(y + h - 1) % h * w + x] +
						   field[(y + 1) % h * w + x]) / 4;
		former = field;
		field = next;
		next = former;
	}
	for (y = 0; y < SIDE; y++)
		wrong += memcmp(tile[y], &field[(top + y) * w + left], sizeof(tile[y])) != 0;
	free(field);
	free(next);
	return wrong;
}

int main(void)
{
	int i, step, wrong;

	try(hartebeest_open(&self.hb, NULL));
	find_place();
	create();
	connect();

	start_tile();
	for (step = 0; step < STEPS; step++) {
		for (i = 0; i < DIRECTIONS; i++)
			send_edge(i, step);
		while (!is_complete(step))
			take_completion();
		relax(self.edges->in[step % 2]);
	}

	wrong = compare();
	printf("tile %d of %d x %d: %d steps, %d of %d rows are wrong\n", self.position, self.width,
	       self.height, STEPS, wrong, SIDE);
	/* A rank that leaves takes its memory with it: wait for each other. */
	try(hartebeest_barrier(self.hb, "done", 0));
	try(hartebeest_close(self.hb));
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
