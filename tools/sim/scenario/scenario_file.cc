#include "tools/sim/scenario/scenario_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <regex>
#include <type_traits>

#include "transport/config/nearest.h"
#include "transport/config/units.h"
#include "transport/config/yaml_file.h"

namespace weir::sim {
namespace {

using network::BudgetOf;
using network::EndpointsAre;
using network::FabricConfig;
using network::Pattern;
using network::Scenario;
using network::Topology;
using Error = std::string;
using Text = std::string_view;

constexpr std::int64_t KiB = 1024;
constexpr std::int64_t MiB = 1024 * KiB;
constexpr std::int64_t GiB = 1024 * MiB;
constexpr std::int64_t longest_ns = 10'000'000'000;
constexpr std::uint32_t most_nodes = 100'000;
constexpr std::uint32_t most_cores = 1'152;  // every one knows every other
// Ticks, of which a cycle has three, are kept modulo 2^32 in places.
constexpr double most_cycles = 1'000'000'000;

// ---- values that are more than a number with a unit

bool number(Text text, Text unit, double low, double high, double& value) {
  if (!text.ends_with(unit)) return false;
  text.remove_suffix(unit.size());
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= low && value <= high;
}

Error bias(Scenario& s, std::int64_t, Text text) {
  const bool good = number(text, "", 0, 100, s.fabric.bias);
  return good ? "" : fmt::format("'{}' is not a number from 0 to 100", text);
}

Error rate(Scenario& s, std::int64_t, Text text) {
  double gbit_s = 0;
  if (!number(text, "Gbit/s", 0.1, 10'000, gbit_s)) {
    return fmt::format("'{}' is not a rate from 0.1Gbit/s to 10000Gbit/s, as 100Gbit/s", text);
  }
  s.cycle_ns = network::flit_bytes * 8 / gbit_s;
  return {};
}

// "1%@8x, 5@2x", "none": so many nodes of so many.
Error slow_nodes(Scenario& s, std::int64_t, Text text) {
  static const std::regex group(R"(([\d.]+)(%?)@(\d{1,3}|1000)x(, *(?!$)|$))");
  const std::uint32_t nodes = s.fabric.topology.nodes();
  std::uint64_t sum = 0;
  s.slow.clear();
  std::cmatch found;
  for (Text rest = text == "none" ? "" : text; !rest.empty();
       rest.remove_prefix(static_cast<std::size_t>(found.length()))) {
    const bool good = std::regex_search(rest.begin(), rest.end(), found, group,
                                        std::regex_constants::match_continuous);
    const bool percent = good && found.length(2) > 0;
    const std::uint32_t factor = good ? static_cast<std::uint32_t>(std::stoul(found[3])) : 0;
    double count = 0;
    if (factor == 0 || !number(found[1].str(), "", 0, percent ? 100 : nodes, count) ||
        (!percent && count != std::floor(count))) {
      return fmt::format("'{}' is not a list of some of the {} nodes, as 1%@8x or 5@2x, 1@8x", text,
                         nodes);
    }
    if (percent) count = std::round(count / 100 * nodes);
    s.slow.push_back({static_cast<std::uint32_t>(count), factor});
    sum += s.slow.back().nodes;
  }
  return sum <= nodes ? "" : fmt::format("they are {} nodes; the fabric has {}", sum, nodes);
}

// ---- others

template <typename T>
T& in(Scenario& s, T Scenario::*field) {
  return s.*field;
}
template <typename T>
T& in(Scenario& s, T FabricConfig::*field) {
  return s.fabric.*field;
}
template <typename T>
T& in(Scenario& s, T Topology::*field) {
  return s.fabric.topology.*field;
}

// 0 where a word stands for a number; of a choice its place.
template <auto field>
Error put(Scenario& s, std::int64_t number, Text = {}) {
  auto& to = in(s, field);
  to = static_cast<std::remove_reference_t<decltype(to)>>(std::max<std::int64_t>(number, 0));
  return {};
}
template <auto field>
Error flits(Scenario& s, std::int64_t bytes, Text) {
  return put<field>(s, bytes / network::flit_bytes);
}

// At least one, unless it is none.
template <auto field>
Error cycles(Scenario& s, std::int64_t ns, Text) {
  const double count = std::round(static_cast<double>(ns) / s.cycle_ns);
  if (count > most_cycles) {
    return "more than 1,000,000,000 cycles; one is the time of 256 bytes at the link's rate";
  }
  const std::int64_t least = ns > 0 ? 1 : 0;
  return put<field>(s, std::max(static_cast<std::int64_t>(count), least));
}

Error ecn(Scenario& s, std::int64_t kind, Text) {
  s.fabric.marking = static_cast<double>(kind);
  s.becn.on = kind > 0;
  s.becn.decay_cycles = kind == 2 ? 50 : 4;
  return {};
}

Error reads_max(Scenario& s, std::int64_t number, Text) {
  s.adaptive = number == config::automatic;
  return s.adaptive ? "" : put<&Scenario::reads>(s, number);
}

// ---- the table

constexpr Text all{};
constexpr Text dragonfly = "topology: dragonfly";
constexpr Text fat_tree = "topology: fat_tree";
constexpr Text single_switch = "topology: single_switch";
constexpr Text models = "endpoints: models";
constexpr Text core = "endpoints: core";
constexpr Text incast = "pattern: incast";
constexpr Text push = "protocol: push";

using enum config::Kind;

constexpr config::Form form(const char* name, config::Kind kind, const char* fallback,
                            std::int64_t min = 0, std::int64_t max = 0,
                            const char* word = nullptr) {
  return {name, kind, fallback, min, max, word};
}
constexpr config::Form one_of(const char* name, const char* fallback, const char* choices) {
  return {name, choice, fallback, 0, 0, nullptr, choices};
}

// They are set in this order: cycles after the link's rate, what counts nodes after the topology.
constexpr ScenarioKey rows[] = {
    {one_of("topology", "dragonfly", "dragonfly, fat_tree, single_switch"), put<&Topology::shape>,
     all, "The fabric's shape"},
    {form("p", count, "6", 1, 64), put<&Topology::p>, all,
     "Nodes on a router (dragonfly) or leaf (fat tree)"},
    {form("a", count, "12", 2, 64), put<&Topology::a>, dragonfly, "Routers of a group"},
    {form("h", count, "6", 1, 32), put<&Topology::h>, dragonfly,
     "Global links of a router; there are a * h + 1 groups"},
    {form("leaves", count, "16", 2, 512), put<&Topology::leaves>, fat_tree, "Switches with nodes"},
    {form("spines", count, "16", 1, 512), put<&Topology::spines>, fat_tree, "Switches above them"},
    {form("ports", count, "16", 2, 1024), put<&Topology::ports>, single_switch,
     "Nodes of the switch"},
    {form("link_rate", text, "102.4Gbit/s"), rate, all, "What a link moves", "rate, as 100Gbit/s"},
    {form("local_latency", duration, "40ns", 1, longest_ns), cycles<&FabricConfig::local_cycles>,
     all, "Of links inside a group, or between leaf and spine"},
    {form("global_latency", duration, "200ns", 1, longest_ns), cycles<&FabricConfig::global_cycles>,
     dragonfly, "Of links between groups"},
    {form("node_latency", duration, "20ns", 1, longest_ns), cycles<&FabricConfig::node_cycles>, all,
     "Of the link between a node and its router"},
    {form("buffers", size, "64KiB", 4 * KiB, 16 * MiB), flits<&FabricConfig::vc_flits>, all,
     "Of one virtual channel of an input"},
    {one_of("routing", "progressive", "minimal, valiant, progressive"), put<&FabricConfig::routing>,
     all, "Where a packet goes when there is a choice"},
    {form("bias", text, "1"), bias, dragonfly,
     "The shortest path is left when its queue is more than bias times the other one, and "
     "threshold",
     "number, 0 to 100"},
    {form("threshold", size, "7680B", 0, 16 * MiB), flits<&FabricConfig::threshold>, dragonfly,
     "See bias"},
    {form("slow", text, "none"), slow_nodes, all,
     "Nodes whose memory takes so many times longer than the link", "as 1%@8x or 5@2x, 1@8x; none"},
    {one_of("endpoints", "models", "models, core"), put<&Scenario::endpoints>, all,
     "What hangs on the fabric: models of adapters with the receivers' side that ships, or "
     "processes with all of transport/core over RC queue pairs"},
    {one_of("pattern", "pairs", "pairs, incast, halo_2d, all_to_all, opposite"),
     put<&Scenario::pattern>, all,
     "Random pairs that send to each other, with incast some receive from many, too; with "
     "endpoints: core also ranks that send as fast as they may"},
    {form("receivers", count, "0", 0, 100'000), put<&Scenario::receivers>, incast,
     "Nodes that receive from many"},
    {form("senders", count, "16", 1, 1024), put<&Scenario::senders>, incast, "From how many each"},
    {one_of("protocol", "push", "push, reads"), put<&Scenario::protocol>, models,
     "Who decides when data is sent: the sender or the receiver; the core reads"},
    {one_of("ecn", "off", "off, default, aggressive"), ecn, push,
     "FECN/BECN with the constants of [RDRP]"},
    {form("reads_max", count, "30", 1, 100'000, "auto"), reads_max, all,
     "c, the reads outstanding; auto adapts"},
    {form("reads_queue", size, "64KiB", 4 * KiB, 16 * MiB), put<&Scenario::queue_bytes>, all,
     "With reads_max auto: what may queue in the fabric (q)"},
    {form("reads_window_min", size, "4KiB", 4 * KiB, GiB), put<&Scenario::least_bytes>, all,
     "With reads_max auto: the least window"},
    {form("chunk_size", size, "4KiB", 4 * KiB, 8 * MiB), put<&Scenario::chunk_bytes>, all,
     "What one read fetches"},
    {form("from", duration, "120us", 0, longest_ns), cycles<&Scenario::from_cycles>, models,
     "When measuring begins"},
    {form("to", duration, "240us", 1, longest_ns), cycles<&Scenario::to_cycles>, models,
     "When it ends"},
    {form("processes", count, "1", 1, 32), put<&Scenario::processes>, core,
     "Of each node; senders are dealt out to them, or ranks: one each"},
    {form("rounds", count, "4", 1, 10'000), put<&Scenario::rounds>, core,
     "Messages to each, or stages of all_to_all"},
    {form("message_size", size, "256KiB", 0, GiB), put<&Scenario::message_bytes>, core,
     "Of each message"},
    {form("eager_max", size, "4KiB", 0, MiB), put<&Scenario::eager_bytes>, core,
     "Messages up to that go without a rendezvous"},
    {one_of("budget", "node", "node, process, connection"), put<&Scenario::budget_of>, core,
     "What the read budget belongs to: the processes of a node share it, or have one each, or "
     "nothing counts but max_rd_atomic of a connection"},
    {form("window_initial", count, "8", 1, 65'536), put<&Scenario::window_initial>, core,
     "Receive buffers of a process, at first"},
    {form("window_max", count, "auto", 1, 65'536, "auto"), put<&Scenario::window_max>, core,
     "W_max; auto is the transport's: 512, more where so many peers need it"},
    {form("rnr_timer", duration, "640us", 10'000, 655'360'000, "auto"), put<&Scenario::rnr_ns>,
     core, "How long a sender waits that found no receive buffer"},
    {form("contexts", count, "0", 0, 4'096), put<&Scenario::contexts>, core,
     "Of the one adapter that the processes of a node share [TOK]; 0: each has its own"},
    {form("outstanding", count, "64", 1, 4'096), put<&Scenario::outstanding>, core,
     "With contexts: messages that a process has in it"},
    {one_of("limit", "none", "none, tokens, rate"), put<&Scenario::limit>, core,
     "With contexts: what bounds the messages in it"},
};

// ---- the file

class File {
 public:
  explicit File(const config::Source& source) : source_(source), problems_(source.problems) {}

  ScenarioFile read() {
    std::vector<const char*> names;
    for (const ScenarioKey& row : rows) {
      names.push_back(row.form.name);
      Error error;
      std::int64_t number = 0;
      if (config::read(row.form, written(row), number, error)) {
        error = row.set(s_, number, written(row));
      }
      if (!error.empty()) blame({row.form.name}, error);
    }
    for (const config::Entry& entry : source_.entries) {
      if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
      blame({entry.key},
            config::no_such_key(config::nearest(entry.key, names), "weir sim run --help"));
    }
    if (problems_.empty()) check();
    std::ranges::stable_sort(problems_, {}, &config::Problem::line);
    return {s_, problems_};
  }

 private:
  const config::Entry* find(Text key) const {
    const auto at = std::ranges::find(source_.entries, key, &config::Entry::key);
    return at == source_.entries.end() ? nullptr : &*at;
  }
  Text written(const ScenarioKey& row) const {
    const config::Entry* const entry = find(row.form.name);
    return entry == nullptr ? row.form.fallback : Text(entry->value);
  }

  // Whether the scenario has what the key belongs to, and what that belongs to.
  bool fits(const ScenarioKey& row) const {
    const Text name = row.with.substr(0, row.with.find(':'));
    const auto* const other =
        std::ranges::find(rows, name, [](const ScenarioKey& any) { return Text(any.form.name); });
    return row.with.empty() ||
           (row.with.ends_with(": " + std::string(written(*other))) && fits(*other));
  }

  // The line of the first of those keys that the file has.
  void blame(std::initializer_list<Text> keys, const Error& reason) {
    for (const Text key : keys) {
      const config::Entry* const entry = find(key);
      if (entry == nullptr) continue;
      problems_.push_back({source_.layer, entry->where, entry->key, reason, entry->line});
      return;
    }
    problems_.push_back({source_.layer, "", std::string(*keys.begin()), reason, 0});
  }

  // What only the whole tells.
  void check() {
    const std::uint32_t nodes = s_.fabric.topology.nodes();
    if (nodes > most_nodes) {
      return blame(
          {"p", "a", "h", "leaves", "ports"},
          fmt::format("the fabric has {} nodes; at most {} are simulated", nodes, most_nodes));
    }
    for (const ScenarioKey& row : rows) {
      if (written(row) == row.form.fallback || fits(row)) continue;
      blame({row.form.name}, fmt::format("only '{}' has that", row.with));
    }
    if (s_.to_cycles <= s_.from_cycles) blame({"to", "from"}, "'to' has to be later than 'from'");
    const bool incast = s_.pattern == Pattern::incast;
    if (incast && (s_.receivers == 0 || s_.receivers > nodes)) {
      blame({"receivers", "pattern"}, fmt::format("1 to {} with 'pattern: incast'", nodes));
    }
    if (incast && s_.senders >= nodes) {
      blame({"senders", "pattern"},
            fmt::format("a receiver has at most the {} other nodes of the fabric", nodes - 1));
    }
    if (s_.endpoints == EndpointsAre::models) {
      if (has_ranks(s_.pattern)) blame({"pattern"}, "only 'endpoints: core' has ranks");
      return;
    }
    if (s_.budget_of == BudgetOf::connection && s_.adaptive) {
      blame({"reads_max", "budget"}, "what a connection has under way does not adapt");
    }
    if (s_.window_max > 0 && s_.window_initial > s_.window_max) {
      blame({"window_initial", "window_max"}, "more than window_max");
    }
    if (std::uint64_t{nodes} * s_.processes > most_cores) {
      blame({"processes", "endpoints"},
            fmt::format("{} processes; at most {} are simulated with all of the core",
                        std::uint64_t{nodes} * s_.processes, most_cores));
    }
  }

  const config::Source& source_;
  std::vector<config::Problem> problems_;
  Scenario s_;
};

}  // namespace

std::span<const ScenarioKey> scenario_keys() { return rows; }

ScenarioFile parse_scenario(const std::string& text, const std::string& file) {
  return File(config::parse_yaml(text, file, config::Layer::named_file)).read();
}

ScenarioFile read_scenario(const std::string& path) {
  return File(config::read_yaml_file(path, config::Layer::named_file)).read();
}

}  // namespace weir::sim
