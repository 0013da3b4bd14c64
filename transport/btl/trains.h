// Trains: messages longer than a frame that go without a rendezvous (PROTOCOL.md §2.1). Decides
// when one may go, and bounds how much of them ob1 keeps at the other end.
//
//   sendi ──▶ cars ──as credits come──▶ Assembly ──▶ ob1, as a message that wants an answer
//                                                     │ a receive matches it
//                                               answer┘──▶ counted, goes nowhere
//
// While many cars wait for credits, a peer takes no trains, or one reads a stream, the eager limit
// is the size of one frame. Then ob1 starts longer messages as a rendezvous. There is one limit for
// all peers, and ob1 reads it each time. (If such a message were turned back here instead, ob1
// would start it again only in the next call of MPI. A program that computes first would lose its
// overlap.)
//
// ob1 keeps a copy of a message that nobody has received yet, and never gives that memory back. It
// does not tell how much it keeps, but it answers the announcement of a large message when a
// receive matches. So a train is handed up as the announcement of a message that is already
// complete, and the answer says that it was taken. A peer with too many bytes of trains here that
// were not taken may send none until at most half as many are left.
//
// A stream is several messages announced to one peer. While it lasts, that peer sends no trains
// either. Otherwise one process might both send trains and read. Soft-RoCE moves a train on the
// sender's CPU, and bytes that are read on the reader's, so that process would do all the work.
// That would not end by itself: a train is over for its sender at once, and the reader falls
// further behind.
//
// Thread rule: any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/access.h"
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
  // `most_bytes`: of a message that may go as a train, ob1's header included.
  Trains(Module& module, std::size_t most_bytes);

  // ---- sending ----

  // The longest message, ob1's header included.
  std::size_t most_bytes() const { return most_bytes_; }
  // Sends a message that is longer than a frame. False if there is no memory for it, or another
  // thread has just sent one that waits: ob1 starts it again.
  [[gnu::noinline]] bool send(Endpoint& endpoint, const Message& message, mca_btl_base_tag_t tag);
  // Sends a descriptor that is longer than a frame, and cannot be refused. Its cars go as credits
  // come.
  [[gnu::noinline]] int send_whole(Endpoint& endpoint, Descriptor& descriptor,
                                   mca_btl_base_tag_t tag);
  // Sets ob1's eager limit as it should be now.
  void set_limit();

  // Whether ob1 registers memory of this kind for a message that could have been a train.
  bool is_in_place_of_one(const Endpoint* reader, Access access, std::size_t bytes) const {
    return bytes <= most_bytes_ && access == Access::remote_read && reader != MCA_BTL_ENDPOINT_ANY;
  }
  // Such a message was announced, or was read.
  void on_announced(Endpoint& reader);
  void on_read(Endpoint& reader);

  // ---- receiving ----

  // A car has arrived, over any rail. Hands the message up if it was the last one. False: it is not
  // a car, or out of turn.
  [[gnu::noinline]] bool on_car(PeerId from, Endpoint& endpoint, const Delivery& car);
  // Whether this is ob1's answer to a train, which goes nowhere.
  bool is_answer(Endpoint& endpoint, const Descriptor& descriptor, mca_btl_base_tag_t tag) {
    return tag == ob1_ack_tag && take_answer(endpoint, descriptor);
  }
  // The peer is gone.
  void forget(Endpoint& endpoint);

  // Memory of incomplete messages.
  std::uint64_t bytes_half() {
    std::lock_guard guard(lock_);
    return assembly_.bytes();
  }

 private:
  Train make(std::size_t bytes, mca_btl_base_tag_t tag, std::size_t lead_bytes);
  [[gnu::noinline]] bool take_answer(Endpoint& endpoint, const Descriptor& descriptor);
  void hand_up(PeerId from, Endpoint& endpoint, const Assembly::Whole& whole);
  void judge(Endpoint& endpoint);
  void halt(Endpoint& endpoint);
  void end_stream(Endpoint& endpoint);
  [[gnu::cold, gnu::noinline]] void let_some();
  void let(Endpoint& endpoint, bool may);

  // Bytes that ob1 may keep of one peer, and of all. A peer's messages under way, which its credits
  // bound, come on top.
  static constexpr std::int64_t most_kept_of_one = 256 << 10;
  static constexpr std::int64_t most_kept = 4 << 20;

  // So many messages to one peer, announced and not read yet, begin a stream; so few end it.
  static constexpr int stream_begins = 8;
  static constexpr int stream_ends = 2;

  Module& module_;
  const std::uint32_t frame_bytes_;  // the longest message in one frame
  const std::size_t most_bytes_;
  std::atomic<std::uint32_t> next_train_{0};

  std::atomic<std::int64_t> kept_{0};  // bytes handed up and not taken
  std::atomic<bool> any_refrains_{false};
  std::atomic<int> streams_{0};  // peers that read a stream
  std::mutex lock_;  // of the members below
  Assembly assembly_;
  std::vector<Endpoint*> refrained_;  // peers that may send no trains
};

}  // namespace weir::btl
