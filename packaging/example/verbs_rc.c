/* Two RC queue pairs of this process, connected over the first device's port: one sends, the other one
 * receives, and the data are compared. Where there is no device this fails; it does not skip. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PORT = 1, SIZE = 10000 /* three packets */, LIMIT_S = 30 };

static void check(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "verbs_rc: failed: %s\n", what);
  exit(1);
}

/* RoCE addresses by GID. The one of an IPv4 address is routed, and is not always the first. */
static struct ibv_gid_entry gid_of_ipv4(struct ibv_context *context, int entries) {
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  struct ibv_gid_entry entry;
  for (int i = 0; i < entries; i++)
    if (!ibv_query_gid_ex(context, PORT, (uint32_t)i, &entry, 0) && entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
        !memcmp(entry.gid.raw, mapped, sizeof mapped))
      return entry;
  check(0, "a GID of RoCEv2 over IPv4");
  abort();
}

static struct ibv_qp *new_queue_pair(struct ibv_pd *pd, struct ibv_cq *cq) {
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT};
  struct ibv_qp *qp = ibv_create_qp(pd, &init);
  check(qp != NULL, "ibv_create_qp");
  check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
  return qp;
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, const struct ibv_gid_entry *gid, enum ibv_mtu mtu) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = peer,
      .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
      .ah_attr = {.is_global = 1, .port_num = PORT,
                  .grh = {.dgid = gid->gid, .sgid_index = (uint8_t)gid->gid_index, .hop_limit = 64}}};
  check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
  /* retry_cnt 7 would repeat for ever on Soft-RoCE, and a dead peer would be a test that hangs. */
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 16, .retry_cnt = 6, .rnr_retry = 6,
      .max_rd_atomic = 1};
  check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

int main(void) {
  struct ibv_device **devices = ibv_get_device_list(NULL);
  check(devices && devices[0], "an RDMA device");
  struct ibv_context *context = ibv_open_device(devices[0]);
  check(context != NULL, "ibv_open_device");
  struct ibv_port_attr port;
  check(!ibv_query_port(context, PORT, &port) && port.state == IBV_PORT_ACTIVE, "an active port");
  const struct ibv_gid_entry gid = gid_of_ipv4(context, port.gid_tbl_len);

  static unsigned char out[SIZE], in[SIZE];
  for (int i = 0; i < SIZE; i++) out[i] = (unsigned char)(7 * i + i / 251);
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  check(pd && cq, "ibv_alloc_pd and ibv_create_cq");
  struct ibv_mr *of_out = ibv_reg_mr(pd, out, SIZE, 0), *of_in = ibv_reg_mr(pd, in, SIZE, IBV_ACCESS_LOCAL_WRITE);
  check(of_out && of_in, "ibv_reg_mr");
  struct ibv_qp *sender = new_queue_pair(pd, cq), *receiver = new_queue_pair(pd, cq);
  connect_to(sender, receiver->qp_num, &gid, port.active_mtu);
  connect_to(receiver, sender->qp_num, &gid, port.active_mtu);

  struct ibv_sge into = {(uintptr_t)in, SIZE, of_in->lkey}, from = {(uintptr_t)out, SIZE, of_out->lkey};
  struct ibv_recv_wr receive = {.sg_list = &into, .num_sge = 1}, *bad_receive;
  struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND,
      .send_flags = IBV_SEND_SIGNALED}, *bad_send;
  check(!ibv_post_recv(receiver, &receive, &bad_receive), "ibv_post_recv");
  check(!ibv_post_send(sender, &send, &bad_send), "ibv_post_send");
  const time_t deadline = time(NULL) + LIMIT_S;
  for (int left = 2; left > 0;) {
    struct ibv_wc done;
    const int n = ibv_poll_cq(cq, 1, &done);
    check(n >= 0, "ibv_poll_cq");
    check(time(NULL) < deadline, "both completions in time");
    if (n > 0) check(done.status == IBV_WC_SUCCESS, ibv_wc_status_str(done.status));
    left -= n;
  }
  check(!memcmp(in, out, SIZE), "the same data");
  printf("verbs_rc: %d bytes over %s, GID %u\n", SIZE, ibv_get_device_name(devices[0]), gid.gid_index);
  return 0; /* and the kernel frees it all */
}
