#include "tools/sim/network/stepping.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace weir::sim::network {

Stepping::Stepping(Fabric& fabric, Workload workload, const Config& config)
    : fabric_(fabric),
      workload_(std::move(workload)),
      config_(config),
      progress_(workload_.messages.size()),
      ranks_(config.ranks),
      open_(2 * workload_.messages.size()) {}

Duration Stepping::time_of(std::uint64_t cycles) const {
  return {std::llround(static_cast<double>(cycles) * config_.cycle_ns)};
}

std::uint32_t Stepping::frame_bytes(MessageId id) const {
  const Message& message = workload_.messages[id];
  if (!is_eager(message)) return config_.announcement_bytes;
  return std::max(static_cast<std::uint32_t>(message.bytes), 1u);
}

// ---- steps ----

void Stepping::begin(std::function<void(Node)> wake) {
  wake_ = std::move(wake);
  begun_ = fabric_.events.now();
  // Those that wait for nothing; `waits` of others falls to nothing while these are entered.
  std::vector<std::uint32_t> first;
  for (std::uint32_t id = 0; id < workload_.steps.size(); ++id) {
    if (workload_.steps[id].waits == 0) first.push_back(id);
  }
  for (const std::uint32_t id : first) {
    ++workload_.steps[id].waits;
    release(id);
  }
  take_steps();
}

// One thing less that the step waits for.
void Stepping::release(std::uint32_t id) {
  Step& step = workload_.steps[id];
  if (--step.waits > 0) return;
  const Time now = fabric_.events.now();
  Rank& rank = ranks_[step.node];
  const bool works = step.work_cycles > 0;
  const Time done = (works ? std::max(now, rank.computes_until) : now) + time_of(step.work_cycles);
  const Time when = std::max(done, begun_ + time_of(step.not_before));
  if (when <= now) {
    ready_.push_back(id);
    return;
  }
  fabric_.events.at(when, [this, id] {
    ready_.push_back(id);
    take_steps();
  });
  if (works) {
    rank.computes_until = done;
    wake_(step.node);
  }
}

// One after the other: a step may be the last thing that another one waits for.
void Stepping::take_steps() {
  while (!ready_.empty()) {
    const Step& step = workload_.steps[ready_.front()];
    ready_.pop_front();
    enter(step);
    wake_(step.node);
  }
}

void Stepping::enter(const Step& step) {
  for (const MessageId id : step.receives) {
    workload_.messages[id].posted = true;
    if (progress_[id].there) match(id);
  }
  for (const MessageId id : step.sends) start(id);
  if (step.next != none) release(step.next);
}

// ---- messages ----

void Stepping::start(MessageId id) {
  const Message& message = workload_.messages[id];
  progress_[id].started = fabric_.events.now();
  if (!is_local(message)) {
    ranks_[message.source].to_send.push_back(id);
    return;
  }
  progress_[id].there = true;
  if (message.posted) match(id);
  end_send(id);
}

std::optional<Ranks::Sending> Stepping::next(Node from) const {
  const Rank& rank = ranks_[from];
  if (rank.to_send.empty()) return std::nullopt;
  const MessageId id = rank.to_send.front();
  return Sending{workload_.messages[id].target, frame_bytes(id)};
}

void Stepping::sent(Node from) {
  const MessageId id = ranks_[from].to_send.front();
  const Message& message = workload_.messages[id];
  ranks_[from].to_send.pop_front();
  under_way_[{from, message.target}].push_back(id);
  if (is_eager(message)) end_send(id);
  take_steps();
}

std::uint32_t Stepping::frame_bytes(Node from, Node to) const {
  const auto order = under_way_.find({from, to});
  return order == under_way_.end() || order->second.empty() ? 0
                                                            : frame_bytes(order->second.front());
}

void Stepping::arrived(Node from, Node to) {
  std::deque<MessageId>& order = under_way_[{from, to}];
  if (order.empty()) return fabric_.violation("a message arrived that no rank sent");
  const MessageId id = order.front();
  order.pop_front();
  progress_[id].there = true;
  if (workload_.messages[id].posted) match(id);
  take_steps();
}

// Frame and receive are both there.
void Stepping::match(MessageId id) {
  if (config_.match == Duration{}) return matched(id);
  const Node node = workload_.messages[id].target;
  Time& busy = ranks_[node].computes_until;
  busy = std::max(busy, fabric_.events.now()) + config_.match;
  fabric_.events.at(busy, [this, id, node] {
    matched(id);
    take_steps();
    wake_(node);
  });
}

void Stepping::matched(MessageId id) {
  const Message& message = workload_.messages[id];
  if (is_eager(message) || is_local(message)) return receive(id);
  ranks_[message.target].to_fetch.push_back(id);
}

std::optional<Ranks::Fetch> Stepping::next_fetch(Node to) {
  Rank& rank = ranks_[to];
  if (rank.to_fetch.empty()) return std::nullopt;
  const MessageId id = rank.to_fetch.front();
  rank.to_fetch.pop_front();
  const Message& message = workload_.messages[id];
  return Fetch{id, message.source, static_cast<std::uint32_t>(message.bytes)};
}

void Stepping::fetched(MessageId id) {
  receive(id);
  take_steps();
}

void Stepping::finished(MessageId id) {
  if (id >= progress_.size() || !progress_[id].received) {
    return fabric_.violation("a sender heard of the end of a message that was not received");
  }
  end_send(id);
  take_steps();
}

void Stepping::receive(MessageId id) {
  Progress& progress = progress_[id];
  if (progress.received) return fabric_.violation("a rank received a message twice");
  progress.received = true;
  progress.ended = fabric_.events.now();
  --open_;
  for (const std::uint32_t step : workload_.messages[id].on_received) release(step);
}

void Stepping::end_send(MessageId id) {
  if (progress_[id].send_over) return fabric_.violation("a send was over twice");
  progress_[id].send_over = true;
  --open_;
  for (const std::uint32_t step : workload_.messages[id].on_sent) release(step);
}

std::vector<Duration> Stepping::latencies() const {
  std::vector<Duration> latencies;
  for (MessageId id = 0; id < progress_.size(); ++id) {
    const Progress& progress = progress_[id];
    if (!progress.received || is_local(workload_.messages[id])) continue;
    latencies.push_back(progress.ended - progress.started);
  }
  return latencies;
}

}  // namespace weir::sim::network
