// Every outcome has words of its own, and every failure a remedy.
#include "transport/base/status.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "transport/core/bad_frame.h"

namespace weir {
namespace {

template <typename Enum>
void expect_words(int last) {
  std::set<std::string> seen;
  for (int i = 0; i <= last; ++i) {
    const std::string text = to_text(static_cast<Enum>(i));
    EXPECT_NE(text.substr(0, 7), "unknown") << i;
    EXPECT_NE(text.back(), '.') << text;
    EXPECT_TRUE(seen.insert(text).second) << "twice: " << text;
  }
  EXPECT_EQ(std::string(to_text(static_cast<Enum>(last + 1))).substr(0, 7), "unknown");
}

TEST(StatusText, CoversEveryValue) {
  expect_words<Status>(static_cast<int>(Status::elsewhere));
  expect_words<FailReason>(static_cast<int>(FailReason::port_down));
  expect_words<FrameFault>(static_cast<int>(FrameFault::part));
  expect_words<CompletionStatus>(static_cast<int>(CompletionStatus::general_err));
}

TEST(StatusText, TellsAPersonWhatToDo) {
  for (int reason = 0; reason <= static_cast<int>(FailReason::port_down); ++reason) {
    for (int status = 0; status <= static_cast<int>(CompletionStatus::general_err); ++status) {
      const std::string text =
          remedy(static_cast<FailReason>(reason), static_cast<CompletionStatus>(status));
      EXPECT_GT(text.size(), 20u);
    }
  }
}

TEST(StatusText, OneHostIsNotToldToLookForAnother) {
  const auto told = [](bool same_host) {
    return std::string(remedy(FailReason::connect_timeout, CompletionStatus::success, same_host));
  };
  EXPECT_NE(told(false).find("two hosts"), std::string::npos);
  EXPECT_EQ(told(true).find("two hosts"), std::string::npos);
  EXPECT_NE(told(true).find("btl_weir_connect_timeout"), std::string::npos);
}

}  // namespace
}  // namespace weir
