#include "transport/core/arrival.h"

namespace weir {

FrameFault Arrival::take(Peer& peer, Lane& lane, const std::byte* frame, std::size_t size,
                         wire::FrameHeader& header) {
  if (lane.use != LaneUse::frames) return FrameFault::lane;
  if (size > config_.buffer_bytes) return FrameFault::length;
  // When Soft-RoCE repeats a SEND of several packets, it may renumber one that has arrived. That
  // SEND comes empty, or in full as one of those received last. PROTOCOL.md §2.
  if (size == 0) return FrameFault::twice;
  if (!wire::check_frame(frame, size, header)) return FrameFault::layout;
  return take_header(peer, lane, header);
}

FrameFault Arrival::take_header(Peer& peer, Lane& lane, const wire::FrameHeader& header) {
  using Kind = wire::FrameKind;
  using Booked = Sender::Booked;
  if (header.sequence != lane.rx_sequence) [[unlikely]] {
    const std::uint32_t behind = lane.rx_sequence - header.sequence;
    return behind <= config_.queue.depth ? FrameFault::twice : FrameFault::sequence;
  }
  if (peer.connection.left()) return FrameFault::after_goodbye;
  ++lane.rx_sequence;
  const bool costs_eager = header.kind == Kind::messages || header.kind == Kind::lane_end ||
                           header.kind == Kind::relayed || header.kind == Kind::repeated;
  if (costs_eager) [[likely]] {
    if (!receiver_.spend(peer.share)) return FrameFault::eager_credits;
    sender_.note_lent(peer);
  } else if (!wire::is_free(header.kind) && !sender_.owe_control_credit(peer)) {
    return FrameFault::control_credits;
  }
  if (header.kind == Kind::returned && !receiver_.give_back(peer.share, header.credits)) {
    return FrameFault::returned_credits;
  }
  if (header.starved) receiver_.note_starved();
  switch (sender_.book(peer, header)) {
    case Booked::good: return FrameFault::none;
    case Booked::too_many_credits: return FrameFault::granted_credits;
    case Booked::too_many_control_credits: return FrameFault::control_credits;
  }
  return FrameFault::none;
}

}  // namespace weir
