// Caps that change while a process runs: every one is a key, and has the checks of a file.
#include "transport/config/caps.h"

#include <gtest/gtest.h>

#include <climits>

namespace weir::config {
namespace {

TEST(Caps, AreNumbersOfTheSchema) {
  for (std::size_t i = 0; i < cap_names.size(); ++i) {
    const Key* const key = find_key(cap_names[i]);
    ASSERT_NE(key, nullptr) << cap_names[i];
    EXPECT_NE(key->number, nullptr);
    EXPECT_EQ(cap_of(*key), i);
  }
  EXPECT_EQ(cap_names[window_max_cap], std::string("window_max"));
  EXPECT_FALSE(cap_of(*find_key("chunk_size")));
}

TEST(Caps, OfSettingsMakeTheSameSettings) {
  Settings settings = defaults();
  std::string reason;
  EXPECT_TRUE(set_caps(settings, caps_of(defaults()), reason)) << reason;
  EXPECT_EQ(caps_of(settings), caps_of(defaults()));
}

// They come from memory that others write to.
TEST(Caps, OutOfRangeAreRefusedAndNothingChanges) {
  for (std::size_t i = 0; i < cap_names.size(); ++i) {
    const Key& key = *find_key(cap_names[i]);
    const bool has_auto = key.word != nullptr;
    for (const std::int64_t bad :
         {INT64_MIN, INT64_MAX, std::int64_t{-2}, key.min - 1, key.max + 1}) {
      if (bad == automatic && has_auto) continue;
      Settings settings = defaults();
      Caps caps = caps_of(settings);
      caps[0] = caps[0] == 16 ? 17 : 16;
      caps[i] = bad;
      std::string reason;
      EXPECT_FALSE(set_caps(settings, caps, reason)) << key.name << " " << bad;
      EXPECT_NE(reason.find(key.name), std::string::npos) << reason;
      EXPECT_EQ(caps_of(settings), caps_of(defaults()));
    }
    for (const std::int64_t good : {key.min, key.max}) {
      Settings settings = defaults();
      settings.window_initial = 1;
      Caps caps = caps_of(settings);
      caps[i] = good;
      std::string reason;
      EXPECT_TRUE(set_caps(settings, caps, reason)) << reason;
      EXPECT_EQ(settings.*key.number, good);
    }
  }
}

TEST(Caps, ThatContradictOtherKeysAreRefused) {
  Settings settings = defaults();
  settings.window_initial = 100;
  Caps caps = caps_of(settings);
  caps[window_max_cap] = 50;
  std::string reason;
  EXPECT_FALSE(set_caps(settings, caps, reason));
  EXPECT_NE(reason.find("window_initial"), std::string::npos) << reason;
}

TEST(Caps, ChangesAreSaidInTheUnitsOfAFile) {
  const Caps before = caps_of(defaults());
  Caps after = before;
  EXPECT_EQ(changes(before, after), "");
  after[2] = 1;
  after[3] = 256 << 10;
  EXPECT_EQ(changes(before, after),
            "reads_max from auto to 1, reads_window_max from 16MiB to 256KiB");
}

}  // namespace
}  // namespace weir::config
