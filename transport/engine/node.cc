// What the event thread does with the memory that the node's processes share: it takes back what
// dead ones held, shows this one, and notices when some are not there.

#include "flowctl/shm/view.h"
#include "transport/engine/engine.h"

namespace weir {
namespace {

// Who waits for so long has a look whether those before it live. That costs system calls.
constexpr Duration patience = milliseconds(50);

constexpr Duration board_interval = milliseconds(200);

}  // namespace

// Before the card is published: so all processes of a job are there when the first one starts.
void Engine::join_node() {
  if (!options_.node.share) return;
  const SegmentOptions wanted{.device = device_.port().device,
                              .port = device_.port().port,
                              .sharers = options_.node.sharers,
                              .directory = options_.node.directory};
  node_ = Segment::open(wanted, why_no_node_);
  if (node_ == nullptr) return;
  const bool counts = options_.core.admission.policy != Admission::Policy::off;
  core_.join_node(counts ? &node_->pool() : nullptr, &node_->reads());
  Board& board = node_->board();
  board.job.store(options_.core.self.job);
  board.rank.store(options_.core.self.rank);
  show_board(clock());
}

void Engine::look_after_node(Time now) {
  if (!core_.waits_for_node()) {
    waits_since_ = Time::never();
  } else if (waits_since_ == Time::never()) {
    waits_since_ = now;
    next_reap_ = now + patience;
  } else if (now >= next_reap_) {
    node_->reap();
    next_reap_ = clock() + patience;
    core_.look_at_node(now, out_);
  }
  if (now >= next_show_) show_board(now);
  if (now >= tidy_at_) {
    tidy_at_ = Time::never();
    remove_stale_segments(options_.node.directory);
    const std::uint32_t members = processes_of(options_.core.self.job, options_.node.directory);
    if (members < options_.node.processes) {
      arrived_notices_.emplace_back(
          "only " + std::to_string(members) + " of the job's " +
          std::to_string(options_.node.processes) +
          " processes on this host share a read budget and tokens: containers have a /dev/shm or "
          "process ids of their own? Together they may put more into the adapter than is set.");
    }
  }
}

void Engine::show_board(Time now) {
  next_show_ = now + board_interval;
  Board& board = node_->board();
  board.waiting_since.store(
      waits_since_ == Time::never() ? 0 : static_cast<std::uint64_t>(waits_since_.ns));
  board.show(static_cast<std::uint64_t>(now.ns), core_.counters());
}

}  // namespace weir
