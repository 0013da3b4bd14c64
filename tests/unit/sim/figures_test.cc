#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tools/data_files.h"
#include "tools/sim/figures/claims.h"
#include "tools/sim/figures/report.h"
#include "tools/sim/figures/runner.h"
#include "tools/sim/world.h"

namespace weir::sim::figures {
namespace {

const Claims& shipped() {
  static const Claims claims = read_claims(tools::data_file("sim/figures/claims.json"));
  return claims;
}

constexpr double widest = 1.25;   // a band's ends are so many times away from what was seen
constexpr double nothing = 0.05;  // where something is the same: so much

// What keeps a claim from being one that can fail; empty: nothing. A band of what is `more` or
// `less` than something is on that side of 1; one of the `same` has 1 in it, and little around it.
std::string fault(const Claim& claim) {
  if (claim.is.empty() || claim.number.empty() || (!claim.bands[0] && !claim.bands[1])) {
    return "it says nothing";
  }
  if (claim.of.empty() != claim.shows.empty()) return "a comparison says what it shows";
  if (!claim.of.empty() && claim.shows != "more" && claim.shows != "less" &&
      claim.shows != "same") {
    return "a comparison shows more, less, or the same";
  }
  // What nobody else has said, and is compared with nothing, is only a picture of ourselves.
  if (claim.of.empty() && claim.paper.empty()) return "there is nothing to hold it against";
  for (const std::optional<Band>& band : claim.bands) {
    if (!band) continue;
    const auto [low, seen, high] = *band;
    if (!(low <= seen && seen <= high)) return "what was seen is not in the band";
    if (low * widest < seen || high > seen * widest) return "the band is too wide";
    if ((claim.shows == "more" && low <= 1) || (claim.shows == "less" && high >= 1)) {
      return "the band is not on the side of 1 that is claimed";
    }
    if (claim.shows == "same" && (low < 1 - nothing || high > 1 + nothing || low > 1 || high < 1)) {
      return "the band of nothing has something in it";
    }
  }
  return {};
}

// What a claim is computed from is there: a point of the figure.
TEST(Figures, EveryTermIsAPoint) {
  for (const Entry& entry : all()) {
    for (const Size size : {Size::full, Size::smoke}) {
      const Figure figure = make(entry, size, shipped());
      for (const auto& [name, claim] : figure.said.claims) {
        std::vector<Term> terms = claim.number;
        terms.insert(terms.end(), claim.over.begin(), claim.over.end());
        for (const Term& term : terms) {
          const bool known =
              std::any_of(figure.points.begin(), figure.points.end(), [&](const Point& point) {
                return point.series == term.series && point.x == term.x[static_cast<int>(size)];
              });
          EXPECT_TRUE(known || !claim.band(size))
              << entry.name << ": " << name << ": " << term.series;
        }
      }
    }
  }
}

TEST(Figures, EveryBandCanFail) {
  for (const auto& [figure, said] : shipped()) {
    EXPECT_NE(find(figure), nullptr) << figure;
    for (const auto& [name, claim] : said.claims) {
      EXPECT_EQ(fault(claim), "") << figure << ": " << name;
    }
  }
}

TEST(Figures, ABandThatCannotFailIsFound) {
  const auto fault_of = [](const char* shows, double low, double seen, double high) {
    const bool compares = shows[0] != 0;
    return fault({.is = "it",
                  .of = compares ? "the other" : "",
                  .shows = shows,
                  .paper = compares ? "" : "1",
                  .bands = {Band{low, seen, high}, std::nullopt},
                  .number = {Term{}},
                  .over = {}});
  };
  EXPECT_EQ(fault_of("", 0.9, 1, 1.1), "");
  EXPECT_NE(fault_of("", 0.7, 1, 1.1), "");
  EXPECT_NE(fault_of("", 0.9, 1, 1.3), "");
  EXPECT_NE(fault_of("", 1.1, 1, 1.2), "");
  EXPECT_EQ(fault_of("more", 1.01, 1.1, 1.2), "");
  EXPECT_NE(fault_of("more", 0.99, 1.1, 1.2), "");
  EXPECT_EQ(fault_of("less", 0.8, 0.9, 0.99), "");
  EXPECT_NE(fault_of("less", 0.8, 0.9, 1.01), "");
  EXPECT_EQ(fault_of("same", 0.96, 1, 1.04), "");
  EXPECT_NE(fault_of("same", 0.9, 1, 1.04), "");
  EXPECT_NE(fault_of("same", 1.01, 1.02, 1.04), "");
  EXPECT_NE(fault_of("else", 0.96, 1, 1.04), "");
}

TEST(Figures, EveryOneSaysWhatItShowsAndWhatDiffers) {
  for (const Entry& entry : all()) {
    for (const Size size : {Size::full, Size::smoke}) {
      const Figure figure = make(entry, size, shipped());
      const Said& said = figure.said;
      EXPECT_FALSE(figure.points.empty()) << entry.name;
      for (const std::string& text :
           {said.title, said.source, said.shows, said.differs, said.x_label, said.y_label}) {
        EXPECT_FALSE(text.empty()) << entry.name;
      }
    }
    EXPECT_EQ(find(entry.name), &entry);
  }
  EXPECT_EQ(find("no-such"), nullptr);
}

TEST(Figures, APlayHasAPointForEachX) {
  const std::vector<Point> full = scenario_points("core-budget", Size::full);
  ASSERT_EQ(full.size(), 14u);
  EXPECT_EQ(full[3].series, "of the node, 4x");
  EXPECT_EQ(full[3].x, 30);
  EXPECT_EQ(full[3].seeds, 2u);
  const std::vector<Point> smoke = scenario_points("core-budget", Size::smoke);
  ASSERT_EQ(smoke.size(), 8u);
  EXPECT_EQ(smoke[2].series, "of each of 4 processes, 4x");
  EXPECT_EQ(smoke[2].seeds, 1u);
  EXPECT_TRUE(scenario_points("no-such", Size::full).empty());
}

Figure tiny() {
  network::Scenario scenario;
  scenario.fabric.topology = {.p = 2, .a = 4, .h = 2};
  scenario.from_cycles = 500;
  scenario.to_cycles = 1'500;
  Figure figure;
  figure.said.title = "a < b";
  for (const std::uint32_t slow : {0u, 4u, 8u}) {
    scenario.slow = {{slow, 8}};
    figure.points.push_back(point("8x", slow, scenario, 2));
  }
  figure.said.claims = {{"drop",
                         {.is = "the drop",
                          .of = "none",
                          .shows = "less",
                          .paper = "",
                          .bands = {Band{0.1, 0.1, 0.1}, std::nullopt},
                          .number = {Term{.series = "8x", .x = {8, 8}}},
                          .over = {Term{.series = "8x", .x = {0, 0}}}}}};
  return figure;
}

TEST(Figures, ResultsDoNotDependOnHowManyPlay) {
  const auto one = play({tiny()}, 1, 1, nullptr);
  const auto four = play({tiny()}, 4, 1, nullptr);
  ASSERT_EQ(one[0].rows.size(), 6u);
  ASSERT_EQ(four[0].rows.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(one[0].rows[i].measured.violation, "");
    EXPECT_EQ(one[0].rows[i].x, four[0].rows[i].x);
    EXPECT_EQ(one[0].rows[i].seed, four[0].rows[i].seed);
    EXPECT_EQ(one[0].rows[i].measured.trace_hash, four[0].rows[i].measured.trace_hash);
  }
}

TEST(Figures, EveryPointOfEveryModelTellsWhatItCost) {
  for (const char* const name : {"routing", "core-scale", "tok-cores"}) {
    SCOPED_TRACE(name);
    Figure figure = make(*find(name), Size::smoke, shipped());
    figure.points.resize(1);
    const Results results = play({figure}, 1, 1, nullptr)[0];
    const Measured& measured = results.rows[0].measured;
    EXPECT_EQ(measured.violation, "");
    EXPECT_GT(measured.events, 0u);
    EXPECT_NE(measured.trace_hash, 0u);
    EXPECT_GT(measured.cpu_s, 0);
  }
}

TEST(Figures, APictureIsDrawn) {
  Figure figure = tiny();
  figure.said.y_label = "a message's latency";
  const Results results = play({figure}, 2, 1, nullptr)[0];
  EXPECT_NE(to_svg(figure, results).find("<svg"), std::string::npos) << "gnuplot?";
}

TEST(Figures, AValueThatAPointLacksIsAnEmptyCell) {
  Results results;
  results.rows.resize(2);
  results.rows[0].measured.values = {{"throughput", 0.5}};
  results.rows[1].measured.values = {{"others", 0.25}, {"throughput", 1}};
  const std::string csv = to_csv(results);
  EXPECT_NE(csv.find("series,x,seed,throughput,others,events"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\"\",0,0,0.5,,0"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\"\",0,0,1,0.25,0"), std::string::npos) << csv;
}

// What ships is what is drawn: its constants move the figures.

Outcome played(const Plan& plan) {
  Outcome outcome = run(plan);
  EXPECT_TRUE(outcome.ok()) << outcome.violations.front();
  return outcome;
}

TEST(Figures, TheReceiveWindowsConstantsMoveArwsFig2) {
  Plan plan = arws_world(1);
  const Outcome before = played(plan);
  plan.engine.core.window.max /= 4;
  const Outcome smaller = played(plan);
  EXPECT_EQ(smaller.receive_bytes_peak, plan.engine.core.window.max * 4096);
  EXPECT_LT(smaller.receive_bytes_peak * 2, before.receive_bytes_peak);

  plan = arws_world(1);
  plan.engine.core.window.initial = plan.engine.core.window.max *= 2;
  EXPECT_GT(played(plan).receive_bytes_peak, before.receive_bytes_peak * 5 / 4);

  plan = arws_world(1);
  plan.engine.core.shrink_after = microseconds(20);
  const Outcome shrunk = played(plan);
  EXPECT_GT(shrunk.total.window_shrinks, 0u);
  EXPECT_LT(shrunk.window, before.window);  // the thread that shrinks it sleeps whole ms
}

// It is W_max at most, however long senders wait that find no buffer.
TEST(Figures, TheRnrTimerDoesNotMoveReceiveMemory) {
  Plan plan = arws_world(1);
  plan.engine.core.window = {.initial = 4, .max = 4};
  for (const auto code : {std::uint8_t{1}, std::uint8_t{18}}) {  // 0.01 ms, 5.12 ms
    plan.engine.core.rnr_code = code;
    const Outcome outcome = played(plan);
    EXPECT_GT(outcome.rnr_naks, 0u);
    EXPECT_EQ(outcome.receive_bytes_peak, 4u * 4096);
  }
}

TEST(Figures, TheNumberOfTokensMovesTokRate) {
  const auto rate = [](const Outcome& outcome) {
    return static_cast<double>(outcome.messages) /
           static_cast<double>((outcome.last_served - outcome.begun).ns);
  };
  Plan plan = tok_world(1);
  const Outcome twenty = played(plan);
  EXPECT_EQ(twenty.tokens_out_most, 20u);
  // Tokens are fair: nobody is done long before the others.
  Time first = twenty.last_served;
  for (const Time served : twenty.served) {
    if (served > twenty.begun) first = std::min(first, served);
  }
  EXPECT_GT((first - twenty.begun).ns, (twenty.last_served - twenty.begun).ns * 4 / 5);
  plan.engine.core.admission.tokens = 4;
  const Outcome four = played(plan);
  EXPECT_EQ(four.tokens_out_most, 4u);
  EXPECT_LT(rate(four) * 1.5, rate(twenty));
  plan.engine.core.admission.tokens = 200;  // the adapter's contexts are 20
  EXPECT_LT(rate(played(plan)) * 1.5, rate(twenty));
}

TEST(Figures, ANumberOutsideItsBandIsShown) {
  Figure figure = tiny();
  const Results results = play({figure}, 2, 1, nullptr)[0];
  const double drop = results.mean("8x", 8) / results.mean("8x", 0);
  EXPECT_FALSE(judge(figure, results, Size::full).holds());
  EXPECT_NE(to_text(judge(figure, results, Size::full)).find("OUTSIDE"), std::string::npos);
  EXPECT_TRUE(judge(figure, results, Size::smoke).claims.empty());
  figure.said.claims[0].second.bands[0] = Band{drop, drop, drop};
  const Shown shown = judge(figure, results, Size::full);
  EXPECT_TRUE(shown.holds());
  EXPECT_NE(to_markdown({shown}, "how").find("| the drop, of none | not stated |"),
            std::string::npos);
}

TEST(Figures, APointThatBreaksIsShown) {
  Figure figure = tiny();
  figure.points[1].play = [](std::uint64_t) -> Measured { throw std::runtime_error("it broke"); };
  const auto results = play({figure}, 2, 1, nullptr);
  const Shown shown = judge(figure, results[0], Size::full);
  ASSERT_EQ(shown.violations.size(), 2u);
  EXPECT_NE(shown.violations[0].find("it broke"), std::string::npos);
  EXPECT_NE(to_text(shown).find("BROKEN"), std::string::npos);
  EXPECT_FALSE(shown.holds());
  const std::string report = to_markdown({shown}, "how");
  EXPECT_NE(report.find("it broke"), std::string::npos);
  EXPECT_NE(to_csv(results[0]).find("series,x,seed,throughput"), std::string::npos);
}

}  // namespace
}  // namespace weir::sim::figures
