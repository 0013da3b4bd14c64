// Two waiting rooms, mostly empty: sends that wait for registered memory, and messages that lack a
// receiver.
//
// Thread rule: each has its own lock; `any` may be called without it, and be a little late.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "transport/btl/descriptor.h"
#include "transport/btl/endpoint.h"

namespace weir::btl {

// ob1 hangs when a control message is refused. So a message that finds no registered memory waits
// here, in ordinary memory, until a slot is free. The cars of a long descriptor always begin here
// (Trains::send_whole).
class WaitingSends {
 public:
  struct Send {
    Endpoint* endpoint;
    std::uint8_t tag;
    std::uint32_t length_bytes;
    std::unique_ptr<std::byte[]> bytes;
    Descriptor* descriptor;  // its completion callback is owed; or nullptr
  };

  // Also until the last one that was taken is sent.
  bool any() const { return any_.load(std::memory_order_relaxed); }

  void push(Send send) {
    std::lock_guard guard(lock_);
    sends_.push_back(std::move(send));
    any_.store(true, std::memory_order_relaxed);
  }

  // One thread at a time takes sends and sends them, so that they keep their order: it has the
  // turn. No lock, because a send may call back, and so come here again.
  class Turn {
   public:
    explicit Turn(WaitingSends& room)
        : room_(room), had_(!room.taken_.test_and_set(std::memory_order_acquire)) {}
    ~Turn() {
      if (had_) room_.taken_.clear(std::memory_order_release);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    explicit operator bool() const { return had_; }

   private:
    WaitingSends& room_;
    const bool had_;
  };

  // Takes the oldest send; false if there is none.
  bool pop(Send& send) {
    std::lock_guard guard(lock_);
    if (sends_.empty()) {
      any_.store(false, std::memory_order_relaxed);
      return false;
    }
    send = std::move(sends_.front());
    sends_.pop_front();
    return true;
  }

  // Puts back the send that `pop` gave.
  void push_front(Send send) {
    std::lock_guard guard(lock_);
    sends_.push_front(std::move(send));
    any_.store(true, std::memory_order_relaxed);
  }

 private:
  std::mutex lock_;
  std::deque<Send> sends_;
  std::atomic<bool> any_{false};
  std::atomic_flag taken_;
};

// Messages whose receive callback is not registered yet: a peer may have finished MPI_Init before
// us.
class EarlyMessages {
 public:
  struct Message {
    PeerId from;
    std::uint8_t tag;
    std::vector<std::byte> payload;
  };

  bool any() const { return any_.load(std::memory_order_relaxed); }

  // False, and keeps nothing, if more than `most_bytes` would wait.
  bool push(PeerId from, std::uint8_t tag, const std::byte* payload, std::uint32_t length_bytes) {
    std::lock_guard guard(lock_);
    if (bytes_ + length_bytes > most_bytes) return false;
    bytes_ += length_bytes;
    messages_.push_back({from, tag, std::vector<std::byte>(payload, payload + length_bytes)});
    any_.store(true, std::memory_order_relaxed);
    return true;
  }

  static constexpr std::size_t most_bytes = 64u << 20;

  // Takes everything.
  std::deque<Message> take() {
    std::lock_guard guard(lock_);
    any_.store(false, std::memory_order_relaxed);
    bytes_ = 0;
    return std::exchange(messages_, {});
  }

 private:
  std::mutex lock_;
  std::deque<Message> messages_;
  std::size_t bytes_ = 0;
  std::atomic<bool> any_{false};
};

}  // namespace weir::btl
