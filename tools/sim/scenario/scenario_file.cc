#include "tools/sim/scenario/scenario_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <utility>

#include "tools/sim/scenario/trace_file.h"
#include "transport/config/nearest.h"
#include "transport/config/schema.h"
#include "transport/config/table.h"
#include "transport/config/units.h"
#include "transport/config/yaml_file.h"

namespace weir::sim {
namespace {

using config::Kind;
using network::BudgetOf;
using network::EndpointsAre;
using network::Pattern;
using network::Protocol;
using network::Scenario;
using network::Shape;
using network::Switching;
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
const char* const too_many_cycles =
    "more than 1,000,000,000 cycles; one is the time of 256 bytes at the link's rate";

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

Error not_a(Text text, const char* what) { return fmt::format("'{}' is not {}", text, what); }

bool number(Text text, Text unit, double low, double high, double& value) {
  if (!text.ends_with(unit)) return false;
  text.remove_suffix(unit.size());
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= low && value <= high;
}

bool count(Text text, std::int64_t low, std::int64_t high, std::uint32_t& value) {
  std::int64_t read = 0;
  Error ignored;
  if (!config::parse_count(text, read, ignored) || read < low || read > high) return false;
  value = static_cast<std::uint32_t>(read);
  return true;
}

Error bias(Scenario& s, const Value& value) {
  const bool good = number(value.text, "", 0, 100, s.fabric.switching.bias);
  return good ? "" : not_a(value.text, "a number from 0 to 100");
}

Error rate(Scenario& s, const Value& value) {
  double gbit_s = 0;
  if (!number(value.text, "Gbit/s", 0.1, 10'000, gbit_s)) {
    return not_a(value.text, "a rate from 0.1Gbit/s to 10000Gbit/s, as 100Gbit/s");
  }
  s.cycle_ns = network::flit_bytes * 8 / gbit_s;
  return {};
}

Error percent(Scenario& s, const Value& value) {
  double read = 0;
  if (!number(value.text, "%", 0, 50, read)) {
    return not_a(value.text, "a percentage from 0% to 50%, as 0.01%");
  }
  s.fabric.loss = read / 100;
  return {};
}

// Each part between commas; none of "none". False, and it ends, as soon as `take` says so.
template <typename Take>
bool all_parts(Text text, Take take) {
  while (!text.empty() && text != "none") {
    const std::size_t comma = std::min(text.find(','), text.size());
    Text part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!take(part)) return false;
  }
  return true;
}

// "1%@8x, 5@2x", "none"
Error slow_nodes(Scenario& s, const Value& value) {
  const std::uint32_t nodes = s.fabric.topology.nodes();
  std::uint64_t all = 0;
  s.slow.clear();
  const bool good = all_parts(value.text, [&](Text part) {
    const std::size_t at = part.find('@');
    if (at == Text::npos || !part.ends_with('x')) return false;
    const Text how_many = part.substr(0, at);
    Scenario::Slow group;
    if (!count(part.substr(at + 1, part.size() - at - 2), 1, 1'000, group.factor)) return false;
    if (how_many.ends_with('%')) {
      double of_hundred = 0;
      if (!number(how_many, "%", 0, 100, of_hundred)) return false;
      group.nodes = static_cast<std::uint32_t>(std::lround(of_hundred / 100 * nodes));
    } else if (!count(how_many, 0, UINT32_MAX, group.nodes)) {
      return false;
    }
    all += group.nodes;
    s.slow.push_back(group);
    return true;
  });
  if (!good) return not_a(value.text, "a list of slow nodes, as 1%@8x or 5@2x, 1@8x");
  if (all <= nodes) return {};
  return fmt::format("they are {} nodes; the fabric has {}", all, nodes);
}

// "3@50us-90us, 1@0-240us", "none"
Error outages(Scenario& s, const Value& value) {
  const std::uint32_t trunks = s.fabric.topology.trunks();
  s.fabric.outages.clear();
  Error error;
  const bool good = all_parts(value.text, [&](Text part) {
    const std::size_t at = std::min(part.find('@'), part.size());
    const std::size_t dash = part.find('-', at);
    network::Outage outage;
    std::int64_t from = 0;
    std::int64_t to = 0;
    Error ignored;
    if (dash == Text::npos || !count(part.substr(0, at), 1, 100'000, outage.links) ||
        !config::parse_duration(part.substr(at + 1, dash - at - 1), from, ignored) ||
        !config::parse_duration(part.substr(dash + 1), to, ignored) || to <= from) {
      return false;
    }
    if (outage.links > trunks) error = fmt::format("there are {} such links", trunks);
    if (static_cast<double>(to) / s.cycle_ns > most_cycles) error = too_many_cycles;
    outage.from_cycles = static_cast<std::uint64_t>(static_cast<double>(from) / s.cycle_ns);
    outage.to_cycles = static_cast<std::uint64_t>(static_cast<double>(to) / s.cycle_ns);
    s.fabric.outages.push_back(outage);
    return true;
  });
  return good ? error : not_a(value.text, "a list of links and times, as 3@50us-90us");
}

// "4@1ms", "none"
Error computes(Scenario& s, const Value& value) {
  if (value.text == "none") return {};
  const std::size_t at = std::min(value.text.find('@'), value.text.size());
  const bool counts = count(value.text.substr(0, at), 1, 1'000, s.compute_permille);
  const Text most = value.text.substr(std::min(at + 1, value.text.size()));
  Error ignored;
  const bool good = counts && config::parse_duration(most, s.compute_ns, ignored);
  return good ? "" : not_a(value.text, "turns in a thousand and a time, as 4@1ms");
}

template <std::string Scenario::*to, config::TableOf kind = config::TableOf::counts>
Error table(Scenario& s, const Value& value) {
  std::vector<config::TableEntry> entries;
  Error error;
  if (config::parse_table(value.text, kind, entries, error)) s.*to = value.text;
  return error;
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
Error switching(Scenario& s, const Value& value) {
  s.fabric.switching.*field = value;
  return {};
}
template <auto field>
Error flits(Scenario& s, const Value& value) {
  return switching<field>(s, {value.number / network::flit_bytes, {}});
}

// Of nanoseconds: at least one, unless it is none.
template <auto put_field>
Error cycles(Scenario& s, const Value& value) {
  const double count = std::round(static_cast<double>(value.number) / s.cycle_ns);
  if (count > most_cycles) return too_many_cycles;
  const std::int64_t least = value.number > 0 ? 1 : 0;
  return put_field(s, {std::max(static_cast<std::int64_t>(count), least), {}});
}

Error request_lane(Scenario& s, const Value& value) {
  s.fabric.switching.request_lanes = value.number % 2 == 1;
  return {};
}

Error ecn(Scenario& s, const Value& value) {
  s.fabric.switching.marking = value;
  s.becn.on = value;
  s.becn.decay_cycles = value.number == 2 ? 50 : 4;
  return {};
}

Error reads_max(Scenario& s, const Value& value) {
  s.adaptive = value.number == config::automatic;
  if (!s.adaptive) s.reads = value;
  return {};
}

Error nothing(Scenario&, const Value&) { return {}; }

// ---- the table

using Set = Error (*)(Scenario& s, const Value& value);

struct Row {
  config::Form form;
  Set set;
  const char* help;
  const char* takes = nullptr;  // of text
};

constexpr Row choice(const char* name, const char* fallback, const char* choices, Set set,
                     const char* help) {
  return {{name, Kind::choice, fallback, 0, 0, nullptr, choices}, set, help};
}

constexpr Row count(const char* name, const char* fallback, std::int64_t min, std::int64_t max,
                    Set set, const char* help, const char* word = nullptr) {
  return {{name, Kind::count, fallback, min, max, word}, set, help};
}

constexpr Row size(const char* name, const char* fallback, std::int64_t min, std::int64_t max,
                   Set set, const char* help) {
  return {{name, Kind::size, fallback, min, max}, set, help};
}

constexpr Row duration(const char* name, const char* fallback, std::int64_t min, Set set,
                       const char* help) {
  return {{name, Kind::duration, fallback, min, 10'000'000'000}, set, help};
}

constexpr Row text(const char* name, const char* fallback, Set set, const char* help,
                   const char* takes) {
  return {{name, Kind::text, fallback}, set, help, takes};
}

// They are set in this order: cycles after the link's rate, what counts nodes after the topology.
constexpr Row rows[] = {
    choice("topology", "dragonfly", "dragonfly, fat_tree, single_switch",
           topology<&Topology::shape>, "The fabric's shape"),
    count("p", "6", 1, 64, topology<&Topology::p>,
          "Nodes on a router (dragonfly) or leaf (fat tree)"),
    count("a", "12", 2, 64, topology<&Topology::a>, "Dragonfly: routers of a group"),
    count("h", "6", 1, 32, topology<&Topology::h>,
          "Dragonfly: global links of a router; there are a * h + 1 groups"),
    count("leaves", "16", 2, 512, topology<&Topology::leaves>, "Fat tree: switches with nodes"),
    count("spines", "16", 1, 512, topology<&Topology::spines>, "Fat tree: switches above them"),
    count("ports", "16", 2, 1024, topology<&Topology::ports>, "Single switch: its nodes"),
    text("link_rate", "102.4Gbit/s", rate, "What a link moves", "rate, as 100Gbit/s"),
    duration("local_latency", "40ns", 1, cycles<switching<&Switching::local_cycles>>,
             "Of links inside a group, or between leaf and spine"),
    duration("global_latency", "200ns", 1, cycles<switching<&Switching::global_cycles>>,
             "Of links between groups"),
    duration("node_latency", "20ns", 1, cycles<switching<&Switching::node_cycles>>,
             "Of the link between a node and its router"),
    size("buffers", "64KiB", 4 * KiB, 16 * MiB, flits<&Switching::vc_flits>,
         "Of one virtual channel of an input"),
    choice("routing", "progressive", "minimal, valiant, ugal, progressive",
           switching<&Switching::routing>,
           "Where a packet goes when there is a choice (on a fat tree ugal is progressive)"),
    text("bias", "1", bias,
         "Dragonfly: the shortest path is left when its queue is more than bias times the other "
         "one, and threshold",
         "number, 0 to 100"),
    size("threshold", "7680B", 0, 16 * MiB, flits<&Switching::threshold>, "See bias"),
    choice("request_lane", "yes", "no, yes, false, true", request_lane,
           "Read requests have virtual channels of their own"),
    choice("ecn", "off", "off, default, aggressive", ecn, "FECN/BECN with the constants of [RDRP]"),
    text("loss", "0%", percent, "Core: of the packets on each link", "percentage, 0% to 50%"),
    text("down", "none", outages,
         "Core: links that are down from one time of the traffic to another, drawn by the seed "
         "from those between groups, between leaves and spines, or of a single switch",
         "as 3@50us-90us, 1@0-1ms; none"),
    duration(
        "retry_timeout", "100us", 1, cycles<put<&Scenario::timeout_cycles>>,
        "Core: an adapter sends again what is not answered for so long, where packets get lost"),
    choice("pattern", "pairs",
           "pairs, incast, halo_2d, halo_3d, wavefront, all_to_all, sparse, trace",
           put<&Scenario::pattern>,
           "Streams: random pairs that send to each other, with incast some receive from many, "
           "too; or messages of ranks until all are received"),
    count("receivers", "0", 0, 100'000, put<&Scenario::receivers>,
          "Incast: nodes that receive from many"),
    count("senders", "16", 1, 1024, put<&Scenario::senders>, "Incast: from how many each"),
    count("rounds", "4", 1, 10'000, put<&Scenario::rounds>,
          "Of halo, sparse, wavefront (sweeps) and all_to_all (stages); of pairs and incast with "
          "endpoints: core"),
    size("message_size", "256KiB", 0, GiB, put<&Scenario::message_bytes>,
         "Of halo, wavefront, all_to_all and sparse; of pairs and incast with endpoints: core"),
    size("eager_max", "4KiB", 0, MiB, put<&Scenario::eager_bytes>,
         "Messages up to that go without a rendezvous"),
    duration("work", "0", 0, cycles<put<&Scenario::work_cycles>>,
             "What a rank computes before each of its steps but the first; core: without progress"),
    text("computes", "none", computes,
         "Core: of 1,000 turns of a process, a us each, after how many it computes, without "
         "progress, and how long at most",
         "as 4@1ms; none"),
    text("trace", "none", nothing,
         "Of pattern trace: lines of time, source, destination, bytes and perhaps the number of "
         "the message it comes after",
         "file, beside this one; none"),
    text("slow", "none", slow_nodes, "Nodes whose memory takes so many times longer than the link",
         "as 1%@8x or 5@2x, 1@8x; none"),
    choice("endpoints", "models", "models, core", put<&Scenario::endpoints>,
           "What hangs on the fabric: models of adapters with the receivers' side that ships, or "
           "processes with all of transport/core over RC queue pairs"),
    choice("steps", "free", "free, wait", put<&Scenario::steps_wait>,
           "Core: a rank sends as fast as it may, or each step when what it needs is there, as "
           "models do and a trace always"),
    duration("match_time", "0", 0, put<&Scenario::match_ns>,
             "Core, with steps: wait and traces: what it takes a rank to match a message with its "
             "receive; it does nothing else meanwhile"),
    count("window_initial", "8", 1, 65'536, put<&Scenario::window_initial>,
          "Core: receive buffers of a process, at first"),
    count("window_max", "auto", 1, 65'536, put<&Scenario::window_max>,
          "Core: W_max; auto is the transport's: 512, more where so many peers need it", "auto"),
    count("window_unasked", "auto", 1, 65'536, put<&Scenario::window_unasked>,
          "Core: beyond, the window grows for peers without credits only; auto: 256 with "
          "window_max auto, else window_max",
          "auto"),
    count("max_rd_atomic", "16", 1, 128, put<&Scenario::max_rd_atomic>,
          "Core: reads of a queue pair under way"),
    count("proxy_servers", "0", 0, 32, put<&Scenario::proxy_servers>,
          "Core: processes of a node that send eager frames for the others at a time; 0: each "
          "sends its own"),
    count("context_cache", "off", 1, 1'000'000, put<&Scenario::context_cache>,
          "Core: contexts that a node's adapter holds; off: all there are", "off"),
    choice("context_of", "queue_pair", "request, queue_pair", put<&Scenario::context_of>,
           "With context_cache: what has one, each queue pair, or each request until it is "
           "answered (the adapter that the tok figures declare)"),
    duration("context_miss", "600ns", 0, put<&Scenario::context_miss_ns>,
             "With context_cache: what a request or an answer waits for its context if it is not "
             "held; the adapter does nothing else meanwhile"),
    choice("limit_event", "hardware", "hardware, rxe", put<&Scenario::rxe_limit>,
           "Core: armed below the limit, an SRQ fires at once, or with the next receive"),
    choice("protocol", "push", "push, reads", put<&Scenario::protocol>,
           "Who decides when data is sent: the sender or the receiver; the core reads"),
    count("processes", "1", 1, 32, put<&Scenario::processes>,
          "Core: of each node; senders are dealt out to them, or ranks: one each"),
    choice(
        "budget", "node", "node, process, transfer", put<&Scenario::budget_of>,
        "What the read budget belongs to; with all of the core, the processes of a node share it "
        "or have one each, and transfer is a connection, which has no more than max_rd_atomic"),
    count("tokens", "off", 1, 65'535, put<&Scenario::tokens>,
          "Core: requests of a node, frames and chunks, take one of so many", "off"),
    choice("admission", "always", "always, thresholds", put<&Scenario::thresholds>,
           "With tokens: each request takes one, or when the tables below say so (Algorithm 1)"),
    text("cct", "none", table<&Scenario::cct>,
         "With admission thresholds, by size of the request: with so many active processes on the "
         "node all take tokens",
         "table, as 64B=12, 4KiB=8; none"),
    text("nrct", "none", table<&Scenario::nrct>,
         "The same: what the node may have under way before the next one takes a token",
         "table, as 64B=12, 4KiB=8; none"),
    text("crct", "none", table<&Scenario::crct, config::TableOf::counts_by_cores>,
         "The same of one process, by active processes and size", "table, as 1@4KiB=64; none"),
    count("reads_max", "30", 1, 100'000, reads_max, "c, the reads outstanding; auto adapts",
          "auto"),
    size("reads_queue", "64KiB", 4 * KiB, 16 * MiB, put<&Scenario::queue_bytes>,
         "With reads_max auto: what may queue in the fabric (q)"),
    size("reads_window_min", "4KiB", 4 * KiB, GiB, put<&Scenario::least_bytes>,
         "With reads_max auto: the least window"),
    size("chunk_size", "4KiB", 4 * KiB, 8 * MiB, put<&Scenario::chunk_bytes>,
         "What one read fetches"),
    duration("from", "120us", 0, cycles<put<&Scenario::from_cycles>>, "When measuring begins"),
    duration("to", "240us", 1, cycles<put<&Scenario::to_cycles>>, "When it ends, if not before"),
};

Error set(const Row& row, Text text, Scenario& s) {
  Error error;
  Value value{0, text};
  return config::read(row.form, text, value.number, error) ? row.set(s, value) : error;
}

// ---- the file

class File {
 public:
  File(const config::Source& source, const std::string& path)
      : source_(source), path_(path), problems_(source.problems) {}

  ScenarioFile read() {
    std::vector<const char*> names;
    for (const Row& row : rows) {
      names.push_back(row.form.name);
      const config::Entry* const entry = find(row.form.name);
      const Error error = set(row, entry == nullptr ? row.form.fallback : entry->value, s_);
      if (!error.empty()) blame({row.form.name}, error);
    }
    for (const config::Entry& entry : source_.entries) {
      if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
      blame(entry.key,
            config::no_such_key(config::nearest(entry.key, names), "weir sim run --help"));
    }
    if (problems_.empty()) check();
    if (problems_.empty() && s_.pattern == Pattern::trace) add_trace();
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
  void blame(Text key, const Error& reason) { blame({key}, reason); }

  // Of those keys the file has others than their defaults, although they do not fit.
  void only_with(std::initializer_list<Text> keys, bool fits, const Error& reason) {
    for (const Row& row : rows) {
      const config::Entry* const entry = find(row.form.name);
      if (fits || entry == nullptr || entry->value == row.form.fallback) continue;
      if (std::find(keys.begin(), keys.end(), entry->key) != keys.end())
        blame({entry->key}, reason);
    }
  }

  // What only the whole tells.
  void check() {
    const std::uint32_t nodes = s_.fabric.topology.nodes();
    if (nodes > most_nodes) {
      return blame(
          {"p", "a", "h", "leaves", "ports"},
          fmt::format("the fabric has {} nodes; at most {} are simulated", nodes, most_nodes));
    }
    if (s_.to_cycles <= s_.from_cycles) blame({"to", "from"}, "'to' has to be later than 'from'");
    const Shape shape = s_.fabric.topology.shape;
    only_with({"p"}, shape != Shape::single_switch, "a single switch has 'ports'");
    only_with({"a", "h"}, shape == Shape::dragonfly, "only a dragonfly has that");
    only_with({"leaves", "spines"}, shape == Shape::fat_tree, "only a fat tree has that");
    only_with({"ports"}, shape == Shape::single_switch, "only a single switch has that");
    check_traffic(nodes);
    check_endpoints(nodes);
  }

  void check_traffic(std::uint32_t nodes) {
    const bool messages = ends(s_.pattern);
    const bool incast = s_.pattern == Pattern::incast;
    const bool trace = s_.pattern == Pattern::trace;
    only_with({"receivers", "senders"}, incast, "only 'pattern: incast' has that");
    if (incast && s_.receivers == 0) {
      blame({"receivers", "pattern"}, "'pattern: incast' and 'receivers' belong together");
    }
    if (s_.receivers > nodes) {
      blame("receivers", fmt::format("the fabric has {} nodes", nodes));
    }
    if (incast && s_.senders >= nodes) {
      blame({"senders", "pattern"},
            fmt::format("a receiver has at most the {} other nodes of the fabric", nodes - 1));
    }
    only_with({"ecn"}, !messages && s_.protocol == Protocol::push,
              "only streams that are pushed are throttled");
    if (trace != (trace_name() != "none")) {
      blame(trace ? "pattern" : "trace", "'pattern: trace' and 'trace: FILE' belong together");
    }
    constexpr std::uint64_t most_messages = 4'000'000;
    if (messages && !trace && std::uint64_t{s_.rounds} * nodes * s_.processes * 6 > most_messages) {
      blame({"rounds", "p", "ports", "pattern"}, "rounds times ranks are too many messages");
    }
  }

  void check_endpoints(std::uint32_t nodes) {
    const bool core = s_.endpoints == EndpointsAre::core;
    const bool messages = ends(s_.pattern);
    const bool trace = s_.pattern == Pattern::trace;
    only_with({"processes"}, core, "models have one process a node");
    only_with({"budget"}, core || (!messages && s_.budget_of == BudgetOf::transfer),
              "models have one process a node, and ranks one budget");
    only_with({"loss", "down", "retry_timeout", "steps", "match_time", "window_initial",
               "window_max", "window_unasked", "max_rd_atomic", "limit_event", "tokens", "computes",
               "proxy_servers", "context_cache"},
              core, "only 'endpoints: core' has that");
    only_with({"admission"}, s_.tokens > 0, "only 'tokens' has that");
    only_with({"cct", "nrct", "crct"}, s_.thresholds, "only 'admission: thresholds' has that");
    only_with({"context_of", "context_miss"}, s_.context_cache > 0,
              "only 'context_cache' has that");
    if (!core) return;
    only_with({"from", "to"}, false, "'endpoints: core' does not have that");
    only_with({"steps"}, messages, "streams have no steps");
    only_with({"work"}, s_.steps_wait && !trace, "only 'steps: wait' has that");
    only_with({"processes"}, !trace, "a trace is of nodes");
    s_.steps_wait = s_.steps_wait || trace;
    only_with({"match_time"}, s_.steps_wait, "only 'steps: wait' and traces have that");
    only_with({"ecn"}, messages, "'endpoints: core' does not have that");
    if (s_.budget_of == BudgetOf::transfer && s_.adaptive) {
      blame({"reads_max", "budget"}, "what a connection has under way does not adapt");
    }
    if (s_.window_max > 0 && s_.window_initial > s_.window_max) {
      blame({"window_initial", "window_max"}, "more than window_max");
    }
    if (s_.proxy_servers > 0 && s_.processes < 2) {
      blame("proxy_servers", "a process alone on its node has nobody to send for");
    } else if (s_.proxy_servers > s_.processes) {
      blame("proxy_servers", fmt::format("a node has {} processes", s_.processes));
    }
    const std::uint64_t processes = std::uint64_t{nodes} * s_.processes;
    if (processes > most_cores) {
      const bool many = s_.processes > 1;
      blame(many ? "processes" : "endpoints",
            fmt::format("the fabric has {} {}; at most {} are simulated with all of the core",
                        processes, many ? "processes" : "nodes", most_cores));
    }
  }

  std::string trace_name() const {
    const config::Entry* const entry = find("trace");
    return entry == nullptr ? "none" : entry->value;
  }

  // It is beside the file that names it.
  void add_trace() {
    const std::filesystem::path path = std::filesystem::path(path_).parent_path() / trace_name();
    if (!std::ifstream(path)) return blame("trace", path.string() + " cannot be read");
    TraceFile trace = read_trace(path.string(), s_.fabric.topology.nodes(), s_.cycle_ns);
    s_.trace = std::move(trace.messages);
    problems_ = std::move(trace.problems);
  }

  const config::Source& source_;
  const std::string& path_;
  std::vector<config::Problem> problems_;
  Scenario s_;
};

}  // namespace

std::vector<ScenarioKey> scenario_keys() {
  std::vector<ScenarioKey> keys;
  for (const Row& row : rows) {
    const std::string takes = row.takes != nullptr ? row.takes : config::accepts(row.form);
    keys.push_back({row.form.name, takes, row.form.fallback, row.help});
  }
  return keys;
}

ScenarioFile parse_scenario(const std::string& text, const std::string& file) {
  return File(config::parse_yaml(text, file, config::Layer::named_file), file).read();
}

ScenarioFile read_scenario(const std::string& path) {
  return File(config::read_yaml_file(path, config::Layer::named_file), path).read();
}

}  // namespace weir::sim
