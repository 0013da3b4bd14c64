// The table of `weir top`: a line for each process.

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "rendezvous/node_reads.h"
#include "tools/top/columns.h"
#include "tools/top/numbers.h"
#include "tools/top/report.h"
#include "transport/config/caps.h"

namespace weir::tools::top {
namespace {

// A process that shows nothing for so long is stopped, or computes with its event thread starved.
constexpr std::uint64_t stale_ns = 5'000'000'000;
constexpr std::size_t widest_host = 16;
constexpr std::size_t most_ports_with_counters = 20;

struct Row {
  const PortLook* port;
  const MemberView* now;
  const MemberView* then;
};
using Value = std::optional<double>;
using Columns = std::span<const Column<Row>>;

// What came since the process showed itself before; without that, all.
ReadTimes times_since(const MemberView& now, const MemberView* before) {
  ReadTimes times = now.read_times;
  if (before == nullptr) return times;
  for (std::size_t i = 0; i < times.counts.size(); ++i) {
    times.counts[i] -= std::min(times.counts[i], before->read_times.counts[i]);
  }
  return times;
}

// The bucket of a time that this part of the reads stayed below; nothing if there are none.
template <int percent>
Value quantile(const Row& row) {
  const ReadTimes times = times_since(*row.now, row.then);
  double all = 0;
  for (const std::uint64_t count : times.counts) all += static_cast<double>(count);
  if (all == 0) return std::nullopt;
  double seen = 0;
  std::size_t i = 0;
  for (; i + 1 < ReadTimes::buckets; ++i) {
    seen += static_cast<double>(times.counts[i]);
    if (seen * 100 >= percent * all) break;
  }
  return static_cast<double>(i);
}
std::string quantile_text(const Row&, Value bucket) {
  if (!bucket) return "-";
  const auto i = static_cast<std::size_t>(*bucket);
  if (i + 1 < ReadTimes::buckets) return "<" + short_time(ReadTimes::below_ns(i));
  return ">" + short_time(ReadTimes::below_ns(i - 1));
}

std::string plain(const Row&, Value value) { return value ? fmt::format("{:.0f}", *value) : "-"; }
std::string short_count(const Row&, Value value) { return number(value); }
std::string short_bytes(const Row&, Value value) { return bytes(value); }
std::string seconds(const Row&, Value value) {
  return value ? fmt::format("{:.1f}s", *value) : "-";
}
// Of a second, what a counter of microseconds went up by.
std::string share(const Row&, Value value) {
  return value ? fmt::format("{:.0f}%", *value / 1e4) : "-";
}
// The rank that serves the member's group now.
std::string server(const Row& row, Value) {
  const MemberView& member = *row.now;
  if (!member.in_proxy || member.server.pid == 0) return "-";
  if (member.server == member.process) return "self";
  for (const MemberView& other : row.port->node.members) {
    if (other.process == member.server) return std::to_string(other.rank);
  }
  return "?";
}

template <std::uint64_t Counters::*... counters>
Value rate_of(const Row& row) {
  const Value rates[] = {rate(*row.now, row.then, counters)...};
  double sum = 0;
  for (const Value one : rates) {
    if (!one) return std::nullopt;
    sum += *one;
  }
  return sum;
}
template <std::uint64_t Counters::*counter>
Value count_of(const Row& row) {
  return static_cast<double>(row.now->counters.*counter);
}
template <auto field>
Value field_of(const Row& row) {
  return static_cast<double>(row.now->*field);
}
Value waits(const Row& row) {
  const auto ns = waited_ns(*row.port, *row.now);
  return ns ? Value(static_cast<double>(*ns) / 1e9) : Value();
}

using C = Counters;
const Column<Row> columns[] = {
    {"PID", 8, 5, [](const Row& row) { return Value(row.now->process.pid); }, plain},
    {"RANK", 5, 1, field_of<&MemberView::rank>, plain},
    {"SENT/s", 7, 1, rate_of<&C::bytes_sent, &C::put_bytes>, short_bytes},
    {"GOT/s", 7, 1, rate_of<&C::bytes_received>, short_bytes},
    {"MSG/s", 7, 2, rate_of<&C::messages_sent, &C::messages_received>, short_count},
    {"GET/s", 7, 2, rate_of<&C::get_bytes>, short_bytes},
    {"W", 5, 3, count_of<&C::window>, plain},
    {"RECVMEM", 7, 3, count_of<&C::receive_bytes>, short_bytes},
    {"TOKENS", 6, 6, field_of<&MemberView::tokens_held>, plain},
    {"WANTS", 6, 6, field_of<&MemberView::tokens_waited_for>, plain},
    {"WAITS", 6, 3, waits, seconds},
    {"EXCUSE", 6, 9, count_of<&C::tokens_excused>, short_count},
    {"READS", 7, 7,
     [](const Row& row) {
       return Value(static_cast<double>(row.now->read_tokens) * NodeReads::bytes_per_token);
     },
     short_bytes},
    {"c", 7, 3, count_of<&C::read_window>, short_bytes},
    {"CONNS", 5, 6, count_of<&C::connections_open>, plain},
    {"BROKE", 5, 3, count_of<&C::connections_broken>, plain},
    {"AGAIN", 5, 6, count_of<&C::connections_resumed>, plain},
    {"LOST", 5, 4, count_of<&C::peer_failures>, plain},
};
const Column<Row> read_columns[] = {
    {"READ50", 7, 7, quantile<50>, quantile_text},
    {"READ99", 7, 5, quantile<99>, quantile_text},
};
const Column<Row> overlap_columns[] = {
    {"WAKE/s", 6, 8, rate_of<&C::overlap_wakeups>, short_count},
    {"VAIN/s", 6, 8, rate_of<&C::overlap_in_vain>, short_count},
    {"UP/s", 6, 8, rate_of<&C::overlap_upcalls>, short_count},
    {"UP%", 5, 8, rate_of<&C::overlap_time>, share},
};
const Column<Row> proxy_columns[] = {
    {"SERVER", 6, 8, [](const Row&) { return Value(); }, server},
    {"QUEUE", 5, 8,
     [](const Row& row) {
       return row.now->in_proxy ? Value(static_cast<double>(row.now->proxy_waiting)) : Value();
     },
     plain},
    {"RELAY/s", 7, 8, rate_of<&C::proxy_served>, short_count},
};
const Column<Row> job_column{"JOB", 10, 4, field_of<&MemberView::job>, plain};

std::string port_text(const PortLook& port) {
  return fmt::format("{}:{}", port.node.device, port.node.port);
}

// Those that there is something to say in.
std::vector<Column<Row>> columns_for(std::span<const JobMember> members) {
  const auto any = [&](auto&& is) {
    return std::any_of(members.begin(), members.end(),
                       [&](const JobMember& one) { return is(*one.member); });
  };
  std::vector<Column<Row>> all;
  const std::size_t hosts = host_width(members);
  if (hosts > 0) {
    all.push_back({"HOST", hosts, 1, [](const Row&) { return Value(); },
                   [](const Row& row, Value) { return host_text(*row.port); }});
  }
  all.insert(all.end(), std::begin(columns), std::end(columns));
  const auto add = [&](bool there, Columns more) {
    if (there) all.insert(all.end(), more.begin(), more.end());
  };
  add(any([](const MemberView& member) {
        const auto& counts = member.read_times.counts;
        return std::any_of(counts.begin(), counts.end(), [](auto count) { return count > 0; });
      }),
      read_columns);
  add(any([](const MemberView& member) { return member.counters.overlap_wakeups > 0; }),
      overlap_columns);
  add(any([](const MemberView& member) { return member.in_proxy; }), proxy_columns);
  if (hosts > 0) {
    all.push_back({"PORT", 10, 8, [](const Row&) { return Value(); },
                   [](const Row& row, Value) { return port_text(*row.port); }});
  } else {
    all.push_back(job_column);
  }
  return all;
}

// A line for those whose caps were changed while they ran, by their caps.
std::string changed_caps(std::span<const JobMember> members) {
  std::map<Caps, std::string> ranks;
  for (const auto& [port, member] : members) {
    if (member->counters.caps_changed == 0) continue;
    std::string& list = ranks[member->caps];
    list += (list.empty() ? "" : " ") + std::to_string(member->rank);
  }
  std::string text;
  for (const auto& [caps, list] : ranks) {
    text += "by weir set:";
    for (std::size_t i = 0; i < caps.size(); ++i) {
      text += fmt::format(" {} {}", cap_names[i], config::cap_text(i, caps[i]));
    }
    text += fmt::format("  for ranks {}\n", list);
  }
  return text;
}

std::string sums_of(std::span<const JobMember> members) {
  std::uint64_t held = 0, waited_for = 0, reads = 0;
  for (const auto& [port, member] : members) {
    held += member->tokens_held;
    waited_for += member->tokens_waited_for;
    reads += member->read_tokens;
  }
  return fmt::format("  tokens {} held, {} waited for  reads {}B", held, waited_for,
                     bytes(static_cast<double>(reads * NodeReads::bytes_per_token)));
}

std::string counters_of(const PortLook& port) {
  std::string text;
  each_adapter_counter(port.adapter, [&](const char* name, const char*, std::uint64_t value) {
    if (value > 0) text += fmt::format("  {} {}", name, value);
  });
  return text;
}

std::string title_of(const PortLook& port) {
  std::string text = fmt::format("{}  {} processes{}", port_text(port), port.node.members.size(),
                                 port.node.sharers.empty() ? "" : "  (" + port.node.sharers + ")");
  std::vector<JobMember> all;
  for (const MemberView& member : port.node.members) all.push_back({&port, &member});
  text += sums_of(all);
  if (!port.user.empty()) text += "  user " + port.user;
  std::string last;
  for (const auto& [pid, job] : port.slurm_jobs) {
    if (job != last) text += "  slurm job " + job;
    last = job;
  }
  return text + counters_of(port) + '\n';
}

std::string title_of(const JobLook& job) {
  return fmt::format("job {}  {}{}  {}\n", job.name.job, extent_of(job), sums_of(job.members),
                     owner_of(job));
}

std::string to_text(std::span<const JobMember> members, const Look& before, const Shape& shape) {
  const std::vector<Column<Row>> all = columns_for(members);
  const std::vector<Column<Row>> shown = fitting(Columns(all), shape.width);
  std::vector<Row> rows;
  for (const auto& [port, member] : members) {
    rows.push_back({port, member, find(before, *port, *member)});
  }
  sort_rows(rows, Columns(all), shape);
  std::string text = head_of(Columns(shown));
  for (const Row& row : rows) {
    text += line_of(Columns(shown), row);
    if (const std::uint64_t ns = silent_ns(*row.port, *row.now); ns > stale_ns) {
      text += fmt::format("  (silent for {:.1f}s)", static_cast<double>(ns) / 1e9);
    }
    text += '\n';
  }
  text += changed_caps(members);
  if (shape.peers) text += peers_to_table(members, before, shape);
  return text + '\n';
}

// Of many hosts' ports those that count trouble.
std::string counters_of_ports(const Look& look) {
  std::string text;
  std::size_t more = 0, lines = 0;
  for (const PortLook& port : look.ports) {
    const std::string counters = counters_of(port);
    if (counters.empty()) continue;
    if (++lines > most_ports_with_counters) {
      ++more;
    } else {
      text += fmt::format("{} {}{}\n", port.host, port_text(port), counters);
    }
  }
  if (more > 0) text += fmt::format("and {} more ports that count such things\n", more);
  return text;
}

}  // namespace

std::string host_text(const PortLook& port) {
  const bool is_address = port.host.find_first_not_of("0123456789.") == std::string::npos;
  const std::string name = is_address ? port.host : port.host.substr(0, port.host.find('.'));
  // The end tells names apart.
  return name.size() > widest_host ? name.substr(name.size() - widest_host) : name;
}

std::size_t host_width(std::span<const JobMember> members) {
  std::size_t width = 0;
  for (const JobMember& one : members) width = std::max(width, host_text(*one.port).size());
  return width == 0 ? 0 : std::max(width, std::size_t{4});
}

std::vector<std::string> sortable_columns() {
  std::vector<std::string> titles{""};
  for (const Column<Row>& column : columns) titles.emplace_back(column.title);
  for (const std::string& title : sortable_columns_of_peers()) {
    if (std::find(titles.begin(), titles.end(), title) == titles.end()) titles.push_back(title);
  }
  return titles;
}

std::string to_table(const Look& now, const Look& before, const Shape& shape) {
  const bool many = std::any_of(now.ports.begin(), now.ports.end(),
                                [](const PortLook& port) { return !port.host.empty(); });
  std::string text;
  if (now.ports.empty()) text = "No weir process is visible.\n";
  if (many) {
    for (const JobLook& job : jobs_of(now)) {
      if (shape.wanted.has(job.name)) text += title_of(job) + to_text(job.members, before, shape);
    }
    text += counters_of_ports(now);
  } else {
    for (const PortLook& port : now.ports) {
      std::vector<JobMember> members;
      for (const MemberView& member : port.node.members) {
        if (shape.wanted.has(name_of(port, member))) members.push_back({&port, &member});
      }
      if (!members.empty()) text += title_of(port) + to_text(members, before, shape);
    }
  }
  if (now.left_out > 0) text += fmt::format("{} more segments are not shown\n", now.left_out);
  return text;
}

}  // namespace weir::tools::top
