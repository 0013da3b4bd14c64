#include "transport/config/environment.h"

#include <gtest/gtest.h>

#include <array>

namespace weir::config {
namespace {

TEST(Environment, ReadsItsKeysAndNoOthers) {
  constexpr std::array variables{"PATH=/bin", "WEIR_WINDOW_MAX=64", "WEIR_CONFIG=x",
                                 "WEIR_MTU=", "WEIR_SEEDS=5",       "WEIR_BUILD_DIR=/b",
                                 "odd"};
  const Source source = from_environment(variables);
  EXPECT_EQ(source.layer, Layer::environment);
  ASSERT_EQ(source.entries.size(), 1u) << "an empty variable is as good as none";
  EXPECT_EQ(source.entries[0].key, "window_max");
  EXPECT_EQ(source.entries[0].value, "64");
  EXPECT_EQ(source.entries[0].where, "environment variable WEIR_WINDOW_MAX");
  EXPECT_EQ(value_of(variables, "WEIR_CONFIG"), "x");
  EXPECT_EQ(value_of(variables, "odd"), "");
  EXPECT_EQ(value_of(variables, "WEIR_WINDOW"), "");
}

TEST(Environment, AlmostAKeyIsSuspicious) {
  constexpr std::array variables{"WEIR_WINDOWS_MAX=64", "WEIR_CONFIG=x", "WEIR_SEEDS=5",
                                 "WEIR_BUILD_DIR=/b",   "WEIR_MTU=1024", "WEIR_TESTS=1",
                                 "WEIR_SUITE_CASE=a",   "WEIR_PAIR=1",   "WEIR_SANITIZE=x"};
  const auto found = suspicious_variables(variables);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0],
            "environment variable WEIR_WINDOWS_MAX names no key and has no effect; did you mean "
            "WEIR_WINDOW_MAX?");
}

TEST(Environment, TheUsersFile) {
  EXPECT_EQ(user_file(std::array{"HOME=/home/u"}), "/home/u/.config/weir/weir.yaml");
  EXPECT_EQ(user_file(std::array{"HOME=/home/u", "XDG_CONFIG_HOME=/c"}), "/c/weir/weir.yaml");
  EXPECT_EQ(user_file(std::array{"HOME=/home/u", "XDG_CONFIG_HOME=relative"}),
            "/home/u/.config/weir/weir.yaml");
  EXPECT_EQ(user_file({}), "");
}

}  // namespace
}  // namespace weir::config
