#include "transport/config/resolve.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "transport/config/yaml_file.h"

namespace weir::config {
namespace {

class Resolve : public testing::Test {
 protected:
  Resolve()
      : root_(std::filesystem::temp_directory_path() /
              ("weir-config-test-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(root_ / "user" / "weir");
    variables_ = {"XDG_CONFIG_HOME=" + (root_ / "user").string()};
  }
  ~Resolve() override { std::filesystem::remove_all(root_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(root_ / name) << text;
    return (root_ / name).string();
  }

  Configuration resolved(const std::vector<Entry>& parameters = {}, const std::string& named = "") {
    std::vector<const char*> environment;
    for (const std::string& variable : variables_) environment.push_back(variable.c_str());
    Sources sources = gather(environment, named, (root_ / "system.yaml").string());
    sources.list.push_back({.layer = Layer::parameter, .entries = parameters, .problems = {}});
    return resolve(sources, Fabric::roce);
  }

  static Value initial(const Configuration& found) {
    return found.value(*find_key("window_initial"));
  }

  std::filesystem::path root_;
  std::vector<std::string> variables_;
};

TEST_F(Resolve, TheStrongerLayerWinsAndIsNamed) {
  EXPECT_EQ(initial(resolved()).where, "profile roce");
  EXPECT_EQ(resolved().value(*find_key("window_max")).where, "default");

  const std::string system = write("system.yaml", "window_initial: 17\n");
  EXPECT_EQ(initial(resolved()).text, "17");
  EXPECT_EQ(initial(resolved()).where, system + ":1");

  const std::string user = write("user/weir/weir.yaml", "\nwindow_initial: 18\n");
  EXPECT_EQ(initial(resolved()).where, user + ":2");

  const std::string named = write("named.yaml", "window_initial: 19\n");
  variables_.push_back("WEIR_CONFIG=" + named);
  EXPECT_EQ(initial(resolved()).where, named + ":1");

  const std::string other = write("other.yaml", "window_initial: 20\n");
  EXPECT_EQ(initial(resolved({}, other)).where, other + ":1") << "named by an MCA parameter";

  variables_.push_back("WEIR_WINDOW_INITIAL=21");
  EXPECT_EQ(initial(resolved()).where, "environment variable WEIR_WINDOW_INITIAL");

  const Configuration last = resolved({{"window_initial", "22", "MCA parameter", 0}});
  EXPECT_EQ(initial(last).where, "MCA parameter");
  EXPECT_EQ(last.settings.window_initial, 22);
  EXPECT_TRUE(last.problems.empty());
}

TEST_F(Resolve, WarnsOfFilesAndOfVariables) {
  std::filesystem::create_symlink("system.yaml", root_ / "system.yaml");  // round and round
  const Sources sources =
      gather(std::array{"WEIR_WINDW_MAX=1"}, "", (root_ / "system.yaml").string());
  ASSERT_EQ(sources.warnings.size(), 2u);
  EXPECT_NE(sources.warnings[0].find("system.yaml has no effect, because it cannot be read"),
            std::string::npos);
  EXPECT_NE(sources.warnings[1].find("WEIR_WINDOW_MAX"), std::string::npos);
}

TEST_F(Resolve, NamedNoneOnlyParametersCount) {
  write("system.yaml", "window_initial: 17\n");
  write("user/weir/weir.yaml", "window_initial: 18\n");
  variables_.push_back("WEIR_WINDOW_INITIAL=21");
  EXPECT_EQ(initial(resolved({}, "none")).where, "profile roce");
  variables_.push_back("WEIR_CONFIG=none");
  EXPECT_EQ(initial(resolved()).where, "profile roce");
  EXPECT_EQ(initial(resolved({{"window_initial", "22", "MCA parameter", 0}})).text, "22");
}

TEST_F(Resolve, AllProblemsOfAllLayersAreNamed) {
  const std::string file = write("system.yaml",
                                 "windw_max: 3\n"
                                 "rnr_timer: 640\n"
                                 "buffer_size: 1\n"
                                 "mtu: [1]\n"
                                 "window_max: 64\n"
                                 "window_max: 65\n");
  variables_.push_back("WEIR_RETRY_COUNT=7");
  const Configuration found =
      resolved({{"tokens", "", "MCA parameter btl_weir_tokens", 0}});
  std::vector<std::string> texts;
  for (const Problem& problem : found.problems) texts.push_back(to_text(problem));
  const std::vector<std::string> expected{
      file + ":1: windw_max: there is no such key; did you mean window_max?",
      file +
          ":2: rnr_timer: '640' has no unit; use ns, us, ms, s, min or h (it takes: auto or "
          "duration, 10us to 655360us)",
      file + ":3: buffer_size: '1' is out of range (it takes: size, 1KiB to 1MiB)",
      file + ":4: mtu: is a list, but only a plain value is taken",
      file + ":6: window_max: is set twice; first in line 5",
      "environment variable WEIR_RETRY_COUNT: '7' is out of range (it takes: number, 0 to 6)",
      "MCA parameter btl_weir_tokens: '' is no whole number (it takes: number, 1 to 65535)"};
  EXPECT_EQ(texts, expected);
  EXPECT_EQ(found.settings.window_max, 64) << "what is right still counts";
  EXPECT_EQ(found.settings.buffer_bytes, 8704);
}

TEST_F(Resolve, AContradictionIsWhereTheLastValueWasSet) {
  const std::string file = write("system.yaml", "window_max: 100\n");
  variables_.push_back("WEIR_WINDOW_INITIAL=200");
  ASSERT_EQ(resolved().problems.size(), 1u);
  EXPECT_EQ(to_text(resolved().problems[0]),
            "environment variable WEIR_WINDOW_INITIAL: window_initial (200) must not exceed "
            "window_max (100)");
  variables_.pop_back();
  write("system.yaml", "window_initial: 200\nwindow_max: 100\n");
  ASSERT_EQ(resolved().problems.size(), 1u);
  EXPECT_EQ(to_text(resolved().problems[0]),
            file + ":1: window_initial: window_initial (200) must not exceed window_max (100)");
}

TEST_F(Resolve, OnlyANamedFileHasToBeThere) {
  EXPECT_TRUE(resolved().problems.empty());
  ASSERT_EQ(resolved({}, "/nowhere/weir.yaml").problems.size(), 1u);
  EXPECT_TRUE(is_for_this_run(resolved({}, "/nowhere/weir.yaml").problems[0].layer));
}

TEST_F(Resolve, AMistakeInAFileForAllProgramsIsNotForThisRun) {
  write("system.yaml", "nonsense: 1\n");
  ASSERT_EQ(resolved().problems.size(), 1u);
  EXPECT_FALSE(is_for_this_run(resolved().problems[0].layer));
}

}  // namespace
}  // namespace weir::config
