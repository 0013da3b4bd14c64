// The steps of an engine, over one that writes down what it is told.
#include "transport/drive/driver.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/core/rig.h"

namespace weir {
namespace {

class FakeEngine : public Driver<FakeEngine> {
 public:
  using Driver::attend;
  using Driver::call_thread;
  using Driver::core_;
  using Driver::drain;
  using Driver::finish_call;
  using Driver::finish_transfer;
  using Driver::flush;
  using Driver::look;
  using Driver::nap;
  using Driver::note_released;
  using Driver::note_work_left;
  using Driver::on_limit_event;
  using Driver::on_woken;
  using Driver::out_;

  explicit FakeEngine(const Core::Config& config = rig::small_config()) : Driver(config, Time{}) {
    core_.start(out_);
    flush();
  }

  std::vector<std::string> take_said() { return std::exchange(said, {}); }
  // A receive of the lane, that the next poll brings.
  void arrive(const Completion& completion) { completions.push_back(completion); }

  Time time{};
  std::vector<std::string> said;
  std::vector<Completion> completions;
  int polls = 0;
  bool works_next = false;   // the next action makes work
  bool breaks_next = false;  // the next work finds its lane broken

 private:
  friend class Driver<FakeEngine>;
  Now now() const { return time; }
  int poll_completions() {
    ++polls;
    const std::vector<Completion> batch = std::exchange(completions, {});
    for (const Completion& completion : batch) core_.on_completion(now(), completion, out_);
    return static_cast<int>(batch.size());
  }
  void post_receives() {
    said.push_back("receives");
    out_.receives.clear();
  }
  void post_work() {
    said.push_back("work");
    out_.work.clear();
    if (!std::exchange(breaks_next, false)) return;
    out_.report(TransferEnd{1, false});
    out_.retired.push_back({nullptr, false});
    out_.act({.kind = ConnectAction::Kind::drop});
  }
  void arm(SrqArm) { said.push_back("arm"); }
  void listen() {}
  void advertise_rnr_timer(std::uint8_t) { said.push_back("rnr"); }
  void provide_slab() {
    said.push_back("slab");
    const std::uint32_t count = std::exchange(out_.slab_buffers, 0);
    memory_.push_back(std::make_unique<std::byte[]>(std::size_t{count} * 1024));
    core_.on_slab(reinterpret_cast<std::uint64_t>(memory_.back().get()), 3, count, out_);
  }
  void drop_slab() { said.push_back("drop"); }
  void carry_out(const ConnectAction& action) {
    said.push_back(action.kind == ConnectAction::Kind::connect ? "connect" : "connection");
    if (std::exchange(works_next, false)) out_.work.push_back({});
  }
  void hand_up(const Retired&) { said.push_back("retired"); }
  void hand_up(const Outage&) { said.push_back("outage"); }
  void hand_up(const LinkNews&) { said.push_back("link"); }
  void hand_up(const Failure&) { said.push_back("failure"); }
  void hand_up(const TransferEnd&) { said.push_back("transfer"); }
  void hand_up(PeerName) { said.push_back("wanted"); }
  void wake_thread() { said.push_back("wake"); }
  bool is_alive(ProcessId) const { return true; }
  void reap_node() { said.push_back("reap"); }

  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

using Said = std::vector<std::string>;

// Lets its event thread look, with nothing to do, until it sleeps.
void fall_asleep(FakeEngine& engine) {
  for (int i = 0; i < 50; ++i) {
    engine.time = engine.time + engine.nap(engine.time);
    engine.attend(engine.time);
  }
  engine.nap(engine.time);
  engine.take_said();
}

TEST(Driver, ReceivesArePostedBeforeTheLimitIsArmed) {
  FakeEngine engine;
  EXPECT_EQ(engine.said, (Said{"slab", "receives", "arm"}));
}

// A frame with credits, the receives that they are for, and the limit.
void want_the_usual(FakeEngine& engine) {
  engine.take_said();
  engine.out_.work.push_back({});
  engine.out_.receives.push_back({});
  engine.out_.arm_srq(4);
}

TEST(Driver, ReceivesArePostedBeforeWorkThatMayBringCredits) {
  FakeEngine engine;
  want_the_usual(engine);
  engine.flush();
  EXPECT_EQ(engine.said, (Said{"receives", "arm", "work"}));
  EXPECT_TRUE(engine.out_.empty());
}

TEST(Driver, ACallOfTheApplicationPostsInTheSameOrder) {
  FakeEngine engine;
  want_the_usual(engine);
  engine.out_.retired.push_back({nullptr, true});
  engine.finish_call();
  EXPECT_EQ(engine.said, (Said{"receives", "arm", "work", "retired"}));
  EXPECT_TRUE(engine.out_.empty());
}

// The transfer goes on, or is given up, also if the application does not come back for a while.
TEST(Driver, ATransferWakesTheThread) {
  FakeEngine engine;
  fall_asleep(engine);
  engine.out_.work.push_back({});
  engine.finish_transfer();
  EXPECT_EQ(engine.take_said(), (Said{"work", "wake"}));
  engine.finish_transfer();
  EXPECT_EQ(engine.said, (Said{}));
}

TEST(Driver, TransfersEndForTheLayerAboveOnceTheirQueuePairIsGone) {
  FakeEngine engine;
  engine.take_said();
  engine.out_.report(TransferEnd{1, false});
  engine.out_.act({.kind = ConnectAction::Kind::drop});
  engine.flush();
  EXPECT_EQ(engine.said, (Said{"connection", "transfer"}));
}

TEST(Driver, WhatALaneEndsThatBreaksWhenPostedToWaitsForItsQueuePairToo) {
  FakeEngine engine;
  engine.take_said();
  engine.breaks_next = true;
  engine.out_.work.push_back({});
  engine.flush();
  EXPECT_EQ(engine.said, (Said{"work", "connection", "retired", "transfer"}));
}

// The lane may be the one that the next action drops, and its number may then be another lane's.
TEST(Driver, WorkThatAnActionMakesIsPostedBeforeTheNextOne) {
  FakeEngine engine;
  engine.take_said();
  engine.works_next = true;
  engine.out_.act({.kind = ConnectAction::Kind::drop});
  engine.out_.act({.kind = ConnectAction::Kind::drop});
  engine.flush();
  EXPECT_EQ(engine.said, (Said{"connection", "work", "connection"}));
}

TEST(Driver, AFirstMessageWakesTheThreadForItsDeadline) {
  FakeEngine engine;
  fall_asleep(engine);
  rig::Rig memory;
  const PeerId peer = engine.core_.add_peer(rig::other);
  ASSERT_EQ(engine.core_.send(engine.time, peer, memory.slot(), 8, 1, true, engine.out_),
            Status::ok);
  engine.flush();
  EXPECT_EQ(engine.take_said(), (Said{"connect", "wake"}));
  engine.note_work_left();
  EXPECT_TRUE(engine.take_said().empty());  // it is awake
}

TEST(Driver, AReleasedBufferGoesBackWithALookThatFindsNothing) {
  FakeEngine engine;
  const std::uint64_t posted = engine.core().counters().receives_posted;
  const auto receive = [](std::uint64_t buffer) {
    return Completion{.opcode = Opcode::receive,
                      .status = CompletionStatus::success,
                      .length_bytes = 0,
                      .lane = LaneId::none,
                      .id = buffer};
  };
  engine.look();
  for (std::uint64_t i = 0; i < 3; ++i) engine.arrive(receive(i));
  engine.look();  // a message would be more urgent
  EXPECT_EQ(engine.core().counters().receives_posted, posted - 3);
  engine.look();
  EXPECT_EQ(engine.core().counters().receives_posted, posted);
}

TEST(Driver, TheThreadPollsForWhoIsAbsentOnly) {
  FakeEngine engine;
  rig::Rig memory;
  const PeerId peer = engine.core_.add_peer(rig::other);
  ASSERT_EQ(engine.core_.send(engine.time, peer, memory.slot(), 8, 1, true, engine.out_),
            Status::ok);
  engine.flush();
  ASSERT_TRUE(engine.core().needs_attendance());

  engine.look();
  engine.polls = 0;
  engine.attend(engine.time);  // the application looked
  EXPECT_EQ(engine.polls, 0);
  engine.attend(engine.time);  // and computes since
  EXPECT_GT(engine.polls, 0);
}

TEST(Driver, ALimitEventIsJudgedByWhatIsThereNow) {
  FakeEngine engine;
  engine.take_said();
  engine.polls = 0;
  engine.on_limit_event(engine.time);
  EXPECT_GT(engine.polls, 0);
  // Nothing has used the buffers: it is old news, and the limit is armed again.
  EXPECT_EQ(engine.said, (Said{"arm"}));
}

}  // namespace
}  // namespace weir
