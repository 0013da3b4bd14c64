// https://prometheus.io/docs/instrumenting/exposition_formats/: HELP and TYPE once for each metric,
// then its samples.

#include <fmt/core.h>

#include <map>

#include "rendezvous/node_reads.h"
#include "tools/top/report.h"

namespace weir::tools::top {
namespace {

class Text {
 public:
  explicit Text(const Look& look) : look_(look) {}

  // One sample for each process.
  template <typename Value>
  void metric(const std::string& name, const char* type, const char* help, Value&& value) {
    head(name, type, help);
    for (const PortLook& port : look_.ports) {
      for (const MemberView& member : port.node.members) {
        out_ += fmt::format("{}{{device=\"{}\",port=\"{}\",job=\"{}\",rank=\"{}\"}} {}\n", name,
                            port.node.device, port.node.port, member.job, member.rank,
                            value(port.node, member));
      }
    }
  }
  // A histogram for each process, with the bounds in seconds.
  void read_times() {
    const std::string name = "weir_read_seconds";
    head(name, "histogram",
         "Time from posting a read to its completion: reads of 4 KiB and more, without chains");
    for (const PortLook& port : look_.ports) {
      for (const MemberView& member : port.node.members) {
        const std::string labels =
            fmt::format("device=\"{}\",port=\"{}\",job=\"{}\",rank=\"{}\"", port.node.device,
                        port.node.port, member.job, member.rank);
        std::uint64_t below = 0;
        for (std::size_t i = 0; i < ReadTimes::buckets; ++i) {
          below += member.read_times.counts[i];
          const std::string bound =
              i + 1 < ReadTimes::buckets
                  ? fmt::format("{}", static_cast<double>(ReadTimes::below_ns(i)) / 1e9)
                  : "+Inf";
          out_ += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, below);
        }
        out_ += fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, labels,
                            static_cast<double>(member.read_times.sum_ns) / 1e9, below);
      }
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

  const Look& look_;
  std::string out_;
};

}  // namespace

std::string to_prometheus(const Look& now) {
  Text text(now);
  for (const auto& counter : counter_table) {
    const bool gauge = counter.is_gauge();
    text.metric(
        std::string("weir_") + counter.name + (gauge ? "" : "_total"), gauge ? "gauge" : "counter",
        counter.help,
        [&](const NodeView&, const MemberView& member) { return member.counters.*counter.field; });
  }
  text.metric("weir_tokens_held", "gauge", "Tokens of the node that the process has [tokens]",
              [](const NodeView&, const MemberView& member) { return member.tokens_held; });
  text.metric("weir_tokens_waited_for", "gauge",
              "Tokens of the node that the process waits for [tokens]",
              [](const NodeView&, const MemberView& member) { return member.tokens_waited_for; });
  text.metric("weir_reads_asked_bytes", "gauge",
              "Reads under way or waited for, of the node's budget [bytes]",
              [](const NodeView&, const MemberView& member) {
                return member.read_tokens * NodeReads::bytes_per_token;
              });
  text.metric("weir_proxy_serves", "gauge",
              "Processes of the node that this one sends for now [processes]",
              [](const NodeView& node, const MemberView& member) {
                return served_by(node, member).size();
              });
  text.metric("weir_proxy_waiting", "gauge",
              "Frames of the process that no server has taken yet [frames]",
              [](const NodeView&, const MemberView& member) { return member.proxy_waiting; });
  text.metric("weir_waiting_seconds", "gauge",
              "How long the process has waited for the node [seconds]",
              [&](const NodeView&, const MemberView& member) {
                const bool waits = member.waiting_since != 0 && member.waiting_since < now.at_ns;
                return waits ? static_cast<double>(now.at_ns - member.waiting_since) / 1e9 : 0.0;
              });
  text.read_times();
  text.adapters();
  return text.take();
}

}  // namespace weir::tools::top
