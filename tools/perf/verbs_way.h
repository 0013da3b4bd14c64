// What verbs alone can do: one queue pair, and nothing between it and the loops of measure.h.
//
// A message longer than a receive buffer goes in pieces, and so do puts and gets. Receives are
// posted before the other end may use them: a write into its mailbox says how many there are.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "tools/between/pair.h"
#include "tools/perf/way.h"

namespace weir::tools::perf {

class VerbsWay : public Way {
 public:
  // `pair` is not connected yet: receives are posted here.
  VerbsWay(const Memory& memory, between::Pair& pair);
  // Before anything else.
  void meet(const Shown& theirs) { theirs_ = theirs; }

  bool send() override;
  bool start(Operation operation) override;
  void poll() override;
  void finish() override;
  bool settled() const override { return !owes_mail_; }
  std::uint64_t moved() const override { return completed_ + pieces_received_; }

 private:
  void send_greeting() override {
    outbox_.greetings = greetings;
    finish();
  }

  struct Mail {
    std::uint64_t receives = 0;  // posted, without those of the beginning
    std::uint64_t messages = 0;  // received
    std::uint64_t greetings = 0;
  };
  // As in Pair's queues.
  static constexpr std::uint64_t queue_depth = verbs::QueuePairOptions{}.send_depth;

  std::uint32_t pieces() const {
    return static_cast<std::uint32_t>((bytes_ + memory_.piece_bytes() - 1) / memory_.piece_bytes());
  }
  std::uint32_t piece_bytes(std::uint64_t piece) const {
    return static_cast<std::uint32_t>(
        std::min(memory_.piece_bytes(), bytes_ - piece * memory_.piece_bytes()));
  }
  struct UnderWay {
    std::uint64_t last_work;
    Operation operation;
    std::uint64_t added;
  };
  // Some entries are kept for the mailbox.
  bool has_room(std::uint64_t works) const {
    return posted_ + works - completed_ < queue_depth - queue_depth / 8;
  }
  void post_pieces(WorkRequest work, bool ends_operation);
  void post_mailbox();
  void post(std::span<const WorkRequest> works);
  void post_receives(std::span<const BufferId> buffers);
  void take_mail();
  void on_receive(const Completion& completion);

  between::Pair& pair_;
  Shown theirs_;
  Mail outbox_;
  std::uint64_t posted_ = 0;     // work requests
  std::uint64_t completed_ = 0;  // of these
  std::uint64_t pieces_sent_ = 0;
  std::uint64_t pieces_allowed_ = places;
  std::uint64_t pieces_received_ = 0;
  std::uint32_t pieces_of_message_ = 0;  // of the one that comes now
  std::uint64_t told_ = 0;               // of the messages received
  std::uint64_t added_ = 0;              // by fetch-and-adds
  bool owes_mail_ = false;
  std::deque<UnderWay> under_way_;
  std::vector<BufferId> free_;
  std::array<WorkRequest, places> works_{};
};

}  // namespace weir::tools::perf
