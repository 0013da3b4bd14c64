// This process among those of its node: the memory that they share, and the proxy of its job. What
// is done with tokens, the read budget and cells is the core's (node_line, relay_task,
// relay_server).
//
// Thread rule: the engine's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/caps.h"
#include "base/now.h"
#include "base/time.h"
#include "flowctl/shm/segment.h"
#include "transport/core/core.h"
#include "transport/engine/options.h"
#include "transport/engine/shown_peers.h"
#include "transport/engine/slot_pool.h"
#include "transport/engine/warnings.h"
#include "transport/verbs/device.h"
#include "transport/verbs/memory.h"

namespace weir {

class NodeMember {
 public:
  NodeMember(const EngineOptions& options, const verbs::Device& device, Core& core,
             Warnings& warnings)
      : options_(options), device_(device), core_(core), warnings_(warnings) {}

  // Before the card is published, so all processes of a job are there when the first starts. A
  // process that shares nothing only shows itself, beside others like it: none of them takes or
  // claims anything there, so nobody waits for it.
  void join(Time now) {
    share(now);
    open_proxy();
  }
  // Why it shares no memory with the others; "" if it does, or is not to.
  const std::string& why_not() const { return why_not_; }

  // Takes part in the proxy. Once there are slots for relaying.
  void join_proxy(SlotPool& slots);
  // No adapter sends from the proxy's memory any more.
  void leave_proxy();

  // Some process of the job is dead: it is no surprise if this node has fewer.
  void on_death() { knows_of_deaths_ = true; }

  // Takes back what dead processes held.
  void reap() {
    if (node_ != nullptr) node_->reap();
  }

  // ---- the event thread ----

  // Two seconds after this, it looks for what killed jobs left behind. A process killed just before
  // may still be dying now.
  void tidy_after(Time now);
  // Does it now, unless it was done.
  void tidy();
  // Does what is due. `waits_since`: since when it has waited for the node.
  void look(const Now& now, Time waits_since, Outbox& out);

 private:
  bool shares_tokens() const;
  bool shares_reads() const { return options_.node.share && options_.node.share_reads; }
  bool shares_limits() const { return shares_reads() || shares_tokens(); }
  void share(Time now);
  void open_proxy();
  void show(Time now, Time waits_since);
  void obey(const Now& now, Outbox& out);
  void count_members();

  const EngineOptions& options_;
  const verbs::Device& device_;
  Core& core_;
  Warnings& warnings_;
  std::unique_ptr<Segment> node_;
  std::string why_not_;
  Caps caps_{};
  ShownPeers<Board::most_peers> shown_peers_;
  Time next_show_{};
  Time tidy_at_ = Time::never();
  bool knows_of_deaths_ = false;
  std::unique_ptr<Segment> proxy_;
  std::string why_no_proxy_;
  verbs::RegisteredMemory cells_;  // of the proxy
};

}  // namespace weir
