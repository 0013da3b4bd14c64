// What hosts tell of their processes comes over as it was, in pages, and jobs are put together.
#include "tools/top/page.h"

#include <gtest/gtest.h>

namespace weir::tools::top {
namespace {

MemberView a_member(std::uint32_t rank) {
  MemberView made;
  made.process = {100 + rank, 7};
  made.slot = rank;
  made.job = 7;
  made.rank = rank;
  made.tokens_held = 1;
  made.tokens_waited_for = 2;
  made.read_tokens = 3;
  made.active = 4;
  made.waiting_since = 5;
  made.shown_at = UINT64_MAX;
  made.in_proxy = true;
  made.server = {101, 8};
  made.proxy_waiting = 6;
  made.proxy_taken = 9;
  made.takes_tokens = true;
  made.caps = {1, 2, -1, 4, 5};
  made.order_seen = 10;
  for (const auto& counter : counter_table) made.counters.*counter.field = rank * 1000 + 1;
  made.read_times.counts[3] = 11;
  made.read_times.sum_ns = 12;
  made.peers = {{.name = {7, rank + 1}, .state = 2, .frames_sent = 13, .credits = 14}};
  return made;
}

Look made_up(std::uint32_t members) {
  Look look;
  PortLook port;
  port.node.path = "/dev/shm/weir-x";
  port.node.device = "rxe0";
  port.node.port = 1;
  port.node.sharers = "job 7";
  port.node.user = 1000;
  port.user = "alice";
  port.at_ns = 99;
  port.adapter.duplicates = 3;
  for (std::uint32_t i = 0; i < members; ++i) port.node.members.push_back(a_member(i));
  if (members > 0) port.slurm_jobs[100] = "4711";
  look.ports.push_back(port);
  look.left_out = 2;
  return look;
}

// Through text, as on the way.
Look told(const Look& here, const std::string& host) {
  Look there;
  std::size_t pages = 0, next = 0;
  do {
    const auto page = between::object_of(between::line_of(to_page(here, next)));
    EXPECT_LT(page->dump().size(), between::longest_line / 2);
    std::string why;
    EXPECT_TRUE(add_page(*page, host, there, next, why)) << why;
  } while (next > 0 && ++pages < 1000);
  return there;
}

TEST(Page, ComesOverAsItWas) {
  const Look here = made_up(2);
  const Look there = told(here, "node1");
  ASSERT_EQ(there.ports.size(), 1u);
  EXPECT_EQ(there.left_out, 2u);
  const PortLook& port = there.ports[0];
  EXPECT_EQ(port.host, "node1");
  EXPECT_EQ(port.at_ns, 99u);
  EXPECT_EQ(port.user, "alice");
  EXPECT_EQ(port.adapter.duplicates, 3u);
  EXPECT_FALSE(port.adapter.rnr_naks_sent);
  Look again = there;
  again.ports[0].host.clear();
  EXPECT_EQ(to_json(again, {}, true), to_json(here, {}, true));
  EXPECT_EQ(port.node.members[1].order_seen, 10u);
  EXPECT_EQ(port.node.members[1].caps, a_member(1).caps);
}

TEST(Page, ManyProcessesTakeSeveral) {
  for (const std::uint32_t members : {0u, 1u, 32u, 33u, 64u, 200u}) {
    const Look there = told(made_up(members), "node1");
    std::size_t seen = 0;
    for (const PortLook& port : there.ports) {
      for (const MemberView& one : port.node.members) EXPECT_EQ(one.rank, seen++);
    }
    EXPECT_EQ(seen, members);
    EXPECT_LE(there.ports.size(), 1u);
  }
}

// As many as a segment has room for, in several of them.
TEST(Page, AHostHasNoEndlessNumberOfProcesses) {
  Look here;
  for (int i = 0; i < 20; ++i) {
    here.ports.push_back(made_up(256).ports[0]);
    here.ports.back().node.path += std::to_string(i);
  }
  std::size_t seen = 0;
  for (const PortLook& port : told(here, "node1").ports) seen += port.node.members.size();
  EXPECT_EQ(seen, most_members_of_a_host);
}

TEST(Jobs, AreOfAllHosts) {
  Look all = told(made_up(2), "node1");
  Look second = made_up(2);
  for (MemberView& one : second.ports[0].node.members) one.rank += 2;
  second.ports[0].slurm_jobs[101] = "4711";
  all.ports[0].slurm_jobs[101] = "4711";
  all.ports.push_back(told(second, "node2").ports[0]);
  const auto jobs = jobs_of(all);
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].members.size(), 4u);
  EXPECT_EQ(extent_of(jobs[0]), "4 processes on 2 hosts");
  EXPECT_EQ(owner_of(jobs[0]), "user alice, slurm job 4711");
}

TEST(Jobs, OfTheSameNumberAreNotMixed) {
  Look all = told(made_up(1), "node1");
  all.ports.push_back(told(made_up(1), "node2").ports[0]);
  const auto jobs = jobs_of(all);
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].only_on, "node1");
  EXPECT_EQ(extent_of(jobs[1]), "1 processes on node2");
  // With two rails a rank is under two ports of its host.
  Look rails = told(made_up(1), "node1");
  Look other = made_up(1);
  other.ports[0].node.path += "2";
  rails.ports.push_back(told(other, "node1").ports[0]);
  EXPECT_EQ(jobs_of(rails).size(), 1u);
}

}  // namespace
}  // namespace weir::tools::top
