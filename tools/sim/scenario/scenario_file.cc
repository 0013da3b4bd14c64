#include "tools/sim/scenario/scenario_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>

#include "transport/config/nearest.h"
#include "transport/config/schema.h"
#include "transport/config/units.h"
#include "transport/config/yaml_file.h"

namespace weir::sim {
namespace {

using config::Kind;
using network::BudgetOf;
using network::EndpointsAre;
using network::FabricConfig;
using network::Pattern;
using network::Protocol;
using network::Scenario;
using network::Shape;
using network::Topology;
using Error = std::string;
using Text = std::string_view;

constexpr std::int64_t KiB = 1024;
constexpr std::int64_t MiB = 1024 * KiB;
constexpr std::int64_t GiB = 1024 * MiB;
constexpr std::uint32_t most_nodes = 100'000;
constexpr std::uint32_t most_cores = 1'152;  // every one knows every other
// Ticks, of which a cycle has three, are kept modulo 2^32 in places.
constexpr double most_cycles = 1'000'000'000;

// What was read, for a field of any kind: 0 where a word stands for a number.
struct Value {
  std::int64_t number;  // of a choice its place
  Text text;
  template <typename T>
  operator T() const {
    return static_cast<T>(std::max<std::int64_t>(number, 0));
  }
};

// ---- values that are more than a number with a unit

bool number(Text text, Text unit, double low, double high, double& value) {
  if (!text.ends_with(unit)) return false;
  text.remove_suffix(unit.size());
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= low && value <= high;
}

Error bias(Scenario& s, const Value& value) {
  const bool good = number(value.text, "", 0, 100, s.fabric.bias);
  return good ? "" : fmt::format("'{}' is not a number from 0 to 100", value.text);
}

Error rate(Scenario& s, const Value& value) {
  double gbit_s = 0;
  if (!number(value.text, "Gbit/s", 0.1, 10'000, gbit_s)) {
    return fmt::format("'{}' is not a rate from 0.1Gbit/s to 10000Gbit/s, as 100Gbit/s",
                       value.text);
  }
  s.cycle_ns = network::flit_bytes * 8 / gbit_s;
  return {};
}

// "1%@8x", "5@2x": so many nodes of so many.
bool slow_group(Text part, std::uint32_t nodes, Scenario::Slow& group) {
  const std::size_t at = std::min(part.find('@'), part.size());
  double count = 0;
  double factor = 0;
  if (!number(part.substr(std::min(at + 1, part.size())), "x", 1, 1'000, factor)) return false;
  const bool percent = part.substr(0, at).ends_with('%');
  if (!number(part.substr(0, at), percent ? "%" : "", 0, percent ? 100 : nodes, count)) {
    return false;
  }
  group.nodes = static_cast<std::uint32_t>(std::lround(percent ? count / 100 * nodes : count));
  group.factor = static_cast<std::uint32_t>(factor);
  return group.factor == factor && (percent || group.nodes == count);
}

// "1%@8x, 5@2x", "none"
Error slow_nodes(Scenario& s, const Value& value) {
  const std::uint32_t nodes = s.fabric.topology.nodes();
  std::uint64_t sum = 0;
  s.slow.clear();
  for (Text rest = value.text; !rest.empty() && rest != "none";) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (!slow_group(rest.substr(0, comma), nodes, s.slow.emplace_back())) {
      return fmt::format("'{}' is not a list of some of the {} nodes, as 1%@8x or 5@2x, 1@8x",
                         value.text, nodes);
    }
    sum += s.slow.back().nodes;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    while (rest.starts_with(' ')) rest.remove_prefix(1);
  }
  return sum <= nodes ? "" : fmt::format("they are {} nodes; the fabric has {}", sum, nodes);
}

// ---- others

template <auto field>
Error put(Scenario& s, const Value& value) {
  s.*field = value;
  return {};
}
template <auto field>
Error topology(Scenario& s, const Value& value) {
  s.fabric.topology.*field = value;
  return {};
}
template <auto field>
Error fabric(Scenario& s, const Value& value) {
  s.fabric.*field = value;
  return {};
}
template <auto field>
Error flits(Scenario& s, const Value& value) {
  return fabric<field>(s, {value.number / network::flit_bytes, {}});
}

// Of nanoseconds: at least one, unless it is none.
template <auto put_field>
Error cycles(Scenario& s, const Value& value) {
  const double count = std::round(static_cast<double>(value.number) / s.cycle_ns);
  if (count > most_cycles) {
    return "more than 1,000,000,000 cycles; one is the time of 256 bytes at the link's rate";
  }
  const std::int64_t least = value.number > 0 ? 1 : 0;
  return put_field(s, {std::max(static_cast<std::int64_t>(count), least), {}});
}

Error ecn(Scenario& s, const Value& value) {
  s.fabric.marking = value;
  s.becn.on = value;
  s.becn.decay_cycles = value.number == 2 ? 50 : 4;
  return {};
}

Error reads_max(Scenario& s, const Value& value) {
  s.adaptive = value.number == config::automatic;
  if (!s.adaptive) s.reads = value;
  return {};
}

// ---- the table

// To what kind of scenario a key belongs; with others it is a mistake.
struct With {
  const char* name;
  bool (*fits)(const Scenario& s);
};
template <Shape shape>
bool is(const Scenario& s) {
  return s.fabric.topology.shape == shape;
}
template <EndpointsAre endpoints>
bool is(const Scenario& s) {
  return s.endpoints == endpoints;
}
constexpr With all{"", [](const Scenario&) { return true; }};
constexpr With dragonfly{"topology: dragonfly", is<Shape::dragonfly>};
constexpr With fat_tree{"topology: fat_tree", is<Shape::fat_tree>};
constexpr With single_switch{"topology: single_switch", is<Shape::single_switch>};
constexpr With models{"endpoints: models", is<EndpointsAre::models>};
constexpr With core{"endpoints: core", is<EndpointsAre::core>};
constexpr With incast{"pattern: incast",
                      [](const Scenario& s) { return s.pattern == Pattern::incast; }};
constexpr With push{"protocol: push", [](const Scenario& s) {
                      return s.protocol == Protocol::push && is<EndpointsAre::models>(s);
                    }};

struct Row {
  config::Form form;
  Error (*set)(Scenario& s, const Value& value);
  With with;
  const char* help;
  const char* takes = nullptr;  // of text
};

constexpr config::Form choice(const char* name, const char* fallback, const char* choices) {
  return {name, Kind::choice, fallback, 0, 0, nullptr, choices};
}
constexpr config::Form count(const char* name, const char* fallback, std::int64_t min,
                             std::int64_t max, const char* word = nullptr) {
  return {name, Kind::count, fallback, min, max, word};
}
constexpr config::Form size(const char* name, const char* fallback, std::int64_t min,
                            std::int64_t max) {
  return {name, Kind::size, fallback, min, max};
}
constexpr config::Form text(const char* name, const char* fallback) {
  return {name, Kind::text, fallback};
}
constexpr config::Form duration(const char* name, const char* fallback, std::int64_t min) {
  return {name, Kind::duration, fallback, min, 10'000'000'000};
}

// They are set in this order: cycles after the link's rate, what counts nodes after the topology.
constexpr Row rows[] = {
    {choice("topology", "dragonfly", "dragonfly, fat_tree, single_switch"),
     topology<&Topology::shape>, all, "The fabric's shape"},
    {count("p", "6", 1, 64), topology<&Topology::p>, all,
     "Nodes on a router (dragonfly) or leaf (fat tree)"},
    {count("a", "12", 2, 64), topology<&Topology::a>, dragonfly, "Routers of a group"},
    {count("h", "6", 1, 32), topology<&Topology::h>, dragonfly,
     "Global links of a router; there are a * h + 1 groups"},
    {count("leaves", "16", 2, 512), topology<&Topology::leaves>, fat_tree, "Switches with nodes"},
    {count("spines", "16", 1, 512), topology<&Topology::spines>, fat_tree, "Switches above them"},
    {count("ports", "16", 2, 1024), topology<&Topology::ports>, single_switch,
     "Nodes of the switch"},
    {text("link_rate", "102.4Gbit/s"), rate, all, "What a link moves", "rate, as 100Gbit/s"},
    {duration("local_latency", "40ns", 1), cycles<fabric<&FabricConfig::local_cycles>>, all,
     "Of links inside a group, or between leaf and spine"},
    {duration("global_latency", "200ns", 1), cycles<fabric<&FabricConfig::global_cycles>>,
     dragonfly, "Of links between groups"},
    {duration("node_latency", "20ns", 1), cycles<fabric<&FabricConfig::node_cycles>>, all,
     "Of the link between a node and its router"},
    {size("buffers", "64KiB", 4 * KiB, 16 * MiB), flits<&FabricConfig::vc_flits>, all,
     "Of one virtual channel of an input"},
    {choice("routing", "progressive", "minimal, valiant, progressive"),
     fabric<&FabricConfig::routing>, all,
     "Where a packet goes when there is a choice"},
    {text("bias", "1"), bias, dragonfly,
     "The shortest path is left when its queue is more than bias times the other one, and "
     "threshold",
     "number, 0 to 100"},
    {size("threshold", "7680B", 0, 16 * MiB), flits<&FabricConfig::threshold>, dragonfly,
     "See bias"},
    {text("slow", "none"), slow_nodes, all,
     "Nodes whose memory takes so many times longer than the link", "as 1%@8x or 5@2x, 1@8x; none"},
    {choice("endpoints", "models", "models, core"), put<&Scenario::endpoints>, all,
     "What hangs on the fabric: models of adapters with the receivers' side that ships, or "
     "processes with all of transport/core over RC queue pairs"},
    {choice("pattern", "pairs", "pairs, incast, halo_2d, all_to_all, opposite"),
     put<&Scenario::pattern>, all,
     "Random pairs that send to each other, with incast some receive from many, too; with "
     "endpoints: core also ranks that send as fast as they may"},
    {count("receivers", "0", 0, 100'000), put<&Scenario::receivers>, incast,
     "Nodes that receive from many"},
    {count("senders", "16", 1, 1024), put<&Scenario::senders>, incast, "From how many each"},
    {choice("protocol", "push", "push, reads"), put<&Scenario::protocol>, models,
     "Who decides when data is sent: the sender or the receiver; the core reads"},
    {choice("ecn", "off", "off, default, aggressive"), ecn, push,
     "FECN/BECN with the constants of [RDRP]"},
    {count("reads_max", "30", 1, 100'000, "auto"), reads_max, all,
     "c, the reads outstanding; auto adapts"},
    {size("reads_queue", "64KiB", 4 * KiB, 16 * MiB), put<&Scenario::queue_bytes>, all,
     "With reads_max auto: what may queue in the fabric (q)"},
    {size("reads_window_min", "4KiB", 4 * KiB, GiB), put<&Scenario::least_bytes>, all,
     "With reads_max auto: the least window"},
    {size("chunk_size", "4KiB", 4 * KiB, 8 * MiB), put<&Scenario::chunk_bytes>, all,
     "What one read fetches"},
    {duration("from", "120us", 0), cycles<put<&Scenario::from_cycles>>, models,
     "When measuring begins"},
    {duration("to", "240us", 1), cycles<put<&Scenario::to_cycles>>, models, "When it ends"},
    {count("processes", "1", 1, 32), put<&Scenario::processes>, core,
     "Of each node; senders are dealt out to them, or ranks: one each"},
    {count("rounds", "4", 1, 10'000), put<&Scenario::rounds>, core,
     "Messages to each, or stages of all_to_all"},
    {size("message_size", "256KiB", 0, GiB), put<&Scenario::message_bytes>, core,
     "Of each message"},
    {size("eager_max", "4KiB", 0, MiB), put<&Scenario::eager_bytes>, core,
     "Messages up to that go without a rendezvous"},
    {choice("budget", "node", "node, process, connection"), put<&Scenario::budget_of>, core,
     "What the read budget belongs to: the processes of a node share it, or have one each, or "
     "nothing counts but max_rd_atomic of a connection"},
    {count("window_initial", "8", 1, 65'536), put<&Scenario::window_initial>, core,
     "Receive buffers of a process, at first"},
    {count("window_max", "auto", 1, 65'536, "auto"), put<&Scenario::window_max>, core,
     "W_max; auto is the transport's: 512, more where so many peers need it"},
    {{"rnr_timer", Kind::duration, "640us", 10'000, 655'360'000, "auto"},
     put<&Scenario::rnr_ns>, core, "How long a sender waits that found no receive buffer"},
    {count("contexts", "0", 0, 4'096), put<&Scenario::contexts>, core,
     "Of the one adapter that the processes of a node share [TOK]; 0: each has its own"},
    {count("outstanding", "64", 1, 4'096), put<&Scenario::outstanding>, core,
     "With contexts: messages that a process has in it"},
    {choice("limit", "none", "none, tokens, rate"), put<&Scenario::limit>, core,
     "With contexts: what bounds the messages in it"},
};

// ---- the file

class File {
 public:
  explicit File(const config::Source& source) : source_(source), problems_(source.problems) {}

  ScenarioFile read() {
    std::vector<const char*> names;
    for (const Row& row : rows) {
      names.push_back(row.form.name);
      const config::Entry* const entry = find(row.form.name);
      const Text written = entry == nullptr ? row.form.fallback : Text(entry->value);
      Error error;
      Value value{0, written};
      if (config::read(row.form, written, value.number, error)) error = row.set(s_, value);
      if (!error.empty()) blame({row.form.name}, error);
    }
    for (const config::Entry& entry : source_.entries) {
      if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
      blame({entry.key},
            config::no_such_key(config::nearest(entry.key, names), "weir sim run --help"));
    }
    if (problems_.empty()) check();
    std::stable_sort(problems_.begin(), problems_.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    return {s_, problems_};
  }

 private:
  const config::Entry* find(Text key) const {
    const auto at = std::find_if(source_.entries.begin(), source_.entries.end(),
                                 [&](const config::Entry& entry) { return entry.key == key; });
    return at == source_.entries.end() ? nullptr : &*at;
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
    for (const Row& row : rows) {
      const config::Entry* const entry = find(row.form.name);
      if (entry == nullptr || entry->value == row.form.fallback || row.with.fits(s_)) continue;
      blame({entry->key}, fmt::format("only '{}' has that", row.with.name));
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

std::vector<ScenarioKey> scenario_keys() {
  std::vector<ScenarioKey> keys;
  for (const Row& row : rows) {
    const std::string takes = row.takes != nullptr ? row.takes : config::accepts(row.form);
    keys.push_back({row.form.name, takes, row.form.fallback, row.with.name, row.help});
  }
  return keys;
}

ScenarioFile parse_scenario(const std::string& text, const std::string& file) {
  return File(config::parse_yaml(text, file, config::Layer::named_file)).read();
}

ScenarioFile read_scenario(const std::string& path) {
  return File(config::read_yaml_file(path, config::Layer::named_file)).read();
}

}  // namespace weir::sim
