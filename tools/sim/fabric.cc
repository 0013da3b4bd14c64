#include "tools/sim/fabric.h"

#include <algorithm>
#include <utility>

namespace weir::sim {
namespace {

// The simplest wire: a message takes a time drawn at random, whatever else is on the way, and
// leaves at the speed of its queue pair's own line. How long things take is in `Timing`.
class Links final : public Wire {
 public:
  explicit Links(Fabric& fabric) : fabric_(fabric) {}

  Stream open(Node, Node) override {
    last_arrival_.emplace_back();
    return static_cast<Stream>(last_arrival_.size() - 1);
  }

  Duration line_time(std::uint32_t bytes) const override {
    const Timing& timing = fabric_.timing;
    return {timing.per_frame.ns + std::int64_t{bytes} * 1000 / timing.bytes_per_us};
  }

  void send(Stream stream, Kind, std::uint32_t, Action arrive) override {
    last(stream) = std::max(last(stream), fabric_.events.now() + fabric_.latency());
    fabric_.events.at(last(stream), std::move(arrive));
  }

  void send_at(Time leaves, Stream stream, Kind, std::uint32_t, Load load) override {
    const Time arrival = std::max(last(stream), leaves + fabric_.latency());
    // Later messages come later. (One of the same time is already in the queue of events when this
    // one leaves, and would be looked at first.)
    last(stream) = arrival + Duration{1};
    fabric_.events.at(leaves, [&events = fabric_.events, arrival, load = std::move(load)] {
      if (Action arrive = load()) events.at(arrival, std::move(arrive));
    });
  }

 private:
  Time& last(Stream stream) { return last_arrival_[static_cast<std::uint32_t>(stream)]; }

  Fabric& fabric_;
  std::vector<Time> last_arrival_;  // by stream
};

}  // namespace

Fabric::Fabric(const Timing& timing, const Hazards& hazards, std::uint64_t seed)
    : timing(timing), hazards(hazards), random(seed), wire(std::make_unique<Links>(*this)) {}

bool Fabric::step() {
  wire->catch_up();
  return events.step();
}

void Fabric::run_until(Time until) {
  for (wire->catch_up(); events.next() <= until; wire->catch_up()) events.step();
  events.run_until(until);
}

}  // namespace weir::sim
