// The steps of a workload (workload.h), taken by processes with all of the core: a rank enters a
// step when the one before has begun and all that it waits for is there.
//
// An announced message is fetched once its receive is posted; an eager one that comes before that
// is kept, at no cost. Matching takes a rank `match` a message, one after the other, and it does
// nothing else meanwhile; one that computes has what comes matched afterwards. A send is over when
// its frame was taken, of an announced one when the receiver said that it has it. While a rank
// computes it makes no progress. What stays on a node is there at once: shared memory carries it.
//
// Single-threaded; everything happens in events of the fabric.
#pragma once

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "tools/sim/fabric.h"
#include "tools/sim/network/workload.h"
#include "tools/sim/ranks.h"

namespace weir::sim::network {

class Stepping final : public Ranks {
 public:
  struct Config {
    std::uint32_t ranks = 0;               // processes
    std::uint32_t processes = 1;           // of a node
    std::uint64_t eager_bytes = 0;         // up to that a message is eager
    std::uint32_t announcement_bytes = 0;  // the frame of one that is not
    double cycle_ns = 20;
    Duration match{};  // what it takes a rank to match a message with its receive
  };

  Stepping(Fabric& fabric, Workload workload, const Config& config);

  void begin(std::function<void(Node)> wake) override;
  std::optional<Sending> next(Node from) const override;
  void sent(Node from) override;
  std::uint32_t frame_bytes(Node from, Node to) const override;
  void arrived(Node from, Node to) override;
  std::optional<Fetch> next_fetch(Node to) override;
  void fetched(MessageId message) override;
  void finished(MessageId message) override;
  Time computes_until(Node node) const override { return ranks_[node].computes_until; }
  bool over() const override { return open_ == 0; }
  std::vector<Duration> latencies() const override;

 private:
  struct Progress {
    bool there = false;  // its frame
    bool received = false;
    bool send_over = false;
    Time started{};
    Time ended{};
  };

  struct Rank {
    std::deque<MessageId> to_send;
    std::deque<MessageId> to_fetch;
    Time computes_until{};
  };

  bool is_eager(const Message& message) const { return message.bytes <= config_.eager_bytes; }
  bool is_local(const Message& message) const {
    return message.source / config_.processes == message.target / config_.processes;
  }
  std::uint32_t frame_bytes(MessageId id) const;
  Duration time_of(std::uint64_t cycles) const;
  void release(std::uint32_t step);
  void take_steps();
  void enter(const Step& step);
  void start(MessageId id);
  void match(MessageId id);
  void matched(MessageId id);
  void receive(MessageId id);
  void end_send(MessageId id);

  Fabric& fabric_;
  Workload workload_;
  Config config_;
  std::function<void(Node)> wake_;
  Time begun_{};
  std::vector<Progress> progress_;                                    // by message
  std::vector<Rank> ranks_;                                           // by process
  std::map<std::pair<Node, Node>, std::deque<MessageId>> under_way_;  // by sender and receiver
  std::deque<std::uint32_t> ready_;                                   // steps that may be entered
  std::uint64_t open_ = 0;  // ends of messages that have not come: two each
};

}  // namespace weir::sim::network
