// The proxy's server tokens [TOK §5.2]: a node has n of them, one for each group of its tasks
// ("pool" in [TOK]). A process that gets its group's token serves the queues of all the group's
// tasks (task_queue.h), its own first; the others return at once.
//
// A token is a lease (lease.h), one word, so a server may be killed anywhere. The queue handles the
// requests it was serving.
//
// Pure; in each process the caller serialises. Never blocks.
#pragma once

#include <cstdint>

#include "flowctl/shared/lease.h"

namespace weir {

template <typename Word>
class ServerToken {
 public:
  // `token`: a word of shared memory, initially 0, the same for all tasks of the group.
  ServerToken(Word& token, ProcessId self) : token_(&token), self_(self) {}

  // True if this process is the server now. Costs a load if another one is, else one exchange.
  bool try_take() {
    std::uint64_t now = token_->load();
    if (!lease::free(now)) return false;
    const std::uint64_t mine = lease::taken(now, self_);
    if (!token_->compare_exchange(now, mine)) return false;
    lease_ = mine;
    return true;
  }

  // Only the server may call this.
  void give() {
    token_->store(lease::freed(lease_));  // nobody else changes it while we live
    lease_ = 0;
  }

  bool held() const { return lease_ != 0; }
  // Identifies this process as the server, while it is.
  std::uint64_t lease() const { return lease_; }

  // The process that has the token, unless it is this one.
  ProcessId other_owner() const {
    const std::uint64_t now = token_->load();
    return held() || lease::free(now) ? ProcessId{} : lease::process(now);
  }

  // Frees the token if the server is dead; true for only one of the callers. Call after a long
  // refusal: `alive(ProcessId)` may cost system calls.
  template <typename Alive>
  bool reap(Alive&& alive) {
    std::uint64_t now = token_->load();
    if (held() || !lease::expired(now, alive)) return false;
    return token_->compare_exchange(now, lease::freed(now));
  }

 private:
  Word* token_;
  ProcessId self_;
  std::uint64_t lease_ = 0;
};

// The group of a task, with `servers` groups on the node (at least one).
constexpr std::uint32_t server_group(std::uint32_t slot, std::uint32_t servers) {
  return servers == 0 ? 0 : slot % servers;
}

// The order in which a server goes through the queues of its group: its own first, then the others
// by turns. After a round that ended early, the next round goes on with the next queue, so that not
// always the same ones are served. [TOK §5.2]
class ServiceOrder {
 public:
  // Tasks have numbers below `slots`; `own` is the server's.
  ServiceOrder(std::uint32_t own, std::uint32_t slots, std::uint32_t servers)
      : step_(servers == 0 ? 1 : servers),
        first_(own % step_),
        own_(own / step_),
        count_((slots - first_ + step_ - 1) / step_) {}

  // Before each round.
  void begin() { served_ = 0; }

  // The task whose queue is next in this round; false at the end of the round.
  bool next(std::uint32_t& slot) {
    if (served_ == count_) return false;
    const std::uint32_t index = served_++ == 0 ? own_ : turn();
    slot = first_ + index * step_;
    return true;
  }

 private:
  std::uint32_t turn() {
    turn_ = (turn_ + 1) % count_;
    if (turn_ == own_) turn_ = (turn_ + 1) % count_;
    return turn_;
  }

  std::uint32_t step_, first_, own_, count_;
  std::uint32_t turn_ = 0;
  std::uint32_t served_ = 0;
};

}  // namespace weir
