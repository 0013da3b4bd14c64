// What all receivers with a Scheduler have in common: how it is set, and what it hears of a read.
//
// Single-threaded.
#pragma once

#include "rendezvous/scheduler_with_peers.h"
#include "tools/sim/network/adapter.h"
#include "tools/sim/network/scenario.h"

namespace weir::sim::network {

Scheduler::Config scheduler_config(const Scenario& scenario);

// The read of a chunk is over after `took`; its token is the transfer. With one that failed the
// connection is broken: nothing more is read from that peer.
void end_chunk(SchedulerWithPeers& scheduler, Time now, const Operation& read, Duration took,
               bool failed);

}  // namespace weir::sim::network
