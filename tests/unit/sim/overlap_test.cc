// What moves on while the application computes. A get of 32 MiB at 100 Gbit/s, started, and then no
// call of MPI: only the event thread looks, every millisecond. And a message for an application for
// which somebody stands in.
#include <gtest/gtest.h>

#include <vector>

#include "tools/sim/engine.h"

namespace weir::sim {
namespace {

constexpr std::uint64_t get_bytes = 32 << 20;
constexpr PeerName first{7, 0};
constexpr PeerName second{7, 1};

struct Ends : Upcalls {
  void on_message(const Delivery&) override {}
  void on_retired(SendSlot*, bool) override {}
  void on_failure(const Failure&) override { ++failures; }
  void on_transfer(const TransferEnd& end) override { ended += end.ok ? 1 : 0; }
  int ended = 0;
  int failures = 0;
};

Engine::Config config_of(PeerName self, std::uint64_t chain_bytes) {
  Engine::Config config;
  config.core.self = self;
  config.core.shrink_after = {};
  config.core.transfers.chain_bytes = chain_bytes;
  config.nic.srq_depth = config.core.window.max;
  return config;
}

class Overlap {
 public:
  explicit Overlap(std::uint64_t chain_bytes)
      : fabric_({}, {}, 1),
        connections_(fabric_),
        reader_(fabric_, connections_, 0, config_of(first, chain_bytes)),
        owner_(fabric_, connections_, 1, config_of(second, chain_bytes)),
        ours_(get_bytes),
        theirs_(get_bytes, std::byte{0x5a}) {
    peer_ = reader_.add_peer(second, 1);
    owner_.add_peer(first, 0);
    const auto bytes = reinterpret_cast<std::uint64_t>(theirs_.data());
    request_ = {.peer = peer_,
                .remote_address = bytes,
                .local_address = reinterpret_cast<std::uint64_t>(ours_.data()),
                .length_bytes = get_bytes,
                .rkey = owner_.nic().register_memory(bytes, get_bytes, Access::all)};
    // Twice with progress: now c is known, and the second lane is there if it is wanted.
    for (int i = 0; i < 2; ++i) {
      reader_.transfer(request_);
      for (const int before = ends_.ended; ends_.ended == before && ends_.failures == 0;) turn();
      for (int j = 0; j < 1000; ++j) turn();
    }
  }

  // How long it takes until the last byte is there.
  Duration compute() {
    ours_.assign(get_bytes, std::byte{0});
    const Time begin = fabric_.events.now();
    reader_.transfer(request_);
    while (ours_.back() == std::byte{0} && fabric_.violations.empty()) fabric_.events.step();
    for (const std::string& violation : fabric_.violations) ADD_FAILURE() << violation;
    EXPECT_TRUE(ours_ == theirs_);
    return fabric_.events.now() - begin;
  }

  std::uint64_t chains() const { return reader_.core().counters().chains; }

 private:
  void turn() {
    fabric_.events.run_until(fabric_.events.now() + microseconds(1));
    reader_.progress(ends_);
    owner_.progress(ends_);
  }

  Fabric fabric_;
  Connections connections_;
  Engine reader_;
  Engine owner_;
  Ends ends_;
  std::vector<std::byte> ours_;
  std::vector<std::byte> theirs_;
  PeerId peer_;
  TransferRequest request_;
};

TEST(Overlap, AChainMovesOnWithoutSoftware) {
  Overlap scheduled(0);
  Overlap offloaded(1 << 20);
  const Duration one_by_one = scheduled.compute();
  const Duration by_itself = offloaded.compute();
  EXPECT_EQ(scheduled.chains(), 0u);
  EXPECT_GE(offloaded.chains(), 1u);
  const auto gbits = [](Duration time) {
    return static_cast<double>(get_bytes) * 8 / static_cast<double>(time.ns);
  };
  std::printf(
      "32 MiB while the application computes: %.1f Gbit/s chunk by chunk, %.1f as a chain\n",
      gbits(one_by_one), gbits(by_itself));
  EXPECT_LT(by_itself.ns * 4, one_by_one.ns);
}

// An application that computes, and one that sends it a message now and then.
class StandIn : public ::testing::Test {
 protected:
  struct Receiver : Upcalls {
    void on_message(const Delivery& delivery) override {
      ++messages;
      engine->release(delivery.buffer);
    }
    void on_retired(SendSlot*, bool) override {}
    void on_failure(const Failure&) override { ++failures; }
    Engine* engine = nullptr;
    int messages = 0;
    int failures = 0;
  };
  struct Sender : Ends {
    void on_retired(SendSlot* slot, bool) override { engine->discard(slot); }
    Engine* engine = nullptr;
  };

  StandIn()
      : fabric_({}, {}, 1),
        connections_(fabric_),
        from_(fabric_, connections_, 0, config(first)),
        to_(fabric_, connections_, 1, config(second)) {
    peer_ = from_.add_peer(second, 1);
    to_.add_peer(first, 0);
    sender_.engine = &from_;
    receiver_.engine = &to_;
    to_.let_stand_in(receiver_);
    send();
    while (receiver_.messages == 0) pass(microseconds(10), true);
  }
  ~StandIn() override {
    EXPECT_EQ(receiver_.failures + sender_.failures, 0);
    for (const std::string& violation : fabric_.violations) ADD_FAILURE() << violation;
  }

  static Engine::Config config(PeerName self) {
    Engine::Config config = config_of(self, 0);
    config.core.wakes = wire::Wakes::answers;
    return config;
  }
  void send() {
    SendSlot* const slot = from_.acquire(8);
    slot->notify = slot->wakes = true;
    ASSERT_EQ(from_.send(peer_, slot, 8, 0, true), Status::ok);
  }
  // The sender looks all the time, the receiver if it does not compute.
  void pass(Duration time, bool receiver_looks = false) {
    for (const Time end = fabric_.events.now() + time; fabric_.events.now() < end;) {
      fabric_.events.run_until(fabric_.events.now() + microseconds(10));
      from_.progress(sender_);
      if (receiver_looks) to_.progress(receiver_);
      to_.check_nobody_waits();
    }
  }

  Fabric fabric_;
  Connections connections_;
  Engine from_;
  Engine to_;
  Sender sender_;
  Receiver receiver_;
  PeerId peer_;
};

TEST_F(StandIn, WhatComesForAnApplicationThatComputesIsHandedUp) {
  pass(milliseconds(50));
  send();
  pass(milliseconds(1));
  EXPECT_EQ(receiver_.messages, 2);
  EXPECT_EQ(to_.stood_in().upcalls, 1u);
}

TEST_F(StandIn, OneThatHasCalledForLongIsWaitedForALittleLonger) {
  pass(milliseconds(400), true);
  send();
  pass(milliseconds(1));
  EXPECT_EQ(receiver_.messages, 1);
  pass(milliseconds(8));
  EXPECT_EQ(receiver_.messages, 2);
}

TEST_F(StandIn, WhoCallsTakesItItself) {
  for (int i = 0; i < 10; ++i) {
    send();
    pass(milliseconds(10), true);
  }
  EXPECT_EQ(receiver_.messages, 11);
  EXPECT_EQ(to_.stood_in().upcalls, 0u);
}

TEST_F(StandIn, AnEventThatIsLostCostsTwoSecondsAtMostAndNoOther) {
  pass(milliseconds(50));
  fabric_.hazards.lost_event.permille = 1000;
  send();
  pass(milliseconds(100));
  EXPECT_EQ(receiver_.messages, 1);
  fabric_.hazards.lost_event.permille = 0;
  pass(milliseconds(2000));
  EXPECT_EQ(receiver_.messages, 2);
  send();
  pass(milliseconds(1));
  EXPECT_EQ(receiver_.messages, 3);
}

}  // namespace
}  // namespace weir::sim
