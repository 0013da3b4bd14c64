// RDMA of the adapter's model: what arrives and when, in which order, how many at once, what is
// repeated, what breaks. Two adapters have a connected pair; left touches memory of right. That
// operations bring what they say is checked at every one in each world (one_sided.h), and on real
// adapters by contract/rxe_rdma_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tools/sim/nic.h"

namespace weir::sim {
namespace {

using Statuses = std::vector<CompletionStatus>;
using enum CompletionStatus;

constexpr std::uint32_t piece_bytes = 4096;

class NicRdmaTest : public ::testing::Test {
 protected:
  explicit NicRdmaTest(std::uint32_t max_rd_atomic = 16, bool loses_fetches = false)
      : fabric({}, {}, 1),
        left(fabric, 0, {.max_rd_atomic = max_rd_atomic, .loses_fetches = loses_fetches}),
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
    before = theirs;
    rkey = right.register_memory(address(theirs), theirs.size(), Access::all);
  }

  static std::uint64_t address(const std::vector<std::byte>& memory, std::size_t offset = 0) {
    return reinterpret_cast<std::uint64_t>(memory.data() + offset);
  }

  bool is_untouched(std::size_t i) const { return piece_equals(i, theirs, before); }
  // Whether all of piece `i` of theirs is as we wrote it.
  bool is_written(std::size_t i) const { return piece_equals(i, theirs, ours); }
  static bool piece_equals(std::size_t i, const std::vector<std::byte>& one,
                           const std::vector<std::byte>& other) {
    const auto at = static_cast<std::ptrdiff_t>(i * piece_bytes);
    return std::equal(one.begin() + at, one.begin() + at + piece_bytes, other.begin() + at);
  }

  // From or to `local` of ours and `remote` of theirs.
  WorkRequest request(Opcode opcode, std::size_t local, std::uint32_t bytes, std::size_t remote,
                      std::uint32_t key) {
    return {
        0,  LaneId{0}, opcode, true, false, bytes, 1, address(ours, local), address(theirs, remote),
        key};
  }
  void post(WorkRequest request) {
    request.id = next_id++;
    left.post_send(a, request);
  }
  // Reads `bytes` at `offset` of theirs to the same place of ours.
  void read(std::size_t offset, std::uint32_t bytes, std::uint32_t key) {
    post(request(Opcode::read, offset, bytes, offset, key));
  }
  void read_piece(std::size_t i) { read(i * piece_bytes, piece_bytes, rkey); }

  // Writes `bytes` at `offset` of ours to the same place of theirs.
  void write(std::size_t offset, std::uint32_t bytes, std::uint32_t key, bool inlined = false) {
    WorkRequest made = request(Opcode::write, offset, bytes, offset, key);
    made.inlined = inlined;
    post(made);
  }
  void fill_ours() {
    for (std::size_t i = 0; i < ours.size(); ++i) ours[i] = static_cast<std::byte>(i * 3 + 1);
  }
  void write_piece(std::size_t i) { write(i * piece_bytes, piece_bytes, rkey); }
  // Atomics on word `at` of theirs; the old value lands in word `to` of ours.
  void add(std::size_t at, std::uint64_t operand, std::size_t to) {
    WorkRequest made = request(Opcode::fetch_add, to * 8, 8, at * 8, rkey);
    made.operand = operand;
    post(made);
  }
  void swap(std::size_t at, std::uint64_t compare, std::uint64_t operand, std::size_t to) {
    WorkRequest made = request(Opcode::compare_swap, to * 8, 8, at * 8, rkey);
    made.operand = operand;
    made.compare = compare;
    post(made);
  }
  static std::uint64_t& word(std::vector<std::byte>& memory, std::size_t at) {
    return *reinterpret_cast<std::uint64_t*>(memory.data() + at * 8);
  }

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
  std::vector<std::byte> before;  // of theirs
  std::vector<std::byte> ours;
  std::vector<std::byte> text = std::vector<std::byte>(64);
  std::vector<std::byte> buffer = std::vector<std::byte>(64);
  QpNumber a{};
  QpNumber b{};
  std::uint32_t rkey = 0;
  std::uint64_t next_id = 0;
};

// ---- of each operation ----

class EachNicOperation : public NicRdmaTest, public ::testing::WithParamInterface<Opcode> {
 protected:
  EachNicOperation() { fill_ours(); }
  bool writes() const { return GetParam() == Opcode::write; }
  // One of 8 bytes at the begin of piece `i`, there and here.
  void operate(std::size_t i) { operate(i * piece_bytes, rkey); }
  void operate(std::size_t offset, std::uint32_t key) {
    WorkRequest made = request(GetParam(), offset, 8, offset, key);
    made.operand = 1;
    post(made);
  }
  // That of piece `i` was executed at the peer; that its answer is here.
  bool is_done(std::size_t i) {
    const std::size_t at = i * piece_bytes / 8;
    return GetParam() == Opcode::read ? has_answer(i) : word(theirs, at) != word(before, at);
  }
  bool has_answer(std::size_t i) {
    const std::size_t at = i * piece_bytes / 8;
    return word(ours, at) == word(before, at);
  }
  void expect_both_are_broken() {
    EXPECT_TRUE(poll(right).empty());  // the target hears nothing
    send(right, b, 0);
    EXPECT_EQ(statuses(right), Statuses{wr_flush_err});
  }
};

INSTANTIATE_TEST_SUITE_P(Verbs, EachNicOperation,
                         ::testing::Values(Opcode::write, Opcode::read, Opcode::fetch_add),
                         [](const auto& info) {
                           return info.param == Opcode::write  ? "write"
                                  : info.param == Opcode::read ? "read"
                                                               : "fetch_add";
                         });

TEST_P(EachNicOperation, IsOverWhenItIsAnsweredAndTakesNothingOfThePeer) {
  operate(0);
  run(microseconds(1));
  EXPECT_FALSE(is_done(0));
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), Statuses{success});
  EXPECT_TRUE(is_done(0));
  EXPECT_TRUE(writes() || has_answer(0));
  EXPECT_EQ(theirs[9], before[9]);
  EXPECT_TRUE(poll(right).empty());
  EXPECT_EQ(right.rnr_naks(), 0u);
}

TEST_P(EachNicOperation, WaitsBehindASendWithoutAReceive) {
  send(left, a, next_id++);
  operate(0);
  run(microseconds(100));
  EXPECT_EQ(right.rnr_naks(), 1u);
  EXPECT_FALSE(is_done(0));
  post_receive();
  run_until_done(2);
  EXPECT_TRUE(is_done(0));
  EXPECT_EQ(statuses(left), (Statuses{success, success}));
}

TEST_P(EachNicOperation, WithABadKeyBreaksBothEndsAfterWhatCameBefore) {
  operate(0);
  operate(piece_bytes, rkey + 1);
  operate(2);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, rem_access_err, wr_flush_err}));
  EXPECT_TRUE(is_done(0));
  EXPECT_FALSE(is_done(1) || is_done(2));
  expect_both_are_broken();
}

TEST_P(EachNicOperation, OfMemoryWithoutTheRightIsRefused) {
  const Access needed = writes()                     ? Access::remote_write
                        : GetParam() == Opcode::read ? Access::remote_read
                                                     : Access::remote_atomic;
  Access others = Access::local_write;
  for (const Access right_of :
       {Access::remote_write, Access::remote_read, Access::remote_atomic}) {
    if (right_of != needed) others = others | right_of;
  }
  rkey = right.register_memory(address(theirs), theirs.size(), others);
  operate(0);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), Statuses{rem_access_err});
  EXPECT_FALSE(is_done(0));
  expect_both_are_broken();
}

TEST_P(EachNicOperation, OutsideTheMemoryIsRefused) {
  rkey = right.register_memory(address(theirs, 64), 128, Access::all);
  for (const std::size_t offset : {std::size_t{56}, std::size_t{192}}) {
    const QpNumber from = a = left.create_qp(8);
    const QpNumber to = right.create_qp(8);
    next_id = 0;
    left.connect_qp(from, 1, to);
    right.connect_qp(to, 0, from);
    operate(64, rkey);
    operate(184, rkey);
    operate(offset, rkey);
    run(milliseconds(1));
    EXPECT_EQ(statuses(left), (Statuses{success, success, rem_access_err})) << offset;
  }
}

TEST_P(EachNicOperation, ToADeadPeerEndsInSilenceAndFlush) {
  right.power_off();
  operate(0);
  operate(1);
  EXPECT_GE(run_until_done(1), fabric.timing.retries);
  EXPECT_EQ(statuses(left), (Statuses{retry_exc_err, wr_flush_err}));
  operate(2);
  EXPECT_EQ(statuses(left), Statuses{wr_flush_err});
}

TEST_P(EachNicOperation, LandsNowhereWhenItsPairIsBroken) {
  operate(0);
  run(microseconds(1));  // the request is under way
  (writes() ? right : left).break_qp(writes() ? b : a, general_err);
  if (writes()) send(right, b, 0);  // an idle pair breaks at its next send
  run(seconds(2));
  EXPECT_FALSE(writes() ? is_done(0) : has_answer(0));
  EXPECT_EQ(statuses(left), Statuses{writes() ? retry_exc_err : general_err});
}

// ---- reads ----

class NicReadTest : public NicRdmaTest {
 protected:
  using NicRdmaTest::NicRdmaTest;
};

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

TEST_F(NicReadTest, AKeyOfAnotherAdapterIsBad) {
  read(0, 8, left.register_memory(address(theirs), theirs.size(), Access::all));
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), Statuses{rem_access_err});
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

// ---- writes ----

class NicWriteTest : public NicRdmaTest {
 protected:
  NicWriteTest() { fill_ours(); }
};

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

TEST_F(NicWriteTest, RemoteWritingWithoutLocalWritingIsAViolation) {
  right.register_memory(address(theirs), 8, Access::remote_write);
  EXPECT_EQ(fabric.violations.size(), 1u);
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

// Half a second on the line is not silence.
TEST_F(NicWriteTest, ALongOneIsWaitedFor) {
  fabric.timing.bytes_per_us = 1;
  write(0, 64 * piece_bytes, rkey);
  read(0, 64 * piece_bytes, rkey);
  fabric.timing.retries = milliseconds(100);
  run_until_done(2);
  EXPECT_EQ(statuses(left), (Statuses{success, success}));
}

// ---- atomics ----

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

TEST_F(NicAtomicTest, SwapsIfEqualAndTellsWhatWasThere) {
  swap(0, 100, 7, 0);
  swap(0, 100, 8, 1);
  run(milliseconds(1));
  EXPECT_EQ(statuses(left), (Statuses{success, success}));
  EXPECT_EQ(word(ours, 0), 100u);
  EXPECT_EQ(word(ours, 1), 7u);
  EXPECT_EQ(word(theirs, 0), 7u);
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

}  // namespace
}  // namespace weir::sim
