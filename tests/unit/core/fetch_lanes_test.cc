// The second lane of a peer, for chains of reads: how its two ends find each other, and what goes
// over it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/unit/core/rig.h"

namespace weir {
namespace {

using rig::KiB;
using rig::other;
using rig::Rig;
using Kind = ConnectAction::Kind;

constexpr wire::LaneEnd mine{.qp_number = 77, .psn = 123, .reads = 16};
constexpr wire::LaneEnd theirs{.qp_number = 99, .psn = 456, .reads = 16};

Core::Config chain_config() {
  Core::Config config = rig::small_config();
  config.transfers.plan = {.chunk_bytes = 16 * KiB, .alignment_bytes = 4096};
  config.transfers.reads.adaptive = false;
  config.transfers.reads.reads = 5;
  config.transfers.chain_bytes = 64 * KiB;
  config.max_rd_atomic = 4;
  config.shrink_after = {};
  return config;
}

wire::LaneEnd joined(wire::LaneEnd end) {
  end.joined = true;
  return end;
}

struct Bulk : testing::Test {
  explicit Bulk(const Core::Config& config = chain_config()) : rig(config) {
    peer = rig.core.add_peer(other);
    lane = rig.connect(peer, 40);
    for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  }

  void get(std::uint64_t bytes, std::uint64_t token = 1) {
    rig.core.transfer(rig.now, rig::transfer_of(peer, Opcode::read, bytes, token), rig.out);
    rig.settle();
  }

  // The peer tells of its end.
  void hear(const wire::LaneEnd& end) {
    std::vector<std::byte> frame(wire::lane_frame_bytes);
    wire::put(frame.data(),
              wire::FrameHeader{.kind = wire::FrameKind::lane_end, .sequence = rig.sequence++});
    wire::put(frame.data() + wire::frame_header_bytes, end);
    rig.arrive_bytes(lane, frame);
  }

  // The one action there is now: to make our end.
  ConnectAction asked() {
    const auto actions = rig.take_connects();
    EXPECT_EQ(actions.size(), 1u);
    if (actions.size() != 1 || actions[0].kind != Kind::lane_end) {
      ADD_FAILURE() << "no bulk lane is asked for";
      return {};
    }
    EXPECT_EQ(actions[0].beside, lane);
    return actions[0];
  }

  void answer(const ConnectAction& action, const wire::LaneEnd& end = mine) {
    rig.core.on_lane_end(rig.now, action.lane, end, rig.out);
    rig.settle();
  }

  // The end that we told the peer in the one control frame there is now.
  wire::LaneEnd told() {
    const auto work = rig.take_work();
    EXPECT_EQ(work.size(), 1u);
    if (work.empty()) return {};
    EXPECT_EQ(rig.header_of(work[0]).kind, wire::FrameKind::lane_end);
    EXPECT_EQ(work[0].length_bytes, wire::lane_frame_bytes);
    EXPECT_TRUE(work[0].solicited);  // gets may wait, and the peer compute
    const auto end = wire::get_lane_end(reinterpret_cast<const std::byte*>(work[0].address) +
                                        wire::frame_header_bytes);
    rig.complete(work[0]);
    return end;
  }

  void finish_reads() {
    for (auto work = rig.take_work(); !work.empty(); work = rig.take_work()) {
      for (const WorkRequest& read : work) {
        if (read.signalled) rig.complete(read);
      }
    }
  }

  // Both ends stand. Returns the lane.
  LaneId open() {
    get(80 * KiB);
    finish_reads();
    ConnectAction action = make();
    hear(joined(theirs));
    action = asked();
    answer(action);
    EXPECT_TRUE(told().joined);
    rig.out.transfers.clear();
    return action.lane;
  }

  // (Of the first large get; its reads are in the box as well.)
  ConnectAction make() {
    const ConnectAction action = asked();
    EXPECT_EQ(action.theirs.qp_number, 0u);
    answer(action);
    EXPECT_FALSE(told().joined);
    return action;
  }

  Rig rig;
  PeerId peer;
  LaneId lane;
};

TEST_F(Bulk, AGetThatWouldBeAChainAsksForTheLaneAndGoesWithoutIt) {
  get(80 * KiB);
  const auto reads = rig.take_work();
  ASSERT_EQ(reads.size(), 4u);
  for (const WorkRequest& read : reads) EXPECT_EQ(read.lane, lane);
  EXPECT_NE(asked().lane, lane);
  get(80 * KiB);
  EXPECT_TRUE(rig.take_connects().empty());  // once
}

TEST_F(Bulk, ASmallGetAsksForNothing) {
  get(63 * KiB);
  EXPECT_TRUE(rig.take_connects().empty());
}

TEST_F(Bulk, TheAskerJoinsAndSaysSo) {
  get(80 * KiB);
  finish_reads();
  ConnectAction action = asked();
  EXPECT_EQ(action.theirs.qp_number, 0u);
  answer(action);
  wire::LaneEnd end = told();
  EXPECT_EQ(end.qp_number, mine.qp_number);
  EXPECT_EQ(end.psn, mine.psn);
  EXPECT_FALSE(end.joined);
  hear(joined({.qp_number = 99, .psn = 456, .reads = 3}));
  action = asked();
  EXPECT_EQ(action.theirs.qp_number, 99u);
  EXPECT_EQ(action.theirs.psn, 456u);
  EXPECT_EQ(action.ours.qp_number, mine.qp_number);
  EXPECT_EQ(action.reads, 2u);  // c is 5, but the peer answers no more than 3
  EXPECT_EQ(rig.core.counters().bulk_lanes, 0u);
  answer(action, action.ours);
  EXPECT_TRUE(told().joined);
  EXPECT_EQ(rig.core.counters().bulk_lanes, 1u);
}

TEST_F(Bulk, TheAskedJoinsAndUsesItOnlyWhenTheAskerDid) {
  hear(theirs);
  const ConnectAction action = asked();
  EXPECT_EQ(action.theirs.qp_number, theirs.qp_number);
  answer(action);
  EXPECT_TRUE(told().joined);
  EXPECT_EQ(rig.core.counters().bulk_lanes, 0u);
  get(80 * KiB);
  for (const WorkRequest& read : rig.take_work()) EXPECT_EQ(read.lane, lane);
  hear(joined(theirs));
  EXPECT_EQ(rig.core.counters().bulk_lanes, 1u);
  EXPECT_TRUE(rig.take_connects().empty());
}

TEST_F(Bulk, OffersThatCrossMeet) {
  get(80 * KiB);
  finish_reads();
  make();
  hear(theirs);
  const ConnectAction action = asked();
  EXPECT_EQ(action.theirs.qp_number, theirs.qp_number);
  answer(action, action.ours);
  EXPECT_TRUE(told().joined);
  EXPECT_EQ(rig.core.counters().bulk_lanes, 0u);
  hear(joined(theirs));
  EXPECT_EQ(rig.core.counters().bulk_lanes, 1u);
}

TEST_F(Bulk, AChainGoesOverItInOneGoAndBeyondC) {
  const LaneId bulk = open();
  get(96 * KiB, 2);
  const auto reads = rig.take_work();
  ASSERT_EQ(reads.size(), 6u);
  for (const WorkRequest& read : reads) {
    EXPECT_EQ(read.lane, bulk);
    // Every fourth, and the last.
    EXPECT_EQ(read.signalled, read.id == reads[3].id || read.id == reads[5].id);
  }
  EXPECT_EQ(rig.core.counters().reads_out, 4u);
  EXPECT_EQ(rig.core.counters().chains, 1u);
  ASSERT_EQ(rig.send(peer), Status::ok);
  EXPECT_EQ(rig.take_work().at(0).lane, lane);  // a frame passes
  rig.complete(reads[3]);
  EXPECT_TRUE(rig.out.transfers.empty());
  rig.complete(reads[5]);
  ASSERT_EQ(rig.out.transfers.size(), 1u);
  EXPECT_TRUE(rig.out.transfers[0].ok);
  EXPECT_EQ(rig.out.transfers[0].token, 2u);
  EXPECT_EQ(rig.core.counters().reads_out, 0u);
  EXPECT_TRUE(rig.core.conserved());
}

// The reads of a chain wait for each other, so their times say nothing of the path.
TEST_F(Bulk, AChainLooksAtNoClock) {
  static int looks;
  open();
  looks = 0;
  const Now now([] { return Time{1000 + ++looks}; });
  rig.core.transfer(now, rig::transfer_of(peer, Opcode::read, 96 * KiB, 2), rig.out);
  for (const WorkRequest& read : rig.take_work()) {
    if (!read.signalled) continue;
    rig.core.on_completion(now, {Opcode::send, CompletionStatus::success, 0, read.lane, read.id},
                           rig.out);
  }
  EXPECT_EQ(rig.out.transfers.size(), 1u);
  EXPECT_EQ(rig.core.counters().chains, 1u);
  EXPECT_EQ(looks, 0);
}

TEST_F(Bulk, ALongChainIsHandedOverInParts) {
  open();
  get(1024 * KiB, 2);
  const auto reads = rig.take_work();
  EXPECT_EQ(reads.size(), rig.core.fetch_depth());
  EXPECT_TRUE(reads.back().signalled);
  rig.complete(reads[3]);
  EXPECT_EQ(rig.take_work().size(), 4u);
  EXPECT_TRUE(rig.core.conserved());
}

TEST_F(Bulk, WhenSomebodyElseReadsTheRestGoesChunkByChunk) {
  const LaneId bulk = open();
  get(1024 * KiB, 2);
  const auto chained = rig.take_work();
  get(8 * KiB, 3);
  auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);  // beside the chain one may always go
  EXPECT_EQ(work[0].lane, lane);
  EXPECT_EQ(work[0].length_bytes, 8 * KiB);
  get(256 * KiB, 4);
  rig.complete(work[0]);
  for (const WorkRequest& read : chained) {
    if (read.signalled) rig.complete(read);
  }
  std::uint64_t bytes = 0;
  for (work = rig.take_work(); !work.empty(); work = rig.take_work()) {
    for (const WorkRequest& read : work) {
      EXPECT_EQ(read.lane, lane);
      EXPECT_NE(read.lane, bulk);
      bytes += read.length_bytes;
      rig.complete(read);
    }
  }
  EXPECT_EQ(bytes, (1024 - 16 * chained.size() + 256) * KiB);
  EXPECT_EQ(rig.out.transfers.size(), 3u);
  EXPECT_FALSE(rig.core.has_transfers());
  EXPECT_TRUE(rig.core.conserved());
}

TEST_F(Bulk, WithoutAnEndOfOursAllGoesOnWithoutIt) {
  get(80 * KiB);
  finish_reads();
  const ConnectAction action = asked();
  answer(action, {});
  EXPECT_EQ(told().qp_number, 0u);
  EXPECT_EQ(rig.take_connects().at(0).kind, Kind::drop);
  get(80 * KiB, 2);
  EXPECT_TRUE(rig.take_connects().empty());
  finish_reads();
  EXPECT_EQ(rig.out.transfers.size(), 2u);
}

TEST_F(Bulk, WithoutAnEndOfThePeersToo) {
  get(80 * KiB);
  finish_reads();
  make();
  hear({});
  EXPECT_EQ(rig.take_connects().at(0).kind, Kind::drop);
  get(80 * KiB, 2);
  EXPECT_TRUE(rig.take_connects().empty());
  finish_reads();
  EXPECT_EQ(rig.out.transfers.size(), 2u);
}

TEST_F(Bulk, AnOfferToWhoRefusesIsAnswered) {
  get(80 * KiB);
  finish_reads();
  answer(asked(), {});
  told();
  hear(theirs);
  EXPECT_EQ(told().qp_number, 0u);
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
}

// The peer was ready first, and its frame is polled before our connection manager is asked.
TEST(BulkConnect, AnEndThatOvertakesTheAnswerIsNotLost) {
  Rig rig(chain_config());
  const PeerId peer = rig.core.add_peer(other);
  rig.send(peer);
  const ConnectAction request = rig.take_connects().at(0);
  std::vector<std::byte> frame(wire::lane_frame_bytes);
  wire::put(frame.data(),
            wire::FrameHeader{.kind = wire::FrameKind::lane_end, .sequence = rig.sequence++});
  wire::put(frame.data() + wire::frame_header_bytes, theirs);
  rig.arrive_bytes(request.lane, frame);
  EXPECT_EQ(rig.core.state(peer), PeerState::connecting);
  EXPECT_TRUE(rig.take_connects().empty());

  rig.core.on_answer(rig.now, request.lane, rig.answer(request, 40), rig.out);
  rig.settle();
  const auto actions = rig.take_connects();
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].kind, Kind::lane_end);
  EXPECT_EQ(actions[0].theirs.qp_number, theirs.qp_number);
}

TEST(BulkCredits, AnEndCostsOneAndWaitsForIt) {
  Rig rig(chain_config());
  const PeerId peer = rig.core.add_peer(other);
  const LaneId lane = rig.connect(peer, 2);  // one is spent at once
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  rig.core.transfer(
      rig.now, {.peer = peer, .length_bytes = 80 * KiB, .lkey = 3, .rkey = 7, .token = 1}, rig.out);
  rig.core.on_lane_end(rig.now, rig.take_connects().at(0).lane, mine, rig.out);
  EXPECT_EQ(rig.core.standing(peer).credits, 0u);
  EXPECT_EQ(rig.core.standing(peer).control_credits, 2u);
  std::vector<std::byte> frame(wire::lane_frame_bytes);
  wire::put(frame.data(),
            wire::FrameHeader{.kind = wire::FrameKind::lane_end, .sequence = rig.sequence++});
  wire::put(frame.data() + wire::frame_header_bytes, joined(theirs));
  rig.arrive_bytes(lane, frame);
  const auto joins = rig.take_connects();
  rig.take_work();
  rig.core.on_lane_end(rig.now, joins.at(0).lane, joins.at(0).ours, rig.out);
  EXPECT_TRUE(rig.take_work().empty());
  rig.arrive(lane, {.kind = wire::FrameKind::credits, .credits = 1});
  const auto work = rig.take_work();
  ASSERT_GE(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).kind, wire::FrameKind::lane_end);
}

// An end that waits for a credit says so in what it sends meanwhile.
TEST(BulkCredits, AnEndThatWaitsIsSaidToWait) {
  Rig rig(chain_config());
  const PeerId peer = rig.core.add_peer(other);
  const LaneId lane = rig.connect(peer, 1);  // spent at once
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  rig.core.transfer(
      rig.now, {.peer = peer, .length_bytes = 80 * KiB, .lkey = 3, .rkey = 7, .token = 1}, rig.out);
  rig.core.on_lane_end(rig.now, rig.take_connects().at(0).lane, mine, rig.out);
  for (const WorkRequest& work : rig.take_work()) {
    EXPECT_EQ(work.opcode, Opcode::read);
    if (work.signalled) rig.complete(work);
  }
  rig.take_work();
  for (int i = 0; i < 5; ++i) {
    rig.arrive(lane, {});
    rig.core.release(rig.take_deliveries().at(0).buffer);
  }
  rig.pump();
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).kind, wire::FrameKind::credits);
  EXPECT_TRUE(rig.header_of(work[0]).starved);
}

// What was handed over could not wait for tokens in its middle.
TEST(BulkConfig, WhereRequestsAreLimitedThereAreNoChains) {
  Core::Config config = chain_config();
  config.admission.policy = Admission::Policy::always;
  Rig rig(config);
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 8);
  rig.core.transfer(
      rig.now, {.peer = peer, .length_bytes = 80 * KiB, .lkey = 3, .rkey = 7, .token = 1}, rig.out);
  EXPECT_TRUE(rig.take_connects().empty());
}

TEST_F(Bulk, ANewConnectionHasNoLaneAtFirst) {
  const LaneId chains = open();
  rig.arrive(lane, {.kind = wire::FrameKind::goodbye});
  rig.core.on_disconnected(rig.now, lane, rig.out);
  ASSERT_EQ(rig.core.state(peer), PeerState::closed);
  rig.take_connects();
  rig.take_work();
  lane = rig.connect(peer, 40);
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  get(80 * KiB);
  const auto work = rig.take_work();
  EXPECT_FALSE(work.empty());
  for (const WorkRequest& read : work) EXPECT_EQ(read.lane, lane) << index(chains);
}

// The peer told of its end before ours was made.
TEST_F(Bulk, AnOfferThatIsOvertakenIsJoinedWhenItIsMade) {
  get(80 * KiB);
  finish_reads();
  const ConnectAction offer = asked();
  hear(theirs);
  EXPECT_TRUE(rig.take_connects().empty());
  answer(offer);
  const ConnectAction action = asked();
  EXPECT_EQ(action.theirs.qp_number, theirs.qp_number);
  EXPECT_EQ(action.ours.qp_number, mine.qp_number);
  answer(action, action.ours);
  EXPECT_TRUE(told().joined);
}

// What Soft-RoCE needs: no fetch behind a send or a write.
struct Apart : Bulk {
  static Core::Config config() {
    Core::Config config = chain_config();
    config.fetches_apart = true;
    config.transfers.chain_bytes = 0;
    return config;
  }
  Apart() : Bulk(config()) {}

  void submit(Opcode opcode, std::uint64_t bytes, std::uint64_t token) {
    rig.core.transfer(rig.now, rig::transfer_of(peer, opcode, bytes, token), rig.out);
    rig.settle();
  }
};

TEST_F(Apart, GetsAndAtomicsWaitForTheirLaneAndPutsDoNot) {
  submit(Opcode::read, 100, 1);
  submit(Opcode::fetch_add, 8, 2);
  const ConnectAction offer = asked();
  EXPECT_TRUE(rig.take_work().empty());
  submit(Opcode::write, 100, 3);
  const auto put = rig.take_work();
  ASSERT_EQ(put.size(), 1u);
  EXPECT_EQ(put[0].opcode, Opcode::write);
  EXPECT_EQ(put[0].lane, lane);
  answer(offer);
  told();
  hear(joined(theirs));
  const ConnectAction action = asked();
  answer(action, action.ours);
  std::vector<Opcode> fetched;
  for (const WorkRequest& work : rig.take_work()) {
    if (work.lane != action.lane) continue;
    fetched.push_back(work.opcode);
    rig.complete(work);
  }
  EXPECT_EQ(fetched, (std::vector{Opcode::read, Opcode::fetch_add}));
  EXPECT_EQ(rig.out.transfers.size(), 3u);  // the put completed with the end that was told
  submit(Opcode::read, 100, 4);
  const auto next = rig.take_work();
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].lane, action.lane);
}

Core::Config apart_config(std::uint32_t c) {
  Core::Config config = Apart::config();
  config.max_rd_atomic = 16;
  config.queue.depth = 64;
  config.transfers.chain_bytes = 64 * KiB;
  config.transfers.reads.reads = c;
  return config;
}

// c, and the lane's depth.
struct ApartWithC : Bulk, testing::WithParamInterface<std::array<std::uint32_t, 2>> {
  ApartWithC() : Bulk(apart_config(GetParam()[0])) {}
};

TEST_P(ApartWithC, NoMoreAndNoFewerAreUnderWay) {
  const auto [c, depth] = GetParam();
  get(40 * 16 * KiB);
  EXPECT_EQ(make().reads, depth);
  hear(joined(theirs));
  const ConnectAction action = asked();
  EXPECT_EQ(action.reads, depth);
  answer(action, action.ours);
  const auto reads = std::ranges::count(rig.take_work(), Opcode::read, &WorkRequest::opcode);
  if (c == depth) {
    EXPECT_GT(reads, c);  // a chain: the lane keeps to c
  } else {
    EXPECT_EQ(reads, c);
  }
}

INSTANTIATE_TEST_SUITE_P(SomeC, ApartWithC,
                         testing::Values(std::array{12u, 16u}, std::array{8u, 8u},
                                         std::array{3u, 4u}));

// q in chunks, and the lane's depth.
struct ApartAndAdaptive : Bulk, testing::WithParamInterface<std::array<std::uint32_t, 2>> {
  static Core::Config config() {
    Core::Config config = apart_config(0);
    config.transfers.reads = {.adaptive = true,
                              .initial_bytes = 64 * KiB,
                              .least_bytes = 64 * KiB,
                              .queue_bytes = GetParam()[0] * 16 * KiB,
                              .chunk_bytes = 16 * KiB};
    return config;
  }
  ApartAndAdaptive() : Bulk(config()) {}
};

TEST_P(ApartAndAdaptive, TheLaneIsAsDeepAsTheWindowMayUsuallyBe) {
  get(10 * 16 * KiB);
  EXPECT_EQ(make().reads, GetParam()[1]);
}

INSTANTIATE_TEST_SUITE_P(SomeQ, ApartAndAdaptive,
                         testing::Values(std::array{1u, 4u}, std::array{3u, 16u},
                                         std::array{100u, 16u}));

// A lane that fits the window takes chains: all of one is handed over at once.
struct ApartAndFitting : ApartAndAdaptive {};

TEST_P(ApartAndFitting, AGetIsAChain) {
  get(16 * KiB);
  make();
  hear(joined(theirs));
  answer(asked());
  finish_reads();
  get(10 * 16 * KiB, 2);
  EXPECT_EQ(std::ranges::count(rig.take_work(), Opcode::read, &WorkRequest::opcode), 10);
  EXPECT_EQ(rig.core.counters().chains, 1u);
}

INSTANTIATE_TEST_SUITE_P(SomeQ, ApartAndFitting, testing::Values(std::array{1u, 4u}));

TEST_F(Apart, WithoutTheirLaneThePeerFails) {
  submit(Opcode::read, 100, 1);
  answer(asked(), {});
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].reason, FailReason::no_resources);
  ASSERT_EQ(rig.out.transfers.size(), 1u);
  EXPECT_FALSE(rig.out.transfers[0].ok);
  EXPECT_TRUE(rig.core.conserved());
}

TEST_F(Bulk, TheLanesFailureIsThePeersFailure) {
  const LaneId bulk = open();
  get(96 * KiB, 2);
  rig.complete(rig.take_work().at(0), CompletionStatus::retry_exc_err);
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].completion, CompletionStatus::retry_exc_err);
  ASSERT_EQ(rig.out.transfers.size(), 1u);
  EXPECT_FALSE(rig.out.transfers[0].ok);
  std::vector<LaneId> dropped;
  for (const ConnectAction& action : rig.take_connects()) {
    EXPECT_EQ(action.kind, Kind::drop);
    dropped.push_back(action.lane);
  }
  EXPECT_EQ(dropped, (std::vector{bulk, lane}));
  EXPECT_TRUE(rig.core.conserved());
}

Core::Config resuming() {
  Core::Config config = chain_config();
  config.resumes = true;
  return config;
}

struct BulkResumed : Bulk {
  BulkResumed() : Bulk(resuming()) {}
};

// Our end was made while the connection broke: the next connection's lane is another one.
TEST_F(BulkResumed, AnEndThatIsFencedIsNotTold) {
  get(80 * KiB);
  const ConnectAction offer = asked();
  rig.complete(rig.take_work().at(0), CompletionStatus::retry_exc_err);
  answer(offer);
  const auto actions = rig.take_connects();
  ASSERT_EQ(actions.size(), 3u);  // both lanes are fenced
  const ConnectAction& request = actions.back();
  ASSERT_EQ(request.kind, Kind::connect);
  wire::Hello hello = rig.answer(request, 40);
  hello.resumes = true;
  hello.received = 1;
  rig.core.on_answer(rig.now, request.lane, hello, rig.out);
  rig.settle();
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
  rig.pump();
  for (const WorkRequest& work : rig.take_work()) EXPECT_NE(work.opcode, Opcode::send);
}

TEST_F(Bulk, AFrameOnItIsNoFrameOfWeirs) {
  const LaneId bulk = open();
  rig.arrive(bulk, {.kind = wire::FrameKind::messages});
  const Failure failure = rig.take_failures().at(0);
  EXPECT_EQ(failure.reason, FailReason::bad_frame);
  EXPECT_EQ(failure.frame.fault, FrameFault::lane);
  EXPECT_STREQ(to_text(failure.frame.fault), "it came on a queue pair for RDMA reads only");
}

struct WrongEnd : Bulk {
  void expect_refused() {
    const auto failures = rig.take_failures();
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].reason, FailReason::bad_frame);
    EXPECT_EQ(failures[0].frame.fault, FrameFault::lane_end);
    EXPECT_TRUE(rig.core.conserved());
  }
};

TEST_F(WrongEnd, JoinedToNothing) {
  hear(joined(theirs));
  expect_refused();
}

TEST_F(WrongEnd, OfferedTwice) {
  hear(theirs);
  answer(asked());
  told();
  hear(theirs);
  expect_refused();
}

TEST_F(WrongEnd, JoinedTwice) {
  open();
  hear(joined(theirs));
  expect_refused();
}

TEST_F(WrongEnd, TakenBack) {
  open();
  hear({});
  expect_refused();
}

}  // namespace
}  // namespace weir
