// Messages longer than a frame that go unasked, as trains (PROTOCOL.md §2.1): when one may go, and
// how much of them ob1 keeps at the other end.
//
//   sendi ──credits for all cars──▶ cars ──Assembly──▶ ob1, as a message that wants an answer
//     └─else: the eager limit falls, and ob1                │ a receive matches it
//       starts the message again as a rendezvous      answer┘──▶ counted, goes nowhere
//
// ob1 keeps a copy of a message that nobody has received yet, and never gives that memory back. It
// tells nobody how much it keeps; but it answers the announcement of a large message when a receive
// matches. So a train is handed up as the announcement of a message of which nothing is missing,
// and the answer says that it was taken. A peer that has too much of its trains here not taken may
// send none until half of that is.
//
// Thread rule: any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "transport/btl/compat.h"
#include "transport/btl/descriptor.h"
#include "transport/btl/endpoint.h"
#include "transport/btl/message.h"
#include "transport/core/outbox.h"
#include "transport/lane/assembly.h"
#include "transport/lane/train.h"

namespace weir::btl {

struct Module;

class Trains {
 public:
  // `most_bytes`: of a message that may go so, ob1's header included.
  Trains(Module& module, std::size_t most_bytes);

  // ---- sending ----

  // The longest message, ob1's header included.
  std::size_t most_bytes() const { return most_bytes_; }
  // Sends a message that is longer than a frame. If all of it cannot go at once, ob1 is to start it
  // again as a rendezvous: returns false.
  [[gnu::noinline]] bool send(Endpoint& endpoint, const Message& message, mca_btl_base_tag_t tag);
  // Sends such a descriptor, which cannot be refused. Its cars go as credits come.
  [[gnu::noinline]] int send_whole(Endpoint& endpoint, Descriptor& descriptor,
                                   mca_btl_base_tag_t tag);
  // Progress is made: the limit may rise again.
  void look() {
    if (is_low_.load(std::memory_order_relaxed)) [[unlikely]]
      raise();
  }

  // ---- receiving ----

  // A car has arrived, over any rail; hands the message up if that was the last one. False: it is
  // no car, or out of turn.
  [[gnu::noinline]] bool on_car(PeerId from, Endpoint& endpoint, const Delivery& car);
  // Whether this is ob1's answer to a train, which goes nowhere.
  bool is_answer(Endpoint& endpoint, const Descriptor& descriptor, mca_btl_base_tag_t tag) {
    return tag == ob1_ack_tag && take_answer(endpoint, descriptor);
  }
  // The peer is gone.
  void forget(PeerId from);

  // Memory of messages that are half here.
  std::uint64_t bytes_half() {
    std::lock_guard guard(lock_);
    return assembly_.bytes();
  }

 private:
  Train make(std::size_t bytes, mca_btl_base_tag_t tag, std::size_t lead_bytes);
  void lower(Endpoint& endpoint, std::uint32_t cars);
  [[gnu::cold, gnu::noinline]] void raise();
  [[gnu::noinline]] bool take_answer(Endpoint& endpoint, const Descriptor& descriptor);
  void hand_up(PeerId from, Endpoint& endpoint, const Assembly::Whole& whole);
  void judge(Endpoint& endpoint);
  [[gnu::cold, gnu::noinline]] void let_some();
  void let(Endpoint& endpoint, bool may);

  // What ob1 may keep of one peer, and of all; a peer's messages under way, which its credits
  // bound, come on top.
  static constexpr std::int64_t most_kept_of_one = 256 << 10;
  static constexpr std::int64_t most_kept = 4 << 20;

  Module& module_;
  const std::uint32_t frame_bytes_;  // the longest message in one frame
  const std::size_t most_bytes_;
  std::atomic<std::uint32_t> next_train_{0};

  std::atomic<bool> is_low_{false};  // the eager limit is
  std::atomic<Endpoint*> refused_{nullptr};
  std::atomic<std::uint32_t> refused_cars_{0};
  std::atomic<std::uint32_t> looks_{0};  // since then
  std::atomic<std::int64_t> lowered_ns_{0};

  std::atomic<std::int64_t> kept_{0};  // bytes handed up and not taken
  std::atomic<bool> any_refrains_{false};
  std::mutex lock_;  // of what follows
  Assembly assembly_;
  std::vector<Endpoint*> refrained_;  // peers that may send none
};

}  // namespace weir::btl
