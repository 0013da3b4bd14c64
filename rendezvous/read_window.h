// How much the reads of this process may have outstanding: c, from the times that reads take, and
// what the other processes of its node leave of that.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/read_times.h"
#include "base/time.h"
#include "rendezvous/budget_controller.h"
#include "rendezvous/node_reads.h"

namespace weir {

class ReadWindow {
 public:
  ReadWindow(const BudgetController::Config& config, std::uint32_t chunk_bytes)
      : controller_(config), chunk_bytes_(chunk_bytes) {}

  const BudgetController& controller() const { return controller_; }
  void limit(const BudgetController::Config& config) { controller_.limit(config); }
  // As found from the times, or c chunks.
  std::uint64_t bytes() const {
    return controller_.adaptive() ? controller_.window_bytes()
                                  : std::uint64_t{controller_.reads()} * chunk_bytes_;
  }

  // How large a read may be that is posted beside `outstanding_bytes`.
  std::uint32_t read_bytes(std::uint64_t outstanding_bytes) const {
    return std::min(controller_.chunk_bytes(outstanding_bytes), chunk_bytes_);
  }

  // ---- what reads tell ----

  // A chunk of any kind took so long.
  void note_time(Duration took) { last_time_ = took; }
  // A read of its own was seen to be over; `took` is 0 if that is no measure. `outstanding_bytes`
  // of the whole node includes it. True if the limits for the budget changed.
  bool on_read(Time now, std::uint32_t bytes, Duration took, std::uint64_t outstanding_bytes) {
    if (took > Duration{}) times_.add(took);
    return controller_.on_read(now, bytes, took, outstanding_bytes);
  }
  // A chunk had to wait for the budget.
  void on_limited() { controller_.on_limited(); }
  const ReadTimes& times() const { return times_; }

  // ---- chains, which are as deep as c ----

  bool knows_c() const {
    return !controller_.adaptive() || controller_.phase() != BudgetController::Phase::slow_start;
  }
  // The reads of a chain. They follow the window as others do, so what a lane has under way
  // changes though its depth cannot.
  std::uint32_t chain_read_bytes() const {
    return std::min(controller_.chunk_bytes(), chunk_bytes_);
  }
  // How many reads a new lane for chains should have under way.
  std::uint32_t chain_reads() const {
    if (!controller_.adaptive()) return std::bit_floor(controller_.reads());
    const auto chunks = static_cast<std::uint32_t>(controller_.window_bytes() / chain_read_bytes());
    const std::uint32_t above = std::bit_ceil(std::max(chunks, 1u));
    return chunks * 4 >= above * 3 ? above : above / 2;
  }
  // Whether a lane's depth is still about c. The window always moves by a chunk or so. The depth
  // chosen when the lane was made still fits, unless it is much too deep, or half as deep as it
  // could be.
  bool fits_chain(std::uint64_t under_way_bytes) const {
    if (!controller_.adaptive()) return true;
    const std::uint64_t window = controller_.bytes();
    const std::uint64_t give = std::max<std::uint64_t>(chain_read_bytes(), under_way_bytes / 4);
    return window + give >= under_way_bytes && window < 2 * under_way_bytes;
  }

  // ---- the node ----

  // Nothing may be outstanding. The pool outlives this.
  void join_node(PoolMember::Pool* pool) { node_.join(pool); }
  const NodeReads& node() const { return node_; }
  std::uint64_t bytes_of_others() { return node_.bytes_of_others(); }
  // Whether the node has room for `bytes` more.
  [[gnu::hot]] bool has_node_room(std::uint64_t bytes) {
    if (node_.ensure(bytes, node_bytes())) return true;
    controller_.on_limited();
    return false;
  }
  // These are issued. Returns their tokens, which have to be given back.
  std::uint32_t commit() { return node_.commit(); }
  void give(std::uint32_t tokens) { node_.give(tokens); }
  // No read has to be issued now.
  void decline() { node_.decline(node_bytes()); }
  void look_at_all_of_node() { node_.look_at_all(); }
  std::uint64_t excuse() { return node_.excuse(); }
  // A process that has neither begun nor ended a read for so long, in which ours would have come
  // twice, does not move.
  Duration excuse_after() const { return {2 * last_time_.ns}; }

 private:
  // The limit for the reads of the whole node.
  std::uint64_t node_bytes() const {
    return controller_.adaptive() ? controller_.bytes()
                                  : controller_.reads() * NodeReads::charged_bytes(chunk_bytes_);
  }

  BudgetController controller_;
  NodeReads node_;
  std::uint32_t chunk_bytes_;
  Duration last_time_{};
  ReadTimes times_;
};

}  // namespace weir
