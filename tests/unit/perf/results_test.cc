// What weir perf makes of what was measured.
#include "tools/perf/results.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

namespace weir::tools::perf {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

const Test& latency = tests[0];
const Test& stream = tests[1];

const About about{.here = "node1 rxe0:1", .there = "node2's rxe0:1", .seconds = 20};

TEST(Results, AreMediansAndTheRatioIsThatOfNeighbours) {
  Results results;
  results.add(latency, 8, {.us = 10, .us_99 = 30}, {.us = 10, .us_99 = 11});
  results.add(latency, 8, {.us = 40, .us_99 = 90}, {.us = 20, .us_99 = 21});
  results.add(latency, 8, {.us = 30, .us_99 = 60}, {.us = 10, .us_99 = 12});
  const std::vector<Row> rows = results.rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].weir.us, 30);
  EXPECT_EQ(rows[0].weir.us_99, 60);
  EXPECT_EQ(rows[0].verbs.us, 10);
  EXPECT_EQ(rows[0].ratio, 2);  // of 1, 2 and 3
  EXPECT_EQ(rows[0].repeats, 3u);
}

TEST(Results, OfAnEvenNumberOfRepeatsAreBetweenTheMiddleOnes) {
  Results results;
  results.add(stream, 1000, {.per_second = 1000}, {.per_second = 500});
  results.add(stream, 1000, {.per_second = 3000}, {.per_second = 1000});
  const std::vector<Row> rows = results.rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].weir.per_second, 2000);
  EXPECT_EQ(rows[0].mb_per_second(rows[0].weir), 2);
  EXPECT_EQ(rows[0].ratio, 2.5);
}

std::vector<Row> some_rows() {
  Results results;
  results.add(latency, 1, {.us = 1.5, .us_99 = 2.5}, {.us = 1, .us_99 = 1.1});
  results.add(latency, 1024, {.us = 3, .us_99 = 4}, {.us = 2, .us_99 = 2.1});
  results.add(tests[3], 1, {.us = 5, .us_99 = 6}, {.us = 4, .us_99 = 4.1});
  results.add(stream, 1, {.per_second = 2e6}, {.per_second = 1e6});
  return results.rows();
}

TEST(Results, TheTableHasARowForEachSizeAndADashForWhatIsMissing) {
  const std::string text = to_text(some_rows(), about);
  EXPECT_THAT(text,
              ContainsRegex("\n +1B +1\\.50 +2\\.50 +1\\.00 +1\\.50 +5\\.00 +6\\.00 +4\\.00"));
  EXPECT_THAT(text, ContainsRegex("\n +1KiB +3\\.00 +4\\.00 +2\\.00 +1\\.50 +- +- +- +-\n"));
  EXPECT_THAT(text, ContainsRegex("\n +1B +2000k +2\\.00 +1\\.00 +2\\.00\n"));
  EXPECT_THAT(text, Not(HasSubstr("both ways"))) << "a block of a test that did not run";
}

TEST(Results, EachLineOfCsvHasAllFields) {
  const std::string text = to_csv(some_rows());
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 12) << line;
  }
  EXPECT_EQ(count, 5);
}

TEST(Results, JsonNamesUnits) {
  const between::Json json = to_json(some_rows(), about);
  ASSERT_THAT(json["results"], SizeIs(4));
  EXPECT_EQ(json["results"][0]["weir"]["us"], 1.5);
  EXPECT_EQ(json["results"][2]["weir"]["mb_per_second"], 2);
}

TEST(Results, LargeNumbersLeaveColumnsApart) {
  Results results;
  results.add(latency, 1 << 26, {.us = 2720697, .us_99 = 2720698}, {.us = 99999, .us_99 = 1});
  results.add(stream, 1 << 26, {.per_second = 0.31}, {.per_second = 0.29});
  const std::string text = to_text(results.rows(), about);
  EXPECT_THAT(text, ContainsRegex("\n +64MiB +2721k +2721k +99999 +27\\.21\n"));
  EXPECT_THAT(text, ContainsRegex("\n +64MiB +0\\.31 +20\\.8 +19\\.5 +1\\.07\n"));
}

// Names come from another host.
TEST(Results, AQuoteInANameStaysInItsString) {
  EXPECT_THAT(to_gnuplot(some_rows(), about),
              AllOf(HasSubstr("'node1 rxe0:1 and node2''s rxe0:1'"), Not(HasSubstr("set output"))));
}

}  // namespace
}  // namespace weir::tools::perf
