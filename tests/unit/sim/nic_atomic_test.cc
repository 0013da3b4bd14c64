// Atomics of the adapter's model: results, order, exactly once, the bound that they share with
// reads.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/unit/sim/nic_rdma_fixture.h"

namespace weir::sim {
namespace {

class NicAtomicTest : public NicRdmaTest {
 protected:
  explicit NicAtomicTest(std::uint32_t max_rd_atomic = 16, bool loses_fetches = false)
      : NicRdmaTest(max_rd_atomic, loses_fetches) {
    word(theirs, 0) = 100;
  }

  // A write, and an addition behind it; both are executed, and both answers get lost once.
  void add_with_both_answers_lost() {
    fabric.hazards.lost_answer.permille = 1000;
    write(64, 8, rkey);
    add(0, 5, 0);
    run(milliseconds(1));
    fabric.hazards.lost_answer.permille = 0;
    run_until_done(2);
    EXPECT_EQ(statuses(left), (Statuses{success, success}));
    EXPECT_EQ(word(theirs, 0), 105u);
  }
};

using Statuses = std::vector<CompletionStatus>;
using enum CompletionStatus;

TEST_F(NicAtomicTest, AddsAndTellsWhatWasThere) {
  add(0, 5, 0);
  run(microseconds(3));
  EXPECT_EQ(word(ours, 0), 0u);  // not before the answer
  run(milliseconds(1));
  const auto done = poll(left);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, success);
  EXPECT_EQ(done[0].opcode, Opcode::send);
  EXPECT_EQ(word(ours, 0), 100u);
  EXPECT_EQ(word(theirs, 0), 105u);
  EXPECT_TRUE(poll(right).empty());
}

TEST_F(NicAtomicTest, AddingWrapsAround) {
  add(0, ~std::uint64_t{0}, 0);
  run(milliseconds(1));
  EXPECT_EQ(word(theirs, 0), 99u);
}

TEST_F(NicAtomicTest, SwapsIfEqualAndTellsWhatWasThere) {
  swap(0, 100, 7, 0);
  swap(0, 100, 8, 1);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, success}));
  EXPECT_EQ(word(ours, 0), 100u);
  EXPECT_EQ(word(ours, 1), 7u);
  EXPECT_EQ(word(theirs, 0), 7u);
}

TEST_F(NicAtomicTest, KeepTheOrderOfTheQueuePair) {
  add(0, 1, 0);
  word(ours, 8) = 50;
  post(request(Opcode::write, 64, 8, 0, rkey));
  add(0, 1, 1);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, success, success}));
  EXPECT_EQ(word(ours, 0), 100u);
  EXPECT_EQ(word(ours, 1), 50u);
  EXPECT_EQ(word(theirs, 0), 51u);
}

TEST_F(NicAtomicTest, OneWhoseAnswerWasLostIsNotExecutedAgain) {
  fabric.hazards.lost_answer.permille = 1000;
  add(0, 5, 0);
  swap(0, 105, 1, 1);
  add(0, 5, 2);
  run(milliseconds(1));
  EXPECT_EQ(word(theirs, 0), 6u);
  EXPECT_EQ(word(ours, 0), 0u);
  fabric.hazards.lost_answer.permille = 0;
  run_until_done(3);
  EXPECT_EQ(statuses(left), (Statuses{success, success, success}));
  EXPECT_EQ(word(theirs, 0), 6u);
  EXPECT_EQ(word(ours, 0), 100u);
  EXPECT_EQ(word(ours, 1), 105u);
  EXPECT_EQ(word(ours, 2), 1u);
}

// The repeated write is acknowledged for both. [IBTA 9.7.5.1.2]
TEST_F(NicAtomicTest, OneAcknowledgedWithoutItsResultIsWaitedFor) {
  add_with_both_answers_lost();
  EXPECT_EQ(word(ours, 0), 100u);
}

class LosingNicAtomicTest : public NicAtomicTest {
 protected:
  LosingNicAtomicTest() : NicAtomicTest(16, true) {}
};

// What Soft-RoCE does. [Linux 6.1, rxe_comp.c, check_ack]
TEST_F(LosingNicAtomicTest, OneAcknowledgedWithoutItsResultCompletes) {
  add_with_both_answers_lost();
  EXPECT_EQ(word(ours, 0), 0u);
}

TEST_F(NicAtomicTest, ALostOneIsExecutedWhenItIsRepeated) {
  fabric.hazards.lost_request.permille = 1000;
  add(0, 5, 0);
  run(milliseconds(1));
  EXPECT_EQ(word(theirs, 0), 100u);
  fabric.hazards.lost_request.permille = 0;
  run_until_done(1);
  EXPECT_EQ(word(theirs, 0), 105u);
}

// Each exactly once and in order, whatever gets lost and however few may be under way.
class NicAtomicLossTest : public NicAtomicTest,
                          public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  NicAtomicLossTest() : NicAtomicTest(GetParam()) {}
};

TEST_P(NicAtomicLossTest, CountsThroughALossyFabric) {
  fabric.hazards.lost_request.permille = 100;
  fabric.hazards.lost_answer.permille = 100;
  word(theirs, 0) = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    add(0, 1, i);
    if (i % 5 == 0) write(piece_bytes, 8, rkey);
  }
  run_until_done(120);
  EXPECT_EQ(statuses(left), Statuses(120, success));
  EXPECT_EQ(word(theirs, 0), 100u);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(word(ours, i), i);
  EXPECT_EQ(left.most_fetches(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Bounds, NicAtomicLossTest, ::testing::Values(1, 4, 16));

class NicAtomicTwoTest : public NicAtomicTest {
 protected:
  NicAtomicTwoTest() : NicAtomicTest(2) {}
};

TEST_F(NicAtomicTwoTest, ReadsAndAtomicsShareTheBound) {
  fabric.timing.bytes_per_us = 100;
  read(piece_bytes, piece_bytes, rkey);
  read(2 * piece_bytes, piece_bytes, rkey);
  add(0, 1, 0);
  write(3 * piece_bytes, 8, rkey);
  run(microseconds(40));
  EXPECT_EQ(word(theirs, 0), 100u);  // it waits, and with it what is behind it
  EXPECT_NE(theirs[3 * piece_bytes + 1], std::byte{0});
  run_until_done(4);
  EXPECT_EQ(word(theirs, 0), 101u);
  EXPECT_EQ(theirs[3 * piece_bytes + 1], std::byte{0});
  EXPECT_EQ(left.most_fetches(), 2u);
}

TEST_F(NicAtomicTest, WaitsBehindASendWithoutAReceive) {
  send(left, a, next_id++);
  add(0, 1, 0);
  run(microseconds(100));
  EXPECT_EQ(right.rnr_naks(), 1u);
  EXPECT_EQ(word(theirs, 0), 100u);
  post_receive();
  run_until_done(2);
  EXPECT_EQ(word(theirs, 0), 101u);
}

TEST_F(NicAtomicTest, MemoryWithoutTheRightBreaksBothEnds) {
  rkey = right.register_memory(address(theirs), theirs.size(),
                               Access::local_write | Access::remote_read | Access::remote_write);
  add(0, 1, 0);
  add(0, 1, 1);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{rem_access_err, wr_flush_err}));
  EXPECT_EQ(word(theirs, 0), 100u);
  send(right, b, 0);
  EXPECT_EQ(statuses(right), Statuses{wr_flush_err});
}

TEST_F(NicAtomicTest, PastTheEndOfTheMemoryIsRefused) {
  rkey = right.register_memory(address(theirs), 12, Access::all);
  add(0, 1, 0);
  add(1, 1, 1);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, rem_access_err}));
}

TEST_F(NicAtomicTest, AResultForABrokenPairLandsNowhere) {
  add(0, 1, 0);
  run(microseconds(4));
  left.break_qp(a, general_err);
  run(seconds(1));
  EXPECT_EQ(word(theirs, 0), 101u);
  EXPECT_EQ(word(ours, 0), 0u);
}

TEST_F(NicAtomicTest, ADeadPeerEndsInSilenceAndFlush) {
  right.power_off();
  add(0, 1, 0);
  add(0, 1, 1);
  run(seconds(1));
  EXPECT_EQ(statuses(left), (Statuses{retry_exc_err, wr_flush_err}));
}

TEST_F(NicAtomicTest, WhatTheAdapterDoesNotTakeIsAViolation) {
  const WorkRequest good = request(Opcode::fetch_add, 0, 8, 0, rkey);
  WorkRequest unaligned = good;
  unaligned.remote_address += 4;
  post(unaligned);
  WorkRequest shorter = good;
  shorter.length_bytes = 4;
  post(shorter);
  WorkRequest inlined = good;
  inlined.inlined = true;
  post(inlined);
  EXPECT_EQ(fabric.violations.size(), 3u);
  post(good);
  EXPECT_EQ(fabric.violations.size(), 3u);
}

class NicAtomicNoneTest : public NicAtomicTest {
 protected:
  NicAtomicNoneTest() : NicAtomicTest(0) {}
};

TEST_F(NicAtomicNoneTest, WithoutAnyAllowedPostingOneIsAViolation) {
  add(0, 1, 0);
  EXPECT_EQ(fabric.violations.size(), 1u);
}

}  // namespace
}  // namespace weir::sim
