#include "tools/sim/scenario/trace_file.h"

#include <gtest/gtest.h>

#include "tools/sim/scenario/scenario_file.h"

namespace weir::sim {
namespace {

std::string only(const std::string& text) {
  const TraceFile file = parse_trace(text, "t.csv", 8, 20);
  EXPECT_EQ(file.problems.size(), 1u) << text;
  return file.problems.empty() ? "" : config::to_text(file.problems.front());
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TraceFile, LinesAreMessages) {
  const TraceFile file =
      parse_trace("# a comment\n0, 0, 1, 64KiB\n\n10us,1,2,1MiB,1  # after\n", "t.csv", 8, 20);
  ASSERT_TRUE(file.problems.empty()) << config::to_text(file.problems.front());
  ASSERT_EQ(file.messages.size(), 2u);
  EXPECT_EQ(file.messages[0].bytes, 65'536u);
  EXPECT_EQ(file.messages[0].after, UINT32_MAX);
  EXPECT_EQ(file.messages[1].cycle, 500u);
  EXPECT_EQ(file.messages[1].source, 1u);
  EXPECT_EQ(file.messages[1].target, 2u);
  EXPECT_EQ(file.messages[1].after, 0u);
}

TEST(TraceFile, MistakesAreNamedWithTheirLine) {
  EXPECT_TRUE(says(only("0, 0, 1, 64\n0, 0\n"), "t.csv:2: a message is"));
  EXPECT_TRUE(says(only("soon, 0, 1, 64"), "t.csv:1: time: "));
  EXPECT_TRUE(says(only("10, 0, 1, 64"), "t.csv:1: time: "));
  EXPECT_TRUE(says(only("0, 8, 1, 64"), "source: '8' is out of range (it takes: number, 0 to 7)"));
  EXPECT_TRUE(says(only("0, 0, -1, 64"), "destination: '-1' is"));
  EXPECT_TRUE(says(only("0, 3, 3, 64"), "the same node"));
  EXPECT_TRUE(says(only("0, 0, 1, 64KB"), "bytes: "));
  EXPECT_TRUE(says(only("0, 0, 1, 2GiB"), "0 to 1GiB"));
  EXPECT_TRUE(says(only("0, 0, 1, 64, 1"), "no earlier message"));
  EXPECT_TRUE(says(only("0, 0, 1, 64\n0, 1, 2, 64, 2"), "t.csv:2: after: '2' is out of range"));
  EXPECT_TRUE(says(only("# nothing\n"), "t.csv: there is no message"));
}

TEST(TraceFile, AScenarioNamesIt) {
  const auto problem = [](const std::string& text) {
    const ScenarioFile file = parse_scenario(text, "/nowhere/s.yaml");
    return file.problems.empty() ? "" : config::to_text(file.problems.front());
  };
  EXPECT_TRUE(says(problem("pattern: trace\n"), "belong together"));
  EXPECT_TRUE(says(problem("trace: t.csv\n"), "belong together"));
  EXPECT_TRUE(
      says(problem("pattern: trace\ntrace: t.csv\n"), "2: trace: /nowhere/t.csv cannot be read"));
}

}  // namespace
}  // namespace weir::sim
