// The rules: what some adapter refuses, or answers with wrong data, though Soft-RoCE does neither.
//
// X(name, what is wrong, source). IBTA: sections of the InfiniBand specification 1.3, volume 1;
// NAME(3): a manual page; providers/: rdma-core; core/, hw/, sw/: Linux, drivers/infiniband.
// breaks.cc breaks each of them.
#pragma once

#define STRICT_RULES(X)                                                                            \
  /* Objects */                                                                                    \
  X(gone, "it was never made, or it is destroyed", "freed memory: ibv_destroy_qp(3) and its like") \
  X(in_use, "others still use it", "ibv_dealloc_pd(3), ibv_destroy_cq(3), ibv_close_device(3)")    \
  X(region_in_use, "posted work is in this memory", "ibv_post_send(3); a protection error")        \
  X(unacknowledged, "its events are not acknowledged", "ibv_get_async_event(3): waits for ever")   \
  X(polled_after_destroy, "the queue may have completions of a queue pair that is destroyed",      \
    "providers/qedr/qelr_verbs.c: they point to it; providers/vmw_pvrdma/cq.c: polls end there")   \
  X(forked, "a child has no part in its parent's objects", "ibv_fork_init(3); core/uverbs_main.c") \
  X(thread_domain, "two threads at a time use queues of a thread domain",                          \
    "ibv_alloc_td(3); providers/mlx5/verbs.c: they have no locks")                                 \
  X(region_empty, "a region has bytes", "providers/hns/hns_roce_u_verbs.c: no region, no errno")   \
  X(srq_limit, "the limit exceeds the queue", "IBTA 11.2.3.3; hw/hns: EINVAL")                     \
  /* Steps of a queue pair */                                                                      \
  X(step, "there is no such step", "IBTA 11.2.5.2; core/verbs.c, qp_state_table")                  \
  X(step_lacks, "the step requires more attributes", "IBTA 11.2.5.2; core/verbs.c, req_param")     \
  X(step_refuses, "the step takes fewer attributes", "IBTA 11.2.5.2; core/verbs.c, opt_param")     \
  X(port, "the device has no such port", "ibv_query_device(3), phys_port_cnt")                     \
  X(pkey_index, "the port has no such entry", "ibv_query_port(3), pkey_tbl_len; hw/vmw_pvrdma")    \
  X(path_mtu, "the port's active MTU is smaller", "ibv_query_port(3), active_mtu: packets lost")   \
  X(timers, "it exceeds its field", "IBTA 11.2.5.2, ibv_modify_qp(3); hw/vmw_pvrdma: EINVAL")      \
  X(numbers, "a PSN and the number of a queue pair have 24 bits", "IBTA 9.2; ibv_modify_qp(3)")    \
  X(reads_at_once, "the device has fewer at once", "ibv_query_device(3); hw/bnxt_re: EINVAL")      \
  X(grh, "on Ethernet a path has a global header and a GID", "IBTA A16; rdma_check_ah_attr")       \
  X(gid_index, "the port has no such entry", "ibv_query_port(3), gid_tbl_len")                     \
  X(hop_limit, "the first router drops it", "IBTA 8.3; ibv_create_ah(3)")                          \
  X(lid, "on InfiniBand a path has a unicast LID", "IBTA 4.1.3; ibv_create_ah(3)")                 \
  X(service_level, "it exceeds its field", "IBTA 7.7; on Ethernet it is a priority, of 3 bits")    \
  /* Work */                                                                                       \
  X(send_state, "sends want RTS, or a state that flushes", "IBTA 10.3.1; hw/hns, qedr: EINVAL")    \
  X(receive_state, "in RESET nothing is posted", "IBTA 10.3.1; ibv_modify_qp(3)")                  \
  X(send_queue_full, "more sends than asked for are not known as complete",                        \
    "IBTA 10.8.2; providers/mlx5/qp.c: ENOMEM")                                                    \
  X(never_freed, "the send queue is full, and nothing in it will tell", "ibv_post_send(3)")        \
  X(receive_queue_full, "more receives than asked for", "providers/mlx5/srq.c: ENOMEM")            \
  X(completion_queue_full, "more completions may come than asked for", "ibv_create_cq(3): CQ_ERR") \
  X(send_pieces, "more pieces than asked for", "IBTA 11.4.1.1; ibv_create_qp(3), max_send_sge")    \
  X(receive_pieces, "more pieces than asked for", "IBTA 11.4.1.2; ibv_create_srq(3), max_sge")     \
  X(piece_empty, "a piece of 0 bytes means 2 GiB", "providers/mlx4/qp.c, set_data_seg")            \
  X(inline_opcode, "sends and writes alone are inline", "ibv_post_send(3), IBV_SEND_INLINE")       \
  X(inline_size, "the queue pair has less inline", "hw/hns: EINVAL; hw/vmw_pvrdma: other data")    \
  X(message_size, "the port's messages are shorter", "ibv_query_port(3), max_msg_sz")              \
  X(atomic_length, "an atomic returns one piece of 8 bytes", "IBTA 11.4.1.1; sw/rxe: takes more")  \
  X(atomic_alignment, "an atomic's target is aligned to 8 bytes", "IBTA 9.4.5: a NAK")             \
  /* Memory */                                                                                     \
  X(key_unknown, "no region has this lkey", "ibv_post_send(3), ibv_dereg_mr(3)")                   \
  X(key_domain, "the region has another protection domain", "IBTA 11.4.1.1; ibv_alloc_pd(3)")      \
  X(key_bounds, "the piece exceeds the region", "ibv_reg_mr(3); a protection error")               \
  X(key_rights, "the adapter may not write there", "ibv_reg_mr(3), IBV_ACCESS_LOCAL_WRITE")        \
  X(order_relaxed, "a peer writes there, and in any order", "ibv_reg_mr(3): it may be polled")     \
  X(remote_region, "the target, in this process, is no such region", "ibv_reg_mr(3); a NAK")       \
  X(buffer_changed, "it changed before it was known as sent", "ibv_post_send(3): wrong data")
