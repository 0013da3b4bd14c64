// The further rails of a process: an engine of its own on each of its other ports. They carry large
// messages, large gets and puts of windows, and parts of these; and when the first rail fails,
// everything but atomics.
//
//   rails.h ──▶ rail_frames   frames, and what becomes of connections
//                   ──▶ rail_parts   gets and puts
//                           ──▶ rail_engines   the engines, and memory
//                           ──▶ rail_reports   what they report
//
// Rail k of a process goes to rail k of the peer. It is used once its connection is ready, which
// the first large message asks for; so nothing waits for a way that may not be there.
//
// Thread rule: any thread, but not under an engine's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "transport/btl/endpoint.h"
#include "transport/btl/operation.h"
#include "transport/btl/pvars.h"
#include "transport/btl/rail_engines.h"
#include "transport/btl/rail_frames.h"
#include "transport/btl/rail_parts.h"
#include "transport/btl/rail_reports.h"

namespace weir::btl {

class Rails {
 public:
  // `spread`: frames go over all rails in turn.
  Rails(Engine& first, std::vector<std::unique_ptr<Engine>> further, Endpoints& endpoints,
        Operations& operations, RdmaCounters& counters, bool spread)
      : engines(first, std::move(further)),
        reports(counters),
        parts(engines, operations, reports),
        frames(engines, parts, endpoints, reports, spread) {}

  RailEngines engines;
  RailReports reports;
  PartsOverRails parts;
  FramesOverRails frames;

  // Whether to look at what has come: while there may be something, and else seldom, because it
  // costs each small message a poll a rail. To be asked with each call of MPI.
  bool is_due() {
    if (frames.spread() || parts.any_further() || frames.any_down() || frames.has_news() ||
        reports.any_left())
      return true;
    const std::uint32_t calls = idle_calls_.load(std::memory_order_relaxed) + 1;
    idle_calls_.store(calls, std::memory_order_relaxed);
    return calls % idle_calls_a_look == 0;
  }

 private:
  static constexpr std::uint32_t idle_calls_a_look = 64;

  std::atomic<std::uint32_t> idle_calls_{0};
};

}  // namespace weir::btl
