#include "transport/core/relayed_arrivals.h"

#include "transport/core/arrival.h"
#include "transport/wire/frame.h"

namespace weir {

bool RelayedArrivals::take(PeerId by, BufferId buffer, std::size_t size, Outbox& out) {
  const std::byte* const frame = receiver_.data(buffer);
  const std::size_t before = out.deliveries.size();
  bool good = true;
  ++counters_.frames_received;
  if (wire::get_frame_header(frame).kind == wire::FrameKind::repeated) {
    good = take_section(by, buffer, frame + wire::frame_header_bytes,
                        size - wire::frame_header_bytes, out);
  } else {
    const std::uint32_t job = peers_[by].name.job;
    wire::for_each_section(
        frame, size, [&](std::uint32_t rank, const std::byte* messages, std::size_t bytes) {
          if (!good) return;
          // A relay only serves ranks of its job, and only those that are or were our peers.
          const PeerId from = peers_.find({job, rank});
          good = job == config_.self.job && from != PeerId::none && rank != config_.self.rank &&
                 take_section(from, buffer, messages, bytes, out);
        });
  }
  // The buffer is released with its last message.
  for (std::size_t i = before; i < out.deliveries.size(); ++i) {
    out.deliveries[i].last = i + 1 == out.deliveries.size();
  }
  if (out.deliveries.size() == before) receiver_.put_back(buffer);
  return good;
}

bool RelayedArrivals::take_section(PeerId from, BufferId buffer, const std::byte* messages,
                                   std::size_t size, Outbox& out) {
  Peer& origin = peers_[from];
  const std::uint32_t ahead =
      (wire::get_relay_sequence(messages) - origin.relayed.expected_) & wire::relay_sequence_mask;
  const Connection& connection = origin.connection;
  if (connection.state() == PeerState::failed) return true;  // nothing comes from it any more
  if (ahead > wire::relay_sequence_mask / 2) {
    ++counters_.proxy_duplicates;
    return true;
  }
  if (ahead != 0) return false;
  origin.relayed.expected_ = (origin.relayed.expected_ + 1) & wire::relay_sequence_mask;
  if (!connection.is_idle() && !connection.left()) {
    deliver(origin, buffer, messages, size, counters_, out);
  }
  return true;
}

}  // namespace weir
