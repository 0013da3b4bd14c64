// The model of the adapter, against what verbs promises and what adapters are known to do.
#include "tools/sim/nic.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace weir::sim {
namespace {

class NicTest : public ::testing::Test {
 protected:
  explicit NicTest(Nic::Config right_config = {})
      : fabric({}, {}, 1), left(fabric, 0, {}), right(fabric, 1, right_config) {
    a = left.create_qp(8);
    b = right.create_qp(8);
    left.connect_qp(a, 1, b);
    right.connect_qp(b, 0, a);
  }

  void post_receives(std::uint32_t count, std::uint32_t bytes = 64) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t id = next_buffer++;
      const ReceivePost post{BufferId{id}, bytes, 0,
                             reinterpret_cast<std::uint64_t>(memory[id].data())};
      right.post_receives({&post, 1});
    }
  }

  void send(std::uint64_t id, bool signalled, std::uint32_t bytes = 8, bool inlined = false) {
    left.post_send(a, {id, LaneId{0}, Opcode::send, signalled, inlined, bytes, 0,
                       reinterpret_cast<std::uint64_t>(source.data())});
  }

  std::vector<Completion> poll(Nic& nic) {
    std::vector<Completion> out;
    QpCompletion completion;
    while (nic.poll(completion)) out.push_back(completion.completion);
    return out;
  }

  void run(Duration time) { fabric.events.run_until(fabric.events.now() + time); }

  Fabric fabric;
  Nic left;
  Nic right;
  QpNumber a;
  QpNumber b;
  std::uint32_t next_buffer = 0;
  std::array<std::array<std::byte, 64>, 32> memory{};
  std::array<std::byte, 64> source{};
};

TEST_F(NicTest, DeliversInOrderAndCompletesOnlyWhatIsSignalled) {
  post_receives(4);
  for (std::uint64_t i = 0; i < 4; ++i) {
    source[0] = static_cast<std::byte>(i + 1);
    send(i, i == 2, 8, true);
  }
  run(milliseconds(1));
  const auto received = poll(right);
  ASSERT_EQ(received.size(), 4u);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(received[i].id, i);
    EXPECT_EQ(memory[i][0], static_cast<std::byte>(i + 1));
  }
  const auto done = poll(left);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].id, 2u);
}

TEST_F(NicTest, ReadsTheMemoryOfASendWhenItLeaves) {
  post_receives(1);
  send(0, true);
  source[0] = std::byte{9};  // too early: the adapter has not read it yet
  run(milliseconds(1));
  EXPECT_EQ(memory[0][0], std::byte{9});
}

TEST_F(NicTest, WaitsAndRepeatsInOrderWhenThereIsNoReceive) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    source[0] = static_cast<std::byte>(i);
    send(i, true, 8, true);
  }
  run(microseconds(100));
  EXPECT_EQ(right.rnr_naks(), 1u);  // those behind it are not answered
  post_receives(3);
  run(microseconds(400));
  EXPECT_TRUE(poll(right).empty());  // until the timer
  run(milliseconds(1));
  const auto received = poll(right);
  ASSERT_EQ(received.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(memory[i][0], static_cast<std::byte>(i));
  EXPECT_EQ(poll(left).size(), 3u);
  run(seconds(2));
  EXPECT_TRUE(poll(left).empty());
}

TEST_F(NicTest, GivesUpOnSilenceAndFlushesTheRest) {
  post_receives(8);
  fabric.cut(0, 1);
  send(0, false);
  send(1, true);
  run(seconds(1));
  const auto done = poll(left);
  ASSERT_EQ(done.size(), 2u);  // errors complete even what is not signalled
  EXPECT_EQ(done[0].status, CompletionStatus::retry_exc_err);
  EXPECT_EQ(done[1].status, CompletionStatus::wr_flush_err);
  send(2, false);
  EXPECT_EQ(poll(left).at(0).status, CompletionStatus::wr_flush_err);
}

TEST_F(NicTest, AReceiveThatIsTooSmallBreaksBothEnds) {
  post_receives(1, 4);
  send(0, false, 8);
  run(milliseconds(1));
  EXPECT_EQ(poll(right).at(0).status, CompletionStatus::loc_len_err);
  EXPECT_EQ(poll(left).at(0).status, CompletionStatus::rem_op_err);
}

TEST_F(NicTest, CountsTheEntriesOfTheSendQueue) {
  post_receives(20);
  for (std::uint64_t i = 0; i < 8; ++i) send(i, i == 3);
  run(milliseconds(1));
  EXPECT_TRUE(fabric.violations.empty());
  send(8, true);  // all are done, but nobody has polled a completion
  EXPECT_EQ(fabric.violations.size(), 1u);
  poll(left);
  for (std::uint64_t i = 9; i < 12; ++i) send(i, false);
  EXPECT_EQ(fabric.violations.size(), 1u);
}

TEST_F(NicTest, HardwareFiresTheLimitEventAtOnceWhenArmedBelow) {
  int fired = 0;
  right.on_limit = [&] { ++fired; };
  post_receives(2);
  right.arm({4});
  run(microseconds(1));
  EXPECT_EQ(fired, 1);
  post_receives(4);
  right.arm({4});
  for (std::uint64_t i = 0; i < 5; ++i) send(i, false);
  run(milliseconds(1));
  EXPECT_EQ(fired, 2);  // once: it has to be armed again
  right.arm({1u << 20});
  EXPECT_EQ(fabric.violations.size(), 1u);  // EINVAL
}

class RxeNicTest : public NicTest {
 protected:
  RxeNicTest() : NicTest({.limit_style = SrqLimitStyle::rxe}) {}
};

TEST_F(RxeNicTest, LooksOnlyWhenAReceiveIsConsumed) {
  int fired = 0;
  right.on_limit = [&] { ++fired; };
  post_receives(3);
  right.arm({4});
  run(milliseconds(1));
  EXPECT_EQ(fired, 0);
  send(0, false);
  send(1, false);
  run(milliseconds(1));
  EXPECT_EQ(fired, 1);
}

TEST_F(NicTest, ADestroyedPairAnswersNoMore) {
  post_receives(4);
  send(0, true);
  right.destroy_qp(b);
  run(seconds(1));
  EXPECT_EQ(poll(left).at(0).status, CompletionStatus::retry_exc_err);
  EXPECT_EQ(right.posted(), 4u);
}

}  // namespace
}  // namespace weir::sim
