#include <gtest/gtest.h>

#include <set>

#include "tools/sim/figures/bands.h"
#include "tools/sim/figures/report.h"
#include "tools/sim/figures/runner.h"
#include "tools/sim/world.h"

namespace weir::sim::figures {
namespace {

// Every claim is held to a band, and every band is some claim's.
void expect_bands(Size size) {
  const Bands bands = Bands::read(WEIR_SIM_BANDS, size);
  std::set<std::pair<std::string, std::string>> claims;
  for (const Entry& entry : all()) {
    for (const Claim& claim : entry.make(size).claims(Results{})) {
      EXPECT_TRUE(bands.of(entry.name, claim.name)) << entry.name << ": " << claim.name;
      claims.insert({entry.name, claim.name});
    }
  }
  for (const auto& [figure, of] : bands.entries()) {
    for (const auto& [claim, band] : of) {
      EXPECT_TRUE(claims.contains({figure, claim})) << figure << ": " << claim << " is no claim";
    }
  }
}

TEST(Figures, EveryClaimHasABandInFull) { expect_bands(Size::full); }
TEST(Figures, EveryClaimHasABandInSmoke) { expect_bands(Size::smoke); }

TEST(Figures, EveryOneSaysWhatItShowsAndWhatDiffers) {
  for (const Entry& entry : all()) {
    for (const Size size : {Size::full, Size::smoke}) {
      const Figure figure = entry.make(size);
      EXPECT_FALSE(figure.points.empty()) << entry.name;
      EXPECT_FALSE(figure.source.empty() || figure.shows.empty() || figure.differs.empty())
          << entry.name;
    }
    EXPECT_EQ(find(entry.name), &entry);
  }
  EXPECT_EQ(find("no-such"), nullptr);
}

Playing tiny() {
  network::Scenario scenario;
  scenario.fabric.topology = {.p = 2, .a = 4, .h = 2};
  scenario.from_cycles = 500;
  scenario.to_cycles = 1'500;
  Playing playing{.name = "tiny", .figure = {}};
  playing.figure.title = "a < b";
  for (const std::uint32_t slow : {0u, 4u, 8u}) {
    scenario.slow = {{slow, 8}};
    playing.figure.points.push_back(point("8x", slow, scenario, 2));
  }
  playing.figure.claims = [](const Results& r) {
    return std::vector<Claim>{
        {"drop", "what is left", "little", r.mean("8x", 8) / r.mean("8x", 0)}};
  };
  return playing;
}

TEST(Figures, ResultsDoNotDependOnHowManyPlay) {
  const auto one = play({tiny()}, 1, 1, nullptr);
  const auto four = play({tiny()}, 4, 1, nullptr);
  ASSERT_EQ(one[0].rows.size(), 6u);
  ASSERT_EQ(four[0].rows.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(one[0].rows[i].sample.violation, "");
    EXPECT_EQ(one[0].rows[i].x, four[0].rows[i].x);
    EXPECT_EQ(one[0].rows[i].seed, four[0].rows[i].seed);
    EXPECT_EQ(one[0].rows[i].sample.trace_hash, four[0].rows[i].sample.trace_hash);
  }
}

TEST(Figures, EveryPointOfEveryModelTellsWhatItCost) {
  for (const char* const name : {"ord-fig8b", "lane", "tok-cores"}) {
    SCOPED_TRACE(name);
    Playing playing{.name = name, .figure = find(name)->make(Size::smoke)};
    playing.figure.points.resize(1);
    const Results results = play({playing}, 1, 1, nullptr)[0];
    const Sample& sample = results.rows[0].sample;
    EXPECT_EQ(sample.violation, "");
    EXPECT_GT(sample.events, 0u);
    EXPECT_NE(sample.trace_hash, 0u);
    EXPECT_GT(sample.cpu_s, 0);
    EXPECT_GT(sample.peak_mib, 0);
  }
}

TEST(Figures, APictureIsDrawn) {
  Playing playing = tiny();
  playing.figure.y_label = "a message's latency";
  const Results results = play({playing}, 2, 1, nullptr)[0];
  EXPECT_NE(to_svg(playing.figure, results).find("<svg"), std::string::npos) << "gnuplot?";
}

TEST(Figures, AValueThatAPointLacksIsAnEmptyCell) {
  Results results;
  results.rows.resize(2);
  results.rows[0].sample.values = {{"throughput", 0.5}};
  results.rows[1].sample.values = {{"others", 0.25}, {"throughput", 1}};
  const std::string csv = to_csv(results);
  EXPECT_NE(csv.find("series,x,seed,throughput,others,events"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\"\",0,0,0.5,,0"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\"\",0,0,1,0.25,0"), std::string::npos) << csv;
}

TEST(Figures, AFigureThatWaitsIsNone) {
  for (const Waiting& figure : waiting()) EXPECT_EQ(find(figure.name), nullptr);
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
  EXPECT_GT(shrunk.shrinks, 0u);
  EXPECT_LT(shrunk.window * 5 / 4, before.window);  // the thread that shrinks it sleeps whole ms
}

TEST(Figures, TheNumberOfTokensMovesTokRate) {
  const auto rate = [](const Outcome& outcome) {
    return static_cast<double>(outcome.messages) /
           static_cast<double>((outcome.last_served - outcome.begun).ns);
  };
  Plan plan = tok_world(1);
  const Outcome twenty = played(plan);
  EXPECT_EQ(twenty.tokens_out_most, 20u);
  plan.engine.core.admission.tokens = 4;
  const Outcome four = played(plan);
  EXPECT_EQ(four.tokens_out_most, 4u);
  EXPECT_LT(rate(four) * 1.5, rate(twenty));
  plan.engine.core.admission.tokens = 200;  // the adapter's contexts are 20
  EXPECT_LT(rate(played(plan)) * 1.5, rate(twenty));
}

TEST(Figures, APointThatBreaksIsShown) {
  Playing playing = tiny();
  playing.figure.points[1].play = [](std::uint64_t) -> Sample {
    throw std::runtime_error("it broke");
  };
  const auto results = play({playing}, 2, 1, nullptr);
  const Shown shown = judge(playing, results[0], Bands{});
  ASSERT_EQ(shown.violations.size(), 2u);
  EXPECT_NE(shown.violations[0].find("it broke"), std::string::npos);
  EXPECT_NE(to_text(shown).find("BROKEN"), std::string::npos);
  const std::string html = to_html({shown}, {""}, "how");
  EXPECT_NE(html.find("a &lt; b"), std::string::npos);
  EXPECT_NE(html.find("it broke"), std::string::npos);
  EXPECT_NE(to_csv(results[0]).find("series,x,seed,throughput"), std::string::npos);
}

}  // namespace
}  // namespace weir::sim::figures
