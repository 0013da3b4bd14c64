// What `weir top` shows, of a node made up here: as JSON, as a table and for Prometheus.
#include "tools/top/report.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "transport/lane/peer_state.h"

namespace weir::tools::top {
namespace {

using Sorted = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t second = 1'000'000'000;

MemberView member(std::uint64_t rank) {
  MemberView made;
  made.process = {.pid = static_cast<std::uint32_t>(100 + rank), .start_ticks = 1};
  made.job = 7;
  made.rank = rank;
  made.shown_at = 10 * second;
  return made;
}

// Rank 0 has tokens, rank 1 waits for some since two seconds.
Look made_up() {
  Look look;
  PortLook port;
  port.at_ns = 10 * second;
  port.node.path = "/dev/shm/weir-x";
  port.node.device = "rxe0";
  port.node.port = 1;
  port.node.members = {member(0), member(1)};
  port.node.members[0].tokens_held = 3;
  port.node.members[0].counters.messages_sent = 500;
  port.node.members[1].tokens_held = 1;
  port.node.members[1].tokens_waited_for = 2;
  port.node.members[1].waiting_since = 8 * second;
  port.adapter.rnr_naks_received = 5;
  port.adapter.retries_exceeded = 0;
  look.ports.push_back(port);
  return look;
}

TEST(Top, JsonTellsHeldFromWaitedFor) {
  Look before = made_up();
  before.ports[0].node.members[0].shown_at = 8 * second;
  before.ports[0].node.members[0].counters.messages_sent = 100;
  const Sorted port = to_json(made_up(), before)["ports"].at(0);
  const Sorted& first = port["processes"].at(0);
  EXPECT_EQ(first["tokens_held"], 3);
  EXPECT_EQ(first["tokens_waited_for"], 0);
  EXPECT_EQ(first["waiting_ns"], 0);
  EXPECT_EQ(first["per_second"]["messages_sent"], 200.0);
  EXPECT_TRUE(first["proxy"].is_null());
  const Sorted& second_one = port["processes"].at(1);
  EXPECT_EQ(second_one["tokens_held"], 1);
  EXPECT_EQ(second_one["tokens_waited_for"], 2);
  EXPECT_EQ(second_one["waiting_ns"], 2 * second);
  EXPECT_EQ(port["adapter"], (Sorted{{"rnr_naks_received", 5}, {"retries_exceeded", 0}}));
}

TEST(Top, WhatFallsHasNoRate) {
  Look before = made_up();
  MemberView& then = before.ports[0].node.members[0];
  then.shown_at = 8 * second;
  then.counters.window = 64;          // a gauge; it is 0 now
  then.counters.messages_sent = 900;  // more than now, which no counter should have been
  const Sorted port = to_json(made_up(), before)["ports"].at(0);
  const Sorted& rates = port["processes"].at(0)["per_second"];
  EXPECT_FALSE(rates.contains("window"));
  EXPECT_FALSE(rates.contains("window_peak"));
  EXPECT_FALSE(rates.contains("messages_sent"));
  EXPECT_EQ(rates["messages_received"], 0.0);
  EXPECT_THAT(to_table(made_up(), before), Not(HasSubstr("e+")));
}

TEST(Top, TheTableHasTheSumsAndCountersThatAreNot0) {
  const std::string text = to_table(made_up(), {});
  EXPECT_THAT(text, HasSubstr("rxe0:1  2 processes  tokens 4 held, 2 waited for"));
  EXPECT_THAT(text, HasSubstr("rnr_naks_received 5"));
  EXPECT_THAT(text, Not(HasSubstr("retries_exceeded")));
  EXPECT_THAT(text, HasSubstr("2.0s"));
}

TEST(Top, TheTableSaysWhatBecameOfConnections) {
  Look look = made_up();
  Counters& counters = look.ports[0].node.members[0].counters;
  counters.connections_open = 6;
  counters.connections_broken = 4;
  counters.connections_resumed = 3;
  counters.peer_failures = 1;
  const std::string text = to_table(look, {});
  EXPECT_THAT(text, HasSubstr(" CONNS BROKE AGAIN  LOST "));
  EXPECT_THAT(text, HasSubstr("     6     4     3     1 "));
}

TEST(Top, TheTableHasTokensThatWereNotWaitedFor) {
  Look look = made_up();
  look.ports[0].node.members[1].counters.tokens_excused = 41;
  const std::string text = to_table(look, {});
  EXPECT_THAT(text, HasSubstr("  WAITS EXCUSE "));
  EXPECT_THAT(text, HasSubstr("   2.0s     41 "));
}

// Its columns are there once one of the processes was woken.
TEST(Top, OverlapIsShownWhereThereIsSome) {
  Look before = made_up();
  before.ports[0].node.members[0].shown_at = 8 * second;
  EXPECT_THAT(to_table(made_up(), before), Not(HasSubstr("WAKE/s")));
  Look look = made_up();
  Counters& counters = look.ports[0].node.members[0].counters;
  counters.overlap_wakeups = 60;
  counters.overlap_in_vain = 4;
  counters.overlap_upcalls = 5000;
  counters.overlap_time = 700'000;
  const std::string text = to_table(look, before);
  EXPECT_THAT(text, HasSubstr(" WAKE/s VAIN/s   UP/s   UP% "));
  EXPECT_THAT(text, HasSubstr("     30      2   2.5K   35% "));
  const Sorted rates = to_json(look, before)["ports"].at(0)["processes"].at(0)["per_second"];
  EXPECT_EQ(rates["overlap_in_vain"], 2.0);
  EXPECT_EQ(rates["overlap_time"], 350'000.0);
  EXPECT_THAT(
      to_prometheus(look),
      HasSubstr("weir_overlap_wakeups_total{device=\"rxe0\",port=\"1\",user=\"0\",mpi_job=\"7\","
                "rank=\"0\"} 60\n"));
}

TEST(Top, TheTimesOfReads) {
  EXPECT_THAT(to_table(made_up(), {}), Not(HasSubstr("READ50")));
  Look before = made_up();
  before.ports[0].node.members[0].read_times.counts[0] = 1000;  // these are not of this look
  before.ports[0].node.members[0].shown_at = 8 * second;
  Look look = made_up();
  ReadTimes& times = look.ports[0].node.members[0].read_times;
  times.counts[0] = 1000;
  times.counts[3] = 98;
  times.counts[7] = 1;
  times.counts[15] = 1;
  times.sum_ns = 3 * second;
  const std::string text = to_table(look, before);
  EXPECT_THAT(text, HasSubstr("  READ50  READ99 "));
  EXPECT_THAT(text, HasSubstr("  <33us  <524us "));
  EXPECT_THAT(text, HasSubstr("       -       - "));  // rank 1 has none
  times.counts[15] = 3;
  EXPECT_THAT(to_table(look, before), HasSubstr("  <33us   >67ms "));
  const Sorted json = to_json(look, before)["ports"].at(0)["processes"].at(0)["read_times"];
  EXPECT_EQ(json["counts"].at(3), 98);
  EXPECT_EQ(json["below_ns"].at(3), 32768);
  const std::string prometheus = to_prometheus(look);
  const std::string labels = R"({device="rxe0",port="1",user="0",mpi_job="7",rank="0")";
  EXPECT_THAT(prometheus,
              HasSubstr("weir_read_seconds_bucket" + labels + ",le=\"3.2768e-05\"} 1098\n"));
  EXPECT_THAT(prometheus, HasSubstr("weir_read_seconds_bucket" + labels + ",le=\"+Inf\"} 1102\n"));
  EXPECT_THAT(prometheus, HasSubstr("weir_read_seconds_sum" + labels + "} 3\n"));
  EXPECT_THAT(prometheus, HasSubstr("weir_read_seconds_count" + labels + "} 1102\n"));
}

TEST(Top, PeersOnDemand) {
  Look before = made_up();
  MemberView& then = before.ports[0].node.members[0];
  then.shown_at = 8 * second;
  const auto ready = static_cast<std::uint8_t>(PeerState::ready);
  then.peers = {{.name = {7, 3}, .state = ready, .frames_sent = 100, .frames_received = 9}};
  Look look = made_up();
  MemberView& member = look.ports[0].node.members[0];
  member.counters.connections_open = 40;
  member.peers = {{.name = {7, 3},
                   .state = ready,
                   .wait = PeerRow::Wait::credits,
                   .frames_sent = 300,
                   .frames_received = 4,  // less than before: another connection
                   .frames_pending = 12,
                   .requests_out = 6,
                   .credits_out = 8},
                  {.name = {7, 4}, .state = 200}};  // no such state
  const std::string text = to_table(look, before, {.peers = true});
  EXPECT_THAT(text, HasSubstr("    0     3      ready     100       -     12      6       0      8 "
                              "    0      0    credits\n"));
  EXPECT_THAT(text, HasSubstr("    0     4    unknown       -       - "));
  EXPECT_THAT(text, HasSubstr("rank 0: 2 of 40 connections\n"));
  EXPECT_THAT(to_table(look, before), Not(HasSubstr("WAITS FOR")));
  const Sorted process = to_json(look, before, true)["ports"].at(0)["processes"].at(0);
  ASSERT_EQ(process["peers"].size(), 2u);
  EXPECT_EQ(process["peers"][0]["rank"], 3);
  EXPECT_EQ(process["peers"][0]["waits_for"], "credits");
  EXPECT_EQ(process["peers"][0]["frames_sent_per_second"], 100.0);
  EXPECT_TRUE(process["peers"][0]["frames_received_per_second"].is_null());
  EXPECT_TRUE(process["peers"][1]["waits_for"].is_null());
  EXPECT_FALSE(to_json(look, before)["ports"].at(0)["processes"].at(0).contains("peers"));
}

TEST(Top, PrometheusHasTokensAndTheAdapter) {
  const std::string text = to_prometheus(made_up());
  const std::string labels = R"({device="rxe0",port="1",user="0",mpi_job="7",rank="1"} )";
  EXPECT_THAT(text, HasSubstr("weir_tokens_held" + labels + "1\n"));
  EXPECT_THAT(text, HasSubstr("weir_tokens_waited_for" + labels + "2\n"));
  EXPECT_THAT(text, HasSubstr("weir_waiting_seconds" + labels + "2\n"));
  EXPECT_THAT(text,
              HasSubstr("# TYPE weir_adapter_rnr_naks_received_total counter\n"
                        "weir_adapter_rnr_naks_received_total{device=\"rxe0\",port=\"1\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("weir_adapter_retries_exceeded_total{"));
  EXPECT_THAT(text, Not(HasSubstr("adapter_duplicates")));  // this adapter does not count them
}

// The format wants each sample once, and those of a name together.
TEST(Top, PrometheusSaysNothingTwice) {
  Look look = made_up();
  look.ports.push_back(look.ports[0]);  // another job's segment, of the same port
  for (MemberView& other : look.ports[1].node.members) other.job = 8;
  look.ports.push_back(look.ports[0]);  // processes that say they are others
  std::istringstream lines(to_prometheus(look));
  std::set<std::string> samples, names;
  std::string name;
  bool is_histogram = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# HELP ", 0) == 0) {
      name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(names.insert(name).second) << line;
      is_histogram = false;
    } else if (line == "# TYPE " + name + " histogram") {
      is_histogram = true;
    } else if (line[0] != '#') {
      std::string sample = line.substr(0, line.find('{'));
      if (is_histogram) sample = sample.substr(0, sample.rfind('_'));
      EXPECT_EQ(sample, name);
      EXPECT_TRUE(samples.insert(line.substr(0, line.find('}'))).second) << line;
    }
  }
  EXPECT_GT(names.size(), 10u);
}

// Prometheus writes `job` and `instance` itself.
TEST(Top, PrometheusKnowsUsersAndSlurmJobs) {
  Look look = made_up();
  look.ports[0].user = "alice";
  look.ports[0].slurm_jobs[101] = "4711";
  const std::string text = to_prometheus(look);
  EXPECT_THAT(text, HasSubstr("user=\"alice\",mpi_job=\"7\",rank=\"0\"} "));
  EXPECT_THAT(text, HasSubstr("user=\"alice\",mpi_job=\"7\",rank=\"1\",slurm_job=\"4711\"} "));
  EXPECT_THAT(text, Not(HasSubstr(",job=")));
  EXPECT_THAT(text, Not(HasSubstr("instance=")));
}

// promtool checks it (tests/tools/test_monitoring.py).
TEST(Top, PrometheusTakesAnyNumbers) {
  Look look = made_up();
  std::uint64_t number = 1;
  for (MemberView& member : look.ports[0].node.members) {
    for (const auto& counter : counter_table)
      member.counters.*counter.field = number *= 0x9e3779b97f4a7c15;
    member.read_times.counts.fill(UINT64_MAX / 3);
    member.read_times.sum_ns = UINT64_MAX;
    member.job = member.rank = member.shown_at = member.waiting_since = UINT64_MAX;
    member.tokens_held = member.read_tokens = UINT64_MAX;
  }
  look.ports[0].node.members[1].rank = 1;
  const std::string text = to_prometheus(look);
  EXPECT_THAT(text, HasSubstr("le=\"+Inf\"} 18446744073709551615\n"));
  if (const char* const file = std::getenv("WEIR_PROMETHEUS_FILE")) std::ofstream(file) << text;
}

TEST(Top, PrometheusHasTimesInSeconds) {
  Look look = made_up();
  look.ports[0].node.members[0].counters.repost_ns_peak = 1'500'000'000;
  look.ports[0].node.members[0].counters.overlap_time = 250'000;
  const std::string text = to_prometheus(look);
  EXPECT_THAT(text, HasSubstr("rank=\"0\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE weir_repost_seconds_peak gauge\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE weir_overlap_seconds_total counter\n"));
  EXPECT_THAT(text, HasSubstr("rank=\"0\"} 0.25\n"));
}

TEST(Top, ShowsCapsThatWereChangedWhileTheJobRan) {
  Look look = made_up();
  EXPECT_THAT(to_table(look, {}), Not(HasSubstr("by weir set")));
  for (MemberView& member : look.ports[0].node.members)
    member.caps = {-1, 64 << 20, 1, 4096, 8, -1};
  look.ports[0].node.members[1].counters.caps_changed = 1;
  EXPECT_THAT(to_table(look, {}),
              HasSubstr("by weir set: window_max auto receive_memory_max 64MiB reads_max 1 "
                        "reads_window_max 4KiB tokens 8 rate_max auto  for ranks 1\n"));
  const Sorted caps = to_json(look, {})["ports"].at(0)["processes"].at(1)["caps"];
  EXPECT_TRUE(caps["window_max"].is_null());
  EXPECT_EQ(caps["reads_max"], 1);
}

TEST(Top, ANarrowTerminalHasWhatIsWorthMost) {
  Look look = made_up();
  look.ports[0].node.members[0].peers = {{.name = {7, 3}}};
  for (const std::size_t width : {80u, 60u, 20u}) {
    std::istringstream lines(to_table(look, {}, {.peers = true, .width = width}));
    std::string title, head;
    std::getline(lines, title);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), width) << line;
      if (head.empty()) head = line;
    }
    EXPECT_THAT(head, HasSubstr("RANK  SENT/s"));
    EXPECT_THAT(head, Not(HasSubstr("EXCUSE")));
  }
}

TEST(Top, RowsAreSortedAndChosen) {
  Look look = made_up();
  look.ports[0].node.members.push_back(member(2));
  look.ports[0].node.members[2].job = 8;
  look.ports[0].node.members[2].counters.window = 99;
  look.ports[0].node.members[1].counters.window = 50;
  const auto ranks = [&](const Shape& shape) {
    std::istringstream lines(to_table(look, {}, shape));
    std::string line, found;
    std::getline(lines, line);
    std::getline(lines, line);
    while (std::getline(lines, line) && !line.empty()) found += line.substr(8, 6);
    return found;
  };
  EXPECT_EQ(ranks({}), "     0     1     2");
  EXPECT_EQ(ranks({.sorted_by = "W"}), "     2     1     0");
  EXPECT_EQ(ranks({.sorted_by = "W", .reversed = true}), "     0     1     2");
  EXPECT_EQ(ranks({.wanted = {.job = 8}}), "     2");
}

}  // namespace
}  // namespace weir::tools::top
