// One completion queue, one shared receive queue, and the queue pairs on them. Turns the core's
// values into `ibv_*` calls and completions into values; decides nothing.
//
// Thread rule: the engine's lock, except for `make_spare`.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/work.h"
#include "transport/verbs/completion_queues.h"
#include "transport/verbs/device.h"
#include "transport/verbs/pair_numbers.h"
#include "transport/wire/frame.h"

namespace weir::verbs {

struct QueuePairOptions {
  std::uint32_t send_depth = 128;      // work requests
  std::uint32_t inline_bytes = 256;    // 0: none
  std::uint8_t rnr_timer_code = 12;    // RNR NAK timer that we advertise to senders
  std::uint8_t ack_timeout_code = 18;  // 4.096 us * 2^code until a retry
  std::uint8_t retry_count = 6;        // never 7: some adapters then retry for ever
  std::uint32_t mtu_bytes = 0;         // 0: as negotiated
  // For every path. Without a value, the path keeps what connection management resolved.
  std::optional<std::uint8_t> service_level;
  std::optional<std::uint8_t> traffic_class;
  std::optional<std::uint16_t> pkey_index;
};

class Queues {
 public:
  using Pair = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;

  // `max_receives`: the largest possible W_max. If the device refuses: nullptr, and the reason in
  // `why`.
  static std::unique_ptr<Queues> create(const Device& device, std::uint32_t max_receives,
                                        const QueuePairOptions& options, std::string& why);

  // Frames up to this size can be posted inline: as configured, or, once there is a pair, as the
  // device allows.
  std::uint32_t inline_bytes() const { return options_.inline_bytes; }

  // Makes a queue pair for `lane`, in RESET. If the device refuses: 0, and the reason in `why`.
  std::uint32_t create_pair(LaneId lane, std::string& why);
  // A pair for the next `create_pair`; none if the device refuses. `make_spare` takes long, so it is
  // called without the lock, for a `spare_wanted` that was read under the lock.
  struct Spare {
    ibv_cq* cq = nullptr;
    std::uint32_t inline_bytes = 0;  // wanted, and then had
    Pair pair{};
  };
  Spare spare_wanted() const { return {completions_->newest(), options_.inline_bytes}; }
  void make_spare(Spare& spare) const;
  bool has_spare() const { return spare_ != nullptr; }
  void keep_spare(Spare spare);
  // As `create_pair`, for a second lane to a peer, with `send_depth` work requests. Also 0 if too
  // little would be left for the first lanes of further peers.
  std::uint32_t create_second_pair(LaneId lane, std::uint32_t send_depth, std::string& why);
  // Ends the pair of `lane`; false: there is none. A retired pair neither sends nor receives. Then
  // the caller polls until `is_flushed`, or has no more time, and calls `destroy_flushed`.
  bool retire_pair(LaneId lane);
  // Whether all completions of the pair retired last were polled. It posts a marker behind the last
  // work request, so call it again after each poll. A pair that takes no marker counts as flushed.
  bool is_flushed() { return retired_.empty() || is_flushed(retired_.back()); }
  // Destroys the retired pairs that are flushed. Others stay until a later call, or until they are
  // too many: to some adapters (qedr) a completion is a pointer to its pair. From now on completions
  // of all of them belong to no lane.
  void destroy_flushed();
  bool has_retired() const { return !retired_.empty(); }
  bool has_pair(LaneId lane) const { return pair(lane) != nullptr; }
  // For reading the pair's attributes; nullptr if there is no pair.
  ibv_qp* pair(LaneId lane) const {
    return index(lane) < pairs_.size() ? pairs_[index(lane)].get() : nullptr;
  }

  // Moves a queue pair one step with the attributes that connection management filled in, and adds
  // ours (timers, retries). False, with errno set, on failure.
  bool modify(LaneId lane, ibv_qp_attr attributes, int mask);
  // Sets the RNR NAK timer that later pairs advertise. `adjust_an_rnr_timer` changes that of the next
  // existing pair: one, because each costs a system call, and on some adapters a firmware command.
  // False: the pair refuses, and keeps its timer.
  void advertise_rnr_timer(std::uint8_t code);
  bool adjust_an_rnr_timer();
  bool has_old_rnr_timers() const { return old_rnr_timers_ > 0; }
  // From RESET to RTS, connected to a queue pair of the same port: one with any number, or itself.
  bool connect_on_port(LaneId lane, std::uint32_t qp_number);
  bool connect_to_itself(LaneId lane) { return connect_on_port(lane, pair(lane)->qp_num); }
  // From RESET to RTS, connected to the peer's queue pair `theirs`, by the path of the lane
  // `beside`. At most `reads` reads may be outstanding on it.
  bool connect_beside(LaneId lane, LaneId beside, const wire::LaneEnd& ours,
                      const wire::LaneEnd& theirs, std::uint32_t reads);

  // Posts a chain for one lane. False, with errno set, if the adapter refused.
  [[gnu::hot]] bool post(std::span<const WorkRequest> chain);
  // Posts a chain of receives to the SRQ. False, with errno set, if the adapter refused.
  [[gnu::hot]] bool post(std::span<const ReceivePost> chain);
  // False, with errno set, if the adapter refused.
  bool arm(SrqArm arm);

  static constexpr int poll_most = 32;

  // Polls up to `most` completions (at most poll_most), and calls `handle(Completion)` for each but
  // a marker. Returns how many there were; less than 0: the queue is broken.
  template <typename Handle>
  int poll(int most, Handle&& handle) {
    std::array<ibv_wc, poll_most> done;
    const int count = completions_->poll(most, done.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& one = done[static_cast<std::size_t>(i)];
      if ((one.wr_id & marker_bit) != 0) [[unlikely]] {
        on_marker(one);
      } else {
        handle(to_completion(one));
      }
    }
    return count;
  }
  int poll(std::span<Completion> completions) {
    auto next = completions.begin();
    const int count = poll(std::min(static_cast<int>(completions.size()), poll_most),
                           [&](const Completion& completion) { *next++ = completion; });
    return count < 0 ? count : static_cast<int>(next - completions.begin());
  }

  // Readable after a solicited frame (WorkRequest::solicited) has come; -1 if the device has no
  // completion channel. [IBTA 11.4.2.2]
  int event_fd() const { return completions_->event_fd(); }
  // Call when it is readable, before the poll.
  void take_events() { completions_->take_events(); }
  // Arms `event_fd` for the next such frame. `take_events` does that, too.
  void listen() { completions_->listen(); }

  std::size_t completion_queues() const { return completions_->count(); }

  // The lane of the queue pair with this number, or none.
  LaneId lane_of(std::uint32_t qp_number) const { return numbers_.find(qp_number); }

 private:
  using SharedReceiveQueue = std::unique_ptr<ibv_srq, Destroyer<ibv_destroy_srq>>;

  // The path that the pair of a lane was given. Kept here, because some devices forget the service
  // level.
  struct Path {
    ibv_ah_attr address{};
    ibv_mtu mtu = IBV_MTU_256;
    std::uint8_t port = 0;
    std::uint16_t pkey_index = 0;
  };

  // Set in the wr_id of a receive; the rest is its buffer. (The opcode of a failed completion is
  // undefined [IBTA 11.4.2.1], so the id has to tell.)
  static constexpr std::uint64_t receive_bit = std::uint64_t{1} << 63;
  // Set in that of a marker; the rest is its pair's number.
  static constexpr std::uint64_t marker_bit = std::uint64_t{1} << 62;

  Queues(const Device& device, const QueuePairOptions& options)
      : device_(device), options_(options) {}

  Completion to_completion(const ibv_wc& wc) const {
    return {(wc.wr_id & receive_bit) != 0 ? Opcode::receive : Opcode::send,
            wc.status <= IBV_WC_GENERAL_ERR ? static_cast<CompletionStatus>(wc.status)
                                            : CompletionStatus::general_err,
            wc.byte_len, lane_of(wc.qp_num), wc.wr_id & ~receive_bit};
  }

  enum class Marker : std::uint8_t { none, due, posted };
  struct Retired {
    Pair pair;
    std::uint32_t send_depth = 0;
    Marker marker = Marker::none;
  };

  void on_marker(const ibv_wc& wc);
  bool is_flushed(Retired& retired);
  static std::uint32_t flow_label(const ibv_qp& first, std::uint8_t number);
  // From RESET to RTS. `path`: address vector, MTU, port and partition, the peer's queue pair, PSNs
  // and max_rd_atomic.
  bool bring_up(LaneId lane, ibv_qp_attr path);
  std::uint32_t make_pair(LaneId lane, std::uint32_t send_depth, std::string& why);
  Pair ask_for_pair(ibv_cq* cq, std::uint32_t send_depth, std::uint32_t& inline_bytes) const;
  Pair ask_for_less_inline(ibv_cq* cq, std::uint32_t send_depth);
  std::uint32_t add_pair(LaneId lane, ibv_cq* cq, std::uint32_t send_depth);

  const Device& device_;
  QueuePairOptions options_;
  std::uint32_t pair_count_ = 0;
  std::unique_ptr<CompletionQueues> completions_;
  SharedReceiveQueue srq_;
  std::vector<Pair> pairs_;            // by LaneId
  std::size_t old_rnr_timers_ = 0;     // so many of the first pairs may have an older timer
  std::vector<std::uint32_t> depths_;  // work requests asked for, by LaneId
  std::vector<Path> paths_;            // by LaneId
  std::vector<Retired> retired_;
  Pair spare_;
  PairNumbers numbers_;
};

}  // namespace weir::verbs
