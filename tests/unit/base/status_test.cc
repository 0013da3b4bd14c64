// Every outcome has words of its own, and every failure a remedy.
#include "base/status.h"

#include <gtest/gtest.h>

#include <map>
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

// What is at fault is what a person is told to look at or to change.
TEST(StatusText, TellsAPersonWhatToDo) {
  using enum FailReason;
  using enum CompletionStatus;
  const std::map<FailReason, const char*> by_reason = {
      {atomic_in_doubt, "the peer's own output"},
      {frames_lost, "the peer's own output"},
      {connect_refused, "the peer's own output"},
      {connect_timeout, "the two hosts reach each other"},
      {connect_unreachable, "the two hosts reach each other"},
      {connect_spoilt, "the two hosts reach each other"},
      {rejected_version, "the same weir version"},
      {rejected_buffer, "btl_weir_buffer_size"},
      {rejected_stranger, "another process got its port"},
      {bad_frame, "report this as a bug"},
      {stalled, "btl_weir_window_max"},
      {vanished, "the peer's own output"},
      {no_resources, "ulimit -l"},
      {adapter_broken, "the adapter of this host"},
      {port_down, "the cable"}};
  const std::map<CompletionStatus, const char*> by_status = {
      {retry_exc_err, "btl_weir_ack_timeout"},    {rem_inv_req_err, "btl_weir_ack_timeout"},
      {rnr_retry_exc_err, "btl_weir_window_max"}, {rem_access_err, "memory that is freed"},
      {rem_op_err, "btl_weir_buffer_size"},       {loc_len_err, "btl_weir_buffer_size"}};
  const auto told = [](FailReason reason, CompletionStatus status) {
    return std::string(remedy(reason, status));
  };
  for (int i = 0; i <= static_cast<int>(port_down); ++i) {
    const auto reason = static_cast<FailReason>(i);
    for (int j = 0; j <= static_cast<int>(general_err); ++j) {
      const auto status = static_cast<CompletionStatus>(j);
      const auto because = by_reason.find(reason);  // else it is the completion that tells
      const auto also = by_status.find(status);
      const char* const word = because != by_reason.end() ? because->second
                               : also != by_status.end()  ? also->second
                                                          : "the link of the device";
      EXPECT_NE(told(reason, status).find(word), std::string::npos) << i << " " << j;
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
