// What the event thread does with the memory that the node's processes share: it takes back what
// dead processes held, shows this one, and notices missing processes and dead servers.

#include <cerrno>
#include <optional>
#include <span>
#include <utility>

#include "flowctl/shm/process.h"
#include "flowctl/shm/view.h"
#include "transport/engine/engine.h"

namespace weir {
namespace {

constexpr Duration board_interval = milliseconds(200);

}  // namespace

// Called before the card is published, so all processes of a job are there when the first starts.
// A process that shares nothing only shows itself, beside others like it: none of them takes or
// claims anything there, so nobody waits for it.
void Engine::join_node() {
  if (!options_.node.share && !options_.node.show) return;
  const SegmentOptions wanted{
      .device = device_.port().device,
      .port = device_.port().port,
      .sharers = options_.node.share ? options_.node.sharers : SegmentOptions::nothing_shared,
      .directory = options_.node.directory};
  node_ = Segment::open(wanted, why_no_node_);
  if (!shares_limits()) why_no_node_.clear();  // only `weir top` misses it
  if (node_ == nullptr) return;
  core_.join_node(shares_tokens() ? &node_->pool() : nullptr,
                  shares_reads() ? &node_->reads() : nullptr);
  Board& board = node_->board();
  board.job.store(options_.core.self.job);
  board.rank.store(options_.core.self.rank);
  board.tokens.store(shares_tokens() ? options_.core.admission.tokens : 0);
  show_board(clock());
}

bool Engine::is_alive(ProcessId id) { return process_alive(id); }

// Once per job and node: removes what killed jobs left behind. A process killed just before may
// still be dying when this one starts.
void Engine::tidy_node() {
  if (std::exchange(tidy_at_, Time::never()) == Time::never()) return;
  remove_stale_segments(options_.node.directory);
}

bool Engine::shares_tokens() const {
  return options_.node.share && options_.core.admission.policy != Admission::Policy::off;
}

void Engine::count_node() {
  if (node_ == nullptr || !shares_limits()) return;
  const std::uint32_t members = processes_of(options_.core.self.job, options_.node.directory);
  if (members < options_.node.processes) {
    tell("only " + std::to_string(members) + " of the job's " +
         std::to_string(options_.node.processes) +
         " processes on this host share a read budget and tokens. Together they may put more into "
         "the adapter than the settings allow. Do containers have a /dev/shm or process ids of "
         "their own, or are there more than " +
         std::to_string(NodeState::most_processes) + " processes?");
  }
}

// Opens the job's own segment, with cells. Without it this process sends by itself.
void Engine::open_proxy() {
  const ProxyOptions& proxy = options_.proxy;
  if (proxy.servers == 0 || proxy.tasks < 2) return;
  const std::uint32_t cell_bytes = (options_.core.buffer_bytes + 7) / 8 * 8;
  proxy_ = Segment::open({.device = device_.port().device,
                          .port = device_.port().port,
                          .sharers = "proxy of job " + std::to_string(options_.core.self.job),
                          .servers = proxy.servers,
                          .cell_bytes = cell_bytes,
                          .tasks = proxy.tasks,
                          .directory = options_.node.directory},
                         why_no_proxy_);
}

// Called once there are slots for relaying.
void Engine::join_proxy() {
  const auto without = [&](const std::string& why) {
    tell("takes no part in the proxy of " + device_.port().name() + ": " + why +
         ". It sends by itself, and the job goes on.");
    proxy_.reset();
  };
  if (proxy_ == nullptr) {
    if (!why_no_proxy_.empty()) without(why_no_proxy_);
    return;
  }
  if (!proxy_->has_cells())
    return without("it has more members than the job has processes on this host");
  while (core_.idle_relay_slots() < Core::most_relay_slots) {
    SendSlot* const slot = slots_->get(SlotPool::full);
    if (slot == nullptr) break;
    core_.lend_relay_slot(slot);
  }
  const std::span<std::byte> cells = proxy_->cells();
  cells_ = verbs::RegisteredMemory::to_send_from(device_, cells.data(), cells.size());
  std::optional<std::uint32_t> lkey;
  if (cells_) {
    lkey = cells_.lkey();
  } else {
    tell("cannot register the " + std::to_string(cells.size() / 1024) +
         " KiB of the proxy's memory with " + device_.port().name() + ": " +
         verbs::registration_error(errno) +
         ". As a server it copies the frames that it sends for others, and the job goes on.");
  }
  core_.join_proxy(proxy_->proxy(), proxy_->slot(), proxy_->self(), lkey);
}

void Engine::show_board(Time now) {
  next_show_ = now + board_interval;
  Board& board = node_->board();
  board.waiting_since.store(waits_for_node_since() == Time::never()
                                ? 0
                                : static_cast<std::uint64_t>(waits_for_node_since().ns));
  board.show(core_.read_times());
  board.show(shown_peers_.look(core_.peer_count(),
                               [this](std::uint32_t i) { return core_.row(PeerId{i}); }));
  board.show(static_cast<std::uint64_t>(now.ns), core_.counters());
}

}  // namespace weir
