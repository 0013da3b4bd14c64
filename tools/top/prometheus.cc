// https://prometheus.io/docs/instrumenting/exposition_formats/: HELP and TYPE once for each metric,
// then its samples.

#include <fmt/core.h>

#include <map>
#include <set>
#include <vector>

#include "rendezvous/node_reads.h"
#include "tools/top/report.h"

namespace weir::tools::top {
namespace {

// Labels of Prometheus's own (job, instance) and of node_exporter are none of these.
std::string labels_of(const PortLook& port, const MemberView& member) {
  const std::string slurm = slurm_job_of(port, member);
  return fmt::format("device=\"{}\",port=\"{}\",user=\"{}\",mpi_job=\"{}\",rank=\"{}\"{}",
                     port.node.device, port.node.port,
                     port.user.empty() ? std::to_string(port.node.user) : port.user, member.job,
                     member.rank, slurm.empty() ? "" : ",slurm_job=\"" + slurm + "\"");
}

class Text {
 public:
  explicit Text(const Look& look) : look_(look) {
    std::set<std::string> seen;  // whatever a segment says, no sample is there twice
    for (const PortLook& port : look.ports) {
      for (const MemberView& member : port.node.members) {
        std::string labels = labels_of(port, member);
        if (seen.insert(labels).second) processes_.push_back({std::move(labels), &port, &member});
      }
    }
  }

  // One sample for each process.
  template <typename Value>
  void metric(const std::string& name, const char* type, const std::string& help, Value&& value) {
    head(name, type, help);
    for (const Process& process : processes_) {
      out_ +=
          fmt::format("{}{{{}}} {}\n", name, process.labels, value(*process.port, *process.member));
    }
  }
  // A histogram for each process, with the bounds in seconds.
  void read_times() {
    const std::string name = "weir_read_seconds";
    head(name, "histogram",
         "Time from posting a read to its completion: reads of 4 KiB and more, without chains");
    for (const auto& [labels, port, member] : processes_) {
      std::uint64_t below = 0;
      for (std::size_t i = 0; i < ReadTimes::buckets; ++i) {
        const std::uint64_t count = member->read_times.counts[i];
        below = count > UINT64_MAX - below ? UINT64_MAX : below + count;  // never falls
        const std::string bound =
            i + 1 < ReadTimes::buckets
                ? fmt::format("{}", static_cast<double>(ReadTimes::below_ns(i)) / 1e9)
                : "+Inf";
        out_ += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, below);
      }
      out_ += fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, labels,
                          static_cast<double>(member->read_times.sum_ns) / 1e9, below);
    }
  }
  // Of the adapters. Several segments may be of one port: of other users, or jobs.
  void adapters() {
    struct Metric {
      std::string help;
      std::map<std::string, std::uint64_t> samples;  // by labels
    };
    std::map<std::string, Metric> metrics;
    for (const PortLook& port : look_.ports) {
      const std::string labels =
          fmt::format("{{device=\"{}\",port=\"{}\"}}", port.node.device, port.node.port);
      each_adapter_counter(port.adapter,
                           [&](const char* name, const char* help, std::uint64_t value) {
                             Metric& metric = metrics[fmt::format("weir_adapter_{}_total", name)];
                             metric.help = help;
                             metric.samples[labels] = value;
                           });
    }
    for (const auto& [name, metric] : metrics) {
      head(name, "counter", metric.help);
      for (const auto& [labels, value] : metric.samples) {
        out_ += fmt::format("{}{} {}\n", name, labels, value);
      }
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void head(const std::string& name, const char* type, const std::string& help) {
    out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }

  struct Process {
    std::string labels;
    const PortLook* port;
    const MemberView* member;
  };

  const Look& look_;
  std::vector<Process> processes_;
  std::string out_;
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  return at == text.npos ? text : text.replace(at, what.size(), by);
}

}  // namespace

std::string to_prometheus(const Look& now) {
  Text text(now);
  for (const auto& counter : counter_table) {
    const bool gauge = counter.is_gauge();
    const std::string unit = counter.unit;
    std::string name = std::string("weir_") + counter.name + (gauge ? "" : "_total");
    std::string help = counter.help;
    // Prometheus has times in seconds.
    const double per_second = unit == "ns" ? 1e9 : unit == "us" ? 1e6 : 0;
    if (per_second > 0) {
      name = replaced(replaced(name, "_ns", "_seconds"), "_time_", "_seconds_");
      help = replaced(help, "[" + unit + "]", "[seconds]");
    }
    text.metric(name, gauge ? "gauge" : "counter", help,
                [&](const PortLook&, const MemberView& member) {
                  const std::uint64_t value = member.counters.*counter.field;
                  return per_second > 0 ? fmt::format("{}", static_cast<double>(value) / per_second)
                                        : std::to_string(value);
                });
  }
  text.metric("weir_tokens_held", "gauge", "Tokens of the node that the process has [tokens]",
              [](const PortLook&, const MemberView& member) { return member.tokens_held; });
  text.metric("weir_tokens_waited_for", "gauge",
              "Tokens of the node that the process waits for [tokens]",
              [](const PortLook&, const MemberView& member) { return member.tokens_waited_for; });
  text.metric("weir_reads_asked_bytes", "gauge",
              "Reads under way or waited for, of the node's budget [bytes]",
              [](const PortLook&, const MemberView& member) {
                return member.read_tokens * NodeReads::bytes_per_token;
              });
  text.metric("weir_proxy_serves", "gauge",
              "Processes of the node that this one sends for now [processes]",
              [](const PortLook& port, const MemberView& member) {
                return served_by(port.node, member).size();
              });
  text.metric("weir_proxy_waiting", "gauge",
              "Frames of the process that no server has taken yet [frames]",
              [](const PortLook&, const MemberView& member) { return member.proxy_waiting; });
  text.metric("weir_waiting_seconds", "gauge",
              "How long the process has waited for the node [seconds]",
              [](const PortLook& port, const MemberView& member) {
                return static_cast<double>(waited_ns(port, member).value_or(0)) / 1e9;
              });
  text.metric("weir_silent_seconds", "gauge",
              "How long ago the process showed these counters [seconds]",
              [](const PortLook& port, const MemberView& member) {
                return static_cast<double>(silent_ns(port, member)) / 1e9;
              });
  text.read_times();
  text.adapters();
  return text.take();
}

}  // namespace weir::tools::top
