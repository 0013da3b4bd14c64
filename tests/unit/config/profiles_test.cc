#include "transport/config/profiles.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "transport/config/resolve.h"

namespace weir::config {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Profiles, AreTheFilesInConf) {
  for (const std::string_view name : profile_names()) {
    const std::string text =
        file_text(std::string(WEIR_CONF_DIR) + "/" + std::string(name) + ".yaml");
    EXPECT_FALSE(text.empty()) << name;
    EXPECT_EQ(profile_text(name), text) << name;
  }
  EXPECT_EQ(profile_text("auto"), "");
  EXPECT_TRUE(profile("auto").entries.empty());
}

TEST(Profiles, AreSmallAndRight) {
  // The port decides on the profile, so no profile may decide on the port; and all processes must
  // agree on buffer_size, whatever their ports are.
  const std::set<std::string> taboo{"profile", "device", "gid_index", "buffer_size"};
  for (const std::string_view name : profile_names()) {
    const Source source = profile(name);
    EXPECT_TRUE(source.problems.empty()) << name;
    EXPECT_FALSE(source.entries.empty()) << name;
    EXPECT_LE(source.entries.size(), 8u) << name;
    for (const Entry& entry : source.entries) {
      EXPECT_NE(find_key(entry.key), nullptr) << entry.key;
      EXPECT_FALSE(taboo.contains(entry.key)) << name << " sets " << entry.key;
    }
  }
}

// What a user sets on one kind of port is possible on all: the profile knows nothing of it.
TEST(Profiles, MakeNoSettingImpossible) {
  const auto valid_with = [](const Source& source) {
    for (const std::string_view name : {"rxe", "roce", "infiniband"}) {
      Sources sources;
      sources.list = {source,
                      {.layer = Layer::environment,
                       .entries = {{"profile", std::string(name), "environment", 0}},
                       .problems = {}}};
      const Configuration found = resolve(sources, Fabric::unknown);
      EXPECT_TRUE(found.problems.empty()) << name << ": " << to_text(found.problems[0]);
    }
  };
  for (const Key& key : schema()) {
    if (key.text != nullptr) continue;
    for (const std::int64_t value : {key.min, key.max}) {
      Settings settings = defaults();
      settings.*key.number = value;
      if (!check(settings).empty()) continue;
      valid_with({.layer = Layer::environment,
                  .entries = {{key.name, get(settings, key), "environment", 0}},
                  .problems = {}});
    }
  }
  valid_with({.layer = Layer::environment,
              .entries = {{"buffer_size", "128KiB", "environment", 0},
                          {"receive_memory_max", "1MiB", "environment", 0}},
              .problems = {}});
}

TEST(Profiles, AreTakenByPortOrByName) {
  for (const Fabric fabric : {Fabric::rxe, Fabric::roce, Fabric::infiniband}) {
    const Configuration by_port = resolve({}, fabric);
    EXPECT_EQ(by_port.profile, profile_of(fabric));
    EXPECT_TRUE(by_port.problems.empty()) << to_text(by_port.problems[0]);
  }
  EXPECT_EQ(resolve({}, Fabric::unknown).profile, "");
  EXPECT_EQ(resolve({}, Fabric::roce).value(*find_key("ack_timeout")).where, "profile roce");

  Sources sources;
  sources.list.push_back({.layer = Layer::environment,
                          .entries = {{"profile", "infiniband", "environment", 0}},
                          .problems = {}});
  EXPECT_EQ(resolve(sources, Fabric::rxe).profile, "infiniband");
}

TEST(Profiles, OnRxeAreTheMeasuredDefaults) {
  const Configuration found = resolve({}, Fabric::rxe);
  for (const Key& key : schema()) EXPECT_EQ(get(found.settings, key), key.fallback) << key.name;
}

// A link that retrains, or routes that converge, must not end a job; but a peer that is gone must
// be noticed before peer_timeout gives it up without a reason.
TEST(Profiles, OfRealFabricsOutlastALinkThatComesBack) {
  for (const Fabric fabric : {Fabric::roce, Fabric::infiniband}) {
    const Settings settings = resolve({}, fabric).settings;
    // Ethernet's adapters may give up before: weir makes the connection again until peer_timeout.
    const std::int64_t outlasted = fabric == Fabric::roce
                                       ? settings.peer_timeout_ns
                                       : settings.ack_timeout_ns * settings.retry_count;
    EXPECT_GE(outlasted, 8000000000);
    EXPECT_LT(settings.ack_timeout_ns * (settings.retry_count + 1), settings.peer_timeout_ns);
  }
}

TEST(Profiles, LoweringAKeyAsksForNoOther) {
  for (const Fabric fabric : {Fabric::rxe, Fabric::roce, Fabric::infiniband}) {
    for (const Key& key : schema()) {
      if (key.number == nullptr) continue;
      Settings settings = resolve({}, fabric).settings;
      settings.*key.number = key.min;
      EXPECT_TRUE(check(settings).empty()) << check(settings)[0].reason;
    }
  }
}

}  // namespace
}  // namespace weir::config
