// RDMA reads of the adapter's model: what arrives, in which order, how many at once, what breaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/unit/sim/nic_rdma_fixture.h"

namespace weir::sim {
namespace {

class NicReadTest : public NicRdmaTest {
 protected:
  using NicRdmaTest::NicRdmaTest;
};

TEST_F(NicReadTest, BringsTheBytesAndTakesNothingOfThePeer) {
  read(100, 1000, rkey);
  run(microseconds(1));
  EXPECT_EQ(ours[100], std::byte{0});  // not before the answer
  run(milliseconds(1));
  const auto done = poll(left);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, success);
  EXPECT_EQ(done[0].opcode, Opcode::send);
  EXPECT_TRUE(std::equal(ours.begin() + 100, ours.begin() + 1100, theirs.begin() + 100));
  EXPECT_EQ(ours[99], std::byte{0});
  EXPECT_EQ(ours[1100], std::byte{0});
  EXPECT_TRUE(poll(right).empty());
  EXPECT_EQ(right.rnr_naks(), 0u);
}

TEST_F(NicReadTest, TakesTheTimeOfItsBytesOnTheLine) {
  fabric.timing.bytes_per_us = 100;
  read(0, 64 * piece_bytes, rkey);
  const Duration line = microseconds(64 * piece_bytes / 100);
  const Duration took = run_until_done(1);
  EXPECT_GE(took, line);
  EXPECT_LT(took.ns, line.ns + microseconds(10).ns);
}

TEST_F(NicReadTest, ReadsTheMemoryWhenTheLastByteLeaves) {
  read_piece(0);
  theirs[5] = std::byte{0xee};
  run(milliseconds(1));
  EXPECT_EQ(ours[5], std::byte{0xee});
}

TEST_F(NicReadTest, ZeroBytesNeedNoKey) {
  left.post_send(a, {0, LaneId{0}, Opcode::read, true, false, 0, 0, 0, 0, 0});
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), Statuses{success});
  EXPECT_EQ(left.most_fetches(), 1u);
}

// 64 reads, in order, never more than the bound under way.
class NicReadBoundTest : public NicReadTest, public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  NicReadBoundTest() : NicReadTest(GetParam()) {}
};

TEST_P(NicReadBoundTest, AllReadsCompleteInOrderWithinTheBound) {
  for (std::size_t i = 0; i < 64; ++i) read_piece(i);
  const Duration took = run_until_done(64);
  const auto done = poll(left);
  ASSERT_EQ(done.size(), 64u);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(done[i].id, i);
    EXPECT_EQ(done[i].status, success);
  }
  EXPECT_EQ(ours, theirs);
  EXPECT_EQ(left.most_fetches(), GetParam());
  // Seen from outside: as many round trips as the bound makes necessary.
  const Duration round_trip = fabric.timing.link * 2;
  EXPECT_GE(took, round_trip * (64 / GetParam()));
  if (GetParam() == 16) {
    EXPECT_LT(took, round_trip * 32);
  }
}

INSTANTIATE_TEST_SUITE_P(Bounds, NicReadBoundTest, ::testing::Values(1, 4, 16));

TEST_F(NicReadTest, ASendIsExecutedBeforeTheDataOfAReadArrivesButCompletesAfterIt) {
  fabric.timing.bytes_per_us = 100;
  post_receive();
  read(0, 64 * piece_bytes, rkey);
  send(left, a, 1);
  run(microseconds(50));
  EXPECT_EQ(statuses(right), Statuses{success});
  EXPECT_TRUE(poll(left).empty());
  run_until_done(2);
  const auto done = poll(left);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].id, 0u);
  EXPECT_EQ(done[1].id, 1u);
}

class NicReadOneTest : public NicReadTest {
 protected:
  NicReadOneTest() : NicReadTest(1) {}
};

TEST_F(NicReadOneTest, WhatIsBehindAReadThatWaitsWaitsToo) {
  fabric.timing.bytes_per_us = 100;
  post_receive();
  read_piece(0);
  read_piece(1);
  send(left, a, 2);
  run(microseconds(40));
  EXPECT_TRUE(poll(right).empty());  // the second read has not even started
  run_until_done(3);
  EXPECT_EQ(statuses(right), Statuses{success});
  EXPECT_EQ(statuses(left), (Statuses{success, success, success}));
}

TEST_F(NicReadOneTest, AReadBehindASendWithoutAReceiveIsRepeatedWithIt) {
  send(left, a, 0);
  next_id = 1;
  read_piece(0);
  read_piece(1);
  run(microseconds(100));
  EXPECT_EQ(right.rnr_naks(), 1u);
  EXPECT_EQ(ours[1], std::byte{0});
  post_receive();
  run_until_done(3);
  EXPECT_EQ(statuses(left), (Statuses{success, success, success}));
  EXPECT_TRUE(std::equal(ours.begin(), ours.begin() + 2 * piece_bytes, theirs.begin()));
  EXPECT_EQ(left.most_fetches(), 1u);
}

TEST_F(NicReadTest, ABadKeyBreaksBothEndsAfterWhatCameBefore) {
  read_piece(0);
  read(piece_bytes, piece_bytes, rkey + 1);
  read_piece(2);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, rem_access_err, wr_flush_err}));
  EXPECT_EQ(ours[piece_bytes + 1], std::byte{0});
  EXPECT_EQ(ours[2 * piece_bytes + 1], std::byte{0});
  EXPECT_TRUE(poll(right).empty());  // the target hears nothing
  send(right, b, 0);
  EXPECT_EQ(statuses(right), Statuses{wr_flush_err});
}

TEST_F(NicReadTest, AKeyOfAnotherAdapterIsBad) {
  read(0, 8, left.register_memory(address(theirs), theirs.size(), Access::all));
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), Statuses{rem_access_err});
}

TEST_F(NicReadTest, PastTheEndOfTheMemoryIsRefused) {
  read(63 * piece_bytes, piece_bytes, rkey);
  read(63 * piece_bytes + 1, piece_bytes, rkey);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, rem_access_err}));
}

TEST_F(NicReadTest, BeforeTheMemoryOrFarBehindItIsRefused) {
  for (const std::uint64_t where : {address(theirs) - 1, ~std::uint64_t{0} - 3}) {
    const QpNumber from = left.create_qp(8);
    const QpNumber to = right.create_qp(8);
    left.connect_qp(from, 1, to);
    right.connect_qp(to, 0, from);
    left.post_send(from,
                   {0, LaneId{0}, Opcode::read, true, false, 8, 1, address(ours), where, rkey});
    run(milliseconds(1));
    EXPECT_EQ(statuses(left), Statuses{rem_access_err});
  }
}

TEST_F(NicReadTest, MemoryDeregisteredUnderReadsFailsTheFirstOfThem) {
  fabric.timing.bytes_per_us = 100;
  for (std::size_t i = 0; i < 3; ++i) read_piece(i);
  run(microseconds(50));  // the first one has left, the second is leaving
  right.deregister_memory(rkey);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, rem_access_err, wr_flush_err}));
}

TEST_F(NicReadTest, ASendThatDoesNotFitBreaksAfterTheReadsBeforeIt) {
  fabric.timing.bytes_per_us = 1000;
  post_receive(4);
  read(0, 64 * piece_bytes, rkey);
  send(left, a, 1);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, rem_op_err}));
  EXPECT_EQ(ours, theirs);
}

TEST_F(NicReadTest, ADeadPeerEndsInSilenceAndFlush) {
  fabric.timing.bytes_per_us = 100;
  for (std::size_t i = 0; i < 3; ++i) read_piece(i);
  run(microseconds(50));
  right.power_off();
  run(seconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, retry_exc_err, wr_flush_err}));
  read_piece(3);
  EXPECT_EQ(statuses(left), Statuses{wr_flush_err});
}

TEST_F(NicReadTest, ACutLinkEndsInSilence) {
  read_piece(0);
  run(microseconds(1));
  fabric.cut(0, 1);
  run(seconds(1));
  EXPECT_EQ(statuses(left), Statuses{retry_exc_err});
}

// The answer of a later send is under way when the data it comes after is lost.
TEST_F(NicReadTest, NoLaterAnswerStandsInForTheData) {
  fabric.timing.bytes_per_us = 100;
  post_receive();
  read_piece(0);
  send(left, a, 1);
  run(microseconds(20));
  EXPECT_EQ(statuses(right), Statuses{success});
  right.break_qp(b, general_err);
  send(right, b, 0);  // an idle pair breaks at its next send
  run(seconds(2));
  EXPECT_EQ(statuses(left), (Statuses{retry_exc_err, wr_flush_err}));
}

TEST_F(NicReadTest, DataForABrokenPairLandsNowhere) {
  read_piece(0);
  run(microseconds(3));
  left.break_qp(a, general_err);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), Statuses{general_err});
  EXPECT_EQ(ours[1], std::byte{0});
}

TEST_F(NicReadTest, WhatGetsLostIsReadAgain) {
  fabric.hazards.lost_answer.permille = 1000;
  for (std::size_t i = 0; i < 3; ++i) read_piece(i);
  run(milliseconds(1));
  EXPECT_EQ(ours[1], std::byte{0});
  theirs[5] = std::byte{0xee};  // executed again, so this shows
  fabric.hazards.lost_answer.permille = 0;
  run_until_done(3);
  EXPECT_EQ(statuses(left), (Statuses{success, success, success}));
  EXPECT_EQ(ours[5], std::byte{0xee});
  EXPECT_TRUE(std::equal(ours.begin(), ours.begin() + 3 * piece_bytes, theirs.begin()));
}

TEST_F(NicReadTest, DataStandsInForTheAnswersBeforeIt) {
  fabric.timing.bytes_per_us = 100;
  post_receive();
  send(left, a, next_id++);
  read_piece(0);
  fabric.hazards.lost_answer.permille = 1000;
  run(microseconds(20));
  EXPECT_EQ(statuses(right), Statuses{success});
  fabric.hazards.lost_answer.permille = 0;
  EXPECT_LT(run_until_done(2), milliseconds(1));  // nothing is repeated
  EXPECT_EQ(statuses(left), (Statuses{success, success}));
}

// The data is only slow, and the requester asks again. What it asked for twice may be gone then.
TEST_F(NicReadTest, ARepeatedReadOfMemoryThatIsGoneHarmsNobody) {
  read_piece(0);
  run(microseconds(1));  // the request is under way
  fabric.timing.slow_permille = 1000;
  fabric.timing.slow = milliseconds(100);
  run_until_done(1);
  right.deregister_memory(rkey);
  run(seconds(1));
  fabric.timing.slow_permille = 0;
  read(0, 0, 0);
  run(seconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, success}));
}

class NicReadNoneTest : public NicReadTest {
 protected:
  NicReadNoneTest() : NicReadTest(0) {}
};

TEST_F(NicReadNoneTest, WithoutAnyReadsAllowedPostingOneIsAViolation) {
  read_piece(0);
  EXPECT_EQ(fabric.violations.size(), 1u);
}

}  // namespace
}  // namespace weir::sim
