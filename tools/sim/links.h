// The simplest wire: a message takes a time drawn at random, whatever else is on the way, and
// leaves at the speed of its queue pair's own line. How long things take is in `Timing`.
//
// Single-threaded.
#pragma once

#include <vector>

#include "tools/sim/wire.h"

namespace weir::sim {

class Fabric;

class Links final : public Wire {
 public:
  explicit Links(Fabric& fabric) : fabric_(fabric) {}

  Stream open(Node from, Node to) override;
  Duration line_time(std::uint32_t bytes) const override;
  void send(Stream stream, Kind kind, std::uint32_t bytes, Action arrive) override;
  void send_at(Time leaves, Stream stream, Kind kind, std::uint32_t bytes, Load load) override;

 private:
  Time& last(Stream stream) { return last_arrival_[static_cast<std::uint32_t>(stream)]; }

  Fabric& fabric_;
  std::vector<Time> last_arrival_;  // by stream
};

}  // namespace weir::sim
