#include "base/status.h"

namespace weir {

const char* to_text(Status status) {
  switch (status) {
    case Status::ok: return "ok";
    case Status::back_pressure: return "back-pressure";
    case Status::peer_failed: return "the peer has failed";
    case Status::too_large: return "the message is larger than a receive buffer";
    case Status::elsewhere: return "messages go over another rail";
  }
  return "unknown status";
}

const char* to_text(FailReason reason) {
  switch (reason) {
    case FailReason::none: return "no failure";
    case FailReason::atomic_in_doubt:
      return "the connection broke while an atomic operation was under way, which may or may not "
             "have been executed";
    case FailReason::frames_lost:
      return "the connection broke, and the peer lacks messages that its adapter had acknowledged";
    case FailReason::connect_refused: return "the connection was refused";
    case FailReason::connect_timeout: return "no answer to the connection request";
    case FailReason::connect_unreachable: return "no address or route to the peer";
    case FailReason::connect_spoilt:
      return "the connection broke after the peer had accepted it, before it was confirmed";
    case FailReason::rejected_version:
      return "the peer and this process have no protocol version in common";
    case FailReason::rejected_buffer:
      return "the peer's receive buffers differ in size from this process's";
    case FailReason::rejected_stranger: return "another process answers at the peer's address";
    case FailReason::send_failed: return "a send failed";
    case FailReason::receive_failed: return "a receive failed";
    case FailReason::bad_frame: return "the peer sent bytes that are no weir frame";
    case FailReason::stalled: return "posted work did not complete in time";
    case FailReason::vanished: return "the peer's process is gone";
    case FailReason::no_resources: return "a queue pair could not be set up";
    case FailReason::adapter_broken: return "this process's own adapter failed";
    case FailReason::port_down: return "this process's own port went down";
  }
  return "unknown failure";
}

const char* to_text(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::success: return "success";
    case CompletionStatus::loc_len_err: return "local length error";
    case CompletionStatus::loc_qp_op_err: return "local QP operation error";
    case CompletionStatus::loc_eec_op_err: return "local EE context operation error";
    case CompletionStatus::loc_prot_err: return "local protection error";
    case CompletionStatus::wr_flush_err: return "work request flushed";
    case CompletionStatus::mw_bind_err: return "memory window bind error";
    case CompletionStatus::bad_resp_err: return "bad response";
    case CompletionStatus::loc_access_err: return "local access error";
    case CompletionStatus::rem_inv_req_err: return "remote invalid request";
    case CompletionStatus::rem_access_err: return "remote access error";
    case CompletionStatus::rem_op_err: return "remote operation error";
    case CompletionStatus::retry_exc_err: return "transport retry counter exceeded";
    case CompletionStatus::rnr_retry_exc_err: return "RNR retry counter exceeded";
    case CompletionStatus::loc_rdd_viol_err: return "local RDD violation";
    case CompletionStatus::rem_inv_rd_req_err: return "remote invalid RD request";
    case CompletionStatus::rem_abort_err: return "remote aborted";
    case CompletionStatus::inv_eecn_err: return "invalid EE context number";
    case CompletionStatus::inv_eec_state_err: return "invalid EE context state";
    case CompletionStatus::fatal_err: return "fatal device error";
    case CompletionStatus::resp_timeout_err: return "response timeout";
    case CompletionStatus::general_err: return "general error";
  }
  return "unknown completion status";
}

const char* remedy(FailReason reason, CompletionStatus status, bool same_host) {
  switch (reason) {
    case FailReason::atomic_in_doubt:
    case FailReason::frames_lost:
      return "Look at the peer's own output first: it may have been killed. Then check the cables "
             "and the port's counters";
    case FailReason::connect_refused:
    case FailReason::vanished:
      return "Look at the peer's own output: it most likely ended or was killed";
    case FailReason::connect_timeout:
      if (same_host) {
        return "Both processes run on this host. If it is very busy, raise "
               "btl_weir_connect_timeout. If not, look at the peer's own output: the peer makes no "
               "progress";
      }
      [[fallthrough]];
    case FailReason::connect_unreachable:
    case FailReason::connect_spoilt:
      return "Check that the two hosts reach each other over the RDMA network (rping, ibv_devinfo)";
    case FailReason::rejected_version: return "Use the same weir version on every host";
    case FailReason::rejected_buffer:
      return "Give btl_weir_buffer_size the same value on every host";
    case FailReason::rejected_stranger:
      return "The peer most likely ended, and another process got its port. Look at the peer's own "
             "output";
    case FailReason::bad_frame:
      return "Use the same weir version on every host; report this as a bug";
    case FailReason::stalled:
      return "Check the link of the device named above (ibv_devinfo) and the kernel log. A peer "
             "that computes with too small a receive window causes this, too: raise "
             "btl_weir_window_max";
    case FailReason::no_resources:
      return "Check the locked-memory limit (ulimit -l) and the device's QP limit (ibv_devinfo -v)";
    case FailReason::adapter_broken:
      return "Check the adapter of this host (ibv_devinfo) and the kernel log";
    case FailReason::port_down:
      return "Check the cable and the switch port of the device named above (ibv_devinfo)";
    default: break;
  }
  switch (status) {
    case CompletionStatus::retry_exc_err:
      return "The peer's host, port or process did not answer: check its link and its output. If "
             "its host is only very busy, raise btl_weir_ack_timeout";
    case CompletionStatus::rem_inv_req_err:
      return "Between hosts of Soft-RoCE a needless retry can cause this: raise "
             "btl_weir_ack_timeout. With other adapters report this as a bug";
    case CompletionStatus::rnr_retry_exc_err:
      return "The peer had no receive buffer for too long: raise btl_weir_window_max there";
    case CompletionStatus::rem_access_err:
      return "The peer has not registered that memory, or has released it. Look for memory that is "
             "freed, or detached from a window, while others use it. If there is none, report this "
             "as a bug";
    case CompletionStatus::rem_op_err:
    case CompletionStatus::loc_len_err:
      return "Give btl_weir_buffer_size the same value on every host";
    default: return "Check the link of the device named above (ibv_devinfo) and the kernel log";
  }
}

}  // namespace weir
