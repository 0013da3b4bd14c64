// Tables by message size: what they take, what they refuse, and what becomes of them.
#include "transport/config/table.h"

#include <gtest/gtest.h>

#include "transport/config/admission.h"
#include "transport/config/schema.h"

namespace weir::config {
namespace {

TEST(Table, ReadsWhatItWrites) {
  for (const auto& [text, kind] :
       {std::pair{"none", TableOf::counts}, std::pair{"64B=12, 4KiB=8", TableOf::counts},
        std::pair{"0=500ns, 64KiB=5us", TableOf::durations},
        std::pair{"1@64B=9, 1@4KiB=8, 8@4KiB=2", TableOf::counts_by_cores}}) {
    std::vector<TableEntry> entries;
    std::string error;
    ASSERT_TRUE(parse_table(text, kind, entries, error)) << error;
    std::vector<TableEntry> again;
    ASSERT_TRUE(parse_table(format_table(entries, kind), kind, again, error)) << error;
    ASSERT_EQ(again.size(), entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      EXPECT_EQ(again[i].cores, entries[i].cores);
      EXPECT_EQ(again[i].bytes, entries[i].bytes);
      EXPECT_EQ(again[i].value, entries[i].value);
    }
  }
}

TEST(Table, RefusesWhatIsNone) {
  for (const auto& [text, kind] :
       {std::pair{"64B", TableOf::counts}, std::pair{"=3", TableOf::counts},
        std::pair{"64B=", TableOf::counts}, std::pair{"64B=3us", TableOf::counts},
        std::pair{"64B=3", TableOf::durations}, std::pair{"2@64B=3", TableOf::counts},
        std::pair{"64B=3", TableOf::counts_by_cores}, std::pair{"4KiB=3, 64B=3", TableOf::counts},
        std::pair{"64B=3, 64B=4", TableOf::counts}, std::pair{"64B=-1", TableOf::counts},
        std::pair{"64B=3,", TableOf::counts}, std::pair{"64KB=3", TableOf::counts},
        std::pair{"0@64B=3", TableOf::counts_by_cores},
        std::pair{"8@64B=1, 2@64B=1", TableOf::counts_by_cores},
        std::pair{"64B=99999999999", TableOf::counts}}) {
    std::vector<TableEntry> entries;
    std::string error;
    EXPECT_FALSE(parse_table(text, kind, entries, error)) << text;
    EXPECT_FALSE(error.empty()) << text;
  }
}

TEST(Table, BecomesThresholds) {
  Settings settings = defaults();
  settings.admission = "thresholds";
  settings.tokens = 17;
  settings.bytes_per_token = 2048;
  settings.cct = "64B=12, 4KiB=8";
  settings.nrct = "1MiB=100";
  settings.crct = "2@64B=9, 8@64B=3, 8@4KiB=2";
  settings.delay = "64B=500ns";
  ASSERT_TRUE(check(settings).empty());
  const Admission::Config config = admission(settings);
  EXPECT_EQ(config.policy, Admission::Policy::thresholds);
  EXPECT_EQ(config.tokens, 17u);
  EXPECT_EQ(config.cost.tokens(4097), 3u);
  const Thresholds& t = config.thresholds;
  EXPECT_EQ(t.cct(1), 12u);
  EXPECT_EQ(t.cct(64), 12u);
  EXPECT_EQ(t.cct(65), 8u);
  EXPECT_EQ(t.cct(1 << 20), 8u);
  EXPECT_EQ(t.nrct(8), 100u);
  EXPECT_EQ(t.crct(1, 8), 9u);  // fewer cores than any row
  EXPECT_EQ(t.crct(7, 1 << 20), 9u);
  EXPECT_EQ(t.crct(8, 64), 3u);
  EXPECT_EQ(t.crct(200, 65), 2u);
  EXPECT_EQ(config.rate.delay(1 << 20).ns, 500);
}

TEST(Table, WithNothingSetNothingIsLimited) {
  const Admission::Config config = admission(defaults());
  EXPECT_EQ(config.policy, Admission::Policy::off);
  EXPECT_EQ(config.thresholds.cct(8), Thresholds::no_limit);
  EXPECT_EQ(config.thresholds.crct(256, 1 << 30), Thresholds::no_limit);
}

TEST(Table, AMistakeNamesTheKey) {
  Settings settings = defaults();
  settings.crct = "64B=3";
  const auto found = check(settings);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].reason.find("crct"), std::string::npos);
  EXPECT_NE(found[0].reason.find("CORES@"), std::string::npos);
}

}  // namespace
}  // namespace weir::config
