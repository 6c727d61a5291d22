/* SPDX-License-Identifier: MIT */
/*
 * bytes.c - two processes connect by bytes over a socket, with no server
 *
 * The parent and its child have a socket pair.  Any carrier will do in its place.  Each writes a
 * greeting into the memory of the other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hartebeest.h>
#include <hartebeest-post.h>

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define ROOM HARTEBEEST_EXPORT_SIZE(1, 1)
#define GREETING 64

static void check(int ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s\n", hartebeest_error());
	exit(EXIT_FAILURE);
}

/* Sends @size bytes, and receives as many in their place. */
static void carry(int fd, void *bytes, size_t size)
{
	size_t got = 0;
	ssize_t ret;

	if (write(fd, bytes, size) != (ssize_t)size) {
		perror("write");
		exit(EXIT_FAILURE);
	}
	for (; got < size; got += (size_t)ret) {
		ret = read(fd, (char *)bytes + got, size - got);
		if (ret <= 0) {
			fprintf(stderr, "the other end has ended\n");
			exit(EXIT_FAILURE);
		}
	}
}

static void make(struct hartebeest_context *hb, struct ibv_mr **mr, struct ibv_cq **cq,
		 struct ibv_qp **qp)
{
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_qp_attr qp_attr;

	check(hartebeest_pd_create(hb, "pd", NULL));
	check(hartebeest_cq_create(hb, "cq", NULL, cq));
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = 4096;
	mr_attr.access = ACCESS;
	check(hartebeest_mr_create(hb, "mr", &mr_attr, mr));
	hartebeest_qp_attr_init(&qp_attr);
	qp_attr.pd = "pd";
	qp_attr.send_cq = "cq";
	qp_attr.type = IBV_QPT_RC;
	check(hartebeest_qp_create(hb, "qp", &qp_attr, qp));
}

/* Exports and imports until each end knows that the other is connected to it. */
static void meet(struct hartebeest_context *hb, struct hartebeest_pair *pair, int fd)
{
	char bytes[ROOM] = "";
	size_t size;
	int left;

	do {
		size = sizeof(bytes);
		check(hartebeest_qp_export(hb, pair, 1, bytes, &size));
		carry(fd, bytes, sizeof(bytes));
		check(left = hartebeest_qp_import(hb, pair, 1, bytes, sizeof(bytes), 0));
	} while (left > 0);
}

static void end(const char *key, const char *peer_key, int fd)
{
	static const char *const offer[] = { "mr" };
	struct hartebeest_remote_mr there;
	struct hartebeest_context *hb;
	struct hartebeest_pair pair;
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	char written = 'w', text[512];
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	check(hartebeest_open(&hb, NULL));
	make(hb, &mr, &cq, &qp);
	hartebeest_pair_init(&pair);
	pair.qp = "qp";
	pair.key = key;
	pair.peer_key = peer_key;
	pair.offer = offer;
	pair.offer_count = 1;
	pair.regions = &there;
	pair.region_room = 1;
	meet(hb, &pair, fd);

	snprintf(mr->addr, GREETING, "hello from %s", key);
	check(hartebeest_post_write(qp, mr->addr, GREETING, mr->lkey, there.address + 2048,
				    there.rkey, 1, IBV_SEND_SIGNALED));
	check(hartebeest_poll_until(cq, 1, &wc, hartebeest_clock() + 10000000000));
	if (wc.status != IBV_WC_SUCCESS) {
		hartebeest_completion_text(hb, &wc, text, sizeof(text));
		fprintf(stderr, "%s\n", text);
		exit(EXIT_FAILURE);
	}
	carry(fd, &written, 1);		/* now both have written */
	printf("%s reads: %s\n", key, (char *)mr->addr + 2048);
	hartebeest_close(hb);
}

int main(void)
{
	int fds[2], status = 0;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
		return perror("socketpair"), EXIT_FAILURE;
	child = fork();
	if (child == 0) {
		close(fds[0]);
		end("a", "b", fds[1]);
		return EXIT_SUCCESS;
	}
	close(fds[1]);
	end("b", "a", fds[0]);
	waitpid(child, &status, 0);
	return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
