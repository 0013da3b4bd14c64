#include "transport/config/yaml_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "transport/config/reference.h"
#include "transport/config/resolve.h"

namespace weir::config {
namespace {

Source parse(const std::string& text) { return parse_yaml(text, "f.yaml", Layer::named_file); }

std::vector<std::string> problems(const std::string& text) {
  std::vector<std::string> texts;
  for (const Problem& problem : parse(text).problems) texts.push_back(to_text(problem));
  return texts;
}

using Texts = std::vector<std::string>;

TEST(YamlFile, GivesKeysValuesAndLines) {
  const Source source = parse("# comment\nwindow_max: 256\n\nack_timeout: '500ms'  # why\n");
  EXPECT_TRUE(source.problems.empty());
  ASSERT_EQ(source.entries.size(), 2u);
  EXPECT_EQ(source.entries[0].key, "window_max");
  EXPECT_EQ(source.entries[0].value, "256");
  EXPECT_EQ(source.entries[0].where, "f.yaml:2");
  EXPECT_EQ(source.entries[1].value, "500ms");
  EXPECT_EQ(source.entries[1].where, "f.yaml:4");
}

TEST(YamlFile, AnEmptyFileSetsNothing) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "{}\n", "---\n...\n"}) {
    const Source source = parse(text);
    EXPECT_TRUE(source.entries.empty()) << text;
    EXPECT_TRUE(source.problems.empty()) << text;
  }
}

TEST(YamlFile, AKeyWithoutAValueIsSetToNothing) {
  ASSERT_EQ(parse("device:\n").entries.size(), 1u);
  EXPECT_EQ(parse("device:\n").entries[0].value, "");
}

TEST(YamlFile, WhatIsNoFlatMappingIsNamedWithItsLine) {
  EXPECT_EQ(problems("a: 1\nb: 2\na: 3\n"), Texts{"f.yaml:3: a: is set twice; first in line 1"});
  EXPECT_EQ(problems("mtu:\n  - 1\n  - 2\n"),
            Texts{"f.yaml:2: mtu: is a list, but only a plain value is taken"});
  EXPECT_EQ(problems("mtu: {size: 1}\n"),
            Texts{"f.yaml:1: mtu: is a mapping, but only a plain value is taken: the keys are not "
                  "nested"});
  EXPECT_EQ(problems("a: &x 1\nb: *x\n"),
            Texts{"f.yaml:2: b: is an alias, but only a plain value is taken"});
  EXPECT_EQ(problems("[a, b]: 1\n"), Texts{"f.yaml:1: a key has to be a plain word"});
  EXPECT_EQ(problems(": 1\n"), Texts{"f.yaml:1: a key has to be a plain word"});
  EXPECT_EQ(problems("- a\n- b\n"), Texts{"f.yaml:1: expected lines of the form 'key: value'"});
  EXPECT_EQ(problems("\nword\n"), Texts{"f.yaml:2: expected lines of the form 'key: value'"});
  EXPECT_EQ(problems("a: 1\n---\nb: 2\n"),
            Texts{"f.yaml:2: does not belong to the mapping of keys before it"});
  EXPECT_FALSE(problems("a: 1\n]\n").empty());
  EXPECT_FALSE(problems("]").empty());
}

TEST(YamlFile, WhatFollowsAProblemIsStillRead) {
  const Source source = parse("mtu: [1, [2, {x: 3}]]\n? [k]\n: v\nwindow_max: 7\nwindow_max: 8\n");
  EXPECT_EQ(source.problems.size(), 3u);
  ASSERT_EQ(source.entries.size(), 1u);
  EXPECT_EQ(source.entries[0].key, "window_max");
  EXPECT_EQ(source.entries[0].value, "7");
}

TEST(YamlFile, BadSyntaxIsNamedWithItsLine) {
  const Texts found = problems("window_max: 8\nmtu: [1, 2\ndevice: x\n");
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(found.back().starts_with("f.yaml:3: this is no YAML: ") ||
              found.back().starts_with("f.yaml:4: this is no YAML: "))
      << found.back();
  EXPECT_EQ(problems("a: 1\nb: \"\\q\"\n"),
            Texts{"f.yaml:2: this is no YAML: unknown escape character: q"});
}

TEST(YamlFile, GarbageIsAProblemAndNoCrash) {
  EXPECT_EQ(problems(std::string(max_file_bytes + 1, 'x')),
            Texts{"f.yaml: is larger than 64KiB: no configuration"});
  EXPECT_EQ(problems(std::string("a: 1\n\0b", 7)), Texts{"f.yaml: holds bytes that are no text"});
  EXPECT_FALSE(problems(std::string(60'000, '[')).empty());
  EXPECT_FALSE(problems(std::string(60'000, '{')).empty());
  std::string deep;
  for (int i = 0; i < 300; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_FALSE(problems(deep).empty());
  std::string laughs = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 200; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last + ", " + last +
              ", " + last + "]\n";
  }
  EXPECT_FALSE(problems(laughs).empty());
}

TEST(YamlFile, RandomBytesAreProblemsAtMost) {
  std::mt19937 random(20240601);
  const std::string letters = "ab:-?[]{},&*!|>'\"%@`# \t\n\r0.~<\\\x01\x7f\xc3\xff\xfe";
  const std::string good = reference_yaml();
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    const std::size_t size = random() % 200;
    if (round % 3 == 0) {  // mostly YAML, with a few bytes changed
      const std::size_t start = random() % (good.size() - 400);
      text = good.substr(start, 400);
      for (int i = 0; i < 5; ++i) text[random() % text.size()] = letters[random() % letters.size()];
    } else {
      for (std::size_t i = 0; i < size; ++i) {
        text +=
            round % 3 == 1 ? letters[random() % letters.size()] : static_cast<char>(random() % 256);
      }
    }
    Sources sources;
    sources.list.push_back(parse(text));
    const Configuration found = resolve(sources, Fabric::unknown);
    EXPECT_TRUE(check(defaults()).empty());
    EXPECT_EQ(found.values.size(), schema().size());
  }
}

TEST(YamlFile, ProblemsAreFitForATerminal) {
  const Problem problem{Layer::named_file, "f", "k", "\x1b[2J\n" + std::string(9'999, 'x'), 1};
  EXPECT_EQ(to_text(problem).substr(0, 12), "f: k: ?[2J?x");
  EXPECT_LT(to_text(problem).size(), 600u);
}

TEST(YamlFile, AFileThatCannotBeReadIsNamed) {
  const auto only = [](const Source& source) {
    return source.problems.size() == 1 ? to_text(source.problems[0]) : "";
  };
  EXPECT_EQ(only(read_yaml_file("/nowhere/weir.yaml", Layer::named_file)),
            "/nowhere/weir.yaml: cannot be read: No such file or directory");
  const std::string directory = std::filesystem::temp_directory_path();
  EXPECT_EQ(only(read_yaml_file(directory, Layer::named_file)),
            directory + ": cannot be read: Is a directory");
  EXPECT_EQ(only(read_yaml_file("/dev/zero", Layer::named_file)),
            "/dev/zero: is larger than 64KiB: no configuration");
}

}  // namespace
}  // namespace weir::config
