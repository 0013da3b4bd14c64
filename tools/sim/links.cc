#include "tools/sim/links.h"

#include <algorithm>
#include <utility>

#include "tools/sim/fabric.h"

namespace weir::sim {

Wire::Stream Links::open(Node, Node) {
  last_arrival_.emplace_back();
  return static_cast<Stream>(last_arrival_.size() - 1);
}

Duration Links::line_time(std::uint32_t bytes) const {
  const Timing& timing = fabric_.timing;
  return {timing.per_frame.ns + std::int64_t{bytes} * 1000 / timing.bytes_per_us};
}

void Links::send(Stream stream, Kind, std::uint32_t, Action arrive) {
  last(stream) = std::max(last(stream), fabric_.events.now() + fabric_.latency());
  fabric_.events.at(last(stream), std::move(arrive));
}

void Links::send_at(Time leaves, Stream stream, Kind, std::uint32_t, Load load) {
  const Time arrival = std::max(last(stream), leaves + fabric_.latency());
  // Later messages come later. (One of the same time is already in the queue of events when this
  // one leaves, and would be looked at first.)
  last(stream) = arrival + Duration{1};
  fabric_.events.at(leaves, [&events = fabric_.events, arrival, load = std::move(load)] {
    if (Action arrive = load()) events.at(arrival, std::move(arrive));
  });
}

}  // namespace weir::sim
