// Gets, puts and atomics among rails: their division into parts, the rail of each part, and the
// next rail of a part that was lost.
//
//   a large get ──divide──▶ parts ──▶ engines ──▶ all are there: the get is over
//                             ▲          │ lost: the rail is left alone for a while
//                             └── other ◀┘
//
// Atomics stay with one adapter of the target. A get may be done again anywhere once its queue pair
// is destroyed, a put once the target's is destroyed, too. Parts of windows are put in order by
// reads (rail/divisions.h).
//
// Thread rule: any thread, but not under an engine's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "transport/btl/endpoint.h"
#include "transport/btl/operation.h"
#include "transport/btl/rail_engines.h"
#include "transport/btl/rail_reports.h"
#include "transport/rail/divisions.h"
#include "transport/rail/transfers.h"

namespace weir::btl {

class PartsOverRails {
 public:
  PartsOverRails(RailEngines& engines, Operations& operations, RailReports& reports)
      : engines_(engines), operations_(operations), reports_(reports) {}

  // Takes every get, put or atomic; `operation` has begun. `sides` are of its memory.
  void transfer(Endpoint& endpoint, Operation& operation, const SideExport& sides,
                TransferRequest request);
  // The step of a part is over. Returns the end of the whole, if this was the last part. `tell`:
  // Open MPI still takes callbacks.
  std::optional<TransferEnd> finish(const Operation& done, bool ok, bool tell);
  // Moves transfers that may go over another rail away from this one.
  void withdraw(Endpoint& endpoint, std::size_t rail);
  // The further rail has lost its connection to the peer. Returns for how long it is left alone.
  Duration shut(Endpoint& endpoint, std::size_t rail);

  // Whether parts are under way on further rails.
  bool any_further() const { return further_.load(std::memory_order_relaxed) != 0; }
  std::size_t out();

 private:
  RailKeys keys_of(const Operation& operation, Opcode opcode) const;
  RailTransfers::Usable usable(Time now, Endpoint& endpoint, const RailKeys& keys);
  RailTransfers::Speeds speeds() const;
  void divide(Endpoint& endpoint, const Operation& operation, const TransferRequest& request,
              const RailKeys& keys);
  void submit(Divisions::Part& part, Endpoint& endpoint);
  TransferRequest request_of(const Divisions::Part& part, const Endpoint& endpoint) const;
  RailTransfers::Next end_step(const Operation& done, bool ok, bool tell);
  void lose(const Operation& part, bool tell);
  void look_back(Endpoint& endpoint, std::size_t rail, RailTransfers::Mask others);

  RailEngines& engines_;
  Operations& operations_;
  RailReports& reports_;
  std::atomic<std::uint32_t> further_{0};  // parts under way on further rails
  std::mutex lock_;                        // of `transfers_`, and of the peers' ways
  RailTransfers transfers_;
};

}  // namespace weir::btl
