// Processes that are all of the transport's core on the fabric of a scenario: the world of
// tools/sim/world.h with its checks, its adapters' messages as packets (packet_wire.cc).
//
// A process of a node has nothing for another one there: shared memory carries that. Messages up to
// `eager_bytes` are eager frames. Large ones are announced by an eager frame of
// `announcement_bytes` and fetched by the receiver; nobody tells the sender, and nothing is
// matched.
//
// Connections are made before, over a connection manager that has its own way (connections.h).
//
// Any thread.
#pragma once

#include <memory>

#include "tools/sim/network/scenario.h"
#include "tools/sim/world.h"

namespace weir::sim::network {

inline constexpr std::uint32_t announcement_bytes = 64;  // ob1's header of a rendezvous, about

// What carries the messages of its adapters (packet_wire.cc).
std::unique_ptr<Wire> make_packet_wire(Fabric& fabric, const Scenario& scenario,
                                       const Roles& roles, std::uint64_t seed);

// The world of that scenario; what it leaves open may be changed before it is played.
Plan core_plan(const Scenario& scenario, std::uint64_t seed);

// Plays it. `from_cycles` and `to_cycles` mean nothing: it is over when all is received.
Measured run_core(const Scenario& scenario, std::uint64_t seed);

}  // namespace weir::sim::network
