#include "tools/sim/ranks.h"

#include <algorithm>
#include <cmath>

namespace weir::sim {

Ranks::Ranks(Fabric& fabric, Workload workload, const Config& config)
    : fabric_(fabric), config_(config), steps_(std::move(workload), *this), ranks_(config.ranks) {}

Duration Ranks::time_of(std::uint64_t cycles) const {
  return {std::llround(static_cast<double>(cycles) * config_.cycle_ns)};
}

std::uint32_t Ranks::frame_bytes(MessageId id) const {
  if (!is_eager(message(id))) return config_.announcement_bytes;
  return std::max(static_cast<std::uint32_t>(message(id).bytes), 1u);
}

void Ranks::begin(std::function<void(Node)> wake) {
  wake_ = std::move(wake);
  begun_ = fabric_.events.now();
  steps_.begin();
}

bool Ranks::may_enter(StepId id) {
  const Step& step = steps_.workload().steps[id];
  const Time now = fabric_.events.now();
  Rank& rank = ranks_[step.node];
  const bool works = step.work_cycles > 0;
  const Time done = (works ? std::max(now, rank.computes_until) : now) + time_of(step.work_cycles);
  const Time when = std::max(done, begun_ + time_of(step.not_before));
  if (when <= now) return true;
  fabric_.events.at(when, [this, id] {
    steps_.due(id);
    steps_.take();
  });
  if (works) {
    rank.computes_until = done;
    wake_(step.node);
  }
  return false;
}

void Ranks::send(MessageId id) {
  if (!steps_.workload().is_local(message(id))) {
    ranks_[message(id).source].to_send.push_back(id);
    return;
  }
  steps_.arrived(id);
  steps_.sent(id);
}

std::optional<Ranks::Sending> Ranks::next(Node from) const {
  const Rank& rank = ranks_[from];
  if (rank.to_send.empty()) return std::nullopt;
  const MessageId id = rank.to_send.front();
  return Sending{message(id).target, frame_bytes(id)};
}

void Ranks::sent(Node from) {
  const MessageId id = ranks_[from].to_send.front();
  ranks_[from].to_send.pop_front();
  under_way_[{from, message(id).target}].push_back(id);
  if (is_eager(message(id))) steps_.sent(id);
  steps_.take();
}

std::uint32_t Ranks::frame_bytes(Node from, Node to) const {
  const auto order = under_way_.find({from, to});
  return order == under_way_.end() || order->second.empty() ? 0
                                                            : frame_bytes(order->second.front());
}

void Ranks::arrived(Node from, Node to) {
  std::deque<MessageId>& order = under_way_[{from, to}];
  if (order.empty()) return violation("a message arrived that no rank sent");
  const MessageId id = order.front();
  order.pop_front();
  steps_.arrived(id);
  steps_.take();
}

void Ranks::match(MessageId id) {
  if (config_.match == Duration{}) return matched(id);
  const Node node = message(id).target;
  Time& busy = ranks_[node].computes_until;
  busy = std::max(busy, fabric_.events.now()) + config_.match;
  fabric_.events.at(busy, [this, id, node] {
    matched(id);
    steps_.take();
    wake_(node);
  });
}

void Ranks::matched(MessageId id) {
  if (is_eager(message(id)) || steps_.workload().is_local(message(id))) return steps_.received(id);
  ranks_[message(id).target].to_fetch.push_back(id);
}

std::optional<Ranks::Fetch> Ranks::next_fetch(Node to) {
  Rank& rank = ranks_[to];
  if (rank.to_fetch.empty()) return std::nullopt;
  const MessageId id = rank.to_fetch.front();
  rank.to_fetch.pop_front();
  return Fetch{id, message(id).source, static_cast<std::uint32_t>(message(id).bytes)};
}

void Ranks::fetched(MessageId id) {
  steps_.received(id);
  steps_.take();
}

void Ranks::finished(MessageId id) {
  if (!steps_.has_received(id)) {
    return violation("a sender heard of the end of a message that was not received");
  }
  steps_.sent(id);
  steps_.take();
}

std::vector<Duration> Ranks::latencies() const {
  std::vector<Duration> latencies;
  for (const std::int64_t ns : steps_.latencies()) latencies.push_back({ns});
  return latencies;
}

}  // namespace weir::sim
