#include "transport/verbs/queues.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdlib>
#include <cstring>

#include "transport/verbs/refusals.h"

namespace weir::verbs {
namespace {

constexpr std::size_t chain_max = 48;  // work requests linked on the stack at a time, in 7 KB

static_assert(static_cast<int>(CompletionStatus::wr_flush_err) == IBV_WC_WR_FLUSH_ERR);
static_assert(static_cast<int>(CompletionStatus::retry_exc_err) == IBV_WC_RETRY_EXC_ERR);
static_assert(static_cast<int>(CompletionStatus::general_err) == IBV_WC_GENERAL_ERR);

ibv_mtu mtu_code(std::uint32_t bytes) {
  return bytes >= 4096   ? IBV_MTU_4096
         : bytes >= 2048 ? IBV_MTU_2048
         : bytes >= 1024 ? IBV_MTU_1024
         : bytes >= 512  ? IBV_MTU_512
                         : IBV_MTU_256;
}

[[gnu::hot]] void translate(const WorkRequest& work, ibv_send_wr& request, ibv_sge& piece,
                            ibv_send_wr* next) {
  piece = {work.address, work.length_bytes, work.lkey};
  request.wr_id = work.id;
  request.next = next;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = 0;
  if (work.signalled) request.send_flags |= IBV_SEND_SIGNALED;
  if (work.inlined) request.send_flags |= IBV_SEND_INLINE;
  if (work.solicited) [[unlikely]]
    request.send_flags |= IBV_SEND_SOLICITED;
  if (work.opcode == Opcode::send) [[likely]]
    return;
  request.num_sge = work.length_bytes == 0 ? 0 : 1;  // to some adapters a length of 0 means 2 GiB
  switch (work.opcode) {
    case Opcode::read:
    case Opcode::write:
    case Opcode::probe:
      request.opcode = work.opcode == Opcode::read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
      request.wr.rdma = {work.remote_address, work.rkey};
      return;
    case Opcode::fetch_add:
      request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
      request.wr.atomic = {work.remote_address, work.operand, 0, work.rkey};
      return;
    case Opcode::compare_swap:
      request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
      request.wr.atomic = {work.remote_address, work.compare, work.operand, work.rkey};
      return;
    case Opcode::send:
    case Opcode::receive: return;
  }
}

}  // namespace

std::unique_ptr<Queues> Queues::create(const Device& device, std::uint32_t max_receives,
                                       const QueuePairOptions& options, std::string& why) {
  std::unique_ptr<Queues> queues(new Queues(device, options));
  queues->completions_ = CompletionQueues::create(device, max_receives, options.send_depth, why);
  if (!queues->completions_) return nullptr;
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = max_receives;
  attributes.attr.max_sge = 1;
  errno = 0;
  queues->srq_.reset(ibv_create_srq(device.queue_pd(), &attributes));
  if (!queues->srq_) {
    why = cannot_create("a shared receive queue of " + std::to_string(max_receives) + " receives",
                        device,
                        std::to_string(device.limits().max_srq_wr) + " (max_srq_wr), and has " +
                            std::to_string(device.limits().max_srq) + " such queues (max_srq)");
    return nullptr;
  }
  return queues;
}

std::uint32_t Queues::create_pair(LaneId lane, std::string& why) {
  return make_pair(lane, options_.send_depth, why);
}

std::uint32_t Queues::create_second_pair(LaneId lane, std::uint32_t send_depth, std::string& why) {
  const auto entries = static_cast<std::uint32_t>(device_.limits().max_cqe);
  const auto pairs = static_cast<std::uint32_t>(device_.limits().max_qp);
  const std::uint32_t wanted = completions_->most_completions() + send_depth;
  if (wanted > entries / 2 || pair_count_ >= pairs / 2) {
    why = "cannot make a second queue pair to a peer on " + device_.port().name() +
          ", because half of the device's limits is kept for other peers. This process has " +
          std::to_string(pair_count_) + " of " + std::to_string(pairs) +
          " queue pairs (max_qp), and needs " + std::to_string(wanted) + " of " +
          std::to_string(entries) + " completions (max_cqe) at most";
    return 0;
  }
  return make_pair(lane, send_depth, why);
}

std::uint32_t Queues::make_pair(LaneId lane, std::uint32_t send_depth, std::string& why) {
  ibv_cq* const cq = completions_->with_room(send_depth, why);
  if (cq == nullptr) return 0;
  const std::uint32_t number = add_pair(lane, cq, send_depth);
  if (number == 0) {
    why = cannot_create("a queue pair", device_,
                        std::to_string(device_.limits().max_qp) +
                            " for all processes (max_qp), and this one has " +
                            std::to_string(pair_count_));
  }
  return number;
}

// `inline_bytes`: asked for, and then what the pair can have.
Queues::Pair Queues::ask_for_pair(ibv_cq* cq, std::uint32_t send_depth,
                                  std::uint32_t& inline_bytes) const {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = cq;
  attributes.recv_cq = cq;
  attributes.srq = srq_.get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = send_depth;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_inline_data = inline_bytes;
  errno = 0;
  Pair made(ibv_create_qp(device_.queue_pd(), &attributes));
  if (made) inline_bytes = std::min(inline_bytes, attributes.cap.max_inline_data);
  return made;
}

void Queues::make_spare(Spare& spare) const {
  spare.pair = ask_for_pair(spare.cq, options_.send_depth, spare.inline_bytes);
}

void Queues::keep_spare(Spare spare) {
  if (spare.pair == nullptr) return;
  spare_ = std::move(spare.pair);
  options_.inline_bytes = std::min(options_.inline_bytes, spare.inline_bytes);
}

// Devices do not say how much they can post inline. Some refuse a pair that wants too much, for
// which not all set errno; others lower it. (rdma-core: bnxt_re, irdma refuse, hns, pvrdma lower)
Queues::Pair Queues::ask_for_less_inline(ibv_cq* cq, std::uint32_t send_depth) {
  constexpr std::uint32_t step = 32;
  std::uint32_t bytes = options_.inline_bytes;
  Pair made = ask_for_pair(cq, send_depth, bytes);
  while (!made && bytes > 0) {
    bytes = bytes > step ? (bytes - 1) / step * step : 0;
    made = ask_for_pair(cq, send_depth, bytes);
  }
  // A device that refuses even without inline data has another reason.
  if (made) options_.inline_bytes = bytes;
  return made;
}

std::uint32_t Queues::add_pair(LaneId lane, ibv_cq* cq, std::uint32_t send_depth) {
  if (spare_ != nullptr && spare_->send_cq != cq) spare_.reset();
  const bool fits = spare_ != nullptr && send_depth == options_.send_depth;
  Pair made = fits ? std::move(spare_) : ask_for_less_inline(cq, send_depth);
  if (!made) return 0;
  if (pairs_.size() <= index(lane)) {
    pairs_.resize(index(lane) + 1);
    depths_.resize(index(lane) + 1);
    paths_.resize(index(lane) + 1);
  }
  assert(pairs_[index(lane)] == nullptr);
  pairs_[index(lane)] = std::move(made);
  depths_[index(lane)] = send_depth;
  completions_->add(cq, send_depth);
  ++pair_count_;
  const std::uint32_t number = pairs_[index(lane)]->qp_num;
  numbers_.add(number, lane);
  return number;
}

bool Queues::retire_pair(LaneId lane) {
  if (!has_pair(lane)) return false;
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  // If this fails, nothing was ever posted to the pair, or the device is gone.
  const bool ends = ibv_modify_qp(pair(lane), &error, IBV_QP_STATE) == 0;
  retired_.push_back({.pair = std::move(pairs_[index(lane)]),
                      .send_depth = depths_[index(lane)],
                      .marker = ends ? Marker::due : Marker::none});
  return true;
}

// A queue pair in error flushes its work requests in order [IBTA 10.3.1.5]. The marker writes no
// bytes, should it be sent after all.
bool Queues::is_flushed(Retired& retired) {
  if (retired.marker == Marker::due) {
    ibv_send_wr marker{};
    marker.wr_id = marker_bit | retired.pair->qp_num;
    marker.opcode = IBV_WR_RDMA_WRITE;
    marker.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(retired.pair.get(), &marker, &bad);
    if (error == 0) {
      retired.marker = Marker::posted;
    } else if (std::abs(error) != ENOMEM) {  // ENOMEM: the send queue is full until a poll
      retired.marker = Marker::none;
    }
  }
  return retired.marker == Marker::none;
}

void Queues::on_marker(const ibv_wc& wc) {
  for (Retired& retired : retired_) {
    if (retired.pair->qp_num == (wc.wr_id & ~marker_bit)) retired.marker = Marker::none;
  }
}

void Queues::destroy_flushed() {
  constexpr std::size_t most_late = 64;
  std::size_t surplus = retired_.size() > most_late ? retired_.size() - most_late : 0;
  std::erase_if(retired_, [&](Retired& retired) {
    numbers_.remove(retired.pair->qp_num);
    if (!is_flushed(retired) && surplus == 0) return false;
    if (surplus > 0) --surplus;
    completions_->remove(retired.pair->send_cq, retired.send_depth);
    --pair_count_;
    return true;
  });
}

bool Queues::modify(LaneId lane, ibv_qp_attr attributes, int mask) {
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) attributes.min_rnr_timer = options_.rnr_timer_code;
  if ((mask & IBV_QP_TIMEOUT) != 0) attributes.timeout = options_.ack_timeout_code;
  if ((mask & IBV_QP_RETRY_CNT) != 0) attributes.retry_cnt = options_.retry_count;
  if ((mask & IBV_QP_RNR_RETRY) != 0) attributes.rnr_retry = 7;  // for ever: RNR is not a failure
  if ((mask & IBV_QP_PATH_MTU) != 0 && options_.mtu_bytes != 0) {
    attributes.path_mtu = std::min(attributes.path_mtu, mtu_code(options_.mtu_bytes));
  }
  // The connection manager's values are only the peer's limits. [IBTA 12.7.29, 12.7.30]
  attributes.max_rd_atomic = std::min(attributes.max_rd_atomic, device_.most_fetches_started());
  attributes.max_dest_rd_atomic =
      std::min(attributes.max_dest_rd_atomic, device_.most_fetches_answered());
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && options_.pkey_index) {
    attributes.pkey_index = *options_.pkey_index;
  }
  if ((mask & IBV_QP_AV) != 0) {
    if (options_.service_level) attributes.ah_attr.sl = *options_.service_level;
    if (options_.traffic_class) attributes.ah_attr.grh.traffic_class = *options_.traffic_class;
  }
  if (!good(ibv_modify_qp(pair(lane), &attributes, mask))) return false;
  Path& path = paths_[index(lane)];
  if ((mask & IBV_QP_AV) != 0) path.address = attributes.ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) path.mtu = attributes.path_mtu;
  if ((mask & IBV_QP_PORT) != 0) path.port = attributes.port_num;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) path.pkey_index = attributes.pkey_index;
  return true;
}

void Queues::advertise_rnr_timer(std::uint8_t code) {
  options_.rnr_timer_code = code;
  old_rnr_timers_ = pairs_.size();
}

bool Queues::adjust_an_rnr_timer() {
  ibv_qp_attr attributes{};
  attributes.min_rnr_timer = options_.rnr_timer_code;
  while (old_rnr_timers_ > 0) {
    const Pair& pair = pairs_[--old_rnr_timers_];
    // Allowed in RTS [IBTA 11.2.5.2]; pairs in earlier states get it with the step to RTR.
    if (pair && pair->state == IBV_QPS_RTS) {
      return ibv_modify_qp(pair.get(), &attributes, IBV_QP_MIN_RNR_TIMER) == 0;
    }
  }
  return true;
}

bool Queues::bring_up(LaneId lane, ibv_qp_attr path) {
  path.qp_access_flags =
      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  path.max_dest_rd_atomic = device_.most_fetches_answered();
  path.qp_state = IBV_QPS_INIT;
  if (!modify(lane, path, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
    return false;
  }
  path.qp_state = IBV_QPS_RTR;
  if (!modify(lane, path,
              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) {
    return false;
  }
  path.qp_state = IBV_QPS_RTS;
  return modify(lane, path,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

bool Queues::connect_on_port(LaneId lane, std::uint32_t qp_number) {
  const PortChoice& port = device_.port();
  ibv_port_attr local{};
  if (ibv_query_port(device_.context(), port.port, &local) != 0) return false;

  ibv_qp_attr path{};
  path.port_num = port.port;
  path.pkey_index = device_.full_member_index();
  path.path_mtu = local.active_mtu;
  path.dest_qp_num = qp_number;
  path.max_rd_atomic = std::min(device_.most_fetches_started(), device_.most_fetches_answered());
  path.ah_attr.port_num = port.port;
  path.ah_attr.dlid = local.lid;
  path.ah_attr.is_global = 1;
  path.ah_attr.grh.hop_limit = 64;
  path.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(port.gid.index);
  std::memcpy(path.ah_attr.grh.dgid.raw, port.gid.raw.data(), port.gid.raw.size());
  return bring_up(lane, path);
}

// Never 0, which means no label. Starts at a hash of the pair's number, so that peers differ.
std::uint32_t Queues::flow_label(const ibv_qp& first, std::uint8_t number) {
  constexpr std::uint32_t odd = 0x9e3779b1;
  constexpr std::uint32_t port_bits = 0x3fff;
  const std::uint32_t label = ((first.qp_num * odd) >> 18) + number;
  return (label & port_bits) | (port_bits + 1);
}

bool Queues::connect_beside(LaneId lane, LaneId beside, const wire::LaneEnd& ours,
                            const wire::LaneEnd& theirs, std::uint32_t reads) {
  if (!has_pair(lane) || !has_pair(beside)) return false;
  const Path& first = paths_[index(beside)];
  ibv_qp_attr path{};
  path.ah_attr = first.address;
  // A fabric with ECMP chooses a path by UDP source port. mlx5 derives this port from the flow
  // label, so further lanes get neighbouring labels, which the usual hashes tell apart. Soft-RoCE
  // and others ignore the label and derive the port from the pair's number, which cannot be chosen.
  // There a peer needs more lanes than paths to use all paths with some likelihood.
  if (ours.number > 0 && path.ah_attr.is_global != 0) {
    path.ah_attr.grh.flow_label = flow_label(*pair(beside), ours.number);
  }
  path.path_mtu = first.mtu;
  path.port_num = first.port;
  path.pkey_index = first.pkey_index;
  path.dest_qp_num = theirs.qp_number;
  path.rq_psn = theirs.psn;
  path.sq_psn = ours.psn;
  path.max_rd_atomic = static_cast<std::uint8_t>(
      std::min<std::uint32_t>(std::max(reads, 1u), device_.most_fetches_started()));
  return bring_up(lane, path);
}

// By ibv_wr_* a send takes 151 instructions of Soft-RoCE's provider instead of 190, and as long.
// It is not used, because tests/adapter/strict watches ibv_post_send alone.
bool Queues::post(std::span<const WorkRequest> chain) {
  ibv_qp* const qp = pair(chain.front().lane);
  if (qp == nullptr) return good(ENOTCONN);
  ibv_send_wr* bad = nullptr;
  if (chain.size() == 1) [[likely]] {
    ibv_send_wr request;
    ibv_sge piece;
    translate(chain.front(), request, piece, nullptr);
    return good(ibv_post_send(qp, &request, &bad));
  }
  std::array<ibv_send_wr, chain_max> requests;
  std::array<ibv_sge, chain_max> pieces;
  while (!chain.empty()) {
    const std::size_t count = std::min(chain.size(), chain_max);
    for (std::size_t i = 0; i < count; ++i) {
      translate(chain[i], requests[i], pieces[i], i + 1 < count ? &requests[i + 1] : nullptr);
    }
    if (!good(ibv_post_send(qp, requests.data(), &bad))) return false;
    chain = chain.subspan(count);
  }
  return true;
}

bool Queues::post(std::span<const ReceivePost> chain) {
  ibv_recv_wr* bad = nullptr;
  const auto translate_receive = [](const ReceivePost& receive, ibv_recv_wr& request,
                                    ibv_sge& piece, ibv_recv_wr* next) {
    piece = {receive.address, receive.length_bytes, receive.lkey};
    request = {receive_bit | index(receive.buffer), next, &piece, 1};
  };
  if (chain.size() == 1) [[likely]] {
    ibv_recv_wr request;
    ibv_sge piece;
    translate_receive(chain.front(), request, piece, nullptr);
    return good(ibv_post_srq_recv(srq_.get(), &request, &bad));
  }
  std::array<ibv_recv_wr, chain_max> requests;
  std::array<ibv_sge, chain_max> pieces;
  while (!chain.empty()) {
    const std::size_t count = std::min(chain.size(), chain_max);
    for (std::size_t i = 0; i < count; ++i) {
      translate_receive(chain[i], requests[i], pieces[i],
                        i + 1 < count ? &requests[i + 1] : nullptr);
    }
    if (!good(ibv_post_srq_recv(srq_.get(), requests.data(), &bad))) return false;
    chain = chain.subspan(count);
  }
  return true;
}

bool Queues::arm(SrqArm arm) {
  ibv_srq_attr attributes{};
  attributes.srq_limit = arm.limit;
  return good(ibv_modify_srq(srq_.get(), &attributes, IBV_SRQ_LIMIT));
}

}  // namespace weir::verbs
