// What `weir top` shows, of a node made up here: as JSON, as a table and for Prometheus.
#include "tools/top/report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "transport/lane/peer_state.h"

namespace weir::tools::top {
namespace {

using Json = nlohmann::json;
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
  look.at_ns = 10 * second;
  PortLook port;
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
  const Json port = to_json(made_up(), before)["ports"].at(0);
  const Json& first = port["processes"].at(0);
  EXPECT_EQ(first["tokens_held"], 3);
  EXPECT_EQ(first["tokens_waited_for"], 0);
  EXPECT_EQ(first["waiting_ns"], 0);
  EXPECT_EQ(first["per_second"]["messages_sent"], 200.0);
  EXPECT_TRUE(first["proxy"].is_null());
  const Json& second_one = port["processes"].at(1);
  EXPECT_EQ(second_one["tokens_held"], 1);
  EXPECT_EQ(second_one["tokens_waited_for"], 2);
  EXPECT_EQ(second_one["waiting_ns"], 2 * second);
  EXPECT_EQ(port["adapter"], (Json{{"rnr_naks_received", 5}, {"retries_exceeded", 0}}));
}

TEST(Top, WhatFallsHasNoRate) {
  Look before = made_up();
  MemberView& then = before.ports[0].node.members[0];
  then.shown_at = 8 * second;
  then.counters.window = 64;          // a gauge; it is 0 now
  then.counters.messages_sent = 900;  // more than now, which no counter should have been
  const Json port = to_json(made_up(), before)["ports"].at(0);
  const Json& rates = port["processes"].at(0)["per_second"];
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
  const Json rates = to_json(look, before)["ports"].at(0)["processes"].at(0)["per_second"];
  EXPECT_EQ(rates["overlap_in_vain"], 2.0);
  EXPECT_EQ(rates["overlap_time"], 350'000.0);
  EXPECT_THAT(to_prometheus(look),
              HasSubstr("weir_overlap_wakeups_total{device=\"rxe0\",port=\"1\",job=\"7\","
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
  const Json json = to_json(look, before)["ports"].at(0)["processes"].at(0)["read_times"];
  EXPECT_EQ(json["counts"].at(3), 98);
  EXPECT_EQ(json["below_ns"].at(3), 32768);
  const std::string prometheus = to_prometheus(look);
  const std::string labels = R"({device="rxe0",port="1",job="7",rank="0")";
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
  const std::string text = to_table(look, before, true);
  EXPECT_THAT(text, HasSubstr("    0     3      ready     100       -     12      6       0      8 "
                              "    0      0    credits\n"));
  EXPECT_THAT(text, HasSubstr("    0     4    unknown       -       - "));
  EXPECT_THAT(text, HasSubstr("    0     2 of 40 connections\n"));
  EXPECT_THAT(to_table(look, before), Not(HasSubstr("WAITS FOR")));
  const Json process = to_json(look, before, true)["ports"].at(0)["processes"].at(0);
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
  const std::string labels = R"({device="rxe0",port="1",job="7",rank="1"} )";
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

}  // namespace
}  // namespace weir::tools::top
