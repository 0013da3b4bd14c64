// The further rails of a process: an engine of its own on each of its other ports. They carry large
// messages, large gets and puts of windows, and parts of these; and when the first rail fails,
// everything but atomics.
//
//   rails.h ──▶ rail_frames   frames, and news of connections
//                   ──▶ rail_parts   gets and puts
//                           ──▶ rail_engines   the engines, and memory
//                           ──▶ rail_reports   their reports
//
// Rail k of a process goes to rail k of the peer. The first large message asks for its connection,
// and the rail is used once that is ready. So nothing waits for a rail that may not work.
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

  // Whether to make progress on the further rails now. Otherwise idle rails are polled only now and
  // then, because each poll costs small messages time. Ask once in each call of MPI.
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
