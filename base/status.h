// Outcomes of a step of the protocol core, and the words for them.
//
// Three things are never mixed: `back_pressure` (nothing is wrong, try later), a failed lane (one
// queue pair is gone) and a failed peer (the process is out of reach).
#pragma once

#include <cstdint>

namespace weir {

enum class Status : std::uint8_t {
  ok,
  back_pressure,  // a queue is at its cap; nothing was taken
  peer_failed,    // the peer is out of reach; nothing was taken
  too_large,      // the message exceeds what one receive buffer of the peer holds
  elsewhere,      // frames to the peer go over another rail; nothing was taken
};

// Why a peer is given up. Reported once per peer, with its name.
enum class FailReason : std::uint8_t {
  none,
  atomic_in_doubt,      // the connection broke, and an atomic may or may not have been executed
  frames_lost,          // the peer lacks frames of a broken connection that its adapter acknowledged
  connect_refused,      // the peer's host answered that nobody listens there
  connect_timeout,      // no answer within the connect deadline
  connect_unreachable,  // no address or route to the peer
  connect_spoilt,       // the peer accepted, and the connection was gone before it was confirmed
  rejected_version,     // no protocol version in common
  rejected_buffer,      // receive buffers of different size on the two sides
  rejected_stranger,    // another process than the intended one answers there
  send_failed,          // a send completed with an error (see the completion status)
  receive_failed,       // a receive completed with an error
  bad_frame,            // bytes from the peer that no weir sends
  stalled,              // posted work did not complete within the peer deadline
  vanished,             // the connection went down without a goodbye
  no_resources,         // a queue pair or its memory could not be made
  adapter_broken,       // our own adapter failed, so nobody can be reached
  port_down,            // our own port went down, and there are others
};

// Completion status of one work request; the values of `enum ibv_wc_status`, in its order.
enum class CompletionStatus : std::uint8_t {
  success,
  loc_len_err,
  loc_qp_op_err,
  loc_eec_op_err,
  loc_prot_err,
  wr_flush_err,
  mw_bind_err,
  bad_resp_err,
  loc_access_err,
  rem_inv_req_err,
  rem_access_err,
  rem_op_err,
  retry_exc_err,
  rnr_retry_exc_err,
  loc_rdd_viol_err,
  rem_inv_rd_req_err,
  rem_abort_err,
  inv_eecn_err,
  inv_eec_state_err,
  fatal_err,
  resp_timeout_err,
  general_err,
};

// A short sentence without a full stop, for a person.
const char* to_text(Status status);
const char* to_text(FailReason reason);
const char* to_text(CompletionStatus status);

// What a person can do about it, one or two sentences. `same_host`: the peer runs on this host.
const char* remedy(FailReason reason, CompletionStatus status, bool same_host = false);

}  // namespace weir
