#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tools/data_files.h"
#include "tools/sim/figures/figure.h"
#include "tools/sim/network/whole_core.h"
#include "tools/sim/world.h"

namespace weir::sim::figures {
namespace {

const std::vector<Figure>& shipped(Size size) {
  static const std::string file = tools::data_file("sim/figures/claims.json");
  static const std::vector<Figure> full = read_figures(file, Size::full);
  static const std::vector<Figure> smoke = read_figures(file, Size::smoke);
  return size == Size::full ? full : smoke;
}

const Figure& shipped(const std::string& name, Size size) {
  return *std::ranges::find(shipped(size), name, &Figure::name);
}

// What keeps a claim from being one that can fail; empty: nothing. A ratio is on one side of 1, or
// near it.
std::string fault(const Claim& claim) {
  const auto [least, most] = claim.range;
  if (claim.is.empty() || claim.number.empty()) return "it says nothing";
  if (claim.of.empty() != claim.over.empty()) return "a ratio says what it is compared with";
  if (claim.of.empty() && claim.paper.empty()) return "there is nothing to hold it against";
  if (claim.of.empty() && (least < 0.8 * most)) return "the range is too wide";
  if (!claim.of.empty() && least <= 1 && most >= 1 && (least < 0.9 || most > 1.2) &&
      claim.paper != "no gain" && claim.paper != "a little less") {
    return "the range of nothing has something in it";
  }
  const std::set<std::string> verdicts{"yes", "no", "weaker", "stronger"};
  return verdicts.contains(claim.verdict) ? "" : "there is no such verdict";
}

// What a claim is computed from is there: points of the figure.
TEST(Figures, EveryTermIsAPoint) {
  for (const Figure& figure : shipped(Size::full)) {
    for (const Claim& claim : figure.claims) {
      std::vector<Term> terms = claim.number;
      terms.insert(terms.end(), claim.over.begin(), claim.over.end());
      for (const Term& term : terms) {
        for (const double x : term.x) {
          EXPECT_TRUE(std::ranges::any_of(figure.points, [&](const Point& point) {
            return point.series == term.series && point.x == x;
          })) << figure.name << ": " << term.series << " " << x;
        }
      }
    }
  }
}

TEST(Figures, EveryClaimCanFail) {
  for (const Figure& figure : shipped(Size::full)) {
    for (const Claim& claim : figure.claims) {
      EXPECT_EQ(fault(claim), "") << figure.name << ": " << claim.is;
    }
  }
  const Claim good{.is = "it", .of = "that", .paper = "", .range = {1.1, 2}, .verdict = "yes",
                   .number = {Term{}}, .over = {Term{}}};
  const auto fault_of = [&](auto&& change) {
    Claim claim = good;
    change(claim);
    return fault(claim);
  };
  EXPECT_EQ(fault(good), "");
  EXPECT_NE(fault_of([](Claim& claim) { claim.range = {0.5, 1.1}; }), "");
  EXPECT_NE(fault_of([](Claim& claim) { claim.verdict = "perhaps"; }), "");
  EXPECT_NE(fault_of([](Claim& claim) { claim.over = {}; }), "");
  EXPECT_NE(fault_of([](Claim& claim) { claim.number = {}; }), "");
  EXPECT_NE(fault_of([](Claim& claim) { claim.of = ""; claim.over = {}; }), "");
}

TEST(Figures, AVerdictSaysHowFarANumberIsFromWhatIsClaimed) {
  Claim claim{.is = "it", .of = "that", .paper = "2", .range = {1.6, 2.4}, .verdict = "",
              .number = {}, .over = {}};
  EXPECT_EQ(judge(claim, 2), "yes");
  EXPECT_EQ(judge(claim, 1.3), "weaker");
  EXPECT_EQ(judge(claim, 2.6), "stronger");
  EXPECT_EQ(judge(claim, 1.05), "no");
  EXPECT_EQ(judge(claim, 0.5), "no");
  claim.range = {0.4, 0.6};
  EXPECT_EQ(judge(claim, 0.8), "weaker");
  EXPECT_EQ(judge(claim, 0.3), "stronger");
  EXPECT_EQ(judge(claim, 0.95), "no");
  claim.of = "";
  EXPECT_EQ(judge(claim, 0.8), "no");
}

TEST(Figures, EveryOneSaysWhatDiffersAndHasPoints) {
  EXPECT_GE(shipped(Size::full).size(), 10u);
  for (const Size size : {Size::full, Size::smoke}) {
    for (const Figure& figure : shipped(size)) {
      EXPECT_FALSE(figure.points.empty()) << figure.name;
      for (const std::string& text :
           {figure.title, figure.source, figure.differs, figure.x_label, figure.y_label}) {
        EXPECT_FALSE(text.empty()) << figure.name;
      }
    }
  }
  EXPECT_THROW(read_figures("/nowhere.json", Size::smoke), std::runtime_error);
}

TEST(Figures, APlayHasAPointForEachX) {
  const std::vector<Point>& full = shipped("core-budget", Size::full).points;
  ASSERT_EQ(full.size(), 14u);
  EXPECT_EQ(full[3].series, "of the node, 4x");
  EXPECT_EQ(full[3].x, 30);
  EXPECT_EQ(full[3].seeds, 1u);
  const std::vector<Point>& smoke = shipped("core-budget", Size::smoke).points;
  ASSERT_EQ(smoke.size(), 8u);
  EXPECT_EQ(smoke[2].series, "of each of 4 processes, 4x");
  EXPECT_EQ(smoke[2].seeds, 1u);
}

Figure tiny() {
  network::Scenario scenario;
  scenario.fabric.topology = {.p = 2, .a = 4, .h = 2};
  scenario.from_cycles = 500;
  scenario.to_cycles = 1'500;
  Figure figure;
  figure.title = "a < b";
  for (const std::uint32_t slow : {0u, 4u, 8u}) {
    scenario.slow = {{slow, 8}};
    figure.points.push_back({"8x", static_cast<double>(slow), 2, scenario});
  }
  figure.claims = {{.is = "the drop",
                    .of = "none",
                    .paper = "",
                    .range = {1.1, 2},
                    .verdict = "yes",
                    .number = {Term{.series = "8x", .x = {8}}},
                    .over = {Term{.series = "8x", .x = {0}}}},
                   {.is = "another", .of = "", .paper = "1", .range = {1, 1}, .verdict = "no",
                    .number = {Term{.series = "not played", .x = {8}}}, .over = {}}};
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
    Figure figure = shipped(name, Size::smoke);
    figure.points.resize(1);
    const Results results = play({figure}, 1, 1, nullptr)[0];
    const network::Measured& measured = results.rows[0].measured;
    EXPECT_EQ(measured.violation, "");
    EXPECT_GT(measured.events, 0u);
    EXPECT_NE(measured.trace_hash, 0u);
    EXPECT_GT(measured.cpu_s, 0);
  }
}

TEST(Figures, APictureIsDrawn) {
  Figure figure = tiny();
  figure.y_label = "a message's latency";
  const Results results = play({figure}, 2, 1, nullptr)[0];
  const std::string file = testing::TempDir() + "weir it's.svg";
  ASSERT_TRUE(draw(Shown(figure, results), file)) << "gnuplot?";
  std::stringstream svg;
  svg << std::ifstream(file).rdbuf();
  EXPECT_NE(svg.str().find("<svg"), std::string::npos);
  std::filesystem::remove(file);
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

Plan world(const std::string& figure, const std::string& series, double x) {
  for (const Point& point : shipped(figure, Size::smoke).points) {
    if (point.series == series && point.x == x) return network::core_plan(point.scenario, 1);
  }
  ADD_FAILURE() << figure << " has no such point";
  return {};
}

TEST(Figures, TheReceiveWindowsConstantsMoveArwsFig2) {
  Plan plan = world("arws-fig2", "halo", 256);
  const std::uint32_t buffer_bytes = plan.engine.core.buffer_bytes;
  const Outcome before = played(plan);
  plan.engine.core.window.max /= 4;
  const Outcome smaller = played(plan);
  EXPECT_EQ(smaller.receive_bytes_peak, plan.engine.core.window.max * buffer_bytes);
  EXPECT_LT(smaller.receive_bytes_peak * 2, before.receive_bytes_peak);

  plan = world("arws-fig2", "halo", 256);
  plan.engine.core.window.initial = plan.engine.core.window.max *= 2;
  EXPECT_GT(played(plan).receive_bytes_peak, before.receive_bytes_peak * 5 / 4);

  plan = world("arws-fig2", "halo", 256);
  plan.engine.core.shrink_after = microseconds(20);
  const Outcome shrunk = played(plan);
  EXPECT_GT(shrunk.total.window_shrinks, 0u);
}

// It is W_max at most, however long senders wait that find no buffer.
TEST(Figures, TheRnrTimerDoesNotMoveReceiveMemory) {
  Plan plan = world("arws-fig2", "all-to-one", 256);
  plan.engine.core.window = {.initial = 4, .max = 4};
  for (const auto code : {std::uint8_t{1}, std::uint8_t{18}}) {  // 0.01 ms, 5.12 ms
    plan.engine.core.rnr_code = code;
    const Outcome outcome = played(plan);
    EXPECT_GT(outcome.rnr_naks, 0u);
    EXPECT_EQ(outcome.receive_bytes_peak, 4u * plan.engine.core.buffer_bytes);
  }
}

TEST(Figures, TheNumberOfTokensMovesTokRate) {
  const auto rate = [](const Outcome& outcome) {
    return static_cast<double>(outcome.messages) /
           static_cast<double>((outcome.last_served - outcome.begun).ns);
  };
  Plan plan = world("tok-rate", "tokens", 64);
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

TEST(Figures, AVerdictThatIsAnotherOneIsShown) {
  Figure figure = tiny();
  const Results results = play({figure}, 2, 1, nullptr)[0];
  const Shown wrong(figure, results);
  ASSERT_EQ(wrong.rows.size(), 1u) << "what was not played is left out";
  ASSERT_EQ(wrong.faults.size(), 1u);
  EXPECT_NE(to_text(wrong).find("BROKEN"), std::string::npos);
  figure.claims[0].range = {0, 0.9};
  const Shown right(figure, results);
  EXPECT_TRUE(right.faults.empty());
  EXPECT_NE(to_markdown({right}, "how").find("|the drop, of none||"),
            std::string::npos);
}

TEST(Figures, APointThatBreaksIsShown) {
  Figure figure = tiny();
  figure.claims.clear();
  const auto results = play({figure}, 2, 1, nullptr,
                            [](const network::Scenario& scenario, std::uint64_t seed) {
                              if (scenario.slow[0].nodes == 4) throw std::runtime_error("it broke");
                              return network::run(scenario, seed);
                            });
  const Shown shown(figure, results[0]);
  ASSERT_EQ(shown.faults.size(), 2u);
  EXPECT_NE(shown.faults[0].find("it broke"), std::string::npos);
  EXPECT_NE(to_text(shown).find("BROKEN"), std::string::npos);
  EXPECT_NE(to_markdown({shown}, "how").find("it broke"), std::string::npos);
  EXPECT_NE(to_csv(results[0]).find("series,x,seed,throughput"), std::string::npos);
}

}  // namespace
}  // namespace weir::sim::figures
