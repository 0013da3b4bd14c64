// The words of all ranks make one text.
#include "transport/btl/last_words.h"

#include <gmock/gmock.h>

namespace weir::btl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LastWords, AreSummedOrTheLargestByTheTableOfCounters) {
  LastWords sum, other;
  sum.counters.messages_sent = 5;
  sum.counters.receive_bytes_peak = 300;
  sum.registered_peak_bytes = 7;
  sum.ns = 3;
  other.counters.messages_sent = 6;
  other.counters.receive_bytes_peak = 200;
  other.registered_peak_bytes = 9;
  other.rail_losses = 1;
  other.ns = 2;
  sum.add(other);
  EXPECT_EQ(sum.counters.messages_sent, 11u);
  EXPECT_EQ(sum.counters.receive_bytes_peak, 300u);
  EXPECT_EQ(sum.registered_peak_bytes, 9u);
  EXPECT_EQ(sum.rail_losses, 1u);
  EXPECT_EQ(sum.ns, 3u);
}

TEST(LastWords, SayWhatWasMovedAndWaitedFor) {
  LastWords sum;
  sum.ns = 2'000'000'000;
  sum.counters.bytes_sent = 3 << 20;
  sum.counters.get_bytes = 1 << 20;
  sum.counters.messages_sent = 1000;
  sum.counters.gets = 4;
  sum.counters.credit_stalls = 12;
  sum.counters.connections_broken = sum.counters.connections_resumed = 2;
  sum.counters.receive_bytes_peak = 1536;
  const std::string text = summary_text(sum, 8, 8);
  EXPECT_THAT(text, HasSubstr("summary of 8 ranks, 2.0 s\n"));
  EXPECT_THAT(text, HasSubstr("moved       4.0 MiB: 3.0 MiB in 1000 messages, 1.0 MiB by 4 gets"));
  EXPECT_THAT(text, HasSubstr("rate        2.0 MiB/s, 500 messages/s"));
  EXPECT_THAT(text, HasSubstr("credits of slow receivers 12 times"));
  EXPECT_THAT(text, HasSubstr("at most 1.5 KiB for receiving"));
  EXPECT_THAT(text, HasSubstr("2 connections broke, 2 were made again"));
  EXPECT_THAT(text, Not(HasSubstr("did not answer")));
  EXPECT_THAT(summary_text(sum, 3, 8), HasSubstr("summary of 3 of 8 ranks, 2.0 s (the others did"));
  EXPECT_THAT(summary_text({}, 1, 1), HasSubstr("rate        0 B/s"));  // in no time
}

}  // namespace
}  // namespace weir::btl
