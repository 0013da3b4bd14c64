// What an engine does with a core that has a peer: housework, and what its event thread does for an
// application that computes. The peer is played by the test.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/core/rig.h"
#include "transport/drive/driver.h"

namespace weir {
namespace {

using rig::other;
using wire::FrameKind;

constexpr Time start{seconds(5).ns};

class Bench : public Driver<Bench> {
 public:
  explicit Bench(const Core::Config& config = rig::small_config()) : Driver(config, start) {
    core_.start(out_);
    flush();
    journal.clear();
  }

  using Driver::add_request;
  using Driver::attend;
  using Driver::call_thread;
  using Driver::core_;
  using Driver::flush;
  using Driver::flush_held;
  using Driver::has_requests;
  using Driver::look;
  using Driver::nap;
  using Driver::note_released;
  using Driver::note_work_left;
  using Driver::on_answer;
  using Driver::on_connection_event;
  using Driver::on_limit_event;
  using Driver::on_woken;
  using Driver::out_;
  using Driver::serve_request;

  // ---- what Driver wants done ----

  Now now() const { return time; }
  int poll_completions() {
    const int count = static_cast<int>(arrived.size());
    for (; !arrived.empty(); arrived.pop_front()) core_.on_completion(time, arrived.front(), out_);
    return count;
  }
  void post_receives() {
    journal += "receives ";
    posted.insert(posted.end(), out_.receives.begin(), out_.receives.end());
    out_.receives.clear();
  }
  void post_work() {
    journal += "work ";
    work.insert(work.end(), out_.work.begin(), out_.work.end());
    out_.work.clear();
  }
  void arm(SrqArm) { journal += "arm "; }
  void listen() { journal += "listen "; }
  void advertise_rnr_timer(std::uint8_t) { journal += "rnr "; }
  void provide_slab() {
    const std::uint32_t count = std::exchange(out_.slab_buffers, 0);
    memory.push_back(
        std::make_unique<std::byte[]>(std::size_t{count} * core_.config().buffer_bytes));
    core_.on_slab(reinterpret_cast<std::uint64_t>(memory.back().get()), 3, count, out_);
  }
  void drop_slab() { journal += "drop_slab "; }
  void carry_out(const ConnectAction& action) {
    journal += "connect ";
    actions.push_back(action);
    if (action.kind == ConnectAction::Kind::drop) core_.on_dropped(now(), action.lane, out_);
    while (core_.lacks_control_slots()) core_.lend_control_slot(slot());
  }
  void hand_up(const Retired&) { journal += "retired "; }
  void hand_up(const Outage&) { journal += "outage "; }
  void hand_up(const LinkNews&) { journal += "link "; }
  void hand_up(const Failure&) { journal += "failure "; }
  void hand_up(const TransferEnd&) { journal += "transfer "; }
  void hand_up(PeerName) { journal += "wanted "; }
  void wake_thread() { ++wakes; }
  bool is_alive(ProcessId) const { return others_live; }
  void reap_node() { ++reaps; }

  // ---- the other side ----

  SendSlot* slot() {
    memory.push_back(std::make_unique<std::byte[]>(1024));
    SendSlot& made = slots.emplace_back();
    made.frame = memory.back().get();
    made.capacity_bytes = 1024;
    return &made;
  }

  void send(PeerId peer, std::uint32_t bytes = 8) {
    EXPECT_EQ(core_.send(time, peer, slot(), bytes, 0, true, out_), Status::ok);
    flush();
  }

  wire::Hello hello(std::uint64_t attempt) const {
    return {.from = other,
            .to = rig::self,
            .buffer_bytes = core_.config().buffer_bytes,
            .credits = 8,
            .control_credits = 2,
            .key = core_.config().key,
            .attempt = attempt};
  }

  LaneId accept() {
    core_.on_request(time, RequestId{1}, hello(1), out_);
    flush();
    const LaneId lane = actions.back().lane;
    core_.on_established(time, lane, out_);
    flush();
    journal.clear();
    return lane;
  }

  // The next frame of the peer is in the completion queue.
  void arrive(LaneId lane, wire::FrameHeader header = {}) {
    ASSERT_FALSE(posted.empty());
    const ReceivePost post = posted.front();
    posted.pop_front();
    header.sequence = sequence++;
    auto* const frame = reinterpret_cast<std::byte*>(post.address);
    std::uint32_t bytes = wire::frame_header_bytes;
    if (header.kind == FrameKind::messages) {
      wire::put(frame + bytes, wire::MessageHeader{8, 0});
      bytes += static_cast<std::uint32_t>(wire::message_bytes(8));
    }
    wire::put(frame, header);
    arrived.push_back(
        {Opcode::receive, CompletionStatus::success, bytes, lane, index(post.buffer)});
  }
  void complete(const WorkRequest& request) {
    arrived.push_back({Opcode::send, CompletionStatus::success, 0, request.lane, request.id});
  }

  // What was delivered is handled.
  void take_all() {
    for (const Delivery& delivery : out_.deliveries) note_released(delivery.buffer);
    out_.deliveries.clear();
  }

  std::vector<FrameKind> take_frames() {
    std::vector<FrameKind> kinds;
    for (const WorkRequest& request : std::exchange(work, {})) {
      const auto* const frame = reinterpret_cast<const std::byte*>(request.address);
      kinds.push_back(wire::get_frame_header(frame).kind);
    }
    return kinds;
  }

  Time time = start;
  std::string journal;
  std::deque<Completion> arrived;
  std::deque<ReceivePost> posted;
  std::vector<WorkRequest> work;
  std::vector<ConnectAction> actions;
  std::deque<SendSlot> slots;
  std::vector<std::unique_ptr<std::byte[]>> memory;
  std::uint32_t sequence = 0;
  int wakes = 0;
  int reaps = 0;
  bool others_live = true;
};

// The peer knows of the outage before this side does.
TEST(Drive, ARequestToResumeEndsTheConnectionThatIsStillThere) {
  Core::Config config = rig::small_config();
  config.resumes = true;
  Bench bench(config);
  const LaneId lane = bench.accept();
  bench.actions.clear();
  wire::Hello hello = bench.hello(2);
  hello.resumes = true;
  bench.add_request({RequestId{2}, hello});
  bench.serve_request();
  ASSERT_EQ(bench.actions.size(), 2u);
  EXPECT_EQ(bench.actions[0].kind, ConnectAction::Kind::drop);
  EXPECT_EQ(bench.actions[0].lane, lane);
  EXPECT_EQ(bench.actions[1].kind, ConnectAction::Kind::accept);
  EXPECT_EQ(bench.actions[1].request, RequestId{2});
  EXPECT_TRUE(bench.actions[1].hello.resumes);
}

// It waited for a place; then there was one, and the peer accepted our request before its own had
// its turn.
TEST(Drive, NobodyLooksForThePlaceOfARequestThatIsGone) {
  Core::Config config = rig::small_config();
  config.connections_max = 1;
  Bench bench(config);
  const LaneId lane = bench.accept();
  wire::Hello hello = bench.hello(1);
  hello.from = {1, 40};
  const PeerId peer = bench.core_.add_peer(hello.from, {.key = hello.key});
  bench.add_request({RequestId{2}, hello});
  bench.serve_request();
  ASSERT_TRUE(bench.has_requests());
  EXPECT_LT(bench.core_.next_deadline(), bench.time + milliseconds(100));
  bench.send(peer);
  bench.core_.on_disconnected(bench.time, lane, bench.out_);
  bench.flush();
  const ConnectAction asked = bench.actions.back();
  ASSERT_EQ(asked.kind, ConnectAction::Kind::connect);
  ASSERT_EQ(asked.peer, peer);
  hello.attempt = asked.hello.attempt;
  bench.on_answer(bench.time, asked.lane, hello);
  bench.flush();
  EXPECT_FALSE(bench.has_requests());
  for (int looks = 0; looks < 3; ++looks) {
    bench.time = std::max(bench.time, bench.core_.next_deadline());
    bench.attend(bench.time);
    EXPECT_GT(bench.core_.next_deadline(), bench.time + milliseconds(100));
  }
}

// Memory of a transfer is its owner's again only once the lane is gone.
TEST(Drive, NewsAreHandedUpAfterConnectionsWereCarriedOut) {
  Bench bench;
  bench.out_.report(TransferEnd{1, false});
  bench.out_.report(Failure{PeerId{0}, FailReason::vanished, CompletionStatus::success, {}, {}});
  bench.out_.want(other);
  bench.out_.retired.push_back({nullptr, true});
  bench.out_.act({.kind = ConnectAction::Kind::reject});
  bench.flush();
  EXPECT_EQ(bench.journal, "connect retired failure wanted transfer ");
  EXPECT_TRUE(bench.out_.empty());
}

// What a broken lane had of a server: its slots are used again once the lane is gone.
TEST(Drive, RelaysThatFailedAreOver) {
  Bench bench;
  SendSlot* const idle = bench.slot();
  bench.core_.lend_relay_slot(idle);
  SendSlot* const failed = bench.slot();
  failed->carrier = idle->carrier;
  bench.out_.fail_relay(failed);
  bench.flush();
  EXPECT_EQ(bench.core_.idle_relay_slots(), 2u);
}

// A burst costs one wake-up, not one for each frame.
TEST(Drive, WorkThatIsLeftWakesASleepingThreadOnce) {
  Bench bench;
  bench.note_work_left();
  EXPECT_EQ(bench.wakes, 0);
  EXPECT_EQ(bench.nap(start), seconds(1));
  bench.note_work_left();
  bench.note_work_left();
  EXPECT_EQ(bench.wakes, 1);
}

TEST(Drive, ADeadlineIsKeptByAThreadThatSleeps) {
  Bench bench;
  const PeerId peer = bench.core_.add_peer(other);
  bench.nap(start);
  bench.send(peer);
  EXPECT_EQ(bench.wakes, 1);
  ASSERT_EQ(bench.actions.size(), 1u);
  const Time deadline = bench.core_.next_deadline();
  EXPECT_LE(bench.nap(start), deadline - start);
  bench.time = deadline;
  bench.attend(bench.time);
  EXPECT_EQ(bench.core_.counters().connect_retries, 1u);
}

// A message is more urgent than what it costs.
TEST(Drive, HouseworkWaitsForALookThatFindsNothing) {
  Bench bench;
  const LaneId lane = bench.accept();
  for (int i = 0; i < 5; ++i) bench.arrive(lane);
  bench.look();
  EXPECT_TRUE(bench.work.empty());
  bench.look();
  EXPECT_EQ(bench.take_frames(), std::vector{FrameKind::credits});
  bench.look();
  EXPECT_TRUE(bench.work.empty());
}

TEST(Drive, BuffersGoBackOnce) {
  Bench bench;
  const LaneId lane = bench.accept();
  for (int i = 0; i < 40; ++i) {  // each is used more than once
    bench.arrive(lane, {.credits = 1});
    bench.look();
    EXPECT_EQ(bench.core_.counters().receives_held, 1u);
    bench.look();
    EXPECT_EQ(bench.core_.counters().receives_held, 1u);
    bench.take_all();
    bench.look();
    EXPECT_EQ(bench.core_.counters().receives_held, 0u);
    bench.send(bench.core_.peer_of(lane));  // it brings credits
    for (const WorkRequest& work : std::exchange(bench.work, {})) bench.complete(work);
  }
}

// One that is never idle gives them back, too, before there are too few.
TEST(Drive, ABusyReceiverPostsReceives) {
  Bench bench;
  const LaneId lane = bench.accept();
  const std::size_t slack = bench.core_.release_slack();
  for (std::size_t i = 0; i < 3 * slack + 3; ++i) {
    bench.arrive(lane);
    bench.look();
    bench.take_all();
    if (i % 4 == 3) bench.send(bench.core_.peer_of(lane));  // it brings credits
  }
  EXPECT_GT(bench.core_.counters().receives_posted + 2 * slack + 1, bench.core_.counters().window);
  EXPECT_NE(bench.journal.find("receives"), std::string::npos);
}

TEST(Drive, AnIdleApplicationIsNotTheBottleneck) {
  Bench bench;
  const LaneId lane = bench.accept();
  for (int i = 0; i < 8; ++i) bench.arrive(lane, {.starved = i == 7});
  bench.look();
  bench.take_all();
  EXPECT_EQ(bench.core_.counters().window, 16u);
  bench.look();
  EXPECT_EQ(bench.core_.counters().window, 32u);
}

// ---- the event thread ----

TEST(Drive, TheThreadStandsInForAnApplicationThatComputes) {
  Bench bench;
  const PeerId peer = bench.core_.peer_of(bench.accept());
  const auto send_three = [&] {  // the third one waits for the next round
    bench.work.clear();
    for (int i = 0; i < 3; ++i) bench.send(peer);
    EXPECT_EQ(bench.work.size(), 2u);
    EXPECT_EQ(bench.core_.pending_frames(), 1u);
  };
  bench.look();
  send_three();
  bench.attend(bench.time);  // the application was there
  EXPECT_EQ(bench.core_.pending_frames(), 1u);
  bench.attend(bench.time);
  EXPECT_EQ(bench.core_.pending_frames(), 0u);
  EXPECT_EQ(bench.core_.counters().late_flushes, 1u);
  send_three();
  bench.attend(bench.time);  // its own round was not the application's
  EXPECT_EQ(bench.core_.pending_frames(), 0u);
}

TEST(Drive, CreditsThatCameWhileTheApplicationComputesAreUsed) {
  Bench bench;
  const LaneId lane = bench.accept();
  const PeerId peer = bench.core_.peer_of(lane);
  for (int i = 0; i < 9; ++i) bench.send(peer, 600);
  bench.flush_held();
  ASSERT_EQ(bench.core_.pending_frames(), 1u);
  bench.attend(bench.time);
  EXPECT_EQ(bench.core_.pending_frames(), 1u);
  bench.arrive(lane, {.kind = FrameKind::credits, .credits = 4});
  bench.attend(bench.time);
  EXPECT_EQ(bench.core_.pending_frames(), 0u);
}

// Nobody polls while the application computes: what is in the completion queue counts.
TEST(Drive, ComputingIsNoSilence) {
  Core::Config config = rig::small_config();
  config.peer_timeout = milliseconds(800);
  for (const bool answered : {true, false}) {
    Bench bench(config);
    const LaneId lane = bench.accept();
    for (int i = 0; i < 4; ++i) bench.send(bench.core_.peer_of(lane), 600);
    bench.flush_held();
    ASSERT_TRUE(bench.work.back().signalled);
    while (bench.time < start + milliseconds(760)) {
      bench.time = bench.time + milliseconds(50);
      if (answered && bench.time == start + milliseconds(700)) bench.complete(bench.work.back());
      bench.attend(bench.time);
    }
    EXPECT_EQ(bench.core_.counters().peer_failures, answered ? 0u : 1u);
  }
}

// So does a goodbye that arrived before the peer was seen to be gone.
TEST(Drive, AGoodbyeIsSeenBeforeTheDisconnect) {
  Bench bench;
  const LaneId lane = bench.accept();
  bench.arrive(lane, {.kind = FrameKind::goodbye});
  bench.on_connection_event(
      [&](const Now& now) { bench.core_.on_disconnected(now, lane, bench.out_); });
  EXPECT_EQ(bench.core_.counters().peer_failures, 0u);
  EXPECT_EQ(bench.core_.state(bench.core_.peer_of(lane)), PeerState::closed);
}

// How far the limit is passed is what the completion queue says, too.
TEST(Drive, ALimitEventGrowsTheWindow) {
  Bench bench;
  const LaneId lane = bench.accept();
  for (int i = 0; i < 8; ++i) bench.arrive(lane);
  bench.look();
  bench.send(bench.core_.peer_of(lane));  // it brings credits
  for (int i = 0; i < 4; ++i) bench.arrive(lane);
  ASSERT_EQ(bench.core_.counters().window, 16u);
  bench.time = start + milliseconds(3);
  bench.on_limit_event(start);
  EXPECT_EQ(bench.core_.counters().window, 32u);
}

// More credits are granted than there are buffers, so the peer may be turned back.
TEST(Drive, TheTimeWithoutReceivesEndsWhenSomeArePosted) {
  Core::Config config = rig::small_config();
  config.window = {.initial = 2, .max = 2};
  Bench bench(config);
  const LaneId lane = bench.accept();
  for (int i = 0; i < 2; ++i) bench.arrive(lane);
  bench.look();
  ASSERT_EQ(bench.core_.counters().receives_posted, 0u);
  bench.time = start + milliseconds(3);
  for (const Delivery& delivery : std::exchange(bench.out_.deliveries, {})) {
    bench.note_released(delivery.buffer);
  }
  bench.look();
  ASSERT_EQ(bench.core_.counters().receives_posted, 2u);
  EXPECT_EQ(bench.core_.counters().repost_ns_peak, static_cast<std::uint64_t>(milliseconds(3).ns));
}

TEST(Drive, ALostLimitEventIsLookedForOnceASecond) {
  Bench bench;
  const LaneId lane = bench.accept();
  for (int i = 0; i < 8; ++i) bench.arrive(lane);
  bench.look();
  bench.send(bench.core_.peer_of(lane));
  for (int i = 0; i < 4; ++i) bench.arrive(lane);
  bench.look();
  bench.time = start + seconds(1);
  bench.attend(bench.time);
  EXPECT_EQ(bench.core_.counters().window, 32u);
  EXPECT_EQ(bench.core_.counters().srq_limit_self_raised, 1u);
}

// ---- the node ----

TEST(Drive, WhoWaitsForTheNodeIsLookedAfter) {
  Core::Config config = rig::small_config();
  config.admission.policy = Admission::Policy::always;
  for (unsigned size = 0; size < size_classes; ++size) {
    config.admission.rate.set_delay(size, microseconds(10));
  }
  for (const bool computes : {false, true}) {
    Bench bench(config);
    const PeerId peer = bench.core_.peer_of(bench.accept());
    bench.send(peer, 200);
    bench.send(peer, 200);
    ASSERT_EQ(bench.work.size(), 1u);
    bench.time = start + microseconds(10);
    computes ? bench.attend(bench.time) : bench.look();
    EXPECT_EQ(bench.work.size(), 2u);
  }
}

// A read of the node's budget is outstanding. Its end must be seen before others of the node take
// this process for one that stands still: whether the application was there for long, or just came
// back.
TEST(Drive, WhoHasReadsOfTheNodeIsLookedAfterOften) {
  for (const bool pauses : {false, true}) {
    Bench bench;
    PoolHead<SharedWord> head{};
    std::array<PoolSlot<SharedWord>, 2> slots{};
    PoolMember::Pool reads(head, slots, PoolMember::most_tokens);
    ASSERT_TRUE(reads.join({1, 1}, [](ProcessId) { return true; }));
    bench.core_.join_node(nullptr, &reads);
    const PeerId peer = bench.core_.peer_of(bench.accept());
    const auto read = [&] {
      bench.core_.transfer(bench.time, {.peer = peer, .local_address = 4096, .length_bytes = 8},
                           bench.out_);
      bench.flush();
      bench.call_thread();
    };
    const auto tick = [&](bool computes) {
      if (!computes) bench.look();
      const Duration nap = bench.nap(bench.time);
      bench.time = bench.time + nap;
      bench.attend(bench.time);
      return nap;
    };
    if (pauses) {
      bench.on_woken();
      // Some wait for credits, which keeps the thread awake.
      for (int i = 0; i < 12; ++i) bench.send(peer, 200);
      for (int i = 0; i < 6; ++i) tick(true);
      ASSERT_EQ(bench.nap(bench.time), milliseconds(16));
    }
    read();
    EXPECT_EQ(bench.wakes, pauses ? 1 : 0);
    if (pauses) bench.on_woken();
    for (int i = 0; i < 200; ++i) ASSERT_LE(tick(false), milliseconds(4)) << i;
  }
}

// That costs system calls, so it is done when the wait is long, and not with every look.
TEST(Drive, TheDeadAreLookedForWhenTheWaitIsLong) {
  Core::Config config = rig::small_config();
  config.admission.policy = Admission::Policy::always;
  for (unsigned size = 0; size < size_classes; ++size) {
    config.admission.rate.set_delay(size, seconds(1));
  }
  Bench bench(config);
  const PeerId peer = bench.core_.peer_of(bench.accept());
  bench.send(peer, 200);
  bench.send(peer, 200);
  for (const auto& [ms, reaps] : {std::pair{0, 0}, {49, 0}, {50, 1}, {60, 1}, {100, 2}}) {
    bench.time = start + milliseconds(ms);
    bench.attend(bench.time);
    EXPECT_EQ(bench.reaps, reaps) << ms;
  }
}

// The memory of a proxy, and a process of the node that serves.
struct Server {
  Server() {
    for (std::uint32_t i = 0; i < 2; ++i) slots[i].lease.store(lease::taken(0, id(i)));
    proxy.join(ground(), 1, id(1));
    EXPECT_TRUE(proxy.try_serve());
  }
  static ProcessId id(std::uint32_t slot) { return {slot + 1, 1}; }
  ProxyGround ground() { return {tokens, slots, queues, cells.data(), 1024, 2}; }

  std::vector<SharedWord> tokens = std::vector<SharedWord>(1);
  std::array<PoolSlot<SharedWord>, 2> slots{};
  std::vector<ProxyQueue> queues = std::vector<ProxyQueue>(2);
  std::vector<std::byte> cells = std::vector<std::byte>(2 * proxy_depth * 1024);
  Proxy proxy;
};

TEST(Drive, WhatAServerSentIsOver) {
  Core::Config config = rig::small_config();
  config.proxy = true;
  for (const bool computes : {false, true}) {
    Bench bench(config);
    Server server;
    const PeerId peer = bench.core_.add_peer(other, {.key = {9, 9, 9}});
    bench.core_.join_proxy(server.ground(), 0, Server::id(0));
    bench.accept();
    bench.send(peer);
    bench.attend(bench.time);  // it looks for dead servers, and not again soon
    Proxy::Work work;
    ASSERT_TRUE(server.proxy.take(0, work));
    server.proxy.complete(0, work.at, Proxy::sent);
    ASSERT_EQ(bench.core_.pending_frames(), 1u);
    computes ? bench.attend(bench.time) : bench.look();
    EXPECT_EQ(bench.core_.pending_frames(), 0u);
  }
}

TEST(Drive, WhatADeadServerHadIsRepeatedAtOnce) {
  Core::Config config = rig::small_config();
  config.proxy = true;
  Bench bench(config);
  Server server;
  const PeerId peer = bench.core_.add_peer(other, {.key = {9, 9, 9}});
  bench.core_.join_proxy(server.ground(), 0, Server::id(0));
  bench.accept();
  bench.send(peer);
  Proxy::Work work;
  ASSERT_TRUE(server.proxy.take(0, work));
  bench.others_live = false;
  bench.attend(bench.time);
  EXPECT_EQ(bench.take_frames(), std::vector{FrameKind::repeated});
}

}  // namespace
}  // namespace weir
