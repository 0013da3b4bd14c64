// What ranks send to each other, and what has to be there before they do: messages, and steps of
// ranks. A rank is in one step after the other; it enters a step when the one before has begun and
// all that the step waits for is there, posts the step's receives, and starts its sends.
//
//   message ─ sent ─────▶ a step of its source       (the send buffer is free)
//           ─ received ─▶ a step of its target
//
// Who moves the messages is not known here: processes with all of the core (ranks.h), or models of
// adapters (network/models.h).
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
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

  Steps(Workload workload, Mover& mover);

  // What happens to messages, in this order; steps are taken with the next `take`.
  void begin();
  void due(StepId step) { ready_.push_back(step); }
  void arrived(MessageId message);
  void received(MessageId message);
  void sent(MessageId message);
  // One step after the other: one may be the last thing that another one waits for.
  void take();

  const Workload& workload() const { return workload_; }
  bool has_received(MessageId message) const {
    return message < progress_.size() && progress_[message].received;
  }
  bool all_received() const { return received_ == progress_.size(); }
  bool all_sent() const { return sent_ == progress_.size(); }
  std::uint64_t received_count() const { return received_; }
  // From the start of the send to the end of the receive, of those between nodes.
  std::vector<std::int64_t> latencies() const;
  std::int64_t last_received() const { return last_received_; }

 private:
  struct Progress {
    bool there = false;
    bool received = false;
    bool sent = false;
    std::int64_t started = 0;
    std::int64_t ended = 0;
  };

  void release(StepId step);
  void enter(const Step& step);

  Workload workload_;
  Mover& mover_;
  std::vector<Progress> progress_;  // by message
  std::deque<StepId> ready_;
  std::uint64_t received_ = 0;
  std::uint64_t sent_ = 0;
  std::int64_t last_received_ = 0;
};

}  // namespace weir::sim
