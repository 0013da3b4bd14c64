#include "transport/config/schema.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace weir::config {
namespace {

TEST(Schema, EveryKeyIsWholeAndItsDefaultAcceptable) {
  std::set<std::string> names;
  for (const Key& key : schema()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name << " is there twice";
    EXPECT_NE(key.number == nullptr, key.text == nullptr) << key.name;
    EXPECT_GE(key.level, 1) << key.name;
    EXPECT_LE(key.level, 9) << key.name;
    EXPECT_GT(std::string(key.help).size(), 20u) << key.name;
    Settings settings;
    std::string error;
    EXPECT_TRUE(set(settings, key, key.fallback, error)) << error;
    EXPECT_EQ(find_key(key.name), &key);
  }
  EXPECT_LT(names.size(), 25u);
  EXPECT_EQ(find_key("nonsense"), nullptr);
}

TEST(Schema, NoTwoKeysShareAField) {
  const auto keys = schema();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::size_t j = i + 1; j < keys.size(); ++j) {
      if (keys[i].number == nullptr) continue;
      EXPECT_NE(keys[i].number, keys[j].number) << keys[i].name;
    }
  }
}

TEST(Schema, DefaultsGoTogetherAndReadAsWritten) {
  const Settings settings = defaults();
  std::string error;
  EXPECT_TRUE(check(settings, error)) << error;
  for (const Key& key : schema()) EXPECT_EQ(get(settings, key), key.fallback) << key.name;
  EXPECT_EQ(settings.buffer_bytes, 8192);
  EXPECT_EQ(settings.rnr_timer_ns, 640'000);
  EXPECT_EQ(settings.gid_index, automatic);
}

TEST(Schema, ExtremesAreAcceptedAndBeyondThemRefused) {
  for (const Key& key : schema()) {
    if (key.kind == Kind::text) continue;
    Settings settings = defaults();
    std::string error;
    const char* unit = key.kind == Kind::duration ? "ns" : "";
    for (const std::int64_t good : {key.min, key.max}) {
      EXPECT_TRUE(set(settings, key, std::to_string(good) + unit, error)) << error;
      EXPECT_EQ(settings.*key.number, good) << key.name;
    }
    for (const std::int64_t bad : {key.min - 1, key.max + 1}) {
      EXPECT_FALSE(set(settings, key, std::to_string(bad) + unit, error)) << key.name << bad;
    }
    EXPECT_EQ(settings.*key.number, key.max) << "a refused value changes nothing";
  }
}

TEST(Schema, ErrorsNameKeyValueAndRange) {
  Settings settings = defaults();
  std::string error;
  EXPECT_FALSE(set(settings, *find_key("buffer_size"), "12", error));
  EXPECT_EQ(error, "buffer_size: '12' is out of range (it takes: size, 1KiB to 1MiB)");
  EXPECT_FALSE(set(settings, *find_key("rnr_timer"), "14", error));
  EXPECT_EQ(error,
            "rnr_timer: '14' has no unit; use ns, us, ms, s, min or h (it takes: duration, 10us to "
            "655360us)");
  EXPECT_FALSE(set(settings, *find_key("device"), "", error));
  EXPECT_FALSE(set(settings, *find_key("window_max"), "auto", error));
}

TEST(Schema, ContradictionsAreNamed) {
  const auto fault = [](const char* key, const char* value) {
    Settings settings = defaults();
    std::string error;
    EXPECT_TRUE(set(settings, *find_key(key), value, error)) << error;
    EXPECT_FALSE(check(settings, error)) << key;
    return error;
  };
  EXPECT_EQ(fault("buffer_size", "8100"), "buffer_size is 8100B, but it must be a multiple of 64B");
  EXPECT_EQ(fault("mtu", "1500"),
            "mtu is 1500B, but it must be auto, 256B, 512B, 1KiB, 2KiB or 4KiB");
  EXPECT_EQ(fault("window_initial", "2048"),
            "window_initial is 2048, but it must not exceed window_max (1024)");
  EXPECT_EQ(fault("ack_timeout", "1min"),
            "ack_timeout is 1min, but it must not exceed peer_timeout (30s)");
}

TEST(Schema, LoweringOneKeyAsksForNoOther) {
  for (const Key& key : schema()) {
    if (key.kind == Kind::text) continue;
    Settings settings = defaults();
    settings.*key.number = key.min;
    std::string error;
    EXPECT_TRUE(check(settings, error)) << error;
  }
}

}  // namespace
}  // namespace weir::config
