// What has come for the layer above. It arrives with the lock held, a thread takes it, and hands it
// up one by one without the lock.
//
// Thread rule: the engine's lock, except for `hand_up` and `leave`, which are for the thread that
// has entered. Another thread enters only with the lock held, once that one has left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "transport/core/core.h"
#include "transport/engine/taken.h"
#include "transport/engine/thread_mark.h"
#include "transport/wire/hello.h"

namespace weir {

// A connection request that was refused because of the asker, or the way it asked.
struct Refusal {
  wire::Reject reason;
  PeerName from;        // as the request claims
  std::string address;  // where the request came from
  bool greeted;         // it speaks some version of weir's protocol
  bool last;            // later ones are only counted
};

// What is handed up besides messages and the ends of transfers.
struct Notice {
  enum class Kind : std::uint8_t { retired, failure, refusal, warning, breakdown, wanted } kind;
  Retired retired{};
  struct Rare {  // the end of a send should not pay for its size
    Failure failure{};
    PeerName wanted{};
    Refusal refusal{};
    std::string words{};
  };
  std::unique_ptr<Rare> rare;

  explicit Notice(const Retired& slot) : kind(Kind::retired), retired(slot) {}
  explicit Notice(const Failure& peer) : Notice(Kind::failure, {.failure = peer}) {}
  explicit Notice(PeerName name) : Notice(Kind::wanted, {.wanted = name}) {}
  explicit Notice(Refusal&& request) : Notice(Kind::refusal, {.refusal = std::move(request)}) {}
  explicit Notice(std::string&& what, Kind of = Kind::warning)
      : Notice(of, {.words = std::move(what)}) {}

  // Not for who stands in for the application: Open MPI may end the job because of these, or asks
  // for more in its turn than a thread beside the application's may do.
  bool is_for_application() const {
    return kind == Kind::failure || kind == Kind::breakdown || kind == Kind::wanted;
  }

 private:
  Notice(Kind of, Rare&& news) : kind(of), rare(std::make_unique<Rare>(std::move(news))) {}
};

class Inbox {
 public:
  Inbox();

  // ---- what arrives ----

  template <typename... Parts>
  void tell(Parts&&... parts) {
    notices_.emplace_back(std::forward<Parts>(parts)...);
    has_news_ = true;
  }
  void tell(const TransferEnd& end) {
    ends_.push_back(end);
    has_news_ = true;
  }
  // Something besides messages, which arrive in the core's Outbox.
  bool has_news() const { return has_news_; }

  // ---- what is taken ----

  // Takes all that arrived; nothing taken may be left.
  void take(std::vector<Delivery>& messages) {
    if (!messages.empty()) taken_messages_.take(messages);
    if (!std::exchange(has_news_, false)) return;
    has_taken_news_ = true;
    if (!ends_.empty()) taken_ends_.take(ends_);
    if (!notices_.empty()) taken_notices_.take(notices_);
  }
  // Something is not handed up yet.
  bool has_taken() const { return !taken_messages_.empty() || has_taken_news_; }
  // There is something for the application only among what arrived, and if `taken` among what was
  // taken.
  bool has_news_for_application(bool taken) const;

  // The thread that hands up, or none: then what the last one left of it is seen.
  ThreadMark owner() const { return owner_.load(std::memory_order_acquire); }
  // It may enter again while it hands up.
  void enter(ThreadMark self = this_thread()) {
    if (depth_ == 0) owner_.store(self, std::memory_order_relaxed);
    if (in_hand_.size() < static_cast<std::size_t>(++depth_)) in_hand_.push_back(BufferId::none);
  }
  void leave() {
    if (--depth_ == 0) owner_.store(ThreadMark::none, std::memory_order_release);
  }

  // Hands up what was taken, as long as `goes_on(count)`; the rest is for the next call. Calls
  // `release(BufferId)` when the messages of a buffer are handled. Returns how many things that
  // was.
  template <typename Handler, typename GoesOn, typename Release>
  [[gnu::always_inline]] int hand_up(Handler& handler, GoesOn& goes_on, Release&& release) {
    int count = 0;
    for (; !taken_messages_.empty() && goes_on(count); ++count) {
      const InHand in_hand(*this, taken_messages_.pop(), release);
      handler.on_message(in_hand.message);
    }
    if (!taken_messages_.empty() || !has_taken_news_) return count;
    return hand_up_news(handler, goes_on, count);
  }

 private:
  // A message that its handler has, which may throw.
  template <typename Release>
  struct InHand {
    InHand(Inbox& of, const Delivery& delivery, Release& releases)
        : inbox(of),
          release(releases),
          level(static_cast<std::size_t>(of.depth_) - 1),
          message(delivery) {
      inbox.in_hand_[level] = message.buffer;
    }
    ~InHand() {
      inbox.in_hand_[level] = BufferId::none;
      if (level == 0 && inbox.postponed_.empty()) [[likely]] {
        if (message.last) release(message.buffer);
      } else if (inbox.finishes_buffer(message)) {
        release(message.buffer);
      }
    }
    Inbox& inbox;
    Release& release;
    const std::size_t level;
    const Delivery message;
  };

  // What comes after the messages. A handler may take more: so each is handed up from a copy.
  template <typename Handler, typename GoesOn>
  [[gnu::noinline]] int hand_up_news(Handler& handler, GoesOn& goes_on, int count) {
    for (; !taken_notices_.empty() && goes_on(count); ++count) {
      const Notice notice = std::move(taken_notices_.pop());
      hand_up(handler, notice);
    }
    if (!taken_notices_.empty()) return count;  // one may say why a transfer failed
    for (; !taken_ends_.empty() && goes_on(count); ++count) {
      const TransferEnd end = taken_ends_.pop();
      handler.on_transfer(end);
    }
    if (taken_ends_.empty()) has_taken_news_ = false;
    return count;
  }
  template <typename Handler>
  static void hand_up(Handler& handler, const Notice& notice) {
    switch (notice.kind) {
      case Notice::Kind::retired:
        handler.on_retired(notice.retired.slot, notice.retired.delivered);
        break;
      case Notice::Kind::failure: handler.on_failure(notice.rare->failure); break;
      case Notice::Kind::refusal: handler.on_refusal(notice.rare->refusal); break;
      case Notice::Kind::warning: handler.on_warning(notice.rare->words); break;
      case Notice::Kind::breakdown: handler.on_breakdown(notice.rare->words); break;
      case Notice::Kind::wanted:
        if constexpr (requires { handler.on_wanted(notice.rare->wanted); })
          handler.on_wanted(notice.rare->wanted);
        break;
    }
  }
  [[gnu::noinline]] bool finishes_buffer(const Delivery& message);

  // What has arrived.
  std::vector<Notice> notices_;
  std::vector<TransferEnd> ends_;
  bool has_news_ = false;  // there are some of either

  // What was taken, and who hands it up.
  Atomic<ThreadMark> owner_{ThreadMark::none};
  int depth_ = 0;
  Taken<Delivery> taken_messages_;
  Taken<Notice> taken_notices_;
  Taken<TransferEnd> taken_ends_;
  bool has_taken_news_ = false;      // there may be notices or ends
  std::vector<BufferId> in_hand_;    // buffer of the message being handled, at each depth
  std::vector<BufferId> postponed_;  // released at a greater depth than a message of theirs
};

}  // namespace weir
