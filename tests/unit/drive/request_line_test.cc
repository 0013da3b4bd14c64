#include "transport/drive/request_line.h"

#include <gtest/gtest.h>

#include "transport/drive/refusal_rate.h"

namespace weir {
namespace {

RequestLine::Waiting asked(std::uint64_t request, std::uint32_t rank, std::uint64_t attempt,
                           std::uint8_t key = 5) {
  return {RequestId{request}, {.from = {1, rank}, .to = {1, 0}, .key = {key}, .attempt = attempt}};
}

TEST(RequestLine, ServesWhoHasWaitedLongest) {
  RequestLine line;
  EXPECT_TRUE(line.empty());
  EXPECT_FALSE(line.add(asked(1, 7, 10)));
  EXPECT_FALSE(line.add(asked(2, 8, 10)));
  EXPECT_EQ(line.take().request, RequestId{1});
  EXPECT_EQ(line.take().request, RequestId{2});
  EXPECT_TRUE(line.empty());
}

TEST(RequestLine, ANewerRequestTakesThePlaceOfTheOlder) {
  RequestLine line;
  line.add(asked(1, 7, 10));
  line.add(asked(2, 8, 10));
  EXPECT_EQ(line.add(asked(3, 7, 11)), RequestId{1});
  EXPECT_EQ(line.add(asked(4, 7, 9)), RequestId{4});  // it was overtaken
  EXPECT_EQ(line.take().request, RequestId{3});
  EXPECT_EQ(line.take().request, RequestId{2});
  EXPECT_TRUE(line.empty());
}

TEST(RequestLine, WhoDoesNotKnowTheKeyPutsNobodyOut) {
  RequestLine line;
  line.add(asked(1, 7, 10));
  EXPECT_FALSE(line.add(asked(2, 7, 11, 6)));
  EXPECT_FALSE(line.add(asked(3, 7, 0)));  // of other software
  EXPECT_EQ(line.size(), 3u);
}

TEST(RequestLine, WhoHasAcceptedOursAsksForNothing) {
  RequestLine line;
  line.add(asked(1, 7, 10));
  line.add(asked(2, 8, 10));
  EXPECT_EQ(line.drop({1, 7}), RequestId{1});
  EXPECT_FALSE(line.drop({1, 7}));
  EXPECT_EQ(line.take().request, RequestId{2});
}

// Those who wait for a place may wait for the one that it holds.
TEST(RequestLine, WhoResumesASessionComesFirst) {
  RequestLine line;
  line.add(asked(1, 7, 10));
  RequestLine::Waiting resumes = asked(2, 8, 10);
  resumes.hello.resumes = true;
  line.add(resumes);
  EXPECT_EQ(line.take().request, RequestId{2});
  EXPECT_EQ(line.take().request, RequestId{1});
}

TEST(RequestLine, WhoIsPassedOverComesLast) {
  RequestLine line;
  line.add(asked(1, 7, 10));
  line.add(asked(2, 8, 10));
  line.pass_over();
  EXPECT_EQ(line.first().from, (PeerName{1, 8}));
  EXPECT_EQ(line.size(), 2u);
}

TEST(RefusalRate, WhoAsksAgainAndAgainIsAnsweredNowAndThen) {
  RefusalRate rate;
  Time now{seconds(5).ns};
  int answered = 0;
  for (int i = 0; i < 10'000; ++i) answered += rate.take(now) ? 1 : 0;
  EXPECT_EQ(answered, RefusalRate::at_once);
  EXPECT_FALSE(rate.take(now + RefusalRate::each / 2));
  now = now + RefusalRate::each;
  EXPECT_TRUE(rate.take(now));
  EXPECT_FALSE(rate.take(now));
  now = now + seconds(3600);
  for (answered = 0; rate.take(now); ++answered) {
  }
  EXPECT_EQ(answered, RefusalRate::at_once);
}

}  // namespace
}  // namespace weir
