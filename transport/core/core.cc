#include "transport/core/core.h"

namespace weir {
namespace {

// With admission, every chain of frames ends with a signalled work request: its completion returns
// the tokens. Chains of reads are off: a chain could not wait for tokens in the middle.
CoreConfig fitted(CoreConfig config) {
  if (config.proxy) config.queue.signal_ends = true;  // the way depends on whether a lane is empty
  if (config.admission.policy == Admission::Policy::off) return config;
  config.queue.signal_ends = true;
  config.transfers.chain_bytes = 0;
  return config;
}

}  // namespace

Core::Core(const Config& config)
    : config_(fitted(config)),
      peers_(config.first_frame, config.first_relayed),
      lanes_(config_.queue, *this),
      receiver_(config_, counters_, *this),
      sender_(config_, counters_, peers_, lanes_, receiver_, *this),
      connector_(config_, counters_, peers_, lanes_, receiver_, sender_, *this),
      arrival_(config_, receiver_, sender_),
      transfers_(config_, counters_, peers_, lanes_, sender_, connector_),
      watch_(config_, peers_, lanes_, sender_, connector_),
      node_line_(config_, counters_, sender_, transfers_),
      relay_server_(config_, counters_, peers_, sender_, connector_, proxy_),
      relay_task_(config_, counters_, peers_, lanes_, sender_, relay_server_, proxy_),
      relayed_arrivals_(config_, counters_, peers_, receiver_),
      node_gate_(node_line_, relay_task_, relay_server_) {
  if (node_line_.limits()) set_gates();
}

void Core::limit(const Now& now, const CoreLimits& limits, Outbox& out) {
  config_.window_unasked = limits.window_unasked;
  receiver_.limit(limits.window, out);
  node_line_.limit(limits.tokens, limits.bytes_per_second);
  if (node_line_.limits()) set_gates();  // for good: something may wait in the line
  transfers_.limit(now, limits.reads, out);
}

void Core::set_gates() {
  sender_.set_gate(&node_gate_);
  transfers_.set_gate(&node_gate_);
}

void Core::join_proxy(const ProxyGround& ground, std::uint32_t slot, ProcessId self,
                      std::optional<std::uint32_t> cells_lkey) {
  proxy_.join(ground, slot, self);
  relay_server_.start(cells_lkey);
  relay_task_.start();
  node_gate_.add_proxy();
  sender_.set_gate(&node_gate_);
}

// ---- what the layer above asks for ----

[[gnu::flatten]] Status Core::send(const Now& now, PeerId id, SendSlot* slot,
                                   std::uint32_t length_bytes, std::uint8_t tag, bool must_take,
                                   Outbox& out) {
  Peer& peer = peers_[id];
  const Status status = sender_.send(now, peer, slot, length_bytes, tag, must_take, out);
  if (status == Status::ok && peer.connection.is_idle()) [[unlikely]]
    connector_.connect(now, peer, out);
  return status;
}

void Core::send_car(const Now& now, PeerId id, SendSlot* slot, std::uint32_t length_bytes,
                    bool is_last, Outbox& out) {
  Peer& peer = peers_[id];
  sender_.send_car(now, peer, slot, length_bytes, is_last, out);
  if (is_last && peer.connection.is_idle()) [[unlikely]]
    connector_.connect(now, peer, out);
}

Status Core::send_frame(const Now& now, PeerId id, SendSlot* slot, Outbox& out) {
  Peer& peer = peers_[id];
  const Status status = sender_.send_frame(now, peer, slot, out);
  if (status != Status::ok) return status;
  if (peer.connection.is_idle()) connector_.connect(now, peer, out);
  return status;
}

void Core::transfer(const Now& now, const TransferRequest& request, Outbox& out) {
  transfers_.submit(now, request, out);
  Peer& peer = peers_[request.peer];
  if (peer.connection.is_idle()) connector_.connect(now, peer, out);
}

void Core::pump(const Now& now, Outbox& out) {
  sender_.post_held(now, out);
  receiver_.post(out);
  receiver_.look_at_shares(out);
  receiver_.drop_slabs(out);
}

// ---- completions ----

void Core::on_send_completion(const Now& now, const Completion& completion, Outbox& out) {
  Lane* lane = lanes_.open(completion.lane);
  if (lane == nullptr) return;  // the lane was dropped meanwhile
  Peer& peer = peers_[lane->peer];
  if (completion.status != CompletionStatus::success) {
    const RdmaInFlight* const chunk = lane->queue.find_chunk(completion.id);
    const TransferRequest request =
        chunk != nullptr ? transfers_.request_of(*chunk) : TransferRequest{};
    if (transfers_.leaves(now, peer, completion.lane, completion.status, out)) return;
    return connector_.on_bad_completion(now, peer, completion.status, request, out);
  }
  lane->queue.retire(
      completion.id, [&](SendSlot* slot) { on_frame_over(slot, true, out); },
      [&](const RdmaInFlight& chunk) {
        on_chunk_over(chunk);
        transfers_.on_chunk(now, chunk);
      });
  if (!lane->open) return;
  transfers_.fetch_lanes().tell(peer, out);
  if (has_transfers()) [[unlikely]]
    transfers_.go_on(now, peer, out);
  go_on(now, peer, out);
}

void Core::retire(SendSlot* slot, bool delivered, Outbox& out) {
  if (slot->messages == 0) {
    sender_.take_back(slot);
  } else if (slot->kind == wire::FrameKind::relayed) [[unlikely]] {
    relay_server_.on_over(slot, delivered, out);
  } else {
    slot->kind = wire::FrameKind::messages;  // the frame may have been repeated
    out.retired.push_back({slot, delivered});
  }
}

void Core::on_receive_completion(const Now& now, const Completion& completion, Outbox& out) {
  const BufferId buffer{static_cast<std::uint32_t>(completion.id)};
  if (!receiver_.arrive(buffer)) return;
  if (receiver_.is_empty()) [[unlikely]]
    receiver_.note_empty(now.time());
  Lane* lane = lanes_.open(completion.lane);
  if (lane == nullptr) return receiver_.put_back(buffer);  // sent on a lane that we dropped
  Peer& peer = peers_[lane->peer];
  if (completion.status != CompletionStatus::success) {
    receiver_.put_back(buffer);
    return connector_.on_lane_lost(
        now, peer, {peer.id, FailReason::receive_failed, completion.status, {}, {}}, out);
  }
  const std::byte* frame = receiver_.data(buffer);
  const std::size_t size = completion.length_bytes;
  const std::uint32_t due = lane->rx_sequence;
  wire::FrameHeader header;
  const FrameFault fault = arrival_.take(peer, *lane, frame, size, header);
  if (fault != FrameFault::none) [[unlikely]]
    return on_bad_frame(now, peer, buffer, describe(fault, due, frame, size), out);
  connector_.on_first_frame(now, peer, out);

  if (header.kind == wire::FrameKind::messages) [[likely]] {
    ++counters_.frames_received;
    deliver(peer, buffer, frame + wire::frame_header_bytes, size - wire::frame_header_bytes,
            counters_, out);
  } else {
    // The description needs the buffer, so it comes before the buffer goes back.
    BadFrame bad = describe(FrameFault::none, due, frame, size);
    bad.fault = take_special(now, peer, buffer, header, size, out);
    if (bad.fault != FrameFault::none) [[unlikely]]
      return refuse(now, peer, bad, out);
  }
  transfers_.fetch_lanes().tell(peer, out);  // the frame may have brought a credit for it
  go_on(now, peer, out);
}

FrameFault Core::take_special(const Now& now, Peer& peer, BufferId buffer, wire::FrameHeader header,
                              std::size_t size, Outbox& out) {
  using Kind = wire::FrameKind;
  if (header.kind == Kind::relayed || header.kind == Kind::repeated) {
    const bool good = relayed_arrivals_.take(peer.id, buffer, size, out);
    return good ? FrameFault::none : FrameFault::relayed;
  }
  ++counters_.control_received;
  const std::byte* const body = receiver_.data(buffer) + wire::frame_header_bytes;
  const wire::LaneEnd end =
      header.kind == Kind::lane_end ? wire::get_lane_end(body) : wire::LaneEnd{};
  const HandoverMessage handover =
      header.kind == Kind::handover ? wire::get_handover(body) : HandoverMessage{};
  receiver_.put_back(buffer);
  const auto unless = [](bool in_turn, FrameFault fault) {
    return in_turn ? FrameFault::none : fault;
  };
  switch (header.kind) {
    case Kind::recall: sender_.return_credits(peer, header.credits, out); break;
    case Kind::trains: sender_.set_takes_trains(peer, header.credits != 0); break;
    case Kind::goodbye: connector_.on_goodbye(now, peer, out); break;
    case Kind::part: return unless(connector_.on_part(now, peer, out), FrameFault::part);
    case Kind::stay: return unless(connector_.on_stay(now, peer, out), FrameFault::part);
    case Kind::lane_end:
      return unless(transfers_.fetch_lanes().on_told(now, peer, end, out), FrameFault::lane_end);
    case Kind::handover:
      if (!config_.among_rails) return FrameFault::handover;
      out.report(LinkNews{.peer = peer.id, .kind = LinkNews::Kind::message, .message = handover});
      break;
    default: break;
  }
  return FrameFault::none;
}

// Some devices deliver a frame twice, and the peer is not to blame.
void Core::on_bad_frame(const Now& now, Peer& peer, BufferId buffer, const BadFrame& bad,
                        Outbox& out) {
  receiver_.put_back(buffer);
  if (bad.fault != FrameFault::twice || !config_.frames_may_repeat) {
    return refuse(now, peer, bad, out);
  }
  ++counters_.frames_twice;
}

void Core::refuse(const Now& now, Peer& peer, const BadFrame& bad, Outbox& out) {
  connector_.fail(now, peer, {peer.id, FailReason::bad_frame, CompletionStatus::success, bad}, out);
}

// ---- connections ----

void Core::on_ready(const Now& now, Peer& peer, Outbox& out) {
  sender_.note_lent(peer);  // also tells whether it may send trains
  transfers_.settle(peer);
  sender_.go_on_with_all(now, peer, out);
  transfers_.go_on(now, peer, out);
  transfers_.fetch_lanes().on_ready(now, peer, out);
}

void Core::on_gone(const Now& now, Peer& peer, Outbox& out) {
  transfers_.drop(now, peer, out);
  node_line_.forget(peer);
  sender_.settle_doubt(peer, 0, [&](SendSlot* slot, bool) { retire(slot, false, out); });
  sender_.drop_pending(peer, [&](SendSlot* slot) { retire(slot, false, out); });
  relay_task_.drop(peer, out);
}

void Core::on_dropped(const Now& now, LaneId id, Outbox& out) {
  const Lane* const fenced = lanes_.open(id);
  if (fenced == nullptr) return lanes_.on_destroyed(id);
  Peer& peer = peers_[fenced->peer];
  lanes_.close_fenced(
      id,
      [&](SendSlot* slot) {
        give_back_tokens(*slot);
        sender_.keep_in_doubt(peer, slot);
      },
      [&](const RdmaInFlight& chunk) {
        on_chunk_over(chunk);
        transfers_.on_chunk_lost(now, chunk);
      });
  if (fenced->use == LaneUse::fetches) {
    transfers_.fetch_lanes().forget(now, peer, fenced->number, out);
    lanes_.on_destroyed(id);
    return transfers_.go_again(now, peer, out);
  }
  lanes_.on_destroyed(id);
  connector_.on_fenced(now, peer, *fenced, transfers_.repeat_lost(now, peer, out), out);
}

// Leaves out the lane to ourselves, which uses no port, and lanes asked for, which are retried.
void Core::on_port_down(const Now& now, Outbox& out) {
  if (!config_.among_rails) return;
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_.at(i);
    const Connection& connection = peer.connection;
    if (peer.name == config_.self || !(connection.is_open() || connection.is_leaving())) continue;
    connector_.on_lane_lost(
        now, peer, {peer.id, FailReason::port_down, CompletionStatus::success, {}, {}}, out);
  }
}

void Core::give_up_all(const Now& now, Outbox& out) {
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    connector_.fail(now, peers_.at(i), FailReason::adapter_broken, out);
  }
}

// ---- the node ----

void Core::look_at_node(const Now& now, Outbox& out) {
  node_line_.begin_look(now);
  if (transfers_.wait_for_node()) transfers_.issue(now, out);
  node_line_.look(now, out);
}

void Core::look_at_proxy(const Now& now, bool present, Outbox& out) {
  relay_task_.look(now, out);
  relay_server_.serve(now, present, out);
}

// ---- time ----

Time Core::next_deadline() const {
  return std::min({receiver_.next_look(), connector_.next_deadline(), watch_.next_look(),
                   transfers_.next_look()});
}

void Core::on_timer(const Now& now, Outbox& out) {
  transfers_.on_timer(now, out);
  connector_.on_timer(now, out);
  watch_.on_timer(now, out);
  receiver_.on_timer(now, out);  // last: once a peer is given up, W may be larger than needed
}

// ---- looking in ----

Core::Standing Core::standing(PeerId id) const {
  const Peer& peer = peers_[id];
  return {peer.outgoing.pending_frames(), peer.outgoing.credits(), peer.share.out,
          peer.outgoing.control_credits(), peer.connection.left()};
}

PeerRow Core::row(PeerId id) const {
  const Peer& peer = peers_[id];
  PeerRow row{
      .name = peer.name,
      .state = static_cast<std::uint8_t>(peer.connection.state()),
      .wait = wait_of(peer),
      .frames_pending = static_cast<std::uint32_t>(peer.outgoing.pending_frames()),
      .credits = peer.outgoing.credits(),
      .credits_out = peer.share.out,
      .reads_out = peer.transfers.outstanding(TransferKind::get),
      .writes_out = peer.transfers.outstanding(TransferKind::put),
  };
  if (peer.connection.is_open()) {
    const Lane& lane = lanes_[peer.connection.lane()];
    row.frames_sent = lane.tx_sequence;
    row.frames_received = lane.rx_sequence;
    row.requests_out = static_cast<std::uint32_t>(lane.queue.in_flight());
  }
  return row;
}

// In the order in which the sender asks for them.
PeerRow::Wait Core::wait_of(const Peer& peer) const {
  using Wait = PeerRow::Wait;
  if (!peer.connection.is_open()) {
    const bool waits = peer.outgoing.has_pending() || peer.transfers.has_transfers();
    return waits ? Wait::connection : Wait::nothing;
  }
  if (!peer.outgoing.has_pending()) return Wait::nothing;
  if (peer.waits.linked) return Wait::tokens;
  if (peer.outgoing.credits() == 0) return Wait::credits;
  return lanes_[peer.connection.lane()].queue.has_room(false) ? Wait::turn : Wait::queue;
}

bool Core::conserved() const {
  std::uint32_t out = 0;
  for (std::uint32_t i = 0; i < peers_.size(); ++i) out += peers_.at(i).share.out;
  return receiver_.conserved(out) && transfers_.conserved() &&
         (!transfers_.stalled() || node_line_.waits());
}

}  // namespace weir
