#include "transport/engine/node.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>

#include "flowctl/shm/view.h"

namespace weir {
namespace {

constexpr Duration board_interval = milliseconds(200);

}  // namespace

void NodeMember::share(Time now) {
  if (!options_.node.share && !options_.node.show) return;
  const SegmentOptions wanted{
      .device = device_.port().device,
      .port = device_.port().port,
      .sharers = options_.node.share ? options_.node.sharers : SegmentOptions::nothing_shared,
      .directory = options_.node.directory};
  node_ = Segment::open(wanted, why_not_);
  if (!shares_limits()) why_not_.clear();  // only `weir top` misses it
  if (node_ == nullptr) return;
  core_.join_node(shares_tokens() ? &node_->pool() : nullptr,
                  shares_reads() ? &node_->reads() : nullptr);
  Board& board = node_->board();
  board.job.store(options_.core.self.job);
  board.rank.store(options_.core.self.rank);
  board.tokens.store(shares_tokens() ? options_.core.admission.tokens : 0);
  board.show(caps_ = options_.node.caps);
  show(now, Time::never());
}

bool NodeMember::shares_tokens() const {
  return options_.node.share && options_.core.admission.policy != Admission::Policy::off;
}

// Opens the job's own segment, with cells. Without it this process sends by itself.
void NodeMember::open_proxy() {
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

void NodeMember::join_proxy(SlotPool& slots) {
  const auto without = [&](const std::string& why) {
    warnings_.no_proxy(why);
    proxy_.reset();
  };
  if (proxy_ == nullptr) {
    if (!why_no_proxy_.empty()) without(why_no_proxy_);
    return;
  }
  if (!proxy_->has_cells())
    return without("it has more members than the job has processes on this host");
  while (core_.idle_relay_slots() < Core::most_relay_slots) {
    SendSlot* const slot = slots.get(SlotPool::full);
    if (slot == nullptr) break;
    core_.lend_relay_slot(slot);
  }
  const std::span<std::byte> cells = proxy_->cells();
  cells_ = verbs::RegisteredMemory::to_send_from(device_, cells.data(), cells.size());
  std::optional<std::uint32_t> lkey;
  if (cells_) {
    lkey = cells_.lkey();
  } else {
    warnings_.proxy_copies(cells.size(), errno);
  }
  core_.join_proxy(proxy_->proxy(), proxy_->slot(), proxy_->self(), lkey);
}

void NodeMember::leave_proxy() {
  cells_ = {};
  proxy_.reset();
}

void NodeMember::look(const Now& now, Time waits_since, Outbox& out) {
  if (node_ != nullptr && now.time() >= next_show_) {
    obey(now, out);
    show(now.time(), waits_since);
  }
  if (now.time() >= tidy_at_) {
    tidy();
    count_members();
  }
}

// Takes other caps, if somebody asks for them. Nobody has to be trusted: `limits_of` checks them.
void NodeMember::obey(const Now& now, Outbox& out) {
  Board& board = node_->board();
  const std::optional<CapsOrder> order = board.new_order(node_->lease());
  if (!order) return;
  std::string why = "they cannot change";
  std::optional<NewLimits> limits;
  if (options_.node.limits_of) limits = options_.node.limits_of(caps_, order->caps, why);
  if (limits) {
    core_.limit(now, limits->core, out);
    caps_ = order->caps;
    // No larger than the queue is.
    caps_[window_max_cap] = std::min<std::int64_t>(caps_[window_max_cap], core_.window_depth());
    board.show(caps_);
    if (shares_tokens()) board.tokens.store(limits->core.tokens);
    ++core_.counters().caps_changed;
    warnings_.caps_changed(limits->words);
  } else {
    warnings_.caps_refused(why);
  }
  board.order_seen.store(limits ? order->mark : ~order->mark);  // last: who ordered it may look now
}

void NodeMember::show(Time now, Time waits_since) {
  next_show_ = now + board_interval;
  Board& board = node_->board();
  board.waiting_since.store(
      waits_since == Time::never() ? 0 : static_cast<std::uint64_t>(waits_since.ns));
  board.show(core_.read_times());
  board.show(shown_peers_.look(core_.peer_count(),
                               [this](std::uint32_t i) { return core_.row(PeerId{i}); }));
  board.show(static_cast<std::uint64_t>(now.ns), core_.counters());
}

void NodeMember::tidy_after(Time now) {
  // One process of a job and node is enough.
  if ((node_ != nullptr || proxy_ != nullptr) && options_.node.processes > 0) {
    tidy_at_ = now + seconds(2);
  }
}

void NodeMember::tidy() {
  if (std::exchange(tidy_at_, Time::never()) == Time::never()) return;
  remove_stale_segments(options_.node.directory);
}

void NodeMember::count_members() {
  if (node_ == nullptr || !shares_limits() || knows_of_deaths_) return;
  const std::uint32_t members = processes_of(options_.core.self.job, options_.node.directory);
  if (members < options_.node.processes) warnings_.processes_missing(members);
}

}  // namespace weir
