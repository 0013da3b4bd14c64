#include "tools/top/report.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "rendezvous/node_reads.h"
#include "tools/top/numbers.h"

namespace weir::tools::top {
namespace {

using Json = nlohmann::json;

// A process that shows nothing for so long is stopped, or computes with its event thread starved.
constexpr std::uint64_t stale_ns = 5'000'000'000;

// How much a counter went up in a second, between the two moments that the process showed it.
// Nothing where it fell: the difference would be a huge number.
std::optional<double> rate(const MemberView& now, const MemberView* before,
                           std::uint64_t Counters::*counter) {
  if (before == nullptr || now.shown_at <= before->shown_at) return std::nullopt;
  if (now.counters.*counter < before->counters.*counter) return std::nullopt;
  const double seconds = static_cast<double>(now.shown_at - before->shown_at) / 1e9;
  return static_cast<double>(now.counters.*counter - before->counters.*counter) / seconds;
}

std::optional<double> sum(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return std::nullopt;
  return *a + *b;
}

std::string since(std::uint64_t now_ns, std::uint64_t then_ns) {
  if (then_ns == 0 || then_ns > now_ns) return "-";
  return fmt::format("{:.1f}s", static_cast<double>(now_ns - then_ns) / 1e9);
}

// Of a second, what a counter of microseconds went up by.
std::string share(std::optional<double> us_per_second) {
  return us_per_second ? fmt::format("{:.0f}%", *us_per_second / 1e4) : "-";
}

// What came since the process showed itself before; without that, all.
ReadTimes times_since(const MemberView& now, const MemberView* before) {
  ReadTimes times = now.read_times;
  if (before == nullptr) return times;
  for (std::size_t i = 0; i < times.counts.size(); ++i) {
    times.counts[i] -= std::min(times.counts[i], before->read_times.counts[i]);
  }
  return times;
}

// A time that this part of the reads stayed below, "-" if there are none.
std::string quantile(const ReadTimes& times, double part) {
  std::uint64_t all = 0;
  for (const std::uint64_t count : times.counts) all += count;
  if (all == 0) return "-";
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i + 1 < ReadTimes::buckets; ++i) {
    seen += times.counts[i];
    if (static_cast<double>(seen) >= part * static_cast<double>(all)) {
      return "<" + short_time(ReadTimes::below_ns(i));
    }
  }
  return ">" + short_time(ReadTimes::below_ns(ReadTimes::buckets - 2));
}

bool has_reads(const MemberView& member) {
  return std::any_of(member.read_times.counts.begin(), member.read_times.counts.end(),
                     [](std::uint64_t count) { return count > 0; });
}

Json to_json(const ReadTimes& times) {
  Json bounds = Json::array();
  for (std::size_t i = 0; i + 1 < ReadTimes::buckets; ++i) bounds.push_back(ReadTimes::below_ns(i));
  return {{"below_ns", bounds}, {"counts", times.counts}, {"sum_ns", times.sum_ns}};
}

constexpr const char* read_columns = "{:>7} {:>7} ";
constexpr const char* overlap_columns = "{:>6} {:>6} {:>6} {:>5} ";
constexpr const char* proxy_columns = "{:>6} {:>5} {:>7} ";

// The rank that serves the member's group now.
std::string server_of(const NodeView& node, const MemberView& member) {
  if (!member.in_proxy || member.server.pid == 0) return "-";
  if (member.server == member.process) return "self";
  for (const MemberView& other : node.members) {
    if (other.process == member.server) return std::to_string(other.rank);
  }
  return "?";
}

}  // namespace

const MemberView* find(const Look& look, const NodeView& node, const MemberView& member) {
  for (const PortLook& port : look.ports) {
    if (port.node.path != node.path) continue;
    for (const MemberView& other : port.node.members) {
      if (other.process == member.process) return &other;
    }
  }
  return nullptr;
}

Look look(const std::string& directory) {
  Look now;
  timespec clock{};
  clock_gettime(CLOCK_MONOTONIC, &clock);
  now.at_ns = static_cast<std::uint64_t>(clock.tv_sec) * 1'000'000'000 +
              static_cast<std::uint64_t>(clock.tv_nsec);
  for (const SegmentView& segment : SegmentView::all(directory)) {
    PortLook port{.node = segment.look(), .adapter = {}};
    if (port.node.members.empty()) continue;  // left behind by a job that was killed
    port.adapter =
        verbs::read_hw_counters(verbs::hw_counter_folder(port.node.device, port.node.port));
    now.ports.push_back(std::move(port));
  }
  for (const SegmentView& proxy : SegmentView::proxies(directory)) {
    for (PortLook& port : now.ports) proxy.add_to(port.node);
  }
  return now;
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
      const MemberView* const then = find(before, port.node, member);
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
      const bool waits = member.waiting_since != 0 && member.waiting_since < now.at_ns;
      Json process({{"pid", member.process.pid},
                    {"job", member.job},
                    {"rank", member.rank},
                    {"tokens_held", member.tokens_held},
                    {"tokens_waited_for", member.tokens_waited_for},
                    {"reads_asked_bytes", member.read_tokens * NodeReads::bytes_per_token},
                    {"active_requests", member.active},
                    {"waiting_ns", waits ? now.at_ns - member.waiting_since : 0},
                    {"shown_ns_ago", now.at_ns > member.shown_at ? now.at_ns - member.shown_at : 0},
                    {"proxy", proxy},
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
    ports.push_back({{"device", port.node.device},
                     {"port", port.node.port},
                     {"user", port.node.user},
                     {"sharers", port.node.sharers.empty() ? Json() : Json(port.node.sharers)},
                     {"adapter", adapter},
                     {"processes", members}});
  }
  return {{"ports", ports}};
}

std::string to_table(const Look& now, const Look& before, bool peers) {
  if (now.ports.empty()) {
    return "No weir process is visible on this node.\n";
  }
  std::string text;
  for (const PortLook& port : now.ports) {
    std::uint64_t held = 0, waited_for = 0, reads = 0;
    bool with_reads = false, with_overlap = false, with_proxy = false;
    for (const MemberView& member : port.node.members) {
      with_reads = with_reads || has_reads(member);
      with_overlap = with_overlap || member.counters.overlap_wakeups > 0;
      with_proxy = with_proxy || member.in_proxy;
      held += member.tokens_held;
      waited_for += member.tokens_waited_for;
      reads += member.read_tokens;
    }
    text += fmt::format("{}:{}  {} processes{}  tokens {} held, {} waited for  reads {}B",
                        port.node.device, port.node.port, port.node.members.size(),
                        port.node.sharers.empty() ? "" : "  (" + port.node.sharers + ")", held,
                        waited_for, bytes(static_cast<double>(reads * NodeReads::bytes_per_token)));
    each_adapter_counter(port.adapter, [&](const char* name, const char*, std::uint64_t value) {
      if (value > 0) text += fmt::format("  {} {}", name, value);
    });
    text += fmt::format(
        "\n{:>8} {:>5} {:>7} {:>7} {:>7} {:>7} {:>5} {:>7} {:>6} {:>6} {:>6} {:>6} {:>7} {:>7} "
        "{:>5} {:>5} {:>5} {:>5} {}{}{}{}\n",
        "PID", "RANK", "SENT/s", "GOT/s", "MSG/s", "GET/s", "W", "RECVMEM", "TOKENS", "WANTS",
        "WAITS", "EXCUSE", "READS", "c", "CONNS", "BROKE", "AGAIN", "LOST",
        with_reads ? fmt::format(read_columns, "READ50", "READ99") : "",
        with_overlap ? fmt::format(overlap_columns, "WAKE/s", "VAIN/s", "UP/s", "UP%") : "",
        with_proxy ? fmt::format(proxy_columns, "SERVER", "QUEUE", "RELAY/s") : "", "JOB");
    for (const MemberView& member : port.node.members) {
      const MemberView* const then = find(before, port.node, member);
      const Counters& counters = member.counters;
      text += fmt::format(
          "{:>8} {:>5} {:>7} {:>7} {:>7} {:>7} {:>5} {:>7} {:>6} {:>6} {:>6} {:>6} {:>7} {:>7} "
          "{:>5} {:>5} {:>5} {:>5} {}{}{}{}{}\n",
          member.process.pid, member.rank,
          bytes(sum(rate(member, then, &Counters::bytes_sent),
                    rate(member, then, &Counters::put_bytes))),
          bytes(rate(member, then, &Counters::bytes_received)),
          number(sum(rate(member, then, &Counters::messages_sent),
                     rate(member, then, &Counters::messages_received))),
          bytes(rate(member, then, &Counters::get_bytes)), counters.window,
          bytes(static_cast<double>(counters.receive_bytes)), member.tokens_held,
          member.tokens_waited_for, since(now.at_ns, member.waiting_since),
          number(static_cast<double>(counters.tokens_excused)),
          bytes(static_cast<double>(member.read_tokens * NodeReads::bytes_per_token)),
          bytes(static_cast<double>(counters.read_window)), counters.connections_open,
          counters.connections_broken, counters.connections_resumed, counters.peer_failures,
          with_reads ? fmt::format(read_columns, quantile(times_since(member, then), 0.5),
                                   quantile(times_since(member, then), 0.99))
                     : "",
          with_overlap
              ? fmt::format(overlap_columns, number(rate(member, then, &Counters::overlap_wakeups)),
                            number(rate(member, then, &Counters::overlap_in_vain)),
                            number(rate(member, then, &Counters::overlap_upcalls)),
                            share(rate(member, then, &Counters::overlap_time)))
              : "",
          with_proxy ? fmt::format(proxy_columns, server_of(port.node, member),
                                   member.in_proxy ? std::to_string(member.proxy_waiting) : "-",
                                   number(rate(member, then, &Counters::proxy_served)))
                     : "",
          member.job,
          now.at_ns > member.shown_at + stale_ns
              ? "  (silent for " + since(now.at_ns, member.shown_at) + ")"
              : "");
    }
    if (peers) text += peers_to_table(port.node, before);
    text += '\n';
  }
  return text;
}

}  // namespace weir::tools::top
