/* hello.c - two processes; each writes a greeting into the other's memory */
#include <hartebeest.h>
#include <hartebeest-post.h>
#include <stdio.h>

#define TRY(call) \
	if ((call) < 0) \
		return fprintf(stderr, "%s\n", hartebeest_error()), 1

int main(void)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	const char *me, *peer, *offer[] = { "mr" };
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_remote_mr there;
	struct hartebeest_qp_attr qp_attr;
	struct hartebeest_pair pair;
	struct hartebeest_context *hb;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	char text[512] = "nothing was posted, or did not complete";
	int rank, size;

	TRY(hartebeest_open(&hb, NULL));
	TRY(rank = hartebeest_rank(hb));
	TRY(size = hartebeest_size(hb));
	if (size != 2)
		return fprintf(stderr, "hello is for 2 ranks\n"), 1;
	me = rank ? "b" : "a";
	peer = rank ? "a" : "b";

	TRY(hartebeest_pd_create(hb, "pd", NULL));
	TRY(hartebeest_cq_create(hb, "cq", NULL, &cq));
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd", mr_attr.length = 4096, mr_attr.access = access;
	TRY(hartebeest_mr_create(hb, "mr", &mr_attr, &mr));
	hartebeest_qp_attr_init(&qp_attr);
	qp_attr.pd = "pd", qp_attr.send_cq = "cq", qp_attr.type = IBV_QPT_RC;
	TRY(hartebeest_qp_create(hb, "qp", &qp_attr, &qp));

	hartebeest_pair_init(&pair);
	pair.qp = "qp", pair.key = me, pair.peer_key = peer;
	pair.offer = offer, pair.offer_count = 1;
	pair.regions = &there, pair.region_room = 1;
	TRY(hartebeest_pairs_connect(hb, &pair, 1, HARTEBEEST_DEFAULT));

	snprintf(mr->addr, 2048, "hello from %s", me);
	if (hartebeest_post_write(qp, mr->addr, 64, mr->lkey,
				  there.address + 2048, there.rkey, 1,
				  IBV_SEND_SIGNALED) < 0 ||
	    hartebeest_poll_until(cq, 1, &wc, HARTEBEEST_DEFAULT) < 0 ||
	    hartebeest_completion_text(hb, &wc, text, sizeof(text)) < 0 ||
	    wc.status != IBV_WC_SUCCESS)
		return fprintf(stderr, "%s\n", text), 1;
	TRY(hartebeest_barrier(hb, "written", HARTEBEEST_DEFAULT));
	printf("%s reads: %s\n", me, (char *)mr->addr + 2048);
	hartebeest_close(hb);
	return 0;
}
