// Processes of which the runtime says that they died, where the job goes on without them. They are
// given up at once; nobody waits for their connections to break, or for peer_timeout.
//
// Open MPI hears after us, once our operations with the dead are over. Then the PML takes back its
// requests: later callbacks, and messages of the dead, would find others in their places. So there
// are none. It may also hear before us, from another process. One-sided operations are never taken
// back, and osc/rdma waits for their end.
//
// Thread rule: any thread, but not under an engine's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "transport/btl/compat.h"
#include "transport/btl/endpoint.h"

namespace weir::btl {

struct Module;

class Deaths {
 public:
  explicit Deaths(Module& module) : module_(module) {}
  ~Deaths() { end(); }
  Deaths(const Deaths&) = delete;
  Deaths& operator=(const Deaths&) = delete;

  // Begins to listen, if deaths are survivable.
  void listen();
  // The runtime calls nothing of ours any more.
  void end();

  // Whether deaths are errors for the program, and not the end of the job.
  bool survivable() const { return survivable_; }

  // Open MPI takes that peer for dead: no message of it goes up any more.
  bool took_back(const Endpoint* peer) const {
    return deaths_may_be_survivable && survivable_ && peer != nullptr && peer->proc != nullptr &&
           counts_as_dead(*peer->proc);
  }
  // Nor the end of what the PML had with it. `context`: of the callback.
  bool took_back(const Endpoint* peer, const void* context) const {
    return took_back(peer) && is_of_pml(*peer, context);
  }

  // Whether osc/rdma (5.0.7) repeats this atomic operation with a dead process for ever.
  bool is_endless(const TransferRequest& refused);
  // An operation was not finished. If it was one-sided, because of a death, the user hears of it,
  // for osc/rdma does not tell the program.
  void on_failure(const Endpoint& peer, const void* context);

  // There is news that Open MPI waits for.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  struct Death {
    std::vector<Endpoint*> peers;
    DeathNews news;
  };
  // Takes it. Hand up what has ended, and then pass the news on.
  std::vector<Death> take();

 private:
  static void on_death(const std::vector<opal_process_name_t>& dead, const DeathNews& news);
  Endpoint* give_up(PeerName name);
  bool is_of_pml(const Endpoint& peer, const void* context) const;

  Module& module_;
  bool survivable_ = false;
  std::int64_t hearing_ = -1;
  std::atomic<bool> any_{false};
  std::atomic<bool> said_{false};
  std::mutex lock_;  // of the members below
  std::vector<Death> waiting_;
  TransferRequest refused_;  // the last one, and how often in a row
  int in_a_row_ = 0;
};

}  // namespace weir::btl
