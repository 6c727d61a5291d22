/* SPDX-License-Identifier: MIT */
/* pinger.c - see pinger.h */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <hartebeest-post.h>

#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "tools/pinger.h"
#include "tools/session.h"

/* Bytes of the GRH, which precedes the data of a received datagram. */
#define GRH 40
#define AHEAD (2 * 1024 * 1024)		/* bytes outstanding, unless four messages are more */
#define FIRST (100 * BEEST_MS)		/* until a first ping counts as lost */
#define SPIN (50 * BEEST_US)		/* until other processes may run */

/* The immediate value of a message: its number, and whether its echo should be empty. */
#define BRIEF 0x80000000u
#define NUMBER 0x7fffffffu

/* ---------------------------------------------------------- the buffer --- */

/* A slot for each receive, then one for data to send and one for data read back. */

static size_t slot_size(const struct plan *plan)
{
	return (GRH + (size_t)plan->last + 63) / 64 * 64;
}

int pinger_window(const struct plan *plan)
{
	return (int)BEEST_MAX(4, BEEST_MIN(64, AHEAD / (int64_t)slot_size(plan)));
}

size_t pinger_bytes(const struct plan *plan)
{
	return slot_size(plan) * ((size_t)pinger_window(plan) + 2);
}

static size_t slot_offset(const struct plan *plan, uint64_t slot)
{
	return slot_size(plan) * slot + GRH;
}

static void *slot_data(const struct pinger *pinger, uint64_t slot)
{
	return (char *)pinger->mr->addr + slot_offset(pinger->plan, slot);
}

static void *own_data(const struct pinger *pinger)
{
	return slot_data(pinger, (uint64_t)pinger_window(pinger->plan));
}

static void *back_data(const struct pinger *pinger)
{
	return slot_data(pinger, (uint64_t)pinger_window(pinger->plan) + 1);
}

/* Every byte depends on the ping's number and on the byte's place. */
static uint64_t data_word(uint32_t number, size_t index)
{
	return (number + 1) * UINT64_C(0x9e3779b97f4a7c15) ^
	       (index + 1) * UINT64_C(0xc2b2ae3d27d4eb4f);
}

static void data_fill(char *data, size_t size, uint32_t number)
{
	uint64_t word;
	size_t i;

	for (i = 0; i < size; i += sizeof(word)) {
		word = data_word(number, i);
		memcpy(data + i, &word, BEEST_MIN(sizeof(word), size - i));
	}
}

static bool data_is(const char *data, size_t size, uint32_t number)
{
	uint64_t word;
	size_t i;

	for (i = 0; i < size; i += sizeof(word)) {
		word = data_word(number, i);
		if (memcmp(data + i, &word, BEEST_MIN(sizeof(word), size - i)))
			return false;
	}
	return true;
}

/* --------------------------------------------------- posting and waiting --- */

static int post_failed(struct pinger *pinger, const struct ibv_send_wr *wr, int ret)
{
	if (ret < 0)
		hartebeest_post_text(pinger->hb, pinger->qp, wr, ret, pinger->why,
				     sizeof(pinger->why));
	return ret;
}

/* Posts a request, which the caller has addressed, with local data. */
static int post_request(struct pinger *pinger, struct ibv_send_wr *wr, void *data, uint32_t size)
{
	wr->wr_id = pinger->number;
	wr->send_flags = IBV_SEND_SIGNALED;
	pinger->sending++;
	return post_failed(pinger, wr, hartebeest_post_wr(pinger->qp, wr, data, size,
							  pinger->mr->lkey));
}

static int post_rdma(struct pinger *pinger, enum ibv_wr_opcode opcode, void *data, uint32_t size)
{
	struct ibv_send_wr wr = { .opcode = opcode };

	wr.wr.rdma.remote_addr = pinger->there.address + slot_offset(pinger->plan, 0);
	wr.wr.rdma.rkey = pinger->there.rkey;
	return post_request(pinger, &wr, data, size);
}

/* Posts a message with its number as immediate data.  A write goes to the number's slot. */
static int post_message(struct pinger *pinger, enum ibv_wr_opcode opcode, void *data,
			uint32_t size, uint32_t imm)
{
	uint64_t slot = (imm & NUMBER) % (uint32_t)pinger_window(pinger->plan);
	struct ibv_send_wr wr = { .opcode = opcode, .imm_data = HARTEBEEST_BE32_(imm) };

	if (pinger->plan->type == IBV_QPT_UD) {
		wr.wr.ud.ah = pinger->address.ah;
		wr.wr.ud.remote_qpn = pinger->address.qp_num;
		wr.wr.ud.remote_qkey = pinger->address.qkey;
	} else if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		wr.wr.rdma.remote_addr = pinger->there.address +
					 slot_offset(pinger->plan, slot);
		wr.wr.rdma.rkey = pinger->there.rkey;
	}
	return post_request(pinger, &wr, data, size);
}

/* A datagram's header goes before the data, which thus always begin at the same place. */
static int post_slot(const struct pinger *pinger, struct ibv_qp *qp, uint64_t slot)
{
	uint32_t header = pinger->plan->type == IBV_QPT_UD ? GRH : 0;

	return hartebeest_post_recv(qp, (char *)slot_data(pinger, slot) - header,
				    (uint32_t)pinger->plan->last + header, pinger->mr->lkey, slot);
}

static int post_slot_again(struct pinger *pinger, uint64_t slot)
{
	return post_failed(pinger, NULL, post_slot(pinger, pinger->qp, slot));
}

int pinger_refill(const struct pinger *pinger, struct ibv_qp *qp)
{
	int slot, ret = 0;

	for (slot = 0; slot < pinger_window(pinger->plan) && ret == 0; slot++)
		ret = post_slot(pinger, qp, (uint64_t)slot);
	return ret;
}

/* Receives are flushed when a request fails, so the request's completion shows the cause. */
static int completion_failed(struct pinger *pinger, const struct ibv_wc *wc)
{
	struct ibv_wc cause = *wc;

	if (wc->status == IBV_WC_WR_FLUSH_ERR && hartebeest_poll(pinger->send_cq, 1, &cause) < 1)
		cause = *wc;
	hartebeest_completion_text(pinger->hb, &cause, pinger->why, sizeof(pinger->why));
	return -EIO;
}

/*
 * Returns 1 with the next completion, or 0 if none arrived until @until.  Yields between polls:
 * two ends on one machine may have fewer processors than they and the kernel need.  Skips
 * completions that a failed queue pair of a mesh left in the queue.
 */
static int next_completion(struct pinger *pinger, struct ibv_cq *cq, struct ibv_wc *wc,
			   int64_t until)
{
	int64_t now = hartebeest_clock();
	int ret = -ETIMEDOUT;

	do {
		if (session_signal())
			return -ECANCELED;
		ret = hartebeest_poll_until(cq, 1, wc, BEEST_MIN(until, now + SPIN));
		if (ret == -ETIMEDOUT)
			sched_yield();
		if (ret == 1 && wc->qp_num != pinger->qp->qp_num)
			ret = -ETIMEDOUT;
		now = hartebeest_clock();
	} while (ret == -ETIMEDOUT && now < until);
	if (ret == -ETIMEDOUT)
		return 0;
	if (ret < 0) {
		snprintf(pinger->why, sizeof(pinger->why), "the completion queue failed");
		return ret;
	}
	return wc->status == IBV_WC_SUCCESS ? 1 : completion_failed(pinger, wc);
}

static int no_answer(struct pinger *pinger, const char *what)
{
	snprintf(pinger->why, sizeof(pinger->why), "no %s within %g s: the other end does not "
		 "answer", what, (double)pinger->patience / BEEST_SECOND);
	return -ETIMEDOUT;
}

/* Waits until at most @most requests are outstanding. */
static int wait_sent(struct pinger *pinger, int most)
{
	int64_t until = hartebeest_clock() + pinger->patience;
	struct ibv_wc wc;
	int ret;

	while (pinger->sending > most) {
		ret = next_completion(pinger, pinger->send_cq, &wc, until);
		if (ret < 1)
			return ret < 0 ? ret : no_answer(pinger, "completion");
		pinger->sending--;
	}
	return 0;
}

/* ------------------------------------------- by the other end's device --- */

static int do_rdma(struct pinger *pinger, enum ibv_wr_opcode opcode, void *data, uint32_t size)
{
	int ret = post_rdma(pinger, opcode, data, size);

	return ret == 0 ? wait_sent(pinger, 0) : ret;
}

/* Returns 1: the data are right, 0: they are wrong. */
static int ping_rdma(struct pinger *pinger, uint32_t size, int64_t *time)
{
	bool reads = pinger->plan->op == PLAN_READ;
	int64_t start, between;
	int ret;

	data_fill(own_data(pinger), size, pinger->number);
	start = hartebeest_clock();
	ret = do_rdma(pinger, IBV_WR_RDMA_WRITE, own_data(pinger), size);
	between = hartebeest_clock();
	if (ret == 0)
		ret = do_rdma(pinger, IBV_WR_RDMA_READ, back_data(pinger), size);
	*time = reads ? hartebeest_clock() - between : between - start;
	return ret < 0 ? ret : data_is(back_data(pinger), size, pinger->number);
}

/* Only this end changes the remote word, so it knows what the word should be. */
static int ping_atomic(struct pinger *pinger, int64_t *time)
{
	bool adds = pinger->plan->op == PLAN_FETCH_ADD;
	struct ibv_send_wr wr = { .opcode = adds ? IBV_WR_ATOMIC_FETCH_AND_ADD
						 : IBV_WR_ATOMIC_CMP_AND_SWP };
	uint64_t *found = back_data(pinger), before = pinger->sum;
	int64_t start;
	int ret;

	pinger->sum += data_word(pinger->number, 0);
	wr.wr.atomic.remote_addr = pinger->there.address + slot_offset(pinger->plan, 0);
	wr.wr.atomic.rkey = pinger->there.rkey;
	wr.wr.atomic.compare_add = adds ? pinger->sum - before : before;
	wr.wr.atomic.swap = pinger->sum;
	start = hartebeest_clock();
	ret = post_request(pinger, &wr, found, sizeof(*found));
	if (ret == 0)
		ret = wait_sent(pinger, 0);
	*time = hartebeest_clock() - start;
	return ret < 0 ? ret : *found == before;
}

int pinger_touch(struct pinger *pinger)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	int ret = post_request(pinger, &wr, own_data(pinger), 0);

	return ret == 0 ? wait_sent(pinger, 0) : ret;
}

/* -------------------------------------------------------- by its echo --- */

static enum ibv_wr_opcode message_opcode(const struct pinger *pinger)
{
	return pinger->plan->op == PLAN_SEND ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* A late echo was already counted as lost: its receive is posted again, and it is skipped. */
static int ping_echo(struct pinger *pinger, uint32_t size, int64_t *time)
{
	uint32_t number = pinger->number & NUMBER, came = ~number;
	int64_t start, until;
	struct ibv_wc wc;
	bool right = false;
	int ret;

	data_fill(own_data(pinger), size, pinger->number);
	start = hartebeest_clock();
	until = start + pinger->patience;
	ret = post_message(pinger, message_opcode(pinger), own_data(pinger), size, number);
	while (ret == 0 && came != number) {
		ret = next_completion(pinger, pinger->recv_cq, &wc, until);
		if (ret < 1)
			return ret < 0 ? ret : -EAGAIN;
		*time = hartebeest_clock() - start;
		came = hartebeest_wc_imm(&wc);
		right = data_is(slot_data(pinger, wc.wr_id), size, pinger->number);
		ret = post_slot_again(pinger, wc.wr_id);
	}
	if (ret == 0)
		ret = wait_sent(pinger, 0);
	return ret < 0 ? ret : right;
}

/* Data of a write are in the slot of its number, whichever receive it consumed. */
static int answer(struct pinger *pinger, const struct ibv_wc *wc)
{
	uint32_t imm = hartebeest_wc_imm(wc), size = wc->byte_len;
	uint64_t slot = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM
			? (imm & NUMBER) % (uint32_t)pinger_window(pinger->plan) : wc->wr_id;
	bool brief = imm & BRIEF;
	int ret = wait_sent(pinger, pinger_window(pinger->plan) - 1);

	if (pinger->plan->type == IBV_QPT_UD)
		size -= BEEST_MIN(size, GRH);
	if (ret == 0 && brief)
		ret = post_slot_again(pinger, wc->wr_id);
	if (ret == 0)
		ret = post_message(pinger, IBV_WR_SEND_WITH_IMM, slot_data(pinger, slot),
				   brief ? 0 : size, imm);
	if (ret == 0 && !brief)
		ret = wait_sent(pinger, 0);
	if (ret == 0 && !brief)
		ret = post_slot_again(pinger, wc->wr_id);
	return ret;
}

int pinger_answer(struct pinger *pinger, int64_t idle)
{
	struct ibv_wc wc;
	int ret = next_completion(pinger, pinger->recv_cq, &wc, hartebeest_clock() + idle);

	if (ret < 1)
		return ret;
	ret = answer(pinger, &wc);
	return ret < 0 ? ret : 1;
}

/* --------------------------------------------------------- measuring --- */

static int ping_once(struct pinger *pinger, uint32_t size, int64_t *time)
{
	if (plan_is_echo(pinger->plan))
		return ping_echo(pinger, size, time);
	if (pinger->plan->op == PLAN_READ || pinger->plan->op == PLAN_WRITE)
		return ping_rdma(pinger, size, time);
	return ping_atomic(pinger, time);
}

/* May return early after a signal. */
static void pause_until(int64_t instant)
{
	int64_t left = instant - hartebeest_clock();
	struct timespec time = { .tv_sec = left / BEEST_SECOND, .tv_nsec = left % BEEST_SECOND };

	if (left > 0)
		nanosleep(&time, NULL);
}

/* RC never loses a message, so a missing echo is a failure there. */
static int count_ping(struct pinger *pinger, struct pinger_result *result, int ret, int64_t time)
{
	if (ret == -EAGAIN && pinger->plan->type == IBV_QPT_RC)
		return no_answer(pinger, "echo");
	if (ret < 0 && ret != -EAGAIN)
		return ret;
	result->sent++;
	result->lost += ret == -EAGAIN;
	result->wrong += ret == 0;
	if (ret >= 0)
		histogram_add(&result->times, time);
	return 0;
}

static int measure_times(struct pinger *pinger, uint32_t size, struct pinger_result *result,
			 void (*seen)(void *data, const struct pinger_result *result), void *data)
{
	const struct plan *plan = pinger->plan;
	int64_t start = hartebeest_clock(), next = start, time = 0;
	int ret = 0;

	while (ret == 0 && result->sent < plan->count &&
	       (!plan->duration || hartebeest_clock() - start < plan->duration)) {
		pause_until(next);
		next = hartebeest_clock() + plan->interval;
		pinger->number++;
		ret = ping_once(pinger, size, &time);
		ret = count_ping(pinger, result, ret, time);
		if (seen)
			seen(data, result);
	}
	return ret;
}

/*
 * Posts one more message, without waiting for its completion or echo.  @both: writes and reads in
 * turn, which fill both directions of a link from one end.
 */
static int send_ahead(struct pinger *pinger, uint32_t size, bool both)
{
	bool reads = both ? pinger->number & 1 : pinger->plan->op == PLAN_READ;
	int ret = wait_sent(pinger, pinger_window(pinger->plan) - 1);

	pinger->number++;
	if (ret < 0)
		return ret;
	if (plan_is_echo(pinger->plan))
		return post_message(pinger, message_opcode(pinger), own_data(pinger), size,
				    (pinger->number & NUMBER) | BRIEF);
	return post_rdma(pinger, reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
			 reads ? back_data(pinger) : own_data(pinger), size);
}

/* Waits for an arrival.  Returns 1, or 0 for a late echo of an earlier ping. */
static int take_ahead(struct pinger *pinger)
{
	bool echo = plan_is_echo(pinger->plan);
	struct ibv_wc wc;
	int ret;

	ret = next_completion(pinger, echo ? pinger->recv_cq : pinger->send_cq, &wc,
			      hartebeest_clock() + pinger->patience);
	if (ret == 0)
		return no_answer(pinger, "completion");
	pinger->sending -= ret == 1 && !echo;
	if (ret < 0 || !echo)
		return ret;
	ret = post_slot_again(pinger, wc.wr_id);
	return ret < 0 ? ret : !!(hartebeest_wc_imm(&wc) & BRIEF);
}

/*
 * Keeps the window full of outstanding messages.  A lost message stops the measurement,
 * which over UC and UD is not a failure: the rate is that up to the last arrival.
 */
static int measure_rate(struct pinger *pinger, uint32_t size, bool both, int64_t *messages)
{
	const struct plan *plan = pinger->plan;
	int64_t start = hartebeest_clock(), last = start + 1, sent = 0, arrived = 0;
	int64_t end = start + (plan->duration ? plan->duration : BEEST_SECOND);
	int window = pinger_window(plan), ret = 0;

	while (ret >= 0 && (arrived < sent || hartebeest_clock() < end)) {
		while (ret >= 0 && sent - arrived < window && hartebeest_clock() < end) {
			ret = send_ahead(pinger, size, both);
			sent += ret == 0;
		}
		if (ret >= 0 && arrived < sent)
			ret = take_ahead(pinger);
		if (ret == 1) {
			arrived++;
			last = hartebeest_clock();
		}
	}
	*messages = (int64_t)((double)arrived * BEEST_SECOND / (double)(last - start));
	if (ret == -ETIMEDOUT && plan->type != IBV_QPT_RC)
		ret = 0;
	return ret < 0 ? ret : wait_sent(pinger, 0);
}

/* Sets the remote word to 0, where atomic operations begin. */
static int clear_word(struct pinger *pinger)
{
	static const uint64_t nothing;

	memcpy(own_data(pinger), &nothing, sizeof(nothing));
	return do_rdma(pinger, IBV_WR_RDMA_WRITE, own_data(pinger), sizeof(nothing));
}

int64_t pinger_first(struct pinger *pinger, int64_t until)
{
	bool lossy = pinger->plan->type != IBV_QPT_RC;
	int64_t patience = pinger->patience, time = 0;
	int ret = 0;

	if (lossy)
		pinger->patience = FIRST;
	if (pinger->plan->op >= PLAN_FETCH_ADD)
		ret = clear_word(pinger);
	while (ret == 0) {
		pinger->number++;
		ret = ping_once(pinger, (uint32_t)pinger->plan->first, &time);
		if (ret == -EAGAIN) {
			ret = lossy && hartebeest_clock() < until ? 0 : no_answer(pinger, "echo");
		} else if (ret == 0) {
			snprintf(pinger->why, sizeof(pinger->why),
				 "what returned is not what was sent");
			ret = -EBADMSG;
		}
	}
	pinger->patience = patience;
	return ret < 0 ? ret : time;
}

int pinger_measure(struct pinger *pinger, uint32_t size, struct pinger_result *result,
		   void (*seen)(void *data, const struct pinger_result *result), void *data)
{
	int64_t messages = 0;
	int ret;

	memset(result, 0, sizeof(*result));
	ret = measure_times(pinger, size, result, seen, data);
	if (ret < 0 || !pinger->plan->bandwidth || pinger->plan->op >= PLAN_FETCH_ADD)
		return ret;
	ret = measure_rate(pinger, size, false, &result->messages);
	result->rate = result->messages * size;
	if (ret == 0 && pinger->plan->bandwidth > 1 && !plan_is_echo(pinger->plan))
		ret = measure_rate(pinger, size, true, &messages);
	result->both = messages * size;
	return ret;
}
