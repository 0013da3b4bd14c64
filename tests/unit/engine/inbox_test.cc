// What arrived is handed up in order, once, by one thread; a buffer is released after its messages.
#include "transport/engine/inbox.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <thread>

namespace weir {
namespace {

struct Handler {
  void on_message(const Delivery& message) {
    said.push_back(static_cast<int>(message.tag));
    if (within) within(message);
  }
  void on_retired(SendSlot*, bool) { said.push_back(100); }
  void on_transfer(const TransferEnd& end) { said.push_back(1000 + static_cast<int>(end.token)); }
  void on_failure(const Failure&) { said.push_back(200); }
  void on_refusal(const Refusal&) { said.push_back(300); }
  void on_warning(const std::string&) { said.push_back(400); }
  void on_breakdown(const std::string&) { said.push_back(500); }

  std::vector<int> said;
  std::function<void(const Delivery&)> within;
};

struct InboxTest : testing::Test {
  void arrive(std::uint8_t tag, std::uint32_t buffer, bool last) {
    messages.push_back({PeerId{0}, BufferId{buffer}, nullptr, nullptr, 0, tag, last});
  }
  void end(std::uint64_t token) {
    const TransferEnd end{token, true};
    inbox.tell(end);
  }
  // As a thread in `progress` does it.
  int hand_up(int most = 1000) {
    if (!inbox.has_taken()) inbox.take(messages);
    inbox.enter();
    const struct Leave {
      Inbox& inbox;
      ~Leave() { inbox.leave(); }
    } leave{inbox};
    auto goes_on = [most](int count) { return count < most; };
    return inbox.hand_up(handler, goes_on,
                         [this](BufferId buffer) { released.push_back(index(buffer)); });
  }

  using Numbers = std::vector<int>;
  using Buffers = std::vector<std::size_t>;
  static std::size_t index(BufferId buffer) { return static_cast<std::size_t>(buffer); }

  Inbox inbox;
  std::vector<Delivery> messages;
  Handler handler;
  Buffers released;
};

TEST_F(InboxTest, MessagesComeFirstThenNoticesThenEnds) {
  end(7);
  inbox.tell("a warning");
  inbox.tell(Failure{});
  arrive(1, 0, true);
  EXPECT_TRUE(inbox.has_news());
  EXPECT_EQ(hand_up(), 4);
  EXPECT_EQ(handler.said, (Numbers{1, 400, 200, 1007}));
  EXPECT_FALSE(inbox.has_news() || inbox.has_taken());
  EXPECT_EQ(hand_up(), 0);
}

TEST_F(InboxTest, WhatIsLeftIsForTheNextCall) {
  for (std::uint8_t tag = 1; tag <= 3; ++tag) arrive(tag, tag, true);
  end(1);
  end(2);
  EXPECT_EQ(hand_up(2), 2);
  EXPECT_TRUE(inbox.has_taken());
  EXPECT_EQ(hand_up(2), 2);
  EXPECT_TRUE(inbox.has_taken());
  EXPECT_EQ(hand_up(2), 1);
  EXPECT_EQ(handler.said, (Numbers{1, 2, 3, 1001, 1002}));
}

TEST_F(InboxTest, ABufferIsReleasedWithItsLastMessage) {
  arrive(1, 5, false);
  arrive(2, 5, true);
  EXPECT_EQ(hand_up(1), 1);
  EXPECT_EQ(released, Buffers{});
  EXPECT_EQ(hand_up(), 1);
  EXPECT_EQ(released, Buffers{5});
}

TEST_F(InboxTest, AMessageInHandKeepsItsBuffer) {
  arrive(1, 5, false);
  arrive(2, 5, true);
  arrive(3, 6, true);
  handler.within = [&](const Delivery& message) {
    if (message.tag != 1) return;
    hand_up();
    EXPECT_EQ(released, Buffers{6});
  };
  hand_up();
  EXPECT_EQ(handler.said, (Numbers{1, 2, 3}));
  EXPECT_EQ(released, (Buffers{6, 5}));
}

TEST_F(InboxTest, AHandlerThatThrowsHasHadItsMessage) {
  arrive(1, 5, true);
  arrive(2, 6, true);
  handler.within = [](const Delivery& message) {
    if (message.tag == 1) throw std::runtime_error("of the handler");
  };
  EXPECT_THROW(hand_up(), std::runtime_error);
  EXPECT_EQ(inbox.owner(), ThreadMark::none);
  EXPECT_EQ(released, Buffers{5});
  EXPECT_EQ(hand_up(), 1);
  EXPECT_EQ(handler.said, (Numbers{1, 2}));
}

TEST_F(InboxTest, HasAnOwnerUntilTheOuterCallLeaves) {
  arrive(1, 5, true);
  handler.within = [&](const Delivery&) {
    hand_up();
    EXPECT_EQ(inbox.owner(), this_thread());
  };
  hand_up();
  EXPECT_EQ(inbox.owner(), ThreadMark::none);
}

TEST_F(InboxTest, KnowsWhatOnlyTheApplicationIsToHear) {
  inbox.tell("a warning");
  inbox.tell(Retired{});
  EXPECT_FALSE(inbox.has_news_for_application(true));
  inbox.tell(PeerName{1, 2});
  EXPECT_TRUE(inbox.has_news_for_application(false));
  inbox.take(messages);
  EXPECT_FALSE(inbox.has_news_for_application(false));
  EXPECT_TRUE(inbox.has_news_for_application(true));
}

}  // namespace
}  // namespace weir
