// The proxy's server tokens [TOK §5.2]: a node has n of them, one for each group of its tasks
// ("pool" in [TOK]). Whoever gets its group's token serves the queues of all its tasks
// (task_queue.h), its own first; the others return at once.
//
// A token is a lease (lease.h), one word, so a server may be killed anywhere. What it was serving
// then is the queue's business.
//
// Pure; in each process the caller serialises. Never blocks.
#pragma once

#include <cstdint>

#include "flowctl/shared/lease.h"

namespace weir {

template <typename Word>
class ServerToken {
 public:
  // `token`: a word of shared memory, 0 at first, the same for all tasks of the group.
  ServerToken(Word& token, ProcessId self) : token_(&token), self_(self) {}

  // True if this process is the server now. A load if another one is, else one exchange.
  bool try_take() {
    std::uint64_t now = token_->load();
    if (!lease::free(now)) return false;
    const std::uint64_t mine = lease::taken(now, self_);
    if (!token_->compare_exchange(now, mine)) return false;
    lease_ = mine;
    return true;
  }

  // Only by the server.
  void give() {
    token_->store(lease::freed(lease_));  // nobody else changes it while we live
    lease_ = 0;
  }

  bool held() const { return lease_ != 0; }
  // What names this process as the server, while it is.
  std::uint64_t lease() const { return lease_; }

  // Who has it, but for this process.
  ProcessId other_owner() const {
    const std::uint64_t now = token_->load();
    return held() || lease::free(now) ? ProcessId{} : lease::process(now);
  }

  // Frees the token if the server is dead: true for one of those who ask. For who was refused for
  // long; `alive(ProcessId)` may cost system calls.
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

// Which group a task belongs to, with `servers` of them on the node (at least one).
constexpr std::uint32_t server_group(std::uint32_t slot, std::uint32_t servers) {
  return servers == 0 ? 0 : slot % servers;
}

// The order in which a server goes through the queues of its group: its own first, then the others
// by turns. A round that ends early goes on with the next of them, so that it is not always the
// same ones that are served. [TOK §5.2]
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

  // Whose queue is next in this round; false at its end.
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
