// The node's proxy in the core: frames that go by a server, are repeated when it fails, and arrive
// once and in order.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "tests/unit/core/rig.h"

namespace weir::rig {
namespace {

constexpr std::uint32_t cell_bytes = 1024;
constexpr std::uint32_t tasks = 4;
constexpr std::uint32_t cells_lkey = 77;

// The memory of a node, and another process there, whose part the test plays.
struct Node {
  explicit Node(std::uint32_t servers) : tokens(servers), cells(tasks * proxy_depth * cell_bytes) {
    for (std::uint32_t i = 0; i < tasks; ++i) slots[i].lease.store(lease::taken(0, id(i)));
    for (std::uint32_t i = 0; i < tasks; ++i) process[i].join(ground(), i, id(i));
  }
  static ProcessId id(std::uint32_t slot) { return {slot + 1, 1}; }
  ProxyGround ground() { return {tokens, slots, queues, cells.data(), cell_bytes, tasks}; }

  std::vector<SharedWord> tokens;
  std::array<PoolSlot<SharedWord>, tasks> slots{};
  std::vector<ProxyQueue> queues{tasks};
  std::vector<std::byte> cells;
  std::array<Proxy, tasks> process;  // 0 is the core's own: not used
};

Core::Config with_proxy() {
  Core::Config config = small_config();
  config.proxy = true;
  config.burst_frames = 100;  // nothing is bundled
  return config;
}

struct ProxyRig : Rig {
  explicit ProxyRig() : Rig(with_proxy()), node(1) {
    core.join_proxy(node.ground(), 0, Node::id(0), cells_lkey);
    for (int i = 0; i < 4; ++i) core.lend_relay_slot(slot());
    peer = core.add_peer(rig::other, {.key = {9, 9, 9}});
    lane = connect(peer, 8);
    for (const WorkRequest& work : take_work()) complete(work);
    give_up_token();
    take_retired();
  }
  // The frame that connected went by the own lane, with this process as the server.
  void give_up_token() {
    look(false);
    EXPECT_FALSE(core.proxy_standing().serves);
  }
  void look(bool present = true) {
    core.look_at_proxy(now, present, out);
    settle();
  }
  // What the server takes of this process's queue.
  std::vector<Proxy::Work> take(Proxy& server) {
    std::vector<Proxy::Work> all;
    Proxy::Work work;
    while (server.take(0, work)) all.push_back(work);
    return all;
  }
  // It serves, and has taken the first of two frames that it got.
  void give_two(Proxy& server, Proxy::Work& first) {
    ASSERT_TRUE(server.try_serve());
    send(peer);
    send(peer);
    ASSERT_TRUE(server.take(0, first));
  }
  // Whoever is waited for was looked for, and this one is dead.
  void find_dead(ProcessId dead) {
    const auto waited_for = core.servers_waited_for();
    EXPECT_NE(std::find(waited_for.begin(), waited_for.end(), dead), waited_for.end());
    core.on_process_dead(dead);
    look();
  }
  // What a work request sends is in a task's cell.
  bool from_cell(const WorkRequest& work) const {
    const auto* const at = reinterpret_cast<const std::byte*>(work.address);
    const bool inside = at >= node.cells.data() && at < node.cells.data() + node.cells.size();
    EXPECT_EQ(work.lkey == cells_lkey, inside);
    return inside;
  }
  // It becomes the server, and sends a frame of task 1.
  WorkRequest serve_one() {
    send(peer);
    complete(take_work().at(0));
    ask(1, other, 0);
    look();
    return take_work().at(0);
  }
  Retirement outcome_of(std::uint32_t task, std::uint64_t& outcome) const {
    return node.process[task].oldest(outcome, [](ProcessId) { return true; });
  }
  // Another task wants this to be sent.
  void ask(std::uint32_t task, PeerName to, std::uint32_t sequence, std::uint64_t key = 0x090909) {
    std::array<std::byte, 16> message{};
    wire::put(message.data(), wire::MessageHeader{8, 3});
    wire::put_relay_sequence(message.data(), sequence);
    ASSERT_TRUE(node.process[task].submit(to, key, 20 + task, message.data(), message.size()));
  }

  Node node;
  PeerId peer;
  LaneId lane;
};

// Beyond it lies another frame, perhaps of another process.
TEST(CoreRelay, AFrameLargerThanItsCellIsNotTaken) {
  Node node(1);
  const std::vector<std::byte> bytes(cell_bytes, std::byte{7});
  Proxy& task = node.process[1];
  EXPECT_FALSE(task.submit(other, 0, 0, bytes.data(), cell_bytes - proxy_headroom + 1));
  EXPECT_EQ(std::count(node.cells.begin(), node.cells.end(), std::byte{7}), 0);
  EXPECT_TRUE(task.submit(other, 0, 0, bytes.data(), cell_bytes - proxy_headroom));
  EXPECT_EQ(std::count(node.cells.begin(), node.cells.end(), std::byte{7}),
            cell_bytes - proxy_headroom);
}

TEST(CoreRelay, WithoutAnotherServerAFrameGoesAtOnce) {
  ProxyRig rig;
  EXPECT_EQ(rig.send(rig.peer), Status::ok);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).kind, wire::FrameKind::messages);
  EXPECT_TRUE(rig.core.proxy_standing().serves);
  EXPECT_EQ(rig.core.counters().proxy_submitted, 0u);
}

TEST(CoreRelay, AFrameGoesByTheServerAndItsSlotComesBackWhenItArrived) {
  ProxyRig rig;
  Proxy& server = rig.node.process[1];
  ASSERT_TRUE(server.try_serve());
  EXPECT_EQ(rig.send(rig.peer, 8, false, true), Status::ok);
  EXPECT_TRUE(rig.take_work().empty());
  EXPECT_EQ(rig.core.pending_frames(), 1u);
  EXPECT_TRUE(rig.core.needs_attendance());
  const auto taken = rig.take(server);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].to, other);
  EXPECT_EQ(taken[0].rank, self.rank);
  EXPECT_EQ(taken[0].length_bytes, 16u);
  EXPECT_TRUE(wire::check_messages(taken[0].bytes, 16, true));
  EXPECT_EQ(wire::get_relay_sequence(taken[0].bytes), 0u);
  rig.look();
  EXPECT_TRUE(rig.take_retired().empty());
  server.complete(0, taken[0].at, Proxy::sent);
  rig.look();
  const auto retired = rig.take_retired();
  ASSERT_EQ(retired.size(), 1u);
  EXPECT_TRUE(retired[0].delivered);
  EXPECT_EQ(rig.core.pending_frames(), 0u);
}

TEST(CoreRelay, WhatIsOnTheOwnLaneIsNotOvertaken) {
  ProxyRig rig;
  rig.send(rig.peer);  // as the server
  const auto first = rig.take_work();
  ASSERT_EQ(first.size(), 1u);
  rig.give_up_token();
  ASSERT_TRUE(rig.node.process[1].try_serve());
  rig.send(rig.peer);
  EXPECT_EQ(rig.take_work().size(), 1u);  // behind the first
  EXPECT_EQ(rig.core.counters().proxy_submitted, 0u);
}

TEST(CoreRelay, WhatIsWithAServerIsNotOvertaken) {
  ProxyRig rig;
  Proxy& server = rig.node.process[1];
  ASSERT_TRUE(server.try_serve());
  rig.send(rig.peer);
  const auto taken = rig.take(server);
  server.complete(0, taken.at(0).at, Proxy::sent);
  server.give();  // and this process has not seen the outcome yet
  rig.send(rig.peer);
  EXPECT_TRUE(rig.take_work().empty());
  EXPECT_EQ(rig.core.counters().proxy_submitted, 2u);
  rig.look();  // nobody serves: so it does
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).kind, wire::FrameKind::relayed);
}

TEST(CoreRelay, WhatAServerHasNoRoomForWaits) {
  ProxyRig rig;
  Proxy& server = rig.node.process[1];
  ASSERT_TRUE(server.try_serve());
  for (std::uint32_t i = 0; i <= proxy_depth; ++i) rig.send(rig.peer, 8, true);
  EXPECT_TRUE(rig.take_work().empty());
  EXPECT_EQ(rig.core.pending_frames(), proxy_depth + 1);
  Proxy::Work work;
  ASSERT_TRUE(server.take(0, work));
  server.complete(0, work.at, Proxy::sent);
  rig.look();
  EXPECT_TRUE(rig.take_work().empty());
  EXPECT_EQ(rig.core.counters().proxy_submitted, proxy_depth + 1);
}

TEST(CoreRelay, WhatIsSentBackIsRepeatedInOrder) {
  ProxyRig rig;
  Proxy& server = rig.node.process[1];
  ASSERT_TRUE(server.try_serve());
  for (int i = 0; i < 3; ++i) rig.send(rig.peer);
  Proxy::Work work;
  ASSERT_TRUE(server.take(0, work));
  server.complete(0, work.at, Proxy::refused);
  EXPECT_FALSE(server.take(0, work));  // in doubt: nothing that comes after may go
  rig.look();
  const auto repeated = rig.take_work();
  ASSERT_EQ(repeated.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rig.header_of(repeated[i]).kind, wire::FrameKind::repeated);
    EXPECT_EQ(wire::get_relay_sequence(reinterpret_cast<const std::byte*>(repeated[i].address + 8)),
              i);
  }
  // What the server finds now is nothing to be sent.
  const auto rest = rig.take(server);
  ASSERT_EQ(rest.size(), 2u);
  for (const Proxy::Work& one : rest) {
    EXPECT_TRUE(one.is_void);
    server.complete(0, one.at, Proxy::sent);
  }
  rig.send(rig.peer);  // not by the server, which has some of it still
  EXPECT_EQ(rig.header_of(rig.take_work().at(0)).kind, wire::FrameKind::messages);
  rig.look();
  EXPECT_EQ(rig.core.proxy_standing().given, 0u);
  EXPECT_EQ(rig.core.counters().proxy_repeated, 3u);
}

TEST(CoreRelay, AServerThatDoesNotMoveIsNotWaitedFor) {
  ProxyRig rig;
  Proxy& server = rig.node.process[1];
  Proxy::Work work;
  rig.give_two(server, work);
  ASSERT_TRUE(server.serving());
  rig.look();
  EXPECT_TRUE(rig.take_work().empty());
  rig.now = rig.now + rig.core.config().server_silence;
  rig.look();
  EXPECT_EQ(rig.take_work().size(), 2u);
  rig.send(rig.peer);
  EXPECT_EQ(rig.take_work().size(), 1u);
  EXPECT_TRUE(rig.core.proxy_standing().jammed);
  // It goes on: it may send what it had in hand, once more.
  server.complete(0, work.at, Proxy::sent);
  for (const Proxy::Work& one : rig.take(server)) server.complete(0, one.at, Proxy::sent);
  rig.look();
  EXPECT_FALSE(rig.core.proxy_standing().jammed);
  EXPECT_EQ(rig.core.counters().proxy_stuck, 1u);
}

TEST(CoreRelay, WhoDoesNotMoveGetsNothingForOthersEither) {
  ProxyRig rig;
  const PeerId second = rig.core.add_peer(lesser, {.key = {9, 9, 9}});
  rig.connect(second, 8);
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  rig.give_up_token();
  Proxy& server = rig.node.process[1];
  Proxy::Work work;
  rig.give_two(server, work);
  rig.now = rig.now + rig.core.config().server_silence;
  rig.look();
  EXPECT_EQ(rig.take_work().size(), 2u);
  rig.send(second);
  EXPECT_EQ(rig.take_work().size(), 1u);
}

TEST(CoreRelay, ADeadServersFramesAreRepeatedAndItsTokenIsFree) {
  ProxyRig rig;
  Proxy& server = rig.node.process[1];
  Proxy::Work work;
  rig.give_two(server, work);
  ASSERT_TRUE(server.serving());
  rig.find_dead(Node::id(1));
  const auto repeated = rig.take_work();
  ASSERT_EQ(repeated.size(), 2u);
  for (int i = 0; i < 3; ++i) rig.look();  // it serves itself: what is left is void
  EXPECT_EQ(rig.core.proxy_standing().given, 0u);
  EXPECT_TRUE(rig.take_work().empty());
  EXPECT_TRUE(rig.node.process[2].try_serve() || rig.core.proxy_standing().serves);
}

// What it was about to send it may still send: so its cells are not written again before it has
// said what became of them.
TEST(CoreRelay, ACellIsNotUsedAgainBeforeItsServerIsDoneWithIt) {
  ProxyRig rig;
  Proxy& server = rig.node.process[1];
  Proxy::Work work;
  rig.give_two(server, work);
  const std::vector<std::byte> before(work.bytes, work.bytes + work.length_bytes);
  const std::uint32_t free = rig.core.free_cells();
  EXPECT_EQ(std::popcount(free), static_cast<int>(proxy_depth) - 2);
  rig.now = rig.now + rig.core.config().server_silence;
  rig.look();  // it stands still: both are repeated
  EXPECT_EQ(rig.take_work().size(), 2u);
  for (std::uint32_t i = 0; i < 2 * proxy_depth; ++i) rig.send(rig.peer);
  rig.look();
  EXPECT_EQ(rig.core.free_cells(), free);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), work.bytes));
  server.complete(0, work.at, Proxy::sent);
  rig.look();
  EXPECT_EQ(std::popcount(rig.core.free_cells()), static_cast<int>(proxy_depth) - 1);
}

TEST(CoreRelay, ADeadServersCellIsNeverUsedAgain) {
  ProxyRig rig;
  Proxy::Work work;
  rig.give_two(rig.node.process[1], work);
  const std::uint32_t free = rig.core.free_cells();
  rig.find_dead(Node::id(1));
  for (int i = 0; i < 3; ++i) rig.look();
  EXPECT_EQ(rig.core.proxy_standing().given, 0u);
  EXPECT_EQ(std::popcount(rig.core.free_cells()), std::popcount(free) + 1);  // the other one's
}

TEST(CoreRelay, APeersFailureEndsWhatServersHaveForIt) {
  ProxyRig rig;
  Proxy& server = rig.node.process[1];
  ASSERT_TRUE(server.try_serve());
  rig.send(rig.peer, 8, false, true);
  rig.core.on_lane_error(rig.now, rig.lane, rig.out);
  rig.settle();
  const auto retired = rig.take_retired();
  ASSERT_EQ(retired.size(), 1u);
  EXPECT_FALSE(retired[0].delivered);
  for (const Proxy::Work& one : rig.take(server)) server.complete(0, one.at, Proxy::sent);
  rig.look();
  EXPECT_TRUE(rig.take_retired().empty());
  EXPECT_EQ(rig.core.pending_frames(), 0u);
}

// The numbers of what servers still had are used up, and the peer may have seen them or not.
TEST(CoreRelay, APeerThatCameBackGetsNothingByServers) {
  ProxyRig rig;
  Proxy& server = rig.node.process[1];
  ASSERT_TRUE(server.try_serve());
  rig.send(rig.peer);
  EXPECT_EQ(rig.take(server).size(), 1u);
  rig.arrive(rig.lane, {.kind = wire::FrameKind::goodbye});
  rig.core.on_disconnected(rig.now, rig.lane, rig.out);
  rig.take_connects();
  ASSERT_EQ(rig.core.state(rig.peer), PeerState::closed);
  rig.connect(rig.peer);
  EXPECT_EQ(rig.take_work().size(), 1u);
}

// The first may be sent back. Sent nevertheless, the second would come out of turn, and its
// receiver would take that for the server's mistake.
TEST(CoreRelay, WhatNoServerHasBegunForAPeerGivenUpIsNotSent) {
  ProxyRig rig;
  Proxy& server = rig.node.process[1];
  Proxy::Work first;
  rig.give_two(server, first);
  rig.core.on_lane_error(rig.now, rig.lane, rig.out);
  rig.settle();
  server.complete(0, first.at, Proxy::refused);
  rig.look();
  const auto rest = rig.take(server);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_TRUE(rest[0].is_void);
}

TEST(CoreRelay, AServerPutsFramesOfSeveralTasksIntoOneSend) {
  ProxyRig rig;
  rig.send(rig.peer);  // makes it the server
  rig.complete(rig.take_work().at(0));
  rig.ask(1, other, 5);
  rig.ask(2, other, 0);
  rig.ask(2, other, 1);
  rig.look();
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  const auto* const frame = reinterpret_cast<const std::byte*>(work[0].address);
  ASSERT_TRUE(wire::check_frame(frame, work[0].length_bytes));
  std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
  wire::for_each_section(frame, work[0].length_bytes,
                         [&](std::uint32_t rank, const std::byte* messages, std::size_t) {
                           found.emplace_back(rank, wire::get_relay_sequence(messages));
                         });
  EXPECT_EQ(found,
            (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{21, 5}, {22, 0}, {22, 1}}));
  rig.look(false);
  EXPECT_TRUE(rig.core.proxy_standing().serves);  // until what it took has arrived
  rig.complete(work[0]);
  std::uint64_t outcome = 0;
  EXPECT_EQ(rig.node.process[1].oldest(outcome, [](ProcessId) { return true; }), Retirement::done);
  EXPECT_EQ(outcome, Proxy::sent);
  rig.look(false);
  EXPECT_FALSE(rig.core.proxy_standing().serves);
  EXPECT_EQ(rig.core.counters().proxy_coalesced, 2u);
}

TEST(CoreRelay, AFrameThatGoesAloneIsSentFromItsCell) {
  ProxyRig rig;
  const WorkRequest alone = rig.serve_one();
  EXPECT_TRUE(rig.from_cell(alone));
  const auto* const frame = reinterpret_cast<const std::byte*>(alone.address);
  EXPECT_TRUE(wire::check_frame(frame, alone.length_bytes));
  EXPECT_EQ(rig.header_of(alone).kind, wire::FrameKind::relayed);
  rig.complete(alone);
  EXPECT_EQ(rig.core.counters().proxy_sent_in_place, 1u);
  // With others it is copied, in the slot's own memory as before.
  rig.ask(1, other, 1);
  rig.ask(2, other, 0);
  rig.look();
  EXPECT_FALSE(rig.from_cell(rig.take_work().at(0)));
  EXPECT_EQ(rig.core.counters().proxy_sent_in_place, 1u);
  EXPECT_EQ(rig.core.counters().proxy_sends, 2u);
}

TEST(CoreRelay, WithoutRegisteredCellsAFrameIsCopied) {
  ProxyRig rig;
  rig.core.join_proxy(rig.node.ground(), 0, Node::id(0));
  const WorkRequest copied = rig.serve_one();
  const auto* const frame = reinterpret_cast<const std::byte*>(copied.address);
  EXPECT_FALSE(rig.from_cell(copied));
  EXPECT_TRUE(wire::check_frame(frame, copied.length_bytes));
}

TEST(CoreRelay, AFailedFramesTaskHearsOfItWhenTheLaneIsGone) {
  ProxyRig rig;
  const WorkRequest sent = rig.serve_one();
  ASSERT_TRUE(rig.from_cell(sent));
  rig.core.on_lane_error(rig.now, rig.lane, rig.out);
  std::uint64_t outcome = 0;
  EXPECT_EQ(rig.outcome_of(1, outcome), Retirement::pending);  // the adapter may still repeat it
  EXPECT_EQ(rig.core.proxy_standing().in_hand, 1u);
  ASSERT_EQ(rig.out.relays_failed.size(), 1u);
  rig.core.on_relay_failed(rig.out.relays_failed[0]);
  EXPECT_EQ(rig.outcome_of(1, outcome), Retirement::done);
  EXPECT_EQ(outcome, Proxy::refused);
  EXPECT_EQ(rig.core.proxy_standing().in_hand, 0u);
}

TEST(CoreRelay, AServerSendsBackWhatItCannotSend) {
  ProxyRig rig;
  const PeerId third = rig.core.add_peer({1, 30}, {.key = {7, 7, 7}});
  rig.send(rig.peer);  // makes it the server
  rig.take_work();
  rig.ask(1, {1, 77}, 0);  // nobody it knows
  rig.ask(1, self, 0);     // itself
  rig.look();
  EXPECT_EQ(rig.out.wanted.size(), 1u);
  rig.ask(2, {1, 30}, 0, 0x070707);  // not connected: it will be
  rig.ask(3, other, 0, 0x1234);      // another process of that name
  rig.look();
  EXPECT_TRUE(rig.take_work().empty());
  EXPECT_EQ(rig.core.state(third), PeerState::connecting);
  EXPECT_EQ(rig.core.proxy_standing().in_hand, 0u);
  for (const std::uint32_t task : {1u, 2u, 3u}) {
    std::uint64_t outcome = 0;
    EXPECT_EQ(rig.node.process[task].oldest(outcome, [](ProcessId) { return true; }),
              Retirement::done);
    EXPECT_EQ(outcome, Proxy::refused);
  }
  EXPECT_EQ(rig.core.counters().proxy_refused, 3u);  // task 1's second one has to wait
}

// Whoever writes the node's memory may have gone wrong.
TEST(CoreRelay, AServerBelievesNoTask) {
  for (const std::uint64_t bytes : {15u, 17u, 1009u, 4000u}) {
    ProxyRig rig;
    rig.send(rig.peer);  // makes it the server
    rig.complete(rig.take_work().at(0));
    rig.ask(1, other, 0);
    rig.node.queues[1].ring[0].request[2].store(std::uint64_t{21} << 32 | bytes);
    // Messages that would be well if they were not too long.
    std::byte* const messages = rig.node.cells.data() + proxy_depth * cell_bytes + proxy_headroom;
    if (bytes > 1000) {
      wire::put(messages, wire::MessageHeader{static_cast<std::uint32_t>(bytes) - 8, 3});
    }
    rig.look();
    EXPECT_TRUE(rig.take_work().empty()) << bytes;
    EXPECT_EQ(rig.core.counters().proxy_refused, 1u) << bytes;
  }
}

TEST(CoreRelay, AServersSlotsAreUsedAgain) {
  ProxyRig rig;
  rig.send(rig.peer);
  rig.complete(rig.take_work().at(0));
  for (std::uint32_t i = 0; i < 6; ++i) {  // it has four
    rig.ask(1, other, i);
    rig.look();
    const auto work = rig.take_work();
    ASSERT_EQ(work.size(), 1u) << i;
    rig.complete(work[0]);
    rig.arrive(rig.lane, {.kind = wire::FrameKind::messages, .credits = 1});
    rig.core.release(rig.take_deliveries().at(0).buffer);
    rig.pump();
    for (const WorkRequest& credits : rig.take_work()) rig.complete(credits);
  }
  EXPECT_EQ(rig.core.idle_relay_slots(), 4u);
}

// So that one slow receiver does not take all that the server has.
TEST(CoreRelay, AServerSendsBackWhatIsForASlowReceiver) {
  ProxyRig rig;
  while (rig.core.standing(rig.peer).credits > 0) {
    rig.send(rig.peer, 600, true);
    for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  }
  for (int i = 0; i < 3; ++i) rig.send(rig.peer, 600, true);
  rig.ask(1, other, 0);
  rig.look();
  EXPECT_EQ(rig.core.counters().proxy_refused, 0u);
  rig.ask(2, other, 0);
  rig.look();
  EXPECT_EQ(rig.core.counters().proxy_refused, 1u);
}

// ---- the receiver ----

struct Receiver : Rig {
  Receiver() {
    relay = accept(other);
    origin_lane = accept(lesser);
    take_deliveries();
  }
  void relayed(LaneId lane, std::uint32_t rank, std::vector<std::uint32_t> numbers) {
    std::vector<std::byte> frame(wire::frame_header_bytes);
    for (const std::uint32_t number : numbers) {
      const std::size_t start = frame.size();
      frame.resize(start + wire::section_header_bytes + wire::message_bytes(8));
      wire::put(&frame[start], wire::SectionHeader{rank, 16});
      wire::put(&frame[start + 8], wire::MessageHeader{8, static_cast<std::uint8_t>(number)});
      wire::put_relay_sequence(&frame[start + 8], number);
    }
    wire::put(frame.data(),
              wire::FrameHeader{.kind = wire::FrameKind::relayed,
                                .sequence = lane == relay ? relay_sequence++ : origin_sequence++});
    arrive_bytes(lane, frame);
  }
  void repeated(std::uint32_t number) {
    std::vector<std::byte> frame(wire::frame_header_bytes + 16);
    wire::put(frame.data(),
              wire::FrameHeader{.kind = wire::FrameKind::repeated, .sequence = origin_sequence++});
    wire::put(&frame[8], wire::MessageHeader{8, static_cast<std::uint8_t>(number)});
    wire::put_relay_sequence(&frame[8], number);
    arrive_bytes(origin_lane, frame);
  }
  LaneId relay;
  LaneId origin_lane;
  std::uint32_t relay_sequence = 0;
  std::uint32_t origin_sequence = 0;
};

TEST(CoreRelay, WhatARelaySendsIsItsOrigins) {
  Receiver rig;
  rig.relayed(rig.relay, lesser.rank, {0, 1});
  const auto deliveries = rig.take_deliveries();
  ASSERT_EQ(deliveries.size(), 2u);
  for (const Delivery& delivery : deliveries) EXPECT_EQ(rig.core.name(delivery.peer), lesser);
  EXPECT_FALSE(deliveries[0].last);
  EXPECT_TRUE(deliveries[1].last);
  EXPECT_TRUE(rig.take_failures().empty());
}

TEST(CoreRelay, WhatComesTwiceIsDroppedAndItsBufferGivenBack) {
  Receiver rig;
  rig.relayed(rig.relay, lesser.rank, {0, 1});
  rig.take_deliveries();
  const std::uint64_t held = rig.core.counters().receives_held;
  rig.repeated(0);
  rig.repeated(1);
  EXPECT_TRUE(rig.take_deliveries().empty());
  EXPECT_EQ(rig.core.counters().receives_held, held);
  rig.pump();  // credits for the next one
  rig.repeated(2);
  EXPECT_EQ(rig.take_deliveries().size(), 1u);
  rig.relayed(rig.relay, lesser.rank, {1, 2, 3});  // it had stood still
  EXPECT_EQ(rig.take_deliveries().size(), 1u);
  EXPECT_EQ(rig.core.counters().proxy_duplicates, 4u);
  EXPECT_TRUE(rig.core.conserved());
}

TEST(CoreRelay, ARelayThatLiesIsGivenUp) {
  const auto refused = [](std::uint32_t rank, std::vector<std::uint32_t> numbers) {
    Receiver rig;
    rig.relayed(rig.relay, rank, std::move(numbers));
    const auto failures = rig.take_failures();
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(rig.core.name(failures[0].peer), other);
    EXPECT_EQ(failures[0].reason, FailReason::bad_frame);
    EXPECT_EQ(failures[0].frame.fault, FrameFault::relayed);
    EXPECT_EQ(rig.core.state(rig.core.peer_of(rig.origin_lane)), PeerState::ready);
    for (const Delivery& delivery : rig.take_deliveries()) {
      if (delivery.last) rig.core.release(delivery.buffer);
    }
    EXPECT_TRUE(rig.core.conserved());
  };
  refused(1234, {0});         // for nobody we know
  refused(self.rank, {0});    // for ourselves
  refused(lesser.rank, {1});  // one is missing
  refused(lesser.rank, {0, 2});
}

TEST(CoreRelay, NobodyRelaysForOurselves) {
  Receiver rig;
  rig.core.add_peer(self);
  rig.relayed(rig.relay, self.rank, {0});
  EXPECT_EQ(rig.take_failures().size(), 1u);
  EXPECT_TRUE(rig.take_deliveries().empty());
}

TEST(CoreRelay, NobodyRelaysForAnotherJob) {
  Receiver rig;
  const LaneId stranger = rig.accept({2, 9});  // as of MPI_Comm_spawn
  rig.accept({2, 2});
  rig.relay_sequence = 0;
  rig.relay = stranger;
  rig.relayed(stranger, 2, {0});
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(rig.core.name(failures[0].peer), (PeerName{2, 9}));
  EXPECT_TRUE(rig.take_deliveries().empty());
}

// Its relay cannot know: what it sends late is dropped, whatever its number, and the relay stays.
TEST(CoreRelay, WhatComesOfOneThatIsGoneIsDropped) {
  for (const bool left : {true, false}) {
    Receiver rig;
    if (left) {
      rig.sequence = 0;
      rig.arrive(rig.origin_lane, {.kind = wire::FrameKind::goodbye});
      rig.relayed(rig.relay, lesser.rank, {0});
    } else {
      rig.core.on_lane_error(rig.now, rig.origin_lane, rig.out);
      EXPECT_EQ(rig.take_failures().size(), 1u);
      rig.relayed(rig.relay, lesser.rank, {3});
    }
    EXPECT_TRUE(rig.take_deliveries().empty());
    EXPECT_TRUE(rig.take_failures().empty());
    EXPECT_EQ(rig.core.counters().receives_held, 0u);
  }
}

}  // namespace
}  // namespace weir::rig
