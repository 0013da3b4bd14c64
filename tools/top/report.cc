#include "tools/top/report.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "rendezvous/node_reads.h"
#include "tools/top/who.h"
#include "transport/config/caps.h"

namespace weir::tools::top {
namespace {

using Json = nlohmann::json;

// Null: auto.
Json to_json(const Caps& caps) {
  Json json = Json::object();
  for (std::size_t i = 0; i < caps.size(); ++i) {
    json[cap_names[i]] = caps[i] == config::automatic ? Json() : Json(caps[i]);
  }
  return json;
}

Json to_json(const ReadTimes& times) {
  Json bounds = Json::array();
  for (std::size_t i = 0; i + 1 < ReadTimes::buckets; ++i) bounds.push_back(ReadTimes::below_ns(i));
  return {{"below_ns", bounds}, {"counts", times.counts}, {"sum_ns", times.sum_ns}};
}

}  // namespace

std::optional<double> rate(const MemberView& now, const MemberView* before,
                           std::uint64_t Counters::*counter) {
  if (before == nullptr || now.shown_at <= before->shown_at) return std::nullopt;
  if (now.counters.*counter < before->counters.*counter) return std::nullopt;
  const double seconds = static_cast<double>(now.shown_at - before->shown_at) / 1e9;
  return static_cast<double>(now.counters.*counter - before->counters.*counter) / seconds;
}

const MemberView* find(const Look& look, const PortLook& port, const MemberView& member) {
  for (const PortLook& then : look.ports) {
    if (then.host != port.host || then.node.path != port.node.path) continue;
    for (const MemberView& other : then.node.members) {
      if (other.process == member.process) return &other;
    }
  }
  return nullptr;
}

Look look(const std::string& directory) {
  Look now;
  timespec clock{};
  clock_gettime(CLOCK_MONOTONIC, &clock);
  const std::uint64_t at_ns = static_cast<std::uint64_t>(clock.tv_sec) * 1'000'000'000 +
                              static_cast<std::uint64_t>(clock.tv_nsec);
  for (const SegmentView& segment : SegmentView::all(directory, &now.left_out)) {
    PortLook port;
    port.node = segment.look();
    port.at_ns = at_ns;
    if (port.node.members.empty()) continue;  // left behind by a job that was killed
    port.adapter =
        verbs::read_hw_counters(verbs::hw_counter_folder(port.node.device, port.node.port));
    port.user = user_name(port.node.user);
    for (const MemberView& member : port.node.members) {
      const std::string job = slurm_job(member.process.pid);
      if (!job.empty()) port.slurm_jobs[member.process.pid] = job;
    }
    now.ports.push_back(std::move(port));
  }
  for (const SegmentView& proxy : SegmentView::proxies(directory)) {
    for (PortLook& port : now.ports) proxy.add_to(port.node);
  }
  return now;
}

JobName name_of(const PortLook& port, const MemberView& member) {
  return {member.job, port.node.user, slurm_job_of(port, member)};
}

// A rank is on one host: where two have it, these are two jobs whose numbers happen to be the same.
std::vector<JobLook> jobs_of(const Look& look) {
  std::map<JobName, std::vector<JobMember>> named;
  for (const PortLook& port : look.ports) {
    for (const MemberView& member : port.node.members) {
      named[name_of(port, member)].push_back({&port, &member});
    }
  }
  std::vector<JobLook> jobs;
  for (auto& [name, members] : named) {
    std::map<std::uint64_t, const std::string*> host_of;
    const bool mixed = std::any_of(members.begin(), members.end(), [&](const JobMember& one) {
      return *host_of.try_emplace(one.member->rank, &one.port->host).first->second !=
             one.port->host;
    });
    std::map<std::string, std::vector<JobMember>> parts;
    for (const JobMember& one : members) parts[mixed ? one.port->host : ""].push_back(one);
    for (auto& [host, part] : parts) {
      std::stable_sort(part.begin(), part.end(), [](const JobMember& a, const JobMember& b) {
        return a.member->rank < b.member->rank;
      });
      jobs.push_back({name, std::move(part), host});
    }
  }
  return jobs;
}

std::string to_text(const Wanted& wanted) {
  std::string text = wanted.job ? "job " + std::to_string(*wanted.job) : "";
  if (wanted.slurm_job) text += (text.empty() ? "" : " of ") + ("slurm job " + *wanted.slurm_job);
  return text.empty() ? "any job" : text;
}

std::string owner_of(const JobLook& job) {
  const std::string& user = job.members.front().port->user;
  return "user " + (user.empty() ? std::to_string(job.name.user) : user) +
         (job.name.slurm_job.empty() ? "" : ", slurm job " + job.name.slurm_job);
}

std::string extent_of(const JobLook& job) {
  std::set<std::string> hosts;
  std::set<std::pair<std::string, std::uint32_t>> processes;
  for (const JobMember& one : job.members) {
    hosts.insert(one.port->host);
    processes.emplace(one.port->host, one.member->process.pid);
  }
  const std::string place = hosts.size() > 1         ? fmt::format("{} hosts", hosts.size())
                            : hosts.begin()->empty() ? "this node"
                                                     : *hosts.begin();
  return fmt::format("{} processes on {}", processes.size(), place);
}

std::optional<std::uint64_t> waited_ns(const PortLook& port, const MemberView& member) {
  if (member.waiting_since == 0 || member.waiting_since > port.at_ns) return {};
  return port.at_ns - member.waiting_since;
}

std::uint64_t silent_ns(const PortLook& port, const MemberView& member) {
  return port.at_ns > member.shown_at ? port.at_ns - member.shown_at : 0;
}

std::string slurm_job_of(const PortLook& port, const MemberView& member) {
  const auto found = port.slurm_jobs.find(member.process.pid);
  return found == port.slurm_jobs.end() ? "" : found->second;
}

std::vector<std::uint64_t> served_by(const NodeView& node, const MemberView& server) {
  std::vector<std::uint64_t> ranks;
  for (const MemberView& member : node.members) {
    const bool other = member.process != server.process;
    if (other && member.in_proxy && member.server == server.process) ranks.push_back(member.rank);
  }
  return ranks;
}

Json to_json(const Look& now, const Look& before, bool peers) {
  Json ports = Json::array();
  for (const PortLook& port : now.ports) {
    Json members = Json::array();
    for (const MemberView& member : port.node.members) {
      const MemberView* const then = find(before, port, member);
      Json counters = Json::object();
      Json rates = Json::object();
      for (const auto& counter : counter_table) {
        counters[counter.name] = member.counters.*counter.field;
        const auto value = rate(member, then, counter.field);
        if (value && !counter.is_gauge()) rates[counter.name] = *value;
      }
      Json proxy;  // null without one
      if (member.in_proxy) {
        proxy = {{"server_pid", member.server.pid == 0 ? Json() : Json(member.server.pid)},
                 {"serves_ranks", served_by(port.node, member)},
                 {"waiting", member.proxy_waiting},
                 {"taken", member.proxy_taken}};
      }
      const std::string slurm_job = slurm_job_of(port, member);
      Json process({{"pid", member.process.pid},
                    {"job", member.job},
                    {"slurm_job", slurm_job.empty() ? Json() : Json(slurm_job)},
                    {"rank", member.rank},
                    {"tokens_held", member.tokens_held},
                    {"tokens_waited_for", member.tokens_waited_for},
                    {"reads_asked_bytes", member.read_tokens * NodeReads::bytes_per_token},
                    {"active_requests", member.active},
                    {"waiting_ns", waited_ns(port, member).value_or(0)},
                    {"shown_ns_ago", silent_ns(port, member)},
                    {"proxy", proxy},
                    {"caps", to_json(member.caps)},
                    {"read_times", to_json(member.read_times)},
                    {"counters", counters},
                    {"per_second", rates}});
      if (peers) process["peers"] = peers_to_json(member, then);
      members.push_back(std::move(process));
    }
    Json adapter = Json::object();
    each_adapter_counter(port.adapter, [&](const char* name, const char*, std::uint64_t value) {
      adapter[name] = value;
    });
    ports.push_back({{"host", port.host.empty() ? Json() : Json(port.host)},
                     {"device", port.node.device},
                     {"port", port.node.port},
                     {"user", port.node.user},
                     {"user_name", port.user},
                     {"sharers", port.node.sharers.empty() ? Json() : Json(port.node.sharers)},
                     {"adapter", adapter},
                     {"processes", members}});
  }
  return {{"ports", ports}, {"segments_left_out", now.left_out}};
}

}  // namespace weir::tools::top
