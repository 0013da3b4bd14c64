#include "tools/sim/steps.h"

#include <utility>

namespace weir::sim {

Steps::Steps(Workload workload, Mover& mover)
    : workload_(std::move(workload)), mover_(mover), progress_(workload_.messages.size()) {}

void Steps::begin() {
  // Those that wait for nothing; `waits` of others falls to nothing while these are entered.
  std::vector<StepId> first;
  for (StepId id = 0; id < workload_.steps.size(); ++id) {
    if (workload_.steps[id].waits == 0) first.push_back(id);
  }
  for (const StepId id : first) {
    ++workload_.steps[id].waits;
    release(id);
  }
  take();
}

// One thing less that the step waits for.
void Steps::release(StepId id) {
  if (--workload_.steps[id].waits == 0 && mover_.may_enter(id)) due(id);
}

void Steps::take() {
  while (!ready_.empty()) {
    const Step& step = workload_.steps[ready_.front()];
    ready_.pop_front();
    enter(step);
    mover_.entered(step.node);
  }
}

void Steps::enter(const Step& step) {
  for (const MessageId id : step.receives) {
    workload_.messages[id].posted = true;
    if (progress_[id].there) mover_.match(id);
  }
  for (const MessageId id : step.sends) {
    progress_[id].started = mover_.now();
    mover_.send(id);
  }
  if (step.next != no_step) release(step.next);
}

void Steps::arrived(MessageId id) {
  progress_[id].there = true;
  if (workload_.messages[id].posted) mover_.match(id);
}

void Steps::received(MessageId id) {
  Progress& progress = progress_[id];
  if (progress.received) return mover_.violation("a rank received a message twice");
  progress.received = true;
  progress.ended = last_received_ = mover_.now();
  ++received_;
  for (const StepId step : workload_.messages[id].on_received) release(step);
}

void Steps::sent(MessageId id) {
  if (progress_[id].sent) return mover_.violation("a send was over twice");
  progress_[id].sent = true;
  ++sent_;
  for (const StepId step : workload_.messages[id].on_sent) release(step);
}

std::vector<std::int64_t> Steps::latencies() const {
  std::vector<std::int64_t> latencies;
  for (MessageId id = 0; id < progress_.size(); ++id) {
    const Progress& progress = progress_[id];
    if (!progress.received || workload_.is_local(workload_.messages[id])) continue;
    latencies.push_back(progress.ended - progress.started);
  }
  return latencies;
}

}  // namespace weir::sim
