// What ranks send to each other, and what has to be there before they do: messages, and steps of
// ranks. A rank is in one step after the other; it enters a step when the one before has begun and
// all that the step waits for is there, posts the step's receives, and starts its sends.
//
//   message ─ sent ─────▶ a step of its source       (the send buffer is free)
//           ─ received ─▶ a step of its target
//
// Who moves the messages is not known here: processes with all of the core (ranks.h), or models of
// adapters (network/models.cc).
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "tools/sim/wire.h"

namespace weir::sim {

using MessageId = std::uint32_t;
using StepId = std::uint32_t;
inline constexpr StepId no_step = UINT32_MAX;

struct Message {
  Node source = 0;  // processes: those of node n are n * processes, and so on
  Node target = 0;
  std::uint64_t bytes = 0;
  bool posted = false;              // its receive; else a step of the target does that
  std::vector<StepId> on_sent;      // steps that wait for it
  std::vector<StepId> on_received;  // the same
};

struct Step {
  Node node = 0;
  std::uint32_t waits = 0;        // for so many messages, and the step before
  StepId next = no_step;          // of the same rank
  std::uint64_t not_before = 0;   // cycle
  std::uint64_t work_cycles = 0;  // what the rank computes before it
  std::vector<MessageId> receives;
  std::vector<MessageId> sends;
};

struct Workload {
  std::vector<Message> messages;
  std::vector<Step> steps;
  std::uint32_t processes = 1;  // of a node

  bool is_local(const Message& message) const {
    return message.source / processes == message.target / processes;
  }
};

class Steps {
 public:
  // Who moves messages, and has a clock.
  class Mover {
   public:
    virtual std::int64_t now() const = 0;
    // Nothing but time keeps the rank from that step. False: it is `due` later.
    virtual bool may_enter(StepId step) = 0;
    virtual void entered(Node) {}
    virtual void send(MessageId message) = 0;
    // It is there, and so is its receive.
    virtual void match(MessageId message) = 0;
    virtual void violation(const char* what) = 0;

   protected:
    ~Mover() = default;
  };

  Steps(Workload workload, Mover& mover)
      : workload_(std::move(workload)), mover_(mover), progress_(workload_.messages.size()) {}

  // What happens to messages, in this order; steps are taken with the next `take`.
  void begin() {
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

  void due(StepId step) { ready_.push_back(step); }

  void arrived(MessageId id) {
    progress_[id].there = true;
    if (workload_.messages[id].posted) mover_.match(id);
  }

  void received(MessageId id) {
    Progress& progress = progress_[id];
    if (progress.received) return mover_.violation("a rank received a message twice");
    progress.received = true;
    progress.ended = last_received_ = mover_.now();
    ++received_;
    for (const StepId step : workload_.messages[id].on_received) release(step);
  }

  void sent(MessageId id) {
    if (progress_[id].sent) return mover_.violation("a send was over twice");
    progress_[id].sent = true;
    ++sent_;
    for (const StepId step : workload_.messages[id].on_sent) release(step);
  }

  // One step after the other: one may be the last thing that another one waits for.
  void take() {
    while (!ready_.empty()) {
      const Step& step = workload_.steps[ready_.front()];
      ready_.pop_front();
      enter(step);
      mover_.entered(step.node);
    }
  }

  const Workload& workload() const { return workload_; }
  bool has_received(MessageId message) const {
    return message < progress_.size() && progress_[message].received;
  }
  bool all_received() const { return received_ == progress_.size(); }
  bool all_sent() const { return sent_ == progress_.size(); }
  std::uint64_t received_count() const { return received_; }
  // From the start of the send to the end of the receive, of those between nodes.
  std::vector<std::int64_t> latencies() const {
    std::vector<std::int64_t> latencies;
    for (MessageId id = 0; id < progress_.size(); ++id) {
      const Progress& progress = progress_[id];
      if (!progress.received || workload_.is_local(workload_.messages[id])) continue;
      latencies.push_back(progress.ended - progress.started);
    }
    return latencies;
  }

  std::int64_t last_received() const { return last_received_; }

 private:
  struct Progress {
    bool there = false;
    bool received = false;
    bool sent = false;
    std::int64_t started = 0;
    std::int64_t ended = 0;
  };

  // One thing less that the step waits for.
  void release(StepId id) {
    if (--workload_.steps[id].waits == 0 && mover_.may_enter(id)) due(id);
  }

  void enter(const Step& step) {
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

  Workload workload_;
  Mover& mover_;
  std::vector<Progress> progress_;  // by message
  std::deque<StepId> ready_;
  std::uint64_t received_ = 0;
  std::uint64_t sent_ = 0;
  std::int64_t last_received_ = 0;
};

}  // namespace weir::sim
