// One completion queue, one shared receive queue, and the queue pairs on them. Turns the core's
// values into `ibv_*` calls and completions back into values; decides nothing.
//
// Thread rule: the engine's lock.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/base/time.h"
#include "transport/base/work.h"
#include "transport/verbs/device.h"
#include "transport/wire/frame.h"

namespace weir::verbs {

struct QueuePairOptions {
  std::uint32_t send_depth = 128;      // work requests
  std::uint32_t inline_bytes = 256;    // 0: none
  std::uint8_t rnr_timer_code = 12;    // what we tell senders when we have no buffer
  std::uint8_t ack_timeout_code = 18;  // 4.096 us * 2^code until a retry
  std::uint8_t retry_count = 6;        // 7 means for ever on some adapters: never used
  std::uint32_t mtu_bytes = 0;         // 0: as negotiated
};

class Queues {
 public:
  // `max_receives`: the largest W_max there may be. Nothing, and the reason in `why`, if the device
  // refuses.
  static std::unique_ptr<Queues> create(const Device& device, std::uint32_t max_receives,
                                        const QueuePairOptions& options, std::string& why);

  // Frames up to this size can be posted inline: what was asked for, or, once there is a pair, what
  // the device can do.
  std::uint32_t inline_bytes() const { return options_.inline_bytes; }

  // A queue pair for `lane`, in RESET. 0 if the device refuses, with the reason in `why`.
  std::uint32_t create_pair(LaneId lane, std::string& why);
  // The same for a second lane, of `send_depth` work requests. 0 also when that would leave too
  // little for the first lanes of more peers.
  std::uint32_t create_second_pair(LaneId lane, std::uint32_t send_depth);
  // The pair of `lane` ends in two steps: from here on its completions belong to no lane, and it
  // stops sending and receiving; then, once the caller has polled those, it is destroyed.
  void retire_pair(LaneId lane);
  void destroy_retired() { retired_.clear(); }
  bool has_pair(LaneId lane) const { return pair(lane) != nullptr; }
  // To be asked what it is set to; nullptr if there is none.
  ibv_qp* pair(LaneId lane) const {
    return index(lane) < pairs_.size() ? pairs_[index(lane)].get() : nullptr;
  }

  // One step of a queue pair's life with the attributes that connection management filled in; ours
  // (timers, retries) are added. False and errno on failure.
  bool modify(LaneId lane, ibv_qp_attr attributes, int mask);
  // Changes the RNR NAK timer of all pairs, also of those to come. A pair that refuses keeps its
  // own.
  void advertise_rnr_timer(std::uint8_t code);
  // RESET to RTS, connected to a queue pair of the same port: with any number, or itself.
  bool connect_on_port(LaneId lane, std::uint32_t qp_number);
  bool connect_to_itself(LaneId lane) { return connect_on_port(lane, pair(lane)->qp_num); }
  // RESET to RTS, connected to the queue pair that `beside`'s peer told of, by the same path. Has
  // at most `reads` reads under way.
  bool connect_beside(LaneId lane, LaneId beside, const wire::LaneEnd& ours,
                      const wire::LaneEnd& theirs, std::uint32_t reads);

  // Posts a chain for one lane: one call. False if the adapter refused.
  bool post(std::span<const WorkRequest> chain);
  // Posts a chain of receives to the SRQ. False if the adapter refused.
  bool post(std::span<const ReceivePost> chain);
  bool arm(SrqArm arm);

  // Up to completions.size() finished work requests. Returns how many; -1 if the queue is broken.
  int poll(std::span<Completion> completions);

  // Readable when a frame came whose sender asks the event thread to look (WorkRequest::solicited);
  // -1 if there is no such thing. [IBTA 11.4.2.2]
  int event_fd() const { return channel_ ? channel_->fd : -1; }
  // To be called then, and before the poll that looks.
  void take_events();

  // The lane of a queue pair number, or none.
  LaneId lane_of(std::uint32_t qp_number) const {
    for (std::uint32_t at = qp_number & by_number_mask_;; at = (at + 1) & by_number_mask_) {
      const Numbered& entry = by_number_[at];
      if (entry.qp_number == qp_number) return entry.lane;
      if (entry.qp_number == unused) return LaneId::none;
    }
  }

 private:
  using CompletionChannel = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;
  using CompletionQueue = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
  using SharedReceiveQueue = std::unique_ptr<ibv_srq, Destroyer<ibv_destroy_srq>>;
  using Pair = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;

  static constexpr std::uint32_t unused = 0xffffffff;  // QP numbers have 24 bits

  struct Numbered {
    std::uint32_t qp_number = unused;
    LaneId lane = LaneId::none;
  };

  Queues(const Device& device, const QueuePairOptions& options)
      : device_(device), options_(options) {}

  // RESET to RTS. `path`: address vector, MTU, port and partition, the peer's queue pair, PSNs and
  // max_rd_atomic.
  bool bring_up(LaneId lane, ibv_qp_attr path);
  void renumber();
  Pair make_pair(std::uint32_t send_depth, std::uint32_t inline_bytes) const;
  std::uint32_t add_pair(LaneId lane, std::uint32_t send_depth);
  std::uint32_t completions_with(std::uint32_t send_depth) const;
  bool make_room_for_completions(std::uint32_t wanted);

  const Device& device_;
  QueuePairOptions options_;
  std::uint32_t max_receives_ = 0;
  std::uint32_t pair_count_ = 0;
  std::uint32_t sends_ = 0;  // work requests of all pairs
  CompletionChannel channel_;
  CompletionQueue cq_;
  SharedReceiveQueue srq_;
  std::vector<Pair> pairs_;            // by LaneId
  std::vector<std::uint32_t> depths_;  // of these, the work requests asked for
  std::vector<Pair> retired_;
  std::vector<Numbered> by_number_{8};  // open addressing, at most half full
  std::uint32_t by_number_mask_ = 7;
};

}  // namespace weir::verbs
