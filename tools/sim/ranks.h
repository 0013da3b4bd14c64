// What ranks above the transport do, where one waits for another: which message a process may send
// now, and what follows when one is there. The steps are a workload's (steps.h). A message is
// eager, or announced and then fetched by its receiver, who tells the sender when it has it: ob1's
// rendezvous.
//
//   next ─ handed over ─▶ sent │ arrived ─ its receive is posted ─▶ eager: received
//                                                                  announced: next_fetch ─▶ fetched
//                              finished ◀─ the receiver's word ─┘
//
// The messages from one process to another arrive in the order they were sent. An eager one that
// comes before its receive is posted is kept, at no cost. Matching takes a rank `match` a message,
// one after the other, and it does nothing else meanwhile; one that computes makes no progress and
// has what comes matched afterwards. A send is over when its frame was taken, of an announced
// message when the receiver said that it has it. What stays on a node is there at once: shared
// memory carries it.
//
// Single-threaded; everything happens in events of the fabric.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tools/sim/fabric.h"
#include "tools/sim/steps.h"

namespace weir::sim {

class Ranks final : private Steps::Mover {
 public:
  struct Config {
    std::uint32_t ranks = 0;               // processes
    std::uint64_t eager_bytes = 0;         // up to that a message is eager
    std::uint32_t announcement_bytes = 0;  // the frame of one that is not
    double cycle_ns = 20;
    Duration match{};  // what it takes a rank to match a message with its receive
  };
  struct Sending {
    Node to;
    std::uint32_t frame_bytes;
  };
  struct Fetch {
    MessageId message;
    Node from;
    std::uint32_t bytes;
  };

  Ranks(Fabric& fabric, Workload workload, const Config& config);

  // The traffic begins. `wake`: a process may have more to do than when it was asked last.
  void begin(std::function<void(Node)> wake);

  // What it may send now, if anything; it stays the next one until it was `sent`.
  std::optional<Sending> next(Node from) const;
  void sent(Node from);
  // Of the next message to arrive.
  std::uint32_t frame_bytes(Node from, Node to) const;
  void arrived(Node from, Node to);
  // What it may fetch now, once.
  std::optional<Fetch> next_fetch(Node to);
  void fetched(MessageId message);
  // Its sender was told.
  void finished(MessageId message);
  // It does nothing else until then.
  Time computes_until(Node node) const { return ranks_[node].computes_until; }

  // Every message was received, and every sender knows.
  bool over() const { return steps_.all_received() && steps_.all_sent(); }
  // From the start of the send to the end of the receive, of those that were received.
  std::vector<Duration> latencies() const;

 private:
  struct Rank {
    std::deque<MessageId> to_send;
    std::deque<MessageId> to_fetch;
    Time computes_until{};
  };

  const Message& message(MessageId id) const { return steps_.workload().messages[id]; }
  bool is_eager(const Message& message) const { return message.bytes <= config_.eager_bytes; }
  std::uint32_t frame_bytes(MessageId id) const;
  Duration time_of(std::uint64_t cycles) const;
  void matched(MessageId id);

  // Steps::Mover
  std::int64_t now() const override { return fabric_.events.now().ns; }
  bool may_enter(StepId id) override;
  void entered(Node node) override { wake_(node); }
  void send(MessageId id) override;
  void match(MessageId id) override;
  void violation(const char* what) override { fabric_.violation(what); }

  Fabric& fabric_;
  Config config_;
  Steps steps_;
  std::function<void(Node)> wake_;
  Time begun_{};
  std::vector<Rank> ranks_;                                           // by process
  std::map<std::pair<Node, Node>, std::deque<MessageId>> under_way_;  // by sender and receiver
};

}  // namespace weir::sim
