/* SPDX-License-Identifier: MIT */
/*
 * queues.c - waiting for completions with epoll(7), shared receive queues, and the choice of a
 * near adapter
 *
 * promise: hartebeest_cq(3), hartebeest_srq(3)
 */
#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/support/live.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/unit.h"

#define QPS 3			/* to the other rank */
#define MESSAGES 40		/* on each queue pair */
#define SIZE 64

struct end {
	struct hartebeest_context *hb;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[QPS];
	int rank;
};

static void end_post(struct end *end, uint64_t slot)
{
	EXPECT(hartebeest_post_srq_recv(end->srq, (char *)end->mr->addr + slot * SIZE, SIZE,
					end->mr->lkey, slot) == 0);
}

static void end_open(struct end *end, int rank)
{
	struct hartebeest_pair pairs[QPS];
	char names[QPS][3][32];
	uint64_t slot;
	int i;

	memset(end, 0, sizeof(*end));
	end->rank = rank;
	EXPECT(hartebeest_open(&end->hb, NULL) == 0);
	EXPECT(hartebeest_pd_create(end->hb, "pd", NULL) == 0);
	EXPECT(cq_make(end->hb, "cq", 4 * QPS * MESSAGES, HARTEBEEST_CQ_CHANNEL,
		       &end->cq) == 0);
	EXPECT(srq_make(end->hb, "receives", "pd", 64, 1, &end->srq) == 0);
	EXPECT(mr_make(end->hb, "mr", "pd", 128 * SIZE, LIVE_ACCESS, &end->mr) == 0);
	for (slot = 0; slot < 32; slot++)
		end_post(end, slot);
	for (i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr attr = {
			.qp_type = IBV_QPT_RC, .send_cq = end->cq, .recv_cq = end->cq,
			.srq = end->srq,
		};

		snprintf(names[i][0], sizeof(names[i][0]), "qp %d", i);
		snprintf(names[i][1], sizeof(names[i][1]), "%d/%d", rank, i);
		snprintf(names[i][2], sizeof(names[i][2]), "%d/%d", !rank, i);
		EXPECT(hartebeest_qp_create_verbs(end->hb, names[i][0], "pd", &attr,
						 &end->qp[i]) == 0);
		hartebeest_pair_init(&pairs[i]);
		pairs[i].qp = names[i][0];
		pairs[i].key = names[i][1];
		pairs[i].peer_key = names[i][2];
	}
	EXPECT(hartebeest_pairs_connect(end->hb, pairs, QPS, 0) == 0);
}

static void end_send(struct end *end, int qp, int number)
{
	char *slot = (char *)end->mr->addr + (64 + (number + qp) % 64) * SIZE;

	memset(slot, 'a' + qp, SIZE);
	EXPECT(hartebeest_post_send(end->qp[qp], slot, SIZE, end->mr->lkey, 1000,
				    IBV_SEND_SIGNALED) == 0);
}

/* Rank 1 answers each message, and each answer makes rank 0 send the next. */
static void end_take(struct end *end, const struct ibv_wc *wc, int received[QPS])
{
	int qp = 0;

	EXPECT(wc->status == IBV_WC_SUCCESS);
	if (!(wc->opcode & IBV_WC_RECV))
		return;
	while (qp < QPS && end->qp[qp]->qp_num != wc->qp_num)
		qp++;
	EXPECT(qp < QPS);
	EXPECT(((char *)end->mr->addr)[wc->wr_id * SIZE] == 'a' + qp);
	end_post(end, wc->wr_id);
	received[qp]++;
	if (end->rank == 1 || received[qp] < MESSAGES)
		end_send(end, qp, received[qp]);
}

static bool all_received(const int received[QPS])
{
	int i;

	for (i = 0; i < QPS; i++)
		if (received[i] < MESSAGES)
			return false;
	return true;
}

/* Works like a server: sleeps in epoll(7), then takes all completions. */
static int epoll_rank(int rank, void *data)
{
	struct epoll_event wanted = { .events = EPOLLIN }, got;
	int i, ret, sleeps = 0, received[QPS] = { 0 };
	struct ibv_wc wc[4];
	struct end end;
	int epoll;

	(void)data;
	end_open(&end, rank);
	epoll = epoll_create1(0);
	EXPECT(epoll_ctl(epoll, EPOLL_CTL_ADD, hartebeest_cq_fd(end.hb, "cq"), &wanted) == 0);
	for (i = 0; rank == 0 && i < QPS; i++)
		end_send(&end, i, 0);
	while (!all_received(received)) {
		while ((ret = hartebeest_cq_wait(end.hb, end.cq, 4, wc, HARTEBEEST_ONCE)) > 0)
			for (i = 0; i < ret; i++)
				end_take(&end, &wc[i], received);
		EXPECT(ret == -EAGAIN);
		/* After a missed event, this would wait for ever. */
		if (!all_received(received)) {
			EXPECT(epoll_wait(epoll, &got, 1, -1) == 1);
			sleeps++;
		}
	}
	EXPECT(sleeps > 0);
	close(epoll);
	EXPECT(hartebeest_barrier(end.hb, "leaving", 0) == 0);
	EXPECT(hartebeest_close(end.hb) == 0);
	return 0;
}

/* The same with hartebeest_cq_wait() alone. */
static int wait_rank(int rank, void *data)
{
	int i, ret, received[QPS] = { 0 };
	struct ibv_wc wc[4];
	struct end end;

	(void)data;
	end_open(&end, rank);
	EXPECT(hartebeest_cq_wait(end.hb, end.cq, 1, wc, hartebeest_clock() + 1000000) ==
	       -ETIMEDOUT);
	EXPECT(hartebeest_barrier(end.hb, "begin", 0) == 0);
	for (i = 0; rank == 0 && i < QPS; i++)
		end_send(&end, i, 0);
	while (!all_received(received)) {
		ret = hartebeest_cq_wait(end.hb, end.cq, 4, wc, HARTEBEEST_FOREVER);
		EXPECT(ret > 0);
		for (i = 0; i < ret; i++)
			end_take(&end, &wc[i], received);
	}
	EXPECT(hartebeest_barrier(end.hb, "leaving", 0) == 0);
	EXPECT(hartebeest_close(end.hb) == 0);
	return 0;
}

/* ------------------------------------------------------------------ near --- */

/* Does a verbs device have a place in sysfs, itself or through its network interface? */
static bool any_has_place(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **each;
	char path[IBV_SYSFS_PATH_MAX + 64], netdev[64] = "";
	bool has = false;
	FILE *file;

	for (each = list; each && *each && !has; each++) {
		snprintf(path, sizeof(path), "%s/device", (*each)->ibdev_path);
		has = access(path, F_OK) == 0;
		snprintf(path, sizeof(path), "%s/parent", (*each)->ibdev_path);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fscanf(file, "%63s", netdev) == 1) {
			snprintf(path, sizeof(path), "/sys/class/net/%s/device", netdev);
			has |= access(path, F_OK) == 0;
		}
		fclose(file);
	}
	ibv_free_device_list(list);
	return has;
}

static void opens_near(const char *option)
{
	const char *options[] = { option, NULL };
	struct hartebeest_context *hb;
	char text[1024];

	assert_int_equal(hartebeest_open(&hb, options), 0);
	if (any_has_place()) {
		assert_true(hartebeest_device_text(hb, text, sizeof(text)) >= 0);
		assert_non_null(strstr(text, ", near:"));
	} else {
		assert_int_equal(hartebeest_port_num(hb), -ENODATA);
		assert_non_null(strstr(hartebeest_error(), "neither it nor its network interface "
				       "has a place in sysfs"));
	}
	assert_int_equal(hartebeest_close(hb), 0);
}

static void near_what_is_there(void **state)
{
	DIR *folder = opendir("/sys/bus/pci/devices");
	struct dirent *entry = NULL;
	char option[300];

	(void)state;
	opens_near("device.name=near:numa");
	while (folder && (entry = readdir(folder)) && entry->d_name[0] == '.')
		;
	if (entry) {
		snprintf(option, sizeof(option), "device.name=near:pci:%s", entry->d_name);
		opens_near(option);
	}
	if (folder)
		closedir(folder);
}

static void with_epoll(void **state)
{
	(void)state;
	assert_int_equal(live_pair(epoll_rank, NULL), 0);
}

static void with_wait(void **state)
{
	(void)state;
	assert_int_equal(live_pair(wait_rank, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_epoll),
		cmocka_unit_test(with_wait),
		cmocka_unit_test(near_what_is_there),
	};

	ranks_need_device();
	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
