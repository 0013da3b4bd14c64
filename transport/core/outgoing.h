// The frames of a process for one peer that were not sent yet, and its credits for sending them.
// Only the sender changes it.
//
// A value; the caller serialises.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/fifo.h"
#include "transport/lane/send_slot.h"
#include "transport/wire/frame.h"

namespace weir {

class Outgoing {
 public:
  bool has_pending() const { return !pending_.empty(); }
  std::size_t pending_frames() const { return pending_.size(); }
  // The pending frame that was queued last, or nullptr.
  SendSlot* youngest() { return pending_.back(); }
  // Frames that were under way when the lane broke.
  std::size_t frames_in_doubt() const { return doubt_.size(); }
  // Some frames in doubt have messages.
  bool doubts_messages() const {
    for (const SendSlot* slot = doubt_.front(); slot != nullptr; slot = slot->next) {
      if (slot->messages > 0) return true;
    }
    return false;
  }
  // Frames of messages, and control frames, that the peer has buffers for.
  std::uint32_t credits() const { return credits_; }
  std::uint32_t control_credits() const { return control_credits_; }
  bool owes_lane_end() const { return owes_lane_end_; }
  // The number of the lane that the owed end belongs to.
  std::uint8_t owed_lane() const { return lane_end_.number; }

 private:
  friend class Sender;

  Fifo<SendSlot> pending_;  // not posted yet, oldest first
  Fifo<SendSlot> doubt_;    // under way when the lane broke, oldest first; control frames, too
  std::uint32_t credits_ = 0;
  std::uint8_t control_credits_ = 0;
  std::uint8_t control_owed_ = 0;  // control credits to give back to the peer
  bool owes_lane_end_ = false;     // `lane_end_` has to be sent to the peer
  bool takes_trains_ = true;       // the peer takes trains
  bool may_train_ = true;          // the peer may send us trains
  bool owes_may_train_ = false;    // `may_train_` has to be sent to the peer
  wire::Wakes wakes_ = wire::Wakes::none;  // which of the frames wake the peer
  std::uint64_t round_ = 0;        // round of the last frame
  std::uint32_t burst_ = 0;        // messages in that round
  bool floods_ = false;            // the round before had many
  wire::LaneEnd lane_end_{};
};

}  // namespace weir
