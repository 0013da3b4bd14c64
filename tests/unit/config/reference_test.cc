#include "transport/config/reference.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "transport/config/yaml_file.h"

namespace weir::config {
namespace {

Configuration resolved(const std::string& text) {
  Sources sources;
  sources.list.push_back(parse_yaml(text, "f.yaml", Layer::named_file));
  return resolve(sources, Fabric::unknown);
}

TEST(Reference, SetsNothingAsItIs) {
  const Source source = parse_yaml(reference_yaml(), "f.yaml", Layer::named_file);
  EXPECT_TRUE(source.entries.empty());
  EXPECT_TRUE(source.problems.empty());
}

TEST(Reference, SetsEveryKeyToItsDefaultWithoutItsHashes) {
  const std::string text = std::regex_replace(reference_yaml(), std::regex("\n#(\\w+: )"), "\n$1");
  const Configuration found = resolved(text);
  EXPECT_TRUE(found.problems.empty()) << to_text(found.problems[0]);
  for (const Key& key : schema()) {
    EXPECT_EQ(found.value(key).text, key.fallback) << key.name;
    EXPECT_EQ(found.value(key).layer, Layer::named_file) << key.name;
  }
}

TEST(Reference, LinesFitAPage) {
  std::istringstream lines(reference_yaml());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(Reference, WhatIsInEffectReadsBackAsItIs) {
  const Configuration first =
      resolved("device: \"rxe0:1 # odd: 'name'\"\nwindow_max: 77\nrnr_timer: auto\n");
  ASSERT_TRUE(first.problems.empty());
  const Configuration second = resolved(to_yaml(first));
  EXPECT_TRUE(second.problems.empty()) << to_text(second.problems[0]);
  for (const Key& key : schema()) {
    EXPECT_EQ(get(second.settings, key), get(first.settings, key)) << key.name;
    EXPECT_EQ(second.value(key).layer, Layer::named_file) << key.name;
  }
}

}  // namespace
}  // namespace weir::config
