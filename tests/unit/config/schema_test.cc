#include "transport/config/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace weir::config {
namespace {

// So that people find what they look for. A new key replaces an old one, or this bound says why not:
// overlap_cpus is implied by no other key, nor are paths and rate_max.
TEST(Schema, SixKeysAreToKnowAndFewThereAre) {
  EXPECT_LE(schema().size(), 45u);
  EXPECT_EQ(std::count_if(schema().begin(), schema().end(),
                          [](const Key& key) { return key.matters_most(); }),
            6);
  for (const Key& key : schema()) EXPECT_EQ(why_no_key_any_more(key.name), nullptr) << key.name;
  EXPECT_TRUE(by_importance().back()->is_measured());
}

TEST(Schema, EveryKeyIsWholeAndItsDefaultAcceptable) {
  std::set<std::string> names;
  int most = 0;
  for (const Key& key : schema()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name << " is there twice";
    EXPECT_NE(key.number == nullptr, key.text == nullptr) << key.name;
    EXPECT_GE(key.level, 1) << key.name;
    EXPECT_LE(key.level, 9) << key.name;
    EXPECT_GT(std::string(key.help).size(), 20u) << key.name;
    EXPECT_GT(std::string(key.reason).size(), 20u) << key.name;
    EXPECT_NE(std::string(key.help).back(), '.') << key.name;
    EXPECT_NE(std::string(key.reason).back(), '.') << key.name;
    EXPECT_EQ(&schema()[index_of(key)], &key);
    most += key.matters_most() ? 1 : 0;
    Settings settings;
    std::string error;
    EXPECT_TRUE(set(settings, key, key.fallback, error)) << error;
    EXPECT_EQ(find_key(key.name), &key);
  }
  EXPECT_LT(names.size(), 64u);  // of the plugin's tables
  EXPECT_GE(most, 4);
  EXPECT_LE(most, 7);
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
  EXPECT_TRUE(check(settings).empty()) << check(settings)[0].reason;
  for (const Key& key : schema()) EXPECT_EQ(get(settings, key), key.fallback) << key.name;
  EXPECT_EQ(settings.buffer_bytes, 8704);
  EXPECT_EQ(settings.rnr_timer_ns, 640'000);
  EXPECT_EQ(settings.gid_index, automatic);
  EXPECT_EQ(settings.profile, "auto");
  EXPECT_EQ(settings.window_shrink_after_ns, 2'000'000'000);
  EXPECT_EQ(settings.receive_memory_bytes, 64 << 20);
}

TEST(Schema, ExtremesAreAcceptedAndBeyondThemRefused) {
  for (const Key& key : schema()) {
    if (key.text != nullptr) continue;
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

TEST(Schema, ErrorsNameValueAndRange) {
  Settings settings = defaults();
  std::string error;
  EXPECT_FALSE(set(settings, *find_key("buffer_size"), "12", error));
  EXPECT_EQ(error, "'12' is out of range (it takes: size, 1KiB to 1MiB)");
  EXPECT_FALSE(set(settings, *find_key("rnr_timer"), "14", error));
  EXPECT_EQ(error,
            "'14' has no unit; use ns, us, ms, s, min or h (it takes: auto or duration, 10us to "
            "655360us)");
  EXPECT_FALSE(set(settings, *find_key("profile"), "ethernet", error));
  EXPECT_EQ(error, "'ethernet' is not known (it takes: one of auto, rxe, roce, infiniband)");
  EXPECT_FALSE(set(settings, *find_key("profile"), "auto, rxe", error));
  EXPECT_FALSE(set(settings, *find_key("profile"), "", error));
  EXPECT_FALSE(set(settings, *find_key("device"), "", error));
  EXPECT_FALSE(set(settings, *find_key("window_initial"), "auto", error));
}

TEST(Schema, ContradictionsAreNamed) {
  const auto fault = [](const char* key, const char* value) {
    Settings settings = defaults();
    std::string error;
    EXPECT_TRUE(set(settings, *find_key(key), value, error)) << error;
    const auto found = check(settings);
    EXPECT_EQ(found.size(), 1u) << key;
    return found.empty() ? "" : found[0].reason;
  };
  EXPECT_EQ(fault("buffer_size", "8100"), "buffer_size (8100B) must be a multiple of 64B");
  EXPECT_EQ(fault("mtu", "1500"), "mtu (1500B) must be auto, 256B, 512B, 1KiB, 2KiB or 4KiB");
  EXPECT_EQ(fault("ack_timeout", "1min"), "ack_timeout (1min) must not exceed peer_timeout (30s)");

  Settings settings = defaults();
  settings.window_max = 1024;
  settings.window_initial = 2048;
  ASSERT_EQ(check(settings).size(), 1u);
  EXPECT_EQ(check(settings)[0].reason, "window_initial (2048) must not exceed window_max (1024)");
  settings.mtu_bytes = 1000;
  EXPECT_EQ(check(settings).size(), 2u) << "all of them, not only the first";
  settings = defaults();
  settings.proxy_servers = 1;
  EXPECT_TRUE(check(settings).empty());
  settings.node_sharing = "off";
  ASSERT_EQ(check(settings).size(), 1u);
  EXPECT_EQ(check(settings)[0].reason, "proxy_servers (1) must be 0 with node_sharing (off)");
}

TEST(Schema, LoweringOneKeyAsksForNoOther) {
  for (const Key& key : schema()) {
    if (key.text != nullptr) continue;
    Settings settings = defaults();
    settings.*key.number = key.min;
    EXPECT_TRUE(check(settings).empty()) << check(settings)[0].reason;
  }
}

TEST(Schema, AutoNeedNotBeTheDefault) {
  Settings settings = defaults();
  std::string error;
  EXPECT_TRUE(set(settings, *find_key("rnr_timer"), "auto", error)) << error;
  EXPECT_EQ(settings.rnr_timer_ns, automatic);
  EXPECT_EQ(get(settings, *find_key("rnr_timer")), "auto");
}

TEST(Schema, ImportantKeysComeFirst) {
  const auto order = by_importance();
  ASSERT_EQ(order.size(), schema().size());
  bool rest = false;
  for (const Key* key : order) {
    EXPECT_FALSE(rest && key->matters_most()) << key->name;
    rest = !key->matters_most();
  }
}

TEST(Schema, NamesElsewhere) {
  EXPECT_EQ(environment_name(*find_key("window_max")), "WEIR_WINDOW_MAX");
  EXPECT_EQ(mca_name(*find_key("window_max")), "btl_weir_window_max");
}

}  // namespace
}  // namespace weir::config
