/* hello.c - two processes; each writes a greeting into the other's memory */
#include <hartebeest.h>
#include <hartebeest-post.h>
#include <stdio.h>

#define SECOND INT64_C(1000000000)	/* ns */

#define TRY(call) \
	if ((call) < 0) \
		return fprintf(stderr, "%s\n", hartebeest_error()), 1

int main(void)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	const char *me, *peer, *offer[] = { "mr" };
	struct hartebeest_remote_mr there;
	struct hartebeest_qp_request request;
	struct hartebeest_pair pair;
	struct hartebeest_context *hb;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	char text[512] = "nothing was posted, or did not complete";
	int rank;

	TRY(hartebeest_open(&hb, NULL));
	TRY(rank = hartebeest_rank(hb));
	if (hartebeest_size(hb) != 2)
		return fprintf(stderr, "hello is for 2 ranks\n"), 1;
	me = rank ? "b" : "a";
	peer = rank ? "a" : "b";

	TRY(hartebeest_pd_create(hb, "pd", NULL));
	TRY(hartebeest_cq_create(hb, "cq", 0, 0, &cq));
	TRY(hartebeest_mr_create(hb, "mr", "pd", 4096, access, &mr));
	hartebeest_qp_request_preset(&request);
	request.pd = "pd", request.send_cq = "cq", request.type = IBV_QPT_RC;
	TRY(hartebeest_qp_create(hb, "qp", &request, &qp));

	hartebeest_pair_preset(&pair);
	pair.qp = "qp", pair.key = me, pair.peer_key = peer;
	pair.offer = offer, pair.offered = 1;
	pair.regions = &there, pair.room = 1;
	TRY(hartebeest_pairs_connect(hb, &pair, 1, 0));

	snprintf(mr->addr, 2048, "hello from %s", me);
	if (hartebeest_post_write(qp, mr->addr, 64, mr->lkey,
				  there.address + 2048, there.rkey, 1,
				  IBV_SEND_SIGNALED) < 0 ||
	    hartebeest_poll_until(cq, 1, &wc,
				  hartebeest_clock() + SECOND) < 0 ||
	    hartebeest_completion_text(hb, &wc, text, sizeof(text)) < 0 ||
	    wc.status != IBV_WC_SUCCESS)
		return fprintf(stderr, "%s\n", text), 1;
	TRY(hartebeest_barrier(hb, "written", 0));
	printf("%s reads: %s\n", me, (char *)mr->addr + 2048);
	hartebeest_close(hb);
	return 0;
}
