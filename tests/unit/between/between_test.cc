// What weir doctor and weir config diff make of several hosts: of their names, of what they say,
// and of what was measured. No host is asked.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tools/between/differences.h"
#include "tools/between/hosts.h"
#include "tools/between/judge.h"
#include "tools/between/launch.h"
#include "tools/between/odd.h"
#include "tools/between/rounds.h"
#include "tools/between/table.h"

namespace weir::tools::between {
namespace {

using doctor::Verdict;
using ::testing::AllOf;
using ::testing::Contains;
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
  EXPECT_FALSE(is_this_host("gpu1.siteB", "gpu1.siteA"));
  EXPECT_FALSE(is_this_host("10.0.0.1", "10.1.1.1"));
}

TEST(Hosts, AListIsSplitOutsideItsBrackets) {
  EXPECT_THAT(parts_of("node[1,3-4],login1 node9,"), ElementsAre("node[1,3-4]", "login1", "node9"));
  EXPECT_THAT(parts_of("node[1-9]!node3,node4"), SizeIs(1));
  EXPECT_THAT(parts_of(" , "), IsEmpty());
  EXPECT_TRUE(is_pattern("node[1-2]") && is_pattern("@rack1"));
  EXPECT_FALSE(is_pattern("me@node1.example.org"));
}

// The environment, and the programs there are.
Surroundings around(std::map<std::string, std::string> variables, Words programs) {
  return {.variable =
              [=](const char* name) {
                const auto found = variables.find(name);
                return found == variables.end() ? "" : found->second;
              },
          .exists =
              [=](const std::string& program) {
                return std::find(programs.begin(), programs.end(), program) != programs.end();
              }};
}

const Words program{"/opt/my weir", "doctor"};

TEST(Launch, SshGetsOneQuotedWordAndTheOthersGetEachWord) {
  const auto command = [](const char* wish) {
    return launch_command(choose_launcher(wish, around({}, {})), "node7", program);
  };
  EXPECT_THAT(command("ssh -p 23"),
              ElementsAre("ssh", "-o", "BatchMode=yes", "-x", "-p", "23", "node7",
                          "'/opt/my weir' 'doctor'"));
  EXPECT_THAT(command("/usr/bin/srun -p debug"),
              AllOf(Contains("--nodelist=node7"), Contains("/opt/my weir"), Contains("doctor"),
                    Not(Contains("node7")), Contains("debug")));
  EXPECT_THAT(command("mpirun"), ElementsAre("mpirun", "--host", "node7", "-n", "1", "--bind-to",
                                             "none", "/opt/my weir", "doctor"));
  EXPECT_THAT(command("./mine -v"), ElementsAre("./mine", "-v", "node7", "/opt/my weir", "doctor"));
  EXPECT_THAT(command("docker exec -i weir-{host}"),
              ElementsAre("docker", "exec", "-i", "weir-node7", "/opt/my weir", "doctor"));
}

TEST(Launch, InsideAnAllocationItIsSrun) {
  const auto first = [](const Surroundings& here) { return choose_launcher("", here).words[0]; };
  EXPECT_EQ(first(around({{"SLURM_JOB_ID", "7"}}, {"srun"})), "srun");
  EXPECT_EQ(first(around({{"SLURM_JOB_ID", "7"}}, {})), "ssh");
  EXPECT_EQ(first(around({}, {"srun"})), "ssh");
  EXPECT_EQ(choose_launcher("rsh", around({{"SLURM_JOB_ID", "7"}}, {"srun"})).words[0], "rsh");
}

TEST(Launch, OfOpenMpisShellsItIsTheFirstThatExists) {
  const auto chosen = [](const char* agents, const Words& programs) {
    return choose_launcher("", around({{"OMPI_MCA_plm_rsh_agent", agents}}, programs));
  };
  EXPECT_EQ(chosen("ssh:/lab/bin/lab-rsh -q", {"/lab/bin/lab-rsh"}),
            (Launcher{{"/lab/bin/lab-rsh", "-q", "{host}"}, true}));
  EXPECT_THAT(chosen("ssh : rsh", {"ssh", "rsh"}).words,
              ElementsAre("ssh", "-o", "BatchMode=yes", "-x", "{host}"));
  EXPECT_THAT(chosen("ssh : rsh", {}).words, ElementsAre("rsh", "{host}"));
  EXPECT_THAT(chosen(" : ", {}).words, Contains("ssh"));
}

TEST(Launch, ACommandIsQuotedForTheShell) {
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
           .from_bytes_per_second = {},
           .rose_from = {},
           .rose_to = {},
           .round = 0,
           .seconds = 0};
  return made;
}

TEST(Table, ShowsNumbersAndFailures) {
  Way lost{.from = "node1",
           .to = "node4",
           .findings = {doctor::fail("shell", "no answer", "fix")},
           .latency_us = {},
           .to_bytes_per_second = {},
           .from_bytes_per_second = {},
           .rose_from = {},
           .rose_to = {},
           .round = 0,
           .seconds = 0};
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
  EXPECT_EQ(progress_text(0, 4, 0), "0 of 4 pairs");
  EXPECT_EQ(progress_text(2, 4, 10), "2 of 4 pairs, 10 s left");
}

// How often each pair meets; no host has two partners in a round.
std::map<Pair, int> meetings(const std::vector<Round>& rounds) {
  std::map<Pair, int> met;
  for (const Round& round : rounds) {
    std::set<std::size_t> busy;
    for (const Pair& pair : round) {
      ++met[pair];
      EXPECT_TRUE(busy.insert(pair.first).second && busy.insert(pair.second).second);
      EXPECT_LT(pair.first, pair.second);
    }
  }
  return met;
}

TEST(Rounds, EverybodyMeetsEverybodyOnce) {
  for (const std::size_t count : {2u, 3u, 7u, 8u, 63u, 64u}) {
    const std::vector<Round> rounds = everybody(count);
    EXPECT_THAT(rounds, SizeIs(count - 1 + count % 2)) << count;
    const auto met = meetings(rounds);
    EXPECT_THAT(met, SizeIs(count * (count - 1) / 2)) << count;
    for (const auto& [pair, times] : met) EXPECT_EQ(times, 1);
  }
}

TEST(Rounds, NeighboursAreBelowOneSwitchAndNobodyIsLeftOut) {
  EXPECT_THAT(neighbours({0, 1, 0, 1}), ElementsAre(Round{{0, 2}, {1, 3}}));
  EXPECT_THAT(neighbours({0, 0, 0, 1, 1, 1}), ElementsAre(Round{{0, 1}, {3, 4}, {2, 5}}));
  EXPECT_THAT(neighbours({0, 0, 0}), ElementsAre(Round{{0, 1}}, Round{{0, 2}}));
  EXPECT_THAT(neighbours({0}), IsEmpty());
}

TEST(Rounds, AcrossSwitchesNobodyHasANeighbour) {
  EXPECT_THAT(across({0, 0, 1, 1}), ElementsAre(Pair{0, 2}, Pair{1, 3}));
  EXPECT_THAT(across({0, 0, 0, 1}), ElementsAre(Pair{1, 3}));
  EXPECT_THAT(across({0, 0}), IsEmpty());
}

TEST(Rounds, SuspectsMeetThoseThatAreWell) {
  EXPECT_THAT(again({4, 5, 6}, {0, 1}), ElementsAre(Round{{0, 4}, {1, 5}}, Round{{0, 6}}));
  EXPECT_THAT(again({4}, {}), IsEmpty());
}

Way measured(const std::string& from, const std::string& to, double us, double rate) {
  return {.from = from,
          .to = to,
          .findings = {},
          .latency_us = us,
          .to_bytes_per_second = rate,
          .from_bytes_per_second = rate,
          .rose_from = {},
          .rose_to = {},
          .round = 0,
          .seconds = 0};
}

std::vector<Tested> tested(const Words& names) {
  std::vector<Tested> all;
  for (const std::string& name : names) all.push_back({name, "", facts_with(), ""});
  return all;
}

TEST(OddHosts, AreBadWithMostAndTheirPartnersAreNot) {
  // Of three, b is slow: of two of three ways.
  const std::vector<Way> ways{measured("a", "b", 2, 3e9), measured("b", "c", 2, 3e9),
                              measured("a", "c", 2, 12e9)};
  const auto odd = odd_hosts(tested({"a", "b", "c"}), ways);
  ASSERT_THAT(odd, SizeIs(1));
  EXPECT_EQ(odd[0].host, "b");
  EXPECT_THAT(odd[0].finding.text, HasSubstr("3.0 GB/s with a, where good ways have 12.0 GB/s"));
  EXPECT_THAT(suspects(tested({"a", "b", "c"}), ways), ElementsAre(0, 1, 2));
}

TEST(OddHosts, AreNotExplainedByOneAnother) {
  const std::vector<Way> ways{measured("slow", "a", 40, 12e9),     measured("slow", "b", 40, 12e9),
                              measured("slow", "narrow", 40, 3e9), measured("narrow", "a", 2, 3e9),
                              measured("narrow", "b", 2, 3e9),     measured("a", "b", 2, 12e9),
                              measured("a", "c", 2, 12e9),         measured("b", "c", 2, 12e9)};
  const auto odd = odd_hosts(tested({"slow", "narrow", "a", "b", "c"}), ways);
  ASSERT_THAT(odd, SizeIs(2));
  EXPECT_THAT(odd[0].finding.text, HasSubstr("3 of its 3 ways are bad: 40.0 us to a"));
  EXPECT_THAT(odd[1].finding.text, HasSubstr("3.0 GB/s with a"));
}

TEST(OddHosts, AnotherSwitchOnTheWayIsNotOdd) {
  EXPECT_FALSE(is_bad(measured("a", "b", 1.9, 12e9), {1.0, 12e9}));
  EXPECT_TRUE(is_bad(measured("a", "b", 2.1, 12e9), {1.0, 12e9}));
  EXPECT_TRUE(is_bad(way("node2", 1), {1.0, 12e9})) << "one direction failed";
}

TEST(OddHosts, HaveTheirCountersAndThoseOfTheirPeers) {
  std::vector<Way> ways{measured("a", "b", 9, 12e9), measured("a", "c", 9, 12e9),
                        measured("b", "c", 2, 12e9)};
  ways[0].rose_to = {{"rx_crc_errors_phy", Trouble::cable, "packets with a wrong checksum", 3}};
  ways[0].rose_from = {{"packet_seq_err", Trouble::repeat, "gaps that a peer saw", 4}};
  auto hosts = tested({"a", "b", "c"});
  hosts[2].why_lost = "no answer within 20 s";
  const auto odd = odd_hosts(hosts, ways);
  ASSERT_THAT(odd, SizeIs(2));
  EXPECT_THAT(odd[0].finding.text, AllOf(HasSubstr("4 gaps that a peer saw (packet_seq_err)"),
                                         HasSubstr("at its peer 3 packets with a wrong checksum")));
  EXPECT_EQ(odd[1].finding.verdict, Verdict::fail);
}

TEST(Hardware, IsReadFromTheFilesThatThereAre) {
  namespace fs = std::filesystem;
  const fs::path root =
      fs::temp_directory_path() / ("between_hardware." + std::to_string(::getpid()));
  const fs::path device = root / "mlx5_0";
  const fs::path interface = root / "eth0";
  fs::create_directories(device / "device");
  fs::create_directories(device / "ports/1");
  fs::create_directories(interface / "qos");
  fs::create_directories(interface / "ecn/roce_np/enable");
  fs::create_symlink("../drivers/mlx5_core", device / "device/driver");
  const auto write = [](const fs::path& file, const char* text) { std::ofstream(file) << text; };
  write(device / "fw_ver", "28.39.1002\n");
  write(device / "ports/1/rate", "200 Gb/sec (4X HDR)\n");
  write(device / "device/current_link_width", "8\n");
  write(device / "device/max_link_width", "16\n");
  write(device / "device/current_link_speed", "16.0 GT/s PCIe\n");
  write(device / "device/max_link_speed", "16.0 GT/s PCIe\n");
  write(interface / "qos/trust", "dscp\n");
  write(interface / "ecn/roce_np/enable/0", "1\n");
  write(interface / "ecn/roce_np/enable/1", "0\n");
  Hardware found = read_hardware(device, 1, interface);
  const std::string slot = why_slow_slot(device);
  fs::remove_all(root);
  EXPECT_EQ(found.erase("kernel"), 1u);
  EXPECT_EQ(found, (Hardware{{"driver", "mlx5_core"},
                             {"firmware", "28.39.1002"},
                             {"rate", "200 Gb/sec (4X HDR)"},
                             {"pcie", "x8 16.0 GT/s"},
                             {"trust", "dscp"},
                             {"ecn of receivers", "1 0"}}));
  EXPECT_EQ(slot, "runs at PCIe x8 16.0 GT/s, and could at x16 16.0 GT/s");
  EXPECT_EQ(why_slow_slot(root), "");
}

TEST(Hardware, OfHostsThatDifferIsNamedByValue) {
  Facts odd = facts_with();
  odd.hardware["firmware"] = "2";
  Facts usual = facts_with();
  usual.hardware["firmware"] = "1";
  const auto found = hardware_differences({{"a", odd}, {"b", usual}, {"c", usual}});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(line_of(found[0]), "firmware              1: b, c; 2: a");
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
