// What weir doctor and weir config diff make of several hosts: of their names, of what they say,
// and of what was measured. No host is asked.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tools/between/differences.h"
#include "tools/between/hosts.h"
#include "tools/between/judge.h"
#include "tools/between/table.h"

namespace weir::tools::between {
namespace {

using doctor::Verdict;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using Words = std::vector<std::string>;

Facts facts_with(const std::string& key = {}, const std::string& value = {},
                 const std::string& where = "/etc/weir/weir.yaml:1") {
  Facts facts;
  facts.host = "there";
  facts.weir = "1";
  facts.open_mpi = "4.1.4";
  facts.profile = "roce";
  describe(config::resolve({}, config::Fabric::roce), facts);
  if (!key.empty()) facts.settings[key] = {value, where};
  facts.port = PortFacts{.name = "mlx5_0:1",
                         .link = "RoCE",
                         .gid = "::ffff:10.0.0.1",
                         .gid_type = "RoCEv2",
                         .interface = "eth0",
                         .rails = "mlx5_0:1",
                         .rail_count = 1,
                         .mtu_bytes = 4096,
                         .speed_mbps = 100000,
                         .soft = false};
  return facts;
}

End here() { return {"node1", facts_with()}; }
End there(const Facts& facts = facts_with()) { return {"node2", facts}; }

Finding one(const Findings& findings, const std::string& name) {
  Findings found;
  for (const Finding& finding : findings) {
    if (finding.name == name) found.push_back(finding);
  }
  EXPECT_THAT(found, SizeIs(1)) << name;
  return found.empty() ? Finding{} : found.front();
}

TEST(Hosts, OfAHostfileAreTheFirstWords) {
  EXPECT_THAT(
      hosts_of("# all\n node1 slots=4\n\nnode2# the last one\n\tnode1\n#node3\nnode4 max_slots=2"),
      ElementsAre("node1", "node2", "node4"));
  EXPECT_THAT(hosts_of(""), IsEmpty());
  EXPECT_THAT(hosts_of("node1\r\nnode2\r\n"), ElementsAre("node1", "node2"));
}

TEST(Hosts, NamesThatAShellWouldTakeForSomethingElseAreNone) {
  for (const char* name : {"", "-oProxyCommand=x", "a b", "a;b", "$(a)", "a\nb"}) {
    EXPECT_NE(why_no_host(name), "") << name;
  }
  EXPECT_NE(why_no_host(std::string(300, 'a')), "");
  for (const char* name : {"node1", "me@node1.example.org", "10.0.0.1", "fe80::1%eth0"}) {
    EXPECT_EQ(why_no_host(name), "") << name;
  }
}

TEST(Hosts, ThisOneIsKnownByItsShortName) {
  EXPECT_TRUE(is_this_host("node1.cluster", "node1"));
  EXPECT_TRUE(is_this_host("localhost", "node1"));
  EXPECT_FALSE(is_this_host("node10", "node1"));
  EXPECT_FALSE(is_this_host("10.0.0.1", "10.1.1.1"));
}

TEST(Hosts, TheShellIsTheFirstThatExists) {
  const auto all = [](const std::string&) { return true; };
  const auto none = [](const std::string&) { return false; };
  const auto only = [](const std::string& name) { return name == "/lab/bin/lab-rsh"; };
  EXPECT_THAT(remote_shell("ssh -p 23 : rsh", all),
              ElementsAre("ssh", "-o", "BatchMode=yes", "-x", "-p", "23"));
  EXPECT_THAT(remote_shell("ssh:/lab/bin/lab-rsh -q", only), ElementsAre("/lab/bin/lab-rsh", "-q"));
  EXPECT_THAT(remote_shell("ssh : rsh", none), ElementsAre("rsh"));
  EXPECT_THAT(remote_shell(" : ", all), IsEmpty());
}

TEST(Hosts, ACommandIsQuotedForTheShell) {
  EXPECT_EQ(shell_command({"/a b/weir", "it's", "$HOME"}), "'/a b/weir' 'it'\\''s' '$HOME'");
}

TEST(Lines, OnlyMarkedLinesAreAnswers) {
  LineReader lines;
  EXPECT_TRUE(lines.add("Welcome\r\nweir-answer {\"a\":1}\nweir-answer [1]\n$ weir-answer {\"b\""));
  EXPECT_EQ(count_in(*lines.next(), "a"), 1u);
  EXPECT_FALSE(lines.next());
  EXPECT_TRUE(lines.add(":2}\n"));
  EXPECT_EQ(count_in(*lines.next(), "b"), 2u);
  EXPECT_THAT(lines.noise(), AllOf(HasSubstr("Welcome"), HasSubstr("[1]")));
}

TEST(Lines, WhatHasNoEndIsRefusedAndNoiseIsBounded) {
  LineReader lines;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(lines.add("\x1b[31mhello\n"));
  EXPECT_FALSE(lines.next());
  EXPECT_LT(lines.noise().size(), 1000u);
  EXPECT_THAT(lines.noise(), Not(HasSubstr("\x1b")));
  EXPECT_FALSE(lines.add(std::string(longest_line + 1, 'x')));
}

TEST(Lines, FieldsOfTheWrongTypeAreEmpty) {
  const Json said = *object_of(R"({"text":7,"number":"x","count":-1,"bad":"a\u001b[2Jb"})");
  EXPECT_EQ(text_in(said, "text"), "");
  EXPECT_EQ(number_in(said, "number"), 0);
  EXPECT_EQ(count_in(said, "count"), 0u);
  EXPECT_EQ(text_in(said, "bad"), "a?[2Jb");
  EXPECT_EQ(text_in(said, "nothing"), "");
  EXPECT_FALSE(object_of(R"({"big":1e400})"));
  EXPECT_FALSE(object_of("{"));
  EXPECT_FALSE(object_of("[]"));
}

TEST(Lines, FactsComeBackAsTheyWereSaid) {
  const Facts said = facts_with("buffer_size", "16KiB");
  EXPECT_EQ(facts_of(*object_of(line_of(to_json(said)))), said);
}

TEST(Lines, FactsOfAnotherShapeAreTaken) {
  const Facts facts = facts_of(*object_of(
      R"({"host":[],"settings":{"buffer_size":7,"no_such_key":{"value":"1"}},"port":{"soft":"x"}})"));
  EXPECT_THAT(facts.settings, IsEmpty());
  EXPECT_FALSE(facts.port->soft);
}

TEST(Compare, EqualHostsAreWell) {
  for (const Finding& finding : compare(here(), there())) {
    EXPECT_EQ(finding.verdict, Verdict::ok) << finding.name << ": " << finding.text;
  }
}

TEST(Compare, AnotherBufferSizeFailsAndNamesBothSources) {
  const Finding found = one(compare(here(), there(facts_with("buffer_size", "16KiB"))), "keys");
  EXPECT_EQ(found.verdict, Verdict::fail);
  EXPECT_THAT(found.text, AllOf(HasSubstr("8704B on node1 (default)"),
                                HasSubstr("16KiB on node2 (/etc/weir/weir.yaml:1)")));
}

TEST(Compare, AVariableThatMpirunDoesNotHandOnIsNamed) {
  const Finding found = one(
      compare(here(), there(facts_with("frames", "spread", "environment variable WEIR_FRAMES"))),
      "keys");
  EXPECT_EQ(found.verdict, Verdict::fail);
  EXPECT_THAT(found.fix, HasSubstr("mpirun -x WEIR_FRAMES"));
}

TEST(Compare, AnotherTrafficClassWarnsAndAnotherWindowIsOk) {
  EXPECT_EQ(one(compare(here(), there(facts_with("traffic_class", "104"))), "path").verdict,
            Verdict::warn);
  const Finding window = one(compare(here(), there(facts_with("window_initial", "9"))), "keys");
  EXPECT_EQ(window.verdict, Verdict::ok);
  EXPECT_THAT(window.text, HasSubstr("1 other differs"));
}

TEST(Compare, MistakesVersionsAndLinksAreSeen) {
  Facts odd = facts_with();
  odd.weir = "2";
  odd.open_mpi = "5.0.7";
  odd.mistakes = 2;
  odd.port->link = "InfiniBand";
  odd.port->mtu_bytes = 1024;
  odd.port->rail_count = 2;
  const Findings found = compare(here(), there(odd));
  for (const char* name : {"weir", "open mpi", "keys", "gid"}) {
    EXPECT_EQ(one(found, name).verdict, Verdict::fail) << name;
  }
  EXPECT_EQ(one(found, "mtu").verdict, Verdict::warn);
  EXPECT_EQ(one(found, "rails").verdict, Verdict::warn);
}

TEST(Compare, TheSmallerMtuIsTheOneToRaise) {
  Facts small = facts_with();
  small.port->mtu_bytes = 1024;
  small.port->interface = "eth7";
  EXPECT_THAT(one(compare(here(), there(small)), "mtu").fix,
              AllOf(HasSubstr("on node2"), HasSubstr("ip link set eth7 mtu 4200")));
}

TEST(Compare, WithoutAPortNothingMoreIsCompared) {
  Facts none = facts_with();
  none.port.reset();
  none.why_no_port = "there is no RDMA device";
  const Findings found = compare(here(), there(none));
  EXPECT_THAT(one(found, "port").text, HasSubstr("no RDMA device"));
  EXPECT_TRUE(std::none_of(found.begin(), found.end(),
                           [](const Finding& finding) { return finding.name == "mtu"; }));
}

TEST(Judge, BandwidthCountsAgainstTheSlowerPort) {
  Facts slow = facts_with();
  slow.port->speed_mbps = 25000;
  // 2.8 GB/s are nine tenths of 25 Gb/s, and a quarter of 100 Gb/s.
  EXPECT_EQ(judge_bandwidth("to", here(), there(slow), 2.8e9).verdict, Verdict::ok);
  EXPECT_EQ(judge_bandwidth("to", here(), there(), 2.8e9).verdict, Verdict::warn);
  slow.port->soft = true;
  EXPECT_EQ(judge_bandwidth("to", here(), there(slow), 1e8).verdict, Verdict::ok);
}

TEST(Judge, SlowAndLopsidedWaysWarn) {
  EXPECT_EQ(judge_latency(here(), there(), 2).verdict, Verdict::ok);
  EXPECT_EQ(judge_latency(here(), there(), 50).verdict, Verdict::warn);
  EXPECT_FALSE(judge_directions(here(), there(), 10e9, 9e9));
  EXPECT_TRUE(judge_directions(here(), there(), 10e9, 5e9));
}

TEST(Judge, APacketThatDoesNotPassNamesOneThatDoes) {
  EXPECT_EQ(judge_packet(4096, "", 0, here(), there()).verdict, Verdict::ok);
  EXPECT_THAT(judge_packet(4096, "retries", 1024, here(), there()).fix,
              HasSubstr("btl_weir_mtu 1024"));
  EXPECT_THAT(judge_packet(4096, "retries", 0, here(), there()).text,
              HasSubstr("no packet passes"));
}

TEST(Judge, OddOnesNeedOthersToCompareWith) {
  EXPECT_THAT(odd_ones({1, 9}, true), IsEmpty());
  EXPECT_THAT(odd_ones({2, 2.1, 9, 1.9}, true), ElementsAre(2));
  EXPECT_THAT(odd_ones({10, 11, 5, 10}, false), ElementsAre(2));
}

TEST(Counters, AreReadFromTheFilesThatTheDriverHas) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("between_test." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "hw_counters");
  std::ofstream(folder / "hw_counters" / "np_cnp_sent") << "7\n";
  std::ofstream(folder / "hw_counters" / "lifespan") << "10\n";
  const Counters read = read_counters(folder, "");
  std::filesystem::remove_all(folder);
  EXPECT_EQ(read, (Counters{{"np_cnp_sent", 7}}));
}

TEST(Counters, OnlyWhatRoseIsNamed) {
  const Counters before{{"np_cnp_sent", 3}, {"retry_exceeded_err", 1}, {"rx_prio3_pause", 5}};
  const Counters after{
      {"np_cnp_sent", 5}, {"retry_exceeded_err", 1}, {"rx_prio3_pause", 6}, {"out_of_sequence", 9}};
  const auto rose = rises(before, after);
  ASSERT_THAT(rose, SizeIs(2));
  EXPECT_EQ(rose[0].by, 2u);
  EXPECT_EQ(rose[1].trouble, Trouble::pause);
  const Finding found = judge_counters(here(), rose, there(), {}, true);
  EXPECT_EQ(found.verdict, Verdict::warn);
  EXPECT_THAT(found.text, AllOf(HasSubstr("2 congestion notifications sent on node1"),
                                HasSubstr("rx_prio3_pause")));
  EXPECT_EQ(judge_counters(here(), {}, there(), {}, true).verdict, Verdict::ok);
  const std::vector<Rise> repeats{{"duplicate_request", Trouble::repeat, "x", 1}};
  EXPECT_THAT(judge_counters(here(), repeats, there(), {}, true).fix, HasSubstr("PFC"));
  End soft = here();
  soft.facts.port->soft = true;
  EXPECT_THAT(judge_counters(soft, repeats, there(), {}, true).fix, HasSubstr("busy CPUs"));
  EXPECT_EQ(judge_counters(here(), {}, there(), {}, false).verdict, Verdict::warn);
}

TEST(Counters, OfAnotherHostAreTheKnownOnesThatAreNumbers) {
  const Json said = *object_of(
      R"({"counters":{"np_cnp_sent":4,"\u001b[2J":1,"symbol_error":"x","rx_prio1_pause":2}})");
  EXPECT_EQ(counters_of(said), (Counters{{"np_cnp_sent", 4}, {"rx_prio1_pause", 2}}));
}

Way way(const std::string& to, double us) {
  Way made{.from = "node1",
           .to = to,
           .findings = {doctor::ok("shell", "answers"), doctor::ok("latency", "x"),
                        doctor::ok("to", "x")},
           .latency_us = us,
           .to_bytes_per_second = 12.5e9,
           .from_bytes_per_second = {}};
  return made;
}

TEST(Table, ShowsNumbersAndFailures) {
  Way lost{.from = "node1",
           .to = "node4",
           .findings = {doctor::fail("shell", "no answer", "fix")},
           .latency_us = {},
           .to_bytes_per_second = {},
           .from_bytes_per_second = {}};
  EXPECT_EQ(table_of({way("node2", 1.5), lost}),
            "from   to     shell  latency us  to MB/s\n"
            "node1  node2  ok     1.5         12500\n"
            "node1  node4  FAIL   -           -\n");
}

TEST(Table, NamesTheOddOne) {
  std::vector<Way> ways{way("node2", 1.5), way("node3", 1.6), way("node4", 5)};
  name_odd_ones(ways);
  EXPECT_THAT(ways[0].findings, SizeIs(3));
  ASSERT_THAT(ways[2].findings, SizeIs(4));
  EXPECT_THAT(ways[2].findings.back().text, HasSubstr("node1 and node4"));
  EXPECT_THAT(table_of(ways), HasSubstr("5.0!"));
}

TEST(Table, AMatrixHasBothDirections) {
  Way one = way("node2", 1.5);
  one.findings.push_back(doctor::ok("from", "x"));
  one.from_bytes_per_second = 6e9;
  EXPECT_EQ(matrix_of({one}, {"node1", "node2"}),
            "us     node1  node2\n"
            "node1         1.5\n"
            "node2  1.5\n"
            "\n"
            "MB/s   node1  node2\n"
            "node1         12500\n"
            "node2  6000\n");
}

TEST(Table, ProgressTellsTheTimeLeft) {
  EXPECT_EQ(progress_text(0, 4, 0, way("node2", 1)), "pair 1 of 4: node1 to node2");
  EXPECT_EQ(progress_text(2, 4, 10, way("node4", 1)), "pair 3 of 4: node1 to node4, 10 s left");
}

TEST(Differences, AreByKeyAndByValueWithThoseThatBreakAJobFirst) {
  Facts odd = facts_with("buffer_size", "16KiB");
  odd.settings["peer_timeout"] = {"9s", "x.yaml:2"};
  const auto found = differences({{"a", odd}, {"b", facts_with()}, {"c", facts_with()}});
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].key, "buffer_size");
  EXPECT_EQ(line_of(found[0]),
            "buffer_size           8704B: b, c (default); 16KiB: a (/etc/weir/weir.yaml:1)  [has to "
            "be the same everywhere]");
  EXPECT_EQ(found[1].key, "peer_timeout");
  EXPECT_FALSE(found[1].alike);
  EXPECT_THAT(differences({{"b", facts_with()}, {"c", facts_with()}}), IsEmpty());
}

}  // namespace
}  // namespace weir::tools::between
