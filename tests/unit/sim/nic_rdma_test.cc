// RDMA reads of the adapter's model: what arrives, in which order, how many at once, what breaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tools/sim/nic.h"

namespace weir::sim {
namespace {

constexpr std::uint32_t piece_bytes = 4096;

class NicReadTest : public ::testing::Test {
 protected:
  explicit NicReadTest(std::uint32_t max_rd_atomic = 16)
      : fabric({}, {}, 1),
        left(fabric, 0, {.max_rd_atomic = max_rd_atomic}),
        right(fabric, 1, {}),
        theirs(64 * piece_bytes),
        ours(64 * piece_bytes) {
    a = left.create_qp(128);
    b = right.create_qp(128);
    left.connect_qp(a, 1, b);
    right.connect_qp(b, 0, a);
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      theirs[i] = static_cast<std::byte>(i / piece_bytes * 7 + i);
    }
    rkey = right.register_memory(address(theirs), theirs.size(), Access::all);
  }

  static std::uint64_t address(const std::vector<std::byte>& memory, std::size_t offset = 0) {
    return reinterpret_cast<std::uint64_t>(memory.data() + offset);
  }

  // Reads `bytes` at `offset` of theirs to the same place of ours.
  void read(std::size_t offset, std::uint32_t bytes, std::uint32_t key) {
    left.post_send(a, {next_id++, LaneId{0}, Opcode::read, true, false, bytes, 1,
                       address(ours, offset), address(theirs, offset), key});
  }
  void read_piece(std::size_t i) { read(i * piece_bytes, piece_bytes, rkey); }

  void send(Nic& from, QpNumber qp, std::uint64_t id, std::uint32_t bytes = 8) {
    from.post_send(qp, {id, LaneId{0}, Opcode::send, true, false, bytes, 1, address(text)});
  }
  void post_receive(std::uint32_t bytes = 64) {
    const ReceivePost post{BufferId{0}, bytes, 1, address(buffer)};
    right.post_receives({&post, 1});
  }

  std::vector<Completion> poll(Nic& nic) {
    std::vector<Completion> out;
    QpCompletion completion;
    while (nic.poll(completion)) out.push_back(completion.completion);
    return out;
  }
  std::vector<CompletionStatus> statuses(Nic& nic) {
    std::vector<CompletionStatus> out;
    for (const Completion& completion : poll(nic)) out.push_back(completion.status);
    return out;
  }
  void run(Duration time) { fabric.events.run_until(fabric.events.now() + time); }

  // Until the left adapter made so many completions. Returns how long that took.
  Duration run_until_done(std::size_t completions) {
    const Time start = fabric.events.now();
    while (left.completions_made() < completions && fabric.events.step()) {
    }
    return fabric.events.now() - start;
  }

  Fabric fabric;
  Nic left;
  Nic right;
  std::vector<std::byte> theirs;
  std::vector<std::byte> ours;
  std::vector<std::byte> text = std::vector<std::byte>(64);
  std::vector<std::byte> buffer = std::vector<std::byte>(64);
  QpNumber a{};
  QpNumber b{};
  std::uint32_t rkey = 0;
  std::uint64_t next_id = 0;
};

using Statuses = std::vector<CompletionStatus>;
using enum CompletionStatus;

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
