// The completion queues of a port. One is enough while it can grow; beside one that cannot, there
// is a further one for further queue pairs.
//
// Every work request may end in a completion (if it is flushed), and any receive of the SRQ may
// complete in any queue, so each has room for all that could come. [IBTA 11.2.8.1]
//
// Thread rule: as of Queues.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/verbs/device.h"

namespace weir::verbs {

class CompletionQueues {
 public:
  // For `receives` of the SRQ, and some pairs of `sends` work requests. If the device refuses:
  // nullptr, and the reason in `why`.
  static std::unique_ptr<CompletionQueues> create(const Device& device, std::uint32_t receives,
                                                  std::uint32_t sends, std::string& why);

  // A queue that has room for the completions of a pair with so many work requests. If the device
  // refuses: nullptr, and the reason in `why`.
  ibv_cq* with_room(std::uint32_t sends, std::string& why);
  std::size_t count() const { return queues_.size(); }
  // The queue made last: one to try for a pair that is made ahead.
  ibv_cq* newest() const { return queues_.back().cq.get(); }
  // A pair with so many work requests uses this queue, or does no longer.
  void add(const ibv_cq* cq, std::uint32_t sends) { of(cq).sends += sends; }
  void remove(const ibv_cq* cq, std::uint32_t sends) { of(cq).sends -= sends; }
  // Completions that may come, of all pairs and the receives.
  std::uint32_t most_completions() const;

  // As ibv_poll_cq. A broken queue hides what others have. Not ibv_start_poll: when nothing is
  // left, Soft-RoCE's provider ends the poll by itself, and ibv_end_poll then drops a completion.
  // (rdma-core 44, providers/rxe/rxe.c, cq_next_poll)
  int poll(int most, ibv_wc* found) {
    if (queues_.size() == 1) [[likely]]
      return ibv_poll_cq(queues_.front().cq.get(), most, found);
    return poll_each(most, found);
  }

  // Readable after a completion that was asked for, in any queue; -1 if the device has no channel.
  int event_fd() const { return channel_ ? channel_->fd : -1; }
  // Call when it is readable, before the poll.
  void take_events();
  // It becomes readable at the next solicited completion. [IBTA 11.4.2.2]
  void listen();

 private:
  using Channel = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;
  struct Queue {
    std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>> cq;
    std::uint32_t sends = 0;  // work requests of its pairs
  };

  CompletionQueues(const Device& device, std::uint32_t receives)
      : device_(device), receives_(receives) {}

  std::string limits() const;
  Queue& of(const ibv_cq* cq);
  // One is for the marker behind a pair that ends.
  std::uint32_t entries_for(std::uint32_t sends) const { return receives_ + sends + 1; }
  bool make_room(Queue& queue, std::uint32_t sends);
  bool add_queue(std::uint32_t sends);
  void listen(ibv_cq* cq);
  int poll_each(int most, ibv_wc* found);

  const Device& device_;
  std::uint32_t receives_;
  bool grows_ = true;  // until the device refuses it
  Channel channel_;
  std::vector<Queue> queues_;
  std::size_t first_polled_ = 0;  // in turn, so that a busy one does not hide the others
};

}  // namespace weir::verbs
