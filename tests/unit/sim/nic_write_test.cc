// RDMA writes of the adapter's model: what arrives, when, what is repeated, what breaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/unit/sim/nic_rdma_fixture.h"

namespace weir::sim {
namespace {

class NicWriteTest : public NicRdmaTest {
 protected:
  NicWriteTest() : before(theirs) {
    for (std::size_t i = 0; i < ours.size(); ++i) ours[i] = static_cast<std::byte>(i * 3 + 1);
  }

  // Whether all of piece `i` of theirs is as we wrote it, or as it was.
  bool is_written(std::size_t i) const { return piece_equals(i, ours); }
  bool is_untouched(std::size_t i) const { return piece_equals(i, before); }

  const std::vector<std::byte> before;

 private:
  bool piece_equals(std::size_t i, const std::vector<std::byte>& other) const {
    const auto at = static_cast<std::ptrdiff_t>(i * piece_bytes);
    return std::equal(theirs.begin() + at, theirs.begin() + at + piece_bytes, other.begin() + at);
  }
};

using Statuses = std::vector<CompletionStatus>;
using enum CompletionStatus;

TEST_F(NicWriteTest, BringsTheBytesAndTakesNothingOfThePeer) {
  write(100, 1000, rkey);
  run(microseconds(1));
  EXPECT_EQ(theirs, before);  // still under way
  run(milliseconds(1));
  const auto done = poll(left);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, success);
  EXPECT_EQ(done[0].opcode, Opcode::send);
  EXPECT_TRUE(std::equal(theirs.begin() + 100, theirs.begin() + 1100, ours.begin() + 100));
  EXPECT_EQ(theirs[99], before[99]);
  EXPECT_EQ(theirs[1100], before[1100]);
  EXPECT_TRUE(poll(right).empty());
  EXPECT_EQ(right.rnr_naks(), 0u);
}

TEST_F(NicWriteTest, TakesTheTimeOfItsBytesOnTheLine) {
  fabric.timing.bytes_per_us = 100;
  write(0, 64 * piece_bytes, rkey);
  const Duration line = microseconds(64 * piece_bytes / 100);
  const Duration took = run_until_done(1);
  EXPECT_GE(took, line);
  EXPECT_LT(took.ns, line.ns + microseconds(10).ns);
  EXPECT_EQ(theirs, ours);
}

TEST_F(NicWriteTest, ReadsTheMemoryWhenItLeavesUnlessInlined) {
  const std::byte old = ours[piece_bytes];
  write(0, 64, rkey);
  write(piece_bytes, 64, rkey, true);
  ours[0] = std::byte{0xee};
  ours[piece_bytes] = std::byte{0xee};
  run(milliseconds(1));
  EXPECT_EQ(theirs[0], std::byte{0xee});
  EXPECT_EQ(theirs[piece_bytes], old);
}

TEST_F(NicWriteTest, ZeroBytesNeedNoKey) {
  left.post_send(a, {next_id++, LaneId{0}, Opcode::write, true, false, 0, 0, 0});
  left.post_send(a, {next_id++, LaneId{0}, Opcode::probe, true, false, 0, 0, 0});
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, success}));
  EXPECT_EQ(theirs, before);
}

// A send that comes after a write finds it in the peer's memory.
TEST_F(NicWriteTest, KeepsTheOrderOfTheQueuePair) {
  post_receive();
  for (std::size_t i = 0; i < 16; ++i) write_piece(i);
  send(left, a, next_id++);
  write_piece(16);
  while (right.completions_made() < 1 && fabric.events.step()) {
  }
  for (std::size_t i = 0; i < 16; ++i) EXPECT_TRUE(is_written(i));
  EXPECT_TRUE(is_untouched(16));
  run_until_done(18);
  const auto done = poll(left);
  ASSERT_EQ(done.size(), 18u);
  for (std::size_t i = 0; i < 18; ++i) EXPECT_EQ(done[i].id, i);
}

TEST_F(NicWriteTest, CompletesAfterTheReadBeforeItButIsNotHeldUpByIt) {
  fabric.timing.bytes_per_us = 100;
  read(piece_bytes, 32 * piece_bytes, rkey);
  write_piece(0);
  run(microseconds(100));
  EXPECT_TRUE(is_written(0));
  EXPECT_TRUE(poll(left).empty());
  run_until_done(2);
  EXPECT_EQ(poll(left).back().id, 1u);
}

TEST_F(NicWriteTest, WaitsBehindASendWithoutAReceive) {
  send(left, a, next_id++);
  write_piece(0);
  run(microseconds(100));
  EXPECT_EQ(right.rnr_naks(), 1u);
  EXPECT_EQ(theirs, before);
  post_receive();
  run_until_done(2);
  EXPECT_TRUE(is_written(0));
  EXPECT_EQ(statuses(left), (Statuses{success, success}));
}

TEST_F(NicWriteTest, ALostOneIsRepeatedFromTheMemoryAsItIsThen) {
  fabric.hazards.lost_request.permille = 1000;
  for (std::size_t i = 0; i < 3; ++i) write_piece(i);
  run(milliseconds(1));
  EXPECT_EQ(theirs, before);
  ours[5] = std::byte{0xee};
  fabric.hazards.lost_request.permille = 0;
  run_until_done(3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(is_written(i));
  EXPECT_EQ(theirs[5], std::byte{0xee});
}

TEST_F(NicWriteTest, OneWhoseAnswerWasLostIsNotExecutedAgain) {
  fabric.hazards.lost_answer.permille = 1000;
  write_piece(0);
  run(milliseconds(1));
  EXPECT_TRUE(is_written(0));
  EXPECT_TRUE(poll(left).empty());
  theirs[5] = std::byte{0xee};  // the peer goes on working with it
  fabric.hazards.lost_answer.permille = 0;
  run_until_done(1);
  run(seconds(1));
  EXPECT_EQ(statuses(left), Statuses{success});
  EXPECT_EQ(theirs[5], std::byte{0xee});
}

TEST_F(NicWriteTest, ThroughALossyFabricEverythingArrivesInOrder) {
  fabric.hazards.lost_request.permille = 50;
  fabric.hazards.lost_answer.permille = 50;
  for (std::size_t i = 0; i < 64; ++i) write_piece(i);
  run_until_done(64);
  const auto done = poll(left);
  ASSERT_EQ(done.size(), 64u);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(done[i].id, i);
    EXPECT_EQ(done[i].status, success);
  }
  EXPECT_EQ(theirs, ours);
}

TEST_F(NicWriteTest, ABadKeyBreaksBothEndsAfterWhatCameBefore) {
  write_piece(0);
  write(piece_bytes, piece_bytes, rkey + 1);
  write_piece(2);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, rem_access_err, wr_flush_err}));
  EXPECT_TRUE(is_written(0));
  EXPECT_TRUE(is_untouched(1));
  EXPECT_TRUE(is_untouched(2));
  EXPECT_TRUE(poll(right).empty());  // the target hears nothing
  send(right, b, 0);
  EXPECT_EQ(statuses(right), Statuses{wr_flush_err});
}

TEST_F(NicWriteTest, PastTheEndOfTheMemoryIsRefused) {
  const std::uint32_t half = right.register_memory(address(theirs), 32 * piece_bytes, Access::all);
  write(31 * piece_bytes, piece_bytes, half);
  write(31 * piece_bytes + 1, piece_bytes, half);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, rem_access_err}));
  EXPECT_TRUE(is_untouched(32));
}

TEST_F(NicWriteTest, MemoryRegisteredForReadingIsRefused) {
  const std::uint32_t readable = right.register_memory(address(theirs), theirs.size(),
                                                       Access::local_write | Access::remote_read);
  read(piece_bytes, 8, readable);
  write(0, piece_bytes, readable);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, rem_access_err}));
  EXPECT_EQ(theirs, before);
}

TEST_F(NicWriteTest, MemoryRegisteredForWritingCannotBeRead) {
  const std::uint32_t writable = right.register_memory(address(theirs), theirs.size(),
                                                       Access::local_write | Access::remote_write);
  write(0, piece_bytes, writable);
  read(piece_bytes, 8, writable);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, rem_access_err}));
}

TEST_F(NicWriteTest, RemoteWritingWithoutLocalWritingIsAViolation) {
  right.register_memory(address(theirs), 8, Access::remote_write);
  EXPECT_EQ(fabric.violations.size(), 1u);
}

TEST_F(NicWriteTest, MemoryDeregisteredUnderWritesFailsTheFirstOfThem) {
  fabric.timing.bytes_per_us = 100;
  for (std::size_t i = 0; i < 3; ++i) write_piece(i);
  run(microseconds(60));  // the first one has arrived
  right.deregister_memory(rkey);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, rem_access_err, wr_flush_err}));
  EXPECT_TRUE(is_untouched(1));
}

TEST_F(NicWriteTest, NothingLandsAfterThePeersPairBroke) {
  write_piece(0);
  right.break_qp(b, general_err);
  send(right, b, 0);  // an idle pair breaks at its next send
  run(seconds(2));
  EXPECT_EQ(theirs, before);
  EXPECT_EQ(statuses(left), Statuses{retry_exc_err});
}

TEST_F(NicWriteTest, NothingLandsAfterThePeersPairIsGone) {
  for (std::size_t i = 0; i < 3; ++i) write_piece(i);
  run(microseconds(1));
  right.destroy_qp(b);
  run(seconds(2));
  EXPECT_EQ(theirs, before);
  EXPECT_EQ(statuses(left), (Statuses{retry_exc_err, wr_flush_err, wr_flush_err}));
}

TEST_F(NicWriteTest, ABrokenPairSendsNoMore) {
  fabric.timing.bytes_per_us = 100;
  for (std::size_t i = 0; i < 3; ++i) write_piece(i);
  run(microseconds(50));  // the first one has left
  left.break_qp(a, general_err);
  run(seconds(1));
  EXPECT_TRUE(is_written(0));
  EXPECT_TRUE(is_untouched(1));
  write_piece(3);
  run(seconds(1));
  EXPECT_TRUE(is_untouched(3));
  EXPECT_EQ(statuses(left).back(), wr_flush_err);
}

TEST_F(NicWriteTest, ADeadPeerEndsInSilenceAndFlush) {
  right.power_off();
  write_piece(0);
  write_piece(1);
  const Duration took = run_until_done(1);
  EXPECT_GE(took, fabric.timing.retries);
  EXPECT_EQ(statuses(left), (Statuses{retry_exc_err, wr_flush_err}));
}

// Half a second on the line is not silence.
TEST_F(NicWriteTest, ALongOneIsWaitedFor) {
  fabric.timing.bytes_per_us = 1;
  write(0, 64 * piece_bytes, rkey);
  read(0, 64 * piece_bytes, rkey);
  fabric.timing.retries = milliseconds(100);
  run_until_done(2);
  EXPECT_EQ(statuses(left), (Statuses{success, success}));
}

}  // namespace
}  // namespace weir::sim
